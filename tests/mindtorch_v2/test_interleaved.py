"""Scopes and functions that do not nest: interleaved tasks on a thread, generators, threads older than the profile, step() inside
a function. Each is a single event with its own times; overlapping events are shown on separate rows."""
import asyncio
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import threading

import pytest

import mtprof
from mindtorch_v2 import profiler
from mindtorch_v2.profiler import ProfilerActivity, profile, record_function

COMMAND = os.path.join(os.path.dirname(__file__), "..", "..", "build", "mtprof")
CPU = [ProfilerActivity.CPU]


def spans(prof, *names):
    """name -> (start, end) in ns, for events that occur once."""
    found = {e.name: (e["start_ns"], e["end_ns"]) for e in prof.events() if not names or e.name in names}
    assert all(sum(e.name == n for e in prof.events()) == 1 for n in names or found)
    return found


def rows_of(prof, tmp_path):
    """The X events of the exported file, after `mtprof check` found nothing in it."""
    path = str(tmp_path / "trace.json")
    prof.export_chrome_trace(path)
    if os.path.exists(COMMAND):
        check = subprocess.run([COMMAND, "check", path], capture_output=True, text=True, check=False)
        assert check.returncode == 0, check.stdout
    with open(path, encoding="utf-8") as f:
        return [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]


class Turns:
    """Tasks of one loop that take turns in a given order: no clock is needed to make them overlap."""

    def __init__(self):
        self.done = {}

    def of(self, name):
        return self.done.setdefault(name, asyncio.Event())

    async def scope(self, name, until):
        with record_function(name):
            self.of(name + " began").set()
            await self.of(until).wait()
        self.of(name + " ended").set()


@pytest.mark.parametrize("with_stack", [False, True])
def test_tasks_that_take_turns_keep_their_times(tmp_path, with_stack):
    async def main():
        turns = Turns()
        with record_function("all"):
            brief = asyncio.create_task(turns.scope("brief", "lasting began"))
            lasting = asyncio.create_task(turns.scope("lasting", "brief ended"))
            await asyncio.gather(brief, lasting)

    with profile(activities=CPU, with_stack=with_stack) as prof:
        asyncio.run(main())
    s = spans(prof, "all", "brief", "lasting")
    assert s["all"][0] < s["brief"][0] < s["lasting"][0] < s["brief"][1] < s["lasting"][1] < s["all"][1]
    rows = {row.key: row for row in prof.key_averages()}
    for name in s:
        assert rows[name].count == 1
        assert rows[name].cpu_time_total == pytest.approx((s[name][1] - s[name][0]) / 1000)
    shown = {e["name"]: e for e in rows_of(prof, tmp_path) if e["name"] in s}
    assert shown["brief"]["tid"] != shown["lasting"]["tid"]
    for name, (start, end) in s.items():
        assert shown[name]["dur"] == pytest.approx((end - start) / 1000, abs=0.002)
    if with_stack:
        functions = {e["tid"] for e in rows_of(prof, tmp_path) if e["cat"] == "python_function"}
        assert len(functions) == 1  # what the thread runs stays on its own row


def test_any_order_of_ends(tmp_path):
    for order in itertools.permutations(range(4)):
        scopes = [record_function(f"scope {i}") for i in range(4)]
        with profile(activities=CPU) as prof:
            for scope in scopes:
                scope.__enter__()
            for i in order:
                scopes[i].__exit__(None, None, None)
        s = spans(prof)
        assert sorted(s, key=lambda n: s[n][0]) == [f"scope {i}" for i in range(4)]
        assert sorted(s, key=lambda n: s[n][1]) == [f"scope {i}" for i in order]
    rows_of(prof, tmp_path)


def test_generators_that_take_turns():
    def generator(name):
        with record_function(name):
            yield 1
            yield 2

    with profile(activities=CPU) as prof:
        a, b = generator("a"), generator("b")
        next(a), next(b), next(a), next(b)
        with record_function("between"):
            pass
        assert list(a) == [] and list(b) == []
    s = spans(prof)
    assert s["a"][0] < s["b"][0] < s["between"][0] < s["between"][1] < s["a"][1] < s["b"][1]


def test_one_object_in_many_tasks_and_threads():
    scope, names = record_function("shared"), ["a", "b", "c"]

    async def task(turns, name, until):
        with scope, record_function(name):
            turns.of(name + " began").set()
            await turns.of(until).wait()
        turns.of(name + " ended").set()

    async def main():
        turns = Turns()
        await asyncio.gather(task(turns, "a", "c began"), task(turns, "b", "c ended"), task(turns, "c", "a ended"))

    with profile(activities=CPU) as prof:
        asyncio.run(main())
    shared = sorted((e["start_ns"], e["end_ns"]) for e in prof.events() if e.name == "shared")
    s = spans(prof, *names)
    for (start, end), name in zip(shared, names):  # each holds its own task's scope, closely
        assert start <= s[name][0] and s[name][1] <= end
        assert not any(s[name][1] < s[other][1] <= end for other in names)

    entered, left = threading.Event(), threading.Event()

    def second():
        with scope:
            entered.set()
            left.wait()

    with profile(activities=CPU) as prof:
        thread = threading.Thread(target=second, daemon=True)
        with scope:
            thread.start()
            entered.wait()
        left.set()
        thread.join()
    assert len([e for e in prof.events() if e.name == "shared"]) == 2
    assert prof.profiler.trace.info()["unfinished"] == 0


def test_cancelled_and_failing_tasks():
    async def main():
        turns = Turns()

        async def fails():
            with record_function("fails"):
                await turns.of("waits began").wait()
                raise ValueError("mine")

        waits, failing = asyncio.create_task(turns.scope("waits", "never")), asyncio.create_task(fails())
        with pytest.raises(ValueError, match="mine"):
            await failing
        with record_function("after"):
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits

    with profile(activities=CPU) as prof:
        asyncio.run(main())
    s = spans(prof, "waits", "fails", "after")
    assert s["waits"][0] < s["fails"][0] < s["fails"][1] < s["after"][0] < s["waits"][1] < s["after"][1]


def test_a_decorated_coroutine_is_one_event_with_all_that_it_waits_for():
    @record_function("call")
    async def call(turns, name):
        with record_function(name):
            turns.of(name).set()
            await turns.of("go").wait()
        return name

    async def main():
        turns = Turns()
        calls = [asyncio.create_task(call(turns, f"body {i}")) for i in range(3)]
        await asyncio.gather(*(turns.of(f"body {i}").wait() for i in range(3)))
        with record_function("meanwhile"):
            turns.of("go").set()
        return await asyncio.gather(*calls)

    with profile(activities=CPU) as prof:
        assert asyncio.run(main()) == ["body 0", "body 1", "body 2"]
    assert {row.key: row.count for row in prof.key_averages()}["call"] == 3
    meanwhile = spans(prof, "meanwhile")["meanwhile"]
    for e in prof.events():
        if e.name == "call":
            assert e["start_ns"] < meanwhile[0] and meanwhile[1] < e["end_ns"]


def test_dispatched_ops_end_in_any_order():
    session = mtprof.Session(activities=mtprof.CPU)
    session.prepare()
    session.start()
    a, b = (mtprof.dispatch_op_enter(f"other::{n}", None, (), {}) for n in "ab")
    mtprof.dispatch_op_exit(a)
    mtprof.dispatch_op_exit(b)
    session.stop()
    events = session.trace().events()
    found = {events[i].name: events[i] for i in range(len(events))}
    assert found["other::a"].end_ns < found["other::b"].end_ns


def test_random_tasks_against_a_model(tmp_path):
    chance = random.Random(7)
    marks = {}

    async def task(name, depth):
        with record_function(name):
            marks[name] = [mtprof.now_ns(), 0]
            for k in range(chance.randrange(4)):
                await asyncio.sleep(0)
                if depth < 3 and chance.random() < 0.4:
                    await task(f"{name}.{k}", depth + 1)
            marks[name][1] = mtprof.now_ns()

    async def main():
        await asyncio.gather(*(task(f"t{i}", 0) for i in range(40)))

    with profile(activities=CPU) as prof:
        asyncio.run(main())
    order = sorted(marks, key=lambda n: marks[n][0])
    found = spans(prof)
    assert set(found) == set(marks) and sorted(found, key=lambda n: found[n][0]) == order
    assert sorted(found, key=lambda n: found[n][1]) == sorted(marks, key=lambda n: marks[n][1])
    rows_of(prof, tmp_path)


# ------------------------------------------------------------------------------------------ Python's frames


def functions(prof):
    """name of the function -> its events."""
    found = {}
    for e in prof.events():
        if "): " in e.name:
            found.setdefault(e.name.split("): ")[1], []).append(e)
    return found


def test_threads_older_than_the_profile_have_frames(tmp_path):
    asked, answered = threading.Semaphore(0), threading.Semaphore(0)
    over = threading.Event()

    def inner():
        with record_function("in the worker"):
            pass

    def worker():
        while not over.is_set():
            asked.acquire()
            inner()
            answered.release()

    thread = threading.Thread(target=worker, daemon=True)
    thread.start()
    for _ in range(2):  # and again in a second profile
        with profile(activities=CPU, with_stack=True) as prof:
            for _ in range(3):
                asked.release()
                answered.acquire()
        found = functions(prof)
        (tid,) = {e.thread for e in found["inner"]}
        assert len(found["inner"]) == 3 and tid != threading.get_native_id()
        assert [e.thread for e in found["worker"]] == [tid]  # it was running already: once, around them
        assert all(found["worker"][0].time_range.start <= e.time_range.start for e in found["inner"])
        scopes = [e for e in prof.events() if e.name == "in the worker"]
        assert len(scopes) == 3 and all("inner" in e.stack[0] and any("worker" in f for f in e.stack) for e in scopes)
        rows_of(prof, tmp_path)
    over.set()
    asked.release()
    thread.join()


def test_another_profiler_on_an_older_thread_is_left_alone():
    events, go, over = [], threading.Event(), threading.Event()

    def worker():
        sys.setprofile(lambda frame, event, arg: events.append(event))
        try:
            go.set()
            over.wait()
            (lambda: None)()
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=worker, daemon=True)
    thread.start()
    go.wait()
    before = len(events)
    with profile(activities=CPU, with_stack=True):
        pass
    over.set()
    thread.join()
    assert len(events) > before


def test_step_inside_a_function_does_not_split_its_call(tmp_path):
    def inner():
        pass

    def train(prof):
        for _ in range(3):
            inner()
            prof.step()

    def outer(prof):
        train(prof)

    kept = []
    schedule = profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
    with profile(activities=CPU, with_stack=True, schedule=schedule, on_trace_ready=kept.append) as prof:
        prof.step()
        outer(prof)
    found = functions(prof)
    assert len(found["outer"]) == len(found["train"]) == 1 and len(found["inner"]) == 3
    shown = rows_of(prof, tmp_path)
    assert sum(e["name"].endswith(": train") for e in shown) == 1
    assert len({e["tid"] for e in shown if e["cat"] == "python_function"}) == 1
    assert [e["name"] for e in sorted(shown, key=lambda e: e["ts"]) if e["name"].startswith("ProfilerStep#")]


def test_a_function_that_lasts_over_cycles_is_one_call_in_each():
    traces = []

    def train(prof):
        for _ in range(6):
            prof.step()

    def ready(prof):
        traces.append(len(functions(prof)["train"]))

    with profile(activities=CPU, with_stack=True, schedule=profiler.schedule(wait=0, warmup=1, active=2),
                 on_trace_ready=ready) as prof:
        train(prof)
    assert traces == [1, 1]


def test_functions_last_as_long_as_they_ran():
    """A scope that one function begins and another ends truncates neither."""

    def opens(scope):
        scope.__enter__()
        with record_function("in opens"):
            pass

    def closes(scope):
        with record_function("in closes"):
            pass
        scope.__exit__(None, None, None)
        with record_function("still in closes"):
            pass

    with profile(activities=CPU, with_stack=True) as prof:
        scope = record_function("held")
        opens(scope)
        closes(scope)
    s = spans(prof, "held", "in opens", "in closes", "still in closes")
    (first,), (last,) = functions(prof)["opens"], functions(prof)["closes"]
    assert first["start_ns"] < s["held"][0] and s["in opens"][1] <= first["end_ns"] < last["start_ns"]
    assert last["start_ns"] < s["in closes"][0] and s["held"][1] <= s["still in closes"][0] < last["end_ns"]


def test_frame_names_are_relative_to_where_modules_come_from(tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "part.py").write_text(
        "from mindtorch_v2.profiler import record_function\n\n\ndef work():\n    with record_function('work'):\n        pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from package.part import work

    with profile(activities=CPU, with_stack=True) as prof:
        work()
        json.dumps([1], indent=1)
        exec(compile("def odd():\n    pass\nodd()", "/nowhere/odd.py", "exec"), {})
    names = {e.name for e in prof.events()}
    assert os.path.join("package", "part.py") + "(4): work" in names
    assert any(name.startswith("json/encoder.py(") for name in names)
    assert "/nowhere/odd.py(1): odd" in names
    (scope,) = [e for e in prof.events() if e.name == "work"]
    assert scope.stack[0] == os.path.join("package", "part.py") + ":5:work"


def test_generators_that_are_left_in_another_order_than_they_were_entered():
    def steps(name):
        with record_function(name):
            got = yield
            with record_function(name + " " + got):
                yield

    with profile(activities=CPU, with_stack=True) as prof:
        running = [steps(n) for n in "abc"]
        for g in running:
            next(g)
        for g, got in zip(reversed(running), ("x", "y", "z")):
            g.send(got)
        for g in running:
            with contextlib.suppress(StopIteration):
                next(g)
    s = spans(prof, "a", "b", "c", "c x", "b y", "a z")
    assert s["a"][0] < s["b"][0] < s["c"][0] < s["c x"][0] < s["b y"][0] < s["a z"][0]
    assert s["a z"][1] <= s["a"][1] < s["b y"][1] <= s["b"][1] < s["c x"][1] <= s["c"][1]
    assert len(functions(prof)["steps"]) == 9
