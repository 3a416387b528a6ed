"""The same program under torch.profiler and under mtprof.pytorch, and what differs.

    PYTHONPATH=src python3 tests/pytorch/compare.py       prints, for each program, how many events agree
"""
import contextlib
import gc
import os
import sys

import torch

import mtprof.pytorch as ours
from programs import PROGRAMS


@contextlib.contextmanager
def silence():
    """Kineto prints to stderr."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def record(profiler, name, **options):
    """The profile of a program that has run once before."""
    torch.manual_seed(0)
    run = PROGRAMS[name]()
    run()
    gc.collect()  # what earlier programs left must not be freed meanwhile
    options.setdefault("activities", [profiler.ProfilerActivity.CPU])
    with silence(), profiler.profile(**options) as prof:
        run()
    return prof


def shown(prof, *extra):
    """Its events in order: for each thread, in the order of their first events, what can be compared."""
    events = [event for event in prof.events() if event.name not in ("[memory]",)]
    threads, first = {}, min((event.sequence_nr for event in events if event.sequence_nr >= 0), default=0)
    for event in sorted(events, key=lambda event: (event.time_range.start, -event.time_range.end)):
        number = event.sequence_nr - first if event.sequence_nr >= 0 else -1
        parent = event.cpu_parent.name if event.cpu_parent is not None else None
        row = (event.name, parent, event.scope, number, event.is_user_annotation, bool(event.is_async))
        threads.setdefault(event.thread, []).append(row + tuple(getattr(event, name) for name in extra))
    return list(threads.values())


def differences(theirs, mine):
    """Pairs of rows that differ, over all threads."""
    found = []
    for index in range(max(len(theirs), len(mine))):
        a = theirs[index] if index < len(theirs) else []
        b = mine[index] if index < len(mine) else []
        for k in range(max(len(a), len(b))):
            pair = (a[k] if k < len(a) else None, b[k] if k < len(b) else None)
            if pair[0] != pair[1]:
                found.append(pair)
    return found


def main():
    for name in PROGRAMS:
        for options, extra in (({}, ()), ({"record_shapes": True}, ("input_shapes", "concrete_inputs"))):
            theirs, mine = (shown(record(profiler, name, **options), *extra) for profiler in (torch.profiler, ours))
            found = differences(theirs, mine)
            print(f"{name} {options}: {sum(map(len, theirs))} and {sum(map(len, mine))} events, {len(found)} differ")
            for pair in found[:3]:
                print(f"    torch.profiler  {pair[0]}\n    mtprof.pytorch  {pair[1]}")


if __name__ == "__main__":
    main()
