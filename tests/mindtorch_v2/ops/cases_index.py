"""Elements picked, put and added by tensors of indices or masks."""
import numpy as np

from .case import add, integers, mask, real

ALL = "filb"
EXACT = dict(rtol=0, rtol32=0)


def index(x, indices):
    return x[tuple(slice(None) if i is None else i for i in indices)]


I2 = np.array([2, 0, 2, 1])
PICKS = {"rows": ((4, 3), [I2]), "columns": ((4, 3), [None, I2[:3]]), "pairs": ((4, 3), [I2, np.array([0, 1, 1, 2])]),
         "negative": ((4, 3), [np.array([-1, -4])]), "grid": ((4, 3), [np.array([[0], [3]]), np.array([[1, 2]])]),
         "scalar": ((4, 3), [np.array(2)]), "nothing": ((4, 3), [np.zeros(0, dtype=np.int64)]),
         "mask": ((4, 3), [mask(4, 3)]),
         "mask_rows": ((4, 3), [mask(4)]), "mask_none": ((4, 3), [np.zeros((4, 3), dtype=bool)]),
         "mask_and_index": ((4, 3), [np.array([True, False, True, True]), np.array([0, 2, 1])]),
         "middle": ((2, 4, 3), [None, I2]), "apart": ((2, 4, 3), [np.array([0, 1]), None, np.array([2, 0])]),
         "tail": ((2, 4, 3), [None, I2, np.array([0, 1, 2, 0])]),
         "rank2": ((4, 3), [np.array([[0, 1], [3, 2]])]), "of_empty": ((0, 3), [np.zeros(0, dtype=np.int64)])}
for label, (shape, indices) in PICKS.items():
    add("index", label, (real(*shape), indices), index, dtypes=ALL, grad=[0], **EXACT)


def index_put(x, indices, values, accumulate=False):
    x, at = x.copy(), tuple(slice(None) if i is None else i for i in indices)
    if accumulate:
        np.add.at(x, at, values)
    else:
        x[at] = values
    return x


for label, (shape, indices) in PICKS.items():
    values = index(real(*shape, seed=5), indices).copy()
    add("_index_put_impl_", label, (real(*shape), indices, values, True, True), lambda *a: index_put(*a[:4]), dtypes="fil",
        grad=[0, 2], torch_node=False)
    if label not in ("rows", "columns", "middle"):  # which of two writes to one place stays is open
        add("index_put_", label, (real(*shape), indices, values), index_put, dtypes=ALL, grad=[0, 2])
    add("index_put_", "accumulate_" + label, (real(*shape), indices, values, True), index_put, dtypes="fil", grad=[0, 2])
add("index_put_", "broadcast", (real(4, 3), [np.array([0, 2])], real(3, seed=1)), index_put, grad=[0, 2])
add("index_put_", "scalar", (real(4, 3), [mask(4, 3)], np.array(0.25)), index_put, grad=[0, 2])
add("index_put_", "accumulate_one_place", (real(3), [np.zeros(40, dtype=np.int64)], real(40, seed=1), True), index_put,
    grad=[0, 2])

for label, shape, dim, i in (("rows", (4, 3), 0, I2), ("columns", (3, 4), 1, I2),
                             ("negative", (2, 3, 4), -2, np.array([2, 2])),
                             ("nothing", (4, 3), 0, np.zeros(0, dtype=np.int64)),
                             ("scalar_index", (4, 3), 0, np.array(1)), ("hole", (4, 0), 0, I2),
                             ("large", (64, 50), 0, integers(90, hi=64))):
    grad = [0] if label != "large" else False
    add("index_select", label, (real(*shape), dim, i), lambda x, d, i: np.take(x, np.atleast_1d(i), axis=d), dtypes=ALL,
        grad=grad, **EXACT)
    g = real(*np.take(np.zeros(shape), np.atleast_1d(i), axis=dim).shape, seed=3)

    def index_select_back(g, sizes, dim, i):
        out = np.moveaxis(np.zeros(sizes), dim, 0)
        np.add.at(out, np.atleast_1d(i), np.moveaxis(g, dim, 0))
        return np.moveaxis(out, 0, dim)
    add("index_select_backward", label, (g, shape, dim, i), index_select_back, grad=grad, node=False)
    if label != "scalar_index":
        source = real(*np.take(np.zeros(shape), np.atleast_1d(i), axis=dim).shape, seed=2)

        def index_add(x, dim, i, source):
            x = np.moveaxis(x.copy(), dim, 0)
            np.add.at(x, i, np.moveaxis(source, dim, 0))
            return np.moveaxis(x, 0, dim)
        add("index_add_", label, (real(*shape), dim, i, source), index_add, dtypes="fil", grad=[0, 3] if grad else False)
add("index_select", "int32_index", (real(4, 3), 0, I2.astype(np.int32)), lambda x, d, i: np.take(x, i, axis=d), grad=[0])


def along(x, dim, i):
    """x[place of i, with i at dim], for an index smaller than x."""
    if i.size == 0:
        return np.zeros(i.shape, dtype=x.dtype)
    if x.ndim == 0 or i.ndim == 0:
        return np.reshape(np.reshape(x, -1)[np.reshape(i, -1)], i.shape)
    at = list(np.indices(i.shape))
    at[dim] = i
    return x[tuple(at)]


def put_along(x, dim, i, source, accumulate=False):
    x = x.copy()
    if i.size == 0:
        return x
    if x.ndim == 0:
        return np.asarray(x + source if accumulate else source, dtype=x.dtype).reshape(())
    at = list(np.indices(i.shape))
    at[dim] = i
    values = source if np.ndim(source) == 0 else source[tuple(slice(n) for n in i.shape)]
    if accumulate:
        np.add.at(x, tuple(at), values)
    else:
        x[tuple(at)] = values
    return x


PLACES = {"columns": ((3, 4), 1, np.array([[0, 3], [1, 1], [2, 0]])),
          "rows": ((3, 4), 0, np.array([[0, 2, 1, 1], [2, 0, 0, 2]])), "smaller": ((3, 4), 1, np.array([[3]])),
          "cube": ((2, 3, 2), -2, integers(2, 4, 2, hi=3)), "vector": ((4,), 0, np.array([3, 0, 2])),
          "nothing": ((3, 4), 1, np.zeros((0, 2), dtype=np.int64)), "scalar": ((), 0, np.array(0))}
DISTINCT = {"columns": np.array([[0, 3], [1, 2], [2, 0]]), "rows": np.array([[0, 2, 1, 1], [2, 0, 0, 2]]),
            "smaller": np.array([[3]]), "cube": np.array([[[0, 1], [2, 2]], [[1, 0], [0, 1]]]),
            "vector": np.array([3, 0, 2]), "nothing": np.zeros((0, 2), dtype=np.int64), "scalar": np.array(0)}
for label, (shape, dim, i) in PLACES.items():
    add("gather", label, (real(*shape), dim, i), along, dtypes=ALL, grad=[0], **EXACT)
    add("gather_backward", label, (real(*i.shape, seed=3), np.zeros(shape), dim, i),
        lambda g, x, d, i: put_along(x, d, i, g, True), grad=[0], node=False, torch=False)
    once = DISTINCT[label]
    larger = tuple(n + 1 for n in once.shape)
    for op in ("scatter", "scatter_"):
        add(op, label, (real(*shape), dim, once, real(*once.shape, seed=1)), put_along, dtypes=ALL, grad=[0, 3], **EXACT)
        add(op, "number_" + label, (real(*shape), dim, i, 1.5), put_along, grad=[0])
    if once.ndim:
        add("scatter", "larger_source_" + label, (real(*shape), dim, once, real(*larger, seed=1)), put_along, grad=[0])
    for op in ("scatter_add", "scatter_add_"):
        add(op, label, (real(*shape), dim, i, real(*i.shape, seed=1)), lambda x, d, i, s: put_along(x, d, i, s, True),
            dtypes="fil", grad=[0, 3])
add("gather", "large", (real(30, 40), 1, integers(30, 60, hi=40)), along, grad=False)

add("masked_select", "same", (real(3, 4), mask(3, 4)), lambda x, m: x[m], dtypes=ALL, grad=[0], node=False)
add("masked_select", "broadcast", (real(4), mask(3, 4)), lambda x, m: np.broadcast_to(x, m.shape)[m], dtypes="f", grad=[0],
    node=False)
add("masked_select", "broadcast_mask", (real(3, 4), mask(3, 1)), lambda x, m: x[np.broadcast_to(m, x.shape)], dtypes="f",
    grad=[0], node=False)
add("masked_select", "nothing", (real(3), np.zeros(3, dtype=bool)), lambda x, m: x[m], dtypes="f", grad=[0], node=False)
add("masked_select", "scalar", (real(), np.array(True)), lambda x, m: x.reshape(1), dtypes="f", grad=[0], node=False)
for label, x in (("matrix", np.where(mask(3, 4), real(3, 4), 0.0)), ("scalar", np.array(1.5)),
                 ("scalar_zero", np.array(0.0)), ("hole", np.zeros((2, 0))), ("none", np.zeros((2, 2))),
                 ("large", np.where(mask(37, 131), real(37, 131), 0.0)), ("nan", np.array([np.nan, 0.0]))):
    add("nonzero", label, (x,), lambda x: np.argwhere(x), dtypes="filb" if label != "nan" else "f", out="l", grad=False,
        to_int=np.sign)


def embedding(weight, i, *options):
    return weight[i]


add("embedding", "matrix", (real(5, 3), np.array([[0, 4, 1], [4, 4, 2]])), embedding, grad=[0])
add("embedding", "vector", (real(5, 3), np.array([2, 2, 0])), embedding, grad=[0])
add("embedding", "scalar", (real(5, 3), np.array(2)), embedding, grad=[0])
add("embedding", "nothing", (real(5, 3), np.zeros((2, 0), dtype=np.int64)), embedding, grad=[0])
add("embedding", "int32", (real(5, 3), np.array([2, 2, 0], dtype=np.int32)), embedding, grad=[0])
# the gradient of the padding row is left out, which finite differences do not know: see embedding_dense_backward
add("embedding", "padding", (real(5, 3), np.array([2, 1, 0]), 1), embedding, grad=False)


def embedding_backward(grad, i, rows, padding, by_frequency):
    out = np.zeros((rows, grad.shape[-1]))
    flat = i.reshape(-1)
    for place, row in zip(flat, grad.reshape(-1, grad.shape[-1])):
        if place != padding:
            out[place] += row / (np.sum(flat == place) if by_frequency else 1)
    return out


for label, i, padding, by_frequency in (("matrix", np.array([[0, 4, 1], [4, 4, 2]]), -1, False),
                                        ("padding", np.array([[0, 4, 1], [4, 4, 2]]), 4, False),
                                        ("frequency", np.array([[0, 4, 1], [4, 4, 2]]), -1, True),
                                        ("nothing", np.zeros((0,), dtype=np.int64), -1, False)):
    add("embedding_backward", label, (real(*i.shape, 3), i, 5, padding, by_frequency, False),
        lambda *a: embedding_backward(*a[:5]), grad=not by_frequency and i.size > 0, node=False)
    add("embedding_dense_backward", label, (real(*i.shape, 3), i, 5, padding, by_frequency), embedding_backward, grad=not by_frequency and i.size > 0)

for label, i, classes in (("vector", np.array([0, 2, 1]), 4), ("guess", np.array([0, 2, 1]), -1),
                          ("matrix", np.array([[0, 1], [1, 1]]), 2), ("scalar", np.array(1), 3),
                          ("nothing", np.zeros(0, dtype=np.int64), 3)):
    add("one_hot", label, (i, classes), lambda i, n: np.eye(n if n > 0 else int(i.max()) + 1, dtype=np.int64)[i], out="l",
        dtypes="", grad=False)
