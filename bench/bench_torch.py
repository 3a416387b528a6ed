#!/usr/bin/env python3
"""mindtorch_v2 beside PyTorch over some 160 cases: both in one process, alternating, minima of many short repeats.

usage: bench_torch.py [FIGURES.json] [--threads N] [--only TEXT[,TEXT...]] [--seconds S]

A case runs for S seconds (default 0.8). Without PyTorch there is nothing to compare with, and no figure is written.
"""
import argparse
import json
import math
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "examples" / "train")]
WORST, MEAN = 1.2, 0.5  # bars: any case, the geometric mean

CASES = {}  # name -> function of a framework that returns what to time


def case(name, backward=False):
    """Adds a case; with backward=True a second one that also differentiates. The function returns (f, inputs)."""

    def add(make):
        def forward(fw):
            f, inputs = make(fw)
            return lambda: f(*inputs)

        def both(fw):
            f, inputs = make(fw)
            leaves = [t for t in inputs if t.is_floating_point()]
            for leaf in leaves:
                leaf.requires_grad_(True)
            grad = fw.ones_like(f(*inputs).detach())

            def run():
                f(*inputs).backward(grad)
                for leaf in leaves:
                    leaf.grad = None

            return run

        CASES[name] = forward
        if backward:
            CASES[name + ", backward"] = both
        return make

    return add


def of(fw, *shape, dtype="float32", low=-2.0, high=2.0):
    """Values that are the same in both frameworks."""
    import numpy as np

    numbers = np.random.default_rng(sum(shape) + len(shape)).uniform(low, high, shape)
    return fw.from_numpy(numbers.astype(dtype))


def ints(fw, high, *shape):
    import numpy as np

    return fw.from_numpy(np.random.default_rng(high).integers(0, high, shape))


# ------------------------------------------------------------------------------------------- elementwise, layouts

N = 1 << 17


def elementwise(name, f, backward=False, dtype="float32", n=N, operands=1, low=-2.0):
    case(name, backward)(lambda fw: (lambda *x: f(fw, *x), [of(fw, n, dtype=dtype, low=low) for _ in range(operands)]))


def add_elementwise():
    elementwise("add, 128k", lambda fw, a, b: a + b, operands=2, backward=True)
    elementwise("add, 4M", lambda fw, a, b: a + b, operands=2, n=1 << 22)
    elementwise("add, 64", lambda fw, a, b: a + b, operands=2, n=64, backward=True)
    elementwise("2 - x", lambda fw, x: 2 - x)
    elementwise("mul, int64", lambda fw, a, b: a * b, operands=2, dtype="int64")
    elementwise("where", lambda fw, a, b: fw.where(a > b, a, b), operands=2)
    elementwise("clamp", lambda fw, x: x.clamp(-1, 1))
    elementwise("pow 3", lambda fw, x: x**3)
    elementwise("sqrt", lambda fw, x: x.sqrt(), low=0.1)
    elementwise("float to double", lambda fw, x: x.double())
    for name in ("exp", "log", "sin", "tanh", "sigmoid", "erf"):
        elementwise(name, lambda fw, x, name=name: getattr(fw, name)(x), low=0.1 if name == "log" else -2.0)
    for name in ("exp", "log", "sin", "tanh", "sigmoid", "erf"):
        low = 0.1 if name == "log" else -2.0
        elementwise(name + ", float64", lambda fw, x, name=name: getattr(fw, name)(x), dtype="float64", low=low)
    for name in ("relu", "gelu", "silu"):
        elementwise(name, lambda fw, x, name=name: getattr(fw.nn.functional, name)(x), backward=True)
    elementwise("gelu tanh", lambda fw, x: fw.nn.functional.gelu(x, approximate="tanh"))


@case("(N,3) + (3)", backward=True)
def _(fw):
    return fw.add, [of(fw, 40000, 3), of(fw, 3)]


@case("(512,512) + (512)", backward=True)
def _(fw):
    return fw.add, [of(fw, 512, 512), of(fw, 512)]


@case("(512,512) + (512,1)")
def _(fw):
    return fw.add, [of(fw, 512, 512), of(fw, 512, 1)]


@case("(16,64,28,28) * (64,1,1)")
def _(fw):
    return fw.mul, [of(fw, 16, 64, 28, 28), of(fw, 64, 1, 1)]


@case("add of transposed")
def _(fw):
    return fw.add, [of(fw, 512, 512).t(), of(fw, 512, 512).t()]


@case("add of transposed and not")
def _(fw):
    return fw.add, [of(fw, 512, 512).t(), of(fw, 512, 512)]


@case("transposed contiguous")
def _(fw):
    return lambda x: x.t().contiguous(), [of(fw, 1024, 768)]


@case("NCHW to NHWC")
def _(fw):
    return lambda x: x.permute(0, 2, 3, 1).contiguous(), [of(fw, 16, 64, 28, 28)]


@case("every second element, add")
def _(fw):
    return lambda x: x[:, ::2] + 1, [of(fw, 512, 1024)]


@case("part of rows, mul")
def _(fw):
    return lambda x: x[:, 10:200] * 2.0, [of(fw, 1024, 256)]


@case("heads (8,128,8,64), contiguous")
def _(fw):
    return lambda x: x.transpose(1, 2).contiguous(), [of(fw, 8, 128, 8, 64)]


# ----------------------------------------------------------------------------------------------------- reductions


def reduction(name, f, *shape, backward=False, dtype="float32"):
    case(name, backward)(lambda fw: (lambda x: f(fw, x), [of(fw, *shape, dtype=dtype)]))


def add_reductions():
    reduction("sum, 1M", lambda fw, x: x.sum(), 1 << 20, backward=True)
    reduction("sum, float64", lambda fw, x: x.sum(), 1 << 18, dtype="float64")
    reduction("sum(0)", lambda fw, x: x.sum(0), 1024, 256)
    reduction("mean(-1)", lambda fw, x: x.mean(-1), 4096, 64, backward=True)
    reduction("mean(-1), long", lambda fw, x: x.mean(-1), 256, 4096)
    reduction("sum((0, 2, 3))", lambda fw, x: x.sum((0, 2, 3)), 16, 64, 28, 28)
    reduction("max(-1)", lambda fw, x: x.max(-1)[0], 1024, 256)
    reduction("amax(0)", lambda fw, x: x.amax(0), 1024, 256)
    reduction("argmax(-1)", lambda fw, x: x.argmax(-1), 1024, 256)
    reduction("var(-1)", lambda fw, x: x.var(-1), 1024, 256)
    reduction("norm", lambda fw, x: x.norm(), 1 << 18)
    reduction("any", lambda fw, x: (x > 3).any(), 1 << 18)
    reduction("cumsum(-1)", lambda fw, x: x.cumsum(-1), 512, 512)
    reduction("cumsum(0)", lambda fw, x: x.cumsum(0), 512, 512)
    reduction("sort", lambda fw, x: x.sort(-1)[0], 1 << 16)
    reduction("sort rows", lambda fw, x: x.sort(-1)[0], 512, 128)
    reduction("topk", lambda fw, x: x.topk(10, -1)[0], 64, 4096)
    reduction("logsumexp", lambda fw, x: x.logsumexp(-1), 1024, 256)
    reduction("softmax, 128", lambda fw, x: x.softmax(-1), 2048, 128, backward=True)
    reduction("softmax, 1024", lambda fw, x: x.softmax(-1), 256, 1024, backward=True)
    reduction("log_softmax, 10", lambda fw, x: x.log_softmax(-1), 8192, 10, backward=True)
    reduction("softmax(1) of images", lambda fw, x: x.softmax(1), 4, 21, 64, 64)


# --------------------------------------------------------------------------------------- convolutions and pools


def conv(name, images, channels, size, out, kernel, stride=1, groups=1):
    def make(fw):
        inputs = [of(fw, images, channels, size, size), of(fw, out, channels // groups, kernel, kernel), of(fw, out)]
        pad = kernel // 2
        return lambda x, w, b: fw.nn.functional.conv2d(x, w, b, stride=stride, padding=pad, groups=groups), inputs

    case(name, backward=True)(make)


def pool(name, f, *shape):
    case(name, backward=True)(lambda fw: (lambda x: f(fw.nn.functional, x), [of(fw, *shape)]))


def add_windows():
    conv("conv 3x3, 64 channels, batch 1", 1, 64, 28, 64, 3)
    conv("conv 3x3, 64 channels, batch 16", 16, 64, 14, 64, 3)
    conv("conv 3x3, 3 channels, batch 16", 16, 3, 32, 16, 3)
    conv("conv 1x1, batch 1", 1, 64, 28, 128, 1)
    conv("conv 1x1, batch 16", 16, 64, 14, 128, 1)
    conv("conv 7x7, stride 2", 1, 3, 112, 64, 7, stride=2)
    conv("conv 7x7, stride 2, batch 16", 16, 3, 32, 16, 7, stride=2)
    conv("conv 3x3, stride 2", 16, 32, 28, 64, 3, stride=2)
    conv("conv depthwise, batch 1", 1, 64, 56, 64, 3, groups=64)
    conv("conv depthwise, batch 16", 16, 64, 14, 64, 3, groups=64)
    conv("conv depthwise, stride 2", 4, 64, 28, 64, 3, groups=64, stride=2)
    case("conv1d", True)(lambda fw: (lambda x, w: fw.nn.functional.conv1d(x, w, padding=2), [of(fw, 16, 32, 256), of(fw, 32, 32, 5)]))
    pool("max_pool2d", lambda f, x: f.max_pool2d(x, 2), 16, 32, 28, 28)
    pool("max_pool2d 3x3, stride 2", lambda f, x: f.max_pool2d(x, 3, 2, 1), 4, 64, 56, 56)
    pool("avg_pool2d", lambda f, x: f.avg_pool2d(x, 2), 16, 32, 28, 28)
    pool("adaptive_avg_pool2d(1)", lambda f, x: f.adaptive_avg_pool2d(x, 1), 16, 128, 14, 14)
    pool("adaptive_avg_pool2d(7)", lambda f, x: f.adaptive_avg_pool2d(x, 7), 16, 32, 28, 28)


# ------------------------------------------------------------------------------------------ norms and attention


def add_layers():
    case("layer_norm, 256", True)(
        lambda fw: (lambda x, w, b: fw.nn.functional.layer_norm(x, (256,), w, b), [of(fw, 1024, 256), of(fw, 256), of(fw, 256)])
    )
    case("layer_norm, 64", True)(
        lambda fw: (lambda x, w, b: fw.nn.functional.layer_norm(x, (64,), w, b), [of(fw, 4096, 64), of(fw, 64), of(fw, 64)])
    )
    case("rms_norm", True)(lambda fw: (lambda x, w: fw.nn.functional.rms_norm(x, (256,), w), [of(fw, 1024, 256), of(fw, 256)]))
    case("batch_norm", True)(
        lambda fw: (
            lambda x, w, b: fw.nn.functional.batch_norm(x, None, None, w, b, training=True),
            [of(fw, 16, 64, 14, 14), of(fw, 64), of(fw, 64)],
        )
    )
    case("cross_entropy", True)(
        lambda fw: (lambda x, y: fw.nn.functional.cross_entropy(x, y), [of(fw, 512, 1000), ints(fw, 1000, 512)])
    )
    for time_, heads in ((128, 8), (1024, 2)):
        case(f"sdpa {time_}", True)(
            lambda fw, time_=time_, heads=heads: (
                fw.nn.functional.scaled_dot_product_attention,
                [of(fw, 1, heads, time_, 64) for _ in range(3)],
            )
        )
    case("sdpa 1024, causal")(
        lambda fw: (
            lambda q, k, v: fw.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
            [of(fw, 1, 2, 1024, 64) for _ in range(3)],
        )
    )
    case("linear", True)(
        lambda fw: (fw.nn.functional.linear, [of(fw, 128, 256), of(fw, 256, 256), of(fw, 256)])
    )
    case("matmul 256")(lambda fw: (fw.matmul, [of(fw, 256, 256), of(fw, 256, 256)]))
    case("bmm")(lambda fw: (fw.bmm, [of(fw, 32, 64, 64), of(fw, 32, 64, 64)]))


# ------------------------------------------------------------------------------------------------ moving elements


def add_moves():
    case("cat(0)")(lambda fw: (lambda *t: fw.cat(t), [of(fw, 256, 256) for _ in range(4)]))
    case("cat(1)", True)(lambda fw: (lambda *t: fw.cat(t, 1), [of(fw, 256, 64) for _ in range(4)]))
    case("cat(1) of narrow")(lambda fw: (lambda *t: fw.cat(t, 1), [of(fw, 20000, 2) for _ in range(3)]))
    case("stack(-1)")(lambda fw: (lambda *t: fw.stack(t, -1), [of(fw, 256, 256) for _ in range(2)]))
    case("x[index]", True)(lambda fw: (lambda x, i: x[i], [of(fw, 4096, 64), ints(fw, 4096, 2048)]))
    case("x[mask]")(lambda fw: (lambda x: x[x > 0], [of(fw, N)]))
    case("gather")(lambda fw: (lambda x, i: x.gather(1, i), [of(fw, 512, 256), ints(fw, 256, 512, 128)]))
    case("index_select(1)")(lambda fw: (lambda x, i: x.index_select(1, i), [of(fw, 512, 256), ints(fw, 256, 128)]))
    case("embedding", True)(lambda fw: (lambda i, w: fw.nn.functional.embedding(i, w), [ints(fw, 5000, 16, 64), of(fw, 5000, 128)]))
    case("index_add_")(
        lambda fw: (lambda x, i, y: x.index_add_(0, i, y), [of(fw, 1024, 64), ints(fw, 1024, 2048), of(fw, 2048, 64)])
    )


# ------------------------------------------------------------------------------------------------- small tensors


def add_small():
    """What tutorials, tests and small models compute: the call costs more than the arithmetic."""
    case("small: x[1:] * 2")(lambda fw: (lambda x: x[1:] * 2, [of(fw, 8, 4)]))
    case("small: x.view(-1).sum()", True)(lambda fw: (lambda x: x.view(-1).sum(), [of(fw, 8, 8)]))
    case("small: cat")(lambda fw: (lambda a, b: fw.cat((a, b)), [of(fw, 4, 4), of(fw, 4, 4)]))
    case("small: softmax", True)(lambda fw: (lambda x: x.softmax(-1), [of(fw, 4, 10)]))
    case("small: linear and relu", True)(
        lambda fw: (lambda x, w, b: fw.nn.functional.linear(x, w, b).relu(), [of(fw, 8, 16), of(fw, 16, 16), of(fw, 16)])
    )
    case("small: layer_norm", True)(lambda fw: (lambda x: fw.nn.functional.layer_norm(x, (32,)), [of(fw, 4, 32)]))
    case("small: conv 3x3", True)(
        lambda fw: (lambda x, w: fw.nn.functional.conv2d(x, w, padding=1), [of(fw, 1, 2, 8, 8), of(fw, 4, 2, 3, 3)])
    )
    case("small: x[index]", True)(lambda fw: (lambda x, i: x[i], [of(fw, 16, 4), ints(fw, 16, 6)]))


# ------------------------------------------------------------------------------------------------- training steps


def optimizer(name, **options):
    def make(fw):
        params = [fw.ones((256, 256), requires_grad=True) for _ in range(8)]
        for p in params:
            p.grad = fw.full((256, 256), 0.01)
        return getattr(fw.optim, name)(params, **options).step, []

    case(f"optim.{name}" + "".join(f", {k}" for k in options if k != "lr"))(make)


def step(model):
    def make(fw):
        import train

        _, optim, loss_of = train.MODELS[model](fw)
        count = [0]

        def run():
            loss = loss_of(count[0])
            optim.zero_grad()
            loss.backward()
            optim.step()
            count[0] += 1

        return run, []

    case(f"training step, {model}")(make)


def add_training():
    optimizer("SGD", lr=0.1)
    optimizer("SGD", lr=0.1, momentum=0.9)
    optimizer("Adam")
    optimizer("AdamW", fused=True)
    for model in ("mlp", "cnn", "gpt"):
        step(model)


# -------------------------------------------------------------------------------------------------------- measuring


SETTLED, TURN = 0.03, 0.03  # seconds: see compare


def compare(functions, seconds, threads):
    """The best time of one call of each, in seconds.

    With one thread they take turns after every short repeat. With more, a turn is longer and begins when the other's
    threads sleep: OpenMP's spin for some 15 ms after their last work, on the core that the other side's need.
    """
    calls, best = [], [math.inf] * len(functions)
    for f in functions:
        f()
        began = time.perf_counter()
        f()
        once = time.perf_counter() - began
        calls.append(max(1, min(200, int(5e-4 / max(once, 1e-7)))))
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for i, f in enumerate(functions):
            if threads > 1:
                time.sleep(SETTLED)
            turn = time.perf_counter() + (TURN if threads > 1 else 0)
            while True:
                began = time.perf_counter()
                for _ in range(calls[i]):
                    f()
                best[i] = min(best[i], (time.perf_counter() - began) / calls[i])
                if time.perf_counter() >= turn:
                    break
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="?", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name contains one of these texts")
    parser.add_argument("--seconds", type=float, default=0.8, help="per case")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    try:
        import torch
    except ImportError:
        print("mindtorch_v2 vs. PyTorch: PyTorch is not installed, nothing to compare with")
        if args.figures:
            args.figures.write_text("{}")
        return
    import mindtorch_v2

    for fw in (mindtorch_v2, torch):
        fw.set_num_threads(args.threads)
    add_elementwise()
    add_reductions()
    add_windows()
    add_layers()
    add_moves()
    add_small()
    add_training()
    # One thread: CPU time, which other processes of the machine disturb least.
    rows = []
    for name, make in CASES.items():
        if any(text in name for text in args.only.split(",")):
            ours, theirs = compare([make(mindtorch_v2), make(torch)], args.seconds, args.threads)
            rows.append((ours / theirs, name, ours, theirs))
    report(rows, args, torch.__version__)


def report(rows, args, version):
    print(f"mindtorch_v2 vs. PyTorch {version}, threads: {args.threads}, {len(rows)} cases, the slowest first")
    print(f"  {'':38} {'ours us':>10} {'PyTorch us':>10} {'ratio':>7}")
    for ratio, name, ours, theirs in sorted(rows, reverse=True):
        print(f"  {name:38} {ours * 1e6:10.1f} {theirs * 1e6:10.1f} {ratio:7.2f}{'  OVER' if ratio > WORST else ''}")
    if not rows:
        return
    mean = math.exp(sum(math.log(row[0]) for row in rows) / len(rows))
    slowest, over = max(rows), sum(row[0] > WORST for row in rows)
    print(f"  geometric mean {mean:.2f} (bar {MEAN}), slowest {slowest[0]:.2f} (bar {WORST}), over the bar: {over}")
    if args.figures:
        suffix = f"_{args.threads}_threads" if args.threads > 1 else ""
        figures = {f"torch_cases{suffix}_{name}_over_torch": ratio for ratio, name, _, _ in sorted(rows)}
        figures[f"torch_cases{suffix}_mean"], figures[f"torch_cases{suffix}_worst"] = mean, slowest[0]
        args.figures.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
