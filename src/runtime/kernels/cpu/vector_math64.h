/* kernels/cpu/vector_math64.h - float64 functions without branches or calls, as vector_math.h has them for float32.
 * Within 3 ulp of the exact result; infinities and NaN as in libm. The polynomials are Chebyshev interpolations
 * on the reduced interval, computed for this file.
 *
 * AVX2 has no arithmetic shift of 64-bit integers and no conversion from them: exponents are shifted as
 * unsigned numbers with a bias and converted by way of the mantissa of 2^52 + n.
 */
#ifndef KERNELS_CPU_VECTOR_MATH64_H
#define KERNELS_CPU_VECTOR_MATH64_H
#include "runtime/kernels/cpu/clones.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

MT__INLINE uint64_t mt__double_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
MT__INLINE double mt__bits_double(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#define MT__ROUNDER64 6755399441055744.0  /* 1.5 * 2^52 */
#define MT__LN2_HIGH64 0.6931471805592082 /* 40 bits: products with exponents are exact */
#define MT__LN2_LOW64 7.371002565167799e-13

/* exp(x) = 2^n (1 + q), |x - n ln 2| <= ln 2 / 2, for x in [-746, 710]; returns q. */
MT__INLINE double mt__exp64_parts(double x, uint64_t *n)
{
    double k = x * 1.4426950408889634 + MT__ROUNDER64, whole = k - MT__ROUNDER64;
    *n = mt__double_bits(k) - mt__double_bits(MT__ROUNDER64);
    double r = x - whole * MT__LN2_HIGH64 - whole * MT__LN2_LOW64;
    double y = 2.510038549551032e-08;
    y = y * r + 2.7620088445409746e-07;
    y = y * r + 2.7557268459997064e-06;
    y = y * r + 2.4801521295954376e-05;
    y = y * r + 1.9841269863053618e-04;
    y = y * r + 1.3888888917213717e-03;
    y = y * r + 8.333333333330062e-03;
    y = y * r + 4.166666666662413e-02;
    y = y * r + 1.6666666666666669e-01;
    y = y * r + 0.5000000000000001;
    return y * (r * r) + r;
}

MT__INLINE double mt__exp64_clamped(double x)
{
    double c = x < -746.0 ? -746.0 : x; /* NaN is kept */
    return c > 710.0 ? 710.0 : c;
}

/* 2^n y, in two factors: see mt__scaled. */
MT__INLINE double mt__scaled64(double y, uint64_t n)
{
    uint64_t half = ((n + 2048u) >> 1) - 1024u;
    return y * mt__bits_double((half + 1023u) << 52) * mt__bits_double((n - half + 1023u) << 52);
}

MT__INLINE double mt__exp64(double x)
{
    uint64_t n;
    double q = mt__exp64_parts(mt__exp64_clamped(x), &n);
    return mt__scaled64(1.0 + q, n);
}

/* exp(x) - 1 for |x| <= 44. */
MT__INLINE double mt__expm1_near64(double x)
{
    uint64_t n;
    double q = mt__exp64_parts(x, &n), power = mt__bits_double((n + 1023u) << 52);
    return power * q + (power - 1.0);
}

MT__INLINE double mt__expm1_64(double x)
{
    double c = x < -44.0 ? -44.0 : x;
    c = c > 44.0 ? 44.0 : c;
    double near = mt__expm1_near64(c), far = mt__exp64(x);
    near = x == 0.0 ? x : near; /* the sign of zero */
    return x > 40.0 ? far : near;
}

MT__INLINE double mt__tanh64(double x)
{
    double a = fabs(x), c = a > 22.0 ? 22.0 : a;
    double e = mt__expm1_near64(2.0 * c);
    return copysign(e / (e + 2.0), x);
}

/* log x = n ln 2 + log(1 + f), by the series of atanh(f / (2 + f)). */
MT__INLINE double mt__log64(double x)
{
    uint64_t tiny = x < 2.2250738585072014e-308;
    uint64_t u = mt__double_bits(tiny ? x * 18014398509481984.0 : x); /* 2^54 */
    uint64_t e = (u + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >>
                 52; /* biased; mantissa in [sqrt(1/2), sqrt(2)) */
    double f = mt__bits_double(u - (e << 52) + 0x3ff0000000000000u) - 1.0;
    double n = mt__bits_double(e | 0x4330000000000000u) - (4503599627370496.0 + 1023.0) - (tiny ? 54.0 : 0.0);
    double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double y = 0.14616449685043406;
    y = y * z + 0.15331721600556042;
    y = y * z + 0.18182889125261723;
    y = y * z + 0.2222221113479508;
    y = y * z + 0.28571428625975487;
    y = y * z + 0.39999999999899505;
    y = y * z + 0.666666666666667;
    double r = n * MT__LN2_HIGH64 - ((half - (s * (half + y * z) + n * MT__LN2_LOW64)) - f);
    r = x == (double)INFINITY ? (double)INFINITY : r;
    r = x == 0.0 ? -(double)INFINITY : r;
    return x >= 0.0 ? r : (double)NAN;
}

/* As mt__log1pf. */
MT__INLINE double mt__log1p64(double x)
{
    double u = 1.0 + x, d = u - 1.0, l = mt__log64(u);
    double r = l * (x / d);
    r = d == 0.0 ? x : r;
    return u == (double)INFINITY || x == -1.0 ? l : r;
}

/* Near: erf(x) / x as a polynomial of x^2. Far: 1 - exp(-x^2) g(x), g a polynomial of a fraction of x. */
MT__INLINE double mt__erf64(double x)
{
    double a = fabs(x), z = x * x;
    double y = 5.957176147748911e-11;
    y = y * z - 1.1372848856791674e-09;
    y = y * z + 1.4659775274047436e-08;
    y = y * z - 1.6350312701054695e-07;
    y = y * z + 1.6461000484121368e-06;
    y = y * z - 1.4925595266831182e-05;
    y = y * z + 1.205533111164271e-04;
    y = y * z - 8.54832698083379e-04;
    y = y * z + 5.2239776248180145e-03;
    y = y * z - 2.6866170645076792e-02;
    y = y * z + 1.1283791670954879e-01;
    y = y * z - 3.761263890318375e-01;
    y = y * z + 1.283791670955126e-01;
    double near = y * x + x;
    double c = a > 6.0 ? 6.0 : a;
    double t = 14.4 / (c + 3.0) - 2.6;
    double g = 6.0857915906870915e-12;
    g = g * t - 6.047405945991704e-12;
    g = g * t - 2.571511429603255e-10;
    g = g * t + 2.6381508985080735e-10;
    g = g * t + 1.1339538061744706e-08;
    g = g * t + 4.526700764248741e-09;
    g = g * t - 5.541274478467714e-07;
    g = g * t - 2.4255574719050315e-06;
    g = g * t + 1.9563583246137112e-05;
    g = g * t + 0.0003316029605764125;
    g = g * t + 0.002479314697078186;
    g = g * t + 0.012713147695692198;
    g = g * t + 0.04969844540339464;
    g = g * t + 0.15436117429436919;
    g = g * t + 0.20798329133342885;
    uint64_t n;
    double q = mt__exp64_parts(-(c * c), &n);
    double far = 1.0 - g * ((1.0 + q) * mt__bits_double((n + 1023u) << 52));
    return a < 1.0 ? near : copysign(far, x);
}

/* For an angle reduced to r in [-pi/4, pi/4], in quadrant q. */
MT__INLINE double mt__sincos64_of(double r, uint64_t q)
{
    double z = r * r;
    double s = 1.5917988979397435e-10;
    s = s * z - 2.5051129896450185e-08;
    s = s * z + 2.7557316093198404e-06;
    s = s * z - 1.9841269836740532e-04;
    s = s * z + 8.333333333330936e-03;
    s = s * z - 1.6666666666666666e-01;
    s = copysign(s * (z * r) + r, r); /* zeros, too */
    double c = -1.138254464534925e-11;
    c = c * z + 2.087614504941318e-09;
    c = c * z - 2.755731726587808e-07;
    c = c * z + 2.48015872987544e-05;
    c = c * z - 1.3888888888887389e-03;
    c = c * z + 4.1666666666666664e-02;
    c = c * (z * z) + (1.0 - 0.5 * z);
    double y = q & 1u ? c : s;
    return mt__bits_double(mt__double_bits(y) ^ ((q & 2u) << 62));
}

/* Valid for |x| below MT__ANGLE64_MAX: pi / 2 comes in parts of 33 bits, so that products with the number of
 * quadrants are exact. */
#define MT__ANGLE64_MAX 1048576.0
MT__INLINE double mt__sine_shifted64(double x, uint64_t quadrants)
{
    double k = x * 0.6366197723675814 + MT__ROUNDER64, whole = k - MT__ROUNDER64;
    double r = x - whole * 1.5707963267341256 - whole * 6.077100506303966e-11;
    r = r - whole * 2.0222662487959506e-21;
    return mt__sincos64_of(r, mt__double_bits(k) + quadrants);
}

#endif
