"""Datasets, samplers and the DataLoader: order, batches, worker processes and how they exit, errors in workers."""

import collections
import gc
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.utils import _record, data

try:
    import torch as peer
except ImportError:
    peer = None

needs_peer = pytest.mark.skipif(peer is None, reason="PyTorch is not installed")


class Squares(data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index * index


class Counting(data.IterableDataset):
    """0 .. count - 1, divided among workers."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))

    def __len__(self):
        return self.count


def lists(batches):
    return [b.tolist() if isinstance(b, torch.Tensor) else b for b in batches]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def zombies():
    """Children of this process that ended and were not waited for."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                state, parent = f.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has just ended
        if state == "Z" and int(parent) == os.getpid():
            found.append(pid)
    return found


def wait_gone(pids, seconds=60):
    deadline = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


# ---------------------------------------------------------------------------------------------------- datasets


def test_tensor_dataset_gives_rows():
    x, y = torch.arange(6.0).view(3, 2), torch.tensor([7, 8, 9])
    rows = data.TensorDataset(x, y)
    assert len(rows) == 3 and rows[1][0].tolist() == [2.0, 3.0] and rows[-1][1].item() == 9
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(x, torch.ones(4))


def test_datasets_made_of_others():
    both = Squares(3) + Squares(2)
    assert isinstance(both, data.ConcatDataset) and [both[i] for i in range(len(both))] == [0, 1, 4, 0, 1] and both[-1] == 1
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        both[-6]
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        data.ConcatDataset([])
    some = data.Subset(Squares(10), [3, 5])
    assert len(some) == 2 and some[1] == 25 and some.__getitems__([0, 1]) == [9, 25]
    assert data.StackDataset(a=Squares(3), b=range(3))[2] == {"a": 4, "b": 2}
    assert list(Counting(2) + Counting(3)) == [0, 1, 0, 1, 2]
    with pytest.raises(NotImplementedError, match="Subclasses of Dataset should implement __getitem__."):
        data.Dataset()[0]


def test_random_split_takes_lengths_and_fractions():
    torch.manual_seed(0)
    parts = data.random_split(range(10), [3, 7])
    assert [len(p) for p in parts] == [3, 7] and sorted(parts[0].indices + parts[1].indices) == list(range(10))
    assert [len(p) for p in data.random_split(range(10), [0.5, 0.25, 0.25])] == [6, 2, 2]
    torch.manual_seed(0)
    assert data.random_split(range(10), [3, 7])[0].indices == parts[0].indices
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        data.random_split(range(10), [3, 3])


# ---------------------------------------------------------------------------------------------------- samplers


def test_samplers():
    assert list(data.SequentialSampler(range(4))) == [0, 1, 2, 3]
    assert sorted(data.RandomSampler(range(50))) == list(range(50)) and len(data.RandomSampler(range(5), num_samples=12)) == 12
    drawn = list(data.RandomSampler(range(5), replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) == set(range(5))
    assert sorted(data.SubsetRandomSampler([7, 8, 9])) == [7, 8, 9]
    torch.manual_seed(0)
    counts = collections.Counter(data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert counts[0] == 0 and counts[2] / counts[1] == pytest.approx(3, rel=0.15)
    batches = data.BatchSampler(range(7), 3, False)
    assert list(batches) == [[0, 1, 2], [3, 4, 5], [6]] and len(batches) == 3
    assert list(data.BatchSampler(range(7), 3, True)) == [[0, 1, 2], [3, 4, 5]] and len(data.BatchSampler(range(7), 3, True)) == 2


def test_samplers_refuse_wrong_arguments():
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        data.RandomSampler([])
    with pytest.raises(TypeError, match="replacement should be a boolean value, but got replacement=1"):
        data.RandomSampler(range(2), replacement=1)
    with pytest.raises(ValueError, match="batch_size should be a positive integer value, but got batch_size=0"):
        data.BatchSampler(range(2), 0, False)
    with pytest.raises(ValueError, match="drop_last should be a boolean value, but got drop_last=1"):
        data.BatchSampler(range(2), 1, 1)


def test_a_generator_makes_order_repeatable():
    first = data.DataLoader(range(20), shuffle=True, generator=torch.Generator().manual_seed(5))
    second = data.DataLoader(range(20), shuffle=True, generator=torch.Generator().manual_seed(5))
    assert lists(first) == lists(second)


# ----------------------------------------------------------------------------------------------------- collate


def test_default_collate_keeps_the_form_of_samples():
    Point = collections.namedtuple("Point", ["x", "y"])
    assert data.default_collate([torch.tensor([1.0]), torch.tensor([2.0])]).tolist() == [[1.0], [2.0]]
    assert data.default_collate([1, 2]).dtype == torch.int64 and data.default_collate([1.0, 2.0]).dtype == torch.float64
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype == torch.float32
    assert data.default_collate([np.ones(2), np.zeros(2)]).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert data.default_collate(["a", "b"]) == ["a", "b"]
    mixed = data.default_collate([{"a": (1, "x"), "b": [1.0, 2.0]}, {"a": (2, "y"), "b": [3.0, 4.0]}])
    assert mixed["a"][0].tolist() == [1, 2] and list(mixed["a"][1]) == ["x", "y"] and mixed["b"][1].tolist() == [2.0, 4.0]
    point = data.default_collate([Point(1, 2), Point(3, 4)])
    assert type(point) is Point and point.y.tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'object'>"):
        data.default_collate([object()])


# --------------------------------------------------------------------------------------------- loading, any workers


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_order(workers):
    loader = data.DataLoader(Squares(10), batch_size=4, num_workers=workers)
    want = [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]
    assert lists(loader) == want and lists(loader) == want and len(loader) == 3
    assert lists(data.DataLoader(Squares(10), batch_size=4, drop_last=True, num_workers=workers)) == want[:2]


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffling_changes_each_epoch_and_follows_the_seed(workers):
    def epochs():
        torch.manual_seed(1)
        loader = data.DataLoader(Squares(30), batch_size=30, shuffle=True, num_workers=workers)
        return [lists(loader)[0] for _ in range(2)]

    first, second = epochs()
    assert sorted(first) == sorted(second) == [i * i for i in range(30)] and first != second
    assert epochs() == [first, second]


@pytest.mark.parametrize("workers", [0, 2])
def test_samplers_collate_and_no_batches(workers):
    own = data.DataLoader(Squares(10), batch_sampler=[[1, 2], [3]], num_workers=workers)
    assert lists(own) == [[1, 4], [9]] and len(own) == 2
    assert lists(data.DataLoader(Squares(10), batch_size=2, sampler=[5, 6, 7], num_workers=workers)) == [[25, 36], [49]]
    assert list(data.DataLoader(Squares(3), batch_size=None, num_workers=workers)) == [0, 1, 4]
    assert list(data.DataLoader(Squares(4), batch_size=2, collate_fn=sum, num_workers=workers)) == [1, 13]
    assert list(data.DataLoader(Squares(0), num_workers=workers)) == []


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_iterable_datasets(workers):
    loader = data.DataLoader(Counting(11), batch_size=3, num_workers=workers)
    assert sorted(sum(lists(loader), [])) == list(range(11))
    if workers == 2:
        assert lists(loader) == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9]]
    assert len(loader) == 4
    assert all(len(b) == 3 for b in lists(data.DataLoader(Counting(11), batch_size=3, drop_last=True, num_workers=workers)))
    assert sorted(data.DataLoader(Counting(5), batch_size=None, num_workers=workers)) == list(range(5))


def test_tensors_and_arrays_come_back_whole_and_writable():
    class Mixed(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return {"t": torch.full((3, 4), float(i)), "n": np.full(2, i), "s": str(i), "e": torch.empty(0), "z": torch.tensor(i)}

    for batch in data.DataLoader(Mixed(), batch_size=2, num_workers=2):
        assert batch["t"].shape == (2, 3, 4) and batch["n"].dtype == torch.int64 and batch["e"].shape == (2, 0)
        assert batch["t"][1, 0, 0].item() == batch["z"][1].item() == float(batch["s"][1])
        batch["t"].add_(1)


def test_large_batches_and_large_lists_of_indices_do_not_block():
    class Many(data.Dataset):
        def __len__(self):
            return 600000

        def __getitems__(self, indices):
            return indices

    loader = data.DataLoader(Many(), batch_size=200000, num_workers=1, prefetch_factor=3, collate_fn=lambda b: torch.tensor(b))
    assert [b.shape[0] for b in loader] == [200000] * 3
    big = data.DataLoader(data.TensorDataset(torch.randn(60, 3, 64, 64)), batch_size=20, num_workers=2)
    assert sum(b[0].numel() for b in big) == 60 * 3 * 64 * 64


@pytest.mark.parametrize("workers, name", [(0, "_SingleProcessDataLoaderIter"), (1, "_MultiProcessingDataLoaderIter")])
def test_each_next_is_a_scope_in_profiles(monkeypatch, workers, name):
    log = []
    monkeypatch.setattr(_record, "_begin", lambda name: log.append(name))
    monkeypatch.setattr(_record, "_end", lambda token: log.append("end"))
    assert len(list(data.DataLoader(range(2), num_workers=workers))) == 2
    assert log == [f"enumerate(DataLoader)#{name}.__next__", "end"] * 3


def test_workers_know_who_they_are():
    class Who(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            info = data.get_worker_info()
            return info.id, info.num_workers, info.seed, os.getpid(), torch.get_num_threads()

    rows = [tuple(v[0].item() for v in b) for b in data.DataLoader(Who(), num_workers=2)]
    assert [r[0] for r in rows] == [0, 1, 0, 1] and {r[1] for r in rows} == {2} and {r[4] for r in rows} == {1}
    assert rows[1][2] == rows[0][2] + 1 and len({r[3] for r in rows}) == 2 and os.getpid() not in {r[3] for r in rows}
    assert data.get_worker_info() is None


def test_workers_draw_different_random_numbers():
    class Chance(data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            import random

            return torch.rand(1).item(), random.random(), np.random.rand()

    first, second = ([v.item() for v in b] for b in data.DataLoader(Chance(), num_workers=2))
    assert all(a != b for a, b in zip(first, second))


def test_worker_init_fn_runs_in_each_worker():
    class Env(Squares):
        def __getitem__(self, i):
            return int(os.environ["WORKER_MARK"])

    def start(id):
        os.environ["WORKER_MARK"] = str(id + 10)

    assert sum(lists(data.DataLoader(Env(4), num_workers=2, worker_init_fn=start)), []) == [10, 11, 10, 11]
    assert "WORKER_MARK" not in os.environ


def test_persistent_workers_stay_for_the_next_epoch():
    class Pid(Squares):
        def __getitem__(self, i):
            return os.getpid()

    loader = data.DataLoader(Pid(6), num_workers=2, persistent_workers=True)
    first, second = ({p for b in lists(loader) for p in b} for _ in range(2))
    assert first == second and len(first) == 2
    it = iter(loader)
    next(it)  # an epoch that is abandoned
    assert len(lists(loader)) == 6
    del it, loader
    gc.collect()
    assert wait_gone(first)
    loader = data.DataLoader(Counting(5), num_workers=2, persistent_workers=True)
    assert sorted(sum(lists(loader), [])) == sorted(sum(lists(loader), [])) == list(range(5))


# ---------------------------------------------------------------------------------------------- workers that fail or end


class Failing(Squares):
    def __getitem__(self, i):
        if i == 3:
            raise self.error
        return i


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} {b}")


@pytest.mark.parametrize("error, kind", [(ValueError("number three"), ValueError), (KeyError("three"), KeyError), (Odd(1, 2), RuntimeError)])
def test_errors_of_workers_come_with_their_traceback(error, kind):
    dataset = Failing(6)
    dataset.error = error
    got = []
    with pytest.raises(kind) as caught:
        for batch in data.DataLoader(dataset, num_workers=2):
            got.append(batch.item())
    text = str(caught.value)
    assert got == [0, 1, 2]
    assert text.startswith(f"Caught {type(error).__name__} in DataLoader worker process 1.\nOriginal Traceback (most recent call last):")
    assert "raise self.error" in text and "three" in text or "1 2" in text


def test_after_an_error_loading_can_continue():
    dataset = Failing(6)
    dataset.error = ValueError("x")
    it = iter(data.DataLoader(dataset, num_workers=2))
    assert [next(it).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError):
        next(it)
    assert [b.item() for b in it] == [4, 5]


def test_errors_in_this_process_are_the_errors_themselves():
    dataset = Failing(6)
    dataset.error = ValueError("number three")
    with pytest.raises(ValueError, match="^number three$"):
        list(data.DataLoader(dataset))


def test_an_error_of_init_fn_and_a_batch_that_cannot_be_pickled():
    def start(id):
        raise ValueError("no start")

    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0.(.|\n)*no start"):
        list(data.DataLoader(Squares(4), num_workers=2, worker_init_fn=start))
    with pytest.raises(Exception, match="in DataLoader worker process 0"):
        list(data.DataLoader(Squares(4), num_workers=1, collate_fn=lambda b: (lambda: b)))


def test_a_worker_that_dies_is_reported():
    class Dying(Squares):
        def __getitem__(self, i):
            if i == 2:
                os._exit(3)
            return i

    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"):
        list(data.DataLoader(Dying(8), num_workers=2))


class Sleeping(Squares):
    def __getitem__(self, i):
        if i > 0:
            time.sleep(1000)
        return i


def test_timeout():
    it = iter(data.DataLoader(Sleeping(4), num_workers=1, timeout=60))
    next(it)
    it._timeout = 0.3  # only now: a worker may take longer than that to start
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.3 seconds"):
        next(it)


def test_workers_end_with_the_iterator():
    loader = data.DataLoader(Squares(1000), batch_size=2, num_workers=2)
    it = iter(loader)
    next(it)
    pids = [w.process.pid for w in it._workers]
    assert all(map(is_alive, pids))
    del it
    assert wait_gone(pids)
    list(loader)
    assert not zombies()


def test_workers_end_when_the_loading_process_is_killed(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, time
            from mindtorch_v2.utils import data

            class Sleeping(data.Dataset):
                def __len__(self):
                    return 10

                def __getitem__(self, i):
                    if i > 1:
                        time.sleep(1000)
                    return i

            first = iter(data.DataLoader(Sleeping(), num_workers=1))
            second = iter(data.DataLoader(Sleeping(), num_workers=2))
            next(first), next(second)
            print(*[w.process.pid for it in (first, second) for w in it._workers], flush=True)
            os.kill(os.getpid(), 9)
            """
        )
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    pids = [int(p) for p in run.stdout.split()]
    assert len(pids) == 3, run.stderr
    assert wait_gone(pids)


def test_a_program_that_ends_in_the_middle_of_loading_does_not_hang(tmp_path):
    script = tmp_path / "ends.py"
    script.write_text(
        "from mindtorch_v2.utils import data\nit = iter(data.DataLoader(range(100), num_workers=2, persistent_workers=True))\nnext(it)\nprint('end')\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert run.stdout == "end\n" and run.returncode == 0 and run.stderr == ""


# --------------------------------------------------------------------------------------------------------- options


WRONG = [
    ({"num_workers": -1}, "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing."),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
    ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"),
    ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"),
    ({"multiprocessing_context": "fork"}, "multiprocessing_context can only be used with multi-process loading"),
    ({"multiprocessing_context": "teleport", "num_workers": 1}, "multiprocessing_context option should specify a valid start method"),
]  # fmt: skip


@pytest.mark.parametrize("options, text", WRONG, ids=[next(iter(o)) for o, _ in WRONG])
def test_wrong_options_are_refused(options, text):
    with pytest.raises(ValueError) as error:
        data.DataLoader(Squares(4), **options)
    assert str(error.value).startswith(text)


def test_options_of_iterable_datasets_and_frozen_attributes():
    with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True"):
        data.DataLoader(Counting(3), shuffle=True)
    with pytest.raises(ValueError, match=r"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler=\[0\]"):
        data.DataLoader(Counting(3), sampler=[0])
    loader = data.DataLoader(Squares(3), pin_memory=True)
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 5


@needs_peer
@pytest.mark.parametrize("workers", [0, 2])
def test_order_equals_pytorchs_for_the_same_seed(workers):
    def batches(module):
        module.manual_seed(3)
        d = module.utils.data
        rows = d.TensorDataset(module.arange(20))
        loader = d.DataLoader(rows, batch_size=3, shuffle=True, num_workers=workers)
        out = [b[0].tolist() for _ in range(2) for b in loader]
        out += [s.indices for s in d.random_split(range(10), [4, 6])]
        out.append(list(d.RandomSampler(range(7), True, 70)))
        return out

    assert batches(torch) == batches(peer)
