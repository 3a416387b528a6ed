"""torch.profiler._pattern_matcher: finds known performance anti-patterns in a program's event tree.

    with torch.profiler.profile(with_stack=True, record_shapes=True) as prof:
        train()
    torch.profiler._pattern_matcher.report_all_anti_patterns(prof)
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mtprof._native import write_file

from mtprof.profiler.framework import of
from mtprof.profiler.tree import (
    _EventType,
    _ExtraFields_PyCall,
    _ExtraFields_PyCCall,
    _ExtraFields_TorchOp,
    _ProfilerEvent,
)
from mtprof.profiler._utils import index_of_first_match, traverse_bfs, traverse_dfs

_TUNING = "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html"


class Pattern:
    """Base of patterns: a subclass defines which events match(), and may restrict which events are examined
    (eventTreeTraversal) and which profiles are usable (skip). One that defines benchmark(events) -> {input shapes: time
    after / before} can estimate the speedup."""

    name: str = "Pattern without a name"
    description: str = "Pattern without a description"
    url: str = ""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        self.prof = prof
        self._torch = of(prof).package
        self.should_benchmark = should_benchmark
        if prof.profiler is None or prof.profiler.kineto_results is None:
            raise AssertionError("profiler and kineto_results must not be None")
        self.event_tree = prof.profiler.kineto_results.experimental_event_tree()
        self.tid_root: dict[int, list[_ProfilerEvent]] = {}
        for event in self.event_tree:
            self.tid_root.setdefault(event.start_tid, []).append(event)
        self._families: dict[Any, tuple[list[_ProfilerEvent], dict[int, int]]] = {}

    @property
    def skip(self) -> bool:
        """Whether the profile lacks the data to show the pattern."""
        return False

    def report(self, event: _ProfilerEvent) -> str:
        return f"{self.description}\n[Source Code Location] {source_code_location(event)}"

    def eventTreeTraversal(self) -> Iterator[_ProfilerEvent]:  # noqa: N802 (torch's name)
        """The events to examine."""
        yield from traverse_dfs(self.event_tree)

    def summary(self, events: list[_ProfilerEvent]) -> str:
        if self.should_benchmark and hasattr(self, "benchmark"):
            return self.benchmark_summary(events)
        return f"{self.name}: {len(events)} events matched."

    def benchmark_summary(self, events: list[_ProfilerEvent]) -> str:
        if not hasattr(self, "benchmark"):
            raise AssertionError("Please implement benchmark()")
        factors = self.benchmark(events)
        before = sum(event.duration_time_ns for event in events)
        after = sum(factors[input_shapes(event)] * event.duration_time_ns for event in events)
        return (f"{self.name}: {len(events)} events matched. "
                f"Total Estimated Speedup: {_format_ns(before - after)} ({round(before / after, 2)}X)")

    def match(self, event: _ProfilerEvent) -> bool:
        raise NotImplementedError

    def matched_events(self) -> list[_ProfilerEvent]:
        return [] if self.skip else [event for event in self.eventTreeTraversal() if self.match(event)]

    def root_of(self, event: _ProfilerEvent) -> _ProfilerEvent:
        while event.parent:
            event = event.parent
        return event

    def _family(self, event: _ProfilerEvent) -> tuple[list[_ProfilerEvent], int]:
        """The event's siblings, itself included, and its index among them. Looked up once per parent: loops have many
        children."""
        parent = event.parent
        key = ("root", event.start_tid) if parent is None else ("child", parent.id)
        if key not in self._families:
            siblings = self.tid_root[event.start_tid] if parent is None else parent.children
            self._families[key] = siblings, {sibling.id: i for i, sibling in enumerate(siblings)}
        siblings, at = self._families[key]
        return siblings, at[event.id]

    def siblings_of(self, event: _ProfilerEvent) -> tuple[list[_ProfilerEvent], list[_ProfilerEvent]]:
        """The siblings before the event and those after it."""
        siblings, at = self._family(event)
        return siblings[:at], siblings[at + 1:]

    def next_of(self, event: _ProfilerEvent) -> _ProfilerEvent | None:
        siblings, at = self._family(event)
        return siblings[at + 1] if at + 1 < len(siblings) else None

    def prev_of(self, event: _ProfilerEvent) -> _ProfilerEvent | None:
        siblings, at = self._family(event)
        return siblings[at - 1] if at > 0 else None

    def go_up_until(self, event: _ProfilerEvent | None, predicate: Callable[[_ProfilerEvent], bool]) -> _ProfilerEvent | None:
        """The event or its nearest ancestor for which the predicate holds; the root if there is none."""
        if not event:
            return None
        while event.parent and not predicate(event):
            event = event.parent
        return event


def _format_ns(ns: float) -> str:
    for unit in ("ns", "us", "ms"):
        if ns < 1000:
            return f"{ns:.2f} {unit}"
        ns //= 1000
    return f"{ns:.2f} s"


def _seconds(torch: Any, work: Callable[[], Any], repeats: int = 10) -> float:
    """How long a call takes, including the wait for the device. torch: the framework's package."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    work()
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    wait()
    return (time.perf_counter() - start) / repeats


# -------------------------------------------------------------------------------------------------- patterns


class NamePattern(Pattern):
    """Events whose name matches a regular expression."""

    def __init__(self, prof: Any, name: str, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.description = f"Matched Name Event: {name}"
        self.name = name

    def match(self, event: _ProfilerEvent) -> bool:
        return re.search(self.name, event.name) is not None


class ExtraCUDACopyPattern(Pattern):
    """A tensor is filled on the CPU and then moved to the device unchanged: torch.zeros(100).to("cuda").

    The event is an aten::to that copied without a change of dtype. The call before its own must end in a fill: the previous
    sibling, its last child, the last child of that, and so on.
    """

    name = "Extra CUDA Copy Pattern"
    description = "A tensor was filled on the CPU and then copied to the device. Create it on the device."
    url = _TUNING + "#create-tensors-directly-on-the-target-device"
    init_ops = {"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_"}

    @property
    def skip(self) -> bool:
        return not self.prof.with_stack or not self.prof.record_shapes

    def match(self, event: _ProfilerEvent) -> bool:
        inner = event
        for name in ("aten::to", "aten::_to_copy", "aten::copy_"):
            if inner is None or inner.name != name:
                return False
            copy, inner = inner, inner.children[-1] if inner.children else None
        dtypes = input_dtypes(copy)
        if len(dtypes) < 2 or dtypes[0] is None or dtypes[0] != dtypes[1] or event.parent is None:
            return False
        before = self.prev_of(event.parent)
        if before is None:
            return False
        if not before.children:
            return before.name in self.init_ops
        while before.children:
            before = before.children[-1]
            if before.name in self.init_ops:
                return True
        return False

    def benchmark(self, events: list[_ProfilerEvent]) -> dict[tuple, float]:
        torch = self._torch
        return {shapes: _seconds(torch, lambda: torch.ones(shapes[0], device="cuda"))
                / _seconds(torch, lambda: torch.ones(shapes[0]).to("cuda"))
                for shapes in {input_shapes(event): None for event in events}}


class ForLoopIndexingPattern(Pattern):
    """A loop that accesses one element or row of a tensor at a time: for i in range(n): x[i] = i.

    The event is the first of ten or more consecutive aten::select with the same ops between them.
    """

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "For Loop Indexing Pattern"
        self.description = "A loop indexes a tensor element by element. Do it with one operation on the whole tensor."
        self.visited: set[int] = set()

    def eventTreeTraversal(self) -> Iterator[_ProfilerEvent]:  # noqa: N802
        """Breadth first, so that the first event of a loop is seen before the rest."""
        yield from traverse_bfs(self.event_tree)

    def match(self, event: _ProfilerEvent) -> bool:
        if event.name != "aten::select" or event.id in self.visited:
            return False
        siblings, first = self._family(event)
        again = index_of_first_match(siblings, lambda other: other.name == "aten::select", start=first + 1)
        if again is None or len(siblings) - first <= 2:
            return False
        period = again - first
        body = [op.name for op in siblings[first:again]]
        repeats, at = 1, again
        while [op.name for op in siblings[at:at + period]] == body:
            self.visited.add(siblings[at].id)
            repeats += 1
            at += period
        return repeats >= 10


class FP32MatMulPattern(Pattern):
    """float32 matrix products without TF32, on devices that support it."""

    name = "FP32 MatMul Pattern"
    description = ("Matrices are multiplied in full float32 on a GPU that has TF32. "
                   "Set torch.backends.cuda.matmul.allow_tf32 = True if that is exact enough.")
    url = "https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-devices"

    @property
    def skip(self) -> bool:
        return not _devices_have_tf32(self._torch) or super().skip or not self.prof.record_shapes

    def match(self, event: _ProfilerEvent) -> bool:
        return event.tag == _EventType.TorchOp and event.name == "aten::mm" and _op(event).allow_tf32_cublas is False

    def report(self, event: _ProfilerEvent) -> str:
        return self.description

    def benchmark(self, events: list[_ProfilerEvent]) -> dict[tuple, float]:
        factors, torch = {}, self._torch
        for shapes in {input_shapes(event): None for event in events}:
            a, b = (torch.randn(shape, device="cuda") for shape in shapes[:2])
            took = {}
            before = torch.backends.cuda.matmul.allow_tf32
            try:
                for allowed in (False, True):
                    torch.backends.cuda.matmul.allow_tf32 = allowed
                    took[allowed] = _seconds(torch, lambda: torch.mm(a, b))
            finally:
                torch.backends.cuda.matmul.allow_tf32 = before
            factors[shapes] = took[True] / took[False]
        return factors


def _devices_have_tf32(torch: Any) -> bool:
    """Whether all GPUs that the library was built for have NVIDIA compute capability 8.0 (Ampere) or later; False if there
    are none. OpenCL has no such mode."""
    if getattr(getattr(torch, "version", None), "hip", None) is not None:
        return False
    architectures = getattr(getattr(torch, "cuda", None), "get_arch_list", list)()
    return bool(architectures) and all(int(re.sub(r"\D", "", name.split("_")[-1])) >= 80 for name in architectures)


class OptimizerSingleTensorPattern(Pattern):
    """An optimizer that updates parameters one at a time, where foreach=True would update all with few kernels."""

    name = "Optimizer Single Tensor Pattern"
    optimizers_with_foreach = ["adam", "sgd", "adamw"]
    description = "The optimizer updates its parameters one at a time. Pass foreach=True to it."

    def match(self, event: _ProfilerEvent) -> bool:
        return event.name.endswith(tuple(f"_single_tensor_{name}" for name in self.optimizers_with_foreach))


class SynchronizedDataLoaderPattern(Pattern):
    """A DataLoader without workers: the program waits while each batch is loaded.

    The event is a DataLoader's __iter__ whose _get_iterator does not check the number of workers.
    """

    name = "Synchronized DataLoader Pattern"
    description = "A DataLoader creates its batches in this process, between the steps. Set num_workers > 0."
    url = _TUNING + "#enable-async-data-loading-and-augmentation"

    def match(self, event: _ProfilerEvent) -> bool:
        made = _called(event, "_get_iterator") if _is_of_loader(event, "__iter__") else None
        return made is not None and bool(made.children) and _called(made, "check_worker_number_rationality") is None


def _is_of_loader(event: _ProfilerEvent, function: str) -> bool:
    if not event.name.endswith(function):
        return False
    return event.name.startswith(tuple(os.path.join(prefix, "utils", "data", "dataloader.py") for prefix in of(event).library))


def _called(event: _ProfilerEvent, function: str) -> _ProfilerEvent | None:
    """An event's first call of the loader's function of that name."""
    return next((child for child in event.children if _is_of_loader(child, function)), None)


class GradNotSetToNonePattern(Pattern):
    """zero_grad(set_to_none=False): gradients are filled with zeros, which costs time and memory."""

    name = "Gradient Set To Zero Instead of None Pattern"
    description = "Gradients are filled with zeros. Call zero_grad(set_to_none=True)."
    url = _TUNING + "#disable-gradient-calculation-for-validation-or-inference"

    def match(self, event: _ProfilerEvent) -> bool:
        return event.name.endswith(": zero_grad") and any(
            inner.name == "aten::zero_" and inner.parent.name != "aten::zeros" for inner in traverse_dfs(event.children))


class Conv2dBiasFollowedByBatchNorm2dPattern(Pattern):
    """A Conv2d with a bias before a BatchNorm2d, which cancels any constant."""

    name = "Enabling Bias in Conv2d Followed By BatchNorm Pattern"
    description = "A BatchNorm2d removes the bias that the Conv2d before it added. Create the Conv2d with bias=False."
    url = _TUNING + "#disable-bias-for-convolutions-directly-followed-by-a-batch-norm"

    @property
    def skip(self) -> bool:
        return self.prof.record_shapes is False or super().skip

    def match(self, event: _ProfilerEvent) -> bool:
        if event.name != "aten::conv2d":
            return False
        dtypes = input_dtypes(event)
        if len(dtypes) < 3 or dtypes[2] is None:
            return False
        module = self.go_up_until(event, lambda e: e.name.startswith("nn.Module: Conv2d"))
        after = self.next_of(module)
        return after is not None and after.name.startswith("nn.Module: BatchNorm2d")


class MatMulDimInFP16Pattern(Pattern):
    """Half-precision matrix products with sizes that are not multiples of 8, as a GPU's tensor cores require."""

    name = "Matrix Multiplication Dimension Not Aligned Pattern"
    description = "Half-precision matrices are multiplied with sizes that are not multiples of 8. Pad them."
    url = _TUNING + "#use-mixed-precision-and-amp"

    @property
    def skip(self) -> bool:
        return not self.prof.with_stack or not self.prof.record_shapes

    def match(self, event: _ProfilerEvent) -> bool:
        if event.name not in ("aten::mm", "aten::bmm", "aten::addmm"):
            return False
        dtypes = input_dtypes(event)
        return bool(dtypes) and str(dtypes[0]).rpartition(".")[2] in ("bfloat16", "float16") and any(
            size % 8 for shape in input_shapes(event) for size in shape[-2:])

    def benchmark(self, events: list[_ProfilerEvent]) -> dict[tuple, float]:
        torch = self._torch

        def seconds(shapes: Sequence[Sequence[int]]) -> float:
            a, b = (torch.randn(tuple(shape), device="cuda", dtype=dtype) for shape in shapes)
            return _seconds(torch, lambda: torch.matmul(a, b))

        factors = {}
        for event in events:
            shapes, dtype = input_shapes(event), input_dtypes(event)[0]
            if shapes not in factors:
                operands = [shape for shape in shapes if len(shape) > 1][-2:]  # addmm has its addend before them
                factors[shapes] = seconds([[-(-size // 8) * 8 for size in shape] for shape in operands]) / seconds(operands)
        return factors


# --------------------------------------------------------------------------------------------- of single events


def source_code_location(event: _ProfilerEvent | None) -> str:
    """FILE:LINE of the innermost enclosing call that was not made by the library itself."""
    while event:
        if event.tag in (_EventType.PyCall, _EventType.PyCCall):
            if not isinstance(event.extra_fields, (_ExtraFields_PyCall, _ExtraFields_PyCCall)):
                raise AssertionError(f"expected _ExtraFields_PyCall or _ExtraFields_PyCCall, got {type(event.extra_fields).__name__}")
            caller = event.extra_fields.caller
            if not caller.file_name.startswith(of(event).library):
                return f"{caller.file_name}:{caller.line_number}"
        event = event.parent
    return "No source code location found"


def _op(event: _ProfilerEvent) -> _ExtraFields_TorchOp:
    if not isinstance(event.extra_fields, _ExtraFields_TorchOp):
        raise AssertionError(f"expected _ExtraFields_TorchOp, got {type(event.extra_fields).__name__}")
    return event.extra_fields


def input_shapes(event: _ProfilerEvent) -> tuple[tuple[int, ...], ...]:
    """The shape of each input of an op; () if not a tensor."""
    return tuple(tuple(getattr(value, "sizes", ())) for value in _op(event).inputs)


def input_dtypes(event: _ProfilerEvent) -> tuple[Any, ...]:
    """The dtype of each input of an op; None if not a tensor."""
    return tuple(getattr(value, "dtype", None) for value in _op(event).inputs)


# ------------------------------------------------------------------------------------------------------ reports


def report_all_anti_patterns(prof: Any, should_benchmark: bool = False, print_enable: bool = True,
                             json_report_dir: str | None = None) -> None:
    """Prints which patterns occur in a profile, and where. With json_report_dir, also adds them to
    torchtidy_report.json there, as {file: [{line_number, name, url, message}]}."""
    patterns = (ExtraCUDACopyPattern, FP32MatMulPattern, OptimizerSingleTensorPattern, SynchronizedDataLoaderPattern,
                GradNotSetToNonePattern, Conv2dBiasFollowedByBatchNorm2dPattern, MatMulDimInFP16Pattern)
    should_benchmark = should_benchmark and of(prof).package is not None  # these use its ops
    messages: dict[str, None] = {}  # each once, in order
    summaries: list[str] = []
    found: dict[str, list[dict[str, Any]]] = {}
    for pattern in (kind(prof, should_benchmark) for kind in patterns):
        events = pattern.matched_events()
        if events:
            summaries.append(pattern.summary(events))
        for event in events:
            message = pattern.report(event)
            if message in messages:
                continue
            messages[message] = None
            file, _, line = source_code_location(event).rpartition(":")
            found.setdefault(file or line, []).append({"line_number": int(line) if file else 0, "name": pattern.name,
                                                       "url": pattern.url, "message": pattern.description})
    if json_report_dir is not None:
        _add_to_report(os.path.join(json_report_dir, "torchtidy_report.json"), found)
    if print_enable:
        rule = f"{'-' * 40}TorchTidy Report{'-' * 40}"
        print("\n".join([rule, "Matched Events:", *messages, "Summary:", *summaries, rule]))


def _add_to_report(path: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """Entries of a file replace those of an earlier report."""
    report: dict[str, Any] = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    report.update(found)
    write_file(path, json.dumps(report, indent=4))
