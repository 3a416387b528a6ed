"""Ops over dims."""
import numpy as np

from .case import SHAPES, add, mask, positive, real
from .cases_binary import is_small
from .peer import Dtype

DIMS = {"first": ((3, 4), 0), "last": ((3, 4), 1), "negative": ((2, 3, 4), -2), "middle": ((2, 3, 4), 1), "scalar": ((), 0),
        "to_nothing": ((2, 0, 3), 2), "one": ((3, 1), 1), "large_first": ((37, 131), 0), "large_last": ((37, 131), 1),
        "long": ((5003,), 0)}
LISTS = {"two": ((2, 3, 4), (0, 2)), "all_named": ((2, 3), (0, 1)), "none_named": ((2, 3), ()),
         "over_nothing": ((2, 0, 3), (1,)), "outer": ((2, 3, 4), (0, 1))}


def axis_of(x, dim):
    if dim is None or (isinstance(dim, (tuple, list)) and len(dim) == 0) or x.ndim == 0:
        return None
    return tuple(dim) if isinstance(dim, (tuple, list)) else dim


def over(f):
    """f(x, axis=, keepdims=) with the op's arguments."""
    def want(x, dim=None, keepdim=False, dtype=None):
        return f(x, axis=axis_of(x, dim), keepdims=keepdim)
    return want


def whole_and_dims(op, dim_op, f, lists=True, empty_dims=True, data=real, **options):
    grad = options.pop("grad", True)
    data_of = lambda shape: data(*shape)  # noqa: E731
    if op:
        for label, shape in SHAPES.items():
            if empty_dims or int(np.prod(shape)) > 0:
                add(op, label, (data_of(shape),), over(f), grad=[0] if grad and is_small(shape) else False,
                    **(options | ({"rtol32": 2e-3} if label == "large" else {})))
        add(op, "long", (data(5003),), over(f), grad=False, **(options | {"rtol32": 2e-3}))
    if dim_op:
        for label, (shape, dim) in (DIMS | (LISTS if lists else {})).items():
            if not empty_dims and label == "over_nothing":
                continue
            for keep in (False, True):
                add(dim_op, label + ("_keep" if keep else ""), (data_of(shape), dim, keep), over(f),
                    grad=[0] if grad and is_small(shape) else False,
                    **(options | ({"rtol32": 2e-3} if label == "long" else {})))


SUMS = dict(rtol=1e-9, rtol32=1e-4)


def counted(f):
    """Integers are summed in int64; their results are exact."""
    return dict(dtypes="filb", out=lambda letter: "l" if letter in "bil" else letter)


whole_and_dims("sum", "sum_dim", np.sum, **counted(np.sum), **SUMS)
for op, args in (("sum", ()), ("sum_dim", (1,))):
    add(op, "to_float64", (real(3, 4), *args), lambda x, *a, dtype: np.sum(x, *a), kwargs={"dtype": Dtype("d")}, out="d",
        dtypes="filb", grad=[0])
    add(op, "to_int64", (real(3, 4), *args), lambda x, *a, dtype: np.sum(np.trunc(x), *a), kwargs={"dtype": Dtype("l")},
        out="l", grad=False)
add("sum_dim", "none", (real(2, 3), None), over(np.sum), grad=[0])
add("sum_dim", "none_keep", (real(2, 3), None, True), over(np.sum), grad=[0])


def mean(x, axis=None, keepdims=False):
    with np.errstate(all="ignore"):
        return np.divide(np.sum(x, axis=axis, keepdims=keepdims), x.size if axis is None
                         else np.prod([x.shape[a] for a in np.atleast_1d(axis)]))


whole_and_dims("mean", "mean_dim", mean, **SUMS)
for op, args in (("mean", ()), ("mean_dim", (1,))):
    add(op, "of_integers", (real(3, 4), *args), lambda x, *a, dtype: np.mean(x, *a), kwargs={"dtype": Dtype("f")}, out="f",
        dtypes="filb", grad=False, rtol=1e-6)


def product_data(*shape, seed=0):
    return np.asarray(real(*shape, lo=0.6, hi=1.5, seed=seed) * np.where(real(*shape, seed=seed + 9) < 0, -1, 1))


whole_and_dims("prod", None, np.prod, data=product_data, **SUMS, dtypes="f")
whole_and_dims(None, "prod_dim", np.prod, data=product_data, lists=False, **SUMS, dtypes="f")
ZEROS = {"one_zero": np.array([[1.5, 0.0, 2.0], [0.5, 3.0, -1.0]]),
         "two_zeros": np.array([[1.5, 0.0, 0.0], [0.5, 3.0, 0.0]])}
for label, x in ZEROS.items():
    add("prod", label, (x,), lambda x: np.prod(x), grad=[0], dtypes="fil", out=lambda letter: "l" if letter in "il"
        else letter)
    add("prod_dim", label, (x, 1), lambda x, d: np.prod(x, d), grad=[0], dtypes="fil",
        out=lambda letter: "l" if letter in "il" else letter)


def filled(shape):
    return int(np.prod(shape)) > 0


def picked(arg, value):
    def want(x, dim, keepdim=False):
        if x.ndim == 0:
            return x, np.array(0)
        i = np.expand_dims(arg(x, axis=dim), dim)
        v = np.take_along_axis(x, i, dim)
        return (v, i) if keepdim else (v.squeeze(dim), i.squeeze(dim))
    return want


for op, f, arg, dim_op, a_op, arg_op in (("max", np.max, np.argmax, "max_dim", "amax", "argmax"),
                                         ("min", np.min, np.argmin, "min_dim", "amin", "argmin")):
    for label, shape in SHAPES.items():
        if filled(shape):
            x = real(*shape)
            small = is_small(shape)
            add(op, label, (x,), over(f), dtypes="filb", grad=[0] if small else False)
            add(a_op, label, (x,), over(f), dtypes="filb", grad=[0] if small else False)
            add(arg_op, label, (x,), lambda x, f=arg: f(x), dtypes="f", out="l", grad=False)
    for label, (shape, dim) in DIMS.items():
        for keep in (False, True):
            name = label + ("_keep" if keep else "")
            add(dim_op, name, (real(*shape), dim, keep), picked(arg, f), out=("same", "l"), dtypes="f",
                grad=[0] if is_small(shape) else False)
            add(arg_op, name, (real(*shape), dim, keep), lambda x, d, k, f=arg: f(x, axis=d, keepdims=k) if x.ndim
                else np.array(0), dtypes="f", out="l", grad=False)
    add(dim_op, "integers", (np.arange(12.0).reshape(3, 4)[:, ::-1].copy(), 1), picked(arg, f), out=("same", "l"),
        dtypes="il", grad=False, to_int=np.trunc)
    for label, (shape, dim) in (DIMS | LISTS).items():
        if label != "over_nothing":
            for keep in (False, True):
                add(a_op, label + ("_keep" if keep else ""), (real(*shape), dim, keep), over(f), dtypes="filb",
                    grad=[0] if is_small(shape) else False)
    add(arg_op, "flat_keep", (real(2, 3), None, True), lambda x, d, k, f=arg: f(x).reshape(1, 1), out="l", grad=False)
    add(op, "nan", (np.array([1.0, np.nan, 2.0]),), over(f), grad=False)
    add(a_op, "nan", (np.array([1.0, np.nan, 2.0]), 0), over(f), grad=False)
    add(dim_op, "nan", (np.array([[1.0, np.nan, 2.0]]), 1), lambda x, d: (np.array([np.nan]), np.array([1])),
        out=("same", "l"), grad=False)
    add(arg_op, "nan", (np.array([1.0, np.nan, 2.0]),), lambda x: np.array(1), out="l", grad=False)
    # equal values share the gradient
    add(a_op, "ties", (np.array([[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]), 1), over(f), grad=False)
TRUE = dict(dtypes="filb", out="b", grad=False)
for op, dim_op, f in (("any", "any_dim", np.any), ("all", "all_dim", np.all)):
    for label, shape in SHAPES.items():
        add(op, label, (np.where(mask(*shape), 1.5, 0.0),), over(f), to_int=np.sign, **TRUE)
        add(op, label + "_ones", (np.ones(shape),), over(f), **TRUE)
    for label, (shape, dim) in (DIMS | {"over_nothing": ((2, 0, 3), 1)}).items():
        for keep in (False, True):
            add(dim_op, label + ("_keep" if keep else ""), (np.where(mask(*shape), 1.5, 0.0), dim, keep), over(f),
                to_int=np.sign, **TRUE)


def spread(root):
    def want(x, dim=None, correction=1, keepdim=False):
        axis = axis_of(x, dim)
        n = x.size if axis is None else int(np.prod([x.shape[a] for a in np.atleast_1d(axis)]))
        with np.errstate(all="ignore"):
            squares = np.sum((x - np.mean(x, axis=axis, keepdims=True))**2, axis=axis, keepdims=keepdim)
            v = np.divide(squares, max(n - (1 if correction is None else correction), 0))
        return np.sqrt(v) if root else v
    return want


for op in ("var", "std"):
    f = spread(op == "std")
    for label, shape in (("matrix", (3, 4)), ("cube", (2, 3, 2)), ("large", (37, 131)), ("one", (1,)), ("scalar", ())):
        add(op, label, (real(*shape),), f, grad=[0] if label in ("matrix", "cube") else False, **SUMS)
    for label, (shape, dim) in (("last", ((3, 4), 1)), ("first", ((3, 4), 0)), ("two", ((2, 3, 4), (0, 2))),
                                ("negative", ((2, 3, 4), -2)), ("large", ((37, 131), 1)), ("to_nothing", ((0, 3), 1))):
        for kwargs in ({}, {"correction": 0}, {"keepdim": True}, {"correction": 2, "keepdim": True}):
            name = label + "".join(f"_{k}_{v}" for k, v in kwargs.items())
            add(op, "dim_" + name, (real(*shape), dim), f, kwargs=kwargs, grad=[0] if is_small(shape) else False, **SUMS)
    add(op, "correction", (real(3, 4),), f, kwargs={"correction": 0}, grad=[0])


def norm(x, p=2, dim=(), keepdim=False):
    axis = axis_of(x, dim)
    p = 2 if p is None else p
    a = np.abs(x)
    if p == np.inf:
        return np.max(a, axis=axis, keepdims=keepdim)
    if p == -np.inf:
        return np.min(a, axis=axis, keepdims=keepdim)
    if p == 0:
        return np.sum(a != 0, axis=axis, keepdims=keepdim).astype(np.float64)
    return np.sum(a**p, axis=axis, keepdims=keepdim)**(1 / p)


for p in (2, 1, 3, 0.5, float("inf"), -float("inf"), 0):
    text = str(p).replace(".", "_").replace("-", "minus_")
    for label, shape, args in (("whole", (3, 4), ((),)), ("dim", (3, 4), ((1,),)), ("keep", (2, 3, 2), ((0, 2), True)),
                               ("large", (37, 131), ((1,),))):
        vector_args = (None,) + args[1:] if args[0] == () else args
        grad = [0] if label != "large" and p != 0 else False
        add("norm", f"{text}_{label}", (real(*shape), p, *args), norm, grad=grad, node="LinalgVectorNormBackward0",
            torch_node=False, second=p != 0, **SUMS)
        add("linalg_vector_norm", f"{text}_{label}", (real(*shape), p, *vector_args), norm, grad=grad, **SUMS)
add("norm", "standard", (real(3, 4),), norm, grad=[0], node="LinalgVectorNormBackward0", torch=False)
add("linalg_vector_norm", "standard", (real(3, 4),), norm, grad=[0])
add("linalg_vector_norm", "empty", (real(0, 3),), norm, grad=[0])
add("linalg_vector_norm", "scalar", (real(),), norm, grad=[0])
for label, (shape, dim) in (DIMS | {"over_nothing": ((2, 0, 3), 1)}).items():
    small = is_small(shape)
    add("cumsum", label, (real(*shape), dim), lambda x, d: np.cumsum(x, axis=d) if x.ndim else x, dtypes="filb",
        out=lambda letter: "l" if letter in "bil" else letter, grad=[0] if small else False, **SUMS)

    def logsumexp(x, dim, keepdim=False):
        axis = axis_of(x, dim)
        if axis is None and x.ndim == 0:
            return x
        with np.errstate(all="ignore"):
            return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdim))
    for keep in (False, True):
        add("logsumexp", label + ("_keep" if keep else ""), (real(*shape), dim, keep), logsumexp,
            grad=[0] if small else False, **SUMS)
add("cumsum", "to_float64", (real(3, 4), 1), lambda x, d, dtype: np.cumsum(x, axis=d), kwargs={"dtype": Dtype("d")},
    out="d", dtypes="filb", grad=[0])
add("logsumexp", "two", (real(2, 3, 4), (0, 2)), logsumexp, grad=[0])
add("logsumexp", "far", (np.array([[1000.0, 1000.0], [-1000.0, -np.inf], [-np.inf, -np.inf]]), 1),
    lambda x, d: np.array([1000 + np.log(2), -1000.0, -np.inf]), grad=False, free=False)


def sort(x, dim=-1, descending=False):
    if x.ndim == 0:
        return x, np.array(0)
    i = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, i, dim), i


def topk(x, k, dim=-1, largest=True, sorted=True):
    if x.ndim == 0:
        return (x, np.array(0)) if k else (np.zeros(0), np.zeros(0))
    v, i = sort(x, dim, largest)
    return v.take(range(k), axis=dim), i.take(range(k), axis=dim)


for label, shape, args in (("two", (3, 4), (2,)), ("all", (3, 4), (4,)), ("first", (3, 4), (2, 0)),
                           ("smallest", (3, 4), (2, 1, False)), ("none", (3, 4), (0,)), ("scalar", (), (1,)),
                           ("middle", (2, 5, 2), (3, 1)), ("large", (37, 131), (17,)), ("hole", (0, 4), (2,))):
    add("topk", label, (real(*shape), *args), topk, out=("same", "l"), grad=[0] if is_small(shape) else False)
add("topk", "integers", (np.arange(12.0).reshape(3, 4), 2), topk, out=("same", "l"), dtypes="il", to_int=np.trunc,
    grad=False)
for label, shape, args in (("last", (3, 4), ()), ("first", (3, 4), (0,)), ("descending", (3, 4), (1, True)),
                           ("scalar", (), ()), ("hole", (2, 0, 3), ()), ("middle", (2, 5, 2), (1,)),
                           ("large", (37, 131), ())):
    add("sort", label, (real(*shape), *args), sort, out=("same", "l"), grad=[0] if is_small(shape) else False)
    add("argsort", label, (real(*shape), *args), lambda *a: sort(*a)[1], out="l", grad=False)
add("sort", "integers", (np.arange(12.0).reshape(3, 4)[:, ::-1].copy(),), sort, out=("same", "l"), dtypes="il",
    to_int=np.trunc, grad=False)
add("sort", "nan", (np.array([np.nan, 1.0, -1.0, np.inf]),), sort, out=("same", "l"), grad=False)


def selecting(g, dim, indices, sizes, keepdim):
    out = np.zeros(sizes)
    if len(sizes) == 0:
        return np.asarray(g)
    if not keepdim:
        g, indices = np.expand_dims(g, dim), np.expand_dims(indices, dim)
    np.put_along_axis(out, indices, g, dim)
    return out


for label, shape, dim, keep in (("last", (3, 4), 1, False), ("first_keep", (3, 4), 0, True),
                                ("negative", (2, 3, 4), -2, False), ("scalar", (), 0, False)):
    i = np.argmax(real(*shape), axis=dim, keepdims=keep) if shape else np.array(0)
    add("value_selecting_reduction_backward", label, (real(*i.shape, seed=3), dim, i, shape, keep), selecting, grad=[0],
        node=False)
