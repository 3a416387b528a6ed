"""prof.profiler.kineto_results: the recording through the interface of torch's own tools."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import mtprof

from mtprof.profiler.common import DeviceType, RecordScope
from mtprof.profiler.event import ACTIVITY_TYPES, concrete_values, flat, json_list, keyword_values, metadata_text
from mtprof.profiler.framework import GENERIC, Framework
from mtprof.profiler.tree import _ProfilerEvent, event_tree


class _KinetoEvent:
    """An event in Kineto's form, from which torch creates FunctionEvents. All members are methods."""

    __slots__ = ("_e", "_start_ns")

    def __init__(self, event: mtprof.Event, zero_ns: int) -> None:
        self._e, self._start_ns = event, zero_ns

    def name(self) -> str:
        return self._e.name

    def overload_name(self) -> str:
        return self._e.overload_name

    def start_ns(self) -> int:
        return self._start_ns + self._e.start_ns

    def end_ns(self) -> int:
        return self._start_ns + self._e.end_ns

    def duration_ns(self) -> int:
        return self._e.end_ns - self._e.start_ns

    def start_thread_id(self) -> int:
        return self._e.thread

    end_thread_id = start_thread_id

    def fwd_thread_id(self) -> int:
        return self._e.fwd_thread

    def device_type(self) -> DeviceType:
        return DeviceType.NPU if self._e.is_device else DeviceType.CPU

    def device_index(self) -> int:
        return self._e.device_index

    def device_resource_id(self) -> int:
        return self._e.stream

    def correlation_id(self) -> int:
        return self._e.correlation_id or self._e.record_function_id

    def linked_correlation_id(self) -> int:
        return self._e.id if self._e.correlation_id else 0

    def external_id(self) -> int:
        return self._e.id

    def sequence_nr(self) -> int:
        return self._e.sequence_nr

    def scope(self) -> int:
        return int(RecordScope(self._e.scope))

    def nbytes(self) -> int:
        return self._e.bytes

    def flops(self) -> int:
        return self._e.flops

    def shapes(self) -> list[Any]:
        return flat(self._e.input_shapes)

    def structured_input_shapes(self) -> list[Any]:
        return self._e.input_shapes or []

    def structured_input_strides(self) -> list[Any]:
        return self._e.input_strides or []

    def dtypes(self) -> list[str]:
        return json_list(self._e.input_types)

    def concrete_inputs(self) -> list[Any]:
        return concrete_values(self._e)

    def kwinputs(self) -> dict[str, Any]:
        return keyword_values(self._e)

    def metadata_json(self) -> str:
        return metadata_text(self._e)

    def extra_meta(self) -> dict[str, str]:
        return {}

    def stack(self) -> list[str]:
        return self._e.stack

    def is_async(self) -> bool:
        return self._e.is_async

    def is_user_annotation(self) -> bool:
        return self._e.is_user_annotation

    def is_python_function(self) -> bool:
        return self._e.kind in ("python", "module")

    def is_hidden_event(self) -> bool:
        return False

    def activity_type(self) -> str:
        return ACTIVITY_TYPES.get(self._e.kind, self._e.kind)

    # Arrows, Python's functions and events of CUDA are not told apart by numbers here.

    def flow_id(self) -> int:
        return 0

    def flow_type(self) -> int:
        return 0

    def flow_start(self) -> bool:
        return False

    def python_id(self) -> int:
        return -1

    python_parent_id = python_module_id = cuda_elapsed_us = privateuse1_elapsed_us = python_id

    def __repr__(self) -> str:
        return f"<_KinetoEvent {self.name()!r}>"


class _ProfilerResult:
    """The result of a stopped profiler. Other attributes are those of the trace."""

    def __init__(self, trace: mtprof.Trace, framework: Framework = GENERIC) -> None:
        self.trace, self._framework = trace, framework

    @cached_property
    def _roots(self) -> list[_ProfilerEvent]:
        return event_tree(self.trace, self._framework)

    def experimental_event_tree(self) -> list[_ProfilerEvent]:
        """The roots of the event tree, by time."""
        return list(self._roots)

    def events(self) -> list[_KinetoEvent]:
        found = self.trace.events()
        zero = self.trace.info()["base_ns"] + found.zero_ns
        return [_KinetoEvent(found[i], zero) for i in range(len(found))]

    def trace_start_ns(self) -> int:
        return self.trace.info()["base_ns"] + self.trace.events().zero_ns

    def save(self, path: str) -> None:
        """Writes the trace, as export_chrome_trace does."""
        self.trace.chrome(path, path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trace, name)
