"""torch.profiler._utils for what mtprof.pytorch recorded: mtprof.profiler._utils under another name."""

import sys

from mtprof.profiler import _utils

sys.modules[__name__] = _utils
