/* runtime/autograd/grad_conv.c - derivatives of convolutions and pools. */
#include "runtime/autograd/autograd.h"

static mt_status convolution_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt_tensor *outs[3] = {NULL};
    int64_t channels = a[1].as.tensor->dims[0];
    int64_t mask[3] = {mt__wants(b, 0), mt__wants(b, 1), mt__wants(b, 2)};
    mt_value bias = mask[2] ? mt_value_ints(&channels, 1) : mt_value_none(NULL);
    if (MT_N(convolution_backward, outs, b->grads[0], a[0], a[1], bias, a[3], a[4], a[5], a[6], a[7], a[8],
             mt_value_ints(mask, 3)) != MT_OK)
        return mt_scope_status();
    for (unsigned i = 0; i < 3; i++)
        mt__give(b, i, outs[i]);
    return MT_OK;
}
const mt__grad mt__grad_convolution = {"ConvolutionBackward0", "input weight", convolution_backward};

static mt_status max_pool2d_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt__give(
        b, 0,
        MT(max_pool2d_with_indices_backward, b->grads[0], a[0], a[1], a[2], a[3], a[4], a[5], b->results[1]));
    return mt_scope_status();
}
const mt__grad mt__grad_max_pool2d = {"MaxPool2DWithIndicesBackward0", "self result1", max_pool2d_backward};

static mt_status avg_pool2d_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt__give(b, 0, MT(avg_pool2d_backward, b->grads[0], a[0], a[1], a[2], a[3], a[4], a[5], a[6]));
    return mt_scope_status();
}
const mt__grad mt__grad_avg_pool2d = {"AvgPool2DBackward0", "self", avg_pool2d_backward};

MT__GRAD_OF_FIRST(adaptive_avg_pool2d, "AdaptiveAvgPool2DBackward0", "self",
                  MT(_adaptive_avg_pool2d_backward, b->grads[0], b->args[0]))
