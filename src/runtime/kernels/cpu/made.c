/* kernels/cpu/made.c - kernels that are made of those of other ops, for all devices and dtypes.
 *
 * The last part of each writes to the call's own output, so that it is cast and placed like any op's.
 */
#include "runtime/runtime.h"
#include "runtime/chance.h"
#include "runtime/ops/reduce.h"
#include <math.h>

/* Computes outs[0] by the kernel of another op, in the call's compute dtype. */
static mt_status finish_by(const mt__call *call, mt_op_id op, const mt_value *args)
{
    mt__call last = *call;
    last.op = &mt__ops[op];
    last.args = args;
    return last.op->kernels[MT_DEVICE_TYPE(call->device)](&last);
}

/* ------------------------------------------------------------------------------------------------------ clamp */

mt_status mt__cpu_clamp_min_tensor(mt__call *call)
{
    return finish_by(call, MT_OP_maximum, call->args);
}

mt_status mt__cpu_clamp_max_tensor(mt__call *call)
{
    return finish_by(call, MT_OP_minimum, call->args);
}

/* If the bounds cross, the upper one wins; NaN is kept. */
mt_status mt__cpu_clamp_tensor(mt__call *call)
{
    const mt_value *a = call->args;
    mt_value below[] = {a[0], a[2]};
    mt_tensor *raised;
    if (a[2].kind == MT_NONE)
        return finish_by(call, MT_OP_maximum, a);
    if (a[1].kind == MT_NONE)
        return finish_by(call, MT_OP_minimum, below);
    mt_status status = mt__run_quietly(MT_OP_maximum, a, 2, &raised);
    if (status != MT_OK)
        return status;
    below[0] = mt_value_tensor(raised);
    status = finish_by(call, MT_OP_minimum, below);
    mt_release(raised);
    return status;
}

/* --------------------------------------------------------------------------------------------- division, rounding */

/* The floor of an inexact negative quotient is one less. */
static mt_status truncate_whole(const mt__call *call)
{
    mt_tensor *t[5] = {NULL};
    const mt_value zero = mt_value_int(0);
    mt_status status = mt__run_quietly(MT_OP_floor_divide, call->args, 2, &t[0]);
    if (status == MT_OK)
        status = mt__run_quietly(MT_OP_remainder, call->args, 2, &t[1]);
    if (status == MT_OK)
        status = mt__run_quietly(MT_OP_lt, (mt_value[]){mt_value_tensor(t[0]), zero}, 2, &t[2]);
    if (status == MT_OK)
        status = mt__run_quietly(MT_OP_ne, (mt_value[]){mt_value_tensor(t[1]), zero}, 2, &t[3]);
    if (status == MT_OK)
        status = mt__run_quietly(MT_OP_logical_and,
                                 (mt_value[]){mt_value_tensor(t[2]), mt_value_tensor(t[3])}, 2, &t[4]);
    if (status == MT_OK)
        status = finish_by(call, MT_OP_add,
                           (mt_value[]){mt_value_tensor(t[0]), mt_value_tensor(t[4]), mt_value_int(1)});
    for (unsigned i = 0; i < MT__COUNT_OF(t); i++)
        mt_release(t[i]);
    return status;
}

mt_status mt__cpu_div_mode(mt__call *call)
{
    const mt_value *mode = &call->args[2];
    mt_tensor *quotient;
    if (mode->kind == MT_NONE)
        return finish_by(call, MT_OP_div, call->args);
    if (mode->as.text[0] == 'f')
        return finish_by(call, MT_OP_floor_divide, call->args);
    if (!mt__is_floating(call->compute))
        return truncate_whole(call);
    mt_status status = mt__run_quietly(MT_OP_div, call->args, 2, &quotient);
    if (status != MT_OK)
        return status;
    mt_value arg = mt_value_tensor(quotient);
    status = finish_by(call, MT_OP_trunc, &arg);
    mt_release(quotient);
    return status;
}

/* Rounded to a multiple of a power of ten. */
mt_status mt__cpu_round_decimals(mt__call *call)
{
    int64_t decimals = mt__arg_int(call, 1);
    mt_value args[] = {call->args[0], mt_value_float(pow(10, fabs((double)decimals)))};
    mt_tensor *t[3] = {NULL, NULL, NULL};
    if (decimals == 0)
        return finish_by(call, MT_OP_round, args);
    mt_status status =
        mt__cast(args[0].as.tensor, call->compute, &t[2]); /* a narrow dtype is rounded to once */
    args[0] = mt_value_tensor(t[2]);
    if (status == MT_OK)
        status = mt__run_quietly(decimals > 0 ? MT_OP_mul : MT_OP_div, args, 2, &t[0]);
    args[0] = mt_value_tensor(t[0]);
    if (status == MT_OK)
        status = mt__run_quietly(MT_OP_round, args, 1, &t[1]);
    args[0] = mt_value_tensor(t[1]);
    if (status == MT_OK)
        status = finish_by(call, decimals > 0 ? MT_OP_div : MT_OP_mul, args);
    for (unsigned i = 0; i < MT__COUNT_OF(t); i++)
        mt_release(t[i]);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- chance */

/* The largest number that random_() draws: all integers up to it are numbers of the dtype. */
static int64_t largest(mt_dtype dtype)
{
    switch (dtype) {
    case MT_BOOL:
        return 1;
    case MT_UINT8:
        return UINT8_MAX;
    case MT_INT8:
        return INT8_MAX;
    case MT_INT16:
        return INT16_MAX;
    case MT_FLOAT16:
        return 1 << 11;
    case MT_BFLOAT16:
        return 1 << 8;
    case MT_INT32:
        return INT32_MAX;
    case MT_FLOAT32:
        return 1 << 24;
    case MT_FLOAT64:
        return (int64_t)1 << 53;
    default:
        return INT64_MAX;
    }
}

static mt_status draw(const mt__call *call, int64_t from, mt_value to)
{
    mt_value args[] = {call->args[0], mt_value_int(from), to};
    return finish_by(call, MT_OP_random_, args);
}

mt_status mt__cpu_random_to(mt__call *call)
{
    return draw(call, 0, call->args[1]);
}

mt_status mt__cpu_random_all(mt__call *call)
{
    return draw(call, 0, mt_value_none(NULL));
}

mt_status mt__random_last(const mt__call *call, int64_t *last)
{
    const mt_tensor *out = call->outs[0];
    int64_t from = mt__arg_int(call, 1);
    if (!mt__arg_given(call, 2)) {
        *last = largest((mt_dtype)out->dtype);
        if (from > *last)
            return mt__fail(
                MT_E_RUNTIME,
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted "
                "to dtype, but got from=%lld > to_inc=%lld",
                (long long)from, (long long)*last);
        return mt__random_range((mt_dtype)out->dtype, from, *last);
    }
    if (from >= mt__arg_int(call, 2))
        return mt__fail(MT_E_RUNTIME,
                        "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                        (long long)from, (long long)mt__arg_int(call, 2));
    *last = mt__arg_int(call, 2) - 1;
    return mt__random_range((mt_dtype)out->dtype, from, *last);
}

/* By probabilities that broadcast to self. */
mt_status mt__cpu_bernoulli_tensor(mt__call *call)
{
    const mt_tensor *self = call->outs[0], *p = mt__arg_tensor(call, 1);
    mt_tensor *all, *drawn = NULL, *done = NULL;
    int64_t dims[MT_MAX_RANK];
    int rank;
    mt_status status = mt__broadcast(self->rank, self->dims, p->rank, p->dims, &rank, dims);
    if (status == MT_OK && !mt__has_dims(self, rank, dims))
        status = mt__fail(MT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                          mt__shape_text(self->dims, self->rank), mt__shape_text(dims, rank));
    if (status != MT_OK)
        return status;
    status = mt__contiguous_as(p, self->rank, self->dims, &all);
    mt_value args[] = {mt_value_tensor(self), mt_value_tensor(all)};
    if (status == MT_OK)
        status = mt__run_quietly(MT_OP_bernoulli, &args[1], 1, &drawn);
    args[1] = mt_value_tensor(drawn);
    if (status == MT_OK)
        status = mt__run_quietly(MT_OP_copy_, args, 2, &done);
    mt_release(all);
    mt_release(drawn);
    mt_release(done);
    return status;
}
