/* kernels/opencl/reduce.c - reductions. The input is read as [outer, n, inner]; a long n with few results is
 * split into chunks, whose results are reduced again, so that the device is kept busy and sums stay accurate.
 */
#define _GNU_SOURCE
#include "runtime/kernels/opencl/npu.h"
#include "runtime/ops/reduce.h"
#include <math.h>
#include <stdio.h>

#define ENOUGH 2048     /* results that keep a device busy */
#define CHUNK_LEAST 512 /* elements */

/* X(fold, kernel's name, initial value, applied to each element, to two, to the result, dtypes) */
#define EXTREME(sign) "(b " sign " a || b != b) ? b : a"
#define FOLDS(X)                                                                                             \
    X(MT__SUM, "sum", "0", "x", "ADDED(a, b)", "x", MT__OF_ANY)                                              \
    X(MT__MEAN, "mean", "0", "x", "a + b", "x / k0", MT__OF_REAL)                                            \
    X(MT__PROD, "prod", "1", "x", "a * b", "x", MT__OF_ANY)                                                  \
    X(MT__MOST, "amax", "LOWEST", "x", EXTREME(">"), "x", MT__OF_ANY)                                        \
    X(MT__LEAST, "amin", "HIGHEST", "x", EXTREME("<"), "x", MT__OF_ANY)                                      \
    X(MT__ANY, "any", "0", "x", "a | b", "x", MT__OF_TRUTH)                                                  \
    X(MT__ALL, "all", "1", "x", "a & b", "x", MT__OF_TRUTH)                                                  \
    X(MT__NORM_2, "norm", "0", "x * x", "a + b", "sqrt(x)", MT__OF_REAL)                                     \
    X(MT__NORM_1, "norm_1", "0", "fabs(x)", "a + b", "x", MT__OF_REAL)                                       \
    X(MT__NORM_INF, "norm_inf", "0", "fabs(x)", EXTREME(">"), "x", MT__OF_REAL)                              \
    X(MT__NORM_MINUS_INF, "norm_minus_inf", "HIGHEST", "fabs(x)", EXTREME("<"), "x", MT__OF_REAL)            \
    X(MT__NORM_0, "norm_0", "0", "x != 0", "a + b", "x", MT__OF_REAL)                                        \
    X(MT__NORM_P, "norm_p", "0", "pow(fabs(x), k0)", "a + b", "pow(x, 1 / k0)", MT__OF_REAL)

enum { /* all folds by rows, then all by columns */
    MAX_DIM = 2 * MT__FOLDS,
    MIN_DIM,
    VAR
};
#define TEXTS(first, map, fold, end)                                                                         \
    "FIRST (T)(" first ");MAP(x) (" map ");FOLD (T)(" fold ");END(x) (" end ")"
static const mt__variant variants[] = {
#define X(id, name, first, map, fold, end, of)                                                               \
    [id] = {name "_rows", "NEED_rows;" TEXTS(first, map, fold, end), of},                                    \
    [MT__FOLDS + (id)] = {name, "NEED_columns;" TEXTS(first, map, fold, end), of},
    FOLDS(X)
#undef X
        [MAX_DIM] = {"max_dim", "NEED_pick;BETTER >", MT__OF_ANY},
    [MIN_DIM] = {"min_dim", "NEED_pick;BETTER <", MT__OF_ANY},
    [VAR] = {"var", "NEED_var", MT__OF_REAL},
};
static const mt__family family = {MT__REDUCE, mt__cl_reduce, variants, MT__COUNT_OF(variants)};

static mt_status one_pass(enum mt__fold fold, const mt_tensor *x, mt__split s, int64_t chunk,
                          const mt_tensor *y, int32_t pass, double k0)
{
    bool columns = s.inner > 1 || s.n < 32;
    int64_t chunks = s.n > 0 ? (s.n + chunk - 1) / chunk : 1, items = s.outer * chunks * s.inner;
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_variant(&l, &k, &family, columns ? MT__FOLDS + fold : fold, x);
    if (status != MT_OK)
        return status;
    if (columns)
        mt__launch_long(&l, items);
    mt__launch_long(&l, s.n);
    mt__launch_long(&l, chunks);
    mt__launch_long(&l, chunk);
    if (columns)
        mt__launch_long(&l, s.inner);
    mt__launch_value(&l, &pass, sizeof pass);
    mt__launch_tensor(&l, x);
    mt__launch_tensor(&l, y);
    mt__launch_number(&l, (mt_dtype)x->dtype, k0);
    return columns ? mt__launch_flat(&l, &k, items) : mt__launch_rows(&l, &k, items);
}

mt_status mt__npu_reduce(enum mt__fold fold, const mt_tensor *x, int64_t outer, int64_t n, int64_t inner,
                         const mt_tensor *y, double k0)
{
    mt__split s = {outer, n, inner};
    int64_t results = outer * inner, chunk = n > 0 ? n : 1;
    if (results == 0)
        return MT_OK;
    if (results < ENOUGH && n >= 2 * CHUNK_LEAST) {
        int64_t wanted = (ENOUGH + results - 1) / results, most = n / CHUNK_LEAST;
        int64_t chunks = wanted < most ? wanted : most;
        chunk = (n + chunks - 1) / chunks;
    }
    if (chunk >= n)
        return one_pass(fold, x, s, chunk, y, 0, k0);
    int64_t chunks = (n + chunk - 1) / chunk, dims[] = {outer * chunks * inner};
    mt_tensor *parts;
    mt_status status = mt__empty((mt_dtype)x->dtype, x->device, 1, dims, &parts);
    if (status == MT_OK)
        status = one_pass(fold, x, s, chunk, parts, 1, k0);
    if (status == MT_OK)
        status = one_pass(fold, parts, (mt__split){outer, chunks, inner}, chunks, y, 2, k0);
    mt_release(parts);
    return status;
}

/* x as [outer, n, inner]: in place if the reduced dims are adjacent, else with them moved last. */
static mt_status view_of(const mt_tensor *x, uint32_t mask, mt_tensor **out, mt__split *s)
{
    *s = (mt__split){1, 1, 1};
    int first = -1, last = -1;
    for (int i = 0; i < x->rank; i++)
        if (mask >> i & 1u) {
            first = first < 0 ? i : first;
            last = i;
            s->n *= x->dims[i];
        }
    bool near = true;
    for (int i = first; i >= 0 && i <= last; i++)
        near &= (mask >> i & 1u) != 0;
    if (!near) {
        for (int i = 0; i < x->rank; i++)
            s->outer *= mask >> i & 1u ? 1 : x->dims[i];
        return mt__rows_of(x, mask, out);
    }
    if (first < 0) {
        s->outer = x->numel;
        return mt__contiguous(x, out);
    }
    for (int i = 0; i < x->rank; i++)
        *(i < first ? &s->outer : i > last ? &s->inner : &(int64_t){0}) *= x->dims[i];
    return mt__contiguous(x, out);
}

/* Reduces in `compute`, to which the input is cast. */
static mt_status reduce_call(mt__call *call, enum mt__fold fold, mt_dtype compute, double k0)
{
    mt__reduction r;
    mt_tensor *x, *seen;
    mt__split s;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = mt__cast(mt__arg_tensor(call, 0), compute, &x);
    if (status != MT_OK)
        return status;
    status = view_of(x, r.mask, &seen, &s);
    mt_release(x);
    if (status != MT_OK)
        return status;
    status = mt__npu_reduce(fold, seen, s.outer, s.n, s.inner, call->outs[0], k0);
    mt_release(seen);
    return status;
}

/* sum, mean, prod: in the output's dtype. */
mt_status mt__npu_sum(mt__call *call)
{
    mt_op_id op = call->op->id;
    mt_dtype dtype = (mt_dtype)call->outs[0]->dtype;
    if (op == MT_OP_sum || op == MT_OP_sum_dim)
        return reduce_call(call, MT__SUM, dtype, 0);
    if (op == MT_OP_prod || op == MT_OP_prod_dim)
        return reduce_call(call, MT__PROD, dtype, 0);
    mt__reduction r;
    mt_status status = mt__reduction_of(call, &r);
    return status == MT_OK ? reduce_call(call, MT__MEAN, dtype, (double)r.count) : status;
}

/* Extremes, any and all. */
mt_status mt__npu_fold(mt__call *call)
{
    mt_op_id op = call->op->id;
    if (op == MT_OP_any || op == MT_OP_any_dim || op == MT_OP_any_dims)
        return reduce_call(call, MT__ANY, MT_BOOL, 0);
    if (op == MT_OP_all || op == MT_OP_all_dim || op == MT_OP_all_dims)
        return reduce_call(call, MT__ALL, MT_BOOL, 0);
    return reduce_call(call, op == MT_OP_max || op == MT_OP_amax ? MT__MOST : MT__LEAST,
                       (mt_dtype)mt__arg_tensor(call, 0)->dtype, 0);
}

/* max.dim, min.dim, argmax, argmin */
mt_status mt__npu_pick(mt__call *call)
{
    mt_op_id op = call->op->id;
    bool values = op == MT_OP_max_dim || op == MT_OP_min_dim,
         high = op == MT_OP_max_dim || op == MT_OP_argmax;
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt__reduction r;
    mt_tensor *x;
    mt__split s;
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = view_of(self, r.mask, &x, &s);
    if (status != MT_OK)
        return status;
    status = mt__launch_variant(&l, &k, &family, high ? MAX_DIM : MIN_DIM, self);
    if (status == MT_OK) {
        int64_t items = s.outer * s.inner;
        const mt_tensor *where = call->outs[values ? 1 : 0];
        mt__launch_long(&l, items);
        mt__launch_long(&l, s.n);
        mt__launch_long(&l, s.inner);
        mt__launch_flag(&l, values);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, call->outs[0]);
        mt__launch_tensor(&l, where);
        status = mt__launch_flat(&l, &k, items);
    }
    mt_release(x);
    return status;
}

mt_status mt__npu_var(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_dtype dtype = (mt_dtype)self->dtype;
    bool root = call->op->id == MT_OP_std;
    double correction = mt__arg_given(call, 2) ? mt__arg_number(call, 2) : 1;
    mt__reduction r;
    mt_tensor *x;
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = mt__rows_of(self, r.mask, &x);
    if (status != MT_OK)
        return status;
    status = mt__launch_variant(&l, &k, &family, VAR, self);
    if (status == MT_OK) {
        mt__launch_long(&l, r.count);
        mt__launch_number(&l, dtype, correction);
        mt__launch_flag(&l, root);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, call->outs[0]);
        status = mt__launch_rows(&l, &k, call->outs[0]->numel);
    }
    mt_release(x);
    return status;
}

mt_status mt__npu_vector_norm(mt__call *call)
{
    double p = mt__arg_number(call, 1);
    enum mt__fold f = p == 2                   ? MT__NORM_2
                      : p == 1                 ? MT__NORM_1
                      : p == (double)INFINITY  ? MT__NORM_INF
                      : p == -(double)INFINITY ? MT__NORM_MINUS_INF
                      : p == 0                 ? MT__NORM_0
                                               : MT__NORM_P;
    return reduce_call(call, f, (mt_dtype)call->outs[0]->dtype, p);
}
