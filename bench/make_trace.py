#!/usr/bin/env python3
"""Make a large Kineto trace from a small one, or from scratch. Standard library only.

usage: bench/make_trace.py OUT --mb N [--from TRACE.json[.gz]] [--varied]

With --from the events of a real trace are repeated: each copy starts after the previous one, and its External ids and
flow ids continue counting, so the copies are as distinct as the steps of one long run. Without it the trace is that of
a synthetic training loop: ops with shapes, Python functions, launches, kernels, memory, flows. --varied gives every op
different shapes, the worst case for a reader that interns strings.
"""
import argparse
import gzip
import json
import random
import re
import sys


def from_trace(path, out, size):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    start = text.index('"traceEvents": [') + len('"traceEvents": [')
    end = text.rindex("\n  ],")
    head, body, tail = text[:start], text[start:end], text[end:]
    times = [float(t) for t in re.findall(r'"ts": ([\d.]+)', body)]
    span = int(max(times) - min(times)) + 1000
    ids = max([int(i) for i in re.findall(r'"External id": (\d+)', body)], default=0) + 1
    # The pieces to rewrite in each copy; everything in between is copied byte for byte.
    parts = re.split(r'("ts": \d+|"External id": \d+|"id": \d+|"Ev Idx": \d+)', body)
    out.write(head)
    written, copy = len(head) + len(tail), 0
    while written < size or copy == 0:
        pieces = []
        for part in parts:
            key, colon, number = part.rpartition(": ") if part.startswith('"') else ("", "", "")
            if key == '"ts"' and number.isdigit():
                part = f'"ts": {int(number) + copy * span}'
            elif key in ('"External id"', '"id"', '"Ev Idx"') and number.isdigit():
                part = f"{key}: {int(number) + copy * ids}"
            pieces.append(part)
        block = ("," if copy else "") + "".join(pieces)
        out.write(block)
        written += len(block)
        copy += 1
    out.write(tail)


class Maker:
    """A synthetic training loop, event by event, in Kineto's format."""

    def __init__(self, out, varied):
        self.out, self.varied = out, varied
        self.ts, self.ids, self.index, self.written, self.first = 1000.0, 0, 0, 0, True
        self.random = random.Random(1)

    def event(self, text):
        block = ("" if self.first else ",") + "\n  {\n    " + text + "\n  }"
        self.first = False
        self.out.write(block)
        self.written += len(block)

    def span(self, cat, name, ts, dur, args, pid=4242, tid=4242):
        self.event(f'"ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, "pid": {pid}, "tid": {tid},\n'
                   f'    "ts": {ts:.3f}, "dur": {dur:.3f},\n    "args": {{\n      {args}\n    }}')

    def op(self, name):
        self.ids += 1
        self.index += 1
        a, b, c = ((self.random.randrange(1, 4096) for _ in range(3)) if self.varied
                   else (self.random.choice((32, 64, 128)) for _ in range(3)))
        start, length = self.ts, self.random.uniform(5, 80)
        self.span("python_function", f"train.py({self.ids % 400}): step", start - 1, length + 2,
                  f'"Python id": {self.ids}, "Python parent id": {self.ids - 1}, "Ev Idx": {self.index}')
        self.index += 1
        self.span("cpu_op", name, start, length,
                  f'"External id": {self.ids},"Record function id": 0, "Concrete Inputs": ["", "", ""], '
                  f'"Input type": ["float", "float", "Scalar"], "Input Strides": [[{b}, 1], [{c}, 1], []], '
                  f'"Input Dims": [[{a}, {b}], [{b}, {c}], []], "Ev Idx": {self.index}')
        self.span("cuda_runtime", "cudaLaunchKernel", start + 1, 3,
                  f'"External id": {self.ids}, "cbid": 211, "correlation": {self.ids}')
        self.event(f'"ph": "s", "id": {self.ids}, "pid": 4242, "tid": 4242, "ts": {start + 1:.3f},\n'
                   f'    "cat": "ac2g", "name": "ac2g"')
        self.span("kernel", f"void gemm_{name[6:]}<float, 128>(float*, float const*, int)", start + 4, length - 4.5,
                  f'"External id": {self.ids}, "queued": 0, "device": 0, "context": 1,\n      "stream": 7, '
                  f'"correlation": {self.ids},\n      "registers per thread": 122,\n      "grid": [{a}, 1, 1],\n'
                  f'      "block": [256, 1, 1]', 0, 7)
        self.event(f'"ph": "f", "id": {self.ids}, "pid": 0, "tid": 7, "ts": {start + 4:.3f},\n'
                   f'    "cat": "ac2g", "name": "ac2g", "bp": "e"')
        self.event(f'"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n    "pid": 4242, "tid": 4242,\n'
                   f'    "ts": {start + 2:.3f},\n    "args": {{\n      "Total Reserved": 0, "Total Allocated": {a * b * 4}, '
                   f'"Bytes": {a * b * 4}, "Device Id": 0, "Device Type": 1, "Addr": {1 << 40 | self.ids << 9}, '
                   f'"Ev Idx": {self.index}\n    }}')
        self.ts += length + 3

    def make(self, size):
        self.out.write('{\n  "schemaVersion": 1,\n  "displayTimeUnit": "ms",\n'
                       '  "baseTimeNanoseconds": 1790857026000000000,\n  "traceEvents": [')
        names = ("aten::mm", "aten::add", "aten::mul", "aten::native_layer_norm", "aten::_softmax", "aten::addmm")
        step = 0
        while self.written < size:
            began = self.ts
            for _ in range(200):
                self.op(self.random.choice(names))
            self.ids += 1
            self.span("user_annotation", f"ProfilerStep#{step}", began - 2, self.ts - began + 1,
                      f'"External id": {self.ids},"Record function id": 0, "Ev Idx": {self.index}')
            step += 1
        self.out.write('\n  ],\n  "traceName": "made up"\n}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--mb", type=float, required=True)
    parser.add_argument("--from", dest="source")
    parser.add_argument("--varied", action="store_true")
    args = parser.parse_args()
    size = int(args.mb * 1e6)
    with open(args.out, "w", encoding="utf-8", errors="surrogateescape") as out:
        if args.source:
            from_trace(args.source, out, size)
        else:
            Maker(out, args.varied).make(size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
