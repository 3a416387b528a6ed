/* runtime/ops/views.c - the infers of views: another shape, order or part of the same memory.
 *
 * Nothing is computed and no data is touched, so these work on every device. Messages are PyTorch's.
 * Invariant: a view's elements are within its storage; only as_strided needs to check that.
 */
#include "runtime/runtime.h"
#include "runtime/ops/views.h"
#include "runtime/ops/reduce.h"

/* The dims and strides of a view under construction. */
typedef struct geometry {
    int rank;
    int64_t offset;
    int64_t dims[MT_MAX_RANK + 1], strides[MT_MAX_RANK + 1];
} geometry;

static geometry geometry_of(const mt_tensor *t)
{
    geometry g = {.rank = t->rank, .offset = t->offset};
    memcpy(g.dims, t->dims, t->rank * sizeof *t->dims);
    memcpy(g.strides, t->strides, t->rank * sizeof *t->strides);
    return g;
}

static void remove_dim(geometry *g, int dim)
{
    g->rank--;
    for (int i = dim; i < g->rank; i++) {
        g->dims[i] = g->dims[i + 1];
        g->strides[i] = g->strides[i + 1];
    }
}

static void insert_dim(geometry *g, int dim, int64_t size, int64_t stride)
{
    for (int i = g->rank; i > dim; i--) {
        g->dims[i] = g->dims[i - 1];
        g->strides[i] = g->strides[i - 1];
    }
    g->dims[dim] = size;
    g->strides[dim] = stride;
    g->rank++;
}

static mt_status finish(mt__call *call, const geometry *g)
{
    return mt__alias(mt__arg_tensor(call, 0), g->rank, g->dims, g->strides, g->offset, &call->outs[0]);
}

/* ------------------------------------------------------------------------------------------- another shape */

static mt_status too_many_dims(uint32_t rank)
{
    return mt__fail(MT_E_RUNTIME, "tensors of more than %d dimensions are not supported (got %u)",
                    MT_MAX_RANK, rank);
}

mt_status mt__size_arg(const mt_value *v, int *rank, int64_t *dims)
{
    if (v->count > MT_MAX_RANK)
        return too_many_dims(v->count);
    *rank = (int)v->count;
    if (v->count > 0) /* else there may be no list */
        memcpy(dims, v->as.ints, v->count * sizeof *dims);
    return MT_OK;
}

mt_status mt__view_size(const mt_tensor *t, const mt_value *size, int *rank, int64_t *dims)
{
    int64_t asked[MT_MAX_RANK];
    mt_status status = mt__size_arg(size, rank, asked);
    return status == MT_OK ? mt__infer_dims(t->numel, *rank, asked, dims) : status;
}

mt_status mt__wrap_two_dims(const mt__call *call, unsigned first, int rank, int *a, int *b)
{
    mt_status status = mt__wrap_dim(mt__arg_int(call, first), rank, a);
    return status == MT_OK ? mt__wrap_dim(mt__arg_int(call, first + 1), rank, b) : status;
}

bool mt__view_strides(const mt_tensor *t, int rank, const int64_t *dims, int64_t *strides)
{
    if (t->flags & MT__CONTIGUOUS) {
        mt__contiguous_strides(rank, dims, strides);
        return true;
    }
    /* Walk both shapes from the end: a contiguous run of dims of t can be split differently. */
    int to = rank - 1;
    int64_t chunk_stride = t->strides[t->rank - 1], have = 1, want = 1;
    for (int from = t->rank - 1; from >= 0; from--) {
        have *= t->dims[from];
        bool ends = from == 0 || (t->dims[from - 1] != 1 && t->strides[from - 1] != have * chunk_stride);
        if (!ends)
            continue;
        while (to >= 0 && (want < have || dims[to] == 1)) {
            strides[to] = want * chunk_stride;
            want *= dims[to--];
        }
        if (want != have)
            return false;
        if (from > 0) {
            chunk_stride = t->strides[from - 1];
            have = want = 1;
        }
    }
    return to == -1;
}

mt_status mt__infer_view(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    int rank = 0;
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    mt_status status = mt__view_size(t, &call->args[1], &rank, dims);
    if (status != MT_OK)
        return status;
    if (!mt__view_strides(t, rank, dims, strides))
        return mt__fail(MT_E_RUNTIME, "view size is not compatible with input tensor's size and stride (at "
                                      "least one dimension spans across two "
                                      "contiguous subspaces). Use .reshape(...) instead.");
    return mt__alias(t, rank, dims, strides, t->offset, &call->outs[0]);
}

/* A view for which reshape() found the strides; those of another caller are checked. */
mt_status mt__infer_reshape_alias(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    const mt_value *size = &call->args[1], *stride = &call->args[2];
    int rank = 0;
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    mt_status status = mt__view_size(t, size, &rank, dims);
    if (status != MT_OK)
        return status;
    bool same = (uint32_t)rank == stride->count && mt__view_strides(t, rank, dims, strides);
    for (int i = 0; same && i < rank; i++)
        same = strides[i] == stride->as.ints[i] || dims[i] == 1;
    if (!same)
        return mt__fail(MT_E_RUNTIME, "_reshape_alias: strides %s are not those of a view of size %s",
                        mt__shape_text(stride->as.ints, (int)stride->count), mt__shape_text(dims, rank));
    return mt__alias(t, rank, dims, strides, t->offset, &call->outs[0]);
}

static mt_status expand_dim(const mt_tensor *t, const mt_value *size, int i, int64_t *dims, int64_t *strides)
{
    int rank = (int)size->count, from = i - (rank - t->rank);
    int64_t have = from >= 0 ? t->dims[from] : 1, want = size->as.ints[i];
    int64_t stride = from >= 0 ? t->strides[from] : i + 1 < rank ? dims[i + 1] * strides[i + 1] : 1;
    if (want == -1 && from < 0)
        return mt__fail(
            MT_E_RUNTIME,
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension %d", i);
    if (want == -1)
        want = have;
    if (want != have && (have != 1 || want < 0))
        return mt__fail(MT_E_RUNTIME,
                        "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
                        "non-singleton dimension %d.  "
                        "Target sizes: %s.  Tensor sizes: %s",
                        (long long)want, (long long)have, i, mt__shape_text(size->as.ints, rank),
                        mt__shape_text(t->dims, t->rank));
    dims[i] = want;
    strides[i] = want != have ? 0 : stride;
    return MT_OK;
}

mt_status mt__infer_expand(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    const mt_value *size = &call->args[1];
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK], count = 1;
    if (size->count > MT_MAX_RANK)
        return too_many_dims(size->count);
    if (size->count < t->rank)
        return mt__fail(
            MT_E_RUNTIME,
            "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%u) must be greater or "
            "equal to the number "
            "of dimensions in the tensor (%d)",
            mt__scalar_type(t->dtype), mt__shape_text(t->dims, t->rank),
            mt__shape_text(size->as.ints, (int)size->count), size->count, t->rank);
    for (int i = (int)size->count - 1; i >= 0; i--) {
        mt_status status = expand_dim(t, size, i, dims, strides);
        if (status != MT_OK)
            return status;
        if (__builtin_mul_overflow(count, dims[i], &count))
            return mt__fail(MT_E_RUNTIME, "numel: integer multiplication overflow");
    }
    return mt__alias(t, (int)size->count, dims, strides, t->offset, &call->outs[0]);
}

mt_status mt__infer_unsqueeze(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), g.rank + 1, &dim);
    if (status != MT_OK)
        return status;
    insert_dim(&g, dim, 1, dim < g.rank ? g.dims[dim] * g.strides[dim] : 1);
    return finish(call, &g);
}

mt_status mt__infer_squeeze(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    for (int i = g.rank - 1; i >= 0; i--)
        if (g.dims[i] == 1)
            remove_dim(&g, i);
    return finish(call, &g);
}

mt_status mt__infer_squeeze_dim(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), g.rank, &dim);
    if (status != MT_OK)
        return status;
    if (g.rank > 0 && g.dims[dim] == 1)
        remove_dim(&g, dim);
    return finish(call, &g);
}

mt_status mt__infer_squeeze_dims(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    const mt_value *dims = &call->args[1];
    uint32_t mask;
    mt_status status = mt__dims_mask(dims->as.ints, dims->count, g.rank, &mask);
    if (status != MT_OK)
        return status;
    for (int i = g.rank - 1; i >= 0; i--)
        if ((mask >> i & 1u) && g.dims[i] == 1)
            remove_dim(&g, i);
    return finish(call, &g);
}

/* The last dim of a view with smaller or larger elements, and the strides and offset, which count in elements. */
static mt_status recount(geometry *g, mt_dtype from, mt_dtype to)
{
    int64_t had = (int64_t)mt_dtype_bytes(from), has = (int64_t)mt_dtype_bytes(to);
    int last = g->rank - 1;
    const char *a = mt__scalar_type(from), *b = mt__scalar_type(to);
    if (had == has)
        return MT_OK;
    if (g->rank == 0)
        return mt__fail(MT_E_RUNTIME, "self.dim() cannot be 0 to view %s as %s (different element sizes)", a,
                        b);
    if (g->strides[last] != 1)
        return mt__fail(MT_E_RUNTIME,
                        "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld",
                        a, b, (long long)g->strides[last]);
    int64_t times = has / had;
    if (has > had && g->dims[last] % times != 0)
        return mt__fail(MT_E_RUNTIME,
                        "self.size(-1) must be divisible by %lld to view %s as %s (different element "
                        "sizes), but got %lld",
                        (long long)times, a, b, (long long)g->dims[last]);
    if (has > had && g->offset % times != 0)
        return mt__fail(MT_E_RUNTIME,
                        "self.storage_offset() must be divisible by %lld to view %s as %s (different "
                        "element sizes), but got %lld",
                        (long long)times, a, b, (long long)g->offset);
    for (int i = 0; i < last; i++) {
        if (has > had && g->strides[i] % times != 0)
            return mt__fail(MT_E_RUNTIME,
                            "self.stride(%d) must be divisible by %lld to view %s as %s (different element "
                            "sizes), but got %lld",
                            i, (long long)times, a, b, (long long)g->strides[i]);
        g->strides[i] = g->strides[i] * had / has;
    }
    g->offset = g->offset * had / has;
    g->dims[last] = g->dims[last] * had / has;
    return MT_OK;
}

mt_status mt__infer_view_dtype(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    geometry g = geometry_of(self);
    mt_dtype dtype = (mt_dtype)mt__arg_int(call, 1);
    mt_status status = recount(&g, (mt_dtype)self->dtype, dtype);
    return status == MT_OK ? mt__alias_as(self, dtype, g.rank, g.dims, g.strides, g.offset, &call->outs[0])
                           : status;
}

mt_status mt__infer_alias(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    return finish(call, &g);
}

/* PyTorch records the dispatched op, and within it the function that creates the view. */
mt_status mt__infer_detach(mt__call *call)
{
    if (MT__LIKELY(!call->recorded))
        return mt__infer_alias(call);
    return mt__record_part(call, MT_OP_detach, "detach", call->args, mt__infer_alias);
}

mt_status mt__infer_as_strided(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    const mt_value *size = &call->args[1], *stride = &call->args[2];
    int64_t offset = mt__arg_given(call, 3) ? mt__arg_int(call, 3) : t->offset, last = offset, count = 1;
    if (size->count != stride->count)
        return mt__fail(MT_E_RUNTIME, "mismatch in length of strides and shape");
    if (size->count > MT_MAX_RANK)
        return too_many_dims(size->count);
    bool fits = offset >= 0;
    for (uint32_t i = 0; i < size->count; i++) {
        int64_t n = size->as.ints[i], step = stride->as.ints[i], way = 0;
        if (step < 0)
            return mt__fail(MT_E_RUNTIME,
                            "as_strided: Negative strides are not supported at the moment, got strides: %s",
                            mt__shape_text(stride->as.ints, (int)stride->count));
        if (n < 0)
            return mt__fail(MT_E_RUNTIME, "Storage size calculation overflowed with sizes=%s and strides=%s",
                            mt__shape_text(size->as.ints, (int)size->count),
                            mt__shape_text(stride->as.ints, (int)stride->count));
        fits &= !__builtin_mul_overflow(count, n, &count) &&
                !__builtin_mul_overflow(n > 0 ? n - 1 : 0, step, &way) &&
                !__builtin_add_overflow(last, way, &last);
    }
    int64_t bytes = 0, item = (int64_t)mt__size_of(t);
    fits &= last < INT64_MAX && !__builtin_mul_overflow(last + 1, item, &bytes);
    if (offset < 0)
        return mt__fail(MT_E_RUNTIME, "Tensor: invalid storage offset %lld", (long long)offset);
    if (!fits || (count > 0 && (uint64_t)bytes > t->storage->bytes))
        return mt__fail(MT_E_RUNTIME,
                        "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %lld requiring "
                        "a storage size of %lld "
                        "are out of bounds for storage of size %zu",
                        mt__shape_text(size->as.ints, (int)size->count),
                        mt__shape_text(stride->as.ints, (int)stride->count), (long long)offset,
                        (long long)item, (long long)bytes, t->storage->bytes);
    return mt__alias(t, (int)size->count, size->as.ints, stride->as.ints, offset, &call->outs[0]);
}

/* ------------------------------------------------------------------------------------------- another order */

static void swap_dims(geometry *g, int a, int b)
{
    int64_t size = g->dims[a], stride = g->strides[a];
    g->dims[a] = g->dims[b];
    g->strides[a] = g->strides[b];
    g->dims[b] = size;
    g->strides[b] = stride;
}

mt_status mt__infer_t(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    if (g.rank > 2)
        return mt__fail(MT_E_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD", g.rank);
    if (g.rank == 2)
        swap_dims(&g, 0, 1);
    return finish(call, &g);
}

mt_status mt__infer_transpose(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    int a, b;
    mt_status status = mt__wrap_two_dims(call, 1, g.rank, &a, &b);
    if (status != MT_OK)
        return status;
    if (g.rank > 0)
        swap_dims(&g, a, b);
    return finish(call, &g);
}

mt_status mt__infer_permute(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    const mt_value *order = &call->args[1];
    geometry g = {.rank = t->rank, .offset = t->offset};
    uint32_t seen = 0;
    if (order->count != t->rank)
        return mt__fail(MT_E_RUNTIME,
                        "permute(sparse_coo): number of dimensions in the tensor input does not match the "
                        "length of the desired "
                        "ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %u",
                        t->rank, order->count);
    for (int i = 0; i < t->rank; i++) {
        int dim;
        mt_status status = mt__wrap_dim(order->as.ints[i], t->rank, &dim);
        if (status != MT_OK)
            return status;
        if (seen >> dim & 1u)
            return mt__fail(MT_E_RUNTIME, "permute(): duplicate dims are not allowed.");
        seen |= 1u << dim;
        g.dims[i] = t->dims[dim];
        g.strides[i] = t->strides[dim];
    }
    return finish(call, &g);
}

/* -------------------------------------------------------------------------------------------------- a part */

static mt_status dim_with_parts(const mt__call *call, const char *op, int rank, int *dim)
{
    if (rank == 0)
        return mt__fail(MT_E_INDEX, "%s() cannot be applied to a 0-dim tensor.", op);
    return mt__wrap_dim(mt__arg_int(call, 1), rank, dim);
}

mt_status mt__infer_select(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    geometry g = geometry_of(t);
    int64_t index = mt__arg_int(call, 2);
    int dim;
    mt_status status = dim_with_parts(call, "select", g.rank, &dim);
    if (status != MT_OK)
        return status;
    if (index < -g.dims[dim] || index >= g.dims[dim])
        return mt__fail(MT_E_INDEX, "select(): index %lld out of range for tensor of size %s at dimension %d",
                        (long long)index, mt__shape_text(t->dims, t->rank), dim);
    g.offset += (index < 0 ? index + g.dims[dim] : index) * g.strides[dim];
    remove_dim(&g, dim);
    return finish(call, &g);
}

static int64_t clip(int64_t i, int64_t low, int64_t high)
{
    return i < low ? low : i > high ? high : i;
}

mt_status mt__infer_slice(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    int64_t step = mt__arg_int(call, 4);
    int dim;
    mt_status status = dim_with_parts(call, "slice", g.rank, &dim);
    if (status != MT_OK)
        return status;
    if (step <= 0)
        return mt__fail(MT_E_RUNTIME, "slice step must be positive");
    int64_t n = g.dims[dim];
    int64_t start = mt__arg_given(call, 2) ? mt__arg_int(call, 2) : 0,
            end = mt__arg_given(call, 3) ? mt__arg_int(call, 3) : n;
    start = clip(start < 0 ? start + n : start, 0, n);
    end = clip(end < 0 ? end + n : end, start, n);
    g.dims[dim] = (end - start) / step + ((end - start) % step != 0);
    g.offset += start * g.strides[dim];
    /* A single element needs no stride, and a huge one would overflow. */
    g.strides[dim] = g.dims[dim] > 1 || step < INT32_MAX ? g.strides[dim] * step : g.strides[dim];
    return finish(call, &g);
}

mt_status mt__infer_diagonal(mt__call *call)
{
    geometry g = geometry_of(mt__arg_tensor(call, 0));
    int64_t shift = mt__arg_int(call, 1);
    int a, b;
    mt_status status = mt__wrap_two_dims(call, 2, g.rank, &a, &b);
    if (status != MT_OK)
        return status;
    if (a == b)
        return mt__fail(MT_E_RUNTIME, "diagonal dimensions cannot be identical %lld, %lld",
                        (long long)mt__arg_int(call, 2), (long long)mt__arg_int(call, 3));
    int64_t rows = g.dims[a], columns = g.dims[b], stride = g.strides[a] + g.strides[b];
    int64_t down = shift < 0 ? (shift < -rows ? rows : -shift) : 0, right = shift > columns ? columns
                                                                            : shift > 0     ? shift
                                                                                            : 0;
    int64_t n = rows - down < columns - right ? rows - down : columns - right;
    if (n > 0)
        g.offset += down * g.strides[a] + right * g.strides[b];
    remove_dim(&g, a > b ? a : b);
    remove_dim(&g, a > b ? b : a);
    insert_dim(&g, g.rank, n, stride);
    return finish(call, &g);
}

/* ------------------------------------------------------------------------------------------ several parts */

static mt_status cut(mt__call *call, int dim, const int64_t *sizes, int64_t equal, uint32_t count)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    mt_status status = mt__call_outs(call, count);
    int64_t begin = 0, n = t->dims[dim];
    for (uint32_t i = 0; i < count && status == MT_OK; i++) {
        geometry g = geometry_of(t);
        g.dims[dim] = sizes != NULL ? sizes[i] : n - begin < equal ? n - begin : equal;
        g.offset += g.dims[dim] > 0 ? begin * g.strides[dim] : 0;
        begin += g.dims[dim];
        status = mt__alias(t, g.rank, g.dims, g.strides, g.offset, &call->outs[i]);
    }
    return status;
}

mt_status mt__infer_split(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    int64_t size = mt__arg_int(call, 1);
    int dim;
    if (t->rank == 0)
        return mt__fail(MT_E_RUNTIME, "split expects at least a 1-dimensional tensor");
    if (size < 0)
        return mt__fail(MT_E_RUNTIME, "split expects split_size be non-negative, but got split_size=%lld",
                        (long long)size);
    mt_status status = mt__wrap_dim(mt__arg_int(call, 2), t->rank, &dim);
    if (status != MT_OK)
        return status;
    int64_t n = t->dims[dim];
    if (size == 0 && n != 0)
        return mt__fail(MT_E_RUNTIME,
                        "split_size can only be 0 if dimension size is 0, but got dimension size of %lld",
                        (long long)n);
    int64_t parts = size == 0 || n == 0 ? 1 : n / size + (n % size != 0);
    return cut(call, dim, NULL, size, (uint32_t)parts);
}

/* Parts that autograd does not take for views: each may be changed in place, if the whole is not used again. */
mt_status mt__infer_unsafe_split(mt__call *call)
{
    mt_status status = mt__infer_split(call);
    for (uint32_t i = 0; i < call->out_count && status == MT_OK; i++)
        status = mt__leave_version(call->outs[i], 0);
    return status;
}

mt_status mt__infer_split_with_sizes(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    const mt_value *sizes = &call->args[1];
    int64_t total = 0;
    int dim;
    if (t->rank == 0)
        return mt__fail(MT_E_RUNTIME, "split expects at least a 1-dimensional tensor");
    mt_status status = mt__wrap_dim(mt__arg_int(call, 2), t->rank, &dim);
    if (status != MT_OK)
        return status;
    for (uint32_t i = 0; i < sizes->count; i++) {
        if (sizes->as.ints[i] < 0)
            return mt__fail(
                MT_E_RUNTIME,
                "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s",
                mt__shape_text(sizes->as.ints, (int)sizes->count));
        if (__builtin_add_overflow(total, sizes->as.ints[i], &total))
            total = INT64_MAX;
    }
    if (total != t->dims[dim])
        return mt__fail(MT_E_RUNTIME,
                        "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at "
                        "dimension %d), but got "
                        "split_sizes=%s",
                        (long long)t->dims[dim], dim, mt__shape_text(sizes->as.ints, (int)sizes->count));
    return cut(call, dim, sizes->as.ints, 0, sizes->count);
}

mt_status mt__infer_unbind(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), t->rank, &dim);
    if (status != MT_OK)
        return status;
    if (t->rank == 0)
        return mt__fail(MT_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                        (long long)mt__arg_int(call, 1));
    geometry g = geometry_of(t);
    int64_t n = g.dims[dim], stride = g.strides[dim];
    remove_dim(&g, dim);
    status = mt__call_outs(call, (uint32_t)n);
    for (int64_t i = 0; i < n && status == MT_OK; i++)
        status = mt__alias(t, g.rank, g.dims, g.strides, g.offset + i * stride, &call->outs[i]);
    return status;
}
