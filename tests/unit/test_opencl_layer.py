#!/usr/bin/env python3
"""Unit: programs that know nothing of us, under the OpenCL layer: what they did is in the trace, and they did it all the same.

usage: tests/unit/test_opencl_layer.py LAYER MTPROF PROGRAM CALLS CLOSED PROFILED   speaks TAP; skipped where there is no OpenCL device
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

KERNELS = 300  # five rounds of them
results = []


def check(name, good, more=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    if not good:
        print("# " + str(more).replace("\n", "\n# ")[:4000])


class Trace:
    """What a trace says of device work, of the calls that made it and of memory."""

    def __init__(self, path):
        self.about = json.loads(path.read_text()) if path.suffix == ".json" and path.exists() else {"traceEvents": []}
        self.events = self.about["traceEvents"]
        self.calls = [{**e, "name": e["args"].get("original name", e["name"])} for e in self.events if e.get("cat") == "cuda_runtime"]
        self.work = [e for e in self.events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        self.kernels = [e for e in self.work if e["cat"] == "kernel"]
        self.memory = [e["args"] for e in self.events if e.get("name") == "[memory]"]
        by_id = {e["args"].get("correlation"): e["name"] for e in self.calls}
        self.pairs = collections.Counter((by_id.get(e["args"]["correlation"]), e["name"], e["args"].get("bytes", 0)) for e in self.work)

    def names(self):
        return collections.Counter(e["name"] for e in self.kernels)

    def streams(self):
        return {(e["args"]["device"], e["args"]["stream"]) for e in self.work}


class Programs:
    def __init__(self, layer, mtprof, folder):
        self.layer, self.mtprof, self.folder = os.path.abspath(layer), mtprof, pathlib.Path(folder)

    def plain(self, *command, **more):
        return subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, timeout=60)

    def under(self, *command, out="trace.json", **more):
        """The run under the layer, and its trace, which has passed `mtprof check`."""
        path = self.folder / out
        path.unlink(missing_ok=True)
        done = self.plain(*command, OPENCL_LAYERS=self.layer, MTPROF_OUT=str(path), **more)
        trace = Trace(self.to_json(path) if path.suffix == ".mtp" and path.exists() else path)
        if path.suffix == ".json" and trace.events:
            told = self.plain(self.mtprof, "check", str(path))
            check(f"the_trace_of_{pathlib.Path(command[-1]).name}_is_well_formed", told.returncode == 0, told.stdout + told.stderr)
        return done, trace

    def to_json(self, spool):
        path = self.folder / "from_spool.json"
        told = self.plain(self.mtprof, "export", str(spool), "-o", str(path))
        if told.returncode != 0:
            print("# " + told.stderr)
        return path


def said(done):
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def test_kernels(p, program):
    quiet = p.plain(program, str(KERNELS), OPENCL_LAYERS=p.layer)
    check("without_a_profile_the_program_runs_as_before", quiet.returncode == 0, said(quiet))
    check("and_is_told_once_that_nothing_was_recorded", quiet.stderr.count("records nothing") == 1 and "MTPROF_OUT" in quiet.stderr,
          said(quiet))
    done, t = p.under(program, str(KERNELS))
    check("under_a_profile_the_program_runs_as_before", done.returncode == 0 and done.stderr == "", said(done))
    kernels = sorted(t.kernels, key=lambda e: e["ts"])
    calls = {e["args"].get("correlation"): e for e in t.calls}
    check("every_kernel_is_there_by_name", t.names() == {"grow": 5 * KERNELS}, t.names())
    check("the_device_is_described", [(d["id"], d["name"] != "", d["totalGlobalMem"] > 0) for d in
                                      t.about["deviceProperties"]] == [(0, True, True)], t.about["deviceProperties"])
    check("kernels_have_their_sizes", all(e["args"]["grid"] == [1, 1, 1] and e["args"]["block"] == [64, 1, 1] for e in kernels))
    check("each_has_the_call_that_made_it", all(e["args"]["correlation"] in calls for e in t.work))
    check("none_begins_before_its_call", all(e["ts"] >= calls[e["args"]["correlation"]]["ts"] - 50 for e in kernels
                                             if e["args"]["correlation"] in calls))
    check("one_queue_is_one_row_without_overlap", len(t.streams()) == 1 and
          all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in zip(kernels, kernels[1:])), t.streams())


HTOD, DTOH, DTOD = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)", "Memcpy DtoD (Device -> Device)"
CALLS = {
    ("clEnqueueWriteBuffer", HTOD, 2000): 1, ("clEnqueueReadBuffer", DTOH, 3000): 1,
    ("clEnqueueWriteBufferRect", HTOD, 128): 1, ("clEnqueueReadBufferRect", DTOH, 128): 1,
    ("clEnqueueCopyBuffer", DTOD, 1000): 1, ("clEnqueueCopyBufferRect", DTOD, 128): 1,
    ("clEnqueueFillBuffer", "Memset (Device)", 512): 1,
    ("clEnqueueMigrateMemObjects", "Memcpy DtoH (Migrate)", 4096): 1,
    ("clEnqueueMapBuffer", "Memcpy DtoH (Map)", 256): 1, ("clEnqueueUnmapMemObject", "Memcpy HtoD (Unmap)", 256): 1,
    ("clEnqueueWriteImage", HTOD, 128): 1, ("clEnqueueReadImage", DTOH, 128): 1,
    ("clEnqueueFillImage", "Memset (Device)", 128): 1, ("clEnqueueCopyImage", DTOD, 128): 1,
    ("clEnqueueCopyImageToBuffer", DTOD, 128): 1, ("clEnqueueCopyBufferToImage", DTOD, 128): 1,
    ("clEnqueueMapImage", "Memcpy DtoH (Map)", 128): 1, ("clEnqueueUnmapMemObject", "Memcpy HtoD (Unmap)", 0): 1,
    ("clEnqueueSVMMemFill", "Memset (SVM)", 1024): 1, ("clEnqueueSVMMemcpy", "Memcpy (SVM)", 768): 1,
    ("clEnqueueSVMMap", "Memcpy DtoH (Map)", 0): 1, ("clEnqueueSVMUnmap", "Memcpy HtoD (Unmap)", 128): 1,
    ("clEnqueueTask", "grow", 0): 1, ("clEnqueueTask", "spin", 0): 1,
    ("clEnqueueNativeKernel", "native kernel", 0): 1,
}
ONLY_CALLS = {"clBuildProgram": 1, "clCompileProgram": 1, "clLinkProgram": 1, "clFlush": 1, "clFinish": 4, "clEnqueueSVMFree": 1,
              "clSVMAlloc": 2, "clCreateBuffer": 3, "clCreateBufferWithProperties": 1, "clCreateImage": 1, "clCreateImage2D": 1}


def test_calls(p, calls):
    done, t = p.under(calls, "calls")
    check("a_program_that_uses_everything_runs_as_before", done.returncode == 0 and done.stderr == "", said(done))
    check("every_command_has_its_work_and_bytes", t.pairs == CALLS, {"more": t.pairs - collections.Counter(CALLS),
                                                                     "less": collections.Counter(CALLS) - t.pairs})
    ours = {e["args"]["correlation"] for e in t.work}
    others = collections.Counter(e["name"] for e in t.calls if e["args"].get("correlation") not in ours)
    check("builds_waits_and_allocations_are_calls", others == ONLY_CALLS, others)
    got = sorted(m["Bytes"] for m in t.memory if m["Bytes"] > 0)
    check("what_is_allocated_is_counted_once", got == sorted([4096, 4096, 128, 128, 128, 1024, 2048, 256]), got)
    check("and_is_given_back", sum(m["Bytes"] for m in t.memory) == 0 and t.memory and t.memory[-1]["Total Allocated"] == 0, t.memory)


def test_answers(p, calls):
    plain = p.plain(calls, "answers")
    for way, done in (("recorded", p.under(calls, "answers")[0]), ("unrecorded", p.plain(calls, "answers", OPENCL_LAYERS=p.layer))):
        check(f"a_program_gets_the_same_answers_{way}", plain.stdout.count("\n") == 9 and "times -7" in plain.stdout and
              "times 0 known" in plain.stdout and (done.returncode, done.stdout) == (0, plain.stdout), plain.stdout + said(done))
    plain = p.plain(calls, "failing")
    done, t = p.under(calls, "failing")
    check("a_command_that_fails_fails_as_before", (done.returncode, done.stdout) == (0, plain.stdout), said(done))
    check("and_is_a_call_without_work", t.names() == {"grow": 1} and
          sum(e["name"] == "clEnqueueNDRangeKernel" for e in t.calls) == 3, t.names())


def test_many(p, calls):
    done, t = p.under(calls, "threads", POCL_DEVICES="pthread pthread")
    check("threads_and_queues_lose_nothing", done.returncode == 0 and t.names() == {"grow": 2800}, said(done) + str(t.names()))
    check("each_queue_is_a_row_of_its_device", sorted(d for d, _ in t.streams()) == [0, 0, 1, 1] and
          len({s for _, s in t.streams()}) == 4, t.streams())
    check("each_thread_has_its_calls", len({e["tid"] for e in t.calls if e["name"] == "clEnqueueNDRangeKernel"}) == 4)
    check("buffers_that_kernels_hold_are_counted_until_their_end", len(t.memory) == 8 and sum(m["Bytes"] for m in t.memory) == 0, t.memory)
    done, t = p.under(calls, "short_threads")
    check("threads_that_end_leave_their_work_behind", done.returncode == 0 and t.names() == {"grow": 201}, said(done) + str(t.names()))
    done, t = p.under(calls, "callbacks")
    check("a_callback_of_the_driver_may_enqueue", done.returncode == 0 and t.names()["grow"] == 300 and t.names()["spin"] >= 30,
          said(done) + str(t.names()))
    done, t = p.under(calls, "burst")
    check("any_number_may_be_in_flight", done.returncode == 0 and t.names() == {"grow": 12121}, said(done) + str(t.names()))
    done, t = p.under(calls, "recycled")
    ordered = [e["name"] for e in sorted(t.kernels, key=lambda e: e["ts"])]
    check("handles_that_come_again_have_their_new_name", done.returncode == 0 and ordered == ["grow", "spin"] * 10, ordered)
    check("and_queues_their_own_row", len(t.streams()) == 20, t.streams())
    done, t = p.under(calls, "out_of_order")
    check("a_queue_out_of_order_is_whole", done.returncode == 0 and t.names() == {"grow": 20, "spin": 20}, said(done) + str(t.names()))


def test_ends(p, calls, closed):
    done, t = p.under(calls, "stuck")
    check("a_command_that_never_starts_does_not_hold_the_end", done.returncode == 0 and
          "device work: 1 (not finished at exit)" in done.stderr, said(done))
    check("nor_hide_those_that_ended", t.names() == {"grow": 1}, t.names())
    done, t = p.under(calls, "in_flight")
    check("exit_with_work_in_flight_keeps_it", done.returncode == 3 and t.names() == {"spin": 21}, said(done) + str(t.names()))
    done, t = p.under(calls, "exit_elsewhere")
    check("exit_while_others_enqueue_ends_the_trace", done.returncode == 4 and t.names()["grow"] > 0, said(done) + str(t.names()))
    done, t = p.under(calls, "forks")
    check("forked_children_leave_the_trace_alone", (done.returncode, done.stderr) == (0, "") and t.names() == {"grow": 2},
          said(done) + str(t.names()))
    done, t = p.under(calls, "killed", out="trace.mtp")
    check("kill_9_keeps_what_was_waited_for", done.returncode == -9 and t.names() == {"grow": 100}, said(done) + str(t.names()))
    done, t = p.under(calls, "recycled", out="trace.mtp")
    check("a_spool_is_whole_at_a_normal_end", done.returncode == 0 and t.names() == {"grow": 10, "spin": 10}, said(done))
    done, t = p.under(closed)
    check("a_program_that_closes_opencl_has_its_trace", done.returncode == 0 and sum(t.pairs.values()) == 11, said(done) + str(t.pairs))


def test_files(p, calls):
    done, _ = p.under(calls, "recycled", out="no/such/folder/trace.json")
    check("a_file_that_cannot_be_written_is_told_and_harms_nothing", done.returncode == 0 and "no/such/folder" in done.stderr and
          done.stderr.startswith("mtprof: "), said(done))
    done, _ = p.under(calls, "recycled", out="no/such/folder/trace.mtp")
    check("so_is_a_spool_that_cannot", done.returncode == 0 and "no/such/folder" in done.stderr, said(done))
    done, _ = p.under(calls, "recycled", out="trace.unknown")
    check("a_name_without_a_form_gets_one", done.returncode == 0 and (p.folder / "trace.unknown.json").exists() and
          "trace.unknown.json" in done.stderr, said(done))
    done = subprocess.run([os.path.abspath(calls), "moves"], cwd=p.folder, env={**os.environ, "OPENCL_LAYERS": p.layer,
                          "MTPROF_OUT": "moved.json"}, capture_output=True, text=True, timeout=60)
    check("a_name_is_of_the_folder_that_the_program_began_in", done.returncode == 0 and (p.folder / "moved.json").exists(), said(done))
    done, _ = p.under(calls, "recycled", out="trace.%p.json")
    named = [f.name for f in p.folder.glob("trace.*.json") if f.name.split(".")[1].isdigit()]
    check("each_process_may_have_a_file", done.returncode == 0 and len(named) == 1, named)


def test_own_profile(p, profiled):
    """The program's profile, not the layer's: two recordings in one process, the second is what it exports."""
    path = p.folder / "own.json"
    done = p.plain(profiled, str(path), OPENCL_LAYERS=p.layer)
    t = Trace(path)
    check("a_recording_of_the_programs_waits_for_its_own_work", (done.returncode, done.stdout) == (0, "20 then 5\n"), said(done))
    check("and_the_layer_is_quiet", done.stderr == "", said(done))
    check("and_holds_none_of_another", t.names() == {"grow": 5} and len(t.calls) == 6, [e["name"] for e in t.calls])
    done = p.plain(profiled, str(path))
    check("without_the_layer_there_is_none", (done.returncode, done.stdout) == (0, "0 then 0\n"), said(done))


def main(layer, mtprof, program, calls, closed, profiled):
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # PoCL's
    os.environ["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":atexit_sleep_ms=50"
    with tempfile.TemporaryDirectory() as folder:
        p = Programs(layer, mtprof, folder)
        if p.plain(program, "1").returncode == 77:
            print("1..0 # SKIP no OpenCL device")
            return 77
        test_kernels(p, program)
        test_calls(p, calls)
        test_answers(p, calls)
        test_many(p, calls)
        test_ends(p, calls, closed)
        test_files(p, calls)
        test_own_profile(p, profiled)
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:7]))
