"""Every op of the table against NumPy in float64, finite differences, PyTorch's rules and, if installed, PyTorch.

    PYTHONPATH=src pytest tests/mindtorch_v2/test_ops.py [-k add]

The name of a failure gives the check, the op and the case. The cases are in ops/; the last test fails if a row of the op
table has no case, or has a derivative that no case differentiates.
"""
import os

import numpy as np
import pytest

import mindtorch_v2 as mindtorch

from ops import CASES, by_op
from ops.case import DTYPES, convert, rng, size_of, slopes
from ops.cases_optim import SINGLE, STEPS
from ops.errors import ERRORS
from ops.peer import Mindtorch, Torch, same_along_last
from ops.promotion import BINARY, KINDS, NUMBERS, promoted

try:
    import torch
    torch.set_num_threads(1)
except ImportError:
    torch = None

SMALL = 40  # elements: more are not differentiated one by one


@pytest.fixture(scope="session")
def device():
    return os.environ.get("MINDTORCH_TEST_DEVICE", "cpu")


@pytest.fixture(scope="session")
def mt(device):
    return Mindtorch(mindtorch, device)


@pytest.fixture(scope="session")
def pt():
    if torch is None:
        pytest.skip("PyTorch is not installed")
    return Torch(torch)


def over(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.id for case in cases])


def with_torch(items):
    """Empty without PyTorch: one skip instead of thousands."""
    return items if torch is not None else []


# --------------------------------------------------------------------------------------------------- comparing

def as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def wanted(case, args):
    """NumPy's results, as a list of arrays; computed in float64, unless the case asks for the tried dtype."""
    if not case.typed:
        args = [convert(a, DTYPES["d"]) if i in case.real() else a for i, a in enumerate(args)]
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in as_list(case.want(*args, **case.kwargs))]


def letter_of(case, i, letter):
    rule = case.out[i] if isinstance(case.out, tuple) else case.out
    if callable(rule):
        return rule(letter)
    if rule == "float":
        return letter if letter in "fd" else "f"
    return letter if rule == "same" else rule


def same_values(case, got, want, letter, what="value"):
    want = want.astype(DTYPES[letter]).astype(np.float64)
    rtol = {"d": case.rtol, "f": case.rtol32}.get(letter, 0)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=rtol * (0.05 if letter == "f" else 0.1),
                               err_msg=f"{what} ({case.id})")


def check_outputs(peer, case, outs, want, letter):
    assert len(outs) == len(want), f"{len(outs)} results"
    for i, (got, expected) in enumerate(zip(outs, want)):
        assert tuple(got.shape) == expected.shape, f"shape of result {i}"
        assert peer.letter(got) == letter_of(case, i, letter), f"dtype of result {i}"
        if case.values:
            same_values(case, peer.array(got), expected, letter_of(case, i, letter), f"result {i}")


def tried(case, letter):
    """The arguments in a dtype; they are copies, so an op may change them."""
    args = case.args if letter == "d" else case.with_dtype(letter)
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def letters(case):
    return [letter for letter in "d" + case.dtypes if allowed(case, letter)]


def allowed(case, letter):
    return letter != "d" or not (case.typed and case.op.startswith(("bitwise", "__")))


def run(peer, case, letter="d", layout="plain"):
    args = [peer.argument(a, layout if i in case.real() else "plain") for i, a in enumerate(tried(case, letter))]
    return peer.call(mt_rows()[case.op], args, case.kwargs), args


def mt_rows(found={}):
    if not found:
        found.update(Mindtorch(mindtorch).rows)
    return found


# ----------------------------------------------------------------------------------------------------- forward

@over(CASES)
def test_forward(mt, case):
    for letter in letters(case):
        outs, _ = run(mt, case, letter)
        check_outputs(mt, case, outs, wanted(case, tried(case, letter)), letter)


LAID_OUT = [c for c in CASES if c.layouts and any(np.ndim(x) > 0 for i in c.real() for x in as_list(c.args[i]))]


def ties_matter(op):
    """Ops whose answer is ambiguous for equal values along a dim."""
    return any(word in op for word in ("max", "min", "sort", "topk", "pool"))


@over(LAID_OUT)
def test_layouts(mt, case):
    """The same from tensors that are transposed, strided, gapped, or have a stride of 0."""
    letter = letters(case)[0]
    want = wanted(case, tried(case, letter))
    for layout in ("transposed", "strided", "gapped"):
        outs, _ = run(mt, case, letter, layout)
        check_outputs(mt, case, outs, want, letter)
    if mt_rows()[case.op].in_place or ties_matter(case.op) or not case.values or not case.free or case.view:
        return
    values = [same_along_last(a) if i in case.real() else a for i, a in enumerate(tried(case, letter))]
    args = [mt.argument(a, "expanded" if i in case.real() and all(np.ndim(x) for x in as_list(a)) else "plain")
            for i, a in enumerate(values)]
    outs = mt.call(mt_rows()[case.op], args, case.kwargs)
    check_outputs(mt, case, outs, wanted(case, values), letter)


DERIVED = {c.op for c in CASES if c.grad is not False}


@over([c for c in CASES if c.real() and c.op not in DERIVED and c.random is None and allowed(c, "d")])
def test_no_gradient_is_promised_where_there_is_none(mt, case):
    """Where nobody has written the derivative, backward says so: silence would be a gradient of zero."""
    row = mt_rows()[case.op]
    if row.in_place:
        pytest.skip("refuses leaves")
    args = [mt.argument(a, grad=i in case.real()) for i, a in enumerate(tried(case, "d"))]
    for out in mt.call(row, args, case.kwargs):
        if out.requires_grad:
            with pytest.raises(RuntimeError, match="derivative for aten::.* is not implemented"):
                out.backward(out.detach())


# --------------------------------------------------------------------------------------------------- gradients

DIFFERENTIABLE = [c for c in CASES if c.differentiable()]


def leaves(peer, case, values, layout="plain"):
    """The arguments, and a flat list of the differentiable tensors among them. Of in-place ops self is a copy of a leaf."""
    args, inputs = [], []
    for i, a in enumerate(values):
        if i not in case.differentiable():
            args.append(peer.argument(a))
            continue
        t = peer.argument(a, layout, grad=True)
        inputs += as_list(t)
        args.append(t.clone() if i == 0 and mt_rows()[case.op].in_place else t)
    return args, inputs


def floats(peer, case, outs):
    chosen = range(len(outs)) if case.grad_outs is None else case.grad_outs
    return [outs[i] for i in chosen if peer.letter(outs[i]) in "fd"]


def weights_for(peer, outs, seed):
    return [peer.argument(rng(seed, i).uniform(0.5, 1.5, tuple(t.shape))) for i, t in enumerate(outs)]


def loss(peer, case, values, weights):
    """sum(outs * weights), a number."""
    args = [peer.argument(a) for a in values]
    outs = floats(peer, case, peer.call(mt_rows()[case.op], args, case.kwargs))
    return sum(float(np.sum(peer.array(t) * w)) for t, w in zip(outs, weights))


def copied(a):
    return a.copy() if isinstance(a, np.ndarray) else [copied(x) for x in a] if isinstance(a, list) else a


def numeric(peer, case, values, weights, measure):
    """Central differences of measure(values) at every differentiable array."""
    out = []
    for i in case.differentiable():
        for k, array in enumerate(as_list(values[i])):
            def at(x, i=i, k=k):
                moved = [copied(v) for v in values]
                if isinstance(values[i], list):
                    moved[i][k] = x
                else:
                    moved[i] = x
                return measure(peer, case, moved, weights)
            out.append(slopes(at, array))
    return out


def analytic(peer, case, values, layout="plain"):
    args, inputs = leaves(peer, case, values, layout)
    all_outs = peer.call(mt_rows()[case.op], args, case.kwargs)
    outs = floats(peer, case, all_outs)
    assert outs and all(t.requires_grad for t in outs), "the result has no history"
    weights = weights_for(peer, outs, case.id)
    return peer.grads(outs, inputs, weights), inputs, [peer.array(w) for w in weights], outs


def small_enough(case, limit):
    return sum(size_of(case.args[i]) for i in case.differentiable()) <= limit


def close(case, got, want, what):
    scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
    np.testing.assert_allclose(got, want, rtol=case.grad_rtol, atol=case.grad_rtol * scale, err_msg=f"{what} ({case.id})")


@over(DIFFERENTIABLE)
def test_gradient(mt, case):
    """By finite differences; the same from other layouts, with a gradient of stride 0 and in float32; by the row's node."""
    values = tried(case, "d")
    grads, inputs, weights, outs = analytic(mt, case, values)
    for g, x in zip(grads, inputs):
        assert tuple(g.shape) == tuple(x.shape) and g.dtype == x.dtype
    plain = [mt.array(g) for g in grads]
    if small_enough(case, 4 * SMALL):
        for i, (got, want) in enumerate(zip(plain, numeric(mt, case, values, weights, loss))):
            close(case, got, want, f"gradient {i}")
    if case.layouts:
        for layout in ("transposed", "strided"):
            for got, want in zip(analytic(mt, case, values, layout)[0], plain):
                close(case, mt.array(got), want, f"gradient of {layout} inputs")
    if not case.view and expected_node(case):
        assert mt.node(outs[0]) == expected_node(case)
    of_ones = gradient_of_ones(mt, case, values, expanded=True)
    for got, want in zip(of_ones, gradient_of_ones(mt, case, values, expanded=False)):
        close(case, mt.array(got), mt.array(want), "gradient of an expanded gradient")
    if "f" in case.dtypes and case.real() == case.differentiable():
        check_float32(mt, case)


# Where a number as the operand has a node of its own: the operand's position and that name. Others have the row's.
NUMBER_NODES = {"rsub": (1, "RsubBackward1"), "remainder": (1, "RemainderBackward0"), "fill_": (1, "FillBackward2"),
                "masked_fill": (2, "MaskedFillBackward0"), "lerp": (2, "LerpBackward0"), "scatter": (3, "ScatterBackward1")}


def expected_node(case):
    if case.node is not None:
        return case.node
    for op in (case.op, case.op[:-1]):
        if op in NUMBER_NODES and not isinstance(case.args[NUMBER_NODES[op][0]], np.ndarray):
            return NUMBER_NODES[op][1]
    return mt_rows()[case.op].backward


def gradient_of_ones(peer, case, values, expanded):
    """`expanded`: as sum() sends it, with strides of 0."""
    args, inputs = leaves(peer, case, values)
    outs = floats(peer, case, peer.call(mt_rows()[case.op], args, case.kwargs))
    def one(t):
        dtype = DTYPES[peer.letter(t)]
        if not expanded:
            return peer.argument(np.ones(tuple(t.shape), dtype=dtype))
        return peer.call_name("expand", peer.argument(np.ones((), dtype=dtype)), list(t.shape))
    return peer.grads(outs, inputs, [one(t) for t in outs])


def check_float32(peer, case):
    """Its gradients are float32, and what float64's are."""
    narrow = gradient_of_ones(peer, case, tried(case, "f"), True)
    rounded = [convert(convert(a, DTYPES["f"]), DTYPES["d"]) if i in case.real() else a for i, a in enumerate(case.args)]
    for g, w in zip(narrow, gradient_of_ones(peer, case, rounded, True)):
        assert peer.letter(g) == "f"
        w = peer.array(w)
        scale = max(1.0, float(np.max(np.abs(w), initial=0.0)))
        np.testing.assert_allclose(peer.array(g), w, rtol=2e-3, atol=1e-4 * scale, err_msg=f"float32 gradient ({case.id})")


def first_gradient(peer, case, values, weights):
    """sum(first gradients * mixing), a number; and, on request, with its graph."""
    grads, _, mixing = mixed(peer, case, values, weights)
    return sum(float(np.sum(peer.array(g) * peer.array(m))) for g, m in zip(grads, mixing))


def mixed(peer, case, values, weights):
    args, inputs = leaves(peer, case, values)
    outs = floats(peer, case, peer.call(mt_rows()[case.op], args, case.kwargs))
    grads = peer.grads(outs, inputs, [peer.argument(w) for w in weights], create_graph=True)
    return grads, inputs, weights_for(peer, grads, case.id + "2")


@over([c for c in DIFFERENTIABLE if small_enough(c, SMALL) and size_of(c.args[c.differentiable()[0]]) > 0])
def test_second_derivative(mt, case):
    """Correct or refused, never wrong."""
    values = tried(case, "d")
    outs = floats(mt, case, run(mt, case)[0])
    weights = [mt.array(w) for w in weights_for(mt, outs, case.id)]
    grads, inputs, mixing = mixed(mt, case, values, weights)
    tracked = [i for i, g in enumerate(grads) if g.requires_grad]
    want = numeric(mt, case, values, weights, first_gradient)
    if case.second is False:
        try:
            got = mt.grads([grads[i] for i in tracked], inputs, [mixing[i] for i in tracked]) if tracked else None
        except RuntimeError as error:
            assert "derivative" in str(error) or "does not require grad" in str(error)
            return
        if got is None:
            return
    elif not tracked:
        for w in want:
            close(case, w, np.zeros_like(w), "second derivative is not zero, but the gradient has no history")
        return
    else:
        got = mt.grads([grads[i] for i in tracked], inputs, [mixing[i] for i in tracked])
    for i, (g, w) in enumerate(zip(got, want)):
        close(case, mt.array(g), w, f"second derivative {i}")


# -------------------------------------------------------------------------------------------- in place and views

IN_PLACE = [c for c in CASES if mt_rows()[c.op].in_place]


@over(IN_PLACE)
def test_in_place(mt, case):
    """Changes self and nothing else, increments its version, and returns self."""
    for letter in letters(case):
        values = tried(case, letter)
        args = [mt.argument(a) for a in values]
        self, before = args[0], args[0]._version
        out = mt.call(mt_rows()[case.op], args, case.kwargs)[0]
        assert out is self
        assert self._version > before
        others = [(t, v) for t, v in zip(args[1:], values[1:]) if isinstance(v, np.ndarray)]
        for t, v in others:
            np.testing.assert_array_equal(mt.array(t), v)
        if case.values:
            same_values(case, mt.array(self), wanted(case, tried(case, letter))[0], letter)


@over([c for c in IN_PLACE if c.grad is not False and 0 in c.differentiable()])
def test_in_place_refuses_a_leaf(mt, case):
    args = [mt.argument(a, grad=i == 0) for i, a in enumerate(tried(case, "d"))]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        mt.call(mt_rows()[case.op], args, case.kwargs)


@over([c for c in IN_PLACE if c.label in ("matrix", "rows") and 0 in c.differentiable()])
def test_in_place_on_a_view_is_seen_by_its_base(mt, case):
    values = tried(case, "d")
    grads, inputs, weights, _ = analytic(mt, case, values)
    base = mt.argument(np.stack([values[0], values[0]]), grad=True)
    middle = base.clone()
    args = [mt.call_name("select", middle, 0, 1)] + [mt.argument(a) for a in values[1:]]
    mt.call(mt_rows()[case.op], args, case.kwargs)
    if case.random is None:
        same_values(case, mt.array(middle)[1], wanted(case, tried(case, "d"))[0], "d", "base")
    both = np.stack([weights[0], weights[0]])
    got = mt.array(mt.grads([middle], [base], [mt.argument(both)])[0])
    close(case, got[0], weights[0], "gradient beside the view")
    close(case, got[1], mt.array(grads[0]), "gradient of the view")


# PyTorch lets these write to one place several times.
MAY_OVERLAP = {"fill_", "zero_", "masked_fill_", "index_put_", "_index_put_impl_"}


@over([c for c in IN_PLACE if c.label in ("matrix", "rows") and c.op not in MAY_OVERLAP])
def test_in_place_refuses_memory_that_overlaps(mt, case):
    letter = letters(case)[-1]
    values = tried(case, letter)
    args = [mt.tensor(same_along_last(values[0]), "expanded")] + [mt.argument(a) for a in values[1:]]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        mt.call(mt_rows()[case.op], args, case.kwargs)


@over([c for c in DIFFERENTIABLE if small_enough(c, SMALL)])
def test_a_change_after_the_op_is_noticed(mt, case):
    """Inputs, then results, are changed before backward: it must refuse, or not need them."""
    values = tried(case, "d")
    want = [mt.array(g) for g in analytic(mt, case, values)[0]]
    for changed in ("inputs", "results"):
        args, inputs = leaves(mt, case, values)
        outs = floats(mt, case, mt.call(mt_rows()[case.op], args, case.kwargs))
        weights = weights_for(mt, outs, case.id)
        held = [t for a in args for t in as_list(a) if hasattr(t, "mul_") and t.dtype == outs[0].dtype]
        with mindtorch.no_grad():
            for t in (held if changed == "inputs" else outs):
                if not (t.numel() > 1 and 0 in t.stride()):
                    t.mul_(3)
        try:
            got = mt.grads(outs, inputs, weights)
        except RuntimeError as error:
            assert any(words in str(error) for words in ("modified by an inplace operation", "modified inplace", "no_grad"))
            continue
        for g, w in zip(got, want):
            close(case, mt.array(g), w, f"gradient after a change of the {changed}")


VIEWS = [c for c in CASES if c.view]


@over(VIEWS)
def test_view_shares_memory(mt, case):
    values = tried(case, "d")
    args = [mt.argument(a) for a in values]
    outs = mt.call(mt_rows()[case.op], args, case.kwargs)
    for out, want in zip(outs, as_list(case.want(*values, **case.kwargs))):
        if want.size == 0:
            continue
        if np.shares_memory(want, values[0]):
            steps = [s // want.itemsize for s, n in zip(want.strides, want.shape) if n > 1]
            assert [s for s, n in zip(out.stride(), out.shape) if n > 1] == steps
            at = (want.__array_interface__["data"][0] - values[0].__array_interface__["data"][0])
            assert out.data_ptr() - args[0].data_ptr() == at
        else:
            assert 0 <= out.data_ptr() - args[0].data_ptr() < max(values[0].nbytes, 1)
        before = out._version
        args[0].mul_(2)
        assert out._version == before + 1
        np.testing.assert_allclose(mt.array(out), want * 2)
        args[0].mul_(0.5)


@over([c for c in VIEWS if c.differentiable() and small_enough(c, SMALL)])
def test_change_through_a_view_has_a_gradient(mt, case):
    """d/dx sum(w * base), where base = x.clone(); view(base) *= 3."""
    if case.op in ("split", "split_with_sizes", "chunk", "unbind"):
        pytest.skip("PyTorch refuses to change one of several views")
    values = tried(case, "d")
    x = mt.argument(values[0], grad=True)
    base = x.clone()
    out = mt.call(mt_rows()[case.op], [base] + [mt.argument(a) for a in values[1:]], case.kwargs)[0]
    places = np.zeros(tuple(base.shape), dtype=np.float64)
    if case.op in ("expand", "expand_as", "as_strided") and tuple(out.shape) != tuple(base.shape):
        pytest.skip("several elements may be one")
    out.mul_(3)
    touched = np.asarray(case.want(np.arange(places.size, dtype=np.float64).reshape(places.shape), *values[1:],
                                   **case.kwargs)).astype(int)
    places.reshape(-1)[touched.reshape(-1)] = 1
    w = rng(case.id).uniform(0.5, 1.5, places.shape)
    got = mt.array(mt.grads([base], [x], [mt.argument(w)])[0])
    np.testing.assert_allclose(got, w * (1 + 2 * places))
    np.testing.assert_allclose(mt.array(base), values[0] * (1 + 2 * places))


# ------------------------------------------------------------------------------------------------------ chance

@over([c for c in CASES if c.random is not None])
def test_chance(mt, case):
    """The same seed gives the same numbers, another seed others, with the right distribution."""
    def drawn(seed):
        mindtorch.manual_seed(seed)
        return [mt.array(t) for t in run(mt, case)[0]][0]
    first, again, other = drawn(1), drawn(1), drawn(2)
    np.testing.assert_array_equal(first, again)
    if first.size > 100:
        assert not np.array_equal(first, other)
        half = first.reshape(-1)[:first.size // 2]
        assert not np.array_equal(half, first.reshape(-1)[-half.size:])
    case.random(first)
    case.random(other)


@over([c for c in CASES if c.random is not None and mt_rows()[c.op].in_place and c.label in ("matrix", "hole")])
def test_chance_in_place_forgets_what_was(mt, case):
    x = mt.argument(case.args[0], grad=True)
    out = mt.call(mt_rows()[case.op], [x.clone(), *map(mt.argument, case.args[1:])], case.kwargs)[0]
    got = mt.grads([out], [x], [mt.argument(np.ones(case.args[0].shape))])[0]
    np.testing.assert_array_equal(mt.array(got), np.zeros(case.args[0].shape))


def test_chance_goes_on_from_call_to_call(mt):
    mindtorch.manual_seed(0)
    call = lambda: mt.array(mt.call(mt_rows()["rand"], [[64]])[0])  # noqa: E731
    a, b = call(), call()
    assert not np.array_equal(a, b)


def test_dropout_passes_gradients_where_it_passed_values(mt):
    x = mt.argument(np.ones((20, 30)), grad=True)
    y = mt.call(mt_rows()["dropout"], [x, 0.4, True])[0]
    got = mt.array(mt.grads([y], [x], [mt.argument(np.ones((20, 30)))])[0])
    np.testing.assert_allclose(got, mt.array(y))


# -------------------------------------------------------------------------------------------------- optimizers

PARAMETERS = ((3, 4), (5,), (), (2, 0), (37, 131))
SEVERAL = 6  # steps: RAdam begins to rectify at the sixth or so


def parameters(step):
    return [rng(step.id, i).standard_normal(shape) for i, shape in enumerate(PARAMETERS) if not step.sparse or shape]


def gradients(step, t):
    out = [rng(step.id, i, t).standard_normal(p.shape) for i, p in enumerate(parameters(step))]
    for g in out:
        if step.sparse and g.shape[0] > 1:
            g[t % g.shape[0]] = 0
    return out


def states_of(step):
    """One dict of arrays per parameter."""
    def state(name, p):
        start = step.start.get(name, 0.0)
        return np.full((), start) if name in SINGLE else np.full(p.shape, start)
    out = [{name: state(name, p) for name in step.states} for p in parameters(step)]
    for s, p in zip(out, parameters(step)):
        if "axs" in s:
            s["axs"] = np.zeros_like(p)
    return out


def stepped(step):
    """The parameters and states after several steps, by NumPy."""
    values, states = parameters(step), states_of(step)
    for t in range(1, SEVERAL + 1):
        for s in states:
            if "state_steps" in s:
                s["state_steps"] += 1
        values = [np.asarray(step.step(p, g, s, t, **step.options)) for p, g, s in zip(values, gradients(step, t), states)]
    return values, states


@pytest.mark.parametrize("letter", "df")
@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize("step", STEPS, ids=[step.id for step in STEPS])
def test_optimizer_step(mt, step, layout, letter):
    def tensor(a):
        return mt.tensor(np.asarray(a, dtype=DTYPES[letter]), layout)
    params = [tensor(p) for p in parameters(step)]
    states = [[tensor(s[name]) for s in states_of(step)] for name in step.states]
    before = [t._version for t in params]
    for t in range(1, SEVERAL + 1):
        options = dict(step.options)
        if step.op == "_fused_sgd_":
            options["is_first_step"] = t == 1
        mt.call(mt_rows()[step.op], [params, [tensor(g) for g in gradients(step, t)], *states], options)
    values, wanted_states = stepped(step)
    tolerance = {"rtol": 1e-9, "atol": 1e-11} if letter == "d" else {"rtol": 2e-3, "atol": 2e-4}
    for got, want, version in zip(params, values, before):
        np.testing.assert_allclose(mt.array(got), want, **tolerance)
        assert got._version >= version + SEVERAL
    for name, tensors in zip(step.states, states):
        for got, want in zip(tensors, wanted_states):
            np.testing.assert_allclose(mt.array(got), want[name], err_msg=name, **tolerance)


@pytest.mark.parametrize("step", with_torch(STEPS), ids=[step.id for step in with_torch(STEPS)])
def test_optimizer_reference_is_torch(pt, step):
    """The reference of test_optimizer_step does what torch.optim does."""
    name, options = step.torch
    params = [pt.module.nn.Parameter(pt.tensor(p)) for p in parameters(step)]
    optimizer = getattr(pt.module.optim, name)(params, **(options | ({"lr": 0.01} if name == "Rprop" else {})))
    for t in range(1, SEVERAL + 1):
        for p, g in zip(params, gradients(step, t)):
            p.grad = pt.tensor(g).to_sparse(1) if step.sparse else pt.tensor(g)
        optimizer.step()
    for got, want in zip(params, stepped(step)[0]):
        np.testing.assert_allclose(pt.array(got), want, rtol=1e-7, atol=1e-7)  # its ASGD counts in float32


# --------------------------------------------------------------------------------------------------- promotion

def operand(kind, letter, values):
    if letter in NUMBERS:
        return NUMBERS[letter]
    return np.asarray(values if kind == "tensor" else values[0]).astype(DTYPES[letter])


def pairs_of(kind):
    return [(a, b) for a in "bilfd" for b in ("BLF" if kind.endswith("number") else "bilfd")]


def refuses(op, kind, a, b):
    if op == "sub":  # two bools, or a bool and a bool number
        return a == "b" or b in "bB"
    return promoted(kind, a, b) in BINARY[op][1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", sorted(BINARY))
def test_promotion(mt, op, kind):
    if kind.endswith("number") and not BINARY[op][2]:
        pytest.skip("takes no number")
    if op not in mt_rows():
        pytest.skip("is not in the table")
    case = by_op()[op][0]
    left, right = kind.split("_")
    wrong = []
    for a, b in pairs_of(kind):
        x, y = operand(left, a, [3, 1, 2]), operand(right, b, [2, 1, 1])
        try:
            out = mt.call(mt_rows()[op], [mt.argument(x), mt.argument(y)])[0]
        except (RuntimeError, TypeError) as error:
            if not refuses(op, kind, a, b):
                wrong.append((a, b, str(error)))
            continue
        want = BINARY[op][0](promoted(kind, a, b))
        if mt.letter(out) != want:
            wrong.append((a, b, f"is {mt.letter(out)}, should be {want}"))
        elif refuses(op, kind, a, b):
            wrong.append((a, b, "should be refused"))
        else:
            typed = [np.asarray(v).astype(DTYPES[promoted(kind, a, b)]) if case.typed else np.asarray(v).astype(np.float64)
                     for v in (x, y)]
            with np.errstate(all="ignore"):
                value = np.asarray(case.want(*typed)).astype(DTYPES[want])
            if not np.allclose(mt.array(out).astype(np.float64), value.astype(np.float64), rtol=1e-5, equal_nan=True):
                wrong.append((a, b, f"{mt.array(out)} should be {value}"))
    assert not wrong, wrong


@pytest.mark.parametrize("op", ["add_", "sub_", "mul_", "div_"])
def test_in_place_keeps_the_dtype_or_refuses(mt, op):
    for a, b in pairs_of("tensor_tensor"):
        if op == "sub_" and "b" in a + b:
            continue
        result = promoted("tensor_tensor", a, b)
        result = ("f" if result in "bil" else result) if op == "div_" else result
        kinds = {"b": 0, "i": 1, "l": 1, "f": 2, "d": 2}
        args = [mt.argument(operand("tensor", a, [3, 1, 2])), mt.argument(operand("tensor", b, [2, 1, 1]))]
        if kinds[result] > kinds[a]:
            with pytest.raises(RuntimeError, match="result type .* can't be cast to the desired output type"):
                mt.call(mt_rows()[op], args)
        else:
            assert mt.letter(mt.call(mt_rows()[op], args)[0]) == a


@pytest.mark.parametrize("op", ["cat", "stack", "where"])
def test_joins_promote(mt, op):
    for a, b in pairs_of("tensor_tensor"):
        x, y = (mt.argument(operand("tensor", letter, [1, 0, 1])) for letter in (a, b))
        args = [mt.argument(np.array([True, False, True])), x, y] if op == "where" else [[x, y]]
        assert mt.letter(mt.call(mt_rows()[op], args)[0]) == promoted("tensor_tensor", a, b), (a, b)


# ------------------------------------------------------------------------------------------------------ errors

@pytest.mark.parametrize("error", ERRORS, ids=[f"{e.op}-{e.label}" for e in ERRORS])
def test_error(mt, error):
    """PyTorch's exception and message; and the runtime works afterwards."""
    with pytest.raises(error.kind, match=error.match):
        mt.call(mt_rows()[error.op], [mt.argument(a) for a in error.args], error.kwargs)
        if mt.device != "cpu":
            mindtorch.npu.synchronize()  # errors that depend on the data are found there
    assert mt.array(mt.call(mt_rows()["add"], [mt.argument(np.ones(2)), 1])[0]).tolist() == [2, 2]


@pytest.mark.parametrize("error", with_torch([e for e in ERRORS if e.torch]),
                         ids=[f"{e.op}-{e.label}" for e in with_torch([e for e in ERRORS if e.torch])])
def test_torch_fails_the_same_way(pt, error):
    with pytest.raises(error.kind, match=error.match):
        pt.call(mt_rows()[error.op], [pt.argument(a) for a in error.args], error.kwargs)


# ------------------------------------------------------------------------------------------------------- torch

@over(with_torch([c for c in CASES if c.torch and c.random is None]))
def test_same_as_torch(mt, pt, case):
    for letter in letters(case):
        outs, _ = run(mt, case, letter)
        theirs, _ = run(pt, case, letter)
        assert len(outs) == len(theirs)
        for i, (got, want) in enumerate(zip(outs, theirs)):
            assert tuple(got.shape) == tuple(want.shape)
            assert mt.letter(got) == pt.letter(want), f"dtype of result {i}, from {letter}"
            if case.view and 0 not in got.shape:
                assert [s for s, n in zip(got.stride(), got.shape)
                        if n > 1] == [s for s, n in zip(want.stride(), want.shape) if n > 1]
            if case.values:
                same_values(case, mt.array(got), pt.array(want), pt.letter(want), f"result {i}")
    if case.differentiable():
        check_gradient_is_torch(mt, pt, case)


def check_gradient_is_torch(mt, pt, case):
    values = tried(case, "d")
    ours, _, _, outs = analytic(mt, case, values)
    theirs, _, _, their_outs = analytic(pt, case, [copied(v) for v in values])
    for got, want in zip(ours, theirs):
        close(case, mt.array(got), pt.array(want), "gradient")
    if case.node is not False and case.torch_node:
        assert [mt.node(t) for t in outs] == [pt.node(t) for t in their_outs]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", with_torch(sorted(BINARY)))
def test_promotion_table_is_torch(pt, op, kind):
    if kind.endswith("number") and not BINARY[op][2]:
        pytest.skip("takes no number")
    left, right = kind.split("_")
    wrong = []
    for a, b in pairs_of(kind):
        try:
            out = pt.call(mt_rows()[op], [pt.argument(operand(left, a, [3, 1, 2])),
                                          pt.argument(operand(right, b, [2, 1, 1]))])[0]
        except (RuntimeError, TypeError) as error:
            if not refuses(op, kind, a, b):
                wrong.append((a, b, str(error)))
            continue
        want = BINARY[op][0](promoted(kind, a, b))
        if refuses(op, kind, a, b) or pt.letter(out) != want:
            wrong.append((a, b, f"is {pt.letter(out)}, the table says {want}"))
    assert not wrong, wrong


# ------------------------------------------------------------------------------------------------------ coverage

def test_every_row_has_a_cpu_kernel_or_is_made_of_others(mt):
    assert [row.id for row in mt_rows().values() if not row.kernels["cpu"]] == []


def test_every_row_is_covered(mt):
    """Each row has cases; each row with a derivative has one that is differentiated."""
    covered = set(by_op()) | {step.op for step in STEPS}
    assert sorted(set(mt_rows()) - covered) == [], "rows without cases"
    assert sorted(covered - set(mt_rows())) == [], "cases of no row"
    derived = {c.op for c in DIFFERENTIABLE} | {c.op for c in CASES if c.random is not None}
    assert sorted(id for id, row in mt_rows().items()
                  if row.backward not in (None, "NotImplemented") and id not in derived) == [], "derivatives without cases"
