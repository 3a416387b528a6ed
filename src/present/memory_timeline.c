/* present/memory_timeline.c - a memory timeline in torch's formats, and as a summary. */
#include <stdlib.h>
#include <string.h>
#include "analyze/memory.h"
#include "base/error.h"
#include "base/file_out.h"
#include "base/json_out.h"

/* Unix time; a trace may hold any number, so it wraps rather than traps. */
static int64_t unix_ns(const mtp_memory_timeline *m, int64_t ts)
{
    return (int64_t)((uint64_t)m->trace->base_ns + (uint64_t)ts);
}

/* Rounds as torch does: to the nearest double, then towards zero. Near 1.8e15 us a double resolves quarters,
 * so 0.875 and more becomes the next microsecond; done in integers (bench: memory_json_ns_per_event). */
static int64_t torch_us(int64_t ns)
{
    int64_t us = ns / 1000;
    if (us >= (int64_t)1 << 50 && us < (int64_t)1 << 51)
        return us + (ns % 1000 >= 875);
    return (int64_t)(double)((long double)ns / 1000);
}

/* ----------------------------------------------------------------------------------- [times_us, sizes] */

/* One of torch's rows: all changes within one microsecond. */
typedef struct rows {
    mtp__replay replay;
    int64_t us; /* of the row */
    bool first;
} rows;

static void rows_init(rows *r, const mtp_memory_timeline *m)
{
    mtp__replay_init(&r->replay, m);
    r->first = true;
}

/* Preexisting memory is a separate row, at the earliest time. */
static bool rows_next(rows *r)
{
    const mtp_memory_timeline *m = r->replay.timeline;
    bool first = r->first;
    r->first = false;
    if (first && m->info.preexisting_bytes != 0) {
        r->us = torch_us(unix_ns(m, mtp__timeline_start(m)));
        return true;
    }
    if (!mtp__replay_next(&r->replay))
        return false;
    r->us = torch_us(unix_ns(m, m->changes[r->replay.next - 1].ts));
    while (r->replay.next < m->change_count && torch_us(unix_ns(m, m->changes[r->replay.next].ts)) == r->us)
        mtp__replay_next(&r->replay);
    return true;
}

static char *put_numbers(char *p, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        p = i > 0 ? MTP__PUT(p, ", ") : p;
        p = mtp__put_i64(p, numbers[i]);
    }
    return p;
}

/* The rows' times, or their sizes: torch's list has all of one, then all of the other. */
static void put_rows(mtp__out *o, const mtp_memory_timeline *m, bool sizes)
{
    rows r;
    rows_init(&r, m);
    for (bool more = false; rows_next(&r); more = true) {
        char *p = mtp__out_room(o);
        p = more ? MTP__PUT(p, ", ") : p;
        if (sizes) {
            p = MTP__PUT(p, "[0, ");
            p = put_numbers(p, r.replay.sizes, MTP_MEMORY_CATEGORIES);
            *p++ = ']';
        } else {
            p = mtp__put_i64(p, r.us);
        }
        o->at = p;
    }
}

mtp_status mtp_memory_timeline_json(const mtp_memory_timeline *m, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, m, "timeline", sink, user);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "[[");
    put_rows(&o, m, false);
    MTP__OUT(&o, "], [");
    put_rows(&o, m, true);
    MTP__OUT(&o, "]]");
    return mtp__out_finish(&o);
}

/* ------------------------------------------------------------------------------------------------ raw */

static void put_raw(mtp__out *o, bool *more, int64_t ns, unsigned action, int64_t bytes, unsigned category)
{
    const int64_t numbers[] = {ns, action, bytes, category};
    char *p = mtp__out_room(o);
    p = *more ? MTP__PUT(p, ", [") : MTP__PUT(p, "[");
    *more = true;
    p = put_numbers(p, numbers, 4);
    *p++ = ']';
    o->at = p;
}

mtp_status mtp_memory_timeline_raw(const mtp_memory_timeline *m, mtp_sink *sink, void *user)
{
    mtp__out o;
    bool more = false;
    mtp_status status = mtp__out_begin(&o, m, "timeline", sink, user);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "[");
    for (uint32_t i = 0; i < m->block_count; i++)
        if (m->blocks[i].created == INT64_MIN)
            put_raw(&o, &more, -1, MTP__PREEXISTING, m->blocks[i].bytes, m->blocks[i].first);
    for (uint32_t i = 0; i < m->change_count; i++) {
        const mtp__change *c = &m->changes[i];
        int64_t bytes = m->blocks[c->block].bytes, ns = unix_ns(m, c->ts);
        if (c->action != MTP__CREATE)
            put_raw(&o, &more, ns, c->action, -bytes, mtp__change_was(m, c));
        if (c->action != MTP__DESTROY)
            put_raw(&o, &more, ns, c->action, bytes, mtp__change_now(m, c));
    }
    MTP__OUT(&o, "]");
    return mtp__out_finish(&o);
}

/* -------------------------------------------------------------------------------------------- summary */

static void put_member(mtp__out *o, const char *key, int64_t value)
{
    mtp__out_text(o, key);
    mtp__out_i64(o, value);
}

/* Microseconds since the trace's first event, with 3 decimals; null: outside the trace. */
static void put_us(mtp__out *o, const char *key, const mtp_memory_timeline *m, int64_t ts)
{
    mtp__out_text(o, key);
    if (ts == INT64_MIN || ts == INT64_MAX) {
        MTP__OUT(o, "null");
        return;
    }
    char *p = mtp__out_room(o);
    int64_t ns = (int64_t)((uint64_t)ts - (uint64_t)m->trace->first_ns);
    if (ns < 0)
        *p++ = '-';
    o->at = mtp__put_milli(p, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
}

static void put_categories(mtp__out *o, const int64_t *sizes)
{
    MTP__OUT(o, "{");
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++) {
        mtp__out_text(o, k > 0 ? ", \"" : "\"");
        mtp__out_text(o, mtp_memory_category_text((mtp_memory_category)k));
        put_member(o, "\": ", sizes[k]);
    }
    MTP__OUT(o, "}");
}

static void put_block(mtp__out *o, const mtp_memory_timeline *m, const mtp_memory_block *b)
{
    MTP__OUT(o, "{\"address\": ");
    mtp__out_u64(o, b->address);
    put_member(o, ", \"bytes\": ", b->bytes);
    MTP__OUT(o, ", \"category\": \"");
    mtp__out_text(o, mtp_memory_category_text(b->category));
    put_us(o, "\", \"created_us\": ", m, b->created_ns);
    put_us(o, ", \"freed_us\": ", m, b->freed_ns);
    MTP__OUT(o, ", \"op\": ");
    mtp__out_string(o, b->op, b->op_length);
    MTP__OUT(o, ", \"maker\": ");
    mtp__out_string(o, b->maker.bytes, b->maker.length);
    MTP__OUT(o, ", \"source\": ");
    mtp__out_string(o, b->source.bytes, b->source.length);
    MTP__OUT(o, ", \"thread\": ");
    if (b->thread >= 0)
        mtp__out_i64(o, b->thread);
    else
        MTP__OUT(o, "null");
    MTP__OUT(o, "}");
}

mtp_status mtp_memory_timeline_summary(const mtp_memory_timeline *m, int64_t limit, mtp_sink *sink,
                                       void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, m, "timeline", sink, user);
    if (status != MTP_OK)
        return status;
    const mtp_memory_info *i = &m->info;
    MTP__OUT(&o, "{\"device\": \"");
    mtp__out_text(&o, i->device);
    MTP__OUT(&o, "\", \"devices\": [");
    for (uint32_t k = 0; k < m->device_count; k++) {
        mtp__out_text(&o, k > 0 ? ", \"" : "\"");
        mtp__out_text(&o, m->devices[k].name);
        MTP__OUT(&o, "\"");
    }
    put_member(&o, "],\n \"allocations\": ", (int64_t)i->allocations);
    put_member(&o, ", \"frees\": ", (int64_t)i->frees);
    put_member(&o, ", \"lost_events\": ", (int64_t)i->lost_events);
    put_member(&o, ", \"tagged_blocks\": ", (int64_t)i->tagged);
    put_member(&o, ",\n \"allocated_bytes\": ", i->allocated_bytes);
    put_member(&o, ", \"preexisting_bytes\": ", i->preexisting_bytes);
    put_member(&o, ", \"end_bytes\": ", i->end_bytes);
    put_member(&o, ", \"unaccounted_bytes\": ", i->unaccounted_bytes);
    put_us(&o, ",\n \"peak\": {\"time_us\": ", m, i->peak_ns);
    put_member(&o, ", \"bytes\": ", i->peak_bytes);
    MTP__OUT(&o, ", \"by_category\": ");
    put_categories(&o, i->peak_by_category);
    put_member(&o, ",\n  \"block_count\": ", (int64_t)i->peak_blocks);
    MTP__OUT(&o, ", \"blocks\": [");
    for (size_t k = 0; k < i->peak_blocks && (limit < 0 || (int64_t)k < limit); k++) {
        mtp__out_text(&o, k > 0 ? ",\n   " : "\n   ");
        put_block(&o, m, &m->peak[k]);
    }
    MTP__OUT(&o, "]}}\n");
    return mtp__out_finish(&o);
}

/* ---------------------------------------------------------------------------------------------- files */

mtp_status mtp_memory_timeline_export(const mtp_memory_timeline *m, const char *path)
{
    if (m == NULL || path == NULL)
        return MTP_FAIL(MTP_E_ARG, "timeline or path is NULL");
    bool raw = mtp__path_ends(path, "raw.json.gz");
    if (!raw && !mtp__path_ends(path, ".json") && !mtp__path_ends(path, ".json.gz"))
        return MTP_FAIL(MTP_E_ARG, "'%.200s' must end in .json, .json.gz or raw.json.gz", path);
    mtp_file *file;
    mtp_status status = mtp_file_create(path, 0, &file);
    if (status != MTP_OK)
        return status;
    status = (raw ? mtp_memory_timeline_raw : mtp_memory_timeline_json)(m, mtp_file_sink, file);
    if (status == MTP_OK || status == MTP_E_IO) /* commit() knows why a write failed */
        return mtp_file_commit(file);
    mtp_file_abandon(file);
    return status;
}
