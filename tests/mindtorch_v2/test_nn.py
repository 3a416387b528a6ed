"""nn: modules as a tree, their state, hooks, repr and errors; what each module computes, against NumPy; initial values.
If PyTorch is installed, the same modules are compared with it, including reprs and errors."""

import copy
import math
import pickle

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn import functional as F

try:
    import torch as peer
except ImportError:
    peer = None

needs_peer = pytest.mark.skipif(peer is None, reason="PyTorch is not installed")


def array(t):
    return t.detach().numpy()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.head = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


# --------------------------------------------------------------------------------------------------- the tree


def test_named_members_are_found_in_pytorchs_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "body.0.weight", "body.0.bias", "head.weight"]
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "body", "body.0", "body.1", "head"]
    assert [n for n, _ in net.named_children()] == ["body", "head"]
    assert len(list(net.parameters())) == 4 and len(list(net.parameters(recurse=False))) == 1
    assert net.get_submodule("body.0") is net.body[0] and net.get_parameter("head.weight") is net.head.weight
    assert net.get_buffer("seen") is net.seen


def test_shared_parameters_are_listed_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert [n for n, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(net.state_dict()) == 4


def test_attributes_of_modules_follow_pytorchs_rules():
    net = Net()
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        net.nothing
    with pytest.raises(TypeError, match=r"cannot assign 'torch.FloatTensor' as parameter 'scale' \(torch.nn.Parameter or None expected\)"):
        net.scale = torch.ones(1)
    with pytest.raises(TypeError, match=r"cannot assign 'int' as child module 'head' \(torch.nn.Module or None expected\)"):
        net.head = 3
    with pytest.raises(TypeError, match="cannot assign 'int' as buffer 'seen'"):
        net.seen = 3
    net.seen = torch.ones(1)
    assert "seen" in net._buffers
    net.scale = None
    assert net.scale is None and "scale" not in dict(net.named_parameters())
    del net.head
    assert not hasattr(net, "head")
    net.body = None
    net.thing = nn.Parameter(torch.ones(1))
    net.thing2 = nn.Buffer(torch.ones(1), persistent=False)
    assert "thing" in dict(net.named_parameters()) and "thing2" in net._non_persistent_buffers_set

    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Early(nn.Parameter(torch.ones(1)))
    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early(nn.Linear(1, 1))


def test_registration_refuses_bad_names_and_values():
    module = nn.Module()
    for register, kind in ((module.register_buffer, "buffer"), (module.register_parameter, "parameter")):
        with pytest.raises(KeyError, match=f"{kind} name can.*t contain"):
            register("a.b", None)
        with pytest.raises(KeyError, match=f"{kind} name can.*t be empty string"):
            register("", None)
        with pytest.raises(KeyError, match="attribute 'forward' already exists"):
            register("forward", None)
        with pytest.raises(TypeError, match=f"{kind} name should be a string. Got int"):
            register(3, None)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        module.add_module("x", 3)
    made = nn.Parameter(torch.ones(2))
    made.requires_grad_(False)
    made.copy_(torch.ones(2, requires_grad=True) * 2)  # in place: now it has a history
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'w'"):
        module.register_parameter("w", made)
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        module(1)


def test_train_eval_apply_and_requires_grad():
    net = Net()
    assert net.training and net.eval() is net and not net.body[0].training
    net.train()
    assert net.head.training
    names = []
    assert net.apply(lambda m: names.append(type(m).__name__)) is net
    assert names == ["Linear", "ReLU", "Sequential", "Linear", "Net"]
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(3)


def test_conversion_keeps_the_parameters_themselves():
    net = Net()
    weight = net.head.weight
    net(torch.ones(1, 3)).sum().backward()
    assert net.double() is net and net.head.weight is weight
    assert weight.dtype == torch.float64 and weight.grad.dtype == torch.float64 and net.seen.dtype == torch.float64
    net.to(torch.float32)
    assert weight.dtype == torch.float32
    net.to("cpu", torch.float64)
    assert weight.dtype == torch.float64
    net.to(torch.ones(1)).cpu().float()
    assert weight.dtype == torch.float32 and weight.is_leaf and weight.requires_grad
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int64"):
        net.to(torch.int64)
    norm = nn.BatchNorm1d(2).double()
    assert norm.num_batches_tracked.dtype == torch.int64


def test_zero_grad_drops_or_zeroes():
    net = Net()
    net(torch.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.head.weight.grad.tolist() == [[0.0] * 4] * 2
    net.zero_grad()
    assert net.head.weight.grad is None


def test_parameters_are_leaves_with_their_own_text_and_copies():
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    assert isinstance(p, torch.Tensor) and p.is_leaf and p.requires_grad
    assert repr(p) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert not nn.Parameter(torch.ones(1), requires_grad=False).requires_grad
    q = copy.deepcopy(p)
    assert type(q) is nn.Parameter and q is not p and q.tolist() == [1.0, 2.0]
    r = pickle.loads(pickle.dumps(p))
    assert type(r) is nn.Parameter and r.requires_grad and r.tolist() == [1.0, 2.0]
    assert type(p * 2) is torch.Tensor


def test_a_deep_copy_of_a_module_is_its_own():
    net = Net()
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.head.weight.zero_()
    assert net.head.weight.abs().sum().item() > 0
    assert list(other.state_dict()) == list(net.state_dict())


# -------------------------------------------------------------------------------------------------------- state


def test_state_dict_has_parameters_and_persistent_buffers():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["scale", "seen", "body.0.weight", "body.0.bias", "head.weight"]
    assert not state["scale"].requires_grad and net.state_dict(keep_vars=True)["scale"] is net.scale
    assert list(net.state_dict(prefix="p."))[0] == "p.scale"
    other = Net()
    result = other.load_state_dict(state)
    assert repr(result) == "<All keys matched successfully>"
    assert array(other.head.weight).tolist() == array(net.head.weight).tolist()
    with torch.no_grad():
        net.head.weight.zero_()
    assert array(other.head.weight).any()


def test_errors_of_loading_are_reported_together():
    net = Net()
    state = net.state_dict()
    del state["head.weight"]
    state["more"] = torch.ones(1)
    state["body.0.bias"] = torch.ones(9)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    assert str(error.value) == (
        "Error(s) in loading state_dict for Net:\n\t"
        'Missing key(s) in state_dict: "head.weight". \n\t'
        'Unexpected key(s) in state_dict: "more". \n\t'
        "size mismatch for body.0.bias: copying a param with shape torch.Size([9]) from checkpoint, "
        "the shape in current model is torch.Size([4])."
    )
    state["body.0.bias"] = torch.ones(4)
    missing, unexpected = net.load_state_dict(state, strict=False)
    assert missing == ["head.weight"] and unexpected == ["more"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'int'>."):
        net.load_state_dict(3)


def test_loading_may_assign_instead_of_copy():
    net = nn.Linear(2, 2)
    weight = torch.ones(2, 2)
    net.load_state_dict({"weight": weight, "bias": torch.zeros(2)}, assign=True)
    weight.add_(1)
    assert net.weight.tolist() == [[2.0, 2.0]] * 2 and isinstance(net.weight, nn.Parameter)


def test_state_dict_hooks():
    net = nn.Linear(1, 1)
    log = []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append("save"))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop("bias") and None)
    net.register_load_state_dict_pre_hook(lambda m, state, *rest: state.setdefault("bias", torch.ones(1)) and None)
    net.register_load_state_dict_post_hook(lambda m, keys: log.append(len(keys.missing_keys)))
    state = net.state_dict()
    assert list(state) == ["weight"]
    net.load_state_dict(state)
    assert log == ["save", 0] and net.bias.item() == 1.0


def test_extra_state_travels_along():
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    a, b = Counting(), Counting()
    a.count = 5
    b.load_state_dict(a.state_dict())
    assert b.count == 5 and list(a.state_dict()) == ["_extra_state"]


# -------------------------------------------------------------------------------------------------------- hooks


def test_forward_hooks_see_and_change_arguments_and_results():
    net = nn.Linear(2, 2, bias=False)
    nn.init.eye_(net.weight)
    log = []
    handles = [
        net.register_forward_pre_hook(lambda m, args: (args[0] + 1,)),
        net.register_forward_pre_hook(lambda m, args, kwargs: log.append(sorted(kwargs)), with_kwargs=True),
        net.register_forward_hook(lambda m, args, out: out * 10),
        net.register_forward_hook(lambda m, args, kwargs, out: log.append(out.tolist()), with_kwargs=True),
        net.register_forward_hook(lambda m, args, out: log.append("first"), prepend=True),
    ]
    assert net(torch.zeros(2)).tolist() == [10.0, 10.0]
    assert log == [[], "first", [10.0, 10.0]]
    for handle in handles:
        handle.remove()
    assert net(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_an_always_called_hook_runs_on_errors():
    class Failing(nn.Module):
        def forward(self):
            raise ZeroDivisionError

    called = []
    net = Failing()
    net.register_forward_hook(lambda m, args, out: called.append(out), always_call=True)
    with pytest.raises(ZeroDivisionError):
        net()
    assert called == [None]


def test_full_backward_hooks_see_and_change_gradients():
    net = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[2.0, 3.0]]))
    seen = []
    first = net.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    second = net.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    third = net.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    x = torch.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert seen == [([[4.0, 6.0]], [[2.0]])]
    assert x.grad.tolist() == [[40.0, 60.0]] and net.weight.grad.tolist() == [[2.0, 2.0]]
    for handle in (first, second, third):
        handle.remove()
    x.grad = None
    net(x).sum().backward()
    assert x.grad.tolist() == [[2.0, 3.0]] and len(seen) == 1


def test_a_backward_hook_runs_when_no_input_needs_a_gradient():
    net, seen = nn.Linear(2, 1), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    net(torch.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]


# --------------------------------------------------------------------------------------------------- containers


def test_sequential_is_a_list_of_modules():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    net.append(nn.Linear(3, 1)).insert(1, nn.Tanh()).extend([nn.Sigmoid()])
    assert [type(m).__name__ for m in net] == ["Linear", "Tanh", "ReLU", "Linear", "Sigmoid"]
    assert type(net[1:3]) is nn.Sequential and len(net[1:3]) == 2 and net[-1] is net[4]
    del net[1]
    net[1] = nn.GELU()
    assert isinstance(net.pop(-1), nn.Sigmoid) and len(net) == 3
    assert net(torch.ones(5, 2)).shape == (5, 1)
    assert len(nn.Sequential(nn.ReLU()) + nn.Sequential(nn.ReLU())) == 2 and len(nn.Sequential(nn.ReLU()) * 3) == 3
    with pytest.raises(IndexError, match="index 7 is out of range"):
        net[7]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(3)


def test_module_list_dict_and_parameter_list():
    several = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    several += [nn.ReLU()]
    assert len(several) == 4 and isinstance(several[:2], nn.ModuleList) and len(list(several.parameters())) == 6
    del several[0]
    assert list(several.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    named = nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.ReLU()})
    named["c"] = nn.Tanh()
    assert list(named) == ["a", "b", "c"] and "a" in named and len(named) == 3
    assert isinstance(named.pop("b"), nn.ReLU) and list(named.keys()) == ["a", "c"]
    weights = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1))])
    weights.append(torch.ones(1))
    assert len(weights) == 3 and all(isinstance(w, nn.Parameter) for w in weights)
    assert [n for n, _ in weights.named_parameters()] == ["0", "1", "2"]


def test_text_of_modules():
    assert repr(Net()) == (
        "Net(\n  (body): Sequential(\n    (0): Linear(in_features=3, out_features=4, bias=True)\n    (1): ReLU()\n  )\n"
        "  (head): Linear(in_features=4, out_features=2, bias=False)\n)"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n)"


def every_module(n, tensors):
    return n.Sequential(
        n.Linear(2, 3), n.ReLU(), n.Conv2d(1, 2, 3, padding=1), n.Conv2d(2, 4, (3, 2), padding="same", groups=2, dilation=2, bias=False),
        n.BatchNorm2d(2), n.MaxPool2d(2), n.Dropout(), n.LayerNorm(3), n.Embedding(3, 4, padding_idx=0), n.Flatten(), n.GELU(),
        n.Softmax(dim=1), n.LeakyReLU(0.2), n.ELU(), n.Softplus(), n.AvgPool2d(2), n.AdaptiveAvgPool2d(1), n.Identity(), n.SiLU(),
        n.Tanh(), n.Sigmoid(), n.LogSoftmax(dim=-1), n.CrossEntropyLoss(), n.MultiheadAttention(4, 2), n.TransformerEncoderLayer(4, 2),
        n.RMSNorm(4), n.BatchNorm1d(3), n.ReLU(inplace=True), n.ModuleDict({"a": n.Linear(1, 1)}),
        n.ModuleList([n.Linear(2, 2), n.Linear(2, 2), n.ReLU()]), n.ParameterList([tensors.zeros(2, 3)]),
        n.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True), n.MSELoss(), n.NLLLoss(), n.BCELoss(),
    )  # fmt: skip


@needs_peer
def test_texts_names_and_initial_values_equal_pytorchs():
    torch.manual_seed(0), peer.manual_seed(0)
    ours, theirs = every_module(nn, torch), every_module(peer.nn, peer)
    assert repr(ours) == repr(theirs)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(other) and list(mine._metadata) == list(other._metadata)
    for key in mine:
        np.testing.assert_allclose(mine[key].numpy(), other[key].numpy(), rtol=1e-6, atol=1e-7, err_msg=key)


# ------------------------------------------------------------------------------------------------- what they compute


def test_embedding_and_its_padding():
    torch.manual_seed(0)
    table = nn.Embedding(4, 3, padding_idx=-3)
    assert table.padding_idx == 1 and table.weight[1].tolist() == [0.0] * 3
    out = table(torch.tensor([[0, 1], [3, 0]]))
    assert out.shape == (2, 2, 3) and out[1, 0].tolist() == table.weight[3].tolist()
    out.sum().backward()
    assert table.weight.grad.tolist() == [[2.0] * 3, [0.0] * 3, [0.0] * 3, [1.0] * 3]
    fixed = nn.Embedding.from_pretrained(torch.ones(2, 2))
    assert not fixed.weight.requires_grad
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(2, 2, padding_idx=2)
    with pytest.raises(IndexError):
        table(torch.tensor([4]))


def test_layer_norm_rms_norm():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    layer = nn.LayerNorm((3, 4)).double()
    want = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(array(layer(torch.tensor(x))), want, rtol=1e-10)
    layer = nn.RMSNorm(4, eps=1e-3).double()
    want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(array(layer(torch.tensor(x))), want, rtol=1e-10)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_trains_and_remembers(momentum):
    rng = np.random.default_rng(0)
    norm = nn.BatchNorm2d(3, momentum=momentum).double()
    mean, var = np.zeros(3), np.ones(3)
    for step in range(1, 4):
        x = rng.normal(2, 3, size=(4, 3, 5, 5))
        m, v = x.mean((0, 2, 3)), x.var((0, 2, 3))
        share = 1 / step if momentum is None else momentum
        mean, var = (1 - share) * mean + share * m, (1 - share) * var + share * x.var((0, 2, 3), ddof=1)
        want = (x - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-5)
        np.testing.assert_allclose(array(norm(torch.tensor(x))), want, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(array(norm.running_mean), mean, rtol=1e-10)
    np.testing.assert_allclose(array(norm.running_var), var, rtol=1e-10)
    assert norm.num_batches_tracked.item() == 3
    norm.eval()
    np.testing.assert_allclose(
        array(norm(torch.tensor(x))), (x - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5), rtol=1e-8, atol=1e-10
    )
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        norm(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"Expected more than 1 value per channel when training, got input size torch.Size\(\[1, 2\]\)"):
        nn.BatchNorm1d(2)(torch.ones(1, 2))


def convolved(x, w, b, stride, padding, dilation, groups):
    """By the definition; padding is ((top, bottom), (left, right))."""
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    n, _, height, width = x.shape
    out_c, in_c, kh, kw = w.shape
    oh = (height - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((n, out_c, oh, ow))
    for o in range(out_c):
        first = o // (out_c // groups) * in_c
        for i in range(kh):
            for j in range(kw):
                top, left = i * dilation[0], j * dilation[1]
                part = x[:, first : first + in_c, top : top + stride[0] * oh : stride[0], left : left + stride[1] * ow : stride[1]]
                out[:, o] += np.einsum("nchw,c->nhw", part[:, :, :oh, :ow], w[o, :, i, j])
    return out + (0 if b is None else b[:, None, None])


CONVOLUTIONS = [
    ({"kernel_size": 3}, ((0, 0), (0, 0))),
    ({"kernel_size": (3, 2), "stride": 2, "padding": (1, 2)}, ((1, 1), (2, 2))),
    ({"kernel_size": 3, "dilation": 2, "groups": 2, "bias": False}, ((0, 0), (0, 0))),
    ({"kernel_size": 3, "padding": "valid"}, ((0, 0), (0, 0))),
    ({"kernel_size": (4, 3), "padding": "same"}, ((1, 2), (1, 1))),
    ({"kernel_size": (2, 3), "padding": "same", "dilation": (3, 2)}, ((1, 2), (2, 2))),
]


@pytest.mark.parametrize("options, padding", CONVOLUTIONS)
def test_conv2d_follows_its_definition(options, padding):
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, **options).double()
    x = np.random.default_rng(0).normal(size=(2, 4, 9, 8))
    b = None if layer.bias is None else array(layer.bias)
    want = convolved(x, array(layer.weight), b, layer.stride, padding, layer.dilation, layer.groups)
    np.testing.assert_allclose(array(layer(torch.tensor(x))), want, rtol=1e-10, atol=1e-12)


def test_conv2d_refuses_what_does_not_fit():
    for options, text in (
        ({"groups": 2, "in_channels": 3}, "in_channels must be divisible by groups"),
        ({"groups": 2, "out_channels": 3}, "out_channels must be divisible by groups"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        ({"padding": "full"}, "Invalid padding string 'full'"),
    ):
        with pytest.raises(ValueError, match=text):
            nn.Conv2d(**({"in_channels": 2, "out_channels": 2, "kernel_size": 3} | options))
    with pytest.raises(RuntimeError):
        nn.Conv2d(3, 1, 3)(torch.ones(1, 2, 5, 5))


def test_pooling():
    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert nn.MaxPool2d(2)(x).tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]
    values, indices = nn.MaxPool2d(2, return_indices=True)(x)
    assert indices.tolist() == [[[[5, 7], [13, 15]]]]
    assert nn.AvgPool2d(2)(x).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert nn.AvgPool2d(2, divisor_override=1)(x)[0, 0, 0, 0].item() == 10.0
    assert nn.AdaptiveAvgPool2d(1)(x).item() == 7.5
    assert nn.AdaptiveAvgPool2d((None, 2))(x).shape == (1, 1, 4, 2)
    assert nn.MaxPool2d(3, 2, 1, ceil_mode=True)(torch.ones(1, 1, 8, 9)).shape == (1, 1, 5, 5)


X = np.linspace(-3, 3, 13)
ACTIVATIONS = {
    "ReLU": ({}, np.maximum(X, 0)),
    "ReLU6": ({}, np.clip(X, 0, 6)),
    "GELU": ({}, X * 0.5 * (1 + np.vectorize(math.erf)(X / math.sqrt(2)))),
    "SiLU": ({}, X / (1 + np.exp(-X))),
    "Tanh": ({}, np.tanh(X)),
    "Sigmoid": ({}, 1 / (1 + np.exp(-X))),
    "LogSigmoid": ({}, -np.log1p(np.exp(-X))),
    "Softplus": ({"beta": 2.0}, np.log1p(np.exp(2 * X)) / 2),
    "LeakyReLU": ({"negative_slope": 0.2}, np.where(X > 0, X, 0.2 * X)),
    "ELU": ({"alpha": 0.5}, np.where(X > 0, X, 0.5 * np.expm1(X))),
    "Softmax": ({"dim": 0}, np.exp(X) / np.exp(X).sum()),
    "LogSoftmax": ({"dim": 0}, X - np.log(np.exp(X).sum())),
    "Identity": ({}, X),
    "Flatten": ({"start_dim": 0}, X),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    options, want = ACTIVATIONS[name]
    np.testing.assert_allclose(array(getattr(nn, name)(**options)(torch.tensor(X))), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["ReLU", "SiLU", "LeakyReLU", "ELU", "ReLU6"])
def test_in_place_activations_change_their_input(name):
    x = torch.tensor(X)
    out = getattr(nn, name)(inplace=True)(x)
    assert out is x
    np.testing.assert_allclose(x.numpy(), array(getattr(nn, name)()(torch.tensor(X))), rtol=1e-12)


@pytest.mark.parametrize("name", ["ReLU", "SiLU", "LeakyReLU", "ELU", "ReLU6"])
def test_in_place_activations_have_the_gradient_of_the_others(name):
    def gradient(inplace):
        x = torch.tensor(X, requires_grad=True)
        getattr(nn, name)(inplace=inplace)(x * 1.5).square().sum().backward()
        return array(x.grad)

    np.testing.assert_allclose(gradient(True), gradient(False), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("f", [nn.functional.leaky_relu, nn.functional.elu])
def test_a_negative_slope_in_place_has_no_gradient(f):
    """A result below 0 may be that of any x."""
    x = torch.tensor(X, requires_grad=True)
    y = f(x * 1, -0.5, inplace=True)
    with pytest.raises(RuntimeError, match="backward calculation is triggered with a negative slope"):
        y.sum().backward()


def test_dropout_scales_what_it_keeps():
    torch.manual_seed(0)
    layer = nn.Dropout(0.25)
    x = torch.ones(10000)
    out = layer(x)
    kept = out.numpy() != 0
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(out.numpy()[kept], 1 / 0.75, rtol=1e-6)
    layer.eval()
    assert layer(x).tolist() == x.tolist()
    y = torch.ones(1000)
    assert nn.Dropout(0.5, inplace=True)(y) is y and set(y.tolist()) == {0.0, 2.0}
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


# --------------------------------------------------------------------------------------------------------- attention


def attended(q, k, v, weight, bias, out_w, out_b, heads, mask=None):
    """(batch, length, width) by the definition; mask is added to the scores."""
    width = q.shape[-1]
    q, k, v = (t @ w.T + b for t, w, b in zip((q, k, v), np.split(weight, 3), np.split(bias, 3)))
    split = lambda t: t.reshape(*t.shape[:2], heads, width // heads).transpose(0, 2, 1, 3)
    q, k, v = map(split, (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width // heads)
    scores = scores if mask is None else scores + mask
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = (p @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], -1, width)
    return out @ out_w.T + out_b, p


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masked", [None, "causal", "padding"])
def test_multihead_attention(need_weights, batch_first, masked):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(6, 2, batch_first=batch_first).double()
    x = np.random.default_rng(0).normal(size=(2, 4, 6))
    tx = torch.tensor(x)
    options, mask = {}, None
    if masked == "causal":
        hide = np.triu(np.ones((4, 4), bool), 1)
        options["attn_mask"], mask = torch.tensor(hide), np.where(hide, -np.inf, 0)
    elif masked == "padding":
        hide = np.array([[0, 0, 0, 1], [0, 0, 1, 1]], bool)
        options["key_padding_mask"], mask = torch.tensor(hide), np.where(hide, -np.inf, 0)[:, None, None]
    given = tx if batch_first else tx.transpose(0, 1)
    out, weights = layer(given, given, given, need_weights=need_weights, **options)
    want, p = attended(x, x, x, array(layer.in_proj_weight), array(layer.in_proj_bias), array(layer.out_proj.weight), array(layer.out_proj.bias), 2, mask)
    out = out if batch_first else out.transpose(0, 1)
    np.testing.assert_allclose(array(out), want, rtol=1e-8, atol=1e-10)
    if need_weights:
        np.testing.assert_allclose(array(weights), p.mean(1), rtol=1e-8, atol=1e-12)
    else:
        assert weights is None


def test_attention_without_a_batch_with_own_widths_and_errors():
    layer = nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    out, weights = layer(torch.randn(7, 4), torch.randn(6, 3), torch.randn(6, 5), average_attn_weights=False)
    assert out.shape == (7, 4) and weights.shape == (2, 7, 6)
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(AssertionError, match="was expecting embedding dimension of 4, but got 3"):
        layer(torch.randn(7, 3), torch.randn(6, 3), torch.randn(6, 5))


@needs_peer
@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu", "batch_first": True}])
def test_an_encoder_layer_equals_pytorchs(options):
    torch.manual_seed(0), peer.manual_seed(0)
    ours = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options).double()
    theirs = peer.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options).double()
    x = np.random.default_rng(0).normal(size=(3, 5, 8))
    a, b = torch.tensor(x, requires_grad=True), peer.tensor(x, requires_grad=True)
    ours(a).pow(2).sum().backward()
    theirs(b).pow(2).sum().backward()
    np.testing.assert_allclose(array(a.grad), b.grad.numpy(), rtol=1e-6, atol=1e-8)
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        np.testing.assert_allclose(array(p.grad), q.grad.numpy(), rtol=1e-6, atol=1e-8, err_msg=name)


# -------------------------------------------------------------------------------------------- functional, init, utils


@pytest.mark.parametrize("amounts", [(1, 2), (-1, 2), (1, 1, 2, 0)])
def test_pad(amounts):
    x = np.arange(12.0).reshape(3, 4)
    pairs = [(amounts[2], amounts[3]) if len(amounts) == 4 else (0, 0), amounts[:2]]
    cut = x[:, max(0, -pairs[1][0]) :]
    want = np.pad(cut, [tuple(max(0, a) for a in pair) for pair in pairs], constant_values=9)
    assert F.pad(torch.tensor(x), amounts, value=9.0).tolist() == want.tolist()


def test_one_hot_and_normalize():
    assert F.one_hot(torch.tensor([0, 2]), 3).tolist() == [[1, 0, 0], [0, 0, 1]]
    np.testing.assert_allclose(array(F.normalize(torch.tensor([[3.0, 4.0]]))), [[0.6, 0.8]], rtol=1e-6)


def test_initial_values_have_their_spread():
    torch.manual_seed(0)
    w = torch.empty(200, 300)
    for fill, low, high, std in (
        (lambda: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), -1 / math.sqrt(300), 1 / math.sqrt(300), 1 / math.sqrt(900)),
        (lambda: nn.init.kaiming_normal_(w, nonlinearity="relu", mode="fan_out"), -1, 1, math.sqrt(2 / 200)),
        (lambda: nn.init.xavier_uniform_(w), -math.sqrt(6 / 500), math.sqrt(6 / 500), math.sqrt(2 / 500)),
        (lambda: nn.init.xavier_normal_(w, gain=2.0), -1, 1, 2 * math.sqrt(2 / 500)),
        (lambda: nn.init.uniform_(w, -2, 4), -2, 4, math.sqrt(3)),
        (lambda: nn.init.normal_(w, 1.0, 0.5), -3, 5, 0.5),
    ):
        assert fill() is w
        values = w.numpy()
        assert low <= values.min() and values.max() <= high and values.std() == pytest.approx(std, rel=0.02)
    assert nn.init.zeros_(w).sum().item() == 0 and nn.init.ones_(w).sum().item() == 60000
    assert nn.init.constant_(w, 0.5)[3, 4].item() == 0.5 and nn.init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    q = nn.init.orthogonal_(torch.empty(3, 5, dtype=torch.float64), gain=2).numpy()
    np.testing.assert_allclose(q @ q.T, 4 * np.eye(3), atol=1e-10)
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"):
        nn.init.xavier_uniform_(torch.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity swish"):
        nn.init.calculate_gain("swish")


def test_gradients_are_clipped():
    p, q = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    p.grad, q.grad = torch.tensor([3.0, 4.0]), torch.tensor([12.0])
    assert nn.utils.clip_grad_norm_([p, q], 1.3).item() == pytest.approx(13.0)
    np.testing.assert_allclose(array(p.grad), [0.3, 0.4], rtol=1e-5)
    assert nn.utils.clip_grad_norm_([p, q], 100.0).item() == pytest.approx(1.3, rel=1e-5)
    np.testing.assert_allclose(array(q.grad), [1.2], rtol=1e-5)
    assert nn.utils.clip_grad_norm_([p], 1.0, norm_type=math.inf).item() == pytest.approx(0.4, rel=1e-5)
    nn.utils.clip_grad_value_([p, q], 0.35)
    np.testing.assert_allclose(array(p.grad), [0.3, 0.35], rtol=1e-5)
    p.grad = torch.tensor([math.inf, 0.0])
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def test_parameters_as_one_vector_and_back():
    layer = nn.Linear(2, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.tolist() == [*layer.weight.view(-1).tolist(), *layer.bias.tolist()]
    nn.utils.vector_to_parameters(torch.arange(6.0), layer.parameters())
    assert layer.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]] and layer.bias.tolist() == [4.0, 5.0]
    assert layer.weight.requires_grad


@needs_peer
def test_a_small_cnn_trains_as_pytorchs():
    def losses(module):
        module.manual_seed(0)
        n = module.nn
        net = n.Sequential(
            n.Conv2d(1, 4, 3, padding=1), n.BatchNorm2d(4), n.ReLU(), n.MaxPool2d(2), n.Flatten(), n.Linear(64, 3)
        ).double()
        optimizer = module.optim.AdamW(net.parameters(), lr=0.01)
        rng = np.random.default_rng(0)
        out = []
        for _ in range(10):
            x, y = module.tensor(rng.normal(size=(8, 1, 8, 8))), module.tensor(rng.integers(0, 3, 8))
            optimizer.zero_grad()
            loss = n.functional.cross_entropy(net(x), y)
            loss.backward()
            n.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            out.append(loss.item())
        return out

    np.testing.assert_allclose(losses(torch), losses(peer), rtol=1e-6)
