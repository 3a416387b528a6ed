"""Small programs, profiled by torch.profiler and by mindtorch_v2.profiler: the same events.

Compares names, nesting, threads, scopes, sequence numbers, forward threads, shapes and annotations of all events, and the
keys of args in exported traces; of whole profiles (parity/profiles.py), what they return. Needs PyTorch:
PYTHONPATH=src python tests/mindtorch_v2/test_profiler_programs.py  prints both sides of each difference.
"""
import difflib
import json
import sys
import tempfile
import warnings

import pytest

pytest.importorskip("torch")

import parity  # noqa: E402
from parity import ours, theirs  # noqa: E402
from parity.profiles import PROFILES  # noqa: E402
from parity.programs import PROGRAMS  # noqa: E402

# torch gives the engine's event the number of its first child: none if that is a hook. Ours has the node's number.
HOOKS_FIRST = {"hooks", "backward_in_a_hook", "retained", "scopes_within_backward"}
ENGINE = "autograd::engine::evaluate_function: "
INNER = parity.INNER | {"aten::transpose"}


# ------------------------------------------------------------------------------------------------ comparing


def described(prof, name):
    """Each thread's events as a tree, in the threads' order of appearance."""
    events = list(prof.events())
    first = {}  # by thread: numbers continue from earlier programs
    order = []
    for event in events:
        if event.thread not in order:
            order.append(event.thread)
        if event.sequence_nr >= 0 and event.scope == 0:
            first[event.thread] = min(event.sequence_nr, first.get(event.thread, event.sequence_nr))

    def node(event):
        below = [n for child in event.cpu_children for n in node(child)]
        if event.name in INNER:
            return below
        backward = event.scope == 1 or event.name.startswith(ENGINE)
        home = event.fwd_thread if backward and event.fwd_thread in order else event.thread
        number = event.sequence_nr - first.get(home, 0) if event.sequence_nr >= 0 else -1
        if name in HOOKS_FIRST and event.name.startswith(ENGINE):
            number = None
        forward = order.index(event.fwd_thread) if event.fwd_thread in order and event.scope == 1 and number >= 0 else None
        return [(event.name, int(event.scope), number, forward, event.input_shapes, event.is_user_annotation, below)]

    return {order.index(thread): [n for e in events if e.thread == thread and e.cpu_parent is None for n in node(e)] for thread in order}


def flat(tree, depth=0):
    """Lines, for people."""
    for name, scope, number, forward, shapes, annotation, below in tree:
        yield f"{'  ' * depth}{name} scope={scope} seq={number} fwd={forward} shapes={shapes}{' user' if annotation else ''}"
        yield from flat(below, depth + 1)


def profile(torch, **options):
    """Profiles all threads, which torch does only on request."""
    config = torch.profiler._ExperimentalConfig(profile_all_threads=True)
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config, **options)


def lines(torch, name, **options):
    prof = profile(torch, record_shapes=True, **options)
    run = PROGRAMS[name](torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with prof:
            run()
    return [line for thread, tree in described(prof, name).items() for line in [f"thread {thread}", *flat(tree)]]


# ---------------------------------------------------------------------------------------------- of the trace


def trace_of(torch, name, **options):
    run = PROGRAMS[name](torch)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        with profile(torch, **options) as prof:
            run()
        prof.export_chrome_trace(folder + "/t.json")
        with open(folder + "/t.json", encoding="utf-8") as file:
            return json.load(file)["traceEvents"]


# Keys of args that the contract adds.
OURS = {"Call stack", "step", "args", "input_shapes", "stack", "device_type", "cpu_memory_allocated_before", "cpu_memory_allocated_after", "cpu_memory_allocated_delta"}


def args_of(torch, name, **options):
    """The keys of args of each event, by category and name."""
    found, outer = {}, {}
    for event in sorted((e for e in trace_of(torch, name, **options) if e.get("cat") in ("cpu_op", "user_annotation")), key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] < outer.get((event["tid"], event["name"]), -1):
            continue  # aten::sum within aten::sum
        outer[event["tid"], event["name"]] = event["ts"] + event["dur"]
        if event["name"] not in INNER:
            keys = set(event.get("args", {})) - OURS
            if name in HOOKS_FIRST and event["name"].startswith(ENGINE):
                keys -= {"Sequence number", "Fwd thread id"}
            found.setdefault((event["cat"], event["name"]), set()).add(tuple(sorted(keys)))
    return {key: sorted(keys) for key, keys in found.items()}


FLAGS = {"plain": {}, "shapes": dict(record_shapes=True), "memory": dict(profile_memory=True), "stack": dict(with_stack=True)}

# Of PROFILES.
DIFFERENT = {"a_profile_within_a_profile": "contract: one session at a time; torch silently ends the first one"}


def answer(torch, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PROFILES[name](torch)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_events(name):
    assert lines(theirs, name) == lines(ours, name)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_args_in_the_trace(name, flags):
    assert args_of(theirs, name, **FLAGS[flags]) == args_of(ours, name, **FLAGS[flags])


@pytest.mark.parametrize("name", PROFILES)
def test_the_same_answer(name):
    if name in DIFFERENT:
        assert answer(theirs, name) != answer(ours, name), f"no longer different: {DIFFERENT[name]}"
    else:
        assert answer(theirs, name) == answer(ours, name)


def main():
    wrong = 0
    for name in sys.argv[1:] or PROFILES:
        if name in PROFILES:
            a, b = answer(theirs, name), answer(ours, name)
            if a != b and name not in DIFFERENT:
                wrong += 1
                print(f"== {name}\n  torch: {a}\n  ours:  {b}")
    for name in [name for name in sys.argv[1:] if name in PROGRAMS] or PROGRAMS:
        a, b = lines(theirs, name), lines(ours, name)
        if a != b:
            wrong += 1
            print(f"== {name}")
            print("\n".join(difflib.unified_diff(a, b, "torch", "ours", n=30, lineterm="")))
        for flags, options in FLAGS.items():
            a, b = args_of(theirs, name, **options), args_of(ours, name, **options)
            if a != b:
                for key in sorted(set(a) | set(b)):
                    if a.get(key) != b.get(key):
                        print(f"== {name} {flags} {key}\n  torch: {a.get(key)}\n  ours:  {b.get(key)}")
    print(f"{wrong} of {len(PROGRAMS) + len(PROFILES)} differ")


if __name__ == "__main__":
    main()
