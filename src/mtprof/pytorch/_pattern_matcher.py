"""torch.profiler._pattern_matcher for what mtprof.pytorch recorded: mtprof.profiler._pattern_matcher under another name."""

import sys

from mtprof.profiler import _pattern_matcher

sys.modules[__name__] = _pattern_matcher
