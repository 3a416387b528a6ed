/* Kernels of rows: one work-group for each, of GROUP work-items. Element k of row r is at (r / inner) * n * inner + r % inner +
 * k * inner. */

/* total of a value per work-item, for all of them */
#define GROUP_FOLD(x, room, FOLD)                                                                            \
    {                                                                                                        \
        uint me = get_local_id(0);                                                                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                        \
        room[me] = x;                                                                                        \
        for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {                                                \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                    \
            if (me < half_) {                                                                                \
                T a = room[me], b = room[me + half_];                                                        \
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
__kernel void NAME(long n, T eps, __global const T *x, long x_at, __global const T *w, long w_at, __global const T *b_,
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
    for (long k = get_local_id(0); k < n; k += GROUP) {
        T v = (x[k] - m) * r;
#if HAS_WEIGHT
        v *= w[w_at + k];
#endif
#if HAS_BIAS
        v += b_[b_at + k];
#endif
        y[k] = v;
    }
    if (get_local_id(0) == 0) {
        mean[mean_at + row] = m;
        rstd[rstd_at + row] = r;
    }
}
#endif

#if defined(NEED_layer_norm_backward)
__kernel void NAME(long n, __global const T *g, long g_at, __global const T *x, long x_at, __global const T *mean,
                   long mean_at, __global const T *rstd, long rstd_at, __global const T *w, long w_at, __global T *o,
                   long o_at)
{
    const long inner = 1;
    ROW_BEGIN
    g += g_at + base;
    x += x_at + base;
    o += o_at + base;
#if HAS_WEIGHT
#define SEEN(k) (g[k] * w[w_at + (k)])
#else
#define SEEN(k) g[k]
#endif
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
/* Column k of chunk c of the rows: both sums, to be added up over chunks. */
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
        s += x[x_at + base + k * inner];
        y[y_at + base + k * inner] = s;
    }
}
#endif
