"""torch.utils._python_dispatch: modes that intercept every op of their thread."""

import functools

from mindtorch_v2 import _C


class _OpOverload:
    """One row of the op table as passed to a mode: PyTorch's torch.ops.aten.NAME.OVERLOAD."""

    __slots__ = ("_name", "_overloadname", "_run", "__name__")

    def __init__(self, row, out=None):
        head = row[2].split("(", 1)[0]
        base, _, overload = head.partition(".")
        if out is not None:
            head, overload = f"{base}.{out}", out
        self._name, self._overloadname, self._run = "aten::" + head, overload or "default", getattr(_C.ops, row[0])
        self.__name__ = f"{base}.{self._overloadname}"

    def __call__(self, *args, **kwargs):
        return self._run(*args, **kwargs)

    def name(self):
        """"aten::add.Tensor"; "aten::cat" for an op with a single overload."""
        return self._name

    @property
    def namespace(self):
        return "aten"

    def __repr__(self):
        return f"<OpOverload(op='{self._name.partition('.')[0].replace('::', '.')}', overload='{self._overloadname}')>"

    def __str__(self):
        return "aten." + self.__name__


@functools.cache
def _functions():
    rows = _C._op_table()
    return [_OpOverload(row) for row in rows] + [_OpOverload(row, out) for row, out in zip(rows, _C._out_overloads())]


class TorchDispatchMode:
    """A context in which each op of this thread is passed to __torch_dispatch__(func, types, args, kwargs), whose return value
    is the op's result. Composite ops (linear, matmul ...) arrive as their parts; ops of the backward pass are passed, too,
    and calls with out= as the out= overload. func(*args, **kwargs) computes the op. Within __torch_dispatch__ this mode is
    off, outer modes are on, and autograd is off: it tracks the op that was intercepted."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_dispatch_mode(self, _functions())
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _C._pop_dispatch_mode(self)
