"""torch's experimental event tree: every event of a recording with its children, its parent and typed fields.

    tree = prof.profiler.kineto_results.experimental_event_tree()   # the roots
    for child in tree[0].children:
        print(child.name, child.tag, child.extra_fields)

The tree is built in C, once (include/mtprof_analysis.h, "tree"); an object is created when an event is accessed. As long as it is
referenced, accessing the event again returns the same object.
"""

from __future__ import annotations

import json
import re
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import mtprof

from mtprof.profiler.common import Alike, RecordScope
from mtprof.profiler.framework import GENERIC, Framework


class _EventType(Alike, IntEnum):
    """The kind of an event."""

    TorchOp = 0
    Backend = 1
    Vulkan = 2
    Allocation = 3
    OutOfMemory = 4
    PyCall = 5
    PyCCall = 6
    Kineto = 7
    PythonGC = 8

    __hash__ = IntEnum.__hash__
    __str__ = Enum.__str__

    def __repr__(self) -> str:
        return f"<_EventType.{self.name}: {self.value}>"


# ------------------------------------------------------------------------------------------------ what a tree knows

# The frameworks' names of mtp_dtype, and of the texts that traces have for them.
_DTYPES = {1: "float32", 2: "float64", 3: "float16", 4: "bfloat16", 5: "int64", 6: "int32", 7: "int16", 8: "int8", 9: "uint8", 10: "bool",
           11: "complex64", 12: "complex128", 13: "uint16", 14: "uint32", 15: "uint64", 16: "complex32", 17: "float8_e5m2", 18: "float8_e4m3fn",
           19: "float8_e5m2fnuz", 20: "float8_e4m3fnuz", 21: "qint8", 22: "quint8", 23: "qint32",
           24: "float8_e8m0fnu", 25: "float4_e2m1fn_x2"}
_KINETO_DTYPES = {"float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16", "long int": "int64",
                  "int": "int32", "short int": "int16", "signed char": "int8", "unsigned char": "uint8", "bool": "bool",
                  "c10::complex<float>": "complex64", "c10::complex<double>": "complex128", "short unsigned int": "uint16",
                  "unsigned int": "uint32", "long unsigned int": "uint64", "c10::complex<c10::Half>": "complex32",
                  "c10::Float8_e5m2": "float8_e5m2", "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
                  "c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::qint8": "qint8", "c10::quint8": "quint8", "c10::qint32": "qint32",
                  "c10::Float8_e8m0fnu": "float8_e8m0fnu", "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2"}
_UNKNOWN = (0, 0, -1, -1, 0, -1, 0)  # a tensor with a known shape only


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _number(text: str) -> bool | int | float | None:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


class _Shape:
    """The parsed texts of some inputs: kind, dims, strides and value of each."""

    __slots__ = ("items",)

    def __init__(self, dims: str, strides: str, types: str, concrete: str) -> None:
        read = [json.loads(text) if text else [] for text in (dims, strides, types, concrete)]
        count = len(read[2])
        for part in read:
            part.extend([""] * (count - len(part)))
        self.items = list(zip(read[2], read[0], read[1], read[3]))


class _Tree:
    """A native tree with the objects created from it."""

    def __init__(self, trace: mtprof.Trace, framework: Framework) -> None:
        self.native = trace.tree()
        self.framework, self.strided = framework, framework.strided
        self._devices: dict[tuple[int, int], Any] = {}
        self._dtypes: dict[str | None, Any] = {None: None}
        self.events: WeakValueDictionary[int, _ProfilerEvent] = WeakValueDictionary()
        self.shapes: dict[int, _Shape] = {}

    def event(self, node: int) -> _ProfilerEvent:
        found = self.events.get(node)
        if found is None:
            found = self.events[node] = _ProfilerEvent._of(self, node)
        return found

    def device(self, kind: int, index: int) -> Any:
        """The framework's object for a device."""
        found = self._devices.get((kind, index))
        if found is None:
            name = "cpu" if kind == 0 else f"{self.framework.accelerator}:{max(index, 0)}"
            found = self._devices[(kind, index)] = self.framework.device(name)
        return found

    def dtype(self, number: int, text: str) -> Any:
        """The framework's object for a dtype: by its number or, if that is unknown, by its text in traces."""
        name = _DTYPES.get(number) or _KINETO_DTYPES.get(text)
        if name not in self._dtypes:
            self._dtypes[name] = self.framework.dtype(name)
        return self._dtypes[name]

    def shape(self, number: int, node: int, part: int = -1) -> _Shape:
        found = self.shapes.get(number)
        if found is None:
            found = self.shapes[number] = _Shape(*self.native.shape(node, part))
        return found

    def inputs(self, shape: _Shape, tensors: list[tuple[int, ...]]) -> list[Any]:
        """One value per input: a _TensorMetadata, a list of these, a number, or None."""
        rest = iter(tensors)
        out: list[Any] = []
        for kind, dims, strides, value in shape.items:
            if kind == "TensorList":
                listed = [(next(rest, _UNKNOWN), d, s) for d, s in zip(dims, strides)]
                out.append([_TensorMetadata._of(self, *one) for one in listed if one[0][0] or not tensors])
            elif kind == "Scalar":
                out.append(_number(value))
            elif kind in ("", "ScalarList"):
                out.append(None)
            else:
                out.append(_TensorMetadata._of(self, next(rest, _UNKNOWN), dims, strides, kind))
        return out

    def parts(self, node: int) -> list[list[Any]]:
        """The tensors of a call's object, part by part; texts unchanged."""
        out = []
        for part, (number, tensors) in enumerate(self.native.held(node)):
            shape = self.shape(number, node, part)
            values = self.inputs(shape, tensors)
            texts = [value for _, _, _, value in shape.items]
            out.append([text if isinstance(text, str) and text and kind == "" else value
                        for (kind, _, _, _), text, value in zip(shape.items, texts, values)])
        return out

    @cached_property
    def owners(self) -> dict[int, list[list[Any]]]:
        """An object's address -> its tensors when it was first seen."""
        out: dict[int, list[list[Any]]] = {}
        for node in range(len(self.native)):
            if self.native.node(node)[9] > 1:
                parts = self.parts(node)
                out.setdefault(parts[0][1], parts[1:])
        return out


# ---------------------------------------------------------------------------------------------------------- tensors


class _TensorMetadata:
    """A tensor at the time of an event: its identity (impl_ptr, id), memory (storage_data_ptr, allocation_id) and shape.
    Unrecorded fields are None."""

    __slots__ = ("impl_ptr", "storage_data_ptr", "id", "allocation_id", "device", "dtype", "layout", "sizes", "strides")

    @classmethod
    def _of(cls, tree: _Tree, tensor: tuple[int, ...], dims: list[int], strides: list[int], kind: str = "") -> _TensorMetadata:
        number, storage, ident, allocation, device_type, device_index, dtype = tensor
        self = cls.__new__(cls)
        self.impl_ptr = number or None
        self.storage_data_ptr = storage if number else None
        self.id, self.allocation_id = _known(ident), _known(allocation)
        self.device = tree.device(device_type, device_index)
        self.dtype = tree.dtype(dtype, kind)
        self.layout = tree.strided
        self.sizes, self.strides = list(dims or ()), list(strides or ())
        return self

    @property
    def dim(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"<_TensorMetadata id={self.id} allocation_id={self.allocation_id} sizes={self.sizes}>"


# ------------------------------------------------------------------------------------------------------ extra fields


class _Fields:
    """Fields of one event, read on access."""

    __slots__ = ("_tree", "_node", "_about", "__dict__")

    def __init__(self, *given: Any, **more: Any) -> None:
        raise TypeError(f"{type(self).__name__}: No constructor defined!")

    @classmethod
    def _of(cls, tree: _Tree, node: int, about: tuple[Any, ...]) -> _Fields:
        self = cls.__new__(cls)
        self._tree, self._node, self._about = tree, node, about
        return self

    @property
    def _framework(self) -> Framework:
        return self._tree.framework


class _ExtraFields_TorchOp(_Fields):
    allow_tf32_cublas = False

    @property
    def name(self) -> str:
        return self._about[2]

    @property
    def scope(self) -> RecordScope:
        return RecordScope(self._about[1])

    @property
    def sequence_number(self) -> int:
        return self._about[8]

    @cached_property
    def inputs(self) -> list[Any]:
        number, tensors = self._tree.native.inputs(self._node)
        found = self._tree.inputs(self._tree.shape(number, self._node), tensors) if number else []
        if (len(found) > 1 and self.name in _ARITHMETIC and isinstance(found[1], (int, float))
                and isinstance(found[0], _TensorMetadata) and found[0].device.type != "cpu"):
            found[1] = _TensorMetadata._of(self._tree, (0, 0, -1, -1, 0, -1, _NUMBERS[type(found[1])]), [], [])
        return found


# torch passes the number to these ops as a tensor without dims. So does the CPU's op here; on an accelerator it stays a
# number, which has no memory.
_ARITHMETIC = {f"aten::{name}{end}" for name in ("add", "sub", "mul", "div") for end in ("", "_")}
_NUMBERS = {bool: 10, int: 5, float: 2}  # mtp_dtype


class _ExtraFields_Backend(_Fields):
    pass


class _ExtraFields_Vulkan(_Fields):
    pass


class _ExtraFields_OutOfMemory(_Fields):
    pass


class _ExtraFields_Kineto(_Fields):
    pass


class _ExtraFields_PythonGC(_Fields):
    pass


class _ExtraFields_Allocation(_Fields):
    @cached_property
    def _values(self) -> tuple[int, ...]:
        return self._tree.native.allocation(self._node)

    @property
    def ptr(self) -> int:
        return self._values[0]

    @property
    def alloc_size(self) -> int:
        return self._values[1]

    @property
    def total_allocated(self) -> int:
        return max(self._values[2], 0)

    @property
    def total_reserved(self) -> int:
        return max(self._values[3], 0) if self._values[6] else 0  # as in torch: only for an accelerator's allocator

    @property
    def id(self) -> int | None:
        return _known(self._values[4])

    @property
    def allocation_id(self) -> int | None:
        return _known(self._values[5])

    @property
    def device(self) -> Any:
        return self._tree.device(self._values[6], self._values[7])


class _PyFrameState:
    """A place in a Python program."""

    __slots__ = ("file_name", "line_number", "function_name")

    @classmethod
    def _of(cls, text: str) -> _PyFrameState:
        """text: "file:line:function", or empty."""
        self = cls.__new__(cls)
        file, line, function = text.rsplit(":", 2) if text.count(":") > 1 else (text, "0", "")
        self.file_name, self.function_name = file, function
        self.line_number = int(line) if line.isdigit() else 0
        return self

    def __repr__(self) -> str:
        return f"<_PyFrameState {self.file_name}({self.line_number}): {self.function_name}>"


class _NNModuleInfo:
    """The module of a call. parameters: (name, tensor, gradient or None), as they were at the module's first call."""

    __slots__ = ("self_ptr", "cls_ptr", "cls_name", "parameters")

    def __repr__(self) -> str:
        return f"<_NNModuleInfo {self.cls_name} at {self.self_ptr:#x}>"


class _OptimizerInfo:
    """The optimizer of a step. parameters: (tensor, gradient or None, [(name, state)]), as they were at its first step."""

    __slots__ = ("self_ptr", "parameters")

    def __repr__(self) -> str:
        return f"<_OptimizerInfo at {self.self_ptr:#x}>"


_NAME = re.compile(r"^(.*)\((\d+)\): (.*)$", re.DOTALL)


class _Call(_Fields):
    """Of a call: the innermost frame is the function's own, if it has one."""

    @cached_property
    def _head(self) -> list[Any]:
        """("module" or "optimizer", self, class, class name), or []."""
        if not self._about[9]:
            return []
        return self._tree.parts(self._node)[0]


class _ExtraFields_PyCall(_Call):
    @cached_property
    def callsite(self) -> _PyFrameState:
        """From its name, "file(line): function"; a module's from its frame."""
        named = _NAME.match(self._about[2])
        return _PyFrameState._of(":".join(named.groups()) if named else self._about[10])

    @cached_property
    def caller(self) -> _PyFrameState:
        inner, own = _PyFrameState._of(self._about[10]), self.callsite
        if (inner.file_name, inner.function_name) == (own.file_name, own.function_name):
            return _PyFrameState._of(self._about[11])
        around = self._tree.event(self._node).parent  # it was running when recording began: its stack is from that time
        while around is not None and around.tag is not _EventType.PyCall:
            around = around.parent
        return around.extra_fields.callsite if around is not None else _PyFrameState._of("")

    def _held(self) -> list[list[Any]]:
        return self._tree.owners.get(self._head[1], [])

    @cached_property
    def module(self) -> _NNModuleInfo | None:
        if not self._head or self._head[0] != "module":
            return None
        info = _NNModuleInfo()
        _, info.self_ptr, info.cls_ptr, info.cls_name = self._head
        info.parameters = [(name, tensor, grad) for name, tensor, grad in self._held()]
        return info

    @cached_property
    def optimizer(self) -> _OptimizerInfo | None:
        if not self._head or self._head[0] != "optimizer":
            return None
        info = _OptimizerInfo()
        info.self_ptr = self._head[1]
        info.parameters = [(tensor, grad, list(zip(state[::2], state[1::2]))) for tensor, grad, *state in self._held()]
        return info


class _ExtraFields_PyCCall(_Call):
    @cached_property
    def caller(self) -> _PyFrameState:
        return _PyFrameState._of(self._about[10])


_FIELDS: dict[_EventType, type[_Fields]] = {
    _EventType.TorchOp: _ExtraFields_TorchOp,
    _EventType.Backend: _ExtraFields_Backend,
    _EventType.Vulkan: _ExtraFields_Vulkan,
    _EventType.Allocation: _ExtraFields_Allocation,
    _EventType.OutOfMemory: _ExtraFields_OutOfMemory,
    _EventType.PyCall: _ExtraFields_PyCall,
    _EventType.PyCCall: _ExtraFields_PyCCall,
    _EventType.Kineto: _ExtraFields_Kineto,
    _EventType.PythonGC: _ExtraFields_PythonGC,
}


# ----------------------------------------------------------------------------------------------------------- events


class _ProfilerEvent:
    """One event of the tree."""

    __slots__ = ("_tree", "_node", "_about", "tag", "__dict__", "__weakref__")

    def __init__(self, *given: Any, **more: Any) -> None:
        raise TypeError("_ProfilerEvent: No constructor defined!")

    @classmethod
    def _of(cls, tree: _Tree, node: int) -> _ProfilerEvent:
        self = cls.__new__(cls)
        self._tree, self._node = tree, node
        self._about = tree.native.node(node)
        self.tag = _EventType(self._about[0])
        return self

    @property
    def _framework(self) -> Framework:
        return self._tree.framework

    @property
    def name(self) -> str:
        return self._about[2]

    @property
    def overload_name(self) -> str:
        return ""

    @property
    def id(self) -> int:
        return self._node

    @property
    def start_time_ns(self) -> int:
        return self._about[3]

    @property
    def end_time_ns(self) -> int:
        return self._about[4]

    @property
    def duration_time_ns(self) -> int:
        return self._about[4] - self._about[3]

    @property
    def start_tid(self) -> int:
        return self._about[6]

    @property
    def correlation_id(self) -> int:
        return self._about[7]

    @property
    def parent(self) -> _ProfilerEvent | None:
        return self._tree.event(self._about[5]) if self._about[5] >= 0 else None

    @cached_property
    def children(self) -> list[_ProfilerEvent]:
        return [self._tree.event(node) for node in self._tree.native.children(self._node)]

    @cached_property
    def extra_fields(self) -> _Fields:
        return _FIELDS[self.tag]._of(self._tree, self._node, self._about)

    @property
    def typed(self) -> tuple[_EventType, _Fields]:
        return self.tag, self.extra_fields

    def __repr__(self) -> str:
        return f"<_ProfilerEvent {self.tag.name} {self.name!r}>"


def event_tree(trace: mtprof.Trace, framework: Framework = GENERIC) -> list[_ProfilerEvent]:
    """The roots, by time."""
    tree = _Tree(trace, framework)
    return [tree.event(node) for node in tree.native.roots()]
