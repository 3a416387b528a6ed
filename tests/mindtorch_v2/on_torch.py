"""Our modules on top of PyTorch's classes, so that their results for PyTorch's own event trees can be compared with those of
PyTorch's modules.

    utils, matcher, memory_profiler = on_torch.load()
"""
import builtins
import importlib
import pathlib
import sys
import types

import mtprof.profiler.framework
import mtprof.profiler.memory

_FOLDER = pathlib.Path(mtprof.profiler.memory.__file__).parent


class _PyTorch(mtprof.profiler.framework.Framework):
    """PyTorch, as these modules see it."""

    def __init__(self):
        """Is not known to the profiler: it has only PyTorch's own trees."""

    @property
    def package(self):
        return importlib.import_module("torch")

    def graph_metadata(self):
        return importlib.import_module("torch.fx.traceback")._FX_METADATA_REGISTRY


def _bound(name, instead):
    """mtprof/profiler/NAME.py, importing from `instead` what that has."""
    def imported(wanted, globals=None, locals=None, fromlist=(), level=0):
        return instead.get(wanted) or builtins.__import__(wanted, globals, locals, fromlist, level)

    path = _FOLDER / f"{name}.py"
    module = types.ModuleType(f"ours_on_torch{name}")
    module.__file__ = str(path)
    module.__builtins__ = {**vars(builtins), "__import__": imported}
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), vars(module))
    return module


def load():
    """(_utils, _pattern_matcher, _memory_profiler)"""
    native, framework = importlib.import_module("torch._C._profiler"), _PyTorch()
    instead = {
        "mtprof.profiler.common": types.SimpleNamespace(DeviceType=importlib.import_module("torch.profiler").DeviceType,
                                                        RecordScope=native.RecordScope),
        "mtprof.profiler.framework": types.SimpleNamespace(Framework=type(framework), of=lambda thing: framework,
                                                           known=lambda: (framework,)),
        "mtprof.profiler.tree": native,
    }
    instead["mtprof.profiler._utils"] = utils = _bound("_utils", instead)
    instead["mtprof.profiler"] = types.SimpleNamespace(_utils=utils, memory=mtprof.profiler.memory)
    return utils, _bound("_pattern_matcher", instead), _bound("_memory_profiler", instead)
