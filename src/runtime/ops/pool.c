/* runtime/ops/pool.c - max, average and adaptive pooling over the last two dims: arguments,
 * shapes and messages. */
#include "runtime/ops/pool.h"
#include "runtime/narrow.h"

static mt_status read_pair(const mt_value *v, const char *op, const char *what, int64_t out[2])
{
    if (v->count != 1 && v->count != 2)
        return mt__fail(MT_E_RUNTIME, "%s: %s must %s a single int, or a tuple of two ints", op, what,
                        strcmp(what, "stride") == 0        ? "either be omitted,"
                        : strcmp(what, "kernel_size") == 0 ? "either be"
                                                           : "be either");
    out[0] = v->as.ints[0];
    out[1] = v->as.ints[v->count - 1];
    return MT_OK;
}

/* The number of windows; with ceil, the last may extend past the end, but must start inside the input or
 * its left padding. */
static int64_t windows(const mt__pool *p, int d, bool ceil)
{
    int64_t room = p->in[d] + 2 * p->padding[d] - p->dilation[d] * (p->kernel[d] - 1) - 1 +
                   (ceil ? p->stride[d] - 1 : 0);
    int64_t n = room / p->stride[d] - (room % p->stride[d] < 0) + 1;
    return ceil && (n - 1) * p->stride[d] >= p->in[d] + p->padding[d] ? n - 1 : n;
}

static mt_status check_numbers(const mt__pool *p)
{
    if (p->stride[0] == 0 || p->stride[1] == 0)
        return mt__fail(MT_E_RUNTIME, "stride should not be zero");
    for (int d = 0; d < 2; d++) {
        if (p->padding[d] < 0)
            return mt__fail(MT_E_RUNTIME, "pad must be non-negative, but got pad: %lld",
                            (long long)p->padding[d]);
        if (p->dilation[d] >= 1 && p->padding[d] > ((p->kernel[d] - 1) * p->dilation[d] + 1) / 2)
            return mt__fail(MT_E_RUNTIME,
                            "pad should be at most half of effective kernel size, but got pad=%lld, "
                            "kernel_size=%lld and dilation=%lld",
                            (long long)p->padding[d], (long long)p->kernel[d], (long long)p->dilation[d]);
    }
    if (p->kernel[0] < 1 || p->kernel[1] < 1)
        return mt__fail(MT_E_RUNTIME, "kernel size should be greater than zero, but got kH: %lld kW: %lld",
                        (long long)p->kernel[0], (long long)p->kernel[1]);
    if (p->stride[0] < 1 || p->stride[1] < 1)
        return mt__fail(MT_E_RUNTIME, "stride should be greater than zero, but got dH: %lld dW: %lld",
                        (long long)p->stride[0], (long long)p->stride[1]);
    if (p->dilation[0] < 1 || p->dilation[1] < 1)
        return mt__fail(MT_E_RUNTIME,
                        "dilation should be greater than zero, but got dilationH: %lld dilationW: %lld",
                        (long long)p->dilation[0], (long long)p->dilation[1]);
    return MT_OK;
}

static mt_status check_input(const mt_tensor *t)
{
    int r = t->rank;
    if (r != 3 && r != 4)
        return mt__fail(MT_E_RUNTIME, "non-empty 3D or 4D (batch mode) tensor expected for input");
    if (t->dims[r - 1] == 0 || t->dims[r - 2] == 0 || t->dims[r - 3] == 0)
        return mt__fail(
            MT_E_RUNTIME,
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:%s",
            mt__shape_text(t->dims, r));
    return MT_OK;
}

mt_status mt__pool_read(const mt__call *call, const char *op, const mt_tensor *input, unsigned first,
                        bool has_dilation, mt__pool *out)
{
    const mt_value *args = call->args + first;
    mt_status status = read_pair(&args[0], op, "kernel_size", out->kernel);
    if (status == MT_OK)
        status = args[1].count == 0 ? MT_OK : read_pair(&args[1], op, "stride", out->stride);
    if (status == MT_OK && args[1].count == 0)
        memcpy(out->stride, out->kernel, sizeof out->stride);
    if (status == MT_OK)
        status = read_pair(&args[2], op, "padding", out->padding);
    out->dilation[0] = out->dilation[1] = 1;
    if (status == MT_OK && has_dilation)
        status = read_pair(&args[3], op, "dilation", out->dilation);
    if (status == MT_OK)
        status = check_numbers(out);
    if (status == MT_OK)
        status = check_input(input);
    if (status != MT_OK)
        return status;
    int r = input->rank;
    bool ceil = args[has_dilation ? 4 : 3].as.i != 0;
    out->planes = input->dims[r - 3] * (r == 4 ? input->dims[0] : 1);
    for (int d = 0; d < 2; d++) {
        out->in[d] = input->dims[r - 2 + d];
        out->out[d] = windows(out, d, ceil);
    }
    if (out->out[0] < 1 || out->out[1] < 1)
        return mt__fail(MT_E_RUNTIME,
                        "Given input size: (%lldx%lldx%lld). Calculated output size: (%lldx%lldx%lld). "
                        "Output size is too small",
                        (long long)input->dims[r - 3], (long long)out->in[0], (long long)out->in[1],
                        (long long)input->dims[r - 3], (long long)out->out[0], (long long)out->out[1]);
    return MT_OK;
}

static void pooled_dims(const mt_tensor *input, const int64_t out[2], int64_t *dims)
{
    memcpy(dims, input->dims, sizeof input->dims);
    dims[input->rank - 2] = out[0];
    dims[input->rank - 1] = out[1];
}

static mt_status refuse_bool(const mt_tensor *t, const char *what)
{
    if (t->dtype == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", what);
    return MT_OK;
}

static mt_status same_shape(const mt_tensor *grad, const mt_tensor *input, const int64_t out[2],
                            const char *op)
{
    int64_t dims[MT_MAX_RANK];
    pooled_dims(input, out, dims);
    if (grad->rank != input->rank || memcmp(grad->dims, dims, (size_t)grad->rank * sizeof *dims) != 0)
        return mt__fail(MT_E_RUNTIME, "%s: grad_output of size %s does not fit an input of size %s", op,
                        mt__shape_text(grad->dims, grad->rank), mt__shape_text(input->dims, input->rank));
    if (grad->dtype != input->dtype || !mt__is_floating((mt_dtype)grad->dtype))
        return mt__fail(MT_E_RUNTIME,
                        "%s: expected grad_output of the floating dtype of input, but got %s and %s", op,
                        mt__scalar_type(grad->dtype), mt__scalar_type(input->dtype));
    return MT_OK;
}

/* ---------------------------------------------------------------------------------------------------- infer */

/* Output i: planes like the input's, of size `out`. */
static mt_status pooled_out(mt__call *call, unsigned i, const mt_tensor *input, mt_dtype dtype,
                            const int64_t *out)
{
    int64_t dims[MT_MAX_RANK];
    pooled_dims(input, out, dims);
    return mt__empty(dtype, call->device, input->rank, dims, &call->outs[i]);
}

mt_status mt__infer_max_pool2d(mt__call *call)
{
    const mt_tensor *input = mt__arg_tensor(call, 0);
    mt__pool p;
    mt_status status = mt__pool_read(call, "max_pool2d", input, 1, true, &p);
    if (status == MT_OK)
        status = refuse_bool(input, "max_pool2d");
    if (status != MT_OK)
        return status;
    status = pooled_out(call, 0, input, (mt_dtype)input->dtype, p.out);
    return status == MT_OK ? pooled_out(call, 1, input, MT_INT64, p.out) : status;
}

mt_status mt__infer_max_pool2d_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *input = mt__arg_tensor(call, 1),
                    *indices = mt__arg_tensor(call, 7);
    mt__pool p;
    mt_status status = mt__pool_read(call, "max_pool2d", input, 2, true, &p);
    if (status == MT_OK)
        status = same_shape(grad, input, p.out, "max_pool2d_with_indices_backward");
    if (status == MT_OK && (indices->dtype != MT_INT64 || indices->numel != grad->numel))
        status = mt__fail(MT_E_RUNTIME, "max_pool2d_with_indices_backward: indices do not fit grad_output");
    return status == MT_OK ? mt__empty_like(input, (mt_dtype)input->dtype, &call->outs[0]) : status;
}

static mt_status check_divisor(const mt__call *call, unsigned arg)
{
    if (mt__arg_given(call, arg) && mt__arg_int(call, arg) == 0)
        return mt__fail(MT_E_RUNTIME, "divisor must be not zero");
    return MT_OK;
}

mt_status mt__infer_avg_pool2d(mt__call *call)
{
    const mt_tensor *input = mt__arg_tensor(call, 0);
    mt__pool p;
    mt_status status = mt__pool_read(call, "avg_pool2d", input, 1, false, &p);
    if (status == MT_OK)
        status = check_divisor(call, 6);
    if (status == MT_OK)
        status = refuse_bool(input, "avg_pool2d_out_frame");
    if (status == MT_OK && mt__wide((mt_dtype)input->dtype) == MT_INT32 && input->dtype != MT_INT32)
        status = mt__fail(MT_E_NOT_IMPLEMENTED, "\"avg_pool2d\" not implemented for '%s'",
                          mt__scalar_type(input->dtype));
    if (status != MT_OK)
        return status;
    return pooled_out(call, 0, input, (mt_dtype)input->dtype, p.out);
}

mt_status mt__infer_avg_pool2d_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *input = mt__arg_tensor(call, 1);
    mt__pool p;
    mt_status status = mt__pool_read(call, "avg_pool2d", input, 2, false, &p);
    if (status == MT_OK)
        status = check_divisor(call, 7);
    if (status == MT_OK)
        status = same_shape(grad, input, p.out, "avg_pool2d_backward");
    return status == MT_OK ? mt__empty_like(input, (mt_dtype)input->dtype, &call->outs[0]) : status;
}

static mt_status check_adaptive(const mt_tensor *input)
{
    int r = input->rank;
    if (r != 3 && r != 4)
        return mt__fail(MT_E_RUNTIME, "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got %s",
                        mt__shape_text(input->dims, r));
    for (int d = r - 2; d < r; d++)
        if (input->dims[d] == 0)
            return mt__fail(MT_E_RUNTIME,
                            "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch "
                            "dimensions, but input has "
                            "sizes %s with dimension %d being empty",
                            mt__shape_text(input->dims, r), d);
    if (!mt__is_floating((mt_dtype)input->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"adaptive_avg_pool2d\" not implemented for '%s'",
                        mt__scalar_type(input->dtype));
    return MT_OK;
}

mt_status mt__infer_adaptive_avg_pool2d(mt__call *call)
{
    const mt_tensor *input = mt__arg_tensor(call, 0);
    const mt_value *size = &call->args[1];
    if (size->count != 2)
        return mt__fail(MT_E_RUNTIME, "adaptive_avg_pool2d: output_size must be 2");
    if (size->as.ints[0] < 0 || size->as.ints[1] < 0)
        return mt__fail(MT_E_RUNTIME,
                        "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but "
                        "received {%lld, %lld}",
                        (long long)size->as.ints[0], (long long)size->as.ints[1]);
    mt_status status = check_adaptive(input);
    if (status != MT_OK)
        return status;
    return pooled_out(call, 0, input, (mt_dtype)input->dtype, size->as.ints);
}

mt_status mt__infer_adaptive_avg_pool2d_backward(mt__call *call)
{
    const mt_tensor *grad = mt__arg_tensor(call, 0), *input = mt__arg_tensor(call, 1);
    mt_status status = check_adaptive(input);
    if (status == MT_OK && grad->rank != input->rank)
        status = mt__fail(MT_E_RUNTIME, "adaptive_avg_pool2d_backward: grad_output and input differ in rank");
    if (status == MT_OK)
        status = same_shape(grad, input, grad->dims + grad->rank - 2, "adaptive_avg_pool2d_backward");
    return status == MT_OK ? mt__empty_like(input, (mt_dtype)input->dtype, &call->outs[0]) : status;
}

/* -------------------------------------------------------------------------------------- made of other ops */

mt_status mt__composite_max_pool2d(mt__call *call)
{
    mt_tensor *outs[2];
    const mt_value *a = call->args;
    if (MT_N(max_pool2d_with_indices, outs, a[0], a[1], a[2], a[3], a[4], a[5]) != MT_OK)
        return mt_scope_status();
    return mt__return(call, outs[0]);
}

mt_status mt__composite_adaptive_avg_pool2d(mt__call *call)
{
    const mt_tensor *input = mt__arg_tensor(call, 0);
    const mt_value *size = &call->args[1];
    if (size->count == 2 && size->as.ints[0] == 1 && size->as.ints[1] == 1 && check_adaptive(input) == MT_OK)
        return mt__return(call, MT(mean_dim, input, MT_SHAPE(-1, -2), true));
    return mt__return(call, MT(_adaptive_avg_pool2d, input, *size));
}
