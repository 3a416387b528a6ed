#!/usr/bin/env python3
"""usage: live_trace.py DEVICE OUT.json

Trains a small model on DEVICE (cpu or npu) under the profiler, with every option on, and exports the trace. Exit status 77:
there is no such device, or the runtime is not built.
"""
import sys

try:
    import mindtorch_v2 as torch
except ImportError as error:
    print(error)
    sys.exit(77)


def main(device, out):
    if device == "npu" and not torch.npu.is_available():
        print("no npu")
        return 77
    profiler = torch.profiler
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        inputs, target = torch.randn(32, 64).to(device), torch.randint(0, 10, (32,)).to(device)
        with profiler.record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device == "npu":
            torch.npu.synchronize()

    step()
    with profiler.profile(activities=["CPU", "NPU"] if device == "npu" else ["CPU"], record_shapes=True, profile_memory=True,
                          with_stack=True, schedule=profiler.schedule(wait=1, warmup=1, active=3),
                          on_trace_ready=lambda prof: prof.export_chrome_trace(out)) as prof:
        for _ in range(5):
            step()
            prof.step()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
