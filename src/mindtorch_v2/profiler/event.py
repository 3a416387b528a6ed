"""mtprof.profiler.event (FunctionEvent and FunctionEventAvg), under the name that it also has here."""

import sys

from mtprof.profiler import event
from mtprof.profiler.event import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = event
