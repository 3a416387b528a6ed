/* analyze/events_list.c - the list of events: the walk of averages, keeping its results for each event.
 *
 * So the rules are those of averages: which spans are events, which are absorbed, and how they nest. Then all
 * tracks are merged by time, with uncovered memory events and failed allocations.
 */
#include "analyze/events.h"
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"

/* -------------------------------------------------------------------------------------------- threads */

typedef struct numbering {
    int64_t first; /* when it began */
    uint32_t track;
    uint8_t rank; /* the main thread, others, threads without spans */
} numbering;

static int by_rank(const void *a, const void *b)
{
    const numbering *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->track < y->track ? -1 : x->track > y->track;
}

static int by_tid(const void *a, const void *b)
{
    const struct mtp__numbered *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* torch numbers threads in order of appearance, which files do not record: the main one is nearly always
 * first. */
mtp_status mtp__events_number_threads(mtp_events *e)
{
    const mtp_trace *t = e->t;
    numbering *order = mtp__calloc((size_t)t->track_count + 1, sizeof *order);
    e->thread_of = mtp__calloc((size_t)t->track_count + 1, sizeof *e->thread_of);
    e->numbered = mtp__calloc((size_t)t->track_count + 1, sizeof *e->numbered);
    if (order == NULL || e->thread_of == NULL || e->numbered == NULL) {
        mtp__free(order);
        return MTP_FAIL(MTP_E_NOMEM, "the numbers of %u threads", t->track_count);
    }
    uint32_t count = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        if (track->on_device)
            continue;
        bool is_main = track->pid == track->tid && track->pid_text == 0;
        order[count++] = (numbering){track->count > 0 ? t->start[track->first] : 0, k,
                                     (uint8_t)(is_main            ? 0
                                               : track->count > 0 ? 1
                                                                  : 2)};
    }
    if (count > 0)
        qsort(order, count, sizeof *order, by_rank);
    for (uint32_t i = 0; i < count; i++) {
        e->thread_of[order[i].track] = i + 1;
        const mtp__track *track = &t->tracks[order[i].track];
        e->numbered[i] = (struct mtp__numbered){track->tid, track->part, i + 1};
    }
    if (count > 0)
        qsort(e->numbered, count, sizeof *e->numbered, by_tid);
    e->threads = count;
    e->main_track = mtp__main_track(t);
    mtp__free(order);
    return MTP_OK;
}

/* ---------------------------------------------------------------------------------------------- steps */

/* As recorded; in a file, its ProfilerStep# scopes. */
static mtp_status find_steps(mtp_events *e)
{
    mtp_steps *found = NULL;
    uint32_t count = e->t->step_count;
    mtp_status status = count == 0 && !mtp__is_recording(e->t) ? mtp_steps_create(e->t, &found) : MTP_OK;
    if (status != MTP_OK)
        return status;
    if (found != NULL && !mtp_steps_is_whole_trace(found))
        count = (uint32_t)mtp_steps_count(found);
    e->steps = mtp__calloc((size_t)count + 1, sizeof *e->steps);
    if (e->steps == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "%u steps", count);
    for (uint32_t i = 0; i < count && e->steps != NULL; i++) {
        const mtp_step_row *row = mtp_steps_row(found, i);
        e->steps[i] = row != NULL ? (mtp__step){row->start_ns, row->end_ns, row->number} : e->t->steps[i];
    }
    e->step_count = count;
    mtp_steps_destroy(found);
    return status;
}

/* ---------------------------------------------------------------------------------------------- order */

/* Events that are not spans: memory events and failed allocations, by time. */
typedef struct moments {
    const mtp_events *e;
    uint32_t memory; /* the next one not covered by a span */
    int32_t open;    /* spans around it */
    struct moment {
        int64_t ts;
        uint32_t instant;
    } * failed; /* owned: failed allocations */
    uint32_t failed_count, failed_at;
} moments;

static int by_ts(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return x->instant < y->instant ? -1 : x->instant > y->instant;
}

/* The first uncovered memory event from `memory` on. */
static void next_memory(moments *m)
{
    const mtp__bytes *b = &m->e->bytes;
    for (; m->memory < b->count; m->memory++) {
        m->open += ((const int32_t *)b->cover.p)[m->memory];
        if (m->open <= 0)
            return;
    }
}

static bool moments_init(moments *m, const mtp_events *e)
{
    const mtp_trace *t = e->t;
    uint32_t id = mtp__trace_find_text(t, "[OutOfMemory]"), count = 0;
    *m = (moments){.e = e};
    for (uint32_t i = 0; i < t->instant_count && id != 0; i++)
        count += t->instants[i].name == id;
    m->failed = mtp__calloc((size_t)count + 1, sizeof *m->failed);
    if (m->failed == NULL)
        return false;
    for (uint32_t i = 0; i < t->instant_count && id != 0; i++)
        if (t->instants[i].name == id)
            m->failed[m->failed_count++] = (struct moment){t->instants[i].ts, i};
    if (count > 0)
        qsort(m->failed, count, sizeof *m->failed, by_ts);
    next_memory(m);
    return true;
}

/* The next instant, if it comes before a span of these times; memory before failed allocations. */
static bool take_moment(moments *m, bool any_span, int64_t start, int64_t end, uint32_t *item)
{
    const mtp_trace *t = m->e->t;
    bool memory = m->memory < m->e->bytes.count, failed = m->failed_at < m->failed_count;
    if (memory && failed)
        memory = t->memory[m->memory].ts <= m->failed[m->failed_at].ts;
    if (!memory && !failed)
        return false;
    int64_t ts = memory ? t->memory[m->memory].ts : m->failed[m->failed_at].ts;
    if (any_span && (ts > start || (ts == start && end >= ts)))
        return false;
    if (memory) {
        *item = t->span_count + m->memory++;
        next_memory(m);
    } else {
        *item = t->span_count + t->memory_count + m->failed[m->failed_at++].instant;
    }
    return true;
}

/* Spans of our own recordings are in order of begin: of two that begin at the same instant, the shorter may
 * come first. */
typedef struct tie {
    int64_t stop;
    uint32_t item, place;
} tie;

static int by_stop(const void *a, const void *b)
{
    const tie *x = a, *y = b;
    if (x->stop != y->stop)
        return x->stop > y->stop ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static tie tie_of(const mtp_events *e, uint32_t item, uint32_t place)
{
    const mtp_trace *t = e->t;
    uint32_t moment = item - t->span_count;
    int64_t stop = item < t->span_count       ? t->end[item]
                   : moment < t->memory_count ? t->memory[moment].ts
                                              : t->instants[moment - t->memory_count].ts;
    return (tie){stop, item, place};
}

static int64_t start_of(const mtp_events *e, uint32_t item)
{
    return item < e->t->span_count ? e->t->start[item] : tie_of(e, item, 0).stop;
}

static mtp_status mend_ties(mtp_events *e)
{
    uint32_t *order = e->order.p, *event_of = e->walk.row.p, most = 0;
    for (uint32_t from = 0, to; from < e->count; from = to) {
        int64_t start = start_of(e, order[from]);
        for (to = from + 1; to < e->count && start_of(e, order[to]) == start; to++)
            ;
        most = to - from > most ? to - from : most;
    }
    tie *ties = mtp__calloc((size_t)most + 1, sizeof *ties);
    if (ties == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u events of one instant", most);
    for (uint32_t from = 0, to; from < e->count; from = to) {
        int64_t start = start_of(e, order[from]);
        for (to = from; to < e->count && start_of(e, order[to]) == start; to++)
            ties[to - from] = tie_of(e, order[to], to);
        if (to - from > 1)
            qsort(ties, to - from, sizeof *ties, by_stop);
        for (uint32_t n = from; n < to; n++) {
            order[n] = ties[n - from].item;
            if (order[n] < e->t->span_count)
                event_of[order[n]] = n + 1;
        }
    }
    mtp__free(ties);
    return MTP_OK;
}

static mtp_status put_in_order(mtp_events *e)
{
    mtp__in_order spans = {0};
    moments m = {0};
    uint64_t count = 0;
    mtp_status status = mtp__in_order_init(&spans, &e->walk);
    if (status == MTP_OK && !moments_init(&m, e))
        status = MTP_FAIL(MTP_E_NOMEM, "allocations that failed");
    for (uint32_t i = 0; i < e->group.sums; i++)
        count += (uint64_t)e->group.sum[i].count; /* "[memory]" too */
    count += m.failed_count;
    if (status == MTP_OK && !mtp__scratch_make(&e->order, count, sizeof(uint32_t)))
        status = MTP_FAIL(MTP_E_NOMEM, "the order of %llu events", (unsigned long long)count);
    uint32_t *order = e->order.p, *event_of = e->walk.row.p, n = 0;
    int64_t start = 0, stop = INT64_MAX; /* of the previous span */
    bool mended = true;
    while (status == MTP_OK && n < count) {
        const mtp__head *head = spans.count > 0 ? &spans.heap[0] : NULL;
        uint32_t item;
        if (take_moment(&m, head != NULL, head != NULL ? head->start : 0, head != NULL ? head->stop : 0,
                        &item)) {
            order[n++] = item;
        } else if (head != NULL) {
            order[n++] = item = head->at;
            mended &= head->start != start || head->stop <= stop;
            start = head->start;
            stop = head->stop;
            mtp__in_order_next(&spans); /* only reads rows after this one */
            event_of[item] = n;
        } else {
            break;
        }
    }
    e->count = n;
    mtp__in_order_fini(&spans);
    mtp__free(m.failed);
    return status == MTP_OK && !mended ? mend_ties(e) : status;
}

/* Whatever is nested in an absorbed span belongs to the absorber. Parents come first, so one step up is
 * enough. */
static void pass_by_absorbed(mtp_events *e, const mtp__launched *launched)
{
    uint32_t *parent = e->walk.parent.p;
    const uint32_t *row = e->walk.row.p, *order = launched->order.p;
    for (uint32_t k = 0; k < launched->threads; k++)
        for (uint32_t n = 0; n < launched->thread[k].count; n++) {
            uint32_t at = launched->thread[k].first + n, i = order != NULL ? order[at] : at;
            uint32_t up = parent[i];
            if (up != 0 && row[up - 1] == 0)
                parent[i] = parent[up - 1];
        }
}

/* ------------------------------------------------------------------------------------------------ all */

static mtp_status walk(mtp_events *e, mtp__launched *launched)
{
    const mtp_trace *t = e->t;
    mtp_status status = mtp__launched_init(launched, t, false, mtp__walk_zero(t));
    if (status == MTP_OK && t->memory_count > 0)
        status = mtp__bytes_init(&e->bytes, t);
    e->walk = mtp__walk_of(&e->group, launched, t->memory_count > 0 ? &e->bytes : NULL);
    e->walk.each = true;
    e->walk.flops = e->has_flops;
    if (status == MTP_OK)
        status = mtp__walk_run(&e->walk);
    if (status == MTP_OK && launched->us.p != NULL)
        status = mtp__kernels_init(&e->kernels, t, false);
    if (status == MTP_OK) {
        pass_by_absorbed(e, launched);
        status = put_in_order(e);
    }
    return status;
}

mtp_status mtp__events_list(mtp_events *e)
{
    static const mtp_averages_options plain = MTP_AVERAGES_OPTIONS_INIT;
    const mtp_trace *t = e->t;
    mtp__launched launched = {0};
    if ((uint64_t)t->span_count + t->memory_count + t->instant_count >= MTP__NONE)
        return MTP_FAIL(MTP_E_NOMEM, "%u spans and %u memory events: too many for one list", t->span_count,
                        t->memory_count);
    e->device_type = mtp__device_type(t);
    e->has_flops = mtp__was_recorded(t, MTP_WITH_FLOPS, "with_flops");
    mtp_status status = mtp__group_init(&e->group, t, &plain, &e->text);
    if (status == MTP_OK)
        status = walk(e, &launched);
    if (status == MTP_OK)
        status = mtp__events_number_threads(e);
    if (status == MTP_OK)
        status = find_steps(e);
    mtp__launched_fini(&launched);
    e->walk.launched = NULL;
    if (status != MTP_OK) {
        mtp__events_unlist(e);
        return status;
    }
    mtp__free(e->group.row_of); /* rows were only counted */
    mtp__free(e->group.sum);
    e->group.row_of = NULL;
    e->group.sum = NULL;
    e->group.row_of_room = e->group.sums = e->group.room = 0;
    mtp__scratch_free(&e->walk.cost);
    mtp__scratch_free(&e->bytes.cover);
    return MTP_OK;
}

void mtp__events_unlist(mtp_events *e)
{
    mtp__scratch_free(&e->order);
    mtp__walk_fini(&e->walk);
    mtp__group_fini(&e->group);
    mtp__bytes_fini(&e->bytes);
    mtp__kernels_fini(&e->kernels);
    mtp__free(e->thread_of);
    mtp__free(e->numbered);
    mtp__free(e->steps);
    e->thread_of = NULL;
    e->numbered = NULL;
    e->steps = NULL;
    e->count = 0;
}

/* Last to first, each becomes its parent's first child. */
mtp_status mtp__events_nest(mtp_events *e)
{
    if (!mtp__scratch_make(&e->child, e->count, sizeof(uint32_t)) ||
        !mtp__scratch_make(&e->sibling, e->count, sizeof(uint32_t))) {
        mtp__scratch_free(&e->child);
        return MTP_FAIL(MTP_E_NOMEM, "the children of %u events", e->count);
    }
    const uint32_t *order = e->order.p, *event_of = e->walk.row.p, *parent = e->walk.parent.p;
    uint32_t *child = e->child.p, *sibling = e->sibling.p;
    for (uint32_t n = e->count; n-- > 0;) {
        uint32_t up = order[n] < e->t->span_count ? parent[order[n]] : 0;
        if (up == 0)
            continue;
        uint32_t *first = &child[event_of[up - 1] - 1];
        sibling[n] = *first;
        *first = n + 1;
    }
    return MTP_OK;
}
