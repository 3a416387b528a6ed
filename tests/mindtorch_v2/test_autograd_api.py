"""The autograd surface that callers of the contract use: creation, operators, backward, grad, hooks, modes, and errors.
Expected numbers are computed by hand or in NumPy; if PyTorch is installed, graphs and errors are compared with it."""

import gc
import warnings
import weakref

import numpy as np
import pytest

import mindtorch_v2 as torch

try:
    import torch as peer
except ImportError:
    peer = None

needs_peer = pytest.mark.skipif(peer is None, reason="PyTorch is not installed")


def leaf(values, **options):
    return torch.tensor(values, requires_grad=True, **options)


# --------------------------------------------------------------------------------------------------- creation


def test_creation_functions_make_what_they_say():
    assert torch.ones(2, 3).tolist() == [[1.0] * 3] * 2
    assert torch.zeros((2,)).tolist() == [0.0, 0.0]
    assert torch.full((2,), 7.5).tolist() == [7.5, 7.5]
    assert torch.full((2,), 7).dtype == torch.int64
    assert torch.tensor([1.0, 2.0]).dtype == torch.float32 and torch.tensor([1, 2]).dtype == torch.int64
    assert torch.tensor([1, 2], dtype=torch.float64).dtype == torch.float64
    assert torch.tensor(True).dtype == torch.bool and torch.tensor(3.0).shape == ()
    assert torch.ones(2, dtype=torch.int32).dtype == torch.int32
    assert torch.randn(3, 4).shape == (3, 4) and torch.randn(3, 4).dtype == torch.float32


def test_randn_follows_the_seed():
    torch.manual_seed(7)
    first = torch.randn(100)
    torch.manual_seed(7)
    assert torch.randn(100).tolist() == first.tolist()
    assert torch.randn(100).tolist() != first.tolist()
    torch.manual_seed(0)
    many = torch.randn(20000).numpy()
    assert abs(many.mean()) < 0.03 and abs(many.std() - 1) < 0.03


@needs_peer
def test_randn_draws_pytorchs_numbers():
    torch.manual_seed(0), peer.manual_seed(0)
    for size in ((3, 4), (100,), (17,)):
        np.testing.assert_allclose(torch.randn(*size).numpy(), peer.randn(*size).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", ["ones", "zeros", "randn"])
def test_created_with_requires_grad(make):
    x = getattr(torch, make)(2, requires_grad=True)
    assert x.requires_grad and x.is_leaf and x.grad is None and x.grad_fn is None
    assert not getattr(torch, make)(2).requires_grad


# -------------------------------------------------------------------------------------- operators and backward


def test_add_mul_sub_and_sum():
    a, b = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0])
    loss = (a * b + a - b * 2 + 1).sum()
    loss.backward()
    assert loss.item() == 32 + 6 - 30 + 3
    assert a.grad.tolist() == [5.0, 6.0, 7.0] and b.grad.tolist() == [-1.0, 0.0, 1.0]


def test_numbers_on_the_left():
    x = leaf([2.0])
    y = 3 - x + 4 * x + 1 + 6 / x
    y.sum().backward()
    assert y.item() == 13.0 and x.grad.item() == -1 + 4 - 6 / 4


def test_broadcast_operands_get_gradients_of_their_own_shape():
    a, b, c = torch.ones(2, 3, requires_grad=True), torch.ones(3, requires_grad=True), leaf(2.0)
    ((a + b) * c).sum().backward()
    assert a.grad.tolist() == [[2.0] * 3] * 2 and b.grad.tolist() == [4.0] * 3 and c.grad.item() == 12.0


def test_matmul_and_transpose():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    a, b = leaf(x), leaf(w)
    out = a.matmul(b.transpose(0, 1))
    np.testing.assert_allclose(out.detach().numpy(), x @ w.T, rtol=1e-12)
    (out * out).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 2 * (x @ w.T) @ w, rtol=1e-12)
    np.testing.assert_allclose(b.grad.numpy(), 2 * (x @ w.T).T @ x, rtol=1e-12)
    assert (a @ b.t()).tolist() == out.tolist()


def test_sum_over_dims():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    (x.sum(0) * torch.tensor([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [[1.0, 10.0]] * 2
    assert x.sum(1, keepdim=True).shape == (2, 1)


def test_gradients_accumulate_over_backwards():
    x = leaf([3.0])
    for want in (6.0, 12.0, 18.0):
        (x * x).sum().backward()
        assert x.grad.item() == want


def test_a_tensor_used_twice_gets_both_gradients():
    x = leaf([2.0])
    y = x * 3
    (y * y + y).sum().backward()
    assert x.grad.item() == 2 * 6 * 3 + 3


def test_backward_with_a_gradient_for_non_scalars():
    x = leaf([1.0, 2.0])
    (x * x).backward(torch.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * x).backward()


def test_retain_graph_allows_a_second_backward():
    x = leaf([2.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_backward_of_what_needs_no_gradient_is_refused():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        torch.ones(1).sum().backward()


def test_grad_can_be_set_and_is_checked():
    x = leaf([1.0, 2.0])
    x.grad = torch.tensor([5.0, 6.0])
    x.sum().backward()
    assert x.grad.tolist() == [6.0, 7.0]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError, match=r"attempting to assign a gradient of size '\[3\]' to a tensor of size '\[2\]'"):
        x.grad = torch.ones(3)
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None but got grad of type int"):
        x.grad = 3


# ----------------------------------------------------------------------------------- requires_grad, detach, numpy


@pytest.mark.parametrize("before", [None, torch.ones(2, 3)])
def test_a_gradient_has_the_shape_of_its_leaf(before):
    """Also if that got other data meanwhile."""
    x = torch.ones(2, 3, requires_grad=True)
    x.grad = before
    loss = (x * 2).sum()
    x.data = torch.ones(3, 2)
    with pytest.raises(RuntimeError, match="shape"):
        loss.backward()


def test_requires_grad_can_be_switched_on_leaves():
    x = torch.ones(2)
    assert x.requires_grad_() is x and x.requires_grad
    x.requires_grad = False
    assert not x.requires_grad and not (x * 2).requires_grad
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        torch.ones(2, dtype=torch.int64).requires_grad_()
    y = leaf([1.0]) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = False


def test_detach_shares_memory_and_has_no_history():
    x = leaf([1.0, 2.0])
    y = (x * 2).detach()
    assert not y.requires_grad and y.grad_fn is None
    z = x.detach()
    z.add_(1)
    assert x.tolist() == [2.0, 3.0]
    (x * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_detach_in_place_makes_a_leaf():
    x = leaf([1.0])
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None
    z = (y * x).sum()
    z.backward()
    assert x.grad.item() == 2.0


def test_numpy_shares_memory_and_refuses_history():
    x = torch.ones(2)
    x.numpy()[0] = 5
    assert x.tolist() == [5.0, 1.0]
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach\(\).numpy\(\) instead."):
        leaf([1.0]).numpy()
    array = np.arange(3.0)
    torch.from_numpy(array).add_(1)
    assert array.tolist() == [1.0, 2.0, 3.0]


def test_retain_grad_keeps_the_gradient_of_what_is_not_a_leaf():
    x = leaf([1.0, 2.0])
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [6.0, 12.0] and y.retains_grad and not x.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        torch.ones(1).retain_grad()


def test_the_gradient_of_a_non_leaf_is_not_kept():
    x = leaf([1.0])
    y = x * 2
    (y * y).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert y.grad is None


# ------------------------------------------------------------------------------------------------------ hooks


def test_hooks_see_and_replace_gradients_and_can_be_removed():
    x = leaf([1.0, 2.0])
    seen = []
    watch = x.register_hook(lambda grad: seen.append(grad.tolist()))
    double = x.register_hook(lambda grad: grad * 2)
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0]] and x.grad.tolist() == [6.0, 6.0]
    watch.remove()
    double.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == [3.0, 3.0]


def test_hooks_of_inner_tensors_change_what_flows_on():
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda grad: grad * 10)
    (y * 3).sum().backward()
    assert x.grad.item() == 60.0


def test_hooks_need_a_gradient_and_their_errors_come_out():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(1).register_hook(lambda grad: None)
    x = leaf([1.0])
    x.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 2).sum().backward()


@pytest.mark.parametrize("made, message", [
    (lambda g: g[:2], "size"), (lambda g: g.sum(), "size"), (lambda g: g.reshape(1, 3), "size"), (lambda g: g.expand(2, 3), "size"),
    (lambda g: g.double(), "type"), (lambda g: g.long(), "type"),
])
def test_hooks_return_gradients_like_those_they_got(made, message):
    for hooked in (lambda x: x, lambda x: x * 2):
        x = torch.ones(3, requires_grad=True)
        y = hooked(x)
        y.register_hook(made)
        with pytest.raises(RuntimeError, match=f"hook.* has changed the {message} of"):
            (y * 3).sum().backward()
        assert x.grad is None


def test_post_accumulate_hooks_return_nothing():
    x = torch.ones(3, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: t.data.add_(1))  # as many do: what it returns is ignored
    (x * 3).sum().backward()
    assert x.tolist() == [2.0, 2.0, 2.0] and x.grad.tolist() == [3.0, 3.0, 3.0]
    x.register_post_accumulate_grad_hook(lambda t: 5)
    with pytest.raises(TypeError, match="int"):
        (x * 3).sum().backward()


def test_post_accumulate_hooks_see_the_finished_gradient():
    x = leaf([1.0])
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    assert seen == [2.0, 5.0]


# ----------------------------------------------------------------------------------------------- autograd.grad


def test_grad_returns_gradients_without_touching_leaves():
    x, y = leaf([2.0]), leaf([3.0])
    gx, gy = torch.autograd.grad((x * x * y).sum(), [x, y])
    assert gx.item() == 12.0 and gy.item() == 4.0 and x.grad is None and y.grad is None
    (gx,) = torch.autograd.grad(x * 5, x, grad_outputs=torch.tensor([2.0]))
    assert gx.item() == 10.0


def test_grad_of_unused_inputs():
    x, y = leaf([2.0]), leaf([3.0])
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."):
        torch.autograd.grad((x * 2).sum(), [x, y])
    gx, gy = torch.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)
    assert gx.item() == 2.0 and gy is None
    gx, gy = torch.autograd.grad((x * 2).sum(), [x, y], allow_unused=True, materialize_grads=True)
    assert gy.item() == 0.0


def test_grad_of_no_inputs_is_refused():
    """It was a backward pass into all leaves."""
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="cannot be empty"):
        torch.autograd.grad((x * 2).sum(), [])
    assert x.grad is None


def test_grad_of_inner_tensors():
    x = leaf([2.0])
    y = x * 3
    (gy,) = torch.autograd.grad((y * y).sum(), y)
    assert gy.item() == 12.0


def test_create_graph_gives_second_derivatives():
    x = leaf([2.0], dtype=torch.float64)
    (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    assert (first.item(), second.item(), third.item()) == (12.0, 12.0, 6.0)


def test_backward_into_some_inputs_only():
    x, y = leaf([2.0]), leaf([3.0])
    (x * y).sum().backward(inputs=[x])
    assert x.grad.item() == 3.0 and y.grad is None


def test_backward_of_several_roots():
    x = leaf([2.0])
    torch.autograd.backward([x * 2, x * 3], [torch.ones(1), torch.tensor([10.0])])
    assert x.grad.item() == 32.0


# ------------------------------------------------------------------------------------------------------- modes


def test_no_grad_and_enable_grad_nest():
    x = leaf([1.0])
    with torch.no_grad():
        assert not torch.is_grad_enabled() and not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()

    @torch.no_grad()
    def quiet():
        return x * 2

    assert not quiet().requires_grad and torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    with pytest.raises(ZeroDivisionError):
        with torch.no_grad():
            1 / 0
    assert torch.is_grad_enabled()


# ---------------------------------------------------------------------------------------------------- in place


def test_a_decorated_generator_gets_what_its_user_throws():
    seen = []

    @torch.no_grad()
    def numbers():
        try:
            try:
                yield torch.is_grad_enabled()
            except KeyError:
                seen.append(torch.is_grad_enabled())
                got = yield "caught"
                seen.append(got)
            yield 2
        finally:
            seen.append("closed" if not torch.is_grad_enabled() else "in the wrong mode")
        return 7

    items = numbers()
    assert next(items) is False and torch.is_grad_enabled()
    assert items.throw(KeyError("k")) == "caught" and items.send(5) == 2 and torch.is_grad_enabled()
    with pytest.raises(StopIteration) as end:
        next(items)
    assert end.value.value == 7 and seen == [False, 5, "closed"]
    seen.clear()
    items = numbers()
    next(items)
    items.close()
    assert seen == ["closed"] and torch.is_grad_enabled()
    items = numbers()
    next(items)
    with pytest.raises(ValueError):
        items.throw(ValueError())
    items = numbers()
    next(items)
    del items
    assert seen == ["closed"] * 3 and torch.is_grad_enabled()


def test_a_leaf_that_requires_grad_is_not_changed_in_place():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation."):
        x.add_(1)
    with torch.no_grad():
        x.add_(1)
    assert x.item() == 2.0


def test_what_backward_needs_must_not_have_changed():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = (y * y).sum()
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="one of the variables needed for gradient computation has been modified by an inplace operation"):
        z.backward()


def test_in_place_ops_are_part_of_the_graph():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.mul_(3)
    y[0] = 0.0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 6.0]


# ------------------------------------------------------------------------------------------- graphs and functions


def test_grad_fn_names_and_edges():
    x, w = leaf([[1.0, 2.0]]), leaf([[3.0], [4.0]])
    y = (x.matmul(w) + 1).sum()
    assert y.grad_fn.name() == "SumBackward0"
    add = y.grad_fn.next_functions[0][0]
    mm = add.next_functions[0][0]
    assert add.name() == "AddBackward0" and mm.name() == "MmBackward0"
    assert [node.name() for node, _ in mm.next_functions] == ["torch::autograd::AccumulateGrad"] * 2


@needs_peer
def test_graphs_have_pytorchs_names():
    def names(module):
        x = module.ones(2, 3, requires_grad=True)
        w, b = module.ones(4, 3, requires_grad=True), module.ones(4, requires_grad=True)
        h = module.nn.functional.linear(x, w, b)
        y = (h.relu().transpose(0, 1) - 1).exp().mean()
        out, node = [], y.grad_fn
        while node is not None:
            out.append(node.name())
            nexts = [n for n, _ in node.next_functions if n is not None]
            node = nexts[0] if nexts else None
        return out

    assert names(torch) == names(peer)


def test_a_function_of_ones_own():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x

    x = leaf([2.0])
    y = Cube.apply(x)
    assert y.grad_fn.name() == "CubeBackward"
    y.sum().backward()
    assert x.grad.item() == 12.0


def test_the_graph_is_freed_after_backward():
    x = torch.ones(1000, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    ref = weakref.ref(y)
    del y
    z.backward()
    del z
    gc.collect()
    assert ref() is None


def test_deep_graphs_do_not_overflow_the_stack():
    x = leaf([1.0])
    y = x
    for _ in range(20000):
        y = y + 1
    y.sum().backward()
    assert x.grad.item() == 1.0
    del y


# ------------------------------------------------------------------------------------------- nn.Linear, dtypes, npu


def test_linear_computes_and_learns():
    layer = torch.nn.Linear(3, 2)
    x = torch.randn(5, 3)
    out = layer(x)
    np.testing.assert_allclose(
        out.detach().numpy(), x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy(), rtol=1e-5, atol=1e-6
    )
    out.sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), np.tile(x.numpy().sum(0), (2, 1)), rtol=1e-5, atol=1e-6)
    assert layer.bias.grad.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(5x4 and 3x2\)"):
        layer(torch.randn(5, 4))


@needs_peer
def test_linear_starts_with_pytorchs_values():
    torch.manual_seed(0), peer.manual_seed(0)
    ours, theirs = torch.nn.Linear(3, 4), peer.nn.Linear(3, 4)
    np.testing.assert_array_equal(ours.weight.detach().numpy(), theirs.weight.detach().numpy())
    np.testing.assert_array_equal(ours.bias.detach().numpy(), theirs.bias.detach().numpy())


def test_shapes_that_do_not_fit_are_named_in_the_error():
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 0"):
        torch.ones(2) + torch.ones(3)
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"):
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_dtypes_promote_and_gradients_keep_their_own():
    x = leaf([1.0, 2.0])
    y = torch.tensor([3.0, 4.0], dtype=torch.float64)
    out = x * y
    assert out.dtype == torch.float64
    out.sum().backward()
    assert x.grad.dtype == torch.float32 and x.grad.tolist() == [3.0, 4.0]
    assert (x * torch.tensor([2, 3])).dtype == torch.float32


def test_npu_says_what_it_has():
    assert isinstance(torch.npu.is_available(), bool)
    if torch.npu.is_available():
        before = torch.npu.memory_allocated()
        x = torch.ones(4).to("npu")
        torch.npu.synchronize()
        assert torch.npu.memory_allocated() >= before + 16 and (x + 1).cpu().tolist() == [2.0] * 4
        return
    for call in (torch.npu.synchronize, lambda: torch.ones(2, device="npu")):
        with pytest.raises((RuntimeError, AssertionError)):
            call()
    try:
        assert torch.npu.memory_allocated() == 0
    except RuntimeError as error:
        assert "is_available() is False" in str(error)


def test_training_reaches_the_solution():
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    truth = torch.tensor([[1.0], [-2.0], [0.5]])
    y = x @ truth + 0.25
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        loss = ((layer(x) - y) * (layer(x) - y)).mean()
        loss.backward()
        optimizer.step()
    np.testing.assert_allclose(layer.weight.detach().numpy(), [[1.0, -2.0, 0.5]], atol=1e-3)
    assert loss.item() < 1e-6


def test_a_detached_tensor_still_retains_its_gradient():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * 3
    y.detach_()
    assert y.retains_grad and not y.requires_grad
    z.sum().backward()
    assert y.grad.tolist() == [3, 3, 3] and x.grad.tolist() == [6, 6, 6]


def test_a_freed_tensor_retains_no_gradient():
    """After detach_() its old node knew it no more, but kept writing gradients to where it was."""
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * 3
    y.detach_()
    del y
    others = [torch.zeros(3) for _ in range(50)]
    z.sum().backward()
    assert [t for t in others if t.grad is not None] == [] and x.grad.tolist() == [6, 6, 6]


@pytest.mark.parametrize("change", [lambda y: y.mul_(2), lambda y: y[0:1].mul_(2), lambda y: y.detach_().requires_grad_()])
def test_a_hook_can_be_removed_after_a_change_in_place(change):
    """It stays with the value before, and ran on."""
    x, seen = torch.ones(3, requires_grad=True), []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append("removed"))
    y.register_hook(lambda g: seen.append("kept"))
    before = (y * 3).sum()
    change(y)
    handle.remove()
    (y.sum() + before).backward()
    assert seen == ["kept"]
