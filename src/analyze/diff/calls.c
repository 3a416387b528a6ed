/* analyze/diff/calls.c - how often each op is called per step, and its time per step.
 *
 * The time of one call does not show that there are twice as many. Calls are counted per step: it is a change
 * only if every step of the later run has more than every step of the earlier one (or fewer), so a program
 * with varying counts is not flagged. Without steps, runs may be of any length, and the variation of counts
 * is unknown: a row must differ widely from the ratio that most rows share.
 */
#include <math.h>
#include <stdlib.h>
#include "analyze/diff/diff.h"
#include "base/bisect.h"
#include "base/error.h"
#include "base/os.h"

#define LENGTH_ROWS                                                                                          \
    0.5 /* fraction of rows that must agree on a ratio for it to be that of the runs' lengths */
#define LENGTH_LEAST 0.4 /* smallest change in a row's calls to report when there are no steps */

typedef struct range { /* calls per step */
    uint32_t least, most;
} range;

/* ----------------------------------------------------------------------------------------- step by step */

/* Steps are sorted by start: the last that starts before ts, if it has not ended. */
static uint32_t step_at(const mtp_trace *t, int64_t ts)
{
    uint32_t low = 0, high = t->step_count;
    MTP__BISECT(low, high, mid, t->steps[mid].start <= ts)
    return low > 0 && ts < t->steps[low - 1].end ? low - 1 : MTP__NONE;
}

/* Device work counts in the step that launched it: it may run later. */
static uint32_t step_of(const mtp_trace *t, uint32_t span)
{
    uint32_t launcher = t->launcher != NULL ? t->launcher[span] : MTP__NONE;
    return step_at(t, t->start[launcher != MTP__NONE ? launcher : span]);
}

/* counts: one per step, zeroed. */
static range calls_in_steps(const mtp__calls *c, uint32_t row, uint32_t *counts)
{
    uint32_t steps = c->t->step_count;
    range r = {UINT32_MAX, 0};
    for (uint32_t i = c->first[row]; i < c->first[row + 1]; i++) {
        uint32_t step = step_of(c->t, c->span[i]);
        if (step != MTP__NONE)
            counts[step]++;
    }
    for (uint32_t s = 0; s < steps; s++) {
        r.least = counts[s] < r.least ? counts[s] : r.least;
        r.most = counts[s] > r.most ? counts[s] : r.most;
        counts[s] = 0;
    }
    return r;
}

/* ----------------------------------------------------------------------------------------- without steps */

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The ratio of calls shared by most rows: that of the runs' lengths. 0: none. */
static double common_ratio(const mtp_diff *d, double *ratios)
{
    size_t count = 0, best = 0;
    double ratio = 0;
    for (size_t i = 0; i < d->count; i++)
        if (d->row[i].shown.count_before > 0 && d->row[i].shown.count_after > 0)
            ratios[count++] = (double)d->row[i].shown.count_after / (double)d->row[i].shown.count_before;
    qsort(ratios, count, sizeof *ratios, by_number);
    for (size_t i = 0, same = 0; i < count; i++) {
        same = i > 0 && ratios[i] == ratios[i - 1] ? same + 1 : 1;
        if (same > best || (same == best && fabs(log(ratios[i])) < fabs(log(ratio)))) {
            best = same;
            ratio = ratios[i];
        }
    }
    return (double)best > LENGTH_ROWS * (double)count ? ratio : 0;
}

/* ------------------------------------------------------------------------------------------------ verdict */

static void fill(mtp_diff_row *s, double units_before, double units_after)
{
    s->calls_before = (double)s->count_before / units_before;
    s->calls_after = (double)s->count_after / units_after;
    s->step_time_before = s->calls_before * s->own_before;
    s->step_time_after = s->calls_after * s->own_after;
}

static void judge(mtp_diff_row *s, double threshold, bool more, bool fewer)
{
    double change = s->calls_before > 0 ? s->calls_after / s->calls_before - 1 : 0;
    bool changed = s->verdict == MTP_VERDICT_SLOWER || s->verdict == MTP_VERDICT_FASTER;
    more = more && change >= threshold - 1e-9;
    fewer = fewer && -change >= threshold - 1e-9;
    s->calls_change = more || fewer ? change : 0;
    if ((more || fewer) && !changed)
        s->verdict = more ? MTP_VERDICT_MORE_CALLS : MTP_VERDICT_FEWER_CALLS;
}

mtp_status mtp__diff_count_calls(mtp_diff *d)
{
    const mtp_trace *before = d->calls[0].t, *after = d->calls[1].t;
    bool steps = before->step_count > 0 && after->step_count > 0;
    size_t room = (size_t)before->step_count + after->step_count + d->count + 1;
    uint32_t *counts = mtp__calloc(room, sizeof *counts);
    double *ratios = mtp__calloc(d->count + 1, sizeof *ratios);
    double ratio = counts != NULL && ratios != NULL && !steps ? common_ratio(d, ratios) : 1;
    mtp_status status =
        counts != NULL && ratios != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "calls of %zu rows", d->count);
    for (size_t i = 0; status == MTP_OK && i < d->count; i++) {
        mtp__diff_pair *r = &d->row[i];
        mtp_diff_row *s = &r->shown;
        bool both = r->before != MTP__NONE && r->after != MTP__NONE;
        if (steps)
            fill(s, before->step_count, after->step_count);
        else
            fill(s, 1, ratio > 0 ? ratio : 1);
        if (both && steps) {
            range b = calls_in_steps(&d->calls[0], r->before, counts),
                  a = calls_in_steps(&d->calls[1], r->after, counts);
            judge(s, d->options.threshold, a.least > b.most, a.most < b.least);
        } else if (both && ratio > 0) {
            judge(s, d->options.threshold > LENGTH_LEAST ? d->options.threshold : LENGTH_LEAST, true, true);
        }
    }
    mtp__free(counts);
    mtp__free(ratios);
    return status;
}
