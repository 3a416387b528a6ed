/* kernels/cpu/create.c - arange, linspace, eye.
 *
 * A floating arange uses PyTorch's blocks of one AVX2 vector: the first element of a block is start + step *
 * i, the others are counted from it, and elements beyond the last pair of blocks are computed individually.
 * So results are bitwise those of PyTorch.
 */
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/narrow.h"
#include <math.h>

#define BLOCK(T) (32 / (int64_t)sizeof(T))

static void arange_float32(float *x, int64_t n, double start, double step)
{
    int64_t blocks = n / (2 * BLOCK(float)) * (2 * BLOCK(float));
    for (int64_t i = 0; i < blocks; i += BLOCK(float)) {
        float first = (float)fma(step, (double)i, start);
        for (int64_t k = 0; k < BLOCK(float); k++)
            x[i + k] = (float)fma((double)k, step, (double)first);
    }
    for (int64_t i = blocks; i < n; i++)
        x[i] = (float)fma(step, (double)i, start);
}

static void arange_float64(double *x, int64_t n, double start, double step)
{
    int64_t blocks = n / (2 * BLOCK(double)) * (2 * BLOCK(double));
    for (int64_t i = 0; i < blocks; i += BLOCK(double)) {
        double first = fma(step, (double)i, start);
        for (int64_t k = 0; k < BLOCK(double); k++)
            x[i + k] = fma((double)k, step, first);
    }
    for (int64_t i = blocks; i < n; i++)
        x[i] = fma(step, (double)i, start);
}

static int64_t whole(const mt_value *v)
{
    return v->kind == MT_FLOAT ? (int64_t)v->as.f : v->as.i;
}

mt_status mt__cpu_arange(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    unsigned bounds = (unsigned)call->op->param_count - 2;
    mt_value zero = mt_value_int(0), one = mt_value_int(1);
    const mt_value *from = bounds == 1 ? &zero : &call->args[0], *by = bounds == 3 ? &call->args[2] : &one;
    uint64_t start = (uint64_t)whole(from), step = (uint64_t)whole(by);
    switch ((mt_dtype)out->dtype) {
    case MT_FLOAT32:
        arange_float32(out->data, out->numel, mt__value_number(from), mt__value_number(by));
        break;
    case MT_FLOAT64:
        arange_float64(out->data, out->numel, mt__value_number(from), mt__value_number(by));
        break;
    case MT_INT64:
        for (int64_t i = 0; i < out->numel; i++)
            ((int64_t *)out->data)[i] = (int64_t)(start + (uint64_t)i * step);
        break;
    case MT_INT32:
        for (int64_t i = 0; i < out->numel; i++)
            ((int32_t *)out->data)[i] = (int32_t)(uint32_t)(start + (uint64_t)i * step);
        break;
    default:
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"arange_cpu\" not implemented for 'Bool'");
    }
    return MT_OK;
}

/* From both ends, so that the last element is exactly the end. */
#define LINSPACE(sym, T, FMA)                                                                                \
    static void linspace_##sym(T *x, int64_t n, T start, T end)                                              \
    {                                                                                                        \
        T step = n > 1 ? (end - start) / (T)(n - 1) : 0;                                                     \
        for (int64_t i = 0; i < n; i++)                                                                      \
            x[i] = i < n / 2 || n == 1 ? FMA(step, (T)i, start) : FMA(-step, (T)(n - i - 1), end);           \
    }
LINSPACE(FLOAT32, float, fmaf)
LINSPACE(FLOAT64, double, fma)

static double linspace_at(int64_t i, int64_t n, double start, double end)
{
    double step = (end - start) / (double)(n - 1);
    return i < n / 2 ? start + step * (double)i : end - step * (double)(n - i - 1);
}

mt_status mt__cpu_linspace(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    double start = mt__arg_number(call, 0), end = mt__arg_number(call, 1);
    int64_t n = out->numel;
    switch ((mt_dtype)out->dtype) {
    case MT_FLOAT32:
        linspace_FLOAT32(out->data, n, (float)start, (float)end);
        break;
    case MT_FLOAT64:
        linspace_FLOAT64(out->data, n, start, end);
        break;
    case MT_INT64:
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)out->data)[i] =
                n == 1 ? (int64_t)start : (int64_t)linspace_at(i, n, trunc(start), trunc(end));
        break;
    case MT_INT32:
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)out->data)[i] =
                n == 1 ? (int32_t)start : (int32_t)linspace_at(i, n, trunc(start), trunc(end));
        break;
    default:
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"linspace_cpu\" not implemented for 'Bool'");
    }
    return MT_OK;
}

mt_status mt__cpu_eye(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    int64_t n = out->dims[0] < out->dims[1] ? out->dims[0] : out->dims[1], step = out->dims[1] + 1;
    memset(out->data, 0, (size_t)out->numel * mt__size_of(out));
    switch ((mt_dtype)out->dtype) {
#define X(sym, T, ...)                                                                                       \
    case MT_##sym:                                                                                           \
        for (int64_t i = 0; i < n; i++)                                                                      \
            ((T *)out->data)[i * step] = MT__TO_##sym(1);                                                    \
        break;
        MT_DTYPE_LIST(X)
#undef X
    default:
        break;
    }
    return MT_OK;
}
