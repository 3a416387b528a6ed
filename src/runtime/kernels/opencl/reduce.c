/* kernels/opencl/reduce.c - reductions. The input is seen as [outer, n, inner]; a long n with few results is cut into chunks,
 * whose results are reduced again, so that the device has enough to do at once and sums stay exact.
 */
#define _GNU_SOURCE
#include "runtime/kernels/opencl/npu.h"
#include "runtime/reduce.h"
#include <math.h>
#include <stdio.h>

#define ENOUGH 2048     /* results: work for a device */
#define CHUNK_LEAST 512 /* elements */

const mt__fold mt__fold_sum = {1, "sum", "0", "x", "a + b", "x"};

typedef struct shape {
    int64_t outer, n, inner;
} shape;

static mt_status one_pass(const mt__fold *f, mt_dtype compute, const mt_tensor *x, shape s, int64_t chunk,
                          const mt_tensor *y, const char *map, const char *end, unsigned pass, double k0)
{
    char defines[700];
    bool columns = s.inner > 1 || s.n < 32;
    int64_t chunks = s.n > 0 ? (s.n + chunk - 1) / chunk : 1;
    mt__launch l;
    mt__kernel k;
    snprintf(defines, sizeof defines,
             "#define NEED_%s\n#define IN %s\n#define R %s\n#define FIRST (T)(%s)\n#define MAP(v) map_of(%s, "
             "k0)\n#define END(v) "
             "end_of(v, k0)\n#define FOLD (%s)\nT map_of(T x, T k0) { return %s; }\nT end_of(T x, T k0) { "
             "return %s; }\n",
             columns ? "columns" : "rows", mt__cl_type((mt_dtype)x->dtype), mt__cl_type((mt_dtype)y->dtype),
             f->first, compute == MT_BOOL && x->dtype != MT_BOOL ? "(v) != 0" : "v", f->fold, map, end);
    mt__template t = {f->name, mt__cl_reduce, compute, defines};
    mt_status status = mt__launch_begin(&l, x->device);
    uint64_t variant = (((uint64_t)f->id << 3 | x->dtype) << 3 | y->dtype) << 4 | pass << 1 | columns;
    if (status == MT_OK)
        status = mt__npu_template(l.npu, MT__KEY(MT__REDUCE, compute, variant), &t, &k);
    if (status != MT_OK)
        return status;
    int64_t items = s.outer * chunks * s.inner;
    if (columns)
        mt__launch_long(&l, items);
    mt__launch_long(&l, s.n);
    mt__launch_long(&l, chunks);
    mt__launch_long(&l, chunk);
    if (columns)
        mt__launch_long(&l, s.inner);
    mt__launch_tensor(&l, x);
    mt__launch_tensor(&l, y);
    mt__launch_number(&l, compute, k0);
    return columns ? mt__launch_flat(&l, &k, items) : mt__launch_rows(&l, &k, items);
}

mt_status mt__npu_reduce(const mt__fold *f, mt_dtype compute, const mt_tensor *x, int64_t outer, int64_t n,
                         int64_t inner, const mt_tensor *y, double k0)
{
    shape s = {outer, n, inner};
    int64_t results = outer * inner, chunk = n > 0 ? n : 1;
    if (results == 0)
        return MT_OK;
    if (results < ENOUGH && n >= 2 * CHUNK_LEAST) {
        int64_t wanted = (ENOUGH + results - 1) / results, most = n / CHUNK_LEAST;
        int64_t chunks = wanted < most ? wanted : most;
        chunk = (n + chunks - 1) / chunks;
    }
    if (chunk >= n)
        return one_pass(f, compute, x, s, chunk, y, f->map, f->end, 0, k0);
    int64_t chunks = (n + chunk - 1) / chunk, dims[] = {outer * chunks * inner};
    mt_tensor *parts;
    mt_status status = mt__empty(compute, x->device, 1, dims, &parts);
    if (status == MT_OK)
        status = one_pass(f, compute, x, s, chunk, parts, f->map, "x", 1, k0);
    if (status == MT_OK)
        status = one_pass(f, compute, parts, (shape){outer, chunks, inner}, chunks, y, "x", f->end, 2, k0);
    mt_release(parts);
    return status;
}

/* x as [outer, n, inner]: as it lies when the reduced dims are neighbours, else with them last. */
static mt_status view_of(const mt_tensor *x, uint32_t mask, mt_tensor **out, shape *s)
{
    *s = (shape){1, 1, 1};
    int first = -1, last = -1;
    for (int i = 0; i < x->rank; i++)
        if (mask >> i & 1u) {
            first = first < 0 ? i : first;
            last = i;
            s->n *= x->dims[i];
        }
    bool near = true;
    for (int i = first; i >= 0 && i <= last; i++)
        near &= (mask >> i & 1u) != 0;
    if (!near) {
        for (int i = 0; i < x->rank; i++)
            s->outer *= mask >> i & 1u ? 1 : x->dims[i];
        return mt__rows_of(x, mask, out);
    }
    if (first < 0) {
        s->outer = x->numel;
        return mt__contiguous(x, out);
    }
    for (int i = 0; i < x->rank; i++)
        *(i < first ? &s->outer : i > last ? &s->inner : &(int64_t){0}) *= x->dims[i];
    return mt__contiguous(x, out);
}

static mt_status reduce_call(mt__call *call, const mt__fold *f, mt_dtype compute, double k0)
{
    mt__reduction r;
    mt_tensor *x;
    shape s;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = view_of(mt__arg_tensor(call, 0), r.mask, &x, &s);
    if (status != MT_OK)
        return status;
    status = mt__npu_reduce(f, compute, x, s.outer, s.n, s.inner, call->outs[0], k0);
    mt_release(x);
    return status;
}

/* sum, mean, prod: in the output's dtype. */
mt_status mt__npu_sum(mt__call *call)
{
    static const mt__fold mean = {2, "mean", "0", "x", "a + b", "x / k0"},
                          prod = {3, "prod", "1", "x", "a * b", "x"},
                          truth_sum = {4, "sum", "0", "x", "a | b", "x"};
    mt_op_id op = call->op->id;
    mt_dtype dtype = (mt_dtype)call->outs[0]->dtype;
    if (op == MT_OP_sum || op == MT_OP_sum_dim)
        return reduce_call(call, dtype == MT_BOOL ? &truth_sum : &mt__fold_sum, dtype, 0);
    if (op == MT_OP_prod || op == MT_OP_prod_dim)
        return reduce_call(call, &prod, dtype, 0);
    mt__reduction r;
    mt_status status = mt__reduction_of(call, &r);
    return status == MT_OK ? reduce_call(call, &mean, dtype, (double)r.count) : status;
}

/* Extremes and truths. */
mt_status mt__npu_fold(mt__call *call)
{
    static const mt__fold most = {5, "amax", "-INFINITY", "x", "(b > a || b != b) ? b : a", "x"},
                          least = {6, "amin", "INFINITY", "x", "(b < a || b != b) ? b : a", "x"},
                          most32 = {7, "amax", "INT_MIN", "x", "b > a ? b : a", "x"},
                          least32 = {8, "amin", "INT_MAX", "x", "b < a ? b : a", "x"},
                          most64 = {9, "amax", "LONG_MIN", "x", "b > a ? b : a", "x"},
                          least64 = {10, "amin", "LONG_MAX", "x", "b < a ? b : a", "x"},
                          any = {11, "any", "0", "x != 0", "a | b", "x"},
                          all = {12, "all", "1", "x != 0", "a & b", "x"},
                          any_real = {13, "any", "0", "x != 0", "(T)((a != 0) | (b != 0))", "x"},
                          all_real = {14, "all", "1", "x != 0", "(T)((a != 0) & (b != 0))", "x"};
    mt_op_id op = call->op->id;
    mt_dtype dtype = (mt_dtype)mt__arg_tensor(call, 0)->dtype;
    bool real = mt__is_floating(dtype);
    if (op == MT_OP_any || op == MT_OP_any_dim)
        return reduce_call(call, real ? &any_real : &any, dtype, 0);
    if (op == MT_OP_all || op == MT_OP_all_dim)
        return reduce_call(call, real ? &all_real : &all, dtype, 0);
    bool high = op == MT_OP_max || op == MT_OP_amax;
    if (dtype == MT_BOOL)
        return reduce_call(call, high ? &any : &all, dtype, 0);
    const mt__fold *f = real                ? (high ? &most : &least)
                        : dtype == MT_INT32 ? (high ? &most32 : &least32)
                                            : (high ? &most64 : &least64);
    return reduce_call(call, f, dtype, 0);
}

/* max.dim, min.dim, argmax, argmin */
mt_status mt__npu_pick(mt__call *call)
{
    mt_op_id op = call->op->id;
    bool values = op == MT_OP_max_dim || op == MT_OP_min_dim,
         high = op == MT_OP_max_dim || op == MT_OP_argmax;
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt__reduction r;
    mt_tensor *x;
    shape s;
    mt__launch l;
    mt__kernel k;
    mt_dtype dtype = (mt_dtype)self->dtype;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = view_of(self, r.mask, &x, &s);
    if (status != MT_OK)
        return status;
    char defines[200];
    snprintf(defines, sizeof defines,
             "#define NEED_pick\n#define VALUES %d\n#define BETTER (a == a && (b %c a || b != b))\n", values,
             high ? '>' : '<');
    mt__template t = {values ? (high ? "max_dim" : "min_dim") : (high ? "argmax" : "argmin"), mt__cl_reduce,
                      dtype, defines};
    status = mt__launch_begin(&l, self->device);
    if (status == MT_OK)
        status = mt__npu_template(l.npu, MT__KEY(MT__PICK, dtype, values * 2 + high), &t, &k);
    if (status == MT_OK) {
        int64_t items = s.outer * s.inner;
        const mt_tensor *where = call->outs[values ? 1 : 0];
        mt__launch_long(&l, items);
        mt__launch_long(&l, s.n);
        mt__launch_long(&l, s.inner);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, call->outs[0]);
        mt__launch_tensor(&l, where);
        status = mt__launch_flat(&l, &k, items);
    }
    mt_release(x);
    return status;
}

mt_status mt__npu_var(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_dtype dtype = (mt_dtype)self->dtype;
    bool root = call->op->id == MT_OP_std;
    double correction = mt__arg_given(call, 2) ? mt__arg_number(call, 2) : 1;
    mt__reduction r;
    mt_tensor *x;
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = mt__rows_of(self, r.mask, &x);
    if (status != MT_OK)
        return status;
    mt__template t = {root ? "std" : "var", mt__cl_reduce, dtype,
                      root ? "#define NEED_var\n#define ROOT 1\n" : "#define NEED_var\n#define ROOT 0\n"};
    status = mt__launch_begin(&l, self->device);
    if (status == MT_OK)
        status = mt__npu_template(l.npu, MT__KEY(MT__VAR, dtype, root), &t, &k);
    if (status == MT_OK) {
        mt__launch_long(&l, r.count);
        mt__launch_number(&l, dtype, correction);
        mt__launch_tensor(&l, x);
        mt__launch_tensor(&l, call->outs[0]);
        status = mt__launch_rows(&l, &k, call->outs[0]->numel);
    }
    mt_release(x);
    return status;
}

mt_status mt__npu_vector_norm(mt__call *call)
{
    static const mt__fold two = {20, "norm", "0", "x * x", "a + b", "sqrt(x)"},
                          one = {21, "norm_1", "0", "fabs(x)", "a + b", "x"},
                          most = {22, "norm_inf", "0", "fabs(x)", "(b > a || b != b) ? b : a", "x"},
                          least = {23, "norm_minus_inf", "INFINITY", "fabs(x)", "(b < a || b != b) ? b : a",
                                   "x"},
                          none = {24, "norm_0", "0", "(T)(x != 0)", "a + b", "x"},
                          any = {25, "norm_p", "0", "pow(fabs(x), k0)", "a + b", "pow(x, 1 / k0)"};
    double p = mt__arg_number(call, 1);
    const mt__fold *f = p == 2                   ? &two
                        : p == 1                 ? &one
                        : p == (double)INFINITY  ? &most
                        : p == -(double)INFINITY ? &least
                        : p == 0                 ? &none
                                                 : &any;
    return reduce_call(call, f, (mt_dtype)call->outs[0]->dtype, p);
}

mt_status mt__npu_cumsum(mt__call *call)
{
    mt_tensor *out = call->outs[0], *x, *dense;
    mt_dtype dtype = (mt_dtype)out->dtype;
    int dim;
    shape s = {1, 1, 1};
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__wrap_dim(mt__arg_int(call, 1), out->rank, &dim);
    if (status == MT_OK)
        status = mt__cast(mt__arg_tensor(call, 0), dtype, &x);
    if (status != MT_OK)
        return status;
    status = mt__contiguous(x, &dense);
    mt_release(x);
    if (status != MT_OK)
        return status;
    for (int i = 0; i < out->rank; i++)
        *(i < dim ? &s.outer : i > dim ? &s.inner : &s.n) *= out->dims[i];
    mt__template t = {"cumsum", mt__cl_rows, dtype, "#define NEED_cumsum\n"};
    status = mt__launch_begin(&l, out->device);
    if (status == MT_OK)
        status = mt__npu_template(l.npu, MT__KEY(MT__CUMSUM, dtype, 0), &t, &k);
    if (status == MT_OK && out->numel > 0) {
        mt__launch_long(&l, s.outer * s.inner);
        mt__launch_long(&l, s.n);
        mt__launch_long(&l, s.inner);
        mt__launch_tensor(&l, dense);
        mt__launch_tensor(&l, out);
        status = mt__launch_flat(&l, &k, s.outer * s.inner);
    }
    mt_release(dense);
    return status;
}

mt_status mt__npu_logsumexp(mt__call *call)
{
    mt_tensor *out = call->outs[0], *x, *rows;
    mt_dtype dtype = (mt_dtype)out->dtype;
    mt__reduction r;
    mt__launch l;
    mt__kernel k;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = mt__cast(mt__arg_tensor(call, 0), dtype, &x);
    if (status != MT_OK)
        return status;
    status = mt__rows_of(x, r.mask, &rows);
    mt_release(x);
    if (status != MT_OK)
        return status;
    mt__template t = {"logsumexp", mt__cl_rows, dtype, "#define NEED_logsumexp\n"};
    status = mt__launch_begin(&l, out->device);
    if (status == MT_OK)
        status = mt__npu_template(l.npu, MT__KEY(MT__CUMSUM, dtype, 1), &t, &k);
    if (status == MT_OK) {
        mt__launch_long(&l, r.count);
        mt__launch_long(&l, 1);
        mt__launch_tensor(&l, rows);
        mt__launch_tensor(&l, out);
        status = mt__launch_rows(&l, &k, out->numel);
    }
    mt_release(rows);
    return status;
}
