"""mindtorch_v2.profiler and torch.profiler side by side: the same snippet under both, the same answer.

Needs PyTorch:  PYTHONPATH=src python tests/mindtorch_v2/test_profiler_torch.py  prints the share that agrees and each
difference; with pytest, each snippet is a test. Known differences are in DIFFERENT, with their reasons; docs/parity.md has the
same list.
"""
import gzip
import inspect
import locale
import itertools
import json
import os
import re
import sys
import tempfile
import types
import warnings

try:
    import pytest
except ImportError:
    pytest = None
if pytest is not None:
    theirs = pytest.importorskip("torch")
    theirs_profiler = pytest.importorskip("torch.profiler")
else:
    import torch as theirs
import mindtorch_v2 as ours

import torch.autograd.profiler_util  # noqa: F401  (so that both have it as an attribute)
import mindtorch_v2.autograd.profiler_util  # noqa: F401

SNIPPETS = {}

_ONE = "one kernel here where torch's op calls others (mean: sum and div_, relu: clamp_min, t: transpose, ...)"

# What is known to differ, and why. A reason that no longer holds fails.
DIFFERENT = {
    "nested profile": "a second session is an error here (contract); torch 2.13 stops the first one without a word",
    "step before start": "RuntimeError here (contract); torch counts a step of nothing",
    "stop twice": "on_trace_ready is called once per cycle here (contract); torch calls it again for an empty trace",
    "activity XPU": "here CPU and NPU exist, CUDA and GPU mean NPU (contract)",
    "activity by name": "names are understood here (contract); torch takes enums only",
    "add metadata json not json": "the text is kept as a text and the file stays valid; torch writes a broken file",
    "metadata with quotes and newline": "exact here; torch's file is not valid JSON",
    "names with quotes and unicode": "exact here; torch shows mangled names or 'unknown'",
    "row key averages": "rows can be grouped again here (contract); torch raises",
    "memory timeline warning": "not deprecated here",
    "activities wrong string": "ValueError here (contract: anything else is ValueError); torch says that there is none",
    "activities wrong type": "the same",
    "tree of mean": _ONE, "tree of relu": _ONE, "tree of transpose": _ONE, "tree of stack": _ONE, "tree of argmax": _ONE,
    "tree of linear": _ONE, "tree of backward mm": _ONE, "tree of backward relu": _ONE,
    "tree of backward linear": _ONE, "tree of backward mse": _ONE,
    "table stack and flops": "torch has the values of the two columns swapped against their headers (contract: BUG)",
    "itt available": "no ITT in this build",
    "schedule never recorded": "a schedule that recorded nothing says so here",
    "rows are cloned": "a row can be made from a dict here (contract)",
    "export stacks below a microsecond": "a nonzero time below 1 us counts as 1 here (contract)",
    "export chrome of rows": "rows export here (contract); torch raises",
    "event is a mapping": "events answer as a mapping too (contract)",
    "invalid schedule float": "numbers that are no ints are refused here (contract)",
    "schedule not callable": "TypeError at construction here (contract); torch says that it can not be called",
}
if locale.localeconv()["decimal_point"] != ".":  # make test-locale
    DIFFERENT["observer"] = "PyTorch's execution traces have decimal commas in such a locale, and are no JSON"
if theirs.cuda.is_available() != ours.npu.is_available():
    # "cuda" is the accelerator, whichever it is (contract). PoCL is one where PyTorch has none.
    DIFFERENT |= {f"autograd profile options {name}": "one of the two has an accelerator on this machine" for name in ("cuda", "use_cuda")}


def snippet(function=None, *, name=None, **arguments):
    def add(function):
        SNIPPETS[name or function.__name__.replace("_", " ")] = lambda torch: function(torch, **arguments)
        return function

    return add(function) if function is not None else add


def variants(values):
    """One snippet for each of the named values."""

    def add(function):
        for key, value in values.items():
            SNIPPETS[f"{function.__name__.replace('_', ' ')} {key}".strip()] = \
                lambda torch, function=function, value=value: function(torch, value)
        return function

    return add


def outcome(run, torch):
    """What a snippet gives: a value or an exception, and the warnings on the way."""
    for module in ("torch.profiler.profiler", "mindtorch_v2.profiler.common"):
        sys.modules[module]._WARNINGS_SHOWN.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error = run(torch), None
        except Exception as raised:
            value, error = None, raised
    heard = [(w.category.__name__, str(w.message)) for w in caught if w.category is not ResourceWarning]
    return value, error, heard


def normal(text):
    return str(text).replace("mindtorch_v2", "torch")


def compare(name):
    """None if both answer the same, else what differs."""
    a, b = outcome(SNIPPETS[name], theirs), outcome(SNIPPETS[name], ours)
    if (a[1] is None) != (b[1] is None):
        return f"torch: {a[1]!r} {a[0]!r:.300}\n  ours: {b[1]!r} {b[0]!r:.300}"
    if a[1] is not None:
        kinds = [t.__name__ for t in type(b[1]).__mro__]
        if type(a[1]).__name__ not in kinds or normal(a[1]) != normal(b[1]):
            return f"torch: {a[1]!r}\n  ours: {b[1]!r}"
    elif a[0] != b[0]:
        return f"torch: {a[0]!r:.1500}\n  ours: {b[0]!r:.1500}"
    if [(k, normal(t)) for k, t in a[2]] != [(k, normal(t)) for k, t in b[2]]:
        return f"warnings of torch: {a[2]}\n  ours: {b[2]}"
    return None


# ------------------------------------------------------------------------------------------- state machine


def watched(torch, calls, **options):
    class Watched(torch.profiler.profile):
        def prepare_trace(self):
            calls.append("prepare")
            super().prepare_trace()

        def start_trace(self):
            calls.append("start")
            super().start_trace()

        def stop_trace(self):
            calls.append("stop")
            super().stop_trace()

    return Watched(activities=[torch.profiler.ProfilerActivity.CPU], on_trace_ready=lambda p: calls.append("ready"), **options)


# After RECORD, WARMUP nothing is prepared, and the next start crashes torch 2.13: these are not run. (Ours prepares.)
@variants({"".join(actions): actions for actions in itertools.product("NWRS", repeat=3) if "RW" not in "".join(actions)})
def actions(torch, actions):
    names = {"N": "NONE", "W": "WARMUP", "R": "RECORD", "S": "RECORD_AND_SAVE"}
    calls = []
    prof = watched(torch, calls, schedule=lambda step: torch.profiler.ProfilerAction[names[actions[step]]])
    states = []
    for act in (prof.start, prof.step, prof.step, prof.stop):
        act()
        calls.append("|")
        states.append((prof.step_num, prof.current_action.name, prof.step_rec_fn is not None))
    return calls, states


SCHEDULES = {
    "plain": dict(wait=1, warmup=1, active=2, repeat=1), "endless": dict(wait=0, warmup=1, active=1),
    "skip": dict(wait=2, warmup=1, active=3, repeat=2, skip_first=4), "skip wait": dict(wait=3, warmup=1, active=1, skip_first=2, skip_first_wait=1),
    "no warmup": dict(wait=1, warmup=0, active=1), "long": dict(wait=5, warmup=3, active=7, repeat=3, skip_first=1, skip_first_wait=1),
}


@variants(SCHEDULES)
def schedule(torch, options):
    made = torch.profiler.schedule(**options)
    return [made(step).name for step in range(80)]


@variants(SCHEDULES)
def schedule_run(torch, options):
    calls = []
    with watched(torch, calls, schedule=torch.profiler.schedule(**options)) as prof:
        for _ in range(24):
            prof.step()
            calls.append(prof.current_action.name)
    return calls


@variants({"wait": dict(wait=-1), "warmup": dict(warmup=-1), "active": dict(active=0), "repeat": dict(repeat=-1), "skip": dict(skip_first=-3)})
def invalid_schedule(torch, wrong):
    torch.profiler.schedule(**{"wait": 1, "warmup": 1, "active": 1, **wrong})


@snippet(name="invalid schedule float")
def _(torch):
    return torch.profiler.schedule(wait=0.5, warmup=1, active=1)(3).name


@snippet
def schedule_negative_step(torch):
    torch.profiler.schedule(wait=1, warmup=1, active=1)(-1)


@snippet
def schedule_not_callable(torch):
    torch.profiler.profile(schedule=3)


@snippet
def schedule_never_recorded(torch):
    with torch.profiler.profile(schedule=torch.profiler.schedule(wait=5, warmup=1, active=1)):
        pass


@snippet
def schedule_returns_device_stopped(torch):
    torch.profiler.profile(schedule=lambda s: torch.profiler.ProfilerAction.DEVICE_STOPPED)


@snippet
def action_map(torch):
    prof = torch.profiler.profile()

    def called(f):
        return getattr(f, "__name__", None) or (f.func.__name__, [str(a) for a in f.args])

    return {(k[0].name, k[1].name if k[1] else None): [called(f) for f in v] for k, v in prof.action_map.items()}


# -------------------------------------------------------------------------------------------------- life


@variants({
    "start_trace": lambda p: p.start_trace(), "stop_trace": lambda p: p.stop_trace(), "chrome": lambda p: p.export_chrome_trace("x"),
    "stacks": lambda p: p.export_stacks("x"), "averages": lambda p: p.key_averages(), "events": lambda p: p.events(), "stop": lambda p: p.stop(),
    "trace id": lambda p: p.get_trace_id(), "toggle": lambda p: p.toggle_collection_dynamic(True, []), "preset": lambda p: p.preset_metadata_json("a", "1"),
    "timeline": lambda p: p.export_memory_timeline.__wrapped__(p, "x") if hasattr(p.export_memory_timeline, "__wrapped__") else p.export_memory_timeline("x"),
    "stats": lambda p: p._stats(),
})
def before_start(torch, call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(torch.profiler.profile())


def run(torch, body=None, **options):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as prof:
        if body is not None:
            body(torch)
    return prof


def add_and_scope(torch):
    x = torch.ones(2, 3)
    with torch.profiler.record_function("scope"):
        x + x


@snippet
def nested_profile(torch):
    with torch.profiler.profile():
        with torch.profiler.profile():
            pass


@snippet
def step_before_start(torch):
    torch.profiler.profile().step()


@snippet
def stop_twice(torch):
    calls = []
    prof = torch.profiler.profile(on_trace_ready=lambda p: calls.append(1))
    prof.start()
    prof.stop()
    prof.stop()
    return calls


@snippet
def restart(torch):
    calls = []
    prof = torch.profiler.profile(on_trace_ready=lambda p: calls.append(len(p.events()) > 0))
    for _ in range(3):
        prof.start()
        torch.ones(1)
        prof.stop()
    return calls


@variants({"TypeError": TypeError("mine"), "KeyError": KeyError("k"), "Stop": StopIteration()})
def callback_raises(torch, error):
    def wrong(prof):
        raise error

    run(torch, on_trace_ready=wrong)


@snippet
def exception_in_block(torch):
    calls = []
    try:
        with torch.profiler.profile(on_trace_ready=lambda p: calls.append(1)):
            raise ValueError("mine")
    except ValueError as error:
        calls.append(str(error))
    return calls


@variants({"none": None, "not str": 3})
def custom_trace_id(torch, value):
    prof = torch.profiler.profile(custom_trace_id_callback=lambda: "an id" if value is None else "other")
    prof.start()
    prof.stop()
    return prof.get_trace_id()


@snippet
def default_trace_id(torch):
    return bool(re.fullmatch("[0-9A-F]{32}", run(torch).get_trace_id()))


@snippet
def set_trace_id_between_cycles(torch):
    prof = torch.profiler.profile()
    got = []
    for name in "ab":
        prof.set_custom_trace_id_callback(lambda name=name: name)
        prof.start()
        prof.stop()
        got.append(prof.get_trace_id())
    return got


@variants({name: [name] for name in ("nonsense", "cpu_op", "GPU_MEMCPY", "CPU_OP", "PYTHON_FUNCTION", "USER_ANNOTATION")})
def activity_filter(torch, names):
    try:
        with torch.profiler.profile(activities=[{torch.profiler.ProfilerActivity.CPU: names}]) as prof:
            pass
    except RuntimeError as error:
        return str(error).split(".")[0]
    return prof.activity_filters[torch.profiler.ProfilerActivity.CPU]


@variants({"double": "double", "string": "activities", "type": "type", "empty": "empty"})
def activities_wrong(torch, which):
    cpu = torch.profiler.ProfilerActivity.CPU
    torch.profiler.profile(activities={"double": [cpu, cpu], "string": [3], "type": [3.5], "empty": [], "activities": [None]}[which])


@snippet
def activity_XPU(torch):
    return len(torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.XPU]).activities)


@snippet
def activity_by_name(torch):
    return len(torch.profiler.profile(activities=["cpu"]).activities)


@snippet
def use_cuda_false(torch):
    return [a.name for a in torch.profiler.profile(use_cuda=False).activities]


@snippet
def acc_events(torch):
    counts = {}
    for acc in (False, True):
        got = []
        prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=acc,
                                      schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=3),
                                      on_trace_ready=lambda p: got.append([e.name for e in p.events()].count("aten::relu")))
        with prof:
            for _ in range(7):
                torch.relu(torch.ones(2))
                prof.step()
        counts[acc] = got
    return counts


@snippet
def attributes(torch):
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    names = ["on_trace_ready", "step_num", "record_steps", "step_rec_fn", "profiler", "mem_tl", "preset_metadata", "record_shapes",
             "profile_memory", "with_stack", "with_flops", "with_modules", "experimental_config", "use_device", "custom_trace_id_callback",
             "execution_trace_observer", "has_cudagraphs", "acc_events", "post_processing_timeout_s", "activity_filters"]
    return {name: getattr(prof, name) for name in names}, [a.name for a in prof.activities], prof.current_action.name


@variants({c: c for c in ("profiler.profile", "profiler._KinetoProfile", "profiler.schedule", "profiler.tensorboard_trace_handler",
                          "profiler.supported_activities", "autograd.profiler.profile", "autograd.profiler.record_function",
                          "autograd.profiler_util.EventList.table", "autograd.profiler_util.EventList.key_averages",
                          "profiler.profile.export_chrome_trace", "profiler.profile.key_averages", "profiler.profile.export_stacks",
                          "profiler.profile.export_memory_timeline", "profiler.profile.add_metadata", "profiler.profile.toggle_collection_dynamic",
                          "profiler.ExecutionTraceObserver.register_callback", "autograd.profiler.emit_nvtx", "autograd.profiler.emit_itt",
                          "autograd.profiler.profile.table", "autograd.profiler.profile.key_averages")})
def signature(torch, path):
    target = torch
    for part in path.split("."):
        target = getattr(target, part)
    if path.endswith("record_function"):
        return ["name", "args"]
    beyond = ("spool", "buffer_bytes", "when_full",  # torch has none of these (docs/python.md)
              "include_python_functions")  # and this from 2.15 on
    return [(p.name, p.default if not callable(p.default) else None, str(p.kind)) for p in inspect.signature(target).parameters.values()
            if p.name not in beyond]


@variants({"profiler": "profiler", "autograd.profiler": "autograd.profiler", "util": "autograd.profiler_util"})
def public_names(torch, path):
    target = torch
    for part in path.split("."):
        target = getattr(target, part)
    return sorted(set(target.__all__) - {"FunctionEventAvg"} if path == "autograd.profiler" else target.__all__)


@snippet
def enums(torch):
    p = torch.profiler
    return [(a.name, a.value) for a in p.ProfilerAction], str(p.ProfilerActivity.CPU), str(p.DeviceType.CPU), int(p.DeviceType.CPU), \
        {name: int(value) for name, value in p.DeviceType.__members__.items() if name not in ("CUDA", "NPU", "GPU")}, \
        {name: int(value) for name, value in p.RecordScope.__members__.items()}


@snippet
def itt_available(torch):
    return torch.profiler.itt.is_available()


@snippet
def experimental_config(torch):
    config = torch.profiler._ExperimentalConfig(verbose=True, trace_only=True, custom_profiler_config="x")
    return config.trace_only, config.custom_profiler_config


@snippet
def trace_only_events(torch):
    run(torch, experimental_config=torch.profiler._ExperimentalConfig(trace_only=True)).events()


@snippet
def trace_only_with_stack(torch):
    prof = torch.profiler.profile(with_stack=True, experimental_config=torch.profiler._ExperimentalConfig(trace_only=True))
    return prof.experimental_config.trace_only


@snippet
def step_tracker(torch):
    tracker = torch.profiler.KinetoStepTracker
    tracker.init_step_count("a")
    first = tracker.increment_step("a") - tracker.current_step()
    return first, tracker.erase_step_count("a"), tracker.erase_step_count("a")


@snippet
def autograd_profile_reentrant(torch):
    prof = torch.autograd.profiler.profile()
    with prof:
        pass
    with prof:
        pass


@snippet
def autograd_profile_disabled(torch):
    with torch.autograd.profiler.profile(enabled=False) as prof:
        pass
    return prof


@snippet
def autograd_profile_unfinished(torch):
    prof = torch.autograd.profiler.profile()
    prof.__enter__()
    text = None
    prof.__exit__(None, None, None)
    return text, type(prof.function_events).__name__


@variants({"device only": dict(use_cpu=False), "no device": dict(use_device="tpu"), "timeout": dict(post_processing_timeout_s=-1),
           "cuda": dict(use_device="cuda"), "use_cuda": dict(use_cuda=True)})
def autograd_profile_options(torch, options):
    return {"cuda": "npu"}.get(device := torch.autograd.profiler.profile(**options).use_device, device)


# ----------------------------------------------------------------------------------------- lists made by hand


def made(torch, device=False, memory=False, stacks=False, flops=False, shapes=False):
    util = torch.autograd.profiler_util
    word = "cuda" if torch is theirs else "npu"

    def event(id, name, start, end, **more):
        if device:
            more.setdefault("use_device", word)
        return util.FunctionEvent(id=id, name=name, thread=more.pop("thread", 1), start_us=start, end_us=end,
                                  overload_name=more.pop("overload_name", ""), stack=more.pop("stack", []),
                                  input_shapes=more.pop("input_shapes", []), flops=more.pop("flops", 0), trace_name=name, **more)

    events = [
        event(1, "outer", 0, 5000.5, scope=7, is_user_annotation=True),
        event(2, "aten::mm", 10, 1510.25, **(dict(flops=123456) if flops else {}), **(dict(input_shapes=[[3, 4], [4, 5]]) if shapes else {}),
              **(dict(stack=["a/very/long/path/" * 6 + "file.py:3:function", "b.py:4:caller"]) if stacks else {}),
              **(dict(cpu_memory_usage=5000, device_memory_usage=3 << 20) if memory else {})),
        event(3, "aten::a_name_that_is_longer_than_the_column_for_names_can_be_at_most", 2000, 2100,
              **(dict(stack=["b.py:9:caller"]) if stacks else {})),
        event(4, "aten::mm", 3000, 3000.75, **(dict(flops=500) if flops else {}), **(dict(input_shapes=[[1], []]) if shapes else {}),
              **(dict(cpu_memory_usage=-77) if memory else {})),
        event(5, "other thread", 20, 4_000_000, thread=2),
        event(6, "same", 4100, 4200), event(7, "same", 4110, 4190), event(8, "inner", 4120, 4125),
    ]
    events = util.EventList(events, use_device=word if device else None, profile_memory=memory, with_flops=flops)
    if device:
        events[1].append_kernel("gemm", 0, 900.5)
        events[3].append_kernel("gemm", 0, 77)
        kind = torch.profiler.DeviceType.CUDA
        events.append(event(9, "gemm", 1600, 2500.5, device_type=kind))
    events._build_tree()
    return events


WITH = {"plain": {}, "memory": dict(memory=True), "shapes": dict(shapes=True), "stacks": dict(stacks=True), "flops": dict(flops=True),
        "shapes and memory": dict(shapes=True, memory=True), "shapes and flops": dict(shapes=True, flops=True)}
TABLES = {"": {}, "sorted": dict(sort_by="self_cpu_time_total"), "by cuda": dict(sort_by="cuda_time_total"), "by count": dict(sort_by="count"),
          "limited": dict(row_limit=2), "all": dict(row_limit=-1), "none": dict(row_limit=0), "header": dict(header="Head"),
          "ms": dict(time_unit="ms"), "s": dict(time_unit="s"), "us": dict(time_unit="us"), "top": dict(top_level_events_only=True),
          "narrow": dict(max_name_column_width=20, max_shapes_column_width=8, max_src_column_width=10),
          "wide": dict(max_name_column_width=None, max_shapes_column_width=None, max_src_column_width=None),
          "unknown key": dict(sort_by="nonsense")}
CASES = {f"{w} {t}": (WITH[w], TABLES[t]) for w in WITH for t in TABLES}


@variants(CASES)
def table_of_events(torch, case):
    return made(torch, **case[0]).table(**case[1])


@variants(CASES)
def table_of_rows(torch, case):
    group = {"group_by_input_shapes": "shapes" in case[0], "group_by_stack_n": 2 if "stacks" in case[0] else 0}
    return made(torch, **case[0]).key_averages(**group).table(**case[1])


@variants({t: TABLES[t] for t in TABLES})
def table_with_device(torch, options):
    table = made(torch, device=True, memory=True).key_averages().table(**options)
    return re.sub(" +", " ", table.replace("CUDA", "NPU"))  # the device's word is shorter here


@snippet
def table_stack_and_flops(torch):
    return made(torch, stacks=True, flops=True).key_averages(group_by_stack_n=1).table()


@variants(WITH)
def rows_of(torch, options):
    names = ["key", "count", "node_id", "is_async", "is_remote", "use_device", "cpu_time_total", "self_cpu_time_total", "device_time_total",
             "self_device_time_total", "input_shapes", "overload_name", "stack", "scope", "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
             "self_device_memory_usage", "is_legacy", "flops", "cpu_time", "device_time", "cpu_time_str", "cpu_time_total_str", "self_cpu_time_total_str"]
    return [{name: getattr(row, name) for name in names} for row in made(torch, **options).key_averages()]


@variants(WITH)
def totals_of(torch, options):
    events = made(torch, **options)
    total = events.total_average()
    return total.key, total.count, total.cpu_time_total, total.self_cpu_time_total, total.cpu_memory_usage, events.self_cpu_time_total


@snippet
def reprs(torch):
    events = made(torch)
    return repr(events[1]), repr(events.key_averages()[1]), str(events) == events.table()


@snippet
def totals_of_nothing(torch):
    empty = torch.autograd.profiler_util.EventList()
    return empty.total_average().key, empty.total_average().count, empty.table()


@snippet
def row_key_averages(torch):
    return len(made(torch).key_averages().key_averages())


@snippet
def rows_are_cloned(torch):
    row = made(torch).key_averages()[0]
    return row.__class__(dict(row._row)).key


@snippet
def row_add_of_another_key(torch):
    rows = made(torch).key_averages()
    rows[0].add(rows[1])


@snippet
def row_add(torch):
    rows = made(torch).key_averages()
    added = rows[1].add(rows[1])
    return added is rows[1], added.count, added.cpu_time_total


@variants({"metric": "self_cpu_time_total", "cuda": "self_cuda_time_total", "wrong": "nonsense"})
def export_stacks(torch, metric):
    with tempfile.TemporaryDirectory() as folder:
        made(torch, stacks=True).export_stacks(folder + "/s", metric)
        return open(folder + "/s").read()


@snippet
def export_stacks_below_a_microsecond(torch):
    util = torch.autograd.profiler_util
    events = util.EventList([util.FunctionEvent(1, "a", 0, 0, 0.5, stack=["a:1:f", "b:2:g"])])
    with tempfile.TemporaryDirectory() as folder:
        events.export_stacks(folder + "/s", "self_cpu_time_total")
        return open(folder + "/s").read()


@snippet
def export_chrome_of_events(torch):
    with tempfile.TemporaryDirectory() as folder:
        made(torch).export_chrome_trace(folder + "/t.json")
        return json.load(open(folder + "/t.json"))


@snippet
def export_chrome_of_rows(torch):
    with tempfile.TemporaryDirectory() as folder:
        made(torch).key_averages().export_chrome_trace(folder + "/t.json")
        return bool(json.load(open(folder + "/t.json")))


@variants({"cuda_time": "cuda_time", "cuda_time_total": "cuda_time_total", "self_cuda_time_total": "self_cuda_time_total",
           "self_cuda_memory_usage": "self_cuda_memory_usage", "metadata_json": "metadata_json"})
def deprecated_names(torch, name):
    return getattr(made(torch)[1], name)


@snippet
def children_and_parents(torch):
    return [(e.name, [c.name for c in e.cpu_children], e.cpu_parent.name if e.cpu_parent else None, e.self_cpu_time_total) for e in made(torch)]


@variants({"kernel": lambda e: e.append_kernel("k", 0, 1), "child": lambda e: e.append_cpu_child("no event"), "parent": lambda e: e.set_cpu_parent(3)})
def wrong_relatives(torch, call):
    util = torch.autograd.profiler_util
    event = util.FunctionEvent(1, "a", 0, 0, 1, **({"device_type": torch.profiler.DeviceType.CUDA} if call.__code__.co_names[0] == "append_kernel" else {}))
    call(event)


@snippet
def event_is_a_mapping(torch):
    return made(torch)[0]["name"]


# ---------------------------------------------------------------------------------------------- recordings

# What PyTorch does within these ops and we do not: see docs/parity.md.
INNER = {"aten::empty", "aten::resize_", "aten::as_strided", "aten::resolve_conj", "aten::to", "aten::_to_copy", "aten::copy_", "aten::empty_like",
         "aten::empty_strided", "aten::fill_", "aten::zero_", "aten::item", "aten::_local_scalar_dense", "aten::new_empty", "aten::_has_compatible_shallow_copy_type",
         "aten::clone", "aten::set_", "detach", "aten::normal_", "aten::uniform_", "aten::new_empty_strided"}


def tree(events):
    def node(event):
        below = [n for child in event.cpu_children for n in node(child)]
        return below if event.name in INNER else [(event.name, below)]

    return [n for event in events if event.cpu_parent is None for n in node(event)]


OPS = {
    "add": lambda t, x, w: x + x, "add scalar": lambda t, x, w: x + 1, "mul": lambda t, x, w: x * x, "sub": lambda t, x, w: x - x, "div": lambda t, x, w: x / x,
    "mm": lambda t, x, w: x.mm(x), "matmul": lambda t, x, w: x.matmul(x), "sum": lambda t, x, w: x.sum(), "mean": lambda t, x, w: x.mean(),
    "relu": lambda t, x, w: t.relu(x), "exp": lambda t, x, w: x.exp(), "sigmoid": lambda t, x, w: x.sigmoid(), "tanh": lambda t, x, w: x.tanh(),
    "softmax": lambda t, x, w: x.softmax(-1), "log_softmax": lambda t, x, w: x.log_softmax(-1), "transpose": lambda t, x, w: x.t(),
    "reshape": lambda t, x, w: x.reshape(-1), "cat": lambda t, x, w: t.cat([x, x]), "stack": lambda t, x, w: t.stack([x, x]),
    "max": lambda t, x, w: x.max(), "argmax": lambda t, x, w: x.argmax(), "neg": lambda t, x, w: -x, "pow": lambda t, x, w: x ** 2,
    "sqrt": lambda t, x, w: x.sqrt(), "detach": lambda t, x, w: x.detach(), "index": lambda t, x, w: x[0], "slice": lambda t, x, w: x[:, 1:],
    "ones": lambda t, x, w: t.ones(3), "zeros": lambda t, x, w: t.zeros(3), "full": lambda t, x, w: t.full((2,), 3.0),
    "linear": lambda t, x, w: t.nn.functional.linear(x, x), "in place": lambda t, x, w: x.add_(1), "clamp": lambda t, x, w: x.clamp(0, 1),
    "backward mul": lambda t, x, w: (w * w).sum().backward(), "backward mm": lambda t, x, w: w.mm(w).sum().backward(),
    "backward relu": lambda t, x, w: t.relu(w).sum().backward(), "backward linear": lambda t, x, w: t.nn.functional.linear(x, w).sum().backward(),
    "backward exp": lambda t, x, w: w.exp().sum().backward(), "backward mse": lambda t, x, w: t.nn.functional.mse_loss(w, x).backward(),
}


@variants(OPS)
def tree_of(torch, body):
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    prof = run(torch, lambda t: body(t, x, w))
    return tree(prof.events())


@variants({name: OPS[name] for name in ("add", "mm", "sum", "cat", "linear", "softmax", "reshape")})
def shapes_of(torch, body):
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    prof = run(torch, lambda t: body(t, x, w), record_shapes=True)
    first = prof.events()[0]
    return first.name, first.input_shapes, first.structured_input_shapes


@snippet
def optimizer_scopes(torch):
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.sum().backward()
    prof = run(torch, lambda t: (optimizer.step(), optimizer.zero_grad()))
    return [e.name for e in prof.events() if e.name.startswith("Optimizer")]


@snippet
def loader_scopes(torch):
    loader = torch.utils.data.DataLoader(list(range(3)))
    prof = run(torch, lambda t: list(loader))
    return [e.name for e in prof.events() if e.name.startswith("enumerate")]


@snippet
def step_events(torch):
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=torch.profiler.schedule(wait=0, warmup=1, active=2))
    got = []
    prof.on_trace_ready = lambda p: got.append([(e.name, e.trace_name) for e in p.events() if e.name.startswith("ProfilerStep")])
    with prof:
        for _ in range(3):
            prof.step()
    return got


@snippet
def no_step_events_without_schedule(torch):
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with prof:
        prof.step()
        add_and_scope(torch)
    return [e.name for e in prof.events() if "Profiler" in e.name]


@snippet
def same_names_are_absorbed(torch):
    def body(torch):
        with torch.profiler.record_function("same"):
            with torch.profiler.record_function("same"):
                torch.profiler.record_function("x").__enter__().__exit__(None, None, None)

    return tree(run(torch, body).events())


@snippet
def decorator(torch):
    @torch.profiler.record_function("mine")
    def f(a):
        return a

    prof = run(torch, lambda t: f(1))
    return f.__name__, [e.name for e in prof.events()]


@snippet
def event_attributes(torch):
    event = next(e for e in run(torch, add_and_scope, record_shapes=True).events() if e.name == "aten::add")
    names = ["node_id", "name", "overload_name", "trace_name", "count", "input_shapes", "concrete_inputs", "kwinputs", "scope", "use_device",
             "cpu_memory_usage", "device_memory_usage", "is_async", "is_remote", "is_legacy", "flops", "is_user_annotation",
             "is_python_function", "activity_type", "structured_input_shapes", "structured_input_strides", "input_dtypes", "stack", "key", "kernels",
             "thread", "fwd_thread", "self_cpu_percent", "python_id", "event_metadata"]
    return {name: getattr(event, name) for name in names}


@snippet
def scope_attributes(torch):
    event = next(e for e in run(torch, add_and_scope).events() if e.name == "scope")
    return event.scope, event.is_user_annotation, event.activity_type, event.input_shapes, [c.name for c in event.cpu_children]


def traced(torch, body=add_and_scope, name="t.json", **options):
    with tempfile.TemporaryDirectory() as folder:
        run(torch, body, **options).export_chrome_trace(f"{folder}/{name}")
        with (gzip.open if name.endswith("gz") else open)(f"{folder}/{name}", "rt", encoding="utf-8") as file:
            return json.load(file)


@variants({"plain": {}, "all": dict(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_modules=True)})
def metadata_of_flags(torch, flags):
    trace = traced(torch, **flags)
    return {key: trace.get(key) for key in ("schemaVersion", "displayTimeUnit", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")}


@snippet
def trace_keys(torch):
    have = set(traced(torch))
    return sorted(have & {"schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents", "traceName", "trace_id"})


@snippet
def trace_events(torch):
    events = traced(torch)["traceEvents"]
    return sorted({(e["ph"], e.get("cat"), e["name"]) for e in events if e.get("cat") in ("cpu_op", "user_annotation") and e["name"] not in INNER})


@snippet
def trace_args_of_an_op(torch):
    events = traced(torch, record_shapes=True)["traceEvents"]
    args = next(e["args"] for e in events if e["name"] == "aten::add")
    keys = ("External id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id", "Input Dims", "Input Strides", "Input type", "Concrete Inputs")
    return {key: key in args for key in keys}, args["Input Dims"], args["Input Strides"], args["Input type"], args["Concrete Inputs"]


@snippet
def trace_gz(torch):
    return "traceEvents" in traced(torch, name="t.json.gz")


@variants({"add": lambda p: p.add_metadata("k", "v"), "json": lambda p: p.add_metadata_json("k", "[1]"), "preset": lambda p: p.preset_metadata_json("k", "{}"),
           "twice": lambda p: (p.add_metadata("k", "a"), p.add_metadata("k", "b"))})
def metadata(torch, call):
    with tempfile.TemporaryDirectory() as folder:
        prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        if "preset_metadata_json" in call.__code__.co_names:
            call(prof)
        with prof:
            if "preset_metadata_json" not in call.__code__.co_names:
                call(prof)
            torch.ones(1)
        prof.export_chrome_trace(folder + "/t.json")
        return json.load(open(folder + "/t.json")).get("k")


@variants({"int": 3, "none": None})
def add_metadata_of(torch, value):
    prof = torch.profiler.profile()
    with prof:
        prof.add_metadata("k", value)


@snippet
def add_metadata_json_not_json(torch):
    def body(torch):
        pass

    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile() as prof:
            prof.add_metadata_json("k", "{oh")
        prof.export_chrome_trace(folder + "/t.json")
        return json.load(open(folder + "/t.json"))["k"]


@snippet
def metadata_with_quotes_and_newline(torch):
    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile() as prof:
            prof.add_metadata("k", 'a "b"\n\\')
        prof.export_chrome_trace(folder + "/t.json")
        return json.load(open(folder + "/t.json"))["k"]


@snippet
def names_with_quotes_and_unicode(torch):
    def body(torch):
        with torch.profiler.record_function('a "b" \\ \u00e9'):
            pass

    return [e["name"] for e in traced(torch, body)["traceEvents"] if e.get("cat") == "user_annotation"]


@snippet
def toggling(torch):
    cpu = [torch.profiler.ProfilerActivity.CPU]
    x = torch.ones(2)
    with torch.profiler.profile(activities=cpu) as prof:
        x + x
        prof.toggle_collection_dynamic(False, cpu)
        x * x
        prof.toggle_collection_dynamic(True, cpu)
        x - x
    return [e.name for e in prof.events() if e.name not in INNER]


@variants({"default": dict(), "named": dict(worker_name="me"), "gz": dict(use_gzip=True), "both": dict(worker_name="me", use_gzip=True)})
def tensorboard_files(torch, options):
    with tempfile.TemporaryDirectory() as folder:
        run(torch, add_and_scope, on_trace_ready=torch.profiler.tensorboard_trace_handler(folder + "/sub", **options))
        return [re.sub(r"\d{6,}", "TIME", name) for name in os.listdir(folder + "/sub")]


@snippet
def tensorboard_bad_folder(torch):
    run(torch, on_trace_ready=torch.profiler.tensorboard_trace_handler("/dev/null/sub"))


@variants({"none": {}, "one": dict(record_shapes=True), "two": dict(record_shapes=True, with_stack=True)})
def memory_timeline_flags(torch, flags):
    prof = run(torch, **flags)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof.export_memory_timeline("x.json")


@snippet
def memory_timeline_warning(torch):
    prof = run(torch, add_and_scope, record_shapes=True, profile_memory=True, with_stack=True)
    with tempfile.TemporaryDirectory() as folder:
        prof.export_memory_timeline(folder + "/m.json", device="cpu")


@snippet
def memory_timeline_form(torch):
    prof = run(torch, add_and_scope, record_shapes=True, profile_memory=True, with_stack=True)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof.export_memory_timeline(folder + "/m.json", device="cpu")
        times, sizes = json.load(open(folder + "/m.json"))
        return len(times) == len(sizes), {len(row) for row in sizes}


@snippet
def export_stacks_without_stacks(torch):
    run(torch).export_stacks("x")


@snippet
def memory_of_an_op(torch):
    prof = run(torch, lambda t: t.ones(256), profile_memory=True)
    rows = {row.key: (row.cpu_memory_usage) for row in prof.key_averages()}
    return rows["aten::ones"]


@snippet
def memory_freed_outside(torch):
    def body(torch):
        x = torch.ones(256)
        del x

    prof = run(torch, body, profile_memory=True)
    return [(e.name, e.cpu_memory_usage, e.trace_name) for e in prof.events() if e.name == "[memory]"]


@snippet
def flops_of_products(torch):
    prof = run(torch, lambda t: (t.ones(3, 4).mm(t.ones(4, 5)), t.ones(2, 3, 4).bmm(t.ones(2, 4, 5)), t.ones(6) + 1, t.ones(6) * 2), with_flops=True)
    return {row.key: row.flops for row in prof.key_averages() if row.key in ("aten::mm", "aten::bmm", "aten::add", "aten::mul")}


@snippet
def modules_by_stack(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    x = torch.ones(1, 2)
    events = traced(torch, lambda t: model(x), with_stack=True)["traceEvents"]
    return [e["name"] for e in sorted(events, key=lambda e: e.get("ts", 0)) if e["name"].startswith("nn.Module")]


@snippet
def observer(torch):
    with tempfile.TemporaryDirectory() as folder:
        et = torch.profiler.ExecutionTraceObserver()
        states = [et.get_output_file_path(), et.is_registered, et.is_running()]
        et.register_callback(folder + "/et.json")
        states += [et.is_registered, et.get_output_file_path() == folder + "/et.json"]
        run(torch, add_and_scope, execution_trace_observer=et)
        states += [et.is_registered, et.is_running()]
        trace = json.load(open(folder + "/et.json"))
        names = [n["name"] for n in trace["nodes"] if n["name"] not in INNER]
        return states, sorted(trace)[:3], trace["schema"], "aten::add" in names, "scope" in names


@snippet
def observer_protocol(torch):
    calls = []
    run(torch, execution_trace_observer=types.SimpleNamespace(start=lambda: calls.append("start"), stop=lambda: calls.append("stop"),
                                                               cleanup=lambda: calls.append("cleanup")))
    return calls


@snippet
def event_order(torch):
    events = run(torch, add_and_scope).events()
    keys = [(e.time_range.start, -e.time_range.end) for e in events]
    return keys == sorted(keys), type(events).__name__, isinstance(events, list), isinstance(events[:1], list)


@snippet
def sequence_numbers(torch):
    w = torch.ones(2, 2, requires_grad=True)
    prof = run(torch, lambda t: w.mm(w).sum().backward())
    by_name = {e.name: e for e in prof.events()}
    forward, backward = by_name["aten::sum"], by_name["SumBackward0"]
    return forward.sequence_nr == backward.sequence_nr, backward.scope, backward.fwd_thread == forward.thread


@snippet
def row_scopes(torch):
    w = torch.ones(2, 2, requires_grad=True)

    def body(torch):
        with torch.profiler.record_function("scope"):
            (w * w).sum().backward()

    return {row.key: row.scope for row in run(torch, body).key_averages() if row.key not in INNER}


@snippet
def row_parents(torch):
    def body(torch):
        add_and_scope(torch)
        torch.ones(2) + 1

    rows = run(torch, body).key_averages()
    return {row.key: (row.cpu_parent.name if row.cpu_parent else None, [c.name for c in row.cpu_children if c.name not in INNER]) for row in rows
            if row.key not in INNER}


@snippet
def rows_at_top_level(torch):
    table = run(torch, add_and_scope).key_averages().table(top_level_events_only=True)
    return "aten::add" in table, "scope" in table


@snippet
def pickled_events(torch):
    import pickle

    events = pickle.loads(pickle.dumps(made(torch)))
    return type(events).__name__, [(e.name, e.self_cpu_time_total) for e in events]


@snippet
def threads_are_numbered(torch):
    return sorted({e.thread for e in run(torch, add_and_scope).events()})


# -------------------------------------------------------------------------------------------------- running

if pytest is not None:

    @pytest.mark.parametrize("name", SNIPPETS)
    def test_agrees_with_torch(name):
        difference = compare(name)
        if name in DIFFERENT:
            assert difference is not None, f"no longer different: {DIFFERENT[name]}"
        else:
            assert difference is None, difference

    def test_the_parity_page_names_every_public_symbol():
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "parity.md"), encoding="utf-8") as file:
            page = file.read()
        modules = (theirs.profiler, theirs.profiler.profiler, theirs.autograd.profiler, theirs.autograd.profiler_util)
        names = {name for module in modules for name in module.__all__}
        for kind in (getattr(module, name) for module in modules for name in module.__all__):
            if inspect.isclass(kind) and not issubclass(kind, (tuple, dict)):
                names |= {name for name in dir(kind) if not name.startswith("_")} - set(dir(list)) - set(dir(int))
        assert sorted(name for name in names if f"`{name}`" not in page) == []

    def test_every_listed_difference_is_of_a_snippet():
        assert set(DIFFERENT) - set(SNIPPETS) == set()


def main():
    agree, listed, found = 0, 0, []
    for name in SNIPPETS:
        difference = compare(name)
        agree += difference is None
        if difference is not None and name in DIFFERENT:
            listed += 1
        elif difference is not None or name in DIFFERENT:
            found.append((name, difference or "is listed in DIFFERENT but agrees"))
    for name, difference in found:
        print(f"-- {name}\n  {difference}")
    print(f"{agree} of {len(SNIPPETS)} snippets agree ({100 * agree / len(SNIPPETS):.1f} %); {listed} differ for reasons that "
          f"docs/parity.md lists, {len(found)} for none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
