"""Differential testing against PyTorch, of programs: views, changes in place, loops over slices, detach, .data and no_grad, hooks,
backward in all its forms. The same steps run in both; after each, every tensor is compared: values, gradients, versions, is_leaf, names of
nodes, what hooks saw, exceptions.

A program is a list of steps (a name and some random numbers). Operands are chosen by these numbers from what is there, so that a program
from which steps are left out is still a program: shrink() finds a small one that differs. test_differential.py runs a share with fixed
seeds; tests/stress/differential -p any number.
"""
import random
import warnings

import numpy as np

import mindtorch_v2
from differential_known import PROGRAMS

SHAPES = ((), (3,), (4,), (2, 3), (3, 2), (2, 2, 2), (1, 3), (0,))
MOST = 12       # tensors of a program
LARGE = 1e8     # values beyond it end a program: rounding would


class TooLarge(Exception):
    """The numbers grow: nothing more can be compared."""


class Machine:
    """Runs steps in one of the two libraries."""

    def __init__(self, torch):
        self.torch, self.tensors, self.since, self.seen, self.handles = torch, [], [], [], []
        self.ambiguous, self.moved, self.gradients, self.empty = [], [], [], False

    # -------------------------------------------------------------------------------------------------- helpers

    def pick(self, n, when=lambda t: True):
        fit = [t for t in self.tensors if when(t)]
        if not fit:
            raise IndexError("none fits")
        return fit[n % len(fit)]

    def is_plain(self, t):
        """Not made under no_grad: whether backward() treats such a view as a leaf depends on PyTorch's order of evaluation."""
        return all(t is not other for other in self.ambiguous)

    def facts(self, i):
        """What conditions of differential_known.py ask of tensor i, or of the program (i is None)."""
        t = self.tensors[i] if i is not None else None
        family = {id(x) for x in (t, t._base) if x is not None} if t is not None else set()
        said = {"empty"} if self.empty else set()
        if any(x._base is not None for x in self.tensors):
            said.add("view")
        for name, those in (("moved", self.moved), ("gradient", self.gradients)):
            if any(id(x) in family or (x._base is not None and id(x._base) in family) for x in those):
                said.add(name)
        return said

    def keep(self, t):
        if len(self.tensors) == MOST:
            self.tensors.pop(3), self.since.pop(3)
        self.tensors.append(t)
        self.since.append(t._version)  # of a gradient: how often the engine added to it in place

    def like(self, t, n):
        """A tensor that can be combined with t: another one if its shape allows, else a number of it."""
        other = self.pick(n)
        if other.shape != t.shape and other.untyped_storage().data_ptr() == t.untyped_storage().data_ptr():
            other = other.clone()  # what is read after it was written is not defined
        if other.shape == t.shape:
            return other
        try:
            if np.broadcast_shapes(tuple(other.shape), tuple(t.shape)) == tuple(t.shape):
                return other
        except ValueError:
            pass
        return other.sum() * 0.1

    # ---------------------------------------------------------------------------------------------------- steps

    def leaf(self, a, b, c, x):
        shape = SHAPES[a % len(SHAPES)]
        self.empty |= 0 in shape
        data = np.random.default_rng(b).uniform(-1, 1, shape)
        self.keep(self.torch.tensor(data.tolist(), dtype=self.torch.float64, requires_grad=c % 4 != 0).reshape(shape) if c % 4 == 0 or data.size == 0
                  else self.torch.tensor(data.tolist(), dtype=self.torch.float64, requires_grad=True))

    def unary(self, a, b, c, x):
        t = self.pick(a)
        self.keep((t.tanh, t.sin, t.sigmoid, t.neg, t.relu, t.clone, lambda: t * 2, lambda: t**2, lambda: t * t, lambda: 1 - t, t.contiguous,
                   t.cos, lambda: t.clamp(-0.5, 0.5), lambda: t + 1, lambda: t / 3)[b % 15]())

    def binary(self, a, b, c, x):
        t = self.pick(a)
        o = self.like(t, b)
        self.keep((lambda: t + o, lambda: t * o, lambda: t - o, lambda: self.torch.where(t > 0, t, o), lambda: t.tanh() * o)[c % 5]())

    def reduce(self, a, b, c, x):
        t = self.pick(a)
        self.keep((lambda: t.sum(), lambda: t.mean() if t.numel() else t.sum(), lambda: t.sum(-1) if t.dim() else t.sum(),
                   lambda: t.sum(0, keepdim=True) if t.dim() else t.sum())[b % 4]())

    def combine(self, a, b, c, x):
        t = self.pick(a, lambda t: t.dim() > 0)
        o = self.pick(b, lambda o: o.shape == t.shape)
        self.keep((lambda: self.torch.cat([t, o]), lambda: self.torch.stack([t, o]))[c % 2]())

    def view(self, a, b, c, x):
        self.keep(self.viewed(self.pick(a), b, c))

    def viewed(self, t, b, c):
        n, d = t.dim(), c % max(t.dim(), 1)
        flat = (lambda: t.view(-1), lambda: t.unsqueeze(0), lambda: t.detach(), lambda: t.reshape(-1), lambda: t.squeeze(),
                lambda: t.expand(2, *t.shape), lambda: t[...], lambda: t.view_as(t), lambda: t.flatten())
        if n == 0 or t.numel() == 0:
            return flat[b % len(flat)]()
        size = t.shape[d]
        deep = (lambda: t[c % t.shape[0]], lambda: t.narrow(d, c % size, 1), lambda: t[::2], lambda: t[1:], lambda: t.transpose(0, n - 1),
                lambda: t.select(d, c % size), lambda: t.unbind(d)[c % size], lambda: t.split(1, d)[c % size], lambda: t.chunk(2, d)[0],
                lambda: t.permute(*reversed(range(n))), lambda: t[..., :1], lambda: t[:, None] if n > 1 else t[None], lambda: t.movedim(0, n - 1),
                lambda: t.diagonal() if n > 1 else t[0], lambda: t[[0]], lambda: t.t() if n == 2 else t)
        return (flat + deep)[b % (len(flat) + len(deep))]()

    def data(self, a, b, c, x):
        t = self.pick(a)
        self.keep(t.data if b % 3 else t.detach().requires_grad_(b % 2 == 0))

    def changed(self, t, b, c, x):
        o = self.like(t, c)
        what = b % 17
        if what == 0:
            t.mul_(x)
        elif what == 1:
            t.add_(o)
        elif what == 2:
            t.copy_(o)
        elif what == 3:
            t.zero_()
        elif what == 4:
            t.lerp_(o, 0.25)
        elif what == 5:
            t.mul_(o)
        elif what == 6:
            t.sub_(o, alpha=0.5)
        elif what == 7:
            t.fill_(x)
        elif what == 8:
            t.addcdiv_(o, o * o + 1)
        elif what == 9:
            t.masked_fill_(t > 0, x)
        elif what == 10:
            t.relu_()
        elif what == 11:
            t.neg_()
        elif what == 12:
            t.addcmul_(o, o, value=0.5)
        elif what == 13:
            t.div_(2)
        elif what == 14:
            t.clamp_(-0.7, 0.7)
        elif what == 15:
            t.pow_(2)
        else:
            t[...] = o

    def change(self, a, b, c, x):
        self.changed(self.pick(a), b, c, x)

    def change_view(self, a, b, c, x):
        """A view is made, kept or not, and written to."""
        v = self.viewed(self.pick(a), b, c)
        if c % 2:
            self.keep(v)
        self.changed(v, c // 7, b // 3, x)

    def put(self, a, b, c, x):
        t = self.pick(a, lambda t: t.dim() > 0 and t.numel() > 0)
        i = c % t.shape[0]
        what = b % 6
        if what == 0:
            t[i] = x
        elif what == 1:
            t[i] = self.like(t[i], c)
        elif what == 2:
            t[i] *= x
        elif what == 3:
            t[t > 0] = x
        elif what == 4:
            t[[i]] = self.like(t[[i]], c)
        else:
            t[i:] += self.like(t[i:], c)

    def loop(self, a, b, c, x):
        """A recurrence over slices."""
        t = self.pick(a, lambda t: t.dim() > 0 and t.numel() > 0)
        y = self.torch.zeros(t.shape, dtype=t.dtype) if b % 2 else t.clone()
        for i in range(t.shape[0]):
            if b % 3 == 0 and i:
                y[i] = y[i - 1].tanh() + t[i]
            elif b % 3 == 1:
                y[i] += t[i] * x
            else:
                y[i] = t[i].sin()
        self.keep(y)

    def no_grad(self, a, b, c, x):
        before = list(self.tensors)
        with self.torch.no_grad():
            (self.view, self.change, self.change_view, self.put, self.unary, self.view)[c % 6](a, b, c // 6, x)
        self.ambiguous += [t for t in self.tensors if all(t is not other for other in before)]

    def enable_grad(self, a, b, c, x):
        with self.torch.no_grad():
            t = self.viewed(self.pick(a), b, c)
            with self.torch.enable_grad():
                self.keep(t * 2)
                self.keep(t)
                self.ambiguous.append(t)

    def require(self, a, b, c, x):
        t = self.pick(a)
        if c % 3:
            t.requires_grad_(b % 4 != 0)
        else:
            t.detach_()

    # ---------------------------------------------------------------------------------------------------- hooks

    def note(self, what, t):
        self.seen.append((what, None if t is None else np.array(t.detach().numpy())))

    def hook(self, a, b, c, x):
        t = self.pick(a)
        me, number, box = self, len(self.seen), []

        def look(grad):
            me.note(f"look {number}", grad)

        def scale(grad):
            me.note(f"scale {number}", grad)
            return grad * x

        def once(grad):
            me.note(f"once {number}", grad)
            box[0].remove()

        def grow(grad):
            me.note(f"grow {number}", grad)
            if len(box) < 3:
                box.append(t.register_hook(look))

        def fail(grad):
            raise ValueError("a hook's")

        box.append(t.register_hook((look, scale, once, grow, look, scale, look, fail)[b % 8]))
        self.handles.append(box[0])

    def post_hook(self, a, b, c, x):
        t = self.pick(a)
        me, number, box = self, len(self.seen), []

        def look(p):
            me.note(f"post {number}", p.grad)

        def clear(p):
            me.note(f"clear {number}", p.grad)
            p.grad = None

        def step(p):
            with me.torch.no_grad():
                p.sub_(p.grad.detach() * 0.1)

        def once(p):
            me.note(f"post once {number}", p.grad)
            box[0].remove()

        box.append(t.register_post_accumulate_grad_hook((look, clear, step, once)[b % 4]))
        self.handles.append(box[0])

    def unhook(self, a, b, c, x):
        if self.handles:
            self.handles.pop(a % len(self.handles)).remove()

    def retain(self, a, b, c, x):
        self.pick(a).retain_grad()

    # ------------------------------------------------------------------------------------------------- backward

    def root(self, a):
        t = self.pick(a, lambda t: t.requires_grad)
        return t if t.dim() == 0 else (t * t).sum()

    def backward(self, a, b, c, x):
        options = {}
        if b % 2:
            options["retain_graph"] = True
        if b % 5 == 4:
            options["create_graph"] = True
        if c % 4 == 3:
            options["inputs"] = [self.pick(c // 4, self.is_plain), self.pick(b // 3, self.is_plain)][:1 + c % 2]
        t = self.pick(a)
        if c % 3 == 0 and t.dim():
            t.backward(self.torch.ones(t.shape, dtype=t.dtype) * x, **options)
        else:
            self.root(a).backward(**options)

    def grad(self, a, b, c, x):
        inputs = [self.pick(b), self.pick(c)][:1 + a % 2]
        made = self.torch.autograd.grad(self.root(a), inputs, retain_graph=[None, True][b % 2], create_graph=c % 3 == 0, allow_unused=[None, True][c % 2])
        for g in made:
            if g is not None:
                self.keep(g)

    def second(self, a, b, c, x):
        """The gradient of a gradient."""
        inputs = [self.pick(b, lambda t: t.requires_grad)]
        g, = self.torch.autograd.grad(self.root(a), inputs, create_graph=True, allow_unused=True)
        if g is not None and g.requires_grad:
            (g * g).sum().backward(retain_graph=c % 2 == 0)

    def reset(self, a, b, c, x):
        t = self.pick(a)
        if b % 3 == 0:
            t.grad = None
        elif b % 3 == 1 and t.grad is not None:
            t.grad.zero_() if c % 2 else t.grad.detach_()
        else:
            t.grad = self.torch.ones(t.shape, dtype=t.dtype)

    def take_grad(self, a, b, c, x):
        self.gradients.append(self.pick(a, lambda t: t.grad is not None).grad)
        self.keep(self.gradients[-1])

    def set_data(self, a, b, c, x):
        t = self.pick(a)
        other = self.pick(b, lambda o: o.shape == t.shape)
        memory = [o.untyped_storage().data_ptr() for o in (t, other)[:1 if c % 2 else 2]]  # what it had, and what it shares now
        self.moved += [t] + [o for o in self.tensors if o.untyped_storage().data_ptr() in memory]
        t.data = other.detach().clone() if c % 2 else other

    def drop(self, a, b, c, x):
        if len(self.tensors) > 3:
            self.since.pop(a % len(self.tensors))
            self.tensors.pop(a % len(self.tensors))

    # ----------------------------------------------------------------------------------------------------- state

    def state(self):
        """Of every tensor: what it is, then its numbers."""
        out = []
        for t, since in zip(self.tensors, self.since):
            grad = t.grad
            asked = [_asked(lambda: get(t)) for get in (lambda t: tuple(t.shape), lambda t: t.requires_grad, lambda t: t.is_leaf, _node_name,
                                                           lambda t: t._version - since, lambda t: t.retains_grad)]
            asked += [grad is None, grad is not None and grad.requires_grad]
            out.append((asked, np.array(t.detach().numpy()), None if grad is None else np.array(grad.detach().numpy())))
        return out


def _node_name(t):
    return t.grad_fn.name() if t.grad_fn is not None else None


def _asked(get):
    try:
        return get()
    except RuntimeError:  # a view of a tensor that was changed although the view forbids it
        return "raises"


WEIGHTS = {"leaf": 3, "unary": 5, "binary": 6, "reduce": 2, "combine": 1, "view": 8, "data": 2, "change": 8, "change_view": 8, "put": 6, "loop": 2,
           "no_grad": 4, "enable_grad": 1, "require": 2, "hook": 4, "post_hook": 2, "unhook": 1, "retain": 3, "backward": 9, "grad": 4, "second": 3,
           "reset": 2, "take_grad": 1, "set_data": 1, "drop": 1}


def made(seed):
    r = random.Random(seed)
    step = lambda name: (name, r.randrange(1 << 20), r.randrange(1 << 20), r.randrange(1 << 20), r.choice((0.5, -1.0, 1.5, 0.25)))
    return [step("leaf") for _ in range(3)] + [step(n) for n in r.choices(list(WEIGHTS), list(WEIGHTS.values()), k=r.randrange(4, 24))]


def _run_step(machine, step):
    name, *numbers = step
    try:
        getattr(machine, name)(*numbers)
    except Exception as error:  # noqa: BLE001: whatever it is, it is compared
        return type(error).__name__, str(error).splitlines()[0][:200] if str(error) else ""
    return None


def _near(a, b):
    if (a is None) != (b is None):
        return False
    if a is None:
        return True
    if a.shape != b.shape:
        return False
    if a.size and (not np.all(np.isfinite(b)) or np.max(np.abs(b)) > LARGE):
        raise TooLarge
    return np.allclose(a, b, rtol=1e-7, atol=1e-9)


FIELDS = ("shape", "requires_grad", "is_leaf", "grad_fn", "version", "retains_grad", "no grad", "grad.requires_grad")


def _compare_states(ours, theirs):
    if len(ours.tensors) != len(theirs.tensors):
        return "number of tensors", f"{len(ours.tensors)} / {len(theirs.tensors)}", None
    for i, (a, b) in enumerate(zip(ours.state(), theirs.state())):
        for what, x, y in zip(FIELDS, a[0], b[0]):
            if x != y:
                return what, f"tensor {i}: {x} / {y}", i
        if not _near(a[1], b[1]):
            return "values", f"tensor {i}: {a[1].ravel()[:6]} / {b[1].ravel()[:6]}", i
        if not _near(a[2], b[2]):
            return "gradient", f"tensor {i}: {a[2].ravel()[:6]} / {b[2].ravel()[:6]}", i
    return None


def _compare_hooks(ours, theirs, since):
    a, b = ours.seen[since:], theirs.seen[since:]
    if [n for n, _ in a] != [n for n, _ in b]:
        return "order of hooks", f"{[n for n, _ in a]} / {[n for n, _ in b]}", None
    for (name, x), (_, y) in zip(a, b):
        if not _near(x, y):
            return "gradient in a hook", f"{name}: {x} / {y}", None
    return None


def compare(steps, torch):
    """None: they agree. Else (what differs, details, the number of the step, facts for the conditions of known differences)."""
    ours, theirs = Machine(mindtorch_v2), Machine(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for n, step in enumerate(steps):
                since = len(theirs.seen)
                b, a = _run_step(theirs, step), _run_step(ours, step)
                if (a is None) != (b is None):
                    return f"{step[0]}: only {'theirs' if a is None else 'ours'} fails", f"{a} / {b}", n, ours.facts(None)
                if a is not None and a[0] != b[0]:
                    return f"{step[0]}: another exception", f"{a} / {b}", n, ours.facts(None)
                if a is not None and step[0] in ("backward", "grad", "second"):
                    return None  # how far it went depends on the order of evaluation
                said = _compare_hooks(ours, theirs, since) or _compare_states(ours, theirs)
                if said is not None:
                    return f"{step[0]}: {said[0]}", said[1], n, ours.facts(said[2]) | theirs.facts(said[2])
        except TooLarge:
            pass
    return None


def shrink(steps, torch):
    """A smaller program that differs in the same way."""
    what = compare(steps, torch)[0]
    steps = steps[:compare(steps, torch)[2] + 1]
    i = len(steps) - 1
    while i >= 0:
        fewer = steps[:i] + steps[i + 1:]
        said = compare(fewer, torch)
        if said is not None and said[0] == what:
            steps = fewer[:said[2] + 1]
            i = min(i, len(steps))
        i -= 1
    return steps


def reason(steps, what, details, number, facts):
    """Why a disagreement is known and left, or None."""
    for differs, word, when, why in PROGRAMS:
        if differs in what and word in details and (when is None or when(steps[:number + 1], facts)):
            return why
    return None


def run(seeds, torch):
    """{what differs: [(seed, details, reason)]}"""
    found = {}
    for seed in seeds:
        said = compare(made(seed), torch)
        if said is not None:
            found.setdefault(said[0], []).append((seed, said[1], reason(made(seed), *said)))
    return found
