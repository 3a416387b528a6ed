/* kernels/opencl/sort.c - sort and topk, and the random ops based on them: randperm and multinomial.
 *
 * A bitonic sort: rows are padded to a power of two; exchanges within SORT_BLOCK elements are done by one
 * work-group in local memory, others take one launch each. O(n log(n)^2), for any number of rows at once.
 */
#include "runtime/kernels/opencl/npu.h"

#define SORT_BLOCK 1024
#define LONGEST ((int64_t)1 << 30) /* positions have 32 bits */
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

/* X(variant, kernel, defines, dtypes) */
#define VARIANTS(X)                                                                                          \
    X(BLOCK, "sort_block", "NEED_block;SORT_BLOCK " TEXT(SORT_BLOCK), MT__OF_ANY)                            \
    X(STEP, "sort_step", "NEED_step", MT__OF_ANY)                                                            \
    X(TAKE, "sort_take", "NEED_take", MT__OF_ANY)
enum {
    VARIANTS(MT__VARIANT_ID)
};
static const mt__variant variants[] = {VARIANTS(MT__VARIANT)};
static const mt__family family = {MT__SORT, mt__cl_sort, variants, MT__COUNT_OF(variants)};

/* Rows being sorted. */
typedef struct sorting {
    const mt_tensor *x; /* [outer, n, inner] */
    int64_t rows, n, inner, padded;
    bool down;
    mt_tensor *values, *places; /* owned: [rows, padded] */
} sorting;

static mt_status run_blocks(const sorting *s, int64_t first, int64_t last)
{
    int64_t block = s->padded < SORT_BLOCK ? s->padded : SORT_BLOCK;
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_variant(&l, &k, &family, BLOCK, s->x);
    if (status != MT_OK)
        return status;
    const int64_t numbers[] = {s->n, s->inner, s->padded, block, first, last};
    for (unsigned i = 0; i < MT__COUNT_OF(numbers); i++)
        mt__launch_long(&l, numbers[i]);
    mt__launch_flag(&l, first == 2);
    mt__launch_flag(&l, s->down);
    mt__launch_tensor(&l, s->x);
    mt__launch_tensor(&l, s->values);
    mt__launch_tensor(&l, s->places);
    return mt__launch_flat(&l, &k, s->rows * (s->padded / block) * MT__FLAT);
}

static mt_status run_step(const sorting *s, int64_t width, int64_t apart)
{
    mt__launch l;
    mt__kernel k;
    int64_t pairs = s->rows * (s->padded / 2);
    mt_status status = mt__launch_variant(&l, &k, &family, STEP, s->x);
    if (status != MT_OK)
        return status;
    mt__launch_long(&l, pairs);
    mt__launch_long(&l, s->padded);
    mt__launch_long(&l, width);
    mt__launch_long(&l, apart);
    mt__launch_flag(&l, s->down);
    mt__launch_tensor(&l, s->values);
    mt__launch_tensor(&l, s->places);
    return mt__launch_flat(&l, &k, pairs);
}

static mt_status take(const sorting *s, mt_tensor *const outs[2], int64_t most)
{
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_variant(&l, &k, &family, TAKE, s->x);
    if (status != MT_OK)
        return status;
    mt__launch_long(&l, outs[0]->numel);
    mt__launch_long(&l, most);
    mt__launch_long(&l, s->inner);
    mt__launch_long(&l, s->padded);
    mt__launch_tensor(&l, s->values);
    mt__launch_tensor(&l, s->places);
    mt__launch_tensor(&l, outs[0]);
    mt__launch_tensor(&l, outs[1]);
    return mt__launch_flat(&l, &k, outs[0]->numel);
}

static mt_status sort_rows(sorting *s, mt_tensor *const outs[2], int64_t most)
{
    int64_t dims[] = {s->rows, s->padded};
    mt_status status = mt__empty((mt_dtype)s->x->dtype, s->x->device, 2, dims, &s->values);
    if (status == MT_OK)
        status = mt__empty(MT_INT32, s->x->device, 2, dims, &s->places);
    if (status == MT_OK)
        status = run_blocks(s, 2, s->padded < SORT_BLOCK ? s->padded : SORT_BLOCK);
    for (int64_t width = 2 * SORT_BLOCK; width <= s->padded && status == MT_OK; width *= 2) {
        for (int64_t apart = width / 2; apart >= SORT_BLOCK && status == MT_OK; apart /= 2)
            status = run_step(s, width, apart);
        if (status == MT_OK)
            status = run_blocks(s, width, width);
    }
    if (status == MT_OK)
        status = take(s, outs, most);
    mt_release(s->values);
    mt_release(s->places);
    return status;
}

mt_status mt__npu_sort(mt__call *call)
{
    bool top = call->op->id == MT_OP_topk;
    mt__held h = {.status = MT_OK};
    sorting s = {
        .x = mt__hold(&h, mt__arg_tensor(call, 0)), .padded = 2, .down = mt__arg_int(call, top ? 3 : 2) != 0};
    if (h.status != MT_OK || call->outs[0]->numel == 0)
        return mt__let_go(&h);
    int dim = mt__wrapped_dim(mt__arg_int(call, top ? 2 : 1), s.x->rank);
    mt__split at = mt__split_at(s.x, dim);
    s.n = at.n;
    s.inner = at.inner;
    s.rows = at.outer * at.inner;
    while (s.padded < s.n)
        s.padded *= 2;
    if (s.n > LONGEST)
        h.status = mt__fail(MT_E_NOT_IMPLEMENTED, "%s of rows longer than %lld has no kernel for device %s",
                            top ? "topk" : "sort", (long long)LONGEST, mt__device_text(s.x->device));
    else
        h.status = sort_rows(&s, call->outs, call->outs[0]->rank > 0 ? call->outs[0]->dims[dim] : 1);
    return mt__let_go(&h);
}

/* Without replacement: the largest p / exponential. With: the number of cumulative weights below a uniform
 * number. Invalid weights are refused; checking them waits for the device. */
static mt_status draw_classes(const mt__call *call, mt_tensor *out)
{
    mt_tensor *p = mt__arg_tensor(call, 0);
    int64_t draws = mt__arg_int(call, 1), n = p->dims[p->rank - 1], rows = p->numel / n;
    double least = 0, most = 0, sum = 0;
    p = MT(reshape, p, MT_SHAPE(rows, n));
    mt_tensor *totals = p != NULL ? MT(sum_dim, p, (int64_t)1, true) : NULL;
    if (totals == NULL || mt_item(MT(min, p), &least) != MT_OK || mt_item(MT(max, p), &most) != MT_OK ||
        mt_item(MT(min, totals), &sum) != MT_OK)
        return mt_scope_status() != MT_OK ? mt_scope_status() : MT_E_RUNTIME;
    if (!(least >= 0 && most < __builtin_inf()))
        return mt__fail(MT_E_RUNTIME, "probability tensor contains either `inf`, `nan` or element < 0");
    if (!(sum > 0))
        return mt__fail(MT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
    mt_tensor *picked[2] = {NULL, NULL};
    if (mt__arg_int(call, 2) == 0) {
        mt_tensor *q = MT(neg, MT(log1p, MT(neg, MT(uniform_, MT(empty_like, p)))));
        MT_N(topk, picked, MT(div, p, MT(clamp_min, q, 1e-38)), draws);
    } else {
        mt_tensor *u =
            MT(uniform_, MT(empty, MT_SHAPE(rows, draws, 1), (int64_t)p->dtype, (int64_t)p->device));
        mt_tensor *edges = MT(unsqueeze, MT(div, MT(cumsum, p, (int64_t)1), totals), (int64_t)1);
        picked[1] = MT(clamp, MT(sum_dim, MT(le, edges, u), (int64_t)2), (int64_t)0, n - 1);
    }
    mt_tensor *shaped =
        picked[1] != NULL ? MT(reshape, picked[1], mt_value_ints(out->dims, out->rank)) : NULL;
    return shaped != NULL ? mt__npu_assign(out, shaped) : mt_scope_status();
}

mt_status mt__npu_multinomial(mt__call *call)
{
    bool was = mt_grad_enable(false);
    mt_scope scope;
    mt_scope_enter(&scope);
    mt_status status = draw_classes(call, call->outs[0]);
    scope.status = MT_OK;
    mt_scope_leave(&scope);
    mt_grad_enable(was);
    return status;
}

/* Sorts random keys. */
mt_status mt__npu_randperm(mt__call *call)
{
    mt_tensor *out = call->outs[0], *sorted[2] = {NULL, NULL};
    bool was = mt_grad_enable(false);
    mt_scope scope;
    mt_scope_enter(&scope);
    mt_tensor *keys = MT(empty, MT_SHAPE(out->numel), (int64_t)MT_INT64, (int64_t)out->device);
    keys = MT(random_, keys, (int64_t)0, INT64_MAX);
    mt_status status = MT_N(sort, sorted, keys, 0);
    if (status == MT_OK)
        status = mt__npu_assign(out, sorted[1]);
    scope.status = MT_OK;
    mt_scope_leave(&scope);
    mt_grad_enable(was);
    return status;
}
