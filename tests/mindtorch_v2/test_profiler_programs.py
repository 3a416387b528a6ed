"""Small programs, profiled by torch.profiler and by mindtorch_v2.profiler: the same events.

Compared are names, nesting, threads, scopes, sequence numbers, forward threads, shapes and annotations of all events; and
of exported traces the keys of args. Runs where PyTorch is installed:
PYTHONPATH=src python tests/mindtorch_v2/test_profiler_programs.py  prints both sides of what differs.
"""
import json
import os
import sys
import tempfile
import threading
import warnings

try:
    import pytest
except ImportError:
    pytest = None
if pytest is not None:
    theirs = pytest.importorskip("torch")
else:
    import torch as theirs
import mindtorch_v2 as ours

PROGRAMS = {}

# torch gives the engine's event the number of what comes first in it: none if a hook does. Ours has the node's.
HOOKS_FIRST = {"hooks", "backward_in_a_hook", "retained"}
ENGINE = "autograd::engine::evaluate_function: "

# What PyTorch does within its ops and the runtime has no counterpart of (as in test_profiler_torch.py).
INNER = {"aten::empty", "aten::resize_", "aten::as_strided", "aten::resolve_conj", "aten::to", "aten::_to_copy", "aten::copy_", "aten::empty_like",
         "aten::empty_strided", "aten::fill_", "aten::zero_", "aten::item", "aten::_local_scalar_dense", "aten::new_empty", "aten::_has_compatible_shallow_copy_type",
         "aten::clone", "aten::set_", "detach", "aten::normal_", "aten::uniform_", "aten::new_empty_strided", "aten::transpose"}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def leaf(torch, *shape):
    return torch.ones(*shape, requires_grad=True)


# ------------------------------------------------------------------------------------------------ comparing


def described(prof, name):
    """Each thread's events as a tree, in the order in which threads come."""
    events = list(prof.events())
    first = {}  # by thread: numbers count on from whatever ran before
    order = []
    for event in events:
        if event.thread not in order:
            order.append(event.thread)
        if event.sequence_nr >= 0 and event.scope == 0:
            first[event.thread] = min(event.sequence_nr, first.get(event.thread, event.sequence_nr))

    def node(event):
        below = [n for child in event.cpu_children for n in node(child)]
        if event.name in INNER:
            return below
        home = event.fwd_thread if event.scope == 1 and event.fwd_thread in order else event.thread
        number = event.sequence_nr - first.get(home, 0) if event.sequence_nr >= 0 else -1
        if name in HOOKS_FIRST and event.name.startswith(ENGINE):
            number = None
        forward = order.index(event.fwd_thread) if event.fwd_thread in order and event.scope == 1 and number >= 0 else None
        return [(event.name, int(event.scope), number, forward, event.input_shapes, event.is_user_annotation, below)]

    return {order.index(thread): [n for e in events if e.thread == thread and e.cpu_parent is None for n in node(e)] for thread in order}


def flat(tree, depth=0):
    """Lines, for people."""
    for name, scope, number, forward, shapes, annotation, below in tree:
        yield f"{'  ' * depth}{name} scope={scope} seq={number} fwd={forward} shapes={shapes}{' user' if annotation else ''}"
        yield from flat(below, depth + 1)


def profile(torch, **options):
    """Of all threads: torch asks for that."""
    config = torch.profiler._ExperimentalConfig(profile_all_threads=True)
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config, **options)


def lines(torch, name, **options):
    prof = profile(torch, record_shapes=True, **options)
    run = PROGRAMS[name](torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with prof:
            run()
    return [line for thread, tree in described(prof, name).items() for line in [f"thread {thread}", *flat(tree)]]


# ------------------------------------------------------------------------------------------------- programs
# Each prepares outside of the profile and returns what is to be profiled.


@program
def factories(torch):
    def run():
        w = leaf(torch, 2)
        torch.zeros(3)
        torch.full((2,), 3.0)
        y = w * 2
        torch.ones(2, 3)
        (y * y).sum().backward()
    return run


@program
def factories_between(torch):
    w = leaf(torch, 2)

    def run():
        torch.ones(2)
        y = w * w
        torch.zeros(2)
        z = y * y
        torch.ones(4)
        z.sum().backward()
    return run


@program
def like_factories(torch):
    w = leaf(torch, 2)

    def run():
        torch.ones_like(w)
        torch.zeros_like(w)
        w * w
    return run


@program
def training(torch):
    w, x = leaf(torch, 4, 4), torch.ones(3, 4)

    def run():
        for _ in range(2):
            loss = (x.mm(w).sigmoid() * 2).sum()
            loss.backward()
    return run


@program
def nested_scopes(torch):
    x = torch.ones(2)

    def run():
        with torch.profiler.record_function("a"):
            x + x
            with torch.profiler.record_function("b"):
                x * x
                with torch.profiler.record_function("c"):
                    pass
            with torch.profiler.record_function("b"):
                pass
        x - x
    return run


@program
def scope_arguments(torch):
    def run():
        with torch.profiler.record_function("with args", "some text"):
            pass
        with torch.profiler.record_function("without"):
            pass
    return run


@program
def exception_in_scopes(torch):
    x = torch.ones(2)

    def run():
        try:
            with torch.profiler.record_function("outer"):
                with torch.profiler.record_function("inner"):
                    x + x
                    raise ValueError
        except ValueError:
            pass
        try:
            x.mm(x)
        except RuntimeError:
            pass
        x * x
    return run


@program
def threads(torch):
    w = leaf(torch, 2)

    def run():
        w * w

        def work():
            with torch.profiler.record_function("worker"):
                (w * w).sum().backward()

        t = threading.Thread(target=work)
        t.start()
        t.join()
        w + w
    return run


def function(torch, name="Mine", backward=None):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    def standard(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2

    return type(name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward or standard)})


@program
def custom_function(torch):
    w, Mine = leaf(torch, 2), function(torch)

    def run():
        Mine.apply(w * 3).sum().backward()
    return run


@program
def custom_function_without_grad(torch):
    x, w, Mine = torch.ones(2), leaf(torch, 2), function(torch)

    def run():
        Mine.apply(x)
        with torch.no_grad():
            Mine.apply(w)
        w * w
    return run


@program
def custom_function_of_many(torch):
    class Many(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, n, b, text, c=None):
            return a * n, b + 1

        @staticmethod
        def backward(ctx, g, h):
            return g, None, h, None, None

    a, b = leaf(torch, 2), leaf(torch, 3, 1)

    def run():
        x, y = Many.apply(a, 3, b, "text")
        (x.sum() + y.sum()).backward()
    return run


@program
def custom_functions_nested(torch):
    Inner = function(torch, "Inner")

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return Inner.apply(x) * 1

        @staticmethod
        def backward(ctx, g):
            return g

    w = leaf(torch, 2)

    def run():
        Outer.apply(w).sum().backward()
    return run


@program
def custom_function_raises(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x * x
            raise KeyError("mine")

    w = leaf(torch, 2)

    def run():
        try:
            Wrong.apply(w)
        except KeyError:
            pass
        w * w
    return run


@program
def custom_function_split(torch):
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = leaf(torch, 2)

    def run():
        Split.apply(w).sum().backward()
    return run


@program
def hooks(torch):
    w = leaf(torch, 2)

    def run():
        y = w * 2
        y.register_hook(lambda g: g * 2)
        w.register_hook(lambda g: g + 1)
        y.sum().backward()
    return run


@program
def backward_in_a_hook(torch):
    w = leaf(torch, 2)

    def run():
        y = w * 2
        inner = (w * 3).sum()
        y.register_hook(lambda g: inner.backward())
        y.sum().backward()
    return run


@program
def checkpoint(torch):
    """What a re-entrant checkpoint does."""
    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                y = x.exp()
            torch.autograd.backward(y, g)
            return x.grad

    w = leaf(torch, 2)

    def run():
        Checkpoint.apply(w * 2).sum().backward()
    return run


@program
def without_grad(torch):
    w = leaf(torch, 2)

    def run():
        with torch.no_grad():
            w * w
            torch.ones(2)
        with torch.enable_grad():
            (w * w).sum().backward()
    return run


@program
def in_place(torch):
    w = leaf(torch, 2)

    def run():
        y = w * 2
        y.add_(1)
        y.mul_(2)
        y.sum().backward()
    return run


@program
def views(torch):
    w = leaf(torch, 2, 2)

    def run():
        v = w.view(4)
        (v * v).sum().backward()
    return run


@program
def gradients_of_gradients(torch):
    w = leaf(torch, 2)

    def run():
        (g,) = torch.autograd.grad((w * w).sum(), w, create_graph=True)
        g.sum().backward()
    return run


@program
def accumulation(torch):
    w = leaf(torch, 2)

    def run():
        (w * w).sum().backward()
        (w * w).sum().backward()
        (w * w).sum().backward(inputs=[w])
        torch.autograd.grad((w * w).sum(), w)
    return run


@program
def retained(torch):
    w = leaf(torch, 2)

    def run():
        y = w * 2
        y.retain_grad()
        loss = y.sum()
        loss.backward(retain_graph=True)
        loss.backward()
    return run


@program
def modules(torch):
    model, x = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Tanh()), torch.ones(2, 2)

    def run():
        model(x)
    return run


@program
def generators(torch):
    x = torch.ones(2)

    def numbers():
        with torch.profiler.record_function("generator"):
            for _ in range(2):
                yield x + x

    def run():
        for _ in numbers():
            x * x
    return run


@program
def decorated(torch):
    x = torch.ones(2)

    @torch.profiler.record_function("decorated")
    def f():
        x + x

    def run():
        f()
        f()
    return run


@program
def lists(torch):
    w = leaf(torch, 2)

    def run():
        torch.cat([w, w]).sum().backward()
    return run


# ---------------------------------------------------------------------------------------------- of the trace


def trace_of(torch, name, **options):
    run = PROGRAMS[name](torch)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        with profile(torch, **options) as prof:
            run()
        prof.export_chrome_trace(folder + "/t.json")
        with open(folder + "/t.json", encoding="utf-8") as file:
            return json.load(file)["traceEvents"]


# What the contract adds to args.
OURS = {"step", "args", "input_shapes", "stack", "device_type", "cpu_memory_allocated_before", "cpu_memory_allocated_after", "cpu_memory_allocated_delta"}


def args_of(torch, name, **options):
    """The keys of args of each event, by category and name."""
    found, outer = {}, {}
    for event in sorted((e for e in trace_of(torch, name, **options) if e.get("cat") in ("cpu_op", "user_annotation")), key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] < outer.get((event["tid"], event["name"]), -1):
            continue  # aten::sum within aten::sum
        outer[event["tid"], event["name"]] = event["ts"] + event["dur"]
        if event["name"] not in INNER:
            keys = set(event.get("args", {})) - OURS
            if name in HOOKS_FIRST and event["name"].startswith(ENGINE):
                keys -= {"Sequence number", "Fwd thread id"}
            found.setdefault((event["cat"], event["name"]), set()).add(tuple(sorted(keys)))
    return {key: sorted(keys) for key, keys in found.items()}


FLAGS = {"plain": {}, "shapes": dict(record_shapes=True), "memory": dict(profile_memory=True), "stack": dict(with_stack=True)}

DIFFERENT = {}

if pytest is not None:

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_the_same_events(name):
        if name in DIFFERENT:
            assert lines(theirs, name) != lines(ours, name), f"no longer different: {DIFFERENT[name]}"
        else:
            assert lines(theirs, name) == lines(ours, name)

    @pytest.mark.parametrize("flags", FLAGS)
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_the_same_args_in_the_trace(name, flags):
        if name not in DIFFERENT:
            assert args_of(theirs, name, **FLAGS[flags]) == args_of(ours, name, **FLAGS[flags])


def main():
    wrong = 0
    for name in sys.argv[1:] or PROGRAMS:
        a, b = lines(theirs, name), lines(ours, name)
        if a != b:
            wrong += 1
            import difflib
            print(f"== {name}")
            print("\n".join(difflib.unified_diff(a, b, "torch", "ours", n=30, lineterm="")))
        for flags, options in FLAGS.items():
            a, b = args_of(theirs, name, **options), args_of(ours, name, **options)
            if a != b:
                for key in sorted(set(a) | set(b)):
                    if a.get(key) != b.get(key):
                        print(f"== {name} {flags} {key}\n  torch: {a.get(key)}\n  ours:  {b.get(key)}")
    print(f"{wrong} of {len(PROGRAMS)} differ")


if __name__ == "__main__":
    main()
