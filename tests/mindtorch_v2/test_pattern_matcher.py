"""mindtorch_v2.profiler._pattern_matcher: the events that PyTorch's module finds in PyTorch's trees, where it is installed;
on our own, the patterns that programs were written with."""
import functools
import gc
import json

import pytest

from profiled_programs import PROGRAMS, profiled

PATTERNS = ("ExtraCUDACopyPattern", "ForLoopIndexingPattern", "OptimizerSingleTensorPattern", "SynchronizedDataLoaderPattern",
            "GradNotSetToNonePattern", "Conv2dBiasFollowedByBatchNorm2dPattern", "MatMulDimInFP16Pattern", "FP32MatMulPattern")


@functools.cache
def _both():
    theirs = pytest.importorskip("torch.profiler._pattern_matcher")
    import on_torch

    return theirs, on_torch.load()[1]


@functools.cache
def _torch_profile(name):
    """PyTorch may lose the names of functions that it saw (its events point to freed memory): then without functions."""
    torch = pytest.importorskip("torch")
    for _ in range(3):
        prof = profiled(torch, name)
        gc.collect()
        try:
            NamePattern = _both()[0].NamePattern
            NamePattern(prof, "").matched_events()
            NamePattern(prof, "").matched_events()
            return prof
        except UnicodeDecodeError:
            continue
    return profiled(torch, name, with_stack=False)


def _found(module, prof, name):
    pattern = getattr(module, name)(prof)
    if name == "FP32MatMulPattern" and not pytest.importorskip("torch").cuda.get_arch_list():
        return None  # a difference: see below
    events = pattern.matched_events()
    return pattern.name, pattern.url, pattern.skip, [event.id for event in events], pattern.summary(events)


@pytest.mark.parametrize("name", PROGRAMS)
def test_patterns_are_found_where_pytorch_finds_them(name):
    prof = _torch_profile(name)
    theirs, ours = _both()
    for pattern in PATTERNS:
        assert _found(ours, prof, pattern) == _found(theirs, prof, pattern), pattern
    mine, other = ours.NamePattern(prof, "aten::(mm|add)"), theirs.NamePattern(prof, "aten::(mm|add)")
    assert [e.id for e in mine.matched_events()] == [e.id for e in other.matched_events()]
    assert mine.description == other.description and mine.name == other.name


@pytest.mark.parametrize("name", ["training_adam", "convolution", "data_loader"])
def test_neighbours_places_and_inputs_are_pytorchs(name):
    prof = _torch_profile(name)
    theirs, ours = _both()
    mine, other = ours.Pattern(prof), theirs.Pattern(prof)

    def ids(value):
        return None if value is None else value.id if hasattr(value, "id") else [ids(item) for item in value]

    for event in other.eventTreeTraversal():
        for method in ("siblings_of", "next_of", "prev_of", "root_of"):
            assert ids(getattr(mine, method)(event)) == ids(getattr(other, method)(event)), method
        assert ids(mine.go_up_until(event, lambda e: "nn.Module" in e.name)) == ids(other.go_up_until(event, lambda e: "nn.Module" in e.name))
        assert ours.source_code_location(event) == theirs.source_code_location(event)
        if event.tag.name == "TorchOp":
            assert ours.input_shapes(event) == theirs.input_shapes(event)
            assert ours.input_dtypes(event) == theirs.input_dtypes(event)
        else:
            with pytest.raises(AssertionError, match="expected _ExtraFields_TorchOp"):
                ours.input_shapes(event)
    assert mine.go_up_until(None, bool) is None


@pytest.mark.parametrize("name", ["training_adam", "convolution", "gradients_zeroed", "nothing"])
def test_reports_name_the_places_that_pytorchs_do(name, tmp_path, capsys):
    prof = _torch_profile(name)
    reports = []
    for i, module in enumerate(_both()):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "torchtidy_report.json").write_text('{"earlier.py": []}')
        module.report_all_anti_patterns(prof, json_report_dir=str(folder))
        printed = capsys.readouterr().out
        assert printed.startswith("-" * 40 + "TorchTidy Report") and "Summary:" in printed
        report = json.loads((folder / "torchtidy_report.json").read_text())
        reports.append({file: sorted((e["line_number"], e["name"], e["url"]) for e in entries
                                     if not e["name"].startswith("FP32")) for file, entries in report.items()})
        assert "earlier.py" in report
    reports = [{file: entries for file, entries in report.items() if entries} for report in reports]
    assert reports[1] == reports[0]


def test_tf32_is_advised_on_gpus_that_have_it_only(monkeypatch):
    """PyTorch advises it for every product on a machine without a GPU."""
    torch = pytest.importorskip("torch")
    theirs, ours = _both()
    prof = _torch_profile("step_by_hand")
    if not torch.cuda.get_arch_list():
        assert ours.FP32MatMulPattern(prof).matched_events() == []
    for architectures, found in ((["sm_80", "sm_90a"], True), (["sm_70", "sm_80"], False), (["compute_86"], True)):
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: architectures)
        assert bool(ours.FP32MatMulPattern(prof).matched_events()) is found
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80"])
    assert [e.id for e in ours.FP32MatMulPattern(prof).matched_events()] == [e.id for e in theirs.FP32MatMulPattern(prof).matched_events()]
    assert ours.FP32MatMulPattern(_torch_profile_without_shapes()).matched_events() == []


def _torch_profile_without_shapes():
    return profiled(pytest.importorskip("torch"), "step_by_hand", record_shapes=False)


def test_names_and_signatures_are_pytorchs():
    import inspect

    theirs, ours = _both()
    for name, other in vars(theirs).items():
        if getattr(other, "__module__", None) != theirs.__name__:
            continue
        mine = getattr(ours, name)
        functions = {name: (mine, other)} if inspect.isfunction(other) else {
            m: (getattr(mine, m), f) for m, f in vars(other).items() if inspect.isfunction(f)}
        for method, (my, their) in functions.items():
            assert list(inspect.signature(my).parameters) == list(inspect.signature(their).parameters), (name, method)
        if inspect.isclass(other):
            assert mine.__bases__[0].__name__ == other.__bases__[0].__name__
