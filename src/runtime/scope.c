/* runtime/scope.c - MT_SCOPE: ownership of the results of ops in C code, and the first error
 * of a computation. */
#include "runtime/runtime.h"
#include <stdlib.h>

static MT__FAST_TLS mt_scope *innermost;

void mt_scope_enter(mt_scope *scope)
{
    scope->outer = innermost;
    scope->items = scope->few;
    scope->count = 0;
    scope->room = MT__COUNT_OF(scope->few);
    scope->status = MT_OK;
    scope->once = 1;
    innermost = scope;
}

void mt_scope_leave(mt_scope *scope)
{
    if (scope->items == NULL)
        return; /* never entered, or already left */
    for (uint32_t i = scope->count; i > 0; i--)
        mt_release(scope->items[i - 1]);
    if (scope->items != scope->few)
        free(scope->items);
    scope->items = NULL;
    innermost = scope->outer;
    if (scope->status != MT_OK && innermost != NULL && innermost->status == MT_OK)
        innermost->status = scope->status;
}

mt_status mt_scope_status(void)
{
    return innermost != NULL ? innermost->status : MT_OK;
}

/* Uses the innermost scope only: a composite op has its own, which leaves the caller's alone. */
mt_tensor *mt_scope_keep(mt_tensor *t)
{
    mt_scope *s = innermost;
    if (s == NULL || t == NULL)
        return t;
    if (s->count == s->room) {
        mt_tensor **more = malloc((size_t)s->room * 2 * sizeof *more);
        if (more == NULL) {
            mt_release(t);
            s->status = mt__fail(MT_E_NOMEM, "out of memory: a scope of %u tensors", s->room);
            return NULL;
        }
        memcpy(more, s->items, s->count * sizeof *more);
        if (s->items != s->few)
            free(s->items);
        s->items = more;
        s->room *= 2;
    }
    s->items[s->count++] = t;
    return t;
}

mt_tensor *mt__fail_scope(mt_status status)
{
    if (innermost != NULL && innermost->status == MT_OK)
        innermost->status = status;
    return NULL;
}

mt_status mt_call_scoped_n(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs)
{
    unsigned n = mt_op_outputs(op);
    for (unsigned i = 0; i < n; i++)
        outs[i] = NULL;
    if (innermost != NULL && innermost->status != MT_OK)
        return innermost->status;
    mt_status status = mt_call(op, args, count, outs);
    if (status != MT_OK && innermost != NULL)
        innermost->status = status;
    for (unsigned i = 0; i < n; i++)
        outs[i] = mt_scope_keep(outs[i]);
    return innermost != NULL ? innermost->status : status;
}

mt_tensor *mt_call_scoped(mt_op_id op, const mt_value *args, unsigned count)
{
    mt_tensor *outs[MT__MAX_OUTS] = {NULL};
    mt_call_scoped_n(op, args, count, outs);
    if (innermost == NULL)
        for (unsigned i = 1; i < MT__MAX_OUTS; i++)
            mt_release(outs[i]);
    return outs[0];
}
