/* New elements: ranges and random numbers (Philox 4x32-10: a key per call, a counter per element). */
#if !defined(CREATE_ONCE)
#define CREATE_ONCE
/* Floating ranges are computed in double if the device supports it; integer division uses it, too. */
#if HAS_F64
typedef double wide;
#else
typedef float wide;
#endif
#if REAL
typedef wide counted;
typedef T divided;
#else
typedef long counted;
typedef wide divided;
#endif
uint4 philox(ulong counter, uint2 key)
{
    uint4 c = (uint4)((uint)counter, (uint)(counter >> 32), 0, 0);
    for (int round = 0; round < 10; round++) {
        const uint h0 = mul_hi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        const uint h1 = mul_hi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = (uint4)(h1 ^ c.y ^ key.x, l1, h0 ^ c.w ^ key.y, l0);
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}
#define UNIT24(w) ((T)((w)&0xffffffu) * (T)5.9604644775390625e-08)
#endif

#if defined(NEED_arange)
__kernel void NAME(long n, counted start, counted step, __global T *y, long y_at)
{
    const long i = get_global_id(0);
    if (i < n)
        y[y_at + i] = (T)(start + step * (counted)i);
}
#endif

#if defined(NEED_linspace)
__kernel void NAME(long n, divided start, divided end, __global T *y, long y_at)
{
    const long i = get_global_id(0);
    const divided step = n > 1 ? (end - start) / (divided)(n - 1) : (divided)0;
    if (i < n)
        y[y_at + i] = (T)(i < n / 2 || n == 1 ? start + step * (divided)i : end - step * (divided)(n - i - 1));
}
#endif

#if defined(NEED_eye)
__kernel void NAME(long n, long columns, __global T *y, long y_at)
{
    const long i = get_global_id(0);
    if (i < n)
        y[y_at + i] = (T)(i / columns == i % columns);
}
#endif

#if defined(NEED_triangle)
__kernel void NAME(long n, long rows, long columns, long diagonal, int upper, __global const T *x, long x_at, __global T *y,
                   long y_at)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    const long r = i / columns % rows, c = i % columns;
    y[y_at + i] = (upper ? c - r >= diagonal : c - r <= diagonal) ? x[x_at + i] : (T)0;
}
#endif

#if defined(NEED_chance)
__kernel void NAME(long n, ulong seed, A k0, A k1, __global const T *x, long x_at, __global T *y, long y_at,
                   __global int *fault)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    const uint4 w = philox((ulong)i, (uint2)((uint)seed, (uint)(seed >> 32)));
#if CHANCE_UNIFORM
    const T u = sizeof(T) == 8 ? (T)((((ulong)w.x << 32 | w.y) & 0x1fffffffffffffUL) * 1.1102230246251565e-16)
                               : UNIT24(w.x);
    y[y_at + i] = u * (k1 - k0) + k0;
#elif CHANCE_NORMAL
    const T u = ((T)(w.x >> 8) + (T)0.5) * (T)5.9604644775390625e-08, v = UNIT24(w.y);
    y[y_at + i] = sqrt((T)-2 * log(u)) * cospi((T)2 * v) * k1 + k0;
#elif CHANCE_BERNOULLI
    y[y_at + i] = (T)((A)((w.x) >> 8) * (A)5.9604644775390625e-08 < k0);
#elif CHANCE_BERNOULLI_OF
    const T p = x[x_at + i];
    if (!(p >= 0 && p <= 1))
        FAULT(FAULT_CHANCE);
    y[y_at + i] = (T)((A)((w.x) >> 8) * (A)5.9604644775390625e-08 < p);
#else
    y[y_at + i] = (T)(k0 + (A)(((ulong)w.x << 32 | w.y) % (ulong)(k1 - k0)));
#endif
}
#endif
