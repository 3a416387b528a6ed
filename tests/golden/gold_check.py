#!/usr/bin/env python3
"""Compares our results for torch traces with torch's own for the same events.

usage: tests/golden/gold_check.py ROWS TRACE.json.gz|FOLDER...     ROWS: the built tests/tools/rows

Beside each TRACE is its gold file, X.gold.json.gz for X.json.gz: rows, rows_by_shape, rows_by_stack, tables, and stacks.
Times and memory must be equal to the last bit, tables and stacks to the character.
"""
import gzip
import json
import pathlib
import subprocess
import sys

NUMBERS = ("count", "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total",
           "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage", "flops")
TEXTS = ("key", "device_type", "input_shapes", "is_user_annotation", "is_async", "overload_name", "stack")

# gold's name : arguments of tests/tools/rows
ROWS = {"rows": ["json"], "rows_by_shape": ["json", "shapes"], "rows_by_stack": ["json", "stack=5"],
        "rows_by_overload": ["json", "overloads"], "rows_by_all": ["json", "overloads", "shapes", "stack=3"]}
TABLES = {"table": ["table", "sort=self_cpu_time_total", "limit=20"],
          "table_device": ["table", "sort=self_cuda_time_total", "limit=20"],
          "table_all": ["table", "limit=-1"],
          "table_top": ["table", "sort=cpu_time_total", "limit=10", "toplevel"],
          "table_shapes": ["table", "shapes", "sort=cuda_time_total", "limit=15", "name=40", "shape=60",
                           "header=By shape", "unit=ms"],
          "table_stack": ["table", "stack=5", "sort=self_cpu_time_total", "limit=10"],
          "table_overload": ["table", "overloads", "sort=count", "limit=30", "name=-1"],
          "stacks": ["stacks"]}


def rules_of(gold):
    """The rules of the torch version that computed the gold, where it differs from the newest or is wrong."""
    release = tuple(map(int, gold.get("torch", "2.13").split(".")[:2]))
    return ["torch"] + ["python"] * ((2, 12) <= release < (2, 15))


def run(rows, trace, args):
    done = subprocess.run([rows, trace, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError(f"{' '.join(args)}: {done.stderr.decode()}")
    return done.stdout.decode()


def identity(row):
    return (row["key"], row["device_type"], row.get("is_user_annotation", False), row.get("overload_name", ""),
            row["input_shapes"], tuple(row.get("stack", ())))


def compare_rows(ours, gold):
    """The first few differences, one line each."""
    if [identity(r) for r in ours] != [identity(r) for r in gold] and "is_user_annotation" in gold[0]:
        mine, theirs = {identity(r) for r in ours}, {identity(r) for r in gold}
        for row in sorted(mine - theirs)[:3]:
            yield f"only ours: {row}"
        for row in sorted(theirs - mine)[:3]:
            yield f"only torch's: {row}"
        if mine == theirs:
            yield "rows are in another order"
        return
    if len(ours) != len(gold):
        yield f"{len(ours)} rows, torch has {len(gold)}"
        return
    for row, want in zip(ours, gold):
        for name in NUMBERS + TEXTS:
            if name in want and row[name] != want[name]:
                yield f"{want['key'][:50]}: {name} {row[name]}, torch {want[name]}"


def compare_text(ours, gold):
    if ours != gold:
        for number, (a, b) in enumerate(zip(ours.split("\n"), gold.split("\n")), 1):
            if a != b:
                yield f"line {number}:\n      ours  {a}\n      torch {b}"
        if ours.count("\n") != gold.count("\n"):
            yield f"{ours.count(chr(10))} lines, torch {gold.count(chr(10))}"


def check(rows, trace, gold, say=print):
    """Returns (number of answers that agree, number of answers)."""
    good = asked = 0
    for name, args in {**ROWS, **TABLES}.items():
        if name not in gold:
            continue
        asked += 1
        try:
            text = run(rows, trace, args + rules_of(gold))
            problems = compare_rows(json.loads(text), gold[name]) if name in ROWS else compare_text(text, gold[name])
            problems = list(problems)
        except (RuntimeError, ValueError) as error:
            problems = [str(error)]
        good += not problems
        for line in problems[:4]:
            say(f"  {name}: {line}")
        if len(problems) > 4:
            say(f"  {name}: and {len(problems) - 4} more")
    return good, asked


def traces_of(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(map(str, path.glob("*.json.gz"))) if path.is_dir() else [str(path)]


def main(rows, paths):
    bad = 0
    for trace in traces_of(paths):
        if trace.endswith(".gold.json.gz"):
            continue
        with gzip.open(trace.replace(".json.gz", ".gold.json.gz"), "rt") as file:
            gold = json.load(file)
        good, asked = check(rows, trace, gold)
        bad += good != asked
        print(f"{trace.rsplit('/', 1)[-1]}: {good} of {asked} answers agree with torch {gold.get('torch', '')}")
    return int(bad != 0)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
