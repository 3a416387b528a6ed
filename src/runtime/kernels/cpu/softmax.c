/* runtime/kernels/cpu/softmax.c - softmax and log_softmax over one dim, and their derivatives.
 *
 * A tensor is made contiguous and read as [outer, n, inner]. With inner 1 a row is dense and its
 * elements are the lanes; else up to BLOCK neighbours in inner are reduced together. Sums are kept in
 * double between chunks.
 */
#pragma GCC optimize("fp-contract=fast")
#include "runtime/kernels/cpu/sums.h"
#include "runtime/kernels/cpu/vector_math.h"
#include "runtime/runtime.h"
#include <math.h>

#define BLOCK 64
#define GRAIN (1 << 14)

typedef struct job {
    const void *a, *b; /* the input; or the gradient and the output */
    void *to;
    int64_t n, inner, blocks;
} job;

/* Where block b begins, and its width. */
static int64_t block_at(const job *j, int64_t b, int64_t *at)
{
    int64_t c = b % j->blocks * BLOCK;
    *at = b / j->blocks * j->n * j->inner + c;
    return j->inner - c < BLOCK ? j->inner - c : BLOCK;
}

#define EXP_F(x) mt__expf(x)
#define EXP_D(x) mt__exp64(x)

#define SOFTMAX(T, S, EXP)                                                                                   \
    MT__MAX_OF(T, max_##S)                                                                                   \
    MT__SUM_OF(T, T, sum_##S, a[k])                                                                          \
    MT__SUM_OF(T, T, dot_##S, a[k] * b[k])                                                                   \
    MT__SUM_OF(T, T, exps_##S, EXP(a[k] - m))                                                                \
    MT__CLONES static void soft_rows_##S(int64_t begin, int64_t end, const job *j, bool logs)                \
    {                                                                                                        \
        const int64_t n = j->n, many = MT__TOGETHER(n);                                                      \
        const bool direct = logs && n >= MT__LANES; /* else the exponentials are kept */                     \
        for (int64_t first = begin; first < end; first += many) {                                            \
            const int64_t rows = end - first < many ? end - first : many;                                    \
            const T *restrict x = (const T *)j->a + first * n;                                               \
            T *restrict y = (T *)j->to + first * n;                                                          \
            T m[MT__MOST_TOGETHER];                                                                          \
            double total[MT__MOST_TOGETHER];                                                                 \
            for (int64_t r = 0; r < rows; r++)                                                               \
                m[r] = max_##S(x + r * n, n);                                                                \
            for (int64_t r = 0; r < rows && !direct; r++)                                                    \
                for (int64_t i = r * n; i < (r + 1) * n; i++)                                                \
                    y[i] = EXP(x[i] - m[r]);                                                                 \
            for (int64_t r = 0; r < rows; r++)                                                               \
                total[r] = direct ? exps_##S(x + r * n, x, x, m[r], n) : sum_##S(y + r * n, y, y, 0, n);     \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                const T shift = (T)(logs ? log(total[r]) : 0), scale = (T)(1 / total[r]);                    \
                if (logs)                                                                                    \
                    for (int64_t i = r * n; i < (r + 1) * n; i++)                                            \
                        y[i] = x[i] - m[r] - shift;                                                          \
                else                                                                                         \
                    for (int64_t i = r * n; i < (r + 1) * n; i++)                                            \
                        y[i] *= scale;                                                                       \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    MT__CLONES static void soft_block_##S(const T *restrict x, T *restrict y, int64_t n, int64_t step,       \
                                          int64_t w, bool logs)                                              \
    {                                                                                                        \
        T m[BLOCK], total[BLOCK];                                                                            \
        for (int64_t c = 0; c < w; c++) {                                                                    \
            m[c] = -(T)INFINITY;                                                                             \
            total[c] = 0;                                                                                    \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                      \
            for (int64_t c = 0; c < w; c++)                                                                  \
                m[c] = x[i * step + c] > m[c] ? x[i * step + c] : m[c];                                      \
        for (int64_t i = 0; i < n; i++)                                                                      \
            for (int64_t c = 0; c < w; c++) {                                                                \
                T e = EXP(x[i * step + c] - m[c]);                                                           \
                y[i * step + c] = e;                                                                         \
                total[c] += e;                                                                               \
            }                                                                                                \
        for (int64_t c = 0; c < w; c++)                                                                      \
            total[c] = logs ? (T)log((double)total[c]) : 1 / total[c];                                       \
        for (int64_t i = 0; i < n; i++)                                                                      \
            for (int64_t c = 0; c < w; c++)                                                                  \
                y[i * step + c] = logs ? x[i * step + c] - m[c] - total[c] : y[i * step + c] * total[c];     \
    }                                                                                                        \
    MT__CLONES static void back_rows_##S(int64_t begin, int64_t end, const job *j, bool logs)                \
    {                                                                                                        \
        int64_t n = j->n;                                                                                    \
        for (int64_t r = begin; r < end; r++) {                                                              \
            const T *restrict g = (const T *)j->a + r * n, *restrict y = (const T *)j->b + r * n;            \
            T *restrict out = (T *)j->to + r * n;                                                            \
            T total = (T)(logs ? sum_##S(g, g, g, 0, n) : dot_##S(g, y, y, 0, n));                           \
            if (logs)                                                                                        \
                for (int64_t i = 0; i < n; i++)                                                              \
                    out[i] = g[i] - EXP(y[i]) * total;                                                       \
            else                                                                                             \
                for (int64_t i = 0; i < n; i++)                                                              \
                    out[i] = y[i] * (g[i] - total);                                                          \
        }                                                                                                    \
    }                                                                                                        \
    MT__CLONES static void back_block_##S(const T *restrict g, const T *restrict y, T *restrict out,         \
                                          int64_t n, int64_t step, int64_t w, bool logs)                     \
    {                                                                                                        \
        T total[BLOCK] = {0};                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                      \
            for (int64_t c = 0; c < w; c++)                                                                  \
                total[c] += logs ? g[i * step + c] : g[i * step + c] * y[i * step + c];                      \
        for (int64_t i = 0; i < n; i++)                                                                      \
            for (int64_t c = 0; c < w; c++) {                                                                \
                int64_t k = i * step + c;                                                                    \
                out[k] = logs ? g[k] - EXP(y[k]) * total[c] : y[k] * (g[k] - total[c]);                      \
            }                                                                                                \
    }                                                                                                        \
    static void run_soft_##S(int64_t begin, int64_t end, const job *j, bool logs)                            \
    {                                                                                                        \
        for (int64_t b = begin; b < end; b++) {                                                              \
            int64_t at, w = block_at(j, b, &at);                                                             \
            soft_block_##S((const T *)j->a + at, (T *)j->to + at, j->n, j->inner, w, logs);                  \
        }                                                                                                    \
    }                                                                                                        \
    static void run_back_##S(int64_t begin, int64_t end, const job *j, bool logs)                            \
    {                                                                                                        \
        for (int64_t b = begin; b < end; b++) {                                                              \
            int64_t at, w = block_at(j, b, &at);                                                             \
            back_block_##S((const T *)j->a + at, (const T *)j->b + at, (T *)j->to + at, j->n, j->inner, w,   \
                           logs);                                                                            \
        }                                                                                                    \
    }
SOFTMAX(float, f, EXP_F)
SOFTMAX(double, d, EXP_D)

typedef struct work {
    job j;
    void (*run)(int64_t begin, int64_t end, const job *j, bool logs);
    bool logs;
} work;

static void run_part(int64_t begin, int64_t end, void *user)
{
    const work *w = user;
    w->run(begin, end, &w->j, w->logs);
}

/* Sets the layout of the tensor, and the function: by rows or blocks; for float or double. */
static void start(work *w, const mt_tensor *t, int dim,
                  void (*const runs[4])(int64_t, int64_t, const job *, bool))
{
    mt__split s = mt__split_at(t, dim);
    w->j.n = s.n;
    w->j.inner = s.inner;
    if (t->numel == 0)
        return;
    bool blocks = w->j.inner > 1;
    w->j.blocks = (w->j.inner + BLOCK - 1) / BLOCK;
    w->run = runs[(blocks ? 2 : 0) + (t->dtype == MT_FLOAT64)];
    int64_t items = blocks ? s.outer * w->j.blocks : s.outer, weight = w->j.n * (blocks ? BLOCK : 1);
    if (t->numel <= GRAIN)
        run_part(0, items, w);
    else
        mt__parallel(items, weight < GRAIN ? GRAIN / weight : 1, run_part, w);
}

static mt_status forward(mt__call *call, bool logs)
{
    static void (*const runs[4])(int64_t, int64_t, const job *, bool) = {soft_rows_f, soft_rows_d, run_soft_f,
                                                                         run_soft_d};
    mt_tensor *x;
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), mt__arg_tensor(call, 0)->rank, &dim);
    if (status == MT_OK)
        status = mt__contiguous(mt__arg_tensor(call, 0), &x);
    if (status != MT_OK)
        return status;
    work w = {.j = {.a = x->data, .to = call->outs[0]->data}, .logs = logs};
    start(&w, x, dim, runs);
    mt_release(x);
    return MT_OK;
}

static mt_status backward(mt__call *call, bool logs)
{
    static void (*const runs[4])(int64_t, int64_t, const job *, bool) = {back_rows_f, back_rows_d, run_back_f,
                                                                         run_back_d};
    mt_tensor *g, *y;
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 2), mt__arg_tensor(call, 0)->rank, &dim);
    if (status == MT_OK)
        status = mt__contiguous(mt__arg_tensor(call, 0), &g);
    if (status != MT_OK)
        return status;
    status = mt__contiguous(mt__arg_tensor(call, 1), &y);
    if (status == MT_OK) {
        work w = {.j = {.a = g->data, .b = y->data, .to = call->outs[0]->data}, .logs = logs};
        start(&w, g, dim, runs);
        mt_release(y);
    }
    mt_release(g);
    return status;
}

mt_status mt__cpu_softmax(mt__call *call)
{
    return forward(call, false);
}
mt_status mt__cpu_log_softmax(mt__call *call)
{
    return forward(call, true);
}
mt_status mt__cpu_softmax_backward(mt__call *call)
{
    return backward(call, false);
}
mt_status mt__cpu_log_softmax_backward(mt__call *call)
{
    return backward(call, true);
}
