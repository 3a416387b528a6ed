/* kernels/cpu/conv_depth.c - the implementation of conv_depth.h.
 *
 * Some rows of results are computed together, 16 columns at a time. Each row of the image that they need is loaded
 * once for each column of the kernel, and used for all results that it belongs to.
 */
#include "runtime/kernels/cpu/conv_depth.h"
#include "runtime/kernels/cpu/clones.h"
#ifdef __x86_64__
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx2,fma")))
#define INLINE MT__INLINE AVX512
#define UNROLLED(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

/* A plane of results and the plane that it is computed from. */
typedef struct planes {
    int64_t out[2], in[2], padding[2];
} planes;

/* Lanes l for which from + l * step lies in [0, n). */
INLINE __mmask16 lanes_inside(int64_t from, int64_t step, int64_t n)
{
    int64_t begin, end;
    mt__inside(16, step, from, n, &begin, &end);
    return (__mmask16)((1u << end) - (1u << begin));
}

/* Which lanes lie in the image: of the load, of the second load for stride 2, of the values that are used. */
typedef struct masks {
    __mmask16 first, second, used;
} masks;

INLINE masks masks_at(int64_t x, int stride, int64_t n)
{
    return (masks){lanes_inside(x, 1, n), stride == 2 ? lanes_inside(x + 16, 1, n) : 0,
                   lanes_inside(x, stride, n)};
}

INLINE __m512 load(const float *from, masks m, int stride)
{
    __m512 low = _mm512_maskz_loadu_ps(m.first, from);
    if (stride == 1)
        return low;
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_ps(low, even, _mm512_maskz_loadu_ps(m.second, from + 16));
}

/* K: of the kernel, S: stride, ROWS: of results, at a time; all constants. */
INLINE void results(const planes *p, const float *in, const float *w, float bias, float *out, int K, int S,
                    int ROWS)
{
    masks m[5];
    for (int64_t x = 0; x < p->out[1]; x += 16) {
        const __mmask16 kept = lanes_inside(x, 1, p->out[1]);
        const int64_t left = x * S - p->padding[1];
        UNROLLED(kx, K)
        m[kx] = masks_at(left + kx, S, p->in[1]);
        for (int64_t y = 0; y < p->out[0]; y += ROWS) {
            __m512 acc[8];
            UNROLLED(r, ROWS)
            acc[r] = _mm512_set1_ps(bias);
            UNROLLED(d, S * (ROWS - 1) + K)
            {
                const int64_t row = y * S - p->padding[0] + d;
                if (row < 0 || row >= p->in[0])
                    continue;
                UNROLLED(kx, K)
                {
                    __m512 v = load(in + row * p->in[1] + left + kx, m[kx], S);
                    UNROLLED(r, ROWS)
                    if (d - S * r >= 0 && d - S * r < K)
                        acc[r] = _mm512_mask3_fmadd_ps(v, _mm512_set1_ps(w[(d - S * r) * K + kx]), acc[r],
                                                       m[kx].used);
                }
            }
            UNROLLED(r, ROWS)
            if (y + r < p->out[0])
                _mm512_mask_storeu_ps(out + (y + r) * p->out[1] + x, kept, acc[r]);
        }
    }
}

/* Adds the products of one plane to sums, for each tap. */
INLINE void products(const planes *p, const float *in, const float *grad, __m512 *sums, int K, int S,
                     int ROWS)
{
    masks m[5];
    for (int64_t x = 0; x < p->out[1]; x += 16) {
        const __mmask16 kept = lanes_inside(x, 1, p->out[1]);
        const int64_t left = x * S - p->padding[1];
        UNROLLED(kx, K)
        m[kx] = masks_at(left + kx, S, p->in[1]);
        for (int64_t y = 0; y < p->out[0]; y += ROWS) {
            __m512 g[8];
            UNROLLED(r, ROWS)
            g[r] = _mm512_maskz_loadu_ps(y + r < p->out[0] ? kept : 0, grad + (y + r) * p->out[1] + x);
            UNROLLED(d, S * (ROWS - 1) + K)
            {
                const int64_t row = y * S - p->padding[0] + d;
                if (row < 0 || row >= p->in[0])
                    continue;
                UNROLLED(kx, K)
                {
                    __m512 v = load(in + row * p->in[1] + left + kx, m[kx], S);
                    UNROLLED(r, ROWS)
                    if (d - S * r >= 0 && d - S * r < K)
                        sums[(d - S * r) * K + kx] =
                            _mm512_mask3_fmadd_ps(v, g[r], sums[(d - S * r) * K + kx], m[kx].used & kept);
                }
            }
        }
    }
}

/* The gradient of the image for stride 2: each lane of a gradient goes to every second column, ODD: padding % 2. */
INLINE void spread(const planes *p, const float *in, const float *w, float *out, int K, int ODD)
{
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0),
                  high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    __mmask16 m[5];
    int64_t at[5];
    for (int64_t x = 0; x < p->out[1]; x += 32) {
        const __mmask16 kept = lanes_inside(x, 1, p->out[1]), more = lanes_inside(x + 16, 1, p->out[1]);
        UNROLLED(kx, K)
        {
            at[kx] = (x + ((ODD + kx) & 1) + p->padding[1] - kx) / 2; /* exact */
            m[kx] = lanes_inside(at[kx], 1, p->in[1]);
        }
        for (int64_t y = 0; y < p->out[0]; y++) {
            __m512 acc[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}; /* even and odd columns */
            for (int64_t ky = (y + p->padding[0]) % 2; ky < K; ky += 2) {
                const int64_t row = (y + p->padding[0] - ky) / 2;
                if (row < 0 || row >= p->in[0])
                    continue;
                UNROLLED(kx, K)
                {
                    __m512 v = _mm512_maskz_loadu_ps(m[kx], in + row * p->in[1] + at[kx]);
                    acc[(ODD + kx) & 1] =
                        _mm512_mask3_fmadd_ps(v, _mm512_set1_ps(w[ky * K + kx]), acc[(ODD + kx) & 1], m[kx]);
                }
            }
            float *to = out + y * p->out[1] + x;
            _mm512_mask_storeu_ps(to, kept, _mm512_permutex2var_ps(acc[0], low, acc[1]));
            _mm512_mask_storeu_ps(to + 16, more, _mm512_permutex2var_ps(acc[0], high, acc[1]));
        }
    }
}

typedef void spread_fn(const planes *p, const float *in, const float *w, float *out);
typedef void results_fn(const planes *p, const float *in, const float *w, float bias, float *out);
typedef void weights_fn(const mt__conv *c, int64_t channel, const float *grad, const float *input,
                        float *grad_weight);

#define DEPTH(K, S, ROWS)                                                                                    \
    AVX512 static void results_##K##_##S##_##ROWS(const planes *p, const float *in, const float *w,          \
                                                  float bias, float *out)                                    \
    {                                                                                                        \
        results(p, in, w, bias, out, K, S, ROWS);                                                            \
    }
#define DEPTH_SPREAD(K, ODD)                                                                                 \
    AVX512 static void spread_##K##_##ODD(const planes *p, const float *in, const float *w, float *out)      \
    {                                                                                                        \
        spread(p, in, w, out, K, ODD);                                                                       \
    }
#define DEPTH_WEIGHT(K, S, ROWS)                                                                             \
    AVX512 static void weights_##K##_##S(const mt__conv *c, int64_t channel, const float *grad,              \
                                         const float *input, float *grad_weight)                             \
    {                                                                                                        \
        const planes p = {{c->out[0], c->out[1]}, {c->in[0], c->in[1]}, {c->padding[0], c->padding[1]}};     \
        __m512 sums[(K) * (K)];                                                                              \
        UNROLLED(t, (K) * (K))                                                                               \
        sums[t] = _mm512_setzero_ps();                                                                       \
        for (int64_t i = channel; i < c->images * c->in_channels; i += c->in_channels)                       \
            products(&p, input + i * p.in[0] * p.in[1], grad + i * p.out[0] * p.out[1], sums, K, S, ROWS);   \
        UNROLLED(t, (K) * (K))                                                                               \
        grad_weight[channel * (K) * (K) + t] = _mm512_reduce_add_ps(sums[t]);                                \
    }
DEPTH(3, 1, 4)
DEPTH(3, 1, 7)
DEPTH(3, 2, 4)
DEPTH(3, 2, 7)
DEPTH(5, 1, 4)
DEPTH(5, 1, 7)
DEPTH(5, 2, 4)
DEPTH(5, 2, 7)
DEPTH_SPREAD(3, 0)
DEPTH_SPREAD(3, 1)
DEPTH_SPREAD(5, 0)
DEPTH_SPREAD(5, 1)
DEPTH_WEIGHT(3, 1, 4)
DEPTH_WEIGHT(3, 2, 4)
DEPTH_WEIGHT(5, 1, 2)
DEPTH_WEIGHT(5, 2, 2)

/* [kernel][stride - 1][rows are a multiple of 7] */
static results_fn *const of_results[2][2][2] = {
    {{results_3_1_4, results_3_1_7}, {results_3_2_4, results_3_2_7}},
    {{results_5_1_4, results_5_1_7}, {results_5_2_4, results_5_2_7}}};
static weights_fn *const of_weights[2][2] = {{weights_3_1, weights_3_2}, {weights_5_1, weights_5_2}};

/* [kernel][padding % 2] */
static spread_fn *const of_spread[2][2] = {{spread_3_0, spread_3_1}, {spread_5_0, spread_5_1}};

bool mt__depth_fits(const mt__conv *c)
{
    bool fits = c->groups == c->in_channels && c->groups == c->out_channels && c->stride[0] == c->stride[1] &&
                c->stride[0] <= 2 && c->kernel[0] == c->kernel[1] && (c->kernel[0] == 3 || c->kernel[0] == 5);
    for (int d = 0; d < 2; d++)
        fits = fits && c->dilation[d] == 1 && c->padding[d] < c->kernel[d] && c->out[d] > 0;
    return fits && __builtin_cpu_supports("avx512f");
}

void mt__depth_forward(const mt__conv *c, int64_t first, int64_t last, const float *input,
                       const float *weight, const float *bias, float *output)
{
    const planes p = {{c->out[0], c->out[1]}, {c->in[0], c->in[1]}, {c->padding[0], c->padding[1]}};
    const int64_t taps = c->kernel[0] * c->kernel[1];
    results_fn *fn = of_results[c->kernel[0] == 5][c->stride[0] - 1][c->out[0] % 7 == 0];
    for (int64_t i = first; i < last; i++) {
        int64_t channel = i % c->in_channels;
        fn(&p, input + i * p.in[0] * p.in[1], weight + channel * taps, bias != NULL ? bias[channel] : 0,
           output + i * p.out[0] * p.out[1]);
    }
}

static void spread_planes(const mt__conv *c, int64_t first, int64_t last, const float *grad,
                          const float *weight, float *grad_input)
{
    const planes p = {{c->in[0], c->in[1]}, {c->out[0], c->out[1]}, {c->padding[0], c->padding[1]}};
    const int64_t taps = c->kernel[0] * c->kernel[1];
    for (int64_t i = first; i < last; i++)
        of_spread[c->kernel[0] == 5][c->padding[1] % 2](&p, grad + i * p.in[0] * p.in[1],
                                                        weight + (i % c->in_channels) * taps,
                                                        grad_input + i * p.out[0] * p.out[1]);
}

/* For stride 1 a convolution of the gradient with the kernel turned round. */
void mt__depth_backward_input(const mt__conv *c, int64_t first, int64_t last, const float *grad,
                              const float *weight, float *grad_input)
{
    if (c->stride[0] == 2) {
        spread_planes(c, first, last, grad, weight, grad_input);
        return;
    }
    const planes p = {{c->in[0], c->in[1]},
                      {c->out[0], c->out[1]},
                      {c->kernel[0] - 1 - c->padding[0], c->kernel[1] - 1 - c->padding[1]}};
    const int64_t taps = c->kernel[0] * c->kernel[1];
    results_fn *fn = of_results[c->kernel[0] == 5][0][c->in[0] % 7 == 0];
    for (int64_t i = first; i < last; i++) {
        float turned[25];
        for (int64_t t = 0; t < taps; t++)
            turned[t] = weight[(i % c->in_channels) * taps + taps - 1 - t];
        fn(&p, grad + i * p.in[0] * p.in[1], turned, 0, grad_input + i * p.out[0] * p.out[1]);
    }
}

void mt__depth_backward_weight(const mt__conv *c, int64_t first, int64_t last, const float *grad,
                               const float *input, float *grad_weight)
{
    weights_fn *fn = of_weights[c->kernel[0] == 5][c->stride[0] - 1];
    for (int64_t channel = first; channel < last; channel++)
        fn(c, channel, grad, input, grad_weight);
}
#else
bool mt__depth_fits(const mt__conv *c)
{
    (void)c;
    return false;
}

/* Never called. */
void mt__depth_forward(const mt__conv *c, int64_t first, int64_t last, const float *input,
                       const float *weight, const float *bias, float *output)
{
    (void)c, (void)first, (void)last, (void)input, (void)weight, (void)bias, (void)output;
}

void mt__depth_backward_input(const mt__conv *c, int64_t first, int64_t last, const float *grad,
                              const float *weight, float *grad_input)
{
    (void)c, (void)first, (void)last, (void)grad, (void)weight, (void)grad_input;
}

void mt__depth_backward_weight(const mt__conv *c, int64_t first, int64_t last, const float *grad,
                               const float *input, float *grad_weight)
{
    (void)c, (void)first, (void)last, (void)grad, (void)input, (void)grad_weight;
}
#endif
