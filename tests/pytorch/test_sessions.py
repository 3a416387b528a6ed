"""mtprof.pytorch in use: schedules, threads, processes, beside torch.profiler, and after errors."""
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-pytorch` fetches it")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import mtprof  # noqa: E402
import mtprof.pytorch as profiler  # noqa: E402
from compare import silence  # noqa: E402


def names(prof):
    return [event.name for event in prof.events()]


def test_a_script_of_torch_profiler_with_one_line_changed(tmp_path):
    model, optimizer_of = torch.nn.Linear(4, 2), torch.optim.SGD
    optimizer = optimizer_of(model.parameters(), lr=0.1)
    steps = []
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True,
                          schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
                          on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))) as prof:
        for _ in range(4):
            with profiler.record_function("step"):
                model(torch.ones(3, 4)).sum().backward()
                optimizer.step()
            prof.step()
            steps.append(prof.step_num)
    files = os.listdir(tmp_path)
    assert len(files) == 1 and files[0].endswith(".pt.trace.json")
    with open(tmp_path / files[0], encoding="utf-8") as file:
        shown = {event["name"] for event in json.load(file)["traceEvents"]}
    assert {"ProfilerStep#2", "ProfilerStep#3", "step", "aten::addmm", "AddmmBackward0", "Optimizer.step#SGD.step"} <= shown
    assert "ProfilerStep#1" not in shown


def test_pytorchs_enums_and_schedules_are_understood(tmp_path):
    ready = []
    with profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                          schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1),
                          on_trace_ready=lambda prof: ready.append(names(prof))) as prof:
        for _ in range(4):
            torch.ones(2).exp()
            prof.step()
    assert len(ready) == 1 and ready[0].count("aten::exp") == 1


def test_an_unknown_activity_is_refused_and_a_gpu_is_said_to_be_missing():
    with pytest.raises((ValueError, AssertionError, TypeError, RuntimeError)):
        profiler.profile(activities=["no such thing"])
    assert (profiler.supported_activities() == {profiler.ProfilerActivity.CPU}) == (not torch.cuda.is_available())


def test_nothing_is_left_behind():
    fast = torch._C._profiler._RecordFunctionFast
    with profiler.profile() as prof:
        torch.ones(2)
        assert torch.autograd.profiler._is_profiler_enabled
    before = len(names(prof))
    torch.ones(2)
    assert len(names(prof)) == before > 0
    assert not torch.autograd.profiler._is_profiler_enabled and torch._C._profiler._RecordFunctionFast is fast


def test_after_an_exception_the_next_profile_works():
    with pytest.raises(ZeroDivisionError):
        with profiler.profile():
            torch.ones(2)
            1 // 0
    with profiler.profile() as prof:
        torch.ones(2).tanh()
    assert "aten::tanh" in names(prof)


def test_an_exception_inside_an_op_ends_its_event():
    with profiler.profile() as prof:
        with pytest.raises(RuntimeError):
            torch.ones(2) @ torch.ones(3)
        torch.ones(2).cos()
    events = {event.name: event for event in prof.events()}
    assert events["aten::cos"].cpu_parent is None


def test_torch_profiler_runs_at_the_same_time():
    with silence(), profiler.profile(profile_memory=True) as mine:
        with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
            torch.ones(64).sin()
        torch.ones(64).cos()
    assert {"aten::sin", "aten::cos"} <= set(names(mine))
    assert "aten::sin" in names(theirs) and "aten::cos" not in names(theirs)
    rows = {row.key: row for row in mine.key_averages()}
    assert rows["aten::sin"].cpu_memory_usage == 256 and rows["aten::cos"].cpu_memory_usage == 256
    assert {row.key: row for row in theirs.key_averages()}["aten::sin"].cpu_memory_usage == 256


def test_torch_profiler_around_ours():
    with silence(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        with profiler.profile() as mine:
            torch.ones(64).sin()
    assert "aten::sin" in names(theirs) and "aten::sin" in names(mine)


def test_a_loop_that_ends_its_profile_early_goes_on_stepping():
    def run(which):
        prof, found = which.profile(), []
        prof.step()
        prof.start()
        for number in range(1, 5):
            torch.ones(number)
            if number == 2:
                prof.stop()
            prof.step()
            found.append(prof.step_num)
        return found, [name for name in names(prof) if name == "aten::ones"]

    with silence():
        assert run(profiler) == run(torch.profiler) == ([2, 3, 4, 5], ["aten::ones"] * 2)


def test_stacks_name_the_functions_of_their_own_cycle_though_functions_come_and_go():
    """Each cycle runs a function that exists no longer in the next, which has another one at the same address."""
    def run_another(number):
        names = {"torch": torch}
        exec(f"def f{number}():\n    torch.zeros(1)", names)
        names.pop(f"f{number}")()

    prof = profiler.profile(with_stack=True, acc_events=True)
    for number in range(30):
        with prof:
            run_another(number)
    assert [event.stack[0].split(":")[-1] for event in prof.events() if event.name == "aten::zeros"] == [f"f{k}" for k in range(30)]


def test_all_threads_are_recorded_also_with_memory_and_stacks():
    def work():
        for _ in range(50):
            (torch.ones(8, requires_grad=True) * 2).sum().backward()

    with profiler.profile(profile_memory=True, with_stack=True, record_shapes=True) as prof:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    muls = [event for event in prof.events() if event.name == "aten::mul" and "Backward" not in event.cpu_parent.name]
    assert len(muls) == 200 and len({event.thread for event in muls}) == 4
    assert all(any("work" in frame for frame in event.stack) for event in muls)


def test_memory_of_other_threads_is_recorded():
    """One after another: like torch.profiler, the averages give memory to every op that runs at the time, on any thread."""
    def work():
        torch.ones(8) * 2

    with profiler.profile(profile_memory=True) as prof:
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert [event.cpu_memory_usage for event in prof.events() if event.name == "aten::mul"] == [32] * 3


def test_a_thousand_deep_and_a_million_wide():
    """More open calls than are remembered, and more names than the cache holds."""
    def nest(depth):
        with torch.profiler.record_function(f"level {depth}"):
            if depth:
                nest(depth - 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    try:
        with profiler.profile() as prof:
            nest(700)
            for i in range(2000):
                with torch.profiler.record_function(f"name {i}"):
                    pass
    finally:
        sys.setrecursionlimit(limit)
    found = [event for event in prof.events() if event.name.startswith(("level", "name"))]
    assert len(found) == 701 + 2000 and len({event.name for event in found}) == 2701
    level0 = next(event for event in found if event.name == "level 0")
    depth = 0
    while level0.cpu_parent is not None:
        level0, depth = level0.cpu_parent, depth + 1
    assert depth == 700


def test_scopes_that_overlap_keep_their_own_times():
    with profiler.profile() as prof:
        a, b = torch.profiler.record_function("first"), torch.profiler.record_function("second")
        a.__enter__()
        b.__enter__()
        torch.ones(2)
        a.__exit__(None, None, None)
        torch.ones(3).exp()
        b.__exit__(None, None, None)
        torch.ones(2).sinh()
    found = {event.name: event.time_range for event in prof.events()}
    assert found["first"].end < found["aten::exp"].start and found["second"].end > found["aten::exp"].end
    assert found["second"].end < found["aten::sinh"].start


def test_workers_of_a_data_loader_leave_their_traces(tmp_path):
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2)
    with profiler.profile() as prof:
        for batch, in loader:
            batch.sum()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    workers = [name for name in os.listdir(tmp_path) if name.startswith("worker_")]
    assert len(workers) == 2


def run(code, tmp_path, **environment):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, env=environment, capture_output=True, text=True,
                          timeout=300)


def test_a_scope_made_on_another_thread_than_it_begins_on_leaves_the_threads_their_names(tmp_path):
    """Gloo's collectives: PyTorch makes their scopes on the thread that asks for them and begins them on the one that works."""
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this PyTorch has no gloo")
    done = run("""
        import torch
        import torch.distributed as dist
        import mtprof.pytorch as profiler
        dist.init_process_group("gloo", init_method="file://" + __import__("os").path.abspath("store"), rank=0, world_size=1)
        with profiler.profile() as prof:
            for _ in range(4):
                dist.all_reduce(torch.ones(2))
                (torch.ones(2, requires_grad=True) * 2).sum().backward()
        main = next(event.thread for event in prof.events() if event.name == "aten::ones")
        backward = [event for event in prof.events() if event.name == "MulBackward0"]
        collectives = [event for event in prof.events() if event.name == "gloo:all_reduce"]
        print([event.fwd_thread == main for event in backward], [event.thread == main for event in collectives])
        dist.destroy_process_group()
    """, tmp_path, GLOO_SOCKET_IFNAME="lo")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == str([True] * 4) + " " + str([False] * 4)


def test_a_profile_into_a_spool_survives_a_kill(tmp_path):
    done = run("""
        import os, signal, torch
        import mtprof.pytorch as profiler
        with profiler.profile(spool="run.mtp"):
            torch.ones(2).atan()
            os.kill(os.getpid(), signal.SIGKILL)
    """, tmp_path)
    assert done.returncode == -9
    import mtprof
    assert "aten::atan" in {event.name for event in mtprof.Trace.open(str(tmp_path / "run.mtp")).events()}


def test_an_observer_of_its_own_sees_the_ops(tmp_path):
    observer = profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    observer.start()
    torch.ones(3).tanh()
    observer.stop()
    observer.unregister_callback()
    with open(tmp_path / "et.json", encoding="utf-8") as file:
        assert "aten::tanh" in {node["name"] for node in json.load(file)["nodes"]}


def test_mindtorch_and_pytorch_take_turns():
    mindtorch = pytest.importorskip("mindtorch_v2")
    with profiler.profile(with_modules=True) as mine:
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    with mindtorch.profiler.profile(with_modules=True) as other:
        mindtorch.nn.Linear(2, 2)(mindtorch.ones(1, 2))
    with profiler.profile() as both:
        mindtorch.ones(2).exp()
        torch.ones(2).exp()
    assert "aten::addmm" in names(mine) and "aten::addmm" in names(other)
    assert names(both).count("aten::exp") == 2


def test_the_meta_device_is_no_accelerator():
    with profiler.profile(record_shapes=True, profile_memory=True) as prof:
        torch.empty(4, 4, device="meta").mm(torch.empty(4, 4, device="meta"))
    mm = next(event for event in prof.profiler.kineto_results.experimental_event_tree() if event.name == "aten::mm")
    assert [tensor.device.type for tensor in mm.typed[1].inputs] == ["cpu", "cpu"]
    assert {event["device_type"] for event in prof.events()} == {"CPU"}


def test_results_compare_with_the_enums_of_pytorch():
    """A script that changed one import line still has its others."""
    from torch._C._profiler import RecordScope, _EventType
    from torch.autograd import DeviceType
    with profiler.profile() as prof:
        torch.ones(2).exp()
    assert all(event.device_type == DeviceType.CPU and event.device_type != DeviceType.CUDA for event in prof.events())
    assert all(event.device_type() == DeviceType.CPU for event in prof.profiler.kineto_results.events())
    exp = prof.profiler.kineto_results.experimental_event_tree()[-1]
    assert exp.tag == _EventType.TorchOp and exp.typed[0] != _EventType.PyCall and str(exp.tag) == str(_EventType.TorchOp)
    assert exp.typed[1].scope == RecordScope.FUNCTION and exp.typed[1].scope != RecordScope.USER_SCOPE
    assert {exp.tag: 1}[_EventType.TorchOp] == {exp.typed[1].scope: 1}[RecordScope.FUNCTION] == 1
    assert torch.profiler.ProfilerActivity.CPU in profiler.supported_activities()
    assert (torch.profiler.ProfilerActivity.CUDA in profiler.supported_activities()) == torch.cuda.is_available()
    assert prof.current_action == torch.profiler.ProfilerAction.RECORD
    assert profiler.schedule(wait=0, warmup=0, active=1)(0) == torch.profiler.ProfilerAction.RECORD_AND_SAVE
    assert exp.tag == 0 and exp.tag != "TorchOp" and not exp.tag == None  # noqa: E711


def test_the_modules_of_torch_profiler_know_our_events(capsys):
    """Not PyTorch's own, which refuse or overlook them."""
    from mtprof.pytorch._memory_profiler import MemoryProfile
    from mtprof.pytorch._pattern_matcher import report_all_anti_patterns
    from mtprof.pytorch._utils import BasicEvaluation
    from mtprof.pytorch.profiler import profile
    assert profile is profiler.profile is profiler.profiler.profile
    with profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
    report_all_anti_patterns(prof)
    assert "TorchTidy Report" in capsys.readouterr().out
    assert any(event.name == "aten::addmm" for event in BasicEvaluation(prof.profiler).events)
    assert MemoryProfile(prof.profiler.kineto_results).timeline
    assert profiler._pattern_matcher.report_all_anti_patterns is report_all_anti_patterns
    assert profiler._utils.BasicEvaluation is BasicEvaluation and profiler._memory_profiler.MemoryProfile is MemoryProfile


def test_that_kernels_are_missing_is_said_once_whatever_was_profiled_before():
    framework, said = type(profiler._FRAMEWORK)(), []
    framework.has_accelerator = lambda: True
    for activities in (mtprof.CPU, mtprof.CPU | mtprof.NPU, mtprof.CPU | mtprof.NPU):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            framework.attach({"activities": activities})
            framework.detach()
        said.append(sum("not the kernels" in str(warning.message) for warning in told))
    assert said == [0, 1, 0]


@pytest.mark.parametrize("options", [{"with_stack": True}, {"with_modules": True}])
def test_modules_and_optimizers_live_no_longer_for_being_profiled(options):
    """The numbers of those that came before stay: another module at the address of one that is gone is another module."""
    alive = []
    with profiler.profile(record_shapes=True, profile_memory=True, **options) as prof:
        for k in range(6):
            model = torch.nn.Linear(2 + k, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.ones(1, 2 + k)).sum().backward()
            optimizer.step()
            alive += [weakref.ref(model), weakref.ref(optimizer)]
            del model, optimizer
        gc.collect()
        assert [ref() for ref in alive] == [None] * len(alive)
    names = {event.name for event in prof.events()} | {row.key for row in prof.key_averages(include_python_functions=True)}
    assert {f"nn.Module: Linear_{k}" for k in range(6)} <= names
