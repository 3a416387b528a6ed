"""Single events of a profile: custom functions, sequence numbers, scopes, inputs, options."""
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
    assert named(prof, "aten::sum")[0].sequence_nr == forward.sequence_nr + 1  # it took one number


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


def test_gradients_that_are_not_needed_are_not_computed():
    a, b = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    y = (a * b).sum()
    got = []
    prof = recorded(lambda: got.extend(torch.autograd.grad(y, [a])))
    (function,) = named(prof, "MulBackward0")
    assert [child.name for child in function.cpu_children] == ["aten::mul"]
    assert got[0].tolist() == [3.0, 3.0] and a.grad is None and b.grad is None
    assert len(named(prof, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")) == 1


def test_several_roots_have_a_node_of_their_own():
    a = torch.ones(2, requires_grad=True)
    x, y = (a * 2).sum(), (a * 3).sum()
    prof = recorded(lambda: torch.autograd.backward([x, y]))
    (root,) = named(prof, "torch::autograd::GraphRoot")
    assert root.scope == 1 and root.cpu_parent.name == "autograd::engine::evaluate_function: torch::autograd::GraphRoot"
    assert {row.key: row.scope for row in prof.key_averages()}["torch::autograd::GraphRoot"] == 1
    assert a.grad.tolist() == [5.0, 5.0]


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
    """Compared with the schemas, if PyTorch is installed."""
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


# ------------------------------------------------------------------------------------------------- activities


@pytest.mark.parametrize("alone", ["CPU", "cpu", "C", ProfilerActivity.CPU, b"CPU", 3])
def test_an_activity_by_itself_is_refused_with_what_is_expected(alone):
    for make in (lambda: profile(activities=alone), lambda: torch.profiler._KinetoProfile(activities=alone)):
        with pytest.raises(ValueError, match="activities must be a list of activities, such as") as caught:
            make()
        assert isinstance(caught.value, TypeError)


def test_toggling_an_activity_by_itself_is_refused():
    with profile(activities=CPU) as prof:
        with pytest.raises(ValueError, match=r'such as \["CPU"\]: got "CPU" by itself'):
            prof.toggle_collection_dynamic(False, "CPU")


def test_activities_may_be_any_iterable():
    for activities in (["cpu"], ("CPU",), {"CPU"}, iter(["CPU"]), {"CPU": ["CPU_OP"]}, [{ProfilerActivity.CPU: ["CPU_OP"]}]):
        assert profile(activities=activities).activities == {ProfilerActivity.CPU}


@pytest.mark.parametrize("names", [["nonsense"], ["CPU_OP", "nonsense"], ["cpu_op"], ["GPU_MEMCPY"], [3], [None], "CPU_OP"])
def test_a_filter_with_an_unknown_name_is_refused(names):
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match="must be a list of names" if names == "CPU_OP" else "Unknown or non-member activity type name: .* CPU_OP"):
            profile(activities=[{"CPU": names}])


def test_filters_take_the_names_of_their_activity():
    names = {"CPU_OP", "USER_ANNOTATION", "PYTHON_FUNCTION"}
    prof = profile(activities=[{"CPU": names}, {"NPU": ["GPU_MEMCPY", "CONCURRENT_KERNEL"]}])
    assert prof.activity_filters[ProfilerActivity.CPU] == names


# ---------------------------------------------------------------------------------------------------- options


def collected(prof):
    return [event for event in prof.events() if event.name == "Python GC"]


@pytest.mark.parametrize("with_stack", [False, True])
def test_collections_are_events_if_asked_for(with_stack, tmp_path):
    def body():
        with record_function("scope"):
            gc.collect()
            gc.collect(0)

    before = list(gc.callbacks)
    gc.disable()
    try:
        prof = recorded(body, with_stack=with_stack, experimental_config=_ExperimentalConfig(record_python_gc_info=True))
        none = recorded(body, with_stack=with_stack)
    finally:
        gc.enable()
    assert gc.callbacks == before
    assert len(collected(prof)) == 2 and collected(none) == []
    for event in collected(prof):
        assert event.is_python_function and event.activity_type == "python_function"
    assert collected(prof)[0].cpu_time_total >= collected(prof)[1].cpu_time_total >= 0
    shown = [event for event in exported(prof, tmp_path) if event["name"] == "Python GC"]
    assert [(event["cat"], event["args"]["args"]) for event in shown] == [("python_function", "generation 2"), ("python_function", "generation 0")]
    outer = next(event for event in exported(prof, tmp_path) if event["name"] == "scope")
    assert all(outer["ts"] <= event["ts"] and event["ts"] + event["dur"] <= outer["ts"] + outer["dur"] for event in shown)


def test_a_profile_that_ends_within_a_collection_leaves_nothing_behind():
    config = _ExperimentalConfig(record_python_gc_info=True)
    prof = profile(activities=CPU, experimental_config=config)

    def stop(phase, info):
        if phase == "start":
            prof.stop()

    prof.start()
    gc.callbacks.append(stop)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(stop)
    assert len(collected(prof)) == 1
    again = recorded(lambda: (torch.ones(2), gc.collect()), experimental_config=config)
    assert [event.name for event in again.events() if event.cpu_parent is None] == ["aten::ones", "Python GC"]


def test_metadata_is_exposed_if_asked_for(tmp_path):
    def body():
        with record_function("scope", "text"):
            torch.ones(2) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof = recorded(body, experimental_config=_ExperimentalConfig(expose_kineto_event_metadata=True))
        shown = {event["name"]: event["args"] for event in exported(prof, tmp_path) if event.get("cat") in ("cpu_op", "user_annotation")}
        for event in prof.events():
            told = json.loads("{" + event.metadata_json + "}")
            assert told["Ev Idx"] == shown[event.name]["Ev Idx"] or event.name == "aten::fill_"
            assert told.get("args") == ("text" if event.name == "scope" else None)
        assert {event.metadata_json for event in recorded(body).events()} == {""}


def test_an_execution_trace_without_a_capture_has_its_root(tmp_path):
    path = tmp_path / "et.json"
    ExecutionTraceObserver().register_callback(str(path)).unregister_callback()
    trace = json.loads(path.read_text())
    (root,) = trace["nodes"]
    assert (root["id"], root["ctrl_deps"], root["name"]) == (1, 1, "[pytorch|profiler|execution_trace|process]")
    assert trace["start_ts"] <= trace["finish_ts"] and trace["start_ts"] > 0


def test_the_root_without_a_capture_is_the_root_with_one(tmp_path):
    roots = []
    for capture in (False, True):
        path = tmp_path / f"{capture}.json"
        observer = ExecutionTraceObserver().register_callback(str(path))
        if capture:
            observer.start()
            observer.stop()
        observer.unregister_callback()
        roots.append(json.loads(path.read_text())["nodes"][0])
    assert roots[0] == roots[1]


DAEMON = """
import mindtorch_v2 as torch
w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    w.sum().backward()
    optimizer.step()
from mindtorch_v2.profiler import KinetoStepTracker
print(KinetoStepTracker.current_step())
"""


@pytest.mark.parametrize("daemon, steps", [("", "0"), ("1", "3")])
def test_steps_of_optimizers_are_counted_for_a_daemon(daemon, steps):
    env = {**os.environ, "KINETO_USE_DAEMON": daemon}
    done = subprocess.run([sys.executable, "-c", DAEMON], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == steps, done.stderr


# ----------------------------------------------------------------------------------------------------- memory

ALL = dict(record_shapes=True, profile_memory=True, with_stack=True)


def timeline(prof, tmp_path, **options):
    path = tmp_path / "m.json"
    prof.export_memory_timeline(str(path), **options)
    return json.loads(path.read_text())


def test_a_timeline_without_a_device_shows_one_with_traffic(tmp_path):
    with torch.device("cpu"), profile(**ALL) as prof:  # with an accelerator, if there is one
        kept = torch.ones(1000)
    assert timeline(prof, tmp_path) == timeline(prof, tmp_path, device="cpu")
    assert max(sum(row) for row in timeline(prof, tmp_path)[1]) >= 4000
    del kept


@pytest.mark.skipif(not torch.npu.is_available(), reason="mindtorch_v2.npu.is_available() is False")
def test_a_timeline_without_a_device_shows_the_accelerator_that_was_used(tmp_path):
    with profile(**ALL) as prof:
        kept = torch.ones(1000, device="npu")
    assert timeline(prof, tmp_path) == timeline(prof, tmp_path, device="npu:0") != timeline(prof, tmp_path, device="cpu")
    del kept


# --------------------------------------------------------------------------------------------------- averages


def with_functions():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    return recorded(lambda: model(torch.ones(1, 2)), with_stack=True, with_modules=True)


def test_python_functions_have_rows_only_if_asked_for():
    prof = with_functions()
    functions = {event.key for event in prof.events() if event.is_python_function}
    assert any(key.startswith("nn.Module: ") for key in functions)
    for source in (prof, prof.profiler, prof.events()):
        assert {row.key for row in source.key_averages()} & functions == set()
        assert functions < {row.key for row in source.key_averages(include_python_functions=True)}
    assert "nn.Module" not in prof.key_averages().table() and "nn.Module" in prof.key_averages(include_python_functions=True).table()


@pytest.mark.parametrize("include", [False, True])
def test_averages_of_changed_events_are_those_of_recorded_ones(include):
    prof = with_functions()
    lazy = {row.key: (row.count, row.cpu_time_total) for row in prof.key_averages(include_python_functions=include)}
    events = prof.events()
    events.append(events.pop())
    plain = {row.key: (row.count, pytest.approx(row.cpu_time_total)) for row in prof.key_averages(include_python_functions=include)}
    assert lazy == plain


@pytest.mark.parametrize("touch", [False, True])
def test_rows_that_are_grouped_again_are_the_same_rows(touch):
    rows = with_functions().key_averages(include_python_functions=True)
    keys = {row.key for row in rows} if touch else None
    again = {row.key for row in rows.key_averages()}
    assert again == (keys or {row.key for row in rows})
