"""Programs that lean on autograd: gradient penalties, recurrences that write into slices, frozen layers, backward on several threads.

Each is a function of the library (mindtorch_v2 or torch) that returns numbers. PyTorch's are stored in gradient_programs.json, so that
test_gradient_programs.py needs no PyTorch; to store them again:

    PYTHONPATH=src python3 tests/mindtorch_v2/gradient_programs.py
"""
import json
import pathlib
import tempfile
import threading

import numpy as np

STORED = pathlib.Path(__file__).with_suffix(".json")


def made(torch, seed, *shape, scale=1.0, tracked=False):
    data = np.random.default_rng(seed).uniform(-scale, scale, shape)
    return torch.tensor(data.tolist(), dtype=torch.float64, requires_grad=tracked)


def numbers(*tensors):
    return [t.detach().reshape(-1).tolist() for t in tensors]


def _train_critic(torch, critic, weights, real, fake):
    """WGAN-GP: the critic's loss with the penalty of Gulrajani et al., five steps of Adam."""
    out = {"losses": [], "penalties": []}
    optimizer = torch.optim.Adam(weights, lr=0.01, betas=(0.5, 0.9))
    for step in range(5):
        share = made(torch, 100 + step, real.shape[0], *[1] * (real.dim() - 1)).abs()
        between = (share * real + (1 - share) * fake).requires_grad_()
        slope, = torch.autograd.grad(critic(between).sum(), [between], create_graph=True)
        penalty = ((slope.reshape(real.shape[0], -1).norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            out["gradients"] = numbers(*[w.grad for w in weights])
        optimizer.step()
        out["losses"].append(loss.item())
        out["penalties"].append(penalty.item())
    out["weights"] = numbers(*weights)
    return out


def penalty_through_conv2d_and_tanh(torch):
    f = torch.nn.functional
    weights = [made(torch, 1, 4, 2, 3, 3, scale=0.4, tracked=True), made(torch, 2, 4, tracked=True), made(torch, 3, 3, 4, 3, 3, scale=0.4, tracked=True),
               made(torch, 4, 3, tracked=True), made(torch, 5, 1, 3 * 4 * 4, scale=0.3, tracked=True)]

    def critic(x):
        x = torch.tanh(f.conv2d(x, weights[0], weights[1], padding=1))
        x = torch.tanh(f.conv2d(x, weights[2], weights[3], stride=2, padding=1))
        return x.flatten(1) @ weights[4].t()

    return _train_critic(torch, critic, weights, made(torch, 6, 5, 2, 8, 8), made(torch, 7, 5, 2, 8, 8))


def penalty_through_linear_and_gelu(torch):
    f = torch.nn.functional
    weights = [made(torch, 11, 16, 10, scale=0.5, tracked=True), made(torch, 12, 16, tracked=True), made(torch, 13, 16, 16, scale=0.4, tracked=True),
               made(torch, 14, 16, tracked=True), made(torch, 15, 1, 16, scale=0.4, tracked=True)]

    def critic(x):
        x = f.gelu(f.linear(x, weights[0], weights[1]))
        x = f.gelu(f.linear(x, weights[2], weights[3]), approximate="tanh")
        return f.linear(x, weights[4])

    return _train_critic(torch, critic, weights, made(torch, 16, 7, 10), made(torch, 17, 7, 10))


def recurrence_into_slices(torch):
    """Hidden states are written into one tensor, and read from it."""
    steps, batch, size = 12, 3, 5
    w, u, first = made(torch, 21, size, size, scale=0.5, tracked=True), made(torch, 22, size, size, scale=0.5, tracked=True), \
        made(torch, 23, batch, size, tracked=True)
    x = made(torch, 24, steps, batch, size)
    h = torch.zeros(steps + 1, batch, size, dtype=torch.float64)
    h[0] = first
    gates = torch.zeros(batch, steps, dtype=torch.float64)
    for t in range(steps):
        h[t + 1] = torch.tanh(x[t] @ w + h[t].clone() @ u)
        gates[:, t] = h[t + 1].sum(1)
        gates[:, t] *= 0.5
        h[t + 1, :, 0] += gates[:, t].sigmoid()
    loss = (h[1:] ** 2).mean() + (gates * x.sum(2).t()).mean()
    loss.backward()
    return {"loss": loss.item(), "gradients": numbers(w.grad, u.grad, first.grad), "states": numbers(h)}


def _peak(torch, work):
    """The most memory allocated at once while work() ran, from the profiler's memory records."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    held = most = 0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        held += event["args"]["Bytes"]
        most = max(most, held)
    return most


def frozen_backbone(torch):
    """Six layers of which only the head is trained: what the frozen ones computed is not kept."""
    nn = torch.nn

    def built(frozen):
        layers = []
        for i in range(6):
            layer = nn.Linear(256, 256)
            with torch.no_grad():
                layer.weight.copy_(made(torch, 30 + i, 256, 256, scale=0.1))
                layer.bias.copy_(made(torch, 40 + i, 256, scale=0.1))
            layers += [layer.requires_grad_(not frozen), nn.ReLU()]
        head = nn.Linear(256, 10)
        with torch.no_grad():
            head.weight.copy_(made(torch, 50, 10, 256, scale=0.1))
            head.bias.zero_()
        return nn.Sequential(*layers, head)

    x, target = made(torch, 51, 2000, 256).float(), torch.tensor([i % 10 for i in range(2000)])
    out = {}
    for name, frozen in (("frozen", True), ("trained", False)):
        model = built(frozen)

        def step():
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            out[name + " loss"] = loss.item()

        step()
        model.zero_grad()
        out[name + " peak"] = _peak(torch, step)
        out[name + " gradient"] = numbers(model[-1].bias.grad)
        out[name + " others"] = sum(p.grad is not None for p in model.parameters())
    return out


def threads_over_shared_weights(torch, threads=range(4), repetitions=1):
    """Each thread has data of its own; the gradients of the weights add up."""
    weights = [made(torch, 61, 8, 16, scale=0.5, tracked=True), made(torch, 62, 16, 16, scale=0.5, tracked=True), made(torch, 63, 16, 1, scale=0.5, tracked=True)]
    data = [made(torch, 70 + i, 20, 8) for i in threads]
    ready = threading.Barrier(len(data))

    def work(x):
        ready.wait()
        for _ in range(3):
            (torch.tanh(torch.tanh(x @ weights[0]) @ weights[1]) @ weights[2]).sum().backward()

    found = []
    for _ in range(repetitions):
        for w in weights:
            w.grad = None
        running = [threading.Thread(target=work, args=(x,)) for x in data]
        for t in running:
            t.start()
        for t in running:
            t.join()
        found.append(numbers(*[w.grad for w in weights]))
    return {"gradients": found[0], "repetitions": found[1:]}


PROGRAMS = (penalty_through_conv2d_and_tanh, penalty_through_linear_and_gelu, recurrence_into_slices, frozen_backbone, threads_over_shared_weights)


if __name__ == "__main__":
    import torch

    STORED.write_text(json.dumps({p.__name__: p(torch) for p in PROGRAMS}, indent=0) + "\n")
