"""Lists of events and rows as text: the table of a list that was changed in Python, notebooks' tables, Chrome events."""

from __future__ import annotations

import functools
import html
import itertools
import json
import math
import operator
import os
from collections.abc import Iterable, Iterator
from typing import Any

from mtprof.profiler.common import DeviceType, format_memory, format_time, format_time_share


def attribute(name: str) -> str:
    """The attribute of rows that a user's spelling means: the names of all accelerators mean the device."""
    words = ("device" if word in ("cuda", "xpu", "privateuse1", "npu") else word for word in name.split("_"))  # not the npu in "input"
    name = "_".join(words)
    return {"cpu_time_avg": "cpu_time", "device_time_avg": "device_time"}.get(name, name)


def html_table(events: Any, limit: int = 100) -> str:
    columns = [("Name", "key"), ("Self CPU", "self_cpu_time_total_str"), ("CPU total", "cpu_time_total_str"),
               ("CPU time avg", "cpu_time_str")]
    shown = events[:limit]
    if any(event.self_device_time_total > 0 for event in shown):
        columns += [("Self device", "self_device_time_total_str"), ("Device total", "device_time_total_str")]
    if events._profile_memory:
        columns += [("CPU Mem", "cpu_memory_usage"), ("Self CPU Mem", "self_cpu_memory_usage")]
    columns.append(("# of Calls", "count"))
    columns += [("Input Shapes", "input_shapes")] if any(event.input_shapes for event in shown) else []
    most = max((event.self_cpu_time_total for event in shown), default=0)
    head = "".join(f'<th style="{_side(name)};{_CELL};border-bottom:1px solid rgba(128,128,128,.6)">{title}</th>' for title, name in columns)
    lines = []
    for event in shown:
        cells = []
        for _, name in columns:
            value = getattr(event, name)
            text = html.escape(format_memory(value) if name.endswith("memory_usage") else str(value))
            style = f"{_side(name)};{_CELL}"
            if name == "self_cpu_time_total_str" and most > 0:  # how much of the largest it is
                share = f"{100 * event.self_cpu_time_total / most:.1f}%"
                style += f";background:linear-gradient(to left,rgba(11,98,196,.22) {share},transparent {share})"
            cells.append(f'<td style="{style}" title="{text}">{text}</td>')
        lines.append("<tr>" + "".join(cells) + "</tr>")
    more = f"<caption>{limit} of {len(events)}</caption>" if len(events) > limit else ""
    return (f'<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">{more}<thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(lines)}</tbody></table>")


# As in the report; colours that suit a light and a dark notebook.
_CELL = ("padding:3px 10px;white-space:nowrap;max-width:46ch;overflow:hidden;text-overflow:ellipsis;"
         "border-bottom:1px solid rgba(128,128,128,.25)")


def _side(name: str) -> str:
    return "text-align:left" if name in ("key", "input_shapes") else "text-align:right"


class _TableLayout:
    """The columns of a table of events, their widths, and how rows are formatted."""

    def __init__(self, events: list, name_width: int | None, shapes_width: int | None, src_width: int | None, with_flops: bool,
                 profile_memory: bool, time_unit: str | None) -> None:
        self.time_unit, self.max_name = time_unit, name_width
        self.device = events[0].use_device
        self.has_device_time = any(e.self_device_time_total > 0 for e in events)
        self.has_overloads = any(e.overload_name for e in events)
        self.has_shapes = any(e.input_shapes is not None and len(e.input_shapes) > 0 for e in events)
        self.has_node = any(e.node_id != -1 for e in events)
        self.memory = profile_memory
        self.device_memory = profile_memory and self.device and any(e.self_device_memory_usage > 0 for e in events)
        if self.has_device_time and not self.device:
            self.device = "npu"  # recorded through the C interface by another framework
        device = self.device.upper() if self.device else "None"
        self.name_width = _limited(max(len(e.key) for e in events) + 4, name_width)
        self.shapes_width = _limited(max(len(str(e.input_shapes)) for e in events) + 4, shapes_width)
        stacks = [e.stack for e in events if e.stack]
        self.has_stack = bool(stacks)
        self.src_width = _limited(max(len(f) for s in stacks for f in s) + 4, src_width) if stacks else 0
        flops = [e.flops for e in events if e.flops and e.flops > 0] if with_flops else []
        self.flops_scale, flops_head = _flops_unit(min(flops)) if flops else (0.0, "")
        titles = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        titles += [f"Self {device}", f"Self {device} %", f"{device} total", f"{device} time avg"] if self.has_device_time else []
        titles += ["CPU Mem", "Self CPU Mem"] if self.memory else []
        titles += [f"{device} Mem", f"Self {device} Mem"] if self.device_memory else []
        titles += ["# of Calls"] + (["Node ID"] if self.has_node else [])
        self.columns = [("Name", self.name_width, ">")]
        self.columns += [("Overload Name", self.name_width, ">")] if self.has_overloads else []
        self.columns += [(title, 12, ">") for title in titles]
        self.columns += [("Input Shapes", self.shapes_width, ">")] if self.has_shapes else []
        self.columns += [("Source Location", self.src_width, "<")] if self.has_stack else []
        self.columns += [(f"Total {flops_head}", 12, ">")] if flops else []
        self.total_cpu = _sum(e.self_cpu_time_total for e in events)
        self.total_device = _sum(e.self_device_time_total for e in events
                                 if (e.device_type == DeviceType.CPU and e.is_legacy)
                                 or (e.device_type == DeviceType.NPU and not getattr(e, "is_user_annotation", False)))

    @property
    def separator(self) -> str:
        return "".join("-" * width + "  " for _, width, _ in self.columns)

    def line(self, values: Iterable[Any]) -> str:
        return "".join(f"{value:{align}{width}}  " for value, (_, width, align) in zip(values, self.columns))

    def time(self, time_us: float) -> str:
        scale = {"s": 1e6, "ms": 1e3, "us": 1.0}.get(self.time_unit or "")
        return format_time(time_us) if scale is None else f"{time_us / scale:.3f}{self.time_unit}"

    def shortened(self, name: str) -> str:
        return name[: self.max_name - 3] + "..." if self.max_name is not None and len(name) >= self.max_name - 3 else name

    def row(self, e: Any) -> Iterator[str]:
        e.self_cpu_percent = format_time_share(e.self_cpu_time_total, self.total_cpu)
        e.total_cpu_percent = format_time_share(e.cpu_time_total, self.total_cpu) if not e.is_async else 0
        values: list[Any] = [self.shortened(e.key)] + ([self.shortened(e.overload_name)] if self.has_overloads else [])
        values += [e.self_cpu_percent, self.time(e.self_cpu_time_total), e.total_cpu_percent, self.time(e.cpu_time_total),
                   self.time(e.cpu_time)]
        if self.has_device_time:
            e.total_device_percent = format_time_share(e.self_device_time_total, self.total_device) if self.total_device else "NaN"
            values += [self.time(e.self_device_time_total), e.total_device_percent, self.time(e.device_time_total),
                       self.time(e.device_time)]
        values += [format_memory(e.cpu_memory_usage), format_memory(e.self_cpu_memory_usage)] if self.memory else []
        values += [format_memory(e.device_memory_usage), format_memory(e.self_device_memory_usage)] if self.device_memory else []
        values += [str(e.count)] + ([str(e.node_id)] if self.has_node else [])
        values += [str(e.input_shapes)[: self.shapes_width]] if self.has_shapes else []
        stack = e.stack or []
        values += [_trimmed(stack[0], self.src_width) if stack else ""] if self.has_stack else []
        if self.flops_scale:
            values.append(f"{e.flops * self.flops_scale:8.3f}" if e.flops and e.flops > 0 else "--")
        yield self.line(str(v) for v in values)
        if self.has_stack:
            blank = [""] * len(self.columns)
            at = len(self.columns) - (2 if self.flops_scale else 1)
            for frame in stack[1:]:
                yield self.line(blank[:at] + [_trimmed(frame, self.src_width)] + blank[at + 1:])
            yield self.line(blank)


def _sum(times: Iterable[float]) -> float:
    """One by one, as torch and C do: from Python 3.12 on, sum() is more exact, and shares of 3.125 % are then rounded another way."""
    return functools.reduce(operator.add, times, 0)


def _limited(width: int, most: int | None) -> int:
    return width if most is None else min(width, most)


def _trimmed(path: str, width: int) -> str:
    if len(path) <= width:
        return path
    path = path[len(path) - width:]
    return "..." + path[3:] if len(path) > 3 else path


def _flops_unit(smallest: float) -> tuple[float, str]:
    units = ["FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"]
    power = math.floor(max(0.0, min(math.log10(smallest) / 3, float(len(units) - 1))))
    return 10.0 ** (power * -3.0), units[power]


def build_table(events: Iterable[Any], sort_by: str | None = None, header: str | None = None, row_limit: int = 100,
                max_src_column_width: int | None = 75, max_name_column_width: int | None = 55,
                max_shapes_column_width: int | None = 80, with_flops: bool = False, profile_memory: bool = False,
                top_level_events_only: bool = False, time_unit: str | None = None, facts: list[Any] | None = None) -> str:
    """The table of a list that was changed in Python: events or rows.

    facts: rows that determine the columns and the sums; default: the events themselves."""
    if sort_by is not None:  # before summing, as torch does: the order of a sum is seen in its last digit
        key = operator.attrgetter(attribute(sort_by))
        events = sorted(events, key=key, reverse=True)
        facts = sorted(facts, key=key, reverse=True) if facts is not None else None
    facts = list(events) if facts is None else facts
    if not facts:
        return ""
    layout = _TableLayout(facts, max_name_column_width, max_shapes_column_width, max_src_column_width, with_flops,
                          profile_memory, time_unit)
    lines = []
    bar = "=" * (len(layout.separator) - 2)
    lines += [bar, header] if header is not None else []
    lines += [bar, "This report only display top-level ops statistics"] if top_level_events_only else []
    lines += [layout.separator, layout.line(title for title, _, _ in layout.columns), layout.separator]
    shown = (e for e in events if not (top_level_events_only and e.cpu_parent is not None))
    for event in itertools.islice(shown, row_limit if row_limit >= 0 else None):
        lines += layout.row(event)
    lines += [layout.separator, f"Self CPU time total: {layout.time(layout.total_cpu)}"]
    if layout.has_device_time:
        lines.append(f"Self {layout.device.upper()} time total: {layout.time(layout.total_device)}")
    return "\n".join(lines) + "\n"


def chrome_rows(rows: Iterable[Any]) -> Iterator[str]:
    yield '{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": ['
    ts, comma = 0.0, "\n"
    for row in rows:
        args = {name: getattr(row, name) for name in ("count", "cpu_time_total", "self_cpu_time_total", "cpu_time",
                                                      "device_time_total", "self_device_time_total", "cpu_memory_usage",
                                                      "device_memory_usage", "flops", "input_shapes", "stack")}
        event = {"ph": "X", "cat": "user_annotation" if getattr(row, "is_user_annotation", False) else "cpu_op", "name": row.key,
                 "pid": os.getpid(), "tid": 0, "ts": ts, "dur": row.cpu_time_total, "args": args}
        yield comma + json.dumps(event, ensure_ascii=False)
        ts, comma = ts + row.cpu_time_total, ",\n"
    yield "\n]}\n"


def chrome_events(events: Iterable[Any], device: str) -> Iterator[str]:
    yield "["
    comma, flow = "", 0
    for event in events:
        if event.trace_name is None:
            continue
        name, start = json.dumps(event.trace_name, ensure_ascii=False), event.time_range.start
        yield (f'{comma}{{"name": {name}, "ph": "X", "ts": {start}, "dur": {event.time_range.elapsed_us()}, '
               f'"tid": {event.thread}, "pid": "CPU functions", "args": {{}}}}')
        comma = ", "
        for _ in event.kernels:
            yield (f', {{"name": {name}, "ph": "s", "ts": {start}, "tid": {event.thread}, "pid": "CPU functions", "id": {flow}, '
                   f'"cat": "cpu_to_{device}", "args": {{}}}}')
            flow += 1
    yield "]"
