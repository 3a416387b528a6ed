/* runtime/ops/create.c - new tensors, ranges and random ones: the infers and the composite ops. */
#include "runtime/runtime.h"
#include <math.h>

static mt_dtype dtype_arg(const mt__call *call, unsigned i, mt_dtype otherwise)
{
    return mt__arg_given(call, i) ? (mt_dtype)call->args[i].as.i : otherwise;
}

/* -------------------------------------------------------------------------------------------------- counted */

static int64_t whole(const mt_value *v)
{
    return v->kind == MT_FLOAT ? (int64_t)v->as.f : v->as.i;
}

/* The number of elements, computed as in PyTorch: for int64 with the ends as int64. */
static mt_status arange_size(const mt_value *from, const mt_value *to, const mt_value *by, mt_dtype dtype,
                             int64_t *out)
{
    double start = mt__value_number(from), end = mt__value_number(to), step = mt__value_number(by);
    if (step == 0)
        return mt__fail(MT_E_RUNTIME, "step must be nonzero");
    if (!isfinite(start) || !isfinite(end))
        return mt__fail(MT_E_RUNTIME, "unsupported range: %g -> %g", start, end);
    if (!((step > 0 && end >= start) || (step < 0 && end <= start)))
        return mt__fail(MT_E_RUNTIME, "upper bound and lower bound inconsistent with step sign");
    const mt_value *ends[] = {from, to, by};
    for (unsigned i = 0; i < 3 && mt_dtype_kind_of(dtype) == MT_KIND_WHOLE; i++)
        if (mt__check_fits(ends[i], MT_INT64) != MT_OK) /* an int32 wraps around */
            return MT_E_RUNTIME;
    double size = ceil((end - start) / step);
    if (dtype == MT_INT64 && whole(by) == 0) /* counted in integers: arange(0, 7, 0.5, dtype=int64) */
        return mt__fail(MT_E_VALUE, "step must be nonzero");
    if (dtype == MT_INT64) {
        int64_t a = whole(from), b = whole(to), s = whole(by);
        uint64_t way = s > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
        uint64_t each = s > 0 ? (uint64_t)s : 0 - (uint64_t)s;
        uint64_t steps = way / each + (way % each != 0);
        size = (double)steps;
    }
    if (!(size >= 0 && size <= (double)INT64_MAX / 8))
        return mt__fail(MT_E_RUNTIME, "invalid size, possible overflow?");
    *out = (int64_t)size;
    return MT_OK;
}

mt_status mt__infer_arange(mt__call *call)
{
    unsigned bounds = (unsigned)call->op->param_count - 2; /* end; start, end; start, end, step */
    mt_value zero = mt_value_int(0), one = mt_value_int(1);
    const mt_value *from = bounds == 1 ? &zero : &call->args[0], *to = &call->args[bounds == 1 ? 0 : 1];
    const mt_value *by = bounds == 3 ? &call->args[2] : &one;
    bool real = from->kind == MT_FLOAT || to->kind == MT_FLOAT || by->kind == MT_FLOAT;
    mt_dtype dtype = dtype_arg(call, bounds, real ? mt__default_dtype : MT_INT64);
    int64_t size;
    mt_status status = arange_size(from, to, by, dtype, &size);
    return status == MT_OK ? mt__empty(dtype, call->device, 1, &size, &call->outs[0]) : status;
}

mt_status mt__infer_linspace(mt__call *call)
{
    int64_t steps = mt__arg_int(call, 2);
    if (steps < 0)
        return mt__fail(MT_E_RUNTIME, "number of steps must be non-negative");
    mt_dtype dtype = dtype_arg(call, 3, mt__default_dtype);
    mt_status status = mt__check_fits(&call->args[0], dtype);
    if (status == MT_OK)
        status = mt__check_fits(&call->args[1], dtype);
    return status == MT_OK ? mt__empty(dtype, call->device, 1, &steps, &call->outs[0]) : status;
}

mt_status mt__infer_eye(mt__call *call)
{
    unsigned sides = (unsigned)call->op->param_count - 2;
    int64_t dims[] = {mt__arg_int(call, 0), mt__arg_int(call, sides - 1)};
    if (dims[0] < 0)
        return mt__fail(MT_E_RUNTIME, "n must be greater or equal to 0, got %lld", (long long)dims[0]);
    if (dims[1] < 0)
        return mt__fail(MT_E_RUNTIME, "m must be greater or equal to 0, got %lld", (long long)dims[1]);
    return mt__empty(dtype_arg(call, sides, mt__default_dtype), call->device, 2, dims, &call->outs[0]);
}

/* ------------------------------------------------------------------------------------------------- by chance */

mt_status mt__infer_randperm(mt__call *call)
{
    int64_t n = mt__arg_int(call, 0);
    mt_dtype dtype = dtype_arg(call, 1, MT_INT64);
    if (dtype == MT_FLOAT32 && n > (1 << 24) + 1)
        return mt__fail(MT_E_RUNTIME, "n cannot be greater than 2^24+1 for Float type.");
    if (dtype == MT_FLOAT16 && n > (1 << 11) + 1)
        return mt__fail(MT_E_RUNTIME, "n cannot be greater than 2049 for Half type.");
    mt_status status = mt__is_floating(dtype) ? MT_OK : mt__check_fits(&call->args[0], dtype);
    return status == MT_OK ? mt__empty(dtype, call->device, 1, &n, &call->outs[0]) : status;
}

mt_status mt__infer_bernoulli_of(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    if (!mt__is_floating((mt_dtype)t->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"bernoulli_tensor_cpu_p_\" not implemented for '%s'",
                        mt__scalar_type(t->dtype));
    return mt__empty_like(t, (mt_dtype)t->dtype, &call->outs[0]);
}

mt_status mt__infer_multinomial(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    int64_t draws = mt__arg_int(call, 1), dims[2];
    if (t->rank < 1 || t->rank > 2)
        return mt__fail(MT_E_RUNTIME, "prob_dist must be 1 or 2 dim");
    if (!mt__is_floating((mt_dtype)t->dtype))
        return mt__fail(MT_E_RUNTIME, "multinomial only supports floating-point dtypes for input, got: %s",
                        mt__scalar_type(t->dtype));
    if (draws <= 0)
        return mt__fail(MT_E_RUNTIME, "cannot sample n_sample <= 0 samples");
    if (mt__arg_int(call, 2) == 0 && draws > t->dims[t->rank - 1])
        return mt__fail(MT_E_RUNTIME,
                        "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    if (t->dims[t->rank - 1] == 0)
        return mt__fail(MT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
    dims[0] = t->dims[0];
    dims[t->rank - 1] = draws;
    return mt__empty(MT_INT64, t->device, t->rank, dims, &call->outs[0]);
}

mt_status mt__composite_rand(mt__call *call)
{
    return mt__return(call, MT(uniform_, mt__made(call, &call->args[0], call->args[1], &call->args[2])));
}

mt_status mt__composite_randn(mt__call *call)
{
    return mt__return(call, MT(normal_, mt__made(call, &call->args[0], call->args[1], &call->args[2])));
}

mt_status mt__composite_rand_like(mt__call *call)
{
    return mt__return(
        call, MT(uniform_, MT(empty_like, call->args[0], call->args[1], call->args[2], call->args[3])));
}

mt_status mt__composite_randn_like(mt__call *call)
{
    return mt__return(
        call, MT(normal_, MT(empty_like, call->args[0], call->args[1], call->args[2], call->args[3])));
}

static mt_status draw_ints(mt__call *call, mt_value low, mt_value high, unsigned size)
{
    mt_value dtype = mt__arg_given(call, size + 1) ? call->args[size + 1] : mt_value_int(MT_INT64);
    return mt__return(
        call, MT(random_, mt__made(call, &call->args[size], dtype, &call->args[size + 2]), low, high));
}

mt_status mt__composite_randint(mt__call *call)
{
    return draw_ints(call, mt_value_int(0), call->args[0], 1);
}

mt_status mt__composite_randint_low(mt__call *call)
{
    return draw_ints(call, call->args[0], call->args[1], 2);
}

mt_status mt__composite_bernoulli_p(mt__call *call)
{
    return mt__return(call, MT(bernoulli_, MT(empty_like, call->args[0]), call->args[1]));
}

mt_status mt__composite_dropout(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0);
    double p = mt__arg_number(call, 1);
    if (!(p >= 0 && p <= 1))
        return mt__fail(MT_E_RUNTIME, "dropout probability has to be between 0 and 1, but got %g", p);
    if (p == 0 || mt__arg_int(call, 2) == 0 || x->numel == 0)
        return mt__return(call, x);
    if (p == 1)
        return mt__return(call, MT(mul, x, MT(zeros, MT_SHAPE0, (int64_t)x->dtype, (int64_t)x->device)));
    mt_tensor *noise = MT(bernoulli_, MT(empty_like, x), 1 - p);
    return mt__return(call, MT(mul, x, MT(div_, noise, 1 - p)));
}
