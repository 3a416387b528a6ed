#!/usr/bin/env python3
"""A PyTorch trace that is read and written again is the same trace: as many events of each category and phase, the same
averages, and no problems found by `mtprof check`. usage: round_trip.py MTPROF TRACE-or-FOLDER..."""
import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

MTPROF = sys.argv[1]
failed = []


def run(*args):
    done = subprocess.run([MTPROF, *map(str, args)], capture_output=True, text=True)
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def events_of(path):
    with gzip.open(path) if path.name.endswith(".gz") else open(path, "rb") as file:
        return json.load(file)["traceEvents"]


def lines_of(path):
    """In any order: rows are named in order of appearance."""
    return collections.Counter(line.rstrip(b",") for line in path.read_bytes().splitlines())


def counts(events):
    """Of the trace's own events, without those that the writer adds."""
    return collections.Counter((e.get("cat", ""), e["ph"]) for e in events if e["ph"] != "M" and e.get("cat") != "mtprof_memory")


def keys_of(events):
    """How many events of each category have which args."""
    return collections.Counter((e.get("cat", ""), key) for e in events if e["ph"] != "M" for key in e.get("args", {}))


def rows_of(path, *options):
    done = subprocess.run([MTPROF, "stats", "--json", *options, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def differences(trace, folder):
    again = folder / "again.json"
    code, said = run("export", trace, "-o", again)
    if code != 0:
        return [f"export: {said}"]
    found = []
    before, after = counts(events_of(trace)), counts(events_of(again))
    for key in sorted(before.keys() | after.keys()):
        if before[key] != after[key]:
            found.append(f"{key}: {before[key]} events, then {after[key]}")
    for (category, key), lost in (keys_of(events_of(trace)) - keys_of(events_of(again))).items():
        found.append(f"{category}: {lost} events have lost {key!r}")
    told = [e["args"]["Total Allocated"] for e in events_of(again) if e["name"] == "[memory]"]
    drawn = [e["args"]["Allocated"] for e in events_of(again) if e.get("cat") == "mtprof_memory"]
    if told != drawn:
        found.append(f"{len(told)} [memory] events, and {len(drawn)} counters to draw them")
    for options in ((), ("--by-shape",), ("--by-stack", "5")):
        if rows_of(trace, *options) != rows_of(again, *options):
            found.append(f"averages differ {' '.join(options)}")
    code, said = run("check", again)
    if code != 0 or "clean" not in said:
        found.append(f"check: exit status {code}\n{said}")
    once = lines_of(again)
    run("export", again, "-o", again)
    if lines_of(again) != once:
        found.append("written a third time, the file differs")
    return found


def main():
    traces = []
    for name in map(pathlib.Path, sys.argv[2:]):
        if name.is_dir():
            traces += sorted(p for p in name.glob("*.json*") if ".gold." not in p.name)
        elif name.exists():
            traces.append(name)
        else:
            print(f"# {name.name} is not here")
    print("TAP version 13")
    for number, trace in enumerate(traces, 1):
        with tempfile.TemporaryDirectory() as folder:
            found = differences(trace, pathlib.Path(folder))
        print(f"{'not ' if found else ''}ok {number} - {trace.name.split('.')[0]} is the same when written again")
        for line in found:
            print("#", line.replace("\n", "\n# "))
        failed.extend(found)
    print(f"1..{len(traces)}")
    return 1 if failed or not traces else 0


if __name__ == "__main__":
    sys.exit(main())
