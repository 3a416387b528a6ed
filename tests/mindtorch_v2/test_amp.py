"""Mixed precision: autocast's lists, casts, cache and state; GradScaler. Compared with PyTorch's where that is installed."""
import copy
import importlib
import pickle
import threading
import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch

F = torch.nn.functional
DEVICES = ["cpu", pytest.param("npu", marks=pytest.mark.skipif(not torch.npu.is_available(), reason="no accelerator"))]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def other_torch():
    return pytest.importorskip("torch")


# ------------------------------------------------------------------------------------------------------ the lists

SQUARE, ROW, IMAGE, CLASSES = "T.ones(2, 2)", "T.ones(2)", "T.ones(1, 1, 3, 3)", "T.tensor([0, 1])"
CALLS = f"""
T.mm({SQUARE}, {SQUARE})
T.bmm(T.ones(1, 2, 2), T.ones(1, 2, 2))
T.addmm({SQUARE}, {SQUARE}, {SQUARE})
T.baddbmm(T.ones(1, 2, 2), T.ones(1, 2, 2), T.ones(1, 2, 2))
T.matmul({SQUARE}, {ROW})
{SQUARE} @ {SQUARE}
T.mv({SQUARE}, {ROW})
T.dot({ROW}, {ROW})
T.einsum('ij,jk->ik', {SQUARE}, {SQUARE})
F.linear({SQUARE}, {SQUARE}, {ROW})
F.scaled_dot_product_attention(T.ones(1, 2, 2), T.ones(1, 2, 2), T.ones(1, 2, 2))
F.conv1d(T.ones(1, 1, 3), T.ones(1, 1, 2))
F.conv2d({IMAGE}, T.ones(1, 1, 2, 2))
T.outer({ROW}, {ROW})
T.mm({SQUARE}.double(), {SQUARE}.double())
T.mm({SQUARE}.long(), {SQUARE}.long())
T.mm({SQUARE}, {SQUARE}, out={SQUARE})
{SQUARE}.low() + {SQUARE}
{SQUARE}.low().sum()
{SQUARE}.low().sum(0)
{SQUARE}.low().prod()
{SQUARE}.low().prod(0)
{SQUARE}.low().prod(0, dtype=T.float64)
{SQUARE}.low().cumsum(0)
{SQUARE}.low().softmax(0)
{SQUARE}.low().log_softmax(0)
{SQUARE}.low().norm()
{SQUARE}.low().logsumexp(0)
{SQUARE}.low().exp()
{SQUARE}.low().expm1()
{SQUARE}.low().log()
{SQUARE}.low().log1p()
{SQUARE}.low().log2()
{SQUARE}.low().pow(2)
{SQUARE}.low() ** {SQUARE}.low()
2 ** {SQUARE}.low()
{SQUARE}.low().reciprocal()
{SQUARE}.low().rsqrt()
{SQUARE}.low().tan()
{SQUARE}.low().sin()
{SQUARE}.low().tanh()
F.gelu({SQUARE}.low())
F.softplus({SQUARE}.low())
F.layer_norm({SQUARE}.low(), (2,))
F.mse_loss({ROW}.low(), {ROW})
F.l1_loss({ROW}.low(), {ROW})
F.smooth_l1_loss({ROW}.low(), {ROW}.low())
F.kl_div({ROW}.low(), {ROW}.low(), reduction='sum')
F.cross_entropy({SQUARE}.low(), {CLASSES})
F.nll_loss({SQUARE}.low(), {CLASSES})
F.binary_cross_entropy_with_logits({ROW}.low(), {ROW})
F.binary_cross_entropy({ROW}, {ROW})
T.addcmul({ROW}.low(), {ROW}, {ROW}.low())
T.addcdiv({ROW}.low(), {ROW}, {ROW}.low())
T.atan2({ROW}.low(), {ROW})
T.cat([{ROW}, {ROW}.low()])
T.cat([{ROW}.low(), {ROW}.low()])
T.cat([{ROW}.double(), {ROW}.low()])
T.cat([{ROW}.low(), {ROW}.long()])
T.stack([{ROW}, {ROW}.low()])
T.scatter_add({ROW}, 0, {CLASSES}, {ROW}.low())
""".strip().splitlines()

FLOAT, LOW = "float32", "low"
# What an accelerator does, like CUDA: PyTorch's page on autocast. Those not named keep the promoted dtype.
ON_CUDA = {LOW: "mm bmm addmm baddbmm matmul @ mv einsum linear scaled_dot conv1d conv2d",
           FLOAT: "sum prod cumsum softmax norm logsumexp exp log pow ** reciprocal rsqrt tan() softplus layer_norm loss kl_div cross_entropy"
                  " with_logits dot addcmul addcdiv atan2 cat([T.ones(2), stack scatter_add outer"}


def run(T, call, device, low, enabled=True):
    """The dtype of the result, or the exception."""
    text = call.replace(".low()", f".to(T.{low})")
    if device != "cpu":
        T_ = Placed(T, device)
    else:
        T_ = T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with T.autocast(device, dtype=getattr(T, low), enabled=enabled):
            try:
                return str(eval(text, {"T": T_, "F": T.nn.functional}).dtype).rsplit(".", 1)[-1]
            except Exception as error:  # noqa: BLE001
                return f"{type(error).__name__}: {str(error).splitlines()[0]}"


class Placed:
    """The module, whose new tensors are on the device."""

    def __init__(self, module, device):
        self._module, self._device = module, device

    def ones(self, *shape):
        return self._module.ones(*shape, device=self._device)

    def tensor(self, values):
        return self._module.tensor(values, device=self._device)

    def __getattr__(self, name):
        return getattr(self._module, name)


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("call", CALLS)
def test_dtypes_on_the_cpu_are_pytorchs(call, low):
    theirs = other_torch()
    assert run(torch, call, "cpu", low) == run(theirs, call, "cpu", low)
    assert run(torch, call, "cpu", low, enabled=False) == run(theirs, call, "cpu", low, enabled=False)


@pytest.mark.skipif(not torch.npu.is_available(), reason="no accelerator")
@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("call", CALLS)
def test_dtypes_on_the_accelerator_are_those_of_cuda(call, low):
    got = run(torch, call, "npu", low)
    if call.startswith("F.binary_cross_entropy("):
        assert got.startswith("RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.")
    elif "out=" in call or "outer" in call:
        assert got == "float32"
    elif "double()" in call or "float64" in call:
        assert got == "float64"
    elif "long()" in call and "mm" in call:
        assert got == "int64" or "Error" in got
    else:
        named = [kind for kind, words in ON_CUDA.items() if any(word in call for word in words.split())]
        if "cat(" in call:
            assert got == ("float32" if ".ones(2), T.ones" in call else low)
        elif named:
            assert got == (low if LOW in named and "loss" not in call else "float32")
        else:
            assert got == ("float32" if "+" in call else low)


# ---------------------------------------------------------------------------------------------------- values, state

def test_results_are_those_of_casting_by_hand(device):
    torch.manual_seed(0)
    x, w, b = torch.randn(5, 8, device=device), torch.randn(3, 8, device=device), torch.randn(3, device=device)
    w.requires_grad_()
    low = torch.float16
    with torch.autocast(device, dtype=low):
        y = F.linear(x, w, b)
    y.float().sum().backward()
    by_hand = w.detach().clone().requires_grad_()
    z = F.linear(x.to(low), by_hand.to(low), b.to(low))
    z.float().sum().backward()
    assert y.dtype == low and w.grad.dtype == torch.float32
    assert y.tolist() == z.tolist() and w.grad.tolist() == by_hand.grad.tolist()


def test_second_derivatives_go_through_the_casts(device):
    x = torch.tensor([[0.5, 0.25], [1.0, -0.5]], device=device, requires_grad=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = (x @ x @ x).float().sum()
    first, = torch.autograd.grad(y, x, create_graph=True)
    second, = torch.autograd.grad((first * first).sum(), x)
    exact = x.detach().double().requires_grad_()
    want, = torch.autograd.grad((exact @ exact @ exact).sum(), exact, create_graph=True)
    again, = torch.autograd.grad((want * want).sum(), exact)
    assert first.dtype == second.dtype == torch.float32
    np.testing.assert_allclose(first.detach().cpu().numpy(), want.detach().cpu().numpy(), rtol=0.05, atol=0.05)
    np.testing.assert_allclose(second.cpu().numpy(), again.cpu().numpy(), rtol=0.05, atol=0.1)


def casts(run):
    with torch.profiler.profile() as prof:
        run()
    return sum(e.name == "aten::_to_copy" for e in prof.events())


def test_weights_are_cast_once_per_region(device):
    w, x = torch.randn(4, 4, device=device, requires_grad=True), torch.randn(4, 4, device=device)

    def two(cache=True, nested=False, no_grad=False):
        with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=cache):
            x @ w
            if nested:
                with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=cache):
                    x @ w
            else:
                x @ w
    assert casts(two) == 3                          # x twice, w once
    assert casts(lambda: two(nested=True)) == 3     # only the outermost region's end forgets
    assert casts(lambda: two(cache=False)) == 4
    assert casts(lambda: (two(), two())) == 6       # the second region casts again
    w.requires_grad_(False)
    assert casts(two) == 4                          # no weight


def test_the_cache_keeps_histories_apart():
    """A cast made under no_grad has no history: it does not serve a tracked call."""
    w, x = torch.randn(2, 2, requires_grad=True), torch.randn(2, 2)
    with torch.autocast("cpu"):
        with torch.no_grad():
            assert not (x @ w).requires_grad
        assert (x @ w).requires_grad
        y = x @ w
    y.sum().backward()
    assert w.grad is not None


def test_a_changed_weight_is_cast_again_in_the_next_region():
    w, x = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert (x @ w).tolist() == [[2, 2], [2, 2]]
    with torch.no_grad():
        w.mul_(2)
    with torch.autocast("cpu"):
        assert (x @ w).tolist() == [[4, 4], [4, 4]]


def test_regions_nest_and_end_with_exceptions():
    state = lambda: (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled())  # noqa: E731
    before = state()
    assert before == (False, torch.bfloat16, True)
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        assert state() == (True, torch.float16, False)
        with torch.autocast("cpu", enabled=False):
            assert state() == (False, torch.float16, False)
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        assert state() == (True, torch.float16, False)
        with pytest.raises(ZeroDivisionError):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                raise ZeroDivisionError
        assert state() == (True, torch.float16, False)
    assert state() == before and torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0


def test_state_is_the_threads_own():
    seen = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((torch.is_autocast_enabled("cpu"), (torch.ones(2, 2) @ torch.ones(2, 2)).dtype)))
        thread.start()
        thread.join()
        assert torch.is_autocast_enabled("cpu")
    assert seen == [(False, torch.float32)]


def test_a_decorator_and_the_functions_of_state():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def product(x):
        """Its text."""
        return x @ x

    assert product(torch.ones(2, 2)).dtype == torch.bfloat16 and product.__doc__ == "Its text."
    assert not torch.is_autocast_enabled("cpu") and not torch._C._is_any_autocast_enabled()
    torch.set_autocast_enabled("cpu", True)
    assert torch.is_autocast_enabled("cpu") and torch._C._is_any_autocast_enabled()
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.float16)
    with pytest.warns(DeprecationWarning, match=r"torch.get_autocast_cpu_dtype\(\) is deprecated. Please use torch.get_autocast_dtype\('cpu'\)"):
        assert torch.get_autocast_cpu_dtype() == torch.float16
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    assert torch.get_autocast_dtype("cuda") == torch.get_autocast_dtype("npu") == torch.float16
    assert torch.amp.is_autocast_available("cpu") and torch.amp.autocast is torch.autocast
    with pytest.raises(TypeError, match="requires a callable, but got int"):
        torch.autocast("cpu")(3)
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(3)
    with pytest.raises(RuntimeError):
        torch.autocast("nowhere")
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        with torch.autocast("cpu", dtype=torch.float32):
            assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("module, name", [("cpu", "autocast"), ("cpu", "GradScaler"), ("cuda", "autocast"), ("cuda", "GradScaler")])
def test_older_spellings(module, name):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        made = getattr(getattr(torch, module).amp, name)()
    assert isinstance(made, getattr(torch.amp, name))
    assert f"`torch.{module}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{module}', args...)` instead." in \
        [str(w.message) for w in heard if w.category is FutureWarning]


def functions(T):
    class Casting(T.autograd.Function):
        @staticmethod
        @T.amp.custom_fwd(device_type="cpu", cast_inputs=T.float32)
        def forward(ctx, x, w, more):
            ctx.save_for_backward(x, w)
            ctx.seen = (str(x.dtype).rsplit(".")[-1], T.is_autocast_enabled("cpu"), str(more["also"][0].dtype).rsplit(".")[-1])
            seen.append(ctx.seen)
            return x @ w

        @staticmethod
        @T.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            seen.append((str(g.dtype).rsplit(".")[-1], T.is_autocast_enabled("cpu"), str((g @ w).dtype).rsplit(".")[-1]))
            return g @ w.t(), x.t() @ g, None

    class Plain(Casting):
        forward = staticmethod(T.amp.custom_fwd(Casting.forward.__wrapped__, device_type="cpu"))

    seen = []
    return Casting, Plain, seen


def test_custom_functions():
    def program(T):
        Casting, Plain, seen = functions(T)
        for kind in (Casting, Plain):
            for on in (True, False):
                x, w = T.ones(2, 2).to(T.bfloat16 if on else T.float32).requires_grad_(), T.ones(2, 2, requires_grad=True)
                x2 = x if kind is Casting else x.detach().float().requires_grad_()
                with T.autocast("cpu", enabled=on):
                    y = kind.apply(x2, w, {"also": [x.detach()]})
                seen.append((str(y.dtype).rsplit(".")[-1],))
                y.sum().backward()
                seen.append((str(x2.grad.dtype).rsplit(".")[-1], x2.grad.float().tolist()))
        return seen

    ours = program(torch)
    assert ours[0] == ("float32", False, "float32")
    assert ours == program(other_torch())


# ---------------------------------------------------------------------------------------------------- GradScaler

def scaled_training(T, device, steps=14, bad=(3, 7)):
    """Everything a scaler tells, over steps of which some have an infinite gradient."""
    T.manual_seed(0)
    w = T.tensor([[0.5, -0.25], [1.0, 2.0]], device=device, requires_grad=True)
    v = T.tensor([1.0, 3.0], device=device, requires_grad=True)
    first, second = T.optim.SGD([w], lr=0.1), T.optim.Adam([v], lr=0.1)
    scaler = T.amp.GradScaler(device, init_scale=8.0, growth_interval=3)
    told = []
    for step in range(steps):
        first.zero_grad()
        second.zero_grad()
        loss = (w * w).sum() + (v * w).sum()
        if step in bad:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(first)
            T.nn.utils.clip_grad_norm_([w], 1.0)
        scaler.step(first)
        scaler.step(second)
        scaler.update()
        told.append((scaler.get_scale(), scaler._get_growth_tracker(), np.round(w.detach().cpu().numpy(), 5).tolist(),
                     np.round(v.detach().cpu().numpy(), 5).tolist()))
    return told, scaler.state_dict()


def test_a_scaler_grows_shrinks_and_skips_like_pytorchs(device):
    ours = scaled_training(torch, device)
    scales = [row[0] for row in ours[0]]
    assert scales[:4] == [8, 8, 16, 8] and ours[0][3][2] == ours[0][2][2]
    theirs = scaled_training(other_torch(), "cpu")
    assert ours[1] == theirs[1]
    for a, b in zip(ours[0], theirs[0]):
        assert a[:2] == b[:2]
        np.testing.assert_allclose(a[2], b[2], atol=3e-5)
        np.testing.assert_allclose(a[3], b[3], atol=3e-5)


def test_a_scaler_checks_each_optimizer_for_itself():
    w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    scaler, one, two = torch.amp.GradScaler("cpu"), torch.optim.SGD([w], lr=1), torch.optim.SGD([v], lr=1)
    scaler.scale(w.sum() * float("inf") + v.sum()).backward()
    scaler.step(one)
    scaler.step(two)
    assert w.tolist() == [1, 1] and v.tolist() == [0, 0]
    scaler.update()
    assert scaler.get_scale() == 2.0**15


def outcomes(T):
    """What misuse says."""
    said = []

    def say(run):
        try:
            said.append(str(run()))
        except Exception as error:  # noqa: BLE001
            said.append(f"{type(error).__name__}: {error}")

    def fresh(dtype=T.float32):
        w = T.ones(2, dtype=dtype, requires_grad=True)
        return w, T.amp.GradScaler("cpu", init_scale=4.0), T.optim.SGD([w], lr=1)

    w, scaler, sgd = fresh()
    say(lambda: scaler.unscale_(sgd))
    say(lambda: scaler.step(sgd))
    say(scaler.update)
    scaler.scale(w.sum()).backward()
    say(scaler.update)
    say(lambda: scaler.step(sgd, closure=lambda: None))
    scaler.unscale_(sgd)
    say(lambda: scaler.unscale_(sgd))
    say(lambda: pickle.dumps(scaler))
    scaler.step(sgd)
    say(lambda: scaler.step(sgd))
    say(lambda: scaler.unscale_(sgd))
    scaler.update()
    say(lambda: scaler.scale([w, (w, w)])[1][0].tolist())
    say(lambda: scaler.scale(3))
    say(lambda: scaler.update(2.0))
    say(scaler.get_scale)
    say(lambda: scaler.update(T.tensor([1.0, 2.0])))
    say(lambda: scaler.update(T.tensor([3.0])))
    say(scaler.get_scale)
    again = pickle.loads(pickle.dumps(copy.deepcopy(scaler)))
    say(again.state_dict)
    say(lambda: again.load_state_dict({}))
    say(lambda: T.amp.GradScaler("cpu", growth_factor=1.0))
    say(lambda: T.amp.GradScaler("cpu", backoff_factor=1.0))
    w, scaler, sgd = fresh(T.float16)
    scaler.scale(w.sum()).backward()
    say(lambda: scaler.unscale_(sgd))
    w, scaler, sgd = fresh()
    scaler.scale(w.detach().sum())
    say(lambda: scaler.step(sgd))
    off = T.amp.GradScaler("cpu", enabled=False)
    for question in (off.get_scale, off.state_dict, off.is_enabled, off._get_growth_tracker, lambda: off.scale(3), lambda: off.update()):
        say(question)
    return said


def test_misuse_of_a_scaler_says_what_pytorchs_does():
    ours = outcomes(torch)
    assert ours[0].startswith("AssertionError: Attempted unscale_ but _scale is None.")
    theirs = outcomes(other_torch())
    assert ours == theirs


def test_a_scaler_lets_the_optimizer_scale():
    class Own(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            told.append((self.grad_scale.item() if self.grad_scale is not None else None, self.found_inf.item()))

    told, w = [], torch.ones(2, requires_grad=True)
    optimizer, scaler = Own([w], lr=1), torch.amp.GradScaler("cpu", init_scale=4.0)
    for factor in (1.0, float("inf")):
        scaler.scale(w.sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
    assert told == [(4.0, 0.0), (4.0, 1.0)] and scaler.get_scale() == 2.0 and not hasattr(optimizer, "grad_scale")


# ------------------------------------------------------------------------------------------------------ training

def trained(name, device, low, scaled):
    """The losses of a small network, trained in mixed precision."""
    T = importlib.import_module(name)
    r = np.random.default_rng(0)
    array = lambda *shape: T.from_numpy((r.normal(size=shape) * 0.3).astype(np.float32)).to(device)  # noqa: E731
    x, target = array(32, 12), T.from_numpy(r.integers(0, 4, 32)).to(device)
    model = T.nn.Sequential(T.nn.Linear(12, 24), T.nn.LayerNorm(24), T.nn.GELU(), T.nn.Linear(24, 4)).to(device)
    with T.no_grad():
        for p in model.parameters():
            p.copy_(array(*p.shape) + (1.0 if p.shape == (24,) else 0.0))
    optimizer = T.optim.AdamW(model.parameters(), lr=0.02)
    scaler = T.amp.GradScaler(device, enabled=scaled)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        with T.autocast(device, dtype=getattr(T, low)):
            loss = T.nn.functional.cross_entropy(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("low, scaled", [("bfloat16", False), ("float16", True)])
def test_training_has_pytorchs_losses(device, low, scaled):
    ours = trained("mindtorch_v2", device, low, scaled)
    assert ours[-1] < 0.7 * ours[0]
    other_torch()
    np.testing.assert_allclose(ours, trained("torch", "cpu", low, scaled), rtol=0.03, atol=0.01)


def test_profiles_show_the_casts_as_pytorchs_do():
    def tree(T):
        layer, x = T.nn.Linear(4, 4), T.ones(2, 4)
        with T.autocast("cpu"), T.profiler.profile(record_shapes=True) as prof:
            layer(x)
            layer(x)
            T.cat([x, x.bfloat16()])
        inner = {"aten::empty_strided", "aten::copy_", "aten::t", "aten::transpose", "aten::as_strided", "aten::expand", "aten::addmm",
                 "aten::resolve_conj", "aten::empty"}
        return [(e.name, e.input_shapes, e.cpu_parent.name if e.cpu_parent else None) for e in prof.events() if e.name not in inner]

    ours = tree(torch)
    assert [row[0] for row in ours[:2]] == ["aten::linear", "aten::to"]
    assert ours == tree(other_torch())


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["layer", "batch", "evaluated batch"])
def test_norms_of_halves_with_float_weights(device, kind, low):
    """What autocast makes of a layer norm on the CPU, and of a batch norm anywhere."""
    def grads(T, device):
        r = np.random.default_rng(0)
        x, w, g = (T.from_numpy(r.normal(size=shape).astype(np.float32)).to(device) for shape in ((2, 3, 3), (3,), (2, 3, 3)))
        x, g, b = x.to(getattr(T, low)).requires_grad_(), g.to(getattr(T, low)), w.clone().requires_grad_()
        w.requires_grad_()
        y = T.nn.functional.layer_norm(x, (3,), w, b) if kind == "layer" else T.nn.functional.batch_norm(
            x, T.zeros(3, device=device), T.ones(3, device=device), w, b, kind == "batch")
        return [y, *T.autograd.grad(y, [x, w, b], g)]

    names = lambda tensors: [str(t.dtype).rsplit(".", 1)[-1] for t in tensors]  # noqa: E731
    ours, theirs = grads(torch, device), grads(other_torch(), "cpu")
    assert names(ours) == names(theirs) == [low, low, "float32", "float32"]
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.detach().float().cpu().numpy(), b.detach().float().numpy(), rtol=0.02, atol=0.02)
