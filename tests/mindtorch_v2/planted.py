"""Programs with one fault each, recorded: planted.py FAULT FRAMEWORK OUT. FRAMEWORK: torch or mindtorch_v2."""
import contextlib
import importlib
import sys
import time

STEPS = 14


class Program:
    """Trains a small network; the fault is planted in its step, its data or its results."""

    def __init__(self, fault, framework):
        self.torch = torch = importlib.import_module(framework)
        self.fault, self.kept = fault, []
        self.device = "npu" if fault in ("sync", "tiny") else "cpu"
        torch.manual_seed(0)
        with contextlib.suppress(AttributeError):
            torch.set_num_threads(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128)).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.inputs = [torch.randn(256, 128).to(self.device) for _ in range(2)]
        self.large, self.small = torch.randn(1500, 1500), torch.ones(8).to(self.device)

    def batches(self):
        if self.fault != "loader":
            yield from (self.inputs[i % 2] for i in range(STEPS))
            return
        torch = self.torch

        class Slow(torch.utils.data.Dataset):
            def __len__(self):
                return STEPS * 4

            def __getitem__(self, index):
                time.sleep(0.005)
                return torch.randn(128)
        yield from torch.utils.data.DataLoader(Slow(), batch_size=4)

    def step(self, number, x):
        torch = self.torch
        if self.fault == "cast":
            for _ in range(4):
                self.large.to(torch.float64)
        if self.fault == "layout":
            for _ in range(4):
                self.large.t().contiguous()
        if self.fault == "tiny":
            small = self.small
            for _ in range(2000):
                small = small + self.small
        y = self.model(x)
        loss = (y * x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if self.fault == "leak":
            self.kept.append(y.detach() * 2)
        if self.fault == "sync":
            for _ in range(5):
                loss.item()
                time.sleep(0.002)
                loss = self.model(x).mean()
        if self.fault == "outlier" and number == 9:
            time.sleep(0.15)
        if self.fault == "pause":
            time.sleep(0.01)


def main():
    fault, framework, out = sys.argv[1:]
    program = Program(fault, framework)
    torch = program.torch
    for i in range(3):
        program.step(-1, program.inputs[0])
    cycle = {"schedule": torch.profiler.schedule(wait=0, warmup=1, active=STEPS - 2, repeat=1)} if framework == "torch" else {}
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True, **cycle) as prof:
        for number, x in enumerate(program.batches()):
            program.step(number, x)
            prof.step()
    prof.export_chrome_trace(out)


main()
