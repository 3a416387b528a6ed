/* kernels/cpu/activation.c - activations and their derivatives, for floats. Loops receive the numbers among
 * the arguments as doubles, in the order of `numbers`.
 */
#pragma GCC optimize("fp-contract=fast") /* polynomials: half the latency where there is FMA */
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/kernels/cpu/cpu_formulas.h"

#define NUMBERS_MAX 4

/* Runs the loop of the compute dtype over the tensors; `loops` are for float32 and float64. */
static mt_status run(mt__call *call, mt__loop *const *loops, const mt_tensor *a, const mt_tensor *b,
                     const double *numbers)
{
    if (!mt__is_floating(call->compute))
        return mt__refuse_dtype(call);
    mt__plan p;
    mt__plan_begin(&p, call->outs[0], call->compute);
    mt__plan_add_tensor(&p, a, call->compute);
    if (b != NULL)
        mt__plan_add_tensor(&p, b, call->compute);
    mt__plan_run(&p, loops[call->compute - MT_FLOAT32], numbers);
    return MT_OK;
}

#define NUMBER(k) ((type)((const double *)user)[k])
#define LOOPS1(op, setup, expr)                                                                              \
    MT__LOOP1(MT__CLONES, op##_f32, float, float, setup, expr)                                               \
    MT__LOOP1(MT__CLONES, op##_f64, double, double, setup, expr)                                             \
    static mt__loop *const op##_loops[] = {op##_f32, op##_f64};
/* a: the gradient; b: the input or the result */
#define LOOPS2(op, setup, expr)                                                                              \
    MT__LOOP2(MT__CLONES, op##_f32, float, float, setup, expr)                                               \
    MT__LOOP2(MT__CLONES, op##_f64, double, double, setup, expr)                                             \
    static mt__loop *const op##_loops[] = {op##_f32, op##_f64};

/* ------------------------------------------------------------------------------------------------- gelu */

#define ROOT_HALF 0.70710678118654752440
#define ROOT_2_BY_PI 0.79788456080286535588 /* sqrt(2 / pi) */
#define BY_ROOT_2_PI 0.39894228040143267794 /* 1 / sqrt(2 pi) */
#define CUBIC 0.044715

#define GELU_FORMS(T)                                                                                        \
    MT__INLINE T gelu_exact_##T(T x)                                                                         \
    {                                                                                                        \
        return MT__GELU(T, x);                                                                               \
    }                                                                                                        \
    MT__INLINE T gelu_exact_slope_##T(T x)                                                                   \
    {                                                                                                        \
        T below = (T)0.5 * ((T)1 + MT__ERF((T)(x * (T)ROOT_HALF)));                                          \
        return below + x * (T)BY_ROOT_2_PI * MT__EXP((T)((T)-0.5 * x * x));                                  \
    }                                                                                                        \
    MT__INLINE T gelu_tanh_##T(T x)                                                                          \
    {                                                                                                        \
        return MT__GELU_TANH(T, x);                                                                          \
    }                                                                                                        \
    MT__INLINE T gelu_tanh_slope_##T(T x)                                                                    \
    {                                                                                                        \
        T t = MT__TANH((T)((T)ROOT_2_BY_PI * (x + (T)CUBIC * x * x * x)));                                   \
        T inner = (T)ROOT_2_BY_PI * ((T)1 + (T)3 * (T)CUBIC * x * x);                                        \
        return (T)0.5 * ((T)1 + t) + (T)0.5 * x * ((T)1 - t * t) * inner;                                    \
    }
GELU_FORMS(float)
GELU_FORMS(double)
#define OF(fn, x) _Generic((x), float : fn##_float, default : fn##_double)(x)

LOOPS1(gelu_exact, MT__NO_SETUP, OF(gelu_exact, x))
LOOPS1(gelu_tanh, MT__NO_SETUP, OF(gelu_tanh, x))
LOOPS2(gelu_exact_backward, MT__NO_SETUP, a *OF(gelu_exact_slope, b))
LOOPS2(gelu_tanh_backward, MT__NO_SETUP, a *OF(gelu_tanh_slope, b))

static bool is_tanh(const mt_value *approximate)
{
    return approximate->kind == MT_TEXT && strcmp(approximate->as.text, "tanh") == 0;
}

mt_status mt__cpu_gelu(mt__call *call)
{
    return run(call, is_tanh(&call->args[1]) ? gelu_tanh_loops : gelu_exact_loops, call->args[0].as.tensor,
               NULL, NULL);
}

mt_status mt__cpu_gelu_backward(mt__call *call)
{
    return run(call, is_tanh(&call->args[2]) ? gelu_tanh_backward_loops : gelu_exact_backward_loops,
               call->args[0].as.tensor, call->args[1].as.tensor, NULL);
}

/* -------------------------------------------------------------------------------------------- the others */

LOOPS1(silu, MT__NO_SETUP, MT__SILU(type, x))
LOOPS2(silu_backward, MT__NO_SETUP, MT__SILU_BACKWARD(type, a, b))

#define SOFT                                                                                                 \
    const type beta = NUMBER(0);                                                                             \
    const type most = NUMBER(1)
LOOPS1(softplus, SOFT, MT__SOFTPLUS(type, x, beta, most))
LOOPS2(softplus_backward, SOFT, MT__SOFTPLUS_BACKWARD(type, a, b, beta, most))

#define SLOPE const type slope = NUMBER(0)
LOOPS1(leaky_relu, SLOPE, MT__LEAKY_RELU(x, slope))
LOOPS2(leaky_relu_backward, SLOPE, MT__LEAKY_RELU_BACKWARD(a, b, slope))

/* numbers: alpha * scale, scale, input_scale */
#define ELU                                                                                                  \
    const type low = NUMBER(0);                                                                              \
    const type scale = NUMBER(1);                                                                            \
    const type within = NUMBER(2)
LOOPS1(elu, ELU, MT__ELU(type, x, low, scale, within))
LOOPS2(elu_backward, ELU, MT__ELU_BACKWARD(type, a, b, low, scale, within))
LOOPS2(elu_backward_result, ELU, MT__ELU_BACKWARD_OF_RESULT(a, b, low, scale, within))

#define BOUNDS                                                                                               \
    const type low = NUMBER(0);                                                                              \
    const type high = NUMBER(1)
LOOPS2(hardtanh_backward, BOUNDS, MT__HARDTANH_BACKWARD(type, a, b, low, high))

#define MOST const type most = NUMBER(0)
LOOPS2(threshold_backward, MOST, MT__THRESHOLD_BACKWARD(type, a, b, most))
LOOPS2(tanh_backward, MT__NO_SETUP, MT__TANH_BACKWARD(type, a, b))
LOOPS2(sigmoid_backward, MT__NO_SETUP, MT__SIGMOID_BACKWARD(type, a, b))

/* Kernels that take one or two tensors first, then numbers. */
#define KERNEL(op, tensors, first_number, count)                                                             \
    mt_status mt__cpu_##op(mt__call *call)                                                                   \
    {                                                                                                        \
        double numbers[NUMBERS_MAX] = {0};                                                                   \
        for (int i = 0; i < (count); i++)                                                                    \
            numbers[i] = mt__arg_number(call, (first_number) + (unsigned)i);                                 \
        return run(call, op##_loops, call->args[0].as.tensor,                                                \
                   (tensors) == 2 ? call->args[1].as.tensor : NULL, numbers);                                \
    }
KERNEL(silu, 1, 1, 0)
KERNEL(silu_backward, 2, 2, 0)
KERNEL(softplus, 1, 1, 2)
KERNEL(softplus_backward, 2, 2, 2)
KERNEL(leaky_relu, 1, 1, 1)
KERNEL(leaky_relu_backward, 2, 2, 1)
KERNEL(hardtanh_backward, 2, 2, 2)
KERNEL(threshold_backward, 2, 2, 1)
KERNEL(tanh_backward, 2, 2, 0)
KERNEL(sigmoid_backward, 2, 2, 0)

mt_status mt__cpu_elu(mt__call *call)
{
    const double numbers[] = {mt__arg_number(call, 1) * mt__arg_number(call, 2), mt__arg_number(call, 2),
                              mt__arg_number(call, 3)};
    return run(call, elu_loops, call->args[0].as.tensor, NULL, numbers);
}

mt_status mt__cpu_elu_backward(mt__call *call)
{
    const double numbers[] = {mt__arg_number(call, 1) * mt__arg_number(call, 2), mt__arg_number(call, 2),
                              mt__arg_number(call, 3)};
    return run(call, call->args[4].as.i ? elu_backward_result_loops : elu_backward_loops,
               call->args[0].as.tensor, call->args[5].as.tensor, numbers);
}
