/* kernels/cpu/chance.c - random tensors, number for number like PyTorch's CPU kernels on x86-64 with AVX2.
 *
 * Elements are drawn one by one in memory order, under the generator's lock. The block form of normal_ draws
 * 16 at a time and transforms pairs (j, j + 8) by Box-Muller; its float log, sin and cos are Cephes
 * polynomials, with fused multiply-adds where PyTorch's build has them: equal bits need equal rounding.
 */
#include "runtime/chance.h"
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/narrow.h"
#include <math.h>
#include <stdlib.h>

/* -------------------------------------------------------------------------------- any strides, in memory's order */

/* Dims sorted by descending stride: walking them visits elements in memory order. */
static mt_tensor in_memory_order(const mt_tensor *t)
{
    mt_tensor m = *t;
    for (int i = 1; i < m.rank; i++)
        for (int j = i; j > 0 && m.strides[j] > m.strides[j - 1] && m.dims[j] > 1; j--) {
            int64_t d = m.dims[j], s = m.strides[j];
            m.dims[j] = m.dims[j - 1];
            m.strides[j] = m.strides[j - 1];
            m.dims[j - 1] = d;
            m.strides[j - 1] = s;
        }
    mt__set_contiguous_flag(&m);
    return m;
}

typedef void fill_fn(mt__chance *g, const mt__call *call, mt_tensor *t); /* t: contiguous */

/* Fills outs[0], through a contiguous copy if necessary. */
static mt_status fill(mt__call *call, fill_fn *fn)
{
    mt_tensor order = in_memory_order(call->outs[0]), *flat = NULL;
    if (order.numel == 0)
        return MT_OK;
    if (!(order.flags & MT__CONTIGUOUS)) {
        mt_status status = mt__empty((mt_dtype)order.dtype, MT_CPU, order.rank, order.dims, &flat);
        if (status != MT_OK)
            return status;
    }
    mt__chance *g = mt__chance_begin();
    fn(g, call, flat != NULL ? flat : &order);
    mt__chance_end();
    if (flat != NULL) {
        mt__plan_copy(&order, flat);
        mt_release(flat);
    }
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------------- uniform_ */

static void fill_uniform(mt__chance *g, const mt__call *call, mt_tensor *t)
{
    if (t->dtype == MT_FLOAT32) {
        float *x = t->data, from = (float)mt__arg_number(call, 1), to = (float)mt__arg_number(call, 2),
              range = to - from;
        for (int64_t i = 0; i < t->numel; i++)
            x[i] = (float)(mt__random_float(g) * (double)range + (double)from);
    } else {
        double *x = t->data, from = mt__arg_number(call, 1), range = mt__arg_number(call, 2) - from;
        for (int64_t i = 0; i < t->numel; i++)
            x[i] = mt__random_double(g) * range + from;
    }
}

mt_status mt__cpu_uniform(mt__call *call)
{
    double from = mt__arg_number(call, 1), to = mt__arg_number(call, 2);
    if (!mt__is_floating((mt_dtype)call->outs[0]->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"check_uniform_bounds\" not implemented for '%s'",
                        mt__asked_dtype(call, call->outs[0]->dtype));
    if (from > to)
        return mt__fail(MT_E_RUNTIME,
                        "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", from, to);
    return fill(call, fill_uniform);
}

/* -------------------------------------------------------------------------------------------------- normal_ */

#define LANES 8

MT__CLONES static void log_of(const float *restrict in, float *restrict out)
{
    for (int i = 0; i < LANES; i++) {
        union {
            float f;
            uint32_t u;
        } b = {in[i]};
        float e = (float)((int32_t)(b.u >> 23) - 0x7f) + 1.0f;
        b.u = (b.u & 0x807fffffu) | 0x3f000000u; /* in [0.5, 1) */
        float x = b.f;
        bool low = x < 0.707106781186547524f;
        float extra = low ? x : 0.0f;
        x = x - 1.0f;
        e = e - (low ? 1.0f : 0.0f);
        x = x + extra;
        float z = x * x, y = 7.0376836292e-2f;
        y = __builtin_fmaf(y, x, -1.1514610310e-1f);
        y = __builtin_fmaf(y, x, 1.1676998740e-1f);
        y = __builtin_fmaf(y, x, -1.2420140846e-1f);
        y = __builtin_fmaf(y, x, 1.4249322787e-1f);
        y = __builtin_fmaf(y, x, -1.6668057665e-1f);
        y = __builtin_fmaf(y, x, 2.0000714765e-1f);
        y = __builtin_fmaf(y, x, -2.4999993993e-1f);
        y = __builtin_fmaf(y, x, 3.3333331174e-1f);
        y = y * x;
        y = __builtin_fmaf(y, z, e * -2.12194440e-4f);
        y = __builtin_fmaf(-z, 0.5f, y);
        x = x + y;
        out[i] = __builtin_fmaf(e, 0.693359375f, x);
    }
}

/* For non-negative angles. */
MT__CLONES static void sincos_of(const float *restrict in, float *restrict sines, float *restrict cosines)
{
    for (int i = 0; i < LANES; i++) {
        float x = in[i], y = x * 1.27323954473516f;
        int32_t octant = ((int32_t)y + 1) & ~1;
        y = (float)octant;
        x = __builtin_fmaf(y, -0.78515625f, x);
        x = __builtin_fmaf(y, -2.4187564849853515625e-4f, x);
        x = __builtin_fmaf(y, -3.77489497744594108e-8f, x);
        float z = x * x, c = 2.443315711809948e-5f, s = -1.9515295891e-4f;
        c = __builtin_fmaf(c, z, -1.388731625493765e-3f);
        c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
        c = c * z;
        c = __builtin_fmaf(c, z, -(z * 0.5f));
        c = c + 1.0f;
        s = __builtin_fmaf(s, z, 8.3321608736e-3f);
        s = __builtin_fmaf(s, z, -1.6666654611e-1f);
        s = s * z;
        s = __builtin_fmaf(s, x, x);
        bool swap = (octant & 2) != 0;
        float sine = swap ? c : s, cosine = swap ? s : c;
        sines[i] = octant & 4 ? -sine : sine;
        cosines[i] = (octant - 2) & 4 ? cosine : -cosine;
    }
}

MT__CLONES static void turn_block_float32(float *x, float mean, float std)
{
    float u[LANES], r[LANES], sine[LANES], cosine[LANES];
    for (int i = 0; i < LANES; i++)
        u[i] = 1.0f - x[i];
    log_of(u, r);
    for (int i = 0; i < LANES; i++)
        u[i] = (float)(2.0f * 3.14159265358979323846) * x[LANES + i];
    sincos_of(u, sine, cosine);
    for (int i = 0; i < LANES; i++) {
        float radius = sqrtf(-2.0f * r[i]);
        x[i] = __builtin_fmaf(radius * cosine[i], std, mean);
        x[LANES + i] = __builtin_fmaf(radius * sine[i], std, mean);
    }
}

static void turn_block_float64(double *x, double mean, double std)
{
    for (int i = 0; i < LANES; i++) {
        double radius = sqrt(-2.0 * log(1.0 - x[i])), theta = 2.0 * 3.14159265358979323846 * x[LANES + i];
        x[i] = fma(radius * cos(theta), std, mean);
        x[LANES + i] = fma(radius * sin(theta), std, mean);
    }
}

/* Uniform numbers, then block by block; if the size is not a multiple of the block, the
 * last 16 are redrawn. */
#define NORMAL(T, bits, draw)                                                                                \
    static void fill_normal_##bits(mt__chance *g, T *x, int64_t n, T mean, T std)                            \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                      \
            x[i] = (T)draw(g);                                                                               \
        for (int64_t i = 0; i + 2 * LANES <= n; i += 2 * LANES)                                              \
            turn_block_##bits(x + i, mean, std);                                                             \
        if (n % (2 * LANES) == 0)                                                                            \
            return;                                                                                          \
        x += n - 2 * LANES;                                                                                  \
        for (int i = 0; i < 2 * LANES; i++)                                                                  \
            x[i] = (T)draw(g);                                                                               \
        turn_block_##bits(x, mean, std);                                                                     \
    }
NORMAL(float, float32, mt__random_float)
NORMAL(double, float64, mt__random_double)

/* One at a time: numbers are computed in pairs, and the generator keeps the second. */
static double one_normal(mt__chance *g)
{
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double u1 = mt__random_double(g), u2 = mt__random_double(g);
    double radius = sqrt(-2.0 * log1p(-u2)), theta = 2.0 * 3.14159265358979323846 * u1;
    g->normal = radius * sin(theta);
    g->has_normal = true;
    return radius * cos(theta);
}

static void fill_normal(mt__chance *g, const mt__call *call, mt_tensor *t)
{
    double mean = mt__arg_number(call, 1), std = mt__arg_number(call, 2);
    if (t->numel >= 2 * LANES && (call->outs[0]->flags & MT__CONTIGUOUS)) {
        if (t->dtype == MT_FLOAT32)
            fill_normal_float32(g, t->data, t->numel, (float)mean, (float)std);
        else
            fill_normal_float64(g, t->data, t->numel, mean, std);
        return;
    }
    for (int64_t i = 0; i < t->numel; i++) {
        double x = fma(one_normal(g), std, mean);
        if (t->dtype == MT_FLOAT32)
            ((float *)t->data)[i] = (float)x;
        else
            ((double *)t->data)[i] = x;
    }
}

mt_status mt__cpu_normal(mt__call *call)
{
    double std = mt__arg_number(call, 2);
    if (!mt__is_floating((mt_dtype)call->outs[0]->dtype))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"normal_kernel_cpu\" not implemented for '%s'",
                        mt__asked_dtype(call, call->outs[0]->dtype));
    if (!(std >= 0))
        return mt__fail(MT_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std);
    return fill(call, fill_normal);
}

/* ------------------------------------------------------------------------------------------ random_, randperm */

/* Stores an integer as element i of t. */
static void put(mt_tensor *t, int64_t i, int64_t value)
{
    switch ((mt_dtype)t->dtype) {
#define X(sym, T, ...)                                                                                       \
    case MT_##sym:                                                                                           \
        ((T *)t->data)[i] = MT__TO_##sym(value);                                                             \
        break;
        MT_DTYPE_LIST(X)
#undef X
    default:
        break;
    }
}

static void fill_random(mt__chance *g, const mt__call *call, mt_tensor *t)
{
    int64_t from = mt__arg_int(call, 1), last = 0;
    bool all =
        !mt__arg_given(call, 2) && from == 0; /* PyTorch draws 32 bits where the numbers have no more */
    (void)mt__random_last(call, &last);
    uint64_t range = (uint64_t)last - (uint64_t)from + 1;
    bool wide = all ? mt__size_of(t) == 8 : range >= 1u << 28;
    for (int64_t i = 0; i < t->numel; i++) {
        uint64_t drawn = wide ? mt__random64(g) : mt__random(g);
        put(t, i, (int64_t)(drawn % range + (uint64_t)from));
    }
}

mt_status mt__random_range(mt_dtype dtype, int64_t from, int64_t last)
{
    static const char *const names[MT_DTYPES] = {[MT_BOOL] = "bool",         [MT_INT32] = "int",
                                                 [MT_INT64] = "int64_t",     [MT_FLOAT32] = "float",
                                                 [MT_FLOAT64] = "double",    [MT_UINT8] = "unsigned char",
                                                 [MT_INT8] = "signed char",  [MT_INT16] = "short int",
                                                 [MT_FLOAT16] = "c10::Half", [MT_BFLOAT16] = "c10::BFloat16"};
    static const int64_t bounds[MT_DTYPES][2] = {[MT_BOOL] = {0, 1},
                                                 [MT_INT32] = {INT32_MIN, INT32_MAX},
                                                 [MT_INT64] = {INT64_MIN, INT64_MAX},
                                                 [MT_FLOAT32] = {INT64_MIN, INT64_MAX},
                                                 [MT_FLOAT64] = {INT64_MIN, INT64_MAX},
                                                 [MT_UINT8] = {0, UINT8_MAX},
                                                 [MT_INT8] = {INT8_MIN, INT8_MAX},
                                                 [MT_INT16] = {INT16_MIN, INT16_MAX},
                                                 [MT_FLOAT16] = {-65504, 65504},
                                                 [MT_BFLOAT16] = {INT64_MIN, INT64_MAX}};
    if (from < bounds[dtype][0] || from > bounds[dtype][1])
        return mt__fail(MT_E_RUNTIME, "from is out of bounds for %s", names[dtype]);
    if (last < bounds[dtype][0] || last > bounds[dtype][1])
        return mt__fail(MT_E_RUNTIME, "to - 1 is out of bounds for %s", names[dtype]);
    return MT_OK;
}

mt_status mt__cpu_random(mt__call *call)
{
    int64_t last;
    mt_status status = mt__random_last(call, &last);
    return status == MT_OK ? fill(call, fill_random) : status;
}

mt_status mt__cpu_randperm(mt__call *call)
{
    mt_tensor *out = call->outs[0];
    int64_t n = out->numel;
    int64_t *order = malloc((size_t)(n + 1) * sizeof *order);
    if (order == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: randperm");
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    mt__chance *g = mt__chance_begin();
    for (int64_t i = 0; i + 1 < n; i++) {
        uint64_t drawn = n < UINT32_MAX / 20 ? mt__random(g) : mt__random64(g);
        int64_t with = i + (int64_t)(drawn % (uint64_t)(n - i)), held = order[i];
        order[i] = order[with];
        order[with] = held;
    }
    mt__chance_end();
    for (int64_t i = 0; i < n; i++)
        put(out, i, order[i]);
    free(order);
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------------- bernoulli */

static void fill_bernoulli(mt__chance *g, const mt__call *call, mt_tensor *t)
{
    double p = mt__arg_number(call, 1);
    for (int64_t i = 0; i < t->numel; i++)
        put(t, i, mt__random_double(g) < p);
}

mt_status mt__cpu_bernoulli(mt__call *call)
{
    double p = mt__arg_number(call, 1);
    if (!(p >= 0 && p <= 1))
        return mt__fail(MT_E_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    return fill(call, fill_bernoulli);
}

/* outs[0] is contiguous; the probabilities are in the same order. */
mt_status mt__cpu_bernoulli_of(mt__call *call)
{
    mt_tensor *chances, *out = call->outs[0];
    bool real = out->dtype == MT_FLOAT64, good = true;
    mt_status status = mt__contiguous(mt__arg_tensor(call, 0), &chances);
    if (status != MT_OK)
        return status;
    mt__chance *g = mt__chance_begin();
    for (int64_t i = 0; i < out->numel && good; i++) {
        double p = real ? ((const double *)chances->data)[i] : (double)((const float *)chances->data)[i];
        good = p >= 0 && p <= 1;
        put(out, i, (real ? mt__random_double(g) : mt__random_float(g)) < p);
    }
    mt__chance_end();
    mt_release(chances);
    return good ? MT_OK
                : mt__fail(MT_E_RUNTIME,
                           "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error "
                           "message be "
                           "improved?  If so, please report an enhancement request to PyTorch.)");
}

/* ----------------------------------------------------------------------------------------------- multinomial */

static double weight_at(const mt_tensor *t, int64_t i)
{
    return t->dtype == MT_FLOAT64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static mt_status check_weights(const mt_tensor *t, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double w = weight_at(t, r * n + i);
            if (!(w >= 0) || isinf(w))
                return mt__fail(MT_E_RUNTIME,
                                "probability tensor contains either `inf`, `nan` or element < 0");
            sum += w;
        }
        if (sum == 0)
            return mt__fail(MT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    return MT_OK;
}

/* Without replacement: weights divided by exponential numbers, the largest first. Rounded to the dtype. */
static void draw_apart(mt__chance *g, const mt_tensor *t, int64_t row, int64_t n, double *keys, int64_t *out,
                       int64_t draws)
{
    for (int64_t i = 0; i < n; i++) {
        double e = -log1p(-mt__random_double(g)), w = weight_at(t, row * n + i);
        keys[i] = t->dtype == MT_FLOAT64 ? w / e : (double)((float)w / (float)e);
    }
    for (int64_t k = 0; k < draws; k++) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (keys[i] > keys[best] || (isnan(keys[i]) && !isnan(keys[best])))
                best = i;
        out[row * draws + k] = best;
        keys[best] = -1;
    }
}

/* With replacement: looks up uniform numbers in the cumulative sums. */
static void draw_again(mt__chance *g, const mt_tensor *t, int64_t row, int64_t n, double *sums, int64_t *out,
                       int64_t draws)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum = t->dtype == MT_FLOAT64 ? sum + weight_at(t, row * n + i)
                                     : (double)((float)sum + (float)weight_at(t, row * n + i));
        sums[i] = sum;
    }
    for (int64_t i = 0; i < n; i++)
        sums[i] = t->dtype == MT_FLOAT64 ? sums[i] / sum : (double)((float)sums[i] / (float)sum);
    sums[n - 1] = 1;
    for (int64_t k = 0; k < draws; k++) {
        double u = mt__random_double(g);
        int64_t low = 0, high = n;
        while (high > low) {
            int64_t mid = low + (high - low) / 2;
            if (sums[mid] < u)
                low = mid + 1;
            else
                high = mid;
        }
        out[row * draws + k] = low < n ? low : n - 1;
    }
}

mt_status mt__cpu_multinomial(mt__call *call)
{
    mt_tensor *t, *out = call->outs[0];
    int64_t draws = mt__arg_int(call, 1);
    mt_status status = mt__contiguous(mt__arg_tensor(call, 0), &t);
    if (status != MT_OK)
        return status;
    int64_t n = t->dims[t->rank - 1], rows = t->rank == 2 ? t->dims[0] : 1;
    bool again = mt__arg_int(call, 2) != 0 && draws > 1;
    double *room = malloc((size_t)(n + 1) * sizeof *room);
    status = room == NULL ? mt__fail(MT_E_NOMEM, "out of memory: multinomial") : check_weights(t, rows, n);
    if (status == MT_OK) {
        mt__chance *g = mt__chance_begin();
        for (int64_t r = 0; r < rows; r++)
            (again ? draw_again : draw_apart)(g, t, r, n, room, out->data, draws);
        mt__chance_end();
    }
    free(room);
    mt_release(t);
    return status;
}
