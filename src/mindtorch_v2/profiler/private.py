"""The private names of torch.profiler that tools import: torch._C._profiler, torch._C._autograd, torch.ops.profiler.

mindtorch_v2/__init__.py puts them where torch has them (mindtorch_v2._C._profiler ...); they are imported on first use.
"""

from mtprof.profiler import private as _home
from mtprof.profiler.private import *  # noqa: F403

from mindtorch_v2 import _lazy
from mindtorch_v2._framework import supported_activities
from mindtorch_v2.autograd.profiler import profile as _profile

_supported_activities = supported_activities
_prepare_profiler, _enable_profiler = _home.functions_of(_profile)

__getattr__ = _lazy.rest_of(_home, __name__)
