"""What single events of a profile tell: functions of one's own, sequence numbers, scopes, inputs, options."""
import gc
import json
import os
import subprocess
import sys
import warnings

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import ExecutionTraceObserver, ProfilerActivity, _ExperimentalConfig, profile, record_function, schedule

CPU = [ProfilerActivity.CPU]


def recorded(body, **options):
    with profile(activities=CPU, **options) as prof:
        body()
    return prof


def named(prof, name):
    return [event for event in prof.events() if event.name == name]


def exported(prof, tmp_path):
    path = str(tmp_path / "t.json")
    prof.export_chrome_trace(path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, number, y):
        return x * number + y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None, grad


# ------------------------------------------------------------------------------------- functions of one's own


def test_the_forward_of_a_function_is_an_event():
    w, y = torch.ones(2, requires_grad=True), torch.ones(1, 2)
    prof = recorded(lambda: Twice.apply(w, 2, y).sum().backward(), record_shapes=True)
    (forward,), (backward,) = named(prof, "Twice"), named(prof, "TwiceBackward")
    assert forward.scope == 0 and not forward.is_user_annotation
    assert forward.input_shapes == [[2], [1, 2]]
    assert [child.name for child in forward.cpu_children] == ["aten::mul", "aten::add"]
    assert forward.sequence_nr == backward.sequence_nr >= 0 and backward.fwd_thread == forward.thread


def test_a_function_that_raises_ends_its_event():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            raise KeyError("mine")

    def body():
        with pytest.raises(KeyError):
            Wrong.apply(torch.ones(2))
        torch.ones(2) * 2

    prof = recorded(body)
    assert len(named(prof, "Wrong")) == 1 and named(prof, "aten::mul")[0].cpu_parent is None


def test_functions_within_functions_nest_and_keep_their_numbers():
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.inner = Inner.apply(x.detach().requires_grad_())
            return ctx.inner.detach()

        @staticmethod
        def backward(ctx, grad):
            ctx.inner.backward(grad)
            return grad * 2

    w = torch.ones(2, requires_grad=True)
    prof = recorded(lambda: Outer.apply(w).sum().backward())
    by_name = {event.name: event for event in prof.events()}
    assert by_name["Inner"].cpu_parent.name == "Outer"
    assert by_name["Outer"].sequence_nr < by_name["Inner"].sequence_nr < by_name["aten::sum"].sequence_nr
    for name in ("Inner", "Outer"):
        assert by_name[name].sequence_nr == by_name[f"{name}Backward"].sequence_nr


def test_a_function_outside_of_a_profile_takes_its_number_too():
    w = torch.ones(2, requires_grad=True)
    made = Twice.apply(w * 1, 2, w)
    assert made.grad_fn.name() == "TwiceBackward"
    made.sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


# --------------------------------------------------------------------------------------------- numbers, scopes


def test_factories_have_no_sequence_number():
    w = torch.ones(2, requires_grad=True)

    def body():
        for make in (lambda: torch.ones(2), lambda: torch.zeros(2), lambda: torch.full((2,), 1.0), lambda: torch.randn(2),
                     lambda: torch.arange(3), lambda: torch.ones_like(w), lambda: torch.zeros_like(w)):
            make()
        w * w

    events = list(recorded(body).events())
    product = next(event for event in events if event.name == "aten::mul")
    assert product.sequence_nr >= 0
    assert {event.name for event in events if event.sequence_nr >= 0} == {"aten::mul"}


def test_no_two_ops_of_a_graph_share_a_sequence_number():
    w = torch.ones(2, requires_grad=True)

    def body():
        torch.ones(2)
        y = w * w
        torch.zeros(3)
        torch.ones(2)
        y.sum().backward()

    numbers = [e.sequence_nr for e in recorded(body).events() if e.sequence_nr >= 0 and e.scope == 0 and "evaluate" not in e.name]
    assert len(numbers) == len(set(numbers)) == 2


def test_without_grad_nothing_has_a_sequence_number():
    w = torch.ones(2, requires_grad=True)

    def body():
        with torch.no_grad():
            w * w

    assert [event.sequence_nr for event in recorded(body).events()] == [-1]


def test_accumulation_is_of_the_backward_scope():
    w = torch.ones(2, requires_grad=True)
    (event,) = named(recorded(lambda: (w * 2).sum().backward()), "torch::autograd::AccumulateGrad")
    assert (event.scope, event.sequence_nr, event.is_user_annotation) == (1, -1, False)


def test_hooks_of_a_leaf_run_before_its_accumulation():
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda grad: grad.exp())
    (event,) = named(recorded(lambda: (w * 2).sum().backward()), "aten::exp")
    assert event.cpu_parent.name == "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


# ----------------------------------------------------------------------------------------------------- inputs

F32, F64, I64 = 6, 7, 4  # PyTorch's numbers
INPUTS = {
    "ones": (lambda: torch.ones(2), [[2], None, None, None, False]),
    "ones dtype": (lambda: torch.ones(2, dtype=torch.float64), [[2], F64, None, None, False]),
    "ones device": (lambda: torch.ones(2, device="cpu"), [[2], None, None, None, False]),
    "ones_like": (lambda: torch.ones_like(torch.ones(2)), [None, None, None, None, False, None]),
    "full": (lambda: torch.full((2,), 3.0), [[2], 3.0, None, None, None, False]),
    "arange": (lambda: torch.arange(1, 3), [1, 3, None, None, None, False]),
    "clone": (lambda: torch.ones(2).clone(), [None, None]),
    "gather": (lambda: torch.ones(2).gather(0, torch.zeros(1, dtype=torch.int64)), [None, 0, None, False]),
    "sum": (lambda: torch.ones(2).sum(dtype=torch.float64), [None, F64]),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_those_of_pytorchs_op(name):
    body, inputs = INPUTS[name]
    event = named(recorded(body, record_shapes=True), f"aten::{name.split()[0]}")[-1]
    assert event.concrete_inputs == inputs and len(event.input_shapes) == len(inputs)


def test_every_op_is_recorded_with_as_many_inputs_as_pytorchs():
    """By the schemas, where PyTorch is installed."""
    peer = pytest.importorskip("torch")
    for make in (lambda t: t.ones(2), lambda t: t.zeros_like(t.ones(2)), lambda t: t.ones(2, 3).t().contiguous(), lambda t: t.ones(2).to(t.float64),
                 lambda t: t.rand(2), lambda t: t.eye(2), lambda t: t.linspace(0, 1, 3), lambda t: t.randperm(3), lambda t: t.bernoulli(t.ones(2)),
                 lambda t: t.randint(0, 3, (2,)), lambda t: t.ones(3).index_add_(0, t.tensor([0]), t.ones(1)), lambda t: t.empty_like(t.ones(2)),
                 lambda t: t.nn.functional.scaled_dot_product_attention(t.ones(1, 1, 2, 2), t.ones(1, 1, 2, 2), t.ones(1, 1, 2, 2))):
        counts = []
        for module in (peer, torch):
            with module.profiler.profile(activities=[module.profiler.ProfilerActivity.CPU], record_shapes=True) as prof:
                make(module)
            last = [event for event in prof.events() if event.cpu_parent is None][-1]
            counts.append((last.name, len(last.input_shapes)))
        assert counts[0] == counts[1]


def test_the_args_of_a_scope_are_its_input(tmp_path):
    def body():
        with record_function("scope", 'some "text"'):
            pass
        with record_function("scope"):
            pass

    prof = recorded(body, record_shapes=True)
    one, other = named(prof, "scope")
    assert one.input_shapes == [[]] and one.concrete_inputs == ['some "text"']
    assert other.input_shapes == [] and other.concrete_inputs == []
    shown = [event["args"] for event in exported(prof, tmp_path) if event["name"] == "scope"]
    assert (shown[0]["Input Dims"], shown[0]["Input type"], shown[0]["args"]) == ([[]], [""], 'some "text"')
    assert "Input Dims" not in shown[1]
    assert "some" in shown[0]["Concrete Inputs"][0]


def test_the_args_of_a_scope_are_no_input_without_shapes():
    def body():
        with record_function("scope", "text"):
            pass

    assert named(recorded(body), "scope")[0].input_shapes == []
