/* runtime/ops/copy.c - copies to other memory or another dtype, and constant tensors: ops composed of copy_,
 * _to_copy, clone and fill_.
 */
#include "runtime/runtime.h"

mt_status mt__contiguous(const mt_tensor *t, mt_tensor **out)
{
    if (MT__LIKELY(t->flags & MT__CONTIGUOUS)) {
        *out = mt_retain((mt_tensor *)(uintptr_t)t);
        return MT_OK;
    }
    mt_value args[] = {mt_value_tensor(t), mt_value_int(MT__CONTIGUOUS_FORMAT)};
    return mt__run_quietly(MT_OP_clone, args, 2, out);
}

mt_status mt__contiguous_as(const mt_tensor *t, int rank, const int64_t *dims, mt_tensor **out)
{
    mt_tensor *wide;
    int64_t strides[MT_MAX_RANK];
    mt__broadcast_strides(t, rank, dims, strides);
    mt_status status = mt__alias(t, rank, dims, strides, t->offset, &wide);
    if (status != MT_OK)
        return status;
    status = mt__contiguous(wide, out);
    mt_release(wide);
    return status;
}

const mt_tensor *mt__hold(mt__held *h, const mt_tensor *t)
{
    if (t == NULL || h->status != MT_OK)
        return NULL;
    h->status = mt__contiguous(t, &h->items[h->count]);
    return h->status == MT_OK ? h->items[h->count++] : NULL;
}

const mt_tensor *mt__hold_as(mt__held *h, const mt_tensor *t, mt_dtype dtype)
{
    if (t == NULL || h->status != MT_OK || t->dtype == dtype)
        return mt__hold(h, t);
    mt_value args[] = {mt_value_tensor(t), mt_value_int(dtype)};
    h->status = mt__run_quietly(MT_OP__to_copy, args, 2, &h->items[h->count]);
    return h->status == MT_OK ? h->items[h->count++] : NULL;
}

mt_status mt__let_go(mt__held *h)
{
    for (int i = 0; i < h->count; i++)
        mt_release(h->items[i]);
    return h->status;
}

mt_status mt__composite_contiguous(mt__call *call)
{
    mt_tensor *x = call->args[0].as.tensor;
    if (x->flags & MT__CONTIGUOUS && call->args[1].as.i != 2)
        return mt__return(call, x);
    if (call->args[1].as.i == MT__PRESERVE_FORMAT)
        return mt__fail(MT_E_RUNTIME, "preserve memory format is unsupported by the contiguous operator");
    return mt__return(call, MT(clone, x, call->args[1]));
}

/* `first`: the position of non_blocking, copy and memory_format. */
static mt_status to(mt__call *call, mt_dtype dtype, mt_device device, unsigned first)
{
    mt_tensor *x = call->args[0].as.tensor;
    const mt_value *options = &call->args[first];
    if (x->dtype == dtype && x->device == device && options[1].as.i == 0)
        return mt__return(call, x);
    return mt__return(call, MT(_to_copy, x, (int)dtype, device, options[0], options[2]));
}

mt_status mt__composite_to_dtype(mt__call *call)
{
    return to(call, (mt_dtype)call->args[1].as.i, call->args[0].as.tensor->device, 2);
}

mt_status mt__composite_to_device(mt__call *call)
{
    const mt_tensor *x = call->args[0].as.tensor;
    mt_dtype dtype = mt__arg_given(call, 2) ? (mt_dtype)call->args[2].as.i : (mt_dtype)x->dtype;
    return to(call, dtype, (mt_device)call->args[1].as.i, 3);
}

mt_status mt__composite_type_as(mt__call *call)
{
    const mt_tensor *other = mt__arg_tensor(call, 1);
    return mt__return(call, MT(to_device, call->args[0], (int64_t)other->device, (int64_t)other->dtype));
}

/* ------------------------------------------------------------------------------------------------ constants */

mt_status mt__composite_zeros(mt__call *call)
{
    for (uint32_t i = 0; i < call->args[0].count; i++)
        if (call->args[0].as.ints[i] < 0)
            return mt__fail(MT_E_RUNTIME, "zeros: Dimension size must be non-negative.");
    mt_tensor *t = mt__made(call, &call->args[0], call->args[1], &call->args[2]);
    return mt__return(call, MT(zero_, t));
}

mt_status mt__composite_ones(mt__call *call)
{
    mt_tensor *t = mt__made(call, &call->args[0], call->args[1], &call->args[2]);
    return mt__return(call, MT(fill_, t, 1));
}

/* Without a dtype, the fill value determines it: bool, int64 or the default. */
mt_status mt__composite_full(mt__call *call)
{
    mt_value dtype = call->args[2];
    if (dtype.kind == MT_NONE)
        dtype = mt_value_int(mt__value_dtype(&call->args[1]));
    mt_tensor *t = mt__made(call, &call->args[0], dtype, &call->args[3]);
    return mt__return(call, MT(fill_, t, call->args[1]));
}

mt_status mt__composite_zeros_like(mt__call *call)
{
    mt_tensor *t = MT(empty_like, call->args[0], call->args[1], call->args[2], call->args[3]);
    return mt__return(call, MT(zero_, t));
}

mt_status mt__composite_ones_like(mt__call *call)
{
    mt_tensor *t = MT(empty_like, call->args[0], call->args[1], call->args[2], call->args[3]);
    return mt__return(call, MT(fill_, t, 1));
}

mt_status mt__composite_full_like(mt__call *call)
{
    mt_tensor *t = MT(empty_like, call->args[0], call->args[2], call->args[3], call->args[4]);
    return mt__return(call, MT(fill_, t, call->args[1]));
}

mt_status mt__composite_new_empty_strided(mt__call *call)
{
    const mt_tensor *self = call->args[0].as.tensor;
    mt_value dtype = mt__arg_given(call, 3) ? call->args[3] : mt_value_int(self->dtype);
    mt_value device = mt__arg_given(call, 4) ? call->args[4] : mt_value_int(self->device);
    return mt__return(call, MT(empty_strided, call->args[1], call->args[2], dtype, device));
}

mt_status mt__composite_new_zeros(mt__call *call)
{
    const mt_tensor *self = call->args[0].as.tensor;
    mt_value dtype = mt__arg_given(call, 2) ? call->args[2] : mt_value_int(self->dtype);
    mt_value device = mt__arg_given(call, 3) ? call->args[3] : mt_value_int(self->device);
    mt_tensor *t = MT(empty, call->args[1], dtype, device);
    return mt__return(call, MT(zero_, t));
}
