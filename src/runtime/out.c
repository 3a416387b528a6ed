/* runtime/out.c - results in the caller's tensors: torch.sin(x, out=y).
 *
 * The op runs as usual, except that when its infer allocates an output, it gets the caller's tensor, resized
 * if necessary, and the kernel writes to it. If the kernel cannot (another dtype, gaps between elements,
 * memory shared with an argument), it gets new memory and the result is copied, as for composite ops.
 */
#include "runtime/runtime.h"
#include "runtime/autograd/autograd.h"

MT__FAST_TLS mt__call *mt__placing;

/* ------------------------------------------------------------------------------------------------- refusals */

/* May a result of that dtype be written to `target`? Messages are mostly PyTorch's. */
static mt_status check_dtype(const mt__op *op, mt_dtype dtype, const mt_tensor *target)
{
    const char *have = mt__scalar_type(dtype), *want = mt__scalar_type(target->dtype);
    if (target->dtype == dtype)
        return MT_OK;
    switch (op->out_rule) {
    case MT__OUT_CAST:
    case MT__OUT_JOIN:
        if (mt__castable(dtype, target->dtype))
            return MT_OK;
        if (op->out_rule == MT__OUT_JOIN)
            return mt__fail(MT_E_TYPE, "torch.cat(): input types can't be cast to the desired output type %s",
                            want);
        return mt__fail(MT_E_RUNTIME, "result type %s can't be cast to the desired output type %s", have,
                        want);
    case MT__OUT_FOUND:
        return mt__fail(MT_E_RUNTIME, "Found dtype %s but expected %s", want, have);
    case MT__OUT_TRUTH:
        return mt__fail(MT_E_RUNTIME, "%s only supports bool tensor for result, got: %s",
                        mt__op_short_name(op), want);
    default:
        return mt__fail(MT_E_RUNTIME, "Expected out tensor to have dtype %s, but got %s instead",
                        mt__c_type(dtype), mt__c_type(target->dtype));
    }
}

/* For factory ops: device and dtype are those of out=. */
static mt_status check_options(mt__call *call)
{
    const mt_value *dtype = &call->args[call->op->options], *device = dtype + 1;
    if (device->kind == MT_NONE)
        call->device = call->into[0]->device;
    if (dtype->kind == MT_INT && dtype->as.i != call->into[0]->dtype)
        return mt__fail(MT_E_RUNTIME, "dtype %s does not match dtype of out parameter (%s)",
                        mt__scalar_type((unsigned)dtype->as.i), mt__scalar_type(call->into[0]->dtype));
    return MT_OK;
}

mt_status mt__check_into(mt__call *call, bool tracked)
{
    const mt__op *op = call->op;
    mt_status status = op->options >= 0 ? check_options(call) : MT_OK;
    if (status != MT_OK)
        return status;
    bool refuses = tracked && (op->grad != NULL || op->composite != NULL);
    for (uint32_t i = 0; i < call->out_count; i++)
        refuses |= mt__tracks(call->into[i]);
    if (refuses && mt__grad_mode)
        return mt__fail(MT_E_RUNTIME,
                        "%s(): functions with out=... arguments don't support automatic differentiation, but "
                        "one of the arguments requires grad.",
                        mt__op_short_name(op));
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->into[i]->device != call->device)
            return mt__mixed_devices(op, call->device, call->into[i]->device);
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------------- placing */

static bool is_argument(const mt__call *call, const mt_tensor *t)
{
    for (unsigned i = 0; i < call->op->param_count; i++) {
        const mt_value *v = &call->args[i];
        if (v->kind == MT_TENSOR && v->as.tensor == t)
            return true;
        for (uint32_t k = 0; v->kind == MT_TENSORS && k < v->count; k++)
            if (v->as.tensors[k] == t)
                return true;
    }
    return false;
}

/* Resizes target to dims. */
static mt_status fit(const mt__call *call, mt_tensor *target, int rank, const int64_t *dims)
{
    if (mt__has_dims(target, rank, dims))
        return mt__check_written(target);
    if (is_argument(call, target))
        return mt__fail(MT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                        mt__shape_text(target->dims, target->rank), mt__shape_text(dims, rank));
    /* like PyTorch's kernels, which use resize_ only in factory ops */
    return call->op->options >= 0 ? mt_resize(target, rank, dims) : mt__resize(target, rank, dims);
}

mt_tensor *mt__made(mt__call *call, const mt_value *size, mt_value dtype, const mt_value *device)
{
    if (MT__LIKELY(call->into == NULL))
        return MT(empty, *size, dtype, *device);
    mt_status status = mt_resize(call->into[0], (int)size->count, size->as.ints);
    return status == MT_OK ? call->into[0] : mt__fail_scope(status);
}

static bool shares_memory(const mt_tensor *a, const mt_tensor *target, bool elementwise)
{
    if (a == NULL || a->storage != target->storage)
        return false;
    return !elementwise || a->dtype != target->dtype || a->offset != target->offset ||
           !mt__has_dims(a, target->rank, target->dims) ||
           memcmp(a->strides, target->strides, (size_t)a->rank * sizeof *a->strides) != 0;
}

/* Would writing to target change data that the kernel has yet to read? */
static bool is_read(const mt__call *call, const mt_tensor *target)
{
    bool elementwise = call->op->elementwise;
    for (unsigned i = 0; i < call->op->param_count; i++) {
        const mt_value *v = &call->args[i];
        if (v->kind == MT_TENSOR && shares_memory(v->as.tensor, target, elementwise))
            return true;
        for (uint32_t k = 0; v->kind == MT_TENSORS && k < v->count; k++)
            if (shares_memory(v->as.tensors[k], target, elementwise))
                return true;
    }
    return false;
}

mt_status mt__place(mt_dtype dtype, mt_device device, int rank, const int64_t *dims, mt_tensor **out)
{
    mt__call *call = mt__placing;
    mt_tensor *target = call->into[out - call->outs];
    mt__placing = NULL; /* allocations from here on are not outputs */
    mt_status status = check_dtype(call->op, dtype, target);
    if (status == MT_OK)
        status = fit(call, target, rank, dims);
    if (status == MT_OK && call->op->elementwise)
        status = mt__check_overlap(target, call->args, call->op->param_count);
    bool direct = target->dtype == dtype && (target->flags & MT__CONTIGUOUS) != 0 && !is_read(call, target);
    if (status == MT_OK && direct)
        *out = mt_retain(target);
    else if (status == MT_OK)
        status = mt__empty(dtype, device, rank, dims, out);
    mt__placing = call;
    return status;
}

/* Takes missing options from out=: the device, and the dtype if out= determines it. */
static void choose(mt__call *call)
{
    const mt__op *op = call->op;
    for (unsigned i = 0; i < op->param_count; i++) {
        bool dtype = op->params[i].type == MT_TYPE_DTYPE && op->out_rule == MT__OUT_CHOSEN;
        if (call->own[i].kind == MT_NONE && (dtype || op->params[i].type == MT_TYPE_DEVICE))
            call->own[i] = mt_value_int(dtype ? call->into[0]->dtype : call->into[0]->device);
    }
}

mt_status mt__infer_into(mt__call *call)
{
    mt__call *before = mt__placing;
    choose(call);
    mt__placing = call;
    mt_status status = call->op->infer(call);
    mt__placing = before;
    return status;
}

mt_status mt__settle(mt__call *call)
{
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < call->out_count && status == MT_OK; i++) {
        mt_tensor *made = call->outs[i], *target = call->into[i], *done = NULL;
        if (made == NULL) {
            continue; /* a composite that failed within its scope */
        } else if (made != target) {
            mt_value args[2] = {mt_value_tensor(target), mt_value_tensor(made)};
            status = check_dtype(call->op, (mt_dtype)made->dtype, target);
            if (status == MT_OK)
                status = fit(call, target, made->rank, made->dims);
            if (status == MT_OK)
                status = mt__run_quietly(MT_OP_copy_, args, 2, &done);
            if (status != MT_OK)
                break;
            mt_release(made);
            call->outs[i] = done;
        } else {
            ++*mt__version(target);
        }
    }
    return status;
}

/* --------------------------------------------------------------------------------------------- the way in */

mt_status mt_call_out(mt_op_id id, const mt_value *args, unsigned count, mt_tensor *const *into)
{
    if (id >= MT_OP_COUNT || mt__ops[id].out == NULL)
        return mt__fail(MT_E_VALUE, "mt_call_out: %s",
                        id >= MT_OP_COUNT ? "no such op" : "the op does not support out=");
    const mt__op *op = &mt__ops[id];
    for (unsigned i = 0; i < op->out_count; i++)
        if (into[i] == NULL)
            return mt__fail(MT_E_VALUE, "mt_call_out: %s has %u results, but tensor %u for them is NULL",
                            op->name, op->out_count, i);
    mt_value full[MT__MAX_ARGS];
    int64_t lists[MT__MAX_ARGS][4];
    mt_tensor *outs[MT__MAX_OUTS] = {NULL};
    mt__call call = {
        .op = op, .args = full, .own = full, .outs = outs, .out_count = op->out_count, .into = into};
    mt_status status = mt__complete(op, args, count, full, lists);
    if (status == MT_OK)
        status = mt__call_op(&call);
    for (unsigned i = 0; i < MT__MAX_OUTS; i++)
        mt_release(outs[i]);
    return status;
}
