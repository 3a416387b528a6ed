/* analyze/by_time.h - the spans of many tracks merged by time: (start, track). Within a track in stored
 * order: a parent before its children. A heap with one cursor per track; a single track costs nothing. */
#ifndef MTP_ANALYZE_BY_TIME_H
#define MTP_ANALYZE_BY_TIME_H
#include "trace/trace.h"

typedef struct mtp__time_cursor {
    int64_t start;
    uint32_t track, at, end;
} mtp__time_cursor;

typedef struct mtp__by_time {
    const mtp_trace *t;     /* borrowed */
    mtp__time_cursor *heap; /* owned: earliest first */
    uint32_t count;
} mtp__by_time;

/* For tracks whose byte in `wanted` is not 0; NULL: all. */
mtp_status mtp__by_time_init(mtp__by_time *b, const mtp_trace *t, const uint8_t *wanted);
void mtp__by_time_fini(mtp__by_time *b);
uint32_t mtp__by_time_next(mtp__by_time *b, uint32_t *track); /* the span; MTP__NONE: no more */
#endif
