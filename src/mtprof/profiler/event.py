"""FunctionEvent and FunctionEventAvg: one event, one row of averages, with torch.autograd.profiler_util's names.

A recorded event reads its attributes from C on access. Once its children, kernels or times are changed, it is a plain Python
object, whose numbers are computed from its members, as in torch.
"""

from __future__ import annotations

import ast
import bisect
import json
import warnings
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from mtprof.profiler.common import DeviceType, format_time

if TYPE_CHECKING:
    from mtprof.profiler.events import _EventSource

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


def _filter_name(name: str) -> bool:
    """Is it a helper that events() omits?"""
    return name in (
        MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME, "profiler::_record_function_enter",
        "profiler::_record_function_enter_new", "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr",
        "aten::_version",
    )


def _filter_stack_entry(entry: str) -> bool:
    """Is it a frame to show? Those of backward() itself are not."""
    return not any(file in entry and function in entry for file, function in (
        ("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"), ("torch/tensor", "backward"),
    ))


def _rewrite_name(name: str, with_wildcard: bool = False) -> str:
    return "ProfilerStep*" if with_wildcard and name.startswith("ProfilerStep#") else name


# ---------------------------------------------------------------------------------------------- one event


def _attr_formatter(name: str) -> property:
    return property(lambda self: format_time(getattr(self, name)))


def _deprecated(old: str, new: str, text: str) -> property:
    def read(self):
        warnings.warn(text, FutureWarning, stacklevel=2)
        return getattr(self, new)

    read.__name__ = old
    return property(read)


class FormattedTimesMixin:
    """Averages and formatted times; a subclass has `*_time_total` and `count`."""

    cpu_time_str = _attr_formatter("cpu_time")
    device_time_str = _attr_formatter("device_time")
    cpu_time_total_str = _attr_formatter("cpu_time_total")
    device_time_total_str = _attr_formatter("device_time_total")
    self_cpu_time_total_str = _attr_formatter("self_cpu_time_total")
    self_device_time_total_str = _attr_formatter("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    cuda_time = _deprecated("cuda_time", "device_time", "`cuda_time` is deprecated, please use `device_time` instead.")
    cuda_time_total = _deprecated("cuda_time_total", "device_time_total",
                                  "`cuda_time_total` is deprecated. Use `device_time_total` instead.")
    self_cuda_time_total = _deprecated("self_cuda_time_total", "self_device_time_total",
                                       "`self_cuda_time_total` is deprecated. Use `self_device_time_total` instead.")
    self_cuda_memory_usage = _deprecated("self_cuda_memory_usage", "self_device_memory_usage",
                                         "`self_cuda_memory_usage` is deprecated. Use `self_device_memory_usage` instead.")


class Interval:
    """From start to end, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Returns the length of the interval"""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start}, {self.end})"


Kernel = namedtuple("Kernel", ["name", "device", "duration"])


class EventMetadata(NamedTuple):
    """What a device event records beyond its times; None: unknown."""

    registers_per_thread: int | None = None
    shared_memory: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    priority: int | None = None
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None
    occupancy: dict[str, Any] | None = None
    est_occupancy_pct: float | None = None
    queued: int | None = None
    graph_id: int | None = None
    graph_node_id: int | None = None
    stream: int | None = None
    context: int | None = None
    channel: int | None = None
    channel_type: int | None = None
    bytes: int | None = None
    bandwidth_gb_s: float | None = None
    collective_name: str | None = None
    dtype: str | None = None
    in_msg_nelems: int | None = None
    out_msg_nelems: int | None = None
    in_split_size: str | None = None
    out_split_size: str | None = None
    global_rank_start: int | None = None
    global_rank_stride: int | None = None
    group_size: int | None = None
    process_group_name: str | None = None
    process_group_desc: str | None = None
    group_ranks: str | None = None
    rank: int | None = None
    src_rank: int | None = None
    dst_rank: int | None = None
    seq: int | None = None
    is_async: bool | None = None


# Attributes of an event and their defaults, in the order of torch's constructor.
_EVENT_DEFAULTS: dict[str, Any] = {
    "overload_name": None, "fwd_thread": None, "input_shapes": None, "stack": None, "scope": 0, "use_device": None,
    "cpu_memory_usage": 0, "device_memory_usage": 0, "is_async": False, "is_remote": False, "sequence_nr": -1, "node_id": -1,
    "device_type": DeviceType.CPU, "device_index": 0, "device_resource_id": None, "is_legacy": False, "flops": None,
    "trace_name": None, "concrete_inputs": None, "kwinputs": None, "is_user_annotation": False, "is_python_function": False,
    "activity_type": None, "metadata_json": None, "flow_id": None, "flow_type": None, "flow_start": None, "external_id": 0,
    "linked_correlation_id": 0, "extra_meta": None, "structured_input_shapes": None, "structured_input_strides": None,
    "input_dtypes": None, "python_id": -1, "python_parent_id": -1, "python_module_id": -1,
}


def _total(name: str, of_self: bool) -> property:
    """A time or a size: C's while the event is unchanged, else computed from its parts as in torch."""
    whole = name.replace("self_", "")
    computed = {"cpu_time_total": "_cpu_time", "device_time_total": "_device_time"}.get(whole)

    def read(self):
        if self._event is not None:
            return getattr(self._event, name)
        value = getattr(self, computed)() if computed else getattr(self, "_" + whole)
        if not of_self:
            return value
        if self.is_async or (self.device_type != DeviceType.CPU and whole != "device_time_total"):
            return 0
        if self.device_type != DeviceType.CPU:
            return value
        return value - sum(getattr(child, whole) for child in self.cpu_children)

    def write(self, value):
        if of_self or computed:
            raise AttributeError(f"{name} is computed from the event's times and children")
        self._detach()
        self.__dict__["_" + whole] = value

    return property(read, write)


class FunctionEvent(FormattedTimesMixin):
    """One call of an op, a scope or a kernel. Acts as torch's FunctionEvent and as a mapping: event["name"], "stack" in
    event, event.get("step").

    Times are microseconds since the trace began; stack is innermost frame first; kernels are the device work that it
    launched itself; self_* excludes its children.
    """

    def __init__(self, id: int, name: str, thread: int, start_us: float, end_us: float, *values: Any, **named: Any) -> None:
        given = dict(zip(_EVENT_DEFAULTS, values))
        unknown = [key for key in named if key not in _EVENT_DEFAULTS or key in given]
        if unknown or len(values) > len(_EVENT_DEFAULTS):
            raise TypeError(f"FunctionEvent() got unexpected arguments: {', '.join(unknown) or 'too many'}")
        given.update(named)
        state = self.__dict__
        state.update(_EVENT_DEFAULTS)
        state.update(given)
        state.update(
            _event=None, _source=None, _index=-1, id=id, name=name, thread=thread, count=1,
            _time_range=Interval(start_us, end_us), _kernels=[], _cpu_children=[], _cpu_parent=None,
            self_cpu_percent=-1, total_cpu_percent=-1, total_device_percent=-1, event_metadata=None,
            _cpu_memory_usage=state.pop("cpu_memory_usage"), _device_memory_usage=state.pop("device_memory_usage"),
            _metadata_json=state.pop("metadata_json"),
        )
        if state.pop("extra_meta"):
            state["event_metadata"] = _build_metadata(given["extra_meta"])
        if state["device_resource_id"] is None:
            state["device_resource_id"] = thread

    @classmethod
    def _recorded(cls, source: _EventSource, index: int) -> FunctionEvent:
        made = cls.__new__(cls)
        state = made.__dict__
        state["_source"], state["_index"], state["_event"] = source, index, source.events[index]
        return made

    def __getattr__(self, name: str) -> Any:
        """First access of an attribute: reads it from the record and caches it."""
        reader = _READERS.get(name)
        if reader is None or self.__dict__.get("_source") is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self.__dict__[name] = reader(self)
        return value

    def _detach(self) -> None:
        """From here on the event is plain Python: its numbers follow from its members."""
        if self._event is None:
            return
        for name in _READERS:
            getattr(self, name)
        self.__dict__["_event"] = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy or a pickle is plain: it does not need the recording."""
        read = {name: getattr(self, name) for name in _READERS} if self._event is not None else {}
        return {**self.__dict__, **read, "_event": None, "_source": None, "_index": -1}

    # ------------------------------------------------------------------------------------------ torch's parts

    @property
    def key(self) -> str:
        return self.name

    @property
    def time_range(self) -> Interval:
        return self._time_range

    @time_range.setter
    def time_range(self, interval: Interval) -> None:
        self._detach()
        self.__dict__["_time_range"] = interval

    @property
    def kernels(self) -> list[Kernel]:
        return self._kernels

    @kernels.setter
    def kernels(self, kernels: list[Kernel]) -> None:
        self._detach()
        self.__dict__["_kernels"] = kernels

    @property
    def cpu_children(self) -> list[FunctionEvent]:
        return self._cpu_children

    @cpu_children.setter
    def cpu_children(self, children: list[FunctionEvent]) -> None:
        self._detach()
        self.__dict__["_cpu_children"] = children

    @property
    def cpu_parent(self) -> FunctionEvent | None:
        return self._cpu_parent

    @cpu_parent.setter
    def cpu_parent(self, parent: FunctionEvent | None) -> None:
        self.__dict__["_cpu_parent"] = parent

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        if self.device_type != DeviceType.CPU:
            raise AssertionError("Expected device_type to be CPU")
        self._detach()
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Append a direct CPU child of type FunctionEvent."""
        if self.device_type != DeviceType.CPU:
            raise AssertionError("Expected device_type to be CPU")
        if not isinstance(child, FunctionEvent):
            raise AssertionError("Expected child to be a FunctionEvent")
        if child.device_type != DeviceType.CPU:
            raise AssertionError("Expected child device_type to be CPU")
        self._detach()
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the immediate CPU parent of type FunctionEvent."""
        if self.device_type != DeviceType.CPU:
            raise AssertionError("Expected device_type to be CPU")
        if not isinstance(parent, FunctionEvent):
            raise AssertionError("Expected parent to be a FunctionEvent")
        if parent.device_type != DeviceType.CPU:
            raise AssertionError("Expected parent device_type to be CPU")
        self.cpu_parent = parent

    def _cpu_time(self) -> float:
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    def _device_time(self) -> float:
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            return self.time_range.elapsed_us()
        own = sum(kernel.duration for kernel in self.kernels)
        return own if self.is_legacy else own + sum(child.device_time_total for child in self.cpu_children)

    cpu_time_total = _total("cpu_time_total", False)
    device_time_total = _total("device_time_total", False)
    self_cpu_time_total = _total("self_cpu_time_total", True)
    self_device_time_total = _total("self_device_time_total", True)
    cpu_memory_usage = _total("cpu_memory_usage", False)
    device_memory_usage = _total("device_memory_usage", False)
    self_cpu_memory_usage = _total("self_cpu_memory_usage", True)
    self_device_memory_usage = _total("self_device_memory_usage", True)
    metadata_json = _deprecated("metadata_json", "_metadata_json",
                                "`metadata_json` is deprecated. Use `event_metadata` instead.")

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} {self.use_device}_time={self.device_time_str} "
            f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {self.use_device}_memory_usage={self.device_memory_usage} "
            f"is_async={self.is_async} is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )

    # ------------------------------------------------------------------------------------------- as a mapping

    def keys(self) -> list[str]:
        """The event as a mapping; optional keys are present only if their flag was on."""
        return list(self._mapping())

    def _mapping(self) -> dict[str, Any]:
        made = self.__dict__.get("_as_mapping")
        if made is None:
            made = self.__dict__["_as_mapping"] = _event_mapping(self)
        return made

    def values(self) -> list[Any]:
        return list(self._mapping().values())

    def items(self) -> list[tuple[str, Any]]:
        return list(self._mapping().items())

    def get(self, key: str, default: Any = None) -> Any:
        return self._mapping().get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self._mapping()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._mapping()

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self._mapping())

    def __bool__(self) -> bool:
        return True


def _build_metadata(extra: dict[str, str]) -> EventMetadata | None:
    """Kineto's texts by key, as an EventMetadata."""
    renamed = {"est. achieved occupancy %": "est_occupancy_pct", "memory bandwidth (GB/s)": "bandwidth_gb_s",
               "Process Group Description": "process_group_desc", "Process Group Ranks": "group_ranks",
               "Is asynchronized op": "is_async"}
    fields: dict[str, Any] = {}
    for key, value in extra.items():
        field = renamed.get(key, key.lower().replace(" ", "_"))
        if field in EventMetadata._fields:
            try:
                fields[field] = json.loads(value) if isinstance(value, str) else value
            except ValueError:
                fields[field] = value
    return EventMetadata(**fields) if fields else None


_KIND_WORDS = {"backward": "op", "step": "scope"}
ACTIVITY_TYPES = {"op": "cpu_op", "backward": "cpu_op", "scope": "user_annotation", "step": "user_annotation",
                   "runtime": "cuda_runtime", "python": "python_function", "module": "python_function", "kernel": "kernel",
                   "memcpy": "gpu_memcpy", "memset": "gpu_memset", "device_scope": "gpu_user_annotation",
                   "memory": "cpu_instant_event", "overhead": "overhead"}


def _event_mapping(event: FunctionEvent) -> dict[str, Any]:
    raw, source = event._event, event._source
    start, end = event.time_range.start, event.time_range.end
    if raw is None:
        return {"name": event.trace_name or event.name, "kind": "op", "device_type": event.device_type,
                "start_ns": round(start * 1000), "end_ns": round(end * 1000), "duration_ns": round((end - start) * 1000),
                "step": 0, "thread_id": event.thread}
    kind = _KIND_WORDS.get(raw.kind, raw.kind)
    device = DeviceType.NPU if raw.is_device or raw.op_device_type > 0 else DeviceType.CPU
    made = {"name": raw.name, "kind": kind, "device_type": device, "start_ns": raw.start_ns, "end_ns": raw.end_ns,
            "duration_ns": raw.end_ns - raw.start_ns, "step": max(raw.step, 0), "thread_id": raw.tid}
    if kind == "op":
        launch = next((child for child in source.children(event._index) if child.kind == "runtime"), None)
        made["correlation_id"] = raw.correlation_id or raw.id or raw.record_function_id
        made["runtime_name"] = launch.name if launch is not None else f"{device.lower()}LaunchKernel"
        made["runtime_tid"] = launch.tid if launch is not None else raw.tid
    if source.record_shapes and kind == "op":
        made["input_shapes"] = raw.input_shapes or []
    if source.with_stack and kind in ("op", "scope"):
        made["stack"] = list(raw.stack or ())
    if source.profile_memory and raw.memory_before >= 0:
        word = device.lower()
        made[f"{word}_memory_allocated_before"] = raw.memory_before
        made[f"{word}_memory_allocated_after"] = raw.memory_after
        made[f"{word}_memory_allocated_delta"] = raw.memory_after - raw.memory_before
    return made


def metadata_text(raw: Any) -> str:
    """The event's args in the exported trace, except ids and inputs: JSON without its braces, as in torch."""
    parts = {"device": raw.device_index, "stream": raw.stream, "correlation": raw.correlation_id} if raw.is_device else {"Ev Idx": raw.span}
    if raw.is_device and raw.bytes > 0:
        parts["bytes"] = raw.bytes
    return ", ".join([f'"{key}": {value}' for key, value in parts.items()] + ([raw.args] if raw.args else []))


def json_list(text: str) -> list[Any]:
    return json.loads(text) if text else []


def _value(text: str) -> Any:
    """A non-tensor argument, from its text in a trace."""
    if text in ("inf", "-inf", "nan"):
        return float(text)
    try:
        return ast.literal_eval(text) if text else None
    except (SyntaxError, ValueError):
        return text


def flat(shapes: list[Any] | None) -> list[Any]:
    """torch's input_shapes: an empty list stands for a list of tensors."""
    return [[] if any(isinstance(dim, list) for dim in shape) else shape for shape in shapes or ()]


def concrete_values(raw: Any) -> list[Any]:
    """One per input: a number, a list or a text; None for a tensor."""
    return [_value(text) for text in json_list(raw.concrete_inputs)]


def keyword_values(raw: Any) -> dict[str, Any]:
    return {key: value for key, value in json.loads("{%s}" % raw.args).items() if key != "args"}


_LAUNCHED = ("runtime", "kernel", "memcpy", "memset", "sync")

# How each attribute of a recorded event is read.
_READERS: dict[str, Callable[[FunctionEvent], Any]] = {
    "id": lambda e: e._event.correlation_id if e._event.kind in _LAUNCHED else e._event.id,
    "node_id": lambda e: -1,
    "name": lambda e: e._event.key,
    "trace_name": lambda e: None if e._event.kind in ("memory", "out_of_memory") else e._event.name,
    "overload_name": lambda e: e._event.overload_name if e._source.overload_names else "",
    "_time_range": lambda e: Interval(e._event.start_ns / 1000, e._event.end_ns / 1000),
    "thread": lambda e: e._event.thread,
    "fwd_thread": lambda e: e._event.fwd_thread,
    "_kernels": lambda e: [Kernel(*kernel) for kernel in e._event.kernels],
    "count": lambda e: 1,
    "_cpu_children": lambda e: [e._source.get(i) for i in e._event.children],
    "_cpu_parent": lambda e: e._source.get(e._event.parent) if e._event.parent >= 0 else None,
    "input_shapes": lambda e: flat(e._event.input_shapes) if e._source.record_shapes else [],
    "structured_input_shapes": lambda e: e._event.input_shapes or [],
    "structured_input_strides": lambda e: e._event.input_strides or [],
    "input_dtypes": lambda e: json_list(e._event.input_types),
    "concrete_inputs": lambda e: concrete_values(e._event) if e._source.concrete_inputs else [],
    "kwinputs": lambda e: keyword_values(e._event),
    "stack": lambda e: [f for f in e._event.stack or () if _filter_stack_entry(f)],
    "scope": lambda e: e._event.scope,
    "use_device": lambda e: e._source.use_device,
    "_cpu_memory_usage": lambda e: e._event.cpu_memory_usage,
    "_device_memory_usage": lambda e: e._event.device_memory_usage,
    "is_async": lambda e: e._event.is_async,
    "is_remote": lambda e: False,
    "is_legacy": lambda e: False,
    "sequence_nr": lambda e: e._event.sequence_nr,
    "device_type": lambda e: DeviceType.NPU if e._event.is_device else DeviceType.CPU,
    "device_index": lambda e: e._event.device_index,
    "device_resource_id": lambda e: e._event.stream,
    "flops": lambda e: e._event.flops,
    "is_user_annotation": lambda e: e._event.is_user_annotation,
    "is_python_function": lambda e: e._event.kind in ("python", "module"),
    "activity_type": lambda e: ACTIVITY_TYPES.get(e._event.kind),
    "self_cpu_percent": lambda e: -1,
    "total_cpu_percent": lambda e: -1,
    "total_device_percent": lambda e: -1,
    "_metadata_json": lambda e: metadata_text(e._event) if e._source.expose_metadata else "",
    "flow_id": lambda e: 0,
    "flow_type": lambda e: 0,
    "flow_start": lambda e: False,
    "external_id": lambda e: e._event.id,
    "linked_correlation_id": lambda e: e._event.id if e._event.kind in _LAUNCHED else 0,
    "event_metadata": lambda e: EventMetadata(stream=e._event.stream) if e._event.is_device else None,
    "python_id": lambda e: -1,
    "python_parent_id": lambda e: -1,
    "python_module_id": lambda e: -1,
}


# ------------------------------------------------------------------------------------------------- one row

_ROW_SUMS = ("cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total", "cpu_memory_usage",
             "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage", "count")


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over events of one key. min, p50, p99 and max are over single events' times, if C computed them."""

    def __init__(self, row: dict[str, Any] | None = None) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.self_device_memory_usage = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU
        self.is_legacy = False
        self.flops = 0
        if row is not None:
            self._fill(row)

    def _fill(self, row: dict[str, Any]) -> None:
        """From the dict that _row returns, or a part of it."""
        state = self.__dict__
        state.update(node_id=-1, scope=0, input_shapes="", overload_name="", stack=[], cpu_children=[], is_user_annotation=False)
        for name, key in (("self_time_ns", "self_cpu_time_total"), ("total_time_ns", "cpu_time_total"),
                          ("self_device_time_ns", "self_device_time_total"), ("device_time_ns", "device_time_total")):
            if name in row:
                state[key] = row[name] / 1000
        state.update((key, value) for key, value in row.items()
                     if key not in ("name", "is_device") and not key.endswith("_ns"))
        if "name" in row:
            state["key"] = row["name"]
        if "is_device" in row:
            state["device_type"] = DeviceType.NPU if row["is_device"] else DeviceType.CPU
        state["device_type"] = DeviceType(state["device_type"])
        state["stack"] = list(state["stack"])

    def __getattr__(self, name: str) -> Any:
        """Parent and children are those of the row's first event, as in torch, which is looked up on access."""
        if name not in ("cpu_parent", "cpu_children") or "_first" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        event = self._first()
        self.cpu_parent, self.cpu_children = (event.cpu_parent, event.cpu_children) if event is not None else (None, [])
        return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_first"}

    @property
    def _row(self) -> dict[str, Any]:
        """The row as a dict, from which the class can create a copy."""
        made = {
            "name": self.key, "count": self.count, "device_type": self.device_type,
            "self_time_ns": round(self.self_cpu_time_total * 1000), "total_time_ns": round(self.cpu_time_total * 1000),
            "avg_time_ns": round(self.cpu_time * 1000), "self_device_time_ns": round(self.self_device_time_total * 1000),
            "device_time_ns": round(self.device_time_total * 1000),
        }
        made.update((key, value) for key, value in self.__dict__.items()
                    if key not in ("key", "count", "device_type", "cpu_parent", "cpu_children", "_first"))
        made["stack"] = list(self.stack or ())
        return made

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        if self.key is None:
            for name in ("key", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name", "input_shapes",
                         "stack", "scope", "device_type", "is_legacy", "use_device"):
                setattr(self, name, getattr(other, name))
            self.is_user_annotation = getattr(other, "is_user_annotation", False)
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError("Expected other to be a FunctionEvent or FunctionEventAvg")
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in _ROW_SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if self.flops is None:
            self.flops = other.flops
        elif other.flops is not None:
            self.flops += other.flops
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        device = "cuda" if not self.use_device else self.use_device
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f" self_{device}_time={self.self_device_time_total_str} {device}_time={self.device_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


# ------------------------------------------------------------------------------------------------- helpers


class StringTable(defaultdict):
    """Names as shown. Ours are not mangled, so they are unchanged."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class MemRecordsAcc:
    """Memory records by time: records[i][0] has start_ns()."""

    def __init__(self, mem_records: list) -> None:
        self._mem_records = mem_records
        order = sorted((record[0].start_ns(), i) for i, record in enumerate(mem_records))
        self._start_nses = [start for start, _ in order]
        self._indices = [i for _, i in order]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Return all records in the given interval"""
        first = bisect.bisect_left(self._start_nses, start_ns)
        for i in range(first, bisect.bisect_right(self._start_nses, end_ns)):
            yield self._mem_records[self._indices[i]]
