#!/usr/bin/env python3
"""Runs test_readers.py with HTA and torch-tb-profiler, and writes TAP.

usage: readers.py FOLDER TEST_CHROME

They are taken from this python, or from a virtual environment in FOLDER, which is created with pip if PyPI can be reached
(about half a minute, once). Otherwise, or with MTP_TEST_OFFLINE set, their tests are skipped with the reason.
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

READERS = ("HolisticTraceAnalysis==0.5.0", "torch-tb-profiler==0.4.3")
# Only what they import; all of their declared dependencies (Jupyter, TensorBoard itself) would be ten times as much.
# Both need pandas < 3. TraceLens and Chakra are not on PyPI: the tracelens there is a different program.
BESIDE = ("pytest", "pandas<3", "networkx", "plotly", "pydot", "pyyaml", "psutil")
MODULES = ("hta", "torch_tb_profiler", "pytest")
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "10")
ROOM = 1 << 30      # bytes that must be free


def has_readers(python):
    test = f"import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in {MODULES}))"
    test = test.replace("sys.exit(", "sys.exit(__import__('pandas').__version__ >= '3' or ", 1)
    return subprocess.run([python, "-c", test], capture_output=True).returncode == 0


def install(folder):
    """A python that has them, or None and the reason."""
    python = str(folder / "bin" / "python")
    if os.access(python, os.X_OK) and has_readers(python):
        return python, ""
    if os.environ.get("MTP_TEST_OFFLINE"):
        return None, "MTP_TEST_OFFLINE is set"
    if importlib.util.find_spec("ensurepip") is None:
        return None, "this python cannot make a virtual environment (python3-venv)"
    if shutil.disk_usage(folder.parent).free < ROOM:
        return None, "less than 1 GB is free"
    for what in ([sys.executable, "-m", "venv", "--clear", str(folder)], [python, *PIP, "--no-deps", *READERS],
                 [python, *PIP, *BESIDE]):
        try:
            done = subprocess.run(what, capture_output=True, text=True, timeout=240)
        except subprocess.TimeoutExpired:
            return None, "pip took more than 4 minutes"
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
            return None, f"pip cannot get it: {said[-1][:160]}"
    return (python, "") if has_readers(python) else (None, "pip installed them, but they are not there")


def tell(report, why):
    """Writes pytest's report as TAP; returns 1 if a test failed."""
    failed = count = 0
    for count, case in enumerate(xml.parse(report).iter("testcase"), 1):
        bad = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        skipped = case.find("skipped")
        failed += bad is not None
        print(f"{'ok' if bad is None else 'not ok'} {count} - {case.get('name')}"
              + (f" # SKIP {skipped.get('message')}{': ' + why if why else ''}" if skipped is not None else ""))
        if bad is not None:
            print("#", (bad.text or bad.get("message") or "").replace("\n", "\n# "))
    print(f"1..{count}")
    return 1 if failed else 0


def main(folder, test_chrome):
    python, why = sys.executable, ""
    if not has_readers(python):
        found, why = install(pathlib.Path(folder).resolve() / "readers")
        python = found or python
    if importlib.util.find_spec("pytest") is None and python == sys.executable:
        print("1..0 # SKIP no pytest")
        return 77
    with tempfile.TemporaryDirectory() as place:
        report = pathlib.Path(place, "report.xml")
        done = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", f"--junitxml={report}",
                               str(pathlib.Path(__file__).with_name("test_readers.py"))],
                              env={**os.environ, "TEST_CHROME": test_chrome}, capture_output=True, text=True)
        if not report.exists():
            sys.exit(done.stdout + done.stderr)
        return tell(report, why)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
