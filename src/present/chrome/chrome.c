/* present/chrome/chrome.c - the whole file: plans rows and flows, then merges tracks, allocations and
 * instants by time in one pass. Linear in events; memory beyond the trace is small unless spans overlap.
 */
#include "present/chrome/chrome.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/heap.h"

#define DAY_NS 86400000000000LL
#define PROGRESS_EVERY 65536u

typedef enum source_kind {
    SPANS,
    MEMORY,
    INSTANTS,
    WINDOW
} source_kind;

/* Events in order of time: a track's spans, or all allocations, or all instants. */
typedef struct source {
    uint64_t ts, dur; /* of the next event */
    uint32_t at, end;
    uint32_t number; /* among the sources: breaks ties */
    uint32_t track, link;
    source_kind kind;
} source;

typedef struct merge {
    mtp__chrome *w;
    source *sources;    /* owned */
    source **heap;      /* owned */
    uint32_t count;     /* of the heap */
    uint32_t *order;    /* owned, or NULL: spans in stored order */
    uint32_t *instants; /* owned, or NULL: instants in stored order */
    uint64_t reported;  /* events, at the last progress callback */
} merge;

/* -------------------------------------------------------------------------------------------- sources */

static inline uint32_t item(const merge *m, const source *s)
{
    const uint32_t *order = s->kind == SPANS ? m->order : s->kind == INSTANTS ? m->instants : NULL;
    return order != NULL ? order[s->at] : s->at;
}

/* Rounding both ends down keeps nested spans nested and disjoint ones disjoint. */
static inline uint64_t written_dur(const mtp__chrome *w, uint32_t span, uint64_t ts)
{
    int64_t end = w->t->end[span];
    return end > w->t->start[span] ? mtp__chrome_ts(w, end) - ts : 0;
}

static inline void look(const merge *m, source *s)
{
    const mtp__chrome *w = m->w;
    if (s->at >= s->end)
        return;
    uint32_t i = item(m, s);
    if (s->kind == SPANS) {
        s->ts = mtp__chrome_ts(w, w->t->start[i]);
        s->dur = written_dur(w, i, s->ts);
    } else if (s->kind == WINDOW) { /* the span, its begin, its end */
        uint64_t first = mtp__chrome_ts(w, w->t->first_ns), last = mtp__chrome_ts(w, w->t->last_ns);
        s->ts = i < 2 ? first : last;
        s->dur = i == 0 ? last - first : 0;
    } else {
        s->ts = mtp__chrome_ts(w, s->kind == MEMORY ? w->t->memory[i].ts : w->t->instants[i].ts);
    }
}

/* (ts, -dur): the enclosing span comes first. */
static inline bool before(const source *a, const source *b)
{
    if (a->ts != b->ts)
        return a->ts < b->ts;
    if (a->dur != b->dur)
        return a->dur > b->dur;
    return a->number < b->number;
}

static bool comes_first(const void *x, const void *y, const void *user)
{
    (void)user;
    const source *const *a = x, *const *b = y;
    return before(*a, *b);
}

/* ------------------------------------------------------------------------------------ orders, where needed */

/* Of spans with equal written ts the longest comes first; only whole microseconds can break that order. */
typedef struct span_key {
    uint64_t dur;
    uint32_t span;
} span_key;

static int by_dur(const void *a, const void *b)
{
    const span_key *x = a, *y = b;
    if (x->dur != y->dur)
        return x->dur > y->dur ? -1 : 1;
    return (x->span > y->span) - (x->span < y->span);
}

static void order_track(merge *m, const mtp__track *track, span_key *keys)
{
    const mtp__chrome *w = m->w;
    uint32_t end = track->first + track->count;
    for (uint32_t from = track->first, to; from < end; from = to) {
        uint64_t ts = mtp__chrome_ts(w, w->t->start[from]);
        bool sorted = true;
        for (to = from; to < end && mtp__chrome_ts(w, w->t->start[to]) == ts; to++) {
            keys[to - from] = (span_key){written_dur(w, to, ts), to};
            sorted = sorted && (to == from || keys[to - from].dur <= keys[to - from - 1].dur);
        }
        if (!sorted)
            qsort(keys, to - from, sizeof *keys, by_dur);
        for (uint32_t i = from; i < to; i++)
            m->order[i] = keys[i - from].span;
    }
}

static mtp_status order_spans(merge *m)
{
    const mtp_trace *t = m->w->t;
    uint32_t most = 1;
    for (uint32_t k = 0; k < t->track_count; k++)
        most = t->tracks[k].count > most ? t->tracks[k].count : most;
    span_key *keys = mtp__calloc(most, sizeof *keys);
    m->order = mtp__calloc((size_t)t->span_count + 1, sizeof *m->order);
    if (keys == NULL || m->order == NULL) {
        mtp__free(keys);
        return MTP_FAIL(MTP_E_NOMEM, "the order of %u spans", t->span_count);
    }
    for (uint32_t k = 0; k < t->track_count; k++)
        order_track(m, &t->tracks[k], keys);
    mtp__free(keys);
    return MTP_OK;
}

typedef struct instant_key {
    int64_t ts;
    uint32_t instant;
} instant_key;

static int by_ts(const void *a, const void *b)
{
    const instant_key *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return (x->instant > y->instant) - (x->instant < y->instant);
}

static mtp_status order_instants(merge *m)
{
    const mtp_trace *t = m->w->t;
    bool sorted = true;
    for (uint32_t i = 1; i < t->instant_count; i++)
        sorted = sorted && t->instants[i - 1].ts <= t->instants[i].ts;
    if (sorted)
        return MTP_OK;
    instant_key *keys = mtp__calloc(t->instant_count, sizeof *keys);
    m->instants = mtp__calloc(t->instant_count, sizeof *m->instants);
    if (keys == NULL || m->instants == NULL) {
        mtp__free(keys);
        return MTP_FAIL(MTP_E_NOMEM, "the order of %u instants", t->instant_count);
    }
    for (uint32_t i = 0; i < t->instant_count; i++)
        keys[i] = (instant_key){t->instants[i].ts, i};
    qsort(keys, t->instant_count, sizeof *keys, by_ts);
    for (uint32_t i = 0; i < t->instant_count; i++)
        m->instants[i] = keys[i].instant;
    mtp__free(keys);
    return MTP_OK;
}

/* ---------------------------------------------------------------------------------------------- merging */

static void add_source(merge *m, source s)
{
    if (s.at >= s.end)
        return;
    s.number = m->count;
    m->sources[m->count] = s;
    look(m, &m->sources[m->count]);
    m->heap[m->count] = &m->sources[m->count];
    m->count++;
}

static mtp_status merge_init(merge *m)
{
    const mtp_trace *t = m->w->t;
    m->sources = mtp__calloc((size_t)t->track_count + 3, sizeof *m->sources);
    m->heap = mtp__calloc((size_t)t->track_count + 3, sizeof *m->heap);
    if (m->sources == NULL || m->heap == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a merge of %u tracks", t->track_count);
    mtp_status status = m->w->whole ? order_spans(m) : MTP_OK;
    if (status == MTP_OK)
        status = order_instants(m);
    if (status != MTP_OK)
        return status;
    add_source(m, (source){.end = m->w->window.tid != 0 ? 3 : 0,
                           .kind = WINDOW}); /* encloses everything: it comes first */
    for (uint32_t k = 0; k < t->track_count; k++)
        add_source(m, (source){.at = t->tracks[k].first,
                               .end = t->tracks[k].first + t->tracks[k].count,
                               .track = k,
                               .link = mtp__chrome_first_link(m->w, t->tracks[k].first),
                               .kind = SPANS});
    add_source(m, (source){.end = t->memory_count, .kind = MEMORY});
    add_source(m, (source){.end = t->instant_count, .kind = INSTANTS});
    return MTP_OK;
}

static inline void write_span(merge *m, source *s)
{
    mtp__chrome *w = m->w;
    uint32_t span = item(m, s), lane = w->first_lane[s->track] + (w->lane_of != NULL ? w->lane_of[span] : 0);
    mtp__chrome_span(w, &w->lanes[lane], span, s->ts, s->dur);
    if (__builtin_expect(m->order != NULL && w->link_count > 0, 0))
        s->link = mtp__chrome_first_link(w, span);
    while (s->link < w->link_count && w->links[s->link].span == span)
        mtp__chrome_link(w, &w->lanes[lane], &w->links[s->link++], s->ts);
}

static inline void write_one(merge *m, source *s)
{
    if (__builtin_expect(s->kind == SPANS, 1))
        write_span(m, s);
    else if (s->kind == MEMORY)
        mtp__chrome_memory(m->w, item(m, s), s->ts);
    else if (s->kind == WINDOW)
        mtp__chrome_window(m->w, item(m, s), s->ts, s->dur);
    else
        mtp__chrome_instant(m->w, item(m, s), s->ts);
    s->at++;
    look(m, s);
}

/* The first event must have a duration, whatever precedes it in time; then come the names of rows. */
static void write_first(merge *m)
{
    source *first = NULL;
    uint32_t at = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if ((m->heap[i]->kind == SPANS || m->heap[i]->kind == WINDOW) &&
            (first == NULL || before(m->heap[i], first))) {
            first = m->heap[i];
            at = i;
        }
    uint64_t ts = first != NULL ? first->ts : m->count > 0 ? m->heap[0]->ts : 0;
    if (first != NULL) {
        write_one(m, first);
        if (first->at >= first->end)
            m->heap[at] = m->heap[--m->count];
    }
    mtp__chrome_row_events(m->w, ts);
}

static void progress(merge *m)
{
    mtp__chrome *w = m->w;
    m->reported = w->events;
    if (w->options.progress != NULL)
        w->options.progress(w->options.user, w->events < w->events_total ? w->events : w->events_total,
                            w->events_total);
}

static void merge_run(merge *m)
{
    mtp__chrome *w = m->w;
    write_first(m);
    mtp__heap_order(m->heap, sizeof *m->heap, m->count, comes_first, NULL);
    while (m->count > 0 && !w->out.failed) {
        source *top = m->heap[0], *next = m->count > 1 ? m->heap[1] : NULL;
        if (m->count > 2 && before(m->heap[2], next))
            next = m->heap[2];
        do {
            write_one(m, top);
        } while (top->at < top->end && (next == NULL || before(top, next)) &&
                 w->events - m->reported < PROGRESS_EVERY);
        if (top->at >= top->end)
            m->heap[0] = m->heap[--m->count];
        mtp__heap_down(m->heap, sizeof *m->heap, m->count, 0, comes_first, NULL);
        if (w->events - m->reported >= PROGRESS_EVERY)
            progress(m);
    }
}

/* ------------------------------------------------------------------------------------------------ public */

__extension__ typedef __int128 wide;

/* The day (UTC) in which the trace begins, so that a double can hold ts to the nanosecond, and the files of
 * ranks that ran together share a base: some readers compare ts directly. */
static void choose_base(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    wide first = (wide)t->base_ns + t->first_ns - 1000;
    wide base = first / DAY_NS * DAY_NS - (first % DAY_NS < 0 ? DAY_NS : 0);
    if (t->span_count + t->memory_count + t->instant_count == 0)
        base = t->base_ns;
    if (w->job != NULL)
        base = w->job->base_ns;
    w->base_ns = base < INT64_MIN ? INT64_MIN : base > INT64_MAX ? INT64_MAX : (int64_t)base;
    w->shift = (int64_t)((uint64_t)w->base_ns - (uint64_t)t->base_ns);
    if (base != w->base_ns ||
        base - t->base_ns != w->shift) /* not representable: only differences are right */
        w->shift = t->first_ns;
}

static mtp_status prepare(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    for (uint32_t i = 0; i < t->instant_count; i++)
        w->bad_counters +=
            t->instants[i].is_counter && t->instants[i].args == 0 && !isfinite(t->instants[i].value);
    w->quoted = mtp__calloc((size_t)mtp__intern_count(&t->text) + 1, sizeof *w->quoted);
    if (w->quoted == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u texts", mtp__intern_count(&t->text));
    choose_base(w);
    mtp_status status = mtp__chrome_rows(w);
    if (status == MTP_OK)
        status = mtp__chrome_links(w);
    if (status == MTP_OK)
        status = mtp__chrome_launches(w);
    if (status == MTP_OK)
        status = mtp__chrome_head_prepare(w);
    w->events_total = (uint64_t)t->span_count + t->memory_count + t->instant_count + w->link_count;
    return status;
}

static mtp_status write_all(mtp__chrome *w)
{
    merge m = {.w = w};
    mtp_status status = merge_init(&m);
    if (status == MTP_OK) {
        if (w->job == NULL)
            mtp__chrome_head(w);
        merge_run(&m);
        if (w->job == NULL)
            mtp__chrome_tail(w);
        if (w->job == NULL)
            w->events = w->events_total;
        progress(&m);
    }
    mtp__free(m.sources);
    mtp__free(m.heap);
    mtp__free(m.order);
    mtp__free(m.instants);
    return status;
}

static void writer_fini(mtp__chrome *w)
{
    mtp__pair_map_fini(&w->metas);
    mtp__pair_map_fini(&w->processes);
    mtp__pair_map_fini(&w->works);
    mtp__free(w->lanes);
    mtp__free(w->first_lane);
    mtp__free(w->lane_of);
    mtp__free(w->rows);
    mtp__free(w->links);
    mtp__free(w->quoted);
    mtp__free(w->arena);
    mtp__free(w);
}

/* Ids of the next trace in the file begin above all of this one's. */
static void pass_ids(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    uint64_t most = (uint64_t)t->span_count + 1;
    most = w->next_correlation > most ? w->next_correlation : most;
    most = w->fwdbwd > most ? w->fwdbwd : most;
    for (uint32_t i = 0; i < t->detail_count; i++) {
        most = t->details[i].correlation > most ? t->details[i].correlation : most;
        most = t->details[i].external_id > most ? t->details[i].external_id : most;
    }
    for (uint32_t i = 0; i < w->link_count; i++)
        most = w->links[i].id > most ? w->links[i].id : most;
    w->job->ids += most;
    w->job->events = w->events;
}

static mtp_status write_trace(const mtp_trace *trace, const mtp_export_options *options, mtp__chrome_job *job,
                              mtp_sink *sink, void *user)
{
    mtp__chrome *w = mtp__calloc(1, sizeof *w);
    if (w == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a writer");
    w->t = trace;
    w->job = job;
    w->ids = job != NULL ? job->ids : 0;
    w->events = job != NULL ? job->events : 0;
    w->options = (mtp_export_options)MTP_EXPORT_OPTIONS_INIT;
    mtp_status status = MTP__ABI_READ(&w->options, options, mtp_export_options, user);
    w->whole = w->options.whole_microseconds;
    w->plain = mtp__is_recording(trace) && !w->options.without_args;
    if (status == MTP_OK)
        status = mtp__out_init(&w->out, sink, user);
    if (status == MTP_OK) {
        status = prepare(w);
        if (status == MTP_OK)
            status = write_all(w);
        if (status == MTP_OK && job != NULL)
            pass_ids(w);
        mtp_status sunk = status == MTP_OK ? mtp__out_finish(&w->out) : status;
        if (status != MTP_OK)
            mtp__free(w->out.buffer);
        status = sunk;
    }
    writer_fini(w);
    return status;
}

mtp_status mtp__chrome_part(const mtp_trace *trace, const mtp_export_options *options, mtp__chrome_job *job,
                            mtp_sink *sink, void *user)
{
    return write_trace(trace, options, job, sink, user);
}

mtp_status mtp_trace_chrome(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                            void *user)
{
    if (trace == NULL || sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or sink is NULL");
    return write_trace(trace, options, NULL, sink, user);
}
