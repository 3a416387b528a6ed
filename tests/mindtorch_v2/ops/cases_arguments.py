"""Overloads that take more than their op's usual arguments: bounds that are tensors, several dims, rounding modes ..."""
import numpy as np

from .case import SHAPES, add, mask, real
from .cases_binary import BROADCAST, is_small, nonzero
from .cases_create import MANY, SIZES, anything, by_chance, coin, normal_of, uniform_between, whole_between
from .cases_reduce import DIMS, LISTS, TRUE
from .peer import Dtype


# ------------------------------------------------------------------------------------------------ bounds that are tensors

def clamp(x, low=None, high=None):
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


for label, shape in SHAPES.items():
    x, low, high = real(*shape), real(*shape, lo=-1.4, hi=0.4, seed=1), real(*shape, lo=0.2, hi=1.6, seed=2)
    small = is_small(shape)
    add("clamp_tensor", label, (x, low, high), clamp, dtypes="fil", grad=small)
    add("clamp_min_tensor", label, (x, low), clamp, dtypes="filb", grad=small)
    add("clamp_max_tensor", label, (x, high), lambda x, high: clamp(x, None, high), dtypes="filb", grad=small)
for label, (a, b) in BROADCAST.items():
    x, low, high = real(*a), real(*b, lo=-1.4, hi=0.4, seed=1), real(*b, lo=0.2, hi=1.6, seed=2)
    small = is_small(np.broadcast_shapes(a, b))
    add("clamp_tensor", "broadcast_" + label, (x, low, high), clamp, dtypes="fil", grad=small)
    add("clamp_min_tensor", "broadcast_" + label, (x, low), clamp, dtypes="fil", grad=small)
    add("clamp_max_tensor", "broadcast_" + label, (x, high), lambda x, high: clamp(x, None, high), dtypes="fil", grad=small)
add("clamp_tensor", "min", (real(3, 4), real(4, seed=1)), clamp, dtypes="fil")
add("clamp_tensor", "max", (real(3, 4), None, real(4, seed=1)), clamp, dtypes="fil")
add("clamp_tensor", "crossing", (real(3, 4), real(3, 4, seed=1), real(3, 4, seed=2)), clamp, dtypes="fil")
NAN = np.array([np.nan, 1.0, 1.0, 0.25])
add("clamp_tensor", "nan", (NAN, np.array([0.0, np.nan, 0.0, 0.0]), np.array([2.0, 2.0, np.nan, 2.0])), clamp, grad=False,
    free=False)
for label, shape in SHAPES.items():
    add("clamp_max", label, (real(*shape), 0.25), lambda x, hi: np.minimum(x, hi), grad=[0] if is_small(shape) else False)
add("clamp_max", "integer", (real(3, 4), 1), lambda x, hi: np.minimum(x, hi), dtypes="fil", grad=[0])
add("clamp_max", "nan", (np.array([np.nan, 3.0, -3.0]), 1), lambda x, hi: np.minimum(x, hi), grad=False)


# ----------------------------------------------------------------------------------------------------------- rounding

def divide(a, b, rounding_mode):
    with np.errstate(all="ignore"):
        q = np.asarray(a, dtype=np.float64) / b
    return {"floor": np.floor, "trunc": np.trunc, None: lambda q: q}[rounding_mode](q)


for mode in ("floor", "trunc", None):
    options = dict(kwargs={"rounding_mode": mode}, **({"dtypes": "filb", "out": "float"} if mode is None else {"dtypes": "fil"}))
    for label, shape in SHAPES.items():
        add("div_mode", f"{mode}_{label}", (real(*shape, lo=-9, hi=9), nonzero(*shape)), divide, grad=is_small(shape), **options)
    for label, (a, b) in BROADCAST.items():
        add("div_mode", f"{mode}_broadcast_{label}", (real(*a, lo=-9, hi=9), nonzero(*b)), divide,
            grad=is_small(np.broadcast_shapes(a, b)), **options)
    for number in (-3, 2):
        add("div_mode", f"{mode}_by_{number}", (real(3, 4, lo=-9, hi=9), number), divide, grad=[0], **options)
    add("div_mode", f"{mode}_by_half", (real(3, 4, lo=-9, hi=9), 0.7), divide, grad=[0], kwargs={"rounding_mode": mode})


def rounded(x, decimals):
    power = 10.0 ** abs(decimals)
    return np.rint(x * power) / power if decimals >= 0 else np.rint(x / power) * power


for label, shape in SHAPES.items():
    add("round_decimals", label, (real(*shape, hi=9),), rounded, kwargs={"decimals": 1}, grad=[0] if is_small(shape) else False,
        rtol32=1e-4)
for decimals in (3, 0, -1):
    add("round_decimals", f"to_{decimals}", (real(3, 4, lo=-90, hi=90),), rounded, kwargs={"decimals": decimals}, grad=[0],
        rtol32=1e-4)

# ------------------------------------------------------------------------------------------------------- several dims

for op, f in (("any", np.any), ("all", np.all)):
    for label, (shape, dim) in (DIMS | LISTS | {"over_nothing": ((2, 0, 3), (1,)), "none": ((2, 3), None)}).items():
        for keep in (False, True):
            def want(x, d, keep, f=f):
                if isinstance(d, tuple) and len(d) == 0 or x.ndim == 0:
                    return x != 0
                return f(x, axis=d, keepdims=keep)
            dims = (dim,) if isinstance(dim, int) else dim
            add(op + "_dims", label + ("_keep" if keep else ""), (np.where(mask(*shape), 1.5, 0.0), dims, keep), want,
                to_int=np.sign, **TRUE)
for label, shape, dims in (("two", (1, 3, 1, 2), (0, 2)), ("not_one", (1, 3, 2), (1, 0)), ("none", (1, 3), ()), ("scalar", (), (0,)),
                           ("negative", (3, 1, 1), (-1, -2)), ("hole", (1, 0, 1), (0, 2))):
    def squeezed(x, dims):
        return x.reshape([n for i, n in enumerate(x.shape) if n != 1 or i not in [d % x.ndim for d in dims]])
    add("squeeze_dims", label, (real(*shape), dims), squeezed, view=True, grad=[0], dtypes="filb")

# ------------------------------------------------------------------------------------------------ dtypes, factors, chance

for label, x, letter in (("same_size", real(3, 4), "l"), ("smaller", real(3, 4), "i"), ("bytes", real(2, 3), "b")):
    if label == "bytes":
        x = np.ones((2, 3)) * 0.0
    add("view_dtype", label, (x, Dtype(letter)), lambda x, d: x.view(d.numpy), out=letter, dtypes="", typed=True, grad=False,
        layouts=False)
add("view_dtype", "larger", (np.arange(8, dtype=np.int32).reshape(2, 4), Dtype("l")), lambda x, d: x.view(d.numpy), out="l", dtypes="",
    grad=False, layouts=False)
add("view_dtype", "of_floats", (np.arange(8, dtype=np.int64).reshape(2, 4), Dtype("f")), lambda x, d: x.view(d.numpy), out="f", dtypes="",
    grad=False, layouts=False)


def add_rows(x, dim, index, source, alpha):
    out = np.array(x)
    np.add.at(np.moveaxis(out, dim, 0), index, alpha * np.moveaxis(source, dim, 0))
    return out


for alpha in (2, -3, 0.5):
    dtypes = "f" if alpha == 0.5 else "fil"
    add("index_add_", f"alpha_{alpha}", (real(4, 3), 0, np.array([1, 1, 3]), real(3, 3, seed=1)), add_rows, kwargs={"alpha": alpha},
        dtypes=dtypes, grad=[0, 3])
add("index_add_", "alpha_last", (real(2, 4), 1, np.array([0, 3, 3]), real(2, 3, seed=1)), add_rows, kwargs={"alpha": 1.5}, grad=[0, 3])


def reduced(x, dim, index, src, reduce):
    out = np.array(x)
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[dim] = index[at]
        value = src if np.ndim(src) == 0 else src[at]
        out[tuple(to)] = out[tuple(to)] + value if reduce == "add" else out[tuple(to)] * value
    return out


ONCE, TWICE = np.array([[0, 2, 1]]), np.array([[0, 2, 1], [1, 2, 0]])
for reduce in ("add", "multiply"):
    for label, index, dim in (("once", ONCE, 0), ("twice", TWICE, 0), ("along", TWICE, 1)):
        add("scatter_reduce", f"{reduce}_{label}", (real(3, 3), dim, index, real(*index.shape, seed=1)), reduced,
            kwargs={"reduce": reduce}, dtypes="fil", grad=False)
        add("scatter_reduce", f"{reduce}_{label}_number", (real(3, 3), dim, index, 3), reduced, kwargs={"reduce": reduce}, dtypes="fil",
            grad=False)
    add("scatter_reduce", f"{reduce}_bool", (mask(3, 3), 0, TWICE, mask(2, 3, seed=1)), lambda x, d, i, s, reduce: reduced(
        x.astype(int), d, i, s.astype(int), reduce) != 0, kwargs={"reduce": reduce}, dtypes="", out="b", grad=False)
for label, shape, dim in (("whole", (3, 4), None), ("last", (3, 4), (1,)), ("two", (2, 3, 4), (0, 2))):
    for order in (2, 1, 3, np.inf):
        add("linalg_vector_norm", f"wider_{label}_{order}", (real(*shape), order, dim, False),
            lambda x, p, d, keep, dtype: np.sum(np.abs(x)**p, axis=d)**(1 / p) if p != np.inf else np.max(np.abs(x), axis=d),
            kwargs={"dtype": Dtype("d")}, out="d", dtypes="f", grad=[0] if order != np.inf else False, rtol=1e-7)
for label, size in (SIZES | {"many": MANY}).items():
    many, x = label == "many", np.zeros(size)
    by_chance("bernoulli_p", label, (np.full(size, 0.5), 0.3), "same", size, coin(0.3) if many else anything, dtypes="f")
    by_chance("bernoulli_tensor_", label, (x, np.full(size, 0.3)), "same", size, coin(0.3) if many else anything, dtypes="f")
    by_chance("random_to_", label, (x, 5), "same", size, whole_between(0, 5) if many else anything, dtypes="fil")
    by_chance("random_all_", label, (x,), "same", size, dtypes="filb")
by_chance("random_all_", "float32", (np.zeros(MANY, np.float32),), "f", MANY, uniform_between(0, 2**24))
by_chance("random_all_", "int32", (np.zeros(MANY, np.int32),), "i", MANY, uniform_between(0, 2**31))
by_chance("random_all_", "bool", (np.zeros(MANY, bool),), "b", MANY, coin(0.5))
by_chance("random_", "no_end", (np.zeros(MANY), 2**52, None), "same", MANY, uniform_between(2**52, 2**53))
by_chance("bernoulli_tensor_", "of_one", (np.zeros(MANY), np.array(0.3)), "same", MANY, coin(0.3))
