/* runtime/autograd/grad_reduce.c - derivatives of reductions: the output's gradient, distributed
 * over the inputs. */
#include "runtime/autograd/autograd.h"
#include "runtime/ops/reduce.h"
#include <math.h>

/* grad with the reduced dims restored as size 1, unless keepdim kept them. dims: of argument `at`, or all. */
static mt_tensor *unsqueezed(mt__backward *b, mt_tensor *grad, const mt_value *dims, bool keepdim)
{
    const mt__meta *meta = mt__meta_of(b, 0);
    uint32_t mask = 0;
    if (keepdim || meta->rank == 0 || dims->kind == MT_NONE || (dims->kind == MT_INTS && dims->count == 0))
        return grad;
    bool one = dims->kind != MT_INTS;
    mt__dims_mask(one ? &dims->as.i : dims->as.ints, one ? 1 : dims->count, meta->rank, &mask);
    for (int i = 0; i < meta->rank; i++)
        if (mask >> i & 1u)
            grad = MT(unsqueeze, grad, i);
    return grad;
}

static int64_t numel_of(const mt__meta *meta)
{
    return mt__numel(meta->rank, meta->dims);
}

/* Cast to self's dtype, which the argument dtype may have changed. */
static mt_tensor *as_self(mt__backward *b, mt_tensor *grad)
{
    return MT(expand, grad, mt__meta_shape(mt__meta_of(b, 0)));
}

/* --------------------------------------------------------------------------------------------- sums and means */

MT__GRAD_OF_FIRST(sum, "SumBackward0", "", as_self(b, b->grads[0]))

MT__GRAD_OF_FIRST(sum_dim, "SumBackward1", "",
                  as_self(b, unsqueezed(b, b->grads[0], &b->args[1], b->args[2].as.i != 0)))

MT__GRAD_OF_FIRST(mean, "MeanBackward0", "", MT(div, as_self(b, b->grads[0]), numel_of(mt__meta_of(b, 0))))

static mt_status mean_dim_backward(mt__backward *b)
{
    int64_t outputs = numel_of(&b->node->outs[0]), n = numel_of(mt__meta_of(b, 0));
    mt_tensor *grad = unsqueezed(b, b->grads[0], &b->args[1], b->args[2].as.i != 0);
    mt__give(b, 0, MT(div, as_self(b, grad), outputs > 0 ? n / outputs : 1));
    return mt_scope_status();
}
const mt__grad mt__grad_mean_dim = {"MeanBackward1", "", mean_dim_backward};

/* ------------------------------------------------------------------------------------------------ products */

/* For every element the product of the others along dim: those before it times those after it. No division,
 * since some element is 0. */
static mt_tensor *product_of_others(mt_tensor *self, int dim)
{
    int64_t n = mt_dims(self)[dim];
    mt_tensor *parts[64], *before = NULL;
    if (n > (int64_t)MT__COUNT_OF(parts)) { /* halving keeps the tree shallow */
        int64_t half = n / 2;
        mt_tensor *low = MT(narrow, self, dim, 0, half), *high = MT(narrow, self, dim, half, n - half);
        mt_tensor *a = product_of_others(low, dim), *b = product_of_others(high, dim);
        a = MT(mul, a, MT(prod_dim, high, dim, true));
        b = MT(mul, b, MT(prod_dim, low, dim, true));
        return MT(cat, MT_LIST(a, b), dim);
    }
    for (int64_t i = 0; i < n; i++) {
        parts[i] = before;
        mt_tensor *one = MT(narrow, self, dim, i, 1);
        before = before != NULL ? MT(mul, before, one) : one;
    }
    mt_tensor *after = NULL;
    for (int64_t i = n - 1; i >= 0; i--) {
        mt_tensor *one = MT(narrow, self, dim, i, 1);
        mt_tensor *both = parts[i] == NULL ? after : after == NULL ? parts[i] : MT(mul, parts[i], after);
        parts[i] = both != NULL ? both : MT(ones_like, one);
        after = after != NULL ? MT(mul, after, one) : one;
    }
    return MT(cat, mt_value_tensors(parts, (uint32_t)n), dim);
}

/* zeros: per row, how many elements are 0. */
static bool has_zero(mt_tensor *zeros)
{
    int64_t count = 0;
    mt_tensor *total = MT(sum, zeros);
    return total == NULL || mt_item_int(total, &count) != MT_OK || count > 0;
}

static mt_status prod_backward(mt__backward *b)
{
    mt_tensor *self = b->args[0].as.tensor, *grad = b->grads[0];
    if (mt_rank(self) == 0) {
        mt__give(b, 0, grad);
        return mt_scope_status();
    }
    if (mt_numel(self) == 0) {
        mt__give(b, 0, MT(zeros_like, self));
        return mt_scope_status();
    }
    mt_tensor *zeros = MT(nonzero, MT(eq, self, 0));
    if (zeros == NULL)
        return mt_scope_status();
    if (mt_numel(zeros) == 0) {
        mt__give(b, 0, MT(mul, grad, MT(div, b->results[0], self)));
    } else {
        mt_tensor *flat = MT(reshape, self, MT_SHAPE(-1));
        mt_tensor *others = flat != NULL ? product_of_others(flat, 0) : NULL;
        mt__give(b, 0, MT(mul, grad, MT(reshape, others, mt__meta_shape(mt__meta_of(b, 0)))));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_prod = {"ProdBackward0", "self result", prod_backward};

static mt_status prod_dim_backward(mt__backward *b)
{
    mt_tensor *self = b->args[0].as.tensor, *grad = b->grads[0], *result = b->results[0];
    if (mt_rank(self) == 0) {
        mt__give(b, 0, grad);
        return mt_scope_status();
    }
    bool keepdim = b->args[2].as.i != 0;
    int dim = 0;
    mt__wrap_dim(b->args[1].as.i, mt_rank(self), &dim);
    grad = unsqueezed(b, grad, &b->args[1], keepdim);
    result = unsqueezed(b, result, &b->args[1], keepdim);
    mt_tensor *zeros = MT(sum_dim, MT(eq, self, 0), dim, true);
    if (mt_dims(self)[dim] == 0)
        mt__give(b, 0, MT(zeros_like, self));
    else if (has_zero(zeros))
        mt__give(b, 0, MT(mul, grad, product_of_others(self, dim)));
    else
        mt__give(b, 0, MT(mul, grad, MT(div, result, self)));
    return mt_scope_status();
}
const mt__grad mt__grad_prod_dim = {"ProdBackward1", "self result", prod_dim_backward};

/* ------------------------------------------------------------------------------------------------ extremes */

/* Distributed evenly over all elements that equal the result. */
static mt_status whole_backward(mt__backward *b)
{
    mt_tensor *self = b->args[0].as.tensor, *grad = b->grads[0], *result = b->results[0];
    double value = 0;
    mt_tensor *is_nan = MT(isnan, result);
    if (is_nan == NULL)
        return mt_scope_status();
    mt_status status = mt_item(is_nan, &value);
    if (status != MT_OK)
        return status;
    mt_tensor *mask = value != 0 ? MT(isnan, self) : MT(eq, self, result);
    mt_tensor *zeros = MT(new_zeros, grad, mt__meta_shape(mt__meta_of(b, 0)));
    mt__give(b, 0, MT(masked_fill_, zeros, mask, MT(div, grad, MT(sum, mask))));
    return mt_scope_status();
}
const mt__grad mt__grad_max = {"MaxBackward1", "self result", whole_backward};
const mt__grad mt__grad_min = {"MinBackward1", "self result", whole_backward};

static mt_tensor *with_dims(mt__backward *b, mt_tensor *t, const mt_value *dims, bool keepdim)
{
    const mt__meta *meta = mt__meta_of(b, 0);
    int64_t shape[MT_MAX_RANK];
    uint32_t mask = 0;
    if (keepdim || meta->rank == 0 || dims->count == 0)
        return t;
    mt__dims_mask(dims->as.ints, dims->count, meta->rank, &mask);
    for (int i = 0; i < meta->rank; i++)
        shape[i] = mask >> i & 1u ? 1 : meta->dims[i];
    return MT(reshape, t, mt_value_ints(shape, meta->rank));
}

static mt_status amax_backward(mt__backward *b)
{
    mt_value dims = b->args[1];
    bool keepdim = b->args[2].as.i != 0;
    mt_tensor *mask = MT(eq, with_dims(b, b->results[0], &dims, keepdim), b->args[0]);
    mt_tensor *grad = with_dims(b, b->grads[0], &dims, keepdim);
    mt__give(b, 0, MT(mul, MT(div, grad, MT(sum_dim, mask, dims, true)), mask));
    return mt_scope_status();
}
const mt__grad mt__grad_amax = {"AmaxBackward0", "self result", amax_backward};
const mt__grad mt__grad_amin = {"AminBackward0", "self result", amax_backward};

/* max(dim), topk, sort: the indices say where the values came from. */
static void give_selected(mt__backward *b, int64_t dim, bool keepdim)
{
    if (b->grads[0] != NULL)
        mt__give(b, 0,
                 MT(value_selecting_reduction_backward, b->grads[0], dim, b->results[1],
                    mt__meta_shape(mt__meta_of(b, 0)), keepdim));
}

static mt_status pick_backward(mt__backward *b)
{
    give_selected(b, b->args[1].as.i, b->args[2].as.i != 0);
    return mt_scope_status();
}
const mt__grad mt__grad_max_dim = {"MaxBackward0", "result1", pick_backward};
const mt__grad mt__grad_min_dim = {"MinBackward0", "result1", pick_backward};

static mt_status topk_backward(mt__backward *b)
{
    give_selected(b, b->args[2].as.i, true);
    return mt_scope_status();
}
const mt__grad mt__grad_topk = {"TopkBackward0", "result1", topk_backward};

static mt_status sort_backward(mt__backward *b)
{
    give_selected(b, b->args[1].as.i, true);
    return mt_scope_status();
}
const mt__grad mt__grad_sort = {"SortBackward0", "result1", sort_backward};

/* ------------------------------------------------------------------------------------------------- moments */

/* 2 grad (self - mean) / (n - correction) */
static mt_tensor *variance_slope(mt__backward *b, mt_tensor *grad)
{
    const mt_value *a = b->args; /* self, dim, correction, keepdim */
    const mt__meta *meta = mt__meta_of(b, 0);
    double correction = a[2].kind == MT_NONE ? 1 : mt__value_number(&a[2]);
    int64_t outputs = numel_of(&b->node->outs[0]), n = outputs > 0 ? numel_of(meta) / outputs : 0;
    bool all = meta->rank == 0 || a[1].kind == MT_NONE || a[1].count == 0;
    if (!all)
        grad = unsqueezed(b, grad, &a[1], a[3].as.i != 0);
    mt_tensor *mean = all ? MT(mean, a[0]) : MT(mean_dim, a[0], a[1], true);
    if (all && (double)n - correction <= 0) /* as in PyTorch, which does not do so with dims */
        return MT(mul, grad, MT(where, MT(eq, a[0], mean), (double)NAN, (double)INFINITY));
    mt_tensor *centred = MT(sub, a[0], mean);
    return MT(mul, MT(mul, grad, 2.0 / ((double)n - correction)), centred);
}

MT__GRAD_OF_FIRST(var, "VarBackward0", "self", variance_slope(b, b->grads[0]))

static mt_status std_backward(mt__backward *b)
{
    mt_tensor *twice = MT(mul, b->results[0], 2);
    mt_tensor *grad = MT(div, b->grads[0], twice);
    grad = MT(masked_fill_, grad, MT(eq, b->results[0], 0), 0);
    mt__give(b, 0, variance_slope(b, grad));
    return mt_scope_status();
}
const mt__grad mt__grad_std = {"StdBackward0", "self result", std_backward};

/* self |self|^(p - 2) / norm^(p - 1) */
static mt_tensor *norm_slope(mt_tensor *self, mt_tensor *norm, double p, const mt_value *dims,
                             mt_tensor *grad)
{
    if (p == 1)
        return MT(mul, MT(sign, self), grad);
    if (p == 2) {
        mt_tensor *unit = MT(div, self, norm);
        return MT(mul, grad, MT(masked_fill_, unit, MT(eq, norm, 0), 0));
    }
    if (p == __builtin_inf() || p == -__builtin_inf()) {
        mt_tensor *mask = MT(logical_or, MT(eq, MT(abs, self), norm), MT(isnan, self));
        mt_tensor *count = MT(sum_dim, mask, *dims, true);
        return MT(mul, MT(sign, self), MT(mul, MT(div, grad, count), mask));
    }
    mt_tensor *along;
    if (p < 2) {
        along = MT(mul, MT(pow, MT(abs, self), p - 1), MT(sign, self));
        along = p < 1 ? MT(masked_fill, along, MT(eq, self, 0), 0) : along;
    } else {
        along = MT(mul, self, MT(pow, MT(abs, self), p - 2));
    }
    mt_tensor *scale = MT(div, grad, MT(pow, norm, p - 1));
    return MT(mul, along, MT(masked_fill_, scale, MT(eq, norm, 0), 0));
}

static mt_status norm_backward(mt__backward *b)
{
    const mt_value *a = b->args; /* self, ord, dim, keepdim */
    double p = mt__value_number(&a[1]);
    if (p == 0)
        return MT_OK; /* a count has zero derivative */
    bool keepdim = a[3].as.i != 0;
    mt_tensor *grad = unsqueezed(b, b->grads[0], &a[2], keepdim),
              *norm = unsqueezed(b, b->results[0], &a[2], keepdim);
    mt__give(b, 0, norm_slope(a[0].as.tensor, norm, p, &a[2], grad));
    return mt_scope_status();
}
const mt__grad mt__grad_vector_norm = {"LinalgVectorNormBackward0", "self result", norm_backward};

static mt_status logsumexp_backward(mt__backward *b)
{
    const mt_value *a = b->args; /* self, dim, keepdim */
    bool keepdim = a[2].as.i != 0;
    mt_tensor *grad = unsqueezed(b, b->grads[0], &a[1], keepdim),
              *result = unsqueezed(b, b->results[0], &a[1], keepdim);
    mt__give(b, 0, MT(mul, grad, MT(exp, MT(sub, a[0], result))));
    return mt_scope_status();
}
const mt__grad mt__grad_logsumexp = {"LogsumexpBackward0", "self result", logsumexp_backward};

static mt_status cumsum_backward(mt__backward *b)
{
    mt_tensor *grad = b->grads[0];
    int dim = 0;
    if (mt__meta_of(b, 0)->rank == 0 || mt_numel(grad) <= 1) {
        mt__give(b, 0, grad);
        return mt_scope_status();
    }
    if (grad->dtype != mt__meta_of(b, 0)->dtype)
        grad = MT(to_dtype, grad, (int64_t)mt__meta_of(b, 0)->dtype);
    mt__wrap_dim(b->args[1].as.i, mt__meta_of(b, 0)->rank, &dim);
    mt__give(b, 0, MT(flip, MT(cumsum, MT(flip, grad, dim), dim), dim));
    return mt_scope_status();
}
const mt__grad mt__grad_cumsum = {"CumsumBackward0", "", cumsum_backward};
