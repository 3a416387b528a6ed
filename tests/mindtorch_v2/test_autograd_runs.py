"""Several runs of backward that share nodes: nested (hooks, functions) and on several threads."""
import sys
import threading
import weakref

import pytest

import mindtorch_v2 as torch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def after(_):
    """The result of a hook that leaves the gradient unchanged."""
    return None


def run_threads(count, work):
    errors = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    every = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(every)
    assert errors == []


def test_a_hook_goes_backward_through_a_shared_leaf():
    w = leaf(1.0, 2.0)
    y = w * 2
    other = (w * 3).sum()
    y.register_hook(lambda g: other.backward())
    y.sum().backward()
    assert w.grad.tolist() == [5.0, 5.0]


def test_a_hook_of_a_leaf_goes_backward_through_another_graph_of_it():
    w = leaf(1.0)
    other = [(w * 3).sum()]

    def hook(grad):
        if other:
            other.pop().backward()

    w.register_hook(hook)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [5.0]


def test_a_post_accumulate_hook_goes_backward():
    w = leaf(1.0)
    other = [(w * 3).sum()]
    w.register_post_accumulate_grad_hook(lambda t: after(other and other.pop().backward()))
    (w * 2).sum().backward()
    assert w.grad.tolist() == [5.0]


def test_a_hook_asks_for_gradients_of_the_very_graph():
    w = leaf(3.0)
    y = w * w
    total, got = y.sum(), []

    def hook(grad):
        if not got:
            got.append(0)
            got.append(torch.autograd.grad(total, w, retain_graph=True)[0].item())

    y.register_hook(hook)
    total.backward(retain_graph=True)
    assert got == [0, 6.0] and w.grad.tolist() == [6.0]


def test_backward_of_a_function_goes_backward_through_shared_leaves():
    """As a re-entrant checkpoint does: the parameters are leaves of both runs."""
    w = leaf(2.0)

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                y = x * w
            torch.autograd.backward(y, grad)
            return x.grad

    x = leaf(5.0)
    (Again.apply(x * w) * w).sum().backward()  # x w^3
    assert x.grad.tolist() == [8.0]
    assert w.grad.tolist() == [60.0]  # 3 x w^2


def test_runs_nest_deeply():
    w = leaf(1.0)

    class Nest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth > 0:
                with torch.enable_grad():
                    inner = Nest.apply(w * 1, ctx.depth - 1).sum()
                inner.backward()
            return grad, None

    Nest.apply(w * 1, 40).sum().backward()
    assert w.grad.tolist() == [41.0]


def test_an_inner_run_that_fails_leaves_the_graph_whole():
    w = leaf(1.0)
    y = w * 2

    z = w * 3
    z.register_hook(lambda g: 1 / 0)
    inner = z.sum()

    def fails(grad):
        with pytest.raises(ZeroDivisionError):
            inner.backward()

    y.register_hook(fails)
    y.sum().backward()
    assert w.grad.tolist() == [2.0]
    (w * 3).sum().backward()
    assert w.grad.tolist() == [5.0]


def test_an_inner_run_frees_what_the_outer_one_needs():
    w = leaf(2.0)
    y = w * w
    total, again = y.sum(), [(y * 1).sum()]
    y.register_hook(lambda g: after(again and torch.autograd.grad(again.pop(), w)))
    with pytest.raises(RuntimeError, match="a second time"):
        total.backward()


def test_two_threads_are_in_a_shared_leaf_at_once():
    w = leaf(1.0)
    inside = threading.Barrier(2)

    def work(i):
        y = w * 2
        y.register_hook(lambda g: after(inside.wait(120)))
        y.sum().backward()

    run_threads(2, work)
    assert w.grad.tolist() == [4.0]


def test_two_threads_are_in_one_graph_at_once():
    w = leaf(3.0)
    inside = threading.Barrier(2)
    y = w * w
    y.register_hook(lambda g: after(inside.wait(120)))
    total = y.sum()
    run_threads(2, lambda i: total.backward(retain_graph=True))
    assert w.grad.tolist() == [12.0]


def test_threads_go_backward_through_a_shared_leaf():
    w = leaf(*[1.0] * 64)

    def work(i):
        for _ in range(100):
            (w * 2).sum().backward()

    run_threads(4, work)
    assert w.grad.tolist() == [800.0] * 64


def test_threads_share_a_leaf_that_was_never_used():
    for _ in range(50):
        w = leaf(1.0)
        start = threading.Barrier(4)

        def work(i):
            start.wait()
            y = w * 2
            start.wait()
            y.sum().backward()

        run_threads(4, work)
        assert w.grad.tolist() == [8.0]


def test_threads_go_backward_through_one_graph():
    w = leaf(*[3.0] * 16)
    y = (w * w).exp().log().sum()

    def work(i):
        for _ in range(50):
            y.backward(retain_graph=True)

    run_threads(4, work)
    assert w.grad.tolist() == pytest.approx([1200.0] * 16, rel=1e-4)


def test_threads_that_free_one_graph_get_gradients_or_an_error():
    for _ in range(50):
        w = leaf(*[3.0] * 16)
        y = (w * w).exp().sum()
        outcomes = []

        def work(i):
            try:
                y.backward()
                outcomes.append("done")
            except RuntimeError as error:
                assert "a second time" in str(error)
                outcomes.append("freed")

        run_threads(3, work)
        assert len(outcomes) == 3 and "done" in outcomes


def test_hooks_of_leaves_see_each_gradient_once():
    seen = []
    w = leaf(1.0)
    w.register_hook(lambda g: seen.append(g.item()))
    (w * 2).sum().backward()
    torch.autograd.grad((w * 3).sum(), w)
    (w * 4).sum().backward(inputs=[w])
    torch.autograd.grad((w * 5).sum(), [w, w])
    assert seen == [2.0, 3.0, 4.0, 5.0]


# Gradients that are not needed are not computed: each derivative must cope with that.
PAIRS = {
    "mul": lambda a, b: a * b, "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "div": lambda a, b: a / b, "pow": lambda a, b: a ** b,
    "mm": lambda a, b: a.mm(b), "matmul": lambda a, b: a.matmul(b[0]), "cat": lambda a, b: torch.cat([a, b]), "stack": lambda a, b: torch.stack([a, b]),
    "linear": lambda a, b: torch.nn.functional.linear(a, b, b[0]), "maximum": lambda a, b: torch.maximum(a, b), "where": lambda a, b: torch.where(a > b, a, b),
    "addmm": lambda a, b: torch.addmm(a, b, a), "bmm": lambda a, b: a[None].bmm(b[None]), "mse": lambda a, b: torch.nn.functional.mse_loss(a, b),
    "layer_norm": lambda a, b: torch.nn.functional.layer_norm(a, (3,), b[0], b[1]), "copy in place": lambda a, b: (a * 1).copy_(b) + a,
    "slice in place": lambda a, b: copied(a, b), "lerp": lambda a, b: torch.lerp(a, b, 0.3), "conv": lambda a, b: torch.nn.functional.conv2d(a[None, None], b[None, None]),
}


def copied(a, b):
    y = a * 2
    y[0].copy_(b[1])
    return y


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_some_inputs_are_those_of_all(name):
    torch.manual_seed(1)
    a, b = (torch.rand(3, 3) + 0.5).requires_grad_(), (torch.rand(3, 3) + 0.5).requires_grad_()
    y = PAIRS[name](a, b).sum()
    both = torch.autograd.grad(y, [a, b], retain_graph=True, allow_unused=True)
    for i, one in enumerate((a, b)):
        (alone,) = torch.autograd.grad(y, [one], retain_graph=True, allow_unused=True)
        assert (alone is None) == (both[i] is None)
        assert alone is None or alone.tolist() == both[i].tolist()
    if both[0] is not None:
        y.backward(inputs=[a])
        assert a.grad.tolist() == both[0].tolist() and b.grad is None


def test_a_view_among_the_arguments_of_an_in_place_op_follows_it():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    v = y.view(-1)
    y.add_(v)
    v.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_view_made_without_history_is_neither_root_nor_input():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    with torch.no_grad():
        v = y.view(-1)
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        v.backward(torch.ones(3))
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(y.sum(), v)
    assert torch.autograd.grad((x * 2).sum(), v, allow_unused=True) == (None,)


def test_a_recurrence_may_write_into_slices():
    """A factor that no gradient needs is not saved, so changing its memory harms nothing."""
    w, h = torch.ones(2, requires_grad=True), torch.zeros(4, 2)
    for i in range(1, 4):
        h[i] = h[i - 1] * 0.5 + w * i
    h.sum().backward()
    assert w.grad.tolist() == [7.75, 7.75]


def test_frozen_layers_keep_nothing_alive():
    x = torch.ones(4, 3)
    frozen, trained = torch.ones(3, 3), torch.ones(3, 3, requires_grad=True)
    hidden = x @ frozen
    alive = weakref.ref(hidden)
    out = (hidden * 2) @ trained        # the product is saved, its factor not
    del hidden
    assert alive() is None
    out.sum().backward()
    assert trained.grad.tolist() == [[24.0] * 3] * 3


def test_hooks_that_are_there_when_a_run_begins_are_called():
    x, calls, handles = torch.ones(2, requires_grad=True), [], []
    handles.append(x.register_hook(lambda g: (calls.append(1), handles[0].remove(), None)[2]))
    x.register_hook(lambda g: calls.append(2))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert calls == [1, 2, 2]

    def grow(g):
        calls.append(3)
        y.register_hook(grow)
    y = torch.ones(2, requires_grad=True)
    y.register_hook(grow)
    (y * 2).sum().backward()
    assert calls == [1, 2, 2, 3]


def test_weights_of_losses_are_constants():
    x = torch.randn(3, 2, requires_grad=True)
    weight = torch.ones(2, requires_grad=True)
    F = torch.nn.functional
    for call in (lambda: F.nll_loss(x, torch.tensor([0, 1, 1]), weight=weight),
                 lambda: F.binary_cross_entropy_with_logits(x, torch.rand(3, 2), pos_weight=weight)):
        with pytest.raises(RuntimeError, match="is not differentiable with respect to argument '(pos_)?weight'"):
            call()
