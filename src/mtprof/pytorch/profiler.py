"""torch.profiler.profiler, which some programs import from."""

from mtprof.pytorch import (  # noqa: F401
    ExecutionTraceObserver,
    ProfilerAction,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
