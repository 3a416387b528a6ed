/* trace/records/tally.h - counts a recording's events without keeping them, so that memory does not grow with
 * its length. Private to trace/. */
#ifndef MTP_TRACE_RECORDS_TALLY_H
#define MTP_TRACE_RECORDS_TALLY_H
#include "trace/trace.h"

typedef struct mtp__tally { /* {0} is empty */
    uint64_t spans, memory_events, instants, bytes;
    int64_t first_ns;
    bool any;         /* first_ns is valid */
    bool has_devices; /* device work must be kept until everything is read */
} mtp__tally;

/* Counts and drops what was read so far, except the first `kept` spans. */
void mtp__tally_take(mtp__tally *y, mtp_trace *t, uint32_t kept);
/* Adds the counts to the result of mtp_trace_get_info(). */
void mtp__tally_add(const mtp__tally *y, mtp_trace_info *info);
#endif
