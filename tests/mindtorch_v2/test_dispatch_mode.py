"""torch.utils._python_dispatch: modes receive every op of their thread, below autograd; compared with PyTorch's if installed."""
import threading

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.utils._python_dispatch import TorchDispatchMode


class Log(TorchDispatchMode):
    def __init__(self):
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((func.name(), len(args), sorted(kwargs or {})))
        return func(*args, **(kwargs or {}))

    @property
    def names(self):
        return [name for name, _, _ in self.seen]


def _forward(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4, bias=False), torch.nn.Softmax(dim=1))
    return lambda: model(torch.ones((2, 2)))


def _views(torch):
    x = torch.arange(12.0).reshape(3, 4)
    return lambda: [torch.cat([x[0], x[1:].flatten()]), x.t().sum(0), x.split(2), x.max(1), x.add(x, alpha=2), x.clone().mul_(x)]


def _backward(torch):
    w = torch.ones(3, requires_grad=True)
    return lambda: (w * torch.ones(3)).sigmoid().sum().backward()


def _into(torch):
    x, out = torch.arange(4.0), torch.empty(0)
    return lambda: [torch.sin(x, out=out), torch.add(x, x, out=out), torch.sum(x, 0, out=torch.empty(())), torch.cat([x, x], out=out),
                    torch.zeros(2, out=out), torch.arange(3, out=out)]


@pytest.mark.parametrize("program", [_forward, _views, _into])
def test_a_mode_sees_what_pytorchs_sees(program):
    theirs = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode as Theirs

    def logged(module, base):  # PyTorch's Python functions add a device and pin_memory to tensor factories
        log = type("Log", (base,), {"__init__": Log.__init__, "__torch_dispatch__": Log.__torch_dispatch__})()
        run = program(module)
        with log:
            run()
        return [(name, args, [key for key in kwargs if key not in ("device", "pin_memory")]) for name, args, kwargs in log.seen]

    assert logged(torch, TorchDispatchMode) == logged(theirs, Theirs)


def test_the_backward_pass_is_seen_and_gradients_are_right():
    run, log = _backward(torch), Log()
    w = torch.ones(3, requires_grad=True)
    with log:
        loss = (w * torch.ones(3)).sigmoid().sum()
        loss.backward()
        run()
    assert loss.grad_fn is not None and "aten::sigmoid_backward" in log.names and "aten::mul.Tensor" in log.names
    expected = torch.ones(3, requires_grad=True)
    expected.sigmoid().sum().backward()
    assert torch.equal(w.grad, expected.grad)
    before = len(log.seen)
    torch.ones(3) + 1
    assert len(log.seen) == before, "the mode is left"


def test_what_a_mode_returns_is_the_result_and_autograd_follows_it():
    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func.name() == "aten::mul.Tensor" else out

    x, w = torch.full((2,), 3.0), torch.full((2,), 5.0, requires_grad=True)
    with Twice():
        y = x * w
    assert y.tolist() == [30.0, 30.0] and y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert w.grad.tolist() == [3.0, 3.0], "the derivative is that of the op which was asked for"


def test_a_mode_may_return_its_own_arguments():
    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0]

    w = torch.ones(2, requires_grad=True)
    with Nothing():
        y = w.exp()
    assert y is not w and w.is_leaf and not y.is_leaf and y.tolist() == [1.0, 1.0]


def test_in_place_ops_change_what_they_were_asked_to_once():
    x = torch.zeros(2)
    version = x._version
    with Log() as log:
        assert x.add_(1) is x
        assert x.view(2, 1).data_ptr() == x.data_ptr()
    assert x.tolist() == [1.0, 1.0] and x._version == version + 1 and log.names == ["aten::add_.Tensor", "aten::view"]


def test_modes_nest_and_are_off_while_they_handle_an_op():
    outer, inner = Log(), Log()
    with outer:
        with inner:
            torch.ones(2) + torch.ones(2)
        with pytest.raises(RuntimeError, match="reverse order"):
            inner.__exit__(None, None, None)
    assert inner.names == outer.names == ["aten::ones", "aten::ones", "aten::add.Tensor"]


def test_errors_of_a_mode_are_the_ops_and_results_are_checked():
    class Wrong(TorchDispatchMode):
        answer = None

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    x, mode = torch.rand(4, 2), Wrong()
    with mode:
        for answer, call, error, words in [(KeyError("mine"), lambda: x + 1, KeyError, "mine"), (5, lambda: x + 1, TypeError, "int"),
                                           ((x, x, x), lambda: x.max(1), RuntimeError, "2 results"),
                                           ("no", lambda: x.split(2), TypeError, "str"), ([x, None], lambda: x.split(2), TypeError, "None")]:
            mode.answer = answer
            with pytest.raises(error, match=words):
                call()
    assert (x + 1).shape == (4, 2)


def test_a_mode_is_its_threads():
    log, other = Log(), []
    with log:
        thread = threading.Thread(target=lambda: other.append(torch.ones(3) + 1))
        thread.start()
        thread.join()
    assert log.seen == [] and other[0].tolist() == [2.0, 2.0, 2.0]


def test_profiles_show_the_op_and_within_it_what_the_mode_ran():
    x = torch.ones(2)
    with torch.profiler.profile() as prof, Log():
        x.sin()
    (op,) = prof.profiler.kineto_results.experimental_event_tree()
    assert op.name == "aten::sin" and [child.name for child in op.children] == ["aten::sin"]


def test_large_ops_reach_a_mode_too():
    """They run without the interpreter's lock."""
    x = torch.ones(300, 300)
    with Log() as log:
        assert float((x @ x)[0, 0]) == 300.0
    assert "aten::mm" in log.names


def test_what_a_mode_returns_for_out_is_in_it():
    class Instead(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return torch.full((3,), 7.0)

    x, out = torch.ones(3), torch.empty(3)
    with Instead():
        made = torch.sin(x, out=out)
    assert made is out and out.tolist() == [7, 7, 7]
    log, values, indices = Log(), torch.empty(0), torch.empty(0, dtype=torch.int64)
    with log:
        torch.sort(x, out=(values, indices))
        torch.sin(x)
    assert log.seen == [("aten::sort.values", 1, ["out"]), ("aten::sin", 1, [])]
    assert values.tolist() == [1, 1, 1] and indices.tolist() == [0, 1, 2]
