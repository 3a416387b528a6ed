#!/usr/bin/env python3
"""mtprof merge and mtprof ranks on 64 made ranks of 20 million events, and HTA 0.5 on as many of them as it is given.

    bench_ranks.py [MTPROF] [--folder F] [--ranks 64] [--events 20000000] [--hta PYTHON] [--hta-ranks 8]

--folder keeps the traces for the next run. --hta: a python that has HTA (build/readers/bin/python).
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HTA = """
import logging, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
start = time.time()
a = TraceAnalysis(trace_files={int(i): p for i, p in enumerate(sys.argv[1:])}, trace_dir="/")
a.get_temporal_breakdown(visualize=False); a.get_comm_comp_overlap(visualize=False)
print(time.time() - start)
"""


def timed(*args):
    start = time.time()
    done = subprocess.run(args, capture_output=True, text=True, check=True)
    return time.time() - start, done.stdout


def off_by(truth, rank, clock):
    worst = 0
    for t in (10**9, truth["length_ns"] // 2, truth["length_ns"]):
        shown = truth["base_ns"] + t + truth["offset_ns"][rank] + int(truth["drift"][rank] * t)
        found = shown + clock["offset_ns"] + round(clock["drift_ppm"] * (shown - int(clock["at_ns"])) / 1e6)
        worst = max(worst, abs(found - truth["base_ns"] - t))
    return worst


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mtprof", nargs="?", default=os.path.join(HERE, "..", "build", "mtprof"))
    p.add_argument("--folder")
    p.add_argument("--ranks", type=int, default=64)
    p.add_argument("--events", type=int, default=20_000_000)
    p.add_argument("--hta")
    p.add_argument("--hta-ranks", type=int, default=8)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(o.folder or place, "ranks")
        if not os.path.exists(os.path.join(folder, "truth.json.txt")):
            subprocess.run([sys.executable, os.path.join(HERE, "make_ranks.py"), folder, "--ranks", str(o.ranks), "--events", str(o.events),
                            "--straggler", str(o.ranks * 37 // 64)], check=True)
        with open(os.path.join(folder, "truth.json.txt")) as f:
            truth = json.load(f)
        job = os.path.join(place, "job.mtp")
        merge, _ = timed(o.mtprof, "merge", folder, "-o", job)
        ranks, text = timed(o.mtprof, "ranks", "--json", job)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        found = json.loads(text)
        off = [off_by(truth, r["rank"], r["clock"]) for r in found["ranks"]]
        stated = [r["clock"]["error_ns"] for r in found["ranks"]]
        print(f"merge {merge:.1f} s, ranks {ranks:.1f} s, together {merge + ranks:.1f} s; at most {memory:.0f} MB "
              f"(make_ranks included, if it ran); {truth['events']} events, {os.cpu_count()} processors")
        print(f"clocks are off by at most {max(off) / 1e3:.2f} us, stated: at most {max(stated) / 1e3:.1f} us; "
              f"inside: {all(a <= b + 2 for a, b in zip(off, stated))}")
        print(f"planted: rank {truth['straggler']} since step {truth['since_step']}; found: {found['findings'][0]['title']}; "
              f"op: {found['findings'][0]['op']}")
        if o.hta:
            files = [r["file"] for r in ranks_files(o.mtprof, folder)[:o.hta_ranks]]
            done = subprocess.run([o.hta, "-c", HTA, *files], capture_output=True, text=True)
            few, _ = timed(o.mtprof, "ranks", "--json", *files)
            said = done.stdout.strip().splitlines()[-1:] or done.stderr.strip().splitlines()[-1:]
            print(f"{len(files)} of the ranks: HTA {said[0] if said else 'failed'} s, mtprof ranks {few:.2f} s")


def ranks_files(mtprof, folder):
    return [r for r in json.loads(timed(mtprof, "ranks", "--json", folder)[1])["ranks"]]


if __name__ == "__main__":
    main()
