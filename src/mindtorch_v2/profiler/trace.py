"""mtprof.profiler.trace (RecordedTrace), under the name that it also has here."""

import sys

from mtprof.profiler import trace
from mtprof.profiler.trace import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = trace
