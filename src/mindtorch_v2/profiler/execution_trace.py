"""mtprof.profiler.execution_trace (ExecutionTraceObserver), under the name that it also has here."""

import sys

from mtprof.profiler import execution_trace
from mtprof.profiler.execution_trace import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = execution_trace
