/* runtime/ops/activation.c - activations that are composed of other ops. Halves are computed in float32 and rounded once. */
#include "runtime/narrow.h"
#include "runtime/runtime.h"
#include <float.h>

static mt_status check_floating(const mt__call *call, const char *what)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    if (mt__is_floating((mt_dtype)t->dtype))
        return MT_OK;
    return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s_%s\" not implemented for '%s'", mt__op_short_name(call->op),
                    what, mt__scalar_type(t->dtype));
}

/* The op's first argument, to compute with: floating, not half; in place, a copy, because autograd may save it. */
static mt_tensor *operand(const mt__call *call)
{
    mt_tensor *t = mt__arg_tensor(call, 0);
    mt_status status = check_floating(call, "cpu");
    if (status != MT_OK)
        return mt__fail_scope(status);
    mt_dtype wide = mt__wide((mt_dtype)t->dtype);
    if (wide != (mt_dtype)t->dtype)
        return MT(to_dtype, t, (int64_t)wide);
    return call->op->in_place ? MT(clone, t) : t;
}

/* Returns the result in the first argument's dtype; in place, writes it there. */
static mt_status give(mt__call *call, mt_tensor *out)
{
    mt_tensor *self = mt__arg_tensor(call, 0);
    if (out == NULL)
        return mt_scope_status();
    if (call->op->in_place)
        return mt__return(call, MT(copy_, self, out));
    return mt__return(call, out->dtype == self->dtype ? out : MT(to_dtype, out, (int64_t)self->dtype));
}

mt_status mt__composite_selu(mt__call *call)
{
    const double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
    return mt__return(call, call->op->in_place ? MT(elu_, call->args[0], alpha, scale)
                                               : MT(elu, call->args[0], alpha, scale));
}

mt_status mt__composite_celu(mt__call *call)
{
    double alpha = mt__arg_number(call, 1);
    if (alpha == 0)
        return mt__fail(MT_E_RUNTIME, "ZeroDivisionError: alpha cannot be 0 for CELU");
    return mt__return(call, call->op->in_place ? MT(elu_, call->args[0], alpha, 1.0, 1 / alpha)
                                               : MT(elu, call->args[0], alpha, 1.0, 1 / alpha));
}

/* value wherever x <= threshold, which nan is not */
mt_status mt__composite_threshold(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0), *low = MT(le, x, call->args[1]);
    return mt__return(call, call->op->in_place ? MT(masked_fill_, x, low, call->args[2])
                                               : MT(masked_fill, x, low, call->args[2]));
}

mt_status mt__composite_hardshrink(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0);
    mt_status status = check_floating(call, "cpu");
    if (status != MT_OK)
        return status;
    return mt__return(call, MT(masked_fill, x, MT(le, MT(abs, x), call->args[1]), 0));
}

static double largest(unsigned dtype)
{
    return dtype == MT_FLOAT64    ? DBL_MAX
           : dtype == MT_FLOAT16  ? 65504
           : dtype == MT_BFLOAT16 ? 0x1.fep127
                                  : (double)FLT_MAX;
}

mt_status mt__composite_softshrink(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    double bound = mt__arg_number(call, 1), most = largest(self->dtype);
    mt_status status = check_floating(call, "check");
    if (status != MT_OK)
        return status;
    if (!(bound >= 0 && bound <= most))
        return mt__fail(MT_E_RUNTIME, "lambda must be in range [0, %g] for input dtype %s, but found %g",
                        most, mt__scalar_type(self->dtype), bound);
    mt_tensor *x = operand(call);
    return give(call, MT(sub, x, MT(clamp, x, -bound, bound)));
}

mt_status mt__composite_hardsigmoid(mt__call *call)
{
    return give(call, MT(div, MT(hardtanh, MT(add, operand(call), 3), 0, 6), 6));
}

mt_status mt__composite_hardswish(mt__call *call)
{
    mt_tensor *x = operand(call);
    return give(call, MT(div, MT(mul, x, MT(clamp, MT(add, x, 3), 0, 6)), 6));
}

mt_status mt__composite_mish(mt__call *call)
{
    mt_tensor *x = operand(call);
    return give(call, MT(mul, x, MT(tanh, MT(softplus, x))));
}

mt_status mt__composite_glu(mt__call *call)
{
    mt_tensor *t = mt__arg_tensor(call, 0);
    int dim;
    if (t->rank == 0)
        return mt__fail(MT_E_RUNTIME, "glu does not support scalars because halving size must be even");
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), t->rank, &dim);
    if (status != MT_OK)
        return status;
    int64_t half = t->dims[dim] / 2;
    if (t->dims[dim] % 2 != 0)
        return mt__fail(MT_E_RUNTIME, "Halving dimension must be even, but dimension %d is size %lld", dim,
                        (long long)t->dims[dim]);
    mt_tensor *x = operand(call);
    mt_tensor *gate = MT(sigmoid, MT(narrow, x, dim, half, half));
    return give(call, MT(mul, MT(narrow, x, dim, 0, half), gate));
}

/* prelu(self, weight): one slope, or one for each channel */
mt_status mt__composite_prelu(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0), *weight = mt__arg_tensor(call, 1);
    int64_t dims[MT_MAX_RANK];
    if (x->dtype != weight->dtype)
        return mt__fail(MT_E_RUNTIME, "prelu: Type promoting not supported. Got %s and %s",
                        mt__scalar_type(x->dtype), mt__scalar_type(weight->dtype));
    if (weight->rank > 1)
        return mt__fail(MT_E_RUNTIME,
                        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d",
                        weight->rank);
    if (weight->numel != 1 && x->rank == 0)
        return mt__fail(MT_E_RUNTIME, "Not allow zero-dim input tensor.");
    int64_t channels = x->rank > 1 ? x->dims[1] : 1;
    if (weight->numel != 1 && weight->numel != channels)
        return mt__fail(
            MT_E_RUNTIME,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = %lld "
            "and channel size = %lld.",
            (long long)weight->numel, (long long)channels);
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == 1 || (i == 0 && x->rank == 1) ? weight->numel : 1;
    mt_tensor *slope = MT(view, weight, mt_value_ints(dims, x->rank));
    return mt__return(call, MT(where, MT(gt, x, 0), x, MT(mul, slope, x)));
}
