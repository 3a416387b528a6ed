"""Worker processes, forks, and what stays in memory."""
import gc
import gzip
import json
import os
import subprocess
import sys
import weakref

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function
from process_memory import resident
from profiling import CPU, exported, named, work

pytestmark = pytest.mark.usefixtures("each_device", "fresh_warnings")


class Squares:
    def __len__(self):
        return 8

    def __getitem__(self, i):
        with record_function("in the worker"):
            return torch.ones(4, device="cpu") * i  # a forked child has no npu


def test_workers_of_a_data_loader_have_files_beside_the_trace(tmp_path):
    loader = torch.utils.data.DataLoader(Squares(), num_workers=2)
    with profile(activities=CPU, custom_trace_id_callback=lambda: "any/id") as prof:
        for _ in loader:
            pass
    trace = exported(prof, tmp_path)
    assert len(trace["worker_traces"]) == 2
    pids = set()
    for name in trace["worker_traces"]:
        worker = json.loads(gzip.open(tmp_path / name, "rt").read())
        scopes = named(worker, "in the worker")
        assert scopes and named(worker, "aten::mul")
        pids |= {e["pid"] for e in scopes}
    assert len(pids) == 2 and os.getpid() not in pids
    folder = prof.profiler._children_folder
    assert os.path.isdir(folder)
    del prof
    gc.collect()
    assert not os.path.exists(folder)


def test_a_forked_child_may_profile_by_itself_and_leaves_the_parents_block():
    code = """
import os, mindtorch_v2 as torch
from mindtorch_v2.profiler import profile
ready = []
with profile(activities=["CPU"], on_trace_ready=lambda p: ready.append(1)) as prof:
    pid = os.fork()
    if pid == 0:
        with profile(activities=["CPU"]) as mine:
            torch.ones(1)
        assert [e.name for e in mine.events()][0] == "aten::ones", mine.events()
    else:
        assert os.waitpid(pid, 0)[1] == 0
assert len(ready) == (pid != 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_starting_and_stopping_often_keeps_memory(x):
    def cycle(count):
        for _ in range(count):
            with profile(activities=CPU):
                pass

    cycle(200)
    before = resident()
    cycle(1000)
    assert resident() - before <= 1 << 20


def test_traces_are_freed(x):
    with profile(activities=CPU) as prof:
        work(x)
    events = prof.events()
    seen = weakref.ref(prof), weakref.ref(events[0])
    del prof, events
    gc.collect()
    assert [r() for r in seen] == [None, None]


def test_no_profile_shows_the_loading_of_the_matrix_library():
    code = """if True:
        import mindtorch_v2 as torch
        with torch.profiler.profile():
            with open("/proc/self/maps") as maps:
                before = {line.split()[-1] for line in maps}
            torch.ones(2, 2) @ torch.ones(2, 2)
            with open("/proc/self/maps") as maps:
                loaded = {line.split()[-1] for line in maps if ".so" in line} - before
        assert not loaded, loaded
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
