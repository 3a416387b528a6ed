#!/usr/bin/env python3
"""Unit: the heap of programs that know nothing of us; and several collectors in one process.

usage: tests/unit/test_malloc_collector.py COLLECTOR MTPROF CALLS PROFILED ITT_COLLECTOR ITT_CALLS   speaks TAP
"""
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from programs import Programs, Trace, check, finish, said, skip  # noqa: E402


def told(done):
    """What a program says that it did with the heap."""
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(int(a, 16), int(n)) for a, n in lines]


def missing(done, trace):
    """The first thing that the program did and that is not in the trace, in that order; None if all are."""
    events = iter((m["Addr"], m["Bytes"]) for m in trace.memory)
    return next((one for one in told(done) if not any(one == e for e in events)), None)


def misplaced(trace):
    """Blocks that were handed out twice, or taken back with another size."""
    live, wrong = {}, []
    for m in trace.memory:
        if m["Bytes"] > 0:
            wrong += [m] if m["Addr"] in live else []
            live[m["Addr"]] = m["Bytes"]
        elif live.pop(m["Addr"], -m["Bytes"]) != -m["Bytes"]:
            wrong.append(m)
    return wrong


def test_calls(p, calls):
    for what in ("calls", "failing"):
        done, t = p.under(calls, what)
        check(f"the_program_of_{what}_runs_as_before", done.returncode == 0 and done.stderr == "" and len(told(done)) > 3, said(done))
        check(f"what_it_did_is_in_the_trace_of_{what}", missing(done, t) is None and t.memory, (missing(done, t), t.memory[:40]))
        check(f"blocks_of_{what}_are_handed_out_once", not misplaced(t), misplaced(t)[:5])
        steps = [(a["Total Allocated"] + b["Bytes"], b["Total Allocated"]) for a, b in zip(t.memory, t.memory[1:])]
        check(f"totals_of_{what}_add_up", steps and all(x == y for x, y in steps), [s for s in steps if s[0] != s[1]][:5])
    quiet = p.plain(calls, "calls", **p.variables)
    check("without_a_profile_it_says_so", quiet.returncode == 0 and quiet.stderr.count("records nothing") == 1, said(quiet))


def test_threads(p, calls):
    done, t = p.under(calls, "threads")
    check("threads_run_as_before", done.returncode == 0 and done.stderr == "", said(done))
    check("every_call_of_every_thread_is_there", sum(m["Bytes"] > 0 for m in t.memory) >= 40000, len(t.memory))
    check("no_block_is_two_threads_at_once", not misplaced(t), misplaced(t)[:5])
    done, t = p.under(calls, "short_threads")
    ours = [m for m in t.memory if abs(m["Bytes"]) == 4328]
    check("what_ending_threads_free_is_seen", done.returncode == 0 and sum(m["Bytes"] > 0 for m in ours) == 50 and
          sum(m["Bytes"] < 0 for m in ours) == 50 and done.stderr == "", said(done) + str(len(ours)))


def test_ends(p, calls):
    done, t = p.under(calls, "forks")
    check("children_work_and_leave_the_trace_alone", done.returncode == 0 and done.stderr == "" and missing(done, t) is None, said(done))
    done, t = p.under(calls, "killed", out="trace.mtp")
    check("kill_9_keeps_a_spool", done.returncode == -9 and told(done) and missing(done, t) is None, said(done))
    done, t = p.under(calls, "closes")
    check("a_program_may_close_all_descriptors", done.returncode == 0 and told(done) and missing(done, t) is None, said(done))
    done, t = p.under(calls, "exit_elsewhere")
    check("exit_from_a_thread_keeps_the_trace", done.returncode == 4 and told(done) and missing(done, t) is None, said(done))


def test_own(p, profiled):
    path = p.folder / "own.json"
    done = p.plain(profiled, str(path), **p.variables)
    t = Trace(path)
    check("a_profile_of_the_programs_has_its_heap", (done.returncode, done.stdout) == (0, "0 dropped\n") and done.stderr == "", said(done))
    sizes = [m["Bytes"] for m in t.memory]
    check("and_nothing_of_libmtprofs", sizes == [1112, 2232, -1112, -2232], sizes)
    check("on_top_of_what_was_there", t.memory and t.memory[-1]["Total Allocated"] > 0, t.memory[-1:])


def test_together(p, itt, calls):
    """Three collectors in one process: one profile, one clock."""
    done, t = p.under(calls, "threads", INTEL_LIBITTNOTIFY64=os.path.abspath(itt))
    check("collectors_share_one_profile", done.returncode == 0 and done.stderr == "" and sum(t.names().values()) == 8000 and
          len(t.memory) > 50, said(done) + str(len(t.memory)))
    first, last = min(e["ts"] for e in t.spans), max(e["ts"] for e in t.spans)
    inside = [e for e in t.events if e.get("name") == "[memory]" and first <= e["ts"] <= last]
    check("on_one_clock", inside, (first, last))


CPP = """
#include <memory>
#include <string>
#include <vector>
int main()
{
    std::vector<std::unique_ptr<int[]>> all;
    for (int i = 0; i < 100; i++)
        all.push_back(std::make_unique<int[]>(1000));
    struct alignas(256) wide { char bytes[5000]; };
    delete new wide;
    try { throw std::string(2000, 'x'); } catch (const std::string &) {}
}
"""


def test_cpp(p):
    source, program = p.folder / "news.cpp", p.folder / "news"
    source.write_text(CPP)
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if not compiler or subprocess.run([compiler, "-std=c++17", "-O0", str(source), "-o", str(program)], capture_output=True).returncode != 0:
        skip("new_and_delete_are_seen", "no C++ compiler")
        return
    done, t = p.under(str(program))
    sizes = collections.Counter(m["Bytes"] for m in t.memory)
    check("new_and_delete_are_seen", done.returncode == 0 and sizes[4008] == sizes[-4008] == 100, said(done) + str(sizes))


def test_real(p):
    done, t = p.under(shutil.which("ls"), "-l", "/")
    check("a_real_program_runs_as_before", done.returncode == 0 and done.stderr == "" and len(t.memory) > 50, said(done))
    done, t = p.under(os.path.realpath(sys.executable), "-c", "import json; x = bytearray(9 << 20)")
    check("so_does_python", done.returncode == 0 and done.stderr == "" and max(m["Bytes"] for m in t.memory) > 9 << 20, said(done))
    done = p.plain("sh", "-c", "ls / | sort | head -2; exit 7", MTPROF_OUT=str(p.folder / "each.%p.json"), **p.variables)
    check("so_does_a_script_with_a_file_for_each_process", done.returncode == 7 and len(list(p.folder.glob("each.*.json"))) >= 3, said(done))


def main(collector, mtprof, calls, profiled, itt, itt_calls):
    with tempfile.TemporaryDirectory() as folder:
        p = Programs(mtprof, folder, LD_PRELOAD=os.path.abspath(collector))
        test_calls(p, calls)
        test_threads(p, calls)
        test_ends(p, calls)
        test_own(p, profiled)
        test_together(p, itt, itt_calls)
        test_cpp(p)
        test_real(p)
    return finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:7]))
