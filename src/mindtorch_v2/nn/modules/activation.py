"""Activations and Dropout. Modules that only wrap a function with options are generated from a table."""

import warnings

import mindtorch_v2 as torch
from .. import functional as F
from ..init import constant_
from ..parameter import Parameter
from .module import Module


def _made(name, function, options=(), shown=(), doc=None, named=True, quiet=False):
    """A module class: `options` are (argument, default) pairs that become attributes and are passed to the function."""

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        if len(args) > len(options):
            raise TypeError(f"{name}.__init__() takes {len(options) + 1} positional arguments but {len(args) + 1} were given")
        given = dict(zip((option for option, _ in options), args))
        for key, value in kwargs.items():
            if key in given:
                raise TypeError(f"{name}.__init__() got multiple values for argument '{key}'")
            if key not in dict(options):
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{key}'")
            given[key] = value
        for option, default in options:
            setattr(self, option, given.get(option, default))

    def forward(self, input):
        return function(input, **{option: getattr(self, option) for option, _ in options})

    def extra_repr(self):
        parts = [f"{option}={getattr(self, option)!r}" if named else str(getattr(self, option)) for option in shown]
        if quiet:
            return ""
        return ", ".join(parts + (["inplace=True"] if getattr(self, "inplace", False) else []))

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": __name__, "__doc__": doc}
    return type(name, (Module,), body)


_INPLACE = ("inplace", False)
ReLU = _made("ReLU", F.relu, [_INPLACE])
ReLU6 = _made("ReLU6", F.relu6, [_INPLACE])
SiLU = _made("SiLU", F.silu, [_INPLACE])
GELU = _made("GELU", F.gelu, [("approximate", "none")], ["approximate"])
Tanh = _made("Tanh", F.tanh)
Sigmoid = _made("Sigmoid", F.sigmoid)
LogSigmoid = _made("LogSigmoid", F.logsigmoid)
Softplus = _made("Softplus", F.softplus, [("beta", 1.0), ("threshold", 20.0)], ["beta", "threshold"])
LeakyReLU = _made("LeakyReLU", F.leaky_relu, [("negative_slope", 0.01), _INPLACE], ["negative_slope"])
ELU = _made("ELU", F.elu, [("alpha", 1.0), _INPLACE], ["alpha"])
Softmax = _made("Softmax", F.softmax, [("dim", None)], ["dim"])
LogSoftmax = _made("LogSoftmax", F.log_softmax, [("dim", None)], ["dim"])

SELU = _made("SELU", F.selu, [_INPLACE])
CELU = _made("CELU", F.celu, [("alpha", 1.0), _INPLACE], ["alpha"])
Hardsigmoid = _made("Hardsigmoid", F.hardsigmoid, [_INPLACE], quiet=True)
Hardswish = _made("Hardswish", F.hardswish, [_INPLACE], quiet=True)
Mish = _made("Mish", F.mish, [_INPLACE])
Softsign = _made("Softsign", F.softsign)
Tanhshrink = _made("Tanhshrink", F.tanhshrink)
Softshrink = _made("Softshrink", F.softshrink, [("lambd", 0.5)], ["lambd"], named=False)
Hardshrink = _made("Hardshrink", F.hardshrink, [("lambd", 0.5)], ["lambd"], named=False)
GLU = _made("GLU", F.glu, [("dim", -1)], ["dim"])
Softmin = _made("Softmin", F.softmin, [("dim", None)], ["dim"])


class Hardtanh(Module):
    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        for name, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                text = f"keyword argument `{name}` is deprecated and rename to `{name[:7]}`"
                warnings.warn(text, FutureWarning, stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)



class Dropout(Module):
    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"
