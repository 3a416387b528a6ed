"""mtprof.profiler.tree (the event tree), under the name that it also has here."""

import sys

from mtprof.profiler import tree
from mtprof.profiler.tree import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = tree
