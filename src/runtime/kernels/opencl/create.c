/* kernels/opencl/create.c - new tensors (ranges and random ones), and cat, stack, repeat, flip,
 * roll, triangles.
 *
 * Random numbers: each call draws a key from the process's generator, from which the device computes its
 * numbers (as in PyTorch, they differ from the CPU's).
 */
#include "runtime/chance.h"
#include "runtime/kernels/opencl/npu.h"
#include "runtime/narrow.h"
#include "runtime/ops/reduce.h"

/* X(variant, kernel, defines, dtypes) */
#define VARIANTS(X)                                                                                          \
    X(ARANGE, "arange", "NEED_arange", MT__OF_NUMBER)                                                        \
    X(LINSPACE, "linspace", "NEED_linspace", MT__OF_NUMBER)                                                  \
    X(EYE, "eye", "NEED_eye", MT__OF_ANY)                                                                    \
    X(TRIANGLE, "triangle", "NEED_triangle", MT__OF_ANY)                                                     \
    X(UNIFORM, "uniform", "NEED_chance;CHANCE_UNIFORM 1;A T", MT__OF_REAL)                                   \
    X(NORMAL, "normal", "NEED_chance;CHANCE_NORMAL 1;A T", MT__OF_REAL)                                      \
    X(BERNOULLI, "bernoulli", "NEED_chance;CHANCE_BERNOULLI 1;A float", MT__OF_ANY)                          \
    X(BERNOULLI_OF, "bernoulli_of", "NEED_chance;CHANCE_BERNOULLI_OF 1;A T", MT__OF_REAL)                    \
    X(RANDOM, "random", "NEED_chance;A long", MT__OF_ANY)
enum {
    VARIANTS(MT__VARIANT_ID)
};
static const mt__variant variants[] = {VARIANTS(MT__VARIANT)};
static const mt__family family = {MT__CREATE, mt__cl_create, variants, MT__COUNT_OF(variants)};

/* Floating ranges are computed in double if the device supports it. */
static mt_dtype counting(const mt__npu *npu, mt_dtype dtype)
{
    return mt__is_floating(dtype) ? (npu->properties.has_float64 ? MT_FLOAT64 : MT_FLOAT32) : MT_INT64;
}

mt_status mt__npu_arange(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    unsigned bounds = (unsigned)call->op->param_count - 2;
    mt_value zero = mt_value_int(0), one = mt_value_int(1);
    const mt_value *from = bounds == 1 ? &zero : &call->args[0], *by = bounds == 3 ? &call->args[2] : &one;
    mt__launch l;
    mt__kernel k;
    if (out->dtype == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"arange_npu\" not implemented for 'Bool'");
    mt_status status = mt__launch_variant(&l, &k, &family, ARANGE, out);
    if (status != MT_OK)
        return status;
    mt_dtype as = counting(l.npu, (mt_dtype)out->dtype);
    mt__scalar start = mt__scalar_of(as, from), step = mt__scalar_of(as, by);
    mt__launch_long(&l, out->numel);
    mt__launch_value(&l, &start, (uint32_t)mt_dtype_bytes(as));
    mt__launch_value(&l, &step, (uint32_t)mt_dtype_bytes(as));
    mt__launch_tensor(&l, out);
    return mt__launch_flat(&l, &k, out->numel);
}

mt_status mt__npu_linspace(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt__launch l;
    mt__kernel k;
    if (out->dtype == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"linspace_npu\" not implemented for 'Bool'");
    mt_status status = mt__launch_variant(&l, &k, &family, LINSPACE, out);
    if (status != MT_OK)
        return status;
    bool whole = !mt__is_floating((mt_dtype)out->dtype);
    mt_dtype as = whole ? counting(l.npu, MT_FLOAT32) : (mt_dtype)out->dtype;
    double start = mt__arg_number(call, 0), end = mt__arg_number(call, 1);
    mt__launch_long(&l, out->numel);
    mt__launch_number(&l, as, whole ? (double)(int64_t)start : start);
    mt__launch_number(&l, as, whole ? (double)(int64_t)end : end);
    mt__launch_tensor(&l, out);
    return mt__launch_flat(&l, &k, out->numel);
}

mt_status mt__npu_eye(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_variant(&l, &k, &family, EYE, out);
    if (status != MT_OK)
        return status;
    mt__launch_long(&l, out->numel);
    mt__launch_long(&l, out->dims[1]);
    mt__launch_tensor(&l, out);
    return mt__launch_flat(&l, &k, out->numel);
}

mt_status mt__npu_triangle(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    bool upper = call->op->base == MT_OP_triu;
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold(&h, mt__arg_tensor(call, 0));
    mt__launch l;
    mt__kernel k;
    if (h.status == MT_OK)
        h.status = mt__launch_variant(&l, &k, &family, TRIANGLE, out);
    if (h.status == MT_OK && out->numel > 0) {
        int64_t columns = out->dims[out->rank - 1], rows = out->dims[out->rank - 2],
                diagonal = mt__arg_int(call, 1);
        diagonal = diagonal < -rows - 1 ? -rows - 1 : diagonal > columns + 1 ? columns + 1 : diagonal;
        mt__launch_long(&l, out->numel);
        mt__launch_long(&l, rows);
        mt__launch_long(&l, columns);
        mt__launch_long(&l, diagonal);
        mt__launch_flag(&l, upper);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_flat(&l, &k, out->numel);
    }
    return mt__let_go(&h);
}

/* --------------------------------------------------------------------------------------------------- chance */

typedef struct draw {
    mt_op_id op;
    unsigned variant;
    bool real; /* floats only */
} draw;
static const draw draws[] = {
    {MT_OP_uniform_, UNIFORM, true},      {MT_OP_normal_, NORMAL, true},
    {MT_OP_bernoulli_, BERNOULLI, false}, {MT_OP_bernoulli, BERNOULLI_OF, true},
    {MT_OP_random_, RANDOM, false},
};

static mt_status draw_into(mt__call *call, const draw *d, const mt_tensor *out)
{
    mt_dtype dtype = (mt_dtype)out->dtype;
    mt_dtype as = call->op->id == MT_OP_random_ ? MT_INT64 : d->real ? dtype : MT_FLOAT32;
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = call->op->id == MT_OP_bernoulli ? mt__hold(&h, mt__arg_tensor(call, 0)) : out;
    mt__launch l;
    mt__kernel k;
    if (h.status == MT_OK)
        h.status = mt__launch_variant(&l, &k, &family, d->variant, out);
    if (h.status == MT_OK && out->numel > 0) {
        mt__chance *g = mt__chance_begin();
        uint64_t seed = mt__random64(g);
        mt__chance_end();
        mt__launch_long(&l, out->numel);
        mt__launch_value(&l, &seed, sizeof seed);
        for (unsigned i = 1; i < 3; i++) {
            mt_value end = mt_value_int(0);
            const mt_value *v = i < call->op->param_count ? &call->args[i] : &end;
            if (v->kind == MT_NONE) { /* random_() without an end; the largest int64 is left out */
                (void)mt__random_last(call, &end.as.i);
                end.as.i += end.as.i < INT64_MAX;
                v = &end;
            }
            mt__scalar e = mt__scalar_of(as, v);
            mt__launch_value(&l, &e, (uint32_t)mt_dtype_bytes(as));
        }
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, out);
        if (d->variant == BERNOULLI_OF)
            mt__launch_fault(&l);
        else
            mt__launch_memory(&l, l.npu->fault);
        h.status = mt__launch_flat(&l, &k, out->numel);
    }
    return mt__let_go(&h);
}

/* The checks of the CPU kernels, with PyTorch's messages. */
static mt_status check_draw(const mt__call *call, const draw *d, mt_dtype dtype)
{
    double a = d->op != MT_OP_bernoulli ? mt__arg_number(call, 1) : 0,
           b = call->op->param_count > 2 && mt__arg_given(call, 2) ? mt__arg_number(call, 2) : 0;
    if (d->real && !mt__is_floating(dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'",
                        d->op == MT_OP_uniform_  ? "check_uniform_bounds"
                        : d->op == MT_OP_normal_ ? "normal_kernel_npu"
                                                 : "bernoulli_tensor_npu_p_",
                        mt__asked_dtype(call, dtype));
    if (d->op == MT_OP_uniform_ && !(a <= b))
        return mt__fail(MT_E_RUNTIME,
                        "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", a, b);
    if (d->op == MT_OP_normal_ && !(b >= 0))
        return mt__fail(MT_E_RUNTIME, "normal expects std >= 0.0, but found std %g", b);
    if (d->op == MT_OP_bernoulli_ && !(a >= 0 && a <= 1))
        return mt__fail(MT_E_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", a);
    int64_t last;
    return d->op == MT_OP_random_ ? mt__random_last(call, &last) : MT_OK;
}

mt_status mt__npu_chance(mt__call *call)
{
    mt_tensor *out = call->outs[0], *dense = NULL;
    unsigned which = 0;
    while (which < MT__COUNT_OF(draws) && draws[which].op != call->op->id)
        which++;
    const draw *d = &draws[which];
    mt_status status = check_draw(call, d, (mt_dtype)out->dtype);
    if (status != MT_OK)
        return status;
    if (out->flags & MT__CONTIGUOUS)
        return draw_into(call, d, out);
    status = mt__empty_like(out, (mt_dtype)out->dtype, &dense);
    if (status == MT_OK)
        status = draw_into(call, d, dense);
    if (status == MT_OK)
        status = mt__npu_assign(out, dense);
    mt_release(dense);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- joins */

/* Copies `from` into `to`, starting at `begin` along dim. */
static mt_status put_part(const mt_tensor *to, int dim, int64_t begin, int64_t n, bool drop,
                          const mt_tensor *from)
{
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    int rank = 0;
    mt_tensor *part;
    for (int i = 0; i < to->rank; i++) {
        if (i == dim && drop)
            continue;
        dims[rank] = i == dim ? n : to->dims[i];
        strides[rank++] = to->strides[i];
    }
    mt_status status = mt__alias(to, rank, dims, strides, to->offset + begin * to->strides[dim], &part);
    if (status == MT_OK)
        status = mt__npu_assign(part, from);
    mt_release(part);
    return status;
}

mt_status mt__npu_cat(mt__call *call)
{
    const mt_tensor *out = call->outs[0];
    int dim = mt__wrapped_dim(mt__arg_int(call, 1), out->rank);
    int64_t begin = 0;
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < call->args[0].count && status == MT_OK; i++) {
        const mt_tensor *t = call->args[0].as.tensors[i];
        if (t->rank == 1 && t->dims[0] == 0)
            continue;
        status = put_part(out, dim, begin, t->dims[dim], false, t);
        begin += t->dims[dim];
    }
    return status;
}

mt_status mt__npu_stack(mt__call *call)
{
    const mt_tensor *out = call->outs[0];
    int dim = mt__wrapped_dim(mt__arg_int(call, 1), out->rank);
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < call->args[0].count && status == MT_OK; i++)
        status = put_part(out, dim, i, 1, true, call->args[0].as.tensors[i]);
    return status;
}

/* Views out as [times, size] per dim, i.e. with twice the dims, and broadcasts self into it, in as many
 * steps as needed. */
mt_status mt__npu_repeat(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0), *out = call->outs[0];
    int lead = out->rank - t->rank, n = 0;
    int64_t dims[2 * MT_MAX_RANK], to[2 * MT_MAX_RANK], from[2 * MT_MAX_RANK];
    if (out->numel == 0)
        return MT_OK;
    for (int i = 0; i < out->rank; i++) {
        int64_t size = i < lead ? 1 : t->dims[i - lead], times = out->dims[i] / size;
        if (times > 1) {
            dims[n] = times;
            to[n] = out->strides[i] * size;
            from[n++] = 0;
        }
        if (size > 1) {
            dims[n] = size;
            to[n] = out->strides[i];
            from[n++] = t->strides[i - lead];
        }
    }
    if (n > MT_MAX_RANK)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "repeat with %d dims has no kernel for device %s", n,
                        mt__device_text(out->device));
    mt_tensor *part = NULL, *seen = NULL;
    mt_status status = mt__alias(out, n, dims, to, out->offset, &part);
    if (status == MT_OK)
        status = mt__alias(t, n, dims, from, t->offset, &seen);
    if (status == MT_OK)
        status = mt__npu_assign(part, seen);
    mt_release(part);
    mt_release(seen);
    return status;
}

mt_status mt__npu_flip(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0);
    int64_t strides[MT_MAX_RANK], offset = t->offset;
    mt_tensor *turned;
    if (t->numel == 0)
        return MT_OK;
    memcpy(strides, t->strides, sizeof strides);
    for (uint32_t i = 0; i < call->args[1].count && t->rank > 0; i++) {
        int dim = mt__wrapped_dim(call->args[1].as.ints[i], t->rank);
        offset += (t->dims[dim] - 1) * strides[dim];
        strides[dim] = -strides[dim];
    }
    mt_status status = mt__alias(t, t->rank, t->dims, strides, offset, &turned);
    if (status == MT_OK)
        status = mt__npu_assign(call->outs[0], turned);
    mt_release(turned);
    return status;
}

/* One dim at a time; each consists of two parts that are swapped. */
mt_status mt__npu_roll(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt_status status = MT_OK;
    mt_scope scope;
    bool was = mt_grad_enable(false), flat = call->args[2].count == 0;
    if (out->numel == 0)
        return mt_grad_enable(was), MT_OK;
    mt_scope_enter(&scope);
    mt_tensor *x = mt__arg_tensor(call, 0);
    if (flat)
        x = MT(reshape, x, MT_SHAPE(out->numel));
    for (uint32_t i = 0; i < (flat ? 1 : call->args[2].count) && x != NULL && x->rank > 0; i++) {
        int dim = flat ? 0 : mt__wrapped_dim(call->args[2].as.ints[i], x->rank);
        int64_t n = x->dims[dim], by = call->args[1].as.ints[i] % n;
        by = by < 0 ? by + n : by;
        if (by != 0) {
            mt_tensor *high = MT(narrow, x, dim, n - by, by), *low = MT(narrow, x, dim, 0, n - by);
            x = MT(cat, MT_LIST(high, low), dim);
        }
    }
    if (flat && x != NULL)
        x = MT(reshape, x, mt_value_ints(out->dims, out->rank));
    status = x != NULL ? mt__npu_assign(out, x) : scope.status;
    scope.status = MT_OK;
    mt_scope_leave(&scope);
    mt_grad_enable(was);
    return status;
}
