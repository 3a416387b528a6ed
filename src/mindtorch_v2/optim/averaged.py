"""ASGD, Rprop and SparseAdam."""

import math

import mindtorch_v2 as torch
from .optimizer import GroupOptimizer, check, check_betas, check_lr, counter, decayed, number


def _single_tensor_asgd(group, params, grads, states):
    lambd, lr = group["lambd"], number(group["lr"])
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        count, average = state["step"], state["ax"]
        count += 1
        grad = decayed(p, grad, group)
        eta = state["eta"].item()
        p.mul_(1 - lambd * eta)
        p.add_(grad, alpha=-eta)
        mu = state["mu"].item()
        if mu != 1:
            average.add_(p.sub(average).mul_(mu))
        else:
            average.copy_(p)
        step = count.item()
        state["eta"].fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))


class ASGD(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_asgd)
    _fused_op = "_fused_asgd_"
    _fused_state = ("ax", "mu", "eta", "step")
    _fused_options = ("lambd", "lr", "t0", "alpha", "weight_decay", "maximize")

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None,
        maximize=False, differentiable=False, capturable=False,
    ):  # fmt: skip
        check_lr(lr)
        check("weight_decay value", weight_decay, weight_decay >= 0.0)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _new_state(self, p, group):
        return {"step": counter(), "eta": counter(float(number(group["lr"]))), "mu": counter(1.0), "ax": torch.zeros_like(p)}


def _single_tensor_rprop(group, params, grads, states):
    shrink, grow = group["etas"]
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        count, before, size = state["step"], state["prev"], state["step_size"]
        count += 1
        agreement = grad.mul(before)
        turned = agreement.lt(0)
        factor = torch.where(agreement.gt(0), grow, torch.where(turned, shrink, torch.ones_like(grad)))
        size.mul_(factor).clamp_(*group["step_sizes"])
        grad = grad.masked_fill(turned, 0)
        p.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)


class Rprop(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_rprop)
    _fused_op = "_fused_rprop_"
    _fused_state = ("prev", "step_size", "step")

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *,
        capturable=False, foreach=None, maximize=False, differentiable=False,
    ):  # fmt: skip
        check_lr(lr)
        check("eta values", f"{etas[0]}, {etas[1]}", 0.0 < etas[0] < 1.0 < etas[1])
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _new_state(self, p, group):
        return {"step": counter(), "prev": torch.zeros_like(p), "step_size": torch.full_like(p, float(number(group["lr"])))}

    def _options_of(self, group):
        names = ("etaminus", "etaplus", "step_size_min", "step_size_max")
        return dict(zip(names, (*group["etas"], *group["step_sizes"]))) | {"maximize": group["maximize"]}


def _update_rows(group, p, grad, state):
    beta1, beta2 = group["betas"]
    state["step"] += 1
    step = state["step"]
    if grad.dim() == 0:
        grad, p = grad.view(1), p.view(1)
    present = grad.ne(0) if grad.dim() == 1 else grad.ne(0).reshape(grad.shape[0], -1).any(1)
    rows = present.nonzero().view(-1)
    if rows.numel() == 0:
        return
    grad = grad.index_select(0, rows)
    mean, square = state["exp_avg"].view(p.shape), state["exp_avg_sq"].view(p.shape)
    new_mean = mean.index_select(0, rows).lerp_(grad, 1 - beta1)
    new_square = square.index_select(0, rows).mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    mean.index_put_([rows], new_mean)
    square.index_put_([rows], new_square)
    rate = number(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    p.index_add_(0, rows, new_mean.div_(new_square.sqrt_().add_(group["eps"])).mul_(-rate))


class SparseAdam(GroupOptimizer):
    """Adam that updates only the rows of parameters and moments that occur in the gradient.

    The runtime has no sparse tensors: rows (along the first dim) of the gradient that are all zeros count as absent
    and are skipped.
    """

    _fused_op = "_fused_sparse_adam_"
    _fused_options = ("lr", "eps", "maximize")

    @staticmethod
    def _single_tensor(group, params, grads, states):
        for p, grad, state in zip(params, grads, states):
            _update_rows(group, p, -grad if group["maximize"] else grad, state)

    def _at_once(self, group, params):
        return True  # PyTorch offers no choice here

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        check_lr(lr, positive=True)
        check("epsilon value", eps, eps > 0.0)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _new_state(self, p, group):
        return {"step": 0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}

    def _update_fused(self, group, params, grads, states):
        steps = [counter(float(s["step"])) for s in states]  # PyTorch keeps them as numbers here
        means, squares = ([s[key] for s in states] for key in ("exp_avg", "exp_avg_sq"))
        torch._C.ops._fused_sparse_adam_(params, grads, means, squares, steps, **self._options_of(group))
        for state in states:
            state["step"] += 1
