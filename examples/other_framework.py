#!/usr/bin/env python3
"""Another framework under the same profiler: all it takes is a dispatcher that reports to mtprof what it runs.

    PYTHONPATH=src python3 examples/other_framework.py [TRACE.json.gz]

The "framework" here is NumPy behind a dispatch() of thirty lines; mindtorch_v2 is not imported.
"""
import sys

import mtprof
import numpy as np


class Array:
    """A tensor of the other framework: anything with .shape and .device."""

    device = "cpu"

    def __init__(self, data):
        self.data = data

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)


def dispatch(name, function, *args):
    token = mtprof.dispatch_op_enter(name, args[0].device, args, {}) if mtprof.is_profiler_enabled() else None
    try:
        return Array(function(*(a.data if isinstance(a, Array) else a for a in args)))
    finally:
        mtprof.dispatch_op_exit(token)


def network(x, w1, w2):
    with mtprof.record_function("forward"):
        h = dispatch("np::matmul", np.matmul, x, w1)
        h = dispatch("np::maximum", np.maximum, h, 0.0)
        return dispatch("np::matmul", np.matmul, h, w2)


def main():
    x, w1, w2 = (Array(np.random.rand(*shape).astype(np.float32)) for shape in ((64, 784), (784, 128), (128, 10)))
    session = mtprof.Session(activities=mtprof.CPU, record_shapes=True)
    session.prepare()
    session.start()
    for step in range(10):
        session.mark_step(step)
        network(x, w1, w2)
    session.stop()
    trace = session.trace()
    print(trace.averages(by_input_shape=True).table(sort_by="self_cpu_time_total"))
    if len(sys.argv) > 1:
        trace.chrome(sys.argv[1], "other_framework")
        print(f"trace: {sys.argv[1]}")


if __name__ == "__main__":
    main()
