/* kernels/cpu/index.c - indexing by tensors.
 *
 * index, index_put_, index_select, index_add_ and embedding share one structure, the grid: element (i, j,
 * k) of the contiguous selection is at outer[i] + pick[j] + inner[k] in the tensor. gather and scatter walk
 * the index's rows.
 * Invariant: all indices are checked before anything is read or written with them. Adding and overwriting run
 * on one thread, in order, so results are reproducible to the bit.
 */
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/narrow.h"
#include "runtime/ops/picks.h"
#include <stdlib.h>

static mt_status no_memory(void)
{
    return mt__fail(MT_E_NOMEM, "out of memory: indices");
}

static int64_t index_at(const mt_tensor *t, int64_t at)
{
    return t->dtype == MT_INT32 ? ((const int32_t *)t->data)[at] : ((const int64_t *)t->data)[at];
}

/* ---------------------------------------------------------------------------------------------- one walk */

typedef struct stroll {
    int rank;
    const int64_t *dims, *strides;
    int64_t at, index[MT_MAX_RANK];
} stroll;

static void step_on(stroll *s)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        s->at += s->strides[d];
        if (++s->index[d] < s->dims[d])
            return;
        s->at -= s->dims[d] * s->strides[d];
        s->index[d] = 0;
    }
}

/* ------------------------------------------------------------------------------------------------ the grid */

typedef struct grid {
    int64_t outers, picks, inners;
    int64_t *outer, *pick, *inner; /* in elements; one block, owned by outer */
    bool flat;                     /* inner[k] is k */
} grid;

static mt_status grid_init(grid *g, int before, int rest, const int64_t *dims, const int64_t *strides,
                           int64_t picks)
{
    g->outers = mt__numel(before, dims);
    g->inners = mt__numel(rest - before, dims + before);
    g->picks = picks;
    g->outer = malloc((size_t)(g->outers + g->picks + g->inners + 1) * sizeof *g->outer);
    if (g->outer == NULL)
        return no_memory();
    g->pick = g->outer + g->outers;
    g->inner = g->pick + g->picks;
    stroll s = {.rank = before, .dims = dims, .strides = strides};
    for (int64_t i = 0; i < g->outers; i++, step_on(&s))
        g->outer[i] = s.at;
    stroll in = {.rank = rest - before, .dims = dims + before, .strides = strides + before};
    g->flat = true;
    for (int64_t i = 0; i < g->inners; i++, step_on(&in)) {
        g->inner[i] = in.at;
        g->flat &= in.at == i;
    }
    return MT_OK;
}

static void grid_fini(grid *g)
{
    free(g->outer);
}

/* Adds the offsets that one index, broadcast to dims, selects from a dim of `size`. */
static mt_status add_picks(grid *g, const mt_tensor *index, int rank, const int64_t *dims, int64_t size,
                           int64_t stride, int k)
{
    int64_t steps[MT_MAX_RANK];
    mt__broadcast_strides(index, rank, dims, steps);
    stroll s = {.rank = rank, .dims = dims, .strides = steps};
    int64_t even = rank == 1 ? steps[0] : 0; /* one dim needs no stroll */
    for (int64_t j = 0; j < g->picks; j++) {
        int64_t i = index_at(index, rank == 1 ? j * even : s.at);
        if (rank != 1)
            step_on(&s);
        if (MT__UNLIKELY(i < -size || i >= size))
            return mt__fail(MT_E_INDEX, "index %lld is out of bounds for dimension %d with size %lld",
                            (long long)i, k, (long long)size);
        g->pick[j] += (i < 0 ? i + size : i) * stride;
    }
    return MT_OK;
}

static mt_status grid_of_picks(grid *g, const mt_tensor *self, const mt__picks *p)
{
    mt_status status = grid_init(g, p->before, p->rest_rank, p->rest_dims, p->rest_strides,
                                 mt__numel(p->index_rank, p->index_dims));
    if (status != MT_OK)
        return status;
    memset(g->pick, 0, (size_t)g->picks * sizeof *g->pick);
    for (int i = 0; i < p->count && status == MT_OK; i++)
        status = add_picks(g, p->index[i], p->index_rank, p->index_dims, self->dims[p->dim[i]],
                           self->strides[p->dim[i]], i);
    if (status != MT_OK)
        grid_fini(g);
    return status;
}

/* The grid of an index, 1-dim or (for embedding) of any rank, along one dim of t. */
static mt_status grid_along(grid *g, const mt_tensor *t, int dim, const mt_tensor *index, bool adds)
{
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK], size = t->rank > 0 ? t->dims[dim] : 1;
    int64_t stride = t->rank > 0 ? t->strides[dim] : 0;
    int rest = 0;
    for (int i = 0; i < t->rank; i++)
        if (i != dim) {
            dims[rest] = t->dims[i];
            strides[rest++] = t->strides[i];
        }
    mt_status status = grid_init(g, t->rank > 0 ? dim : 0, rest, dims, strides, index->numel);
    if (status != MT_OK)
        return status;
    if (index->dtype == MT_INT64 && (index->flags & MT__CONTIGUOUS)) {
        const int64_t *restrict from = index->data;
        int64_t *restrict pick = g->pick;
        uint64_t outside = 0; /* its sign bit */
        for (int64_t j = 0; j < g->picks; j++) {
            outside |= (uint64_t)from[j] | ((uint64_t)size - 1 - (uint64_t)from[j]);
            pick[j] = (int64_t)((uint64_t)from[j] * (uint64_t)stride);
        }
        if (MT__LIKELY(outside >> 63 == 0))
            return MT_OK;
    }
    stroll s = {.rank = index->rank, .dims = index->dims, .strides = index->strides};
    for (int64_t j = 0; j < g->picks; j++, step_on(&s)) {
        int64_t i = index_at(index, s.at);
        if (MT__UNLIKELY(i < 0 || i >= size)) {
            grid_fini(g);
            return adds
                       ? mt__fail(MT_E_RUNTIME, "index %lld is out of bounds for dimension %d with size %lld",
                                  (long long)i, dim, (long long)size)
                       : mt__fail(MT_E_INDEX, "index out of range in self");
        }
        g->pick[j] = i * stride;
    }
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------ reading by grid */

typedef struct reading {
    const grid *g;
    const char *from;
    char *to;
    size_t item;
} reading;

#define READ(bits)                                                                                           \
    static void read_##bits(const grid *g, const uint##bits##_t *from, uint##bits##_t *to, int64_t begin,    \
                            int64_t end)                                                                     \
    {                                                                                                        \
        int64_t i = begin / g->picks, j = begin % g->picks;                                                  \
        if (g->inners == 1) {                                                                                \
            for (int64_t r = begin; r < end; i++, j = 0) {                                                   \
                const uint##bits##_t *restrict row = from + g->outer[i];                                     \
                const int64_t *restrict pick = g->pick + j;                                                  \
                int64_t n = g->picks - j < end - r ? g->picks - j : end - r;                                 \
                uint##bits##_t *restrict out = to + r;                                                       \
                _Pragma("GCC unroll 8") for (int64_t k = 0; k < n; k++) out[k] = row[pick[k]];               \
                r += n;                                                                                      \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t r = begin; r < end; r++) {                                                              \
            const uint##bits##_t *row = from + g->outer[i] + g->pick[j];                                     \
            uint##bits##_t *out = to + r * g->inners;                                                        \
            if (g->flat)                                                                                     \
                memcpy(out, row, (size_t)g->inners * sizeof *out);                                           \
            else                                                                                             \
                for (int64_t k = 0; k < g->inners; k++)                                                      \
                    out[k] = row[g->inner[k]];                                                               \
            if (++j == g->picks) {                                                                           \
                j = 0;                                                                                       \
                i++;                                                                                         \
            }                                                                                                \
        }                                                                                                    \
    }
READ(8)
READ(16)
READ(32)
READ(64)

static void read_rows(int64_t begin, int64_t end, void *user)
{
    const reading *r = user;
    if (r->item == 1)
        read_8(r->g, (const void *)r->from, (void *)r->to, begin, end);
    else if (r->item == 2)
        read_16(r->g, (const void *)r->from, (void *)r->to, begin, end);
    else if (r->item == 4)
        read_32(r->g, (const void *)r->from, (void *)r->to, begin, end);
    else
        read_64(r->g, (const void *)r->from, (void *)r->to, begin, end);
}

static mt_status read_grid(const grid *g, const mt_tensor *from, mt_tensor *to)
{
    reading r = {g, from->data, to->data, mt__size_of(to)};
    if (to->numel > 0)
        mt__parallel(g->outers * g->picks, MT__GRAIN_OF(g->inners), read_rows, &r);
    return MT_OK;
}

mt_status mt__cpu_index(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    grid g;
    mt_status status = grid_of_picks(&g, self, call->scratch);
    if (status != MT_OK)
        return status;
    status = read_grid(&g, self, call->outs[0]);
    grid_fini(&g);
    return status;
}

static mt_status select_along(mt__call *call, int dim, const mt_tensor *index)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    grid g;
    mt_status status = grid_along(&g, self, dim, index, false);
    if (status != MT_OK)
        return status;
    status = read_grid(&g, self, call->outs[0]);
    grid_fini(&g);
    return status;
}

mt_status mt__cpu_index_select(mt__call *call)
{
    return select_along(call, mt__wrapped_dim(mt__arg_int(call, 1), mt__arg_tensor(call, 0)->rank),
                        mt__arg_tensor(call, 2));
}

mt_status mt__cpu_embedding(mt__call *call)
{
    return select_along(call, 0, mt__arg_tensor(call, 1));
}

/* ------------------------------------------------------------------------------------------ writing by grid */

/* step: of the values; 0 if one value is written everywhere. */
#define WRITE(sym, T, ...)                                                                                   \
    static void put_##sym(const grid *g, T *to, const T *from, int64_t step)                                 \
    {                                                                                                        \
        for (int64_t i = 0; i < g->outers; i++)                                                              \
            for (int64_t j = 0; j < g->picks; j++) {                                                         \
                T *row = to + g->outer[i] + g->pick[j];                                                      \
                for (int64_t k = 0; k < g->inners; k++, from += step)                                        \
                    row[g->inner[k]] = *from;                                                                \
            }                                                                                                \
    }                                                                                                        \
    static void add_##sym(const grid *g, T *to, const T *from, int64_t step)                                 \
    {                                                                                                        \
        for (int64_t i = 0; i < g->outers; i++)                                                              \
            for (int64_t j = 0; j < g->picks; j++) {                                                         \
                T *row = to + g->outer[i] + g->pick[j];                                                      \
                if (g->flat && step == 1) {                                                                  \
                    for (int64_t k = 0; k < g->inners; k++)                                                  \
                        row[k] = SUM_##sym(row[k], from[k]);                                                 \
                    from += g->inners;                                                                       \
                } else {                                                                                     \
                    for (int64_t k = 0; k < g->inners; k++, from += step)                                    \
                        row[g->inner[k]] = SUM_##sym(row[g->inner[k]], *from);                               \
                }                                                                                            \
            }                                                                                                \
    }
#define SUM_BOOL(a, b) ((a) || (b))
#define SUM_INT32(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define SUM_INT64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define SUM_FLOAT32(a, b) ((a) + (b))
#define SUM_FLOAT64(a, b) ((a) + (b))
#define SUM_UINT8(a, b) ((uint8_t)((a) + (b)))
#define SUM_INT8(a, b) ((int8_t)((a) + (b)))
#define SUM_INT16(a, b) ((int16_t)((a) + (b)))
#define SUM_FLOAT16(a, b) mt__float16_of_float(mt__float_of_float16(a) + mt__float_of_float16(b))
#define SUM_BFLOAT16(a, b) mt__bfloat16_of_float(mt__float_of_bfloat16(a) + mt__float_of_bfloat16(b))
#define PRODUCT_BOOL(a, b) ((a) && (b))
#define PRODUCT_INT32(a, b) ((int32_t)((uint32_t)(a) * (uint32_t)(b)))
#define PRODUCT_INT64(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define PRODUCT_FLOAT32(a, b) ((a) * (b))
#define PRODUCT_FLOAT64(a, b) ((a) * (b))
#define PRODUCT_UINT8(a, b) ((uint8_t)((a) * (b)))
#define PRODUCT_INT8(a, b) ((int8_t)((a) * (b)))
#define PRODUCT_INT16(a, b) ((int16_t)((a) * (b)))
#define PRODUCT_FLOAT16(a, b) mt__float16_of_float(mt__float_of_float16(a) * mt__float_of_float16(b))
#define PRODUCT_BFLOAT16(a, b) mt__bfloat16_of_float(mt__float_of_bfloat16(a) * mt__float_of_bfloat16(b))
MT_DTYPE_LIST(WRITE)

static void write_grid(const grid *g, const mt_tensor *to, const mt_tensor *from, int64_t step, bool adds)
{
    switch ((mt_dtype)to->dtype) {
#define X(sym, T, ...)                                                                                       \
    case MT_##sym:                                                                                           \
        (adds ? add_##sym : put_##sym)(g, to->data, from->data, step);                                       \
        break;
        MT_DTYPE_LIST(X)
#undef X
    default:
        break;
    }
}

/* values expanded to dims, contiguous; a single value stays as is. */
static mt_status spread(const mt_tensor *values, int rank, const int64_t *dims, mt_tensor **out)
{
    if (values->numel == 1) {
        *out = mt_retain((mt_tensor *)(uintptr_t)values);
        return MT_OK;
    }
    return mt__contiguous_as(values, rank, dims, out);
}

mt_status mt__cpu_index_put(mt__call *call)
{
    const mt__picks *p = call->scratch;
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_tensor *values;
    grid g;
    mt_status status = grid_of_picks(&g, self, p);
    if (status != MT_OK)
        return status;
    status = spread(mt__arg_tensor(call, 2), p->rank, p->dims, &values);
    if (status == MT_OK) {
        write_grid(&g, self, values, values->numel == 1 ? 0 : 1, mt__arg_int(call, 3) != 0);
        mt_release(values);
    }
    grid_fini(&g);
    return status;
}

mt_status mt__cpu_index_add(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_tensor *source;
    grid g;
    mt_status status = mt__scaled_source(call, &source);
    if (status != MT_OK)
        return status;
    status = grid_along(&g, self, mt__wrapped_dim(mt__arg_int(call, 1), self->rank), mt__arg_tensor(call, 2),
                        true);
    if (status == MT_OK) {
        write_grid(&g, self, source, 1, true);
        grid_fini(&g);
    }
    mt_release(source);
    return status;
}

/* ------------------------------------------------------------------------------- the derivative of embedding */

typedef struct embedded {
    const mt_tensor *grad, *index;
    mt_tensor *out;
    const int64_t *counts; /* per row of out, or NULL */
    int64_t padding;
} embedded;

/* Each part of the rows reads all indices, so that every sum has a fixed order. */
#define EMBED(sym, T, ...)                                                                                   \
    static void embed_##sym(const embedded *e, int64_t begin, int64_t end)                                   \
    {                                                                                                        \
        const T *grad = e->grad->data;                                                                       \
        T *out = e->out->data;                                                                               \
        int64_t width = e->out->dims[1];                                                                     \
        memset(out + begin * width, 0, (size_t)((end - begin) * width) * sizeof *out);                       \
        for (int64_t j = 0; j < e->index->numel; j++) {                                                      \
            int64_t i = index_at(e->index, j);                                                               \
            if (i < begin || i >= end || i == e->padding)                                                    \
                continue;                                                                                    \
            T scale = e->counts != NULL ? (T)1 / (T)e->counts[i] : (T)1;                                     \
            T *restrict to = out + i * width;                                                                \
            const T *restrict from = grad + j * width;                                                       \
            for (int64_t k = 0; k < width; k++)                                                              \
                to[k] += from[k] * scale;                                                                    \
        }                                                                                                    \
    }
MT__NUMBER_TYPES(EMBED)

static void embed_rows(int64_t begin, int64_t end, void *user)
{
    const embedded *e = user;
    switch ((mt_dtype)e->out->dtype) {
#define X(sym, T, ...)                                                                                       \
    case MT_##sym:                                                                                           \
        embed_##sym(e, begin, end);                                                                          \
        break;
        MT__NUMBER_TYPES(X)
#undef X
    default:
        break;
    }
}

static mt_status count_uses(const mt_tensor *index, int64_t rows, int64_t **out)
{
    int64_t *counts = calloc((size_t)rows + 1, sizeof *counts);
    *out = counts;
    if (counts == NULL)
        return no_memory();
    for (int64_t j = 0; j < index->numel; j++) {
        int64_t i = index_at(index, j);
        if (i >= 0 && i < rows)
            counts[i]++;
    }
    return MT_OK;
}

mt_status mt__cpu_embedding_dense_backward(mt__call *call)
{
    mt_tensor *grad, *index, *out = call->outs[0];
    int64_t *counts = NULL, rows = out->dims[0], width = out->dims[1];
    if (out->dtype == MT_BOOL)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "\"embedding_backward\" not implemented for 'Bool'");
    mt_status status = mt__contiguous(mt__arg_tensor(call, 0), &grad);
    if (status != MT_OK)
        return status;
    status = mt__contiguous(mt__arg_tensor(call, 1), &index);
    if (status == MT_OK && mt__arg_int(call, 4) != 0)
        status = count_uses(index, rows, &counts);
    if (status == MT_OK && out->numel > 0) {
        embedded e = {grad, index, out, counts, mt__arg_int(call, 3)};
        mt__parallel(rows, (MT__GRAIN + index->numel) / width + 1, embed_rows, &e);
    }
    free(counts);
    mt_release(index);
    mt_release(grad);
    return status;
}

/* ---------------------------------------------------------------------------------------- gather and scatter */

/* Rows along the last dim of the index. `at` are the strides of the indexed tensor, `beside` those of the
 * tensor with the index's shape. */
typedef struct rows {
    const mt_tensor *index; /* contiguous */
    int rank;
    int64_t dims[MT_MAX_RANK], at[MT_MAX_RANK], beside[MT_MAX_RANK]; /* at[dim] is 0 */
    int64_t pick_stride;
    int64_t length; /* of a row */
    int64_t size;   /* indices are less */
    _Atomic bool outside;
    const mt_tensor *big, *small;
    bool adds;
} rows;

/* Is one of n indices outside [0, size)? Then the sign bit of it or of its distance to the last is set. */
MT__CLONES static bool any_outside(const mt_tensor *index, int64_t begin, int64_t n, int64_t size)
{
    uint64_t bits = 0;
    const int32_t *narrow = (const int32_t *)index->data + begin;
    const int64_t *wide = (const int64_t *)index->data + begin;
    if (index->dtype == MT_INT32)
        for (int64_t j = 0; j < n; j++)
            bits |= (uint64_t)narrow[j] | ((uint64_t)size - 1 - (uint64_t)narrow[j]);
    else
        for (int64_t j = 0; j < n; j++)
            bits |= (uint64_t)wide[j] | ((uint64_t)size - 1 - (uint64_t)wide[j]);
    return bits >> 63 != 0;
}

static mt_status check_bounds(const mt_tensor *index, int64_t size, int dim)
{
    if (MT__LIKELY(!any_outside(index, 0, index->numel, size)))
        return MT_OK;
    for (int64_t j = 0; j < index->numel; j++) {
        int64_t i = index_at(index, j);
        if (MT__UNLIKELY(i < 0 || i >= size))
            return mt__fail(MT_E_RUNTIME, "index %lld is out of bounds for dimension %d with size %lld",
                            (long long)i, dim, (long long)size);
    }
    return MT_OK;
}

static void rows_init(rows *r, const mt_tensor *index, const mt_tensor *big, const mt_tensor *small, int dim)
{
    memset(r, 0, sizeof *r);
    r->index = index;
    r->big = big;
    r->small = small;
    r->rank = index->rank > 0 ? index->rank : 1;
    for (int i = 0; i < r->rank; i++) {
        r->dims[i] = index->rank > 0 ? index->dims[i] : 1;
        r->at[i] = i == dim || big->rank == 0 ? 0 : big->strides[i];
        r->beside[i] = small == NULL || small->rank == 0 ? 0 : small->strides[i];
    }
    r->pick_stride = big->rank > 0 ? big->strides[dim] : 0;
    r->size = big->rank > 0 ? big->dims[dim] : 1;
    r->length = r->dims[r->rank - 1];
}

static void row_begins(const rows *r, int64_t row, int64_t *at, int64_t *beside)
{
    *at = *beside = 0;
    for (int d = r->rank - 2; d >= 0; d--) {
        *at += row % r->dims[d] * r->at[d];
        *beside += row % r->dims[d] * r->beside[d];
        row /= r->dims[d];
    }
}

#define EACH_PLACE(T)                                                                                        \
    for (int64_t row = begin; row < end; row++) {                                                            \
        int64_t at, beside, last = r->rank - 1;                                                              \
        row_begins(r, row, &at, &beside);                                                                    \
        for (int64_t i = 0; i < r->length; i++) {                                                            \
            T *big = (T *)r->big->data + at + i * r->at[last] +                                              \
                     index_at(r->index, row * r->length + i) * r->pick_stride;                               \
            T *small = (T *)r->small->data + beside + i * r->beside[last];
#define END_PLACE                                                                                            \
    }                                                                                                        \
    }
#define ROWS(sym, T, ...)                                                                                    \
    static void gather_##sym(const rows *r, int64_t begin, int64_t end)                                      \
    {                                                                                                        \
        const int64_t n = r->length, step = r->at[r->rank - 1], pick = r->pick_stride;                       \
        if (r->index->dtype != MT_INT64 || r->beside[r->rank - 1] != 1) {                                    \
            EACH_PLACE(T) *small = *big;                                                                     \
            END_PLACE                                                                                        \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t row = begin; row < end; row++) {                                                        \
            int64_t at, beside;                                                                              \
            row_begins(r, row, &at, &beside);                                                                \
            const T *restrict from = (const T *)r->big->data + at;                                           \
            const int64_t *restrict index = (const int64_t *)r->index->data + row * n;                       \
            T *restrict to = (T *)r->small->data + beside;                                                   \
            if (step == 0 && pick == 1)                                                                      \
                _Pragma("GCC unroll 8") for (int64_t i = 0; i < n; i++) to[i] = from[index[i]];              \
            else                                                                                             \
                for (int64_t i = 0; i < n; i++)                                                              \
                    to[i] = from[i * step + index[i] * pick];                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void scatter_##sym(const rows *r, int64_t begin, int64_t end)                                     \
    {                                                                                                        \
        EACH_PLACE(T) *big = *small;                                                                         \
        END_PLACE                                                                                            \
    }                                                                                                        \
    static void scatter_add_##sym(const rows *r, int64_t begin, int64_t end)                                 \
    {                                                                                                        \
        EACH_PLACE(T) *big = SUM_##sym(*big, *small);                                                        \
        END_PLACE                                                                                            \
    }                                                                                                        \
    static void scatter_multiply_##sym(const rows *r, int64_t begin, int64_t end)                            \
    {                                                                                                        \
        EACH_PLACE(T) *big = PRODUCT_##sym(*big, *small);                                                    \
        END_PLACE                                                                                            \
    }
MT_DTYPE_LIST(ROWS)

typedef void rows_fn(const rows *r, int64_t begin, int64_t end);
#define X(sym, T, ...) [MT_##sym] = gather_##sym,
static rows_fn *const gathers[] = {MT_DTYPE_LIST(X)};
#undef X
#define X(sym, T, ...) [MT_##sym] = scatter_##sym,
static rows_fn *const scatters[] = {MT_DTYPE_LIST(X)};
#undef X
#define X(sym, T, ...) [MT_##sym] = scatter_add_##sym,
static rows_fn *const scatter_adds[] = {MT_DTYPE_LIST(X)};
#undef X

#define X(sym, T, ...) [MT_##sym] = scatter_multiply_##sym,
static rows_fn *const scatter_multiplies[] = {MT_DTYPE_LIST(X)};
#undef X

#define FEW 2048 /* indices: they are still in the cache when they are used */

/* Checks the indices on the way; where one is outside, nothing is read. */
static void gather_rows(int64_t begin, int64_t end, void *user)
{
    rows *r = user;
    int64_t few = r->length < FEW ? FEW / r->length : 1;
    for (int64_t row = begin; row < end; row += few) {
        int64_t last = end - row < few ? end : row + few;
        if (MT__LIKELY(!any_outside(r->index, row * r->length, (last - row) * r->length, r->size)))
            gathers[r->big->dtype](r, row, last);
        else
            atomic_store_explicit(&r->outside, true, memory_order_relaxed);
    }
}

mt_status mt__cpu_gather(mt__call *call)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    int dim = mt__wrapped_dim(mt__arg_int(call, 1), self->rank);
    mt_tensor *index;
    rows r;
    mt_status status = mt__contiguous(mt__arg_tensor(call, 2), &index);
    if (status != MT_OK)
        return status;
    if (index->numel > 0) {
        rows_init(&r, index, self, call->outs[0], dim);
        mt__parallel(index->numel / r.length, MT__GRAIN_OF(r.length), gather_rows, &r);
        if (MT__UNLIKELY(atomic_load_explicit(&r.outside, memory_order_relaxed)))
            status = check_bounds(index, r.size, dim);
    }
    mt_release(index);
    return status;
}

/* The checked index, contiguous and owned. */
static mt_status ready_index(const mt__call *call, int dim, mt_tensor **out)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_status status = mt__contiguous(mt__arg_tensor(call, 2), out);
    if (status != MT_OK)
        return status;
    status = check_bounds(*out, self->rank > 0 ? self->dims[dim] : 1, dim);
    if (status != MT_OK)
        mt_release(*out);
    return status;
}

static mt_status run_scatter(mt__call *call, rows_fn *const *functions)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_tensor *out = call->outs[0], *index, one = *out;
    int dim = mt__wrapped_dim(mt__arg_int(call, 1), self->rank);
    mt__scalar number;
    rows r;
    mt_status status = ready_index(call, dim, &index);
    if (status != MT_OK)
        return status;
    if (!call->op->in_place)
        mt__plan_copy(out, self);
    const mt_tensor *src = mt__arg_tensor(call, 3);
    if (src == NULL) { /* a number: as a 0-dim tensor */
        number = mt__scalar_of((mt_dtype)out->dtype, &call->args[3]);
        one.rank = 0;
        one.data = &number;
        src = &one;
    }
    if (index->numel > 0) {
        rows_init(&r, index, out, src, dim);
        functions[out->dtype](&r, 0, index->numel / r.length);
    }
    mt_release(index);
    return MT_OK;
}

mt_status mt__cpu_scatter(mt__call *call)
{
    return run_scatter(call, scatters);
}

mt_status mt__cpu_scatter_add(mt__call *call)
{
    return run_scatter(call, scatter_adds);
}

mt_status mt__cpu_scatter_reduce(mt__call *call)
{
    return run_scatter(call, call->args[4].as.text[0] == 'a' ? scatter_adds : scatter_multiplies);
}

/* --------------------------------------------------------------------------------------------------- nonzero */

#define NONZERO(sym, T, ...)                                                                                 \
    static int64_t count_##sym(const T *restrict x, int64_t n)                                               \
    {                                                                                                        \
        int64_t count = 0;                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                      \
            count += MT__FROM_##sym(x[i]) != 0;                                                              \
        return count;                                                                                        \
    }                                                                                                        \
    /* Writes each index where the next found one goes, found or not: branches would be mispredicted. */     \
    static void list_##sym(const mt_tensor *t, int64_t total, int64_t *out)                                  \
    {                                                                                                        \
        const T *x = t->data;                                                                                \
        const int64_t rank = t->rank, width = rank > 0 ? t->dims[rank - 1] : 1;                              \
        int64_t lead[MT_MAX_RANK] = {0}, found = 0;                                                          \
        for (int64_t begin = 0; rank > 0 && found < total; begin += width) {                                 \
            int64_t first = found;                                                                           \
            for (int64_t i = 0; i < width && found < total; i++) {                                           \
                out[found * rank + rank - 1] = i;                                                            \
                found += MT__FROM_##sym(x[begin + i]) != 0;                                                  \
            }                                                                                                \
            for (int64_t f = first; f < found && rank > 1; f++)                                              \
                memcpy(out + f * rank, lead, (size_t)(rank - 1) * sizeof *out);                              \
            for (int64_t d = rank - 2; d >= 0 && ++lead[d] == t->dims[d]; d--)                               \
                lead[d] = 0;                                                                                 \
        }                                                                                                    \
    }
MT_DTYPE_LIST(NONZERO)

mt_status mt__cpu_nonzero(mt__call *call)
{
    mt_tensor *t;
    mt_status status = mt__contiguous(mt__arg_tensor(call, 0), &t);
    if (status != MT_OK)
        return status;
    int64_t dims[] = {0, t->rank};
    switch ((mt_dtype)t->dtype) {
#define X(sym, T, ...)                                                                                       \
    case MT_##sym:                                                                                           \
        dims[0] = count_##sym(t->data, t->numel);                                                            \
        status = mt__empty(MT_INT64, t->device, 2, dims, &call->outs[0]);                                    \
        if (status == MT_OK)                                                                                 \
            list_##sym(t, dims[0], call->outs[0]->data);                                                     \
        break;
        MT_DTYPE_LIST(X)
#undef X
    default:
        break;
    }
    mt_release(t);
    return status;
}
