"""mtprof.profiler._memory_profiler (torch.profiler._memory_profiler), under the name that it also has here."""

import sys

from mtprof.profiler import _memory_profiler
from mtprof.profiler._memory_profiler import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = _memory_profiler
