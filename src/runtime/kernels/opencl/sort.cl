/* Bitonic sort of rows padded to a power of two: within blocks in local memory, beyond them in global memory.
 * Values carry their positions, which break ties, so that the sort is stable. */
#if !defined(SORT_ONCE)
#define SORT_ONCE
#define PADDING INT_MAX
#define LESS(a, b) ((a) < (b) || ((b) != (b) && (a) == (a))) /* NaN is the largest */
int before(T a, int a_place, T b, int b_place, int down)
{
    if (a_place == PADDING || b_place == PADDING)
        return a_place < b_place;
    const int less = down ? LESS(b, a) : LESS(a, b), more = down ? LESS(a, b) : LESS(b, a);
    return less || (!more && a_place < b_place);
}
#endif

#if defined(NEED_block)
/* A work-group per block of each row: the exchanges of widths first ... last that stay within it. `fresh`:
 * the elements come from x [outer, n, inner], else from the previous pass. */
__kernel void NAME(long n, long inner, long padded, long block, long first, long last, int fresh, int down,
                   __global const T *x, long x_at, __global T *values, long values_at, __global int *places,
                   long places_at)
{
    __local T v[SORT_BLOCK];
    __local int p[SORT_BLOCK];
    const int me = get_local_id(0);
    const long row = get_group_id(0) / (padded / block), begin = get_group_id(0) % (padded / block) * block;
    x += x_at + row / inner * n * inner + row % inner;
    values += values_at + row * padded + begin;
    places += places_at + row * padded + begin;
    for (int i = me; i < block; i += FLAT) {
        if (fresh) {
            v[i] = begin + i < n ? x[(begin + i) * inner] : (T)0;
            p[i] = begin + i < n ? (int)(begin + i) : PADDING;
        } else {
            v[i] = values[i];
            p[i] = places[i];
        }
    }
    for (long width = first; width <= last; width *= 2)
        for (int apart = (int)min(width, block) / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int pair = me; pair < block / 2; pair += FLAT) {
                const int a = 2 * pair - (pair & (apart - 1)), b = a + apart;
                const int up = ((begin + a) & width) == 0;
                if (before(v[b], p[b], v[a], p[a], down) == up) {
                    const T value = v[a];
                    const int place = p[a];
                    v[a] = v[b];
                    p[a] = p[b];
                    v[b] = value;
                    p[b] = place;
                }
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = me; i < block; i += FLAT) {
        values[i] = v[i];
        places[i] = p[i];
    }
}
#endif

#if defined(NEED_step)
/* One exchange step of elements farther apart than a block. */
__kernel void NAME(long pairs, long padded, long width, long apart, int down, __global T *values, long values_at,
                   __global int *places, long places_at)
{
    const long i = get_global_id(0);
    if (i >= pairs)
        return;
    const long row = i / (padded / 2), pair = i % (padded / 2), at = 2 * pair - (pair & (apart - 1));
    const long a = row * padded + at, b = a + apart;
    const T va = values[values_at + a], vb = values[values_at + b];
    const int pa = places[places_at + a], pb = places[places_at + b];
    if (before(vb, pb, va, pa, down) == ((at & width) == 0)) {
        values[values_at + a] = vb;
        values[values_at + b] = va;
        places[places_at + a] = pb;
        places[places_at + b] = pa;
    }
}
#endif

#if defined(NEED_take)
/* The first elements of each row, as [outer, most, inner]. */
__kernel void NAME(long total, long most, long inner, long padded, __global const T *values, long values_at,
                   __global const int *places, long places_at, __global T *y, long y_at, __global long *z, long z_at)
{
    const long i = get_global_id(0);
    if (i >= total)
        return;
    const long row = i / inner / most * inner + i % inner, at = row * padded + i / inner % most;
    y[y_at + i] = values[values_at + at];
    z[z_at + i] = places[places_at + at];
}
#endif
