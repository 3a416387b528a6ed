"""Numbers in place of tensors, where PyTorch accepts them; and files that PyTorch wrote."""
import errno
import io
import itertools
import os
import pickle
import resource
import zipfile

import numpy as np
import pytest

import mindtorch_v2 as torch
from mtprof._native import NewFile

try:
    import torch as peer
except ImportError:
    peer = None
needs_peer = pytest.mark.skipif(peer is None, reason="PyTorch is not installed")

ALONE = ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide")
BESIDE = (*ALONE, "remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "xlogy")
NUMBERS = (2, -3, 2.5, True, 0)
TENSORS = ("[1., 2.]", "[1, -2]", "[True, False]", "3.", "7", "True")
DTYPES = ("float32", "float64", "int32", "int64", "bool")


def outcome(module, name, *args, **kwargs):
    try:
        made = getattr(module, name)(*args, **kwargs)
    except (TypeError, RuntimeError):
        return "error"
    return str(made.dtype), tuple(made.shape), repr(made.tolist())


@needs_peer
@pytest.mark.parametrize("name", BESIDE)
def test_a_number_beside_a_tensor_is_as_pytorchs(name):
    if not hasattr(peer, name):
        pytest.skip(f"PyTorch has no {name}")
    for number, text, dtype in itertools.product(NUMBERS, TENSORS, DTYPES):
        for turn in (False, True):
            pair = [(number, m.tensor(eval(text), dtype=getattr(m, dtype))) for m in (peer, torch)]
            theirs, ours = (outcome(m, name, *(p[::-1] if turn else p)) for m, p in zip((peer, torch), pair))
            assert ours == theirs, (name, number, text, dtype, turn)


@needs_peer
@pytest.mark.parametrize("name", BESIDE)
def test_two_numbers_are_as_pytorchs(name):
    for a, b in itertools.product(NUMBERS, NUMBERS):
        assert outcome(torch, name, a, b) == outcome(peer, name, a, b), (name, a, b)


OVERFLOWS = {
    "clamp": lambda x, n: x.clamp(max=n), "clamp_": lambda x, n: x.clamp_(n, None), "clamp_min": torch.clamp_min,
    "where": lambda x, n: torch.where(x > 0, x, n), "scatter": lambda x, n: x.scatter(0, torch.tensor([0]), n),
    "hardtanh": lambda x, n: torch._C.ops.hardtanh(x, -2, n), "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n), "addmm": lambda x, n: torch.addmm(x, x.view(3, 1), x.view(1, 3), alpha=n),
    "linspace": lambda x, n: torch.linspace(0, n, 3, dtype=x.dtype), "tensor": lambda x, n: torch.tensor([n], dtype=x.dtype),
    "as_tensor": lambda x, n: torch.as_tensor(n, dtype=x.dtype), "fill_": lambda x, n: x.fill_(n), "full_like": torch.full_like,
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n), "list": lambda x, n: x.__setitem__([0], n),
    "mask": lambda x, n: x.__setitem__(x > 0, n),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_number_that_the_dtype_cannot_hold_is_refused(name):
    """It wrapped around: clamp(max=2**40) of int32 gave zeros, torch.tensor([2**31], dtype=int32) a negative number."""
    for number in (2**31, -(2**31) - 1, 2**40):
        with pytest.raises(RuntimeError, match="cannot be converted to type int.* without overflow"):
            OVERFLOWS[name](torch.tensor([1, -2, 7], dtype=torch.int32), number)
    if name not in ("alpha", "addmm"):  # which must be ints
        for number in (float("nan"), float("inf"), 1e300, -1e19) if name not in ("clamp", "clamp_", "clamp_min", "where") else ():
            with pytest.raises(RuntimeError, match="cannot be converted to type int.* without overflow"):
                OVERFLOWS[name](torch.tensor([1, -2, 7]), number)
    OVERFLOWS[name](torch.tensor([1, -2, 7]), 2**40)
    OVERFLOWS[name](torch.tensor([1.0, -2, 7]), float("inf"))


def test_numbers_that_wrap_around_as_in_pytorch():
    x = torch.tensor([1, -2, 7], dtype=torch.int32)
    assert (x + 2**40).tolist() == (x + 2**32).tolist() == x.tolist() and (2**40 // x).tolist() == [0, 0, 0]
    assert torch.arange(2**31, 2**31 + 2, dtype=torch.int32).tolist() == [-(2**31), -(2**31) + 1]
    assert torch.xlogy(x, 2**40)[0].item() == pytest.approx(27.725887)


def test_arange_at_the_ends_of_int64():
    assert torch.arange(2**63 - 2, 2**63 - 1).tolist() == [2**63 - 2]
    assert torch.arange(-(2**63), -(2**63) + 2).tolist() == [-(2**63), -(2**63) + 1]
    assert torch.arange(2**63 - 1, -(2**63), -(2**62)).tolist() == [2**63 - 1, 2**62 - 1, -1, -(2**62) - 1]
    with pytest.raises(RuntimeError, match="int64_t without overflow"):
        torch.arange(1e300, 1e300 + 2, dtype=torch.int64)


def test_numbers_by_name_with_alpha_and_with_gradients():
    assert torch.add(1, 2).item() == 3 and torch.add(1, 2).dtype == torch.int64
    assert torch.add(input=1, other=2, alpha=5).item() == 11
    assert torch.add(1, other=torch.tensor([1.0, 2.0]), alpha=2).tolist() == [3, 5]
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.div(2, x).sum().backward()
    assert x.grad.tolist() == [-2, -0.5]
    torch.mul(3, x).sum().backward()
    assert x.grad.tolist() == [1, 2.5]
    assert torch.sub(1.5, torch.tensor([1, 2])).dtype == torch.float32


@needs_peer
def test_every_function_takes_numbers_where_pytorchs_does():
    """Of the ops that both have: a number in place of the first tensor, or of the second."""
    known = ("rsub", "reshape")  # alpha without its name; a size that is a number
    names = [n for n in vars(torch._C.ops) if hasattr(torch, n) and callable(getattr(peer, n, None)) and n[0] != "_" and n not in known]
    assert len(names) > 100 and "true_divide" in names and "clip" in names
    cases = (lambda m: (2, m.tensor([1.0, 2.0])), lambda m: (2, 3), lambda m: (m.tensor([1.0, 2.0]), 2), lambda m: (2, m.tensor([1, 2])), lambda m: (1,))
    different = []
    for name in names:
        for number, case in enumerate(cases):
            takes = []
            for m in (peer, torch):
                try:
                    getattr(m, name)(*case(m))
                    takes.append(True)
                except Exception:
                    takes.append(False)
            if takes[0] != takes[1]:
                different.append((name, number, takes))
    assert not different


def test_what_is_no_number_is_refused_as_before():
    for wrong in (("2", torch.ones(1)), (None, torch.ones(1)), ([1], torch.ones(1)), (1, "2")):
        with pytest.raises(TypeError):
            torch.add(*wrong)
    with pytest.raises(TypeError, match=r"maximum\(\): argument '\w+' \(position 1\) must be Tensor, not int"):
        torch.maximum(2, torch.ones(2))
    with pytest.raises(TypeError):
        torch.add(1)


# ----------------------------------------------------------------------------------------------------- load


def zip_of_pytorch():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"made": "by hand"}, 2))
        archive.writestr("archive/version", "3\n")
    return out.getvalue()


MAGIC = 0x1950A86A20F9469CFC6C


@pytest.mark.parametrize("content, text", [
    (zip_of_pytorch(), "was written by PyTorch's torch.save"),
    (pickle.dumps(MAGIC, 2) + pickle.dumps(1001, 2), "was written by PyTorch's torch.save"),
    (b"PK\x05\x06" + bytes(18), "is a zip archive"),
    (b"", "is empty"),
    (b"hello, world", "was not written by save"),
    (b"\x89HDF\r\n\x1a\n" + bytes(64), "was not written by save"),
], ids=["torch_zip", "torch_pickle", "zip", "empty", "text", "hdf5"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_load_says_what_a_file_is_that_it_cannot_read(tmp_path, content, text, weights_only):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=text) as error:
        torch.load(path, weights_only=weights_only)
    assert str(path) in str(error.value)
    with pytest.raises(RuntimeError, match=text):
        torch.load(io.BytesIO(content), weights_only=weights_only)


@needs_peer
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("weights_only", [True, False])
def test_pytorchs_own_files_are_named_and_not_read_as_garbage(tmp_path, legacy, weights_only):
    path = tmp_path / "model.pt"
    peer.save({"w": peer.arange(4.0)}, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(RuntimeError, match="PyTorch"):
        torch.load(path, weights_only=weights_only)


def test_what_save_wrote_is_read_from_paths_and_files_and_within_files(tmp_path):
    state = {"w": torch.arange(4.0), "step": 3, "list": [torch.ones(2, dtype=torch.int64)]}
    torch.save(state, tmp_path / "own.pt")
    assert torch.load(tmp_path / "own.pt")["w"].tolist() == [0, 1, 2, 3]
    out = io.BytesIO()
    torch.save(1, out)
    torch.save(state, out)
    out.seek(0)
    assert torch.load(out) == 1
    assert torch.load(out)["step"] == 3
    whole = (tmp_path / "own.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RuntimeError, match="truncated|corrupt"):
        torch.load(tmp_path / "cut.pt")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(io.BytesIO(pickle.dumps(pathlib_path(), 4)))
    with open(tmp_path / "own.pt", "rb") as file, pytest.raises((AttributeError, OSError)):
        torch.load(file.fileno())
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")


def pathlib_path():
    import pathlib

    return pathlib.PurePosixPath("x")


def test_pipes_that_cannot_seek_are_read(tmp_path):
    class Pipe(io.RawIOBase):
        def __init__(self, data):
            self.inner = io.BytesIO(data)

        def readable(self):
            return True

        def readinto(self, room):
            return self.inner.readinto(room)

    out = io.BytesIO()
    torch.save([1, torch.ones(2)], out)
    assert torch.load(io.BufferedReader(Pipe(out.getvalue())))[0] == 1


# ------------------------------------------------------------------------------------------- a save that fails


class Unwilling:
    def __reduce__(self):
        raise ValueError("not to be pickled")


def test_a_save_that_fails_keeps_the_file_that_was_there(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"w": torch.ones(3)}, path)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="not to be pickled"):
        torch.save({"w": torch.zeros(3), "more": Unwilling()}, path)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most[1]))
    try:
        with pytest.raises(OSError, match="the existing file is unchanged") as full:
            torch.save({"w": torch.zeros(100_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert full.value.errno == errno.EFBIG
    assert torch.equal(torch.load(path)["w"], torch.ones(3)) and os.listdir(tmp_path) == ["model.pt"]
    torch.save({"w": torch.zeros(300_000)}, path)
    assert torch.load(path)["w"].shape == (300_000,) and path.stat().st_mode & 0o777 == 0o640
    torch.save(1, "/dev/null")
    with pytest.raises(FileNotFoundError):
        torch.save(1, tmp_path / "no" / "folder.pt")


def test_a_new_file(tmp_path):
    path = tmp_path / "new"
    with NewFile(path) as file:
        assert file.write("é") == 2 and file.write(b"x") == 1 and file.write(bytearray(2)) == 2
        assert not path.exists()
    assert path.read_bytes() == b"\xc3\xa9x\0\0"
    with pytest.raises(ValueError, match="closed"):
        file.write("more")
    with pytest.raises(TypeError):
        NewFile(3)
    with pytest.raises(TypeError):
        NewFile(path=path)
    NewFile(path).write("dropped")
    assert path.read_bytes() == b"\xc3\xa9x\0\0" and os.listdir(tmp_path) == ["new"]


# ------------------------------------------------------------------------------------------------- NumPy operands

@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.int64(2)])
def test_numpys_numbers_on_the_left_leave_the_graph_whole(number):
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    for made in (number * x, number - x, number / x, number + x, number ** x, number % x):
        assert isinstance(made, torch.Tensor) and made.requires_grad
    (number * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert (number > x).tolist() == [True, False] and (number == x).tolist() == [False, True]


def test_numpy_does_not_read_what_requires_grad():
    """The result would be an array, and the gradient lost without a word."""
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    array = np.ones(2)
    for use in (np.asarray, np.sin, lambda t: t * array, lambda t: t - array, lambda t: np.add(array, t), lambda t: t @ array):
        with pytest.raises(RuntimeError, match="requires grad"):
            use(x)
    for use in (lambda t: array * t, lambda t: array - t):  # comparisons have no gradient to lose
        with pytest.raises(TypeError):
            use(x)
    with pytest.raises(BufferError, match="requires grad"):
        memoryview(x)


def test_arrays_and_tensors_make_tensors():
    x, array = torch.tensor([1.0, 2.0], dtype=torch.float64), np.array([3.0, 5.0])
    for made, values in ((x * array, [3.0, 10.0]), (x - array, [-2.0, -3.0]), (np.add(x, 1), [2.0, 3.0])):
        assert isinstance(made, torch.Tensor) and made.tolist() == values and made.dtype == torch.float64
    assert (x == array).tolist() == (array == x).tolist() == [False, False]
    assert (x != array).tolist() == [True, True]
    assert (x == np.array([1.0, 5.0])).tolist() == [True, False] and (x == "text") is False


def test_a_fill_value_that_the_dtype_cannot_hold_is_refused():
    """As a tensor, -inf became the least int64."""
    x, mask = torch.zeros(2, dtype=torch.int64), torch.tensor([True, False])
    for value in (float("-inf"), float("nan"), 1e30):
        with pytest.raises(RuntimeError, match="cannot be converted to type int64_t without overflow"):
            x.masked_fill(mask, torch.tensor(value))
    assert x.masked_fill(mask, torch.tensor(2.7)).tolist() == [2, 0]
