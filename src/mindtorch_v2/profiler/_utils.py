"""mtprof.profiler._utils (torch.profiler._utils), under the name that it also has here."""

import sys

from mtprof.profiler import _utils
from mtprof.profiler._utils import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = _utils
