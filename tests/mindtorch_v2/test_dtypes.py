"""float16, bfloat16, uint8, int8 and int16 as Python sees them: made, printed, converted, saved, collated, trained, recorded. What is
expected is what PyTorch 2.13 says; where it is installed, the table below is compared with it. The ops are in test_ops_narrow.py."""
import copy
import io
import json
import pickle
import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.utils.data import DataLoader, TensorDataset

try:
    import torch as pytorch
except ImportError:
    pytorch = None

NARROW = (torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16)
OVERFLOW = "RuntimeError: value cannot be converted to type {} without overflow"

# Expression: what it is, or the exception. u: uint8, i: int8, h: float16, b: bfloat16.
SAID = {
    "u + 300": "tensor([ 45, 144, 244,  43], dtype=torch.uint8)",
    "u - 1": "tensor([  0,  99, 199, 254], dtype=torch.uint8)",
    "u * -1": "tensor([255, 156,  56,   1], dtype=torch.uint8)",
    "-u": "tensor([255, 156,  56,   1], dtype=torch.uint8)",
    "~u": "tensor([254, 155,  55,   0], dtype=torch.uint8)",
    "i.abs()": "tensor([   1,  100, -128,  127], dtype=torch.int8)",
    "u < 300": "tensor([ True, False, False, False])",
    "i == -200": "tensor([False, False, False, False])",
    "u // -1": "tensor([0, 0, 0, 1], dtype=torch.uint8)",
    "u // 300": "tensor([0, 2, 4, 5], dtype=torch.uint8)",
    "u % -3": "tensor([  1, 100, 200,   2], dtype=torch.uint8)",
    "u // torch.tensor(300)": "tensor([0, 2, 4, 5], dtype=torch.uint8)",
    "u < torch.tensor(300)": "tensor([ True, False, False, False])",
    "torch.maximum(u, torch.tensor(300))": "tensor([ 44, 100, 200, 255], dtype=torch.uint8)",
    "i ** -1": "RuntimeError: Integers to negative integer powers are not allowed.",
    "u ** 300": OVERFLOW.format("uint8_t"),
    "u.clamp(max=300)": OVERFLOW.format("uint8_t"),
    "u.clamp(min=-1)": "tensor([255, 255, 255, 255], dtype=torch.uint8)",
    "torch.full((2,), 300, dtype=torch.uint8)": OVERFLOW.format("uint8_t"),
    "torch.full((2,), -1.5, dtype=torch.uint8)": OVERFLOW.format("uint8_t"),
    "torch.full((2,), -1, dtype=torch.uint8)": "tensor([255, 255], dtype=torch.uint8)",
    "torch.full((2,), 200, dtype=torch.int8)": OVERFLOW.format("int8_t"),
    "torch.full((2,), 40000, dtype=torch.int16)": OVERFLOW.format("int16_t"),
    "torch.full((1,), 1e6, dtype=torch.float16)": "tensor([inf], dtype=torch.float16)",
    "torch.full((1,), 1e39, dtype=torch.bfloat16)": "tensor([inf], dtype=torch.bfloat16)",
    "u.clone().fill_(2.7)": "tensor([2, 2, 2, 2], dtype=torch.uint8)",
    "torch.where(u > 1, u, 300)": OVERFLOW.format("uint8_t"),
    "u.masked_fill(u > 1, 300)": OVERFLOW.format("uint8_t"),
    "torch.add(u, u, alpha=300)": OVERFLOW.format("uint8_t"),
    "u.addcmul(u, u, value=300)": OVERFLOW.format("uint8_t"),
    "torch.linspace(-300, 300, 4, dtype=torch.int8)": OVERFLOW.format("int8_t"),
    "torch.randperm(300, dtype=torch.uint8)": OVERFLOW.format("uint8_t"),
    "torch.randperm(2050, dtype=torch.float16)": "RuntimeError: n cannot be greater than 2049 for Half type.",
    "torch.randint(0, 300, (2,), dtype=torch.uint8)": "RuntimeError: to - 1 is out of bounds for unsigned char",
    "torch.randint(-1, 3, (2,), dtype=torch.uint8)": "RuntimeError: from is out of bounds for unsigned char",
    "torch.randint(0, 40000, (2,), dtype=torch.int16)": "RuntimeError: to - 1 is out of bounds for short int",
    "torch.randint(0, 70000, (2,), dtype=torch.float16)": "RuntimeError: to - 1 is out of bounds for c10::Half",
    "u.clone().uniform_()": "NotImplementedError: \"check_uniform_bounds\" not implemented for 'Byte'",
    "torch.nn.functional.hardtanh(u)": "RuntimeError: cannot do hardtanh on an unsigned type with negative limits",
    "torch.tensor(300, dtype=torch.uint8)": "RuntimeError: value cannot be converted to type uint8 without overflow",
    "torch.tensor(300., dtype=torch.int8)": "RuntimeError: value cannot be converted to type int8 without overflow",
    "torch.tensor(-1, dtype=torch.uint8)": "tensor(255, dtype=torch.uint8)",
    "torch.tensor([1.5], dtype=torch.int8)": "tensor([1], dtype=torch.int8)",
    "torch.tensor(1e6, dtype=torch.float16)": "tensor(inf, dtype=torch.float16)",
    "torch.tensor([-1.5, 300., -129., 1e10]).to(torch.uint8)": "tensor([255,  44, 127,   0], dtype=torch.uint8)",
    "torch.tensor([-1.5, 300., -129., 40000.]).to(torch.int8)": "tensor([ -1,  44, 127,  64], dtype=torch.int8)",
    "torch.tensor([-1.5, 300., 40000.]).to(torch.int16)": "tensor([    -1,    300, -25536], dtype=torch.int16)",
    "torch.arange(0, 300, 50, dtype=torch.uint8)": "tensor([  0,  50, 100, 150, 200, 250], dtype=torch.uint8)",
    "torch.arange(300, dtype=torch.int8)[-3:]": "tensor([41, 42, 43], dtype=torch.int8)",
    "torch.arange(4)[torch.tensor([1, 0, 1, 1], dtype=torch.uint8)]": "tensor([0, 2, 3])",
    "torch.arange(4)[i[:1]]": "IndexError: tensors used as indices must be long, int, byte or bool tensors",
    "torch.arange(4).index_select(0, u)": "RuntimeError: index_select(): Expected dtype int32 or int64 for index",
    "torch.arange(4).gather(0, u)": "RuntimeError: gather(): Expected dtype int32/int64 for index",
    "torch.where(u, 1, 2)": "tensor([1, 1, 1, 1])",
    "u.masked_fill(u, 1)": "RuntimeError: masked_fill_ only supports boolean masks, but got mask with dtype unsigned char",
    "u + i": "tensor([  2, 200,  72, 382], dtype=torch.int16)",
    "h + b": "tensor([  2., 200., 400., 510.])",
    "h + 1.5": "tensor([  2.5000, 101.5000, 201.5000, 256.5000], dtype=torch.float16)",
    "i / 2": "tensor([  0.5000,  50.0000, -64.0000,  63.5000])",
    "u.sum()": "tensor(556)",
    "u.prod()": "tensor(5100000)",
    "u.cumsum(0)": "tensor([  1, 101, 301, 556])",
    "u.sum(dtype=torch.uint8)": "tensor(44, dtype=torch.uint8)",
    "u @ u": "tensor(82, dtype=torch.uint8)",
    "h @ h": "tensor(inf, dtype=torch.float16)",
    "h.mean()": "tensor(139., dtype=torch.float16)",
    "u.float().mean().bfloat16()": "tensor(139., dtype=torch.bfloat16)",
    "u.mean()": "RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Byte",
    "u.any()": "tensor(1, dtype=torch.uint8)",
    "torch.all(u, 0)": "tensor(1, dtype=torch.uint8)",
    "i.any()": "tensor(True)",
    "u & 300": "tensor([ 0, 36,  8, 44], dtype=torch.uint8)",
    "u.argmax()": "tensor(3)",
    "torch.eye(2, dtype=torch.int16)": "tensor([[1, 0],\n        [0, 1]], dtype=torch.int16)",
    "u.half()": "tensor([  1., 100., 200., 255.], dtype=torch.float16)",
    "u.bfloat16()": "tensor([  1., 100., 200., 255.], dtype=torch.bfloat16)",
    "torch.tensor([0.1, 1000., 1e-3], dtype=torch.float16)": "tensor([9.9976e-02, 1.0000e+03, 1.0004e-03], dtype=torch.float16)",
    "torch.tensor(0.1, dtype=torch.bfloat16).item()": "0.10009765625",
    "torch.tensor([1, 2], dtype=torch.float16).tolist()": "[1.0, 2.0]",
    "u.tolist()": "[1, 100, 200, 255]",
    "bool(u[0] == 1)": "True",
    "[x.dtype for x in (u.byte(), u.char(), u.short(), u.half(), u.bfloat16())]":
        "[torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16]",
    "[x.type() for x in (u, i, u.short(), h, b)]":
        "['torch.ByteTensor', 'torch.CharTensor', 'torch.ShortTensor', 'torch.HalfTensor', 'torch.BFloat16Tensor']",
    "(torch.half, torch.short)": "(torch.float16, torch.int16)",
    "[d.itemsize for d in (torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16)]": "[1, 1, 2, 2, 2]",
    "[d.is_signed for d in (torch.uint8, torch.int8, torch.half)]": "[False, True, True]",
    "[d.is_floating_point for d in (torch.uint8, torch.half, torch.bfloat16)]": "[False, True, True]",
    "torch.finfo(torch.float16)":
        "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float16)",
    "torch.finfo(torch.bfloat16)":
        "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125, smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=bfloat16)",
    "torch.iinfo(torch.uint8)": "iinfo(min=0, max=255, dtype=uint8)",
    "torch.iinfo(torch.int16)": "iinfo(min=-32768, max=32767, dtype=int16)",
    "torch.result_type(u, i)": "torch.int16",
    "u.bfloat16().numpy()": "TypeError: Got unsupported ScalarType BFloat16",
    "i.numpy().dtype, h.numpy().dtype": "(dtype('int8'), dtype('float16'))",
    "h.masked_fill(h > 1, 1e6)": "RuntimeError: value cannot be converted to type c10::Half without overflow",
    "h.masked_fill(h > 1, float('inf'))": "tensor([1., inf, inf, inf], dtype=torch.float16)",
    "torch.nn.functional.cross_entropy(h[None] / 100, u[:1])": "tensor(2.1758, dtype=torch.float16)",
    "torch.nn.functional.avg_pool2d(i.reshape(1, 2, 2), 2)": "NotImplementedError: \"avg_pool2d\" not implemented for 'Char'",
    "[x.dtype for x in torch.native_layer_norm(h, (4,), torch.ones(4), None, 1e-5)]": "[torch.float16, torch.float32, torch.float32]",
    "[x.dtype for x in torch.native_layer_norm(b, (4,), torch.ones(4).bfloat16(), None, 1e-5)]": "[torch.bfloat16, torch.bfloat16, torch.bfloat16]",
    "torch.layer_norm(h, (4,), torch.ones(4), torch.ones(4).half())":
        "RuntimeError: mixed dtype (CPU): expect parameter to have scalar type of Float",
    "torch.layer_norm(h, (4,), torch.ones(4).half(), torch.ones(4))": "RuntimeError: expected scalar type Half but found Float",
    "[x.dtype for x in torch.native_batch_norm(h[:, None], None, None, torch.zeros(1), torch.ones(1), True, 0.1, 1e-5)]":
        "[torch.float16, torch.float32, torch.float32]",
    "torch.rms_norm(torch.full((4,), 0.01).half(), (4,))": "tensor([0.9995, 0.9995, 0.9995, 0.9995], dtype=torch.float16)",
    "torch.cat([u, i]).dtype": "torch.int16",
    "torch.stack([h, b]).dtype": "torch.float32",
}


def said(module, expression):
    u, i = module.tensor([1, 100, 200, 255], dtype=module.uint8), module.tensor([1, 100, -128, 127], dtype=module.int8)
    try:
        return repr(eval(expression, {"torch": module, "u": u, "i": i, "h": u.half(), "b": u.bfloat16()}))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", SAID)
def test_what_python_sees(expression):
    assert said(torch, expression) == SAID[expression]


@pytest.mark.filterwarnings("ignore")
def test_pytorch_says_the_same():
    if pytorch is not None:
        assert {e: said(pytorch, e) for e in SAID} == SAID


def test_a_mask_of_bytes_warns():
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead"):
        got = torch.arange(3)[torch.tensor([0, 1, 1], dtype=torch.uint8)]
    assert got.tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore:indexing with dtype")
def test_bytes_among_indices_are_a_mask_on_every_device(each_device):
    """On the npu they were widened to int32, and taken for positions."""
    x, mask = torch.arange(16.0).view(4, 4), torch.tensor([0, 1, 0, 255], dtype=torch.uint8, device=each_device)
    assert x[mask].tolist() == [[4, 5, 6, 7], [12, 13, 14, 15]]
    assert x[:, mask].tolist() == [[1, 3], [5, 7], [9, 11], [13, 15]]
    assert mask[mask].tolist() == [1, 255]
    x.index_put_((mask,), torch.tensor(-1.0))
    assert x[:, 0].tolist() == [0, -1, 8, -1]


def test_any_and_all_of_bytes_over_several_dims(each_device):
    x = torch.tensor([[[0, 1]], [[0, 0]], [[255, 2]]], dtype=torch.uint8)
    assert torch.any(x, (1, 2)).tolist() == [1, 0, 1] and torch.all(x, (0, 1)).tolist() == [0, 0]
    assert torch.any(x, (), keepdim=True).tolist() == [[[0, 1]], [[0, 0]], [[1, 1]]]
    assert torch.any(x, (1, 2)).dtype == torch.uint8


def test_default_dtype():
    try:
        for dtype in (torch.float16, torch.bfloat16):
            torch.set_default_dtype(dtype)
            assert torch.tensor(1.5).dtype == torch.ones(2).dtype == (torch.arange(3) / 2).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        torch.set_default_dtype(torch.int8)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.float16])
def test_numpy_shares_memory(dtype):
    array = np.arange(6).astype(dtype).reshape(2, 3)
    t = torch.from_numpy(array)
    assert str(t.dtype) == f"torch.{np.dtype(dtype).name}" and t.tolist() == array.tolist()
    t += 1
    assert array[0, 0] == 1 and t.numpy().dtype == dtype
    assert torch.from_numpy(array.T).stride() == (1, 3)
    assert torch.tensor(array).dtype == t.dtype and torch.as_tensor(dtype(3)).item() == 3


def test_bfloat16_has_no_buffer():
    with pytest.raises(BufferError, match="a tensor of bfloat16 has no buffer"):
        memoryview(torch.ones(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_saved_copied_and_pickled(dtype, tmp_path):
    t = torch.tensor([[0, 1, 2], [3, 5, 100]], dtype=dtype)
    file = io.BytesIO()
    torch.save({"t": t, "view": t.t(), "dtype": dtype}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["dtype"] is dtype and loaded["t"].dtype is dtype and loaded["t"].equal(t) and loaded["view"].equal(t.t())
    for again in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert again.dtype is dtype and again.equal(t)


def test_a_module_in_halves_keeps_its_state_and_learns():
    for convert, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16)):
        torch.manual_seed(0)
        model = getattr(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, 1)), convert)()
        assert {p.dtype for p in model.parameters()} == {dtype}
        other = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(dtype)
        other.load_state_dict(model.state_dict())
        assert all(a.equal(b) and a.dtype == dtype for a, b in zip(other.state_dict().values(), model.state_dict().values()))
        x = torch.randn(32, 4).to(dtype)
        y = x.sum(1, keepdim=True)
        # AdamW's squares of gradients are 0 in float16
        optimizer = (torch.optim.SGD if dtype == torch.float16 else torch.optim.AdamW)(model.parameters(), lr=0.02)
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            assert all(p.grad.dtype == dtype for p in model.parameters())
            optimizer.step()
            losses.append(loss.item())
        assert {p.dtype for p in model.parameters()} == {dtype} and losses[-1] < losses[0] / 3


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_collated_by_a_data_loader(dtype):
    data = TensorDataset(torch.arange(6).to(dtype), torch.arange(6).to(torch.int64))
    for workers in (0, 1):
        batches = list(DataLoader(data, batch_size=4, num_workers=workers))
        assert [x.dtype for x, _ in batches] == [dtype] * 2 and batches[1][0].tolist() == [4, 5]
    empty = next(iter(DataLoader([torch.empty(0, 2, dtype=dtype)], batch_size=None, num_workers=1)))
    assert empty.shape == (0, 2) and empty.dtype == dtype
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert next(iter(DataLoader([np.float16(1.5), np.float16(2)], batch_size=2))).dtype == torch.float16


def test_out_and_in_place_round_once():
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16)
    out = torch.empty(0, dtype=torch.float16)
    assert torch.add(x, x, out=out) is out and out.tolist() == [2, 4, 6] and out._version >= 1
    base = torch.zeros(4, 3, dtype=torch.bfloat16)
    row, before = base[1], base._version
    row.add_(x.bfloat16()).mul_(2)
    assert base[1].tolist() == [2, 4, 6] and base._version == before + 2 and base.sum().item() == 12
    y = x.clone().cumsum_(0)
    assert y.dtype == torch.float16 and y.tolist() == [1, 3, 6] and y._version == 1
    with pytest.raises(RuntimeError, match="result type Half can't be cast to the desired output type Char"):
        torch.ones(2, dtype=torch.int8).add_(x[:2])
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Byte"):
        torch.sin(x.float(), out=torch.empty(3, dtype=torch.uint8))


def test_halves_are_normalised_with_parameters_of_float32():
    x = torch.randn(6, 4).half().requires_grad_()
    weight, mean, var = torch.ones(4, requires_grad=True), torch.zeros(4), torch.ones(4)
    wide = x.detach().float().requires_grad_()
    for norm in (lambda x, w: torch.nn.functional.layer_norm(x, (4,), w), lambda x, w: torch.nn.functional.batch_norm(x, mean, var, w, training=True)):
        x.grad = wide.grad = weight.grad = None
        norm(x, weight).float().pow(2).sum().backward()
        assert x.grad.dtype == torch.float16 and weight.grad.dtype == torch.float32
        got = weight.grad
        weight.grad = None
        norm(wide, weight).pow(2).sum().backward()
        assert torch.allclose(got, weight.grad, rtol=1e-2) and torch.allclose(x.grad.float(), wide.grad, atol=2e-2)
    assert mean.dtype == torch.float32 and mean.abs().sum().item() > 0


def test_gradients_are_added_up_in_the_tensors_dtype():
    x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    for _ in range(2):
        (x.float() * torch.tensor([1.0, 256.0])).sum().backward()
    assert x.grad.dtype == torch.bfloat16 and x.grad.tolist() == [2, 512]
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        torch.ones(2, dtype=torch.int16).requires_grad_()


def test_profiles_name_the_dtypes_and_show_no_more_ops(tmp_path):
    """float16 beside float32: the same ops, other names of types."""
    def ops(dtype):
        a, b = torch.ones(3, 4).to(dtype), torch.ones(4, 5).to(dtype)
        with torch.profiler.profile(record_shapes=True) as prof:
            (a @ b + 1).sum(0)
            torch.cat([a, a]).sort(1)
        prof.export_chrome_trace(str(tmp_path / "t.json"))
        events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        found = [(e["name"], e["args"].get("Input type")) for e in events if e.get("cat") == "cpu_op"]
        return [name for name, _ in found], {t for _, types in found for t in types or () if t}
    names = {torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16", torch.uint8: "unsigned char", torch.int8: "signed char",
             torch.int16: "short int"}
    plain = {True: ops(torch.float32)[0], False: ops(torch.int32)[0]}
    for dtype, name in names.items():
        called, types = ops(dtype)
        assert called == plain[dtype.is_floating_point] and name in types


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_recorded_calls_compute_the_same(dtype):
    """Of numbers, which become tensors there, halves take what floats hold, as PyTorch's do, in some ops."""
    x = (torch.arange(1, 65).float() * 0.37).to(dtype)
    number = 0.1 if dtype.is_floating_point else 3
    calls = {name: lambda name=name: getattr(x, name)(number) for name in ("__add__", "__sub__", "__rsub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__",
                                                                   "__lt__", "__eq__")}
    calls |= {"in place": lambda: x.clone().mul_(number).div_(number) if dtype.is_floating_point else x.clone().mul_(number),
              "zero dims": lambda: x * torch.tensor(number), "alpha": lambda: torch.add(x, x, alpha=number)}
    for name, call in calls.items():
        plain = call()
        with torch.profiler.profile():
            recorded = call()
        assert recorded.dtype == plain.dtype and recorded.equal(plain), name
    if pytorch is not None and dtype.is_floating_point:
        other = pytorch.tensor(x.float().tolist()).to(getattr(pytorch, str(dtype)[6:]))
        for name in ("__add__", "__rsub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__eq__"):
            assert getattr(x, name)(number).float().tolist() == getattr(other, name)(number).float().tolist(), name


def test_the_event_tree_knows_them():
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        torch.ones(3, dtype=torch.bfloat16).relu()
    nodes = [n for n in prof.profiler.kineto_results.experimental_event_tree() if n.name == "aten::relu"]
    assert nodes[0].extra_fields.inputs[0].dtype == torch.bfloat16
