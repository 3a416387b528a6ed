#!/usr/bin/env python3
"""What `mtprof run` adds to a training step of a small GPT in PyTorch on the CPU (nanoGPT's smallest settings), and to the start of a program.

usage: bench_run.py [FIGURES.json] [--rounds N]

The kinds take turns, a process each; of each, the minimum over all steps of all rounds. Without PyTorch only starts are measured.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MTPROF = os.environ.get("MTPROF", str(ROOT / "build/mtprof"))
BAR = 1.03  # of a step's time alone
STARTS = 20
KINDS = {"alone": None, "mtprof run": [], "with shapes": ["--shapes"], "with memory": ["--shapes", "--memory"], "waiting": ["--wait"]}
TRAIN = """
import math, time, torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
torch.set_num_threads(1)
LAYERS, HEADS, WIDTH, LENGTH, BATCH, LETTERS = 4, 4, 128, 64, 12, 65

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.all, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in self.all(self.one(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        return x + self.down(F.gelu(self.up(self.two(x))))

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, x, y):
        h = self.norm(self.blocks(self.letters(x) + self.places(torch.arange(LENGTH))))
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())

model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
best = math.inf
for _ in range(STEPS):
    begun = time.perf_counter()
    x, y = torch.randint(LETTERS, (2, BATCH, LENGTH))
    optimizer.zero_grad()
    model(x, y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    best = min(best, time.perf_counter() - begun)
print(best * 1e3)
"""


def command(kind, program, folder):
    options = KINDS[kind]
    if options is None:
        return program
    out = [] if "--wait" in options else ["-o", f"{folder}/run.mtp"]  # one that waits records nothing by itself
    return [MTPROF, "run", *options, *out, "--", *program]


def measure_steps(rounds, steps):
    """kind -> ms of a step."""
    least = dict.fromkeys(KINDS, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "train.py"
        script.write_text(TRAIN.replace("STEPS", str(steps)))
        for _ in range(rounds):
            for kind in KINDS:
                done = subprocess.run(command(kind, [sys.executable, str(script)], folder), capture_output=True, text=True, check=True)
                least[kind] = min(least[kind], float(done.stdout))
    return least


def measure_starts():
    """ms of `true`, and of Python that does nothing, alone and under mtprof run."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, program in {"true": ["true"], "python": [sys.executable, "-c", "pass"]}.items():
            for kind in ("alone", "mtprof run"):
                found[name, kind] = float("inf")
            for _ in range(STARTS):
                for kind in ("alone", "mtprof run"):
                    begun = time.perf_counter()
                    subprocess.run(command(kind, program, folder), capture_output=True, check=True)
                    found[name, kind] = min(found[name, kind], (time.perf_counter() - begun) * 1e3)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("figures", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    figures = {}
    for (name, kind), ms in measure_starts().items():
        figures[f"run_start_{name}{'' if kind == 'alone' else '_recorded'}_ms"] = ms
    for name in ("true", "python"):
        print(f"{name}: {figures[f'run_start_{name}_ms']:.1f} ms, under mtprof run {figures[f'run_start_{name}_recorded_ms']:.1f} ms, report included")
    failed = False
    if importlib.util.find_spec("torch") is None:
        print("bench_run: PyTorch is not installed, no training step is measured")
    else:
        least = measure_steps(options.rounds, options.steps)
        print(f"a training step of a small GPT takes {least['alone']:.2f} ms")
        for kind, ms in least.items():
            ratio = ms / least["alone"]
            figures["run_step_" + kind.replace("mtprof run", "recorded").replace(" ", "_") + "_ms"] = ms
            if kind != "alone":
                print(f"  {kind:12} {ratio:.3f} x" + (f" (bar {BAR} x)" if kind == "mtprof run" else ""))
        failed = least["mtprof run"] > BAR * least["alone"]
    if options.figures:
        with open(options.figures, "w", encoding="utf-8") as file:
            json.dump({name: round(value, 3) for name, value in figures.items()}, file, indent=1)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
