"""torch.cpu: the CPU as a device like others, for programs that do not know which they use."""
import contextlib
import importlib


def is_available():
    return True


def is_initialized():
    return True


def device_count():
    return 1


def current_device():
    return "cpu"


def set_device(device):
    """There is only one."""


def synchronize(device=None):
    """Its work is done when a call returns."""


def current_stream(device=None):
    return None


def stream(stream):
    return contextlib.nullcontext()


def __getattr__(name):
    if name == "amp":
        return importlib.import_module("mindtorch_v2.amp.spellings").cpu
    raise AttributeError(f"module 'mindtorch_v2.cpu' has no attribute {name!r}")
