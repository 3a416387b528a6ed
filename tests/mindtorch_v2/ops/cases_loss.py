"""Losses. reduction: 0 none, 1 mean, 2 sum."""
import numpy as np

from .case import add, integers, positive, pulled_back, real
from .cases_unary import sigmoid

SUMS = dict(rtol=1e-9, rtol32=1e-4)
PULLED = dict(rtol=1e-6, rtol32=2e-4, grad=False)
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
SHAPES = {"matrix": (3, 4), "scalar": (), "empty": (0,), "large": (37, 131)}


def reduced(values, reduction):
    with np.errstate(all="ignore"):
        return values if reduction == 0 else np.sum(values) if reduction == 2 else np.divide(np.sum(values), values.size)


def mse(x, y, reduction=1):
    return reduced((x - y)**2, reduction)


def l1(x, y, reduction=1):
    return reduced(np.abs(x - y), reduction)


def smooth_l1(x, y, reduction=1, beta=1.0):
    d = np.abs(x - y)
    return reduced(np.where(d < beta, 0.5 * d * d / beta if beta else d, d - 0.5 * beta), reduction)


def bce(x, y, weight=None, reduction=1):
    with np.errstate(all="ignore"):
        v = -(y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log(1 - x), -100))
    return reduced(v if weight is None else v * weight, reduction)


def bce_logits(x, y, weight=None, pos_weight=None, reduction=1):
    p = 1 if pos_weight is None else pos_weight
    v = -(p * y * np.log(sigmoid(x)) + (1 - y) * np.log(sigmoid(-x)))
    return reduced(v if weight is None else v * weight, reduction)


def kl(x, y, reduction=1, log_target=False):
    return reduced(np.exp(y) * (y - x) if log_target else y * (np.log(y) - x), reduction)


for label, shape in SHAPES.items():
    x, y = real(*shape), real(*shape, seed=1)
    p, q, w = real(*shape, lo=0.1, hi=0.9), real(*shape, lo=0.05, hi=0.95, seed=1), positive(*shape, seed=2)
    small = label != "large"
    for how, r in REDUCTIONS.items():
        name = f"{label}_{how}"
        add("mse_loss", name, (x, y, r), mse, grad=small, **SUMS)
        add("l1_loss", name, (x, y, r), l1, grad=small, node={0: "AbsBackward0", 1: "MeanBackward0", 2: "SumBackward0"}[r],
            **SUMS)
        add("smooth_l1_loss", name, (x, y, r), smooth_l1, grad=[0] if small else False, **SUMS)
        add("smooth_l1_loss", name + "_beta", (x, y, r, 0.3), smooth_l1, grad=[0] if small else False, **SUMS)
        add("binary_cross_entropy", name, (p, q, None, r), bce, grad=[0] if small else False, **SUMS)
        add("binary_cross_entropy", name + "_weight", (p, q, w, r), bce, grad=[0] if small else False, **SUMS)
        add("binary_cross_entropy_with_logits", name, (x, q, None, None, r), bce_logits, grad=[0] if small else False,
            **SUMS)
        add("binary_cross_entropy_with_logits", name + "_weights", (x, q, w, positive(*shape[-1:], seed=4), r), bce_logits,
            grad=[0] if small else False, **SUMS)
        add("kl_div", name, (x, q, r), kl, grad=[0] if small else False, node=False, **SUMS)
        add("kl_div", name + "_log", (x, y, r), kl, kwargs={"log_target": True}, grad=[0] if small else False, node=False,
            **SUMS)
        if small:
            g = real(*(shape if r == 0 else ()), seed=3)
            add("mse_loss_backward", name, (g, x, y, r), pulled_back(mse, 0), **(PULLED | {"grad": True}))
            add("smooth_l1_loss_backward", name, (g, x, y, r, 0.7), pulled_back(smooth_l1, 0), **PULLED)
            add("binary_cross_entropy_backward", name, (g, p, q, w, r), pulled_back(bce, 0), **PULLED)
add("mse_loss", "both", (real(3, 4), real(3, 4, seed=1)), mse, **SUMS)
add("mse_loss", "broadcast", (real(3, 4), real(4, seed=1)), mse, torch=False,
    **SUMS)  # whose op does not broadcast its gradient
add("mse_loss_backward", "standard", (real(seed=3), real(3, 4), real(3, 4, seed=1), 1), pulled_back(mse, 0), **PULLED)
add("binary_cross_entropy_with_logits", "far", (np.array([-500.0, 500.0]), np.array([0.0, 1.0])),
    lambda x, y: np.array(0.0), grad=False)
add("binary_cross_entropy", "ends", (np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0])), bce, grad=False)


def nll(x, target, weight=None, reduction=1, ignore_index=-100):
    single = x.ndim == 1
    if single:
        x, target = x[None], np.reshape(target, (1,))
    c = x.shape[1]
    w = np.ones(c) if weight is None else weight
    safe = np.where(target == ignore_index, 0, target)
    weights = np.where(target == ignore_index, 0.0, w[safe])
    picked = np.take_along_axis(x, np.expand_dims(safe, 1), 1).squeeze(1)
    losses = -weights * picked
    with np.errstate(all="ignore"):
        out = losses if reduction == 0 else np.sum(losses) if reduction == 2 else np.divide(np.sum(losses), np.sum(weights))
    total = 0.0 if reduction == 0 else np.sum(weights)
    return (out[0] if single and reduction == 0 else out), np.asarray(total)


def log_softmax(x, axis):
    m = x.max(axis, keepdims=True, initial=-1e300)
    return x - m - np.log(np.sum(np.exp(x - m), axis, keepdims=True))


def cross_entropy(x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    axis = 0 if x.ndim == 1 else 1
    logs = log_softmax(x, axis)
    c = x.shape[axis]
    w = np.ones(c) if weight is None else weight
    shape = [1] * x.ndim
    shape[axis] = c
    if target.dtype.kind == "f":
        soft = target * (1 - label_smoothing) + label_smoothing / c
        losses = -np.sum(soft * logs * w.reshape(shape), axis)
        return losses if reduction == 0 else np.sum(losses) if reduction == 2 else np.sum(losses) / max(x.size // c, 1)
    plain = nll(logs, target, weight, reduction, ignore_index)[0]
    if not label_smoothing:
        return plain
    smooth = np.where(target == ignore_index, 0.0, -np.sum(logs * w.reshape(shape), axis))
    if reduction == 1:
        smooth = np.sum(smooth) / np.sum(np.where(target == ignore_index, 0.0,
                                                  w[np.where(target == ignore_index, 0, target)]))
    elif reduction == 2:
        smooth = np.sum(smooth)
    return (1 - label_smoothing) * plain + label_smoothing / c * smooth


TARGET = np.array([0, 3, 1, -100, 3])
for how, r in REDUCTIONS.items():
    x, w = real(5, 4), positive(4, seed=1)
    for label, weight, ignore in (("plain", None, -100), ("weight", w, -100), ("ignore", w, 3)):
        target = np.where(TARGET == -100, 2, TARGET) if ignore == 3 else TARGET
        args = (x, target, weight, r, ignore)
        name = f"{label}_{how}"
        add("nll_loss", name, args, lambda *a: nll(*a)[0], grad=[0], node="NllLossBackward0", **SUMS)
        add("nll_loss_nd", name, args, lambda *a: nll(*a)[0], grad=[0], node="NllLossBackward0", **SUMS)
        add("nll_loss_forward", name, args, nll, grad=[0], grad_outs=[0], **SUMS)
        total = nll(*args)[1]
        g = real(*((5,) if r == 0 else ()), seed=3)
        add("nll_loss_backward", name, (g, *args, total),
            lambda g, x, t, w, r, ignore, total: pulled_back(lambda x: nll(x, t, w, r, ignore)[0], 0)(g, x), free=False,
            **PULLED)
        add("cross_entropy_loss", name, args, cross_entropy, grad=[0], node=False, **SUMS)
        add("cross_entropy_loss", name + "_smoothed", (*args, 0.2), cross_entropy, grad=[0], node=False,
            **SUMS)
    add("cross_entropy_loss", "probabilities_" + how, (x, real(5, 4, lo=0.05, hi=0.45, seed=2), w, r), cross_entropy,
        grad=[0, 1], node=False, **SUMS)
    one = np.array(2)
    add("nll_loss", "one_sample_" + how, (real(4), one, None, r), lambda *a: nll(*a)[0], grad=[0],
        node="NllLossBackward0", **SUMS)
    add("nll_loss_nd", "one_sample_" + how, (real(4), one, None, r), lambda *a: nll(*a)[0], grad=[0],
        node="NllLossBackward0", **SUMS)
    add("cross_entropy_loss", "one_sample_" + how, (real(4), one, None, r), cross_entropy, grad=[0],
        node=False, **SUMS)
    add("cross_entropy_loss", "large_" + how, (real(37, 131), integers(37, hi=131), None, r), cross_entropy, grad=False,
        **SUMS)
    add("cross_entropy_loss", "no_samples_" + how, (real(0, 4), np.zeros(0, dtype=np.int64), None, r), cross_entropy,
        grad=False, **SUMS)
add("cross_entropy_loss", "standard", (real(5, 4), np.array([0, 1, 2, 3, 0])), cross_entropy, grad=[0],
    node=False, **SUMS)
add("cross_entropy_loss", "images", (real(2, 3, 2, 2), integers(2, 2, 2, hi=3)), cross_entropy, grad=[0],
    node=False, **SUMS)

for how, r in REDUCTIONS.items():
    x, t, w = real(2, 3, 2, 2), integers(2, 2, 2, hi=3), positive(3, seed=1)
    t[0, 1, 1] = -100
    for label, weight in (("plain", None), ("weight", w)):
        args = (x, t, weight, r, -100)
        name = f"{label}_{how}"
        add("nll_loss2d", name, args, lambda *a: nll(*a)[0], grad=[0], node="NllLoss2DBackward0", **SUMS)
        add("nll_loss2d_forward", name, args, nll, grad=[0], grad_outs=[0], **SUMS)
        g = real(*(t.shape if r == 0 else ()), seed=3)
        add("nll_loss2d_backward", name, (g, *args, nll(*args)[1]),
            lambda g, x, t, w, r, ignore, total: pulled_back(lambda x: nll(x, t, w, r, ignore)[0], 0)(g, x), free=False,
            **PULLED)


def xlogy(x, y):
    with np.errstate(all="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


for label, shape in SHAPES.items():
    add("xlogy", label, (real(*shape), positive(*shape, seed=1)), xlogy, grad=label != "large", dtypes="fil", out="float",
        **SUMS)
add("xlogy", "broadcast", (real(3, 1), positive(4, seed=1)), xlogy, dtypes="fil", out="float")
add("xlogy", "zeros", (np.array([0.0, 0.0, 0.0, 1.0, 0.0]), np.array([0.0, 1.0, np.inf, 0.0, np.nan])), xlogy, grad=False)
