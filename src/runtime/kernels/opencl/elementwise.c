/* kernels/opencl/elementwise.c - every elementwise op as expressions: for floats, integers and bools.
 *
 * Most formulas of floats are in kernels/formulas.h, for all devices. The others' semantics are those of
 * kernels/cpu (binary.c, unary.c, activation.c, select.c), line by line.
 */
#include "runtime/kernels/opencl/npu.h"
#include "runtime/narrow.h"
#include "runtime/kernels/formulas.h"
#include "runtime/ops/reduce.h"
#include <math.h>

/* of formulas.h */
#define EXP exp
#define EXPM1 expm1
#define LOG1P log1p
#define ERF erf
#define TANH tanh
#define SQRT sqrt
#define TEXT(formula) TEXT_OF(formula)
#define TEXT_OF(...) #__VA_ARGS__

/* X(op, kernel's name, operands, numbers, for floats, for integers, for bools, returns a bool)
 *   operands and numbers: positions of arguments, with ? before one that is read as bool. A NULL expression:
 *   the dtype is refused. */
#define BINARY(X, op, real, whole, truth) X(op, op, "01", "", real, whole, truth, false)
#define TRUTH_ROW(op, all) X(op, op, "01", "", TEXT(all), TEXT(all), TEXT(all), true)
#define BITS_ROW(op, all) X(op, op, "01", "", NULL, TEXT(all), TEXT(all), false)
#define UNARY(X, op, real, whole, truth) X(op, op, "0", "", real, whole, truth, false)
#define FLOATS(X, op, real) X(op, op, "0", "", real, NULL, NULL, false)
#define TRUTHS(X, op, real, other) X(op, op, "0", "", real, other, other, true)
#define ADD "a + k0 * b"
#define SUB "a - k0 * b"
#define RSUB "b - k0 * a"
#define ROWS(X)                                                                                              \
    X(add, add, "01", "2", ADD, ADD, "a | (k0 && b)", false)                                                 \
    X(sub, sub, "01", "2", SUB, SUB, NULL, false)                                                            \
    X(rsub, rsub, "01", "2", RSUB, RSUB, NULL, false)                                                        \
    BINARY(X, mul, "a * b", "a * b", "a & b")                                                                \
    BINARY(X, div, "a / b", NULL, NULL)                                                                      \
    BINARY(X, floor_divide, "real_quotient(a, b)", "floor_quotient(a, DIVISOR(b))", NULL)                    \
    BINARY(X, remainder, "real_rest(a, b)", "floor_rest(a, DIVISOR(b))", NULL)                               \
    BINARY(X, maximum, TEXT(MT__MAXIMUM(a, b)), "a > b ? a : b", "a | b")                                    \
    BINARY(X, minimum, TEXT(MT__MINIMUM(a, b)), "a < b ? a : b", "a & b")                                    \
    BINARY(X, atan2, "atan2(a, b)", NULL, NULL)                                                              \
    UNARY(X, neg, "-a", "-a", NULL)                                                                          \
    UNARY(X, abs, "fabs(a)", "a < 0 ? -a : a", NULL)                                                         \
    UNARY(X, sign, TEXT(MT__SIGN(T, a)), "(a > 0) - (a < 0)", "a")                                           \
    X(sgn, sign, "0", "", TEXT(MT__SIGN(T, a)), "(a > 0) - (a < 0)", "a", false)                             \
    UNARY(X, relu, TEXT(MT__RELU(T, a)), "a > 0 ? a : 0", NULL)                                              \
    UNARY(X, floor, "floor(a)", "a", NULL)                                                                   \
    UNARY(X, ceil, "ceil(a)", "a", NULL)                                                                     \
    UNARY(X, round, "rint(a)", "a", NULL)                                                                    \
    UNARY(X, trunc, "trunc(a)", "a", NULL)                                                                   \
    FLOATS(X, exp, "exp(a)")                                                                                 \
    FLOATS(X, expm1, "expm1(a)")                                                                             \
    FLOATS(X, log, "log(a)")                                                                                 \
    FLOATS(X, log1p, "log1p(a)")                                                                             \
    FLOATS(X, log2, "log2(a)")                                                                               \
    FLOATS(X, sqrt, "sqrt(a)")                                                                               \
    FLOATS(X, rsqrt, TEXT(MT__RSQRT(T, a)))                                                                  \
    FLOATS(X, reciprocal, TEXT(MT__RECIPROCAL(T, a)))                                                        \
    FLOATS(X, sin, "sin(a)")                                                                                 \
    FLOATS(X, cos, "cos(a)")                                                                                 \
    FLOATS(X, tan, "tan(a)")                                                                                 \
    FLOATS(X, tanh, "tanh(a)")                                                                               \
    FLOATS(X, sigmoid, TEXT(MT__SIGMOID(T, a)))                                                              \
    FLOATS(X, erf, "erf(a)")                                                                                 \
    TRUTHS(X, isnan, "a != a", "0")                                                                          \
    TRUTHS(X, isinf, "isinf(a)", "0")                                                                        \
    TRUTHS(X, isfinite, "isfinite(a)", "1")                                                                  \
    TRUTHS(X, logical_not, "a == 0", "a == 0")                                                               \
    UNARY(X, bitwise_not, NULL, "~a", "!a")                                                                  \
    FLOATS(X, gelu, TEXT(MT__GELU(T, a)))                                                                    \
    FLOATS(X, silu, TEXT(MT__SILU(T, a)))                                                                    \
    X(softplus, softplus, "0", "12", TEXT(MT__SOFTPLUS(T, a, k0, k1)), NULL, NULL, false)                    \
    X(leaky_relu, leaky_relu, "0", "1", TEXT(MT__LEAKY_RELU(a, k0)), NULL, NULL, false)                      \
    X(elu, elu, "0", "123", TEXT(MT__ELU(T, a, (k0 * k1), k1, k2)), NULL, NULL, false)                       \
    X(where, where, "?012", "", "a ? b : c", "a ? b : c", "a ? b : c", false)                                \
    X(masked_fill, masked_fill, "?120", "", "a ? b : c", "a ? b : c", "a ? b : c", false)                    \
    X(addcmul, addcmul, "012", "3", TEXT(MT__ADDCMUL(a, b, c, k0)), TEXT(MT__ADDCMUL(a, b, c, k0)), NULL,    \
      false)                                                                                                 \
    X(addcdiv, addcdiv, "012", "3", TEXT(MT__ADDCDIV(a, b, c, k0)), NULL, NULL, false)                       \
    X(lerp, lerp, "012", "", TEXT(MT__LERP(T, a, b, c)), NULL, NULL, false)                                  \
    X(xlogy, xlogy, "01", "", "b != b ? b : a == 0 ? (T)0 : a * log(b)", NULL, NULL, false)                  \
    X(threshold_backward, threshold_backward, "01", "2", TEXT(MT__THRESHOLD_BACKWARD(T, a, b, k0)), NULL,    \
      NULL, false)                                                                                           \
    X(tanh_backward, tanh_backward, "01", "", TEXT(MT__TANH_BACKWARD(T, a, b)), NULL, NULL, false)           \
    X(sigmoid_backward, sigmoid_backward, "01", "", TEXT(MT__SIGMOID_BACKWARD(T, a, b)), NULL, NULL, false)  \
    X(gelu_backward, gelu_backward, "01", "", "a * gelu_slope(b)", NULL, NULL, false)                        \
    X(silu_backward, silu_backward, "01", "", TEXT(MT__SILU_BACKWARD(T, a, b)), NULL, NULL, false)           \
    X(softplus_backward, softplus_backward, "01", "23", TEXT(MT__SOFTPLUS_BACKWARD(T, a, b, k0, k1)), NULL,  \
      NULL, false)                                                                                           \
    X(leaky_relu_backward, leaky_relu_backward, "01", "2", TEXT(MT__LEAKY_RELU_BACKWARD(a, b, k0)), NULL,    \
      NULL, false)                                                                                           \
    X(hardtanh_backward, hardtanh_backward, "01", "23", TEXT(MT__HARDTANH_BACKWARD(T, a, b, k0, k1)), NULL,  \
      NULL, false)                                                                                           \
    X(elu_backward, elu_backward, "05", "123", TEXT(MT__ELU_BACKWARD(T, a, b, (k0 * k1), k1, k2)), NULL,     \
      NULL, false)

#define X(op, kernel, operands, numbers, real, whole, truth, gives)                                          \
    [MT_OP_##op] = {#kernel, operands, numbers, real, whole, truth, gives},
#define CLAMPED "(a < k0 || k0 != k0 ? k0 : a)"
/* for an index a: k0 is the size of the dim, k1 its stride, k2 its number */
#define PLACE                                                                                                \
    "((a < -k0 || a >= k0) ? (fault_at(fault, FAULT_PICK, a, k2, k0), (T)0) : a < 0 ? a + k0 : a) * k1"
const mt__expression mt__expressions[MT__EXPRESSIONS] = {
    ROWS(X) MT__TRUTHS(TRUTH_ROW) MT__BITS(
        BITS_ROW)[MT__TANH_GELU] = {"gelu_tanh", "0", "", TEXT(MT__GELU_TANH(T, a)), NULL, NULL, false},
    [MT__TANH_GELU_BACKWARD] = {"gelu_tanh_backward", "01", "", "a * gelu_tanh_slope(b)", NULL, NULL, false},
    [MT__ELU_OF_RESULT] = {"elu_backward_of_result", "01", "012",
                           TEXT(MT__ELU_BACKWARD_OF_RESULT(a, b, (k0 * k1), k1, k2)), NULL, NULL, false},
    [MT__POW] = {"pow", "01", "", "pow(a, b)", "int_power(a, b)", NULL, false},
    [MT__SQUARE] = {"square", "0", "", "a * a", NULL, NULL, false},
    [MT__CUBE] = {"cube", "0", "", "a * a * a", NULL, NULL, false},
    /* NaN is kept, and a NaN bound makes all NaN; if the bounds cross, the upper one wins. */
    [MT__CLAMP_BOTH] = {"clamp", "0", "01", CLAMPED " > k1 || k1 != k1 ? k1 : " CLAMPED,
                        CLAMPED " > k1 ? k1 : " CLAMPED, NULL, false},
    [MT__CLAMP_LOW] = {"clamp_min", "0", "0", CLAMPED, CLAMPED, NULL, false},
    [MT__CLAMP_HIGH] = {"clamp_max", "0", "0", "a > k0 || k0 != k0 ? k0 : a", "a > k0 ? k0 : a", NULL, false},
    [MT__COPY] = {"copy", "0", "", "a", "a", "a", false},
    [MT__OFFSETS_FIRST] = {"index_offsets", "0", "012", NULL, PLACE, NULL, false},
    [MT__OFFSETS_MORE] = {"index_offsets_more", "01", "012", NULL, "b + " PLACE, NULL, false},
    /* a is self, b the target, c the weight (or 1), d the weight of positives (or 1), or the gradient */
    [MT__LOSSES] = {"mse_loss", "01", "", "(a - b) * (a - b)", NULL, NULL, false},
    {"smooth_l1_loss", "01", "0", "fabs(a - b) < k0 ? (a - b) * (a - b) / (2 * k0) : fabs(a - b) - k0 / 2",
     NULL, NULL, false},
    {"bce", "012", "",
     "c * ((b - 1) * LOG1P100(-INSIDE(a, FAULT_INPUT_PROBABILITY)) - INSIDE(b, FAULT_TARGET_PROBABILITY) * "
     "LOG100(a))",
     NULL, NULL, false},
    {"bce_with_logits", "0123", "",
     "c * ((1 - b) * a + ((d - 1) * b + 1) * (log1p(exp(-fabs(a))) + (a < 0 ? -a : (T)0)))", NULL, NULL,
     false},
    {"mse_loss_backward", "0123", "0", "k0 * 2 * (a - b) * d", NULL, NULL, false},
    {"smooth_l1_loss_backward", "0123", "01",
     "k0 * d * (a - b <= -k1 ? (T)(a - b < 0 ? -1 : 0) : a - b >= k1 ? (T)(a - b > 0 ? 1 : 0) : (a - b) / "
     "k1)",
     NULL, NULL, false},
    {"bce_backward", "0123", "0", "k0 * d * c * (a - b) / fmax((1 - a) * a, (T)1e-12)", NULL, NULL, false},
};
#undef X

static mt_status refuse(const mt__call *call)
{
    return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s_npu\" not implemented for '%s'", mt__op_short_name(call->op),
                    mt__asked_dtype(call, call->compute));
}

/* Applies the expression `id`, which may be another op's, to the op's arguments. */
static mt_status run_row(mt__call *call, uint32_t id)
{
    const mt__expression *own = &mt__expressions[call->op->base], *e = &mt__expressions[id];
    mt_dtype c = call->compute;
    if ((mt__is_floating(c) ? e->real : c == MT_BOOL ? e->truth : e->whole) == NULL)
        return refuse(call);
    mt__map m = {.id = id, .compute = c, .out = call->outs[0]};
    for (const char *o = own->operands; *o != 0; o++) {
        bool truth = *o == '?';
        o += truth;
        mt__map_add(&m, &call->args[*o - '0'], truth ? MT_BOOL : c);
    }
    for (const char *n = own->numbers; *n != 0; n++)
        mt__map_number(&m, &call->args[*n - '0']);
    return mt__map_run(&m);
}

mt_status mt__npu_elementwise(mt__call *call)
{
    return run_row(call, call->op->base);
}

/* ---------------------------------------------------------------------------------- those with several forms */

mt_status mt__npu_gelu(mt__call *call)
{
    bool backward = call->op->id == MT_OP_gelu_backward;
    const mt_value *form = &call->args[backward ? 2 : 1];
    if (form->kind != MT_TEXT || strcmp(form->as.text, "tanh") != 0)
        return mt__npu_elementwise(call);
    return run_row(call, backward ? MT__TANH_GELU_BACKWARD : MT__TANH_GELU);
}

mt_status mt__npu_elu(mt__call *call)
{
    if (call->op->id == MT_OP_elu_backward && call->args[4].as.i != 0)
        return run_row(call, MT__ELU_OF_RESULT);
    return mt__npu_elementwise(call);
}

mt_status mt__npu_pow(mt__call *call)
{
    bool real = mt__is_floating(call->compute);
    double e = call->args[1].kind != MT_TENSOR ? mt__arg_number(call, 1) : 0;
    mt__map m = {.id = MT__POW, .compute = call->compute, .out = call->outs[0]};
    if (call->compute == MT_BOOL)
        return refuse(call);
    mt__map_add(&m, &call->args[0], call->compute);
    if (real && (e == 2 || e == 3))
        m.id = e == 2 ? MT__SQUARE : MT__CUBE;
    else if (real && fabs(e) == 0.5) /* pow(-INFINITY, 0.5) is not the root */
        m.id = e > 0 ? MT_OP_sqrt : MT_OP_rsqrt;
    else
        mt__map_add(&m, &call->args[1], call->compute);
    return mt__map_run(&m);
}

mt_status mt__npu_clamp(mt__call *call)
{
    const mt_value none = mt_value_none(NULL);
    mt_op_id op = call->op->base;
    const mt_value *low = op == MT_OP_clamp_max ? &none : &call->args[1],
                   *high = op == MT_OP_clamp_min   ? &none
                           : op == MT_OP_clamp_max ? &call->args[1]
                                                   : &call->args[2];
    mt__map m = {.compute = call->compute, .out = call->outs[0]};
    if (call->compute == MT_BOOL)
        return refuse(call);
    mt__map_add(&m, &call->args[0], call->compute);
    if (low->kind != MT_NONE)
        mt__map_number(&m, low);
    if (high->kind != MT_NONE)
        mt__map_number(&m, high);
    m.id = m.number_count == 2 ? MT__CLAMP_BOTH : low->kind != MT_NONE ? MT__CLAMP_LOW : MT__CLAMP_HIGH;
    return mt__map_run(&m);
}

/* --------------------------------------------------------------------------------------------------- copies */

mt_status mt__npu_assign(mt_tensor *to, const mt_tensor *from)
{
    if (to->numel == 0)
        return MT_OK;
    uint64_t size = mt__size_of(to);
    if (to->dtype == from->dtype && to->numel == from->numel && (to->flags & from->flags & MT__CONTIGUOUS)) {
        mt__npu *npu;
        mt_status status = mt__npu_of(to->device, &npu);
        if (status != MT_OK || (to->storage == from->storage && to->offset == from->offset))
            return status;
        return mt__npu_copy(npu, to->storage->data, (uint64_t)to->offset * size, from->storage->data,
                            (uint64_t)from->offset * size, (uint64_t)to->numel * size);
    }
    mt_dtype compute = mt__wide((mt_dtype)to->dtype);
    mt__map m = {.id = MT__COPY, .compute = compute, .out = to};
    mt__map_add_tensor(&m, from, compute);
    return mt__map_run(&m);
}

mt_status mt__npu_zero_tensor(mt_tensor *t)
{
    mt__npu *npu;
    mt_status status = mt__npu_of(t->device, &npu);
    uint64_t size = mt__size_of(t);
    if (status != MT_OK || t->numel == 0)
        return status;
    return mt__npu_fill(npu, t->storage->data, (uint64_t)t->offset * size, (uint64_t)t->numel * size, "\0",
                        1);
}

/* From or to the CPU. The host side is made dense and cast on the host, the device side on the device. */
typedef struct transfer {
    mt__npu *npu;
    mt_tensor *dense;      /* owned: what is transferred */
    mt_tensor *staged;     /* owned: `into` if the target has another dtype or layout, else NULL */
    const mt_tensor *into; /* dense memory on the target's device */
    uint64_t size;         /* of an element */
} transfer;

static mt_status transfer_begin(transfer *t, mt_device npu, const mt_tensor *to, const mt_tensor *from)
{
    *t = (transfer){.size = mt__size_of(from)};
    mt_status status = mt__npu_of(npu, &t->npu);
    if (status == MT_OK)
        status = mt__contiguous(from, &t->dense);
    if (status == MT_OK &&
        !(from->dtype == to->dtype && from->numel == to->numel && (to->flags & MT__CONTIGUOUS)))
        status = mt__empty((mt_dtype)from->dtype, to->device, from->rank, from->dims, &t->staged);
    t->into = t->staged != NULL ? t->staged : to;
    return status;
}

static mt_status transfer_end(transfer *t, mt_status status)
{
    mt_release(t->staged);
    mt_release(t->dense);
    return status;
}

static mt_status from_host(mt_tensor *to, const mt_tensor *from, bool lazily)
{
    transfer t;
    mt_status status = transfer_begin(&t, to->device, to, from);
    if (status == MT_OK)
        status =
            mt__npu_copy_in(t.npu, t.into->storage->data, (uint64_t)t.into->offset * t.size, t.dense->data,
                            (uint64_t)t.dense->numel * t.size, lazily ? t.dense->storage : NULL);
    if (status == MT_OK && t.staged != NULL)
        status = mt__npu_assign(to, t.staged);
    return transfer_end(&t, status);
}

static mt_status to_host(mt_tensor *to, const mt_tensor *from)
{
    transfer t;
    mt_tensor *same = NULL;
    mt_status status = transfer_begin(&t, from->device, to, from);
    if (status == MT_OK)
        status = mt__npu_copy_out(t.npu, t.into->data, t.dense->storage->data,
                                  (uint64_t)t.dense->offset * t.size, (uint64_t)t.dense->numel * t.size);
    if (status == MT_OK && t.staged != NULL) {
        mt_value args[] = {mt_value_tensor(to), mt_value_tensor(t.staged)};
        status = mt__run_quietly(MT_OP_copy_, args, 2, &same);
    }
    mt_release(same);
    return transfer_end(&t, status);
}

/* Through the host between two different devices. */
mt_status mt__device_copy(mt_tensor *to, const mt_tensor *from, bool lazily)
{
    bool to_npu = MT_DEVICE_TYPE(to->device) != 0, from_npu = MT_DEVICE_TYPE(from->device) != 0;
    if (to->numel == 0 || from->numel == 0)
        return MT_OK;
    if (to_npu && !from_npu)
        return from_host(to, from, lazily);
    if (!to_npu && from_npu)
        return to_host(to, from);
    if (to->device == from->device)
        return mt__npu_assign(to, from);
    mt_tensor *host;
    mt_status status = mt__empty((mt_dtype)from->dtype, MT_CPU, from->rank, from->dims, &host);
    if (status == MT_OK)
        status = to_host(host, from);
    if (status == MT_OK)
        status = from_host(to, host, false);
    mt_release(host);
    return status;
}

mt_status mt__npu_clone(mt__call *call)
{
    return mt__device_copy(call->outs[0], call->args[0].as.tensor, false);
}

mt_status mt__npu_to_copy(mt__call *call)
{
    return mt__device_copy(call->outs[0], call->args[0].as.tensor, call->args[3].as.i != 0);
}

mt_status mt__npu_copy_kernel(mt__call *call)
{
    return mt__device_copy(call->outs[0], call->args[1].as.tensor, call->args[2].as.i != 0);
}

mt_status mt__npu_fill_kernel(mt__call *call)
{
    mt_tensor *t = call->outs[0];
    const mt_value *v = &call->args[1];
    mt__npu *npu;
    mt_dtype dtype = (mt_dtype)t->dtype;
    mt_status status = mt__npu_of(t->device, &npu);
    if (status != MT_OK || t->numel == 0)
        return status;
    if ((t->flags & MT__CONTIGUOUS) && v->kind != MT_TENSOR) {
        mt__scalar e = mt__scalar_of(dtype, v);
        uint32_t size = (uint32_t)mt__size_of(t);
        return mt__npu_fill(npu, t->storage->data, (uint64_t)t->offset * size, (uint64_t)t->numel * size, &e,
                            size);
    }
    mt__map m = {.id = MT__COPY, .compute = mt__wide(dtype), .out = t};
    mt__map_add(&m, v, m.compute);
    return mt__map_run(&m);
}

mt_status mt__npu_zero(mt__call *call)
{
    mt_value args[] = {call->args[0], mt_value_int(0)};
    mt__call fill = *call;
    fill.args = args;
    return mt__npu_fill_kernel(&fill);
}

mt_status mt__npu_nothing(mt__call *call)
{
    (void)call;
    return MT_OK;
}

/* ---------------------------------------------------------------------------------------------------- losses */

/* In the order of their expressions, from MT__LOSSES. */
static const struct loss {
    mt_op_id op;
    uint8_t reduction, inputs, number; /* positions of arguments; number 0: none */
} losses[] = {
    {MT_OP_mse_loss, 2, 2, 0},
    {MT_OP_smooth_l1_loss, 2, 2, 3},
    {MT_OP_binary_cross_entropy, 3, 3, 0},
    {MT_OP_binary_cross_entropy_with_logits, 4, 4, 0},
    {MT_OP_mse_loss_backward, 3, 2, 0},
    {MT_OP_smooth_l1_loss_backward, 3, 2, 4},
    {MT_OP_binary_cross_entropy_backward, 4, 3, 0},
};
_Static_assert(MT__COUNT_OF(losses) == MT__EXPRESSIONS - MT__LOSSES, "an expression for each");

static const struct loss *loss_of(const mt__call *call, uint32_t *id)
{
    for (uint32_t i = 0; i < MT__COUNT_OF(losses); i++)
        if (losses[i].op == call->op->id) {
            *id = MT__LOSSES + i;
            return &losses[i];
        }
    return NULL;
}

static void add_or_one(mt__map *m, const mt_value *v, mt_dtype dtype)
{
    mt_value one = mt_value_int(1);
    mt__map_add(m, v->kind == MT_TENSOR ? v : &one, dtype);
}

mt_status mt__npu_loss(mt__call *call)
{
    uint32_t id = 0;
    const struct loss *r = loss_of(call, &id);
    mt_tensor *out = call->outs[0], *each = out;
    mt_dtype c = (mt_dtype)out->dtype;
    int64_t reduction = mt__arg_int(call, r->reduction), dims[MT_MAX_RANK] = {0};
    int rank = 0;
    mt_status status = MT_OK;
    if (reduction != 0) {
        for (unsigned i = 0; i < r->inputs && status == MT_OK; i++) {
            const mt_tensor *t = mt__arg_tensor(call, i);
            if (t != NULL)
                status = mt__broadcast(rank, dims, t->rank, t->dims, &rank, dims);
        }
        if (status == MT_OK)
            status = mt__empty(c, out->device, rank, dims, &each);
    }
    if (status != MT_OK)
        return status;
    mt__map m = {.id = id, .compute = c, .out = each};
    for (unsigned i = 0; i < r->inputs; i++)
        add_or_one(&m, &call->args[i], c);
    if (r->number != 0)
        mt__map_number(&m, &call->args[r->number]);
    status = mt__map_run(&m);
    if (each != out) {
        if (status == MT_OK)
            status = mt__npu_reduce(reduction == 1 ? MT__MEAN : MT__SUM, each, 1, each->numel, 1, out,
                                    (double)each->numel);
        mt_release(each);
    }
    return status;
}

mt_status mt__npu_loss_backward(mt__call *call)
{
    uint32_t id = 0;
    const struct loss *r = loss_of(call, &id);
    mt_tensor *out = call->outs[0];
    mt_dtype c = (mt_dtype)out->dtype;
    mt_value scale = mt_value_float(mt__arg_int(call, r->reduction) == 1 ? 1 / (double)out->numel : 1),
             one = mt_value_int(1);
    mt__map m = {.id = id, .compute = c, .out = out};
    mt__map_add(&m, &call->args[1], c);
    mt__map_add(&m, &call->args[2], c);
    add_or_one(&m, r->inputs == 3 ? &call->args[3] : &one, c);
    mt__map_add(&m, &call->args[0], c);
    mt__map_number(&m, &scale);
    if (r->number != 0)
        mt__map_number(&m, &call->args[r->number]);
    return mt__map_run(&m);
}
