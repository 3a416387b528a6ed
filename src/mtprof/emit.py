"""emit_itt and emit_nvtx, with torch.autograd.profiler's API: ops as ranges of Intel VTune and NVIDIA Nsight."""

from __future__ import annotations

from typing import Any

from . import _native

__all__ = ["emit_itt", "emit_nvtx"]


class _Emit:
    _name, _tool = "", -1

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes, self.entered = enabled, record_shapes, False

    def __enter__(self) -> _Emit | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self._name} annotation context manager is not reentrant")
        self.entered = True
        try:
            _native.emit_start(self._tool, bool(self.record_shapes))
        except RuntimeError:
            raise RuntimeError("Profiler is already enabled on this thread.") from None
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> bool | None:
        if not self.enabled:
            return None
        _native.emit_stop()
        return False


class emit_itt(_Emit):
    """Context manager that makes every op emit an ITT range, for Intel VTune.

    The range's text is the op's name. VTune names its collector in INTEL_LIBITTNOTIFY64 before the program starts; without
    one, nothing is emitted. While a profile records, ops are its events and no ranges. At most one of emit_itt and emit_nvtx
    may be active at a time.

    Args:
        enabled (bool, optional): ``enabled=False`` makes this context manager a no-op. Default: ``True``.
        record_shapes (bool, optional): for emit_nvtx's sake; ITT ranges have names only, as PyTorch's do.
    """

    _name, _tool = "ITT", _native.ITT


class emit_nvtx(_Emit):
    """Context manager that makes every op emit an NVTX range, for NVIDIA Nsight Systems.

    The range's text is the op's name, its sequence number, and a number for each call: ``aten::mm, seq = 5, op_id = 7``. A
    backward node has the sequence number of its forward op, which is how the two are matched. Nsight names its collector in
    NVTX_INJECTION64_PATH before the program starts; without one, nothing is emitted. While a profile records, ops are its
    events and no ranges. At most one of emit_itt and emit_nvtx may be active at a time.

    Args:
        enabled (bool, optional): ``enabled=False`` makes this context manager a no-op. Default: ``True``.
        record_shapes (bool, optional): appends the sizes of the op's arguments, ``, sizes = [[2, 3], [], [3]]``; an
            argument that is no tensor is ``[]``. Default: ``False``.
    """

    _name, _tool = "NVTX", _native.NVTX
