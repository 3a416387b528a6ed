/* runtime/autograd/grad_copy.c - derivatives of copies and fills. */
#include "runtime/autograd/autograd.h"

#define GRAD (b->grads[0])

MT__GRAD_OF_FIRST(clone, "CloneBackward0", "", GRAD)

/* The gradient as the argument's dtype, on its device. */
static mt_tensor *as_argument(mt__backward *b, unsigned arg)
{
    const mt__meta *meta = mt__meta_of(b, arg);
    if (GRAD->device != meta->device)
        return MT(to_device, GRAD, meta->device, (int)meta->dtype);
    return MT(to_dtype, GRAD, (int)meta->dtype);
}

MT__GRAD_OF_FIRST(to_copy, "ToCopyBackward0", "", as_argument(b, 0))

/* self was overwritten: its gradient is zero. */
static mt_status copy_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(zeros_like, GRAD));
    if (mt__wants(b, 1))
        mt__give(b, 1, as_argument(b, 1));
    return mt_scope_status();
}
const mt__grad mt__grad_copy = {"torch::autograd::CopyBackwards", "", copy_backward};

static mt_status fill_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(zeros_like, GRAD));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(sum, GRAD));
    return mt_scope_status();
}
const mt__grad mt__grad_fill = {"FillBackward3", "", fill_backward, .of_number = "FillBackward2"};

MT__GRAD_OF_FIRST(zero, "ZeroBackward0", "", MT(zeros_like, GRAD))
