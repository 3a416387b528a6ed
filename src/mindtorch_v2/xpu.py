"""torch.xpu: never available; an Intel GPU that OpenCL finds is an "npu"."""


def is_available():
    return False


def device_count():
    return 0
