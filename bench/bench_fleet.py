#!/usr/bin/env python3
"""How tables grow with the number of ranks: bytes and time of an export for each span, time of docs/fleet.md's questions 1 and 2 in DuckDB, on
two cores.

usage: bench/bench_fleet.py OUT.json [--spans N] [--trace TRACE] [--folder FOLDER] [RANKS ...]     default: 1 4 16

TRACE (by default made by bench/make_large_trace.py, of N spans, default 1,000,000) is exported once for each rank, so that all ranks have the same
spans. FOLDER gets about 9 bytes a span, and is removed at the end. Prints a table; the times are the best of three, with the listing of the files.
"""
import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))
import mtprof  # noqa: E402

try:
    import duckdb
except ImportError:
    duckdb = None

SPANS = "read_parquet('{}/spans/*/*/*.parquet', hive_partitioning = true) WHERE rank < {}"
NAMES = "read_parquet('{}/names/*/*/*.parquet', hive_partitioning = true) WHERE rank < {}"
QUERIES = {
    "p99": f"SELECT name, rank, count(*), quantile_disc(dur_ns, 0.99) FROM {SPANS} GROUP BY name, rank",
    "approximate": f"SELECT name, rank, count(*), approx_quantile(dur_ns, 0.99) FROM {SPANS} GROUP BY name, rank",
    "question_1": f"SELECT name, rank, count(*), quantile_disc(dur_ns, 0.99) AS p99_ns FROM {SPANS} AND kind = 'op' GROUP BY name, rank ORDER BY p99_ns DESC, name, rank",
    "question_2": f"SELECT name, sum(spans), sum(self_ns) AS self_ns, count(DISTINCT rank) FROM {NAMES} GROUP BY name ORDER BY self_ns DESC, name LIMIT 20",
}


def best(db, query):
    """The wall time, and the CPU time of both cores: of a machine that does nothing else the former is half of the latter."""
    times = []
    for _ in range(3):
        start, cpu = time.perf_counter(), time.process_time()
        db.execute(query).fetchall()
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return min(times)


def size(lake, *patterns):
    return sum(p.stat().st_size for pattern in patterns for p in lake.glob(pattern))


def grow(db, trace, lake, counts, spans):
    """Exports ranks up to each count in turn, and asks."""
    figures, written, wall, cpu = {}, 0, 0.0, 0.0
    print(f"{spans:,} spans a rank\n{'ranks':>6} {'spans':>13} {'MB':>8} {'bytes/span':>10} {'export':>11} " + " ".join(f"{name:>20}" for name in QUERIES))
    for count in sorted(counts):
        start, busy = time.perf_counter(), time.process_time()
        for rank in range(written, count):
            trace.parquet(lake, "bench", rank)
        wall, cpu, written = wall + time.perf_counter() - start, cpu + time.process_time() - busy, count
        total = size(lake, "*/*/*/*.parquet")
        took = {name: best(db, query.format(lake, count)) for name, query in QUERIES.items()}
        print(f"{count:6} {spans * count:13,} {total / 1e6:8.1f} {total / spans / count:10.2f} {cpu / spans / count * 1e9:4.0f} ns/span " +
              " ".join(f"{s:8.2f} s ({busy:5.2f} CPU)" for s, busy in took.values()), flush=True)
        figures |= {f"fleet_{count}_ranks_{name}_s": s for name, (s, _) in took.items()}
        figures |= {f"fleet_{count}_ranks_bytes_per_span": total / spans / count, f"fleet_{count}_ranks_export_ns_per_span": cpu / spans / count * 1e9}
    small = size(lake, "[!s]*/*/*/*.parquet", "s[!p]*/*/*/*.parquet") / written
    print(f"an export takes {wall / written * 1e3:.0f} ms a rank, {cpu / written * 1e3:.0f} of them computing; all tables but spans are {small / 1e3:.1f} KB a rank; "
          f"this process took at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
    return figures


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("out")
    options.add_argument("--spans", type=int, default=1000000)
    options.add_argument("--trace")
    options.add_argument("--folder")
    options.add_argument("ranks", type=int, nargs="*", default=[1, 4, 16])
    given, figures = options.parse_intermixed_args(), {}
    if duckdb is None:
        print("bench_fleet: this python has no duckdb")
    else:
        lake = pathlib.Path(given.folder or given.out + ".lake")
        path = given.trace or given.out + ".trace.json"
        if given.trace is None:
            subprocess.run([sys.executable, HERE / "make_large_trace.py", HERE.parent / "tests/golden/torch/cuda_gpt.json.gz", str(given.spans), path], check=True)
        trace = mtprof.Trace.open(path)
        if given.trace is None:
            pathlib.Path(path).unlink()
        db = duckdb.connect()
        db.execute("SET threads = 2")
        try:
            figures = grow(db, trace, lake, given.ranks, trace.info()["spans"])
        finally:
            shutil.rmtree(lake, ignore_errors=True)
    with open(given.out, "w", encoding="utf-8") as file:
        json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
