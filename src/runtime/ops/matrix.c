/* runtime/ops/matrix.c - matrix products: shapes and dtypes of mm, bmm, addmm, baddbmm, mv and dot, and the
 * composites outer, ger, matmul and linear. Nothing here touches data.
 */
#include "runtime/narrow.h"
#include "runtime/runtime.h"

static mt_status no_bools(const mt_tensor *t, const char *kernel)
{
    if (t->dtype == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", kernel);
    return MT_OK;
}

static mt_status cannot_multiply(const mt_tensor *a, const mt_tensor *b)
{
    return mt__fail(MT_E_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                    (long long)a->dims[0], (long long)a->dims[1], (long long)b->dims[0],
                    (long long)b->dims[1]);
}

/* Does t expand to dims? Fails like expand(). */
static mt_status can_expand(const mt_tensor *t, int rank, const int64_t *dims)
{
    if (t->rank > rank)
        return mt__fail(MT_E_RUNTIME,
                        "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be "
                        "greater or equal to the "
                        "number of dimensions in the tensor (%d)",
                        mt__scalar_type(t->dtype), mt__shape_text(t->dims, t->rank),
                        mt__shape_text(dims, rank), rank, t->rank);
    for (int i = rank - 1, j = t->rank - 1; j >= 0; i--, j--)
        if (t->dims[j] != dims[i] && t->dims[j] != 1)
            return mt__fail(
                MT_E_RUNTIME,
                "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
                "dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                (long long)dims[i], (long long)t->dims[j], i, mt__shape_text(dims, rank),
                mt__shape_text(t->dims, t->rank));
    return MT_OK;
}

/* ---------------------------------------------------------------------------------------------------- infer */

mt_status mt__infer_mm(mt__call *call)
{
    const mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    if (a->rank != 2 || b->rank != 2)
        return mt__fail(MT_E_RUNTIME, "%s must be a matrix", a->rank != 2 ? "self" : "mat2");
    if (a->dims[1] != b->dims[0])
        return cannot_multiply(a, b);
    if (a->dtype != b->dtype)
        return mt__fail(MT_E_RUNTIME, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                        mt__c_type(a->dtype), mt__c_type(b->dtype));
    mt_status status = no_bools(a, "addmm_impl_cpu_");
    if (status != MT_OK)
        return status;
    return mt__empty(a->dtype, call->device, 2, (int64_t[]){a->dims[0], b->dims[1]}, &call->outs[0]);
}

/* beta and alpha */
static mt_status check_factors(const mt__call *call)
{
    mt_dtype own = (mt_dtype)call->args[0].as.tensor->dtype,
             dtype = mt_dtype_is_real(own) ? mt__wide(own) : own; /* halves are scaled as float32 */
    mt_status status = mt__check_fits(&call->args[3], dtype);
    return status == MT_OK ? mt__check_fits(&call->args[4], dtype) : status;
}

mt_status mt__infer_addmm(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *a = mt__arg_tensor(call, 1),
                    *b = mt__arg_tensor(call, 2);
    if (a->rank != 2 || b->rank != 2)
        return mt__fail(MT_E_RUNTIME, "%s must be a matrix, got %d-D tensor", a->rank != 2 ? "mat1" : "mat2",
                        a->rank != 2 ? a->rank : b->rank);
    if (a->dims[1] != b->dims[0])
        return cannot_multiply(a, b);
    if (self->dtype != b->dtype || a->dtype != b->dtype)
        return mt__fail(MT_E_RUNTIME, "%s and mat2 must have the same dtype, but got %s and %s",
                        self->dtype != b->dtype ? "self" : "mat1",
                        mt__scalar_type(self->dtype != b->dtype ? self->dtype : a->dtype),
                        mt__scalar_type(b->dtype));
    int64_t dims[] = {a->dims[0], b->dims[1]};
    mt_status status = can_expand(self, 2, dims);
    if (status == MT_OK)
        status = no_bools(a, "addmm_impl_cpu_");
    if (status == MT_OK)
        status = check_factors(call);
    if (status != MT_OK)
        return status;
    return mt__empty(a->dtype, call->device, 2, dims, &call->outs[0]);
}

/* The dims of a batch of products. */
static mt_status batch_dims(const mt_tensor *a, const mt_tensor *b, int64_t *dims)
{
    if (a->rank != 3 || b->rank != 3)
        return mt__fail(MT_E_RUNTIME, "batch%d must be a 3D tensor", a->rank != 3 ? 1 : 2);
    if (a->dims[0] != b->dims[0] || a->dims[2] != b->dims[1])
        return mt__fail(MT_E_RUNTIME,
                        "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but "
                        "got: [%lld, %lld].",
                        (long long)a->dims[0], (long long)a->dims[2], (long long)b->dims[0],
                        (long long)b->dims[1]);
    dims[0] = a->dims[0];
    dims[1] = a->dims[1];
    dims[2] = b->dims[2];
    return MT_OK;
}

mt_status mt__infer_bmm(mt__call *call)
{
    const mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    int64_t dims[3];
    mt_status status = batch_dims(a, b, dims);
    if (status == MT_OK && a->dtype != b->dtype)
        status = mt__fail(MT_E_RUNTIME, "expected scalar type %s but found %s", mt__scalar_type(a->dtype),
                          mt__scalar_type(b->dtype));
    if (status == MT_OK)
        status = no_bools(a, "bmm");
    return status == MT_OK ? mt__empty(a->dtype, call->device, 3, dims, &call->outs[0]) : status;
}

mt_status mt__infer_baddbmm(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *a = mt__arg_tensor(call, 1),
                    *b = mt__arg_tensor(call, 2);
    int64_t dims[3];
    mt_status status = batch_dims(a, b, dims);
    if (status == MT_OK)
        status = can_expand(self, 3, dims);
    if (status == MT_OK && (self->dtype != a->dtype || a->dtype != b->dtype))
        status =
            mt__fail(MT_E_RUNTIME, "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s",
                     mt__c_type(self->dtype), mt__c_type(a->dtype), mt__c_type(b->dtype));
    if (status == MT_OK)
        status = no_bools(a, "baddbmm");
    if (status == MT_OK)
        status = check_factors(call);
    return status == MT_OK ? mt__empty(a->dtype, call->device, 3, dims, &call->outs[0]) : status;
}

mt_status mt__infer_mv(mt__call *call)
{
    const mt_tensor *a = mt__arg_tensor(call, 0), *x = mt__arg_tensor(call, 1);
    if (a->rank != 2 || x->rank != 1)
        return mt__fail(MT_E_RUNTIME, "vector + matrix @ vector expected, got 1, %d, %d", a->rank, x->rank);
    if (a->dims[1] != x->dims[0])
        return mt__fail(MT_E_RUNTIME, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                        (long long)a->dims[0], (long long)a->dims[0], (long long)a->dims[1],
                        (long long)x->dims[0]);
    if (a->dtype != x->dtype)
        return mt__fail(MT_E_RUNTIME, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                        mt__scalar_type(x->dtype), mt__scalar_type(a->dtype), mt__scalar_type(x->dtype));
    mt_status status = no_bools(a, "addmv_impl_cpu");
    return status == MT_OK ? mt__empty(a->dtype, call->device, 1, a->dims, &call->outs[0]) : status;
}

mt_status mt__infer_dot(mt__call *call)
{
    const mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    if (a->rank != 1 || b->rank != 1)
        return mt__fail(MT_E_RUNTIME, "1D tensors expected, but got %dD and %dD tensors", a->rank, b->rank);
    if (a->dtype != b->dtype)
        return mt__fail(MT_E_RUNTIME, "dot : expected both vectors to have same dtype, but found %s and %s",
                        mt__scalar_type(a->dtype), mt__scalar_type(b->dtype));
    if (a->numel != b->numel)
        return mt__fail(MT_E_RUNTIME,
                        "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same "
                        "number of elements, but "
                        "got %lld and %lld elements respectively",
                        (long long)a->numel, (long long)b->numel, (long long)a->numel, (long long)b->numel);
    mt_status status = no_bools(a, "dot");
    return status == MT_OK ? mt__empty(a->dtype, call->device, 0, NULL, &call->outs[0]) : status;
}

/* ------------------------------------------------------------------------------------- made of other ops */

mt_status mt__composite_outer(mt__call *call)
{
    mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    if (a->rank != 1 || b->rank != 1)
        return mt__fail(MT_E_RUNTIME, "outer: Expected 1-D argument %s, but got %d-D",
                        a->rank != 1 ? "self" : "vec2", a->rank != 1 ? a->rank : b->rank);
    return mt__return(call, MT(mul, MT(reshape, a, MT_SHAPE(a->numel, 1)), b));
}

mt_status mt__composite_ger(mt__call *call)
{
    return mt__return(call, MT(outer, call->args[0], call->args[1]));
}

/* Can all dims but the last be merged without a copy? */
static bool folds_freely(const mt_tensor *t, const int64_t *strides)
{
    for (int i = 0; i + 2 < t->rank; i++)
        if (t->dims[i] != 1 && strides[i] != strides[i + 1] * t->dims[i + 1])
            return false;
    return true;
}

/* Should the product of a batch and one matrix (or vector) be computed as a single matrix product? Always if
 * the matrix requires a gradient: otherwise a batch of its gradients would have to be summed. */
static bool should_fold(const mt_tensor *a, const mt_tensor *b)
{
    bool a_larger = a->rank >= b->rank;
    const mt_tensor *large = a_larger ? a : b, *small = a_larger ? b : a;
    if (large->rank < 3 || small->rank > 2)
        return false;
    if (mt__tracks(small) && mt_grad_enabled())
        return true;
    if (a->rank == 2)
        return false; /* the result would have to be transposed by a copy */
    if (large->numel == 0)
        return true;
    int64_t strides[MT_MAX_RANK];
    memcpy(strides, large->strides, sizeof strides);
    if (!a_larger) { /* its last two dims are viewed transposed */
        if (large->rank == 3)
            return large->dims[0] == 1 || strides[0] == strides[2] * large->dims[2];
        return false;
    }
    return folds_freely(large, strides);
}

/* dims of t without the last; returns their product. */
static int64_t leading(const mt_tensor *t, int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        n *= dims[i] = t->dims[i];
    return n;
}

static mt_status matmul_folded(mt__call *call, mt_tensor *a, mt_tensor *b)
{
    bool turned = a->rank < b->rank; /* (b^T @ a^T)^T */
    mt_tensor *large = turned ? MT(transpose, b, -2, -1) : a;
    mt_tensor *small = !turned ? b : a->rank == 2 ? MT(t, a) : a;
    int64_t dims[MT_MAX_RANK];
    if (large == NULL || small == NULL)
        return mt_scope_status();
    int rank = large->rank - 1;
    int64_t rows = leading(large, dims);
    mt_tensor *folded = MT(reshape, large, MT_SHAPE(rows, large->dims[rank]));
    if (small->rank == 1)
        return mt__return(call, MT(_unsafe_view, MT(mv, folded, small), mt_value_ints(dims, (uint32_t)rank)));
    dims[rank] = small->dims[1];
    mt_tensor *out = MT(_unsafe_view, MT(mm, folded, small), mt_value_ints(dims, (uint32_t)rank + 1));
    return mt__return(call, turned ? MT(contiguous, MT(transpose, out, -2, -1)) : out);
}

/* Expands t to the batch dims and its own last two, then flattens it to a batch of matrices. A vector
 * becomes a column. */
static mt_tensor *as_batch(mt_tensor *t, int batch_rank, const int64_t *batch, int64_t count, int64_t rows,
                           int64_t columns, bool vector)
{
    int64_t dims[MT_MAX_RANK];
    uint32_t rank = (uint32_t)batch_rank;
    memcpy(dims, batch, rank * sizeof *dims);
    if (!vector)
        dims[rank++] = rows;
    dims[rank++] = vector ? rows : columns;
    return MT(reshape, MT(expand, t, mt_value_ints(dims, rank)), MT_SHAPE(count, rows, columns));
}

static mt_status matmul_batched(mt__call *call, mt_tensor *a, mt_tensor *b)
{
    int64_t batch[MT_MAX_RANK], dims[MT_MAX_RANK];
    int rank = 0;
    int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1, k = a->dims[a->rank - 1];
    int64_t rows = b->rank > 1 ? b->dims[b->rank - 2] : b->dims[0],
            n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    mt_status status = mt__broadcast(a->rank > 2 ? a->rank - 2 : 0, a->dims, b->rank > 2 ? b->rank - 2 : 0,
                                     b->dims, &rank, batch);
    if (status != MT_OK)
        return status;
    int64_t count = mt__numel(rank, batch);
    mt_tensor *left = as_batch(a, rank, batch, count, m, k, false);
    mt_tensor *right = as_batch(b, rank, batch, count, rows, n, b->rank == 1);
    memcpy(dims, batch, (size_t)rank * sizeof *dims);
    if (a->rank > 1)
        dims[rank++] = m;
    if (b->rank > 1)
        dims[rank++] = n;
    return mt__return(call, MT(_unsafe_view, MT(bmm, left, right), mt_value_ints(dims, (uint32_t)rank)));
}

mt_status mt__composite_matmul(mt__call *call)
{
    mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    if (a->rank == 0 || b->rank == 0)
        return mt__fail(MT_E_RUNTIME,
                        "both arguments to matmul need to be at least 1D, but they are %dD and %dD", a->rank,
                        b->rank);
    if (a->rank == 2 && b->rank == 2)
        return mt__return(call, MT(mm, a, b));
    if (a->rank == 1 && b->rank == 1)
        return mt__return(call, MT(dot, a, b));
    if (a->rank == 2 && b->rank == 1)
        return mt__return(call, MT(mv, a, b));
    if (a->rank == 1 && b->rank == 2)
        return mt__return(call, MT(squeeze_dim, MT(mm, MT(unsqueeze, a, 0), b), 0));
    return should_fold(a, b) ? matmul_folded(call, a, b) : matmul_batched(call, a, b);
}

mt_status mt__composite_linear(mt__call *call)
{
    mt_tensor *input = mt__arg_tensor(call, 0), *weight = mt__arg_tensor(call, 1),
              *bias = mt__arg_tensor(call, 2);
    if (input->rank == 0 || weight->rank == 0)
        return mt__fail(MT_E_RUNTIME,
                        "both arguments to linear need to be at least 1D, but they are %dD and %dD",
                        input->rank, weight->rank);
    if (bias == NULL)
        return mt__return(call, MT(matmul, input, MT(t, weight)));
    if (input->rank == 2)
        return mt__return(call, MT(addmm, bias, input, MT(t, weight)));
    if (input->flags & MT__CONTIGUOUS) {
        int64_t dims[MT_MAX_RANK];
        int last = input->rank - 1;
        int64_t rows = leading(input, dims);
        mt_tensor *folded = MT(view, input, MT_SHAPE(rows, input->dims[last]));
        mt_tensor *out = MT(addmm, bias, folded, MT(t, weight));
        if (out == NULL)
            return mt_scope_status();
        dims[last] = out->dims[1];
        return mt__return(call, MT(view, out, mt_value_ints(dims, (uint32_t)input->rank)));
    }
    return mt__return(call, MT(add_, MT(matmul, input, MT(t, weight)), bias));
}
