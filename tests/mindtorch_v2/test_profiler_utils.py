"""mindtorch_v2.profiler._utils: compared with PyTorch's if installed, and with hand-made events."""
import functools
import random
import types

import pytest

from mindtorch_v2.profiler import _utils
from profiled_programs import PROGRAMS, profiled


class Event:
    """Of the tree."""

    def __init__(self, name="event", id=0, start=0, duration=0, children=()):
        self.name, self.id, self.parent, self.children = name, id, None, list(children)
        self.start_time_ns, self.duration_time_ns, self.end_time_ns = start, duration, start + duration
        for child in self.children:
            child.parent = self


class DeviceEvent:
    """An event of the list: a launch, or device work."""

    def __init__(self, name, start, duration, correlation, device_type):
        self.name, self._start, self._duration, self._correlation, self._type = name, start, duration, correlation, device_type

    def start_ns(self):
        return self._start

    def duration_ns(self):
        return self._duration

    def linked_correlation_id(self):
        return self._correlation

    def device_type(self):
        return self._type


def _profile(tree, events=()):
    results = types.SimpleNamespace(experimental_event_tree=lambda: tree, events=lambda: list(events))
    return types.SimpleNamespace(kineto_results=results)


def _tree():
    return [Event("a", 1, 0, 100, [Event("b", 2, 10, 20, [Event("c", 3, 12, 5)]), Event("d", 4, 40, 30)]),
            Event("e", 5, 200, 50, [Event("f", 6, 200, 0)])]


# ----------------------------------------------------------------------------------------------------- alone


def test_walks_have_their_order_and_know_no_depth():
    assert "".join(e.name for e in _utils.traverse_dfs(_tree())) == "abcdef"
    assert "".join(e.name for e in _utils.traverse_bfs(_tree())) == "aebdfc"
    assert "".join(e.name for e in _utils.traverse_dfs(_tree(), children_fn=lambda e: e.children if e.name != "b" else [])) == "abdef"
    deep = Event("leaf")
    for i in range(100_000):
        deep = Event(id=i + 1, children=[deep])
    assert sum(1 for _ in _utils.traverse_dfs([deep])) == 100_001
    assert len(_utils.BasicEvaluation(_profile([deep])).metrics) == 100_001
    while deep.children:  # so that freeing it does not recurse either
        deep = deep.children.pop()
        deep.parent = None


def test_first_match_and_largest_are_found_within_bounds():
    assert _utils.index_of_first_match([1, 5, 3, 5], lambda v: v == 5) == 1
    assert _utils.index_of_first_match([1, 5, 3, 5], lambda v: v == 5, start=2) == 3
    assert _utils.index_of_first_match([1, 5, 3, 5], lambda v: v == 5, start=2, end=3) is None
    assert _utils.index_of_first_match([1, 5], lambda v: v == 5, end=99) == 1
    assert _utils.argmax([1, 5, 3, 5]) == 1
    assert _utils.argmax([1, 5, 3, 5], start=2) == 3
    assert _utils.argmax([1, 5, 3, 5], key=lambda v: -v, start=1, end=3) == 2
    assert _utils.argmax([], start=0) is None and _utils.argmax([1], start=1) is None


def test_source_code_location_is_the_innermost_python_function():
    leaf = Event("aten::add")
    Event("model.py(3): forward", children=[Event("aten::linear", children=[leaf])])
    assert _utils.source_code_location(leaf) == "model.py(3): forward"
    assert _utils.source_code_location(Event("aten::add")) == "No source code location found"
    assert _utils.source_code_location(None) == "No source code location found"


def test_time_that_several_intervals_cover_counts_once():
    event = _utils.EventKey(Event("e", 1, 5, 5))
    nested = [_utils.Interval(*bounds) for bounds in ((0, 9), (1, 2), (2, 3), (3, 4), (4, 5), (8, 12))]
    assert event.intervals_overlap(nested) == 5
    assert nested[-1].start == 8, "the caller's intervals are left alone"
    assert event.intervals_overlap([]) == 0
    assert event.intervals_overlap([_utils.Interval(9, 6)]) == 0, "one that ends before it starts"
    assert event.intervals_overlap([_utils.Interval(0, 6), _utils.Interval(6, 7), _utils.Interval(8, 9)]) == 3
    # PyTorch skips what follows a nested interval, and what follows an overlapping one
    assert event.intervals_overlap([_utils.Interval(*b) for b in ((0, 6), (1, 2), (7, 8))]) == 2
    assert event.intervals_overlap([_utils.Interval(*b) for b in ((0, 6), (5, 7), (8, 9))]) == 3


def test_overlaps_are_those_of_a_count_by_instants():
    dice = random.Random(7)
    for _ in range(300):
        event = _utils.EventKey(Event("e", 1, dice.randrange(20), dice.randrange(20)))
        intervals = [_utils.Interval(dice.randrange(40), dice.randrange(40)) for _ in range(dice.randrange(8))]
        covered = {t for i in intervals for t in range(i.start, i.end)}
        assert event.intervals_overlap(intervals) == len(covered & set(range(event.event.start_time_ns, event.event.end_time_ns)))


def test_self_time_is_what_children_leave():
    evaluation = _utils.BasicEvaluation(_profile(_tree()))
    assert {repr(k): (m.self_time_ns, m.duration_time_ns) for k, m in evaluation.metrics.items()} == {
        "a": (50, 100), "b": (15, 20), "c": (5, 5), "d": (30, 30), "e": (50, 50), "f": (0, 0)}
    assert [repr(k) for k in evaluation.event_keys] == ["a", "b", "c", "d", "e", "f"]
    assert evaluation.queue_depth_list == [] and evaluation.cuda_events == []
    assert all(m.idle_time_ns == 0 and m.fraction_idle_time == 0.0 for m in evaluation.metrics.values())


def test_an_id_that_two_events_have_is_an_error():
    with pytest.raises(AssertionError, match="Duplicate id: 1"):
        _utils.BasicEvaluation(_profile([Event("a", 1), Event("b", 1)]))
    with pytest.raises(AssertionError, match="kineto_results"):
        _utils.BasicEvaluation(types.SimpleNamespace(kineto_results=None))


def _starved(device):
    """Five kernels are launched, run, and the device waits while the host is in `slow`."""
    launches = [DeviceEvent("clEnqueueNDRangeKernel", 10 + i, 1, i, None) for i in range(5)]
    kernels = [DeviceEvent("gemm", 100 + 10 * i, 10, i, device) for i in range(5)]
    copy = [DeviceEvent("Memcpy HtoD", 170, 5, 99, device)]
    late = [DeviceEvent("clEnqueueNDRangeKernel", 300, 1, 7, None), DeviceEvent("gemm", 310, 10, 7, device)]
    tree = [Event("fast", 1, 0, 90), Event("slow", 2, 95, 200), Event("last", 3, 298, 30)]
    return _profile(tree, launches + kernels + copy + late)


def test_queue_depth_idle_time_and_who_causes_it():
    evaluation = _utils.BasicEvaluation(_starved(_utils.DeviceType.CUDA))
    assert [i.queue_depth for i in evaluation.queue_depth_list] == [1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 0]
    assert "Memcpy HtoD" not in [e.name for e in evaluation.cuda_events]
    depth = {repr(k): m.queue_depth for k, m in evaluation.metrics.items()}
    assert depth == {"fast": 0, "slow": 5, "last": 0}
    idle = {repr(k): m.idle_time_ns for k, m in evaluation.metrics.items()}
    assert idle == {"fast": 10, "slow": 145, "last": 2 + 8}
    assert [repr(k) for k in evaluation.rank_events(1)] == ["slow"]


def test_a_correlation_that_is_used_again_is_the_later_kernels():
    launches = [DeviceEvent("cudaLaunchKernel", i, 1, c, None) for i, c in enumerate((1, 2, 1))]
    kernels = [DeviceEvent("gemm", 10 + i, 1, c, _utils.DeviceType.CUDA) for i, c in enumerate((1, 2, 1))]
    evaluation = _utils.BasicEvaluation(_profile([Event("op", 1, 0, 20)], launches + kernels))
    assert [i.queue_depth for i in evaluation.queue_depth_list] == [1, 2, 3, 2, 1, 0]


def test_optimizable_events_are_printed(capsys):
    evaluation = _utils.BasicEvaluation(_starved(_utils.DeviceType.CUDA))
    found = evaluation.get_optimizable_events(1)
    printed = capsys.readouterr().out
    assert [repr(k) for k in found] == ["slow"]
    assert "Optimizable events:" in printed and "Event:                slow" in printed and "Percentage idle time: 72.50%" in printed
    _utils.BasicEvaluation(_profile(_tree())).get_optimizable_events(1)
    assert "No events to optimize" in capsys.readouterr().out
    assert evaluation.get_optimizable_events(1, print_enable=False) == found and capsys.readouterr().out == ""


def _marked(name, ts, dur, tid=1, cat="cpu_op"):
    return {"name": name, "ts": ts, "dur": dur, "tid": tid, "cat": cat}


def test_events_inside_nodes_of_compiled_graphs_get_their_source(monkeypatch):
    registry = {"g.py": {"node_metadata": {3: {"name": "mm", "stack_trace": "model.py, line 9"}, 4: {"name": ""}}}}
    monkeypatch.setattr(_utils, "_graph_registry", lambda: registry)
    trace = {"traceEvents": [
        _marked("## g.py ##", 0, 100), _marked("## 3 ##", 10, 20), _marked("aten::mm", 12, 5), _marked("aten::mm", 12, 5, tid=2),
        _marked("## 4 ##", 40, 10), _marked("aten::add", 41, 1), _marked("## x ##", 60, 10), _marked("aten::t", 61, 1),
        _marked("## 5 ##", 80, 10), _marked("aten::sum", 81, 1), {"name": "no time"}, _marked("after", 200, 1)]}
    _utils.map_recorded_events_to_aten_ops_with_stack_trace(trace)
    told = [(e["name"], e.get("tid"), e["args"]) for e in trace["traceEvents"] if "args" in e]
    assert told == [("aten::mm", 1, {"stack_trace": "model.py, line 9", "node_name": "mm"}),
                    ("aten::add", 1, {"stack_trace": "No model stack trace available"})]
    assert _utils.map_recorded_events_to_aten_ops_with_stack_trace({}) is None


# ------------------------------------------------------------------------------------------ beside PyTorch's


@functools.cache
def _both():
    theirs = pytest.importorskip("torch.profiler._utils")
    import on_torch

    return theirs, on_torch.load()[0]


def _measured(module, profile):
    evaluation = module.BasicEvaluation(profile)
    return {
        "order": [key.event.id for key in evaluation.event_keys],
        "metrics": {key.event.id: (m.duration_time_ns, m.self_time_ns, m.idle_time_ns, m.queue_depth, m.fraction_idle_time)
                    for key, m in evaluation.metrics.items()},
        "queue": [(i.start, i.end, i.queue_depth) for i in evaluation.queue_depth_list],
        "device events": [(e.name, e.start_ns()) for e in evaluation.cuda_events],
        "ranked": [key.event.id for key in evaluation.rank_events(5)],
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_pytorchs_trees_are_walked_and_measured_as_pytorch_does(name):
    theirs, ours = _both()
    prof = profiled(pytest.importorskip("torch"), name)
    tree = prof.profiler.kineto_results.experimental_event_tree()
    for walk in ("traverse_dfs", "traverse_bfs"):
        assert [e.id for e in getattr(ours, walk)(tree)] == [e.id for e in getattr(theirs, walk)(tree)]
    assert _measured(ours, prof.profiler) == _measured(theirs, prof.profiler)
    for event in theirs.traverse_dfs(tree):
        assert ours.source_code_location(event) == theirs.source_code_location(event)


@pytest.mark.parametrize("seed", range(40))
def test_queues_of_a_device_are_measured_as_pytorch_does(seed):
    theirs, ours = _both()
    dice = random.Random(seed)
    cuda, cpu = theirs.DeviceType.CUDA, theirs.DeviceType.CPU
    events, now, device_now = [], 0, 0
    for i in range(dice.randrange(60)):
        now += dice.randrange(1, 40)
        device_now = max(device_now, now) + dice.choice((1, 5, 200))
        events.append(DeviceEvent(dice.choice(("cudaLaunchKernel", "cudaLaunchKernelExC_v1", "cudaMemcpyAsync")), now, 3, i, cpu))
        if dice.random() < 0.9:  # some launches have no kernel
            events.append(DeviceEvent(dice.choice(("gemm", "relu", "Memcpy DtoH")), device_now, dice.randrange(1, 60), i, cuda))
        device_now += 20
    dice.shuffle(events)
    tree, at = [], 0
    for i in range(dice.randrange(1, 30)):
        length = dice.randrange(1, 120)
        tree.append(Event(f"op {i}", 2 * i, at, length, [Event("inner", 2 * i + 1, at, length // 2)]))
        at += length + dice.randrange(10)
    assert _measured(ours, _profile(tree, events)) == _measured(theirs, _profile(tree, events))


def test_traces_are_told_of_nodes_as_pytorch_tells(monkeypatch):
    theirs, ours = _both()
    registry = pytest.importorskip("torch.fx.traceback")._FX_METADATA_REGISTRY
    monkeypatch.setitem(registry, "g.py", {"node_metadata": {1: {"name": "a", "stack_trace": "s"}, 2: {"name": "b"}}})
    dice = random.Random(3)
    made = []
    for _ in range(2):
        dice.seed(3)
        trace = {"traceEvents": [_marked("## g.py ##", 0, 500)]}
        for i in range(40):
            trace["traceEvents"] += [_marked(f"## {dice.randrange(4)} ##", i * 10, 9), _marked("op", i * 10 + dice.randrange(12), 1)]
        made.append(trace)
    theirs.map_recorded_events_to_aten_ops_with_stack_trace(made[0])
    ours.map_recorded_events_to_aten_ops_with_stack_trace(made[1])
    assert made[0] == made[1] and any("args" in e for e in made[0]["traceEvents"])


def test_names_are_pytorchs():
    theirs, ours = _both()
    import inspect

    for name in vars(theirs):
        if name.startswith("__") or inspect.ismodule(vars(theirs)[name]) or name in ("Any", "Literal", "TYPE_CHECKING", "profile"):
            continue
        assert hasattr(ours, name), name
        if inspect.isfunction(vars(theirs)[name]):
            assert list(inspect.signature(getattr(ours, name)).parameters) == list(inspect.signature(vars(theirs)[name]).parameters)
