"""Shared by the rest of the package: hook handles, profiler scopes, and the data loader."""

from . import hooks
from . import data

__all__ = ["hooks", "data"]


def __getattr__(name):
    if name in ("_pytree", "_python_dispatch"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
