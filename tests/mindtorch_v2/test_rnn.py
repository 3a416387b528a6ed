"""nn: recurrent layers, their cells and packed sequences, against PyTorch with the same parameters, and by what they must satisfy."""
import copy
import os
import pickle

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.nn.utils import rnn as sequences

try:
    import torch as peer
except ImportError:
    peer = None

needs_peer = pytest.mark.skipif(peer is None, reason="PyTorch is not installed")
DEVICE = os.environ.get("MINDTORCH_TEST_DEVICE", "cpu")
KINDS = ("RNN", "LSTM", "GRU")
OPTIONS = {
    "plain": {}, "deep": {"num_layers": 3}, "both": {"bidirectional": True}, "all": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "bare": {"bias": False, "batch_first": True}, "dropout": {"num_layers": 2, "dropout": 0.4},
}
CASES = [(kind, name) for kind in KINDS for name in OPTIONS] + [("RNN", "relu"), ("LSTM", "projected"), ("LSTM", "projected_both")]
OPTIONS |= {"relu": {"nonlinearity": "relu", "num_layers": 2}, "projected": {"proj_size": 2, "num_layers": 2},
            "projected_both": {"proj_size": 3, "num_layers": 2, "bidirectional": True, "bias": False}}


def array(t):
    return t.detach().cpu().numpy()


def flat(x):
    """The tensors of a result, in order."""
    return [t for part in x for t in flat(part)] if isinstance(x, (tuple, list)) else [] if x is None else [x]


def pair(kind, options, dtype="float64", device="cpu"):
    """The same module of ours and of PyTorch, from the same seed."""
    torch.manual_seed(3), peer.manual_seed(3)
    ours = getattr(nn, kind)(**options).to(getattr(torch, dtype)).to(device)
    theirs = getattr(peer.nn, kind)(**options).to(getattr(peer, dtype))
    return ours, theirs


def inputs(batch_first=False, dtype=np.float64, seed=0):
    x = np.random.default_rng(seed).normal(size=(3, 5, 4) if batch_first else (5, 3, 4))
    return x.astype(dtype)


def compared(ours, theirs, run, x, rtol=1e-9):
    """Outputs, and gradients of the input and of all parameters, of run(library, module, input)."""
    a = torch.tensor(x, device=DEVICE).requires_grad_()
    b = peer.tensor(x, requires_grad=True)
    torch.manual_seed(5), peer.manual_seed(5)
    left, right = flat(run(torch, ours, a)), flat(run(peer, theirs, b))
    assert len(left) == len(right)
    for p, q in zip(left, right):
        assert tuple(p.shape) == tuple(q.shape) and str(p.dtype).split(".")[-1] == str(q.dtype).split(".")[-1]
        np.testing.assert_allclose(array(p), q.detach().numpy(), rtol=rtol, atol=rtol)
    sum((t.double() * t).sum() for t in left if t.requires_grad).backward()
    sum((t.double() * t).sum() for t in right if t.requires_grad).backward()
    np.testing.assert_allclose(array(a.grad), b.grad.numpy(), rtol=10 * rtol, atol=10 * rtol)
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        np.testing.assert_allclose(array(p.grad), q.grad.numpy(), rtol=10 * rtol, atol=100 * rtol, err_msg=name)


@needs_peer
@pytest.mark.parametrize("kind, name", CASES)
def test_layers_equal_pytorchs(kind, name):
    """Initial values, names, text, outputs and gradients; in training, and dropout draws the same numbers."""
    if DEVICE != "cpu" and name == "dropout":
        pytest.skip("devices draw numbers of their own")
    options = {"input_size": 4, "hidden_size": 5, **OPTIONS[name]}
    torch.manual_seed(3), peer.manual_seed(3)
    mine, other = getattr(nn, kind)(**options), getattr(peer.nn, kind)(**options)
    assert repr(mine) == repr(other) and list(mine.state_dict()) == list(other.state_dict())
    assert [[tuple(w.shape) for w in ws] for ws in mine.all_weights] == [[tuple(w.shape) for w in ws] for ws in other.all_weights]
    for p, q in zip(mine.parameters(), other.parameters()):
        np.testing.assert_allclose(array(p), array(q), rtol=1e-6)
    ours, theirs = pair(kind, options, device=DEVICE)
    compared(ours, theirs, lambda library, module, x: module(x), inputs(options.get("batch_first", False)))


@needs_peer
@pytest.mark.parametrize("kind, name", [(k, n) for k, n in CASES if n in ("all", "projected", "relu", "bare")])
def test_given_states_and_unbatched_input(kind, name):
    options = {"input_size": 4, "hidden_size": 5, **OPTIONS[name]}
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    rng = np.random.default_rng(1)
    h, c = rng.normal(size=(count, 3, options.get("proj_size", 5))), rng.normal(size=(count, 3, 5))

    def run(library, module, x, one=False):
        where = {} if library is peer else {"device": DEVICE}
        hx = tuple(library.tensor(s[:, 0] if one else s, **where) for s in (h, c))
        if one:
            x = x[0] if options.get("batch_first") else x[:, 0]
        return module(x, hx if kind == "LSTM" else hx[0])

    x = inputs(options.get("batch_first", False))
    for one in (False, True):
        ours, theirs = pair(kind, options, device=DEVICE)
        compared(ours, theirs, lambda library, module, x: run(library, module, x, one), x)


@needs_peer
@pytest.mark.parametrize("kind, name", CASES)
@pytest.mark.parametrize("is_sorted", [True, False])
def test_packed_sequences_equal_pytorchs(kind, name, is_sorted):
    if DEVICE != "cpu" and name == "dropout":
        pytest.skip("devices draw numbers of their own")
    options = {"input_size": 4, "hidden_size": 5, **OPTIONS[name]}
    first = options.get("batch_first", False)
    lengths = [5, 3, 3] if is_sorted else [2, 5, 4]

    def run(library, module, x):
        utils = library.nn.utils.rnn
        packed, hidden = module(utils.pack_padded_sequence(x, lengths, first, enforce_sorted=is_sorted))
        assert isinstance(packed, utils.PackedSequence)
        return packed.data, packed.batch_sizes, hidden, utils.pad_packed_sequence(packed, first, -1.0, 7)

    ours, theirs = pair(kind, options, device=DEVICE)
    compared(ours, theirs, run, inputs(first))


@needs_peer
@pytest.mark.parametrize("kind, options", [("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu", "bias": False}), ("GRUCell", {}),
                                           ("GRUCell", {"bias": False}), ("LSTMCell", {}), ("LSTMCell", {"bias": False})])
@pytest.mark.parametrize("batched", [True, False])
def test_cells_equal_pytorchs(kind, options, batched):
    ours, theirs = pair(kind, {"input_size": 4, "hidden_size": 5, **options}, device=DEVICE)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())

    def run(library, module, x):
        state, out = None, []
        for step in x:
            state = module(step if batched else step[0], state)
            out.append(state)
        return out

    compared(ours, theirs, run, inputs())


@needs_peer
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype, rtol", [("float32", 2e-5), ("float16", 2e-2), ("bfloat16", 8e-2)])
def test_other_dtypes(kind, dtype, rtol):
    ours, theirs = pair(kind, {"input_size": 4, "hidden_size": 5, "num_layers": 2}, dtype, DEVICE)
    x = inputs(dtype=np.float32)
    out, hidden = ours(torch.tensor(x, device=DEVICE).to(getattr(torch, dtype)))
    want, _ = theirs(peer.tensor(x).to(getattr(peer, dtype)))
    assert out.dtype == getattr(torch, dtype) and flat(hidden)[0].dtype == out.dtype
    np.testing.assert_allclose(array(out.float()), want.detach().float().numpy(), rtol=rtol, atol=rtol)
    out.float().square().sum().backward()
    want.float().square().sum().backward()
    for p, q in zip(ours.parameters(), theirs.parameters()):
        scale = float(q.grad.float().abs().max())
        np.testing.assert_allclose(array(p.grad.float()), q.grad.float().numpy(), rtol=4 * rtol, atol=4 * rtol * scale)


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives(kind):
    torch.manual_seed(0)
    layer = getattr(nn, kind)(2, 2, bidirectional=True).double()
    x = torch.tensor(np.random.default_rng(0).normal(size=(3, 1, 2))).requires_grad_()
    packed = lambda x: layer(sequences.pack_padded_sequence(x, [3]))[0].data  # noqa: E731
    for run in (lambda x: layer(x)[0], packed):
        assert torch.autograd.gradcheck(run, (x,))

        def slope(x):
            x = x if x.requires_grad else x.requires_grad_()
            return torch.autograd.grad(run(x).square().sum(), x, create_graph=True)[0]

        assert torch.autograd.gradcheck(slope, (x,))


@needs_peer
def test_padding_and_packing_equal_pytorchs():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) for n in (2, 4, 1)]
    ours, theirs = ([library.tensor(a) for a in arrays] for library in (torch, peer))
    for options in ({}, {"batch_first": True, "padding_value": 3.5}, {"padding_side": "left"}):
        a, b = sequences.pad_sequence(ours, **options), peer.nn.utils.rnn.pad_sequence(theirs, **options)
        assert a.tolist() == b.tolist()
    a, b = sequences.pack_sequence(ours, enforce_sorted=False), peer.nn.utils.rnn.pack_sequence(theirs, enforce_sorted=False)
    assert [t.tolist() for t in a] == [t.tolist() for t in b] and a._fields == b._fields
    for p, q in zip(sequences.unpack_sequence(a), theirs):
        assert p.tolist() == q.tolist()
    padded, lengths = sequences.pad_packed_sequence(a)
    assert lengths.tolist() == [2, 4, 1]
    assert [t.tolist() for t in sequences.unpad_sequence(padded, lengths)] == [q.tolist() for q in theirs]
    assert a.float().data.dtype == torch.float32 and a.double() is a and a.to("cpu") is a and not a.is_cuda
    assert sequences.invert_permutation(torch.tensor([2, 0, 1])).tolist() == [1, 2, 0] and sequences.invert_permutation(None) is None


ERRORS = [
    lambda n, t: n.LSTM(4, 5)(t.ones(2, 2, 2, 4)), lambda n, t: n.GRU(4, 5)(t.ones(4)), lambda n, t: n.RNN(4, 5)(t.ones(4)),
    lambda n, t: n.LSTM(4, 5)(t.ones(2, 3, 3)), lambda n, t: n.LSTM(4, 5)(t.ones(2, 3, 4).double()),
    lambda n, t: n.GRU(4, 5)(t.ones(2, 3, 4), t.ones(1, 2, 5)), lambda n, t: n.GRU(4, 5)(t.ones(2, 3, 4), t.ones(3, 5)),
    lambda n, t: n.GRU(4, 5)(t.ones(2, 4), t.ones(1, 1, 5)), lambda n, t: n.LSTM(4, 5)(t.ones(2, 4), (t.ones(1, 1, 5), t.ones(1, 1, 5))),
    lambda n, t: n.LSTM(4, 5)(t.ones(2, 3, 4), (t.ones(1, 3, 5), t.ones(1, 3, 4))), lambda n, t: n.LSTM(4, 5)(t.ones(0, 3, 4)),
    lambda n, t: n.LSTM(4, 5)(t.ones(2, 3, 4), (t.ones(3, 5), t.ones(3, 5))),
    lambda n, t: n.LSTM(0, 5), lambda n, t: n.LSTM(4, 0), lambda n, t: n.LSTM(4, 5, 0), lambda n, t: n.LSTM(4, 5, dropout=2),
    lambda n, t: n.LSTM(4, 5, proj_size=5), lambda n, t: n.LSTM(4, 5, proj_size=-1), lambda n, t: n.GRU(4, 5, proj_size=2),
    lambda n, t: n.RNN(4, 5, nonlinearity="gelu"), lambda n, t: n.LSTM(4.0, 5), lambda n, t: n.LSTM(4, 5, bias=1), lambda n, t: n.LSTM(4, 5, batch_first=0),
    lambda n, t: n.LSTMCell(4, 5)(t.ones(2, 2, 4)), lambda n, t: n.GRUCell(4, 5)(t.ones(2, 3)), lambda n, t: n.GRUCell(4, 5)(t.ones(2, 4), t.ones(3, 5)),
    lambda n, t: n.LSTMCell(4, 5)(t.ones(2, 4), (t.ones(2, 5), t.ones(2, 6))), lambda n, t: n.RNNCell(4, 5, nonlinearity="gelu")(t.ones(2, 4)),
    lambda n, t: n.GRUCell(4, 5)(t.ones(2, 4), t.ones(1, 2, 5)),
    lambda n, t: t.gru_cell(t.ones(2, 3), t.ones(2, 4), t.ones(11, 3), t.ones(12, 4)), lambda n, t: t.lstm_cell(t.ones(2, 3), [t.ones(2, 4)] * 2, t.ones(16, 3), t.ones(15, 4)),
    lambda n, t: t.rnn_tanh_cell(t.ones(2, 3), t.ones(2, 4), t.ones(5, 3), t.ones(4, 4)), lambda n, t: t.rnn_relu_cell(t.ones(3), t.ones(2, 4), t.ones(4, 3), t.ones(4, 4)),
    lambda n, t: t.gru_cell(t.ones(2, 3), t.ones(2, 4), t.ones(12), t.ones(12, 4)),
    lambda n, t: n.utils.rnn.pack_padded_sequence(t.ones(3, 2, 1), [1, 2]), lambda n, t: n.utils.rnn.pack_padded_sequence(t.ones(3, 2, 1), [1, 0]),
    lambda n, t: n.utils.rnn.pack_padded_sequence(t.ones(3, 2, 1), [3]), lambda n, t: n.utils.rnn.pack_padded_sequence(t.ones(3, 0, 1), []),
    lambda n, t: n.utils.rnn.pad_packed_sequence(n.utils.rnn.pack_sequence([t.ones(3)]), total_length=2),
    lambda n, t: n.utils.rnn.pad_sequence([]), lambda n, t: n.utils.rnn.pad_sequence(3), lambda n, t: n.utils.rnn.pad_sequence([t.ones(1)], padding_side="up"),
]


@needs_peer
@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors_are_pytorchs(index):
    with pytest.raises(Exception) as theirs:
        ERRORS[index](peer.nn, peer)
    with pytest.raises(type(theirs.value)) as ours:
        ERRORS[index](nn, torch)
    clean = lambda e: str(e.value).split("\nException raised")[0].replace("torch.Size", "").strip()  # noqa: E731
    assert clean(ours) == clean(theirs)


def test_ops_refuse_what_does_not_fit():
    x, h, w = torch.ones(2, 1, 3), torch.zeros(1, 1, 2), [torch.ones(8, 3), torch.ones(8, 2)]
    with pytest.raises(RuntimeError, match="lstm expects two hidden states"):
        torch.lstm(x, [h], w, False, 1, 0.0, True, False, False)
    with pytest.raises(RuntimeError, match="got an incorrect number of RNN parameters"):
        torch.lstm(x, [h, h], w[:1], False, 1, 0.0, True, False, False)
    with pytest.raises(RuntimeError, match="Expected more hidden states in stacked_rnn"):
        torch.lstm(x, [h, h], w + w, False, 2, 0.0, True, False, False)
    with pytest.raises(RuntimeError, match="batch_sizes must be positive, in decreasing order"):
        torch.lstm(x[:, 0], torch.tensor([1, 2]), [h, h], w, False, 1, 0.0, True, False)
    with pytest.raises(RuntimeError, match="should be a 1D CPU int64 tensor, but got 1D cpu Int tensor"):
        torch.gru(x[:, 0], torch.tensor([1, 1], dtype=torch.int32), h, [torch.ones(6, 3), torch.ones(6, 2)], False, 1, 0.0, True, False)
    with pytest.raises(RuntimeError, match="never grow"):
        torch._C.ops._pad_packed_sequence(torch.ones(3, 1), torch.tensor([1, 2]), False, 0.0, 0)


def test_a_dropout_between_layers_only_warns_for_one():
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer"):
        nn.LSTM(2, 2, dropout=0.5)


def test_copies_pickles_and_conversions_work_on_their_own_parameters():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4, 2)
    x = torch.randn(2, 1, 3)
    want = layer(x)[0].tolist()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other(x)[0].tolist() == want
        with torch.no_grad():
            other.weight_ih_l0.zero_()
        assert other(x)[0].tolist() != want and layer(x)[0].tolist() == want
    layer.weight_ih_l0 = nn.Parameter(torch.zeros(16, 3))
    assert layer(x)[0].tolist() != want
    assert layer.double()(x.double())[0].dtype == torch.float64
    layer.flatten_parameters()


def test_parts_of_an_unsafe_split_are_changed_on_their_own():
    x = torch.arange(6.0, requires_grad=True)
    a, b = (x * 1).unsafe_chunk(2)
    a.tanh_()
    b.mul_(2).sigmoid_()
    (a.sum() + b.sum()).backward()
    want = [1 - np.tanh(v) ** 2 for v in range(3)] + [2 * s * (1 - s) for s in (1 / (1 + np.exp(-2.0 * v)) for v in range(3, 6))]
    np.testing.assert_allclose(array(x.grad), want, rtol=1e-3)


@needs_peer
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_learns_as_pytorchs(kind):
    def losses(library):
        library.manual_seed(0)
        n = library.nn
        table, layer, head = n.Embedding(7, 4).double(), getattr(n, kind)(4, 6, 2, batch_first=True).double(), n.Linear(6, 7).double()
        parameters = [*table.parameters(), *layer.parameters(), *head.parameters()]
        optimizer = library.optim.Adam(parameters, lr=0.02)
        rng, out = np.random.default_rng(0), []
        for _ in range(8):
            words = library.tensor(rng.integers(0, 7, (3, 6)))
            optimizer.zero_grad()
            loss = n.functional.cross_entropy(head(layer(table(words[:, :-1]))[0]).flatten(0, 1), words[:, 1:].flatten())
            loss.backward()
            n.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
            out.append(loss.item())
        return out

    np.testing.assert_allclose(losses(torch), losses(peer), rtol=1e-7)
