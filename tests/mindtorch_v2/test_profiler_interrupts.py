"""A profile that is interrupted, dropped, copied or abandoned leaves the process usable."""

import copy
import dis
import errno
import gc
import gzip
import inspect
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

import mindtorch_v2 as torch
import mtprof
import tiny
from mindtorch_v2.autograd import profiler as autograd_profiler
from mindtorch_v2.profiler import profile, record_function, schedule


RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap}


class Interrupt(KeyboardInterrupt):
    pass


def interrupt_now():
    raise Interrupt


def interrupted_at(n, action, interrupt=interrupt_now):
    """Runs action() with an interrupt before the n-th opcode of our Python code. Returns None if there are fewer."""
    ours = (os.path.dirname(torch.__file__), os.path.dirname(mtprof.__file__), tiny.__file__)
    count = 0

    def tracer(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(ours):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in RETURNS and frame.f_lineno is not None:
            # no signal is handled in the others: returns, and what Python 3.12 adds to generators to close them
            count += 1
            if count == n:
                sys.settrace(None)
                interrupt()
        return tracer

    collecting = gc.isenabled()
    gc.disable()  # exceptions raised in a finalizer would not reach us
    sys._getframe().f_trace_opcodes = True  # Python 3.12 reports opcodes only if this is set before
    sys.settrace(tracer)
    try:
        action()
    except Interrupt as interrupt:
        return interrupt  # as at a prompt, where the last traceback is kept
    finally:
        sys.settrace(None)
        if collecting:
            gc.enable()
    assert count < n, "the interrupt was swallowed"
    return None


def assert_nothing_is_left():
    assert not autograd_profiler._is_profiler_enabled
    assert autograd_profiler._forks.state is None
    assert mtprof.gc_event not in gc.callbacks
    with profile() as p:
        torch.ones(2)
    assert any(e.key == "aten::ones" for e in p.key_averages())


def new_profile(kind):
    if kind == "steps":
        return profile(schedule=schedule(wait=0, warmup=0, active=1), record_shapes=True)
    if kind == "autograd":
        return autograd_profiler.profile(with_stack=True)
    return profile(with_stack=kind == "stacks", profile_memory=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["plain", "steps", "stacks", "autograd"])
def test_an_interrupt_anywhere_in_enter_leaves_no_session(kind):
    new_profile(kind).__enter__().__exit__(None, None, None)  # one-time initialization is done
    gc.disable()
    try:
        for n in range(1, 100_000):
            p = new_profile(kind)
            kept = interrupted_at(n, p.__enter__)
            if kept is None:
                p.__exit__(None, None, None)
                break
            if n % 7 == 0:
                assert_nothing_is_left()
            else:
                profile().__enter__().__exit__(None, None, None)
        assert n > 50
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["plain", "steps", "autograd"])
def test_an_interrupt_anywhere_in_exit_ends_the_session(kind):
    gc.disable()
    try:
        for n in range(1, 100_000):
            p = new_profile(kind).__enter__()
            torch.ones(2)
            kept = interrupted_at(n, lambda p=p: p.__exit__(None, None, None))
            if kept is not None and n % 2 == 0:  # it can be ended again; or is dropped
                p.__exit__(None, None, None)
            kept = None if kept is None else True
            del p
            profile().__enter__().__exit__(None, None, None)
            if kept is None:
                break
        assert n > 20
    finally:
        gc.enable()
    assert_nothing_is_left()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["plain", "steps", "stacks", "autograd"])
def test_a_profile_whose_exit_was_interrupted_has_ended_also_if_it_is_kept(kind):
    new_profile(kind).__enter__().__exit__(None, None, None)
    for n in range(1, 100_000):
        p = new_profile(kind).__enter__()
        torch.ones(2)
        interrupt = interrupted_at(n, lambda: p.__exit__(None, None, None))
        if n % 7 == 0:
            assert_nothing_is_left()
        else:
            profile().__enter__().__exit__(None, None, None)
        if kind != "steps":
            assert "aten::ones" in p.key_averages().table()  # the recorded events are kept
        p.__exit__(None, None, None)
        if interrupt is None:
            break
    assert n > 20


@pytest.mark.parametrize("kind", [tiny.profile, tiny.Session])
@pytest.mark.parametrize("of", ["__enter__", "__exit__"])
def test_an_interrupt_anywhere_leaves_no_collector_attached(kind, of):
    with kind():
        pass
    for n in range(1, 100_000):
        p = kind(with_stack=True)
        exit = () if of == "__enter__" else (None, None, None)
        if exit:
            p.__enter__()
        interrupt = interrupted_at(n, lambda: getattr(p, of)(*exit))
        if interrupt is None:
            p.__exit__(None, None, None)
        assert not tiny.collecting, f"before opcode {n}"
        if interrupt is None:
            break
    assert n > 50
    assert_nothing_is_left()


@pytest.mark.parametrize("raised", [Interrupt, TimeoutError])
def test_what_a_handler_raises_while_stacks_are_prepared_is_not_lost(monkeypatch, raised):
    def interrupted():
        raise raised

    with monkeypatch.context() as m:
        m.setattr(mtprof._paths, "prefixes", interrupted)
        with pytest.raises(raised):
            profile(with_stack=True).start()
    assert_nothing_is_left()


def test_stacks_are_recorded_where_the_current_folder_is_gone(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("relative")
    folder.rmdir()
    with profile(with_stack=True) as p:
        torch.ones(2)
    assert any(e.stack for e in p.events())


def test_a_method_that_ends_in_another():
    ended = []

    class Thing:
        def end(self):
            """Ends it."""
            ended.append(self)
            if len(ended) < 3:
                raise Interrupt

        def close(self, error=None, *, more=1):
            """Closes it."""
            if error is not None:
                raise error
            return more

        close = mtprof._native.ends_in(close, end)

    class Child(Thing):
        def close(self, error=None):
            return super().close(error, more=2)

    thing = Child()
    assert Thing().close() == 1 and Thing().close(more=5) == 5 and thing.close() == 2 and ended == []
    with pytest.raises(ValueError, match="wrong") as raised:  # the method's error, whatever end() raises
        thing.close(ValueError("wrong"))
    assert ended == [thing] * 3 and raised.value.__context__ is None
    assert Thing.close.__doc__ == "Closes it." and Thing.close.__name__ == "close"
    assert str(inspect.signature(Thing.close)) == "(self, error=None, *, more=1)"
    with pytest.raises(TypeError):
        Thing.close()
    with pytest.raises(TypeError, match="two functions"):
        mtprof._native.ends_in(print)
    with pytest.raises(TypeError, match="two functions"):
        mtprof._native.ends_in(print, 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["plain", "steps", "stacks", "autograd"])
def test_a_dropped_profile_ends_at_once(kind):
    gc.collect()
    gc.disable()
    try:
        p = new_profile(kind)
        p.__enter__()
        del p
        assert_nothing_is_left()
    finally:
        gc.enable()


def test_a_dropped_profile_in_a_cycle_does_not_block_the_next():
    gc.disable()
    try:
        p = profile()
        p.on_trace_ready = lambda _: p  # its closure holds it
        p.start()
        del p
        assert_nothing_is_left()
    finally:
        gc.enable()


def test_a_profile_that_is_in_use_is_not_taken_away():
    with profile() as p:
        with pytest.raises(RuntimeError, match="another profiler session is already active"):
            profile().start()
        with pytest.raises(RuntimeError, match="another profiler session is already active"):
            p.start()
        with pytest.raises(RuntimeError, match="another profiler session is already active"):
            autograd_profiler.profile().__enter__()
        torch.ones(2)
    assert any(e.key == "aten::ones" for e in p.key_averages())


# ----------------------------------------------------------------------------------------- copies and pickles


@record_function("scoped")
def scoped(x):
    return x + 1


@record_function("scoped generator")
def scoped_generator():
    yield 1


class Holder:
    @record_function("method")
    def method(self):
        return 42


def test_decorated_functions_are_pickled_and_copied_as_functions_are():
    for function in (scoped, scoped_generator, Holder.method):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.copy(function) is function
        assert copy.deepcopy(function) is function
    assert pickle.loads(pickle.dumps(Holder().method))() == 42


def test_a_model_that_holds_a_scope_is_copied():
    class Marked(record_function):
        pass

    for original in (record_function("x", "some args"), Marked("y")):
        for made in (copy.copy(original), copy.deepcopy(original), ):
            assert type(made) is type(original) and (made.name, made.args) == (original.name, original.args)
    assert pickle.loads(pickle.dumps(record_function("x", "a"))).args == "a"
    marked = Marked("z")
    marked.note = [1]
    assert copy.deepcopy(marked).note == [1]


def picked_steps(step):
    return torch.profiler.ProfilerAction.RECORD


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_profile_that_was_not_started_is_copied_with_what_holds_it(copied):
    original = profile(schedule=picked_steps, record_shapes=True)
    for made in (copied(original), copied(copied(original))):
        assert made.record_shapes and made.schedule is picked_steps
        with made:
            torch.ones(2)
            made.step()
        assert any(e.name == "aten::ones" for e in made.events())
    with original:
        torch.ones(2)
    with pytest.raises(TypeError, match="Session"):  # as in PyTorch: without the recorded events
        pickle.dumps(original)


# ------------------------------------------------------------------------------------------------------ files


def test_an_error_of_the_disk_has_its_number(tmp_path):
    with profile() as p:
        torch.ones(2)
    with pytest.raises(OSError, match="No space left on device") as full:
        p.export_chrome_trace("/dev/full")
    assert full.value.errno == errno.ENOSPC
    with pytest.raises(FileNotFoundError) as missing:
        p.export_chrome_trace(tmp_path / "no" / "such" / "folder.json")
    assert missing.value.errno == errno.ENOENT
    with pytest.raises(FileNotFoundError) as unread:
        mtprof.Trace.open(str(tmp_path / "none.mtp"))
    assert unread.value.errno == errno.ENOENT


def run_python(program, tmp_path, **options):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True,
                          timeout=120, **options)


FORKS = """
    import os, signal, sys
    import mindtorch_v2 as torch
    from mindtorch_v2.profiler import profile
    with profile() as p:
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                torch.ones(2)
                os._exit(0)
            os.waitpid(pid, 0)
        if sys.argv[1:] == ["die"] or {die}:
            os.kill(os.getpid(), signal.SIGKILL)
    folder = p.profiler._children_folder
    print(sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)))
"""


def test_children_leave_small_files_and_they_go_with_the_profile(tmp_path):
    done = run_python(FORKS.format(die=False), tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 3 * 300_000
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_goes_with_the_next(tmp_path):
    assert run_python(FORKS.format(die=True), tmp_path).returncode == -9
    left = os.listdir(tmp_path)
    assert len(left) == 1
    other = tmp_path / "mtprof-1-of-somebody-else"
    other.write_text("a file")
    old = time.time() - 3600
    os.utime(tmp_path / left[0], (old, old))
    done = run_python(FORKS.format(die=False), tmp_path)
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == [other.name]


def test_folders_of_living_processes_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with profile() as p:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        (folder,) = os.listdir(tmp_path)
        old = time.time() - 3600
        os.utime(tmp_path / folder, (old, old))
        assert run_python(FORKS.format(die=False), tmp_path).returncode == 0
        assert os.listdir(tmp_path) == [folder]
    del p


# ------------------------------------------------------------------------------------------- in a forked child


def in_child(action):
    """The result or error of action() in a forked child, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = repr(action())
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


def op_count(p):
    return sum(e.name == "aten::ones" for e in p.events())


def run_once(p):
    with p:
        torch.ones(2)
    return op_count(p)


@pytest.mark.parametrize("acc_events", [False, True])
def test_a_profile_that_was_made_before_the_fork_is_the_childs_own(acc_events):
    ready = []
    p = profile(on_trace_ready=ready.append, acc_events=acc_events)

    def twice():
        counts = [run_once(p), run_once(p)]
        return counts, len(ready), run_once(profile())

    counts = [1, 2] if acc_events else [1, 1]
    assert in_child(twice) == repr((counts, 2, 1))
    assert run_once(p) == 1 and len(ready) == 1
    with p:  # of the parent's second cycle: the child adopts it too
        torch.ones(2)
        assert in_child(lambda: (p.stop(), run_once(p), run_once(profile()))) in (repr((None, 1, 1)), repr((None, 2, 1)))
    assert op_count(p) == counts[1]


def test_a_forked_child_has_what_was_recorded(tmp_path):
    """As with multiprocessing.Process(target=prof.export_chrome_trace), which writes beside the program."""
    with profile(with_stack=True) as p:
        torch.ones(2)
    path = tmp_path / "of_the_child.json"
    said = in_child(lambda: (op_count(p), "aten::ones" in p.key_averages().table(), p.export_chrome_trace(path)))
    assert said == "(1, True, None)"
    assert "aten::ones" in path.read_text() and op_count(p) == 1


def test_a_forked_childs_traces_for_tensorboard_are_of_a_worker_of_its_own(tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    run_once(profile(on_trace_ready=handler))
    assert in_child(lambda: run_once(profile(on_trace_ready=handler))) == "1"
    workers = {name.split(".")[0] for name in os.listdir(tmp_path)}
    assert len(workers) == 2 and any(name.endswith(f"_{os.getpid()}") for name in workers)


def test_steps_of_a_forked_child_do_not_make_the_parents_traces(tmp_path):
    path = tmp_path / "trace.json"
    ready = []

    def on_trace_ready(p):
        ready.append(p.step_num)
        p.export_chrome_trace(path)

    def steps():
        for _ in range(4):
            torch.ones(2)
            p.step()
        p.stop()
        return ready

    with profile(schedule=schedule(wait=0, warmup=1, active=2), on_trace_ready=on_trace_ready) as p:
        p.step()
        torch.ones(2)
        assert in_child(steps) == "[]"
        assert not path.exists()
        p.step()
        p.step()
        assert ready == [3]
    assert "aten::ones" in path.read_text()


def called():
    return torch.ones(2)


def call_count(session):
    return sum(e.name.endswith(": called") for e in session.trace().events())


def stack_session():
    session = mtprof.Session(with_stack=True)
    session.prepare()
    session.start()
    return session


def test_a_session_that_is_refused_leaves_the_frames_of_the_one_that_records():
    session = stack_session()
    for wanted in ({"with_stack": True}, {"with_modules": True}):
        called()
        other = mtprof.Session(**wanted)
        with pytest.raises(RuntimeError):
            other.start()
        del other
        called()
    session.stop()
    assert call_count(session) == 4


def test_a_forked_child_that_drops_its_parents_session_goes_on_recording_frames():
    sessions = [stack_session()]

    def go_on():
        mine = stack_session()
        called()
        sessions.clear()  # the last that had it
        called()
        mine.stop()
        return call_count(mine)

    called()
    assert in_child(go_on) == "2"
    sessions[0].stop()
    assert call_count(sessions[0]) == 1


# -------------------------------------------------------------------------------------------- execution traces


def observer_of(path):
    return torch.profiler.ExecutionTraceObserver().register_callback(str(path))


def test_a_forked_child_does_not_write_its_parents_execution_trace(tmp_path):
    path = tmp_path / "et.json"
    observers = [observer_of(path)]

    def drop():
        observers.pop().unregister_callback() if len(observers) > 1 else observers.clear()
        return path.exists()

    with profile(execution_trace_observer=observers[0]):
        torch.ones(2)
        assert in_child(drop) == "False"
    assert "aten::ones" in path.read_text()
    observers = [observer_of(path)]
    observers[0].start()
    torch.zeros(2)
    assert in_child(drop) == "True"
    assert "aten::ones" in path.read_text()  # of before
    observers[0].unregister_callback()
    assert "aten::zeros" in path.read_text()
    assert in_child(lambda: run_once(profile(execution_trace_observer=observer_of(tmp_path / "own.json")))) == "1"
    assert "aten::ones" in (tmp_path / "own.json").read_text()


@pytest.mark.parametrize("cycles", [0, 2])
@pytest.mark.parametrize("name", ["et.json", "et.json.gz"])
def test_an_execution_trace_appears_whole_or_not_at_all(tmp_path, cycles, name):
    path = tmp_path / name
    path.write_text("old")

    def write():
        observer = observer_of(path)
        for _ in range(cycles):
            observer.start()
            for i in range(50):
                torch.ones(2)
            observer.stop()
        observer.unregister_callback()

    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, most[1]))
    try:
        with pytest.raises(OSError):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert path.read_text() == "old" and os.listdir(tmp_path) == [name]
    write()
    read = gzip.open(path) if name.endswith(".gz") else open(path, "rb")
    with read:
        assert len(json.load(read)["nodes"]) >= 1 + cycles * 50


def test_an_observer_of_a_profile_that_did_not_start_is_dropped_in_silence(tmp_path):
    def failing():
        raise ValueError("no id")

    heard = []
    hook, sys.unraisablehook = sys.unraisablehook, heard.append
    try:
        with pytest.raises(ValueError, match="no id"):
            profile(execution_trace_observer=observer_of(tmp_path / "a.json"), custom_trace_id_callback=failing).start()
        p = autograd_profiler.profile()
        p._prepare_trace()
        observer = observer_of(tmp_path / "b.json")
        observer.start()  # the profile does not
        p._abandon()
        del p, observer
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert heard == []


# ------------------------------------------------------------------------------------------------ lists of events


@pytest.mark.parametrize("get", [lambda p: p.events(), lambda p: p.key_averages()])
@pytest.mark.parametrize("change", [lambda l: l.sort(key=lambda e: e.key), lambda l: l.append(l[0]), lambda l: l.index(l[-1])])
def test_a_list_that_was_interrupted_while_it_was_made_has_all_its_events(get, change):
    with profile() as p:
        for _ in range(3):
            torch.ones(2)
    whole = len(get(p))
    for n in range(1, 100_000):
        events = get(p)
        interrupt = interrupted_at(n, lambda: change(events))
        names = [e.key for e in events]
        assert len(names) - whole in ((0, 1) if interrupt is not None else (len(events) - whole,))
        assert len(get(p)) - whole in (0, 1)
        p.profiler._function_events = None  # each time anew
        if interrupt is None:
            break
    assert n > 10


@pytest.mark.parametrize("get", [lambda p: p.events(), lambda p: p.key_averages()])
def test_a_list_is_whole_for_other_threads_while_it_is_made(get):
    """What another thread or a signal handler sees between any two instructions."""
    with profile() as p:
        for _ in range(3):
            torch.ones(2)
    whole = len(get(p))
    for n in range(1, 100_000):
        p.profiler._function_events = None
        events = get(p)
        seen = []

        def look(events=events, seen=seen):
            seen.extend((len(events), len(list(events)), len(get(p)), events[0].key))
            raise Interrupt  # from here on, as above

        if interrupted_at(n, lambda: events.append(events[0]), look) is None:
            break
        assert seen[0] == seen[1] and seen[0] - whole in (0, 1) and seen[2] - whole in (0, 1) and seen[3] == "aten::ones"
    assert n > 10
