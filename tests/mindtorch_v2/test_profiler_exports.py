"""Files that a profile writes, and its columns."""
import json
import os
import re
import time

import numpy as np
import pytest

import mindtorch_v2 as torch
import mtprof
from mindtorch_v2.profiler import profile, record_function, tensorboard_trace_handler
from profiling import CPU, exported, work

pytestmark = pytest.mark.usefixtures("each_device", "fresh_warnings")


def test_gz_is_compressed(x, tmp_path):
    with profile(activities=CPU) as prof:
        work(x)
    exported(prof, tmp_path, "trace.json.gz")
    assert (tmp_path / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_export_takes_path_objects_and_says_what_is_wrong(x, tmp_path):
    with profile(activities=CPU) as prof:
        work(x)
    prof.export_chrome_trace(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceName"] == str(tmp_path / "t.json")
    with pytest.raises(OSError):
        prof.export_chrome_trace(str(tmp_path / "no" / "such" / "folder.json"))


@pytest.mark.parametrize("which", [lambda p: p, lambda p: p.events(), lambda p: p.key_averages()])
def test_export_stacks(which, tmp_path):
    def inner():
        with record_function("s"):
            time.sleep(0.001)

    with profile(activities=CPU, with_stack=True) as prof:
        inner()
    path = tmp_path / "stacks"
    which(prof).export_stacks(str(path), "self_cpu_time_total")
    lines = path.read_text().splitlines()
    assert lines
    for line in lines:
        frames, value = line.rsplit(" ", 1)
        assert int(value) >= 1
    mine = [line.rsplit(" ", 1)[0].split(";") for line in lines if line.rsplit(" ", 1)[0].endswith(":inner")]
    assert mine and len(mine[0]) >= 2 and mine[0][-2].endswith("test_export_stacks")  # root first
    with pytest.raises(ValueError, match="metric should be one of"):
        which(prof).export_stacks(str(path), "nonsense")


def test_export_stacks_needs_stacks(x, tmp_path):
    with profile(activities=CPU) as prof:
        work(x)
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        prof.export_stacks(str(tmp_path / "s"))
    assert prof.events().supported_export_stacks_metrics()[0] == "self_cpu_time_total"


def test_events_export_chrome_trace(x, tmp_path):
    with profile(activities=CPU) as prof:
        with record_function('with "quotes"'):
            work(x)
    prof.events().export_chrome_trace(str(tmp_path / "e.json"))
    events = json.loads((tmp_path / "e.json").read_text())
    assert [e["name"] for e in events] == [e.name for e in prof.events()]


@pytest.mark.parametrize("gz", [False, True])
def test_tensorboard_trace_handler_names_its_files(x, tmp_path, gz):
    folder = tmp_path / "new" / "folder"
    with profile(activities=CPU, on_trace_ready=tensorboard_trace_handler(str(folder), use_gzip=gz)):
        work(x)
    with profile(activities=CPU, on_trace_ready=tensorboard_trace_handler(str(folder), "me", gz)):
        work(x)
    names = sorted(os.listdir(folder), key=lambda n: n.startswith("me"))
    end = r"\.pt\.trace\.json" + (r"\.gz" if gz else "")
    assert re.fullmatch(rf".+_{os.getpid()}\.\d+{end}", names[0]) and re.fullmatch(rf"me\.\d+{end}", names[1])


def test_tensorboard_trace_handler_says_which_folder_it_cannot_make(x, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory: "):
        with profile(activities=CPU, on_trace_ready=tensorboard_trace_handler(str(tmp_path / "file" / "sub"))):
            work(x)


def test_columns_are_numpy_views(x):
    with profile(activities=CPU) as prof:
        work(x)
    spans = prof.trace.columns()["spans"]
    start, end = spans["start"], spans["end"]
    assert isinstance(start, np.ndarray) and len(start) == len(prof.events()) and (end >= start).all() and not start.flags.owndata
    with pytest.raises((ValueError, BufferError)):
        start[0] = 1
    assert "spans" in repr(prof.trace) and prof.trace.info()["spans"] == len(start)
    names = [prof.trace.text(i) for i in spans["name"]]
    assert sorted(names) == sorted(e.name for e in prof.events())


def test_a_profile_of_nothing_has_a_span_for_readers(tmp_path):
    with profile(activities=CPU) as prof:
        pass
    first, again = tmp_path / "trace.json", tmp_path / "again.json"
    for events in (exported(prof, tmp_path)["traceEvents"],
                   mtprof.Trace.open(str(first)).chrome(str(again), "t") or json.loads(again.read_text())["traceEvents"]):
        assert events[0]["ph"] == "X" and events[0]["name"] == "PyTorch Profiler (0)" and events[0]["dur"] >= 0
        assert [e["name"] for e in events if e["ph"] == "i"] == ["Iteration Start: PyTorch Profiler", "Record Window End"]
    assert len(prof.events()) == 0 and len(mtprof.Trace.open(str(again)).events()) == 0


def test_scopes_of_the_framework_stay_on_their_threads_row(x, tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profile(activities=CPU, with_stack=True) as prof:
        for batch in torch.utils.data.DataLoader([x[0], x[1]]):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    events = [e for e in exported(prof, tmp_path)["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    scopes = [e for e in events if e["name"].startswith(("Optimizer.", "enumerate(DataLoader)"))]
    assert len({e["name"] for e in scopes}) == 3
    assert len({e["tid"] for e in events if e["cat"] in ("user_annotation", "python_function", "cpu_op")}) == 1
    assert not any("_record.py" in e["name"] or "scope_begin" in e["name"] for e in events)
