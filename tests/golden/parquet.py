#!/usr/bin/env python3
"""Parquet tables hold what averages, tables and findings need: sums over them are those of `mtprof stats`, for each trace.
usage: tests/golden/parquet.py MTPROF TRACE...

The files are read by parquet_file.py, beside this file, which knows nothing of our writer.
"""
import collections
import fcntl
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import parquet_file  # noqa: E402

MTPROF, *TRACES = sys.argv[1:]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLES = "spans memory steps instants names shapes stacks threads losses metadata".split()
ANNOTATIONS = ("step", "scope", "device_scope")
count = failed = 0


def check(name, right, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}")
    if not right:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]))


def run(*args, **env):
    done = subprocess.run([MTPROF, *map(str, args)], capture_output=True, env={**os.environ, **env})
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def mtprof(*args):
    code, out, err = run(*args)
    assert code == 0, (args, code, err)
    return out


def tables(folder):
    """The one partition of a folder: {table: {column: values}}."""
    out = {}
    for table in TABLES:
        path, = folder.glob(f"{table}/job=*/rank=*/{table}.parquet")
        out[table] = parquet_file.read(path)
    return out


def exported(trace, folder, *options):
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    mtprof("export", "--parquet", lake, *options, trace)
    return tables(lake)


def rows(table, *names):
    return zip(*(table[name] for name in names))


def nearest(values, percent):
    return sorted(values)[(len(values) * percent + 99) // 100 - 1]


def short(dims):
    """Averages show a list of tensors as []."""
    out, depth, item = [], 0, 0
    deep = False
    for c in dims or "[]":
        if c == "[":
            depth += 1
            item = len(out) if depth == 2 else item
            deep |= depth == 3
        if c == "]":
            if depth == 2 and deep:
                del out[item + 1:]
                deep = False
            depth -= 1
        out.append(c)
    return "".join(out)


class Sum:
    def __init__(self):
        self.times, self.self_ns, self.device, self.self_device, self.flops = [], 0, 0, 0, 0
        self.bytes, self.unfinished = [0, 0, 0, 0], False


def averages(t, by_shape):
    """What `mtprof stats` computes, from the tables alone."""
    out = collections.defaultdict(Sum)
    names = ("counted", "key", "name", "on_device", "kind", "input_dims", "dur_ns", "self_ns", "device_ns", "self_device_ns", "cpu_bytes",
             "self_cpu_bytes", "device_bytes", "self_device_bytes", "flops", "unfinished")
    for (counted, key, name, on_device, kind, dims, duration, own, device, self_device, b0, b1, b2, b3, flops, unfinished) in rows(t["spans"], *names):
        if not counted:
            continue
        s = out[key if key is not None else name, bool(on_device), kind in ANNOTATIONS, short(dims) if by_shape else ""]
        s.times.append(duration)
        s.self_ns += own or 0
        s.device += duration if on_device else device or 0
        s.self_device += duration if on_device else self_device or 0
        s.bytes = [a + (b or 0) for a, b in zip(s.bytes, (b0, b1, b2, b3))]
        s.flops += flops or 0
        s.unfinished |= unfinished
    for size, inside, device in rows(t["memory"], "bytes", "in_span", "device_type"):
        if not inside:
            s = out["[memory]", False, False, "[]" if by_shape else ""]
            s.times.append(0)
            at = 0 if device in (0, 2, 5) else 2
            for i in (at, at + 1):
                s.bytes[i] += size
    for name in t["instants"]["name"]:
        if name == "[OutOfMemory]":
            out["[OutOfMemory]", False, False, "[]" if by_shape else ""].times.append(0)
    return out


def close(us, ns, calls):
    return math.isclose(us, ns / 1000, rel_tol=1e-9, abs_tol=2e-3 + 1e-6 * calls)


def differences(stats, sums):
    found = {}
    for row in stats:
        key = row["key"], not row["device_type"].endswith("CPU"), row["is_user_annotation"], row["input_shapes"]
        s = sums.pop(key, None)
        if s is None:
            return [("missing", key)]
        if s.unfinished:
            continue    # nested ones of one name count once
        n = len(s.times)
        cpu = not key[1]
        right = (row["count"] == n and close(row["min"], min(s.times), 1) and close(row["max"], max(s.times), 1)
                 and close(row["p50"], nearest(s.times, 50), 1) and close(row["p99"], nearest(s.times, 99), 1)
                 and (not cpu or close(row["cpu_time_total"], sum(s.times), n) and close(row["self_cpu_time_total"], s.self_ns, n))
                 and close(row["device_time_total"], s.device, n) and close(row["self_device_time_total"], s.self_device, n)
                 and [row["cpu_memory_usage"], row["self_cpu_memory_usage"], row["device_memory_usage"], row["self_device_memory_usage"]] == s.bytes
                 and row["flops"] == s.flops)
        if not right:
            found[key] = (row, vars(s) | {"times": sum(s.times), "n": n})
    return list(found.items())[:2] + [("more", key) for key in list(sums)[:3]]


def check_structure(name, t):
    spans, n = t["spans"], len(t["spans"]["span"])
    check(f"{name}: spans are numbered", spans["span"] == list(range(n)))
    parents = spans["parent"]
    right = all(p is None and d == 0 or p is not None and p < i and spans["depth"][p] + 1 == d and spans["thread"][p] == spans["thread"][i]
                for i, (p, d) in enumerate(zip(parents, spans["depth"])))
    check(f"{name}: a parent comes first, one level up, on the same thread", right)
    threads = {thread: (pid, tid, spans) for thread, pid, tid, spans in rows(t["threads"], "thread", "pid", "tid", "spans")}
    used = collections.Counter(spans["thread"])
    check(f"{name}: threads are those of the spans", all(threads[k][2] == used[k] for k in threads) and set(used) <= set(threads)
          and all(threads[k][:2] == (pid, tid) for k, pid, tid in rows(spans, "thread", "pid", "tid")))
    byname = collections.defaultdict(list)
    for label, duration, own, device in rows(spans, "name", "dur_ns", "self_ns", "on_device"):
        byname[label].append((duration, own or 0))
    right = {label: (len(v), sum(d for d, _ in v), sum(o for _, o in v), min(d for d, _ in v), max(d for d, _ in v)) for label, v in byname.items()}
    check(f"{name}: names are sums of the spans", right == {r[0]: r[1:] for r in rows(t["names"], "name", "spans", "total_ns", "self_ns", "min_ns", "max_ns")}
          and len(t["names"]["name"]) == len(byname))
    shapes = dict(rows(t["shapes"], "shape", "dims"))
    check(f"{name}: shapes are those of the spans", all(s is None or shapes[s] == d for s, d in rows(spans, "shape", "input_dims"))
          and all(s is None or s in shapes for s in spans["outputs"]))
    check(f"{name}: stacks lead to a root", all(p is None or 0 < p < s for s, p in rows(t["stacks"], "stack", "parent"))
          and all(s is None or 0 < s <= len(t["stacks"]["stack"]) for s in spans["stack"]))
    check(f"{name}: launchers are calls of the host", all(k is None or not spans["on_device"][k] for k in spans["launcher"]))
    check(f"{name}: a span says which memory is its own", all(s is None or spans["name"][s] == op for s, op in rows(t["memory"], "span", "op")))
    check(f"{name}: arguments are JSON", all(json.loads(a) is not None for a in spans["args"] if a))


def check_times(name, trace, t, folder):
    """Times, by another way: through Chrome's JSON."""
    mtprof("export", trace, "-o", folder / "plain.json")
    data = json.loads((folder / "plain.json").read_text())
    base = data.get("baseTimeNanoseconds", 0)
    theirs = collections.Counter((base + round(e["ts"] * 1000), round(e["dur"] * 1000), "runtime" if e["cat"].startswith("cuda_") else e["name"]) for e in data["traceEvents"]
                                 if e["ph"] == "X" and e.get("cat") not in ("Trace", "gpu_user_annotation"))
    ours = collections.Counter((start, duration, "runtime" if kind == "runtime" else label or "?") for start, duration, label, kind, category in rows(t["spans"], "start_ns", "dur_ns", "name", "kind", "category")
                               if category != "Trace" and kind != "device_scope")
    near = collections.Counter()   # a JSON number has microseconds of 2**53
    for (start, duration, label), n in theirs.items():
        near[duration, label] += n
    mine = collections.Counter()
    for (start, duration, label), n in ours.items():
        mine[duration, label] += n
    starts = (min(theirs, default=(0,))[0] - min(ours, default=(0,))[0], max(theirs, default=(0,))[0] - max(ours, default=(0,))[0])
    check(f"{name}: times are those of the trace", mine == near and all(abs(s) < 1000 for s in starts), (list((mine - near).items())[:3], list((near - mine).items())[:3], starts))
    ids = collections.Counter((e["args"].get("External id"), e["args"].get("correlation")) for e in data["traceEvents"] if e["ph"] == "X" and e.get("cat") == "kernel")
    if not str(trace).endswith(".mtp"):
        check(f"{name}: ids of device work are those of the trace", ids == collections.Counter((x, c) for x, c, k in rows(t["spans"], "external_id", "correlation", "kind") if k == "kernel"))


def check_steps(name, trace, t):
    report = json.loads(mtprof("steps", "--json", trace))
    want = [None] if report["whole_trace"] else [s["step"] for s in report["steps"]]
    check(f"{name}: steps are those of mtprof steps", t["steps"]["step"] == want, (t["steps"]["step"], report["steps"][:2]))
    inside = collections.Counter(t["spans"]["step"])
    for number, start, duration, ops in rows(t["steps"], "step", "start_ns", "dur_ns", "ops"):
        if number is not None:
            found = sum(s == number and k in ("op", "backward") for s, k in rows(t["spans"], "step", "kind"))
            check(f"{name}: step {number} has its spans", found >= ops and (ops == 0 or inside[number] > 0), (found, ops))


def check_trace(trace, folder, empty=False):
    name = pathlib.Path(trace).name
    t = exported(trace, folder)
    for by_shape in (False, True):
        stats = json.loads(mtprof("stats", "--json", *(["--by-shape"] if by_shape else []), trace))
        wrong = differences(stats, averages(t, by_shape))
        check(f"{name}: averages {'by shape ' if by_shape else ''}are those of mtprof stats", not wrong and (empty or len(stats) > 0), wrong)
    check_structure(name, t)
    check_times(name, trace, t, folder)
    check_steps(name, trace, t)
    return t


PROGRAM = """
import sys, mindtorch_v2 as torch
from mindtorch_v2 import profiler
device, out = sys.argv[1:]
if device == "npu" and not torch.npu.is_available():
    sys.exit(77)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profiler.profile(activities=["CPU", "NPU"] if device == "npu" else ["CPU"], record_shapes=True, profile_memory=True, with_stack=True, with_flops=True,
                      spool=out) as prof:
    prof.add_metadata("job", "recorded by a test")
    for _ in range(4):
        x, y = torch.randn(32, 64).to(device), torch.randint(0, 10, (32,)).to(device)
        with profiler.record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        prof.step()
prof.export_parquet(out + ".lake", rank=7)
"""


def check_recordings(folder):
    for device in ("cpu", "npu"):
        spool = folder / f"live_{device}.mtp"
        done = subprocess.run([sys.executable, "-c", PROGRAM, device, spool], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
        if done.returncode == 77 or "No module named" in done.stderr:
            print(f"# no recording on {device}: {done.stderr.strip().splitlines()[-1:]}")
            continue
        assert done.returncode == 0, done.stderr
        t = check_trace(spool, folder)
        check(f"live_{device}: the job is the metadata's", (folder / "lake/spans/job=recorded by a test/rank=0").is_dir(), list(folder.glob("lake/spans/*/*")))
        check(f"live_{device}: what was emitted was kept", dict(rows(t["losses"], "cause", "records")).keys() >= {"emitted", "kept"}, t["losses"])
        check(f"live_{device}: it has stacks, shapes, memory and FLOPs", all(any(v is not None for v in t["spans"][c]) for c in ("stack", "shape", "self_cpu_bytes", "flops", "step")))
        again = tables(pathlib.Path(str(spool) + ".lake"))
        check(f"live_{device}: Python exports the same", again["names"] == t["names"] and again["memory"] == t["memory"] and
              next(pathlib.Path(str(spool) + ".lake").glob("spans/*/*")).name == "rank=7", (again["names"], t["names"]))
    program = "import os\nfor i in range(2):\n    if os.fork() == 0:\n        sum(range(10)); os._exit(0)\nfor i in range(2): os.wait()\n"
    done = subprocess.run([MTPROF, "run", "--no-report", "-o", folder / "several.mtp", "--", sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode == 0 and (folder / "several.mtp.workers").is_dir():
        t = check_trace(folder / "several.mtp", folder, True)   # Python functions have no averages
        check("several processes: each is there", len(set(t["spans"]["pid"])) == 3 and len({f for f in t["losses"]["file"]}) == 3, (set(t["spans"]["pid"]), t["losses"]))


def event(name, ts, dur, **more):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


ODD = {
    "nothing": [],
    "no duration": [event("a", 5, 0)],
    "before 1970": [event("a", -50.5, 20), event("b", -45, 3)],
    "negative duration": [event("a", 50, -3), event("b", 60, 3)],
    "at the ends of time": [event("a", 0, 1), event("b", 9.2e15, 1e10), event("c", -9.2e15, 1)],
    "hostile names": [event(n, 10 * i, 5) for i, n in enumerate(["", "\x00", "a\x00b", "'\"; DROP TABLE spans; --", "\ud800", "\U0001f600", "é" * 300, "{", "%s%n", "\u202e", "\x7f", "a,b\nc", "x" * 70000])],
    "large numbers": [event("a", 1, 1, args={"External id": 18446744073709551615, "Sequence number": 9223372036854775807, "correlation": 9223372036854775808})],
    "memory alone": [{"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5 + i,
                      "args": {"Device Type": 0, "Device Id": -1, "Addr": (1 << 64) - 1 - i, "Bytes": b, "Total Allocated": b, "Total Reserved": 0}} for i, b in enumerate([9007199254740993, -5, 0])],
    "counters": [{"ph": "C", "name": "c", "pid": 1, "tid": 1, "ts": i, "args": {"v": v}} for i, v in enumerate([1.5, -0.0, 0, 1e300, -7])],
    "threads named by text": [event("a", 1, 1, pid="p", tid="t 1"), event("a", 1, 1, pid="p", tid="t 2")],
}


def check_odd(folder):
    for name, events in ODD.items():
        trace = folder / "odd.json"
        trace.write_text(json.dumps({"traceEvents": events}))
        code, _, err = run("export", "--parquet", folder / "odd", "--job", name, trace)
        if name == "nothing" and code == 3:
            check(f"{name}: is refused as elsewhere", "no events" in err or "not a trace" in err or err, err)
            continue
        t = {table: parquet_file.read(next((folder / "odd").glob(f"{table}/job={name}/rank=0/*"))) for table in TABLES}
        spans = [e for e in events if e["ph"] == "X"]
        check(f"{name}: {len(spans)} spans are there", code == 0 and len(t["spans"]["span"]) == len(spans), (err, t["spans"]["name"]))
        if name in ("before 1970", "hostile names", "threads named by text", "negative duration"):
            want = sorted((round(e["ts"] * 1000), max(0, round(e["dur"] * 1000)), e["name"].encode("utf-8", "replace").decode().replace("\ud800", "?")) for e in spans)
            got = sorted((s, d, n) for s, d, n in rows(t["spans"], "start_ns", "dur_ns", "name"))
            check(f"{name}: as written", [w[:2] for w in want] == [g[:2] for g in got] and
                  (name == "hostile names" or [w[2] for w in want] == [g[2] for g in got]), (want[:4], got[:4]))
        if name == "hostile names":
            names = set(t["spans"]["name"])
            check("hostile names: are kept", {e["name"] for e in spans} - {"\ud800"} <= names and len(names) == len(spans), {e["name"] for e in spans} - names)
        if name == "memory alone":
            check("memory alone: is there", t["memory"]["bytes"] == [9007199254740993, -5, 0] and t["memory"]["address"] == [(1 << 64) - 1 - i for i in range(3)]
                  and t["memory"]["in_span"] == [False] * 3 and t["memory"]["total_allocated"] == [9007199254740993, None, 0], t["memory"])
        if name == "counters":
            check("counters: values are there", sorted(t["instants"]["value"]) == sorted([1.5, -0.0, 0, 1e300, -7]), t["instants"])


def check_dictionary(folder):
    """Names that differ only in bytes that are not UTF-8 are one in the tables, and one in their dictionary."""
    trace = folder / "invalid.json"
    names = [b"n\x80", b"n\x81", b"n", b"n\x80", b"m\x81", b"n\x81"]
    trace.write_bytes(b'{"traceEvents": [' + b",".join(b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": 1}' % (n, 3 * i) for i, n in enumerate(names)) + b"]}")
    t = exported(trace, folder)
    check("invalid names: each member of a dictionary is there once", t["spans"]["name"] == [n.decode(errors="replace") for n in names], t["spans"]["name"])


def check_places(folder):
    """The job, the rank, and what is refused."""
    def trace(path, **metadata):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**metadata, "traceEvents": [event("a", 1, 1)]}))
        return path

    def placed(*args):
        lake = folder / "places"
        shutil.rmtree(lake, ignore_errors=True)
        code, _, err = run("export", "--parquet", lake, *args)
        return code, err, sorted(str(p.parent.relative_to(lake / "metadata")) for p in lake.glob("metadata/*/*/metadata.parquet"))

    for name, path, metadata, options, place in (
            ("a file's name", "x/run.pt.trace.json", {}, [], "job=run/rank=0"),
            ("a rank of several", "x/train 7/r3.json", {"distributedInfo": {"rank": 3, "world_size": 8}}, [], "job=train 7/rank=3"),
            ("the only rank", "x/r.json", {"distributedInfo": {"rank": 0, "world_size": 1}}, [], "job=r/rank=0"),
            ("the metadata's job", "x/r.json", {"job": "nightly", "distributedInfo": {"world_size": 2, "rank": 1}}, [], "job=nightly/rank=1"),
            ("options", "x/r.json", {"job": "nightly", "distributedInfo": {"world_size": 2, "rank": 1}}, ["--job", "a/b=c%", "--as-rank", "12345678901"], "job=a%2Fb%3Dc%25/rank=12345678901"),
            ("a rank that is none", "x/r.json", {"distributedInfo": {"rank": -5, "world_size": "2"}}, [], "job=x/rank=0"),
            ("a job with escapes", "x/y.json", {"job": "a\n\u00fc"}, [], "job=a%0A\u00fc/rank=0"),
            ("the launcher's job", "x/y.json", {"distributedInfo": {"rank": 1, "world_size": 2, "job": "slurm 7"}}, [], "job=slurm 7/rank=1"),
            ("a rank in the file's name", "x/rank_3.json", {}, [], "job=rank_3/rank=3"),
            ("a long path", f"x/{'d' * 200}/{'e' * 200}/rank_3.json", {"distributedInfo": {"world_size": 2}}, [], f"job={'e' * 200}/rank=3"),
            ("invalid characters", "x/y.json", {}, ["--job", b"\xff\x01.."], "job=\ufffd%01../rank=0")):
        options = [os.fsdecode(o) for o in options]
        code, err, places = placed(*options, trace(folder / path, **metadata))
        check(f"job and rank: {name}", code == 0 and places == [place], (code, err, places))
    one, two = trace(folder / "x/one.json"), trace(folder / "x/two.json")
    code, err, places = placed("--job", "j", one, two)
    check("two traces of one rank are refused, and the first is kept", code == 4 and places == ["job=j/rank=0"] and "--job, --as-rank" in err and "two.json: " in err, err)
    ranks = [trace(folder / f"x/ranks/{i}.json", distributedInfo={"rank": i, "world_size": 3}) for i in range(3)]
    code, err, places = placed(*ranks)
    check("ranks of a folder are one job", code == 0 and places == [f"job=ranks/rank={i}" for i in range(3)], (err, places))
    (folder / "x/bad.json").write_text('{"traceEvents": [{"ph"')
    code, err, places = placed(ranks[0], folder / "x/bad.json", ranks[2])
    check("a broken trace does not keep the others out", code == 3 and places == ["job=ranks/rank=0", "job=ranks/rank=2"] and "bad.json" in err, (code, err, places))
    for options, words in ((["--job", ""], "empty"), (["--job", "x" * 300], "too long"), (["--as-rank", "x"], "not a rank"), (["--as-rank", "-1"], "not a rank"),
                           (["--as-rank", "99999999999999999999"], "not a rank")):
        code, err, places = placed(*options, one)
        check(f"{options} is refused", code == 2 and words in err and not places, (code, err))
    code, err, places = placed("--as-rank", "1", one, two)
    check("a rank is for one trace", code == 2 and not places, err)
    for args in (["--parquet", folder / "p", "-o", "x.json", one], ["--job", "x", one, "-o", folder / "y.json"], ["--parquet", folder / "p"], ["--parquet", folder / "p", "--level", "3", one]):
        check(f"usage {args[0]} {len(args)}", run("export", *args)[0] == 2)


def check_folders(folder):
    trace = folder / "one.json"
    trace.write_text(json.dumps({"traceEvents": [event("a", 1, 1)]}))
    (folder / "file").write_text("kept")
    code, _, err = run("export", "--parquet", folder / "file", trace)
    check("a file is no folder", code == 4 and "Not a directory" in err and (folder / "file").read_text() == "kept", err)
    code, _, err = run("export", "--parquet", folder / "none/at/all", trace)
    check("only the last folder is made", code == 4 and "No such file" in err, err)
    other = folder / "other"
    (other / "spans/job=x/rank=0").mkdir(parents=True)
    (other / "spans/job=x/rank=0/spans.parquet").write_text("left by an export that was killed")
    (other / "readme").write_text("mine")
    code, _, err = run("export", "--parquet", other, "--job", "x", trace)
    check("what was left half is replaced, what is not ours stays", code == 0 and parquet_file.read(other / "spans/job=x/rank=0/spans.parquet")["name"] == ["a"]
          and (other / "readme").read_text() == "mine", err)
    for table in TABLES[:-1]:
        blocked = folder / f"blocked {table}"
        (blocked / table).mkdir(parents=True)
        (blocked / table / "job=x").write_text("in the way")
        code, _, err = run("export", "--parquet", blocked, "--job", "x", trace)
        left = [p for p in blocked.rglob("*") if p.is_file()]
        check(f"{table} cannot be written: no table appears", code == 4 and left == [blocked / table / "job=x"], (code, err, left))
    for locale in ("de_DE.UTF-8", "tr_TR.UTF-8"):
        code, _, err = run("export", "--parquet", folder / locale, trace, LC_ALL=locale)
        check(f"{locale} changes nothing", code == 0, err)


def check_at_once(folder):
    """Two exports to one rank: one of them wins with all of its tables."""
    traces = []
    for i, n in enumerate((300, 301)):
        traces.append(folder / f"at_once_{i}.json")
        traces[i].write_text(json.dumps({"traceEvents": [event(f"{n} {k}", k, 1) for k in range(n)]}))
    for turn in range(10):
        lake = folder / f"at_once_{turn}"
        lake.mkdir()
        both = [subprocess.Popen([MTPROF, "export", "--parquet", lake, "--job", "x", trace], stderr=subprocess.DEVNULL) for trace in traces]
        codes = [p.wait() for p in both]
        t = tables(lake)
        right = sorted(codes) == [0, 4] and len(t["spans"]["span"]) == len(t["names"]["name"]) == 300 + codes.index(0)
        if not right or list(lake.rglob(".mtprof*")):
            break
    check("of two exports at once one wins", right and not list(lake.rglob(".mtprof*")), (codes, len(t["spans"]["span"]), len(t["names"]["name"]), list(lake.rglob(".mtprof*"))))
    lake = folder / "locked"
    place = lake / "metadata/job=x/rank=0"
    place.mkdir(parents=True)
    with open(place / ".mtprof.lock", "wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        code, _, err = run("export", "--parquet", lake, "--job", "x", traces[0])
    check("a rank that another export is writing is refused", code == 4 and "another export" in err and not list(lake.rglob("*.parquet")), (code, err))
    check("what a killed export left locks nothing", run("export", "--parquet", lake, "--job", "x", traces[0])[0] == 0 and not list(lake.rglob(".mtprof*")))


def check_large(folder):
    """More than a row group; texts that fill dictionaries; columns that begin to have values late."""
    random = __import__("random").Random(1)
    events, now = [], 0
    for i in range(70000):
        now += random.randrange(1, 1 << random.randrange(1, 30))
        more = {} if i < 50000 else {"args": {"note": f"{i} " + "y" * random.randrange(600)}}
        events.append(event(f"n{i % 7 if i % 3 else random.randrange(40000)}", now / 1000, random.randrange(1 << random.randrange(1, 8)) / 1000, tid=i // 30000, **more))
    trace = folder / "large.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    t = exported(trace, folder)
    want = sorted((round(e["ts"] * 1000), round(e["dur"] * 1000), e["name"], (e.get("args") or {}).get("note")) for e in events)
    got = sorted((s, d, n, json.loads(a)["note"] if a else None) for s, d, n, a in rows(t["spans"], "start_ns", "dur_ns", "name", "args"))
    check("70,000 spans are as written", want == got, (want[:2], got[:2]))


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    for each in TRACES:
        if pathlib.Path(each).exists():
            check_trace(each, here)
    check_recordings(here)
    check_odd(here)
    check_dictionary(here)
    check_places(here)
    check_folders(here)
    check_at_once(here)
    check_large(here)
print(f"1..{count}")
sys.exit(failed > 0)
