"""The formulas of optimizers in NumPy. Each returns a step(x, gradient, state, t) -> x; t counts from 1."""

import math

import numpy as np


def sgd(lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    def step(x, g, s, t):
        g = (-g if maximize else g) + weight_decay * x
        if momentum:
            s["b"] = momentum * s["b"] + (1 - dampening) * g if t > 1 else g
            g = g + momentum * s["b"] if nesterov else s["b"]
        return x - lr * g

    return step


def adam(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, decoupled=False, maximize=False):
    def step(x, g, s, t):
        g = -g if maximize else g
        if decoupled:
            x = x * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * x
        s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
        s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
        v = s["v"]
        if amsgrad:
            v = s["top"] = np.maximum(s.get("top", 0 * v), v)
        return x - lr * (s["m"] / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)

    return step


def adagrad(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10):
    def step(x, g, s, t):
        g = g + weight_decay * x
        s["sum"] = s.get("sum", initial_accumulator_value) + g * g
        return x - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["sum"]) + eps)

    return step


def rmsprop(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False):
    def step(x, g, s, t):
        g = g + weight_decay * x
        s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g * g
        v = s["v"]
        if centered:
            s["a"] = alpha * s.get("a", 0) + (1 - alpha) * g
            v = v - s["a"] ** 2
        step = g / (np.sqrt(v) + eps)
        if momentum:
            step = s["b"] = momentum * s.get("b", 0) + step
        return x - lr * step

    return step


def adadelta(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0):
    def step(x, g, s, t):
        g = g + weight_decay * x
        s["v"] = rho * s.get("v", 0) + (1 - rho) * g * g
        delta = np.sqrt(s.get("u", 0) + eps) / np.sqrt(s["v"] + eps) * g
        s["u"] = rho * s.get("u", 0) + (1 - rho) * delta**2
        return x - lr * delta

    return step


def adamax(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
    def step(x, g, s, t):
        g = g + weight_decay * x
        s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
        s["u"] = np.maximum(betas[1] * s.get("u", 0), np.abs(g) + eps)
        return x - lr / (1 - betas[0] ** t) * s["m"] / s["u"]

    return step


def nadam(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3):
    def step(x, g, s, t):
        g = g + weight_decay * x
        mu, after = (betas[0] * (1 - 0.5 * 0.96 ** (k * momentum_decay)) for k in (t, t + 1))
        s["p"] = s.get("p", 1) * mu
        s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
        s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
        m = after * s["m"] / (1 - s["p"] * after) + (1 - mu) * g / (1 - s["p"])
        return x - lr * m / (np.sqrt(s["v"] / (1 - betas[1] ** t)) + eps)

    return step


def radam(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
    def step(x, g, s, t):
        g = g + weight_decay * x
        s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
        s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
        m = s["m"] / (1 - betas[0] ** t)
        most = 2 / (1 - betas[1]) - 1
        now = most - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if now <= 5:
            return x - lr * m
        r = math.sqrt((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now))
        return x - lr * m * r * math.sqrt(1 - betas[1] ** t) / (np.sqrt(s["v"]) + eps)

    return step


def asgd(lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0):
    def step(x, g, s, t):
        eta = s.get("eta", lr)
        x = x * (1 - lambd * eta) - eta * (g + weight_decay * x)
        s["eta"] = lr / (1 + lambd * lr * t) ** alpha
        return x

    return step


def rprop(lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    def step(x, g, s, t):
        sign = np.sign(g * s.get("g", 0))
        size = s.get("size", np.full_like(x, lr)) * np.where(sign > 0, etas[1], np.where(sign < 0, etas[0], 1.0))
        s["size"] = np.clip(size, *step_sizes)
        s["g"] = np.where(sign < 0, 0, g)
        return x - np.sign(s["g"]) * s["size"]

    return step
