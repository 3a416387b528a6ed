"""Elementwise ops with two operands."""
import numpy as np

from .case import SHAPES, add, positive, real

# Pairs of shapes that broadcast.
BROADCAST = {"row": ((3, 4), (4,)), "column": ((3, 4), (3, 1)), "both": ((3, 1), (1, 4)), "left": ((4,), (2, 3, 4)),
             "zero_dim": ((3, 4), ()), "zero_dim_left": ((), (3, 4)), "hole": ((2, 0, 3), (1, 3)),
             "to_hole": ((1, 3), (0, 3)),
             "large_row": ((37, 131), (131,)), "large_column": ((37, 131), (37, 1)),
             "rank8": ((2, 1, 2, 1, 1, 2, 1, 1), (1, 2, 1, 2, 1))}


def is_small(shape):
    return int(np.prod(shape)) < 100


def pairs(op, want, data=real, other=None, numbers=(), **options):
    """Every shape, every broadcast, and Python numbers as the second operand."""
    other = other or data
    grad = options.pop("grad", True)
    for label, shape in SHAPES.items():
        add(op, label, (data(*shape), other(*shape, seed=1)), want, grad=grad and is_small(shape), **options)
    for label, (a, b) in BROADCAST.items():
        add(op, "broadcast_" + label, (data(*a), other(*b, seed=1)), want,
            grad=grad and is_small(np.broadcast_shapes(a, b)), **options)
    for number in numbers:
        text = str(number).replace(".", "_").replace("-", "minus_")
        kept = options.get("dtypes", "f")
        if options.get("out") != "b":  # where the number does not change the dtype: all of that is test_promotion's
            kept = "".join(letter for letter in kept if letter in ("fil" if isinstance(number, int) else "f"))
        add(op, "number_" + text, (data(3, 4), number), want, grad=[0] if grad else False,
            **(options | {"dtypes": kept}))


def scaled(f):
    return lambda a, b, alpha=1: f(a, alpha * b)


def nonzero(*shape, seed=0):
    return np.asarray(real(*shape, lo=0.6, hi=2.9, seed=seed) * np.where(real(*shape, seed=seed + 7) < 0, -1, 1))


def floor_divide(a, b):
    return np.floor(np.asarray(a, dtype=np.float64) / b)


def logical(f):
    return lambda a, b: f(np.asarray(a) != 0, np.asarray(b) != 0)


ARITHMETIC = "filb"

pairs("add", scaled(np.add), numbers=(2, 0.5), dtypes=ARITHMETIC)
pairs("sub", scaled(np.subtract), numbers=(2, 0.5), dtypes="fil")
for op, f in (("add", np.add), ("sub", np.subtract)):
    add(op, "alpha", (real(3, 4), real(3, 4, seed=1)), scaled(f), kwargs={"alpha": 3}, dtypes="fil")
    add(op, "alpha_float", (real(3, 4), real(4, seed=1)), scaled(f), kwargs={"alpha": -0.5})
    add(op, "alpha_number", (real(3, 4), 2), scaled(f), kwargs={"alpha": 2}, grad=[0], dtypes="fil")
for label, shape in SHAPES.items():
    add("rsub", label, (real(*shape), 3), lambda a, b: b - a, grad=[0] if is_small(shape) else False, dtypes="fil")
add("rsub", "number_float", (real(3, 4), 1.5), lambda a, b: b - a, grad=[0])
add("rsub", "alpha", (real(3, 4), 5, 2), lambda a, b, alpha: b - alpha * a, grad=[0], dtypes="fil")
add("rsub", "tensor", (real(3, 4), real(4, seed=1)), lambda a, b: b - a, dtypes="fil")
pairs("mul", np.multiply, numbers=(2, -0.5), dtypes=ARITHMETIC)
pairs("div", np.divide, other=nonzero, numbers=(2, -0.5), dtypes="fil", out="float")
pairs("floor_divide", floor_divide, other=nonzero, numbers=(2, -0.5), grad=False)
add("floor_divide", "integers", (real(3, 4, lo=-9, hi=9), nonzero(4)), floor_divide, dtypes="il", grad=False)
add("floor_divide", "by_integer", (real(3, 4, lo=-9, hi=9), -3), floor_divide, dtypes="il", grad=False)
pairs("remainder", np.remainder, other=nonzero, numbers=(2, -0.75))
add("remainder", "integers", (real(3, 4, lo=-9, hi=9), nonzero(4)), np.remainder, dtypes="il", grad=False)
add("remainder", "by_integer", (real(3, 4, lo=-9, hi=9), -3), np.remainder, dtypes="il", grad=[0])


def powers(op, number_of):
    for number in number_of:
        text = str(number).replace(".", "_").replace("-", "minus_")
        add(op, "to_" + text, (positive(3, 4), number), np.power, grad=[0],
            dtypes="fil" if isinstance(number, int) and number >= 0 else "f")
    add(op, "negative_base", (real(3, 4), 3), np.power, grad=[0], dtypes="fil")
    for label, shape in SHAPES.items():
        add(op, label, (real(*shape), 2), np.power, grad=[0] if is_small(shape) else False)


powers("pow", (0, 1, 2, 3, 5, -1, -2, 0.5, -0.5, 2.5))
pairs("pow_tensor", np.power, data=positive)
add("pow_tensor", "whole", (real(3, 4), real(3, 4, lo=0.3, hi=1.5, seed=1)), np.power, dtypes="il", grad=False,
    to_int=lambda a: np.abs(np.trunc(a * 3)))
for label, shape in SHAPES.items():
    add("pow_from", label, (2.5, real(*shape)), np.power, grad=[1] if is_small(shape) else False)
add("pow_from", "integer", (2, positive(3, 4)), np.power, grad=[1], dtypes="fil")
add("pow_from", "one", (1, real(3, 4)), np.power, grad=[1])

pairs("maximum", np.maximum, dtypes=ARITHMETIC, second=True)
pairs("minimum", np.minimum, dtypes=ARITHMETIC)
pairs("atan2", np.arctan2, dtypes="fil", out="float")

for op, f in (("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater),
              ("ge", np.greater_equal)):
    pairs(op, f, numbers=(1, 0.625), dtypes=ARITHMETIC, out="b", grad=False)
    add(op, "ties", (np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), f, dtypes=ARITHMETIC, out="b", grad=False)
    add(op, "nan", (np.array([np.nan, 2.0, np.inf, -np.inf, np.nan]), np.array([1.0, np.nan, np.inf, np.inf, np.nan])), f,
        out="b", grad=False)
for op, f in (("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)):
    pairs(op, logical(f), dtypes=ARITHMETIC, out="b", grad=False)
    add(op, "zeros", (np.array([0.0, 1.0, 0.0, np.nan]), np.array([0.0, 0.0, 2.0, 0.0])), logical(f), out="b", grad=False)
for op, f in (("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)):
    pairs(op, f, dtypes="ilb", typed=True, grad=False)
    add(op, "number_5", (real(3, 4, lo=-9, hi=9), 5), f, dtypes="il", typed=True, grad=False)
    add(op, "number_true", (real(3, 4), True), f, dtypes="b", typed=True, grad=False)
    add(f"__{op[8:]}__", "matrix", (real(3, 4), real(4)), f, dtypes="ilb", typed=True, grad=False)
    add(f"__i{op[8:]}__", "matrix", (real(3, 4), real(3, 4, seed=1)), f, dtypes="ilb", typed=True, grad=False)
    add(f"__i{op[8:]}__", "number_5", (real(3, 4, lo=-9, hi=9), 5), f, dtypes="il", typed=True, grad=False)

NEAR = np.array([1.0, 1.0, 1.0, 0.0, np.nan, np.inf, np.inf, -np.inf, 1e10, 2.0])
BESIDE = np.array([1.0, 1.000001, 1.1, 1e-9, np.nan, np.inf, -np.inf, 0.0, 1.00001e10, 3.0])
for label, options in {"usual": {}, "wide": {"rtol": 0.2, "atol": 0.5}, "nan": {"equal_nan": True}, "exact": {"rtol": 0, "atol": 0},
                       "exact_nan": {"rtol": 0, "atol": 0, "equal_nan": True}}.items():
    add("isclose", label, (NEAR, BESIDE), np.isclose, kwargs=options, out="b", dtypes="", grad=False)
for label, shape in SHAPES.items():
    add("isclose", label, (real(*shape), real(*shape, seed=1)), np.isclose, out="b", dtypes="filb", grad=False)
add("isclose", "broadcast", (real(3, 1), real(4)), np.isclose, out="b", dtypes="filb", grad=False)
add("isclose", "of_itself", (real(3, 4), real(3, 4)), np.isclose, out="b", dtypes="filb", grad=False)
