#!/usr/bin/env python3
"""The HTML report of 3 million spans (1 GB of Kineto JSON): how long it takes, its size, and how it feels in a browser.

usage: bench/bench_report.py OUT.json

The trace is made of tests/golden/torch/cuda_gpt.json.gz by bench/make_large_trace.py (a minute, and 1 GB in build/). The browser's figures need
Chromium, and are left out without it.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/browser"))
import chromium  # noqa: E402

MTPROF, TRACE, REPORT = ROOT / "build/mtprof", ROOT / "build/report_large.json", ROOT / "build/report_large.html"
SMALL, SPANS, REPEATS = ROOT / "tests/golden/torch/cuda_gpt.json.gz", 3000000, 3

# Moves by keys, a frame each; returns how long each took to draw, and the time from one frame to the next.
MOVE = """(async () => {
  const canvas = document.querySelector(".board canvas"), drawn = {}, apart = {};
  const frame = (key) => new Promise((done) => { canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); requestAnimationFrame(done); });
  for (const [name, zooms] of [["whole", 0], ["tenth", 6], ["hundredth", 6], ["thousandth", 6]]) {
    for (let i = 0; i < zooms; i++) await frame("w");
    canvas.frames.length = 0;
    const at = [];
    for (let i = 0; i < 240; i++) at.push(await frame(i % 40 < 20 ? "d" : "a"));
    drawn[name] = [...canvas.frames];
    apart[name] = at.slice(1).map((now, i) => now - at[i]);
  }
  return [drawn, apart];
})()"""


def seconds(*command):
    """The least of a few runs: the machine is shared."""
    took = []
    for _ in range(REPEATS):
        began = time.monotonic()
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    return min(took)


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def browse(figures):
    with chromium.Browser() as browser:
        first = []
        for _ in range(REPEATS):
            page = browser.open(REPORT.as_uri())
            page.wait("performance.getEntriesByName('first-contentful-paint').length > 0")
            first.append(page.run("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            page.close()
        figures["report_first_paint_ms"] = min(first)
        page = browser.open(REPORT.as_uri() + "#timeline")
        page.wait("document.querySelector('.board')", 60)
        page.wait("document.querySelector('.bar-top .note').textContent === ''", 120)  # the spans are there
        time.sleep(1)
        drawn, apart = page.run(MOVE)
        for name in drawn:
            figures[f"report_draw_{name}_p50_ms"] = quantile(drawn[name], .5)
            figures[f"report_draw_{name}_p99_ms"] = quantile(drawn[name], .99)
            figures[f"report_frame_{name}_p50_ms"] = quantile(apart[name], .5)
            figures[f"report_frame_{name}_p99_ms"] = quantile(apart[name], .99)


def main(out):
    figures = {}
    if not TRACE.exists():
        subprocess.run([sys.executable, ROOT / "bench/make_large_trace.py", SMALL, str(SPANS), TRACE], check=True)
    reading = seconds(MTPROF, "info", TRACE)
    writing = seconds(MTPROF, "report", TRACE, "-o", REPORT)
    figures["report_beyond_reading_s"] = writing - reading
    figures["report_mb"] = REPORT.stat().st_size / 1e6
    figures["report_json_mb"] = TRACE.stat().st_size / 1e6
    if chromium.find():
        browse(figures)
    limits = {"report_beyond_reading_s": 4, "report_mb": 20, "report_first_paint_ms": 1000}
    print("mtprof: the report of 3 million spans")
    for name, value in figures.items():
        limit = limits.get(name, 16.7 if name.endswith("_p99_ms") else None)
        print(f"  {name:<36} {value:10.2f} {name.rsplit('_', 1)[1]:<4} {'<= ' + str(limit) if limit else ''}")
    if not os.environ.get("KEEP"):
        TRACE.unlink()
        REPORT.unlink()
    pathlib.Path(out).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main(sys.argv[1])
