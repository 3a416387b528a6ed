#!/usr/bin/env python3
"""Unit: a program that knows nothing of us, under the OpenCL layer: what it did is in the trace, and it did it all the same.

usage: tests/unit/test_opencl_layer.py LAYER PROGRAM     speaks TAP; skipped where there is no OpenCL device
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

KERNELS = 300  # five rounds of them


def main(layer, program):
    def run(**more):
        return subprocess.run([program, str(KERNELS)], env={**os.environ, **more}, capture_output=True, text=True, timeout=60)

    plain = run()
    if plain.returncode == 77:
        print("1..0 # SKIP no OpenCL device")
        return 77
    results = []

    def check(name, good, more=""):
        results.append(good)
        print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
        if not good:
            print(f"# {more}")

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        quiet = run(OPENCL_LAYERS=os.path.abspath(layer))
        check("without_a_profile_the_program_runs_as_before", quiet.returncode == 0, quiet.stdout + quiet.stderr)
        recorded = run(OPENCL_LAYERS=os.path.abspath(layer), MTPROF_OUT=str(path))
        check("under_a_profile_the_program_runs_as_before", recorded.returncode == 0, recorded.stdout + recorded.stderr)
        events = json.loads(path.read_text())["traceEvents"] if path.exists() else []
        kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
        copies = {e["name"].split(" (")[0]: e for e in events if e.get("cat") == "gpu_memcpy"}
        calls = {e["args"].get("correlation"): e for e in events if e.get("cat") == "cuda_runtime"}
        check("every_kernel_is_there_by_name", len(kernels) == 5 * KERNELS and {e["name"] for e in kernels} == {"grow"},
              f"{len(kernels)} kernels")
        check("copies_have_their_bytes", {n: e["args"]["bytes"] for n, e in copies.items()} ==
              {"Memcpy HtoD": 256, "Memcpy DtoH": 256}, copies)
        check("each_has_the_call_that_made_it", all(e["args"]["correlation"] in calls for e in kernels))
        check("none_begins_before_its_call", all(e["ts"] >= calls[e["args"]["correlation"]]["ts"] - 50 for e in kernels
                                                 if e["args"]["correlation"] in calls))
        check("one_queue_is_one_row_without_overlap", all(a["ts"] + a["dur"] <= b["ts"] + 0.01
                                                          for a, b in zip(kernels, kernels[1:])))
        check("the_buffer_is_counted", sum(e.get("name") == "[memory]" for e in events) == 2)
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
