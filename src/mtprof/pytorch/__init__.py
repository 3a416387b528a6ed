"""torch.profiler for PyTorch, by mtprof: the same API, a fraction of the cost.

    import mtprof.pytorch as profiler            # instead of: import torch.profiler as profiler

    with profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        train()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json.gz")

PyTorch's ops, backward nodes, record_function scopes (PyTorch's and ours), optimizer steps, DataLoader, modules, Python functions
and memory are recorded by libmtprof; PyTorch's own profiler is not involved, and may run at the same time. Values of PyTorch's
enums (torch.profiler.ProfilerActivity, what torch.profiler.schedule returns) are understood. Kernels on GPUs are not recorded.
`mtprof run` does the same for programs that are not to be changed: docs/run.md.
"""

import importlib
from typing import Any

from mtprof.pytorch import _early

_early.prepare_itt()  # before PyTorch is loaded

from mtprof import is_profiler_enabled, record_function  # noqa: E402
from mtprof.profiler import profiler as _home  # noqa: E402
from mtprof.profiler.common import (  # noqa: E402
    DeviceType,
    KinetoStepTracker,
    ProfilerAction,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    kineto_available,
)
from mtprof.profiler import execution_trace as _execution_trace  # noqa: E402
from mtprof.profiler.framework import count_optimizer_steps as _count_optimizer_steps  # noqa: E402
from mtprof.profiler.profiler import schedule, tensorboard_trace_handler  # noqa: E402
from mtprof.pytorch import session  # noqa: E402
from mtprof.pytorch.framework import FRAMEWORK as _FRAMEWORK  # noqa: E402

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

supported_activities = _supported_activities = _FRAMEWORK.supported_activities


class ExecutionTraceObserver(_execution_trace.ExecutionTraceObserver):
    __doc__ = _execution_trace.ExecutionTraceObserver.__doc__
    _framework = _FRAMEWORK


class _KinetoProfile(_home._KinetoProfile):
    """The profiler without steps: start(), stop() and the results. Arguments are those of profile."""

    _framework = _FRAMEWORK
    _session_class = session.profile


class profile(_home.profile, _KinetoProfile):
    # Records the ops of PyTorch: activities, schedule, on_trace_ready and the other arguments are documented there.
    __doc__ = _home.profile.__doc__

    def _step(self) -> None:
        if self._started:
            super()._step()
            return
        # As in PyTorch, only counted: training loops go on stepping after the profile was stopped.
        self.step_num += 1
        self.current_action = self._prev_schedule_action = _home._checked_action(self.schedule(self.step_num))


_count_optimizer_steps(_FRAMEWORK)


_MODULES = ("_memory_profiler", "_pattern_matcher", "_utils", "profiler")  # PyTorch's own do not know our events


def __getattr__(name: str) -> Any:
    """What else torch.profiler has: itt ... are PyTorch's own."""
    if name in _MODULES:
        return importlib.import_module(f"mtprof.pytorch.{name}")
    import torch.profiler

    return getattr(torch.profiler, name)
