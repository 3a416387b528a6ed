"""Profiles of programs that start workers, run for a long time, or are killed: worker processes, spools, memory limits."""
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import warnings

import mtprof
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function, schedule

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPU = [torch.profiler.ProfilerActivity.CPU]


class Squares:
    """A dataset whose items are scopes in the trace."""

    def __init__(self, length=8):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        with record_function(f"item {i}"):
            return torch.ones(4, device="cpu") * i


def begin_worker(id):
    with record_function(f"worker {id} begins"):
        torch.ones(2, device="cpu")


def items_of(prof, folder):
    """process -> its items, according to the worker files beside the trace."""
    prof.export_chrome_trace(str(folder / "trace.json"))
    found = {}
    for path in folder.glob("worker_*.json.gz"):
        events = json.loads(gzip.open(path, "rt").read())["traceEvents"]
        for event in events:
            if event["name"].startswith(("item ", "worker ")) and event.get("ph") == "X":
                found.setdefault(event["pid"], []).append(event["name"])
    return found


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_started_before_the_recording_are_recorded_while_it_lasts(tmp_path, method):
    loader = torch.utils.data.DataLoader(Squares(16), num_workers=2, prefetch_factor=1, multiprocessing_context=method)
    with profile(activities=CPU, schedule=schedule(wait=2, warmup=1, active=3, repeat=1)) as prof:
        for _ in loader:
            prof.step()
    found = items_of(prof, tmp_path)
    assert len(found) == 2 and os.getpid() not in found
    # Steps 3, 4 and 5 are recorded, and each requests the item after the next.
    assert sorted(name for names in found.values() for name in names) == ["item 5", "item 6", "item 7"]
    named = json.loads((tmp_path / "trace.json").read_text())["worker_traces"]
    assert sorted(named) == sorted(path.name for path in tmp_path.glob("worker_*.json.gz")) and len(named) == 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_started_during_a_recording_are_recorded_from_their_first_call(tmp_path, method):
    loader = torch.utils.data.DataLoader(Squares(6), num_workers=2, worker_init_fn=begin_worker, multiprocessing_context=method)
    with profile(activities=CPU) as prof:
        for _ in loader:
            pass
    found = items_of(prof, tmp_path)
    assert sorted(n for names in found.values() for n in names) == sorted(
        [f"item {i}" for i in range(6)] + ["worker 0 begins", "worker 1 begins"])


def test_persistent_workers_have_a_file_for_each_cycle(tmp_path):
    loader = torch.utils.data.DataLoader(Squares(4), num_workers=1, persistent_workers=True, multiprocessing_context="spawn")
    list(loader)  # not recorded
    counts = []
    for cycle in range(2):
        folder = tmp_path / str(cycle)
        folder.mkdir()
        with profile(activities=CPU) as prof:
            list(loader)
        (names,) = items_of(prof, folder).values()
        counts.append(sorted(names))
        list(loader)  # not recorded
    assert counts == [[f"item {i}" for i in range(4)]] * 2
    with profile(activities=CPU, acc_events=True, schedule=schedule(wait=0, warmup=1, active=1)) as prof:
        for _ in range(6):
            list(loader)
            prof.step()
    names = [n for names in items_of(prof, tmp_path).values() for n in names]
    assert names and len(names) % 4 == 0 and len(names) >= 8


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_loaders_work_with_every_way_to_start_workers(method):
    import multiprocessing

    context = multiprocessing.get_context(method)
    for given in (method, context):
        loader = torch.utils.data.DataLoader(Squares(9), batch_size=2, num_workers=2, multiprocessing_context=given)
        assert [batch[:, 0].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    assert loader.multiprocessing_context is context
    with pytest.raises(ZeroDivisionError, match="worker process"):
        list(torch.utils.data.DataLoader(Broken(), num_workers=1, multiprocessing_context=method))


class Broken(Squares):
    def __getitem__(self, i):
        return 1 // (i - 3)


# ------------------------------------------------------------------------------------------- spool, budget

KILLED = """
import os, signal, sys
import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function
with profile(activities=["CPU"], record_shapes=True{more}) as prof:
    for i in range(1000):
        with record_function("before the end"):
            torch.ones(3, 4) + i
    if {fork} and os.fork() == 0:
        with record_function("in a worker"):
            os._exit(0)
    elif {fork}:
        os.wait()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(more="", fork=False, **env):
    ran = subprocess.run([sys.executable, "-c", KILLED.format(more=more, fork=fork)], env={**os.environ, **env}, capture_output=True,
                         text=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr


def count_of(spool, name):
    return sum(row["count"] for row in mtprof.Trace.open(spool).averages() if row["key"] == name)


def test_kill_9_keeps_what_was_recorded(tmp_path):
    spool = tmp_path / "run.mtp"
    killed(f", spool={str(spool)!r}")
    assert count_of(spool, "before the end") == 1000 and count_of(spool, "aten::add") == 1000
    command = ROOT / "build" / "mtprof"
    if command.exists():
        table = subprocess.run([command, "table", spool], capture_output=True, text=True)
        assert table.returncode == 0 and "before the end" in table.stdout and "aten::add" in table.stdout


def test_the_environment_gives_a_spool_to_a_program_as_it_is(tmp_path):
    killed(MTPROF_SPOOL=str(tmp_path / "of.%p.mtp"), MTPROF_BUFFER_BYTES="4M")
    (spool,) = tmp_path.glob("of.*.mtp")
    assert spool.name.split(".")[1].isdigit() and count_of(spool, "before the end") == 1000
    killed(more=f", spool={str(tmp_path / 'argument.mtp')!r}", MTPROF_SPOOL=str(tmp_path / "variable.mtp"))
    assert (tmp_path / "argument.mtp").exists() and not (tmp_path / "variable.mtp").exists()


def many(count):
    for i in range(count):
        with record_function("early" if i < count // 2 else "late"):
            pass


def rows_of(prof):
    return {row.key: row.count for row in prof.key_averages()}


def test_a_budget_keeps_the_newest(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # dropping the oldest was requested
        with profile(activities=CPU, buffer_bytes="2M", when_full="newest") as prof:
            many(400_000)
    rows = rows_of(prof)
    assert "early" not in rows and 10_000 < rows["late"] < 200_000
    assert prof.profiler._session.ledger["bytes"] <= 2 << 20
    prof.export_chrome_trace(str(tmp_path / "newest.json"))


def test_a_budget_stops_when_it_is_full():
    with pytest.warns(UserWarning, match="profiler: "):
        with profile(activities=CPU, buffer_bytes=2 << 20) as prof:
            many(400_000)
    rows = rows_of(prof)
    assert "late" not in rows and 10_000 < rows["early"] < 200_000


def test_a_spool_streams_beyond_the_budget_and_stays(tmp_path):
    spool = tmp_path / "stream.mtp"
    with profile(activities=CPU, buffer_bytes="2MiB", spool=spool) as prof:
        many(400_000)
    assert rows_of(prof) == {"early": 200_000, "late": 200_000}
    del prof
    assert count_of(spool, "late") == 200_000


def test_each_cycle_has_a_file_if_it_is_named_so(tmp_path):
    kept = []
    with profile(activities=CPU, spool=tmp_path / "cycle-%c.mtp", schedule=schedule(wait=0, warmup=1, active=1, repeat=2),
                 on_trace_ready=lambda p: kept.append((p.events(), p.key_averages()))) as prof:
        for i in range(4):
            with record_function(f"step {i}"):
                pass
            prof.step()
    files = sorted(tmp_path.glob("cycle-*.mtp"))
    assert len(files) == 2 and [count_of(f, f"step {i}") for f, i in zip(files, (1, 3))] == [1, 1]
    # The traces are read only now, from files that were continued.
    assert [sum(e.name == f"step {i}" for e in events) for (events, _), i in zip(kept, (1, 3))] == [1, 1]


def test_one_name_for_all_cycles_holds_the_last_and_harms_none_before(tmp_path):
    kept, spool = [], tmp_path / "last.mtp"
    with profile(activities=CPU, spool=spool, schedule=schedule(wait=0, warmup=1, active=1, repeat=2),
                 on_trace_ready=lambda p: kept.append(p.events())) as prof:
        for i in range(4):
            with record_function(f"step {i}"):
                many(1000)
            prof.step()
    assert count_of(spool, "step 3") == 1 and count_of(spool, "step 1") == 0
    assert [sum(e.name == f"step {i}" for e in events) for events, i in zip(kept, (1, 3))] == [1, 1]


def test_workers_spools_lie_beside_the_programs(tmp_path):
    spool = tmp_path / "run.mtp"
    with profile(activities=CPU, spool=spool) as prof:
        list(torch.utils.data.DataLoader(Squares(4), num_workers=1))
    del prof
    (worker,) = (tmp_path / "run.mtp.workers").glob("*.mtp")
    assert count_of(worker, "item 3") == 1
    with profile(activities=CPU, spool=spool) as prof:
        pass
    assert not worker.exists()  # of an earlier run
    assert prof.profiler._worker_files() == {}


@pytest.mark.parametrize("options, error, text", [
    ({"buffer_bytes": "much"}, ValueError, "buffer_bytes must be a number of bytes"),
    ({"buffer_bytes": 0}, ValueError, "buffer_bytes must be above 0"),
    ({"buffer_bytes": 1 << 64}, ValueError, "buffer_bytes=18446744073709551616 "),
    ({"buffer_bytes": "17179869184G"}, ValueError, "buffer_bytes=18446744073709551616 "),
    ({"buffer_bytes": "1K"}, ValueError, "buffer_bytes=1024 must be at least"),
    ({"buffer_bytes": 1.5}, TypeError, "buffer_bytes must be a number of bytes"),
    ({"when_full": "explode"}, ValueError, "when_full must be 'stop', 'newest' or 'stream'"),
    ({"when_full": "stream"}, ValueError, "needs a file to stream to"),
    ({"spool": 3}, TypeError, "str, bytes or os.PathLike"),
    ({"spool": ""}, ValueError, "not an empty string"),
])
def test_wrong_budgets_are_refused_at_once(options, error, text):
    with pytest.raises(error, match=text):
        profile(**options)
    with pytest.raises(error, match=text):
        torch.autograd.profiler.profile(**options)


def test_wrong_variables_are_named(monkeypatch, tmp_path):
    for variable, value in (("MTPROF_BUFFER_BYTES", "much"), ("MTPROF_BUFFER_BYTES", "1K"), ("MTPROF_WHEN_FULL", "explode")):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            with pytest.raises(ValueError, match=variable):
                profile()
            patch.setenv(variable, "")
            profile()
    with pytest.raises(OSError, match="no/such"):
        with profile(spool=tmp_path / "no/such/folder.mtp"):
            pass


@pytest.mark.parametrize("when_full, lost", [(mtprof.KEEP_NEWEST, "early"), (mtprof.STOP_WHEN_FULL, "late"), (mtprof.STREAM, None)])
def test_a_session_by_hand_has_budgets_and_a_ledger(tmp_path, when_full, lost):
    session = mtprof.Session(activities=mtprof.CPU, buffer_bytes=1 << 20, when_full=when_full, spool=str(tmp_path / "s.mtp"))
    session.prepare()
    session.start()
    many(100_000)
    session.stop()
    ledger = session.ledger
    assert ledger["emitted"] == ledger["kept"] + ledger["dropped"] and (ledger["dropped"] > 0) == (lost is not None)
    rows = {row["key"]: row["count"] for row in session.trace().averages()}
    assert rows == {row["key"]: row["count"] for row in mtprof.Trace.open(tmp_path / "s.mtp").averages()}
    assert set(rows) == {"early", "late"} - {lost}


def test_the_autograd_profiler_has_them_too(tmp_path):
    with torch.autograd.profiler.profile(spool=tmp_path / "a.mtp", buffer_bytes=1 << 20, when_full="newest") as prof:
        many(200_000)
    assert "early" not in {row.key for row in prof.key_averages()}
    assert count_of(tmp_path / "a.mtp", "late") > 1000


# --------------------------------------------------------------------------------------- files that were there


def test_a_restart_keeps_the_recording_of_the_crash(tmp_path):
    spool = tmp_path / "run.mtp"
    killed(f", spool={str(spool)!r}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with profile(activities=CPU, spool=spool):
            with record_function("after"):
                pass
    assert count_of(spool, "after") == 1 and count_of(spool, "before the end") == 0
    assert count_of(tmp_path / "run.1.mtp", "before the end") == 1000
    assert any("run.1.mtp" in str(one.message) for one in said)


def test_a_restart_keeps_the_workers_of_the_crash(tmp_path):
    spool = tmp_path / "run.mtp"
    for n in (1, 2):
        killed(f", spool={str(spool)!r}", fork=True)
        (worker,) = os.listdir(tmp_path / "run.mtp.workers")
        (tmp_path / f"run.{n}.mtp.workers").mkdir()  # of a run whose spool was deleted
        with pytest.warns(UserWarning, match=f"run.{n}.mtp"), profile(activities=CPU, spool=spool) as prof:
            torch.ones(2)
        assert prof.profiler._worker_files() == {}
        assert count_of(tmp_path / f"run.{n}.mtp.workers" / worker, "in a worker") == 1


def test_patterns_in_a_spools_name(tmp_path):
    for number in (1, 2):
        with profile(activities=CPU, spool=tmp_path / "100%%-%n.mtp") as prof:
            pass
        assert prof.profiler._session.spool == str(tmp_path / f"100%-{number}.mtp")
    assert sorted(found.name for found in tmp_path.glob("*.mtp")) == ["100%-1.mtp", "100%-2.mtp"]
    with pytest.raises(ValueError, match="%q"):
        with profile(activities=CPU, spool=tmp_path / "%q.mtp"):
            pass


@pytest.mark.parametrize("name", ["m.html", "m.json", "m.txt", "m.raw.json.gz"])
def test_a_memory_timeline_is_whole_or_not_there_and_follows_no_strangers_link(name, tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "shared"
    victim.write_text("precious")
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / name).symlink_to(victim)
    with profile(activities=CPU, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        torch.ones(8).add(1)
    with pytest.raises(OSError, match="a link in a folder that others can write to"):
        prof.export_memory_timeline(str(folder / name), "cpu")
    assert victim.read_text() == "precious"
    prof.export_memory_timeline(str(tmp_path / name), "cpu")
    assert (tmp_path / name).stat().st_size > 0 and not list(tmp_path.glob(".mtprof-*"))


def test_files_and_folders_whose_names_are_not_unicode(tmp_path, monkeypatch):
    folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9 %p")
    os.mkdir(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", os.getcwd())
    with profile(spool="run.mtp") as p:
        torch.ones(2)
        pid = os.fork()
        if pid == 0:
            torch.ones(2)
            os._exit(0)
        os.waitpid(pid, 0)
    assert len(mtprof.Trace.open(os.path.abspath("run.mtp"), alone=True).events()) == len(p.events()) > 0
    assert len(mtprof.Trace.open(os.path.abspath("run.mtp")).events()) == 2 * len(p.events())  # the child's, too
    for path in ("relative.json", os.path.abspath("absolute.json"), os.path.join(folder, b"bytes.json.gz")):
        p.export_chrome_trace(path)
        assert mtprof.Trace.open(path).events()
    assert len([name for name in os.listdir(folder) if name.startswith(b"worker_")]) == 1
    with open("absolute.json", encoding="utf-8") as file:
        assert json.load(file)["traceName"].endswith("caf\\udce9 %p/absolute.json")
    with profile(on_trace_ready=torch.profiler.tensorboard_trace_handler(os.path.abspath("log"))):
        torch.ones(2)
    assert len(os.listdir("log")) == 1
    with pytest.raises(FileNotFoundError, match="caf.*none"):
        p.export_chrome_trace(os.path.abspath("none/x.json"))
    with pytest.raises(FileNotFoundError, match="caf.*none"):
        with profile(spool=os.path.abspath("none/x.mtp")):
            pass
    os.rename("run.mtp", "kept.mtp")
    session = mtprof.Session(spool=os.fsencode(os.getcwd().replace("%", "%%")) + b"/by_hand.mtp")
    session.prepare()
    assert session.spool == os.path.abspath("by_hand.mtp")
    for wrong in (3, "a\0b"):
        with pytest.raises((TypeError, ValueError)):
            mtprof.Session(spool=wrong)
