/* tests/made_trace.h - hand-made traces, and a sink that keeps output as text. Times are in nanoseconds. */
#ifndef TESTS_MADE_TRACE_H
#define TESTS_MADE_TRACE_H
#include "tests/test.h"
#include "trace/trace.h"

static inline uint32_t made_text(mtp_trace *t, const char *text)
{
    return mtp__trace_text(t, text, strlen(text));
}

static inline uint32_t made_thread(mtp_trace *t, int64_t tid)
{
    mtp__track track = {.pid = 100, .tid = tid, .sort_index = INT64_MIN};
    return mtp__trace_add_track(t, &track);
}

static inline uint32_t made_stream(mtp_trace *t, int64_t device, int64_t stream)
{
    mtp__track track = {.pid = device, .tid = stream, .sort_index = INT64_MIN, .on_device = true};
    return mtp__trace_add_track(t, &track);
}

static inline uint32_t made_span(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                                 mtp__category category)
{
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), category, 0, 0);
}

static inline uint32_t made_op(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name)
{
    return made_span(t, track, start, end, name, MTP__CATEGORY_CPU_OP);
}

static inline uint32_t made_scope(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name)
{
    return made_span(t, track, start, end, name, MTP__CATEGORY_USER_ANNOTATION);
}

/* An op with a sequence number; forward_thread != 0: it runs in the backward pass. */
static inline uint32_t made_autograd(mtp_trace *t, uint32_t track, int64_t start, int64_t end,
                                     const char *name, int64_t sequence, uint64_t forward_thread)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.sequence = sequence;
    d.forward_thread = forward_thread;
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), MTP__CATEGORY_CPU_OP,
                               forward_thread != 0 ? MTP__SPAN_BACKWARD : 0, mtp__trace_add_detail(t, &d));
}

static inline void made_memory_of(mtp_trace *t, uint32_t track, int64_t ts, uint64_t address, int64_t bytes,
                                  int64_t total, uint16_t device_type, int16_t device_index)
{
    mtp__memory m = {.ts = ts,
                     .address = address,
                     .bytes = bytes,
                     .total_allocated = total,
                     .total_reserved = -1,
                     .track = track,
                     .device_type = device_type,
                     .device_index = device_index};
    mtp__trace_add_memory(t, &m);
}

static inline void made_memory(mtp_trace *t, uint32_t track, int64_t ts, uint64_t address, int64_t bytes)
{
    made_memory_of(t, track, ts, address, bytes, -1, 0, -1);
}

static inline void made_tag(mtp_trace *t, int64_t ts, uint64_t address, uint32_t category)
{
    mtp__tag tag = {.ts = ts, .address = address, .device_index = -1, .category = category};
    mtp__trace_add_tag(t, &tag);
}

/* A block allocated before the trace. */
static inline void made_existing(mtp_trace *t, int64_t ts, uint64_t address, int64_t bytes, uint32_t category)
{
    mtp__tag tag = {.ts = ts, .address = address, .device_index = -1, .category = category, .bytes = bytes};
    mtp__trace_add_tag(t, &tag);
}

static inline mtp_trace *made_begin(void)
{
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    return t;
}

static inline mtp_trace *made_end(mtp_trace *t)
{
    assert_ok(mtp__trace_finish(t));
    return t;
}

/* ---------------------------------------------------------------------------------------------- what came
 * out */

typedef struct collected {
    char *bytes; /* NUL-terminated */
    size_t length, room;
    size_t refuse_after; /* 0: never */
} collected;

static inline bool collect(void *user, const void *bytes, size_t length)
{
    collected *c = user;
    if (c->refuse_after != 0 && c->length + length > c->refuse_after)
        return false;
    if (c->length + length + 1 > c->room) {
        c->room = (c->length + length + 1) * 2;
        c->bytes = realloc(c->bytes, c->room);
    }
    memcpy(c->bytes + c->length, bytes, length);
    c->length += length;
    c->bytes[c->length] = 0;
    return true;
}

static inline void collected_free(collected *c)
{
    free(c->bytes);
    memset(c, 0, sizeof *c);
}

/* Runs a script of tests/golden on files; false: there is no python3. */
#ifdef TEST_ROOT
static inline bool made_judge(const char *arguments)
{
    char command[2048];
    if (system("python3 -c 0 >/dev/null 2>&1") != 0)
        return false;
    snprintf(command, sizeof command, "python3 " TEST_ROOT "/tests/golden/%s >&2", arguments);
    if (system(command) != 0)
        fail_msg("%s", command);
    return true;
}
#endif
#endif
