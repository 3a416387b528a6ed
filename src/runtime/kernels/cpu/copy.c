/* kernels/cpu/copy.c - copies and casts. A float becomes a bool by comparison with zero, an
 * integer by truncation. */
#include "runtime/device/device.h"
#include "runtime/kernels/cpu/iterate.h"

/* One element, cast, to many places. */
#define SPREAD(sym, T, ...)                                                                                  \
    static void spread_##sym(char *const *p, const int64_t *step, int64_t n, const void *user)               \
    {                                                                                                        \
        T *to = (T *)(void *)p[0];                                                                           \
        const T x = *(const T *)(const void *)p[1];                                                          \
        (void)user;                                                                                          \
        for (int64_t i = 0; i < n && step[0] == sizeof(T); i++)                                              \
            to[i] = x;                                                                                       \
        for (int64_t i = 0; i < n && step[0] != sizeof(T); i++)                                              \
            *(T *)(void *)(p[0] + i * step[0]) = x;                                                          \
    }
MT_DTYPE_LIST(SPREAD)

/* A loop for each pair of dtypes. A list cannot be expanded within itself, so PAIRS names the dtypes again. */
#define FROM(TO, to_type, FROM_SYM, type) MT__LOOP1(, cast_##TO##_##FROM_SYM, type, to_type, MT__NO_SETUP, x)
#define PAIRS(X, TO, to_type)                                                                                \
    X(TO, to_type, BOOL, bool)                                                                               \
    X(TO, to_type, INT32, int32_t)                                                                           \
    X(TO, to_type, INT64, int64_t) X(TO, to_type, FLOAT32, float) X(TO, to_type, FLOAT64, double)
#define CASTS_TO(TO, to_type, ...) PAIRS(FROM, TO, to_type)
MT_DTYPE_LIST(CASTS_TO)

mt__loop *mt__cast_loop(mt_dtype to, mt_dtype from)
{
#define ENTRY(TO, to_type, FROM_SYM, type) [MT_##FROM_SYM] = cast_##TO##_##FROM_SYM,
#define ROW(TO, to_type, ...) [MT_##TO] = {PAIRS(ENTRY, TO, to_type)},
    static mt__loop *const loops[MT_DTYPES][MT_DTYPES] = {MT_DTYPE_LIST(ROW)};
    return loops[to][from];
}

/* --------------------------------------------------------------------------------------------- copies of rows */

/* Rows of dense elements, `size` bytes each. */
typedef struct lines {
    char *to;
    const char *from;
    int64_t to_step, from_step;
    size_t size;
} lines;

#define FIXED(bytes)                                                                                         \
    case bytes:                                                                                              \
        for (int64_t i = begin; i < end; i++)                                                                \
            memcpy(c->to + i * c->to_step, c->from + i * c->from_step, bytes);                               \
        break;

static void copy_lines(int64_t begin, int64_t end, void *user)
{
    const lines *c = user;
    switch (c->size) { /* short ones without a call */
        FIXED(4)
        FIXED(8)
        FIXED(12)
        FIXED(16)
        FIXED(24)
        FIXED(32)
        FIXED(64)
        FIXED(128)
        FIXED(256)
    default:
        for (int64_t i = begin; i < end; i++)
            memcpy(c->to + i * c->to_step, c->from + i * c->from_step, c->size);
    }
}

/* Appends a dim, merged with the previous one if both sides step over it exactly. Dims are in bytes. */
static int append(int n, int64_t (*dims)[3], int64_t dim, int64_t to, int64_t from)
{
    if (n > 0 && dims[n - 1][1] == to * dim && dims[n - 1][2] == from * dim) {
        dims[n - 1][0] *= dim;
        dims[n - 1][1] = to;
        dims[n - 1][2] = from;
        return n;
    }
    dims[n][0] = dim;
    dims[n][1] = to;
    dims[n][2] = from;
    return n + 1;
}

/* Copies equal shapes whose inner elements are dense on both sides. False: not such a copy. */
static bool copy_rows(const mt_tensor *to, const mt_tensor *from)
{
    int64_t dims[MT_MAX_RANK][3], item = (int64_t)mt__size_of(to);
    int n = 0;
    if (to->dtype != from->dtype || to->rank != from->rank || to->numel != from->numel)
        return false;
    for (int i = 0; i < to->rank; i++)
        if (to->dims[i] != 1)
            n = append(n, dims, to->dims[i], to->strides[i] * item, from->strides[i] * item);
    if (n == 0 || dims[n - 1][1] != item || dims[n - 1][2] != item)
        return false;
    if (n == 1) { /* one run, in lines of a fixed size and a rest */
        int64_t line = MT__GRAIN * item, whole = to->numel / MT__GRAIN;
        lines c = {to->data, from->data, line, line, (size_t)line};
        mt__parallel(whole, 1, copy_lines, &c);
        memcpy(c.to + whole * line, c.from + whole * line, (size_t)(to->numel * item - whole * line));
        return true;
    }
    lines c = {
        .to_step = dims[n - 2][1], .from_step = dims[n - 2][2], .size = (size_t)(dims[n - 1][0] * item)};
    int64_t rows = dims[n - 2][0], per_block = rows * dims[n - 1][0], blocks = to->numel / per_block;
    if (n > 2 && rows < 8)
        return false;
    for (int64_t block = 0; block < blocks; block++) {
        int64_t rest = block;
        c.to = to->data;
        c.from = from->data;
        for (int d = n - 3; d >= 0; d--) {
            c.to += rest % dims[d][0] * dims[d][1];
            c.from += rest % dims[d][0] * dims[d][2];
            rest /= dims[d][0];
        }
        if (per_block > MT__GRAIN)
            mt__parallel(rows, MT__GRAIN / dims[n - 1][0] + 1, copy_lines, &c);
        else
            copy_lines(0, rows, &c);
    }
    return true;
}

void mt__plan_copy(const mt_tensor *to, const mt_tensor *from)
{
    if (to->numel == 0 || copy_rows(to, from))
        return;
    mt__plan p;
    mt__plan_begin(&p, to, (mt_dtype)to->dtype);
    mt__plan_add_tensor(&p, from, (mt_dtype)from->dtype);
    bool even = p.wants[1] == to->dtype;
    for (int i = 0; i < p.rank; i++)
        even &= p.steps[1][i] == 0;
#define X(sym, ...) [MT_##sym] = spread_##sym,
    static mt__loop *const spreads[MT_DTYPES] = {MT_DTYPE_LIST(X)};
#undef X
    mt__plan_run(&p, even ? spreads[to->dtype] : mt__cast_loop((mt_dtype)to->dtype, (mt_dtype)p.wants[1]),
                 NULL);
}

/* --------------------------------------------------------------------------------------------- transposed copies */

#define TILE 16 /* elements: a tile of both sides fits into the L1 cache */

/* A transposed copy. Tile by tile, so that each cache line is fetched once. */
typedef struct turned {
    char *to;
    const char *from;
    int64_t rows, columns, row_step, column_step; /* steps in bytes: output rows, input columns */
} turned;

/* One whole tile, in squares of 4 x 4. */
typedef uint32_t four __attribute__((vector_size(16)));
#if defined(__clang__) || __GNUC__ >= 12
#define mixed(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define mixed(a, b, i, j, k, l) __builtin_shuffle(a, b, (four){i, j, k, l})
#endif
static inline void turn_square(const char *from, int64_t from_step, char *to, int64_t to_step)
{
    four a, b, c, d;
    memcpy(&a, from, sizeof a);
    memcpy(&b, from + from_step, sizeof b);
    memcpy(&c, from + 2 * from_step, sizeof c);
    memcpy(&d, from + 3 * from_step, sizeof d);
    four ab = mixed(a, b, 0, 4, 1, 5), cd = mixed(c, d, 0, 4, 1, 5);
    four ef = mixed(a, b, 2, 6, 3, 7), gh = mixed(c, d, 2, 6, 3, 7);
    a = mixed(ab, cd, 0, 1, 4, 5);
    b = mixed(ab, cd, 2, 3, 6, 7);
    c = mixed(ef, gh, 0, 1, 4, 5);
    d = mixed(ef, gh, 2, 3, 6, 7);
    memcpy(to, &a, sizeof a);
    memcpy(to + to_step, &b, sizeof b);
    memcpy(to + 2 * to_step, &c, sizeof c);
    memcpy(to + 3 * to_step, &d, sizeof d);
}

static bool turn_tile(const turned *t, int64_t r0, int64_t r1, int64_t c0, int64_t c1)
{
    if (r1 - r0 != TILE || (c1 - c0) % 4 != 0)
        return false;
    for (int64_t c = c0; c < c1; c += 4)
        for (int64_t r = r0; r < r0 + TILE; r += 4)
            turn_square(t->from + c * t->column_step + r * 4, t->column_step, t->to + r * t->row_step + c * 4,
                        t->row_step);
    return true;
}

#define TURN(T)                                                                                              \
    static void turn_##T(int64_t begin, int64_t end, void *user)                                             \
    {                                                                                                        \
        const turned *t = user;                                                                              \
        int64_t last = end * TILE < t->rows ? end * TILE : t->rows;                                          \
        for (int64_t r0 = begin * TILE; r0 < last; r0 += TILE)                                               \
            for (int64_t c0 = 0; c0 < t->columns; c0 += TILE) {                                              \
                int64_t r1 = r0 + TILE < last ? r0 + TILE : last,                                            \
                        c1 = c0 + TILE < t->columns ? c0 + TILE : t->columns;                                \
                if (sizeof(T) == 4 && turn_tile(t, r0, r1, c0, c1))                                          \
                    continue;                                                                                \
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
