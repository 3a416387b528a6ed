/* trace/job/place.c - moves the times of a trace to another clock: a line, so their order stays. */
#include "trace/job/job.h"

typedef struct line {
    int64_t base, at, offset;
    double drift;
} line;

static int64_t moved(const line *l, int64_t ts)
{
    int64_t t = (int64_t)((uint64_t)ts + (uint64_t)l->base), since = (int64_t)((uint64_t)t - (uint64_t)l->at);
    double more = l->drift * (double)since;
    more = more > 9e18 ? 9e18 : more < -9e18 ? -9e18 : more;
    return (int64_t)((uint64_t)ts + (uint64_t)l->offset + (uint64_t)(int64_t)more);
}

static void place_recordings(mtp_trace *t, const line *l)
{
    for (uint32_t i = 0; i < t->recording_count; i++) {
        mtp_trace_info *info = &t->recordings[i].info;
        info->first_ns = moved(l, info->first_ns);
        info->last_ns = moved(l, info->last_ns);
    }
    t->counts.first_ns = moved(l, t->counts.first_ns);
    t->counts.last_ns = moved(l, t->counts.last_ns);
}

void mtp__trace_place(mtp_trace *t, int64_t at, int64_t offset, double drift)
{
    const line l = {.base = t->base_ns, .at = at, .offset = offset, .drift = drift};
    if (t->without_times || (offset == 0 && drift == 0))
        return;
    for (uint32_t i = 0; i < t->span_count; i++) {
        t->start[i] = moved(&l, t->start[i]);
        t->end[i] = moved(&l, t->end[i]);
    }
    for (uint32_t i = 0; i < t->memory_count; i++)
        t->memory[i].ts = moved(&l, t->memory[i].ts);
    for (uint32_t i = 0; i < t->tag_count; i++)
        t->tags[i].ts = moved(&l, t->tags[i].ts);
    for (uint32_t i = 0; i < t->instant_count; i++)
        t->instants[i].ts = moved(&l, t->instants[i].ts);
    for (uint32_t i = 0; i < t->flow_count; i++)
        t->flows[i].ts = moved(&l, t->flows[i].ts);
    for (uint32_t i = 0; i < t->step_count; i++) {
        t->steps[i].start = moved(&l, t->steps[i].start);
        t->steps[i].end = moved(&l, t->steps[i].end);
    }
    t->first_ns = moved(&l, t->first_ns);
    t->last_ns = moved(&l, t->last_ns);
    place_recordings(t, &l);
}
