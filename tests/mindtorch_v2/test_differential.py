"""Random calls of every op, and random programs, beside PyTorch (differential.py, differential_programs.py). `tests/stress/differential`
runs more of them."""
import pathlib

import pytest

import differential
import differential_known
import differential_programs

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
SEEDS, PARTS = 3000, 6
PROGRAMS = 600


@pytest.mark.parametrize("part", range(PARTS))
def test_random_calls_agree_with_pytorch(part):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        compared, found = differential.run(range(part, SEEDS, PARTS), torch)
    finally:
        torch.set_num_threads(threads)
    assert compared > SEEDS // PARTS * 0.8
    unknown = [(op, what, *one[:3]) for (op, what), cases in found.items() for one in cases if one[3] is None]
    assert not unknown, "\n".join(map(str, unknown))


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_agree_with_pytorch(part):
    found = differential_programs.run(range(part, PROGRAMS, PARTS), torch)
    unknown = [(what, *one[:2]) for what, cases in found.items() for one in cases if one[2] is None]
    assert not unknown, "\n".join(map(str, unknown))
    assert sum(map(len, found.values())) < PROGRAMS // PARTS // 10


@pytest.mark.parametrize("wrong", ["tanh", "mul_", "register_hook", "retain_grad"])
def test_a_difference_in_programs_is_noticed(wrong, monkeypatch):
    """The comparison itself: a method that does something else is found, and the program that shows it is small."""
    instead = {"tanh": lambda t: t.sin(), "mul_": lambda t, x: t.div_(x), "register_hook": lambda t, f: t.retain_grad(), "retain_grad": lambda t: None}
    monkeypatch.setattr(differential.mindtorch_v2.Tensor, wrong, instead[wrong])
    found = differential_programs.run(range(150), torch)
    unknown = [one for cases in found.values() for one in cases if one[2] is None]
    assert len(unknown) > 1
    program = differential_programs.made(unknown[0][0])
    small = differential_programs.shrink(program, torch)
    assert len(small) <= len(program) and differential_programs.compare(small, torch)[0] == differential_programs.compare(program, torch)[0]


def test_a_difference_is_noticed():
    """The comparison itself: values, dtypes, gradients and failures that differ are found."""
    seeds = range(400)
    add = next(op for op in differential.OPS if op.id == "add")
    for wrong in (lambda x, *rest, **more: x, lambda *args, **more: add.ours()(*args, **more) * 1.001,
                  lambda *args, **more: add.ours()(*args, **more).detach()):
        class Wrong(type(add)):
            def __init__(self):
                self.__dict__.update(add.__dict__)

            def ours(self, wrong=wrong):
                return wrong
        compared, found = differential.run(seeds, torch, Wrong())
        assert compared > 200 and sum(map(len, found.values())) > 50


def test_every_reason_is_explained_to_users():
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/parity.md").read_text()
    assert differential_known.page() in page, "run tests/stress/differential --page"
    for reason in [known[3] for known in differential_known.CALLS + differential_known.PROGRAMS]:
        assert reason.startswith("The same") or len(reason.split()) > 7, reason
