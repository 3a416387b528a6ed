"""torch.autograd.profiler_util: only the names; the implementation is in mtprof.profiler.event and .events."""

from mtprof.profiler.common import (
    format_memory as _format_memory,
    format_time as _format_time,
    format_time_share as _format_time_share,
)
from mtprof.profiler.event import (
    MEMORY_EVENT_NAME,
    OUT_OF_MEMORY_EVENT_NAME,
    EventMetadata,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
    _filter_name,
    _filter_stack_entry,
    _rewrite_name,
)
from mtprof.profiler.events import EventList
from mtprof.profiler.table import build_table as _build_table

__all__ = [
    "EventList",
    "EventMetadata",
    "FormattedTimesMixin",
    "Interval",
    "Kernel",
    "FunctionEvent",
    "FunctionEventAvg",
    "StringTable",
    "MemRecordsAcc",
]
