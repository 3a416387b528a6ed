"""Programs that others wrote read what we write: HTA and torch-tb-profiler, where they are installed.

readers.py beside this installs them where it can, and runs this:

    TEST_CHROME=build/tests/test_chrome build/readers/bin/python -m pytest tests/golden/test_readers.py

Traces are those of tests/unit/test_chrome.c; what a reader finds is compared with Python's json.
"""
import collections
import glob
import json
import logging
import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import check_trace  # noqa: E402

REAL = [p for p in sorted(glob.glob(os.path.join(HERE, "torch", "cuda_*.json.gz"))) if ".gold." not in p]


def program():
    places = [os.environ.get("TEST_CHROME", "")] + sorted(glob.glob(os.path.join(ROOT, "build*", "tests", "test_chrome")))
    for place in places:
        if place and os.access(place, os.X_OK):
            return os.path.abspath(place)
    pytest.skip("tests/test_chrome is not built (meson test chrome builds it)")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    subprocess.run([program(), "--write", str(folder)], check=True)
    for path in REAL:       # torch's own, after they went through us
        out = folder / os.path.basename(path).replace(".json.gz", "_again.json")
        subprocess.run([program(), "--round-trip", path, str(out)], check=True)
    return folder


def events(path, phase="X"):
    return [e for e in json.loads(check_trace.read(path))["traceEvents"] if e["ph"] == phase]


def by_name(found, cat):
    return collections.Counter(e["name"] for e in found if e["cat"] == cat)


NAMES = ["recorded.json", "recorded_whole.json", "recorded.json.gz"] + \
        [os.path.basename(p).replace(".json.gz", "_again.json") for p in REAL]


# ------------------------------------------------------------------------------------------------- HTA

def hta_trace(traces, tmp_path, name):
    analysis = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed")
    logging.getLogger("hta").setLevel(logging.ERROR)
    shutil.copy(traces / name, tmp_path / name)
    return analysis.TraceAnalysis(trace_dir=str(tmp_path), include_last_profiler_step=True)


@pytest.mark.parametrize("name", NAMES)
def test_hta_finds_the_same_events(traces, tmp_path, name):
    hta = hta_trace(traces, tmp_path, name)
    rank = next(iter(hta.t.traces))
    frame, symbols = hta.t.get_trace(rank), hta.t.symbol_table.get_sym_table()
    ours = events(traces / name)
    found = collections.Counter(symbols[i] for i in frame["cat"])
    for cat in ("kernel", "gpu_memcpy", "cuda_runtime"):
        assert found[cat] == sum(e["cat"] == cat for e in ours), cat
    if name.startswith("recorded"):
        assert rank == 0
        for cat in ("cpu_op", "user_annotation"):
            assert found[cat] == sum(e["cat"] == cat for e in ours), cat


@pytest.mark.parametrize("name", ["recorded_whole.json"])
def test_hta_measures_the_same_kernel_time(traces, tmp_path, name):
    hta = hta_trace(traces, tmp_path, name)
    frame = hta.t.get_trace(0)
    symbols = hta.t.symbol_table.get_sym_table()
    kernels = frame[[symbols[i] == "kernel" for i in frame["cat"]]]
    assert kernels["dur"].sum() == sum(e["dur"] for e in events(traces / name) if e["cat"] == "kernel")
    breakdown = hta.get_temporal_breakdown(visualize=False)
    assert float(breakdown["compute_time_pctg"].iloc[0]) > 0


def test_hta_finds_no_launch_without_its_kernel(traces, tmp_path):
    hta = hta_trace(traces, tmp_path, "recorded.json")
    frame = hta.t.get_trace(0)
    symbols = hta.t.symbol_table.get_sym_table()
    launches = frame[[symbols[i] == "cuda_runtime" for i in frame["cat"]]]
    assert len(launches) == 100 and (launches["index_correlation"] > 0).all()


# --------------------------------------------------------------------------------------- torch-tb-profiler

@pytest.mark.parametrize("name", NAMES)
def test_tensorboard_shows_every_view(traces, tmp_path, name):
    pytest.importorskip("torch_tb_profiler", reason="torch-tb-profiler is not installed")
    data_module = pytest.importorskip("torch_tb_profiler.profiler.data")
    generator = pytest.importorskip("torch_tb_profiler.profiler.run_generator")
    logging.disable(logging.WARNING)        # it mentions each kernel whose device is 0
    path = traces / name
    data = data_module.RunProfileData.parse("worker", "1", str(path), str(tmp_path))
    profile = generator.RunGenerator("worker", "1", data).generate_run_profile()
    ours = events(path)
    views = {view.display_name for view in profile.views}
    assert {"Overview", "Trace"} <= views and "Kernel" in views
    kernels = by_name(ours, "kernel")
    assert {name: int(row["count"]) for name, row in data.kernel_stat.iterrows()} == dict(kernels)
    if name == "recorded.json":
        operators = {op.name: op.calls for op in data.op_list_groupby_name}
        assert operators == {"aten::mul": 100, "MulBackward0": 100}
        # it takes a step's span on a device for a step, too: of PyTorch's own traces as of ours
        assert list(dict.fromkeys(data.steps_names)) == ["1", "2"]
