/* runtime/ops/shape.c - reshaping, joining and splitting: ops composed of views, and the infers of joins. */
#include "runtime/runtime.h"
#include "runtime/ops/views.h"

/* ---------------------------------------------------------------------------------- composites made of views */

/* t with these dims, by PyTorch's choice of op; NULL: it needs a copy. */
static mt_tensor *viewed(mt_tensor *t, int rank, const int64_t *dims, int64_t *strides)
{
    mt_value shape = mt_value_ints(dims, (uint32_t)rank);
    if (t->flags & MT__CONTIGUOUS)
        return MT(view, t, shape);
    return mt__view_strides(t, rank, dims, strides)
               ? MT(_reshape_alias, t, shape, mt_value_ints(strides, (uint32_t)rank))
               : NULL;
}

mt_status mt__composite_reshape(mt__call *call)
{
    mt_tensor *t = mt__arg_tensor(call, 0);
    int rank = 0;
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    mt_status status = mt__view_size(t, &call->args[1], &rank, dims);
    if (status != MT_OK)
        return status;
    mt_value shape = mt_value_ints(dims, (uint32_t)rank);
    mt_tensor *view = viewed(t, rank, dims, strides);
    if (view != NULL || mt_scope_status() != MT_OK)
        return mt__return(call, view);
    return mt__return(call, MT(_unsafe_view, MT(clone, t, MT__CONTIGUOUS_FORMAT), shape));
}

mt_status mt__composite_flatten(mt__call *call)
{
    mt_tensor *t = mt__arg_tensor(call, 0);
    int start, end;
    mt_status status = mt__wrap_two_dims(call, 1, t->rank, &start, &end);
    if (status != MT_OK)
        return status;
    if (start > end)
        return mt__fail(MT_E_RUNTIME, "flatten() has invalid args: start_dim cannot come after end_dim");
    if (t->rank == 0)
        return mt__return(call, MT(reshape, t, MT_SHAPE(1)));
    if (start == end)
        return mt__return(call, t);
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    uint32_t rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (i > start && i <= end)
            dims[rank - 1] *= t->dims[i];
        else
            dims[rank++] = t->dims[i];
    }
    mt_value shape = mt_value_ints(dims, rank);
    mt_tensor *view = viewed(t, (int)rank, dims, strides);
    return mt__return(call, view != NULL || mt_scope_status() != MT_OK ? view : MT(reshape, t, shape));
}

mt_status mt__composite_expand_as(mt__call *call)
{
    const mt_tensor *other = mt__arg_tensor(call, 1);
    return mt__return(call, MT(expand, mt__arg_tensor(call, 0), mt_value_ints(other->dims, other->rank)));
}

mt_status mt__composite_view_as(mt__call *call)
{
    const mt_tensor *other = mt__arg_tensor(call, 1);
    return mt__return(call, MT(view, mt__arg_tensor(call, 0), mt_value_ints(other->dims, other->rank)));
}

/* The dims of a list, wrapped; each at most once. */
static mt_status wrap_distinct(const mt_value *dims, int rank, const char *what, int *out)
{
    uint32_t seen = 0;
    bool twice = false;
    for (uint32_t i = 0; i < dims->count; i++) {
        mt_status status = mt__wrap_dim(dims->as.ints[i], rank, &out[i]);
        if (status != MT_OK)
            return status;
        twice |= (seen >> out[i] & 1) != 0;
        seen |= 1u << out[i];
    }
    return twice ? mt__fail(MT_E_RUNTIME, "movedim: repeated dim in `%s` (%s)", what,
                            mt__shape_text(dims->as.ints, (int)dims->count))
                 : MT_OK;
}

mt_status mt__composite_movedim(mt__call *call)
{
    mt_tensor *t = mt__arg_tensor(call, 0);
    const mt_value *from = &call->args[1], *to = &call->args[2];
    int rank = t->rank, source[MT_MAX_RANK], destination[MT_MAX_RANK];
    int64_t order[MT_MAX_RANK];
    if (from->count != to->count)
        return mt__fail(MT_E_RUNTIME,
                        "movedim: Invalid source or destination dims: source (%s dims) should contain the "
                        "same number of dims as destination (%s dims)",
                        mt__shape_text(from->as.ints, (int)from->count),
                        mt__shape_text(to->as.ints, (int)to->count));
    if (from->count > (uint32_t)(rank > 0 ? rank : 1))
        return mt__fail(MT_E_RUNTIME, "movedim: repeated dim in `source` (%s)",
                        mt__shape_text(from->as.ints, (int)from->count));
    mt_status status = wrap_distinct(from, rank, "source", source);
    if (status == MT_OK)
        status = wrap_distinct(to, rank, "destination", destination);
    if (status != MT_OK)
        return status;
    if (rank == 0)
        return mt__return(call, MT(view, t, mt_value_ints(NULL, 0)));
    uint32_t moved = 0;
    for (int i = 0; i < rank; i++)
        order[i] = -1;
    for (uint32_t i = 0; i < from->count; i++) {
        order[destination[i]] = source[i];
        moved |= 1u << source[i];
    }
    for (int i = 0, rest = 0; i < rank; i++) {
        if (order[i] >= 0)
            continue;
        while (moved >> rest & 1)
            rest++;
        order[i] = rest++;
    }
    return mt__return(call, MT(permute, t, mt_value_ints(order, (uint32_t)rank)));
}

mt_status mt__composite_narrow(mt__call *call)
{
    mt_tensor *t = mt__arg_tensor(call, 0);
    int64_t start = mt__arg_int(call, 2), length = mt__arg_int(call, 3);
    int dim;
    if (t->rank == 0)
        return mt__fail(MT_E_RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
    if (length < 0)
        return mt__fail(MT_E_RUNTIME, "narrow(): length must be non-negative.");
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), t->rank, &dim);
    if (status != MT_OK)
        return status;
    int64_t n = t->dims[dim];
    if (start < -n || start > n)
        return mt__fail(MT_E_INDEX,
                        "start out of range (expected to be in range of [-%lld, %lld], but got %lld)",
                        (long long)n, (long long)n, (long long)start);
    if (start < 0)
        start += n;
    if (start > n - length)
        return mt__fail(MT_E_RUNTIME, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                        (long long)start, (long long)length, (long long)n);
    return mt__return(call, MT(slice, t, dim, start, start + length, 1));
}

static mt_status chunk(mt__call *call, mt_op_id split)
{
    mt_tensor *t = mt__arg_tensor(call, 0);
    int64_t chunks = mt__arg_int(call, 1);
    int dim;
    if (t->rank == 0)
        return mt__fail(MT_E_RUNTIME, "chunk expects at least a 1-dimensional tensor");
    if (chunks <= 0)
        return mt__fail(MT_E_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %lld",
                        (long long)chunks);
    mt_status status = mt__wrap_dim(mt__arg_int(call, 2), t->rank, &dim);
    if (status != MT_OK)
        return status;
    int64_t n = t->dims[dim], size = n / chunks + (n % chunks != 0), none[64] = {0};
    unsigned made;
    mt_tensor **list;
    if (size == 0 && n == 0 && chunks <= 64) /* `chunks` empty parts */
        status = mt_call_list(
            MT_OP_split_with_sizes,
            (mt_value[]){mt_value_tensor(t), mt_value_ints(none, (uint32_t)chunks), mt_value_int(dim)}, 3,
            &list, &made);
    else
        status = mt_call_list(split, (mt_value[]){mt_value_tensor(t), mt_value_int(size), mt_value_int(dim)},
                              3, &list, &made);
    if (status == MT_OK) {
        call->outs = list; /* taken */
        call->out_count = made;
    }
    return status;
}

mt_status mt__composite_chunk(mt__call *call)
{
    return chunk(call, MT_OP_split);
}

mt_status mt__composite_unsafe_chunk(mt__call *call)
{
    return chunk(call, MT_OP_unsafe_split);
}

mt_status mt__composite_select_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0);
    mt_tensor *out = MT(zeros, call->args[1], (int64_t)grad->dtype, (int64_t)grad->device);
    MT(copy_, MT(select, out, call->args[2], call->args[3]), grad);
    return mt__return(call, out);
}

mt_status mt__composite_slice_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0);
    mt_tensor *out = MT(zeros, call->args[1], (int64_t)grad->dtype, (int64_t)grad->device);
    MT(copy_, MT(slice, out, call->args[2], call->args[3], call->args[4], call->args[5]), grad);
    return mt__return(call, out);
}

mt_status mt__composite_diagonal_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0);
    mt_tensor *out = MT(zeros, call->args[1], (int64_t)grad->dtype, (int64_t)grad->device);
    MT(copy_, MT(diagonal, out, call->args[2], call->args[3], call->args[4]), grad);
    return mt__return(call, out);
}

/* ---------------------------------------------------------------------------------------------------- joins */

/* cat skips empty 1-dim tensors, for compatibility. */
static bool is_skipped(const mt_tensor *t)
{
    return t->rank == 1 && t->dims[0] == 0;
}

static mt_dtype list_dtype(const mt_value *list)
{
    mt__promotion p = {0};
    for (uint32_t i = 0; i < list->count; i++) {
        mt_value v = mt_value_tensor(list->as.tensors[i]);
        mt__promote(&p, &v);
    }
    return mt__promoted(&p);
}

static mt_status check_joins(const mt_tensor *like, const mt_tensor *t, int dim, uint32_t i)
{
    if (t->rank != like->rank)
        return mt__fail(MT_E_RUNTIME, "Tensors must have same number of dimensions: got %d and %d",
                        like->rank, t->rank);
    for (int k = 0; k < t->rank; k++)
        if (k != dim && t->dims[k] != like->dims[k])
            return mt__fail(MT_E_RUNTIME,
                            "Sizes of tensors must match except in dimension %d. Expected size %lld but got "
                            "size %lld for tensor "
                            "number %u in the list.",
                            dim, (long long)like->dims[k], (long long)t->dims[k], i);
    return MT_OK;
}

mt_status mt__infer_cat(mt__call *call)
{
    const mt_value *list = &call->args[0];
    const mt_tensor *like = NULL;
    int64_t dims[MT_MAX_RANK], total = 0;
    int dim;
    if (list->count == 0)
        return mt__fail(MT_E_VALUE, "torch.cat(): expected a non-empty list of Tensors");
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < list->count && status == MT_OK; i++) {
        const mt_tensor *t = list->as.tensors[i];
        if (t->rank == 0)
            status =
                mt__fail(MT_E_RUNTIME, "zero-dimensional tensor (at position %u) cannot be concatenated", i);
        if (like == NULL && !is_skipped(t))
            like = t;
    }
    if (status != MT_OK)
        return status;
    like = like != NULL ? like : list->as.tensors[0];
    status = mt__wrap_dim(mt__arg_int(call, 1), like->rank, &dim);
    for (uint32_t i = 0; i < list->count && status == MT_OK; i++) {
        if (is_skipped(list->as.tensors[i]))
            continue;
        status = check_joins(like, list->as.tensors[i], dim, i);
        if (status == MT_OK)
            total += list->as.tensors[i]->dims[dim];
    }
    if (status != MT_OK)
        return status;
    memcpy(dims, like->dims, like->rank * sizeof *dims);
    dims[dim] = total;
    return mt__empty(list_dtype(list), call->device, like->rank, dims, &call->outs[0]);
}

mt_status mt__infer_stack(mt__call *call)
{
    const mt_value *list = &call->args[0];
    int64_t dims[MT_MAX_RANK];
    int dim, rank;
    if (list->count == 0)
        return mt__fail(MT_E_RUNTIME, "stack expects a non-empty TensorList");
    const mt_tensor *first = list->as.tensors[0];
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), first->rank + 1, &dim);
    if (status != MT_OK)
        return status;
    rank = first->rank + 1;
    if (rank > MT_MAX_RANK)
        return mt__fail(MT_E_RUNTIME, "tensors of more than %d dimensions are not supported (got %d)",
                        MT_MAX_RANK, rank);
    for (uint32_t i = 1; i < list->count; i++) {
        const mt_tensor *t = list->as.tensors[i];
        if (t->rank != first->rank || memcmp(t->dims, first->dims, t->rank * sizeof *t->dims) != 0)
            return mt__fail(
                MT_E_RUNTIME,
                "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %u",
                mt__shape_text(first->dims, first->rank), mt__shape_text(t->dims, t->rank), i);
    }
    for (int i = 0; i < rank; i++)
        dims[i] = i < dim ? first->dims[i] : i == dim ? (int64_t)list->count : first->dims[i - 1];
    return mt__empty(list_dtype(list), call->device, rank, dims, &call->outs[0]);
}

mt_status mt__infer_repeat(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    int rank, lead;
    int64_t dims[MT_MAX_RANK];
    mt_status status = mt__size_arg(&call->args[1], &rank, dims);
    if (status != MT_OK)
        return status;
    lead = rank - t->rank;
    if (lead < 0)
        return mt__fail(
            MT_E_RUNTIME,
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    for (int i = lead; i < rank; i++)
        if (__builtin_mul_overflow(dims[i], t->dims[i - lead], &dims[i]))
            return mt__fail(MT_E_RUNTIME, "numel: integer multiplication overflow");
    return mt__empty((mt_dtype)t->dtype, t->device, rank, dims, &call->outs[0]);
}

mt_status mt__infer_flip(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < call->args[1].count; i++) {
        int dim;
        mt_status status = mt__wrap_dim(call->args[1].as.ints[i], t->rank, &dim);
        if (status != MT_OK)
            return status;
        if (seen >> dim & 1u)
            return mt__fail(MT_E_RUNTIME, "dim %d appears multiple times in the list of dims", dim);
        seen |= 1u << dim;
    }
    return mt__empty_like(t, (mt_dtype)t->dtype, &call->outs[0]);
}

mt_status mt__infer_roll(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    uint32_t shifts = call->args[1].count, dims = call->args[2].count;
    int dim;
    if (shifts == 0)
        return mt__fail(MT_E_RUNTIME, "`shifts` required");
    if (shifts != dims && !(shifts == 1 && dims == 0))
        return mt__fail(MT_E_RUNTIME, "shifts and dimensions must align. shifts: %u, dims:%u", shifts, dims);
    for (uint32_t i = 0; i < dims; i++) {
        if (t->rank == 0)
            return mt__fail(MT_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                            (long long)call->args[2].as.ints[i]);
        mt_status status = mt__wrap_dim(call->args[2].as.ints[i], t->rank, &dim);
        if (status != MT_OK)
            return status;
    }
    return mt__empty_like(t, (mt_dtype)t->dtype, &call->outs[0]);
}

mt_status mt__infer_triangle(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    if (t->rank < 2)
        return mt__fail(MT_E_RUNTIME, "%s: input tensor must have at least 2 dimensions",
                        mt__op_short_name(call->op));
    return mt__empty_like(t, (mt_dtype)t->dtype, &call->outs[0]);
}

/* ------------------------------------------------------------------------------------------------- padding */

static mt_status check_padding(const mt_tensor *t, const mt_value *pad)
{
    if (pad->count % 2 != 0)
        return mt__fail(MT_E_RUNTIME, "Padding length must be divisible by 2");
    if (pad->count > 2u * t->rank)
        return mt__fail(
            MT_E_RUNTIME,
            "Padding length should be less than or equal to two times the input dimension but got "
            "padding length %u and input of dimension %d",
            pad->count, t->rank);
    return MT_OK;
}

mt_status mt__composite_pad(mt__call *call)
{
    const char *mode = call->args[2].as.text;
    mt_status status = check_padding(mt__arg_tensor(call, 0), &call->args[1]);
    if (status != MT_OK)
        return status;
    if (strcmp(mode, "constant") != 0)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "pad: mode '%s' is not supported, only 'constant'", mode);
    mt_value value = mt__arg_given(call, 3) ? call->args[3] : mt_value_int(0);
    return mt__return(call, MT(constant_pad_nd, call->args[0], call->args[1], value));
}

/* pad: amounts before and after, beginning with the last dim; negative ones cut. */
mt_status mt__infer_constant_pad_nd(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    const mt_value *pad = &call->args[1];
    int64_t dims[MT_MAX_RANK];
    mt_status status = check_padding(t, pad);
    if (status != MT_OK)
        return status;
    memcpy(dims, t->dims, t->rank * sizeof *dims);
    for (uint32_t i = 0; i < pad->count; i += 2) {
        int64_t before = pad->as.ints[i], after = pad->as.ints[i + 1], *n = &dims[t->rank - 1 - (int)i / 2];
        if (*n + (before < 0 ? before : 0) + (after < 0 ? after : 0) < 0)
            return mt__fail(MT_E_RUNTIME, "narrow(): length must be non-negative.");
        *n += before + after;
    }
    call->compute = (mt_dtype)t->dtype;
    return mt__empty(call->compute, call->device, t->rank, dims, &call->outs[0]);
}
