"""How a case runs: on mindtorch_v2, or on PyTorch, which has the same interface. The only file that knows both."""
import numpy as np

from .case import DTYPES, Host

DTYPE_NAMES = {"b": "bool", "i": "int32", "l": "int64", "f": "float32", "d": "float64", "u": "uint8", "c": "int8", "s": "int16", "h": "float16",
               "y": "bfloat16"}


class Row:
    """One row of the op table."""

    def __init__(self, id, name, schema, backward, cpu, npu):
        self.id, self.name, self.schema, self.backward = id, name, schema, backward
        self.kernels = {"cpu": cpu, "npu": npu}
        base = schema[:schema.index("(")]
        self.base, _, self.overload = base.partition(".")
        self.in_place = "(a!)" in schema
        self.is_list = schema.endswith("Tensor[]")


class Peer:
    def __init__(self, module, device="cpu"):
        self.module, self.device = module, device
        self.name = module.__name__

    # ------------------------------------------------------------------------------------- tensors and arrays

    def dtype(self, letter):
        return getattr(self.module, DTYPE_NAMES[letter])

    def tensor(self, array, layout="plain"):
        """The array as a tensor whose memory is laid out as asked."""
        array = np.asarray(array)
        if layout == "plain":
            return self.from_array(array)
        size, strides, offset, room = LAYOUTS[layout](array)
        buffer = np.zeros(room, dtype=array.dtype)
        room_for = np.lib.stride_tricks.as_strided(buffer[offset:], size, [s * array.itemsize for s in strides])
        if array.size > 0:
            room_for[...] = array
        return self.call_name("as_strided", self.from_array(buffer), list(size), list(strides), offset)

    def from_array(self, array):
        t = self.module.from_numpy(np.array(array, order="C", copy=True))
        return t if self.device == "cpu" else t.to(self.device)

    def array(self, t):
        t = t.detach().to("cpu")
        return np.array((t.float() if self.letter(t) == "y" else t).numpy())  # NumPy has no bfloat16

    def letter(self, t):
        text = str(t.dtype).split(".")[-1]
        return next(letter for letter, name in DTYPE_NAMES.items() if name == text)

    def argument(self, a, layout="plain", grad=False):
        if isinstance(a, Host):
            return self.module.from_numpy(np.array(a))
        if isinstance(a, np.ndarray) or isinstance(a, np.generic):
            t = self.tensor(a, layout)
            return t.detach().requires_grad_() if grad else t
        if isinstance(a, (list, tuple)) and any(isinstance(x, np.ndarray) for x in a):
            return [x if x is None else self.argument(x, layout, grad) for x in a]
        if isinstance(a, Dtype):
            return self.dtype(a.letter)
        return self.device if a is SAME_DEVICE else a

    # ------------------------------------------------------------------------------------------------ calls

    def call(self, row, args, kwargs=None):
        """All results, as a list."""
        kwargs = {k: self.argument(v) for k, v in (kwargs or {}).items()}
        if self.device != "cpu" and "Device? device" in row.schema and "to_" not in row.id:
            kwargs["device"] = self.device
        out = self.function(row)(*args, **kwargs)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def grads(self, outs, inputs, weights, create_graph=False):
        """Of sum(outs * weights), at each input; zeros where it does not depend on one."""
        got = self.module.autograd.grad(outs, inputs, weights, create_graph=create_graph, allow_unused=True)
        return [self.module.zeros_like(x) if g is None else g for g, x in zip(got, inputs)]

    def node(self, t):
        return None if t.grad_fn is None else t.grad_fn.name()


class Mindtorch(Peer):
    def __init__(self, module, device="cpu"):
        super().__init__(module, device)
        self.rows = {row[0]: Row(*row) for row in module._C._op_table()}

    def function(self, row):
        return getattr(self.module._C.ops, row.id)

    def call_name(self, id, *args):
        return getattr(self.module._C.ops, id)(*args)


class Torch(Peer):
    def function(self, row):
        packet = getattr(self.module.ops.aten, row.base)
        # "Operand" stands for two of PyTorch's overloads: let it choose
        return packet if "Operand" in row.schema else getattr(packet, row.overload or "default")

    def call_name(self, id, *args):
        return getattr(self.module.ops.aten, id)(*args)

    def array(self, t):
        return np.array((t.float() if self.letter(t) == "y" else t).numpy(force=True))  # some of its zeros are not in memory


class Dtype:
    """A dtype as an argument of a case."""

    def __init__(self, letter):
        self.letter = letter

    def __repr__(self):
        return DTYPE_NAMES[self.letter]

    @property
    def numpy(self):
        return DTYPES[self.letter]


SAME_DEVICE = type("SameDevice", (), {})()  # as an argument of a case: the device of its tensors


# ------------------------------------------------------------------------------------------------------ layouts

def contiguous(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return strides[::-1], step


def transposed(a):
    strides, room = contiguous(a.shape[::-1])
    return a.shape, strides[::-1], 0, room


def strided(a):
    """Every second element, beginning at the third."""
    strides, room = contiguous(a.shape)
    return a.shape, [2 * s for s in strides], 2, 2 * room + 2


def gapped(a):
    """Rows contiguous, with a gap after each: what a slice of columns has."""
    if a.ndim < 2:
        return strided(a)
    strides, room = contiguous(a.shape[:-1] + (a.shape[-1] + 3,))
    return a.shape, strides, 1, room + 1


def expanded(a):
    """Stride 0 along the last dim: all of its elements are one."""
    strides, room = contiguous(a.shape)
    return a.shape, strides[:-1] + [0], 0, room


LAYOUTS = {"transposed": transposed, "strided": strided, "gapped": gapped, "expanded": expanded}


def same_along_last(a):
    """The values that an expanded tensor of a's shape can have."""
    if isinstance(a, (list, tuple)):
        return [same_along_last(x) for x in a]
    if a.ndim == 0 or a.size == 0:
        return a
    return np.ascontiguousarray(np.broadcast_to(a[..., :1], a.shape))
