"""The worker process of a DataLoader: receives tasks, returns batches, exits when the loader's end of its pipe is closed.

A separate thread reads the tasks, so that the loader never blocks on a worker that is itself blocked on the loader.
"""

import contextlib
import os
import queue
import random
import signal
import threading
import time
import traceback
from dataclasses import dataclass

import numpy

import mindtorch_v2 as torch
from .. import _record
from . import channel

_GRACE_S = 5.0  # for user code to finish after the loader has exited
_PARENT_CHECK_S = 5.0

_info = None


@dataclass(frozen=True)
class WorkerInfo:
    id: int
    num_workers: int
    seed: int
    dataset: object


def get_worker_info():
    """Information about this worker process; None in the main process."""
    return _info


class Ended:
    """Sent in place of a batch: the worker's iterable dataset is exhausted."""


class WorkerError:
    """An exception in a worker, as text: most exceptions do not survive pickling."""

    def __init__(self, error, where):
        self.kind = type(error)
        self.text = "".join(traceback.format_exception(error))
        self.where = where

    def __reduce__(self):
        try:
            import pickle

            pickle.dumps(self.kind)
            kind = self.kind
        except Exception:
            kind = RuntimeError
        return _rebuilt_error, (kind, self.text, self.where)

    def reraise(self):
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = _Verbatim(message)  # its repr, which KeyError prints, is the text itself
        try:
            error = self.kind(message)
        except Exception:
            error = RuntimeError(message)
        raise error


class _Verbatim(str):
    def __repr__(self):
        return str(self)


def _rebuilt_error(kind, text, where):
    made = WorkerError.__new__(WorkerError)
    made.kind, made.text, made.where = kind, text, where
    return made


def make_fetcher(dataset, iterable, auto_collation, collate_fn, drop_last):
    """index (or list of them) -> batch. Raises StopIteration at the end of an iterable dataset."""
    if not iterable:
        many = getattr(dataset, "__getitems__", None)

        def fetch(index):
            if not auto_collation:
                return collate_fn(dataset[index])
            return collate_fn(many(index) if callable(many) else [dataset[i] for i in index])

        return fetch
    source = iter(dataset)

    def fetch_next(index):
        if not auto_collation:
            return collate_fn(next(source))
        batch = [sample for _, sample in zip(index, source)]
        if not batch or (drop_last and len(batch) < len(index)):
            raise StopIteration
        return collate_fn(batch)

    return fetch_next


def run(id, count, tasks_fd, results_fd, foreign_fds, seed, init_fn, dataset, make, parent, recording):
    """The main function of a worker. Tasks are (epoch, number, index, profiler state of the loader's process); number None
    starts an epoch. Pipe ends are descriptors, or Ends if the process was not forked. parent: None if it is not the loader's."""
    global _info
    tasks_fd, results_fd = int(tasks_fd), int(results_fd)
    for fd in foreign_fds:  # the loader's ends: as long as we hold them, no worker sees the loader's death
        with contextlib.suppress(OSError):  # already closed if its iterator was collected meanwhile
            os.close(fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader handles Ctrl-C, and ends its workers
    torch.set_num_threads(1)
    random.seed(seed)
    torch.manual_seed(seed)
    numpy.random.seed([id, seed & 0xFFFFFFFF, seed >> 32])
    _info = WorkerInfo(id, count, seed, dataset)
    _record.join(recording)
    tasks = queue.SimpleQueue()
    threading.Thread(target=_read_tasks, args=(tasks_fd, tasks, parent), daemon=True).start()
    failure = None
    try:
        if init_fn is not None:
            init_fn(id)
    except Exception as error:
        failure = WorkerError(error, f"in DataLoader worker process {id}")
    fetch = None
    while (task := tasks.get()) is not None:
        epoch, number, index, recording = task
        _record.join(recording)
        if number is None:
            fetch = None
            continue
        try:
            if failure is None:
                fetch = fetch or make(dataset)
                result = fetch(index)
            else:
                result, failure = failure, None
        except StopIteration:
            result = Ended()
        except Exception as error:
            result = WorkerError(error, f"in DataLoader worker process {id}")
        try:
            _answer(results_fd, epoch, number, result, id)
        except BrokenPipeError:
            break


def _answer(fd, epoch, number, result, id):
    try:
        channel.send(fd, (epoch, number, result))
    except BrokenPipeError:
        raise
    except Exception as error:  # a batch that cannot be pickled; nothing was written yet
        channel.send(fd, (epoch, number, WorkerError(error, f"in DataLoader worker process {id}")))


def _read_tasks(fd, tasks, parent):
    try:
        while True:
            while not channel.readable([fd], _PARENT_CHECK_S):
                if parent is not None and os.getppid() != parent:
                    raise EOFError
            tasks.put(channel.receive(fd))
    except EOFError:
        tasks.put(None)
    time.sleep(_GRACE_S)
    os._exit(0)
