/* kernels/cpu/select.c - where, clamp, masked_fill, and ops on three tensors: addcmul, addcdiv, lerp. */
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/kernels/formulas.h"
#include <math.h>

static mt_status run3(mt__call *call, mt__loop *const *loops, const mt_value *const operands[3],
                      mt_dtype first, const void *user)
{
    mt__loop *loop = loops[call->compute];
    if (loop == NULL)
        return mt__refuse_dtype(call);
    mt__plan p;
    mt__plan_begin(&p, call->outs[0], call->compute);
    for (int i = 0; i < 3; i++)
        mt__plan_add(&p, operands[i], i == 0 ? first : call->compute);
    mt__plan_run(&p, loop, user);
    return MT_OK;
}

/* --------------------------------------------------------------------------------------------- by a condition */

/* By size: selecting bits vectorises, a branch does not. */
#define WHERE(T) MT__LOOP3(MT__CLONES, where_##T, uint8_t, T, T, MT__NO_SETUP, c ^ ((b ^ c) & (T)(0 - (T)a)))
WHERE(uint8_t)
WHERE(uint32_t)
WHERE(uint64_t)
/* Narrow ones are widened. */
#define WHERE_ENTRY(sym, T, ...)                                                                             \
    [MT_##sym] = sizeof(T) == 1 ? where_uint8_t : sizeof(T) == 4 ? where_uint32_t : where_uint64_t,
static mt__loop *const where_loops[MT_DTYPES] = {MT_DTYPES_WIDE(WHERE_ENTRY)};

mt_status mt__cpu_where(mt__call *call)
{
    return run3(call, where_loops, (const mt_value *const[]){&call->args[0], &call->args[1], &call->args[2]},
                MT_BOOL, NULL);
}

mt_status mt__cpu_masked_fill(mt__call *call)
{
    return run3(call, where_loops, (const mt_value *const[]){&call->args[1], &call->args[2], &call->args[0]},
                MT_BOOL, NULL);
}

/* ------------------------------------------------------------------------------------------------------ clamp */

typedef struct bounds {
    mt__scalar low, high;
} bounds;

/* NaN is kept; if the bounds cross, the upper one wins. */
#define CLAMP(attributes, sym, T)                                                                            \
    MT__LOOP1(attributes, clamp_##sym, T, T, const T low = ((const bounds *)user)->low.as_##sym;             \
              const T high = ((const bounds *)user)->high.as_##sym, clamp_one_##sym(x, low, high))
#define CLAMP_ONE(sym, T, ...)                                                                               \
    MT__INLINE T clamp_one_##sym(T x, T low, T high)                                                         \
    {                                                                                                        \
        T y = x < low ? low : x;                                                                             \
        return y > high ? high : y;                                                                          \
    }
MT__NUMBER_TYPES(CLAMP_ONE)
#define CLAMP_WHOLE(sym, T, ...) CLAMP(, sym, T)
#define CLAMP_REAL(sym, T, ...) CLAMP(MT__CLONES, sym, T)
MT_DTYPES_WHOLE(CLAMP_WHOLE)
MT_DTYPES_REAL(CLAMP_REAL)

/* The bounds of dtype; those not given are the widest. */
static bounds bounds_of(mt_dtype dtype, const mt_value *low, const mt_value *high)
{
    mt_value least = mt__is_floating(dtype) ? mt_value_float(-INFINITY)
                                            : mt_value_int(dtype == MT_INT32 ? INT32_MIN : INT64_MIN);
    mt_value most = mt__is_floating(dtype) ? mt_value_float(INFINITY)
                                           : mt_value_int(dtype == MT_INT32 ? INT32_MAX : INT64_MAX);
    return (bounds){mt__scalar_of(dtype, low->kind != MT_NONE ? low : &least),
                    mt__scalar_of(dtype, high->kind != MT_NONE ? high : &most)};
}

static bool is_nan(const mt_value *bound)
{
    return bound->kind == MT_FLOAT && isnan(bound->as.f);
}

static mt_status clamp(mt__call *call, const mt_value *low, const mt_value *high)
{
#define CLAMP_ENTRY(sym, T, ...) [MT_##sym] = clamp_##sym,
    static mt__loop *const loops[MT_DTYPES] = {MT__NUMBER_TYPES(CLAMP_ENTRY)};
    if (loops[call->compute] == NULL)
        return mt__refuse_dtype(call);
    bounds b = bounds_of(call->compute, low, high);
    bool nan = mt__is_floating(call->compute) && (is_nan(low) || is_nan(high)); /* then all are NaN */
    mt__plan p;
    mt__plan_begin(&p, call->outs[0], call->compute);
    mt__plan_add(&p, nan ? is_nan(low) ? low : high : &call->args[0], call->compute);
    mt__plan_run(&p, nan ? mt__cast_loop(call->compute, call->compute) : loops[call->compute], &b);
    return MT_OK;
}

mt_status mt__cpu_clamp(mt__call *call)
{
    return clamp(call, &call->args[1], &call->args[2]);
}

mt_status mt__cpu_clamp_min(mt__call *call)
{
    const mt_value none = mt_value_none(NULL);
    return clamp(call, &call->args[1], &none);
}

mt_status mt__cpu_clamp_max(mt__call *call)
{
    const mt_value none = mt_value_none(NULL);
    return clamp(call, &none, &call->args[1]);
}

/* -------------------------------------------------------------------------------------------- three tensors */

static int64_t whole(const mt_value *v) /* PyTorch cuts off the fraction, for integers */
{
    return v->kind == MT_FLOAT ? (int64_t)v->as.f : v->as.i;
}

/* user: value, as an mt_value */
#define INT_VALUE(U) const U value = (U)whole(user)
#define REAL_VALUE const type value = (type)mt__value_number(user)
MT__LOOP3(, addcmul_INT32, int32_t, int32_t, int32_t, INT_VALUE(uint32_t),
          (uint32_t)a + value * (uint32_t)b * (uint32_t)c)
MT__LOOP3(, addcmul_INT64, int64_t, int64_t, int64_t, INT_VALUE(uint64_t),
          (uint64_t)a + value * (uint64_t)b * (uint64_t)c)
MT__LOOP3(MT__CLONES, addcmul_FLOAT32, float, float, float, REAL_VALUE, MT__ADDCMUL(a, b, c, value))
MT__LOOP3(MT__CLONES, addcmul_FLOAT64, double, double, double, REAL_VALUE, MT__ADDCMUL(a, b, c, value))
MT__LOOP3(MT__CLONES, addcdiv_FLOAT32, float, float, float, REAL_VALUE, MT__ADDCDIV(a, b, c, value))
MT__LOOP3(MT__CLONES, addcdiv_FLOAT64, double, double, double, REAL_VALUE, MT__ADDCDIV(a, b, c, value))
MT__LOOP3(MT__CLONES, lerp_FLOAT32, float, float, float, MT__NO_SETUP, MT__LERP(float, a, b, c))
MT__LOOP3(MT__CLONES, lerp_FLOAT64, double, double, double, MT__NO_SETUP, MT__LERP(double, a, b, c))

#define FIRST_THREE ((const mt_value *const[]){&call->args[0], &call->args[1], &call->args[2]})

mt_status mt__cpu_addcmul(mt__call *call)
{
    static mt__loop *const loops[MT_DTYPES] = {NULL, addcmul_INT32, addcmul_INT64, addcmul_FLOAT32,
                                               addcmul_FLOAT64};
    return run3(call, loops, FIRST_THREE, call->compute, &call->args[3]);
}

mt_status mt__cpu_addcdiv(mt__call *call)
{
    static mt__loop *const loops[MT_DTYPES] = {NULL, NULL, NULL, addcdiv_FLOAT32, addcdiv_FLOAT64};
    return run3(call, loops, FIRST_THREE, call->compute, &call->args[3]);
}

mt_status mt__cpu_lerp(mt__call *call)
{
    static mt__loop *const loops[MT_DTYPES] = {NULL, NULL, NULL, lerp_FLOAT32, lerp_FLOAT64};
    return run3(call, loops, FIRST_THREE, call->compute, NULL);
}
