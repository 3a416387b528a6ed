/* runtime/ops/norm.c - softmax and normalisations: PyTorch's argument checks, outputs, composites. */
#include "runtime/narrow.h"
#include "runtime/ops/reduce.h"

/* ------------------------------------------------------------------------------------------------- softmax */

mt_status mt__infer_softmax(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), self->rank, &dim);
    if (status != MT_OK)
        return status;
    if (!mt__is_floating((mt_dtype)self->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s%s_kernel_impl\" not implemented for '%s'",
                        call->op->name + 7, dim >= self->rank - 1 ? "_lastdim" : "",
                        mt__scalar_type(self->dtype));
    return mt__empty_like(self, (mt_dtype)self->dtype, &call->outs[0]);
}

mt_status mt__infer_softmax_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *output = mt__arg_tensor(call, 1);
    int dim;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 2), grad->rank, &dim);
    if (status != MT_OK)
        return status;
    if (grad->rank != output->rank ||
        memcmp(grad->dims, output->dims, grad->rank * sizeof *grad->dims) != 0 ||
        grad->dtype != output->dtype || !mt__is_floating((mt_dtype)grad->dtype))
        return mt__fail(MT_E_RUNTIME, "%s: grad_output (%s %s) and output (%s %s) do not match",
                        mt__op_short_name(call->op), mt__scalar_type(grad->dtype),
                        mt__shape_text(grad->dims, grad->rank), mt__scalar_type(output->dtype),
                        mt__shape_text(output->dims, output->rank));
    return mt__empty_like(grad, (mt_dtype)grad->dtype, &call->outs[0]);
}

static mt_tensor *in_dtype(const mt__call *call, unsigned at)
{
    mt_tensor *self = mt__arg_tensor(call, 0);
    return mt__arg_given(call, at) && self->dtype != mt__arg_int(call, at)
               ? MT(to_dtype, self, mt__arg_int(call, at))
               : self;
}

mt_status mt__composite_softmax(mt__call *call)
{
    return mt__return(call, MT(_softmax, in_dtype(call, 2), mt__arg_int(call, 1), false));
}
mt_status mt__composite_log_softmax(mt__call *call)
{
    return mt__return(call, MT(_log_softmax, in_dtype(call, 2), mt__arg_int(call, 1), false));
}

/* ---------------------------------------------------------------------------------------------- layer_norm */

/* A half may be normalised with statistics and parameters of float32: by the first of `parts` that is given. */
static bool is_mixed(const mt_tensor *x, const mt_tensor *const *parts, int count)
{
    for (int i = 0; i < count; i++)
        if (parts[i] != NULL)
            return mt__is_narrow(x->dtype) && parts[i]->dtype != x->dtype;
    return false;
}

static mt_dtype dtype_of_parts(const mt_tensor *x, const mt_tensor *const *parts, int count)
{
    return is_mixed(x, parts, count) ? MT_FLOAT32 : (mt_dtype)x->dtype;
}

static mt_status check_parts(const mt_tensor *x, const mt_tensor *const *parts, int count)
{
    mt_dtype dtype = dtype_of_parts(x, parts, count);
    for (int i = 0; i < count; i++) {
        if (parts[i] == NULL || parts[i]->dtype == dtype)
            continue;
        if (mt__is_narrow(dtype))
            return mt__fail(MT_E_RUNTIME, "expected scalar type %s but found %s", mt__scalar_type(dtype),
                            mt__scalar_type(parts[i]->dtype));
        return mt__fail(MT_E_RUNTIME, "mixed dtype (CPU): %s",
                        x->dtype != MT_FLOAT64 ? "expect parameter to have scalar type of Float"
                                               : "all inputs must share same datatype.");
    }
    return MT_OK;
}

/* The shapes of layer_norm and rms_norm. */
static mt_status check_normalized(const mt_tensor *x, const mt_value *shape, const mt_tensor *weight,
                                  const mt_tensor *bias)
{
    int k = (int)shape->count;
    const int64_t *dims = shape->as.ints;
    if (k < 1)
        return mt__fail(
            MT_E_RUNTIME,
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []");
    const mt_tensor *given[] = {weight, bias};
    static const char *const names[] = {"weight", "bias"};
    for (int i = 0; i < 2; i++)
        if (given[i] != NULL &&
            (given[i]->rank != k || memcmp(given[i]->dims, dims, (size_t)k * sizeof *dims) != 0))
            return mt__fail(MT_E_RUNTIME,
                            "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "
                            "normalized_shape = %s",
                            names[i], names[i], mt__shape_text(given[i]->dims, given[i]->rank),
                            mt__shape_text(dims, k));
    if (x->rank < k || memcmp(x->dims + x->rank - k, dims, (size_t)k * sizeof *dims) != 0) {
        const char *text = mt__shape_text(dims, k);
        return mt__fail(
            MT_E_RUNTIME,
            "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", text,
            text + 1, mt__shape_text(x->dims, x->rank));
    }
    return MT_OK;
}

static mt_status check_layer_norm(const mt_tensor *x, const mt_value *shape, const mt_tensor *weight,
                                  const mt_tensor *bias)
{
    const mt_tensor *given[] = {weight, bias};
    mt_status status = check_normalized(x, shape, weight, bias);
    if (status != MT_OK)
        return status;
    if (!mt__is_floating((mt_dtype)x->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"LayerNormKernelImpl\" not implemented for '%s'",
                        mt__scalar_type(x->dtype));
    return check_parts(x, given, 2);
}

/* One output like x and two of another size and dtype, where `wanted`. */
static mt_status norm_outs(mt__call *call, const int64_t *wanted, const mt_tensor *x, mt_dtype dtype,
                           int rank, const int64_t *dims)
{
    mt_status status = wanted[0] ? mt__empty_like(x, (mt_dtype)x->dtype, &call->outs[0]) : MT_OK;
    for (unsigned i = 1; i < 3 && status == MT_OK; i++)
        if (wanted[i])
            status = mt__empty(dtype, x->device, rank, dims, &call->outs[i]);
    return status;
}

mt_status mt__infer_layer_norm(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 0);
    mt_status status = check_layer_norm(x, &call->args[1], mt__arg_tensor(call, 2), mt__arg_tensor(call, 3));
    if (status != MT_OK)
        return status;
    int64_t dims[MT_MAX_RANK];
    int outer = x->rank - (int)call->args[1].count;
    for (int i = 0; i < x->rank; i++)
        dims[i] = i < outer ? x->dims[i] : 1;
    const mt_tensor *parts[] = {mt__arg_tensor(call, 2), mt__arg_tensor(call, 3)};
    return norm_outs(call, (const int64_t[]){1, 1, 1}, x, dtype_of_parts(x, parts, 2), x->rank, dims);
}

/* The outputs that the mask requests: like x, weight, weight. */
static mt_status masked_outs(mt__call *call, unsigned mask_at, const mt_tensor *x, mt_dtype dtype, int rank,
                             const int64_t *dims)
{
    const mt_value *mask = &call->args[mask_at];
    if (mask->count != 3)
        return mt__fail(MT_E_RUNTIME, "%s: output_mask must have 3 elements, not %u",
                        mt__op_short_name(call->op), mask->count);
    return norm_outs(call, mask->as.ints, x, dtype, rank, dims);
}

/* Does t have x's dtype, or that of its statistics, and n elements? It may be NULL if `optional`. */
static mt_status check_part(const mt__call *call, const char *name, const mt_tensor *t, const mt_tensor *x,
                            int64_t n, bool optional)
{
    bool fits = t != NULL && (t->dtype == x->dtype || t->dtype == mt__wide((mt_dtype)x->dtype));
    if (t == NULL ? optional : fits && t->numel == n)
        return MT_OK;
    return mt__fail(MT_E_RUNTIME, "%s: %s must be a %s tensor of %lld elements", mt__op_short_name(call->op),
                    name, mt__scalar_type(x->dtype), (long long)n);
}

mt_status mt__infer_layer_norm_backward(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 1), *weight = mt__arg_tensor(call, 5);
    const mt_value *shape = &call->args[2];
    mt_status status = check_layer_norm(x, shape, weight, mt__arg_tensor(call, 6));
    int64_t n = mt__numel((int)shape->count, shape->as.ints);
    int64_t rows = n > 0 ? x->numel / n : mt__numel(x->rank - (int)shape->count, x->dims);
    if (status == MT_OK)
        status = check_part(call, "grad_out", mt__arg_tensor(call, 0), x, x->numel, false);
    if (status == MT_OK)
        status = check_part(call, "mean", mt__arg_tensor(call, 3), x, rows, false);
    if (status == MT_OK)
        status = check_part(call, "rstd", mt__arg_tensor(call, 4), x, rows, false);
    const mt_tensor *parts[] = {weight, mt__arg_tensor(call, 6)};
    mt_dtype dtype = dtype_of_parts(x, parts, 2);
    return status == MT_OK ? masked_outs(call, 7, x, dtype, (int)shape->count, shape->as.ints) : status;
}

mt_status mt__composite_layer_norm(mt__call *call)
{
    return mt__return(call, MT(native_layer_norm, mt__arg_tensor(call, 0), call->args[1], call->args[2],
                               call->args[3], mt__arg_number(call, 4)));
}

/* ------------------------------------------------------------------------------------------------ rms_norm */

mt_status mt__composite_rms_norm(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 0);
    mt_tensor *outs[2] = {NULL, NULL};
    mt_status status = check_normalized(x, &call->args[1], mt__arg_tensor(call, 2), NULL);
    if (status != MT_OK)
        return status;
    if (!mt__is_floating((mt_dtype)x->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"rms_norm\" not implemented for '%s'",
                        mt__scalar_type(x->dtype));
    status = mt_call_scoped_n(MT_OP__fused_rms_norm, call->args, 4, outs);
    return status == MT_OK ? mt__return(call, outs[0]) : status;
}

/* x / sqrt(mean(x^2) + eps), times the weight. */
mt_status mt__composite_fused_rms_norm(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0);
    int64_t dims[MT_MAX_RANK];
    uint32_t count = call->args[1].count;
    double eps = mt__arg_given(call, 3)   ? mt__arg_number(call, 3)
                 : x->dtype != MT_FLOAT64 ? 0x1p-23
                                          : 0x1p-52;
    mt_status status = check_normalized(x, &call->args[1], mt__arg_tensor(call, 2), NULL);
    if (status != MT_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        dims[i] = x->rank - (int)count + (int)i;
    x = MT(to_dtype, x, (int64_t)mt__wide((mt_dtype)x->dtype)); /* halves are rounded once, at the end */
    mt_tensor *scale = MT(mean_dim, MT(pow, x, 2), mt_value_ints(dims, count), true);
    scale = MT(rsqrt, MT(add_, scale, eps));
    mt_tensor *out = MT(mul, x, scale);
    if (mt__arg_given(call, 2))
        out = MT(mul, out, call->args[2]);
    call->outs[1] = mt_retain(scale);
    return mt__return(call, MT(type_as, out, call->args[0]));
}

/* ---------------------------------------------------------------------------------------------- batch_norm */

static mt_status check_channels(const char *name, const mt_tensor *t, int64_t channels)
{
    if (t == NULL || t->numel == channels)
        return MT_OK;
    return mt__fail(MT_E_RUNTIME, "%s should contain %lld elements not %lld", name, (long long)channels,
                    (long long)t->numel);
}

static mt_status check_batch_norm(const mt_tensor *x, const mt_tensor *const parts[4], bool training)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    int dim;
    if (x->rank < 2)
        return mt__wrap_dim(1, x->rank, &dim);
    for (int k = 0; k < 4; k++) {
        int i = (k + 2) % 4;
        if (i >= 2 && !training && parts[i] == NULL)
            return mt__fail(MT_E_RUNTIME, "%s must be defined in evaluation mode", names[i]);
        mt_status status = check_channels(names[i], parts[i], x->dims[1]);
        if (status != MT_OK)
            return status;
    }
    if ((parts[2] == NULL) != (parts[3] == NULL))
        return mt__fail(MT_E_VALUE,
                        "running_mean and running_var must either both be None or neither be None");
    if (!mt__is_floating((mt_dtype)x->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"batch_norm\" not implemented for '%s'",
                        mt__scalar_type(x->dtype));
    return check_parts(x, parts, 4);
}

mt_status mt__infer_batch_norm(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 0);
    const mt_tensor *parts[] = {mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), mt__arg_tensor(call, 3),
                                mt__arg_tensor(call, 4)};
    bool training = mt__arg_int(call, 5) != 0;
    mt_status status = check_batch_norm(x, parts, training);
    if (status != MT_OK)
        return status;
    int64_t saved = training ? x->dims[1] : 0;
    return norm_outs(call, (const int64_t[]){1, 1, 1}, x, dtype_of_parts(x, parts, 4), 1, &saved);
}

mt_status mt__infer_batch_norm_backward(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 1);
    bool training = mt__arg_int(call, 7) != 0;
    const mt_tensor *parts[] = {mt__arg_tensor(call, 2), NULL, mt__arg_tensor(call, 3),
                                mt__arg_tensor(call, 4)};
    mt_status status = check_batch_norm(x, parts, training);
    if (status == MT_OK)
        status = check_part(call, "grad_out", mt__arg_tensor(call, 0), x, x->numel, false);
    if (status == MT_OK && training)
        status = check_part(call, "save_mean", mt__arg_tensor(call, 5), x, x->dims[1], false);
    if (status == MT_OK && training)
        status = check_part(call, "save_invstd", mt__arg_tensor(call, 6), x, x->dims[1], false);
    return status == MT_OK ? masked_outs(call, 9, x, dtype_of_parts(x, parts, 4), 1, &x->dims[1]) : status;
}

mt_status mt__composite_batch_norm_impl_index(mt__call *call)
{
    const mt_value *a = call->args;
    mt_tensor *outs[3];
    mt_status status = MT_N(native_batch_norm, outs, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    for (int i = 0; i < 3; i++)
        call->outs[i] = mt_retain(outs[i]);
    return status;
}

mt_status mt__composite_batch_norm(mt__call *call)
{
    const mt_value *a = call->args;
    return mt__return(call, MT(_batch_norm_impl_index, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]));
}

/* ------------------------------------------------------------------------------- group_norm, instance_norm */

/* A vector of the channels as (1, channels, 1 ...), in dtype. */
static mt_tensor *along_channels(mt_tensor *t, int rank, mt_dtype dtype)
{
    int64_t dims[MT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == 1 ? t->numel : 1;
    if (t->dtype != (uint8_t)dtype)
        t = MT(to_dtype, t, (int64_t)dtype);
    return MT(view, t, mt_value_ints(dims, (uint32_t)rank));
}

static mt_status check_group_norm(const mt_tensor *x, int64_t groups, const mt_tensor *const parts[2])
{
    static const char *const names[] = {"weight", "bias"};
    int dim;
    if (x->rank < 2)
        return mt__wrap_dim(1, x->rank, &dim);
    if (groups < 1)
        return mt__fail(MT_E_RUNTIME, "Expected num groups to be greater than 0, got %lld",
                        (long long)groups);
    if (x->dims[1] % groups != 0)
        return mt__fail(
            MT_E_RUNTIME,
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            "%s and num_groups=%lld",
            mt__shape_text(x->dims, x->rank), (long long)groups);
    for (int i = 0; i < 2; i++)
        if (parts[i] != NULL && (parts[i]->rank != 1 || parts[i]->numel != x->dims[1]))
            return mt__fail(
                MT_E_RUNTIME,
                "Expected %s to be a vector of size equal to the number of channels in input, but got "
                "%s of shape %s and input of shape %s",
                names[i], names[i], mt__shape_text(parts[i]->dims, parts[i]->rank),
                mt__shape_text(x->dims, x->rank));
    if (!mt__is_floating((mt_dtype)x->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"GroupNormKernelImpl\" not implemented for '%s'",
                        mt__scalar_type(x->dtype));
    return check_parts(x, parts, 2);
}

/* Each group is a row of a layer_norm; halves are rounded once, at the end. */
mt_status mt__composite_group_norm(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0), *weight = mt__arg_tensor(call, 2),
              *bias = mt__arg_tensor(call, 3);
    const mt_tensor *parts[] = {weight, bias};
    int64_t groups = mt__arg_int(call, 1);
    mt_status status = check_group_norm(x, groups, parts);
    if (status != MT_OK)
        return status;
    mt_dtype wide = mt__wide((mt_dtype)x->dtype);
    int64_t rows = x->dims[0] * groups, size = rows > 0 ? x->numel / rows : 0;
    mt_value dims = mt_value_ints(x->dims, x->rank);
    mt_tensor *flat = MT(reshape, x, MT_SHAPE(rows, size));
    if (wide != (mt_dtype)x->dtype)
        flat = MT(to_dtype, flat, (int64_t)wide);
    mt_tensor *out =
        MT(layer_norm, flat, MT_SHAPE(size), (mt_tensor *)NULL, (mt_tensor *)NULL, mt__arg_number(call, 4));
    out = MT(view, out, dims);
    if (weight != NULL)
        out = MT(mul, out, along_channels(weight, x->rank, wide));
    if (bias != NULL)
        out = MT(add, out, along_channels(bias, x->rank, wide));
    return mt__return(call, wide != (mt_dtype)x->dtype ? MT(to_dtype, out, (int64_t)x->dtype) : out);
}

static mt_tensor *repeated(mt_tensor *t, int64_t times)
{
    return t != NULL ? MT(repeat, t, MT_SHAPE(times)) : NULL;
}

/* Takes the mean over the images of what batch_norm left. */
static void keep_statistics(mt_tensor *kept, mt_tensor *of_each, int64_t images)
{
    if (kept == NULL)
        return;
    mt_tensor *rows = MT(view, of_each, MT_SHAPE(images, kept->numel));
    MT(copy_, MT(alias, kept), MT(mean_dim, rows, MT_SHAPE(0)));
}

/* instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled): as
 * PyTorch's, a batch_norm of one image that has the channels of all. */
mt_status mt__composite_instance_norm(mt__call *call)
{
    mt_tensor *x = mt__arg_tensor(call, 0), *mean = mt__arg_tensor(call, 3), *var = mt__arg_tensor(call, 4);
    bool of_input = mt__arg_int(call, 5) != 0;
    int64_t dims[MT_MAX_RANK];
    if (x->rank < 2)
        return mt__fail(MT_E_RUNTIME, "Expected at least 2 dimensions for input tensor but received %d",
                        x->rank);
    if (!of_input && (mean == NULL || var == NULL))
        return mt__fail(MT_E_RUNTIME, "Expected running_mean and running_var to be defined when "
                                      "use_input_stats is false");
    int64_t images = x->dims[0];
    memcpy(dims, x->dims, x->rank * sizeof *dims);
    dims[0] = 1;
    dims[1] *= images;
    mt_tensor *weight = repeated(mt__arg_tensor(call, 1), images),
              *bias = repeated(mt__arg_tensor(call, 2), images);
    mt_tensor *means = repeated(mean, images), *vars = repeated(var, images);
    mt_tensor *flat = MT(view, MT(contiguous, x), mt_value_ints(dims, x->rank));
    mt_tensor *out = MT(batch_norm, flat, weight, bias, means, vars, of_input, mt__arg_number(call, 6),
                        mt__arg_number(call, 7), mt__arg_int(call, 8) != 0);
    if (of_input) {
        keep_statistics(mean, means, images);
        keep_statistics(var, vars, images);
    }
    return mt__return(call, MT(view, out, mt_value_ints(x->dims, x->rank)));
}
