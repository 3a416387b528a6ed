/* analyze/steps_outliers.c - steps that took far longer, or less, than the others, and why.
 *
 * Far means: beyond FAR_SIGMAS robust standard deviations, and at least a tenth of the median. Reasons: the
 * self time of each op and kernel, and idle time, against the mean of the usual steps: those that are no outliers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "analyze/steps.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"

#define STEPS_LEAST 4u
#define FAR_SHARE 0.1
#define FAR_SIGMAS 4.0 /* of a normal distribution with the same median absolute deviation */
#define SIGMA_OF_MAD 1.4826
#define EXPLAINED_MAX 16u    /* outliers; the farthest */
#define REASON_FRACTION 0.05 /* fraction of a step's excess that is worth reporting */

typedef struct sums { /* of one op or kernel: [0] for all usual steps together, then for each outlier */
    double ns[EXPLAINED_MAX + 1];
    int64_t calls[EXPLAINED_MAX + 1];
    uint32_t name;
    bool on_device;
} sums;

typedef struct work {
    mtp_steps *s;
    const mtp_trace *t;
    uint32_t *slot;  /* owned: by name, for CPU work, then for device work: 1 + index in sums */
    uint32_t *owner; /* owned: by span: the CPU work that encloses it */
    uint8_t *column; /* owned: by row: column of sums; SKIP: ignored */
    sums *sums;      /* owned */
    uint32_t count, room, texts;
    uint32_t rows[EXPLAINED_MAX + 1]; /* by column */
    uint32_t columns, usual;          /* usual: steps in column 0 */
} work;
#define SKIP 0xff

/* --------------------------------------------------------------------------------------------------- which */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static mtp_status mark(mtp_steps *s, double *middle)
{
    double *values = mtp__calloc(s->count, sizeof *values);
    if (values == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "times of %u steps", s->count);
    for (uint32_t i = 0; i < s->count; i++)
        values[i] = (double)s->rows[i].times.wall_ns;
    *middle = median(values, s->count);
    for (uint32_t i = 0; i < s->count; i++)
        values[i] = fabs((double)s->rows[i].times.wall_ns - *middle);
    double usual = FAR_SIGMAS * SIGMA_OF_MAD * median(values, s->count), least = FAR_SHARE * *middle;
    for (uint32_t i = 0; i < s->count; i++) {
        double more = (double)s->rows[i].times.wall_ns - *middle;
        s->rows[i].is_outlier = *middle > 0 && fabs(more) > usual && fabs(more) > least;
        s->rows[i].more_ns = s->rows[i].is_outlier ? mtp__whole_ns(more) : 0;
    }
    mtp__free(values);
    return MTP_OK;
}

/* --------------------------------------------------------------------------------------------------- what */

static void choose_columns(work *w)
{
    for (uint32_t i = 0; i < w->s->count; i++) {
        const mtp_step_row *row = &w->s->rows[i];
        /* after the last step() there may be a rest in which nothing ran */
        bool usual = !row->is_outlier && (i + 1 < w->s->count || row->ops > 0 || row->kernels > 0);
        w->column[i] = usual ? 0 : SKIP;
        w->usual += usual;
        if (!row->is_outlier)
            continue;
        uint32_t at = w->columns < EXPLAINED_MAX ? ++w->columns : 0;
        for (uint32_t c = 1; at == 0 && c <= EXPLAINED_MAX; c++) /* replaces one that is less far out */
            if (llabs(w->s->rows[w->rows[c]].more_ns) < llabs(row->more_ns)) {
                w->column[w->rows[c]] = SKIP;
                at = c;
            }
        if (at != 0) {
            w->rows[at] = i;
            w->column[i] = (uint8_t)at;
        }
    }
}

static sums *sums_of(work *w, uint32_t name, bool on_device)
{
    uint32_t *slot = &w->slot[on_device ? w->texts + name : name];
    if (*slot != 0)
        return &w->sums[*slot - 1];
    if (!MTP__GROW(w->sums, w->room, w->count, w->count + 1, 64))
        return NULL;
    w->sums[w->count] = (sums){.name = name, .on_device = on_device};
    *slot = ++w->count;
    return &w->sums[w->count - 1];
}

/* Time counts in the step in which a span starts; its children's is subtracted there too. */
static bool add(work *w, uint32_t span, uint8_t column, bool on_device, double ns, int calls)
{
    sums *s = sums_of(w, w->t->name[span], on_device);
    if (s == NULL)
        return false;
    s->ns[column] += ns;
    s->calls[column] += calls;
    return true;
}

static bool sum_track(work *w, const mtp__track *track, const mtp__step_view *v)
{
    const mtp_trace *t = w->t;
    mtp__step_counting c = {w->s->rows, w->s->count, 0, false};
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        uint32_t up = t->parent[i], owner = up == MTP__NONE ? MTP__NONE : w->owner[up];
        bool works = v->is_work(v, i, track->on_device);
        double ns = (double)t->end[i] - (double)t->start[i];
        mtp_step_row *row = works ? mtp__step_row_at(&c, t->start[i]) : NULL;
        uint8_t column = row != NULL ? w->column[row - w->s->rows] : SKIP;
        w->owner[i] = works ? i : owner;
        if (column == SKIP)
            continue;
        if (!add(w, i, column, track->on_device, ns, 1) ||
            (owner != MTP__NONE && !track->on_device && !add(w, owner, column, false, -ns, 0)))
            return false;
    }
    return true;
}

static void offer(mtp_step_row *row, const mtp_step_reason *r)
{
    double sign = row->more_ns > 0 ? 1 : -1, ns = sign * (double)r->ns;
    if (ns < REASON_FRACTION * fabs((double)row->more_ns))
        return;
    uint32_t at = row->reason_count < MTP_STEP_REASONS ? row->reason_count++ : MTP_STEP_REASONS - 1;
    if (at == MTP_STEP_REASONS - 1 && row->reasons[at].what.bytes != NULL &&
        sign * (double)row->reasons[at].ns >= ns)
        return;
    for (; at > 0 && sign * (double)row->reasons[at - 1].ns < ns; at--)
        row->reasons[at] = row->reasons[at - 1];
    row->reasons[at] = *r;
}

static void explain(work *w)
{
    double idle = 0;
    for (uint32_t i = 0; i < w->s->count; i++)
        idle += w->column[i] == 0 ? (double)w->s->rows[i].times.idle_ns / w->usual : 0;
    for (uint32_t c = 1; c <= w->columns; c++) {
        mtp_step_row *row = &w->s->rows[w->rows[c]];
        mtp_step_reason nothing = {.what = {"(idle)", 6},
                                   .ns = mtp__whole_ns((double)row->times.idle_ns - idle)};
        offer(row, &nothing);
        for (uint32_t i = 0; i < w->count; i++) {
            const sums *s = &w->sums[i];
            mtp_text name = mtp__trace_get_text(w->t, s->name);
            mtp_step_reason reason = {{name.bytes, name.length},
                                      mtp__whole_ns(s->ns[c] - s->ns[0] / w->usual),
                                      s->calls[c] - (int64_t)llround((double)s->calls[0] / w->usual),
                                      s->on_device};
            offer(row, &reason);
        }
    }
}

mtp_status mtp__steps_outliers(mtp_steps *s, const mtp_trace *t, const mtp__step_view *v)
{
    double middle;
    if (s->whole_trace || s->count < STEPS_LEAST)
        return MTP_OK;
    mtp_status status = mark(s, &middle);
    if (status != MTP_OK)
        return status;
    work w = {.s = s, .t = t, .texts = mtp__intern_count(&t->text) + 1};
    bool any = false, ok = true;
    for (uint32_t i = 0; i < s->count; i++)
        any |= s->rows[i].is_outlier;
    if (!any)
        return MTP_OK;
    w.slot = mtp__calloc((size_t)w.texts * 2, sizeof *w.slot);
    w.owner = mtp__calloc((size_t)t->span_count + 1, sizeof *w.owner);
    w.column = mtp__calloc(s->count, 1);
    ok = w.slot != NULL && w.owner != NULL && w.column != NULL;
    if (ok)
        choose_columns(&w);
    for (uint32_t k = 0; ok && w.usual > 0 && k < t->track_count; k++)
        ok = !mtp__step_is_of(v, &t->tracks[k]) || sum_track(&w, &t->tracks[k], v);
    if (ok && w.usual > 0)
        explain(&w);
    mtp__free(w.slot);
    mtp__free(w.owner);
    mtp__free(w.column);
    mtp__free(w.sums);
    return ok ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the differences of %u steps", s->count);
}
