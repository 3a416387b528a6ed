/* present/chrome/head.c - everything around the events. Some readers search it for ranks and bases as text,
 * before parsing: so there is a space after each colon, and everything but the name comes before the events.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/json_check.h"
#include "base/json_out.h"
#include "present/chrome/chrome.h"
#include "trace/facts.h"

/* X(key, default if the trace has none; "": always ours) in file order. */
#define RESERVED(X)                                                                                          \
    X(schemaVersion, "1")                                                                                    \
    X(deviceProperties, "[]")                                                                                \
    X(distributedInfo, "{\"backend\": \"\", \"rank\": 0, \"world_size\": 1}")                                \
    X(displayTimeUnit, "\"ms\"")                                                                             \
    X(baseTimeNanoseconds, "")                                                                               \
    X(traceEvents, "")                                                                                       \
    X(traceName, "")                                                                                         \
    X(mtprof, "")                                                                                            \
    X(mtprofMemory, "")                                                                                      \
    X(mtprofSteps, "")

typedef struct reserved {
    const char *key, *otherwise;
} reserved;

static const reserved reserved_keys[] = {
#define X(key, otherwise) {#key, otherwise},
    RESERVED(X)
#undef X
};
#define RESERVED_KEYS (sizeof reserved_keys / sizeof *reserved_keys)

/* --------------------------------------------------------------------------------------------- raw JSON */

/* Whether the escape at `at` is a lone surrogate, which some readers reject. */
static bool is_half(const char *at, const char *end, bool *low)
{
    if (end - at < 6 || at[1] != 'u' || (at[2] | 0x20) != 'd')
        return false;
    char c = (char)(at[3] | 0x20);
    *low = c >= 'c' && c <= 'f';
    return *low || (c >= '8' && c <= '9') || c == 'a' || c == 'b';
}

/* A string, from its opening quote; returns its end. */
static const char *json_text(mtp__out *o, const char *at, const char *end)
{
    const char *from = at++;
    bool low, next_low;
    while (at < end && *at != '"') {
        if (*at != '\\') {
            at++;
        } else if (!is_half(at, end, &low)) {
            at += 2;
        } else if (!low && is_half(at + 6, end, &next_low) && next_low && at[6] == '\\') {
            at += 12;
        } else {
            mtp__out_json(o, from, (size_t)(at - from));
            MTP__OUT(o, "\\ufffd");
            from = at += 6;
        }
    }
    at = at < end ? at + 1 : end;
    mtp__out_json(o, from, (size_t)(at - from));
    return at;
}

void mtp__chrome_json(mtp__out *o, const char *json, size_t length)
{
    size_t wrong;
    if (!mtp__json_check(json, length,
                         &wrong)) { /* from a damaged recording, or nested deeper than readers support */
        mtp__out_string(o, json, length);
        return;
    }
    const char *at = json, *end = json + length;
    while (at < end) {
        const char *from = at;
        while (at < end && strchr("\" \t\r\n:,", *at) == NULL)
            at++;
        mtp__out_bytes(o, from, (size_t)(at - from));
        if (at == end)
            break;
        if (*at == '"') {
            at = json_text(o, at, end);
            continue;
        }
        if (*at == ':' || *at == ',')
            mtp__out_text(o, *at == ':' ? ": " : ", ");
        at++;
    }
}

/* --------------------------------------------------------------------------------------------- metadata */

mtp_status mtp__chrome_head_prepare(mtp__chrome *w)
{
    for (uint32_t i = 0; i < w->t->metadata_count; i++) {
        bool is_new;
        uint64_t *last = mtp__pair_put(&w->metas, w->t->metadata[i].key, 0, i, &is_new);
        if (last == NULL)
            return MTP_FAIL(MTP_E_NOMEM, "%u metadata", w->t->metadata_count);
        *last = i;
    }
    return MTP_OK;
}

static void value_of(mtp__chrome *w, uint32_t json)
{
    mtp_text text = mtp__trace_get_text(w->t, json);
    if (text.length == 0)
        MTP__OUT(&w->out, "null");
    else
        mtp__chrome_json(&w->out, text.bytes, text.length);
}

/* The trace's own value for a key; NULL: none. */
static const mtp__meta *find_meta(const mtp__chrome *w, const char *key)
{
    uint32_t id = mtp__trace_find_text(w->t, key);
    uint64_t *at = id != 0 ? mtp__pair_find(&w->metas, id, 0) : NULL;
    return at != NULL ? &w->t->metadata[*at] : NULL;
}

static const reserved *find_reserved(mtp_text key)
{
    for (size_t i = 0; i < RESERVED_KEYS; i++)
        if (key.length == strlen(reserved_keys[i].key) &&
            memcmp(key.bytes, reserved_keys[i].key, key.length) == 0)
            return &reserved_keys[i];
    return NULL;
}

/* Readers rely on the type of a reserved key's value: HTA looks into distributedInfo. */
static bool fits(const mtp__chrome *w, const reserved *key, const mtp__meta *meta)
{
    mtp_text text = mtp__trace_get_text(w->t, meta->json);
    size_t wrong, at = strspn(text.bytes, " \t\r\n");
    if (!mtp__json_check(text.bytes, text.length, &wrong))
        return false;
    bool number = text.bytes[at] == '-' || (text.bytes[at] >= '0' && text.bytes[at] <= '9');
    return key->otherwise[0] == (number ? '1' : text.bytes[at]);
}

/* A key that clashes with a reserved one gets the prefix "user."; one read from a file is the reserved one
 * itself. */
void mtp__chrome_metadata(mtp__chrome *w, const char *separator)
{
    const mtp_trace *t = w->t;
    bool any = false;
    for (uint32_t i = 0; i < t->metadata_count; i++) {
        mtp_text key = mtp__trace_get_text(t, t->metadata[i].key);
        const reserved *taken = find_reserved(key);
        uint64_t *last = mtp__pair_find(&w->metas, t->metadata[i].key, 0);
        if (last == NULL || *last != i ||
            (taken != NULL &&
             (taken->otherwise[0] != 0 ? fits(w, taken, &t->metadata[i]) : !mtp__is_recording(t))))
            continue;
        if (any)
            mtp__out_text(&w->out, ", ");
        any = separator[0] == 0;
        mtp__out_text(&w->out, separator);
        mtp__out_text(&w->out, taken != NULL ? "\"user." : "\"");
        mtp__out_string_inside(&w->out, key.bytes, key.length);
        MTP__OUT(&w->out, "\": ");
        value_of(w, t->metadata[i].json);
    }
}

/* --------------------------------------------------------------------------------------------- what we say */

static void count(mtp__out *o, const char *key, uint64_t value)
{
    MTP__OUT(o, ", \"");
    mtp__out_text(o, key);
    MTP__OUT(o, "\": ");
    mtp__out_u64(o, value);
}

static void ledger(mtp__out *o, const mtp_ledger *l)
{
    static const char *const cause[] = {
#define X(sym, value, text) [value] = #sym,
        MTP_DROP_LIST(X)
#undef X
    };
    MTP__OUT(o, ", \"ledger\": {\"emitted\": ");
    mtp__out_u64(o, l->emitted);
    count(o, "kept", l->kept);
    count(o, "dropped", l->dropped);
    count(o, "lost_definitions", l->lost_definitions);
    MTP__OUT(o, ", \"dropped_by\": {");
    bool any = false;
    for (size_t i = 0; i < sizeof cause / sizeof *cause; i++) {
        if (l->dropped_by[i] == 0)
            continue;
        mtp__out_text(o, any ? ", \"" : "\"");
        mtp__out_text(o, cause[i]);
        MTP__OUT(o, "\": ");
        mtp__out_u64(o, l->dropped_by[i]);
        any = true;
    }
    MTP__OUT(o, "}}");
}

/* The error of each device's clock. */
static void device_clocks(mtp__out *o, const mtp_trace *t)
{
    for (uint32_t i = 0; i < t->clock_count; i++) {
        const mtp__clock_info *c = &t->clocks[i];
        mtp__out_text(o, i == 0 ? ", \"device_clocks\": [{\"device\": " : ", {\"device\": ");
        mtp__out_u64(o, MTP_DEVICE_INDEX(c->device));
        count(o, "readings", c->points);
        count(o, "error_ns", c->error_ns);
        mtp__out_text(o, i + 1 == t->clock_count ? "}]" : "}");
    }
}

/* What is missing or was repaired. A file that already says so about its recording keeps that. */
static void about(mtp__chrome *w)
{
    mtp__out *o = &w->out;
    const mtp_trace *t = w->t;
    const mtp__meta *had = !mtp__is_recording(t) ? find_meta(w, "mtprof") : NULL;
    MTP__OUT(o, ",\n  \"mtprof\": ");
    if (had != NULL) {
        value_of(w, had->json);
        return;
    }
    MTP__OUT(o, "{\"version\": ");
    mtp__out_string(o, mtp_version(), strlen(mtp_version()));
    if (t->has_ledger)
        ledger(o, &t->ledger);
    count(o, "unmatched_ends", t->unmatched_ends);
    count(o, "unfinished", t->unfinished);
    count(o, "clock_faults", t->clock_faults);
    count(o, "damaged_chunks", t->damaged_chunks);
    if (t->damaged_chunks > 0)
        count(o, "chunks", t->chunks);
    if (t->missing_chunks > 0)
        count(o, "missing_chunks", t->missing_chunks);
    if (t->bad_durations > 0)
        count(o, "bad_durations", t->bad_durations);
    count(o, "skipped_events", t->skipped_events);
    count(o, "flows_dropped", w->flows_dropped);
    count(o, "counters_dropped", w->bad_counters);
    count(o, "lanes_beside", w->lane_count - t->track_count);
    device_clocks(o, t);
    MTP__OUT(o, "}");
}

static void host_name(mtp__chrome *w)
{
    char name[256];
    if (!mtp__is_recording(w->t) || strcmp(w->t->source, "this process") != 0 ||
        find_meta(w, "host_name") != NULL || gethostname(name, sizeof name) != 0)
        return;
    name[sizeof name - 1] = 0;
    MTP__OUT(&w->out, ",\n  \"host_name\": ");
    mtp__out_string(&w->out, name, strlen(name));
}

void mtp__chrome_head(mtp__chrome *w)
{
    mtp__out *o = &w->out;
    const char *before = "{\n  \"";
    for (size_t i = 0; reserved_keys[i].otherwise[0] != 0; i++, before = ",\n  \"") {
        const mtp__meta *meta = find_meta(w, reserved_keys[i].key);
        mtp__out_text(o, before);
        mtp__out_text(o, reserved_keys[i].key);
        MTP__OUT(o, "\": ");
        if (meta != NULL && fits(w, &reserved_keys[i], meta))
            value_of(w, meta->json);
        else
            mtp__out_text(o, reserved_keys[i].otherwise);
    }
    mtp__chrome_metadata(w, ",\n  ");
    host_name(w);
    about(w);
    MTP__OUT(o, ",\n  \"baseTimeNanoseconds\": ");
    mtp__out_i64(o, w->base_ns);
    MTP__OUT(o, ",\n  \"traceEvents\": [");
}

static bool has_step_scopes(const mtp_trace *t)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (mtp__is_step(t, i))
            return true;
    return false;
}

/* Steps that no scope shows: rows [number, ts, end]. Torch writes none without a schedule, so they are not
 * events here. */
static void step_marks(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    if (t->step_count == 0 || w->options.without_args || has_step_scopes(t))
        return;
    MTP__OUT(&w->out, ",\n  \"mtprofSteps\": [");
    for (uint32_t i = 0; i < t->step_count; i++) {
        const mtp__step *step = &t->steps[i];
        char *p = mtp__out_room(&w->out);
        p = i == 0 ? MTP__PUT(p, "\n[") : MTP__PUT(p, ",\n[");
        p = mtp__put_i64(p, step->number);
        p = MTP__PUT(p, ", ");
        p = mtp__chrome_put_time(w, p, mtp__chrome_ts(w, step->start > w->shift ? step->start : w->shift));
        p = MTP__PUT(p, ", ");
        p = mtp__chrome_put_time(w, p, mtp__chrome_ts(w, step->end > w->shift ? step->end : w->shift));
        w->out.at = MTP__PUT(p, "]");
    }
    MTP__OUT(&w->out, "]");
}

static bool has_several_processes(const mtp__chrome *w)
{
    uint32_t hosts = 0;
    for (uint32_t i = 0; i < w->row_count; i++)
        hosts += !w->rows[i].on_device;
    return hosts > 1;
}

/* Categories of blocks, and which are preexisting: rows [ts, address, device type, device index, category,
 * bytes or 0], and with several processes the pid. Not events, so that other readers' totals and views are
 * unaffected. */
static void memory_tags(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    if (t->tag_count == 0 || w->options.without_args)
        return;
    const bool several = has_several_processes(w);
    MTP__OUT(&w->out, ",\n  \"mtprofMemory\": [");
    for (uint32_t i = 0; i < t->tag_count; i++) {
        const mtp__tag *tag = &t->tags[i];
        char *p = mtp__out_room(&w->out);
        p = i == 0 ? MTP__PUT(p, "\n[") : MTP__PUT(p, ",\n[");
        p = mtp__chrome_put_time(w, p, mtp__chrome_ts(w, tag->ts > w->shift ? tag->ts : w->shift));
        p = MTP__PUT(p, ", ");
        p = mtp__put_u64(p, tag->address);
        p = MTP__PUT(p, ", ");
        p = mtp__put_u64(p, tag->device_type);
        p = MTP__PUT(p, ", ");
        p = mtp__put_i64(p, tag->device_index);
        p = MTP__PUT(p, ", ");
        p = mtp__put_u64(p, tag->category);
        p = MTP__PUT(p, ", ");
        p = mtp__put_i64(p, tag->bytes);
        if (several && tag->track < t->track_count) {
            p = MTP__PUT(p, ", ");
            p = mtp__put_u64(p, w->lanes[w->first_lane[tag->track]].pid);
        }
        w->out.at = MTP__PUT(p, "]");
    }
    MTP__OUT(&w->out, "\n  ]");
}

void mtp__chrome_tail(mtp__chrome *w)
{
    mtp__out *o = &w->out;
    const mtp__meta *had = !mtp__is_recording(w->t) ? find_meta(w, "traceName") : NULL;
    MTP__OUT(o, "\n  ]");
    memory_tags(w);
    step_marks(w);
    if (w->options.trace_name != NULL) {
        MTP__OUT(o, ",\n  \"traceName\": ");
        mtp__out_string(o, w->options.trace_name, strlen(w->options.trace_name));
    } else if (had != NULL) {
        MTP__OUT(o, ",\n  \"traceName\": ");
        value_of(w, had->json);
    }
    MTP__OUT(o, "\n}\n");
}
