/* kernels/cpu/conv_tiles.c - the implementation of conv_tiles.h. */
#pragma GCC optimize("fp-contract=fast")
#include "runtime/kernels/cpu/conv_tiles.h"
#include <stddef.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* Vectors are read and written one by one, else GCC keeps the arrays in memory. */
#define UNROLLED(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#define LANES(vector) ((int)(sizeof(vector) / sizeof(float)))

/* out[i][v] = sum over p < k of a[p][i] * b[shift[p] + v * gap...], for vectors v */
#define TILE(name, vector, ROWS, WIDE, TARGET)                                                               \
    TARGET static void name(int64_t k, const float *restrict a, const float *restrict b, int64_t gap,        \
                            const int64_t *restrict shift, float *restrict out)                              \
    {                                                                                                        \
        vector acc[ROWS][WIDE], x[WIDE];                                                                     \
        UNROLLED(i, ROWS)                                                                                    \
        UNROLLED(v, WIDE)                                                                                    \
        acc[i][v] = (vector){0};                                                                             \
        for (int64_t p = 0; p < k; p++, a += (ROWS)) {                                                       \
            UNROLLED(v, WIDE)                                                                                \
            memcpy(&x[v], b + shift[p] + v * gap, sizeof x[v]);                                              \
            UNROLLED(i, ROWS)                                                                                \
            UNROLLED(v, WIDE)                                                                                \
            acc[i][v] += a[i] * x[v];                                                                        \
        }                                                                                                    \
        UNROLLED(i, ROWS)                                                                                    \
        UNROLLED(v, WIDE)                                                                                    \
        memcpy(out + (i * (WIDE) + v) * LANES(vector), &acc[i][v], sizeof acc[i][v]);                        \
    }

/* out[i][c] = sum over p < k of a[p][c] * b[shift[p] + i] */
#define PIXELS(name, vector, N, WIDE, TARGET)                                                                \
    TARGET static void name(int64_t k, const float *restrict a, const float *restrict b,                     \
                            const int64_t *restrict shift, float *restrict out)                              \
    {                                                                                                        \
        vector acc[N][WIDE], w[WIDE];                                                                        \
        UNROLLED(i, N)                                                                                       \
        UNROLLED(v, WIDE)                                                                                    \
        acc[i][v] = (vector){0};                                                                             \
        for (int64_t p = 0; p < k; p++, a += (WIDE)*LANES(vector)) {                                         \
            const float *x = b + shift[p];                                                                   \
            UNROLLED(v, WIDE)                                                                                \
            memcpy(&w[v], a + v * LANES(vector), sizeof w[v]);                                               \
            UNROLLED(i, N)                                                                                   \
            UNROLLED(v, WIDE)                                                                                \
            acc[i][v] += x[i] * w[v];                                                                        \
        }                                                                                                    \
        UNROLLED(i, N)                                                                                       \
        UNROLLED(v, WIDE)                                                                                    \
        memcpy(out + (i * (WIDE) + v) * LANES(vector), &acc[i][v], sizeof acc[i][v]);                        \
    }
/* sums[i][c] += sum over pixels of g[y][x][c] * b[shift[i] + y * row + x] */
#define OUTER(name, vector, N, WIDE, TARGET)                                                                 \
    TARGET static void name(const mt__outer *o, const float *restrict g, const float *restrict b,            \
                            const int64_t *restrict shift, float *restrict sums)                             \
    {                                                                                                        \
        vector acc[N][WIDE], w[WIDE];                                                                        \
        UNROLLED(i, N)                                                                                       \
        UNROLLED(v, WIDE)                                                                                    \
        memcpy(&acc[i][v], sums + (i * (WIDE) + v) * LANES(vector), sizeof acc[i][v]);                       \
        for (int64_t image = 0; image < o->images; image++) {                                                \
            const float *restrict pixel = g + image * o->g_image, *row = b + image * o->b_image;             \
            for (int64_t y = 0; y < o->height; y++, row += o->row)                                           \
                for (int64_t x = 0; x < o->width; x++, pixel += (WIDE)*LANES(vector)) {                      \
                    UNROLLED(v, WIDE)                                                                        \
                    memcpy(&w[v], pixel + v * LANES(vector), sizeof w[v]);                                   \
                    UNROLLED(i, N)                                                                           \
                    UNROLLED(v, WIDE)                                                                        \
                    acc[i][v] += row[shift[i] + x] * w[v];                                                   \
                }                                                                                            \
        }                                                                                                    \
        UNROLLED(i, N)                                                                                       \
        UNROLLED(v, WIDE)                                                                                    \
        memcpy(sums + (i * (WIDE) + v) * LANES(vector), &acc[i][v], sizeof acc[i][v]);                       \
    }
#define TO_6(TILE, name, vector, WIDE, TARGET)                                                               \
    TILE(name##_1, vector, 1, WIDE, TARGET)                                                                  \
    TILE(name##_2, vector, 2, WIDE, TARGET)                                                                  \
    TILE(name##_3, vector, 3, WIDE, TARGET)                                                                  \
    TILE(name##_4, vector, 4, WIDE, TARGET)                                                                  \
    TILE(name##_5, vector, 5, WIDE, TARGET)                                                                  \
    TILE(name##_6, vector, 6, WIDE, TARGET)
#define TO_14(TILE, name, vector, WIDE, TARGET)                                                              \
    TO_6(TILE, name, vector, WIDE, TARGET)                                                                   \
    TILE(name##_7, vector, 7, WIDE, TARGET)                                                                  \
    TILE(name##_8, vector, 8, WIDE, TARGET)                                                                  \
    TILE(name##_9, vector, 9, WIDE, TARGET)                                                                  \
    TILE(name##_10, vector, 10, WIDE, TARGET)                                                                \
    TILE(name##_11, vector, 11, WIDE, TARGET)                                                                \
    TILE(name##_12, vector, 12, WIDE, TARGET)                                                                \
    TILE(name##_13, vector, 13, WIDE, TARGET)                                                                \
    TILE(name##_14, vector, 14, WIDE, TARGET)
#define TO_16(TILE, name, vector, WIDE, TARGET)                                                              \
    TO_14(TILE, name, vector, WIDE, TARGET)                                                                  \
    TILE(name##_15, vector, 15, WIDE, TARGET)                                                                \
    TILE(name##_16, vector, 16, WIDE, TARGET)
#define NAMES_TO_6(name) NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6
#define NAMES_TO_14(name)                                                                                    \
    NAMES_TO_6(name), name##_7, name##_8, name##_9, name##_10, name##_11, name##_12, name##_13, name##_14
#define NAMES_TO_16(name) NAMES_TO_14(name), name##_15, name##_16
#define BOTH(lanes, ONE, TWO, NAMES_ONE, NAMES_TWO, TARGET)                                                  \
    ONE(PIXELS, pixels_##lanes, float##lanes, 1, TARGET)                                                     \
    TWO(PIXELS, pixels2_##lanes, float##lanes, 2, TARGET)                                                    \
    ONE(OUTER, outer_##lanes, float##lanes, 1, TARGET)                                                       \
    TWO(OUTER, outer2_##lanes, float##lanes, 2, TARGET)                                                      \
    static mt__pixels_fn *const by_pixels_##lanes[MT__PIXELS_VECTORS][MT__PIXELS_MAX + 1] = {                \
        {NAMES_ONE(pixels_##lanes)}, {NAMES_TWO(pixels2_##lanes)}};                                          \
    static mt__outer_fn *const by_outer_##lanes[MT__PIXELS_VECTORS][MT__PIXELS_MAX + 1] = {                  \
        {NAMES_ONE(outer_##lanes)}, {NAMES_TWO(outer2_##lanes)}};

/* sums[i][t] = sum over q < n of g[i * step + q] * b[shift[t] + q]; n is a multiple of 16. Over several images. */
#define DOTS(name, vector, GRADS, TAPS, TARGET)                                                              \
    TARGET static void name(const mt__dots *d, const float *restrict g, const float *restrict b,             \
                            const int64_t *restrict shift, float *restrict sums)                             \
    {                                                                                                        \
        vector acc[GRADS][TAPS], x[GRADS], y;                                                                \
        float lane[sizeof(vector) / sizeof(float)];                                                          \
        UNROLLED(i, GRADS)                                                                                   \
        UNROLLED(t, TAPS)                                                                                    \
        acc[i][t] = (vector){0};                                                                             \
        const int64_t n = d->n, step = d->step;                                                              \
        for (int64_t image = 0; image < d->images; image++, g += d->g_image, b += d->b_image)                \
            for (int64_t q = 0; q < n; q += LANES(vector)) {                                                 \
                UNROLLED(i, GRADS)                                                                           \
                memcpy(&x[i], g + i * step + q, sizeof x[i]);                                                \
                UNROLLED(t, TAPS)                                                                            \
                {                                                                                            \
                    memcpy(&y, b + shift[t] + q, sizeof y);                                                  \
                    UNROLLED(i, GRADS)                                                                       \
                    acc[i][t] += x[i] * y;                                                                   \
                }                                                                                            \
            }                                                                                                \
        UNROLLED(i, GRADS)                                                                                   \
        UNROLLED(t, TAPS)                                                                                    \
        {                                                                                                    \
            memcpy(lane, &acc[i][t], sizeof lane);                                                           \
            for (int half = LANES(vector) / 2; half > 0; half /= 2)                                          \
                for (int l = 0; l < half; l++)                                                               \
                    lane[l] += lane[l + half];                                                               \
            sums[i * (TAPS) + t] = lane[0];                                                                  \
        }                                                                                                    \
    }

typedef float float4 __attribute__((vector_size(16)));
TILE(tile_4, float4, 4, 2, )
TILE(line_4, float4, 1, 4, )
DOTS(dots_4, float4, 3, 3, )
DOTS(dots1_4, float4, 1, 4, )
BOTH(4, TO_6, TO_6, NAMES_TO_6, NAMES_TO_6, )
static const mt__tiles plain = {.lanes = 4,
                                .many = {4, 8, tile_4},
                                .few = {4, 8, tile_4},
                                .one = {1, 16, line_4},
                                .grads = 3,
                                .dots = 3,
                                .dots1 = 4,
                                .pixels = {6, 6},
                                .dot = dots_4,
                                .dot1 = dots1_4,
                                .by_pixels = by_pixels_4,
                                .outer = by_outer_4};
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx2,fma")))
typedef float float8 __attribute__((vector_size(32)));
typedef float float16 __attribute__((vector_size(64)));
TILE(tile_8, float8, 6, 2, AVX2)
TILE(few_8, float8, 4, 2, AVX2)
TILE(line_8, float8, 1, 4, AVX2)
DOTS(dots_8, float8, 4, 3, AVX2)
DOTS(dots1_8, float8, 1, 4, AVX2)
TILE(tile_16, float16, 8, 2, AVX512)
TILE(few_16, float16, 4, 4, AVX512)
TILE(line_16, float16, 1, 4, AVX512)
DOTS(dots_16, float16, 4, 6, AVX512)
DOTS(dots1_16, float16, 1, 5, AVX512)
BOTH(8, TO_6, TO_6, NAMES_TO_6, NAMES_TO_6, AVX2)
BOTH(16, TO_16, TO_14, NAMES_TO_16, NAMES_TO_14, AVX512)
static const mt__tiles avx2 = {.lanes = 8,
                               .many = {6, 16, tile_8},
                               .few = {4, 16, few_8},
                               .one = {1, 32, line_8},
                               .grads = 4,
                               .dots = 3,
                               .dots1 = 4,
                               .pixels = {6, 6},
                               .dot = dots_8,
                               .dot1 = dots1_8,
                               .by_pixels = by_pixels_8,
                               .outer = by_outer_8};
static const mt__tiles avx512 = {.lanes = 16,
                                 .many = {8, 32, tile_16},
                                 .few = {4, 64, few_16},
                                 .one = {1, 64, line_16},
                                 .grads = 4,
                                 .dots = 6,
                                 .dots1 = 5,
                                 .pixels = {16, 14},
                                 .dot = dots_16,
                                 .dot1 = dots1_16,
                                 .by_pixels = by_pixels_16,
                                 .outer = by_outer_16};
#endif

const mt__tiles *mt__conv_tiles(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return &avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &avx2;
#endif
    return &plain;
}

void mt__turn_pixels(const float *from, int64_t channels, int64_t channel, int64_t n, int64_t rows, float *to)
{
    int64_t c = 0;
#ifdef __SSE__
    for (; c + 4 <= channels && n >= 4; c += 4)
        for (int64_t i = 0; i < n; i += 4) {
            const float *at = from + c * channel + (i < n - 4 ? i : n - 4); /* the last block overlaps */
            float *block = to + (i < n - 4 ? i : n - 4) * rows + c;
            __m128 x0 = _mm_loadu_ps(at), x1 = _mm_loadu_ps(at + channel),
                   x2 = _mm_loadu_ps(at + 2 * channel), x3 = _mm_loadu_ps(at + 3 * channel);
            _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
            _mm_storeu_ps(block, x0);
            _mm_storeu_ps(block + rows, x1);
            _mm_storeu_ps(block + 2 * rows, x2);
            _mm_storeu_ps(block + 3 * rows, x3);
        }
#endif
    for (; c < channels; c++)
        for (int64_t i = 0; i < n; i++)
            to[i * rows + c] = from[c * channel + i];
}
