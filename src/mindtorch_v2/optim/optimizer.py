"""Optimizer: parameter groups, state, hooks and the profiler scopes of step() and zero_grad().

The optimizers of this package derive from GroupOptimizer, which collects the parameters of a group to update and chooses
how, as PyTorch does: one at a time in tensor ops (_single_tensor_NAME, the default on the CPU), or all at once by an op
of the table (fused=True, foreach=True, and the default on accelerators).
"""

import functools
import warnings
from collections import OrderedDict, defaultdict
from copy import deepcopy
from itertools import chain

import mindtorch_v2 as torch
from ..utils._record import scope, tag_state, typename
from ..utils.hooks import RemovableHandle


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()

_global_pre_hooks = OrderedDict()
_global_post_hooks = OrderedDict()


def register_optimizer_step_pre_hook(hook):
    return _registered(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    return _registered(_global_post_hooks, hook)


def _registered(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _observed(step):
    """Wraps step() in its scope and hooks."""

    @functools.wraps(step)
    def wrapper(*args, **kwargs):
        self = args[0]
        self._opt_called = True  # read by schedulers
        with scope(self._step_scope):
            for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
            out = step(*args, **kwargs)
            self._optimizer_step_code()
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
                hook(self, args, kwargs)
        return out

    wrapper.hooked = True
    return wrapper


class Optimizer:
    """Base of all optimizers. `params`: tensors, (name, tensor) pairs, or dicts that are parameter groups."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _observed(step)

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._init_hooks()
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got " + typename(params)
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _optimizer_step_code(self):
        """Called at the end of each step: a profile with stacks reports here what the optimizer holds."""

    def _init_hooks(self):
        name = type(self).__name__
        self._step_scope = f"Optimizer.step#{name}.step"
        self._zero_grad_scope = f"Optimizer.zero_grad#{name}.zero_grad"
        for kind in (
            "step_pre_hooks",
            "step_post_hooks",
            "state_dict_pre_hooks",
            "state_dict_post_hooks",
            "load_state_dict_pre_hooks",
            "load_state_dict_post_hooks",
        ):
            setattr(self, "_optimizer_" + kind, OrderedDict())

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if "_step_scope" not in self.__dict__:
            self._init_hooks()

    def __repr__(self):
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [f"Parameter Group {i}"] + [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines + [")"])

    # ------------------------------------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) -> None or (args, kwargs), before each step."""
        return _registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) -> None, after each step."""
        return _registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) -> None."""
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) -> state_dict or None."""
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) -> state_dict or None."""
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) -> None."""
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ----------------------------------------------------------------------------------------------- state

    def state_dict(self):
        """{"state": {index: ...}, "param_groups": [{..., "params": [index, ...]}]}; tensors are not copied."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                index.setdefault(id(p), len(index))
            options = {k: v for k, v in group.items() if k != "params"}
            groups.append(options | {"params": [index[id(p)] for p in group["params"]]})
        state = {(index[id(k)] if isinstance(k, torch.Tensor) else k): v for k, v in self.state.items()}
        out = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, out)
            if changed is not None:
                out = changed
        return out

    def load_state_dict(self, state_dict):
        """Loads a state_dict(); state takes the dtype and device of its parameter, except "step"."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        owner = dict(zip(chain.from_iterable(s["params"] for s in saved), chain.from_iterable(g["params"] for g in groups)))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owner:
                state[owner[key]] = _fitted(owner[key], value)
            else:
                state[key] = value
        for group, new in zip(groups, saved):
            new["params"] = group["params"]
            if "param_names" in group and "param_names" not in new:
                new["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def add_param_group(self, param_group):
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but "
                "the ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, torch.Tensor) else list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        params = [p[1] if isinstance(p, tuple) else p for p in params]
        if names and len(names) != len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        for p in params:
            if not isinstance(p, torch.Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + typename(p))
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_members(param_group)
        self.param_groups.append(param_group)

    def _check_members(self, param_group):
        new = set(map(id, param_group["params"]))
        if len(new) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                text = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {text} to the optimizer"
                )
            if not new.isdisjoint(map(id, group["params"])):
                raise ValueError("some parameters appear in more than one parameter group")

    # ------------------------------------------------------------------------------------------------ steps

    def zero_grad(self, set_to_none=True):
        with scope(self._zero_grad_scope):
            for group in self.param_groups:
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    if set_to_none:
                        p.grad = None
                    elif grad.grad_fn is not None:
                        p.grad = grad.detach().zero_()
                    else:
                        grad.requires_grad_(False)
                        grad.zero_()

    def step(self, closure=None):
        raise NotImplementedError


def _fitted(param, value, key=None):
    """A copy of loaded state that matches the parameter."""
    if isinstance(value, torch.Tensor):
        if key == "step":
            return tag_state(value.clone())
        if param.is_floating_point():
            return tag_state(value.to(dtype=param.dtype, device=param.device, copy=True))
        return tag_state(value.to(param.device))
    if isinstance(value, dict):
        return {k: _fitted(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fitted(param, v) for v in value)
    return value


# ---------------------------------------------------------------------------------- what the optimizers share


def number(value):
    """lr and betas may be one-element tensors."""
    return value.item() if isinstance(value, torch.Tensor) else value


def counter(value=0.0):
    """A step count in the state, as PyTorch keeps it: a tensor on the CPU."""
    return torch.tensor(value, dtype=torch.get_default_dtype(), device="cpu")


def keep_largest(largest, value, group):
    """Updates `largest` to the elementwise maximum of both."""
    if group["differentiable"]:
        return largest.copy_(torch.maximum(largest, value))
    return torch.maximum(largest, value, out=largest)


def decayed(p, grad, group, lr=None):
    """The gradient plus weight decay. If that is decoupled, changes the parameter instead."""
    if group["weight_decay"] == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        p.mul_(1 - lr * group["weight_decay"])
        return grad
    return grad.add(p, alpha=group["weight_decay"])


def update_moments(state, grad, betas):
    """Updates the running means of the gradient and of its square."""
    beta1, beta2 = betas
    mean = state["exp_avg"].lerp_(grad, 1 - beta1)
    return mean, state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)


@functools.cache
def _devices_of(op):
    """The device types that have a kernel for an op of the table."""
    table = getattr(torch._C, "_op_table", list)()
    return {device for row in table if row[0] == op for device, has in zip(("cpu", "npu"), row[4:6]) if has}


def check_lr(lr, positive=False):
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check("learning rate", lr, lr > 0.0 if positive else lr >= 0.0)


def check(what, value, good):
    if not good:
        raise ValueError(f"Invalid {what}: {value}")


def check_betas(betas):
    for i in (0, 1):
        check(f"beta parameter at index {i}", betas[i], 0.0 <= betas[i] < 1.0)


def check_adam(lr, eps, betas, weight_decay):
    check_lr(lr)
    check("epsilon value", eps, eps >= 0.0)
    check_betas(betas)
    check("weight_decay value", weight_decay, weight_decay >= 0.0)


def check_fused(defaults):
    if defaults.get("fused"):
        if defaults["differentiable"]:
            raise RuntimeError("`fused` does not support `differentiable`")
        if defaults["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


class GroupOptimizer(Optimizer):
    """step() over groups. Subclasses define _single_tensor(group, params, grads, states), the step in tensor ops; the op that
    does the same for a whole group: its name, the states it takes, and its options; and, unless all states begin as zeros,
    _new_state(p, group)."""

    _single_tensor = None
    _fused_op = None
    _fused_state = ()
    _fused_options = ()

    def step(self, closure=None):
        loss = None
        with torch.set_grad_enabled(self.defaults.get("differentiable", False)):
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    self._update(group, params, [p.grad for p in params], [self._state_of(p, group) for p in params])
        return loss

    def _state_of(self, p, group):
        state = self.state[p]
        if not state:
            state.update(self._new_state(p, group))
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    tag_state(value)
        return state

    def _new_state(self, p, group):
        """A count of steps, and zeros for every other state that the op takes."""
        state = {"step": counter()} if "step" in self._fused_state else {}
        for key in self._fused_state:
            if key != "step":
                state[key] = torch.zeros_like(p)
        return state

    def _update(self, group, params, grads, states):
        if self._at_once(group, params) and self._can_fuse(group, params):
            self._update_fused(group, params, grads, states)
        else:
            self._single_tensor(group, params, grads, states)

    def _at_once(self, group, params):
        """Are all parameters updated by one op? As the options say, or by PyTorch's default."""
        if group.get("differentiable"):
            return False
        if group.get("fused") is None and group.get("foreach") is None:
            return all(p.device.type != "cpu" for p in params)
        return bool(group.get("fused") or group.get("foreach"))

    def _can_fuse(self, group, params):
        devices = {p.device.type for p in params}
        return len(devices) == 1 and devices <= _devices_of(self._fused_op)

    def _update_fused(self, group, params, grads, states):
        """The lists of states that the options do not need stay empty."""
        lists = [[s[key] for s in states] if key in states[0] else [] for key in self._fused_state]
        getattr(torch._C.ops, self._fused_op)(params, grads, *lists, **self._options_of(group))

    def _options_of(self, group):
        options = {name: number(group[name]) for name in self._fused_options}
        if "betas" in group:
            options["beta1"], options["beta2"] = group["betas"]
        return options

    def __setstate__(self, state):
        """Adds newer options to groups that an older version saved."""
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)
