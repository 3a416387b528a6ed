/* runtime/kernels/cpu/pools.c - pooling, plane by plane; planes are distributed over the thread pool. Tensors
 * are first made contiguous. In backward each plane is written by one thread only, so there are no races.
 */
#include "runtime/kernels/cpu/sums.h"
#include "runtime/ops/pool.h"
#include <math.h>

typedef struct job {
    mt__pool p;
    const void *input; /* or the gradient of the output */
    void *output;
    int64_t *indices;
    int64_t divisor; /* 0: none */
    bool count_pad;
} job;

#define GRAIN(p) (1 + 32768 / (1 + (p)->out[0] * (p)->out[1] * (p)->kernel[0] * (p)->kernel[1]))

/* The part [*begin, *end) of a window that lies in the input; returns its size with padding. */
static inline int64_t window(const mt__pool *p, int d, int64_t o, int64_t *begin, int64_t *end)
{
    int64_t from = o * p->stride[d] - p->padding[d], to = from + p->kernel[d];
    int64_t most = p->in[d] + p->padding[d];
    to = to < most ? to : most;
    *begin = from > 0 ? from : 0;
    *end = to < p->in[d] ? to : p->in[d];
    return to - from;
}

/* The same for an adaptive pool. */
static inline int64_t adapted(const mt__pool *p, int d, int64_t o, int64_t *begin, int64_t *end)
{
    *begin = o * p->in[d] / p->out[d];
    *end = 1 + ((o + 1) * p->in[d] - 1) / p->out[d];
    return *end - *begin;
}

/* The divisor of one output element of an average pool, from the size of its window with and without padding. */
static inline int64_t divisor_of(const job *j, int64_t whole, int64_t inside)
{
    return j->divisor != 0 ? j->divisor : j->count_pad ? whole : inside;
}

/* Outputs are computed in blocks of LANES of a row, whose loops vectorise. Where a block needs inputs beyond the edges, it
 * works on a copy of its part of the row, the segment, with `outside` for them. A block at the end of a row reads and
 * writes beyond it: what it writes belongs to the next row, which is computed later, unless it is the last one of the
 * part. */
#define LANES 16
#define SEGMENT 256        /* elements */
#define ROOM (SEGMENT + 1) /* a pair more, see first_of_pair */
#define FIRST_IS_LOW (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
/* Not unrolled before it is vectorised. */
#define EACH_LANE _Pragma("GCC unroll 1") for (int l = 0; l < LANES; l++)

typedef struct block {
    int64_t stride, dilation;
    int64_t n;    /* elements of a segment; 0: too many, they are copied tap by tap */
    int64_t read; /* what is read of a row */
    int64_t from; /* the column of the first tap */
    bool inside;  /* all taps of all outputs are */
    bool pairs;   /* of a tap's inputs, the first of each pair is used */
} block;

static inline block block_of(const mt__pool *p, int64_t dilation)
{
    block b = {.stride = p->stride[1], .dilation = dilation};
    int64_t last = (p->kernel[1] - 1) * dilation, n = (LANES - 1) * b.stride + last + 1;
    b.n = n <= SEGMENT ? n : 0;
    b.read = n + 1;
    b.pairs = b.n > 0 && b.stride == 2;
    return b;
}

static inline void block_at(block *b, const mt__pool *p, int64_t x)
{
    int64_t left = p->out[1] - x < LANES ? p->out[1] - x : LANES;
    b->from = x * b->stride - p->padding[1];
    b->inside =
        b->from >= 0 && b->from + (left - 1) * b->stride + (p->kernel[1] - 1) * b->dilation < p->in[1];
}

/* How many outputs of a block are written: `room` is what is left of the part, `left` of the row. */
static inline size_t written(int64_t room, int64_t left)
{
    return (size_t)(room >= LANES || left >= LANES ? LANES : left);
}

#define BLOCKS(type, suffix)                                                                                 \
    MT__INLINE void fetch_##suffix(type *restrict to, const type *restrict row, int64_t from, int64_t n,     \
                                   int64_t width, type outside)                                              \
    {                                                                                                        \
        int64_t low = from < 0 ? -from : 0, high = width - from;                                             \
        low = low < n ? low : n;                                                                             \
        high = high < low ? low : high < n ? high : n;                                                       \
        for (int64_t i = 0; i < low; i++)                                                                    \
            to[i] = outside;                                                                                 \
        for (int64_t i = low; i < high; i++)                                                                 \
            to[i] = row[from + i];                                                                           \
        for (int64_t i = high; i < n; i++)                                                                   \
            to[i] = outside;                                                                                 \
    }                                                                                                        \
    /* The inputs of a block, of one row; `end` is that of the tensor. */                                    \
    MT__INLINE const type *open_##suffix(const block *b, const type *row, const type *end, int64_t width,    \
                                         type outside, type *restrict segment)                               \
    {                                                                                                        \
        if (b->n == 0 || (b->inside && end - row - b->from >= b->read))                                      \
            return b->n == 0 ? row : row + b->from;                                                          \
        fetch_##suffix(segment, row, b->from, b->n, width, outside);                                         \
        return segment;                                                                                      \
    }                                                                                                        \
    /* The inputs of tap kx, of each lane; `room` is for LANES. */                                           \
    MT__INLINE const type *tap_##suffix(const block *b, const type *from, int64_t kx, int64_t width,         \
                                        type outside, type *restrict room)                                   \
    {                                                                                                        \
        int64_t at = kx * b->dilation;                                                                       \
        if (b->n > 0 && b->stride <= 2)                                                                      \
            return from + at;                                                                                \
        for (int64_t l = 0; l < LANES; l++)                                                                  \
            if (b->n > 0)                                                                                    \
                room[l] = from[at + l * b->stride];                                                          \
            else                                                                                             \
                fetch_##suffix(&room[l], from, b->from + at + l * b->stride, 1, width, outside);             \
        return room;                                                                                         \
    }                                                                                                        \
    /* With stride 2 every other element is needed. Loads of pairs vectorise without gaps. */                \
    MT__INLINE type first_of_pair_##suffix(const type *at)                                                   \
    {                                                                                                        \
        type value = *at;                                                                                    \
        if (sizeof(type) == 4) {                                                                             \
            uint64_t pair;                                                                                   \
            memcpy(&pair, at, sizeof pair);                                                                  \
            const uint32_t first = (uint32_t)(FIRST_IS_LOW ? pair : pair >> 32);                             \
            memcpy(&value, &first, sizeof(type) == 4 ? 4 : 0);                                               \
        }                                                                                                    \
        return value;                                                                                        \
    }                                                                                                        \
    MT__INLINE void put_##suffix(type *restrict to, const type *restrict from, size_t n)                     \
    {                                                                                                        \
        if (n == LANES)                                                                                      \
            EACH_LANE to[l] = from[l];                                                                       \
        else                                                                                                 \
            memcpy(to, from, n * sizeof *to);                                                                \
    }
BLOCKS(float, f32)
BLOCKS(double, f64)
BLOCKS(int32_t, i32)
BLOCKS(int64_t, i64)

/* Row y of the output, which begins with output i. `where` is relative to the first place of the window. NaN wins, as
 * in PyTorch. place: an integer as wide as type. */
#define LARGER(type, place, VALUE)                                                                           \
    {                                                                                                        \
        const type v = (VALUE), b = best[l];                                                                 \
        const place w = where[l];                                                                            \
        const bool wins = (v > b) | (v != v);                                                                \
        best[l] = wins ? v : b;                                                                              \
        where[l] = wins ? at : w;                                                                            \
    }
#define MAX_POOL(type, suffix, place, LOWEST)                                                                \
    MT__INLINE void larger_##suffix(const type *restrict tap, bool pairs, type *restrict best,               \
                                    place *restrict where, place at)                                         \
    {                                                                                                        \
        if (pairs)                                                                                           \
            EACH_LANE LARGER(type, place, first_of_pair_##suffix(&tap[2 * l])) else EACH_LANE LARGER(        \
                type, place, tap[l])                                                                         \
    }                                                                                                        \
    /* If all are the lowest: the first place that is inside. */                                             \
    MT__INLINE void begin_##suffix(const mt__pool *p, place *where, place at, int64_t from)                  \
    {                                                                                                        \
        EACH_LANE                                                                                            \
        where[l] = at;                                                                                       \
        for (int64_t l = 0; l < LANES && from + l * p->stride[1] < 0; l++)                                   \
            for (int64_t x = from + l * p->stride[1]; x < 0; x += p->dilation[1])                            \
                where[l] += (place)p->dilation[1];                                                           \
    }                                                                                                        \
    MT__CLONES static void max_row_##suffix(const job *j, const type *in, int64_t y, int64_t i, int64_t end) \
    {                                                                                                        \
        const mt__pool *p = &j->p;                                                                           \
        const int64_t out = p->out[1], top = y * p->stride[0] - p->padding[0];                               \
        const type *last = (const type *)j->input + p->planes * p->in[0] * p->in[1];                         \
        _Alignas(64) type segment[ROOM], best[LANES], room[LANES];                                           \
        _Alignas(64) place where[LANES];                                                                     \
        _Alignas(64) int64_t places[LANES];                                                                  \
        block b = block_of(p, p->dilation[1]);                                                               \
        for (int64_t x = 0; x < out; x += LANES, i += LANES) {                                               \
            bool fresh = true;                                                                               \
            block_at(&b, p, x);                                                                              \
            EACH_LANE best[l] = (LOWEST);                                                                    \
            for (int64_t ky = 0; ky < p->kernel[0]; ky++) {                                                  \
                int64_t yy = top + ky * p->dilation[0], down = (yy - top) * p->in[1];                        \
                if (yy < 0 || yy >= p->in[0])                                                                \
                    continue;                                                                                \
                if (fresh)                                                                                   \
                    begin_##suffix(p, where, (place)down, b.from);                                           \
                fresh = false;                                                                               \
                const type *from = open_##suffix(&b, in + yy * p->in[1], last, p->in[1], (LOWEST), segment); \
                for (int64_t kx = 0; kx < p->kernel[1]; kx++)                                                \
                    larger_##suffix(tap_##suffix(&b, from, kx, p->in[1], (LOWEST), room), b.pairs, best,     \
                                    where, (place)(down + kx * b.dilation));                                 \
            }                                                                                                \
            int64_t first = top * p->in[1] + b.from;                                                         \
            EACH_LANE places[l] = where[l] + first + l * b.stride;                                           \
            size_t n = written(end - i, out - x);                                                            \
            put_##suffix((type *)j->output + i, best, n);                                                    \
            put_i64(j->indices + i, places, n);                                                              \
        }                                                                                                    \
    }                                                                                                        \
    static void max_##suffix(int64_t begin, int64_t end, void *user)                                         \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const int64_t *in = j->p.in, *out = j->p.out;                                                        \
        for (int64_t row = begin * out[0]; row < end * out[0]; row++)                                        \
            max_row_##suffix(j, (const type *)j->input + row / out[0] * in[0] * in[1], row % out[0],         \
                             row * out[1], end * out[0] * out[1]);                                           \
    }
MAX_POOL(float, f32, int32_t, -INFINITY)
MAX_POOL(double, f64, int64_t, (double)-INFINITY)
MAX_POOL(int32_t, i32, int32_t, INT32_MIN)
MAX_POOL(int64_t, i64, int64_t, INT64_MIN)

#define AVG_POOL(type, suffix)                                                                               \
    /* The divisor of each lane: 0 if there is nothing to divide, or the user's does not fit. */             \
    MT__INLINE void divisors_##suffix(const job *j, int64_t y, int64_t x, bool inside, type *by)             \
    {                                                                                                        \
        int64_t y0, y1, x0, x1, height = window(&j->p, 0, y, &y0, &y1), one = 0;                             \
        for (int64_t l = 0; l < LANES && x + l < j->p.out[1]; l++) {                                         \
            int64_t whole = height * window(&j->p, 1, x + l, &x0, &x1);                                      \
            one = y0 < y1 && x0 < x1 ? divisor_of(j, whole, (y1 - y0) * (x1 - x0)) : 0;                      \
            by[l] = (type)one;                                                                               \
            if (inside)                                                                                      \
                break;                                                                                       \
        }                                                                                                    \
        if (inside)                                                                                          \
            EACH_LANE by[l] = (type)one;                                                                     \
    }                                                                                                        \
    MT__CLONES static void avg_row_##suffix(const job *j, const type *in, int64_t y, int64_t i, int64_t end) \
    {                                                                                                        \
        const mt__pool *p = &j->p;                                                                           \
        const int64_t out = p->out[1];                                                                       \
        const type *last = (const type *)j->input + p->planes * p->in[0] * p->in[1];                         \
        _Alignas(64) type segment[ROOM], sum[LANES], room[LANES];                                            \
        _Alignas(64) type by[LANES] = {0};                                                                   \
        block b = block_of(p, 1);                                                                            \
        int64_t y0, y1;                                                                                      \
        window(p, 0, y, &y0, &y1);                                                                           \
        for (int64_t x = 0; x < out; x += LANES, i += LANES) {                                               \
            block_at(&b, p, x);                                                                              \
            EACH_LANE sum[l] = 0;                                                                            \
            for (int64_t yy = y0; yy < y1; yy++) {                                                           \
                const type *from = open_##suffix(&b, in + yy * p->in[1], last, p->in[1], 0, segment);        \
                for (int64_t kx = 0; kx < p->kernel[1]; kx++) {                                              \
                    const type *restrict tap = tap_##suffix(&b, from, kx, p->in[1], 0, room);                \
                    if (b.pairs)                                                                             \
                        EACH_LANE sum[l] = (type)(sum[l] + first_of_pair_##suffix(&tap[2 * l]));             \
                    else                                                                                     \
                        EACH_LANE sum[l] = (type)(sum[l] + tap[l]);                                          \
                }                                                                                            \
            }                                                                                                \
            divisors_##suffix(j, y, x, b.inside, by);                                                        \
            EACH_LANE                                                                                        \
            {                                                                                                \
                const type d = by[l] == 0 ? 1 : by[l], q = (type)(sum[l] / d);                               \
                sum[l] = by[l] == 0 ? 0 : q;                                                                 \
            }                                                                                                \
            put_##suffix((type *)j->output + i, sum, written(end - i, out - x));                             \
        }                                                                                                    \
    }                                                                                                        \
    static void avg_##suffix(int64_t begin, int64_t end, void *user)                                         \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const int64_t *in = j->p.in, *out = j->p.out;                                                        \
        for (int64_t row = begin * out[0]; row < end * out[0]; row++)                                        \
            avg_row_##suffix(j, (const type *)j->input + row / out[0] * in[0] * in[1], row % out[0],         \
                             row * out[1], end * out[0] * out[1]);                                           \
    }
AVG_POOL(float, f32)
AVG_POOL(double, f64)
AVG_POOL(int32_t, i32)
AVG_POOL(int64_t, i64)

#define WIDE 512 /* columns of the input, and outputs of a row, that are taken together */

/* The outputs [begin, end) of a row, whose windows lie in the columns [first, last): within WIDE, unless it is one. */
typedef struct group {
    int64_t begin, end, first, last;
    int64_t x0[WIDE], x1[WIDE], whole[WIDE]; /* windows; with padding */
    bool wide;
} group;

typedef int64_t window_fn(const mt__pool *p, int d, int64_t o, int64_t *begin, int64_t *end);

/* The next group; false: none. A new one has end 0. */
static bool next_group(group *g, const mt__pool *p, window_fn *of)
{
    g->begin = g->end;
    g->first = g->last = 0;
    for (int64_t k = 0; g->end < p->out[1] && k < WIDE; k++, g->end++) {
        g->whole[k] = of(p, 1, g->end, &g->x0[k], &g->x1[k]);
        if (g->x0[k] >= g->x1[k]) {
            g->x0[k] = g->x1[k] = g->first;
            continue;
        }
        if (g->last != 0 && g->x1[k] - g->first > WIDE)
            break;
        g->first = g->last == 0 ? g->x0[k] : g->first;
        g->last = g->x1[k];
    }
    g->wide = g->last - g->first > WIDE;
    return g->begin < g->end;
}

/* Distributes gradients over the inputs: each input in the window of an output gets SHARE, of the gradient. First over
 * the columns, then over the rows, all columns at once. */
#define UNPOOL(name, type, WINDOW, SHARE)                                                                    \
    MT__CLONES static void name##_row(const job *j, const group *g, const type *from, type *to, int64_t y)   \
    {                                                                                                        \
        const mt__pool *p = &j->p;                                                                           \
        int64_t y0, y1, height = WINDOW(p, 0, y, &y0, &y1), columns = g->last - g->first;                    \
        type sums[WIDE]; /* if it is wide, all inputs get the same */                                        \
        for (int64_t k = 0; k < (g->wide ? 1 : columns); k++)                                                \
            sums[k] = 0;                                                                                     \
        for (int64_t k = 0; k < g->end - g->begin; k++) {                                                    \
            int64_t width = g->whole[k], x0 = g->x0[k], x1 = g->x1[k];                                       \
            if (x0 >= x1)                                                                                    \
                continue;                                                                                    \
            type grad = from[g->begin + k], share = (SHARE);                                                 \
            for (int64_t x = x0; x < (g->wide ? x0 + 1 : x1); x++)                                           \
                sums[x - g->first] += share;                                                                 \
        }                                                                                                    \
        for (int64_t yy = y0; yy < y1; yy++) {                                                               \
            type *restrict row = to + yy * p->in[1] + g->first;                                              \
            if (g->wide)                                                                                     \
                for (int64_t k = 0; k < columns; k++)                                                        \
                    row[k] += sums[0];                                                                       \
            else                                                                                             \
                for (int64_t k = 0; k < columns; k++)                                                        \
                    row[k] += sums[k];                                                                       \
        }                                                                                                    \
    }                                                                                                        \
    static void name(int64_t begin, int64_t end, void *user)                                                 \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const mt__pool *p = &j->p;                                                                           \
        int64_t area = p->in[0] * p->in[1];                                                                  \
        memset((type *)j->output + begin * area, 0, (size_t)((end - begin) * area) * sizeof(type));          \
        for (group g = {.end = 0}; next_group(&g, p, WINDOW);)                                               \
            for (int64_t row = begin * p->out[0]; row < end * p->out[0]; row++)                              \
                name##_row(j, &g, (const type *)j->input + row * p->out[1],                                  \
                           (type *)j->output + row / p->out[0] * area, row % p->out[0]);                     \
    }

#define POOLS_OF_FLOATS(type, suffix)                                                                        \
    MT__SUM_OF(type, type, run_##suffix, a[k])                                                               \
    static void max_back_##suffix(int64_t begin, int64_t end, void *user)                                    \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        const mt__pool *p = &j->p;                                                                           \
        int64_t area = p->out[0] * p->out[1], in_area = p->in[0] * p->in[1];                                 \
        memset((type *)j->output + begin * in_area, 0, (size_t)((end - begin) * in_area) * sizeof(type));    \
        for (int64_t i = begin * area; i < end * area; i++)                                                  \
            if ((uint64_t)j->indices[i] < (uint64_t)in_area)                                                 \
                ((type *)j->output)[i / area * in_area + j->indices[i]] += ((const type *)j->input)[i];      \
    }                                                                                                        \
    /* Whole rows are one dense run; else columns are summed first. */                                       \
    MT__CLONES static void adaptive_row_##suffix(const mt__pool *p, const group *g, const type *in,          \
                                                 type *to, int64_t y)                                        \
    {                                                                                                        \
        int64_t y0, y1, height = adapted(p, 0, y, &y0, &y1);                                                 \
        int64_t columns = g->wide || p->out[1] == 1 ? 0 : g->last - g->first;                                \
        type sums[WIDE];                                                                                     \
        for (int64_t k = 0; k < columns; k++)                                                                \
            sums[k] = in[y0 * p->in[1] + g->first + k];                                                      \
        for (int64_t yy = y0 + 1; yy < y1; yy++) {                                                           \
            const type *restrict row = in + yy * p->in[1] + g->first;                                        \
            for (int64_t k = 0; k < columns; k++)                                                            \
                sums[k] += row[k];                                                                           \
        }                                                                                                    \
        for (int64_t k = 0; k < g->end - g->begin; k++) {                                                    \
            int64_t width = g->whole[k];                                                                     \
            type sum = 0;                                                                                    \
            if (p->out[1] == 1)                                                                              \
                sum = (type)run_##suffix(in + y0 * width, in, in, 0, height * width);                        \
            else if (g->wide)                                                                                \
                for (int64_t yy = y0; yy < y1; yy++)                                                         \
                    sum += (type)run_##suffix(in + yy * p->in[1] + g->x0[k], in, in, 0, width);              \
            else                                                                                             \
                for (int64_t x = g->x0[k]; x < g->x1[k]; x++)                                                \
                    sum += sums[x - g->first];                                                               \
            to[g->begin + k] = sum / (type)height / (type)width;                                             \
        }                                                                                                    \
    }                                                                                                        \
    static void adaptive_##suffix(int64_t begin, int64_t end, void *user)                                    \
    {                                                                                                        \
        const mt__pool *p = &((const job *)user)->p;                                                         \
        const type *in = ((const job *)user)->input;                                                         \
        type *to = ((const job *)user)->output;                                                              \
        for (group g = {.end = 0}; next_group(&g, p, adapted);)                                              \
            for (int64_t row = begin * p->out[0]; row < end * p->out[0]; row++)                              \
                adaptive_row_##suffix(p, &g, in + row / p->out[0] * p->in[0] * p->in[1],                     \
                                      to + row * p->out[1], row % p->out[0]);                                \
    }                                                                                                        \
    UNPOOL(avg_back_##suffix, type, window,                                                                  \
           grad / (type)divisor_of(j, height * width, (y1 - y0) * (x1 - x0)))                                \
    UNPOOL(adaptive_back_##suffix, type, adapted, grad / (type)height / (type)width)
POOLS_OF_FLOATS(float, f32)
POOLS_OF_FLOATS(double, f64)

/* ------------------------------------------------------------------------------------------------- kernels */

typedef void part_fn(int64_t begin, int64_t end, void *user);
typedef struct family { /* by dtype; NULL: refused by infer */
    part_fn *parts[MT_DTYPES];
} family;

static const family max_pool = {{NULL, max_i32, max_i64, max_f32, max_f64}};
static const family avg_pool = {{NULL, avg_i32, avg_i64, avg_f32, avg_f64}};
static const family max_back = {{NULL, NULL, NULL, max_back_f32, max_back_f64}};
static const family avg_back = {{NULL, NULL, NULL, avg_back_f32, avg_back_f64}};
static const family adaptive = {{NULL, NULL, NULL, adaptive_f32, adaptive_f64}};
static const family adaptive_back = {{NULL, NULL, NULL, adaptive_back_f32, adaptive_back_f64}};

static mt_status over_planes(job *j, const family *f, const mt_tensor *from, mt_tensor *to)
{
    mt_tensor *straight = NULL;
    mt_status status = mt__contiguous(from, &straight);
    if (status != MT_OK)
        return status;
    j->input = straight->data;
    j->output = to->data;
    if (to->numel > 0)
        mt__parallel(j->p.planes, GRAIN(&j->p), f->parts[from->dtype], j);
    mt_release(straight);
    return MT_OK;
}

mt_status mt__cpu_max_pool2d(mt__call *call)
{
    const mt_tensor *input = mt__arg_tensor(call, 0);
    job j = {.indices = call->outs[1]->data};
    mt_status status = mt__pool_read(call, "max_pool2d", input, 1, true, &j.p);
    if (status == MT_OK && (double)j.p.kernel[0] * (double)j.p.dilation[0] * (double)j.p.in[1] > INT32_MAX)
        return mt__fail(MT_E_NOT_IMPLEMENTED,
                        "max_pool2d: a window may not span more than 2^31 - 1 elements of its plane");
    return status == MT_OK ? over_planes(&j, &max_pool, input, call->outs[0]) : status;
}

mt_status mt__cpu_max_pool2d_backward(mt__call *call)
{
    job j = {0};
    mt_tensor *indices = NULL;
    mt_status status = mt__pool_read(call, "max_pool2d", mt__arg_tensor(call, 1), 2, true, &j.p);
    if (status == MT_OK)
        status = mt__contiguous(mt__arg_tensor(call, 7), &indices);
    if (status != MT_OK)
        return status;
    j.indices = indices->data;
    status = over_planes(&j, &max_back, mt__arg_tensor(call, 0), call->outs[0]);
    mt_release(indices);
    return status;
}

static mt_status average(mt__call *call, const mt_tensor *input, unsigned first, const family *f)
{
    job j = {.count_pad = mt__arg_int(call, first + 4) != 0};
    if (mt__arg_given(call, first + 5))
        j.divisor = mt__arg_int(call, first + 5);
    mt_status status = mt__pool_read(call, "avg_pool2d", input, first, false, &j.p);
    return status == MT_OK ? over_planes(&j, f, mt__arg_tensor(call, 0), call->outs[0]) : status;
}

mt_status mt__cpu_avg_pool2d(mt__call *call)
{
    return average(call, mt__arg_tensor(call, 0), 1, &avg_pool);
}

mt_status mt__cpu_avg_pool2d_backward(mt__call *call)
{
    return average(call, mt__arg_tensor(call, 1), 2, &avg_back);
}

static mt_status adapt(mt__call *call, const mt_tensor *input, const mt_tensor *output, const family *f)
{
    int r = input->rank;
    job j = {0};
    j.p.planes = input->dims[r - 3] * (r == 4 ? input->dims[0] : 1);
    for (int d = 0; d < 2; d++) {
        j.p.in[d] = input->dims[r - 2 + d];
        j.p.out[d] = output->dims[r - 2 + d];
        j.p.kernel[d] = j.p.out[d] > 0 ? j.p.in[d] / j.p.out[d] + 1 : 1;
    }
    return over_planes(&j, f, mt__arg_tensor(call, 0), call->outs[0]);
}

mt_status mt__cpu_adaptive_avg_pool2d(mt__call *call)
{
    return adapt(call, mt__arg_tensor(call, 0), call->outs[0], &adaptive);
}

mt_status mt__cpu_adaptive_avg_pool2d_backward(mt__call *call)
{
    return adapt(call, mt__arg_tensor(call, 1), mt__arg_tensor(call, 0), &adaptive_back);
}
