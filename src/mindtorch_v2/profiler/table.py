"""mtprof.profiler.table (tables of events), under the name that it also has here."""

import sys

from mtprof.profiler import table
from mtprof.profiler.table import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = table
