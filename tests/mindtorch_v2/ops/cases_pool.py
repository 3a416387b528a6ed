"""Convolution and pooling over images."""
import numpy as np

from .case import add, pulled_back, real

SUMS = dict(rtol=1e-9, rtol32=1e-4)
PULLED = dict(rtol=1e-6, rtol32=2e-4)


def two(v):
    return (v, v) if np.isscalar(v) else tuple(v) if len(v) == 2 else (v[0], v[0])


def windows(x, kernel, stride, padding, dilation=(1, 1), fill=0.0, out=None):
    """(..., OH, OW, KH, KW): what each output sees."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = kernel, stride, padding, dilation
    oh, ow = out or ((x.shape[-2] + 2 * ph - dh * (kh - 1) - 1) // sh + 1,
                     (x.shape[-1] + 2 * pw - dw * (kw - 1) - 1) // sw + 1)
    wide = np.full((*x.shape[:-2], (oh - 1) * sh + dh * (kh - 1) + 1 + x.shape[-2] + ph,
                    (ow - 1) * sw + dw * (kw - 1) + 1 + x.shape[-1] + pw), fill)
    wide[..., ph:ph + x.shape[-2], pw:pw + x.shape[-1]] = x
    rows = (np.arange(oh) * sh)[:, None] + np.arange(kh) * dh
    columns = (np.arange(ow) * sw)[:, None] + np.arange(kw) * dw
    return wide[..., rows[:, None, :, None], columns[None, :, None, :]]


def convolution(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    batched = x.ndim == 4
    x = x if batched else x[None]
    seen = windows(x, w.shape[2:], two(stride), two(padding), two(dilation))
    n, o, cg = x.shape[0], w.shape[0], w.shape[1]
    seen = seen.reshape(n, groups, cg, *seen.shape[2:])
    out = np.einsum("ngchwij,gocij->ngohw", seen,
                    w.reshape(groups, o // groups, *w.shape[1:])).reshape(n, o, *seen.shape[3:5])
    if bias is not None:
        out = out + bias[:, None, None]
    return out if batched else out[0]


def general(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    return convolution(x, w, bias, stride, padding, dilation, groups)


# label, image, weight, stride, padding, dilation, groups
CONVOLUTIONS = (("plain", (2, 2, 4, 5), (3, 2, 3, 2), 1, 0, 1, 1), ("padded", (1, 2, 4, 4), (2, 2, 3, 3), 1, 1, 1, 1),
                ("strided", (1, 1, 7, 6), (2, 1, 3, 3), (2, 3), (1, 0), 1, 1),
                ("dilated", (1, 1, 6, 7), (1, 1, 2, 3), 1, (0, 2), (2, 3), 1),
                ("groups", (2, 4, 3, 3), (4, 2, 2, 2), 1, 0, 1, 2), ("depthwise", (1, 3, 4, 4), (3, 1, 3, 3), 1, 1, 1, 3),
                ("pointwise", (2, 3, 3, 3), (4, 3, 1, 1), 1, 0, 1, 1), ("no_batch", (0, 2, 4, 4), (3, 2, 3, 3), 1, 0, 1, 1),
                ("large", (3, 8, 17, 19), (6, 8, 3, 3), 1, 1, 1, 1))
for label, image, weight, stride, padding, dilation, groups in CONVOLUTIONS:
    x, w, b = real(*image), real(*weight, seed=1), real(weight[0], seed=2)
    small = label != "large"
    options = (two(stride), two(padding), two(dilation), groups)
    rest = (two(stride), two(padding), two(dilation), False, (0, 0), groups)
    add("conv2d", label, (x, w, b, *options), convolution, grad=small, node="ConvolutionBackward0", **SUMS)
    add("convolution", label, (x, w, b, *rest), general, grad=small, **SUMS)
    add("convolution", label + "_no_bias", (x, w, None, *rest), general, grad=[0, 1] if small else False,
        **SUMS)
    g = real(*convolution(x, w, b, *options).shape, seed=3)
    if small:
        def back(grad, x, w, sizes, stride, padding, dilation, transposed, output_padding, groups, which):
            args = (x, w, np.zeros(w.shape[0]), stride, padding, dilation, groups)
            return tuple(pulled_back(convolution, i)(grad, *args) for i in range(3))
        add("convolution_backward", label, (g, x, w, (weight[0],), *rest, (1, 1, 1)), back, **PULLED)
add("conv2d", "no_batch_dim", (real(2, 4, 4), real(3, 2, 3, 3, seed=1), real(3, seed=2)), convolution,
    node=False, **SUMS)
add("conv2d", "standard", (real(1, 2, 4, 4), real(3, 2, 3, 3, seed=1)), convolution,
    node="ConvolutionBackward0", **SUMS)
add("conv2d", "single_ints", (real(1, 2, 5, 5), real(3, 2, 3, 3, seed=1), None, 2, 1), convolution, grad=[0, 1],
    node="ConvolutionBackward0", torch=False, **SUMS)


def convolution1(x, w, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    return convolution(x[..., None, :], w[:, :, None, :], bias, (1, *stride), (0, *padding), (1, *dilation),
                       groups).squeeze(-2)


for label, line, weight, options in (("plain", (2, 2, 6), (3, 2, 3), ()), ("padded", (1, 2, 5), (2, 2, 3), ((2,), (1,))),
                                     ("dilated", (1, 1, 9), (2, 1, 3), ((1,), (0,), (2,))),
                                     ("groups", (2, 4, 5), (4, 2, 2), ((1,), (0,), (1,), 2)),
                                     ("no_batch", (0, 2, 6), (3, 2, 3), ()), ("no_batch_dim", (2, 6), (3, 2, 3), ())):
    add("conv1d", label, (real(*line), real(*weight, seed=1), real(weight[0], seed=2), *options), convolution1,
        node=False, **SUMS)


def out_size(n, k, s, p, d, ceil):
    size = -(-(n + 2 * p - d * (k - 1) - 1) // s) + 1 if ceil else (n + 2 * p - d * (k - 1) - 1) // s + 1
    return size - 1 if ceil and (size - 1) * s >= n + p else size


def pool_shape(x, kernel, stride, padding, dilation, ceil):
    return tuple(out_size(n, k, s, p, d, ceil) for n, k, s, p, d in zip(x.shape[-2:], kernel, stride, padding, dilation))


def max_pool(x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    kernel = two(kernel)
    stride = kernel if np.size(stride) == 0 else two(stride)
    padding, dilation = two(padding), two(dilation)
    out = pool_shape(x, kernel, stride, padding, dilation, ceil_mode)
    seen = windows(x, kernel, stride, padding, dilation, -np.inf, out)
    places = windows(np.broadcast_to(np.arange(x.shape[-1] * x.shape[-2]).reshape(x.shape[-2:]), x.shape), kernel, stride,
                     padding, dilation, -1, out)
    flat = seen.reshape(*seen.shape[:-2], kernel[0] * kernel[1])
    at = np.argmax(flat, axis=-1)[..., None]
    return np.take_along_axis(flat, at, -1)[...,
                                            0], np.take_along_axis(places.reshape(flat.shape), at,
                                                                   -1)[..., 0].astype(np.int64)


POOLS = (("plain", (2, 2, 4, 6), (2,)), ("strided", (1, 2, 5, 5), (3, 1)),
         ("padded", (1, 1, 5, 4), ((3, 2), (2, 1), (1, 1))), ("dilated", (1, 1, 6, 6), (2, 1, 0, 2)),
         ("ceil", (1, 1, 5, 6), (2, 2, 0, 1, True)),
         ("ceil_padded", (1, 1, 6, 5), (3, 2, 1, 1, True)), ("no_batch_dim", (2, 4, 4), (2,)),
         ("no_batch", (0, 2, 4, 4), (2,)), ("large", (3, 5, 16, 18), (2,)))
for label, shape, args in POOLS:
    x = real(*shape)
    small = label != "large"
    add("max_pool2d", label, (x, *args), lambda *a: max_pool(*a)[0], grad=[0] if small else False,
        node="MaxPool2DWithIndicesBackward0")
    add("max_pool2d_with_indices", label, (x, *args), max_pool, out=("same", "l"), grad=[0] if small else False)
    full = (two(args[0]), two(args[1] if len(args) > 1 else args[0]), two(args[2] if len(args) > 2 else 0),
            two(args[3] if len(args) > 3 else 1), len(args) > 4)
    values, places = max_pool(x, *full)
    if small:
        add("max_pool2d_with_indices_backward", label, (real(*values.shape, seed=3), x, *full, places),
            lambda g, x, *rest: pulled_back(lambda x: max_pool(x, *rest[:-1])[0], 0)(g, x), grad=[0], **PULLED)


def average_pool(x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    kernel = two(kernel)
    stride = kernel if np.size(stride) == 0 else two(stride)
    padding = two(padding)
    out = pool_shape(x, kernel, stride, padding, (1, 1), ceil_mode)
    total = windows(x, kernel, stride, padding, out=out).sum((-1, -2))
    if divisor_override:
        return total / divisor_override
    held = np.pad(np.ones(x.shape[-2:]), [(padding[0], padding[0]), (padding[1], padding[1])],
                  constant_values=1.0 if count_include_pad else 0.0)
    return total / windows(held, kernel, stride, (0, 0), out=out).sum((-1, -2))


AVERAGES = (("plain", (2, 2, 4, 6), (2,)), ("strided", (1, 2, 5, 5), (3, 1)),
            ("padded", (1, 1, 5, 4), ((3, 2), (2, 1), (1, 1))), ("not_counted", (1, 1, 5, 4),
                                                                 ((3, 2), (2, 1), (1, 1), False, False)),
            ("ceil", (1, 1, 5, 6), (2, 2, 0, True)), ("ceil_padded", (1, 1, 6, 5), (3, 2, 1, True)),
            ("divisor", (1, 1, 4, 4), (2, 2, 0, False, True, 3)), ("no_batch_dim", (2, 4, 4), (2,)),
            ("no_batch", (0, 2, 4, 4), (2,)), ("large", (3, 5, 16, 18), (2,)))
for label, shape, args in AVERAGES:
    x = real(*shape)
    small = label != "large"
    add("avg_pool2d", label, (x, *args), average_pool, grad=[0] if small else False, **SUMS)
    full = list(args) + [(), 0, False, True, None][len(args) - 1:]
    full = (two(full[0]), two(full[1]) if np.size(full[1]) else two(full[0]), two(full[2]), *full[3:])
    if small:
        add("avg_pool2d_backward", label, (real(*average_pool(x, *full).shape, seed=3), x, *full),
            pulled_back(average_pool, 0), **PULLED)


def adaptive(x, size):
    oh, ow = two(size)
    h, w = x.shape[-2:]
    out = np.zeros((*x.shape[:-2], oh, ow))
    for i in range(oh):
        for j in range(ow):
            out[..., i, j] = x[..., i * h // oh:-(-(i + 1) * h // oh), j * w // ow:-(-(j + 1) * w // ow)].mean((-1, -2))
    return out


for label, shape, size in (("uneven", (2, 2, 5, 7), (3, 2)), ("even", (1, 2, 4, 6), (2, 3)), ("same", (1, 1, 3, 3), (3, 3)),
                           ("larger", (1, 1, 2, 3), (4, 5)), ("no_batch_dim", (2, 5, 4), (2, 2))):
    x = real(*shape)
    add("adaptive_avg_pool2d", label, (x, size), adaptive, grad=[0], node="AdaptiveAvgPool2DBackward0",
        **SUMS)
    add("_adaptive_avg_pool2d", label, (x, size), adaptive, grad=[0], **SUMS)
    add("_adaptive_avg_pool2d_backward", label, (real(*adaptive(x, size).shape, seed=3), x),
        lambda g, x: pulled_back(adaptive, 0)(g, x, g.shape[-2:]), **PULLED)
add("adaptive_avg_pool2d", "single_int", (real(1, 2, 5, 5), 2), adaptive, grad=[0],
    node="AdaptiveAvgPool2DBackward0", torch=False, **SUMS)
add("adaptive_avg_pool2d", "to_one", (real(2, 3, 4, 5), (1, 1)), adaptive, grad=[0], node="MeanBackward1", **SUMS)
