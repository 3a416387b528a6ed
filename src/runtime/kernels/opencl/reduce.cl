/* Reductions of [outer, n, inner] over n, cut into chunks: out is [outer, chunks, inner]. T is the type of the fold, IN of
 * the input, R of the output. MAP(x) is done to each element first, END(x) to the result, FOLD to a and b; FIRST is where
 * it begins. */

#if defined(NEED_rows)
/* inner is 1: a work-group for each (outer, chunk). */
__kernel void NAME(long n, long chunks, long chunk, __global const IN *x, long x_at, __global R *y, long y_at, T k0)
{
    __local T room[GROUP];
    const long at = get_group_id(0), c = at % chunks;
    const uint me = get_local_id(0);
    T total = FIRST;
    const long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    x += x_at + at / chunks * n;
    for (long k = c * chunk + me; k < end; k += GROUP) {
        T a = total, b = MAP(x[k]);
        total = FOLD;
    }
    room[me] = total;
    for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < half_) {
            T a = room[me], b = room[me + half_];
            room[me] = FOLD;
        }
    }
    if (me == 0)
        y[y_at + at] = END(room[0]);
}
#endif

#if defined(NEED_columns)
/* A work-item for each (outer, chunk, inner). */
__kernel void NAME(long total_items, long n, long chunks, long chunk, long inner, __global const IN *x, long x_at,
                   __global R *y, long y_at, T k0)
{
    const long at = get_global_id(0);
    if (at >= total_items)
        return;
    const long i = at % inner, c = at / inner % chunks, o = at / inner / chunks;
    const long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    T total = FIRST;
    x += x_at + o * n * inner + i;
    for (long k = c * chunk; k < end; k++) {
        T a = total, b = MAP(x[k * inner]);
        total = FOLD;
    }
    y[y_at + at] = END(total);
}
#endif

#if defined(NEED_pick)
/* The extreme along n of [outer, n, inner] and where it is first; NaN wins. */
__kernel void NAME(long total_items, long n, long inner, __global const T *x, long x_at, __global T *y, long y_at,
                   __global long *z, long z_at)
{
    const long at = get_global_id(0);
    if (at >= total_items)
        return;
    x += x_at + at / inner * n * inner + at % inner;
    T best = x[0];
    long where = 0;
    for (long k = 1; k < n; k++) {
        const T b = x[k * inner], a = best;
        if (BETTER) {
            best = b;
            where = k;
        }
    }
#if VALUES
    y[y_at + at] = best;
#endif
    z[z_at + at] = where;
}
#endif

#if defined(NEED_var)
/* Rows of n: the mean, then the squares around it. */
__kernel void NAME(long n, T correction, __global const T *x, long x_at, __global T *y, long y_at)
{
    __local T room[GROUP];
    const uint me = get_local_id(0);
    x += x_at + get_group_id(0) * n;
    T mean = 0;
    for (int pass = 0; pass < 2; pass++) {
        T s = 0;
        for (long k = me; k < n; k += GROUP)
            s += pass == 0 ? x[k] : (x[k] - mean) * (x[k] - mean);
        barrier(CLK_LOCAL_MEM_FENCE);
        room[me] = s;
        for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (me < half_)
                room[me] += room[me + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (pass == 0)
            mean = room[0] / n;
    }
    if (me == 0) {
        T left = (T)n - correction;
        T v = (T)(room[0] / (left > 0 ? left : 0));
        y[y_at + get_group_id(0)] = ROOT ? sqrt(v) : v;
    }
}
#endif
