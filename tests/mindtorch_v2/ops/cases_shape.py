"""Views, copies, joins and cuts. The references of views are NumPy views, so strides can be compared as well."""
import numpy as np

from .case import SHAPES, add, real
from .cases_binary import is_small
from .peer import SAME_DEVICE, Dtype

ALL = "filb"


def view(op, label, args, want, **options):
    options = {"view": True, "grad": [0], "dtypes": ALL, "rtol": 0, "rtol32": 0} | options
    add(op, label, args, want, **options)


def copying(op, label, args, want, **options):
    view(op, label, args, want, **({"view": False} | options))


def strided(x, size, stride, offset=None):
    flat = x.reshape(-1)[offset or 0:]
    return np.lib.stride_tricks.as_strided(flat, size, [s * x.itemsize for s in stride])


for label, size, stride, offset in (("rows", (2, 2), (4, 1), 1), ("overlapping", (3, 3), (1, 1), None),
                                    ("scalar", (), (), 5),
                                    ("repeated", (2, 3), (0, 2), 0), ("empty", (0, 2), (1, 1), 0),
                                    ("diagonal", (3,), (5,), 0)):
    view("as_strided", label, (real(3, 4), size, stride, offset), strided, layouts=False)

for label, shape, to, stride in (("matrix", (3, 4), (2, 6), (6, 1)), ("flat", (2, 3), (6,), (1,)), ("scalar", (1,), (), ())):
    view("_reshape_alias", label, (real(*shape), to, stride), lambda x, size, stride: np.reshape(x, size), layouts=False)
for label, shape, to in (("flat", (3, 4), (12,)), ("split", (3, 4), (3, 2, 2)), ("guess", (3, 4), (2, -1)),
                         ("to_scalar", (1, 1), ()),
                         ("from_scalar", (), (1, 1)), ("hole", (0, 3), (3, 0, 2)), ("ones", (2, 3), (1, 2, 1, 3, 1)),
                         ("rank8", (16,), (2, 1, 2, 1, 2, 1, 2, 1))):
    view("view", label, (real(*shape), to), np.reshape, layouts=False)
    copying("_unsafe_view", label, (real(*shape), to), np.reshape, layouts=False)
    view("reshape", label, (real(*shape), to), np.reshape, layouts=False)
    add("reshape", "layout_" + label, (real(*shape), to), np.reshape, grad=[0])
    view("view_as", label, (real(*shape), np.zeros(np.reshape(real(*shape), to).shape, dtype=np.int64)),
         lambda x, y: x.reshape(y.shape), layouts=False)
for label, shape, args in (("all", (2, 3, 4), ()), ("tail", (2, 3, 4), (1,)), ("head", (2, 3, 4), (0, 1)),
                           ("one", (2, 3, 4), (1, 1)),
                           ("scalar", (), ()), ("hole", (2, 0, 3), (1,)), ("negative", (2, 3, 4), (-2, -1))):
    def flatten(x, start=0, end=-1):
        if x.ndim == 0:
            return x.reshape(1)
        start, end = start % x.ndim, end % x.ndim
        return x.reshape(*x.shape[:start], int(np.prod(x.shape[start:end + 1])), *x.shape[end + 1:])
    view("flatten", label, (real(*shape), *args), flatten, layouts=False, view=label not in ("one",))
    add("flatten", "layout_" + label, (real(*shape), *args), flatten, grad=[0])
for label, shape in (("matrix", (3, 4)), ("vector", (3,)), ("scalar", ()), ("hole", (0, 3)), ("column", (3, 1))):
    view("t", label, (real(*shape),), np.transpose)
for label, shape, a, b in (("matrix", (3, 4), 0, 1), ("cube", (2, 3, 4), 0, 2), ("negative", (2, 3, 4), -1, -2),
                           ("same", (2, 3), 1, 1),
                           ("scalar", (), 0, -1), ("hole", (2, 0, 3), 1, 2)):
    view("transpose", label, (real(*shape), a, b), lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x)
for label, shape, dims in (("cube", (2, 3, 4), (2, 0, 1)), ("negative", (2, 3, 4), (-1, 0, -2)), ("scalar", (), ()),
                           ("hole", (2, 0, 3), (1, 2, 0)),
                           ("rank8", SHAPES["rank8"], (7, 6, 5, 4, 3, 2, 1, 0))):
    view("permute", label, (real(*shape), dims), np.transpose)


def expand(x, size):
    extra = len(size) - x.ndim
    shape = [n if n != -1 else x.shape[i - extra] for i, n in enumerate(size)]
    return np.broadcast_to(x, shape)


for label, shape, size in (("rows", (4,), (3, 4)), ("column", (3, 1), (3, 4)), ("keep", (3, 1), (-1, 4)),
                           ("scalar", (), (2, 3)),
                           ("to_nothing", (1, 3), (0, 3)), ("same", (2, 3), (2, 3)), ("middle", (2, 1, 3), (2, 4, 3))):
    view("expand", label, (real(*shape), size), expand)
    if -1 not in size:
        view("expand_as", label, (real(*shape), np.zeros(size, dtype=np.int64)), lambda x, y: np.broadcast_to(x, y.shape))
for label, shape, dim, index in (("row", (3, 4), 0, 1), ("column", (3, 4), 1, 2), ("negative", (3, 4), -1, -4),
                                 ("vector", (3,), 0, 2),
                                 ("hole", (2, 0, 3), 2, 1), ("cube", (2, 3, 4), 1, 0)):
    view("select", label, (real(*shape), dim, index),
         lambda x, dim, index: x[(slice(None),) * (dim % x.ndim) + (index, ...)])
for label, shape, args in (("rows", (5, 4), (0, 1, 3)), ("columns", (5, 4), (1, 1, 4)), ("step", (7, 2), (0, 1, 6, 2)),
                           ("all", (3, 4), ()),
                           ("open", (5,), (0, 2)), ("negative", (5, 4), (-1, -3, -1)), ("beyond", (5,), (0, 3, 100)),
                           ("nothing", (5,), (0, 4, 2)),
                           ("to_maximum", (5,), (0, 1, 2**63 - 1)), ("before", (5,), (0, -100, 2)),
                           ("hole", (0, 3), (1, 1, 2))):
    def cut(x, dim=0, start=None, end=None, step=1):
        return x[(slice(None),) * (dim % x.ndim) + (slice(start, end if start is None or end is None else max(end, start)
                                                          if end >= 0 and start >= 0 else end, step),)]
    view("slice", label, (real(*shape), *args), cut)
for label, shape, args in (("rows", (5, 4), (0, 1, 3)), ("columns", (5, 4), (1, 1, 2)), ("negative", (5, 4), (-1, -3, 2)),
                           ("nothing", (5,), (0, 5, 0))):
    view("narrow", label, (real(*shape), *args),
         lambda x, d, s, n: x[(slice(None),) * (d % x.ndim) + (slice(s % x.shape[d] if s < 0 else s,
                                                                     (s % x.shape[d] if s < 0 else s) + n),)])
for label, shape, dim in (("front", (3, 4), 0), ("middle", (3, 4), 1), ("back", (3, 4), 2), ("negative", (3, 4), -1),
                          ("first_negative", (3, 4), -3),
                          ("scalar", (), 0), ("hole", (0, 3), 1)):
    view("unsqueeze", label, (real(*shape), dim), np.expand_dims)
for label, shape in (("some", (1, 3, 1, 4)), ("none", (2, 3)), ("all", (1, 1)), ("scalar", ()), ("hole", (1, 0, 1))):
    view("squeeze", label, (real(*shape),), lambda x: x[...].squeeze())
for label, shape, dim in (("first", (1, 3), 0), ("negative", (3, 1), -1), ("not_one", (3, 4), 0), ("scalar", (), 0),
                          ("hole", (1, 0), 0)):
    view("squeeze_dim", label, (real(*shape), dim), lambda x, d: x.squeeze(d) if x.ndim and x.shape[d] == 1 else x[...])
for label, shape, args in (("main", (3, 4), ()), ("above", (3, 4), (1,)), ("below", (3, 4), (-1,)),
                           ("dims", (2, 3, 4), (0, 2, 1)), ("negative", (2, 3, 4), (0, -2, -1)),
                           ("outside", (3, 4), (9,))):
    def diagonal(x, offset=0, dim1=0, dim2=1):
        if offset >= x.shape[dim2]:  # NumPy has no empty diagonal of a whole matrix's stride
            return np.zeros(0)
        return np.diagonal(x, offset, dim1, dim2)
    view("diagonal", label, (real(*shape), *args), diagonal)
for label, shape in SHAPES.items():
    view("detach", label, (real(*shape),), lambda x: x, grad=False)
    view("alias", label, (real(*shape),), lambda x: x)
    copying("clone", label, (real(*shape),), np.copy, grad=is_small(shape))
    view("contiguous", label, (real(*shape),), lambda x: x, layouts=False)
    add("contiguous", "layout_" + label, (real(*shape),), np.copy, dtypes=ALL, grad=is_small(shape))

for label, shape, args in (("rows", (6, 2), (2,)), ("rest", (5, 2), (2,)), ("columns", (2, 5), (3, 1)),
                           ("negative", (2, 4), (2, -1)), ("whole", (3,), (9,)), ("nothing", (0, 2), (1,))):
    def split(x, size, dim=0):
        n = x.shape[dim]
        return [x.take(range(i, min(i + size, n)), axis=dim) for i in range(0, max(n, 1), size)]
    view("split", label, (real(*shape), *args), split)
    copying("unsafe_split", label, (real(*shape), *args), split, layouts=False)
for label, shape, args in (("rows", (6, 2), ((1, 2, 3),)), ("columns", (2, 5), ((2, 0, 3), 1)),
                           ("negative", (2, 4), ((4,), -1))):
    def split_sizes(x, sizes, dim=0):
        ends = np.cumsum(sizes)
        return [x.take(range(e - s, e), axis=dim) for s, e in zip(sizes, ends)]
    view("split_with_sizes", label, (real(*shape), *args), split_sizes)
for label, shape, args in (("even", (6, 2), (3,)), ("rest", (5, 2), (2,)), ("fewer", (5, 2), (4,)),
                           ("columns", (2, 5), (2, 1)), ("nothing", (0, 2), (2,))):
    def chunk(x, chunks, dim=0):
        if x.shape[dim] == 0:
            return [x] * chunks
        return split(x, -(-x.shape[dim] // chunks), dim)
    view("chunk", label, (real(*shape), *args), chunk)
    if label != "nothing":
        copying("unsafe_chunk", label, (real(*shape), *args), chunk, layouts=False, node="UnsafeSplitBackward0")
for label, shape, args in (("rows", (3, 2), ()), ("columns", (2, 3), (1,)), ("negative", (2, 3, 2), (-1,)),
                           ("vector", (3,), ()), ("hole", (2, 0), ())):
    view("unbind", label, (real(*shape), *args), lambda x, dim=0: [x.take(i, axis=dim) for i in range(x.shape[dim])])

for label, shape in SHAPES.items():
    copying("copy_", label, (np.zeros(shape), real(*shape)), lambda x, y: y.copy(), grad=[1] if is_small(shape) else False)
copying("copy_", "broadcast", (np.zeros((2, 3, 4)), real(3, 1)), lambda x, y: np.broadcast_to(y, x.shape), grad=[0, 1])
copying("copy_", "casts", (np.zeros((3, 4)), np.arange(12, dtype=np.int64).reshape(3, 4)), lambda x, y: y, grad=[0])
copying("copy_", "from_bool", (np.zeros((2, 2)), np.array([[True, False], [False, True]])), lambda x, y: y, grad=[0])
for letter in "bilfd":
    to = Dtype(letter)
    different = letter != "d"
    for label, shape in (("matrix", (3, 4)), ("scalar", ()), ("hole", (2, 0)), ("large", (37, 131))):
        grad = [0] if letter in "fd" and is_small(shape) else False
        loose = 1e-3 if letter == "f" else 1e-5  # a step of 1e-6 is lost in float32: see cast_gradient below
        same = dict(out=letter, dtypes="filb", grad=False, typed=True)
        copying("_to_copy", f"{to}_{label}", (real(*shape),), lambda x, dtype: x.astype(dtype.numpy), kwargs={"dtype": to},
                **same)
        copying("to_dtype", f"{to}_{label}", (real(*shape), to), lambda x, dtype: x.astype(dtype.numpy), **same)
copying("to_dtype", "same_is_itself", (real(3, 4), Dtype("d")), lambda x, dtype: x, view=True, dtypes="")
copying("to_dtype", "copy", (real(3, 4), Dtype("d"), False, True), lambda x, dtype, b, c: x, dtypes="",
        node="ToCopyBackward0")
copying("_to_copy", "same", (real(3, 4),), lambda x: x)
copying("to_device", "same_is_itself", (real(3, 4), SAME_DEVICE), lambda x, device: x, view=True, dtypes="", torch=False)
copying("to_device", "dtype", (real(3, 4), SAME_DEVICE, Dtype("f")), lambda x, device, dtype: x.astype(np.float32), out="f",
        dtypes="", grad=False, typed=True)
add("to_dtype", "cast_gradient", (real(3, 4) * 1024, Dtype("f")), lambda x, dtype: x.astype(np.float32), out="f", dtypes="",
    grad=False, typed=True)


def cat(tensors, dim=0):
    return np.concatenate([t for t in tensors if t.shape != (0,)] or tensors, axis=dim)


for label, shapes, args in (("rows", ((2, 3), (1, 3), (3, 3)), ()), ("columns", ((2, 3), (2, 1)), (1,)),
                            ("negative", ((2, 2, 2), (2, 2, 3)), (-1,)), ("one", ((2, 3),), ()),
                            ("hole", ((2, 3), (0, 3)), ()), ("legacy_empty", ((2, 3), (0,)), (1,)),
                            ("all_empty", ((0, 3), (0, 3)), ()), ("middle", ((2, 1, 2), (2, 2, 2)), (1,))):
    copying("cat", label, ([real(*s, seed=i) for i, s in enumerate(shapes)], *args), cat)
copying("cat", "large", ([real(37, 50), real(37, 81)], 1), cat, grad=False)
for label, n, shape, args in (("front", 2, (2, 3), ()), ("back", 3, (2, 3), (-1,)), ("middle", 2, (2, 3), (1,)),
                              ("scalars", 3, (), ()), ("one", 1, (3,), (1,)), ("hole", 2, (0, 2), ())):
    copying("stack", label, ([real(*shape, seed=i) for i in range(n)], *args), lambda ts, dim=0: np.stack(ts, dim))
for label, shape, times in (("rows", (2, 3), (2, 1)), ("both", (2, 3), (2, 3)), ("more_dims", (3,), (2, 2, 2)),
                            ("none", (2, 3), (0, 1)), ("scalar", (), (3,)), ("hole", (0, 2), (2, 2))):
    copying("repeat", label, (real(*shape), times), np.tile)
for label, shape, dims in (("rows", (3, 4), (0,)), ("both", (3, 4), (0, 1)), ("negative", (2, 3, 2), (-1,)),
                           ("none", (3,), ()), ("hole", (2, 0), (0,)), ("large", (37, 131), (1,))):
    copying("flip", label, (real(*shape), dims), np.flip, grad=is_small(shape))
for label, shape, args in (("flat", (3, 4), ((2,),)), ("rows", (3, 4), ((1,), (0,))), ("both", (3, 4), ((1, -2), (0, 1))),
                           ("far", (3, 4), ((-9,), (1,))), ("hole", (0, 3), ((1,), (0,)))):
    copying("roll", label, (real(*shape), *args), lambda x, shift, axis=None: np.roll(x, shift if axis else shift[0], axis))
copying("roll", "single_ints", (real(3, 4), 1, 0), np.roll, torch=False)
for op, f in (("tril", np.tril), ("triu", np.triu)):
    for label, shape, args in (("square", (4, 4), ()), ("wide", (2, 5), (1,)), ("tall", (5, 2), (-1,)),
                               ("batch", (2, 3, 3), ()), ("outside", (3, 3), (-7,)), ("hole", (0, 3), ()),
                               ("large", (37, 131), (3,))):
        copying(op, label, (real(*shape), *args), f, grad=is_small(shape))


def placed(shape, at, value):
    out = np.zeros(shape)
    out[at] = value
    return out


for label, shape, dim, index in (("row", (3, 4), 0, 1), ("column", (3, 4), 1, 2), ("negative", (3, 4), -1, -1),
                                 ("vector", (3,), 0, 2)):
    at = (slice(None),) * (dim % len(shape)) + (index,)
    copying("select_backward", label, (np.asarray(real(*np.zeros(shape)[at].shape)), shape, dim, index),
            lambda g, shape, dim, index, at=at: placed(shape, at, g), dtypes="f", node=False)
for label, shape, dim, start, end, step in (("rows", (5, 4), 0, 1, 3, 1), ("columns", (3, 6), 1, 0, 5, 2),
                                            ("end", (5,), -1, 2, 2**63 - 1, 1)):
    at = (slice(None),) * (dim % len(shape)) + (slice(start, end, step),)
    copying("slice_backward", label, (real(*np.zeros(shape)[at].shape), shape, dim, start, end, step),
            lambda g, shape, dim, a, b, c, at=at: placed(shape, at, g), dtypes="f", node=False)
for label, shape, offset, dim1, dim2 in (("main", (3, 4), 0, 0, 1), ("above", (3, 4), 1, 0, 1),
                                         ("dims", (2, 3, 4), -1, 2, 1)):
    def diagonal_back(g, shape, offset, dim1, dim2):
        out = np.zeros(shape)
        places = np.diagonal(np.arange(out.size).reshape(shape), offset, dim1, dim2)
        out.reshape(-1)[places.reshape(-1)] = g.reshape(-1)
        return out
    copying("diagonal_backward", label, (real(*np.diagonal(np.zeros(shape), offset, dim1, dim2).shape), shape, offset, dim1,
                                         dim2), diagonal_back, dtypes="f", node=False)

for label, shape, source, to in (("last", (2, 3, 4), (0,), (-1,)), ("first", (2, 3, 4), (2,), (0,)), ("two", (2, 3, 4), (0, 1), (1, 2)),
                                 ("negative", (2, 3, 4), (-1, 0), (0, 1)), ("same", (3, 4), (1,), (1,)), ("hole", (2, 0, 3), (0,), (2,)),
                                 ("none", (3, 4), (), ())):
    view("movedim", label, (real(*shape), source, to), np.moveaxis, node="PermuteBackward0")
view("movedim", "scalar", (real(), (0,), (0,)), lambda x, source, to: x, node=False)
view("type_as", "itself", (real(3, 4), real(2)), lambda x, y: x, node=False)
copying("type_as", "float", (real(3, 4), np.zeros((), dtype=np.float32)), lambda x, y: x.astype(np.float32), out="f", dtypes="",
        grad=False, typed=True)
copying("type_as", "integer", (real(3, 4), np.zeros(2, dtype=np.int64)), lambda x, y: x.astype(np.int64), out="l", grad=False)

PADS = {"last": ((3, 4), (1, 2)), "both": ((3, 4), (1, 0, 2, 1)), "cut": ((3, 4), (-1, -2)), "cut_and_add": ((3, 4), (-1, 2, 1, -1)),
        "nothing": ((3, 4), ()), "zero": ((3, 4), (0, 0)), "to_nothing": ((3, 4), (-2, -2)), "hole": ((2, 0), (1, 1)), "vector": ((3,), (2, 2)),
        "outer": ((2, 3, 2), (0, 0, 1, 1, 2, 0)), "large": ((37, 131), (3, 5, 2, 2))}


def padded(x, amounts, value):
    pairs = [(0, 0)] * (x.ndim - len(amounts) // 2) + list(zip(amounts[::2], amounts[1::2]))[::-1]
    cut = x[tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(pairs, x.shape))]
    return np.pad(cut, [(max(0, a), max(0, b)) for a, b in pairs], constant_values=value)


for label, (shape, amounts) in PADS.items():
    copying("constant_pad_nd", label, (real(*shape), amounts), lambda x, p: padded(x, p, 0), grad=is_small(shape) and [0])
    copying("pad", label, (real(*shape), amounts), lambda x, p: padded(x, p, 0), grad=is_small(shape) and [0],
            node="ConstantPadNdBackward0")
copying("constant_pad_nd", "value", (real(3, 4), (1, 1), 7), padded, dtypes="fil")
copying("pad", "value", (real(3, 4), (1, 1), "constant", -2.5), lambda x, p, mode, v: padded(x, p, v), dtypes="f",
        node="ConstantPadNdBackward0")
