/* runtime/autograd/in_place.c - in-place changes of tensors that autograd tracks: which are allowed, and
 * whose history they become part of.
 *
 * Changing a view changes its base: the base gets a CopySlices node, which wraps the op's own. If the
 * memory of a view has changed since its grad_fn was made, a new one, AsStridedBackward0 of its base,
 * is made on access.
 * Invariant: extra->base_version is the storage version for which a view's grad_fn is valid.
 */
#include "runtime/autograd/autograd.h"
#include <stdio.h>
#include <stdlib.h>

/* --------------------------------------------------------------------------------------------------- views */

void mt__geometry_set(mt__geometry *geometry, const mt_tensor *t)
{
    geometry->rank = t->rank;
    geometry->offset = t->offset;
    memcpy(geometry->dims, t->dims, t->rank * sizeof *t->dims);
    memcpy(geometry->strides, t->strides, t->rank * sizeof *t->strides);
}

mt_status mt__node_keep_geometry(mt_node *node, const mt_tensor *self)
{
    mt__geometry *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a node of the autograd graph");
    mt__geometry_set(kept, self);
    node->user = kept;
    node->drop = free;
    return MT_OK;
}

bool mt__base_tracks(const mt_tensor *view)
{
    return view->extra != NULL && view->extra->base != NULL && mt__tracks(view->extra->base);
}

/* Within a derivative a view of an untracked tensor only gets a mark: engine.c takes gradients without other references. */
mt_status mt__note_view(const mt__call *call)
{
    mt_tensor *of = call->args[0].as.tensor;
    const mt__op *op = call->op;
    if (op->grad == NULL || op->id == MT_OP__unsafe_view || op->id == MT_OP_unsafe_split ||
        !mt__is_floating((mt_dtype)of->dtype))
        return MT_OK; /* detach: untracked on purpose */
    uint16_t mark = of->flags & (MT__VIEW_OF_NO_GRAD | MT__VIEW_OF_SEVERAL);
    if (op->out_count == 0)
        mark = MT__VIEW_OF_SEVERAL;
    if (!mt__grad_mode)
        mark = MT__VIEW_OF_NO_GRAD;
    mt_tensor *base = of->extra != NULL && of->extra->base != NULL ? of->extra->base : of;
    for (uint32_t i = 0; i < call->out_count; i++) {
        if (MT__UNLIKELY(call->outs[i]->storage != of->storage))
            continue; /* an interceptor made it from another tensor */
        call->outs[i]->flags |= mark | MT__IS_VIEW;
        if (mt__deriving && !mt__grad_mode && !mt__tracks(of))
            continue;
        mt__extra *extra = mt__extra_of(call->outs[i]);
        if (extra == NULL)
            return MT_E_NOMEM;
        extra->base = mt_retain(base);
        extra->base_version = *mt__version(base);
    }
    return MT_OK;
}

/* Why a view must not be changed, in PyTorch's words. */
static mt_status refuse_view(const mt_tensor *t, bool indirect)
{
    char what[160];
    const char *how = indirect ? "its base or another view of its base has been" : "is being";
    bool several = (t->flags & MT__VIEW_OF_SEVERAL) != 0;
    int length = t->grad_fn == NULL ? 0 : (int)strcspn(t->grad_fn->name, "B"); /* "Split" of SplitBackward0 */
    if (t->grad_fn == NULL)
        snprintf(what, sizeof what,
                 "A view was created in no_grad mode and %s modified inplace with grad mode enabled.", how);
    else if (several)
        snprintf(what, sizeof what, "Output %u of %.*s is a view and %s modified inplace.", t->output, length,
                 t->grad_fn->name, how);
    else
        snprintf(what, sizeof what,
                 "Output %u of %.*s is a view of a view which was created in no_grad mode and %s modified "
                 "inplace with grad mode "
                 "enabled.",
                 t->output, length, t->grad_fn->name, how);
    return mt__fail(MT_E_RUNTIME, "%s %s", what,
                    several
                        ? "This view is the output of a function that returns multiple views. Such functions "
                          "do not allow the "
                          "output views to be modified inplace. You should replace the inplace operation by "
                          "an out-of-place one."
                        : "Given that this use case is ambiguous and error-prone, it is forbidden. You can "
                          "clarify your code by "
                          "moving both the view and the inplace either both inside the no_grad block (if you "
                          "don't want the "
                          "inplace to be tracked) or both outside (if you want the inplace to be tracked).");
}

/* -------------------------------------------------------------------------------------------------- history */

/* A retained gradient moves with the tensor to its new node. */
static void set_history(mt_tensor *t, mt_node *node, uint32_t output)
{
    mt_node *old = t->grad_fn;
    bool retains = (t->flags & MT__RETAINS_GRAD) != 0;
    for (uint32_t i = 0; retains && old != NULL && i < old->hooks.count; i++)
        if (old->hooks.items[i]->tensor == t)
            old->hooks.items[i]->tensor = NULL;
    t->flags &= (uint16_t)~MT__RETAINS_GRAD;
    t->grad_fn = mt_node_retain(node);
    t->output = output;
    if (t->extra != NULL)
        t->extra->base_version = *mt__version(t);
    if (retains)
        mt_retain_grad(t);
    mt_node_release(old);
}

static mt_status copy_ints(mt_value *to, const int64_t *ints, int count)
{
    int64_t *kept = malloc((size_t)(count > 0 ? count : 1) * sizeof *kept);
    if (kept == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a node of the autograd graph");
    memcpy(kept, ints, (size_t)count * sizeof *kept);
    *to = mt_value_ints(kept, (uint32_t)count);
    return MT_OK;
}

/* The node of t as a view of a base that lies in memory as given. Takes the edge. */
static mt_status strided_node(const mt_tensor *t, const mt__meta *base, const mt__geometry *lies,
                              mt__edge from, mt_node **out)
{
    const mt__op *op = &mt__ops[MT_OP_as_strided];
    mt_node *node = mt__node_alloc(MT__NODE_OP, op->grad->name, 1, 1, op->param_count);
    mt__geometry *kept = malloc(sizeof *kept);
    *out = node;
    if (node == NULL || kept == NULL) {
        free(kept);
        mt_node_release(from.node);
        return mt__fail(MT_E_NOMEM, "out of memory: a node of the autograd graph");
    }
    *kept = *lies;
    node->user = kept;
    node->drop = free;
    node->grad = op->grad;
    node->op = op;
    node->slot[0] = 0;
    node->edges[0] = from;
    node->metas[0] = *base;
    mt__meta_set(&node->outs[0], t);
    node->args[3] = mt_value_int(t->offset);
    mt_status status = copy_ints(&node->args[1], t->dims, t->rank);
    return status == MT_OK ? copy_ints(&node->args[2], t->strides, t->rank) : status;
}

mt_status mt__refresh_view(mt_tensor *t)
{
    mt_tensor *base = t->extra->base;
    mt_node *node = NULL;
    mt__edge edge;
    mt__meta meta;
    mt__geometry lies;
    if (t->grad_fn == NULL && !mt__tracks(base))
        return MT_OK;
    if (t->flags & (MT__VIEW_OF_NO_GRAD | MT__VIEW_OF_SEVERAL))
        return refuse_view(t, true);
    mt_status status = mt__edge_of(base, &edge);
    if (status != MT_OK)
        return status;
    mt__meta_set(&meta, base);
    mt__geometry_set(&lies, base);
    status = strided_node(t, &meta, &lies, edge, &node);
    if (status == MT_OK)
        set_history(t, node, 0);
    mt_node_release(node);
    return status;
}

mt_status mt_view_refresh(mt_tensor *t)
{
    return mt__fresh(t);
}

mt_node *mt_grad_fn(mt_tensor *t)
{
    mt__fresh(t); /* on failure, the old one is the best answer */
    return t->grad_fn;
}

mt_status mt__in_place_check(const mt__call *call)
{
    return mt__may_change(call->args[0].as.tensor);
}

mt_status mt__may_change(mt_tensor *t)
{
    const mt_tensor *base = t->extra != NULL ? t->extra->base : NULL;
    if (!mt__is_floating((mt_dtype)t->dtype))
        return MT_OK;
    if (t->flags & (MT__VIEW_OF_NO_GRAD | MT__VIEW_OF_SEVERAL))
        return refuse_view(t, false);
    if (base != NULL && base->grad_fn == NULL && mt__tracks(t))
        return mt__fail(
            MT_E_RUNTIME,
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    if (t->grad_fn == NULL && (t->flags & MT__REQUIRES_GRAD))
        return mt__fail(MT_E_RUNTIME,
                        "a leaf Variable that requires grad is being used in an in-place operation.");
    return mt__fresh(t);
}

/* ----------------------------------------------------------------------------------------------- CopySlices */

/* The `user` data of a CopySlices node. Its edges: the old base, then inner's other edges. */
typedef struct slices {
    mt_node *inner; /* owned: the op's node, whose edge 0 is the old view */
    mt__geometry base, view;
} slices;

static void drop_slices(void *user)
{
    slices *s = user;
    s->inner->outer = NULL;
    mt_node_release(s->inner);
    free(s);
}

mt_status mt__copy_slices_result(mt_node *outer, const mt_tensor *t, mt_node **out)
{
    const slices *s = outer->user;
    return strided_node(t, &outer->outs[0], &s->base, (mt__edge){mt_node_retain(outer), 0}, out);
}

static mt_status wrap(mt_tensor *t, mt_node *inner, mt_node **out)
{
    mt_tensor *base = t->extra->base;
    mt_node *node =
        mt__node_alloc(MT__NODE_COPY_SLICES, "torch::autograd::CopySlices", inner->edge_count, 1, 0);
    slices *s = malloc(sizeof *s);
    *out = node;
    if (node == NULL || s == NULL) {
        free(s);
        return mt__fail(MT_E_NOMEM, "out of memory: a node of the autograd graph");
    }
    s->inner = mt_node_retain(inner);
    inner->outer = node;
    mt__geometry_set(&s->base, base);
    mt__geometry_set(&s->view, t);
    node->user = s;
    node->drop = drop_slices;
    mt__meta_set(&node->metas[0], base);
    mt__meta_set(&node->outs[0], base);
    for (uint32_t i = 1; i < inner->edge_count; i++) {
        node->metas[i] = inner->metas[i];
        node->edges[i] = (mt__edge){mt_node_retain(inner->edges[i].node), inner->edges[i].output};
    }
    return mt__edge_of(base, &node->edges[0]);
}

mt_status mt__rebase(mt_tensor *t, mt_node *node, uint32_t output)
{
    mt_node *copy = NULL;
    if (!mt__is_floating((mt_dtype)t->dtype))
        return MT_OK;
    if (t->extra == NULL || t->extra->base == NULL) {
        set_history(t, node, output);
        return MT_OK;
    }
    mt_status status = wrap(t, node, &copy);
    if (status == MT_OK) {
        set_history(t->extra->base, copy, 0);
        status = mt__refresh_view(t);
    }
    mt_node_release(copy);
    return status;
}

mt_node *mt__copy_slices_inner(const mt_node *node)
{
    return ((slices *)node->user)->inner;
}

void mt__copy_slices_let_go(mt_node *node)
{
    mt__node_let_go(mt__copy_slices_inner(node));
}

/* Memory like the base's, writable through the view's strides. */
static mt_tensor *image_of(const mt__geometry *base, const mt_tensor *grad)
{
    int64_t last = 0;
    mt_tensor *memory, *image = NULL;
    for (int i = 0; i < base->rank; i++)
        last += base->dims[i] > 0 ? (base->dims[i] - 1) * base->strides[i] : 0;
    if (mt__empty((mt_dtype)grad->dtype, grad->device, 1, (int64_t[]){last + 1}, &memory) != MT_OK)
        return NULL;
    if (mt__alias(memory, base->rank, base->dims, base->strides, 0, &image) != MT_OK)
        image = NULL;
    mt_release(memory);
    return mt_scope_keep(image);
}

/* Passes the slice's gradient through the op's node and replaces the slice by the view's gradient. */
static mt_status run_within(const slices *s, mt_tensor *const *grads, mt_tensor **outs, bool base_wanted)
{
    mt_tensor *image = image_of(&s->base, grads[0]);
    if (image == NULL)
        return MT_E_NOMEM;
    MT(copy_, image, grads[0]);
    mt_tensor *slice =
        MT(as_strided, image, mt_value_ints(s->view.dims, (uint32_t)s->view.rank),
           mt_value_ints(s->view.strides, (uint32_t)s->view.rank), s->view.offset - s->base.offset);
    mt_tensor *part = MT(clone, slice);
    mt_status status = mt_scope_status();
    if (status == MT_OK)
        status = mt__node_run(s->inner, &part, outs);
    mt_tensor *given = outs[0];
    outs[0] = NULL;
    if (status == MT_OK && base_wanted) {
        if (given != NULL)
            MT(copy_, slice, given);
        else
            MT(zero_, slice);
        status = mt_scope_status();
        if (status == MT_OK)
            outs[0] = mt_retain(image);
    }
    mt_release(given);
    return status;
}

mt_status mt__copy_slices_run(mt_node *node, mt_tensor *const *grads, mt_tensor **outs)
{
    mt_status status = MT_OK;
    MT_SCOPE
    {
        bool was = mt__deriving;
        mt__deriving = true;
        status = run_within(node->user, grads, outs, node->edges[0].node != NULL);
        mt__deriving = was;
    }
    return status;
}
