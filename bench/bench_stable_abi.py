#!/usr/bin/env python3
"""What the stable ABI of Python would cost mtprof._native: `with record_function` with no profiler running, recorded, and recorded with
the stack, 10 and 30 functions deep.

usage: bench/bench_stable_abi.py [PYTHON...]        after `make build`; nanoseconds, minima of many turns, in which both alternate

_native cannot be compiled for the stable ABI, which has no profile hooks, no frames and no contexts. MTPN_LIKE_STABLE_ABI leaves
out what makes scopes and stacks fast: tp_vectorcall of types, the context, and the internal frames. So this is a lower bound.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TURNS = 5
MEASURE = """
import sys, time
import mtprof
scope = mtprof.record_function
def best(run, turns=200, n=2000):
    least = 1e9
    for _ in range(turns):
        began = time.perf_counter_ns()
        run(n)
        least = min(least, (time.perf_counter_ns() - began) / n)
    return least
def scopes(n):
    for _ in range(n):
        with scope("x"):
            pass
def deep(depth, n):
    return scopes(n) if depth == 0 else deep(depth - 1, n)
def recorded(depth, **options):
    session = mtprof.Session(activities=mtprof.CPU, buffer_bytes=64 << 20, when_full=mtprof.KEEP_NEWEST, **options)
    session.prepare()
    session.start()
    least = best(lambda n: deep(depth, n))
    session.stop()
    return least
print(best(scopes), recorded(0), recorded(10, with_stack=True), recorded(30, with_stack=True))
"""


def build(python, folder, *defines):
    """The package with an extension for this interpreter."""
    told = subprocess.run([python, "-c", "import sysconfig as s; print(s.get_config_var('INCLUDEPY'), s.get_config_var('EXT_SUFFIX'))"],
                          check=True, capture_output=True, text=True).stdout.split()
    shutil.copytree(ROOT / "src" / "mtprof", folder / "mtprof", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    library = ROOT / "build" / "src"
    subprocess.run(["cc", "-std=c11", "-O3", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-omit-frame-pointer", "-D_GNU_SOURCE",
                    *defines, f"-I{told[0]}", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}",
                    *map(str, sorted((ROOT / "src" / "python" / "mtprof").glob("*.c"))), "-o", str(folder / "mtprof" / f"_native{told[1]}"),
                    f"-L{library}", "-lmtprof", f"-Wl,-rpath,{library}"], check=True)
    return folder


def measure(python, folder):
    done = subprocess.run([python, "-c", MEASURE], env={"PYTHONPATH": str(folder)}, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def main(*pythons):
    names = ("off", "on", "stack of 10", "stack of 30")
    for python in pythons or (sys.executable,):
        with tempfile.TemporaryDirectory() as temporary:
            ours = build(python, pathlib.Path(temporary) / "ours")
            stable = build(python, pathlib.Path(temporary) / "stable", "-DMTPN_LIKE_STABLE_ABI")
            turns = [(measure(python, ours), measure(python, stable)) for _ in range(TURNS)]
        print(subprocess.run([python, "--version"], capture_output=True, text=True).stdout.strip())
        for i, name in enumerate(names):
            least = [min(turn[kind][i] for turn in turns) for kind in (0, 1)]
            print(f"  {name:12} {least[0]:8.0f} ns   like the stable ABI {least[1]:8.0f} ns  {100 * (least[1] / least[0] - 1):+5.0f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
