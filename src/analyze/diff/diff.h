/* analyze/diff/diff.h - the parts of comparing two traces.
 *
 *   gather.c   a trace's calls by row, each with its self time and comparison keys
 *   stats.c    two samples of times
 *   judge.c    from numbers to verdicts: drift, noise between runs, multiple testing
 *   calls.c    calls and time per step
 *   diff.c     runs them in order; the public calls
 */
#ifndef MTP_ANALYZE_DIFF_H
#define MTP_ANALYZE_DIFF_H
#include <mtprof.h>
#include "analyze/torch/rules.h"
#include "analyze/diff/stats.h"

/* ------------------------------------------------------------------------------------------ gathering */

/* Calls are compared with similar ones: by the work they do, then by caller, then by position among that
 * caller's calls. */
typedef enum mtp__likeness {
    MTP__LIKE_ANY,  /* all calls of a row */
    MTP__LIKE_WORK, /* shapes, bytes, grid */
    MTP__LIKE_PATH, /* and the same callers */
    MTP__LIKE_SPOT, /* and the same position among its caller's calls of that name */
    MTP__LIKE_TURN, /* the nth call of one run with the nth of the other, if both have equally many */
    MTP__LIKENESSES
} mtp__likeness;

typedef struct mtp__calls { /* of one trace */
    const mtp_trace *t;
    mtp__group group;
    mtp__launched launched;
    mtp__walk walk;
    uint32_t *above;       /* owned: per span, the enclosing event, or MTP__NONE */
    int64_t *self;         /* owned: per span, ns */
    uint64_t *path, *spot; /* owned: per span */
    uint32_t *span;        /* owned: those with a row, row by row */
    uint32_t *first;       /* owned: per row, plus one: where its spans begin */
    int64_t grain;         /* ns: all times are multiples of it */
} mtp__calls;

mtp_status mtp__calls_init(mtp__calls *c, const mtp_trace *t, const mtp_averages_options *options,
                           mtp__intern *text);
void mtp__calls_fini(mtp__calls *c);
int64_t mtp__calls_ns(const mtp__calls *c, uint32_t span, bool own);
/* Fills in a row's times, subsampled evenly if there are too many; returns how many. */
size_t mtp__calls_times(const mtp__calls *c, uint32_t row, bool own, mtp__likeness like, mtp__time *out);

/* -------------------------------------------------------------------------------------------- judging */

typedef struct mtp__judged { /* a row's total or self time */
    mtp__compared measured;
    mtp__likeness like;
    bool known;                     /* there are calls on both sides */
    bool tested;                    /* enough of them */
    bool sure;                      /* the change is significant */
    bool by_low;                    /* the fastest calls are known better than the bulk, and decide */
    double bulk, low;               /* change minus drift, by either measure */
    double bulk_spread, low_spread; /* its standard deviation, all sources included */
    /* by the measure that decides */
    double change, excess; /* as measured; minus drift */
    double spread;         /* standard deviation, all sources included */
    double chance;
} mtp__judged;

typedef struct mtp__diff_pair {
    mtp_diff_row shown;
    uint32_t before, after; /* rows of the averages; MTP__NONE: absent */
    mtp__judged time, own;
    double cost; /* microseconds, for ordering */
} mtp__diff_pair;

struct mtp_diff {
    mtp_diff_options options;
    mtp_diff_summary summary;
    mtp__diff_pair *row;   /* owned */
    size_t count, written; /* written: in JSON */
    mtp__intern text;      /* owned: keys and shapes of both */
    mtp__calls calls[2];
    mtp__comparer *comparer; /* owned */
    double drift, low_drift; /* logarithms, as subtracted: of the bulk, of the fastest calls */
    double noise, low_noise; /* between runs */
    double noise_freedom;
    double clock_ns;      /* of the clock and of recording a call, between runs */
    double usual_scatter; /* of the logarithm of a call's time */
    mtp__judged steps;
};

mtp_status mtp__diff_judge(mtp_diff *d);
mtp_status mtp__diff_count_calls(mtp_diff *d); /* after judge() */
/* Is the change, within its error margin, `fraction` or more? */
bool mtp__judged_exceeds(const mtp__judged *j, double fraction);
#endif
