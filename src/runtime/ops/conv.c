/* runtime/ops/conv.c - convolutions: arguments, shapes and messages. Nothing here touches data. */
#include "runtime/ops/conv.h"

/* -------------------------------------------------------------------------------------------- arguments */

/* A list with one number per spatial dim, or a single number for all. */
static mt_status read_list(const mt_value *v, const char *what, int spatial, int64_t least, int64_t fill,
                           int64_t out[2])
{
    if (v->count != 1 && v->count != (uint32_t)spatial)
        return mt__fail(MT_E_RUNTIME,
                        "expected %s to be a single integer value or a list of %d values to match the "
                        "convolution dimensions, but "
                        "got %s=%s",
                        what, spatial, what,
                        mt__shape_text(v->as.ints, v->count < MT_MAX_RANK ? (int)v->count : MT_MAX_RANK));
    out[0] = fill;
    for (int i = 0; i < spatial; i++) {
        int64_t x = v->as.ints[v->count == 1 ? 0 : i];
        if (x < least)
            return mt__fail(MT_E_RUNTIME,
                            least == 0 ? "negative %s is not supported" : "non-positive %s is not supported",
                            what);
        out[i + 2 - spatial] = x;
    }
    return MT_OK;
}

static mt_status read_lists(const mt__call *call, unsigned lists, int spatial, mt__conv *out)
{
    const mt_value *args = call->args + lists;
    mt_status status = read_list(&args[1], "padding", spatial, 0, 0, out->padding);
    if (status == MT_OK)
        status = read_list(&args[0], "stride", spatial, 1, 1, out->stride);
    if (status == MT_OK)
        status = read_list(&args[2], "dilation", spatial, 1, 1, out->dilation);
    out->groups = args[5].as.i;
    if (status == MT_OK && args[3].as.i != 0)
        status = mt__fail(MT_E_NOT_IMPLEMENTED, "convolution: transposed convolutions are not implemented");
    if (status == MT_OK && out->groups < 1)
        status = mt__fail(MT_E_RUNTIME, "non-positive groups is not supported");
    return status;
}

static mt_status check_shapes(const mt_tensor *input, const mt_tensor *weight, const mt_tensor *bias,
                              const mt__conv *c)
{
    long long groups = (long long)c->groups;
    const char *shape = mt__shape_text(weight->dims, weight->rank);
    if (weight->dims[0] < c->groups)
        return mt__fail(MT_E_RUNTIME,
                        "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got "
                        "weight of size %s instead",
                        groups, groups, shape);
    if (weight->dims[0] % c->groups != 0)
        return mt__fail(MT_E_RUNTIME,
                        "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got "
                        "weight of size [%s] "
                        "instead",
                        groups, groups, shape);
    if (input->dims[1] != weight->dims[1] * c->groups)
        return mt__fail(MT_E_RUNTIME,
                        "Given groups=%lld, weight of size %s, expected input%s to have %lld channels, but "
                        "got %lld channels instead",
                        groups, shape, mt__shape_text(input->dims, input->rank),
                        (long long)weight->dims[1] * groups, (long long)input->dims[1]);
    if (bias != NULL && (bias->rank != 1 || bias->dims[0] != weight->dims[0]))
        return mt__fail(MT_E_RUNTIME,
                        "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but "
                        "got bias of size %s "
                        "instead",
                        shape, (long long)weight->dims[0], mt__shape_text(bias->dims, bias->rank));
    return MT_OK;
}

static mt_status too_large(const mt__conv *c, int spatial)
{
    long long padded[2], kernel[2];
    for (int i = 0; i < 2; i++) {
        padded[i] = c->in[i] + 2 * c->padding[i];
        kernel[i] = c->dilation[i] * (c->kernel[i] - 1) + 1;
    }
    if (spatial == 1)
        return mt__fail(MT_E_RUNTIME,
                        "Calculated padded input size per channel: (%lld). Kernel size: (%lld). Kernel size "
                        "can't be greater than "
                        "actual input size",
                        padded[1], kernel[1]);
    return mt__fail(MT_E_RUNTIME,
                    "Calculated padded input size per channel: (%lld x %lld). Kernel size: (%lld x %lld). "
                    "Kernel size can't be "
                    "greater than actual input size",
                    padded[0], padded[1], kernel[0], kernel[1]);
}

static mt_status check_dtypes(const mt_tensor *input, const mt_tensor *weight, const mt_tensor *bias)
{
    if (input->dtype != weight->dtype)
        return mt__fail(MT_E_RUNTIME,
                        "Input type (torch.%sTensor) and weight type (torch.%sTensor) should be the same",
                        mt__scalar_type(input->dtype), mt__scalar_type(weight->dtype));
    if (bias != NULL && bias->dtype != input->dtype)
        return mt__fail(MT_E_RUNTIME, "Input type (%s) and bias type (%s) should be the same",
                        mt__c_type(input->dtype), mt__c_type(bias->dtype));
    if (input->dtype == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"slow_conv2d_cpu\" not implemented for 'Bool'");
    return MT_OK;
}

mt_status mt__conv_read(const mt__call *call, const mt_tensor *input, const mt_tensor *weight,
                        const mt_tensor *bias, unsigned lists, mt__conv *out)
{
    int spatial = weight->rank - 2;
    memset(out, 0, sizeof *out);
    if (spatial < 1 || spatial > 2)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "convolution: weights of %d dimensions are not implemented",
                        weight->rank);
    if (input->rank != weight->rank)
        return mt__fail(MT_E_RUNTIME,
                        "Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional "
                        "input of size %s instead",
                        weight->rank, weight->rank, mt__shape_text(weight->dims, weight->rank), input->rank,
                        mt__shape_text(input->dims, input->rank));
    mt_status status = read_lists(call, lists, spatial, out);
    if (status == MT_OK)
        status = check_shapes(input, weight, bias, out);
    if (status == MT_OK)
        status = check_dtypes(input, weight, bias);
    if (status != MT_OK)
        return status;
    out->images = input->dims[0];
    out->in_channels = input->dims[1];
    out->out_channels = weight->dims[0];
    for (int i = 0; i < 2; i++) {
        int d = i + spatial; /* of the tensors; with one spatial dim the first is absent */
        out->in[i] = d < 2 ? 1 : input->dims[d];
        out->kernel[i] = d < 2 ? 1 : weight->dims[d];
    }
    for (int i = 0; i < 2; i++) {
        int64_t room = out->in[i] + 2 * out->padding[i] - out->dilation[i] * (out->kernel[i] - 1) - 1;
        if (room < 0)
            return too_large(out, spatial);
        out->out[i] = room / out->stride[i] + 1;
    }
    return MT_OK;
}

/* ---------------------------------------------------------------------------------------------------- infer */

mt_status mt__infer_convolution(mt__call *call)
{
    const mt_tensor *input = mt__arg_tensor(call, 0), *weight = mt__arg_tensor(call, 1);
    mt__conv c;
    mt_status status = mt__conv_read(call, input, weight, mt__arg_tensor(call, 2), 3, &c);
    if (status != MT_OK)
        return status;
    int64_t dims[4] = {c.images, c.out_channels, c.out[0], c.out[1]};
    if (input->rank == 3)
        dims[2] = c.out[1];
    return mt__empty((mt_dtype)input->dtype, call->device, input->rank, dims, &call->outs[0]);
}

mt_status mt__infer_convolution_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *input = mt__arg_tensor(call, 1),
                    *weight = mt__arg_tensor(call, 2);
    const mt_value *mask = &call->args[10];
    mt__conv c;
    mt_status status = mt__conv_read(call, input, weight, NULL, 4, &c);
    if (status == MT_OK && mask->count != 3)
        status = mt__fail(MT_E_RUNTIME, "convolution_backward: output_mask must have 3 elements");
    if (status == MT_OK && grad->numel != c.images * c.out_channels * c.out[0] * c.out[1])
        status = mt__fail(MT_E_RUNTIME,
                          "convolution_backward: grad_output of size %s does not fit the convolution",
                          mt__shape_text(grad->dims, grad->rank));
    if (status == MT_OK && (grad->dtype != input->dtype || !mt__is_floating((mt_dtype)input->dtype)))
        status =
            mt__fail(MT_E_RUNTIME, "convolution_backward: grad_output must have the floating dtype of input");
    if (status == MT_OK && mask->as.ints[0])
        status = mt__empty_like(input, (mt_dtype)input->dtype, &call->outs[0]);
    if (status == MT_OK && mask->as.ints[1])
        status = mt__empty_like(weight, (mt_dtype)weight->dtype, &call->outs[1]);
    if (status == MT_OK && mask->as.ints[2])
        status = mt__empty((mt_dtype)weight->dtype, call->device, 1, weight->dims, &call->outs[2]);
    return status;
}

/* -------------------------------------------------------------------------------------- made of other ops */

static mt_status conv_nd(mt__call *call, int spatial)
{
    mt_tensor *input = mt__arg_tensor(call, 0), *weight = mt__arg_tensor(call, 1);
    bool batched = input->rank == spatial + 2;
    if (!batched && input->rank != spatial + 1)
        return mt__fail(
            MT_E_RUNTIME,
            "Expected %dD (unbatched) or %dD (batched) input to conv%dd, but got input of size: %s",
            spatial + 1, spatial + 2, spatial, mt__shape_text(input->dims, input->rank));
    if (!batched)
        input = MT(unsqueeze, input, 0);
    mt_tensor *out = MT(convolution, input, weight, call->args[2], call->args[3], call->args[4],
                        call->args[5], false, spatial == 1 ? MT_SHAPE(0) : MT_SHAPE(0, 0), call->args[6]);
    return mt__return(call, batched ? out : MT(squeeze_dim, out, 0));
}

mt_status mt__composite_conv2d(mt__call *call)
{
    return conv_nd(call, 2);
}

mt_status mt__composite_conv1d(mt__call *call)
{
    return conv_nd(call, 1);
}
