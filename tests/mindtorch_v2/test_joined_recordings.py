"""A spool and those of the worker processes beside it are read as one trace."""

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys

import mtprof
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function


def _work(x):
    with record_function("worker's own"):
        torch.mm(x, x)


def _record(folder, workers=2, **options):
    spool = folder / "run.mtp"
    x = torch.randn(8, 8)
    with profile(spool=str(spool), **options) as prof:
        with record_function("main's own"):
            torch.mm(x, x)
        for _ in range(workers):
            worker = multiprocessing.get_context("fork").Process(target=_work, args=(x,))
            worker.start()
            worker.join()
            assert worker.exitcode == 0
    return spool, prof


def test_the_spool_is_read_with_its_workers_and_averages_are_over_all(tmp_path):
    spool, prof = _record(tmp_path)
    trace = mtprof.Trace.open(spool)
    recordings = trace.recordings()
    assert [r["problem"] for r in recordings] == [""] * 3
    assert [r["pid"] == os.getpid() for r in recordings] == [True, False, False]
    assert [r["parent"] == os.getpid() for r in recordings] == [False, True, True]
    counts = {row["key"]: row["count"] for row in trace.averages()}
    assert (counts["worker's own"], counts["main's own"], counts["aten::mm"]) == (2, 1, 3)
    # what the profile itself shows stays its own process's
    assert {e.key: e.count for e in prof.key_averages()}["aten::mm"] == 1


def test_one_of_the_processes_can_be_read(tmp_path):
    spool, _ = _record(tmp_path)
    worker = mtprof.Trace.open(spool).recordings()[2]
    for trace in (mtprof.Trace.open(spool, process=worker["pid"]), mtprof.Trace.open(worker["file"])):
        assert trace.info()["pid"] == worker["pid"] and trace.info()["spans"] == worker["spans"] > 0
        assert "main's own" not in {row["key"] for row in trace.averages()}
    assert "worker's own" not in {row["key"] for row in mtprof.Trace.open(spool, alone=True).averages()}
    with pytest.raises(Exception, match="no recording of process 1;"):
        mtprof.Trace.open(spool, process=1)


def test_a_recording_that_cannot_be_read_is_a_warning(tmp_path):
    spool, _ = _record(tmp_path)
    (tmp_path / "run.mtp.workers" / "bad.mtp").write_text("no spool")
    with pytest.warns(RuntimeWarning, match=r"bad\.mtp: not read: this is not an mtprof spool"):
        trace = mtprof.Trace.open(spool)
    assert len(trace.recordings()) == 4


def test_the_exported_trace_has_a_process_per_row_and_its_memory_can_be_told_apart(tmp_path):
    spool, prof = _record(tmp_path, profile_memory=True, record_shapes=True, with_stack=True)
    trace = mtprof.Trace.open(spool)
    trace.chrome(tmp_path / "all.json", "all")
    events = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    order = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    pids = [r["pid"] for r in trace.recordings()]
    assert set(pids) <= set(names) and [order[pid] for pid in pids] == [0, 1, 2]
    assert all(f"(child of {os.getpid()})" in names[pid] for pid in pids[1:])
    assert {e["pid"] for e in events if e["name"] == "aten::mm"} == set(pids)
    again = mtprof.Trace.open(tmp_path / "all.json")
    trace.memory_timeline(tmp_path / "a.json", "cpu")
    again.memory_timeline(tmp_path / "b.json", "cpu")
    (times, sizes), (times_again, sizes_again) = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert sizes == sizes_again and len(times) == len(times_again) > 3
    # a worker's own export is as before: beside the trace, one file each
    prof.export_chrome_trace(str(tmp_path / "prof.json"))
    assert len(list(tmp_path.glob("worker_*.pt.trace.json.gz"))) == 2
    assert {e["pid"] for e in json.loads((tmp_path / "prof.json").read_text())["traceEvents"] if e["name"] == "aten::mm"} == {os.getpid()}


def test_a_program_that_is_killed_leaves_all_its_processes(tmp_path):
    program = """
import os, signal, sys, time
import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function
prof = profile(spool="run.mtp")
prof.start()
x = torch.ones(4)
child = os.fork()
with record_function("child" if child == 0 else "parent"):
    x + x
open("ready", "a").write(".")
if child == 0:
    time.sleep(60)
while os.path.getsize("ready") < 2:
    time.sleep(0.01)
os.kill(child, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = os.pathsep.join(filter(None, [str(pathlib.Path(torch.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=60, env={**os.environ, "PYTHONPATH": path})
    trace = mtprof.Trace.open(tmp_path / "run.mtp")
    assert [r["outcome"] for r in trace.recordings()] == ["recovered", "recovered"]
    assert trace.info()["outcome"] == "recovered"
    assert {"child", "parent"} <= {row["key"] for row in trace.averages()}


def test_open_accepts_a_folder(tmp_path):
    _record(tmp_path)
    trace = mtprof.Trace.open(pathlib.Path(tmp_path))
    assert trace.recordings()[0]["pid"] == os.getpid() and len(trace.recordings()) == 3
