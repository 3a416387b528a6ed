"""Gradient clipping, by total norm or element by element."""

import mindtorch_v2 as torch
from ..functional import _ops


def _listed(parameters):
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    tensors = _listed(tensors)
    if not tensors:
        return torch.tensor(0.0)
    norm_type = float(norm_type)
    with torch.no_grad():
        norms = torch.stack([_ops.linalg_vector_norm(t.detach(), norm_type) for t in tensors])
        total = _ops.linalg_vector_norm(norms, norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    with torch.no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.mul_(scale)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients so that their total norm is at most max_norm; returns the norm before."""
    parameters = _listed(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    clip_value = float(clip_value)
    with torch.no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(-clip_value, clip_value)
