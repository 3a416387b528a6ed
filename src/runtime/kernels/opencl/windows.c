/* kernels/opencl/windows.c - pools and convolutions: one work-item for each element that is written, so sums do not
 * depend on chance. Convolutions are direct; those that must be fast want a library's.
 */
#include "runtime/conv.h"
#include "runtime/kernels/opencl/npu.h"
#include "runtime/pool.h"

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
    CONV_WEIGHT
};
static const mt__variant variants[] = {
    [MAX] = {"max_pool2d", "NEED_max_pool", MT__OF_NUMBER},
    [MAX_BACK] = {"max_pool2d_backward", "NEED_max_pool_backward", MT__OF_NUMBER},
    [AVG] = {"avg_pool2d", "NEED_avg_pool", MT__OF_NUMBER},
    [AVG_BACK] = {"avg_pool2d_backward", "NEED_avg_pool_backward", MT__OF_NUMBER},
    [ADAPT] = {"adaptive_avg_pool2d", "NEED_adaptive", MT__OF_NUMBER},
    [ADAPT_BACK] = {"adaptive_avg_pool2d_backward", "NEED_adaptive_backward", MT__OF_NUMBER},
    [CONV] = {"convolution", "NEED_conv", MT__OF_NUMBER},
    [CONV_INPUT] = {"convolution_input", "NEED_conv_input", MT__OF_NUMBER},
    [CONV_WEIGHT] = {"convolution_weight", "NEED_conv_weight", MT__OF_NUMBER},
};
static const mt__family family = {MT__WINDOWS, mt__cl_windows, variants, MT__COUNT_OF(variants)};

static mt_status begin(mt__launch *l, mt__kernel *k, unsigned variant, const mt_tensor *t)
{
    mt_status status = mt__launch_begin(l, t->device);
    return status == MT_OK ? mt__npu_template(l->npu, &family, variant, (mt_dtype)t->dtype, k) : status;
}

/* ----------------------------------------------------------------------------------------------------- pools */

typedef struct average {
    int64_t divisor;
    int32_t count_pad;
} average;

/* in -> out, with the indices of max pools, or the numbers of averages */
static mt_status pool(unsigned which, const mt__pool *p, const mt_tensor *in, mt_tensor *out,
                      const mt_tensor *indices, const average *a)
{
    mt__held h = {.status = MT_OK};
    mt__launch l;
    mt__kernel k;
    const mt_tensor *from = mt__hold(&h, in), *where = which == MAX ? indices : mt__hold(&h, indices);
    if (h.status == MT_OK)
        h.status = begin(&l, &k, which, out);
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
    return back ? pool(MAX_BACK, &p, mt__arg_tensor(call, 0), call->outs[0], mt__arg_tensor(call, 7), NULL)
                : pool(MAX, &p, mt__arg_tensor(call, 0), call->outs[0], call->outs[1], NULL);
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
    return pool(back ? AVG_BACK : AVG, &p, mt__arg_tensor(call, 0), call->outs[0], NULL, &a);
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
    return pool(back ? ADAPT_BACK : ADAPT, &p, mt__arg_tensor(call, 0), call->outs[0], NULL, NULL);
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
        h.status = begin(&l, &k, CONV, out);
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

static mt_status conv_part(const mt__conv *c, unsigned which, const mt_tensor *g, const mt_tensor *other,
                           mt_tensor *out)
{
    mt__launch l;
    mt__kernel k;
    mt_status status = out->numel > 0 ? begin(&l, &k, which, out) : MT_OK;
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
        h.status = conv_part(&c, CONV_INPUT, g, w, call->outs[0]);
    if (h.status == MT_OK && call->outs[1] != NULL)
        h.status = conv_part(&c, CONV_WEIGHT, g, in, call->outs[1]);
    if (h.status == MT_OK && call->outs[2] != NULL) {
        int64_t area = c.out[0] * c.out[1];
        mt_tensor *parts;
        h.status = mt__empty((mt_dtype)g->dtype, g->device, 2, (int64_t[]){c.images, c.out_channels}, &parts);
        if (h.status == MT_OK)
            h.status = mt__npu_reduce(MT__SUM, g, c.images * c.out_channels, area, 1, parts, 0);
        if (h.status == MT_OK)
            h.status = mt__npu_reduce(MT__SUM, parts, 1, c.images, c.out_channels, call->outs[2], 0);
        mt_release(parts);
    }
    return mt__let_go(&h);
}
