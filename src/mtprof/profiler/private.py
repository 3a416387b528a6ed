"""The private names of torch.profiler that tools import: torch._C._profiler, torch._C._autograd, torch.ops.profiler.

A framework's binding puts them where torch has them; PROFILER, AUTOGRAD and OPS say which belong where. Those that create a
profile are made by functions_of().
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

import mtprof
from mtprof import RecordFunctionFast as _RecordFunctionFast  # noqa: F401

from mtprof.profiler import common
from mtprof.profiler.common import (  # noqa: F401
    DeviceType,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    kineto_available,
)
from mtprof.profiler.results import _KinetoEvent, _ProfilerResult  # noqa: F401
from mtprof.profiler.session import profile as _profile
from mtprof.profiler.tree import (  # noqa: F401
    _EventType,
    _ExtraFields_Allocation,
    _ExtraFields_Backend,
    _ExtraFields_Kineto,
    _ExtraFields_OutOfMemory,
    _ExtraFields_PyCall,
    _ExtraFields_PyCCall,
    _ExtraFields_PythonGC,
    _ExtraFields_TorchOp,
    _ExtraFields_Vulkan,
    _NNModuleInfo,
    _OptimizerInfo,
    _ProfilerEvent,
    _PyFrameState,
    _TensorMetadata,
)

# ------------------------------------------------------------------------------------------------------- kinds


class ProfilerState(Enum):
    """The kind of profiler. Here all kinds record as KINETO does."""

    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8
    KINETO_PRIVATEUSE1 = 9


class ActiveProfilerType(IntEnum):
    """The active kind: NONE or KINETO."""

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5


class ProfilerConfig:
    """What _enable_profiler() should record."""

    def __init__(self, state: ProfilerState, report_input_shapes: bool, profile_memory: bool, with_stack: bool, with_flops: bool,
                 with_modules: bool, experimental_config: _ExperimentalConfig | None = None, trace_id: str | None = "") -> None:
        self.state, self.trace_id, self.experimental_config = state, trace_id, experimental_config
        self.report_input_shapes, self.profile_memory, self.with_stack = report_input_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules = with_flops, with_modules


# ------------------------------------------------------------------------------------------------ driving by hand


class _Driven:
    """The profile created by _prepare_profiler() and _enable_profiler()."""

    profile: _profile | None = None


def functions_of(session_class: type[_profile]) -> tuple[Callable[..., None], Callable[..., None]]:
    """_prepare_profiler and _enable_profiler of a framework, whose profiles are of this class."""

    def _prepare_profiler(config: ProfilerConfig, activities: set[ProfilerActivity]) -> None:
        """Prepares the recording that _enable_profiler() starts."""
        wanted = {common.parse_activity(activity) for activity in activities}
        accelerator = session_class._framework.accelerator
        driven = session_class(use_device=accelerator if ProfilerActivity.NPU in wanted else None, use_cpu=ProfilerActivity.CPU in wanted,
                               use_kineto=True, record_shapes=config.report_input_shapes, profile_memory=config.profile_memory,
                               with_stack=config.with_stack, with_flops=config.with_flops, with_modules=config.with_modules,
                               experimental_config=config.experimental_config,
                               custom_trace_id_callback=(lambda: config.trace_id) if config.trace_id else None)
        driven._prepare_trace()
        _Driven.profile = driven

    def _enable_profiler(config: ProfilerConfig, activities: set[ProfilerActivity], scopes: Any = None) -> None:
        """Records until _disable_profiler()."""
        if config.state is ProfilerState.Disabled:
            raise RuntimeError("_enable_profiler(): the state Disabled records nothing")
        if _Driven.profile is None:
            _prepare_profiler(config, activities)
        _Driven.profile._start_trace()

    return _prepare_profiler, _enable_profiler


def _disable_profiler() -> _ProfilerResult:
    """Stops the recording that _enable_profiler() started, and returns it."""
    driven, _Driven.profile = _Driven.profile, None
    if driven is None or not driven._recorded:
        raise RuntimeError("_disable_profiler(): no profiler is enabled; call _enable_profiler() first")
    driven._stop_trace()
    return driven.kineto_results


def _current() -> _profile | None:
    return _profile._current() if _profile._current is not None else None


def _add_metadata_json(key: str, value: str) -> None:
    """Adds a top-level member to the current recording; no-op if there is none."""
    current = _current()
    if current is not None and current._session is not None:
        current._session.add_metadata_json(key, value)


def _toggle_collection_dynamic(enable: bool, activities: set[ProfilerActivity]) -> None:
    current = _current()
    if current is not None:
        current.toggle_collection_dynamic(enable, activities)


def _profiler_enabled() -> bool:
    """Is anything being recorded?"""
    return mtprof.is_profiler_enabled()


def _profiler_type() -> ActiveProfilerType:
    return ActiveProfilerType.KINETO if mtprof.is_profiler_enabled() else ActiveProfilerType.NONE


def _kineto_step() -> None:
    """Does nothing: profile.step() counts steps, and there is no daemon to notify."""


# ------------------------------------------------------------------------------------------------------- scopes


def _record_function_with_args_enter(name: str, *args: Any) -> int:
    """Begins a scope with inputs, which _record_function_with_args_exit(handle) ends."""
    return mtprof.scope_with_args_enter(name, *args)


def _record_function_with_args_exit(handle: int) -> None:
    mtprof.dispatch_op_exit(handle)


class _RecordFunction:
    """An open scope, returned by _record_function_enter() and ended by _record_function_exit()."""

    __slots__ = ("scope",)

    def __init__(self, name: str, args: str | None) -> None:
        self.scope = mtprof.record_function(name, args)
        self.scope.__enter__()


def _record_function_enter(name: str, args: str | None = None) -> _RecordFunction:
    return _RecordFunction(name, args)


_record_function_enter_new = _record_function_enter


def _record_function_exit(handle: _RecordFunction) -> None:
    handle.scope.__exit__(None, None, None)


_record_function_exit._RecordFunction = _record_function_exit  # torch's overload for handles of _enter_new


# ------------------------------------------------------------------------------------------------------- toggles


def _set_record_concrete_inputs_enabled_val(val: bool) -> None:
    """Whether traces and events show the values of non-tensor inputs; the setting at the time that a profile stops applies."""
    common.toggles.concrete_inputs = bool(val)


def _get_record_concrete_inputs_enabled() -> bool:
    return common.toggles.concrete_inputs


def _set_fwd_bwd_enabled_val(val: bool) -> None:
    """Whether exported traces link ops to their backward ops; the setting at the time that a profile stops applies."""
    common.toggles.forward_backward = bool(val)


def _get_fwd_bwd_enabled() -> bool:
    return common.toggles.forward_backward


def _set_cuda_sync_enabled_val(val: bool) -> None:
    """Stored but without effect: waits for the device are always recorded."""
    common.toggles.device_sync = bool(val)


def _get_cuda_sync_enabled() -> bool:
    return common.toggles.device_sync


# ------------------------------------------------------------------------------------------- execution traces


class _Observer:
    """The observer of the functions below: one per process."""

    made: Any = None


def _add_execution_trace_observer(output_file_path: str) -> bool:
    """Creates an observer that writes there; False if there is already one."""
    from mtprof.profiler.execution_trace import ExecutionTraceObserver

    if _Observer.made is not None:
        return False
    _Observer.made = ExecutionTraceObserver().register_callback(output_file_path)
    return True


def _remove_execution_trace_observer() -> None:
    made, _Observer.made = _Observer.made, None
    if made is not None:
        made.unregister_callback()


def _enable_execution_trace_observer() -> None:
    if _Observer.made is not None:
        _Observer.made.start()


def _disable_execution_trace_observer() -> None:
    if _Observer.made is not None:
        _Observer.made.stop()


# --------------------------------------------------------------------------------------------- clocks, tracebacks


def _get_approximate_time() -> int:
    """The clock of the records."""
    return mtprof.now_ns()


class _ApproximateClockToUnixTimeConverter:
    """A result of _get_approximate_time() as Unix time."""

    def __init__(self) -> None:
        before, unix, after = mtprof.now_ns(), time.time_ns(), mtprof.now_ns()
        self._ahead = unix - (before + after) // 2

    def to_unix_ns(self, t: int) -> int:
        return t + self._ahead


class CapturedTraceback:
    """Unresolved frames of the Python program, innermost first: symbolize_tracebacks() resolves them."""

    __slots__ = ("_frames",)

    def __init__(self, frames: list[tuple[Any, int]]) -> None:
        self._frames = frames


def gather_traceback(python: bool, script: bool, cpp: bool) -> CapturedTraceback:
    """The current stack. There are no script frames here, and native ones are not collected."""
    frames = []
    frame = sys._getframe(1) if python else None
    while frame is not None:
        frames.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return CapturedTraceback(frames)


def _line_of(code: Any, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


def symbolize_tracebacks(to_symbolize: list[CapturedTraceback]) -> list[list[dict[str, Any]]]:
    """The frames of each traceback: name, filename and line."""
    return [[{"name": code.co_name, "filename": code.co_filename, "line": _line_of(code, at)} for code, at in one._frames]
            for one in to_symbolize]


class _Symbol(ctypes.Structure):
    """dladdr()'s Dl_info."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def symbolize_addresses(addresses: list[int], mode: str = "dladdr") -> list[tuple[str, int, str]]:
    """(file, offset in it, function) of each address, from the dynamic linker in any mode; "??" if unknown."""
    if mode not in ("dladdr", "fast", "addr2line"):
        raise RuntimeError(f"symbolize_addresses(): mode {mode!r} is not one of dladdr, fast, addr2line")
    find = ctypes.CDLL(None).dladdr
    find.argtypes, find.restype = [ctypes.c_void_p, ctypes.POINTER(_Symbol)], ctypes.c_int
    out = []
    for address in addresses:
        found = _Symbol()
        if not find(address, ctypes.byref(found)) or not found.file:
            out.append(("??", 0, "??"))
            continue
        out.append((os.fsdecode(found.file), address - (found.base or 0), (found.name or b"??").decode(errors="replace")))
    return out


# ------------------------------------------------------------------------------------------------- who has what

PROFILER = (
    "ActiveProfilerType", "CapturedTraceback", "ProfilerActivity", "ProfilerConfig", "ProfilerState", "RecordScope",
    "_ApproximateClockToUnixTimeConverter", "_EventType", "_ExperimentalConfig", "_ExtraFields_Allocation", "_ExtraFields_Backend",
    "_ExtraFields_Kineto", "_ExtraFields_OutOfMemory", "_ExtraFields_PyCCall", "_ExtraFields_PyCall", "_ExtraFields_PythonGC",
    "_ExtraFields_TorchOp", "_ExtraFields_Vulkan", "_NNModuleInfo", "_OptimizerInfo", "_ProfilerEvent", "_PyFrameState",
    "_RecordFunctionFast", "_TensorMetadata", "_add_execution_trace_observer", "_disable_execution_trace_observer",
    "_enable_execution_trace_observer", "_get_approximate_time", "_get_cuda_sync_enabled", "_get_fwd_bwd_enabled",
    "_get_record_concrete_inputs_enabled", "_remove_execution_trace_observer", "_set_cuda_sync_enabled_val",
    "_set_fwd_bwd_enabled_val", "_set_record_concrete_inputs_enabled_val", "gather_traceback", "symbolize_addresses",
    "symbolize_tracebacks",
)
AUTOGRAD = (
    "DeviceType", "_KinetoEvent", "_ProfilerResult", "_add_metadata_json", "_disable_profiler", "_enable_profiler", "_kineto_step",
    "_prepare_profiler", "_profiler_enabled", "_profiler_type", "_record_function_with_args_enter", "_record_function_with_args_exit",
    "_supported_activities", "_toggle_collection_dynamic", "kineto_available",
)
OPS = ("_record_function_enter", "_record_function_enter_new", "_record_function_exit")
