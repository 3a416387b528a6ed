"""RNN, LSTM and GRU, and their cells: a module holds the parameters, an op of that name runs all layers and steps."""

import math
import numbers
import warnings

import mindtorch_v2 as torch
from .. import init
from ..functional import _ops
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size):
    if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
        raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
            f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value, kind in (("bias", bias, bool), ("batch_first", batch_first, bool)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _uniform(module):
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNBase(Module):
    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
        proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        gates, width = _GATES[mode] * hidden_size, proj_size or hidden_size
        self._all_weights = []
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else width * (1 + bool(bidirectional))
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes = {"weight_ih": (gates, inputs), "weight_hh": (gates, width)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for name, shape in shapes.items():
                    names.append(f"{name}_l{layer}{suffix}")
                    setattr(self, names[-1], Parameter(torch.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def all_weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return [getattr(self, name, None) for name in self._flat_weights_names]

    def flatten_parameters(self):
        """Nothing: the ops take the parameters wherever they lie."""

    def reset_parameters(self):
        _uniform(self)

    def check_input(self, input, batch_sizes):
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not any(torch.is_autocast_enabled(kind) for kind in ("cpu", "npu")):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). "
                f"Convert input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _state_size(self, input, batch_sizes, width):
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self.num_layers * (1 + bool(self.bidirectional)), batch, width

    def get_expected_hidden_size(self, input, batch_sizes):
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else hx.index_select(1, permutation)

    # What differs for LSTM, whose state is a pair:

    def _zero_state(self, input, batch_sizes):
        size = self.get_expected_hidden_size(input, batch_sizes)
        return torch.zeros(*size, dtype=input.dtype, device=input.device)

    def _batched_state(self, hx, batched):
        rank, kind = (3, "batched 3-D") if batched else (2, "unbatched 2-D")
        if hx.dim() != rank:
            raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def _unbatched_state(self, hidden):
        return hidden.squeeze(1)

    def _run(self, input, hx, batch_sizes):
        name = self.mode.lower()
        options = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            result = getattr(_ops, name)(input, hx, *options, self.batch_first)
        else:
            result = getattr(_ops, name + "_data")(input, batch_sizes, hx, *options)
        return result[0], tuple(result[1:]) if len(result) > 2 else result[1]

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            words = " tensor" if self.mode.startswith("RNN") else ""
            name = "RNN" if words else self.mode
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D{words} instead")
        batched, batch_dim = input.dim() == 3, 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        hx = self._zero_state(input, None) if hx is None else self._batched_state(hx, batched)
        self.check_forward_args(input, hx, None)
        output, hidden = self._run(input, hx, None)
        if batched:
            return output, hidden
        return output.squeeze(batch_dim), self._unbatched_state(hidden)

    def _forward_packed(self, packed, hx):
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        hx = self._zero_state(data, batch_sizes) if hx is None else self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._run(data, hx, batch_sizes)
        output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return output, self.permute_hidden(hidden, unsorted_indices)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0), ("bidirectional", False),
        ):  # fmt: skip
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes):
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for i in range(2):
            self.check_hidden_size(hidden[i], sizes[i], f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else tuple(t.index_select(1, permutation) for t in hx[:2])

    def _zero_state(self, input, batch_sizes):
        sizes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        return tuple(torch.zeros(*size, dtype=input.dtype, device=input.device) for size in sizes)

    def _batched_state(self, hx, batched):
        rank, kind = (3, "batched 3-D") if batched else (2, "unbatched 2-D")
        if hx[0].dim() != rank or hx[1].dim() != rank:
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        return hx if batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def _unbatched_state(self, hidden):
        return hidden[0].squeeze(1), hidden[1].squeeze(1)


class RNNCellBase(Module):
    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows, made = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(torch.empty((rows, input_size), **made))
        self.weight_hh = Parameter(torch.empty((rows, hidden_size), **made))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(torch.empty(rows, **made)) if bias else None)
        self.reset_parameters()

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def reset_parameters(self):
        _uniform(self)

    def _check_rank(self, what, t):
        if t.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected {what} to be 1D or 2D, got {t.dim()}D instead")

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _one_state(self, op, input, hx):
        """forward() of the cells that have one state."""
        self._check_rank("input", input)
        if hx is not None:
            self._check_rank("hidden", hx)
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        out = op(input, hx, *self._weights())
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._one_state(_ops.rnn_tanh_cell if self.nonlinearity == "tanh" else _ops.rnn_relu_cell, input, hx)


class GRUCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._one_state(_ops.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        self._check_rank("input", input)
        for i, state in enumerate(hx or ()):
            self._check_rank(f"hx[{i}]", state)
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = _ops.lstm_cell(input, hx, *self._weights())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))
