"""New tensors: constant, counted, or by chance."""
import numpy as np

from .case import add, real
from .peer import Dtype

SIZES = {"matrix": (3, 4), "scalar": (), "empty": (0,), "hole": (2, 0, 3), "large": (37, 131),
         "rank8": (1, 2, 1, 2, 1, 1, 2, 1)}
PLAIN = dict(dtypes="", grad=False, layouts=False)


def made(op, label, args, want, out, **options):
    add(op, label, args, want, out=out, **(PLAIN | options))


for label, size in SIZES.items():
    for op, value in (("zeros", 0), ("ones", 1), ("empty", None)):
        made(op, label, (size,), lambda size, v=value: np.full(size, v or 0), "f", values=value is not None)
        for letter in "bild":
            made(op, f"{label}_{Dtype(letter)}", (size,), lambda size, dtype, v=value: np.full(size, v or 0), letter,
                 kwargs={"dtype": Dtype(letter)}, values=value is not None)
    made("empty_strided", label, (size, tuple(range(len(size), 0, -1))), lambda size, stride: np.zeros(size), "f", values=False)
    made("empty_strided", label + "_int64", (size, (0,) * len(size)), lambda size, stride, dtype: np.zeros(size), "l",
         kwargs={"dtype": Dtype("l")}, values=False)
    for op, value in (("zeros_like", 0), ("ones_like", 1), ("empty_like", None)):
        add(op, label, (real(*size),), lambda x, v=value: np.full(x.shape, v or 0), dtypes="filb", grad=False,
            values=value is not None)
        made(op, f"{label}_int64", (real(*size),), lambda x, dtype, v=value: np.full(x.shape, v or 0), "l",
             kwargs={"dtype": Dtype("l")}, values=value is not None)
    for value, letter in ((2.5, "f"), (3, "l"), (True, "b")):
        made("full", f"{label}_{value}".replace(".", "_"), (size, value), lambda size, v: np.full(size, v), letter)
    made("full", f"{label}_dtype", (size, 2), lambda size, v, dtype: np.full(size, v), "d", kwargs={"dtype": Dtype("d")})
    made("full_like", label, (real(*size), 3), lambda x, v: np.full(x.shape, v), "same", dtypes="filb", layouts=True)
    made("full_like", label + "_int32", (real(*size), 3), lambda x, v, dtype: np.full(x.shape, v), "i",
         kwargs={"dtype": Dtype("i")})
    made("new_empty_strided", label, (real(2), size, tuple(range(len(size), 0, -1))), lambda x, size, stride: np.zeros(size), "same",
         dtypes="filb", values=False)
    made("new_empty_strided", label + "_int64", (real(2), size, (0,) * len(size)), lambda x, size, stride, dtype: np.zeros(size), "l",
         kwargs={"dtype": Dtype("l")}, values=False)
    made("new_zeros", label, (real(2), size), lambda x, size: np.zeros(size), "same", dtypes="filb")
    made("new_zeros", label + "_bool", (real(2), size), lambda x, size, dtype: np.zeros(size), "b",
         kwargs={"dtype": Dtype("b")})
    small = int(np.prod(size)) < 100
    add("fill_", label, (real(*size), 2.5), lambda x, v: np.full(x.shape, v), grad=[0] if small else False)
    add("fill_", label + "_integer", (real(*size), 3), lambda x, v: np.full(x.shape, v), grad=False, dtypes="filb")
    add("fill_", label + "_tensor", (real(*size), real(seed=1)), lambda x, v: np.full(x.shape, v),
        grad=[0, 1] if small else False)
    add("zero_", label, (real(*size),), lambda x: np.zeros(x.shape), dtypes="filb", grad=[0] if small else False)


def arange(*args, dtype=None):
    return np.arange(*args)


for label, args, out in (("five", (5,), "l"), ("none", (0,), "l"), ("float", (4.5,), "f")):
    made("arange", label, args, arange, out)
for label, args, out in (("range", (2, 7), "l"), ("negative", (-3, 2), "l"), ("float", (0.5, 4.5), "f"),
                         ("nothing", (3, 3), "l")):
    made("arange_start", label, args, arange, out)
for label, args, out in (("step", (0, 10, 3), "l"), ("down", (5, -1, -2), "l"), ("float", (0, 1, 0.25), "f"),
                         ("uneven", (0.0, 1.0, 0.3), "f")):
    made("arange_step", label, args, arange, out)
for letter in "ilfd":
    made("arange", f"dtype_{Dtype(letter)}", (6,), arange, letter, kwargs={"dtype": Dtype(letter)})
    made("arange_start", f"dtype_{Dtype(letter)}", (1, 6), arange, letter, kwargs={"dtype": Dtype(letter)})
    made("arange_step", f"dtype_{Dtype(letter)}", (1, 600, 2), arange, letter, kwargs={"dtype": Dtype(letter)})
    made("eye", f"dtype_{Dtype(letter)}", (3,), lambda n, dtype: np.eye(n), letter, kwargs={"dtype": Dtype(letter)})
for label, args in (("five", (0, 1, 5)), ("down", (2.0, -1.0, 7)), ("one", (3, 9, 1)), ("none", (0, 1, 0)),
                    ("large", (-5, 5, 1001))):
    made("linspace", label, args, np.linspace, "f", rtol32=1e-4)
    made("linspace", label + "_float64", args, lambda *a, dtype: np.linspace(*a), "d", kwargs={"dtype": Dtype("d")},
         rtol=1e-9)
for n in (0, 1, 5):
    made("eye", str(n), (n,), np.eye, "f")
    made("eye_m", f"{n}x3", (n, 3), np.eye, "f")
made("eye_m", "wide_bool", (2, 5), lambda n, m, dtype: np.eye(n, m), "b", kwargs={"dtype": Dtype("b")})


# ---------------------------------------------------------------------------------------------------- chance
# `random` looks at one large result; bounds are five standard errors or more, and seeds are fixed.

MANY = (20000,)


def uniform_between(lo, hi):
    def check(x):
        assert lo <= x.min() and x.max() < hi
        assert abs(x.mean() - (lo + hi) / 2) < 0.02 * (hi - lo)
        assert abs(x.var() - (hi - lo)**2 / 12) < 0.01 * (hi - lo)**2
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.04
    return check


def normal_of(mean, std):
    def check(x):
        assert abs(x.mean() - mean) < 0.04 * std and abs(x.std() - std) < 0.04 * std
        inside = np.mean(np.abs(x - mean) < std)
        assert abs(inside - 0.6827) < 0.02
        assert np.abs(x - mean).max() > 3 * std
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.04
    return check


def whole_between(lo, hi):
    def check(x):
        assert set(np.unique(x)) == set(range(lo, hi))
        assert np.bincount((x - lo).astype(int)).min() > 0.8 * x.size / (hi - lo)
    return check


def coin(p):
    def check(x):
        assert set(np.unique(x)) <= {0, 1} and abs(x.mean() - p) < 0.02
    return check


def shuffled(x):
    assert sorted(x) == list(range(x.size)) and abs(np.corrcoef(x, np.arange(x.size))[0, 1]) < 0.05


def anything(x):
    pass


def by_chance(op, label, args, out, shape, check=anything, **options):
    add(op, label, args, lambda *a, **k: np.zeros(shape), out=out, values=False, random=check, **(PLAIN | options))


for label, size in (SIZES | {"many": MANY}).items():
    many = label == "many"
    for letter in "fd":
        dtype = {"dtype": Dtype(letter)}
        by_chance("rand", f"{label}_{Dtype(letter)}", (size,), letter, size, uniform_between(0, 1) if many else anything,
                  kwargs=dtype)
        by_chance("randn", f"{label}_{Dtype(letter)}", (size,), letter, size, normal_of(0, 1) if many else anything,
                  kwargs=dtype)
    x = np.zeros(size)
    by_chance("rand_like", label, (x,), "same", size, uniform_between(0, 1) if many else anything, dtypes="f")
    by_chance("randn_like", label, (x,), "same", size, normal_of(0, 1) if many else anything, dtypes="f")
    by_chance("randint", label, (7, size), "l", size, whole_between(0, 7) if many else anything)
    by_chance("randint_low", label, (-3, 7, size), "l", size, whole_between(-3, 7) if many else anything)
    by_chance("uniform_", label, (x, -1, 3), "same", size, uniform_between(-1, 3) if many else anything, dtypes="f")
    by_chance("normal_", label, (x, 2, 0.5), "same", size, normal_of(2, 0.5) if many else anything, dtypes="f")
    by_chance("random_", label, (x, 2, 9), "same", size, whole_between(2, 9) if many else anything, dtypes="fil")
    by_chance("bernoulli_", label, (x, 0.3), "same", size, coin(0.3) if many else anything, dtypes="filb")
    by_chance("bernoulli", label, (np.full(size, 0.7),), "same", size, coin(0.7) if many else anything, dtypes="f",
              layouts=True)
by_chance("rand", "default", ((3,),), "f", (3,))
by_chance("randn", "default", ((3,),), "f", (3,))
by_chance("randint", "float", (7, (50,)), "f", (50,), kwargs={"dtype": Dtype("f")})
by_chance("randint", "wide", (2**40, MANY), "l", MANY, uniform_between(0, 2**40))
by_chance("uniform_", "standard", (np.zeros(MANY),), "same", MANY, uniform_between(0, 1))
by_chance("normal_", "standard", (np.zeros(MANY),), "same", MANY, normal_of(0, 1))
for n in (0, 1, 5):
    by_chance("randperm", str(n), (n,), "l", (n,), lambda x: None if sorted(x) == list(range(x.size)) else 1 / 0)
by_chance("randperm", "many", (5000,), "l", (5000,), shuffled)
by_chance("randperm", "int32", (6,), "i", (6,), lambda x: None, kwargs={"dtype": Dtype("i")})

WEIGHTS = np.array([1.0, 0.0, 2.0, 5.0])


def drawn(x):
    shares = np.bincount(x.reshape(-1), minlength=4) / x.size
    assert shares[1] == 0 and np.abs(shares - WEIGHTS / 8).max() < 0.02


def drawn_once(x):
    assert np.all(np.sort(x, axis=-1) == np.array([0, 2, 3]))


by_chance("multinomial", "with_replacement", (WEIGHTS, 20000, True), "l", (20000,), drawn, dtypes="f")
by_chance("multinomial", "without", (np.stack([WEIGHTS] * 5), 3), "l", (5, 3), drawn_once, dtypes="f", layouts=True)
by_chance("multinomial", "one", (np.array([0.0, 0.0, 1.0]), 1), "l", (1,), lambda x: None if x[0] == 2 else 1 / 0,
          dtypes="f")


def dropped(p):
    def check(x):  # of ones
        kept = x != 0
        assert abs(kept.mean() - (1 - p)) < 0.02 and np.allclose(x[kept], 1 / (1 - p))
    return check


by_chance("dropout", "half", (np.ones(MANY), 0.5, True), "same", MANY, dropped(0.5), dtypes="f")
by_chance("dropout", "little", (np.ones(MANY), 0.1, True), "same", MANY, dropped(0.1), dtypes="f")
by_chance("dropout", "hole", (np.ones((2, 0)), 0.1, True), "same", (2, 0), dtypes="f")
add("dropout", "not_training", (real(3, 4), 0.5, False), lambda x, p, train: x, grad=[0], layouts=False)
add("dropout", "never", (real(3, 4), 0.0, True), lambda x, p, train: x, grad=[0])
add("dropout", "always", (real(3, 4), 1.0, True), lambda x, p, train: np.zeros(x.shape), grad=[0])
