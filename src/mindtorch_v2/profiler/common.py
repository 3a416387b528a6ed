"""mtprof.profiler.common (enums, activities, options), under the name that it also has here."""

import sys

from mtprof.profiler import common
from mtprof.profiler.common import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = common
