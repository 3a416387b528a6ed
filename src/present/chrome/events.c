/* present/chrome/events.c - writes single events. This is the hot path of exporting: no printf, and repeated
 * text (heads by category, names, rows) is formatted once and copied. bench/bench_export.c measures it.
 */
#include <math.h>
#include "base/grow.h"
#include "present/chrome/chrome.h"
#include "present/chrome/args.h"
#include "trace/facts.h"

#define QUOTED_MAX 1024u /* longest quoted text that is kept */
#define ARENA_FIRST ((size_t)64 << 10)
#define ARENA_MAX ((size_t)64 << 20)
#define SLACK 64u /* mtp__put_short reads 32 bytes at once */

typedef struct head {
    char text[64];
    uint32_t length;
} head;

static const head heads[] = {
#define X(sym, text)                                                                                         \
    {"{\"ph\": \"X\", \"cat\": \"" text "\", \"name\": ",                                                    \
     sizeof("{\"ph\": \"X\", \"cat\": \"" text "\", \"name\": ") - 1},
    MTP__CATEGORY_LIST(X)
#undef X
};

/* --------------------------------------------------------------------------------------------- names */

static bool arena_grow(mtp__chrome *w, size_t more)
{
    size_t need = w->arena_used + more;
    return need <= ARENA_MAX && MTP__GROW(w->arena, w->arena_room, w->arena_used, need, ARENA_FIRST);
}

/* A name must not be empty, nor one that viewers take for a V8 profile. */
static mtp_text shown(mtp_text name)
{
    static const mtp_text instead[] = {{"[Profile]", 9}, {"[CpuProfile]", 12}, {"[ProfileChunk]", 14}};
    if (name.length == 0)
        return (mtp_text){"?", 1};
    for (int i = 0; i < 3; i++)
        if (name.length == instead[i].length - 2 &&
            memcmp(name.bytes, instead[i].bytes + 1, name.length) == 0)
            return instead[i];
    return name;
}

/* Shown under another name: its args have the original. */
static bool is_renamed(const mtp__chrome *w, uint32_t text)
{
    mtp_text name = mtp__trace_get_text(w->t, text);
    return shown(name).bytes != name.bytes;
}

/* The text's place in the arena; length UINT32_MAX: not kept, write it out. */
static const mtp__quoted *quote(mtp__chrome *w, uint32_t text)
{
    mtp__quoted *q = &w->quoted[text];
    mtp_text name = shown(mtp__trace_get_text(w->t, text));
    char *to = w->scratch;
    w->renamed = w->renamed || is_renamed(w, text);
    q->length = UINT32_MAX;
    if (name.length > sizeof w->scratch / 6 - SLACK)
        return q;
    *to++ = '"';
    to = mtp__json_put(to, name.bytes, name.length);
    *to++ = '"';
    size_t length = (size_t)(to - w->scratch);
    if (length > QUOTED_MAX || !arena_grow(w, length + SLACK))
        return q;
    memcpy(w->arena + w->arena_used, w->scratch, length);
    q->offset = (uint32_t)w->arena_used;
    q->length = (uint32_t)length;
    w->arena_used += length;
    return q;
}

static inline const mtp__quoted *quoted(mtp__chrome *w, uint32_t text)
{
    const mtp__quoted *q = &w->quoted[text];
    return __builtin_expect(q->length != 0, 1) ? q : quote(w, text);
}

/* Fast path: p has MTP__OUT_ROOM minus the fixed parts of one event. */
static inline char *put_name(mtp__chrome *w, char *p, uint32_t text)
{
    const mtp__quoted *q = quoted(w, text);
    if (__builtin_expect(q->length <= QUOTED_MAX, 1))
        return mtp__put_short(p, w->arena + q->offset, q->length);
    w->out.at = p;
    mtp_text name = mtp__trace_get_text(w->t, text);
    mtp__out_string(&w->out, name.bytes, name.length);
    return mtp__out_room(&w->out);
}

static char *put_literal(char *p, const char *text)
{
    size_t length = strlen(text);
    memcpy(p, text, length);
    return p + length;
}

void mtp__chrome_text(mtp__chrome *w, uint32_t text)
{
    char *p = mtp__out_room(&w->out);
    w->out.at = put_name(w, p, text);
}

/* --------------------------------------------------------------------------------------------- spans */

/* The number of the enclosing step; events arrive in order of time. */
static inline int64_t step_number(mtp__chrome *w, int64_t at)
{
    const mtp_trace *t = w->t;
    while (w->step + 1 < t->step_count && t->steps[w->step + 1].start <= at)
        w->step++;
    return t->step_count > 0 ? t->steps[w->step].number : 0;
}

/* The args of a recorded op or annotation without details. */
static inline char *put_plain_args(mtp__chrome *w, char *p, uint32_t span)
{
    p = MTP__PUT(p, ", \"args\": {\"External id\": ");
    char *id = p;
    p = mtp__put_u64(p, (uint64_t)span + 1);
    size_t length = (size_t)(p - id);
    p = MTP__PUT(p, ", \"Record function id\": ");
    memcpy(p, id, 16);
    p += length;
    p = MTP__PUT(p, ", \"Ev Idx\": ");
    p = mtp__put_u64(p, span);
    p = MTP__PUT(p, ", \"device_type\": \"CPU\", \"step\": ");
    p = mtp__put_i64(p, step_number(w, w->t->start[span]));
    return MTP__PUT(p, "}}");
}

void mtp__chrome_span(mtp__chrome *w, const mtp__lane *lane, uint32_t span, uint64_t ts, uint64_t dur)
{
    const mtp_trace *t = w->t;
    unsigned category = t->category[span];
    char *p = mtp__chrome_put_comma(w, mtp__out_room(&w->out));
    uint32_t spelling = category >= MTP__CATEGORY_CUDA_RUNTIME ? mtp__trace_detail(t, span)->category : 0;
    if (__builtin_expect(category == MTP__CATEGORY_OTHER || spelling != 0, 0)) {
        p = MTP__PUT(p, "{\"ph\": \"X\", \"cat\": ");
        p = put_name(w, p, spelling); /* without one: "?" */
        p = MTP__PUT(p, ", \"name\": ");
    } else {
        p = mtp__put_short(p, heads[category].text, heads[category].length);
    }
    const char *call = __builtin_expect(w->has_calls, 0) ? mtp__chrome_call_name(w, span) : NULL;
    p = call != NULL ? put_literal(p, call) : put_name(w, p, t->name[span]);
    p = mtp__put_short(p, lane->text, lane->length);
    p = mtp__chrome_put_time(w, p, ts);
    p = MTP__PUT(p, ", \"dur\": ");
    p = mtp__chrome_put_time(w, p, dur);
    bool renamed = call != NULL || (__builtin_expect(w->renamed, 0) && is_renamed(w, t->name[span]));
    if (w->plain && !renamed && (t->detail == NULL || t->detail[span] == 0) &&
        (t->flags[span] & MTP__SPAN_UNFINISHED) == 0 && category <= MTP__CATEGORY_USER_ANNOTATION) {
        w->out.at = put_plain_args(w, p, span);
        return;
    }
    p = MTP__PUT(p, ", \"args\": {");
    w->out.at = p;
    if (!w->options.without_args)
        mtp__chrome_span_args(w, lane, span, step_number(w, t->start[span]), renamed);
    p = mtp__out_room(&w->out);
    w->out.at = MTP__PUT(p, "}}");
}

/* ------------------------------------------------------------------------------------------ the others */

void mtp__chrome_link(mtp__chrome *w, const mtp__lane *lane, const mtp__link *link, uint64_t ts)
{
    char *p = mtp__chrome_put_comma(w, mtp__out_room(&w->out));
    p = MTP__PUT(p, "{\"ph\": \"");
    *p++ = link->phase;
    p = MTP__PUT(p, "\", \"id\": ");
    p = mtp__put_u64(p, link->id + w->ids);
    p = mtp__put_short(p, lane->text, lane->length);
    p = mtp__chrome_put_time(w, p, ts);
    p = MTP__PUT(p, ", \"cat\": ");
    if (link->kind == MTP__LINK_NAMED) {
        p = put_name(w, p, link->name);
        p = MTP__PUT(p, ", \"name\": ");
        p = put_name(w, p, link->name);
    } else {
        p = link->kind == MTP__LINK_AC2G ? MTP__PUT(p, "\"ac2g\", \"name\": \"ac2g\"")
                                         : MTP__PUT(p, "\"fwdbwd\", \"name\": \"fwdbwd\"");
    }
    w->out.at = link->phase == 'f' ? MTP__PUT(p, ", \"bp\": \"e\"}") : MTP__PUT(p, "}");
}

/* The same as a counter, which viewers draw. Our reader skips it: it repeats the event before it. */
static void memory_counter(mtp__chrome *w, const mtp__memory *m, const mtp__lane *lane, uint64_t ts)
{
    char *p = mtp__chrome_put_comma(w, mtp__out_room(&w->out));
    p = MTP__PUT(p, "{\"ph\": \"C\", \"cat\": \"" MTP__MEMORY_COUNTER "\", \"name\": \"Memory ");
    p = m->device_type == MTP__DEVICE_CPU    ? MTP__PUT(p, "CPU")
        : m->device_type == MTP__DEVICE_CUDA ? MTP__PUT(p, "CUDA")
        : m->device_type == MTP__DEVICE_XPU  ? MTP__PUT(p, "XPU")
        : m->device_type == MTP__DEVICE_NPU  ? MTP__PUT(p, "NPU")
                                             : mtp__put_u64(MTP__PUT(p, "device type "), m->device_type);
    if (m->device_index >= 0)
        p = mtp__put_i64(MTP__PUT(p, ":"), m->device_index);
    *p++ = '"';
    p = mtp__put_short(p, lane->text, lane->length);
    p = mtp__chrome_put_time(w, p, ts);
    p = MTP__PUT(p, ", \"args\": {\"Allocated\": ");
    p = mtp__put_i64(p, m->total_allocated);
    if (m->total_reserved >= 0) {
        p = MTP__PUT(p, ", \"Reserved\": ");
        p = mtp__put_i64(p, m->total_reserved);
    }
    w->out.at = MTP__PUT(p, "}}");
}

/* Kineto's events about the recording as a whole: a span around all of it, and its begin and end. Our reader
 * recognises them by "made by", and skips them. */
void mtp__chrome_window(mtp__chrome *w, uint32_t index, uint64_t ts, uint64_t dur)
{
    char *p = mtp__chrome_put_comma(w, mtp__out_room(&w->out));
    if (index == 0)
        p = MTP__PUT(p, "{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"PyTorch Profiler (0)\"");
    else if (index == 1)
        p = MTP__PUT(p, "{\"ph\": \"i\", \"s\": \"g\", \"name\": \"Iteration Start: PyTorch Profiler\"");
    else
        p = MTP__PUT(p, "{\"ph\": \"i\", \"s\": \"g\", \"name\": \"Record Window End\"");
    p = mtp__put_short(p, w->window.text, w->window.length);
    p = mtp__chrome_put_time(w, p, ts);
    if (index == 0) {
        p = MTP__PUT(p, ", \"dur\": ");
        p = mtp__chrome_put_time(w, p, dur);
    }
    w->out.at = w->options.without_args ? MTP__PUT(p, ", \"args\": {}}")
                : index == 0 ? MTP__PUT(p, ", \"args\": {\"Op count\": 0, \"made by\": \"mtprof\"}}")
                             : MTP__PUT(p, ", \"args\": {\"made by\": \"mtprof\"}}");
}

void mtp__chrome_memory(mtp__chrome *w, uint32_t index, uint64_t ts)
{
    const mtp__memory *m = &w->t->memory[index];
    const mtp__lane *lane = &w->lanes[w->first_lane[m->track]];
    char *p = mtp__chrome_put_comma(w, mtp__out_room(&w->out));
    p = MTP__PUT(p, "{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\"");
    p = mtp__put_short(p, lane->text, lane->length);
    p = mtp__chrome_put_time(w, p, ts);
    if (w->options.without_args) {
        w->out.at = MTP__PUT(p, ", \"args\": {}}");
        return;
    }
    p = MTP__PUT(p, ", \"args\": {");
    if (m->total_reserved >= 0) {
        p = MTP__PUT(p, "\"Total Reserved\": ");
        p = mtp__put_i64(p, m->total_reserved);
        p = MTP__PUT(p, ", ");
    }
    if (m->total_allocated >= 0) {
        p = MTP__PUT(p, "\"Total Allocated\": ");
        p = mtp__put_i64(p, m->total_allocated);
        p = MTP__PUT(p, ", ");
    }
    p = MTP__PUT(p, "\"Bytes\": ");
    p = mtp__put_i64(p, m->bytes);
    p = MTP__PUT(p, ", \"Device Id\": ");
    p = mtp__put_i64(p, m->device_index);
    p = MTP__PUT(p, ", \"Device Type\": ");
    p = mtp__put_u64(p, m->device_type);
    p = MTP__PUT(p, ", \"Addr\": ");
    p = mtp__put_u64(p, m->address);
    if (m->event_index != 0 || mtp__is_recording(w->t)) {
        p = MTP__PUT(p, ", \"Ev Idx\": ");
        p = mtp__put_u64(p, m->event_index != 0 ? m->event_index - 1u : (uint64_t)w->t->span_count + index);
    }
    w->out.at = p;
    mtp__chrome_more_args(w, m->args, true);
    MTP__OUT(&w->out, "}}");
    if (m->total_allocated >= 0)
        memory_counter(w, m, lane, ts);
}

static void counter(mtp__chrome *w, const mtp__instant *e, const mtp__lane *lane, uint64_t ts)
{
    mtp__out *o = &w->out;
    char *p = mtp__chrome_put_comma(w, mtp__out_room(o));
    p = MTP__PUT(p, "{\"ph\": \"C\"");
    if (e->category != 0) {
        p = MTP__PUT(p, ", \"cat\": ");
        p = put_name(w, p, e->category);
    }
    p = MTP__PUT(p, ", \"name\": ");
    p = put_name(w, p, e->name);
    p = mtp__put_short(p, lane->text, lane->length);
    p = mtp__chrome_put_time(w, p, ts);
    o->at = MTP__PUT(p, ", \"args\": {");
    if (e->args == 0) {
        MTP__OUT(o, "\"value\": ");
        mtp__out_double(o, e->value);
    }
    mtp__chrome_more_args(w, e->args, false);
    MTP__OUT(o, "}}");
}

void mtp__chrome_instant(mtp__chrome *w, uint32_t index, uint64_t ts)
{
    const mtp__instant *e = &w->t->instants[index];
    const mtp__lane *lane = &w->lanes[w->first_lane[e->track]];
    mtp__out *o = &w->out;
    if (e->is_counter) {
        if (e->args != 0 || isfinite(e->value)) /* the rest was counted, and is named in the head */
            counter(w, e, lane, ts);
        return;
    }
    char *p = mtp__chrome_put_comma(w, mtp__out_room(o));
    p = MTP__PUT(p, "{\"ph\": \"i\"");
    if (e->category != 0) {
        p = MTP__PUT(p, ", \"cat\": ");
        p = put_name(w, p, e->category);
    } else if (mtp__is_recording(w->t)) {
        p = MTP__PUT(p, ", \"cat\": \"cpu_instant_event\"");
    }
    p = MTP__PUT(p, ", \"s\": \"");
    *p++ = e->scope == 'p' || e->scope == 'g' ? e->scope : 't';
    p = MTP__PUT(p, "\", \"name\": ");
    p = put_name(w, p, e->name);
    p = mtp__put_short(p, lane->text, lane->length);
    p = mtp__chrome_put_time(w, p, ts);
    o->at = MTP__PUT(p, ", \"args\": {");
    if (!w->options.without_args)
        mtp__chrome_more_args(w, e->args, false);
    MTP__OUT(o, "}}");
}
