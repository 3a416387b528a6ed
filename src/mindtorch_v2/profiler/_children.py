"""mtprof.profiler._children (folders of worker processes), under the name that it also has here."""

import sys

from mtprof.profiler import _children
from mtprof.profiler._children import *  # noqa: F403  (for type checkers)

sys.modules[__name__] = _children
