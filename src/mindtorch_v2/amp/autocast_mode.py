"""Regions in which ops choose their dtypes: the casts are made by the dispatcher (src/runtime/autocast.c)."""
import collections.abc
import functools
import sys
import warnings

from mindtorch_v2 import _C

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_ACCELERATOR = ("cuda", "npu")
_DTYPES = (_C.bfloat16, _C.float16)


def is_autocast_available(device_type):
    """Can autocast be used on devices of that type?"""
    _C.is_autocast_enabled(device_type)  # refuses what is no type
    return True


def _check_type(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def autocast_decorator(autocast_instance, func):
    @functools.wraps(func)
    def decorate_autocast(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


class autocast:
    """A region, or with a function, a decorator: inside, matrix products and convolutions on that type of device compute in
    `dtype`, and ops that need float32 in float32. Without a dtype: bfloat16 on the CPU, float16 on the accelerator."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        _check_type(device_type)
        self.fast_dtype = _C.get_autocast_dtype(device_type) if dtype is None else dtype
        self.device = device_type
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and device_type in _ACCELERATOR and not _C._npu_count():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in _DTYPES:
            name = device_type.upper()
            warnings.warn(f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} Autocast only "
                          f"supports dtypes of {', '.join(map(str, _DTYPES))} currently.", stacklevel=2)
            enabled = False
        self._enabled = enabled

    def __enter__(self):
        self.prev_cache_enabled = _C.is_autocast_cache_enabled()
        self.prev = _C.is_autocast_enabled(self.device)
        self.prev_fastdtype = _C.get_autocast_dtype(self.device)
        _C.set_autocast_enabled(self.device, self._enabled)
        _C.set_autocast_dtype(self.device, self.fast_dtype)
        _C.autocast_increment_nesting()
        _C.set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, kind, value, trace):
        if _C.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
        _C.set_autocast_enabled(self.device, self.prev)
        _C.set_autocast_dtype(self.device, self.prev_fastdtype)
        _C.set_autocast_cache_enabled(self.prev_cache_enabled)
        return False

    def __call__(self, func):
        if not callable(func):
            raise TypeError(f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as a "
                            "context manager? For example:\n    with torch.autocast(device_type=...):\n        output = model(input)")
        return autocast_decorator(self, func)


# ----------------------------------------------------------------------------------- custom autograd functions

def _cast(value, device_type, dtype):
    """The tensors in value, in containers too, as dtype."""
    if isinstance(value, _C.Tensor):
        here = value.device.type == device_type or {value.device.type, device_type} == set(_ACCELERATOR)
        return value.to(dtype) if here and value.is_floating_point() and value.dtype != _C.float64 else value
    numpy = sys.modules.get("numpy")
    if isinstance(value, (str, bytes)) or (numpy is not None and isinstance(value, numpy.ndarray)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, collections.abc.Iterable):
        items = (_cast(v, device_type, dtype) for v in value)
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For forward() of an autograd.Function: with cast_inputs, casts tensors to it and runs without autocast, if it is on."""
    _check_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        on = _C.is_autocast_enabled(device_type)
        args[0]._dtype = _C.get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd=None, *, device_type):
    """For backward() of an autograd.Function: runs it in the region's state of forward(), which has custom_fwd."""
    _check_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd


# ---------------------------------------------------------------------------------------- older functions of torch

def _older(name, now, function):
    def older(*args):
        warnings.warn(f"torch.{name} is deprecated. Please use torch.{now} instead.", DeprecationWarning, stacklevel=2)
        return function(*args)

    older.__name__ = older.__qualname__ = name.partition("(")[0]
    return older


OLDER = {f.__name__: f for f in (
    _older("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')", lambda: _C.is_autocast_enabled("cpu")),
    _older("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)", lambda on: _C.set_autocast_enabled("cpu", on)),
    _older("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')", lambda: _C.get_autocast_dtype("cpu")),
    _older("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)", lambda dtype: _C.set_autocast_dtype("cpu", dtype)),
    _older("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')", lambda: _C.get_autocast_dtype("cuda")),
    _older("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)", lambda dtype: _C.set_autocast_dtype("cuda", dtype)),
)}
