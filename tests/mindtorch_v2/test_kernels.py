"""CPU kernels that have several paths (vectors, tails, strides, blocks): all paths give the same numbers.

Expected values come from plain Python, so that the tests need neither PyTorch nor NumPy.
"""
import math
import random

import pytest

import mindtorch_v2 as torch

LENGTHS = (0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 1000)


def numbers(n, low=-3.0, high=3.0, seed=0):
    draw = random.Random(seed)
    return [draw.uniform(low, high) for _ in range(n)]


# -------------------------------------------------------------------------------------------- float64 functions


def same_or_near(got, want, ulps):
    if math.isnan(want):
        return math.isnan(got)
    return got == want or abs(got - want) <= ulps * math.ulp(want)


def guarded(f):
    """What IEEE arithmetic gives where Python raises."""

    def call(x):
        try:
            return f(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return -math.inf if x == (0.0 if f is math.log else -1.0) else math.nan

    return call


FUNCTIONS = {
    "exp": (math.exp, (-746, 711)),
    "expm1": (math.expm1, (-50, 711)),
    "log": (math.log, (1e-310, 1e300)),
    "log1p": (math.log1p, (-0.999, 50)),
    "tanh": (math.tanh, (-25, 25)),
    "erf": (math.erf, (-7, 7)),
    "sin": (math.sin, (-3e6, 3e6)),
    "cos": (math.cos, (-3e6, 3e6)),
}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -1e-310, 1e-9, -1e-9, 0.5, 1.0, -1.0, 1e300, -1e300, 1048576.0, 1e22]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions_are_within_4_ulp_of_libm(name):
    f, (low, high) = FUNCTIONS[name]
    values = numbers(20000, low, high) + numbers(20000, max(low, -1.5), 1.5) + SPECIAL
    got = getattr(torch, name)(torch.tensor(values, dtype=torch.float64)).tolist()
    wrong = [(x, y, guarded(f)(x)) for x, y in zip(values, got) if not same_or_near(y, guarded(f)(x), 4)]
    assert wrong == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions_do_not_depend_on_length_or_strides(name):
    f = getattr(torch, name)
    low = 0.1 if name in ("log", "log1p") else -3.0
    whole = numbers(1000, low)
    want = f(torch.tensor(whole, dtype=torch.float64)).tolist()
    for n in LENGTHS:
        assert f(torch.tensor(whole[:n], dtype=torch.float64)).tolist() == pytest.approx(want[:n], rel=1e-15)
    strided = torch.tensor(whole, dtype=torch.float64)[::3]
    assert f(strided).tolist() == pytest.approx(want[::3], rel=1e-15)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_zeros_keep_their_sign(dtype):
    for name in ("expm1", "log1p", "tanh", "erf", "sin"):
        got = getattr(torch, name)(torch.tensor([0.0, -0.0], dtype=dtype)).tolist()
        assert [math.copysign(1, y) for y in got] == [1, -1], name
