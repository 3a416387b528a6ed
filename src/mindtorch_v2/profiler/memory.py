"""mtprof.profiler.memory (the memory timeline), under the name that it also has here."""

import sys

from mtprof.profiler import memory
from mtprof.profiler.memory import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = memory
