#!/usr/bin/env python3
"""mtprof digest against mtprof stats, on real traces. usage: digest.py MTPROF TRACE...     TRACE: with steps"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

MTPROF, TRACES = sys.argv[1], sys.argv[2:]
TIMES = ("self_us", "total_us", "min_us", "max_us")
count = failed = 0


def check(name, right, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}", flush=True)
    if not right:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]), flush=True)


def run(*args, code=0):
    ran = subprocess.run([MTPROF, *map(str, args)], capture_output=True, text=True)
    if ran.returncode != code:
        raise AssertionError(f"mtprof {' '.join(map(str, args))}: exit code {ran.returncode}: {ran.stderr}")
    return ran.stdout if code == 0 else ran.stderr


def ops(entry):
    return {(op["name"], op["is_device"]): op for op in entry["ops"]}


def stats(trace):
    """By name and device, what mtprof stats says; rows of one name that torch keeps apart are summed."""
    rows = collections.defaultdict(lambda: [0, 0.0, 0.0, 1e18, 0.0])
    for row in json.loads(run("stats", "--json", trace)):
        is_device = row["device_type"] != "DeviceType.CPU"
        if row["key"] == "[memory]":
            continue
        mine, what = rows[row["key"], is_device], "device" if is_device else "cpu"
        mine[0] += row["count"]
        mine[1] += row[f"self_{what}_time_total"]
        mine[2] += row[f"{what}_time_total"]
        mine[3], mine[4] = min(mine[3], row["min"]), max(mine[4], row["max"])
    return rows


def near(a, b):
    return abs(a - b) <= 1e-9 * abs(b) + 0.0006


for trace in TRACES:
    name, wanted = pathlib.Path(trace).name, stats(trace)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        whole = json.loads(run("digest", "--json", "--by", "all", trace))["entries"]
        check(f"{name}: one entry has all", len(whole) == 1 and ops(whole[0]).keys() == wanted.keys(), set(ops(whole[0])) ^ set(wanted))
        wrong = [(key, op, wanted[key]) for key, op in ops(whole[0]).items() if op["calls"] != wanted[key][0]
                 or not all(near(op[field], value) for field, value in zip(TIMES, wanted[key][1:]))]
        check(f"{name}: counts, sums, least and most are those of mtprof stats", not wrong, wrong[:3])
        told = run("digest", trace, "-o", folder / "a.digest")
        steps = json.loads(run("digest", "--json", folder / "a.digest"))["entries"]
        of_steps = json.loads(run("steps", "--json", trace))["steps"]
        check(f"{name}: an entry for each step", [e["step"] for e in steps if e["steps"]] == [-1 if s["step"] is None else s["step"] for s in of_steps], told)
        check(f"{name}: times are those of mtprof steps",
              all(near(e[key], s[key]) for e, s in zip((e for e in steps if e["steps"]), of_steps) for key in ("wall_us", "cpu_us", "device_us", "idle_us")))
        names = sum(len(key[0].encode()) + 2 for key in wanted)
        size = (folder / "a.digest").stat().st_size
        check(f"{name}: at most 4 KB a step, and the names", size <= 4096 * len(steps) + names + 64, (size, len(steps), names))
        other = folder / "b.digest"
        run("digest", "--as-rank", "1", "--job", "j", trace, "-o", other)
        (folder / "both.digest").write_bytes((folder / "a.digest").read_bytes() + other.read_bytes())
        both = json.loads(run("digest", "--json", "--by", "all", folder / "both.digest"))["entries"][0]
        check(f"{name}: two files in a row count twice", both["calls"] == 2 * whole[0]["calls"] and near(both["self_us"], 2 * whole[0]["self_us"]), both["calls"])
        ranks = json.loads(run("digest", "--json", "--by", "rank,job", folder / "a.digest", other))["entries"]
        check(f"{name}: a rank and a job of one's own", [(e["rank"], e["job"], e["step"]) for e in ranks][-1] == (1, "j", None), ranks[-1]["rank"])
        text = run("digest", "-l", "3", folder / "both.digest")
        check(f"{name}: a text", "2 ranks, " in text and "per step" in text and max(map(len, text.splitlines()[1:])) <= 100, text)
        other.write_bytes(other.read_bytes()[:-5])
        check(f"{name}: a file that was cut is said so", json.loads(run("digest", "--json", other))["damaged"] == 1)

def made(path, **metadata):
    path.write_text(json.dumps({**metadata, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}))
    return path


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    one = made(folder / "one.json", job="\u00fcber", hostname="h", distributedInfo={"rank": 4, "world_size": 8, "job": "launcher's"})
    two, broken = made(folder / "rank5.json", distributedInfo={"world_size": 8, "job": "launcher's"}, host="g"), folder / "broken.json"
    broken.write_text('{"traceEvents": [{"ph"')
    said = run("digest", one, broken, two, "-o", folder / "sum.digest", code=3)
    entries = json.loads(run("digest", "--json", folder / "sum.digest"))["entries"]
    check("what cannot be read is named, and the others are summed", "broken.json" in said and len(entries) == 2, (said, entries))
    check("job, rank and host are those of the trace", [(e["job"], e["rank"], e["host"]) for e in entries] == [("launcher's", 5, "g"), ("\u00fcber", 4, "h")], entries)
    check("nothing that can be read: no digest", "broken.json" in run("digest", broken, "-o", folder / "none.digest", code=3) and not (folder / "none.digest").exists())
    run("digest", one, two, "-o", folder / "sum.digest.gz")
    check("a packed digest is read", json.loads(run("digest", "--json", folder / "sum.digest.gz"))["entries"] == entries)
    (folder / "cut.digest.gz").write_bytes((folder / "sum.digest.gz").read_bytes()[:-9])
    check("one that was cut is said so", json.loads(run("digest", "--json", folder / "cut.digest.gz"))["damaged"] > 0)
    check("a rank beyond any number is refused", "not a rank" in run("digest", "--as-rank", "99999999999999999999", one, code=2))

for args, code, words in ((("--by", "colour", TRACES[0]), 2, "rank, step, job, host"), (("--as-rank", "-1", TRACES[0]), 2, "not a rank"), ((), 2, "mtprof digest TRACE"),
                          (("-l", "x", TRACES[0]), 2, "number of rows"), (("/nowhere.digest",), 3, "/nowhere.digest")):
    said = run("digest", *args, code=code)
    check(f"digest {' '.join(args)}: refused with a reason", words in said, said)
print(f"1..{count}")
sys.exit(failed > 0)
