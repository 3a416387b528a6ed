"""torch.autograd.profiler: the recording session beneath mindtorch_v2.profiler, also usable on its own.

    with torch.autograd.profiler.profile(record_shapes=True) as prof:
        ...
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))

A process has at most one recording session, which covers all of its threads. A child forked meanwhile records into its own
file, and so do the workers of a DataLoader, whenever they were started (see _Forks below).
"""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import mtprof
from mtprof import record_function
from mtprof.emit import emit_itt, emit_nvtx

from mindtorch_v2.profiler.event import FunctionEvent, FunctionEventAvg, MemRecordsAcc
from mindtorch_v2.profiler.events import EventList, _EventSource, _RowSource
from mindtorch_v2.profiler.results import _KinetoEvent, _ProfilerResult  # noqa: F401
from mindtorch_v2.profiler.common import (
    DeviceType,
    KinetoStepTracker,
    ProfilerActivity,
    _ExperimentalConfig,
    activity_bits,
    keeping,
    kineto_available,
    supported_activities,
    toggles,
)
from mindtorch_v2.profiler import _children
from mindtorch_v2.utils._record import scope

__all__ = [
    "profile",
    "record_function",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "EnforceUnique",
    "parse_nvprof_trace",
    "KinetoStepTracker",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "MemRecordsAcc",
]

ALREADY_ACTIVE = "another profiler session is already active"
_supported_activities = supported_activities
_is_profiler_enabled = False


def _set_is_profiler_enabled(enable: bool) -> None:
    global _is_profiler_enabled
    _is_profiler_enabled = enable


# --------------------------------------------------------------------------------------------------- forks


class _Forks:
    """What a child needs in order to record alongside its parent: each writes a file <folder>/<pid>.mtp, which is complete at
    any moment, even if the child is killed. A forked child inherits it; a worker that was spawned, or started before the
    recording, receives it with each task (utils/data)."""

    def __init__(self) -> None:
        self.state: tuple[int, str, dict[str, Any]] | None = None  # during a session: its number, folder and options
        self.count = 0
        self.mine: mtprof.Session | None = None  # this process's own session, if it is a child

    def follow(self, folder: str, options: dict[str, Any]) -> None:
        self.count += 1
        self.state = (self.count, folder, options)

    def ready(self) -> tuple[int, str, dict[str, Any]] | None:
        """The state that a child receives; its folder exists."""
        if self.state is not None:
            _children.make(self.state[1])
        return self.state

    def unfollow(self) -> None:
        self.state = None

    def in_child(self) -> None:
        """Runs in each child of os.fork(); must not fail."""
        _set_is_profiler_enabled(False)
        profile._current = None
        self.mine = None
        if self.state is not None:
            self._record(*self.state)

    def _record(self, number: int, folder: str, options: dict[str, Any]) -> None:
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            spool = os.path.join(folder, f"{os.getpid()}.mtp")
            if os.path.exists(spool):  # from an earlier cycle
                spool = os.path.join(folder, f"{os.getpid()}-{number}.mtp")
            session = mtprof.Session(**{"buffer_bytes": _CHILD_BYTES, **options, "spool": spool.replace("%", "%%")})
            session.prepare()
            session.start()
            self.mine = session
        except Exception as error:
            warnings.warn(f"this worker process is not recorded: {error}")

    def join(self, state: tuple[int, str, dict[str, Any]] | None) -> None:
        """In a worker: from now on records what its parent records, or nothing."""
        if state == self.state:
            return
        self.give_way()
        self.state = state
        if state is not None:
            self._record(*state)

    def give_way(self) -> None:
        """Ends the child's recording: a profile started in the child takes over."""
        if self.mine is not None:
            self.mine.stop()
            self.mine = None


_CHILD_BYTES = 64 << 20
_forks = _Forks()
os.register_at_fork(before=_forks.ready, after_in_child=_forks.in_child)


# ------------------------------------------------------------------------------------------------- profile


class _Counted:
    """A statistic: the length of a list, taken on access, since events are not built earlier."""

    def __get__(self, stats, owner):
        known = 0 if stats is None else stats.__dict__.get("_counted", 0)
        return known if isinstance(known, int) else len(known)

    def __set__(self, stats, known):
        stats.__dict__["_counted"] = known


@dataclass
class _ProfilerStats:
    "Profiler timing and stats used by developers to catch issues/regressions"

    profiling_window_duration_sec: float = 0
    number_of_events: int = _Counted()
    profiler_prepare_call_duration_us: int = 0
    profiler_enable_call_duration_us: int = 0
    profiler_disable_call_duration_us: int = 0
    parse_kineto_call_duration_us: int = 0
    function_events_build_tree_call_duration_us: int = 0


_HEARD = frozenset((7, 8, 9, 11, 12, 13, 14))  # mtp_warning codes: lost records or names, the spool, a stuck thread, the clock


def _on_warning(code: int, text: str) -> None:
    """libmtprof never prints: what the user should know becomes a Python warning. (Schedules issue their own.)"""
    if code in _HEARD:
        warnings.warn(f"profiler: {text}", stacklevel=3)


def _first_of(texts: list[str]) -> Callable[[], str]:
    """Refers to the list only, so that a session does not keep its profile alive."""
    return lambda: texts[0]


def _watch_collections(on: bool) -> None:
    """Turns the recording of garbage collections on or off."""
    if on and mtprof.gc_event not in gc.callbacks:
        gc.callbacks.append(mtprof.gc_event)
    elif not on and mtprof.gc_event in gc.callbacks:
        gc.callbacks.remove(mtprof.gc_event)


@functools.cache
def _load_matrix_library() -> None:
    """Takes milliseconds, which the first matrix product of the recording would otherwise show as its own."""
    from mindtorch_v2 import _C

    _C.blas_name()


@functools.cache
def _name_modules() -> None:
    """Shows module calls as such, and adds the tensors that modules and optimizers hold to the event tree."""
    from mindtorch_v2 import _C
    from mindtorch_v2.nn import Module
    from mindtorch_v2.optim.optimizer import Optimizer

    mtprof.set_module_call(Module.__call__.__code__)
    mtprof.set_optimizer_call(Optimizer._optimizer_step_code.__code__)
    mtprof.set_tensor_reader(_C._tensor_reader)


class profile:
    """A recording session, as a context manager; most people use mindtorch_v2.profiler.profile.

    enabled: False makes it do nothing. use_device: "npu" (or "cuda"), or None. The other arguments, including spool,
    buffer_bytes and when_full, are those of mindtorch_v2.profiler.profile. It cannot be nested or entered twice.
    """

    _current: weakref.ref | None = None  # the one that is prepared or recording
    _spools = 0  # number that this process has started

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None, record_shapes: bool = False,
                 with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False,
                 use_kineto: bool = False, use_cpu: bool = True, experimental_config: _ExperimentalConfig | None = None,
                 acc_events: bool = False, custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None,
                 activity_filters: dict[ProfilerActivity, set[str]] | None = None, spool: Any = None,
                 buffer_bytes: int | str | None = None, when_full: str | None = None) -> None:
        self.enabled = enabled
        self._session: mtprof.Session | None = None
        if not enabled:
            return
        self.use_cuda = use_cuda
        if use_cuda:
            warnings.warn("The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                          FutureWarning, stacklevel=2)
            use_device = "cuda"
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_cpu = use_cpu
        self.acc_events = acc_events
        self.experimental_config = _with_events(experimental_config or _ExperimentalConfig(), with_stack)
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.activity_filters = activity_filters or {}
        self.trace_id = ""
        self.profiling_start_time_ns = self.profiling_end_time_ns = 0
        self._stats = _ProfilerStats()
        self._trace_id_now = [""]
        self._stopped_trace: mtprof.Trace | None = None
        self._results: _ProfilerResult | None = None
        self._function_events: EventList | None = None
        self._recorded = False  # was it ever started?
        self._left_out = 0  # omitted from exported traces: see common.toggles
        self._prepared = False  # is the session claimed?
        self._step = 0
        self._children_folder: str | None = None
        self._pid = os.getpid()
        self._keeping = keeping(spool, buffer_bytes, when_full)
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        self.kineto_activities = {ProfilerActivity.CPU} if use_cpu else set()
        self.use_device = self._checked_device(use_device)
        if use_device is not None and (self.use_device is not None or use_kineto):
            self.kineto_activities.add(ProfilerActivity.NPU)
        if not self.kineto_activities:
            raise AssertionError("No activities specified for the profiler")
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")

    @staticmethod
    def _checked_device(use_device: str | None) -> str | None:
        """The name of the device, or None with a warning if there is no such device."""
        if use_device is None:
            return None
        from mindtorch_v2 import npu

        if use_device.lower() not in ("npu", "cuda", "gpu"):
            warnings.warn(f"The {use_device} is not a valid device option.", stacklevel=3)
            return None
        if not npu.is_available():
            word = use_device.upper()
            warnings.warn(f"{word} is not available, disabling {word} profiling", stacklevel=3)
            return None
        return "npu"

    def config(self, create_trace_id: bool = False) -> Any:
        """What this session records, in the form that _enable_profiler() of mindtorch_v2.autograd takes."""
        from mindtorch_v2.profiler.private import ProfilerConfig

        if create_trace_id:
            self.trace_id = self._trace_id_now[0] = self.create_trace_id()
        return ProfilerConfig(self.profiler_kind, self.record_shapes, self.profile_memory, self.with_stack, self.with_flops,
                              self.with_modules, self.experimental_config, self.trace_id)

    @property
    def profiler_kind(self) -> Any:
        """There is only one kind here."""
        from mindtorch_v2.profiler.private import ProfilerState

        return ProfilerState.KINETO

    # ------------------------------------------------------------------------------------------- recording

    def default_trace_id(self) -> str:
        return f"{uuid.uuid4().int:032X}"

    def create_trace_id(self) -> str:
        made = self.custom_trace_id_callback() if self.custom_trace_id_callback else self.default_trace_id()
        if not isinstance(made, str):
            raise TypeError(f"custom_trace_id_callback must return str, not {type(made).__name__}")
        return made

    def _session_options(self) -> dict[str, Any]:
        wanted = {a for a in self.kineto_activities if self.activity_filters.get(a) != set()}
        return {"activities": activity_bits(wanted or self.kineto_activities), "record_shapes": self.record_shapes,
                "with_stack": self.with_stack, "profile_memory": self.profile_memory, "with_flops": self.with_flops,
                "with_modules": self.with_modules, **{k: v for k, v in self._keeping.items() if k != "spool"}}

    def _prepare_trace(self) -> None:
        begun = perf_counter_ns()
        self.entered = True
        self.trace_id = self._trace_id_now[0] = self.create_trace_id()
        _forks.give_way()
        if self._function_events is not None:
            self._function_events._settle()
        if self.with_stack or self.with_modules:
            _name_modules()
        _load_matrix_library()
        if self._pid != os.getpid():
            self._session = None  # the buffers stayed with the parent process
        self._pid = os.getpid()
        try:
            if self._session is None:
                self._session = mtprof.Session(acc_events=self.acc_events, trace_id=_first_of(self._trace_id_now),
                                               on_warning=_on_warning, spool=self._new_spool(), **self._session_options())
            named = self._session.spool
            self._claim()
            if self._session.spool != named:
                self._name_workers()
            self._prepared = True
            profile._current = weakref.ref(self)
        except BaseException:
            self._abandon()
            raise
        self._stats.profiler_prepare_call_duration_us = (perf_counter_ns() - begun) // 1000

    def _claim(self) -> None:
        """Retries after a garbage collection if another profile holds the session: that one may be unreachable."""
        try:
            self._session.prepare()
        except RuntimeError as error:
            if "already active" not in str(error):
                raise
            gc.collect()
            try:
                self._session.prepare()
            except RuntimeError:
                raise RuntimeError(ALREADY_ACTIVE) from None

    def _abandon(self) -> None:
        """Ends a recording that was begun in part or in full: after an error, an interrupt between any two steps, or when this
        object is no longer referenced. Parts that have already ended are left alone."""
        if self._session is None or self._pid != os.getpid():
            return
        if self._prepared or self._session.recording:
            _forks.unfollow()
            _watch_collections(False)
            _set_is_profiler_enabled(False)
            profile._current = None
        try:
            self._session.stop()
        except RuntimeError:
            pass  # not even prepared
        self._prepared = False

    def _disown(self) -> None:
        """In a forked child: leaves the recording to the parent."""
        if self._pid != os.getpid():
            self._prepared = False

    def __del__(self) -> None:
        try:
            if self._prepared:
                self._abandon()
        except Exception:
            pass  # half constructed, or the interpreter is shutting down

    def _new_spool(self) -> str | None:
        """The file of this cycle. libmtprof expands the other patterns, and replaces or keeps an existing file."""
        pattern = self._keeping.get("spool")
        if pattern is None:
            return None
        profile._spools += 1
        count = str(profile._spools)
        pattern = re.sub("%(.)", lambda found: count if found[1] == "c" else found[0], pattern, flags=re.DOTALL)
        return pattern if os.path.isabs(pattern) else os.path.join(os.getcwd().replace("%", "%%"), pattern)

    def _name_workers(self) -> None:
        """Puts workers' files next to the spool. Old ones share the old spool's fate: deleted, or kept after a crash."""
        self._children_folder = self._session.spool + ".workers"
        old = self._worker_files()
        kept = self._session.spool_kept
        if kept is not None and old:
            os.makedirs(kept + ".workers", mode=0o700, exist_ok=True)
        for path in old:
            if kept is None:
                os.unlink(path)
            else:
                os.rename(path, os.path.join(kept + ".workers", os.path.basename(path)))

    def _start_trace(self) -> None:
        if not self._prepared:
            self._prepare_trace()
        begun = perf_counter_ns()
        self.entered = True
        self._function_events = self._stopped_trace = self._results = None
        if self._children_folder is None:
            folder = _children.folder()
            weakref.finalize(self, _children.remove, folder, os.getpid())
            self._children_folder = folder
        try:
            self._session.start()
            self._recorded = True
            if all(self.activity_filters.get(a) == set() for a in self.kineto_activities):
                self._session.toggle(False, activity_bits(self.kineto_activities))
            _forks.follow(self._children_folder, self._session_options())
            _watch_collections(self.experimental_config.record_python_gc_info)
            _set_is_profiler_enabled(True)
        except BaseException:
            self._abandon()
            raise
        self.profiling_start_time_ns = perf_counter_ns()
        self._stats.profiler_enable_call_duration_us = (self.profiling_start_time_ns - begun) // 1000

    def _stop_trace(self) -> None:
        if not self._prepared or self._pid != os.getpid():
            return  # already stopped, or a forked child leaves the parent's block
        begun = self.profiling_end_time_ns = perf_counter_ns()
        try:
            self._function_events = self._stopped_trace = self._results = None
            self._left_out = toggles.left_out
        finally:
            self._abandon()
        self._stats.profiler_disable_call_duration_us = (perf_counter_ns() - begun) // 1000
        self._stats.profiling_window_duration_sec = (begun - self.profiling_start_time_ns) / 1e9

    def _worker_files(self) -> dict[str, str]:
        """Files of worker processes, and their names next to an exported trace."""
        try:
            found = sorted(os.listdir(self._children_folder or ""))
        except OSError:
            return {}
        trace = re.sub(r"[^\w.-]", "_", self.trace_id)  # may contain anything
        return {os.path.join(self._children_folder, name): f"worker_{name[:-4]}.{trace}.pt.trace.json.gz"
                for name in found if name.endswith(".mtp")}

    def _mark_step(self, number: int) -> None:
        """Events belong to this step from now on, or from the start of the recording."""
        if self._session is not None and number != self._step:
            self._session.mark_step(number)
            self._step = number

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        try:
            self._prepare_trace()
            self._start_trace()
            return self
        except BaseException:
            self._abandon()
            raise

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> bool | None:
        if not self.enabled:
            return None
        self._stop_trace()
        return False

    __exit__ = mtprof._native.ends_in(__exit__, _abandon)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Toggles the collection of activities for the current profiler instance."""
        if self._session is not None:
            self._session.toggle(bool(enabled), activity_bits(activities))

    # --------------------------------------------------------------------------------------- what came of it

    @property
    def trace(self) -> mtprof.Trace:
        """The recording: always the same object once stopped; while running, a snapshot."""
        if not self._recorded:
            raise RuntimeError("nothing has been recorded yet: start the profiler first")
        if self._stopped_trace is not None:
            return self._stopped_trace
        begun = perf_counter_ns()
        trace = self._session.trace()
        if not self._session.recording:
            self._stopped_trace = trace
        self._stats.parse_kineto_call_duration_us = (perf_counter_ns() - begun) // 1000
        return trace

    @property
    def kineto_results(self) -> _ProfilerResult | None:
        if not self._recorded or self._session.recording:
            return None
        if self._results is None or self._results.trace is not self.trace:
            self._results = _ProfilerResult(self.trace)
        return self._results

    @property
    def function_events(self) -> EventList:
        if self.experimental_config.trace_only:
            raise RuntimeError("events() is not available when trace_only=True in ExperimentalConfig. Use export_chrome_trace() instead.")
        if self._function_events is not None:
            return self._function_events
        if not self._recorded:
            empty = EventList(use_device=self.use_device, profile_memory=self.profile_memory, with_flops=self.with_flops)
            empty._tree_built = True
            return empty
        if self._session.recording:
            return EventList._lazy(_EventSource(self.trace, self), self)
        begun = perf_counter_ns()
        self._function_events = EventList._lazy(_EventSource(lambda: self.trace, self), self)
        self._stats.number_of_events = self._function_events
        self._stats.function_events_build_tree_call_duration_us = -((begun - perf_counter_ns()) // 1000)
        return self._function_events

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int | None = 75,
              max_name_column_width: int | None = 55, max_shapes_column_width: int | None = 80, header: str | None = None,
              top_level_events_only: bool = False) -> str:
        return self.function_events.table(sort_by, row_limit, max_src_column_width, max_name_column_width,
                                          max_shapes_column_width, header, top_level_events_only)

    table.__doc__ = EventList.table.__doc__

    def export_chrome_trace(self, path: Any, metadata: dict[str, str] | None = None, use_python_export: bool = False) -> None:
        """Writes the trace as Kineto's JSON, compressed if the path ends in .gz. Worker processes have their own files next to
        it, listed in "worker_traces". metadata: JSON texts that were added after the recording."""
        path = os.fspath(path)
        name = os.fsdecode(path)
        workers = self._worker_files()
        if workers:
            metadata = {**(metadata or {}), "worker_traces": json.dumps(list(workers.values()))}
        more = ", ".join(f"{json.dumps(key)}: {_json_text(text)}" for key, text in (metadata or {}).items())
        self.trace.chrome(path, _shown(name), more or None, self._left_out)
        for spool, worker in workers.items():
            mtprof.Trace.open(spool).chrome(os.path.join(os.path.dirname(name), worker), worker)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        events = self.function_events
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False, include_python_functions: bool = False) -> EventList:
        if self.experimental_config.trace_only:
            return self.function_events
        if not self._recorded or self._changed():
            return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name,
                                                     include_python_functions)
        source = _RowSource(self.trace, self, bool(group_by_input_shape), int(group_by_stack_n), bool(group_by_overload_name),
                            lambda: self.function_events, bool(include_python_functions))
        return EventList._lazy(source, self)

    key_averages.__doc__ = EventList.key_averages.__doc__

    def _changed(self) -> bool:
        """Was the list that function_events returned modified?"""
        events = self._function_events
        return events is not None and (events._source is None or events._source.touched)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    total_average.__doc__ = EventList.total_average.__doc__

    @property
    def self_cpu_time_total(self) -> float:
        """Returns total time spent on CPU: the sum of all self times."""
        return self.function_events.self_cpu_time_total

    def __repr__(self) -> str:
        return self._text(repr)

    def __str__(self) -> str:
        return self._text(str)

    def _text(self, how: Callable[[Any], str]) -> str:
        if not self.enabled or not self._recorded or self._session.recording:
            return "<unfinished torch.autograd.profile>"
        return how(self.function_events)


def _with_events(config: _ExperimentalConfig, with_stack: bool) -> _ExperimentalConfig:
    """Turns trace_only off if stacks are requested."""
    if not (config.trace_only and with_stack):
        return config
    warnings.warn("trace_only=True is incompatible with with_stack=True (stack traces require event post-processing). "
                  "Disabling trace_only.", stacklevel=3)
    values = {name: getattr(config, name) for name in config._defaults}
    return _ExperimentalConfig(**{**values, "trace_only": False})


def _shown(name: str) -> str:
    """A file name as valid Unicode."""
    return name.encode("utf-8", "backslashreplace").decode()


def _json_text(text: str) -> str:
    """The text if it is JSON, else a JSON string of it."""
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# ------------------------------------------------------------------------------------------- other tools


class EnforceUnique:
    """Raises an error if a key is seen more than once."""

    def __init__(self) -> None:
        self.seen: set[tuple] = set()

    def see(self, *key: Any) -> None:
        """Observe a key and raise an error if it is seen multiple times."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


def load_nvprof(path: Any) -> EventList:
    """Open an nvprof trace file and parses autograd annotations."""
    return EventList(parse_nvprof_trace(path))


_MARKERS = """
SELECT start.id AS id, start.name AS name, start.timestamp AS start, end.timestamp AS end
FROM CUPTI_ACTIVITY_KIND_MARKER AS start INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS end ON start.id = end.id
WHERE start.name != 0 AND end.name = 0
"""
_KERNELS = """
SELECT start.id AS id, runtime._id_ AS runtime_id, runtime.cbid AS cbid,
       kernel.start AS start, kernel.end AS end, kernel.name AS name
FROM CUPTI_ACTIVITY_KIND_MARKER AS start
INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS end ON start.id = end.id
INNER JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS runtime ON (start.timestamp < runtime.start AND runtime.end < end.timestamp)
INNER JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel ON kernel.correlationId = runtime.correlationId
"""


def parse_nvprof_trace(path: Any) -> list[FunctionEvent]:
    """The annotated functions of an nvprof database, with their kernels."""
    import sqlite3

    with sqlite3.connect(path) as database:
        database.row_factory = sqlite3.Row
        names = {row["id"]: row["value"] for row in database.execute("SELECT _id_ AS id, value FROM StringTable")}
        markers, kernels = EnforceUnique(), EnforceUnique()
        functions: dict[int, FunctionEvent] = {}
        for row in database.execute(_MARKERS):
            markers.see(row["id"])
            functions[row["id"]] = FunctionEvent(id=row["id"], node_id=0, name=names[row["name"]], start_us=row["start"],
                                                 end_us=row["end"], thread=0)
        for row in database.execute(_KERNELS):
            kernels.see(row["id"], row["runtime_id"])
            if row["cbid"] != 211:  # cudaLaunchKernel
                raise AssertionError(f"Expected cbid to be 211, but got {row['cbid']}")
            functions[row["id"]].append_kernel(row["name"], 0, row["end"] - row["start"])
    return sorted(functions.values(), key=lambda event: event.time_range.start)


for _own in (_on_warning, scope):
    mtprof.hide_file(_own.__code__.co_filename)
