/* runtime/autograd/grad_loss.c - derivatives of losses.
 *
 * If the derivative itself is to be differentiated (create_graph: grad mode is on), kernels without a
 * derivative are replaced by ops that have one.
 */
#include "runtime/autograd/autograd.h"

enum {
    NONE,
    MEAN,
    SUM
};

static int64_t numel_of(const mt__meta *meta)
{
    return mt__numel(meta->rank, meta->dims);
}

/* The gradient of each element of the loss before reduction. */
static mt_tensor *spread(mt_tensor *grad, int64_t reduction, int64_t n)
{
    return reduction == MEAN ? MT(div, grad, n) : grad;
}

/* The number of elements in the loss: self and target broadcast. */
static int64_t loss_count(const mt__backward *b)
{
    int64_t dims[MT_MAX_RANK];
    int rank;
    const mt__meta *a = mt__meta_of(b, 0), *t = mt__meta_of(b, 1);
    return mt__broadcast(a->rank, a->dims, t->rank, t->dims, &rank, dims) == MT_OK ? mt__numel(rank, dims)
                                                                                   : 1;
}

/* --------------------------------------------------------------------------------------- mse and smooth_l1 */

static mt_status mse_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(mse_loss_backward, b->grads[0], a[0], a[1], a[2]));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mse_loss_backward, b->grads[0], a[1], a[0], a[2]));
    return mt_scope_status();
}
const mt__grad mt__grad_mse_loss = {"MseLossBackward0", "self target", mse_backward};

/* 2 g (self - target) / n, with respect to each of the three */
static mt_status mse_backward_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt_tensor *grad = b->grads[0];
    int64_t reduction = a[3].as.i, n = numel_of(&b->node->outs[0]);
    double scale = reduction == MEAN ? 2.0 / (double)n : 2.0;
    if (mt__wants(b, 0)) {
        mt_tensor *g = MT(mul, MT(mul, grad, MT(sub, a[1], a[2])), scale);
        mt__give(b, 0, reduction == NONE ? g : MT(sum, g));
    }
    mt_tensor *both = mt__wants(b, 1) || mt__wants(b, 2) ? MT(mul, MT(mul, grad, scale), a[0]) : NULL;
    if (mt__wants(b, 1))
        mt__give(b, 1, both);
    if (mt__wants(b, 2))
        mt__give(b, 2, MT(neg, both));
    return mt_scope_status();
}
const mt__grad mt__grad_mse_loss_backward = {"MseLossBackwardBackward0", "grad_output self target",
                                             mse_backward_backward};

static mt_status smooth_l1_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt_tensor *grad = b->grads[0];
    if (mt__grad_mode) {
        double beta = mt__value_number(&a[3]);
        mt_tensor *d = MT(sub, a[0], a[1]);
        mt_tensor *slope = beta > 0 ? MT(clamp, MT(div, d, beta), -1.0, 1.0) : MT(sign, d);
        slope = MT(mul, slope, spread(grad, a[2].as.i, loss_count(b)));
        mt__give(b, 0, slope);
        if (mt__wants(b, 1))
            mt__give(b, 1, MT(neg, slope));
        return mt_scope_status();
    }
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(smooth_l1_loss_backward, grad, a[0], a[1], a[2], a[3]));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(smooth_l1_loss_backward, grad, a[1], a[0], a[2], a[3]));
    return mt_scope_status();
}
const mt__grad mt__grad_smooth_l1_loss = {"SmoothL1LossBackward0", "self target", smooth_l1_backward};

/* --------------------------------------------------------------------------------------------- cross entropies */

static mt_status bce_backward(mt__backward *b)
{
    const mt_value *a = b->args; /* self, target, weight, reduction */
    mt_tensor *grad = b->grads[0];
    if (mt__wants(b, 0) && !mt__grad_mode)
        mt__give(b, 0, MT(binary_cross_entropy_backward, grad, a[0], a[1], a[2], a[3]));
    if (!mt__grad_mode && !mt__wants(b, 1))
        return mt_scope_status();
    mt_tensor *g = spread(grad, a[3].as.i, loss_count(b));
    if (a[2].kind == MT_TENSOR)
        g = MT(mul, g, a[2]);
    if (mt__wants(b, 0) && mt__grad_mode) {
        mt_tensor *scale = MT(clamp_min, MT(mul, MT(rsub, a[0], 1), a[0]), 1e-12);
        mt__give(b, 0, MT(mul, MT(div, MT(sub, a[0], a[1]), scale), g));
    }
    if (mt__wants(b, 1)) {
        mt_tensor *low = MT(clamp, MT(log, a[0]), -100.0),
                  *high = MT(clamp, MT(log, MT(rsub, a[0], 1)), -100.0);
        mt__give(b, 1, MT(mul, MT(sub, high, low), g));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_bce = {"BinaryCrossEntropyBackward0", "self target weight", bce_backward,
                               .constants = "weight"};

/* In place, unless the graph of the derivative needs the old value. */
#define CHANGE(op, a, b) (mt__grad_mode ? MT(op, a, b) : MT(op##_, a, b))

static mt_status bce_logits_backward(mt__backward *b)
{
    const mt_value *a = b->args; /* self, target, weight, pos_weight, reduction */
    mt_tensor *grad = b->grads[0], *g;
    bool positive = a[3].kind == MT_TENSOR;
    int64_t n = numel_of(mt__meta_of(b, 0));
    if (mt__wants(b, 0)) {
        if (positive) {
            mt_tensor *t = MT(mul, a[3], a[1]);
            g = CHANGE(sub, MT(add, t, 1), a[1]);
            g = CHANGE(mul, g, MT(sigmoid, a[0]));
            g = CHANGE(sub, g, t);
        } else {
            g = MT(sigmoid, a[0]);
            g = CHANGE(sub, g, a[1]);
        }
        g = CHANGE(mul, g, grad);
        if (a[2].kind == MT_TENSOR)
            g = CHANGE(mul, g, a[2]);
        if (a[4].as.i == MEAN)
            g = CHANGE(div, g, n);
        mt__give(b, 0, g);
    }
    if (mt__wants(b, 1)) {
        /* with respect to target: -x, plus (p - 1) softplus(-x) with pos_weight p */
        mt_tensor *slope = MT(neg, a[0]);
        if (positive)
            slope = MT(add, slope, MT(mul, MT(sub, a[3], 1), MT(softplus, slope)));
        if (a[2].kind == MT_TENSOR)
            slope = MT(mul, slope, a[2]);
        mt__give(b, 1, MT(mul, slope, spread(grad, a[4].as.i, n)));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_bce_logits = {"BinaryCrossEntropyWithLogitsBackward0",
                                      "self target weight pos_weight", bce_logits_backward,
                                      .constants = "weight pos_weight"};

static mt_status xlogy_backward(mt__backward *b)
{
    mt_tensor *grad = b->grads[0];
    mt_value self = b->args[0], other = b->args[1];
    if (mt__wants(b, 0)) {
        mt_tensor *none = MT(logical_and, MT(eq, self, 0), MT(le, other, 0));
        mt__give(b, 0, MT(masked_fill, MT(xlogy, grad, other), none, 0));
    }
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(div, MT(mul, grad, self), other));
    return mt_scope_status();
}
const mt__grad mt__grad_xlogy = {"XlogyBackward0", "self other", xlogy_backward};

/* ------------------------------------------------------------------------------------------------ nll_loss */

/* The loss is linear in self: the derivative is a constant tensor. */
static mt_tensor *nll_in_ops(mt__backward *b)
{
    const mt_value *a = b->args; /* self, target, weight, reduction, ignore_index */
    const mt__meta *meta = mt__meta_of(b, 0);
    int64_t reduction = a[3].as.i;
    bool each = reduction == NONE && meta->rank > 1;
    mt_tensor *constant = NULL, *one = MT(ones, each ? mt__meta_shape(mt__meta_of(b, 1)) : MT_SHAPE0,
                                          (int64_t)meta->dtype, (int64_t)meta->device);
    bool was = mt_grad_enable(false);
    if (meta->rank <= 2)
        constant = MT(nll_loss_backward, one, a[0], a[1], a[2], a[3], a[4], b->results[1]);
    else
        constant = MT(nll_loss2d_backward, one, a[0], a[1], a[2], a[3], a[4], b->results[1]);
    mt_grad_enable(was);
    return MT(mul, each ? MT(unsqueeze, b->grads[0], 1) : b->grads[0], constant);
}

static mt_status nll_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    if (b->grads[0] == NULL)
        return MT_OK;
    mt__give(b, 0,
             mt__grad_mode ? nll_in_ops(b)
                           : MT(nll_loss_backward, b->grads[0], a[0], a[1], a[2], a[3], a[4], b->results[1]));
    return mt_scope_status();
}
const mt__grad mt__grad_nll_loss = {"NllLossBackward0", "self target weight result1", nll_backward,
                                    .constants = "weight", .only_first = true};

static mt_status nll2d_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    if (b->grads[0] == NULL)
        return MT_OK;
    mt__give(b, 0,
             mt__grad_mode
                 ? nll_in_ops(b)
                 : MT(nll_loss2d_backward, b->grads[0], a[0], a[1], a[2], a[3], a[4], b->results[1]));
    return mt_scope_status();
}
const mt__grad mt__grad_nll_loss2d = {"NllLoss2DBackward0", "self target weight result1", nll2d_backward,
                                      .constants = "weight", .only_first = true};
