/* kernels/cpu/binary.c - elementwise ops of two operands: one expression per op, expanded to
 * a loop per dtype.
 *
 * Integers wrap as in PyTorch. A loop that finds an integer division by zero continues with 1, and the op
 * reports "ZeroDivisionError" at the end.
 */
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/kernels/cpu/vector_math.h"
#include "runtime/kernels/formulas.h"
#include <tgmath.h>

/* An operand that a loop can use directly: a number, or contiguous like out. */
static inline bool is_direct(const mt_value *v, const mt_tensor *out, mt_dtype dtype, mt__scalar *s, char **p,
                             int64_t *step)
{
    if (v->kind == MT_TENSOR) {
        const mt_tensor *t = v->as.tensor;
        *p = t->data;
        *step = (int64_t)mt__size_of(t);
        return t->dtype == dtype && t->numel == out->numel && (t->flags & MT__CONTIGUOUS);
    }
    *s = mt__scalar_of(dtype, v);
    *p = (char *)s;
    *step = 0;
    return true;
}

__attribute__((noinline)) static void run_planned(mt__call *call, mt__loop *loop, mt_dtype gives,
                                                  const mt_value *a, const mt_value *b, const void *user)
{
    mt__plan plan;
    mt__plan_begin(&plan, call->outs[0], gives);
    mt__plan_add(&plan, a, call->compute);
    mt__plan_add(&plan, b, call->compute);
    mt__plan_run(&plan, loop, user);
}

static inline mt_status run(mt__call *call, mt__loop *const *loops, mt_dtype gives, unsigned first,
                            const void *user)
{
    const mt_tensor *out = call->outs[0];
    const mt_value *a = &call->args[first], *b = &call->args[1 - first];
    mt__loop *loop = loops[call->compute];
    mt__scalar sa, sb;
    char *p[3];
    int64_t step[3];
    if (MT__UNLIKELY(loop == NULL))
        return mt__refuse_dtype(call);
    if (MT__LIKELY(out->numel <= MT__GRAIN && out->dtype == gives && (out->flags & MT__CONTIGUOUS) &&
                   is_direct(a, out, call->compute, &sa, &p[1], &step[1]) &&
                   is_direct(b, out, call->compute, &sb, &p[2], &step[2]))) {
        p[0] = out->data;
        step[0] = (int64_t)mt__size_of(out);
        loop(p, step, out->numel, user);
        return MT_OK;
    }
    run_planned(call, loop, gives, a, b, user);
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------- making loops */

/* `wide`: the type in which overflow is defined. */
#define LOOP(attributes, op, sym, T, W, R, setup, expr)                                                      \
    MT__LOOP2(attributes, op##_##sym, T, R, typedef W wide __attribute__((unused)); setup, expr)
#define BOOL_LOOP(op, setup, expr) LOOP(, op, bool, bool, unsigned, bool, setup, expr)
#define INT_LOOPS(op, setup, expr)                                                                           \
    LOOP(, op, i32, int32_t, uint32_t, int32_t, setup, expr)                                                 \
    LOOP(, op, i64, int64_t, uint64_t, int64_t, setup, expr)
#define NARROW_LOOPS(op, setup, expr)                                                                        \
    LOOP(, op, u8, uint8_t, uint32_t, uint8_t, setup, expr)                                                  \
    LOOP(, op, i8, int8_t, uint32_t, int8_t, setup, expr)                                                    \
    LOOP(, op, i16, int16_t, uint32_t, int16_t, setup, expr)
#define FLOAT_LOOPS(op, setup, expr)                                                                         \
    LOOP(MT__CLONES, op, f32, float, float, float, setup, expr)                                              \
    LOOP(MT__CLONES, op, f64, double, double, double, setup, expr)

/* Those of narrow integers are there if narrow.c says so (LOOPS); other ops widen them. */
#define NARROW_ENTRIES(op) [MT_UINT8] = op##_u8, [MT_INT8] = op##_i8, [MT_INT16] = op##_i16
#define TABLE_ALL(op)                                                                                        \
    static mt__loop *const op##_loops[MT_DTYPES] = {op##_bool, op##_i32, op##_i64,                           \
                                                    op##_f32,  op##_f64, NARROW_ENTRIES(op)};
#define TABLE_NARROW(op)                                                                                     \
    static mt__loop *const op##_loops[MT_DTYPES] = {NULL,     op##_i32, op##_i64,                            \
                                                    op##_f32, op##_f64, NARROW_ENTRIES(op)};
#define TABLE_NUMBER(op)                                                                                     \
    static mt__loop *const op##_loops[MT_DTYPES] = {NULL, op##_i32, op##_i64, op##_f32, op##_f64};
#define TABLE_FLOAT(op) static mt__loop *const op##_loops[MT_DTYPES] = {NULL, NULL, NULL, op##_f32, op##_f64};
#define TABLE_INT(op)                                                                                        \
    static mt__loop *const op##_loops[MT_DTYPES] = {op##_bool, op##_i32, op##_i64,                           \
                                                    NULL,      NULL,     NARROW_ENTRIES(op)};

#define LOOPS_ALL(op, expr)                                                                                  \
    BOOL_LOOP(op, MT__NO_SETUP, expr)                                                                        \
    INT_LOOPS(op, MT__NO_SETUP, expr)                                                                        \
    NARROW_LOOPS(op, MT__NO_SETUP, expr)                                                                     \
    FLOAT_LOOPS(op, MT__NO_SETUP, expr)                                                                      \
    TABLE_ALL(op)

/* ------------------------------------------------------------------------------------------------ arithmetic */

LOOPS_ALL(add, (wide)a + (wide)b)
BOOL_LOOP(mul, MT__NO_SETUP, a &b)
LOOP(, mul, i32, int32_t, uint32_t, int32_t, MT__NO_SETUP, (wide)a *(wide)b)
LOOP(MT__CLONES, mul, i64, int64_t, uint64_t, int64_t, MT__NO_SETUP, (wide)a *(wide)b)
NARROW_LOOPS(mul, MT__NO_SETUP, (wide)a *(wide)b)
FLOAT_LOOPS(mul, MT__NO_SETUP, a *b)
TABLE_ALL(mul)
INT_LOOPS(sub, MT__NO_SETUP, (wide)a - (wide)b)
NARROW_LOOPS(sub, MT__NO_SETUP, (wide)a - (wide)b)
FLOAT_LOOPS(sub, MT__NO_SETUP, a - b)
TABLE_NARROW(sub)
FLOAT_LOOPS(div, MT__NO_SETUP, a / b)
TABLE_FLOAT(div)

/* user: alpha, as an mt_value */
#define INT_ALPHA const wide alpha = (wide)((const mt_value *)user)->as.i
#define FLOAT_ALPHA const type alpha = (type)mt__value_number(user)
BOOL_LOOP(scaled, INT_ALPHA, a | (alpha != 0 && b))
INT_LOOPS(scaled, INT_ALPHA, (wide)a + alpha * (wide)b)
NARROW_LOOPS(scaled, INT_ALPHA, (wide)a + alpha * (wide)b)
FLOAT_LOOPS(scaled, FLOAT_ALPHA, a + alpha * b)
TABLE_ALL(scaled)

LOOPS_ALL(maximum, MT__MAXIMUM(a, b))
LOOPS_ALL(minimum, MT__MINIMUM(a, b))

static mt_status run_scaled(mt__call *call, bool negative, unsigned first)
{
    mt_value alpha = call->args[2];
    if (negative && alpha.kind == MT_FLOAT)
        alpha.as.f = -alpha.as.f;
    else if (negative)
        alpha.as.i = -alpha.as.i;
    return run(call, scaled_loops, call->compute, first, &alpha);
}

static inline bool is_one(const mt_value *v)
{
    return v->kind == MT_FLOAT ? v->as.f == 1.0 : v->as.i == 1;
}

mt_status mt__cpu_add(mt__call *call)
{
    return MT__LIKELY(is_one(&call->args[2])) ? run(call, add_loops, call->compute, 0, NULL)
                                              : run_scaled(call, false, 0);
}

mt_status mt__cpu_sub(mt__call *call)
{
    return MT__LIKELY(is_one(&call->args[2])) ? run(call, sub_loops, call->compute, 0, NULL)
                                              : run_scaled(call, true, 0);
}

mt_status mt__cpu_rsub(mt__call *call)
{
    return is_one(&call->args[2]) ? run(call, sub_loops, call->compute, 1, NULL) : run_scaled(call, true, 1);
}

/* --------------------------------------------------------------------------------------- division with floor */

/* user: an _Atomic bool, set when a divisor is zero */
static int64_t divisor(int64_t b, const void *user)
{
    if (MT__LIKELY(b != 0))
        return b;
    atomic_store_explicit((_Atomic bool *)(uintptr_t)user, true, memory_order_relaxed);
    return 1;
}

static int64_t floor_quotient(int64_t a, int64_t b)
{
    if (b == -1)
        return (int64_t)(0u - (uint64_t)a); /* the smallest integer has no negation */
    int64_t q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floor_rest(int64_t a, int64_t b)
{
    int64_t r = b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double real_rest(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

static float real_restf(float a, float b)
{
    float r = fmodf(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

/* Python's floor division: exact where a / b would round to the next integer. */
#define REAL_QUOTIENT(name, T)                                                                               \
    static T name(T a, T b)                                                                                  \
    {                                                                                                        \
        if (b == 0)                                                                                          \
            return a / b;                                                                                    \
        T rest = fmod(a, b), q = (a - rest) / b;                                                             \
        if (rest != 0 && (b < 0) != (rest < 0))                                                              \
            q -= 1;                                                                                          \
        if (q == 0)                                                                                          \
            return copysign((T)0, a / b);                                                                    \
        T whole = floor(q);                                                                                  \
        return q - whole > (T)0.5 ? whole + 1 : whole;                                                       \
    }
REAL_QUOTIENT(real_quotientf, float)
REAL_QUOTIENT(real_quotient, double)

INT_LOOPS(floor_divide, MT__NO_SETUP, floor_quotient(a, divisor(b, user)))
LOOP(, floor_divide, f32, float, float, float, MT__NO_SETUP, real_quotientf(a, b))
LOOP(, floor_divide, f64, double, double, double, MT__NO_SETUP, real_quotient(a, b))
TABLE_NUMBER(floor_divide)
INT_LOOPS(remainder, MT__NO_SETUP, floor_rest(a, divisor(b, user)))
LOOP(, remainder, f32, float, float, float, MT__NO_SETUP, real_restf(a, b))
LOOP(, remainder, f64, double, double, double, MT__NO_SETUP, real_rest(a, b))
TABLE_NUMBER(remainder)

static mt_status run_divided(mt__call *call, mt__loop *const *loops)
{
    _Atomic bool zero = false;
    mt_status status = run(call, loops, call->compute, 0, &zero);
    if (status == MT_OK && atomic_load_explicit(&zero, memory_order_relaxed))
        return mt__fail(MT_E_RUNTIME, "ZeroDivisionError");
    return status;
}

mt_status mt__cpu_floor_divide(mt__call *call)
{
    return run_divided(call, floor_divide_loops);
}

mt_status mt__cpu_remainder(mt__call *call)
{
    return run_divided(call, remainder_loops);
}

/* ---------------------------------------------------------------------------------------------------- powers */

static int64_t int_power(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t result = 1, b = (uint64_t)base;
    for (; exponent > 0; exponent >>= 1, b *= b)
        if (exponent & 1)
            result *= b;
    return (int64_t)result;
}

INT_LOOPS(pow, MT__NO_SETUP, int_power(a, b))
LOOP(, pow, f32, float, float, float, MT__NO_SETUP, powf(a, b))
LOOP(, pow, f64, double, double, double, MT__NO_SETUP, pow(a, b))
TABLE_NUMBER(pow)

/* Exponents that need no pow(); b is ignored. */
#define USUAL_POWERS(X)                                                                                      \
    X(square, 2.0, a *a)                                                                                     \
    X(cube, 3.0, a *a *a)                                                                                    \
    X(root, 0.5, MT__SQRT(a))                                                                                \
    X(inverse, -1.0, (type)1 / a)                                                                            \
    X(inverse_square, -2.0, (type)1 / (a * a))                                                               \
    X(inverse_root, -0.5, (type)1 / MT__SQRT(a))
#define X(name, exponent, expr)                                                                              \
    FLOAT_LOOPS(name, MT__NO_SETUP, ((void)b, expr))                                                         \
    TABLE_FLOAT(name)
USUAL_POWERS(X)
#undef X

static mt_status set_to(mt__call *call, const mt_value *v)
{
    mt__plan plan;
    mt__plan_begin(&plan, call->outs[0], call->compute);
    mt__plan_add(&plan, v, call->compute);
    mt__plan_run(&plan, mt__cast_loop(call->compute, call->compute), NULL);
    return MT_OK;
}

static mt_status first_power(mt__call *call)
{
    return set_to(call, &call->args[0]);
}

static mt_status zeroth_power(mt__call *call)
{
    mt_value one = mt_value_int(1);
    return set_to(call, &one);
}

/* x ** 0 and x ** 1 need no arithmetic: PyTorch leaves them to fill_ and copy_. */
__attribute__((noinline)) static mt_status trivial_power(mt__call *call, double exponent)
{
    mt_value copy[] = {mt_value_tensor(call->outs[0]), call->args[0], mt_value_truth(false)},
             fill[] = {mt_value_tensor(call->outs[0]), mt_value_int(1)};
    if (exponent == 1)
        return call->recorded ? mt__record_part(call, MT_OP_copy_, NULL, copy, first_power)
                              : first_power(call);
    return call->recorded ? mt__record_part(call, MT_OP_fill_, NULL, fill, zeroth_power) : zeroth_power(call);
}

mt_status mt__cpu_pow(mt__call *call)
{
    if (call->op->numbers == MT__NUMBERS_POWER) {
        double e = mt__arg_number(call, 1);
        if (MT__UNLIKELY(e == 0 || e == 1))
            return trivial_power(call, e);
        bool as_power =
            call->asked == MT_FLOAT16 && fabs(e) == 0.5; /* as in PyTorch: the root of -inf is inf */
        if (mt__is_floating(call->compute) && !as_power) {
#define X(name, exponent, expr)                                                                              \
    if (e == (exponent))                                                                                     \
        return run(call, name##_loops, call->compute, 0, NULL);
            USUAL_POWERS(X)
#undef X
        }
    }
    return run(call, pow_loops, call->compute, 0, NULL);
}

LOOP(, atan2, f32, float, float, float, MT__NO_SETUP, atan2f(a, b))
LOOP(, atan2, f64, double, double, double, MT__NO_SETUP, atan2(a, b))
TABLE_FLOAT(atan2)

/* --------------------------------------------------------------------------------------------- truths and bits */

#define LOOPS_TRUTH(op, expr)                                                                                \
    LOOP(, op, bool, bool, bool, bool, MT__NO_SETUP, expr)                                                   \
    LOOP(, op, i32, int32_t, int32_t, bool, MT__NO_SETUP, expr)                                              \
    LOOP(, op, i64, int64_t, int64_t, bool, MT__NO_SETUP, expr)                                              \
    LOOP(, op, u8, uint8_t, uint8_t, bool, MT__NO_SETUP, expr)                                               \
    LOOP(, op, i8, int8_t, int8_t, bool, MT__NO_SETUP, expr)                                                 \
    LOOP(, op, i16, int16_t, int16_t, bool, MT__NO_SETUP, expr)                                              \
    LOOP(MT__CLONES, op, f32, float, float, bool, MT__NO_SETUP, expr)                                        \
    LOOP(MT__CLONES, op, f64, double, double, bool, MT__NO_SETUP, expr)                                      \
    TABLE_ALL(op)                                                                                            \
    mt_status mt__cpu_##op(mt__call *call)                                                                   \
    {                                                                                                        \
        return run(call, op##_loops, MT_BOOL, 0, NULL);                                                      \
    }
MT__TRUTHS(LOOPS_TRUTH)

#define LOOPS_BITS(op, expr)                                                                                 \
    BOOL_LOOP(op, MT__NO_SETUP, expr)                                                                        \
    INT_LOOPS(op, MT__NO_SETUP, expr)                                                                        \
    NARROW_LOOPS(op, MT__NO_SETUP, expr)                                                                     \
    TABLE_INT(op)
MT__BITS(LOOPS_BITS)

/* Ops whose kernel is their loops and nothing else. */
#define PLAIN(op)                                                                                            \
    mt_status mt__cpu_##op(mt__call *call)                                                                   \
    {                                                                                                        \
        return run(call, op##_loops, call->compute, 0, NULL);                                                \
    }
PLAIN(mul)
PLAIN(div)
PLAIN(maximum)
PLAIN(minimum)
PLAIN(atan2)
PLAIN(bitwise_and)
PLAIN(bitwise_or)
PLAIN(bitwise_xor)
