#!/usr/bin/env python3
"""Train a small network, the same in mindtorch_v2, in PyTorch and in C (train.c): same weights, same data, same losses.

    python train.py mlp|cnn|gpt [--steps 50] [--device cpu|npu|cuda] [--framework mindtorch_v2|torch]
                    [--profile TRACE.json.gz]

Prints one loss per step. Weights and data come from a hash (numbers() below), not from a random generator, so every
implementation starts from the same bits.
"""
import argparse
import importlib
import sys

import numpy as np


def numbers(shape, seed, scale=1.0):
    """Numbers in [-scale/2, scale/2) from a hash of their position: float32 of that shape."""
    n = int(np.prod(shape))
    h = np.arange(n, dtype=np.uint64) * 2654435761 + seed * 40503
    h &= 0xFFFFFFFF
    for _ in range(2):
        h ^= h >> 16
        h = h * 0x45D9F3B & 0xFFFFFFFF
    h ^= h >> 16
    return ((h >> 8).astype(np.float64) / (1 << 24) - 0.5).reshape(shape).astype(np.float32) * np.float32(scale)


def given(torch, array):
    """The array as a tensor on the model's device."""
    return torch.from_numpy(array).to(torch.get_default_device())


def fill(model, torch):
    """Fills every parameter of rank 2 or more with numbers scaled by its fan-in; leaves the rest unchanged."""
    with torch.no_grad():
        for seed, p in enumerate(model.parameters()):
            if p.dim() > 1:
                fan_in = int(np.prod(p.shape[1:]))
                p.copy_(torch.from_numpy(numbers(tuple(p.shape), seed + 1, 2.0 / fan_in**0.5)))
            elif len(p.shape) == 1:
                p.copy_(torch.from_numpy(numbers(tuple(p.shape), seed + 1, 0.1) + (1 if getattr(p, "is_gain", False) else 0)))


def make_mlp(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    fill(model, torch)
    x = numbers((256, 20), 101, 4.0)
    y = (x @ numbers((20, 10), 102)).argmax(1)
    x, y = given(torch, x), given(torch, y.astype(np.int64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def loss_of(step):
        at = step % 4 * 64
        return nn.functional.cross_entropy(model(x[at:at + 64]), y[at:at + 64])

    return model, optimizer, loss_of


def make_cnn(torch):
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
    model[1].weight.is_gain = True
    fill(model, torch)
    x = numbers((128, 1, 12, 12), 201, 1.0)
    y = np.arange(128) * 7 % 10
    for i, k in enumerate(y):  # the position of a bright bar is the class
        x[i, 0, k + 1] += 1.5
    x, y = given(torch, x), given(torch, y.astype(np.int64))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(step):
        at = step % 4 * 32
        return nn.functional.cross_entropy(model(x[at:at + 32]), y[at:at + 32])

    return model, optimizer, loss_of


VOCABULARY, CONTEXT, WIDTH, HEADS, BATCH = 64, 32, 64, 4, 8


def make_gpt(torch):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.norm1.weight.is_gain = self.norm2.weight.is_gain = True

        def attend(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).split(WIDTH, dim=2)
            q, k, v = (h.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for h in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, t, WIDTH))

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList([Block(), Block()])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.norm.weight.is_gain = True

        def forward(self, ids):
            x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    model = GPT()
    fill(model, torch)
    text = np.arange(4096)
    text = (text * 7 + text // 5 * 3) % VOCABULARY  # a pattern that can be learned
    text = given(torch, text.astype(np.int64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)

    def loss_of(step):
        at = [(step * BATCH + i) * 37 % 4000 for i in range(BATCH)]
        x = torch.stack([text[i:i + CONTEXT] for i in at])
        y = torch.stack([text[i + 1:i + 1 + CONTEXT] for i in at])
        return F.cross_entropy(model(x).view(-1, VOCABULARY), y.view(-1))

    return model, optimizer, loss_of


MODELS = {"mlp": make_mlp, "cnn": make_cnn, "gpt": make_gpt}


def train(torch, name, steps, after_step=lambda: None):
    """Yields the loss of each step."""
    _, optimizer, loss_of = MODELS[name](torch)
    for step in range(steps):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after_step()
        yield loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--framework", default="mindtorch_v2", choices=["mindtorch_v2", "torch"])
    parser.add_argument("--device", default="cpu", help="cpu, npu (mindtorch_v2 only) or cuda")
    parser.add_argument("--profile", metavar="TRACE", help="profile the run, print the averages and write the trace to TRACE")
    options = parser.parse_args()
    torch = importlib.import_module(options.framework)
    torch.set_default_device(options.device)
    if not options.profile:
        for loss in train(torch, options.model, options.steps):
            print(f"{loss:.9g}")
        return 0
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        losses = list(train(torch, options.model, options.steps, prof.step))
    sort_by = "self_cpu_time_total" if options.device == "cpu" else "self_device_time_total"
    print(prof.key_averages().table(sort_by=sort_by, row_limit=20))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {options.steps} steps")
    prof.export_chrome_trace(options.profile)
    return 0


if __name__ == "__main__":
    sys.exit(main())
