/* kernels/opencl/matrix.c - matrix products: by the plug-in's library if it has one that supports the
 * matrices, else by a kernel of matrix.cl for any strides: one for GPUs, one for CPUs.
 */
#include "runtime/kernels/opencl/npu.h"

/* X(variant, kernel, defines, dtypes) */
#define VARIANTS(X)                                                                                          \
    X(TILE, "gemm", "NEED_tile", MT__OF_NUMBER)                                                              \
    X(PANEL, "gemm_panel", "NEED_panel", MT__OF_NUMBER)
enum {
    VARIANTS(MT__VARIANT_ID)
};
static const mt__variant variants[] = {VARIANTS(MT__VARIANT)};
static const mt__family family = {MT__MATRIX, mt__cl_matrix, variants, MT__COUNT_OF(variants)};

static mt__matrix matrix_of(const mt_tensor *t)
{
    int r = t->rank;
    return (mt__matrix){t,
                        0,
                        t->dims[r - 2],
                        t->dims[r - 1],
                        t->strides[r - 2],
                        t->strides[r - 1],
                        r > 2 ? t->strides[0] : 0};
}

/* Dense rows or columns: finds BLAS's leading dimension. */
static bool leads(const mt__matrix *m, bool *transposed, uint64_t *lead)
{
    if (m->column == 1 || m->columns == 1) {
        *transposed = false;
        *lead = (uint64_t)(m->rows == 1 ? m->columns : m->row);
        return m->column == 1 && *lead >= (uint64_t)m->columns;
    }
    *transposed = true;
    *lead = (uint64_t)(m->columns == 1 ? m->rows : m->column);
    return (m->row == 1 || m->rows == 1) && *lead >= (uint64_t)m->rows;
}

/* CLBlast counts in int; for batches its fast path assumes matrices that are dense from the start
 * of their buffer. */
static bool suits_library(const mtp_plugin_gemm *g)
{
    const uint64_t most = INT32_MAX - (1u << 20); /* it pads to tiles */
    uint64_t a = g->a_at + g->a_step * (g->batch - 1) + g->lda * (g->transpose_a ? g->k : g->m),
             b = g->b_at + g->b_step * (g->batch - 1) + g->ldb * (g->transpose_b ? g->n : g->k),
             c = g->c_at + g->c_step * g->batch;
    if (a > most || b > most || c > most || g->batch * g->m * g->k > most || g->batch * g->k * g->n > most)
        return false;
    return g->batch == 1 || (g->a_at == 0 && g->b_at == 0 && g->c_at == 0 && g->a_step == g->m * g->k &&
                             g->b_step == g->k * g->n);
}

static mt_status by_library(mt__npu *npu, const mt__matrix *a, const mt__matrix *b, const mt_tensor *out,
                            int64_t out_at, int64_t batch, double alpha, double beta)
{
    mtp_plugin_gemm g = {.size = sizeof g,
                         .m = (uint64_t)a->rows,
                         .n = (uint64_t)b->columns,
                         .k = (uint64_t)a->columns,
                         .batch = (uint64_t)batch,
                         .alpha = alpha,
                         .beta = beta};
    if (!mt__is_floating((mt_dtype)out->dtype) || !leads(a, &g.transpose_a, &g.lda) ||
        !leads(b, &g.transpose_b, &g.ldb))
        return MT_E_NOT_IMPLEMENTED;
    g.dtype = out->dtype == MT_FLOAT32 ? MTP_FLOAT32 : MTP_FLOAT64;
    g.a = a->t->storage->data;
    g.b = b->t->storage->data;
    g.c = out->storage->data;
    g.a_at = (uint64_t)(a->t->offset + a->at);
    g.b_at = (uint64_t)(b->t->offset + b->at);
    g.c_at = (uint64_t)(out->offset + out_at);
    g.ldc = g.n;
    g.a_step = (uint64_t)a->step;
    g.b_step = (uint64_t)b->step;
    g.c_step = g.m * g.n;
    return suits_library(&g) ? mt__npu_gemm(npu, &g) : MT_E_NOT_IMPLEMENTED;
}

static void put_place(mt__launch *l, const mt_tensor *t, int64_t at)
{
    mt__launch_memory(l, t->storage->data);
    mt__launch_long(l, t->offset + at);
}

mt_status mt__npu_product(const mt__matrix *a, const mt__matrix *b, const mt_tensor *c, int64_t c_at,
                          int64_t batch, double alpha, double beta)
{
    mt__launch l;
    mt__kernel k;
    mt_dtype dtype = (mt_dtype)c->dtype;
    if (a->rows == 0 || b->columns == 0 || batch == 0)
        return MT_OK;
    mt_status status = mt__launch_begin(&l, c->device);
    if (status != MT_OK)
        return status;
    if (a->columns > 0) {
        status = by_library(l.npu, a, b, c, c_at, batch, alpha, beta);
        if (status != MT_E_NOT_IMPLEMENTED)
            return status;
    }
    bool panels = l.npu->properties.is_cpu;
    status = mt__npu_template(l.npu, &family, panels ? PANEL : TILE, dtype, &k);
    if (status != MT_OK)
        return status;
    mt__launch_long(&l, a->rows);
    mt__launch_long(&l, b->columns);
    mt__launch_long(&l, a->columns);
    mt__launch_number(&l, dtype, alpha);
    mt__launch_number(&l, dtype, beta);
    const mt__matrix *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        put_place(&l, both[i]->t, both[i]->at);
        mt__launch_long(&l, both[i]->row);
        mt__launch_long(&l, both[i]->column);
        mt__launch_long(&l, both[i]->step);
    }
    put_place(&l, c, c_at);
    mt__launch_long(&l, a->rows * b->columns);
    /* work-items per group, and results per work-item, along each dim */
    uint64_t side = panels ? 1 : 16, each = panels ? 16 : 4;
    uint64_t local[] = {side, side, 1};
    uint64_t global[] = {mt__round_up(b->columns, side * each) / each,
                         mt__round_up(a->rows, side * each) / each, (uint64_t)batch};
    return mt__launch_run(&l, &k, 3, global, local);
}

static mt_status product(mt__matrix a, mt__matrix b, const mt_tensor *out, int64_t batch, double alpha,
                         double beta)
{
    return mt__npu_product(&a, &b, out, 0, batch, alpha, beta);
}

/* A factor rounded to the dtype: integers lose the fraction. */
static double factor(const mt__call *call, unsigned arg)
{
    return mt__is_floating((mt_dtype)call->outs[0]->dtype) ? mt__arg_number(call, arg)
                                                           : (double)mt__arg_int(call, arg);
}

static mt_status added(mt__call *call, int64_t batch)
{
    double beta = factor(call, 3);
    mt_status status = beta != 0 ? mt__npu_assign(call->outs[0], mt__arg_tensor(call, 0)) : MT_OK;
    if (status != MT_OK)
        return status;
    return product(matrix_of(mt__arg_tensor(call, 1)), matrix_of(mt__arg_tensor(call, 2)), call->outs[0],
                   batch, factor(call, 4), beta);
}

mt_status mt__npu_mm(mt__call *call)
{
    return product(matrix_of(mt__arg_tensor(call, 0)), matrix_of(mt__arg_tensor(call, 1)), call->outs[0], 1,
                   1, 0);
}

mt_status mt__npu_addmm(mt__call *call)
{
    return added(call, 1);
}

mt_status mt__npu_bmm(mt__call *call)
{
    return product(matrix_of(mt__arg_tensor(call, 0)), matrix_of(mt__arg_tensor(call, 1)), call->outs[0],
                   call->outs[0]->dims[0], 1, 0);
}

mt_status mt__npu_baddbmm(mt__call *call)
{
    return added(call, call->outs[0]->dims[0]);
}

mt_status mt__npu_mv(mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 1);
    mt__matrix column = {x, 0, x->dims[0], 1, x->strides[0], 1, 0};
    return product(matrix_of(mt__arg_tensor(call, 0)), column, call->outs[0], 1, 1, 0);
}

mt_status mt__npu_dot(mt__call *call)
{
    mt_tensor *each;
    mt_status status = mt__run_quietly(MT_OP_mul, call->args, 2, &each);
    if (status == MT_OK)
        status = mt__npu_reduce(MT__SUM, each, 1, each->numel, 1, call->outs[0], 0);
    mt_release(each);
    return status;
}
