/* runtime/bound.c - what language bindings need and C programs do not: the object of a tensor, its hooks for
 * a cycle collector, and replacing a tensor's data under its object.
 */
#include "runtime/runtime.h"
#include "runtime/autograd/autograd.h"

void *mt_python(const mt_tensor *t)
{
    return t->python;
}

void mt_python_set(mt_tensor *t, void *object)
{
    t->python = object;
}

int64_t mt_offset(const mt_tensor *t)
{
    return t->offset;
}

bool mt_retains_grad(const mt_tensor *t)
{
    return (t->flags & MT__RETAINS_GRAD) != 0;
}

mt_dtype mt_default_dtype(void)
{
    return mt__default_dtype;
}

mt_status mt_set_default_dtype(mt_dtype dtype)
{
    if (!mt_dtype_is_real(dtype))
        return mt__fail(MT_E_TYPE, "only floating-point types are supported as the default type");
    mt__default_dtype = dtype;
    return MT_OK;
}

mt_device mt_default_device(void)
{
    return mt__default_device;
}

mt_status mt_set_default_device(mt_device device)
{
    if (MT_DEVICE_TYPE(device) != 0 && MT_DEVICE_INDEX(device) >= mt_npu_count())
        return mt__fail(MT_E_RUNTIME, "device %s is not available: %s", mt__device_text(device),
                        mt_npu_count() > 0 ? "there are fewer devices" : mt_npu_absence());
    mt__default_device = device;
    return MT_OK;
}

mt_status mt_set_data(mt_tensor *t, const mt_tensor *from)
{
    if (from->dtype != t->dtype && t->grad_fn != NULL)
        return mt__fail(MT_E_RUNTIME,
                        "data set to a tensor that requires gradients must be of the same dtype");
    if ((t->flags & MT__REQUIRES_GRAD) && !mt__is_floating((mt_dtype)from->dtype))
        return mt__fail(
            MT_E_RUNTIME,
            "data set to a tensor that requires gradients must be floating point or complex dtype");
    mt_storage *old = t->storage;
    mt_status status = mt__leave_version(t, *mt__version(t)); /* not a change, to autograd */
    if (status != MT_OK)
        return status;
    t->storage = mt__storage_retain(from->storage);
    t->dtype = from->dtype;
    t->rank = from->rank;
    t->device = from->device;
    t->numel = from->numel;
    t->data = from->data;
    t->offset = from->offset;
    memcpy(t->dims, from->dims, sizeof t->dims);
    memcpy(t->strides, from->strides, sizeof t->strides);
    mt__set_contiguous_flag(t);
    if (old->category == MTP_MEMORY_PARAMETER || old->category == MTP_MEMORY_OPTIMIZER_STATE)
        mt_tensor_tag(t, old->category); /* parameters stay parameters on another device */
    mt__storage_release(old);
    return MT_OK;
}

mt_status mt_alias(const mt_tensor *t, mt_tensor **out)
{
    mt_status status = mt__alias(t, t->rank, t->dims, t->strides, t->offset, out);
    if (status == MT_OK)
        status = mt__leave_version(*out, 0);
    if (status != MT_OK) {
        mt_release(*out);
        *out = NULL;
    }
    return status;
}

mt_tensor *mt_view_base(const mt_tensor *t)
{
    return (t->flags & MT__IS_VIEW) && t->extra != NULL ? t->extra->base : NULL;
}

mt_tensor *mt_node_leaf(const mt_node *node)
{
    return node->leaf;
}

mt_status mt_forget_history(mt_tensor *t)
{
    if (t->flags & MT__IS_VIEW)
        return mt__fail(MT_E_RUNTIME, "Can't detach views in-place. Use detach() instead.");
    mt_node *fn = t->grad_fn;
    if (fn != NULL &&
        (t->flags & MT__RETAINS_GRAD)) { /* as in PyTorch, it still retains the gradient from there */
        mt__extra *extra = mt__extra_of(t);
        if (extra == NULL)
            return MT_E_NOMEM;
        mt_node *older = extra->retained;
        extra->retained = mt_node_retain(fn);
        mt_node_release(older);
    }
    t->grad_fn = NULL;
    t->output = 0;
    t->flags &= (uint16_t)~MT__REQUIRES_GRAD;
    mt_node_release(fn);
    return MT_OK;
}

/* --------------------------------------------------------------------------------------- cycle collection */

static int visit_hooks(const mt__hooks *hooks, mt_visit_fn *visit, void *arg)
{
    for (uint32_t i = 0; i < hooks->count; i++) {
        const mt__hook *hook = hooks->items[i];
        int end = hook->fn != NULL ? visit(hook->fn, NULL, hook->user, arg) : 0;
        if (end != 0)
            return end;
    }
    return 0;
}

/* The node of t, if only t has it. */
static mt_node *own_node(const mt_tensor *t)
{
    /* acquire: what its last other owner did comes first; pairs: release of a reference */
    bool own = t->grad_fn != NULL && atomic_load_explicit(&t->grad_fn->refs, memory_order_acquire) == 1;
    return own ? t->grad_fn : NULL;
}

int mt_hooks_visit(const mt_tensor *t, mt_visit_fn *visit, void *arg)
{
    /* With another owner, the object does not control the tensor's lifetime. The collector holds the GIL,
     * and a count that another thread is changing is above 1; acquire: as in own_node. */
    if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1)
        return 0;
    int end = 0;
    if (t->extra != NULL) {
        end = visit_hooks(&t->extra->hooks, visit, arg);
        if (end == 0)
            end = visit_hooks(&t->extra->post, visit, arg);
    }
    const mt_node *node = own_node(t);
    if (end == 0 && node != NULL)
        end = visit_hooks(&node->hooks, visit, arg);
    if (end == 0 && node != NULL && node->kind == MT__NODE_CUSTOM && node->user != NULL)
        end = visit(NULL, node->custom, node->user, arg);
    return end;
}

static mt_status refuse_collected(void *user, mt_tensor *const *grads, mt_tensor **input_grads)
{
    (void)user, (void)grads, (void)input_grads;
    return mt__fail(MT_E_RUNTIME, "the context of this function was collected with its result, and there is "
                                  "no backward without it: keep a reference to the result");
}

void mt_hooks_clear(mt_tensor *t)
{
    if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1)
        return;
    if (t->extra != NULL) {
        mt__hooks_free(&t->extra->hooks);
        mt__hooks_free(&t->extra->post);
    }
    mt_node *node = own_node(t);
    if (node != NULL)
        mt__hooks_free(&node->hooks);
    if (node != NULL && node->kind == MT__NODE_CUSTOM && node->user != NULL) {
        void *user = node->user;
        node->custom = refuse_collected;
        node->user = NULL;
        if (node->drop != NULL)
            node->drop(user);
        node->drop = NULL;
    }
}
