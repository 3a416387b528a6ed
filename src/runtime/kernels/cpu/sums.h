/* runtime/kernels/cpu/sums.h - sums over a dense row, for norms and softmax: lanes of the row's type, which the
 * compiler vectorises, are added into a double once per chunk. The order is fixed, so results are, too.
 */
#ifndef RUNTIME_KERNELS_CPU_SUMS_H
#define RUNTIME_KERNELS_CPU_SUMS_H
#include "runtime/kernels/cpu/clones.h"
#include <stdint.h>

#define MT__LANES 16
#define MT__CHUNK 1024

/* double NAME(a, b, c, m, n): the sum over k in [0, n) of EXPRESSION. */
#define MT__SUM_OF(T, NAME, EXPRESSION)                                                                      \
    MT__INLINE double NAME(const T *restrict a, const T *restrict b, const T *restrict c, T m, int64_t n)    \
    {                                                                                                        \
        double total = 0;                                                                                    \
        int64_t i = 0;                                                                                       \
        (void)a, (void)b, (void)c, (void)m;                                                                  \
        while (n - i >= MT__LANES) {                                                                         \
            int64_t end = n - i < MT__CHUNK ? i + (n - i) / MT__LANES * MT__LANES : i + MT__CHUNK;           \
            T lane[MT__LANES] = {0};                                                                         \
            for (; i < end; i += MT__LANES)                                                                  \
                for (int l = 0; l < MT__LANES; l++) {                                                        \
                    int64_t k = i + l;                                                                       \
                    lane[l] += (EXPRESSION);                                                                 \
                }                                                                                            \
            for (int l = 0; l < MT__LANES; l++)                                                              \
                total += (double)lane[l];                                                                    \
        }                                                                                                    \
        for (int64_t k = i; k < n; k++)                                                                      \
            total += (double)(EXPRESSION);                                                                   \
        return total;                                                                                        \
    }

#endif
