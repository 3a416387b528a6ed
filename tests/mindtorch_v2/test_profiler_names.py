"""Public names, modules, signatures and options."""
import inspect
import json
import os
import subprocess
import sys

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd.profiler_util import EventList
from mindtorch_v2.profiler import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig,
    _KinetoProfile,
    profile,
    supported_activities,
)
from profiling import CPU, find, work

pytestmark = pytest.mark.usefixtures("each_device", "fresh_warnings")


def test_public_names_are_torchs():
    import mindtorch_v2.profiler as module

    assert set(module.__all__) == {"profile", "schedule", "supported_activities", "tensorboard_trace_handler", "ProfilerAction",
                                   "ProfilerActivity", "kineto_available", "DeviceType", "record_function", "ExecutionTraceObserver"}
    for name in ("itt", "_KinetoProfile", "_ExperimentalConfig", "RecordScope", "KinetoStepTracker", *module.__all__):
        assert hasattr(module, name)
    for name in ("profile", "record_function", "emit_itt", "emit_nvtx", "EventList", "FunctionEvent", "FunctionEventAvg"):
        assert hasattr(torch.autograd.profiler, name)
    assert torch.profiler.kineto_available() is True and ProfilerActivity.CPU in supported_activities()
    assert [a.value for a in ProfilerAction] == [0, 1, 2, 3, 4] and int(module.RecordScope.USER_SCOPE) == 7


def test_modules_are_real_files():
    import mindtorch_v2.profiler.common as common
    import mindtorch_v2.profiler.profiler as module

    for real in (module, common, torch.autograd.profiler):
        assert real.__file__.endswith(".py")
        assert "class " in inspect.getsource(real)
    assert "on_trace_ready" in inspect.getsource(profile)


def test_nothing_depends_on_mindspore():
    import mindtorch_v2.profiler as module
    import mtprof

    for base, _, files in (step for home in (module, mtprof) for step in os.walk(os.path.dirname(home.__file__))):
        for name in files:
            if name.endswith(".py"):
                with open(os.path.join(base, name), encoding="utf-8") as file:
                    assert "mindspore" not in file.read().lower()
    assert "mindspore" not in sys.modules


def test_each_module_can_be_imported_first():
    for module in ("mindtorch_v2.autograd.profiler", "mindtorch_v2.autograd.profiler_util", "mindtorch_v2.profiler.common",
                   "mindtorch_v2.profiler.profiler", "mindtorch_v2.profiler"):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True, timeout=60)


def test_device_types_and_scopes():
    assert DeviceType.CPU == "CPU" and DeviceType.CUDA is DeviceType.NPU and int(DeviceType.CPU) == 0
    assert str(DeviceType.CPU) == "DeviceType.CPU" and json.dumps(DeviceType.NPU) == '"NPU"' and {DeviceType.CPU: 1}["CPU"] == 1


def test_experimental_config():
    config = _ExperimentalConfig(verbose=True, trace_only=True)
    assert config.verbose and config.trace_only and config.custom_profiler_config == ""
    with pytest.raises(TypeError):
        _ExperimentalConfig(nonsense=1)
    with profile(activities=CPU, experimental_config=config) as prof:
        pass
    with pytest.raises(RuntimeError, match="trace_only=True"):
        prof.events()
    with pytest.warns(UserWarning, match="Disabling trace_only"):
        assert profile(activities=CPU, with_stack=True, experimental_config=config).experimental_config.trace_only is False
    assert config.trace_only


def test_use_cuda_is_deprecated():
    with pytest.warns(FutureWarning, match="`use_cuda` is deprecated, use `activities` argument instead"):
        assert profile(activities=CPU, use_cuda=True).activities == {ProfilerActivity.CPU, ProfilerActivity.NPU}


def test_kineto_profile_has_no_steps(x):
    prof = _KinetoProfile(activities=CPU)
    prof.start()
    work(x)
    prof.stop()
    assert find(prof.events(), "aten::add") and not hasattr(prof, "step")


def test_autograd_profiler_by_itself(x):
    with torch.autograd.profiler.profile(record_shapes=True) as prof:
        assert str(prof) == "<unfinished torch.autograd.profile>"
        work(x)
    assert "aten::add" in str(prof) and prof.function_events and prof.self_cpu_time_total > 0
    assert prof.key_averages().table() and prof.total_average().count >= 2 and "aten::add" in prof.table()
    with pytest.raises(RuntimeError, match="Profiler context manager is not reentrant"):
        with prof:
            pass
    with torch.autograd.profiler.profile(enabled=False) as nothing:
        work(x)
    assert nothing is None


def test_emitters_of_other_tools_do_nothing_without_them(x):
    """With a tool: tests/unit/test_emit.py."""
    emitters = ((torch.autograd.profiler.emit_itt, "ITT"), (torch.autograd.profiler.emit_nvtx, "NVTX"))
    for kind, word in emitters:
        with kind(record_shapes=True) as emitter:
            work(x)
            for other, _ in emitters:
                with pytest.raises(RuntimeError, match="Profiler is already enabled on this thread."):
                    other().__enter__()
        with pytest.raises(RuntimeError, match=f"{word} annotation context manager is not reentrant"):
            emitter.__enter__()
        with kind(enabled=False) as nothing, kind():
            assert nothing is None
        assert kind(enabled=False).__exit__(None, None, None) is None
    assert torch.profiler.itt.is_available() is True
    assert torch.profiler.itt.mark("m") is torch.profiler.itt.range_push("m") is torch.profiler.itt.range_pop() is None
    with torch.profiler.itt.range("{} of {b}", 1, b=2):
        work(x)
    with pytest.raises(TypeError):
        torch.profiler.itt.range_push(None)
    with torch.profiler.profile() as prof, torch.autograd.profiler.emit_itt():
        work(x)
    assert find(prof.events(), "aten::add")


def test_step_tracker():
    tracker = torch.profiler.KinetoStepTracker
    tracker.init_step_count("mine")
    begun = tracker.current_step()
    assert tracker.increment_step("mine") == begun + 1 == tracker.current_step()
    assert tracker.erase_step_count("mine") and not tracker.erase_step_count("mine")


def test_help_and_signatures():
    assert "on_trace_ready" in profile.__doc__ and profile.step.__doc__ and EventList.table.__doc__
    parameters = list(inspect.signature(profile.__init__).parameters)[1:]
    assert parameters == ["activities", "schedule", "on_trace_ready", "record_shapes", "profile_memory", "with_stack", "with_flops",
                          "with_modules", "experimental_config", "execution_trace_observer", "acc_events", "use_cuda",
                          "custom_trace_id_callback", "post_processing_timeout_s", "spool", "buffer_bytes", "when_full"]


def test_stats_count_events_once_they_are_requested():
    with torch.profiler.profile() as prof:
        torch.ones(3).sin().sum()
    stats = prof._stats()
    assert (stats.number_of_events, stats.function_events_build_tree_call_duration_us) == (0, 0)
    events = prof.events()
    assert stats.number_of_events == len(events) > 0 and stats.function_events_build_tree_call_duration_us > 0
    assert "number_of_events=%d," % len(events) in repr(stats)
