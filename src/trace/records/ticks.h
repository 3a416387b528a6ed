/* trace/records/ticks.h - converts ticks to nanoseconds by the anchors in a recording. Private to trace/.
 *
 * Ticks are the timeline; anchors give the length of a tick. Time is linear between two anchors, and
 * extrapolated before the first and after the last. With a single anchor, the rate is the session's.
 *
 * The system's clocks may jump, stop or go back while ticks continue (a suspended machine, a migrated or
 * restored process, a replaced clock), and files may be damaged. So an anchor is accepted if its rate is
 * close to the one known so far, or if all system clocks agree on a new one. Otherwise it is counted as a
 * fault: everything after a jump is moved to where the ticks put it, and a single outlier is skipped. Times
 * are thus monotonic and continuous, whatever was recorded.
 *
 * Anchors arrive once a second, perhaps for months: at MTP__TICK_POINTS_MAX every other one is dropped, of
 * later ones too.
 */
#ifndef MTP_TRACE_RECORDS_TICKS_H
#define MTP_TRACE_RECORDS_TICKS_H
#include <stdbool.h>
#include <stdint.h>
#include "base/clock.h"

#define MTP__TICK_POINTS_MAX (1u << 15) /* 2 MB; after a year one in 17 minutes */
#define MTP__TICK_SHIFT 55              /* a rate below 128 ns per tick fits 62 bits */

typedef struct mtp__tick_point {
    uint64_t ticks;
    int64_t ns;                 /* of CLOCK_MONOTONIC; finish(): minus the jumps before it */
    int64_t realtime, raw;      /* at the same instant; raw 0: not recorded */
    int64_t error;              /* upper bound of the error */
    int64_t shift;              /* finish(): sum of the jumps before it, subtracted from ns */
    int64_t ns_per_tick_scaled; /* finish(): from here to the next, << MTP__TICK_SHIFT, rounded down */
} mtp__tick_point;

typedef struct mtp__tick_line {
    mtp__tick_point *point; /* owned; finish(): sorted by ticks, and by ns */
    uint32_t count, room;
    uint32_t stride; /* one anchor in this many is kept, and always the last; 0: 1 */
    uint32_t since;  /* anchors since one was kept; if any, the last point is the newest of them */
    uint32_t at;     /* the segment used last */
    uint32_t faults; /* finish(): anchors that contradict the others */
    int64_t zero_ns; /* of CLOCK_MONOTONIC at ts 0 */
} mtp__tick_line;

/* Impossible anchors are skipped, and counted. false: out of memory. */
bool mtp__ticks_add(mtp__tick_line *line, const mtp__anchor *anchor);
void mtp__ticks_sort(mtp__tick_line *line); /* by ticks: for one who looks at the points before finish() */
void mtp__ticks_finish(mtp__tick_line *line, double ticks_per_ns); /* after the last add */
void mtp__ticks_fini(mtp__tick_line *line);
void mtp__ticks_seek(mtp__tick_line *line, uint64_t ticks); /* selects the segment */
/* A reading of CLOCK_MONOTONIC as ns since ts 0. If that clock went back, one of the times it may mean. */
int64_t mtp__ticks_of_clock(const mtp__tick_line *line, uint64_t ns);

/* No time is farther than this from the clock's zero: 36 years. A damaged recording may claim anything; with
 * this bound, times can be added and subtracted without overflow. */
#define MTP__NS_MAX ((int64_t)1 << 60)

static inline int64_t mtp__ns_bound(double ns) /* also bounds nan */
{
    return ns > -(double)MTP__NS_MAX ? ns < (double)MTP__NS_MAX ? (int64_t)ns : MTP__NS_MAX : -MTP__NS_MAX;
}

static inline int64_t mtp__ns_bound_clock(uint64_t ns)
{
    return ns < (uint64_t)MTP__NS_MAX ? (int64_t)ns : MTP__NS_MAX;
}

/* Ticks to ns, rounded down: where two lines meet, the first never passes the second. */
static inline int64_t mtp__ticks_scale(int64_t ticks, int64_t ns_per_tick_scaled)
{
    __extension__ typedef __int128 wide;
    const uint64_t most = (uint64_t)MTP__NS_MAX >> (64 - MTP__TICK_SHIFT); /* of the upper half */
    wide product = (wide)ticks * ns_per_tick_scaled;
    if (__builtin_expect((uint64_t)(product >> 64) + most >= 2 * most, 0))
        return product > 0 ? MTP__NS_MAX : -MTP__NS_MAX;
    return (int64_t)(product >> MTP__TICK_SHIFT);
}

/* ns since ts 0. */
static inline int64_t mtp__ticks_to_ns(mtp__tick_line *line, uint64_t ticks)
{
    const mtp__tick_point *p = &line->point[line->at];
    if (__builtin_expect(
            (ticks < p->ticks && line->at > 0) || (line->at + 1 < line->count && ticks >= p[1].ticks), 0)) {
        mtp__ticks_seek(line, ticks);
        p = &line->point[line->at];
    }
    return p->ns - line->zero_ns + mtp__ticks_scale((int64_t)(ticks - p->ticks), p->ns_per_tick_scaled);
}
#endif
