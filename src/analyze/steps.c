/* analyze/steps.c - see mtprof_analysis.h, "steps".
 *
 * The spans of all tracks are merged by start into three unions of intervals (CPU, device, either), of which
 * only the last interval and the total length of earlier ones are kept. At each begin and end of a step, in
 * order, the busy time so far is noted; a step's busy time is the difference. Steps may overlap. Memory grows
 * with the steps, not with the spans.
 */
#include "analyze/steps.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "analyze/by_time.h"
#include "base/bisect.h"
#include "base/error.h"
#include "base/os.h"

enum { /* which union */
    CPU,
    DEVICE,
    EITHER,
    UNIONS
};

typedef mtp__step_view view;

/* The last interval of a union. Initially empty, at the beginning of time. */
typedef struct stretch {
    int64_t start, end;
    int64_t before; /* length of all earlier intervals */
} stretch;

/* A step's begin or end. */
typedef struct bound {
    int64_t when;
    uint32_t row;
    bool is_end;
} bound;

/* ----------------------------------------------------------------------------------- what counts as busy */

/* The first of these that the trace's threads have is the level to count at. */
enum {
    BY_WORK,
    BY_SCOPES,
    BY_PYTHON,
    BY_NOTHING
};

static bool view_init(view *v, const mtp_trace *t)
{
    uint32_t count = mtp__intern_count(&t->text);
    *v = (view){.t = t, .step_names = mtp__calloc((size_t)count + 1, 1)};
    for (uint32_t id = 1; v->step_names != NULL && id <= count; id++) {
        v->step_names[id] = mtp__is_numbered_step_name(mtp__trace_get_text(t, id));
    }
    return v->step_names != NULL;
}

static bool is_step(const view *v, uint32_t span)
{
    return (v->t->flags[span] & MTP__SPAN_STEP) != 0 || /* files of 2021 have steps among the ops */
           (v->t->category[span] == MTP__CATEGORY_USER_ANNOTATION && v->step_names[v->t->name[span]] != 0);
}

/* A file may have any times: differences wrap rather than trap. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* "PyTorch Profiler (0)" in Kineto's files: the recording itself, not a scope of the program. */
static bool is_recording(const mtp_trace *t, uint32_t span)
{
    mtp_text category = mtp__trace_get_text(t, mtp__trace_detail(t, span)->category);
    return MTP__EQUALS(category, MTP__RECORDING_CATEGORY);
}

/* The level at which the span would count. */
static int level_of(const view *v, uint32_t span, bool on_device)
{
    switch (v->t->category[span]) {
    case MTP__CATEGORY_KERNEL:
    case MTP__CATEGORY_GPU_MEMCPY:
    case MTP__CATEGORY_GPU_MEMSET:
        return on_device ? BY_WORK : BY_NOTHING;
    case MTP__CATEGORY_CPU_OP:
        return on_device || is_step(v, span) ? BY_NOTHING : BY_WORK;
    case MTP__CATEGORY_CUDA_RUNTIME:
    case MTP__CATEGORY_CUDA_DRIVER:
        return on_device ? BY_NOTHING : BY_WORK;
    case MTP__CATEGORY_USER_ANNOTATION:
        return on_device || is_step(v, span) ? BY_NOTHING : BY_SCOPES;
    case MTP__CATEGORY_OTHER:
        return is_recording(v->t, span) ? BY_NOTHING : on_device ? BY_WORK : BY_SCOPES;
    case MTP__CATEGORY_PYTHON_FUNCTION:
        return on_device ? BY_NOTHING : BY_PYTHON;
    default:
        return BY_NOTHING;
    }
}

static bool is_work(const view *v, uint32_t span, bool on_device)
{
    int level = level_of(v, span, on_device);
    return v->t->end[span] > v->t->start[span] && level != BY_NOTHING &&
           level == (on_device ? BY_WORK : v->level);
}

static int level_of_threads(const view *v)
{
    const mtp_trace *t = v->t;
    int level = BY_NOTHING;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        bool counts = !track->on_device && mtp__step_is_of(v, track);
        for (uint32_t i = track->first; counts && i < track->first + track->count; i++) {
            int of_span = level_of(v, i, false);
            if (of_span == BY_WORK)
                return BY_WORK;
            level = of_span < level ? of_span : level;
        }
    }
    return level;
}

/* ---------------------------------------------------------------------------------------------- unions */

/* Intervals arrive by start. */
static void cover(stretch *u, int64_t start, int64_t end)
{
    if (start <= u->end)
        u->end = end > u->end ? end : u->end;
    else
        *u = (stretch){start, end, plus(u->before, minus(u->end, u->start))};
}

/* Busy time before an instant: everything that starts before it has been covered. */
static int64_t busy_until(const stretch *u, int64_t when)
{
    return plus(u->before, minus(when < u->end ? when : u->end, u->start));
}

static int bound_by_time(const void *a, const void *b)
{
    const bound *x = a, *y = b;
    return (x->when > y->when) - (x->when < y->when);
}

/* Subtracts the busy time before a step at its begin, adds it at its end. */
static void note(mtp_step_row *row, const bound *b, const stretch unions[UNIONS])
{
    int64_t busy[UNIONS];
    for (int k = 0; k < UNIONS; k++)
        busy[k] = b->is_end ? busy_until(&unions[k], b->when) : minus(0, busy_until(&unions[k], b->when));
    mtp_step_times *t = &row->times;
    t->cpu_ns = plus(t->cpu_ns, busy[CPU]);
    t->device_ns = plus(t->device_ns, busy[DEVICE]);
    t->both_ns = plus(t->both_ns, minus(plus(busy[CPU], busy[DEVICE]), busy[EITHER]));
    t->idle_ns = minus(t->idle_ns, busy[EITHER]);
}

/* Adds a span of work, and the gap before it. last: the span at the end of the union. */
static void on_work(const view *v, mtp_steps *s, stretch *u, uint32_t *last, uint32_t span, bool of_device)
{
    int64_t start = v->t->start[span], end = v->t->end[span];
    if (start > u->end)
        mtp__gap_add(s, v->t, of_device, u->end, start, *last, span);
    if (end > u->end)
        *last = span;
    cover(u, start, end);
}

static mtp_status walk(const view *v, mtp_steps *s, const bound *bounds, size_t count)
{
    const mtp_trace *t = v->t;
    stretch unions[UNIONS];
    size_t at = 0;
    mtp__by_time order;
    uint32_t last[2] = {MTP__NONE, MTP__NONE};
    for (int k = 0; k < UNIONS; k++)
        unions[k] = (stretch){INT64_MIN, INT64_MIN, 0};
    mtp_status status = mtp__by_time_init(&order, t, NULL);
    for (uint32_t span, k; status == MTP_OK && (span = mtp__by_time_next(&order, &k)) != MTP__NONE;) {
        bool on_device = t->tracks[k].on_device;
        int64_t start = t->start[span];
        for (; at < count && bounds[at].when <= start; at++)
            note(&s->rows[bounds[at].row], &bounds[at], unions);
        if (!v->is_work(v, span, on_device) || !mtp__step_is_of(v, &t->tracks[k]))
            continue;
        if (on_device)
            on_work(v, s, &unions[DEVICE], &last[1], span, true);
        else
            cover(&unions[CPU], start, t->end[span]);
        on_work(v, s, &unions[EITHER], &last[0], span, false);
    }
    for (; at < count; at++)
        note(&s->rows[bounds[at].row], &bounds[at], unions);
    if (last[0] != MTP__NONE)
        mtp__gap_add(s, t, false, unions[EITHER].end, INT64_MAX, last[0], MTP__NONE);
    if (last[1] != MTP__NONE)
        mtp__gap_add(s, t, true, unions[DEVICE].end, INT64_MAX, last[1], MTP__NONE);
    mtp__by_time_fini(&order);
    return status;
}

static mtp_status fill_times(const view *v, mtp_steps *s)
{
    size_t count = 0;
    bound *bounds = mtp__calloc((size_t)s->count * 2, sizeof *bounds);
    if (bounds == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the bounds of %u steps", s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        mtp_step_row *row = &s->rows[i];
        row->end_ns = row->end_ns < row->start_ns ? row->start_ns : row->end_ns;
        row->times.wall_ns = row->times.idle_ns = minus(row->end_ns, row->start_ns);
        bounds[count++] = (bound){row->start_ns, i, false};
        bounds[count++] = (bound){row->end_ns, i, true};
    }
    qsort(bounds, count, sizeof *bounds, bound_by_time);
    mtp_status status = walk(v, s, bounds, count);
    mtp__free(bounds);
    return status;
}

/* ----------------------------------------------------------------------------------------------- rows */

static int by_start(const void *a, const void *b)
{
    const mtp_step_row *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int64_t number_of(const mtp_trace *t, uint32_t span)
{
    mtp_text name = mtp__trace_get_text(t, t->name[span]);
    const char *hash = memchr(name.bytes, '#', name.length);
    if (hash == NULL || hash[1] < '0' || hash[1] > '9')
        return (int64_t)mtp__trace_detail(t, span)->number;
    return strtoll(hash + 1, NULL, 10);
}

static bool has_steps(const view *v, const mtp__track *track)
{
    for (uint32_t i = track->first; !track->on_device && i < track->first + track->count; i++)
        if (is_step(v, i))
            return true;
    return false;
}

/* Of several processes with steps (ranks of a distributed program), the first that was started: by its number. What others
 * do in the meantime, a DataLoader's workers, say, is not work of its steps. */
static void choose_process(view *v, mtp_steps *s)
{
    const mtp_trace *t = v->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        if ((v->of == NULL || track->pid != v->of->pid) && has_steps(v, track)) {
            s->is_one_of_several |= v->of != NULL;
            v->of = v->of == NULL || track->pid < v->of->pid ? track : v->of;
        }
    }
    s->pid = v->of != NULL ? v->of->pid : 0;
}

/* Steps that are scopes; out NULL: only counts them. */
static uint32_t scope_steps(const view *v, mtp_step_row *out)
{
    const mtp_trace *t = v->t;
    uint32_t count = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        bool counts = !track->on_device && mtp__step_is_of(v, track);
        for (uint32_t i = track->first; counts && i < track->first + track->count; i++) {
            if (!is_step(v, i))
                continue;
            if (out != NULL)
                out[count] =
                    (mtp_step_row){.number = number_of(t, i), .start_ns = t->start[i], .end_ns = t->end[i]};
            count++;
        }
    }
    return count;
}

/* From the first span to the last. Not the marks: Kineto's "Record Window End" comes when the profiler has collected its
 * results, long after the program. */
static mtp_step_row whole_trace(const mtp_trace *t)
{
    mtp_step_row row = {.number = -1, .start_ns = t->first_ns, .end_ns = t->last_ns};
    for (uint32_t i = 0; i < t->span_count; i++) {
        row.start_ns = i == 0 || t->start[i] < row.start_ns ? t->start[i] : row.start_ns;
        row.end_ns = i == 0 || t->end[i] > row.end_ns ? t->end[i] : row.end_ns;
    }
    return row;
}

static mtp_status make_rows(mtp_steps *s, const view *v)
{
    const mtp_trace *t = v->t;
    uint32_t scopes = scope_steps(v, NULL);
    s->count = scopes > 0 ? scopes : t->step_count > 0 ? t->step_count : 1;
    s->rows = mtp__calloc(s->count, sizeof *s->rows);
    if (s->rows == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u steps", s->count);
    if (scopes > 0) {
        scope_steps(v, s->rows);
    } else if (t->step_count > 0) {
        for (uint32_t i = 0; i < s->count; i++)
            s->rows[i] = (mtp_step_row){
                .number = t->steps[i].number, .start_ns = t->steps[i].start, .end_ns = t->steps[i].end};
    } else {
        s->rows[0] = whole_trace(t);
        s->whole_trace = true;
    }
    qsort(s->rows, s->count, sizeof *s->rows, by_start);
    return MTP_OK;
}

/* -------------------------------------------------------------------------------------------- counting */

mtp_step_row *mtp__step_row_at(mtp__step_counting *c, int64_t ts)
{
    if (c->at < c->count && ts < c->rows[c->at].start_ns)
        c->at = 0;                          /* the next track */
    uint32_t low = c->at, high = c->at + 1; /* usually in this one or the next */
    if (high < c->count && c->rows[high].start_ns <= ts) {
        low = high + 1;
        high = c->count;
        MTP__BISECT(low, high, mid, c->rows[mid].start_ns <= ts)
        low--;
    }
    c->at = low;
    mtp_step_row *row = &c->rows[low];
    return ts >= row->start_ns && (ts < row->end_ns || (c->whole && ts == row->end_ns)) ? row : NULL;
}

/* An op or a kernel; device work of unknown category counts as one. */
static bool is_counted(const view *v, uint32_t span, bool on_device)
{
    mtp__category c = (mtp__category)v->t->category[span];
    if (on_device)
        return c == MTP__CATEGORY_KERNEL || (c == MTP__CATEGORY_OTHER && !is_recording(v->t, span));
    return c == MTP__CATEGORY_CPU_OP && !is_step(v, span);
}

static void count_work(mtp_steps *s, const view *v)
{
    const mtp_trace *t = v->t;
    mtp__step_counting c = {s->rows, s->count, 0, s->whole_trace};
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; i < track->first + track->count; i++) {
            mtp_step_row *row = is_counted(v, i, track->on_device) && mtp__step_is_of(v, track)
                                    ? mtp__step_row_at(&c, t->start[i])
                                    : NULL;
            if (row != NULL)
                ++*(track->on_device ? &row->kernels : &row->ops);
        }
    }
}

/* --------------------------------------------------------------------------------------------- summary */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static mtp_status summarise(mtp_steps *s)
{
    enum {
        FIGURES = sizeof(mtp_step_times) / sizeof(int64_t)
    };
    _Static_assert(FIGURES == 5 && offsetof(mtp_step_times, both_ns) == 4 * sizeof(int64_t),
                   "mtp_step_times is read as an array of int64_t");
    int64_t *values = mtp__calloc(s->count, sizeof *values);
    if (values == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "figures of %u steps", s->count);
    for (size_t f = 0; f < FIGURES; f++) {
        double sum = 0;
        for (uint32_t i = 0; i < s->count; i++) {
            values[i] = ((const int64_t *)&s->rows[i].times)[f];
            sum += (double)values[i];
        }
        qsort(values, s->count, sizeof *values, by_value);
        double mean = sum / s->count + 0.5;
        ((int64_t *)&s->summary[MTP_STEP_MEAN])[f] = mtp__whole_ns(mean);
        ((int64_t *)&s->summary[MTP_STEP_P50])[f] = values[(s->count - 1) / 2];
        ((int64_t *)&s->summary[MTP_STEP_MAX])[f] = values[s->count - 1];
    }
    mtp__free(values);
    return MTP_OK;
}

/* --------------------------------------------------------------------------------------------- public */

mtp_status mtp_steps_create(const mtp_trace *t, mtp_steps **out)
{
    if (t == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or out is NULL");
    *out = NULL;
    mtp_steps *s = mtp__calloc(1, sizeof *s);
    if (s == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "steps");
    s->first_ns = t->first_ns;
    view v;
    mtp_status status = view_init(&v, t) ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "steps");
    if (status == MTP_OK) {
        choose_process(&v, s);
        status = make_rows(s, &v);
    }
    if (status == MTP_OK) {
        v.level = level_of_threads(&v);
        v.is_work = is_work;
        status = fill_times(&v, s);
    }
    if (status == MTP_OK) {
        count_work(s, &v);
        status = summarise(s);
    }
    if (status == MTP_OK)
        status = mtp__steps_outliers(s, t, &v);
    mtp__free(v.step_names);
    s->written = s->count;
    if (status == MTP_OK)
        *out = s;
    else
        mtp_steps_destroy(s);
    return status;
}

void mtp_steps_destroy(mtp_steps *s)
{
    if (s != NULL)
        mtp__free(s->rows);
    mtp__free(s);
}

size_t mtp_steps_count(const mtp_steps *s)
{
    return s != NULL ? s->count : 0;
}

int64_t mtp_steps_process(const mtp_steps *s)
{
    return s != NULL && s->is_one_of_several ? s->pid : 0;
}

bool mtp_steps_is_whole_trace(const mtp_steps *s)
{
    return s != NULL && s->whole_trace;
}

const mtp_step_row *mtp_steps_row(const mtp_steps *s, size_t index)
{
    return s != NULL && index < s->count ? &s->rows[index] : NULL;
}

const mtp_step_times *mtp_steps_summary(const mtp_steps *s, mtp_step_figure figure)
{
    return s == NULL || (unsigned)figure > MTP_STEP_MAX ? NULL : &s->summary[figure];
}
