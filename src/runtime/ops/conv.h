/* runtime/ops/conv.h - the geometry of a convolution, for its checks (conv.c) and kernels. */
#ifndef RUNTIME_OPS_CONV_H
#define RUNTIME_OPS_CONV_H
#include "runtime/runtime.h"

/* One spatial dim is treated as two, the first of size 1. */
typedef struct mt__conv {
    int64_t images, groups;
    int64_t in_channels, out_channels; /* of all groups */
    int64_t in[2], kernel[2], out[2];
    int64_t stride[2], padding[2], dilation[2];
} mt__conv;

/* Checks the arguments of a convolution with PyTorch's messages. The lists start at argument `lists` of the
 * call: stride, padding, dilation, transposed, output_padding, groups. bias may be NULL. */
mt_status mt__conv_read(const mt__call *call, const mt_tensor *input, const mt_tensor *weight,
                        const mt_tensor *bias, unsigned lists, mt__conv *out);

/* The range of outputs x of a window whose input x * stride + shift lies in [0, in). */
static inline void mt__inside(int64_t out, int64_t stride, int64_t shift, int64_t in, int64_t *begin,
                              int64_t *end)
{
    *begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    *end = in - shift <= 0 ? 0 : (in - shift + stride - 1) / stride;
    *end = *end < out ? *end : out;
    *begin = *begin < *end ? *begin : *end;
}

#endif
