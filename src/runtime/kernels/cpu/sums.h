/* runtime/kernels/cpu/sums.h - sums and maxima over a dense row, for norms, softmax and var: lanes, which the
 * compiler vectorises, are added into a double once per chunk. The order is fixed, so results are, too.
 */
#ifndef RUNTIME_KERNELS_CPU_SUMS_H
#define RUNTIME_KERNELS_CPU_SUMS_H
#include "runtime/kernels/cpu/clones.h"
#include <math.h>
#include <stdint.h>

#define MT__LANES 32
#define MT__CHUNK 1024

/* Rows of n are taken in groups, step by step, so that short ones do not wait for the sums of one at a time. */
#define MT__MOST_TOGETHER 4
#define MT__TOGETHER(n) ((n) > 2048 ? 1 : MT__MOST_TOGETHER)

/* Adds n values, a power of two, pairwise; the sum is in the first. */
#define MT__ADD_HALVES(a, n, last)                                                                           \
    _Pragma("GCC unroll 8") for (int half = (n) / 2; half >= (last);                                         \
                                 half /= 2) for (int l = 0; l < half; l++)(a)[l] += (a)[l + half];

/* double NAME(a, b, c, m, n): the sum over k in [0, n) of EXPRESSION, in lanes of type L: that of the row, or double,
 * where small differences or many decades are summed. */
#define MT__SUM_OF(T, L, NAME, EXPRESSION)                                                                   \
    MT__INLINE double NAME(const T *restrict a, const T *restrict b, const T *restrict c, L m, int64_t n)    \
    {                                                                                                        \
        double total = 0;                                                                                    \
        int64_t i = 0;                                                                                       \
        (void)a, (void)b, (void)c, (void)m;                                                                  \
        while (n - i >= MT__LANES) {                                                                         \
            int64_t end = n - i < MT__CHUNK ? i + (n - i) / MT__LANES * MT__LANES : i + MT__CHUNK;           \
            L lane[MT__LANES] = {0};                                                                         \
            for (; i < end; i += MT__LANES)                                                                  \
                for (int l = 0; l < MT__LANES; l++) {                                                        \
                    int64_t k = i + l;                                                                       \
                    lane[l] += (EXPRESSION);                                                                 \
                }                                                                                            \
            double wide[8];                                                                                  \
            MT__ADD_HALVES(lane, MT__LANES, 8)                                                               \
            for (int l = 0; l < 8; l++)                                                                      \
                wide[l] = (double)lane[l];                                                                   \
            MT__ADD_HALVES(wide, 8, 1)                                                                       \
            total += wide[0];                                                                                \
        }                                                                                                    \
        for (int64_t k = i; k < n; k++)                                                                      \
            total += (double)(EXPRESSION);                                                                   \
        return total;                                                                                        \
    }

/* T NAME(x, n): the largest of n; -inf if there is none. NaN is skipped. */
#define MT__MAX_OF(T, NAME)                                                                                  \
    MT__INLINE T NAME(const T *restrict x, int64_t n)                                                        \
    {                                                                                                        \
        T lane[MT__LANES], m;                                                                                \
        int64_t i = 0;                                                                                       \
        for (int l = 0; l < MT__LANES; l++)                                                                  \
            lane[l] = -(T)INFINITY;                                                                          \
        for (; i + MT__LANES <= n; i += MT__LANES)                                                           \
            for (int l = 0; l < MT__LANES; l++)                                                              \
                lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];                                           \
        _Pragma("GCC unroll 8") for (int half = MT__LANES / 2; half > 0;                                     \
                                     half /= 2) for (int l = 0; l < half; l++) lane[l] =                     \
            lane[l + half] > lane[l] ? lane[l + half] : lane[l];                                             \
        for (m = lane[0]; i < n; i++)                                                                        \
            m = x[i] > m ? x[i] : m;                                                                         \
        return m;                                                                                            \
    }

#endif
