/* kernels/cpu/copy.c - copies and casts. A float becomes a bool by comparison with zero, an
 * integer by truncation. */
#include "runtime/device/device.h"
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/narrow.h"

/* One element to many places. */
#define SPREAD(sym, T, ...)                                                                                  \
    static void spread_##sym(char *const *p, const int64_t *step, int64_t n, const void *user)               \
    {                                                                                                        \
        const T x = *(const T *)(const void *)p[1];                                                          \
        (void)user;                                                                                          \
        if (step[0] == sizeof(T))                                                                            \
            for (int64_t i = 0; i < n; i++)                                                                  \
                ((T *)(void *)p[0])[i] = x;                                                                  \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                  \
                *(T *)(void *)(p[0] + i * step[0]) = x;                                                      \
    }
MT_DTYPE_LIST(SPREAD)

/* A loop for each pair of dtypes. A list cannot be expanded within itself, so PAIRS names the dtypes again. */
#define FROM(TO, to_type, FROM_SYM, type, attributes)                                                        \
    MT__LOOP1(attributes, cast_##TO##_##FROM_SYM, type, to_type, MT__NO_SETUP,                               \
              MT__TO_##TO(MT__FROM_##FROM_SYM(x)))
#define PAIRS(X, TO, to_type)                                                                                \
    X(TO, to_type, BOOL, uint8_t, )                                                                          \
    X(TO, to_type, INT32, int32_t, )                                                                         \
    X(TO, to_type, INT64, int64_t, )                                                                         \
    X(TO, to_type, FLOAT32, float, HALVES_##TO)                                                              \
    X(TO, to_type, FLOAT64, double, )                                                                        \
    X(TO, to_type, UINT8, uint8_t, )                                                                         \
    X(TO, to_type, INT8, int8_t, )                                                                           \
    X(TO, to_type, INT16, int16_t, )                                                                         \
    X(TO, to_type, FLOAT16, uint16_t, FLOATS_##TO) X(TO, to_type, BFLOAT16, uint16_t, FLOATS_##TO)
/* What every op on halves does twice is compiled for several instruction sets. */
#define HALVES_BOOL
#define HALVES_UINT8
#define HALVES_INT8
#define HALVES_INT16
#define HALVES_INT32
#define HALVES_INT64
#define HALVES_FLOAT16 MT__CLONES
#define HALVES_BFLOAT16 MT__CLONES
#define HALVES_FLOAT32
#define HALVES_FLOAT64
#define FLOATS_BOOL
#define FLOATS_UINT8
#define FLOATS_INT8
#define FLOATS_INT16
#define FLOATS_INT32
#define FLOATS_INT64
#define FLOATS_FLOAT16
#define FLOATS_BFLOAT16
#define FLOATS_FLOAT32 MT__CLONES
#define FLOATS_FLOAT64
#define CASTS_TO(TO, to_type, ...) PAIRS(FROM, TO, to_type)
MT_DTYPE_LIST(CASTS_TO)

mt__loop *mt__cast_loop(mt_dtype to, mt_dtype from)
{
#define ENTRY(TO, to_type, FROM_SYM, type, attributes) [MT_##FROM_SYM] = cast_##TO##_##FROM_SYM,
#define ROW(TO, to_type, ...) [MT_##TO] = {PAIRS(ENTRY, TO, to_type)},
    static mt__loop *const loops[MT_DTYPES][MT_DTYPES] = {MT_DTYPE_LIST(ROW)};
    return loops[to][from];
}

/* --------------------------------------------------------------------------------------------- copies of rows */

/* Two tensors of one shape: n dims, the outermost first, merged where both allow. */
typedef struct lines {
    char *to;
    const char *from;
    size_t size; /* of an element, or of a row of them, in bytes */
    int n;
    int64_t dims[MT_MAX_RANK][3]; /* size, steps in bytes: of `to`, of `from` */
} lines;

static void append(lines *l, int64_t dim, int64_t to, int64_t from)
{
    int64_t *last = l->n > 0 ? l->dims[l->n - 1] : NULL;
    if (last != NULL && last[1] == to * dim && last[2] == from * dim)
        dim *= last[0];
    else
        last = l->dims[l->n++];
    last[0] = dim;
    last[1] = to;
    last[2] = from;
}

/* Moves both to the index over the first n dims. */
static void find_line(const lines *l, int n, int64_t index, char **to, const char **from)
{
    for (int d = n - 1; d >= 0; d--) {
        *to += index % l->dims[d][0] * l->dims[d][1];
        *from += index % l->dims[d][0] * l->dims[d][2];
        index /= l->dims[d][0];
    }
}

#define FIXED(bytes)                                                                                         \
    case bytes:                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                      \
            memcpy(to + i * to_step, from + i * from_step, bytes);                                           \
        break;

static void copy_block(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, size_t size)
{
    switch (size) { /* short ones without a call */
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
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * to_step, from + i * from_step, size);
    }
}

static void copy_blocks(int64_t begin, int64_t end, void *user)
{
    const lines *l = user;
    const int64_t *rows = l->dims[l->n - 1];
    for (int64_t at = begin, n; at < end; at += n) { /* n along the inner dim */
        int64_t first = at % rows[0];
        char *to = l->to + first * rows[1];
        const char *from = l->from + first * rows[2];
        find_line(l, l->n - 1, at / rows[0], &to, &from);
        n = rows[0] - first < end - at ? rows[0] - first : end - at;
        copy_block(to, rows[1], from, rows[2], n, l->size);
    }
}

/* One run. */
static void copy_run(int64_t begin, int64_t end, void *user)
{
    const lines *l = user;
    memcpy(l->to + (size_t)begin * l->size, l->from + (size_t)begin * l->size,
           (size_t)(end - begin) * l->size);
}

/* False: the inner elements are not dense on both sides. */
static bool copy_rows(lines *l, int64_t numel)
{
    const int64_t *inner = l->dims[l->n - 1], item = (int64_t)l->size;
    if (inner[1] != item || inner[2] != item || (l->n > 2 && l->dims[l->n - 2][0] < 8))
        return false;
    if (l->n == 1) {
        mt__parallel(numel, MT__GRAIN, copy_run, l);
    } else {
        l->n--;
        l->size = (size_t)(inner[0] * item);
        mt__parallel(numel / inner[0], MT__GRAIN_OF(inner[0]), copy_blocks, l);
    }
    return true;
}

/* --------------------------------------------------------------------------------------------- transposed copies */

#define TILE MT__TURN_ROWS

/* One whole tile, in squares of 4 x 4. */
typedef uint32_t four __attribute__((vector_size(16)));
#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (four){__VA_ARGS__})
#endif
static inline void turn_square(const char *from, int64_t from_step, char *to, int64_t to_step)
{
    four a, b, c, d;
    memcpy(&a, from, sizeof a);
    memcpy(&b, from + from_step, sizeof b);
    memcpy(&c, from + 2 * from_step, sizeof c);
    memcpy(&d, from + 3 * from_step, sizeof d);
    four ab = PICK(a, b, 0, 4, 1, 5), cd = PICK(c, d, 0, 4, 1, 5);
    four ef = PICK(a, b, 2, 6, 3, 7), gh = PICK(c, d, 2, 6, 3, 7);
    a = PICK(ab, cd, 0, 1, 4, 5);
    b = PICK(ab, cd, 2, 3, 6, 7);
    c = PICK(ef, gh, 0, 1, 4, 5);
    d = PICK(ef, gh, 2, 3, 6, 7);
    memcpy(to, &a, sizeof a);
    memcpy(to + to_step, &b, sizeof b);
    memcpy(to + 2 * to_step, &c, sizeof c);
    memcpy(to + 3 * to_step, &d, sizeof d);
}

/* A tile, by way of a copy: where rows are a power of two apart, their lines would evict each other from the cache
 * before they are used up. */
static void turn_whole_uint32_t(const char *from, int64_t from_step, char *to, int64_t to_step)
{
    _Alignas(64) uint32_t tile[TILE][TILE];
    for (int c = 0; c < TILE; c++)
        memcpy(tile[c], from + c * from_step, sizeof tile[c]);
    for (int i = 0; i < TILE; i++) { /* the next one */
        __builtin_prefetch(from + (TILE + i) * from_step);
        __builtin_prefetch(to + i * to_step + sizeof tile[0], 1);
    }
    for (int r = 0; r < TILE; r += 4)
        for (int c = 0; c < TILE; c += 4)
            turn_square((const char *)&tile[c][r], sizeof tile[c], to + r * to_step + c * 4, to_step);
}

static void turn_whole_uint64_t(const char *from, int64_t from_step, char *to, int64_t to_step)
{
    _Alignas(64) uint64_t tile[TILE][TILE];
    for (int c = 0; c < TILE; c++)
        memcpy(tile[c], from + c * from_step, sizeof tile[c]);
    for (int r = 0; r < TILE; r++)
        for (int c = 0; c < TILE; c++)
            memcpy(to + r * to_step + c * 8, &tile[c][r], 8);
}

#define TURN(T)                                                                                              \
    static void turn_##T(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows,       \
                         int64_t columns)                                                                    \
    {                                                                                                        \
        for (int64_t c0 = 0; c0 < columns; c0 += TILE) {                                                     \
            int64_t n = columns - c0 < TILE ? columns - c0 : TILE;                                           \
            const char *x = from + c0 * from_step;                                                           \
            char *y = to + c0 * (int64_t)sizeof(T);                                                          \
            if (rows == TILE && n == TILE) {                                                                 \
                turn_whole_##T(x, from_step, y, to_step);                                                    \
                continue;                                                                                    \
            }                                                                                                \
            for (int64_t r = 0; r < rows; r++)                                                               \
                for (int64_t c = 0; c < n; c++)                                                              \
                    ((T *)(void *)(y + r * to_step))[c] = ((const T *)(const void *)(x + c * from_step))[r]; \
        }                                                                                                    \
    }
TURN(uint32_t)
TURN(uint64_t)

void mt__turn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t columns,
              size_t size)
{
    (size == 4 ? turn_uint32_t : turn_uint64_t)(to, to_step, from, from_step, rows, columns);
}

/* The inner two dims, in strips of TILE rows of the output. */
static void turn_strips(int64_t begin, int64_t end, void *user)
{
    const lines *l = user;
    const int64_t *along = l->dims[l->n - 1];
    int64_t rows = l->dims[l->n - 2][0], strips = (rows + TILE - 1) / TILE;
    for (int64_t at = begin; at < end; at++) {
        int64_t row = at % strips * TILE, left = rows - row < TILE ? rows - row : TILE;
        char *to = l->to + row * l->dims[l->n - 2][1];
        const char *from = l->from + row * l->dims[l->n - 2][2];
        find_line(l, l->n - 2, at / strips, &to, &from);
        mt__turn(to, l->dims[l->n - 2][1], from, along[2], left, along[0], l->size);
    }
}

/* False: not transposed. */
static bool copy_turned(lines *l)
{
    if (l->n < 2)
        return false;
    const int64_t *rows = l->dims[l->n - 2], *along = l->dims[l->n - 1], item = (int64_t)l->size;
    if (item < 4 || along[1] != item || rows[2] != item || along[2] < TILE * item || rows[0] < TILE ||
        along[0] < TILE)
        return false;
    int64_t matrices = 1;
    for (int d = 0; d < l->n - 2; d++)
        matrices *= l->dims[d][0];
    mt__parallel(matrices * ((rows[0] + TILE - 1) / TILE), MT__GRAIN_OF(TILE * along[0]), turn_strips, l);
    return true;
}

/* Copies of equal shapes that need no loop per element. */
static bool copy_lines(const mt_tensor *to, const mt_tensor *from)
{
    int64_t item = (int64_t)mt__size_of(to);
    lines l = {.to = to->data, .from = from->data, .size = (size_t)item};
    if (to->dtype != from->dtype || to->rank != from->rank || to->numel != from->numel)
        return false;
    for (int i = 0; i < to->rank; i++)
        if (to->dims[i] != 1)
            append(&l, to->dims[i], to->strides[i] * item, from->strides[i] * item);
    return l.n > 0 && (copy_rows(&l, to->numel) || copy_turned(&l));
}

void mt__plan_copy(const mt_tensor *to, const mt_tensor *from)
{
    if (to->numel == 0 || copy_lines(to, from))
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
