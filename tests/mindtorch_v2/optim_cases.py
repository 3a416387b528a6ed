"""Optimizers and schedules that the tests run: what is minimized, with which options, and the expected results."""
import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2 import optim
from optim_formulas import adadelta, adagrad, adam, adamax, asgd, nadam, radam, rmsprop, rprop, sgd

STEPS = 20
START = [np.linspace(-1.0, 1.5, 12).reshape(4, 3), np.array([0.5, -0.25, 2.0])]
SCALE = [np.linspace(0.3, 2.0, 12).reshape(4, 3), np.array([1.0, 4.0, 0.5])]


def gradient(x, scale):
    """Of sum(scale * (x - 0.3)^2 / 2 + 0.1 * x^4 / 4)."""
    return scale * (x - 0.3) + 0.1 * x**3


def loss_of(params, scale):
    return sum((s * (p - 0.3) ** 2 * 0.5).sum() + (p * p * p * p).sum() * 0.025 for p, s in zip(params, scale))


def parameters(module=torch):
    return [module.tensor(x, dtype=module.float64, requires_grad=True) for x in START]


def trained(make, module=torch, steps=STEPS):
    params = parameters(module)
    scale = [module.tensor(s, dtype=module.float64) for s in SCALE]
    optimizer = make(params)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(params, scale)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return params, optimizer


def by_formula(step):
    out = []
    for x, scale in zip(START, SCALE):
        state = {}
        for t in range(1, STEPS + 1):
            x = step(x, gradient(x, scale), state, t)
        out.append(x)
    return out


CASES = [
    ("SGD", {"lr": 0.1}, sgd(0.1)),
    ("SGD", {"lr": 0.05, "momentum": 0.9}, sgd(0.05, 0.9)),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.1}, sgd(0.05, 0.9, 0.1)),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}, sgd(0.05, 0.9, 0, 0.1, True)),
    ("SGD", {"lr": 0.01, "maximize": True}, sgd(0.01, maximize=True)),
    ("Adam", {}, adam()),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1}, adam(0.1, (0.8, 0.95), weight_decay=0.1)),
    ("Adam", {"lr": 0.1, "amsgrad": True}, adam(0.1, amsgrad=True)),
    ("Adam", {"lr": 0.1, "maximize": True, "eps": 1e-3}, adam(0.1, maximize=True, eps=1e-3)),
    ("AdamW", {"lr": 0.1}, adam(0.1, weight_decay=0.01, decoupled=True)),
    ("AdamW", {"weight_decay": 0.3, "amsgrad": True}, adam(weight_decay=0.3, decoupled=True, amsgrad=True)),
    ("Adagrad", {"lr": 0.1}, adagrad(0.1)),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}, adagrad(1e-2, 0.1, 0.1, 0.5)),
    ("RMSprop", {}, rmsprop()),
    ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.1}, rmsprop(weight_decay=0.1, momentum=0.9, centered=True)),
    ("Adadelta", {}, adadelta()),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}, adadelta(0.5, 0.8, weight_decay=0.1)),
    ("Adamax", {"lr": 0.05}, adamax(0.05)),
    ("Adamax", {"weight_decay": 0.1}, adamax(weight_decay=0.1)),
    ("NAdam", {"lr": 0.05}, nadam(0.05)),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}, nadam(weight_decay=0.1, momentum_decay=0.1)),
    ("RAdam", {"lr": 0.05}, radam(0.05)),
    ("RAdam", {"betas": (0.9, 0.99), "weight_decay": 0.1}, radam(betas=(0.9, 0.99), weight_decay=0.1)),
    ("ASGD", {}, asgd()),
    ("ASGD", {"lambd": 0.1, "alpha": 0.5, "weight_decay": 0.1}, asgd(lambd=0.1, alpha=0.5, weight_decay=0.1)),
    ("Rprop", {}, rprop()),
    ("Rprop", {"lr": 0.2, "etas": (0.3, 1.5), "step_sizes": (1e-2, 0.4)}, rprop(0.2, (0.3, 1.5), (1e-2, 0.4))),
]  # fmt: skip
IDS = [f"{name}-{'-'.join(options) or 'plain'}" for name, options, _ in CASES]


FUSING = ["SGD", "Adam", "AdamW", "Adagrad"]
OTHERS = ["RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"]


def ops_of_a_step(make, module=torch, before=0):
    """The ops of one step on one parameter, after some steps that are not recorded. Ops that read the step's counter are
    left out: reading a number is not an op here."""
    p = module.ones((3,), requires_grad=True)
    optimizer = make([p])
    for i in range(before + 1):
        p.grad = module.full((3,), 0.5 - i % 2)
        with module.profiler.profile(activities=[module.profiler.ProfilerActivity.CPU]) as prof:
            optimizer.step()
    top = [e.name for e in prof.events() if e.cpu_parent is None or not e.cpu_parent.name.startswith("aten::")]
    return [name for name in top if name.startswith("aten::") and name != "aten::item"]


# ------------------------------------------------------------------------------------------------- schedules


def two_groups(module=optim, tensors=torch, cls="SGD", **options):
    params = [tensors.zeros(1, requires_grad=True), tensors.zeros(1, requires_grad=True)]
    options = {"momentum": 0.9} | options if cls == "SGD" else options
    return getattr(module, cls)([{"params": [params[0]]}, {"params": [params[1]], "lr": 0.05}], lr=0.1, **options)


E = np.arange(12)
FORMULAS = {
    "LambdaLR": (lambda L, o: L.LambdaLR(o, lambda e: 0.9**e), 0.9**E),
    "MultiplicativeLR": (lambda L, o: L.MultiplicativeLR(o, lambda e: 0.8), 0.8**E),
    "StepLR": (lambda L, o: L.StepLR(o, 3, 0.5), 0.5 ** (E // 3)),
    "MultiStepLR": (lambda L, o: L.MultiStepLR(o, [2, 5, 5], 0.5), 0.5 ** ((E >= 2) + 2.0 * (E >= 5))),
    "ConstantLR": (lambda L, o: L.ConstantLR(o, 0.5, 4), np.where(E < 4, 0.5, 1)),
    "LinearLR": (lambda L, o: L.LinearLR(o, 0.2, 0.8, 6), 0.2 + 0.6 * np.minimum(E, 6) / 6),
    "ExponentialLR": (lambda L, o: L.ExponentialLR(o, 0.7), 0.7**E),
    "PolynomialLR": (lambda L, o: L.PolynomialLR(o, 8, 2.0), (1 - np.minimum(E, 8) / 8) ** 2),
    "CosineAnnealingLR": (lambda L, o: L.CosineAnnealingLR(o, 5), (1 + np.cos(np.pi * E / 5)) / 2),
    "CosineAnnealingWarmRestarts": (
        lambda L, o: L.CosineAnnealingWarmRestarts(o, 3, 2),
        (1 + np.cos(np.pi * np.array([0, 1 / 3, 2 / 3, 0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 0, 1 / 12, 2 / 12]))) / 2,
    ),
    "SequentialLR": (
        lambda L, o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 20), L.ExponentialLR(o, 0.9)], [4]),
        np.where(E < 4, 0.1, 0.9 ** (E - 4.0)),
    ),
    "ChainedScheduler": (
        lambda L, o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 4), L.ExponentialLR(o, 0.9)]),
        np.where(E < 4, 0.1, 1) * 0.9**E,
    ),
}  # fmt: skip
