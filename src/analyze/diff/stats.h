/* analyze/diff/stats.h - two samples of times: how much they differ, and how certain that is.
 *
 * Times are compared as logarithms, within strata (calls that do the same work). A busy machine makes calls
 * slower, never faster, and so moves the fastest calls least, while a change of the program moves them all.
 * So the change is measured twice: by the mean of the bulk, without the slowest two fifths and the fastest
 * tenth, and by the mean of the fastest. Calls are weighted by the typical time of their stratum, so that the
 * change is that of the sum. Neighbouring calls are correlated, which reduces the effective sample size.
 */
#ifndef MTP_ANALYZE_DIFF_STATS_H
#define MTP_ANALYZE_DIFF_STATS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTP__COMPARE_MAX ((size_t)4096) /* calls used per side */

typedef struct mtp__time {
    double log_ns;
    uint64_t stratum;
} mtp__time;

typedef struct mtp__compared {
    double change, low_change; /* log of after / before: of the bulk, of the fastest */
    double error, low_error;   /* their standard errors, from the scatter within the runs */
    double freedom;            /* degrees of freedom */
    double scatter,
        factor;       /* error² = scatter of one call * factor, apart from differences between the sides */
    double shared;    /* the part of the error due to correlation of neighbouring calls */
    double before_ns; /* typical time of a call */
    double calls;     /* it is based on, for the side with fewer */
    double coverage;  /* share of the calls with a counterpart on the other side */
    bool apart;       /* every call of one side took longer than every call of the other */
} mtp__compared;

typedef struct mtp__comparer mtp__comparer; /* its working memory */
mtp__comparer *mtp__comparer_create(void);  /* NULL: out of memory */
void mtp__comparer_destroy(mtp__comparer *c);

/* Where to put the times, in order: MTP__COMPARE_MAX for each side. */
mtp__time *mtp__comparer_times(mtp__comparer *c, bool after);
/* false: no stratum has calls on both sides; nothing is known. */
bool mtp__compare(mtp__comparer *c, size_t before, size_t after, mtp__compared *out);
/* For the same samples: the rank test's z-score after subtracting `shift` from the later ones. */
double mtp__compare_ranks(const mtp__comparer *c, double shift);

/* The same as a two-sided p-value: exact for few calls, whatever their distribution. */
double mtp__compare_rank_chance(const mtp__comparer *c, double shift);

/* The probability of |t| or more by chance. */
double mtp__chance(double t, double freedom);
#endif
