/* kernels/opencl/rows.c - softmax, layer_norm, batch_norm and their derivatives. */
#include "runtime/kernels/opencl/npu.h"
#include <stdio.h>

/* --------------------------------------------------------------------------------------------------- softmax */

static void split_at(const mt_tensor *t, int dim, int64_t *n, int64_t *inner)
{
    *n = t->rank > 0 ? t->dims[dim] : 1;
    *inner = 1;
    for (int i = dim + 1; i < t->rank; i++)
        *inner *= t->dims[i];
}

static mt_status soft(mt__call *call, unsigned inputs, const char *name, bool logs)
{
    mt_tensor *out = call->outs[0];
    mt_dtype dtype = (mt_dtype)out->dtype;
    mt__held h = {.status = MT_OK};
    const mt_tensor *x[2] = {NULL, NULL};
    mt__launch l;
    mt__kernel k;
    char defines[100];
    int dim;
    h.status = mt__wrap_dim(mt__arg_int(call, inputs), out->rank, &dim);
    for (unsigned i = 0; i < inputs; i++)
        x[i] = mt__hold(&h, mt__arg_tensor(call, i));
    snprintf(defines, sizeof defines, "#define NEED_%s\n#define LOGS %d\n",
             inputs == 1 ? "softmax" : "softmax_backward", logs);
    mt__template t = {name, mt__cl_rows, dtype, defines};
    if (h.status == MT_OK)
        h.status = mt__launch_begin(&l, out->device);
    if (h.status == MT_OK)
        h.status = mt__npu_template(l.npu, MT__KEY(MT__SOFTMAX, dtype, inputs * 2 + logs), &t, &k);
    if (h.status == MT_OK && out->numel > 0) {
        int64_t n, inner;
        split_at(out, dim, &n, &inner);
        mt__launch_long(&l, n);
        mt__launch_long(&l, inner);
        for (unsigned i = 0; i < inputs; i++)
            mt__launch_tensor(&l, x[i]);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_rows(&l, &k, out->numel / n);
    }
    return mt__let_go(&h);
}

mt_status mt__npu_softmax(mt__call *call)
{
    bool logs = call->op->id == MT_OP__log_softmax;
    return soft(call, 1, logs ? "log_softmax" : "softmax", logs);
}

mt_status mt__npu_softmax_backward(mt__call *call)
{
    bool logs = call->op->id == MT_OP__log_softmax_backward_data;
    return soft(call, 2, logs ? "log_softmax_backward" : "softmax_backward", logs);
}

/* ------------------------------------------------------------------------------------------------ layer_norm */

static mt_status layer_kernel(mt__npu *npu, const char *name, mt_dtype dtype, unsigned which, bool weight,
                              bool bias, mt__kernel *k)
{
    char defines[160];
    snprintf(defines, sizeof defines, "#define NEED_%s\n#define HAS_WEIGHT %d\n#define HAS_BIAS %d\n", name,
             weight, bias);
    mt__template t = {name, mt__cl_rows, dtype, defines};
    return mt__npu_template(npu, MT__KEY(MT__LAYER_NORM, dtype, which * 4 + weight * 2 + bias), &t, k);
}

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
        h.status = mt__launch_begin(&l, out->device);
    if (h.status == MT_OK)
        h.status = layer_kernel(l.npu, "layer_norm", dtype, 0, w != NULL, b != NULL, &k);
    if (h.status == MT_OK) {
        mt__launch_long(&l, mt__numel((int)call->args[1].count, call->args[1].as.ints));
        mt__launch_number(&l, dtype, mt__arg_number(call, 4));
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
    mt_status status = mt__launch_begin(&l, x->device);
    for (int i = 0; i < 2 && status == MT_OK; i++)
        status = mt__empty(dtype, x->device, 2, (int64_t[]){chunks, n}, &parts[i]);
    if (status == MT_OK)
        status = layer_kernel(l.npu, "layer_norm_params", dtype, 2, false, false, &k);
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
                status = mt__npu_reduce(&mt__fold_sum, dtype, parts[i], 1, chunks, n, call->outs[i + 1], 0);
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
        h.status = mt__launch_begin(&l, x->device);
        if (h.status == MT_OK)
            h.status =
                layer_kernel(l.npu, "layer_norm_backward", (mt_dtype)x->dtype, 1, w != NULL, false, &k);
        if (h.status == MT_OK) {
            mt__launch_long(&l, n);
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

/* Of [N, C, ...]: made of elementwise kernels and sums; x moves C to the front of nothing: columns of [N, C, inner]. */
static mt_tensor *channels(mt_tensor *t, int rank)
{
    int64_t dims[MT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == 1 ? t->numel : 1;
    return MT(reshape, t, mt_value_ints(dims, (uint32_t)rank));
}

static mt_tensor *over_all_but_channels(mt_tensor *t, bool mean)
{
    int64_t dims[MT_MAX_RANK];
    uint32_t n = 0;
    for (int i = 0; i < t->rank; i++)
        if (i != 1)
            dims[n++] = i;
    return mean ? MT(mean_dim, t, mt_value_ints(dims, n)) : MT(sum_dim, t, mt_value_ints(dims, n));
}

static mt_status give(mt__call *call, unsigned i, mt_tensor *t)
{
    return t != NULL && call->outs[i] != NULL && call->outs[i]->numel > 0
               ? mt__device_copy(call->outs[i], t, false)
               : mt_scope_status();
}

static mt_tensor *follow(mt_tensor *running, mt_tensor *now, double momentum)
{
    mt_tensor *to = MT(add, MT(mul, running, 1 - momentum), now, momentum);
    return to != NULL && mt__npu_assign(running, to) == MT_OK ? running : NULL;
}

mt_status mt__npu_batch_norm(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0), *w = mt__arg_tensor(call, 1), *b = mt__arg_tensor(call, 2),
              *rm = mt__arg_tensor(call, 3), *rv = mt__arg_tensor(call, 4);
    bool training = mt__arg_int(call, 5) != 0, was = mt_grad_enable(false);
    double momentum = mt__arg_number(call, 6), eps = mt__arg_number(call, 7);
    int64_t n = x->dims[1] > 0 ? x->numel / x->dims[1] : 0;
    mt_status status = MT_OK;
    mt_scope scope;
    mt_scope_enter(&scope);
    mt_tensor *mean = rm, *rstd = NULL;
    if (training) {
        mean = over_all_but_channels(x, true);
        mt_tensor *d = mean != NULL ? MT(sub, x, channels(mean, x->rank)) : NULL;
        mt_tensor *v = d != NULL ? over_all_but_channels(MT(mul, d, d), true) : NULL;
        rstd = MT(rsqrt, MT(add, v, eps));
        if (rm != NULL && v != NULL) {
            follow(rm, mean, momentum);
            follow(rv, MT(mul, v, (double)n / (double)(n - 1)), momentum);
        }
        status = give(call, 1, mean);
        if (status == MT_OK)
            status = give(call, 2, rstd);
    } else {
        rstd = MT(rsqrt, MT(add, rv, eps));
    }
    mt_tensor *scale = w != NULL ? MT(mul, rstd, w) : rstd;
    if (scale != NULL && mean != NULL && status == MT_OK) {
        mt_tensor *y = MT(mul, MT(sub, x, channels(mean, x->rank)), channels(scale, x->rank));
        status = give(call, 0, b != NULL && y != NULL ? MT(add, y, channels(b, x->rank)) : y);
    }
    if (status == MT_OK)
        status = scope.status;
    scope.status = MT_OK;
    mt_scope_leave(&scope);
    mt_grad_enable(was);
    return status;
}

mt_status mt__npu_batch_norm_backward(mt__call *call)
{
    mt_tensor *g = mt__arg_tensor(call, 0), *x = mt__arg_tensor(call, 1), *w = mt__arg_tensor(call, 2),
              *rm = mt__arg_tensor(call, 3), *rv = mt__arg_tensor(call, 4), *mean = mt__arg_tensor(call, 5),
              *rstd = mt__arg_tensor(call, 6);
    bool training = mt__arg_int(call, 7) != 0, was = mt_grad_enable(false);
    double n = x->dims[1] > 0 ? (double)(x->numel / x->dims[1]) : 1;
    mt_status status = MT_OK;
    mt_scope scope;
    mt_scope_enter(&scope);
    if (!training) {
        mean = rm;
        rstd = MT(rsqrt, MT(add, rv, mt__arg_number(call, 8)));
    }
    mt_tensor *sum = over_all_but_channels(g, false);
    mt_tensor *d =
        rstd != NULL ? MT(mul, MT(sub, x, channels(mean, x->rank)), channels(rstd, x->rank)) : NULL;
    mt_tensor *dot = d != NULL ? over_all_but_channels(MT(mul, g, d), false) : NULL;
    status = give(call, 1, dot);
    if (status == MT_OK)
        status = give(call, 2, sum);
    if (status == MT_OK && call->outs[0] != NULL && dot != NULL) {
        mt_tensor *inner = g, *scale = w != NULL ? MT(mul, rstd, w) : rstd;
        if (training)
            inner = MT(sub, MT(sub, g, channels(MT(div, sum, n), x->rank)),
                       MT(mul, d, channels(MT(div, dot, n), x->rank)));
        status = give(call, 0, MT(mul, inner, channels(scale, x->rank)));
    }
    if (status == MT_OK)
        status = scope.status;
    scope.status = MT_OK;
    mt_scope_leave(&scope);
    mt_grad_enable(was);
    return status;
}
