"""Arguments that PyTorch's functions accept: see signatures.py. And some that its stubs do not tell."""
import numpy as np
import pytest

import mindtorch_v2 as torch


def test_arguments_of_every_overload_are_pytorchs():
    peer = pytest.importorskip("torch")
    import signatures

    found, tried = signatures.differences(peer)
    assert tried > 2000
    assert [row for row in found if signatures.reason(row[0]) is None] == []
    left = {begins for begins in signatures.LEFT if any(text.startswith(begins) for text, *_ in found)}
    assert left == set(signatures.LEFT)


def test_names_from_numpy():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.sum(x, axis=0, keepdims=True).tolist() == [[3, 5, 7]]
    assert torch.cat([x, x], axis=1).shape == (2, 6)
    assert x.sum(axis=1).tolist() == [3, 12]
    assert torch.add(x=x, x2=x).tolist() == (x + x).tolist()
    assert torch.std(x, axis=0).tolist() == x.std(0).tolist()
    assert torch.sort(x, axis=0, descending=True)[1].tolist() == [[1, 1, 1], [0, 0, 0]]
    with pytest.raises(TypeError, match="axes"):
        torch.sum(x, axes=0)


@pytest.mark.parametrize("to, shape", [(torch.int32, (2, 6)), (torch.float32, (2, 6)), (torch.int64, (2, 3)), (torch.bool, (2, 24))])
def test_a_view_of_another_dtype_shares_memory(to, shape):
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    v = x.view(to)
    assert v.shape == shape and v.data_ptr() == x.data_ptr() and v.stride() == (shape[1], 1)
    before = x._version
    v.zero_()
    assert x.abs().sum().item() == 0 and x._version == before + 1


@pytest.mark.parametrize("make, message", [
    (lambda: torch.zeros(3, 3).view(torch.float64), "must be divisible by 2 to view Float as Double"),
    (lambda: torch.zeros(()).view(torch.float64), "self.dim.. cannot be 0 to view Float as Double"),
    (lambda: torch.zeros(2, 4).t().view(torch.float64), "self.stride.-1. must be 1 to view Float as Double"),
    (lambda: torch.zeros(5)[1:].view(torch.float64), "self.storage_offset.. must be divisible by 2"),
])
def test_views_of_another_dtype_that_do_not_fit(make, message):
    with pytest.raises(RuntimeError, match=message):
        make()


def test_a_view_of_another_dtype_is_a_constant():
    x = torch.ones(3, requires_grad=True)
    assert not x.view(torch.int32).requires_grad


@pytest.mark.parametrize("call, error, message", [
    (lambda x: x.div(x, rounding_mode="ceil"), RuntimeError, "rounding_mode to be one of None, 'trunc', or 'floor' but found 'ceil'"),
    (lambda x: torch.clamp(x), RuntimeError, "At least one of 'min' or 'max' must not be None"),
    (lambda x: torch.clamp(x, x, 1), TypeError, "invalid combination of arguments"),
    (lambda x: (x > 0).clamp(x > 0, x > 0), NotImplementedError, "\"clamp_cpu\" not implemented for 'Bool'"),
    (lambda x: torch.any(x, (0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda x: torch.arange(3).round(decimals=1), NotImplementedError, "\"round_cpu\" not implemented for 'Long'"),
    (lambda x: torch.norm(x, dtype=torch.int32), RuntimeError, "dtype should be floating point or complex, but got Int"),
    (lambda x: torch.norm(x.double(), dtype=torch.float32), RuntimeError, "convertible without narrowing"),
    (lambda x: x.scatter(0, torch.tensor([0]), x, reduce="mean"), RuntimeError, "reduce argument must be either add or multiply"),
    (lambda x: torch.empty(2, memory_format=torch.preserve_format), RuntimeError, "unsupported memory format Preserve"),
    (lambda x: x.random_(0), RuntimeError, "random_ expects 'from' to be less than 'to', but got from=0 >= to=0"),
    (lambda x: x.random_(2**25, None), RuntimeError, "from=33554432 > to_inc=16777216"),
    (lambda x: x.bernoulli(2), RuntimeError, "bernoulli_ expects p to be in .0, 1., but got p=2"),
    (lambda x: x.bernoulli_(torch.ones(3) * 2), RuntimeError, "Expected p_in >= 0 && p_in <= 1"),
    (lambda x: x.bernoulli_(torch.ones(2)), RuntimeError, "size of tensor a .3. must match the size of tensor b .2."),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.ones(3))


def test_memory_formats():
    x = torch.arange(6.0).reshape(2, 3).t()
    for y in (x.clone(memory_format=torch.contiguous_format), x.to(torch.float64, memory_format=torch.contiguous_format),
              torch.zeros_like(x, memory_format=torch.contiguous_format), torch.empty_like(x, memory_format=torch.contiguous_format)):
        assert y.stride() == (2, 1)
    assert x.to(torch.float64).stride() == torch.zeros_like(x, memory_format=torch.preserve_format).stride() == (1, 3)
    assert x.to(copy=True) is not x and x.to(memory_format=torch.contiguous_format) is x
    assert not x.is_contiguous(memory_format=torch.contiguous_format)
    images = torch.zeros(2, 4, 4, 3).permute(0, 3, 1, 2)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert not torch.zeros(2, 3, 4, 4).is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(NotImplementedError, match="only contiguous_format and preserve_format"):
        x.clone(memory_format=torch.channels_last)


def test_generators_of_all_that_draw():
    calls = [lambda g: torch.rand(3, generator=g), lambda g: torch.rand_like(torch.zeros(3), generator=g), lambda g: torch.randn_like(
        torch.zeros(3), generator=g), lambda g: torch.full((50,), 0.5).bernoulli(generator=g), lambda g: torch.zeros(3).random_(generator=g),
        lambda g: torch.zeros(50).bernoulli_(torch.full((50,), 0.5), generator=g)]
    for call in calls:
        first, again = (call(torch.Generator().manual_seed(3)) for _ in range(2))
        assert first.tolist() == again.tolist()


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_with_shared_heads(is_causal):
    q, k, v = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 3, 7, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    got = attend(q, k, v, is_causal=is_causal, enable_gqa=True)
    rows = [attend(q[:, h:h + 1], k[:, h // 3:h // 3 + 1], v[:, h // 2:h // 2 + 1], is_causal=is_causal) for h in range(6)]
    np.testing.assert_allclose(got.numpy(), torch.cat(rows, 1).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="heads in key and value must divide"):
        attend(q, torch.randn(2, 4, 7, 4), torch.randn(2, 4, 7, 4), enable_gqa=True)
