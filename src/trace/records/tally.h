/* trace/records/tally.h - a recording that is counted and not kept, so that its length does not matter. For the room trace alone. */
#ifndef MTP_TRACE_RECORDS_TALLY_H
#define MTP_TRACE_RECORDS_TALLY_H
#include "trace/trace.h"

typedef struct mtp__tally { /* {0} is an empty one */
    uint64_t spans, memory_events, instants, bytes;
    int64_t first_ns;
    bool any;         /* first_ns is of something */
    bool has_devices; /* their work is known when all is read: it must be kept */
} mtp__tally;

/* Counts what was read so far, but for the first `kept` spans, and forgets it. */
void mtp__tally_take(mtp__tally *y, mtp_trace *t, uint32_t kept);
/* To what mtp_trace_get_info() says of the rest. */
void mtp__tally_add(const mtp__tally *y, mtp_trace_info *info);
#endif
