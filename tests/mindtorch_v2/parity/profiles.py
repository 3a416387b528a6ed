"""Whole profiles: each function profiles something and returns the values to compare."""
import json
import tempfile

from parity import INNER
from parity.programs import leaf

PROFILES = {}


def whole(function=None, *, variants=None):
    def add(function):
        for name, value in (variants or {"": None}).items():
            PROFILES[f"{function.__name__} {name}".strip()] = lambda torch, value=value: function(torch, *([] if variants is None else [value]))
        return function

    return add(function) if function is not None else add


def names(events):
    return [event.name for event in events if event.name not in INNER]


def cpu(torch):
    return [torch.profiler.ProfilerActivity.CPU]


SCHEDULES = {
    "plain": dict(wait=1, warmup=1, active=2), "repeat": dict(wait=0, warmup=1, active=1, repeat=2), "endless": dict(wait=0, warmup=1, active=1),
    "skip": dict(wait=1, warmup=1, active=1, skip_first=2), "skip wait": dict(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1),
    "no warmup": dict(wait=1, warmup=0, active=1), "all": dict(wait=0, warmup=0, active=3),
}


@whole(variants={f"{s} {a}": (SCHEDULES[s], a) for s in SCHEDULES for a in (False, True)})
def scheduled(torch, case):
    """The events of each cycle, and the state at the end."""
    options, acc = case
    x, cycles = torch.ones(2), []
    ordered = sorted if acc else list  # with acc_events torch has the last cycle first; ours are by start (contract)
    with torch.profiler.profile(activities=cpu(torch), schedule=torch.profiler.schedule(**options), acc_events=acc,
                                on_trace_ready=lambda p: cycles.append((p.step_num, ordered(names(p.events()))))) as prof:
        for i in range(7):
            with torch.profiler.record_function(f"work {i}"):
                x + x
            prof.step()
    return cycles, prof.step_num, prof.current_action.name


@whole(variants={"record": "RRS", "save": "SSS", "gaps": "SNSN", "warm": "WSWS", "interrupted": "WNWS"})
def acted(torch, actions):
    kinds = {"N": "NONE", "W": "WARMUP", "R": "RECORD", "S": "RECORD_AND_SAVE"}
    x, cycles = torch.ones(2), []
    with torch.profiler.profile(activities=cpu(torch), schedule=lambda step: torch.profiler.ProfilerAction[kinds[actions[step % len(actions)]]],
                                on_trace_ready=lambda p: cycles.append(names(p.events()))) as prof:
        for i in range(6):
            x * x
            prof.step()
    return cycles


@whole(variants={"outer": 0, "inner": 1, "twice": 2})
def toggled(torch, how):
    x = torch.ones(2)
    with torch.profiler.profile(activities=cpu(torch)) as prof:
        with torch.profiler.record_function("a"):
            x + x
            if how:
                prof.toggle_collection_dynamic(False, cpu(torch))
            x * x
            if how == 2:
                prof.toggle_collection_dynamic(False, cpu(torch))
                prof.toggle_collection_dynamic(True, cpu(torch))
            prof.toggle_collection_dynamic(True, cpu(torch))
            x - x
        x / x
    return sorted(set(names(prof.events())) - {"a"})  # a scope around a toggle: see docs/parity.md


@whole
def profiles_in_turn(torch):
    x, found = torch.ones(2), []
    for _ in range(3):
        with torch.profiler.profile(activities=cpu(torch)) as prof:
            x + x
        found.append(names(prof.events()))
    return found


@whole
def a_profile_within_a_profile(torch):
    x = torch.ones(2)
    with torch.profiler.profile(activities=cpu(torch)):
        x + x
        try:
            with torch.autograd.profiler.profile():
                x * x
        except RuntimeError:
            return "refused"
    return "taken"


@whole
def exceptions_leave_the_profile_whole(torch):
    x = torch.ones(2)
    prof = torch.profiler.profile(activities=cpu(torch))
    try:
        with prof:
            with torch.profiler.record_function("scope"):
                x + x
                raise ValueError
    except ValueError:
        pass
    return names(prof.events()), [row.key for row in prof.key_averages() if row.key not in INNER]


@whole(variants={"plain": {}, "shapes": dict(record_shapes=True), "memory": dict(profile_memory=True), "flops": dict(with_flops=True),
                 "shapes and memory": dict(record_shapes=True, profile_memory=True), "stack": dict(with_stack=True)})
def columns(torch, flags):
    """The header of each table. torch shows stacks only if verbose."""
    w, x, config = leaf(torch, 4, 4), torch.ones(2, 4), torch.profiler._ExperimentalConfig(verbose=True)
    with torch.profiler.profile(activities=cpu(torch), experimental_config=config, **flags) as prof:
        x.mm(w).sum().backward()
    found = []
    for options in ({}, dict(group_by_input_shape=True), dict(group_by_stack_n=2)):
        head = prof.key_averages(**options).table().splitlines()[1]
        found.append([word for word in head.split("  ") if word.strip()])
    return found


@whole(variants={"plain": {}, "shapes": dict(group_by_input_shape=True)})
def rows(torch, options):
    w = leaf(torch, 2)
    with torch.profiler.profile(activities=cpu(torch), record_shapes=True) as prof:
        for _ in range(3):
            with torch.profiler.record_function("step"):
                (w * w).sum().backward()
    return sorted((row.key, row.count, str(row.input_shapes), row.is_user_annotation, int(row.scope)) for row in prof.key_averages(**options)
                  if row.key not in INNER)


@whole
def stacks(torch):
    """The innermost frames of ops and scopes; torch records them only if verbose."""
    x = torch.ones(2)

    def inner():
        x + x
        with torch.profiler.record_function("scope"):
            x * x

    def outer():
        inner()

    with torch.profiler.profile(activities=cpu(torch), with_stack=True, experimental_config=torch.profiler._ExperimentalConfig(verbose=True)) as prof:
        outer()
    found = {}
    for event in prof.events():
        if event.name in ("aten::add", "aten::mul"):
            found[event.name] = [frame.rsplit(" ", 1)[-1].rsplit(":", 1)[-1] for frame in event.stack if "profiles.py" in frame][:3]
    return found


@whole
def python_functions(torch):
    """Functions of this file, and their children."""
    x = torch.ones(2)

    def inner():
        x + x

    def outer():
        inner()
        inner()

    with torch.profiler.profile(activities=cpu(torch), with_stack=True) as prof:
        outer()
    def short(name):
        return name.rsplit(": ", 1)[-1] if name.endswith((": inner", ": outer")) else name

    return [(short(e.name), [short(c.name) for c in e.cpu_children if c.name.startswith("aten") or c.name.endswith(": inner")])
            for e in prof.events() if e.name.endswith((": inner", ": outer"))]


@whole
def optimizers(torch):
    w = leaf(torch, 2)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with torch.profiler.profile(activities=cpu(torch)) as prof:
        for _ in range(2):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
    return [(e.name, int(e.scope), e.is_user_annotation, e.cpu_parent is None) for e in prof.events() if e.name.startswith("Optimizer")]


@whole
def flows(torch):
    """Each backward function has a flow from its forward op."""
    w = leaf(torch, 2)
    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile(activities=cpu(torch)) as prof:
            (w * w).exp().sum().backward()
        prof.export_chrome_trace(folder + "/t.json")
        with open(folder + "/t.json", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    spans = {(e["tid"], e["ts"]): e["name"] for e in reversed(events) if e["ph"] == "X" and e.get("cat") == "cpu_op" and "evaluate" not in e["name"]}
    ends = {"s": {}, "f": {}}
    for e in events:
        if e.get("cat") == "fwdbwd":
            ends[e["ph"]][e["id"]] = spans.get((e["tid"], e["ts"]))
    return sorted((ends["s"][i], ends["f"].get(i)) for i in ends["s"])
