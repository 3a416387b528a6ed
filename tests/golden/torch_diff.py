#!/usr/bin/env python3
"""Differential test of averages, tables and stacks against PyTorch itself, if installed.

usage: tests/golden/torch_diff.py [--keep FOLDER] [--seed N] [--device cuda] ROWS [WORKLOAD...]
       ROWS: the built tests/tools/rows

Runs small workloads under torch.profiler with many combinations of options, exports each trace, and compares our results
for the file with torch's for the events: every number to the last bit, every table to the character. Without torch it
exits with 77: skipped. --keep leaves the traces and torch's results in a folder, for gold_check.py.
"""
import argparse
import gzip
import importlib.util
import json
import os
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gold_check

spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:  # the folder torch/ beside this file does not count
    print("torch_diff: skipped, torch is not installed")
    sys.exit(77)

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch._C._profiler import _ExperimentalConfig

RANDOM = random.Random()


def modern_sum(values):
    """The compensated sum() of Python 3.12 and later, for older versions."""
    high = low = 0.0
    whole = 0
    for x in values:
        if isinstance(x, int):
            whole += x
            continue
        total = high + x
        low += (high - total) + x if abs(high) >= abs(x) else (x - total) + high
        high = total
    return high + low + whole if high or low else whole


if sys.version_info < (3, 12):
    torch.autograd.profiler_util.sum = modern_sum


# ------------------------------------------------------------------------------------------------ workloads

def mlp(step):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = RANDOM.choice([torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
        loss.backward()
        optimizer.step()
        step()


def conv(step):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 8, 3, stride=2, groups=2, dilation=2, padding=2), nn.Conv2d(8, 4, 3, padding="same"),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    for _ in range(2):
        model(torch.randn(2, 3, 16, 16)).sum().backward()
        step()


def transformer(step):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    embedding = nn.Embedding(50, 32)
    for _ in range(2):
        with record_function("forward"):
            out = layer(embedding(torch.randint(0, 50, (2, 6))))
        with record_function("backward"):
            out.square().mean().backward()
        step()


def nesting(step):
    """Names nested in the same names, in all ways: single children, several, an op's name, empty scopes."""
    x = torch.randn(4)
    with record_function("a"), record_function("a"), record_function("a"):
        x.add(1)
    with record_function("a"):
        with record_function("a"):
            with record_function("b"):
                pass
        with record_function("a"):
            x.mul(2)
    with record_function("aten::add"):
        torch.add(x, x)
    with record_function("aten::add"):
        torch.add(x, x)
        torch.add(x, x)
    for name in ("", " ", "x" * 70, "100%", "a,b;c", "aten::t.x y"):
        with record_function(name):
            x.sum()
    step()


def threads(step):
    def work(k):
        with record_function(f"worker {k % 2}"):
            for _ in range(5):
                torch.randn(10, 10) @ torch.randn(10, 10)

    with record_function("main"):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(4)))
        work(1)
    x = torch.randn(64, 64, requires_grad=True)
    (x @ x).sum().backward()
    step()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * 3 * x * x


def autograd(step):
    x = torch.randn(5, 5, requires_grad=True)
    y = Cube.apply(x).relu().sum()
    first, = torch.autograd.grad(y, x, create_graph=True)
    first.sum().backward()
    torch.utils.checkpoint.checkpoint(lambda v: (v @ v).tanh(), x, use_reentrant=False).sum().backward()
    step()


def loader(step):
    data = torch.utils.data.TensorDataset(torch.randn(12, 3), torch.randint(0, 2, (12,)))
    model = nn.Linear(3, 2)
    generator = torch.Generator(torch.get_default_device())
    for x, y in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, generator=generator):
        F.cross_entropy(model(x), y).backward()
        step()


def memory(step):
    """Allocations inside ops, between them, outside everything; and frees of earlier allocations."""
    kept = [torch.randn(1000) for _ in range(3)]
    step()
    kept.append(torch.zeros(500_000))
    del kept[0]
    with record_function("hold"):
        kept += [torch.empty(10_000), kept[0] * 2]
    kept.clear()
    torch.randn(64, 64).double().sum()
    step()


def operators(step):
    a, b, c, d = torch.randn(4, 5), torch.randn(5, 6), torch.randn(3, 4, 5), torch.randn(3, 5, 6)
    torch.addmm(torch.randn(6), a, b)
    torch.baddbmm(torch.randn(3, 4, 6), c, d)
    torch.bmm(c, d), torch.mm(a, b), torch.matmul(c, b), torch.einsum("bij,bjk->bik", c, d)
    torch.mul(a, 2), 2 * a, a + 1, torch.tensor(2.0) * torch.tensor(3.0), a.mul_(1.5), torch.mm(torch.randn(0, 5), b)
    F.conv2d(torch.randn(3, 8, 8), torch.randn(4, 3, 3, 3)), F.conv1d(torch.randn(2, 3, 8), torch.randn(4, 3, 3))
    torch.cat([a, a]), torch.stack([a, a, a]), torch.cat([torch.randn(1)] * 40), a.cpu(), a.is_leaf, a.output_nr
    F.scaled_dot_product_attention(*(torch.randn(1, 2, 4, 8) for _ in range(3)))
    torch._foreach_add([a, a, b], 1.0), a.to(torch.float64).t().contiguous(), a[1:, ::2].clone(), torch.randint(0, 9, (3,))
    step()


def device(step):
    """Streams, copies, waits, launches outside ops, annotations around device work only."""
    if not torch.cuda.is_available():
        return step()
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    a, host = torch.randn(256, 256), torch.randn(256, 256, device="cpu").pin_memory()
    for _ in range(3):
        with record_function("streams"):
            with torch.cuda.stream(one), record_function("inner"):
                b = a @ a
            with torch.cuda.stream(two):
                c = host.to("cuda", non_blocking=True).add_(1)
        one.wait_stream(two)
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        event.synchronize()
        with record_function("copy"), record_function("copy"):
            c.cpu()
        (b + c).sum().item()
    graph = torch.cuda.CUDAGraph()
    still = torch.zeros(64)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        still.add_(1)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    step()


def recursion(step):
    def down(n):
        if n == 0:
            return torch.ones(1)
        with record_function(f"level {n % 3}"):
            return down(n - 1) + 1

    down(40)
    step()


def nothing(step):
    step()


WORKLOADS = [mlp, conv, transformer, nesting, threads, autograd, loader, memory, operators, device, recursion, nothing]
OPTIONS = ["record_shapes", "profile_memory", "with_flops", "with_stack", "with_modules"]


# --------------------------------------------------------------------------------------------------- gold

def rows_of(averages):
    out = []
    for row in averages:
        values = {name: getattr(row, name) for name in gold_check.NUMBERS}
        values.update(key=row.key, device_type=str(row.device_type), input_shapes=str(row.input_shapes),
                      is_user_annotation=bool(row.is_user_annotation), is_async=bool(row.is_async),
                      overload_name=row.overload_name or "", stack=list(row.stack or []))
        out.append(values)
    return out


def stacks_of(events):
    """torch's export_stacks, but a nonzero time counts as a microsecond at least, and one frame is followed by the op."""
    lines = []
    for event in events:
        if event.stack and event.self_cpu_time_total > 0:
            frames = [*reversed(event.stack), *([event.name] if len(event.stack) == 1 else [])]
            text = ";".join(frame.translate(str.maketrans(" ;\t\n", "____")) for frame in frames)
            lines.append(f"{text} {max(1, int(event.self_cpu_time_total))}\n")
    return "".join(lines)


def gold_of(prof, stack, flops):
    plain, shapes = prof.key_averages(), prof.key_averages(group_by_input_shape=True)
    stacks = prof.key_averages(group_by_stack_n=5)
    overloads = prof.key_averages(group_by_overload_name=True)
    everything = prof.key_averages(group_by_input_shape=True, group_by_stack_n=3, group_by_overload_name=True)
    gold = {"rows": rows_of(plain), "rows_by_shape": rows_of(shapes), "rows_by_stack": rows_of(stacks),
            "rows_by_overload": rows_of(overloads), "rows_by_all": rows_of(everything),
            "table": plain.table(sort_by="self_cpu_time_total", row_limit=20),
            "table_device": plain.table(sort_by="self_cuda_time_total", row_limit=20),
            "table_all": plain.table(row_limit=-1),
            "table_top": plain.table(sort_by="cpu_time_total", row_limit=10, top_level_events_only=True),
            "table_shapes": shapes.table(sort_by="cuda_time_total", row_limit=15, max_name_column_width=40,
                                         max_shapes_column_width=60, header="By shape", time_unit="ms"),
            "table_overload": overloads.table(sort_by="count", row_limit=30, max_name_column_width=None)}
    if not (stack and flops):  # torch swaps the two columns
        gold["table_stack"] = stacks.table(sort_by="self_cpu_time_total", row_limit=10)
    if stack:
        gold["stacks"] = stacks_of(prof.events())
    return gold


def combinations():
    """No option, each alone, all, and some at random; some verbose (stacks), some with overloads, some with steps."""
    yield from ((), *((o,) for o in OPTIONS), tuple(OPTIONS), ("record_shapes", "profile_memory", "with_flops"))
    for _ in range(2):
        yield tuple(o for o in OPTIONS if RANDOM.random() < 0.5)


def run_one(workload, options, verbose, overloads, steps):
    settings = {name: True for name in options}
    threads_too = {"profile_all_threads": True} if workload is threads and not verbose else {}
    config = _ExperimentalConfig(verbose=verbose, capture_overload_names=overloads, **threads_too)
    plan = schedule(wait=0, warmup=1, active=2, repeat=1) if steps else None
    activities = [ProfilerActivity.CPU]
    if torch.get_default_device().type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, schedule=plan, experimental_config=config, **settings) as prof:
        workload(prof.step)
        if steps:
            prof.step(), prof.step()
    return prof


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--keep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("workload", nargs="*")
    args = parser.parse_args()
    torch.set_default_device(args.device)
    RANDOM.seed(args.seed)
    torch.manual_seed(args.seed)
    folder = args.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    runs = agree = answers = right = 0
    for workload in WORKLOADS:
        if args.workload and workload.__name__ not in args.workload:
            continue
        for number, options in enumerate(combinations()):
            verbose = "with_stack" in options and RANDOM.random() < 0.7
            overloads, steps = RANDOM.random() < 0.3, RANDOM.random() < 0.3
            prof = run_one(workload, options, verbose, overloads, steps)
            trace = os.path.join(folder, f"{workload.__name__}-{number}.json.gz")
            prof.export_chrome_trace(trace)
            gold = gold_of(prof, "with_stack" in options and verbose, "with_flops" in options)
            said = []
            good, asked = gold_check.check(args.rows, trace, gold, said.append)
            runs, agree, answers, right = runs + 1, agree + (good == asked), answers + asked, right + good
            if good != asked:
                print(f"{workload.__name__} {number}: {' '.join(options) or 'plain'}{' verbose' * verbose}"
                      f"{' overloads' * overloads}{' steps' * steps}: {good} of {asked}")
                print(*said, sep="\n")
            if args.keep:
                with gzip.open(trace.replace(".json.gz", ".gold.json.gz"), "wt") as file:
                    json.dump({"torch": torch.__version__, **gold}, file)
            else:
                os.remove(trace)
    print(f"torch_diff: torch {torch.__version__}: {agree} of {runs} combinations agree, {right} of {answers} answers")
    return int(agree != runs)


if __name__ == "__main__":
    sys.exit(main())
