/* kernels/opencl/rows.c - softmax, logsumexp, cumsum, layer_norm, batch_norm and their derivatives. */
#include "runtime/kernels/opencl/npu.h"
#include "runtime/ops/reduce.h"

/* X(variant, kernel, defines, dtypes) */
#define VARIANTS(X)                                                                                          \
    X(SOFTMAX, "softmax", "NEED_softmax;LOGS 0", MT__OF_REAL)                                                \
    X(LOG_SOFTMAX, "log_softmax", "NEED_softmax;LOGS 1", MT__OF_REAL)                                        \
    X(SOFTMAX_BACKWARD, "softmax_backward", "NEED_softmax_backward;LOGS 0", MT__OF_REAL)                     \
    X(LOG_SOFTMAX_BACKWARD, "log_softmax_backward", "NEED_softmax_backward;LOGS 1", MT__OF_REAL)             \
    X(LOGSUMEXP, "logsumexp", "NEED_logsumexp", MT__OF_REAL)                                                 \
    X(CUMSUM, "cumsum", "NEED_cumsum", MT__OF_ANY)                                                           \
    X(LAYER_NORM, "layer_norm", "NEED_layer_norm", MT__OF_REAL)                                              \
    X(LAYER_NORM_BACKWARD, "layer_norm_backward", "NEED_layer_norm_backward", MT__OF_REAL)                   \
    X(LAYER_NORM_PARAMS, "layer_norm_params", "NEED_layer_norm_params", MT__OF_REAL)                         \
    X(BATCH_STATISTICS, "batch_norm_statistics", "NEED_batch_statistics", MT__OF_REAL)                       \
    X(BATCH_NORM, "batch_norm", "NEED_batch_norm", MT__OF_REAL)                                              \
    X(BATCH_SUMS, "batch_norm_sums", "NEED_batch_sums", MT__OF_REAL)                                         \
    X(BATCH_NORM_BACKWARD, "batch_norm_backward", "NEED_batch_norm_backward", MT__OF_REAL)
enum {
    VARIANTS(MT__VARIANT_ID)
};
static const mt__variant variants[] = {VARIANTS(MT__VARIANT)};
static const mt__family family = {MT__ROWS, mt__cl_rows, variants, MT__COUNT_OF(variants)};

/* --------------------------------------------------------------------------------------------------- softmax */

static mt_status soft(mt__call *call, unsigned inputs, unsigned variant)
{
    mt_tensor *out = call->outs[0];
    mt__held h = {.status = MT_OK};
    const mt_tensor *x[2] = {NULL, NULL};
    mt__launch l;
    mt__kernel k;
    for (unsigned i = 0; i < inputs; i++)
        x[i] = mt__hold(&h, mt__arg_tensor(call, i));
    if (h.status == MT_OK && out->numel > 0)
        h.status = mt__launch_variant(&l, &k, &family, variant, out);
    if (h.status == MT_OK && out->numel > 0) {
        mt__split s = mt__split_at(out, mt__wrapped_dim(mt__arg_int(call, inputs), out->rank));
        mt__launch_long(&l, s.n);
        mt__launch_long(&l, s.inner);
        for (unsigned i = 0; i < inputs; i++)
            mt__launch_tensor(&l, x[i]);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_rows(&l, &k, s.outer * s.inner);
    }
    return mt__let_go(&h);
}

mt_status mt__npu_softmax(mt__call *call)
{
    return soft(call, 1, call->op->id == MT_OP__log_softmax ? LOG_SOFTMAX : SOFTMAX);
}

mt_status mt__npu_softmax_backward(mt__call *call)
{
    return soft(call, 2,
                call->op->id == MT_OP__log_softmax_backward_data ? LOG_SOFTMAX_BACKWARD : SOFTMAX_BACKWARD);
}

mt_status mt__npu_cumsum(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold_as(&h, mt__arg_tensor(call, 0), (mt_dtype)out->dtype);
    mt__launch l;
    mt__kernel k;
    if (h.status == MT_OK)
        h.status = mt__launch_variant(&l, &k, &family, CUMSUM, out);
    if (h.status == MT_OK && out->numel > 0) {
        mt__split s = mt__split_at(out, mt__wrapped_dim(mt__arg_int(call, 1), out->rank));
        mt__launch_long(&l, s.outer * s.inner);
        mt__launch_long(&l, s.n);
        mt__launch_long(&l, s.inner);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_flat(&l, &k, s.outer * s.inner);
    }
    return mt__let_go(&h);
}

mt_status mt__npu_logsumexp(mt__call *call)
{
    mt_tensor *out = call->outs[0], *x, *rows;
    mt__reduction r;
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = mt__cast(mt__arg_tensor(call, 0), (mt_dtype)out->dtype, &x);
    if (status != MT_OK)
        return status;
    status = mt__rows_of(x, r.mask, &rows);
    mt_release(x);
    if (status != MT_OK)
        return status;
    status = mt__launch_variant(&l, &k, &family, LOGSUMEXP, out);
    if (status == MT_OK) {
        mt__launch_long(&l, r.count);
        mt__launch_long(&l, 1);
        mt__launch_tensor(&l, rows);
        mt__launch_tensor(&l, out);
        status = mt__launch_rows(&l, &k, out->numel);
    }
    mt_release(rows);
    return status;
}

/* ------------------------------------------------------------------------------------------------ layer_norm */

mt_status mt__npu_layer_norm(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt_dtype dtype = (mt_dtype)out->dtype;
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold(&h, mt__arg_tensor(call, 0)), *w = mt__hold(&h, mt__arg_tensor(call, 2)),
                    *b = mt__hold(&h, mt__arg_tensor(call, 3));
    mt__launch l;
    mt__kernel k;
    if (h.status == MT_OK)
        h.status = mt__launch_variant(&l, &k, &family, LAYER_NORM, out);
    if (h.status == MT_OK) {
        mt__launch_long(&l, mt__numel((int)call->args[1].count, call->args[1].as.ints));
        mt__launch_number(&l, dtype, mt__arg_number(call, 4));
        mt__launch_flag(&l, w != NULL);
        mt__launch_flag(&l, b != NULL);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, w != NULL ? w : x);
        mt__launch_tensor(&l, b != NULL ? b : x);
        for (int i = 0; i < 3; i++)
            mt__launch_tensor(&l, call->outs[i]);
        h.status = mt__launch_rows(&l, &k, call->outs[1]->numel);
    }
    return mt__let_go(&h);
}

#define ROWS_AT_ONCE 32

/* Gradients of weight and bias: sums over chunks of rows, then over chunks. */
static mt_status layer_params(mt__call *call, const mt_tensor *g, const mt_tensor *x, const mt_tensor *mean,
                              const mt_tensor *rstd, int64_t n)
{
    int64_t rows = mean->numel, chunks = (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
    mt_dtype dtype = (mt_dtype)x->dtype;
    mt_tensor *parts[2] = {NULL, NULL};
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_variant(&l, &k, &family, LAYER_NORM_PARAMS, x);
    for (int i = 0; i < 2 && status == MT_OK; i++)
        status = mt__empty(dtype, x->device, 2, (int64_t[]){chunks, n}, &parts[i]);
    if (status == MT_OK && n > 0) {
        mt__launch_long(&l, n);
        mt__launch_long(&l, rows);
        mt__launch_long(&l, ROWS_AT_ONCE);
        mt__launch_tensor(&l, g);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, mean);
        mt__launch_tensor(&l, rstd);
        mt__launch_tensor(&l, parts[0]);
        mt__launch_tensor(&l, parts[1]);
        uint64_t local[] = {MT__FLAT, 1}, global[] = {mt__round_up(n, MT__FLAT), (uint64_t)chunks};
        status = mt__launch_run(&l, &k, 2, global, local);
        for (int i = 0; i < 2 && status == MT_OK; i++)
            if (call->outs[i + 1] != NULL)
                status = mt__npu_reduce(MT__SUM, parts[i], 1, chunks, n, call->outs[i + 1], 0);
    }
    mt_release(parts[0]);
    mt_release(parts[1]);
    return status;
}

mt_status mt__npu_layer_norm_backward(mt__call *call)
{
    mt__held h = {.status = MT_OK};
    const mt_tensor *g = mt__hold(&h, mt__arg_tensor(call, 0)), *x = mt__hold(&h, mt__arg_tensor(call, 1)),
                    *mean = mt__hold(&h, mt__arg_tensor(call, 3)),
                    *rstd = mt__hold(&h, mt__arg_tensor(call, 4)), *w = mt__hold(&h, mt__arg_tensor(call, 5));
    int64_t n = mt__numel((int)call->args[2].count, call->args[2].as.ints);
    mt__launch l;
    mt__kernel k;
    if (h.status == MT_OK && call->outs[0] != NULL && x->numel > 0) {
        h.status = mt__launch_variant(&l, &k, &family, LAYER_NORM_BACKWARD, x);
        if (h.status == MT_OK) {
            mt__launch_long(&l, n);
            mt__launch_flag(&l, w != NULL);
            mt__launch_tensor(&l, g);
            mt__launch_tensor(&l, x);
            mt__launch_tensor(&l, mean);
            mt__launch_tensor(&l, rstd);
            mt__launch_tensor(&l, w != NULL ? w : x);
            mt__launch_tensor(&l, call->outs[0]);
            h.status = mt__launch_rows(&l, &k, mean->numel);
        }
    }
    if (h.status == MT_OK && (call->outs[1] != NULL || call->outs[2] != NULL))
        h.status = layer_params(call, g, x, mean, rstd, n);
    return mt__let_go(&h);
}

/* ------------------------------------------------------------------------------------------------ batch_norm */

typedef struct channels {
    int64_t batch, count, inner;
} channels;

static channels channels_of(const mt_tensor *x)
{
    channels c = {x->dims[0], x->dims[1], 1};
    for (int i = 2; i < x->rank; i++)
        c.inner *= x->dims[i];
    return c;
}

static void put_channels(mt__launch *l, const channels *c)
{
    mt__launch_long(l, c->batch);
    mt__launch_long(l, c->count);
    mt__launch_long(l, c->inner);
}

/* Writes running statistics, through dense copies if they are not dense. */
static mt_status batch_statistics(mt__call *call, const mt_tensor *x, const channels *c)
{
    mt_tensor *const running[] = {mt__arg_tensor(call, 3), mt__arg_tensor(call, 4)};
    mt__held h = {.status = MT_OK};
    const mt_tensor *dense[] = {mt__hold(&h, running[0]), mt__hold(&h, running[1])};
    mt__launch l;
    mt__kernel k;
    if (h.status == MT_OK)
        h.status = mt__launch_variant(&l, &k, &family, BATCH_STATISTICS, x);
    if (h.status == MT_OK) {
        put_channels(&l, c);
        mt__launch_number(&l, (mt_dtype)x->dtype, mt__arg_number(call, 7));
        mt__launch_number(&l, (mt_dtype)x->dtype, mt__arg_number(call, 6));
        mt__launch_flag(&l, dense[0] != NULL);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, call->outs[1]);
        mt__launch_tensor(&l, call->outs[2]);
        for (int i = 0; i < 2; i++)
            mt__launch_tensor(&l, dense[i] != NULL ? dense[i] : call->outs[1]);
        h.status = mt__launch_rows(&l, &k, c->count);
    }
    for (int i = 0; i < 2 && h.status == MT_OK; i++)
        if (running[i] != NULL && dense[i] != running[i])
            h.status = mt__npu_assign(running[i], dense[i]);
    return mt__let_go(&h);
}

mt_status mt__npu_batch_norm(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    bool training = mt__arg_int(call, 5) != 0;
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold(&h, mt__arg_tensor(call, 0)), *w = mt__hold(&h, mt__arg_tensor(call, 1)),
                    *b = mt__hold(&h, mt__arg_tensor(call, 2));
    const mt_tensor *mean = training ? call->outs[1] : mt__hold(&h, mt__arg_tensor(call, 3)),
                    *spread = training ? call->outs[2] : mt__hold(&h, mt__arg_tensor(call, 4));
    mt__launch l;
    mt__kernel k;
    if (h.status != MT_OK || x->dims[1] == 0)
        return mt__let_go(&h);
    channels c = channels_of(x);
    if (training)
        h.status = batch_statistics(call, x, &c);
    if (h.status == MT_OK && out->numel > 0)
        h.status = mt__launch_variant(&l, &k, &family, BATCH_NORM, x);
    if (h.status == MT_OK && out->numel > 0) {
        mt__launch_long(&l, out->numel);
        mt__launch_long(&l, c.count);
        mt__launch_long(&l, c.inner);
        mt__launch_number(&l, (mt_dtype)x->dtype, mt__arg_number(call, 7));
        mt__launch_flag(&l, !training);
        mt__launch_flag(&l, w != NULL);
        mt__launch_flag(&l, b != NULL);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, mean);
        mt__launch_tensor(&l, spread);
        mt__launch_tensor(&l, w != NULL ? w : x);
        mt__launch_tensor(&l, b != NULL ? b : x);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_flat(&l, &k, out->numel);
    }
    return mt__let_go(&h);
}

/* The inputs of both kernels of the derivative. */
typedef struct batch_back {
    const mt_tensor *g, *x, *w, *mean, *spread, *dots, *sums;
    channels c;
    double eps;
    bool training;
} batch_back;

static mt_status batch_sums(const batch_back *b)
{
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_variant(&l, &k, &family, BATCH_SUMS, b->x);
    if (status != MT_OK)
        return status;
    const mt_tensor *const tensors[] = {b->g, b->x, b->mean, b->spread, b->dots, b->sums};
    put_channels(&l, &b->c);
    mt__launch_number(&l, (mt_dtype)b->x->dtype, b->eps);
    mt__launch_flag(&l, !b->training);
    for (unsigned i = 0; i < MT__COUNT_OF(tensors); i++)
        mt__launch_tensor(&l, tensors[i]);
    return mt__launch_rows(&l, &k, b->c.count);
}

static mt_status batch_input(const batch_back *b, const mt_tensor *out)
{
    mt__launch l;
    mt__kernel k;
    mt_dtype dtype = (mt_dtype)b->x->dtype;
    mt_status status = mt__launch_variant(&l, &k, &family, BATCH_NORM_BACKWARD, b->x);
    if (status != MT_OK)
        return status;
    const mt_tensor *const tensors[] = {b->g,    b->x,    b->mean, b->spread, b->w != NULL ? b->w : b->x,
                                        b->dots, b->sums, out};
    mt__launch_long(&l, out->numel);
    mt__launch_long(&l, b->c.count);
    mt__launch_long(&l, b->c.inner);
    mt__launch_number(&l, dtype, (double)(b->c.batch * b->c.inner));
    mt__launch_number(&l, dtype, b->eps);
    mt__launch_flag(&l, !b->training);
    mt__launch_flag(&l, b->w != NULL);
    for (unsigned i = 0; i < MT__COUNT_OF(tensors); i++)
        mt__launch_tensor(&l, tensors[i]);
    return mt__launch_flat(&l, &k, out->numel);
}

mt_status mt__npu_batch_norm_backward(mt__call *call)
{
    bool training = mt__arg_int(call, 7) != 0;
    mt__held h = {.status = MT_OK};
    batch_back b = {.g = mt__hold(&h, mt__arg_tensor(call, 0)),
                    .x = mt__hold(&h, mt__arg_tensor(call, 1)),
                    .w = mt__hold(&h, mt__arg_tensor(call, 2)),
                    .mean = mt__hold(&h, mt__arg_tensor(call, training ? 5 : 3)),
                    .spread = mt__hold(&h, mt__arg_tensor(call, training ? 6 : 4)),
                    .eps = mt__arg_number(call, 8),
                    .training = training};
    mt_tensor *sums[2] = {NULL, NULL}; /* used for gradients that the caller does not want */
    if (h.status != MT_OK || b.x->dims[1] == 0)
        return mt__let_go(&h);
    b.c = channels_of(b.x);
    for (unsigned i = 0; i < 2 && h.status == MT_OK; i++)
        if (call->outs[i + 1] == NULL)
            h.status = mt__empty((mt_dtype)b.x->dtype, b.x->device, 1, &b.c.count, &sums[i]);
    b.dots = call->outs[1] != NULL ? call->outs[1] : sums[0];
    b.sums = call->outs[2] != NULL ? call->outs[2] : sums[1];
    if (h.status == MT_OK)
        h.status = batch_sums(&b);
    if (h.status == MT_OK && call->outs[0] != NULL)
        h.status = batch_input(&b, call->outs[0]);
    mt_release(sums[0]);
    mt_release(sums[1]);
    return mt__let_go(&h);
}
