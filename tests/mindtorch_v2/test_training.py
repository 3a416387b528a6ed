"""Training gives PyTorch's losses: from Python and from C, with the weights and data that PyTorch used (examples/train).

tests/golden/training holds what PyTorch 2.13 printed: OMP_NUM_THREADS=1 python examples/train/train.py MODEL --framework torch
"""
import pathlib
import subprocess
import sys

import pytest

import mindtorch_v2
from process_memory import resident

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "train"))
import train  # noqa: E402

MODELS = ["mlp", "cnn", "gpt"]


def expected(model):
    return [float(line) for line in (ROOT / "tests/golden/training" / f"{model}.txt").read_text().split()]


DEVICES = [("cpu", 1e-4)] + [("npu", 1e-3)] * mindtorch_v2.npu.is_available()  # tolerance of the losses


def assert_same(losses, model, most):
    want = expected(model)
    assert len(losses) == len(want) == 50
    worst = max(abs(a - b) / b for a, b in zip(losses, want))
    assert worst <= most, f"{model}: {worst:.1e} off"
    assert losses[-1] < losses[0] / 2, "it does not learn"


@pytest.mark.parametrize("device, most", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_python_has_the_losses_of_pytorch(model, device, most):
    mindtorch_v2.set_default_device(device)
    assert_same(list(train.train(mindtorch_v2, model, 50)), model, most)


@pytest.mark.parametrize("device, most", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_c_has_the_losses_of_pytorch(model, device, most):
    program = ROOT / "build" / "examples" / "train"
    assert program.exists(), "build/examples/train is not there: make build"
    said = subprocess.run([program, model, "50", "", device], capture_output=True, text=True, check=True, timeout=120).stdout
    assert_same([float(line) for line in said.split()], model, most)


def stepper(model):
    _, optimizer, loss_of = train.MODELS[model](mindtorch_v2)

    def step(i):
        loss = loss_of(i)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def test_ten_thousand_steps_leave_nothing_behind():
    step = stepper("mlp")
    for i in range(500):
        step(i)
    before, allocated = resident(), mindtorch_v2._C._memory_stats("cpu")["allocated"]
    for i in range(10000):
        step(i)
    assert mindtorch_v2._C._memory_stats("cpu")["allocated"] == allocated
    assert resident() - before < 1 << 20


@pytest.mark.parametrize("device", [device for device, _ in DEVICES])
@pytest.mark.parametrize("model", MODELS)
def test_training_does_not_grow(model, device):
    mindtorch_v2.set_default_device(device)
    step = stepper(model)
    for i in range(5):
        step(i)
    before = {d: mindtorch_v2._C._memory_stats(d)["allocated"] for d, _ in DEVICES}
    for i in range(25):
        step(i)
    assert {d: mindtorch_v2._C._memory_stats(d)["allocated"] for d, _ in DEVICES} == before
