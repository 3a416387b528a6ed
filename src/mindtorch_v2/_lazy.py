"""Modules of torch whose names live elsewhere here: torch._C._profiler, torch._C._autograd, torch.ops. They exist from the
start, so that any form of import finds them, and look up names on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class _Borrowed(ModuleType):
    """The names listed in `listed` of module `home`."""

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


def rest_of(home: ModuleType, name: str) -> Callable[[str], Any]:
    """The __getattr__ of module `name`, which has all names of `home`, and some of its own."""

    def look_up(wanted: str) -> Any:
        try:
            return getattr(home, wanted)
        except AttributeError:
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}") from None

    return look_up


_PRIVATE = "mindtorch_v2.profiler.private"


def install(package: ModuleType) -> None:
    """Adds them to the package and to sys.modules."""
    native = package._C
    native._profiler = _Borrowed("mindtorch_v2._C._profiler", _PRIVATE, "PROFILER", "The names of torch._C._profiler.")
    native._autograd = _Borrowed("mindtorch_v2._C._autograd", _PRIVATE, "AUTOGRAD", "The profiler's names in torch._C._autograd.")
    ops = package.ops = ModuleType("mindtorch_v2.ops", "Operators by namespace: only the profiler's.")
    sys.modules["mindtorch_v2.ops"] = ops
    ops.profiler = _Borrowed("mindtorch_v2.ops.profiler", _PRIVATE, "OPS", "Manual scopes.")
