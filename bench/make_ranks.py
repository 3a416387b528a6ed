#!/usr/bin/env python3
"""Writes the traces of a distributed job that never ran, in Kineto's spelling: for each rank host operators, launches, kernels
and NCCL's kernels with their args. Each rank has a clock of its own; from one step on, one rank is late.

    make_ranks.py OUT [--ranks 64] [--events 20000000] [--steps 60] [--straggler 37] [--since 20] [--late-ms 30]
                  [--offset-ms 50] [--drift-ppm 20] [--jobs 2] [--suffix .json.gz]

OUT/truth.json.txt has what was planted: offsets and drifts, to be added to a rank's times, relative to rank 0.
"""
import argparse
import gzip
import json
import multiprocessing
import os
import random

BUCKETS = 10  # all-reduces in a step
BASE = 1_790_000_000_000_000_000  # Unix time of the first instant
KERNEL_NS = 400_000
OP_NS = 4_000  # between launches
SIZES = [4_000_000, 1_000_000, 16_000_000]


def simulate(o):
    """True times: per step its start; per step and bucket when each rank enters, and leaves."""
    chance = random.Random(o.seed)
    units = o.units
    start, steps = 1_000_000_000, []
    for step in range(o.steps):
        enter = [[0] * o.ranks for _ in range(BUCKETS)]
        leave = [[0] * o.ranks for _ in range(BUCKETS)]
        per_bucket = units // BUCKETS
        busy = [start + 100_000 + chance.randrange(20_000) for _ in range(o.ranks)]
        free = busy[:]
        slow = [1.0] * o.ranks
        if step >= o.since:
            slow[o.straggler] = 1 + o.late_ms * 1e6 / (units * KERNEL_NS)
        for b in range(BUCKETS):
            transfer = 15_000 + 500 * (b % 3) * 40
            for r in range(o.ranks):
                busy[r] += int(per_bucket * KERNEL_NS * slow[r]) + chance.randrange(30_000)
                enter[b][r] = max(busy[r], free[r]) + 2_000 + chance.randrange(3_000)
            end = max(enter[b]) + transfer
            for r in range(o.ranks):
                leave[b][r] = free[r] = end + int(chance.random() ** 2 * 3_000)
        steps.append((start, enter, leave, slow))
        start = max(leave[-1]) + 300_000
    return steps


def clocks(o):
    chance = random.Random(o.seed + 1)
    offset = [0] + [int((chance.random() - 0.5) * 2e6 * o.offset_ms) for _ in range(o.ranks - 1)]
    drift = [0.0] + [(chance.random() - 0.5) * 2e-6 * o.drift_ppm for _ in range(o.ranks - 1)]
    return offset, drift


def us(ns):
    return "%d.%03d" % divmod(ns, 1000)


def comm(b, seq, o):
    n = SIZES[b % 3]
    ranks = ", ".join(str(r) for r in range(min(o.ranks, 30))) + (", ..." if o.ranks > 30 else "")
    return ('"Collective name": "allreduce", "In msg nelems": %d, "Out msg nelems": %d, "Group size": %d, "dtype": "Float", '
            '"In split size": "[]", "Out split size": "[]", "Process Group Name": "0", "Process Group Description": '
            '"default_pg", "Process Group Ranks": "[%s]", "Seq": %d' % (n, n, o.ranks, ranks, seq))


def write(args):
    o, r, steps, offset, drift = args
    chance = random.Random(o.seed + 100 + r)

    def shown(t):  # what the rank's clock shows
        return us(t + offset + int(drift * t))
    pid, out, corr = 4000 + r % 8, [], 0
    ops = [("aten::linear", "aten::addmm", "ampere_sgemm_128x64_tn"),
           ("aten::layer_norm", "aten::native_layer_norm", "vectorized_layer_norm_kernel"),
           ("aten::gelu", "aten::gelu_", "vectorized_elementwise_kernel_gelu"),
           ("aten::dropout", "aten::native_dropout", "fused_dropout_kernel_vec")]
    path = os.path.join(o.out, "rank%d%s" % (r, o.suffix))
    opener = (lambda p: gzip.open(p, "wt", compresslevel=1)) if o.suffix.endswith(".gz") else (lambda p: open(p, "w"))
    with opener(path) as f:
        f.write('{"schemaVersion": 1, "deviceProperties": [{"id": %d, "name": "H"}], "distributedInfo": {"backend": "nccl", "rank": %d, '
                '"world_size": %d, "job": "made"}, "hostname": "node%d", "displayTimeUnit": "ms", "baseTimeNanoseconds": %d, '
                '"traceEvents": [\n' % (r % 8, r, o.ranks, r // 8, BASE))
        events = 0
        for s, (start, enter, leave, slow) in enumerate(steps):
            out = []
            end = steps[s + 1][0] if s + 1 < len(steps) else max(leave[-1]) + 300_000
            out.append('{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": %d, "tid": %d, "ts": %s, "dur": '
                       '%s, "args": {"External id": %d, "Ev Idx": %d}}' % (s + o.first_step, pid, pid, shown(start), us(end - start - 1000), corr, events))
            per_bucket, host, unit, free = o.units // BUCKETS, start + 5_000, 0, start + 100_000
            for b in range(BUCKETS):
                ready = enter[b][r] - 4_000
                for k in range(per_bucket):
                    corr += 1
                    top, inner, kernel = ops[unit % 4]
                    unit += 1
                    length = int(KERNEL_NS * (1 + (slow[r] - 1) * (4 if unit % 4 == 1 else 0))) - 600
                    length = max(500, int(length * (0.9 + 0.1 * chance.random())))
                    begin = min(free, ready - length)
                    out.append('{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": %d, "tid": %d, "ts": %s, "dur": 3.600, "args": '
                               '{"External id": %d, "Sequence number": %d, "Fwd thread id": 0}}' % (top, pid, pid, shown(host), corr * 2, corr))
                    out.append('{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": %d, "tid": %d, "ts": %s, "dur": 3.000, "args": '
                               '{"External id": %d}}' % (inner, pid, pid, shown(host + 200), corr * 2 + 1))
                    out.append('{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": %d, "tid": %d, "ts": %s, '
                               '"dur": 1.500, "args": {"External id": %d, "cbid": 211, "correlation": %d}}'
                               % (pid, pid, shown(host + 900), corr * 2 + 1, corr))
                    out.append('{"ph": "X", "cat": "kernel", "name": "%s", "pid": %d, "tid": 7, "ts": %s, "dur": %s, "args": '
                               '{"External id": %d, "device": %d, "context": 1, "stream": 7, "correlation": %d, "grid": [64, 1, 1], '
                               '"block": [128, 1, 1]}}' % (kernel, r % 8, shown(begin), us(length), corr * 2 + 1, r % 8, corr))
                    free = begin + length + 300
                    host += OP_NS
                free = max(free, ready)
                corr += 1
                args = comm(b, s * BUCKETS + b + 1, o)
                out.append('{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": %d, "tid": %d, "ts": %s, "dur": 9.000, '
                           '"args": {"External id": %d, %s}}' % (pid, pid, shown(host), corr * 2, args))
                out.append('{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": %d, "tid": %d, "ts": %s, "dur": '
                           '4.000, "args": {"External id": %d, "correlation": %d}}' % (pid, pid, shown(host + 3_000), corr * 2, corr))
                out.append('{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", '
                           '"pid": %d, "tid": 20, "ts": %s, "dur": %s, "args": {"External id": %d, "device": %d, "context": 1, '
                           '"stream": 20, "correlation": %d, %s}}'
                           % (r % 8, shown(enter[b][r]), us(leave[b][r] - enter[b][r]), corr * 2, r % 8, corr, args))
                host += 12_000
            events += len(out)
            f.write((",\n" if s > 0 else "") + ",\n".join(out))
        f.write('\n], "traceName": "rank%d"}\n' % r)
    return events


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    for name, value in (("ranks", 64), ("events", 20_000_000), ("steps", 60), ("straggler", 37), ("since", 20), ("jobs", 2),
                        ("seed", 1), ("first-step", 10)):
        p.add_argument("--" + name, type=int, default=value)
    for name, value in (("late-ms", 30.0), ("offset-ms", 50.0), ("drift-ppm", 20.0)):
        p.add_argument("--" + name, type=float, default=value)
    p.add_argument("--suffix", default=".json.gz")
    o = p.parse_args()
    if not 0 <= o.straggler < o.ranks:
        p.error(f"--straggler {o.straggler}: ranks are 0 to {o.ranks - 1}")
    o.units = max(BUCKETS, int((o.events / o.ranks / o.steps - 1 - 3 * BUCKETS) / 4) // BUCKETS * BUCKETS)
    os.makedirs(o.out, exist_ok=True)
    steps = simulate(o)
    offset, drift = clocks(o)
    with multiprocessing.Pool(o.jobs) as pool:
        events = sum(pool.imap_unordered(write, ((o, r, steps, offset[r], drift[r]) for r in range(o.ranks))))
    length = max(steps[-1][2][-1])
    truth = {"ranks": o.ranks, "events": events, "base_ns": BASE, "length_ns": length, "straggler": o.straggler,
             "since_step": o.since + o.first_step, "late_ms": o.late_ms, "offset_ns": offset, "drift": drift}
    with open(os.path.join(o.out, "truth.json.txt"), "w") as f:
        json.dump(truth, f)
    print("%d ranks, %d events, %.1f s" % (o.ranks, events, length / 1e9))


if __name__ == "__main__":
    main()
