"""Initialisers. They draw the same random numbers as PyTorch's, in the same order."""

import math
import warnings

import mindtorch_v2 as torch

_GAINS = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3, "selu": 3.0 / 4}
_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid")


def calculate_gain(nonlinearity, param=None):
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _random(tensor, draw, generator, *range):
    with torch.no_grad():
        return getattr(tensor, draw)(*range) if generator is None else getattr(tensor, draw)(*range, generator=generator)


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    return _random(tensor, "uniform_", generator, a, b)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    return _random(tensor, "normal_", generator, mean, std)


def constant_(tensor, val):
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    return constant_(tensor, 1.0)


def zeros_(tensor):
    with torch.no_grad():
        return tensor.zero_()


def eye_(tensor):
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with torch.no_grad():
        return tensor.copy_(torch.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _bias_bound(weight):
    """Linear and Conv2d draw their bias from [-bound, bound]."""
    fan_in, _ = _calculate_fan_in_and_fan_out(weight)
    return 1 / math.sqrt(fan_in) if fan_in > 0 else 0


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _nothing_to_do(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def xavier_uniform_(tensor, gain=1.0, generator=None):
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if _nothing_to_do(tensor):
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if _nothing_to_do(tensor):
        return tensor
    return normal_(tensor, 0, calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode)), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Rows (or columns) become orthonormal, times gain: the Q of a random matrix, its signs made unique."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    import numpy

    rows = tensor.size(0)
    flat = normal_(torch.empty(rows, tensor.numel() // rows, dtype=tensor.dtype), 0, 1, generator).numpy()
    tall = flat.T if flat.shape[0] < flat.shape[1] else flat
    q, r = numpy.linalg.qr(tall)
    q = q * numpy.sign(numpy.diag(r))
    q = q.T if flat.shape[0] < flat.shape[1] else q
    with torch.no_grad():
        return tensor.copy_(torch.from_numpy(numpy.ascontiguousarray(q, dtype=flat.dtype)).view(tensor.shape)).mul_(gain)
