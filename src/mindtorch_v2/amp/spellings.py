"""torch.cuda.amp and torch.cpu.amp: torch.amp for one type of device, under names that PyTorch deprecates."""
import functools
import types
import warnings

from mindtorch_v2 import _C, amp


def _warn(module, name, now):
    warnings.warn(f"`torch.{module}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{now}` instead.", FutureWarning, stacklevel=3)


def _of(device, dtype):
    class autocast(amp.autocast):
        def __init__(self, enabled=True, dtype=dtype, cache_enabled=True):
            _warn(device, "autocast", f"autocast('{device}', args...)")
            super().__init__(device, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    class GradScaler(amp.GradScaler):
        def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
            _warn(device, "GradScaler", f"GradScaler('{device}', args...)")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    module = types.ModuleType(f"mindtorch_v2.{device}.amp", f"torch.amp for {device}")
    module.autocast, module.GradScaler = autocast, GradScaler
    return module


def _custom_fwd(fwd=None, *, cast_inputs=None):
    _warn("cuda", "custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)(fwd)


def _custom_bwd(bwd):
    _warn("cuda", "custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_bwd, device_type="cuda")(bwd)


cpu, cuda = _of("cpu", _C.bfloat16), _of("cuda", _C.float16)
cuda.custom_fwd, cuda.custom_bwd = _custom_fwd, _custom_bwd
cuda.amp_definitely_not_available = lambda: _C._npu_count() == 0
