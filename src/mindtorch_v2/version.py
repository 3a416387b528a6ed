"""torch.version: what scripts ask to know the build. There is neither CUDA nor ROCm in it: accelerators are OpenCL's."""
__version__ = "0.1.0"
cuda = hip = xpu = git_version = None
debug = False
