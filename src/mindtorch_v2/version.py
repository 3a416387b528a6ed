"""torch.version: build information. There is no CUDA or ROCm: accelerators are driven through OpenCL."""
__version__ = "0.1.0"
cuda = hip = xpu = git_version = None
debug = False
