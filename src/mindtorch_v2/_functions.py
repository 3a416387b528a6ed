"""Functions of the package that need more than one op of the table."""
import builtins
import collections
import functools
import inspect

from mindtorch_v2 import _C

Tensor = _C.Tensor
ops = _C.ops


# ------------------------------------------------------------------------------------------------ questions


class memory_format(builtins.int):
    """How the dims of a tensor lie in memory."""

    def __repr__(self):
        return "torch." + ("contiguous_format", "preserve_format", "channels_last")[self]


def _check_tensors(name, *values):
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): expected Tensor, but got {value.__class__.__name__}")


_NUMPY = {"x": "input", "x1": "input", "a": "input", "x2": "other", "axis": "dim", "keepdims": "keepdim", "self": "input"}


def numpy_names(function):
    """Accepts the names that PyTorch takes from NumPy: axis for dim, keepdims, x, x2 ..."""
    names = {said: meant for said, meant in _NUMPY.items() if meant in inspect.signature(function).parameters}

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not names.keys().isdisjoint(kwargs):
            kwargs = {names.get(k, k): v for k, v in kwargs.items()}
        return function(*args, **kwargs)

    return call


def is_tensor(value):
    return isinstance(value, Tensor)


@numpy_names
def is_floating_point(input):
    return input.is_floating_point()


@numpy_names
def numel(input):
    _check_tensors("numel", input)
    return input.numel()


@numpy_names
def equal(input, other):
    """Same shape and the same elements?"""
    _check_tensors("equal", input, other)
    return input.equal(other)


@numpy_names
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return input.allclose(other, rtol, atol, equal_nan)


def result_type(*args, **kwargs):
    """The dtype that an op on both, tensors or numbers, would return."""
    pair = [*args, *kwargs.values()]
    if len(pair) != 2 or not kwargs.keys() <= {"tensor", "other", "x2", "scalar", "tensor1", "tensor2", "scalar1", "scalar2"}:
        raise TypeError("result_type() takes two tensors or numbers")
    a, b = pair
    empty = [x.new_empty(0) if isinstance(x, Tensor) and x.dim() > 0 else x for x in (a, b)]
    left, right = empty if isinstance(empty[0], Tensor) else reversed(empty)
    return ops.mul(left if isinstance(left, Tensor) else _C.tensor(left), right).dtype


class _Limits(collections.namedtuple("finfo", "bits eps max min smallest_normal tiny resolution dtype")):
    __slots__ = ()

    def __repr__(self):
        return "finfo(" + ", ".join(f"{name}={getattr(self, name):g}" for name in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")) + f", dtype={self.dtype})"


_FLOATS = {
    _C.float32: _Limits(32, 2.0**-23, 3.4028234663852886e38, -3.4028234663852886e38, 2.0**-126, 2.0**-126, 1e-6, "float32"),
    _C.float64: _Limits(64, 2.0**-52, 1.7976931348623157e308, -1.7976931348623157e308, 2.0**-1022, 2.0**-1022, 1e-15,
                        "float64"),
    _C.float16: _Limits(16, 2.0**-10, 65504.0, -65504.0, 2.0**-14, 2.0**-14, 1e-3, "float16"),
    _C.bfloat16: _Limits(16, 2.0**-7, 3.3895313892515355e38, -3.3895313892515355e38, 2.0**-126, 2.0**-126, 1e-2, "bfloat16"),
}


def finfo(type=None):
    """The limits of a floating dtype."""
    dtype = _C.get_default_dtype() if type is None else type
    if dtype not in _FLOATS:
        raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{dtype}'")
    return _FLOATS[dtype]


class _Whole(collections.namedtuple("iinfo", "bits max min dtype")):
    __slots__ = ()

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"



def iinfo(type):
    """The limits of an integer dtype."""
    bits = type.itemsize * 8
    if type.is_floating_point or type == _C.bool:
        raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
    if not type.is_signed:
        return _Whole(bits, 2**bits - 1, 0, f"uint{bits}")
    return _Whole(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), f"int{bits}")


# ------------------------------------------------------------------------------------------------- creation


def as_tensor(data, dtype=None, device=None):
    """data as a tensor, sharing its memory where possible."""
    if not isinstance(data, Tensor):
        try:
            data = _C.from_numpy(data)
        except (TypeError, ValueError):
            return _C.tensor(data, dtype=dtype, device=device)
    return data if dtype is None and device is None else data.to(device=device or data.device, dtype=dtype)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """obj as a tensor: of a tensor, array or buffer on its memory where possible. Bytes are the memory of elements."""
    if isinstance(obj, (bytes, bytearray)):
        form = (dtype or _C.get_default_dtype())._format
        obj = memoryview(obj).cast(form) if form not in ("", "e") else _C._from_bytes(obj, (len(obj) // dtype.itemsize,), dtype)
    made = _C.tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    return made.requires_grad_() if requires_grad else made


# --------------------------------------------------------------------------------------------------- shapes


@numpy_names
def where(condition, input=None, other=None, *, out=None):
    """Elements of input where the condition holds, of other elsewhere; with the condition only: the indices where it holds."""
    if input is None and other is None:
        return tuple(ops.nonzero(condition).unbind(1))
    return ops.where(condition, input, other, out=out)


@numpy_names
def nonzero(input, *, out=None, as_tuple=False):
    """The indices of elements that are not zero: a row for each, or a tensor per dim."""
    if as_tuple:
        input = input if input.dim() > 0 else input.unsqueeze(0)
        return tuple(ops.nonzero(input).unbind(1))
    return ops.nonzero(input, out=out)


@numpy_names
def sort(input, dim=-1, descending=False, *, stable=True, out=None):
    """Values in order and their indices. Equal elements keep their order, whatever `stable` says."""
    return ops.sort(input, dim, descending, out=out)


@numpy_names
def argsort(input, dim=-1, descending=False, *, stable=True, out=None):
    """The indices that sort it; see sort()."""
    if out is not None:
        return ops.sort(input, dim, descending, out=(input.new_empty(0), out))[1]
    return ops.argsort(input, dim, descending)


@numpy_names
def broadcast_to(input, size):
    return input.expand(size)


def broadcast_tensors(*tensors):
    _check_tensors("broadcast_tensors", *tensors)
    shape = []
    for t in tensors:
        for i in range(1, t.dim() + 1):
            if i > len(shape):
                shape.insert(0, 1)
            if t.shape[-i] != 1:
                if shape[-i] not in (1, t.shape[-i]):
                    raise RuntimeError(f"The size of tensor a ({shape[-i]}) must match the size of tensor b ({t.shape[-i]}) "
                                       f"at non-singleton dimension {len(shape) - i}")
                shape[-i] = t.shape[-i]
    return tuple(t.expand(shape) for t in tensors)


@numpy_names
def moveaxis(input, source, destination):
    return input.movedim(source, destination)


@numpy_names
def ravel(input):
    return input.reshape(-1)


def spread(op, input, dim, unbiased, keepdim, correction, out=None):
    """var and std: also with PyTorch's older argument, unbiased."""
    if isinstance(dim, builtins.bool):
        dim, unbiased = None, dim
    if correction is None and unbiased is not None:
        correction = 1 if unbiased else 0
    return op(input, dim, correction=correction, keepdim=keepdim, out=out)


@numpy_names
def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    return spread(ops.var, input, dim, unbiased, keepdim, correction, out)


@numpy_names
def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    return spread(ops.std, input, dim, unbiased, keepdim, correction, out)


def _mean(input, dim, keepdim):
    return ops.mean(input, None if isinstance(dim, builtins.bool) else dim, keepdim)


@numpy_names
def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return input.var(dim, unbiased, keepdim, correction=correction), _mean(input, dim, keepdim)


@numpy_names
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return input.std(dim, unbiased, keepdim, correction=correction), _mean(input, dim, keepdim)


@numpy_names
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The p-norm of all elements, or along dims."""
    if isinstance(p, str):
        if p != "fro":
            raise NotImplementedError(f"norm(): p={p!r} is not supported: of names, only 'fro' is")
        if isinstance(dim, (list, tuple)) and len(dim) > 2:
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
        p = 2
    return ops.linalg_vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype, out=out)


def einsum(equation, *operands):
    """Sums of products, with a letter for each dim: einsum("bij,bjk->bik", x, y)."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and "
                         "its subscripts list")
    return ops.einsum(equation, operands)
