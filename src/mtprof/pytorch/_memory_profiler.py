"""torch.profiler._memory_profiler for what mtprof.pytorch recorded: mtprof.profiler._memory_profiler under another name."""

import sys

from mtprof.profiler import _memory_profiler

sys.modules[__name__] = _memory_profiler
