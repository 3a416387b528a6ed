#include "trace/records/tally.h"
#include <string.h>
#include "trace/build.h"

static void note_first(mtp__tally *y, int64_t ts)
{
    if (!y->any || ts < y->first_ns)
        y->first_ns = ts;
    y->any = true;
}

void mtp__tally_take(mtp__tally *y, mtp_trace *t, uint32_t kept)
{
    mtp__span_memory *c = &t->builder->spans;
    for (uint32_t i = kept; i < c->count; i++)
        note_first(y, COLUMN(c, START, int64_t)[i]);
    for (uint32_t i = 0; i < t->memory_count; i++)
        note_first(y, t->memory[i].ts);
    for (uint32_t i = 0; i < t->instant_count; i++)
        note_first(y, t->instants[i].ts);
    y->spans += c->count - kept;
    y->memory_events += t->memory_count;
    y->instants += t->instant_count;
    y->bytes += (c->count - kept) * (uint64_t)(2 * sizeof(int64_t) + 3 * sizeof(uint32_t) + 2) +
                t->memory_count * sizeof *t->memory + t->instant_count * sizeof *t->instants +
                t->tag_count * sizeof *t->tags + (t->detail_count - 1) * sizeof *t->details +
                t->tensor_count * sizeof *t->tensors + t->held_count * sizeof *t->held;
    if (c->count > 0) { /* readers expect zeroed columns */
        memset(COLUMN(c, DETAIL, uint32_t), 0, c->count * sizeof(uint32_t));
        memset(COLUMN(c, FLAGS, uint8_t) + kept, 0, c->count - kept);
    }
    c->count = kept;
    t->memory_count = t->instant_count = t->tag_count = t->tensor_count = t->held_count = 0;
    t->detail_count = 1;
}

void mtp__tally_add(const mtp__tally *y, mtp_trace_info *info)
{
    info->spans += y->spans;
    info->cpu_spans += y->spans;
    info->memory_events += y->memory_events;
    info->instants += y->instants;
    info->model_bytes += y->bytes;
    if (y->any && y->first_ns < info->first_ns)
        info->first_ns = y->first_ns;
}
