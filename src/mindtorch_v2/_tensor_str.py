"""Tensors as text, by PyTorch's rules: one width for all elements, scientific notation where magnitudes differ widely,
large tensors summarised."""
import math

from mindtorch_v2 import _C

_OPTIONS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Sets how tensors are printed; None leaves an option unchanged, except sci_mode."""
    if profile is not None:
        _OPTIONS.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _OPTIONS.update({name: value for name, value in given.items() if value is not None})
    _OPTIONS["sci_mode"] = sci_mode


def get_printoptions():
    return dict(_OPTIONS)


class _Format:
    """How the elements of one tensor are formatted."""

    def __init__(self, values, floating):
        self.floating, self.whole, self.scientific, self.width = floating, True, False, 1
        if not floating:
            self.width = max([1] + [len(str(v)) for v in values])
            return
        proper = [v for v in values if v != 0 and math.isfinite(v)]
        if not proper:
            return
        least, most = min(map(abs, proper)), max(map(abs, proper))
        self.whole = all(v == math.ceil(v) for v in proper)
        self.scientific = _OPTIONS["sci_mode"]
        if self.scientific is None:
            self.scientific = most / least > 1000.0 or most > 1.0e8 or least < 1.0e-4
        self.width = max([1] + [len(self._written(v)) for v in proper])

    def _written(self, value):
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{_OPTIONS['precision']}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{_OPTIONS['precision']}f}"

    def __call__(self, value):
        return self._written(value).rjust(self.width)


def _edges(tensor):
    """Nested lists of the elements shown of a large tensor; None stands for the omitted middle of a dim."""
    if tensor.dim() == 0:
        return tensor.item()
    n, edge = tensor.size(0), _OPTIONS["edgeitems"]
    if n <= 2 * edge:
        return [_edges(tensor[i]) for i in range(n)]
    return [_edges(tensor[i]) for i in range(edge)] + [None] + [_edges(tensor[i]) for i in range(n - edge, n)]


def _flat(nested):
    if not isinstance(nested, list):
        yield nested
        return
    for item in nested:
        if item is not None:
            yield from _flat(item)


def _row(items, indent, form):
    per_line = max(1, (_OPTIONS["linewidth"] - indent) // (form.width + 2))
    words = [" ..." if v is None else form(v) for v in items]
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _written(nested, dims, indent, form):
    if dims == 0:
        return form(nested)
    if dims == 1:
        return _row(nested, indent, form)
    parts = ["..." if item is None else _written(item, dims - 1, indent + 1, form) for item in nested]
    return "[" + ("," + "\n" * (dims - 1) + " " * (indent + 1)).join(parts) + "]"


def _content(tensor, indent):
    if tensor.numel() == 0:
        return "[]"
    nested = _edges(tensor) if tensor.numel() > _OPTIONS["threshold"] else tensor.tolist()
    form = _Format(list(_flat(nested)), tensor.dtype.is_floating_point)
    return _written(nested, tensor.dim(), indent, form)


def _suffixes(tensor):
    default = _C.get_default_dtype()
    if tensor.device.type != "cpu":
        yield f"device='{tensor.device}'"
    if tensor.numel() == 0:
        if tensor.dim() != 1:
            yield f"size={tuple(tensor.shape)}"
        if tensor.dtype != default:
            yield f"dtype={tensor.dtype}"
    elif tensor.dtype not in (default, _C.int64, _C.bool):
        yield f"dtype={tensor.dtype}"
    if tensor.grad_fn is not None:
        yield f"grad_fn=<{tensor.grad_fn.name()}>"
    elif tensor.requires_grad:
        yield "requires_grad=True"


def tensor_str(tensor):
    name = type(tensor).__name__
    prefix = "tensor(" if type(tensor) is _C.Tensor or name == "Parameter" else f"{name}("
    before = _C._set_grad_enabled(False)
    try:
        text = prefix + _content(tensor.detach().cpu(), len(prefix))
    finally:
        _C._set_grad_enabled(before)
    length = len(text) - text.rfind("\n") + 1
    for suffix in _suffixes(tensor):
        if length + len(suffix) + 2 > _OPTIONS["linewidth"]:
            text += ",\n" + " " * len(prefix) + suffix
            length = len(prefix) + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
