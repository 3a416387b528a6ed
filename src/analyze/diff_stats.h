/* analyze/diff_stats.h - two samples of times: by how much do they differ, and how sure is that?
 *
 * Times are compared as logarithms, within strata (calls that do the same work). A busy machine makes calls slower, never
 * faster, and so moves the fastest calls least, while a change of the program moves them all: the change is measured
 * twice, by the mean of the bulk, of which the slowest two fifths and the fastest tenth are left out, and by the mean
 * of the fastest. A call counts by the time that its like take, so that the change is that of the sum. Calls
 * next to each other are alike, which makes them count for fewer.
 */
#ifndef MTP_ANALYZE_DIFF_STATS_H
#define MTP_ANALYZE_DIFF_STATS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTP__COMPARE_MOST ((size_t)4096) /* calls of one side that are looked at */

typedef struct mtp__time {
    double log_ns;
    uint64_t stratum;
} mtp__time;

typedef struct mtp__compared {
    double change, low_change; /* log of after / before: of the bulk, of the fastest */
    double error, low_error;   /* their standard errors, by the scatter within the runs */
    double freedom;            /* degrees of */
    double scatter, factor;    /* error² = scatter of one call * factor, but for the sides' differing */
    double shared;             /* the part of the error that is from calls near each other being alike */
    double before_ns;          /* typical time of a call */
    double calls;              /* that it rests on, of the side that has fewer */
    double coverage;           /* share of the calls that have their like on the other side */
    bool apart;                /* every call of one side took longer than every one of the other */
} mtp__compared;

typedef struct mtp__comparer mtp__comparer; /* the memory it needs */
mtp__comparer *mtp__comparer_create(void);  /* NULL: out of memory */
void mtp__comparer_destroy(mtp__comparer *c);

/* Where the times go, in the order in which they were: MTP__COMPARE_MOST of each. */
mtp__time *mtp__comparer_times(mtp__comparer *c, bool after);
/* false: no stratum has calls on both sides; nothing is known. */
bool mtp__compare(mtp__comparer *c, size_t before, size_t after, mtp__compared *out);
/* Of the same samples: the rank test's number of standard deviations, when `shift` is taken off the later ones. */
double mtp__compare_ranks(const mtp__comparer *c, double shift);

/* The same as a probability, either way: exact for few calls, whatever the shape of their distribution. */
double mtp__compare_rank_chance(const mtp__comparer *c, double shift);

/* How likely is |t| or more by chance? */
double mtp__chance(double t, double freedom);
#endif
