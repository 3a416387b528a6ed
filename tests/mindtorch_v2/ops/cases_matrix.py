"""Products."""
import numpy as np

from .case import add, mask, real

SUMS = dict(rtol=1e-9, rtol32=1e-4)


def data(shape, seed=0):
    return real(*shape, seed=seed)


def products(op, want, pairs, **options):
    for label, a, b in pairs:
        big = max(np.prod(a), np.prod(b)) > 200
        own = {"torch_node": label != "vector_matrix"}  # which PyTorch squeezes in place
        add(op, label, (data(a), data(b, 1)), want, grad=not big, **(SUMS | own | options))


MATRICES = (("plain", (3, 4), (4, 2)), ("row", (1, 4), (4, 1)), ("outer", (3, 1), (1, 2)), ("no_inner", (3, 0), (0, 2)),
            ("no_rows", (0, 4), (4, 2)), ("no_columns", (3, 4), (4, 0)),
            ("large", (33, 47), (47, 29)))
products("mm", np.matmul, MATRICES, dtypes="fil")
BATCHES = (("plain", (2, 3, 4), (2, 4, 2)), ("one", (1, 3, 4), (1, 4, 2)), ("no_batch", (0, 3, 4), (0, 4, 2)),
           ("no_inner", (2, 3, 0), (2, 0, 2)), ("large", (5, 17, 23), (5, 23, 11)))
products("bmm", np.matmul, BATCHES, dtypes="fil")
products("matmul", np.matmul, MATRICES + (("vectors", (4,), (4,)), ("matrix_vector", (3, 4), (4,)),
                                          ("vector_matrix", (4,), (4, 3)), ("batch", (2, 3, 4), (2, 4, 2)),
                                          ("folded", (2, 3, 4), (4, 2)),
                                          ("batch_vector", (2, 3, 4), (4,)), ("vector_batch", (3,), (2, 3, 4)),
                                          ("broadcast", (2, 1, 3, 4), (3, 4, 2)), ("left_folded", (3, 4), (2, 4, 2)),
                                          ("rank4", (2, 2, 3, 4), (2, 2, 4, 3)), ("empty_batch", (0, 3, 4), (4, 2))))
products("mv", np.matmul, (("plain", (3, 4), (4,)), ("no_inner", (3, 0), (0,)), ("no_rows", (0, 4), (4,)),
                           ("large", (33, 147), (147,))), dtypes="fil")
products("dot", np.dot, (("plain", (4,), (4,)), ("empty", (0,), (0,)), ("large", (5003,), (5003,))), dtypes="fil")
for op in ("outer", "ger"):
    products(op, np.outer, (("plain", (3,), (4,)), ("empty", (0,), (4,)), ("large", (50,), (60,))), dtypes="fil",
             node="MulBackward0")


def added(self, a, b, beta=1, alpha=1):
    return (beta * self if beta != 0 else 0) + alpha * np.matmul(a, b)


for op, pairs in (("addmm", MATRICES), ("baddbmm", BATCHES)):
    for label, a, b in pairs:
        shape = (*a[:-1], b[-1])
        big = label == "large"
        add(op, label, (data(shape, 2), data(a), data(b, 1)), added, grad=not big, dtypes="fil", **SUMS)
    a, b = (pairs[0][1], pairs[0][2])
    for label, shape in (("bias", b[-1:]), ("zero_dim", ()), ("column", (a[-2], 1))):
        add(op, "broadcast_" + label, (data(shape, 2), data(a), data(b, 1)), added, **SUMS)
    for beta, alpha in ((0.5, -2), (0, 1), (1, 0), (2, 3)):
        add(op, f"beta_{beta}_alpha_{alpha}".replace(".", "_").replace("-", "minus_"),
            (data((*a[:-1], b[-1]), 2), data(a), data(b, 1)), added, kwargs={"beta": beta, "alpha": alpha}, **SUMS)
    add(op, "beta_zero_forgets_nan", (np.full((*a[:-1], b[-1]), np.nan), data(a), data(b, 1)), added, kwargs={"beta": 0},
        grad=False, **SUMS)


def linear(x, w, b=None):
    y = np.matmul(x, w.T)
    return y if b is None else y + b


for label, x, w in (("matrix", (3, 4), (2, 4)), ("vector", (4,), (2, 4)), ("rank3", (2, 3, 4), (5, 4)),
                    ("rank4", (2, 2, 3, 4), (3, 4)), ("no_rows", (0, 4), (2, 4)), ("no_inner", (3, 0), (2, 0)),
                    ("large", (33, 47), (29, 47))):
    big = label == "large"
    add("linear", label, (data(x), data(w, 1), real(w[0], seed=2)), linear, grad=not big, **SUMS)
    add("linear", label + "_no_bias", (data(x), data(w, 1)), linear, grad=not big, torch_node=label != "vector", **SUMS)


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-1e300))
    return e / np.sum(e, axis=axis, keepdims=True)


def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], dtype=bool)), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return np.matmul(softmax(scores), v)


Q, K, W = real(2, 2, 3, 4), real(2, 2, 3, 4, seed=1), real(2, 2, 3, 4, seed=2)
ATTENTION = dict(node=False, **SUMS)
seen = mask(3, 3) | np.eye(3, dtype=bool)
add("scaled_dot_product_attention", "plain", (Q, K, W), attention, **ATTENTION)
add("scaled_dot_product_attention", "causal", (Q, K, W, None, 0.0, True), attention, **ATTENTION)
add("scaled_dot_product_attention", "mask", (Q, K, W, seen), attention, **ATTENTION)
add("scaled_dot_product_attention", "bias", (Q, K, W, real(3, 3, seed=3)), attention, grad=[0, 1, 2], **ATTENTION)
add("scaled_dot_product_attention", "scale", (Q, K, W), attention, kwargs={"scale": 0.3}, **ATTENTION)
add("scaled_dot_product_attention", "rank3", (Q[0], K[0], W[0]), attention, **ATTENTION)
add("scaled_dot_product_attention", "longer_keys", (Q, real(2, 2, 5, 4, seed=1), real(2, 2, 5, 3, seed=2)), attention,
    **ATTENTION)

EINSUMS = {"product": ("ij,jk->ik", (2, 3), (3, 4)), "turned": ("ij,jk->ki", (2, 3), (3, 4)), "batch": ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
           "transpose": ("ij->ji", (2, 3)), "diagonal": ("ii->i", (3, 3)), "trace": ("ii", (3, 3)), "sum": ("ij->", (2, 3)),
           "rows": ("ij->i", (2, 3)), "outer": ("i,j->ij", (2,), (3,)), "dot": ("i,i->", (3,), (3,)), "scale": ("i,ij->ij", (2,), (2, 3)),
           "attention": ("bhqd,bhkd->bhqk", (2, 2, 3, 2), (2, 2, 3, 2)), "three": ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)),
           "form": ("i,ij,j->", (2,), (2, 3), (3,)), "dots": ("...ij,...jk->...ik", (2, 2, 3), (3, 2)), "dots_summed": ("...i->i", (2, 3)),
           "dots_implied": ("...ij,j", (2, 2, 3), (3,)), "implied": ("bA,Ac", (2, 3), (3, 2)), "alone": ("ij,k->i", (2, 3), (4,)),
           "diagonals": ("iij,jkk->ik", (2, 2, 3), (3, 2, 2)), "spaces": (" i j , j k -> i k", (2, 3), (3, 2)), "scalars": (",->", (), ()),
           "size_1": ("ij,jk->ik", (2, 1), (3, 2)), "hole": ("ij,jk->ik", (2, 0), (0, 3)), "element_by_element": ("ij,ij->ij", (2, 3), (2, 3)),
           "kept_by_a_later_one": ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)), "large": ("ij,kj->ik", (33, 47), (29, 47)),
           "nine_letters": ("abcd,cdef,efghi->abghi", (1, 2, 1, 2), (1, 2, 1, 2), (1, 2, 2, 1, 2))}


def einsum(equation, xs):
    xs = [np.asarray(x) for x in xs]
    if equation == "...i->i":
        return xs[0].sum(0)
    if equation == "ij,jk->ik" and xs[0].shape[1] != xs[1].shape[0]:
        xs[0] = np.broadcast_to(xs[0], (2, 3))
    return np.einsum(equation, *xs)


for label, (equation, *shapes) in EINSUMS.items():
    small = label != "large"
    add("einsum", label, (equation, [real(*shape, seed=i) for i, shape in enumerate(shapes)]), einsum, grad=[1] if small else False,
        node=False, dtypes="fil" if label in ("product", "batch", "transpose", "outer") else "f", grad_rtol=1e-4)
