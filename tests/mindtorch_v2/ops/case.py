"""What a case is: one call of one op with sample arguments, and what NumPy says comes out.

NumPy arrays among the arguments become tensors, lists of arrays Tensor[]. Arrays of float64 are the op's *real* operands:
they are tried in other dtypes and layouts and differentiated; arrays of int64 (indices) and bool (masks) stay as they are.
Data is made from the case's own label, so a case is the same whatever else runs; all values of a sample are distinct and
keep away from multiples of 0.5, where floor, abs, relu and the like have no derivative.
"""
import zlib
from dataclasses import dataclass, field, replace
from typing import Any, Callable

import numpy as np

CASES: list["Case"] = []

DTYPES = {"b": np.dtype(bool), "i": np.dtype(np.int32), "l": np.dtype(np.int64), "f": np.dtype(np.float32),
          "d": np.dtype(np.float64)}
LETTERS = {dtype: letter for letter, dtype in DTYPES.items()}

# Shapes that every elementwise op and most others are tried with.
SHAPES = {"matrix": (3, 4), "scalar": (), "one": (1,), "empty": (0,), "no_rows": (0, 3), "hole": (2, 0, 3),
          "cube": (2, 3, 2), "rank8": (1, 2, 1, 2, 1, 1, 2, 1), "large": (37, 131)}


@dataclass(frozen=True)
class Case:
    op: str                          # the row's id
    label: str
    args: tuple
    want: Callable[..., Any]         # of the arguments as NumPy arrays; an array, a tuple or a list of them
    kwargs: dict = field(default_factory=dict)
    out: Any = "same"                # the results' dtype: "same" as the real operands, "float", a letter, or one for each
    dtypes: str = "f"                # what else the real operands may be
    grad: Any = True                 # False, or the positions of the differentiable arguments; True: all real ones
    grad_outs: Any = None            # the results that have gradients; None: all floating ones
    second: bool = True              # is the derivative differentiable as well?
    view: bool = False               # shares memory with its first argument
    typed: bool = False              # `want` gets the arrays in the tried dtype, not in float64
    layouts: bool = True
    free: bool = True                # False: the operands belong together (a result beside what it came from)
    rtol: float = 1e-10              # of float64
    rtol32: float = 2e-5
    grad_rtol: float = 1e-5
    torch: Any = True                # False: PyTorch says something else, on purpose; or a function (torch, args, kwargs)
    node: Any = None                 # the node's name, where it is not the row's (composites)
    torch_node: bool = True          # False: PyTorch's node has another name, on purpose
    to_int: Callable[[np.ndarray], np.ndarray] = None
    values: bool = True              # False: only shapes and dtypes are said
    random: Any = None               # of ops by chance: a check of what came out, many values at once

    @property
    def id(self):
        return f"{self.op}-{self.label}"

    def real(self):
        """Positions of the real operands."""
        return [i for i, a in enumerate(self.args) if is_real(a)]

    def differentiable(self):
        return [] if self.grad is False else self.real() if self.grad is True else list(self.grad)

    def with_dtype(self, letter):
        dtype = DTYPES[letter]
        return tuple(convert(a, dtype, self.to_int) if is_real(a) else a for a in self.args)


class Host(np.ndarray):
    """An array that stays on the CPU, wherever the others are."""

    @staticmethod
    def of(values):
        return np.asarray(values, dtype=np.int64).view(Host)


def is_real(a):
    if isinstance(a, (list, tuple)):
        return len(a) > 0 and all(is_real(x) for x in a)
    return isinstance(a, np.ndarray) and a.dtype == np.float64


def size_of(a):
    return sum(x.size for x in a) if isinstance(a, (list, tuple)) else a.size


def convert(a, dtype, to_int=None):
    if isinstance(a, (list, tuple)):
        return [convert(x, dtype, to_int) for x in a]
    if dtype.kind == "b":
        return np.asarray(a > 0)
    if dtype.kind == "i":
        return np.asarray((to_int or whole)(a)).astype(dtype)
    return a.astype(dtype)


def whole(a):
    """Small integers, none of them 0."""
    n = np.trunc(a * 3)
    return np.where(n == 0, 1, n)


def add(op, label, args, want, **options):
    CASES.append(Case(op, label, tuple(args), want, **options))


def by_op():
    found = {}
    for case in CASES:
        found.setdefault(case.op, []).append(case)
    return found


def copy(case, **changes):
    return replace(case, **changes)


# ------------------------------------------------------------------------------------------------------ data

def rng(*seed):
    return np.random.default_rng(zlib.crc32(repr(seed).encode()))


def real(*shape, lo=-2.0, hi=2.0, seed=0):
    """Distinct values in (lo, hi), in no order, away from multiples of 0.5."""
    n = int(np.prod(shape))
    r = rng(shape, lo, hi, seed)
    values = lo + (hi - lo) * (np.arange(n) + 0.25 + 0.5 * r.random(n)) / max(n, 1)
    nearest = np.round(values * 2) / 2
    distance = values - nearest
    near = np.abs(distance) < 0.02
    values = np.where(near, values + np.where(distance < 0, -0.02, 0.02), values)
    r.shuffle(values)
    return values.reshape(shape)


def positive(*shape, seed=0):
    return real(*shape, lo=0.3, hi=2.4, seed=seed)


def integers(*shape, lo=0, hi=10, seed=0):
    return rng(shape, lo, hi, seed, "i").integers(lo, hi, size=shape, dtype=np.int64)


def mask(*shape, seed=0):
    return np.asarray(rng(shape, seed, "m").random(shape) > 0.45)


# ------------------------------------------------------------------------------------------ finite differences

def slopes(function, at, step=1e-6):
    """Central differences of a scalar function of one array, element by element."""
    out = np.zeros(at.shape)
    point = at.copy()
    for i in np.ndindex(*at.shape):
        point[i] = at[i] + step
        up = function(point)
        point[i] = at[i] - step
        out[i] = (up - function(point)) / (2 * step)
        point[i] = at[i]
    return out


def pulled_back(reference, position):
    """The reference of an op xxx_backward: what `grad` becomes at one argument of the forward `reference`."""
    def want(grad, *args, **kwargs):
        def along(x):
            moved = list(args)
            moved[position] = x
            return float(np.sum(reference(*moved, **kwargs) * grad))
        return slopes(along, np.asarray(args[position], dtype=np.float64))
    return want
