/* runtime/autograd/grad_unary.c - derivatives of ops with one operand; most are a single expression. */
#include "runtime/autograd/autograd.h"

#define GRAD (b->grads[0])
#define ARG(k) (b->args[k])
#define SELF (b->args[0])
#define RESULT (b->results[0])

/* id, node, saved, the gradient of self. */
#define SIMPLE(X)                                                                                            \
    X(neg, "NegBackward0", "", MT(neg, GRAD))                                                                \
    X(abs, "AbsBackward0", "self", MT(mul, GRAD, MT(sgn, SELF)))                                             \
    X(sign, "SignBackward0", "", MT(zeros_like, GRAD))                                                       \
    X(sgn, "SgnBackward0", "", MT(zeros_like, GRAD))                                                         \
    X(floor, "FloorBackward0", "", MT(zeros_like, GRAD))                                                     \
    X(ceil, "CeilBackward0", "", MT(zeros_like, GRAD))                                                       \
    X(round, "RoundBackward0", "", MT(zeros_like, GRAD))                                                     \
    X(round_decimals, "RoundBackward1", "", MT(zeros_like, GRAD))                                            \
    X(trunc, "TruncBackward0", "", MT(zeros_like, GRAD))                                                     \
    X(exp, "ExpBackward0", "result", MT(mul, GRAD, RESULT))                                                  \
    X(expm1, "Expm1Backward0", "result", MT(mul, GRAD, MT(add, RESULT, 1)))                                  \
    X(log, "LogBackward0", "self", MT(div, GRAD, SELF))                                                      \
    X(log1p, "Log1PBackward0", "self", MT(div, GRAD, MT(add, SELF, 1)))                                      \
    X(log2, "Log2Backward0", "self", MT(div, GRAD, MT(mul, SELF, 0.6931471805599453)))                       \
    X(sqrt, "SqrtBackward0", "result", MT(div, GRAD, MT(mul, RESULT, 2)))                                    \
    X(sin, "SinBackward0", "self", MT(mul, GRAD, MT(cos, SELF)))                                             \
    X(cos, "CosBackward0", "self", MT(mul, GRAD, MT(neg, MT(sin, SELF))))                                    \
    X(tan, "TanBackward0", "result", MT(mul, GRAD, MT(add, MT(pow, RESULT, 2), 1)))                          \
    X(tanh, "TanhBackward0", "result", MT(tanh_backward, GRAD, RESULT))                                      \
    X(sigmoid, "SigmoidBackward0", "result", MT(sigmoid_backward, GRAD, RESULT))                             \
    X(erf, "ErfBackward0", "self",                                                                           \
      MT(mul, MT(mul, MT(exp, MT(neg, MT(pow, SELF, 2))), 1.1283791670955126), GRAD))                        \
    X(relu, "ReluBackward0", "result", MT(threshold_backward, GRAD, RESULT, 0))                              \
    X(gelu, "GeluBackward0", "self", MT(gelu_backward, GRAD, SELF, ARG(1)))                                  \
    X(silu, "SiluBackward0", "self", MT(silu_backward, GRAD, SELF))                                          \
    X(softplus, "SoftplusBackward0", "self", MT(softplus_backward, GRAD, SELF, ARG(1), ARG(2)))              \
    X(hardtanh, "HardtanhBackward0", "self", MT(hardtanh_backward, GRAD, SELF, ARG(1), ARG(2)))

SIMPLE(MT__GRAD_OF_FIRST)

/* In PyTorch's order, which profiles show: the factor first. */
static mt_status rsqrt_backward(mt__backward *b)
{
    mt_tensor *cube = MT(pow, RESULT, 3);
    mt__give(b, 0, MT(mul, MT(mul, GRAD, -0.5), cube));
    return mt_scope_status();
}
const mt__grad mt__grad_rsqrt = {"RsqrtBackward0", "result", rsqrt_backward};

static mt_status reciprocal_backward(mt__backward *b)
{
    mt_tensor *square = MT(mul, RESULT, RESULT);
    mt__give(b, 0, MT(mul, MT(neg, GRAD), square));
    return mt_scope_status();
}
const mt__grad mt__grad_reciprocal = {"ReciprocalBackward0", "result", reciprocal_backward};

/* The derivative of the op in place, which needs its result instead of self. */
#define OF_RESULT(id, node_name, gradient)                                                                   \
    static mt_status id##_backward_of_result(mt__backward *b)                                                \
    {                                                                                                        \
        mt__give(b, 0, gradient);                                                                            \
        return mt_scope_status();                                                                            \
    }                                                                                                        \
    static const mt__grad id##_in_place = {node_name, "result", id##_backward_of_result};
OF_RESULT(leaky_relu, "LeakyReluBackward1", MT(leaky_relu_backward, GRAD, RESULT, ARG(1), true))
OF_RESULT(elu, "EluBackward1", MT(elu_backward, GRAD, ARG(1), ARG(2), ARG(3), true, RESULT))

static mt_status leaky_relu_backward(mt__backward *b)
{
    mt__give(b, 0, MT(leaky_relu_backward, GRAD, SELF, ARG(1), false));
    return mt_scope_status();
}
const mt__grad mt__grad_leaky_relu = {"LeakyReluBackward0", "self", leaky_relu_backward,
                                      .in_place = &leaky_relu_in_place};

static mt_status elu_backward(mt__backward *b)
{
    mt__give(b, 0, MT(elu_backward, GRAD, ARG(1), ARG(2), ARG(3), false, SELF));
    return mt_scope_status();
}
const mt__grad mt__grad_elu = {"EluBackward0", "self", elu_backward, .in_place = &elu_in_place};

mt_status mt__composite_square(mt__call *call)
{
    return mt__return(call, call->op->in_place ? MT(pow_, call->args[0], 2) : MT(pow, call->args[0], 2));
}
