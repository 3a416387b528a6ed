/* analyze/ranks/rank_time.c - the steps of a rank, and how the time of each was spent.
 *
 * Intervals are merged into unions; the length of a union before an instant is found by bisection, so the time in a
 * step is a difference. What computation hides is |compute| + |communication| - |either|. With device work, only that
 * counts; else ops on threads, outside communication calls; else scopes; else all that is not communication. */
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/bisect.h"
#include "base/grow.h"
#include "base/os.h"

/* ---------------------------------------------------------------------------------------------- unions */

typedef struct stretch {
    int64_t start, end;
    int64_t before; /* length of all earlier ones */
} stretch;

typedef struct cover {
    stretch *at; /* owned */
    uint32_t count, room;
    bool failed; /* out of memory, latched */
} cover;

static void add(cover *c, int64_t start, int64_t end)
{
    if (end <= start)
        return;
    if (c->count > 0 && start >= c->at[c->count - 1].start && start <= c->at[c->count - 1].end) {
        c->at[c->count - 1].end = end > c->at[c->count - 1].end ? end : c->at[c->count - 1].end;
        return;
    }
    if (c->failed || !MTP__GROW(c->at, c->room, c->count, (size_t)c->count + 1, 256))
        c->failed = true;
    else
        c->at[c->count++] = (stretch){start, end, 0};
}

static int by_start(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static void merge(cover *c)
{
    uint32_t kept = 0;
    bool sorted = true;
    for (uint32_t i = 1; i < c->count && sorted; i++)
        sorted = c->at[i - 1].start <= c->at[i].start;
    if (!sorted)
        qsort(c->at, c->count, sizeof *c->at, by_start);
    for (uint32_t i = 0; i < c->count; i++)
        if (kept > 0 && c->at[i].start <= c->at[kept - 1].end)
            c->at[kept - 1].end = c->at[i].end > c->at[kept - 1].end ? c->at[i].end : c->at[kept - 1].end;
        else
            c->at[kept++] = c->at[i];
    c->count = kept;
    for (uint32_t i = 1; i < kept; i++)
        c->at[i].before = c->at[i - 1].before + (c->at[i - 1].end - c->at[i - 1].start);
}

static void add_all(cover *c, const cover *from)
{
    for (uint32_t i = 0; i < from->count; i++)
        add(c, from->at[i].start, from->at[i].end);
}

/* Length before an instant. */
static int64_t until(const cover *c, int64_t t)
{
    uint32_t low = 0, high = c->count;
    MTP__BISECT(low, high, mid, c->at[mid].start < t)
    if (low == 0)
        return 0;
    const stretch *s = &c->at[low - 1];
    return s->before + ((t < s->end ? t : s->end) - s->start);
}

static int64_t within(const cover *c, int64_t from, int64_t to)
{
    return to > from ? until(c, to) - until(c, from) : 0;
}

/* ----------------------------------------------------------------------------------------------- steps */

static int64_t unix_time(const mtp__rank_view *v, int64_t ts)
{
    return (int64_t)((uint64_t)ts + (uint64_t)v->k->base);
}

static int64_t number_of(const mtp_trace *t, uint32_t span)
{
    mtp_text name = mtp__trace_get_text(t, t->name[span]);
    return mtp__is_numbered_step_name(name) ? strtoll(name.bytes + sizeof MTP__STEP_PREFIX - 1, NULL, 10)
                                            : (int64_t)mtp__trace_detail(t, span)->number;
}

static bool is_step(const mtp__rank_view *v, uint32_t span)
{
    return (v->t->flags[span] & MTP__SPAN_STEP) != 0 || mtp__rank_name(v, span) == MTP__NAME_STEP;
}

static bool add_step(mtp__rank *k, uint32_t *room, int64_t number, int64_t start, int64_t end)
{
    if (!MTP__GROW(k->steps, *room, k->step_count, (size_t)k->step_count + 1, 64))
        return false;
    k->steps[k->step_count++] = (mtp_rank_step){.number = number, .start_ns = start, .end_ns = end};
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const mtp_rank_step *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

bool mtp__rank_steps(mtp__rank_view *v)
{
    const mtp_trace *t = v->t;
    mtp__rank *k = v->k;
    uint32_t room = 0;
    bool good = true;
    for (uint32_t i = 0; i < t->track_count && v->main_track == MTP__NONE; i++)
        for (uint32_t s = t->tracks[i].first;
             !t->tracks[i].on_device && s < t->tracks[i].first + t->tracks[i].count; s++)
            if (is_step(v, s)) {
                v->main_track = i;
                break;
            }
    if (v->main_track != MTP__NONE) {
        const mtp__track *track = &t->tracks[v->main_track];
        for (uint32_t s = track->first; good && s < track->first + track->count; s++)
            good = !is_step(v, s) ||
                   add_step(k, &room, number_of(t, s), unix_time(v, t->start[s]), unix_time(v, t->end[s]));
    } else {
        for (uint32_t i = 0; good && i < t->step_count; i++)
            good = add_step(k, &room, t->steps[i].number, unix_time(v, t->steps[i].start),
                            unix_time(v, t->steps[i].end));
    }
    if (good && k->step_count == 0)
        good = add_step(k, &room, -1, k->row.first_ns, k->row.last_ns);
    if (!good)
        return false;
    qsort(k->steps, k->step_count, sizeof *k->steps, by_begin);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < k->step_count; i++) {
        mtp_rank_step *before = &k->steps[kept - 1], now = k->steps[i];
        if (now.start_ns < before->start_ns + (before->end_ns - before->start_ns) / 2)
            continue; /* not the steps of one program */
        before->end_ns =
            before->end_ns < now.start_ns ? before->end_ns : now.start_ns; /* times are rounded */
        k->steps[kept++] = now;
    }
    k->step_count = kept;
    return true;
}

uint32_t mtp__rank_step_before(const mtp__rank *k, int64_t t)
{
    uint32_t low = 0, high = k->step_count;
    MTP__BISECT(low, high, mid, k->steps[mid].start_ns <= t)
    return low > 0 ? low - 1 : MTP__NO_STEP;
}

uint32_t mtp__rank_step_at(const mtp__rank *k, int64_t t)
{
    uint32_t at = mtp__rank_step_before(k, t);
    return at != MTP__NO_STEP && (t < k->steps[at].end_ns || k->step_count == 1) ? at : MTP__NO_STEP;
}

/* ----------------------------------------------------------------------------------------------- times */

typedef struct covers {
    cover compute, comm, either, all;
} covers;

static void cover_devices(const mtp__rank_view *v, covers *c)
{
    const mtp_trace *t = v->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; track->on_device && i < track->first + track->count; i++) {
            uint8_t category = t->category[i];
            if (category != MTP__CATEGORY_KERNEL && category != MTP__CATEGORY_GPU_MEMCPY &&
                category != MTP__CATEGORY_GPU_MEMSET)
                continue;
            mtp_text name = mtp__trace_get_text(t, t->name[i]);
            int64_t start = unix_time(v, t->start[i]), end = unix_time(v, t->end[i]);
            add(&c->all, start, end);
            if (mtp__rank_kernel_is_comm(name))
                add(&c->comm, start, end);
            else if (mtp__rank_kernel_is_compute(name))
                add(&c->compute, start, end);
        }
    }
}

static bool is_comm(const mtp__rank_view *v, uint32_t span)
{
    mtp__name_is is = mtp__rank_name(v, span);
    return is == MTP__NAME_CALL || is == MTP__NAME_COMM || is == MTP__NAME_RECORD;
}

static bool is_work(const mtp__rank_view *v, uint32_t span, bool scopes)
{
    uint8_t category = v->t->category[span];
    if (scopes)
        return (category == MTP__CATEGORY_USER_ANNOTATION || category == MTP__CATEGORY_OTHER) &&
               !is_step(v, span) &&
               !MTP__EQUALS(mtp__trace_get_text(v->t, mtp__trace_detail(v->t, span)->category),
                            MTP__RECORDING_CATEGORY);
    return category == MTP__CATEGORY_CPU_OP && !is_step(v, span);
}

/* Work of a thread outside communication calls: parents come before children. Gloo's messages begin inside of the call
 * that starts them and end when they were waited for: the thread may work meanwhile. */
static void cover_thread(const mtp__rank_view *v, covers *c, const mtp__track *track, bool scopes)
{
    const mtp_trace *t = v->t;
    int64_t work_end = INT64_MIN, comm_end = INT64_MIN, from = 0; /* work not yet added begins at `from` */
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        int64_t start = t->start[i], end = t->end[i];
        if (end <= start)
            continue;
        if (start < comm_end) {
            if (end > comm_end && is_comm(v, i))
                add(&c->comm, unix_time(v, start), unix_time(v, end));
        } else if (is_comm(v, i)) {
            int64_t until = work_end < start ? work_end : start;
            if (until > from)
                add(&c->compute, unix_time(v, from), unix_time(v, until));
            add(&c->comm, unix_time(v, start), unix_time(v, end));
            from = comm_end = end;
        } else if (is_work(v, i, scopes)) {
            if (start >= work_end) {
                if (work_end > from)
                    add(&c->compute, unix_time(v, from), unix_time(v, work_end));
                from = start;
                work_end = end;
            } else if (end > work_end) {
                work_end = end;
            }
        }
    }
    if (work_end > from)
        add(&c->compute, unix_time(v, from), unix_time(v, work_end));
}

static void cover_threads(mtp__rank_view *v, covers *c)
{
    const mtp_trace *t = v->t;
    for (int scopes = 0; scopes < 2 && c->compute.count == 0; scopes++) {
        c->comm.count = 0;
        for (uint32_t k = 0; k < t->track_count; k++)
            if (!t->tracks[k].on_device)
                cover_thread(v, c, &t->tracks[k], scopes != 0);
    }
    merge(&c->comm);
    if (c->compute.count == 0 && c->comm.count > 0) { /* an MPI program: it computes between its calls */
        int64_t from = v->k->row.first_ns;
        v->k->row.compute_assumed = true;
        for (uint32_t i = 0; i < c->comm.count; i++) {
            add(&c->compute, from, c->comm.at[i].start);
            from = c->comm.at[i].end;
        }
        add(&c->compute, from, v->k->row.last_ns);
    }
    add_all(&c->all, &c->compute);
    add_all(&c->all, &c->comm);
}

static void fill_step(mtp_rank_step *s, const covers *c, int64_t end)
{
    mtp_rank_times *t = &s->times;
    t->wall_ns = s->end_ns - s->start_ns;
    t->compute_ns = within(&c->compute, s->start_ns, end);
    t->comm_ns = within(&c->comm, s->start_ns, end);
    t->exposed_ns = within(&c->either, s->start_ns, end) - t->compute_ns;
    t->copies_ns = within(&c->all, s->start_ns, end) - t->compute_ns - t->exposed_ns;
    t->idle_ns = end - s->start_ns - within(&c->all, s->start_ns, end);
}

static void as_hta(mtp_rank_row *row, const covers *c)
{
    int64_t far = INT64_MAX, compute = until(&c->compute, far), comm = until(&c->comm, far),
            all = until(&c->all, far);
    row->overlap = comm > 0 ? (double)(compute + comm - until(&c->either, far)) / (double)comm : -1;
    if (!row->has_device || c->all.count == 0)
        return;
    row->kernel_ns = c->all.at[c->all.count - 1].end - c->all.at[0].start;
    row->kernel_compute_ns = compute;
    row->kernel_idle_ns = row->kernel_ns - all;
    row->kernel_other_ns = row->kernel_ns - row->kernel_idle_ns - compute;
}

bool mtp__rank_times(mtp__rank_view *v)
{
    covers c = {0};
    mtp__rank *k = v->k;
    cover_devices(v, &c);
    k->row.has_device = c.all.count > 0;
    if (!k->row.has_device)
        cover_threads(v, &c);
    merge(&c.compute);
    merge(&c.comm);
    add_all(&c.either, &c.compute);
    add_all(&c.either, &c.comm);
    merge(&c.either);
    merge(&c.all);
    bool good = !c.compute.failed && !c.comm.failed && !c.either.failed && !c.all.failed;
    for (uint32_t i = 0; i < k->step_count && good; i++)
        fill_step(&k->steps[i], &c, k->steps[i].end_ns);
    for (uint32_t i = 0; i < k->call_count && good; i++)
        k->calls[i].hidden = within(&c.compute, k->calls[i].enter, k->calls[i].leave);
    if (good)
        as_hta(&k->row, &c);
    mtp__free(c.compute.at);
    mtp__free(c.comm.at);
    mtp__free(c.either.at);
    mtp__free(c.all.at);
    return good;
}
