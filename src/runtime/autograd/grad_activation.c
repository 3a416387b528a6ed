/* runtime/autograd/grad_activation.c - derivatives of the derivatives of activations (x_backward ops).
 *
 * With g' the activation's slope, x_backward(grad_output, self) is grad_output g'(self). Its own derivatives
 * are made of ops that have derivatives, so any order can be taken.
 */
#include "runtime/autograd/autograd.h"

#define GRAD (b->grads[0])
#define ARG(k) (b->args[k])
#define GRAD_OUTPUT (b->args[0])
#define SELF (b->args[1])

/* The gradient of self: GRAD GRAD_OUTPUT g''(self). */
static void give_bend(mt__backward *b, unsigned self, mt_tensor *bend)
{
    mt__give(b, self, MT(mul, MT(mul, GRAD, GRAD_OUTPUT), bend));
}

static mt_status threshold_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(threshold_backward, GRAD, ARG(1), ARG(2)));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(zeros_like, GRAD));
    return mt_scope_status();
}
const mt__grad mt__grad_threshold_backward = {"ThresholdBackwardBackward0", "self",
                                              threshold_backward_backward};

static mt_status tanh_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(tanh_backward, GRAD, ARG(1)));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, GRAD, MT(mul, MT(mul, ARG(1), -2), ARG(0))));
    return mt_scope_status();
}
const mt__grad mt__grad_tanh_backward = {"TanhBackwardBackward0", "grad_output:output output",
                                         tanh_backward_backward};

static mt_status sigmoid_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(sigmoid_backward, GRAD, ARG(1)));
    if (mt__wants(b, 1)) {
        mt_tensor *bend = MT(add, MT(mul, ARG(1), -2), 1);
        mt__give(b, 1, MT(mul, MT(mul, GRAD, ARG(0)), bend));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_sigmoid_backward = {"SigmoidBackwardBackward0", "grad_output:output output",
                                            sigmoid_backward_backward};

static mt_status silu_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(silu_backward, GRAD, SELF));
    if (mt__wants(b, 1)) { /* s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x) */
        mt_tensor *s = MT(sigmoid, SELF), *slope = MT(mul, s, MT(rsub, s, 1));
        mt_tensor *rest = MT(add, MT(mul, SELF, MT(rsub, MT(mul, s, 2), 1)), 2);
        give_bend(b, 1, MT(mul, slope, rest));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_silu_backward = {"SiluBackwardBackward0", "grad_output:self self",
                                         silu_backward_backward};

/* (1 - t^2) (u' + x u'' / 2 - x t u'^2), t = tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
static mt_tensor *gelu_tanh_bend(mt_value x)
{
    const double root = 0.7978845608028654, cube = 0.044715;
    mt_tensor *square = MT(mul, x, x);
    mt_tensor *t = MT(tanh, MT(mul, MT(mul, x, MT(add, MT(mul, square, cube), 1)), root));
    mt_tensor *u1 = MT(mul, MT(add, MT(mul, square, 3 * cube), 1), root);
    mt_tensor *half_x_u2 = MT(mul, square, 3 * cube * root);
    mt_tensor *last = MT(mul, MT(mul, x, t), MT(mul, u1, u1));
    return MT(mul, MT(rsub, MT(mul, t, t), 1), MT(sub, MT(add, u1, half_x_u2), last));
}

/* phi(x) (2 - x^2), phi: the normal density */
static mt_tensor *gelu_bend(mt_value x)
{
    mt_tensor *square = MT(mul, x, x);
    mt_tensor *density = MT(mul, MT(exp, MT(mul, square, -0.5)), 0.3989422804014327);
    return MT(mul, density, MT(rsub, square, 2));
}

static mt_status gelu_backward_backward(mt__backward *b)
{
    bool by_tanh = ARG(2).kind == MT_TEXT && strcmp(ARG(2).as.text, "tanh") == 0;
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(gelu_backward, GRAD, SELF, ARG(2)));
    if (mt__wants(b, 1))
        give_bend(b, 1, by_tanh ? gelu_tanh_bend(SELF) : gelu_bend(SELF));
    return mt_scope_status();
}
const mt__grad mt__grad_gelu_backward = {"GeluBackwardBackward0", "grad_output:self self",
                                         gelu_backward_backward};

static mt_status softplus_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(softplus_backward, GRAD, SELF, ARG(2), ARG(3)));
    if (mt__wants(b, 1)) { /* beta s (1 - s) below the threshold */
        mt_tensor *x = MT(mul, SELF, ARG(2)), *s = MT(sigmoid, x);
        mt_tensor *bend = MT(mul, MT(mul, s, MT(rsub, s, 1)), ARG(2));
        give_bend(b, 1, MT(mul, bend, MT(lt, x, ARG(3))));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_softplus_backward = {"SoftplusBackwardBackward0", "grad_output:self self",
                                             softplus_backward_backward};

static mt_status leaky_relu_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(leaky_relu_backward, GRAD, SELF, ARG(2), false));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(zeros_like, GRAD));
    return mt_scope_status();
}
const mt__grad mt__grad_leaky_relu_backward = {"LeakyReluBackwardBackward0", "self",
                                               leaky_relu_backward_backward};

/* elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result) */
static mt_status elu_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(elu_backward, GRAD, ARG(1), ARG(2), ARG(3), ARG(4), ARG(5)));
    if (mt__wants(b, 5)) {
        mt_tensor *below = MT(lt, ARG(5), 0), *both = MT(mul, MT(mul, GRAD, GRAD_OUTPUT), ARG(3));
        mt_tensor *slope = ARG(4).as.i ? both : MT(elu_backward, both, ARG(1), ARG(2), ARG(3), false, ARG(5));
        mt__give(b, 5, MT(mul, slope, below));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_elu_backward = {"EluBackwardBackward0", "grad_output:self_or_result self_or_result",
                                        elu_backward_backward};

static mt_status hardtanh_backward_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(hardtanh_backward, GRAD, SELF, ARG(2), ARG(3)));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(zeros_like, GRAD));
    return mt_scope_status();
}
const mt__grad mt__grad_hardtanh_backward = {"HardtanhBackwardBackward0", "self", hardtanh_backward_backward};
