/* runtime/autograd/grad_nn.c - derivatives of softmax and of the normalisations.
 *
 * If the derivative itself is to be differentiated (create_graph: grad mode is on), those of the norms are
 * computed by ops that have derivatives, since their kernels have none.
 */
#include "runtime/autograd/autograd.h"

/* ------------------------------------------------------------------------------------------------- softmax */

MT__GRAD_OF_FIRST(softmax, "SoftmaxBackward0", "result",
                  MT(_softmax_backward_data, b->grads[0], b->results[0], b->args[1],
                     (int64_t)mt__meta_of(b, 0)->dtype))

MT__GRAD_OF_FIRST(log_softmax, "LogSoftmaxBackward0", "result",
                  MT(_log_softmax_backward_data, b->grads[0], b->results[0], b->args[1],
                     (int64_t)mt__meta_of(b, 0)->dtype))

/* y (g - sum(g y)), with respect to g and y */
static mt_status softmax_data_backward(mt__backward *b)
{
    mt_tensor *grad = b->grads[0];
    mt_value g = b->args[0], y = b->args[1], dim = b->args[2];
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(_softmax_backward_data, grad, y, dim, b->args[3]));
    if (mt__wants(b, 1)) {
        mt_tensor *along = MT(sum_dim, MT(mul, g, y), dim, true);
        mt_tensor *a = MT(sub, MT(mul, grad, g), MT(mul, grad, along));
        mt__give(b, 1, MT(sub, a, MT(mul, MT(sum_dim, MT(mul, grad, y), dim, true), g)));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_softmax_backward = {"SoftmaxBackwardDataBackward0", "grad_output output",
                                            softmax_data_backward};

/* g - exp(y) sum(g), with respect to g and y */
static mt_status log_softmax_data_backward(mt__backward *b)
{
    mt_tensor *grad = b->grads[0], *p = MT(exp, b->args[1]);
    mt_value dim = b->args[2];
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(sub, grad, MT(sum_dim, MT(mul, grad, p), dim, true)));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, MT(mul, MT(neg, MT(sum_dim, b->args[0], dim, true)), p), grad));
    return mt_scope_status();
}
const mt__grad mt__grad_log_softmax_backward = {"LogSoftmaxBackwardDataBackward0", "grad_output output",
                                                log_softmax_data_backward};

/* --------------------------------------------------------------------------------------------------- norms */

/* With xhat = (x - mean) rstd, mean and rstd over dims; shaped: weight and bias broadcast against x. */
typedef struct parts {
    mt_value dims;                /* the normalised ones */
    mt_value outer;               /* the others */
    mt_tensor *x, *grad, *weight; /* weight may be NULL */
    double eps;
} parts;

static void give_sum(mt__backward *b, unsigned arg, mt_tensor *t, const parts *p)
{
    if (p->outer.count > 0)
        t = MT(sum_dim, t, p->outer);
    mt__give(b, arg, MT(view, t, mt__meta_shape(mt__meta_of(b, arg))));
}

/* rstd (gw - mean(gw) - xhat mean(gw xhat)), where every part is a function of x, grad and weight. */
static mt_status norm_in_ops(mt__backward *b, const parts *p, unsigned x_at, unsigned weight_at,
                             unsigned bias_at)
{
    mt_tensor *centred = MT(sub, p->x, MT(mean_dim, p->x, p->dims, true));
    mt_tensor *var = MT(mean_dim, MT(mul, centred, centred), p->dims, true);
    mt_tensor *rstd = MT(rsqrt, MT(add, var, p->eps));
    mt_tensor *xhat = MT(mul, centred, rstd);
    if (mt__wants(b, x_at)) {
        mt_tensor *gw = p->weight != NULL ? MT(mul, p->grad, p->weight) : p->grad;
        mt_tensor *inner = MT(sub, gw, MT(mean_dim, gw, p->dims, true));
        inner = MT(sub, inner, MT(mul, xhat, MT(mean_dim, MT(mul, gw, xhat), p->dims, true)));
        mt__give(b, x_at, MT(mul, inner, rstd));
    }
    if (mt__wants(b, weight_at))
        give_sum(b, weight_at, MT(mul, p->grad, xhat), p);
    if (mt__wants(b, bias_at))
        give_sum(b, bias_at, p->grad, p);
    return mt_scope_status();
}

static mt_status layer_norm_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    mt_tensor *weight = a[2].kind == MT_TENSOR ? a[2].as.tensor : NULL;
    if (b->grads[0] == NULL)
        return MT_OK;
    if (mt__grad_mode) {
        const mt__meta *meta = mt__meta_of(b, 0);
        int64_t all[MT_MAX_RANK];
        for (int i = 0; i < meta->rank; i++)
            all[i] = i;
        uint32_t k = a[1].count, lead = meta->rank - k;
        parts p = {
            mt_value_ints(all + lead, k), mt_value_ints(all, lead), a[0].as.tensor, b->grads[0], weight,
            mt__value_number(&a[4])};
        return norm_in_ops(b, &p, 0, 2, 3);
    }
    mt_tensor *outs[3];
    MT_N(native_layer_norm_backward, outs, b->grads[0], a[0], a[1], b->results[1], b->results[2], weight,
         a[3], MT_SHAPE(mt__wants(b, 0), mt__wants(b, 2), mt__wants(b, 3)));
    mt__give(b, 0, outs[0]);
    mt__give(b, 2, outs[1]);
    mt__give(b, 3, outs[2]);
    return mt_scope_status();
}
const mt__grad mt__grad_layer_norm = {"NativeLayerNormBackward0", "input weight bias result1 result2",
                                      layer_norm_backward, .only_first = true};

static mt_status batch_norm_in_ops(mt__backward *b)
{
    const mt_value *a = b->args;
    const mt__meta *meta = mt__meta_of(b, 0);
    int64_t over[MT_MAX_RANK], shape[MT_MAX_RANK];
    uint32_t n = 0;
    for (int i = 0; i < meta->rank; i++) {
        shape[i] = i == 1 ? meta->dims[1] : 1;
        if (i != 1)
            over[n++] = i;
    }
    mt_value seen = mt_value_ints(shape, meta->rank);
    mt_tensor *weight = a[1].kind == MT_TENSOR ? MT(view, a[1], seen) : NULL;
    parts p = {mt_value_ints(over, n), mt_value_ints(over, n), a[0].as.tensor, b->grads[0], weight,
               mt__value_number(&a[7])};
    if (a[5].as.i)
        return norm_in_ops(b, &p, 0, 1, 2);
    mt_tensor *rstd = MT(rsqrt, MT(add, MT(view, a[4], seen), p.eps));
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(mul, weight != NULL ? MT(mul, p.grad, weight) : p.grad, rstd));
    if (mt__wants(b, 1))
        give_sum(b, 1, MT(mul, p.grad, MT(mul, MT(sub, p.x, MT(view, a[3], seen)), rstd)), &p);
    if (mt__wants(b, 2))
        give_sum(b, 2, p.grad, &p);
    return mt_scope_status();
}

static mt_status batch_norm_backward(mt__backward *b)
{
    const mt_value *a = b->args;
    if (b->grads[0] == NULL)
        return MT_OK;
    if (mt__grad_mode)
        return batch_norm_in_ops(b);
    mt_tensor *outs[3];
    MT_N(native_batch_norm_backward, outs, b->grads[0], a[0], a[1], a[3], a[4], b->results[1], b->results[2],
         a[5], a[7], MT_SHAPE(mt__wants(b, 0), mt__wants(b, 1), mt__wants(b, 2)));
    mt__give(b, 0, outs[0]);
    mt__give(b, 1, outs[1]);
    mt__give(b, 2, outs[2]);
    return mt_scope_status();
}
const mt__grad mt__grad_batch_norm = {
    "NativeBatchNormBackward0", "input weight running_mean running_var result1 result2", batch_norm_backward,
    .constants = "running_mean running_var", .only_first = true};
