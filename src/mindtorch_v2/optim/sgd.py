"""Stochastic gradient descent, with momentum."""

import mindtorch_v2 as torch
from ..utils._record import tag_state
from .optimizer import GroupOptimizer, check, check_fused, check_lr, number


def _single_tensor_sgd(group, params, grads, states):
    lr, momentum = number(group["lr"]), group["momentum"]
    for p, grad, state in zip(params, grads, states):
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=number(group["weight_decay"]))
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = tag_state(grad.detach().clone())
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        p.add_(grad, alpha=-lr)


class SGD(GroupOptimizer):
    _single_tensor = staticmethod(_single_tensor_sgd)
    _fused_op = "_fused_sgd_"
    _fused_state = ("momentum_buffer",)
    _fused_options = ("lr", "weight_decay", "momentum", "dampening", "nesterov", "maximize")

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
        maximize=False, foreach=None, differentiable=False, fused=None,
    ):  # fmt: skip
        check_lr(lr)
        check("momentum value", momentum, momentum >= 0.0)
        check("weight_decay value", weight_decay, weight_decay >= 0.0)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(defaults)

    def _state_of(self, p, group):
        return self.state[p] if group["momentum"] != 0 else None

    def _update_fused(self, group, params, grads, states):
        op, options = torch._C.ops._fused_sgd_, self._options_of(group)
        if group["momentum"] == 0:
            op(params, grads, [], is_first_step=False, **options)
            return
        for first in (True, False):  # a parameter's first gradient becomes its momentum
            now = [i for i, s in enumerate(states) if (s.get("momentum_buffer") is None) == first]
            if first:
                for i in now:
                    states[i]["momentum_buffer"] = tag_state(torch.empty_like(params[i]))
            if now:
                buffers = [states[i]["momentum_buffer"] for i in now]
                op([params[i] for i in now], [grads[i] for i in now], buffers, is_first_step=first, **options)
                if len(now) == len(params):
                    return
