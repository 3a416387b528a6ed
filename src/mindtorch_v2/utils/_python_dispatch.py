"""torch.utils._python_dispatch, of which this runtime has the name alone: ops do not pass through Python."""


class TorchDispatchMode:
    """In PyTorch, a context in which every op is handed to __torch_dispatch__. Entering it is an error here: nothing would
    be. A profile shows every op: torch.profiler.profile(record_shapes=True)."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        raise NotImplementedError("mindtorch_v2 does not dispatch ops to Python: record them with torch.profiler.profile()")

    def __exit__(self, *exc):
        pass
