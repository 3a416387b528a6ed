"""The rows of docs/reliability.md and the tests behind them: what `make reliability` and `make soak` run.

A test prints `row N: RUNS runs: WHAT` on stderr, once or more (tests/test.h: test_row). MTP_TEST_SCALE scales its loops.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Test:
    """A program, or those of its tests that match a pattern; `scale` is that of the table's CI column."""

    def __init__(self, row, promise, program, only="", scale=1.0, seconds=900):
        self.row, self.promise, self.program, self.only = row, promise, program, only
        self.scale, self.seconds = scale, seconds

    @property
    def name(self):
        return self.program + (f": {self.only}" if self.only else "")


# Each scale makes the loops as long as the CI column says, where the default loop is shorter.
TESTS = [
    Test(1, "kill -9 at random points", "crash", "a_*_spool_survives_kills_at_random", 11.2),
    Test(1, "kill -9 of a Python program", "kills.py", "", 300),
    Test(2, "kill at every testpoint", "crash", "a_spool_survives_a_kill_at_every_testpoint"),
    Test(3, "truncated at each of the last 65,536 bytes", "spool", "a_file_cut_anywhere*", 10),
    Test(3, "bits flipped in a finished file", "spool", "a_flipped_bit*", 25),
    Test(3, "a killed program's file truncated and flipped", "crash", "a_dead_programs_file*", 10),
    Test(3, "words changed and resealed", "damage", "", 5),
    Test(4, "every allocation, map and file call fails", "faults"),
    Test(4, "every call of recording on demand fails", "listen_faults"),
    Test(4, "peers that flood, drip, leave or lie", "listen_peers", "", 5),
    Test(5, "full disk, short writes, interruptions", "file_out"),
    Test(6, "a real full disk, a limit on files", "pool_faults", "a_f*"),
    Test(7, "fork while four threads record", "fork", "", 17),
    Test(7, "os.fork of a Python program", "forks.py", "", 1000),
    Test(8, "threads that come and go", "endurance", "threads_that_come_and_go*", 25),
    Test(8, "threads, stuck and stopped", "threads", "", 1),
    Test(9, "ways for a program to end", "exits", "", 20),
    Test(10, "a recording handler at 10 kHz", "signals", "*recording_handler*", 14),
    Test(10, "profiles driven in any order, reentrant callbacks", "states", "", 5),
    Test(11, "a flight recorder's memory and file", "endurance", "a_flight_recorder*", 215),
    Test(11, "a ring of 1 MiB for a year: a million threads and cycles", "epochs", "a_ring_runs_for_a_year", 365, 1800),
    Test(12, "start, stop and export", "endurance", "starting_stopping*", 25),
    Test(13, "1e8 records written, read and exported", "endurance", "a_long_recording*", 100),
    Test(14, "fuzzers over their corpus", "fuzz"),
    Test(15, "hostile names", "out", "", 5),
    Test(16, "HTML with hostile names", "pages.py", "", 2000),
    Test(17, "nesting of 1e5", "endurance", "nesting*", 5),
    Test(17, "scopes in any order", "interleaved", "", 5),
    Test(18, "clocks that stop, jump or go backwards", "clock"),
    Test(18, "a clock that goes backwards is held", "mutants", "a_clock_*"),
    Test(19, "bombs, FIFOs, endless values", "kineto_files", "", 0.2),
    Test(19, "a file truncated while it is read", "endurance", "a_file_that_is_cut*", 20),
    Test(20, "links swapped under an output file", "file_out", "links_that_come_and_go*", 20),
    Test(22, "ledgers under every policy", "ledger", "", 2),
    Test(22, "names defined by many threads at once", "intern", "", 5),
]


class Result:
    def __init__(self):
        self.runs = self.failures = 0
        self.seconds = 0.0
        self.worst = self.story = ""


def command_of(test, build, scale):
    here = pathlib.Path(__file__).resolve().parent
    if test.program.endswith(".py"):
        return [sys.executable, str(here / test.program), str(max(1, round(scale)))]
    if test.program == "fuzz":
        return [str(ROOT / "tools/fuzz"), "-r", str(round(5000 * scale))]
    return [str(pathlib.Path(build) / f"tests/test_{test.program}")]


def run(test, build, scale=None, seed=None):
    """Runs a test once."""
    scale = test.scale if scale is None else scale
    environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", MTP_TEST_SCALE=str(scale), MTP_TEST_ONLY=test.only,
                       PYTHONPATH=str(ROOT / "src"))
    if seed is not None:
        environment["MTP_TEST_SEED"] = str(seed)
    result, began = Result(), time.monotonic()
    try:
        ran = subprocess.run(command_of(test, build, scale), capture_output=True, text=True, errors="replace", env=environment,
                             timeout=test.seconds)
        said, code = ran.stdout + ran.stderr, ran.returncode
    except subprocess.TimeoutExpired as late:
        said, code = f"it took more than {test.seconds} s\n{late.stderr or ''}", 1
    result.seconds = time.monotonic() - began
    told = [m for m in re.finditer(r"^row (\d+): (\d+) runs: (.*)$", said, re.M) if int(m[1]) == test.row]
    passed = len(re.findall(r"^ok \d+ (?!.*# ?skip)", said, re.M | re.I))
    result.runs = sum(int(m[2]) for m in told) or passed
    result.worst = told[-1][3] if told else f"{passed} tests passed"
    failed = re.findall(r"^not ok \d+ - (\S+)(?!.*# ?skip)", said, re.M | re.I)
    result.failures = len(failed) or (code != 0)
    if result.failures:
        result.story = "\n".join(said.splitlines()[-40:])
    return result


def build_programs(build, tests):
    programs = sorted({f"tests/test_{t.program}" for t in tests if not t.program.endswith(".py") and t.program != "fuzz"})
    made = subprocess.run(["ninja", "-C", str(build)] + programs, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        sys.exit(made.stdout[-3000:])
