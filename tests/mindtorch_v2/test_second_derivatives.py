"""Derivatives of derivatives: what a gradient penalty needs. Expected values are PyTorch 2.13's, or central differences."""
import math

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.nn import functional as F

ACTIVATIONS = {
    "gelu": lambda x: F.gelu(x), "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "softplus": lambda x: F.softplus(x, beta=1.5), "softplus_threshold": lambda x: F.softplus(x, threshold=0.4), "elu": lambda x: F.elu(x, 1.3),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": F.relu,
}
POINTS = [-2.1, -0.7, 0.3, 0.9, 1.8]


def differences(f, x, step=1e-5):
    """The derivative of f, a function of a float64 tensor to a number, by central differences."""
    flat, slopes = x.detach().clone().reshape(-1), []
    for i in range(flat.numel()):
        sides = []
        for sign in (step, -step):
            moved = flat.clone()
            moved[i] += sign
            sides.append(f(moved.reshape(x.shape)).item())
        slopes.append((sides[0] - sides[1]) / (2 * step))
    return torch.tensor(slopes, dtype=torch.float64).reshape(x.shape)


def penalty(f, x):
    """The squared length of f's gradient, and its own gradient."""
    x = x.detach().clone().requires_grad_()
    slope, = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return (slope * slope).sum(), x


def agrees(f, x):
    value, at = penalty(f, x)
    got, = torch.autograd.grad(value, at)
    right = differences(lambda y: penalty(f, y)[0].detach(), x)
    assert torch.allclose(got, right, rtol=1e-5, atol=1e-7), (got, right)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_penalty_on_the_gradient_of_an_activation_has_a_gradient(name):
    agrees(lambda x: ACTIVATIONS[name](x) * x, torch.tensor(POINTS, dtype=torch.float64))


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "softplus", "elu"])
def test_activations_have_third_derivatives(name):
    def slope(x):
        x = x if x.requires_grad else x.detach().clone().requires_grad_()
        return torch.autograd.grad(ACTIVATIONS[name](x).sum(), x, create_graph=True)[0]
    agrees(slope, torch.tensor(POINTS, dtype=torch.float64))


LAYERS = {
    "conv": ((2, 2, 5, 4), lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=1), (3, 2, 3, 2)),
    "conv_groups": ((1, 4, 4, 4), lambda x, w: F.conv2d(x, w, dilation=2, groups=2), (2, 2, 2, 2)),
    "conv1d": ((2, 2, 7), lambda x, w: F.conv1d(x, w, padding=1), (3, 2, 3)),
    "max_pool": ((2, 2, 5, 5), lambda x, w: F.max_pool2d(x * w, 2, stride=1), (5,)),
    "avg_pool": ((2, 2, 5, 5), lambda x, w: F.avg_pool2d(x * w, 3, stride=2, padding=1), (5,)),
    "adaptive_pool": ((1, 2, 5, 4), lambda x, w: F.adaptive_avg_pool2d(x * w, (2, 3)), (4,)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("wanted", ["input", "weight"])
def test_layers_can_be_differentiated_twice(name, wanted):
    shape, layer, weight_shape = LAYERS[name]
    torch.manual_seed(3)
    x, w = torch.randn(*shape, dtype=torch.float64), torch.randn(*weight_shape, dtype=torch.float64)
    if wanted == "input":
        agrees(lambda y: layer(y, w).tanh(), x)
    else:
        agrees(lambda v: layer(x, v).tanh(), w)


def test_both_factors_of_a_convolution_meet_in_a_gradient_penalty():
    """As in WGAN-GP: the gradient of the input's gradient, in the weight and the bias."""
    torch.manual_seed(5)
    x = torch.randn(2, 2, 4, 4, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64)

    def penalty_of(w):
        y = x.clone().requires_grad_()
        w = w if w.requires_grad else w.clone().requires_grad_()
        slope, = torch.autograd.grad(F.conv2d(y, w, bias).tanh().sum(), y, create_graph=True)
        return ((slope.reshape(2, -1).norm(dim=1) - 1) ** 2).mean(), w
    w0 = torch.randn(3, 2, 2, 2, dtype=torch.float64)
    value, w = penalty_of(w0)
    got, = torch.autograd.grad(value, w)
    assert torch.allclose(got, differences(lambda v: penalty_of(v)[0].detach(), w0), rtol=1e-5, atol=1e-8)


def test_an_embedding_can_be_differentiated_twice():
    indices = torch.tensor([[0, 2], [2, 1]])
    weight = torch.arange(6.0, dtype=torch.float64).reshape(3, 2) / 5
    agrees(lambda w: F.embedding(indices, w) ** 3, weight)
    agrees(lambda w: F.embedding(indices, w, padding_idx=2) ** 3, weight)


def test_losses_can_be_differentiated_twice():
    torch.manual_seed(7)
    x, y = torch.randn(4, 3, dtype=torch.float64), torch.rand(4, 3, dtype=torch.float64)
    labels = torch.tensor([0, 2, 1, 1])
    for loss in (lambda v: F.mse_loss(v, y), lambda v: F.smooth_l1_loss(v, y), lambda v: F.binary_cross_entropy(v.sigmoid(), y),
                 lambda v: F.binary_cross_entropy_with_logits(v, y), lambda v: F.cross_entropy(v, labels),
                 lambda v: F.cross_entropy(v, labels, reduction="none"), lambda v: F.kl_div(v.log_softmax(1), y)):
        agrees(loss, x)


def test_what_is_not_written_says_so_instead_of_giving_zero():
    x = torch.ones(2, requires_grad=True)
    y = x // 0.5
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        y.sum().backward()
    assert x.grad is None


def test_the_remainder_can_be_differentiated_twice():
    x, m = torch.tensor([5.3, -2.0], dtype=torch.float64), torch.tensor([2.1, 1.7], dtype=torch.float64)
    agrees(lambda v: (x % v) * v, m)


def test_numbers_of_pytorch():
    x = torch.tensor([0.5, -0.3, 1.0], requires_grad=True)
    slope, = torch.autograd.grad(F.gelu(x).sum(), x, create_graph=True)
    bend, = torch.autograd.grad((slope * slope).sum(), x)
    for got, right in zip(bend.tolist(), [1.068952202796936, 0.38997215032577515, 0.5242612361907959]):
        assert math.isclose(got, right, rel_tol=1e-6)


def test_at_its_bounds_hardtanh_is_flat():
    """clamp's gradient is 1 there, hardtanh's 0, as in PyTorch."""
    x = torch.tensor([0.0, 6.0, -1.0, 7.0, 3.0], requires_grad=True)
    F.relu6(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 0, 1]
    y = torch.tensor([-1.0, 1.0, 0.5], requires_grad=True)
    F.hardtanh(y).sum().backward()
    assert y.grad.tolist() == [0, 0, 1]
    z = torch.tensor([-1.0, 1.0, 0.5], requires_grad=True)
    z.clamp(-1, 1).sum().backward()
    assert z.grad.tolist() == [1, 1, 1]
    w = torch.tensor([-1.0, 1.0, 0.5], requires_grad=True)
    F.hardtanh(w * 1, inplace=True).sum().backward()
    assert w.grad.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="min_val cannot be greater"):
        F.hardtanh(y, 2, 1)
