"""Scopes of the framework itself in profiles ("Optimizer.step#Adam.step"), memory categories, names of types.

If the extension lacks a feature, it costs nothing: scope() is then a shared null context.
"""

import contextlib
import sys

import mtprof

from mindtorch_v2 import _C

_begin = getattr(_C, "scope_begin", None)
_end = getattr(_C, "scope_end", None)
_nothing = contextlib.nullcontext()


class _Scope:
    __slots__ = ("name", "token")

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.token = _begin(self.name)

    def __exit__(self, type, value, traceback):
        _end(self.token)


def scope(name):
    return _Scope(name) if _begin is not None else _nothing


mtprof.hide_file(scope.__code__.co_filename)


# The current recording, for workers in other processes; the profiler is imported only when needed.
_PROFILER = "mtprof.profiler.session"


def recording():
    """The state to send to a worker with each task; None: nothing is recorded."""
    session = sys.modules.get(_PROFILER)
    return session.worker_state() if session is not None else None


def join(state):
    """In the worker: records as the sending process does."""
    if state is not None or _PROFILER in sys.modules:
        from mtprof.profiler.session import join_worker

        from mindtorch_v2._framework import FRAMEWORK

        join_worker(state, FRAMEWORK)


_PARAMETER, _OPTIMIZER_STATE = 0, 1  # mtp_memory_category
_tag = getattr(_C, "_memory_tag", lambda tensor, category: None)


def tag_parameter(tensor):
    """Sets the category of its memory in the memory timeline."""
    _tag(tensor, _PARAMETER)


def tag_state(tensor):
    _tag(tensor, _OPTIMIZER_STATE)
    return tensor


def typename(value):
    """The type of a value as PyTorch's messages name it."""
    import mindtorch_v2 as torch

    if isinstance(value, torch.Tensor):
        return f"torch.{value.dtype._scalar_type}Tensor"
    named = value if hasattr(value, "__qualname__") or hasattr(value, "__name__") else type(value)
    module = getattr(named, "__module__", None) or ""
    name = getattr(named, "__qualname__", None) or named.__name__
    return name if module in ("", "builtins") else f"{module}.{name}"
