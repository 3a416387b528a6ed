"""EventList: a recording as a list of events or of averages, with torch.autograd.profiler_util's names.

A list of a million events creates none until one is accessed: it asks a source, which asks C. A list that is changed becomes a
plain list, with the same results, computed in Python.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import mtprof
from mtprof._native import write_file

from mtprof.profiler.common import DeviceType
from mtprof.profiler.event import FunctionEvent, FunctionEventAvg
from mtprof.profiler.table import attribute, build_table, chrome_events, chrome_rows, html_table

# ------------------------------------------------------------------------------------------------- sources


class _EventSource:
    """The events of a trace; each object is created once, on first access. The trace may be given as a function that creates
    it, which is called on first access, too."""

    def __init__(self, trace: mtprof.Trace | Callable[[], mtprof.Trace], options: Any) -> None:
        self._trace = trace
        self.use_device = options.use_device
        self.record_shapes, self.with_stack = options.record_shapes, options.with_stack
        self.profile_memory, self.with_flops = options.profile_memory, options.with_flops
        self.concrete_inputs = not getattr(options, "_left_out", 0) & 1
        self.overload_names = getattr(options.experimental_config, "capture_overload_names", False)
        self.expose_metadata = getattr(options.experimental_config, "expose_kineto_event_metadata", False)
        self._made: dict[int, FunctionEvent] = {}

    @property
    def trace(self) -> mtprof.Trace:
        trace = self._trace
        if not isinstance(trace, mtprof.Trace):
            trace = self._trace = trace()
        return trace

    @functools.cached_property
    def events(self) -> mtprof.Events:
        return self.trace.events()

    def __len__(self) -> int:
        return len(self.events)

    def get(self, index: int) -> FunctionEvent:
        made = self._made.get(index)
        if made is None:
            made = self._made.setdefault(index, FunctionEvent._recorded(self, index))
        return made

    def children(self, index: int) -> Iterator[Any]:
        return (self.events[i] for i in self.events[index].children)

    @property
    def touched(self) -> bool:
        return any(made._event is None for made in self._made.values())


_TEXTS = ("key", "overload_name", "input_shapes", "stack", "scope", "node_id")  # attributes by which only Python can sort
_BACKWARD = re.compile(r"^[^: ]*Backward\d*$|^torch::autograd::(AccumulateGrad|GraphRoot)$")  # nodes: RecordScope.BACKWARD_FUNCTION


class _RowSource:
    """Averages over a trace."""

    def __init__(self, trace: mtprof.Trace, options: Any, by_input_shape: bool, by_stack: int, by_overload: bool,
                 events: Callable[[], EventList], python_functions: bool = False) -> None:
        self.trace, self.options, self.events = trace, options, events
        self.by_input_shape, self.by_stack, self.by_overload = by_input_shape, by_stack, by_overload
        self.python_functions = python_functions
        self.averages = trace.averages(by_input_shape=by_input_shape, by_stack=by_stack, by_overload_name=by_overload,
                                       include_python_functions=python_functions)
        self._made: dict[int, FunctionEventAvg] = {}

    def __len__(self) -> int:
        return len(self.averages)

    def get(self, index: int) -> FunctionEventAvg:
        made = self._made.get(index)
        if made is None:
            row = self.averages[index]
            if self.by_input_shape:
                row["input_shapes"] = json.loads(row["input_shapes"] or "[]")
            made = self._made[index] = FunctionEventAvg(row)
            made.use_device = self.options.use_device
            made.scope = 7 if made.is_user_annotation else int(bool(_BACKWARD.search(made.key)))
            made._first = functools.partial(self._first_event, made)
            del made.cpu_parent, made.cpu_children  # looked up on access: see FunctionEventAvg.__getattr__
        return made

    def _first_event(self, row: FunctionEventAvg) -> FunctionEvent | None:
        """The event whose parent and children torch shows in the row."""
        key, device, note = row.key, row.device_type, row.is_user_annotation
        for event in self.events():
            raw = event._event
            if (raw is not None and raw.key == key and raw.is_device == (device != DeviceType.CPU) and raw.is_user_annotation == note
                    and (not self.by_input_shape or event.input_shapes == row.input_shapes)
                    and (not self.by_overload or raw.overload_name == row.overload_name)
                    and (not self.by_stack or event.stack[: self.by_stack] == row.stack)):
                return event
        return None

    @property
    def touched(self) -> bool:
        """A row that was returned may have been changed."""
        return bool(self._made)


# --------------------------------------------------------------------------------------------------- lists

_MOST_FRAMES = 256


def _first_made(name: str) -> Callable[..., Any]:
    """A method of list that reads or changes the items: they are created first."""
    method = getattr(list, name)

    def call(self, *args, **kwargs):
        self._make()
        return method(self, *args, **kwargs)

    call.__name__ = name
    call.__doc__ = method.__doc__
    return call


class EventList(list):
    """A list of FunctionEvent or FunctionEventAvg that creates its items on access.

    table() formats them, key_averages() sums them up, export_chrome_trace() and export_stacks() write them. Notebooks
    display it as an HTML table.
    """

    _source: _EventSource | _RowSource | None = None

    def __init__(self, *args: Any, use_device: str | None = None, profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(*args)
        self._source = None
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._tree_built = False

    @classmethod
    def _lazy(cls, source: _EventSource | _RowSource, options: Any) -> EventList:
        made = cls(use_device=options.use_device, profile_memory=options.profile_memory, with_flops=options.with_flops)
        made._source = source
        made._tree_built = isinstance(source, _EventSource)
        return made

    def _settle(self) -> None:
        """The recording is about to change: read what is needed from it now."""
        if isinstance(self._source, _EventSource):
            self._source.trace  # noqa: B018

    def _make(self) -> None:
        """Unchanged if interrupted; if another thread was faster, its result is used."""
        source, everything = self._source, slice(None)
        if source is not None:
            made = [source.get(i) for i in range(len(source))]
            if self._source is source:
                list.__setitem__(self, everything, made)
                self._source = None

    # -------------------------------------------------------------------------------------------- as a list

    for _name in ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "index", "count", "__setitem__",
                  "__delitem__", "__iadd__", "__imul__", "__mul__", "__rmul__", "__add__", "__eq__", "__ne__", "__lt__", "__le__",
                  "__gt__", "__ge__", "__reversed__", "__contains__"):
        locals()[_name] = _first_made(_name)
    del _name
    __hash__ = None

    def __radd__(self, other: list) -> list:
        return list(other) + list(self)

    def __len__(self) -> int:
        source = self._source
        return list.__len__(self) if source is None else len(source)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[Any]:
        source = self._source
        return list.__iter__(self) if source is None else map(source.get, range(len(source)))

    def __getitem__(self, index: Any) -> Any:
        source = self._source
        if source is None:
            return list.__getitem__(self, index)
        if isinstance(index, slice):
            return [source.get(i) for i in range(*index.indices(len(source)))]
        index = index.__index__()
        if index < 0:
            index += len(source)
        if not 0 <= index < len(source):
            raise IndexError("list index out of range")
        return source.get(index)

    def copy(self) -> list:
        """Its items as a plain list."""
        return list(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    def __repr__(self) -> str:
        if len(self) <= 1000:
            return "[" + ", ".join(map(repr, self)) + "]"
        return "[" + ", ".join(map(repr, self[:20])) + f", ... {len(self) - 20} more]"

    def __str__(self) -> str:
        return self.table()

    # --------------------------------------------------------------------------------------------- sums

    def _unchanged(self, kind: type) -> Any:
        """The source, if it is of this kind and its items are unchanged."""
        source = self._source
        return source if isinstance(source, kind) and not source.touched else None

    @property
    def self_cpu_time_total(self) -> float:
        source = self._source
        if isinstance(source, _EventSource) and not source.touched:
            return source.trace.averages(include_python_functions=True).total()["self_cpu_time_total"]
        return sum(event.self_cpu_time_total for event in self)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all, with the key "Total"; zeros if there are none."""
        total = FunctionEventAvg()
        source = self._unchanged((_EventSource, _RowSource))
        if source is not None and len(self):
            averages = source.averages if isinstance(source, _RowSource) else source.trace.averages(include_python_functions=True)
            total._fill(averages.total())
            total.use_device = self._use_device
            return total
        for event in self:
            total += event
            total.key = None
        total.key = "Total"
        return total

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False, include_python_functions: bool = False) -> EventList:
        """Averages all function events over their keys.

        group_by_input_shapes: rows by name and input shapes; group_by_stack_n: and by that many innermost frames;
        group_by_overload_name: aten::add.Tensor and aten::add.out separately; include_python_functions: rows of Python
        functions too (with_stack), which PyTorch shows up to 2.14 and omits from 2.15 on.
        """
        source = self._source
        if source is not None and not (isinstance(source, _EventSource) and source.touched):
            options = _Options(self)
            events = (lambda: self) if isinstance(source, _EventSource) else source.events
            if isinstance(source, _RowSource):
                include_python_functions |= source.python_functions  # rows already present stay
            return EventList._lazy(_RowSource(source.trace, options, bool(group_by_input_shapes), int(group_by_stack_n),
                                              bool(group_by_overload_name), events, bool(include_python_functions)), options)
        rows: dict[tuple, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            if not include_python_functions and getattr(event, "is_python_function", False):
                continue
            key = [event.key, event.node_id, str(event.device_type), event.is_legacy, getattr(event, "is_user_annotation", False)]
            key += [event.overload_name] if group_by_overload_name else []
            key += [str(event.input_shapes)] if group_by_input_shapes else []
            key += (event.stack or [])[:group_by_stack_n]
            rows[tuple(key)].add(event)
        made = EventList(rows.values(), use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops)
        for row in made:
            row.stack = (row.stack or [])[:group_by_stack_n]
            row.input_shapes = row.input_shapes if group_by_input_shapes else ""
            row.overload_name = row.overload_name if group_by_overload_name else ""
        return made

    def _build_rows(self) -> list[dict[str, Any]]:
        """Each row as a dict: name, count, self_time_ns, total_time_ns, ..."""
        if len(self) and isinstance(self[0], FunctionEvent):
            return self.key_averages()._build_rows()
        return [row._row for row in self]

    # ---------------------------------------------------------------------------------------------- trees

    def _build_tree(self) -> None:
        """Sets parents and children of events that were created directly."""
        if self._tree_built:
            return
        self._populate_cpu_children()
        self._remove_dup_nodes()
        self._set_backward_stacktraces()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        events = [e for e in self if not e.is_async and e.device_type == DeviceType.CPU]
        events.sort(key=lambda e: (e.thread, e.node_id))
        for _, group in itertools.groupby(events, key=lambda e: (e.thread, e.node_id)):
            open_events: list[FunctionEvent] = []
            for event in sorted(group, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while open_events:
                    parent = open_events[-1].time_range
                    if event.time_range.start >= parent.end or event.time_range.end > parent.end:
                        open_events.pop()
                        continue
                    open_events[-1].append_cpu_child(event)
                    if event.cpu_parent is not None:
                        raise AssertionError(f"There is already a CPU parent event for {event.key}")
                    event.set_cpu_parent(open_events[-1])
                    break
                open_events.append(event)

    def _remove_dup_nodes(self) -> None:
        while True:
            gone = set()
            for i, event in enumerate(self):
                parent = event.cpu_parent
                if parent is not None and parent.name == event.name and len(parent.cpu_children) == 1:
                    parent.cpu_children = event.cpu_children
                    parent.kernels = event.kernels
                    for child in event.cpu_children:
                        child.cpu_parent = parent
                    gone.add(i)
            if not gone:
                return
            self[:] = [event for i, event in enumerate(self) if i not in gone]

    def _set_backward_stacktraces(self) -> None:
        def backward_parent(event):
            while event is not None and event.scope != 1:
                event = event.cpu_parent
            return event

        forward: dict[tuple, Any] = {}
        for event in self:
            if event.stack is not None and backward_parent(event) is None:
                forward.setdefault((event.sequence_nr, event.thread), event.stack)
        for event in self:
            parent = backward_parent(event)
            if parent is not None:
                if parent.fwd_thread is None:
                    raise AssertionError("Expected fwd_thread to be set for backward parent")
                event.stack = forward.get((parent.sequence_nr, parent.fwd_thread), [])

    # ---------------------------------------------------------------------------------------------- output

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int | None = 75,
              max_name_column_width: int | None = 55, max_shapes_column_width: int | None = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None) -> str:
        """A table as text.

        sort_by: an attribute (cpu_time_total, self_cpu_time_total, cpu_time, cuda_time_total, self_cpu_memory_usage,
        count, key ...), largest first; None: unsorted. row_limit: -1 for all. top_level_events_only: omit nested events.
        time_unit: "s", "ms" or "us" for all times.
        """
        if len(self) == 0:
            return ""
        source = self._unchanged(_RowSource)
        if source is None or sort_by in _TEXTS:
            return build_table(self, sort_by, header, row_limit, max_src_column_width, max_name_column_width,
                               max_shapes_column_width, self._with_flops, self._profile_memory, top_level_events_only, time_unit,
                               self._facts())
        width = {None: -1}
        return source.averages.table(
            sort_by=sort_by, row_limit=row_limit, max_src_column_width=width.get(max_src_column_width, max_src_column_width),
            max_name_column_width=width.get(max_name_column_width, max_name_column_width),
            max_shapes_column_width=width.get(max_shapes_column_width, max_shapes_column_width), header=header,
            top_level_events_only=top_level_events_only, time_unit=time_unit, profile_memory=int(self._profile_memory), with_flops=int(self._with_flops), with_stack=1,
            device_name=self._use_device.upper() if self._use_device else None)

    def _facts(self) -> list[FunctionEventAvg] | None:
        """Rows that determine the widths and totals of a table of unchanged events; None: use the list itself."""
        source = self._unchanged(_EventSource)
        if source is None:
            return None
        rows = list(self.key_averages(True, _MOST_FRAMES if source.with_stack else 0, source.overload_names, True))
        for row in rows:
            row.flops //= row.count  # of one event
        return rows

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        return html_table(self)

    def export_chrome_trace(self, path: Any) -> None:
        """Writes the list for chrome://tracing: events at their times, rows of averages one after another."""
        source = self._unchanged(_RowSource)
        if source is not None:
            source.averages.chrome(path)
            return
        if any(isinstance(event, FunctionEventAvg) for event in self[:1]):
            text = chrome_rows(self)
        else:
            text = chrome_events(self, self._use_device or "cuda")
        write_file(path, "".join(text))

    def supported_export_stacks_metrics(self) -> list[str]:
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Folded stacks for flame graphs: one line per event, root first, with its microseconds."""
        if metric not in self.supported_export_stacks_metrics() + ["self_npu_time_total", "self_device_time_total"]:
            raise ValueError("metric should be one of: " + str(self.supported_export_stacks_metrics()))
        source = self._source
        if source is not None and not (isinstance(source, _EventSource) and source.touched):
            source.trace.stacks(path, metric)
            return
        translate = str.maketrans(" ;\t\n", "____")
        lines = []
        for event in self:
            value = getattr(event, attribute(metric))
            if event.stack and value > 0:
                frames = ";".join(frame.translate(translate) for frame in reversed(event.stack))
                lines.append(f"{frames} {max(1, int(value))}\n")
        write_file(path, "".join(lines))


class _Options:
    """A list's options, for the lists derived from it."""

    def __init__(self, events: EventList) -> None:
        self.use_device, self.profile_memory, self.with_flops = events._use_device, events._profile_memory, events._with_flops
