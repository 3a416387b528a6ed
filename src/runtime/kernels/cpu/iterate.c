/* kernels/cpu/iterate.c - the implementation of iterate.h.
 *
 * Invariant of a running plan: rank >= 1, no dim has size 1 unless it is the only one, and element k of
 * operand j is at data[j] plus the sum of index * steps[j].
 */
#include "runtime/kernels/cpu/iterate.h"
#include "runtime/narrow.h"

#define BLOCK 512 /* elements cast at a time */
#define SHORT 64  /* rows of at most so many elements are joined */

/* ----------------------------------------------------------------------------------------------- planning */

void mt__plan_begin(mt__plan *p, const mt_tensor *out, mt_dtype gives)
{
    p->count = 1;
    p->rank = out->rank;
    p->numel = out->numel;
    p->out = out;
    p->has[0] = out->dtype;
    p->wants[0] = (uint8_t)gives;
    p->casts = out->dtype != gives;
    p->data[0] = out->data;
    int64_t size = (int64_t)mt__size_of(out);
    for (int i = 0; i < out->rank; i++) {
        p->dims[i] = out->dims[i];
        p->steps[0][i] = out->strides[i] * size;
    }
}

static void add_scalar(mt__plan *p, mt_dtype wants)
{
    int k = p->count++;
    p->has[k] = p->wants[k] = (uint8_t)wants;
    p->data[k] = (char *)&p->scalars[k];
    memset(p->steps[k], 0, sizeof p->steps[k]);
}

void mt__plan_add_tensor(mt__plan *p, const mt_tensor *t, mt_dtype wants)
{
    int k = p->count;
    if (t->numel == 1 && p->numel > 0 && (t->dtype != wants || p->numel > 1)) {
        static const int64_t still[2] = {0, 0};
        char *const pair[2] = {(char *)&p->scalars[k], t->data};
        mt__cast_loop(wants, (mt_dtype)t->dtype)(pair, still, 1, NULL);
        add_scalar(p, wants);
        return;
    }
    p->count++;
    p->has[k] = t->dtype;
    p->wants[k] = (uint8_t)wants;
    p->casts |= t->dtype != wants;
    p->data[k] = t->data;
    int64_t size = (int64_t)mt__size_of(t);
    int lead = p->rank - t->rank;
    for (int i = 0; i < p->rank; i++)
        p->steps[k][i] = i < lead || t->dims[i - lead] == 1 ? 0 : t->strides[i - lead] * size;
}

void mt__plan_add(mt__plan *p, const mt_value *v, mt_dtype wants)
{
    if (v->kind == MT_TENSOR) {
        mt__plan_add_tensor(p, v->as.tensor, wants);
    } else {
        p->scalars[p->count] = mt__scalar_of(wants, v);
        add_scalar(p, wants);
    }
}

static void swap_dims(mt__plan *p, int a, int b)
{
    int64_t d = p->dims[a];
    p->dims[a] = p->dims[b];
    p->dims[b] = d;
    for (int k = 0; k < p->count; k++) {
        int64_t s = p->steps[k][a];
        p->steps[k][a] = p->steps[k][b];
        p->steps[k][b] = s;
    }
}

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

/* Should dim a be nested inside dim b > a? By the output's strides, then the inputs'. */
static bool belongs_inside(const mt__plan *p, int a, int b)
{
    for (int k = 0; k < p->count; k++) {
        int64_t sa = magnitude(p->steps[k][a]), sb = magnitude(p->steps[k][b]);
        if (sa != 0 && sb != 0 && sa != sb)
            return sa < sb;
    }
    return false;
}

static bool merges(const mt__plan *p, int outer, int inner)
{
    for (int k = 0; k < p->count; k++)
        if (p->steps[k][outer] != p->steps[k][inner] * p->dims[inner])
            return false;
    return true;
}

/* Drops dims of size 1, makes small strides innermost, merges dims that form one run. */
static void simplify(mt__plan *p)
{
    int n = 0;
    for (int i = 0; i < p->rank; i++)
        if (p->dims[i] != 1) {
            if (n != i)
                swap_dims(p, n, i);
            n++;
        }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && belongs_inside(p, j - 1, j); j--)
            swap_dims(p, j - 1, j);
    int last = 0;
    for (int i = 1; i < n; i++) {
        if (merges(p, last, i)) {
            p->dims[last] *= p->dims[i];
            for (int k = 0; k < p->count; k++)
                p->steps[k][last] = p->steps[k][i];
        } else if (++last != i) {
            swap_dims(p, last, i);
        }
    }
    if (n == 0) {
        p->dims[0] = 1;
        for (int k = 0; k < p->count; k++)
            p->steps[k][0] = 0;
    }
    p->rank = n == 0 ? 1 : last + 1;
}

/* ------------------------------------------------------------------------------------------------ walking */

static void cast_row(const mt__plan *p, char *const *at, const int64_t *step, int64_t n)
{
    _Alignas(64) int64_t room[MT__OPERANDS][BLOCK];
    char *now[MT__OPERANDS];
    int64_t steps[MT__OPERANDS];
    for (int64_t done = 0; done < n; done += BLOCK) {
        int64_t part = n - done < BLOCK ? n - done : BLOCK;
        for (int k = 0; k < p->count; k++) {
            char *from = at[k] + done * step[k];
            bool cast = p->has[k] != p->wants[k];
            now[k] = cast ? (char *)room[k] : from;
            steps[k] = cast ? (int64_t)mt_dtype_bytes((mt_dtype)p->wants[k]) : step[k];
            if (cast && k > 0)
                mt__cast_loop((mt_dtype)p->wants[k], (mt_dtype)p->has[k])(
                    (char *const[]){now[k], from}, (const int64_t[]){steps[k], step[k]}, part, NULL);
        }
        p->loop(now, steps, part, p->user);
        if (p->has[0] != p->wants[0])
            mt__cast_loop((mt_dtype)p->has[0],
                          (mt_dtype)p->wants[0])((char *const[]){at[0] + done * step[0], now[0]},
                                                 (const int64_t[]){step[0], steps[0]}, part, NULL);
    }
}

static inline void walk_row(const mt__plan *p, char *const *at, const int64_t *step, int64_t n)
{
    if (p->casts)
        cast_row(p, at, step, n);
    else
        p->loop(at, step, n, p->user);
}

/* Rows of n, which are one step of the dim before the last apart; moves `at` behind them. */
static void walk_rows(const mt__plan *p, char **at, const int64_t *step, int64_t n, int64_t rows)
{
    const int outer = p->rank - 2;
    for (int64_t r = 0; r < rows; r++) {
        walk_row(p, at, step, n);
        for (int k = 0; k < p->count; k++)
            at[k] += p->steps[k][outer];
    }
}

static void walk(int64_t begin, int64_t end, void *user)
{
    const mt__plan *p = user;
    int last = p->rank - 1;
    int64_t index[MT_MAX_RANK], step[MT__OPERANDS], rest = begin;
    char *at[MT__OPERANDS];
    for (int k = 0; k < p->count; k++) {
        at[k] = p->data[k];
        step[k] = p->steps[k][last];
    }
    for (int d = last; d >= 0; d--) {
        index[d] = rest % p->dims[d];
        rest /= p->dims[d];
        for (int k = 0; k < p->count; k++)
            at[k] += index[d] * p->steps[k][d];
    }
    while (begin < end) {
        int64_t n = p->dims[last] - index[last], rows = 1;
        n = n < end - begin ? n : end - begin;
        if (last > 0 && n == p->dims[last]) { /* whole rows, up to the end of the next dim */
            rows = (end - begin) / n;
            rows = rows < p->dims[last - 1] - index[last - 1] ? rows : p->dims[last - 1] - index[last - 1];
            walk_rows(p, at, step, n, rows);
            index[last - 1] += rows;
        } else {
            walk_row(p, at, step, n);
            index[last] += n;
            for (int k = 0; k < p->count; k++)
                at[k] += n * step[k];
        }
        begin += n * rows;
        for (int d = last; d > 0 && (index[d] == p->dims[d] || d == last); d--) {
            if (index[d] != p->dims[d])
                continue;
            index[d] = 0;
            index[d - 1]++;
            for (int k = 0; k < p->count; k++)
                at[k] += p->steps[k][d - 1] - p->dims[d] * p->steps[k][d];
        }
    }
}

/* ------------------------------------------------------------------------------------------- short rows */

/* Is it rows of a few elements, one after the other, where some operands are the same for every row? */
static bool repeats_rows(const mt__plan *p)
{
    bool any = false;
    if (p->rank != 2 || p->casts || p->dims[1] > SHORT || p->dims[0] < 8 ||
        p->steps[0][1] != (int64_t)mt_dtype_bytes((mt_dtype)p->has[0]))
        return false;
    for (int k = 0; k < p->count; k++) {
        bool same = p->steps[k][0] == 0 && k > 0;
        if (!same && p->steps[k][0] != p->steps[k][1] * p->dims[1])
            return false;
        any |= same && p->steps[k][1] != 0;
    }
    return any;
}

/* Joins many rows into one, so that the loop is called less often: repeats the operands that all rows share. */
__attribute__((noinline)) static void run_repeated(mt__plan *p)
{
    _Alignas(64) int64_t room[MT__OPERANDS][BLOCK];
    int64_t n = p->dims[1], rows = p->dims[0], many = BLOCK / n < rows ? BLOCK / n : rows;
    for (int k = 1; k < p->count; k++) {
        size_t size = mt_dtype_bytes((mt_dtype)p->has[k]);
        if (p->steps[k][0] != 0 || p->steps[k][1] == 0)
            continue;
        for (int64_t i = 0; i < n * many; i++)
            memcpy((char *)room[k] + (size_t)i * size, p->data[k] + i % n * p->steps[k][1], size);
        p->data[k] = (char *)room[k];
        p->steps[k][1] = (int64_t)size;
    }
    for (int k = 0; k < p->count; k++)
        p->steps[k][0] *= many;
    p->dims[1] = n * many;
    p->dims[0] = rows / many;
    p->numel = p->dims[0] * p->dims[1];
    mt__parallel(p->numel, MT__GRAIN, walk, p);
    for (int k = 0; k < p->count; k++)
        p->data[k] += p->dims[0] * p->steps[k][0];
    p->numel = p->dims[0] = rows % many * n; /* the rest, as one row */
    p->rank = 1;
    for (int k = 0; k < p->count; k++)
        p->steps[k][0] = p->steps[k][1];
    if (p->numel > 0)
        walk(0, p->numel, p);
}

/* -------------------------------------------------------------------------------------- transposed operands */

#define STRIP MT__TURN_ROWS /* rows, */
#define WIDTH 128           /* and columns of a block */

/* Does the operand run down the columns? */
static bool runs_down(const mt__plan *p, int k)
{
    int64_t size = (int64_t)mt_dtype_bytes((mt_dtype)p->has[k]);
    return size >= 4 && p->steps[k][p->rank - 2] == size && magnitude(p->steps[k][p->rank - 1]) >= 64;
}

/* Does an input run down the columns, while the output runs along the rows? */
static bool crosses(const mt__plan *p)
{
    bool any = false;
    if (p->rank < 2 || p->dims[p->rank - 2] < STRIP || p->dims[p->rank - 1] < 2 * STRIP)
        return false;
    for (int k = 1; k < p->count; k++)
        any |= runs_down(p, k);
    return any && !runs_down(p, 0);
}

/* Rows of a block at `from`: such inputs are transposed first. */
static void walk_block(const mt__plan *p, char *const *from, int64_t rows, int64_t columns)
{
    _Alignas(64) char room[MT__OPERANDS - 1][STRIP * WIDTH * 8];
    char *at[MT__OPERANDS];
    int64_t step[MT__OPERANDS], down[MT__OPERANDS];
    for (int k = 0; k < p->count; k++) {
        at[k] = from[k];
        step[k] = p->steps[k][p->rank - 1];
        down[k] = p->steps[k][p->rank - 2];
        if (k > 0 && runs_down(p, k)) {
            size_t size = mt_dtype_bytes((mt_dtype)p->has[k]);
            mt__turn(room[k - 1], (int64_t)size * WIDTH, from[k], step[k], rows, columns, size);
            at[k] = room[k - 1];
            step[k] = (int64_t)size;
            down[k] = (int64_t)size * WIDTH;
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        walk_row(p, at, step, columns);
        for (int k = 0; k < p->count; k++)
            at[k] += down[k];
    }
}

/* Strips of rows, over all outer dims. */
static void walk_strips(int64_t begin, int64_t end, void *user)
{
    const mt__plan *p = user;
    const int outer = p->rank - 2, last = p->rank - 1;
    int64_t strips = (p->dims[outer] + STRIP - 1) / STRIP;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % strips * STRIP, rest = i / strips;
        int64_t rows = p->dims[outer] - row < STRIP ? p->dims[outer] - row : STRIP;
        char *at[MT__OPERANDS];
        for (int k = 0; k < p->count; k++)
            at[k] = p->data[k] + row * p->steps[k][outer];
        for (int d = outer - 1; d >= 0; d--) {
            for (int k = 0; k < p->count; k++)
                at[k] += rest % p->dims[d] * p->steps[k][d];
            rest /= p->dims[d];
        }
        for (int64_t c = 0; c < p->dims[last]; c += WIDTH) {
            walk_block(p, at, rows, p->dims[last] - c < WIDTH ? p->dims[last] - c : WIDTH);
            for (int k = 0; k < p->count; k++)
                at[k] += WIDTH * p->steps[k][last];
        }
    }
}

static void run_strips(mt__plan *p)
{
    int64_t columns = p->dims[p->rank - 1], rows = p->dims[p->rank - 2];
    int64_t strips = p->numel / (rows * columns) * ((rows + STRIP - 1) / STRIP);
    mt__parallel(strips, MT__GRAIN_OF(STRIP * columns), walk_strips, p);
}

void mt__plan_run(mt__plan *p, mt__loop *loop, const void *user)
{
    if (p->numel == 0)
        return;
    simplify(p);
    p->loop = loop;
    p->user = user;
    if (repeats_rows(p))
        run_repeated(p);
    else if (crosses(p))
        run_strips(p);
    else if (p->numel > MT__GRAIN)
        mt__parallel(p->numel, MT__GRAIN, walk, p);
    else
        walk(0, p->numel, p);
}

mt_status mt__refuse_dtype(const mt__call *call)
{
    return mt__fail(MT_E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", mt__op_short_name(call->op),
                    mt__asked_dtype(call, call->compute));
}
