"""Tensor in Python: lifetime, indexing, conversion, operators, the autograd interface. NumPy is the reference."""
import copy
import gc
import io
import pickle
import threading
import weakref

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import _C

GRID = np.arange(60).reshape(3, 4, 5)
INDICES = [
    0, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(5, 1), None, Ellipsis, True, False, [0, 2], ([[0], [2]],),
    (0, 1), (0, 1, 2), (slice(None), 1), (Ellipsis, 1), (None, 0, None), (0, Ellipsis, slice(1, 4)), (slice(0, 2), [0, 1]),
    ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]), (Ellipsis, [0, 1]), (np.array([0, 2]),), (slice(None), None, 2),
    GRID > 30, (GRID[:, :, 0] > 20), (GRID[:, 0, 0] > 10, 1), (GRID[:, :, 0] > 20, 2), ([],), (),
]


def as_torch(index):
    if isinstance(index, np.ndarray):
        return torch.tensor(index)
    return tuple(map(as_torch, index)) if isinstance(index, tuple) else index


@pytest.mark.parametrize("index", INDICES, ids=[str(i)[:30] for i in range(len(INDICES))])
def test_getitem_is_numpys(index):
    plain = tuple(np.array(i, dtype=int) if isinstance(i, list) else i for i in index) if isinstance(index, tuple) else index
    got = torch.tensor(GRID)[as_torch(index)]
    assert got.numpy().tolist() == GRID[plain].tolist() and tuple(got.shape) == GRID[plain].shape


@pytest.mark.parametrize("index", INDICES, ids=[str(i)[:30] for i in range(len(INDICES))])
def test_setitem_is_numpys(index):
    plain = tuple(np.array(i, dtype=int) if isinstance(i, list) else i for i in index) if isinstance(index, tuple) else index
    for value in (7, 2.5, GRID[plain] * 2):
        x, want = torch.tensor(GRID), GRID.copy()
        x[as_torch(index)] = torch.tensor(value) if isinstance(value, np.ndarray) else value
        want[plain] = value
        assert x.tolist() == want.tolist()


LISTS = [  # as PyTorch 2.13 reads them
    ([[0, 1], [1, 0]], ([0, 1], [1, 0])), ([[0, 1]], ([0, 1],)), ([(0, 1), 2], ([0, 1], 2)), ([None, 0], (None, 0)),
    ([slice(1, 2), [0, 1]], (slice(1, 2), [0, 1])), ([Ellipsis, 0], (Ellipsis, 0)), ([[]], ([],)),
]


@pytest.mark.parametrize("index, plain", LISTS, ids=[str(i) for i, _ in LISTS])
def test_a_list_of_lists_is_a_tuple_with_a_warning(index, plain):
    """x[[rows, columns]] was x[torch.tensor([rows, columns])], without a word; with slices or tensors it raised."""
    x = torch.tensor(GRID)
    with pytest.warns(UserWarning, match="deprecated"):
        got = x[index]
    assert torch.equal(got, x[plain])
    with pytest.warns(UserWarning, match="deprecated"):
        x[index] = -1
    assert (x[plain] == -1).all() and (x == -1).sum() == got.numel()


def test_lists_of_tensors_and_ranges_as_indices():
    x = torch.tensor(GRID)
    with pytest.warns(UserWarning, match="deprecated"):
        assert torch.equal(x[[torch.tensor([0, 1]), torch.tensor([1, 0])]], x[[0, 1], [1, 0]])
    assert torch.equal(x[range(2)], x[:2]) and torch.equal(x[:, range(1, 3)], x[:, 1:3])
    assert x[[[0]] * 32].shape == (32, 1, 4, 5)  # too many for a tuple


def test_indexed_elements_do_not_take_another_dtype():
    """x[[0, 1]] = torch.tensor([1.7, 2.2]) cut off the fractions; numbers and copies to slices are converted, as in PyTorch."""
    x = torch.arange(6)
    for index in ([0, 1], x < 2):
        with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match"):
            x[index] = torch.tensor([1.7, 2.2])
        x[index] = 3.7
    x[2:4] = torch.tensor([1.7, 2.2])
    assert x.tolist() == [3, 3, 1, 2, 4, 5]


def test_numpys_numbers_and_arrays_beside_tensors():
    """numpy.float64(2) * tensor was an array, and raised if the tensor required a gradient."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    y = np.float64(2.5) * w + np.int64(1) - np.float32(0.5) / w
    y.sum().backward()
    assert isinstance(y, torch.Tensor) and y.dtype == torch.float32 and w.grad.tolist() == [3.0, 2.625]
    assert (np.float64(1.5) < w).tolist() == [False, True] and (np.int64(2) // torch.tensor([1, 2])).tolist() == [2, 1]
    x = torch.tensor([0, 1, 2])
    for made in (x + np.arange(3), np.add(x, np.arange(3)), np.add(np.arange(3), x), np.multiply(x, 2)):
        assert isinstance(made, torch.Tensor) and made.tolist() == [0, 2, 4]
    assert isinstance(np.sqrt(x), torch.Tensor) and isinstance(np.asarray(x), np.ndarray)
    for same in (x == np.arange(3), np.arange(3) == x, ~(x != np.arange(3)), x <= np.array([0, 1, 9]), np.array([0, 0, 0]) <= x):
        assert isinstance(same, torch.Tensor) and same.tolist() == [True] * 3
    assert isinstance(np.multiply(x, 1j), np.ndarray)  # there is no such dtype here


def test_bad_indices_are_index_errors():
    x = torch.zeros(2, 3)
    for index, words in [(2, "index 2 is out of bounds for dimension 0 with size 2"), ((0, 0, 0), "too many indices"),
                         ("a", "only integers"), (1.5, "only integers"), (torch.ones(2), "must be long")]:
        with pytest.raises(IndexError, match=words):
            x[index]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        torch.tensor(1)[0]


def test_views_share_memory_and_are_written_through():
    x = torch.zeros(3, 4)
    x[1][2] = 5
    x[:, 0] = torch.tensor([1.0, 2.0, 3.0])
    x[2, 1:3] += 1
    assert x.tolist() == [[1, 0, 0, 0], [2, 0, 5, 0], [3, 1, 1, 0]]
    assert x[0].data_ptr() == x.data_ptr()


# ---------------------------------------------------------------------------------------------- conversion


@pytest.mark.parametrize("data, dtype", [
    (1, "int64"), (1.5, "float32"), (True, "bool"), ([1, 2.0], "float32"), ([True, 2], "int64"), ([], "float32"),
    ([[], []], "float32"), (np.float64(1), "float64"), (np.float32(1), "float32"), (np.ones(2, "i4"), "int32"),
    ([np.int64(3)], "int64"), ((1, (2)), "int64"), (range(3), "int64"),
])
def test_dtype_is_inferred_as_pytorch_does(data, dtype):
    assert str(torch.tensor(data).dtype) == f"torch.{dtype}"


def test_ragged_and_foreign_data_is_refused():
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 1\)"):
        torch.tensor([[1, 2], [3]])
    for data in ("abc", ["a"], [None], object(), {"a": 1}, 1j, [[1], 2], np.zeros(2, "c8"), np.array(["a"])):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            torch.tensor(data)
    deep = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="too many dimensions"):
        torch.tensor(deep)


def test_numpy_shares_memory_both_ways():
    a = np.arange(6.0).reshape(2, 3)
    t = torch.from_numpy(a)
    a[0, 0] = 9
    t[1, 2] = 7
    assert t[0, 0] == 9 and a[1, 2] == 7
    b = t.t().numpy()
    b[0, 1] = 5
    assert t[1, 0] == 5 and b.shape == (3, 2)
    assert torch.tensor(3.5).numpy().shape == ()
    assert np.asarray(t).tolist() == a.tolist()
    assert torch.from_numpy(a[:, ::2]).tolist() == a[:, ::2].tolist()
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(a[::-1])
    with pytest.raises(RuntimeError, match="requires grad"):
        t.requires_grad_().numpy()


def test_an_array_outlives_its_tensor_and_the_other_way_round():
    array = torch.ones(1000).numpy()
    tensor = torch.from_numpy(np.full(1000, 2.0))
    gc.collect()
    for _ in range(20):
        torch.zeros(1000)
    assert array.sum() == 1000 and tensor.sum() == 2000


def test_resizing_what_cannot_be():
    """resize_(2**62) overflowed and kept the memory of six elements; of an array's memory, the array no longer saw the elements."""
    x = torch.zeros(6)
    for size in (2**62, (2**31, 2**31), (2**62, 2)):
        with pytest.raises(RuntimeError, match="overflowed|not a valid size"):
            x.resize_(size)
    assert x.shape == (6,) and x.resize_(np.int64(2)).shape == x.resize_(2).shape == x.resize_((2,)).shape == (2,)
    array = np.zeros(4, dtype=np.float32)
    for write in (lambda t: t.resize_(100), lambda t: torch.add(torch.ones(9), 1, out=t)):
        with pytest.raises(RuntimeError, match="storage that is not resizable"):
            write(torch.from_numpy(array))
    assert torch.from_numpy(array).resize_(2).shape == (2,)


def test_arrays_that_are_not_writable_and_bytes():
    fixed = np.arange(3)
    fixed.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        assert torch.from_numpy(fixed).tolist() == [0, 1, 2]
    with pytest.warns(UserWarning, match="not writable"):
        assert torch.asarray(b"abcd", dtype=torch.int32).tolist() == [1684234849]
    room = bytearray(8)
    torch.asarray(room, dtype=torch.int32)[1] = 1
    assert room[4] == 1 and torch.asarray(room).dtype == torch.float32
    with pytest.raises(TypeError, match="expected np.ndarray"):
        torch.from_numpy(np.float32(5))


def test_tensors_of_one_element_in_lists_are_numbers():
    """tensor([tensor([1]), tensor([2])]) had two dims, in PyTorch one."""
    for data in ([torch.tensor([1]), torch.tensor([[2]])], [torch.tensor([1]), 2], [torch.tensor(1), torch.tensor([2])]):
        assert torch.tensor(data).tolist() == [1, 2]


def test_nonzero_as_a_tuple_and_stable_sorts():
    x = torch.tensor([[3, 0, 1], [1, 0, 3]])
    for made in (torch.nonzero(x, as_tuple=True), x.nonzero(as_tuple=True)):
        assert [t.tolist() for t in made] == [[0, 0, 1, 1], [0, 2, 0, 2]] and x[made].tolist() == [3, 1, 1, 3]
    assert [t.tolist() for t in torch.tensor(4).nonzero(as_tuple=True)] == [[0]] and x.nonzero().shape == (4, 2)
    room = torch.empty(0, dtype=torch.int64)
    assert torch.nonzero(x, out=room) is room and room.shape == (4, 2)
    flat = x.flatten()
    for values, indices in (torch.sort(flat, stable=True), flat.sort(stable=True), flat.sort(dim=0, stable=False)):
        assert values.tolist() == [0, 0, 1, 1, 3, 3] and indices.tolist() == [1, 4, 2, 3, 0, 5]
    assert torch.argsort(flat, descending=True, stable=True).tolist() == [0, 5, 2, 3, 1, 4] == flat.argsort(-1, True, stable=True).tolist()


def test_small_things_that_pytorch_does_otherwise():
    x = torch.arange(6).view(2, 3)
    assert reversed(x).tolist() == [[5, 4, 3], [2, 1, 0]] and reversed(torch.tensor(1)).item() == 1
    with pytest.raises(RuntimeError, match="on a bool tensor is not supported"):
        +torch.tensor([True])
    with pytest.raises(TypeError, match="only implemented on integer and Boolean-type"):
        ~torch.tensor([1.5])
    for dim in (2, -3):
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.unflatten(dim, (1, 1))
    assert x.unflatten(-1, (3, 1)).shape == (2, 3, 1) and x.new_ones(np.int64(2)).shape == (2,)
    assert torch.result_type(torch.zeros(2), torch.zeros(3, dtype=torch.float64)) == torch.float64
    for call in (lambda: torch.equal(x, 1), lambda: torch.numel(5), lambda: torch.broadcast_tensors([x, x]), lambda: x.equal(1)):
        with pytest.raises(TypeError, match="Tensor"):
            call()
    for call, error in ((lambda: x + 2**70, OverflowError), (lambda: torch.tensor(2**63), ValueError), (lambda: x.clamp(2**70), OverflowError)):
        with pytest.raises(error):
            call()


def test_the_memory_of_an_array_with_gaps_or_repetitions():
    """Its size was that of as many elements side by side: as_strided read past the end of a broadcast array, and crashed."""
    repeated = torch.from_numpy(np.broadcast_to(np.float32(3), (1 << 28,)))
    assert repeated.storage().tolist() == [3] and copy.deepcopy(repeated).stride() == (0,)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 4"):
        repeated.as_strided((1 << 28,), (1,))
    gaps = torch.from_numpy(np.arange(10.0)[1::2])
    assert gaps.storage().nbytes() == 72 and gaps.as_strided((5,), (2,)).tolist() == gaps.tolist() == [1, 3, 5, 7, 9]
    assert torch.from_numpy(np.zeros((0, 3))).storage().nbytes() == 0


def test_deep_copies_share_memory_where_the_originals_do():
    """Each tensor was copied by itself: a view no longer saw what was written to its base."""
    x = torch.arange(6.0)
    a, b, c, d = copy.deepcopy([x, x[2:], x.view(2, 3).t(), torch.zeros(1).expand(3)])
    a[2] = 77
    assert b[0].item() == 77 and c[2, 0].item() == 77 and x[2].item() == 2
    assert c.stride() == (1, 3) and d.stride() == (0,) and b.storage_offset() == 2
    whole, part = copy.deepcopy([w := torch.arange(4.0, requires_grad=True), w.detach()[:2].requires_grad_()])
    with torch.no_grad():
        whole.fill_(5)
    assert part.tolist() == [5, 5] and w.tolist() == [0, 1, 2, 3] and part.is_leaf and part.requires_grad
    (part * 2).sum().backward()
    assert part.grad.tolist() == [2, 2] and w.grad is None
    none, other = copy.deepcopy([torch.zeros(0), torch.zeros(0, 3, dtype=torch.int64)])
    assert none.shape == (0,) and other.shape == (0, 3) and other.dtype == torch.int64


def test_pickle_copy_save_and_load():
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    x.note = "kept"
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == x.tolist() and y.requires_grad and y.note == "kept"
    z = copy.deepcopy(x)
    assert z.data_ptr() != x.data_ptr() and z.requires_grad
    buffer = io.BytesIO()
    torch.save({"a": x.detach().t(), "n": 3}, buffer)
    buffer.seek(0)
    back = torch.load(buffer)
    assert back["a"].tolist() == [[1.0], [2.0]] and back["n"] == 3
    with pytest.raises(pickle.UnpicklingError):
        torch.load(io.BytesIO(pickle.dumps(print)))


# ----------------------------------------------------------------------------------------------- operators


@pytest.mark.parametrize("word", ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", ">="])
def test_operators_with_tensors_and_numbers_on_both_sides(word):
    a, b = np.array([1.0, 2.0, -3.5]), np.array([2.0, 0.5, 1.5])
    do = eval(f"lambda x, y: x {word} y")
    x, y = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    np.testing.assert_allclose(do(x, y).numpy(), do(a, b))
    np.testing.assert_allclose(do(x, 2).numpy(), do(a, 2))
    np.testing.assert_allclose(do(3, y).numpy(), do(3, b))


def test_in_place_operators_keep_the_object():
    x = torch.tensor([4.0, 9.0])
    same = x
    x += 1
    x *= 2
    x -= torch.tensor([1.0, 2.0])
    x /= 3
    x **= 2
    x //= 2
    assert x is same and x.tolist() == [4.0, 18.0]
    mask = torch.tensor([True, False])
    mask |= torch.tensor([False, False])
    assert mask.tolist() == [True, False] and (~mask).tolist() == [False, True]


def test_python_protocols():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [r.tolist() for r in x] == [[1.0, 2.0], [3.0, 4.0]] and 3.0 in x and 9 not in x
    assert float(x[0, 1]) == 2.0 and int(x[1, 0]) == 3 and [10, 20][torch.tensor(1)] == 20
    assert bool(torch.tensor(1)) and not torch.tensor(0.0) and f"{torch.tensor(1.2345):.2f}" == "1.23"
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(x)
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(torch.tensor(1))
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.tensor(1))
    assert {x: 1}[x] == 1


def test_printing():
    assert repr(torch.tensor([[1.0, 2.0], [3.0, 4.5]])) == "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])"
    assert repr(torch.tensor([1, 20])) == "tensor([ 1, 20])"
    assert repr(torch.tensor([1e-8, 1.0])) == "tensor([1.0000e-08, 1.0000e+00])"
    assert repr(torch.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(torch.arange(2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"
    assert repr(torch.ones(2, dtype=torch.float64)) == "tensor([1., 1.], dtype=torch.float64)"
    assert repr(torch.ones(1, requires_grad=True)) == "tensor([1.], requires_grad=True)"
    assert repr(torch.ones(1, requires_grad=True) + 1) == "tensor([2.], grad_fn=<AddBackward0>)"


# ------------------------------------------------------------------------------ dtype, device, size, to()


def test_dtype_device_and_size_objects():
    assert repr(torch.float32) == "torch.float32" and torch.float is torch.float32 and torch.long is torch.int64
    assert pickle.loads(pickle.dumps(torch.int32)) is torch.int32
    assert torch.device("npu", 1) == torch.device("npu:1") == torch.device("cuda:1") != torch.device("npu")
    assert repr(torch.device("npu:0")) == "device(type='npu', index=0)" and str(torch.device("cpu")) == "cpu"
    with pytest.raises(RuntimeError, match="device"):
        torch.device("moon")
    s = torch.zeros(2, 3).shape
    assert repr(s) == "torch.Size([2, 3])" and s.numel() == 6 and s == (2, 3) and isinstance(s[:1], torch.Size)
    assert isinstance(s + (4,), torch.Size) and pickle.loads(pickle.dumps(s)) == s


def test_to_in_all_its_forms():
    x = torch.ones(2)
    assert x.to(torch.float32) is x and x.to("cpu") is x
    for same in (x.to(torch.float64), x.to("cpu", torch.float64), x.to(dtype=torch.float64), x.to(torch.zeros(1).double()),
                 x.double(), x.type("torch.DoubleTensor"), x.to(device="cpu", dtype=torch.float64)):
        assert same.dtype == torch.float64
    assert x.to(torch.float32, copy=True) is not x


# -------------------------------------------------------------------------------------- identity and life


def test_one_object_per_tensor():
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    g = x.grad
    g.mark = 1
    assert x.grad is g and x.grad.mark == 1
    assert g.add_(0) is g and g.detach() is not g


def test_weak_references_and_cycles_are_collected():
    class Mine(torch.Tensor):
        pass

    t = torch.Tensor._make_subclass(Mine, torch.ones(3))
    t.me = t
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(lambda g, t=leaf: g)
    inner = leaf * 2
    inner.register_hook(lambda g, t=inner: g)
    refs = [weakref.ref(o) for o in (t, leaf, inner)]
    assert type(t) is Mine and isinstance(t + 1, torch.Tensor)
    del t, leaf, inner
    gc.collect()
    gc.collect()  # the graph of inner held leaf
    assert [r() for r in refs] == [None, None, None]


def test_memory_is_given_back():
    def work():
        x = torch.ones(64, 64, requires_grad=True)
        y = (x @ x).relu()[1:, ::2].sum()
        y.backward()
        for bad in ("a", [1, "b"], torch.ones(3, 5)):
            with pytest.raises((TypeError, RuntimeError)):
                torch.matmul(x, bad)
        return x.grad.tolist()

    work()
    gc.collect()
    before = _C._memory_stats("cpu")["allocated"]
    for _ in range(20):
        work()
    gc.collect()
    assert _C._memory_stats("cpu")["allocated"] == before


# ------------------------------------------------------------------------------------------------ autograd


def test_hooks_change_gradients_and_their_exceptions_come_through():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    handle = y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [20.0, 20.0]
    handle.remove()
    x.grad = None
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [2.0, 2.0]

    def bad(grad):
        raise KeyError("mine")

    y.register_hook(bad)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()


def test_post_accumulate_hooks_see_the_leaf():
    x = torch.ones(2, requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
    (x * 3).sum().backward()
    assert seen == [(True, [3.0, 3.0])]


def test_custom_functions():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x * x * x * scale

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x * ctx.scale, None

    x = torch.tensor([2.0], requires_grad=True)
    y = Cube.apply(x, 2.0)
    assert y.grad_fn.name() == "CubeBackward" and y.grad_fn.next_functions[0][0].name().endswith("AccumulateGrad")
    y.sum().backward()
    assert x.grad.tolist() == [24.0]


def test_grad_and_grad_modes():
    x = torch.tensor([3.0], requires_grad=True)
    (g,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert g.item() == 27.0 and h.item() == 18.0
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad

    @torch.no_grad()
    def f():
        return x * 2

    assert not f().requires_grad and torch.is_grad_enabled()
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(1).backward()
    assert torch.autograd.gradcheck(lambda a: a * a.exp(), torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True))


def test_threads_work_on_large_tensors_at_the_same_time():
    results = []

    def work(k):
        x = torch.full((300, 300), float(k), requires_grad=True)
        x.register_hook(lambda g: g + 1)
        for _ in range(5):
            x.grad = None
            (x * x).sum().backward()
        results.append(x.grad[0, 0].item() == 2 * k + 1)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert results == [True] * 4


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("ij->ji", [(2, 3)]), ("ii->i", [(3, 3)]),
    ("i,j->ij", [(2,), (3,)]), ("ij->", [(2, 3)]), ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]), ("ij,jk", [(2, 3), (3, 2)]),
    ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("i,ij,j->", [(2,), (2, 3), (3,)]),
    # more letters than a tensor has dims
    ("abcdef,efghij->jihgabcd", [(2, 1, 3, 2, 2, 3), (2, 3, 2, 1, 2, 2)]), ("abcde,fghij->ajb", [(2, 3, 1, 2, 2), (2, 2, 1, 3, 2)]),
    ("abcdeaf,fghijb->", [(2, 3, 1, 2, 2, 2, 3), (3, 2, 2, 1, 3, 3)]), ("abcde,ebfghi->acdfghib", [(1, 3, 2, 2, 3), (3, 3, 2, 1, 2, 2)]),
    ("abcdefgh,hijklmno,ap->pai", [(1, 2, 1, 2, 1, 2, 1, 2), (2, 2, 1, 2, 1, 2, 1, 2), (1, 3)]),
    ("abcde,fghea->bf", [(1, 2, 2, 2, 3), (2, 2, 2, 1, 4)]),
])
def test_einsum_is_numpys(equation, shapes):
    arrays = [np.random.default_rng(0).standard_normal(s) for s in shapes]
    want = np.einsum(equation, *arrays)
    np.testing.assert_allclose(torch.einsum(equation, *map(torch.tensor, arrays)).numpy(), want, rtol=1e-7, atol=1e-12)


def test_einsum_takes_an_order_of_products():
    xs = [torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 5)]
    einsum = torch._C.ops.einsum
    assert einsum("ab,bc,cd->ad", xs, path=[1, 2, 0, 1]).tolist() == [[12.0] * 5] * 2
    for path, message in (([0], "have size 4 but got 1"), ([0, 3, 0, 1], r"invalid contraction \(0, 3\)"), ([0, 1, 0, 2], r"\(0, 2\)")):
        with pytest.raises(RuntimeError, match=message):
            einsum("ab,bc,cd->ad", xs, path=path)


def test_methods_of_every_kind_answer():
    x = torch.arange(6.0).reshape(2, 3)
    assert x.size() == (2, 3) and x.size(-1) == 3 and x.stride() == (3, 1) and x.dim() == x.ndim == 2 and x.numel() == 6
    assert x.T.shape == x.mT.shape == (3, 2) and not x.T.is_contiguous() and x.nbytes == 24 and x.itemsize == 4
    assert x.new_zeros(2).tolist() == [0.0, 0.0] and x.new_tensor([1]).dtype == torch.float32 and x.new_full((1,), 7).item() == 7
    assert x.var().item() == pytest.approx(3.5) and x.var(0, unbiased=False).tolist() == [2.25] * 3
    assert torch.equal(x, x.clone()) and torch.allclose(x, x + 1e-9) and not torch.equal(x, x[0])
    x.data = torch.ones(4)
    assert x.shape == (4,)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.size(3)


def test_a_value_is_expanded_before_it_is_assigned():
    x = torch.arange(6.0).reshape(2, 3)
    x[:] = x[0]
    assert x.tolist() == [[0, 1, 2], [0, 1, 2]]
    x[x > 1] = torch.full((1, 1), 7.0)
    assert x.tolist() == [[0, 1, 7], [0, 1, 7]]
    x[1] = torch.ones(1, 1, 3)
    assert x.tolist() == [[0, 1, 7], [1, 1, 1]]
    x[0, 0] = torch.full((1, 1), 5.0)
    assert x[0, 0] == 5
    with pytest.raises(RuntimeError):
        x[0] = torch.ones(2)


def test_a_number_in_a_tensor_is_formatted_as_a_number():
    assert f"{torch.tensor(1.5)}" == "1.5" and f"{torch.tensor(3)}" == "3" and f"{torch.tensor(1.5):.2f}" == "1.50"
    assert f"{torch.tensor([1.5])}" == "tensor([1.5000])"
    assert f"{torch.nn.Parameter(torch.tensor(2.0))}" == "Parameter containing:\ntensor(2., requires_grad=True)"
    with pytest.raises(TypeError):
        f"{torch.tensor([1.5]):.2f}"


def test_results_in_place_must_fit_the_dtype():
    x = torch.tensor([3, 4])
    for change in ("x %= 2.5", "x //= 2.0", "x /= 2"):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            exec(change)
    assert x.tolist() == [3, 4]
    x %= 3
    assert x.tolist() == [0, 1]


def test_dims_are_moved_within_their_range():
    x = torch.ones(2, 3, 4)
    assert x.movedim(0, -1).shape == (3, 4, 2) and x.movedim((0, 1), (1, 2)).shape == (4, 2, 3)
    assert torch.ones(()).movedim(0, 0).shape == ()
    for bad in ((0, 3), (-4, 0)):
        with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\]"):
            x.movedim(*bad)
    with pytest.raises(RuntimeError, match="repeated dim in `source`"):
        x.movedim((0, 0), (0, 1))
    with pytest.raises(RuntimeError, match="same number of dims"):
        x.movedim((0, 1), (0,))


def test_a_letter_has_one_size():
    with pytest.raises(RuntimeError, match=r"subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"):
        torch.einsum("ii->i", torch.ones(2, 3))
    assert torch.einsum("ii->i", torch.eye(3)).tolist() == [1, 1, 1]


def test_data_is_the_memory_without_the_history():
    """Changes through .data do not count as changes of the tensor; detach() shares the count."""
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    z = y * y
    y.data.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [4, 4]
    t = torch.ones(3)
    t.data.add_(1)
    assert t._version == 0 and t.tolist() == [2, 2, 2]
    t.detach().add_(1)
    assert t._version == 1
    d = t.data
    d.view(3).mul_(2)
    assert (d._version, t._version) == (1, 1)
    t.data = torch.zeros(4)
    assert t._version == 1
    t.add_(1)
    assert t._version == 2 and d.tolist() == [6, 6, 6]
    w = torch.ones(2)
    u = w.data
    v = torch.ones(2, requires_grad=True) * u
    u.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        v.sum().backward()


def test_an_array_keeps_the_memory_it_shows():
    x = torch.ones(3)
    array = x.numpy()
    x.data = torch.zeros(5)
    others = [torch.full((3,), 9.0) for _ in range(8)]
    assert array.tolist() == [1, 1, 1] and len(others) == 8
    view = memoryview(others[0])
    others[0].set_(torch.zeros(2))
    others.append(torch.full((3,), 4.0))
    assert view.tolist() == [9, 9, 9]


@pytest.mark.parametrize("equation, shapes, message", [
    ("i1->i", [(3, 3)], "invalid subscript given at index 1 in the equation string, subscripts must be in"),
    ("ij->i1", [(2, 3)], "invalid subscript given at index 5"), ("i-j", [(2,)], "not part of an arrow"),
    ("i.j->i", [(3, 3)], "found '.' for operand 0 that is not part of any ellipsis"),
    ("...i...->i", [(3, 3)], "found '.' for operand 0 for which an ellipsis was already found"),
    ("ij->i.j", [(2, 3)], "found '.' for output that is not part of any ellipsis"),
    ("ij->...i...", [(2, 3)], "found '.' for output but an ellipsis"),
    ("ij,jk->i", [(3, 3)], "fewer operands were provided"), ("ij->i", [(3, 3), (3, 3)], "more operands were provided"),
    ("ijk->i", [(3, 3)], r"\(3\) does not match the number of dimensions \(2\) for operand 0"),
    ("...ijk->i", [(3, 3)], r"\(3\) is more than the number of dimensions \(2\)"),
    ("ii->i", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
    ("ij->ii", [(2, 3)], "output subscript i appears more than once"), ("ij->k", [(2, 3)], "output subscript k does not appear"),
    ("ij,jk->ik", [(2, 3), (4, 5)], "subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3"),
    ("...,...", [(2,), (3,)], "size 3 for operand 1 which does not broadcast"),
    ("a" * 100, [(2,)], "einsum"), ("abcde,fghij->abcdefghij", [(1,) * 5] * 2, "more than 8 dimensions"),
])
def test_einsum_refuses(equation, shapes, message):
    with pytest.raises(RuntimeError, match=message):
        torch.einsum(equation, *map(torch.ones, shapes))
    with pytest.raises(ValueError, match="at least one operand"):
        torch.einsum(equation)
