"""torch.profiler.profile for mindtorch_v2; the state machine is in mtprof.profiler.profiler."""

from __future__ import annotations

from mtprof.profiler import profiler as _home
from mtprof.profiler.common import ProfilerAction, kineto_available  # noqa: F401
from mtprof.profiler.profiler import ExecutionTraceObserver, schedule, tensorboard_trace_handler

import mindtorch_v2.autograd.profiler as prof
from mindtorch_v2 import _lazy
from mindtorch_v2._framework import FRAMEWORK as _FRAMEWORK, supported_activities

__all__ = [
    "supported_activities",
    "ProfilerAction",
    "schedule",
    "tensorboard_trace_handler",
    "profile",
    "ExecutionTraceObserver",
]


class _KinetoProfile(_home._KinetoProfile):
    """The profiler without steps: start(), stop() and the results. Arguments are those of profile."""

    _framework = _FRAMEWORK
    _session_class = prof.profile


class profile(_home.profile, _KinetoProfile):
    # Records the ops of mindtorch_v2: activities, schedule, on_trace_ready and the other arguments are documented there.
    __doc__ = _home.profile.__doc__


__getattr__ = _lazy.rest_of(_home, __name__)
