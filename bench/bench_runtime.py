#!/usr/bin/env python3
"""The tensor runtime compared with NumPy, OpenBLAS and, if installed, PyTorch: one run, one thread, minima of many repeats.

usage: bench_runtime.py [FIGURES.json]
"""
import ctypes
import json
import os
import pathlib
import sys
import time
import timeit

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "examples" / "train")]

import numpy as np  # noqa: E402

import mindtorch_v2  # noqa: E402
import train  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

figures = {}


def say(name, value, unit, bar=None, note=""):
    figures[name] = value
    print(f"  {name:32} {value:12.2f} {unit:6}{'<= %g' % bar if bar else '':10}{note}")


def each_ns(statement, names, number, repeats=25):
    return min(timeit.repeat(statement, globals=names, number=number, repeat=repeats)) / number * 1e9


def alternately(functions, repeats):
    """The best time of each in seconds; runs alternate, so that all see the same machine."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, f in enumerate(functions):
            began = time.perf_counter()
            f()
            best[i] = min(best[i], time.perf_counter() - began)
    return best


def openblas_gemm(a, b, c):
    """Calls cblas_sgemm of the OpenBLAS that the runtime found."""
    for name in ("libopenblas.so.0", "libopenblas.so", "libblas.so.3"):
        try:
            blas = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        return None
    if hasattr(blas, "openblas_set_num_threads"):
        blas.openblas_set_num_threads(1)
    n = a.shape[0]
    one, zero, pointer = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_void_p
    args = (101, 111, 111, n, n, n, one, pointer(a.ctypes.data), n, pointer(b.ctypes.data), n, zero, pointer(c.ctypes.data), n)
    return lambda: blas.cblas_sgemm(*args)


def bench_dispatch():
    frames = {"numpy": np.ones((2, 2), np.float32), "mindtorch": mindtorch_v2.ones(2, 2)}
    if torch:
        frames["torch"] = torch.ones(2, 2)
    best = {name: float("inf") for name in frames}
    for _ in range(10):
        for name, x in frames.items():
            best[name] = min(best[name], each_ns("x + x", {"x": x}, 20000, 3))
    say("py_add_2x2_ns", best["mindtorch"], "ns", note="x + x, 2 x 2, from Python")
    say("py_add_2x2_numpy_ns", best["numpy"], "ns", note="the same in NumPy")
    if torch:
        say("py_add_2x2_torch_ns", best["torch"], "ns", note="the same in PyTorch")
        say("py_add_2x2_over_torch", best["mindtorch"] / best["torch"], "x", 0.5)


def bench_matmul():
    a, b = (np.random.rand(512, 512).astype(np.float32) for _ in range(2))
    x, y = mindtorch_v2.from_numpy(a), mindtorch_v2.from_numpy(b)
    c = np.empty_like(a)
    functions = [lambda: x @ y, lambda: np.matmul(a, b, out=c), openblas_gemm(a, b, c)]
    if torch:
        p, q = torch.from_numpy(a), torch.from_numpy(b)
        functions.append(lambda: p @ q)
    times = alternately([f for f in functions if f], 60)
    say("matmul_512_us", times[0] * 1e6, "us", note=f"512 x 512, one thread, {mindtorch_v2._C.blas_name()}")
    say("matmul_512_numpy_us", times[1] * 1e6, "us")
    if functions[2]:
        say("matmul_512_openblas_us", times[2] * 1e6, "us", note="cblas_sgemm called directly")
        say("matmul_512_over_openblas", times[0] / times[2], "x", 1.2)
    if torch:
        say("matmul_512_torch_us", times[-1] * 1e6, "us")


def stepper(framework, model):
    _, optimizer, loss_of = train.MODELS[model](framework)
    count = [0]

    def step():
        loss = loss_of(count[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count[0] += 1

    return step


def bench_training():
    for model, bar in (("mlp", None), ("cnn", None), ("gpt", 2)):
        steps = [stepper(mindtorch_v2, model)] + ([stepper(torch, model)] if torch else [])
        times = alternately(steps, 60)
        say(f"{model}_step_ms", times[0] * 1e3, "ms", note="one training step, one thread")
        if torch:
            say(f"{model}_step_torch_ms", times[1] * 1e3, "ms")
            say(f"{model}_step_over_torch", times[0] / times[1], "x", bar)


def adam_stepper(framework, **options):
    params = [framework.ones((512, 512), requires_grad=True) for _ in range(10)]
    for p in params:
        p.grad = framework.full((512, 512), 0.01)
    return framework.optim.Adam(params, **options).step


def bench_optimizers():
    """Parameter by parameter (the default) and all at once."""
    for name, options, bar in (("adam", {}, 1), ("adam_fused", {"fused": True}, None)):
        steps = [adam_stepper(framework, **options) for framework in (mindtorch_v2, torch) if framework]
        times = alternately(steps, 30)
        say(f"{name}_step_ms", times[0] * 1e3, "ms", note="ten parameters of 512 x 512, one thread")
        if torch:
            say(f"{name}_step_torch_ms", times[1] * 1e3, "ms")
            say(f"{name}_step_over_torch", times[0] / times[1], "x", bar)


def main():
    mindtorch_v2.set_num_threads(1)
    if torch:
        torch.set_num_threads(1)
    print(f"mindtorch_v2 vs. NumPy {np.__version__} and {'PyTorch ' + torch.__version__ if torch else 'no PyTorch'}")
    bench_dispatch()
    bench_matmul()
    bench_training()
    bench_optimizers()
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
