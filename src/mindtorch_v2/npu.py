"""The accelerator: torch.cuda's functions for device "npu", driven by a plug-in (OpenCL; see mtprof_device.h).

MINDTORCH_OPENCL_PLATFORM and MINDTORCH_OPENCL_DEVICE select the device, by number or part of its name; without them
a GPU is preferred. If there is no device, is_available() is False, and errors say how to get one.
"""
import importlib
import threading
from types import SimpleNamespace

from mindtorch_v2 import _C
from mindtorch_v2._C import OutOfMemoryError

__all__ = ["Event", "OutOfMemoryError", "Stream", "current_device", "current_stream", "default_stream", "device",
           "device_count", "empty_cache", "get_device_name", "get_device_properties", "init", "is_available",
           "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved",
           "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats",
           "set_device", "set_stream", "stream", "synchronize"]


def is_available() -> bool:
    return _C._npu_count() > 0


def is_initialized() -> bool:
    """Has a device been used? Devices are opened on first use."""
    return _C._npu_is_open()


def init() -> None:
    """Opens the current device now rather than at its first op."""
    get_device_properties()


def device_count() -> int:
    return _C._npu_count()


def _index(which=None) -> int:
    """The index of a device; None: the current one."""
    if not is_available():
        raise RuntimeError(f"no NPU is available: {_C._npu_absence()}")
    if which is None:
        return _C._npu_current()
    if not isinstance(which, int):
        made = _C.device(which) if isinstance(which, str) else which
        if made.type != "npu":
            raise ValueError(f"Expected an npu device, but got: {which}")
        which = _C._npu_current() if made.index is None else made.index
    if not 0 <= which < device_count():
        raise RuntimeError(f"invalid device ordinal: npu:{which}; the number of devices is {device_count()}")
    return which


def current_device() -> int:
    return _index()


def set_device(device) -> None:
    """Sets what "npu" without a number means on this thread."""
    _C._npu_set_current(_index(device))


def get_device_properties(device=None):
    return SimpleNamespace(**_C._npu_describe(_index(device)))


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def synchronize(device=None) -> None:
    _C._npu_synchronize(_index(device))


# ------------------------------------------------------------------------------------------------------- memory

def _stats(device):
    return _C._memory_stats(f"npu:{_index(device)}")


def memory_allocated(device=None) -> int:
    return _stats(device)["allocated"]


def memory_reserved(device=None) -> int:
    return _stats(device)["reserved"]


def max_memory_allocated(device=None) -> int:
    return _stats(device)["peak_allocated"]


def max_memory_reserved(device=None) -> int:
    return _stats(device)["peak_reserved"]


def memory_stats(device=None) -> dict:
    """The counters under torch's names."""
    s = _stats(device)
    return {"allocated_bytes.all.current": s["allocated"], "allocated_bytes.all.peak": s["peak_allocated"],
            "reserved_bytes.all.current": s["reserved"], "reserved_bytes.all.peak": s["peak_reserved"],
            "allocation.all.allocated": s["allocations"], "allocation.all.freed": s["frees"],
            "allocation.all.current": s["allocations"] - s["frees"]}


def reset_peak_memory_stats(device=None) -> None:
    _C._memory_reset_peak(f"npu:{_index(device)}")


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes: what this process holds is not free."""
    total = get_device_properties(device).total_memory
    return max(total - memory_reserved(device), 0), total


def empty_cache() -> None:
    """Releases cached memory that no tensor uses."""
    if is_initialized():
        for index in range(device_count()):
            _C._memory_empty_cache(f"npu:{index}")


def manual_seed(seed: int) -> None:
    """There is one seed for all devices here."""
    _C.manual_seed(seed)


manual_seed_all = manual_seed


# ------------------------------------------------------------------------------------------- streams and events

class Stream:
    """Work on one stream runs in order; on different streams, concurrently."""

    def __init__(self, device=None, priority=0, *, _handle=None):
        self.device_index = _index(device)
        self._handle = _C._npu_stream(self.device_index, "new") if _handle is None else _handle

    @property
    def device(self):
        return _C.device(f"npu:{self.device_index}")

    @property
    def stream_id(self) -> int:
        return _C._npu_stream_id(self._handle)

    def synchronize(self) -> None:
        _C._npu_stream_synchronize(self._handle)

    def query(self) -> bool:
        return _C._npu_stream_done(self._handle)

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event) -> None:
        if event._handle is not None:  # else not recorded: nothing to wait for
            _C._npu_stream_wait(self._handle, event._handle)

    def wait_stream(self, other) -> None:
        self.wait_event(other.record_event())

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device_index, self.stream_id) == (other.device_index, other.stream_id)

    def __hash__(self):
        return hash((self.device_index, self.stream_id))

    def __repr__(self):
        return f"<mindtorch_v2.npu.Stream device=npu:{self.device_index} id={self.stream_id}>"


class Event:
    """A point on a stream; elapsed_time() is on the device's clock."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        self._handle = None

    def record(self, stream=None) -> None:
        self._handle = _C._npu_event_record((current_stream() if stream is None else stream)._handle)

    def query(self) -> bool:
        return self._handle is None or _C._npu_event_done(self._handle)

    def synchronize(self) -> None:
        if self._handle is not None:
            _C._npu_event_synchronize(self._handle)

    def wait(self, stream=None) -> None:
        if self._handle is not None:
            (current_stream() if stream is None else stream).wait_event(self)

    def elapsed_time(self, end_event) -> float:
        if self._handle is None or end_event._handle is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return _C._npu_event_elapsed(self._handle, end_event._handle)


_chosen = threading.local()  # this thread's current Streams by device: keeps them alive


def current_stream(device=None) -> Stream:
    index = _index(device)
    if index in vars(_chosen):
        return vars(_chosen)[index]
    return Stream(index, _handle=_C._npu_stream(index, "current"))


def default_stream(device=None) -> Stream:
    index = _index(device)
    return Stream(index, _handle=_C._npu_stream(index, "default"))


def set_stream(stream) -> None:
    if stream is not None:
        _C._npu_stream_use(stream._handle)
        vars(_chosen)[stream.device_index] = stream


class stream:
    """with npu.stream(s): makes s the current stream; None: no change."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self._before = current_stream(self.stream.device_index)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *unused):
        if self.stream is not None:
            set_stream(self._before)


class device:
    """with npu.device(i): makes i the current device."""

    def __init__(self, device):
        self.index = _index(device)

    def __enter__(self):
        self._before = current_device()
        set_device(self.index)

    def __exit__(self, *unused):
        set_device(self._before)


def is_bf16_supported(including_emulation=True):
    """bfloat16 is stored, and computed in float32."""
    return True


def get_amp_supported_dtype():
    return [_C.float16, _C.bfloat16]


def __getattr__(name):
    if name == "amp":
        return importlib.import_module("mindtorch_v2.amp.spellings").cuda
    raise AttributeError(f"module 'mindtorch_v2.npu' has no attribute {name!r}")
