/* kernels/opencl/windows.c - pooling and convolutions: one work-item per element written, so sums are
 * deterministic. A convolution of one group is a product with the unfolded input; those of several
 * groups are direct.
 */
#include "runtime/ops/conv.h"
#include "runtime/kernels/opencl/npu.h"
#include "runtime/ops/pool.h"

_Static_assert(sizeof(mt__pool) == 13 * 8 && sizeof(mt__conv) == 16 * 8, "as in windows.cl");

/* X(variant, kernel, defines, dtypes) */
#define VARIANTS(X)                                                                                          \
    X(MAX, "max_pool2d", "NEED_max_pool", MT__OF_NUMBER)                                                     \
    X(MAX_BACK, "max_pool2d_backward", "NEED_max_pool_backward", MT__OF_NUMBER)                              \
    X(AVG, "avg_pool2d", "NEED_avg_pool", MT__OF_NUMBER)                                                     \
    X(AVG_BACK, "avg_pool2d_backward", "NEED_avg_pool_backward", MT__OF_NUMBER)                              \
    X(ADAPT, "adaptive_avg_pool2d", "NEED_adaptive", MT__OF_NUMBER)                                          \
    X(ADAPT_BACK, "adaptive_avg_pool2d_backward", "NEED_adaptive_backward", MT__OF_NUMBER)                   \
    X(CONV, "convolution", "NEED_conv", MT__OF_NUMBER)                                                       \
    X(CONV_INPUT, "convolution_input", "NEED_conv_input", MT__OF_NUMBER)                                     \
    X(CONV_WEIGHT, "convolution_weight", "NEED_conv_weight", MT__OF_NUMBER)                                  \
    X(UNFOLD, "unfold", "NEED_unfold", MT__OF_NUMBER)                                                        \
    X(FOLD, "fold", "NEED_fold", MT__OF_NUMBER)
enum {
    VARIANTS(MT__VARIANT_ID)
};
static const mt__variant variants[] = {VARIANTS(MT__VARIANT)};
static const mt__family family = {MT__WINDOWS, mt__cl_windows, variants, MT__COUNT_OF(variants)};

/* ----------------------------------------------------------------------------------------------------- pools */

typedef struct average {
    int64_t divisor;
    int32_t count_pad;
} average;

/* in -> out, with the indices of max pools, or the numbers of average pools */
static mt_status pool(unsigned which, const mt__pool *p, const mt_tensor *in, mt_tensor *out,
                      const mt_tensor *indices, const average *a)
{
    mt__held h = {.status = MT_OK};
    mt__launch l;
    mt__kernel k;
    const mt_tensor *from = mt__hold(&h, in), *where = which == MAX ? indices : mt__hold(&h, indices);
    if (h.status == MT_OK)
        h.status = mt__launch_variant(&l, &k, &family, which, out);
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

#define COLUMNS_MAX ((int64_t)1 << 25) /* elements: as many images are unfolded at a time as fit */

/* A convolution of one group as products, a chunk of images at a time. */
typedef struct folding {
    mt__conv c;
    int64_t depth, area, chunk; /* rows and columns of an image's column matrix; images at a time */
    bool straight;              /* the input is already the columns: 1 x 1 windows, side by side */
} folding;

static folding folding_of(const mt__conv *c)
{
    folding f = {.c = *c,
                 .depth = c->in_channels * c->kernel[0] * c->kernel[1],
                 .area = c->out[0] * c->out[1],
                 .straight = true};
    for (int d = 0; d < 2; d++)
        f.straight &= c->kernel[d] == 1 && c->stride[d] == 1 && c->padding[d] == 0;
    int64_t each = f.depth * f.area > 0 ? f.depth * f.area : 1;
    f.chunk = COLUMNS_MAX / each > 1 ? COLUMNS_MAX / each : 1;
    f.chunk = f.chunk > c->images ? c->images : f.chunk;
    return f;
}

/* UNFOLD: columns from the input; FOLD: the input from columns. */
static mt_status fold(const folding *f, unsigned which, int64_t first, int64_t images, const mt_tensor *from,
                      const mt_tensor *to)
{
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__launch_variant(&l, &k, &family, which, to);
    if (status != MT_OK)
        return status;
    mt__launch_value(&l, &f->c, sizeof f->c);
    mt__launch_long(&l, first);
    mt__launch_tensor(&l, from);
    mt__launch_tensor(&l, to);
    int64_t items = which == UNFOLD ? f->area : f->c.in[0] * f->c.in[1];
    uint64_t local[] = {MT__FLAT, 1, 1};
    uint64_t global[] = {mt__round_up(items, MT__FLAT),
                         (uint64_t)(which == UNFOLD ? f->depth : f->c.in_channels), (uint64_t)images};
    return mt__launch_run(&l, &k, 3, global, local);
}

/* The columns of a chunk: in the input itself, or in `room`. */
static mt_status columns_of(const folding *f, int64_t first, int64_t images, const mt_tensor *in,
                            const mt_tensor *room, mt__matrix *out)
{
    *out = (mt__matrix){
        f->straight ? in : room, f->straight ? first * f->depth * f->area : 0, f->depth, f->area, f->area, 1,
        f->depth * f->area};
    return f->straight ? MT_OK : fold(f, UNFOLD, first, images, in, room);
}

static mt_status room_for(const folding *f, const mt_tensor *like, mt_tensor **out)
{
    int64_t n = f->straight ? 1 : f->chunk * f->depth * f->area;
    return mt__empty((mt_dtype)like->dtype, like->device, 1, &n, out);
}

/* For every image: out = w @ columns, added to the bias. */
static mt_status by_product(const mt__conv *c, const mt_tensor *in, const mt_tensor *w, const mt_tensor *b,
                            mt_tensor *out)
{
    folding f = folding_of(c);
    mt_tensor *room = NULL, *wide = NULL;
    int64_t strides[MT_MAX_RANK] = {0};
    mt_status status = room_for(&f, out, &room);
    if (status == MT_OK && b != NULL) {
        strides[1] = b->strides[0];
        status = mt__alias(b, out->rank, out->dims, strides, b->offset, &wide);
        if (status == MT_OK)
            status = mt__npu_assign(out, wide);
    }
    const mt__matrix weight = {w, 0, c->out_channels, f.depth, f.depth, 1, 0};
    for (int64_t i = 0; i < c->images && status == MT_OK; i += f.chunk) {
        int64_t images = c->images - i < f.chunk ? c->images - i : f.chunk;
        mt__matrix columns;
        status = columns_of(&f, i, images, in, room, &columns);
        if (status == MT_OK)
            status =
                mt__npu_product(&weight, &columns, out, i * c->out_channels * f.area, images, 1, b != NULL);
    }
    mt_release(wide);
    mt_release(room);
    return status;
}

/* For every image: the columns' gradient is w' @ g; folding it yields the input's. */
static mt_status input_by_product(const mt__conv *c, const mt_tensor *g, const mt_tensor *w, mt_tensor *out)
{
    folding f = folding_of(c);
    mt_tensor *room = NULL;
    mt_status status = room_for(&f, out, &room);
    const mt__matrix turned = {w, 0, f.depth, c->out_channels, 1, f.depth, 0};
    for (int64_t i = 0; i < c->images && status == MT_OK; i += f.chunk) {
        int64_t images = c->images - i < f.chunk ? c->images - i : f.chunk, one = c->out_channels * f.area;
        const mt__matrix slope = {g, i * one, c->out_channels, f.area, f.area, 1, one};
        if (f.straight) {
            status = mt__npu_product(&turned, &slope, out, i * f.depth * f.area, images, 1, 0);
            continue;
        }
        status = mt__npu_product(&turned, &slope, room, 0, images, 1, 0);
        if (status == MT_OK)
            status = fold(&f, FOLD, i, images, room, out);
    }
    mt_release(room);
    return status;
}

/* g @ columns', accumulated over images. */
static mt_status weight_by_product(const mt__conv *c, const mt_tensor *g, const mt_tensor *in, mt_tensor *out)
{
    folding f = folding_of(c);
    mt_tensor *room = NULL;
    int64_t one = c->out_channels * f.area;
    mt_status status = room_for(&f, out, &room);
    if (c->images == 0 && status == MT_OK)
        status = mt__npu_zero_tensor(out);
    for (int64_t i = 0; i < c->images && status == MT_OK; i += f.chunk) {
        int64_t images = c->images - i < f.chunk ? c->images - i : f.chunk;
        mt__matrix columns;
        status = columns_of(&f, i, images, in, room, &columns);
        for (int64_t n = 0; n < images && status == MT_OK; n++) {
            const mt__matrix slope = {g, (i + n) * one, c->out_channels, f.area, f.area, 1, 0};
            const mt__matrix turned = {columns.t, columns.at + n * columns.step, f.area, f.depth, 1, f.area,
                                       0};
            status = mt__npu_product(&slope, &turned, out, 0, 1, 1, i + n > 0);
        }
    }
    mt_release(room);
    return status;
}

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
    if (h.status != MT_OK || out->numel == 0)
        return mt__let_go(&h);
    if (c.groups == 1) {
        h.status = by_product(&c, in, w, b, out);
        return mt__let_go(&h);
    }
    h.status = mt__launch_variant(&l, &k, &family, CONV, out);
    if (h.status == MT_OK) {
        mt__launch_value(&l, &c, sizeof c);
        mt__launch_flag(&l, b != NULL);
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
    if (out->numel == 0)
        return MT_OK;
    if (c->groups == 1)
        return which == CONV_INPUT ? input_by_product(c, g, other, out) : weight_by_product(c, g, other, out);
    mt_status status = mt__launch_variant(&l, &k, &family, which, out);
    if (status != MT_OK)
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
