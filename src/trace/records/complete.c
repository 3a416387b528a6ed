/* trace/records/complete.c - completes a trace after the last record was read. */
#include <stdio.h>
#include "trace/records/reader.h"

/* A loop ends with step(): the step this begins counts only if something was recorded in it. */
static void add_steps(mtp__reader *r, int64_t end)
{
    for (uint32_t i = 0; i < r->mark_count; i++) {
        mtp__step step = {mtp__ticks_to_ns(&r->dict.line, r->marks[i].ticks), end,
                          (int64_t)r->marks[i].number};
        bool is_last = i + 1 == r->mark_count;
        if (!is_last)
            step.end = mtp__ticks_to_ns(&r->dict.line, r->marks[i + 1].ticks);
        if (!is_last || i == 0 || step.start < end)
            mtp__trace_add_step(r->t, &step);
    }
}

/* Names defined too late for the first pass. Missing and lost names become "?". */
static void name_late(mtp__reader *r)
{
    const uint32_t unknown = r->late_count > 0 ? mtp__trace_text(r->t, "?", 1) : 0;
    uint32_t *names = COLUMN(&r->t->builder->spans, NAME, uint32_t);
    for (uint32_t i = 0; i < r->late_count; i++) {
        uint32_t name = mtp__dictionary_name(&r->dict, r->late[i].id);
        names[r->late[i].span] = name != 0 ? name : unknown;
    }
}

/* Were ends lost? Evicted ends took their begins along. */
static bool lost_ends(const mtp_trace *t)
{
    const uint64_t *by = t->ledger.dropped_by;
    return t->damaged_chunks + t->missing_chunks > 0 ||
           (t->has_ledger &&
            by[MTP_DROP_BUDGET] + by[MTP_DROP_DISK] + by[MTP_DROP_NOMEM] + by[MTP_DROP_DAMAGED] > 0);
}

/* Unfinished spans last until the recording was stopped, or until now; if that is unknown, to the last record
 * of all. If the end may have been lost, to the thread's last record. Returns the end of the trace. */
static int64_t end_unfinished(mtp__reader *r)
{
    mtp_trace *t = r->t;
    if (r->dict.line.count == 0)
        return 0;
    const bool lost = lost_ends(t);
    uint64_t latest = r->end_ticks;
    for (uint32_t i = 0; i < r->unfinished_count; i++) {
        const mtp__unfinished_span *u = &r->unfinished[i];
        uint64_t stop = u->until != 0 ? u->until : lost ? u->ticks : mtp__dictionary_stop(&r->dict, u->cycle);
        if (stop == 0)
            stop = r->now_ticks == 0 ? r->end_ticks : r->now_ticks;
        if (stop < u->ticks)
            stop = u->ticks;
        latest = stop > latest ? stop : latest;
        mtp__trace_end_span(t, u->span, mtp__ticks_to_ns(&r->dict.line, stop), MTP__SPAN_UNFINISHED);
    }
    t->unfinished = r->unfinished_count;
    return mtp__ticks_to_ns(&r->dict.line, latest);
}

/* Times in mtprof.clock_ties are of CLOCK_MONOTONIC: what makes them times of this trace, wherever it is written. */
static void tell_clock_base(mtp_trace *t)
{
    static const char key[] = "mtprof.clock_base_ns";
    uint32_t ties = mtp__trace_find_text(t, "mtprof.clock_ties");
    char text[24];
    for (uint32_t i = 0; ties != 0 && i < t->metadata_count; i++) {
        if (t->metadata[i].key != ties)
            continue;
        int n = snprintf(text, sizeof text, "%lld", (long long)(t->base_ns - t->zero_ns));
        mtp__trace_add_meta(t, key, sizeof key - 1, text, (size_t)n);
        return;
    }
}

void mtp__reader_complete(mtp__reader *r)
{
    mtp_trace *t = r->t;
    mtp__reader_close_stream(r);
    if (r->end_ticks == 0) /* only the control stream */
        r->end_ticks = r->dict.last_ticks;
    int64_t end = end_unfinished(r);
    if (r->tally != NULL) {
        mtp__tally_take(r->tally, t, 0);
        for (uint32_t k = 0; k < t->track_count; k++)
            t->tracks[k].first = t->tracks[k].count = 0, t->tracks[k].crossing = false;
    }
    name_late(r);
    for (uint32_t k = t->builder->from.tracks; k < t->track_count && !t->builder->out_of_memory; k++)
        if (t->tracks[k].crossing)
            mtp__trace_nest_track(t, &t->tracks[k]);
    mtp__trace_extent_by_tracks(t, end);
    mtp__device_add(&r->devices, t, &r->dict);
    t->builder->in_order = true;
    if (r->dict.placing == NULL || r->dict.placing->part == 0) /* the main process's are those of the trace */
        add_steps(r, end);
    mtp__dictionary_add_process(&r->dict);
    mtp__device_describe_all(t, &r->dict);
    t->base_ns = r->dict.line.count > 0 ? r->dict.line.point[0].realtime : 0;
    t->zero_ns = r->dict.line.zero_ns;
    tell_clock_base(t);
}
