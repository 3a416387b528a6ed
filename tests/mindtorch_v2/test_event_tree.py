"""The event tree, the private names that tools import, and memory replaced under a tensor. If PyTorch is installed, the same
program runs there too, and the trees are compared."""
import gc
import importlib
import json
import subprocess
import sys
import threading

import pytest

import mindtorch_v2 as torch
import mindtorch_v2._C._profiler as private
from mindtorch_v2.profiler import profile, record_function


def walk(nodes):
    for node in nodes:
        yield node
        yield from walk(node.children)


def tree_of(prof):
    return prof.profiler.kineto_results.experimental_event_tree()


def find(nodes, name):
    return next(node for node in walk(nodes) if node.name == name)


def recorded(code, **options):
    options = {"record_shapes": True, "profile_memory": True, **options}
    with profile(**options) as prof:
        code()
    return tree_of(prof)


def tensors(node):
    return [i for i in node.extra_fields.inputs if isinstance(i, private._TensorMetadata)]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.second = torch.nn.Linear(4, 2, bias=False)

    def forward(self, x):
        return self.second(self.first(x).relu())


# ---------------------------------------------------------------------------------------------------------- the tree


def test_children_and_parents_agree_and_times_nest():
    roots = recorded(lambda: Net()(torch.ones(5, 3)).sum().backward(), with_stack=True)
    assert all(root.parent is None for root in roots)
    count = 0
    for node in walk(roots):
        count += 1
        assert node.duration_time_ns == node.end_time_ns - node.start_time_ns >= 0
        assert node.typed == (node.tag, node.extra_fields)
        for child in node.children:
            assert child.parent is node
            assert node.start_time_ns <= child.start_time_ns <= child.end_time_ns <= node.end_time_ns
    assert count > 50
    starts = [root.start_time_ns for root in roots]
    assert starts == sorted(starts)


def test_an_event_asked_for_twice_is_the_same_object():
    roots = recorded(lambda: torch.ones(2))
    ones = find(roots, "aten::ones")
    assert find(roots, "aten::ones") is ones
    assert ones.children.index(find(roots, "aten::fill_")) == 1
    assert len({ones, find(roots, "aten::ones")}) == 1


def test_tags_and_extra_fields_fit():
    def code():
        with record_function("scope"):
            torch.ones(2)

    roots = recorded(code, with_stack=True)
    kinds = {"TorchOp": private._ExtraFields_TorchOp, "Allocation": private._ExtraFields_Allocation,
             "PyCall": private._ExtraFields_PyCall, "PyCCall": private._ExtraFields_PyCCall}
    seen = set()
    for node in walk(roots):
        assert isinstance(node.tag, private._EventType)
        assert isinstance(node.extra_fields, kinds[node.tag.name])
        seen.add(node.tag.name)
    assert seen == set(kinds)
    assert find(roots, "scope").extra_fields.scope == private.RecordScope.USER_SCOPE
    assert find(roots, "aten::ones").extra_fields.scope == private.RecordScope.FUNCTION
    with pytest.raises(TypeError):
        private._ProfilerEvent()


def test_threads_have_numbers_of_their_own():
    def code():
        torch.ones(1)
        thread = threading.Thread(target=lambda: torch.zeros(1))
        thread.start()
        thread.join()

    roots = recorded(code)
    assert find(roots, "aten::ones").start_tid == 1
    assert find(roots, "aten::zeros").start_tid == 2


def test_a_tree_of_nothing_is_empty_and_a_running_profile_has_none():
    assert recorded(lambda: None) == []
    with profile() as prof:
        assert prof.profiler.kineto_results is None


# ------------------------------------------------------------------------------------------------------------ tensors


def test_inputs_are_tensors_lists_numbers_and_nothing():
    x = torch.ones(2, 3, dtype=torch.float64)

    def code():
        torch.cat([x, x], 0)
        torch.add(x, x, alpha=0.5)
        torch.sum(x, dim=1)
        torch.add(x, 2)

    roots = recorded(code)
    several, dim = find(roots, "aten::cat").extra_fields.inputs
    assert dim == 0 and len(several) == 2
    assert several[0].impl_ptr == several[1].impl_ptr
    assert [t.dtype for t in several] == [torch.float64] * 2
    adds = [node.extra_fields.inputs for node in walk(roots) if node.name == "aten::add"]
    assert adds[0][2] == 0.5 and isinstance(adds[0][2], float)
    assert (adds[0][0].sizes, adds[0][0].strides, adds[0][0].dim) == ([2, 3], [3, 1], 2)
    assert (adds[0][0].device, adds[0][0].layout) == (torch.device("cpu"), torch.strided)
    assert (adds[1][1].sizes, adds[1][1].dtype) == ([], torch.int64) and adds[1][1].id is not None
    inputs = find(roots, "aten::sum").extra_fields.inputs
    assert inputs[1] is None and inputs[2] is False


def test_without_shapes_there_are_no_inputs_and_without_memory_no_allocations():
    roots = recorded(lambda: torch.ones(2), record_shapes=False)
    assert find(roots, "aten::fill_").extra_fields.inputs == []
    assert any(node.tag.name == "Allocation" for node in walk(roots))
    roots = recorded(lambda: torch.ones(2), profile_memory=False)
    assert not any(node.tag.name == "Allocation" for node in walk(roots))
    assert tensors(find(roots, "aten::fill_"))[0].id == 0


def test_views_share_an_id_and_tensors_made_one_after_the_other_do_not():
    x = torch.ones(4)

    def code():
        x.view(2, 2).neg()
        x.sin()
        for _ in range(50):
            torch.ones(3).cos()

    roots = recorded(code)
    neg, sin = tensors(find(roots, "aten::neg"))[0], tensors(find(roots, "aten::sin"))[0]
    assert neg.id == sin.id and neg.storage_data_ptr == sin.storage_data_ptr == x.storage().data_ptr()
    assert neg.impl_ptr != sin.impl_ptr
    cos = [tensors(node)[0] for node in walk(roots) if node.name == "aten::cos"]
    for what in ("id", "allocation_id", "impl_ptr"):
        assert len({getattr(t, what) for t in cos}) == 50, what


def test_allocations_carry_the_ids_of_their_tensors():
    def code():
        x = torch.empty(3, 4)
        x.sin()
        del x

    events = [node.extra_fields for node in walk(recorded(code)) if node.tag.name == "Allocation"]
    made, other, other_free, freed = events
    assert (made.alloc_size, freed.alloc_size) == (48, -48)
    assert made.ptr == freed.ptr and made.id == freed.id == 0 and made.allocation_id == freed.allocation_id == 1
    assert other.id is other_free.id is None and other.allocation_id == other_free.allocation_id == 2, "nothing used it, as in PyTorch"
    assert freed.total_allocated == made.total_allocated - 48
    assert (made.device, made.total_reserved) == (torch.device("cpu"), 0)


def test_memory_exchanged_under_a_tensor_keeps_its_id():
    def code():
        x = torch.ones(2)
        x.sin()
        x.resize_(100)
        x.cos()
        x.set_(torch.zeros(7).storage())
        x.tan()

    roots = recorded(code)
    a, b, c = (tensors(find(roots, f"aten::{name}"))[0] for name in ("sin", "cos", "tan"))
    assert a.id == b.id == c.id
    assert len({a.allocation_id, b.allocation_id, c.allocation_id}) == 3
    assert [child.extra_fields.alloc_size for child in find(roots, "aten::resize_").children] == [400, -8]


# ------------------------------------------------------------------------------------------------ modules, optimizers


def test_modules_tell_their_parameters_as_they_were_at_the_first_call():
    net = Net()
    x = torch.ones(1, 3)

    def code():
        net(x).sum().backward()
        net(x)

    roots = recorded(code, with_stack=True)
    nodes = [node for node in walk(roots) if node.name == "nn.Module: Linear_0"]
    calls = [node.extra_fields for node in nodes]
    assert len(calls) == 2
    assert [len(node._tree.native.held(node.id)) for node in nodes] == [3, 1], "the second says whose it is, and no more"
    for call in calls:
        assert call.optimizer is None
        assert (call.module.self_ptr, call.module.cls_ptr, call.module.cls_name) == (id(net.first), id(type(net.first)), "Linear")
        assert [(name, grad) for name, _, grad in call.module.parameters] == [("weight", None), ("bias", None)]
    weight = calls[0].module.parameters[0][1]
    assert (weight.sizes, weight.storage_data_ptr) == ([4, 3], net.first.weight.storage().data_ptr())
    linear = find(roots, "aten::linear").extra_fields.inputs
    assert weight.id == linear[1].id and weight.impl_ptr == linear[1].impl_ptr
    assert find(roots, "nn.Module: Net_0").extra_fields.module.parameters == []

    roots = recorded(lambda: net(x), with_stack=True)
    grads = find(roots, "nn.Module: Linear_0").extra_fields.module.parameters[0][2]
    assert grads.storage_data_ptr == net.first.weight.grad.storage().data_ptr()


@pytest.mark.parametrize("made", [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.1)])
def test_optimizers_tell_parameters_gradients_and_state(made):
    net = Net()
    optimizer = made(net.parameters())

    def code():
        for _ in range(2):
            net(torch.ones(1, 3)).sum().backward()
            optimizer.step()

    roots = recorded(code, with_stack=True)
    steps = [node.extra_fields for node in walk(roots) if node.name.endswith("_optimizer_step_code")]
    assert len(steps) == 2 and all(step.module is None for step in steps)
    for step in steps:
        assert step.optimizer.self_ptr == id(optimizer)
        assert len(step.optimizer.parameters) == 3
        for (param, grad, state), tensor in zip(step.optimizer.parameters, net.parameters()):
            assert param.storage_data_ptr == tensor.storage().data_ptr()
            assert grad.storage_data_ptr == tensor.grad.storage().data_ptr()
            held = {name: value for name, value in optimizer.state[tensor].items() if isinstance(value, torch.Tensor)}
            assert {name: value.storage_data_ptr for name, value in state} == {n: v.storage().data_ptr() for n, v in held.items()}


def test_objects_are_told_of_without_shapes_too_and_do_not_show_in_traces(tmp_path):
    net = Net()
    with profile(with_modules=True) as prof:
        net(torch.ones(1, 3))
    call = find(tree_of(prof), "nn.Module: Linear_0").extra_fields
    assert [name for name, _, _ in call.module.parameters] == ["weight", "bias"]
    prof.export_chrome_trace(str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    module = next(e for e in events if e.get("name") == "nn.Module: Linear_0")
    assert "Input Dims" not in module["args"]


def test_a_module_with_odd_attributes_disturbs_nothing():
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.register_parameter("none", None)

        def __getattr__(self, name):
            if name == "grad":
                raise RuntimeError("never asked")
            return super().__getattr__(name)

        def forward(self, x):
            return x * self.weight

    odd = Odd()
    odd._parameters["strange"] = "no tensor"
    roots = recorded(lambda: odd(torch.ones(2)), with_stack=True)
    assert [name for name, _, _ in find(roots, "nn.Module: Odd_0").extra_fields.module.parameters] == ["weight"]
    odd.__dict__["_parameters"] = None
    gc.collect()


# ------------------------------------------------------------------------------------------------------------- frames


def test_callers_are_the_frames_around():
    def inner():
        return torch.ones(1)

    def outer():
        inner()
        len("abc")

    roots = recorded(outer, with_stack=True)
    node = next(n for n in walk(roots) if n.name.endswith(": inner"))
    assert (node.extra_fields.callsite.function_name, node.extra_fields.caller.function_name) == ("inner", "outer")
    assert node.extra_fields.callsite.line_number == inner.__code__.co_firstlineno
    assert node.extra_fields.caller.line_number == outer.__code__.co_firstlineno + 1
    assert __file__.endswith(node.extra_fields.caller.file_name)  # without the modules' folder
    builtin = find(roots, "<built-in function len>").extra_fields
    assert builtin.caller.function_name == "outer"
    for n in walk(roots):  # the tree agrees with the stack
        if not n.tag.name.startswith("Py"):
            continue
        above = n.parent
        while above is not None and above.tag.name != "PyCall":
            above = above.parent
        if above is not None:
            want, got = above.extra_fields.callsite, n.extra_fields.caller
            assert (want.file_name, want.function_name) == (got.file_name, got.function_name), n.name


# ------------------------------------------------------------------------------------------------------ private names


def test_modules_of_private_names_are_found_by_any_import():
    assert importlib.import_module("mindtorch_v2._C._profiler") is private is torch._C._profiler
    from mindtorch_v2._C._autograd import _profiler_enabled  # noqa: F401
    from mindtorch_v2.autograd import _profiler_enabled as same

    assert same is _profiler_enabled
    assert "_ProfilerEvent" in dir(private)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        private.nonsense
    code = "import sys, mindtorch_v2; sys.exit('mtprof' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0, "importing the runtime alone loads no profiler"


def test_what_scripts_probe_is_there_and_says_no():
    assert torch.version.hip is None and torch.version.cuda is None and torch.version.__version__ == torch.__version__
    assert not torch.backends.mkldnn.is_available() and not torch.xpu.is_available() and torch.xpu.device_count() == 0


def test_fast_scopes_have_inputs_and_keywords_where_shapes_are_recorded(tmp_path):
    x = torch.ones(3, 4)
    with profile(record_shapes=True) as prof:
        with private._RecordFunctionFast("fast", [x, 2], {"stream": 3, "grid": "g"}):
            pass
        with private._RecordFunctionFast("plain"):
            torch.ones(1)
        with private._RecordFunctionFast("lists", [[x, x], [4, 5], (), "text", None], {"list": [1, 2], "none": None}):
            pass
        with pytest.warns(UserWarning, match="keyword: odd"):
            with private._RecordFunctionFast("odd", (), {"odd": object()}):
                pass
    fast = next(e for e in prof.events() if e.name == "fast")
    assert (fast.input_shapes, fast.kwinputs, fast.concrete_inputs) == ([[3, 4], []], {"stream": 3, "grid": "g"}, [None, 2])
    lists = next(e for e in prof.events() if e.name == "lists")
    assert (lists.kwinputs, lists.concrete_inputs) == ({"list": [1, 2], "none": None}, [None, [4, 5], [], None, None])
    plain = find(tree_of(prof), "plain")
    assert plain.children[0].name == "aten::ones"
    assert next(e for e in prof.events() if e.name == "odd").kwinputs == {"odd": "NULL"}
    prof.export_chrome_trace(str(tmp_path / "t.json"))
    args = next(e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e.get("name") == "fast")["args"]
    assert (args["stream"], args["grid"], args["Input Dims"]) == (3, "g", [[3, 4], []])
    with profile() as prof, private._RecordFunctionFast("fast", [x], {"stream": 3}):
        pass
    assert prof.events()[0].kwinputs == {}


def test_fast_scopes_check_what_they_are_given():
    with pytest.raises(TypeError):
        private._RecordFunctionFast(3)
    with pytest.raises(TypeError, match="list or tuple"):
        private._RecordFunctionFast("x", 3)
    with pytest.raises(TypeError, match="dict"):
        private._RecordFunctionFast("x", [], [])
    scope = private._RecordFunctionFast("again")
    with scope:
        pass
    with profile() as prof:
        for _ in range(2):
            with scope:
                pass
        with scope, pytest.raises(RuntimeError, match="already open"):
            scope.__enter__()
    assert [e.name for e in prof.events()] == ["again"] * 3


def test_scopes_with_arguments_and_scopes_by_hand():
    from mindtorch_v2.autograd import _record_function_with_args_enter, _record_function_with_args_exit

    u = torch.randn(3, 4, 5)
    with profile(record_shapes=True) as prof:
        with record_function("one", "1, 2, 3"):
            handle = _record_function_with_args_enter("two", 1, False, 2.5, [u, u], "hello", u)
            _record_function_with_args_exit(handle)
        handle = torch.ops.profiler._record_function_enter_new("three", None)
        torch.ops.profiler._record_function_exit(handle)
    shapes = {e.name: e.input_shapes for e in prof.events()}
    assert shapes == {"one": [[]], "two": [[], [], [], [], [], [3, 4, 5]], "three": []}
    _record_function_with_args_exit(_record_function_with_args_enter("nobody records"))


def test_profiler_enabled_and_driving_by_hand():
    from mindtorch_v2 import autograd

    assert not autograd._profiler_enabled()
    config = private.ProfilerConfig(private.ProfilerState.KINETO, True, False, False, False, False, private._ExperimentalConfig())
    activities = {private.ProfilerActivity.CPU}
    with pytest.raises(RuntimeError, match="_enable_profiler"):
        autograd._disable_profiler()
    autograd._prepare_profiler(config, activities)
    autograd._enable_profiler(config, activities)
    assert autograd._profiler_enabled()
    torch.ones(2)
    result = autograd._disable_profiler()
    assert not autograd._profiler_enabled()
    assert [e.name() for e in result.events()] == ["aten::ones", "aten::empty", "aten::fill_"]
    assert [e.name for e in result.experimental_event_tree()] == ["aten::ones"]
    first = result.events()[0]
    assert first.end_ns() - first.start_ns() == first.duration_ns() and first.start_ns() >= result.trace_start_ns()


def test_toggles_leave_out_what_they_name(tmp_path):
    x = torch.ones(2, requires_grad=True)

    def run():
        with profile(record_shapes=True) as prof:
            torch.add(x, x, alpha=3).sum().backward()
        path = tmp_path / "t.json"
        prof.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
        add = next(e for e in prof.events() if e.name == "aten::add")
        return add.concrete_inputs, any("Concrete Inputs" in e.get("args", {}) for e in events), any(e.get("cat") == "fwdbwd" for e in events)

    assert run() == ([None, None, 3], True, True)
    try:
        private._set_record_concrete_inputs_enabled_val(False)
        assert not private._get_record_concrete_inputs_enabled()
        assert run() == ([], False, True)
        private._set_fwd_bwd_enabled_val(False)
        assert run() == ([], False, False)
    finally:
        private._set_record_concrete_inputs_enabled_val(True)
        private._set_fwd_bwd_enabled_val(True)
    assert run() == ([None, None, 3], True, True)


def test_tracebacks_and_clocks():
    def here():
        return private.gather_traceback(True, False, False)

    frames = private.symbolize_tracebacks([here()])[0]
    assert frames[0] == {"name": "here", "filename": __file__, "line": here.__code__.co_firstlineno + 1}
    assert frames[1]["name"] == "test_tracebacks_and_clocks"
    assert private.symbolize_tracebacks([private.gather_traceback(False, False, False)]) == [[]]
    import ctypes
    import time

    malloc = ctypes.cast(ctypes.CDLL("libc.so.6").malloc, ctypes.c_void_p).value
    known, unknown = private.symbolize_addresses([malloc, 12345], "fast")
    assert "libc" in known[0] and known[1] > 0 and known[2] == "malloc" and unknown == ("??", 0, "??")
    with pytest.raises(RuntimeError, match="dladdr"):
        private.symbolize_addresses([], "slow")
    converter = private._ApproximateClockToUnixTimeConverter()
    before, now, after = time.time_ns(), converter.to_unix_ns(private._get_approximate_time()), time.time_ns()
    assert before - 10**9 < now < after + 10**9


# ------------------------------------------------------------------------------------------ memory under a tensor


def test_resize_and_set_behave_as_in_torch():
    x = torch.arange(6)
    view = x.view(2, 3)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.storage().size() == 6 and view.tolist() == [[0, 1, 2], [3, 4, 5]]
    x.resize_((8,))
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    x[0] = 9
    assert view[0, 0].item() == 0, "the view keeps the old memory"
    y = torch.zeros(3, dtype=torch.int64)
    y.set_(x)
    assert y.shape == (8,) and y.data_ptr() == x.data_ptr()
    assert y.set_().numel() == 0
    y.set_(x.storage(), 1, (2,))
    assert y.tolist() == x[1:3].tolist()
    with pytest.raises(RuntimeError, match="require grad"):
        torch.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(RuntimeError):
        torch.ones(2).set_(torch.ones(2, dtype=torch.float64))
    with pytest.raises(RuntimeError):
        torch.ones(2).resize_(-1)
    assert x.storage() == x.view(2, 4).storage() and x.storage().nbytes() == 64 and x.storage()[1] == 1


@pytest.mark.parametrize("change", [lambda x: x.resize_(2, 2), lambda x: x.resize_(2), lambda x: x.resize_(100),
                                    lambda x: x.set_(torch.zeros(4)), lambda x: x.set_()])
def test_autograd_notices_memory_that_was_exchanged(change):
    w, x = torch.ones(4, requires_grad=True), torch.ones(4)
    loss, before = (w * x).sum(), x._version
    change(x)
    assert x._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# ---------------------------------------------------------------------------------------------- beside real torch

PROGRAM = """
import json, sys
torch = __import__(sys.argv[1])
from importlib import import_module
profile = import_module(sys.argv[1] + ".profiler").profile
record_function = import_module(sys.argv[1] + ".profiler").record_function
a = torch.ones(4, 3)
with profile(record_shapes=True, profile_memory=True) as prof:
    with record_function("outer"):
        b = torch.zeros(4, 3)
        c = torch.maximum(a, b)
        d = c.view(2, 6)
        e = torch.tanh(d)
        del c
        for _ in range(3):
            f = torch.sigmoid(e)
            e = torch.mul(f, d)
        g = torch.cat([e, f], 1)
        g.neg_()  # torch knows results by their use, we by their op as well
    h = a.sin()
    h.neg_()
    torch.exp(h).neg_()
def show(node):
    fields = node.extra_fields
    row = [node.name, node.tag.name]
    kind = type(fields).__name__
    if kind == "_ExtraFields_TorchOp":
        def one(i):
            if isinstance(i, list):
                return [one(k) for k in i]
            return [i.id, i.allocation_id, i.sizes, i.strides, str(i.dtype), str(i.device)] if hasattr(i, "sizes") else None
        row += [int(fields.scope), [t for t in map(one, fields.inputs) if t]]
    else:
        row += [fields.id, fields.allocation_id, fields.alloc_size, str(fields.device)]
    return row + [[show(child) for child in node.children]]
print(json.dumps([show(node) for node in prof.profiler.kineto_results.experimental_event_tree()]))
"""


def test_the_tree_is_that_of_real_torch():
    def run(name):
        done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ours = run("mindtorch_v2")
    assert len(ours) > 3
    pytest.importorskip("torch")
    assert ours == run("torch")


# ------------------------------------------------------------------------------------------- parts of an op's work


def _parts(torch, call):
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        call()

    def named(nodes):
        return [(node.name, named(node.children)) for node in nodes if node.name != "[memory]"]

    return named(prof.profiler.kineto_results.experimental_event_tree())


_PARTS = {
    "clone": lambda t: (lambda x=t.ones(3): x.clone()), "to": lambda t: (lambda x=t.ones(3): x.to(t.float64)),
    "empty_like": lambda t: (lambda x=t.ones(3): t.empty_like(x)), "ones_like": lambda t: (lambda x=t.ones(3): t.ones_like(x)),
    "detach": lambda t: (lambda x=t.ones(3): x.detach()), "empty_strided": lambda t: (lambda: t.empty_strided((2, 3), (1, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", _PARTS)
def test_ops_that_are_made_of_others_are_shown_as_pytorch_shows_them(name):
    theirs = pytest.importorskip("torch")
    assert _parts(torch, _PARTS[name](torch)) == _parts(theirs, _PARTS[name](theirs))


def test_the_copy_that_a_product_begins_with_is_shown():
    x, bias = torch.ones(2, 2), torch.ones(2)
    assert _parts(torch, lambda: torch.addmm(bias, x, x)) == [("aten::addmm", [("aten::copy_", [])])]
    assert _parts(torch, lambda: torch.addmm(bias, x, x, beta=0)) == [("aten::addmm", [])], "nothing is copied then"
    with torch.profiler.profile(record_shapes=True) as prof:
        y = torch.addmm(bias, x, x)
    (op,) = prof.profiler.kineto_results.experimental_event_tree()
    out, source, blocking = op.children[0].extra_fields.inputs
    assert (out.sizes, out.storage_data_ptr, source.sizes, blocking) == ([2, 2], y.storage().data_ptr(), [2], False)


def test_what_an_op_does_for_itself_is_not_shown():
    """mean() of integers with another dtype makes its own copy."""
    x = torch.ones(3, 4, dtype=torch.int64)
    assert _parts(torch, lambda: x.sum(dtype=torch.float64)) == [("aten::sum", [])]
