/* kernels/cpu/vector_math.h - float32 functions without branches or calls, so that loops over them vectorise.
 * Within 2 ulp of the exact result; infinities and NaN as in libm. MT__EXP(x) etc. use these for floats and
 * those of vector_math64.h for doubles.
 *
 * Rounding to the nearest integer adds and subtracts 1.5 * 2^23, which SSE2 can do, too.
 */
#ifndef KERNELS_CPU_VECTOR_MATH_H
#define KERNELS_CPU_VECTOR_MATH_H
#include "runtime/kernels/cpu/clones.h"
#include "runtime/kernels/cpu/vector_math64.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

MT__INLINE uint32_t mt__float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
MT__INLINE float mt__bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#define MT__ROUNDER 12582912.0f
#define MT__LN2_HIGH 0.693359375f
#define MT__LN2_LOW -2.12194440e-4f

/* exp(c) = 2^n exp(r), |r| <= ln 2 / 2, for c in [-104, 89]. Sets n and r; returns y of
 * exp(r) = 1 + r + y * r * r. */
MT__INLINE float mt__exp_parts(float c, uint32_t *n, float *r)
{
    float k = c * 1.44269504088896341f + MT__ROUNDER;
    *n = mt__float_bits(k) - 0x4b400000u;
    float whole = k - MT__ROUNDER;
    *r = c - whole * MT__LN2_HIGH - whole * MT__LN2_LOW;
    float y = 1.9875691500e-4f;
    y = y * *r + 1.3981999507e-3f;
    y = y * *r + 8.3334519073e-3f;
    y = y * *r + 4.1665795894e-2f;
    y = y * *r + 1.6666665459e-1f;
    return y * *r + 5.0000001201e-1f;
}

/* 2^n y. In two factors, because a single one may overflow or underflow: results underflow through the
 * subnormals to 0, and overflow to infinity, correctly. */
MT__INLINE float mt__scaled(float y, uint32_t n)
{
    uint32_t half = (uint32_t)((int32_t)n >> 1);
    return y * mt__bits_float((half + 127u) << 23) * mt__bits_float((n - half + 127u) << 23);
}

MT__INLINE float mt__expf(float x)
{
    uint32_t n;
    float c = x < -104.0f ? -104.0f : x; /* NaN is kept */
    c = c > 89.0f ? 89.0f : c;
    float r, y = mt__exp_parts(c, &n, &r);
    return mt__scaled(y * (r * r) + r + 1.0f, n);
}

/* For x in [-80, 80], where neither result nor factor overflows or underflows; NaN is kept. */
MT__INLINE float mt__expf_middle(float x)
{
    uint32_t n;
    float r, y = mt__exp_parts(x, &n, &r);
    return (y * (r * r) + r + 1.0f) * mt__bits_float((n + 127u) << 23);
}

MT__INLINE float mt__logf(float x)
{
    uint32_t tiny = x < 1.17549435e-38f;
    float s = tiny ? x * 8388608.0f : x;
    uint32_t u = mt__float_bits(s);
    int32_t e = (int32_t)(u - 0x3f3504f3u) >> 23; /* puts the mantissa into [sqrt(1/2), sqrt(2)) */
    float f = mt__bits_float(u - ((uint32_t)e << 23)) - 1.0f;
    float z = f * f, n = (float)(e - (tiny ? 23 : 0));
    float y = 7.0376836292e-2f;
    y = y * f - 1.1514610310e-1f;
    y = y * f + 1.1676998740e-1f;
    y = y * f - 1.2420140846e-1f;
    y = y * f + 1.4249322787e-1f;
    y = y * f - 1.6668057665e-1f;
    y = y * f + 2.0000714765e-1f;
    y = y * f - 2.4999993993e-1f;
    y = y * f + 3.3333331174e-1f;
    y = y * f * z + n * MT__LN2_LOW - 0.5f * z;
    float r = f + y + n * MT__LN2_HIGH;
    r = x == INFINITY ? INFINITY : r;
    r = x == 0.0f ? -INFINITY : r;
    return x >= 0.0f ? r : NAN;
}

/* The quotient corrects the rounding error of 1 + x. */
MT__INLINE float mt__log1pf(float x)
{
    float u = 1.0f + x, d = u - 1.0f;
    float r = mt__logf(u) * (x / d);
    r = d == 0.0f ? x : r;
    return u == INFINITY || x == -1.0f ? mt__logf(u) : r;
}

/* A separate polynomial near zero, where exp(x) - 1 would lose digits. */
MT__INLINE float mt__expm1f(float x)
{
    float y = 2.4801587e-5f;
    y = y * x + 1.9841270e-4f;
    y = y * x + 1.3888889e-3f;
    y = y * x + 8.3333333e-3f;
    y = y * x + 4.1666667e-2f;
    y = y * x + 1.6666667e-1f;
    y = y * x + 0.5f;
    float near = y * (x * x) + x, far = mt__expf(x) - 1.0f;
    near = x == 0.0f ? x : near; /* the sign of zero */
    return fabsf(x) < 0.5f ? near : far;
}

MT__INLINE float mt__tanhf(float x)
{
    float a = fabsf(x), z = x * x, c = a > 20.0f ? 20.0f : a;
    float far = 1.0f - 2.0f / (mt__expf_middle(2.0f * c) + 1.0f);
    float y = -5.70498872745e-3f;
    y = y * z + 2.06390887954e-2f;
    y = y * z - 5.37397155531e-2f;
    y = y * z + 1.33314422036e-1f;
    y = y * z - 3.33332819422e-1f;
    float near = y * z * x + x;
    return copysignf(a < 0.625f ? near : far, x);
}

MT__INLINE float mt__sigmoidf(float x)
{
    return 1.0f / (1.0f + mt__expf(-x));
}

MT__INLINE float mt__erff(float x)
{
    float t = fabsf(x), s = x * x;
    t = t > 6.0f ? 6.0f : t;
    float r = -1.72853470e-5f * t + 3.83197126e-4f, u = -3.88396438e-3f * t + 2.42546219e-2f;
    r = r * (t * t) + u;
    r = r * t - 1.06777877e-1f;
    r = r * t - 6.34846687e-1f;
    r = r * t - 1.28717512e-1f;
    r = r * t - t;
    float far = copysignf(1.0f - mt__expf_middle(r), x);
    float y = -5.96761703e-4f;
    y = y * s + 4.99119423e-3f;
    y = y * s - 2.67681349e-2f;
    y = y * s + 1.12819925e-1f;
    y = y * s - 3.76125336e-1f;
    y = y * s + 1.28379166e-1f;
    float near = y * x + x;
    return t > 0.927734375f ? far : near;
}

/* For an angle reduced to r in [-pi/4, pi/4], in quadrant q. */
MT__INLINE float mt__sincos_of(float r, uint32_t q)
{
    float z = r * r;
    float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    s = copysignf(s, r); /* zeros, too */
    float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
              0.5f * z + 1.0f;
    float y = q & 1u ? c : s;
    return q & 2u ? -y : y;
}

/* Valid for |x| below MT__ANGLE_MAX: the reduction, in double, has 53 - 22 bits to spare. */
#define MT__ANGLE_MAX 4194304.0f
MT__INLINE float mt__sine_shifted(float x, uint32_t quadrants)
{
    double d = (double)x, k = d * 0.63661977236758134308 + 6755399441055744.0;
    double whole = k - 6755399441055744.0;
    uint64_t u;
    memcpy(&u, &k, sizeof u);
    float r = (float)(d - whole * 1.57079632679489655800 - whole * 6.12323399573676603587e-17);
    return mt__sincos_of(r, (uint32_t)u + quadrants);
}

#define MT__EXP(x) _Generic((x), float : mt__expf, default : mt__exp64)(x)
#define MT__LOG(x) _Generic((x), float : mt__logf, default : mt__log64)(x)
#define MT__LOG1P(x) _Generic((x), float : mt__log1pf, default : mt__log1p64)(x)
#define MT__EXPM1(x) _Generic((x), float : mt__expm1f, default : mt__expm1_64)(x)
#define MT__TANH(x) _Generic((x), float : mt__tanhf, default : mt__tanh64)(x)
#define MT__ERF(x) _Generic((x), float : mt__erff, default : mt__erf64)(x)
#define MT__SQRT(x) _Generic((x), float : sqrtf, default : sqrt)(x)

#endif
