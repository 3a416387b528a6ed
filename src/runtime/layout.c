/* runtime/layout.c - elementwise ops on tensors whose dims do not lie in memory in row-major order.
 *
 * The result keeps the order of its operands, as in PyTorch: a transposed matrix plus one is column-major, too.
 * Kernels need not know: they see all operands with their dims in that order, in which the result is
 * contiguous, and mostly the operands as well. Afterwards the result is turned back.
 */
#include "runtime/runtime.h"

/* Does dim a lie inside dim b (1), outside (-1), or can no operand say (0)? The first that knows decides;
 * of equal strides, the smaller dim is inside. */
static int inside(const int64_t (*strides)[MT_MAX_RANK], unsigned count, const int64_t *dims, int a, int b)
{
    for (unsigned i = 0; i < count; i++) {
        int64_t x = strides[i][a], y = strides[i][b];
        if (x == 0 || y == 0) /* broadcast: says nothing */
            continue;
        if (x != y)
            return x < y ? 1 : -1;
        if (dims[b] > dims[a])
            return 1;
    }
    return 0;
}

/* order[k]: the dim that is k-th in memory, the outermost first. A stable insertion sort from the last dim. */
static void find_order(const int64_t (*strides)[MT_MAX_RANK], unsigned count, int rank, const int64_t *dims,
                       int *order)
{
    int inner_first[MT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        inner_first[i] = rank - 1 - i;
    for (int i = 1; i < rank; i++)
        for (int at = i, k = i - 1; k >= 0; k--) {
            int which = inside(strides, count, dims, inner_first[at], inner_first[k]);
            if (which < 0)
                break;
            if (which == 0)
                continue;
            int moved = inner_first[at];
            inner_first[at] = inner_first[k];
            inner_first[k] = moved;
            at = k;
        }
    for (int i = 0; i < rank; i++)
        order[i] = inner_first[rank - 1 - i];
}

static bool is_plain_order(const int *order, int rank)
{
    for (int i = 0; i < rank; i++)
        if (order[i] != i)
            return false;
    return true;
}

void mt__strides_like(const mt_tensor *t, int64_t *strides)
{
    int order[MT_MAX_RANK];
    int64_t of[1][MT_MAX_RANK], step = 1;
    memcpy(of[0], t->strides, sizeof of[0]);
    find_order((const int64_t(*)[MT_MAX_RANK])of, 1, t->rank, t->dims, order);
    for (int i = t->rank; i-- > 0;) {
        strides[order[i]] = step;
        step *= t->dims[order[i]] > 0 ? t->dims[order[i]] : 1;
    }
}

/* ------------------------------------------------------------------------------------------------ operands */

typedef struct turned {
    mt_value args[MT__MAX_ARGS];
    mt_tensor *made[MT__MAX_ARGS]; /* owned */
    unsigned count;
    int rank, order[MT_MAX_RANK];
    int64_t dims[MT_MAX_RANK];
} turned;

/* A scalar stays as it is: ops treat scalars specially. */
static bool is_turned(const mt_value *v)
{
    return v->kind == MT_TENSOR && v->as.tensor->rank > 0;
}

/* Finds the order. false: it is the usual one, or the shapes do not match. */
static bool find(turned *x, const mt__call *call)
{
    int64_t strides[MT__MAX_ARGS][MT_MAX_RANK];
    unsigned count = 0;
    x->rank = 0;
    for (unsigned i = 0; i < call->op->param_count; i++)
        if (is_turned(&call->args[i])) {
            const mt_tensor *t = call->args[i].as.tensor;
            if (mt__broadcast(x->rank, x->dims, t->rank, t->dims, &x->rank, x->dims) != MT_OK)
                return false; /* infer reports it */
        }
    bool swapped = call->op->id == MT_OP_rsub; /* other - self: PyTorch calls sub */
    for (unsigned i = 0; i < call->op->param_count; i++) {
        const mt_value *v = &call->args[swapped && i < 2 ? 1 - i : i];
        if (is_turned(v))
            mt__broadcast_strides(v->as.tensor, x->rank, x->dims, strides[count++]);
    }
    find_order((const int64_t(*)[MT_MAX_RANK])strides, count, x->rank, x->dims, x->order);
    return !is_plain_order(x->order, x->rank);
}

static mt_status turn(turned *x, const mt__call *call)
{
    mt_status status = MT_OK;
    for (unsigned i = 0; i < call->op->param_count && status == MT_OK; i++) {
        x->args[i] = call->args[i];
        if (!is_turned(&call->args[i]))
            continue;
        const mt_tensor *t = call->args[i].as.tensor;
        int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
        int lead = x->rank - t->rank;
        for (int k = 0; k < x->rank; k++) {
            int from = x->order[k] - lead;
            dims[k] = from < 0 ? 1 : t->dims[from];
            strides[k] = from < 0 ? 0 : t->strides[from];
        }
        status = mt__alias(t, x->rank, dims, strides, t->offset, &x->made[x->count]);
        if (status == MT_OK)
            x->args[i].as.tensor = x->made[x->count++];
    }
    return status;
}

static void turn_back(const turned *x, mt_tensor *out)
{
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    for (int k = 0; k < x->rank; k++) {
        dims[x->order[k]] = out->dims[k];
        strides[x->order[k]] = out->strides[k];
    }
    memcpy(out->dims, dims, (size_t)x->rank * sizeof *dims);
    memcpy(out->strides, strides, (size_t)x->rank * sizeof *strides);
    mt__set_contiguous_flag(out);
}

mt_status mt__compute_in_order(mt__call *call, mt__fn *compute)
{
    turned x = {.count = 0};
    if (!find(&x, call))
        return compute(call);
    mt__call inner = *call;
    inner.args = x.args;
    mt_status status = turn(&x, call);
    if (status == MT_OK)
        status = compute(&inner);
    if (status == MT_OK && call->outs[0]->rank == x.rank)
        turn_back(&x, call->outs[0]);
    call->compute = inner.compute;
    call->scratch = inner.scratch;
    call->drop_scratch = inner.drop_scratch;
    for (unsigned i = 0; i < x.count; i++)
        mt_release(x.made[i]);
    return status;
}
