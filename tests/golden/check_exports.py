#!/usr/bin/env python3
"""Checks what the exporters write with Python's json and check_trace.py. Writes TAP; needs only Python.

usage: check_exports.py TEST_CHROME [--accept]     the program of tests/unit/test_chrome.c
       --accept: replace the expected files in tests/golden/chrome by the current output
"""
import collections
import decimal
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import check_trace  # noqa: E402

GOLDEN = ["small.json", "small_kineto.json", "small_bare.json", "small_whole.json", "empty.json", "instants.json", "ids.json",
          "flows.json"]
FOREIGN = {"ids.json", "flows.json", "small_kineto.json"}
TORCH = [path for path in sorted(glob.glob(os.path.join(HERE, "torch", "*.json.gz"))) if ".gold." not in path]
SHARED = os.path.join(os.path.dirname(ROOT), "shared", "data", "gpt_cpu.json.gz")
TORCH += [SHARED] if os.path.exists(SHARED) else []


def load(path):
    """Exact: a double cannot hold torch's times to the nanosecond."""
    return json.loads(check_trace.read(path), parse_float=decimal.Decimal)


def of_phase(trace, phase):
    """The recorded events: without the window that the writer adds, or the counters that it draws for [memory] events."""
    return [e for e in trace["traceEvents"] if e["ph"] == phase and e.get("cat") != "mtprof_memory"
            and "made by" not in e.get("args", {})]


def micro(event):
    return int(event["ts"] * 1000), int((event["ts"] + event["dur"]) * 1000)


class Tests:
    def __init__(self, program, folder, accept):
        self.program, self.folder, self.accept = program, folder, accept
        self.count = self.failed = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, test):
        self.count += 1
        try:
            test()
            print(f"ok {self.count} - {name}", flush=True)
        except Exception as error:          # a test that crashes has failed
            self.failed += 1
            print(f"not ok {self.count} - {name}")
            for line in f"{type(error).__name__}: {error}".splitlines()[:20]:
                print(f"# {line}")
            sys.stdout.flush()

    # ---------------------------------------------------------------------------------------- each file

    def keeps_the_contract(self, name):
        problems = check_trace.check_bytes(check_trace.read(self.path(name)), name in FOREIGN)
        assert not problems, "\n".join(problems)

    def is_as_before(self, name):
        kept = os.path.join(HERE, "chrome", name)
        with open(self.path(name), encoding="utf-8") as file:
            now = file.read()
        if self.accept:
            with open(kept, "w", encoding="utf-8") as file:
                file.write(now)
        with open(kept, encoding="utf-8") as file:
            before = file.read()
        for number, (a, b) in enumerate(zip(before.splitlines(), now.splitlines()), 1):
            assert a == b, f"line {number} was\n{a}\nand is\n{b}"
        assert before == now, "it has another length"

    # ---------------------------------------------------------------------------------------- what they say

    def hostile_names_come_through(self):
        trace = load(self.path("hostile.json"))
        names = []
        with open(self.path("hostile.names"), "rb") as file:
            while head := file.read(4):
                names.append(file.read(struct.unpack("I", head)[0]))
        want = [name.decode("utf-8", "replace") for name in names]
        assert [e["name"] for e in of_phase(trace, "X")] == want
        assert [e["args"]["stack"] for e in of_phase(trace, "X")] == [[w] for w in want]
        assert [e["name"] for e in of_phase(trace, "i")] == want
        threads = {e["args"]["name"] for e in of_phase(trace, "M") if e["name"] == "thread_name"}
        for i, name in enumerate(want):
            assert f"thread {1000 + i} ({name})" in threads, name
        processes = {e["args"]["name"] for e in of_phase(trace, "M") if e["name"] == "process_name"}
        labels = {e["args"]["labels"] for e in of_phase(trace, "M") if e["name"] == "process_labels"}
        for name in want[:-1]:
            assert name in processes and name in labels and name in trace, name

    def no_raw_control_reaches_a_terminal(self):
        text = check_trace.read(self.path("hostile.json")).decode()
        bad = [c for c in text if (ord(c) < 32 and c != "\n") or 0x7f <= ord(c) < 0xa0 or ord(c) in (0x2028, 0x2029)]
        assert not bad, bad[:10]

    def damaged_texts_stay_inside(self):
        trace = load(self.path("damaged_texts.json"))
        assert len(of_phase(trace, "X")) == 6
        assert trace["bad2"] == "nonsense" and trace["empty"] is None and isinstance(trace["deep"], str)
        assert trace["half"] == "\ufffd \ufffd \U0001f600 \\ud800", trace["half"]

    def overlaps_lose_nothing(self):
        for name, count in (("overlaps.json", 4000), ("deep.json", 2000), ("ids.json", 18)):
            trace = load(self.path(name))
            assert len(of_phase(trace, "X")) == count, name
        kernels = [e for e in of_phase(load(self.path("overlaps.json")), "X") if e["cat"] == "kernel"]
        assert {e["args"]["stream"] for e in kernels} == {7} and {e["args"]["device"] for e in kernels} == {1}
        assert len({e["tid"] for e in kernels}) > 1

    def rows_beside_say_whose_they_are(self):
        trace = load(self.path("overlaps.json"))
        lanes = [e for e in of_phase(trace, "M") if "lane_of" in e["args"]]
        assert lanes and {e["args"]["lane_of"] for e in lanes} == {7, 517}
        assert any(e["args"]["name"] == "stream 7 (2)" for e in lanes)
        assert any(e["args"]["name"] == "thread 517 (main) (2)" for e in lanes)

    def whole_microseconds_keep_what_nests(self):
        exact, whole = load(self.path("times.json")), load(self.path("times_whole.json"))
        assert len(of_phase(exact, "X")) == len(of_phase(whole, "X")) == 1500
        assert all(type(e["ts"]) is int for e in whole["traceEvents"])
        assert all(type(e["dur"]) is int for e in of_phase(whole, "X"))
        at = {e["args"]["Ev Idx"]: e for e in of_phase(whole, "X")}
        for e in of_phase(exact, "X"):
            start, end = micro(e)
            w = at[e["args"]["Ev Idx"]]
            assert w["ts"] == start // 1000 and w["ts"] + w["dur"] == end // 1000, (e, w)

    def without_args_there_are_none(self):
        events = load(self.path("small_bare.json"))["traceEvents"]
        assert all(not e.get("args") for e in events if e["ph"] in "Xi")
        assert os.path.getsize(self.path("small_bare.json")) < os.path.getsize(self.path("small.json"))

    def packed_files_hold_the_same(self):
        plain, packed = load(self.path("small.json")), load(self.path("small.json.gz"))
        del plain["traceName"], packed["traceName"]
        assert plain == packed

    # ---------------------------------------------------------------------------------------- a recording

    def a_recording_is_complete(self):
        trace = load(self.path("recorded.json"))
        first, ledger = trace["traceEvents"][0], trace["mtprof"]["ledger"]
        for key in ("name", "ph", "ts", "dur", "pid", "tid"):
            assert key in first, key
        assert first["pid"] == self.pid_of(trace), first
        assert ledger["emitted"] == ledger["kept"] + ledger["dropped"] and ledger["dropped"] == 0
        assert trace["host_name"] and trace["trace_id"] and trace["record_shapes"] == 1
        assert trace["note"] == 'he said "hi"\n'
        labels = [e["args"] for e in of_phase(trace, "M") if e["name"] == "process_labels"]
        assert any(a.get("metadata", {}).get("note") == trace["note"] for a in labels)
        steps = [e for e in of_phase(trace, "X") if e["name"].startswith("ProfilerStep#")]
        assert [e["name"] for e in steps if e["cat"] == "user_annotation"] == ["ProfilerStep#1", "ProfilerStep#2"]
        assert {e["name"] for e in steps if e["cat"] == "gpu_user_annotation"} == {"ProfilerStep#1", "ProfilerStep#2"}

    @staticmethod
    def pid_of(trace):
        return collections.Counter(e["pid"] for e in of_phase(trace, "X") if e["cat"] == "cpu_op").most_common(1)[0][0]

    def a_recording_has_kinetos_args_and_mindtorchs(self):
        trace = load(self.path("recorded.json"))
        ops = [e["args"] for e in of_phase(trace, "X") if e["name"] == "aten::mul"]
        assert len(ops) == 100
        for a in ops:
            assert a["Input Dims"] == a["input_shapes"] == [[8, 16], []] and a["Input type"] == ["float", "Scalar"]
            assert a["Input Strides"] == [[16, 1], []] and a["Concrete Inputs"] == ["", "3"]
            assert a["device_type"] == "NPU" and a["step"] in (1, 2) and a["args"] == 'free "text"'
            assert a["npu_memory_allocated_before"] == 1000 and a["npu_memory_allocated_after"] == 1512
            assert a["npu_memory_allocated_delta"] == 512 and "cpu_memory_allocated_before" not in a
            assert a["Sequence number"] >= 0 and a["Fwd thread id"] == 0
            assert a["stack"] and all(frame.count(":") >= 2 for frame in a["stack"]), a["stack"]
        memory = [e["args"] for e in of_phase(trace, "i") if e["name"] == "[memory]"]
        assert len(memory) == 100 and memory[0]["Bytes"] == 512 and memory[0]["Total Reserved"] == 4096
        assert len(of_phase(trace, "C")) == 100
        ids = [e["args"]["External id"] for e in of_phase(trace, "X") if e["cat"] in ("cpu_op", "user_annotation")]
        assert len(set(ids)) == len(ids)

    def a_recordings_work_leads_back_to_its_op(self):
        trace = load(self.path("recorded.json"))
        ops = {e["args"]["External id"]: e for e in of_phase(trace, "X") if e["cat"] == "cpu_op"}
        kernels = [e for e in of_phase(trace, "X") if e["cat"] == "kernel"]
        launches = {e["args"]["correlation"]: e for e in of_phase(trace, "X") if e["cat"] == "cuda_runtime"}
        assert len(kernels) == len(launches) == 100
        for e in kernels:
            assert ops[e["args"]["External id"]]["name"] == "aten::mul"
            assert launches[e["args"]["correlation"]]["args"]["External id"] == e["args"]["External id"]
        flows = collections.Counter((e["name"], e["ph"]) for e in trace["traceEvents"] if e["ph"] in "stf")
        assert flows[("ac2g", "s")] == flows[("ac2g", "f")] == 100, flows
        assert flows[("fwdbwd", "s")] == flows[("fwdbwd", "f")] > 0, flows

    # ---------------------------------------------------------------------------------------- torch's traces

    def comes_back(self, path):
        out = self.path("trip.json")
        done = subprocess.run([self.program, "--round-trip", path, out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        problems = check_trace.check_bytes(check_trace.read(out), True)
        assert not problems, "\n".join(problems)
        before, after = load(path), load(out)

        def kinds(trace):
            return collections.Counter((e["ph"], e.get("cat")) for e in trace["traceEvents"]
                                       if e["ph"] != "M" and e.get("cat") != "mtprof_memory")
        assert kinds(before) == kinds(after), (kinds(before), kinds(after))
        moved = (min(e["ts"] for e in of_phase(before, "X")) - min(e["ts"] for e in of_phase(after, "X"))) * 1000
        assert before["baseTimeNanoseconds"] + moved == after["baseTimeNanoseconds"]

    def makes_torchs_flows(self, path):
        """Flows are discarded and recreated: everything that torch links is linked (torch omits flows whose spans it lost)."""
        out = self.path("flows_anew.json")
        done = subprocess.run([self.program, "--flows", path, out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        before, after = load(path), load(out)
        for name in ("fwdbwd", "ac2g"):
            assert self.pairs(before, name) == self.pairs(after, name), name

    @staticmethod
    def pairs(trace, name):
        """(start time, end time) of each flow that has both, relative to the first event."""
        zero = min(e["ts"] for e in of_phase(trace, "X") if e["cat"] != "Trace")
        starts, found = {}, set()
        for e in of_phase(trace, "s"):
            if e["name"] == name:
                starts[e["id"]] = e["ts"]
        for e in of_phase(trace, "f"):
            if e["name"] == name and e["id"] in starts:
                found.add((starts[e["id"]] - zero, e["ts"] - zero))
        return found


def main(args):
    program = next((a for a in args if not a.startswith("--")), None)
    if program is None:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(os.path.abspath(program), folder, "--accept" in args)
        subprocess.run([t.program, "--write", folder], check=True)
        for path in sorted(glob.glob(os.path.join(folder, "*.json*"))):
            name = os.path.basename(path)
            t.run(f"{name.replace('.', '_')}_keeps_the_contract", lambda: t.keeps_the_contract(name))
        for name in GOLDEN:
            t.run(f"{name.replace('.', '_')}_is_as_before", lambda: t.is_as_before(name))
        for test in (t.hostile_names_come_through, t.no_raw_control_reaches_a_terminal, t.damaged_texts_stay_inside,
                     t.overlaps_lose_nothing, t.rows_beside_say_whose_they_are, t.whole_microseconds_keep_what_nests,
                     t.without_args_there_are_none, t.packed_files_hold_the_same, t.a_recording_is_complete,
                     t.a_recording_has_kinetos_args_and_mindtorchs, t.a_recordings_work_leads_back_to_its_op):
            t.run(test.__name__, test)
        for name in ("recorded", "overlaps", "deep", "ids", "hostile", "small", "names"):
            t.run(f"{name}_comes_back_as_it_was", lambda: t.comes_back(t.path(name + ".json")))
        for path in TORCH:
            name = os.path.basename(path).split(".")[0]
            t.run(f"{name}_comes_back_as_it_was", lambda: t.comes_back(path))
            t.run(f"{name}_has_the_flows_that_torch_made", lambda: t.makes_torchs_flows(path))
        print(f"1..{t.count}")
    return int(t.failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
