/* kernels/cpu/join.c - cat, stack, repeat, flip, roll, tril, triu: elements moved, none computed.
 *
 * All but the triangles are copies between parts of tensors. A part is an mt_tensor on the stack that borrows
 * its memory: it has dims, strides and data but no storage, and never leaves this file. Its flags say whether it is
 * contiguous, although mt__plan_copy() looks at the strides: a fast path that trusted stale flags left parts unwritten.
 */
#include "runtime/kernels/cpu/iterate.h"

/* n elements of t along dim, starting at `begin`. */
static mt_tensor part_of(const mt_tensor *t, int dim, int64_t begin, int64_t n)
{
    mt_tensor part = *t;
    part.data = (char *)t->data + begin * t->strides[dim] * (int64_t)mt__size_of(t);
    part.numel = t->dims[dim] > 0 ? t->numel / t->dims[dim] * n : 0;
    part.dims[dim] = n;
    mt__set_contiguous_flag(&part);
    return part;
}

mt_status mt__cpu_cat(mt__call *call)
{
    const mt_tensor *out = call->outs[0];
    int dim = mt__wrapped_dim(mt__arg_int(call, 1), out->rank);
    int64_t begin = 0;
    for (uint32_t i = 0; i < call->args[0].count; i++) {
        const mt_tensor *t = call->args[0].as.tensors[i];
        if (t->rank == 1 && t->dims[0] == 0)
            continue;
        mt_tensor part = part_of(out, dim, begin, t->dims[dim]);
        mt__plan_copy(&part, t);
        begin += t->dims[dim];
    }
    return MT_OK;
}

mt_status mt__cpu_stack(mt__call *call)
{
    const mt_tensor *out = call->outs[0];
    int dim = mt__wrapped_dim(mt__arg_int(call, 1), out->rank);
    for (uint32_t i = 0; i < call->args[0].count; i++) {
        mt_tensor part = part_of(out, dim, i, 1);
        part.rank--;
        for (int k = dim; k < part.rank; k++) {
            part.dims[k] = part.dims[k + 1];
            part.strides[k] = part.strides[k + 1];
        }
        mt__set_contiguous_flag(&part);
        mt__plan_copy(&part, call->args[0].as.tensors[i]);
    }
    return MT_OK;
}

/* Copies the first tile, then doubles it along each dim. */
mt_status mt__cpu_repeat(mt__call *call)
{
    const mt_tensor *t = mt__arg_tensor(call, 0), *out = call->outs[0];
    if (out->numel == 0)
        return MT_OK;
    int lead = out->rank - t->rank;
    mt_tensor done = *out;
    for (int i = 0; i < out->rank; i++)
        done = part_of(&done, i, 0, i < lead ? 1 : t->dims[i - lead]);
    mt__plan_copy(&done, t);
    for (int i = out->rank - 1; i >= 0; i--) {
        int64_t n = done.dims[i], all = out->dims[i];
        mt_tensor row = done;
        row.dims[i] = all; /* room for the part_of below */
        row.numel = done.numel / n * all;
        for (int64_t have = n; have < all;) {
            int64_t more = have < all - have ? have : all - have;
            mt_tensor from = part_of(&row, i, 0, more), to = part_of(&row, i, have, more);
            mt__plan_copy(&to, &from);
            have += more;
        }
        done = row;
    }
    return MT_OK;
}

mt_status mt__cpu_flip(mt__call *call)
{
    mt_tensor from = *mt__arg_tensor(call, 0);
    if (from.numel == 0)
        return MT_OK;
    for (uint32_t i = 0; i < call->args[1].count && from.rank > 0; i++) {
        int dim = mt__wrapped_dim(call->args[1].as.ints[i], from.rank);
        from.data =
            (char *)from.data + (from.dims[dim] - 1) * from.strides[dim] * (int64_t)mt__size_of(&from);
        from.strides[dim] = -from.strides[dim];
    }
    mt__set_contiguous_flag(&from);
    mt__plan_copy(call->outs[0], &from);
    return MT_OK;
}

/* Each rolled dim has two parts: one that stays in order, and one that wraps around. */
static void roll_parts(const mt_tensor *to, const mt_tensor *from, const int64_t *shift, int dim)
{
    while (dim < from->rank && shift[dim] == 0)
        dim++;
    if (dim == from->rank) {
        mt__plan_copy(to, from);
        return;
    }
    int64_t n = from->dims[dim], s = shift[dim];
    mt_tensor to_high = part_of(to, dim, s, n - s), from_low = part_of(from, dim, 0, n - s);
    roll_parts(&to_high, &from_low, shift, dim + 1);
    mt_tensor to_low = part_of(to, dim, 0, s), from_high = part_of(from, dim, n - s, s);
    roll_parts(&to_low, &from_high, shift, dim + 1);
}

static void add_shift(int64_t *shift, int64_t by, int64_t n)
{
    by %= n;
    *shift = (*shift + (by < 0 ? by + n : by)) % n;
}

mt_status mt__cpu_roll(mt__call *call)
{
    mt_tensor *whole, to = *call->outs[0];
    int64_t shift[MT_MAX_RANK] = {0};
    if (to.numel == 0)
        return MT_OK;
    if (call->args[2].count > 0) {
        whole = mt_retain(mt__arg_tensor(call, 0));
        for (uint32_t i = 0; i < call->args[2].count && to.rank > 0; i++) {
            int dim = mt__wrapped_dim(call->args[2].as.ints[i], to.rank);
            add_shift(&shift[dim], call->args[1].as.ints[i], to.dims[dim]);
        }
    } else { /* as if it were one row */
        mt_status status = mt__contiguous(mt__arg_tensor(call, 0), &whole);
        if (status != MT_OK)
            return status;
        add_shift(&shift[0], call->args[1].as.ints[0], to.numel);
    }
    mt_tensor from = *whole;
    if (call->args[2].count == 0) {
        from.rank = to.rank = 1;
        from.dims[0] = to.dims[0] = to.numel;
        from.strides[0] = to.strides[0] = 1;
    }
    roll_parts(&to, &from, shift, 0);
    mt_release(whole);
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------------ triangles */

typedef struct triangle {
    const char *from;
    char *to;
    int64_t rows, columns, diagonal;
    size_t item;
    bool upper;
} triangle;

static int64_t clip(int64_t i, int64_t high)
{
    return i < 0 ? 0 : i > high ? high : i;
}

static void triangle_rows(int64_t begin, int64_t end, void *user)
{
    const triangle *t = user;
    for (int64_t r = begin; r < end; r++) {
        int64_t at = r % t->rows;
        int64_t cut =
            clip(at + t->diagonal + (t->upper ? 0 : 1), t->columns); /* where the upper part begins */
        size_t low = (size_t)cut * t->item, row = (size_t)t->columns * t->item, offset = (size_t)r * row;
        const char *from = t->from + offset;
        char *to = t->to + offset;
        if (t->upper) {
            memset(to, 0, low);
            memcpy(to + low, from + low, row - low);
        } else {
            memcpy(to, from, low);
            memset(to + low, 0, row - low);
        }
    }
}

static mt_status run_triangle(mt__call *call, bool upper)
{
    mt_tensor *from, *out = call->outs[0];
    if (out->numel == 0)
        return MT_OK;
    mt_status status = mt__contiguous(mt__arg_tensor(call, 0), &from);
    if (status != MT_OK)
        return status;
    int64_t columns = out->dims[out->rank - 1], rows = out->dims[out->rank - 2],
            diagonal = mt__arg_int(call, 1);
    /* Beyond the corners nothing changes; kept small so that sums do not overflow. */
    diagonal = diagonal < -rows - 1 ? -rows - 1 : diagonal > columns + 1 ? columns + 1 : diagonal;
    triangle t = {from->data, out->data, rows, columns, diagonal, mt__size_of(out), upper};
    mt__parallel(out->numel / columns, MT__GRAIN_OF(columns), triangle_rows, &t);
    mt_release(from);
    return MT_OK;
}

mt_status mt__cpu_tril(mt__call *call)
{
    return run_triangle(call, false);
}

mt_status mt__cpu_triu(mt__call *call)
{
    return run_triangle(call, true);
}
