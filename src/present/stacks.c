/* present/stacks.c - torch's export_stacks: a line for each event with a stack and time of its own, in the
 * order of events().
 *
 * So which events there are, their times and their stacks are what analyze/events*.c says. Only here, events
 * without a recorded stack get the Python functions around them, and a nonzero time counts as a microsecond
 * at least.
 */
#include "present/stacks.h"
#include <string.h>
#include "analyze/events.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/json_out.h"
#include "base/os.h"
#include "base/utf8.h"

/* ------------------------------------------------------------------------------- for folded stacks, too */

#define METRICS(X)                                                                                           \
    X("self_cpu_time_total", false)                                                                          \
    X("self_device_time_total", true)                                                                        \
    X("self_cuda_time_total", true)                                                                          \
    X("self_npu_time_total", true)                                                                           \
    X("self_xpu_time_total", true)                                                                           \
    X("self_privateuse1_time_total", true)

mtp_status mtp__stacks_metric(const char *metric, bool *device)
{
    static const struct {
        const char *name;
        bool device;
    } known[] = {
#define X(name, device) {name, device},
        METRICS(X)
#undef X
    };
    for (size_t i = 0; metric != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(metric, known[i].name) == 0) {
            *device = known[i].device;
            return MTP_OK;
        }
#define X(name, device) ", '" name "'"
    static const char list[] = METRICS(X);
#undef X
    return MTP_FAIL(MTP_E_ARG, "metric should be one of: [%s]", list + 2);
}

/* Characters that would end the frame or the line, or move a terminal's cursor, become '_'. */
void mtp__stacks_frame(mtp__out *o, mtp_text frame)
{
    const unsigned char *at = (const unsigned char *)frame.bytes, *end = at + frame.length;
    while (at < end) {
        unsigned skip, n = mtp__utf8_character(at, end, &skip);
        bool control = *at == ' ' || *at == ';' || mtp__utf8_is_control(at, n);
        char *p = mtp__out_room(o);
        if (n == 0) {
            p = MTP__PUT(p, MTP__UTF8_REPLACEMENT);
        } else if (control) {
            *p++ = '_';
        } else {
            memcpy(p, at, n);
            p += n;
        }
        o->at = p;
        at += n != 0 ? n : skip;
    }
}

void mtp__stacks_time(mtp__out *o, double us)
{
    MTP__OUT(o, " ");
    mtp__out_u64(o, us >= 1 ? (uint64_t)us : 1);
    MTP__OUT(o, "\n");
}

/* ----------------------------------------------------------------------------------------------- lines */

typedef struct frames {
    mtp_text *at; /* owned: innermost first */
    size_t count, room;
} frames;

static mtp_status get_frames(frames *f, mtp_events *events, size_t index)
{
    mtp_status status = mtp_events_stack(events, index, f->at, f->room, &f->count);
    if (status != MTP_OK || f->count <= f->room)
        return status;
    if (!MTP__GROW(f->at, f->room, 0, f->count, 64))
        return MTP_FAIL(MTP_E_NOMEM, "a stack of %zu frames", f->count);
    return mtp_events_stack(events, index, f->at, f->room, &f->count);
}

static void put_line(mtp__out *o, const frames *f, mtp_text op, double us)
{
    bool alone = f->count == 1; /* a single frame says little: the op is added below it */
    for (size_t i = f->count; i-- > 0;) {
        mtp__stacks_frame(o, f->at[i]);
        if (i > 0 || alone)
            MTP__OUT(o, ";");
    }
    if (alone)
        mtp__stacks_frame(o, op);
    mtp__stacks_time(o, us);
}

static mtp_status put_events(mtp__out *o, mtp_events *events, bool device)
{
    frames f = {0};
    size_t count;
    mtp_status status = mtp_events_count(events, &count);
    for (size_t i = 0; status == MTP_OK && i < count && !o->failed; i++) {
        mtp_event event = {.size = sizeof event};
        status = mtp_events_get(events, i, &event);
        double us = device ? event.self_device_time_total : event.self_cpu_time_total;
        if (status != MTP_OK || !(us > 0))
            continue;
        status = get_frames(&f, events, i);
        if (status == MTP_OK && f.count > 0)
            put_line(o, &f, event.name, us);
    }
    mtp__free(f.at);
    return status;
}

mtp_status mtp_trace_stacks(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user)
{
    mtp__out out;
    mtp_events *events = NULL;
    bool device = false;
    if (trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace is NULL");
    mtp_status status = mtp__stacks_metric(metric, &device);
    if (status == MTP_OK)
        status = mtp__out_init(&out, sink, user);
    if (status != MTP_OK)
        return status;
    status = mtp_events_create(trace, &events);
    if (status == MTP_OK) {
        events->python_stacks = true;
        status = put_events(&out, events, device);
    }
    mtp_events_destroy(events);
    mtp_status written = mtp__out_finish(&out);
    return status == MTP_OK ? written : status;
}
