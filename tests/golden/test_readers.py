"""Third-party programs read what we write: HTA, torch-tb-profiler, TraceLens and Chakra, if installed.

readers.py, beside this file, installs those that are on PyPI and runs this:

    TEST_CHROME=build/tests/test_chrome build/readers/bin/python -m pytest tests/golden/test_readers.py

Traces are those of tests/unit/test_chrome.c, those of our runtime on cpu and npu (live_trace.py), and PyTorch's own after
a round trip. A reader's results are compared with Python's json, with `mtprof stats`, and, for PyTorch's traces, with
the same reader's results for PyTorch's file.
"""
import collections
import glob
import gzip
import inspect
import json
import logging
import os
import re
import shutil
import subprocess
import sys

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # HTA rounds times to microseconds, which makes short spans negative
import pytest  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import check_trace  # noqa: E402

REAL = [p for p in sorted(glob.glob(os.path.join(HERE, "torch", "cuda_*.json.gz"))) if ".gold." not in p]
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def program(name="test_chrome"):
    places = [os.environ.get("TEST_CHROME", "")] + sorted(glob.glob(os.path.join(ROOT, "build*", "tests", "test_chrome")))
    for place in places:
        if place and os.access(place, os.X_OK):
            place = os.path.abspath(place)
            return place if name == "test_chrome" else os.path.join(os.path.dirname(os.path.dirname(place)), name)
    pytest.skip("tests/test_chrome is not built (meson test chrome builds it)")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    subprocess.run([program(), "--write", str(folder)], check=True)
    for path in REAL:       # torch's own, after a round trip
        name = os.path.basename(path).replace(".json.gz", "")
        subprocess.run([program(), "--round-trip", path, str(folder / f"{name}_again.json")], check=True)
        with gzip.open(path) as file:
            (folder / f"{name}.json").write_bytes(file.read())
    return folder


@pytest.fixture(scope="module")
def live(traces):
    """Traces of our runtime by name; npu_again is npu after a round trip."""
    def get(name):
        path = traces / f"{name}.json"
        if path.exists():
            return path
        if name.endswith("_again"):
            subprocess.run([program("mtprof"), "export", get(name.removesuffix("_again")), "-o", path], check=True)
            return path
        done = subprocess.run([sys.executable, os.path.join(HERE, "live_trace.py"), name, path], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "src")})
        if done.returncode == 77:
            pytest.skip(done.stdout.strip())
        assert done.returncode == 0, done.stderr
        return path
    return get


def load(path):
    return json.loads(check_trace.read(path))


def events(path, phase="X"):
    return [e for e in load(path)["traceEvents"] if e["ph"] == phase and e.get("cat") != "Trace"]


def by_name(found, cat):
    return collections.Counter(e["name"] for e in found if e["cat"] == cat)


def stats(path):
    """`mtprof stats`, by name."""
    done = subprocess.run([program("mtprof"), "stats", "--json", str(path)], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    return {row["key"]: row for row in (rows["rows"] if isinstance(rows, dict) else rows)}


NAMES = ["recorded.json", "recorded_whole.json", "recorded.json.gz"] + \
        [os.path.basename(p).replace(".json.gz", "_again.json") for p in REAL]
LIVE = ["npu", "npu_again"]


# ------------------------------------------------------------------------------------------------- HTA

def hta_trace(path, tmp_path):
    analysis = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed")
    logging.disable(logging.CRITICAL)
    tmp_path.mkdir(exist_ok=True)
    shutil.copy(path, tmp_path / os.path.basename(path))
    return analysis.TraceAnalysis(trace_dir=str(tmp_path), include_last_profiler_step=True)


def hta_calls(hta, folder, step):
    """Every analysis of HTA, by name."""
    rank = next(iter(hta.t.traces))

    def critical_path():
        """Of a step: its CPU annotation is the first event of that name."""
        graph, good = hta.critical_path_analysis(rank, annotation=step, instance_id=0)
        assert good
        return graph

    def overlay():
        return hta.overlay_critical_path_analysis(rank, critical_path(), output_dir=str(folder))

    return {
        "get_comm_comp_overlap": lambda: hta.get_comm_comp_overlap(visualize=False),
        "get_profiler_steps": hta.get_profiler_steps,
        "get_potential_stragglers": lambda: hta.get_potential_stragglers(profiler_steps=hta.get_profiler_steps()),
        "get_gpu_kernel_breakdown": lambda: hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000),
        "get_gpu_kernels_with_user_annotations": lambda: hta.get_gpu_kernels_with_user_annotations(rank),
        "get_gpu_user_annotation_breakdown": lambda: hta.get_gpu_user_annotation_breakdown(visualize=False),
        "get_temporal_breakdown": lambda: hta.get_temporal_breakdown(visualize=False),
        "get_frequent_cuda_kernel_sequences": lambda: hta.get_frequent_cuda_kernel_sequences(
            operator_name="aten::", output_dir=str(folder), visualize=False),
        "get_aten_op_kernels_and_delay": lambda: hta.get_aten_op_kernels_and_delay(ranks=[rank]),
        "get_cuda_kernel_launch_stats": lambda: hta.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False),
        "generate_trace_with_counters": lambda: hta.generate_trace_with_counters(ranks=[rank]),
        "get_queue_length_summary": lambda: hta.get_queue_length_summary(ranks=[rank]),
        "get_queue_length_summary_from_time_series": lambda: hta.get_queue_length_summary_from_time_series(
            hta.get_queue_length_time_series(ranks=[rank])),
        "get_queue_length_time_series": lambda: hta.get_queue_length_time_series(ranks=[rank]),
        "get_time_spent_blocked_on_full_queue": lambda: hta.get_time_spent_blocked_on_full_queue(
            hta.get_queue_length_time_series(ranks=[rank]), max_queue_length=1),
        "get_memory_bw_summary": lambda: hta.get_memory_bw_summary(ranks=[rank]),
        "get_memory_bw_time_series": lambda: hta.get_memory_bw_time_series(ranks=[rank]),
        "get_idle_time_breakdown": lambda: hta.get_idle_time_breakdown(ranks=[rank], visualize=False, show_idle_interval_stats=True),
        "get_cupti_counter_data_with_operators": lambda: hta.get_cupti_counter_data_with_operators(ranks=[rank]),
        "critical_path_analysis": critical_path,
        "overlay_critical_path_analysis": overlay,
    }


def of_kernels(row, part):
    return 100 * row[part] / row["kernel_us"]


def same_as_hta(analysis, found):
    """`mtprof ranks` and HTA agree to 0.1 % of the time."""
    breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")["comp_comm_overlap_pctg"]
    for rank in found["ranks"]:
        theirs, ours = breakdown.loc[rank["rank"]], rank["device"]
        assert abs(theirs["idle_time_pctg"] - of_kernels(ours, "idle_us")) < 0.1
        assert abs(theirs["compute_time_pctg"] - of_kernels(ours, "compute_us")) < 0.1
        assert abs(theirs["non_compute_time_pctg"] - of_kernels(ours, "non_compute_us")) < 0.1
        if rank["overlap"] is not None:
            assert abs(overlap.loc[rank["rank"]] - 100 * rank["overlap"]) < 0.1


@pytest.mark.parametrize("path", REAL, ids=os.path.basename)
def test_hta_finds_the_same_idle_and_compute_times_in_pytorchs_traces(path, tmp_path):
    analysis = hta_trace(path, tmp_path / "one")
    found = json.loads(subprocess.run([program("mtprof"), "ranks", "--json", path], check=True, capture_output=True).stdout)
    if analysis.get_temporal_breakdown(visualize=False)["kernel_time(us)"][0] < 100:
        pytest.skip("HTA cuts times to microseconds, and there are only a few")
    same_as_hta(analysis, found)


def test_hta_finds_the_same_overlap_and_idle_times_in_ranks(tmp_path):
    analysis = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed")
    subprocess.run([sys.executable, os.path.join(ROOT, "bench", "make_ranks.py"), str(tmp_path / "made"), "--ranks", "4", "--events", "20000",
                    "--straggler", "2", "--steps", "15", "--since", "5", "--jobs", "1"], check=True, capture_output=True)
    found = json.loads(subprocess.run([program("mtprof"), "ranks", "--json", str(tmp_path / "made")], check=True,
                                      capture_output=True).stdout)
    assert len(found["ranks"]) == 4 and all(0.2 < rank["overlap"] < 1 for rank in found["ranks"])
    same_as_hta(analysis.TraceAnalysis(trace_files={rank["rank"]: rank["file"] for rank in found["ranks"]}, trace_dir="/",
                                       include_last_profiler_step=True), found)


def test_hta_finds_the_same_overlap_and_idle_times_in_real_nccl_ranks(tmp_path):
    analysis = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed")
    found = json.loads(subprocess.run([program("mtprof"), "ranks", "--json", *(os.path.join(HERE, "ranks", f"nccl{r}.json.gz") for r in range(4))],
                                      check=True, capture_output=True).stdout)
    assert len(found["ranks"]) == 4
    same_as_hta(analysis.TraceAnalysis(trace_files={rank["rank"]: rank["file"] for rank in found["ranks"]}, trace_dir="/",
                                       include_last_profiler_step=True), found)


# These need several processes, communication or CUPTI's counters: PyTorch's own traces lack them, too.
NEEDS_MORE = {"get_potential_stragglers", "get_cupti_counter_data_with_operators"}


def outcome(call):
    """The result of an analysis in comparable form: rows without positions in the file, or the error. PyTorch's times are too
    large for a double to hold their nanoseconds."""
    import numpy
    import pandas

    def plain(value):
        if isinstance(value, (tuple, list)):
            return [plain(v) for v in value]
        if isinstance(value, dict):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, pandas.DataFrame):
            frame = value.reset_index(drop=True)
            keep = [c for c in frame.columns if str(c) not in (
                "pid", "index", "cat", "name", "ts", "index_correlation", "python_id", "parent", "end", "iteration", "External id",
                "ev_idx", "python_parent_id", "python_module_id", "depth", "num_kernels", "user_annotation")]
            rows = [tuple(float(v) if isinstance(v, (float, numpy.floating)) and v == v else str(v) for v in row)
                    for row in frame[keep].itertuples(index=False)]
            return sorted(rows, key=lambda row: ([c for c in row if isinstance(c, str)], [c for c in row if isinstance(c, float)]))
        if isinstance(value, (float, numpy.floating)):
            return float(value)
        return str(value) if isinstance(value, (str, int, numpy.integer)) or value is None else type(value).__name__
    try:
        return plain(call())
    except Exception as error:
        return f"{type(error).__name__}"


def test_every_analysis_of_hta_is_tried(traces, tmp_path):
    hta = hta_trace(traces / "recorded.json", tmp_path / "hta")
    there = {name for name, value in inspect.getmembers(hta, callable) if not name.startswith("_")}
    assert there == set(hta_calls(hta, tmp_path, "ProfilerStep#1"))


@pytest.mark.parametrize("name", LIVE + ["recorded"])
def test_every_analysis_of_hta_finds_something(traces, live, tmp_path, name):
    path = traces / "recorded.json" if name == "recorded" else live(name)
    hta = hta_trace(path, tmp_path / "hta")
    for analysis, call in hta_calls(hta, tmp_path, "ProfilerStep#2").items():
        if analysis in NEEDS_MORE or (name == "recorded" and "memory_bw" in analysis):  # it has no copies
            continue
        found = call()
        found = found[0] if isinstance(found, tuple) else found
        found = next(iter(found.values())) if isinstance(found, dict) else found
        if analysis not in ("generate_trace_with_counters", "get_frequent_cuda_kernel_sequences"):
            assert found is not None and (not hasattr(found, "__len__") or len(found) > 0), analysis


@pytest.mark.parametrize("path", REAL, ids=lambda p: os.path.basename(p).split(".")[0])
def test_hta_finds_in_torchs_traces_what_it_found_before(traces, tmp_path, path):
    name = os.path.basename(path).split(".")[0]
    frames = [hta_trace(traces / f"{n}.json", tmp_path / n) for n in (name, f"{name}_again")]
    before, after = (hta_calls(hta, tmp_path / n, "ProfilerStep#1") for hta, n in zip(frames, (name, f"{name}_again")))
    # These depend on the order of events in the file, which is arbitrary in Kineto's.
    for analysis in before.keys() - {"get_frequent_cuda_kernel_sequences", "overlay_critical_path_analysis", "critical_path_analysis"}:
        assert near(outcome(before[analysis]), outcome(after[analysis])), analysis


@pytest.mark.parametrize("name", LIVE)
def test_hta_measures_what_mtprof_stats_says(live, tmp_path, name):
    path = live(name)
    hta, rows, ours = hta_trace(path, tmp_path / "hta"), stats(path), events(path)
    kernels = hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)[1]
    found = {row["name"]: row["sum (us)"] for _, row in kernels.iterrows()}
    assert found.keys() == {e["name"] for e in ours if e["cat"] in WORK}
    for kernel, total in found.items():
        assert total == pytest.approx(rows[kernel]["self_device_time_total"], abs=0.01), kernel
    launches = hta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    assert len(launches) == sum(e["cat"] in WORK for e in ours)
    annotated = hta.get_gpu_user_annotation_breakdown(visualize=False)
    forward = annotated[annotated["name"] == "forward"]["sum (us)"].iloc[0]
    assert forward == pytest.approx(sum(e["dur"] for e in ours if e["cat"] == "gpu_user_annotation" and e["name"] == "forward"), abs=0.01)
    whole = hta.get_temporal_breakdown(visualize=False).iloc[0]
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in ours if e["cat"] in WORK]
    assert whole["kernel_time(us)"] == pytest.approx(max(b for _, b in spans) - min(a for a, _ in spans), abs=0.01)
    assert whole["idle_time(us)"] == pytest.approx(whole["kernel_time(us)"] - busy(spans), abs=0.01)  # annotations are not work
    assert list(hta.get_profiler_steps()) == [2, 3, 4]


def busy(spans):
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def test_hta_says_of_our_cpu_traces_what_it_says_of_torchs(live, traces, tmp_path):
    torchs = tmp_path / "torch.json"
    with gzip.open(os.path.join(HERE, "torch", "cpu_autograd.json.gz")) as file:
        torchs.write_bytes(file.read())
    ours = hta_calls(hta_trace(live("cpu"), tmp_path / "ours"), tmp_path, "ProfilerStep#2")
    theirs = hta_calls(hta_trace(torchs, tmp_path / "theirs"), tmp_path, "ProfilerStep#2")
    for analysis in ours:       # most need a device, and fail in various ways without one
        here, there = outcome(ours[analysis]), outcome(theirs[analysis])
        assert here == there or not str(here).endswith("Error"), (analysis, here, there)


@pytest.mark.parametrize("name", LIVE)
def test_hta_compares_two_of_our_traces(live, tmp_path, name):
    diff = pytest.importorskip("hta.trace_diff", reason="HolisticTraceAnalysis is not installed").TraceDiff
    one, two = hta_trace(live("npu"), tmp_path / "one").t, hta_trace(live(name), tmp_path / "two").t
    from hta.trace_diff import DeviceType
    for device in (DeviceType.CPU, DeviceType.GPU):
        table = diff.compare_traces(one, two, device_type=device)
        assert len(table) > 0 and (table["diff_counts"] == 0).all()
        assert not any(diff.ops_diff(one, two, device_type=device)[kind] for kind in ("added", "deleted", "increased", "decreased"))


@pytest.mark.parametrize("name", NAMES)
def test_hta_finds_the_same_events(traces, tmp_path, name):
    hta = hta_trace(traces / name, tmp_path)
    rank = next(iter(hta.t.traces))
    frame, symbols = hta.t.get_trace(rank), hta.t.symbol_table.get_sym_table()
    ours = events(traces / name)
    found = collections.Counter(symbols[i] for i in frame["cat"])
    for cat in ("kernel", "gpu_memcpy", "cuda_runtime", "gpu_user_annotation"):
        assert found[cat] == sum(e["cat"] == cat for e in ours), cat
    if name.startswith("recorded"):
        assert rank == 0
        for cat in ("cpu_op", "user_annotation"):
            assert found[cat] == sum(e["cat"] == cat for e in ours), cat


@pytest.mark.parametrize("name", ["recorded.json", "recorded_whole.json"])
def test_hta_measures_the_same_kernel_time(traces, tmp_path, name):
    hta = hta_trace(traces / name, tmp_path)
    frame = hta.t.get_trace(0)
    symbols = hta.t.symbol_table.get_sym_table()
    kernels = frame[[symbols[i] == "kernel" for i in frame["cat"]]]
    assert kernels["dur"].sum() == pytest.approx(sum(e["dur"] for e in events(traces / name) if e["cat"] == "kernel"))


def test_hta_finds_no_launch_without_its_kernel(traces, tmp_path):
    hta = hta_trace(traces / "recorded.json", tmp_path)
    frame = hta.t.get_trace(0)
    symbols = hta.t.symbol_table.get_sym_table()
    launches = frame[[symbols[i] == "cuda_runtime" for i in frame["cat"]]]
    assert len(launches) == 100 and (launches["index_correlation"] > 0).all()


# --------------------------------------------------------------------------------------- torch-tb-profiler

def tensorboard(path, folder):
    pytest.importorskip("torch_tb_profiler", reason="torch-tb-profiler is not installed")
    data_module = pytest.importorskip("torch_tb_profiler.profiler.data")
    generator = pytest.importorskip("torch_tb_profiler.profiler.run_generator")
    logging.disable(logging.WARNING)        # it logs each kernel on device 0
    data = data_module.RunProfileData.parse("worker", "1", str(path), str(folder))
    return data, generator.RunGenerator("worker", "1", data).generate_run_profile()


@pytest.mark.parametrize("name", NAMES)
def test_tensorboard_shows_every_view(traces, tmp_path, name):
    path = traces / name
    data, profile = tensorboard(path, tmp_path)
    ours = events(path)
    views = {view.display_name for view in profile.views}
    assert {"Overview", "Trace"} <= views and "Kernel" in views
    kernels = by_name(ours, "kernel")
    assert {name: int(row["count"]) for name, row in data.kernel_stat.iterrows()} == dict(kernels)
    if name == "recorded.json":
        operators = {op.name: op.calls for op in data.op_list_groupby_name}
        assert operators == {"aten::mul": 100, "MulBackward0": 100}
        # it counts a step's span on a device as a step, too: in PyTorch's own traces as in ours
        assert list(dict.fromkeys(data.steps_names)) == ["1", "2"]


@pytest.mark.parametrize("name", ["cpu", *LIVE])
def test_tensorboard_shows_our_runtime_in_every_view(live, tmp_path, name):
    path = live(name)
    data, profile = tensorboard(path, tmp_path)
    ours, rows = events(path), stats(path)
    views = {"Overview", "Operator", "Trace", "Memory", "Module"} | ({"Kernel"} if name != "cpu" else set())
    assert {view.display_name for view in profile.views} == views
    assert {op.name: op.calls for op in data.op_list_groupby_name} == by_name(ours, "cpu_op")
    for op in data.op_list_groupby_name:
        assert op.host_duration == pytest.approx(rows[op.name]["cpu_time_total"], abs=0.05), op.name
    stacks = profile.operation_stack_by_name["aten::addmm"]["data"]
    assert stacks and all("live_trace.py(" in row["call_stack"] and "): step;" in row["call_stack"] for row in stacks)
    assert sum(row["calls"] for row in stacks) == sum(e["name"] == "aten::addmm" and "stack" in e["args"] for e in ours)
    assert {stat.name for stat in profile.module_stats} == {"Sequential_0"}
    memory = [e for e in load(path)["traceEvents"] if e["name"] == "[memory]"]
    assert sum(len(records) for records in data.memory_snapshot.memory_records_by_device().values()) == len(memory) \
        if hasattr(data.memory_snapshot, "memory_records_by_device") else data.memory_snapshot is not None
    if name != "cpu":
        for kernel, row in data.kernel_stat.iterrows():
            assert row["sum"] == pytest.approx(rows[kernel]["self_device_time_total"], abs=0.01), kernel


@pytest.mark.parametrize("path", REAL, ids=lambda p: os.path.basename(p).split(".")[0])
def test_tensorboard_shows_of_torchs_traces_what_it_showed_before(traces, tmp_path, path):
    name = os.path.basename(path).split(".")[0]
    (_, before), (_, after) = (tensorboard(traces / f"{n}.json", tmp_path) for n in (name, f"{name}_again"))
    for what, value in vars(before).items():
        if isinstance(value, (dict, list, str, bool)) and what not in ("tid2tree", "pl_tid2tree", "gpu_metrics", "trace_file_path"):
            assert near(value, getattr(after, what)), what


def near(one, two):
    """Equal except for the last digits; rows of equal value may be in any order."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(near(one[k], two[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and (all(map(near, one, two)) or
                                         all(map(near, sorted(one, key=rough), sorted(two, key=rough))))
    return one == pytest.approx(two, abs=0.02, rel=1e-4) if isinstance(one, float) else one == two or rough(one) == rough(two)


def rough(value):
    return re.sub(r"\d+\.\d+", lambda m: f"{float(m.group()):.1f}", str(value)).rstrip(";")


# ------------------------------------------------------------------------------------- TraceLens and Chakra
#
# Neither is on PyPI (the "tracelens" there is a different program). They are run if installed; in any case our traces are
# checked against the rules that they rely on, restated here.

KNOWN_LAUNCHES = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"}
LINKED = LIVE + ["recorded", "cuda_gpt_again", "cuda_streams_again", "cuda_plain_again"]


def linked_trace(traces, live, name):
    return live(name) if name in LIVE else traces / f"{name}.json"


@pytest.mark.parametrize("name", LINKED)
def test_each_kernel_is_under_its_launch_and_op(traces, live, name):
    """TraceLens: the first call with "launch" in its name determines that correlations link; from a runtime call, the ac2g flow
    of its correlation leads to the row and correlation of the work; a call is inside its op, on the same row. Chakra: launches
    have these names, unique correlations, and the External ids of their ops."""
    path = linked_trace(traces, live, name)
    everything = load(path)["traceEvents"]
    calls = [e for e in everything if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    assert "correlation" in next(e for e in calls if "launch" in e["name"].lower())["args"]
    starts = {e["id"]: e for e in everything if e.get("cat") == "ac2g" and e["ph"] == "s"}
    ends = {e["id"]: e for e in everything if e.get("cat") == "ac2g" and e["ph"] == "f"}
    work = {(e["pid"], e["tid"], e["args"]["correlation"]): e for e in everything if e.get("cat") in WORK}
    by_correlation = collections.Counter(e["args"]["correlation"] for e in calls)
    assert max(by_correlation.values()) == 1
    ops = collections.defaultdict(list)
    for e in everything:
        if e.get("cat") == "cpu_op":
            ops[e["pid"], e["tid"]].append(e)
    found = 0
    for call in calls:
        id = call["args"]["correlation"]
        if id not in starts or id not in ends:
            continue
        child = work.get((ends[id]["pid"], ends[id]["tid"], id))
        if child is None:
            continue
        found += 1
        assert call["name"] in KNOWN_LAUNCHES, call
        assert child["args"]["stream"] > 0 and child["args"].get("External id") == call["args"].get("External id"), (call, child)
        around = [e for e in ops[call["pid"], call["tid"]] if e["ts"] <= call["ts"] and call["ts"] + call["dur"] <= e["ts"] + e["dur"] + 0.001]
        assert around or name.startswith("cuda_"), call     # PyTorch's own also launch outside ops
        assert not around or max(around, key=lambda e: e["ts"])["args"]["External id"] == call["args"]["External id"], call
    assert found == sum(e.get("cat") in WORK for e in everything)


@pytest.mark.parametrize("name", LINKED)
def test_tracelens_links_all_device_time(traces, live, name):
    trees = pytest.importorskip("TraceLens.Trace2Tree.trace_to_tree", reason="TraceLens is not installed")
    analyser = pytest.importorskip("TraceLens.TreePerf.gpu_event_analyser")
    path = linked_trace(traces, live, name)
    everything = [e for e in load(path)["traceEvents"] if e["ph"] != "M"]
    tree = trees.TraceToTree(everything)
    tree.build_tree()
    work = [e for e in tree.events if e.get("cat") in WORK]
    for e in work:
        call = tree.get_parent_event(e)
        assert call is not None and tree.get_parent_event(call)["cat"] == "cpu_op", e
    metrics = analyser.GPUEventAnalyser(tree.events).compute_metrics()
    assert metrics["busy_time"] == pytest.approx(busy([(e["ts"], e["ts"] + e["dur"]) for e in work]), abs=0.01)


@pytest.mark.parametrize("name", ["npu", "cpu"])
def test_the_execution_trace_has_the_ids_of_the_trace(traces, live, name, tmp_path):
    """Chakra joins a node to the event whose Record function id is its rf_id."""
    path, nodes = live(name), tmp_path / "nodes.et.json"
    subprocess.run([program("mtprof"), "export", path, "-o", nodes], check=True)
    ops = {e["args"]["Record function id"]: e["name"] for e in events(path) if e["cat"] in ("cpu_op", "user_annotation")}
    trace = json.loads(nodes.read_text())
    found = {}
    for node in trace["nodes"]:
        attrs = {a["name"]: a["value"] for a in node["attrs"]}
        if not node["name"].startswith("[pytorch|"):
            found[attrs["rf_id"]] = node["name"]
    assert found == ops


@pytest.mark.parametrize("name", ["npu", "cpu"])
def test_hta_joins_the_execution_trace(live, name, tmp_path, monkeypatch):
    """By et_replay, which reads execution traces for Chakra, too, and comes with HTA."""
    param_bench = pytest.importorskip("param_bench", reason="HolisticTraceAnalysis is not installed")
    monkeypatch.syspath_prepend(list(param_bench.__path__)[0])
    joining = pytest.importorskip("hta.common.execution_trace")
    path, nodes = live(name), tmp_path / "nodes.et.json"
    subprocess.run([program("mtprof"), "export", path, "-o", nodes], check=True)
    hta, trace = hta_trace(path, tmp_path / "hta"), joining.load_execution_trace(str(nodes))
    joining.correlate_execution_trace(hta.t, 0, trace)
    frame, symbols = hta.t.get_trace(0), hta.t.symbol_table.get_sym_table()
    joined = frame[frame["et_node"].notna()]
    ops = [e["name"] for e in events(path) if e["cat"] in ("cpu_op", "user_annotation")]
    assert [symbols[i] for i in joined["name"]] == [trace.nodes[int(i)].name for i in joined["et_node"]]
    assert collections.Counter(symbols[i] for i in joined["name"]) == collections.Counter(ops)


@pytest.mark.parametrize("name", ["npu"])
def test_chakra_links_and_converts(live, name, tmp_path):
    linker = pytest.importorskip("chakra.src.trace_link.trace_linker", reason="chakra is not installed")
    converter = pytest.importorskip("chakra.src.converter.pytorch_converter")
    path, host, both = live(name), tmp_path / "host.et.json", tmp_path / "linked.json"
    subprocess.run([program("mtprof"), "export", path, "-o", host], check=True)
    linker.TraceLinker().link(0, str(host), str(path), str(both))
    linked = {node["name"] for node in json.loads(both.read_text())["nodes"]}
    assert {e["name"] for e in events(path) if e["cat"] in ("kernel", "gpu_memcpy")} <= linked
    converter.PyTorchConverter().convert(str(both), str(tmp_path / "chakra.et"), simulate=False)
    assert os.path.getsize(tmp_path / "chakra.et") > 0
