/* runtime/numbers.c - numbers among the operands of calls that a profile records.
 *
 * PyTorch's ops compute with tensors: the 2 of `x * 2` becomes a one-element tensor, whose memory a profile
 * shows, and which aten::to converts to the dtype of the computation. Kernels here take numbers directly,
 * which is faster, and do so when nothing is recorded. A recorded call on the CPU does what PyTorch does: the
 * profile shows what ran, and agrees with PyTorch's about the 2. Results are the same either way: a tensor
 * that stands for a number (MT__IS_NUMBER) promotes like the number.
 *
 * Where the tensor is made: if user code calls add, sub, mul, div or floor_divide, before the op begins (in
 * PyTorch: by the binding). If an op or a derivative calls them, they make it themselves and call themselves
 * with it (PyTorch's Scalar overloads). Other ops always make it themselves.
 *
 * Only one-element tensors are converted by aten::to. Larger ones are cast block by block in the kernel,
 * recorded or not: a copy would be memory that the program does not need.
 */
#include "runtime/narrow.h"
#include "runtime/runtime.h"

/* ------------------------------------------------------------------------------------------------- making one */

static inline bool is_number(const mt_value *v)
{
    return v->kind == MT_INT || v->kind == MT_FLOAT || v->kind == MT_TRUTH;
}

/* Floats become float64 whatever the default dtype, so that no precision is lost. */
static mt_status make_number(const mt_value *v, mt_tensor **out)
{
    mt_dtype dtype = v->kind == MT_FLOAT ? MT_FLOAT64 : v->kind == MT_INT ? MT_INT64 : MT_BOOL;
    mt_status status = mt__empty(dtype, MT_CPU, 0, NULL, out);
    if (status != MT_OK)
        return status;
    if (dtype == MT_BOOL)
        *(bool *)(*out)->data = v->as.i != 0;
    else
        memcpy((*out)->data, &v->as, sizeof v->as.i);
    (*out)->flags |= MT__IS_NUMBER;
    return MT_OK;
}

mt_value mt__shown_operand(mt_value v)
{
    mt_tensor *t;
    if (!is_number(&v) || !(mtp_recording() & MTP_CPU))
        return v;
    mt_status status = make_number(&v, &t);
    t = status == MT_OK ? mt_scope_keep(t) : mt__fail_scope(status);
    return mt_value_tensor(t);
}

/* -------------------------------------------------------------------------------------------- outside of the op */

bool mt__wraps_outside(const mt__call *call)
{
    return call->args[0].kind == MT_TENSOR && is_number(&call->args[1]) &&
           MT_DEVICE_TYPE(call->device) == 0 && mt__interceptor.fn == NULL;
}

mt_status mt__with_number(mt__call *call, mt_status (*run)(mt__call *call, bool tracked), bool tracked)
{
    const mt_value *args = call->args;
    mt_value with[MT__MAX_ARGS];
    mt_tensor *number;
    mt_status status = make_number(&args[1], &number);
    if (status != MT_OK)
        return status;
    memcpy(with, args, call->op->param_count * sizeof *args);
    with[1] = mt_value_tensor(number);
    call->args = with;
    status = run(call, tracked);
    call->args = args;
    mt_release(number);
    return status;
}

/* ------------------------------------------------------------------------------------------------ within the op */

#define OPERANDS 2 /* the first arguments of all ops here */

/* Converts one-element operands, then computes. The tensor that an in-place op changes is not converted. */
static mt_status compute_converted(mt__call *call)
{
    const mt_value *args = call->args;
    mt_value with[MT__MAX_ARGS], to[4] = {[1] = mt_value_int(mt__common_dtype(call)),
                                          [2] = mt_value_truth(false),
                                          [3] = mt_value_truth(false)};
    mt_tensor *made[OPERANDS] = {NULL, NULL};
    mt_status status = mt__check_operands(call, (mt_dtype)to[1].as.i);
    memcpy(with, args, call->op->param_count * sizeof *args);
    for (unsigned i = call->op->in_place ? 1 : 0; i < OPERANDS && status == MT_OK; i++) {
        const mt_tensor *t = mt__arg_tensor(call, i);
        if (t == NULL || t->numel != 1 || t->dtype == to[1].as.i)
            continue;
        to[0] = args[i];
        status = mt__call_below(MT_OP_to_dtype, to, MT__COUNT_OF(to), &made[i]);
        if (mt__rounds_numbers(call,
                               (mt_dtype)to[1].as.i)) /* else what is shown is not what is computed with */
            with[i] = mt_value_tensor(made[i]);
    }
    call->args = with;
    if (status == MT_OK)
        status = mt__compute(call);
    call->args = args;
    for (unsigned i = OPERANDS; i > 0; i--)
        mt_release(made[i - 1]);
    return status;
}

/* Calls the op `as`, which may be the call's own, with a tensor in place of the number; recorded as a
 * separate call or not. */
static mt_status compute_with_tensor(mt__call *call, mt_op_id as, bool recorded)
{
    mt_value args[MT__MAX_ARGS];
    mt__call inner = *call;
    mt_tensor *number;
    mt_status status = make_number(&call->args[1], &number);
    if (status != MT_OK)
        return status;
    memcpy(args, call->args, call->op->param_count * sizeof *args);
    args[1] = mt_value_tensor(number);
    if (as == MT_OP_sub && call->op->id == MT_OP_rsub) {
        args[1] = args[0];
        args[0] = mt_value_tensor(number);
    }
    inner.op = &mt__ops[as];
    inner.args = args;
    status =
        recorded ? mt__record_part(&inner, as, NULL, args, compute_converted) : compute_converted(&inner);
    call->compute = inner.compute;
    mt_release(number);
    return status;
}

static mt_status find_type(mt__call *call)
{
    call->compute = mt__common_dtype(call);
    return MT_OK;
}

/* x ** number: PyTorch determines the result's dtype by one op and converts x to it by another. */
static mt_status compute_power(mt__call *call)
{
    const mt_value *args = call->args;
    mt_tensor *self = args[0].as.tensor, *base = NULL;
    mt_status status = mt__record_part(call, call->op->id, "aten::result_type", args, find_type);
    if (status != MT_OK || (self->dtype != call->compute && (self->numel != 1 || call->op->in_place)))
        return status == MT_OK ? mt__compute(call) : status;
    mt_value to[4] = {args[0], mt_value_int(call->compute), mt_value_truth(false), mt_value_truth(false)};
    status = mt__call_below(MT_OP_to_dtype, to, MT__COUNT_OF(to), &base);
    mt_value with[OPERANDS] = {mt_value_tensor(base), args[1]};
    call->args = with;
    if (status == MT_OK)
        status = mt__compute(call);
    call->args = args;
    mt_release(base);
    return status;
}

mt_status mt__compute_recorded(mt__call *call)
{
    if (MT_DEVICE_TYPE(call->device) != 0)
        return mt__compute(call);
    bool wraps = is_number(&call->args[1]) && call->args[0].kind == MT_TENSOR;
    switch ((mt__numbers)call->op->numbers) {
    case MT__NUMBERS_OUTSIDE:
    case MT__NUMBERS_AGAIN:
        return wraps ? compute_with_tensor(call, call->op->id, true) : compute_converted(call);
    case MT__NUMBERS_TURNED:
        return wraps ? compute_with_tensor(call, MT_OP_sub, true) : compute_converted(call);
    case MT__NUMBERS_WITHIN:
        return wraps ? compute_with_tensor(call, call->op->id, false) : compute_converted(call);
    case MT__NUMBERS_POWER:
        return compute_power(call);
    case MT__NUMBERS_AS_USUAL:
    case MT__NUMBERS_STAY:
        break;
    }
    return mt__compute(call);
}
