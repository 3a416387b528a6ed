"""torch.profiler._utils: traversals of the event tree, and metrics derived from timing.

Everything here is a function of a finished profile: profiler.kineto_results.experimental_event_tree() (the host's events)
and .events() (launches and device work). Traversals are iterative, so a tree may have any depth.
"""

from __future__ import annotations

import bisect
import functools
import math
import re
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mtprof.profiler.common import DeviceType
from mtprof.profiler.framework import known

# ------------------------------------------------------------------------------------------------- walks


def _traverse(tree: Sequence[Any], next_fn: Callable[[deque], Any],
              children_fn: Callable[[Any], Iterable[Any]] = lambda event: event.children, reverse: bool = False) -> Iterator[Any]:
    """Every event below `tree`; next_fn pops the next one from the queue. An event's children are queried after it was
    yielded, so children_fn can skip a subtree."""
    waiting = deque(reversed(tree) if reverse else tree)
    while waiting:
        event = next_fn(waiting)
        yield event
        children = children_fn(event)
        waiting.extend(reversed(children) if reverse else children)


traverse_dfs = functools.partial(_traverse, next_fn=deque.pop, reverse=True)
traverse_bfs = functools.partial(_traverse, next_fn=deque.popleft, reverse=False)


def index_of_first_match(seq: Sequence[Any], predicate: Callable[[Any], bool], start: int = 0, end: int | None = None) -> int | None:
    """The index of the first element of seq[start:end] for which the predicate holds; None if there is none."""
    end = len(seq) if end is None else min(end, len(seq))
    return next((i for i in range(start, end) if predicate(seq[i])), None)


def argmax(seq: Sequence[Any], key: Callable[[Any], Any] = lambda value: value, start: int = 0, end: int | None = None) -> int | None:
    """The index in seq of the first maximum of seq[start:end]; None if that is empty."""
    window = range(len(seq))[start:end]
    return max(window, key=lambda i: key(seq[i])) if window else None


def source_code_location(event: Any) -> str:
    """The innermost Python function around an event, as FILE(LINE): NAME."""
    while event is not None:
        if re.search(r"\.py\(.*\)", event.name):
            return event.name
        event = event.parent
    return "No source code location found"


# ----------------------------------------------------------------------------------------------- metrics


@dataclass
class EventMetrics:
    duration_time_ns: int = 0
    self_time_ns: int = 0
    idle_time_ns: int = 0
    queue_depth: int = 0

    @property
    def fraction_idle_time(self) -> float:
        return self.idle_time_ns / self.duration_time_ns if self.duration_time_ns else 0.0


@dataclass
class Interval:
    start: int
    end: int
    queue_depth: int = 0


class EventKey:
    """An event as a key: keys of the same event are equal."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def __hash__(self) -> int:
        return hash(self.event.id)

    def __eq__(self, other: Any) -> bool:
        return self.event.id == other.event.id

    def __repr__(self) -> str:
        return f"{self.event.name}"

    def intervals_overlap(self, intervals: Iterable[Interval]) -> int:
        """How much of the event's time the intervals cover; overlaps count once."""
        covered, reached = 0, self.event.start_time_ns
        for interval in sorted(intervals, key=lambda i: i.start):
            start, end = max(reached, interval.start), min(self.event.end_time_ns, interval.end)
            if start < end:
                covered += end - start
                reached = end
        return covered


# Prefixes of calls that launch a kernel: CUDA's, and OpenCL's, which the NPU here uses.
_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchCooperativeKernel", "__cudaLaunchKernel", "clEnqueueNDRangeKernel")
_NO_KERNEL = ("mem", "cpy", "alloc", "free")  # in the names of device work that is not a kernel


def _name(event: Any) -> str:
    name = getattr(event, "name", event)
    return str(name() if callable(name) else name)


def _span(event: Any) -> tuple[int, int]:
    """(start, end) in ns, of an event of the tree or of the event list."""
    if hasattr(event, "start_ns"):
        return event.start_ns(), event.start_ns() + event.duration_ns()
    if hasattr(event, "start_us"):
        return event.start_us() * 1000, (event.start_us() + event.duration_us()) * 1000
    if hasattr(event, "start_time_ns"):
        return event.start_time_ns, event.end_time_ns
    raise TypeError(f"{type(event).__name__} has no start time")


def _is_kernel(event: Any) -> bool:
    return event.device_type() == DeviceType.CUDA and not any(part in _name(event).lower() for part in _NO_KERNEL)


def _spawned_kernels(launches: list[Any], kernels: list[Any]) -> list[int | None]:
    """For each launch, the index of its kernel; kernels run in launch order."""
    indices: dict[int, list[int]] = {}
    for i, kernel in enumerate(kernels):
        indices.setdefault(kernel.linked_correlation_id(), []).append(i)
    found: list[int | None] = []
    last = 0
    for launch in launches:
        same = indices.get(launch.linked_correlation_id(), [])
        at = bisect.bisect_left(same, last)
        found.append(same[at] if at < len(same) else None)
        last = last if found[-1] is None else found[-1]
    return found


class BasicEvaluation:
    """Self time, queue depth and idle time of each event, and which events keep the device waiting.

    The queue depth is the number of kernels that were launched but have not started. The device is idle while it is 0.
    """

    def __init__(self, prof: Any) -> None:
        self.profile = prof
        self.metrics: dict[EventKey, EventMetrics] = {}
        self.compute_self_time()
        self.event_keys = sorted(self.metrics, key=lambda key: key.event.start_time_ns)
        self.events = [key.event for key in self.event_keys]
        self.cuda_events: list[Any] = []
        self.queue_depth_list = self.compute_queue_depth()
        self.compute_idle_time()

    def _results(self) -> Any:
        if self.profile.kineto_results is None:
            raise AssertionError("kineto_results must not be None")
        return self.profile.kineto_results

    def compute_self_time(self) -> None:
        """Fills metrics: each event's time, and its self time."""
        waiting = list(self._results().experimental_event_tree())
        while waiting:
            event = waiting.pop()
            children = event.children
            key, duration = EventKey(event), event.duration_time_ns
            if key in self.metrics:
                raise AssertionError(f"Duplicate id: {event.id}, {event.name}")
            self.metrics[key] = EventMetrics(duration, duration - sum(child.duration_time_ns for child in children))
            waiting.extend(children)

    def compute_queue_depth(self) -> list[Interval]:
        """The queue depth at each launch and kernel, as a list; at each event of the tree, in its metrics."""
        def by_start(events: Iterable[Any]) -> list[Any]:
            return sorted(events, key=lambda event: _span(event)[0])

        device_events = self._results().events()
        launches = by_start(event for event in device_events if _name(event).startswith(_LAUNCHES))
        kernels = by_start(event for event in device_events if _is_kernel(event))
        self.cuda_events = by_start(launches + kernels)
        spawned_by = _spawned_kernels(launches, kernels)
        starts = [_span(kernel)[0] for kernel in kernels]
        # (event, its kernel's index if it is a launch, its metrics if it is in the tree)
        points = [(launch, index, None) for launch, index in zip(launches, spawned_by)]
        points += [(kernel, None, None) for kernel in kernels]
        points += [(event, None, self.metrics[EventKey(event)]) for event in self.events]
        points.sort(key=lambda point: _span(point[0])[0])
        depths, spawned = [], -1
        for event, index, metrics in points:
            start, end = _span(event)
            spawned = spawned if index is None else index
            depth = max(spawned + 1 - bisect.bisect_right(starts, start), 0)
            if metrics is None:
                depths.append(Interval(start, end, depth))
            else:
                metrics.queue_depth = depth
        return depths

    def compute_idle_time(self) -> None:
        """Fills metrics: how long the device was idle during each event."""
        idle: list[Interval] = []
        if self.queue_depth_list and self.events:
            idle = [Interval(self.events[0].start_time_ns, self.queue_depth_list[0].start),
                    Interval(self.queue_depth_list[-1].end, self.events[-1].end_time_ns)]
        since = None
        for point in self.queue_depth_list:
            if point.queue_depth > 0 and since is not None:
                idle.append(Interval(since, point.start))
                since = None
            elif point.queue_depth == 0 and since is None:
                since = point.end
        for key, metrics in self.metrics.items():
            metrics.idle_time_ns = key.intervals_overlap(idle)

    def _falling(self, peak: int = 4) -> list[Interval]:
        """Intervals in which the queue drained: from a peak to the next time that the depth is 0."""
        found = []
        points = self.queue_depth_list[::-1]
        depths = [point.queue_depth for point in points]
        empty = index_of_first_match(depths, lambda depth: depth <= 0)
        while empty is not None:
            high = index_of_first_match(depths, lambda depth: depth >= peak, start=empty + 1)
            if high is None:
                break
            before = index_of_first_match(depths, lambda depth: depth <= 0, start=high)
            top = argmax(depths, start=high, end=before)
            found.append(Interval(points[top].start, points[empty].start))
            empty = None if before is None else index_of_first_match(depths, lambda depth: depth <= 0, start=before + 1)
        return found

    def rank_events(self, length: int) -> list[EventKey]:
        """At most `length` events during which the queue drained, ranked by the share of their time that the device was
        idle and by their own duration."""
        falling = self._falling()
        keys = [key for key in self.metrics if key.intervals_overlap(falling)]
        if len(keys) < 2:
            return keys[:length]

        def score(values: list[float]) -> list[float]:
            mean, deviation = statistics.fmean(values), statistics.stdev(values)
            return [(value - mean) / deviation if deviation else math.nan for value in values]

        idle = score([self.metrics[key].fraction_idle_time for key in keys])
        busy = score([self.metrics[key].self_time_ns for key in keys])
        scores = [one + 0.6 * other for one, other in zip(idle, busy)]
        order = sorted(range(len(keys)), key=scores.__getitem__, reverse=True)
        return [keys[i] for i in order[:length]]

    def get_optimizable_events(self, length: int = 1, print_enable: bool = True) -> list[EventKey]:
        """Prints rank_events()."""
        keys = self.rank_events(length)
        if print_enable:
            rule = "-" * 80
            print(("Optimizable events:\n" if keys else "No events to optimize\n") + "\n".join(
                f"{rule}\nEvent:                {key}\nSource code location: {source_code_location(key.event)}\n"
                f"Percentage idle time: {self.metrics[key].fraction_idle_time * 100:.2f}%\n{rule}" for key in keys))
        return keys


def _init_for_cuda_graphs() -> None:
    """Runs an empty profile, so that the collectors are initialized before a graph is captured."""
    from mtprof.profiler.session import profile

    for framework in known():
        framework.warm_up()
    with profile():
        pass


# ------------------------------------------------------------------------------------- nodes of compiled graphs


@dataclass
class TimelineEvent:
    """A point in time of a trace: the begin or end of a marker, or the begin of any other event."""

    timestamp: int
    event_type: Literal["start", "end", "regular"]
    marker_type: Literal["filename", "node"] | None
    identifier: str | int | None
    event: dict[str, Any]


@dataclass
class ContextStackEntry:
    """An open marker."""

    context_type: Literal["filename", "node"]
    identifier: str | int
    metadata: dict | None
    tid: int | None = None


def _graph_registry() -> dict[str, dict]:
    """Metadata of compiled files, by name, of all frameworks in this process."""
    return {name: metadata for framework in known() for name, metadata in framework.graph_metadata().items()}


def _marker(event: dict[str, Any]) -> tuple[str, str | int] | None:
    """(kind, content) of a marker: `## FILE.py ##` around a run of a compiled file, `## N ##` around its node N."""
    name = event.get("name", "")
    if event.get("cat") != "cpu_op" or not (name.startswith("## ") and name.endswith(" ##")):
        return None
    content = name[3:-3]
    if content.endswith(".py"):
        return "filename", content
    try:
        return "node", int(content)
    except ValueError:
        return "", content  # an unknown kind of marker


def _timeline_of(trace_events: Iterable[dict[str, Any]]) -> list[TimelineEvent]:
    timeline = []
    for event in trace_events:
        if "ts" not in event or "dur" not in event:
            continue
        marker = _marker(event)
        if marker is None:
            timeline.append(TimelineEvent(event["ts"], "regular", None, None, event))
        elif marker[0]:
            timeline.append(TimelineEvent(event["ts"], "start", *marker, event))
            timeline.append(TimelineEvent(event["ts"] + event["dur"], "end", *marker, event))
    timeline.sort(key=lambda point: point.timestamp)
    return timeline


def _opened(point: TimelineEvent, stack: list[ContextStackEntry], registry: dict[str, dict]) -> ContextStackEntry | None:
    """The metadata that a marker gives to the events inside it; None: none."""
    tid = point.event.get("tid")
    if point.marker_type == "filename":
        return ContextStackEntry("filename", point.identifier, registry.get(point.identifier), tid)
    file = next((entry for entry in reversed(stack) if entry.context_type == "filename"), None)
    nodes = ((file.metadata if file else None) or {}).get("node_metadata", {})
    if point.identifier not in nodes:
        return None
    return ContextStackEntry("node", point.identifier, nodes[point.identifier], tid)


def map_recorded_events_to_aten_ops_with_stack_trace(traced_data: dict[str, Any]) -> None:
    """Adds the `stack_trace` and `node_name` of a compiled graph's node, as args, to the Chrome trace events that ran inside
    it. traced_data is the file's JSON and is modified in place."""
    registry = _graph_registry()
    stacks: dict[Any, list[ContextStackEntry]] = {}  # of each thread
    open_at: dict[int, ContextStackEntry] = {}  # by the marker's event
    for point in _timeline_of(traced_data.get("traceEvents", [])):
        stack = stacks.setdefault(point.event.get("tid"), [])
        if point.event_type == "start":
            entry = _opened(point, stack, registry)
            if entry is not None:
                open_at[id(point.event)] = entry
                stack.append(entry)
        elif point.event_type == "end":
            entry = open_at.pop(id(point.event), None)
            if entry is not None:
                stack[:] = [other for other in stack if other is not entry]
        else:
            node = next((entry for entry in reversed(stack) if entry.context_type == "node" and entry.metadata), None)
            if node is not None:
                args = {"stack_trace": node.metadata.get("stack_trace", "No model stack trace available"),
                        "node_name": node.metadata.get("name", "")}
                args = {name: value for name, value in args.items() if value}
                if args:
                    point.event.setdefault("args", {}).update(args)
