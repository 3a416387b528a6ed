"""torch.profiler for mindtorch_v2: what a program does, op by op, with low overhead.

    import mindtorch_v2 as torch
    from mindtorch_v2.profiler import profile, record_function, ProfilerActivity

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("model_inference"):
            model(inputs)
    print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json.gz")
"""

import importlib
from typing import Any

from mtprof import dispatch_op_enter, dispatch_op_exit, is_profiler_enabled, record_function
from mtprof.profiler.common import (
    DeviceType,
    KinetoStepTracker,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    kineto_available,
)
from mtprof.profiler.framework import _optimizer_post_hook, count_optimizer_steps  # noqa: F401

from mindtorch_v2._framework import FRAMEWORK as _FRAMEWORK
from mindtorch_v2.profiler import itt
from mindtorch_v2.profiler.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

_supported_activities = supported_activities

__all__ = [  # torch.profiler's; written out: type checkers read it
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
]


count_optimizer_steps(_FRAMEWORK)

_MODULES = ("_children", "_memory_profiler", "_pattern_matcher", "_utils", "common", "event", "events", "execution_trace", "memory", "private",
            "results", "table", "trace", "tree")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"mindtorch_v2.profiler.{name}")
    raise AttributeError(f"module 'mindtorch_v2.profiler' has no attribute {name!r}")
