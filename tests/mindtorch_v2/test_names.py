"""The public names: all of them are PyTorch's, and the aliases that PyTorch has are there."""
import importlib
import types

import pytest

import mindtorch_v2

MODULES = ("", "nn", "nn.functional", "nn.init", "nn.parameter", "nn.utils", "optim", "optim.lr_scheduler", "autograd", "autograd.function",
           "autograd.grad_mode", "utils", "utils.data", "random", "backends", "serialization")
CLASSES = ("Tensor", "nn.Module", "nn.Parameter", "optim.Optimizer", "Size", "dtype", "device", "Generator")
OURS = {"npu", "is_npu"}  # the accelerator, as torch_npu adds it to PyTorch
ALIASES = ("absolute arctan2 clip concat concatenate divide fix greater greater_equal less less_equal moveaxis multiply negative not_equal ravel "
           "subtract swapaxes swapdims true_divide").split()


def of(package, path):
    found = importlib.import_module(package)
    for name in path.split(".") if path else ():
        found = getattr(found, name) if hasattr(found, name) else importlib.import_module(f"{found.__name__}.{name}")
    return found


@pytest.mark.parametrize("path", MODULES + CLASSES)
def test_every_public_name_is_one_of_pytorchs(path):
    pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    ours, theirs = of("mindtorch_v2", path), of("torch", path)
    public = {n for n in dir(ours) if not n.startswith("_") and not isinstance(getattr(ours, n), types.ModuleType)}
    public |= set(getattr(ours, "__all__", ()))
    assert sorted(n for n in public - OURS if not hasattr(theirs, n)) == []


def test_ops_that_are_no_functions_remain_ops():
    assert not hasattr(mindtorch_v2, "nll_loss_forward") and not hasattr(mindtorch_v2.Tensor, "gelu")
    assert mindtorch_v2._C.ops.gelu(mindtorch_v2.zeros(2)).tolist() == [0, 0]


@pytest.mark.parametrize("name", ALIASES)
def test_aliases_exist(name):
    assert callable(getattr(mindtorch_v2, name))
    assert name.startswith("concat") or callable(getattr(mindtorch_v2.Tensor, name))


def test_aliases_do_what_they_stand_for():
    torch = mindtorch_v2
    x, y = torch.tensor([[-1.5, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.5], [2.0, 3.0]])
    for name, of_name in (("subtract_", "sub_"), ("multiply_", "mul_"), ("divide_", "div_"), ("true_divide_", "div_")):
        assert getattr(x.clone(), name)(y).tolist() == getattr(x.clone(), of_name)(y).tolist()
    for f in (torch.negative_, torch.Tensor.negative_):
        z = x.clone()
        assert f(z) is z and z.tolist() == (-x).tolist()
    for f in (torch.clip_, torch.Tensor.clip_):
        assert f(x.clone(), 0, 1).tolist() == x.clamp(0, 1).tolist()
    assert torch.arctan2(x, y).tolist() == x.atan2(y).tolist()
    assert torch.ravel(x).tolist() == [-1.5, 2, 3, 4]
    assert torch.moveaxis(torch.zeros(2, 3, 4), 0, -1).shape == x.new_zeros(2, 3, 4).moveaxis(0, -1).shape == (3, 4, 2)
