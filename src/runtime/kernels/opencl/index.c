/* kernels/opencl/index.c - indexing by tensors: embedding, index_select, gather, scatter, index, index_put,
 * and losses that index by a target. An index out of range sets the device's fault word: the next wait fails.
 */
#include "runtime/kernels/opencl/npu.h"
#include "runtime/ops/picks.h"
#include "runtime/ops/reduce.h"

typedef struct places { /* as in index.cl */
    int64_t dims[9], index[9], self[9], other[9];
} places;

/* X(variant, kernel, defines, dtypes) */
#define VARIANTS(X)                                                                                          \
    X(SELECT, "index_select", "NEED_select", MT__OF_ANY)                                                     \
    X(ADD, "index_add", "NEED_add", MT__OF_ANY)                                                              \
    X(GATHER, "gather", "NEED_gather", MT__OF_ANY)                                                           \
    X(SCATTER, "scatter", "NEED_scatter;ADDS 0", MT__OF_ANY)                                                 \
    X(SCATTER_ADD, "scatter_add", "NEED_scatter;ADDS 1", MT__OF_ANY)                                         \
    X(SCATTER_MULTIPLY, "scatter_multiply", "NEED_scatter;ADDS 0;MULTIPLIES 1", MT__OF_ANY)                  \
    X(NLL, "nll_loss", "NEED_nll", MT__OF_REAL)                                                              \
    X(NLL_BACK, "nll_loss_backward", "NEED_nll_backward", MT__OF_REAL)
enum {
    VARIANTS(MT__VARIANT_ID)
};
static const mt__variant variants[] = {VARIANTS(MT__VARIANT)};
static const mt__family family = {MT__INDEX, mt__cl_index, variants, MT__COUNT_OF(variants)};

static mt_status begin(mt__launch *l, mt__kernel *k, unsigned variant, const mt_tensor *t)
{
    mt_status status = mt__launch_begin(l, t->device);
    if (status == MT_OK && (variant == ADD || variant == SCATTER_ADD || variant == SCATTER_MULTIPLY) &&
        mt__size_of(t) == 8 && !l->npu->properties.has_int64_atomics)
        return mt__fail(MT_E_NOT_IMPLEMENTED,
                        "sums by index of '%s' need 64-bit atomics, which device %s lacks",
                        mt__scalar_type(t->dtype), mt__device_text(t->device));
    return status == MT_OK ? mt__npu_template(l->npu, &family, variant, (mt_dtype)t->dtype, k) : status;
}

/* out [outer, count, inner] from x [outer, size, inner] */
static mt_status select_rows(const mt_tensor *x, const mt_tensor *index, mt_tensor *out, int64_t size,
                             int64_t inner)
{
    mt__launch l;
    mt__kernel k;
    if (out->numel == 0)
        return MT_OK;
    mt_status status = begin(&l, &k, SELECT, x);
    if (status != MT_OK)
        return status;
    mt__launch_long(&l, out->numel);
    mt__launch_long(&l, index->numel);
    mt__launch_long(&l, size);
    mt__launch_long(&l, inner);
    mt__launch_tensor(&l, x);
    mt__launch_tensor(&l, index);
    mt__launch_tensor(&l, out);
    mt__launch_fault(&l);
    return mt__launch_flat(&l, &k, out->numel);
}

typedef struct addition {
    const mt_tensor *x, *index, *to; /* to [outer, size, inner] += x [outer, count, inner] */
    int64_t size, inner, skip;
    int dim;                 /* -1: invalid indices are skipped */
    const mt_tensor *counts; /* NULL: all of x is added */
} addition;

static mt_status add_rows(const addition *a)
{
    mt__launch l;
    mt__kernel k;
    if (a->x->numel == 0)
        return MT_OK;
    mt_status status = begin(&l, &k, ADD, a->x);
    if (status != MT_OK)
        return status;
    mt__launch_long(&l, a->x->numel);
    mt__launch_long(&l, a->index->numel);
    mt__launch_long(&l, a->size);
    mt__launch_long(&l, a->inner);
    mt__launch_long(&l, a->skip);
    mt__launch_long(&l, a->dim);
    mt__launch_flag(&l, a->counts != NULL);
    mt__launch_tensor(&l, a->x);
    mt__launch_tensor(&l, a->index);
    mt__launch_tensor(&l, a->counts != NULL ? a->counts : a->x);
    mt__launch_tensor(&l, a->to);
    mt__launch_fault(&l);
    return mt__launch_flat(&l, &k, a->x->numel);
}

mt_status mt__npu_embedding(mt__call *call)
{
    mt__held h = {.status = MT_OK};
    const mt_tensor *w = mt__hold(&h, mt__arg_tensor(call, 0)),
                    *index = mt__hold_as(&h, mt__arg_tensor(call, 1), MT_INT64);
    if (h.status == MT_OK)
        h.status = select_rows(w, index, call->outs[0], w->dims[0], w->dims[1]);
    return mt__let_go(&h);
}

/* How often each row is used, in the gradient's dtype. */
static mt_status count_uses(const mt_tensor *like, const mt_tensor *index, int64_t rows, mt_tensor **out)
{
    mt_tensor *ones = NULL, *same = NULL;
    mt_status status = mt__empty((mt_dtype)like->dtype, like->device, 1, &rows, out);
    if (status == MT_OK)
        status = mt__npu_zero_tensor(*out);
    if (status == MT_OK)
        status = mt__empty((mt_dtype)like->dtype, like->device, 1, &index->numel, &ones);
    if (status == MT_OK) {
        mt_value args[] = {mt_value_tensor(ones), mt_value_int(1)};
        status = mt__run_quietly(MT_OP_fill_, args, 2, &same);
    }
    if (status == MT_OK)
        status = add_rows(&(addition){ones, index, *out, rows, 1, INT64_MIN, -1, NULL});
    mt_release(same);
    mt_release(ones);
    return status;
}

mt_status mt__npu_embedding_dense_backward(mt__call *call)
{
    mt_tensor *out = call->outs[0], *counts = NULL;
    int64_t skip = mt__arg_int(call, 3);
    if (out->dtype == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"embedding_backward\" not implemented for 'Bool'");
    mt__held h = {.status = mt__npu_zero_tensor(out)};
    const mt_tensor *g = mt__hold(&h, mt__arg_tensor(call, 0)),
                    *index = mt__hold_as(&h, mt__arg_tensor(call, 1), MT_INT64);
    if (h.status == MT_OK && mt__arg_int(call, 4) != 0)
        h.status = count_uses(g, index, out->dims[0], &counts);
    if (h.status == MT_OK)
        h.status = add_rows(
            &(addition){g, index, out, out->dims[0], out->dims[1], skip < 0 ? INT64_MIN : skip, -1, counts});
    mt_release(counts);
    return mt__let_go(&h);
}

mt_status mt__npu_index_select(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold(&h, mt__arg_tensor(call, 0)),
                    *index = mt__hold_as(&h, mt__arg_tensor(call, 2), MT_INT64);
    if (h.status == MT_OK) {
        mt__split s = mt__split_at(x, mt__wrapped_dim(mt__arg_int(call, 1), x->rank));
        h.status = select_rows(x, index, out, s.n, s.inner);
    }
    return mt__let_go(&h);
}

/* Uses a dense copy if self is not dense. */
static const mt_tensor *hold_scaled(mt__held *h, const mt__call *call)
{
    if (h->status != MT_OK)
        return NULL;
    h->status = mt__scaled_source(call, &h->items[h->count]);
    return h->status == MT_OK ? h->items[h->count++] : NULL;
}

mt_status mt__npu_index_add(mt__call *call)
{
    mt_tensor *self = call->outs[0];
    mt__held h = {.status = MT_OK};
    const mt_tensor *index = mt__hold_as(&h, mt__arg_tensor(call, 2), MT_INT64),
                    *source = hold_scaled(&h, call), *to = mt__hold(&h, self);
    int dim = mt__wrapped_dim(mt__arg_int(call, 1), self->rank);
    mt__split s = mt__split_at(self, dim);
    if (h.status == MT_OK)
        h.status = add_rows(&(addition){source, index, to, s.n, s.inner, INT64_MIN, dim, NULL});
    if (h.status == MT_OK && to != self)
        h.status = mt__npu_assign(self, to);
    return mt__let_go(&h);
}

/* ---------------------------------------------------------------------------------------- gather and scatter */

/* dim == rank: the index is an offset in elements. */
static mt_status walk(unsigned variant, const mt_tensor *self, int dim, int64_t size, const mt_tensor *index,
                      const mt_tensor *other, const mt_value *number, const places *p, int rank,
                      int64_t total)
{
    mt__launch l;
    mt__kernel k;
    mt_dtype dtype = (mt_dtype)self->dtype;
    mt_value zero = mt_value_int(0);
    mt__scalar e = mt__scalar_of(dtype, number != NULL ? number : &zero);
    if (total == 0)
        return MT_OK;
    mt_status status = begin(&l, &k, variant, self);
    if (status != MT_OK)
        return status;
    mt__launch_long(&l, total);
    mt__launch_value(&l, &(int32_t){rank}, 4);
    mt__launch_value(&l, &(int32_t){dim}, 4);
    mt__launch_long(&l, size);
    mt__launch_value(&l, p, sizeof *p);
    mt__launch_tensor(&l, self);
    mt__launch_tensor(&l, index);
    mt__launch_tensor(&l, other != NULL ? other : self);
    mt__launch_value(&l, &e, (uint32_t)mt_dtype_bytes(dtype));
    mt__launch_flag(&l, number != NULL);
    mt__launch_fault(&l);
    return mt__launch_flat(&l, &k, total);
}

static void copy_strides(int64_t *to, const mt_tensor *t)
{
    if (t != NULL)
        memcpy(to, t->strides, t->rank * sizeof *to);
}

static mt_status along(unsigned variant, const mt_tensor *self, int64_t dim_asked, const mt_tensor *picks,
                       const mt_tensor *other, const mt_value *number)
{
    places p;
    int dim = 0;
    mt__held h = {.status = MT_OK};
    const mt_tensor *index = picks->dtype == MT_INT64 ? picks : mt__hold_as(&h, picks, MT_INT64);
    if (h.status == MT_OK)
        h.status = mt__wrap_dim(dim_asked, self->rank, &dim);
    if (h.status == MT_OK) {
        memset(&p, 0, sizeof p);
        for (int i = 0; i < index->rank; i++)
            p.dims[i] = index->dims[i];
        copy_strides(p.index, index);
        copy_strides(p.self, self);
        copy_strides(p.other, other);
        if (self->rank == 0)
            p.self[0] = 1;
        h.status = walk(variant, self, dim, self->rank > 0 ? self->dims[dim] : 1, index, other, number, &p,
                        index->rank, index->numel);
    }
    return mt__let_go(&h);
}

mt_status mt__npu_gather(mt__call *call)
{
    return along(GATHER, mt__arg_tensor(call, 0), mt__arg_int(call, 1), mt__arg_tensor(call, 2),
                 call->outs[0], NULL);
}

mt_status mt__npu_scatter(mt__call *call)
{
    mt_op_id op = call->op->base;
    unsigned variant = op == MT_OP_scatter_add ? SCATTER_ADD : SCATTER;
    if (op == MT_OP_scatter_reduce)
        variant = call->args[4].as.text[0] == 'a' ? SCATTER_ADD : SCATTER_MULTIPLY;
    mt_tensor *self = mt__arg_tensor(call, 0), *out = call->outs[0];
    const mt_tensor *src = mt__arg_tensor(call, 3);
    mt_status status = out != self ? mt__npu_assign(out, self) : MT_OK;
    if (status != MT_OK)
        return status;
    return along(variant, out, mt__arg_int(call, 1), mt__arg_tensor(call, 2), src,
                 src == NULL ? &call->args[3] : NULL);
}

/* -------------------------------------------------------------------------------------------- index, index_put */

/* The offset of every pick from self's first element, as int64 of the index's shape. */
static mt_status offsets_of(const mt_tensor *self, const mt__picks *p, mt_tensor **out)
{
    mt_status status = mt__empty(MT_INT64, self->device, p->index_rank, p->index_dims, out);
    if (status == MT_OK && p->count == 0)
        status = mt__npu_zero_tensor(*out);
    for (int i = 0; i < p->count && status == MT_OK; i++) {
        mt_value size = mt_value_int(self->dims[p->dim[i]]), step = mt_value_int(self->strides[p->dim[i]]),
                 dim = mt_value_int(p->dim[i]);
        mt__map m = {.id = i == 0 ? MT__OFFSETS_FIRST : MT__OFFSETS_MORE, .compute = MT_INT64, .out = *out};
        mt__map_add_tensor(&m, p->index[i], MT_INT64);
        if (i > 0)
            mt__map_add_tensor(&m, *out, MT_INT64);
        mt__map_number(&m, &size);
        mt__map_number(&m, &step);
        mt__map_number(&m, &dim);
        status = mt__map_run(&m);
    }
    return status;
}

static mt_status pick_many(unsigned variant, const mt_tensor *self, const mt__picks *p,
                           const mt_tensor *other)
{
    places at;
    mt_tensor *offsets = NULL;
    int64_t other_strides[MT_MAX_RANK], total = 1, strides[MT_MAX_RANK];
    mt_status status = offsets_of(self, p, &offsets);
    if (status == MT_OK) {
        memset(&at, 0, sizeof at);
        mt__broadcast_strides(other, p->rank, p->dims, other_strides);
        mt__contiguous_strides(p->index_rank, p->index_dims, strides);
        for (int i = 0; i < p->rank; i++) {
            int k = i - p->before;
            at.dims[i] = p->dims[i];
            at.other[i] = other_strides[i];
            total *= p->dims[i];
            if (k >= 0 && k < p->index_rank)
                at.index[i] = strides[k];
            else
                at.self[i] = p->rest_strides[k < 0 ? i : i - p->index_rank];
        }
        at.self[p->rank] = 1;
        status = walk(variant, self, p->rank, INT64_MAX, offsets, other, NULL, &at, p->rank, total);
    }
    mt_release(offsets);
    return status;
}

mt_status mt__npu_index(mt__call *call)
{
    return pick_many(GATHER, mt__arg_tensor(call, 0), call->scratch, call->outs[0]);
}

mt_status mt__npu_index_put(mt__call *call)
{
    mt_tensor *value = mt__arg_tensor(call, 2), *moved = NULL;
    mt_status status = MT_OK;
    if (value->device != call->device) {
        mt_value args[] = {mt_value_tensor(value), mt_value_none(NULL), mt_value_int(call->device)};
        status = mt__run_quietly(MT_OP__to_copy, args, 3, &moved);
    }
    if (status == MT_OK)
        status = pick_many(mt__arg_int(call, 3) ? SCATTER_ADD : SCATTER, call->outs[0], call->scratch,
                           moved != NULL ? moved : value);
    mt_release(moved);
    return status;
}

/* The size depends on the data: counts on the device, reads the count, then writes the positions by rank. */
mt_status mt__npu_nonzero(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_status status = MT_OK;
    mt_scope scope;
    bool was = mt_grad_enable(false);
    int64_t count = 0, n = self->numel;
    mt_scope_enter(&scope);
    mt_tensor *flags = MT(reshape, MT(ne, mt__arg_tensor(call, 0), 0), MT_SHAPE(n));
    mt_tensor *total = MT(sum, flags);
    status = total != NULL ? mt_item_int(total, &count) : scope.status;
    if (status == MT_OK)
        status = mt__empty(MT_INT64, self->device, 2, (int64_t[]){count, self->rank}, &call->outs[0]);
    if (status == MT_OK && count > 0 && self->rank > 0) {
        /* elements that do not count go to an extra slot past the end */
        mt_tensor *rank_of = MT(sub, MT(cumsum, flags, 0), 1);
        mt_tensor *slot = MT(where, flags, rank_of, count);
        mt_tensor *flat = MT(empty, MT_SHAPE(count + 1), (int64_t)MT_INT64, (int64_t)self->device);
        flat = MT(scatter_, flat, 0, slot, MT(arange, n, (int64_t)MT_INT64, (int64_t)self->device));
        flat = MT(narrow, flat, 0, 0, count);
        int64_t step = 1;
        for (int d = self->rank - 1; d >= 0 && flat != NULL && status == MT_OK; d--) {
            mt_tensor *at = MT(remainder, MT(floor_divide, flat, step), self->dims[d]), *column;
            step *= self->dims[d];
            if (at == NULL)
                break;
            status = mt__alias(call->outs[0], 1, &count, (int64_t[]){self->rank}, d, &column);
            if (status == MT_OK)
                status = mt__npu_assign(column, at);
            mt_release(column);
        }
    }
    if (status == MT_OK)
        status = scope.status;
    scope.status = MT_OK;
    mt_scope_leave(&scope);
    mt_grad_enable(was);
    return status;
}

/* --------------------------------------------------------------------------------------------------- nll_loss */

static void nll_shape(const mt_tensor *x, int64_t *classes, int64_t *inner, int64_t *targets)
{
    *classes = x->dims[x->rank == 1 ? 0 : 1];
    *inner = 1;
    for (int i = 2; i < x->rank; i++)
        *inner *= x->dims[i];
    *targets = x->rank > 1 ? x->dims[0] * *inner : 1;
}

mt_status mt__npu_nll_loss(mt__call *call)
{
    int64_t reduction = mt__arg_int(call, 3), classes, inner, targets;
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold(&h, mt__arg_tensor(call, 0)),
                    *target = mt__hold_as(&h, mt__arg_tensor(call, 1), MT_INT64),
                    *w = mt__hold(&h, mt__arg_tensor(call, 2));
    if (h.status != MT_OK)
        return mt__let_go(&h);
    nll_shape(x, &classes, &inner, &targets);
    mt_dtype dtype = (mt_dtype)x->dtype;
    bool each = reduction == 0 && x->rank > 1;
    mt_tensor *loss = each ? mt_retain(call->outs[0]) : NULL, *weights = NULL;
    mt__launch l;
    mt__kernel k;
    h.status = begin(&l, &k, NLL, x);
    if (h.status == MT_OK && !each)
        h.status = mt__empty(dtype, x->device, 1, &targets, &loss);
    if (h.status == MT_OK)
        h.status = mt__empty(dtype, x->device, 1, &targets, &weights);
    if (h.status == MT_OK) {
        mt__launch_long(&l, targets);
        mt__launch_long(&l, classes);
        mt__launch_long(&l, inner);
        mt__launch_long(&l, mt__arg_int(call, 4));
        mt__launch_flag(&l, w != NULL);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, target);
        mt__launch_tensor(&l, w != NULL ? w : x);
        mt__launch_tensor(&l, loss);
        mt__launch_tensor(&l, weights);
        mt__launch_fault(&l);
        h.status = mt__launch_flat(&l, &k, targets);
    }
    if (h.status == MT_OK && reduction != 0)
        h.status = mt__npu_reduce(MT__SUM, weights, 1, targets, 1, call->outs[1], 0);
    if (h.status == MT_OK && reduction == 0)
        h.status = mt__npu_zero_tensor(call->outs[1]);
    if (h.status == MT_OK && !each)
        h.status = mt__npu_reduce(MT__SUM, loss, 1, targets, 1, call->outs[0], 0);
    if (h.status == MT_OK && reduction == 1) {
        mt_value args[] = {mt_value_tensor(call->outs[0]), mt_value_tensor(call->outs[1])};
        mt_tensor *same = NULL;
        h.status = mt__run_quietly(MT_OP_div_, args, 2, &same);
        mt_release(same);
    }
    mt_release(loss);
    mt_release(weights);
    return mt__let_go(&h);
}

mt_status mt__npu_nll_loss_backward(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    int64_t reduction = mt__arg_int(call, 4), classes, inner, targets;
    mt__held h = {.status = mt__npu_zero_tensor(out)};
    const mt_tensor *g = mt__hold(&h, mt__arg_tensor(call, 0)), *x = mt__arg_tensor(call, 1),
                    *target = mt__hold_as(&h, mt__arg_tensor(call, 2), MT_INT64),
                    *w = mt__hold(&h, mt__arg_tensor(call, 3)),
                    *weights = mt__hold(&h, mt__arg_tensor(call, 6));
    mt__launch l;
    mt__kernel k;
    nll_shape(x, &classes, &inner, &targets);
    if (h.status == MT_OK)
        h.status = begin(&l, &k, NLL_BACK, out);
    if (h.status == MT_OK) {
        mt__launch_long(&l, targets);
        mt__launch_long(&l, classes);
        mt__launch_long(&l, inner);
        mt__launch_long(&l, mt__arg_int(call, 5));
        mt__launch_flag(&l, reduction == 0 && x->rank > 1);
        mt__launch_flag(&l, reduction == 1);
        mt__launch_flag(&l, w != NULL);
        mt__launch_tensor(&l, g);
        mt__launch_tensor(&l, target);
        mt__launch_tensor(&l, w != NULL ? w : g);
        mt__launch_tensor(&l, weights);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_flat(&l, &k, targets);
    }
    return mt__let_go(&h);
}
