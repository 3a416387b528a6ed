"""record_function: scopes of a program and of the framework."""
import asyncio
import contextlib
import json

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function
from profiling import CPU, exported, named, work

pytestmark = pytest.mark.usefixtures("each_device", "fresh_warnings")


def test_record_function_as_decorator(x):
    @record_function("plain")
    def plain(a, *, b):
        """Doc."""
        return a + b

    class Thing:
        @record_function("method")
        def method(self):
            return self

    @record_function("generator")
    def generator():
        got = yield 1
        yield got

    @record_function("coroutine")
    async def coroutine():
        await asyncio.sleep(0)
        return 5

    thing = Thing()
    with profile(activities=CPU) as prof:
        assert plain(1, b=2) == 3 and thing.method() is thing
        running = generator()
        assert next(running) == 1 and running.send(7) == 7
        assert asyncio.run(coroutine()) == 5
    names = {e.name for e in prof.events()}
    assert {"plain", "method", "generator", "coroutine"} <= names
    assert plain.__name__ == "plain" and plain.__doc__ == "Doc."


def test_record_function_passes_exceptions_on(x):
    with profile(activities=CPU) as prof:
        with pytest.raises(KeyError):
            with record_function("raises"):
                raise KeyError
        x + x
    raises, add = prof.events()
    assert raises.name == "raises" and add.cpu_parent is None


def test_record_function_args_are_shown(tmp_path):
    with profile(activities=CPU) as prof:
        with record_function("scope", "some args"):
            pass
    assert "some args" in json.dumps(named(exported(prof, tmp_path), "scope")[0]["args"])


def test_scopes_of_the_framework(x):
    parameter = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    loader = torch.utils.data.DataLoader(list(range(3)))
    with profile(activities=CPU) as prof:
        for _ in loader:
            optimizer.zero_grad()
        parameter.sum().backward()
        optimizer.step()
    names = {e.name for e in prof.events()}
    assert {"Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad",
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"} <= names


class _Region:
    def __init__(self, name):
        self.scope = record_function(name)

    def __enter__(self):
        self.scope.__enter__()

    def __exit__(self, *error):
        self.scope.__exit__(*error)


@contextlib.contextmanager
def _region(name):
    with record_function(name):
        yield


@pytest.mark.parametrize("region", [_Region, _region])
def test_a_scope_that_a_function_began_outlives_it(x, region):
    """With with_stack, functions are events too: a return ends the function's event, not the scope that it began."""
    with profile(activities=CPU, with_stack=True) as prof:
        with region("held"):
            work(x)
    (held,) = [e for e in prof.events() if e.name == "held"]
    assert held.cpu_children and all(
        held.time_range.start <= e.time_range.start and e.time_range.end <= held.time_range.end
        for e in prof.events() if e.name.startswith("aten::"))
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    optimizer.param_groups[0]["params"][0].sum().backward()
    with profile(activities=CPU, with_stack=True) as prof:
        optimizer.step()
    (step,) = [e for e in prof.events() if e.name.startswith("Optimizer.step#")]
    assert any(e.name in ("aten::add_", "aten::_fused_sgd_") and e.time_range.end <= step.time_range.end for e in prof.events())


def test_the_profilers_own_calls_are_not_events(x):
    with profile(activities=CPU, with_stack=True) as prof:
        work(x)
    functions = [e.name for e in prof.events() if "(" in e.name]
    assert functions and not [name for name in functions if "/profiler/" in name or "/autograd/" in name or "enum.py" in name]


def test_a_subclass_with_arguments_of_its_own(x):
    class layer(record_function):
        def __init__(self, number, *, kind):
            super().__init__(f"layer {number}", args=kind)
            self.number = number

        def __enter__(self):
            super().__enter__()
            return self.number

    class plain(record_function):
        pass

    with profile(activities=CPU) as prof:
        with layer(3, kind="linear") as number, plain("plain", "text"):
            work(x)
    assert number == 3
    assert [e.name for e in prof.events() if not e.name.startswith("aten::")] == ["layer 3", "plain"]
    with pytest.raises(TypeError, match="name must be str, not int"):
        plain(3)
    with pytest.raises(TypeError, match="args must be str or None, not int"):
        plain("name", 3)
    with pytest.raises(TypeError):
        plain()
