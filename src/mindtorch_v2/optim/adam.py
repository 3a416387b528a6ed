"""Adam and AdamW."""

import math

import mindtorch_v2 as torch
from .optimizer import GroupOptimizer, check_adam, check_fused, counter, decayed, keep_largest, number, update_moments


def _single_tensor_adam(group, params, grads, states):
    beta1, beta2 = group["betas"]
    lr, eps = number(group["lr"]), group["eps"]
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        count = state["step"]
        count += 1
        mean, square = update_moments(state, decayed(p, grad, group, lr), group["betas"])
        step = count.item()
        if group["amsgrad"]:
            square = keep_largest(state["max_exp_avg_sq"], square, group)
        denominator = (square.sqrt() / math.sqrt(1 - beta2**step)).add_(eps)
        p.addcdiv_(mean, denominator, value=-lr / (1 - beta1**step))


class Adam(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_adam)
    _fused_op = "_fused_adam_"
    _fused_state = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
    _fused_options = ("lr", "weight_decay", "eps", "amsgrad", "maximize")

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False,
    ):  # fmt: skip
        if isinstance(lr, torch.Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_adam(lr, eps, betas, weight_decay)
        if isinstance(betas[0], torch.Tensor) != isinstance(betas[1], torch.Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, torch.Tensor) and beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")
        defaults = {
            "lr": lr, "betas": tuple(map(number, betas)), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(defaults)

    def _new_state(self, p, group):
        state = {"step": counter(), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = torch.zeros_like(p)
        return state

    def _can_fuse(self, group, params):
        # the class determines the op: a group with other settings uses tensor ops
        return group["decoupled_weight_decay"] == (self._fused_op == "_fused_adamw_") and super()._can_fuse(group, params)


class AdamW(Adam):
    _fused_op = "_fused_adamw_"

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
        maximize=False, foreach=None, capturable=False, differentiable=False, fused=None,
    ):  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
