#!/usr/bin/env python3
"""What profiling costs a Python program: mindtorch_v2.profiler, and torch.profiler for comparison where it is installed.

usage: bench_profiler.py [FIGURES.json]        minima of many repeats; compared runs alternate
"""
import json
import os
import pathlib
import sys
import time
import timeit
import warnings

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "build" / "bench")]

import mtprof_floor  # noqa: E402

import mindtorch_v2  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

figures = {}
warnings.simplefilter("ignore")


def say(name, value, unit, bar=None, note=""):
    figures[name] = value
    print(f"  {name:36} {value:12.2f} {unit:6}{'<= %.4g' % bar if bar else '':11}{note}")


def each_ns(statement, names, number=2000, repeats=60):
    return min(timeit.repeat(statement, globals=names, number=number, repeat=repeats)) / number * 1e9


def profiled(framework, **flags):
    return framework.profiler.profile(activities=[framework.profiler.ProfilerActivity.CPU], **flags)


def at_depth(depth, function):
    return function() if depth == 0 else at_depth(depth - 1, function)


def bench_record_function():
    loop = each_ns("pass", {})
    names = {"floor": mtprof_floor.empty, "scope": mindtorch_v2.profiler.record_function}
    floor = off = on = float("inf")
    for _ in range(5):
        floor = min(floor, each_ns('with floor("x"): pass', names) - loop)
        off = min(off, each_ns('with scope("x"): pass', names) - loop)
    with profiled(mindtorch_v2):
        for _ in range(5):
            on = min(on, each_ns('with scope("x"): pass', names) - loop)
    say("py_floor_with_ns", floor, "ns", note="an empty context manager in C")
    say("py_record_function_off_ns", off, "ns", 1.1 * floor, "no profiler running")
    say("py_record_function_on_ns", on, "ns", 2 * floor, "recording")
    if torch:
        names = {"scope": torch.profiler.record_function}
        say("py_record_function_off_torch_ns", each_ns('with scope("x"): pass', names, 500, 20) - loop, "ns")


def op_ns(framework, profile=None, depth=0, statement="x + x"):
    x = framework.ones(2, 2)
    measure = lambda: each_ns(statement, {"x": x}, 1000, 40)  # noqa: E731
    if profile is None:
        return at_depth(depth, measure)
    with profile:
        return at_depth(depth, measure)


def bench_ops():
    cases = [("py_op_overhead_ns", {}, 0, 80), ("py_op_overhead_shapes_ns", {"record_shapes": True}, 0, 200),
             ("py_op_overhead_stack_ns", {"with_stack": True}, 20, 400),
             ("py_op_overhead_memory_ns", {"profile_memory": True}, 0, 200)]
    for name, flags, depth, bar in cases:
        over = min(op_ns(mindtorch_v2, profiled(mindtorch_v2, **flags), depth) - op_ns(mindtorch_v2, None, depth) for _ in range(3))
        say(name, over, "ns", bar, f"x + x, profiling on minus off{', %d frames deep' % depth if depth else ''}")
        if torch:
            over = op_ns(torch, profiled(torch, **flags), depth) - op_ns(torch, None, depth)
            say(name.replace("_ns", "_torch_ns"), over, "ns")
    for name, framework in {"py_number_overhead_ns": mindtorch_v2, "py_number_overhead_torch_ns": torch}.items():
        if framework:
            over = min(op_ns(framework, profiled(framework), 0, "x + 1") - op_ns(framework, None, 0, "x + 1") for _ in range(3))
            say(name, over, "ns", note="x + 1, on minus off; the 1 becomes a tensor: five ops in all")


def session_of(framework, ops):
    x = framework.ones(2, 2)
    profile = profiled(framework)
    with profile:
        for _ in range(ops):
            x + x
        began = time.perf_counter()
    return profile, (time.perf_counter() - began) * 1e3


def bench_after(framework, ops, suffix=""):
    best = {}
    for _ in range(3):
        profile, stop = session_of(framework, ops)
        began = time.perf_counter()
        events = profile.events()
        shown = (time.perf_counter() - began) * 1e3
        began = time.perf_counter()
        profile.key_averages().table()
        rows = (time.perf_counter() - began) * 1e3
        began = time.perf_counter()
        read = sum(event.name != "" for event in profile.events())
        each = (time.perf_counter() - began) * 1e3
        for key, value in (("events", shown), ("all", stop + rows), ("read", shown + each)):
            best[key] = min(best.get(key, 1e9), value)
        del events
        if framework is torch:
            break
    bars = (None, None) if suffix else (100, 5)
    say(f"py_stop_averages_table{suffix}_ms", best["all"], "ms", bars[0], f"stop, key_averages, table: {ops} ops")
    say(f"py_events{suffix}_ms", best["events"], "ms", bars[1], "events()")
    say(f"py_events_read{suffix}_ms", best["read"], "ms", None, f"events(), and the name of each of {read}")
    if not suffix:
        say("py_bytes_per_op", profile.profiler._session.ledger["bytes"] / ops, "B", 64, "records in memory, counting whole chunks")


def main():
    mindtorch_v2.set_num_threads(1)
    if torch:
        torch.set_num_threads(1)
    print(f"profiling from Python{', beside PyTorch ' + torch.__version__ if torch else ''}")
    bench_record_function()
    bench_ops()
    bench_after(mindtorch_v2, 400000)
    if torch:
        bench_after(torch, 400000, "_torch")
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
