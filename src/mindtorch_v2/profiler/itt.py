"""Intel's instrumentation API, with torch.profiler.itt's names. This build lacks it: calls raise."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["is_available", "range_push", "range_pop", "mark", "range"]


def is_available() -> bool:
    """Check if ITT feature is available or not"""
    return False


def _fail() -> NoReturn:
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_push(msg: str) -> int:
    """Pushes a range onto a stack of nested range spans."""
    _fail()


def range_pop() -> int:
    """Pops a range off of a stack of nested range spans."""
    _fail()


def mark(msg: str) -> None:
    """An instantaneous event."""
    _fail()


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block. Additional arguments are passed to msg.format()."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
