"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

import mindtorch_v2 as torch
from ..utils._record import tag_parameter as _tag_parameter


class Parameter(torch.Tensor):
    """A leaf tensor that is optimised. Shares the memory of `data`."""

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = torch.empty(0)
        self = torch.Tensor._make_subclass(cls, data.detach(), requires_grad)
        _tag_parameter(self)
        return self

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class Buffer(torch.Tensor):
    """A tensor that belongs to a module and is not optimised; persistent ones are part of its state_dict."""

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = torch.empty(0)
        self = torch.Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        self.persistent = persistent
        return self

    def __repr__(self):
        return "Buffer containing:\n" + super().__repr__()
