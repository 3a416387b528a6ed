"""Softmax and normalisation."""
import numpy as np

from .case import add, positive, pulled_back, real
from .cases_matrix import softmax
from .peer import Dtype

SUMS = dict(rtol=1e-9, rtol32=1e-4)
PULLED = dict(rtol=1e-6, rtol32=2e-4)
SHAPES = {"last": ((3, 4), 1), "first": ((3, 4), 0), "negative": ((2, 3, 4), -2), "vector": ((5,), 0), "scalar": ((), 0),
          "hole": ((0, 3), 1), "over_nothing": ((2, 0), 1), "large_last": ((37, 131), 1), "large_first": ((37, 131), 0)}


def soft(x, dim, *rest):
    return softmax(x, dim) if x.ndim else np.ones(())


def log_soft(x, dim, *rest):
    return np.log(soft(x, dim))


for label, (shape, dim) in SHAPES.items():
    x = real(*shape)
    small = not label.startswith("large")
    grad = [0] if small else False
    for op, f, node in (("softmax", soft, "SoftmaxBackward0"), ("log_softmax", log_soft, "LogSoftmaxBackward0")):
        add(op, label, (x, dim), f, grad=grad, node=node, **SUMS)
        add("_" + op, label, (x, dim, False), f, grad=grad, **SUMS)
        y = np.asarray(f(x, dim))
        g = real(*shape, seed=3)
        if small:
            def back(grad, y, dim, dtype, f=f, op=op):
                return pulled_back(lambda x: f(x, dim), 0)(grad, np.log(y) if op == "softmax" else y)
            add(f"_{op}_backward_data", label, (g, y, dim, Dtype("d")), back, dtypes="",
                grad=[0] if op == "log_softmax" else [0, 1], **PULLED)
for op, f in (("softmax", soft), ("log_softmax", log_soft)):
    add(op, "to_float64", (real(3, 4), 1, Dtype("d")), f, dtypes="fil", out="d", grad=False, **SUMS)
    add(op, "far", (np.array([[1000.0, 1001.0], [-1000.0, -1001.0]]), 1), f, grad=False)
add("softmax", "masked", (np.array([[1.0, -np.inf, 2.0]]), 1), soft, grad=False)


def layer(x, shape, weight=None, bias=None, eps=1e-5, *unused):
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    mean = x.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(x.var(axes, keepdims=True) + eps)
    y = (x - mean) * rstd
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, rstd


for label, shape, normal in (("matrix", (3, 4), (4,)), ("cube", (2, 3, 4), (4,)), ("two_dims", (2, 3, 4), (3, 4)),
                             ("all", (5,), (5,)), ("no_rows", (0, 4), (4,)), ("large", (37, 131), (131,))):
    x, w, b = real(*shape), positive(*normal, seed=1), real(*normal, seed=2)
    small = label != "large"
    add("layer_norm", label, (x, normal, w, b), lambda *a: layer(*a)[0], grad=small,
        node="NativeLayerNormBackward0", **SUMS)
    add("layer_norm", label + "_plain", (x, normal), lambda *a: layer(*a)[0], grad=small,
        node="NativeLayerNormBackward0", **SUMS)
    add("native_layer_norm", label, (x, normal, w, b, 1e-3), layer, grad=small, grad_outs=[0], **SUMS)
    add("native_layer_norm", label + "_weight", (x, normal, w, None, 1e-3), layer, grad=[0, 2] if small else False,
        grad_outs=[0], **SUMS)
    if small:
        _, mean, rstd = layer(x, normal, w, b)

        def back(g, x, shape, mean, rstd, w, b, which):
            f = lambda x, w, b: layer(x, shape, w, b)[0]  # noqa: E731
            return tuple(pulled_back(f, i)(g, x, w, b) for i in range(3))
        add("native_layer_norm_backward", label, (real(*shape, seed=3), x, normal, mean, rstd, w, b, (1, 1, 1)), back,
            grad=False, free=False, **PULLED)


def channels(x, v):
    return np.reshape(v, (1, -1) + (1,) * (x.ndim - 2))


def batch(x, weight, bias, mean, var, training, momentum, eps, *unused):
    axes = (0,) + tuple(range(2, x.ndim))
    if training:
        mean, var = x.mean(axes), x.var(axes)
    rstd = 1 / np.sqrt(var + eps)
    y = (x - channels(x, mean)) * channels(x, rstd)
    y = y if weight is None else y * channels(x, weight)
    y = y if bias is None else y + channels(x, bias)
    return (y, mean, rstd) if training else (y, np.zeros(0), np.zeros(0))


for label, shape in (("images", (2, 3, 2, 2)), ("matrix", (5, 3)), ("lines", (2, 3, 4)), ("large", (4, 3, 17, 19))):
    x, w, b = real(*shape), positive(3, seed=1), real(3, seed=2)
    mean, var = real(3, seed=4), positive(3, seed=5)
    small = label != "large"
    for training in (True, False):
        name = label + ("_training" if training else "_eval")
        add("batch_norm", name, (x, w, b, mean, var, training, 0.1, 1e-5, True), lambda *a: batch(*a)[0],
            grad=[0, 1, 2] if small else False, node="NativeBatchNormBackward0", **SUMS)
        add("_batch_norm_impl_index", name, (x, w, b, mean, var, training, 0.1, 1e-5, True), batch,
            grad=[0, 1, 2] if small else False, grad_outs=[0],
            node="NativeBatchNormBackward0", torch=False, **SUMS)
        add("native_batch_norm", name, (x, w, b, mean, var, training, 0.1, 1e-5), batch, grad=[0, 1, 2] if small else False,
            grad_outs=[0], **SUMS)
        if small:
            saved = batch(x, w, b, mean, var, training, 0.1, 1e-5)[1:]

            def back(g, x, w, mean, var, saved_mean, saved_rstd, train, eps, which):
                f = lambda x, w, b: batch(x, w, b, mean, var, train, 0.1, eps)[0]  # noqa: E731
                return tuple(pulled_back(f, i)(g, x, w, np.zeros(3)) for i in range(3))
            add("native_batch_norm_backward", name, (real(*shape, seed=3), x, w, mean, var, *saved, training, 1e-5,
                                                     (1, 1, 1)), back, grad=False, free=False, **PULLED)
    add("batch_norm", label + "_bare", (x, None, None, None, None, True, 0.1, 1e-5, True), lambda *a: batch(*a)[0],
        grad=[0] if small else False, node="NativeBatchNormBackward0", **SUMS)


def rms(x, shape, weight=None, eps=None):
    scale = 1 / np.sqrt(np.mean(x * x, axis=tuple(range(-len(shape), 0)), keepdims=True) + (2.0**-52 if eps is None else eps))
    return x * scale * (1 if weight is None else weight), scale


for label, shape, normal in (("rows", (3, 4), (4,)), ("whole", (3, 4), (3, 4)), ("cube", (2, 3, 2), (3, 2)), ("vector", (5,), (5,)),
                             ("large", (37, 131), (131,))):
    small = label != "large"
    x, w = real(*shape), real(*normal, seed=1)
    add("rms_norm", label, (x, normal, w), lambda *a: rms(*a)[0], grad=small, node="MulBackward0", **SUMS)
    add("rms_norm", label + "_plain", (x, normal, None, 1e-3), lambda *a: rms(*a)[0], grad=[0] if small else False,
        node="MulBackward0", **SUMS)
    add("_fused_rms_norm", label, (x, normal, w, 1e-3), rms, grad=small, grad_outs=[0], node="MulBackward0", **SUMS)


def group(x, groups, weight=None, bias=None, eps=1e-5, *unused):
    rows = x.reshape(x.shape[0], groups, -1)
    y = ((rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + eps)).reshape(x.shape)
    y = y if weight is None else y * channels(x, weight)
    return y if bias is None else y + channels(x, bias)


def instance(x, weight, bias, mean, var, of_input, momentum, eps, *unused):
    if of_input:
        return group(x, x.shape[1], weight, bias, eps)
    y = channels(x, weight) * (x - channels(x, mean)) / np.sqrt(channels(x, var) + eps)
    return y + channels(x, bias)


for label, shape, groups in (("images", (2, 4, 2, 2), 2), ("matrix", (3, 4), 2), ("one", (2, 4, 3), 1), ("large", (4, 6, 17, 19), 3)):
    x, w, b = real(*shape), positive(shape[1], seed=1), real(shape[1], seed=2)
    small = label != "large"
    add("group_norm", label, (x, groups, w, b), group, grad=small, node=False, **SUMS)
    add("group_norm", label + "_plain", (x, groups, None, None, 1e-3), group, grad=[0] if small else False, node=False, **SUMS)
    if len(shape) > 2:
        add("instance_norm", label, (x, w, b, None, None, True, 0.1, 1e-5, True), instance, grad=[0, 1, 2] if small else False, node=False, **SUMS)
        kept = (real(shape[1], seed=4), positive(shape[1], seed=5))
        add("instance_norm", label + "_eval", (x, w, b, *kept, False, 0.1, 1e-5, True), instance, grad=[0, 1, 2] if small else False, node=False, **SUMS)
