/* kernels/cpu/unary.c - elementwise ops of one operand: one expression per op, expanded to a loop per dtype.
 * Activations are in activation.c.
 */
#pragma GCC optimize("fp-contract=fast") /* polynomials: half the latency where there is FMA */
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/kernels/cpu/cpu_formulas.h"
#include <tgmath.h>

static mt_status run(mt__call *call, mt__loop *const *loops, mt_dtype gives)
{
    const mt_tensor *x = call->args[0].as.tensor, *out = call->outs[0];
    mt__loop *loop = loops[call->compute];
    if (MT__UNLIKELY(loop == NULL))
        return mt__refuse_dtype(call);
    if (MT__LIKELY(out->numel <= MT__GRAIN && out->dtype == gives && x->dtype == call->compute &&
                   (x->flags & out->flags & MT__CONTIGUOUS))) {
        loop((char *const[]){out->data, x->data},
             (const int64_t[]){(int64_t)mt__size_of(out), (int64_t)mt__size_of(x)}, out->numel, NULL);
        return MT_OK;
    }
    mt__plan p;
    mt__plan_begin(&p, out, gives);
    mt__plan_add_tensor(&p, x, call->compute);
    mt__plan_run(&p, loop, NULL);
    return MT_OK;
}

#define BOOL_LOOP(op, expr) MT__LOOP1(, op##_bool, bool, bool, MT__NO_SETUP, expr)
#define INT_LOOPS(op, expr)                                                                                  \
    MT__LOOP1(, op##_i32, int32_t, int32_t, MT__NO_SETUP, expr)                                              \
    MT__LOOP1(, op##_i64, int64_t, int64_t, MT__NO_SETUP, expr)
#define FLOAT_LOOPS(op, expr)                                                                                \
    MT__LOOP1(MT__CLONES, op##_f32, float, float, MT__NO_SETUP, expr)                                        \
    MT__LOOP1(MT__CLONES, op##_f64, double, double, MT__NO_SETUP, expr)
#define KERNEL(op, gives, of_bool, of_i32, of_i64, of_f32, of_f64)                                           \
    mt_status mt__cpu_##op(mt__call *call)                                                                   \
    {                                                                                                        \
        static mt__loop *const loops[MT_DTYPES] = {of_bool, of_i32, of_i64, of_f32, of_f64};                 \
        return run(call, loops, gives);                                                                      \
    }

/* -------------------------------------------------------------------------------------------- any number */

INT_LOOPS(neg, 0u - (uint64_t)x)
FLOAT_LOOPS(neg, -x)
KERNEL(neg, call->compute, NULL, neg_i32, neg_i64, neg_f32, neg_f64)

BOOL_LOOP(same, x)
INT_LOOPS(same, x)

INT_LOOPS(abs, x < 0 ? 0u - (uint64_t)x : (uint64_t)x)
FLOAT_LOOPS(abs, fabs(x))
KERNEL(abs, call->compute, NULL, abs_i32, abs_i64, abs_f32, abs_f64)

INT_LOOPS(sign, (x > 0) - (x < 0))
FLOAT_LOOPS(sign, MT__SIGN(type, x))
KERNEL(sign, call->compute, same_bool, sign_i32, sign_i64, sign_f32, sign_f64)

BOOL_LOOP(relu, x)
INT_LOOPS(relu, x > 0 ? x : 0)
FLOAT_LOOPS(relu, MT__RELU(type, x))
KERNEL(relu, call->compute, relu_bool, relu_i32, relu_i64, relu_f32, relu_f64)

/* Integers need no rounding. */
#define ROUNDED(op, expr)                                                                                    \
    FLOAT_LOOPS(op, expr)                                                                                    \
    KERNEL(op, call->compute, NULL, same_i32, same_i64, op##_f32, op##_f64)
ROUNDED(floor, floor(x))
ROUNDED(ceil, ceil(x))
ROUNDED(round, rint(x))
ROUNDED(trunc, trunc(x))

/* ------------------------------------------------------------------------------------------------- floats */

#define REAL(op, expr)                                                                                       \
    FLOAT_LOOPS(op, expr)                                                                                    \
    KERNEL(op, call->compute, NULL, NULL, NULL, op##_f32, op##_f64)
REAL(exp, MT__EXP(x))
REAL(expm1, MT__EXPM1(x))
REAL(log, MT__LOG(x))
REAL(log1p, MT__LOG1P(x))
REAL(log2, log2(x))
REAL(sqrt, MT__SQRT(x))
REAL(rsqrt, MT__RSQRT(type, x))
REAL(reciprocal, MT__RECIPROCAL(type, x))
REAL(tan, tan(x))
REAL(tanh, MT__TANH(x))
REAL(sigmoid, MT__SIGMOID(type, x))
REAL(erf, MT__ERF(x))

/* Angles too large for the fast reduction, infinities and NaN are redone by libm. */
#define LARGE_ANGLES(T, S, MOST)                                                                             \
    static void redo_large_##S(char *const *p, const int64_t *step, int64_t n, T (*fn)(T))                   \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = *(const T *)(const void *)(p[1] + i * step[1]);                                            \
            if (!(fabs(x) < (MOST)))                                                                         \
                *(T *)(void *)(p[0] + i * step[0]) = fn(x);                                                  \
        }                                                                                                    \
    }                                                                                                        \
    MT__CLONES static bool any_large_##S(const T *x, int64_t n)                                              \
    {                                                                                                        \
        int large = 0; /* an int: the loop is vectorized */                                                  \
        for (int64_t i = 0; i < n; i++)                                                                      \
            large |= !(fabs(x[i]) < (MOST));                                                                 \
        return large != 0;                                                                                   \
    }
LARGE_ANGLES(float, f32, MT__ANGLE_MAX)
LARGE_ANGLES(double, f64, MT__ANGLE64_MAX)

#define ANGLE_LOOP(op, T, S, DTYPE, NEAR, FAR)                                                               \
    MT__LOOP1(MT__CLONES, op##_near_##S, T, T, MT__NO_SETUP, NEAR)                                           \
    static void op##_##S(char *const *p, const int64_t *step, int64_t n, const void *user)                   \
    {                                                                                                        \
        T kept[256]; /* the output may be the input */                                                       \
        const int64_t size = sizeof(T);                                                                      \
        for (int64_t i = 0; i < n; i += 256) {                                                               \
            int64_t part = n - i < 256 ? n - i : 256;                                                        \
            char *const in[2] = {(char *)kept, p[1] + i * step[1]}, *const out[2] = {p[0] + i * step[0],     \
                                                                                     (char *)kept};          \
            mt__cast_loop(DTYPE, DTYPE)(in, (const int64_t[]){size, step[1]}, part, NULL);                   \
            const int64_t steps[2] = {step[0], size};                                                        \
            op##_near_##S(out, steps, part, user);                                                           \
            if (MT__UNLIKELY(any_large_##S(kept, part)))                                                     \
                redo_large_##S(out, steps, part, FAR);                                                       \
        }                                                                                                    \
    }
#define ANGLE(op, quadrants)                                                                                 \
    ANGLE_LOOP(op, float, f32, MT_FLOAT32, mt__sine_shifted(x, quadrants), op##f)                            \
    ANGLE_LOOP(op, double, f64, MT_FLOAT64, mt__sine_shifted64(x, quadrants), (op))                          \
    KERNEL(op, call->compute, NULL, NULL, NULL, op##_f32, op##_f64)
ANGLE(sin, 0u)
ANGLE(cos, 1u)

/* --------------------------------------------------------------------------------------------- truths and bits */

#define TRUTH(op, of_int, of_real)                                                                           \
    MT__LOOP1(, op##_bool, bool, bool, MT__NO_SETUP, of_int)                                                 \
    MT__LOOP1(, op##_i32, int32_t, bool, MT__NO_SETUP, of_int)                                               \
    MT__LOOP1(, op##_i64, int64_t, bool, MT__NO_SETUP, of_int)                                               \
    MT__LOOP1(, op##_f32, float, bool, MT__NO_SETUP, of_real)                                                \
    MT__LOOP1(, op##_f64, double, bool, MT__NO_SETUP, of_real)                                               \
    KERNEL(op, MT_BOOL, op##_bool, op##_i32, op##_i64, op##_f32, op##_f64)
TRUTH(isnan, ((void)x, false), x != x)
TRUTH(isinf, ((void)x, false), fabs(x) == (type)INFINITY)
TRUTH(isfinite, ((void)x, true), fabs(x) < (type)INFINITY)
TRUTH(logical_not, x == 0, x == 0)

BOOL_LOOP(bitwise_not, !x)
INT_LOOPS(bitwise_not, ~x)
KERNEL(bitwise_not, call->compute, bitwise_not_bool, bitwise_not_i32, bitwise_not_i64, NULL, NULL)
