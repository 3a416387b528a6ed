#!/usr/bin/env python3
"""Checks mtprof's memory timelines and execution traces with Python's json, and compares them with torch's.

usage: check_memory.py json FILE...                          each is strict JSON, in UTF-8
       check_memory.py timeline OURS OURS_RAW TORCH TORCH_RAW
       check_memory.py execution OURS TORCH
torch's files: torch 2.13, export_memory_timeline and ExecutionTraceObserver, on the program whose trace was read.
"""
import collections
import gzip
import json
import sys

CREATE, DESTROY, UNKNOWN, TEMPORARY = 2, 4, 7, 3


def refuse(what):
    raise ValueError(f"{what} is not JSON")


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data.decode("utf-8"), parse_constant=refuse)


def timeline(ours, ours_raw, theirs, theirs_raw):
    (times, sizes), (torch_times, torch_sizes) = load(ours), load(theirs)
    rows = [r for r in load(ours_raw) if r[1] in (CREATE, DESTROY)]
    torch_rows = load(theirs_raw)
    before = sum(r[2] for r in torch_rows if r[1] == 1)
    torch_rows = [r for r in torch_rows if r[1] in (CREATE, DESTROY)]
    assert len(rows) > 100 and [r[:3] for r in rows] == [r[:3] for r in torch_rows], "time, action, bytes"
    total = {t: sum(s) - before for t, s in zip(torch_times, torch_sizes)}   # what torch derives from tensors
    assert all(len(s) == 9 and s[0] == 0 for s in sizes)
    assert all(total[t] == sum(s) for t, s in zip(times, sizes)), "times and totals"
    counts = collections.Counter()
    for r, t in zip(rows, torch_rows):
        if r[1] == CREATE:
            counts["same" if r[3] == t[3] else "unknown" if UNKNOWN in (r[3], t[3]) else "other"] += 1
    assert counts["other"] == 0, f"a category contradicts torch's: {counts}"
    assert counts["same"] >= 0.6 * sum(counts.values()), counts
    print(f"{len(rows)} rows, {len(times)} times, categories: {dict(counts)}")


def nodes(path):
    trace = load(path)
    assert list(trace) == ["schema", "pid", "time", "start_ts", "nodes", "finish_ts"]
    by_id = {n["id"]: n for n in trace["nodes"]}
    assert len(by_id) == len(trace["nodes"])
    attrs = {i: {a["name"]: a["value"] for a in n["attrs"]} for i, n in by_id.items()}
    name = {i: attrs[i]["rf_id"] or n["name"] for i, n in by_id.items()}
    out = {}
    for i, n in sorted(by_id.items()):
        a = attrs[i]
        form = [list(n), [(x["name"], x["type"]) for x in n["attrs"]], list(n["inputs"]), list(n["outputs"])]
        out[name[i]] = (n["name"], name[n["ctrl_deps"]], name.get(a["fw_parent"]), a["seq_id"], a["scope"], a["tid"],
                        a["fw_tid"], form, n["inputs"])
    return trace, out


def execution(ours, theirs):
    trace, mine = nodes(ours)
    torch_trace, torchs = nodes(theirs)
    assert trace["schema"] == torch_trace["schema"] and trace["pid"] == torch_trace["pid"]
    assert list(mine)[2:] == list(torchs)[2:], "nodes, in the order of their ids"
    for key, t in torchs.items():
        m = mine[key]
        assert m[:8] == t[:8], f"{m}\n{t}"
        for field in ("shapes", "strides"):
            assert m[8][field] == t[8][field], f"{m[0]}: {m[8]} {t[8]}"
        for kind, a, b in zip(t[8]["types"], m[8]["values"], t[8]["values"]):
            if kind.startswith("Tensor"):
                assert a[3:5] == b[3:5] and len(a) == 6, f"{m[0]}: {a} {b}"
            elif kind in ("Int", "Bool", "None") or kind.startswith("GenericList[Int"):
                assert a == b, f"{m[0]}: {a} {b}"
            elif kind == "Double":
                assert abs(a - b) < 1e-5, f"{m[0]}: {a} {b}"
    ids = [n["id"] for n in trace["nodes"]]
    tensors = [v[0] for n in trace["nodes"] for v in n["inputs"]["values"] if isinstance(v, list) and len(v) == 6
               and isinstance(v[5], str)]
    assert len(set(tensors)) == len(tensors) and not set(tensors) & set(ids)
    print(f"{len(mine)} nodes")


def main(kind, *paths):
    if kind == "json":
        for path in paths:
            load(path)
    else:
        {"timeline": timeline, "execution": execution}[kind](*paths)


if __name__ == "__main__":
    main(*sys.argv[1:])
