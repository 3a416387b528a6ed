"""Elementwise ops with three operands, and the derivatives xxx_backward of those with one."""
import numpy as np

from .case import SHAPES, add, mask, positive, pulled_back, real
from .cases_binary import is_small, nonzero
from .cases_unary import elu, gelu, leaky_relu, silu, softplus, sigmoid

for label, shape in SHAPES.items():
    small = is_small(shape)
    add("where", label, (mask(*shape), real(*shape), real(*shape, seed=1)), np.where, dtypes="filb", grad=small)
    add("masked_fill", label, (real(*shape), mask(*shape), 0.5), lambda x, m, v: np.where(m, v, x), grad=[0] if small else False)
add("where", "broadcast", (mask(3, 1), real(4), real(2, 3, 4, seed=1)), np.where)
add("where", "number", (mask(3, 4), real(3, 4), 2.5), np.where, grad=[1])
add("where", "number_left", (mask(3, 4), 2, real(3, 4)), np.where, grad=[2], dtypes="fil")
add("where", "zero_dim", (mask(3, 4), real(), real(3, 4)), np.where)
add("masked_fill", "broadcast", (real(2, 3, 4), mask(3, 1), 1.5), lambda x, m, v: np.where(m, v, x), grad=[0])
add("masked_fill", "infinite", (real(2, 3, 4), mask(3, 1), -np.inf), lambda x, m, v: np.where(m, v, x), grad=False)
add("masked_fill", "tensor", (real(3, 4), mask(4), real(seed=1)), lambda x, m, v: np.where(m, v, x))
add("masked_fill", "integer", (real(3, 4), mask(3, 4), 7), lambda x, m, v: np.where(m, v, x), dtypes="fil", grad=[0])
add("masked_fill", "grows", (real(4), mask(3, 4), 1.5), lambda x, m, v: np.where(m, v, x), grad=[0])

for label, shape in SHAPES.items():
    args = (real(*shape), real(*shape, seed=1), nonzero(*shape, seed=2))
    small = is_small(shape)
    add("addcmul", label, args, lambda x, a, b: x + a * b, grad=small, dtypes="fil")
    add("addcdiv", label, args, lambda x, a, b: x + a / b, grad=small)
    add("lerp", label, args[:2] + (0.3,), lambda x, e, w: x + w * (e - x), grad=[0, 1] if small else False)
args = (real(3, 4), real(3, 1, seed=1), nonzero(4, seed=2))
add("addcmul", "value", args, lambda x, a, b, value: x + value * a * b, kwargs={"value": -0.5})
add("addcdiv", "value", args, lambda x, a, b, value: x + value * a / b, kwargs={"value": 3})
add("lerp", "outside", (real(3, 4), real(4, seed=1), 1.7), lambda x, e, w: x + w * (e - x), grad=[0, 1])
add("lerp", "weights", (real(3, 4), real(3, 4, seed=1), real(3, 4, lo=0.1, hi=1.9, seed=2)),
    lambda x, e, w: x + w * (e - x))

LOOSE = dict(rtol=1e-7, rtol32=1e-4)


def at_result(f, inverse):
    """Of a derivative that is given the op's result: the reference is the forward at the argument that has it."""
    return lambda grad, result, *args: pulled_back(f, 0)(grad, inverse(result), *args)


for label, shape in SHAPES.items():
    small = is_small(shape)
    if not small:
        shape = (7, 19)
    g, x = real(*shape, seed=3), real(*shape)
    inside = real(*shape, lo=0.1, hi=0.9)
    add("threshold_backward", label, (g, x, 0), pulled_back(lambda x, t: np.maximum(x, t), 0), grad=[0] if small else False,
        dtypes="f", **LOOSE)
    add("tanh_backward", label, (g, inside), at_result(np.tanh, np.arctanh), grad=small, **LOOSE)
    add("sigmoid_backward", label, (g, inside), at_result(sigmoid, lambda y: np.log(y / (1 - y))), grad=small, **LOOSE)
    add("gelu_backward", label, (g, x), pulled_back(gelu, 0), grad=small, **LOOSE)
    add("silu_backward", label, (g, x), pulled_back(silu, 0), grad=small, torch=False, **LOOSE)  # has no derivative there
    add("softplus_backward", label, (g, x, 1, 20), pulled_back(softplus, 0), grad=small, **LOOSE)
    add("leaky_relu_backward", label, (g, x, 0.01, False),
        lambda g, x, s, is_result: pulled_back(leaky_relu, 0)(g, x, s), grad=small, **LOOSE)
    add("hardtanh_backward", label, (g, x, -1, 1), lambda g, x, lo, hi: g * ((x > lo) & (x < hi)), grad=[0] if small else False)
    add("elu_backward", label, (g, 1, 1, 1, False, x),
        lambda g, a, s, i, is_result, x: pulled_back(elu, 0)(g, x, a, s, i), grad=small, **LOOSE)
add("gelu_backward", "tanh", (real(3, 4, seed=3), real(3, 4)),
    lambda g, x, approximate: pulled_back(lambda x: gelu(x, "tanh"), 0)(g, x),
    kwargs={"approximate": "tanh"}, **LOOSE)
add("threshold_backward", "at_half", (real(3, 4, seed=3), real(3, 4), 0.5), lambda g, x, t: g * (x > t), grad=[0])
add("softplus_backward", "beta", (real(3, 4, seed=3), real(3, 4), 2.5, 3), pulled_back(softplus, 0), **LOOSE)
add("elu_backward", "alpha", (real(3, 4, seed=3), 1.7, 1.05, 0.8, False, real(3, 4)),
    lambda g, a, s, i, is_result, x: pulled_back(elu, 0)(g, x, a, s, i), **LOOSE)
