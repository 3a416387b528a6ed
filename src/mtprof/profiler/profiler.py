"""torch.profiler.profile: schedules, cycles, callbacks and exports around a recording session.

The session itself, and what is computed from it, is in mtprof.profiler.session, on top of libmtprof. This is torch's
state machine: (previous action, current action) -> calls. Subclasses may override prepare_trace, start_trace and stop_trace;
a framework binds them to itself (mtprof.profiler.framework).
"""

from __future__ import annotations

import gc
import json
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import mtprof

from mtprof.profiler import session as prof
from mtprof.profiler.common import (
    KinetoStepTracker,
    NoActivityError,
    ProfilerAction,
    ProfilerActivity,
    ScheduleError,
    _ExperimentalConfig,
    keeping,
    known_action,
    listed,
    parse_activities,
    warn_once,
)
from mtprof.profiler.execution_trace import ExecutionTraceObserver, _ITraceObserver
from mtprof.profiler.framework import GENERIC, Framework
from mtprof.profiler.memory import MemoryProfileTimeline
from mtprof.profiler.trace import RecordedTrace

if TYPE_CHECKING:
    from mtprof.profiler._memory_profiler import MemoryProfile

__all__ = [
    "ProfilerAction",
    "schedule",
    "tensorboard_trace_handler",
    "profile",
    "ExecutionTraceObserver",
]

PROFILER_STEP_NAME = "ProfilerStep"

# --------------------------------------------------------------------------------------------- schedules


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """A schedule for profile(): skip `skip_first` steps, then run cycles of `wait` steps without recording, `warmup` steps
    and `active` recorded steps; `repeat` cycles, 0: until the end. skip_first_wait != 0: the first cycle does not wait.
    """
    numbers = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    if not all(isinstance(n, int) for n in (*numbers.values(), skip_first_wait)) or any(
            n < (1 if name == "active" else 0) for name, n in numbers.items()) or skip_first_wait < 0:
        raise ScheduleError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def schedule_fn(step: int) -> ProfilerAction:
        if step < 0:
            raise ScheduleError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        at = step % cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    schedule_fn.first_recorded = skip_first + (0 if skip_first_wait else wait) + warmup
    return schedule_fn


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Records everything from start to stop."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False,
                              use_python_export: bool = False) -> Callable[[Any], None]:
    """An on_trace_ready that writes each trace to dir_name, named for TensorBoard: WORKER.TIME.pt.trace.json[.gz]. The
    default worker name is HOST_PID."""
    import socket
    import time

    def handler_fn(prof: Any) -> None:
        if not os.path.isdir(dir_name):
            try:
                os.makedirs(dir_name, exist_ok=True)
            except Exception as e:
                raise RuntimeError("Can't create directory: " + dir_name) from e
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"  # differs in a forked child
        file_name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, file_name))

    return handler_fn


# ------------------------------------------------------------------------------------------- without steps


class _KinetoProfile:
    """The profiler without steps: start(), stop() and the results. Arguments are those of profile."""

    _framework: Framework = GENERIC
    _session_class: type[prof.profile] = prof.profile

    def __init__(self, *, activities: Iterable[Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
                 experimental_config: _ExperimentalConfig | None = None, execution_trace_observer: _ITraceObserver | None = None,
                 acc_events: bool = False, custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None, spool: Any = None, buffer_bytes: int | str | None = None,
                 when_full: str | None = None) -> None:
        self._keeping = keeping(spool, buffer_bytes, when_full)
        self.activities: set[ProfilerActivity] = self._framework.supported_activities()
        self.activity_filters: dict[ProfilerActivity, set[str]] = {}
        if activities is not None:
            self.activities, self.activity_filters = parse_activities(activities)
        if experimental_config is not None:
            experimental_config = prof._with_events(experimental_config, with_stack)
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.profiler: prof.profile | None = None
        self.has_cudagraphs = False
        self.mem_tl: Any = None  # the MemoryProfileTimeline that was exported
        self.use_device = self._framework.accelerator if ProfilerActivity.NPU in self.activities else None
        self.preset_metadata: dict[str, str] = {}
        self._trace_metadata: dict[str, str] = {}
        self._late_metadata: dict[str, str] = {}  # added while nothing was recording

    def start(self) -> None:
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Prepares to record: each cycle has a new trace id."""
        if self.profiler is not None and not self.acc_events:
            warn_once("Warning: Profiler clears events at the end of each cycle. "
                      "Only events from the current cycle will be reported. "
                      "To keep events across cycles, set acc_events=True.")
        profiler = self.profiler
        if profiler is None or not self.acc_events:
            profiler = self._session_class(
                use_cpu=ProfilerActivity.CPU in self.activities, use_device=self.use_device, record_shapes=self.record_shapes,
                with_flops=self.with_flops, profile_memory=self.profile_memory, with_stack=self.with_stack,
                with_modules=self.with_modules, use_kineto=True, experimental_config=self.experimental_config,
                acc_events=self.acc_events, custom_trace_id_callback=self.custom_trace_id_callback,
                post_processing_timeout_s=self.post_processing_timeout_s, activity_filters=self.activity_filters or None,
                **self._keeping)
        profiler.custom_trace_id_callback = self.custom_trace_id_callback
        try:
            profiler._prepare_trace()
            if self.profiler is not None:
                self._late_metadata.clear()  # it belonged to the previous cycle
            self.profiler = profiler
        except BaseException:  # an interrupt may come between any two steps
            profiler._abandon()
            raise

    def start_trace(self) -> None:
        """Starts recording."""
        if self.execution_trace_observer:
            self.execution_trace_observer.start()
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        self.profiler._start_trace()
        for flag in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, flag):
                self.add_metadata_json(flag, "1")
        about = {key: json.dumps(value) for key, value in self._framework.metadata().items()}
        for key, value in {**about, **self._late_metadata, **self.preset_metadata}.items():
            self.add_metadata_json(key, value)
        self._late_metadata.clear()

    def stop_trace(self) -> None:
        """Stops recording; the records are kept."""
        if self.execution_trace_observer:
            self.execution_trace_observer.stop()
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        self.profiler.__exit__(None, None, None)

    # ---------------------------------------------------------------------------------------- what came of it

    def _ready(self, doing: str) -> prof.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {doing}")
        return self.profiler

    @property
    def trace(self) -> RecordedTrace:
        """The recording, for tools: trace.columns() returns NumPy arrays, without a copy."""
        return RecordedTrace(self._ready("accessing the trace").trace)

    def export_chrome_trace(self, path: Any, use_python_export: bool = False) -> None:
        """Writes the trace as JSON for Perfetto, chrome://tracing and TensorBoard; compressed if the path ends in .gz. With a
        schedule it contains the last cycle, with acc_events all cycles."""
        self._ready("exporting chrome trace").export_chrome_trace(path, self._late_metadata)

    def explain(self, budget: int = 0) -> str:
        """What stands out, in words: findings ranked by the time to be saved, each with evidence and the next step, as `mtprof
        explain` prints them. budget: the most to say, in tokens of four characters, for language models (torch has no such thing)."""
        return self._ready("explaining").trace.explain(budget)

    def findings(self) -> dict[str, Any]:
        """The same as data, as `mtprof explain --json` has it: findings is the list, the other members are about the time examined."""
        return json.loads(self._ready("explaining").trace.explain(0, True))

    def export_report(self, path: Any) -> None:
        """Writes a page that any browser opens, offline: where the time goes, a timeline, operators, flame graph, modules, memory
        (torch has no such thing). With a schedule it shows the last cycle, with acc_events all cycles."""
        self._ready("exporting a report").trace.report(path, os.path.basename(os.fspath(path)))

    def export_parquet(self, folder: Any, job: str | None = None, rank: int | None = None) -> None:
        """Writes tables that DuckDB, Spark, pandas and others read, over the traces of many ranks and jobs (docs/fleet.md; torch has
        no such thing): folder/TABLE/job=JOB/rank=RANK/TABLE.parquet. job and rank: by default those of the recording's
        metadata, else "trace" and 0."""
        self._ready("exporting Parquet").trace.parquet(folder, job, -1 if rank is None else rank)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Writes folded stacks for flame graphs, a line per event as torch does; metric: self_cpu_time_total or
        self_cuda_time_total. `mtprof stacks` on an exported trace merges them, and shows the ops."""
        self._ready("exporting stacks").export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Disables or enables activities at any point of a recording."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False, include_python_functions: bool = False) -> prof.EventList:
        """Averages by name and, optionally, by input shapes, innermost frames and overload, with or without Python
        functions: a list of FunctionEventAvg with table()."""
        return self._ready("getting key averages").key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name,
                                                                include_python_functions)

    def events(self) -> prof.EventList:
        """All events as FunctionEvents, by start time; also while recording."""
        return self._ready("accessing events").function_events

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a string to the exported trace."""
        if not isinstance(value, str):
            raise AttributeError(f"{type(value).__name__!r} object has no attribute 'replace'")
        self.add_metadata_json(key, json.dumps(value, ensure_ascii=False))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a JSON value to the exported trace. A string that is not JSON is shown as a string."""
        for text in (key, value):
            if not isinstance(text, str):
                raise TypeError(f"metadata must be str, not {type(text).__name__}")
        self._trace_metadata[key] = value
        session = self.profiler._session if self.profiler is not None else None
        if session is None or not self.profiler._prepared:
            self._late_metadata[key] = value
            return
        try:
            session.add_metadata_json(key, value)
        except ValueError:
            session.add_metadata(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Like add_metadata_json, but kept and added whenever recording starts."""
        self.preset_metadata[key] = value

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Sets the function that creates the trace ids of later cycles."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The current cycle's id; None before the first."""
        return None if self.profiler is None else self.profiler.trace_id

    def _memory_recorded(self) -> prof.profile:
        missing = [f"{flag}=True" for flag in ("record_shapes", "profile_memory", "with_stack") if not getattr(self, flag)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        if self.profiler is None or not self.profiler._recorded:
            raise AssertionError("Profiler and kineto_results must be initialized for memory profiling")
        return self.profiler

    def _memory_profile(self) -> MemoryProfile:
        """The tensors of the recording, with categories deduced from the event tree."""
        from mtprof.profiler._memory_profiler import MemoryProfile

        return MemoryProfile(self._memory_recorded().kineto_results)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Memory over time, by category (PARAMETER, GRADIENT, ACTIVATION ...), of "cpu" or "npu:0". Default device: the
        accelerator if it was recorded and has memory events, else the CPU.

        By the path's suffix: .html, a page with the stacked plot; .raw.json.gz, each event; .json or .json.gz,
        [times, sizes by category].
        """
        recorded = MemoryProfileTimeline(self._memory_recorded().trace)
        self.mem_tl = recorded if self._framework.tags_memory else self._memory_profile().as_timeline()
        self.mem_tl.export(os.fspath(path), device or recorded.busiest_device(self.profiler.use_device))

    def _stats(self) -> Any:
        return None if self.profiler is None else self.profiler._stats


# --------------------------------------------------------------------------------------------- with steps

_active: weakref.ref | None = None  # the profile between start() and stop()


def _is_taken(profiler: profile) -> bool:
    other = _active() if _active is not None else None
    return other is not None and other is not profiler and other._pid == os.getpid()


def _claim(profiler: profile) -> None:
    global _active
    if _is_taken(profiler):
        gc.collect()  # it may only be kept alive by a reference cycle
    if _is_taken(profiler):
        raise RuntimeError(prof.ALREADY_ACTIVE)
    _active = weakref.ref(profiler)


def _release(profiler: profile) -> None:
    global _active
    if _active is not None and _active() in (profiler, None):
        _active = None


def _unreachable_transition(prev: str, current: str) -> None:
    raise RuntimeError(f"Profiler internal error: {prev} -> {current} should be unreachable")


def _turns() -> dict[tuple[ProfilerAction, ProfilerAction | None], tuple[str, ...]]:
    """(previous action, current action): methods to call. With a blank: a warning; with a comma: an invalid pair."""
    none, warmup, record, save, stopped = ProfilerAction
    prepare, start, stop, ready = "prepare_trace", "start_trace", "stop_trace", "_trace_ready"
    return {
        (none, none): (),
        (none, warmup): (prepare,),
        (none, record): (prepare, start),
        (none, save): (prepare, start),
        (warmup, none): ("WARMUP followed by NONE", start, stop),
        (warmup, warmup): (),
        (warmup, record): (start,),
        (warmup, save): (start,),
        (record, none): ("RECORD followed by NONE", stop),
        (record, warmup): ("RECORD followed by WARMUP", stop),
        (record, record): (),
        (record, save): (),
        (save, none): (stop, ready),
        (save, warmup): (stop, ready, prepare),
        (save, record): (stop, ready, prepare, start),
        (save, save): (stop, ready, prepare, start),
        (warmup, stopped): (start, stop, ready),
        (record, stopped): (stop, ready),
        (stopped, stopped): (),
        (stopped, warmup): (prepare,),
        (stopped, none): (),
        (stopped, record): (prepare, start),
        (stopped, save): (prepare, start),
        (none, stopped): ("NONE,DEVICE_STOPPED",),
        (save, stopped): ("RECORD_AND_SAVE,DEVICE_STOPPED",),
        (warmup, None): (start, stop),
        (record, None): (stop, ready),
        (save, None): (stop, ready),
        (stopped, None): (),
    }


_TURNS = _turns()


def _checked_action(action: Any) -> ProfilerAction:
    if not isinstance(action, ProfilerAction):
        action = known_action(action)
    if action is ProfilerAction.DEVICE_STOPPED:
        raise ValueError("ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be returned by a "
                         "user-provided schedule")
    return action


class profile(_KinetoProfile):
    """The profiler, as a context manager.

        with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.NPU]) as p:
            code_to_profile()
        print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

    and for selected steps of a long run:

        with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
                                    on_trace_ready=torch.profiler.tensorboard_trace_handler("./log")) as p:
            for batch in batches:
                train(batch)
                p.step()

    activities: a list of ProfilerActivity or names in any case, CPU and NPU; CUDA and GPU mean NPU. schedule: step -> ProfilerAction,
    see schedule(). on_trace_ready: called as on_trace_ready(prof), once per recorded cycle. record_shapes: shapes of inputs,
    copied: no tensor is kept alive. profile_memory: what ops allocate and free. with_stack: where ops were called.
    with_flops: FLOPs from shapes. with_modules: nn.Module calls as events. execution_trace_observer: see
    ExecutionTraceObserver. acc_events: keep the events of earlier cycles. custom_trace_id_callback: creates each cycle's id.

    Beyond torch's, for long runs (docs/python.md): spool: a file that receives the records as they are made, so that kill -9
    loses none; buffer_bytes: the memory for records, 64 << 20 or "64M"; when_full: "stop", "newest" (evict the oldest) or
    "stream" (to the spool; the default with a spool). The environment variables MTPROF_SPOOL, MTPROF_BUFFER_BYTES and
    MTPROF_WHEN_FULL supply the defaults.
    """

    def __init__(self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
                 experimental_config: _ExperimentalConfig | None = None, execution_trace_observer: _ITraceObserver | None = None,
                 acc_events: bool = False, use_cuda: bool | None = None,
                 custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None, spool: Any = None, buffer_bytes: int | str | None = None,
                 when_full: str | None = None) -> None:
        wanted = self._framework.supported_activities() if activities is None else activities
        wanted = listed(wanted)
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
            parsed, _ = parse_activities(wanted)
            wanted = (parsed | {ProfilerActivity.NPU}) if use_cuda else (parsed - {ProfilerActivity.NPU})
        if len(wanted) == 0:
            raise NoActivityError("No valid profiler activities found")
        if schedule is not None and not callable(schedule):
            raise TypeError(f"schedule must be callable, not {type(schedule).__name__}")
        super().__init__(
            activities=wanted, record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack,
            with_flops=with_flops, with_modules=with_modules, experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer or ExecutionTraceObserver.build_execution_trace_obs_from_env(),
            acc_events=acc_events, custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s, spool=spool, buffer_bytes=buffer_bytes, when_full=when_full)
        self.schedule = schedule if schedule is not None else _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.step_rec_fn: mtprof.record_function | None = None
        self._started = False
        self._turns: tuple[int, Any] = (0, None)
        self._pid = 0  # the process that started it
        self.current_action = _checked_action(self.schedule(self.step_num))
        self._prev_schedule_action = self.current_action
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    @property
    def action_map(self) -> dict[tuple[ProfilerAction, ProfilerAction | None], list[Callable[[], Any]]]:
        """(previous action, current action) -> calls; None: at the end. Built on access: stored, it would be a reference cycle,
        and a profile that is dropped would record until it is collected."""
        return {turn: [self._action(name) for name in names] for turn, names in _TURNS.items()}

    def _action(self, name: str) -> Callable[[], Any]:
        if "," in name:
            return partial(_unreachable_transition, *name.split(","))
        return partial(warnings.warn, f"Incorrect schedule: {name}") if " " in name else getattr(self, name)

    def __enter__(self) -> profile:
        begun = self._started
        try:
            self.start()
            return self
        except BaseException:
            if not begun:
                self._cancel()
            raise

    def start(self) -> None:
        """Begins step 0 and takes its action. An error or an interrupt meanwhile ends the profile."""
        self._disown()
        if self._started:
            raise RuntimeError(prof.ALREADY_ACTIVE)
        try:
            self._pid = os.getpid()
            self._turn()  # created before several threads may want it
            _claim(self)
            self._transit_action(ProfilerAction.NONE, self.current_action)
            self._started = True
            self._begin_step()
        except BaseException:
            self._cancel()
            raise

    def _is_parents(self) -> bool:
        """In a forked child: did the parent start it? The child records into its own file, and the parent creates the
        traces."""
        return self._started and self._pid != os.getpid()

    def _disown(self) -> None:
        """Detaches a forked child from the parent's profile, so that it may start the profile itself."""
        if self._is_parents():
            self._started, self.step_rec_fn = False, None
            if self.profiler is not None:
                self.profiler._disown()
            self.step_num = 0
            self.current_action = self._prev_schedule_action = _checked_action(self.schedule(0))

    def _cancel(self) -> None:
        self._end_step()
        self._abandon()
        self._started = False
        self.current_action = self._prev_schedule_action
        _release(self)

    def stop(self) -> None:
        """Ends the profile, and completes a cycle that is being recorded. Later calls do nothing."""
        with self._turn():
            self._stop()

    stop = mtprof._native.ends_in(stop, _cancel)

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
        if self.execution_trace_observer:
            self.execution_trace_observer.cleanup()

    __exit__ = mtprof._native.ends_in(__exit__, _cancel)

    def _stop(self) -> None:
        if self._is_parents():
            self._disown()
            return
        if not (self._started or self.profiler is None or self.profiler._prepared):
            return
        try:
            self._end_step()
            self._started = False
            self._transit_action(self.current_action, None)
        finally:
            self._cancel()
        self._say_if_nothing_was_recorded()

    def step(self) -> None:
        """Signals the profiler that the next profiling step has started. Any thread may; each call is a step."""
        with self._turn():
            self._step()

    def _turn(self) -> Any:
        """One thread at a time takes an action. A forked child does not wait for threads that only its parent has."""
        if self._turns[0] != os.getpid():
            self._turns = (os.getpid(), threading.RLock())
        return self._turns[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_turns": (0, None)}

    def _step(self) -> None:
        if not self._started:
            raise RuntimeError("step() needs an active profiler session: call start() first, or use the profiler in a with block")
        if self._is_parents():
            self.step_num += 1
            return
        self._end_step()
        before = self.current_action
        now = _checked_action(self.schedule(self.step_num + 1))
        self.step_num += 1
        self.current_action = self._prev_schedule_action = now
        try:
            self._transit_action(before, now)
        except BaseException:
            self._abandon()
            self.current_action = ProfilerAction.NONE
            raise
        if os.environ.get("KINETO_USE_DAEMON", ""):
            KinetoStepTracker.increment_step(PROFILER_STEP_NAME)
        if self.profiler is not None:
            self.profiler._mark_step(self.step_num)
        self._begin_step()

    def start_trace(self) -> None:
        if self.profiler is not None:
            self.profiler._mark_step(self.step_num)
        super().start_trace()

    start_trace.__doc__ = _KinetoProfile.start_trace.__doc__

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = mtprof.record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        scope, self.step_rec_fn = self.step_rec_fn, None
        if scope is not None:
            scope.__exit__(None, None, None)

    def _trace_ready(self) -> None:
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _transit_action(self, prev_action: ProfilerAction, current_action: ProfilerAction | None) -> None:
        for name in _TURNS.get((prev_action, current_action), ()):
            self._action(name)()

    def _abandon(self) -> None:
        """After an error, for example in the callback: stops all recording, and calls no callback twice."""
        if self.profiler is not None:
            self.profiler._abandon()

    def _say_if_nothing_was_recorded(self) -> None:
        first = getattr(self.schedule, "first_recorded", None)
        if first is not None and self.step_num < first:
            warnings.warn(f"the profiler recorded nothing: its schedule records from step {first} on, and step() was called "
                          f"{self.step_num} times", stacklevel=4)


mtprof.hide_file(schedule.__code__.co_filename)
