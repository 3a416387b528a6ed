"""The extension mtprof by itself: record_function, the hooks for other frameworks' dispatchers, stacks, names."""
import asyncio
import gc
import inspect
import json
import os
import subprocess
import sys
import threading
import time
import types

import pytest

import mtprof
from recording import Recording, Tensor, op


# ------------------------------------------------------------------------------------------------- hooks


def test_it_is_imported_without_the_runtime():
    code = "import sys, mtprof; assert not any(m.startswith(('mindtorch', 'torch', 'numpy')) for m in sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_is_profiler_enabled():
    assert mtprof.is_profiler_enabled() is False
    with Recording():
        assert mtprof.is_profiler_enabled() is True
    assert mtprof.is_profiler_enabled() is False


def test_hooks_without_a_session_give_no_token():
    assert mtprof.dispatch_op_enter("aten::add", None, (), {}) is None
    assert mtprof.dispatch_op_exit(None) is None


def test_an_op_is_recorded_with_its_shapes():
    with Recording(record_shapes=True) as r:
        op("aten::add", Tensor(1).device, (Tensor(2, 3), Tensor(3)), {"alpha": 2})
        op("aten::cat", "cpu", ([Tensor(2), Tensor(4)],), {"dim": 0})
        op("aten::out", "cpu", (), {"out": Tensor(7, 8, 9)})
    assert r.names == ["aten::add", "aten::cat", "aten::out"]
    assert [e.input_shapes for e in r.events] == [[[2, 3], [3], []], [[[2], [4]], []], [[7, 8, 9]]]
    assert json.loads(r.events[0].input_types)[:2] == ["float", "float"]


def test_shapes_are_left_out_without_their_flag():
    with Recording() as r:
        op("aten::add", None, (Tensor(2, 3),))
    assert r.events[0].input_shapes is None


@pytest.mark.parametrize("device, meant", [
    (None, 0), ("cpu", 0), ("npu", 20), ("npu:1", 20), ("NPU", 20), (types.SimpleNamespace(type="cpu", index=None), 0),
    (types.SimpleNamespace(type="npu", index=3), 20), (object(), 0), (3, 0),
])
def test_devices_are_objects_strings_or_none(device, meant):
    with Recording() as r:
        op("aten::add", device)
    assert r.events[0].op_device_type == meant
    if getattr(device, "index", None) == 3:
        assert r.events[0].op_device_index == 3


class Raises:
    """Every attribute access fails."""

    def __getattr__(self, name):
        raise RuntimeError("do not look")


class Weird:
    shape, device, dtype = "not a shape", None, 3


class WrongDims:
    shape, device, dtype = (2, "x", None), None, None


@pytest.mark.parametrize("arguments", [
    (), ("a",), ("a", Raises()), ("a", None, (Raises(),), {}), ("a", None, [Weird(), WrongDims()], {}), ("a", None, 3, 4), ("a", None, None, None),
    ("a", None, (1, 2.5, True, None, "text", b"bytes", 1 << 200, [], [1], [Raises()]), {}), (3, None, (), {}), (None, None, (), {}),
    ("\ud800", None, (), {}), ("a", None, (Tensor(*range(1, 200)),), {}), ("a", None, tuple(Tensor(1) for _ in range(100)), {}),
    ("a", None, ([Tensor(1)] * 500,), {}), ("a", None, (), {"k": Raises()}), ("a", 7, iter([1]), {}),
], ids=range(16))
def test_hooks_never_raise(arguments):
    with Recording(record_shapes=True, with_stack=True, profile_memory=True):
        token = mtprof.dispatch_op_enter(*arguments)
        mtprof.dispatch_op_exit(token)
        for wrong in (None, "x", -1, 1 << 70, 1.5, object()):
            mtprof.dispatch_op_exit(wrong)
        assert sys.exc_info() == (None, None, None)


def test_exit_may_come_after_stop_and_after_another_start():
    with Recording() as first:
        token = mtprof.dispatch_op_enter("aten::late", None, (), {})
    mtprof.dispatch_op_exit(token)
    with Recording() as second:
        op("aten::other")
        mtprof.dispatch_op_exit(token)
    assert first.names == ["aten::late"] and second.names == ["aten::other"]


def test_hooks_keep_nothing_alive():
    tensor = Tensor(2, 3)
    before = sys.getrefcount(tensor)
    with Recording(record_shapes=True) as r:
        for _ in range(100):
            op("aten::add", tensor.device, (tensor, [tensor]), {"other": tensor})
        assert sys.getrefcount(tensor) == before
    assert len(r.events) == 100 and sys.getrefcount(tensor) == before


def test_ops_nest():
    with Recording() as r:
        outer = mtprof.dispatch_op_enter("aten::linear", None, (), {})
        op("aten::mm")
        op("aten::add")
        mtprof.dispatch_op_exit(outer)
    assert [(e.name, e.parent) for e in r.events] == [("aten::linear", -1), ("aten::mm", 0), ("aten::add", 0)]
    assert r.events[0].children == (1, 2)


# ---------------------------------------------------------------------------------------- record_function


def test_a_scope_is_recorded():
    with Recording() as r:
        with mtprof.record_function("scope", "its args") as entered:
            pass
    assert r.names == ["scope"] and r.events[0].kind == "scope" and r.events[0].is_user_annotation
    assert (entered.name, entered.args) == ("scope", "its args") and repr(entered) == "record_function('scope')"


@pytest.mark.parametrize("call", [
    lambda: mtprof.record_function(), lambda: mtprof.record_function(3), lambda: mtprof.record_function("a", 3),
    lambda: mtprof.record_function("a", "b", "c"), lambda: mtprof.record_function("a", nonsense=1), lambda: mtprof.record_function("a", name="b"),
    lambda: mtprof.record_function("a")(3), lambda: mtprof.record_function("a")(), lambda: mtprof.record_function("a")(len, x=1),
])
def test_wrong_arguments_are_type_errors(call):
    with pytest.raises(TypeError):
        call()


def test_keywords():
    made = mtprof.record_function(name="a", args="b")
    assert (made.name, made.args) == ("a", "b") and mtprof.record_function("a", None).args is None


def test_a_scope_may_be_used_again_and_within_itself():
    scope = mtprof.record_function("again")
    with Recording() as r:
        with scope:
            with scope:
                with scope, mtprof.record_function("inner"):
                    pass
        with scope:
            pass
    assert r.trace.info()["spans"] == 5 and r.names.count("inner") == 1


@pytest.mark.parametrize("depth", [1, 5, 100])
def test_scopes_end_whatever_is_raised(depth):
    def fall(n):
        with mtprof.record_function(f"level {n}"):
            if n == 0:
                raise KeyError("mine")
            fall(n - 1)

    with Recording() as r:
        with pytest.raises(KeyError, match="mine"):
            fall(depth)
        with mtprof.record_function("after"):
            pass
    assert r.trace.info()["unfinished"] == 0
    assert r.events[-1].name == "after" and r.events[-1].parent == -1


def test_a_scope_open_over_stop_and_start_closes_no_other():
    scope = mtprof.record_function("open")
    with Recording() as first:
        scope.__enter__()
    with Recording() as second:
        with mtprof.record_function("inside"):
            scope.__exit__(None, None, None)
    assert first.names == ["open"] and second.names == ["inside"]
    scope.__exit__(None, None, None)  # one exit more than entries


def test_scopes_entered_without_a_session_do_nothing():
    scope = mtprof.record_function("early")
    scope.__enter__()
    with Recording() as r:
        scope.__exit__(None, None, None)
    assert r.names == []


@pytest.mark.parametrize("name", ["a" * 5000, 'q"u\\o\nte', "\u00e9\u4e2d\U0001f600", "nul\0inside", "\ud800 lone"])
def test_names_are_kept_as_they_are(name, tmp_path):
    with Recording() as r:
        with mtprof.record_function(name):
            pass
    shown = name.encode("utf-8", "backslashreplace").decode()
    assert r.names == [shown]
    r.trace.chrome(str(tmp_path / "t.json"), "t")
    assert shown in [e["name"] for e in json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]]


def test_subclasses():
    class Mine(mtprof.record_function):
        pass

    with Recording() as r:
        with Mine("mine") as entered:
            assert isinstance(entered, Mine)
    assert r.names == ["mine"]


# ---------------------------------------------------------------------------------------------- decorators


def test_functions():
    @mtprof.record_function("f")
    def f(a, /, b, *rest, c=3, **more):
        """Doc of f."""
        return a, b, rest, c, more

    with Recording() as r:
        assert f(1, 2, 4, c=5, d=6) == (1, 2, (4,), 5, {"d": 6})
        with pytest.raises(TypeError):
            f()
    assert r.names == ["f", "f"] and (f.__name__, f.__doc__) == ("f", "Doc of f.") and f.__wrapped__ is not f
    assert str(inspect.signature(f)) == "(a, /, b, *rest, c=3, **more)"
    assert f(1, b=2)[1] == 2  # and without a session


def test_methods_of_all_kinds():
    class Thing:
        @mtprof.record_function("method")
        def method(self, x):
            return self, x

        @classmethod
        @mtprof.record_function("class")
        def of_class(cls):
            return cls

        @staticmethod
        @mtprof.record_function("static")
        def static(x):
            return x

        @property
        @mtprof.record_function("property")
        def attribute(self):
            return 7

    thing = Thing()
    with Recording() as r:
        assert thing.method(1) == (thing, 1) and Thing.method(thing, 2) == (thing, 2)
        assert Thing.of_class() is Thing and thing.static(3) == 3 and thing.attribute == 7
    assert r.names == ["method", "method", "class", "static", "property"]


def test_generators():
    @mtprof.record_function("gen")
    def generator():
        """Doc."""
        try:
            got = yield 1
        except KeyError:
            got = "caught"
        with mtprof.record_function("inner"):
            yield got
        return "end"

    def around():
        return (yield from generator())

    with Recording() as r:
        running = generator()
        assert next(running) == 1 and running.throw(KeyError()) == "caught"
        with pytest.raises(StopIteration) as end:
            next(running)
        assert end.value.value == "end"
        assert list(around()) == [1, None]
        left = generator()
        next(left)
        left.close()
    assert r.names.count("gen") == 7 and r.trace.info()["unfinished"] == 0
    assert generator.__doc__ == "Doc." and inspect.isgeneratorfunction(generator)


def test_coroutines_and_async_generators():
    @mtprof.record_function("co")
    async def coroutine(n):
        await asyncio.sleep(0.001)
        if n < 0:
            raise ValueError("mine")
        return n

    @mtprof.record_function("agen")
    async def generator():
        for i in range(3):
            await asyncio.sleep(0)
            yield i

    async def main():
        assert await asyncio.gather(*(coroutine(i) for i in range(4))) == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="mine"):
            await coroutine(-1)
        assert [i async for i in generator()] == [0, 1, 2]
        task = asyncio.create_task(coroutine(5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Recording() as r:
        asyncio.run(main())
    assert r.names.count("co") == 6 and r.names.count("agen") == 4  # of calls; of items, and the end
    assert r.trace.info()["unfinished"] == 0
    together = [e for e in r.events if e.name == "co"][:4]
    assert max(e.start_ns for e in together) < min(e.end_ns for e in together)
    assert inspect.iscoroutinefunction(coroutine) and inspect.isasyncgenfunction(generator)


def test_decorated_functions_are_freed():
    class Marker:
        pass

    marker = Marker()

    @mtprof.record_function("f")
    def f(held=marker):
        return held

    count = sys.getrefcount(marker)
    f.itself = f  # a cycle
    del f
    gc.collect()
    assert sys.getrefcount(marker) == count - 1


# -------------------------------------------------------------------------------------------------- threads


def test_all_threads_are_recorded():
    go = threading.Barrier(5)

    def body(i):
        go.wait()
        for _ in range(200):
            with mtprof.record_function(f"thread {i}"):
                op("aten::add")

    with Recording() as r:
        threads = [threading.Thread(target=body, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        go.wait()
        for thread in threads:
            thread.join()
    assert len(r.events) == 4 * 200 * 2 and len({e.thread for e in r.events}) == 4
    for event in r.events:
        if event.name == "aten::add":
            assert r.events[event.parent].thread == event.thread


def test_threads_that_record_while_it_starts_and_stops():
    stop = threading.Event()

    def body():
        while not stop.is_set():
            for _ in range(20):
                with mtprof.record_function("busy"):
                    op("aten::add", None, (Tensor(2),))
            time.sleep(0.0002)  # gives the main thread the interpreter lock

    threads = [threading.Thread(target=body) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            with Recording(record_shapes=True) as r:
                time.sleep(0.001)
            assert set(r.names) <= {"busy", "aten::add"}
            assert r.trace.info()["dropped"] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_stacks_of_other_threads():
    def in_the_thread():
        with mtprof.record_function("scope"):
            pass

    with Recording(with_stack=True) as r:
        thread = threading.Thread(target=in_the_thread)
        thread.start()
        thread.join()
    stack = next(e for e in r.events if e.name == "scope").stack
    assert stack[0].endswith(":in_the_thread") and any("threading.py" in frame for frame in stack)


# ------------------------------------------------------------------------------------------ stacks, frames


def test_stack_frames_are_file_line_function():
    with Recording(with_stack=True) as r:
        line = inspect.currentframe().f_lineno + 1
        with mtprof.record_function("scope"):
            pass
    stack = next(e for e in r.events if e.name == "scope").stack
    assert stack[0] == f"{os.path.basename(__file__)}:{line}:test_stack_frames_are_file_line_function"


def test_python_functions_are_events():
    def called():
        return len([1])

    with Recording(with_stack=True) as r:
        called()
    python = [e.name for e in r.events if e.kind == "python"]
    assert any(name.endswith(": called") for name in python) and "<built-in function len>" in python
    assert not any(" of mtprof." in name for name in python)


def test_a_profiler_of_python_code_that_was_there_first_stays():
    calls = []
    monitoring = getattr(sys, "monitoring", None)
    for tool in (3, 4) if monitoring else ():  # without these there is only the profile hook
        monitoring.use_tool_id(tool, "of the program")
    sys.setprofile(lambda *a: calls.append(a[1]))
    try:
        with pytest.warns(UserWarning, match="another profiler follows this thread's Python calls"):
            with Recording(with_stack=True):
                len([])
        assert sys.getprofile() is not None and calls
    finally:
        sys.setprofile(None)
        for tool in (3, 4) if monitoring else ():
            monitoring.free_tool_id(tool)


def test_what_the_program_gave_to_new_threads_stays():
    def of_the_program(*event):
        pass

    threading.setprofile(of_the_program)
    try:
        with Recording(with_stack=True):
            assert threading.getprofile() is of_the_program
        assert threading.getprofile() is of_the_program
        threading.setprofile(None)
        with Recording(with_stack=True):
            threading.setprofile(of_the_program)  # while it records
        assert threading.getprofile() is of_the_program
    finally:
        threading.setprofile(None)


def test_a_second_start_that_is_refused_disturbs_nothing():
    def called():
        pass

    with Recording(with_stack=True) as r:
        with pytest.raises(RuntimeError, match="already recording"):
            r.session.start()
        called()
    assert any(name.endswith(": called") for name in r.names)


def test_nothing_is_left_after_a_session_with_stacks():
    with Recording(with_stack=True, with_modules=True):
        pass
    assert sys.getprofile() is None and threading._profile_hook is None


# --------------------------------------------------------------------------------------------- names


def test_version_and_clock():
    assert mtprof.__version__ == mtprof.version() and mtprof.now_ns() <= mtprof.now_ns()
    assert mtprof.record_function.__doc__ and mtprof.dispatch_op_enter.__doc__


def test_the_stub_names_the_extensions_contents():
    import ast

    with open(os.path.join(os.path.dirname(mtprof.__file__), "_native.pyi"), encoding="utf-8") as file:
        body = ast.parse(file.read()).body

    def named(nodes):
        return {n.name if isinstance(n, (ast.ClassDef, ast.FunctionDef)) else n.target.id for n in nodes
                if isinstance(n, (ast.ClassDef, ast.FunctionDef, ast.AnnAssign))}

    def public(names):
        return {name for name in names if not name.startswith("_")}

    assert public(named(body)) == public(dir(mtprof._native))
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert public(named(node.body)) == public(dir(getattr(mtprof, node.name, getattr(mtprof._native, node.name))))
