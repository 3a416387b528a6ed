"""mindtorch_v2.profiler._pattern_matcher: the events that PyTorch's module finds in PyTorch's trees, if installed;
in our own, the patterns that the programs contain."""
import functools
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
    return profiled(pytest.importorskip("torch"), name)


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
    """On a machine without a GPU, PyTorch advises it for every product."""
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


# ------------------------------------------------------------------------------------------------- our trees


@functools.cache
def _our_profile(name):
    import mindtorch_v2

    return profiled(mindtorch_v2, name)


EXPECTED = {"ForLoopIndexingPattern": {"loop_over_rows": 2}, "SynchronizedDataLoaderPattern": {"data_loader": 1},
            "GradNotSetToNonePattern": {"gradients_zeroed": 2, "training_momentum": 1},
            "Conv2dBiasFollowedByBatchNorm2dPattern": {"convolution": 1},
            "OptimizerSingleTensorPattern": {"training_sgd": 2, "training_momentum": 2, "training_adam": 3}}


@pytest.mark.parametrize("name", PROGRAMS)
def test_our_programs_have_the_patterns_that_they_were_written_with(name):
    from mindtorch_v2.profiler import _pattern_matcher

    for pattern in PATTERNS:
        found = getattr(_pattern_matcher, pattern)(_our_profile(name)).matched_events()
        assert len(found) == EXPECTED.get(pattern, {}).get(name, 0), pattern


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_an_optimizer_that_goes_from_parameter_to_parameter_is_found_by_its_options(name, tmp_path):
    import json

    import mindtorch_v2 as torch
    from mindtorch_v2.profiler._pattern_matcher import OptimizerSingleTensorPattern, report_all_anti_patterns

    def found(**options):
        weight = torch.ones(3, requires_grad=True)
        optimizer = getattr(torch.optim, name)([weight], lr=0.1, **options)
        with torch.profiler.profile(with_stack=True, record_shapes=True) as prof:
            weight.sum().backward()
            optimizer.step()
        return prof, len(OptimizerSingleTensorPattern(prof).matched_events())

    assert [found(**o)[1] for o in ({}, {"foreach": False}, {"fused": False}, {"foreach": True}, {"fused": True})] == [1, 1, 1, 0, 0]
    report_all_anti_patterns(found()[0], json_report_dir=str(tmp_path), print_enable=False)
    report = json.loads((tmp_path / "torchtidy_report.json").read_text())
    (here,) = [entries for path, entries in report.items() if path.endswith("test_pattern_matcher.py")]
    assert [sorted(entry) for entry in here] == [["line_number", "message", "name", "url"]]


def test_workers_of_a_loader_are_seen():
    import mindtorch_v2 as torch
    from mindtorch_v2.profiler._pattern_matcher import SynchronizedDataLoaderPattern

    loaders = [torch.utils.data.DataLoader(torch.ones(4, 2), num_workers=n) for n in (1, 0, 1)]
    with torch.profiler.profile(with_stack=True) as prof:
        for loader in loaders:
            next(iter(loader))
    assert len(SynchronizedDataLoaderPattern(prof).matched_events()) == 1


def test_more_workers_than_processors_are_warned_of():
    import mindtorch_v2 as torch

    loader = torch.utils.data.DataLoader(torch.ones(4, 2), num_workers=10_000)
    with pytest.warns(UserWarning, match="10000 worker processes"):
        loader.check_worker_number_rationality()


def test_reports_say_where_and_keep_what_was_there(tmp_path, capsys):
    from mindtorch_v2.profiler._pattern_matcher import report_all_anti_patterns

    report_all_anti_patterns(_our_profile("gradients_zeroed"), json_report_dir=str(tmp_path))
    printed = capsys.readouterr().out
    report = json.loads((tmp_path / "torchtidy_report.json").read_text())
    (file,) = report
    assert file.endswith("profiled_programs.py") and len(report[file]) == 2
    assert {entry["name"] for entry in report[file]} == {"Gradient Set To Zero Instead of None Pattern"}
    assert all(entry["line_number"] > 100 and entry["url"] and entry["message"] in printed for entry in report[file])
    assert f"{file}:{report[file][0]['line_number']}" in printed and "2 events matched." in printed
    report_all_anti_patterns(_our_profile("nothing"), json_report_dir=str(tmp_path), print_enable=False)
    assert capsys.readouterr().out == "" and json.loads((tmp_path / "torchtidy_report.json").read_text()) == report


def test_a_pattern_of_ones_own():
    from mindtorch_v2.profiler._pattern_matcher import Pattern

    prof = _our_profile("training_sgd")

    class Mine(Pattern):
        def match(self, event):
            return event.name == "aten::mse_loss"

        def benchmark(self, events):
            return {((10, 3), (10, 3), ()): 0.5}

    plain, measured = Mine(prof), Mine(prof, should_benchmark=True)
    events = plain.matched_events()
    assert len(events) == 2 and plain.summary(events) == "Pattern without a name: 2 events matched."
    assert measured.summary(events).endswith("(2.0X)")
    with pytest.raises(NotImplementedError):
        Pattern(prof).matched_events()
    with pytest.raises(AssertionError, match="benchmark"):
        Pattern(prof).benchmark_summary(events)


class _Event:
    """An event of a tree made by hand."""

    def __init__(self, name, *children, inputs=None):
        from mindtorch_v2.profiler._pattern_matcher import _EventType, _ExtraFields_TorchOp

        self.name, self.children, self.parent, self.id, self.start_tid = name, list(children), None, id(self), 1
        self.tag = _EventType.TorchOp if inputs is not None else _EventType.PyCall
        self.extra_fields = object.__new__(_ExtraFields_TorchOp)
        if inputs is not None:
            self.extra_fields.__dict__.update(inputs=inputs)
        for child in children:
            child.parent = self


def _handmade(*roots):
    import types

    results = types.SimpleNamespace(experimental_event_tree=lambda: list(roots))
    return types.SimpleNamespace(profiler=types.SimpleNamespace(kineto_results=results), with_stack=True, record_shapes=True)


def test_fills_on_the_host_before_a_copy_are_found():
    import types

    from mindtorch_v2.profiler._pattern_matcher import ExtraCUDACopyPattern

    def copied(*dtypes):
        values = [types.SimpleNamespace(dtype=dtype) for dtype in dtypes]
        return _Event("to", _Event("aten::to", _Event("aten::_to_copy", _Event("aten::empty"), _Event("aten::copy_", inputs=values))))

    fill = lambda: _Event("ones", _Event("aten::ones", _Event("aten::empty"), _Event("aten::fill_")))  # noqa: E731
    cases = ((1, fill(), copied("float", "float")), (0, fill(), copied("float", "half")), (0, copied("float", "float")),
             (0, _Event("mm", _Event("aten::mm")), copied("float", "float")), (0, fill(), copied("float")),
             (1, _Event("aten::fill_"), copied("float", "float")), (0, fill(), copied()))
    for found, *roots in cases:
        assert len(ExtraCUDACopyPattern(_handmade(_Event("main", *roots))).matched_events()) == found


def test_half_precision_sizes_are_looked_at():
    import types

    from mindtorch_v2.profiler._pattern_matcher import MatMulDimInFP16Pattern

    def product(dtype, *shapes):
        return _Event("aten::mm", inputs=[types.SimpleNamespace(dtype=dtype, sizes=list(shape)) for shape in shapes])

    events = [product("torch.float16", (201, 8), (8, 8)), product("torch.float16", (200, 8), (8, 8)),
              product("torch.float32", (201, 8), (8, 8)), product("torch.bfloat16", (3, 16, 8), (3, 8, 7)), _Event("aten::mm", inputs=[])]
    assert MatMulDimInFP16Pattern(_handmade(*events)).matched_events() == [events[0], events[3]]
    prof = _handmade(*events)
    prof.record_shapes = False
    assert MatMulDimInFP16Pattern(prof).matched_events() == []
