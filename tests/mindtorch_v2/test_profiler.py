"""mindtorch_v2.profiler against the user's contract; tests that the contract names have these names."""
import gzip
import json
import os
import re
import types
import warnings

import pytest

import mindtorch_v2 as torch
import mtprof
from mindtorch_v2.profiler import ProfilerActivity, profile, record_function, schedule
from profiling import CPU, changed, exported, find, here, named, needs_npu, steps, work
from report_file import Report as report

pytestmark = pytest.mark.usefixtures("each_device", "fresh_warnings")


# ------------------------------------------------------------------------------- batch 1: activities, life


@pytest.mark.parametrize("given, meant", [
    ("cpu", "CPU"), ("CPU", "CPU"), ("Npu", "NPU"), ("CUDA", "NPU"), ("cuda", "NPU"), ("gpu", "NPU"), ("GPU", "NPU"),
    (ProfilerActivity.CPU, "CPU"), (ProfilerActivity.NPU, "NPU"), (ProfilerActivity.CUDA, "NPU"), (ProfilerActivity.GPU, "NPU"),
])
def test_activities_are_enums_or_names_in_any_case(given, meant):
    assert profile(activities=[given]).activities == {ProfilerActivity[meant]}


@pytest.mark.parametrize("wrong", ["tpu", "", "CPU,NPU", 3, None, object(), "XPU", ProfilerActivity.XPU, ProfilerActivity.PrivateUse1])
def test_profiler_rejects_unknown_activity(wrong):
    with pytest.raises(ValueError):
        profile(activities=[wrong])


def test_no_activity_at_all_is_an_error():
    with pytest.raises(ValueError):
        profile(activities=[])
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[])


def test_an_activity_given_twice_is_an_error():
    with pytest.raises(ValueError, match="specified more than once"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CPU])


def test_activities_may_be_filtered_by_a_dict(x):
    prof = profile(activities=[{ProfilerActivity.CPU: ["CPU_OP"]}])
    assert prof.activity_filters == {ProfilerActivity.CPU: {"CPU_OP"}}
    with profile(activities=[{ProfilerActivity.CPU: []}]) as prof:
        work(x)
    assert len(prof.events()) == 0


def test_on_trace_ready_receives_profiler_instance(x):
    got = []
    with profile(activities=CPU, on_trace_ready=lambda *a: got.append(a)) as prof:
        work(x)
    assert got == [(prof,)]


def test_on_trace_ready_type_error_from_callback_is_not_swallowed(x):
    calls = []

    def wrong(prof):
        calls.append(prof)
        raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine$"):
        with profile(activities=CPU, on_trace_ready=wrong):
            work(x)
    assert len(calls) == 1
    with profile(activities=CPU):  # nothing is left behind
        pass


@pytest.mark.parametrize("options", [dict(wait=0, warmup=1, active=1), dict(wait=1, warmup=1, active=1), dict(wait=0, warmup=0, active=1)], ids=str)
def test_an_error_of_the_callback_within_step_is_what_the_user_sees(options):
    calls = []

    def wrong(prof):
        calls.append(prof.step_num)
        raise TypeError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TypeError, match="^mine$"):
            with profile(activities=CPU, on_trace_ready=wrong, schedule=schedule(**options)) as prof:
                for _ in range(6):
                    prof.step()
    assert len(calls) == 1 and not mtprof.is_profiler_enabled()
    with profile(activities=CPU):
        pass


def test_steps_continue_after_an_error_of_the_callback():
    calls = []

    def wrong(prof):
        calls.append(prof.step_num)
        raise TypeError("mine")

    with profile(activities=CPU, on_trace_ready=wrong, schedule=schedule(wait=0, warmup=1, active=1)) as prof:
        for _ in range(4):
            try:
                prof.step()
            except TypeError:
                pass
    assert calls == [2, 4]


def test_an_observer_that_fails_leaves_nothing_behind(x):
    observer = types.SimpleNamespace(start=lambda: 1 / 0, stop=lambda: None, cleanup=lambda: None)
    with pytest.raises(ZeroDivisionError):
        profile(activities=CPU, execution_trace_observer=observer).start()
    with profile(activities=CPU):
        pass


def test_starting_twice_is_an_error_and_loses_nothing(x):
    prof = profile(activities=CPU)
    prof.start()
    x + x
    with pytest.raises(RuntimeError, match="another profiler session is already active"):
        prof.start()
    prof.stop()
    assert find(prof.events(), "aten::add")


def test_by_hand_and_then_stop(x):
    prof = profile(activities=CPU)
    prof.prepare_trace()
    prof.start_trace()
    work(x)
    prof.stop()
    assert find(prof.events(), "aten::add") and not mtprof.is_profiler_enabled()


def test_on_trace_ready_is_called_when_stopping_while_recording():
    got = []
    with profile(activities=CPU, on_trace_ready=got.append, schedule=schedule(wait=0, warmup=1, active=5)) as prof:
        prof.step()
        prof.step()
    assert got == [prof]


def test_a_second_stop_does_nothing(x):
    got = []
    prof = profile(activities=CPU, on_trace_ready=got.append)
    prof.start()
    prof.stop()
    prof.stop()
    assert len(got) == 1


def test_export_chrome_trace_required_fields_and_pid(x, tmp_path):
    with profile(activities=CPU) as prof:
        work(x)
    first = exported(prof, tmp_path)["traceEvents"][0]
    assert {"name", "ph", "ts", "dur", "pid", "tid"} <= set(first)
    assert first["pid"] == os.getpid()


def test_record_function_is_noop_when_profiler_inactive():
    assert not mtprof.is_profiler_enabled()
    with record_function("nobody sees it") as scope:
        pass
    assert isinstance(scope, record_function)
    with profile(activities=CPU) as prof:
        pass
    assert not find(prof.events(), "nobody sees it")


def test_profiler_step_requires_active_session():
    prof = profile(activities=CPU)
    with pytest.raises(RuntimeError):
        prof.step()
    with prof:
        prof.step()
    with pytest.raises(RuntimeError):
        prof.step()
    assert prof.step_num == 1


# ---------------------------------------------------------------------------------- batch 3: shapes, stacks


def test_profiler_record_shapes_captures_tensor_shapes(x):
    with profile(activities=CPU, record_shapes=True) as prof:
        torch.cat([x, x])
        torch.add(x, other=x)
    events = prof.events()
    assert find(events, "aten::add")[0]["input_shapes"][:2] == [[2, 3], [2, 3]]
    assert find(events, "aten::cat")[0]["input_shapes"][0] == [[2, 3], [2, 3]]
    json.dumps([e["input_shapes"] for e in events if "input_shapes" in e])


def test_record_shapes_keeps_no_tensor_alive(x):
    def allocated():
        return torch._C._memory_stats(here())["allocated"]

    before = allocated()
    with profile(activities=CPU, record_shapes=True) as prof:
        y = torch.ones(1000)
        torch.add(y, y)
        del y
        assert allocated() == before
    assert find(prof.events(), "aten::add")


def test_profiler_with_stack_captures_frame_metadata(x):
    with profile(activities=CPU, with_stack=True) as prof:
        with record_function("scope"):
            x + x
    for name in ("aten::add", "scope"):
        stack = find(prof.events(), name)[0]["stack"]
        assert re.fullmatch(r".*test_profiler\.py:\d+:test_profiler_with_stack_captures_frame_metadata", stack[0])
        assert not any("mindtorch_v2/profiler" in frame or "mtprof/profiler" in frame for frame in stack)


def test_profiler_default_flags_do_not_emit_shape_or_stack(x, tmp_path):
    with profile(activities=CPU) as prof:
        with record_function("scope"):
            work(x)
    for event in prof.events():
        assert "input_shapes" not in event and "stack" not in event
        assert not any("memory" in key for key in event.keys())
    for event in exported(prof, tmp_path)["traceEvents"]:
        assert not {"input_shapes", "stack", "Input Dims"} & set(event.get("args", {}))


def test_export_chrome_trace_includes_shape_and_stack_args_when_enabled(x, tmp_path):
    with profile(activities=CPU, record_shapes=True, with_stack=True) as prof:
        x + x
    args = named(exported(prof, tmp_path), "aten::add")[0]["args"]
    assert args["input_shapes"][:2] == [[2, 3], [2, 3]]
    assert args["Input Dims"][:2] == [[2, 3], [2, 3]]
    assert "test_profiler.py" in args["stack"][0]


def test_with_stack_shows_python_functions_and_modules(x, tmp_path):
    model = torch.nn.Linear(3, 2)
    with profile(activities=CPU, with_stack=True) as prof:
        model(x)
    names = [e["name"] for e in exported(prof, tmp_path)["traceEvents"] if e.get("cat") == "python_function"]
    assert "nn.Module: Linear_0" in names
    assert any(re.search(r"linear\.py\(\d+\): forward", name) for name in names)


def test_with_modules_shows_modules_alone(x, tmp_path):
    with profile(activities=CPU, with_modules=True) as prof:
        torch.nn.Linear(3, 2)(x)
    names = [e["name"] for e in exported(prof, tmp_path)["traceEvents"] if e.get("cat") == "python_function"]
    assert names == ["nn.Module: Linear_0"]


def test_backward_ops_have_the_stack_of_their_forward_op():
    w = torch.ones(2, 2, requires_grad=True)
    with profile(activities=CPU, with_stack=True) as prof:
        y = (w * w).sum()
        y.backward()
    forward = find(prof.events(), "aten::mul")[0].stack
    backward = find(prof.events(), "MulBackward0")[0].stack
    assert forward and backward == forward


# ----------------------------------------------------------------------------------- batch 6: NPU memory


def test_profiler_profile_memory_disabled_has_no_npu_memory_fields(x, tmp_path):
    with profile(activities=["CPU", "NPU"] if torch.npu.is_available() else CPU) as prof:
        work(x.to("npu") if torch.npu.is_available() else x)
    assert not any("npu_memory" in key for event in prof.events() for key in event.keys())
    assert "npu_memory_allocated" not in json.dumps(exported(prof, tmp_path))


def _npu_memory(event_or_args):
    before, after = (event_or_args[f"npu_memory_allocated_{when}"] for when in ("before", "after"))
    assert event_or_args["npu_memory_allocated_delta"] == after - before
    assert event_or_args["device_type"] == "NPU"
    return after - before


@needs_npu
def test_profiler_profile_memory_adds_npu_memory_fields():
    before = torch.npu.memory_allocated()
    with profile(activities=["CPU", "NPU"], profile_memory=True) as prof:
        x = torch.ones(256, device="npu")  # kept: memory freed between ops belongs to none of them
        y = x + 1
    events = [e for e in prof.events() if "npu_memory_allocated_before" in e]
    assert events and sum(_npu_memory(e) for e in events if e.cpu_parent is None) == torch.npu.memory_allocated() - before
    assert x is not None and y is not None


@needs_npu
def test_export_chrome_trace_includes_npu_memory_fields_when_enabled(tmp_path):
    with profile(activities=["CPU", "NPU"], profile_memory=True) as prof:
        torch.ones(256, device="npu") + 1
    assert [_npu_memory(e["args"]) for e in named(exported(prof, tmp_path), "aten::add")]


@needs_npu
def test_npu_memory_is_read_only_while_recording(monkeypatch):
    reads = []
    read = torch.npu.memory_allocated
    monkeypatch.setattr(torch.npu, "memory_allocated", lambda *a: reads.append(1) or read(*a))
    prof = profile(activities=["NPU"], profile_memory=True, schedule=schedule(wait=5, warmup=1, active=1))
    with prof:
        torch.ones(2, device="npu")
    assert not reads


# --------------------------------------------------------------------------------------- batch 16: the API


def test_profile_exposes_acc_events_flag_and_defaults_false():
    assert profile(activities=CPU).acc_events is False


def test_profile_accepts_acc_events_init_kwarg():
    for acc, cycles in ((True, {1, 3}), (False, {3})):
        prof, ready = steps(5, schedule=schedule(wait=0, warmup=1, active=1, repeat=2), acc_events=acc)
        assert prof.acc_events is acc
        assert ready[-1] == cycles


def test_profile_add_metadata_requires_string_value(tmp_path):
    with profile(activities=CPU) as prof:
        for wrong in (1, None, {"a": 1}, 1.5):
            with pytest.raises(AttributeError):
                prof.add_metadata("k", wrong)
        prof.add_metadata("quoted", 'a "b" \\ c')
        work(torch.ones(1))
    assert exported(prof, tmp_path)["quoted"] == 'a "b" \\ c'


def test_profile_add_metadata_json_accepts_raw_string(x, tmp_path):
    with profile(activities=CPU) as prof:
        prof.add_metadata_json("list", "[1, 2]")
        prof.add_metadata_json("not json", "{oh")
        work(x)
    trace = exported(prof, tmp_path)
    assert trace["list"] == [1, 2] and trace["not json"] == "{oh"
    shown = [e["args"]["metadata"] for e in trace["traceEvents"] if e["ph"] == "M" and "metadata" in e["args"]]
    assert shown and shown[0]["list"] == [1, 2]


def test_profile_preset_metadata_json_available_before_start(x, tmp_path):
    prof = profile(activities=CPU)
    prof.preset_metadata_json("mine", '{"a": 1}')
    assert prof.preset_metadata == {"mine": '{"a": 1}'}
    with prof:
        work(x)
    assert exported(prof, tmp_path)["mine"] == {"a": 1}


def test_metadata_of_the_wrong_kind_does_not_replace_the_files_own(x, tmp_path):
    with profile(activities=CPU) as prof:
        work(x)
        prof.add_metadata("distributedInfo", "none")
        prof.add_metadata_json("deviceProperties", "{")
        prof.add_metadata_json("schemaVersion", "7")
    trace = exported(prof, tmp_path)
    assert trace["distributedInfo"] == {"backend": "", "rank": 0, "world_size": 1}
    assert trace["user.distributedInfo"] == "none" and trace["user.deviceProperties"] == "{"
    assert isinstance(trace["deviceProperties"], list) and trace["schemaVersion"] == 7


def test_metadata_before_and_after_recording(x, tmp_path):
    prof = profile(activities=CPU)
    prof.add_metadata("early", "bird")
    with prof:
        work(x)
    prof.add_metadata("late", 'a "quote"')
    prof.add_metadata_json("late json", "[NaN]")
    for name in ("t.json", "t.json.gz"):
        trace = exported(prof, tmp_path, name)
        assert (trace["early"], trace["late"], trace["late json"]) == ("bird", 'a "quote"', "[NaN]")
    with prof:
        work(x)
    assert "late" not in exported(prof, tmp_path)


def test_metadata_from_the_callback_is_in_its_trace(tmp_path):
    traces = []

    def ready(prof):
        prof.add_metadata("step", str(prof.step_num))
        traces.append(exported(prof, tmp_path)["step"])

    steps(4, schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=ready)
    assert traces == ["2", "4"]


def test_flags_are_metadata(x, tmp_path):
    with profile(activities=CPU, record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_modules=True) as prof:
        work(x)
    trace = exported(prof, tmp_path)
    assert [trace[f] for f in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")] == [1] * 5


def test_profile_toggle_collection_dynamic_blocks_and_restores_cpu_collection(x):
    prof = profile(activities=CPU)
    prof.toggle_collection_dynamic(False, CPU)  # before the profiler exists: no effect
    with prof:
        x + x
        prof.toggle_collection_dynamic(False, CPU)
        x * x
        prof.toggle_collection_dynamic(True, ["cpu"])
        x - x
    assert [e.name for e in prof.events()] == ["aten::add", "aten::sub"]


@pytest.mark.parametrize("flags", [{}, {"record_shapes": True}, {"record_shapes": True, "profile_memory": True}])
def test_profile_export_memory_timeline_requires_memory_related_flags(flags, tmp_path):
    with profile(activities=CPU, **flags) as prof:
        pass
    with pytest.raises(ValueError, match="with_stack=True required for memory profiling.") as error:
        prof.export_memory_timeline(str(tmp_path / "m.json"))
    if not flags:
        assert str(error.value) == "record_shapes=True, profile_memory=True, with_stack=True required for memory profiling."


@pytest.mark.parametrize("name", ["m.json", "m.json.gz", "m.raw.json.gz", "m.html"])
def test_memory_timeline_has_its_forms(name, tmp_path):
    model = torch.nn.Linear(64, 64)
    with profile(activities=sorted({"cpu", here()}), record_shapes=True, profile_memory=True, with_stack=True) as prof:
        model(torch.ones(8, 64)).sum().backward()
    path = str(tmp_path / name)
    prof.export_memory_timeline(path)  # of the accelerator, if recorded
    opener = gzip.open if name.endswith(".gz") else open
    text = opener(path, "rt", encoding="utf-8").read()
    if name.endswith("html"):
        page = report(path)
        _, memory = page.columns("memory-0", after_json=True)
        assert "http:" not in page.page and "https:" not in page.page and set(page.blobs) == {"head-0", "memory-0"}
        assert max(device["summary"]["peak"]["bytes"] for device in memory["devices"]) >= 8 * 64 * 4
        return
    data = json.loads(text)
    if "raw" in name:
        assert data and all(len(row) == 4 and row[1] in (1, 2, 3, 4) for row in data)
    else:
        times, sizes = data
        assert len(times) == len(sizes) and all(len(row) == 9 and row[0] == 0 for row in sizes)
        assert max(sum(row) for row in sizes) >= 8 * 64 * 4
    assert prof.mem_tl is not None


# ------------------------------------------------------------------------ batch 20: averages as a trace


def test_key_averages_export_chrome_trace_writes_valid_json(x, tmp_path):
    with profile(activities=CPU) as prof:
        with record_function('"quoted" \u00e9 \\ \n'):
            work(x)
    texts = []
    for i in range(2):
        prof.key_averages().export_chrome_trace(str(tmp_path / f"{i}.json"))
        texts.append((tmp_path / f"{i}.json").read_bytes())
    assert texts[0] == texts[1]
    assert '"quoted" \u00e9 \\ \n' in [e["name"] for e in json.loads(texts[0].decode("utf-8"))["traceEvents"]]


def test_key_averages_export_chrome_trace_contains_row_entries(x, tmp_path):
    with profile(activities=CPU) as prof:
        work(x)
        work(x)
    rows = prof.key_averages()
    for rows in (rows, changed(prof.key_averages())):
        rows.export_chrome_trace(str(tmp_path / "rows.json"))
        events = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))["traceEvents"]
        assert [e["name"] for e in events] == [row.key for row in rows]
        for event, row in zip(events, rows):
            assert {"name", "ph", "ts", "dur", "pid", "tid", "cat", "args"} <= set(event)
            assert event["args"]["count"] == row.count
            assert event["args"]["self_cpu_time_total"] == pytest.approx(row.self_cpu_time_total, abs=0.001)
