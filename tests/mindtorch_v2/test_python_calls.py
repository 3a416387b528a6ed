"""Python's calls as events, by sys.monitoring (Python 3.12 and later) and by the profile hook: both record the same, on all threads, and
the program's own profilers, tracers and tools work as without us."""
import asyncio
import cProfile
import contextlib
import io
import pstats
import subprocess
import sys
import threading

import pytest

from recording import Recording

MONITORS = hasattr(sys, "monitoring")
OURS = (4, 3)  # tool ids that we use, the first that is free
needs_monitoring = pytest.mark.skipif(not MONITORS, reason="this Python has no sys.monitoring")


@contextlib.contextmanager
def taken(*ids):
    for i in ids:
        sys.monitoring.use_tool_id(i, "of the program")
    try:
        yield
    finally:
        for i in ids:
            sys.monitoring.free_tool_id(i)


@pytest.fixture(params=["monitoring", "hook"])
def way(request):
    """Each test of calls runs with both; without sys.monitoring there is only the hook."""
    if request.param == "monitoring" and not MONITORS:
        pytest.skip("this Python has no sys.monitoring")
    with taken(*OURS) if request.param == "hook" and MONITORS else contextlib.nullcontext():
        yield request.param


def tree(recording, root):
    """The calls below the function `root`, as nested lists [name, child ...]."""
    events = recording.events
    below = {}
    for i, event in enumerate(events):
        if event.kind == "python":
            below.setdefault(event.parent, []).append(i)

    def grow(i):
        return [events[i].name.rpartition(": ")[2], *(grow(child) for child in below.get(i, ()))]

    (top,) = [i for i, e in enumerate(events) if e.kind == "python" and e.name.endswith(f": {root}")]
    return grow(top)


def recorded(function):
    with Recording(with_stack=True) as r:
        function()
    return tree(r, function.__name__)


# ---------------------------------------------------------------------------------------------------- calls


def test_functions_and_c_functions(way):
    def inner(x):
        return len(x)

    def outer():
        inner([1])
        sorted([3, 1], key=lambda x: x)
        "a b".split()
        str.join(",", ["a"])
        list((1,))  # classes are not functions
        inner(*[(1,)], **{})

    assert recorded(outer) == [
        "outer", ["inner", ["<built-in function len>"]],
        ["<built-in function sorted>", ["<lambda>"], ["<lambda>"]], ["<built-in method split of str>"],
        ["<built-in method join of str>"], ["inner", ["<built-in function len>"]]]


def test_exceptions_end_calls(way):
    def fails():
        raise KeyError

    def passes_on():
        fails()

    def fails_in_c():
        int("no number")
        len()

    def again():
        pass

    def outer():
        for function in (passes_on, fails_in_c, fails):
            with contextlib.suppress(Exception):
                function()
        with contextlib.suppress(TypeError):
            len(1, 2)
        with contextlib.suppress(TypeError):
            str.join()
        try:
            try:
                fails()
            finally:
                again()
        except KeyError:
            again()
        again()

    names = str(recorded(outer))
    calls = [c for c in recorded(outer)[1:] if not c[0].startswith(("__init__", "__enter__", "__exit__"))]
    assert calls == [["passes_on", ["fails"]], ["fails_in_c"], ["fails"], ["<built-in function len>"], ["fails"], ["again"], ["again"],
                     ["again"]], names


def test_generators_are_calls_of_their_pieces(way):
    def counts():
        yield 1
        yield 2

    def delegates():
        return (yield from counts())

    def outer():
        for _ in delegates():
            pass

    piece = ["delegates", ["counts"]]
    assert recorded(outer) == ["outer", piece, piece, piece]


def test_throwing_into_generators(way):
    def catches():
        try:
            yield 1
        except KeyError:
            yield 2

    def outer():
        g = catches()
        g.send(None)
        g.throw(KeyError)
        with contextlib.suppress(ValueError):
            g.throw(ValueError)
        g = catches()
        with contextlib.suppress(ValueError):
            g.throw(ValueError)  # before it has begun

    def pieces(calls):
        return sum((["catches"] if call[0] == "catches" else pieces(call[1:]) for call in calls), [])

    with Recording(with_stack=True) as r:
        outer()
    assert pieces([tree(r, "outer")]) == ["catches"] * 4
    assert r.trace.info()["unfinished"] == 0


def test_coroutines_and_their_generators(way):
    async def ticks():
        for i in range(2):
            await asyncio.sleep(0)
            yield i

    async def work():
        async for _ in ticks():
            pass
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 0.001)
        return 1

    with Recording(with_stack=True) as r:
        asyncio.run(work())
    assert r.trace.info()["unfinished"] == 0
    short = [e.name.rpartition(": ")[2] for e in r.events if e.kind == "python"]
    assert short.count("work") >= 4 and short.count("ticks") >= 4
    for event in r.events:
        if event.kind == "python" and event.name.endswith(": ticks"):
            assert r.events[event.parent].name.endswith(": work")


@needs_monitoring
def test_both_ways_record_the_same():
    def program():
        import json
        import textwrap
        json.loads(json.dumps({"a": [1, 2.5, None, "x"] * 3}))
        textwrap.wrap("several words in a line " * 5, 20)
        sorted({str(i): i for i in range(20)}.items(), key=lambda item: -item[1])
        try:
            json.loads("{")
        except ValueError:
            pass
        return next((i for i in range(9) if i > 5), None)

    program()
    monitored = recorded(program)
    with taken(*OURS):
        assert recorded(program) == monitored
    assert len(str(monitored)) > 1000


# -------------------------------------------------------------------------------------------------- threads


def test_a_c_call_that_outlives_a_recording_ends_none_of_the_next(way):
    lock, inside, over = threading.Lock(), threading.Event(), threading.Event()
    lock.acquire()

    def inner():
        pass

    def worker():
        inside.set()
        lock.acquire()  # from the first recording into the second
        inner()
        over.set()

    first = Recording(with_stack=True)
    with first:
        thread = threading.Thread(target=worker)
        thread.start()
        inside.wait()
        while sys._current_frames()[thread.ident].f_code.co_name != "worker":
            pass
    with Recording(with_stack=True) as second:
        lock.release()
        over.wait()
    thread.join()
    (call,) = [e for e in second.events if e.name.endswith(": inner")]
    assert second.events[call.parent].name.endswith(": worker")


def test_recordings_one_after_another(way):
    def called():
        return len("")

    for _ in range(20):
        assert recorded(called) == ["called", ["<built-in function len>"]]
        with Recording(with_modules=True) as r:
            called()
        assert r.events == []


@needs_monitoring
def test_threads_that_threading_does_not_know():
    import _thread
    done = threading.Event()

    def bare():
        done.set()

    with Recording(with_stack=True) as r:
        _thread.start_new_thread(bare, ())
        done.wait()
    assert any(name.endswith(": bare") for name in r.names)


# ------------------------------------------------------------------------------------ the program's own tools


@needs_monitoring
def test_the_tool_id_is_none_that_others_own_and_is_given_back():
    monitoring = sys.monitoring
    assert [monitoring.get_tool(i) for i in range(6)] == [None] * 6
    with Recording(with_stack=True):
        assert [monitoring.get_tool(i) for i in range(6)] == [None, None, None, None, "mtprof", None]
    assert [monitoring.get_tool(i) for i in range(6)] == [None] * 6
    with taken(4), Recording(with_stack=True):
        assert monitoring.get_tool(3) == "mtprof" and monitoring.get_tool(4) == "of the program"
    with taken(3, 4), Recording(with_stack=True) as r:
        len("")
    assert "<built-in function len>" in r.names  # by the hook


@needs_monitoring
def test_a_program_may_profile_and_trace_and_monitor_meanwhile():
    def called():
        return len("")

    profiled, traced, monitored, code = [], [], [], called.__code__
    monitoring, events = sys.monitoring, sys.monitoring.events

    def outer():
        profile = cProfile.Profile()
        profile.enable()
        called()
        profile.disable()
        text = io.StringIO()
        pstats.Stats(profile, stream=text).print_stats()
        profiled.append("(called)" in text.getvalue())
        sys.setprofile(lambda frame, event, arg: profiled.append(event))
        called()
        sys.setprofile(None)
        sys.settrace(lambda frame, event, arg: traced.append(frame.f_code is code))
        called()
        sys.settrace(None)
        with taken(monitoring.DEBUGGER_ID):
            monitoring.register_callback(monitoring.DEBUGGER_ID, events.PY_START, lambda c, offset: monitored.append(c is code))
            monitoring.set_events(monitoring.DEBUGGER_ID, events.PY_START)
            called()
            monitoring.set_events(monitoring.DEBUGGER_ID, 0)
            monitoring.register_callback(monitoring.DEBUGGER_ID, events.PY_START, None)
        called()

    with Recording(with_stack=True) as r:
        outer()
    assert sum(name.endswith(": called") for name in r.names) == 5
    assert profiled[0] and profiled.count("c_call") >= 1 and traced.count(True) == 1 and monitored.count(True) == 1


@needs_monitoring
def test_a_profiler_that_was_there_first_goes_on():
    events = []
    sys.setprofile(lambda frame, event, arg: events.append(event))
    try:
        with Recording(with_stack=True) as r:
            len("")
    finally:
        sys.setprofile(None)
    assert "<built-in function len>" in r.names and "c_call" in events


@needs_monitoring
def test_a_program_that_takes_our_callbacks_and_calls_them():
    monitoring = sys.monitoring
    with Recording(with_stack=True):
        for name in ("PY_START", "PY_RETURN", "CALL", "C_RETURN"):
            callback = monitoring.register_callback(4, getattr(monitoring.events, name), None)
            for args in ((), (1,), (1, 2, 3, 4), (len.__init__, 0, str.join, monitoring.MISSING)):
                assert callback(*args) is None
        monitoring.set_events(4, 0)
        monitoring.free_tool_id(4)
    with Recording(with_stack=True) as r:
        len("")
    assert "<built-in function len>" in r.names


def test_deep_recursion_is_the_program_s_own():
    code = """
import sys, mtprof
def deep(n): return deep(n + 1)
def depth():
    try: deep(0)
    except RecursionError as error: return str(error)
alone = depth()
s = mtprof.Session(with_stack=True); s.prepare(); s.start()
assert depth() == alone
s.stop()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
