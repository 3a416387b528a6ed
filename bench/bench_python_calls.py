#!/usr/bin/env python3
"""What recording adds to a call of Python: by sys.monitoring, and by the profile hook, which is used if both tool ids are taken.

usage: PYTHONPATH=... python3 bench/bench_python_calls.py      Python 3.12 or later

Nanoseconds per call; the minimum of many turns, in which all alternate.
"""
import sys
import time

import mtprof

TURNS, CALLS = 60, 10000


def empty():
    pass


def fail():
    raise KeyError


def functions(n):
    for _ in range(n):
        empty()


def c_functions(n):
    length, nothing = len, ()
    for _ in range(n):
        length(nothing)


def generators(n):
    for _ in (i for i in range(n)):
        pass


def exceptions(n):
    for _ in range(n):
        try:
            fail()
        except KeyError:
            pass


def cost(function, record):
    session = mtprof.Session(activities=mtprof.CPU, with_stack=True) if record else None
    if session:
        session.prepare()
        session.start()
    begin = time.perf_counter_ns()
    function(CALLS)
    end = time.perf_counter_ns()
    if session:
        session.stop()
    return (end - begin) / CALLS


def by_hook(function):
    for tool in (3, 4):
        sys.monitoring.use_tool_id(tool, "bench")
    try:
        return cost(function, True)
    finally:
        for tool in (3, 4):
            sys.monitoring.free_tool_id(tool)


def main():
    if not hasattr(sys, "monitoring"):
        sys.exit("this Python has no sys.monitoring: 3.12 or later is needed")
    print(f"Python {sys.version.split()[0]}, ns per call    alone  +monitoring  +hook  ratio")
    kinds = (functions, c_functions, generators, exceptions)
    best = {kind: [float("inf")] * 3 for kind in kinds}
    for _ in range(TURNS):
        for kind in kinds:
            now = cost(kind, False), cost(kind, True), by_hook(kind)
            best[kind] = [min(pair) for pair in zip(best[kind], now)]
    for kind, (alone, monitored, hooked) in best.items():
        print(f"{kind.__name__:26}{alone:9.1f}{monitored - alone:13.1f}{hooked - alone:7.1f}{(monitored - alone) / (hooked - alone):7.2f}")


if __name__ == "__main__":
    main()
