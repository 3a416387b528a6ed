"""What must happen before PyTorch is loaded."""

import os
import shutil
import sys

from mtprof.pytorch import collector


def itt_library():
    """The path of our ITT collector, or None: near libmtprof: of a wheel, installed, or in a build folder."""
    mine = collector.loaded_library()
    for where in (".", "mtprof", os.path.join("collect", "itt")) if mine else ():
        path = os.path.normpath(os.path.join(os.path.dirname(mine), where, "libmtprof_itt.so"))
        if os.path.exists(path):
            return path
    return None


def prepare_itt():
    """Where the collector cannot be compiled, PyTorch's ops are seen through its ITT ranges. PyTorch looks for their receiver when
    it is loaded, and never again."""
    if "torch" in sys.modules or "INTEL_LIBITTNOTIFY64" in os.environ:
        return
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "").split() or [""])[:1] + ["c++", "g++", "clang++"] if name):
        path = itt_library()
        if path is not None:
            os.environ["INTEL_LIBITTNOTIFY64"] = path
