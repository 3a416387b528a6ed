/* runtime/autograd/grad_binary.c - derivatives of ops with two or three operands. Gradients are computed in
 * the order of PyTorch's generated code (by argument name), since profiles show it.
 */
#include "runtime/autograd/autograd.h"

#define GRAD (b->grads[0])
#define ARG(k) (b->args[k])

static bool is_one(const mt_value *v)
{
    return mt__value_number(v) == 1.0;
}

/* ------------------------------------------------------------------------------------------------ sums */

static mt_status add_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, is_one(&ARG(2)) ? GRAD : MT(mul, GRAD, ARG(2)));
    if (mt__wants(b, 0))
        mt__give(b, 0, GRAD);
    return mt_scope_status();
}
const mt__grad mt__grad_add = {"AddBackward0", "", add_backward};

static mt_tensor *negated(mt__backward *b, const mt_value *alpha)
{
    mt_tensor *g = MT(neg, GRAD);
    return is_one(alpha) ? g : MT(mul, g, *alpha);
}

static mt_status sub_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, negated(b, &ARG(2)));
    if (mt__wants(b, 0))
        mt__give(b, 0, GRAD);
    return mt_scope_status();
}
const mt__grad mt__grad_sub = {"SubBackward0", "", sub_backward};

static mt_status rsub_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, GRAD);
    if (mt__wants(b, 0))
        mt__give(b, 0, negated(b, &ARG(2)));
    return mt_scope_status();
}
const mt__grad mt__grad_rsub = {"RsubBackward0", "", rsub_backward, .of_number = "RsubBackward1"};

/* --------------------------------------------------------------------------------------------- products */

static mt_status mul_backward(mt__backward *b)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, GRAD, ARG(0)));
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(mul, GRAD, mt__shown_operand(ARG(1))));
    return mt_scope_status();
}
const mt__grad mt__grad_mul = {"MulBackward0", "self:other other:self", mul_backward};

static mt_status div_backward(mt__backward *b)
{
    if (mt__wants(b, 1)) {
        mt_tensor *q = MT(div, MT(div, ARG(0), ARG(1)), ARG(1));
        mt__give(b, 1, MT(mul, MT(neg, GRAD), q));
    }
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(div, GRAD, mt__shown_operand(ARG(1))));
    return mt_scope_status();
}
const mt__grad mt__grad_div = {"DivBackward0", "self:other other", div_backward};

/* A rounded quotient is flat. */
static mt_status div_mode_backward(mt__backward *b)
{
    if (ARG(2).kind == MT_NONE)
        return div_backward(b);
    for (unsigned i = 0; i < 2; i++)
        if (mt__wants(b, i))
            mt__give(b, i, MT(zeros_like, GRAD));
    return mt_scope_status();
}
const mt__grad mt__grad_div_mode = {"DivBackward2", "self:other other", div_mode_backward};

static mt_status remainder_backward(mt__backward *b)
{
    if (mt__wants(b, 1)) {
        bool was = mt_grad_enable(false); /* a step function: flat where it has a slope */
        mt_tensor *q = MT(floor_divide, ARG(0), ARG(1));
        mt_grad_enable(was);
        mt__give(b, 1, MT(mul, MT(neg, GRAD), q));
    }
    if (mt__wants(b, 0))
        mt__give(b, 0, GRAD);
    return mt_scope_status();
}
const mt__grad mt__grad_remainder = {"RemainderBackward1", "self:other other:other", remainder_backward,
                                     .of_number = "RemainderBackward0"};

static mt_status atan2_backward(mt__backward *b)
{
    mt_tensor *squares = MT(add, MT(mul, ARG(0), ARG(0)), MT(mul, ARG(1), ARG(1)));
    mt_tensor *g =
        MT(mul, GRAD, MT(masked_fill, MT(reciprocal, squares), MT(eq, squares, 0.0), 0.0)); /* 0 at 0, 0 */
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, g, MT(neg, ARG(0))));
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(mul, g, ARG(1)));
    return mt_scope_status();
}
const mt__grad mt__grad_atan2 = {"Atan2Backward0", "self other", atan2_backward};

/* ----------------------------------------------------------------------------------------------- powers */

static mt_status pow_scalar_backward(mt__backward *b)
{
    double exponent = mt__value_number(&ARG(1)); /* a float, as in PyTorch's formula */
    if (exponent == 0.0) {
        mt__give(b, 0, MT(zeros_like, ARG(0)));
        return mt_scope_status();
    }
    mt_tensor *slope = MT(mul, MT(pow, ARG(0), exponent - 1), exponent);
    mt__give(b, 0, MT(mul, GRAD, slope));
    return mt_scope_status();
}
const mt__grad mt__grad_pow_scalar = {"PowBackward0", "self", pow_scalar_backward};

/* 0 ** e, for e >= 0, has no slope in e. */
static mt_status pow_tensor_backward(mt__backward *b)
{
    if (mt__wants(b, 1)) {
        mt_tensor *flat = MT(logical_and, MT(eq, ARG(0), 0), MT(ge, ARG(1), 0));
        mt_tensor *slope = MT(mul, b->results[0], MT(log, ARG(0)));
        mt__give(b, 1, MT(mul, GRAD, MT(where, flat, 0.0, slope)));
    }
    if (mt__wants(b, 0)) {
        mt_tensor *slope = MT(mul, ARG(1), MT(pow_tensor, ARG(0), MT(sub, ARG(1), 1)));
        mt_tensor *g = MT(mul, GRAD, slope);
        mt__give(b, 0, MT(where, MT(eq, ARG(1), 0), 0.0, g));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_pow_tensor = {"PowBackward1", "self exponent result:exponent", pow_tensor_backward};

static mt_status pow_from_backward(mt__backward *b)
{
    double base = mt__value_number(&ARG(0));
    if (base == 0.0) {
        mt_tensor *slope = MT(mul, b->results[0], -__builtin_inf());
        mt__give(b, 1, MT(mul, GRAD, MT(where, MT(ge, ARG(1), 0), 0.0, slope)));
    } else {
        mt__give(b, 1, MT(mul, GRAD, MT(mul, b->results[0], __builtin_log(base))));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_pow_from = {"PowBackward2", "exponent result", pow_from_backward};

/* --------------------------------------------------------------------------------------- the larger, the smaller */

/* Equal operands share the gradient; the operand that lost gets zero. */
static mt_tensor *shared(mt__backward *b, mt_tensor *lost)
{
    mt_tensor *g = MT(where, MT(eq, ARG(0), ARG(1)), MT(div, GRAD, 2), GRAD);
    return MT(masked_fill_, g, lost, 0);
}

static mt_status extreme_backward(mt__backward *b, bool largest)
{
    if (mt__wants(b, 1))
        mt__give(b, 1, shared(b, largest ? MT(gt, ARG(0), ARG(1)) : MT(lt, ARG(0), ARG(1))));
    if (mt__wants(b, 0))
        mt__give(b, 0, shared(b, largest ? MT(lt, ARG(0), ARG(1)) : MT(gt, ARG(0), ARG(1))));
    return mt_scope_status();
}

static mt_status maximum_backward(mt__backward *b)
{
    return extreme_backward(b, true);
}
const mt__grad mt__grad_maximum = {"MaximumBackward0", "self other", maximum_backward};

static mt_status minimum_backward(mt__backward *b)
{
    return extreme_backward(b, false);
}
const mt__grad mt__grad_minimum = {"MinimumBackward0", "self other", minimum_backward};

/* ------------------------------------------------------------------------------------------------- by conditions */

static mt_status where_backward(mt__backward *b)
{
    if (mt__wants(b, 2))
        mt__give(b, 2, MT(where, ARG(0), 0.0, GRAD));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(where, ARG(0), GRAD, 0.0));
    return mt_scope_status();
}
const mt__grad mt__grad_where = {"WhereBackward0", "condition", where_backward};

static mt_status masked_fill_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(masked_fill, GRAD, ARG(1), 0));
    if (mt__wants(b, 2))
        mt__give(b, 2, MT(sum, MT(where, ARG(1), GRAD, 0.0)));
    return mt_scope_status();
}
const mt__grad mt__grad_masked_fill = {"MaskedFillBackward1", "mask", masked_fill_backward,
                                       .of_number = "MaskedFillBackward0"};

/* Comparisons: of none of their operands; but in place, what self was before has no influence. */
static mt_status compare_backward(mt__backward *b)
{
    for (unsigned i = 0; i < 2; i++)
        if (mt__wants(b, i))
            mt__give(b, i, MT(zeros_like, GRAD));
    return mt_scope_status();
}
#define COMPARE(id, Name)                                                                                    \
    static const mt__grad id##_in_place = {Name "Backward1", "", compare_backward,                           \
                                           .of_number = Name "Backward0"};                                   \
    const mt__grad mt__grad_##id = {.in_place = &id##_in_place};
COMPARE(eq, "Eq")
COMPARE(ne, "Ne")
COMPARE(lt, "Lt")
COMPARE(le, "Le")
COMPARE(gt, "Gt")
COMPARE(ge, "Ge")

static mt_status clamp_backward(mt__backward *b)
{
    mt_tensor *within = NULL;
    if (ARG(1).kind != MT_NONE)
        within = MT(ge, ARG(0), ARG(1));
    if (b->node->arg_count > 2 && ARG(2).kind != MT_NONE) {
        mt_tensor *below = MT(le, ARG(0), ARG(2));
        within = within != NULL ? MT(logical_and_, within, below) : below;
    }
    mt__give(b, 0, MT(where, within, GRAD, 0.0));
    return mt_scope_status();
}
const mt__grad mt__grad_clamp = {"ClampBackward1", "self", clamp_backward};
const mt__grad mt__grad_clamp_min = {"ClampMinBackward0", "self", clamp_backward};

static mt_status clamp_max_backward(mt__backward *b)
{
    mt__give(b, 0, MT(where, MT(le, ARG(0), ARG(1)), GRAD, 0.0));
    return mt_scope_status();
}
const mt__grad mt__grad_clamp_max = {"ClampMaxBackward0", "self", clamp_max_backward};

/* A bound gets the gradient where it was chosen; of crossing bounds the upper one. */
static mt_status clamp_tensor_backward(mt__backward *b)
{
    bool low = ARG(1).kind != MT_NONE, high = ARG(2).kind != MT_NONE;
    if (mt__wants(b, 0))
        clamp_backward(b);
    if (low && mt__wants(b, 1)) {
        mt_tensor *chosen = MT(lt, ARG(0), ARG(1));
        if (high)
            chosen = MT(logical_and, chosen, MT(lt, ARG(1), ARG(2)));
        mt__give(b, 1, MT(where, chosen, GRAD, 0.0));
    }
    if (high && mt__wants(b, 2)) {
        mt_tensor *chosen = MT(gt, ARG(0), ARG(2));
        if (low)
            chosen = MT(logical_or, chosen, MT(lt, ARG(2), ARG(1)));
        mt__give(b, 2, MT(where, chosen, GRAD, 0.0));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_clamp_tensor = {"ClampBackward0", "self min max", clamp_tensor_backward};

static mt_status clamp_min_tensor_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(where, MT(ge, ARG(0), ARG(1)), GRAD, 0.0));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(where, MT(lt, ARG(0), ARG(1)), GRAD, 0.0));
    return mt_scope_status();
}
const mt__grad mt__grad_clamp_min_tensor = {"ClampMinBackward1", "self min", clamp_min_tensor_backward};

static mt_status clamp_max_tensor_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(where, MT(le, ARG(0), ARG(1)), GRAD, 0.0));
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(where, MT(gt, ARG(0), ARG(1)), GRAD, 0.0));
    return mt_scope_status();
}
const mt__grad mt__grad_clamp_max_tensor = {"ClampMaxBackward1", "self max", clamp_max_tensor_backward};

/* -------------------------------------------------------------------------------------------------- three tensors */

static mt_status addcmul_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, GRAD);
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, GRAD, MT(mul, ARG(2), ARG(3))));
    if (mt__wants(b, 2))
        mt__give(b, 2, MT(mul, GRAD, MT(mul, ARG(1), ARG(3))));
    return mt_scope_status();
}
const mt__grad mt__grad_addcmul = {"AddcmulBackward0", "tensor1:tensor2 tensor2:tensor1", addcmul_backward};

static mt_status addcdiv_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, GRAD);
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, GRAD, MT(mul, MT(reciprocal, ARG(2)), ARG(3))));
    if (mt__wants(b, 2)) {
        mt_tensor *slope = MT(div, MT(mul, ARG(1), ARG(3)), MT(mul, ARG(2), ARG(2)));
        mt__give(b, 2, MT(mul, MT(neg, GRAD), slope));
    }
    return mt_scope_status();
}
const mt__grad mt__grad_addcdiv = {"AddcdivBackward0", "tensor1:tensor2 tensor2:tensor1,tensor2",
                                   addcdiv_backward};

static mt_status lerp_backward(mt__backward *b)
{
    bool number = ARG(2).kind != MT_TENSOR && ARG(2).kind != MT_NONE;
    if (mt__wants(b, 1))
        mt__give(b, 1, MT(mul, GRAD, ARG(2)));
    if (mt__wants(b, 0))
        mt__give(b, 0,
                 number ? MT(mul, GRAD, 1.0 - mt__value_number(&ARG(2)))
                        : MT(mul, GRAD, MT(rsub, ARG(2), 1)));
    if (mt__wants(b, 2))
        mt__give(b, 2, MT(mul, GRAD, MT(sub, ARG(1), ARG(0))));
    return mt_scope_status();
}
const mt__grad mt__grad_lerp = {"LerpBackward1", "self:weight end:weight weight:self,end", lerp_backward,
                                .of_number = "LerpBackward0"};
