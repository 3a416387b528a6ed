#!/usr/bin/env python3
"""How long DuckDB takes for p99 by name and rank, over 1, 4 and 16 ranks, on two cores.

usage: bench/bench_fleet.py OUT.json [FOLDER TRACE [RANKS ...]]

TRACE (by default made by bench/make_large_trace.py) is exported once for each rank, so that all ranks have the same spans. FOLDER gets about
9 bytes a span, and is removed at the end. Prints a table; the times are the best of three.
"""
import json
import pathlib
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

QUERY = """SELECT name, rank, count(*), quantile_disc(dur_ns, 0.99) FROM read_parquet('{}/spans/*/*/*.parquet', hive_partitioning = true)
WHERE rank < {} GROUP BY name, rank"""
APPROXIMATE = QUERY.replace("quantile_disc(dur_ns, 0.99)", "approx_quantile(dur_ns, 0.99)")
SUMS = QUERY.replace("quantile_disc(dur_ns, 0.99)", "sum(self_ns)")
NAMES = """SELECT name, sum(self_ns) FROM read_parquet('{}/names/*/*/*.parquet', hive_partitioning = true) WHERE rank < {} GROUP BY name"""


def best(db, query):
    """The wall time, and the CPU time of both cores: of a machine that does nothing else the former is half of the latter."""
    times = []
    for _ in range(3):
        start, cpu = time.perf_counter(), time.process_time()
        db.execute(query).fetchall()
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return min(times)


def main(out, folder=None, path=None, *ranks):
    figures = {}
    if duckdb is None:
        print("bench_fleet: this python has no duckdb")
        json.dump(figures, open(out, "w"))
        return
    lake = pathlib.Path(folder or out + ".lake")
    made = None
    if path is None:
        path = made = out + ".trace.json"
        subprocess.run([sys.executable, HERE / "make_large_trace.py", HERE.parent / "tests/golden/torch/cuda_gpt.json.gz", "1000000", made], check=True)
    trace = mtprof.Trace.open(path)
    spans = trace.info()["spans"]
    ranks = [int(r) for r in ranks] or [1, 4, 16]
    start = time.process_time()
    for rank in range(max(ranks)):
        trace.parquet(lake, "bench", rank)
    took = time.process_time() - start
    size = sum(p.stat().st_size for p in lake.rglob("*.parquet"))
    print(f"{max(ranks)} ranks of {spans} spans: {took:.1f} s to write, {spans * max(ranks) / took / 1e6:.2f} million spans/s, {size / spans / max(ranks):.2f} bytes/span")
    db = duckdb.connect()
    db.execute("SET threads = 2")
    for count in ranks:
        took = {name: best(db, query.format(lake, count)) for name, query in (("p99", QUERY), ("approximate", APPROXIMATE), ("sums", SUMS), ("names", NAMES))}
        print(f"{count:5} ranks {spans * count / 1e6:8.1f} million spans: " + ", ".join(f"{name} {s:.2f} s ({cpu:.2f} s CPU)" for name, (s, cpu) in took.items()), flush=True)
        figures |= {f"fleet_{count}_ranks_{name}_s": s for name, (s, _) in took.items()}
    shutil.rmtree(lake)
    if made is not None:
        pathlib.Path(made).unlink()
    json.dump(figures, open(out, "w"), indent=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
