/* runtime/kernels/cpu/reduce.c - reductions with one accumulator per output: sums, products,
 * extremes, any and all.
 *
 * Inputs of any strides are read in place. Their dims are divided into kept and reduced ones; adjacent dims
 * are merged where strides allow. Then either each output reduces runs of the input (run) or, if the dense
 * dim is a kept one, blocks of columns are reduced together (columns).
 *
 * Accuracy: floats are added in float lanes for at most CHUNK elements, then to a double; so a sum over 1e6
 * floats is accurate to the last bits. The order does not depend on the number of threads: a large single sum
 * is split into fixed PARTs, and a tall matrix of few columns into pieces. Accumulators are 8 bytes: a double or an int64.
 */
#include "runtime/kernels/cpu/clones.h"
#include "runtime/ops/reduce.h"
#include <math.h>
#include <stdlib.h>

#define LANES 32
#define CHUNK 2048
#define ROWS 32         /* added in float by columns() */
#define MORE_ROWS 512   /* where float loses nothing */
#define COLUMNS 256     /* per block */
#define PART (1 << 16)  /* elements of a part of a single sum */
#define MOST_PIECES 16  /* of tall matrices */
#define GRAIN (1 << 15) /* elements: fewer are not worth a thread */

typedef union number {
    double f;
    int64_t i;
} number;

typedef struct reducer {
    void (*run)(const void *x, int64_t n, int64_t stride, int64_t rows, int64_t step, number *acc);
    void (*columns)(const void *x, int64_t rows, int64_t step, int64_t count, number *acc);
    void (*merge)(number *acc, const number *other, int64_t n);
    number identity;
    bool floating;
} reducer;

/* ------------------------------------------------------------------------------------------------ the loops */

#define SUM(a, x) ((a) + (x))
#define PROD(a, x) ((a) * (x))
#define MAX(a, x) ((x) > (a) || (x) != (x) ? (x) : (a)) /* NaN is sticky */
#define MIN(a, x) ((x) < (a) || (x) != (x) ? (x) : (a))
#define IMAX(a, x) ((x) > (a) ? (x) : (a))
#define IMIN(a, x) ((x) < (a) ? (x) : (a))
#define ANY(a, x) ((a) | ((x) != 0))
#define ALL(a, x) ((a) & ((x) != 0))

/* T: input type; L: type of lanes; M: member of number; A: its type. */
#define REDUCER(name, T, L, A, M, IDENTITY, STEP, MERGE, ROWS_OF)                                            \
    MT__INLINE A fold_##name(const T *restrict x, int64_t n, int64_t stride, A total)                        \
    {                                                                                                        \
        while (stride == 1 && n >= LANES) {                                                                  \
            int64_t m = n < CHUNK ? n / LANES * LANES : CHUNK;                                               \
            L lane[LANES];                                                                                   \
            for (int l = 0; l < LANES; l++)                                                                  \
                lane[l] = IDENTITY;                                                                          \
            for (int64_t i = 0; i < m; i += LANES)                                                           \
                for (int l = 0; l < LANES; l++)                                                              \
                    lane[l] = (L)STEP(lane[l], x[i + l]);                                                    \
            _Pragma("GCC unroll 8") for (int half = LANES / 2; half >= 8;                                    \
                                         half /= 2) for (int l = 0; l < half; l++) lane[l] =                 \
                (L)MERGE(lane[l], lane[l + half]);                                                           \
            A wide[8];                                                                                       \
            for (int l = 0; l < 8; l++)                                                                      \
                wide[l] = (A)lane[l];                                                                        \
            _Pragma("GCC unroll 8") for (int half = 4; half > 0; half /= 2) for (int l = 0; l < half; l++)   \
                wide[l] = (A)MERGE(wide[l], wide[l + half]);                                                 \
            total = (A)MERGE(total, wide[0]);                                                                \
            x += m;                                                                                          \
            n -= m;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                      \
            total = (A)STEP(total, x[i * stride]);                                                           \
        return total;                                                                                        \
    }                                                                                                        \
    MT__CLONES static void run_##name(const void *restrict from, int64_t n, int64_t stride, int64_t rows,    \
                                      int64_t step, number *acc)                                             \
    {                                                                                                        \
        for (int64_t r = 0; r < rows; r++)                                                                   \
            acc[r].M = fold_##name((const T *)from + r * step, n, stride, acc[r].M);                         \
    }                                                                                                        \
    MT__CLONES static void columns_##name(const void *restrict from, int64_t rows, int64_t step,             \
                                          int64_t count, number *restrict acc)                               \
    {                                                                                                        \
        const T *restrict x = from;                                                                          \
        A total[COLUMNS];                                                                                    \
        for (int64_t j = 0; j < count; j++)                                                                  \
            total[j] = acc[j].M;                                                                             \
        for (int64_t begin = 0; begin < rows; begin += (ROWS_OF)) {                                          \
            int64_t end = begin + (ROWS_OF) < rows ? begin + (ROWS_OF) : rows;                               \
            L lane[COLUMNS];                                                                                 \
            for (int64_t j = 0; j < count; j++)                                                              \
                lane[j] = IDENTITY;                                                                          \
            int64_t i = begin;                                                                               \
            for (; i + 4 <= end; i += 4) { /* four rows per load and store of a lane */                      \
                const T *restrict a = x + i * step, *restrict b = a + step, *restrict c = b + step,          \
                                  *restrict d = c + step;                                                    \
                for (int64_t j = 0; j < count; j++) {                                                        \
                    L v = (L)STEP(lane[j], a[j]);                                                            \
                    v = (L)STEP(v, b[j]);                                                                    \
                    v = (L)STEP(v, c[j]);                                                                    \
                    lane[j] = (L)STEP(v, d[j]);                                                              \
                }                                                                                            \
            }                                                                                                \
            for (; i < end; i++)                                                                             \
                for (int64_t j = 0; j < count; j++)                                                          \
                    lane[j] = (L)STEP(lane[j], x[i * step + j]);                                             \
            for (int64_t j = 0; j < count; j++)                                                              \
                total[j] = (A)MERGE(total[j], (A)lane[j]);                                                   \
        }                                                                                                    \
        for (int64_t j = 0; j < count; j++)                                                                  \
            acc[j].M = total[j];                                                                             \
    }                                                                                                        \
    static void merge_##name(number *acc, const number *other, int64_t n)                                    \
    {                                                                                                        \
        for (int64_t k = 0; k < n; k++)                                                                      \
            acc[k].M = (A)MERGE(acc[k].M, other[k].M);                                                       \
    }
#define USE(name, M, IDENTITY)                                                                               \
    {                                                                                                        \
        run_##name, columns_##name, merge_##name, {.M = IDENTITY},                                           \
            sizeof((number){0}.M) == 8 && #M[0] == 'f'                                                       \
    }

#define ALL_DTYPES(op, L32, STEP, ISTEP, FID, IID, ROWS_OF)                                                  \
    REDUCER(op##_b, bool, int64_t, int64_t, i, IID, ISTEP, ISTEP, ROWS_OF)                                   \
    REDUCER(op##_i, int32_t, int64_t, int64_t, i, IID, ISTEP, ISTEP, ROWS_OF)                                \
    REDUCER(op##_l, int64_t, int64_t, int64_t, i, IID, ISTEP, ISTEP, ROWS_OF)                                \
    REDUCER(op##_f, float, L32, double, f, FID, STEP, STEP, ROWS_OF)                                         \
    REDUCER(op##_d, double, double, double, f, FID, STEP, STEP, ROWS_OF)                                     \
    static const reducer op##_reducers[MT_DTYPES] = {USE(op##_b, i, IID), USE(op##_i, i, IID),               \
                                                     USE(op##_l, i, IID), USE(op##_f, f, FID),               \
                                                     USE(op##_d, f, FID)};

#define IADD(a, x) ((int64_t)((uint64_t)(a) + (uint64_t)(x))) /* wraps */
#define IMUL(a, x) ((int64_t)((uint64_t)(a) * (uint64_t)(x)))
ALL_DTYPES(sum, float, SUM, IADD, 0, 0, ROWS)
ALL_DTYPES(prod, double, PROD, IMUL, 1, 1, MORE_ROWS)
ALL_DTYPES(max, float, MAX, IMAX, -INFINITY, INT64_MIN, MORE_ROWS)
ALL_DTYPES(min, float, MIN, IMIN, INFINITY, INT64_MAX, MORE_ROWS)

/* any and all: accumulators are int64 for every dtype. */
#define TRUTHS(op, STEP, ID)                                                                                 \
    REDUCER(op##_b, bool, uint8_t, int64_t, i, ID, STEP, STEP, MORE_ROWS)                                    \
    REDUCER(op##_i, int32_t, int32_t, int64_t, i, ID, STEP, STEP, MORE_ROWS)                                 \
    REDUCER(op##_l, int64_t, int64_t, int64_t, i, ID, STEP, STEP, MORE_ROWS)                                 \
    REDUCER(op##_f, float, int32_t, int64_t, i, ID, STEP, STEP, MORE_ROWS)                                   \
    REDUCER(op##_d, double, int64_t, int64_t, i, ID, STEP, STEP, MORE_ROWS)                                  \
    static const reducer op##_reducers[MT_DTYPES] = {                                                        \
        USE(op##_b, i, ID), USE(op##_i, i, ID), USE(op##_l, i, ID), USE(op##_f, i, ID), USE(op##_d, i, ID)};
TRUTHS(any, ANY, 0)
TRUTHS(all, ALL, 1)

/* --------------------------------------------------------------------------------------------- the iteration */

typedef struct job {
    const reducer *how;
    const char *from;
    mt_tensor *to;
    int64_t item; /* bytes of an input element */
    int kept, reduced;
    int64_t kept_dims[MT_MAX_RANK], kept_strides[MT_MAX_RANK];
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK]; /* reduced: outermost first */
    int64_t count;                                   /* elements per output */
    int64_t blocks;                                  /* of columns; 0: by runs */
    int64_t together;                                /* short rows that are reduced as one; 0: none */
    double divisor;                                  /* of means; 0: none */
    int64_t height;                                  /* of a piece: rows */
    number *parts;                                   /* of a single sum, or of pieces */
} job;

/* Appends a dim, merged with the previous one if that steps over it exactly. */
static void append(int64_t *dims, int64_t *strides, int *n, int64_t dim, int64_t stride)
{
    if (*n > 0 && strides[*n - 1] == stride * dim) {
        dims[*n - 1] *= dim;
        strides[*n - 1] = stride;
        return;
    }
    dims[*n] = dim;
    strides[(*n)++] = stride;
}

static void plan(job *j, const mt_tensor *t, uint32_t mask)
{
    int order[MT_MAX_RANK], n = 0;
    for (int i = 0; i < t->rank; i++) {
        if (mask >> i & 1u) {
            if (t->dims[i] == 1)
                continue;
            int k = n++; /* by descending stride */
            for (; k > 0 && t->strides[order[k - 1]] < t->strides[i]; k--)
                order[k] = order[k - 1];
            order[k] = i;
        } else if (t->dims[i] != 1) {
            append(j->kept_dims, j->kept_strides, &j->kept, t->dims[i], t->strides[i]);
        }
    }
    for (int k = 0; k < n; k++)
        append(j->dims, j->strides, &j->reduced, t->dims[order[k]], t->strides[order[k]]);
    if (j->reduced == 0) {
        j->dims[0] = 1;
        j->strides[0] = 1;
        j->reduced = 1;
    }
    int last = j->kept - 1, inner = j->reduced - 1;
    if (last < 0 || j->kept_strides[last] != 1 || j->strides[inner] == 1)
        return;
    int64_t width = j->kept_dims[last];
    if (width <= COLUMNS / 4 && j->strides[inner] == width && j->dims[inner] >= 8 * COLUMNS / width)
        j->together = COLUMNS / width;
    if (width >= 4 || j->together > 0)
        j->blocks = (width + COLUMNS - 1) / COLUMNS;
}

static void store(const job *j, int64_t at, const number *acc, int64_t n)
{
    double divisor = j->divisor != 0 ? j->divisor : 1;
    bool f = j->how->floating;
#define STORE(T)                                                                                             \
    {                                                                                                        \
        T *to = (T *)j->to->data + at;                                                                       \
        if (f)                                                                                               \
            for (int64_t i = 0; i < n; i++)                                                                  \
                to[i] = (T)(acc[i].f / divisor);                                                             \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                  \
                to[i] = (T)acc[i].i;                                                                         \
        break;                                                                                               \
    }
    switch ((mt_dtype)j->to->dtype) {
    case MT_BOOL:
        STORE(bool);
    case MT_INT32:
        STORE(int32_t);
    case MT_INT64:
        STORE(int64_t);
    case MT_FLOAT32:
        STORE(float);
    case MT_FLOAT64:
        STORE(double);
    default:
        break;
    }
#undef STORE
}

/* Columns of the inner reduced dim. Short dense rows are joined, so that there are enough columns. */
static void reduce_rows(const job *j, const char *from, int64_t columns, number *acc)
{
    int inner = j->reduced - 1;
    int64_t rows = j->dims[inner], step = j->strides[inner], wide = j->together * columns, done = 0;
    if (j->together > 0) {
        number joined[COLUMNS];
        for (int64_t k = 0; k < wide; k++)
            joined[k] = j->how->identity;
        done = rows / j->together * j->together;
        j->how->columns(from, done / j->together, wide, wide, joined);
        for (int64_t k = 0; k < wide; k += columns)
            j->how->merge(acc, &joined[k], columns);
    }
    j->how->columns(from + done * step * j->item, rows - done, step, columns, acc);
}

/* Calls run, for `rows` outputs, or columns for every index of the outer reduced dims. */
static void gather(const job *j, const char *from, int64_t rows, int64_t columns, number *acc)
{
    int inner = j->reduced - 1;
    int64_t index[MT_MAX_RANK] = {0};
    if (j->count == 0)
        return;
    for (;;) {
        if (columns > 0)
            reduce_rows(j, from, columns, acc);
        else
            j->how->run(from, j->dims[inner], j->strides[inner], rows,
                        j->kept > 0 ? j->kept_strides[j->kept - 1] : 0, acc);
        int d = inner - 1;
        for (; d >= 0; d--) {
            from += j->strides[d] * j->item;
            if (++index[d] < j->dims[d])
                break;
            from -= j->strides[d] * j->item * j->dims[d];
            index[d] = 0;
        }
        if (d < 0)
            return;
    }
}

/* The input position of a kept index, over `kept` dims. */
static const char *find(const job *j, int64_t index, int kept)
{
    const char *from = j->from;
    for (int d = kept - 1; d >= 0; d--) {
        from += index % j->kept_dims[d] * j->kept_strides[d] * j->item;
        index /= j->kept_dims[d];
    }
    return from;
}

static void reduce_runs(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    number acc[COLUMNS];
    for (int64_t i = begin, n; i < end; i += n) { /* n outputs along the last kept dim */
        int64_t line = j->kept > 0 ? j->kept_dims[j->kept - 1] : 1, left = line - i % line;
        n = left < end - i ? left : end - i;
        n = n < COLUMNS ? n : COLUMNS;
        for (int64_t k = 0; k < n; k++)
            acc[k] = j->how->identity;
        gather(j, find(j, i, j->kept), n, 0, acc);
        store(j, i, acc, n);
    }
}

static void reduce_columns(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    int last = j->kept - 1;
    number acc[COLUMNS];
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / j->blocks, column = i % j->blocks * COLUMNS;
        int64_t n = j->kept_dims[last] - column < COLUMNS ? j->kept_dims[last] - column : COLUMNS;
        for (int64_t k = 0; k < n; k++)
            acc[k] = j->how->identity;
        gather(j, find(j, row, last) + column * j->item, 0, n, acc);
        store(j, row * j->kept_dims[last] + column, acc, n);
    }
}

/* A few blocks of columns, where rows are reduced in `pieces` of `height`, over the outermost reduced dim. */
static void reduce_pieces(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    job piece = *j;
    for (int64_t i = begin; i < end; i++) {
        int64_t column = i % j->blocks * COLUMNS, row = i / j->blocks * j->height;
        int64_t n = j->kept_dims[0] - column < COLUMNS ? j->kept_dims[0] - column : COLUMNS;
        number *acc = j->parts + i * COLUMNS;
        for (int64_t k = 0; k < n; k++)
            acc[k] = j->how->identity;
        piece.dims[0] = j->dims[0] - row < j->height ? j->dims[0] - row : j->height;
        gather(&piece, j->from + (row * j->strides[0] + column) * j->item, 0, n, acc);
    }
}

/* False: there are blocks enough, or too few elements. */
static bool reduce_tall(job *j)
{
    number parts[MOST_PIECES * COLUMNS];
    if (j->blocks == 0 || j->kept != 1 || j->blocks > MOST_PIECES / 2)
        return false;
    int64_t pieces = j->count * j->kept_dims[0] / PART;
    pieces = pieces < MOST_PIECES / j->blocks ? pieces : MOST_PIECES / j->blocks;
    pieces = pieces < j->dims[0] ? pieces : j->dims[0];
    if (pieces < 2)
        return false;
    j->parts = parts;
    j->height = (j->dims[0] + pieces - 1) / pieces;
    pieces = (j->dims[0] + j->height - 1) / j->height;
    mt__parallel(pieces * j->blocks, 1, reduce_pieces, j);
    for (int64_t b = 0; b < j->blocks; b++) {
        int64_t n = j->kept_dims[0] - b * COLUMNS < COLUMNS ? j->kept_dims[0] - b * COLUMNS : COLUMNS;
        for (int64_t i = 1; i < pieces; i++)
            j->how->merge(&parts[b * COLUMNS], &parts[(i * j->blocks + b) * COLUMNS], n);
        store(j, b * COLUMNS, &parts[b * COLUMNS], n);
    }
    return true;
}

static void reduce_parts(int64_t begin, int64_t end, void *user)
{
    job *j = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = j->dims[0] - i * PART < PART ? j->dims[0] - i * PART : PART;
        j->parts[i] = j->how->identity;
        j->how->run(j->from + i * PART * j->strides[0] * j->item, n, j->strides[0], 1, 0, &j->parts[i]);
    }
}

static mt_status reduce_one(job *j)
{
    int64_t n = (j->dims[0] + PART - 1) / PART;
    number few[64], total = j->how->identity;
    j->parts = n <= 64 ? few : malloc((size_t)n * sizeof *j->parts);
    if (j->parts == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a reduction of %lld elements", (long long)j->dims[0]);
    mt__parallel(n, 1, reduce_parts, j);
    for (int64_t i = 0; i < n; i++)
        j->how->merge(&total, &j->parts[i], 1);
    store(j, 0, &total, 1);
    if (j->parts != few)
        free(j->parts);
    return MT_OK;
}

static mt_status reduce(mt__call *call, const mt_tensor *t, const reducer *of_dtype, bool mean)
{
    mt__reduction r;
    mt_status status = mt__reduction_of(call, &r);
    if (status != MT_OK)
        return status;
    job j = {.how = &of_dtype[t->dtype],
             .from = t->data,
             .to = call->outs[0],
             .item = (int64_t)mt__size_of(t),
             .count = r.count};
    if (mean)
        j.divisor = r.count != 0 ? (double)r.count : NAN;
    int64_t outputs = call->outs[0]->numel;
    if (outputs == 0)
        return MT_OK;
    plan(&j, t, r.mask);
    if (outputs == 1 && j.reduced == 1 && j.dims[0] > PART)
        return reduce_one(&j);
    if (reduce_tall(&j))
        return MT_OK;
    int64_t items = j.blocks > 0 ? outputs / j.kept_dims[j.kept - 1] * j.blocks : outputs;
    int64_t weight = (r.count > 0 ? r.count : 1) * (j.blocks > 0 ? COLUMNS : 1);
    if (items * weight <= GRAIN)
        (j.blocks > 0 ? reduce_columns : reduce_runs)(0, items, &j);
    else
        mt__parallel(items, weight < GRAIN ? GRAIN / weight : 1, j.blocks > 0 ? reduce_columns : reduce_runs,
                     &j);
    return MT_OK;
}

/* Sums and products convert the input to the output's dtype, except that integers of any
 * width become int64. */
static mt_status reduce_cast(mt__call *call, const reducer *of_dtype, bool mean)
{
    const mt_tensor *self = mt__arg_tensor(call, 0);
    mt_dtype to = (mt_dtype)call->outs[0]->dtype;
    if (self->dtype == to || (to == MT_INT64 && self->dtype < MT_INT64))
        return reduce(call, self, of_dtype, mean);
    mt_tensor *cast;
    mt_status status = mt__cast(self, to, &cast);
    if (status != MT_OK)
        return status;
    status = reduce(call, cast, of_dtype, mean);
    mt_release(cast);
    return status;
}

mt_status mt__cpu_sum(mt__call *call)
{
    return reduce_cast(call, sum_reducers, false);
}
mt_status mt__cpu_mean(mt__call *call)
{
    return reduce_cast(call, sum_reducers, true);
}
mt_status mt__cpu_prod(mt__call *call)
{
    return reduce_cast(call, prod_reducers, false);
}
mt_status mt__cpu_amax(mt__call *call)
{
    return reduce(call, mt__arg_tensor(call, 0), max_reducers, false);
}
mt_status mt__cpu_amin(mt__call *call)
{
    return reduce(call, mt__arg_tensor(call, 0), min_reducers, false);
}
mt_status mt__cpu_max(mt__call *call)
{
    return mt__cpu_amax(call);
}
mt_status mt__cpu_min(mt__call *call)
{
    return mt__cpu_amin(call);
}
mt_status mt__cpu_any(mt__call *call)
{
    return reduce(call, mt__arg_tensor(call, 0), any_reducers, false);
}
mt_status mt__cpu_all(mt__call *call)
{
    return reduce(call, mt__arg_tensor(call, 0), all_reducers, false);
}
