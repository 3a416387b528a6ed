"""Schedules, steps, cycles, sessions, trace ids and observers."""
import gc
import gzip
import json
import os
import re
import threading
import time
import types
import warnings

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import ExecutionTraceObserver, ProfilerAction, ProfilerActivity, profile, schedule
from profiling import CPU, exported, find, named, steps, work

pytestmark = pytest.mark.usefixtures("each_device", "fresh_warnings")


# ------------------------------------------------------------------------------------------- schedules


def test_with_a_schedule_exactly_the_active_step_is_recorded():
    prof, ready = steps(5, schedule=schedule(wait=1, warmup=1, active=1, repeat=1))
    assert ready == [{2}]
    assert {e["step"] for e in prof.events()} == {2}


def test_threads_step_one_after_the_other():
    cycles = []

    def ready(prof):
        time.sleep(0.001)  # lets the others run
        cycles.append(prof.step_num)

    failed = []

    def steps():
        try:
            for _ in range(20):
                prof.step()
        except Exception as error:
            failed.append(error)

    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=ready) as prof:
        threads = [threading.Thread(target=steps) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == [] and prof.step_num == 80 and cycles == list(range(2, 81, 2))


def test_steps_are_counted_without_a_schedule():
    prof, _ = steps(3)
    assert {e["step"] for e in find(prof.events(), "aten::add")} == {0, 1, 2}
    assert steps(0)[0].trace.info()["steps"] == 1
    assert prof.trace.info()["steps"] == 3           # the last step() began an empty one


def test_events_are_cleared_between_cycles():
    _, ready = steps(6, schedule=schedule(wait=0, warmup=1, active=1, repeat=3))
    assert ready == [{1}, {3}, {5}]


def test_a_second_cycle_without_acc_events_warns_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steps(6, schedule=schedule(wait=0, warmup=1, active=1, repeat=3))
    texts = [str(w.message) for w in caught]
    assert texts == ["Warning: Profiler clears events at the end of each cycle. Only events from the current cycle will be "
                     "reported. To keep events across cycles, set acc_events=True."]


@pytest.mark.parametrize("wrong", [
    {"wait": -1}, {"warmup": -1}, {"active": 0}, {"active": -1}, {"repeat": -1}, {"skip_first": -1}, {"skip_first_wait": -1},
    {"wait": 1.5}, {"active": "1"}, {"warmup": None},
])
def test_schedule_checks_its_numbers(wrong):
    for kind in (ValueError, AssertionError):
        with pytest.raises(kind, match="Invalid profiler schedule arguments"):
            schedule(**{"wait": 1, "warmup": 1, "active": 1, **wrong})


def test_schedule_without_warmup_warns_and_a_negative_step_is_an_error():
    with pytest.warns(UserWarning, match="won't be using warmup"):
        made = schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError, match="Step must be non-negative. Got -1."):
        made(-1)


def test_a_schedule_that_cannot_be_called_is_a_type_error():
    with pytest.raises(TypeError):
        profile(activities=CPU, schedule=3)


@pytest.mark.parametrize("options, expected", [
    (dict(wait=1, warmup=1, active=2, repeat=1), "NWRSNN"),
    (dict(wait=0, warmup=1, active=1), "WSWSWS"),
    (dict(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1), "NWSNNW"),
    (dict(wait=0, warmup=2, active=1, repeat=2), "WWSWWS"),
])
def test_schedule_gives_torchs_actions(options, expected):
    letters = {"N": ProfilerAction.NONE, "W": ProfilerAction.WARMUP, "R": ProfilerAction.RECORD, "S": ProfilerAction.RECORD_AND_SAVE}
    made = schedule(**options)
    assert [made(i) for i in range(len(expected))] == [letters[c] for c in expected]


class Watched(profile):
    def __init__(self, **options):
        self.calls = []
        super().__init__(activities=CPU, on_trace_ready=lambda p: self.calls.append("R"), **options)

    def prepare_trace(self):
        self.calls.append("P")
        super().prepare_trace()

    def start_trace(self):
        self.calls.append("S")
        super().start_trace()

    def stop_trace(self):
        self.calls.append("X")
        super().stop_trace()


ACTIONS = {"N": ProfilerAction.NONE, "W": ProfilerAction.WARMUP, "R": ProfilerAction.RECORD, "S": ProfilerAction.RECORD_AND_SAVE}


@pytest.mark.parametrize("actions, calls", [
    ("NN", ["", "", ""]), ("NW", ["", "P", "SX"]), ("NR", ["", "PS", "XR"]), ("NS", ["", "PS", "XR"]),
    ("WN", ["P", "SX", ""]), ("WW", ["P", "", "SX"]), ("WR", ["P", "S", "XR"]), ("WS", ["P", "S", "XR"]),
    ("RN", ["PS", "X", ""]), ("RW", ["PS", "X", "SX"]), ("RR", ["PS", "", "XR"]), ("RS", ["PS", "", "XR"]),
    ("SN", ["PS", "XR", ""]), ("SW", ["PS", "XRP", "SX"]), ("SR", ["PS", "XRPS", "XR"]), ("SS", ["PS", "XRPS", "XR"]),
])
def test_the_state_machine_is_torchs(actions, calls):
    prof = Watched(schedule=lambda step: ACTIONS[actions[step]])
    seen = []
    wrong = {"WN": "WARMUP followed by NONE", "RN": "RECORD followed by NONE", "RW": "RECORD followed by WARMUP"}.get(actions)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for act in (prof.start, prof.step, prof.stop):
            act()
            seen.append("".join(prof.calls))
            prof.calls.clear()
    assert seen == calls
    assert [str(w.message) for w in caught if "Incorrect" in str(w.message)] == ([f"Incorrect schedule: {wrong}"] if wrong else [])


def test_a_schedule_that_never_recorded_says_so():
    with pytest.warns(UserWarning, match="records from step 3 on, and step\\(\\) was called 1 times"):
        steps(1, schedule=schedule(wait=2, warmup=1, active=1))


def test_step_annotations_have_torchs_names(tmp_path):
    prof, _ = steps(4, schedule=schedule(wait=1, warmup=1, active=2))
    assert len(find(prof.events(), "ProfilerStep*")) == 2
    assert [e.trace_name for e in find(prof.events(), "ProfilerStep*")] == ["ProfilerStep#2", "ProfilerStep#3"]
    assert named(exported(prof, tmp_path), "ProfilerStep#2")
    assert not find(steps(2)[0].events(), "ProfilerStep*")


def test_device_stopped_is_not_for_schedules():
    with pytest.raises(ValueError, match="DEVICE_STOPPED"):
        profile(activities=CPU, schedule=lambda step: ProfilerAction.DEVICE_STOPPED)


# --------------------------------------------------------------------------------------------- sessions


def test_a_second_active_session_is_an_error(x):
    with profile(activities=CPU) as prof:
        with pytest.raises(RuntimeError, match="^another profiler session is already active$"):
            profile(activities=CPU).start()
        with pytest.raises(RuntimeError, match="^another profiler session is already active$"):
            with torch.autograd.profiler.profile():
                pass
        work(x)
    assert find(prof.events(), "aten::add")
    with profile(activities=CPU):
        pass


def test_a_forgotten_profile_blocks_no_other():
    prof = profile(activities=CPU)
    prof.start()
    del prof
    gc.collect()
    with profile(activities=CPU):
        pass


def test_an_exception_in_the_block_is_passed_on_and_the_trace_is_kept(x):
    with pytest.raises(KeyError):
        with profile(activities=CPU) as prof:
            work(x)
            raise KeyError("mine")
    assert find(prof.events(), "aten::add")


def test_attributes_of_a_profile():
    prof = profile(activities=CPU)
    expected = {"activities": {ProfilerActivity.CPU}, "on_trace_ready": None, "step_num": 0, "current_action": ProfilerAction.RECORD,
                "record_steps": False, "step_rec_fn": None, "profiler": None, "mem_tl": None, "preset_metadata": {},
                "record_shapes": False, "profile_memory": False, "with_stack": False, "with_flops": False, "with_modules": False,
                "experimental_config": None, "use_device": None, "custom_trace_id_callback": None,
                "execution_trace_observer": None, "has_cudagraphs": False, "acc_events": False}
    assert {name: getattr(prof, name) for name in expected} == expected
    assert callable(prof.schedule) and (ProfilerAction.NONE, ProfilerAction.RECORD) in prof.action_map
    assert profile(activities=["NPU"]).use_device == "npu"
    assert profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=1)).record_steps is True


@pytest.mark.parametrize("call, text", [
    (lambda p: p.start_trace(), "starting trace"), (lambda p: p.stop_trace(), "stopping trace"),
    (lambda p: p.export_chrome_trace("x"), "exporting chrome trace"), (lambda p: p.export_stacks("x"), "exporting stacks"),
    (lambda p: p.key_averages(), "getting key averages"), (lambda p: p.events(), "accessing events"),
    (lambda p: p.stop(), "stopping trace"),
])
def test_use_before_start_is_an_assertion_error(call, text):
    with pytest.raises(AssertionError, match=f"^Profiler must be initialized before {text}$"):
        call(profile(activities=CPU))


def test_trace_ids():
    prof = profile(activities=CPU)
    assert prof.get_trace_id() is None
    prof.prepare_trace()
    assert re.fullmatch("[0-9A-F]{32}", prof.get_trace_id())
    prof.start_trace()
    prof.stop_trace()
    ids = iter(["one", "two"])
    prof = profile(activities=CPU, custom_trace_id_callback=lambda: next(ids))
    for expected in ("one", "two"):
        prof.start()
        assert prof.get_trace_id() == expected
        prof.stop()
    prof.set_custom_trace_id_callback(lambda: "three")
    with prof:
        pass
    assert prof.get_trace_id() == "three"


@pytest.mark.parametrize("text", ["ü" * 64, "a\0b", "\ud800"])
def test_a_trace_id_that_a_trace_cannot_have_is_refused(text):
    with pytest.raises(ValueError, match="the trace id must be at most 127 bytes|can't encode"):
        profile(activities=CPU, custom_trace_id_callback=lambda: text).start()
    with profile(activities=CPU, custom_trace_id_callback=lambda: "ü" * 63) as prof:
        pass
    assert prof.get_trace_id() == prof.profiler._session.trace_id == "ü" * 63


def test_an_error_of_the_trace_id_callback_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        profile(activities=CPU, custom_trace_id_callback=lambda: 1 / 0).start()
    with profile(activities=CPU):
        pass


def test_the_trace_id_is_in_the_trace(x, tmp_path):
    with profile(activities=CPU, custom_trace_id_callback=lambda: "my id") as prof:
        work(x)
    assert exported(prof, tmp_path)["trace_id"] == "my id"


def test_the_observer_gets_start_and_stop(x):
    calls = []
    observer = types.SimpleNamespace(start=lambda: calls.append("start"), stop=lambda: calls.append("stop"),
                                     cleanup=lambda: calls.append("cleanup"))
    with profile(activities=CPU, execution_trace_observer=observer):
        work(x)
    assert calls == ["start", "stop", "cleanup"]


@pytest.mark.parametrize("name", ["et.json", "et.json.gz"])
def test_execution_trace_observer_writes_chakra_json(x, tmp_path, name):
    path = str(tmp_path / name)
    observer = ExecutionTraceObserver()
    assert observer.get_output_file_path() is None and not observer.is_registered
    assert observer.register_callback(path) is observer
    with profile(activities=CPU, record_shapes=True, execution_trace_observer=observer) as prof:
        assert observer.is_running()
        work(x)
    assert not observer.is_running() and not observer.is_registered and observer.get_output_file_path() == path
    with (gzip.open if name.endswith("gz") else open)(path, "rt") as file:
        trace = json.load(file)
    assert trace["schema"] == "1.1.1-chakra.0.0.4" and trace["pid"] == os.getpid()
    nodes = {node["name"]: node for node in trace["nodes"]}
    assert {"aten::add", "aten::sum"} <= set(nodes)
    rf = next(a["value"] for a in nodes["aten::add"]["attrs"] if a["name"] == "rf_id")
    assert rf == named(exported(prof, tmp_path), "aten::add")[0]["args"]["Record function id"]


def test_execution_trace_observer_by_itself_and_over_cycles(x, tmp_path):
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "a.json"))
    for _ in range(2):
        observer.start()
        work(x)
        observer.stop()
        work(x)
    observer.unregister_callback()
    trace = json.loads((tmp_path / "a.json").read_text())
    assert [n["name"] for n in trace["nodes"]].count("aten::add") == 2
    assert len({n["id"] for n in trace["nodes"]}) == len(trace["nodes"])
    ExecutionTraceObserver().register_callback(str(tmp_path / "b.json")).unregister_callback()
    assert json.loads((tmp_path / "b.json").read_text())["schema"].startswith("1.1.1")


def test_the_environment_asks_for_an_execution_trace(x, monkeypatch):
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    prof = profile(activities=CPU)
    path = prof.execution_trace_observer.get_output_file_path()
    with prof:
        work(x)
    assert "aten::add" in open(path).read()
    os.remove(path)
