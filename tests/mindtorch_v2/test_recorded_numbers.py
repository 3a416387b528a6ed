"""Numbers as operands: a call that a profile records makes tensors of them, as PyTorch does. What comes of the call is the same
whether it is recorded or not, and what is recorded is PyTorch's."""
import itertools
import math

import numpy as np
import pytest

import mindtorch_v2 as ours

try:
    import torch as theirs
except ImportError:
    theirs = None

DTYPES = ("bool", "int32", "int64", "float32", "float64")
NUMBERS = (0, 1, 2, -3, True, False, 0.5, -1.25, 0.1, 1e-42, 1e300, math.inf, math.nan, 2**31, 2**53 + 1, -(2**63))
SHAPES = {"vector": (3,), "none": (), "one": (1,), "empty": (0,), "matrix": (2, 3)}

OPS = {
    "x + n": lambda torch, x, n: x + n, "n + x": lambda torch, x, n: n + x, "x - n": lambda torch, x, n: x - n,
    "n - x": lambda torch, x, n: n - x, "x * n": lambda torch, x, n: x * n, "n * x": lambda torch, x, n: n * x,
    "x / n": lambda torch, x, n: x / n, "n / x": lambda torch, x, n: n / x, "x // n": lambda torch, x, n: x // n,
    "x % n": lambda torch, x, n: x % n, "x ** n": lambda torch, x, n: x ** n, "n ** x": lambda torch, x, n: n ** x,
    "x & n": lambda torch, x, n: x & n, "x | n": lambda torch, x, n: x | n, "x ^ n": lambda torch, x, n: x ^ n,
    "x == n": lambda torch, x, n: x == n, "x != n": lambda torch, x, n: x != n, "x < n": lambda torch, x, n: x < n,
    "x <= n": lambda torch, x, n: x <= n, "n > x": lambda torch, x, n: n > x, "n >= x": lambda torch, x, n: n >= x,
    "add alpha": lambda torch, x, n: x.add(n, alpha=2), "sub alpha": lambda torch, x, n: torch.sub(x, n, alpha=3),
    "rsub alpha": lambda torch, x, n: torch.rsub(x, n, alpha=2), "add_": lambda torch, x, n: x.add_(n), "sub_": lambda torch, x, n: x.sub_(n),
    "mul_": lambda torch, x, n: x.mul_(n), "div_": lambda torch, x, n: x.div_(n), "pow_": lambda torch, x, n: x.pow_(n),
    "mul(n, x)": lambda torch, x, n: torch.mul(n, x), "0-dim": lambda torch, x, n: x * torch.tensor(n) + n,
}  # fmt: skip


def operand(torch, dtype, shape):
    values = np.array([3, -2, 1, 0, 7, 2], dtype=np.float64)[: math.prod(shape)].reshape(shape)
    return torch.tensor(values.tolist(), dtype=getattr(torch, dtype))


def outcome(torch, run):
    try:
        made = run()
    except Exception as raised:
        return type(raised).__name__, str(raised).replace("mindtorch_v2", "torch")
    return str(made.dtype).split(".")[-1], tuple(made.shape), made.detach().numpy().copy()


def profile(torch, **options):
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def same(a, b):
    return len(a) == len(b) and a[:2] == b[:2] and (len(a) == 2 or a[2].tobytes() == b[2].tobytes() or
                                                   np.array_equal(a[2], b[2], equal_nan=a[2].dtype.kind == "f"))


def close(a, b):
    """PyTorch's powers and remainders differ in the last bit; of errors the kind is compared."""
    if len(a) == 2 or len(b) == 2:
        return len(a) == len(b)
    return a[:2] == b[:2] and np.allclose(a[2], b[2], rtol=1e-6 if a[0] == "float32" else 1e-14, atol=0, equal_nan=True)


def outcomes(torch, op, dtype):
    return {f"{shape} {number!r}": outcome(torch, lambda: OPS[op](torch, operand(torch, dtype, SHAPES[shape]), number))
            for shape, number in itertools.product(SHAPES, NUMBERS)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_results_do_not_depend_on_being_recorded(op, dtype):
    plain = outcomes(ours, op, dtype)
    with profile(ours, record_shapes=True, profile_memory=True):
        seen = outcomes(ours, op, dtype)
    assert {case: (plain[case], seen[case]) for case in plain if not same(plain[case], seen[case])} == {}


@pytest.mark.skipif(theirs is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_recorded_results_are_pytorchs(op, dtype):
    with profile(ours):
        mine = outcomes(ours, op, dtype)
    with np.errstate(all="ignore"):
        differ = {case: (mine[case], due) for case, due in outcomes(theirs, op, dtype).items()
                  if not (same(mine[case], due) or close(mine[case], due))}
    assert differ == {}


def test_numbers_promote_by_the_default_dtype_then():
    x, before = ours.ones(2, dtype=ours.int64), ours.get_default_dtype()
    try:
        for default in (ours.float64, ours.float32):
            ours.set_default_dtype(default)
            with profile(ours):
                made = x + 0.1
            assert made.dtype == default and made.tolist() == (x + 0.1).tolist()
    finally:
        ours.set_default_dtype(before)
