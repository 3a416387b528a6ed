#!/usr/bin/env python3
"""What the OpenCL layer costs an unmodified program: opencl_program's time with the layer over its time without.

usage: bench_opencl_layer.py [FIGURES.json]       needs build/ and an OpenCL device

Runs without the layer, with it, and with it recording alternate, all on one processor: on several, the driver's threads
hide or multiply the cost, differently in each run. The minimum of all rounds counts. A launch of 64 items is about as
small as a kernel gets: PoCL needs a microsecond for it.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"
PROGRAM, LAYER = BUILD / "bench" / "opencl_program", BUILD / "src" / "collect" / "opencl" / "libmtprof_opencl.so"
KERNELS, TURNS = 10000, 6
WAYS = ("plain", "profiling", "quiet", "recording")
figures = {}


def say(name, value, unit, bar=None, note=""):
    figures[name] = value
    mark = "" if bar is None else f"{'<=' if value <= bar else 'OVER'} {bar:.4g}"
    print(f"  {name:36} {value:12.2f} {unit:6}{mark:11}{note}")


def run(way, items, rounds, out, pinned):
    """Minimum and median wall-clock ns per kernel."""
    env = {k: v for k, v in os.environ.items() if k not in ("OPENCL_LAYERS", "MTPROF_OUT")}
    if way in ("quiet", "recording"):
        env["OPENCL_LAYERS"] = str(LAYER)
    if way == "recording":
        env["MTPROF_OUT"] = out
    command = [str(PROGRAM), str(KERNELS), str(rounds), str(items), way]
    pin = (lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})) if pinned else None
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, preexec_fn=pin)
    found = re.search(r"rounds: (\d+) (\d+) by the clock", done.stdout)
    if done.returncode != 0 or found is None:
        sys.exit(f"bench_opencl_layer: {' '.join(command)}: {done.stdout}{done.stderr}")
    return float(found[1]), float(found[2])


def measure(items, rounds, out, pinned=True):
    least = {way: [] for way in WAYS}
    for _ in range(TURNS):
        for way in WAYS:
            least[way].append(run(way, items, rounds, out, pinned))
    if pinned:
        return {way: min(a for a, _ in got) for way, got in least.items()}
    return {way: sorted(b for _, b in got)[TURNS // 2] for way, got in least.items()}


def bench(out):
    for items, rounds in ((64, 25), (4096, 12), (16384, 6)):
        got = measure(items, rounds, out)
        plain = got["plain"]
        say(f"opencl_kernel_{items}_ns", plain, "ns", note=f"a kernel of {items} items, without the layer")
        say(f"opencl_profiling_{items}_ratio", got["profiling"] / plain, "x", note="no layer, profiling queue: the driver's share")
        say(f"opencl_layer_quiet_{items}_ratio", got["quiet"] / plain, "x", note="the layer, no profile")
        say(f"opencl_layer_{items}_ratio", got["recording"] / plain, "x", 1.1, "the layer, recording")
        say(f"opencl_layer_{items}_ns", got["recording"] - plain, "ns", note="the difference: recording minus no layer")
    got = measure(64, 25, out, pinned=False)
    say("opencl_layer_64_all_processors_ratio", got["recording"] / got["plain"], "x", note="medians on all processors: noisy")


def main():
    print("OpenCL layer: 10,000 small kernels of an unmodified program")
    if not LAYER.exists() or not PROGRAM.exists():
        print("  built without OpenCL's headers: nothing to measure")
    elif subprocess.run([PROGRAM, "1", "1"], capture_output=True).returncode == 77:
        print("  no OpenCL device: nothing to measure")
    else:
        with tempfile.TemporaryDirectory() as folder:
            bench(os.path.join(folder, "averages.csv"))
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
