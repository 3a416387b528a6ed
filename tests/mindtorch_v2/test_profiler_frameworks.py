"""torch.profiler's API bound to another framework (tiny.py), alone and in turns with mindtorch_v2."""
import enum
import json
import os
import pickle
import re
import subprocess
import sys
import types

import pytest

import mindtorch_v2
import mtprof
import mtprof.profiler
import tiny
from mtprof.profiler import ProfilerAction, ProfilerActivity, record_function, schedule, tensorboard_trace_handler

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    tiny.log.clear()
    yield
    assert not tiny.collecting and not mtprof.is_profiler_enabled()


def run_alone(code, **environment):
    """The code in a process of its own, which must not import mindtorch_v2 or torch."""
    path = os.pathsep.join([HERE, *sys.path])
    code += "\nimport sys\nassert not {'mindtorch_v2', 'torch'} & sys.modules.keys()\n"
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True,
                         timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def names(prof):
    return [event.name for event in prof.events()]


# -------------------------------------------------------------------------------------------------- what it imports


def test_the_package_imports_no_framework():
    run_alone("""
import importlib, pkgutil, mtprof
assert not any(name.startswith("mtprof.profiler") for name in __import__("sys").modules), "import mtprof stays light"
assert "numpy" not in __import__("sys").modules and "json" not in mtprof.__dict__
for module in pkgutil.walk_packages(mtprof.profiler.__path__, "mtprof.profiler."):
    importlib.import_module(module.name)
""")


def test_every_module_can_be_imported_first():
    folder = os.path.dirname(mtprof.profiler.__file__)
    for name in sorted(f[:-3] for f in os.listdir(folder) if f.endswith(".py")):
        run_alone(f"import mtprof.profiler.{name}" if name != "__init__" else "import mtprof.profiler")


def test_no_file_of_it_names_a_framework_in_an_import():
    check = os.path.join(HERE, "..", "..", "tools", "check_layers")
    for arguments in ([], ["--self-test"]):
        ran = subprocess.run([sys.executable, check, *arguments], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout


def test_the_example_of_the_page_works():
    with open(os.path.join(HERE, "..", "..", "docs", "python.md"), encoding="utf-8") as page:
        (code,) = re.findall(r"^```python\n(.*?)^```$", page.read().partition("## Binding a framework")[2], re.M | re.S)
    said = run_alone(code)
    assert "nn.Module: Module_0" in said and "mine::double" in said


def test_unknown_attributes_are_refused():
    with pytest.raises(AttributeError, match="module 'mtprof' has no attribute 'nonsense'"):
        mtprof.nonsense
    profiler = mindtorch_v2.profiler
    for module in (profiler, profiler.profiler, profiler.private, profiler._pattern_matcher, mindtorch_v2.autograd.profiler):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nonsense'"):
            module.nonsense


def test_modules_of_mindtorch_are_those_of_mtprof():
    for name in ("common", "event", "events", "tree", "results", "table", "trace", "memory", "execution_trace", "_children", "_utils",
                 "_memory_profiler"):
        assert getattr(mindtorch_v2.profiler, name) is getattr(__import__(f"mtprof.profiler.{name}").profiler, name)
    assert issubclass(mindtorch_v2.profiler.profile, mtprof.profiler.profile)
    assert issubclass(mindtorch_v2.profiler.profile, mindtorch_v2.profiler._KinetoProfile)
    assert mindtorch_v2.profiler.profile.__module__ == "mindtorch_v2.profiler.profiler"


def test_events_pickled_under_their_earlier_module_are_read():
    with tiny.profile() as prof:
        tiny.add(1, 2)
    event = prof.events()[0]
    assert pickle.loads(pickle.dumps(event)).name == "tiny::add"
    before = pickle.dumps(prof.key_averages()[0], 0).replace(b"mtprof.profiler", b"mindtorch_v2.profiler")
    assert b"mindtorch_v2.profiler.event" in before and pickle.loads(before).key == "tiny::add"


# ------------------------------------------------------------------------------------------------------- alone


def test_a_schedule_records_its_steps_and_calls_back(tmp_path):
    traces = []

    def ready(prof):
        traces.append((prof.step_num, sorted(set(names(prof)))))
        tensorboard_trace_handler(str(tmp_path))(prof)

    with tiny.profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=2), on_trace_ready=ready) as prof:
        for step in range(6):
            tiny.scale(step, 2)
            with record_function(f"in step {step}"):
                tiny.add(step, 1)
            prof.step()
    assert traces == [(3, ["ProfilerStep*", "in step 2", "tiny::add", "tiny::scale"]),
                      (6, ["ProfilerStep*", "in step 5", "tiny::add", "tiny::scale"])]
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    events = json.loads(files[0].read_text())["traceEvents"]
    assert {"tiny::add", "tiny::scale"} <= {e["name"] for e in events} and all(e["pid"] == os.getpid() for e in events if e["ph"] == "X")
    me = ("attach", False, os.getpid())
    assert tiny.log == ["warm up", me, "detach", "warm up", me, "detach"]


def test_averages_tables_and_exports(tmp_path):
    with tiny.profile(record_shapes=True, with_stack=True, profile_memory=True) as prof:
        for _ in range(3):
            tiny.scale(2, 3)
    rows = {row.key: row.count for row in prof.key_averages()}
    assert rows == {"tiny::scale": 3, "tiny::add": 3}
    event = next(e for e in prof.events() if e.name == "tiny::scale")
    assert event.concrete_inputs == [2, 3] and event.stack
    inner = next(e for e in prof.events() if e.name == "tiny::add")
    while inner.cpu_parent is not None and inner is not event:
        inner = inner.cpu_parent
    assert inner is event
    assert "tiny::scale" in prof.key_averages().table(sort_by="cpu_time_total")
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    prof.export_stacks(tmp_path / "stacks.txt")
    prof.export_memory_timeline(str(tmp_path / "memory.html"))
    assert (tmp_path / "stacks.txt").read_text().count("\n") >= 3
    assert len(mtprof.Trace.open(str(tmp_path / "trace.json.gz")).events()) >= 6
    assert tiny.log == ["warm up", ("attach", True, os.getpid()), "detach"]


def test_modules_and_optimizers_are_named():
    for options in ({"with_modules": True}, {"with_stack": True}):
        with tiny.profile(**options) as prof:
            tiny.Doubling()(4)
            tiny.Optimizer().step()
        assert "nn.Module: Doubling_0" in names(prof)
    tree = prof.profiler.kineto_results.experimental_event_tree()
    waiting, calls = list(tree), []
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        calls += [event] if event.name.startswith("nn.Module") else []
    assert len(calls) == 1 and calls[0]._framework is tiny.FRAMEWORK


def test_the_session_by_itself_and_without_steps():
    with tiny.Session(record_shapes=True) as prof:
        tiny.add(1, 2)
    assert "tiny::add" in prof.key_averages().table()
    prof = tiny._KinetoProfile()
    prof.start()
    tiny.add(1, 2)
    prof.stop()
    assert names(prof) == ["tiny::add"] and type(prof.profiler) is tiny.Session
    assert tiny.log.count("detach") == 2


def test_without_a_framework_scopes_and_functions_are_recorded():
    with mtprof.profiler.profile(with_stack=True) as prof:
        with record_function("mine"):
            tiny.Doubling()(1)
    assert "mine" in names(prof) and not any(name.startswith(("tiny::", "nn.Module")) for name in names(prof))
    assert any(name.endswith("forward") for name in names(prof)) and mtprof.profiler.supported_activities() == {ProfilerActivity.CPU}


def test_its_accelerator_has_its_own_name(monkeypatch, tmp_path):
    with pytest.warns(UserWarning, match="TPU is not available, disabling TPU profiling"):
        assert tiny.Session(use_device="tpu").use_device is None
    with pytest.warns(UserWarning, match="The quantum is not a valid device option"):
        tiny.Session(use_device="quantum")
    monkeypatch.setattr(tiny.FRAMEWORK, "tpu", True, raising=False)
    assert tiny.supported_activities() == {ProfilerActivity.CPU, ProfilerActivity.NPU}
    assert mindtorch_v2.profiler.profile(activities=["npu"]).use_device == "npu"
    with tiny.profile() as prof:
        tiny.add(1, 2)
    assert prof.use_device == "tpu" and prof.profiler.use_device == "tpu" and prof.events()[0].use_device == "tpu"
    row = prof.key_averages()[0]
    row.self_device_time_total = row.device_time_total = 5
    assert "Self TPU" in mtprof.profiler.table.build_table([row])
    assert tiny.Session(use_device="cuda").use_device == "tpu"


def test_tools_of_the_event_tree_need_no_tensors(capsys):
    from mtprof.profiler import _memory_profiler, _pattern_matcher, _utils

    with tiny.profile(record_shapes=True, with_stack=True, profile_memory=True) as prof:
        for value in range(3):
            tiny.Doubling()(value)
    assert prof._memory_profile().timeline == ()
    assert _memory_profiler.MemoryProfileTimeline(prof._memory_profile())._coalesce_timeline("tpu:0") == ([], [])
    _pattern_matcher.report_all_anti_patterns(prof, should_benchmark=True)
    assert "TorchTidy Report" in capsys.readouterr().out

    class Slow(_pattern_matcher.NamePattern):
        def benchmark(self, events):
            return {_pattern_matcher.input_shapes(event): 0.5 for event in events}

    pattern = Slow(prof, "tiny::scale", should_benchmark=True)
    assert "(2.0X)" in pattern.summary(pattern.matched_events()), "one's own benchmark needs no torch"
    copies = _pattern_matcher.ExtraCUDACopyPattern(prof)
    assert "1 events matched." in copies.summary(pattern.matched_events()[:1])
    assert _utils.BasicEvaluation(prof.profiler).rank_events(3) == []
    fields = prof.profiler.kineto_results.experimental_event_tree()
    assert all(_memory_profiler.of(event) is tiny.FRAMEWORK for event in fields)


def test_reports_of_built_in_patterns_are_not_measured_without_torchs_names(capsys, monkeypatch):
    from mtprof.profiler import _pattern_matcher

    with tiny.profile(record_shapes=True, with_stack=True) as prof:
        tiny.add(1, 2)
    found = prof.profiler.kineto_results.experimental_event_tree()
    monkeypatch.setattr(_pattern_matcher.ExtraCUDACopyPattern, "matched_events", lambda self: found)
    _pattern_matcher.report_all_anti_patterns(prof, should_benchmark=True)
    assert "Extra CUDA Copy Pattern: " in capsys.readouterr().out


def test_devices_and_dtypes_of_a_framework_without_classes_for_them():
    device = tiny.FRAMEWORK.device("tpu:3")
    assert (device.type, device.index, str(device)) == ("tpu", 3, "tpu:3") and tiny.FRAMEWORK.device("cpu") == ("cpu", None)
    assert str(tiny.FRAMEWORK.device("cpu")) == "cpu"
    assert tiny.FRAMEWORK.dtype("bfloat16") == "bfloat16" and tiny.FRAMEWORK.dtype("bfloat16").itemsize == 2
    assert tiny.FRAMEWORK.schemas("tiny::add") == () and tiny.FRAMEWORK.schemas("add") is None and tiny.FRAMEWORK.library == ()
    assert "tiny" in repr(tiny.FRAMEWORK) and tiny.FRAMEWORK in mtprof.profiler.framework.known()


# ------------------------------------------------------------------------------------------------- when things fail


def test_what_attach_raises_is_raised_and_the_session_is_free_again(monkeypatch):
    monkeypatch.setattr(tiny.FRAMEWORK, "broken", OSError("no collector"), raising=False)
    for start in (tiny.profile().start, tiny.Session().__enter__, tiny.profile().__enter__):
        tiny.log.clear()
        with pytest.raises(OSError, match="no collector"):
            start()
        assert tiny.log.count("detach") == 1 and not mtprof.is_profiler_enabled()
    monkeypatch.setattr(tiny.FRAMEWORK, "broken", None)
    with tiny.profile() as prof:
        tiny.add(1, 2)
    assert names(prof) == ["tiny::add"]


def test_a_profile_that_is_dropped_detaches():
    prof = tiny.profile()
    prof.start()
    assert tiny.collecting
    del prof
    assert not tiny.collecting and tiny.log[-1] == "detach"


def test_what_detach_raises_is_raised_after_the_recording_ended(monkeypatch):
    detach = tiny.FRAMEWORK.detach

    def fail():
        detach()
        raise OSError("cannot detach")

    prof = tiny.profile()
    prof.start()
    tiny.add(1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(tiny.FRAMEWORK, "detach", fail, raising=False)
        with pytest.raises(OSError, match="cannot detach"):
            prof.stop()
    assert names(prof) == ["tiny::add"]
    with mindtorch_v2.profiler.profile():
        pass
    assert tiny.log.count("detach") == 1


# ---------------------------------------------------------------------------------------------------------- in turns


def both(prof):
    model = mindtorch_v2.nn.Linear(2, 2)
    with prof:
        model(mindtorch_v2.ones(1, 2))
        tiny.Doubling()(1)
    return {name for name in names(prof) if name.startswith(("nn.Module", "tiny::", "aten::linear"))}


def test_two_frameworks_take_turns():
    for _ in range(2):
        ours = both(mindtorch_v2.profiler.profile(with_stack=True))
        assert ours == {"nn.Module: Linear_0", "aten::linear"}
        theirs = both(tiny.profile(with_stack=True))
        assert theirs == {"nn.Module: Doubling_0", "tiny::scale", "tiny::add", "aten::linear"}, "mindtorch_v2 reports to any recording"
        assert not any(name.startswith("nn.Module") for name in both(mtprof.profiler.profile(with_stack=True)))


def test_one_that_is_refused_changes_nothing_for_the_one_that_records():
    with tiny.profile(with_stack=True) as prof:
        for other in (mindtorch_v2.profiler.profile(with_stack=True), mindtorch_v2.autograd.profiler.profile(with_stack=True)):
            with pytest.raises(RuntimeError, match="another profiler session is already active"):
                other.__enter__()
        tiny.Doubling()(1)
    assert {"nn.Module: Doubling_0", "tiny::scale"} <= set(names(prof)) and tiny.log.count("detach") == 1
    with mindtorch_v2.profiler.profile() as ours:
        with pytest.raises(RuntimeError, match="another profiler session is already active"):
            tiny.profile(with_stack=True).start()
        mindtorch_v2.ones(2)
    assert "aten::ones" in names(ours) and tiny.log.count("detach") == 1


def test_tensors_of_a_tree_belong_to_its_framework():
    def devices(prof):
        found, waiting = set(), list(prof.profiler.kineto_results.experimental_event_tree())
        while waiting:
            event = waiting.pop()
            waiting.extend(event.children)
            inputs = event.extra_fields.inputs if event.name == "aten::add" else []
            found |= {(type(t.device), type(t.dtype), t.layout) for t in inputs if not isinstance(t, int)}
        return found

    x = mindtorch_v2.ones(2)
    for prof in (mindtorch_v2.profiler.profile(record_shapes=True), tiny.profile(record_shapes=True)):
        with prof:
            x + x
        framework = type(prof)._framework
        assert devices(prof) == {(type(framework.device("cpu")), type(framework.dtype("float32")), framework.strided)}
    tree = mtprof.profiler.tree._Tree(prof.profiler.trace, tiny.FRAMEWORK)
    assert str(tree.device(1, 2)) == "tpu:2" and tree.device(1, -1) == ("tpu", 0) and tree.device(0, -1) == ("cpu", None)
    assert [tree.dtype(n, "") for n in (0, 3, 99)] == [None, "float16", None] and tree.dtype(0, "c10::BFloat16") == "bfloat16"


# ------------------------------------------------------------------------------------------------------- processes


def test_a_forked_child_is_recorded(tmp_path):
    with tiny.profile() as prof:
        child = os.fork()
        if child == 0:
            tiny.scale(1, 2)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        tiny.add(1, 2)
    prof.export_chrome_trace(tmp_path / "trace.json")
    workers = json.loads((tmp_path / "trace.json").read_text())["worker_traces"]
    assert len(workers) == 1 and workers[0].startswith(f"worker_{child}.")
    recorded = mtprof.Trace.open(str(tmp_path / workers[0])).events()
    assert [recorded[i].name for i in range(len(recorded))] == ["tiny::scale", "tiny::add"] and names(prof) == ["tiny::add"]


def test_a_profile_in_a_forked_child_takes_over():
    with tiny.profile():
        tiny.log.clear()
        child = os.fork()
        if child == 0:
            with tiny.profile() as mine:
                tiny.add(1, 2)
            good = names(mine) == ["tiny::add"] and tiny.log == ["detach", "warm up", ("attach", False, os.getpid()), "detach"]
            os._exit(0 if good and not tiny.collecting else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert tiny.log == ["detach"]


def test_a_worker_that_was_started_before_joins_and_leaves(tmp_path):
    """As a data loader's would: it receives the state with each task."""
    worker = """
import pickle, sys, tiny
from mtprof.profiler.session import join_worker
while True:
    state = pickle.load(sys.stdin.buffer)
    if state == "end":
        break
    join_worker(state, tiny.FRAMEWORK)
    tiny.scale(1, 2)
    print(tiny.collecting, flush=True)
"""
    from mtprof.profiler.session import worker_state

    path = os.pathsep.join([HERE, *sys.path])
    process = subprocess.Popen([sys.executable, "-c", worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": path})

    def task():
        pickle.dump(worker_state(), process.stdin)
        process.stdin.flush()
        return process.stdout.readline().strip()

    assert task() == b"False"
    with tiny.profile() as prof:
        assert [task(), task()] == [b"True", b"True"]
    assert task() == b"False"
    pickle.dump("end", process.stdin)
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()
    prof.export_chrome_trace(tmp_path / "trace.json")
    (name,) = json.loads((tmp_path / "trace.json").read_text())["worker_traces"]
    recorded = mtprof.Trace.open(str(tmp_path / name)).events()
    assert [recorded[i].name for i in range(len(recorded))] == ["tiny::scale", "tiny::add"] * 2


def test_a_worker_that_cannot_attach_says_so_and_works_on(monkeypatch, tmp_path):
    from mtprof.profiler.session import _forks, join_worker

    monkeypatch.setattr(tiny.FRAMEWORK, "broken", OSError("no collector"), raising=False)
    with pytest.warns(UserWarning, match="this worker process is not recorded: no collector"):
        join_worker((1, str(tmp_path), {"record_shapes": False, "activities": mtprof.CPU}), tiny.FRAMEWORK)
    assert _forks.mine is None and tiny.log.count("detach") == 1 and not mtprof.is_profiler_enabled()
    join_worker(None, tiny.FRAMEWORK)


def test_an_observer_by_itself_attaches(tmp_path):
    observer = tiny.ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    observer.start()
    tiny.add(1, 2)
    observer.stop()
    assert tiny.log == [("attach", True, os.getpid()), "detach"]
    observer.unregister_callback()
    assert "tiny::add" in [node["name"] for node in json.loads((tmp_path / "et.json").read_text())["nodes"]]
    with tiny.profile(execution_trace_observer=tiny.ExecutionTraceObserver().register_callback(str(tmp_path / "shared.json"))):
        tiny.scale(1, 2)
    assert tiny.log.count("detach") == 2 and "tiny::scale" in (tmp_path / "shared.json").read_text()


def test_an_observer_made_from_the_environment_is_of_its_class(monkeypatch):
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    made = tiny.ExecutionTraceObserver.build_execution_trace_obs_from_env()
    assert type(made) is tiny.ExecutionTraceObserver
    path = made.get_output_file_path()
    made.cleanup()
    os.unlink(path)


def test_a_child_of_an_observer_that_records_alone_attaches_anew(tmp_path):
    observer = tiny.ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    observer.start()
    tiny.log.clear()
    child = os.fork()
    if child == 0:
        with tiny.profile() as mine:
            tiny.add(1, 2)
        good = tiny.log == ["warm up", "detach", ("attach", False, os.getpid()), "detach"] and names(mine) == ["tiny::add"]
        os._exit(0 if good else 1)
    status = os.waitpid(child, 0)[1]
    observer.unregister_callback()
    assert status == 0 and tiny.log == ["detach"]


# -------------------------------------------------------------------------------------------- another library's enums


def foreign():
    """Enums with torch's names, as torch's own are when they reach our API."""
    class ProfilerActivity(enum.Enum):  # noqa: N801
        CPU, XPU, CUDA = range(3)

    class ProfilerAction(enum.Enum):
        NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)

    made = [(ProfilerActivity, ProfilerAction)]
    try:
        import torch

        made.append((torch.profiler.ProfilerActivity, torch.profiler.ProfilerAction))
    except ImportError:
        pass
    return made


@pytest.mark.parametrize("which", range(len(foreign())))
def test_enums_of_torch_are_accepted(which):
    activity, action = foreign()[which]
    assert tiny.profile(activities=[activity.CPU]).activities == {ProfilerActivity.CPU}
    assert tiny.profile(activities=[activity.CPU, activity.CUDA]).use_device == "tpu"
    assert tiny.profile(activities=[{activity.CPU: ["CPU_OP"]}]).activity_filters == {ProfilerActivity.CPU: {"CPU_OP"}}
    with pytest.raises(ValueError, match="unsupported profiler activity"):
        tiny.profile(activities=[activity.XPU])
    with pytest.raises(TypeError, match="by itself"):
        tiny.profile(activities=activity.CPU)
    with tiny.profile(activities=[activity.CPU], schedule=lambda step: [action.NONE, action.WARMUP, action.RECORD_AND_SAVE][step % 3]) as prof:
        assert prof.current_action is ProfilerAction.NONE
        for step in range(3):
            tiny.add(step, step)
            prof.toggle_collection_dynamic(True, [activity.CPU])
            prof.step()
    assert names(prof) == ["ProfilerStep*", "tiny::add"]


def test_torchs_own_config_and_schedule_are_accepted():
    torch = pytest.importorskip("torch")
    config = torch._C._profiler._ExperimentalConfig(verbose=True, record_python_gc_info=True, custom_profiler_config="x")
    with tiny.profile(experimental_config=config, schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)) as prof:
        for _ in range(2):
            tiny.add(1, 2)
            prof.step()
    held = prof.experimental_config
    assert (held.verbose, held.record_python_gc_info, held.custom_profiler_config, held.trace_only) == (True, True, "x", False)
    assert "tiny::add" in names(prof)


def test_a_config_of_another_kind_is_refused():
    for wrong in (3, types.SimpleNamespace(trace_only=False), {"verbose": True}):
        with pytest.raises(TypeError, match="experimental_config must be an _ExperimentalConfig, not"):
            tiny.profile(experimental_config=wrong)


def test_optimizer_steps_are_counted_for_a_daemon():
    run_alone("""
import tiny
hooks = []
tiny._Tiny.register_optimizer_step_post_hook = lambda self, hook: hooks.append(hook)
from mtprof.profiler.common import KinetoStepTracker
from mtprof.profiler.framework import count_optimizer_steps
count_optimizer_steps(tiny.FRAMEWORK)
before = KinetoStepTracker.current_step()
hooks[0](tiny.Optimizer(), (), {})
assert KinetoStepTracker.current_step() == before + 1
""", KINETO_USE_DAEMON="1")
    run_alone("""
import tiny
from mtprof.profiler.framework import count_optimizer_steps
tiny._Tiny.register_optimizer_step_post_hook = None
count_optimizer_steps(tiny.FRAMEWORK)
""", KINETO_USE_DAEMON="")


def test_calls_are_code_objects_or_none():
    for set_call in (mtprof.set_module_call, mtprof.set_optimizer_call):
        for wrong in (3, tiny.Module.__call__, "code"):
            with pytest.raises(TypeError, match="takes the code object"):
                set_call(wrong)
        set_call(tiny.Module.__call__.__code__)
        set_call(None)


def test_driving_by_hand_uses_the_framework(monkeypatch):
    """torch._C._autograd._enable_profiler(): of each binding its own."""
    from mtprof.profiler import private

    prepare, enable = private.functions_of(tiny.Session)
    config = private.ProfilerConfig(private.ProfilerState.KINETO, True, False, False, False, False)
    prepare(config, {ProfilerActivity.CPU})
    enable(config, {ProfilerActivity.CPU})
    tiny.add(1, 2)
    result = private._disable_profiler()
    assert result._framework is tiny.FRAMEWORK and [e.name() for e in result.events()] == ["tiny::add"]
    native = mindtorch_v2._C._autograd
    native._enable_profiler(config, {ProfilerActivity.CPU})
    mindtorch_v2.ones(2)
    assert native._disable_profiler()._framework.package is mindtorch_v2


def test_mindtorch_loads_its_matrix_library_before_it_records():
    code = """
import mindtorch_v2
from mindtorch_v2._framework import FRAMEWORK
assert "_matrix_library" not in vars(FRAMEWORK)
with mindtorch_v2.profiler.profile():
    assert vars(FRAMEWORK)["_matrix_library"]
"""
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True, timeout=120)


def test_calls_of_the_api_itself_are_not_events(tmp_path):
    observer = tiny.ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    with tiny.Session(with_stack=True) as prof:
        observer.start()
        tiny.add(1, 2)
        prof.key_averages()
        observer.stop()
    functions = [event.name for event in prof.function_events if "(" in event.name]
    assert functions and not [name for name in functions if "/profiler/" in name]
    observer.unregister_callback()
