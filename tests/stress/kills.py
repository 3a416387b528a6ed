#!/usr/bin/env python3
"""Kill a recording Python program at random moments: usage: tests/stress/kills.py KILLS (PYTHONPATH: the packages)

Its spool must open and hold everything that it reported as recorded. MTP_TEST_SEED repeats a run.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import sys
import mindtorch_v2 as torch
from mindtorch_v2.profiler import ProfilerActivity, profile, record_function
prof = profile(activities=[ProfilerActivity.CPU], spool=sys.argv[1], buffer_bytes="4M", when_full=sys.argv[2])
prof.start()
x = torch.ones(2, 2)
for i in range(10 ** 9):
    with record_function("a step"):
        x = x + x
    if i % 50 == 49:
        print(i + 1, flush=True)
"""


def main(kills):
    import mtprof
    seed = int(os.environ.get("MTP_TEST_SEED") or time.time_ns() % 10 ** 9)
    print(f"MTP_TEST_SEED={seed}", file=sys.stderr)
    chance = random.Random(seed)
    lost = 0
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        for turn in range(kills):
            spool = folder / "killed.mtp"
            how = ("stream", "newest", "stop")[turn % 3]
            with subprocess.Popen([sys.executable, "-c", PROGRAM, str(spool), how], stdout=subprocess.PIPE) as child:
                said = [child.stdout.readline()]
                time.sleep(chance.random() * 0.02)
                child.send_signal(signal.SIGKILL)
                said += child.stdout.read().split()
            assert child.returncode == -signal.SIGKILL, child.returncode
            steps = int(said[-1])
            trace = mtprof.Trace.open(spool)
            found = sum(row["count"] for row in trace.averages() if row["key"] == "a step")
            assert found > 0, "no steps left"
            if how == "stream":
                assert found >= steps, f"only {found} of {steps} steps left"
                lost = max(lost, steps - found)
            spool.unlink()
    finally:
        for path in folder.glob("*"):
            path.unlink()
        folder.rmdir()
    print(f"row 1: {kills} runs: Python: every spool readable, {lost} steps lost", file=sys.stderr)
    print("1..1\nok 1 - kills_of_a_python_program")


if __name__ == "__main__":
    main(int(sys.argv[1]))
