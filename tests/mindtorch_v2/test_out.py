"""out=: results written to the caller's tensors, for every op of the table that supports it; compared with PyTorch if
installed.

    PYTHONPATH=src pytest tests/mindtorch_v2/test_out.py [-k sum]
"""
import re
import warnings

import numpy as np
import pytest

import mindtorch_v2 as mindtorch
from ops import CASES
from ops.peer import Mindtorch, Torch

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
MT = Mindtorch(mindtorch)
OUTS = dict(zip(MT.rows, mindtorch._C._out_overloads()))
DRAWN = {"bernoulli", "rand", "randn", "randint", "randint_low", "randperm", "multinomial", "empty"}  # values are chance
RESIZED = "An output with one or more elements was resized since it had shape"

with_out = [case for case in CASES if OUTS[case.op] is not None]
first_of = list({case.op: case for case in reversed(with_out)}.values())


def over(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.id for case in cases])


def function_of(peer, row):
    """The function of the package. PyTorch keeps some among the functions of nn, and some rows are overloads of one."""
    for module in (peer.module, getattr(getattr(peer.module, "_C", None), "_nn", None), getattr(peer.module._C, "ops", None)):
        if hasattr(module, row.name):
            return getattr(module, row.name)
    return getattr(peer.module._C._linalg, row.name)


def arguments(peer, case, **how):
    letter = "l" if case.op.startswith("bitwise") else "d"
    args = case.args if letter == "d" else case.with_dtype(letter)
    return [peer.argument(a, **how) for a in args], {k: peer.argument(v) for k, v in case.kwargs.items()}


def listed(made):
    return list(made) if isinstance(made, (tuple, list)) else [made]


def given(outs):
    return outs[0] if len(outs) == 1 else tuple(outs)


def called(peer, case, outs, args=None):
    """The results, the warnings, and the exception, of the case's call with these tensors for out=."""
    plain, kwargs = arguments(peer, case)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            made = function_of(peer, MT.rows[case.op])(*(plain if args is None else args), **kwargs, out=given(outs))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return None, [], error
    return listed(made), [str(w.message) for w in warned], None


def plainly(peer, case):
    args, kwargs = arguments(peer, case)
    return listed(function_of(peer, MT.rows[case.op])(*args, **kwargs))


def same(case, got, want):
    assert tuple(got.shape) == tuple(want.shape)
    if case.op not in DRAWN and case.values:
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------ every op

@over(with_out)
def test_results_go_to_the_tensors_that_are_given(case):
    want = plainly(MT, case)
    outs = [w.new_empty(w.shape) for w in want]
    at = [o.data_ptr() for o in outs]
    made, warned, error = called(MT, case, outs)
    assert error is None and warned == []
    assert all(m is o for m, o in zip(made, outs)) and at == [o.data_ptr() for o in outs]
    for got, w in zip(outs, want):
        same(case, got, w)


@over(first_of)
def test_empty_tensors_are_resized_without_a_word_and_others_with_a_warning(case):
    want = plainly(MT, case)
    for numel in (0, 1):
        shape = (numel,) if numel == 0 else (2,) * 5
        outs = [w.new_empty(shape) for w in want]
        made, warned, error = called(MT, case, outs)
        assert error is None and all(m is o for m, o in zip(made, outs))
        assert len(warned) == (len(want) if numel else 0) and all(w.startswith(RESIZED) for w in warned)
        for got, w in zip(outs, want):
            same(case, got, w)


@over(first_of)
def test_tensors_with_gaps_keep_them(case):
    want = plainly(MT, case)
    rooms = [w.new_empty((*w.shape, 2)).fill_(1) for w in want]
    outs = [room.select(-1, 0) for room in rooms]
    made, warned, error = called(MT, case, outs)
    assert error is None and warned == []
    for got, room, w in zip(made, rooms, want):
        same(case, got, w)
        assert bool((room.select(-1, 1) == 1).all())


def followed(case):
    """Cases with an argument that may require a gradient, of ops that have a derivative or are made of others."""
    row = MT.rows[case.op]
    return any(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in case.args) and row.backward is not None


@over([case for case in first_of if followed(case)])
def test_autograd_is_refused_and_no_grad_is_not(case):
    args = [a.detach().requires_grad_() if isinstance(a, mindtorch.Tensor) and a.is_floating_point() else a
            for a in arguments(MT, case)[0]]
    outs = [w.new_empty(0) for w in plainly(MT, case)]
    _, _, error = called(MT, case, outs, args)
    assert isinstance(error, RuntimeError)
    assert re.fullmatch(r"\w+\(\): functions with out=... arguments don't support automatic differentiation, but one of the "
                        r"arguments requires grad.", str(error))
    with mindtorch.no_grad():
        made, _, error = called(MT, case, outs, args)
    assert error is None and not any(m.requires_grad for m in made)


def test_an_out_that_requires_grad_is_refused():
    x, out = mindtorch.ones(3), mindtorch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="functions with out=... arguments don't support automatic differentiation"):
        mindtorch.sin(x, out=out)
    with mindtorch.no_grad():
        assert mindtorch.sin(x, out=out) is out


# -------------------------------------------------------------------------------------------------- rules

def test_methods_and_ops_without_the_overload_take_no_out():
    x = mindtorch.ones(3)
    for call in (lambda: x.sin(out=x), lambda: mindtorch.relu(x, out=x), lambda: mindtorch.reshape(x, (3,), out=x)):
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            call()


def test_an_out_that_is_not_a_tensor_is_refused():
    x = mindtorch.ones(3)
    with pytest.raises(TypeError, match=r"sin\(\): argument 'out' must be Tensor, not int"):
        mindtorch.sin(x, out=1)
    with pytest.raises(TypeError, match=r"sort\(\): argument 'out' must be tuple of Tensors, not Tensor"):
        mindtorch.sort(x, out=x)
    with pytest.raises(TypeError, match="tuple of Tensors"):
        mindtorch.topk(x, 1, out=(x,))
    assert mindtorch.sin(x, out=None) is not x


def test_an_out_that_is_an_argument_is_written_to_in_place():
    x, y = mindtorch.arange(4.0), mindtorch.full((4,), 2.0)
    assert mindtorch.maximum(x, y, out=x).tolist() == x.tolist() == [2, 2, 2, 3]
    square = mindtorch.arange(4.0).view(2, 2)
    assert mindtorch.mm(square, square, out=square).tolist() == [[2, 3], [6, 11]]
    both = mindtorch.arange(4.0)
    assert mindtorch.cat([both[2:], both[:2]], out=both).tolist() == [2, 3, 0, 1]


def test_an_out_that_is_an_argument_is_not_resized():
    one = mindtorch.ones(1)
    with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match the broadcast shape \[3\]"):
        mindtorch.add(one, mindtorch.ones(3), out=one)
    assert one.shape == (1,)


def test_memory_that_is_shared_in_part_is_refused():
    x = mindtorch.arange(4.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single"):
        mindtorch.sin(x[:3], out=x[1:])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        mindtorch.sin(x, out=mindtorch.ones(1).expand(4))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        mindtorch.mm(x.view(2, 2), x.view(2, 2), out=mindtorch.ones(1).expand(2, 2))


def test_a_graph_notices_that_what_it_saved_was_written_to():
    x = mindtorch.ones(3, requires_grad=True)
    saved = mindtorch.full((3,), 2.0)
    y = x * saved
    mindtorch.neg(saved, out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_sums_are_made_in_the_dtype_of_out():
    x = mindtorch.full((2, 3), 0.6)
    whole = mindtorch.empty(2, dtype=mindtorch.int64)
    assert mindtorch.sum(x, 1, out=whole).tolist() == [0, 0]
    assert mindtorch.sum(x.to(mindtorch.int32), 1, out=mindtorch.empty(2)).dtype == mindtorch.float32
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got float instead"):
        mindtorch.sum(x, 1, dtype=mindtorch.float64, out=mindtorch.empty(2))


def test_what_makes_tensors_takes_dtype_from_out():
    out = mindtorch.empty(2, dtype=mindtorch.int64)
    assert mindtorch.ones(2, out=out) is out and out.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"dtype Float does not match dtype of out parameter \(Long\)"):
        mindtorch.zeros(2, dtype=mindtorch.float32, out=out)
    real = mindtorch.empty(2)
    assert mindtorch.zeros(2, out=real, requires_grad=True) is real and real.requires_grad


def test_a_warning_that_is_an_error_is_raised():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=re.escape(RESIZED)):
            mindtorch.sin(mindtorch.ones(3), out=mindtorch.empty(2))


def test_generators_and_functions_in_python_pass_it_on():
    out = mindtorch.empty(3)
    x = mindtorch.arange(3.0)
    draws = [mindtorch.rand(3, generator=mindtorch.Generator().manual_seed(1), **o).tolist() for o in ({}, {"out": out})]
    assert draws[0] == draws[1] == out.tolist()
    assert mindtorch.where(x > 1, x, -x, out=out).tolist() == [0, -1, 2]
    assert mindtorch.var(x, 0, out=mindtorch.empty(())).item() == 1 and mindtorch.std(x, False, out=mindtorch.empty(0)).shape == ()


# ------------------------------------------------------------------------------------------------- profiles

def recorded(module, function):
    with module.profiler.profile(activities=[module.profiler.ProfilerActivity.CPU], record_shapes=True) as prof:
        function(module)
    return [(e.name, e.input_shapes, e.cpu_parent.name if e.cpu_parent else None) for e in prof.events()
            if e.name.startswith("aten::") and e.name != "aten::empty"]


RECORDED = {
    "one": lambda t: t.sin(t.ones(3), out=t.empty(3)),
    "two": lambda t: t.add(t.ones(3), t.ones(2, 3), out=t.empty(2, 3)),
    "several": lambda t: t.max(t.ones(2, 3), 1, out=(t.empty(2), t.empty(2, dtype=t.int64))),
    "resized": lambda t: t.mul(t.ones(3), t.ones(3), out=t.empty(0)),
    "product": lambda t: t.mm(t.ones(2, 3), t.ones(3, 2), out=t.empty(2, 2)),
    "made": lambda t: t.zeros(3, out=t.empty(0)),
    "filled": lambda t: t.full((3,), 2.0, out=t.empty(0)),
    "list": lambda t: t.cat([t.ones(2), t.ones(3)], out=t.empty(5)),
}


@needs_torch
@pytest.mark.parametrize("name", RECORDED)
def test_a_profile_shows_what_pytorchs_shows(name):
    inner = {"aten::as_strided", "aten::as_strided_", "aten::resolve_conj", "aten::squeeze", "aten::unsqueeze_", "aten::squeeze_"}
    ours, theirs = ([e for e in recorded(module, RECORDED[name]) if e[0] not in inner] for module in (mindtorch, torch))
    assert ours == theirs


def test_the_schema_of_the_overload_is_found_in_a_profile():
    with mindtorch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        x = mindtorch.ones(3)
        mindtorch.sin(x, out=mindtorch.empty_like(x))
        mindtorch.sum(x, 0, out=mindtorch.empty(()))
    from mindtorch_v2.profiler._memory_profiler import SchemaMatcher, _EventType
    from mindtorch_v2.profiler._utils import traverse_dfs

    tree = prof.profiler.kineto_results.experimental_event_tree()
    found = {e.name: e.extra_fields for e in traverse_dfs(tree) if e.tag == _EventType.TorchOp}
    assert [s.overload_name for s in SchemaMatcher.match_schemas(found["aten::sin"])] == ["out"]
    assert SchemaMatcher.inputs_are_mutable(found["aten::sin"]) == (False, True)
    assert [s.overload_name for s in SchemaMatcher.match_schemas(found["aten::sum"])] == ["IntList_out"]


def test_no_memory_is_taken_when_the_tensor_fits():
    x, out = mindtorch.ones(1000), mindtorch.empty(1000)
    with mindtorch.profiler.profile(profile_memory=True) as prof:
        mindtorch.sin(x, out=out)
        mindtorch.maximum(x, out, out=out)
        mindtorch.sum(x, 0, out=mindtorch.Tensor.view(out, -1)[0])
    assert not [e.name for e in prof.events() if e.cpu_memory_usage > 0 and e.name != "aten::empty"]


# ------------------------------------------------------------------------------------------------ beside PyTorch

SCHEMA = re.compile(r"aten::(\w+)\.(\w+)\(")


@needs_torch
@pytest.mark.parametrize("op", sorted(set(MT.rows)))
def test_the_ops_that_take_it_are_pytorchs(op):
    """Those of PyTorch's Python functions; what only its dispatcher has is not counted."""
    row = MT.rows[op]
    if OUTS[op] is not None:
        ours = {s.overload_name: s for s in mindtorch._C._jit_get_schemas_for_operator("aten::" + row.base)}
        theirs = {s.overload_name: s for s in torch._C._jit_get_schemas_for_operator("aten::" + row.base)}
        assert OUTS[op] in theirs
        if op != "arange_start":  # its step is 1 there
            types = [[str(a.type) for a in s[OUTS[op]].arguments] for s in (ours, theirs)]
            assert types[0] == types[1]
        return
    for case in CASES:
        if case.op != op or row.in_place or not hasattr(torch, row.base) or row.is_list:
            continue
        peer = Torch(torch)
        args, kwargs = arguments(peer, case)
        try:
            made = getattr(torch, row.base)(*args, **kwargs)
        except (TypeError, RuntimeError):
            continue
        if isinstance(made, torch.Tensor):
            with pytest.raises(TypeError):
                getattr(torch, row.base)(*args, **kwargs, out=torch.empty_like(made))
        return


DTYPES = ("bool", "int32", "int64", "float32", "float64")
OWN_WORDS = {"amax", "amin", "dot", "index_select", "masked_select", "mv", "nonzero", "multinomial", "where", "max", "min",
             "mean", "mean_dim", "logsumexp", "gelu", "silu", "softplus", "leaky_relu", "elu", "avg_pool2d", "adaptive_avg_pool2d",
             "mse_loss", "smooth_l1_loss", "binary_cross_entropy", "nll_loss"}
UNCHECKED = DRAWN | {"linalg_vector_norm"}


# PyTorch reads 0.01, the slope that leaky_relu has by default, as 0 where the locale has a decimal comma: it is given one.
given_all = [case if case.op != "leaky_relu" else next(c for c in with_out if c.op == case.op and len(c.args) == 2) for case in first_of]


@needs_torch
@over([case for case in given_all if case.op not in UNCHECKED])
def test_dtypes_of_out_are_taken_and_refused_as_by_pytorch(case):
    differing = []
    for dtype in DTYPES:
        answers = []
        for peer in (MT, Torch(torch)):
            want = plainly(peer, case)
            outs = [peer.module.empty(want[0].shape, dtype=getattr(peer.module, dtype)), *(w.new_empty(w.shape) for w in want[1:])]
            made, _, error = called(peer, case, outs)
            answers.append(error if error is not None else made[0])
        ours, theirs = answers
        if (case.op, dtype) == ("cumsum", "bool"):
            continue  # PyTorch has no kernel
        if isinstance(theirs, Exception) != isinstance(ours, Exception):
            differing.append((dtype, ours, theirs))
        elif isinstance(theirs, Exception):
            if case.op not in OWN_WORDS and str(ours) != str(theirs):
                differing.append((dtype, ours, theirs))
        else:
            np.testing.assert_allclose(ours.numpy().astype(float), theirs.numpy().astype(float), rtol=1e-5, atol=1e-6)
    assert not differing
