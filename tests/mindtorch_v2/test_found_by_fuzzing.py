"""What tests/stress/differential found, each as a small program. Expected values are PyTorch's."""
import math

import numpy as np
import pytest

import mindtorch_v2 as torch


def test_the_variance_of_nothing_is_nan(each_device):
    for correction in (-1, 0, 1):
        assert math.isnan(torch.var(torch.zeros(2, 0), correction=correction).item())
        assert all(map(math.isnan, torch.std(torch.zeros(2, 0), 1, correction=correction).tolist()))


def test_arange_of_integers_needs_a_whole_step():
    with pytest.raises(ValueError, match="step must be nonzero"):
        torch.arange(0, 7, 0.5, dtype=torch.int64)
    assert torch.arange(0, 7, 1.5, dtype=torch.int64).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert torch.arange(0, 7, 1.5, dtype=torch.int32).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype, large", [(torch.float32, -1e30), (torch.float64, 1e200)])
def test_layer_norm_of_elements_whose_squares_overflow(each_device, dtype, large):
    """float32 as in float64, float64 as of the same row scaled; PyTorch gives nan, and this gave zeros."""
    for row in ([large, 1, 2], [large, -large, 0, 0], [large] * 4):
        x = torch.tensor([row, [1.0, 2.0, 3.0, 5.0][: len(row)]], dtype=dtype, requires_grad=True)
        y = torch.nn.functional.layer_norm(x, (len(row),))
        small = np.array([np.array(row) / abs(large), x[1].tolist()])
        want = (small - small.mean(1, keepdims=True)) / np.sqrt(small.var(1, keepdims=True) + [[0 if small[0].var() else 1], [1e-5]])
        np.testing.assert_allclose(y.detach().cpu().numpy(), want, rtol=1e-5)
        y[1, 0].backward()
        assert np.isfinite(x.grad.cpu().numpy()).all() and not x.grad.cpu().numpy()[0].any()
    assert torch.nn.functional.layer_norm(torch.tensor([[np.inf, 1.0]], dtype=dtype), (2,)).isnan().all()


def test_the_gradient_of_atan2_at_the_origin_is_zero():
    y, x = torch.tensor([0.0, 1.0], requires_grad=True), torch.tensor([0.0, 0.0], requires_grad=True)
    torch.atan2(y, x).sum().backward()
    assert y.grad.tolist() == [0, 0] and x.grad.tolist() == [0, -1]


def test_repeat_cat_and_stack_of_one_element_many_times():
    """All of the result is written: a part of it was taken for contiguous memory."""
    one = torch.full((1,), 2.0, dtype=torch.float64)
    for rows in (3, 5, 6, 40):
        x = one.as_strided((rows, 1), (0, 0))
        for _ in range(3):
            junk = torch.full((rows * 3, 2), 7.0, dtype=torch.float64)
            del junk
            assert x.repeat(3, 2).tolist() == [[2.0, 2.0]] * (3 * rows)
            assert torch.cat([x, x * 2], 1).tolist() == [[2.0, 4.0]] * rows
            assert torch.stack([x[:, 0], x[:, 0]], 1).tolist() == [[2.0, 2.0]] * rows
            assert x.expand(rows, 3).flip(0, 1).tolist() == [[2.0] * 3] * rows
            assert x.expand(rows, 3).roll((1, 2), (0, 1)).tolist() == [[2.0] * 3] * rows
            y = torch.arange(rows * 3.0).view(rows, 3)
            assert y.t().flip(1).tolist() == y.numpy().T[:, ::-1].tolist() and y[:, 1:].roll(1).numel() == rows * 2


# -------------------------------------------------------------------------------------------------------- programs


def test_backward_stores_gradients_of_inputs_that_are_no_leaves():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward(inputs=[y])
    assert y.grad.tolist() == [1, 1] and x.grad is None and y.retains_grad


def test_a_leaf_that_no_longer_wants_a_gradient_gets_none():
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


def test_a_leaf_with_a_history_is_refused_by_backward():
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = (x * w).sum()
    x.requires_grad_(False)
    x.mul_(w.detach())
    x.add_(w)
    with pytest.raises(RuntimeError, match="modified by an inplace|moved into the graph interior"):
        y.backward()
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).sum()
    x.requires_grad_(False)
    x.add_(w)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        y.backward()


def test_hooks_of_a_root_run_whatever_inputs_are_asked_for():
    x, other, seen = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    y.backward(torch.ones(2), inputs=[other])
    assert seen == [[1, 1]] and y.grad.tolist() == [1, 1] and x.grad is None and other.grad is None


def test_a_view_made_under_no_grad_of_a_tensor_that_is_tracked_later_is_not_silently_constant():
    x, w = torch.zeros(2, 3), torch.ones(1, requires_grad=True)
    with torch.no_grad():
        view, flat = x[0], x.reshape(-1)
    x.add_(w)
    for v in (view, flat):
        assert v.requires_grad
        for use in (lambda: v.is_leaf, lambda: v.grad_fn, lambda: (v * w).sum().backward(), lambda: v.register_hook(print)):
            with pytest.raises(RuntimeError, match="created in no_grad mode and its base"):
                use()


def test_a_refused_change_changes_nothing():
    x, y, w = torch.zeros(2, 3), torch.ones(3), torch.ones(1, requires_grad=True)
    with torch.no_grad():
        view = x[0]
    x.add_(w)
    before = y._version
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        y.add_(view)
    assert y.tolist() == [1, 1, 1] and y._version == before


def test_retain_grad_of_a_view_that_is_out_of_date():
    w = torch.ones(2, 2, requires_grad=True)
    x = w * 1
    part = x.split(1)[0]
    x.mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of Split is a view and its base"):
        part.retain_grad()


def test_views_of_a_leaf_are_not_changed_in_place_whoever_wants_the_gradient():
    x = torch.ones(2, requires_grad=True)
    v = x.view(2)
    x.detach_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        v.neg_()
    v = torch.ones(3)[:2].requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        v.mul_(2)


def test_views_are_not_detached_in_place():
    x = torch.ones(3)
    for v in (x[:2], x.view(-1), x[...]):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            v.detach_()
    assert x.detach().detach_().tolist() == [1, 1, 1]


def test_a_saved_tensor_that_was_detached_in_place_is_refused():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y.detach_()
    with pytest.raises(RuntimeError, match="has been detached in-place"):
        z.backward()


def test_index_put_from_its_own_memory_is_refused():
    x = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[[0, 1, 2]] = x[1:]


def test_whole_slices_and_ellipsis_are_aliases():
    x = torch.ones(3, requires_grad=True)
    assert [x[...].grad_fn.name(), x[0:].grad_fn.name(), x[:3].grad_fn.name(), x[:2].grad_fn.name()] == ["AliasBackward0"] * 3 + ["SliceBackward0"]
    y = x * 1
    y[0:] = x.sum()
    assert y.grad_fn.name() == "FillBackward3"
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_a_retained_gradient_is_not_shared():
    x = torch.ones(2, 2, requires_grad=True)
    y = x.view(4)
    y.retain_grad()
    g, = torch.autograd.grad((y * y).sum(), [x])
    g.zero_()
    assert y.grad.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("change, first, second", [(lambda y: y.unsqueeze(0).relu_(), [-1, -4, 0], [-4, -16, 0]),
                                                   (lambda y: y[1:].pow_(2), [-1, -32, 4], [-4, -3072, 96])])
def test_second_derivatives_through_a_changed_view(change, first, second):
    """What an op in place on a view saves of its result has the history of the whole tensor, not of the op alone."""
    for retain in (False, True):
        x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
        y = 1 - x
        change(y)
        g, = torch.autograd.grad((y * y).sum(), [x], create_graph=True)
        (g * g).sum().backward(retain_graph=retain)
        assert g.tolist() == first and x.grad.tolist() == second


def test_isclose_broadcasts_with_equal_nan():
    x, y = torch.tensor([float("nan")]), torch.tensor([[1.0, float("nan")]])
    assert torch.isclose(x, y, equal_nan=True).tolist() == [[False, True]]
    assert torch.isclose(y, x, equal_nan=True).tolist() == [[False, True]]


def test_softplus_does_not_bend_at_the_threshold():
    """Above it the function is a line; PyTorch counts the threshold itself to the line for the second derivative."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    first, = torch.autograd.grad(torch.nn.functional.softplus(x, 1, 2).sum(), x, create_graph=True)
    second, = torch.autograd.grad(first.sum(), x)
    s = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(second.numpy(), [s * (1 - s), 0, 0], rtol=1e-12)


def test_nodes_of_reshape_index_and_filling_have_pytorchs_names():
    x = torch.ones(4, 6, requires_grad=True)
    assert x[:, ::2].reshape(2, 2, 3).grad_fn.name() == "ReshapeAliasBackward0"
    assert x.reshape(24).grad_fn.name() == "ViewBackward0"
    gradient, = torch.autograd.grad((x[[0, 1]] ** 2).sum(), x, create_graph=True)
    assert gradient.grad_fn.name() == "IndexPutImplBackward0"
    y = x * 1
    y[...] = torch.tensor(2.0, requires_grad=True)
    assert y.grad_fn.name() == "FillBackward3"


def test_a_view_knows_its_base():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 1
    for view in (y[0], y.view(-1), y.t(), y.expand(2, 2, 3), y.split(1)[0], y[0][1:], y.t()[:, 0]):
        assert view._base is y
    assert x._base is None and y._base is None and (y + 1)._base is None and y.reshape(3, 2)._base is y
    with torch.no_grad():
        assert y[0]._base is y
    assert torch.ones(3)[1:]._base.tolist() == [1, 1, 1]


def test_an_accumulator_knows_its_leaf():
    x = torch.ones(2, requires_grad=True)
    node = (x * 2).grad_fn
    accumulator = node.next_functions[0][0]
    assert accumulator.variable is x and repr(accumulator).startswith("<AccumulateGrad object at ")
    assert accumulator.name() == "torch::autograd::AccumulateGrad"
    assert not hasattr(node, "variable")


@pytest.mark.parametrize("count", [3, 6, 7, 10, 100, 1000])
def test_equal_elements_have_no_spread(count):
    """The rounding of their mean gave std a gradient."""
    x = torch.full((4, count), 0.1, dtype=torch.float64, requires_grad=True)
    for dim in (0, 1, None):
        std = x.std(dim) if dim is not None else x.std()
        std.sum().backward()
        assert std.max().item() == x.var().item() == 0.0 and x.grad.abs().max().item() == 0.0
