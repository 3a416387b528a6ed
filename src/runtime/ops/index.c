/* runtime/ops/index.c - indexing by tensors: the infers and the composite ops.
 *
 * Bounds of indices depend on data, so the kernels check them. Infers touch no data; a mask in index() is
 * expanded by the op nonzero, on the mask's device.
 */
#include "runtime/ops/picks.h"
#include <stdlib.h>

static bool is_index(const mt_tensor *t)
{
    return t->dtype == MT_INT32 || t->dtype == MT_INT64;
}

/* An in-place op writes to self, its out-of-place form to a copy. */
static mt_status self_or_copy(mt__call *call)
{
    mt_tensor *self = mt__arg_tensor(call, 0);
    if (call->op->in_place) {
        call->outs[0] = mt_retain(self);
        return MT_OK;
    }
    return mt__empty_like(self, (mt_dtype)self->dtype, &call->outs[0]);
}

/* ------------------------------------------------------------------------------------- index and index_put_ */

static void drop_picks(void *user)
{
    mt__picks *p = user;
    for (int i = 0; i < p->count; i++)
        mt_release(p->index[i]);
    free(p);
}

/* Indices on the CPU are copied to the device of self. */
static mt_status move_index(const mt_tensor *self, mt_tensor **index)
{
    if (MT__LIKELY((*index)->device == self->device))
        return MT_OK;
    mt_value args[] = {mt_value_tensor(*index), mt_value_int(self->device)};
    mt_tensor *moved;
    mt_status status = mt_call(MT_OP_to_device, args, 2, &moved);
    if (status == MT_OK) {
        mt_release(*index);
        *index = moved;
    }
    return status;
}

static mt_status add_index(mt__picks *p, const mt_tensor *self, mt_tensor *index, int dim) /* takes index */
{
    mt_status status = move_index(self, &index);
    if (status != MT_OK) {
        mt_release(index);
        return status;
    }
    if (dim >= self->rank || p->count == MT_MAX_RANK) {
        mt_release(index);
        return mt__fail(MT_E_INDEX, "too many indices for tensor of dimension %d", self->rank);
    }
    p->index[p->count] = index;
    p->dim[p->count++] = dim;
    return MT_OK;
}

/* The positions where the mask is true: a column of nonzero() per dim. */
static mt_status add_mask(mt__picks *p, const mt_tensor *self, mt_tensor *mask, int dim)
{
    for (int i = 0; i < mask->rank; i++)
        if (dim + i >= self->rank || mask->dims[i] != self->dims[dim + i])
            return dim + i >= self->rank
                       ? mt__fail(MT_E_INDEX, "too many indices for tensor of dimension %d", self->rank)
                       : mt__fail(MT_E_INDEX,
                                  "The shape of the mask %s at index %d does not match the shape of the "
                                  "indexed tensor %s at index %d",
                                  mt__shape_text(mask->dims, mask->rank), i,
                                  mt__shape_text(self->dims, self->rank), dim + i);
    mt_tensor *at;
    mt_value v = mt_value_tensor(mask);
    mt_status status = mt_call(MT_OP_nonzero, &v, 1, &at);
    for (int i = 0; i < mask->rank && status == MT_OK; i++) {
        mt_value args[] = {mt_value_tensor(at), mt_value_int(1), mt_value_int(i)};
        mt_tensor *column;
        status = mt_call(MT_OP_select, args, 3, &column);
        if (status == MT_OK)
            status = add_index(p, self, column, dim + i);
    }
    mt_release(at);
    return status;
}

static mt_status add_indices(mt__picks *p, const mt_tensor *self, const mt_value *list)
{
    int dim = 0;
    mt_status status = MT_OK;
    if ((int64_t)list->count > self->rank)
        return mt__fail(MT_E_INDEX, "too many indices for tensor of dimension %d (got %u)", self->rank,
                        list->count);
    for (uint32_t i = 0; i < list->count && status == MT_OK; i++) {
        mt_tensor *t = list->as.tensors[i];
        if (t == NULL) {
            dim++;
        } else if (t->dtype == MT_BOOL || t->dtype == MT_UINT8) {
            if (t->rank == 0)
                return mt__fail(MT_E_NOT_IMPLEMENTED, "indexing by a 0-dim mask is not implemented");
            status = add_mask(p, self, t, dim);
            dim += t->rank;
        } else if (is_index(t)) {
            status = add_index(p, self, mt_retain(t), dim++);
        } else {
            return mt__fail(MT_E_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
        }
    }
    if (status == MT_OK && dim > self->rank)
        return mt__fail(MT_E_INDEX, "too many indices for tensor of dimension %d", self->rank);
    return status;
}

static mt_status shapes_mismatch(const mt__picks *p)
{
    char text[512] = "";
    size_t at = 0;
    for (int i = 0; i < p->count; i++) {
        const char *shape = mt__shape_text(p->index[i]->dims, p->index[i]->rank);
        size_t n = strlen(shape);
        if (at + n + 3 > sizeof text)
            break;
        memcpy(text + at, i > 0 ? ", " : "", i > 0 ? 2 : 0);
        at += i > 0 ? 2 : 0;
        memcpy(text + at, shape, n + 1);
        at += n;
    }
    return mt__fail(MT_E_INDEX,
                    "shape mismatch: indexing tensors could not be broadcast together with shapes %s", text);
}

/* The shape of the result, from the shapes of the indices and the remaining dims of self. */
static mt_status shape_picks(mt__picks *p, const mt_tensor *self)
{
    bool adjacent = true;
    uint32_t picked = 0;
    for (int i = 0; i < p->count; i++) {
        picked |= 1u << p->dim[i];
        adjacent &= i == 0 || p->dim[i] == p->dim[i - 1] + 1;
        if (mt__broadcast(p->index_rank, p->index_dims, p->index[i]->rank, p->index[i]->dims, &p->index_rank,
                          p->index_dims) != MT_OK)
            return shapes_mismatch(p);
    }
    int64_t left = 1, picks = mt__numel(p->index_rank, p->index_dims);
    for (int i = 0; i < self->rank; i++)
        if (!(picked >> i & 1u)) {
            left *= self->dims[i];
            p->rest_dims[p->rest_rank] = self->dims[i];
            p->rest_strides[p->rest_rank++] = self->strides[i];
        }
    for (int i = 0; i < p->count; i++)
        if (self->dims[p->dim[i]] == 0 && picks * left != 0)
            return mt__fail(MT_E_INDEX, "index is out of bounds for dimension with size 0");
    p->before = adjacent && p->count > 0 ? p->dim[0] : 0;
    if (p->rest_rank + p->index_rank > MT_MAX_RANK)
        return mt__fail(MT_E_RUNTIME, "tensors of more than %d dimensions are not supported (got %d)",
                        MT_MAX_RANK, p->rest_rank + p->index_rank);
    for (int i = 0; i < p->before; i++)
        p->dims[p->rank++] = p->rest_dims[i];
    for (int i = 0; i < p->index_rank; i++)
        p->dims[p->rank++] = p->index_dims[i];
    for (int i = p->before; i < p->rest_rank; i++)
        p->dims[p->rank++] = p->rest_dims[i];
    return MT_OK;
}

static mt_status make_picks(mt__call *call, mt__picks **out)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt__picks *p = calloc(1, sizeof *p);
    *out = p;
    if (p == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: indices");
    call->scratch = p;
    call->drop_scratch = drop_picks;
    mt_status status = add_indices(p, self, &call->args[1]);
    return status == MT_OK ? shape_picks(p, self) : status;
}

mt_status mt__infer_index(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt__picks *p;
    mt_status status = make_picks(call, &p);
    return status == MT_OK ? mt__empty((mt_dtype)self->dtype, self->device, p->rank, p->dims, &call->outs[0])
                           : status;
}

mt_status mt__infer_index_put(mt__call *call)
{
    mt_tensor *self = mt__arg_tensor(call, 0);
    const mt_tensor *values = mt__arg_tensor(call, 2);
    mt__picks *p;
    if (values->dtype != self->dtype)
        return mt__fail(MT_E_RUNTIME,
                        "Index put requires the source and destination dtypes match, got %s for the "
                        "destination and %s for the "
                        "source.",
                        mt__scalar_type(self->dtype), mt__scalar_type(values->dtype));
    mt_status status = make_picks(call, &p);
    if (status != MT_OK)
        return status;
    int rank;
    int64_t dims[MT_MAX_RANK];
    status = mt__broadcast(values->rank, values->dims, p->rank, p->dims, &rank, dims);
    if (status != MT_OK || rank != p->rank || memcmp(dims, p->dims, (size_t)rank * sizeof *dims) != 0)
        return mt__fail(
            MT_E_RUNTIME,
            "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
            mt__shape_text(values->dims, values->rank), mt__shape_text(p->dims, p->rank));
    status = mt__check_overlap(self, &call->args[2], 1);
    if (status == MT_OK)
        call->outs[0] = mt_retain(self);
    return status;
}

/* ---------------------------------------------------------------------------------- along one dim, by a list */

mt_status mt__infer_index_select(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *index = mt__arg_tensor(call, 2);
    int64_t dims[MT_MAX_RANK];
    int dim;
    if (index->rank > 1)
        return mt__fail(MT_E_INDEX, "index_select(): Index is supposed to be a vector");
    if (!is_index(index))
        return mt__fail(MT_E_RUNTIME, "index_select(): Expected dtype int32 or int64 for index");
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    if (status != MT_OK)
        return status;
    if (self->rank == 0 && index->numel != 1)
        return mt__fail(MT_E_RUNTIME,
                        "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
                        (long long)index->numel);
    memcpy(dims, self->dims, self->rank * sizeof *dims);
    if (self->rank > 0)
        dims[dim] = index->numel;
    return mt__empty((mt_dtype)self->dtype, self->device, self->rank, dims, &call->outs[0]);
}

mt_status mt__infer_index_add(mt__call *call)
{
    mt_tensor *self = mt__arg_tensor(call, 0);
    const mt_tensor *index = mt__arg_tensor(call, 2), *source = mt__arg_tensor(call, 3);
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    if (status != MT_OK)
        return status;
    if (index->rank > 1)
        return mt__fail(
            MT_E_INDEX,
            "index_add_(): Index is supposed to be a vector, but got dim: %d with type: %s and size: %s",
            index->rank, mt__scalar_type(index->dtype), mt__shape_text(index->dims, index->rank));
    if (!is_index(index))
        return mt__fail(MT_E_RUNTIME, "index_add_(): Expected dtype int32/int64 for index but got: %s",
                        mt__scalar_type(index->dtype));
    if (self->dtype != source->dtype)
        return mt__fail(MT_E_RUNTIME,
                        "index_add_(): self (%s) and source (%s) must have the same scalar type",
                        mt__scalar_type(self->dtype), mt__scalar_type(source->dtype));
    if (source->rank > 0 && dim >= source->rank)
        return mt__fail(MT_E_INDEX,
                        "index_add_(): Indexing dim %d is out of bounds of the source tensor with dim %d",
                        dim, source->rank);
    status = mt__check_written(self);
    if (status == MT_OK)
        status = mt__check_fits(&call->args[4], (mt_dtype)self->dtype);
    if (status != MT_OK)
        return status;
    int64_t parts = source->rank == 0 ? 1 : source->dims[dim];
    if (index->numel != parts)
        return mt__fail(
            MT_E_RUNTIME,
            "index_add_(): Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: %d",
            (long long)index->numel, (long long)parts, dim);
    bool fits = self->rank == source->rank;
    for (int i = 0; i < self->rank && fits; i++)
        fits = i == dim || self->dims[i] == source->dims[i];
    if (!fits)
        return mt__fail(MT_E_RUNTIME,
                        "source tensor shape must match self tensor shape, excluding the specified "
                        "dimension. Got self.shape = %s "
                        "source.shape = %s",
                        mt__shape_text(self->dims, self->rank), mt__shape_text(source->dims, source->rank));
    call->outs[0] = mt_retain(self);
    return MT_OK;
}

mt_status mt__scaled_source(const mt__call *call, mt_tensor **out)
{
    mt_value args[] = {call->args[3], call->args[4]};
    if (mt__value_number(&args[1]) == 1)
        return mt__contiguous(args[0].as.tensor, out);
    mt_tensor *dense;
    mt_status status = mt__contiguous(args[0].as.tensor, &dense);
    if (status != MT_OK)
        return status;
    args[0] = mt_value_tensor(dense);
    if (dense->dtype == MT_BOOL) /* like PyTorch, which casts it to the dtype */
        args[1] = mt_value_truth(mt__value_number(&args[1]) != 0);
    else if (!mt__is_floating((mt_dtype)dense->dtype))
        args[1] = mt_value_int(mt__arg_int(call, 4));
    status = mt__run_quietly(MT_OP_mul, args, 2, out);
    mt_release(dense);
    return status;
}

mt_status mt__infer_embedding(mt__call *call)
{
    const mt_tensor *weight = mt__arg_tensor(call, 0), *index = mt__arg_tensor(call, 1);
    int64_t dims[MT_MAX_RANK + 1];
    if (weight->rank != 2)
        return mt__fail(MT_E_RUNTIME, "'weight' must be 2-D");
    if (!is_index(index))
        return mt__fail(MT_E_RUNTIME,
                        "Expected tensor for argument #1 'indices' to have one of the following scalar "
                        "types: Long, Int; but got "
                        "torch.%sTensor instead (while checking arguments for embedding)",
                        mt__scalar_type(index->dtype));
    memcpy(dims, index->dims, index->rank * sizeof *dims);
    dims[index->rank] = weight->dims[1];
    return mt__empty((mt_dtype)weight->dtype, weight->device, index->rank + 1, dims, &call->outs[0]);
}

mt_status mt__infer_embedding_dense_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *index = mt__arg_tensor(call, 1);
    if (!is_index(index))
        return mt__fail(MT_E_RUNTIME, "embedding_dense_backward: indices must be of dtype int32 or int64");
    if (grad->rank != index->rank + 1 ||
        memcmp(grad->dims, index->dims, index->rank * sizeof *index->dims) != 0)
        return mt__fail(MT_E_RUNTIME,
                        "embedding_dense_backward: the gradient's shape %s does not fit indices of shape %s",
                        mt__shape_text(grad->dims, grad->rank), mt__shape_text(index->dims, index->rank));
    int64_t dims[] = {mt__arg_int(call, 2), grad->dims[grad->rank - 1]};
    return mt__empty((mt_dtype)grad->dtype, grad->device, 2, dims, &call->outs[0]);
}

/* ----------------------------------------------------------------------------------------- gather and scatter */

/* A scalar counts as one-dimensional. */
static int64_t size_at(const mt_tensor *t, int dim)
{
    return t->rank == 0 ? 1 : t->dims[dim];
}

static int rank1(const mt_tensor *t)
{
    return t->rank == 0 ? 1 : t->rank;
}

mt_status mt__infer_gather(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *index = mt__arg_tensor(call, 2);
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    if (status != MT_OK)
        return status;
    if (!is_index(index))
        return mt__fail(MT_E_RUNTIME, "gather(): Expected dtype int32/int64 for index");
    if (index->numel > 0 && rank1(self) != rank1(index))
        return mt__fail(MT_E_RUNTIME, "Index tensor must have the same number of dimensions as input tensor");
    for (int i = 0; i < rank1(self) && index->numel > 0; i++)
        if (i != dim && size_at(index, i) > size_at(self, i))
            return mt__fail(MT_E_RUNTIME,
                            "Size does not match at dimension %d expected index %s to be no larger than self "
                            "%s apart from dimension "
                            "%d",
                            i, mt__shape_text(index->dims, index->rank),
                            mt__shape_text(self->dims, self->rank), dim);
    return mt__empty((mt_dtype)self->dtype, self->device, index->rank, index->dims, &call->outs[0]);
}

static mt_status check_scatter_shapes(const mt_tensor *self, const mt_tensor *index, const mt_tensor *src,
                                      int dim)
{
    bool fits = true;
    if (index->numel == 0)
        return MT_OK;
    if (rank1(self) != rank1(index))
        return mt__fail(MT_E_RUNTIME, "Index tensor must have the same number of dimensions as self tensor");
    if (src != NULL && rank1(src) != rank1(index))
        return mt__fail(MT_E_RUNTIME, "Index tensor must have the same number of dimensions as src tensor");
    for (int i = 0; i < rank1(self); i++)
        fits &= (i == dim || size_at(index, i) <= size_at(self, i)) &&
                (src == NULL || size_at(index, i) <= size_at(src, i));
    if (fits)
        return MT_OK;
    if (src == NULL)
        return mt__fail(
            MT_E_RUNTIME, "Expected index %s to be no larger than self %s apart from dimension %d",
            mt__shape_text(index->dims, index->rank), mt__shape_text(self->dims, self->rank), dim);
    return mt__fail(MT_E_RUNTIME,
                    "Expected index %s to be no larger than self %s apart from dimension %d and to be no "
                    "larger size than src %s",
                    mt__shape_text(index->dims, index->rank), mt__shape_text(self->dims, self->rank), dim,
                    mt__shape_text(src->dims, src->rank));
}

mt_status mt__infer_scatter(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *index = mt__arg_tensor(call, 2),
                    *src = mt__arg_tensor(call, 3);
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    if (status != MT_OK)
        return status;
    if (!is_index(index))
        return mt__fail(MT_E_RUNTIME, "scatter(): Expected dtype int32/int64 for index");
    if (src != NULL && src->dtype != self->dtype)
        return mt__fail(MT_E_RUNTIME, "scatter(): Expected self.dtype to be equal to src.dtype");
    status = mt__check_fits(&call->args[3], (mt_dtype)self->dtype);
    if (status == MT_OK)
        status = check_scatter_shapes(self, index, src, dim);
    if (status == MT_OK && call->op->in_place)
        status = mt__check_written(self);
    return status == MT_OK ? self_or_copy(call) : status;
}

mt_status mt__infer_scatter_add(mt__call *call)
{
    return mt__infer_scatter(call);
}

mt_status mt__infer_scatter_reduce(mt__call *call)
{
    const char *reduce = call->args[4].as.text;
    if (strcmp(reduce, "add") != 0 && strcmp(reduce, "multiply") != 0)
        return mt__fail(MT_E_RUNTIME, "reduce argument must be either add or multiply.");
    return mt__infer_scatter(call);
}

/* ------------------------------------------------------------------------------------------------ composites */

/* The size depends on the data: the kernel creates the output. */
mt_status mt__infer_nonzero(mt__call *call)
{
    (void)call;
    return MT_OK;
}

mt_status mt__composite_masked_select(mt__call *call)
{
    mt_tensor *self = mt__arg_tensor(call, 0), *mask = mt__arg_tensor(call, 1);
    int64_t dims[MT_MAX_RANK];
    int rank;
    if (mask->dtype != MT_BOOL)
        return mt__fail(MT_E_RUNTIME, "masked_select: expected BoolTensor for mask");
    mt_status status = mt__broadcast(mask->rank, mask->dims, self->rank, self->dims, &rank, dims);
    if (status != MT_OK)
        return status;
    if (rank == 0) { /* index() needs a dim to index */
        rank = 1;
        dims[0] = 1;
    }
    mt_value shape = mt_value_ints(dims, (uint32_t)rank);
    mt_tensor *all = MT(expand, self, shape), *where = MT(expand, mask, shape);
    if (mt_scope_status() != MT_OK)
        return mt_scope_status();
    return mt__return(call, MT(index, all, MT_LIST(where)));
}

mt_status mt__composite_one_hot(mt__call *call)
{
    mt_tensor *self = mt__arg_tensor(call, 0);
    int64_t classes = mt__arg_int(call, 1), least = 0, most = -1, dims[MT_MAX_RANK + 1];
    if (self->dtype != MT_INT64)
        return mt__fail(MT_E_RUNTIME, "one_hot is only applicable to index tensor of type LongTensor.");
    if (self->numel == 0 && classes <= 0)
        return mt__fail(MT_E_RUNTIME, "Can not infer total number of classes from empty tensor.");
    if (self->rank == MT_MAX_RANK)
        return mt__fail(MT_E_RUNTIME, "tensors of more than %d dimensions are not supported (got %d)",
                        MT_MAX_RANK, MT_MAX_RANK + 1);
    if (self->numel > 0) {
        const mt_tensor *low = MT(min, self), *high = MT(max, self);
        mt_status status = mt_scope_status();
        if (status == MT_OK)
            status = mt_item_int(low, &least);
        if (status == MT_OK)
            status = mt_item_int(high, &most);
        if (status != MT_OK)
            return status;
    }
    if (least < 0)
        return mt__fail(MT_E_RUNTIME, "Class values must be non-negative.");
    if (classes == -1)
        classes = most + 1;
    else if (classes <= most || classes < 0)
        return mt__fail(MT_E_RUNTIME, "Class values must be smaller than num_classes.");
    memcpy(dims, self->dims, self->rank * sizeof *dims);
    dims[self->rank] = classes;
    mt_tensor *out =
        MT(zeros, mt_value_ints(dims, self->rank + 1u), (int64_t)MT_INT64, (int64_t)self->device);
    if (self->numel > 0)
        MT(scatter_, out, -1, MT(unsqueeze, self, -1), 1);
    return mt__return(call, out);
}

mt_status mt__composite_gather_backward(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 1);
    mt_tensor *out = MT(new_zeros, mt__arg_tensor(call, 0), mt_value_ints(self->dims, self->rank));
    return mt__return(call, MT(scatter_add_, out, call->args[2], call->args[3], call->args[0]));
}

mt_status mt__composite_index_select_backward(mt__call *call)
{
    mt_tensor *out = MT(new_zeros, mt__arg_tensor(call, 0), call->args[1]);
    return mt__return(call, MT(index_add_, out, call->args[2], call->args[3], call->args[0]));
}

mt_status mt__composite_embedding_backward(mt__call *call)
{
    return mt__return(call, MT(embedding_dense_backward, call->args[0], call->args[1], call->args[2],
                               call->args[3], call->args[4]));
}
