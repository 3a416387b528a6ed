/* runtime/kernels/cpu/vexp.h - exp of a float without branches or tables, so that a loop over
 * it is vectorised.
 *
 * x = n ln 2 + r, |r| <= ln 2 / 2; exp(r) by a polynomial; 2^n as two factors, so that results underflow
 * through the subnormals to 0, and overflow to infinity, correctly. Within 2 ulp of expf; NaN stays NaN.
 */
#ifndef RUNTIME_KERNELS_CPU_VEXP_H
#define RUNTIME_KERNELS_CPU_VEXP_H
#include <stdint.h>

static inline __attribute__((always_inline)) float mt__float_of_bits(int32_t bits)
{
    union {
        int32_t i;
        float f;
    } u = {bits};
    return u.f;
}

static inline __attribute__((always_inline)) int32_t mt__bits_of_float(float f)
{
    union {
        float f;
        int32_t i;
    } u = {f};
    return u.i;
}

static inline __attribute__((always_inline)) float mt__exp_f32(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504088896341f + shift;
    int32_t n = mt__bits_of_float(shifted) - mt__bits_of_float(shift);
    float k = shifted - shift;
    float r = x - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t half = n >> 1;
    return p * mt__float_of_bits((half + 127) * (1 << 23)) * mt__float_of_bits((n - half + 127) * (1 << 23));
}

#endif
