"""torch.version: build information. There is no CUDA or ROCm: accelerators are driven through OpenCL."""
from mindtorch_v2._C import __version__  # noqa: F401  one version for all

cuda = hip = xpu = git_version = None
debug = False
