"""The op harness in float16, bfloat16, uint8, int8 and int16, on both devices: one case of each op against its reference in NumPy, whose
result is rounded to the dtype; the gradient against float32's; promotion against the rules, and against PyTorch.

The references and derivatives themselves are checked by test_ops.py: here it is that dtypes are widened, rounded and returned.
"""
import numpy as np
import pytest

import mindtorch_v2 as mindtorch

import test_ops as harness
from ops import CASES, by_op
from ops.case import convert, is_real
from ops.cases_optim import STEPS
from ops.narrow import NUMPY, REAL, TOLERANCE, WHOLE, WIDE, promoted, rounded
from ops.peer import DTYPE_NAMES, Mindtorch, Torch
from ops.promotion import BINARY, KINDS, NUMBERS
from test_ops import as_list, mt_rows

try:
    import torch
except ImportError:
    torch = None

DEVICES = ["cpu"] + (["npu"] if mindtorch.npu.is_available() else [])
# Halves hold no such numbers, or what comes out depends on bits that they lack.
UNFIT = {"arange", "arange_start", "arange_step", "linspace", "randperm", "logspace"}


@pytest.fixture(scope="module", params=DEVICES)
def mt(request):
    return Mindtorch(mindtorch, request.param)


SIGNED = {"hardtanh", "hardtanh_"}  # refuse negative limits for uint8


def chosen():
    """(case, letter): of each op the first case with elements that takes such a dtype; the letters in turn, so that an op has two."""
    out = []
    for turn, (op, cases) in enumerate(sorted(by_op().items())):
        fit = [c for c in cases if c.real() and c.random is None and c.values and 0 < sum(harness.size_of(c.args[i]) for i in c.real()) < 500]
        real, whole = (next((c for c in fit if any(x in c.dtypes for x in letters)), None) for letters in ("f", "il"))
        if op not in UNFIT and real is not None:
            out += [(real, letter) for letter in REAL]
        if op not in UNFIT and whole is not None:
            letters = [WHOLE[(turn + k) % 3] for k in range(2)]
            out += [(whole, letter) for letter in letters if not (letter == "u" and op in SIGNED)]
    return out


CHOSEN = chosen()


def over(pairs):
    return pytest.mark.parametrize("case,letter", pairs, ids=[f"{case.id}-{DTYPE_NAMES[letter]}" for case, letter in pairs])


def narrowed(a, letter, case):
    if isinstance(a, (list, tuple)):
        return [narrowed(x, letter, case) for x in a]
    if letter in WHOLE:
        a = convert(a, np.dtype(np.int64), case.to_int)
        a = np.abs(a) if letter == "u" else a
    return rounded(a, letter)


def values_of(case, letter):
    return [narrowed(a, letter, case) if is_real(a) else a.copy() if isinstance(a, np.ndarray) else a for a in case.args]


def arguments(mt, case, values, letter, layout="plain", grad=False):
    def made(a):
        if isinstance(a, list):
            return [made(x) for x in a]
        t = mt.argument(a, layout).to(mt.dtype(letter))
        return t.detach().requires_grad_() if grad else t
    return [made(a) if i in case.real() else mt.argument(a) for i, a in enumerate(values)]


def result_letter(case, i, letter):
    """By what the case says of the wide dtypes: the operands' own, or a certain one."""
    rule = case.out[i] if isinstance(case.out, tuple) else case.out
    if callable(rule):
        wide = "fd" if letter in REAL else "il"
        said = [rule(x) for x in wide]
        return letter if said == list(wide) else said[0]
    if rule == "float":
        return letter if letter in REAL else "f"
    if case.op == "_fused_rms_norm" and i == 1:
        return "f"  # what it divides by
    if case.op in ("any", "all", "any_dim", "all_dim", "any_dims", "all_dims") and letter == "u":
        return "u"
    return letter if rule == "same" else rule


def as_held(values, letter):
    return rounded(values, letter) if letter in WHOLE + REAL else values


def wanted(case, values, letter):
    """In float64 or, if the case asks for the dtype, in the dtype that stands for it."""
    kind = np.int64 if letter in WHOLE else np.float32
    cast = lambda a: [cast(x) for x in a] if isinstance(a, list) else a.astype(kind if case.typed else np.float64)  # noqa: E731
    args = [cast(a) if i in case.real() else a for i, a in enumerate(values)]
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in as_list(case.want(*args, **case.kwargs))]


def check(mt, case, outs, want, letter):
    assert len(outs) == len(want)
    for i, (got, expected) in enumerate(zip(outs, want)):
        has = result_letter(case, i, letter)
        assert tuple(got.shape) == expected.shape and mt.letter(got) == has, f"result {i} ({case.id})"
        with np.errstate(all="ignore"):
            expected = np.asarray(as_held(expected, has), np.float64)
        tolerance = max(TOLERANCE.get(letter, 2e-5), TOLERANCE.get(has, 0)) if has in "hyfd" else 0
        scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.5))
        np.testing.assert_allclose(mt.array(got).astype(np.float64), expected, rtol=tolerance, atol=tolerance * scale, err_msg=f"result {i} ({case.id})")


@over(CHOSEN)
def test_forward(mt, case, letter):
    values = values_of(case, letter)
    layouts = ["plain"] + (["transposed"] if case.layouts and mt.device == "cpu" else [])
    for layout in layouts:
        args = arguments(mt, case, values, letter, layout)
        outs = mt.call(mt_rows()[case.op], args, case.kwargs)
        check(mt, case, outs, wanted(case, values, letter), letter)
        if mt_rows()[case.op].in_place:
            assert outs[0] is args[0]


def gradients(mt, case, values, letter):
    args = arguments(mt, case, values, letter)
    inputs = []
    for i in case.differentiable():
        leaves = [t.detach().requires_grad_() for t in as_list(args[i])]
        inputs += leaves
        used = [t.clone() for t in leaves] if i == 0 and mt_rows()[case.op].in_place else leaves
        args[i] = used if isinstance(args[i], list) else used[0]
    outs = [t for t in mt.call(mt_rows()[case.op], args, case.kwargs) if t.requires_grad]
    return mt.grads(outs, inputs, [mindtorch.ones_like(t) for t in outs]), inputs


DIFFERENTIATED = [case for case, letter in CHOSEN if letter == "h" and case.differentiable() and case.grad_outs is None]


@over([(case, REAL[turn % 2]) for turn, case in enumerate(DIFFERENTIATED)])
def test_gradient(mt, case, letter):
    """It has the input's dtype, and is what float32's is but for rounding."""
    values = values_of(case, letter)
    got, inputs = gradients(mt, case, values, letter)
    want, _ = gradients(mt, case, [convert(a, np.dtype(np.float32)) if i in case.real() else a for i, a in enumerate(values)], "f")
    for g, w, x in zip(got, want, inputs):
        assert g.dtype == x.dtype and g.shape == x.shape
        w = mt.array(w).astype(np.float64)
        tolerance, scale = 4 * TOLERANCE[letter], float(np.max(np.abs(w), initial=0.5))
        np.testing.assert_allclose(mt.array(g).astype(np.float64), w, rtol=tolerance, atol=tolerance * scale, err_msg=case.id)


def test_every_op_of_real_operands_is_tried():
    tried = {case.op for case, _ in CHOSEN} | UNFIT
    assert sorted({c.op for c in CASES if c.real() and c.random is None and c.values and set("fil") & set(c.dtypes)} - tried) == []


# ---------------------------------------------------------------------------------------------------- optimizers

@pytest.mark.parametrize("letter", REAL)
@pytest.mark.parametrize("step", [s for s in STEPS if not s.sparse][::3], ids=[s.id for s in STEPS if not s.sparse][::3])
def test_optimizer_step(mt, step, letter):
    """One step, computed in float32 and rounded once."""
    def run(letter_now):
        cast = lambda a, single: mt.tensor(np.asarray(rounded(a, letter), np.float32)).to(mt.dtype("f" if single else letter_now))  # noqa: E731
        params = [cast(p, False) for p in harness.parameters(step)]
        states = [[cast(s[name], name in harness.SINGLE) for s in harness.states_of(step)] for name in step.states]
        options = dict(step.options) | ({"is_first_step": True} if step.op == "_fused_sgd_" else {})
        mt.call(mt_rows()[step.op], [params, [cast(g, False) for g in harness.gradients(step, 1)], *states], options)
        return params
    for got, want in zip(run(letter), run("f")):
        assert mt.letter(got) == letter and got._version >= 1
        np.testing.assert_allclose(mt.array(got).astype(np.float64), rounded(mt.array(want), letter).astype(np.float64), rtol=TOLERANCE[letter], atol=1e-3)


# ----------------------------------------------------------------------------------------------------- promotion

LETTERS = "b" + WHOLE + "il" + REAL + "fd"


def operands(peer, kind, a, b):
    def made(of, letter, values):
        if letter in NUMBERS:
            return NUMBERS[letter]
        return peer.argument(np.asarray(values if of == "tensor" else values[0], np.float32)).to(peer.dtype(letter))
    left, right = kind.split("_")
    return made(left, a, [3, 1, 2]), made(right, b, [2, 1, 1])


def pairs_of(kind):
    pairs = [(a, b) for a in LETTERS for b in ("BLF" if kind.endswith("number") else LETTERS)]
    return [(a, b) for a, b in pairs if a in WHOLE + REAL or b in WHOLE + REAL]


def result_of(op, letter):
    rule = BINARY[op][0]
    said = rule(WIDE.get(letter, letter))
    return letter if said == WIDE.get(letter, letter) and said != "b" else said


@pytest.mark.parametrize("op,kind", [(op, kind) for op in ("add", "div", "maximum", "lt", "bitwise_and") for kind in KINDS
                                     if BINARY[op][2] or not kind.endswith("number")])
def test_promotion(mt, op, kind):
    peers = [mt] + ([Torch(torch)] if torch is not None and mt.device == "cpu" else [])
    wrong = []
    for a, b in pairs_of(kind):
        joint = promoted(kind, a, b)
        for peer in peers:
            try:
                out = peer.call(mt_rows()[op], list(operands(peer, kind, a, b)))[0]
            except (RuntimeError, NotImplementedError) as error:
                if not (op == "bitwise_and" and joint in "hyfd"):
                    wrong.append((peer.name, a, b, str(error)))
                continue
            if peer.letter(out) != result_of(op, joint):
                wrong.append((peer.name, a, b, f"is {peer.letter(out)}, should be {result_of(op, joint)}"))
    assert not wrong, wrong


# --------------------------------------------------------------------------------------------------------- casts

@pytest.mark.parametrize("to", LETTERS)
@pytest.mark.parametrize("of", LETTERS)
def test_casts(mt, of, to):
    """Of every dtype to every other, dense and not: C's conversions, the nearest half."""
    values = np.array([[0, 1, 2, 3, 5, 7], [100, 17, 1, 0, 33, 127]], np.float64)
    if of in "hyfd":
        values = values + 0.25 * (values < 32)
    if of in "csilhyfd" and to != "u":
        values[0] *= -1
    x = mt.argument(np.asarray(rounded(values, of) if of in WHOLE + REAL else values.astype(harness.DTYPES[of]))).to(mt.dtype(of))
    held = mt.array(x).astype(np.float64)
    want = held != 0 if to == "b" else rounded(np.trunc(held) if to in WHOLE else held, to) if to in WHOLE + REAL else held.astype(harness.DTYPES[to])
    for t, w in ((x, want), (x.t(), want.T), (x[:, ::2], want[:, ::2])):
        np.testing.assert_array_equal(mt.array(t.to(mt.dtype(to))), w)
        out = mindtorch.zeros(list(w.shape), dtype=mt.dtype(to), device=mt.device)
        assert mt.letter(out.copy_(t)) == to
        np.testing.assert_array_equal(mt.array(out), w)


def test_every_half_becomes_the_float_that_numpy_says(mt):
    bits = np.arange(65536, dtype=np.uint16)
    halves = bits.view(np.float16)
    got = mt.array(mt.argument(halves).float())
    np.testing.assert_array_equal(got, halves.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(halves))
    as_short = mt.array(mt.argument(bits.view(np.int16)))
    assert np.array_equal(as_short, bits.view(np.int16))


@pytest.mark.parametrize("letter", REAL)
def test_floats_round_to_the_nearest_half_ties_to_even(mt, letter):
    r = np.random.default_rng(1)
    bits = r.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    near = (np.arange(65536, dtype=np.uint16).view(np.float16) if letter == "h" else (np.arange(65536, dtype=np.uint32) << 16).view(np.float32))
    near = near[np.isfinite(near)].astype(np.float64)
    middles = np.sort(near)[:-1] / 2 + np.sort(near)[1:] / 2
    with np.errstate(all="ignore"):
        values = np.concatenate([bits.view(np.float32), middles.astype(np.float32), np.float32([0, -0.0, np.inf, -np.inf, np.nan, 65519, 65520, 1e-8, 6e-8, 2.9e-8])])
    got = mt.array(mt.argument(values).to(mt.dtype(letter)))
    np.testing.assert_array_equal(got.astype(np.float32), rounded(values, letter).astype(np.float32))


@pytest.mark.parametrize("letter", WHOLE)
def test_integers_wrap_around(mt, letter):
    low, high = (np.iinfo(NUMPY[letter]).min, np.iinfo(NUMPY[letter]).max)
    x = np.array([low, high, 1, high // 2], NUMPY[letter])
    t = mt.argument(x)
    with np.errstate(all="ignore"):
        for got, want in ((t + t, x + x), (t * t, x * x), (-t, -x), (t.abs(), np.abs(x)), (t - 1, x - NUMPY[letter](1)), (t * 3, x * NUMPY[letter](3)),
                          (t.sum(), np.sum(x, dtype=np.int64)), (t.sum(dtype=mt.dtype(letter)), np.sum(x, dtype=NUMPY[letter])), (~t, ~x),
                          (t.cumsum(0), np.cumsum(x, dtype=np.int64)), (t.clone().add_(t), x + x)):
            np.testing.assert_array_equal(mt.array(got), want)
            assert mt.array(got).dtype == np.asarray(want).dtype


@pytest.mark.parametrize("letter", REAL)
def test_uniform_numbers_do_not_reach_the_upper_end(mt, letter):
    """One in a thousand would round to it: as in PyTorch, it becomes the lower end."""
    mindtorch.manual_seed(0)
    x = mindtorch.empty(100_000, dtype=mt.dtype(letter), device=mt.device)
    before = x._version
    values = mt.array(x.uniform_(2, 3))
    assert values.min() == 2 and 2.98 < values.max() < 3 and x._version == before + 1
    if mt.device == "cpu" and torch is not None:
        torch.manual_seed(0)
        np.testing.assert_array_equal(values, Torch(torch).array(torch.empty(100_000, dtype=getattr(torch, DTYPE_NAMES[letter])).uniform_(2, 3)))


def test_sums_of_halves_are_rounded_once(mt):
    """4096 ones and a bit: added one by one in float16, they would stop at 2048."""
    x = mt.argument(np.full(4097, 1.0, np.float16))
    assert mt.array(x.sum()) == np.float16(4097) and mt.array(x.mean()) == 1
    assert mt.array(mt.argument(np.full((1, 4097), 1.0, np.float32)).bfloat16().sum(1)) == rounded(4097.0, "y")
    ones = mt.argument(np.ones((1, 3000), np.float16))
    assert mt.array(ones @ ones.t())[0, 0] == 3000
