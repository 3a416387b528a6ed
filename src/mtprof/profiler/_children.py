"""Temporary folders for the files of worker processes. Each is removed with its profile. The process and its forks hold a lock on
it, so a folder left behind by a killed process is recognized, and removed by the next profile."""

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
_YOUNG = 60  # seconds: its owner may be about to lock it
_held: dict[str, int] = {}  # folder -> descriptor that holds the lock


def folder() -> str:
    """A name for a folder, which is created when a child needs it."""
    return os.path.join(tempfile.gettempdir(), f"mtprof-{os.getpid()}-{uuid.uuid4().hex}")


def make(path: str) -> None:
    """Creates and locks the folder. Called before each fork: never fails; the child reports what it cannot do."""
    if path in _held or not _NAME.fullmatch(os.path.basename(path)):
        return
    with contextlib.suppress(OSError):
        _sweep()
        os.mkdir(path, 0o700)
        _held[path] = descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def remove(path: str, pid: int) -> None:
    """Called at the end of the profile for which process `pid` created it."""
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
