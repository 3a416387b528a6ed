#!/usr/bin/env python3
"""What a report says beside its spans: levels, arrows, shapes and stacks, flame graph, memory, losses; computed here from the traces' JSON.

usage: tests/golden/report_parts.py MTPROF ROOT
"""
import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[2])
MTPROF, GOLDEN = sys.argv[1], ROOT / "tests/golden"
sys.path.append(str(ROOT / "tests/browser"))
from report_file import Report, unzigzag  # noqa: E402

CELLS = 4096
count = failed = 0


def check(name, right, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}")
    if not right:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]))


def report_of(trace, folder, *options):
    subprocess.run([MTPROF, "report", trace, "-o", folder / "parts.html", *options], check=True, stdout=subprocess.DEVNULL)
    return Report(folder / "parts.html")


def said(*args):
    return json.loads(subprocess.run([MTPROF, *map(str, args)], capture_output=True, check=True).stdout)


def made(folder, events, **head):
    path = folder / "made.json"
    path.write_text(json.dumps({"schemaVersion": 1, **head, "traceEvents": events}))
    return path


def op(name, ts, dur, tid=1, **more):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, **more}


def signed(numbers):
    return [unzigzag(number) for number in numbers]


# ------------------------------------------------------------------------------------------------ spans and levels


def check_levels(folder):
    """From afar: how much of each cell is covered, and by what most."""
    times = [i for i in range(15000) if not 4000 <= i < 6000]  # with a gap
    spans = [("outer" if i % 3 else "other", 100 * i, 90) for i in times] + [("inner", 100 * i + 10 + i % 40, 20) for i in times]
    trace = made(folder, [op(*span) for span in spans])
    report = report_of(trace, folder)
    columns, labels = report.columns("levels-0"), [label[0] for label in report.json("labels-0")]
    whole = max(start + wide for _, start, wide in spans)
    wrong = []
    for level, part in enumerate((spans[:len(times)], spans[len(times):])):
        covered, longest = [0.0] * CELLS, [collections.defaultdict(float) for _ in range(CELLS)]
        for name, start, wide in part:
            low, high = start * CELLS / whole, (start + wide) * CELLS / whole
            for cell in range(int(low), min(CELLS - 1, int(high)) + 1):
                inside = min(high, cell + 1) - max(low, cell)
                covered[cell] += inside
                longest[cell][name] = max(longest[cell][name], inside)
        (_, shares), (_, names) = columns[2 * level:2 * level + 2]
        for cell in range(CELLS):
            expected = covered[cell] * 255
            most = max(longest[cell].values(), default=0)
            if abs(shares[cell] - min(expected + .5, 255)) > 1.5 or (not longest[cell] and shares[cell] + names[cell]) or (most > 1e-6 and longest[cell][labels[names[cell] - 1]] < most - 1e-6):
                wrong.append((level, cell, shares[cell], expected, names[cell], dict(longest[cell])))
    check("levels: each cell has its share, and the label of the longest in it", len(columns) == 4 and not wrong, wrong[:3])


def check_depths(folder):
    """What begins where another ends is beside it, not in it."""
    report = report_of(made(folder, [op("a", 0, 10), op("b", 10, 10), op("c", 12, 8), op("d", 20, 5), op("e", 20, 5)]), folder)
    got = {span[4]: span[1] for span in report.spans()}
    check("levels of spans that touch", got == {"a": 0, "b": 0, "c": 1, "d": 0, "e": 1} and report.json("head-0")["rows"][0]["depth"] == 2, got)


# ------------------------------------------------------------------------------------------- arrows, shapes, stacks


def check_arrows(folder, path):
    """Launches by their correlation, forward to backward by the flows."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    report = report_of(path, folder)
    spans, columns = report.spans(), dict(report.columns("links-0"))
    first, places, total = min(span[2] for span in spans), {}, [0, 0]
    from_, to = signed(columns["from"]), signed(columns["to"])
    arrows = []
    for i in range(len(from_)):
        total = [total[0] + from_[i], total[1] + to[i]]
        arrows.append((*total, columns["kind"][i]))
    low = min(event["ts"] for event in events if event.get("ph") == "X")
    at = lambda event: (round((event["ts"] - low) * 1000) + first, event["name"])
    launches = {event["args"]["correlation"]: at(event) for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver") and event["args"].get("correlation")}
    expected = collections.Counter((*launches[event["args"]["correlation"]], *at(event)) for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and event["args"].get("correlation") in launches)
    got = collections.Counter((spans[a][2], spans[a][4], spans[b][2], spans[b][4]) for a, b, kind in arrows if kind == 1)
    check(f"{path.name}: an arrow from each launch to its work", not expected - got and all(a == b for _, a, _, b in got - expected) and sum(expected.values()) > 100, (list((got - expected).items())[:3], list((expected - got).items())[:3]))
    starts = {event["id"]: event for event in events if event.get("cat") == "fwdbwd" and event["ph"] == "s"}
    ends = [event for event in events if event.get("cat") == "fwdbwd" and event["ph"] == "f" and event["id"] in starts]
    when = lambda event: round((event["ts"] - low) * 1000) + first
    expected = collections.Counter((when(starts[event["id"]]), when(event)) for event in ends)
    got = [(a, b) for a, b, kind in arrows if kind == 2]
    within = lambda place, instant: spans[place][2] <= instant <= spans[place][2] + spans[place][3]
    pairs, wrong = sorted(expected.elements()), []
    for a, b in got:
        match = next((pair for pair in pairs if within(a, pair[0]) and within(b, pair[1])), None)
        wrong += [] if match else [(spans[a], spans[b])]
    check(f"{path.name}: an arrow from each forward to its backward", len(got) == len(ends) > 20 and not wrong, (len(got), len(ends), wrong[:3]))


def check_details(folder, path, *, stacks):
    """Inputs, bytes and stacks of each span are those of its event."""
    with gzip.open(path) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    report = report_of(path, folder)
    columns, head = report.columns("details-0", after_json=True)
    columns, spans = dict(columns), report.spans()
    low, first = min(event["ts"] for event in events), min(span[2] for span in spans)
    expected, got = collections.defaultdict(list), collections.defaultdict(list)
    plain = lambda value: "" if value in ("", "[]", None) else value.replace(" ", "")
    for event in events:
        args = event.get("args", {})
        key = round((event["ts"] - low) * 1000) + first, round(event["dur"] * 1000), event["name"]
        frames = [frame for frame in args.get("Call stack", "").split(";") if frame]
        expected[key].append((plain(json.dumps(args["Input Dims"])) if "Input Dims" in args else "", args.get("bytes", 0), frames if stacks else []))
    for place, span in enumerate(spans):
        shape = columns["shape"][place] if "shape" in columns else 0
        frames, at = [], columns["stack"][place] if stacks and "stack" in columns else 0
        while at:
            frames.append(head["stacks"][at - 1][1])
            at = head["stacks"][at - 1][0]
        got[span[2], span[3], span[4]].append((plain(head["shapes"][shape - 1][0]) if shape else "", columns["bytes"][place], frames))
    same = [key for key in expected if key in got and sorted(map(str, expected[key])) == sorted(map(str, got[key]))]
    wrong = [(key, expected[key], got[key]) for key in expected if key in got and sorted(map(str, expected[key])) != sorted(map(str, got[key])) and "[[]]" not in str(got[key]) and "[[[" not in str(expected[key])]
    check(f"{path.name}: inputs, bytes and stacks of each span", not wrong and len(same) > .9 * len(expected) and any(entry[0][0] or entry[0][2] for entry in expected.values()) and (stacks or any(entry[0][1] for entry in got.values())),
          (len(same), len(expected), wrong[:3]))


# -------------------------------------------------------------------------------------------------- flame graph


def check_flame(folder, path):
    """Calls and own times by path, on the host."""
    report = report_of(path, folder)
    head, labels, columns = report.json("head-0"), report.json("labels-0"), dict(report.columns("flame-0"))
    expected, spans = collections.defaultdict(lambda: [0, 0]), report.spans()
    open_ = []
    for row, level, start, wide, name, category in spans:
        heading = head["rows"][row]
        if heading["device"] or heading["lane"] > 0 or category == "Trace":
            open_ = []
            continue
        name = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        del open_[level:]
        path_ = (heading["track"], *(entry for entry, _ in open_), (name, category))
        expected[path_][0] += 1
        expected[path_][1] += wide
        if level > 0:
            expected[path_[:-1]][1] -= wide
        open_.append(((name, category), wide))
    paths, got = [()], {}
    for node in range(1, len(columns["parent"])):
        label = columns["label"][node]
        if label >= 1 << 40:
            paths.append((label - (1 << 40),))
        else:
            name, category = labels[label - 1][:2]
            paths.append((*paths[node - columns["parent"][node]], ("ProfilerStep*" if name.startswith("ProfilerStep#") else name, category)))
        if columns["host"][node] or (columns["calls"][node] and not columns["device"][node]):
            entry = got.setdefault(paths[node], [0, 0])  # a module and an op may have one name
            entry[0] += columns["calls"][node]
            entry[1] += columns["host"][node]
    wrong = [(path_, expected[path_], got.get(path_)) for path_ in expected if expected[path_] != got.get(path_)]
    if not any(row["lane"] for row in head["rows"]):
        check(f"{path.name}: calls and own time of each path", not wrong and len(expected) > 50, wrong[:3])


# ------------------------------------------------------------------------------------------------------- memory


def check_memory(folder, path):
    """By category: what the changes add up to at the peak and at the end; who made what was alive then."""
    report = report_of(path, folder)
    columns, head = report.columns("memory-0", after_json=True)
    for number, device in enumerate(head["devices"]):
        (_, gaps), (_, sizes), (_, categories) = columns[3 * number:3 * number + 3]
        summary, now, at = device["summary"], list(device["before"]), device["start"]
        peak, best, when = sum(now), list(now), None
        low = min(now)
        for gap, size, category in zip(signed(gaps), signed(sizes), categories):
            now[category] += size
            at += gap
            low = min(low, min(now))
            if sum(now) > peak:
                peak, best, when = sum(now), list(now), at
        names = head["categories"]
        expected = summary["peak"]["by_category"]
        check(f"{path.name}: {summary['device']}: categories at the peak", {name: size for name, size in zip(names, best) if size} == {name: size for name, size in expected.items() if size} and low >= 0, (best, expected, low))
        check(f"{path.name}: {summary['device']}: when the peak is", when is None or abs(when / 1000 - summary["peak"]["time_us"]) < .001, (when, summary["peak"]["time_us"]))
        blocks = summary["peak"]["blocks"]
        if len(blocks) == summary["peak"]["block_count"]:
            makers = collections.Counter()
            for block in blocks:
                if block["created_us"] is not None:
                    makers[block["maker"] or ""] += block["bytes"]
            got = {name: alive for name, _, _, alive in device["by"] if alive}
            check(f"{path.name}: {summary['device']}: who made what was alive at the peak", got == dict(makers), (got, makers))


def memory_event(ts, address, size, total):
    return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts,
            "args": {"Addr": address, "Bytes": size, "Device Type": 0, "Device Id": -1, "Total Allocated": total, "Total Reserved": 0}}


def check_alive(folder):
    """Alive at the peak is what was made until then and not freed yet."""
    events = [op("first", 0, 10), op("second", 20, 10), op("third", 40, 10), memory_event(5, 4096, 1000, 1000), memory_event(25, 8192, 3000, 4000), memory_event(30, 4096, -1000, 3000), memory_event(45, 12288, 500, 3500)]
    report = report_of(made(folder, events), folder)
    (device,) = report.columns("memory-0", after_json=True)[1]["devices"]
    check("alive at the peak, by op", {row[0]: row[3] for row in device["by"]} == {"first": 1000, "second": 3000, "third": 0}, device["by"])
    events = [op("first", 0, 10), op("second", 20, 10), memory_event(5, 4096, 1000, 1000), memory_event(25, 4096, -1000, 0), memory_event(25, 8192, 3000, 3000)]
    (device,) = report_of(made(folder, events), folder).columns("memory-0", after_json=True)[1]["devices"]
    check("what is freed at the instant of the peak is not", {row[0]: row[3] for row in device["by"]} == {"first": 0, "second": 3000}, device["by"])


# ---------------------------------------------------------------------------------------- losses, marks, averages


def check_head(folder):
    ledger = {"emitted": 1000, "kept": 900, "dropped": 100, "lost_definitions": 7, "dropped_by": {}}
    trace = made(folder, [op("a", 1000, 10), op("b", 1020, -5), op("c", 1040, 1)], mtprof={"version": "0.1.0", "ledger": ledger, "unmatched_ends": 3, "unfinished": 0, "clock_faults": 4, "damaged_chunks": 5, "skipped_events": 6})
    head = report_of(trace, folder).json("head-0")
    got = {name: head[name] for name in ("unmatched_ends", "clock_faults", "damaged_chunks", "skipped_events", "bad_durations", "spans", "duration")}
    check("About: losses", got == {"unmatched_ends": 3, "clock_faults": 4, "damaged_chunks": 5, "skipped_events": 6, "bad_durations": 1, "spans": 3, "duration": 41000}, got)
    check("About: ledger", {key: head["ledger"][key] for key in ("emitted", "kept", "dropped", "lost_definitions")} == {key: value for key, value in ledger.items() if key != "dropped_by"}, head.get("ledger"))
    events = [op("a", 1000, 10), {"ph": "C", "name": "queue", "pid": 1, "tid": 1, "ts": 1004, "args": {"v": -2.5}}, {"ph": "i", "s": "t", "cat": "user", "name": "here", "pid": 1, "tid": 1, "ts": 1006}]
    got = [[name, *rest] for name, _, *rest in report_of(made(folder, events), folder).json("counters-0")]
    check("counters and marks, since the first event", got == [["queue", 4000, -2.5], ["here", 6000]], got)


def check_averages(folder, path, key, *options):
    """By shape and by stack: the rows of `mtprof stats`, the largest first."""
    rows, expected = report_of(path, folder).json("operators-0")[key], said("stats", "--json", "--sort", "self_cpu_time_total", *options, path)
    check(f"{path.name}: averages by {key}", rows == expected[:len(rows)] and len(rows) >= min(50, len(expected)) and [row["self_cpu_time_total"] for row in rows] == sorted((row["self_cpu_time_total"] for row in rows), reverse=True), (len(rows), len(expected)))


with tempfile.TemporaryDirectory() as name:
    here, torch = pathlib.Path(name), GOLDEN / "torch"
    check_levels(here)
    check_depths(here)
    check_arrows(here, torch / "cuda_gpt.json.gz")
    check_details(here, torch / "cuda_gpt.json.gz", stacks=False)
    check_details(here, torch / "cuda_verbose.json.gz", stacks=True)
    for trace in "cuda_gpt", "cuda_stack", "cpu_autograd":
        check_flame(here, torch / f"{trace}.json.gz")
    for trace in torch / "cuda_gpt.json.gz", torch / "cpu_memory.json.gz", GOLDEN / "memory/train.json.gz":
        check_memory(here, trace)
    check_alive(here)
    check_head(here)
    check_averages(here, torch / "cuda_gpt.json.gz", "shape", "--by-shape")
print(f"1..{count}")
sys.exit(failed > 0)
