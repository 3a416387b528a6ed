"""Recurrent layers and cells, and batches of sequences: padded and packed."""
import numpy as np

from .case import Host, add, real

SUMS = dict(rtol=1e-9, rtol32=1e-4, grad_rtol=1e-4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def stepped(kind, x, state, w):
    """The next state, (h,) or (h, c), of a step; w: w_ih, w_hh and perhaps b_ih, b_hh."""
    h = state[0]
    a, b = x @ w[0].T, h @ w[1].T
    if len(w) > 3:
        a, b = a + w[2], b + w[3]
    if kind == "lstm":
        i, f, g, o = np.split(a + b, 4, axis=1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h @ w[-1].T if len(w) % 2 else h), c
    if kind == "gru":
        a, b = np.split(a, 3, axis=1), np.split(b, 3, axis=1)
        r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        n = np.tanh(a[2] + r * b[2])
        return ((1 - z) * n + z * h,)
    return (np.tanh(a + b) if kind == "rnn_tanh" else np.maximum(a + b, 0),)


def layers(kind, sequences, hx, params, biases, count, both):
    """sequences: a list of (steps, inputs), each run alone. Returns their outputs, and the last states."""
    each = 2 + 2 * biases + (kind == "lstm" and hx[0].shape[2] != hx[1].shape[2])
    last = [s.copy() for s in hx]
    for layer in range(count):
        outs = [[] for _ in sequences]
        for d in range(1 + both):
            at = layer * (1 + both) + d
            w = params[at * each:(at + 1) * each]
            for k, x in enumerate(sequences):
                state, ys = tuple(s[at, k:k + 1] for s in hx), []
                for row in (x[::-1] if d else x):
                    state = stepped(kind, row[None], state, w)
                    ys.append(state[0][0])
                outs[k].append(np.stack(ys[::-1] if d else ys))
                for target, s in zip(last, state):
                    target[at, k] = s[0]
        sequences = [np.concatenate(parts, axis=1) for parts in outs]
    return sequences, last


def padded(kind):
    def want(x, hx, params, biases, count, dropout, train, both, batch_first):
        hx = hx if kind == "lstm" else [hx]
        rows = list(x if batch_first else x.swapaxes(0, 1))
        outs, last = layers(kind, rows, hx, params, biases, count, both)
        out = np.stack(outs)
        return (out if batch_first else out.swapaxes(0, 1), *last)
    return want


def unpacked(data, sizes):
    return [np.stack([data[int(np.sum(sizes[:i])) + k] for i in range(len(sizes)) if sizes[i] > k]) for k in range(sizes[0])]


def repacked(sequences, sizes):
    return np.stack([sequences[k][i] for i, size in enumerate(sizes) for k in range(size)])


def packed(kind):
    def want(data, sizes, hx, params, biases, count, dropout, train, both):
        hx = hx if kind == "lstm" else [hx]
        outs, last = layers(kind, unpacked(data, sizes), hx, params, biases, count, both)
        return (repacked(outs, sizes), *last)
    return want


def parameters(gates, inputs, hidden, biases, count, both, projected=0):
    out, width = [], projected or hidden
    for layer in range(count):
        for d in range(1 + both):
            shapes = [(gates * hidden, inputs if layer == 0 else width * (1 + both)), (gates * hidden, width)]
            shapes += [(gates * hidden,)] * 2 * biases + [(projected, hidden)] * bool(projected)
            out += [real(*shape, lo=-0.9, hi=0.9, seed=(layer, d, i)) for i, shape in enumerate(shapes)]
    return out


SIZES = Host.of([3, 2, 2, 1])
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
for kind, gates in GATES.items():
    for label, biases, count, both, first in (("plain", True, 1, False, False), ("deep", True, 2, True, True), ("bare", False, 1, False, True)):
        x, hidden = real(3, 2, 2), 2
        batch = x.shape[0 if first else 1]
        hx = [real(count * (1 + both), batch, hidden, seed=i) for i in range(2)]
        params = parameters(gates, 2, hidden, biases, count, both)
        states = hx if kind == "lstm" else hx[0]
        kept = dict(node=False, **SUMS)
        add(kind, label, (x, states, params, biases, count, 0.0, True, both, first), padded(kind), **kept)
        data = real(int(SIZES.sum()), 2)
        states = [real(count * (1 + both), 3, hidden, seed=i) for i in range(2)]
        add(kind + "_data", label, (data, SIZES, states if kind == "lstm" else states[0], params, biases, count, 0.0, False, both),
            packed(kind), free=False, **kept)
    cell = [real(2, 2, seed=i) for i in range(3)]
    w = parameters(gates, 2, 2, True, 1, False)
    for label, weights in (("plain", w), ("bare", w[:2])):
        if kind == "lstm":
            add("lstm_cell", label, (cell[0], cell[1:], *weights), lambda x, hx, *w: stepped("lstm", x, hx, w), node=False, **SUMS)
        else:
            add(kind + "_cell", label, (cell[0], cell[1], *weights), lambda x, h, *w, kind=kind: stepped(kind, x, (h,), w)[0],
                node=False, **SUMS)
PROJECTED = [real(2, 2, 2, seed=1), real(2, 2, 3, seed=2)]
add("lstm", "projected", (real(2, 2, 2), PROJECTED, parameters(4, 2, 3, True, 1, True, 2), True, 1, 0.0, True, True, False), padded("lstm"),
    node=False, **SUMS)
add("lstm_data", "projected", (real(3, 2), Host.of([2, 1]), PROJECTED, parameters(4, 2, 3, False, 1, True, 2), False, 1, 0.0, True, True),
    packed("lstm"), free=False, node=False, **SUMS)


# ----------------------------------------------------------------------------------------------------- sequences

def padded_sequence(sequences, batch_first=False, value=0.0, side="right"):
    longest = max(len(s) for s in sequences)
    out = np.full((len(sequences), longest, *sequences[0].shape[1:]), value)
    for row, s in zip(out, sequences):
        row[longest - len(s) if side == "left" else 0:][:len(s)] = s
    return out if batch_first else out.swapaxes(0, 1)


SEQUENCES = [real(n, 2, seed=n) for n in (3, 1, 2)]
EXACT = dict(dtypes="fil", rtol=0, rtol32=0, node=False)
add("pad_sequence", "plain", (SEQUENCES,), padded_sequence, **EXACT)
add("pad_sequence", "left", (SEQUENCES, True, 7.0, "left"), padded_sequence, **EXACT)
add("pad_sequence", "vectors", ([real(2), real(4)],), padded_sequence, **EXACT)
add("pad_sequence", "empty", ([real(0, 2), real(1, 2)], True), padded_sequence, **EXACT)


def pack(x, lengths, batch_first):
    rows = x if batch_first else x.swapaxes(0, 1)
    sizes = np.array([int(np.sum(lengths > i)) for i in range(int(lengths[0]))])
    return repacked(rows, sizes), sizes


def pad_packed(data, sizes, batch_first, value, total):
    rows = unpacked(data, sizes)
    out = np.full((len(rows), max(total, len(sizes)), *data.shape[1:]), value)
    for row, s in zip(out, rows):
        row[:len(s)] = s
    return out if batch_first else out.swapaxes(0, 1), np.array([len(s) for s in rows])


for label, lengths in (("falling", (4, 2, 1)), ("equal", (3, 3, 3)), ("whole", (4, 4, 1))):
    for first in (False, True):
        x = real(*((3, 4) if first else (4, 3)), 2)
        name = label + "_first" * first
        add("_pack_padded_sequence", name, (x, Host.of(lengths), first), pack, out=("same", "l"), grad_outs=[0], torch_node=False, **EXACT)
for label, args in (("plain", (False, 0.0, 0)), ("first", (True, -1.0, 0)), ("longer", (False, 2.0, 6))):
    add("_pad_packed_sequence", label, (real(8, 2), SIZES, *args), pad_packed, out=("same", "l"), grad_outs=[0], free=False, **EXACT)
