"""Where ops on halves round: what operands of other dtypes become, which numbers are refused. Expected values are PyTorch's."""
import math

import pytest

import mindtorch_v2 as torch

HALVES = (torch.float16, torch.bfloat16)
LARGE = {torch.float16: (65519, 65520.0, 70000, -1e5), torch.bfloat16: (3.395e38, 1e39)}


@pytest.mark.parametrize("dtype", HALVES)
def test_comparisons_round_numbers(each_device, dtype):
    x = torch.tensor([0.1, 0.2, 0.3]).to(dtype)
    for value in (0.1, torch.tensor(0.1), torch.tensor(0.1, dtype=torch.float64)):
        assert (x == value).tolist() == (x <= value).tolist() == [True, False, False]
        assert (x != value).tolist() == (x > value).tolist() == [False, True, True]
        assert (x >= value).all() and not (x < value).any()
        assert x.clone().eq_(value).tolist() == [1, 0, 0]
    assert not (torch.tensor([math.inf]).to(dtype) > 3.4e38).item()
    assert torch.logical_and(x, torch.tensor(1e-8).cpu()).all() == (dtype == torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_integers_are_halves_before_they_meet_halves(each_device, dtype):
    n, h = torch.tensor([2049, 2051], dtype=dtype), torch.tensor([1.0, 3.0]).half()
    assert (n == torch.tensor([2048.0, 2052.0]).half()).all()
    assert (n - h).tolist() == [2047, 2049 - 1] and (h * n).tolist() == [2048, 6156]
    assert torch.where(n > 0, n, h).tolist() == [2048, 2052]
    assert (n.t() / h).tolist() == [2048, 684] and torch.maximum(n, h).tolist() == [2048, 2052]
    assert n.tolist() == [2049, 2051] and n.dtype == dtype


def test_a_single_integer_stays_as_it_is_where_a_number_does():
    h = torch.tensor([1.0, 3.0]).half()
    assert (h * torch.tensor([2049])).tolist() == (h * torch.tensor(2049)).tolist() == [2048, 6148]
    assert (h + torch.tensor([2049])).tolist() == [2049 - 1, 2051 + 1]
    assert torch.atan2(h, torch.tensor(70000)).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("given", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_sums_in_halves_are_sums_of_halves(each_device, dtype, given):
    x = torch.tensor([2049, 4097, -6145]).to(given)
    assert x.sum(dtype=dtype).item() == x.sum(0, dtype=dtype).item() == x.cumsum(0, dtype=dtype)[2].item() == 0
    assert x.sum(0, keepdim=True, dtype=dtype).dtype == dtype and x.dtype == given


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("call", [
    "x.fill_(n)", "torch.full((2,), n, dtype=x.dtype)", "torch.full_like(x, n)", "x.clamp(min=n)", "x.clamp_max(n)", "x.pow(n)", "x.add(x, alpha=n)",
    "torch.sub(x, x, alpha=n)", "x.masked_fill(x > 0, n)", "torch.linspace(0, n, 3, dtype=x.dtype)", "x.uniform_(-1, abs(n))"])
def test_numbers_beyond_halves_are_refused(each_device, dtype, call):
    for n in LARGE[dtype]:
        x = torch.tensor([1.0, 2.0]).to(dtype)
        with pytest.raises(RuntimeError, match="value cannot be converted to type c10::.* without overflow|to is out of bounds for c10::"):
            eval(call, {"torch": torch, "x": x, "n": n})
        assert x.tolist() == [1, 2] and x._version == 0


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("call", ["x.mul(n)", "x.add(n)", "torch.where(x > 5, x, n)", "x[0].fill_(n).reshape(1)", "torch.tensor([n], dtype=x.dtype)"])
def test_elsewhere_they_become_infinite(each_device, dtype, call):
    n = LARGE[dtype][-1]
    got = eval(call, {"torch": torch, "x": torch.tensor([1.0, 2.0]).to(dtype), "n": n})
    assert got.tolist() == [math.copysign(math.inf, n)] * len(got)
    x = torch.tensor([1.0, 2.0]).to(dtype)
    x[0] = n
    assert x.tolist() == [math.copysign(math.inf, n), 2]
    assert torch.addmm(torch.ones(1, 1).to(dtype), torch.ones(1, 1).to(dtype), torch.ones(1, 1).to(dtype), beta=LARGE[dtype][0]).dtype == dtype


def test_powers_of_halves_are_those_of_pow():
    x = torch.tensor([-math.inf, -0.0, 4.0])
    assert x.half().pow(0.5).tolist() == [math.inf, 0, 2] and x.half().pow(-0.5).tolist() == [0, math.inf, 0.5]
    assert x.bfloat16().pow(0.5)[0].isnan() and x.bfloat16().pow(-0.5)[1].item() == -math.inf


def test_any_and_all_of_bytes_over_several_dims(each_device):
    """On the npu, three of four bytes of the result were what the memory held before."""
    x = torch.tensor([[0, 2, 3, 0], [0, 255, 0, 0]], dtype=torch.uint8)
    for dims in ((0,), 0, [0]):
        assert x.any(dims).tolist() == [0, 1, 1, 0] and x.all(dims).tolist() == [0, 1, 0, 0] and x.any(dims).dtype == torch.uint8
    assert x.any(dim=()).tolist() == [[0, 1, 1, 0], [0, 1, 0, 0]] and x.all((0, 1), keepdim=True).tolist() == [[0]]


def test_bytes_shown_as_truths_are_true_or_false():
    x = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).view(torch.bool)
    assert x.float().tolist() == x.half().tolist() == x.sqrt().tolist() == x.to(torch.uint8).tolist() == [0, 1, 1, 1]
    assert (x * 3.0).tolist() == [0, 3, 3, 3]
    assert [e.item() for e in x] == [bool(e) for e in x] == [False, True, True, True]
    assert [int(e) for e in x] == [float(e) for e in x] == [0, 1, 1, 1]
