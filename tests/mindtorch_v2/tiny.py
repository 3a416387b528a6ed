"""A framework that knows nothing of mindtorch_v2 or PyTorch: two ops, a module class, no tensors. Its ops are reported only while
its collector is attached, as those of a framework that must be hooked into.

What follows "the binding" is all that it takes to give its users torch.profiler's API.
"""
import functools
import os

import mtprof
from mtprof.profiler import ExecutionTraceObserver as _Observer
from mtprof.profiler import Framework, profiler, session

collecting = False
log = []  # what the profiler asked of the framework


def op(function):
    @functools.wraps(function)
    def dispatched(*args):
        token = mtprof.dispatch_op_enter(f"tiny::{function.__name__}", None, args, {}) if collecting else None
        try:
            return function(*args)
        finally:
            mtprof.dispatch_op_exit(token)

    return dispatched


@op
def add(a, b):
    return a + b


@op
def scale(a, by):
    return add(a * by, 0)


class Module:
    def __call__(self, value):
        return self.forward(value)


class Doubling(Module):
    def forward(self, value):
        return scale(value, 2)


class Optimizer:
    def step(self):
        return add(1, 1)


# ------------------------------------------------------------------------------------------------------ the binding


class _Tiny(Framework):
    name = "tiny"
    accelerator = "tpu"
    module_call = Module.__call__.__code__
    optimizer_call = Optimizer.step.__code__
    tpu = False  # is there one?
    broken = None  # what attach() raises

    def has_accelerator(self):
        return self.tpu

    def warm_up(self):
        log.append("warm up")

    def attach(self, options):
        global collecting
        log.append(("attach", options["record_shapes"], os.getpid()))
        if self.broken is not None:
            raise self.broken
        collecting = True

    def detach(self):
        global collecting
        log.append("detach")
        collecting = False


FRAMEWORK = _Tiny()
supported_activities = FRAMEWORK.supported_activities


class Session(session.profile):
    """torch.autograd.profiler.profile"""

    _framework = FRAMEWORK


class _KinetoProfile(profiler._KinetoProfile):
    _framework = FRAMEWORK
    _session_class = Session


class profile(profiler.profile, _KinetoProfile):
    pass


class ExecutionTraceObserver(_Observer):
    _framework = FRAMEWORK
