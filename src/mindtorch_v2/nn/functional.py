"""The functions that modules are built on. Converts names of reductions to the ops' numbers."""

import math
import warnings

import mindtorch_v2 as torch
from mindtorch_v2 import _C

_ops = getattr(_C, "ops", torch)  # every op of the table by name, including those without a torch.NAME
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(name, size_average=None, reduce=None):
    """mean, sum or none as the op's number; the two older arguments win over it, as in PyTorch."""
    if size_average is not None or reduce is not None:
        name = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.", stacklevel=3)
    try:
        return _REDUCTIONS[name]
    except (KeyError, TypeError):
        raise ValueError(f"{name} is not a valid value for reduction") from None


# -------------------------------------------------------------------------------------------- activations


def relu(input, inplace=False):
    return input.relu_() if inplace else _ops.relu(input)


def gelu(input, approximate="none"):
    return _ops.gelu(input, approximate=approximate)


def silu(input, inplace=False):
    return _ops.silu_(input) if inplace else _ops.silu(input)


def tanh(input):
    return input.tanh()


def sigmoid(input):
    return input.sigmoid()


def softplus(input, beta=1, threshold=20):
    return _ops.softplus(input, beta, threshold)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return (_ops.leaky_relu_ if inplace else _ops.leaky_relu)(input, negative_slope)


def elu(input, alpha=1.0, inplace=False):
    return (_ops.elu_ if inplace else _ops.elu)(input, alpha)


def logsigmoid(input):
    return -softplus(-input)


def relu6(input, inplace=False):
    return _ops.relu6_(input) if inplace else _ops.relu6(input)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _ops.hardtanh_(input, min_val, max_val) if inplace else _ops.hardtanh(input, min_val, max_val)


def selu(input, inplace=False):
    return (_ops.selu_ if inplace else _ops.selu)(input)


def celu(input, alpha=1.0, inplace=False):
    return (_ops.celu_ if inplace else _ops.celu)(input, alpha)


def threshold(input, threshold, value, inplace=False):
    return (_ops.threshold_ if inplace else _ops.threshold)(input, threshold, value)


def hardsigmoid(input, inplace=False):
    return (_ops.hardsigmoid_ if inplace else _ops.hardsigmoid)(input)


def hardswish(input, inplace=False):
    return (_ops.hardswish_ if inplace else _ops.hardswish)(input)


def mish(input, inplace=False):
    return (_ops.mish_ if inplace else _ops.mish)(input)


hardshrink, softshrink, prelu = _ops.hardshrink, _ops.softshrink, _ops.prelu
relu_, selu_, celu_, threshold_ = _ops.relu_, _ops.selu_, _ops.celu_, _ops.threshold_
elu_, leaky_relu_, hardtanh_ = _ops.elu_, _ops.leaky_relu_, _ops.hardtanh_


def glu(input, dim=-1):
    return _ops.glu(input, dim)


def softsign(input):
    return input / (input.abs() + 1)


def tanhshrink(input):
    return input - input.tanh()


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """In training, each element that is not positive is multiplied by a random number of its own."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    with torch.no_grad():
        low = input <= 0
        slopes = torch.ones_like(input)
        drawn = torch.empty(int(low.sum()), dtype=torch.float64, device=input.device).uniform_(lower, upper)
        slopes[low] = drawn.to(input.dtype)
    return input.mul_(slopes) if inplace else input * slopes


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    return rrelu(input, lower, upper, training, True)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return _ops.softmax(-input, _softmax_dim("softmin", input.dim()) if dim is None else dim, dtype)


def _softmax_dim(name, rank):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if rank in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    return _ops.softmax(input, _softmax_dim("softmax", input.dim()) if dim is None else dim, dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return _ops.log_softmax(input, _softmax_dim("log_softmax", input.dim()) if dim is None else dim, dtype)


def dropout(input, p=0.5, training=True, inplace=False):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace and training and p > 0:
        keep = torch.empty_like(input).bernoulli_(1 - p)
        return input.mul_(keep.div_(1 - p) if p < 1 else keep)
    return _ops.dropout(input, p, training)


# ------------------------------------------------------------------------------- linear, embedding, convolution


linear = _ops.linear


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """`sparse` is accepted but the gradient is dense: the runtime has no sparse tensors."""
    rows = weight.size(0)
    if padding_idx is None:
        padding_idx = -1
    else:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    return _ops.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _shorten_rows(weight, indices, max_norm, norm_type):
    with torch.no_grad():
        at = indices.reshape(-1)
        rows = weight.index_select(0, at)
        norms = rows.norm(norm_type, 1, True)
        weight.index_put_([at], torch.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows))


def one_hot(tensor, num_classes=-1):
    return _ops.one_hot(tensor, num_classes)


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def pad(input, pad, mode="constant", value=None):
    """Constant padding: `pad` lists the amounts before and after, starting with the last dim."""
    return _ops.pad(input, list(pad), mode, value)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    stride, dilation = _pair(stride), _pair(dilation)
    if isinstance(padding, str):
        if padding == "valid":
            padding = (0, 0)
        elif padding == "same":
            if stride != (1, 1):
                raise RuntimeError("padding='same' is not supported for strided convolutions")
            total = [d * (k - 1) for d, k in zip(dilation, weight.shape[-2:])]
            padding = tuple(t // 2 for t in total)
            odd = [t % 2 for t in total]
            if any(odd):  # the odd one goes at the end
                input = pad(input, [0, odd[1], 0, odd[0]])
        else:
            raise RuntimeError(f"Invalid padding string: '{padding}'")
    return _ops.conv2d(input, weight, bias, stride, _pair(padding), dilation, groups)


conv1d = _ops.conv1d


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    op = _ops.max_pool2d_with_indices if return_indices else _ops.max_pool2d
    return op(input, _pair(kernel_size), [] if stride is None else _pair(stride), _pair(padding), _pair(dilation), ceil_mode)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    return _ops.avg_pool2d(
        input, _pair(kernel_size), [] if stride is None else _pair(stride), _pair(padding), ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


def adaptive_avg_pool2d(input, output_size):
    sizes = _pair(output_size) if output_size is not None else (None, None)
    sizes = [input.shape[i - 2] if size is None else size for i, size in enumerate(sizes)]
    return _ops.adaptive_avg_pool2d(input, sizes)


# ------------------------------------------------------------------------------------------- normalisation


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return _ops.layer_norm(input, list(normalized_shape), weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    return _ops.rms_norm(input, list(normalized_shape), weight, eps)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        values = input.numel() // max(1, input.size(1))
        if values == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
    return _ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    size = [input.size(0) * input.size(1) // num_groups, num_groups, *input.size()[2:]]
    if size[0] * input[0, 0].numel() == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
    return _ops.group_norm(input, num_groups, weight, bias, eps)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if use_input_stats and input.dim() > 1 and math.prod(input.size()[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return _ops.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    return input / input.norm(p, dim, True).clamp_min(eps).expand_as(input)


# -------------------------------------------------------------------------------------------------- losses


def _same_size(input, target):
    """Both broadcast to a common shape, with PyTorch's warning if they differ."""
    if target.size() == input.size():
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    shape = (input.detach() + target.detach()).shape
    return input.expand(shape), target.expand(shape)


def _weighted(losses, weight, reduction):
    if weight.size() != losses.size():
        raise ValueError("Weights and input must have the same size.")
    losses = losses * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.sum() / weight.sum()
    raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    kind = _reduction(reduction, size_average, reduce)
    input, target = _same_size(input, target)
    if weight is not None:
        return _weighted((input - target).pow(2), weight, reduction)
    return _ops.mse_loss(input, target, kind)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    kind = _reduction(reduction, size_average, reduce)
    input, target = _same_size(input, target)
    if weight is not None:
        return _weighted((input - target).abs(), weight, reduction)
    return _ops.l1_loss(input, target, kind)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    kind = _reduction(reduction, size_average, reduce)
    input, target = _same_size(input, target)
    return _ops.l1_loss(input, target, kind) if beta == 0.0 else _ops.smooth_l1_loss(input, target, kind, beta)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return _ops.nll_loss_nd(input, target, weight, _reduction(reduction, size_average, reduce), ignore_index)


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    kind = _reduction(reduction, size_average, reduce)
    return _ops.cross_entropy_loss(input, target, weight, kind, ignore_index, label_smoothing)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    kind = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    weight = weight.expand_as(input) if weight is not None else None
    return _ops.binary_cross_entropy(input, target, weight, kind)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    kind = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, kind)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    if reduction == "batchmean":
        total = _ops.kl_div(input, target, _REDUCTIONS["sum"], log_target=log_target)
        return total / input.size(0) if input.dim() else total
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    return _ops.kl_div(input, target, _reduction(reduction, size_average, reduce), log_target=log_target)


# ----------------------------------------------------------------------------------------------- attention


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    return _ops.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                             enable_gqa=enable_gqa)


from ._attention import canonical_mask as _canonical_mask, multi_head_attention_forward, none_or_dtype as _none_or_dtype  # noqa: E402,F401
