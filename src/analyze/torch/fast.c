/* analyze/torch/fast.c - averages of the plain case: nested scopes of our own recording, and nothing else.
 *
 * No stack, and no memory per event (new pages cost more than the arithmetic): each event is added to its row
 * and subtracted from its parent's self time; a row counts its times in buckets. A second pass over the
 * columns gathers the few times in the buckets of the quantiles. If a parent and a child have the same name,
 * torch's rule for only children might apply, and the general walk takes over.
 */
#include <string.h>
#include "analyze/torch/rules.h"
#include "analyze/buckets.h"
#include "base/error.h"
#include "base/os.h"

#define ROWS_MAX 2048u /* their buckets take 15 MB */
#define QUANTILES 2

static const unsigned percent[QUANTILES] = {50, 99};

typedef enum outcome {
    DONE,
    UNFIT, /* not the plain case */
    FAILED /* out of memory */
} outcome;

/* Where a row's quantile lies: times in [low, low + width) are stored at *next. */
typedef struct target {
    uint64_t low, width;
    uint64_t *next, *first; /* in fast.times; width 0: to a dummy */
    size_t rank;            /* among those */
} target;

typedef struct fast {
    mtp__group *g;
    mtp__scratch row_of;         /* uint32_t by place_of(): row + 1 */
    mtp__scratch buckets;        /* uint32_t[MTP__BUCKETS] by row */
    uint32_t room;               /* rows reserved in buckets */
    target (*target)[QUANTILES]; /* owned: by row */
    mtp__scratch times;
} fast;

/* What can make two rows of one name: annotations, Python functions, the rest. (If two of them share a row,
 * the group sorts it out.) By comparison, as a table of classes would cost one more load per event. */
#define KINDS 4
static inline size_t place_of(uint32_t name, uint8_t category)
{
    return KINDS * (size_t)name + (category == MTP__CATEGORY_USER_ANNOTATION) +
           2 * (size_t)(category == MTP__CATEGORY_PYTHON_FUNCTION);
}

static bool has_filtered(const mtp_trace *t)
{
    for (const char *const *known = mtp__filtered_names; *known != NULL; known++)
        if (mtp__trace_find_text(t, *known) != 0)
            return true;
    return false;
}

static bool is_fit(const mtp__walk *w)
{
    const mtp_trace *t = w->g->t;
    for (uint32_t k = 0; k < t->track_count; k++)
        if (t->tracks[k].on_device && t->tracks[k].count > 0)
            return false;
    return !w->exact && w->bytes == NULL && w->launched->us.p == NULL && w->launched->order.p == NULL &&
           t->shape_count <= 1 && !w->flops && w->g->plain && !w->g->options->top_level_only &&
           t->unfinished < 2 && !has_filtered(t);
}

/* ------------------------------------------------------------------------------------------------- rows */

static bool more_buckets(fast *f)
{
    mtp__scratch grown = {0};
    uint32_t room = f->room != 0 ? f->room * 2 : 128;
    if (!mtp__scratch_make(&grown, room, MTP__BUCKETS * sizeof(uint32_t)))
        return false;
    if (f->room > 0)
        memcpy(grown.p, f->buckets.p, (size_t)f->room * MTP__BUCKETS * sizeof(uint32_t));
    mtp__scratch_free(&f->buckets);
    f->buckets = grown;
    f->room = room;
    return true;
}

/* A name seen for the first time. */
static outcome new_row(fast *f, uint32_t span, size_t place)
{
    uint32_t name = f->g->t->name[span];
    unsigned class = mtp__group_class(f->g, span);
    if (class >= MTP__CLASS_DEVICE)
        return UNFIT;
    uint32_t key = mtp__group_key(f->g, name);
    uint32_t row = f->g->failed ? MTP__NONE : mtp__group_row(f->g, key, class, MTP__NONE);
    if (row == MTP__NONE || (row >= f->room && !more_buckets(f)))
        return FAILED;
    if (row >= ROWS_MAX)
        return UNFIT;
    ((uint32_t *)f->row_of.p)[place] = row + 1;
    return DONE;
}

static void note_first(mtp__sum *s, const mtp_trace *t, uint32_t span)
{
    if (t->start[span] == s->first_start && t->end[span] <= s->first_end)
        return;
    s->first_start = t->start[span];
    s->first_end = t->end[span];
    s->first_span = span;
    s->nested = t->parent[span] != MTP__NONE;
}

static outcome add_thread(fast *f, struct mtp__torch_thread thread)
{
    const mtp_trace *t = f->g->t;
    const int64_t *start = t->start, *end = t->end;
    const uint32_t *name = t->name, *parent = t->parent, *row_of = f->row_of.p;
    const uint8_t *category = t->category;
    mtp__sum *sum = f->g->sum;
    uint32_t *buckets = f->buckets.p;
    for (uint32_t i = thread.first; i < thread.first + thread.count; i++) {
        size_t place = place_of(name[i], category[i]);
        uint32_t row = row_of[place];
        if (__builtin_expect(row == 0, 0)) {
            outcome is = new_row(f, i, place);
            if (is != DONE)
                return is;
            row = row_of[place];
            sum = f->g->sum;
            buckets = f->buckets.p;
        }
        mtp__sum *s = &sum[row - 1];
        int64_t ns = mtp__minus(end[i], start[i]);
        s->count++;
        mtp__count(&s->total_ns, ns);
        mtp__count(&s->self_ns, ns);
        s->min_ns = ns < s->min_ns ? ns : s->min_ns;
        s->max_ns = ns > s->max_ns ? ns : s->max_ns;
        if (__builtin_expect(start[i] <= s->first_start, 0))
            note_first(s, t, i);
        buckets[(size_t)(row - 1) * MTP__BUCKETS + mtp__bucket_of((uint64_t)ns)]++;
        uint32_t p = parent[i];
        if (p == MTP__NONE)
            continue;
        if (__builtin_expect(name[p] == name[i], 0))
            return UNFIT;
        mtp__sum *around = &sum[row_of[place_of(name[p], category[p])] - 1];
        around->self_ns = mtp__minus(around->self_ns, ns);
    }
    return DONE;
}

/* --------------------------------------------------------------------------------------------- quantiles */

/* Sets the targets of a row; returns how many times they will receive. */
static size_t aim(target *to, const uint32_t *buckets, size_t count, int64_t *known[QUANTILES])
{
    size_t before = 0, gathered = 0;
    unsigned bucket = 0;
    for (unsigned q = 0; q < QUANTILES; q++) {
        size_t rank = mtp__rank(count, percent[q]);
        while (before + buckets[bucket] <= rank)
            before += buckets[bucket++];
        unsigned bits = mtp__bucket_bits(bucket);
        to[q] = (target){.low = mtp__bucket_low(bucket), .rank = rank - before};
        *known[q] = (int64_t)to[q].low;
        if (bits > 0 && buckets[bucket] > 0) {
            to[q].width = (uint64_t)1 << bits;
            gathered += buckets[bucket];
        }
    }
    return gathered;
}

static bool set_targets(fast *f)
{
    size_t gathered = 0;
    f->target = mtp__calloc((size_t)f->g->sums + 1, sizeof *f->target);
    if (f->target == NULL)
        return false;
    const uint32_t *buckets = f->buckets.p;
    for (uint32_t r = 0; r < f->g->sums; r++) {
        mtp__sum *s = &f->g->sum[r];
        int64_t *known[QUANTILES] = {&s->p50_ns, &s->p99_ns};
        gathered += aim(f->target[r], buckets + (size_t)r * MTP__BUCKETS, (size_t)s->count, known);
    }
    if (!mtp__scratch_make(&f->times, gathered + 1, sizeof(uint64_t)))
        return false;
    uint64_t *at = (uint64_t *)f->times.p + 1; /* [0] is the dummy */
    for (uint32_t r = 0; r < f->g->sums; r++)
        for (unsigned q = 0; q < QUANTILES; q++) {
            target *to = &f->target[r][q];
            to->next = to->first = to->width > 0 ? at : f->times.p;
            if (to->width > 0)
                at += buckets[(size_t)r * MTP__BUCKETS + mtp__bucket_of(to->low)];
        }
    return true;
}

/* Every time is written to its target's next slot, and kept only if it belongs there. */
static void gather(fast *f, struct mtp__torch_thread thread)
{
    const mtp_trace *t = f->g->t;
    const uint32_t *row_of = f->row_of.p;
    uint64_t *end = (uint64_t *)f->times.p + f->times.bytes / sizeof(uint64_t) - 1;
    for (uint32_t i = thread.first; i < thread.first + thread.count; i++) {
        uint64_t ns = (uint64_t)mtp__duration(t, i);
        target *to = f->target[row_of[place_of(t->name[i], t->category[i])] - 1];
        for (unsigned q = 0; q < QUANTILES; q++) {
            bool inside = ns - to[q].low < to[q].width;
            uint64_t *at = inside ? to[q].next : end;
            *at = ns;
            to[q].next += inside;
        }
    }
}

static void find_quantiles(fast *f)
{
    for (uint32_t r = 0; r < f->g->sums; r++) {
        mtp__sum *s = &f->g->sum[r];
        int64_t *out[QUANTILES] = {&s->p50_ns, &s->p99_ns};
        for (unsigned q = 0; q < QUANTILES; q++) {
            target *to = &f->target[r][q];
            if (to->width > 0)
                *out[q] = (int64_t)mtp__select(to->first, (size_t)(to->next - to->first), to->rank, to->low,
                                               (unsigned)__builtin_ctzll(to->width));
        }
    }
}

/* ---------------------------------------------------------------------------------------------------- all */

static outcome run(fast *f, const mtp__launched *launched)
{
    size_t texts = (size_t)mtp__intern_count(&f->g->t->text) + 1;
    if (!mtp__scratch_make(&f->row_of, texts, KINDS * sizeof(uint32_t)) || !more_buckets(f))
        return FAILED;
    outcome is = DONE;
    for (uint32_t n = 0; n < launched->threads && is == DONE; n++)
        is = add_thread(f, launched->thread[n]);
    if (is != DONE)
        return is;
    if (!set_targets(f))
        return FAILED;
    for (uint32_t n = 0; n < launched->threads; n++)
        gather(f, launched->thread[n]);
    find_quantiles(f);
    return DONE;
}

mtp_status mtp__fast_sums(mtp__walk *w, bool *done)
{
    *done = false;
    if (!is_fit(w))
        return MTP_OK;
    fast f = {.g = w->g};
    outcome is = run(&f, w->launched);
    mtp__scratch_free(&f.row_of);
    mtp__scratch_free(&f.buckets);
    mtp__scratch_free(&f.times);
    mtp__free(f.target);
    if (is == FAILED)
        return MTP_FAIL(MTP_E_NOMEM, "averages of %u spans", w->g->t->span_count);
    if (is == UNFIT)
        mtp__group_reset(w->g);
    *done = is == DONE;
    return MTP_OK;
}
