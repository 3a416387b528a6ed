"""Methods of Tensor that only adapt the API."""
import builtins

from mindtorch_v2 import _C, _functions, autograd
from mindtorch_v2._functions import numpy_names, spread
from mindtorch_v2._names import is_method
from mindtorch_v2._tensor_str import tensor_str

Tensor = _C.Tensor
ops = _C.ops
_TYPES = {f"torch.{d._scalar_type}Tensor": d for d in vars(_C).values() if isinstance(d, _C.dtype)}


class _Handle:
    """Removes a hook."""

    def __init__(self, tensor, added):
        self._tensor = tensor
        self.id, self._hook = added

    def remove(self):
        if self._tensor is not None:
            if not _C._hook_remove(self._tensor, self.id):
                self._hook[0] = None  # it stayed with the value before a change in place
            self._tensor = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def _method(function, name=None):
    """Makes the function a method of Tensor, unless the C type already has one."""
    setattr(Tensor, name or function.__name__, function)
    return function


@_method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulates gradients into the leaves that this tensor was computed from."""
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@_method
def register_hook(self, hook):
    """hook(grad) is called when the gradient is known, and may return a replacement. The handle's remove() removes it."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return _Handle(self, _C._hook_add(self, hook))


@_method
def register_post_accumulate_grad_hook(self, hook):
    """hook(tensor) is called after the gradient was accumulated into .grad."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return _Handle(self, _C._post_hook_add(self, hook))


@_method
def __repr__(self):
    return tensor_str(self)


@_method
def __format__(self, spec):
    if self.dim() == 0 and builtins.type(self) is _C.Tensor:
        return format(self.item(), spec)
    return object.__format__(self, spec)


@_method
def type(self, dtype=None, non_blocking=False):
    """The name of its type, or the tensor converted to another type."""
    if dtype is None:
        name = next(n for n, d in _TYPES.items() if d == self.dtype)
        return name if self.device.type == "cpu" else name.replace("torch.", "torch.npu.")
    return self.to(_TYPES[dtype] if isinstance(dtype, str) else dtype, non_blocking)


@_method
def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


# NumPy's numbers and arrays leave operators to the tensor: theirs would make an array, without a history.
Tensor.__array_priority__ = 1000


@_method
def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions make of tensors are tensors, if they have such dtypes."""
    try:
        return _C.from_numpy(array)
    except TypeError:
        return array


@_method
def __copy__(self):
    made = self.detach()
    return made.requires_grad_(self.requires_grad) if self.is_leaf and self.requires_grad else made


@_method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
                           "the moment.")
    if id(self) not in memo:
        kind = self.__class__
        memory = self.detach()._storage_view()
        key = (Tensor, memory.device, memory.data_ptr()) if memory.numel() else id(self)
        if key not in memo:  # tensors that share memory share it after the copy
            memo[key] = memory.clone()
        made = memory.new_empty(0)._set(memo[key].as_strided(self.shape, self.stride(), self.storage_offset()))
        if kind is not Tensor:
            made = Tensor._make_subclass(kind, made, self.requires_grad)
        elif self.requires_grad:
            made.requires_grad_()
        memo[id(self)] = made
        if self.grad is not None:
            made.grad = self.grad.__deepcopy__(memo)
        made.__dict__.update(self.__dict__)
    return memo[id(self)]


def _rebuild(kind, data, shape, dtype, device, requires_grad):
    made = _C._from_bytes(data, shape, dtype).to(device)
    if kind is not Tensor:
        return Tensor._make_subclass(kind, made, requires_grad)
    return made.requires_grad_() if requires_grad else made


@_method
def __reduce_ex__(self, protocol):
    if not self.is_leaf:
        raise RuntimeError("only leaf tensors can be pickled: use detach()")
    t = self.detach().cpu().contiguous()
    data = bytes(memoryview(t._as(_C.int16) if self.dtype == _C.bfloat16 else t).cast("B")) if self.numel() else b""
    state = (self.__class__, data, tuple(self.shape), self.dtype, self.device, self.requires_grad)
    return (_rebuild, state, self.__dict__) if self.__dict__ else (_rebuild, state)


@_method
def record_stream(self, stream):
    """Marks its memory as also used on that npu.Stream: once freed, it is not reused before the work queued there is done."""
    if self.device.type != "cpu":
        _C._npu_record_stream(self, stream._handle)


@_method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    return _C.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def _size(size):
    """From new_ones(2, 3) or new_ones((2, 3))."""
    return list(size) if len(size) != 1 or hasattr(size[0], "__index__") else list(size[0])


@_method
def new_empty(self, *shape, size=None, dtype=None, device=None, requires_grad=False):
    return ops.empty(_size(shape or (size,)), dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


@_method
def new_ones(self, *shape, size=None, dtype=None, device=None, requires_grad=False):
    return ops.ones(_size(shape or (size,)), dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


@_method
def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False):
    return ops.full(list(size), fill_value, dtype=dtype or self.dtype, device=device or self.device,
                    requires_grad=requires_grad)


@_method
@numpy_names
def var(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return spread(ops.var, self, dim, unbiased, keepdim, correction)


@_method
@numpy_names
def std(self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return spread(ops.std, self, dim, unbiased, keepdim, correction)


@_method
@numpy_names
def reshape_as(self, other):
    return self.reshape(other.shape)


@_method
def unflatten(self, dim, sizes):
    if len(sizes) == 0:
        raise RuntimeError("unflatten: sizes must be non-empty")
    self.size(dim)  # raises if there is no such dim
    at = dim % self.dim()
    return self.reshape(*self.shape[:at], *sizes, *self.shape[at + 1 :])


@_method
def split(self, split_size, dim=0):
    """Splits into chunks of one size, or of a list of sizes."""
    return ops.split(self, split_size, dim)


@_method
def nonzero(self, *, as_tuple=False):
    return _functions.nonzero(self, as_tuple=as_tuple)


@_method
@numpy_names
def sort(self, dim=-1, descending=False, *, stable=True):
    return ops.sort(self, dim, descending)


@_method
@numpy_names
def argsort(self, dim=-1, descending=False, *, stable=True):
    return ops.argsort(self, dim, descending)


@_method
def is_complex(self):
    return False


@_method
def is_signed(self):
    return self.dtype != _C.bool


@_method
def is_pinned(self, device=None):
    return False


@_method
def get_device(self):
    return -1 if self.device.type == "cpu" else self.device.index


@_method
@numpy_names
def equal(self, other):
    """Same shape and the same elements?"""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' must be Tensor, not {builtins.type(other).__name__}")
    return self.shape == other.shape and bool((self == other).all())


@_method
@numpy_names
def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(self.isclose(other, rtol, atol, equal_nan).all())


@_method
@numpy_names
def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm of all elements, or along dims."""
    return _functions.norm(self, p, dim, keepdim, dtype=dtype)


@_method
def ravel(self):
    return self.reshape(-1)


@_method
def __reversed__(self):
    """All dims in reverse order of elements, as PyTorch has it."""
    return self if self.dim() == 0 else self.flip(tuple(range(self.dim())))


_method(Tensor.movedim, "moveaxis")
for _name in vars(ops):
    if not _name.startswith("_") and not is_method(_name) and _name in vars(Tensor):
        delattr(Tensor, _name)

Tensor.is_sparse = False
Tensor.is_meta = False
Tensor.is_quantized = False
Tensor.layout = "torch.strided"
Tensor.__module__ = "mindtorch_v2"


# -------------------------------------------------------------------------------------------------------- storage


class TypedStorage:
    """The memory of a tensor, which it may share with others: data_ptr(), nbytes(), len() in elements."""

    def __init__(self, tensor):
        self._all = tensor._storage_view()

    def data_ptr(self):
        return self._all.data_ptr()

    def size(self):
        return self._all.numel()

    __len__ = size

    def element_size(self):
        return self._all.element_size()

    def nbytes(self):
        return self.size() * self.element_size()

    @property
    def dtype(self):
        return self._all.dtype

    @property
    def device(self):
        return self._all.device

    def untyped(self):
        return self

    _untyped = untyped

    def tolist(self):
        return self._all.tolist()

    def __getitem__(self, index):
        return self._all[index].item()

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self):
        return hash(self.data_ptr())

    def __repr__(self):
        return f"TypedStorage({self.size()} of {self.dtype} at {self.data_ptr():#x})"


@_method
def storage(self):
    """The tensor's memory."""
    return TypedStorage(self)


_method(storage, "untyped_storage")


@_method
def resize_(self, *sizes):
    """Changes the size, allocating memory if needed. Elements keep their order; new ones are not initialised."""
    return self._resize(_size(sizes))


@_method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Uses the memory of a storage or a tensor, with its shape unless one is given; without a source: empty."""
    source = source._all if isinstance(source, TypedStorage) else source
    if size is not None:
        flat = source._storage_view()
        source = flat.as_strided(tuple(size), tuple(stride or _strides_of(size)), storage_offset)
    return self._set(source)


def _strides_of(size):
    out = []
    for n in reversed(tuple(size)):
        out.insert(0, out[0] * last if out else 1)
        last = max(n, 1)
    return out
