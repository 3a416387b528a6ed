"""torch.profiler._pattern_matcher for mindtorch_v2; the patterns are in mtprof.profiler._pattern_matcher."""

import os
from mtprof.profiler import _pattern_matcher as _home
from mtprof.profiler._pattern_matcher import *  # noqa: F403

from mindtorch_v2 import _lazy
from mindtorch_v2._framework import FRAMEWORK as _FRAMEWORK

_LIBRARY = _FRAMEWORK.library
_LOADER = tuple(os.path.join(prefix, "utils", "data", "dataloader.py") for prefix in _LIBRARY)

__getattr__ = _lazy.rest_of(_home, __name__)
