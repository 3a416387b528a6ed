"""mtprof.profiler.results (kineto_results), under the name that it also has here."""

import sys

from mtprof.profiler import results
from mtprof.profiler.results import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = results
