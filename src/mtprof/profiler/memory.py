"""Memory over time by category, as reported by the runtime while recording (analyze/memory.c), and its plot."""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections import Counter
from typing import Any

import mtprof
from mtprof import _native
from mtprof._native import write_file


# The columns of a row of sizes after its leading 0, with their colours.
CATEGORIES = (("PARAMETER", "#2f6f4f"), ("OPTIMIZER_STATE", "#d9a520"), ("INPUT", "#20262e"), ("TEMPORARY", "#8064a2"),
               ("ACTIVATION", "#c0392b"), ("GRADIENT", "#5b9bd5"), ("AUTOGRAD_DETAIL", "#4b6ea9"), ("Unknown", "#9a9a9a"))


class MemoryProfileTimeline:
    """The memory events of a trace."""

    def __init__(self, memory_profile: mtprof.Trace) -> None:
        self.trace = memory_profile

    def busiest_device(self, use_device: str | None) -> str:
        """The device to show: the accelerator with the most memory events, "cpu" if there are none."""
        if use_device is None:
            return "cpu"
        memory = self.trace.columns()["memory"]
        found = Counter(index for kind, index in zip(memoryview(memory["device_type"]), memoryview(memory["device_index"])) if kind != 0)
        return f"{use_device}:{max(found.most_common(1)[0][0], 0)}" if found else "cpu"

    def export(self, path: str, device: str) -> None:
        """By the path's suffix: .html, raw.json.gz, .json or .json.gz; JSON for any other."""
        if path.endswith(".html"):
            self.export_memory_timeline_html(path, device)
        elif path.endswith((".json", ".json.gz")):
            self.trace.memory_timeline(path, device)
        else:
            self._copy(path, device, ".json.gz" if path.endswith(".gz") else ".json")

    def export_memory_timeline(self, path: str, device: str) -> None:
        """[times, sizes] as JSON."""
        self._copy(path, device, ".json")

    def export_memory_timeline_raw(self, path: str, device: str) -> None:
        """Each event as [time, action, bytes, category], as JSON."""
        import gzip

        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "t.raw.json.gz")
            self.trace.memory_timeline(made, device)
            with gzip.open(made, "rb") as read:
                write_file(path, read.read())

    def _copy(self, path: str, device: str, suffix: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "t" + suffix)
            self.trace.memory_timeline(made, device)
            with open(made, "rb") as read:
                write_file(path, read.read())

    def _coalesce_timeline(self, device: str) -> tuple[list[int], list[list[int]]]:
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "t.json")
            self.trace.memory_timeline(made, device)
            with open(made, encoding="utf-8") as file:
                times, sizes = json.load(file)
        return times, sizes

    def export_memory_timeline_html(self, path: str, device: str, figsize: Any = None, title: str | None = None) -> None:
        """The report's page of memory, self-contained. It fits any window: figsize, torch's, has no effect."""
        self.trace.memory_page(path, _plain(title or f"Memory of {device}"), device)


def export_page(path: Any, times: list[int], sizes: list[list[int]], device: str, title: str | None = None) -> None:
    """The same page for a timeline as torch has it: times in us, and rows of 0 and the bytes by category."""
    first = times[0] if times else 0
    points = array("q", (number for at, row in zip(times, sizes) for number in ((at - first) * 1000, *row[1:])))
    _native.points_page(path, _plain(title or f"Memory of {device}"), device, points)


def _plain(title: str) -> str:
    """Without what C's texts and UTF-8 cannot hold."""
    return title.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
