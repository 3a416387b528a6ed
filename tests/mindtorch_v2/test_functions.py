"""autograd.Function: what it saves, changes in place, returns as it came; and when what it saved is released."""
import gc
import weakref

import pytest

import mindtorch_v2 as torch


def leaf(*values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


class Exp(torch.autograd.Function):
    """Saves its result."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result


class Twice(torch.autograd.Function):
    """In place."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Same(torch.autograd.Function):
    """Its input as it is."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


def test_a_saved_result_has_a_derivative():
    x = leaf(0.0, 1.0)
    derivative = Exp.apply(x)
    for _ in range(3):
        (derivative,) = torch.autograd.grad(derivative.sum(), x, create_graph=True)
        assert derivative.requires_grad and torch.allclose(derivative, x.exp())


def test_the_second_of_several_results_is_saved():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a, b, c = x * 2, x * x, x.long()
            ctx.save_for_backward(c, b, x)
            return a, c, b

        @staticmethod
        def backward(ctx, grad_a, _, grad_b):
            c, b, x = ctx.saved_tensors
            assert b.requires_grad and not c.requires_grad
            return grad_a * 2 + grad_b * 2 * (b / x)

    x = leaf(3.0)
    (first,) = torch.autograd.grad(Two.apply(x)[2].sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.item() == 6.0 and second.item() == pytest.approx(2.0)


def test_contexts_that_save_their_result_are_freed():
    kept = []

    class Kept(Exp):
        @staticmethod
        def forward(ctx, x):
            ctx.mark = type("Mark", (), {})()
            kept.append(weakref.ref(ctx.mark))
            return Exp.forward(ctx, x)

    x = leaf(1.0)
    torch.autograd.grad(Kept.apply(x).sum(), x, create_graph=True)
    Kept.apply(x)
    gc.collect()
    assert [ref() for ref in kept] == [None, None]


def test_what_was_saved_is_released_after_backward():
    x = leaf(1.0)
    y = Exp.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()
    assert x.grad.item() == pytest.approx(2 * 2.718281828459045)


def test_the_memory_of_what_was_saved_is_released_after_backward():
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            inner = x.detach() * 3
            kept.append(weakref.ref(inner))
            ctx.save_for_backward(inner)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    kept, x = [], leaf(1.0)
    y = Keeps.apply(x)
    y.sum().backward()
    assert kept[0]() is None and x.grad.item() == 3.0


def test_a_change_in_place_reaches_the_base_of_a_view():
    x = leaf(1.0, 1.0, 1.0)
    y = x * 1
    view = y[1:]
    assert Twice.apply(view) is view
    y.sum().backward()
    assert y.tolist() == [1.0, 2.0, 2.0] and x.grad.tolist() == [1.0, 2.0, 2.0]


def test_what_was_changed_and_is_not_differentiable_loses_its_history():
    class Doubles(Twice):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x)
            return Twice.forward(ctx, x)

    x = leaf(1.0)
    y = x * 1
    made = Doubles.apply(y)
    assert made is y and y.item() == 2.0 and not y.requires_grad
    (y * x).sum().backward()
    assert x.grad.item() == 2.0


def test_a_view_that_cannot_be_used_is_refused_before_it_is_changed():
    y = leaf(1.0, 2.0) * 1
    with torch.no_grad():
        view = y[1:]
    y.mul_(3)
    with pytest.raises(RuntimeError, match="no_grad mode"):
        Twice.apply(view)
    assert y.tolist() == [3.0, 6.0]


def test_contexts_of_changes_in_place_are_freed():
    kept = []

    class Kept(Twice):
        @staticmethod
        def forward(ctx, x):
            ctx.mark = type("Mark", (), {})()
            kept.append(weakref.ref(ctx.mark))
            ctx.save_for_backward(x)
            return Twice.forward(ctx, x)

    x = leaf(1.0, 1.0)
    for change in (lambda y: y, lambda y: y[1:]):
        for back in (False, True):
            y = x * 1
            Kept.apply(change(y))
            if back:
                y.sum().backward()
            del y
    gc.collect()
    assert [ref() for ref in kept] == [None] * 4


def test_a_change_in_place_makes_the_base_require_grad():
    class AddTo(torch.autograd.Function):
        @staticmethod
        def forward(ctx, target, x):
            ctx.mark_dirty(target.add_(x))
            return target

        @staticmethod
        def backward(ctx, grad):
            return grad, grad * 7

    base, x = torch.zeros(3, dtype=torch.float64), leaf(1.0, 2.0)
    AddTo.apply(base[1:], x * 1)
    assert base.requires_grad
    (base * torch.tensor([5.0, 1.0, 2.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [7.0, 14.0]


def test_views_of_what_was_changed_in_place_follow():
    x = leaf(1.0, 1.0)
    y = x * 1
    view, version = y[1:], y._version
    Twice.apply(y)
    assert y._version > version
    view.sum().backward()
    assert x.grad.tolist() == [0.0, 2.0]


def test_a_change_in_place_of_a_leaf_is_refused():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Twice.apply(leaf(1.0))
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        Twice.apply(leaf(1.0, 2.0)[1:])


def test_what_was_changed_must_be_returned():
    class Forgets(Twice):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(RuntimeError, match="were not returned as output"):
        Forgets.apply(leaf(1.0) * 1)


def test_a_view_among_several_results_is_not_changed_in_place():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x.mul_(2))
            return x, x * 3

        @staticmethod
        def backward(ctx, grad, other):
            return grad * 2 + other * 6

    y = leaf(1.0, 1.0) * 1
    with pytest.raises(RuntimeError, match="more than one Tensor"):
        Both.apply(y[1:])


def test_an_input_returned_as_it_is_shares_its_memory_and_says_so():
    x = leaf(1.0, 2.0)
    y = Same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="is a view"):
        y.mul_(2)
    y.sum().backward()
    assert x.tolist() == [1.0, 2.0] and x.grad.tolist() == [5.0, 5.0]
    inner = leaf(1.0, 2.0) * 1
    y = Same.apply(inner)
    inner.mul_(3)
    with pytest.raises(RuntimeError, match="modified inplace"):
        y.sum().backward()


def test_a_function_marked_as_once_differentiable_is_not_differentiated_twice():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0] * 2

    x = leaf(1.0)
    (first,) = torch.autograd.grad((Square.apply(x) ** 2 + x ** 3).sum(), x, create_graph=True)
    assert first.item() == 7.0
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
