"""torch.autograd.profiler: the recording session beneath mindtorch_v2.profiler, also usable on its own.

    with torch.autograd.profiler.profile(record_shapes=True) as prof:
        ...
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))

A process has at most one recording session, which covers all of its threads. A child forked meanwhile records into its own
file, and so do the workers of a DataLoader, whenever they were started. The session is mtprof.profiler.session's, bound to
mindtorch_v2.
"""

from __future__ import annotations

from typing import Any

from mtprof import record_function
from mtprof.emit import emit_itt, emit_nvtx
from mtprof.profiler import session as _home
from mtprof.profiler.common import DeviceType, KinetoStepTracker, ProfilerActivity, kineto_available  # noqa: F401
from mtprof.profiler.event import FunctionEvent, FunctionEventAvg, MemRecordsAcc
from mtprof.profiler.events import EventList
from mtprof.profiler.nvprof import _KERNELS, _MARKERS, EnforceUnique, load_nvprof, parse_nvprof_trace  # noqa: F401
from mtprof.profiler.results import _KinetoEvent  # noqa: F401

from mindtorch_v2 import _lazy
from mindtorch_v2._framework import FRAMEWORK as _FRAMEWORK, supported_activities

__all__ = [
    "profile",
    "record_function",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "EnforceUnique",
    "parse_nvprof_trace",
    "KinetoStepTracker",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "MemRecordsAcc",
]

_supported_activities = supported_activities
_load_matrix_library, _name_modules = _FRAMEWORK.warm_up, _FRAMEWORK.name_modules


class profile(_home.profile):
    __doc__ = _home.profile.__doc__
    _framework = _FRAMEWORK


_rest = _lazy.rest_of(_home, __name__)


def __getattr__(name: str) -> Any:
    if name == "scope":
        from mindtorch_v2.utils._record import scope

        return scope
    return _rest(name)
