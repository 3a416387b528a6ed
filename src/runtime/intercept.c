/* runtime/intercept.c - ops that are passed to a function instead of being computed; see mt_intercept().
 *
 * The state is per thread. dispatch.c checks it where an op would be computed, which is below autograd.
 */
#include "runtime/runtime.h"
#include "runtime/autograd/autograd.h"
#include <stdlib.h>

MT__FAST_TLS mt_interceptor mt__interceptor;
static MT__FAST_TLS mt_tensor *const *intercepted_into;

mt_tensor *const *mt_intercepted_into(void)
{
    return intercepted_into;
}

mt_interceptor mt_intercept(mt_interceptor now)
{
    mt_interceptor before = mt__interceptor;
    mt__interceptor = now;
    return before;
}

/* Autograd will write to the outputs: a tensor with a graph, or an argument of the call, is replaced by
 * an alias. Takes t. */
static mt_status as_output(const mt__call *call, mt_tensor *t, mt_tensor **out)
{
    bool known = mt__tracks(t);
    for (unsigned i = 0; i < call->op->param_count; i++)
        known |= call->args[i].kind == MT_TENSOR && call->args[i].as.tensor == t;
    *out = t;
    if (!known)
        return MT_OK;
    mt_status status = mt__alias(t, t->rank, t->dims, t->strides, t->offset, out);
    mt_release(t);
    return status;
}

/* Takes the tensors of made. */
static mt_status take_outputs(mt__call *call, mt_tensor **made, unsigned count)
{
    const mt__op *op = call->op;
    mt_status status = MT_OK;
    if (op->out_count == 0)
        status = mt__call_outs(call, count);
    else if (count != op->out_count)
        status = mt__fail(MT_E_RUNTIME, "%s has %u results, but the mode returned %u", op->name,
                          op->out_count, count);
    for (unsigned i = 0; i < count; i++) {
        mt_tensor *t = made[i];
        if (status == MT_OK && op->in_place && i == 0) { /* the output is the argument itself */
            mt_release(t);
            call->outs[0] = mt_retain(call->args[0].as.tensor);
        } else if (status == MT_OK && t != NULL) {
            status = as_output(call, t, &call->outs[i]);
        } else {
            mt_release(t);
        }
    }
    return status;
}

mt_status mt__hand_over(mt__call *call)
{
    mt_interceptor mine = mt_intercept((mt_interceptor){.below_autograd = true});
    mt_tensor *const *outer = intercepted_into;
    intercepted_into = call->into;
    bool followed = mt_grad_enable(false), was_within = mt__within_op;
    mt_tensor **made = NULL;
    unsigned count = 0;
    mt__within_op = false;
    mt_status status = mine.fn(mine.user, call->op->id, call->args, call->op->param_count, &made, &count);
    mt__within_op = was_within;
    mt_grad_enable(followed);
    intercepted_into = outer;
    mt__interceptor = mine;
    if (status == MT_OK)
        status = take_outputs(call, made, count);
    free(made);
    return status;
}
