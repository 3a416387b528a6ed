"""Random calls of every op beside PyTorch (differential.py). `tests/stress/differential` runs more of them."""
import pytest

import differential

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
SEEDS, PARTS = 3000, 6


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
