"""PyTorch programs whose profiles are compared: name -> f(), which does the unrecorded setup and returns the function to record."""
import threading

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def mlp_training():
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters())

    def run():
        for _ in range(3):
            loss = F.cross_entropy(model(torch.randn(8, 20)), torch.randint(0, 10, (8,)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return run


def convolutions():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2),
                          nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4 * 9 * 9, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def run():
        for _ in range(2):
            model(torch.randn(2, 3, 16, 16)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return run


def attention():
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    embedding = nn.Embedding(50, 16)

    def run():
        x = embedding(torch.randint(0, 50, (2, 7)))
        model(x).sum().backward()
        with torch.inference_mode():
            model(torch.randn(1, 5, 16))
    return run


def recurrent():
    model, cell = nn.LSTM(6, 8, num_layers=2), nn.GRUCell(8, 8)

    def run():
        out, _ = model(torch.randn(5, 2, 6))
        cell(out[-1], torch.zeros(2, 8)).norm().backward()
    return run


def loading():
    loader = DataLoader(TensorDataset(torch.arange(12.0).reshape(6, 2)), batch_size=2)

    def run():
        for batch, in loader:
            batch.sum()
    return run


def scopes():
    x = torch.ones(3)

    def run():
        with torch.profiler.record_function("outer"), torch.profiler.record_function("inner", "some text"):
            x.zero_()
            torch.ones_like(x)

        @torch.profiler.record_function("decorated")
        def decorated():
            return x + 1
        decorated()
        with torch.autograd.profiler.record_function("with :: odd \"name\" \N{GREEK SMALL LETTER ALPHA}"):
            pass
        with torch._C._profiler._RecordFunctionFast("fast", [1, 2.5, "a", [1, 2], True, x]):
            x.mul_(2)
    return run


def indexing():
    x = torch.randn(6, 5, requires_grad=True)

    def run():
        y = x[1:, ::2]
        y = y[torch.tensor([0, 2])] + x[x[:, 0] > 100].sum() + x[None, ..., 0].sum() + x[[0, 1], [1, 2]].sum()
        y.sum().backward()
        z = torch.zeros(4)
        z[1] = 5
        z[torch.tensor([0, 3])] = torch.ones(2)
    return run


def kinds_of_arguments():
    x = torch.randn(2, 3, 4, 4)

    def run():
        F.interpolate(x, scale_factor=(2.0, 2.0), mode="bilinear")
        torch.div(x, 3, rounding_mode="floor")
        torch.cat([x, x], 1)
        torch.stack([x[0], x[1]])
        torch.einsum("abcd,abcd->a", x, x)
        torch.full((2, 3), float("inf"))
        torch.full((2,), 1e-7)
        torch.full((1,), 2.0)
        torch.zeros([1] * 31)
        torch.zeros([1] * 30)
        torch.std(x, dim=[0, 1], correction=0)
        torch.clamp(x, 0.5)
        torch.tensor([1, 2, 3])
        x.to(torch.float64).to(torch.bfloat16)
        torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
        torch.split(x, [1, 1])
        torch.where(x > 0, x, 0.0)
        torch.complex(x, x).abs()
        torch.arange(0, 1, 0.25)
        torch.nn.utils.clip_grad_norm_([nn.Parameter(torch.ones(2))], 1.0)
        F.pad(x, (1, 1), value=2.5)
        torch.add(x, x, alpha=2)
        torch.addmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2), beta=0.5, alpha=3)
        x.sum(dtype=torch.float64)
        torch.isin(torch.arange(3), torch.tensor(1))
    return run


def dtypes():
    def run():
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool,
                      torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn):
            torch.zeros(4, dtype=dtype).view(2, 2)
    return run


def sparse_and_strided():
    i = torch.tensor([[0, 1], [1, 0]])

    def run():
        s = torch.sparse_coo_tensor(i, torch.ones(2), (2, 2))
        (s @ torch.ones(2, 2)).t().contiguous()
        torch.ones(3, 4).t()[1:, ::2].clone()
        torch.ones(5).expand(3, 5).sum(0)
        torch.empty(0, 3).sum()
        torch.tensor(1.5).item()
    return run


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 2 * x * gradient


def derivatives():
    x = torch.randn(4, requires_grad=True)

    def run():
        y = _Square.apply(x).sum()
        g, = torch.autograd.grad(y, x, create_graph=True)
        g.square().sum().backward()
        x.register_hook(lambda gradient: gradient * 2)
        (x * 3).sum().backward()
        torch.utils.checkpoint.checkpoint(lambda t: t.sin().cos(), x, use_reentrant=False).sum().backward()
        torch.func.grad(lambda t: (t ** 3).sum())(x.detach())
    return run


def threads():
    weight = torch.ones(4, requires_grad=True)

    def run():
        def work():
            (weight.detach().requires_grad_() * 2).sum().backward()
        all_ = [threading.Thread(target=work) for _ in range(3)]
        for thread in all_:
            thread.start()
            thread.join()
    return run


def scripted():
    @torch.jit.script
    def f(x):
        for _ in range(3):
            x = x * 2 + 1
        return x

    f(torch.ones(3)), f(torch.ones(3))
    return lambda: f(torch.ones(3))


def optimizers():
    parameters = [nn.Parameter(torch.randn(3, 3)) for _ in range(3)]
    all_ = [kind(parameters, lr=0.01) for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad)]
    all_.append(torch.optim.Adam(parameters, foreach=True))

    def run():
        for optimizer in all_:
            sum(p.square().sum() for p in parameters).backward()
            optimizer.step()
            optimizer.zero_grad()
    return run


def nothing():
    return lambda: None


PROGRAMS = {f.__name__: f for f in (mlp_training, convolutions, attention, recurrent, loading, scopes, indexing, kinds_of_arguments, dtypes,
                                    sparse_and_strided, derivatives, threads, scripted, optimizers, nothing)}
