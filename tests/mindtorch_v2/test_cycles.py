"""References in a circle: contexts that hold their results, gradients that hold their parameters. The collector frees them."""
import gc
import threading
import weakref

import pytest

import mindtorch_v2 as torch


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.input, ctx.output = x, y
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Thing:
    pass


def allocated():
    gc.collect()
    return torch._C._memory_stats(torch.device("cpu"))["allocated"]


def test_a_context_that_holds_its_output_is_collected():
    def make(calls):
        x = torch.ones(1000, requires_grad=True)
        for _ in range(calls):
            x = Twice.apply(x)
        x.mark = Thing()
        return weakref.ref(x.mark)

    before = allocated()
    seen = [make(1) for _ in range(10)]
    assert allocated() == before and all(r() is None for r in seen)


def test_a_context_in_use_is_kept():
    x = torch.ones(3, requires_grad=True)
    y = Twice.apply(x)
    z = y.sum()
    del y
    gc.collect()
    z.backward()
    assert x.grad.tolist() == [2, 2, 2]
    y = Twice.apply(x)
    fn = y.grad_fn
    del y
    gc.collect()
    assert fn.name() == "TwiceBackward"


def test_a_result_that_outlives_its_collected_context_says_so():
    """A finalizer may bring a tensor of the circle back to life."""
    kept = []

    class Last:
        def __del__(self):
            kept.append(self.tensor)

    x = torch.ones(2, requires_grad=True)
    y = Twice.apply(x)
    y.last = Last()
    y.last.tensor = y
    del y
    gc.collect()
    gc.collect()
    assert len(kept) == 1
    kept[0].sum().backward()
    assert x.grad.tolist() == [2, 2]


def penalty(count=1, reset=False):
    weights = [torch.ones(500, requires_grad=True) for _ in range(count)]
    loss = sum((w * w).tanh() for w in weights).sum()
    loss.backward(create_graph=True)
    sum((w.grad**2).sum() for w in weights).backward()
    for w in weights if reset else ():
        w.grad = None


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_with_a_graph_are_freed_when_grad_is_reset(count):
    before = allocated()
    penalty(count, reset=True)
    assert torch._C._memory_stats(torch.device("cpu"))["allocated"] == before


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_with_a_graph_are_collected_with_their_parameters(count):
    before = allocated()
    for _ in range(5):
        penalty(count)
    assert allocated() == before


def test_a_loop_frees_its_graphs_without_the_collector():
    before = allocated()
    gc.disable()
    try:
        for _ in range(200):
            penalty()
        held = torch._C._memory_stats(torch.device("cpu"))["allocated"] - before
    finally:
        gc.enable()
    assert held < 100 * 500 * 4
    assert allocated() == before


def test_a_graph_in_use_survives_its_parameters():
    w = torch.full((3,), 2.0, requires_grad=True)
    (w**3).sum().backward(create_graph=True)
    grad, fn = w.grad, w.grad.grad_fn
    del w
    gc.collect()
    second = torch.autograd.grad(grad.sum(), fn.next_functions and [grad], retain_graph=True)[0]
    assert grad.tolist() == [12, 12, 12] and second.tolist() == [1, 1, 1]


def test_a_parameter_that_only_its_graph_holds_is_found_again():
    """w dies while the loss lives, then is wanted again through it."""
    before = allocated()
    w = torch.full((300,), 2.0, requires_grad=True)
    loss = (w**3).sum()
    loss.backward(create_graph=True)
    del w
    gc.collect()
    loss.backward()  # retained by create_graph: adds to a gradient that nobody sees
    del loss
    assert allocated() == before


def test_views_slices_and_hooks_in_the_circle():
    before = allocated()
    for _ in range(3):
        w = torch.ones(40, requires_grad=True)
        y = w * 2
        y[3:9] *= w[3:9]
        y.view(4, 10)[1].mul_(3)
        y.register_hook(lambda g: g * 2)
        (y * y).sum().backward(create_graph=True)
        w.grad.sum().backward()
        del w, y
    assert allocated() == before
    assert not gc.garbage


def test_circles_of_several_threads():
    """Collections, and runs of the engine over a shared leaf, at once."""
    shared, wrong = torch.ones(50, requires_grad=True), []
    before = allocated()

    def work():
        try:
            for _ in range(40):
                w = [torch.ones(50, requires_grad=True) for _ in range(3)]
                sum((x * x * shared).tanh() for x in w).sum().backward(create_graph=True)
                (w[0].grad * w[1].grad).sum().backward()
                v = w[2] * 1
                v[3:9] *= shared[3:9]
                g, = torch.autograd.grad((v * v).sum(), [w[2]], create_graph=True)
                (g * g).sum().backward()
        except Exception as error:  # noqa: BLE001: for the main thread
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    shared.grad = None
    assert not wrong and allocated() == before


def test_a_circle_that_leads_to_another_is_counted_once():
    """b is the base of a, and its gradient leads to a: a collection that counted what b holds when it finds b, and again when
    it comes to b, would find more references than there are, and take them for living ones."""
    before = allocated()
    b = torch.ones(1000, requires_grad=True)
    with torch.no_grad():
        a = b[:500]
    a.requires_grad_()
    (a * a).sum().backward(create_graph=True)
    b.grad = torch.cat([a, a]) * 2
    z = a * 3  # holds a, so that both are suspects, a before b
    del a
    del b
    assert allocated() > before
    del z
    assert allocated() == before


def test_a_suspect_that_nothing_else_holds_is_counted_once():
    """Only the list of suspects holds a any more, and its gradient leads to c, which is in a circle."""
    before = allocated()
    a, c = torch.ones(1000, requires_grad=True), torch.ones(1000, requires_grad=True)
    (c * c).sum().backward(create_graph=True)
    a.grad = c * 2
    z = a * 3
    del a
    del c
    assert allocated() > before
    del z
    assert allocated() == before
