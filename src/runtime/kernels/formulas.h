/* kernels/formulas.h - formulas of elementwise ops, once for all devices: compiled as C in kernels/cpu, and
 * turned into the text of OpenCL C in kernels/opencl/elementwise.c.
 *
 * T is the type of the operands, which are names; the formulas have no parentheses of their own. The includer defines EXP, EXPM1, LOG1P, ERF, TANH and SQRT:
 * the functions of its device. Integer arithmetic is not here: in C, signed overflow is undefined.
 */
#ifndef KERNELS_FORMULAS_H
#define KERNELS_FORMULAS_H

/* X(op, formula) of a and b, for all dtypes: a bool */
#define MT__TRUTHS(X)                                                                                        \
    X(eq, a == b)                                                                                            \
    X(ne, a != b)                                                                                            \
    X(lt, a < b)                                                                                             \
    X(le, a <= b)                                                                                            \
    X(gt, a > b)                                                                                             \
    X(ge, a >= b)                                                                                            \
    X(logical_and, (a != 0) & (b != 0))                                                                      \
    X(logical_or, (a != 0) | (b != 0))                                                                       \
    X(logical_xor, (a != 0) ^ (b != 0))
/* clang-format takes * and & for pointers here. */
/* clang-format off */
/* for integers and bools */
#define MT__BITS(X)                                                                                          \
    X(bitwise_and, a & b)                                                                                    \
    X(bitwise_or, a | b)                                                                                     \
    X(bitwise_xor, a ^ b)

/* MAXIMUM, MINIMUM and RELU keep NaN; the sign of NaN is 0. */
#define MT__MAXIMUM(a, b) (a > b || a != a) ? a : b
#define MT__MINIMUM(a, b) (a < b || a != a) ? a : b
#define MT__RELU(T, x) x < 0 ? (T)0 : x
#define MT__SIGN(T, x) x != x ? (T)0 : (T)((x > 0) - (x < 0))
#define MT__RSQRT(T, x) (T)1 / SQRT(x)
#define MT__RECIPROCAL(T, x) (T)1 / x

#define MT__ADDCMUL(a, b, c, value) a + value * b * c
#define MT__ADDCDIV(a, b, c, value) a + value * (b / c)
/* From the nearer end, so that a weight of 1 yields exactly the end. */
#define MT__LERP(T, a, b, c) c < (T)0.5 ? a + c * (b - a) : b - (b - a) * ((T)1 - c)

#define MT__SIGMOID(T, x) (T)1 / ((T)1 + EXP((T)(-(x))))
#define MT__SILU(T, x) x / ((T)1 + EXP(-x))
#define MT__SOFTPLUS(T, x, beta, most) x * beta > most ? x : LOG1P(EXP((T)(x * beta))) / beta
#define MT__LEAKY_RELU(x, slope) x > 0 ? x : x * slope
/* low: alpha * scale */
#define MT__ELU(T, x, low, scale, within) x <= 0 ? EXPM1((T)(x * within)) * low : x * scale
#define MT__GELU(T, x) (T)0.5 * x * ((T)1 + ERF((T)(x * (T)0.70710678118654752440)))
#define MT__GELU_TANH(T, x)                                                                                  \
    (T)0.5 * x * ((T)1 + TANH((T)((T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x))))

/* a: the gradient; b: the input, or the result */
#define MT__TANH_BACKWARD(T, a, b) a * ((T)1 - b * b)
#define MT__SIGMOID_BACKWARD(T, a, b) a * ((T)1 - b) * b
#define MT__SILU_BACKWARD(T, a, b) a * (MT__SIGMOID(T, b)) * ((T)1 + b * ((T)1 - (MT__SIGMOID(T, b))))
#define MT__SOFTPLUS_BACKWARD(T, a, b, beta, most) b * beta > most ? a : a * (MT__SIGMOID(T, (T)(b * beta)))
#define MT__LEAKY_RELU_BACKWARD(a, b, slope) b > 0 ? a : a * slope
#define MT__ELU_BACKWARD(T, a, b, low, scale, within) b > 0 ? a * scale : a * within * low * EXP((T)(b * within))
#define MT__ELU_BACKWARD_OF_RESULT(a, b, low, scale, within) b > 0 ? a * scale : a * within * (b + low)
#define MT__HARDTANH_BACKWARD(T, a, b, low, high) b > low && b < high ? a : (T)0
#define MT__THRESHOLD_BACKWARD(T, a, b, most) b <= most ? (T)0 : a
/* clang-format on */
#endif
