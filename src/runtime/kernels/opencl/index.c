/* kernels/opencl/index.c - elements picked by tensors: embedding, index_select, gather, scatter, index, index_put, and the
 * losses that pick by a target. An index out of range sets the device's fault word: the next wait fails.
 */
#include "runtime/kernels/opencl/npu.h"
#include "runtime/picks.h"
#include <stdio.h>

typedef struct places { /* as in index.cl */
    int64_t dims[9], index[9], self[9], other[9];
} places;

static mt_status kernel_of(mt__npu *npu, const char *name, const char *need, mt_dtype dtype, mt_dtype index,
                           unsigned which, const char *more, mt__kernel *k)
{
    static const uint8_t bytes[] = {1, 4, 8, 4, 8};
    char defines[300];
    bool adds = strstr(more, "ADDS 1") != NULL || strcmp(need, "add") == 0;
    snprintf(defines, sizeof defines, "#define NEED_%s\n#define INDEX %s\n#define ATOMIC_BYTES %d\n%s", need,
             mt__cl_type(index), adds ? bytes[dtype] : 0, more);
    mt__template t = {name, mt__cl_index, dtype, defines};
    return mt__npu_template(npu, MT__KEY(MT__INDEX, dtype, which << 3 | index), &t, k);
}

/* t seen as [outer, t->dims[dim], inner] */
static void split_at(const mt_tensor *t, int dim, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int i = 0; i < t->rank; i++)
        *(i < dim ? outer : i > dim ? inner : &(int64_t){0}) *= t->dims[i];
}

enum {
    SELECT,
    ADD,
    GATHER,
    SCATTER,
    SCATTER_NUMBER,
    SCATTER_ADD,
    NLL,
    NLL_WEIGHT,
    NLL_BACK,
    NLL_BACK_WEIGHT
};

/* out [outer, count, inner] from x [outer, size, inner] */
static mt_status select_rows(const char *name, const mt_tensor *x, const mt_tensor *index, mt_tensor *out,
                             int64_t size, int64_t inner)
{
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_begin(&l, out->device);
    if (status == MT_OK)
        status = kernel_of(l.npu, name, "select", (mt_dtype)x->dtype, (mt_dtype)index->dtype, SELECT,
                           "#define WRAPS 0\n", &k);
    if (status != MT_OK || out->numel == 0)
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

/* out [outer, size, inner] += x [outer, count, inner] */
static mt_status add_rows(const char *name, const mt_tensor *x, const mt_tensor *index, const mt_tensor *out,
                          int64_t size, int64_t inner, int64_t skip)
{
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_begin(&l, out->device);
    if (status == MT_OK)
        status = kernel_of(l.npu, name, "add", (mt_dtype)x->dtype, (mt_dtype)index->dtype, ADD, "", &k);
    if (status != MT_OK || x->numel == 0)
        return status;
    mt__launch_long(&l, x->numel);
    mt__launch_long(&l, index->numel);
    mt__launch_long(&l, size);
    mt__launch_long(&l, inner);
    mt__launch_long(&l, skip);
    mt__launch_tensor(&l, x);
    mt__launch_tensor(&l, index);
    mt__launch_tensor(&l, out);
    mt__launch_fault(&l);
    return mt__launch_flat(&l, &k, x->numel);
}

mt_status mt__npu_embedding(mt__call *call)
{
    mt__held h = {.status = MT_OK};
    const mt_tensor *w = mt__hold(&h, mt__arg_tensor(call, 0)),
                    *index = mt__hold(&h, mt__arg_tensor(call, 1));
    if (h.status == MT_OK)
        h.status = select_rows("embedding", w, index, call->outs[0], w->dims[0], w->dims[1]);
    return mt__let_go(&h);
}

mt_status mt__npu_embedding_dense_backward(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    int64_t skip = mt__arg_int(call, 3);
    if (mt__arg_int(call, 4) != 0)
        return mt__fail(MT_E_NOT_IMPLEMENTED,
                        "embedding_dense_backward: scale_grad_by_freq has no kernel for device %s",
                        mt__device_text(out->device));
    mt__held h = {.status = mt__npu_zero_tensor(out)};
    const mt_tensor *g = mt__hold(&h, mt__arg_tensor(call, 0)),
                    *index = mt__hold(&h, mt__arg_tensor(call, 1));
    if (h.status == MT_OK)
        h.status = add_rows("embedding_backward", g, index, out, out->dims[0], out->dims[1],
                            skip < 0 ? INT64_MIN : skip);
    return mt__let_go(&h);
}

mt_status mt__npu_index_select(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold(&h, mt__arg_tensor(call, 0)),
                    *index = mt__hold(&h, mt__arg_tensor(call, 2));
    int dim = 0;
    int64_t outer, inner;
    if (h.status == MT_OK)
        h.status = mt__wrap_dim(mt__arg_int(call, 1), out->rank, &dim);
    if (h.status == MT_OK) {
        split_at(x, dim, &outer, &inner);
        h.status = select_rows("index_select", x, index, out, x->rank > 0 ? x->dims[dim] : 1, inner);
    }
    return mt__let_go(&h);
}

/* Into a dense copy when self is not dense. */
mt_status mt__npu_index_add(mt__call *call)
{
    mt_tensor *self = call->outs[0];
    mt__held h = {.status = MT_OK};
    const mt_tensor *index = mt__hold(&h, mt__arg_tensor(call, 2)),
                    *source = mt__hold(&h, mt__arg_tensor(call, 3)), *to = mt__hold(&h, self);
    int dim = 0;
    int64_t outer, inner;
    if (h.status == MT_OK)
        h.status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    if (h.status == MT_OK) {
        split_at(self, dim, &outer, &inner);
        h.status =
            add_rows("index_add", source, index, to, self->rank > 0 ? self->dims[dim] : 1, inner, INT64_MIN);
    }
    if (h.status == MT_OK && to != self)
        h.status = mt__npu_assign(self, to);
    return mt__let_go(&h);
}

/* ---------------------------------------------------------------------------------------- gather and scatter */

/* dim == rank: the index is an offset in elements. */
static mt_status walk(const char *name, unsigned which, const mt_tensor *self, int dim, int64_t size,
                      const mt_tensor *index, const mt_tensor *other, const mt_value *number, const places *p,
                      int rank, int64_t total)
{
    static const char *const more[] = {[GATHER] = "",
                                       [SCATTER] = "#define ADDS 0\n#define NUMBER 0\n",
                                       [SCATTER_NUMBER] = "#define ADDS 0\n#define NUMBER 1\n",
                                       [SCATTER_ADD] = "#define ADDS 1\n"};
    mt__launch l;
    mt__kernel k;
    mt_dtype dtype = (mt_dtype)self->dtype;
    mt_value zero = mt_value_int(0);
    mt__element e = mt__element_of(dtype, number != NULL ? number : &zero);
    mt_status status = mt__launch_begin(&l, self->device);
    if (status == MT_OK)
        status = kernel_of(l.npu, name, which == GATHER ? "gather" : "scatter", dtype, (mt_dtype)index->dtype,
                           which, more[which], &k);
    if (status != MT_OK || total == 0)
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
    mt__launch_fault(&l);
    return mt__launch_flat(&l, &k, total);
}

static void copy_strides(int64_t *to, const mt_tensor *t)
{
    if (t != NULL)
        memcpy(to, t->strides, t->rank * sizeof *to);
}

static mt_status along(const char *name, unsigned which, const mt_tensor *self, int64_t dim_asked,
                       const mt_tensor *index, const mt_tensor *other, const mt_value *number)
{
    places p;
    int dim;
    memset(&p, 0, sizeof p);
    mt_status status = mt__wrap_dim(dim_asked, self->rank, &dim);
    if (status != MT_OK)
        return status;
    for (int i = 0; i < index->rank; i++)
        p.dims[i] = index->dims[i];
    copy_strides(p.index, index);
    copy_strides(p.self, self);
    copy_strides(p.other, other);
    if (self->rank == 0)
        p.self[0] = 1;
    return walk(name, which, self, dim, self->rank > 0 ? self->dims[dim] : 1, index, other, number, &p,
                index->rank, index->numel);
}

mt_status mt__npu_gather(mt__call *call)
{
    return along("gather", GATHER, mt__arg_tensor(call, 0), mt__arg_int(call, 1), mt__arg_tensor(call, 2),
                 call->outs[0], NULL);
}

mt_status mt__npu_scatter(mt__call *call)
{
    mt_op_id op = call->op->id;
    bool adds = op == MT_OP_scatter_add || op == MT_OP_scatter_add_;
    mt_tensor *self = mt__arg_tensor(call, 0), *out = call->outs[0];
    const mt_tensor *src = mt__arg_tensor(call, 3);
    mt_status status = out != self ? mt__npu_assign(out, self) : MT_OK;
    if (status != MT_OK)
        return status;
    return along(adds ? "scatter_add" : "scatter",
                 adds          ? SCATTER_ADD
                 : src != NULL ? SCATTER
                               : SCATTER_NUMBER,
                 out, mt__arg_int(call, 1), mt__arg_tensor(call, 2), src,
                 src == NULL ? &call->args[3] : NULL);
}

/* -------------------------------------------------------------------------------------------- index, index_put */

enum {
    OFFSETS_FIRST = 1000,
    OFFSETS_MORE = 1001
}; /* ids of maps; see elementwise.c */

/* The offset of every pick from self's first element, as int64 of the index's shape. */
static mt_status offsets_of(const mt_tensor *self, const mt__picks *p, mt_tensor **out)
{
    mt_status status = mt__empty(MT_INT64, self->device, p->index_rank, p->index_dims, out);
    if (status == MT_OK && p->count == 0)
        status = mt__npu_zero_tensor(*out);
    for (int i = 0; i < p->count && status == MT_OK; i++) {
        mt_value size = mt_value_int(self->dims[p->dim[i]]), step = mt_value_int(self->strides[p->dim[i]]);
        mt__map m = {.name = "index_offsets",
                     .id = i == 0 ? OFFSETS_FIRST : OFFSETS_MORE,
                     .compute = MT_INT64,
                     .gives = MT_INT64,
                     .out = *out};
        m.expression =
            i == 0 ? "((a < -k0 || a >= k0) ? (FAULT(FAULT_INDEX), 0L) : a < 0 ? a + k0 : a) * k1"
                   : "b + ((a < -k0 || a >= k0) ? (FAULT(FAULT_INDEX), 0L) : a < 0 ? a + k0 : a) * k1";
        mt__map_add_tensor(&m, p->index[i], MT_INT64);
        if (i > 0)
            mt__map_add_tensor(&m, *out, MT_INT64);
        mt__map_number(&m, &size);
        mt__map_number(&m, &step);
        status = mt__map_run(&m);
    }
    return status;
}

static mt_status pick_many(const char *name, unsigned which, const mt_tensor *self, const mt__picks *p,
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
        status = walk(name, which, self, p->rank, INT64_MAX, offsets, other, NULL, &at, p->rank, total);
    }
    mt_release(offsets);
    return status;
}

mt_status mt__npu_index(mt__call *call)
{
    return pick_many("index", GATHER, mt__arg_tensor(call, 0), call->scratch, call->outs[0]);
}

mt_status mt__npu_index_put(mt__call *call)
{
    return pick_many("index_put", mt__arg_int(call, 3) ? SCATTER_ADD : SCATTER, call->outs[0], call->scratch,
                     mt__arg_tensor(call, 2));
}

/* How many there are is in the data: it is counted on the device, read, and the places are written by rank. */
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
        /* the one place past the end takes what is not counted */
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
                    *target = mt__hold(&h, mt__arg_tensor(call, 1)),
                    *w = mt__hold(&h, mt__arg_tensor(call, 2));
    if (h.status != MT_OK)
        return mt__let_go(&h);
    nll_shape(x, &classes, &inner, &targets);
    mt_dtype dtype = (mt_dtype)x->dtype;
    bool each = reduction == 0 && x->rank > 1;
    mt_tensor *loss = each ? mt_retain(call->outs[0]) : NULL, *weights = NULL;
    mt__launch l;
    mt__kernel k;
    h.status = mt__launch_begin(&l, x->device);
    if (h.status == MT_OK && !each)
        h.status = mt__empty(dtype, x->device, 1, &targets, &loss);
    if (h.status == MT_OK)
        h.status = mt__empty(dtype, x->device, 1, &targets, &weights);
    if (h.status == MT_OK)
        h.status =
            kernel_of(l.npu, "nll_loss", "nll", dtype, (mt_dtype)target->dtype, w != NULL ? NLL_WEIGHT : NLL,
                      w != NULL ? "#define HAS_WEIGHT 1\n" : "#define HAS_WEIGHT 0\n", &k);
    if (h.status == MT_OK) {
        mt__launch_long(&l, targets);
        mt__launch_long(&l, classes);
        mt__launch_long(&l, inner);
        mt__launch_long(&l, mt__arg_int(call, 4));
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, target);
        mt__launch_tensor(&l, w != NULL ? w : x);
        mt__launch_tensor(&l, loss);
        mt__launch_tensor(&l, weights);
        mt__launch_fault(&l);
        h.status = mt__launch_flat(&l, &k, targets);
    }
    if (h.status == MT_OK && reduction != 0)
        h.status = mt__npu_reduce(&mt__fold_sum, dtype, weights, 1, targets, 1, call->outs[1], 0);
    if (h.status == MT_OK && reduction == 0)
        h.status = mt__npu_zero_tensor(call->outs[1]);
    if (h.status == MT_OK && !each)
        h.status = mt__npu_reduce(&mt__fold_sum, dtype, loss, 1, targets, 1, call->outs[0], 0);
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
                    *target = mt__hold(&h, mt__arg_tensor(call, 2)),
                    *w = mt__hold(&h, mt__arg_tensor(call, 3)),
                    *weights = mt__hold(&h, mt__arg_tensor(call, 6));
    mt__launch l;
    mt__kernel k;
    nll_shape(x, &classes, &inner, &targets);
    if (h.status == MT_OK)
        h.status = mt__launch_begin(&l, out->device);
    if (h.status == MT_OK)
        h.status = kernel_of(l.npu, "nll_loss_backward", "nll_backward", (mt_dtype)out->dtype,
                             (mt_dtype)target->dtype, w != NULL ? NLL_BACK_WEIGHT : NLL_BACK,
                             w != NULL ? "#define HAS_WEIGHT 1\n" : "#define HAS_WEIGHT 0\n", &k);
    if (h.status == MT_OK) {
        mt__launch_long(&l, targets);
        mt__launch_long(&l, classes);
        mt__launch_long(&l, inner);
        mt__launch_long(&l, mt__arg_int(call, 5));
        mt__launch_value(&l, &(int32_t){reduction == 0 && x->rank > 1}, 4);
        mt__launch_value(&l, &(int32_t){reduction == 1}, 4);
        mt__launch_tensor(&l, g);
        mt__launch_tensor(&l, target);
        mt__launch_tensor(&l, w != NULL ? w : g);
        mt__launch_tensor(&l, weights);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_flat(&l, &k, targets);
    }
    return mt__let_go(&h);
}
