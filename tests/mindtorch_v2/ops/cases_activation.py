"""Activations that are composed of other ops."""
import numpy as np

from .case import add, real
from .cases_binary import is_small
from .cases_unary import elu, every_shape, sigmoid

SELU = (1.6732632423543772, 1.0507009873554805)
NONE = dict(node=False)


def hardsigmoid(x):
    return np.clip(x + 3, 0, 6) / 6


def mish(x):
    return x * np.tanh(np.logaddexp(0, x))


def wide(*shape):
    return real(*shape, lo=-4.6, hi=4.6)


every_shape("selu", lambda x: elu(x, *SELU), node=False)
every_shape("celu", lambda x, alpha=1.0: elu(x, alpha, 1.0, 1 / alpha), node=False)
add("celu", "alpha", (real(3, 4), 1.7), lambda x, alpha: elu(x, alpha, 1.0, 1 / alpha), grad=[0], node=False)
every_shape("hardsigmoid", hardsigmoid, wide, **NONE)
every_shape("hardswish", lambda x: x * hardsigmoid(x), wide, **NONE)
every_shape("mish", mish, wide, **NONE)
every_shape("hardshrink", lambda x, b=0.5: np.where(np.abs(x) > b, x, 0), **NONE)
every_shape("softshrink", lambda x, b=0.5: x - np.clip(x, -b, b), **NONE)
for op, f in (("hardshrink", lambda x, b: np.where(np.abs(x) > b, x, 0)), ("softshrink", lambda x, b: x - np.clip(x, -b, b))):
    add(op, "bound", (real(3, 4), 1.25), f, grad=[0], **NONE)
    add(op, "odd_values", (np.array([np.inf, -np.inf, np.nan, 0.5, -0.5, 0.0]), 0.5), f if op == "softshrink" else
        lambda x, b: np.where(np.abs(x) <= b, 0, x), grad=False, second=False)
for label, shape in (("matrix", (3, 4)), ("cube", (2, 3, 2)), ("empty", (0,)), ("scalar", ()), ("large", (37, 131))):
    add("threshold", label, (real(*shape), 0.25, -1.5), lambda x, t, v: np.where(x > t, x, v), grad=[0] if is_small(shape) else False, **NONE)
add("threshold", "whole", (real(3, 4), 1, 7), lambda x, t, v: np.where(x > t, x, v), dtypes="fil", grad=[0], **NONE)
add("threshold", "nan", (np.array([np.nan, 1.0, -np.inf]), 0.0, 3.0), lambda x, t, v: np.where(x <= t, v, x), grad=False)


def glu(x, dim=-1):
    a, b = np.split(x, 2, axis=dim)
    return a * sigmoid(b)


for label, shape, args in (("rows", (4, 3), (0,)), ("last", (3, 4), ()), ("cube", (2, 4, 3), (1,)), ("hole", (0, 2), ()), ("large", (37, 130), ())):
    add("glu", label, (real(*shape), *args), glu, grad=[0] if is_small(shape) else False, **NONE)


def prelu(x, w):
    if w.size > 1:
        w = w.reshape((1, -1) + (1,) * (x.ndim - 2))
    return np.where(x > 0, x, w.reshape(w.shape if w.size > 1 else ()) * x)


for label, shape, slopes in (("one", (3, 4), (1,)), ("channels", (3, 4), (4,)), ("images", (2, 3, 2, 2), (3,)), ("scalar", (), (1,)), ("vector", (5,), (1,)),
                             ("zero_dim", (2, 3), ()), ("empty", (0, 3), (3,)), ("large", (37, 131), (131,))):
    add("prelu", label, (real(*shape), real(*slopes, seed=2)), prelu, grad=is_small(shape), **NONE)
