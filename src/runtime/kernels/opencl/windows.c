/* kernels/opencl/windows.c - pools, convolutions and sorting: one work-item for each element that is written, so sums do not
 * depend on chance. Convolutions are direct; those that must be fast want a library's.
 */
#include "runtime/conv.h"
#include "runtime/kernels/opencl/npu.h"
#include "runtime/pool.h"
#include <stdio.h>

_Static_assert(sizeof(mt__pool) == 13 * 8 && sizeof(mt__conv) == 16 * 8, "as in windows.cl");

enum {
    MAX,
    MAX_BACK,
    AVG,
    AVG_BACK,
    ADAPT,
    ADAPT_BACK,
    CONV,
    CONV_INPUT,
    CONV_WEIGHT,
    SORT,
    SORT_DOWN
};

static mt_status kernel_of(mt__npu *npu, const char *name, const char *need, mt_dtype dtype, unsigned which,
                           mt__kernel *k)
{
    static const char *const lowest[] = {"0", "INT_MIN", "LONG_MIN", "-INFINITY", "-INFINITY"};
    char defines[200];
    snprintf(defines, sizeof defines,
             "#define NEED_%s\n#define POOLS %d\n#define LOWEST %s\n#define DESCENDING %d\n", need,
             which < CONV, lowest[dtype], which == SORT_DOWN);
    mt__template t = {name, mt__cl_windows, dtype, defines};
    return mt__npu_template(npu, MT__KEY(MT__WINDOWS, dtype, which), &t, k);
}

/* ----------------------------------------------------------------------------------------------------- pools */

typedef struct average {
    int64_t divisor;
    int32_t count_pad;
} average;

/* in -> out, with the indices of max pools, or the numbers of averages */
static mt_status pool(const char *name, const char *need, unsigned which, const mt__pool *p,
                      const mt_tensor *in, mt_tensor *out, const mt_tensor *indices, const average *a)
{
    mt__held h = {.status = MT_OK};
    mt__launch l;
    mt__kernel k;
    const mt_tensor *from = mt__hold(&h, in), *where = which == MAX ? indices : mt__hold(&h, indices);
    if (h.status == MT_OK)
        h.status = mt__launch_begin(&l, out->device);
    if (h.status == MT_OK)
        h.status = kernel_of(l.npu, name, need, (mt_dtype)out->dtype, which, &k);
    if (h.status == MT_OK && out->numel > 0) {
        mt__launch_value(&l, p, sizeof *p);
        if (a != NULL) {
            mt__launch_long(&l, a->divisor);
            mt__launch_value(&l, &a->count_pad, sizeof a->count_pad);
        }
        mt__launch_tensor(&l, from);
        if (which == MAX_BACK)
            mt__launch_tensor(&l, where);
        mt__launch_tensor(&l, out);
        if (which == MAX)
            mt__launch_tensor(&l, where);
        h.status = mt__launch_flat(&l, &k, out->numel);
    }
    return mt__let_go(&h);
}

mt_status mt__npu_max_pool2d(mt__call *call)
{
    mt__pool p;
    bool back = call->op->id == MT_OP_max_pool2d_with_indices_backward;
    mt_status status = mt__pool_read(call, "max_pool2d", mt__arg_tensor(call, back), back ? 2 : 1, true, &p);
    if (status != MT_OK)
        return status;
    return back ? pool("max_pool2d_backward", "max_pool_backward", MAX_BACK, &p, mt__arg_tensor(call, 0),
                       call->outs[0], mt__arg_tensor(call, 7), NULL)
                : pool("max_pool2d", "max_pool", MAX, &p, mt__arg_tensor(call, 0), call->outs[0],
                       call->outs[1], NULL);
}

mt_status mt__npu_avg_pool2d(mt__call *call)
{
    mt__pool p;
    bool back = call->op->id == MT_OP_avg_pool2d_backward;
    unsigned first = back ? 2 : 1;
    average a = {mt__arg_given(call, first + 5) ? mt__arg_int(call, first + 5) : 0,
                 mt__arg_int(call, first + 4) != 0};
    mt_status status = mt__pool_read(call, "avg_pool2d", mt__arg_tensor(call, back), first, false, &p);
    for (int d = 0; d < 2; d++)
        p.dilation[d] = 1;
    if (status != MT_OK)
        return status;
    return pool(back ? "avg_pool2d_backward" : "avg_pool2d", back ? "avg_pool_backward" : "avg_pool",
                back ? AVG_BACK : AVG, &p, mt__arg_tensor(call, 0), call->outs[0], NULL, &a);
}

mt_status mt__npu_adaptive_avg_pool2d(mt__call *call)
{
    bool back = call->op->id == MT_OP__adaptive_avg_pool2d_backward;
    const mt_tensor *large = back ? call->outs[0] : mt__arg_tensor(call, 0),
                    *small = back ? mt__arg_tensor(call, 0) : call->outs[0];
    int r = large->rank;
    mt__pool p = {.planes = large->dims[r - 3] * (r == 4 ? large->dims[0] : 1)};
    for (int d = 0; d < 2; d++) {
        p.in[d] = large->dims[r - 2 + d];
        p.out[d] = small->dims[r - 2 + d];
    }
    return pool(back ? "adaptive_avg_pool2d_backward" : "adaptive_avg_pool2d",
                back ? "adaptive_backward" : "adaptive", back ? ADAPT_BACK : ADAPT, &p,
                mt__arg_tensor(call, 0), call->outs[0], NULL, NULL);
}

/* ---------------------------------------------------------------------------------------------- convolutions */

mt_status mt__npu_convolution(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    mt__conv c;
    mt__held h = {.status = MT_OK};
    mt__launch l;
    mt__kernel k;
    h.status =
        mt__conv_read(call, mt__arg_tensor(call, 0), mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), 3, &c);
    const mt_tensor *in = mt__hold(&h, mt__arg_tensor(call, 0)), *w = mt__hold(&h, mt__arg_tensor(call, 1)),
                    *b = mt__hold(&h, mt__arg_tensor(call, 2));
    if (h.status == MT_OK)
        h.status = mt__launch_begin(&l, out->device);
    if (h.status == MT_OK)
        h.status = kernel_of(l.npu, "convolution", "conv", (mt_dtype)out->dtype, CONV, &k);
    if (h.status == MT_OK && out->numel > 0) {
        mt__launch_value(&l, &c, sizeof c);
        mt__launch_value(&l, &(int32_t){b != NULL}, 4);
        mt__launch_tensor(&l, in);
        mt__launch_tensor(&l, w);
        mt__launch_tensor(&l, b != NULL ? b : w);
        mt__launch_tensor(&l, out);
        h.status = mt__launch_flat(&l, &k, out->numel);
    }
    return mt__let_go(&h);
}

static mt_status conv_part(const mt__conv *c, const char *name, const char *need, unsigned which,
                           const mt_tensor *g, const mt_tensor *other, mt_tensor *out)
{
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_begin(&l, out->device);
    if (status == MT_OK)
        status = kernel_of(l.npu, name, need, (mt_dtype)out->dtype, which, &k);
    if (status != MT_OK || out->numel == 0)
        return status;
    mt__launch_value(&l, c, sizeof *c);
    mt__launch_tensor(&l, g);
    mt__launch_tensor(&l, other);
    mt__launch_tensor(&l, out);
    return which == CONV_INPUT ? mt__launch_flat(&l, &k, out->numel) : mt__launch_rows(&l, &k, out->numel);
}

mt_status mt__npu_convolution_backward(mt__call *call)
{
    mt__conv c;
    mt__held h = {.status = MT_OK};
    h.status = mt__conv_read(call, mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), NULL, 4, &c);
    const mt_tensor *g = mt__hold(&h, mt__arg_tensor(call, 0)), *in = mt__hold(&h, mt__arg_tensor(call, 1)),
                    *w = mt__hold(&h, mt__arg_tensor(call, 2));
    if (h.status == MT_OK && call->outs[0] != NULL)
        h.status = conv_part(&c, "convolution_input", "conv_input", CONV_INPUT, g, w, call->outs[0]);
    if (h.status == MT_OK && call->outs[1] != NULL)
        h.status = conv_part(&c, "convolution_weight", "conv_weight", CONV_WEIGHT, g, in, call->outs[1]);
    if (h.status == MT_OK && call->outs[2] != NULL) {
        int64_t area = c.out[0] * c.out[1];
        mt_tensor *parts;
        h.status = mt__empty((mt_dtype)g->dtype, g->device, 2, (int64_t[]){c.images, c.out_channels}, &parts);
        if (h.status == MT_OK)
            h.status = mt__npu_reduce(&mt__fold_sum, (mt_dtype)g->dtype, g, c.images * c.out_channels, area,
                                      1, parts, 0);
        if (h.status == MT_OK)
            h.status = mt__npu_reduce(&mt__fold_sum, (mt_dtype)g->dtype, parts, 1, c.images, c.out_channels,
                                      call->outs[2], 0);
        mt_release(parts);
    }
    return mt__let_go(&h);
}

/* --------------------------------------------------------------------------------------------------- sorting */

mt_status mt__npu_sort(mt__call *call)
{
    bool top = call->op->id == MT_OP_topk;
    bool down = mt__arg_int(call, top ? 3 : 2) != 0;
    mt__held h = {.status = MT_OK};
    const mt_tensor *x = mt__hold(&h, mt__arg_tensor(call, 0));
    mt__launch l;
    mt__kernel k;
    int dim = 0;
    if (h.status == MT_OK)
        h.status = mt__wrap_dim(mt__arg_int(call, top ? 2 : 1), x->rank, &dim);
    if (h.status == MT_OK)
        h.status = mt__launch_begin(&l, x->device);
    if (h.status == MT_OK)
        h.status =
            kernel_of(l.npu, top ? "topk" : "sort", "sort", (mt_dtype)x->dtype, down ? SORT_DOWN : SORT, &k);
    if (h.status == MT_OK && call->outs[0]->numel > 0) {
        int64_t n = x->rank > 0 ? x->dims[dim] : 1, inner = 1;
        for (int i = dim + 1; i < x->rank; i++)
            inner *= x->dims[i];
        mt__launch_long(&l, x->numel);
        mt__launch_long(&l, n);
        mt__launch_long(&l, inner);
        mt__launch_long(&l, call->outs[0]->rank > 0 ? call->outs[0]->dims[dim] : 1);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, call->outs[0]);
        mt__launch_tensor(&l, call->outs[1]);
        h.status = mt__launch_flat(&l, &k, x->numel);
    }
    return mt__let_go(&h);
}

/* Without replacement: the largest of p / exponential. With: how many cumulated weights lie below a uniform number. Weights
 * that are none are refused, which waits for the device. */
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

/* The order of random keys. */
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
