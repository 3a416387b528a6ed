#!/usr/bin/env python3
"""Checks a trace against the contract of docs/trace-format.md. An independent reader: it uses only Python's json.

usage: check_trace.py [--foreign] TRACE...    --foreign: allow categories and names that are not Kineto's

Prints each broken rule with its number; exits 1 if there was any.
"""
import gzip
import json
import re
import sys
from collections import defaultdict
from decimal import Decimal

CATEGORIES = {"cpu_op", "user_annotation", "gpu_user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel",
              "gpu_memcpy", "gpu_memset", "cuda_sync", "overhead", "cpu_instant_event", "Trace"}
ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "cuda_sync"}
HEAD = ["schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds"]
ROW_NAMES = {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}
ID_MAX, LEVELS_MAX, TS_MAX = 2 ** 32 - 1, 512, 4_500_000_000_000
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Duplicate(ValueError):
    pass


def no_twins(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Duplicate(f"a duplicate key in {[k for k, _ in pairs][:12]}")
    return out


def refuse(word):
    raise ValueError(f"{word} is not JSON")


def parse(raw):
    """Strict: UTF-8, no NaN, no key twice, no half surrogates. Numbers with a point are exact decimals."""
    text = raw.decode("utf-8")
    trace = json.loads(text, parse_float=Decimal, parse_constant=refuse, object_pairs_hook=no_twins, strict=True)
    json.dumps(trace, ensure_ascii=False, default=str).encode("utf-8")
    return text, trace


def is_id(value):
    return type(value) is int and 1 <= value <= ID_MAX


def is_number(value):
    return type(value) in (int, Decimal)


def ns(value):
    return int(value * 1000)


class Checker:
    def __init__(self, raw, foreign):
        self.problems = []
        self.foreign = foreign
        try:
            self.text, self.trace = parse(raw)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"rule 1: {error}")
            return
        if not isinstance(self.trace, dict) or not isinstance(self.trace.get("traceEvents"), list):
            self.wrong(1, "not an object with a list of traceEvents")
            return
        self.events = self.trace["traceEvents"]
        self.head()
        self.order()
        self.slices = [e for e in self.events if e.get("ph") == "X"]
        for number, event in enumerate(self.events):
            self.event(number, event)
        if not self.problems:       # the later checks rely on the earlier ones
            self.rows()
            self.flows()

    def wrong(self, rule, what):
        if len(self.problems) < 50:
            self.problems.append(f"rule {rule}: {what}")

    def head(self):
        keys = list(self.trace)
        for key in HEAD:
            if key not in keys or keys.index(key) > keys.index("traceEvents"):
                self.wrong(2, f"{key} is not before traceEvents")
        info = self.trace.get("distributedInfo")
        if not isinstance(info, dict) or type(info.get("rank")) is not int or not re.search(r'"rank": \d', self.text):
            self.wrong(2, f"no rank to be found by text: {info}")
        if re.search(r':(?! )', STRING.sub('""', self.text)):
            self.wrong(2, "a colon without a space after it")
        if type(self.trace.get("baseTimeNanoseconds")) is not int:
            self.wrong(2, "baseTimeNanoseconds is not an integer")
        if len(self.text) > 500e6:
            self.wrong(17, "more than 500 MB")

    def order(self):
        """The first event has a duration; then (ts, -dur), each flow right after its slice."""
        if any(e.get("ph") == "X" for e in self.events) and self.events[0].get("ph") != "X":
            self.wrong(8, "the first event is not an X event")
        last_key, last, last_slice = (-1, 0), None, None
        for i, e in enumerate(self.events):
            ph = e.get("ph")
            if ph == "M" or not is_number(e.get("ts")):
                continue
            if ph in "stf":
                if last is None or last.get("ph") != "X" or any(e.get(k) != last.get(k) for k in ("pid", "tid", "ts")):
                    self.wrong(8, f"event {i}: a flow that is not right after its slice: {e}")
                continue
            key = (e["ts"], -(e.get("dur") or 0))
            if ph == "X":
                if last_slice is not None and key < last_slice:
                    self.wrong(8, f"event {i} is after a later one: {e}")
                last_slice = key
            if i > 0 and key < last_key and last_key[0] != self.events[0].get("ts"):
                self.wrong(8, f"event {i} is out of order: {e}")
            last_key, last = key, e

    def event(self, number, e):
        def wrong(rule, what):
            self.wrong(rule, f"event {number}: {what}: {str(e)[:200]}")
        name, ph = e.get("name"), e.get("ph")
        if not isinstance(name, str) or not name:
            wrong(3, "no name")
        if ph not in ("X", "i", "C", "s", "t", "f", "M"):
            wrong(9, f"phase {ph}")
        if not is_number(e.get("ts")) or e["ts"] < 0:
            wrong(3, "no ts")
        elif e["ts"] >= TS_MAX:
            wrong(5, "ts is too large for a double to hold nanoseconds")
        if not is_id(e.get("pid")) or not is_id(e.get("tid")):
            wrong(4, "pid or tid is not an integer from 1 to 2^32-1")
        for key in ("ts", "dur"):
            if isinstance(e.get(key), Decimal) and e[key].as_tuple().exponent != -3:
                wrong(5, f"{key} does not have three decimals")
        if name in ("Profile", "CpuProfile", "ProfileChunk"):
            wrong(16, "viewers take this name for a V8 profile")
        if ph == "X":
            self.slice(wrong, e)
        elif ph == "i" and e.get("s") not in ("t", "p", "g"):
            wrong(9, "an instant without a scope")
        elif ph == "C" and not (e.get("args") and all(is_number(v) for v in e["args"].values())) and not self.foreign:
            wrong(9, "a counter that is not numeric")
        elif ph == "M" and name not in ROW_NAMES:
            wrong(14, "a metadata event with an unknown name")
        elif ph == "M" and not isinstance(e.get("args"), dict):
            wrong(3, "no args")

    def slice(self, wrong, e):
        cat, args = e.get("cat"), e.get("args")
        if not isinstance(cat, str) or not cat or not isinstance(args, dict):
            wrong(3, "an X event without cat or args")
        elif cat not in CATEGORIES and not self.foreign:
            wrong(10, f"category {cat}")
        if not is_number(e.get("dur")) or e["dur"] < 0:
            wrong(3, "no dur")
        if args and cat in ON_DEVICE and not (type(args.get("device")) is int and type(args.get("stream")) is int):
            wrong(4, "device work without its device and stream")
        if args and cat == "gpu_user_annotation" and {"device", "stream", "correlation"} & args.keys():
            wrong(10, "an annotation that HTA takes for work")

    def rows(self):
        """Nested or disjoint, at most 512 deep."""
        by_row = defaultdict(list)
        for e in self.slices:
            by_row[e["pid"], e["tid"]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])))
        for row, spans in by_row.items():
            open_ends = []
            for start, end in spans:
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                if open_ends and end > open_ends[-1]:
                    self.wrong(7, f"row {row}: [{start}, {end}] overlaps what ends at {open_ends[-1]}")
                    break
                open_ends.append(end)
                if len(open_ends) > LEVELS_MAX:
                    self.wrong(8, f"row {row} is more than {LEVELS_MAX} deep")
                    break
        named = {(e["pid"], e["tid"]) for e in self.events if e["ph"] == "M" and e["name"] == "thread_name"}
        for row in by_row:
            if row not in named:
                self.wrong(14, f"row {row} has no thread_name")

    def flows(self):
        starts, ends = defaultdict(int), []
        slice_now, launches = None, defaultdict(int)
        for e in self.events:
            if e["ph"] == "X":
                slice_now = e
                if e["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]:
                    launches[e["args"]["correlation"]] += 1
            if e["ph"] not in "stf":
                continue
            if e.get("cat") != e["name"] or type(e.get("id")) is not int:
                self.wrong(11, f"a flow whose cat is not its name, or without an integer id: {e}")
            if e["ph"] == "s":
                starts[e["name"], e["id"]] += 1
            else:
                ends.append(e)
            if e["ph"] == "f" and e.get("bp") != "e":
                self.wrong(11, f"an f without bp e: {e}")
            args = slice_now["args"] if slice_now else {}
            if e["name"] == "ac2g" and "correlation" in args and args["correlation"] != e["id"]:
                self.wrong(11, f"a flow's id is not its slice's correlation: {e}")
        for key, count in starts.items():
            if count > 1:
                self.wrong(11, f"{count} starts of flow {key}")
        for e in ends:
            if (e["name"], e["id"]) not in starts and not self.foreign:  # PyTorch's: the start is outside
                self.wrong(11, f"an end without a start: {e}")
        for correlation, count in launches.items():
            if count > 1 and not self.foreign:
                self.wrong(12, f"{count} launches with correlation {correlation}")


def check_bytes(raw, foreign=False):
    return Checker(raw, foreign).problems


def read(path):
    with open(path, "rb") as file:
        raw = file.read()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def main(args):
    foreign = "--foreign" in args
    paths = [a for a in args if not a.startswith("--")]
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    failed = False
    for path in paths:
        problems = check_bytes(read(path), foreign)
        for problem in problems:
            print(f"{path}: {problem}")
        failed = failed or bool(problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
