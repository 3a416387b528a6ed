"""Snippets: schedules, the state machine, the life of a profile, options, signatures, names."""
import inspect
import itertools
import re
import warnings

from parity.snippets import run, snippet, variants


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
    beyond = ("spool", "buffer_bytes", "when_full",  # not in torch (docs/python.md)
              "include_python_functions")  # in torch from 2.15 on
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
