"""nn: GroupNorm and InstanceNorm against PyTorch: results, gradients, statistics, text and errors."""
import os

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn

try:
    import torch as peer
except ImportError:
    peer = None

pytestmark = pytest.mark.skipif(peer is None, reason="PyTorch is not installed")
DEVICE = os.environ.get("MINDTORCH_TEST_DEVICE", "cpu")
SHAPES = {1: (3, 4, 5), 2: (3, 4, 2, 3), 3: (2, 4, 2, 2, 3)}
CASES = [("GroupNorm", (2, 4), options, shape) for options in ({}, {"affine": False}, {"bias": False, "eps": 1e-3}) for shape in (SHAPES[1], SHAPES[2])]
CASES += [(f"InstanceNorm{n}d", (4,), options, shape[cut:]) for n, shape in SHAPES.items() for cut in (0, 1)
          for options in ({}, {"affine": True}, {"affine": True, "track_running_stats": True, "momentum": 0.3}, {"affine": True, "bias": False})]
CASES += [("BatchNorm3d", (4,), {}, SHAPES[3])]


def array(t):
    return t.detach().cpu().numpy()


@pytest.mark.parametrize("name, args, options, shape", CASES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_norms_equal_pytorchs(name, args, options, shape, dtype):
    found, rng = [], np.random.default_rng(0)
    xs = [rng.normal(1, 2, size=shape) for _ in range(3)]
    weight = rng.normal(size=shape)  # the sum of squares would have almost no gradient
    values = [rng.normal(size=4) for _ in range(2)]
    for library, where in ((torch, {"device": DEVICE}), (peer, {})):
        module = getattr(library.nn, name)(*args, **options).to(getattr(library, dtype)).to(**where)
        out = [repr(module), list(module.state_dict())]
        for p, v in zip(module.parameters(), values):
            p.data = library.tensor(v, **where).to(p.dtype)
        for i, x in enumerate(xs):
            if i == 2:
                module.eval()
            x = library.tensor(x, **where).to(getattr(library, dtype)).requires_grad_()
            y = module(x)
            (y * library.tensor(weight, **where).to(y.dtype)).sum().backward()
            out += [array(y.float() if dtype == "bfloat16" else y), array(x.grad.double())]
        out += [array(b.double()) for b in module.buffers()] + [array(p.grad.double()) for p in module.parameters()]
        found.append(out)
    assert found[0][:2] == found[1][:2]
    rtol = 1e-8 if dtype == "float64" else 5e-2
    for a, b in zip(found[0][2:], found[1][2:]):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, float(np.abs(b).max())))


ERRORS = [
    lambda n, t: n.GroupNorm(3, 4), lambda n, t: n.GroupNorm(2, 4)(t.ones(4)), lambda n, t: n.GroupNorm(2, 4)(t.ones(2, 3)), lambda n, t: t.group_norm(t.ones(3, 4), 0),
    lambda n, t: t.group_norm(t.ones(3), 1), lambda n, t: t.group_norm(t.ones(3, 4), 2, t.ones(3)), lambda n, t: t.group_norm(t.ones(3, 4).long(), 2),
    lambda n, t: n.GroupNorm(1, 1)(t.ones(1, 1)), lambda n, t: n.InstanceNorm1d(4)(t.ones(4)), lambda n, t: n.InstanceNorm2d(4)(t.ones(2, 4)),
    lambda n, t: n.InstanceNorm3d(4)(t.ones(2, 4)), lambda n, t: n.InstanceNorm1d(4, affine=True)(t.ones(2, 3, 4)), lambda n, t: n.InstanceNorm1d(4)(t.ones(2, 4, 1)),
    lambda n, t: n.functional.instance_norm(t.ones(2, 3, 4), use_input_stats=False), lambda n, t: n.BatchNorm3d(4)(t.ones(2, 4)),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors_are_pytorchs(index):
    with pytest.raises(Exception) as theirs:
        ERRORS[index](peer.nn, peer)
    with pytest.raises(type(theirs.value)) as ours:
        ERRORS[index](nn, torch)
    assert str(ours.value) == str(theirs.value).split("\nException raised")[0]
