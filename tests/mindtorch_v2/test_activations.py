"""nn: the activations, against PyTorch: results, gradients, text, errors, in place, and halves."""
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
CASES = {
    "SELU": [{}], "CELU": [{}, {"alpha": 2.5}], "Hardsigmoid": [{}], "Hardswish": [{}], "Mish": [{}], "Softsign": [{}], "Tanhshrink": [{}],
    "Softshrink": [{}, {"lambd": 1.0}], "Hardshrink": [{}, {"lambd": 1.0}], "GLU": [{}, {"dim": 0}], "Threshold": [{"threshold": 0.5, "value": -2.0}],
    "Softmin": [{"dim": 1}], "Softmax2d": [{}], "Hardtanh": [{}, {"min_val": -2.0, "max_val": 0.5}], "RReLU": [{}, {"lower": 0.1, "upper": 0.9}],
    "PReLU": [{}, {"num_parameters": 4, "init": 0.1}], "LogSigmoid": [{}], "ReLU6": [{}], "ELU": [{"alpha": 0.5}],
}
EACH = [(name, options) for name, several in CASES.items() for options in several]
IN_PLACE = [name for name in ("SELU", "CELU", "Hardsigmoid", "Hardswish", "Mish", "Hardtanh", "RReLU")]
X = np.random.default_rng(0).normal(scale=2.5, size=(2, 4, 2, 6))


# PyTorch's derivative of hardsigmoid has 1/6 in float32.
TOLERANCE = {"Hardsigmoid": 1e-7}


def array(t):
    return t.detach().cpu().numpy()


@pytest.mark.parametrize("name, options", EACH, ids=str)
def test_activations_equal_pytorchs(name, options):
    if name == "RReLU" and DEVICE != "cpu":
        pytest.skip("devices draw numbers of their own")
    found = []
    for library, where in ((torch, {"device": DEVICE}), (peer, {})):
        module = getattr(library.nn, name)(**options).double().to(**where)
        library.manual_seed(1)
        x = library.tensor(X, requires_grad=True, **where)
        out = module(x)
        (out * out).sum().backward()
        found.append([repr(module), list(module.state_dict()), array(out), array(x.grad), *(array(p.grad) for p in module.parameters())])
    assert found[0][:2] == found[1][:2]
    for a, b in zip(found[0][2:], found[1][2:]):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE.get(name, 1e-9), atol=1e-12)


@pytest.mark.parametrize("name, options", [(n, o) for n, o in EACH if n != "RReLU"], ids=str)
@pytest.mark.parametrize("dtype, rtol", [("float32", 1e-5), ("float16", 2e-3), ("bfloat16", 1.6e-2)])
def test_other_dtypes(name, options, dtype, rtol):
    found = []
    for library, where in ((torch, {"device": DEVICE}), (peer, {})):
        module = getattr(library.nn, name)(**options).to(getattr(library, dtype)).to(**where)
        x = library.tensor(X, **where).to(getattr(library, dtype)).requires_grad_()
        out = module(x)
        out.float().sum().backward()
        assert out.dtype == x.dtype == x.grad.dtype
        found.append([array(out.float()), array(x.grad.float())])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=4 * rtol)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    found = []
    for library, where in ((torch, {"device": DEVICE}), (peer, {})):
        module = getattr(library.nn, name)(inplace=True).eval()
        x = library.tensor(X, requires_grad=True, **where)
        y = x * 1
        assert module(y) is y
        y.square().sum().backward()
        found.append([repr(module), array(y), array(x.grad)])
    assert found[0][0] == found[1][0]
    for a, b in zip(found[0][1:], found[1][1:]):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE.get(name, 1e-9), atol=1e-12)


ERRORS = [
    lambda f, n, t: f.celu(t.ones(2), 0.0), lambda f, n, t: f.glu(t.ones(3)), lambda f, n, t: f.glu(t.ones(())), lambda f, n, t: f.softshrink(t.ones(2), -1),
    lambda f, n, t: f.prelu(t.ones(2, 3), t.ones(2)), lambda f, n, t: f.prelu(t.ones(2, 3), t.ones(3, 1)), lambda f, n, t: f.prelu(t.ones(()), t.ones(3)),
    lambda f, n, t: f.prelu(t.ones(2), t.ones(1).double()), lambda f, n, t: f.prelu(t.ones(3), t.ones(3)), lambda f, n, t: f.hardswish(t.ones(2).long()),
    lambda f, n, t: f.mish(t.ones(2).long()), lambda f, n, t: f.hardsigmoid(t.ones(2).long()), lambda f, n, t: f.softshrink(t.ones(2).long()),
    lambda f, n, t: f.hardshrink(t.ones(2).long()), lambda f, n, t: f.glu(t.ones(2).long()), lambda f, n, t: f.rrelu(t.ones(2), 1, 0),
    lambda f, n, t: n.Softmax2d()(t.ones(2, 2)), lambda f, n, t: n.Hardtanh(1, 1), lambda f, n, t: f.celu(t.ones(2).long()),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors_are_pytorchs(index):
    with pytest.raises(Exception) as theirs:
        ERRORS[index](peer.nn.functional, peer.nn, peer)
    with pytest.raises(type(theirs.value)) as ours:
        ERRORS[index](nn.functional, nn, torch)
    assert str(ours.value) == str(theirs.value).split("\nException raised")[0]


def test_old_names_of_the_bounds_of_hardtanh_still_work():
    with pytest.warns(FutureWarning, match="keyword argument `min_value` is deprecated and rename to `min_val`"):
        assert nn.Hardtanh(min_value=-3.0).min_val == -3.0
