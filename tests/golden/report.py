#!/usr/bin/env python3
"""Reports of real traces hold what the traces hold, exactly, and nothing that runs. usage: tests/golden/report.py MTPROF TRACE...

Each trace's spans, operators, steps, memory and flame graph are compared with what the other verbs say.
"""
import collections
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "browser"))
from report_file import Report, unzigzag  # noqa: E402

MTPROF, *TRACES = sys.argv[1:]
GOLDEN = pathlib.Path(__file__).resolve().parent / "torch"
count = failed = 0


def check(name, right, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}")
    if not right:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]))


def mtprof(*args, code=0):
    done = subprocess.run([MTPROF, *map(str, args)], capture_output=True)
    assert done.returncode == code, (args, done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout.decode(errors="surrogateescape")


def ns(us):
    return round(us * 1000)


def exported_spans(trace, folder):
    mtprof("export", trace, "-o", folder / "plain.json")
    events = [e for e in json.loads((folder / "plain.json").read_text())["traceEvents"] if e["ph"] == "X"]
    return collections.Counter((ns(e["ts"]), ns(e["dur"]), e["name"], e["cat"]) for e in events)


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.loads = collections.Counter(), []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.loads += [(tag, name, value) for name, value in attributes if name in ("src", "href", "srcset", "action", "data", "style") or name.startswith("on")]


def check_page(name, report):
    tags = Tags()
    tags.feed(report.page)
    check(f"{name}: the page has one script and one style, and loads nothing", tags.tags["script"] == 1 and tags.tags["style"] == 1 and not tags.loads, (tags.tags, tags.loads))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', report.page)[1]
    check(f"{name}: its policy allows nothing but them", policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy and "http" not in policy, policy)


def check_trace(path, folder):
    name, out = pathlib.Path(path).name, folder / "report.html"
    mtprof("report", path, "-o", out)
    report, stats = Report(out), json.loads(mtprof("stats", "--json", path))
    head = report.json("head-0")
    check_page(name, report)
    ours = report.spans()
    theirs = exported_spans(path, folder)
    first = min((start for start, *_ in theirs), default=0)
    low = min((span[2] for span in ours), default=0)
    shown = collections.Counter((span[2] - low, span[3], span[4], span[5]) for span in ours)
    moved = collections.Counter()
    for (start, duration, label, category), times in theirs.items():
        moved[start - first, duration, label, category] += times
    missing, more = shown - moved, moved - shown
    windows = [key for key in more if key[3] == "Trace" or key[2].startswith("PyTorch Profiler")]  # the writer adds Kineto's own
    renamed = sum(missing.values()) == sum(more.values()) - len(windows) and {key[:2] for key in missing} <= {key[:2] for key in more}
    check(f"{name}: every span, to the nanosecond", not missing and len(more) <= len(windows) or renamed, (list(missing)[:5], list(more)[:5]))
    check(f"{name}: operators are those of `mtprof stats --json`", report.json("operators-0")["name"] == stats)
    check(f"{name}: steps are those of `mtprof steps --json`", head["steps"] == json.loads(mtprof("steps", "--json", path)))
    check(f"{name}: findings are those of `mtprof explain --json`", report.json("findings-0") == json.loads(mtprof("explain", "--json", path)))
    check_flame(name, report, head, ours)
    check_memory(name, report, path)


def check_flame(name, report, head, spans):
    columns = dict(report.columns("flame-0"))
    devices = {number for number, row in enumerate(head["rows"]) if row["device"]}
    crossing = {number for number, row in enumerate(head["rows"]) if row["lane"] > 0}
    roots = sum(span[3] for span in spans if span[0] not in devices | crossing and span[1] == 0 and span[5] != "Trace")
    host = sum(columns["host"])
    if not crossing:
        check(f"{name}: the flame graph is as wide as its threads' time", host == roots, (host, roots))
    work = sum(span[3] for span in spans if span[0] in devices and span[5] != "gpu_user_annotation")
    check(f"{name}: and as its devices' time", sum(columns["device"]) == work, (sum(columns["device"]), work))


def check_memory(name, report, path):
    columns, head = report.columns("memory-0", after_json=True)
    for number, device in enumerate(head["devices"]):
        summary = device["summary"]
        expected = json.loads(mtprof("memory", "--json", "--limit", "500", "--device", summary["device"], path))
        now = peak = sum(device["before"])
        for change in columns[3 * number + 1][1]:
            now += unzigzag(change)
            peak = max(peak, now)
        check(f"{name}: memory of {summary['device']}: peak and end", summary == expected and peak == summary["peak"]["bytes"] and now == summary["end_bytes"], (peak, now, summary["end_bytes"]))
        check(f"{name}: allocations by op add up", sum(row[1] for row in device["by"]) == summary["allocations"] and sum(row[2] for row in device["by"]) == summary["allocated_bytes"], device["by"][:5])


def check_limit(path, folder):
    out = folder / "few.html"
    whole = len(report_of(path, folder).spans())
    mtprof("report", path, "-o", out, "--max-spans", "1000")
    report = Report(out)
    head, spans = report.json("head-0"), report.spans()
    check("with too many spans the shortest are left out, and counted", len(spans) <= 1000 and head["left_out"] == whole - len(spans) and head["spans"] == whole and
          min(span[3] for span in spans) >= head["least_ns"] > 0, (len(spans), head["left_out"], head["least_ns"]))
    check("but not from the tables", report.json("operators-0")["name"] == json.loads(mtprof("stats", "--json", path)))


def report_of(path, folder):
    mtprof("report", path, "-o", folder / "one.html")
    return Report(folder / "one.html")


def check_two(before, after, folder):
    mtprof("report", before, after, "-o", folder / "two.html")
    report = Report(folder / "two.html")
    check("two traces: both are there, and what changed", report.json("head-0")["name"] == before and report.json("head-1")["name"] == after and
          "rows" in json.loads(report.blobs["diff-0"].partition(b"\0")[0]))
    words = " ".join(mtprof("explain", GOLDEN / "cuda_gpt.json.gz", GOLDEN / "cuda_plain.json.gz").split())  # the second has no steps, and did less
    check("two traces: words count as the table does", "cudaDeviceSynchronize has 2 calls instead of 1; a call takes 3.17 us instead of 37.7 us, which may be noise: 28.2 us less for as much work." in words and
          "Activity Buffer Request is new: 1 call, 2.27 ms in all." in words and "did 0.67 times the work" in words, words)


HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u2028\u2029", "\x00\x1f\x7f", "\u202eevil", "a" * 5000, "'\"`${}\\", "<!--", "]]>", "\U0001f600", "%s%n", "__proto__", "constructor"]


def check_hostile(folder):
    events = [{"ph": "X", "cat": name, "name": name, "pid": name, "tid": name, "ts": 10 * i, "dur": 5, "args": {"Input Dims": name, name: name}} for i, name in enumerate(HOSTILE)]
    events += [{"ph": "M", "name": "process_name", "pid": name, "tid": 0, "ts": 0, "args": {"name": name}} for name in HOSTILE]
    trace = folder / "</title><script>.json".replace("/", "")
    trace.write_text(json.dumps({"schemaVersion": 1, **{name: name for name in HOSTILE}, "traceEvents": events}))
    report = report_of(trace, folder)
    check_page("hostile names", report)
    for name in HOSTILE:
        if len(name) > 3 and name.isidentifier() is False:
            check(f"hostile: {name[:30]!r} is only in the data", name[:2000] not in report.page)
    check("hostile: names are kept", {label[0] for label in report.json("labels-0")} == {name for name in HOSTILE}, report.json("labels-0"))


def check_odd(folder):
    for name, content in {"empty": {"traceEvents": []}, "one instant": {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 0}]},
                          "negative times": {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": -50.5, "dur": 20}, {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": -45, "dur": 3}]},
                          "far apart": {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 1}, {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 2, "ts": 3e12, "dur": 1e11}]},
                          "overlapping": {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": f"n{i}", "pid": 1, "tid": 1, "ts": i, "dur": 40} for i in range(50)]}}.items():
        trace = folder / "odd.json"
        trace.write_text(json.dumps(content))
        report = report_of(trace, folder)
        expected = sorted((ns(e["ts"]), ns(e["dur"])) for e in content["traceEvents"])
        got = sorted((span[2] + int(report.json("head-0")["first_ns"]), span[3]) for span in report.spans())
        check(f"{name}: is shown", [b for _, b in got] == [b for _, b in expected] and [a - got[0][0] for a, _ in got] == [a - expected[0][0] for a, _ in expected], (got[:5], expected[:5]))


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    for trace in TRACES:
        if pathlib.Path(trace).exists():
            check_trace(trace, here)
    check_limit(TRACES[0], here)
    check_two(TRACES[0], TRACES[1], here)
    check_hostile(here)
    check_odd(here)
    bad = subprocess.run([MTPROF, "report", TRACES[0], "-o", here / "x.pdf"], capture_output=True, text=True)
    check("another suffix is refused", bad.returncode == 2 and "must end in .html" in bad.stderr, bad)
    mtprof("report", TRACES[0], "-o", here / "x.html.gz")
    check("a report can be compressed", (here / "x.html.gz").read_bytes()[:2] == b"\x1f\x8b")
print(f"1..{count}")
sys.exit(failed > 0)
