/* runtime/autograd/hooks.c - hooks on gradients, and tensors that retain their gradient. */
#include "runtime/autograd/autograd.h"
#include <stdlib.h>

static _Atomic uint64_t last_id;

static void release_hook(mt__hook *hook)
{
    if (atomic_fetch_sub_explicit(&hook->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (hook->drop != NULL)
        hook->drop(hook->user);
    free(hook);
}

mt_status mt__hooks_add(mt__hooks *hooks, const mt__hook *hook)
{
    mt__hook *added = malloc(sizeof *added);
    if (added != NULL && hooks->count == hooks->room) {
        uint32_t room = hooks->room > 0 ? hooks->room * 2 : 2;
        mt__hook **items = realloc(hooks->items, room * sizeof *items);
        if (items != NULL) {
            hooks->items = items;
            hooks->room = room;
        }
    }
    if (added == NULL || hooks->count == hooks->room) {
        free(added);
        return mt__fail(MT_E_NOMEM, "out of memory: a hook");
    }
    *added = *hook;
    atomic_init(&added->refs, 1);
    hooks->items[hooks->count++] = added;
    return MT_OK;
}

void mt__hooks_free(mt__hooks *hooks)
{
    mt__hooks gone = *hooks; /* dropping a hook can run arbitrary code */
    *hooks = (mt__hooks){0};
    for (uint32_t i = 0; i < gone.count; i++)
        release_hook(gone.items[i]);
    free(gone.items);
}

static mt_status keep(const mt__hook *hook, mt_tensor *grad)
{
    if (hook->tensor == NULL)
        return MT_OK; /* it was freed meanwhile */
    mt_tensor *old = hook->tensor->grad;
    mt_value args[] = {mt_value_tensor(old), mt_value_tensor(grad)};
    mt_tensor *sum;
    /* a copy: the engine goes on with grad, and hands out views of it */
    mt_status status =
        old != NULL ? mt_call(MT_OP_add, args, 2, &sum) : mt_call(MT_OP_clone, &args[1], 1, &sum);
    if (status == MT_OK) {
        hook->tensor->grad = sum;
        mt_tensor_tag(sum, MTP_MEMORY_GRADIENT);
        mt_release(old);
    }
    return status;
}

/* What a hook puts in the place of a gradient must be one, too. */
static mt_status check_like(const mt_tensor *grad, const mt_tensor *other)
{
    if (other->dtype != grad->dtype)
        return mt__fail(MT_E_RUNTIME, "a hook has changed the type of the gradient: from %s to %s",
                        mt_dtype_name((mt_dtype)grad->dtype), mt_dtype_name((mt_dtype)other->dtype));
    if (other->rank != grad->rank || memcmp(other->dims, grad->dims, grad->rank * sizeof *grad->dims) != 0)
        return mt__fail(MT_E_RUNTIME, "a hook has changed the size of the gradient: from %s to %s",
                        mt__shape_text(grad->dims, grad->rank), mt__shape_text(other->dims, other->rank));
    if (other->device != grad->device)
        return mt__fail(MT_E_RUNTIME, "a hook has moved the gradient to another device");
    return MT_OK;
}

static mt_status run_one(const mt__hook *hook, mt_tensor **grad)
{
    bool failed = false;
    mt_tensor *other = hook->fn(*grad, hook->user, &failed);
    if (failed) {
        mt_release(other);
        return MT_E_CALLBACK; /* the callback keeps its own message */
    }
    mt_status status = other != NULL ? check_like(*grad, other) : MT_OK;
    if (status == MT_OK && other != NULL) {
        mt_release(*grad);
        *grad = other;
    } else {
        mt_release(other);
    }
    return status;
}

mt_status mt__hooks_run(const mt__hooks *hooks, uint32_t output, mt_tensor **grad)
{
    mt_status status = MT_OK;
    uint32_t count = hooks->count;
    if (count == 0)
        return MT_OK;
    mt__hook *few[8], **these = count <= MT__COUNT_OF(few) ? few : malloc(count * sizeof *these);
    if (these == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: hooks");
    for (uint32_t i = 0; i < count; i++) {
        these[i] = hooks->items[i];
        atomic_fetch_add_explicit(&these[i]->refs, 1, memory_order_relaxed);
    }
    for (unsigned retains = 0; retains < 2; retains++)
        for (uint32_t i = 0; i < count && status == MT_OK; i++)
            if (these[i]->output == output && these[i]->retains == (retains != 0))
                status = retains ? keep(these[i], *grad) : run_one(these[i], grad);
    for (uint32_t i = 0; i < count; i++)
        release_hook(these[i]);
    if (these != few)
        free(these);
    return status;
}

/* ------------------------------------------------------------------------------------------------ for users */

static mt_status add_to(mt__hooks *hooks, uint32_t output, mt_hook_fn *fn, void (*drop)(void *), void *user,
                        uint64_t *id)
{
    mt__hook hook = {
        .id = atomic_fetch_add(&last_id, 1) + 1, .output = output, .fn = fn, .drop = drop, .user = user};
    mt_status status = mt__hooks_add(hooks, &hook);
    if (status == MT_OK)
        *id = hook.id;
    return status;
}

mt_status mt_hook_add(mt_tensor *t, mt_hook_fn *hook, void (*drop)(void *user), void *user, uint64_t *id)
{
    *id = 0;
    if (!mt__tracks(t))
        return mt__fail(MT_E_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    mt_status status = mt__fresh(t);
    if (status != MT_OK)
        return status;
    mt_node *fn = t->grad_fn;
    if (fn != NULL)
        return add_to(&fn->hooks, t->output, hook, drop, user, id);
    mt__extra *extra = mt__extra_of(t);
    return extra == NULL ? MT_E_NOMEM : add_to(&extra->hooks, 0, hook, drop, user, id);
}

mt_status mt_post_hook_add(mt_tensor *t, mt_hook_fn *hook, void (*drop)(void *user), void *user, uint64_t *id)
{
    *id = 0;
    if (!mt__tracks(t))
        return mt__fail(MT_E_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    if (t->grad_fn != NULL)
        return mt__fail(MT_E_RUNTIME, "post accumulate grad hooks cannot be registered on non-leaf tensors");
    mt__extra *extra = mt__extra_of(t);
    return extra == NULL ? MT_E_NOMEM : add_to(&extra->post, 0, hook, drop, user, id);
}

static bool remove_from(mt__hooks *hooks, uint64_t id)
{
    for (uint32_t i = 0; i < hooks->count; i++)
        if (hooks->items[i]->id == id) {
            mt__hook *gone = hooks->items[i];
            memmove(&hooks->items[i], &hooks->items[i + 1], (hooks->count - i - 1) * sizeof *hooks->items);
            hooks->count--;
            release_hook(gone);
            return true;
        }
    return false;
}

bool mt_hook_remove(mt_tensor *t, uint64_t id)
{
    return (t->grad_fn != NULL && remove_from(&t->grad_fn->hooks, id)) ||
           (t->extra != NULL && (remove_from(&t->extra->hooks, id) || remove_from(&t->extra->post, id)));
}

void mt_retain_grad(mt_tensor *t)
{
    mt_node *fn = mt_grad_fn(t);
    if (fn == NULL || (t->flags & MT__RETAINS_GRAD))
        return; /* a leaf always keeps its gradient */
    mt__hook hook = {.output = t->output, .retains = true, .tensor = t};
    if (mt__hooks_add(&fn->hooks, &hook) == MT_OK)
        t->flags |= MT__RETAINS_GRAD;
}
