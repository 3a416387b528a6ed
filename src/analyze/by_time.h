/* analyze/by_time.h - the spans of many tracks in one order of time: (start, track). On a track as they lie: a parent
 * before its children. A heap of one cursor per track; for one track it costs nothing. */
#ifndef MTP_ANALYZE_BY_TIME_H
#define MTP_ANALYZE_BY_TIME_H
#include "trace/trace.h"

typedef struct mtp__time_cursor {
    int64_t start;
    uint32_t track, at, end;
} mtp__time_cursor;

typedef struct mtp__by_time {
    const mtp_trace *t;     /* borrowed */
    mtp__time_cursor *heap; /* owned: the earliest first */
    uint32_t count;
} mtp__by_time;

/* Of the tracks whose byte in `wanted` is not 0; NULL: all. */
mtp_status mtp__by_time_init(mtp__by_time *b, const mtp_trace *t, const uint8_t *wanted);
void mtp__by_time_fini(mtp__by_time *b);
uint32_t mtp__by_time_next(mtp__by_time *b, uint32_t *track); /* the span; MTP__NONE: no more */
#endif
