"""Modules that torch has and whose names live elsewhere here: torch._C._profiler, torch._C._autograd, torch.ops. They are there
from the start, so that any form of import finds them, and empty until a name is asked for."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Borrowed(ModuleType):
    """The names that `listed` of module `home` tells."""

    def __init__(self, name: str, home: str, listed: str, doc: str) -> None:
        super().__init__(name, doc)
        self.__dict__.update(_home=home, _listed=listed)
        sys.modules[name] = self

    def _names(self) -> tuple[str, ...]:
        return getattr(importlib.import_module(self._home), self._listed)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name in self._names():
            value = getattr(importlib.import_module(self._home), name)
            self.__dict__[name] = value
            return value
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._names()} - {"_home", "_listed"})


_PRIVATE = "mindtorch_v2.profiler.private"


def install(package: ModuleType) -> None:
    """Puts them into the package and among the modules."""
    native = package._C
    native._profiler = _Borrowed("mindtorch_v2._C._profiler", _PRIVATE, "PROFILER", "What torch._C._profiler has.")
    native._autograd = _Borrowed("mindtorch_v2._C._autograd", _PRIVATE, "AUTOGRAD", "What torch._C._autograd has of the profiler.")
    ops = package.ops = ModuleType("mindtorch_v2.ops", "Operators by namespace: here that of the profiler.")
    sys.modules["mindtorch_v2.ops"] = ops
    ops.profiler = _Borrowed("mindtorch_v2.ops.profiler", _PRIVATE, "OPS", "Scopes by hand.")
