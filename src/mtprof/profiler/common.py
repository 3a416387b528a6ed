"""Shared by all parts of the profiler: enums, activities, errors, options."""

from __future__ import annotations

import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import Any

import mtprof


class Alike:
    """For an enum: its members equal those of another library's enum with the same name (torch's own) if theirs do, too. Scripts
    compare what the profiler returns with what they import from torch."""

    __slots__ = ()

    def __eq__(self, other: Any) -> Any:
        ours = self.__class__
        if other.__class__ is ours:
            return self is other
        if _is_member(other, ours):
            return ours.__members__.get(other.name) is self
        return super().__eq__(other)

    def __ne__(self, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return self is not other
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


class DeviceType(Alike, str, Enum):
    """Where an event ran: CPU or NPU; the others exist only for comparisons. A member equals its name: "CPU"."""

    CPU = "CPU"
    NPU = "NPU"
    CUDA = "NPU"
    GPU = "NPU"
    PrivateUse1 = "NPU"
    MKLDNN = "MKLDNN"
    OPENGL = "OPENGL"
    OPENCL = "OPENCL"
    IDEEP = "IDEEP"
    HIP = "HIP"
    FPGA = "FPGA"
    MAIA = "MAIA"
    XLA = "XLA"
    Vulkan = "Vulkan"
    Metal = "Metal"
    XPU = "XPU"
    MPS = "MPS"
    Meta = "Meta"
    HPU = "HPU"
    VE = "VE"
    Lazy = "Lazy"
    IPU = "IPU"
    MTIA = "MTIA"

    def __int__(self) -> int:
        return _DEVICE_NUMBERS[self.value]

    def __str__(self) -> str:
        return f"DeviceType.{self.name}"

    __format__ = Enum.__format__
    __hash__ = str.__hash__


# c10's numbers: the NPU is PrivateUse1.
_DEVICE_NUMBERS = {"CPU": 0, "NPU": 20} | {
    name: number for number, name in enumerate(
        ("MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "Vulkan", "Metal", "XPU", "MPS", "Meta", "HPU", "VE", "Lazy",
         "IPU", "MTIA"), start=2)
}


class ProfilerActivity(Alike, Enum):
    """What to collect: CPU or NPU. CUDA and GPU mean NPU, the accelerator of any kind; the others are rejected."""

    CPU = 0
    NPU = 2
    CUDA = 2
    GPU = 2
    XPU = 1
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5

    def __hash__(self) -> int:  # as torch's, so that each is found in a set of the other
        return hash(self.value)


class ProfilerAction(Alike, Enum):
    """What a step is for: a schedule returns one of the first four."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4  # set by the profiler when device collection ended early

    __hash__ = Enum.__hash__


class RecordScope(Alike, IntEnum):
    """The kind of code in a scope: FunctionEvent.scope."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9

    __hash__ = IntEnum.__hash__
    __str__ = Enum.__str__


# ------------------------------------------------------------------------------------------------ toggles


class _Toggles:
    """What traces contain; set by torch._C._profiler."""

    concrete_inputs = True
    forward_backward = True
    device_sync = True

    @property
    def left_out(self) -> int:
        """The `without` of mtprof.Trace.chrome()."""
        return (not self.concrete_inputs) | (not self.forward_backward) << 1


toggles = _Toggles()


# ------------------------------------------------------------------------------------------------ errors


class ScheduleError(ValueError, AssertionError):
    """schedule() got invalid numbers. torch raises AssertionError; the MindTorch contract requires ValueError."""


class NoActivityError(ValueError, AssertionError):
    """No activity is left to collect."""


class ActivityTypeError(TypeError, ValueError):
    """An activity that is neither an enum, a string nor a dict; or one by itself where a list is expected."""


class ActivityFilterError(ValueError, RuntimeError):
    """A filter names a type that its activity does not have. torch raises RuntimeError when recording starts."""


_WARNINGS_SHOWN: set[str] = set()


def warn_once(message: str, category: type[Warning] = UserWarning, stacklevel: int = 2) -> None:
    if message not in _WARNINGS_SHOWN:
        _WARNINGS_SHOWN.add(message)
        warnings.warn(message, category=category, stacklevel=stacklevel + 1)


# ------------------------------------------------------------------------------------------ enums of others


def _is_member(item: Any, ours: type[Enum]) -> bool:
    """Is it a member of ours, or of another library's enum of that name?"""
    return isinstance(item, ours) or (type(item).__name__ == ours.__name__ and isinstance(getattr(item, "name", None), str))


def known_action(action: Any) -> Any:
    """torch's own ProfilerAction as ours; anything else unchanged."""
    if _is_member(action, ProfilerAction):
        return ProfilerAction.__members__.get(action.name, action)
    return action


# -------------------------------------------------------------------------------------------- activities

_ACTIVITY_NAMES = {"CPU": ProfilerActivity.CPU, "NPU": ProfilerActivity.NPU, "CUDA": ProfilerActivity.NPU, "GPU": ProfilerActivity.NPU}
_ACTIVITY_BITS = {ProfilerActivity.CPU: mtprof.CPU, ProfilerActivity.NPU: mtprof.NPU}

# What a filter, {activity: [names]}, may name: Kineto's activity types, by torch's groups.
_FILTER_NAMES = {
    ProfilerActivity.CPU: ("CPU_OP", "USER_ANNOTATION", "CPU_INSTANT_EVENT", "PYTHON_FUNCTION", "EXTERNAL_CORRELATION", "CUDA_RUNTIME",
                           "CUDA_DRIVER", "XPU_RUNTIME", "XPU_DRIVER", "PRIVATEUSE1_RUNTIME", "PRIVATEUSE1_DRIVER"),
    ProfilerActivity.NPU: ("CONCURRENT_KERNEL", "GPU_MEMCPY", "GPU_MEMSET", "GPU_USER_ANNOTATION", "CUDA_RUNTIME", "CUDA_DRIVER",
                           "CUDA_SYNC", "CUDA_EVENT", "CUDA_PROFILER_RANGE", "GPU_PM_COUNTER", "EXTERNAL_CORRELATION", "OVERHEAD",
                           "COLLECTIVE_COMM", "PRIVATEUSE1_RUNTIME", "PRIVATEUSE1_DRIVER"),
}


def kineto_available() -> bool:
    """Whether traces of this profiler are Kineto's: always."""
    return True


def supported_activities() -> set[ProfilerActivity]:
    """The activities available on this machine to any framework of this process: CPU, and NPU if there is an accelerator. A
    binding has its own function of this name."""
    from mtprof.profiler.framework import known

    return set().union(*(framework.supported_activities() for framework in known()))


def parse_activity(item: Any) -> ProfilerActivity:
    """An enum or its name in any case; ValueError for anything else."""
    if isinstance(item, str) or _is_member(item, ProfilerActivity):
        found = _ACTIVITY_NAMES.get(item.strip().upper() if isinstance(item, str) else item.name)
        if found is None:
            raise ValueError(f"unsupported profiler activity {item!r}: use one of CPU, NPU, CUDA, GPU")
        return found
    raise ActivityTypeError(f"Expected ProfilerActivity or dict, got {type(item)}")


def listed(activities: Iterable[Any]) -> list[Any]:
    """The activities one by one. A single name or activity is rejected: as an iterable, "CPU" would be C, P and U."""
    if isinstance(activities, (str, bytes)) or _is_member(activities, ProfilerActivity):
        one = f'"{activities}"' if isinstance(activities, str) else str(activities)
        raise ActivityTypeError(f"activities must be a list of activities, such as [{one}]: got {one} by itself")
    if isinstance(activities, Mapping):
        return [activities]
    try:
        return list(activities)
    except TypeError:
        raise ActivityTypeError(f"activities must be a list of activities, such as [ProfilerActivity.CPU]: got {activities!r}") from None


def _filter_of(activity: ProfilerActivity, names: Any) -> set[str]:
    if isinstance(names, (str, bytes)):
        raise ActivityFilterError(f"the filter of {activity} must be a list of names, such as [{names!r}]: got {names!r} by itself")
    names = set(names)
    for name in sorted(names, key=str):
        if name not in _FILTER_NAMES[activity]:
            raise ActivityFilterError(f"Unknown or non-member activity type name: {name!r}. {activity} has "
                                      f"{', '.join(_FILTER_NAMES[activity])}")
    return names


def parse_activities(activities: Iterable[Any]) -> tuple[set[ProfilerActivity], dict[ProfilerActivity, set[str]]]:
    """Activities, and for those given as {activity: [names]} the names."""
    parsed: set[ProfilerActivity] = set()
    filters: dict[ProfilerActivity, set[str]] = {}
    spelled: set[Any] = set()
    for item in listed(activities):
        for key, names in item.items() if isinstance(item, Mapping) else [(item, None)]:
            activity = parse_activity(key)
            spelling = key.strip().upper() if isinstance(key, str) else key
            if spelling in spelled:
                raise ValueError(f"Activity {activity} specified more than once")
            spelled.add(spelling)
            parsed.add(activity)
            if names is not None:
                filters[activity] = _filter_of(activity, names)
    return parsed, filters


def activity_bits(activities: Iterable[Any]) -> int:
    """libmtprof's bits for them."""
    bits = 0
    for item in listed(activities):
        bits |= _ACTIVITY_BITS[parse_activity(item)]
    return bits


# ----------------------------------------------------------------------------------------------- options


_WHEN_FULL = {"stop": mtprof.STOP_WHEN_FULL, "newest": mtprof.KEEP_NEWEST, "stream": mtprof.STREAM}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(value: Any, name: str) -> int:
    """67108864, "67108864", "64M" or "64 MiB"."""
    found = re.fullmatch(r"\s*(\d+)\s*([KMG]?)(?:i?B)?\s*", value, re.IGNORECASE | re.ASCII) if isinstance(value, str) else None
    if found:
        value = int(found[1]) * _UNITS[found[2].upper()]
    if isinstance(value, bool) or not isinstance(value, int):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a number of bytes or a string like '64M', not {type(value).__name__}")
        raise ValueError(f"{name} must be a number of bytes, such as 67108864 or 64M, not {value!r}")
    if value <= 0:
        raise ValueError(f"{name} must be above 0, not {value}")
    try:
        mtprof.Session(buffer_bytes=value)  # checks the bounds
    except ValueError as error:
        raise ValueError(str(error).replace("buffer_bytes", name, 1)) from None
    return value


def keeping(spool: Any = None, buffer_bytes: int | str | None = None, when_full: str | int | None = None) -> dict[str, Any]:
    """The Session options for memory and files: from the arguments of profile(), else from the environment. Only options that
    were set are included."""
    given = {"spool": spool, "buffer_bytes": buffer_bytes, "when_full": when_full}
    names = {}
    for option, value in given.items():
        variable = f"MTPROF_{option.upper()}"
        if value is None and os.environ.get(variable):
            given[option], names[option] = os.environ[variable], variable
    made: dict[str, Any] = {}
    if given["spool"] is not None:
        made["spool"] = os.fsdecode(given["spool"])
        if not made["spool"]:
            raise ValueError("spool must be the path of a file, not an empty string")
        made["when_full"] = mtprof.STREAM
    if given["buffer_bytes"] is not None:
        made["buffer_bytes"] = _bytes(given["buffer_bytes"], names.get("buffer_bytes", "buffer_bytes"))
    when = given["when_full"]
    if when is not None:
        when = _WHEN_FULL.get(when.lower(), when) if isinstance(when, str) else when
        if when not in _WHEN_FULL.values() or isinstance(when, bool):
            raise ValueError(f"{names.get('when_full', 'when_full')} must be 'stop', 'newest' or 'stream', not {given['when_full']!r}")
        if when == mtprof.STREAM and "spool" not in made:
            raise ValueError(f"{names.get('when_full', 'when_full')}='stream' needs a file to stream to: set spool or MTPROF_SPOOL")
        made["when_full"] = when
    return made


class _ExperimentalConfig:
    """Kineto's experimental options, by name. Those for CUDA's own tools are stored but have no effect."""

    _defaults: dict[str, Any] = {
        "profiler_metrics": (), "profiler_measure_per_kernel": False, "verbose": False, "performance_events": (),
        "enable_cuda_sync_events": False, "adjust_profiler_step": False, "disable_external_correlation": False,
        "profile_all_threads": False, "capture_overload_names": False, "record_python_gc_info": False,
        "expose_kineto_event_metadata": False, "custom_profiler_config": "", "adjust_timestamps": False, "trace_only": False,
    }

    def __init__(self, *values: Any, **named: Any) -> None:
        if len(values) > len(self._defaults):
            raise TypeError(f"_ExperimentalConfig takes at most {len(self._defaults)} arguments")
        given = dict(zip(self._defaults, values))
        for name, value in named.items():
            if name not in self._defaults:
                raise TypeError(f"_ExperimentalConfig got an unexpected keyword argument {name!r}")
            if name in given:
                raise TypeError(f"_ExperimentalConfig got two values for {name!r}")
            given[name] = value
        for name, default in self._defaults.items():
            value = given.get(name, default)
            setattr(self, name, list(value) if isinstance(default, tuple) else value)

    @classmethod
    def _of(cls, config: Any) -> _ExperimentalConfig:
        """The config itself, or torch's own as ours: its state has the same options in the same order."""
        if isinstance(config, cls):
            return config
        state = config.__getstate__() if type(config).__name__ == cls.__name__ else None
        if not isinstance(state, tuple):
            raise TypeError(f"experimental_config must be an _ExperimentalConfig, not {type(config).__name__}")
        return cls(*state[:len(cls._defaults)])

    def __repr__(self) -> str:
        changed = {name: getattr(self, name) for name, default in self._defaults.items()
                   if getattr(self, name) not in (default, list(default) if isinstance(default, tuple) else default)}
        return f"_ExperimentalConfig({', '.join(f'{k}={v!r}' for k, v in changed.items())})"


# ------------------------------------------------------------------------------------------------- texts


def format_time(time_us: float) -> str:
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    if time_us >= 1e3:
        return f"{time_us / 1e3:.3f}ms"
    return f"{time_us:.3f}us"


def format_time_share(time_us: float, total_time_us: float) -> str:
    if total_time_us == 0:
        if time_us != 0:
            raise AssertionError(f"Expected time_us == 0 but got {time_us}")
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def format_memory(nbytes: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes * 1.0 / size:.2f} {unit}"
    return f"{nbytes} B"


# ------------------------------------------------------------------------------------------------- steps


class KinetoStepTracker:
    """Steps of the process, counted per requester: the highest count is the process's."""

    _current_step = 0
    _step_dict: dict[str, int] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Initialize for a given requester."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Remove a given requester."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Increments the requester's step count; returns the process's."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        new_step = max(cls._step_dict.values())
        if new_step > cls._current_step + 1:
            warnings.warn("Profiler step count has increased more than 1 - "
                          f"current_step = {cls._current_step} step dict =  {cls._step_dict}", stacklevel=2)
        cls._current_step = max(cls._current_step, new_step)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """Get the latest step for any requester"""
        return cls._current_step
