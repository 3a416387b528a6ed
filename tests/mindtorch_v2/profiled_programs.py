"""Small programs that run with PyTorch and with mindtorch_v2, for tests that compare their profiles.

PROGRAMS: name -> f(torch), which does the unrecorded setup and returns the function to record.
"""


def _mlp(torch, *sizes):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(i, o), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def nothing(torch):
    return lambda: None


def out_of_place(torch):
    x, y = torch.ones(25), torch.ones(25, requires_grad=True)
    return lambda: (x * y + x).sum()


def in_place(torch):
    x = torch.ones(8)

    def run():
        x.add_(1)
        x.mul_(x)
        x.zero_()
    return run


def backward(torch):
    x, w = torch.ones(4), torch.ones(4, requires_grad=True)
    return lambda: (x * w).sin().sum().backward()


def backward_twice(torch):
    x, w = torch.ones(4), torch.ones(4, requires_grad=True)

    def run():
        for _ in range(2):
            (x * w).exp().sum().backward()
    return run


def annotations(torch):
    x = torch.ones(3)

    def run():
        with torch.profiler.record_function("Name::Spaced"), torch.profiler.record_function("plain"):
            x.zero_()
            torch.ones_like(x)
    return run


def lists_of_tensors(torch):
    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    return lambda: torch.cat([x, y, torch.stack([x, y]).sum(0)]).sum().backward()


def module_forward(torch):
    model, x = _mlp(torch, 4, 8, 2), torch.ones(5, 4)
    return lambda: model(x)


def forward_without_grad(torch):
    model, x = _mlp(torch, 4, 8, 2), torch.ones(5, 4)

    def run():
        with torch.no_grad():
            model(x)
    return run


def _training(torch, optimizer, steps=2, set_to_none=True):
    model = _mlp(torch, 6, 16, 3)
    step = optimizer(model.parameters())

    def run():
        for _ in range(steps):
            x, target = torch.ones(10, 6), torch.ones(10, 3)
            step.zero_grad(set_to_none=set_to_none)
            torch.nn.functional.mse_loss(model(x), target).backward()
            step.step()
    return run


def training_sgd(torch):
    return _training(torch, lambda p: torch.optim.SGD(p, lr=0.1))


def training_momentum(torch):
    return _training(torch, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), set_to_none=False)


def training_adam(torch):
    return _training(torch, lambda p: torch.optim.Adam(p, lr=0.1), steps=3)


def training_adamw_foreach(torch):
    return _training(torch, lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True))


def step_by_hand(torch):
    w, b = torch.ones(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)

    def run():
        for _ in range(2):
            ((torch.ones(4, 3) @ w + b) ** 2).mean().backward()
            with torch.no_grad():
                for p in (w, b):
                    p.add_(p.grad, alpha=-0.1)
                    p.grad = None
    return run


def convolution(torch):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 1, bias=False),
                                torch.nn.BatchNorm2d(2))
    return lambda: model(torch.ones(2, 3, 8, 8)).sum().backward()


def cross_entropy(torch):
    model = _mlp(torch, 5, 5)
    target = torch.tensor([0, 1, 2])
    return lambda: torch.nn.functional.cross_entropy(model(torch.ones(3, 5)), target).backward()


def loop_over_rows(torch):
    x = torch.ones(20, 4)

    def run():
        for i in range(20):
            x[i] = i
        total = 0
        for i in range(20):
            total = total + x[i]
        for i in range(5):
            x[i] = i
    return run


def views(torch):
    x = torch.ones(4, 6)

    def run():
        y = x.view(6, 4).t()
        y.add_(1)
        y[1:3].mul_(2)
        return y.reshape(-1).clone()
    return run


def freed_before_and_within(torch):
    held = [torch.ones(1000), torch.ones(2000)]
    held[1].add_(1)

    def run():
        held.clear()
        y = torch.empty(64)
        del y
        z = torch.empty(256)
        z.view_as(z)
        del z
    return run


def data_loader(torch):
    loader = torch.utils.data.DataLoader(torch.ones(12, 3), batch_size=4)

    def run():
        for batch in loader:
            batch.sum()
    return run


def gradients_zeroed(torch):
    model = _mlp(torch, 3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run():
        model(torch.ones(2, 3)).sum().backward()
        optimizer.zero_grad(set_to_none=False)
        model.zero_grad(set_to_none=False)
        optimizer.zero_grad()
    return run


def indexing(torch):
    x, w = torch.ones(6, 2), torch.ones(6, 2, requires_grad=True)
    rows = torch.tensor([0, 2, 4])

    def run():
        x[rows] = 2.0
        w[rows].sum().backward()
        torch.where(x > 1, x, w).masked_fill(x > 1, 0.0).max()
        torch.nn.functional.dropout(x, 0.0)
        x.to(torch.float64).add(x, alpha=2).clamp(0, 1).type(torch.int64)
    return run


PROGRAMS = {f.__name__: f for f in (
    nothing, out_of_place, in_place, backward, backward_twice, annotations, lists_of_tensors, module_forward,
    forward_without_grad, training_sgd, training_momentum, training_adam, training_adamw_foreach, step_by_hand, convolution,
    cross_entropy, loop_over_rows, views, freed_before_and_within, data_loader, gradients_zeroed,
    indexing)}


def profiled(torch, name, **flags):
    """A finished profile of a program."""
    def profile():
        return torch.profiler.profile(**{"record_shapes": True, "profile_memory": True, "with_stack": True, **flags})

    # PyTorch's events point to the names of functions, even of freed ones. The code of a module is freed after its
    # import, so a first run imports whatever the program and the profiler load lazily; the functions of the program are kept.
    if torch.__name__ == "torch":
        with profile():
            PROGRAMS[name](torch)()
    run = PROGRAMS[name](torch)
    with profile() as prof:
        kept = run()
    prof.kept = run, kept
    return prof
