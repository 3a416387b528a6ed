"""Collates samples into batches."""

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

import numpy

import mindtorch_v2 as torch

_WRONG = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_collate(batch):
    """A batch from a list of samples: tensors are stacked, numbers become tensors, containers keep their structure."""
    first = batch[0]
    kind = type(first)
    if isinstance(first, torch.Tensor):
        return torch.stack(list(batch), 0)
    if isinstance(first, numpy.ndarray):
        if first.dtype.kind in "SUOa":
            raise TypeError(_WRONG.format(first.dtype))
        return torch.from_numpy(numpy.stack(batch))
    if isinstance(first, (numpy.bool_, numpy.number)):
        return torch.from_numpy(numpy.asarray(batch))
    if isinstance(first, float):
        return torch.tensor(batch, dtype=torch.float64)
    if isinstance(first, int):
        return torch.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _of_mappings(batch, first, kind)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(default_collate(samples) for samples in zip(*batch)))
    if isinstance(first, Sequence):
        return _of_sequences(batch, first, kind)
    raise TypeError(_WRONG.format(kind))


def _of_mappings(batch, first, kind):
    values = {key: default_collate([sample[key] for sample in batch]) for key in first}
    try:
        if isinstance(first, MutableMapping):
            clone = copy.copy(first)  # it may have more attributes than its items
            clone.update(values)
            return clone
        return kind(values)
    except TypeError:
        return values


def _of_sequences(batch, first, kind):
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    values = [default_collate(samples) for samples in zip(*batch)]
    if isinstance(first, tuple):
        return values
    try:
        if isinstance(first, MutableSequence):
            clone = copy.copy(first)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return kind(values)
    except TypeError:
        return values


def default_convert(data):
    """Without batching: arrays become tensors, everything else is unchanged."""
    if isinstance(data, (numpy.ndarray, numpy.number, numpy.bool_)):
        array = numpy.asarray(data)
        return data if array.dtype.kind in "SUOa" else torch.from_numpy(array)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(value) for value in data]
    return data
