"""save and load: a pickle, tensors as their bytes."""
import os
import pickle


def save(obj, f, pickle_module=pickle, pickle_protocol=4):
    """Writes obj to a path or an open file."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as out:
            pickle_module.dump(obj, out, pickle_protocol)
    else:
        pickle_module.dump(obj, f, pickle_protocol)


class _Safe(pickle.Unpickler):
    """Makes tensors and plain containers, and nothing else."""

    _ALLOWED = {
        ("collections", "OrderedDict"), ("mindtorch_v2._tensor", "_rebuild"), ("mindtorch_v2", "Tensor"),
        ("mindtorch_v2", "device"), ("mindtorch_v2", "Size"), ("mindtorch_v2.nn.parameter", "Parameter"),
        ("mindtorch_v2.nn.parameter", "Buffer"), ("mindtorch_v2.nn.parameter", "_rebuilt"),
    }

    def find_class(self, module, name):
        import mindtorch_v2

        if module in ("mindtorch_v2", "mindtorch_v2._C") and isinstance(getattr(mindtorch_v2, name, None), mindtorch_v2.dtype):
            return getattr(mindtorch_v2, name)
        if (module, name) in self._ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"Weights only load failed: {module}.{name} is not allowed. Use weights_only=False for a "
                                     "file that you trust.")


def load(f, map_location=None, pickle_module=pickle, *, weights_only=True):
    """Reads what save() wrote. weights_only: refuses to make anything but tensors and plain containers."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as source:
            return load(source, map_location, pickle_module, weights_only=weights_only)
    obj = _Safe(f).load() if weights_only else pickle_module.load(f)
    return obj if map_location is None else _moved(obj, map_location)


def _moved(obj, device):
    from mindtorch_v2 import Tensor

    if isinstance(obj, Tensor):
        return obj.to(device)
    if isinstance(obj, dict):
        return type(obj)((k, _moved(v, device)) for k, v in obj.items())
    if isinstance(obj, (list, tuple)):
        return type(obj)(_moved(v, device) for v in obj)
    return obj
