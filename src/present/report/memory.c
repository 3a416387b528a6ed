/* present/report/memory.c - memory over time, exact, for each device; counters. */
#include <string.h>
#include "analyze/memory.h"
#include "base/error.h"
#include "base/grow.h"
#include "present/report/report.h"

#define BLOCKS_MAX 500 /* of those alive at the peak */

/* --------------------------------------------------------------------------------------------- by op */

typedef struct maker {
    uint32_t name; /* text */
    uint64_t count;
    int64_t bytes, at_peak;
} maker;

typedef struct makers {
    mtp__pair_map of; /* name -> row */
    maker *row;
    uint32_t count, room;
} makers;

static bool add_block(makers *m, const mtp_memory_timeline *timeline, const mtp__block *b)
{
    const mtp_trace *t = timeline->trace;
    uint32_t span = b->made != MTP__NONE ? mtp__memory_maker(t, b->made) : MTP__NONE;
    uint32_t name = span != MTP__NONE ? t->name[span] : 0;
    bool is_new = false;
    uint64_t *at = mtp__pair_put(&m->of, name, 0, m->count, &is_new);
    if (at == NULL || (is_new && !MTP__GROW(m->row, m->room, m->count, m->count + 1, 64)))
        return false;
    if (is_new)
        m->row[m->count++] = (maker){.name = name};
    maker *row = &m->row[*at];
    row->count++;
    row->bytes =
        (int64_t)((uint64_t)row->bytes + (uint64_t)b->bytes); /* a trace may hold any number: it wraps */
    if (b->created <= timeline->info.peak_ns && b->freed > timeline->info.peak_ns)
        row->at_peak = (int64_t)((uint64_t)row->at_peak + (uint64_t)b->bytes);
    return true;
}

static mtp_status put_makers(mtp__out *o, const mtp_memory_timeline *timeline)
{
    makers m = {0};
    bool well = true;
    for (uint32_t i = 0; i < timeline->block_count && well; i++)
        if (timeline->blocks[i].created != INT64_MIN)
            well = add_block(&m, timeline, &timeline->blocks[i]);
    MTP__OUT(o, ", \"by\": [");
    for (uint32_t i = 0; i < m.count && well; i++) {
        mtp_text name = mtp__trace_get_text(timeline->trace, m.row[i].name);
        mtp__out_text(o, i > 0 ? ",\n[" : "\n[");
        mtp__out_string(o, name.bytes, name.length);
        MTP__OUT(o, ", ");
        mtp__out_u64(o, m.row[i].count);
        MTP__OUT(o, ", ");
        mtp__out_i64(o, m.row[i].bytes);
        MTP__OUT(o, ", ");
        mtp__out_i64(o, m.row[i].at_peak);
        MTP__OUT(o, "]");
    }
    MTP__OUT(o, "]");
    mtp__pair_map_fini(&m.of);
    mtp__free(m.row);
    return well ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "who allocated what");
}

/* ----------------------------------------------------------------------------------------------- devices */

static mtp_status put_device(mtp__out *o, const mtp_memory_timeline *timeline)
{
    mtp__replay before;
    mtp__replay_init(&before, timeline);
    MTP__OUT(o, "{\"summary\": ");
    mtp__out_flush(o);
    mtp_status status = mtp_memory_timeline_summary(timeline, BLOCKS_MAX, o->sink, o->user);
    MTP__OUT(o, ", \"start\": ");
    mtp__out_i64(o, (int64_t)((uint64_t)mtp__timeline_start(timeline) - (uint64_t)timeline->trace->first_ns));
    MTP__OUT(o, ", \"before\": [");
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++) {
        mtp__out_text(o, k > 0 ? ", " : "");
        mtp__out_i64(o, before.sizes[k]);
    }
    MTP__OUT(o, "]");
    if (status == MTP_OK)
        status = put_makers(o, timeline);
    MTP__OUT(o, "}");
    return status;
}

/* One number for each change, or two where a block changes its category. */
typedef struct steps {
    uint64_t *gap, *bytes;
    uint8_t *category;
    uint32_t count;
} steps;

static void add_change(steps *s, int64_t gap, int64_t bytes, uint8_t category)
{
    s->gap[s->count] = mtp__zigzag(gap);
    s->bytes[s->count] = mtp__zigzag(bytes);
    s->category[s->count++] = category;
}

static mtp_status put_changes(mtp__blob *b, const mtp_memory_timeline *timeline)
{
    size_t room = (size_t)timeline->change_count * 2 + 1;
    steps s = {mtp__calloc(room, sizeof *s.gap), mtp__calloc(room, sizeof *s.bytes), mtp__calloc(room, 1), 0};
    bool well = s.gap != NULL && s.bytes != NULL && s.category != NULL;
    int64_t last = mtp__timeline_start(timeline);
    for (uint32_t i = 0; i < timeline->change_count && well; i++) {
        const mtp__change *c = &timeline->changes[i];
        int64_t bytes = timeline->blocks[c->block].bytes, gap = (int64_t)((uint64_t)c->ts - (uint64_t)last);
        if (c->action != MTP__CREATE)
            add_change(&s, gap, -bytes, mtp__change_was(timeline, c));
        if (c->action != MTP__DESTROY)
            add_change(&s, c->action == MTP__CREATE ? gap : 0, bytes, mtp__change_now(timeline, c));
        last = c->ts;
    }
    if (well) {
        mtp__blob_column(b, "gap", s.gap, s.count);
        mtp__blob_column(b, "bytes", s.bytes, s.count);
        mtp__blob_bytes_column(b, "category", s.category, s.count);
    }
    mtp__free(s.gap);
    mtp__free(s.bytes);
    mtp__free(s.category);
    return well ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%u changes of memory", timeline->change_count);
}

void mtp__report_categories(mtp__out *o)
{
    MTP__OUT(o, "{\"categories\": [");
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++) {
        const char *name = mtp_memory_category_text((mtp_memory_category)k);
        mtp__out_text(o, k > 0 ? ", " : "");
        mtp__out_string(o, name, strlen(name));
    }
    MTP__OUT(o, "], \"devices\": [");
}

/* {"categories", "devices": [...]} and a zero byte, then each device's columns. */
mtp_status mtp__report_memory(const mtp__plan *p, mtp__blob *b)
{
    mtp__out o;
    mtp_memory_timeline *all[MTP__DEVICES_MAX] = {NULL};
    uint32_t count = 0;
    mtp_status status = mtp_memory_timeline_create(p->t, NULL, &all[0]);
    if (status != MTP_OK)
        return status;
    count = all[0]->device_count;
    for (uint32_t i = 1, next = 0; i < count && status == MTP_OK; next++)
        if (strcmp(all[0]->devices[next].name, all[0]->device.name) != 0)
            status = mtp_memory_timeline_create(p->t, all[0]->devices[next].name, &all[i++]);
    if (status == MTP_OK)
        status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status == MTP_OK) {
        mtp__report_categories(&o);
        for (uint32_t i = 0; i < count && status == MTP_OK; i++) {
            mtp__out_text(&o, i > 0 ? ",\n" : "\n");
            status = put_device(&o, all[i]);
        }
        MTP__OUT(&o, "]}\0");
        mtp_status written = mtp__out_finish(&o);
        status = status != MTP_OK ? status : written;
    }
    for (uint32_t i = 0; i < count && status == MTP_OK; i++)
        status = put_changes(b, all[i]);
    for (uint32_t i = 0; i < MTP__DEVICES_MAX; i++)
        mtp_memory_timeline_destroy(all[i]);
    return status;
}

/* ---------------------------------------------------------------------------------------------- counters */

#define POINTS_MAX 200000u

/* [[name, track, time since the first event, value], ...]; marks have no value. */
mtp_status mtp__report_counters(const mtp__plan *p, mtp__blob *b)
{
    const mtp_trace *t = p->t;
    mtp__out o;
    mtp_status status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    uint32_t skip = t->instant_count / POINTS_MAX + 1;
    MTP__OUT(&o, "[");
    bool some = false;
    for (uint32_t i = 0; i < t->instant_count; i += skip) {
        const mtp__instant *at = &t->instants[i];
        if (strcmp(mtp__trace_get_text(t, at->category).bytes, MTP__MEMORY_COUNTER) == 0)
            continue;
        mtp_text name = mtp__trace_get_text(t, at->name);
        mtp__out_text(&o, some ? ",\n[" : "\n[");
        some = true;
        mtp__out_string(&o, name.bytes, name.length);
        MTP__OUT(&o, ",");
        mtp__out_u64(&o, at->track);
        MTP__OUT(&o, ",");
        mtp__out_i64(&o, (int64_t)((uint64_t)at->ts - (uint64_t)t->first_ns));
        if (at->is_counter) {
            MTP__OUT(&o, ",");
            mtp__out_double(&o, at->value);
        }
        MTP__OUT(&o, "]");
    }
    MTP__OUT(&o, "]\n");
    return mtp__out_finish(&o);
}
