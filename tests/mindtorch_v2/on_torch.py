"""Our modules on top of PyTorch's classes, so that their results for PyTorch's own event trees can be compared with those of
PyTorch's modules.

    utils, matcher, memory_profiler = on_torch.load()
"""
import builtins
import importlib
import pathlib
import sys
import types

import mindtorch_v2.profiler.memory

_FOLDER = pathlib.Path(mindtorch_v2.profiler.memory.__file__).parent


def _bound(name, profiler):
    """mindtorch_v2/profiler/NAME.py, with torch wherever it imports mindtorch_v2."""
    def imported(wanted, globals=None, locals=None, fromlist=(), level=0):
        if wanted == "mindtorch_v2.profiler":
            return profiler
        own = wanted.rpartition(".")[2]
        if wanted.startswith("mindtorch_v2.profiler.") and hasattr(profiler, own):
            return getattr(profiler, own)
        return builtins.__import__(wanted.replace("mindtorch_v2", "torch", 1), globals, locals, fromlist, level)

    path = _FOLDER / f"{name}.py"
    module = types.ModuleType(f"ours_on_torch{name}")
    module.__file__ = str(path)
    module.__builtins__ = {**vars(builtins), "__import__": imported}
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), vars(module))
    setattr(profiler, name, module)
    return module


def load():
    """(_utils, _pattern_matcher, _memory_profiler)"""
    profiler = types.SimpleNamespace(DeviceType=importlib.import_module("torch.profiler").DeviceType,
                                     memory=mindtorch_v2.profiler.memory)
    return tuple(_bound(name, profiler) for name in ("_utils", "_pattern_matcher", "_memory_profiler"))
