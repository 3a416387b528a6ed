"""Schemas of ops as objects, as torch._C has them: torch._C._jit_get_schemas_for_operator("aten::add").

They are parsed from the op table on first use, with PyTorch's arguments, as profiles record them (mt_op_recorded_schema).
A parameter that takes a tensor or a number (`Operand` in the table) yields two overloads, as in PyTorch.
"""

import itertools
import re

from mindtorch_v2 import _C

_KINDS = {
    "Tensor": "TensorType", "Scalar": "NumberType", "int": "IntType", "float": "FloatType", "bool": "BoolType",
    "str": "StringType", "ScalarType": "IntType", "Layout": "IntType", "MemoryFormat": "IntType", "Device": "DeviceObjType",
}  # fmt: skip
_TEXTS = {"Scalar": "number", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}
# The overloads of a row with Operands, by the row's own overload: which of them are numbers -> the overload's name.
_OPERANDS = {
    "Tensor": {(False,): "Tensor", (True,): "Scalar"},
    "Scalar": {(False,): "Tensor", (True,): "Scalar"},
    "Tensor_mode": {(False,): "Tensor_mode", (True,): "Scalar_mode"},
    "out_mode": {(False,): "out_mode"},
    "reduce": {(False,): "reduce", (True,): "value_reduce"},
    "reduce_out": {(False,): "reduce_out", (True,): "value_reduce_out"},
    "": {(False,): "", (True,): "Scalar"},
    "src": {(False,): "src", (True,): "value"},
    "out": {(False,): "out", (True,): "Scalar_out"},
    "Tensor_out": {(False,): "Tensor_out", (True,): "Scalar_out"},
    "Scalar_out": {(False,): "Tensor_out", (True,): "Scalar_out"},
    "src_out": {(False,): "src_out", (True,): "value_out"},
    "self_out": {(False, False): "self_out"},
    "self": {(False, False): "self", (True, False): "ScalarSelf", (False, True): "ScalarOther", (True, True): "Scalar"},
}  # fmt: skip


class Type:
    """The type of an argument; kind() is the name of torch._C's class for it."""

    __slots__ = ("_kind", "_text", "_element")

    def __init__(self, kind, text, element=None):
        self._kind, self._text, self._element = kind, text, element

    def kind(self):
        return self._kind

    def getElementType(self):  # noqa: N802 (torch's name)
        if self._element is None:
            raise RuntimeError(f"{self._text} has no element type")
        return self._element

    def __str__(self):
        return self._text

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, Type) and self._text == other._text

    def __hash__(self):
        return hash(self._text)


class AliasInfo:
    """`(a)`: the result may be a view of the argument; `(a!)`: the op writes to it."""

    __slots__ = ("is_write", "before_set", "after_set")

    def __init__(self, text):
        self.is_write = text.endswith("!")
        self.before_set = self.after_set = {"alias::" + text.rstrip("!")}


class Argument:
    __slots__ = ("name", "type", "real_type", "default_value", "_has_default", "kwarg_only", "alias_info", "N")

    def __init__(self, name, type, alias, default, kwarg_only, length):
        self.name, self.type, self.real_type, self.kwarg_only, self.N = name, type, type, kwarg_only, length
        self.alias_info = AliasInfo(alias) if alias else None
        self._has_default = default is not None
        self.default_value = _value(default) if default is not None else None

    def has_default_value(self):
        return self._has_default

    @property
    def is_write(self):
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self):
        return self.kwarg_only and self.is_write


class FunctionSchema:
    __slots__ = ("name", "overload_name", "arguments", "returns", "_text")

    def __init__(self, text):
        self._text = "aten::" + text.replace("[...]", "[]")
        head, rest = text.split("(", 1)
        inside, returned = rest.rsplit(") -> ", 1)
        name, _, self.overload_name = head.partition(".")
        self.name = "aten::" + name
        self.arguments, kwarg_only = [], False
        for part in _split(inside):
            if part == "*":
                kwarg_only = True
            else:
                self.arguments.append(_argument(part, kwarg_only))
        parts = _split(returned[1:-1]) if returned.startswith("(") else [returned]
        self.returns = [_argument(part if " " in part else part + " ", False) for part in parts]

    @property
    def is_mutable(self):
        return any(argument.is_write for argument in self.arguments)

    def __str__(self):
        return self._text

    __repr__ = __str__


def _split(text):
    """Splits at commas outside brackets."""
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text) if part.strip()]


def _value(text):
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    if text.startswith("["):
        return [_value(part) for part in _split(text[1:-1])]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text.strip("'\"")


def _argument(text, kwarg_only):
    """`Tensor(a!)[] self=...`"""
    declared, _, rest = text.partition(" ")
    name, _, default = rest.partition("=")
    word, alias, suffix = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?(.*)", declared).groups()
    text = _TEXTS.get(word, word)
    made, length = Type(_KINDS.get(word, word + "Type"), text), None
    for mark in re.findall(r"\?|\[[^\]]*\]", suffix):
        if mark == "?":
            made = Type("OptionalType", f"Optional[{made}]", made)
        else:
            made = Type("ListType", f"List[{made}]", made)
            length = int(mark[1:-1]) if mark[1:-1].isdigit() else None
    return Argument(name, made, alias, default or None, kwarg_only, length)


def _overloads(text):
    """The schemas of one row of the table."""
    operands = len(re.findall(r"\bOperand\b", text))
    if operands == 0:
        return [text]
    head, rest = text.split("(", 1)
    name, _, overload = head.partition(".")
    made = []
    for numbers in itertools.product((False, True), repeat=operands):
        words = iter("Scalar" if number else "Tensor" for number in numbers)
        called = _OPERANDS[overload].get(numbers)
        if called is None:
            continue
        made.append(f"{name}{'.' * bool(called)}{called}(" + re.sub(r"\bOperand\b", lambda _: next(words), rest))
    return made


def _with_out(text, overload):
    """The schema of the out= overload, from the row's recorded schema without it."""
    head, rest = text.split("(", 1)
    inside, returned = rest.rsplit(") -> ", 1)
    parts = [part for part in _split(inside) if not (part.startswith(("Layout", "Device", "bool? pin_memory")))]
    if len(parts) < len(_split(inside)):  # a factory: out= determines dtype and device
        parts = [part for part in parts if not part.startswith("ScalarType")]
    if parts[-1] != "*" and "*" not in parts:
        parts.append("*")
    names = re.findall(r"Tensor(?: (\w+))?", returned)
    marked = [f"Tensor({chr(97 + i)}!)" for i in range(len(names))]
    parts += [f"{mark} {name or 'out'}" for mark, name in zip(marked, names)]
    results = ", ".join(f"{mark} {name}".strip() for mark, name in zip(marked, names))
    name = head.partition(".")[0]
    return f"{name}.{overload}({', '.join(parts)}) -> " + (f"({results})" if len(names) > 1 else results)


def _rows():
    """The recorded schemas of all rows, then those with out=."""
    recorded = _C._recorded_schemas()
    return recorded + [_with_out(text, out) for text, out in zip(recorded, _C._out_overloads()) if out is not None]


# Parts of other ops that profiles show as ops although the table does not have them.
_PARTS = ["result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType"]
_schemas = {}  # by name, in the table's order


def _jit_get_schemas_for_operator(name):
    """The overloads of an op; [] if there is no op of that name."""
    if "::" not in name:
        raise RuntimeError(f"all symbols must have a namespace, <namespace>::<string>, but found: {name}")
    if not _schemas:
        texts = {text: None for row in [*_rows(), *_PARTS] for text in _overloads(row)}
        for schema in map(FunctionSchema, texts):
            _schemas.setdefault(schema.name, []).append(schema)
    return list(_schemas.get(name, ()))


_C._jit_get_schemas_for_operator = _jit_get_schemas_for_operator
_C.FunctionSchema, _C.Argument = FunctionSchema, Argument
