"""Steps of optimizers: ops that change lists of tensors and return nothing, so they are no cases of case.py's kind.

`step` is one step in NumPy, as PyTorch's documentation writes it: it returns the new parameter and changes the arrays in
`s`, its state. `start` says what a state begins with: a number, or None for zeros. `torch` names the class of torch.optim
and what it calls the options.
"""
from dataclasses import dataclass, field
from typing import Callable

import numpy as np

STEPS = []
SINGLE = ("state_steps", "mu_products", "mus", "etas")  # of one element


@dataclass(frozen=True)
class Step:
    op: str
    label: str
    states: tuple
    options: dict
    step: Callable
    torch: tuple
    start: dict = field(default_factory=dict)
    sparse: bool = False  # some rows have no gradient

    @property
    def id(self):
        return f"{self.op}-{self.label}"


def adam(p, g, s, t, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, decoupled=False):
    g = -g if maximize else g
    if decoupled:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    s["exp_avgs"][...] = beta1 * s["exp_avgs"] + (1 - beta1) * g
    s["exp_avg_sqs"][...] = beta2 * s["exp_avg_sqs"] + (1 - beta2) * g * g
    v = s["exp_avg_sqs"]
    if amsgrad:
        s["max_exp_avg_sqs"][...] = v = np.maximum(s["max_exp_avg_sqs"], v)
    return p - lr * (s["exp_avgs"] / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)


def adamw(*args, **options):
    return adam(*args, **options, decoupled=True)


def sgd(p, g, s, t, weight_decay, momentum, lr, dampening, nesterov, maximize):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        b = s["momentum_buffer_list"]
        b[...] = g if t == 1 else momentum * b + (1 - dampening) * g
        g = g + momentum * b if nesterov else b
    return p - lr * g


def adagrad(p, g, s, t, lr, lr_decay, weight_decay, eps, maximize):
    g = (-g if maximize else g) + weight_decay * p
    s["state_sums"] += g * g
    return p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["state_sums"]) + eps)


def rmsprop(p, g, s, t, lr, alpha, eps, weight_decay, momentum, centered, maximize):
    g = (-g if maximize else g) + weight_decay * p
    v = s["square_avgs"]
    v[...] = alpha * v + (1 - alpha) * g * g
    if centered:
        m = s["grad_avgs"]
        m[...] = alpha * m + (1 - alpha) * g
        v = v - m * m
    d = g / (np.sqrt(v) + eps)
    if momentum:
        s["momentum_buffer_list"][...] = d = momentum * s["momentum_buffer_list"] + d
    return p - lr * d


def adadelta(p, g, s, t, lr, rho, eps, weight_decay, maximize):
    g = (-g if maximize else g) + weight_decay * p
    v, u = s["square_avgs"], s["acc_deltas"]
    v[...] = rho * v + (1 - rho) * g * g
    d = np.sqrt(u + eps) / np.sqrt(v + eps) * g
    u[...] = rho * u + (1 - rho) * d * d
    return p - lr * d


def adamax(p, g, s, t, lr, beta1, beta2, weight_decay, eps, maximize):
    g = (-g if maximize else g) + weight_decay * p
    s["exp_avgs"][...] = beta1 * s["exp_avgs"] + (1 - beta1) * g
    s["exp_infs"][...] = np.maximum(beta2 * s["exp_infs"], np.abs(g) + eps)
    return p - lr / (1 - beta1**t) * s["exp_avgs"] / s["exp_infs"]


def nadam(p, g, s, t, lr, beta1, beta2, weight_decay, momentum_decay, eps, decoupled_weight_decay, maximize):
    g = -g if maximize else g
    if decoupled_weight_decay:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    mu, following = (beta1 * (1 - 0.5 * 0.96**(k * momentum_decay)) for k in (t, t + 1))
    s["mu_products"] *= mu
    s["exp_avgs"][...] = beta1 * s["exp_avgs"] + (1 - beta1) * g
    s["exp_avg_sqs"][...] = beta2 * s["exp_avg_sqs"] + (1 - beta2) * g * g
    m = following * s["exp_avgs"] / (1 - s["mu_products"] * following) + (1 - mu) * g / (1 - s["mu_products"])
    return p - lr * m / (np.sqrt(s["exp_avg_sqs"] / (1 - beta2**t)) + eps)


def radam(p, g, s, t, lr, beta1, beta2, weight_decay, eps, decoupled_weight_decay, maximize):
    g = -g if maximize else g
    if decoupled_weight_decay:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    s["exp_avgs"][...] = beta1 * s["exp_avgs"] + (1 - beta1) * g
    s["exp_avg_sqs"][...] = beta2 * s["exp_avg_sqs"] + (1 - beta2) * g * g
    m = s["exp_avgs"] / (1 - beta1**t)
    most = 2 / (1 - beta2) - 1
    rho = most - 2 * t * beta2**t / (1 - beta2**t)
    if rho <= 5:
        return p - lr * m
    r = np.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
    return p - lr * m * r * np.sqrt(1 - beta2**t) / (np.sqrt(s["exp_avg_sqs"]) + eps)


def asgd(p, g, s, t, lambd, lr, t0, alpha, weight_decay, maximize):
    g = (-g if maximize else g) + weight_decay * p
    eta, mu = s["etas"].copy(), s["mus"].copy()
    p = p * (1 - lambd * eta) - eta * g
    s["axs"][...] = s["axs"] + (p - s["axs"]) * mu
    s["etas"][...] = lr / (1 + lambd * lr * t)**alpha
    s["mus"][...] = 1 / max(1, t - t0)
    return p


def rprop(p, g, s, t, etaminus, etaplus, step_size_min, step_size_max, maximize):
    g = -g if maximize else g
    agree = np.sign(g * s["prevs"])
    factor = np.where(agree > 0, etaplus, np.where(agree < 0, etaminus, 1.0))
    s["step_sizes"][...] = np.clip(s["step_sizes"] * factor, step_size_min, step_size_max)
    g = np.where(agree < 0, 0.0, g)
    s["prevs"][...] = g
    return p - np.sign(g) * s["step_sizes"]


def sparse_adam(p, g, s, t, lr, beta1, beta2, eps, maximize):
    g = -g if maximize else g
    with_gradient = np.any(g != 0, axis=tuple(range(1, g.ndim)))
    m, v = s["exp_avgs"], s["exp_avg_sqs"]
    m[with_gradient] = (beta1 * m + (1 - beta1) * g)[with_gradient]
    v[with_gradient] = (beta2 * v + (1 - beta2) * g * g)[with_gradient]
    moved = p - lr * np.sqrt(1 - beta2**t) / (1 - beta1**t) * m / (np.sqrt(v) + eps)
    return np.where(with_gradient.reshape(-1, *[1] * (g.ndim - 1)), moved, p)


def add(op, states, step, torch_class, base, variants, start=None, sparse=False):
    """`base` are the options; each variant changes some. The names of torch.optim differ for betas and etas."""
    for label, changes in variants.items():
        options = base | changes
        theirs = dict(options)
        for pair, names in (("betas", ("beta1", "beta2")), ("etas", ("etaminus", "etaplus")),
                            ("step_sizes", ("step_size_min", "step_size_max"))):
            if names[0] in theirs:
                theirs[pair] = tuple(theirs.pop(name) for name in names)
        STEPS.append(Step(op, label, states, options, step, (torch_class, theirs), start or {}, sparse))


DECAY = {"plain": {}, "decay": {"weight_decay": 0.1}, "maximize": {"maximize": True}}
BETAS = {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.0, "eps": 1e-6}
ADAM = BETAS | {"amsgrad": False, "maximize": False}
ADAM_STATES = ("exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps")
add("_fused_sgd_", ("momentum_buffer_list",), sgd, "SGD",
    {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False},
    DECAY | {"momentum": {"momentum": 0.9}, "dampening": {"momentum": 0.9, "dampening": 0.3},
             "nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}})
add("_fused_adam_", ADAM_STATES, adam, "Adam", ADAM, DECAY | {"amsgrad": {"amsgrad": True}})
add("_fused_adamw_", ADAM_STATES, adamw, "AdamW", ADAM, DECAY | {"amsgrad": {"amsgrad": True, "weight_decay": 0.1}})
add("_fused_adagrad_", ("state_sums", "state_steps"), adagrad, "Adagrad",
    {"lr": 0.1, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-8, "maximize": False},
    DECAY | {"lr_decay": {"lr_decay": 0.2}})
add("_fused_rmsprop_", ("square_avgs", "grad_avgs", "momentum_buffer_list", "state_steps"), rmsprop, "RMSprop",
    {"lr": 0.02, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.0, "momentum": 0.0, "centered": False, "maximize": False},
    DECAY | {"momentum": {"momentum": 0.8}, "centered": {"centered": True, "momentum": 0.8}})
add("_fused_adadelta_", ("square_avgs", "acc_deltas", "state_steps"), adadelta, "Adadelta",
    {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0, "maximize": False}, DECAY)
add("_fused_adamax_", ("exp_avgs", "exp_infs", "state_steps"), adamax, "Adamax", BETAS | {"maximize": False}, DECAY)
add("_fused_nadam_", ("exp_avgs", "exp_avg_sqs", "mu_products", "state_steps"), nadam, "NAdam",
    BETAS | {"momentum_decay": 4e-3, "decoupled_weight_decay": False, "maximize": False},
    DECAY | {"decoupled": {"weight_decay": 0.1, "decoupled_weight_decay": True}}, {"mu_products": 1.0})
add("_fused_radam_", ("exp_avgs", "exp_avg_sqs", "state_steps"), radam, "RAdam",
    BETAS | {"decoupled_weight_decay": False, "maximize": False},
    DECAY | {"decoupled": {"weight_decay": 0.1, "decoupled_weight_decay": True}})
add("_fused_asgd_", ("axs", "mus", "etas", "state_steps"), asgd, "ASGD",
    {"lambd": 1e-2, "lr": 0.05, "t0": 3, "alpha": 0.75, "weight_decay": 0.0, "maximize": False}, DECAY,
    {"mus": 1.0, "etas": 0.05})
add("_fused_rprop_", ("prevs", "step_sizes", "state_steps"), rprop, "Rprop",
    {"etaminus": 0.5, "etaplus": 1.2, "step_size_min": 1e-6, "step_size_max": 50.0, "maximize": False},
    {"plain": {}, "maximize": {"maximize": True}, "narrow": {"step_size_max": 0.011}}, {"step_sizes": 0.01})
add("_fused_sparse_adam_", ("exp_avgs", "exp_avg_sqs", "state_steps"), sparse_adam, "SparseAdam",
    {k: v for k, v in BETAS.items() if k != "weight_decay"} | {"maximize": False},
    {"plain": {}, "maximize": {"maximize": True}}, sparse=True)
