/* trace/ticks.h - ticks to nanoseconds, by the anchors that a recording holds. For the room trace alone.
 *
 * Between two anchors time is a straight line; before the first and after the last the nearest line goes on. With one
 * anchor only, the rate is what the session said.
 */
#ifndef MTP_TRACE_TICKS_H
#define MTP_TRACE_TICKS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct mtp__tick_point {
    uint64_t ticks;
    int64_t ns;         /* of CLOCK_MONOTONIC */
    int64_t realtime;   /* the same instant */
    double ns_per_tick; /* from here to the next */
} mtp__tick_point;

typedef struct mtp__tick_line {
    mtp__tick_point *point; /* owned; by ticks */
    uint32_t count;
    uint32_t at;     /* the segment used last */
    int64_t zero_ns; /* of CLOCK_MONOTONIC: ts 0 */
} mtp__tick_line;

/* Anchors that no clock gives are left out. false: out of memory. */
bool mtp__ticks_add(mtp__tick_line *line, uint64_t ticks, uint64_t ns, uint64_t realtime);
void mtp__ticks_finish(mtp__tick_line *line, double ticks_per_ns); /* after the last add */
void mtp__ticks_fini(mtp__tick_line *line);
void mtp__ticks_seek(mtp__tick_line *line, uint64_t ticks); /* picks the segment */

/* No time is further than this from the clock's zero: 36 years. A damaged recording may claim anything; with this bound,
 * times can be added and subtracted without overflow. */
#define MTP__NS_MOST ((int64_t)1 << 60)

static inline int64_t mtp__ns_bound(double ns) /* nan: a bound, too */
{
    return ns > -(double)MTP__NS_MOST ? ns < (double)MTP__NS_MOST ? (int64_t)ns : MTP__NS_MOST
                                      : -MTP__NS_MOST;
}

static inline int64_t mtp__ns_bound_clock(uint64_t ns)
{
    return ns < (uint64_t)MTP__NS_MOST ? (int64_t)ns : MTP__NS_MOST;
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
    return p->ns - line->zero_ns + mtp__ns_bound((double)(int64_t)(ticks - p->ticks) * p->ns_per_tick);
}
#endif
