/* Kernels that index by tensors. */
#if !defined(INDEX_ONCE)
#define INDEX_ONCE
#if BYTES == 8 && !HAS_I64_ATOMICS
#define add_to(at, x) /* refused by the host */
#elif REAL
#if BYTES == 4
#define WORD uint
#define WORD_OF(x) as_uint(x)
#define REAL_OF(w) as_float(w)
#define EXCHANGE atomic_cmpxchg
#else
#define WORD ulong
#define WORD_OF(x) as_ulong(x)
#define REAL_OF(w) as_double(w)
#define EXCHANGE atom_cmpxchg
#endif
void add_to(volatile __global T *at, T x)
{
    volatile __global WORD *word = (volatile __global WORD *)at;
    WORD old = *word, seen;
    while ((seen = EXCHANGE(word, old, WORD_OF(REAL_OF(old) + x))) != old)
        old = seen;
}
#else
void add_to(volatile __global T *at, T x)
{
#if BYTES == 4
    atomic_add(at, x);
#elif BYTES == 8
    atom_add(at, x);
#else
    if (x)
        *at = 1;
#endif
}
#endif
#if BYTES == 8 && !HAS_I64_ATOMICS
#define multiply_by(at, x) /* refused by the host */
#elif REAL
void multiply_by(volatile __global T *at, T x)
{
    volatile __global WORD *word = (volatile __global WORD *)at;
    WORD old = *word, seen;
    while ((seen = EXCHANGE(word, old, WORD_OF(REAL_OF(old) * x))) != old)
        old = seen;
}
#else
void multiply_by(volatile __global T *at, T x)
{
#if BYTES >= 4
    T old = *at, seen;
#if BYTES == 4
    while ((seen = atomic_cmpxchg(at, old, old * x)) != old)
#else
    while ((seen = atom_cmpxchg(at, old, old * x)) != old)
#endif
        old = seen;
#else
    if (!x)
        *at = 0;
#endif
}
#endif
/* Over the elements of the index, with any strides; `dim` is the indexed dim of self or of the target. */
typedef struct places {
    long dims[9], index[9], self[9], other[9];
} places;
#endif

#if defined(NEED_select)
/* out [outer, count, inner] from self [outer, size, inner], by index [count]. */
__kernel void NAME(long total, long count, long size, long inner, __global const T *x, long x_at,
                   __global const long *index, long index_at, __global T *y, long y_at, __global int *fault)
{
    const long at = get_global_id(0);
    if (at >= total)
        return;
    const long i = at % inner, c = at / inner % count, o = at / inner / count;
    const long pick = index[index_at + c];
    if (pick < 0 || pick >= size) {
        FAULT(FAULT_INDEX);
        return;
    }
    y[y_at + at] = x[x_at + (o * size + pick) * inner + i];
}
#endif

#if defined(NEED_add)
/* self [outer, size, inner] += source [outer, count, inner], by index [count]; `skip` is an index to
 * ignore. With counts (occurrences of each index), values are divided by them. A negative dim: invalid
 * indices are skipped. */
__kernel void NAME(long total, long count, long size, long inner, long skip, long dim, int shares, __global const T *x, long x_at,
                   __global const long *index, long index_at, __global const T *counts, long counts_at, __global T *y,
                   long y_at, __global int *fault)
{
    const long at = get_global_id(0);
    if (at >= total)
        return;
    const long i = at % inner, c = at / inner % count, o = at / inner / count;
    const long pick = index[index_at + c];
    if (pick == skip)
        return;
    if (pick < 0 || pick >= size) {
        if (dim >= 0)
            fault_at(fault, FAULT_GATHER, pick, dim, size);
        return;
    }
    const T v = x[x_at + at];
    add_to(&y[y_at + (o * size + pick) * inner + i], shares ? v * ((T)1 / counts[counts_at + pick]) : v);
}
#endif

#if defined(NEED_gather) || defined(NEED_scatter)
__kernel void NAME(long total, int rank, int dim, long size, places p, __global T *self, long self_at,
                   __global const long *index, long index_at, __global T *other, long other_at, T number,
                   int by_number, __global int *fault)
{
    const long at = get_global_id(0);
    if (at >= total)
        return;
    long rest = at, i = index_at, s = self_at, o = other_at;
    for (int d = rank - 1; d >= 0; d--) {
        const long q = rest / p.dims[d], r = rest - q * p.dims[d];
        rest = q;
        i += r * p.index[d];
        s += d == dim ? 0 : r * p.self[d];
        o += r * p.other[d];
    }
    const long pick = index[i];
    if (pick < 0 || pick >= size) {
        fault_at(fault, FAULT_GATHER, pick, dim, size);
        return;
    }
    s += pick * p.self[dim];
#if defined(NEED_gather)
    other[o] = self[s];
#elif ADDS
    add_to(&self[s], by_number ? number : other[o]);
#elif defined(MULTIPLIES)
    multiply_by(&self[s], by_number ? number : other[o]);
#else
    self[s] = by_number ? number : other[o];
#endif
}
#endif

#if defined(NEED_nll)
/* Loss and weight of each target; x is [batch, classes, inner]. */
__kernel void NAME(long total, long classes, long inner, long ignored, int has_weight, __global const T *x, long x_at,
                   __global const long *target, long target_at, __global const T *w, long w_at, __global T *loss,
                   long loss_at, __global T *weights, long weights_at, __global int *fault)
{
    const long at = get_global_id(0);
    if (at >= total)
        return;
    const long c = target[target_at + at];
    T l = 0, weight = 0;
    if (c != ignored && (c < 0 || c >= classes)) {
        fault_at(fault, FAULT_TARGET, c, 0, 0);
    } else if (c != ignored) {
        weight = has_weight ? w[w_at + c] : (T)1;
        l = -x[x_at + (at / inner * classes + c) * inner + at % inner] * weight;
    }
    loss[loss_at + at] = l;
    weights[weights_at + at] = weight;
}
#endif

#if defined(NEED_nll_backward)
/* The output is zero already. */
__kernel void NAME(long total, long classes, long inner, long ignored, int each, int mean, int has_weight,
                   __global const T *g,
                   long g_at, __global const long *target, long target_at, __global const T *w, long w_at,
                   __global const T *weights, long weights_at, __global T *o, long o_at)
{
    const long at = get_global_id(0);
    if (at >= total)
        return;
    const long c = target[target_at + at];
    if (c == ignored || c < 0 || c >= classes)
        return;
    T v = -g[g_at + (each ? at : 0)];
    v = has_weight ? v * w[w_at + c] : v;
    if (mean)
        v /= weights[weights_at];
    o[o_at + (at / inner * classes + c) * inner + at % inner] = v;
}
#endif
