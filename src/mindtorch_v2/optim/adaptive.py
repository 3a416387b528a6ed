"""Optimizers that scale each element by the history of its gradients: Adagrad, RMSprop, Adadelta, Adamax, NAdam, RAdam."""

import math

import mindtorch_v2 as torch
from .optimizer import (
    GroupOptimizer, check, check_adam, check_fused, check_lr, counter, decayed, keep_largest, number, update_moments,
)  # fmt: skip


def _single_tensor_adagrad(group, params, grads, states):
    lr = number(group["lr"])
    for p, grad, state in zip(params, grads, states):
        count, total = state["step"], state["sum"]
        count += 1
        step = count.item()
        if group["maximize"]:
            grad = -grad
        grad = decayed(p, grad, group)
        total.addcmul_(grad, grad, value=1)
        spread = total.sqrt().add_(group["eps"])
        p.addcdiv_(grad, spread, value=-lr / (1 + (step - 1) * group["lr_decay"]))


class Adagrad(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_adagrad)
    _fused_op = "_fused_adagrad_"
    _fused_state = ("sum", "step")
    _fused_options = ("lr", "lr_decay", "weight_decay", "eps", "maximize")

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *,
        maximize=False, differentiable=False, fused=None,
    ):  # fmt: skip
        check_lr(lr)
        check("lr_decay value", lr_decay, lr_decay >= 0.0)
        check("weight_decay value", weight_decay, weight_decay >= 0.0)
        check("initial_accumulator_value value", initial_accumulator_value, initial_accumulator_value >= 0.0)
        check("epsilon value", eps, eps >= 0.0)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(defaults)
        for group in self.param_groups:  # PyTorch's Adagrad creates its state up front
            for p in group["params"]:
                self._state_of(p, group)

    def share_memory(self):
        """Does nothing: tensors are not shared with forked workers here."""

    def _new_state(self, p, group):
        return {"step": counter(), "sum": torch.full_like(p, group["initial_accumulator_value"])}


def _single_tensor_rmsprop(group, params, grads, states):
    alpha, momentum, lr = group["alpha"], group["momentum"], number(group["lr"])
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        count, square = state["step"], state["square_avg"]
        count += 1
        grad = decayed(p, grad, group)
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, 1 - alpha)
            spread = square.addcmul(mean, mean, value=-1).sqrt_().add_(group["eps"])
        else:
            spread = square.sqrt().add_(group["eps"])
        if momentum > 0:
            buffer = state["momentum_buffer"].mul_(momentum).addcdiv_(grad, spread)
            p.add_(buffer, alpha=-lr)
        else:
            p.addcdiv_(grad, spread, value=-lr)


class RMSprop(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_rmsprop)
    _fused_op = "_fused_rmsprop_"
    _fused_state = ("square_avg", "grad_avg", "momentum_buffer", "step")
    _fused_options = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize")

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False,
        foreach=None, maximize=False, differentiable=False,
    ):  # fmt: skip
        check_lr(lr)
        check("epsilon value", eps, eps >= 0.0)
        check("momentum value", momentum, momentum >= 0.0)
        check("weight_decay value", weight_decay, weight_decay >= 0.0)
        check("alpha value", alpha, alpha >= 0.0)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay,
            "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _new_state(self, p, group):
        state = {"step": counter(), "square_avg": torch.zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = torch.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = torch.zeros_like(p)
        return state


def _single_tensor_adadelta(group, params, grads, states):
    lr, rho, eps = number(group["lr"]), group["rho"], group["eps"]
    for p, grad, state in zip(params, grads, states):
        count, square, moved = state["step"], state["square_avg"], state["acc_delta"]
        count += 1
        if group["maximize"]:
            grad = -grad
        grad = decayed(p, grad, group)
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        spread = square.add(eps).sqrt_()
        delta = moved.add(eps).sqrt_().div_(spread).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-lr)


class Adadelta(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_adadelta)
    _fused_op = "_fused_adadelta_"
    _fused_state = ("square_avg", "acc_delta", "step")
    _fused_options = ("lr", "rho", "eps", "weight_decay", "maximize")

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *,
        capturable=False, maximize=False, differentiable=False,
    ):  # fmt: skip
        check_lr(lr)
        check("rho value", rho, 0.0 <= rho <= 1.0)
        check("epsilon value", eps, eps >= 0.0)
        check("weight_decay value", weight_decay, weight_decay >= 0.0)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)


def _single_tensor_adamax(group, params, grads, states):
    beta1, beta2 = group["betas"]
    lr = number(group["lr"])
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        count, mean, largest = state["step"], state["exp_avg"], state["exp_inf"]
        count += 1
        grad = decayed(p, grad, group)
        mean.lerp_(grad, 1 - beta1)
        keep_largest(largest.mul_(beta2), grad.abs().add_(group["eps"]), group)
        p.addcdiv_(mean, largest, value=-lr / (1 - beta1 ** count.item()))


class Adamax(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_adamax)
    _fused_op = "_fused_adamax_"
    _fused_state = ("exp_avg", "exp_inf", "step")
    _fused_options = ("lr", "weight_decay", "eps", "maximize")

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *,
        maximize=False, differentiable=False, capturable=False,
    ):  # fmt: skip
        check_adam(lr, eps, betas, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)


def _single_tensor_nadam(group, params, grads, states):
    beta1, beta2 = group["betas"]
    lr, pace = number(group["lr"]), group["momentum_decay"]
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        count, product = state["step"], state["mu_product"]
        count += 1
        step = count.item()
        grad = decayed(p, grad, group, lr)
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * pace))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * pace))
        product *= mu
        mean, square = update_moments(state, grad, group["betas"])
        denominator = square.div(1 - beta2**step).sqrt()
        ahead = product.item() * mu_next
        denominator.add_(group["eps"])
        p.addcdiv_(grad, denominator, value=-lr * (1 - mu) / (1 - product.item()))
        p.addcdiv_(mean, denominator, value=-lr * mu_next / (1 - ahead))


class NAdam(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_nadam)
    _fused_op = "_fused_nadam_"
    _fused_state = ("exp_avg", "exp_avg_sq", "mu_product", "step")
    _fused_options = ("lr", "weight_decay", "momentum_decay", "eps", "decoupled_weight_decay", "maximize")

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False,
    ):  # fmt: skip
        check_adam(lr, eps, betas, weight_decay)
        check("momentum_decay value", momentum_decay, momentum_decay >= 0.0)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _new_state(self, p, group):
        return {
            "step": counter(), "mu_product": counter(1.0),
            "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p),
        }  # fmt: skip


def _single_tensor_radam(group, params, grads, states):
    beta1, beta2 = group["betas"]
    lr, longest = number(group["lr"]), 2 / (1 - beta2) - 1
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        count = state["step"]
        count += 1
        step = count.item()
        mean, square = update_moments(state, decayed(p, grad, group, lr), group["betas"])
        rate = lr / (1 - beta1**step)
        correction = 1 - beta2**step
        length = longest - 2 * step * beta2**step / correction
        if length > 5.0:  # the variance of the adaptive rate is tractable
            rectified = math.sqrt(
                (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * correction
            )
            p.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-rate * rectified)
        else:
            p.add_(mean, alpha=-rate)


class RAdam(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_radam)
    _fused_op = "_fused_radam_"
    _fused_state = ("exp_avg", "exp_avg_sq", "step")
    _fused_options = ("lr", "weight_decay", "eps", "decoupled_weight_decay", "maximize")

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False,
    ):  # fmt: skip
        check_adam(lr, eps, betas, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)
