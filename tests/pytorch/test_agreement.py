"""mtprof.pytorch and torch.profiler record the same programs, and say the same."""
import gzip
import json
import warnings
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-pytorch` fetches it")

import mtprof.pytorch as ours  # noqa: E402
from mtprof.profiler import results  # noqa: E402
from compare import differences, record, shown, silence  # noqa: E402
from programs import PROGRAMS  # noqa: E402
from report_file import Report as report  # noqa: E402

# torch.profiler records the thread that starts it, and those of the autograd engine: threads of the program are missing there, and
# so is what OpenMP's threads do.
MORE_THREADS = {"threads", "attention"}
SCRIPT = 2  # torch's RecordScope of a scripted function; ours are ops


def both(name, *extra, **options):
    found = []
    for profiler in (torch.profiler, ours):
        threads = shown(record(profiler, name, **options), *extra)
        found.append([[(*row[:2], 0 if row[2] == SCRIPT else row[2], *row[3:]) for row in rows] for rows in threads])
    theirs, mine = found
    if name in MORE_THREADS:
        assert len(mine) >= len(theirs)
        mine = mine[:len(theirs)]
    return theirs, mine


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_events_nest_in_the_same_way(name):
    assert differences(*both(name)) == []


def without_texts(rows):
    """We show arguments that are strings, torch.profiler does not."""
    return [[(*row[:-1], [None if isinstance(value, str) else value for value in row[-1]]) for row in thread] for thread in rows]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_shapes_and_arguments(name):
    theirs, mine = both(name, "input_shapes", "concrete_inputs", record_shapes=True)
    assert differences(without_texts(theirs), without_texts(mine)) == []


def structure_of(event):
    if not hasattr(event, "structured_input_shapes"):
        pytest.skip("PyTorch's events have no structured_input_shapes before 2.13")
    return event.structured_input_shapes, event.structured_input_strides


def test_the_same_shapes_of_long_lists():
    """Optimizers of whole models: an op has several lists of hundreds of tensors, and arguments after them."""
    def run(profiler):
        weights, moments = ([torch.ones(2, 1, 3, k % 5) for k in range(100)] for _ in range(2))
        with silence(), profiler.profile(record_shapes=True) as prof:
            torch._foreach_lerp_(weights, moments, 0.5)
            torch._foreach_addcmul_(weights, moments, moments, 2.0)
            torch.cat([torch.ones(2, 1, 3, 1), torch.ones(2, 1, 1, 3).transpose(2, 3)] * 100, 1)
        return [(event.name, *structure_of(event), event.concrete_inputs) for event in prof.events()]

    assert run(ours) == run(torch.profiler)


def test_the_same_shapes_of_tensors_with_as_many_elements():
    """They are packed at one place; some of their calls have inputs besides plain tensors and numbers, for which reading starts over."""
    def run(profiler):
        base = torch.ones(2, 3, 4, 1, 1, 1)
        kinds = [base.view(24), base.view(4, 6), base.view(6, 4), base.view(4, 6).t(), base.view(2, 3, 4), base, base.view(4, 6).to_sparse(),
                 torch.ones(24, dtype=torch.bool), torch.ones(24, device="meta"), torch.ones(24, 1).expand(24, 2)[:, 1]]
        with silence(), profiler.profile(record_shapes=True) as prof:
            for first in kinds:
                for second in kinds[:3]:
                    for one in (first, second, first):
                        one.sum()
                        one * 2.5
                        if one.layout == torch.strided:
                            one.sum(dim=[0], keepdim=True)
                            one.flip([0])
                            one.clamp(0, None)
                            torch.div(one, 2.0, rounding_mode="floor")
        return [(event.name, *structure_of(event)) for event in prof.events()]

    mine, theirs = run(ours), run(torch.profiler)
    # torch.profiler has no strides for sparse tensors
    mine = [(name, shapes, [a if b else b for a, b in zip(strides, other[2])]) for (name, shapes, strides), other in zip(mine, theirs)]
    assert [pair for pair in zip(mine, theirs) if pair[0] != pair[1]] == []


class _Sized(torch.Tensor):
    """A tensor whose size is asked of Python code, each time."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(), dispatch_sizes_strides_policy="sizes")

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        aten, answers = torch.ops.aten, {}
        if isinstance(args[0], cls):
            inner = args[0].inner
            answers = {aten.size.default: inner.shape, aten.sym_size.default: inner.shape, aten.stride.default: inner.stride(),
                       aten.sym_stride.default: inner.stride(), aten.dim.default: inner.dim(), aten.is_contiguous.default: True}
        plain = [one.inner if isinstance(one, cls) else one for one in args]
        out = answers[function] if function in answers else function(*plain, **(kwargs or {}))
        return cls(out) if isinstance(out, torch.Tensor) else out


def test_reading_a_tensor_that_python_code_describes_records_no_ops_of_that_code():
    def run(profiler):
        one = _Sized(torch.ones(3, 4))
        with silence(), profiler.profile(record_shapes=True) as prof:
            one + one
        return [(event.name, event.input_shapes) for event in prof.events()]

    assert run(ours) == run(torch.profiler)


class _Unreadable(_Sized):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.size.default, torch.ops.aten.sym_size.default):
            raise ValueError("its size is secret")
        return torch.zeros(1)


@pytest.mark.parametrize("memory", [False, True])
def test_an_op_whose_inputs_cannot_be_read_is_recorded_and_the_next_one_has_its_own_shapes(memory):
    two, three, secret = torch.ones(6, 2), torch.ones(4, 3), _Unreadable(torch.ones(2, 2))
    with silence(), ours.profile(record_shapes=True, profile_memory=memory) as prof:
        for first, second in ((two, two), (three, secret), (three, two)):
            try:
                torch.atan2(first, second)
            except (RuntimeError, ValueError):
                pass
    shapes = [event.input_shapes for event in prof.events() if event.name == "aten::atan2"]
    assert shapes == [[[6, 2], [6, 2]], [], [[4, 3], [6, 2]]]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_is_an_input_without_a_shape(layout):
    def run(profiler):
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
        with silence(), profiler.profile(record_shapes=True, with_flops=True, profile_memory=True) as prof:
            nested + nested
            nested.unbind()
        node = next(node for node in prof.profiler.kineto_results.experimental_event_tree() if node.name == "aten::add")
        events = [event for event in prof.events() if event.name != "[memory]"]
        return [(event.name, event.input_shapes, event.flops) for event in events], node.extra_fields.inputs[:2]

    assert run(ours) == run(torch.profiler)


def test_the_same_dtypes_in_the_event_tree_and_in_the_trace(tmp_path):
    def run(profiler):
        dtypes = sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype)}, key=str)
        tensors = [torch.zeros(6, dtype=torch.uint8).view(dtype) for dtype in dtypes if dtype.itemsize == 1 and dtype.is_floating_point]
        path = tmp_path / f"{profiler.__name__}.json"
        with silence(), profiler.profile(record_shapes=True, profile_memory=True) as prof:
            for one in tensors:
                one.view(2, 3)
        prof.export_chrome_trace(str(path))
        nodes = [node for node in prof.profiler.kineto_results.experimental_event_tree() if node.name == "aten::view"]
        assert len(nodes) == len(tensors)
        texts = [event["args"]["Input type"] for event in json.loads(path.read_text())["traceEvents"] if event.get("name") == "aten::view"]
        return [(str(node.extra_fields.inputs[0].dtype), node.extra_fields.inputs[0].sizes) for node in nodes], texts

    assert run(ours) == run(torch.profiler)


def rows_of(prof, **grouping):
    """Without CUDA's own calls, which torch.profiler records even if it is asked for the CPU only."""
    rows = [row for row in prof.key_averages(**grouping) if not row.key.startswith("cuda")]
    return [(row.key, row.count, str(row.input_shapes) if grouping else "") for row in rows]


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - MORE_THREADS))
def test_the_same_averages_in_the_same_order(name):
    theirs, mine = (record(profiler, name, record_shapes=True) for profiler in (torch.profiler, ours))
    assert rows_of(mine) == rows_of(theirs)
    assert rows_of(mine, group_by_input_shape=True) == rows_of(theirs, group_by_input_shape=True)


@pytest.mark.parametrize("name", ["mlp_training", "convolutions", "recurrent", "derivatives", "optimizers"])
def test_the_same_memory(name):
    def by_op(prof):
        return [(row.key, row.cpu_memory_usage, row.self_cpu_memory_usage) for row in prof.key_averages()
                if row.key != "[memory]" and not row.key.startswith("cuda")]

    theirs, mine = (record(profiler, name, profile_memory=True) for profiler in (torch.profiler, ours))
    assert by_op(mine) == by_op(theirs)


@pytest.mark.parametrize("name", ["mlp_training", "convolutions"])
def test_the_same_flops(name):
    def by_op(prof):
        return [(row.key, row.flops) for row in prof.key_averages() if row.flops]

    theirs, mine = (record(profiler, name, with_flops=True) for profiler in (torch.profiler, ours))
    assert by_op(mine) == by_op(theirs) != []


def exported(prof, path):
    with silence():
        prof.export_chrome_trace(str(path))
    with open(path, encoding="utf-8") as file:
        return [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]


def test_the_same_modules_and_functions(tmp_path):
    theirs, mine = (exported(record(profiler, "mlp_training", with_stack=True, with_modules=True), tmp_path / "trace.json")
                    for profiler in (torch.profiler, ours))

    def modules(events):
        return Counter(event["name"] for event in events if event["name"].startswith("nn.Module"))

    def functions(events):  # without the line, which torch.profiler takes from another place in functions that are running already
        names = (event["name"] for event in events if event["cat"] == "python_function" and ".py(" in event["name"])
        return {name.partition("(")[0] + name.partition("):")[2] for name in names
                if not any(part in name for part in ("profiler", "torch/distributed", "enum.py"))}  # torch.profiler at work

    assert modules(mine) == modules(theirs) != Counter()
    missing = functions(theirs) - functions(mine)
    assert not missing, sorted(missing)[:5]


def test_the_same_arrows_from_forward_to_backward(tmp_path):
    def arrows(profiler):
        with silence():
            record(profiler, "mlp_training").export_chrome_trace(str(tmp_path / "trace.json"))
        with open(tmp_path / "trace.json", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        return sum(event["ph"] == "s" and event["cat"] == "fwdbwd" for event in events)

    assert arrows(ours) == arrows(torch.profiler) > 0


@pytest.mark.parametrize("name", ["mlp_training", "recurrent", "optimizers"])
def test_the_same_memory_profile(name):
    """What each allocation is (parameter, gradient, activation ...), from the tensors that ops, modules and optimizers use."""
    def by_category(profiler):
        found = record(profiler, name, record_shapes=True, profile_memory=True, with_stack=True)._memory_profile()
        totals = Counter()
        for _, action, (key, version), size in found.timeline:
            category = found._categories.get(key, version)
            if category is not None:  # others may be left from earlier tests: PyTorch reports their end if it saw their beginning
                totals[action.name, category.name] += size
        return totals

    theirs, mine = by_category(torch.profiler), by_category(ours)
    assert mine == theirs != Counter()


@pytest.mark.parametrize("name", ["mlp_training", "convolutions", "optimizers"])
def test_the_same_events_in_kinetos_form(name):
    """What tools that read prof.profiler.kineto_results see of each op: lists of tensors among its inputs, too."""
    asked = ("name activity_type shapes structured_input_shapes structured_input_strides dtypes kwinputs extra_meta nbytes scope is_async "
             "is_user_annotation is_python_function is_hidden_event cuda_elapsed_us privateuse1_elapsed_us python_id python_module_id "
             "python_parent_id").split()
    asked = [one for one in asked if hasattr(torch._C._autograd._KinetoEvent, one)]  # some are new in PyTorch 2.13

    def of(profiler):
        events = record(profiler, name, record_shapes=True).profiler.kineto_results.events()
        values = [[None if isinstance(value, str) else value for value in event.concrete_inputs()] for event in events]
        return Counter(repr([getattr(event, one)() for one in asked] + [value]) for event, value in zip(events, values))

    theirs, mine = of(torch.profiler), of(ours)
    assert set(mine) <= set(theirs) and mine.total() > 50
    missing = theirs - mine  # an op that does nothing but call another of its name is one event
    assert missing.total() < theirs.total() / 20
    assert set(dir(torch._C._autograd._KinetoEvent)) - {"_pybind11_conduit_v1_"} <= set(dir(results._KinetoEvent))


@pytest.mark.parametrize("name", ["mlp_training", "optimizers"])
def test_the_same_memory_timeline(name, tmp_path):
    """The files: bytes by action and category, the most bytes of each category, and a page."""
    unknown = 7  # as above, what earlier tests left is among these

    def files(profiler):
        prof = record(profiler, name, record_shapes=True, profile_memory=True, with_stack=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated in PyTorch
            for file in ("t.raw.json.gz", "t.json.gz", "t.json"):
                prof.export_memory_timeline(str(tmp_path / file), device="cpu")
        totals = Counter()
        for _, action, size, category in json.loads(gzip.decompress((tmp_path / "t.raw.json.gz").read_bytes())):
            if category != unknown:
                totals[action, category] += abs(size)
        times, sizes = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
        assert json.loads((tmp_path / "t.json").read_text()) == [times, sizes]
        return totals, [max(column) for column in zip(*sizes)][:1 + unknown]

    theirs, mine = files(torch.profiler), files(ours)
    assert mine == theirs and len(mine[0]) > 5


def test_the_page_of_a_memory_timeline_shows_the_parameters(tmp_path):
    prof = record(ours, "mlp_training", record_shapes=True, profile_memory=True, with_stack=True)
    prof.export_memory_timeline(str(tmp_path / "t.html"))
    _, memory = report(tmp_path / "t.html").columns("memory-0", after_json=True)
    assert memory["devices"][0]["summary"]["peak"]["by_category"]["PARAMETER"] > 0
