/* Windows that move over planes: pooling and convolutions, one work-item per element written. */
#if !defined(WINDOWS_ONCE)
#define WINDOWS_ONCE
typedef struct pool { /* mt__pool */
    long planes, in[2], out[2], kernel_[2], stride[2], padding[2], dilation[2];
} pool;
typedef struct conv { /* mt__conv */
    long images, groups, in_channels, out_channels, in[2], kernel_[2], out[2], stride[2], padding[2], dilation[2];
} conv;

#define PLANE_OF(a, b)                                                                                       \
    const long i = get_global_id(0);                                                                         \
    if (i >= p.planes * p.a[0] * p.a[1])                                                                     \
        return;                                                                                              \
    const long plane = i / (p.a[0] * p.a[1]), y = i / p.a[1] % p.a[0], x = i % p.a[1];                       \
    const long there = plane * p.b[0] * p.b[1];

/* The outputs [first, last] whose windows may contain position y of the input. */
#define FIRST_OUT(d, y) max(0L, (y + p.padding[d] - (p.kernel_[d] - 1) * p.dilation[d] + p.stride[d] - 1) / p.stride[d])
#define LAST_OUT(d, y) min(p.out[d] - 1, (y + p.padding[d]) / p.stride[d])

#if REAL
#define SHARE(s, count) ((s) / (T)(count))
#else
#define SHARE(s, count) ((count) == -1 ? (T)(0 - (UT)(s)) : (T)((long)(s) / (count)))
#endif

long window(const pool *p, int d, long o, long *begin, long *end)
{
    long from = o * p->stride[d] - p->padding[d], to = from + p->kernel_[d];
    to = min(to, p->in[d] + p->padding[d]);
    *begin = max(from, 0L);
    *end = min(to, p->in[d]);
    return to - from;
}
long divisor_of(const pool *p, long y, long x, long given, int count_pad, long *y0, long *y1, long *x0, long *x1)
{
    long whole = window(p, 0, y, y0, y1) * window(p, 1, x, x0, x1);
    return given != 0 ? given : count_pad ? whole : (*y1 - *y0) * (*x1 - *x0);
}
long adaptive_begin(long o, long out, long in)
{
    return o / out * in + o % out * in / out;
}
long adaptive_end(long o, long out, long in)
{
    return 1 + ((o + 1) * in - 1) / out;
}
#endif

#if defined(NEED_max_pool)
__kernel void NAME(pool p, __global const T *in, long in_at, __global T *o, long o_at, __global long *index, long index_at)
{
    PLANE_OF(out, in)
    long y0 = y * p.stride[0] - p.padding[0], x0 = x * p.stride[1] - p.padding[1];
    long y1 = min(y0 + (p.kernel_[0] - 1) * p.dilation[0] + 1, p.in[0]);
    long x1 = min(x0 + (p.kernel_[1] - 1) * p.dilation[1] + 1, p.in[1]);
    while (y0 < 0)
        y0 += p.dilation[0];
    while (x0 < 0)
        x0 += p.dilation[1];
    T best = LOWEST;
    long where = y0 * p.in[1] + x0;
    for (long yy = y0; yy < y1; yy += p.dilation[0])
        for (long xx = x0; xx < x1; xx += p.dilation[1]) {
            T v = in[in_at + there + yy * p.in[1] + xx];
            if (v > best || v != v) {
                best = v;
                where = yy * p.in[1] + xx;
            }
        }
    o[o_at + i] = best;
    index[index_at + i] = where;
}
#endif

#if defined(NEED_max_pool_backward)
__kernel void NAME(pool p, __global const T *g, long g_at, __global const long *index, long index_at, __global T *o,
                   long o_at)
{
    PLANE_OF(in, out)
    T s = 0;
    for (long oy = FIRST_OUT(0, y); oy <= LAST_OUT(0, y); oy++)
        for (long ox = FIRST_OUT(1, x); ox <= LAST_OUT(1, x); ox++)
            if (index[index_at + there + oy * p.out[1] + ox] == y * p.in[1] + x)
                s += g[g_at + there + oy * p.out[1] + ox];
    o[o_at + i] = s;
}
#endif

#if defined(NEED_avg_pool)
__kernel void NAME(pool p, long given, int count_pad, __global const T *in, long in_at, __global T *o, long o_at)
{
    PLANE_OF(out, in)
    long y0, y1, x0, x1, divisor = divisor_of(&p, y, x, given, count_pad, &y0, &y1, &x0, &x1);
    T s = 0;
    for (long yy = y0; yy < y1; yy++)
        for (long xx = x0; xx < x1; xx++)
            s += in[in_at + there + yy * p.in[1] + xx];
    o[o_at + i] = y0 >= y1 || x0 >= x1 ? (T)0 : SHARE(s, divisor);
}
#endif

#if defined(NEED_avg_pool_backward)
__kernel void NAME(pool p, long given, int count_pad, __global const T *g, long g_at, __global T *o, long o_at)
{
    PLANE_OF(in, out)
    T s = 0;
    for (long oy = FIRST_OUT(0, y); oy <= LAST_OUT(0, y); oy++)
        for (long ox = FIRST_OUT(1, x); ox <= LAST_OUT(1, x); ox++) {
            long y0, y1, x0, x1, divisor = divisor_of(&p, oy, ox, given, count_pad, &y0, &y1, &x0, &x1);
            if (y >= y0 && y < y1 && x >= x0 && x < x1)
                s += SHARE(g[g_at + there + oy * p.out[1] + ox], divisor);
        }
    o[o_at + i] = s;
}
#endif

#if defined(NEED_adaptive)
__kernel void NAME(pool p, __global const T *in, long in_at, __global T *o, long o_at)
{
    PLANE_OF(out, in)
    long y0 = adaptive_begin(y, p.out[0], p.in[0]), y1 = adaptive_end(y, p.out[0], p.in[0]);
    long x0 = adaptive_begin(x, p.out[1], p.in[1]), x1 = adaptive_end(x, p.out[1], p.in[1]);
    T s = 0;
    for (long yy = y0; yy < y1; yy++)
        for (long xx = x0; xx < x1; xx++)
            s += in[in_at + there + yy * p.in[1] + xx];
    o[o_at + i] = SHARE(s, (y1 - y0) * (x1 - x0));
}
#endif

#if defined(NEED_adaptive_backward)
__kernel void NAME(pool p, __global const T *g, long g_at, __global T *o, long o_at)
{
    PLANE_OF(in, out)
    T s = 0;
    for (long oy = 0; oy < p.out[0]; oy++) {
        long y0 = adaptive_begin(oy, p.out[0], p.in[0]), y1 = adaptive_end(oy, p.out[0], p.in[0]);
        if (y < y0 || y >= y1)
            continue;
        for (long ox = 0; ox < p.out[1]; ox++) {
            long x0 = adaptive_begin(ox, p.out[1], p.in[1]), x1 = adaptive_end(ox, p.out[1], p.in[1]);
            if (x >= x0 && x < x1)
                s += SHARE(g[g_at + there + oy * p.out[1] + ox], (y1 - y0) * (x1 - x0));
        }
    }
    o[o_at + i] = s;
}
#endif

#if defined(NEED_unfold)
/* Columns [images, in_channels * kernel, area] of each output's window, starting at image `first`. */
__kernel void NAME(conv c, long first, __global const T *in, long in_at, __global T *o, long o_at)
{
    const uint p = get_global_id(0), k = get_global_id(1), area = (uint)(c.out[0] * c.out[1]);
    const long n = get_global_id(2);
    if (p >= area)
        return;
    const uint wide = (uint)c.kernel_[1], high = (uint)c.kernel_[0], kx = k % wide, ky = k / wide % high, y = p / (uint)c.out[1];
    const long yy = y * c.stride[0] - c.padding[0] + ky * c.dilation[0];
    const long xx = (p - y * (uint)c.out[1]) * c.stride[1] - c.padding[1] + kx * c.dilation[1];
    const long plane = (first + n) * c.in_channels + k / wide / high;
    const int inside = yy >= 0 && yy < c.in[0] && xx >= 0 && xx < c.in[1];
    o[o_at + (n * get_global_size(1) + k) * area + p] =
        inside ? in[in_at + (plane * c.in[0] + yy) * c.in[1] + xx] : (T)0;
}
#endif

#if defined(NEED_fold)
/* The reverse: each element of the input sums the column elements that it was copied to. */
__kernel void NAME(conv c, long first, __global const T *columns, long columns_at, __global T *o, long o_at)
{
    const uint p = get_global_id(0), ch = get_global_id(1), area = (uint)(c.in[0] * c.in[1]);
    const long n = get_global_id(2), results = c.out[0] * c.out[1];
    if (p >= area)
        return;
    const uint y = p / (uint)c.in[1], x = p - y * (uint)c.in[1];
    columns += columns_at + (n * c.in_channels + ch) * c.kernel_[0] * c.kernel_[1] * results;
    T s = 0;
    for (int ky = 0; ky < c.kernel_[0]; ky++) {
        const int top = (int)(y + c.padding[0] - ky * c.dilation[0]), oy = top / (int)c.stride[0];
        if (top < 0 || oy * (int)c.stride[0] != top || oy >= c.out[0])
            continue;
        for (int kx = 0; kx < c.kernel_[1]; kx++) {
            const int left = (int)(x + c.padding[1] - kx * c.dilation[1]), ox = left / (int)c.stride[1];
            if (left >= 0 && ox * (int)c.stride[1] == left && ox < c.out[1])
                s += columns[(ky * c.kernel_[1] + kx) * results + oy * c.out[1] + ox];
        }
    }
    o[o_at + ((first + n) * c.in_channels + ch) * area + p] = s;
}
#endif

#if defined(NEED_conv)
__kernel void NAME(conv c, int has_bias, __global const T *in, long in_at, __global const T *w, long w_at,
                   __global const T *b, long b_at, __global T *o, long o_at)
{
    const long i = get_global_id(0), area = c.out[0] * c.out[1];
    if (i >= c.images * c.out_channels * area)
        return;
    const long n = i / area / c.out_channels, oc = i / area % c.out_channels, y = i % area / c.out[1], x = i % c.out[1];
    const long each = c.in_channels / c.groups, first = oc / (c.out_channels / c.groups) * each;
    T s = has_bias ? b[b_at + oc] : (T)0;
    for (long k = 0; k < each; k++)
        for (long ky = 0; ky < c.kernel_[0]; ky++) {
            const long yy = y * c.stride[0] - c.padding[0] + ky * c.dilation[0];
            if (yy < 0 || yy >= c.in[0])
                continue;
            for (long kx = 0; kx < c.kernel_[1]; kx++) {
                const long xx = x * c.stride[1] - c.padding[1] + kx * c.dilation[1];
                if (xx >= 0 && xx < c.in[1])
                    s += in[in_at + ((n * c.in_channels + first + k) * c.in[0] + yy) * c.in[1] + xx] *
                         w[w_at + ((oc * each + k) * c.kernel_[0] + ky) * c.kernel_[1] + kx];
            }
        }
    o[o_at + i] = s;
}
#endif

#if defined(NEED_conv_input)
__kernel void NAME(conv c, __global const T *g, long g_at, __global const T *w, long w_at, __global T *o, long o_at)
{
    const long i = get_global_id(0), area = c.in[0] * c.in[1];
    if (i >= c.images * c.in_channels * area)
        return;
    const long n = i / area / c.in_channels, ic = i / area % c.in_channels, y = i % area / c.in[1], x = i % c.in[1];
    const long each = c.in_channels / c.groups, outs = c.out_channels / c.groups, group = ic / each;
    T s = 0;
    for (long oc = group * outs; oc < (group + 1) * outs; oc++)
        for (long ky = 0; ky < c.kernel_[0]; ky++) {
            const long top = y + c.padding[0] - ky * c.dilation[0], oy = top / c.stride[0];
            if (top < 0 || top % c.stride[0] != 0 || oy >= c.out[0])
                continue;
            for (long kx = 0; kx < c.kernel_[1]; kx++) {
                const long left = x + c.padding[1] - kx * c.dilation[1], ox = left / c.stride[1];
                if (left >= 0 && left % c.stride[1] == 0 && ox < c.out[1])
                    s += g[g_at + ((n * c.out_channels + oc) * c.out[0] + oy) * c.out[1] + ox] *
                         w[w_at + ((oc * each + ic % each) * c.kernel_[0] + ky) * c.kernel_[1] + kx];
            }
        }
    o[o_at + i] = s;
}
#endif

#if defined(NEED_conv_weight)
/* One work-group per weight. */
__kernel void NAME(conv c, __global const T *g, long g_at, __global const T *in, long in_at, __global T *o, long o_at)
{
    __local T room[GROUP];
    const long i = get_group_id(0), each = c.in_channels / c.groups;
    const long kx = i % c.kernel_[1], ky = i / c.kernel_[1] % c.kernel_[0], k = i / c.kernel_[1] / c.kernel_[0] % each;
    const long oc = i / c.kernel_[1] / c.kernel_[0] / each, ic = oc / (c.out_channels / c.groups) * each + k;
    const long area = c.out[0] * c.out[1];
    const uint me = get_local_id(0);
    T s = 0;
    for (long at = me; at < c.images * area; at += GROUP) {
        const long n = at / area, y = at % area / c.out[1], x = at % c.out[1];
        const long yy = y * c.stride[0] - c.padding[0] + ky * c.dilation[0];
        const long xx = x * c.stride[1] - c.padding[1] + kx * c.dilation[1];
        if (yy >= 0 && yy < c.in[0] && xx >= 0 && xx < c.in[1])
            s += g[g_at + (n * c.out_channels + oc) * area + at % area] *
                 in[in_at + ((n * c.in_channels + ic) * c.in[0] + yy) * c.in[1] + xx];
    }
    room[me] = s;
    for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < half_)
            room[me] += room[me + half_];
    }
    if (me == 0)
        o[o_at + i] = room[0];
}
#endif
