/* runtime/kernels/cpu/pick.c - selection along a dim: max and min with indices, argmax, argmin, topk, sort.
 *
 * Rows are dense (mt__rows_of). A NaN counts as the largest value for sort and topk, and as the extreme for
 * max and min; among equals the first wins. Sorting is stable: a radix sort of words (key, index) for the types of
 * 32 bits, a merge sort of pairs (value, index) for the others.
 */
#include "runtime/kernels/cpu/clones.h"
#include "runtime/ops/reduce.h"
#include <stdatomic.h>
#include <stdlib.h>

#define LANES 32
#define GRAIN (1 << 14)
#define SMALL_K 32 /* up to this, topk keeps a sorted list while reading; else it sorts the row */

typedef struct job {
    const void *from;
    void *values; /* NULL: not wanted */
    int64_t *indices;
    int64_t n, k, inner;  /* an output row has k elements, `inner` apart */
    bool down;            /* the largest first */
    bool sorts;           /* whole rows, else by insertion */
    _Atomic bool *failed; /* out of memory */
} job;

/* ----------------------------------------------------------------------------------------------- extremes */

#define EXTREME(T, S, NAME, BETTER)                                                                          \
    MT__CLONES static void NAME##_##S(int64_t begin, int64_t end, const job *j)                              \
    {                                                                                                        \
        int64_t n = j->n;                                                                                    \
        for (int64_t r = begin; r < end; r++) {                                                              \
            const T *restrict x = (const T *)j->from + r * n;                                                \
            T lane[LANES], best = x[0];                                                                      \
            int64_t i = 0;                                                                                   \
            for (int l = 0; l < LANES; l++)                                                                  \
                lane[l] = best;                                                                              \
            for (; i + LANES <= n; i += LANES)                                                               \
                for (int l = 0; l < LANES; l++)                                                              \
                    lane[l] = x[i + l] BETTER lane[l] || x[i + l] != x[i + l] ? x[i + l] : lane[l];          \
            _Pragma("GCC unroll 8") for (int half = LANES / 2; half > 0;                                     \
                                         half /= 2) for (int l = 0; l < half; l++) lane[l] =                 \
                lane[l + half] BETTER lane[l] || lane[l + half] != lane[l + half] ? lane[l + half]           \
                                                                                  : lane[l];                 \
            for (best = lane[0]; i < n; i++)                                                                 \
                best = x[i] BETTER best || x[i] != x[i] ? x[i] : best;                                       \
            int64_t at = 0;                                                                                  \
            for (; at + LANES <= n; at += LANES) { /* the block that has it */                               \
                int hit = 0;                                                                                 \
                for (int l = 0; l < LANES; l++)                                                              \
                    hit |= (x[at + l] == best) | (x[at + l] != x[at + l]);                                   \
                if (hit)                                                                                     \
                    break;                                                                                   \
            }                                                                                                \
            while (!(x[at] == best || x[at] != x[at]))                                                       \
                at++;                                                                                        \
            j->indices[r] = at;                                                                              \
            if (j->values != NULL)                                                                           \
                ((T *)j->values)[r] = x[at];                                                                 \
        }                                                                                                    \
    }
#define TYPES(X, ...)                                                                                        \
    X(uint8_t, b, __VA_ARGS__)                                                                               \
    X(int32_t, i, __VA_ARGS__)                                                                               \
    X(int64_t, l, __VA_ARGS__)                                                                               \
    X(float, f, __VA_ARGS__)                                                                                 \
    X(double, d, __VA_ARGS__)
TYPES(EXTREME, largest, >)
TYPES(EXTREME, smallest, <)

typedef void rows_fn(int64_t begin, int64_t end, const job *j);
typedef struct work {
    const job *j;
    rows_fn *run;
} work;

static void run_part(int64_t begin, int64_t end, void *user)
{
    const work *w = user;
    w->run(begin, end, w->j);
}

static mt_status extreme(mt__call *call, rows_fn *const *of_dtype, mt_tensor *values, mt_tensor *indices)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt__reduction r;
    mt_tensor *rows;
    mt_status status = mt__reduction_of(call, &r);
    if (status == MT_OK)
        status = mt__rows_of(self, r.mask, &rows);
    if (status != MT_OK)
        return status;
    job j = {.from = rows->data,
             .values = values != NULL ? values->data : NULL,
             .indices = indices->data,
             .n = r.count};
    work w = {&j, of_dtype[self->dtype]};
    if (self->numel <= GRAIN)
        run_part(0, indices->numel, &w);
    else
        mt__parallel(indices->numel, r.count < GRAIN ? GRAIN / r.count : 1, run_part, &w);
    mt_release(rows);
    return MT_OK;
}

static rows_fn *const largest[] = {largest_b, largest_i, largest_l, largest_f, largest_d};
static rows_fn *const smallest[] = {smallest_b, smallest_i, smallest_l, smallest_f, smallest_d};

mt_status mt__cpu_max_dim(mt__call *call)
{
    return extreme(call, largest, call->outs[0], call->outs[1]);
}
mt_status mt__cpu_min_dim(mt__call *call)
{
    return extreme(call, smallest, call->outs[0], call->outs[1]);
}
mt_status mt__cpu_argmax(mt__call *call)
{
    return extreme(call, largest, NULL, call->outs[0]);
}
mt_status mt__cpu_argmin(mt__call *call)
{
    return extreme(call, smallest, NULL, call->outs[0]);
}

/* -------------------------------------------------------------------------------------------- sort and topk */

#define RADIX_FROM 48 /* elements: below, insertion and merging are faster */

/* Keys whose order is that of the values; equal values have equal keys. */
static inline uint32_t key_f(float x)
{
    uint32_t u;
    x = x == 0 ? 0.0f : x; /* -0 is 0 */
    memcpy(&u, &x, sizeof u);
    return x != x ? UINT32_MAX : u >> 31 ? ~u : u | 0x80000000u;
}
static inline uint32_t key_i(int32_t x)
{
    return (uint32_t)x ^ 0x80000000u;
}

/* Sorts words by their upper halves; b is room for as many. Returns where they are: a or b. */
static uint64_t *radix(uint64_t *a, uint64_t *b, int64_t n)
{
    uint32_t count[4][256] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < 4; d++)
            count[d][a[i] >> (32 + 8 * d) & 255u]++;
    for (int d = 0; d < 4; d++) {
        uint32_t at = 0, *here = count[d];
        int shift = 32 + 8 * d;
        if (here[a[0] >> shift & 255u] == n)
            continue; /* all have this digit */
        for (int v = 0; v < 256; v++) {
            uint32_t next = at + here[v];
            here[v] = at;
            at = next;
        }
        for (int64_t i = 0; i < n; i++)
            b[here[a[i] >> shift & 255u]++] = a[i];
        uint64_t *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

#define WORDS(T, S)                                                                                          \
    static const uint64_t *words_##S(const T *x, int64_t n, uint64_t *room, bool down)                       \
    {                                                                                                        \
        uint32_t turn = down ? UINT32_MAX : 0;                                                               \
        for (int64_t i = 0; i < n; i++)                                                                      \
            room[i] = (uint64_t)(key_##S(x[i]) ^ turn) << 32 | (uint64_t)i;                                  \
        return radix(room, room + n, n);                                                                     \
    }
WORDS(float, f)
WORDS(int32_t, i)
/* NULL: sorted otherwise. */
#define NO_WORDS(T, S)                                                                                       \
    static const uint64_t *words_##S(const T *x, int64_t n, uint64_t *room, bool down)                       \
    {                                                                                                        \
        return (void)x, (void)n, (void)room, (void)down, NULL;                                               \
    }
NO_WORDS(uint8_t, b)
NO_WORDS(int64_t, l)
NO_WORDS(double, d)

/* before: does a come strictly before b? */
#define SORT(T, S, UNUSED)                                                                                   \
    typedef struct pair_##S {                                                                                \
        T value;                                                                                             \
        int64_t index;                                                                                       \
    } pair_##S;                                                                                              \
    MT__INLINE bool before_##S(T a, T b, bool down)                                                          \
    {                                                                                                        \
        return down ? a > b || (a != a && b == b) : a < b || (b != b && a == a);                             \
    }                                                                                                        \
    /* The first k of n, by insertion: for small k, and for short runs. */                                   \
    MT__INLINE int64_t insert_##S(pair_##S *kept, int64_t k, const T *x, int64_t first, int64_t n,           \
                                  bool down)                                                                 \
    {                                                                                                        \
        int64_t count = 0, seen = 0;                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            while (count == k && k > 0 && n - i >= LANES &&                                                  \
                   i >= seen) { /* skips blocks in which none comes before */                                \
                T last = kept[k - 1].value;                                                                  \
                int hit = 0;                                                                                 \
                if (down)                                                                                    \
                    for (int l = 0; l < LANES; l++)                                                          \
                        hit |= (x[i + l] > last) | (x[i + l] != x[i + l]);                                   \
                else                                                                                         \
                    for (int l = 0; l < LANES; l++)                                                          \
                        hit |= (x[i + l] < last) | (last != last);                                           \
                seen = i + LANES;                                                                            \
                if (hit)                                                                                     \
                    break;                                                                                   \
                i += LANES;                                                                                  \
            }                                                                                                \
            if (i == n)                                                                                      \
                break;                                                                                       \
            if (count == k && (k == 0 || !before_##S(x[i], kept[k - 1].value, down)))                        \
                continue;                                                                                    \
            int64_t at = count < k ? count++ : k - 1;                                                        \
            for (; at > 0 && before_##S(x[i], kept[at - 1].value, down); at--)                               \
                kept[at] = kept[at - 1];                                                                     \
            kept[at] = (pair_##S){x[i], first + i};                                                          \
        }                                                                                                    \
        return count;                                                                                        \
    }                                                                                                        \
    static void merge_##S(const pair_##S *a, int64_t na, const pair_##S *b, int64_t nb, pair_##S *to,        \
                          bool down)                                                                         \
    {                                                                                                        \
        while (na > 0 && nb > 0) {                                                                           \
            bool second = before_##S(b->value, a->value, down);                                              \
            *to++ = second ? *b++ : *a++;                                                                    \
            nb -= second;                                                                                    \
            na -= !second;                                                                                   \
        }                                                                                                    \
        memcpy(to, na > 0 ? a : b, (size_t)(na > 0 ? na : nb) * sizeof *to);                                 \
    }                                                                                                        \
    static pair_##S *sort_##S(const T *x, int64_t n, pair_##S *a, pair_##S *b, bool down)                    \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i += 16)                                                                  \
            insert_##S(a + i, n - i < 16 ? n - i : 16, x + i, i, n - i < 16 ? n - i : 16, down);             \
        for (int64_t width = 16; width < n; width *= 2) {                                                    \
            for (int64_t i = 0; i < n; i += 2 * width) {                                                     \
                int64_t na = n - i < width ? n - i : width, nb = n - i - na < width ? n - i - na : width;    \
                merge_##S(a + i, na, a + i + na, nb, b + i, down);                                           \
            }                                                                                                \
            pair_##S *swap = a;                                                                              \
            a = b;                                                                                           \
            b = swap;                                                                                        \
        }                                                                                                    \
        return a;                                                                                            \
    }                                                                                                        \
    MT__CLONES static void order_##S(int64_t begin, int64_t end, const job *j)                               \
    {                                                                                                        \
        pair_##S few[SMALL_K], *room = j->sorts ? malloc((size_t)j->n * 2 * sizeof *room) : few;             \
        if (room == NULL)                                                                                    \
            atomic_store(j->failed, true);                                                                   \
        for (int64_t r = begin; r < end && room != NULL; r++) {                                              \
            const T *x = (const T *)j->from + r * j->n;                                                      \
            const uint64_t *words = j->sorts && j->n >= RADIX_FROM && j->n < UINT32_MAX                      \
                                        ? words_##S(x, j->n, (uint64_t *)(void *)room, j->down)              \
                                        : NULL;                                                              \
            int64_t to = r / j->inner * j->k * j->inner + r % j->inner;                                      \
            if (words != NULL) {                                                                             \
                for (int64_t i = 0; i < j->k; i++, to += j->inner) {                                         \
                    j->indices[to] = (int64_t)(uint32_t)words[i];                                            \
                    ((T *)j->values)[to] = x[(uint32_t)words[i]];                                            \
                }                                                                                            \
                continue;                                                                                    \
            }                                                                                                \
            pair_##S *sorted = few;                                                                          \
            if (j->sorts)                                                                                    \
                sorted = sort_##S(x, j->n, room, room + j->n, j->down);                                      \
            else                                                                                             \
                insert_##S(few, j->k, x, 0, j->n, j->down);                                                  \
            for (int64_t i = 0; i < j->k; i++, to += j->inner) {                                             \
                ((T *)j->values)[to] = sorted[i].value;                                                      \
                j->indices[to] = sorted[i].index;                                                            \
            }                                                                                                \
        }                                                                                                    \
        if (j->sorts)                                                                                        \
            free(room);                                                                                      \
    }
TYPES(SORT, )

static mt_status order(mt__call *call, int64_t dim_argument, bool down)
{
    static rows_fn *const runs[] = {order_b, order_i, order_l, order_f, order_d};
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_tensor *rows;
    int dim;
    mt_status status = mt__wrap_dim(dim_argument, self->rank, &dim);
    if (status == MT_OK)
        status = mt__rows_of(self, self->rank > 0 ? 1u << dim : 0, &rows);
    if (status != MT_OK)
        return status;
    _Atomic bool failed = false;
    job j = {.from = rows->data,
             .values = call->outs[0]->data,
             .indices = call->outs[1]->data,
             .down = down,
             .failed = &failed};
    mt__split s = mt__split_at(self, dim);
    j.n = s.n;
    j.inner = s.inner;
    j.k = self->rank > 0 ? call->outs[0]->dims[dim] : call->outs[0]->numel;
    int64_t count = j.n > 0 ? s.outer * s.inner : 0;
    j.sorts = j.k > SMALL_K;
    work w = {&j, runs[self->dtype]};
    if (j.k > 0)
        mt__parallel(count, j.n < GRAIN ? GRAIN / j.n : 1, run_part, &w);
    if (atomic_load(&failed))
        status = mt__fail(MT_E_NOMEM, "out of memory: sorting rows of %lld elements", (long long)j.n);
    mt_release(rows);
    return status;
}

mt_status mt__cpu_topk(mt__call *call)
{
    return order(call, mt__arg_int(call, 2), mt__arg_int(call, 3) != 0);
}
mt_status mt__cpu_sort(mt__call *call)
{
    return order(call, mt__arg_int(call, 1), mt__arg_int(call, 2) != 0);
}
