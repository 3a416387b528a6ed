"""nn: MultiheadAttention and Transformer against PyTorch with the same parameters and masks."""
import copy
import os
import warnings

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn

try:
    import torch as peer
except ImportError:
    peer = None

pytestmark = pytest.mark.skipif(peer is None, reason="PyTorch is not installed")
DEVICE = os.environ.get("MINDTORCH_TEST_DEVICE", "cpu")


def array(t):
    return t.detach().cpu().numpy()


def flat(x):
    return [t for part in x for t in flat(part)] if isinstance(x, (tuple, list)) else [] if x is None else [x]


def both(make, seed=0):
    """The same module of ours and of PyTorch. Their initial values are compared, then zero biases are made random."""
    torch.manual_seed(seed), peer.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = make(nn), make(peer.nn)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    rng = np.random.default_rng(seed)
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        np.testing.assert_allclose(array(p), q.detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
        values = rng.normal(scale=0.5, size=tuple(p.shape))
        p.data, q.data = torch.tensor(values, device=DEVICE), peer.tensor(values)
    return ours, theirs


def agree(ours, theirs, run, arrays, rtol=1e-8):
    """Results and gradients, of the inputs and the parameters, of run(library, module, *inputs)."""
    found = []
    for library, module, where in ((torch, ours, {"device": DEVICE}), (peer, theirs, {})):
        library.manual_seed(7)
        inputs = [library.tensor(a, requires_grad=True, **where) for a in arrays]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = flat(run(library, module, *inputs))
        sum((t * t).sum() for t in results).backward()
        grads = [t.grad for t in inputs] + [p.grad for p in module.parameters()]
        found.append([None if t is None else array(t) for t in results + grads])
    assert len(found[0]) == len(found[1])
    for i, (a, b) in enumerate(zip(*found)):
        assert (a is None) == (b is None), i
        if a is not None:
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=str(i))


def mask(library, kind, *shape):
    hidden = np.random.default_rng(3).random(shape) < 0.4
    hidden[..., 0] = False
    where = {} if library is peer else {"device": DEVICE}
    return library.tensor(hidden if kind == "bool" else np.random.default_rng(4).normal(size=shape), **where)


Q, K, V = (np.random.default_rng(i).normal(size=size) for i, size in enumerate(((4, 3, 6), (5, 3, 6), (5, 3, 6))))


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True},
                                     {"kdim": 6, "vdim": 4}], ids=str)
@pytest.mark.parametrize("masks", [(None, None), ("bool", None), (None, "bool"), ("float", "float"), ("3d", "bool")], ids=str)
@pytest.mark.parametrize("need", ["weights", "each", "none"])
def test_attention_equals_pytorchs(options, masks, need):
    ours, theirs = both(lambda n: n.MultiheadAttention(6, 2, **options))
    values = V[:, :, :options.get("vdim", 6)]

    def run(library, module, q, k, v):
        given = {"need_weights": need != "none", "average_attn_weights": need != "each"}
        if masks[0]:
            given["attn_mask"] = mask(library, "bool" if masks[0] == "3d" else masks[0], *((6, 4, 5) if masks[0] == "3d" else (4, 5)))
        if masks[1]:
            given["key_padding_mask"] = mask(library, masks[1], 3, 5)
        return module(q, k, v, **given)

    agree(ours, theirs, run, (Q, K, values))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("how", ["self", "memory", "unbatched", "batch_first", "causal", "masked_3d"])
def test_kinds_of_attention(how, need_weights):
    ours, theirs = both(lambda n: n.MultiheadAttention(6, 3, batch_first=how in ("batch_first", "causal")))

    def run(library, module, q, k):
        given = {"need_weights": need_weights}
        if how == "causal":
            where = {} if library is peer else {"device": DEVICE}
            given |= {"attn_mask": library.nn.Transformer.generate_square_subsequent_mask(q.shape[1], dtype=q.dtype, **where), "is_causal": True}
        if how == "memory":
            return module(q, k, k, **given)
        if how == "masked_3d":
            given["attn_mask"] = mask(library, "bool", 3, 4, 4)
        q = q[:, 0] if how in ("unbatched", "masked_3d") else q
        return module(q, q, q, **given), k.sum()

    agree(ours, theirs, run, (Q, K))


@pytest.mark.skipif(DEVICE != "cpu", reason="devices draw numbers of their own")
@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_of_weights_draws_pytorchs_numbers(need_weights):
    ours, theirs = both(lambda n: n.MultiheadAttention(6, 2, dropout=0.5))
    agree(ours, theirs, lambda library, module, q, k, v: module(q, k, v, need_weights=need_weights)[0], (Q, K, V))


def test_the_function_takes_static_keys():
    rng = np.random.default_rng(0)
    w, b, o, ob = (rng.normal(size=s) for s in ((18, 6), 18, (6, 6), 6))
    static = rng.normal(size=(6, 7, 3))

    def run(library):
        t = [library.tensor(x) for x in (Q, K, V, w, b, o, ob, static)]
        return library.nn.functional.multi_head_attention_forward(
            *t[:3], 6, 2, t[3], t[4], None, None, False, 0.0, t[5], t[6], static_k=t[7], static_v=t[7])

    for a, c in zip(run(torch), run(peer)):
        np.testing.assert_allclose(array(a), c.numpy(), rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu", "batch_first": True}, {"bias": False, "layer_norm_eps": 1e-3}], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_layers_equal_pytorchs(options, masked):
    def run(library, module, x, memory):
        turned = options.get("batch_first")
        x, memory = (x.transpose(0, 1), memory.transpose(0, 1)) if turned else (x, memory)
        encoder, decoder = module
        given = {"src_mask": mask(library, "bool", 5, 5), "src_key_padding_mask": mask(library, "bool", 3, 5)} if masked else {}
        seen = encoder(memory, **given)
        given = {"tgt_mask": mask(library, "float", 4, 4), "memory_mask": mask(library, "bool", 4, 5), "memory_key_padding_mask":
                 mask(library, "bool", 3, 5), "tgt_key_padding_mask": mask(library, "float", 3, 4)} if masked else {}
        return decoder(x, seen, **given)

    ours, theirs = both(lambda n: n.ModuleList([n.TransformerEncoderLayer(6, 2, 8, 0.0, **options), n.TransformerDecoderLayer(6, 2, 8, 0.0, **options)]))
    agree(ours, theirs, run, (Q, K))


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "batch_first": True, "activation": "gelu"}], ids=str)
@pytest.mark.parametrize("causal", [None, "found", "said"])
def test_transformer_equals_pytorchs(options, causal):
    ours, theirs = both(lambda n: n.Transformer(6, 2, 2, 2, 8, 0.0, **options))

    def run(library, module, tgt, src):
        if options.get("batch_first"):
            src, tgt = src.transpose(0, 1), tgt.transpose(0, 1)
        given = {}
        if causal:
            where = {} if library is peer else {"device": DEVICE}
            given["tgt_mask"] = library.nn.Transformer.generate_square_subsequent_mask(4, dtype=tgt.dtype, **where)
        if causal == "said":
            given["tgt_is_causal"] = True
        return module(src, tgt, **given)

    agree(ours, theirs, run, (Q, K), rtol=1e-7)


@pytest.mark.skipif(DEVICE != "cpu", reason="devices draw numbers of their own")
def test_a_transformer_with_dropout_draws_pytorchs_numbers():
    ours, theirs = both(lambda n: n.Transformer(6, 2, 1, 1, 8, 0.3))
    agree(ours, theirs, lambda library, module, tgt, src: module(src, tgt), (Q, K), rtol=1e-7)


def test_evaluation_and_custom_parts():
    ours, theirs = both(lambda n: n.TransformerEncoder(n.TransformerEncoderLayer(6, 2, 8, batch_first=True), 2, n.LayerNorm(6)))
    padding = np.array([[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 1]], bool)
    x = Q.swapaxes(0, 1)
    a = ours.eval()(torch.tensor(x, device=DEVICE), src_key_padding_mask=torch.tensor(padding, device=DEVICE))
    with peer.no_grad():  # PyTorch's fast path leaves zeros where there is padding
        b = theirs.eval()(peer.tensor(x), src_key_padding_mask=peer.tensor(padding))
    np.testing.assert_allclose(array(a)[~padding], b.numpy()[~padding], rtol=1e-7, atol=1e-7)
    model = nn.Transformer(6, custom_encoder=nn.Identity(), num_decoder_layers=1, dim_feedforward=4, nhead=2)
    assert isinstance(model.encoder, nn.Identity) and isinstance(copy.deepcopy(model).decoder.layers[0], nn.TransformerDecoderLayer)


@pytest.mark.parametrize("dtype, rtol", [("float32", 1e-4), ("float16", 3e-2), ("bfloat16", 2e-1)])
def test_other_dtypes(dtype, rtol):
    torch.manual_seed(0), peer.manual_seed(0)
    ours = nn.TransformerEncoderLayer(6, 2, 8, 0.0).to(getattr(torch, dtype)).to(DEVICE)
    theirs = peer.nn.TransformerEncoderLayer(6, 2, 8, 0.0).to(getattr(peer, dtype))
    a = ours(torch.tensor(Q, device=DEVICE).to(getattr(torch, dtype)))
    b = theirs(peer.tensor(Q).to(getattr(peer, dtype)))
    assert a.dtype == getattr(torch, dtype)
    np.testing.assert_allclose(array(a.float()), b.detach().float().numpy(), rtol=rtol, atol=rtol)


def test_second_derivatives():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 4, 0.0, activation="gelu").double()
    attention = nn.MultiheadAttention(4, 2).double()
    x = torch.tensor(Q[:2, :1, :4].copy(), requires_grad=True)
    for run in (lambda x: attention(x, x, x)[0], lambda x: attention(x, x, x, need_weights=False)[0]):
        def slope(x):
            x = x if x.requires_grad else x.requires_grad_()
            return torch.autograd.grad(run(x).square().sum(), x, create_graph=True)[0]

        assert torch.autograd.gradcheck(run, (x,)) and torch.autograd.gradcheck(slope, (x,))
    assert torch.autograd.gradcheck(layer, (x,))


ERRORS = [
    lambda n, t: n.MultiheadAttention(5, 2), lambda n, t: n.MultiheadAttention(0, 2), lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 2, 2, 4)] * 3),
    lambda n, t: n.MultiheadAttention(4, 2)(t.ones(2, 1, 4), t.ones(2, 4), t.ones(2, 4)), lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 3)] * 3),
    lambda n, t: n.MultiheadAttention(4, 2)(t.ones(2, 4), t.ones(2, 1, 4), t.ones(2, 4)),
    lambda n, t: n.MultiheadAttention(4, 2)(t.ones(2, 1, 4), t.ones(3, 1, 4), t.ones(2, 1, 4)),
    lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, is_causal=True),
    lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, attn_mask=t.ones(3, 2)), lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, attn_mask=t.ones(2)),
    lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, attn_mask=t.ones(3, 2, 2)), lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 4)] * 3, attn_mask=t.ones(3, 2, 2)),
    lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, attn_mask=t.ones(2, 2).long()),
    lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, key_padding_mask=t.ones(3)), lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, key_padding_mask=t.ones(1, 3)),
    lambda n, t: n.MultiheadAttention(4, 2)(*[t.ones(2, 4)] * 3, key_padding_mask=t.ones(1, 2)),
    lambda n, t: n.MultiheadAttention(4, 2, kdim=3)(t.ones(2, 1, 4), t.ones(2, 1, 2), t.ones(2, 1, 4)), lambda n, t: n.TransformerEncoderLayer(4, 2, activation="tanh"),
    lambda n, t: n.Transformer(4, 2, 1, 1, 4)(t.ones(2, 1, 4), t.ones(2, 2, 4)), lambda n, t: n.Transformer(4, 2, 1, 1, 4)(t.ones(2, 1, 4), t.ones(2, 1, 3)),
    lambda n, t: n.functional.multi_head_attention_forward(*[t.ones(2, 1, 4)] * 3, 4, 3, t.ones(12, 4), None, None, None, False, 0.0, t.ones(4, 4), None),
    lambda n, t: n.functional.multi_head_attention_forward(*[t.ones(2, 1, 4)] * 3, 4, 2, t.ones(12, 4), None, t.ones(1, 1, 4), None, False, 0.0, t.ones(4, 4), None),
    lambda n, t: n.functional.multi_head_attention_forward(*[t.ones(2, 1, 4)] * 3, 4, 2, None, None, None, None, False, 0.0, t.ones(4, 4), None),
    lambda n, t: n.functional.multi_head_attention_forward(*[t.ones(2, 1, 4)] * 3, 4, 2, None, None, None, None, False, 0.0, t.ones(4, 4), None, use_separate_proj_weight=True),
    lambda n, t: n.functional.multi_head_attention_forward(*[t.ones(2, 1, 4)] * 3, 4, 2, t.ones(12, 4), None, None, None, False, 0.0, t.ones(4, 4), None, static_k=t.ones(3, 2, 2)),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors_are_pytorchs(index):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            ERRORS[index](peer.nn, peer)
        with pytest.raises(type(theirs.value)) as ours:
            ERRORS[index](nn, torch)
    clean = lambda e: str(e.value).split("\nException raised")[0].strip()  # noqa: E731
    assert clean(ours) == clean(theirs)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "batch_first": True}, {"batch_first": True, "bias": False}, {"nhead": 3, "batch_first": True}])
def test_warnings_of_encoders_are_pytorchs(options):
    def said(library):
        layer = library.nn.TransformerEncoderLayer(**({"d_model": 6, "nhead": 2, "dim_feedforward": 4} | options))
        with pytest.warns(UserWarning) as seen:
            library.nn.TransformerEncoder(layer, 1)
        return [str(w.message) for w in seen]

    assert said(torch) == said(peer)
