"""CPU kernels that have several paths (vectors, tails, strides, blocks): all paths give the same numbers.

Expected values come from plain Python, so that the tests need neither PyTorch nor NumPy.
"""
import itertools
import math
import random

import pytest

import mindtorch_v2 as torch

LENGTHS = (0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 1000)


def numbers(n, low=-3.0, high=3.0, seed=0):
    draw = random.Random(seed)
    return [draw.uniform(low, high) for _ in range(n)]


# -------------------------------------------------------------------------------------------- float64 functions


def same_or_near(got, want, ulps):
    if math.isnan(want):
        return math.isnan(got)
    return got == want or abs(got - want) <= ulps * math.ulp(want)


def guarded(f):
    """What IEEE arithmetic gives where Python raises."""

    def call(x):
        try:
            return f(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return -math.inf if x == (0.0 if f is math.log else -1.0) else math.nan

    return call


FUNCTIONS = {
    "exp": (math.exp, (-746, 711)),
    "expm1": (math.expm1, (-50, 711)),
    "log": (math.log, (1e-310, 1e300)),
    "log1p": (math.log1p, (-0.999, 50)),
    "tanh": (math.tanh, (-25, 25)),
    "erf": (math.erf, (-7, 7)),
    "sin": (math.sin, (-3e6, 3e6)),
    "cos": (math.cos, (-3e6, 3e6)),
}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -1e-310, 1e-9, -1e-9, 0.5, 1.0, -1.0, 1e300, -1e300, 1048576.0, 1e22]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions_are_within_4_ulp_of_libm(name):
    f, (low, high) = FUNCTIONS[name]
    values = numbers(20000, low, high) + numbers(20000, max(low, -1.5), 1.5) + SPECIAL
    got = getattr(torch, name)(torch.tensor(values, dtype=torch.float64)).tolist()
    wrong = [(x, y, guarded(f)(x)) for x, y in zip(values, got) if not same_or_near(y, guarded(f)(x), 4)]
    assert wrong == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions_do_not_depend_on_length_or_strides(name):
    f = getattr(torch, name)
    low = 0.1 if name in ("log", "log1p") else -3.0
    whole = numbers(1000, low)
    want = f(torch.tensor(whole, dtype=torch.float64)).tolist()
    for n in LENGTHS:
        assert f(torch.tensor(whole[:n], dtype=torch.float64)).tolist() == pytest.approx(want[:n], rel=1e-15)
    strided = torch.tensor(whole, dtype=torch.float64)[::3]
    assert f(strided).tolist() == pytest.approx(want[::3], rel=1e-15)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_zeros_keep_their_sign(dtype):
    for name in ("expm1", "log1p", "tanh", "erf", "sin"):
        got = getattr(torch, name)(torch.tensor([0.0, -0.0], dtype=dtype)).tolist()
        assert [math.copysign(1, y) for y in got] == [1, -1], name


# --------------------------------------------------------------------------------------------------- reductions

DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS[1:])
def test_reductions_of_rows_of_any_length(n, dtype):
    rows = [[int(v * 8) for v in numbers(n, seed=r)] for r in range(5)]  # exact in every dtype
    x = torch.tensor(rows, dtype=dtype)
    for t in (x, torch.tensor(list(zip(*rows)), dtype=dtype).t(), torch.stack([x, x], 1)[:, 0]):
        assert t.sum(-1).tolist() == [sum(row) for row in rows]
        assert t.amax(-1).tolist() == [max(row) for row in rows]
        assert t.amin(-1).tolist() == [min(row) for row in rows]
        assert t.max(-1)[0].tolist() == [max(row) for row in rows]
        assert t.argmax(-1).tolist() == [row.index(max(row)) for row in rows]
        assert t.argmin(-1).tolist() == [row.index(min(row)) for row in rows]
        assert t.sum(0).tolist() == [sum(column) for column in zip(*rows)]
        assert t.sum().item() == sum(map(sum, rows))
        assert (t == max(rows[0])).any(-1).tolist() == [max(rows[0]) in row for row in rows]


@pytest.mark.parametrize("n", (1, 31, 32, 100, 257))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_nan_wins_wherever_it_is(n, dtype):
    for at in {0, n // 2, n - 1}:
        row = numbers(n)
        row[at] = math.nan
        row[n - 1 if at != n - 1 else 0] = math.inf if n > 1 else math.nan
        x = torch.tensor([row], dtype=dtype)
        for reduced in (x.amax(-1), x.amin(-1), x.max(-1)[0], x.min(-1)[0], x.sum(-1), x.logsumexp(-1)):
            assert math.isnan(reduced.item())
        assert x.argmax(-1).tolist() == x.argmin(-1).tolist() == [at]
        assert all(math.isnan(y) for y in x.softmax(-1)[0].tolist())


@pytest.mark.parametrize("n", LENGTHS[1:])
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_softmax_logsumexp_and_layer_norm_of_rows_of_any_length(n, dtype):
    row, near = numbers(n), 1e-5 if dtype == torch.float32 else 1e-12
    x = torch.tensor([row, [v - 1e4 for v in row]], dtype=dtype)
    exps = [math.exp(v) for v in row]
    want = [e / sum(exps) for e in exps]
    assert x.softmax(-1)[0].tolist() == pytest.approx(want, rel=near)
    assert x.softmax(-1)[1].tolist() == pytest.approx(want, rel=3e-3 if dtype == torch.float32 else 1e-10)
    assert x.log_softmax(-1)[0].tolist() == pytest.approx([math.log(w) for w in want], rel=near, abs=near)
    assert x.logsumexp(-1)[0].item() == pytest.approx(math.log(sum(exps)), rel=near, abs=near)
    mean = sum(row) / n
    std = math.sqrt(sum((v - mean) ** 2 for v in row) / n + 1e-5)
    got = torch.nn.functional.layer_norm(x, (n,))[0].tolist()
    assert got == pytest.approx([(v - mean) / std for v in row], rel=100 * near, abs=100 * near)


def test_logsumexp_of_infinities():
    inf = math.inf
    x = torch.tensor([[-inf, -inf], [inf, 0.0], [inf, -inf], [-inf, 2.0]])
    assert x.logsumexp(-1).tolist() == [-inf, inf, inf, 2.0]


def test_clamp_with_one_bound_crossed_bounds_and_nan():
    x = torch.tensor([-5.0, -0.5, 0.5, 5.0, math.nan, math.inf, -math.inf] * 5)
    for low, high in ((-1, 1), (-1, None), (None, 1), (2, -2), (-math.inf, math.inf)):
        for value, got in zip(x.tolist(), x.clamp(low, high).tolist()):
            want = value
            if low is not None and value < low:
                want = low
            if high is not None and want > high:
                want = high
            assert got == want or math.isnan(got) and math.isnan(value)
    for bounds in ((math.nan, 1), (-1, math.nan), (math.nan, None)):
        assert all(math.isnan(y) for y in x.clamp(*bounds).tolist())
    for dtype in (torch.int32, torch.int64):
        assert torch.tensor([-9, 0, 9], dtype=dtype).clamp(min=-1).tolist() == [-1, 0, 9]
        assert torch.tensor([-9, 0, 9], dtype=dtype).clamp(max=1).tolist() == [-9, 0, 1]


# ------------------------------------------------------------------------------------------------------- indices


@pytest.mark.parametrize("index_dtype", (torch.int32, torch.int64))
def test_gather_and_index_select_with_strides(index_dtype):
    table = [[10 * r + c for c in range(40)] for r in range(6)]
    index = [[(7 * r + 3 * c) % 40 for c in range(17)] for r in range(6)]
    want = [[table[r][i] for i in index[r]] for r in range(6)]
    for x in (torch.tensor(table), torch.tensor(list(zip(*table))).t()):
        for i in (torch.tensor(index), torch.tensor(list(zip(*index))).t()):
            assert x.gather(1, i).tolist() == want
        picks = torch.tensor(index[1], dtype=index_dtype)
        assert x.index_select(1, picks).tolist() == [[row[i] for i in index[1]] for row in table]
        assert x.index_select(0, picks % 6).tolist() == [table[i % 6] for i in index[1]]
        assert x.gather(0, torch.tensor([[5] * 40, [0] * 40])).tolist() == [table[5], table[0]]


def test_gather_refuses_indices_outside():
    x = torch.arange(12).view(3, 4)
    for bad in (-1, 4, -(2**63), 2**63 - 1):
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.gather(1, torch.tensor([[0] * 30 + [bad]]))
    with pytest.raises(RuntimeError):
        torch.zeros(3, 0).gather(1, torch.zeros(3, 1, dtype=torch.int64))


# ------------------------------------------------------------------------------------- copies, short rows, pools


@pytest.mark.parametrize("dtype", (*DTYPES, torch.bool))
@pytest.mark.parametrize("rows, columns", ((1, 1), (3, 5), (16, 16), (17, 33), (20, 64), (65, 19), (300, 3), (40, 0)))
def test_copies_keep_every_element(rows, columns, dtype):
    table = [[(r * columns + c) % (2 if dtype == torch.bool else 1000) for c in range(columns)] for r in range(rows)]
    x = torch.tensor(table, dtype=dtype).view(rows, columns)
    turned = [[row[c] for row in table] for c in range(columns)]
    assert x.t().contiguous().tolist() == turned
    wide = torch.cat([x, x, x], 1)
    assert wide.tolist() == [row * 3 for row in table]
    assert wide[:, columns : 2 * columns].clone().tolist() == table
    assert torch.stack([x, x], 1).tolist() == [[row, row] for row in table]
    assert torch.stack([x, x], 2).tolist() == [[[v, v] for v in row] for row in table]
    assert torch.stack([x, x]).transpose(0, 1).contiguous().tolist() == [[row, row] for row in table]
    deep = torch.stack([wide, wide]).view(2, rows, 3, columns).permute(2, 0, 1, 3).contiguous()
    assert deep.tolist() == [[table, table]] * 3


@pytest.mark.parametrize("columns", (1, 2, 3, 7, 63, 64, 65))
@pytest.mark.parametrize("rows", (1, 2, 8, 9, 171, 1000, 20000))
def test_short_rows_are_combined_with_a_shared_one(rows, columns):
    x, row = torch.arange(rows * columns).view(rows, columns), torch.arange(columns) * 7
    spread = row.expand(rows, columns).contiguous()
    assert bool((x + row == x + spread).all())
    assert bool((row - x == spread - x).all())
    assert bool(((x * 2.5) * row.double() == (x * 2.5) * spread.double()).all())
    column = torch.arange(0, 2 * columns, 2)[: columns].flip(0)
    assert bool((torch.where(x > row, x, column) == torch.where(x > spread, x, column.expand(rows, columns).contiguous())).all())
    half = torch.arange(2 * columns)[::2]
    y = x.clone()
    y += half
    assert bool((y == x + half.expand(rows, columns).contiguous()).all())


@pytest.mark.parametrize("size", ((1, 1), (5, 7), (14, 14), (9, 40)))
def test_adaptive_average_of_whole_rows(size):
    x = torch.tensor(numbers(6 * size[0] * size[1])).view(2, 3, *size)
    pool = torch.nn.functional.adaptive_avg_pool2d
    assert torch.allclose(pool(x, 1), x.mean((2, 3), keepdim=True), atol=1e-6)
    assert torch.allclose(pool(x, (size[0], 1)), x.mean(3, keepdim=True), atol=1e-6)


# --------------------------------------------------------------------------------- convolutions and attention


def convolved(x, w, stride, padding, dilation, groups):
    """conv2d of nested lists, by definition."""
    (n, channels, height, width), (outs, each, kh, kw) = x.shape, w.shape
    rows = (height + 2 * padding[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    columns = (width + 2 * padding[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    xs, ws, result = x.tolist(), w.tolist(), []
    for image in xs:
        for o in range(outs):
            first = o // (outs // groups) * each
            for y in range(rows):
                for z in range(columns):
                    total = 0.0
                    for c in range(each):
                        for ky in range(kh):
                            for kx in range(kw):
                                i = y * stride[0] + ky * dilation[0] - padding[0]
                                j = z * stride[1] + kx * dilation[1] - padding[1]
                                if 0 <= i < height and 0 <= j < width:
                                    total += image[first + c][i][j] * ws[o][c][ky][kx]
                    result.append(total)
    return torch.tensor(result, dtype=torch.float64).view(n, outs, rows, columns)


GEOMETRIES = {  # images, channels, height, width, outs, kernel, stride, padding, dilation, groups
    "plain": (2, 3, 7, 9, 10, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "depthwise": (2, 5, 8, 6, 5, (3, 3), (1, 1), (1, 1), (1, 1), 5),
    "depthwise_of_sevens": (2, 3, 7, 14, 3, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "depthwise_5x5": (2, 3, 9, 19, 3, (5, 5), (1, 1), (2, 0), (1, 1), 3),
    "depthwise_strided": (2, 3, 13, 37, 3, (3, 3), (2, 2), (1, 1), (1, 1), 3),
    "depthwise_5x5_strided": (1, 2, 14, 33, 2, (5, 5), (2, 2), (4, 3), (1, 1), 2),
    "depthwise_dilated": (1, 3, 8, 9, 3, (3, 3), (1, 1), (2, 2), (2, 2), 3),
    "vector_of_channels": (1, 16, 3, 29, 17, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "vectors_of_channels": (1, 32, 3, 6, 64, (3, 1), (1, 1), (1, 0), (1, 1), 1),
    "channels_strided": (2, 17, 9, 13, 32, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "bands_of_rows": (1, 5, 26, 14, 32, (3, 3), (2, 1), (2, 1), (1, 1), 1),
    "channels_in_groups": (1, 64, 2, 3, 64, (2, 3), (1, 1), (0, 1), (1, 1), 4),
    "two_per_channel": (1, 4, 6, 6, 8, (3, 3), (2, 2), (1, 1), (1, 1), 4),
    "strided": (1, 2, 11, 13, 9, (3, 5), (2, 3), (1, 2), (1, 1), 1),
    "stride_over_kernel": (1, 2, 9, 9, 3, (2, 1), (3, 4), (0, 0), (1, 1), 1),
    "point_strided": (1, 9, 7, 7, 4, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "dilated": (1, 2, 12, 10, 3, (3, 2), (1, 2), (2, 1), (2, 3), 1),
    "wide_padding": (1, 1, 2, 3, 2, (3, 3), (1, 1), (4, 3), (1, 1), 1),
    "groups": (2, 6, 5, 5, 9, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "narrow_image": (1, 9, 30, 2, 9, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "tall_kernel": (1, 2, 20, 3, 2, (7, 1), (1, 1), (3, 0), (1, 1), 1),
    "unread_inputs": (1, 1, 10, 10, 1, (2, 2), (5, 5), (0, 0), (1, 1), 1),
}


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("threads", (1, 2))
def test_convolutions_of_any_geometry_and_their_gradients(name, threads):
    n, channels, height, width, outs, kernel, stride, padding, dilation, groups = GEOMETRIES[name]
    x = torch.tensor(numbers(n * channels * height * width)).view(n, channels, height, width)
    w = torch.tensor(numbers(outs * (channels // groups) * kernel[0] * kernel[1], seed=1)).view(outs, channels // groups, *kernel)
    b = torch.tensor(numbers(outs, seed=2))
    want = convolved(x, w, stride, padding, dilation, groups) + b.double().view(-1, 1, 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        results = []
        for dtype in (torch.float32, torch.float64):
            leaves = [t.clone().to(dtype).requires_grad_(True) for t in (x, w, b)]
            y = torch.nn.functional.conv2d(*leaves, stride, padding, dilation, groups)
            assert torch.allclose(y.double(), want, atol=1e-4)
            y.backward(torch.tensor(numbers(y.numel(), seed=3), dtype=dtype).view(*y.shape))
            results.append([leaf.grad.double() for leaf in leaves])
    finally:
        torch.set_num_threads(before)
    for single, double in zip(*results):  # float64 takes another path
        assert torch.allclose(single, double, atol=2e-4)


@pytest.mark.parametrize("channels, groups", ((9, 1), (32, 1), (9, 9)))
@pytest.mark.parametrize("bad", (math.inf, math.nan))
def test_an_infinity_spreads_no_further_than_its_products(bad, channels, groups):
    results = []
    for dtype in (torch.float32, torch.float64):
        x = torch.ones(1, channels, 6, 6, dtype=dtype)
        w = torch.ones(channels, channels // groups, 3, 3, dtype=dtype)
        x[0, 2, 0, 0] = x[0, 5, 3, 5] = bad
        w[3, 4 % w.shape[1], 0, 0] = bad
        x.requires_grad_(True)
        w.requires_grad_(True)
        y = torch.nn.functional.conv2d(x, w, padding=1, groups=groups)
        y.backward(torch.ones_like(y))
        results.append([t.detach().isfinite().tolist() for t in (y, x.grad, w.grad)])
    exact = convolved(x.detach(), w.detach(), (1, 1), (1, 1), (1, 1), groups).isfinite().tolist()
    if results[0][0] == exact:  # the zeros beside the image need not be multiplied
        results[1][0] = exact
    assert results[0] == results[1]


@pytest.mark.parametrize("queries, keys", ((512, 512), (700, 700), (513, 600), (600, 512)))
def test_causal_attention_by_blocks_is_attention_with_a_mask(queries, keys):
    results = []
    mask = torch.ones(queries, keys, dtype=torch.bool).tril()
    for options in ({"is_causal": True}, {"attn_mask": mask}):
        q, k, v = (torch.tensor(numbers(2 * n * 8, seed=n)).view(2, n, 8).requires_grad_(True) for n in (queries, keys, keys))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        y.backward(torch.tensor(numbers(y.numel(), seed=5)).view(*y.shape))
        results.append([y.detach(), q.grad, k.grad, v.grad])
    for blocks, masked in zip(*results):
        assert torch.allclose(blocks, masked, atol=1e-4)


# ------------------------------------------------------------------------------ sorting, running sums, nonzero


@pytest.mark.parametrize("dtype", (*DTYPES, torch.bool))
@pytest.mark.parametrize("n", (1, 2, 16, 17, 47, 48, 49, 300, 1000))
@pytest.mark.parametrize("descending", (False, True))
def test_sort_is_stable_and_puts_nan_last(n, dtype, descending):
    draw = random.Random(n)
    rows = [[draw.choice((0, 1)) if dtype == torch.bool else draw.randint(-40, 40) for _ in range(n)] for _ in range(3)]
    if dtype.is_floating_point:
        rows[1] = [draw.choice((math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -3.5, v)) for v in rows[1]]
    if dtype == torch.int32:
        rows[1][0], rows[1][-1] = -(2**31), 2**31 - 1
    x = torch.tensor(rows, dtype=dtype)
    for t in (x, torch.tensor(list(zip(*rows)), dtype=dtype).t()):
        values, indices = t.sort(-1, descending=descending)
        for row, got, at in zip(rows, values.tolist(), indices.tolist()):
            rank = (lambda i: (math.inf, 1) if math.isnan(row[i]) else (row[i], 0))
            want = sorted(range(n), key=rank)
            if descending:
                order = sorted({rank(i) for i in range(n)}, reverse=True)
                want = [i for key in order for i in range(n) if rank(i) == key]
            assert at == want
            assert [math.copysign(1, v) for v in got] == [math.copysign(1, v) for v in t[rows.index(row)][torch.tensor(want)].tolist()]
    assert x.t().sort(0, descending=descending)[1].t().tolist() == x.sort(-1, descending=descending)[1].tolist()


@pytest.mark.parametrize("n, k", ((5, 5), (40, 1), (64, 7), (1000, 32), (1000, 33), (4099, 10)))
@pytest.mark.parametrize("largest", (False, True))
def test_topk_takes_the_first_of_a_sort(n, k, largest):
    for dtype in (torch.float32, torch.float64, torch.int64):
        x = torch.tensor([[int(100 * v) for v in numbers(n, seed=r)] for r in range(4)], dtype=dtype)
        if dtype.is_floating_point:
            x[1, n // 2] = math.nan
            x[2, 0] = math.inf
        values, _ = x.topk(k, -1, largest=largest)
        want = x.sort(-1, descending=largest)[0][:, :k]
        assert [[repr(v) for v in row] for row in values.tolist()] == [[repr(v) for v in row] for row in want.tolist()]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ((1, 1), (3, 7), (4, 9), (9, 65), (130, 3), (2, 0), (5, 200)))
def test_running_sums_along_both_dims(shape, dtype):
    rows = [[(7 * r + 3 * c) % 11 - 5 for c in range(shape[1])] for r in range(shape[0])]
    x = torch.tensor(rows, dtype=dtype).view(*shape)
    assert x.cumsum(1).tolist() == [[sum(row[: c + 1]) for c in range(shape[1])] for row in rows]
    assert x.cumsum(0).tolist() == [[sum(row[c] for row in rows[: r + 1]) for c in range(shape[1])] for r in range(shape[0])]
    assert torch.stack([x, x]).cumsum(1).tolist() == [x.cumsum(0).tolist()] * 2


@pytest.mark.parametrize("dtype", (*DTYPES, torch.bool))
def test_nonzero_lists_what_is_there(dtype):
    for shape in ((0,), (1,), (100,), (7, 9), (3, 0, 2), (2, 3, 5), (1, 1, 1)):
        count = math.prod(shape)
        for values in ([0] * count, [1] * count, [i % 3 == 0 for i in range(count)], [i == count - 1 for i in range(count)]):
            x = torch.tensor([int(v) for v in values], dtype=dtype).view(*shape)
            want = []
            for at in (i for i, v in enumerate(values) if v):
                place = []
                for d in reversed(shape):
                    place.insert(0, at % d)
                    at //= d
                want.append(place)
            assert x.nonzero().tolist() == want and tuple(x.nonzero().shape) == (len(want), len(shape))
    assert tuple(torch.tensor(3, dtype=dtype).nonzero().shape) == (1, 0)


# -------------------------------------------------------------------------------------------------------- pools


def pooled(plane, kernel, stride, padding, dilation, take):
    """take() of the values of each window and their places."""
    height, width = len(plane), len(plane[0])
    rows = (height + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    columns = (width + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    result = []
    for y in range(rows):
        for x in range(columns):
            window = []
            for ky in range(kernel):
                for kx in range(kernel):
                    i, j = y * stride - padding + ky * dilation, x * stride - padding + kx * dilation
                    if 0 <= i < height and 0 <= j < width:
                        window.append((plane[i][j], i * width + j))
            result.append(take(window))
    return result


def largest(window):
    best = (-math.inf, window[0][1])
    for value, place in window:
        if value > best[0] or math.isnan(value):
            best = (value, place)
    return best


@pytest.mark.parametrize("kernel, stride, padding, dilation", ((2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 3, 1, 1), (3, 1, 1, 2), (5, 4, 2, 1), (4, 20, 2, 1)))
@pytest.mark.parametrize("size", ((7, 9), (12, 37), (30, 5), (9, 70), (41, 341)))
def test_pools_of_any_geometry(size, kernel, stride, padding, dilation):
    values = numbers(size[0] * size[1])
    values[3], values[len(values) // 2], values[-1] = math.nan, -math.inf, math.inf
    plane = [values[r * size[1] : (r + 1) * size[1]] for r in range(size[0])]
    function = torch.nn.functional
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([plane, [[-math.inf] * size[1]] * size[0]], dtype=dtype).unsqueeze(0)
        y, places = function.max_pool2d(x, kernel, stride, padding, dilation, return_indices=True)
        for c in range(2):
            want = pooled(x[0, c].tolist(), kernel, stride, padding, dilation, largest)
            assert places[0, c].flatten().tolist() == [place for _, place in want]
            assert repr(y[0, c].flatten().tolist()) == repr([value for value, _ in want])
        threads = torch.get_num_threads()
        torch.set_num_threads(3)  # of several planes, each part writes its own rows
        many = function.max_pool2d(x.expand(40, 2, *size), kernel, stride, padding, dilation, return_indices=True)
        torch.set_num_threads(threads)
        assert all(bool((many[1][i] == places[0]).all()) and repr(many[0][i].tolist()) == repr(y[0].tolist()) for i in range(40))
        if dilation == 1:
            whole = torch.tensor([[[[int(8 * v) if math.isfinite(v) else 0 for v in row] for row in plane]]], dtype=dtype)
            want = pooled(whole[0, 0].tolist(), kernel, stride, padding, 1, lambda window: sum(v for v, _ in window) / len(window))
            got = function.avg_pool2d(whole, kernel, stride, padding, count_include_pad=False).flatten().tolist()
            assert got == pytest.approx(want, rel=1e-6)


def check_average(x, pool, windows):
    """Values and gradients of an average pool; windows: of each output, its rows and columns, and its divisor."""
    x = x.clone().requires_grad_(True)
    y = pool(x)
    plane, want = x[0, 0].tolist(), [0.0] * x[0, 0].numel()
    grads = numbers(y[0, 0].numel(), seed=5)
    y.backward(torch.tensor(grads, dtype=x.dtype).view(1, 1, *y.shape[2:]).expand(y.shape).contiguous())
    assert len(windows) == len(grads)
    for value, grad, (rows, columns, divisor) in zip(y[0, 0].flatten().tolist(), grads, windows):
        assert value == pytest.approx(sum(plane[i][j] for i in rows for j in columns) / divisor, rel=1e-4, abs=1e-5)
        for i in rows:
            for j in columns:
                want[i * x.shape[3] + j] += grad / divisor
    for c in range(x.shape[1]):
        assert x.grad[0, c].flatten().tolist() == pytest.approx(want, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("size", ((6, 8), (9, 70), (5, 1100), (2, 3)))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_average_pools_and_their_gradients(size, dtype):
    height, width = size
    x = torch.tensor(numbers(height * width), dtype=dtype).view(1, 1, height, width).expand(1, 3, height, width).contiguous()
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 1)):
        if height + 2 * padding < kernel:
            continue
        windows = []
        for y in range((height + 2 * padding - kernel) // stride + 1):
            for k in range((width + 2 * padding - kernel) // stride + 1):
                rows = range(max(0, y * stride - padding), min(height, y * stride - padding + kernel))
                columns = range(max(0, k * stride - padding), min(width, k * stride - padding + kernel))
                windows.append((rows, columns, kernel * kernel))
        check_average(x, lambda x: torch.nn.functional.avg_pool2d(x, kernel, stride, padding), windows)
    for out in ((1, 1), (2, 2), (3, 7), (1, 900), (height, 1)):  # windows of all widths; some overlap, some are repeated
        windows = []
        for y in range(out[0]):
            for k in range(out[1]):
                rows = range(y * height // out[0], -(-(y + 1) * height // out[0]))
                columns = range(k * width // out[1], -(-(k + 1) * width // out[1]))
                windows.append((rows, columns, len(rows) * len(columns)))
        check_average(x, lambda x: torch.nn.functional.adaptive_avg_pool2d(x, out), windows)


# ------------------------------------------------------------------------------------------------ mixed layouts


@pytest.mark.parametrize("rows, columns", ((64, 64), (130, 131), (33, 700), (700, 33), (200, 100)))
@pytest.mark.parametrize("threads", (1, 2))
def test_operands_of_different_layouts(rows, columns, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, y = torch.arange(rows * columns).view(rows, columns), torch.arange(rows * columns).view(columns, rows) * 3
        straight = y.t().contiguous()
        assert bool((x + y.t() == x + straight).all()) and bool((y.t() - x == straight - x).all())
        assert bool((x.float() * y.t() == x.float() * straight).all())  # cast on the way
        assert bool(((y.t() > x) == (straight > x)).all())
        assert bool((torch.where(y.t() > x, x, y.t()) == torch.where(straight > x, x, straight)).all())
        z = x.clone()
        z += y.t()
        assert bool((z == x + straight).all())
        part = x[:, : columns // 2] + y[: columns // 2].t()
        assert bool((part == x[:, : columns // 2].contiguous() + straight[:, : columns // 2].contiguous()).all())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("shape", ((2, 90001, 3), (3, 70000, 5), (1, 2100, 130), (2, 600, 513), (1, 33000, 16), (1, 500, 2000)))
@pytest.mark.parametrize("threads", (1, 2, 3))
def test_reductions_of_tall_matrices(shape, threads):
    """Few columns: rows are joined and reduced in pieces. Integers show each element that is lost or taken twice."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        outer, rows, columns = shape
        places = torch.arange(outer * rows * columns)
        whole = (places * 7919 % 1013 - 500).view(shape)
        turned = whole.transpose(1, 2).contiguous()  # its rows are our columns
        for dtype in (torch.int64, torch.int32, torch.float32, torch.float64):
            x, y = whole.to(dtype), turned.to(dtype)
            assert bool((x.sum(1) == y.sum(2)).all()) and bool((x.amax(1) == y.amax(2)).all()) and bool((x.amin(1) == y.amin(2)).all())
            flat = x.reshape(outer * rows, columns)
            assert bool((flat.sum(0) == y.sum(2).sum(0)).all()) and bool((x.sum((0, 1)) == flat.sum(0)).all())
            assert bool(((flat > 510).any(0) == (y > 510).any(2).any(0)).all())
            gaps = torch.zeros(outer * rows, columns + 1, dtype=dtype)
            gaps[:, 1:] = flat
            assert bool((gaps[:, 1:].sum(0) == flat.sum(0)).all())
        x = whole.float().view(outer * rows, columns)
        x[rows // 2, columns - 1] = math.nan
        assert [math.isnan(v) for v in x.amax(0).tolist()] == [False] * (columns - 1) + [True]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("shape", ((6, 37, 5, 64), (2, 20, 16, 33), (9, 4, 130, 17), (3, 64, 1, 90), (40, 3, 41, 16)))
@pytest.mark.parametrize("dtype", (torch.bool, torch.int32, torch.float64))
@pytest.mark.parametrize("threads", (1, 2, 3))
def test_copies_and_sums_of_permuted_tensors(shape, dtype, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        numel = math.prod(shape)
        x = (torch.arange(numel) % 251 % 2 if dtype is torch.bool else torch.arange(numel)).to(dtype).view(shape)
        for order in itertools.permutations(range(4)):
            y = x.permute(order)
            places = sum(  # the sum of index * stride: no copy is involved
                torch.arange(n).view([-1 if i == k else 1 for i in range(4)]) * s for k, (n, s) in enumerate(zip(y.shape, y.stride()))
            )
            want = (places % 251 % 2 if dtype is torch.bool else places).to(dtype)
            copy = y.contiguous()
            assert copy.is_contiguous() and bool((copy == want).all())
            assert bool((torch.cat((y, y), 1)[:, y.shape[1] :] == want).all())
            part = torch.zeros(*y.shape[:3], y.shape[3] + 3, dtype=dtype)  # rows with gaps
            part[..., 1:-2] = y
            assert bool((part[..., 1:-2] == want).all()) and not bool(part[..., 0].any()) and not bool(part[..., -2:].any())
            if dtype is not torch.bool:
                assert bool((want * 2 == want + y).all()) and bool((y - want == 0).all())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_is_spread_over_parts_of_a_tensor(dtype):
    ones = [torch.tensor(v, dtype=dtype).expand(5, 3) for v in (1, 2, 3)]
    for dim in (0, 1, 2):
        want = torch.stack([one.contiguous() for one in ones], dim)
        assert torch.stack(ones, dim).tolist() == want.tolist()
    assert torch.cat(ones, 1).tolist() == [[1] * 3 + [2] * 3 + [3] * 3] * 5
    x = torch.zeros(6, 8, dtype=dtype)
    x[::2, 1::3] = ones[1][:3, :3]
    assert x.tolist() == [[2 * (r % 2 == 0 and c % 3 == 1) for c in range(8)] for r in range(6)]


@pytest.mark.parametrize("step", [1, 2])
def test_dot_of_many_elements_is_accurate(step):
    """The error grew with the length: 0.3 % of three million elements."""
    n = 3_000_000
    x = torch.full((n * step,), 1.1)[::step]
    want = n * float(x[0]) ** 2
    assert abs(torch.dot(x, x).item() - want) < 1e-6 * want
    for n in (1023, 1024, 1025, 2049):
        assert torch.dot(torch.arange(n * step)[::step], torch.ones(n, dtype=torch.int64)).item() == sum(range(0, n * step, step))
