/* runtime/optim/steps.c - argument checks of optimizer steps, for all devices.
 *
 * self, grads and each list of states have one tensor per parameter; a list that the options do not need may
 * be empty. Nothing is returned: the op's list of outputs is empty.
 */
#include "runtime/runtime.h"

/* Lists of one-element tensors, on any device. */
static bool has_one_element(const mt_param *p)
{
    static const char *const singles[] = {"state_steps", "mu_products", "mus", "etas"};
    for (unsigned i = 0; i < MT__COUNT_OF(singles); i++)
        if (strlen(singles[i]) == p->name_length && memcmp(p->name, singles[i], p->name_length) == 0)
            return true;
    return false;
}

static bool may_be_empty(const mt__call *call, unsigned list)
{
    int option = mt__option_of(call->op, list);
    return option >= 0 && mt__arg_number(call, (unsigned)option) == 0;
}

static mt_status check_item(const mt__call *call, unsigned a, uint32_t i)
{
    const mt_param *p = &call->op->params[a];
    const mt_tensor *t = call->args[a].as.tensors[i], *self = call->args[0].as.tensors[i];
    if (t == NULL || self == NULL)
        return mt__fail(MT_E_TYPE, "%s(): %.*s[%u] is None", mt__op_short_name(call->op), (int)p->name_length,
                        p->name, i);
    if (has_one_element(p)) {
        if (t->numel != 1 || !mt__is_floating((mt_dtype)t->dtype))
            return mt__fail(MT_E_RUNTIME, "%s(): %.*s[%u] must be a floating tensor of one element",
                            mt__op_short_name(call->op), (int)p->name_length, p->name, i);
        return MT_OK;
    }
    if (!mt__is_floating((mt_dtype)t->dtype) || t->dtype != self->dtype || t->rank != self->rank ||
        memcmp(t->dims, self->dims, (size_t)t->rank * sizeof *t->dims) != 0)
        return mt__fail(MT_E_RUNTIME, "%s(): %.*s[%u] of size %s does not fit a parameter of size %s",
                        mt__op_short_name(call->op), (int)p->name_length, p->name, i,
                        mt__shape_text(t->dims, t->rank), mt__shape_text(self->dims, self->rank));
    return MT_OK;
}

mt_status mt__infer_optimizer_step(mt__call *call)
{
    uint32_t n = call->args[0].count;
    for (unsigned a = 0; a < call->op->param_count; a++) {
        const mt_param *p = &call->op->params[a];
        if (p->type != MT_TYPE_TENSORS || (call->args[a].count == 0 && may_be_empty(call, a)))
            continue;
        if (call->args[a].count != n)
            return mt__fail(MT_E_RUNTIME, "%s(): %.*s has %u tensors, but there are %u parameters",
                            mt__op_short_name(call->op), (int)p->name_length, p->name, call->args[a].count,
                            n);
        for (uint32_t i = 0; i < n; i++) {
            mt_status status = check_item(call, a, i);
            if (status != MT_OK)
                return status;
        }
    }
    return mt__call_outs(call, 0);
}
