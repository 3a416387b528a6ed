/* runtime/autograd/grad_shape.c - derivatives of views, joining and splitting.
 *
 * Most put a gradient back where its part came from. The engine sums over broadcast dims.
 */
#include "runtime/autograd/autograd.h"
#include "runtime/ops/reduce.h"
#include <stdlib.h>

#define GRAD(name, node, saves) const mt__grad mt__grad_##name = {node, saves, name##_backward};

/* --------------------------------------------------------------------------------------------------- views */

MT__GRAD_OF_FIRST(view, "ViewBackward0", "", MT(reshape, b->grads[0], mt__meta_shape(mt__meta_of(b, 0))))
const mt__grad mt__grad_reshape_alias = {"ReshapeAliasBackward0", "", view_backward};
const mt__grad mt__grad_unsafe_view = {"UnsafeViewBackward0", "", view_backward};

static mt_status expand_backward(mt__backward *b)
{
    mt__give(b, 0, b->grads[0]); /* the engine sums it over broadcast dims */
    return MT_OK;
}
GRAD(expand, "ExpandBackward0", "")

MT__GRAD_OF_FIRST(t, "TBackward0", "", MT(t, b->grads[0]))

MT__GRAD_OF_FIRST(transpose, "TransposeBackward0", "", MT(transpose, b->grads[0], b->args[1], b->args[2]))

static mt_status permute_backward(mt__backward *b)
{
    int64_t back[MT_MAX_RANK] = {0};
    uint32_t n = b->args[1].count;
    for (uint32_t i = 0; i < n; i++) {
        int64_t dim = b->args[1].as.ints[i];
        back[dim < 0 ? dim + n : dim] = i;
    }
    mt__give(b, 0, MT(permute, b->grads[0], mt_value_ints(back, n)));
    return mt_scope_status();
}
GRAD(permute, "PermuteBackward0", "")

MT__GRAD_OF_FIRST(alias, "AliasBackward0", "", b->grads[0])
MT__GRAD_OF_FIRST(unsqueeze, "UnsqueezeBackward0", "", MT(squeeze_dim, b->grads[0], b->args[1]))

static mt_status squeeze_backward(mt__backward *b)
{
    const mt__meta *self = mt__meta_of(b, 0);
    mt_tensor *grad = b->grads[0];
    for (int i = 0; i < self->rank; i++)
        if (self->dims[i] == 1)
            grad = MT(unsqueeze, grad, i);
    mt__give(b, 0, grad);
    return mt_scope_status();
}
GRAD(squeeze, "SqueezeBackward0", "")

static mt_status squeeze_dim_backward(mt__backward *b)
{
    const mt__meta *self = mt__meta_of(b, 0);
    int64_t dim = b->args[1].as.i;
    bool gone = self->rank > 0 && self->dims[dim < 0 ? dim + self->rank : dim] == 1;
    mt__give(b, 0, gone ? MT(unsqueeze, b->grads[0], b->args[1]) : b->grads[0]);
    return mt_scope_status();
}
GRAD(squeeze_dim, "SqueezeBackward1", "")

static mt_status squeeze_dims_backward(mt__backward *b)
{
    const mt__meta *self = mt__meta_of(b, 0);
    mt_tensor *grad = b->grads[0];
    uint32_t mask;
    mt_status status = mt__dims_mask(b->args[1].as.ints, b->args[1].count, self->rank, &mask);
    for (int i = 0; i < self->rank && status == MT_OK; i++)
        if ((mask >> i & 1u) && self->dims[i] == 1)
            grad = MT(unsqueeze, grad, i);
    mt__give(b, 0, grad);
    return status == MT_OK ? mt_scope_status() : status;
}
GRAD(squeeze_dims, "SqueezeBackward2", "")

MT__GRAD_OF_FIRST(select, "SelectBackward0", "",
                  MT(select_backward, b->grads[0], mt__meta_shape(mt__meta_of(b, 0)), b->args[1], b->args[2]))

static mt_status slice_backward(mt__backward *b)
{
    mt_value start = b->args[2].kind == MT_NONE ? mt_value_int(0) : b->args[2];
    mt_value end = b->args[3].kind == MT_NONE ? mt_value_int(INT64_MAX) : b->args[3];
    mt__give(b, 0,
             MT(slice_backward, b->grads[0], mt__meta_shape(mt__meta_of(b, 0)), b->args[1], start, end,
                b->args[4]));
    return mt_scope_status();
}
GRAD(slice, "SliceBackward0", "")

MT__GRAD_OF_FIRST(diagonal, "DiagonalBackward0", "",
                  MT(diagonal_backward, b->grads[0], mt__meta_shape(mt__meta_of(b, 0)), b->args[1],
                     b->args[2], b->args[3]))

/* ---------------------------------------------------------------------------------------------- as_strided */

/* May two indices refer to the same memory? PyTorch's test: false is always right. */
static bool overlaps(const mt__geometry *g)
{
    int64_t order[MT_MAX_RANK], n = 0;
    for (int i = 0; i < g->rank; i++) {
        if (g->dims[i] == 0)
            return false;
        if (g->dims[i] == 1)
            continue;
        int64_t k = n++;
        for (; k > 0 && g->strides[order[k - 1]] > g->strides[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    int64_t reach = 0;
    for (int64_t k = 0; k < n; k++) {
        if (g->strides[order[k]] <= reach)
            return true;
        reach += g->strides[order[k]] * (g->dims[order[k]] - 1);
    }
    return false;
}

static int64_t reach_of(const mt__geometry *g)
{
    int64_t last = g->offset;
    for (int i = 0; i < g->rank; i++)
        last += g->dims[i] > 0 ? (g->dims[i] - 1) * g->strides[i] : 0;
    return last + 1;
}

static mt_tensor *shown(mt_tensor *memory, const mt__geometry *g)
{
    return MT(as_strided, memory, mt_value_ints(g->dims, (uint32_t)g->rank),
              mt_value_ints(g->strides, (uint32_t)g->rank), g->offset);
}

/* The position in memory of each element of g. */
static mt_tensor *places(int64_t bytes, const mt__geometry *g, mt_device device)
{
    return MT(reshape, shown(MT(arange, bytes, (int64_t)MT_INT64, (int64_t)device), g), MT_SHAPE(-1));
}

/* Adds the gradient into an image of the memory and reads self's gradient from it. If self refers to a memory
 * element more than once, these share its gradient. */
static mt_status as_strided_backward(mt__backward *b)
{
    const mt__geometry *self = b->node->user;
    mt__geometry in = *self, out = {.rank = (int)b->args[1].count};
    memcpy(out.dims, b->args[1].as.ints, b->args[1].count * sizeof *out.dims);
    memcpy(out.strides, b->args[2].as.ints, b->args[2].count * sizeof *out.strides);
    out.offset = b->args[3].kind == MT_NONE ? self->offset : b->args[3].as.i;
    int64_t shared = in.offset < out.offset ? in.offset : out.offset;
    in.offset -= shared;
    out.offset -= shared;
    int64_t size = reach_of(&in) > reach_of(&out) ? reach_of(&in) : reach_of(&out);
    const mt_tensor *grad = b->grads[0];
    mt_tensor *memory = MT(new_zeros, grad, MT_SHAPE(size));
    if (overlaps(&out))
        MT(index_add_, memory, 0, places(size, &out, grad->device), MT(reshape, grad, MT_SHAPE(-1)));
    else
        MT(copy_, shown(memory, &out), grad);
    if (overlaps(&in)) {
        mt_tensor *count = MT(zeros_like, memory), *at = places(size, &in, grad->device);
        if (at != NULL)
            MT(index_add_, count, 0, at,
               MT(ones, mt_value_ints(at->dims, 1), (int64_t)grad->dtype, (int64_t)grad->device));
        MT(div_, memory, count);
    }
    mt__give(b, 0, shown(memory, &in));
    return mt_scope_status();
}
GRAD(as_strided, "AsStridedBackward0", "")

/* --------------------------------------------------------------------------------------------- several outputs */

/* Joins the gradients of all parts; a missing one is zeros (for stack, as in PyTorch, one zero expanded). */
static mt_status join_parts(mt__backward *b, const mt_value *dim, bool stacked)
{
    uint32_t n = b->node->out_count;
    mt_tensor **parts = calloc(n > 0 ? n : 1, sizeof *parts), *joined = NULL;
    if (parts == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: backward of %s", b->node->name);
    for (uint32_t i = 0; i < n; i++) {
        const mt__meta *meta = &b->node->outs[i];
        mt_value shape = mt__meta_shape(meta);
        parts[i] = b->grads[i];
        if (parts[i] == NULL)
            parts[i] = MT(zeros, stacked ? MT_SHAPE0 : shape, (int64_t)meta->dtype, (int64_t)meta->device);
        if (b->grads[i] == NULL && stacked)
            parts[i] = MT(expand, parts[i], shape);
    }
    if (mt_scope_status() == MT_OK)
        joined =
            stacked ? MT(stack, mt_value_tensors(parts, n), *dim) : MT(cat, mt_value_tensors(parts, n), *dim);
    mt__give(b, 0, joined);
    free(parts);
    return mt_scope_status();
}

static mt_status split_backward(mt__backward *b)
{
    return join_parts(b, &b->args[2], false);
}
GRAD(split, "SplitBackward0", "")
const mt__grad mt__grad_unsafe_split = {"UnsafeSplitBackward0", "", split_backward};
const mt__grad mt__grad_split_with_sizes = {"SplitWithSizesBackward0", "", split_backward};

static mt_status unbind_backward(mt__backward *b)
{
    return join_parts(b, &b->args[1], true);
}
GRAD(unbind, "UnbindBackward0", "")

/* --------------------------------------------------------------------------------------------------- joins */

static mt_status cat_backward(mt__backward *b)
{
    unsigned first = (unsigned)b->node->slot[0];
    int64_t begin = 0, dim = b->args[1].as.i;
    for (unsigned i = 0; i < b->args[0].count; i++) {
        const mt__meta *meta = &b->node->metas[first + i];
        bool skipped = meta->rank == 1 && meta->dims[0] == 0; /* cat skips empty 1-dim tensors */
        int64_t n = skipped ? 0 : meta->dims[dim < 0 ? dim + meta->rank : dim];
        if (mt__wants_edge(b, first + i))
            b->out[first + i] =
                skipped ? MT(zeros, mt__meta_shape(meta), (int64_t)meta->dtype, (int64_t)meta->device)
                        : MT(narrow, b->grads[0], dim, begin, n);
        begin += n;
    }
    return mt_scope_status();
}
GRAD(cat, "CatBackward0", "")

static mt_status stack_backward(mt__backward *b)
{
    unsigned first = (unsigned)b->node->slot[0];
    for (unsigned i = 0; i < b->args[0].count; i++)
        if (mt__wants_edge(b, first + i))
            b->out[first + i] = MT(select, b->grads[0], b->args[1], i);
    return mt_scope_status();
}
GRAD(stack, "StackBackward0", "")

/* Element (r * n + i) of a dim came from i: split the dim in two and sum over the outer one. */
static mt_status repeat_backward(mt__backward *b)
{
    const mt__meta *self = mt__meta_of(b, 0);
    mt_tensor *grad = b->grads[0];
    int lead = (int)b->args[1].count - self->rank;
    int64_t cut[2 * MT_MAX_RANK], over[MT_MAX_RANK];
    uint32_t rank = 0, sums = 0;
    for (uint32_t i = 0; i < b->args[1].count; i++) {
        int64_t times = b->args[1].as.ints[i];
        if (times == 0) {
            mt__give(b, 0, MT(zeros, mt__meta_shape(self), (int64_t)self->dtype, (int64_t)self->device));
            return mt_scope_status();
        }
        if (times != 1 || (int)i < lead) {
            over[sums++] = rank;
            cut[rank++] = times;
        }
        if ((int)i >= lead)
            cut[rank++] = self->dims[(int)i - lead];
    }
    if (rank <= MT_MAX_RANK) {
        if (sums > 0)
            grad = MT(sum_dim, MT(reshape, grad, mt_value_ints(cut, rank)), mt_value_ints(over, sums));
        mt__give(b, 0, grad);
        return mt_scope_status();
    }
    /* Too many dims for a tensor: one dim at a time. */
    for (int i = 0; i < (int)b->args[1].count && grad != NULL; i++) {
        int64_t n = i < lead ? 1 : self->dims[i - lead], outer = 1, inner = 1;
        for (int k = 0; k < i; k++)
            outer *= k < lead ? 1 : self->dims[k - lead];
        for (int k = i + 1; k < grad->rank; k++)
            inner *= grad->dims[k];
        int64_t dims[MT_MAX_RANK];
        memcpy(dims, grad->dims, sizeof dims);
        dims[i] = n;
        mt_tensor *apart = MT(reshape, grad, MT_SHAPE(outer, b->args[1].as.ints[i], n, inner));
        grad = MT(reshape, MT(sum_dim, apart, MT_SHAPE(1)), mt_value_ints(dims, b->args[1].count));
    }
    mt__give(b, 0, grad);
    return mt_scope_status();
}
GRAD(repeat, "RepeatBackward0", "")

MT__GRAD_OF_FIRST(flip, "FlipBackward0", "", MT(flip, b->grads[0], b->args[1]))

static mt_status roll_backward(mt__backward *b)
{
    int64_t back[MT_MAX_RANK];
    uint32_t n = b->args[1].count < MT_MAX_RANK ? b->args[1].count : MT_MAX_RANK;
    for (uint32_t i = 0; i < n; i++)
        back[i] = -b->args[1].as.ints[i];
    mt__give(b, 0, MT(roll, b->grads[0], mt_value_ints(back, n), b->args[2]));
    return mt_scope_status();
}
GRAD(roll, "RollBackward0", "")

MT__GRAD_OF_FIRST(tril, "TrilBackward0", "", MT(tril, b->grads[0], b->args[1]))

MT__GRAD_OF_FIRST(triu, "TriuBackward0", "", MT(triu, b->grads[0], b->args[1]))

/* -------------------------------------------------------------------------------------------------- padding */

static mt_status constant_pad_nd_backward(mt__backward *b)
{
    int64_t back[2 * MT_MAX_RANK];
    for (uint32_t i = 0; i < b->args[1].count; i++)
        back[i] = -b->args[1].as.ints[i];
    mt__give(b, 0, MT(constant_pad_nd, b->grads[0], mt_value_ints(back, b->args[1].count), 0));
    return mt_scope_status();
}
const mt__grad mt__grad_constant_pad_nd = {"ConstantPadNdBackward0", "", constant_pad_nd_backward};
