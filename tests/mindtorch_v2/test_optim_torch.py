"""Optimizers and schedules compared with PyTorch's: results, state, text, and the ops that a profile shows."""
import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import optim
from optim_cases import CASES, FORMULAS, IDS, START, STEPS, ops_of_a_step, trained, two_groups

peer = pytest.importorskip("torch")

MORE = [
    ("SGD", {"momentum": 0.5, "maximize": True}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {"t0": 3, "lambd": 0.01}),
    ("LBFGS", {"lr": 0.1}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 3}),
    ("LBFGS", {"max_iter": 4, "history_size": 2}),
    ("Adadelta", {"maximize": True}),
]


def assert_same_state(mine, other, rtol):
    assert type(mine).__name__ == type(other).__name__
    if isinstance(mine, list):  # LBFGS
        assert len(mine) == len(other)
        for a, b in zip(mine, other):
            assert_same_state(a, b, rtol)
    elif mine is not None:
        np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name, options", [c[:2] for c in CASES] + MORE, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_results_state_and_text_equal_pytorchs(name, options):
    ours, mine = trained(lambda p: getattr(optim, name)(p, **options))
    theirs, other = trained(lambda p: getattr(peer.optim, name)(p, **options), peer)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-12)
    assert repr(mine) == repr(other)
    mine, other = mine.state_dict(), other.state_dict()
    assert mine["param_groups"] == other["param_groups"]
    assert list(mine["state"]) == list(other["state"])
    for key in mine["state"]:
        assert set(mine["state"][key]) == set(other["state"][key])
        for what, value in mine["state"][key].items():
            assert_same_state(value, other["state"][key][what], 1e-4 if name == "LBFGS" else 1e-6)  # its quotients are of differences


SHOWN = [(name, options) for name, options, _ in CASES if name not in ("RAdam", "ASGD", "Rprop")]  # these take fewer ops here


@pytest.mark.parametrize("name, options", SHOWN, ids=[i for (n, _, _), i in zip(CASES, IDS) if n not in ("RAdam", "ASGD", "Rprop")])
def test_a_profile_shows_the_ops_of_pytorchs_step(name, options):
    ours, theirs = (ops_of_a_step(lambda p: getattr(m.optim, name)(p, **options), m, before=1) for m in (torch, peer))
    assert ours == theirs


@pytest.mark.parametrize("options", [{"lr": 0.1}, {"line_search_fn": "strong_wolfe"}, {"max_iter": 4, "history_size": 2}], ids="-".join)
def test_a_profile_shows_the_ops_of_pytorchs_lbfgs(options):
    """Without item, which is no op here, and the line search's copies of gradients."""
    shown = []
    for m in (torch, peer):
        x, y = (m.tensor(v, dtype=m.float64, requires_grad=True) for v in ([[-1.2, 1.0], [0.5, 2.0]], [0.3]))
        optimizer = m.optim.LBFGS([x, y], **options)

        def closure():
            optimizer.zero_grad()
            loss = ((1 - x[:, 0]) ** 2).sum() + ((x[:, 1] - x[:, 0] ** 2) ** 2).sum() * 100 + (y**2).sum()
            loss.backward()
            return loss

        with m.profiler.profile() as prof:
            for _ in range(3):
                optimizer.step(closure)
        ops = [e.name for e in prof.events() if e.cpu_parent is not None and e.cpu_parent.name == "Optimizer.step#LBFGS.step"]
        without = ("aten::item", "aten::is_nonzero") + (("aten::clone",) if "line_search_fn" in options else ())
        shown.append([name for name in ops if name.startswith("aten") and name not in without])
    assert len(shown[0]) > 300 and shown[0] == shown[1]


def test_sparse_adam_equals_pytorchs_on_sparse_gradients():
    ours = torch.tensor(START[0], requires_grad=True)
    theirs = peer.tensor(START[0], requires_grad=True)
    mine, other = optim.SparseAdam([ours], lr=0.1), peer.optim.SparseAdam([theirs], lr=0.1)
    for i in range(STEPS):
        rows = [i % 4, (i * 3) % 4]
        mine.zero_grad(), other.zero_grad()
        torch.nn.functional.embedding(torch.tensor(rows), ours).pow(2).sum().backward()
        peer.nn.functional.embedding(peer.tensor(rows), theirs, sparse=True).pow(2).sum().backward()
        mine.step(), other.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9)


PEER_SCHEDULES = {name: make for name, (make, _) in FORMULAS.items()} | {
    "OneCycleLR": lambda L, o: L.OneCycleLR(o, [0.5, 0.3], total_steps=25),
    "OneCycleLR-three": lambda L, o: L.OneCycleLR(o, 0.5, epochs=5, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"),
    "CyclicLR": lambda L, o: L.CyclicLR(o, 0.01, 0.2, 3, 4),
    "CyclicLR-2": lambda L, o: L.CyclicLR(o, [0.01, 0.02], 0.2, 3, mode="triangular2"),
    "CyclicLR-exp": lambda L, o: L.CyclicLR(o, 0.01, 0.2, 3, mode="exp_range", gamma=0.97),
    "CyclicLR-own": lambda L, o: L.CyclicLR(o, 0.01, 0.2, 3, scale_fn=lambda x: 0.5**x, scale_mode="iterations"),
    "SequentialLR-three": lambda L, o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1, 3), L.CosineAnnealingWarmRestarts(o, 4), L.StepLR(o, 2)], [4, 12]),
    "CosineAnnealingLR-min": lambda L, o: L.CosineAnnealingLR(o, 6, 0.01),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", ["SGD", "Adam"])
@pytest.mark.parametrize("name", PEER_SCHEDULES)
def test_schedules_equal_pytorchs(name, cls):
    make = PEER_SCHEDULES[name]
    runs = []
    for module, tensors in ((optim, torch), (peer.optim, peer)):
        optimizer = two_groups(module, tensors, cls)
        scheduler = make(module.lr_scheduler, optimizer)
        values = []
        for _ in range(24):
            optimizer.step()
            values.append([(g["lr"], g["momentum"] if cls == "SGD" else g["betas"][0]) for g in optimizer.param_groups])
            scheduler.step()
        runs.append((np.array(values), sorted(scheduler.state_dict())))
    np.testing.assert_allclose(runs[0][0], runs[1][0], rtol=1e-12, atol=1e-17)
    assert runs[0][1] == runs[1][1]
