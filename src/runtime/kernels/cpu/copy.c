/* kernels/cpu/copy.c - copies and casts. A float becomes a bool by comparison with zero, an
 * integer by truncation. */
#include "runtime/device/device.h"
#include "runtime/kernels/cpu/iterate.h"

#define CASTS_TO(TO, to_type)                                                                                \
    MT__LOOP1(, cast_##TO##_BOOL, bool, to_type, MT__NO_SETUP, x)                                            \
    MT__LOOP1(, cast_##TO##_INT32, int32_t, to_type, MT__NO_SETUP, x)                                        \
    MT__LOOP1(, cast_##TO##_INT64, int64_t, to_type, MT__NO_SETUP, x)                                        \
    MT__LOOP1(, cast_##TO##_FLOAT32, float, to_type, MT__NO_SETUP, x)                                        \
    MT__LOOP1(, cast_##TO##_FLOAT64, double, to_type, MT__NO_SETUP, x)
MT__ALL_TYPES(CASTS_TO)

mt__loop *mt__cast_loop(mt_dtype to, mt_dtype from)
{
#define ROW(TO, type)                                                                                        \
    [MT_##TO] = {cast_##TO##_BOOL, cast_##TO##_INT32, cast_##TO##_INT64, cast_##TO##_FLOAT32,                \
                 cast_##TO##_FLOAT64},
    static mt__loop *const loops[MT_DTYPES][MT_DTYPES] = {MT__ALL_TYPES(ROW)};
    return loops[to][from];
}

void mt__plan_copy(const mt_tensor *to, const mt_tensor *from)
{
    mt__plan p;
    mt__plan_begin(&p, to, (mt_dtype)to->dtype);
    mt__plan_add_tensor(&p, from, (mt_dtype)from->dtype);
    mt__plan_run(&p, mt__cast_loop((mt_dtype)to->dtype, (mt_dtype)p.wants[1]), NULL);
}

/* --------------------------------------------------------------------------------------------- transposed copies */

#define TILE 16 /* elements: a tile of both sides fits into the L1 cache */

/* A transposed copy. Tile by tile, so that each cache line is fetched once. */
typedef struct turned {
    char *to;
    const char *from;
    int64_t rows, columns, row_step, column_step; /* steps in bytes: output rows, input columns */
} turned;

#define TURN(T)                                                                                              \
    static void turn_##T(int64_t begin, int64_t end, void *user)                                             \
    {                                                                                                        \
        const turned *t = user;                                                                              \
        int64_t last = end * TILE < t->rows ? end * TILE : t->rows;                                          \
        for (int64_t r0 = begin * TILE; r0 < last; r0 += TILE)                                               \
            for (int64_t c0 = 0; c0 < t->columns; c0 += TILE) {                                              \
                int64_t r1 = r0 + TILE < last ? r0 + TILE : last,                                            \
                        c1 = c0 + TILE < t->columns ? c0 + TILE : t->columns;                                \
                for (int64_t r = r0; r < r1; r++) {                                                          \
                    T *to = (T *)(void *)(t->to + r * t->row_step);                                          \
                    for (int64_t c = c0; c < c1; c++)                                                        \
                        to[c] = ((const T *)(const void *)(t->from + c * t->column_step))[r];                \
                }                                                                                            \
            }                                                                                                \
    }
TURN(uint32_t)
TURN(uint64_t)

/* Transposes the last two dims, looping over the others. False: not such a copy. */
static bool copy_turned(const mt_tensor *to, const mt_tensor *from)
{
    int n = to->rank;
    int64_t size = (int64_t)mt__size_of(to);
    if (n < 2 || to->dtype != from->dtype || size < 4 || from->rank != n || !(to->flags & MT__CONTIGUOUS) ||
        from->strides[n - 2] != 1 || from->strides[n - 1] < TILE || to->dims[n - 1] < TILE ||
        to->dims[n - 2] < TILE || memcmp(to->dims, from->dims, (size_t)n * sizeof *to->dims) != 0)
        return false;
    turned t = {
        NULL, NULL, to->dims[n - 2], to->dims[n - 1], to->strides[n - 2] * size, from->strides[n - 1] * size};
    int64_t inner = t.rows * t.columns, tiles = (t.rows + TILE - 1) / TILE;
    for (int64_t at = 0; at < to->numel; at += inner) {
        int64_t rest = at / inner, offset = 0;
        for (int d = n - 3; d >= 0; d--) {
            offset += rest % to->dims[d] * from->strides[d];
            rest /= to->dims[d];
        }
        t.to = (char *)to->data + at * size;
        t.from = (const char *)from->data + offset * size;
        int64_t grain = MT__GRAIN / (TILE * t.columns) + 1;
        if (inner > MT__GRAIN)
            mt__parallel(tiles, grain, size == 4 ? turn_uint32_t : turn_uint64_t, &t);
        else
            (size == 4 ? turn_uint32_t : turn_uint64_t)(0, tiles, &t);
    }
    return true;
}

static void copy(mt_tensor *to, const mt_tensor *from)
{
    if (to->numel == 0 || (to->data == from->data && to->dtype == from->dtype &&
                           memcmp(to->strides, from->strides, to->rank * 8u) == 0))
        return;
    if (to->dtype == from->dtype && to->numel == from->numel && (to->flags & from->flags & MT__CONTIGUOUS) &&
        to->numel <= MT__GRAIN) {
        memcpy(to->data, from->data, (size_t)to->numel * mt__size_of(to));
        return;
    }
    if (!copy_turned(to, from))
        mt__plan_copy(to, from);
}

/* One of the two may be on another device. */
static mt_status copy_from(mt__call *call, const mt_tensor *from, bool lazily)
{
    mt_tensor *to = call->outs[0];
    if (MT__UNLIKELY(MT_DEVICE_TYPE(to->device | from->device) != 0))
        return mt__device_copy(to, from, lazily);
    copy(to, from);
    return MT_OK;
}

mt_status mt__cpu_clone(mt__call *call)
{
    return copy_from(call, call->args[0].as.tensor, false);
}

mt_status mt__cpu_to_copy(mt__call *call)
{
    return copy_from(call, call->args[0].as.tensor, call->args[3].as.i != 0);
}

mt_status mt__cpu_copy(mt__call *call)
{
    return copy_from(call, call->args[1].as.tensor, call->args[2].as.i != 0);
}
