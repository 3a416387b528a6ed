"""PyTorch, as the profiler sees it."""

from __future__ import annotations

import ctypes
import warnings
from collections import deque
from collections.abc import Callable
from functools import cached_property
from itertools import count
from types import CodeType, ModuleType
from typing import Any

import torch

import mtprof
from mtprof.profiler.framework import Framework
from mtprof.pytorch import collector


class _PyTorch(Framework):
    """Its ops are reported by the collector, which is compiled for it; see collector.py."""

    name = "PyTorch"
    accelerator = "cuda"
    tags_memory = False

    def __init__(self) -> None:
        super().__init__()
        self._attached: collector.Attached | None = None
        self._was_enabled = False
        self._fast: Any = None
        self._is_quiet = self._said_no_kernels = False

    @property
    def package(self) -> ModuleType:
        return torch

    def has_accelerator(self) -> bool:
        return torch.cuda.is_available()

    def warm_up(self) -> None:
        """Compiles the collector, the first time that it is used with this PyTorch."""
        if self._attached is None:
            try:
                collector.load()
            except (collector.Unavailable, OSError):
                pass  # attach() says why, and what is recorded instead

    @cached_property
    def module_call(self) -> CodeType:
        return torch.nn.Module.__call__.__code__

    @cached_property
    def optimizer_call(self) -> CodeType:
        return torch.optim.Optimizer._optimizer_step_code.__code__

    @cached_property
    def tensor_reader(self) -> Any:
        return _capsule()

    def attach(self, options: dict[str, Any]) -> None:
        shapes = bool(options.get("record_shapes") or options.get("with_flops"))
        self._was_enabled = torch.autograd.profiler._is_profiler_enabled
        torch.autograd.profiler._set_is_profiler_enabled(True)  # what PyTorch records only for profilers
        # PyTorch's own does nothing without torch.profiler; its libraries look the class up at each use.
        self._fast, torch._C._profiler._RecordFunctionFast = torch._C._profiler._RecordFunctionFast, mtprof.RecordFunctionFast
        self._attached = collector.attach(shapes, bool(options.get("profile_memory")), quiet=self._is_quiet)
        self._is_quiet = True  # said once
        if options["activities"] & mtprof.NPU and self.has_accelerator() and not self._said_no_kernels:
            self._said_no_kernels = True
            warnings.warn("mtprof.pytorch records the ops that launch work on CUDA devices, and their memory, but not the kernels and "
                          "copies themselves: torch.profiler does", stacklevel=2)

    def detach(self) -> None:
        if self._fast is not None:
            torch._C._profiler._RecordFunctionFast = self._fast
        torch.autograd.profiler._set_is_profiler_enabled(self._was_enabled)
        if self._attached is not None:
            self._attached.detach()
        self._attached = self._fast = None  # last: after an interrupt it is called again

    def register_optimizer_step_post_hook(self, hook: Callable[[Any, tuple, dict[str, Any]], None]) -> Any:
        return torch.optim.optimizer.register_optimizer_step_post_hook(hook)

    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = {"pytorch_version": torch.__version__}
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            found["distributedInfo"] = {
                "backend": torch.distributed.get_backend(), "rank": torch.distributed.get_rank(),
                "world_size": torch.distributed.get_world_size(), "pg_count": torch.distributed.get_pg_count(),
                "pg_config": torch.distributed.distributed_c10d._get_all_pg_configs()}
        return found

    def graph_metadata(self) -> dict[str, dict]:
        from torch.fx.traceback import _FX_METADATA_REGISTRY

        return _FX_METADATA_REGISTRY


# ------------------------------------------------------------------------- the tensors of modules and optimizers


class _Identity(ctypes.Structure):  # mtp_identity
    _fields_ = [("tensor", ctypes.c_uint64), ("storage", ctypes.c_uint64), ("device", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class _Input(ctypes.Structure):  # mtp_input
    _fields_ = [("kind", ctypes.c_uint8), ("dtype", ctypes.c_uint8), ("reserved", ctypes.c_uint16), ("count", ctypes.c_uint32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("identity", ctypes.POINTER(_Identity))]


_TENSOR = 1  # MTP_INPUT_TENSOR
_DTYPES = {name: number for number, name in enumerate(  # MTP_DTYPE_LIST
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 uint16 uint32 uint64 complex32 "
    "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz qint8 quint8 qint32 "
    "float8_e8m0fnu float4_e2m1fn_x2".split(), 1)}
_READER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Input), ctypes.POINTER(_Identity))
_tensors = count(1 << 47)  # a number for each that was read, as in src/collect/torch/inputs.h
_numbers: deque[Any] = deque(maxlen=256)  # sizes and strides that libmtprof is about to copy


def _array(numbers: Any) -> Any:
    made = (ctypes.c_int64 * len(numbers))(*numbers)
    _numbers.append(made)
    return ctypes.cast(made, ctypes.POINTER(ctypes.c_int64))


@_READER
def _read(tensor: Any, into: Any, identity: Any) -> int:
    """An mtp_input of the tensor; 0: it is none, or one without sizes or memory."""
    try:
        if not isinstance(tensor, torch.Tensor):
            return 0
        device, index = tensor.device.type, tensor.device.index or 0
        if tensor.layout is not torch.strided or device == "meta":
            return 0
        at = tensor.untyped_storage().data_ptr()
        sizes, strides = tuple(tensor.shape), tensor.stride()
        identity[0] = _Identity(next(_tensors), at & (1 << 56) - 1, 0 if device == "cpu" else 1 << 8 | index & 255, 0)
        into[0] = _Input(_TENSOR, _DTYPES.get(str(tensor.dtype).rpartition(".")[2], 0), 0, len(sizes), _array(sizes), _array(strides),
                         identity)
        return 1
    except Exception:  # a tensor class that does not answer
        return 0


def _capsule() -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.cast(_read, ctypes.c_void_p), b"mtprof.tensor_reader", None)


FRAMEWORK = _PyTorch()
