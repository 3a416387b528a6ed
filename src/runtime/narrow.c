/* runtime/narrow.c - ops on dtypes that kernels do not compute in: see narrow.h. */
#include "runtime/narrow.h"
#include "runtime/chance.h"
#include <stdlib.h>

mt_dtype mt__wide(mt_dtype dtype)
{
#define SAME(sym, ...) [MT_##sym] = MT_##sym,
#define WHOLE(sym, ...) [MT_##sym] = MT_INT32,
#define REAL(sym, ...) [MT_##sym] = MT_FLOAT32,
    static const uint8_t wide[MT_DTYPES] = {MT_DTYPES_WIDE(SAME) MT_DTYPES_NARROW_WHOLE(WHOLE)
                                                MT_DTYPES_NARROW_REAL(REAL)};
#undef SAME
#undef WHOLE
#undef REAL
    return (mt_dtype)wide[dtype];
}

/* ------------------------------------------------------------------------------------------------- the table */

/* clang-format off */
#define COPIES {MT_OP_clone, MT_OP_copy_, MT_OP__to_copy, MT_OP_fill_, MT_OP_zero_, MT_OP_empty, MT_OP_empty_like, \
                MT_OP_empty_strided, MT_OP_constant_pad_nd}
#define MOVES {MT_OP_cat, MT_OP_stack, MT_OP_repeat, MT_OP_flip, MT_OP_roll, MT_OP_tril, MT_OP_triu, MT_OP_eye,    \
               MT_OP_eye_m, MT_OP_index_select, MT_OP_embedding, MT_OP_index, MT_OP_index_put_,                    \
               MT_OP__index_put_impl_, MT_OP_index_add_, MT_OP_gather, MT_OP_scatter, MT_OP_scatter_add,           \
               MT_OP_nonzero, MT_OP_random_, MT_OP_bernoulli_, MT_OP_randperm,                      \
               MT_OP_scatter_reduce, MT_OP_random_to_, MT_OP_random_all_, MT_OP_bernoulli_tensor_}
#define LOOPS {MT_OP_add, MT_OP_sub, MT_OP_rsub, MT_OP_mul, MT_OP_maximum, MT_OP_minimum, MT_OP_eq, MT_OP_ne, MT_OP_lt,   \
               MT_OP_le, MT_OP_gt, MT_OP_ge, MT_OP_logical_and, MT_OP_logical_or, MT_OP_logical_xor,                \
               MT_OP_bitwise_and, MT_OP_bitwise_or, MT_OP_bitwise_xor}
/* clang-format on */

static void set(const mt_op_id *ops, size_t count, unsigned device_type, mt__narrow how)
{
    for (size_t i = 0; i < count; i++)
        mt__ops[ops[i]].narrow[device_type] = (uint8_t)how;
}

void mt__narrow_register(void)
{
    static const mt_op_id copies[] = COPIES, moves[] = MOVES, loops[] = LOOPS;
    for (unsigned d = 0; d < MT_DEVICE_TYPES; d++) {
        for (unsigned i = 0; i < MT_OP_COUNT; i++)
            mt__ops[i].narrow[d] = mt__ops[i].elementwise ? MT__NARROW_WITHIN : MT__NARROW_APART;
        set(copies, MT__COUNT_OF(copies), d, MT__NARROW_AS_IS);
    }
    set(moves, MT__COUNT_OF(moves), 0, MT__NARROW_AS_IS);
    set(loops, MT__COUNT_OF(loops), 0, MT__NARROW_LOOPS);
    mt__ops[MT_OP_xlogy].narrow[0] = MT__NARROW_APART; /* elementwise, but its kernel is that of the losses */
    for (unsigned i = 0; i < MT_OP_COUNT; i++)
        for (unsigned d = 0; d < MT_DEVICE_TYPES; d++)
            mt__ops[i].narrow[d] = mt__ops[mt__ops[i].base].narrow[d];
}

/* ------------------------------------------------------------------------------------------- elementwise ops */

/* Below the dispatcher: of a tensor that the op changes, the version counts that once. */
static mt_status cast_to(mt_tensor *to, const mt_tensor *from)
{
    mt_value args[] = {mt_value_tensor(to), mt_value_tensor(from), mt_value_truth(false)};
    mt_tensor *same = NULL;
    mt__call copy = {
        .op = &mt__ops[MT_OP_copy_], .args = args, .outs = &same, .out_count = 1, .device = to->device};
    mt_status status = mt__compute(&copy);
    mt_release(same);
    return status;
}

bool mt__rounds_numbers(const mt__call *call, mt_dtype dtype)
{
    if (!mt__is_narrow(dtype) || !mt_dtype_is_real(dtype))
        return true;
    switch (call->op->base) {
    case MT_OP_add:
    case MT_OP_sub:
    case MT_OP_rsub:
    case MT_OP_remainder:
    case MT_OP_pow:
    case MT_OP_pow_tensor:
    case MT_OP_pow_from:
    case MT_OP_atan2:
    case MT_OP_xlogy:
        return true;
    default:
        return false;
    }
}

static mt_value rounded(const mt_value *v, mt_dtype dtype)
{
    mt__scalar e = mt__scalar_of(dtype, v);
    return mt_element(&e, dtype);
}

/* The kernel casts; what it cannot know is done here. */
static mt_status compute_within(mt__call *call, mt__fn *kernel)
{
    const mt_dtype dtype = call->compute;
    mt_value args[MT__MAX_ARGS];
    mt_tensor *made[MT__MAX_ARGS] = {NULL};
    mt_status status = MT_OK;
    bool rounds = mt__rounds_numbers(call, dtype);
    for (unsigned i = 0; i < call->op->param_count && status == MT_OK; i++) {
        const mt_value *v = &call->args[i];
        const mt_tensor *t = mt__arg_tensor(call, i);
        args[i] = *v;
        if (!rounds)
            continue;
        if (t != NULL && t->dtype != dtype &&
            mt_dtype_kind_of((mt_dtype)t->dtype) == mt_dtype_kind_of(dtype) && t->rank == 0) {
            status = mt__empty(dtype, t->device, 0, NULL, &made[i]);
            if (status == MT_OK)
                status = cast_to(made[i], t);
            args[i] = mt_value_tensor(made[i]);
        } else if ((call->op->params[i].type == MT_TYPE_OPERAND ||
                    call->op->params[i].type == MT_TYPE_SCALAR) &&
                   (v->kind == MT_INT || v->kind == MT_FLOAT)) {
            args[i] = rounded(v, dtype);
        }
    }
    const mt_value *given = call->args;
    call->args = args;
    call->asked = dtype;
    call->compute = mt__wide(dtype);
    if (status == MT_OK)
        status = kernel(call);
    call->args = given;
    call->compute = dtype;
    for (unsigned i = 0; i < MT__MAX_ARGS; i++)
        mt_release(made[i]);
    return status;
}

/* ------------------------------------------------------------------------------------------------- other ops */

typedef struct pair {
    mt_tensor *narrow, *wide; /* borrowed; owned */
    bool written;
} pair;

typedef struct pairs {
    pair *items;
    mt_tensor **lists; /* the items of lists, one list after the other */
    uint32_t count, listed;
    mt_value args[MT__MAX_ARGS];
    mt_tensor *outs[MT__MAX_OUTS];
} pairs;

static mt_status pairs_init(pairs *p, const mt__call *call)
{
    size_t tensors = call->op->param_count + MT__MAX_OUTS, listed = 0;
    for (unsigned i = 0; i < call->op->param_count; i++)
        listed += call->args[i].kind == MT_TENSORS ? call->args[i].count : 0;
    p->count = p->listed = 0;
    p->items = calloc(tensors + listed, sizeof *p->items);
    p->lists = calloc(listed + 1, sizeof *p->lists);
    return p->items != NULL && p->lists != NULL
               ? MT_OK
               : mt__fail(MT_E_NOMEM, "out of memory: widened operands of %s", call->op->name);
}

static void pairs_fini(pairs *p)
{
    for (uint32_t i = 0; p->items != NULL && i < p->count; i++)
        mt_release(p->items[i].wide);
    free(p->items);
    free(p->lists);
}

/* Its wide copy, borrowed: the same for the same tensor. A tensor that is not narrow: itself. NULL: no memory. */
static mt_tensor *widen(pairs *p, mt_tensor *t, bool written, mt_status *status)
{
    if (t == NULL || !mt__is_narrow(t->dtype) || *status != MT_OK)
        return t;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->items[i].narrow == t) {
            p->items[i].written |= written;
            return p->items[i].wide;
        }
    pair *made = &p->items[p->count];
    *status = mt__empty_like(t, mt__wide((mt_dtype)t->dtype), &made->wide);
    if (*status != MT_OK)
        return NULL;
    p->count++;
    made->narrow = t;
    made->written = written;
    *status = cast_to(made->wide, t);
    return made->wide;
}

/* Those in the schema, and the running statistics. */
static bool is_written(const mt__call *call, unsigned i)
{
    return call->op->params[i].written || (call->op->id == MT_OP_native_batch_norm && (i == 3 || i == 4));
}

static mt_status widen_args(pairs *p, const mt__call *call)
{
    mt_status status = MT_OK;
    for (unsigned i = 0; i < call->op->param_count; i++) {
        mt_value *v = &p->args[i];
        bool written = is_written(call, i);
        *v = call->args[i];
        if (v->kind == MT_TENSOR) {
            v->as.tensor = widen(p, v->as.tensor, written, &status);
        } else if (v->kind == MT_TENSORS) {
            mt_tensor **list = p->lists + p->listed;
            for (uint32_t k = 0; k < v->count; k++)
                list[k] = widen(p, v->as.tensors[k], written, &status);
            p->listed += v->count;
            v->as.tensors = list;
        } else if (v->kind == MT_INT && call->op->params[i].type == MT_TYPE_DTYPE) {
            v->as.i = mt__wide((mt_dtype)v->as.i);
        }
    }
    return status;
}

/* any() and all() of bytes: only their results are bytes. */
static bool gives_truth(const mt__call *call)
{
    mt_op_id op = call->op->id;
    return op == MT_OP_any || op == MT_OP_any_dim || op == MT_OP_any_dims || op == MT_OP_all ||
           op == MT_OP_all_dim || op == MT_OP_all_dims;
}

/* Outputs that are arguments are among the pairs already. */
static mt_status widen_outs(pairs *p, const mt__call *call)
{
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < call->out_count && i < MT__MAX_OUTS && status == MT_OK; i++) {
        mt_tensor *out = call->outs[i];
        p->outs[i] = NULL;
        if (out == NULL || !mt__is_narrow(out->dtype)) {
            p->outs[i] = out;
            continue;
        }
        for (uint32_t k = 0; k < p->count; k++)
            if (p->items[k].narrow == out) {
                p->items[k].written = true;
                p->outs[i] = p->items[k].wide;
            }
        if (p->outs[i] != NULL)
            continue;
        pair *made = &p->items[p->count];
        status =
            mt__empty_like(out, gives_truth(call) ? MT_BOOL : mt__wide((mt_dtype)out->dtype), &made->wide);
        if (status != MT_OK)
            break;
        p->count++;
        *made = (pair){out, made->wide, true};
        p->outs[i] = made->wide;
    }
    return status;
}

static mt_status run_wide(pairs *p, mt__call *call, mt__fn *kernel)
{
    mt__call wide = *call;
    wide.args = p->args;
    wide.asked = mt__is_narrow(call->compute) ? call->compute : 0;
    wide.compute = mt__wide(call->compute);
    wide.outs = call->out_count > 0 ? p->outs : call->outs;
    mt_status status = MT_OK;
    if (call->scratch != NULL) { /* it knows the operands */
        mt_tensor *made[MT__MAX_OUTS] = {NULL};
        wide.scratch = NULL;
        wide.drop_scratch = NULL;
        wide.outs = made;
        wide.into = NULL;
        status = call->op->infer(&wide);
        for (uint32_t i = 0; i < call->out_count; i++)
            mt_release(made[i]);
        wide.outs = p->outs;
    }
    if (status == MT_OK)
        status = kernel(&wide);
    if (wide.scratch != call->scratch && wide.drop_scratch != NULL)
        wide.drop_scratch(wide.scratch);
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->outs[i] == NULL) /* which the kernel makes */
            call->outs[i] = p->outs[i];
    return status;
}

/* Of [from, to), what rounds to `to` becomes `from`, as in PyTorch. */
static mt_status leave_upper_end(const mt__call *call)
{
    mt_tensor *x = call->outs[0], *ends = NULL, *filled = NULL;
    mt_dtype dtype = (mt_dtype)x->dtype;
    mt_value args[] = {mt_value_tensor(x), rounded(&call->args[2], dtype)};
    mt__call find = {
        .op = &mt__ops[MT_OP_eq], .args = args, .outs = &ends, .out_count = 1, .device = x->device};
    mt_status status = mt__compute(&find);
    mt_value fill[] = {mt_value_tensor(x), mt_value_tensor(ends), rounded(&call->args[1], dtype)};
    mt__call put = {.op = &mt__ops[MT_OP_masked_fill_],
                    .args = fill,
                    .outs = &filled,
                    .out_count = 1,
                    .device = x->device};
    if (status == MT_OK)
        status = mt__compute(&put);
    mt_release(filled);
    mt_release(ends);
    return status;
}

static mt_status compute_apart(mt__call *call, mt__fn *kernel)
{
    pairs p;
    mt_status status = pairs_init(&p, call);
    if (status == MT_OK)
        status = widen_args(&p, call);
    if (status == MT_OK)
        status = widen_outs(&p, call);
    if (status == MT_OK)
        status = run_wide(&p, call, kernel);
    for (uint32_t i = 0; i < p.count && status == MT_OK; i++)
        if (p.items[i].written) {
            status = cast_to(p.items[i].narrow, p.items[i].wide);
            *mt__version(p.items[i].narrow) += *mt__version(p.items[i].wide); /* what the kernel counted */
        }
    pairs_fini(&p);
    if (call->op->id == MT_OP_uniform_ && status == MT_OK &&
        mt__arg_number(call, 1) < mt__arg_number(call, 2))
        status = leave_upper_end(call);
    return status;
}

mt_status mt__compute_narrow(mt__call *call, mt__fn *kernel)
{
    mt_dtype computed = call->compute;
    switch ((mt__narrow)call->op->narrow[MT_DEVICE_TYPE(call->device)]) {
    case MT__NARROW_LOOPS:
        if (!mt_dtype_is_real(computed))
            break;
        __attribute__((fallthrough));
    case MT__NARROW_WITHIN:
        return mt__is_narrow(computed) ? compute_within(call, kernel) : kernel(call);
    case MT__NARROW_APART:
        if (call->op->id == MT_OP_random_) { /* its kernel sees another range */
            mt_status status = mt__random_range((mt_dtype)call->outs[0]->dtype, mt__arg_int(call, 1),
                                                mt__arg_int(call, 2) - 1);
            if (status != MT_OK)
                return status;
        }
        return compute_apart(call, kernel);
    case MT__NARROW_AS_IS:
        break;
    }
    return kernel(call);
}
