/* runtime/kernels/cpu/losses.c - elementwise losses of two or three tensors, and nll_loss.
 *
 * Operands are first cast, broadcast and made contiguous (usually they already are). A reduced loss is summed
 * in parts of fixed size, each in double, so that its value does not depend on the number of threads.
 */
#include "runtime/kernels/cpu/clones.h"
#include "runtime/kernels/cpu/vector_math.h"
#include "runtime/ops/reduce.h"
#include <math.h>
#include <stdlib.h>

#define PART (1 << 14)
enum {
    NONE,
    MEAN,
    SUM
};

/* --------------------------------------------------------------------------------------------- operands */

#define OPERANDS 4
typedef struct operands {
    mt_tensor *held[OPERANDS]; /* owned; contiguous, of the shape and dtype of the loss; NULL: not given */
    const void *data[OPERANDS];
    mt_status status;
} operands;

static mt_status fit(const mt_tensor *t, mt_dtype dtype, int rank, const int64_t *dims, mt_tensor **out)
{
    mt_tensor *cast;
    mt_status status = mt__cast(t, dtype, &cast);
    if (status != MT_OK)
        return status;
    status = mt__contiguous_as(cast, rank, dims, out);
    mt_release(cast);
    return status;
}

static void take(operands *o, int at, const mt_tensor *t, mt_dtype dtype, int rank, const int64_t *dims)
{
    if (t == NULL || o->status != MT_OK)
        return;
    o->status = fit(t, dtype, rank, dims, &o->held[at]);
    if (o->status == MT_OK)
        o->data[at] = o->held[at]->data;
}

static void drop(operands *o)
{
    for (int i = 0; i < OPERANDS; i++)
        mt_release(o->held[i]);
}

/* ---------------------------------------------------------------------------------------------- the loops */

typedef struct job {
    const void *const *in; /* self, target, weight, pos_weight */
    void *out;             /* NULL: reduced */
    double *parts;
    double parameter; /* beta */
    int64_t n;
    double (*loop)(const struct job *j, int64_t begin, int64_t end);
    const void *grad; /* of a backward */
    bool grad_is_one; /* a single gradient for all */
    double scale;     /* of a backward */
} job;

/* x, t: self and target; w: the weight or 1; p: the positive weight or 1. */
#define FORWARD(name, T, S, EXPRESSION)                                                                      \
    MT__CLONES static double name##_##S(const job *j, int64_t begin, int64_t end)                            \
    {                                                                                                        \
        const T *restrict a = j->in[0], *restrict b = j->in[1], *restrict weight = j->in[2],                 \
                          *restrict positive = j->in[3];                                                     \
        T *restrict out = j->out;                                                                            \
        const T beta = (T)j->parameter;                                                                      \
        double total = 0;                                                                                    \
        (void)beta;                                                                                          \
        (void)positive;                                                                                      \
        (void)weight;                                                                                        \
        T buffer[256];                                                                                       \
        for (int64_t i = begin; i < end; i += 256) {                                                         \
            int64_t m = end - i < 256 ? end - i : 256;                                                       \
            for (int64_t k = 0; k < m; k++) {                                                                \
                T x = a[i + k], t = b[i + k];                                                                \
                buffer[k] = (EXPRESSION);                                                                    \
            }                                                                                                \
            if (weight != NULL)                                                                              \
                for (int64_t k = 0; k < m; k++)                                                              \
                    buffer[k] *= weight[i + k];                                                              \
            if (out != NULL) {                                                                               \
                memcpy(out + i, buffer, (size_t)m * sizeof(T));                                              \
                continue;                                                                                    \
            }                                                                                                \
            double lane[8] = {0};                                                                            \
            int64_t k = 0;                                                                                   \
            for (; k + 8 <= m; k += 8)                                                                       \
                for (int l = 0; l < 8; l++)                                                                  \
                    lane[l] += (double)buffer[k + l];                                                        \
            for (; k < m; k++)                                                                               \
                lane[0] += (double)buffer[k];                                                                \
            for (int l = 0; l < 8; l++)                                                                      \
                total += lane[l];                                                                            \
        }                                                                                                    \
        return total;                                                                                        \
    }
#define BACKWARD(name, T, S, EXPRESSION)                                                                     \
    MT__CLONES static double name##_##S(const job *j, int64_t begin, int64_t end)                            \
    {                                                                                                        \
        const T *restrict a = j->in[0], *restrict b = j->in[1], *restrict weight = j->in[2],                 \
                          *restrict grad = j->grad;                                                          \
        T *restrict out = j->out;                                                                            \
        const T beta = (T)j->parameter, scale = (T)j->scale, one = j->grad_is_one ? grad[0] * scale : scale; \
        (void)beta;                                                                                          \
        for (int64_t i = begin; i < end; i++) {                                                              \
            T x = a[i], t = b[i];                                                                            \
            out[i] = (EXPRESSION)*one;                                                                       \
        }                                                                                                    \
        if (!j->grad_is_one)                                                                                 \
            for (int64_t i = begin; i < end; i++)                                                            \
                out[i] *= grad[i];                                                                           \
        if (weight != NULL)                                                                                  \
            for (int64_t i = begin; i < end; i++)                                                            \
                out[i] *= weight[i];                                                                         \
        return 0;                                                                                            \
    }
#define BOTH(KIND, name, EXPRESSION_F, EXPRESSION_D)                                                         \
    KIND(name, float, f, EXPRESSION_F)                                                                       \
    KIND(name, double, d, EXPRESSION_D)

#define ABS(v) ((v) < 0 ? -(v) : (v))
#define MSE ((x - t) * (x - t))
BOTH(FORWARD, mse, MSE, MSE)
#define MSE_BACK (2 * (x - t))
BOTH(BACKWARD, mse_back, MSE_BACK, MSE_BACK)
#define SMOOTH (ABS(x - t) < beta ? (x - t) * (x - t) / (2 * beta) : ABS(x - t) - beta / 2)
BOTH(FORWARD, smooth, SMOOTH, SMOOTH)
#define SMOOTH_BACK                                                                                          \
    (x - t <= -beta ? (x - t < 0 ? -1 : 0) : x - t >= beta ? (x - t > 0 ? 1 : 0) : (x - t) / beta)
BOTH(BACKWARD, smooth_back, SMOOTH_BACK, SMOOTH_BACK)
#define LOG_F(v) (logf(v) > -100 ? logf(v) : -100)
#define LOG_D(v) (log(v) > -100 ? log(v) : -100)
#define LOG1P_F(v) (log1pf(v) > -100 ? log1pf(v) : -100)
#define LOG1P_D(v) (log1p(v) > -100 ? log1p(v) : -100)
BOTH(FORWARD, bce, (t - 1) * LOG1P_F(-x) - t * LOG_F(x), (t - 1) * LOG1P_D(-x) - t * LOG_D(x))
#define BCE_BACK(T) ((x - t) / ((1 - x) * x > (T)1e-12 ? (1 - x) * x : (T)1e-12))
BOTH(BACKWARD, bce_back, BCE_BACK(float), BCE_BACK(double))
/* -log(sigmoid(x)) is log1p(exp(-|x|)) + max(-x, 0) */
#define POSITIVE (positive != NULL ? (positive[i + k] - 1) * t + 1 : 1)
BOTH(FORWARD, bce_logits, (1 - t) * x + POSITIVE * (log1pf(mt__expf(-ABS(x))) + (x < 0 ? -x : 0)),
     (1 - t) * x + POSITIVE * (log1p(exp(-ABS(x))) + (x < 0 ? -x : 0)))
BOTH(FORWARD, xlogy, t != t ? t : x == 0 ? 0 : x * logf(t), t != t ? t : x == 0 ? 0 : x * log(t))

/* Are all within [0, 1]? */
#define WITHIN(T, S)                                                                                         \
    static bool within_##S(const void *data, int64_t begin, int64_t end)                                     \
    {                                                                                                        \
        const T *x = data;                                                                                   \
        bool yes = true;                                                                                     \
        for (int64_t i = begin; i < end; i++)                                                                \
            yes &= x[i] >= 0 && x[i] <= 1;                                                                   \
        return yes;                                                                                          \
    }
WITHIN(float, f)
WITHIN(double, d)

typedef double loop_fn(const job *j, int64_t begin, int64_t end);

/* ------------------------------------------------------------------------------------------------- running */

static void run_parts(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    for (int64_t p = begin; p < end; p++) {
        int64_t from = p * PART, to = from + PART < j->n ? from + PART : j->n;
        double total = j->loop(j, from, to);
        if (j->parts != NULL)
            j->parts[p] = total;
    }
}

/* Runs the loop over everything; *total gets the sum. */
static mt_status run(job *j, double *total)
{
    int64_t parts = (j->n + PART - 1) / PART;
    double few[64];
    *total = 0;
    j->parts = parts <= 64 ? few : malloc((size_t)parts * sizeof *j->parts);
    if (j->parts == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a loss of %lld elements", (long long)j->n);
    if (parts == 1)
        run_parts(0, 1, j);
    else if (parts > 1)
        mt__parallel(parts, 1, run_parts, j);
    for (int64_t i = 0; i < parts; i++)
        *total += j->parts[i];
    if (j->parts != few)
        free(j->parts);
    return MT_OK;
}

static void put(mt_tensor *t, double value)
{
    if (t->dtype == MT_FLOAT32)
        *(float *)t->data = (float)value;
    else
        *(double *)t->data = value;
}

/* The dims of all operands together. */
static int joined(const mt__call *call, unsigned first, unsigned count, int64_t *dims)
{
    int rank = 0;
    for (unsigned i = first; i < first + count; i++) {
        const mt_tensor *t = mt__arg_tensor(call, i);
        if (t != NULL)
            (void)mt__broadcast(rank, dims, t->rank, t->dims, &rank,
                                dims); /* infer checked that they broadcast */
    }
    return rank;
}

/* Arguments 0 to count - 1 through the loops of float and double. */
static mt_status forward(mt__call *call, unsigned count, int64_t reduction, double parameter,
                         loop_fn *const loops[2], bool probabilities)
{
    int64_t dims[MT_MAX_RANK] = {0};
    int rank = joined(call, 0, count, dims);
    mt_dtype dtype = (mt_dtype)call->outs[0]->dtype;
    operands o = {.status = MT_OK};
    double total = 0;
    for (unsigned i = 0; i < count; i++)
        take(&o, (int)i, mt__arg_tensor(call, i), dtype, rank, dims);
    job j = {.in = o.data,
             .out = reduction == NONE ? call->outs[0]->data : NULL,
             .n = mt__numel(rank, dims),
             .parameter = parameter,
             .loop = loops[dtype == MT_FLOAT64]};
    bool (*within)(const void *, int64_t, int64_t) = dtype == MT_FLOAT64 ? within_d : within_f;
    for (int i = 0; i < 2 && probabilities && o.status == MT_OK; i++)
        if (!within(o.data[i], 0, j.n))
            o.status = mt__fail(MT_E_RUNTIME, "all elements of %s should be between 0 and 1",
                                i == 0 ? "input" : "target");
    if (o.status == MT_OK)
        o.status = run(&j, &total);
    if (o.status == MT_OK && reduction != NONE)
        put(call->outs[0], reduction == MEAN ? total / (double)j.n : total);
    drop(&o);
    return o.status;
}

/* grad, self, target (, weight) */
static mt_status backward(mt__call *call, const mt_tensor *weight, int64_t reduction, double parameter,
                          loop_fn *const loops[2])
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *out = call->outs[0];
    mt_dtype dtype = (mt_dtype)out->dtype;
    bool one = grad->numel == 1;
    operands o = {.status = MT_OK};
    take(&o, 0, mt__arg_tensor(call, 1), dtype, out->rank, out->dims);
    take(&o, 1, mt__arg_tensor(call, 2), dtype, out->rank, out->dims);
    take(&o, 2, weight, dtype, out->rank, out->dims);
    take(&o, 3, grad, dtype, one ? grad->rank : out->rank, one ? grad->dims : out->dims);
    job j = {.in = o.data,
             .out = out->data,
             .grad = o.data[3],
             .grad_is_one = one,
             .n = out->numel,
             .scale = reduction == MEAN ? 1 / (double)out->numel : 1,
             .parameter = parameter,
             .loop = loops[dtype == MT_FLOAT64]};
    double unused;
    if (o.status == MT_OK)
        o.status = run(&j, &unused);
    drop(&o);
    return o.status;
}

mt_status mt__cpu_mse_loss(mt__call *call)
{
    return forward(call, 2, mt__arg_int(call, 2), 0, (loop_fn *const[]){mse_f, mse_d}, false);
}
mt_status mt__cpu_mse_loss_backward(mt__call *call)
{
    return backward(call, NULL, mt__arg_int(call, 3), 0, (loop_fn *const[]){mse_back_f, mse_back_d});
}
mt_status mt__cpu_smooth_l1_loss(mt__call *call)
{
    return forward(call, 2, mt__arg_int(call, 2), mt__arg_number(call, 3),
                   (loop_fn *const[]){smooth_f, smooth_d}, false);
}
mt_status mt__cpu_smooth_l1_loss_backward(mt__call *call)
{
    return backward(call, NULL, mt__arg_int(call, 3), mt__arg_number(call, 4),
                    (loop_fn *const[]){smooth_back_f, smooth_back_d});
}
mt_status mt__cpu_bce(mt__call *call)
{
    return forward(call, 3, mt__arg_int(call, 3), 0, (loop_fn *const[]){bce_f, bce_d}, true);
}
mt_status mt__cpu_bce_backward(mt__call *call)
{
    return backward(call, mt__arg_tensor(call, 3), mt__arg_int(call, 4), 0,
                    (loop_fn *const[]){bce_back_f, bce_back_d});
}
mt_status mt__cpu_bce_logits(mt__call *call)
{
    return forward(call, 4, mt__arg_int(call, 4), 0, (loop_fn *const[]){bce_logits_f, bce_logits_d}, false);
}
mt_status mt__cpu_xlogy(mt__call *call)
{
    return forward(call, 2, NONE, 0, (loop_fn *const[]){xlogy_f, xlogy_d}, false);
}

/* ------------------------------------------------------------------------------------------------ nll_loss */

/* x is [batch, classes, inner], the target [batch, inner]; for a single sample, batch is 1. */
typedef struct nll {
    const void *x, *weight;
    const int64_t *target;
    int64_t batch, classes, inner, ignored;
} nll;

static mt_status open_nll(const mt_tensor *x, const mt_tensor *target, const mt_tensor *weight,
                          int64_t ignored, operands *o, nll *n)
{
    *n = (nll){.batch = 1, .classes = x->dims[x->rank == 1 ? 0 : 1], .inner = 1, .ignored = ignored};
    if (x->rank > 1)
        n->batch = x->dims[0];
    for (int i = 2; i < x->rank; i++)
        n->inner *= x->dims[i];
    take(o, 0, x, (mt_dtype)x->dtype, x->rank, x->dims);
    take(o, 1, target, MT_INT64, target->rank, target->dims);
    if (weight != NULL)
        take(o, 2, weight, (mt_dtype)x->dtype, weight->rank, weight->dims);
    n->x = o->data[0];
    n->target = o->data[1];
    n->weight = o->data[2];
    for (int64_t i = 0; i < n->batch * n->inner && o->status == MT_OK; i++)
        if (n->target[i] != ignored && (n->target[i] < 0 || n->target[i] >= n->classes))
            o->status = mt__fail(MT_E_INDEX, "Target %lld is out of bounds.", (long long)n->target[i]);
    return o->status;
}

#define NLL(T, S)                                                                                            \
    static void nll_##S(const nll *n, T *out, double *total, double *weights)                                \
    {                                                                                                        \
        const T *x = n->x, *w = n->weight;                                                                   \
        for (int64_t b = 0; b < n->batch; b++)                                                               \
            for (int64_t i = 0; i < n->inner; i++) {                                                         \
                int64_t at = b * n->inner + i, c = n->target[at];                                            \
                bool counts = c != n->ignored;                                                               \
                T weight = !counts ? 0 : w != NULL ? w[c] : 1;                                               \
                T loss = counts ? -x[(b * n->classes + c) * n->inner + i] * weight : 0;                      \
                if (out != NULL)                                                                             \
                    out[at] = loss;                                                                          \
                *total += (double)loss;                                                                      \
                *weights += (double)weight;                                                                  \
            }                                                                                                \
    }                                                                                                        \
    static void nll_back_##S(const nll *n, const T *grad, bool each, double scale, T *out)                   \
    {                                                                                                        \
        const T *w = n->weight;                                                                              \
        for (int64_t b = 0; b < n->batch; b++)                                                               \
            for (int64_t i = 0; i < n->inner; i++) {                                                         \
                int64_t at = b * n->inner + i, c = n->target[at];                                            \
                if (c != n->ignored)                                                                         \
                    out[(b * n->classes + c) * n->inner + i] =                                               \
                        (T)(-(double)grad[each ? at : 0] * (w != NULL ? (double)w[c] : 1) * scale);          \
            }                                                                                                \
    }
NLL(float, f)
NLL(double, d)

mt_status mt__cpu_nll_loss(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 0);
    int64_t reduction = mt__arg_int(call, 3);
    bool each = reduction == NONE && x->rank > 1;
    operands o = {.status = MT_OK};
    nll n;
    double total = 0, weights = 0;
    mt_status status =
        open_nll(x, mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), mt__arg_int(call, 4), &o, &n);
    if (status == MT_OK) {
        void *out = each ? call->outs[0]->data : NULL;
        if (x->dtype == MT_FLOAT32)
            nll_f(&n, out, &total, &weights);
        else
            nll_d(&n, out, &total, &weights);
        if (!each)
            put(call->outs[0], reduction == MEAN ? total / weights : total);
        put(call->outs[1], reduction == NONE ? 0 : weights);
    }
    drop(&o);
    return status;
}

mt_status mt__cpu_nll_loss_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *x = mt__arg_tensor(call, 1),
                    *total = mt__arg_tensor(call, 6);
    int64_t reduction = mt__arg_int(call, 4);
    bool each = reduction == NONE && x->rank > 1;
    operands o = {.status = MT_OK};
    nll n;
    double weights =
        x->dtype == MT_FLOAT32 ? (double)*(const float *)total->data : *(const double *)total->data;
    mt_status status =
        open_nll(x, mt__arg_tensor(call, 2), mt__arg_tensor(call, 3), mt__arg_int(call, 5), &o, &n);
    take(&o, 3, grad, (mt_dtype)x->dtype, grad->rank, grad->dims);
    status = o.status;
    if (status == MT_OK) {
        double scale = reduction == MEAN ? 1 / weights : 1;
        memset(call->outs[0]->data, 0, (size_t)x->numel * mt__size_of(x));
        if (x->dtype == MT_FLOAT32)
            nll_back_f(&n, o.data[3], each, scale, call->outs[0]->data);
        else
            nll_back_d(&n, o.data[3], each, scale, call->outs[0]->data);
    }
    drop(&o);
    return status;
}
