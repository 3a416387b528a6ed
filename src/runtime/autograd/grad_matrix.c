/* runtime/autograd/grad_matrix.c - derivatives of matrix products. Gradients are computed in PyTorch's order,
 * since profiles show it. */
#include "runtime/autograd/autograd.h"

static mt_tensor *maybe_times(mt_tensor *t, const mt_value *factor)
{
    return mt__value_number(factor) == 1 ? t : MT(mul, t, *factor);
}

/* The gradient of a column-major matrix is one, too: that avoids a copy. */
static mt_tensor *grad_of_left(mt__backward *b, unsigned left, mt_value right)
{
    mt_tensor *grad = b->grads[0];
    return mt__meta_of(b, left)->in_columns ? MT(t, MT(mm, right, MT(t, grad))) : MT(mm, grad, MT(t, right));
}

static mt_tensor *grad_of_right(mt__backward *b, mt_value left, unsigned right)
{
    mt_tensor *grad = b->grads[0];
    return mt__meta_of(b, right)->in_columns ? MT(t, MT(mm, MT(t, grad), left)) : MT(mm, MT(t, left), grad);
}

static mt_status mm_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, grad_of_right(b, b->args[0], 1));
    if (mt__wants(b, 0))
        mt__give(b, 0, grad_of_left(b, 0, b->args[1]));
    return mt_scope_status();
}
const mt__grad mt__grad_mm = {"MmBackward0", "self:mat2 mat2:self", mm_backward};

static mt_status addmm_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, maybe_times(grad_of_left(b, 1, b->args[2]), &b->args[4]));
    if (mt__wants(b, 2))
        mt__give(b, 2, maybe_times(grad_of_right(b, b->args[1], 2), &b->args[4]));
    if (mt__wants(b, 0))
        mt__give(b, 0, maybe_times(b->grads[0], &b->args[3]));
    return mt_scope_status();
}
const mt__grad mt__grad_addmm = {"AddmmBackward0", "mat1:mat2 mat2:mat1", addmm_backward};

static mt_status bmm_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(bmm, MT(transpose, b->args[0], 1, 2), b->grads[0]));
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(bmm, b->grads[0], MT(transpose, b->args[1], 1, 2)));
    return mt_scope_status();
}
const mt__grad mt__grad_bmm = {"BmmBackward0", "self:mat2 mat2:self", bmm_backward};

static mt_status baddbmm_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, maybe_times(MT(bmm, b->grads[0], MT(transpose, b->args[2], 1, 2)), &b->args[4]));
    if (mt__wants(b, 2))
        mt__give(b, 2, maybe_times(MT(bmm, MT(transpose, b->args[1], 1, 2), b->grads[0]), &b->args[4]));
    if (mt__wants(b, 0))
        mt__give(b, 0, maybe_times(b->grads[0], &b->args[3]));
    return mt_scope_status();
}
const mt__grad mt__grad_baddbmm = {"BaddbmmBackward0", "batch1:batch2 batch2:batch1", baddbmm_backward};

static mt_status mv_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(ger, b->grads[0], b->args[1]));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mv, MT(t, b->args[0]), b->grads[0]));
    return mt_scope_status();
}
const mt__grad mt__grad_mv = {"MvBackward0", "self:vec vec:self", mv_backward};

static mt_status dot_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(mul, b->grads[0], b->args[1]));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, b->grads[0], b->args[0]));
    return mt_scope_status();
}
const mt__grad mt__grad_dot = {"DotBackward0", "self:tensor tensor:self", dot_backward};
