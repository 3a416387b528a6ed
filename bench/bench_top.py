#!/usr/bin/env python3
"""What `mtprof top` costs: the program that it watches, and itself.

usage: bench_top.py [BUILD]         needs BUILD/mtprof and BUILD/tests/top_program (ninja -C BUILD tests/top_program)

A program records scopes as fast as it can, alone and watched, in turn; scopes per second of its own CPU time are compared, the best
of five each. Then a long recording is caught up with.
"""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
MTPROF, PROGRAM = BUILD / "mtprof", BUILD / "tests" / "top_program"


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def record(spool, mode, seconds, watched):
    """Scopes per CPU second, and the CPU time of top."""
    spool.unlink(missing_ok=True)
    program = subprocess.Popen([PROGRAM, spool, mode, "1"], stdout=subprocess.PIPE)
    time.sleep(0.2)
    top = subprocess.Popen([MTPROF, "top", "-b", "-d", "1", spool], stdout=subprocess.DEVNULL) if watched else None
    time.sleep(seconds)
    own, other = cpu_of(program.pid), cpu_of(top.pid) if top else 0
    program.send_signal(signal.SIGUSR1)
    scopes = int(program.communicate()[0])
    if top:
        top.kill()
        top.wait()
    return 2 * scopes / own, other


with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
    spool = pathlib.Path(folder) / "bench.mtp"
    for mode in ("fast", "ring"):
        alone, watched, cost = 0, 0, 0
        for _ in range(5):
            alone = max(alone, record(spool, mode, 2, False)[0])
            speed, cpu = record(spool, mode, 2, True)
            watched, cost = max(watched, speed), max(cost, cpu)
        print(f"top_{mode}_ratio  {watched / alone:.3f}  ({alone / 1e6:.1f} and {watched / 1e6:.1f} million scopes per CPU second; "
              f"top took {cost:.2f} s of 2 s)", flush=True)
    record(spool, "fast", 6, False)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out = subprocess.run([MTPROF, "top", "-n", "1", spool], capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    print(f"top_catch_up_s  {after - before:.2f}  ({out.splitlines()[1]})")
