/* analyze/diff/diff.c - two traces compared row by row: runs all parts in order; the public calls. A diff is
 * immutable. */
#include "analyze/diff/diff.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"

/* ----------------------------------------------------------------------------------------- rows in pairs */

typedef struct row_key {
    uint32_t key, shape;
    uint32_t class;
    uint32_t row, after; /* after: 0 or 1 */
} row_key;

static int by_key(const row_key *x, const row_key *y)
{
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->shape != y->shape)
        return x->shape < y->shape ? -1 : 1;
    return (x->class > y->class) - (x->class < y->class);
}

static int by_key_and_side(const void *a, const void *b)
{
    const row_key *x = a, *y = b;
    int order = by_key(x, y);
    return order != 0 ? order : (int)x->after - (int)y->after;
}

/* Ids refer to the texts shared by both sides. */
static void fill_sums(mtp_diff *d, mtp__diff_pair *r)
{
    mtp_diff_row *s = &r->shown;
    const mtp__sum *sum[2] = {r->before != MTP__NONE ? &d->calls[0].group.sum[r->before] : NULL,
                              r->after != MTP__NONE ? &d->calls[1].group.sum[r->after] : NULL};
    const mtp__sum *any = sum[0] != NULL ? sum[0] : sum[1];
    if (any == NULL)
        return; /* a row is on at least one side */
    const mtp__intern_entry *key = mtp__intern_get(&d->text, any->key);
    const mtp__intern_entry *shape = any->shape != 0 ? mtp__intern_get(&d->text, any->shape) : NULL;
    s->key = (const char *)key->bytes;
    s->key_length = key->length;
    s->input_shapes = shape != NULL ? (const char *)shape->bytes : "";
    s->input_shapes_length = shape != NULL ? shape->length : 0;
    s->is_device = any->class >= MTP__CLASS_DEVICE;
    s->is_user_annotation =
        any->class == MTP__CLASS_CPU_ANNOTATION || any->class == MTP__CLASS_DEVICE_ANNOTATION;
    for (int k = 0; k < 2; k++) {
        if (sum[k] == NULL)
            continue;
        double total = (double)sum[k]->total_ns / 1000;
        double self = s->is_device ? total : (double)sum[k]->self_ns / 1000, count = (double)sum[k]->count;
        *(k == 0 ? &s->count_before : &s->count_after) = (uint64_t)sum[k]->count;
        *(k == 0 ? &s->total_before : &s->total_after) = total;
        *(k == 0 ? &s->self_before : &s->self_after) = self;
        *(k == 0 ? &s->time_before : &s->time_after) = count > 0 ? total / count : 0;
        *(k == 0 ? &s->own_before : &s->own_after) = count > 0 ? self / count : 0;
    }
    if (sum[0] == NULL || sum[1] == NULL)
        s->verdict = s->own_verdict = sum[0] == NULL ? MTP_VERDICT_NEW : MTP_VERDICT_GONE;
}

static mtp_status pair_rows(mtp_diff *d)
{
    size_t all = (size_t)d->calls[0].group.sums + d->calls[1].group.sums, n = 0;
    row_key *keys = mtp__calloc(all + 1, sizeof *keys);
    d->row = mtp__calloc(all + 1, sizeof *d->row);
    if (keys == NULL || d->row == NULL) {
        mtp__free(keys);
        return MTP_FAIL(MTP_E_NOMEM, "%zu rows", all);
    }
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t r = 0; r < d->calls[k].group.sums; r++) {
            const mtp__sum *s = &d->calls[k].group.sum[r];
            bool has_calls = d->calls[k].first[r] < d->calls[k].first[r + 1];
            if (has_calls)
                keys[n++] = (row_key){s->key, s->shape, s->class, r, k};
        }
    qsort(keys, n, sizeof *keys, by_key_and_side);
    for (size_t i = 0; i < n; i++) {
        bool pair = i + 1 < n && by_key(&keys[i], &keys[i + 1]) == 0;
        mtp__diff_pair *r = &d->row[d->count++];
        r->before = keys[i].after == 0 ? keys[i].row : MTP__NONE;
        r->after = keys[i].after == 1 ? keys[i].row : pair ? keys[i + 1].row : MTP__NONE;
        fill_sums(d, r);
        i += pair;
    }
    mtp__free(keys);
    return MTP_OK;
}

/* ----------------------------------------------------------------------------------------------- the order */

static int rank_of(const mtp__diff_pair *r)
{
    static const int rank[] = {
        [MTP_VERDICT_MORE_CALLS] = 0, [MTP_VERDICT_FEWER_CALLS] = 0, [MTP_VERDICT_SLOWER] = 0,
        [MTP_VERDICT_FASTER] = 0,     [MTP_VERDICT_NEW] = 1,         [MTP_VERDICT_GONE] = 1,
        [MTP_VERDICT_UNCERTAIN] = 2,  [MTP_VERDICT_SAME] = 3};
    return rank[r->shown.verdict];
}

static int by_cost(const void *a, const void *b)
{
    const mtp__diff_pair *x = a, *y = b;
    if (rank_of(x) != rank_of(y))
        return rank_of(x) - rank_of(y);
    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    size_t shorter = x->shown.key_length < y->shown.key_length ? x->shown.key_length : y->shown.key_length;
    int order = memcmp(x->shown.key, y->shown.key, shorter);
    if (order != 0)
        return order;
    if (x->shown.key_length != y->shown.key_length)
        return x->shown.key_length < y->shown.key_length ? -1 : 1;
    if (x->shown.is_device != y->shown.is_device)
        return x->shown.is_device ? 1 : -1;
    if (x->shown.is_user_annotation != y->shown.is_user_annotation)
        return x->shown.is_user_annotation ? 1 : -1;
    return strcmp(x->shown.input_shapes, y->shown.input_shapes);
}

/* The cost of a change, over all calls of the later run. Without a change: the row's time. */
static void put_in_order(mtp_diff *d)
{
    mtp_diff_summary *s = &d->summary;
    uint64_t *const count[] = {[MTP_VERDICT_SAME] = &s->same,
                               [MTP_VERDICT_FASTER] = &s->faster,
                               [MTP_VERDICT_SLOWER] = &s->slower,
                               [MTP_VERDICT_NEW] = &s->appeared,
                               [MTP_VERDICT_GONE] = &s->gone,
                               [MTP_VERDICT_UNCERTAIN] = &s->uncertain,
                               [MTP_VERDICT_MORE_CALLS] = &s->more_calls,
                               [MTP_VERDICT_FEWER_CALLS] = &s->fewer_calls};
    for (size_t i = 0; i < d->count; i++) {
        mtp__diff_pair *r = &d->row[i];
        bool changed = r->shown.verdict == MTP_VERDICT_SLOWER || r->shown.verdict == MTP_VERDICT_FASTER;
        bool calls =
            r->shown.verdict == MTP_VERDICT_MORE_CALLS || r->shown.verdict == MTP_VERDICT_FEWER_CALLS;
        r->cost = changed ? fabs(r->shown.time_after - r->shown.time_before) * (double)r->shown.count_after
                  : calls ? fabs(r->shown.self_after - r->shown.self_before)
                          : r->shown.self_before + r->shown.self_after;
        ++*count[r->shown.verdict];
    }
    s->rows = d->count;
    qsort(d->row, d->count, sizeof *d->row, by_cost);
}

/* ------------------------------------------------------------------------------------------------- calls */

static mtp_status make(mtp_diff *d, const mtp_trace *before, const mtp_trace *after)
{
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_input_shape = d->options.by_input_shape;
    d->comparer = mtp__comparer_create();
    if (d->comparer == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the samples of calls");
    mtp_status status = mtp__calls_init(&d->calls[0], before, &options, &d->text);
    if (status == MTP_OK)
        status = mtp__calls_init(&d->calls[1], after, &options, &d->text);
    if (status == MTP_OK)
        status = pair_rows(d);
    if (status == MTP_OK)
        status = mtp__diff_judge(d);
    if (status == MTP_OK)
        status = mtp__diff_count_calls(d);
    if (status == MTP_OK)
        put_in_order(d);
    mtp__calls_fini(&d->calls[0]);
    mtp__calls_fini(&d->calls[1]);
    mtp__comparer_destroy(d->comparer);
    d->comparer = NULL;
    return status;
}

mtp_status mtp_diff_create(const mtp_trace *before, const mtp_trace *after, const mtp_diff_options *options,
                           mtp_diff **out)
{
    mtp_diff_options known = MTP_DIFF_OPTIONS_INIT;
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = NULL;
    if (before == NULL || after == NULL)
        return MTP_FAIL(MTP_E_ARG, "a trace is NULL");
    mtp_status status = MTP__ABI_READ(&known, options, mtp_diff_options, max_drift);
    if (status != MTP_OK)
        return status;
    if (!(known.threshold > 0) || !(known.max_drift >= 0))
        return MTP_FAIL(MTP_E_ARG, "threshold %g must be above 0, and max_drift %g not negative",
                        known.threshold, known.max_drift);
    mtp_diff *d = mtp__calloc(1, sizeof *d);
    if (d == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a diff");
    d->options = known;
    d->summary = (mtp_diff_summary)MTP_DIFF_SUMMARY_INIT;
    mtp__intern_init(&d->text, 1, SIZE_MAX, NULL, NULL);
    status = make(d, before, after);
    d->written = d->count;
    if (status == MTP_OK)
        *out = d;
    else
        mtp_diff_destroy(d);
    return status;
}

void mtp_diff_destroy(mtp_diff *d)
{
    if (d == NULL)
        return;
    mtp__intern_fini(&d->text);
    mtp__free(d->row);
    mtp__free(d);
}

size_t mtp_diff_count(const mtp_diff *d)
{
    return d != NULL ? d->count : 0;
}

const mtp_diff_row *mtp_diff_row_at(const mtp_diff *d, size_t index)
{
    return d != NULL && index < d->count ? &d->row[index].shown : NULL;
}

mtp_status mtp_diff_get_summary(const mtp_diff *d, mtp_diff_summary *out)
{
    if (d == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "diff or out is NULL");
    mtp_status status = MTP__ABI_CHECK(out, mtp_diff_summary, fewer_calls);
    if (status == MTP_OK)
        mtp__abi_write(out, &d->summary, sizeof d->summary);
    return status;
}

bool mtp_diff_slower(const mtp_diff *d, double fraction)
{
    if (d == NULL)
        return false;
    for (size_t i = 0; i < d->count; i++)
        if ((d->row[i].shown.verdict == MTP_VERDICT_SLOWER &&
             mtp__judged_exceeds(&d->row[i].time, fraction)) ||
            (d->row[i].shown.verdict == MTP_VERDICT_MORE_CALLS &&
             d->row[i].shown.calls_change >= fraction - 1e-9))
            return true;
    if (d->summary.step_verdict == MTP_VERDICT_SLOWER && mtp__judged_exceeds(&d->steps, fraction))
        return true;
    return d->summary.drift_verdict == MTP_VERDICT_SLOWER && d->summary.drift >= fraction;
}
