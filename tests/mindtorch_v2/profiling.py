"""Helpers for tests of profiles."""
import gzip
import json

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import ProfilerActivity, profile

CPU = [ProfilerActivity.CPU]
needs_npu = pytest.mark.skipif(not torch.npu.is_available(), reason="mindtorch_v2.npu.is_available() is False")


def here():
    """"cpu" or "npu": the device of this test's tensors."""
    return torch.get_default_device().type


def work(x):
    return (x + x).sum()


def steps(count, body=work, **options):
    """A profile of `count` steps, and for each ready trace the set of steps it held."""
    ready = []
    options.setdefault("on_trace_ready", lambda p: ready.append({e["step"] for e in p.events()}))
    tensor = torch.ones(2, 3)
    with profile(activities=CPU, **options) as prof:
        for _ in range(count):
            body(tensor)
            prof.step()
    return prof, ready


def exported(prof, tmp_path, name="trace.json"):
    path = tmp_path / name
    prof.export_chrome_trace(str(path))
    opener = gzip.open if name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def named(trace, name):
    return [e for e in trace["traceEvents"] if e.get("name") == name and e.get("ph") == "X"]


def find(events, name):
    return [e for e in events if e.name == name]


def changed(rows):
    """Reverses the list: it is then no longer lazy."""
    rows.reverse()
    return rows
