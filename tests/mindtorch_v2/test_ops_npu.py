"""The op harness on device "npu": every row of the op table, in every dtype and layout that it takes, against the CPU's
references; its gradient; its errors.

A selection of test_ops.py's cases, because each kernel is compiled on first use: docs/npu.md has the numbers. To run all:

    MINDTORCH_TEST_DEVICE=npu PYTHONPATH=src pytest tests/mindtorch_v2/test_ops.py
"""
import numpy as np
import pytest

import mindtorch_v2 as mindtorch

import test_ops as harness
from ops import CASES, by_op
from ops.cases_optim import STEPS
from ops.errors import ERRORS
from ops.peer import Mindtorch
from ops.promotion import BINARY, KINDS
from test_ops import mt_rows, over

pytestmark = pytest.mark.skipif(not mindtorch.npu.is_available(),
                                reason="no npu: `make setup` installs an OpenCL driver for the CPU")


@pytest.fixture(scope="module")
def mt():
    return Mindtorch(mindtorch, "npu")


def spread(cases, most):
    """Up to `most` of each op: its first and last cases, and some between."""
    out, groups = [], {}
    for case in cases:
        groups.setdefault(case.op, []).append(case)
    for group in groups.values():
        count = min(most, len(group))
        out += [group[round(i * (len(group) - 1) / max(count - 1, 1))] for i in range(count)]
    return out


# ------------------------------------------------------------------------------------------------------- coverage

def test_every_row_has_an_npu_kernel_or_is_made_of_others():
    assert [row.id for row in mt_rows().values() if not row.kernels["npu"]] == []


FORWARD = spread(CASES, 8)


def test_every_row_is_tried():
    tried = {case.op for case in FORWARD} | {step.op for step in STEPS}
    assert sorted(set(mt_rows()) - tried) == []


# --------------------------------------------------------------------------------------------------------- values

@over(FORWARD)
def test_forward(mt, case):
    harness.test_forward(mt, case)


@over(spread(harness.LAID_OUT, 4))
def test_layouts(mt, case):
    harness.test_layouts(mt, case)


@over(spread(harness.DIFFERENTIABLE, 3))
def test_gradient(mt, case):
    harness.test_gradient(mt, case)


TWICE = [c for c in harness.DIFFERENTIABLE
         if harness.small_enough(c, harness.SMALL) and harness.size_of(c.args[c.differentiable()[0]]) > 0]


@over(spread(TWICE, 1))
def test_second_derivative(mt, case):
    harness.test_second_derivative(mt, case)


@over(spread(harness.VIEWS, 1))
def test_view_shares_memory(mt, case):
    harness.test_view_shares_memory(mt, case)


@over(spread(harness.IN_PLACE, 2))
def test_in_place(mt, case):
    harness.test_in_place(mt, case)


@over([case for case in CASES if case.random is not None])
def test_chance(mt, case):
    harness.test_chance(mt, case)


@pytest.mark.parametrize("layout,letter", [("plain", "f"), ("transposed", "d")])
@pytest.mark.parametrize("step", STEPS, ids=[step.id for step in STEPS])
def test_optimizer_step(mt, step, layout, letter):
    harness.test_optimizer_step(mt, step, layout, letter)


# ------------------------------------------------------------------------------------------------------ mixed dtypes

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["add", "div", "lt"])
def test_promotion(mt, op, kind):
    if kind.endswith("number") and not BINARY[op][2]:
        pytest.skip("takes no number")
    harness.test_promotion(mt, op, kind)


LARGE = 70_000  # elements: casts become part of the op's kernel


@pytest.mark.parametrize("letters", ["fi", "lf", "bd"])
@pytest.mark.parametrize("op", ["mul", "ge"])
def test_mixed_dtypes_of_large_tensors(mt, op, letters):
    case = by_op()[op][0]
    values = [np.arange(LARGE).reshape(2, -1) % 7, np.arange(LARGE).reshape(2, -1) % 3]
    arrays = [v.astype(harness.DTYPES[letter]) for v, letter in zip(values, letters)]
    for layout in ("plain", "transposed"):
        out = mt.call(mt_rows()[op], [mt.argument(arrays[0], layout), mt.argument(arrays[1])])[0]
        np.testing.assert_array_equal(mt.array(out), case.want(*[a.astype(np.float64) for a in arrays]))


# --------------------------------------------------------------------------------------------------------- sorting

@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("letter", "blf")
@pytest.mark.parametrize("shape,dim", [((3, 5000), 1), ((1500, 3), 0), ((2, 1024, 2), 1), ((4099,), 0)])
def test_sort_of_rows_longer_than_a_block(mt, shape, dim, letter, down):
    values = np.random.default_rng(3).integers(-50, 50, shape).astype(harness.DTYPES[letter])
    if letter == "f":
        values.reshape(-1)[::101] = np.nan
    got, places = (mt.array(t) for t in mt.call(mt_rows()["sort"], [mt.argument(values), dim, down]))
    keys = np.where(np.isnan(values), np.inf, values).astype(np.float64) * (-1 if down else 1)
    order = np.argsort(keys, axis=dim, kind="stable")
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(got, np.take_along_axis(values, order, dim))


# ---------------------------------------------------------------------------------------------------------- errors

@pytest.mark.parametrize("error", ERRORS, ids=[f"{e.op}-{e.label}" for e in ERRORS])
def test_error(mt, error):
    harness.test_error(mt, error)


# Errors that depend on the data: the CPU raises them at once, the device at the next wait, with the same exception.
FAULTS = {
    "embedding": lambda t: ("embedding", [t(np.ones((3, 2))), t(np.array([0, 3]))]),
    "index_select": lambda t: ("index_select", [t(np.ones((3, 2))), 1, t(np.array([2]))]),
    "index_select_negative": lambda t: ("index_select", [t(np.ones((3, 2))), 0, t(np.array([-1]))]),
    "index_add_": lambda t: ("index_add_", [t(np.ones((3, 2))), 0, t(np.array([7])), t(np.ones((1, 2)))]),
    "gather": lambda t: ("gather", [t(np.ones((3, 2))), 1, t(np.array([[0, 2]]))]),
    "scatter_": lambda t: ("scatter_", [t(np.ones((3, 2))), 0, t(np.array([[-1]])), 1.0]),
    "scatter_add": lambda t: ("scatter_add", [t(np.ones((3, 2))), 0, t(np.array([[3]])), t(np.ones((1, 1)))]),
    "index": lambda t: ("index", [t(np.ones((3, 2))), [t(np.array([0])), t(np.array([-3]))]]),
    "index_put_": lambda t: ("index_put_", [t(np.ones((3, 2))), [t(np.array([3]))], t(np.ones(2))]),
    "floor_divide": lambda t: ("floor_divide", [t(np.arange(3)), t(np.array([1, 0, 2]))]),
    "remainder": lambda t: ("remainder", [t(np.arange(3)), t(np.array([1, 0, 2]))]),
    "nll_loss": lambda t: ("nll_loss", [t(np.ones((2, 3))), t(np.array([0, 3]))]),
    "bce_input": lambda t: ("binary_cross_entropy", [t(np.array([0.5, 2.0])), t(np.array([0.0, 1.0]))]),
    "bce_target": lambda t: ("binary_cross_entropy", [t(np.array([0.5, 0.2])), t(np.array([0.0, -1.0]))]),
    "bernoulli": lambda t: ("bernoulli", [t(np.array([0.5, 2.0]))]),
    "multinomial": lambda t: ("multinomial", [t(np.array([0.5, -2.0])), 1]),
    "multinomial_nothing": lambda t: ("multinomial", [t(np.zeros(2)), 1]),
    "one_hot": lambda t: ("one_hot", [t(np.array([0, 5])), 3]),
    "random_": lambda t: ("random_", [t(np.zeros(2, dtype=bool)), 0, 9]),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_fault_is_the_cpus(mt, name):
    def attempt(peer):
        op, args = FAULTS[name](peer.argument)
        try:
            peer.call(mt_rows()[op], args)
            if peer.device != "cpu":
                mindtorch.npu.synchronize()
        except Exception as error:
            return type(error), str(error).removesuffix(" (found by an earlier op on the device)")
        return None
    here, there = attempt(Mindtorch(mindtorch, "cpu")), attempt(mt)
    assert here is not None and there is not None
    assert there[0] is here[0]
    assert here[1].startswith(there[1])
    mindtorch.npu.synchronize()  # it was reported once
