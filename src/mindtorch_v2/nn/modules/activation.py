"""Activations and Dropout. Modules that only wrap a function with options are generated from a table."""

from .. import functional as F
from .module import Module


def _made(name, function, options=(), shown=(), doc=None):
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
        parts = [f"{option}={getattr(self, option)!r}" for option in shown]
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
