"""Mixed precision: torch.amp. autocast chooses dtypes by op, GradScaler keeps float16 gradients from vanishing."""
import importlib

from mindtorch_v2.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def __getattr__(name):
    if name == "GradScaler":
        return importlib.import_module("mindtorch_v2.amp.grad_scaler").GradScaler
    if name == "grad_scaler":
        return importlib.import_module("mindtorch_v2.amp.grad_scaler")
    raise AttributeError(f"module 'mindtorch_v2.amp' has no attribute {name!r}")
