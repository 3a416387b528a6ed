#!/usr/bin/env python3
"""Make a large trace of a small real one: repeated, with every interval between two edges of spans stretched by noise.

usage: bench/make_large_trace.py SMALL.json[.gz] SPANS OUT.json

Times are as noisy as real ones (a compressor finds nothing in them), names and nesting are those of the small trace.
"""
import gzip
import json
import random
import sys


def main(small, spans, out):
    with (gzip.open if small.endswith(".gz") else open)(small, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and isinstance(e["pid"], int) and not e["name"].startswith("ProfilerStep")]
    flows = [e for e in trace["traceEvents"] if e.get("ph") in "stf" and isinstance(e["pid"], int)]
    named = [e for e in trace["traceEvents"] if e.get("ph") == "M"]
    first = min(e["ts"] for e in events)
    edges = sorted({round((t - first) * 1000) for e in events for t in (e["ts"], e["ts"] + e["dur"])} | {round((e["ts"] - first) * 1000) for e in flows})
    texts = [(round((e["ts"] - first) * 1000), round((e["ts"] + e["dur"] - first) * 1000),
              *json.dumps({**e, "ts": 987654321, "dur": 123454321}).replace("123454321", "987654321").split("987654321")) for e in events]
    arrows = [(round((e["ts"] - first) * 1000), e) for e in flows]
    chance, begin, count, step = random.Random(1), 0, 0, 0
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    with open(out, "w", encoding="utf-8", buffering=1 << 22) as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(map(json.dumps, named)))
        while count < int(spans):
            at, now, last = {}, begin, 0
            for edge in edges:
                now += round((edge - last) * chance.lognormvariate(0, .35))
                at[edge] = now
                last = edge
            lines = []
            for start, end, a, b, c in texts:
                lines.append(f"{a}{at[start] / 1000:.3f}{b}{(at[end] - at[start]) / 1000:.3f}{c}")
            for start, e in arrows:
                lines.append(json.dumps({**e, "ts": at[start] / 1000, "id": e["id"] + step * 1000000}))
            e = events[0]
            lines.append(json.dumps({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": e["pid"], "tid": e["tid"], "ts": begin / 1000, "dur": (now - begin) / 1000, "args": {}}))
            file.write(",\n" + ",\n".join(lines))
            count, begin, step = count + len(texts) + 1, now + 2000, step + 1
        file.write("\n]}\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
