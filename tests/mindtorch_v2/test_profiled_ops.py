"""Functions that are ops with others below them: their profiles, op by op, are PyTorch's.

The trees below are also those of PyTorch 2.13, where it is installed. Compared without what PyTorch's kernels do by other
ops (INNER), and without what is below ops that are one kernel here (WHOLE)."""
import textwrap

import pytest

import mindtorch_v2 as ours

try:
    import torch as theirs
except ImportError:
    theirs = None

INNER = {"aten::as_strided", "aten::fill_", "aten::resolve_conj", "aten::empty", "aten::copy_", "aten::empty_strided", "aten::empty_like",
         "aten::to", "aten::_to_copy", "aten::cudnn_is_acceptable", "aten::result_type", "aten::_reshape_alias", "aten::view"}
WHOLE = {"aten::isfinite", "aten::isnan", "aten::abs", "aten::sum", "aten::mean", "aten::unbind", "aten::unsafe_split", "aten::stack", "aten::linear", "aten::mul_", "aten::relu"}


def cond(torch, *shapes):
    return [torch.ones(shape) > 0 for shape in shapes]


def in_place(torch):
    x, y = cond(torch, 3, 3)
    x &= y
    x |= True
    x ^= y


def padded_back(torch):
    x = torch.ones(3, 3, requires_grad=True)
    torch.nn.functional.pad(x, (1, -1)).backward(torch.ones(3, 3))


def recurrent(op):
    """Two layers, both directions. PyTorch computes an LSTM of float32 by other ops."""
    def run(torch):
        made = lambda *shape: torch.ones(shape, dtype=torch.float64)  # noqa: E731
        gates, h = {"lstm": 4, "gru": 3}.get(op, 1) * 3, made(4, 2, 3)
        weights = [[made(gates, 2 if i < 2 else 6), made(gates, 3), made(gates), made(gates)] for i in range(4)]
        getattr(torch, op)(made(5, 2, 2), [h, h] if op == "lstm" else h, sum(weights, []), True, 2, 0.0, False, True, False)
    return run


def inverses_back(torch):
    x = torch.ones(3, requires_grad=True)
    (x.rsqrt() * x.reciprocal()).backward(torch.ones(3))


PROGRAMS = {
    "inverses back": inverses_back,
    "isclose": lambda torch: torch.isclose(torch.ones(3), torch.ones(3)),
    "isclose nan": lambda torch: torch.isclose(torch.ones(3), torch.ones(3), equal_nan=True),
    "operators": lambda torch: [f(*cond(torch, 3, 3)) for f in (lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ True)],
    "operators in place": in_place,
    "pad": lambda torch: torch.nn.functional.pad(torch.ones(3, 3), (1, 2), value=2.5),
    "pad and cut": lambda torch: torch.nn.functional.pad(torch.ones(3, 3), (-1, 2, 1, -1)),
    "cut": lambda torch: torch.nn.functional.pad(torch.ones(3, 3), (-1, -1)),
    "pad back": padded_back,
    "rms_norm": lambda torch: torch.nn.functional.rms_norm(torch.ones(2, 3), (3,)),
    "rms_norm weight": lambda torch: torch.nn.functional.rms_norm(torch.ones(2, 3), (3,), torch.ones(3), 1e-3),
    **{op: recurrent(op) for op in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    "movedim": lambda torch: torch.movedim(torch.ones(2, 3), 0, 1),
}
EINSUMS = {"ij->ji": ((2, 3),), "ii->i": ((3, 3),), "ii": ((3, 3),), "ij->": ((2, 3),), "i->i": ((3,),), "ij,jk->ik": ((2, 3), (3, 4)),
           "bij,bjk->bik": ((2, 2, 3), (2, 3, 4)), "i,j->ij": ((2,), (3,)), "i,i->": ((3,), (3,)), "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 3, 4)),
           "i,ij->ij": ((2,), (2, 3)), "ij,jk,kl->il": ((2, 3), (3, 4), (4, 5)), "...ij,...jk->...ik": ((2, 2, 3), (2, 3, 4)),
           "ij,k->i": ((2, 3), (4,)), "ij,jk->ki": ((2, 3), (3, 4)), "ij,kj->ik": ((2, 1), (3, 4)), "...i->i": ((2, 3),), "iij,jkk->ik": ((2, 2, 3), (3, 4, 4))}
PROGRAMS |= {equation: lambda torch, e=equation, shapes=shapes: torch.einsum(e, *[torch.ones(s) for s in shapes]) for equation, shapes in EINSUMS.items()}


def tree(torch, run):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        run(torch)
    found = []

    def walk(event, depth):
        if event.name not in INNER:
            found.append("  " * depth + event.name)
        for child in event.cpu_children if event.name not in WHOLE else ():
            walk(child, depth + 1)

    for event in prof.events():
        if event.cpu_parent is None and event.name not in ("aten::ones", "aten::gt"):
            walk(event, 0)
    return found


@pytest.mark.skipif(theirs is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_ops_are_those_of_pytorch(name):
    assert tree(ours, PROGRAMS[name]) == tree(theirs, PROGRAMS[name])


@pytest.mark.parametrize("name, want", [
    ("isclose", "aten::isclose/ eq/ mul/ abs/ add/ sub/ abs/ isfinite/ le/ __iand__/  bitwise_and_/ __ior__/  bitwise_or_"),
    ("pad", "aten::pad/ constant_pad_nd/  narrow/   slice/  narrow/   slice"),
    ("rms_norm", "aten::rms_norm/ _fused_rms_norm/  pow/  mean/  add_/  rsqrt/  mul/  type_as"),
    ("ij,jk->ik", "aten::einsum/ unsqueeze/ permute/ unsqueeze/ permute/ permute/ reshape/ permute/ reshape/ bmm/ permute"),
])
def test_the_ops_below_a_function(name, want):
    def line(text):
        word = text.lstrip()
        return "  " * (len(text) - len(word)) + (word if word.startswith("aten::") else "aten::" + word)

    assert tree(ours, PROGRAMS[name]) == [line(text) for text in want.split("/")], textwrap.indent("\n".join(tree(ours, PROGRAMS[name])), "  ")
