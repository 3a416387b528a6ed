/* Row kernels: one work-group of GROUP work-items per row. Element k of row r is at (r / inner) * n * inner +
 * r % inner + k * inner. */
#if !defined(ROWS_ONCE)
#define ROWS_ONCE

/* the sum of one value per work-item, returned to all of them */
#define GROUP_FOLD(x, room, FOLD) GROUP_FOLD_OF(T, x, room, FOLD)
#define GROUP_FOLD_OF(type, x, room, FOLD)                                                                   \
    {                                                                                                        \
        uint me = get_local_id(0);                                                                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        room[me] = x;                                                                                        \
        for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {                                                \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            if (me < half_) {                                                                                \
                type a = room[me], b = room[me + half_];                                                     \
                room[me] = FOLD;                                                                             \
            }                                                                                                \
        }                                                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        x = room[0];                                                                                         \
    }
#define ROW_BEGIN                                                                                            \
    __local T room[GROUP];                                                                                   \
    const long row = get_group_id(0);                                                                        \
    const long base = row / inner * n * inner + row % inner;
#endif

#if defined(NEED_softmax)
__kernel void NAME(long n, long inner, __global const T *x, long x_at, __global T *y, long y_at)
{
    ROW_BEGIN
    x += x_at + base;
    y += y_at + base;
    T m = -INFINITY, s = 0;
    for (long k = get_local_id(0); k < n; k += GROUP)
        m = fmax(m, x[k * inner]);
    GROUP_FOLD(m, room, fmax(a, b))
    for (long k = get_local_id(0); k < n; k += GROUP)
        s += exp(x[k * inner] - m);
    GROUP_FOLD(s, room, a + b)
#if LOGS
    T shift = log(s);
    for (long k = get_local_id(0); k < n; k += GROUP)
        y[k * inner] = x[k * inner] - m - shift;
#else
    T scale = 1 / s;
    for (long k = get_local_id(0); k < n; k += GROUP)
        y[k * inner] = exp(x[k * inner] - m) * scale;
#endif
}
#endif

#if defined(NEED_softmax_backward)
__kernel void NAME(long n, long inner, __global const T *g, long g_at, __global const T *y, long y_at, __global T *o,
                   long o_at)
{
    ROW_BEGIN
    g += g_at + base;
    y += y_at + base;
    o += o_at + base;
    T s = 0;
#if LOGS
    for (long k = get_local_id(0); k < n; k += GROUP)
        s += g[k * inner];
    GROUP_FOLD(s, room, a + b)
    for (long k = get_local_id(0); k < n; k += GROUP)
        o[k * inner] = g[k * inner] - exp(y[k * inner]) * s;
#else
    for (long k = get_local_id(0); k < n; k += GROUP)
        s += g[k * inner] * y[k * inner];
    GROUP_FOLD(s, room, a + b)
    for (long k = get_local_id(0); k < n; k += GROUP)
        o[k * inner] = y[k * inner] * (g[k * inner] - s);
#endif
}
#endif

#if defined(NEED_logsumexp)
__kernel void NAME(long n, long inner, __global const T *x, long x_at, __global T *y, long y_at)
{
    ROW_BEGIN
    x += x_at + base;
    T m = -INFINITY, s = 0;
    for (long k = get_local_id(0); k < n; k += GROUP)
        m = fmax(m, x[k * inner]);
    GROUP_FOLD(m, room, fmax(a, b))
    T from = isinf(m) ? (T)0 : m;
    for (long k = get_local_id(0); k < n; k += GROUP)
        s += exp(x[k * inner] - from);
    GROUP_FOLD(s, room, a + b)
    if (get_local_id(0) == 0)
        y[y_at + row] = log(s) + from;
}
#endif

#if defined(NEED_layer_norm)
__kernel void NAME(long n, T eps, int has_weight, int has_bias, __global const T *x, long x_at, __global const T *w, long w_at, __global const T *b_,
                   long b_at, __global T *y, long y_at, __global T *mean, long mean_at, __global T *rstd, long rstd_at)
{
    const long inner = 1;
    ROW_BEGIN
    x += x_at + base;
    y += y_at + base;
    T s = 0;
    for (long k = get_local_id(0); k < n; k += GROUP)
        s += x[k];
    GROUP_FOLD(s, room, a + b)
    T m = s / n;
    s = 0;
    for (long k = get_local_id(0); k < n; k += GROUP)
        s += (x[k] - m) * (x[k] - m);
    GROUP_FOLD(s, room, a + b)
    T r = 1 / sqrt(s / n + eps);
    if (isinf(s)) { // the squares overflow: relative to the largest element
        T most = 0;
        for (long k = get_local_id(0); k < n; k += GROUP)
            most = fmax(most, fabs(x[k] - m));
        GROUP_FOLD(most, room, fmax(a, b))
        s = 0;
        for (long k = get_local_id(0); k < n; k += GROUP)
            s += (x[k] - m) / most * ((x[k] - m) / most);
        GROUP_FOLD(s, room, a + b)
        r = 1 / (most * sqrt(s / n));
    }
    for (long k = get_local_id(0); k < n; k += GROUP) {
        T v = (x[k] - m) * r;
        v = has_weight ? v * w[w_at + k] : v;
        y[k] = has_bias ? v + b_[b_at + k] : v;
    }
    if (get_local_id(0) == 0) {
        mean[mean_at + row] = m;
        rstd[rstd_at + row] = r;
    }
}
#endif

#if defined(NEED_layer_norm_backward)
__kernel void NAME(long n, int has_weight, __global const T *g, long g_at, __global const T *x, long x_at,
                   __global const T *mean, long mean_at, __global const T *rstd, long rstd_at, __global const T *w, long w_at, __global T *o,
                   long o_at)
{
    const long inner = 1;
    ROW_BEGIN
    g += g_at + base;
    x += x_at + base;
    o += o_at + base;
#define SEEN(k) (has_weight ? g[k] * w[w_at + (k)] : g[k])
    const T m = mean[mean_at + row], r = rstd[rstd_at + row];
    T s = 0, d = 0;
    for (long k = get_local_id(0); k < n; k += GROUP) {
        s += SEEN(k);
        d += SEEN(k) * (x[k] - m);
    }
    GROUP_FOLD(s, room, a + b)
    GROUP_FOLD(d, room, a + b)
    T shift = s / n, slope = d * r * r / n;
    for (long k = get_local_id(0); k < n; k += GROUP)
        o[k] = (SEEN(k) - shift - (x[k] - m) * slope) * r;
}
#endif

#if defined(NEED_layer_norm_params)
/* Both sums for column k of chunk c of the rows, to be added up over chunks. */
__kernel void NAME(long n, long rows, long chunk, __global const T *g, long g_at, __global const T *x, long x_at,
                   __global const T *mean, long mean_at, __global const T *rstd, long rstd_at, __global T *gw,
                   long gw_at, __global T *gb, long gb_at)
{
    const long k = get_global_id(0), c = get_global_id(1);
    if (k >= n)
        return;
    T s = 0, d = 0;
    for (long r = c * chunk; r < rows && r < (c + 1) * chunk; r++) {
        T v = g[g_at + r * n + k];
        s += v;
        d += v * (x[x_at + r * n + k] - mean[mean_at + r]) * rstd[rstd_at + r];
    }
    gw[gw_at + c * n + k] = d;
    gb[gb_at + c * n + k] = s;
}
#endif

#if defined(NEED_cumsum)
__kernel void NAME(long rows, long n, long inner, __global const T *x, long x_at, __global T *y, long y_at)
{
    const long row = get_global_id(0);
    if (row >= rows)
        return;
    const long base = row / inner * n * inner + row % inner;
#if REAL && HAS_F64
    double s = 0;
#else
    T s = 0;
#endif
    for (long k = 0; k < n; k++) {
#if TRUTH
        s |= x[x_at + base + k * inner];
#else
        s += x[x_at + base + k * inner];
#endif
        y[y_at + base + k * inner] = s;
    }
}
#endif

#if defined(NEED_batch_statistics)
/* A channel of x [batch, channels, inner]: its mean and the reciprocal of its deviation; updates
 * the running ones. */
__kernel void NAME(long batch, long channels, long inner, T eps, T momentum, int follow, __global const T *x, long x_at,
                   __global T *mean, long mean_at, __global T *rstd, long rstd_at, __global T *running_mean, long rm_at,
                   __global T *running_var, long rv_at)
{
    __local WIDE room[GROUP];
    const long c = get_group_id(0), n = batch * inner;
    x += x_at + c * inner;
    WIDE s = 0, d = 0, off = 0;
    for (long k = get_local_id(0); k < n; k += GROUP)
        s += x[k / inner * channels * inner + k % inner];
    GROUP_FOLD_OF(WIDE, s, room, a + b)
    const WIDE m = s / n;
    for (long k = get_local_id(0); k < n; k += GROUP) {
        const WIDE v = x[k / inner * channels * inner + k % inner] - m;
        off += v;
        d += v * v;
    }
    GROUP_FOLD_OF(WIDE, d, room, a + b)
    GROUP_FOLD_OF(WIDE, off, room, a + b)
    d -= off * (off / n); // what the rounding of m adds
    if (get_local_id(0) != 0)
        return;
    mean[mean_at + c] = m;
    rstd[rstd_at + c] = 1 / sqrt(d / n + eps);
    if (follow) {
        running_mean[rm_at + c] = running_mean[rm_at + c] * (1 - momentum) + momentum * m;
        running_var[rv_at + c] = running_var[rv_at + c] * (1 - momentum) + momentum * (d / (n - 1));
    }
}
#endif

#if defined(NEED_batch_norm)
/* `spread` is the reciprocal of the deviation, or, with variance set, the running variance. */
__kernel void NAME(long total, long channels, long inner, T eps, int variance, int has_weight, int has_bias,
                   __global const T *x, long x_at, __global const T *mean, long mean_at, __global const T *spread,
                   long spread_at, __global const T *w, long w_at, __global const T *b, long b_at, __global T *y, long y_at)
{
    const long i = get_global_id(0);
    if (i >= total)
        return;
    const long c = i / inner % channels;
    const T r = variance ? 1 / sqrt(spread[spread_at + c] + eps) : spread[spread_at + c];
    T v = (x[x_at + i] - mean[mean_at + c]) * r;
    v = has_weight ? v * w[w_at + c] : v;
    y[y_at + i] = has_bias ? v + b[b_at + c] : v;
}
#endif

#if defined(NEED_batch_sums)
/* Of a channel: the sum of the gradient, and of its product with the normalised input. */
__kernel void NAME(long batch, long channels, long inner, T eps, int variance, __global const T *g, long g_at,
                   __global const T *x, long x_at, __global const T *mean, long mean_at, __global const T *spread,
                   long spread_at, __global T *dots, long dots_at, __global T *sums, long sums_at)
{
    __local T room[GROUP];
    const long c = get_group_id(0), n = batch * inner;
    const T m = mean[mean_at + c];
    const T r = variance ? 1 / sqrt(spread[spread_at + c] + eps) : spread[spread_at + c];
    x += x_at + c * inner;
    g += g_at + c * inner;
    T s = 0, d = 0;
    for (long k = get_local_id(0); k < n; k += GROUP) {
        const long at = k / inner * channels * inner + k % inner;
        s += g[at];
        d += g[at] * (x[at] - m);
    }
    GROUP_FOLD(s, room, a + b)
    GROUP_FOLD(d, room, a + b)
    if (get_local_id(0) == 0) {
        dots[dots_at + c] = d * r;
        sums[sums_at + c] = s;
    }
}
#endif

#if defined(NEED_batch_norm_backward)
/* In evaluation (variance set) the statistics do not depend on the input. */
__kernel void NAME(long total, long channels, long inner, T n, T eps, int variance, int has_weight, __global const T *g,
                   long g_at, __global const T *x, long x_at, __global const T *mean, long mean_at,
                   __global const T *spread, long spread_at, __global const T *w, long w_at, __global const T *dots,
                   long dots_at, __global const T *sums, long sums_at, __global T *o, long o_at)
{
    const long i = get_global_id(0);
    if (i >= total)
        return;
    const long c = i / inner % channels;
    const T r = variance ? 1 / sqrt(spread[spread_at + c] + eps) : spread[spread_at + c];
    T v = g[g_at + i];
    if (!variance)
        v -= (sums[sums_at + c] + (x[x_at + i] - mean[mean_at + c]) * r * dots[dots_at + c]) / n;
    o[o_at + i] = v * (has_weight ? r * w[w_at + c] : r);
}
#endif
