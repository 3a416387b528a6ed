/* runtime/autograd/accumulate.c - the end of a graph: adds gradients into leaves. */
#include "runtime/autograd/autograd.h"

static bool lies_as(const mt_tensor *t, const int64_t *strides)
{
    for (int i = 0; i < t->rank && t->numel > 0; i++)
        if (t->dims[i] != 1 && t->strides[i] != strides[i])
            return false;
    return true;
}

static bool same_shape(const mt_tensor *a, const mt_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* As in PyTorch, a gradient lies in memory like its leaf, if that is dense. */
static void strides_of_gradient(const mt_tensor *leaf, int64_t *strides)
{
    if (MT__UNLIKELY(!(leaf->flags & MT__CONTIGUOUS))) {
        mt__strides_like(leaf, strides);
        if (lies_as(leaf, strides))
            return;
    }
    mt__contiguous_strides(leaf->rank, leaf->dims, strides);
}

/* In two steps like PyTorch's engine, where profiles or the graph show them. */
static mt_status copy_gradient(mt_tensor *grad, const int64_t *strides, mt_tensor **out)
{
    mt_value from = mt_value_tensor(grad);
    if ((!(mtp_recording() & MTP_CPU) && !mt__grad_mode) || mt__interceptor.fn != NULL) {
        mt_status status = mt_call(MT_OP_clone, &from, 1, out);
        if (status != MT_OK || lies_as(*out, strides) || mt__interceptor.fn != NULL)
            return status;
        mt_release(*out);
    }
    mt_tensor *same = NULL;
    mt_value like[] = {from, mt_value_ints(grad->dims, grad->rank), mt_value_ints(strides, grad->rank),
                       mt_value_int(grad->dtype), mt_value_int(grad->device)};
    mt_status status = mt_call(MT_OP_new_empty_strided, like, MT__COUNT_OF(like), out);
    if (status != MT_OK)
        return status;
    mt_value copy[] = {mt_value_tensor(*out), from};
    status = mt_call(MT_OP_copy_, copy, MT__COUNT_OF(copy), &same);
    mt_release(same);
    (*out)->storage->version = 0; /* it is new, like a clone */
    if (status != MT_OK) {
        mt_release(*out);
        *out = NULL;
    }
    return status;
}

/* Adds *grad (owned, may be taken) to leaf->grad. The leaf is locked: other runs may add to it, too. */
static mt_status add_into(mt_tensor *leaf, mt_tensor **grad, mt_tensor **old)
{
    mt_tensor *made = NULL;
    mt_status status = MT_OK;
    if (!same_shape(leaf, *grad))
        return mt__fail(
            MT_E_RUNTIME,
            "the data of a leaf was replaced after it was used: its shape is %s, that of its gradient %s",
            mt__shape_text(leaf->dims, leaf->rank), mt__shape_text((*grad)->dims, (*grad)->rank));
    mt_value args[] = {mt_value_tensor(leaf->grad), mt_value_tensor(*grad)};
    if (leaf->grad == NULL) {
        /* A gradient without other references is taken as is. */
        int64_t strides[MT_MAX_RANK];
        strides_of_gradient(leaf, strides);
        bool alone = atomic_load(&(*grad)->refs) == 1 && atomic_load(&(*grad)->storage->refs) == 1 &&
                     lies_as(*grad, strides) && (*grad)->storage->drop == NULL;
        if (mt__grad_mode || !alone)
            status = copy_gradient(*grad, strides, &made);
        else
            status = mt_call(MT_OP_detach, &args[1], 1, &made);
    } else if (mt__grad_mode) {
        status = mt_call(MT_OP_add, args, 2, &made);
    } else {
        status = mt_call(MT_OP_add_, args, 2, &made);
    }
    if (status != MT_OK)
        return status;
    *old = leaf->grad;
    leaf->grad = made;
    mt_tensor_tag(made, MTP_MEMORY_GRADIENT);
    return MT_OK;
}

/* Hooks run outside the lock: they may call backward themselves. (Those before accumulation: see engine.c.)
 * The gradient is released here, so that a profile attributes it to this node. */
mt_status mt__accumulate(mt_node *node, mt_tensor **grad)
{
    mt_tensor *leaf = node->leaf, *old = NULL;
    if (leaf->grad_fn != NULL)
        return mt__fail(MT_E_RUNTIME, "leaf variable has been moved into the graph interior");
    if (!(leaf->flags & MT__REQUIRES_GRAD))
        return MT_OK; /* no longer */
    mt__leaf_lock(leaf);
    mt_status status = add_into(leaf, grad, &old);
    mt__leaf_unlock(leaf);
    mt_release(old);
    mt_release(*grad);
    *grad = NULL;
    if (status == MT_OK && leaf->extra != NULL && leaf->extra->post.count > 0) {
        mt_tensor *self = mt_retain(leaf);
        status = mt__hooks_run(&leaf->extra->post, 0, &self);
        mt_release(self);
    }
    return status;
}
