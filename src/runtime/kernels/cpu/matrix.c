/* runtime/kernels/cpu/matrix.c - mm, bmm, addmm, baddbmm, mv and dot: matrices are passed to mt__gemm
 * with their strides. */
#include "runtime/blas.h"

#define COPY_GRAIN 16384 /* elements */

/* The last two dims of t, for one item of the batch. */
static mt__matrix matrix_of(const mt_tensor *t, int64_t item)
{
    int r = t->rank;
    int64_t skip = r > 2 ? item * t->strides[0] : 0;
    return (mt__matrix){(char *)t->data + (size_t)skip * mt__size_of(t), t->dims[r - 2], t->dims[r - 1],
                        t->strides[r - 2], t->strides[r - 1]};
}

static mt__matrix output_of(const mt_tensor *t, int64_t item) /* contiguous */
{
    mt__matrix m = matrix_of(t, 0);
    m.data = (char *)t->data + (size_t)(item * m.rows * m.columns) * mt__size_of(t);
    m.row = m.columns;
    m.column = 1;
    return m;
}

/* ------------------------------------------------------------------------- what a product is added to */

typedef struct spread {
    const char *from;
    char *to;
    int64_t rows, columns;      /* of each batch item */
    int64_t batch, row, column; /* strides of from */
    size_t size;
} spread;

static void spread_rows(int64_t begin, int64_t end, void *user)
{
    const spread *s = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / s->rows * s->batch + i % s->rows * s->row;
        const char *from = s->from + (size_t)at * s->size;
        char *to = s->to + (size_t)(i * s->columns) * s->size;
        if (s->column == 1)
            memcpy(to, from, (size_t)s->columns * s->size);
        else if (s->size == 4)
            for (int64_t j = 0; j < s->columns; j++)
                ((uint32_t *)to)[j] = ((const uint32_t *)from)[j * s->column];
        else
            for (int64_t j = 0; j < s->columns; j++)
                ((uint64_t *)to)[j] = ((const uint64_t *)from)[j * s->column];
    }
}

/* out = self, broadcast. */
static void fill_from(const mt_tensor *out, const mt_tensor *self)
{
    int64_t strides[MT_MAX_RANK];
    int r = out->rank;
    mt__broadcast_strides(self, r, out->dims, strides);
    int64_t columns = out->dims[r - 1];
    spread s = {self->data,     out->data,      out->dims[r - 2], columns, r > 2 ? strides[0] : 0,
                strides[r - 2], strides[r - 1], mt__size_of(out)};
    if (out->numel > 0)
        mt__parallel(out->numel / columns, COPY_GRAIN / columns + 1, spread_rows, &s);
}

/* -------------------------------------------------------------------------------------------- matrices */

static mt_status product(const mt_tensor *a, const mt_tensor *b, mt_tensor *out, double alpha, double beta)
{
    mt__matrix ma = matrix_of(a, 0), mb = matrix_of(b, 0), mc = output_of(out, 0);
    return mt__gemm((mt_dtype)out->dtype, alpha, &ma, &mb, beta, &mc);
}

mt_status mt__cpu_mm(mt__call *call)
{
    return product(mt__arg_tensor(call, 0), mt__arg_tensor(call, 1), call->outs[0], 1, 0);
}

/* A factor rounded to the dtype: integers lose the fraction. */
static double factor(const mt__call *call, unsigned arg)
{
    return mt__is_floating((mt_dtype)call->outs[0]->dtype) ? mt__arg_number(call, arg)
                                                           : (double)mt__arg_int(call, arg);
}

static mt_status fill_from_self(mt__call *call)
{
    fill_from(call->outs[0], mt__arg_tensor(call, 0));
    return MT_OK;
}

/* Initialises the output to the summand of the product. */
static mt_status begin_with_self(mt__call *call)
{
    if (MT__LIKELY(!call->recorded))
        return fill_from_self(call);
    mt_value args[] = {mt_value_tensor(call->outs[0]), call->args[0], mt_value_truth(false)};
    return mt__record_part(call, MT_OP_copy_, NULL, args, fill_from_self);
}

mt_status mt__cpu_addmm(mt__call *call)
{
    double beta = factor(call, 3);
    mt_status status = beta != 0 ? begin_with_self(call) : MT_OK;
    if (status != MT_OK)
        return status;
    return product(mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), call->outs[0], factor(call, 4), beta);
}

mt_status mt__cpu_mv(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 1);
    mt__matrix a = matrix_of(mt__arg_tensor(call, 0), 0);
    mt__matrix column = {x->data, x->dims[0], 1, x->strides[0], 1},
               out = {call->outs[0]->data, a.rows, 1, 1, 1};
    return mt__gemm((mt_dtype)x->dtype, 1, &a, &column, 0, &out);
}

/* --------------------------------------------------------------------------------------------- batches */

typedef struct batch {
    const mt_tensor *a, *b;
    mt_tensor *out;
    double alpha, beta;
    _Atomic int status; /* the first failure */
} batch;

static void batch_part(int64_t begin, int64_t end, void *user)
{
    batch *p = user;
    for (int64_t i = begin; i < end; i++) {
        mt__matrix a = matrix_of(p->a, i), b = matrix_of(p->b, i), c = output_of(p->out, i);
        mt_status status = mt__gemm((mt_dtype)p->out->dtype, p->alpha, &a, &b, p->beta, &c);
        if (status != MT_OK)
            atomic_store(&p->status, (int)status);
    }
}

/* In parallel if there are enough products for all threads; else each is split. */
static mt_status batched(mt__call *call, const mt_tensor *a, const mt_tensor *b, double alpha, double beta)
{
    batch p = {a, b, call->outs[0], alpha, beta, MT_OK};
    int64_t count = a->dims[0];
    double work = (double)a->dims[1] * (double)a->dims[2] * (double)b->dims[2];
    int64_t grain = work >= (double)(1 << 19) ? 1 : (int64_t)((double)(1 << 19) / (work + 1)) + 1;
    if (count >= mt_num_threads())
        mt__parallel(count, grain, batch_part, &p);
    else
        batch_part(0, count, &p);
    if (atomic_load(&p.status) != MT_OK)
        return mt__fail(MT_E_NOMEM, "out of memory: a batch of products");
    return MT_OK;
}

mt_status mt__cpu_bmm(mt__call *call)
{
    return batched(call, mt__arg_tensor(call, 0), mt__arg_tensor(call, 1), 1, 0);
}

mt_status mt__cpu_baddbmm(mt__call *call)
{
    double beta = factor(call, 3);
    mt_status status = beta != 0 ? begin_with_self(call) : MT_OK;
    if (status != MT_OK)
        return status;
    return batched(call, mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), factor(call, 4), beta);
}

/* ------------------------------------------------------------------------------------------------- dot */

/* Eight sums in parallel, which vectorises; by blocks, so that the error does not grow with n. */
#define DOT_BLOCK 1024
#define DOT(type, wide, suffix)                                                                              \
    static type dot_block_##suffix(int64_t n, const type *a, int64_t sa, const type *b, int64_t sb)          \
    {                                                                                                        \
        type sums[8] = {0}, total = 0;                                                                       \
        int64_t i = 0;                                                                                       \
        if (sa == 1 && sb == 1)                                                                              \
            for (; i + 8 <= n; i += 8)                                                                       \
                for (int k = 0; k < 8; k++)                                                                  \
                    sums[k] += a[i + k] * b[i + k];                                                          \
        for (; i < n; i++)                                                                                   \
            sums[i & 7] += a[i * sa] * b[i * sb];                                                            \
        for (int k = 0; k < 8; k++)                                                                          \
            total += sums[k];                                                                                \
        return total;                                                                                        \
    }                                                                                                        \
    static type dot_##suffix(int64_t n, const type *a, int64_t sa, const type *b, int64_t sb)                \
    {                                                                                                        \
        if (n <= DOT_BLOCK)                                                                                  \
            return dot_block_##suffix(n, a, sa, b, sb);                                                      \
        wide total = 0;                                                                                      \
        for (int64_t i = 0; i < n; i += DOT_BLOCK)                                                           \
            total += (wide)dot_block_##suffix(n - i < DOT_BLOCK ? n - i : DOT_BLOCK, a + i * sa, sa,         \
                                              b + i * sb, sb);                                               \
        return (type)total;                                                                                  \
    }
DOT(float, double, f32)
DOT(double, double, f64)
DOT(uint32_t, uint32_t, i32)
DOT(uint64_t, uint64_t, i64)

mt_status mt__cpu_dot(mt__call *call)
{
    const mt_tensor *a = mt__arg_tensor(call, 0), *b = mt__arg_tensor(call, 1);
    void *out = call->outs[0]->data;
    int64_t sa = a->strides[0], sb = b->strides[0];
    switch ((mt_dtype)a->dtype) {
    case MT_FLOAT32:
        *(float *)out = dot_f32(a->numel, a->data, sa, b->data, sb);
        break;
    case MT_FLOAT64:
        *(double *)out = dot_f64(a->numel, a->data, sa, b->data, sb);
        break;
    case MT_INT32:
        *(uint32_t *)out = dot_i32(a->numel, a->data, sa, b->data, sb);
        break;
    default:
        *(uint64_t *)out = dot_i64(a->numel, a->data, sa, b->data, sb);
    }
    return MT_OK;
}
