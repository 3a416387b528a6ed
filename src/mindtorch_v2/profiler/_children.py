"""Folders for the files of worker processes, in the folder for temporary files. Each goes with its profile. Whoever uses one holds
a lock on it, the process and what it forked; so one that a killed process left behind is known, and goes with the next."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import tempfile
import time
import uuid

_NAME = re.compile(r"mtprof-\d+-[0-9a-f]{32}")
_YOUNG = 60  # seconds: it may be about to be locked
_held: dict[str, int] = {}  # folder -> descriptor that has the lock


def folder() -> str:
    """A name for one; it is made when a child needs it."""
    return os.path.join(tempfile.gettempdir(), f"mtprof-{os.getpid()}-{uuid.uuid4().hex}")


def make(path: str) -> None:
    """The folder is there, and ours. Called before each fork: it does not fail; the child says what it cannot do."""
    if path in _held or not _NAME.fullmatch(os.path.basename(path)):
        return
    with contextlib.suppress(OSError):
        _sweep()
        os.mkdir(path, 0o700)
        _held[path] = descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def remove(path: str, pid: int) -> None:
    """At the end of the profile that process `pid` made it for."""
    if os.getpid() != pid:
        return
    shutil.rmtree(path, ignore_errors=True)
    descriptor = _held.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


@functools.cache
def _sweep() -> None:
    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_if_left(entry)


def _remove_if_left(entry: os.DirEntry) -> None:
    status = entry.stat(follow_symlinks=False)
    if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _YOUNG:
        return
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(descriptor)
