"""Optimizers against their formulas in NumPy (float64, 20 steps), their options, state, groups, hooks and errors; schedules
against closed forms. test_optim_torch.py compares the same runs with PyTorch."""

import copy
import math
import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import optim
from mindtorch_v2.optim import lr_scheduler
from mindtorch_v2.utils import _record
from optim_cases import (
    CASES,
    FORMULAS,
    FUSING,
    IDS,
    OTHERS,
    SCALE,
    STEPS,
    by_formula,
    loss_of,
    ops_of_a_step,
    parameters,
    trained,
    two_groups,
)


@pytest.mark.parametrize("foreach", [None, True], ids=["one_by_one", "at_once"])
@pytest.mark.parametrize("name, options, formula", CASES, ids=IDS)
def test_twenty_steps_follow_the_formula(name, options, formula, foreach):
    params, _ = trained(lambda p: getattr(optim, name)(p, foreach=foreach, **options))
    for got, want in zip(params, by_formula(formula)):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("options", [{"fused": False}, {"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("name", FUSING + OTHERS)
def test_ways_to_compute_a_step_agree(name, options):
    if name in OTHERS and "fused" in options:
        pytest.skip("as in PyTorch, it has no such argument")
    more = {"lr": 0.1, "maximize": True} | ({} if name == "Rprop" else {"weight_decay": 0.1})
    base, _ = trained(lambda p: getattr(optim, name)(p, **more))
    other, _ = trained(lambda p: getattr(optim, name)(p, **more, **options))
    for a, b in zip(base, other):  # NAdam keeps a running product in float32
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8 if name == "NAdam" else 1e-12)


@pytest.mark.parametrize("name", FUSING + OTHERS)
def test_one_op_does_it_where_that_is_asked_for(name):
    fused = [f"aten::_fused_{name.lower()}_"]
    asked = [{"foreach": True}] + ([{"fused": True}] if name in FUSING else [])
    others = [{}, {"foreach": False}] + ([{"fused": False}, {"fused": False, "foreach": None}] if name in FUSING else [])
    for options in asked:
        assert ops_of_a_step(lambda p: getattr(optim, name)(p, lr=0.1, **options), before=1) == fused
    for options in others:
        done = ops_of_a_step(lambda p: getattr(optim, name)(p, lr=0.1, **options), before=1)
        assert len(done) >= 1 and fused[0] not in done


def test_state_that_one_way_made_is_continued_by_another():
    base, _ = trained(lambda p: optim.Adam(p, lr=0.1, amsgrad=True))
    params = parameters()
    scale = [torch.tensor(s, dtype=torch.float64) for s in SCALE]
    optimizer = optim.Adam(params, lr=0.1, amsgrad=True)
    for step in range(STEPS):
        optimizer.param_groups[0]["fused"] = [None, True, False][step % 3]
        optimizer.zero_grad()
        loss_of(params, scale).backward()
        optimizer.step()
    for a, b in zip(base, params):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


def test_what_a_step_needs_for_one_parameter_is_gone_with_the_next():
    """The largest temporary of a step is that of its largest parameter, as in PyTorch."""
    params = [torch.ones(1000, requires_grad=True) for _ in range(4)]
    optimizer = optim.Adam(params)
    for p in params:
        p.grad = torch.ones(1000)
    optimizer.step()
    torch._C._memory_reset_peak("cpu")
    before = torch._C._memory_stats("cpu")["allocated"]
    optimizer.step()
    stats = torch._C._memory_stats("cpu")
    assert stats["allocated"] == before and stats["peak_allocated"] - before <= 3 * 4096


def test_float32_parameters_are_updated_in_float32():
    p = torch.ones(1000, requires_grad=True)
    optimizer = optim.AdamW([p], lr=0.1)
    (p * 2).sum().backward()
    optimizer.step()
    assert p.dtype == torch.float32
    np.testing.assert_allclose(p.detach().numpy(), np.full(1000, 1 - 0.1 * 0.01 - 0.1, np.float32), rtol=1e-6)


def test_non_contiguous_parameters_and_gradients():
    p = torch.arange(6.0).view(2, 3).t().detach().requires_grad_()
    optimizer = optim.Adam([p], lr=0.1)
    (p * torch.tensor([[1.0, -1.0], [1.0, -1.0], [1.0, -1.0]])).sum().backward()
    optimizer.step()
    want = np.arange(6.0).reshape(2, 3).T - 0.1 * np.array([1, -1])
    np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-5)


def test_one_element_tensor_as_learning_rate():
    p = torch.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=torch.tensor(0.5))
    p.sum().backward()
    optimizer.step()
    assert p.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        optim.SGD([p], lr=torch.ones(2))


# --------------------------------------------------------------------------------------------- LBFGS, SparseAdam


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum(search):
    xy = torch.tensor([-1.0, 1.5], dtype=torch.float64, requires_grad=True)
    optimizer = optim.LBFGS([xy], lr=1 if search else 0.1, max_iter=50, line_search_fn=search)
    calls = []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = (1 - xy[0]) ** 2 + 10 * (xy[1] - xy[0] ** 2) ** 2
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(12)]
    assert losses[0] == pytest.approx(6.5)
    np.testing.assert_allclose(xy.detach().numpy(), [1, 1], atol=1e-4)
    assert optimizer.state_dict()["state"][0]["func_evals"] == len(calls)


def test_lbfgs_takes_one_group_and_one_search():
    x, y = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match=r"LBFGS doesn't support per-parameter options \(parameter groups\)"):
        optim.LBFGS([{"params": [x]}, {"params": [y]}])
    optimizer = optim.LBFGS([x], line_search_fn="armijo")

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure)


def test_sparse_adam_touches_only_rows_with_a_gradient():
    weight = torch.ones(5, 2, dtype=torch.float64, requires_grad=True)
    optimizer = optim.SparseAdam([weight], lr=0.1)
    want, m, v = np.ones((5, 2)), np.zeros((5, 2)), np.zeros((5, 2))
    for t, rows in enumerate([[0, 2], [2], [0, 2, 4]], 1):
        optimizer.zero_grad()
        (weight.index_select(0, torch.tensor(rows)) ** 2).sum().backward()
        optimizer.step()
        g = 2 * want[rows]
        m[rows] = 0.9 * m[rows] + 0.1 * g
        v[rows] = 0.999 * v[rows] + 0.001 * g * g
        want[rows] -= 0.1 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m[rows] / (np.sqrt(v[rows]) + 1e-8)
    np.testing.assert_allclose(weight.detach().numpy(), want, rtol=1e-9)
    assert weight[1].tolist() == [1, 1] and optimizer.state[weight]["step"] == 3


# -------------------------------------------------------------------------------------------- groups and errors


def test_groups_have_their_own_options_and_the_defaults():
    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1, momentum=0.9)
    optimizer.add_param_group({"params": (p for p in [c]), "lr": 1.0, "momentum": 0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.5, 1.0]
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9, 0]
    assert optimizer.param_groups[1]["params"] == [b] or optimizer.param_groups[1]["params"][0] is b
    assert optimizer.defaults["lr"] == 0.1
    (a.sum() + b.sum() + c.sum()).backward()
    optimizer.step()
    for p, want in ((a, 0.9), (b, 0.5), (c, 0.0)):
        np.testing.assert_allclose(p.detach().numpy(), [want] * 2, rtol=1e-6)


def test_named_parameters_are_kept_with_their_names():
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([("a", a)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["a"]
    with pytest.raises(ValueError, match="all optimizer param groups should be with/without names"):
        optimizer.add_param_group({"params": [b]})
    with pytest.raises(ValueError, match="Some param names are missing"):
        optim.SGD([("a", a), b], lr=0.1)


def test_wrong_parameters_are_refused():
    p = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor"):
        optim.SGD(p, lr=0.1)
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.Adam([])
    with pytest.raises(TypeError, match="optimizer can only optimize Tensors, but one of the params is int"):
        optim.Adam([3])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.Adam([p * 2])
    optimizer = optim.SGD([p], lr=0.1)
    with pytest.raises(TypeError, match="param_group must be a dict, but got <class 'list'>"):
        optimizer.add_param_group([p])
    with pytest.raises(TypeError, match="optimizer parameters need to be organized in ordered collections"):
        optimizer.add_param_group({"params": {torch.ones(1)}})
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": [p]})
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p], lr=0.1)


WRONG = [
    ("SGD", {"lr": -1}, "Invalid learning rate: -1"),
    ("SGD", {"momentum": -1}, "Invalid momentum value: -1"),
    ("SGD", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
    ("Adam", {"lr": -1}, "Invalid learning rate: -1"),
    ("Adam", {"eps": -1}, "Invalid epsilon value: -1"),
    ("Adam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
    ("Adam", {"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
    ("Adam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("AdamW", {"lr": -1}, "Invalid learning rate: -1"),
    ("Adagrad", {"lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
    ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value: -1"),
    ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
    ("RMSprop", {"momentum": -1}, "Invalid momentum value: -1"),
    ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
    ("Adamax", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
    ("RAdam", {"eps": -1}, "Invalid epsilon value: -1"),
    ("ASGD", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
    ("LBFGS", {"lr": -1}, "Invalid learning rate: -1"),
    ("SparseAdam", {"lr": 0}, "Invalid learning rate: 0"),
    ("SparseAdam", {"eps": 0.0}, "Invalid epsilon value: 0.0"),
]


@pytest.mark.parametrize("name, options, text", WRONG, ids=[f"{n}-{next(iter(o))}-{i}" for i, (n, o, _) in enumerate(WRONG)])
def test_wrong_options_are_refused_in_pytorchs_words(name, options, text):
    with pytest.raises(ValueError) as error:
        getattr(optim, name)([torch.ones(1, requires_grad=True)], **options)
    assert str(error.value) == text


def test_fused_excludes_foreach_and_differentiable():
    p = [torch.ones(1, requires_grad=True)]
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together."):
        optim.Adam(p, fused=True, foreach=True)
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        optim.SGD(p, fused=True, differentiable=True)


# -------------------------------------------------------------------------------------------- steps and state


def test_zero_grad_drops_gradients_or_zeroes_them():
    p = torch.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1)
    p.sum().backward()
    optimizer.zero_grad()
    assert p.grad is None
    p.sum().backward()
    grad = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad and grad.tolist() == [0, 0]


def test_parameters_without_a_gradient_stay():
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    optimizer = optim.Adam([a, b], lr=0.1)
    a.sum().backward()
    optimizer.step()
    assert a.item() != 1 and b.item() == 1
    assert list(optimizer.state_dict()["state"]) == [0]


def test_step_runs_the_closure_with_gradients_and_returns_its_loss():
    p = torch.tensor([2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.item() == 1.0 and p.requires_grad and p.is_leaf
    assert optimizer.step() is None


def test_steps_leave_no_history():
    p = torch.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()
    assert p.grad_fn is None and not optimizer.state[p]["momentum_buffer"].requires_grad


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "LBFGS", "SparseAdam"])
def test_a_loaded_state_dict_continues_as_the_original(name):
    options = {"momentum": 0.9} if name == "SGD" else {"max_iter": 2} if name == "LBFGS" else {}
    params, first = trained(lambda p: getattr(optim, name)(p, **options), steps=5)
    saved = copy.deepcopy(first.state_dict())
    assert saved["param_groups"][0]["params"] == [0, 1]
    copies = [p.detach().clone().requires_grad_() for p in params]
    second = getattr(optim, name)(copies, **(options | {"lr": 0.123}))
    second.load_state_dict(saved)
    assert second.param_groups[0]["lr"] == first.param_groups[0]["lr"]
    scale = [torch.tensor(s, dtype=torch.float64) for s in SCALE]
    for group, optimizer in ((params, first), (copies, second)):

        def closure():
            optimizer.zero_grad()
            loss = loss_of(group, scale)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
    for a, b in zip(params, copies):  # scalars of NAdam's and ASGD's state are loaded in the parameter's dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8 if name in ("NAdam", "ASGD") else 0)


def test_loaded_state_takes_the_dtype_of_its_parameter():
    params, first = trained(lambda p: optim.Adam(p), steps=2)
    singles = [p.detach().float().requires_grad_() for p in params]
    second = optim.Adam(singles)
    second.load_state_dict(first.state_dict())
    state = second.state[singles[0]]
    assert state["exp_avg"].dtype == torch.float32 and state["step"].item() == 2
    assert first.state[params[0]]["exp_avg"].dtype == torch.float64


def test_state_dicts_that_do_not_fit_are_refused():
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    saved = optim.SGD([a], lr=0.1).state_dict()
    with pytest.raises(ValueError, match="loaded state dict has a different number of parameter groups"):
        optim.SGD([{"params": [a]}, {"params": [b]}], lr=0.1).load_state_dict(saved)
    with pytest.raises(ValueError, match="loaded state dict contains a parameter group that doesn't match the size of optimizer's group"):
        optim.SGD([a, b], lr=0.1).load_state_dict(saved)


def test_repr_lists_groups_and_options():
    text = repr(optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1))
    assert text == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n    lr: 0.1\n"
        "    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


# ------------------------------------------------------------------------------------------------------ hooks


def test_step_hooks_run_in_order_and_can_be_removed():
    p = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1)
    log = []
    before = optimizer.register_step_pre_hook(lambda opt, args, kwargs: log.append(("pre", opt is optimizer, p.item())))
    after = optimizer.register_step_post_hook(lambda opt, args, kwargs: log.append(("post", opt is optimizer, round(p.item(), 3))))
    p.grad = torch.ones(1)
    optimizer.step()
    assert log == [("pre", True, 1.0), ("post", True, 0.9)]
    before.remove()
    optimizer.step()
    assert [entry[0] for entry in log] == ["pre", "post", "post"]
    with after:
        pass
    optimizer.step()
    assert len(log) == 3
    after.remove()  # the second call does nothing


def test_a_step_pre_hook_may_change_the_arguments():
    p = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: (args, {"closure": lambda: 42}))
    assert optimizer.step() == 42
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3"):
        optimizer.step()


def test_global_step_hooks_see_every_optimizer():
    seen = []
    handles = [
        optim.optimizer.register_optimizer_step_pre_hook(lambda opt, args, kwargs: seen.append("pre")),
        optim.optimizer.register_optimizer_step_post_hook(lambda opt, args, kwargs: seen.append("post")),
    ]
    try:
        optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1).step()
        optim.Adam([torch.ones(1, requires_grad=True)]).step()
    finally:
        for handle in handles:
            handle.remove()
    optim.Adam([torch.ones(1, requires_grad=True)]).step()
    assert seen == ["pre", "post"] * 2


def test_state_dict_hooks_see_and_change_the_state():
    optimizer = optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    log = []
    handles = [
        optimizer.register_state_dict_pre_hook(lambda opt: log.append("pre")),
        optimizer.register_state_dict_post_hook(lambda opt, state: {**state, "note": 7}),
        optimizer.register_load_state_dict_pre_hook(lambda opt, state: log.append(state["note"])),
        optimizer.register_load_state_dict_post_hook(lambda opt: log.append("loaded")),
    ]
    saved = optimizer.state_dict()
    assert saved["note"] == 7
    optimizer.load_state_dict(saved)
    assert log == ["pre", 7, "loaded"]
    for handle in handles:
        handle.remove()
    assert "note" not in optimizer.state_dict()


def test_steps_and_zero_grad_are_scopes_in_profiles(monkeypatch):
    log = []
    monkeypatch.setattr(_record, "_begin", lambda name: log.append(name) or len(log))
    monkeypatch.setattr(_record, "_end", lambda token: log.append(token))
    optimizer = optim.Adam([torch.ones(1, requires_grad=True)])
    optimizer.step()
    optimizer.zero_grad()
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    step, clear = "Optimizer.step#Adam.step", "Optimizer.zero_grad#Adam.zero_grad"
    assert log == [step, 1, clear, 3, step, 5]


def test_an_optimizer_of_ones_own_gets_hooks_and_groups():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            with torch.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad.sign(), alpha=-group["lr"])

    p = torch.ones(2, requires_grad=True)
    optimizer = Sign([p], 0.5)
    called = []
    optimizer.register_step_post_hook(lambda *args: called.append(1))
    (p * torch.tensor([3.0, -3.0])).sum().backward()
    optimizer.step()
    assert p.tolist() == [0.5, 1.5] and called == [1]


# -------------------------------------------------------------------------------------------------- schedules


def rates(optimizer, scheduler, count=12, metrics=None):
    """The rates of all groups before each step."""
    out = []
    for i in range(count):
        optimizer.step()
        out.append([float(g["lr"]) for g in optimizer.param_groups])
        assert [float(v) for v in scheduler.get_last_lr()] == out[-1]
        scheduler.step(*([metrics[i]] if metrics else []))
    return np.array(out)


@pytest.mark.parametrize("name", FORMULAS)
def test_schedules_follow_their_closed_form(name):
    make, want = FORMULAS[name]
    optimizer = two_groups()
    got = rates(optimizer, make(lr_scheduler, optimizer))
    np.testing.assert_allclose(got[:, 0], 0.1 * want, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(got[:, 1], 0.05 * want, rtol=1e-9, atol=1e-15)


def test_one_cycle_goes_up_and_down_with_momentum_the_other_way():
    optimizer = two_groups()
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=11, pct_start=0.5, anneal_strategy="linear")
    momentum, lr = [], []
    for i in range(11):
        optimizer.step()
        momentum.append(optimizer.param_groups[0]["momentum"])
        lr.append(optimizer.param_groups[0]["lr"])
        if i < 10:
            scheduler.step()
    up = 11 * 0.5 - 1
    t = np.arange(11)
    low, last = 1 / 25, 1 / 25 / 1e4
    want = np.where(t <= up, low + (1 - low) * t / up, 1 + (last - 1) * (t - up) / (10 - up))
    np.testing.assert_allclose(lr, want, rtol=1e-9)
    beat = np.where(t <= up, 0.95 - 0.1 * t / up, 0.85 + 0.1 * (t - up) / (10 - up))
    np.testing.assert_allclose(momentum, beat, rtol=1e-9)
    scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 12 times. The specified number of total steps is 11"):
        scheduler.step()


def test_one_cycle_moves_beta1_of_adam_and_has_a_third_phase():
    optimizer = two_groups(cls="Adam")
    scheduler = lr_scheduler.OneCycleLR(optimizer, [1.0, 2.0], epochs=5, steps_per_epoch=4, three_phase=True)
    assert optimizer.param_groups[0]["betas"] == (0.95, 0.999)
    got = []
    for _ in range(19):
        optimizer.step()
        got.append([g["lr"] for g in optimizer.param_groups])
        scheduler.step()
    got = np.array(got)
    assert got[:, 0].max() == pytest.approx(1.0) and got[5].tolist() == pytest.approx([1.0, 2.0])
    assert got[10, 0] == pytest.approx(1 / 25) and scheduler.get_last_lr()[0] == pytest.approx(1 / 25 / 1e4)


@pytest.mark.parametrize("mode, scale", [("triangular", lambda c, e: 1.0), ("triangular2", lambda c, e: 0.5**c), ("exp_range", lambda c, e: 0.9**e)])
def test_cyclic_rates_are_triangles(mode, scale):
    optimizer = two_groups()
    scheduler = lr_scheduler.CyclicLR(optimizer, 0.1, 0.9, step_size_up=2, step_size_down=3, mode=mode, gamma=0.9)
    got, momentum = [], []
    for _ in range(12):
        optimizer.step()
        got.append(optimizer.param_groups[0]["lr"])
        momentum.append(optimizer.param_groups[0]["momentum"])
        scheduler.step()
    height = np.array([0, 0.5, 1, 2 / 3, 1 / 3] * 3)[:12]
    factor = np.array([scale(e // 5, e) for e in range(12)])
    np.testing.assert_allclose(got, 0.1 + 0.8 * height * factor, rtol=1e-9)
    np.testing.assert_allclose(momentum, 0.9 - 0.1 * height * factor, rtol=1e-9)


def test_plateau_reduces_the_rate_after_patience():
    optimizer = two_groups()
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, cooldown=1, min_lr=[0.02, 0.03])
    metrics = [1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    got = rates(optimizer, scheduler, 12, metrics)
    assert got[:, 0].tolist() == [0.1] * 5 + [0.05] * 4 + [0.025] * 3
    assert got[-1, 1] == 0.03


def test_lambdas_per_group_and_their_state():
    class Ramp:
        def __init__(self):
            self.slope = 2

        def __call__(self, epoch):
            return self.slope * epoch + 1

    optimizer = two_groups()
    ramp = Ramp()
    scheduler = lr_scheduler.LambdaLR(optimizer, [ramp, lambda e: 1.0])
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [pytest.approx(0.3), 0.05]
    state = scheduler.state_dict()
    assert state["lr_lambdas"] == [{"slope": 2}, None] and "optimizer" not in state
    state["lr_lambdas"][0]["slope"] = 5
    scheduler.load_state_dict(state)
    assert ramp.slope == 5


@pytest.mark.parametrize("name", FORMULAS)
def test_a_schedule_continues_from_its_state_dict(name):
    make, want = FORMULAS[name]
    first = two_groups()
    scheduler = make(lr_scheduler, first)
    for _ in range(5):
        first.step()
        scheduler.step()
    second = two_groups()
    other = make(lr_scheduler, second)
    other.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    second.load_state_dict(first.state_dict())
    for _ in range(6):
        second.step()
        other.step()
    assert other.get_last_lr()[0] == pytest.approx(0.1 * want[11], rel=1e-9)


def test_a_rate_that_is_a_tensor_stays_that_tensor():
    rate = torch.tensor(0.5, dtype=torch.float64)
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25


def test_stepping_before_the_optimizer_warns():
    optimizer = two_groups()
    scheduler = lr_scheduler.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = two_groups()
        scheduler = lr_scheduler.StepLR(optimizer, 2)
        optimizer.step()
        scheduler.step()


def test_resuming_needs_the_initial_rate():
    optimizer = two_groups()
    with pytest.raises(KeyError, match=r"param 'initial_lr' is not specified in param_groups\[0\]"):
        lr_scheduler.StepLR(optimizer, 2, last_epoch=3)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    scheduler = lr_scheduler.StepLR(optimizer, 2, 0.5, last_epoch=3)
    assert scheduler.last_epoch == 4 and scheduler.get_last_lr() == [0.05, 0.025]


def wrong_schedules():
    L = lr_scheduler
    return [
        (TypeError, "list is not an Optimizer", lambda o: L.StepLR([], 1)),
        (ValueError, "Expected 2 lr_lambdas, but got 1", lambda o: L.LambdaLR(o, [lambda e: 1])),
        (TypeError, "lr_lambda should be a function, but got float", lambda o: L.MultiplicativeLR(o, 0.5)),
        (ValueError, "Constant multiplicative factor expected to be between 0 and 1.", lambda o: L.ConstantLR(o, 2)),
        (ValueError, "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.", lambda o: L.LinearLR(o, 0)),
        (ValueError, "Ending multiplicative factor expected to be between 0 and 1.", lambda o: L.LinearLR(o, 1, 2)),
        (ValueError, "Expected positive integer T_0, but got 0", lambda o: L.CosineAnnealingWarmRestarts(o, 0)),
        (ValueError, "Expected integer T_mult >= 1, but got 0", lambda o: L.CosineAnnealingWarmRestarts(o, 1, 0)),
        (ValueError, "You must define either total_steps OR (epochs AND steps_per_epoch)", lambda o: L.OneCycleLR(o, 1)),
        (ValueError, "Expected positive integer total_steps, but got 0", lambda o: L.OneCycleLR(o, 1, 0)),
        (ValueError, "Expected float between 0 and 1 pct_start, but got 2.0", lambda o: L.OneCycleLR(o, 1, 9, pct_start=2.0)),
        (ValueError, "anneal_strategy must be one of 'cos' or 'linear', instead got sin", lambda o: L.OneCycleLR(o, 1, 9, anneal_strategy="sin")),
        (ValueError, "mode is invalid and scale_fn is None", lambda o: L.CyclicLR(o, 0.1, 1, mode="square")),
        (ValueError, "max_lr must have the same length as optimizer.param_groups. max_lr has 3 values, param_groups has 2.", lambda o: L.CyclicLR(o, 0.1, [1, 2, 3])),
        (ValueError, "optimizer must support momentum or beta1 with `cycle_momentum` option enabled", lambda o: L.CyclicLR(optim.Adagrad([torch.ones(1)]), 0.1, 1)),
        (ValueError, "Factor should be < 1.0.", lambda o: L.ReduceLROnPlateau(o, factor=1.0)),
        (ValueError, "mode best is unknown!", lambda o: L.ReduceLROnPlateau(o, "best")),
        (ValueError, "expected 2 min_lrs, got 1", lambda o: L.ReduceLROnPlateau(o, min_lr=[0.1])),
        (ValueError, "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.", lambda o: L.ChainedScheduler([])),
        (ValueError, "SequentialLR expects at least one scheduler, but got no scheduler.", lambda o: L.SequentialLR(o, [], [])),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(20))
def test_wrong_schedules_are_refused_in_pytorchs_words(case):
    kind, text, make = wrong_schedules()[case]
    with pytest.raises(kind) as error:
        make(two_groups())
    assert str(error.value) == text


def test_schedules_of_schedules_need_one_optimizer():
    a, b = two_groups(), two_groups()
    steps = [lr_scheduler.StepLR(a, 1), lr_scheduler.StepLR(b, 1)]
    with pytest.raises(ValueError, match="ChainedScheduler expects all schedulers to belong to the same optimizer"):
        lr_scheduler.ChainedScheduler(steps)
    with pytest.raises(ValueError, match="SequentialLR expects all schedulers to belong to the same optimizer"):
        lr_scheduler.SequentialLR(a, steps, [2])
    with pytest.raises(ValueError, match="number of schedulers 1 and the number of milestones to be equal to 2"):
        lr_scheduler.SequentialLR(a, steps[:1], [1, 2])
    with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau` scheduler"):
        lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(a)])
