"""The dtypes that kernels do not compute in: u uint8, c int8, s int16, h float16, y bfloat16; and what NumPy and PyTorch say of them."""
import numpy as np

WHOLE, REAL = "ucs", "hy"
NUMPY = {"u": np.uint8, "c": np.int8, "s": np.int16, "h": np.float16}
WIDE = {"u": "i", "c": "i", "s": "i", "h": "f", "y": "f"}
# Of a result that is rounded once or, in ops made of others, a few times.
TOLERANCE = {"h": 4e-3, "y": 3e-2}


def rounded(values, letter):
    """values as the dtype holds them; bfloat16 as float32."""
    with np.errstate(all="ignore"):
        if letter in WHOLE:
            return np.asarray(values).astype(np.int64).astype(NUMPY[letter])
        if letter == "h":
            return np.asarray(values).astype(np.float32).astype(np.float16)
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        up = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
        return np.where(np.isnan(values), np.float32("nan"), up.view(np.float32)).astype(np.float32).reshape(np.shape(values))


def level(letter):
    return 0 if letter in "bB" else 2 if letter in "hyfdF" else 1


def joined(a, b):
    """The dtype that holds the numbers of both, by the rules: the higher kind; within it the wider; int16 and float32 where neither is."""
    sizes = {"b": 1, "u": 1, "c": 1, "s": 2, "i": 4, "l": 8, "h": 2, "y": 2, "f": 4, "d": 8}
    if a == b or level(a) != level(b):
        return a if level(a) >= level(b) else b
    if sizes[a] == sizes[b]:
        return "s" if level(a) == 1 else "f"
    return a if sizes[a] > sizes[b] else b


def promoted(kind, a, b):
    """As promotion.promoted: of tensor_tensor, tensor_zero ...; B, L, F are Python's bool, int and float."""
    if kind.endswith("number"):
        return a if level(b) <= level(a) else {"L": "l", "F": "f"}[b]
    if kind == "tensor_zero":
        return a if level(b) <= level(a) else b
    if kind == "zero_tensor":
        return b if level(a) <= level(b) else a
    return joined(a, b)
