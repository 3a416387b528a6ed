/* runtime/kernels/cpu/norms.c - layer_norm over dense rows, batch_norm over channels [N, C, inner], and
 * their derivatives.
 *
 * Inputs are first made contiguous. Means and variances take two passes; lanes of the tensor's type are
 * summed into double per chunk. Sums over rows (gradients of weight and bias) are split by columns, so
 * threads share no accumulator and results do not depend on the number of threads.
 */
#pragma GCC optimize("fp-contract=fast")
#include "runtime/kernels/cpu/sums.h"
#include "runtime/runtime.h"
#include <math.h>

#define COLUMNS 64
#define ROWS 32
#define GRAIN (1 << 14)

/* The inputs and outputs of the loops; not all are set for each. */
typedef struct job {
    const void *x, *grad, *weight, *bias, *mean, *rstd; /* weight, bias: may be NULL */
    void *y, *to_mean, *to_rstd, *grad_x, *grad_weight, *grad_bias;
    int64_t rows, n;                /* layer_norm */
    int64_t batch, channels, inner; /* batch_norm */
    double eps, momentum;
    bool training;
    mt_tensor *running_mean, *running_var;
} job;

#define SUMS(T, S)                                                                                           \
    MT__SUM_OF(T, T, sum_##S, a[k])                                                                          \
    MT__SUM_OF(T, T, spread_##S, (a[k] - m) * (a[k] - m))                                                    \
    MT__SUM_OF(T, T, dot_##S, a[k] * b[k])                                                                   \
    MT__SUM_OF(T, T, dev_dot_##S, a[k] * (b[k] - m))                                                         \
    MT__SUM_OF(T, T, dev_dot3_##S, a[k] * c[k] * (b[k] - m))
SUMS(float, f)
SUMS(double, d)

/* 1 / sqrt(variance). The squares of large elements overflow: then relative to the largest one, beside which eps is nothing. */
#define RSTD(T, S)                                                                                           \
    static T rstd_##S(const T *x, T mean, double variance, int64_t n)                                        \
    {                                                                                                        \
        double largest = 0, sum = 0;                                                                         \
        if (MT__LIKELY(variance < INFINITY))                                                                 \
            return (T)(1 / sqrt(variance));                                                                  \
        for (int64_t i = 0; i < n; i++) { /* not by fmax: gcc 12 for arm64 fails to compile that */          \
            double far = fabs((double)x[i] - (double)mean);                                                  \
            largest = far > largest ? far : largest;                                                         \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            double part = ((double)x[i] - (double)mean) / largest;                                           \
            sum += part * part;                                                                              \
        }                                                                                                    \
        return (T)(1 / (largest * sqrt(sum / (double)n)));                                                   \
    }
RSTD(float, f)
RSTD(double, d)

#define LAYER_NORM(T, S)                                                                                     \
    MT__INLINE void layer_norm_row_##S(const job *j, int64_t r, T mean, T rstd)                              \
    {                                                                                                        \
        const T *restrict w = j->weight, *restrict b = j->bias, *restrict x = (const T *)j->x + r * j->n;    \
        T *restrict y = (T *)j->y + r * j->n;                                                                \
        if (w != NULL && b != NULL)                                                                          \
            for (int64_t i = 0; i < j->n; i++)                                                               \
                y[i] = (x[i] - mean) * rstd * w[i] + b[i];                                                   \
        else                                                                                                 \
            for (int64_t i = 0; i < j->n; i++)                                                               \
                y[i] = (x[i] - mean) * rstd * (w != NULL ? w[i] : 1) + (b != NULL ? b[i] : 0);               \
    }                                                                                                        \
    MT__CLONES static void layer_norm_##S(int64_t begin, int64_t end, const job *j)                          \
    {                                                                                                        \
        const int64_t n = j->n;                                                                              \
        T *mean = j->to_mean, *rstd = j->to_rstd;                                                            \
        for (int64_t first = begin, last; first < end; first = last) {                                       \
            const T *x = j->x;                                                                               \
            double variance[MT__MOST_TOGETHER];                                                              \
            last = first + MT__TOGETHER(n) < end ? first + MT__TOGETHER(n) : end;                            \
            for (int64_t r = first; r < last; r++)                                                           \
                mean[r] = (T)(sum_##S(x + r * n, x, x, 0, n) / (double)n);                                   \
            for (int64_t r = first; r < last; r++)                                                           \
                variance[r - first] = spread_##S(x + r * n, x, x, mean[r], n) / (double)n + j->eps;          \
            for (int64_t r = first; r < last; r++)                                                           \
                rstd[r] = rstd_##S(x + r * n, mean[r], variance[r - first], n);                              \
            for (int64_t r = first; r < last; r++)                                                           \
                layer_norm_row_##S(j, r, mean[r], rstd[r]);                                                  \
        }                                                                                                    \
    }                                                                                                        \
    MT__INLINE void layer_norm_back_row_##S(const job *j, int64_t r, double ds, double db)                   \
    {                                                                                                        \
        const int64_t n = j->n;                                                                              \
        const T *restrict w = j->weight, *restrict x = (const T *)j->x + r * n;                              \
        const T *restrict g = (const T *)j->grad + r * n;                                                    \
        T *restrict gx = (T *)j->grad_x + r * n;                                                             \
        T mean = ((const T *)j->mean)[r], rstd = ((const T *)j->rstd)[r];                                    \
        T slope = (T)(ds * (double)rstd * (double)rstd * (double)rstd / (double)n),                          \
          shift = (T)(db * (double)rstd / (double)n);                                                        \
        if (w != NULL)                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                  \
                gx[i] = g[i] * w[i] * rstd - (x[i] - mean) * slope - shift;                                  \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                  \
                gx[i] = g[i] * rstd - (x[i] - mean) * slope - shift;                                         \
    }                                                                                                        \
    MT__CLONES static void layer_norm_back_##S(int64_t begin, int64_t end, const job *j)                     \
    {                                                                                                        \
        const T *w = j->weight;                                                                              \
        const int64_t n = j->n;                                                                              \
        for (int64_t first = begin, last; first < end; first = last) {                                       \
            double ds[MT__MOST_TOGETHER], db[MT__MOST_TOGETHER];                                             \
            last = first + MT__TOGETHER(n) < end ? first + MT__TOGETHER(n) : end;                            \
            for (int64_t r = first; r < last; r++) {                                                         \
                const T *x = (const T *)j->x + r * n, *g = (const T *)j->grad + r * n;                       \
                T mean = ((const T *)j->mean)[r];                                                            \
                ds[r - first] = w != NULL ? dev_dot3_##S(g, x, w, mean, n) : dev_dot_##S(g, x, x, mean, n);  \
                db[r - first] = w != NULL ? dot_##S(g, w, w, 0, n) : sum_##S(g, g, g, 0, n);                 \
            }                                                                                                \
            for (int64_t r = first; r < last; r++)                                                           \
                layer_norm_back_row_##S(j, r, ds[r - first], db[r - first]);                                 \
        }                                                                                                    \
    }                                                                                                        \
    MT__CLONES static void layer_norm_params_##S(int64_t begin, int64_t end, const job *j)                   \
    {                                                                                                        \
        for (int64_t block = begin; block < end; block++) {                                                  \
            int64_t at = block * COLUMNS, w = j->n - at < COLUMNS ? j->n - at : COLUMNS;                     \
            double total[COLUMNS] = {0}, total_bias[COLUMNS] = {0};                                          \
            for (int64_t r = 0; r < j->rows; r += ROWS) {                                                    \
                T lane[COLUMNS] = {0}, lane_bias[COLUMNS] = {0};                                             \
                for (int64_t k = r; k < j->rows && k < r + ROWS; k++) {                                      \
                    const T *restrict x = (const T *)j->x + k * j->n + at;                                   \
                    const T *restrict g = (const T *)j->grad + k * j->n + at;                                \
                    T mean = ((const T *)j->mean)[k], rstd = ((const T *)j->rstd)[k];                        \
                    for (int64_t c = 0; c < w; c++) {                                                        \
                        lane[c] += g[c] * (x[c] - mean) * rstd;                                              \
                        lane_bias[c] += g[c];                                                                \
                    }                                                                                        \
                }                                                                                            \
                for (int64_t c = 0; c < w; c++) {                                                            \
                    total[c] += (double)lane[c];                                                             \
                    total_bias[c] += (double)lane_bias[c];                                                   \
                }                                                                                            \
            }                                                                                                \
            for (int64_t c = 0; c < w; c++) {                                                                \
                if (j->grad_weight != NULL)                                                                  \
                    ((T *)j->grad_weight)[at + c] = (T)total[c];                                             \
                if (j->grad_bias != NULL)                                                                    \
                    ((T *)j->grad_bias)[at + c] = (T)total_bias[c];                                          \
            }                                                                                                \
        }                                                                                                    \
    }
LAYER_NORM(float, f)
LAYER_NORM(double, d)

/* Mean and 1/std of channel c, which also update the running ones. */
#define BATCH_NORM(T, S)                                                                                     \
    MT__INLINE void channel_stats_##S(const job *j, int64_t c, double *mean, double *rstd)                   \
    {                                                                                                        \
        int64_t n = j->batch * j->inner, step = j->channels * j->inner;                                      \
        const T *x = (const T *)j->x + c * j->inner;                                                         \
        T *rm =                                                                                              \
            j->running_mean != NULL ? (T *)j->running_mean->data + c * j->running_mean->strides[0] : NULL;   \
        T *rv = j->running_var != NULL ? (T *)j->running_var->data + c * j->running_var->strides[0] : NULL;  \
        if (!j->training) {                                                                                  \
            *mean = (double)*rm;                                                                             \
            *rstd = 1 / sqrt((double)*rv + j->eps);                                                          \
            return;                                                                                          \
        }                                                                                                    \
        double total = 0, spread = 0;                                                                        \
        for (int64_t b = 0; b < j->batch; b++)                                                               \
            total += sum_##S(x + b * step, x, x, 0, j->inner);                                               \
        *mean = total / (double)n;                                                                           \
        for (int64_t b = 0; b < j->batch; b++)                                                               \
            spread += spread_##S(x + b * step, x, x, (T)*mean, j->inner);                                    \
        *rstd = 1 / sqrt(spread / (double)n + j->eps);                                                       \
        ((T *)j->to_mean)[c] = (T)*mean;                                                                     \
        ((T *)j->to_rstd)[c] = (T)*rstd;                                                                     \
        if (rm != NULL)                                                                                      \
            *rm = (T)(j->momentum * *mean + (1 - j->momentum) * (double)*rm);                                \
        if (rv != NULL)                                                                                      \
            *rv = (T)(j->momentum * (spread / (double)(n - 1)) + (1 - j->momentum) * (double)*rv);           \
    }                                                                                                        \
    MT__CLONES static void batch_norm_##S(int64_t begin, int64_t end, const job *j)                          \
    {                                                                                                        \
        for (int64_t c = begin; c < end; c++) {                                                              \
            double mean, rstd;                                                                               \
            channel_stats_##S(j, c, &mean, &rstd);                                                           \
            double w = j->weight != NULL ? (double)((const T *)j->weight)[c] : 1;                            \
            double shift = j->bias != NULL ? (double)((const T *)j->bias)[c] : 0;                            \
            T scale = (T)(rstd * w), offset = (T)(shift - mean * rstd * w);                                  \
            for (int64_t b = 0; b < j->batch; b++) {                                                         \
                const T *restrict x = (const T *)j->x + (b * j->channels + c) * j->inner;                    \
                T *restrict y = (T *)j->y + (b * j->channels + c) * j->inner;                                \
                for (int64_t i = 0; i < j->inner; i++)                                                       \
                    y[i] = x[i] * scale + offset;                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    MT__CLONES static void batch_norm_back_##S(int64_t begin, int64_t end, const job *j)                     \
    {                                                                                                        \
        double n = (double)(j->batch * j->inner);                                                            \
        for (int64_t c = begin; c < end; c++) {                                                              \
            double w = j->weight != NULL ? (double)((const T *)j->weight)[c] : 1, sum = 0, dot = 0;          \
            T mean, rstd;                                                                                    \
            if (j->training) {                                                                               \
                mean = ((const T *)j->mean)[c];                                                              \
                rstd = ((const T *)j->rstd)[c];                                                              \
            } else {                                                                                         \
                mean = ((const T *)j->running_mean->data)[c * j->running_mean->strides[0]];                  \
                rstd =                                                                                       \
                    (T)(1 / sqrt((double)((const T *)j->running_var->data)[c * j->running_var->strides[0]] + \
                                 j->eps));                                                                   \
            }                                                                                                \
            for (int64_t b = 0; b < j->batch; b++) {                                                         \
                const T *x = (const T *)j->x + (b * j->channels + c) * j->inner;                             \
                const T *g = (const T *)j->grad + (b * j->channels + c) * j->inner;                          \
                sum += sum_##S(g, g, g, 0, j->inner);                                                        \
                dot += dev_dot_##S(g, x, x, mean, j->inner);                                                 \
            }                                                                                                \
            if (j->grad_weight != NULL)                                                                      \
                ((T *)j->grad_weight)[c] = (T)(dot * (double)rstd);                                          \
            if (j->grad_bias != NULL)                                                                        \
                ((T *)j->grad_bias)[c] = (T)sum;                                                             \
            T slope = j->training ? (T)(dot * (double)rstd * (double)rstd / n) : 0,                          \
              shift = j->training ? (T)(sum / n) : 0;                                                        \
            T scale = (T)((double)rstd * w);                                                                 \
            for (int64_t b = 0; b < j->batch && j->grad_x != NULL; b++) {                                    \
                const T *restrict x = (const T *)j->x + (b * j->channels + c) * j->inner;                    \
                const T *restrict g = (const T *)j->grad + (b * j->channels + c) * j->inner;                 \
                T *restrict gx = (T *)j->grad_x + (b * j->channels + c) * j->inner;                          \
                for (int64_t i = 0; i < j->inner; i++)                                                       \
                    gx[i] = (g[i] - shift - (x[i] - mean) * slope) * scale;                                  \
            }                                                                                                \
        }                                                                                                    \
    }
BATCH_NORM(float, f)
BATCH_NORM(double, d)

/* ----------------------------------------------------------------------------------------------- the calls */

typedef struct work {
    const job *j;
    void (*run)(int64_t begin, int64_t end, const job *j);
} work;

static void run_part(int64_t begin, int64_t end, void *user)
{
    const work *w = user;
    w->run(begin, end, w->j);
}

/* items of `weight` elements each */
static void go(const job *j, void (*run)(int64_t, int64_t, const job *), int64_t items, int64_t weight)
{
    work w = {j, run};
    if (items * weight <= GRAIN)
        run(0, items, j);
    else
        mt__parallel(items, weight < GRAIN ? GRAIN / weight : 1, run_part, &w);
}

static void *data_of(const mt_tensor *t)
{
    return t != NULL ? t->data : NULL;
}

static const void *hold(mt__held *h, const mt_tensor *t)
{
    return data_of(mt__hold(h, t));
}

mt_status mt__cpu_layer_norm(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 0);
    mt__held h = {.status = MT_OK};
    job j = {.x = hold(&h, x),
             .weight = hold(&h, mt__arg_tensor(call, 2)),
             .bias = hold(&h, mt__arg_tensor(call, 3)),
             .y = call->outs[0]->data,
             .to_mean = call->outs[1]->data,
             .to_rstd = call->outs[2]->data,
             .rows = call->outs[1]->numel,
             .n = mt__numel((int)call->args[1].count, call->args[1].as.ints),
             .eps = mt__arg_number(call, 4)};
    if (h.status == MT_OK)
        go(&j, x->dtype == MT_FLOAT32 ? layer_norm_f : layer_norm_d, j.rows, j.n > 0 ? j.n : 1);
    return mt__let_go(&h);
}

mt_status mt__cpu_layer_norm_backward(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 1);
    bool single = x->dtype == MT_FLOAT32;
    mt__held h = {.status = MT_OK};
    job j = {.grad = hold(&h, mt__arg_tensor(call, 0)),
             .x = hold(&h, x),
             .mean = hold(&h, mt__arg_tensor(call, 3)),
             .rstd = hold(&h, mt__arg_tensor(call, 4)),
             .weight = hold(&h, mt__arg_tensor(call, 5)),
             .grad_x = data_of(call->outs[0]),
             .grad_weight = data_of(call->outs[1]),
             .grad_bias = data_of(call->outs[2]),
             .rows = mt__arg_tensor(call, 3)->numel,
             .n = mt__numel((int)call->args[2].count, call->args[2].as.ints)};
    if (h.status == MT_OK && j.grad_x != NULL && x->numel > 0)
        go(&j, single ? layer_norm_back_f : layer_norm_back_d, j.rows, j.n);
    if (h.status == MT_OK && (j.grad_weight != NULL || j.grad_bias != NULL))
        go(&j, single ? layer_norm_params_f : layer_norm_params_d, (j.n + COLUMNS - 1) / COLUMNS,
           j.rows * COLUMNS);
    return mt__let_go(&h);
}

static void set_channels(job *j, const mt_tensor *x)
{
    j->batch = x->dims[0];
    j->channels = x->dims[1];
    j->inner = mt__numel(x->rank - 2, x->dims + 2);
}

mt_status mt__cpu_batch_norm(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 0);
    mt__held h = {.status = MT_OK};
    job j = {.x = hold(&h, x),
             .weight = hold(&h, mt__arg_tensor(call, 1)),
             .bias = hold(&h, mt__arg_tensor(call, 2)),
             .running_mean = mt__arg_tensor(call, 3),
             .running_var = mt__arg_tensor(call, 4),
             .training = mt__arg_int(call, 5) != 0,
             .momentum = mt__arg_number(call, 6),
             .eps = mt__arg_number(call, 7),
             .y = call->outs[0]->data,
             .to_mean = call->outs[1]->data,
             .to_rstd = call->outs[2]->data};
    set_channels(&j, x);
    if (h.status == MT_OK)
        go(&j, x->dtype == MT_FLOAT32 ? batch_norm_f : batch_norm_d, j.channels, j.batch * j.inner + 1);
    return mt__let_go(&h);
}

mt_status mt__cpu_batch_norm_backward(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 1);
    mt__held h = {.status = MT_OK};
    job j = {.grad = hold(&h, mt__arg_tensor(call, 0)),
             .x = hold(&h, x),
             .weight = hold(&h, mt__arg_tensor(call, 2)),
             .running_mean = mt__arg_tensor(call, 3),
             .running_var = mt__arg_tensor(call, 4),
             .mean = hold(&h, mt__arg_tensor(call, 5)),
             .rstd = hold(&h, mt__arg_tensor(call, 6)),
             .training = mt__arg_int(call, 7) != 0,
             .eps = mt__arg_number(call, 8),
             .grad_x = data_of(call->outs[0]),
             .grad_weight = data_of(call->outs[1]),
             .grad_bias = data_of(call->outs[2])};
    set_channels(&j, x);
    if (h.status == MT_OK)
        go(&j, x->dtype == MT_FLOAT32 ? batch_norm_back_f : batch_norm_back_d, j.channels,
           j.batch * j.inner + 1);
    return mt__let_go(&h);
}
