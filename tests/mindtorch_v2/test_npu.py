"""Device "npu" from Python: mindtorch_v2.npu, copies, streams and events, several devices, forks.

test_ops covers what ops compute there, test_profiler_npu what profiles show, and tests/unit/test_npu_faults.c driver faults.
"""
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mindtorch_v2 as torch

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no OpenCL device")


def run(code, **environment):
    """Runs code in a separate process; returns its output."""
    done = subprocess.run([sys.executable, "-c", "import mindtorch_v2 as torch\n" + code], capture_output=True, text=True,
                          timeout=120, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ------------------------------------------------------------------------------------------------------- devices


@pytest.mark.parametrize("name", ["npu", "npu:0", "cuda", "cuda:0", "gpu", "gpu:0"])
def test_names_of_the_device(name):
    x = torch.ones(2, device=name)
    assert x.device == torch.device("npu", 0) and str(x.device) == "npu:0"
    assert torch.device(name).type == "npu"


def test_ways_there_and_back():
    x = torch.arange(6).reshape(2, 3)
    for there in (x.npu(), x.cuda(), x.to("npu"), x.to(torch.device("npu:0")), x.to(0), x.to(device="npu", dtype=torch.int64)):
        assert there.device.type == "npu" and there.tolist() == x.tolist()
        assert there.cpu().device.type == "cpu" and there.to("cpu").tolist() == x.tolist()
        assert there.npu() is there
    assert torch.nn.Linear(2, 2).npu().weight.device.type == "npu"
    with pytest.raises(TypeError, match="can't convert npu device type tensor to numpy"):
        x.npu().numpy()
    with pytest.raises(RuntimeError, match="same device"):
        x.npu() + x
    assert (x.npu() + torch.tensor(1)).device.type == "npu"  # a number may stay where it is


def test_a_copy_that_does_not_block_has_the_values_of_its_time():
    for n in (1, 1000, 1 << 20):
        x = torch.ones(n)
        there = x.to("npu", non_blocking=True)
        back = there.to("cpu", non_blocking=True)
        torch.npu.synchronize()
        assert back.sum().item() == n and there.sum().item() == n
        del x  # the copy may still be in flight: its memory stays
    there = [torch.full((1 << 16,), float(i)).to("npu", non_blocking=True) for i in range(64)]
    assert [t[-1].item() for t in there] == list(range(64))


def test_where_tensors_are_made():
    assert torch.get_default_device() == torch.device("cpu")
    with torch.device("npu"):
        assert torch.ones(2).device.type == "npu" and torch.tensor([1.0]).device.type == "npu"
        assert torch.arange(3).device.type == "npu" and torch.nn.Linear(2, 2).weight.device.type == "npu"
        with torch.device("cpu"):
            assert torch.zeros(1).device.type == "cpu"
        assert torch.ones(1, device="cpu").device.type == "cpu"
        assert torch.ones_like(torch.ones(1, device="cpu")).device.type == "cpu"
    assert torch.ones(1).device.type == "cpu"
    torch.set_default_device("npu")
    assert torch.rand(1).device.type == "npu" and torch.get_default_device() == torch.device("npu:0")
    torch.set_default_device(None)
    assert torch.get_default_device() == torch.device("cpu")
    with pytest.raises(RuntimeError, match="npu:9 is not available"):
        torch.set_default_device("npu:9")
    with torch.device("npu"):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.ones(1).device.type))
        thread.start()
        thread.join()
    assert seen == ["cpu"]  # each thread has its own


def test_what_it_is():
    assert torch.npu.device_count() >= 1 and torch.npu.current_device() == 0
    properties = torch.npu.get_device_properties()
    assert properties.name == torch.npu.get_device_name() == torch.npu.get_device_name("npu:0") != ""
    assert properties.total_memory > 0 and properties.multi_processor_count > 0
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total == properties.total_memory
    assert torch.cuda is torch.npu
    for wrong in (lambda: torch.npu.set_device(99), lambda: torch.npu.synchronize(99), lambda: torch.ones(1, device="npu:99")):
        with pytest.raises(RuntimeError, match="npu:99"):
            wrong()
    with pytest.raises(ValueError, match="Expected an npu device"):
        torch.npu.synchronize("cpu")


TWO = {"POCL_DEVICES": "pthread pthread", "MINDTORCH_OPENCL_PLATFORM": "Portable"}
has_pocl = "pthread" in torch.npu.get_device_name() if torch.npu.is_available() else False


@pytest.mark.skipif(not has_pocl, reason="two devices are had from PoCL")
def test_two_devices():
    assert run("""
assert torch.npu.device_count() == 2
a = torch.ones(3, device="npu:1")
assert str(a.device) == "npu:1" and (a + a).tolist() == [2, 2, 2]
with torch.npu.device(1):
    assert str(torch.ones(1, device="npu").device) == "npu:1" and str(torch.ones(1).npu().device) == "npu:1"
assert str(torch.ones(1, device="npu").device) == "npu:0" and torch.npu.current_device() == 0
b = a.to("npu:0")
assert str(b.device) == "npu:0" and b.tolist() == [1, 1, 1]
assert a.t().to("npu:0", dtype=torch.float64).sum().item() == 3
zero, one = torch.npu.Stream(0), torch.npu.Stream(1)
with torch.npu.stream(zero), torch.npu.stream(one):
    assert torch.npu.current_stream(0) == zero and torch.npu.current_stream(1) == one
assert torch.npu.current_stream(0) == torch.npu.default_stream(0)
try:
    a + b
except RuntimeError as error:
    assert "npu:1 and npu:0" in str(error), error
else:
    raise AssertionError("mixed")
torch.npu.set_device(1)
before = torch.npu.memory_allocated(0)
big = torch.empty(1 << 20, device="npu")
assert torch.npu.memory_allocated() - torch.npu.memory_allocated(0) + before >= 4 << 20
assert torch.npu.memory_allocated(0) == before
with torch.profiler.profile(activities=["CPU", "NPU"]) as prof:
    torch.ones(8, device="npu:0") + 1, torch.ones(8, device="npu:1") + 1
import json, tempfile, os
with tempfile.TemporaryDirectory() as folder:
    prof.export_chrome_trace(os.path.join(folder, "t.json"))
    trace = json.load(open(os.path.join(folder, "t.json")))
assert [d["id"] for d in trace["deviceProperties"]] == [0, 1]
kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
assert {e["args"]["device"] for e in kernels} == {0, 1} and len({e["pid"] for e in kernels}) == 2
print("fine")
""", **TWO) == "fine"


@pytest.mark.skipif(not has_pocl, reason="the choice is shown with PoCL's names")
def test_the_environment_chooses_the_device():
    count = "print(torch.npu.device_count())"
    assert run(count, **TWO) == "2"
    assert run(count, **TWO, MINDTORCH_OPENCL_DEVICE="1") == "1"
    assert run(count, MINDTORCH_OPENCL_DEVICE="PTHREAD") == "1"
    assert run(count, MINDTORCH_OPENCL_PLATFORM="no such") == "0"
    assert run(count, MINDTORCH_DEVICE="none") == "0"
    for variable, why in (("MINDTORCH_DEVICE", "none"), ("MINDTORCH_OPENCL_DEVICE", "h200")):
        said = run("""
assert not torch.npu.is_available() and torch.npu.device_count() == 0
torch.npu.empty_cache()
for use in (lambda: torch.ones(1, device="npu"), torch.npu.synchronize, torch.npu.Stream, torch.npu.memory_allocated,
            lambda: torch.nn.Linear(1, 1).to("npu"), lambda: torch.set_default_device("npu")):
    try:
        use()
    except RuntimeError as error:
        print(error)
    else:
        raise AssertionError("no error")
assert (torch.ones(1) + 1).item() == 2
with torch.profiler.profile() as prof:
    torch.ones(1)
assert torch.profiler.supported_activities() == {torch.profiler.ProfilerActivity.CPU}
""", **{variable: why})
        assert said.count(f"{variable}={why}") == 6, said


# -------------------------------------------------------------------------------------------------------- memory


def test_memory_is_counted():
    torch.npu.synchronize()
    torch.npu.reset_peak_memory_stats()
    before, peak = torch.npu.memory_allocated(), torch.npu.max_memory_allocated()
    assert before == peak
    x = torch.empty(1 << 18, device="npu")
    assert torch.npu.memory_allocated() == before + (1 << 20) and torch.npu.memory_reserved() >= torch.npu.memory_allocated()
    y = x + x
    del x, y
    assert torch.npu.memory_allocated() == before and torch.npu.max_memory_allocated() == before + (2 << 20)
    stats = torch.npu.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and stats["allocated_bytes.all.peak"] == before + (2 << 20)
    assert stats["allocation.all.current"] >= 0 and stats["reserved_bytes.all.current"] == torch.npu.memory_reserved()
    held = torch.npu.memory_reserved()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= held - (2 << 20)
    with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory"):
        torch.empty(1 << 42, device="npu")
    assert torch.ones(2, device="npu").sum().item() == 2


def test_memory_is_used_again():
    torch.npu.empty_cache()
    for _ in range(3):
        torch.empty(1 << 16, device="npu")
    held = torch.npu.memory_reserved()
    for _ in range(100):
        torch.empty(1 << 16, device="npu")
    assert torch.npu.memory_reserved() == held


# -------------------------------------------------------------------------------------------- streams and events


def test_streams_and_events():
    default, other = torch.npu.default_stream(), torch.npu.Stream()
    assert torch.npu.current_stream() == default != other and other.device == torch.device("npu:0")
    x = torch.ones(1 << 16, device="npu")
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    other.wait_stream(default)
    with torch.npu.stream(other):
        assert torch.npu.current_stream() == other
        with torch.npu.stream(None):
            assert torch.npu.current_stream() == other
        begin.record()
        for _ in range(20):
            x = x + 1
        end.record()
    assert torch.npu.current_stream() == default
    default.wait_event(end)
    assert x[0].item() == 21
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) > 0
    other.synchronize()
    assert other.query()
    with torch.npu.stream(other):
        x = x + 1
    for _ in range(10000):
        if other.query():
            break
        time.sleep(0.001)
    assert other.query() and x[0].item() == 22
    with pytest.raises(ValueError, match="recorded"):
        torch.npu.Event().elapsed_time(end)
    assert torch.npu.Event().query()


def test_a_stream_that_is_set_stays():
    stream = torch.npu.Stream()
    number = stream.stream_id
    torch.npu.set_stream(stream)
    try:
        del stream
        assert torch.npu.current_stream().stream_id == number
        assert torch.ones(4, device="npu").sum().item() == 4
        torch.npu.current_stream().wait_event(torch.npu.Event())  # nothing to wait for
    finally:
        torch.npu.set_stream(torch.npu.default_stream())
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_memory_that_another_stream_uses_is_not_used_again_too_soon():
    other = torch.npu.Stream()
    for i in range(20):
        x = torch.full((1 << 16,), float(i), device="npu")
        other.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(other):
            for _ in range(10):
                y = x * 2
        x.record_stream(other)
        del x
        z = torch.full((1 << 16,), -1.0, device="npu")  # in x's memory, after the other stream is done with it
        other.synchronize()
        assert y[0].item() == y[-1].item() == 2.0 * i and z[0].item() == -1
    torch.ones(1).record_stream(other)


def test_an_error_on_another_stream_is_not_lost():
    table, other = torch.ones(4, 2, device="npu"), torch.npu.Stream()
    index, x = torch.tensor([9], device="npu"), torch.ones(512, 512, device="npu")
    other.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(other):
        for _ in range(40):
            x = x @ x * 0.001
        torch.nn.functional.embedding(index, table)
    with pytest.raises(IndexError, match="out of range"):
        table[0, 0].item()  # too early to see it, as a rule
        torch.npu.synchronize()
    torch.npu.synchronize()


def test_streams_have_rows_of_their_own(tmp_path):
    other = torch.npu.Stream()
    with torch.profiler.profile(activities=["CPU", "NPU"]) as prof:
        x = torch.ones(64, device="npu")
        other.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(other):
            y = x + 1
        other.synchronize()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e.get("cat") in ("kernel", "gpu_memset")]
    streams = {e["args"]["stream"] for e in events}
    assert other.stream_id in streams and len(streams) == len({e["tid"] for e in events}) == 2
    assert min(streams) > 0  # HTA treats stream 0 as no stream
    assert y.sum().item() == 128


def test_threads_have_streams_of_their_own():
    wrong = []

    def work(k):
        stream = torch.npu.Stream()
        with torch.npu.stream(stream):
            x = torch.full((1000,), float(k), device="npu")
            for _ in range(50):
                x = x + 1
            stream.synchronize()
            if x[-1].item() != k + 50 or torch.npu.current_stream() != stream:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    with torch.profiler.profile(activities=["CPU", "NPU"], profile_memory=True) as prof:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong
    assert len([e for e in prof.events() if e.device_type == "NPU" and e.name.startswith("add")]) == 6 * 50


# ----------------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("index", [[1, 0], torch.tensor([1, 0, 1]), torch.tensor([True, False]), True, torch.tensor(1), (slice(None), [2, 0]),
                                   (torch.tensor([1, 0]), torch.tensor([[2], [0]])), torch.arange(6.0).reshape(2, 3) > 2, np.array([1, 1]), [False, True],
                                   (None, torch.tensor([1]))])
def test_indices_may_be_on_the_cpu(index):
    here = torch.arange(6.0).reshape(2, 3).requires_grad_()
    there = here.detach().npu().requires_grad_()
    assert there[index].device.type == "npu"
    assert there[index].tolist() == here[index].tolist()
    (there[index] ** 2).sum().backward()
    (here[index] ** 2).sum().backward()
    assert there.grad.tolist() == here.grad.tolist()
    for value in (-1.0, [[-2.0]]):
        new, old = there.detach().clone(), here.detach().clone()
        new[index], old[index] = value, value
        assert new.tolist() == old.tolist()


def test_only_indices_may_be_on_the_cpu():
    x = torch.ones(2, 3, device="npu")
    for wrong in (lambda: x.cpu()[torch.tensor([1, 0], device="npu")], lambda: x.index_select(0, torch.tensor([1, 0])),
                  lambda: x.gather(0, torch.zeros(1, 1, dtype=torch.int64)), lambda: x.__setitem__([0, 1], torch.ones(2, 3)),
                  lambda: torch.cat([x, x.cpu()])):
        with pytest.raises(RuntimeError, match="same device"):
            wrong()
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        x[[2]].cpu()


def test_a_forked_child_gets_an_error():
    x = torch.ones(3, device="npu")
    stream = torch.npu.Stream()
    event = stream.record_event()
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            assert (torch.ones(2) + 1).sum().item() == 4
            x.sum()
        except RuntimeError as error:
            said = str(error)
        try:
            stream.synchronize()
        except RuntimeError as error:
            said += str(error)
        del x, stream, event
        os.write(ends[1], said.encode())
        os._exit(0)
    os.close(ends[1])
    said = os.read(ends[0], 1000).decode()
    os.close(ends[0])
    assert os.waitpid(child, 0)[1] == 0
    assert said.count("forked subprocess") == 2 and "spawn" in said
    assert x.sum().item() == 3


def test_errors_of_the_data_come_with_the_next_wait_and_once():
    table = torch.ones(4, 2, device="npu")
    index = torch.tensor([1, 9], device="npu")
    torch.nn.functional.embedding(index, table)
    with pytest.raises(IndexError, match="out of range"):
        torch.npu.synchronize()
    torch.npu.synchronize()
    assert table.sum().item() == 8


def test_numbers_agree_with_numpy():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((70, 33)).astype(np.float32), rng.standard_normal((33, 41)).astype(np.float32)
    product = (torch.from_numpy(a).npu() @ torch.from_numpy(b).npu()).cpu().numpy()
    np.testing.assert_allclose(product, a @ b, rtol=1e-5, atol=1e-5)


def test_a_profile_shows_when_kernels_are_built():
    assert run("""
x = torch.ones(8, device="npu")
profiles = []
for _ in range(2):
    with torch.profiler.profile(activities=["CPU", "NPU"]) as prof:
        x.tanh()
    profiles.append([e.name for e in prof.events() if e.name == "clBuildProgram" and e.cpu_parent.name == "aten::tanh"])
print([len(p) for p in profiles])
""") == "[1, 0]"


def test_it_prints_where_it_is():
    assert repr(torch.ones(2, device="npu")) == "tensor([1., 1.], device='npu:0')"


def test_a_model_that_moved_is_still_one_in_the_memory_timeline(tmp_path):
    model = torch.nn.Linear(64, 64).npu()
    with torch.profiler.profile(activities=["CPU", "NPU"], record_shapes=True, profile_memory=True, with_stack=True) as prof:
        model(torch.ones(8, 64, device="npu")).sum().backward()
    prof.export_memory_timeline(str(tmp_path / "m.json"), device="npu:0")
    _, sizes = json.loads((tmp_path / "m.json").read_text())
    assert max(row[1] for row in sizes) == (64 * 64 + 64) * 4  # of parameters


def test_a_training_step_reads_nothing_back():
    """An optimizer's step counters stay on the host: a step does not wait for the device."""
    with torch.device("npu"):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.ones(4, 8)
        with torch.profiler.profile(activities=["CPU", "NPU"]) as prof:
            for _ in range(3):
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    assert not [e.name for e in prof.events() if "DtoH" in e.name]


def test_memory_of_numpy_that_copies_hold_is_let_go_by_any_thread():
    """The end of a copy may be seen by a thread that does not have the interpreter's lock."""
    def work():
        for i in range(60):
            torch.from_numpy(np.full(20000, float(i), np.float32)).to("npu", non_blocking=True).add_(1)
            torch.npu.synchronize()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)


@pytest.mark.parametrize("size", [64, 1024])  # libraries handle large ones differently
def test_batches_that_lie_anywhere(size):
    rng = np.random.default_rng(5)
    whole, one = (rng.standard_normal((n, 2, size, size)).astype(np.float32) for n in (3, 1))
    there, w = torch.from_numpy(whole).npu(), torch.from_numpy(one[0, 0]).npu()
    a = there[0]

    def close(got, want):
        np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-4, atol=size * 1e-5)

    close(torch.bmm(a, there[2]), whole[0] @ whole[2])
    close(torch.bmm(there[1], there[2]), whole[1] @ whole[2])
    close(torch.bmm(a, w.expand(2, size, size)), whole[0] @ one[0, 0])
    close(torch.bmm(w.expand(2, size, size), a), one[0, 0] @ whole[0])
    close(torch.bmm(there[1].transpose(1, 2), there[2].transpose(1, 2)), whole[1].swapaxes(1, 2) @ whole[2].swapaxes(1, 2))
    close(torch.baddbmm(there[1], a, there[2], beta=2), 2 * whole[1] + whole[0] @ whole[2])


def test_more_groups_than_some_devices_have_in_a_row():
    a = torch.ones(70000, 2, 2, device="npu")
    assert torch.bmm(a, a).sum().item() == 70000 * 8


def test_batches_that_lie_anywhere_are_not_clblasts():
    """In a batch it expects dense matrices at the start of their buffer: we multiply the others ourselves."""
    said = run("""
print(torch.npu.get_device_properties().blas)
whole = torch.arange(3).reshape(3, 1, 1, 1).expand(3, 2, 1024, 1024).float().contiguous().npu()  # of 0, of 1, of 2
a = torch.eye(1024).expand(2, 1024, 1024).contiguous().npu()
assert torch.bmm(a, whole[2]).sum().item() == 2 * 2 * 1024 * 1024
assert torch.bmm(a, whole[1][:1].expand(2, 1024, 1024)).sum().item() == 2 * 1024 * 1024
""", MINDTORCH_CLBLAST="1")
    if said != "CLBlast":
        pytest.skip("CLBlast is not installed")


def test_roots_of_infinity_as_powers_are_the_cpus():
    x = torch.tensor([float("-inf"), -0.0, 4.0, float("inf")])
    for power in (0.5, -0.5):
        assert repr((x.to("npu") ** power).tolist()) == repr((x**power).tolist())


def test_spread_of_many_elements_far_from_zero():
    """Of three million elements around 1e5 the variance was 500 times too large: the sum that gives the mean was float32."""
    x = np.random.default_rng(0).standard_normal(3_000_000).astype(np.float32) + np.float32(1e5)
    there = torch.from_numpy(x).to("npu")
    assert there.var().item() == pytest.approx(x.astype(np.float64).var(ddof=1), rel=1e-3)
    assert there.std().item() == pytest.approx(x.astype(np.float64).std(ddof=1), rel=1e-3)
    norm = torch.nn.BatchNorm1d(1, momentum=1.0).to("npu")
    norm(there.view(-1, 1))
    assert norm.running_var.item() == pytest.approx(x.astype(np.float64).var(ddof=1), rel=1e-3)
