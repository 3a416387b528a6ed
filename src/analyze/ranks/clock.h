/* analyze/ranks/clock.h - the clocks of ranks, from what they did together.
 *
 *     clock.c        bounds through chains of ranks, the result
 *     clock_pair.c   the bounds between two clocks: a polygon of offset and drift
 *     clock_fit.c    the estimate: lines through the ends of meetings
 *
 * A clock is a line: true time = t + offset + drift * (t - at), where true time is the reference's clock. Times are
 * nanoseconds of the rank's own clock. A *meeting* is a communication call of several ranks. Nobody leaves one that
 * synchronises before all have entered; nobody leaves a broadcast before its root has entered, and the root of a
 * reduction not before all have entered. A *tie* is a measurement: peer's clock - own clock, give or take its error.
 *
 * Pure functions of their arguments; any thread.
 */
#ifndef MTP_ANALYZE_RANKS_CLOCK_H
#define MTP_ANALYZE_RANKS_CLOCK_H
#include <mtprof.h>

#define MTP__DRIFT_MAX 1e-3 /* between two clocks: no proof covers more */

typedef enum mtp__meeting_kind {
    MTP__MEET_ALL,       /* nobody leaves before all have entered */
    MTP__MEET_FROM_ROOT, /* nobody leaves before the root has entered */
    MTP__MEET_TO_ROOT,   /* the root does not leave before all have entered */
    MTP__MEET_LOOSE      /* says nothing about clocks */
} mtp__meeting_kind;

typedef struct mtp__seen { /* a meeting as one rank saw it */
    uint32_t rank;         /* index */
    uint32_t call;         /* the caller's */
    int64_t enter, leave;
} mtp__seen;

typedef struct mtp__meeting {
    uint32_t first, count; /* of the seen */
    uint32_t root;         /* index of a rank; UINT32_MAX: unknown, or none */
    uint32_t kind;         /* mtp__meeting_kind */
    int64_t when;          /* the caller's */
} mtp__meeting;

typedef struct mtp__tie {
    uint32_t own, peer; /* indexes of ranks */
    int64_t at;         /* of own's clock */
    int64_t offset, error;
} mtp__tie;

typedef struct mtp__clocks_in { /* all borrowed */
    uint32_t ranks, meetings, ties;
    const int64_t *first, *last; /* by rank: when its trace begins and ends, by its clock */
    const int64_t *rounded; /* by rank, or NULL: an end may be so much later than it says, a start half of it
                                    earlier */
    const mtp__meeting *meeting; /* about in order of time */
    const mtp__seen *seen;
    const mtp__tie *tie;
} mtp__clocks_in;

typedef struct mtp__clock_line {
    int64_t at, offset;
    double drift;
    int64_t error; /* proved for all times of the job; -1: not proved */
    uint32_t
        component; /* the first rank that it is tied to, by whatever chain; its own index: none before it */
} mtp__clock_line;

/* A bound that was left out: by the others, rank `leaver` left the meeting `by` ns before `enterer` entered. */
typedef struct mtp__clock_conflict {
    uint32_t meeting; /* UINT32_MAX: a tie, or a chain of ranks */
    uint32_t leaver, enterer;
    int64_t by;
} mtp__clock_conflict;

typedef struct mtp__clocks {       /* {0} is empty */
    mtp__clock_line *line;         /* owned: by rank; the first rank of a component is its reference */
    mtp__clock_conflict *conflict; /* owned */
    uint32_t ranks, conflicts, room;
} mtp__clocks;

mtp_status mtp__clocks_solve(const mtp__clocks_in *in, mtp__clocks *out); /* MTP_E_NOMEM */
void mtp__clocks_fini(mtp__clocks *c);

static inline int64_t mtp__clock_at(const mtp__clock_line *l, int64_t t)
{
    double moved = l->drift * (double)(int64_t)((uint64_t)t - (uint64_t)l->at);
    return (int64_t)((uint64_t)t + (uint64_t)l->offset + (uint64_t)(int64_t)moved);
}

/* ------------------------------------------------------------------------------------------ within clock*.c */

typedef struct mtp__bound { /* y <= f(x), or f(x) <= y */
    double x, y;
    uint32_t meeting, leaver, enterer;
    bool upper, left_out;
} mtp__bound;

typedef struct mtp__line { /* y = a + b * x */
    double a, b;
} mtp__line;

typedef struct mtp__corner { /* of the polygon: with this drift, offsets at x = 0 are from low to high */
    double b, low, high;
} mtp__corner;

typedef struct mtp__polygon {
    mtp__corner *corner; /* owned */
    uint32_t count, room;
    double gap;      /* < 0: empty, and every line breaks some bound by half of that */
    mtp__line least; /* that line, or one well inside */
} mtp__polygon;

/* false: out of memory. Bounds that are left out do not count. */
bool mtp__polygon_make(mtp__polygon *p, const mtp__bound *bound, uint32_t count);
void mtp__polygon_fini(mtp__polygon *p);
static inline double mtp__polygon_most(const mtp__polygon *p, double x)
{
    double most = -1e300;
    for (uint32_t i = 0; i < p->count; i++) {
        double y = p->corner[i].high + p->corner[i].b * x;
        most = y > most ? y : most;
    }
    return most;
}
static inline double mtp__polygon_least(const mtp__polygon *p, double x)
{
    double least = 1e300;
    for (uint32_t i = 0; i < p->count; i++) {
        double y = p->corner[i].low + p->corner[i].b * x;
        least = y < least ? y : least;
    }
    return least;
}

typedef struct mtp__point {
    double x, y;
} mtp__point;
/* A line through most of the points, whatever the others are. Reorders nothing. false: out of memory. */
bool mtp__line_fit(const mtp__point *point, uint32_t count, mtp__line *out);
#endif
