"""torch.autograd.profiler.profile for PyTorch: the recording session beneath mtprof.pytorch.profile, also usable on its own."""

from mtprof import record_function
from mtprof.profiler import session as _home

from mtprof.pytorch.framework import FRAMEWORK as _FRAMEWORK

__all__ = ["profile", "record_function"]


class profile(_home.profile):
    __doc__ = _home.profile.__doc__
    _framework = _FRAMEWORK
