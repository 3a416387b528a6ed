"""mindtorch_v2: a compact eager tensor runtime with PyTorch's API. `import mindtorch_v2 as torch`.

The work is done in C (mindtorch_v2._C, over include/mindtorch.h); this package shapes the API.
"""
import importlib as _importlib
import math as _math
import os as _os

try:
    from mindtorch_v2 import _C
except ImportError:
    import mtprof as _mtprof  # libmtprof, which _C uses, is loaded, wherever that package is
    try:
        from mindtorch_v2 import _C
    except ImportError as _error:
        from mtprof._built import missing as _missing
        raise _missing(__file__, "mindtorch_v2._C", _error) from None
from mindtorch_v2._C import (  # noqa: F401
    OutOfMemoryError, Size, Tensor, __version__, bfloat16, bool, device, double, dtype, float, float16, float32, float64, from_numpy,
    get_default_device, get_default_dtype, get_num_threads, half, initial_seed, int, int8, int16, int32, int64, is_grad_enabled, long,
    set_default_device, set_default_dtype, set_num_threads, short, tensor, uint8,
)
from mindtorch_v2 import autograd
from mindtorch_v2._functions import (  # noqa: F401
    allclose, argsort, as_tensor, asarray, broadcast_tensors, broadcast_to, einsum, equal, finfo, iinfo,
    is_floating_point, is_tensor, memory_format, moveaxis, nonzero, norm, numel, ravel, result_type, sort, std, std_mean, var, var_mean,
    where,
)
from mindtorch_v2._C import (  # noqa: F401
    autocast_decrement_nesting, autocast_increment_nesting, clear_autocast_cache, get_autocast_dtype, is_autocast_cache_enabled,
    is_autocast_enabled, set_autocast_cache_enabled, set_autocast_dtype, set_autocast_enabled,
)
from mindtorch_v2.amp.autocast_mode import OLDER as _older, autocast  # noqa: F401
from mindtorch_v2._names import is_function as _is_function
from mindtorch_v2._tensor_str import set_printoptions  # noqa: F401
from mindtorch_v2.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from mindtorch_v2.random import (  # noqa: F401
    Generator, default_generator, get_rng_state, manual_seed, seed, set_rng_state,
)
from mindtorch_v2.serialization import load, save  # noqa: F401

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
FloatTensor = Tensor
strided = "torch.strided"
contiguous_format, preserve_format, channels_last = (memory_format(_i) for _i in range(3))

globals().update(random._FUNCTIONS)
globals().update(_older)
# Every op of the table that the imports above do not wrap.
_single = {_row[0] for _row in _C._op_table()} - {_row[1] for _row in _C._op_table()}  # ids of single overloads
globals().update({_name: _op for _name, _op in vars(_C.ops).items() if _name not in _single and _is_function(_name) and _name not in globals()})

from mindtorch_v2 import _schema, _tensor  # noqa: E402,F401  (gives _C its schemas, Tensor the rest of its methods)

_LAZY = ("amp", "backends", "cpu", "nn", "npu", "optim", "profiler", "utils", "version", "xpu")
if _os.environ.get("KINETO_USE_DAEMON", ""):
    _importlib.import_module("mindtorch_v2.profiler")  # so that it counts optimizer steps


def __getattr__(name):
    if name in _LAZY:
        return _importlib.import_module(f"mindtorch_v2.{name}")
    if name == "_amp_foreach_non_finite_check_and_unscale_":
        return _importlib.import_module("mindtorch_v2.amp.grad_scaler").non_finite_check_and_unscale_
    if name == "_amp_update_scale_":
        return _importlib.import_module("mindtorch_v2.amp.grad_scaler").update_scale_
    if name == "cuda":
        return _importlib.import_module("mindtorch_v2.npu")
    raise AttributeError(f"module 'mindtorch_v2' has no attribute {name!r}")


from mindtorch_v2 import _lazy  # noqa: E402

_lazy.install(_importlib.import_module("mindtorch_v2"))
