#!/usr/bin/env python3
"""mtprof.pytorch beside torch.profiler, on the same PyTorch: what recording adds to a small op, and what the results take.

usage: bench_pytorch.py [FIGURES.json] [--rounds N]

All kinds take turns in one process; of each, the minimum of many short repeats. Without PyTorch nothing is measured.
"""
import argparse
import contextlib
import gc
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
CALLS, REPEATS = 20_000, 3  # of one round: long enough that what events take in memory is paid for
RESULT_OPS = 400_000
BARS = {"plain": 0.4, "shapes": 0.4, "stacks": 0.6}  # of what torch.profiler adds


@contextlib.contextmanager
def silence():
    """Kineto prints to stderr."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def best(torch):
    """ns of a small op, called from Python."""
    a, b, add, least = torch.ones(8), torch.ones(8), torch.add, float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter_ns()
        for _ in range(CALLS):
            add(a, b)
        least = min(least, (time.perf_counter_ns() - begun) / CALLS)
    return least


def kinds(torch, ours, library):
    """name -> a context in which the op is timed."""
    @contextlib.contextmanager
    def clock(with_inputs):
        library.mtp_torch_clock(1, with_inputs)
        yield
        library.mtp_torch_clock(0, 0)

    cpu = {"activities": [torch.profiler.ProfilerActivity.CPU]}
    options = {"plain": {}, "shapes": {"record_shapes": True}, "stacks": {"with_stack": True}}
    found = {"nothing": contextlib.nullcontext, "clock": lambda: clock(0), "clock, inputs": lambda: clock(1)}
    for name, more in options.items():
        found[f"mtprof, {name}"] = lambda more=more: ours.profile(**more, when_full="newest", buffer_bytes="64M")
        found[f"torch.profiler, {name}"] = lambda more=more: torch.profiler.profile(**cpu, **more)
    return found


def measure_ops(torch, ours, library, rounds):
    contexts = kinds(torch, ours, library)
    least = dict.fromkeys(contexts, float("inf"))
    for _ in range(rounds):
        for name, make in contexts.items():
            gc.collect()
            with silence(), make():
                least[name] = min(least[name], best(torch))
    return least


def measure_results(torch, profiler):
    """ms of stop, key_averages and table for RESULT_OPS ops."""
    a, b, add = torch.ones(8), torch.ones(8), torch.add
    prof = profiler.profile(activities=[profiler.ProfilerActivity.CPU])
    with silence():
        prof.start()
        for _ in range(RESULT_OPS):
            add(a, b)
        begun = time.perf_counter_ns()
        prof.stop()
        table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    assert "aten::add" in table
    return (time.perf_counter_ns() - begun) / 1e6


def measure_scope(torch, ours):
    """ns of `with record_function` while nothing records, and while mtprof does."""
    def least(scope):
        found = float("inf")
        for _ in range(200):
            begun = time.perf_counter_ns()
            for _ in range(200):
                with scope("scope"):
                    pass
            found = min(found, (time.perf_counter_ns() - begun) / 200)
        return found

    figures = {"pytorch_scope_off_ns": least(ours.record_function), "pytorch_torch_scope_off_ns": least(torch.profiler.record_function)}
    with ours.profile(when_full="newest", buffer_bytes="64M"):
        figures["pytorch_scope_ns"] = least(ours.record_function)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("figures", nargs="?")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("bench_pytorch: PyTorch is not installed, nothing is compared")
        return 0
    import mtprof.pytorch as ours
    from mtprof.pytorch import collector

    torch.set_num_threads(1)
    library = collector.load()
    least = measure_ops(torch, ours, library, options.rounds)
    op = least["nothing"]
    print(f"an op of PyTorch {torch.__version__} takes {op:.0f} ns; recording adds")
    print(f"  {'callbacks that read the clock':32} {least['clock'] - op:6.0f} ns, with inputs {least['clock, inputs'] - op:.0f} ns")
    figures = {"pytorch_op_ns": op, "pytorch_clock_ns": least["clock"] - op}
    failed = False
    for name, bar in BARS.items():
        mine, theirs = least[f"mtprof, {name}"] - op, least[f"torch.profiler, {name}"] - op
        figures[f"pytorch_{name}_ns"], figures[f"pytorch_torch_{name}_ns"] = mine, theirs
        failed |= mine > bar * theirs
        print(f"  {'mtprof, ' + name:32} {mine:6.0f} ns, torch.profiler {theirs:6.0f} ns: {mine / theirs:.2f} x (bar {bar} x)")
    above = least["mtprof, plain"] - least["clock"]
    print(f"  mtprof adds {above:.0f} ns to callbacks that read the clock twice (bar 60 ns)")
    results = min(measure_results(torch, ours) for _ in range(3))
    their_results = measure_results(torch, torch.profiler)
    figures |= {"pytorch_results_ms": results, "pytorch_torch_results_ms": their_results, **measure_scope(torch, ours)}
    print(f"stop, key_averages and table of {RESULT_OPS:,} ops: {results:.0f} ms, torch.profiler {their_results:,.0f} ms (bar 100 ms)")
    print(f"record_function, not recording: {figures['pytorch_scope_off_ns']:.0f} ns, PyTorch's {figures['pytorch_torch_scope_off_ns']:.0f} ns")
    if options.figures:
        with open(options.figures, "w", encoding="utf-8") as file:
            json.dump({name: round(value, 3) for name, value in figures.items()}, file, indent=1)
    return int(failed or above > 60 or results > 100)


if __name__ == "__main__":
    sys.exit(main())
