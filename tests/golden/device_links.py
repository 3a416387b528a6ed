#!/usr/bin/env python3
"""Device time by op, compared with an independent join: by correlation, from the work to its launch to the enclosing op.

usage: tests/golden/device_links.py MTPROF TRACE.json.gz...     MTPROF: the built command; traces of PyTorch with CUDA

Each trace is tested unchanged and in forms that occur in practice: an "External id" that repeats the correlation (on
device work, on launches, with ops that have the same numbers), none, PyTorch's spelling of 2021, graphs whose kernels
share one launch, no launches at all, two processes in one file.
"""
import bisect
import collections
import copy
import gzip
import itertools
import json
import os
import subprocess
import sys
import tempfile

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
OPS = ("cpu_op", "user_annotation")
ID = "External id"


def is_a(event, cats):
    return event.get("ph") == "X" and event.get("cat") in cats


def of(events, cats):
    return [e for e in events if is_a(e, cats)]


# ------------------------------------------------------------------------------------------------- forms

def as_it_is(events):
    return events


def own_ids(events):
    """Kineto knew no op: the correlation is stored in place of the op's id."""
    for e in of(events, WORK):
        e["args"][ID] = e["args"]["correlation"]
    return events


def own_ids_of_calls_too(events):
    for e in of(own_ids(events), CALLS):
        e["args"][ID] = e["args"]["correlation"]
    return events


def ops_with_the_numbers_of_others(events):
    """The worst case: each id is also that of an op, but not of the one that launched the work."""
    numbers = [e["args"]["correlation"] for e in of(events, WORK)][::-1]
    ops = of(events, OPS)
    for e, number in zip(ops, itertools.chain(numbers, itertools.count(max(numbers, default=0) + 1))):
        e["args"][ID] = number
    return own_ids_of_calls_too(events)


def ops_with_the_numbers_of_others_ids_of_work_only(events):
    for e in of(ops_with_the_numbers_of_others(events), CALLS):
        e["args"].pop(ID, None)
    return events


def no_ids(events):
    for e in of(events, WORK + CALLS):
        e["args"].pop(ID, None)
    return events


def spelling_of_2021(events):
    for e in events:
        if ID in e.get("args", {}):
            e["args"]["external id"] = e["args"].pop(ID)
    return events


def a_chance_match(events):
    """One id that is correct and happens to equal the correlation."""
    work = of(events, WORK)
    by_id = {e["args"].get(ID): e for e in of(events, OPS)}
    for e in work:
        if e["args"].get(ID) in by_id:
            old, new = e["args"]["correlation"], e["args"][ID]
            for other in of(events, WORK + CALLS):
                if other["args"].get("correlation") == old:
                    other["args"]["correlation"] = new
            break
    return events


def graphs(events):
    """The launches of each op become one graph launch; all its kernels have its correlation and no op id."""
    calls = {e["args"].get("correlation"): e for e in of(events, CALLS)}
    first, gone = {}, set()
    for e in of(events, WORK):
        call = calls.get(e["args"]["correlation"])
        if call is None:
            continue
        key = call["args"].get(ID, id(call))
        launch = first.setdefault(key, call)
        launch["name"] = "cudaGraphLaunch"
        if launch is not call:
            gone.add(id(call))
        e["args"]["correlation"] = launch["args"]["correlation"]
        e["args"].pop(ID, None)
    return [e for e in events if id(e) not in gone and e.get("cat") != "ac2g"]


def no_calls(events):
    return [e for e in events if not is_a(e, CALLS) and e.get("cat") != "ac2g"]


def no_calls_and_own_ids(events):
    return no_calls(own_ids(events))


def two_processes(events, later=40.0):
    """The files of two ranks merged: all ids occur twice. The second has the second half of the devices."""
    half = 1 + max((e["pid"] for e in of(events, WORK) if isinstance(e["pid"], int)), default=0)
    second = copy.deepcopy([e for e in events if e.get("ph") != "M"])
    for e in second:
        on_device = e.get("cat") in WORK or e.get("cat") == "gpu_user_annotation" or "stream" in e.get("args", {})
        if isinstance(e.get("pid"), int):
            e["pid"] += half if on_device or e["pid"] < half else 100000
        e["ts"] += later
        if e.get("ph") == "X":
            e.setdefault("args", {})["rank"] = 1
            e["name"] = e["name"] if e["name"].startswith("ProfilerStep#") else "second " + e["name"]
    return events + second


def two_processes_far_apart(events):
    return two_processes(events, later=2000000.0)


def two_processes_the_second_first(events):
    return two_processes(events, later=-40.0)


def calls_with_ids_of_another_thread(events):
    """An op of another thread runs during each launch, and the launch has that op's id."""
    ids = itertools.count(1 + max((e["args"].get(ID, 0) for e in of(events, OPS + CALLS + WORK)), default=0))
    beside = []
    for call in of(events, CALLS):
        call["args"][ID] = next(ids)
        beside.append({"ph": "X", "cat": "cpu_op", "name": "beside", "pid": call["pid"], "tid": 999999,
                       "ts": call["ts"], "dur": call["dur"], "args": {ID: call["args"][ID]}})
    rows = {(e["pid"], e["tid"]) for e in of(events, CALLS)}
    around = {row: Thread([e for e in of(events, OPS) if (e["pid"], e["tid"]) == row]) for row in rows}
    for call in of(events, CALLS):
        if around[call["pid"], call["tid"]].at(call) is None:  # such a call has only its id
            call["args"].pop(ID)
    return events + beside


FORMS = (as_it_is, own_ids, own_ids_of_calls_too, ops_with_the_numbers_of_others,
         ops_with_the_numbers_of_others_ids_of_work_only, no_ids, spelling_of_2021, a_chance_match, graphs, no_calls,
         no_calls_and_own_ids, two_processes, two_processes_far_apart, two_processes_the_second_first,
         calls_with_ids_of_another_thread)


# ------------------------------------------------------------------------------------------------ the join

def key_of(name):
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


class Thread:
    """Finds the innermost op that runs at a time: the shortest of those that contain it."""

    def __init__(self, ops):
        self.ops = sorted(ops, key=lambda e: e["ts"])
        self.starts = [e["ts"] for e in self.ops]

    def at(self, call):
        for cat in OPS:
            inside = [e for e in self.ops[:bisect.bisect_right(self.starts, call["ts"])]
                      if e["cat"] == cat and e["ts"] + e["dur"] >= call["ts"] + call["dur"] - 0.0005]
            if inside:
                return min(inside, key=lambda e: e["dur"])
        return None


def expected(events):
    """Device time by name of the op, or of the call; and device time without a launcher."""
    threads = collections.defaultdict(list)
    for e in of(events, OPS):
        threads[e["pid"], e["tid"]].append(e)
    threads = {where: Thread(ops) for where, ops in threads.items()}
    calls = {(e["args"].get("rank"), e["args"].get("correlation")): e for e in of(events, CALLS)}
    by_id = {e["args"].get(ID, e["args"].get("external id")): e for e in of(events, OPS)}
    work = of(events, WORK)
    own = sum(e["args"].get(ID) == e["args"]["correlation"] for e in work) * 2 > sum(ID in e["args"] for e in work)
    sums, lost = collections.Counter(), 0.0
    for e in work:
        call = calls.get((e["args"].get("rank"), e["args"].get("correlation")))
        if call is not None:
            thread = threads.get((call["pid"], call["tid"]))
            launcher = (thread.at(call) if thread else None) or call
        else:
            launcher = None if own else by_id.get(e["args"].get(ID, e["args"].get("external id", object())))
        if launcher is None:
            lost += e["dur"]
        else:
            sums[key_of(launcher["name"])] += e["dur"]
    return sums, lost


def found(command, path):
    rows = json.loads(subprocess.run([command, "stats", "--json", path], check=True, stdout=subprocess.PIPE).stdout)
    rows = rows["rows"] if isinstance(rows, dict) else rows
    sums = collections.Counter()
    for row in rows:
        if row["device_type"] == "DeviceType.CPU":
            sums[row["key"]] += row["self_device_time_total"]
    return sums


def differences(want, got):
    for name in sorted(set(want) | set(got)):
        if abs(want[name] - got[name]) > 1e-6 * max(want[name], got[name]) + 0.002:
            yield f"{name[:60]}: {got[name]:.3f} us, by correlation {want[name]:.3f}"


def main(command, paths):
    bad = checked = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            with gzip.open(path, "rt") as file:
                whole = json.load(file)
            for form in FORMS:
                events = form(copy.deepcopy(whole["traceEvents"]))
                if not of(events, WORK):
                    continue
                made = os.path.join(folder, "trace.json")
                with open(made, "w") as file:
                    json.dump({**whole, "traceEvents": events}, file)
                want, lost = expected(events)
                wrong = list(differences(want, found(command, made)))
                checked += 1
                bad += bool(wrong)
                name = f"{os.path.basename(path)}, {form.__name__.replace('_', ' ')}"
                print(f"{'not ok' if wrong else 'ok'} {checked} - {name}: {sum(want.values()):.0f} us to "
                      f"{len(want)} names, {lost:.0f} us to none")
                for line in wrong[:5]:
                    print("#  ", line)
    print(f"1..{checked}")
    return int(bad != 0 or checked == 0)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
