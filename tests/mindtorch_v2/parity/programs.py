"""Programs whose events are compared: each prepares outside the profile and returns the function to profile."""
import random
import threading

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def leaf(torch, *shape):
    return torch.ones(*shape, requires_grad=True)


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
            total = (x * self.leaves[0]).sum()  # in torch, an unused input takes a number
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
