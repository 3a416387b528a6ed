/* kernels/cpu/conv_depth.h - depthwise convolutions of float32 (as many groups as channels in and out), straight
 * from the image: lanes beside it are masked. Only with AVX-512, for kernels of 3 x 3 and 5 x 5 and
 * strides 1 and 2.
 *
 *     if (mt__depth_fits(&conv))
 *         mt__depth_forward(&conv, 0, images * channels, input, weight, bias, output);
 */
#ifndef KERNELS_CPU_CONV_DEPTH_H
#define KERNELS_CPU_CONV_DEPTH_H
#include "runtime/ops/conv.h"

bool mt__depth_fits(const mt__conv *c);

/* The planes [first, last) of all images. bias may be NULL. */
void mt__depth_forward(const mt__conv *c, int64_t first, int64_t last, const float *input,
                       const float *weight, const float *bias, float *output);
void mt__depth_backward_input(const mt__conv *c, int64_t first, int64_t last, const float *grad,
                              const float *weight, float *grad_input);
/* The channels [first, last), over all images. */
void mt__depth_backward_weight(const mt__conv *c, int64_t first, int64_t last, const float *grad,
                               const float *input, float *grad_weight);

#endif
