/* Reductions of [outer, n, inner] over n, split into chunks: out is [outer, chunks, inner]. FIRST is the
 * initial value, FOLD combines a and b, MAP(x) is applied to each element, END(x) to the result. Of two
 * passes the first (1) omits END, the second (2) MAP; 0 is a single pass. */
#if !defined(REDUCE_ONCE)
#define REDUCE_ONCE
#define MAPPED(x) (pass == 2 ? (x) : (T)(MAP(x)))
#define ENDED(x) (pass == 1 ? (x) : (T)(END(x)))
#if TRUTH
#define ADDED(a, b) ((a) | (b))
#else
#define ADDED(a, b) ((a) + (b))
#endif
#endif

#if defined(NEED_rows)
/* inner is 1: a work-group for each (outer, chunk). */
__kernel void NAME(long n, long chunks, long chunk, int pass, __global const T *x, long x_at, __global T *y, long y_at,
                   T k0)
{
    __local T room[GROUP];
    const long at = get_group_id(0), c = at % chunks;
    const uint me = get_local_id(0);
    T total = FIRST;
    const long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    x += x_at + at / chunks * n;
    for (long k = c * chunk + me; k < end; k += GROUP) {
        const T v = x[k], a = total, b = MAPPED(v);
        total = FOLD;
    }
    room[me] = total;
    for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < half_) {
            const T a = room[me], b = room[me + half_];
            room[me] = FOLD;
        }
    }
    if (me == 0)
        y[y_at + at] = ENDED(room[0]);
}
#endif

#if defined(NEED_columns)
/* A work-item for each (outer, chunk, inner). */
__kernel void NAME(long total_items, long n, long chunks, long chunk, long inner, int pass, __global const T *x, long x_at,
                   __global T *y, long y_at, T k0)
{
    const long at = get_global_id(0);
    if (at >= total_items)
        return;
    const long i = at % inner, c = at / inner % chunks, o = at / inner / chunks;
    const long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    T total = FIRST;
    x += x_at + o * n * inner + i;
    for (long k = c * chunk; k < end; k++) {
        const T v = x[k * inner], a = total, b = MAPPED(v);
        total = FOLD;
    }
    y[y_at + at] = ENDED(total);
}
#endif

#if defined(NEED_pick)
/* The extreme along n of [outer, n, inner], if wanted, and its first index; NaN wins. */
__kernel void NAME(long total_items, long n, long inner, int values, __global const T *x, long x_at, __global T *y,
                   long y_at, __global long *z, long z_at)
{
    const long at = get_global_id(0);
    if (at >= total_items)
        return;
    x += x_at + at / inner * n * inner + at % inner;
    T best = x[0];
    long where = 0;
    for (long k = 1; k < n; k++) {
        const T b = x[k * inner], a = best;
        if (a == a && (b BETTER a || b != b)) {
            best = b;
            where = k;
        }
    }
    if (values)
        y[y_at + at] = best;
    z[z_at + at] = where;
}
#endif

#if defined(NEED_var)
/* Rows of n: the mean, relative to the first, so that equal elements have no spread; then the squared deviations, less
 * what the rounding of the mean adds to them. */
__kernel void NAME(long n, T correction, int root, __global const T *x, long x_at, __global T *y, long y_at)
{
    __local WIDE room[GROUP], rest[GROUP];
    const uint me = get_local_id(0);
    x += x_at + get_group_id(0) * n;
    WIDE mean = n > 0 ? x[0] : 0;
    for (int pass = 0; pass < 2; pass++) {
        WIDE s = 0, off = 0;
        for (long k = me; k < n; k += GROUP) {
            const WIDE d = x[k] - mean;
            off += d;
            s += d * d;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        room[me] = s;
        rest[me] = off;
        for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (me < half_) {
                room[me] += room[me + half_];
                rest[me] += rest[me + half_];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (pass == 0)
            mean += rest[0] / n;
    }
    if (me == 0) {
        const WIDE left = (WIDE)n - correction;
        const T v = n > 0 ? (T)((room[0] - rest[0] * (rest[0] / n)) / (left > 0 ? left : 0)) : NAN;
        y[y_at + get_group_id(0)] = root ? sqrt(v) : v;
    }
}
#endif
