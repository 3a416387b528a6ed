"""Differential testing against PyTorch: random calls of every op, the same in both, and whatever differs.

A case is made from a seed: an op of the table, arguments by its schema (random shapes, dtypes, layouts; now and then nonsense),
then its results, their dtypes, strides and versions, the class of an exception, the first and the second gradients are compared.
Nothing here knows what is right: PyTorch says it. test_differential.py runs a share with fixed seeds; tests/stress/differential
any number.
"""
import random
import re
import warnings

import numpy as np

import mindtorch_v2
from differential_known import CALLS

DTYPES = ("float32", "float64", "int64", "int32", "bool", "float16", "bfloat16", "uint8", "int8", "int16")
CHANCES = (10, 4, 3, 1, 2, 2, 2, 1, 1, 1)
HALVES = ("float16", "bfloat16")
REALS = ("float32", "float32", "float64", "float64", "float16", "bfloat16")
DIMS = (1, 2, 3, 5)
# Ops by chance, without defined contents, or that need operands which belong together (tests/mindtorch_v2/ops has those).
UNRELATED = re.compile(r"^(rand|bernoulli|multinomial|empty|new_empty|dropout|native_dropout|normal_|uniform_|random_|_fused|record_stream"
                       r"|_batch_norm_impl|_softmax|_log_softmax|.*_backward|_index_put_impl_|_reshape_alias|to_device)")
# Exceptions of PyTorch for which any of ours will do: internal checks whose class says nothing.
LOOSE = {"RuntimeError", "IndexError", "ValueError", "TypeError", "NotImplementedError"}


class Unfit(Exception):
    """No such call in PyTorch: the case is left out."""


class Parameter:
    def __init__(self, text):
        text, _, default = text.strip().partition("=")
        self.type, self.name = text.rsplit(" ", 1)
        self.type = re.sub(r"\([a-z]!?\)", "", self.type)
        self.optional, self.default = bool(default) or self.type.endswith("?"), bool(default)
        self.keyword = False


class Op:
    def __init__(self, row):
        self.id, self.name, self.schema = row[0], row[1], row[2]
        self.overload = re.match(r"\w+(?:\.(\w+))?\(", self.schema)[1] or "default"
        self.in_place = self.name.endswith("_") and not self.name.startswith("_")
        inside = self.schema[self.schema.index("(") + 1:self.schema.rindex(") ->")]
        self.parameters, keyword = [], False
        for text in re.split(r", (?![^\[]*\])", inside):
            if text.strip() == "*":
                keyword = True
            elif text.strip():
                self.parameters.append(Parameter(text))
                self.parameters[-1].keyword = keyword

    def ours(self):
        return getattr(mindtorch_v2._C.ops, self.id)

    def theirs(self, torch):
        """All overloads: PyTorch chooses by the arguments."""
        packet = getattr(torch.ops.aten, self.name, None)
        if packet is None:
            raise Unfit(self.name)
        return packet


OPS = [Op(row) for row in mindtorch_v2._C._op_table() if not UNRELATED.match(row[0])]


def rounded(values, dtype):
    """values as a NumPy array that holds what the dtype holds."""
    if dtype != "bfloat16":
        return np.asarray(values, dtype)
    bits = np.asarray(values, np.float32).view(np.uint32)
    up = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.asarray(np.where(np.isnan(values), np.float32("nan"), up.view(np.float32)), np.float32)


class Array:
    """A tensor to be: the memory, how the tensor lies in it, and whether autograd tracks it."""

    def __init__(self, memory, view, tracked, dtype=None):
        self.memory, self.view, self.tracked = memory, view, tracked
        self.dtype = dtype or str(memory.dtype)  # bfloat16 is float32 in memory, rounded: NumPy has no such dtype

    def on(self, torch, leaves):
        t = torch.from_numpy(self.memory.copy()).to(getattr(torch, self.dtype))
        if self.tracked:
            t.requires_grad_()
            leaves.append(t)
        shape, strides, offset = self.view
        return t if shape is None else t.as_strided(shape, strides, offset)

    def __repr__(self):
        return f"{self.dtype}{list(self.memory.shape)}{'' if self.view[0] is None else ' as ' + str(self.view)}{' tracked' if self.tracked else ''}"


class Made:
    """The arguments of one case."""

    def __init__(self, seed, op=None):
        self.seed, self.random = seed, random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.op = op or self.random.choice(OPS)
        self.track = self.random.random() < 0.7
        self.dtype = self.random.choices(DTYPES, CHANCES)[0]
        rank = self.random.choices(range(5), (1, 3, 5, 3, 2))[0]
        self.shape = tuple(0 if self.random.random() < 0.02 else self.random.choice(DIMS) for _ in range(rank))
        self.args, self.kwargs = FITTED.get(self.op.id, Made.by_schema)(self)

    # -------------------------------------------------------------------------------------------------- values

    def data(self, shape, dtype):
        if dtype == "bool":
            return np.asarray(self.numbers.random(shape) < 0.5)
        if dtype.startswith(("int", "uint")):
            return np.asarray(self.numbers.integers(0 if dtype.startswith("u") else -4, 7, shape), dtype)
        values = np.asarray(self.numbers.normal(size=shape)) * self.random.choice((0.5, 1, 3))
        values = np.array(values)
        if self.random.random() < 0.05 and values.size:
            values.flat[self.random.randrange(values.size)] = self.random.choice((np.inf, -np.inf, np.nan, 0.0, 1e30, -1e30))
        with np.errstate(over="ignore"):
            return rounded(values, dtype)

    def tensor(self, shape=None, dtype=None, tracked=None):
        shape, dtype = self.shape if shape is None else tuple(shape), dtype or self.dtype
        tracked = self.track and "float" in dtype and self.random.random() < 0.8 if tracked is None else tracked
        lie = self.random.random()
        if lie < 0.6 or not shape or 0 in shape:
            return Array(self.data(shape, dtype), (None, None, 0), tracked, dtype)
        if lie < 0.8 and len(shape) > 1:            # another order of the dims
            order = list(range(len(shape)))
            self.random.shuffle(order)
            strides, step = [0] * len(shape), 1
            for d in reversed(order):
                strides[d], step = step, step * shape[d]
            return Array(self.data((step,), dtype), (shape, tuple(strides), 0), tracked, dtype)
        if lie < 0.92:                              # every second element, and an offset
            strides, step = [0] * len(shape), 2
            for d in reversed(range(len(shape))):
                strides[d], step = step, step * shape[d]
            return Array(self.data((step + 3,), dtype), (shape, tuple(strides), 3), tracked, dtype)
        strides, step = [0] * len(shape), 1         # one dim is repeated
        kept = [d for d in range(len(shape)) if d != self.random.randrange(len(shape))]
        for d in reversed(kept):
            strides[d], step = step, step * shape[d]
        if self.op.in_place:
            return self.tensor(shape, dtype, tracked)
        return Array(self.data((step,), dtype), (shape, tuple(strides), 0), tracked, dtype)

    def partner(self):
        """A shape that broadcasts with ours, mostly."""
        if self.random.random() < 0.04:
            return tuple(self.random.choice(DIMS) for _ in range(self.random.randrange(4)))
        shape = tuple(1 if self.random.random() < 0.2 else n for n in self.shape)
        return shape[self.random.randrange(len(shape) + 1):] if self.random.random() < 0.25 else shape

    def number(self):
        return self.random.choice((0, 1, 2, -1, 3, 0.5, -1.5, 2.0, True, 7))

    def dim(self):
        rank = max(1, len(self.shape))
        return self.random.randrange(-rank, rank) if self.random.random() < 0.95 else self.random.choice((rank, -rank - 1))

    def value(self, p, first):
        kind, name = p.type.rstrip("?"), p.name
        if p.optional and self.random.random() < 0.6:
            raise KeyError
        if kind == "Tensor":
            if name in ("index", "indices"):
                return Array(self.numbers.integers(0, 3, self.partner()), (None, None, 0), False)
            if name in ("mask", "condition"):
                return self.tensor(self.partner(), "bool")
            same = self.random.random() < 0.85
            return self.tensor(self.shape if first else self.partner(), None if first or same else self.random.choice(DTYPES))
        if kind == "Operand":
            other = self.dtype if self.random.random() < 0.7 else self.random.choice(DTYPES)
            return self.number() if self.random.random() < 0.35 else self.tensor(self.partner(), other)
        if kind == "Tensor[]":
            at = self.random.randrange(len(self.shape)) if self.shape else 0
            vary = lambda: tuple(self.random.choice(DIMS) if i == at and name == "tensors" else n for i, n in enumerate(self.shape))
            return [self.tensor(vary()) for _ in range(self.random.randrange(1, 4))]
        if kind.startswith("int["):
            if name in ("dim", "dims"):
                return [self.dim() for _ in range(self.random.randrange(0, 3))]
            if name in ("size", "shape", "input_sizes", "self_sizes"):
                return self.reshaped()
            return [self.random.choice((1, 2, 3)) for _ in range(len(self.shape) if "..." in kind else self.random.choice((1, 2)))]
        if kind == "int":
            if name.startswith("dim") or name in ("start_dim", "end_dim"):
                return self.dim()
            if name == "decimals":
                return self.random.choice((0, 1, 2, -1))
            if name == "reduction":
                return self.random.randrange(3)
            return self.random.choice((0, 1, 2, 3, -1))
        if kind == "MemoryFormat":
            return Format(self.random.choice(("contiguous_format", "preserve_format")))
        if kind == "bool":
            return self.random.random() < 0.5
        if kind == "Scalar":
            return self.number()
        if kind == "float":
            return self.random.choice((0.0, 0.3, 1.0, 1e-5, 2.5))
        if kind == "str":
            if name == "rounding_mode":
                return self.random.choice(("floor", "trunc", None))
            return self.random.choice(("none", "tanh"))
        if kind == "ScalarType":
            return Dtype(self.random.choice(DTYPES))
        raise KeyError

    def reshaped(self):
        left, shape = int(np.prod(self.shape)), []
        for n in (2, 3, 5):
            if left and left % n == 0 and self.random.random() < 0.5:
                shape.append(n)
                left //= n
        shape.append(left)
        self.random.shuffle(shape)
        if self.random.random() < 0.3:
            shape[self.random.randrange(len(shape))] = -1
        return shape

    def by_schema(self):
        args, kwargs, skipped = [], {}, False
        for i, p in enumerate(self.op.parameters):
            try:
                value = self.value(p, i == 0)
            except KeyError:
                if not p.optional:
                    raise Unfit(f"{self.op.id}: {p.type}") from None
                if p.default:
                    skipped = True
                    continue
                value = None
            if p.keyword or skipped:
                kwargs[p.name] = value
            else:
                args.append(value)
        return args, kwargs

    def __repr__(self):
        return f"{self.op.id}({', '.join([repr(a) for a in self.args] + [f'{k}={v!r}' for k, v in self.kwargs.items()])})"


class Format:
    """A memory format."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class Dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


# ----------------------------------------------------------------------- arguments that a schema does not describe

def _matrices(*shapes):
    def made(m):
        sizes = {c: m.random.choice(DIMS) for c in "bnmk"}
        dtype = m.dtype if m.dtype != "bool" else "float32"
        return [m.tensor([sizes[c] for c in shape], dtype) for shape in shapes], {}
    return made


def _matmul(m):
    n, k, l = (m.random.choice(DIMS) for _ in range(3))
    left, right = m.random.choice([((k,), (k,)), ((n, k), (k,)), ((k,), (k, n)), ((n, k), (k, l)), ((2, n, k), (k, l)), ((2, n, k), (2, k, l)),
                                   ((3, 1, n, k), (2, k, l)), ((n, k), (l, n))])
    return [m.tensor(left), m.tensor(right)], {}


def _linear(m):
    n, k, l = (m.random.choice(DIMS) for _ in range(3))
    lead = m.random.choice([(), (n,), (2, n)])
    args = [m.tensor(lead + (k,)), m.tensor((l, k))]
    return args + ([m.tensor((l,))] if m.random.random() < 0.5 else []), {}


def _conv(rank):
    def made(m):
        groups, batch = m.random.choice((1, 1, 2)), m.random.choice((1, 2))
        channels, out = groups * m.random.choice((1, 2)), groups * m.random.choice((1, 3))
        kernel = [m.random.choice((1, 2, 3)) for _ in range(rank)]
        size = [m.random.choice((3, 5, 6)) for _ in range(rank)]
        dtype = m.random.choice(REALS)
        pick = lambda *of: [m.random.choice(of) for _ in range(rank)]
        args = [m.tensor([batch, channels] + size, dtype), m.tensor([out, channels // groups] + kernel, dtype),
                m.tensor([out], dtype) if m.random.random() < 0.5 else None, pick(1, 2), pick(0, 1), pick(1, 1, 2)]
        if m.op.id == "convolution":
            args += [False, [0] * rank]
        return args + [groups], {}
    return made


def _pool(m):
    dtype = m.random.choice(REALS)
    kernel = [m.random.choice((1, 2, 3)) for _ in range(2)]
    x = m.tensor([m.random.choice(DIMS) for _ in range(m.random.choice((1, 2)))] + [m.random.choice((3, 4, 6)) for _ in range(2)], dtype)
    padding = [m.random.randrange(k // 2 + 1) for k in kernel]
    args = [x, kernel, [m.random.choice((1, 2)) for _ in range(2)], padding]
    if m.op.id.startswith("max"):
        args.append([1, m.random.choice((1, 2))])
    return args + [m.random.random() < 0.3], {}


def _adaptive(m):
    dtype = m.random.choice(REALS)
    return [m.tensor([2, 2, m.random.choice((3, 5, 6)), m.random.choice((4, 5))], dtype), [m.random.choice((1, 2, 3)), m.random.choice((1, 4))]], {}


def _classes(m):
    n, c = m.random.choice(DIMS), m.random.choice((2, 3, 5))
    more = m.random.choice([(), ()] if "2d" not in m.op.id else [(2, 3)])
    more = (2,) if m.op.id in ("nll_loss_nd", "cross_entropy_loss") and m.random.random() < 0.3 else more
    dtype = m.random.choice(REALS)
    target = Array(m.numbers.integers(0, c, (n,) + more), (None, None, 0), False)
    weight = m.tensor((c,), dtype, tracked=False) if m.random.random() < 0.3 else None
    ignored = m.random.choice((-100, 1))
    args = [m.tensor((n, c) + more, dtype), target, weight, m.random.randrange(3), ignored]
    return args + ([m.random.choice((0.0, 0.2))] if m.op.id == "cross_entropy_loss" else []), {}


def _embedding(m):
    rows = m.random.choice((3, 5))
    indices = Array(m.numbers.integers(0, rows, m.random.choice([(4,), (2, 3), ()])), (None, None, 0), False)
    return [m.tensor((rows, 3), m.random.choice(REALS)), indices, m.random.choice((-1, 0, 1)), m.random.random() < 0.3, False], {}


def _norm(m):
    shape = m.shape or (3,)
    k = m.random.randrange(1, len(shape) + 1)
    dtype = m.random.choice(REALS)
    of_parts = "float32" if dtype in HALVES and m.random.random() < 0.3 else dtype
    maybe = lambda: m.tensor(shape[-k:], of_parts) if m.random.random() < 0.6 else None
    return [m.tensor(shape, dtype), list(shape[-k:]), maybe(), maybe(), 1e-5], {}


def _batch_norm(m):
    c, dtype = m.random.choice(DIMS), m.random.choice(REALS)
    maybe = lambda: m.tensor((c,), dtype) if m.random.random() < 0.6 else None
    running = Array(rounded(m.numbers.normal(size=c), dtype), (None, None, 0), False, dtype), Array(rounded(m.numbers.random(c) + 0.5, dtype), (None, None, 0), False, dtype)
    x = m.tensor(m.random.choice([(3, c), (2, c, 3), (2, c, 2, 2)]), dtype)
    return [x, maybe(), maybe(), *running, m.random.random() < 0.6, 0.1, 1e-5] + ([False] if m.op.id == "batch_norm" else []), {}


def _probabilities(m):
    x, y = m.tensor(), m.tensor()
    if x.memory.dtype.kind == "f":
        for a in (x, y):
            with np.errstate(over="ignore"):
                a.memory = rounded(1 / (1 + np.exp(-a.memory)), a.dtype)
    y.tracked = False
    return [x, y, None, m.random.randrange(3)], {}


def _attention(m):
    lead = m.random.choice([(), (2,), (2, 3)])
    l, s, e, v = (m.random.choice((1, 2, 3, 5)) for _ in range(4))
    dtype = m.random.choice(REALS)
    causal = m.random.random() < 0.3
    mask = None if causal or m.random.random() < 0.5 else m.tensor((l, s), m.random.choice((dtype, "bool")), tracked=False)
    return [m.tensor(lead + (l, e), dtype), m.tensor(lead + (s, e), dtype), m.tensor(lead + (s, v), dtype), mask, 0.0, causal], {}


def _gather(m):
    shape = m.shape or (3,)
    dim = m.random.randrange(len(shape))
    index = m.numbers.integers(0, max(1, shape[dim]), tuple(max(1, n - m.random.randrange(2)) if i != dim else m.random.choice(DIMS) for i, n in enumerate(shape)))
    args = [m.tensor(shape), dim, Array(index, (None, None, 0), False)]
    if m.op.id.startswith("scatter"):
        args.append(m.tensor(index.shape) if "value" not in m.op.schema else m.number())
    reduces = "reduce" in m.op.schema
    return args, {"reduce": m.random.choice(("add", "multiply"))} if reduces else {}


def _index_select(m):
    shape = m.shape or (3,)
    dim = m.random.randrange(len(shape))
    index = Array(m.numbers.integers(0, max(1, shape[dim]), (m.random.choice(DIMS),)), (None, None, 0), False)
    args = [m.tensor(shape), dim, index]
    if m.op.id.startswith("index_add"):
        args.append(m.tensor([len(index.memory) if i == dim else n for i, n in enumerate(shape)]))
        return args, {} if m.random.random() < 0.5 else {"alpha": m.number()}
    return args, {}


def _indexed(m):
    shape = m.shape or (3,)
    count = m.random.randrange(1, min(3, len(shape) + 1)) if len(shape) > 1 else 1
    lead = m.random.choice([(), (2,), (3, 1), (4,)])
    indices = [Array(m.numbers.integers(-max(1, n), max(1, n), lead), (None, None, 0), False) for n in shape[:count]]
    args = [m.tensor(shape), indices]
    if m.op.id.startswith(("index_put", "_index_put")):
        args += [m.tensor(m.random.choice([(), lead + tuple(shape[count:])])), m.random.random() < 0.5]
    return args, {}


def _topk(m):
    shape = m.shape or (3,)
    values = m.numbers.permutation(int(np.prod(shape))).reshape(shape)
    dtype = m.dtype if m.dtype != "bool" else "float32"
    x = Array(rounded(values, dtype), (None, None, 0), m.track and "float" in dtype, dtype)
    dim = m.random.randrange(-len(shape), len(shape))
    if m.op.id == "topk":
        return [x, m.random.randrange(0, max(1, shape[dim]) + 1), dim, m.random.random() < 0.5, True], {}
    return [x, dim, m.random.random() < 0.5], {}


FITTED = {"mm": _matrices("nk", "km"), "bmm": _matrices("bnk", "bkm"), "mv": _matrices("nk", "k"), "dot": _matrices("k", "k"),
          "outer": _matrices("n", "m"), "ger": _matrices("n", "m"), "addmm": _matrices("nm", "nk", "km"),
          "baddbmm": _matrices("bnm", "bnk", "bkm"), "matmul": _matmul, "linear": _linear, "conv2d": _conv(2), "conv1d": _conv(1),
          "convolution": _conv(2), "max_pool2d": _pool, "max_pool2d_with_indices": _pool, "avg_pool2d": _pool,
          "adaptive_avg_pool2d": _adaptive, "_adaptive_avg_pool2d": _adaptive, "nll_loss": _classes, "nll_loss_nd": _classes,
          "nll_loss2d": _classes, "nll_loss_forward": _classes, "nll_loss2d_forward": _classes, "cross_entropy_loss": _classes,
          "embedding": _embedding, "layer_norm": _norm, "native_layer_norm": _norm, "batch_norm": _batch_norm,
          "native_batch_norm": _batch_norm, "binary_cross_entropy": _probabilities, "scaled_dot_product_attention": _attention,
          "gather": _gather, "scatter": _gather, "scatter_": _gather, "scatter_reduce": _gather, "scatter_reduce_": _gather, "scatter_add": _gather, "scatter_add_": _gather,
          "index_select": _index_select, "index_add": _index_select, "index_add_": _index_select, "index": _indexed,
          "index_put": _indexed, "index_put_": _indexed, "topk": _topk, "sort": _topk, "argsort": _topk}


# ------------------------------------------------------------------------------------------------------- running

def _value(torch, v, leaves):
    if isinstance(v, Array):
        return v.on(torch, leaves)
    if isinstance(v, (Dtype, Format)):
        return getattr(torch, v.name)
    if isinstance(v, list):
        return [_value(torch, x, leaves) for x in v]
    return v


def _tensors(torch, result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [t for r in result for t in _tensors(torch, r)]
    return []


class Said:
    """What one library said to a case."""

    def __init__(self):
        self.error, self.message, self.results, self.grads, self.seconds = None, "", [], None, None
        self.stage = "call"


def _numpy(t):
    t = t.detach()
    return np.array((t.float() if str(t.dtype).endswith("bfloat16") else t).numpy(force=True))


def _weights(tensors, seed):
    numbers = np.random.default_rng(seed)
    return [rounded(numbers.normal(size=tuple(t.shape)), str(t.dtype).rsplit(".", 1)[-1]) for t in tensors]


def _gradients(torch, outs, leaves, seed, graph):
    weights = [torch.from_numpy(np.asarray(w)).to(t.dtype) for w, t in zip(_weights(outs, seed), outs)]
    return torch.autograd.grad(outs, leaves, weights, create_graph=graph, allow_unused=True)


def _run(torch, call, made):
    said, leaves = Said(), []
    try:
        args = [_value(torch, a, leaves) for a in made.args]
        kwargs = {k: _value(torch, v, leaves) for k, v in made.kwargs.items()}
        if made.op.in_place and args[0].requires_grad:
            args[0] = args[0] * 1
        before = args[0]._version if made.op.in_place else 0
        outs = _tensors(torch, call(*args, **kwargs))
        said.results = [(tuple(t.shape), str(t.dtype).rsplit(".", 1)[-1], t.stride(), t.requires_grad, t._version - before, _numpy(t)) for t in outs]
        tracked = [t for t in outs if t.requires_grad]
        if tracked and leaves:
            said.stage = "backward"
            first = _gradients(torch, tracked, leaves, made.seed, True)
            said.grads = [None if g is None else _numpy(g) for g in first]
            again = [g for g in first if g is not None and g.requires_grad]
            if again:
                said.stage = "second backward"
                second = _gradients(torch, again, leaves, made.seed + 1, False)
                said.seconds = [None if g is None else _numpy(g) for g in second]
    except Exception as error:  # noqa: BLE001: whatever it is, it is compared
        said.error, said.message = type(error).__name__, str(error).splitlines()[0][:160] if str(error) else ""
    return said


# Of results, where the coarsest dtype of the call is this one. Halves are rounded several times in PyTorch, too.
TOLERANCES = (("bfloat16", 2e-2), ("float16", 3e-3), ("float32", 2e-5))


def _close(a, b, loose, coarse):
    """coarse: the tolerance of what it was computed in."""
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    tolerance = max(coarse, 2e-5 if a.dtype == np.float32 else 1e-9) * loose
    with np.errstate(all="ignore"):
        a, b = a.astype(np.float64), b.astype(np.float64)
        size = np.max(np.abs(b[np.isfinite(b)]), initial=0.5 if coarse > 1e-3 else 0.1 if tolerance > 1e-9 * loose else 1e-3)  # below it, what is left of terms that cancel
        return np.allclose(a, b, rtol=tolerance, atol=tolerance * min(size, 1e6), equal_nan=True)


def _differ(kind, ours, theirs, loose, coarse):
    """Gradients: None and zeros are the same to a user, but not to PyTorch: a kind of its own."""
    for i, (a, b) in enumerate(zip(ours or [], theirs or [])):
        if (a is None) != (b is None):
            if not np.any(b if a is None else a):
                continue
            return f"{kind} {i}: {'none' if a is None else 'some'} here, {'none' if b is None else 'some'} there"
        if a is not None and not _close(a, b, loose, coarse):
            return f"{kind} {i} differs"
    return None


def compare(made, torch):
    """None: they agree. Else (what differs, details)."""
    theirs_call = made.op.theirs(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = _run(torch, theirs_call, made), _run(mindtorch_v2, made.op.ours(), made)
    if theirs.error == "NotImplementedError" or "not implemented for" in theirs.message or "vmap" in theirs.message:
        raise Unfit(theirs.message)
    if (ours.error is None) != (theirs.error is None):
        which = "ours" if ours.error else "theirs"
        error = ours if ours.error else theirs
        return f"{error.stage}: only {which} fails", f"{error.error}: {error.message}"
    if ours.error is not None:
        if ours.stage != theirs.stage:
            return f"fails at {ours.stage}, theirs at {theirs.stage}", f"{ours.message} / {theirs.message}"
        same = ours.error == theirs.error or {ours.error, theirs.error} <= LOOSE
        return None if same else ("another exception", f"{ours.error}: {ours.message} / {theirs.error}: {theirs.message}")
    if len(ours.results) != len(theirs.results):
        return "number of results", f"{len(ours.results)} / {len(theirs.results)}"
    text = repr(made)
    coarse = next((tolerance for name, tolerance in TOLERANCES if re.search(rf"\b{name}\b", text)), 0)
    for i, (a, b) in enumerate(zip(ours.results, theirs.results)):
        for k, what in enumerate(("shape", "dtype", "strides", "requires_grad", "version")):
            if what == "version" and not made.op.in_place:
                continue
            if a[k] != b[k] and not (what == "strides" and (0 in a[0] or _same_strides(a[0], a[2], b[2]))):
                return f"{what} of result {i}", f"{a[k]} / {b[k]}"
        if not _close(a[5], b[5], 1, coarse):
            return f"values of result {i}", f"{a[5].ravel()[:6]} / {b[5].ravel()[:6]}"
    what = _differ("gradient", ours.grads, theirs.grads, 5, coarse) or _differ("second gradient", ours.seconds, theirs.seconds, 50, coarse)
    if what is None and (ours.seconds is None) != (theirs.seconds is None):
        gone = theirs.seconds if ours.seconds is None else ours.seconds
        if any(g is not None and np.any(g) for g in gone):
            what = "second gradient only " + ("theirs" if ours.seconds is None else "ours")
    return None if what is None else (what, "")


def _same_strides(shape, a, b):
    return all(x == y or n == 1 for n, x, y in zip(shape, a, b))


# --------------------------------------------------------------------------------------------------------- verdicts

def reason(made, what, details):
    """Why a disagreement is known and left, or None."""
    for ops, begins, when, why in CALLS:
        if made.op.id in ops.split() and what.startswith(begins) and (when is None or (when(made) if callable(when) else when in details)):
            return why
    return None


def run(seeds, torch, op=None):
    """(cases compared, {(op, what): [(seed, details, arguments, reason)]})"""
    compared, found = 0, {}
    for seed in seeds:
        try:
            made = Made(seed, op)
            said = compare(made, torch)
        except Unfit:
            continue
        compared += 1
        if said is not None:
            found.setdefault((made.op.id, said[0]), []).append((seed, said[1], repr(made), reason(made, *said)))
    return compared, found
