"""mtprof explain names the fault that was planted in a program first, and is silent about healthy ones.

Machines that run tests are busy, and a step may take ten times as long as usual: a program is recorded again, up to ATTEMPTS times.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(__file__).with_name("planted.py")
ATTEMPTS = 5


def command():
    """The command that was built; in a test of another build, MTPROF names it."""
    path = pathlib.Path(os.environ.get("MTPROF", ROOT / "build" / "mtprof"))
    if not path.exists():
        pytest.skip(f"{path} was not built")
    return path


def recorded(fault, framework, folder):
    out = folder / "trace.json"
    subprocess.run([sys.executable, PROGRAM, fault, framework, out], check=True, timeout=300, capture_output=True)
    return out


def explained(trace):
    return json.loads(subprocess.run([command(), "explain", "--json", trace], check=True, capture_output=True).stdout)["findings"]


def first_of(fault, framework, folder, *ids):
    """The first finding that is one of these ids, once one is."""
    for _ in range(ATTEMPTS):
        found = explained(recorded(fault, framework, folder))
        if found and found[0]["id"] in ids:
            return found[0]
    raise AssertionError(f"{fault}: none of {ids} is first of {[(f['id'], f['gain_us']) for f in found]}")


FAULTS = [("loader", "data-loading"), ("leak", "memory-growth"), ("outlier", "outlier-steps"), ("cast", "casts"),
          ("layout", "layout-copies"), ("pause", "host-idle")]


@pytest.mark.parametrize("framework", ["mindtorch_v2", "torch"])
@pytest.mark.parametrize(("fault", "name"), FAULTS)
def test_the_planted_fault_comes_first(fault, name, framework, tmp_path):
    pytest.importorskip(framework)
    found = first_of(fault, framework, tmp_path, name)
    lines = " ".join(e["name"] + e["source"] for e in found["evidence"])
    if fault in ("cast", "layout", "pause"):  # stacks lead to the line
        assert "planted.py" in lines, lines


def test_reading_a_result_in_each_step_is_named_with_its_line(tmp_path):
    torch = pytest.importorskip("mindtorch_v2")
    if not torch.npu.is_available():
        pytest.skip("no accelerator")
    found = first_of("sync", "mindtorch_v2", tmp_path, "synchronisation")
    assert "planted.py" in found["evidence"][0]["source"], found


def test_many_tiny_kernels_are_named(tmp_path):
    torch = pytest.importorskip("mindtorch_v2")
    if not torch.npu.is_available():
        pytest.skip("no accelerator")
    first_of("tiny", "mindtorch_v2", tmp_path, "device-idle-launch-bound", "tiny-kernels")


@pytest.mark.parametrize("framework", ["mindtorch_v2", "torch"])
def test_a_healthy_program_has_no_time_to_save(framework, tmp_path):
    pytest.importorskip(framework)
    for _ in range(ATTEMPTS):
        found = explained(recorded("none", framework, tmp_path))
        costly = [(f["id"], f["gain_us"]) for f in found if f["kind"] == "time" or f["id"] == "memory-growth"]
        if not costly:
            return
    raise AssertionError(costly)


def test_a_profile_explains_itself_as_the_command_does(tmp_path):
    import mindtorch_v2 as torch

    with torch.profiler.profile() as prof:
        x = torch.randn(200, 200)
        for _ in range(300):
            x = torch.tanh(x @ x)
    found = prof.findings()
    assert {"findings", "whole_us", "steps"} <= set(found) and "dominant-op" in [finding["id"] for finding in found["findings"]]
    assert "[dominant-op]" in prof.explain() and len(prof.explain(60)) <= 60 * 4
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert [finding["id"] for finding in explained(tmp_path / "trace.json")] == [finding["id"] for finding in found["findings"]]
    with pytest.raises(ValueError):
        prof.explain(1)
