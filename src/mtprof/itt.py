"""Ranges and marks for Intel VTune, with torch.profiler.itt's names. Without VTune (INTEL_LIBITTNOTIFY64) they do nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import _native

__all__ = ["is_available", "range_push", "range_pop", "mark", "range"]


def is_available() -> bool:
    """Check if ITT feature is available or not"""
    return True


def range_push(msg: str) -> None:
    """Pushes a range onto a stack of nested range spans."""
    _native.tool_push(_native.ITT, msg)


def range_pop() -> None:
    """Pops a range off of a stack of nested range spans."""
    _native.tool_pop(_native.ITT)


def mark(msg: str) -> None:
    """An instantaneous event."""
    _native.tool_mark(_native.ITT, msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block. Additional arguments are passed to msg.format()."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
