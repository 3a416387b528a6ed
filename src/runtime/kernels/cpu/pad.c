/* kernels/cpu/pad.c - constant_pad_nd, of ops that all devices have: a profile shows them, as PyTorch's does. */
#include "runtime/runtime.h"

/* Replaces *t, owned, by a part of it. */
static mt_status narrow(mt_tensor **t, int dim, int64_t start, int64_t length)
{
    mt_value args[] = {mt_value_tensor(*t), mt_value_int(dim), mt_value_int(start), mt_value_int(length)};
    mt_tensor *part = NULL;
    mt_status status = mt__call_below(MT_OP_narrow, args, MT__COUNT_OF(args), &part);
    mt_release(*t);
    *t = part;
    return status;
}

/* Without what `amounts` cut off or, for their negatives, add: one side of a copy. */
static mt_status cut(mt_tensor **t, const mt_value *amounts, int sign, bool *cuts)
{
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < amounts->count && status == MT_OK; i++) {
        int dim = (*t)->rank - 1 - (int)i / 2;
        int64_t amount = sign * amounts->as.ints[i];
        if (amount >= 0)
            continue;
        *cuts = true;
        status = narrow(t, dim, i % 2 == 0 ? -amount : 0, (*t)->dims[dim] + amount);
    }
    return status;
}

/* scratch: what is copied */
static mt_status copy_all(mt__call *call)
{
    mt_value args[] = {mt_value_tensor(call->outs[0]), mt_value_tensor(call->scratch)};
    mt_tensor *same = NULL;
    mt_status status = mt__run_quietly(MT_OP_copy_, args, 2, &same);
    mt_release(same);
    return status;
}

static mt_status fill_and_copy(mt__call *call, mt_tensor *from)
{
    mt_tensor *to = mt_retain(call->outs[0]), *same = NULL;
    bool adds = false;
    mt_value fill[] = {mt_value_tensor(to), call->args[2]};
    mt_status status = mt__call_below(MT_OP_fill_, fill, 2, &same);
    mt_release(same);
    if (status == MT_OK)
        status = cut(&to, &call->args[1], -1, &adds);
    mt_value copy[] = {mt_value_tensor(to), mt_value_tensor(from), mt_value_truth(false)};
    if (status == MT_OK) {
        status = mt__call_below(MT_OP_copy_, copy, 3, &same);
        mt_release(same);
    }
    mt_release(to);
    return status;
}

mt_status mt__cpu_constant_pad_nd(mt__call *call)
{
    mt_tensor *from = mt_retain(mt__arg_tensor(call, 0));
    bool cuts = false, adds = false;
    mt_status status = cut(&from, &call->args[1], 1, &cuts);
    for (uint32_t i = 0; i < call->args[1].count; i++)
        adds |= call->args[1].as.ints[i] > 0;
    if (status == MT_OK && adds) {
        status = fill_and_copy(call, from);
    } else if (status == MT_OK) {
        mt_value args[] = {mt_value_tensor(from), mt_value_none(NULL)};
        call->scratch = from;
        status = mt__record_part(call, MT_OP_clone, NULL, args, copy_all);
        call->scratch = NULL;
    }
    mt_release(from);
    return status;
}
