"""`mtprof run` with PyTorch programs that nobody changed."""
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-pytorch` fetches it")
import mtprof  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MTPROF = os.environ.get("MTPROF") or str(ROOT / "build" / "mtprof")
pytestmark = pytest.mark.skipif(not os.path.exists(MTPROF), reason="build/mtprof is not there: make build, or set MTPROF")
TRAIN = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(24, 8), torch.randint(0, 2, (24,))), batch_size=4, num_workers={workers})
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
{end}
"""


def run(folder, script, *options, program=(), **more):
    (folder / "train.py").write_text(script)
    environment = {key: value for key, value in os.environ.items() if key == "MTPROF_CACHE" or not key.startswith(("MTPROF", "PYTHONPATH"))}
    if "pytorch" in os.environ.get("PYTHONPATH", ""):
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return subprocess.run([MTPROF, "run", *options, "--", sys.executable, "train.py", *program], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=300, **more)


def events(path, **options):
    return list(mtprof.Trace.open(str(path), **options).events())


def names(path, **options):
    return [event.name for event in events(path, **options)]


def plain(folder, script):
    (folder / "train.py").write_text(script)
    return subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, timeout=300)


def test_training_with_workers(tmp_path):
    script = TRAIN.format(workers=2, end="")
    done = run(tmp_path, script, "--shapes")
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain(tmp_path, script).stdout  # the program's own, and nothing else
    found = names(tmp_path / "run.mtp", alone=True)
    assert found.count("aten::linear") == 12 and found.count("AddmmBackward0") == 12
    assert found.count("Optimizer.step#Adam.step") == 6
    assert len(os.listdir(tmp_path / "run.mtp.workers")) == 2
    assert "aten::stack" in set(names(tmp_path / "run.mtp")) - set(found)  # the workers collate
    assert re.search(r"aten::\w+", done.stderr) and "run.mtp" in done.stderr
    linear = next(event for event in events(tmp_path / "run.mtp", alone=True) if event.name == "aten::linear")
    assert json.loads(linear.input_shapes if isinstance(linear.input_shapes, str) else json.dumps(linear.input_shapes))[0] == [4, 8]


def test_the_same_ops_as_torch_profiler(tmp_path):
    """Of the training loop, by name."""
    script = TRAIN.format(workers=0, end="")
    assert run(tmp_path, script).returncode == 0
    mine = names(tmp_path / "run.mtp")
    theirs = plain(tmp_path, script.replace("for x, y in loader:", """
import os
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]); prof.start()
for x, y in loader:""").replace("print(", "prof.stop()\nfor event in prof.events(): print(event.name)\nprint(")).stdout.splitlines()[:-1]
    counted = {name: theirs.count(name) for name in set(theirs) if "Backward" in name or "Optimizer" in name or "Loader" in name}
    assert counted and {name: mine.count(name) for name in counted} == counted


def test_steps_are_those_of_the_optimizer(tmp_path):
    assert run(tmp_path, TRAIN.format(workers=0, end="")).returncode == 0
    told = subprocess.run([MTPROF, "steps", "--json", "run.mtp"], cwd=tmp_path, capture_output=True, text=True)
    assert len(json.loads(told.stdout)["steps"]) in (6, 7)
    done = run(tmp_path, TRAIN.format(workers=0, end=""), "--steps", "2:4", "-o", "part.mtp")
    assert done.returncode == 0 and names(tmp_path / "part.mtp").count("Optimizer.step#Adam.step") in (2, 3)


def test_memory_and_stacks(tmp_path):
    assert run(tmp_path, TRAIN.format(workers=0, end=""), "--memory", "--stacks", "--shapes").returncode == 0
    trace = mtprof.Trace.open(str(tmp_path / "run.mtp"))
    assert trace.info()["memory_events"] > 100
    stacks = [event.stack for event in trace.events() if event.name == "aten::linear"]
    assert stacks and all("forward" in stack[0] for stack in stacks)


@pytest.mark.parametrize("options", [["--memory"], ["--malloc"], ["--memory", "--malloc"]])
def test_memory_is_counted_once(tmp_path, options):
    """With --malloc, PyTorch's blocks are among those of malloc; shared memory, which is mapped, is PyTorch's."""
    script = """
import torch
torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1).step()
tensor = torch.ones(1 << 20)
block = bytearray(3 << 20)
tensor.share_memory_()
del tensor, block
"""
    done = run(tmp_path, script, "--steps", "1:2", *options)  # without what the import allocates
    assert done.returncode == 0, done.stderr
    subprocess.run([MTPROF, "export", "run.mtp", "-o", "run.json"], cwd=tmp_path, check=True, capture_output=True)
    found = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    sizes = [round(event["args"]["Bytes"] / 2**20) for event in found if event["name"] == "[memory]"]
    large = {size: sizes.count(size) for size in sizes if abs(size) > 2}
    assert large == {4: 2, -4: 2, **({3: 1, -3: 1} if "--malloc" in options else {})}


def test_json_for_perfetto(tmp_path):
    assert run(tmp_path, TRAIN.format(workers=2, end=""), "-o", "run.json.gz").returncode == 0
    with gzip.open(tmp_path / "run.json.gz") as file:
        found = json.load(file)["traceEvents"]
    assert len({event["pid"] for event in found if event.get("cat") == "cpu_op"}) == 3
    assert subprocess.run([MTPROF, "check", "run.json.gz"], cwd=tmp_path, capture_output=True).returncode == 0
    assert not (tmp_path / "run.json.gz.workers").exists()


@pytest.mark.parametrize("end, code", [("sys.exit(7)", 7), ("raise ValueError('as it is')", 1)])
def test_a_program_that_fails(tmp_path, end, code):
    done = run(tmp_path, TRAIN.format(workers=0, end=end))
    assert done.returncode == code and ("as it is" in done.stderr or code == 7)
    assert "aten::linear" in names(tmp_path / "run.mtp")


def test_that_ops_are_missing_is_said_if_python_ignores_its_environment(tmp_path):
    (tmp_path / "ops.py").write_text("import torch\ntorch.ones(4).erfinv()\n")
    for options, words in (([], "its Python functions and PyTorch's ops are not recorded"), (["--no-python"], "PyTorch's ops are not recorded"),
                           (["--no-python", "--no-torch"], None)):
        done = subprocess.run([MTPROF, "run", *options, sys.executable, "-I", "ops.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 and (words in done.stderr if words else "are not recorded" not in done.stderr), done.stderr
    done = run(tmp_path, "import torch\ntorch.ones(4).erfinv()\n", "--no-python")
    assert "aten::erfinv" in names(tmp_path / "run.mtp") and "not recorded" not in done.stderr, done.stderr


def test_a_program_that_is_killed(tmp_path):
    done = run(tmp_path, TRAIN.format(workers=0, end="import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert done.returncode == -signal.SIGKILL
    assert names(tmp_path / "run.mtp").count("Optimizer.step#Adam.step") == 6


def test_a_program_that_forks(tmp_path):
    end = "import os\npid = os.fork()\ntorch.ones(3).erfinv()\n(os._exit(0) if pid == 0 else os.waitpid(pid, 0))"
    assert run(tmp_path, TRAIN.format(workers=0, end=end)).returncode == 0
    assert names(tmp_path / "run.mtp").count("aten::erfinv") == 2
    assert names(tmp_path / "run.mtp", alone=True).count("aten::erfinv") == 1


def test_a_program_that_uses_torch_profiler(tmp_path):
    script = """
import os, torch
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
    torch.ones(4).erfinv()
print({row.key: row.count for row in prof.key_averages()}["aten::erfinv"])
"""
    done = run(tmp_path, script, "--memory")
    assert done.returncode == 0 and done.stdout == "1\n", done.stderr
    assert "aten::erfinv" in names(tmp_path / "run.mtp")


def test_steps_are_there_once_if_the_program_has_those_of_torch_profiler(tmp_path):
    script = """
import torch
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])
with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)) as prof:
    for step in range(6):
        torch.ones(4).erfinv()
        optimizer.step()
        prof.step()
print(sum(event.name.startswith("ProfilerStep#") for event in prof.events()))
"""
    done = run(tmp_path, script)
    assert done.returncode == 0 and done.stdout == plain(tmp_path, script).stdout, done.stderr
    told = subprocess.run([MTPROF, "steps", "--json", "run.mtp"], cwd=tmp_path, capture_output=True, text=True)
    # The program's first one ends with the first step of the optimizer; a program without one has all of them.
    assert [step["step"] for step in json.loads(told.stdout)["steps"]] == list(range(7)), told.stdout
    assert run(tmp_path, script.replace("optimizer.step()", "pass"), "-o", "infer.mtp").returncode == 0
    assert len([name for name in names(tmp_path / "infer.mtp") if name.startswith("ProfilerStep#")]) == 7


def test_a_program_that_uses_mtprof_itself(tmp_path):
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / 'src')!r})
import torch, mtprof.pytorch as profiler
torch.ones(4).erfinv()
with profiler.profile() as prof:
    torch.ones(4).lgamma()
print([event.name for event in prof.events() if event.name in ("aten::lgamma", "aten::erfinv")])
torch.ones(4).digamma()
"""
    done = run(tmp_path, script)
    assert done.returncode == 0 and done.stdout == "['aten::lgamma']\n", done.stderr
    assert {"aten::erfinv", "aten::digamma"} <= set(names(tmp_path / "run.mtp"))


def test_on_demand(tmp_path):
    (tmp_path / "serve.py").write_text("""
import sys, time, torch
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])
print("ready", flush=True)
while not sys.stdin.closed:
    torch.ones(64).erfinv()
    optimizer.step()
    time.sleep(0.001)
""")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    environment.pop("PYTHONPATH", None)
    job = subprocess.Popen([MTPROF, "run", "--wait", "--", sys.executable, "serve.py"], cwd=tmp_path, env=environment, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert job.stdout.readline() == "ready\n"
        listed = subprocess.run([MTPROF, "ps"], env=environment, capture_output=True, text=True).stdout
        pid = re.search(r"^\s*(\d+)", listed, re.M)[1]
        assert "/mtprof_torch-" in pathlib.Path(f"/proc/{pid}/maps").read_text(), "who triggers would wait for the compiler"
        for kind in (["--shapes"], []):
            told = subprocess.run([MTPROF, "trigger", pid, "--seconds", "0.5", *kind, "-o", str(tmp_path / "part.mtp")], env=environment,
                                  capture_output=True, text=True, timeout=120)
            assert told.returncode == 0, told.stderr
            found = [event for event in events(tmp_path / "part.mtp") if event.name == "aten::erfinv"]
            assert len(found) > 10 and bool(found[0].input_shapes) == bool(kind)
            steps = [int(name.partition("#")[2]) for name in names(tmp_path / "part.mtp") if name.startswith("ProfilerStep#")]
            assert abs(len(steps) - len(found)) <= 2 and steps == list(range(steps[0], steps[0] + len(steps)))
        assert job.poll() is None
    finally:
        os.kill(int(pid), signal.SIGTERM)
        job.wait(30)
    time.sleep(0)
