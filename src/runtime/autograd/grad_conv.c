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

static mt_tensor *plus(mt_tensor *a, mt_tensor *b)
{
    return a == NULL ? b : b == NULL ? a : MT(add, a, b);
}

/* One of the three gradients that convolution_backward computes. */
static mt_tensor *one_gradient(const mt_value *a, mt_value input, mt_value weight, unsigned which)
{
    mt_tensor *outs[3] = {NULL};
    int64_t mask[3] = {which == 0, which == 1, which == 2};
    MT_N(convolution_backward, outs, a[0], input, weight, NULL, a[4], a[5], a[6], a[7], a[8], a[9],
         mt_value_ints(mask, 3));
    return outs[which];
}

/* A convolution is linear in its input, its weight and its bias: each of the three incoming gradients (of the
 * gradients of input, weight and bias) takes its place in it. */
static mt_status convolution_backward_backward(mt__backward *b)
{
    const mt_value *a = b->args; /* grad_output, input, weight, bias_sizes, stride, ... */
    mt_tensor *of_input = b->grads[0], *of_weight = b->grads[1], *of_bias = b->grads[2];
    if (mt__wants(b, 0)) {
        mt_tensor *sum = NULL;
        if (of_input != NULL)
            sum = MT(convolution, of_input, a[2], NULL, a[4], a[5], a[6], a[7], a[8], a[9]);
        if (of_weight != NULL)
            sum = plus(sum, MT(convolution, a[1], of_weight, NULL, a[4], a[5], a[6], a[7], a[8], a[9]));
        if (of_bias != NULL) {
            const mt__meta *out = mt__meta_of(b, 0);
            int64_t shape[MT_MAX_RANK] = {1, -1};
            for (int i = 2; i < out->rank; i++)
                shape[i] = 1;
            sum = plus(
                sum, MT(expand, MT(reshape, of_bias, mt_value_ints(shape, out->rank)), mt__meta_shape(out)));
        }
        mt__give(b, 0, sum);
    }
    if (mt__wants(b, 1) && of_weight != NULL)
        mt__give(b, 1, one_gradient(a, a[1], mt_value_tensor(of_weight), 0));
    if (mt__wants(b, 2) && of_input != NULL)
        mt__give(b, 2, one_gradient(a, mt_value_tensor(of_input), a[2], 1));
    return mt_scope_status();
}
const mt__grad mt__grad_convolution_backward = {"ConvolutionBackwardBackward0", "grad_output input weight",
                                                convolution_backward_backward};

/* ---------------------------------------------------------------------------------------------------- pools */

/* Pools are linear in their input once the places of the maxima are known: the input has no share in the
 * derivative of their derivative. */
static mt_status give_pooled(mt__backward *b, mt_tensor *pooled)
{
    mt__give(b, 0, pooled);
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(zeros_like, b->grads[0]));
    return mt_scope_status();
}

static mt_status max_pool2d_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt__give(
        b, 0,
        MT(max_pool2d_with_indices_backward, b->grads[0], a[0], a[1], a[2], a[3], a[4], a[5], b->results[1]));
    return mt_scope_status();
}
/* Picks the elements at the places of the maxima. */
static mt_status max_pool2d_backward_backward(mt__backward *b)
{
    mt_tensor *indices = b->args[7].as.tensor, *picked = NULL;
    if (mt__wants(b, 0))
        picked = MT(view, MT(gather, MT(flatten, b->grads[0], -2), -1, MT(flatten, indices, -2)),
                    mt_value_ints(indices->dims, indices->rank));
    return give_pooled(b, picked);
}
const mt__grad mt__grad_max_pool2d_backward = {"MaxPool2DWithIndicesBackwardBackward0", "indices",
                                               max_pool2d_backward_backward};
const mt__grad mt__grad_max_pool2d = {"MaxPool2DWithIndicesBackward0", "self result1", max_pool2d_backward};

static mt_status avg_pool2d_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt__give(b, 0, MT(avg_pool2d_backward, b->grads[0], a[0], a[1], a[2], a[3], a[4], a[5], a[6]));
    return mt_scope_status();
}
const mt__grad mt__grad_avg_pool2d = {"AvgPool2DBackward0", "self", avg_pool2d_backward};

static mt_status avg_pool2d_backward_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    bool wanted = mt__wants(b, 0);
    return give_pooled(b, wanted ? MT(avg_pool2d, b->grads[0], a[2], a[3], a[4], a[5], a[6], a[7]) : NULL);
}
const mt__grad mt__grad_avg_pool2d_backward = {"AvgPool2DBackwardBackward0", "",
                                               avg_pool2d_backward_backward};

MT__GRAD_OF_FIRST(adaptive_avg_pool2d, "AdaptiveAvgPool2DBackward0", "self",
                  MT(_adaptive_avg_pool2d_backward, b->grads[0], b->args[0]))

static mt_status adaptive_avg_pool2d_backward_backward(mt__backward *b)
{
    const mt__meta *pooled = mt__meta_of(b, 0);
    const int64_t *last = pooled->dims + pooled->rank - 2;
    bool wanted = mt__wants(b, 0);
    return give_pooled(b, wanted ? MT(_adaptive_avg_pool2d, b->grads[0], mt_value_ints(last, 2)) : NULL);
}
const mt__grad mt__grad_adaptive_avg_pool2d_backward = {"AdaptiveAvgPool2DBackwardBackward0", "",
                                                        adaptive_avg_pool2d_backward_backward};
