"""PyTorch on a GPU: the ops that launch work, and the memory there. Kernels are not recorded."""
import subprocess
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-pytorch` fetches it")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

import mtprof.pytorch as ours  # noqa: E402
from compare import silence  # noqa: E402
from test_run import MTPROF, run  # noqa: E402

STEPS = 4
LAUNCHES = ("cu", "Activity", "Lazy", "Runtime")  # rows of torch.profiler for CUDA's own calls


def train(steps=STEPS):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(32, 64, device="cuda")
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()


def profiled(profiler):
    train(1)  # libraries are loaded, and memory is cached
    activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    with silence(), profiler.profile(activities=activities, record_shapes=True, profile_memory=True) as prof:
        train()
    return prof


@pytest.fixture(scope="module")
def rows():
    ours._FRAMEWORK._said_no_kernels = False  # other tests may have caused it
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        mine = profiled(ours)
    assert sum("not the kernels" in str(warning.message) for warning in told) == 1
    return mine, profiled(torch.profiler)


def test_the_same_ops(rows):
    mine, theirs = ({row.key: row.count for row in prof.key_averages() if row.cpu_time_total > 0 and not row.key.startswith(LAUNCHES)}
                    for prof in rows)
    assert mine == theirs
    assert mine["Optimizer.step#AdamW.step"] == STEPS


def test_the_same_memory_on_the_device(rows):
    mine, theirs = ({row.key: (row.device_memory_usage, row.self_device_memory_usage) for row in prof.key_averages()
                     if row.device_memory_usage != 0 and row.key != "[memory]"} for prof in rows)
    assert mine == theirs and mine


def test_the_table_has_a_column_for_it(rows):
    table = rows[0].key_averages().table(sort_by="self_device_memory_usage", row_limit=5)
    assert "CUDA Mem" in table and "CUDA time" not in table


def test_mtprof_run_records_the_memory_of_the_device(tmp_path):
    done = run(tmp_path, "import torch\nkept = [torch.ones(1 << 20, device='cuda') for _ in range(3)]\n", "--memory")
    assert done.returncode == 0, done.stderr
    told = subprocess.run([MTPROF, "memory", "run.mtp"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "3 allocations of 12.00 MB" in told, told
