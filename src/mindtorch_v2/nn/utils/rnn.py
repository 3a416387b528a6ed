"""Batches of sequences of different lengths: padded to the longest, or packed without padding."""

from collections import namedtuple
from collections.abc import Iterable

import mindtorch_v2 as torch
from ..functional import _ops

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(namedtuple("PackedSequence_", "data batch_sizes sorted_indices unsorted_indices")):
    """Step after step the rows of all sequences that are that long; batch_sizes, on the CPU, has their numbers.

    The sequences are in order of length: sorted_indices leads there from the user's order, unsorted_indices back."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order = (None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *order)

    def cuda(self, *args, **kwargs):
        return self.to(self.data.cuda(*args, **kwargs).device)

    def cpu(self, *args, **kwargs):
        return self.to("cpu")

    def double(self):
        return self.to(dtype=torch.float64)

    def float(self):
        return self.to(dtype=torch.float32)

    def half(self):
        return self.to(dtype=torch.float16)

    def long(self):
        return self.to(dtype=torch.int64)

    def int(self):
        return self.to(dtype=torch.int32)

    def short(self):
        return self.to(dtype=torch.int16)

    def char(self):
        return self.to(dtype=torch.int8)

    def byte(self):
        return self.to(dtype=torch.uint8)

    @property
    def is_cuda(self):
        return self.data.is_cuda


def invert_permutation(permutation):
    if permutation is None:
        return None
    order = torch.arange(0, permutation.numel(), device=permutation.device)
    return torch.empty_like(permutation).scatter_(0, permutation, order.to(permutation.dtype))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    if isinstance(lengths, torch.Tensor):
        lengths = lengths.to(dtype=torch.int64)
    else:
        lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
    order = None
    if not enforce_sorted:
        lengths, order = torch.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    data, batch_sizes = _ops._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, order, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    padded, lengths = _ops._pad_packed_sequence(sequence.data, sequence.batch_sizes, batch_first, padding_value, longest)
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    return _ops.pad_sequence(tuple(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    steps = torch.arange(padded_sequences.shape[1], device=lengths.device)
    return [sequence[steps < length] for sequence, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences, enforce_sorted=True):
    lengths = torch.as_tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
