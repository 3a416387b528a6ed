"""Parameters as one vector, and back."""

import mindtorch_v2 as torch


def parameters_to_vector(parameters):
    return torch.cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    for p in parameters:
        count = p.numel()
        p.data = vec[at : at + count].view_as(p).data
        at += count
