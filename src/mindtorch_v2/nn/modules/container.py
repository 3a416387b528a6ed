"""Modules that hold other modules (or parameters) in order or by name."""

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping

import mindtorch_v2 as torch
from ..parameter import Parameter
from .module import Module, _indented


class _Listed(Module):
    """Base of Sequential and ModuleList: children by position, stored under the keys "0", "1", ..."""

    def _key(self, index):
        """The key of an index, which may be negative."""
        size = len(self)
        index = operator.index(index)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return str(index % size)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]

    def _renumber(self, modules):
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def pop(self, key):
        module = self[key]
        del self[key]
        return module


class Sequential(_Listed):
    """Calls its modules in order, each with the previous one's output."""

    def __init__(self, *args):
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def _name_at(self, index):
        return list(self._modules)[int(self._key(index))]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index, module):
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index):
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times):
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*itertools.chain.from_iterable(itertools.repeat(list(self), times)))

    __rmul__ = __mul__

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Listed):
    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index, module):
        setattr(self, self._key(index), module)

    def __delitem__(self, index):
        keys = [str(k) for k in range(len(self))[index]] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        self._renumber(list(self._modules.values()))

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return type(self)(itertools.chain(self, other))

    def extend(self, modules):
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        return super().extend(modules)

    def __repr__(self):
        """Identical neighbours are written once."""
        if len(self) == 0:
            return self._get_name() + "()"
        lines, start = [], 0
        texts = [repr(module) for module in self]
        for text, run in itertools.groupby(texts):
            count = len(list(run))
            label = f"({start})" if count == 1 else f"({start}-{start + count - 1})"
            lines.append(_indented(f"{label}: {text if count == 1 else f'{count} x {text}'}", 2))
            start += count
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        return self._modules.pop(key)

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleDict.update should be called with an iterable of key/value pairs, but got {type(modules).__name__}"
            )
        for key, module in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters; tensors assigned to it become parameters."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _key(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return str(index % len(self))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)([getattr(self, str(i)) for i in range(len(self))[index]])
        return getattr(self, self._key(index))

    def __setitem__(self, index, value):
        self._put(self._key(index), value)

    def _put(self, key, value):
        if isinstance(value, torch.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values):
        return self.extend(values)

    def append(self, value):
        self._size += 1
        self._put(str(self._size - 1), value)
        return self

    def extend(self, values):
        if not isinstance(values, Iterable) or isinstance(values, torch.Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        lines = []
        for i, value in enumerate(self):
            if isinstance(value, torch.Tensor):
                kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
                size = "x".join(map(str, value.size()))
                lines.append(f"  ({i}): {kind} containing: [{str(value.dtype)} of size {size}]")
            else:
                lines.append(f"  ({i}): Object of type: {type(value).__name__}")
        return "\n".join(lines)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")
