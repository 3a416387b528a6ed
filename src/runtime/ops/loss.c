/* runtime/ops/loss.c - losses: PyTorch's argument checks, outputs, composites. Reduction: 0
 * none, 1 mean, 2 sum.
 */
#include "runtime/ops/reduce.h"

enum {
    NONE,
    MEAN,
    SUM
};

static mt_status out_of(mt__call *call, int64_t reduction, mt_dtype dtype, mt_device device, int rank,
                        const int64_t *dims)
{
    return mt__empty(dtype, device, reduction == NONE ? rank : 0, dims, &call->outs[0]);
}

/* Every loss has a reduction argument, at varying positions. */
static int64_t reduction_of(const mt__call *call)
{
    for (unsigned i = 0; i < call->op->param_count; i++)
        if (call->op->params[i].name_length == 9 && strncmp(call->op->params[i].name, "reduction", 9) == 0)
            return mt__arg_int(call, i);
    return MEAN;
}

/* ------------------------------------------------------------------------------------- mse, smooth_l1 and l1 */

/* self and target are arguments `at` and at + 1: finds the dims they broadcast to, and sets call->compute. */
static mt_status pair(mt__call *call, unsigned at, const char *kernel, int *rank, int64_t *dims)
{
    const mt_tensor *self = mt__arg_tensor(call, at), *target = mt__arg_tensor(call, at + 1);
    mt__promotion p = {0};
    mt__promote(&p, &call->args[at]);
    mt__promote(&p, &call->args[at + 1]);
    call->compute = mt__promoted(&p);
    mt_status status = mt__broadcast(self->rank, self->dims, target->rank, target->dims, rank, dims);
    if (status == MT_OK && !mt__is_floating(call->compute))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", kernel,
                        mt__scalar_type(call->compute));
    return status;
}

static mt_status check_beta(const mt__call *call, unsigned at)
{
    return mt__arg_number(call, at) >= 0
               ? MT_OK
               : mt__fail(MT_E_RUNTIME, "smooth_l1_loss does not support negative values for beta.");
}

mt_status mt__infer_loss(mt__call *call)
{
    int64_t dims[MT_MAX_RANK];
    int rank;
    bool smooth = call->op->id == MT_OP_smooth_l1_loss;
    mt_status status = smooth ? check_beta(call, 3) : MT_OK;
    if (status == MT_OK)
        status = pair(call, 0, smooth ? "smooth_l1" : "mse", &rank, dims);
    return status == MT_OK
               ? out_of(call, reduction_of(call), call->compute, mt__arg_tensor(call, 0)->device, rank, dims)
               : status;
}

mt_status mt__infer_loss_backward(mt__call *call)
{
    int64_t dims[MT_MAX_RANK], all[MT_MAX_RANK];
    const mt_tensor *grad = mt__arg_tensor(call, 0);
    int rank, all_rank;
    bool smooth = call->op->id == MT_OP_smooth_l1_loss_backward;
    mt_status status = smooth ? check_beta(call, 4) : MT_OK;
    if (status == MT_OK)
        status = pair(call, 1, smooth ? "smooth_l1_backward" : "mse_backward", &rank, dims);
    if (status == MT_OK)
        status = mt__broadcast(rank, dims, grad->rank, grad->dims, &all_rank, all);
    const mt_tensor *weight =
        call->op->id == MT_OP_binary_cross_entropy_backward ? mt__arg_tensor(call, 3) : NULL;
    if (status == MT_OK && weight != NULL)
        status = mt__broadcast(all_rank, all, weight->rank, weight->dims, &all_rank, all);
    return status == MT_OK ? mt__empty(call->compute, grad->device, all_rank, all, &call->outs[0]) : status;
}

static mt_tensor *reduced(mt_tensor *t, int64_t reduction)
{
    return reduction == MEAN ? MT(mean, t) : reduction == SUM ? MT(sum, t) : t;
}

mt_status mt__composite_l1_loss(mt__call *call)
{
    mt_tensor *loss = MT(abs, MT(sub, mt__arg_tensor(call, 0), mt__arg_tensor(call, 1)));
    return mt__return(call, reduced(loss, mt__arg_int(call, 2)));
}

/* --------------------------------------------------------------------------------------------- cross entropies */

mt_status mt__infer_bce(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    int64_t dims[MT_MAX_RANK];
    int rank;
    if (!mt__is_floating((mt_dtype)self->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"binary_cross_entropy\" not implemented for '%s'",
                        mt__scalar_type(self->dtype));
    mt_status status = mt__broadcast(self->rank, self->dims, 0, NULL, &rank, dims);
    for (unsigned i = 1; i < 3 && status == MT_OK; i++) {
        const mt_tensor *t = mt__arg_tensor(call, i);
        if (t != NULL && t->dtype != self->dtype)
            return mt__fail(MT_E_RUNTIME, "Found dtype %s but expected %s", mt__scalar_type(t->dtype),
                            mt__scalar_type(self->dtype));
        if (t != NULL)
            status = mt__broadcast(rank, dims, t->rank, t->dims, &rank, dims);
    }
    call->compute = (mt_dtype)self->dtype;
    return status == MT_OK ? out_of(call, mt__arg_int(call, 3), call->compute, self->device, rank, dims)
                           : status;
}

mt_status mt__infer_bce_logits(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1);
    int64_t dims[MT_MAX_RANK];
    int rank = 0;
    if (!mt__is_floating((mt_dtype)self->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"log_sigmoid_cpu\" not implemented for '%s'",
                        mt__scalar_type(self->dtype));
    if (target->dtype == MT_BOOL)
        return mt__fail(
            MT_E_RUNTIME,
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead.");
    if (!mt__is_floating((mt_dtype)target->dtype))
        return mt__fail(MT_E_RUNTIME, "result type Float can't be cast to the desired output type %s",
                        mt__scalar_type(target->dtype));
    if (target->rank != self->rank ||
        memcmp(target->dims, self->dims, self->rank * sizeof *self->dims) != 0) {
        mt_status status = mt__broadcast(self->rank, self->dims, target->rank, target->dims, &rank, dims);
        return status != MT_OK
                   ? status
                   : mt__fail(MT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                              mt__shape_text(target->dims, target->rank), mt__shape_text(dims, rank));
    }
    mt_status status = MT_OK;
    for (unsigned i = 0; i < 4 && status == MT_OK; i++) {
        const mt_tensor *t = mt__arg_tensor(call, i);
        if (t != NULL)
            status = mt__broadcast(t->rank, t->dims, rank, dims, &rank, dims);
    }
    call->compute = (mt_dtype)target->dtype; /* PyTorch computes in place, beginning with 1 - target */
    return status == MT_OK ? out_of(call, mt__arg_int(call, 4), call->compute, self->device, rank, dims)
                           : status;
}

mt_status mt__infer_xlogy(mt__call *call)
{
    int64_t dims[MT_MAX_RANK];
    int rank;
    const mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    mt__promotion p = {0};
    mt__promote(&p, &call->args[0]);
    mt__promote(&p, &call->args[1]);
    call->compute = mt__promoted(&p);
    if (!mt__is_floating(call->compute))
        call->compute = mt__default_dtype;
    mt_status status = mt__broadcast(a->rank, a->dims, b->rank, b->dims, &rank, dims);
    return status == MT_OK ? mt__empty(call->compute, a->device, rank, dims, &call->outs[0]) : status;
}

mt_status mt__composite_kl_div(mt__call *call)
{
    mt_tensor *input = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1), *loss;
    if (!mt__is_floating((mt_dtype)input->dtype) || !mt__is_floating((mt_dtype)target->dtype))
        return mt__fail(MT_E_RUNTIME, "kl_div: Integral inputs not supported.");
    if (mt__arg_int(call, 3)) {
        mt_tensor *difference = MT(sub, target, input);
        loss = MT(mul, MT(exp, target), difference);
    } else {
        mt_tensor *product = MT(mul, target, input);
        loss = MT(sub, MT(xlogy, target, target), product);
    }
    return mt__return(call, reduced(loss, mt__arg_int(call, 2)));
}

/* ------------------------------------------------------------------------------------------------ nll_loss */

static mt_status check_target_dtype(const mt_tensor *self, const mt_tensor *target)
{
    if (!mt__is_floating((mt_dtype)self->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"nll_loss_out_frame\" not implemented for '%s'",
                        mt__scalar_type(self->dtype));
    if (target->dtype != MT_INT64 && target->dtype != MT_UINT8)
        return mt__fail(MT_E_RUNTIME, "expected target dtype to be Long or Byte, but got %s",
                        mt__scalar_type(target->dtype));
    return MT_OK;
}

static mt_status check_class_weight(const char *prefix, const mt_tensor *weight, const mt_tensor *self,
                                    int64_t classes)
{
    if (weight == NULL)
        return MT_OK;
    if (weight->rank != 1 || weight->numel != classes)
        return mt__fail(MT_E_RUNTIME,
                        "%sweight tensor should be defined either for all %lld classes or no classes but got "
                        "weight tensor of "
                        "shape: %s",
                        prefix, (long long)classes, mt__shape_text(weight->dims, weight->rank));
    if (weight->dtype != self->dtype)
        return mt__fail(MT_E_RUNTIME, "expected scalar type %s but found %s", mt__scalar_type(self->dtype),
                        mt__scalar_type(weight->dtype));
    return MT_OK;
}

static mt_status check_nll(const mt_tensor *self, const mt_tensor *target, const mt_tensor *weight)
{
    if (self->rank < 1 || self->rank > 2)
        return mt__fail(MT_E_RUNTIME, "input tensor should be 1D or 2D");
    if (target->rank > 1)
        return mt__fail(MT_E_RUNTIME, "0D or 1D target tensor expected, multi-target not supported");
    if (self->rank == 1 && target->rank == 1 && target->numel != 1)
        return mt__fail(MT_E_VALUE, "For 1D input, 1D target must have size 1, but got target size: %lld",
                        (long long)target->numel);
    if (self->rank == 2 && (target->rank == 0 || self->dims[0] != target->dims[0]))
        return mt__fail(MT_E_RUNTIME, "size mismatch (got input: %s, target: %s)",
                        mt__shape_text(self->dims, self->rank), mt__shape_text(target->dims, target->rank));
    mt_status status = check_class_weight("", weight, self, self->dims[self->rank - 1]);
    return status == MT_OK ? check_target_dtype(self, target) : status;
}

static mt_status check_nll2d(const mt_tensor *self, const mt_tensor *target, const mt_tensor *weight)
{
    if (target->rank != 3)
        return mt__fail(
            MT_E_RUNTIME,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: %d",
            (int)target->rank);
    if (self->rank != 4)
        return mt__fail(
            MT_E_RUNTIME,
            "only batches of spatial inputs supported (4D tensors), but got input of dimension: %d",
            (int)self->rank);
    if (self->dims[0] != target->dims[0] || self->dims[2] != target->dims[1] ||
        self->dims[3] != target->dims[2])
        return mt__fail(MT_E_RUNTIME, "size mismatch (got input: %s , target: %s",
                        mt__shape_text(self->dims, 4), mt__shape_text(target->dims, 3));
    mt_status status = check_class_weight("", weight, self, self->dims[1]);
    return status == MT_OK ? check_target_dtype(self, target) : status;
}

static mt_status nll_outs(mt__call *call, bool per_target)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1);
    mt_status status = mt__empty((mt_dtype)self->dtype, self->device, per_target ? target->rank : 0,
                                 target->dims, &call->outs[0]);
    return status == MT_OK ? mt__empty((mt_dtype)self->dtype, self->device, 0, NULL, &call->outs[1]) : status;
}

mt_status mt__infer_nll_loss(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_status status = check_nll(self, mt__arg_tensor(call, 1), mt__arg_tensor(call, 2));
    return status == MT_OK ? nll_outs(call, mt__arg_int(call, 3) == NONE && self->rank == 2) : status;
}
mt_status mt__infer_nll_loss2d(mt__call *call)
{
    mt_status status = check_nll2d(mt__arg_tensor(call, 0), mt__arg_tensor(call, 1), mt__arg_tensor(call, 2));
    return status == MT_OK ? nll_outs(call, mt__arg_int(call, 3) == NONE) : status;
}

/* Shared by nll_loss*_backward after their checks. */
static mt_status nll_backward_outs(mt__call *call, mt_status status, bool per_target)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *self = mt__arg_tensor(call, 1),
                    *total = mt__arg_tensor(call, 6);
    if (status != MT_OK)
        return status;
    if (grad->dtype != self->dtype || grad->numel != (per_target ? mt__arg_tensor(call, 2)->numel : 1))
        return mt__fail(MT_E_RUNTIME, "%s: Expected a tensor of %s for grad_output, got %s %s",
                        mt__op_short_name(call->op), per_target ? "the target's shape" : "one element",
                        mt__scalar_type(grad->dtype), mt__shape_text(grad->dims, grad->rank));
    if (total->numel != 1 || total->dtype != self->dtype)
        return mt__fail(MT_E_RUNTIME,
                        "expected total_weight to be a  single element tensor, got: %s (%lld elements)",
                        mt__shape_text(total->dims, total->rank), (long long)total->numel);
    return mt__empty_like(self, (mt_dtype)self->dtype, &call->outs[0]);
}

mt_status mt__infer_nll_loss_backward(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 1);
    mt_status status = check_nll(self, mt__arg_tensor(call, 2), mt__arg_tensor(call, 3));
    return nll_backward_outs(call, status, mt__arg_int(call, 4) == NONE && self->rank == 2);
}
mt_status mt__infer_nll_loss2d_backward(mt__call *call)
{
    mt_status status = check_nll2d(mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), mt__arg_tensor(call, 3));
    return nll_backward_outs(call, status, mt__arg_int(call, 4) == NONE);
}

mt_status mt__composite_nll_loss(mt__call *call)
{
    const mt_value *a = call->args;
    return mt__return(call, MT(nll_loss_forward, a[0], a[1], a[2], a[3], a[4]));
}
mt_status mt__composite_nll_loss2d(mt__call *call)
{
    const mt_value *a = call->args;
    return mt__return(call, MT(nll_loss2d_forward, a[0], a[1], a[2], a[3], a[4]));
}

/* [N, C, d...] as [N, C, 1, d], for nll_loss2d. */
static mt_status nll_spatial(mt__call *call)
{
    const mt_value *a = call->args;
    mt_tensor *self = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1);
    if (self->rank == 4)
        return mt__return(call, MT(nll_loss2d, a[0], a[1], a[2], a[3], a[4]));
    bool fits = target->rank == self->rank - 1;
    for (int i = 2; i < self->rank && fits; i++)
        fits = target->dims[i - 1] == self->dims[i];
    if (!fits) {
        int64_t wanted[MT_MAX_RANK] = {self->dims[0]};
        memcpy(wanted + 1, self->dims + 2, (size_t)(self->rank - 2) * sizeof *wanted);
        return mt__fail(MT_E_RUNTIME, "Expected target size %s, got %s",
                        mt__shape_text(wanted, self->rank - 1), mt__shape_text(target->dims, target->rank));
    }
    int64_t n = self->dims[0], c = self->dims[1], d = mt__numel(self->rank - 2, self->dims + 2);
    mt_tensor *loss = MT(nll_loss2d, MT(reshape, self, MT_SHAPE(n, c, 1, d)),
                         MT(reshape, target, MT_SHAPE(n, 1, d)), a[2], a[3], a[4]);
    if (mt__arg_int(call, 3) == NONE)
        loss = MT(view, loss, mt_value_ints(target->dims, target->rank));
    return mt__return(call, loss);
}

mt_status mt__composite_nll_loss_nd(mt__call *call)
{
    const mt_value *a = call->args;
    mt_tensor *self = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1);
    if (self->rank < 1)
        return mt__fail(MT_E_VALUE, "Expected 1 or more dimensions (got 0)");
    if (self->rank != 1 && (target->rank == 0 || self->dims[0] != target->dims[0]))
        return mt__fail(MT_E_VALUE, "Expected input batch_size (%lld) to match target batch_size (%lld).",
                        (long long)self->dims[0], (long long)(target->rank > 0 ? target->dims[0] : 0));
    if (self->rank <= 2)
        return mt__return(call, MT(nll_loss, a[0], a[1], a[2], a[3], a[4]));
    return nll_spatial(call);
}

/* ------------------------------------------------------------------------------------------- cross_entropy_loss */

static mt_tensor *weight_as_seen(const mt_tensor *weight, const mt_tensor *x, int class_dim)
{
    int64_t shape[MT_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        shape[i] = i == class_dim ? weight->numel : 1;
    return MT(view, weight, mt_value_ints(shape, x->rank));
}

/* The target contains probabilities. */
static mt_status with_probabilities(mt__call *call, int class_dim, double smoothing)
{
    mt_tensor *self = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1),
              *weight = mt__arg_tensor(call, 2);
    int64_t reduction = mt__arg_int(call, 3), classes = self->dims[class_dim];
    if (!mt__is_floating((mt_dtype)target->dtype))
        return mt__fail(MT_E_RUNTIME,
                        "Expected floating point type for target with class probabilities, got %s",
                        mt__scalar_type(target->dtype));
    if (mt__arg_int(call, 4) >= 0)
        return mt__fail(MT_E_RUNTIME, "ignore_index is not supported for floating point target");
    if (weight != NULL && (weight->rank != 1 || weight->numel != classes))
        return check_class_weight("cross_entropy: ", weight, self, classes);
    mt_tensor *logs = MT(log_softmax, self, class_dim);
    if (smoothing > 0)
        target = MT(add, MT(mul, target, 1 - smoothing), smoothing / (double)classes);
    mt_tensor *loss;
    if (weight != NULL) {
        mt_tensor *seen = weight_as_seen(weight, self, class_dim);
        loss = MT(mul, MT(mul, logs, target), seen);
    } else {
        loss = MT(mul, logs, target);
    }
    if (reduction == NONE)
        return mt__return(call, MT(neg, MT(sum_dim, loss, class_dim)));
    loss = MT(neg, MT(sum, loss));
    return mt__return(call,
                      reduction == MEAN ? MT(div, loss, classes > 0 ? self->numel / classes : 1) : loss);
}

/* The mean of a smoothed loss divides by the total weight of the targets that are not ignored. */
static mt_tensor *smooth_mean(const mt__call *call, mt_tensor *smooth, mt_tensor *ignored)
{
    mt_tensor *target = mt__arg_tensor(call, 1), *weight = mt__arg_tensor(call, 2);
    mt_tensor *counted = MT(bitwise_not, ignored);
    if (weight == NULL) {
        mt_tensor *total = MT(sum, counted);
        return MT(div, MT(sum, smooth), total);
    }
    mt_tensor *picked = MT(gather, weight, 0, MT(flatten, MT(masked_select, target, counted)));
    mt_tensor *total = MT(sum, picked);
    return MT(div, MT(sum, smooth), total);
}

static mt_status with_smoothing(mt__call *call, int class_dim, double smoothing)
{
    mt_tensor *self = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1),
              *weight = mt__arg_tensor(call, 2);
    int64_t reduction = mt__arg_int(call, 3), classes = self->dims[class_dim];
    mt_tensor *logs = MT(log_softmax, self, class_dim);
    mt_tensor *nll = MT(nll_loss_nd, logs, target, call->args[2], call->args[3], call->args[4]);
    mt_tensor *weighed = weight != NULL ? MT(mul, logs, weight_as_seen(weight, self, class_dim)) : logs;
    mt_tensor *smooth = MT(neg, MT(sum_dim, weighed, class_dim));
    mt_tensor *ignored = MT(eq, target, mt__arg_int(call, 4));
    smooth = MT(masked_fill_, smooth, ignored, 0.0);
    if (reduction == MEAN)
        smooth = smooth_mean(call, smooth, ignored);
    else if (reduction == SUM)
        smooth = MT(sum, smooth);
    mt_tensor *a = MT(mul, nll, 1 - smoothing);
    return mt__return(call, MT(add, a, MT(mul, smooth, smoothing / (double)classes)));
}

mt_status mt__composite_cross_entropy_loss(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *target = mt__arg_tensor(call, 1);
    double smoothing = mt__arg_number(call, 5);
    int class_dim = self->rank == 1 ? 0 : 1;
    bool same =
        self->rank == target->rank && memcmp(self->dims, target->dims, self->rank * sizeof *self->dims) == 0;
    if (same && self->rank == 0)
        return mt__is_floating((mt_dtype)target->dtype)
                   ? mt__fail(MT_E_RUNTIME, "cross_entropy: a 0-dim tensor has no classes")
                   : mt__fail(MT_E_RUNTIME,
                              "Expected floating point type for target with class probabilities, got %s",
                              mt__scalar_type(target->dtype));
    if (self->rank == 0)
        return mt__fail(MT_E_VALUE, "Expected 1 or more dimensions (got 0)");
    if (!(smoothing >= 0 && smoothing <= 1))
        return mt__fail(MT_E_RUNTIME, "label_smoothing must be between 0.0 and 1.0. Got: %g", smoothing);
    if (same)
        return with_probabilities(call, class_dim, smoothing);
    if (smoothing > 0)
        return with_smoothing(call, class_dim, smoothing);
    mt_tensor *logs = MT(log_softmax, mt__arg_tensor(call, 0), class_dim);
    return mt__return(call,
                      MT(nll_loss_nd, logs, call->args[1], call->args[2], call->args[3], call->args[4]));
}
