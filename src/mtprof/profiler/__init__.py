"""torch.profiler's API, for any framework that reports its ops to mtprof.

    from mtprof.profiler import profile, record_function

    with profile(with_stack=True) as prof:
        with record_function("work"):
            ...
    print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json.gz")

Used directly, it belongs to no framework. mindtorch_v2.profiler is this API bound to mindtorch_v2; framework.py says how another
one is bound.
"""

from mtprof import dispatch_op_enter, dispatch_op_exit, is_profiler_enabled, record_function  # noqa: F401
from mtprof.profiler.common import (  # noqa: F401
    DeviceType,
    KinetoStepTracker,
    ProfilerAction,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    kineto_available,
)
from mtprof.profiler.execution_trace import ExecutionTraceObserver
from mtprof.profiler.framework import Framework
from mtprof.profiler.profiler import _KinetoProfile, profile, schedule, tensorboard_trace_handler  # noqa: F401

supported_activities = profile._framework.supported_activities

__all__ = [
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "DeviceType",
    "record_function",
    "ExecutionTraceObserver",
    "Framework",
]
