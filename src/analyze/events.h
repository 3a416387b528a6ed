/* analyze/events.h - internals of mtp_events (mtprof_analysis.h). Private to events*.c and present/stacks.c.
 *
 *   events.c         lifetime, parts made on demand, a single event
 *   events_list.c    the list of events, their order and nesting
 *   events_parts.c   an event's lists: kernels, frames, inputs
 *
 * create() computes nothing. Each part below is made by the first call that needs it, under the lock, and
 * never changes afterwards; `ready` has the parts that exist.
 */
#ifndef MTP_ANALYZE_EVENTS_H
#define MTP_ANALYZE_EVENTS_H
#include <pthread.h>
#include <stdatomic.h>
#include "analyze/torch/rules.h"

enum {
    MTP__EVENTS_LISTED = 1,
    MTP__EVENTS_NESTED = 2, /* children */
    MTP__EVENTS_STACKED = 4
};

struct mtp_events {
    const mtp_trace *t;   /* borrowed */
    int64_t zero_ns;      /* displayed times start here */
    pthread_mutex_t lock; /* held while making a part; only the intern table's lock is taken inside */
    atomic_uint ready;    /* pairs: mtp__events_need, release with acquire */
    mtp__intern text;     /* keys */

    /* LISTED. An item is a span, or span_count + a memory event, or that + memory_count + an instant. */
    uint32_t count;
    mtp__scratch order; /* uint32_t by event: item */
    mtp__group group;   /* keys and classes; no rows */
    mtp__walk walk;     /* row: 1 + the event of a span, 0: none; parent: 1 + the span of its parent event */
    mtp__bytes bytes;
    mtp__kernels kernels;
    uint32_t *thread_of; /* owned: by track: its number */
    struct mtp__numbered {
        int64_t tid;
        uint32_t part, number;
    } * numbered; /* owned: threads by recording and tid */
    uint32_t threads;
    uint32_t main_track;
    mtp__step *steps; /* owned: sorted by start */
    uint32_t step_count;
    int32_t device_type; /* of device work */
    bool has_flops;

    /* NESTED: uint32_t by event: 1 + an event */
    mtp__scratch child, sibling;

    /* STACKED: as mtp__stacks_of; p NULL: no stacks */
    mtp__scratch stacks;
    bool python_stacks; /* set before the first call that needs them, if at all */
};

mtp_status mtp__events_need(mtp_events *e, unsigned part);
/* The event's item; makes LISTED. MTP_E_ARG: no such event. */
mtp_status mtp__events_item(mtp_events *e, size_t index, uint32_t *item);

mtp_status mtp__events_list(mtp_events *e);
mtp_status mtp__events_number_threads(mtp_events *e); /* thread_of, numbered; needs only t */
mtp_event_kind mtp__event_kind_of(const mtp_trace *t, uint32_t span);
void mtp__events_unlist(mtp_events *e); /* also for a partial list */
mtp_status mtp__events_nest(mtp_events *e);

static inline mtp_text mtp__events_text(const mtp_events *e, uint32_t id)
{
    mtp_text text = mtp__trace_get_text(e->t, id);
    return (mtp_text){text.bytes, text.length};
}

/* A name in torch's spelling. */
static inline mtp_text mtp__events_key(const mtp_events *e, uint32_t name)
{
    uint32_t key = ((const uint32_t *)e->group.key_of.p)[name];
    const mtp__intern_entry *entry = key != 0 ? mtp__intern_get(&e->text, key - 1) : NULL;
    return entry != NULL ? (mtp_text){(const char *)entry->bytes, entry->length} : mtp__events_text(e, name);
}
#endif
