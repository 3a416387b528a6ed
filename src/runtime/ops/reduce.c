/* runtime/ops/reduce.c - reductions: PyTorch's argument checks, and outputs. No data is read here.
 *
 * The positions of the arguments `dim`, `keepdim` and `dtype` differ by op: they are in the table below, so
 * that the infers and kernels of all reductions read them the same way.
 */
#include "runtime/ops/reduce.h"

/* Positions of arguments; 0: absent (argument 0 is self). */
typedef struct places {
    uint8_t dim, keepdim, dtype;
} places;

static const places where[MT_OP_COUNT] = {
    [MT_OP_sum] = {0, 0, 1},       [MT_OP_sum_dim] = {1, 2, 3},
    [MT_OP_mean] = {0, 0, 1},      [MT_OP_mean_dim] = {1, 2, 3},
    [MT_OP_prod] = {0, 0, 1},      [MT_OP_prod_dim] = {1, 2, 3},
    [MT_OP_max_dim] = {1, 2, 0},   [MT_OP_min_dim] = {1, 2, 0},
    [MT_OP_amax] = {1, 2, 0},      [MT_OP_amin] = {1, 2, 0},
    [MT_OP_argmax] = {1, 2, 0},    [MT_OP_argmin] = {1, 2, 0},
    [MT_OP_any_dim] = {1, 2, 0},   [MT_OP_all_dim] = {1, 2, 0},
    [MT_OP_any_dims] = {1, 2, 0},  [MT_OP_all_dims] = {1, 2, 0},
    [MT_OP_var] = {1, 3, 0},       [MT_OP_std] = {1, 3, 0},
    [MT_OP_norm] = {2, 3, 0},      [MT_OP_linalg_vector_norm] = {2, 3, 0},
    [MT_OP_cumsum] = {1, 0, 2},    [MT_OP_cumsum_] = {1, 0, 2},
    [MT_OP_logsumexp] = {1, 2, 0}, [MT_OP_topk] = {2, 0, 0},
    [MT_OP_sort] = {1, 0, 0},
};

mt_status mt__dims_mask(const int64_t *list, uint32_t count, int rank, uint32_t *mask)
{
    *mask = 0;
    for (uint32_t i = 0; i < count; i++) {
        int dim;
        mt_status status = mt__wrap_dim(list[i], rank, &dim);
        if (status != MT_OK)
            return status;
        if (*mask >> dim & 1u)
            return mt__fail(MT_E_RUNTIME, "dim %d appears multiple times in the list of dims", dim);
        *mask |= 1u << dim;
    }
    return MT_OK;
}

mt_status mt__reduction_of(const mt__call *call, mt__reduction *out)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    const places *at = &where[call->op->id];
    const mt_value *dim = at->dim != 0 ? &call->args[at->dim] : NULL;
    out->keepdim = at->keepdim != 0 && call->args[at->keepdim].as.i != 0;
    out->mask = self->rank > 0 ? (1u << self->rank) - 1 : 0;
    if (dim != NULL && dim->kind != MT_NONE && !(dim->kind == MT_INTS && dim->count == 0)) {
        bool one = dim->kind != MT_INTS;
        mt_status status =
            mt__dims_mask(one ? &dim->as.i : dim->as.ints, one ? 1 : dim->count, self->rank, &out->mask);
        if (status != MT_OK)
            return status;
    }
    bool none = dim != NULL && dim->kind == MT_INTS && dim->count == 0 &&
                (call->op->id == MT_OP_any_dims || call->op->id == MT_OP_all_dims);
    if (self->rank == 0 || none)
        out->mask = 0;
    out->count = 1;
    for (int i = 0; i < self->rank; i++)
        if (out->mask >> i & 1u)
            out->count *= self->dims[i];
    return MT_OK;
}

mt_status mt__cast(const mt_tensor *t, mt_dtype dtype, mt_tensor **out)
{
    if (t->dtype == dtype) {
        *out = mt_retain((mt_tensor *)(uintptr_t)t);
        return MT_OK;
    }
    mt_value args[] = {mt_value_tensor(t), mt_value_int(dtype)};
    return mt__run_quietly(MT_OP__to_copy, args, 2, out);
}

mt_status mt__rows_of(const mt_tensor *t, uint32_t mask, mt_tensor **out)
{
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    int n = 0;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (int i = 0; i < t->rank; i++)
            if ((mask >> i & 1u) == pass) {
                dims[n] = t->dims[i];
                strides[n++] = t->strides[i];
            }
    mt_tensor *turned;
    mt_status status = mt__alias(t, t->rank, dims, strides, t->offset, &turned);
    if (status != MT_OK)
        return status;
    status = mt__contiguous(turned, out);
    mt_release(turned);
    return status;
}

/* Creates the output of a reduction, call->outs[which], with the remaining dims. */
static mt_status make_out(mt__call *call, const mt__reduction *r, mt_dtype dtype, unsigned which)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    int64_t dims[MT_MAX_RANK];
    int n = 0;
    for (int i = 0; i < self->rank; i++) {
        if (!(r->mask >> i & 1u))
            dims[n++] = self->dims[i];
        else if (r->keepdim)
            dims[n++] = 1;
    }
    return mt__empty(dtype, self->device, n, dims, &call->outs[which]);
}

static mt_status reduce_to(mt__call *call, mt_dtype dtype)
{
    mt__reduction r;
    mt_status status = mt__reduction_of(call, &r);
    return status == MT_OK ? make_out(call, &r, dtype, 0) : status;
}

/* ------------------------------------------------------------------------------------------- sums, products */

/* Sums of integers are int64 unless another dtype is requested. */
static mt_dtype sum_dtype(const mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    unsigned at = where[call->op->id].dtype;
    if (mt__arg_given(call, at))
        return (mt_dtype)mt__arg_int(call, at);
    return mt__is_floating((mt_dtype)self->dtype) ? (mt_dtype)self->dtype : MT_INT64;
}

mt_status mt__infer_sum(mt__call *call)
{
    return reduce_to(call, sum_dtype(call));
}
mt_status mt__infer_sum_dim(mt__call *call)
{
    return mt__infer_sum(call);
}
mt_status mt__infer_prod_dim(mt__call *call)
{
    return mt__infer_sum(call);
}

mt_status mt__infer_mean(mt__call *call)
{
    unsigned at = where[call->op->id].dtype;
    bool asked = mt__arg_given(call, at);
    mt_dtype dtype = asked ? (mt_dtype)mt__arg_int(call, at) : (mt_dtype)mt__arg_tensor(call, 0)->dtype;
    if (!mt__is_floating(dtype))
        return mt__fail(MT_E_RUNTIME,
                        "mean(): could not infer output dtype. %s dtype must be either a floating point or "
                        "complex dtype. Got: %s",
                        asked ? "Optional" : "Input", mt__scalar_type(dtype));
    return reduce_to(call, dtype);
}
mt_status mt__infer_mean_dim(mt__call *call)
{
    return mt__infer_mean(call);
}

/* --------------------------------------------------------------------------------------- extremes and truth */

/* An empty set has no extreme. */
static mt_status check_not_empty(const mt__call *call, const mt__reduction *r)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    const char *name = mt__op_short_name(call->op);
    unsigned at = where[call->op->id].dim;
    if (self->numel > 0)
        return MT_OK;
    bool all =
        at == 0 || !mt__arg_given(call, at) || (call->args[at].kind == MT_INTS && call->args[at].count == 0);
    bool arg = name[0] == 'a' && name[1] == 'r';
    if (all)
        return mt__fail(arg ? MT_E_INDEX : MT_E_RUNTIME,
                        "%s(): Expected reduction dim to be specified for input.numel() == 0.%s", name,
                        arg ? "" : " Specify the reduction dim with the 'dim' argument.");
    for (int i = 0; i < self->rank; i++)
        if ((r->mask >> i & 1u) && self->dims[i] == 0)
            return mt__fail(MT_E_INDEX, "%s(): Expected reduction dim %d to have non-zero size.", name, i);
    return MT_OK;
}

static mt_status extreme_to(mt__call *call, mt_dtype dtype, bool indices)
{
    mt__reduction r;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = check_not_empty(call, &r);
    if (status == MT_OK)
        status = make_out(call, &r, dtype, 0);
    return status == MT_OK && indices ? make_out(call, &r, MT_INT64, 1) : status;
}

mt_status mt__infer_whole(mt__call *call)
{
    return extreme_to(call, (mt_dtype)mt__arg_tensor(call, 0)->dtype, false);
}
mt_status mt__infer_amax(mt__call *call)
{
    return mt__infer_whole(call);
}
mt_status mt__infer_pick_dim(mt__call *call)
{
    return extreme_to(call, (mt_dtype)mt__arg_tensor(call, 0)->dtype, true);
}
mt_status mt__infer_argmax(mt__call *call)
{
    if (mt__arg_tensor(call, 0)->dtype == MT_BOOL)
        return mt__fail(MT_E_RUNTIME, "%s(): does not support bool input", mt__op_short_name(call->op));
    return extreme_to(call, MT_INT64, false);
}
/* Of bytes, a byte: uint8 was PyTorch's bool once. */
mt_status mt__infer_truth(mt__call *call)
{
    return reduce_to(call, mt__arg_tensor(call, 0)->dtype == MT_UINT8 ? MT_UINT8 : MT_BOOL);
}
mt_status mt__infer_truth_dim(mt__call *call)
{
    return mt__infer_truth(call);
}
mt_status mt__infer_truth_dims(mt__call *call)
{
    return mt__infer_truth(call);
}

/* ------------------------------------------------------------------------------------------------- moments */

mt_status mt__infer_var(mt__call *call)
{
    mt_dtype dtype = (mt_dtype)mt__arg_tensor(call, 0)->dtype;
    if (!mt__is_floating(dtype))
        return mt__fail(MT_E_RUNTIME, "std and var only support floating point and complex dtypes");
    return reduce_to(call, dtype);
}

mt_status mt__infer_vector_norm(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    double ord = mt__arg_number(call, 1);
    mt__reduction r;
    if (!mt__is_floating((mt_dtype)self->dtype))
        return mt__fail(MT_E_RUNTIME,
                        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
                        mt__scalar_type(self->dtype));
    mt_dtype dtype = mt__arg_given(call, 4) ? (mt_dtype)mt__arg_int(call, 4) : (mt_dtype)self->dtype;
    if (!mt__is_floating(dtype))
        return mt__fail(MT_E_RUNTIME,
                        "linalg.vector_norm: dtype should be floating point or complex, but got %s",
                        mt__scalar_type(dtype));
    if (mt__promote_types((mt_dtype)self->dtype, dtype) != dtype)
        return mt__fail(MT_E_RUNTIME,
                        "linalg.vector_norm: the dtype of the input (%s) should be convertible without "
                        "narrowing to the specified dtype (%s)",
                        mt__scalar_type(self->dtype), mt__scalar_type(dtype));
    mt_status status = mt__reduction_of(call, &r);
    if (status != MT_OK)
        return status;
    if (self->numel == 0 && (ord < 0 || ord == __builtin_inf())) {
        bool all = !mt__arg_given(call, 2) || call->args[2].count == 0;
        if (all)
            return mt__fail(
                MT_E_RUNTIME,
                "linalg.vector_norm cannot compute the %g norm on an empty tensor because the operation "
                "does not have an identity",
                ord);
        for (int i = 0; i < self->rank; i++)
            if ((r.mask >> i & 1u) && self->dims[i] == 0)
                return mt__fail(
                    MT_E_RUNTIME,
                    "linalg.vector_norm cannot compute the %g norm on the dimension %dbecause this "
                    "dimension is empty and the operation does not have an identity",
                    ord, i);
    }
    return make_out(call, &r, dtype, 0);
}

mt_status mt__composite_norm(mt__call *call)
{
    const mt_value *a = call->args;
    mt_value two = mt_value_float(2);
    return mt__return(call, MT(linalg_vector_norm, a[0], a[1].kind == MT_NONE ? two : a[1], a[2], a[3]));
}

mt_status mt__infer_logsumexp(mt__call *call)
{
    mt_dtype dtype = (mt_dtype)mt__arg_tensor(call, 0)->dtype;
    return reduce_to(call, mt__is_floating(dtype) ? dtype : mt__default_dtype);
}

/* ------------------------------------------------------------------------------------- along a dim: all stay */

mt_status mt__infer_cumsum(mt__call *call)
{
    int dim;
    const mt_tensor *self = mt__arg_tensor(call, 0);
    bool given = mt__arg_given(call, 2);
    mt_dtype dtype = call->op->in_place && !given ? (mt_dtype)self->dtype : sum_dtype(call);
    if (call->op->in_place && dtype != self->dtype)
        return mt__fail(MT_E_RUNTIME,
                        "Bad in-place call: input tensor dtype %s and output tensor dtype %s should match",
                        mt__c_type((mt_dtype)self->dtype), mt__c_type(dtype));
    if (call->op->in_place && dtype == MT_BOOL && self->rank > 0)
        return mt__fail(MT_E_RUNTIME, "\"cumsum_out_cpu\" not implemented for 'Bool'");
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    return status == MT_OK ? mt__empty_like(self, dtype, &call->outs[0]) : status;
}

mt_status mt__infer_sort(mt__call *call)
{
    int dim;
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    if (status == MT_OK)
        status = mt__empty_like(self, (mt_dtype)self->dtype, &call->outs[0]);
    return status == MT_OK ? mt__empty_like(self, MT_INT64, &call->outs[1]) : status;
}

mt_status mt__infer_topk(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    int64_t k = mt__arg_int(call, 1), dims[MT_MAX_RANK];
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 2), self->rank, &dim);
    if (status != MT_OK)
        return status;
    if (k < 0 || k > (self->rank > 0 ? self->dims[dim] : 1))
        return mt__fail(MT_E_RUNTIME, "selected index k out of range");
    if (self->dtype == MT_BOOL)
        return mt__fail(MT_E_RUNTIME, "topk does not support bool dtypes on CPU");
    memcpy(dims, self->dims, self->rank * sizeof *dims);
    if (self->rank > 0)
        dims[dim] = k;
    status = mt__empty((mt_dtype)self->dtype, self->device, self->rank, dims, &call->outs[0]);
    return status == MT_OK ? mt__empty(MT_INT64, self->device, self->rank, dims, &call->outs[1]) : status;
}

mt_status mt__composite_argsort(mt__call *call)
{
    mt_tensor *outs[2];
    mt_status status = MT_N(sort, outs, call->args[0], call->args[1], call->args[2]);
    call->outs[0] = mt_retain(outs[1]);
    return status;
}

/* Scatters the gradient of selected elements back to their positions along a dim. */
mt_status mt__composite_value_selecting_reduction_backward(mt__call *call)
{
    mt_tensor *grad = mt__arg_tensor(call, 0), *indices = mt__arg_tensor(call, 2);
    const mt_value *sizes = &call->args[3];
    if (mt__arg_int(call, 4) == 0 && sizes->count > 0) {
        grad = MT(unsqueeze, grad, mt__arg_int(call, 1));
        indices = MT(unsqueeze, indices, mt__arg_int(call, 1));
    }
    if (grad == NULL)
        return mt_scope_status();
    mt_tensor *zeros = MT(zeros, *sizes, (int64_t)grad->dtype, (int64_t)grad->device);
    return mt__return(call, MT(scatter_, zeros, mt__arg_int(call, 1), indices, grad));
}
