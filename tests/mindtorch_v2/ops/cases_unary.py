"""Elementwise ops with one operand."""
import math

import numpy as np

from .case import SHAPES, add, positive, real
from .cases_binary import is_small

erf = np.vectorize(math.erf, otypes=[np.float64])


def every_shape(op, want, data=real, args=(), **options):
    grad = options.pop("grad", True)
    for label, shape in SHAPES.items():
        add(op, label, (data(*shape), *args), want, grad=grad and is_small(shape), **options)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0])


def odd(op, want, **options):
    """Infinities and NaN."""
    with np.errstate(all="ignore"):
        add(op, "odd_values", (ODD.copy(),), want, grad=False, **options)


every_shape("neg", np.negative, dtypes="fil")
every_shape("abs", np.abs, dtypes="fil")
every_shape("sign", np.sign, dtypes="filb")
every_shape("sgn", np.sign, dtypes="filb")
for op, f in (("floor", np.floor), ("ceil", np.ceil), ("round", np.round), ("trunc", np.trunc)):
    every_shape(op, f, dtypes="fil")
    add(op, "halves", (np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e15 + 0.5]),), f, grad=False)
    odd(op, f)
every_shape("square", np.square, dtypes="fil", node="PowBackward0")
FLOATING = dict(dtypes="filb", out="float")
every_shape("exp", np.exp, **FLOATING)
every_shape("expm1", np.expm1, **FLOATING)
for op, f in (("log", np.log), ("log1p", np.log1p), ("log2", np.log2), ("sqrt", np.sqrt),
              ("rsqrt", lambda x: 1 / np.sqrt(x))):
    every_shape(op, f, data=positive, dtypes="fil", out="float")
    odd(op, f)
every_shape("reciprocal", lambda x: 1 / x, data=positive, dtypes="fil", out="float")
for op, f in (("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh), ("sigmoid", sigmoid), ("erf", erf)):
    every_shape(op, f, **FLOATING)
every_shape("tan", np.tan, data=lambda *s: real(*s, lo=-1.2, hi=1.2), **FLOATING)
for op, f in (("exp", np.exp), ("tanh", np.tanh), ("sigmoid", sigmoid), ("abs", np.abs), ("erf", erf)):
    odd(op, f)
add("exp", "far", (np.array([-800.0, -100.0, 80.0, 700.0, 800.0]),), np.exp, grad=False, dtypes="")
add("sigmoid", "far", (np.array([-800.0, -100.0, 80.0, 700.0]),), sigmoid, grad=False)
add("tanh", "far", (np.array([-800.0, -20.0, 1e-9, 20.0, 700.0]),), np.tanh, grad=False)
TRUTH = dict(out="b", grad=False)
for op, f in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
    every_shape(op, f, dtypes="filb", **TRUTH)
    add(op, "odd_values", (ODD.copy(),), f, **TRUTH)
every_shape("logical_not", lambda x: np.logical_not(x), dtypes="filb", **TRUTH)
add("logical_not", "zeros", (ODD.copy(),), np.logical_not, **TRUTH)
every_shape("bitwise_not", np.bitwise_not, dtypes="ilb", typed=True, grad=False)

every_shape("relu", lambda x: np.maximum(x, 0), dtypes="fil")


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def silu(x):
    return x * sigmoid(x)


def softplus(x, beta=1, threshold=20):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, 50))) / beta)


def leaky_relu(x, negative_slope=0.01):
    return np.where(x > 0, x, x * negative_slope)


def elu(x, alpha=1, scale=1, input_scale=1):
    return np.where(x > 0, x, alpha * np.expm1(x * input_scale)) * scale


every_shape("gelu", gelu)
add("gelu", "tanh", (real(3, 4),), gelu, kwargs={"approximate": "tanh"})
every_shape("silu", silu)
every_shape("softplus", softplus)
add("softplus", "beta", (real(3, 4), 2.5, 3), softplus, grad=[0])
every_shape("leaky_relu", leaky_relu)
add("leaky_relu", "slope", (real(3, 4), 0.3), leaky_relu, grad=[0])
every_shape("elu", elu)
add("elu", "alpha", (real(3, 4), 1.7, 1.05, 0.8), elu, grad=[0])


def clamp(x, min=None, max=None):
    return np.clip(x, min, max)


every_shape("clamp", clamp, args=(-1, 1), dtypes="fil")
add("clamp", "min", (real(3, 4), 0.25), clamp, grad=[0])
add("clamp", "max", (real(3, 4), None, 0.25), clamp, grad=[0])
add("clamp", "crossed", (real(3, 4), 1, -1), lambda x, lo, hi: np.full_like(x, hi), grad=False)
add("clamp", "nan", (np.array([np.nan, 3.0, -3.0]), -1, 1), clamp, grad=False)
add("clamp", "float_of_integers", (real(3, 4), -0.5, 0.5), lambda x, lo, hi: np.clip(x, lo, hi), dtypes="il", out="float",
    grad=False)
every_shape("clamp_min", lambda x, lo: np.maximum(x, lo), args=(0.25,))
add("clamp_min", "integer", (real(3, 4), 1), lambda x, lo: np.maximum(x, lo), dtypes="fil", grad=[0])

every_shape("hardtanh", lambda x, lo=-1, hi=1: np.clip(x, lo, hi), dtypes="fil")
add("hardtanh", "bounds", (real(3, 4), -0.3, 1.2), clamp, grad=[0])
every_shape("relu6", lambda x: np.clip(x, 0, 6), dtypes="fil", node="HardtanhBackward0")
