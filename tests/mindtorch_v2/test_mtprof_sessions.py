"""The extension mtprof by itself: sessions, traces, spools, memory, errors."""
import gc
import gzip
import json
import subprocess
import sys

import pytest

import mtprof
from process_memory import resident
from recording import Recording, Tensor, op


# ------------------------------------------------------------------------------------------------ sessions


def test_a_session_goes_through_its_states():
    session = mtprof.Session(activities=mtprof.CPU)
    assert session.trace_id is None and not session.recording
    for early in (session.start, session.stop, session.trace):
        with pytest.raises(RuntimeError):
            early()
    session.prepare()
    assert len(session.trace_id) == 32
    session.start()
    assert session.recording
    op()
    assert session.trace().info()["spans"] == 1  # while it records
    session.stop()
    assert not session.recording and session.ledger["emitted"] == session.ledger["kept"] > 0


def test_one_session_at_a_time():
    with Recording():
        with pytest.raises(RuntimeError, match="another profiler session is already active"):
            mtprof.Session().prepare()


def test_a_session_that_is_dropped_gives_way():
    session = mtprof.Session()
    session.prepare()
    session.start()
    del session
    assert not mtprof.is_profiler_enabled()
    with Recording():
        pass


def test_activities():
    assert mtprof.activity_parse("cuda") == mtprof.activity_parse("GPU") == mtprof.activity_parse("npu") == mtprof.NPU
    with pytest.raises(ValueError):
        mtprof.activity_parse("tpu")
    with Recording() as r:
        op("one")
        r.session.toggle(False, mtprof.CPU)
        op("two")
        r.session.toggle(True, mtprof.CPU)
        op("three")
    assert r.names == ["one", "three"]


def test_a_full_buffer_counts_what_it_drops():
    heard = []
    with Recording(buffer_bytes=1 << 20, on_warning=lambda code, text: heard.append(text)) as r:
        for _ in range(200000):
            with mtprof.record_function("a"):
                pass
    ledger = r.session.ledger
    assert ledger["dropped"] > 0 and ledger["emitted"] == ledger["kept"] + ledger["dropped"]
    assert any("were not kept" in text for text in heard), heard


def test_a_spool_outlives_its_process(tmp_path):
    spool = tmp_path / "run.mtp"
    code = f"""
import mtprof, os, signal
s = mtprof.Session(activities=mtprof.CPU, spool={str(spool)!r})
s.prepare(); s.start()
for _ in range(100):
    with mtprof.record_function("survives"): pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    trace = mtprof.Trace.open(str(spool))
    assert trace.averages()[0]["key"] == "survives" and trace.averages()[0]["count"] == 100


def test_metadata(tmp_path):
    with Recording() as r:
        r.session.add_metadata("text", 'a "b"')
        r.session.add_metadata_json("json", "[1]")
        with pytest.raises(ValueError, match="not JSON"):
            r.session.add_metadata_json("json", "{")
        op()
    r.trace.chrome(str(tmp_path / "t.json.gz"), "name")
    read = json.loads(gzip.open(tmp_path / "t.json.gz", "rt").read())
    assert read["text"] == 'a "b"' and read["json"] == [1] and read["traceName"] == "name"


def test_traces_are_read_back(tmp_path):
    with Recording(record_shapes=True) as r:
        op("aten::add", None, (Tensor(2, 3),))
    r.trace.chrome(str(tmp_path / "t.json"), "t")
    again = mtprof.Trace.open(str(tmp_path / "t.json"))
    assert again.events()[0].name == "aten::add" and again.events()[0].input_shapes == [[2, 3]]
    with pytest.raises((OSError, ValueError)):
        mtprof.Trace.open(str(tmp_path / "none"))
    (tmp_path / "bad.json").write_text("{nonsense")
    with pytest.raises(ValueError):
        mtprof.Trace.open(str(tmp_path / "bad.json"))


def test_averages():
    with Recording() as r:
        for _ in range(3):
            op("aten::add")
    averages = r.trace.averages()
    assert len(averages) == 1 and averages[0]["count"] == 3 and averages.total()["count"] == 3
    assert averages[0]["min"] <= averages[0]["p50"] <= averages[0]["p99"] <= averages[0]["max"]
    with pytest.raises(IndexError):
        averages[1]
    with pytest.raises(AttributeError):
        averages.table(sort_by="nonsense")


def test_columns_outlive_everything_else():
    with Recording() as r:
        op("aten::add")
    start = memoryview(r.trace.columns()["spans"]["start"])
    trace = r.trace
    events = trace.events()
    event = events[0]
    del r, trace, events
    gc.collect()
    assert start.shape == (1,) and start.readonly and start.format == "q" and event.name == "aten::add"


# ------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("options", [{}, {"record_shapes": True, "profile_memory": True}, {"with_stack": True}], ids=str)
def test_many_cycles_keep_memory(options):
    def cycles(count):
        for _ in range(count):
            session = mtprof.Session(activities=mtprof.CPU, **options)
            session.prepare()
            session.start()
            with mtprof.record_function("a", "args"):
                op("aten::add", None, (Tensor(2),))
            session.stop()

    cycles(300)
    before = resident()
    cycles(1000)
    assert resident() - before <= 1 << 20


@pytest.mark.parametrize("body", [
    lambda: mtprof.record_function("a"), lambda: mtprof.record_function("a", "b").__enter__().__exit__(None, None, None),
    lambda: mtprof.record_function("a")(lambda: 1)(), lambda: op("aten::add", "npu:0", (Tensor(1), [Tensor(2)]), {"a": 1}),
    lambda: list(mtprof.record_function("g")(lambda: (yield 1))()),
], ids=["make", "enter", "decorate", "op", "generator"])
def test_no_reference_is_leaked(body):
    def blocks():
        for _ in range(200):
            body()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(2000):
            body()
        gc.collect()
        return sys.getallocatedblocks() - before

    assert blocks() < 200
    with Recording():
        assert blocks() < 200


def test_looking_at_events_leaks_nothing():
    with Recording(record_shapes=True, with_stack=True) as r:
        outer = mtprof.dispatch_op_enter("outer", None, (Tensor(2),), {})
        op("inner")
        mtprof.dispatch_op_exit(outer)

    def look():
        for event in (e for t in (r.trace,) for e in t.events()):
            for name in dir(event):
                if not name.startswith("__"):
                    getattr(event, name)
        r.trace.columns()
        len(r.trace.averages()), r.trace.averages()[0], r.trace.info()

    for _ in range(50):
        look()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(300):
        look()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100


# ------------------------------------------------------------------------------------------------- errors


def a_spool(path, scopes=3000):
    with Recording(spool=str(path), when_full=2, buffer_bytes=1 << 20):
        for _ in range(scopes):
            with mtprof.record_function("scope"):
                pass
    return path


def test_files_that_cannot_be_opened_raise_what_open_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json: No such file"):
        mtprof.Trace.open(tmp_path / "none.json")
    with pytest.raises(ValueError, match="this folder has no recordings"):
        mtprof.Trace.open(tmp_path)
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(ValueError, match=r"^/.*text\.json: byte 0: expected '\{'"):
        mtprof.Trace.open(tmp_path / "text.json")


def test_reading_takes_no_more_memory_than_it_may(tmp_path, monkeypatch):
    event = '{"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 1, "tid": 1}'
    with gzip.open(tmp_path / "bomb.json.gz", "wt") as file:
        file.write(f'[{",".join([event] * 200_000)}]')
    with pytest.raises(MemoryError, match=r"bomb.json.gz: over the memory limit of 4.0 MB.*max_memory"):
        mtprof.Trace.open(tmp_path / "bomb.json.gz", max_memory=4_000_000)
    assert mtprof.Trace.open(tmp_path / "bomb.json.gz", max_memory=10**9).info()["spans"] == 200_000
    monkeypatch.setenv("MTPROF_MAX_MEMORY", "4M")
    with pytest.raises(MemoryError):
        mtprof.Trace.open(tmp_path / "bomb.json.gz")
    with pytest.raises((OverflowError, TypeError)):
        mtprof.Trace.open(tmp_path / "bomb.json.gz", max_memory=-1)


def test_a_spool_that_was_cut_warns(tmp_path, recwarn):
    path = a_spool(tmp_path / "run.mtp")
    assert mtprof.Trace.open(path).info()["outcome"] == "stopped" and not recwarn.list
    whole = path.read_bytes()
    path.write_bytes(whole[:len(whole) // 2 // 65536 * 65536])
    with pytest.warns(RuntimeWarning, match=r"run\.mtp is truncated: \d+ chunks are missing"):
        trace = mtprof.Trace.open(path)
    assert trace.info()["missing_chunks"] > 0


def test_a_spool_says_whether_its_process_lives(tmp_path):
    path = tmp_path / "run.mtp"
    code = ("import mtprof, sys; s = mtprof.Session(activities=mtprof.CPU, spool=sys.argv[1]); s.prepare(); s.start();"
            "print('ready', flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert mtprof.Trace.open(path).info()["outcome"] == "live"
        child.kill()
    assert mtprof.Trace.open(path).info()["outcome"] == "recovered"


def test_output_that_fails_in_the_middle_says_why(tmp_path):
    trace = mtprof.Trace.open(a_spool(tmp_path / "run.mtp"))
    with pytest.raises(OSError, match="/dev/full: cannot be written: No space left on device"):
        trace.chrome("/dev/full", "x")


def test_a_session_that_cannot_write_its_spool_says_what_it_was_to_do(tmp_path):
    for spool, why in ((tmp_path / "no" / "run.mtp", "No such file"), (tmp_path, "Is a directory")):
        session = mtprof.Session(activities=mtprof.CPU, spool=str(spool))
        with pytest.raises(OSError, match=f"spool: .*{why}"):
            session.prepare()
            session.start()


@pytest.mark.parametrize("option, value", [("buffer_bytes", 1 << 64), ("buffer_bytes", (1 << 64) + (1 << 20)), ("buffer_bytes", -1),
                                           ("activities", 1 << 40), ("activities", -1)])
def test_numbers_that_do_not_fit_are_refused_as_they_were_given(option, value):
    with pytest.raises(ValueError, match=f"{option}={value} "):
        mtprof.Session(**{option: value})


@pytest.mark.parametrize("option", ["trace_id", "on_warning"])
def test_what_is_to_be_called_must_be_callable(option):
    with pytest.raises(TypeError, match=f"{option} must be a function, not int"):
        mtprof.Session(**{option: 3})


def test_what_a_trace_id_raises_is_raised_and_nothing_is_claimed():
    for made, error in ((lambda: 1 / 0, ZeroDivisionError), (lambda: 3, TypeError), (lambda: "x" * 128, ValueError)):
        with pytest.raises(error):
            mtprof.Session(trace_id=made).prepare()
    with Recording(trace_id=lambda: "mine") as r:
        pass
    assert r.session.trace_id == "mine"


def test_errors_and_warnings_name_nothing_of_c():
    heard = []
    with Recording(buffer_bytes=1 << 18, on_warning=lambda code, text: heard.append(text)):
        for _ in range(50000):
            with mtprof.record_function("a"):
                pass
    for wrong in ({"activities": 4}, {"when_full": 9}, {"when_full": mtprof.STREAM}):
        with pytest.raises(ValueError) as error:
            mtprof.Session(**wrong)
        heard.append(str(error.value))
    assert len(heard) == 4 and "mtp_" not in " ".join(heard).lower()
