/* runtime/kernels/cpu/rows.c - reductions that need a whole row: var, std, norms, logsumexp; and cumsum.
 *
 * The reduced dims are moved last and made contiguous (mt__rows_of), so that every output depends
 * on one dense row.
 */
#pragma GCC optimize("fp-contract=fast")
#include "runtime/kernels/cpu/sums.h"
#include "runtime/kernels/cpu/vector_math.h"
#include "runtime/ops/reduce.h"
#include <math.h>

#define GRAIN (1 << 14)

typedef struct job {
    const void *from;
    void *to;
    int64_t n;
    double parameter; /* the correction, the order of a norm */
    bool root;        /* std */
    void (*run)(int64_t begin, int64_t end, const struct job *j);
} job;

static double extreme_f64(double best, double v, bool largest)
{
    return best != best ? best : v != v ? v : (largest ? v > best : v < best) ? v : best;
}

#define V ((double)a[k]) /* differences are of double, and so are sums: no mean is rounded */

#define ROWS(T, S, EXP)                                                                                      \
    MT__SUM_OF(T, double, beyond_##S, V - m)                                                                 \
    MT__SUM_OF(T, double, spread_##S, (V - m) * (V - m))                                                     \
    MT__SUM_OF(T, double, squares_##S, V *V)                                                                 \
    MT__SUM_OF(T, double, absolutes_##S, fabs(V))                                                            \
    MT__SUM_OF(T, double, nonzeros_##S, V != 0 ? 1.0 : 0.0)                                                  \
    MT__SUM_OF(T, double, powers_##S, pow(fabs(V), m))                                                       \
    MT__SUM_OF(T, T, exps_##S, EXP(a[k] - m))                                                                \
    MT__MAX_OF(T, max_##S)                                                                                   \
    MT__CLONES static void var_##S(int64_t begin, int64_t end, const job *j)                                 \
    {                                                                                                        \
        for (int64_t r = begin; r < end; r++) {                                                              \
            const T *x = (const T *)j->from + r * j->n;                                                      \
            double n = (double)j->n, free = n - j->parameter;                                                \
            /* relative to the first, so that equal elements have no spread at all */                        \
            double first = j->n > 0 ? (double)x[0] : 0;                                                      \
            double mean = first + beyond_##S(x, x, x, first, j->n) / n;                                      \
            double var = spread_##S(x, x, x, mean, j->n) / (free > 0 && n > 0 ? free : 0);                   \
            ((T *)j->to)[r] = (T)(j->root ? sqrt(var) : var);                                                \
        }                                                                                                    \
    }                                                                                                        \
    MT__CLONES static void norm_##S(int64_t begin, int64_t end, const job *j)                                \
    {                                                                                                        \
        double p = j->parameter;                                                                             \
        for (int64_t r = begin; r < end; r++) {                                                              \
            const T *x = (const T *)j->from + r * j->n;                                                      \
            double v = isinf(p) && p < 0 ? INFINITY : 0;                                                     \
            if (isinf(p))                                                                                    \
                for (int64_t i = 0; i < j->n; i++)                                                           \
                    v = extreme_f64(v, fabs((double)x[i]), p > 0);                                           \
            else                                                                                             \
                v = p == 2   ? sqrt(squares_##S(x, x, x, 0, j->n))                                           \
                    : p == 1 ? absolutes_##S(x, x, x, 0, j->n)                                               \
                    : p == 0 ? nonzeros_##S(x, x, x, 0, j->n)                                                \
                             : pow(powers_##S(x, x, x, p, j->n), 1 / p);                                     \
            ((T *)j->to)[r] = (T)v;                                                                          \
        }                                                                                                    \
    }                                                                                                        \
    MT__CLONES static void logsumexp_##S(int64_t begin, int64_t end, const job *j)                           \
    {                                                                                                        \
        for (int64_t r = begin; r < end; r++) {                                                              \
            const T *x = (const T *)j->from + r * j->n;                                                      \
            T m = max_##S(x, j->n);                                                                          \
            m = isinf(m) ? 0 : m;                                                                            \
            ((T *)j->to)[r] = (T)(log(exps_##S(x, x, x, m, j->n)) + (double)m);                              \
        }                                                                                                    \
    }
ROWS(float, f, mt__expf)
ROWS(double, d, mt__exp64)

static void run_part(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    j->run(begin, end, j);
}

static mt_status run(mt__call *call, job *j, void (*single)(int64_t, int64_t, const job *),
                     void (*twice)(int64_t, int64_t, const job *))
{
    mt__reduction r;
    mt_tensor *cast, *rows = NULL, *out = call->outs[0];
    mt_status status = mt__reduction_of(call, &r);
    if (status != MT_OK)
        return status;
    status = mt__cast(mt__arg_tensor(call, 0), (mt_dtype)out->dtype, &cast);
    if (status != MT_OK)
        return status;
    status = mt__rows_of(cast, r.mask, &rows);
    if (status == MT_OK) {
        j->from = rows->data;
        j->to = out->data;
        j->n = r.count;
        j->run = out->dtype == MT_FLOAT32 ? single : twice;
        int64_t weight = r.count > 0 ? r.count : 1;
        if (out->numel * weight <= GRAIN)
            j->run(0, out->numel, j);
        else
            mt__parallel(out->numel, weight < GRAIN ? GRAIN / weight : 1, run_part, j);
    }
    mt_release(rows);
    mt_release(cast);
    return status;
}

static mt_status variance(mt__call *call, bool root)
{
    job j = {.parameter = mt__arg_given(call, 2) ? mt__arg_number(call, 2) : 1, .root = root};
    return run(call, &j, var_f, var_d);
}
mt_status mt__cpu_var(mt__call *call)
{
    return variance(call, false);
}
mt_status mt__cpu_std(mt__call *call)
{
    return variance(call, true);
}
mt_status mt__cpu_vector_norm(mt__call *call)
{
    job j = {.parameter = mt__arg_number(call, 1)};
    return run(call, &j, norm_f, norm_d);
}
mt_status mt__cpu_logsumexp(mt__call *call)
{
    job j = {0};
    return run(call, &j, logsumexp_f, logsumexp_d);
}

/* ------------------------------------------------------------------------------------------------- cumsum */

#define COLUMNS 64 /* summed together */
#define TOGETHER 4 /* rows: their sums do not wait for each other */

typedef struct sums_job {
    const void *from;
    void *to;
    int64_t n, inner;
} sums_job;

#define CUMSUM(sym, T, A)                                                                                    \
    MT__CLONES static void cumsum_columns_##sym(const T *restrict x, T *restrict to, int64_t n,              \
                                                int64_t step, int64_t w)                                     \
    {                                                                                                        \
        A total[COLUMNS] = {0};                                                                              \
        for (int64_t k = 0; k < n; k++, x += step, to += step)                                               \
            for (int64_t i = 0; i < w; i++) {                                                                \
                total[i] = (A)(total[i] + (A)x[i]);                                                          \
                to[i] = (T)total[i];                                                                         \
            }                                                                                                \
    }                                                                                                        \
    static void cumsum_rows_##sym(const T *restrict x, T *restrict to, int64_t n, int64_t rows)              \
    {                                                                                                        \
        for (; rows >= TOGETHER; rows -= TOGETHER, x += TOGETHER * n, to += TOGETHER * n) {                  \
            A total[TOGETHER] = {0};                                                                         \
            for (int64_t k = 0; k < n; k++)                                                                  \
                for (int r = 0; r < TOGETHER; r++) {                                                         \
                    total[r] = (A)(total[r] + (A)x[r * n + k]);                                              \
                    to[r * n + k] = (T)total[r];                                                             \
                }                                                                                            \
        }                                                                                                    \
        for (; rows > 0; rows--, x += n, to += n) {                                                          \
            A total = 0;                                                                                     \
            for (int64_t k = 0; k < n; k++) {                                                                \
                total = (A)(total + (A)x[k]);                                                                \
                to[k] = (T)total;                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void cumsum_##sym(int64_t begin, int64_t end, void *user)                                         \
    {                                                                                                        \
        const sums_job *j = user;                                                                            \
        int64_t at = begin * j->n * j->inner;                                                                \
        const T *x = (const T *)j->from + at;                                                                \
        T *to = (T *)j->to + at;                                                                             \
        if (j->inner == 1) {                                                                                 \
            cumsum_rows_##sym(x, to, j->n, end - begin);                                                     \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t o = begin; o < end; o++, x += j->n * j->inner, to += j->n * j->inner)                   \
            for (int64_t i = 0; i < j->inner; i += COLUMNS)                                                  \
                cumsum_columns_##sym(x + i, to + i, j->n, j->inner,                                          \
                                     j->inner - i < COLUMNS ? j->inner - i : COLUMNS);                       \
    }
CUMSUM(BOOL, bool, uint64_t)
CUMSUM(INT32, int32_t, uint64_t)
CUMSUM(INT64, int64_t, uint64_t)
CUMSUM(FLOAT32, float, double)
CUMSUM(FLOAT64, double, double)

mt_status mt__cpu_cumsum(mt__call *call)
{
    mt_tensor *cast, *x, *out = call->outs[0];
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), out->rank, &dim);
    if (status == MT_OK)
        status = mt__cast(mt__arg_tensor(call, 0), (mt_dtype)out->dtype, &cast);
    if (status != MT_OK)
        return status;
    status = mt__contiguous(cast, &x);
    mt_release(cast);
    if (status != MT_OK)
        return status;
    mt__split s = mt__split_at(out, dim);
    static void (*const runs[MT_DTYPES])(int64_t, int64_t, void *) = {cumsum_BOOL, cumsum_INT32, cumsum_INT64,
                                                                      cumsum_FLOAT32, cumsum_FLOAT64};
    sums_job j = {x->data, out->data, s.n, s.inner};
    int64_t weight = s.n * s.inner;
    if (out->numel > 0)
        mt__parallel(s.outer, weight < GRAIN ? GRAIN / weight : 1, runs[out->dtype], &j);
    mt_release(x);
    return MT_OK;
}
