#!/usr/bin/env python3
"""The questions of docs/fleet.md, asked as they stand there, of two jobs with planted answers; and the tables as pyarrow and Polars read
them. usage: tests/golden/fleet.py MTPROF FOLDER

DuckDB, pyarrow and Polars are taken from this python, or from a virtual environment in FOLDER, made with pip if PyPI can be reached;
otherwise, or with MTP_TEST_OFFLINE set, the test is skipped with the reason.
"""
import collections
import importlib.util
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
import parquet_file  # noqa: E402

ENGINES = ("duckdb", "pyarrow", "polars")
RANKS, STEPS, LATE = 4, 6, 2
TABLES = "spans memory steps instants names shapes stacks threads losses metadata".split()
count = failed = 0


def has_engines(python):
    return subprocess.run([python, "-c", "import " + ", ".join(ENGINES)], capture_output=True).returncode == 0


def find_engines(folder):
    """A python that has them, or None and the reason."""
    from readers import PIP
    if has_engines(sys.executable):
        return sys.executable, ""
    python = str(folder / "bin" / "python")
    if os.access(python, os.X_OK) and has_engines(python):
        return python, ""
    if os.environ.get("MTP_TEST_OFFLINE"):
        return None, "MTP_TEST_OFFLINE is set"
    if importlib.util.find_spec("ensurepip") is None:
        return None, "this python cannot make a virtual environment (python3-venv)"
    for what in ([sys.executable, "-m", "venv", "--clear", str(folder)], [python, *PIP, *ENGINES]):
        try:
            if subprocess.run(what, capture_output=True, timeout=240).returncode != 0:
                return None, "pip cannot get " + ", ".join(ENGINES)
        except subprocess.TimeoutExpired:
            return None, "pip took more than 4 minutes"
    return (python, "") if has_engines(python) else (None, "pip installed them, but they do not work here")


def check(name, right, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}")
    if not right:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]))


# --------------------------------------------------------------------------------------------- two jobs

OPS = ("aten::mm", "aten::add", "aten::embedding", "loader::next")


def rank_of(job, rank):
    """A rank's trace. In job "after" mm is a fifth slower, and rank 2 waits for its data."""
    chance, events, now = random.Random(f"{job} {rank}"), [], 1_000_000
    def span(cat, name, ts, dur, pid=100, tid=100, **args):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts / 1000, "dur": dur / 1000, "args": args})
    total = 0
    for step in range(STEPS):
        start = now
        for i in range(40):
            name = OPS[i % 4]
            ns = chance.randrange(20_000, 24_000)
            ns = ns * 6 // 5 if job == "after" and name == "aten::mm" else ns
            ns = ns * 3 if job == "after" and rank == LATE and name == "loader::next" else ns
            span("cpu_op", name, now, ns)
            now += ns + 2_000
            size = chance.randrange(1, 100) * 512
            total += size
            if i % 10 == 3:
                total -= size + (size if total > 4 * size else 0)
                size = -size
            events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 100, "ts": (now - 3_000) / 1000,
                           "args": {"Device Type": 1, "Device Id": 0, "Addr": 4096 + i, "Bytes": size, "Total Allocated": total, "Total Reserved": total}})
        span("kernel", "gemm", start + 1_000, 300_000, 0, 7, correlation=step + 1)
        span("kernel", "ncclDevKernel_AllReduce", start + 200_000, 150_000 + 1_000 * rank, 0, 9, correlation=step + 1001)
        span("user_annotation", f"ProfilerStep#{step}", start, now - start)
        now += 50_000
    events.append({"ph": "X", "cat": "cpu_op", "name": "torn", "pid": 100, "tid": 100, "ts": now / 1000, "dur": "?" if rank == 1 and job == "after" else 1})
    return {"distributedInfo": {"rank": rank, "world_size": RANKS, "backend": "nccl"}, "hostname": f"node{rank // 2}", "job": job, "traceEvents": events}


def make(folder, mtprof):
    traces = {}
    for job in ("before", "after"):
        for rank in range(RANKS):
            path = folder / f"{job}-{rank}.json"
            traces[job, rank] = rank_of(job, rank)
            path.write_text(json.dumps(traces[job, rank]))
            subprocess.run([mtprof, "export", "--parquet", folder / "lake", path], check=True, capture_output=True)
    return traces


# ------------------------------------------------------------------------------------------ ten answers

def spans_of(traces, job, cat):
    for rank in range(RANKS):
        for e in traces[job, rank]["traceEvents"]:
            if e["ph"] == "X" and e["cat"] == cat:
                duration = e["dur"] if isinstance(e["dur"], (int, float)) else 0
                yield rank, e["name"], round(e["ts"] * 1000), round(duration * 1000)


def p99(values):
    return sorted(values)[(len(values) * 99 + 99) // 100 - 1]


def answers(traces):
    """Question -> rows, from the traces alone; None: compared by a rule of its own."""
    calls = collections.defaultdict(list)
    for rank, name, _, ns in spans_of(traces, "after", "cpu_op"):
        calls[name, rank].append(ns)
    out = {1: sorted(((name, rank, len(v), p99(v)) for (name, rank), v in calls.items()), key=lambda r: (-r[3], r[0], r[1]))}
    steps = collections.defaultdict(dict)
    for rank, name, _, ns in spans_of(traces, "after", "user_annotation"):
        steps[int(name[13:])][rank] = ns
    out[3] = [(step, min(v.values()), max(v.values()), max(v, key=v.get)) for step, v in sorted(steps.items())]
    late = collections.Counter()
    for v in steps.values():
        for rank, ns in v.items():
            late[f'"node{rank // 2}"'] += ns > 1.1 * statistics.median(v.values())
    out[4] = [(host, STEPS * 2, n, 1 if n else 0) for host, n in sorted(((f'"node{h}"', late[f'"node{h}"']) for h in range(2)), key=lambda r: (-r[1], r[0]))]
    out[7] = [(rank, STEPS * (150_000 + 1000 * rank), STEPS * (150_000 + 1000 * rank - 101_000)) for rank in range(RANKS)]
    peaks = []
    for rank in range(RANKS):
        events = [e["args"]["Total Allocated"] for e in traces["after", rank]["traceEvents"] if e["name"] == "[memory]"]
        peaks.append((rank, max(events)))
    out[9] = sorted(peaks, key=lambda r: (-r[1], r[0]))
    out[10] = [("after", 1, "bad durations", 1)]
    return out


def check_answers(db, blocks, traces):
    views, *questions = blocks
    db.execute(views)
    check("docs/fleet.md has ten questions", len(questions) == 10, len(questions))
    found = {i + 1: db.execute(q).fetchall() for i, q in enumerate(questions)}
    for i, want in answers(traces).items():
        got = [row[:len(want[0])] for row in found[i]]
        check(f"question {i} is answered", got == want, (got[:5], want[:5]))
    names = [row[0] for row in found[2]]
    check("question 2: the slowest name comes first", names[0] == "loader::next" and all(row[3] == RANKS for row in found[2] if row[0] in OPS), found[2])
    check("question 5: the late rank waits for data", found[5][0][:2] == (LATE, "loader::next") and found[5][0][2] > 4_000_000 / 2, found[5][:3])
    check("question 6: mm and the loader became slower, nothing else", {row[0] for row in found[6]} == {"aten::mm", "loader::next"}
          and all(abs(row[3] - .2) < .05 for row in found[6] if row[0] == "aten::mm"), found[6])
    for rank, idle, device in found[8]:
        whole = sum(ns for r, _, _, ns in spans_of(traces, "after", "user_annotation") if r == rank)
        busy = STEPS * (150_000 + 1000 * rank + 300_000 - 101_000)
        check(f"question 8: rank {rank} is as busy as it is", 0 <= idle < .2 and busy * .8 < device * whole <= busy * 1.05, (idle, device, busy / whole))
    check("question 9: an op is named", all(row[2] in OPS for row in found[9]), found[9])


# ------------------------------------------------------------------------------------------ other readers

def check_readers(lake):
    import polars
    import pyarrow.dataset
    import pyarrow.parquet
    for table in TABLES:
        files = sorted(lake.glob(f"{table}/*/*/*.parquet"))
        ours = [parquet_file.read(path) for path in files]
        theirs = pyarrow.dataset.dataset(str(lake / table), partitioning="hive").to_table()
        check(f"{table}: pyarrow finds all rows", theirs.num_rows == sum(len(next(iter(t.values()))) for t in ours) and {"job", "rank"} <= set(theirs.column_names))
        for path, t in zip(files, ours):
            arrow = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True).read()
            frame = polars.read_parquet(path, hive_partitioning=False)
            wrong = [c for c in t if arrow[c].to_pylist() != t[c] or frame[c].to_list() != t[c]]
            if wrong:
                break
        check(f"{table}: pyarrow and Polars read the same", not wrong, (path, wrong))
    schema = pyarrow.parquet.read_schema(files[0])
    check("texts are strings, numbers have their sizes", str(schema.field("key").type) == "string"
          and str(pyarrow.parquet.read_schema(next(lake.glob("memory/*/*/*"))).field("address").type) == "uint64", schema)


def check_docs(text, lake):
    """Every column stands in the page."""
    for table in TABLES:
        columns = parquet_file.schema(next(lake.glob(f"{table}/*/*/*")))[0]
        part = text[text.index("### spans"):text.index("### The others")] if table == "spans" else re.search(rf"^\| `{table}` \|.*$", text, re.M)[0]
        missing = [c for c in columns if f"`{c}`" not in part and not re.fullmatch("(grid|block)_[xyz]", c)]
        check(f"{table}: docs/fleet.md has its columns", not missing, missing)
        if table == "spans":
            rows = re.findall(r"^\| (`.*?) \| (\w+)( \?)? \|", part, re.M)
            said = {c: (kind, bool(optional)) for names, kind, optional in rows for c in re.findall(r"`(\w+)`", names)}
            kinds = {"text": "bytes"}
            wrong = {c: (said[c], columns[c]) for c in said if (kinds.get(said[c][0], said[c][0]), said[c][1]) != columns[c]}
            check("spans: docs/fleet.md has their types", not wrong, wrong)


def main(mtprof):
    import duckdb
    text = (HERE.parent.parent / "docs" / "fleet.md").read_text()
    mtprof = pathlib.Path(mtprof).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        traces = make(folder, mtprof)
        os.chdir(folder)
        check_answers(duckdb.connect(), re.findall(r"```sql\n(.*?)```", text, re.S), traces)
        check_readers(folder / "lake")
        check_docs(text, folder / "lake")
        os.chdir("/")
    print(f"1..{count}")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        place = pathlib.Path(sys.argv[2]).resolve()
        found, reason = find_engines(place)
        if found is None:
            print(f"1..0 # SKIP {reason}")
            sys.exit(77)
        os.execv(found, [found, os.path.abspath(__file__), os.path.abspath(sys.argv[1])])
    sys.exit(main(sys.argv[1]))
