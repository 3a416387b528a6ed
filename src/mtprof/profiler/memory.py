"""Memory over time by category, as reported by the runtime while recording (analyze/memory.c), and its plot."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections import Counter
from typing import Any

import mtprof
from mtprof._native import write_file

from mtprof.profiler.common import format_memory


# The columns of a row of sizes after its leading 0, with their colours.
CATEGORIES = (("PARAMETER", "#2f6f4f"), ("OPTIMIZER_STATE", "#d9a520"), ("INPUT", "#20262e"), ("TEMPORARY", "#8064a2"),
               ("ACTIVATION", "#c0392b"), ("GRADIENT", "#5b9bd5"), ("AUTOGRAD_DETAIL", "#4b6ea9"), ("Unknown", "#9a9a9a"))
_COLUMNS = 1200  # of the plot: with more points than this, the maximum of each column is drawn


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

    def export_memory_timeline_html(self, path: str, device: str, figsize: Any = (20, 12), title: str | None = None) -> None:
        """A self-contained page with the stacked plot."""
        times, sizes = self._coalesce_timeline(device)
        write_file(path, page(times, sizes, device, title, figsize))


def _thinned(times: list[int], sizes: list[list[int]]) -> list[tuple[int, list[int]]]:
    """At most a few points per column, including the peaks."""
    points = [(time, row[1:]) for time, row in zip(times, sizes)]
    if len(points) <= 2 * _COLUMNS:
        return points
    first, span = times[0], max(times[-1] - times[0], 1)
    columns: dict[int, list[tuple[int, list[int]]]] = {}
    for point in points:
        columns.setdefault((point[0] - first) * _COLUMNS // span, []).append(point)
    kept = []
    for column in columns.values():
        peak = max(range(len(column)), key=lambda i: sum(column[i][1]))
        kept += [column[i] for i in sorted({peak, len(column) - 1})]
    return kept


def page(times: list[int], sizes: list[list[int]], device: str, title: str | None = None, figsize: Any = (20, 12)) -> str:
    """The stacked plot of a timeline as HTML."""
    width, height = int(figsize[0] * 60), int(figsize[1] * 40)
    points = _thinned(times, sizes)
    peak_at, peak = max(((t, sum(row)) for t, row in points), key=lambda p: p[1], default=(0, 0))
    first = points[0][0] if points else 0
    span = max(points[-1][0] - first, 1) if points else 1
    left, bottom, top = 90, 40, 20
    plot_width, plot_height = width - left - 48, height - bottom - top

    def x(time: float) -> float:
        return left + (time - first) * plot_width / span

    def y(value: float) -> float:
        return top + plot_height - value * plot_height / max(peak, 1)

    areas, base = [], [0] * len(points)
    for i, (name, colour) in enumerate(CATEGORIES):
        upper = [b + row[i] for b, (_, row) in zip(base, points)]
        if upper != base:
            outline = _steps(points, upper, x, y) + _steps(points, base, x, y)[::-1]
            areas.append(f'<polygon fill="{colour}" points="{" ".join(outline)}"><title>{name}</title></polygon>')
        base = upper
    lines = []
    for i in range(6):
        value, time = peak * i / 5, first + span * i / 5
        lines.append(f'<line x1="{left}" x2="{left + plot_width}" y1="{y(value):.1f}" y2="{y(value):.1f}" class="g"/>'
                     f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{format_memory(round(value))}</text>'
                     f'<text x="{x(time):.1f}" y="{height - 14}" text-anchor="middle">{(time - first) / 1000:.3f} ms</text>')
    legend = " ".join(f'<span><i style="background:{colour}"></i>{name}</span>' for name, colour in CATEGORIES)
    heading = html.escape(title or f"Memory timeline of {device}")
    data = json.dumps({"categories": [name for name, _ in CATEGORIES], "times_us": [t for t, _ in points],
                       "bytes": [row for _, row in points]})
    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{heading}</title><style>'
        "body{font:14px sans-serif;margin:24px}text{font-size:12px;fill:#444}.g{stroke:#ddd}span{margin-right:14px}"
        "i{display:inline-block;width:12px;height:12px;margin-right:5px}</style></head><body>"
        f"<h2>{heading}</h2><p>Peak {format_memory(peak)} at {(peak_at - first) / 1000:.3f} ms; {len(times)} points.</p>"
        f'<p>{legend}</p><svg width="{width}" height="{height}" role="img">{"".join(lines)}{"".join(areas)}</svg>'
        f'<script type="application/json" id="data">{data}</script></body></html>\n'
    )


def _steps(points: list, values: list[int], x: Any, y: Any) -> list[str]:
    """A step line: each value holds until the next."""
    made = []
    for i, ((time, _), value) in enumerate(zip(points, values)):
        if i:
            made.append(f"{x(time):.1f},{y(values[i - 1]):.1f}")
        made.append(f"{x(time):.1f},{y(value):.1f}")
    return made
