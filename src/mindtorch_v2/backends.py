"""torch.backends: which of PyTorch's backend libraries are available, as scripts check before using one. Here: none."""
from types import SimpleNamespace as _Namespace


def _absent(**more):
    return _Namespace(is_available=lambda: False, enabled=False, **more)


mkldnn, mkl, mps, openmp = _absent(), _absent(), _absent(is_built=lambda: False), _absent()
cuda = _absent(is_built=lambda: False, matmul=_Namespace(allow_tf32=False))
cudnn = _absent(allow_tf32=False, benchmark=False, deterministic=False, version=lambda: None)
