"""DataLoader: batches of a dataset, in this process or from worker processes.

Workers are forked, or started as multiprocessing_context says, each with a pipe for its tasks and one for its batches; tasks
are assigned round robin and batches are returned in task order. The loader's ends of all pipes are listed in _loader_ends, so
that workers forked later close them: a worker then sees end of file only when the loader died. Each task includes the
profiler's settings in this process, and the worker records the same (autograd.profiler).
"""

import functools
import multiprocessing
import os
import time
import warnings
import weakref

from .. import _record
from . import channel, worker
from .chance import draw_seed
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, InfiniteConstantSampler, RandomSampler, SequentialSampler

_JOIN_S = 5.0
_loader_ends = set()


class DataLoader:
    _frozen = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    _iterator = None
    _ready = False

    def __class_getitem__(cls, item):
        return cls

    def __init__(
        self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
        pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None,
        *, prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True,
    ):  # fmt: skip
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.pin_memory = pin_memory  # accepted, but without effect: the runtime's copies do not need it
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = self._checked_context(multiprocessing_context)
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._iterable = isinstance(dataset, IterableDataset)
        self._known_length = None
        self._choose_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self._ready = True

    def _checked_context(self, context):
        if context is None:
            return None
        if self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got num_workers=0"
            )
        name = context if isinstance(context, str) else getattr(context, "get_start_method", lambda: None)()
        if name is None:
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string specifying the start method, "
                f"but got multiprocessing_context={context}"
            )
        valid = multiprocessing.get_all_start_methods()
        if name not in valid:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {valid}, "
                f"but got multiprocessing_context={name!r}"
            )
        return multiprocessing.get_context(context) if isinstance(context, str) else context

    def _choose_samplers(self, batch_size, shuffle, sampler, batch_sampler, drop_last):
        if self._iterable:
            if shuffle not in (False, None):
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
                )
            for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._iterable:
                sampler = InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(self.dataset, generator=self.generator)
            else:
                sampler = SequentialSampler(self.dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    def __setattr__(self, name, value):
        if self._ready and name in self._frozen:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _make_fetcher(self):
        return functools.partial(
            worker.make_fetcher, iterable=self._iterable, auto_collation=self._auto_collation,
            collate_fn=self.collate_fn, drop_last=self.drop_last,
        )  # fmt: skip

    def __iter__(self):
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._begin(self)
        return self._iterator

    def _get_iterator(self):  # from this call and its callees, profiles deduce whether there are workers
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def check_worker_number_rationality(self):
        """Warns if there are more workers than available processors."""
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if processors and self.num_workers > processors:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes, and there are {processors} processors for "
                "them: loading may be slow. Give it fewer workers.",
                stacklevel=4,
            )

    def __len__(self):
        if not self._iterable:
            return len(self._index_sampler)
        length = self._known_length = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        return length


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._loader = weakref.ref(loader)  # which may hold this iterator
        self._index_sampler = loader._index_sampler
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        self._base_seed = draw_seed(loader.generator)
        self._restart()

    def _restart(self):
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def __next__(self):
        with _record.scope(self._profile_name):
            data = self._next_data()
        self._num_yielded += 1
        loader = self._loader()
        known = loader._known_length if loader is not None else None
        if known is not None and loader.batch_size is None and self._num_yielded > known:
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported to be {known} "
                f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. ",
                stacklevel=2,
            )
        return data


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._fetch = loader._make_fetcher()(loader.dataset)

    def _next_data(self):
        return self._fetch(next(self._sampler_iter))


class _Worker:
    """The loader's side of one worker."""

    def __init__(self, id, loader, seed):
        tasks_read, self.tasks = channel.make_pipe()
        self.results, results_write = channel.make_pipe()
        _loader_ends.update((self.tasks, self.results))
        self.id = id
        context = loader.multiprocessing_context or multiprocessing.get_context("fork")
        method = context.get_start_method()
        ends = (tasks_read, results_write, tuple(_loader_ends))
        if method != "fork":  # they do not inherit our descriptors
            ends = (channel.End(tasks_read), channel.End(results_write), ())
        self.process = context.Process(
            target=worker.run,
            args=(
                id, loader.num_workers, *ends, seed, loader.worker_init_fn, loader.dataset, loader._make_fetcher(),
                os.getpid() if method != "forkserver" else None, _record.recording(),
            ),
            daemon=True,
        )  # fmt: skip
        try:
            self.process.start()
        finally:
            os.close(tasks_read)
            os.close(results_write)

    def close(self):
        for fd in (self.tasks, self.results):
            if fd in _loader_ends:
                _loader_ends.discard(fd)
                os.close(fd)


def _end(workers, owner):
    """Closes the pipes, which ends the workers, and waits for them. Not in a forked copy of the loader."""
    if os.getpid() != owner:
        return
    for w in workers:
        w.close()
    deadline = time.monotonic() + _JOIN_S
    for w in workers:
        w.process.join(max(0.0, deadline - time.monotonic()))
        if w.process.is_alive():
            w.process.kill()
            w.process.join()
        w.process.close()
    workers.clear()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Tasks are numbered; a batch that arrives early waits in _early until those before it were returned."""

    def __init__(self, loader):
        self._workers = []
        self._epoch = 0
        self._timeout = loader.timeout
        self._ahead = max(1, loader.prefetch_factor) * loader.num_workers  # tasks in flight
        self._persistent_workers = loader.persistent_workers
        super().__init__(loader)
        self._shutdown = weakref.finalize(self, _end, self._workers, os.getpid())
        try:
            for id in range(loader.num_workers):
                self._workers.append(_Worker(id, loader, self._base_seed + id))
        except BaseException:
            self._shutdown()
            raise
        self._by_fd = {w.results: w for w in self._workers}
        self._prime()

    def _begin(self, loader):
        """Another epoch with the same workers: batches still in flight from the last one will be discarded."""
        if not self._shutdown.alive:
            self.__init__(loader)
            return
        self._epoch += 1
        self._restart()
        for w in self._workers:
            self._send(w, None, None)
        self._prime()

    def _prime(self):
        self._next_task = 0  # number of the next task to send
        self._next_batch = 0  # of the next batch to return
        self._early = {}
        self._owner = {}  # task number -> worker, of tasks in flight
        self._active = list(self._workers)  # workers that may have more batches
        self._turn = 0
        for _ in range(self._ahead):
            self._send_next()

    def _send(self, w, number, index):
        try:
            channel.send(w.tasks, (self._epoch, number, index, _record.recording()))
        except BrokenPipeError:
            self._died([w])

    def _send_next(self):
        if not self._active:
            return
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        w = self._active[self._turn % len(self._active)]
        self._turn = (self._turn + 1) % len(self._active)
        self._owner[self._next_task] = w
        self._send(w, self._next_task, index)
        self._next_task += 1

    def _next_data(self):
        while self._next_batch < self._next_task:
            while self._next_batch not in self._early:
                self._receive()
            data = self._early.pop(self._next_batch)
            self._next_batch += 1
            if isinstance(data, worker.Ended):
                continue
            self._send_next()
            if isinstance(data, worker.WorkerError):
                data.reraise()
            return data
        if not self._persistent_workers:
            self._shutdown()
        raise StopIteration

    def _receive(self):
        """Receives at least one batch from the workers with tasks in flight."""
        if not self._shutdown.alive:
            raise RuntimeError("the workers of this DataLoader iterator were shut down")
        ready = channel.readable(self._by_fd, self._timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        for fd in ready:
            w = self._by_fd[fd]
            try:
                epoch, number, data = channel.receive(fd)
            except EOFError:
                self._died([w])
            if epoch != self._epoch:
                continue
            del self._owner[number]
            if isinstance(data, worker.Ended) and w in self._active:
                self._active.remove(w)
                self._turn = 0 if not self._active else self._turn % len(self._active)
            self._early[number] = data

    def _died(self, workers):
        pids = ", ".join(str(w.process.pid) for w in workers)
        self._shutdown()
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly")
