/* runtime/flops.c - the op table's FLOP formulas, which are PyTorch's, so that profiles without shapes have
 * FLOPs, too. The profiler derives those of other ops from their shapes (analyze/flops.c). They run before
 * the arguments are checked.
 */
#include "runtime/runtime.h"

/* The elements of the first argument, as PyTorch counts. */
uint64_t mt__flops_elements(const mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    return self != NULL ? (uint64_t)self->numel : 0;
}

/* (b, m, k) x (b, k, n), or without b. */
static uint64_t product(const mt_tensor *a, const mt_tensor *b)
{
    if (a == NULL || b == NULL || a->rank < 2 || b->rank < 2)
        return 0;
    return 2 * (uint64_t)a->numel * (uint64_t)b->dims[b->rank - 1];
}

uint64_t mt__flops_product(const mt__call *call)
{
    return product(mt__arg_tensor(call, 0), mt__arg_tensor(call, 1));
}

uint64_t mt__flops_added_product(const mt__call *call)
{
    return product(mt__arg_tensor(call, 1), mt__arg_tensor(call, 2));
}

/* One dim of a convolution's output. */
static int64_t reach(const mt__call *call, const mt_tensor *x, const mt_tensor *w, int dim)
{
    int64_t by[3]; /* stride, padding, dilation */
    for (unsigned k = 0; k < 3; k++) {
        const mt_value *v = &call->args[3 + k];
        if (v->kind != MT_INTS || v->count == 0)
            return 0;
        by[k] = v->as.ints[v->count > 1 ? dim : 0];
    }
    if (by[0] <= 0)
        return 0;
    int64_t in = x->dims[x->rank - 2 + dim] + 2 * by[1] - by[2] * (w->dims[2 + dim] - 1) - 1;
    return in < 0 ? 0 : in / by[0] + 1;
}

uint64_t mt__flops_convolution(const mt__call *call)
{
    const mt_tensor *x = mt__arg_tensor(call, 0), *w = mt__arg_tensor(call, 1);
    int64_t groups = mt__arg_int(call, 6);
    if (x == NULL || w == NULL || x->rank < 3 || x->rank > 4 || w->rank != 4 || groups <= 0)
        return 0;
    uint64_t batch = x->rank == 4 ? (uint64_t)x->dims[0] : 1, channels = (uint64_t)x->dims[x->rank - 3];
    uint64_t places = (uint64_t)(reach(call, x, w, 0) * reach(call, x, w, 1));
    uint64_t kernel = (uint64_t)(w->dims[2] * w->dims[3]);
    return 2 * batch * places * kernel * channels * (uint64_t)w->dims[0] / (uint64_t)groups;
}
