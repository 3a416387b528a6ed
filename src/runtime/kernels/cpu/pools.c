/* runtime/kernels/cpu/pools.c - pooling, plane by plane; planes are distributed over the thread pool. Tensors
 * are first made contiguous. In backward each plane is written by one thread only, so there are no races.
 */
#include "runtime/kernels/cpu/sums.h"
#include "runtime/ops/conv.h"
#include "runtime/ops/pool.h"
#include <math.h>

typedef struct job {
    mt__pool p;
    const void *input; /* or the gradient of the output */
    void *output;
    int64_t *indices;
    int64_t divisor; /* 0: none */
    bool count_pad;
} job;

#define GRAIN(p) (1 + 32768 / (1 + (p)->out[0] * (p)->out[1] * (p)->kernel[0] * (p)->kernel[1]))

/* The part [*begin, *end) of a window that lies in the input; returns its size with padding. */
static inline int64_t window(const mt__pool *p, int d, int64_t o, int64_t *begin, int64_t *end)
{
    int64_t from = o * p->stride[d] - p->padding[d], to = from + p->kernel[d];
    int64_t most = p->in[d] + p->padding[d];
    to = to < most ? to : most;
    *begin = from > 0 ? from : 0;
    *end = to < p->in[d] ? to : p->in[d];
    return to - from;
}

/* The same for an adaptive pool. */
static inline int64_t adapted(const mt__pool *p, int d, int64_t o, int64_t *begin, int64_t *end)
{
    *begin = o * p->in[d] / p->out[d];
    *end = 1 + ((o + 1) * p->in[d] - 1) / p->out[d];
    return *end - *begin;
}

/* The divisor of one output element of an average pool, from the size of its window with and without padding. */
static inline int64_t divisor_of(const job *j, int64_t whole, int64_t inside)
{
    return j->divisor != 0 ? j->divisor : j->count_pad ? whole : inside;
}

/* Sets each output i of the planes, at (y, x) of its plane, to ELEMENT(j, the input plane, y, x, i). */
#define POOL(name, type, ELEMENT)                                                                            \
    MT__CLONES static void name(int64_t begin, int64_t end, void *user)                                      \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const mt__pool *p = &j->p;                                                                           \
        int64_t i = begin * p->out[0] * p->out[1];                                                           \
        for (int64_t plane = begin; plane < end; plane++) {                                                  \
            const type *in = (const type *)j->input + plane * p->in[0] * p->in[1];                           \
            for (int64_t y = 0; y < p->out[0]; y++)                                                          \
                for (int64_t x = 0; x < p->out[1]; x++, i++)                                                 \
                    ((type *)j->output)[i] = ELEMENT(j, in, y, x, i);                                        \
        }                                                                                                    \
    }

/* For x in [begin, end): STEP, with v the input of tap `shift` of output x. The usual strides are constants, so
 * that the loops vectorise. */
#define EACH_OF_ROW(STEP)                                                                                    \
    if (stride == 1)                                                                                         \
        for (int64_t x = begin; x < end; x++)                                                                \
            STEP(x, row[x]);                                                                                 \
    else if (stride == 2)                                                                                    \
        for (int64_t x = begin; x < end; x++)                                                                \
            STEP(x, row[x * 2]);                                                                             \
    else                                                                                                     \
        for (int64_t x = begin; x < end; x++)                                                                \
            STEP(x, row[x * stride]);

/* NaN wins, as in PyTorch. */
#define LARGER(x, value)                                                                                     \
    do {                                                                                                     \
        const T v = (value);                                                                                 \
        const bool wins = (v > best[x]) | (v != v);                                                          \
        best[x] = wins ? v : best[x];                                                                        \
        where[x] = wins ? first + x * stride : where[x];                                                     \
    } while (0)

/* Row y of the output: tap by tap, for all columns. */
#define MAX_POOL(type, suffix, LOWEST)                                                                       \
    MT__CLONES static void max_row_##suffix(const mt__pool *p, const type *in, int64_t y,                    \
                                            type *restrict best, int64_t *restrict where)                    \
    {                                                                                                        \
        typedef type T;                                                                                      \
        const int64_t stride = p->stride[1], out = p->out[1];                                                \
        bool fresh = true;                                                                                   \
        for (int64_t x = 0; x < out; x++)                                                                    \
            best[x] = (LOWEST);                                                                              \
        for (int64_t ky = 0; ky < p->kernel[0]; ky++) {                                                      \
            int64_t yy = y * p->stride[0] - p->padding[0] + ky * p->dilation[0];                             \
            if (yy < 0 || yy >= p->in[0])                                                                    \
                continue;                                                                                    \
            for (int64_t x = 0; x < out && fresh;                                                            \
                 x++) { /* if all are the lowest: the first of the window */                                 \
                int64_t xx = x * stride - p->padding[1];                                                     \
                while (xx < 0)                                                                               \
                    xx += p->dilation[1];                                                                    \
                where[x] = yy * p->in[1] + xx;                                                               \
            }                                                                                                \
            fresh = false;                                                                                   \
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {                                                  \
                int64_t shift = kx * p->dilation[1] - p->padding[1], begin, end;                             \
                int64_t first = yy * p->in[1] + shift;                                                       \
                const type *restrict row = in + first;                                                       \
                mt__inside(out, stride, shift, p->in[1], &begin, &end);                                      \
                EACH_OF_ROW(LARGER)                                                                          \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void max_##suffix(int64_t begin, int64_t end, void *user)                                         \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const int64_t *in = j->p.in, *out = j->p.out;                                                        \
        for (int64_t row = begin * out[0]; row < end * out[0]; row++)                                        \
            max_row_##suffix(&j->p, (const type *)j->input + row / out[0] * in[0] * in[1], row % out[0],     \
                             (type *)j->output + row * out[1], j->indices + row * out[1]);                   \
    }
MAX_POOL(float, f32, -INFINITY)
MAX_POOL(double, f64, (double)-INFINITY)
MAX_POOL(int32_t, i32, INT32_MIN)
MAX_POOL(int64_t, i64, INT64_MIN)

#define PLUS(x, value) to[x] = (T)(to[x] + (value))
#define AVG_POOL(type, suffix)                                                                               \
    MT__CLONES static void avg_row_##suffix(const job *j, const type *in, int64_t y, type *restrict to)      \
    {                                                                                                        \
        typedef type T;                                                                                      \
        const mt__pool *p = &j->p;                                                                           \
        const int64_t stride = p->stride[1], out = p->out[1];                                                \
        int64_t y0, y1, x0, x1, height = window(p, 0, y, &y0, &y1);                                          \
        for (int64_t x = 0; x < out; x++)                                                                    \
            to[x] = 0;                                                                                       \
        for (int64_t yy = y0; yy < y1; yy++)                                                                 \
            for (int64_t kx = 0; kx < p->kernel[1]; kx++) {                                                  \
                int64_t shift = kx - p->padding[1], begin, end;                                              \
                const type *restrict row = in + yy * p->in[1] + shift;                                       \
                mt__inside(out, stride, shift, p->in[1], &begin, &end);                                      \
                EACH_OF_ROW(PLUS)                                                                            \
            }                                                                                                \
        for (int64_t x = 0; x < out; x++) {                                                                  \
            int64_t whole = height * window(p, 1, x, &x0, &x1);                                              \
            type by = (type)divisor_of(j, whole, (y1 - y0) * (x1 - x0)); /* 0 if the user's does not fit */  \
            to[x] = y0 >= y1 || x0 >= x1 || by == 0 ? 0 : to[x] / by;                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void avg_##suffix(int64_t begin, int64_t end, void *user)                                         \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const int64_t *in = j->p.in, *out = j->p.out;                                                        \
        for (int64_t row = begin * out[0]; row < end * out[0]; row++)                                        \
            avg_row_##suffix(j, (const type *)j->input + row / out[0] * in[0] * in[1], row % out[0],         \
                             (type *)j->output + row * out[1]);                                              \
    }
AVG_POOL(float, f32)
AVG_POOL(double, f64)
AVG_POOL(int32_t, i32)
AVG_POOL(int64_t, i64)

/* Distributes gradients over the inputs: each input in the window of an output gets SHARE, of the gradient g. */
#define UNPOOL(name, type, WINDOW, SHARE)                                                                    \
    static void name(int64_t begin, int64_t end, void *user)                                                 \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const mt__pool *p = &j->p;                                                                           \
        const type *grad = (const type *)j->input + begin * p->out[0] * p->out[1];                           \
        for (int64_t plane = begin; plane < end; plane++) {                                                  \
            type *to = (type *)j->output + plane * p->in[0] * p->in[1];                                      \
            memset(to, 0, (size_t)(p->in[0] * p->in[1]) * sizeof(type));                                     \
            for (int64_t y = 0; y < p->out[0]; y++) {                                                        \
                int64_t y0, y1, height = WINDOW(p, 0, y, &y0, &y1);                                          \
                for (int64_t x = 0; x < p->out[1]; x++) {                                                    \
                    int64_t x0, x1, width = WINDOW(p, 1, x, &x0, &x1);                                       \
                    type g = *grad++, share = (SHARE);                                                       \
                    for (int64_t yy = y0; yy < y1; yy++)                                                     \
                        for (int64_t xx = x0; xx < x1; xx++)                                                 \
                            to[yy * p->in[1] + xx] += share;                                                 \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

#define POOLS_OF_FLOATS(type, suffix)                                                                        \
    MT__SUM_OF(type, type, run_##suffix, a[k])                                                               \
    MT__INLINE type sum_##suffix(const mt__pool *p, const type *in, int64_t y0, int64_t y1, int64_t x0,      \
                                 int64_t x1)                                                                 \
    {                                                                                                        \
        type sum = 0;                                                                                        \
        for (int64_t y = y0; y < y1; y++)                                                                    \
            for (int64_t x = x0; x < x1; x++)                                                                \
                sum += in[y * p->in[1] + x];                                                                 \
        return sum;                                                                                          \
    }                                                                                                        \
    static void max_back_##suffix(int64_t begin, int64_t end, void *user)                                    \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const mt__pool *p = &j->p;                                                                           \
        int64_t area = p->out[0] * p->out[1], in_area = p->in[0] * p->in[1];                                 \
        memset((type *)j->output + begin * in_area, 0, (size_t)((end - begin) * in_area) * sizeof(type));    \
        for (int64_t i = begin * area; i < end * area; i++)                                                  \
            if ((uint64_t)j->indices[i] < (uint64_t)in_area)                                                 \
                ((type *)j->output)[i / area * in_area + j->indices[i]] += ((const type *)j->input)[i];      \
    }                                                                                                        \
    MT__INLINE type adaptive_of_##suffix(const job *j, const type *in, int64_t y, int64_t x, int64_t i)      \
    {                                                                                                        \
        (void)i;                                                                                             \
        int64_t y0, y1, x0, x1;                                                                              \
        int64_t height = adapted(&j->p, 0, y, &y0, &y1), width = adapted(&j->p, 1, x, &x0, &x1);             \
        type sum = width == j->p.in[1] /* whole rows are one dense run */                                    \
                       ? (type)run_##suffix(in + y0 * width, in, in, 0, height * width)                      \
                       : sum_##suffix(&j->p, in, y0, y1, x0, x1);                                            \
        return sum / (type)height / (type)width;                                                             \
    }                                                                                                        \
    UNPOOL(avg_back_##suffix, type, window, g / (type)divisor_of(j, height * width, (y1 - y0) * (x1 - x0)))  \
    UNPOOL(adaptive_back_##suffix, type, adapted, g / (type)height / (type)width)                            \
    POOL(adaptive_##suffix, type, adaptive_of_##suffix)
POOLS_OF_FLOATS(float, f32)
POOLS_OF_FLOATS(double, f64)

/* ------------------------------------------------------------------------------------------------- kernels */

typedef void part_fn(int64_t begin, int64_t end, void *user);
typedef struct family { /* by dtype; NULL: refused by infer */
    part_fn *parts[MT_DTYPES];
} family;

static const family max_pool = {{NULL, max_i32, max_i64, max_f32, max_f64}};
static const family avg_pool = {{NULL, avg_i32, avg_i64, avg_f32, avg_f64}};
static const family max_back = {{NULL, NULL, NULL, max_back_f32, max_back_f64}};
static const family avg_back = {{NULL, NULL, NULL, avg_back_f32, avg_back_f64}};
static const family adaptive = {{NULL, NULL, NULL, adaptive_f32, adaptive_f64}};
static const family adaptive_back = {{NULL, NULL, NULL, adaptive_back_f32, adaptive_back_f64}};

static mt_status over_planes(job *j, const family *f, const mt_tensor *from, mt_tensor *to)
{
    mt_tensor *straight = NULL;
    mt_status status = mt__contiguous(from, &straight);
    if (status != MT_OK)
        return status;
    j->input = straight->data;
    j->output = to->data;
    if (to->numel > 0)
        mt__parallel(j->p.planes, GRAIN(&j->p), f->parts[from->dtype], j);
    mt_release(straight);
    return MT_OK;
}

mt_status mt__cpu_max_pool2d(mt__call *call)
{
    const mt_tensor *input = mt__arg_tensor(call, 0);
    job j = {.indices = call->outs[1]->data};
    mt_status status = mt__pool_read(call, "max_pool2d", input, 1, true, &j.p);
    return status == MT_OK ? over_planes(&j, &max_pool, input, call->outs[0]) : status;
}

mt_status mt__cpu_max_pool2d_backward(mt__call *call)
{
    job j = {0};
    mt_tensor *indices = NULL;
    mt_status status = mt__pool_read(call, "max_pool2d", mt__arg_tensor(call, 1), 2, true, &j.p);
    if (status == MT_OK)
        status = mt__contiguous(mt__arg_tensor(call, 7), &indices);
    if (status != MT_OK)
        return status;
    j.indices = indices->data;
    status = over_planes(&j, &max_back, mt__arg_tensor(call, 0), call->outs[0]);
    mt_release(indices);
    return status;
}

static mt_status average(mt__call *call, const mt_tensor *input, unsigned first, const family *f)
{
    job j = {.count_pad = mt__arg_int(call, first + 4) != 0};
    if (mt__arg_given(call, first + 5))
        j.divisor = mt__arg_int(call, first + 5);
    mt_status status = mt__pool_read(call, "avg_pool2d", input, first, false, &j.p);
    return status == MT_OK ? over_planes(&j, f, mt__arg_tensor(call, 0), call->outs[0]) : status;
}

mt_status mt__cpu_avg_pool2d(mt__call *call)
{
    return average(call, mt__arg_tensor(call, 0), 1, &avg_pool);
}

mt_status mt__cpu_avg_pool2d_backward(mt__call *call)
{
    return average(call, mt__arg_tensor(call, 1), 2, &avg_back);
}

static mt_status adapt(mt__call *call, const mt_tensor *input, const mt_tensor *output, const family *f)
{
    int r = input->rank;
    job j = {0};
    j.p.planes = input->dims[r - 3] * (r == 4 ? input->dims[0] : 1);
    for (int d = 0; d < 2; d++) {
        j.p.in[d] = input->dims[r - 2 + d];
        j.p.out[d] = output->dims[r - 2 + d];
        j.p.kernel[d] = j.p.out[d] > 0 ? j.p.in[d] / j.p.out[d] + 1 : 1;
    }
    return over_planes(&j, f, mt__arg_tensor(call, 0), call->outs[0]);
}

mt_status mt__cpu_adaptive_avg_pool2d(mt__call *call)
{
    return adapt(call, mt__arg_tensor(call, 0), call->outs[0], &adaptive);
}

mt_status mt__cpu_adaptive_avg_pool2d_backward(mt__call *call)
{
    return adapt(call, mt__arg_tensor(call, 1), mt__arg_tensor(call, 0), &adaptive_back);
}
