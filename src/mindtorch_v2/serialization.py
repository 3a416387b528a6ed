"""save and load: a pickle with tensors as bytes."""
import io
import os
import pickle
import zipfile


def save(obj, f, pickle_module=pickle, pickle_protocol=4):
    """Writes obj to a path or an open file. A path is replaced atomically: an old file stays until the new one is complete."""
    if isinstance(f, (str, os.PathLike)):
        from mtprof._native import NewFile  # not when the runtime is imported

        with NewFile(f) as out:
            pickle_module.dump(obj, out, pickle_protocol)
    else:
        pickle_module.dump(obj, f, pickle_protocol)


class _Refused(pickle.UnpicklingError):
    """A valid file with contents that are not allowed."""


class _Safe(pickle.Unpickler):
    """Creates only tensors and plain containers."""

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
        raise _Refused(f"Weights only load failed: {module}.{name} is not allowed. Use weights_only=False for a "
                                     "file that you trust.")


def load(f, map_location=None, pickle_module=pickle, *, weights_only=True):
    """Reads what save() wrote; files of PyTorch's save have another format and are refused. weights_only: allows only tensors
    and plain containers."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as source:
            return load(source, map_location, pickle_module, weights_only=weights_only)
    name = getattr(f, "name", None)
    name = f"'{os.fsdecode(name)}'" if isinstance(name, (str, bytes)) else "the file"
    f, head = _opening(f)
    foreign = _what_else(f, head)
    if foreign is not None:
        raise RuntimeError(f"{name} {foreign}")
    try:
        obj = _Safe(f).load() if weights_only else pickle_module.load(f)
    except _Refused:
        raise
    except (EOFError, pickle.UnpicklingError) as error:
        raise RuntimeError(_broken(name, head, error)) from error
    except Exception as error:
        if not weights_only:  # raised by an object in the file
            raise
        raise RuntimeError(_broken(name, head, error)) from error
    return obj if map_location is None else _moved(obj, map_location)


_LEGACY = pickle.dumps(0x1950A86A20F9469CFC6C, 2)[2:]  # the magic number of PyTorch's old format, which is a separate pickle
_PYTORCH = ("was written by PyTorch's torch.save: its format cannot be read here. In a Python with PyTorch, save its tensors as NumPy "
            "arrays (tensor.numpy()), and convert them with from_numpy")


def _opening(f):
    """The file and its first bytes, without consuming them; an unseekable file is read whole."""
    try:
        at = f.tell()
        head = f.read(32)
        f.seek(at)
    except (OSError, AttributeError):
        data = f.read()
        return io.BytesIO(data), data[:32]
    return f, head


def _what_else(f, head):
    """What the file is, if it is recognised and not from save()."""
    if not head:
        return "is empty"
    if head[2:].startswith(_LEGACY):
        return _PYTORCH
    if not head.startswith(b"PK"):
        return None
    at = f.tell()
    try:
        with zipfile.ZipFile(f) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        names = []
    finally:
        f.seek(at)
    if any(name.endswith("data.pkl") for name in names):
        return _PYTORCH
    return "is a zip archive, which save() does not write"


def _broken(name, head, error):
    if head[0] == 0x80:  # a pickle starts with this
        return f"{name} is corrupt or truncated: {error}"
    return f"{name} was not written by save(): {error}"


def _moved(obj, device):
    from mindtorch_v2 import Tensor

    if isinstance(obj, Tensor):
        return obj.to(device)
    if isinstance(obj, dict):
        return type(obj)((k, _moved(v, device)) for k, v in obj.items())
    if isinstance(obj, (list, tuple)):
        return type(obj)(_moved(v, device) for v in obj)
    return obj
