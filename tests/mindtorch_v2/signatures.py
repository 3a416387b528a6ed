"""Every argument that PyTorch's functions and methods accept, tried in ours.

The overloads are those of PyTorch's own stubs (torch/_C/*.pyi). For each overload of a name that we have, calls are made of its
parameters: those it requires, by position and by keyword, and each optional one beside them. Where PyTorch accepts a call, ours must,
with results of the same shape, dtype and contents; where it differs, LEFT below says why.

    PYTHONPATH=src:tests/mindtorch_v2 python -m signatures     # prints the differences
"""
import ast
import pathlib
import warnings

import numpy as np

import mindtorch_v2

# Of all overloads: types that we do not have.
NO_TYPES = ("ellipsis", "Dimname", "_layout", "Storage", "SymInt]", "DispatchKey", "_qscheme")


class Parameter:
    def __init__(self, node, default, keyword):
        self.name = node.arg.rstrip("_") if node.arg in ("from_",) else node.arg
        self.type = ast.unparse(node.annotation) if node.annotation is not None else ""
        self.optional, self.keyword = default is not None, keyword


class Overload:
    def __init__(self, node, method):
        a = node.args
        positional = a.posonlyargs + a.args
        defaults = [None] * (len(positional) - len(a.defaults)) + a.defaults
        self.name, self.method = node.name, method
        self.spread = a.vararg
        self.parameters = [Parameter(p, d, False) for p, d in zip(positional, defaults)][method:]
        self.parameters += [Parameter(p, d, True) for p, d in zip(a.kwonlyargs, a.kw_defaults)]
        self.text = f"{'Tensor.' if method else ''}{node.name}({ast.unparse(a)})"


def overloads(torch):
    """Of functions and methods that we have."""
    folder = pathlib.Path(torch.__file__).parent / "_C"
    found = []
    for node in ast.parse((folder / "_VariableFunctions.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef) and hasattr(mindtorch_v2, node.name):
            found.append(Overload(node, False))
    for node in ast.parse((folder / "__init__.pyi").read_text()).body:
        for inner in node.body if isinstance(node, ast.ClassDef) and node.name == "TensorBase" else ():
            if isinstance(inner, ast.FunctionDef) and hasattr(mindtorch_v2.Tensor, inner.name) and not inner.decorator_list[1:]:
                found.append(Overload(inner, True))
    return [o for o in found if not o.name.startswith("_") and not any(t in o.text for t in NO_TYPES)]


# ----------------------------------------------------------------------------------------------------------- values

FLOATS = ((np.arange(9.0).reshape(3, 3) * 7 % 9 + 1) / 10).astype(np.float32)
WHOLE = (np.arange(9).reshape(3, 3) * 7 % 9 + 1).astype(np.int64)
TRUTH = WHOLE % 2 == 0


class Value:
    """A tensor, dtype ... to be, of either library."""

    def __init__(self, make, text):
        self.make, self.text = make, text

    def __repr__(self):
        return self.text


def tensor(array, text):
    return Value(lambda torch: torch.from_numpy(array.copy()), text)


F, I, B = tensor(FLOATS, "F"), tensor(WHOLE, "I"), tensor(TRUTH, "B")
ROW, INDEX = tensor(FLOATS[0], "ROW"), tensor(WHOLE % 3, "INDEX")
CUBE, VECTOR_INDEX = tensor(np.stack([FLOATS, FLOATS]), "CUBE"), tensor(np.array([0, 2]), "[0, 2]")
IMAGE = tensor(np.arange(32.0, dtype=np.float32).reshape(1, 2, 4, 4), "IMAGE")
FLAT_IMAGE = tensor(np.arange(8.0, dtype=np.float32).reshape(1, 2, 4), "FLAT_IMAGE")
ZERO = tensor(np.float32(0.5).reshape(()), "0.5")
EMPTY = Value(lambda torch: torch.empty(0), "empty")
EMPTY_WHOLE = Value(lambda torch: torch.empty(0, dtype=torch.int64), "empty int64")
EMPTY_TRUTH = Value(lambda torch: torch.empty(0, dtype=torch.bool), "empty bool")
ONE_KERNEL = tensor(np.ones((3, 2, 2, 2), np.float32), "KERNEL")
FLAT_KERNEL = tensor(np.ones((3, 2, 2), np.float32), "FLAT_KERNEL")
CHANNELS = tensor(np.ones(3, np.float32), "ONES")

# Tensors for a name's parameters, where the default, F, does not fit.
TENSORS = {
    "bmm": CUBE, "baddbmm": CUBE, "mv.vec": ROW, "dot": ROW, "outer": ROW, "ger": ROW, "inner": ROW,
    "index": INDEX, "indices": INDEX, "mask": B, "condition": B, "index_select.index": VECTOR_INDEX, "index_add_.index": tensor(np.arange(3), "ROWS"),
    "embedding.indices": INDEX, "conv2d.input": IMAGE, "conv2d.weight": ONE_KERNEL, "conv2d.bias": CHANNELS,
    "conv1d.input": FLAT_IMAGE, "conv1d.weight": FLAT_KERNEL, "conv1d.bias": CHANNELS, "convolution.input": IMAGE,
    "convolution.weight": ONE_KERNEL, "convolution.bias": CHANNELS, "max_pool2d": IMAGE, "adaptive_avg_pool1d": FLAT_IMAGE,
    "batch_norm.weight": CHANNELS, "batch_norm.bias": CHANNELS, "batch_norm.running_mean": CHANNELS, "batch_norm.running_var": CHANNELS,
    "native_batch_norm.weight": CHANNELS, "native_batch_norm.bias": CHANNELS, "native_batch_norm.running_mean": CHANNELS,
    "native_batch_norm.running_var": CHANNELS, "layer_norm.weight": CHANNELS, "layer_norm.bias": CHANNELS, "native_layer_norm.weight": CHANNELS,
    "native_layer_norm.bias": CHANNELS, "rms_norm.weight": CHANNELS, "masked_fill.value": ZERO, "masked_fill_.value": ZERO,
    "fill.value": ZERO, "fill_.value": ZERO, "bitwise_and": I, "bitwise_or": I, "bitwise_xor": I, "bitwise_not": I, "bitwise_and_": I, "bitwise_or_": I,
    "bitwise_xor_": I, "bitwise_not_": I, "__and__": I, "__or__": I, "__xor__": I, "__iand__": I, "__ior__": I, "__ixor__": I,
    "index_put.values": ZERO, "index_put_.values": ZERO, "squeeze": CUBE,
}
NUMBERS = {"dim1": 1, "k": 2, "kthvalue.k": 2, "n": 3, "m": 2, "steps": 5, "high": 9, "chunks": 2, "num_samples": 2, "length": 2, "step": 1, "end_dim": 1,
           "dim0": 0, "index": 1, "start": 0, "end": 2, "num_classes": 12, "reduction": 1, "groups": 1, "split_size": 2, "to": 5, "offset": 0, "sections": 3}
TEXTS = {"rounding_mode": "floor", "reduce": "add", "equation": "ij,jk->ik", "approximate": "tanh", "mode": "constant"}
SIZES = {"size": (3, 3), "shape": (9, 1), "dims": (1, 0), "normalized_shape": (3,), "stride": (3, 1), "split_sizes": (1, 2), "kernel_size": (2, 2), "sizes": (1, 3),
         "source": (0, 1), "destination": (1, 0), "shifts": (1,), "repeats": (1, 2), "padding": (0, 0), "dilation": (1, 1), "output_padding": (0, 0), "pad": (1, 1), "output_size": (2,),
         "dim": (0, 1)}
SIZES_OF = {"permute.dims": (1, 0), "expand.size": (2, 3, 3), "view.size": (9,), "reshape.shape": (9,), "flip.dims": (0, 1), "roll.dims": (0,), "conv1d.stride": (1,),
            "conv1d.padding": (0,), "conv1d.dilation": (1,), "resize_.size": (3, 3), "broadcast_to.size": (2, 3, 3), "empty_strided.stride": (3, 1), "permute": (1, 0), "new_empty_strided.stride": (3, 1)}


def of_type(word, name, p, op):
    key = f"{name}.{p}"
    if word == "Tensor":
        return TENSORS.get(key) or TENSORS.get(name) or TENSORS.get(p) or F
    if word in ("_int", "SymInt"):
        return NUMBERS.get(key, NUMBERS.get(p, 0 if p.startswith("dim") else 1))
    if word in ("_float", "Number", "_complex"):
        return NUMBERS.get(p, 0.5 if name not in ("bitwise_and", "bitwise_or", "bitwise_xor") and TENSORS.get(name) is not I else 1)
    if word == "_bool":
        return True
    if word in ("_size", "Sequence[_int | SymInt]", "Sequence[SymInt]", "Sequence[_int]"):
        return SIZES_OF.get(key, SIZES.get(p, (1,)))
    if word == "_dtype":
        return Value(lambda torch: torch.float64, "float64")
    if word == "str":
        return TEXTS.get(p, "none")
    if word == "Generator":
        return Value(lambda torch: torch.Generator(), "generator")
    if word in ("memory_format", "torch.memory_format"):
        return Value(lambda torch: torch.contiguous_format, "contiguous_format")
    if word == "DeviceLikeType":
        return "cpu"
    if word.startswith(("tuple[Tensor, ...]", "list[Tensor]", "Sequence[Tensor]")):
        return [F, F]
    return None


def words(kind):
    """The members of a union, brackets kept whole."""
    parts, depth, last = [], 0, ""
    for c in kind:
        depth += (c == "[") - (c == "]")
        if c == "|" and depth == 0:
            parts.append(last.strip())
            last = ""
        else:
            last += c
    return parts + [last.strip()]


def values(o, p):
    """What the parameter may be: a value of each type."""
    out = []
    for word in words(p.type):
        v = of_type(word, o.name, p.name, o)
        if v is not None and repr(v) not in map(repr, out):
            out.append(v)
    if "None" in words(p.type) and not out:
        out.append(None)
    return out


ALIASES = {"dim": "axis", "keepdim": "keepdims", "input": "x", "other": "x2"}


def calls(o):
    """(arguments, keywords) of the overload."""
    required = [p for p in o.parameters if not p.optional]
    if o.spread is not None:
        return
    base = [(p, values(o, p)) for p in required]
    if any(not v for _, v in base):
        return
    first = {p.name: v[0] for p, v in base}
    at = [p for p in required if not p.keyword]
    named = {p.name: first[p.name] for p in required if p.keyword}
    yield [first[p.name] for p in at], dict(named)
    for p, v in base:
        for other in v[1:]:
            yield [other if q is p else first[q.name] for q in at], {k: other if k == p.name else x for k, x in named.items()}
    yield [], dict(first)
    for long, short in ALIASES.items():
        if long in first:
            yield [], {short if k == long else k: v for k, v in first.items()}
    for p in o.parameters:
        for v in values(o, p) if p.optional and p.name != "out" else ():
            yield [first[q.name] for q in at], {**named, p.name: v}
            if p.name in ALIASES:
                yield [first[q.name] for q in at], {**named, ALIASES[p.name]: v}
    before = list(at)
    for p in o.parameters[len(at):]:
        if p.keyword or not values(o, p):
            break
        before.append(p)
        yield [first.get(q.name, values(o, q)[0]) for q in before], dict(named)


def real(torch, v):
    return v.make(torch) if isinstance(v, Value) else [real(torch, x) for x in v] if isinstance(v, list) else v


def run(torch, o, args, kwargs):
    """(results, exception)"""
    self = TENSORS.get(o.name, F).make(torch) if o.method else None
    target = getattr(self, o.name) if o.method else getattr(torch, o.name)
    torch.manual_seed(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = target(*[real(torch, a) for a in args], **{k: real(torch, v) for k, v in kwargs.items()})
    except Exception as error:  # noqa: BLE001
        return None, error
    return out, None


def flat(torch, out):
    if isinstance(out, torch.Tensor):
        return [out]
    return [t for x in out for t in flat(torch, x)] if isinstance(out, (list, tuple)) else [out]


RANDOM = ("rand", "bernoulli", "multinomial", "normal", "uniform_", "dropout", "empty", "new_empty", "resize")


def differs(torch, o, args, kwargs):
    theirs, refused = run(torch, o, args, kwargs)
    if refused is not None:
        return None
    ours, error = run(mindtorch_v2, o, args, kwargs)
    if error is not None:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:110]}"
    a, b = flat(mindtorch_v2, ours), flat(torch, theirs)
    if len(a) != len(b):
        return f"{len(a)} results, not {len(b)}"
    for x, y in zip(a, b):
        if not isinstance(x, mindtorch_v2.Tensor):
            continue
        if tuple(x.shape) != tuple(y.shape) or str(x.dtype) != str(y.dtype):
            return f"{tuple(x.shape)} {x.dtype}, not {tuple(y.shape)} {y.dtype}"
        if not o.name.startswith(RANDOM) and not np.allclose(x.detach().double().numpy(), y.detach().double().numpy(), 1e-4, 1e-5, equal_nan=True):
            return "other values"
    return None


# What PyTorch accepts and we do not, by the beginning of the overload's text or of what differs: why.
LEFT = {
    "add(self": "positional alpha: deprecated since PyTorch 1.5",
    "sub(self": "positional alpha: deprecated since PyTorch 1.5",
    "addcdiv(self": "positional value: deprecated since PyTorch 1.5",
    "addcmul(self": "positional value: deprecated since PyTorch 1.5",
    "addmm(beta": "positional beta, alpha: deprecated since PyTorch 1.5",
    "baddbmm(beta": "positional beta, alpha: deprecated since PyTorch 1.5",
    "subtract(input: Tensor, other: Number": "alpha by position, of this alias only and beside a number only",
    "Tensor.subtract(self, other: Number": "alpha by position, of this alias only and beside a number only",
    "Tensor.subtract_(self, other: Number": "alpha by position, of this alias only and beside a number only",
    "binary_cross_entropy_with_logits(": "PyTorch reads its default, Mean, as 0; ours is the mean, as documented",
    "kl_div(": "PyTorch reads its default, Mean, as 0; ours is the mean, as documented",
}


def reason(text):
    return next((why for begins, why in LEFT.items() if text.startswith(begins)), None)


def differences(torch):
    """[(overload, arguments, what)], and how many calls PyTorch accepted"""
    found, tried = [], 0
    for o in overloads(torch):
        for args, kwargs in calls(o):
            if run(torch, o, args, kwargs)[1] is None:
                tried += 1
                what = differs(torch, o, args, kwargs)
                if what is not None:
                    found.append((o.text, f"{args} {kwargs}", what))
    return found, tried


if __name__ == "__main__":
    import torch as _torch

    _found, _tried = differences(_torch)
    for _row in _found:
        print(" | ".join(_row), "| left:", reason(_row[0]))
    print(len(_found), "of", _tried, "calls differ,", sum(reason(_row[0]) is None for _row in _found), "without a reason")
