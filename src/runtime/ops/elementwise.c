/* runtime/ops/elementwise.c - results of elementwise ops, fills and copies: shape by broadcasting, dtype by
 * promotion, and errors, in PyTorch's words. Touches no data: all devices use it.
 *
 * Every function here sets call->compute, the dtype that kernels compute in; outs[0] may have another one
 * (bool for comparisons, self's for in-place ops).
 */
#include "runtime/narrow.h"
#include "runtime/runtime.h"
#include <math.h>

#define NO_SUB_TWO                                                                                           \
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` " \
    "operator instead."
#define NO_SUB_ONE                                                                                           \
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "     \
    "mask, use the `~` or "                                                                                  \
    "`logical_not()` operator instead."
#define NO_NEG                                                                                               \
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "    \
    "use the `~` or "                                                                                        \
    "`logical_not()` operator instead."

static bool same_shape(const mt_tensor *a, const mt_tensor *b)
{
    return mt__has_dims(a, b->rank, b->dims);
}

/* ------------------------------------------------------------------------------------------ in-place outputs */

bool mt__castable(unsigned from, unsigned to)
{
    return mt_dtype_kind_of((mt_dtype)from) <= mt_dtype_kind_of((mt_dtype)to);
}

/* First and last byte that t may touch. */
static void extent(const mt_tensor *t, int64_t *first, int64_t *last)
{
    int64_t lo = t->offset, hi = t->offset, size = (int64_t)mt__size_of(t);
    for (int i = 0; i < t->rank; i++) {
        int64_t reach = (t->dims[i] - 1) * t->strides[i];
        lo += reach < 0 ? reach : 0;
        hi += reach > 0 ? reach : 0;
    }
    *first = lo * size;
    *last = (hi + 1) * size - 1;
}

/* No two elements share memory, and there are no gaps. */
static bool is_dense(const mt_tensor *t)
{
    int64_t first, last;
    extent(t, &first, &last);
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] > 1 && t->strides[i] == 0)
            return false;
    return last - first + 1 == t->numel * (int64_t)mt__size_of(t);
}

mt_status mt__check_written(const mt_tensor *self)
{
    for (int i = 0; i < self->rank && self->numel > 0; i++)
        if (self->dims[i] > 1 && self->strides[i] == 0)
            return mt__fail(
                MT_E_RUNTIME,
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the operation.");
    return MT_OK;
}

mt_status mt__check_overlap(const mt_tensor *self, const mt_value *args, unsigned count)
{
    mt_status status = mt__check_written(self);
    if (status != MT_OK || self->numel == 0)
        return status;
    for (unsigned i = 0; i < count; i++) {
        const mt_tensor *t = args[i].kind == MT_TENSOR ? args[i].as.tensor : NULL;
        if (t == NULL || t == self || t->storage != self->storage || t->numel == 0)
            continue;
        if (t->offset == self->offset && same_shape(t, self) &&
            memcmp(t->strides, self->strides, t->rank * sizeof *t->strides) == 0)
            continue;
        int64_t a, b, c, d;
        extent(self, &a, &b);
        extent(t, &c, &d);
        if (is_dense(self) && is_dense(t) && a <= d && c <= b)
            return mt__fail(
                MT_E_RUNTIME,
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a "
                "single memory location. Please clone() the tensor before performing the operation.");
    }
    return MT_OK;
}

static mt_status use_self(mt__call *call, mt_dtype dtype, int rank, const int64_t *dims)
{
    mt_tensor *self = call->args[0].as.tensor;
    if (!mt__castable(dtype, self->dtype))
        return mt__fail(MT_E_RUNTIME, "result type %s can't be cast to the desired output type %s",
                        mt__scalar_type(dtype), mt__scalar_type(self->dtype));
    if (!mt__has_dims(self, rank, dims))
        return mt__fail(MT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                        mt__shape_text(self->dims, self->rank), mt__shape_text(dims, rank));
    mt_status status = mt__check_overlap(self, call->args, call->op->param_count);
    if (status == MT_OK)
        call->outs[0] = mt_retain(self);
    return status;
}

/* -------------------------------------------------------------------------------------------------- shapes */

/* The output of an op whose tensors broadcast: self for an in-place op, else a new one. */
static mt_status make_out(mt__call *call, unsigned count, mt_dtype dtype)
{
    int64_t dims[MT_MAX_RANK];
    int rank = 0;
    mt_status status = MT_OK;
    for (unsigned i = 0; i < count && status == MT_OK; i++) {
        const mt_tensor *t = mt__arg_tensor(call, i);
        if (t != NULL)
            status = mt__broadcast(rank, dims, t->rank, t->dims, &rank, dims);
    }
    if (status != MT_OK)
        return status;
    if (call->op->in_place)
        return use_self(call, dtype, rank, dims);
    return mt__empty(dtype, call->device, rank, dims, &call->outs[0]);
}

static mt_dtype promoted(const mt__call *call, unsigned count)
{
    mt__promotion p = {0};
    for (unsigned i = 0; i < count; i++)
        mt__promote(&p, &call->args[i]);
    return mt__promoted(&p);
}

static inline mt_dtype floating(mt_dtype dtype)
{
    return mt__is_floating(dtype) ? dtype : mt__default_dtype;
}

mt_dtype mt__common_dtype(const mt__call *call)
{
    mt_dtype dtype = promoted(call, 2);
    bool floats = call->op->floats || (call->op->base == MT_OP_div_mode && call->args[2].kind == MT_NONE);
    return floats ? floating(dtype) : dtype;
}

/* The common case first: two tensors alike, a new output. */
static inline const mt_tensor *plain_pair(const mt__call *call)
{
    const mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    return a != NULL && b != NULL && a->dtype == b->dtype && a->device == b->device && !call->op->in_place &&
                   same_shape(a, b)
               ? a
               : NULL;
}

/* ------------------------------------------------------------------------------------------------- two operands */

static mt_status check_subtraction(const mt__call *call)
{
    bool a = mt__value_dtype(&call->args[0]) == MT_BOOL, b = mt__value_dtype(&call->args[1]) == MT_BOOL;
    if (!a && !b)
        return MT_OK;
    return mt__fail(MT_E_RUNTIME, "%s", a && b ? NO_SUB_TWO : NO_SUB_ONE);
}

static mt_status check_alpha(mt_dtype dtype, const mt_value *alpha)
{
    if (alpha->kind == MT_TRUTH && dtype != MT_BOOL)
        return mt__fail(MT_E_RUNTIME, "Boolean alpha only supported for Boolean results.");
    if (alpha->kind == MT_FLOAT && !mt__is_floating(dtype))
        return mt__fail(MT_E_RUNTIME,
                        "For integral input tensors, argument alpha must not be a floating point number.");
    return mt__check_fits(alpha, dtype);
}

/* Errors specific to some binary ops. */
static inline mt_status check_binary(const mt__call *call, mt_dtype dtype)
{
    switch (call->op->base) {
    case MT_OP_sub:
    case MT_OP_rsub: {
        mt_status status = check_subtraction(call);
        return status == MT_OK ? check_alpha(dtype, &call->args[2]) : status;
    }
    case MT_OP_add:
        return check_alpha(dtype, &call->args[2]);
    case MT_OP_pow:
        if (dtype == MT_FLOAT32 || dtype == MT_FLOAT64) /* any number: infinite, if it is too large */
            return MT_OK;
        if (call->args[1].as.i < 0 && !mt__is_floating(dtype))
            return mt__fail(MT_E_RUNTIME, "Integers to negative integer powers are not allowed.");
        return mt__check_fits(&call->args[1], dtype);
    default:
        return MT_OK;
    }
}

mt_status mt__check_operands(const mt__call *call, mt_dtype dtype)
{
    return check_binary(call, dtype);
}

mt_status mt__infer_binary(mt__call *call)
{
    const mt_tensor *like = plain_pair(call);
    if (MT__LIKELY(like != NULL && (like->dtype == MT_FLOAT32 || like->dtype == MT_FLOAT64))) {
        call->compute = (mt_dtype)like->dtype;
        return mt__empty((mt_dtype)like->dtype, like->device, like->rank, like->dims, &call->outs[0]);
    }
    call->compute = promoted(call, 2);
    mt_status status = check_binary(call, call->compute);
    return status == MT_OK ? make_out(call, 2, call->compute) : status;
}

mt_status mt__infer_binary_float(mt__call *call)
{
    const mt_tensor *like = plain_pair(call);
    if (MT__LIKELY(like != NULL && mt__is_floating((mt_dtype)like->dtype))) {
        call->compute = (mt_dtype)like->dtype;
        return mt__empty((mt_dtype)like->dtype, like->device, like->rank, like->dims, &call->outs[0]);
    }
    call->compute = floating(promoted(call, 2));
    return make_out(call, 2, call->compute);
}

/* div with a rounding mode, or with None. */
mt_status mt__infer_div_mode(mt__call *call)
{
    const mt_value *mode = &call->args[2];
    if (mode->kind != MT_NONE && strcmp(mode->as.text, "trunc") != 0 && strcmp(mode->as.text, "floor") != 0)
        return mt__fail(MT_E_RUNTIME,
                        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'",
                        mode->as.text);
    call->compute = mt__common_dtype(call);
    mt_status status = make_out(call, 2, call->compute);
    if (status == MT_OK && call->compute == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"div_%s_cpu\" not implemented for 'Bool'", mode->as.text);
    return status;
}

mt_status mt__infer_compare(mt__call *call)
{
    call->compute = promoted(call, 2);
    return make_out(call, 2, MT_BOOL);
}

mt_status mt__infer_bitwise(mt__call *call)
{
    call->compute = promoted(call, 2);
    mt_status status = make_out(call, 2, call->compute);
    if (status == MT_OK && mt__is_floating(call->compute))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'",
                        mt__op_short_name(call->op), mt__scalar_type(call->compute));
    return status;
}

/* A gradient and its factor: usually floats of the same dtype. */
mt_status mt__infer_pair(mt__call *call)
{
    return mt__infer_binary_float(call);
}

/* A result below 0 tells nothing about self if the slope there is negative. */
static mt_status check_slope(const mt__call *call, unsigned slope, unsigned of_result, const char *name)
{
    if (call->args[of_result].as.i == 0 || mt__arg_number(call, slope) >= 0)
        return MT_OK;
    return mt__fail(MT_E_RUNTIME,
                    "In-place %s backward calculation is triggered with a negative slope which is not "
                    "supported. This is caused by calling in-place forward function with a negative slope, "
                    "please call out-of-place version instead.",
                    name);
}

mt_status mt__infer_leaky_relu_backward(mt__call *call)
{
    mt_status status = check_slope(call, 2, 3, "leakyReLu");
    return status == MT_OK ? mt__infer_pair(call) : status;
}

mt_status mt__infer_elu_backward(mt__call *call)
{
    mt_status checked = check_slope(call, 1, 4, "elu");
    if (checked != MT_OK)
        return checked;
    const mt_tensor *grad = call->args[0].as.tensor, *x = call->args[5].as.tensor;
    call->compute = mt__promote_types((mt_dtype)grad->dtype, (mt_dtype)x->dtype);
    int64_t dims[MT_MAX_RANK];
    int rank;
    mt_status status = mt__broadcast(grad->rank, grad->dims, x->rank, x->dims, &rank, dims);
    return status == MT_OK ? mt__empty(call->compute, call->device, rank, dims, &call->outs[0]) : status;
}

/* The operators of Python, which PyTorch records around the op: x & y, x &= y ... */
#define OPERATOR(name, op)                                                                                   \
    mt_status mt__composite_##name(mt__call *call)                                                           \
    {                                                                                                        \
        return mt__return(call, MT(op, call->args[0], call->args[1]));                                       \
    }
OPERATOR(and, bitwise_and)
OPERATOR(or, bitwise_or)
OPERATOR(xor, bitwise_xor)
OPERATOR(iand, bitwise_and_)
OPERATOR(ior, bitwise_or_)
OPERATOR(ixor, bitwise_xor_)

static mt_status check_closeness(const mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *other = mt__arg_tensor(call, 1);
    if (self->dtype != other->dtype)
        return mt__fail(MT_E_RUNTIME, "%s did not match %s", mt__scalar_type(self->dtype),
                        mt__scalar_type(other->dtype));
    for (unsigned i = 2; i < 4; i++)
        if (!(mt__arg_number(call, i) >= 0))
            return mt__fail(MT_E_RUNTIME, "%s must be greater than or equal to zero, but got %g",
                            i == 2 ? "rtol" : "atol", mt__arg_number(call, i));
    return MT_OK;
}

/* Equal, or |self - other| <= atol + |rtol other| and finite. */
mt_status mt__composite_isclose(mt__call *call)
{
    mt_tensor *self = mt__arg_tensor(call, 0), *other = mt__arg_tensor(call, 1);
    double rtol = mt__arg_number(call, 2), atol = mt__arg_number(call, 3);
    mt_status status = check_closeness(call);
    if (status != MT_OK)
        return status;
    bool real = mt__is_floating((mt_dtype)self->dtype), truth = self->dtype == MT_BOOL;
    mt_tensor *close = MT(eq, self, other);
    if (real && call->args[4].as.i != 0) {
        mt_tensor *nan = MT(isnan, self), *nan_too = MT(isnan, other);
        bool same = mt__has_dims(self, other->rank, other->dims);
        close = MT(__ior__, close, same ? MT(__iand__, nan, nan_too) : MT(bitwise_and, nan, nan_too));
    }
    if (rtol == 0 && atol == 0)
        return mt__return(call, close);
    if (!real)
        self = MT(to_dtype, self, mt__default_dtype);
    if (truth)
        other = MT(to_dtype, other, mt__default_dtype);
    mt_tensor *allowed = MT(abs, MT(mul, other, rtol));
    allowed = MT(add, allowed, atol);
    mt_tensor *actual = MT(abs, MT(sub, self, other));
    mt_tensor *finite = MT(isfinite, actual);
    finite = MT(__iand__, finite, MT(le, actual, allowed));
    return mt__return(call, MT(__ior__, close, finite));
}

/* -------------------------------------------------------------------------------------------------- one operand */

static mt_status unary(mt__call *call, mt_dtype compute, mt_dtype gives)
{
    const mt_tensor *x = call->args[0].as.tensor;
    call->compute = compute;
    if (MT__UNLIKELY(call->op->in_place))
        return use_self(call, gives, x->rank, x->dims);
    return mt__empty(gives, call->device, x->rank, x->dims, &call->outs[0]);
}

mt_status mt__infer_unary(mt__call *call)
{
    mt_dtype dtype = (mt_dtype)call->args[0].as.tensor->dtype;
    if (MT__UNLIKELY(dtype == MT_BOOL)) {
        switch (call->op->base) {
        case MT_OP_neg:
            return mt__fail(MT_E_RUNTIME, NO_NEG);
        case MT_OP_relu:
            return mt__fail(MT_E_RUNTIME, "Boolean inputs not supported for relu");
        default:
            break;
        }
    }
    return unary(call, dtype, dtype);
}

mt_status mt__infer_round_decimals(mt__call *call)
{
    mt_dtype dtype = (mt_dtype)call->args[0].as.tensor->dtype;
    if (!mt__is_floating(dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"round_cpu\" not implemented for '%s'",
                        mt__scalar_type(dtype));
    return unary(call, dtype, dtype);
}

mt_status mt__infer_unary_float(mt__call *call)
{
    mt_dtype dtype = floating((mt_dtype)call->args[0].as.tensor->dtype);
    return unary(call, dtype, dtype);
}

/* Activations take floats only. */
mt_status mt__infer_unary_real(mt__call *call)
{
    mt_dtype dtype = (mt_dtype)call->args[0].as.tensor->dtype;
    if (!mt__is_floating(dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'",
                        mt__op_short_name(call->op), mt__scalar_type(dtype));
    if (call->args[1].kind == MT_TEXT && call->op->param_count > 1 &&
        strcmp(call->args[1].as.text, "none") != 0 && strcmp(call->args[1].as.text, "tanh") != 0)
        return mt__fail(MT_E_RUNTIME, "approximate argument must be either none or tanh.");
    return unary(call, dtype, dtype);
}

mt_status mt__infer_unary_truth(mt__call *call)
{
    return unary(call, (mt_dtype)call->args[0].as.tensor->dtype, MT_BOOL);
}

mt_status mt__infer_unary_bits(mt__call *call)
{
    mt_dtype dtype = (mt_dtype)call->args[0].as.tensor->dtype;
    if (mt__is_floating(dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"bitwise_not_cpu\" not implemented for '%s'",
                        mt__scalar_type(dtype));
    return unary(call, dtype, dtype);
}

/* ------------------------------------------------------------------------------------------ bounds and conditions */

/* Where PyTorch does not convert the number to a half. */
static mt_dtype unless_half(mt_dtype dtype, mt_dtype instead)
{
    return mt_dtype_is_real(dtype) && mt__is_narrow(dtype) ? instead : dtype;
}

/* Of the arguments from the first on, those that are numbers must fit the dtype. */
static mt_status check_numbers(const mt__call *call, unsigned first, unsigned count, mt_dtype dtype)
{
    mt_status status = MT_OK;
    for (unsigned i = first; i < count && status == MT_OK; i++)
        status = mt__check_fits(&call->args[i], dtype);
    return status;
}

static mt_status infer_bounded(mt__call *call, unsigned count)
{
    mt_dtype dtype = promoted(call, count);
    mt_status status = check_numbers(call, 1, count, dtype);
    return status == MT_OK ? unary(call, dtype, dtype) : status;
}

mt_status mt__infer_clamp(mt__call *call)
{
    if (!mt__arg_given(call, 1) && !mt__arg_given(call, 2))
        return mt__fail(MT_E_RUNTIME, "torch.clamp: At least one of 'min' or 'max' must not be None");
    return infer_bounded(call, 3);
}

/* The bounds take self's dtype. */
mt_status mt__infer_hardtanh(mt__call *call)
{
    mt_dtype dtype = (mt_dtype)call->args[0].as.tensor->dtype;
    if (dtype == MT_BOOL)
        return mt__fail(MT_E_RUNTIME, "Bool inputs not supported for hardtanh");
    if (dtype == MT_UINT8 && (mt__arg_number(call, 1) < 0 || mt__arg_number(call, 2) < 0))
        return mt__fail(MT_E_RUNTIME, "cannot do hardtanh on an unsigned type with negative limits");
    mt_status status = check_numbers(call, 1, 3, dtype);
    return status == MT_OK ? unary(call, dtype, dtype) : status;
}

mt_status mt__composite_relu6(mt__call *call)
{
    return mt__return(call, call->op->in_place ? MT(hardtanh_, call->args[0], 0, 6)
                                               : MT(hardtanh, call->args[0], 0, 6));
}

mt_status mt__infer_clamp_min(mt__call *call)
{
    return infer_bounded(call, 2);
}

mt_status mt__infer_clamp_max(mt__call *call)
{
    return infer_bounded(call, 2);
}

/* Bounds that are tensors broadcast with self. */
static mt_status infer_bounded_by_tensors(mt__call *call, unsigned count)
{
    call->compute = promoted(call, count);
    return make_out(call, count, call->compute);
}

mt_status mt__infer_clamp_tensor(mt__call *call)
{
    bool low = mt__arg_given(call, 1), high = mt__arg_given(call, 2);
    if (!low && !high)
        return mt__fail(MT_E_RUNTIME, "torch.clamp: At least one of 'min' or 'max' must not be None");
    mt_status status = infer_bounded_by_tensors(call, 3);
    if (status == MT_OK && low && high && call->compute == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"clamp_cpu\" not implemented for 'Bool'");
    return status;
}

mt_status mt__infer_clamp_bound(mt__call *call)
{
    return infer_bounded_by_tensors(call, 2);
}

mt_status mt__infer_where(mt__call *call)
{
    const mt_tensor *condition = call->args[0].as.tensor;
    if (condition->dtype != MT_BOOL && condition->dtype != MT_UINT8)
        return mt__fail(MT_E_RUNTIME,
                        "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                        mt__scalar_type(condition->dtype));
    mt__promotion p = {0};
    mt__promote(&p, &call->args[1]);
    mt__promote(&p, &call->args[2]);
    call->compute = mt__promoted(&p);
    mt_status status = check_numbers(call, 1, 3, unless_half(call->compute, MT_FLOAT64));
    return status == MT_OK ? make_out(call, 3, call->compute) : status;
}

mt_status mt__infer_masked_fill(mt__call *call)
{
    const mt_tensor *self = call->args[0].as.tensor, *mask = call->args[1].as.tensor,
                    *value = mt__arg_tensor(call, 2);
    if (mask->dtype != MT_BOOL)
        return mt__fail(MT_E_RUNTIME, "masked_fill_ only supports boolean masks, but got mask with dtype %s",
                        mt__c_type(mask->dtype));
    if (value != NULL && value->rank > 0)
        return mt__fail(
            MT_E_RUNTIME,
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
            value->rank);
    mt_status status = MT_OK;
    if (value == NULL) {
        status = mt__check_fits(&call->args[2], self->dtype);
    } else if (mt__is_floating((mt_dtype)value->dtype) && value->device == MTP_DEVICE_CPU) {
        double number;
        status = mt_item(value, &number);
        if (status == MT_OK)
            status = mt__check_fits(&(mt_value){.kind = MT_FLOAT, .as.f = number}, self->dtype);
    }
    call->compute = (mt_dtype)self->dtype;
    return status == MT_OK ? make_out(call, 2, call->compute) : status;
}

mt_status mt__infer_addc(mt__call *call)
{
    call->compute = promoted(call, 3);
    bool divides = call->op->base == MT_OP_addcdiv;
    if (divides && !mt__is_floating((mt_dtype)call->args[1].as.tensor->dtype) &&
        !mt__is_floating((mt_dtype)call->args[2].as.tensor->dtype))
        return mt__fail(
            MT_E_RUNTIME,
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
            "will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
            "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for "
            "integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future "
            "addcdiv behavior is just the latter implementation: (input + value * tensor1 / "
            "tensor2), for all dtypes.");
    mt_status status = mt__check_fits(&call->args[3], unless_half(call->compute, MT_FLOAT32));
    return status == MT_OK ? make_out(call, 3, call->compute) : status;
}

mt_status mt__infer_lerp(mt__call *call)
{
    static const char *const names[] = {"self", "end", "weight"};
    const mt_tensor *self = call->args[0].as.tensor;
    for (unsigned i = 1; i < 3; i++) {
        const mt_tensor *t = mt__arg_tensor(call, i);
        bool number = i == 2 && t != NULL && t->rank == 0; /* a weight, in a tensor */
        if (t != NULL && t->dtype != self->dtype && !number)
            return mt__fail(MT_E_RUNTIME, "expected dtype %s for `%s` but got dtype %s",
                            mt__c_type(self->dtype), names[i], mt__c_type(t->dtype));
    }
    call->compute = (mt_dtype)self->dtype;
    if (!mt__is_floating(call->compute))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"lerp_kernel\" not implemented for '%s'",
                        mt__scalar_type(call->compute));
    return make_out(call, 3, call->compute);
}

/* ----------------------------------------------------------------------------------------- copies and fills */

/* self is overwritten; its contents do not matter. */
mt_status mt__infer_self(mt__call *call)
{
    mt_tensor *self = call->args[0].as.tensor;
    mt_status status = call->op->id != MT_OP_zero_ ? mt__check_written(self) : MT_OK;
    if (status != MT_OK)
        return status;
    call->compute = (mt_dtype)self->dtype;
    call->outs[0] = mt_retain(self);
    return MT_OK;
}

mt_status mt__infer_copy(mt__call *call)
{
    mt_tensor *self = call->args[0].as.tensor;
    const mt_tensor *src = call->args[1].as.tensor;
    int64_t dims[MT_MAX_RANK];
    int rank;
    call->compute = (mt_dtype)self->dtype;
    mt_status status = mt__broadcast(self->rank, self->dims, src->rank, src->dims, &rank, dims);
    if (status == MT_OK && !mt__has_dims(self, rank, dims))
        status = mt__fail(MT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                          mt__shape_text(self->dims, self->rank), mt__shape_text(dims, rank));
    if (status == MT_OK)
        status = mt__check_overlap(self, call->args, 2);
    if (status == MT_OK)
        call->outs[0] = mt_retain(self);
    return status;
}

mt_status mt__infer_fill(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0), *value = mt__arg_tensor(call, 1);
    if (value != NULL && value->rank != 0)
        return mt__fail(MT_E_RUNTIME,
                        "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.",
                        value->rank);
    mt_dtype dtype = (mt_dtype)self->dtype;
    mt_status status =
        value == NULL
            ? mt__check_fits(&call->args[1], self->numel == 1 ? unless_half(dtype, MT_FLOAT64) : dtype)
            : MT_OK;
    return status == MT_OK ? mt__infer_self(call) : status;
}

static mt_dtype dtype_or(const mt_value *v, mt_dtype otherwise)
{
    return v->kind == MT_NONE ? otherwise : (mt_dtype)v->as.i;
}

static mt_device device_or(const mt_value *v, mt_device otherwise)
{
    return v->kind != MT_NONE ? (mt_device)v->as.i : otherwise;
}

/* A tensor of x's shape, that lies in memory like x. */
static mt_status empty_like(mt__call *call, const mt_tensor *x, mt_dtype dtype, mt_device device)
{
    mt_status status = mt__empty(dtype, device, x->rank, x->dims, &call->outs[0]);
    if (status == MT_OK && MT__UNLIKELY(!(x->flags & MT__CONTIGUOUS)) && call->into == NULL) {
        mt__strides_like(x, call->outs[0]->strides);
        mt__set_contiguous_flag(call->outs[0]);
    }
    return status;
}

/* The argument memory_format, which is the last one; that of x.clone() is the second. */
static const mt_value *format_of(const mt__call *call)
{
    return &call->args[call->op->param_count - 1];
}

static bool is_contiguous_format(const mt__call *call)
{
    return format_of(call)->kind != MT_NONE && format_of(call)->as.i == MT__CONTIGUOUS_FORMAT;
}

static mt_status check_format(const mt__call *call, int64_t last)
{
    const mt_value *format = format_of(call);
    if (format->kind == MT_NONE || (format->as.i >= 0 && format->as.i <= last))
        return MT_OK;
    if (format->as.i == MT__PRESERVE_FORMAT)
        return mt__fail(MT_E_RUNTIME, "unsupported memory format Preserve");
    return mt__fail(MT_E_NOT_IMPLEMENTED,
                    "%s: of memory formats, only contiguous_format and preserve_format are supported",
                    mt__op_short_name(call->op));
}

static mt_status make_like(mt__call *call)
{
    const mt_tensor *x = call->args[0].as.tensor;
    mt_device device = device_or(&call->args[2], x->device);
    return is_contiguous_format(call) ? mt__empty(call->compute, device, x->rank, x->dims, &call->outs[0])
                                      : empty_like(call, x, call->compute, device);
}

/* Memory like that of x, allocated as in PyTorch: by empty_strided if a profile records. */
static mt_status make_shown(mt__call *call, const mt_tensor *x, mt_dtype dtype, mt_device device,
                            mt__fn *make)
{
    int64_t strides[MT_MAX_RANK];
    if (is_contiguous_format(call))
        mt__contiguous_strides(x->rank, x->dims, strides);
    else
        mt__strides_like(x, strides);
    mt_value args[] = {mt_value_ints(x->dims, x->rank), mt_value_ints(strides, x->rank), mt_value_int(dtype),
                       mt_value_int(device)};
    return mt__record_part(call, MT_OP_empty_strided, NULL, args, make);
}

mt_status mt__infer_to_copy(mt__call *call)
{
    const mt_tensor *x = call->args[0].as.tensor;
    mt_status status = check_format(call, MT__PRESERVE_FORMAT);
    call->compute = dtype_or(&call->args[1], (mt_dtype)x->dtype);
    if (status != MT_OK || MT__LIKELY(!call->recorded))
        return status == MT_OK ? make_like(call) : status;
    return make_shown(call, x, call->compute, device_or(&call->args[2], x->device), make_like);
}

static mt_status make_clone(mt__call *call)
{
    const mt_tensor *x = call->args[0].as.tensor;
    call->compute = (mt_dtype)x->dtype;
    return is_contiguous_format(call) ? mt__empty(call->compute, x->device, x->rank, x->dims, &call->outs[0])
                                      : empty_like(call, x, call->compute, x->device);
}

mt_status mt__infer_clone(mt__call *call)
{
    const mt_tensor *x = call->args[0].as.tensor;
    mt_status status = check_format(call, MT__PRESERVE_FORMAT);
    if (status != MT_OK)
        return status;
    return MT__LIKELY(!call->recorded) ? make_clone(call)
                                       : make_shown(call, x, (mt_dtype)x->dtype, x->device, make_clone);
}

static mt_status check_rank(const mt_value *size)
{
    if (size->count > MT_MAX_RANK)
        return mt__fail(MT_E_RUNTIME, "tensors of more than %d dimensions are not supported (got %u)",
                        MT_MAX_RANK, size->count);
    return MT_OK;
}

mt_status mt__infer_empty(mt__call *call)
{
    mt_status status = check_rank(&call->args[0]);
    if (status == MT_OK)
        status = check_format(call, MT__CONTIGUOUS_FORMAT);
    call->compute = dtype_or(&call->args[1], mt__default_dtype);
    if (status == MT_OK)
        status = mt__empty(call->compute, call->device, (int)call->args[0].count, call->args[0].as.ints,
                           &call->outs[0]);
    return status;
}

mt_status mt__infer_empty_like(mt__call *call)
{
    return mt__infer_to_copy(call);
}

/* The number of elements of memory that the strides span. */
static mt_status count_strided(const mt_value *size, const mt_value *stride, int64_t *out)
{
    int64_t last = 0, way;
    bool none = false, over = false;
    for (uint32_t i = 0; i < size->count; i++) {
        int64_t n = size->as.ints[i], step = stride->as.ints[i];
        if (n < 0)
            return mt__fail(MT_E_RUNTIME, "Trying to create tensor with negative dimension %lld: %s",
                            (long long)n, mt__shape_text(size->as.ints, (int)size->count));
        none |= n == 0;
        over |= step < 0 || (n > 0 && (__builtin_mul_overflow(n - 1, step, &way) ||
                                       __builtin_add_overflow(last, way, &last)));
    }
    if (over || last > INT64_MAX / 16)
        return mt__fail(MT_E_RUNTIME, "Storage size calculation overflowed with sizes=%s and strides=%s",
                        mt__shape_text(size->as.ints, (int)size->count),
                        mt__shape_text(stride->as.ints, (int)stride->count));
    *out = none ? 0 : last + 1;
    return MT_OK;
}

mt_status mt__infer_empty_strided(mt__call *call)
{
    const mt_value *size = &call->args[0], *stride = &call->args[1];
    int64_t reach = 0;
    mt_status status = check_rank(size);
    if (status == MT_OK && size->count != stride->count)
        status =
            mt__fail(MT_E_RUNTIME, "dimensionality of sizes (%u) must match dimensionality of strides (%u)",
                     size->count, stride->count);
    if (status == MT_OK)
        status = count_strided(size, stride, &reach);
    mt_tensor *flat = NULL;
    call->compute = dtype_or(&call->args[2], mt__default_dtype);
    if (status == MT_OK)
        status = mt__empty(call->compute, call->device, 1, &reach, &flat);
    if (status == MT_OK)
        status = mt__alias(flat, (int)size->count, size->as.ints, stride->as.ints, 0, &call->outs[0]);
    mt_release(flat);
    return status;
}
