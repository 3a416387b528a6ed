"""torch.profiler for PyTorch, by mtprof: the same API, a fraction of the cost.

    import mtprof.pytorch as profiler            # instead of: import torch.profiler as profiler

    with profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        train()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json.gz")

PyTorch's ops, backward nodes, record_function scopes (PyTorch's and ours), optimizer steps, DataLoader, modules, Python functions
and memory are recorded by libmtprof; PyTorch's own profiler is not involved, and may run at the same time. docs/run.md tells what
is not recorded (GPU kernels), and `mtprof run` does the same for programs that are not to be changed.
"""
