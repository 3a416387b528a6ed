"""mtprof.profiler.events (EventList), under the name that it also has here."""

import sys

from mtprof.profiler import events
from mtprof.profiler.events import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = events
