"""Small programs, profiled by torch.profiler and by mindtorch_v2.profiler: the same events.

Compares names, nesting, threads, scopes, sequence numbers, forward threads, shapes and annotations of all events, and the
keys of args in exported traces. Needs PyTorch:
PYTHONPATH=src python tests/mindtorch_v2/test_profiler_programs.py  prints both sides of each difference.
"""
import json
import random
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
HOOKS_FIRST = {"hooks", "backward_in_a_hook", "retained", "scopes_within_backward"}
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
        backward = event.scope == 1 or event.name.startswith(ENGINE)
        home = event.fwd_thread if backward and event.fwd_thread in order else event.thread
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
def backward_on_another_thread(torch):
    w = leaf(torch, 2)

    def run():
        loss = (w * w).sum()
        t = threading.Thread(target=loss.backward)
        t.start()
        t.join()
    return run


@program
def views_in_place(torch):
    w = leaf(torch, 2, 2)

    def run():
        y = w * 2
        v = y.view(4)
        v.mul_(3)
        y.sum().backward()
    return run


@program
def gradients_of_chosen_inputs(torch):
    a, b = leaf(torch, 2), leaf(torch, 2)

    def run():
        y = a * b
        torch.autograd.grad(y.sum(), [a], retain_graph=True)
        torch.autograd.grad([y, a * 3], [a, b], [torch.ones(2), torch.ones(2)])
    return run


@program
def several_roots(torch):
    a = leaf(torch, 2)

    def run():
        torch.autograd.backward([(a * 2).sum(), (a * 3).sum()])
    return run


@program
def no_grad_functions(torch):
    w = leaf(torch, 2)

    @torch.no_grad()
    def f():
        return w * w

    def run():
        f()
        w.detach() * 2
    return run


@program
def post_accumulate_hooks(torch):
    w = leaf(torch, 2)

    def hook(t):
        t.grad.mul_(2)

    w.register_post_accumulate_grad_hook(hook)

    def run():
        (w * 2).sum().backward()
    return run


@program
def scopes_within_backward(torch):
    w = leaf(torch, 2)

    def hook(g):
        with torch.profiler.record_function("in the hook"):
            return g * 2

    def run():
        y = w * 2
        y.register_hook(hook)
        with torch.profiler.record_function("backward"):
            y.sum().backward()
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


class Random:
    """A program made from a seed: ops, scopes, modes, functions, hooks, factories and backwards, in any order and depth."""

    def __init__(self, torch, seed):
        self.torch, self.choose = torch, random.Random(seed)
        self.Mine = function(torch)
        self.leaves = [leaf(torch, 2, 2) for _ in range(2)]
        self.values = list(self.leaves)

    def value(self):
        return self.choose.choice(self.values)

    def keep(self, value):
        self.values = (self.values + [value])[-6:]

    def op(self, depth):
        x, y, kind = self.value(), self.value(), self.choose.randrange(9)
        self.keep([lambda: x + y, lambda: x * y, lambda: x.mm(y), lambda: x.sigmoid(), lambda: x.exp() * 0.1, lambda: x * 0.5, lambda: x.tanh(),
                   lambda: x.view(4).view(2, 2), lambda: self.Mine.apply(x)][kind]())

    def factory(self, depth):
        kind = self.choose.randrange(4)
        self.keep([lambda: self.torch.ones(2, 2), lambda: self.torch.zeros_like(self.value()), lambda: self.torch.full((2, 2), 0.5),
                   lambda: self.value().detach()][kind]())

    def scope(self, depth):
        with self.torch.profiler.record_function(f"scope {self.choose.randrange(3)}", *(["args"] if self.choose.random() < 0.3 else [])):
            self.block(depth + 1)

    def mode(self, depth):
        with self.choose.choice([self.torch.no_grad, self.torch.enable_grad])():
            self.block(depth + 1)

    def thread(self, depth):
        t = threading.Thread(target=self.block, args=(depth + 1,))
        t.start()
        t.join()

    def failure(self, depth):
        try:
            with self.torch.profiler.record_function("fails"):
                self.block(depth + 1)
                raise ValueError
        except ValueError:
            pass

    def backward(self, depth):
        x = self.value()
        if not x.requires_grad:
            return
        with self.torch.enable_grad():
            total = (x * self.leaves[0]).sum()  # an input that is not used takes a number in torch
        kind = self.choose.randrange(3)
        if kind == 0:
            total.backward(retain_graph=True)
        elif kind == 1:
            self.torch.autograd.grad(total, [self.leaves[0]], retain_graph=True)
        else:
            self.torch.autograd.backward([total, (self.leaves[1] * 2).sum()], retain_graph=True) if self.torch.is_grad_enabled() else None

    def block(self, depth=0):
        for _ in range(self.choose.randrange(1, 6 - depth)):
            kinds = [self.op, self.op, self.op, self.factory, self.backward]
            if depth < 3:
                kinds += [self.scope, self.mode, self.thread, self.failure]
            self.choose.choice(kinds)(depth)


for _seed in range(12):
    PROGRAMS[f"random {_seed}"] = lambda torch, seed=_seed: Random(torch, seed).block


# ------------------------------------------------------------------------------------------------ whole profiles
# Each profiles by itself and returns what is compared.

PROFILES = {}


def whole(function=None, *, variants=None):
    def add(function):
        for name, value in (variants or {"": None}).items():
            PROFILES[f"{function.__name__} {name}".strip()] = lambda torch, value=value: function(torch, *([] if variants is None else [value]))
        return function

    return add(function) if function is not None else add


def names(events):
    return [event.name for event in events if event.name not in INNER]


def cpu(torch):
    return [torch.profiler.ProfilerActivity.CPU]


SCHEDULES = {
    "plain": dict(wait=1, warmup=1, active=2), "repeat": dict(wait=0, warmup=1, active=1, repeat=2), "endless": dict(wait=0, warmup=1, active=1),
    "skip": dict(wait=1, warmup=1, active=1, skip_first=2), "skip wait": dict(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1),
    "no warmup": dict(wait=1, warmup=0, active=1), "all": dict(wait=0, warmup=0, active=3),
}


@whole(variants={f"{s} {a}": (SCHEDULES[s], a) for s in SCHEDULES for a in (False, True)})
def scheduled(torch, case):
    """What each cycle holds, and what is left at the end."""
    options, acc = case
    x, cycles = torch.ones(2), []
    ordered = sorted if acc else list  # with acc_events torch has the last cycle first; ours are by start (contract)
    with torch.profiler.profile(activities=cpu(torch), schedule=torch.profiler.schedule(**options), acc_events=acc,
                                on_trace_ready=lambda p: cycles.append((p.step_num, ordered(names(p.events()))))) as prof:
        for i in range(7):
            with torch.profiler.record_function(f"work {i}"):
                x + x
            prof.step()
    return cycles, prof.step_num, prof.current_action.name


@whole(variants={"record": "RRS", "save": "SSS", "gaps": "SNSN", "warm": "WSWS", "interrupted": "WNWS"})
def acted(torch, actions):
    kinds = {"N": "NONE", "W": "WARMUP", "R": "RECORD", "S": "RECORD_AND_SAVE"}
    x, cycles = torch.ones(2), []
    with torch.profiler.profile(activities=cpu(torch), schedule=lambda step: torch.profiler.ProfilerAction[kinds[actions[step % len(actions)]]],
                                on_trace_ready=lambda p: cycles.append(names(p.events()))) as prof:
        for i in range(6):
            x * x
            prof.step()
    return cycles


@whole(variants={"outer": 0, "inner": 1, "twice": 2})
def toggled(torch, how):
    x = torch.ones(2)
    with torch.profiler.profile(activities=cpu(torch)) as prof:
        with torch.profiler.record_function("a"):
            x + x
            if how:
                prof.toggle_collection_dynamic(False, cpu(torch))
            x * x
            if how == 2:
                prof.toggle_collection_dynamic(False, cpu(torch))
                prof.toggle_collection_dynamic(True, cpu(torch))
            prof.toggle_collection_dynamic(True, cpu(torch))
            x - x
        x / x
    return sorted(set(names(prof.events())) - {"a"})  # a scope around a toggle: see docs/parity.md


@whole
def profiles_in_turn(torch):
    x, found = torch.ones(2), []
    for _ in range(3):
        with torch.profiler.profile(activities=cpu(torch)) as prof:
            x + x
        found.append(names(prof.events()))
    return found


@whole
def a_profile_within_a_profile(torch):
    x = torch.ones(2)
    with torch.profiler.profile(activities=cpu(torch)):
        x + x
        try:
            with torch.autograd.profiler.profile():
                x * x
        except RuntimeError:
            return "refused"
    return "taken"


@whole
def exceptions_leave_the_profile_whole(torch):
    x = torch.ones(2)
    prof = torch.profiler.profile(activities=cpu(torch))
    try:
        with prof:
            with torch.profiler.record_function("scope"):
                x + x
                raise ValueError
    except ValueError:
        pass
    return names(prof.events()), [row.key for row in prof.key_averages() if row.key not in INNER]


@whole(variants={"plain": {}, "shapes": dict(record_shapes=True), "memory": dict(profile_memory=True), "flops": dict(with_flops=True),
                 "shapes and memory": dict(record_shapes=True, profile_memory=True), "stack": dict(with_stack=True)})
def columns(torch, flags):
    """The header of each table. Stacks: torch asks for verbose, too."""
    w, x, config = leaf(torch, 4, 4), torch.ones(2, 4), torch.profiler._ExperimentalConfig(verbose=True)
    with torch.profiler.profile(activities=cpu(torch), experimental_config=config, **flags) as prof:
        x.mm(w).sum().backward()
    found = []
    for options in ({}, dict(group_by_input_shape=True), dict(group_by_stack_n=2)):
        head = prof.key_averages(**options).table().splitlines()[1]
        found.append([word for word in head.split("  ") if word.strip()])
    return found


@whole(variants={"plain": {}, "shapes": dict(group_by_input_shape=True)})
def rows(torch, options):
    w = leaf(torch, 2)
    with torch.profiler.profile(activities=cpu(torch), record_shapes=True) as prof:
        for _ in range(3):
            with torch.profiler.record_function("step"):
                (w * w).sum().backward()
    return sorted((row.key, row.count, str(row.input_shapes), row.is_user_annotation, int(row.scope)) for row in prof.key_averages(**options)
                  if row.key not in INNER)


@whole
def stacks(torch):
    """The innermost frames of ops and scopes; torch asks for verbose, too."""
    x = torch.ones(2)

    def inner():
        x + x
        with torch.profiler.record_function("scope"):
            x * x

    def outer():
        inner()

    with torch.profiler.profile(activities=cpu(torch), with_stack=True, experimental_config=torch.profiler._ExperimentalConfig(verbose=True)) as prof:
        outer()
    found = {}
    for event in prof.events():
        if event.name in ("aten::add", "aten::mul"):
            found[event.name] = [frame.rsplit(" ", 1)[-1].rsplit(":", 1)[-1] for frame in event.stack if "test_profiler_programs" in frame][:3]
    return found


@whole
def python_functions(torch):
    """Functions of this file, and what lies within them."""
    x = torch.ones(2)

    def inner():
        x + x

    def outer():
        inner()
        inner()

    with torch.profiler.profile(activities=cpu(torch), with_stack=True) as prof:
        outer()
    def short(name):
        return name.rsplit(": ", 1)[-1] if name.endswith((": inner", ": outer")) else name

    return [(short(e.name), [short(c.name) for c in e.cpu_children if c.name.startswith("aten") or c.name.endswith(": inner")])
            for e in prof.events() if e.name.endswith((": inner", ": outer"))]


@whole
def optimizers(torch):
    w = leaf(torch, 2)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with torch.profiler.profile(activities=cpu(torch)) as prof:
        for _ in range(2):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
    return [(e.name, int(e.scope), e.is_user_annotation, e.cpu_parent is None) for e in prof.events() if e.name.startswith("Optimizer")]


@whole
def flows(torch):
    """Each backward function has a flow from its forward op."""
    w = leaf(torch, 2)
    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile(activities=cpu(torch)) as prof:
            (w * w).exp().sum().backward()
        prof.export_chrome_trace(folder + "/t.json")
        with open(folder + "/t.json", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    spans = {(e["tid"], e["ts"]): e["name"] for e in reversed(events) if e["ph"] == "X" and e.get("cat") == "cpu_op" and "evaluate" not in e["name"]}
    ends = {"s": {}, "f": {}}
    for e in events:
        if e.get("cat") == "fwdbwd":
            ends[e["ph"]][e["id"]] = spans.get((e["tid"], e["ts"]))
    return sorted((ends["s"][i], ends["f"].get(i)) for i in ends["s"])


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
OURS = {"Call stack", "step", "args", "input_shapes", "stack", "device_type", "cpu_memory_allocated_before", "cpu_memory_allocated_after", "cpu_memory_allocated_delta"}


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

DIFFERENT = {"a_profile_within_a_profile": "contract: one session at a time; torch ends the first one without a word"}


def answer(torch, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PROFILES[name](torch)


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


    @pytest.mark.parametrize("name", PROFILES)
    def test_the_same_answer(name):
        if name in DIFFERENT:
            assert answer(theirs, name) != answer(ours, name), f"no longer different: {DIFFERENT[name]}"
        else:
            assert answer(theirs, name) == answer(ours, name)


def main():
    wrong = 0
    for name in sys.argv[1:] or PROFILES:
        if name in PROFILES:
            a, b = answer(theirs, name), answer(ours, name)
            if a != b and name not in DIFFERENT:
                wrong += 1
                print(f"== {name}\n  torch: {a}\n  ours:  {b}")
    for name in [name for name in sys.argv[1:] if name in PROGRAMS] or PROGRAMS:
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
    print(f"{wrong} of {len(PROGRAMS) + len(PROFILES)} differ")


if __name__ == "__main__":
    main()
