#!/usr/bin/env python3
"""Unit: programs that speak ITT, under the collector of it.

usage: tests/unit/test_itt_collector.py COLLECTOR MTPROF CALLS   speaks TAP
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from programs import ONEDNN, Programs, check, finish, is_foreign_safe, is_linked, python_with, said, skip  # noqa: E402


def test_tasks(p, calls):
    quiet = p.plain(calls, "tasks", **p.variables)
    check("without_a_profile_the_program_runs_as_before", quiet.returncode == 0, said(quiet))
    check("and_is_told_once_that_nothing_was_recorded", quiet.stderr.count("records nothing") == 1 and "MTPROF_OUT" in quiet.stderr,
          said(quiet))
    done, t = p.under(calls, "tasks")
    check("under_a_profile_the_program_runs_as_before", done.returncode == 0 and done.stderr == "", said(done))
    names = t.names()
    check("tasks_are_named_by_domain", (names["a::x"], names["a::y"], names["b::x"]) == (100, 100, 100), names)
    check("pytorchs_have_their_own_name_and_are_ops", t.one("aten::add")["cat"] == "cpu_op" and
          t.one("a::outer")["cat"] == "user_annotation", names)
    annotations = [t.one(name)["cat"] for name in ("Optimizer.step#SGD.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")]
    check("but_what_pytorch_annotates_is_no_op", annotations == ["user_annotation"] * 2, annotations)
    inside = [e for e in t.spans if e["name"] == "a::x"][0]
    nested = [e for e in t.spans if e["name"] == "b::x"][0]
    check("tasks_nest", inside["ts"] <= nested["ts"] and nested["ts"] + nested["dur"] <= inside["ts"] + inside["dur"])
    outer, inner = t.one("a::outer"), t.one("b::inner")
    check("an_end_ends_the_task_of_its_domain", 0 < outer["ts"] + outer["dur"] <= inner["ts"] + inner["dur"], (outer, inner))
    check("a_task_may_be_named_by_a_function", names["a::a_function_with_a_name"] == 1 and names["a::0x123"] == 2, names)
    check("a_missing_name_harms_nothing", names["a::?"] == 1, names)
    check("old_events_are_ranges", names["an event"] == 1, names)
    expected = 300 + 2 + 4 + 3 + 1 + 1
    check("nothing_else_is_there", sum(names.values()) == expected, names)


def test_overlapped(p, calls):
    done, t = p.under(calls, "overlapped")
    names = t.names()
    check("overlapped_tasks_are_there", done.returncode == 0 and all(names[f"over::{n}"] == 1 for n in
          ("one", "two", "region", "seven", "after")) and sum(names.values()) == 5, said(done) + str(names))
    one, two, region = (t.one(f"over::{n}") for n in ("one", "two", "region"))
    check("each_ends_at_its_own_end", one["ts"] <= two["ts"] <= one["ts"] + one["dur"] <= region["ts"] <= two["ts"] + two["dur"] <=
          region["ts"] + region["dur"], (one, two, region))
    seven = t.one("over::seven")
    check("one_that_another_thread_ends_is_ended", "Unfinished" not in str(seven["args"]) and t.marks == ["over::seven"] and
          seven["ts"] + seven["dur"] <= t.one("over::after")["ts"], (seven, t.marks))
    done, t = p.under(calls, "many")
    ends = [e["ts"] + e["dur"] for e in sorted(t.spans, key=lambda e: int(e["name"].removeprefix("many::")))]
    check("of_many_open_tasks_each_end_ends_its_own", done.returncode == 0 and len(ends) == 2000 and ends == sorted(ends), said(done))


def test_points(p, calls):
    done, t = p.under(calls, "points")
    check("markers_are_marks", done.returncode == 0 and t.marks == ["points::here", "points"], said(done) + str(t.marks))
    check("frames_are_ranges_named_by_their_domain", t.names() == {"points": 2, "points::in a frame": 1}, t.names())
    values = {}
    for name, args in t.counters:
        values.setdefault(name, []).extend(args.values())
    check("counters_count", values.get("points::up") == [1, 2, -3] and values.get("points::v3") == [40, 42], values)
    check("and_are_read_by_their_type", [values.get(n) for n in ("u64", "s32", "u16", "float", "double")] ==
          [[64], [-32], [16], [1.5], [-2.25]], values)


def test_more(p, calls):
    done, t = p.under(calls, "paused")
    check("paused_tasks_are_left_out", done.returncode == 0 and t.names() == {"paused::kept": 1, "paused::inside": 1}, t.names())
    check("and_their_ends_end_no_other", t.holds("paused::kept", "paused::inside"), t.spans)
    done, t = p.under(calls, "threads")
    check("threads_lose_nothing", done.returncode == 0 and sum(t.names().values()) == 8000 and len(t.names()) == 50, said(done))
    named = [n for n in t.thread_names.values() if "rather long name" in n]
    check("threads_have_the_name_they_were_given", len(named) == 4 and len({e["tid"] for e in t.spans}) == 4, t.thread_names)
    done, t = p.under(calls, "deep")
    check("tasks_may_be_deep", done.returncode == 0 and t.names() == {"deep::level": 5000}, said(done))
    done, t = p.under(calls, "old")
    check("short_lists_and_earlier_handles_work", done.returncode == 0 and t.names() == {"old::old task": 1, "new::new task": 1},
          said(done) + str(t.names()))


def test_ends(p, calls):
    done, t = p.under(calls, "forks")
    check("forked_children_leave_the_trace_alone", (done.returncode, done.stderr) == (0, "") and
          t.names() == {"ends::around": 1, "ends::task": 2}, said(done) + str(t.names()))
    done, t = p.under(calls, "exit_elsewhere")
    check("exit_from_a_thread_keeps_the_trace", done.returncode == 4 and t.names() == {"ends::task": 5}, said(done))
    if is_linked(calls, b"libtsan.so"):
        skip("a_main_thread_that_ends_first", "TSan's own thread keeps the process alive")
    else:
        done, t = p.under(calls, "main_ends")
        check("so_does_a_main_thread_that_ends_first", done.returncode == 0 and t.names() == {"ends::task": 5}, said(done))
    done, t = p.under(calls, "killed", out="trace.mtp")
    check("kill_9_keeps_a_spool", done.returncode == -9 and t.names() == {"ends::task": 100}, said(done) + str(t.names()))
    done, t = p.under(calls, "closes")
    check("a_program_may_close_all_descriptors", done.returncode == 0 and t.names() == {"ends::task": 10}, said(done))
    done, t = p.under(calls, "closes", out="trace.mtp")
    check("also_those_of_a_spool", done.returncode == 0 and t.names()["ends::task"] == 10, said(done) + str(t.names()))
    done, t = p.under(calls, "unloads")
    check("a_program_may_unload_the_collector", done.returncode == 0 and t.names() == {"ends::task": 10}, said(done))
    done = p.plain(calls, "killed", MTPROF_RUN="1", MTPROF_OUT=str(p.folder / "not.json"), **p.variables)
    check("under_mtprof_run_it_starts_no_profile", done.stderr == "" and not (p.folder / "not.json").exists(), said(done))


TORCH = """
import torch
x = torch.ones(8, 8, requires_grad=True)
with torch.autograd.profiler.emit_itt():
    with torch.profiler.record_function("mine"):
        y = (x @ x).relu().sum()
    y.backward()
"""


def test_pytorch(p):
    python = python_with("torch", "PyTorch's emit_itt is not tested")
    available = python and p.plain(python, "-c", "import torch; exit(not torch.profiler.itt.is_available())").returncode == 0
    if not available:
        skip("ops_of_pytorch_are_recorded", "PyTorch is not installed" if python is None else "this PyTorch is built without ITT")
        return
    done, t = p.under(python, "-c", TORCH)
    names = t.names()
    check("ops_of_pytorch_are_recorded", done.returncode == 0 and names["aten::mm"] == 3 and names["aten::relu"] == 1, said(done))
    check("nested_as_they_ran", t.holds("mine", "aten::relu") and t.holds("aten::relu", "aten::clamp_min"), names)
    check("with_backward_nodes", names["autograd::engine::evaluate_function: MmBackward0"] == names["MmBackward0"] == 1 and
          t.holds("autograd::engine::evaluate_function: MmBackward0", "MmBackward0"), names)
    check("as_ops", all(e["cat"] == "cpu_op" for e in t.spans), {e["cat"] for e in t.spans})


def test_ittapi(p):
    python = python_with("ittapi", "Intel's own Python package of ITT is not tested")
    if python is None:
        skip("intels_python_package_is_recorded", "PyPI's ittapi is not installed")
        return
    done, t = p.under(python, "-c", "import ittapi\nwith ittapi.task('t', domain='d'): pass\nittapi.thread_set_name('me')")
    check("intels_python_package_is_recorded", done.returncode == 0 and t.names() == {"d::t": 1}, said(done) + str(t.names()))


def test_onednn(p):
    source, program = p.folder / "product.cpp", p.folder / "product"
    source.write_text(ONEDNN)
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    built = compiler and subprocess.run([compiler, str(source), "-o", str(program), "-ldnnl"], capture_output=True, text=True)
    if not built or built.returncode != 0:
        skip("products_of_onednn_are_recorded", "no C++ compiler" if not compiler else "oneDNN is not installed (Debian: libdnnl-dev)")
        return
    done, t = p.under(str(program), OMP_NUM_THREADS="1")
    if done.returncode == 0 and not t.events and "records nothing" not in done.stderr:
        skip("products_of_onednn_are_recorded", "this oneDNN is built without ITT")
        return
    check("products_of_onednn_are_recorded", done.returncode == 0 and t.names() == {"dnnl::primitive::execute::matmul": 3},
          said(done) + str(t.names()))
    done, t = p.under(str(program), OMP_NUM_THREADS="1", ONEDNN_ITT_TASK_LEVEL="0", DNNL_ITT_TASK_LEVEL="0")
    check("unless_it_is_told_not_to_tell", done.returncode == 0 and not t.spans, said(done) + str(t.names()))


def main(collector, mtprof, calls):
    with tempfile.TemporaryDirectory() as folder:
        p = Programs(mtprof, folder, INTEL_LIBITTNOTIFY64=os.path.abspath(collector))
        test_tasks(p, calls)
        test_overlapped(p, calls)
        test_points(p, calls)
        test_more(p, calls)
        test_ends(p, calls)
        if is_foreign_safe(collector):
            test_ittapi(p)
            test_onednn(p)
            test_pytorch(p)
    return finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
