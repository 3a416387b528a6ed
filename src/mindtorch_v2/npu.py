"""The accelerator. There is none in this build: is_available() says so, what needs one raises."""

__all__ = ["current_device", "device_count", "is_available", "is_initialized", "max_memory_allocated", "memory_allocated",
           "memory_reserved", "synchronize"]


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def _missing(*args, **kwargs):
    raise RuntimeError("no NPU backend is installed: mindtorch_v2.npu.is_available() is False")


current_device = memory_allocated = memory_reserved = max_memory_allocated = synchronize = _missing
