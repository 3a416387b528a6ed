"""nn: what the losses compute, against NumPy, and what they refuse."""

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import functional as F


def array(t):
    return t.detach().numpy()


def reduced(values, reduction):
    return {"none": values, "mean": values.mean(), "sum": values.sum()}[reduction]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_follow_their_formulas(reduction):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 3)), rng.uniform(0.1, 0.9, size=(4, 3))
    p = 1 / (1 + np.exp(-x))
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    label, weight = np.array([0, 2, 1, 2]), np.array([1.0, 2.0, 0.5])
    tx, ty, tp, tl = torch.tensor(x), torch.tensor(y), torch.tensor(p), torch.tensor(label)
    d = x - y
    picked = -log_p[np.arange(4), label]
    cases = [
        (nn.MSELoss(reduction=reduction)(tx, ty), d**2),
        (nn.L1Loss(reduction=reduction)(tx, ty), np.abs(d)),
        (nn.SmoothL1Loss(reduction=reduction, beta=0.5)(tx, ty), np.where(np.abs(d) < 0.5, d**2, np.abs(d) - 0.25)),
        (nn.BCELoss(reduction=reduction)(tp, ty), -(y * np.log(p) + (1 - y) * np.log(1 - p))),
        (nn.BCEWithLogitsLoss(reduction=reduction)(tx, ty), -(y * np.log(p) + (1 - y) * np.log(1 - p))),
        (
            nn.BCEWithLogitsLoss(reduction=reduction, pos_weight=torch.tensor(weight))(tx, ty),
            -(weight * y * np.log(p) + (1 - y) * np.log(1 - p)),
        ),
        (nn.KLDivLoss(reduction=reduction)(torch.tensor(log_p), ty), y * (np.log(y) - log_p)),
        (nn.NLLLoss(reduction=reduction)(torch.tensor(log_p), tl), picked),
        (nn.CrossEntropyLoss(reduction=reduction)(tx, tl), picked),
    ]
    for got, values in cases:
        np.testing.assert_allclose(array(got), reduced(values, reduction), rtol=1e-9)
    weighted = picked * weight[label]
    want = weighted.sum() / weight[label].sum() if reduction == "mean" else reduced(weighted, reduction)
    got = nn.CrossEntropyLoss(reduction=reduction, weight=torch.tensor(weight))(tx, tl)
    np.testing.assert_allclose(array(got), want, rtol=1e-9)


def test_cross_entropy_ignores_smooths_and_takes_probabilities():
    x = np.random.default_rng(0).normal(size=(4, 3))
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    label = np.array([0, -100, 1, 2])
    keep = label >= 0
    picked = -log_p[np.arange(4), np.maximum(label, 0)][keep]
    got = F.cross_entropy(torch.tensor(x), torch.tensor(label))
    np.testing.assert_allclose(array(got), picked.mean(), rtol=1e-9)
    smooth = 0.9 * picked.mean() + 0.1 * -log_p[keep].mean()
    got = nn.CrossEntropyLoss(label_smoothing=0.1)(torch.tensor(x), torch.tensor(label))
    np.testing.assert_allclose(array(got), smooth, rtol=1e-9)
    target = np.random.default_rng(1).dirichlet(np.ones(3), size=4)
    got = F.cross_entropy(torch.tensor(x), torch.tensor(target))
    np.testing.assert_allclose(array(got), -(target * log_p).sum(1).mean(), rtol=1e-9)


def test_kl_div_over_the_batch_and_in_logs():
    rng = np.random.default_rng(0)
    log_q, log_p = np.log(rng.dirichlet(np.ones(3), size=2)), np.log(rng.dirichlet(np.ones(3), size=2))
    want = (np.exp(log_p) * (log_p - log_q)).sum() / 2
    got = nn.KLDivLoss(reduction="batchmean", log_target=True)(torch.tensor(log_q), torch.tensor(log_p))
    np.testing.assert_allclose(array(got), want, rtol=1e-9)
    with pytest.warns(UserWarning, match="reduction: 'mean' divides the total loss by both the batch size and the support size."):
        F.kl_div(torch.tensor(log_q), torch.tensor(log_p))


def test_losses_refuse_what_does_not_fit():
    a, b = torch.ones(2), torch.ones(3)
    with pytest.raises(ValueError, match="most is not a valid value for reduction"):
        F.mse_loss(a, a, reduction="most")
    with pytest.raises(ValueError, match=r"Using a target size \(torch.Size\(\[3\]\)\) that is different to the input size \(torch.Size\(\[2\]\)\) is deprecated"):
        F.binary_cross_entropy(a, b)
    with pytest.raises(ValueError, match=r"Target size \(torch.Size\(\[3\]\)\) must be the same as input size \(torch.Size\(\[2\]\)\)"):
        F.binary_cross_entropy_with_logits(a, b)
    with pytest.warns(UserWarning, match="This will likely lead to incorrect results due to broadcasting"):
        assert F.mse_loss(torch.ones(2, 1), torch.zeros(1, 3)).item() == 1.0
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        F.cross_entropy(torch.ones(1, 3), torch.tensor([5]))


@pytest.mark.parametrize("other", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("own", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_bce_with_logits_is_of_its_targets_dtype(each_device, own, other):
    """As in PyTorch, which computes in place, beginning with 1 - target; whatever the dtypes of input and weights."""
    x = torch.tensor([0.25, -1.0]).to(other).requires_grad_()
    y, w = torch.tensor([0.5, 1.0]).to(own), torch.tensor([2.0, 4.0]).to(other)
    for weights in ({}, {"weight": w}, {"pos_weight": w}):
        loss = F.binary_cross_entropy_with_logits(x, y, **weights)
        loss.backward()
        assert loss.dtype == own and x.grad.dtype == other
    want = F.binary_cross_entropy_with_logits(x.double().cpu(), y.double().cpu()).item()
    assert F.binary_cross_entropy_with_logits(x, y).item() == pytest.approx(want, rel=0.01)
