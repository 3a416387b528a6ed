/* The start of every program. T is the compute type; WHOLE, REAL or TRUTH says which kind it is. */
#if HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#if HAS_I64_ATOMICS
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif

/* For sums of many elements: T where there is nothing wider. */
#if REAL && HAS_F64
#define WIDE double
#else
#define WIDE T
#endif

/* Elements of dtypes that are not computed in. */
float float_of_f16(ushort h)
{
    return vload_half(0, (const __private half *)&h);
}
ushort f16_of_float(float f)
{
    ushort h;
    vstore_half_rte(f, 0, (__private half *)&h);
    return h;
}
float float_of_bf16(ushort h)
{
    return as_float((uint)h << 16);
}
ushort bf16_of_float(float f)
{
    uint bits = as_uint(f);
    return (ushort)(isnan(f) ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Reports an invalid element; the host reads the first report when it waits (messages: device/work.c). */
#define FAULT_INDEX 1
#define FAULT_ZERO_DIVISION 2
#define FAULT_TARGET 3
#define FAULT_INPUT_PROBABILITY 4
#define FAULT_TARGET_PROBABILITY 5
#define FAULT_PICK 6
#define FAULT_GATHER 7
#define FAULT_CHANCE 8
void fault_at(__global int *fault, int code, long value, long dim, long size)
{
    if (atomic_cmpxchg(fault, 0, code) != 0)
        return;
    __global long *more = (__global long *)fault;
    more[1] = value;
    more[2] = dim;
    more[3] = size;
}
#define FAULT(code) fault_at(fault, code, 0, 0, 0)

#if WHOLE
T floor_quotient(T a, T b)
{
    if (b == -1)
        return (T)(0 - (UT)a);
    T q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
T floor_rest(T a, T b)
{
    T r = b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
T int_power(T base, T exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    UT result = 1, b = (UT)base;
    for (; exponent > 0; exponent >>= 1, b *= b)
        if (exponent & 1)
            result *= b;
    return (T)result;
}
#define DIVISOR(b) ((b) != 0 ? (b) : (FAULT(FAULT_ZERO_DIVISION), (T)1))
#endif

#if REAL
T real_rest(T a, T b)
{
    T r = fmod(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
T real_quotient(T a, T b)
{
    if (b == 0)
        return a / b;
    T rest = fmod(a, b), q = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0))
        q -= 1;
    if (q == 0)
        return copysign((T)0, a / b);
    T whole = floor(q);
    return q - whole > (T)0.5 ? whole + 1 : whole;
}
T gelu_tanh_slope(T x)
{
    T t = tanh((T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x));
    T inner = (T)0.79788456080286535588 * ((T)1 + (T)3 * (T)0.044715 * x * x);
    return (T)0.5 * ((T)1 + t) + (T)0.5 * x * ((T)1 - t * t) * inner;
}
T gelu_slope(T x)
{
    T below = (T)0.5 * ((T)1 + erf(x * (T)0.70710678118654752440));
    return below + x * (T)0.39894228040143267794 * exp((T)-0.5 * x * x);
}
#define LOG100(v) fmax(log(v), (T)-100)
#define LOG1P100(v) fmax(log1p(v), (T)-100)
#define INSIDE(x, code) (((x) >= 0 && (x) <= 1) ? (x) : (FAULT(code), (x)))
#endif
