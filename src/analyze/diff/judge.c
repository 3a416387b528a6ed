/* analyze/diff/judge.c - from numbers to verdicts.
 *
 * The scatter of calls within a run says how well that run's typical time is known. It does not say how much
 * the typical time varies between runs of the same program: memory layout, clock frequency and neighbours
 * differ. That is estimated from the rows themselves: what most of them share is drift; how far they vary
 * around it, beyond their own scatter, is noise between runs, and is allowed for in every row. What remains
 * must be significant after correction for the number of rows (Holm), show in the ranks too, and be large
 * enough to matter.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "analyze/diff/diff.h"
#include "base/error.h"
#include "base/os.h"

#define CALLS_FEW 7.5          /* fewer are not tested: eight, up to rounding */
#define CALLS_LEAST 3.0        /* fewer tell nothing */
#define ALPHA 0.01             /* probability of a verdict on any row if nothing has changed */
#define STEPS_ALPHA 0.002      /* the same for steps: anything that disturbs a run disturbs them */
#define STEPS_RANK_ALPHA 0.01  /* the same by ranks, for fewer steps than means can judge */
#define STEPS_NOISE_SURE 1.645 /* standard deviations of the noise between runs, subtracted before ranking */
#define RANKS_SURE 2.576       /* standard deviations: p = 1 % */
#define ERROR_REACH 2.5        /* standard errors: the confidence bounds of a change */
#define HUGE_CHANGE 0.693147   /* twice */
#define HUGE_SURE 5.0
#define SCATTER_FREEDOM 4.0 /* weight of the other rows' scatter when judging a row's own */
#define LOW_PART 0.5        /* part of the change that the fastest calls must show */
#define LOW_SURE 1.645
#define LOW_BLUNT 4.0
#define LOW_CALLS 40.0       /* with fewer calls there are too few fastest to base a verdict on */
#define LOW_FREEDOM 0.2      /* as a fraction of the bulk's degrees of freedom */
#define NOISE_PRIOR 0.008    /* between runs, for rows about which nothing is known */
#define NOISE_PRIOR_ROWS 4.0 /* weight of the prior, in rows */
#define NOISE_PRIOR_FREEDOM 10.0
#define NOISE_FREEDOM 0.4 /* degrees of freedom that a row adds to the noise estimate */
#define NOISE_NS 25.0     /* of the clock and of recording a call, between runs: at most */
#define NOISE_NS_LEAST 1.0
#define NOISE_NS_OF 5000.0 /* only shorter calls are used to estimate it */
#define DRIFT_ROWS 5       /* fewer cannot agree */
#define DRIFT_SHARE_LEAST 0.001
#define DRIFT_ERROR_MAX 0.2
#define DRIFT_AGREE 0.6
#define DRIFT_LOW_PART 0.75 /* part of the drift that the fastest calls must show, else it is the machine's */
#define OWN_NS_LEAST 20.0   /* shorter self times are due to recording */

/* -------------------------------------------------------------------------------------- one row's numbers */

static size_t fill(mtp_diff *d, const mtp__diff_pair *r, bool own, mtp__likeness like, size_t *after)
{
    *after = mtp__calls_times(&d->calls[1], r->after, own, like, mtp__comparer_times(d->comparer, true));
    return mtp__calls_times(&d->calls[0], r->before, own, like, mtp__comparer_times(d->comparer, false));
}

/* More similar calls scatter less, if both sides have them: the likeness with the smallest error is used, a
 * finer one only if it is clearly better. The fastest calls, however, are chosen among all that do the same
 * work: the faster call of a pair says nothing. */
static void measure(mtp_diff *d, const mtp__diff_pair *r, bool own, mtp__judged *j)
{
    bool as_many = r->shown.count_before == r->shown.count_after;
    size_t after, before = fill(d, r, own, MTP__LIKE_WORK, &after);
    j->like = MTP__LIKE_WORK;
    j->known = mtp__compare(d->comparer, before, after, &j->measured) && j->measured.coverage >= 0.8;
    if (!j->known) {
        before = fill(d, r, own, MTP__LIKE_ANY, &after);
        j->like = MTP__LIKE_ANY;
        j->known = mtp__compare(d->comparer, before, after, &j->measured);
    }
    const mtp__compared coarse = j->measured;
    for (int like = MTP__LIKE_PATH; j->known && like < (as_many ? MTP__LIKENESSES : MTP__LIKE_TURN); like++) {
        mtp__compared measured;
        before = fill(d, r, own, (mtp__likeness)like, &after);
        if (!mtp__compare(d->comparer, before, after, &measured) || measured.coverage < 0.8 ||
            measured.error > 0.8 * j->measured.error || measured.freedom < CALLS_LEAST)
            continue;
        j->measured = measured;
        j->like = (mtp__likeness)like;
    }
    j->measured.low_change = coarse.low_change;
    j->measured.low_error = coarse.low_error;
}

static double ranks(mtp_diff *d, const mtp__diff_pair *r, bool own, const mtp__judged *j)
{
    size_t after, before = fill(d, r, own, j->like, &after);
    mtp__compared measured;
    return mtp__compare(d->comparer, before, after, &measured) ? mtp__compare_ranks(d->comparer, d->drift)
                                                               : 0;
}

/* ------------------------------------------------------------------------------------ what the rows share */

typedef struct vote {
    double change, weight, error, shared;
} vote;

static int by_change(const void *a, const void *b)
{
    const vote *x = a, *y = b;
    return (x->change > y->change) - (x->change < y->change);
}

/* Rows that spend enough time of their own in enough calls; large and well-known rows weigh more, but none
 * dominates. Sorted by change. */
static size_t gather_votes(const mtp_diff *d, vote *votes, bool low)
{
    double all = 0;
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++)
        all += d->row[i].shown.self_before + d->row[i].shown.self_after;
    for (size_t i = 0; i < d->count; i++) {
        const mtp__diff_pair *r = &d->row[i];
        const mtp__compared *measured = &r->time.measured;
        double own = r->shown.self_before + r->shown.self_after;
        if (!r->time.known || measured->calls < CALLS_FEW || measured->error > DRIFT_ERROR_MAX ||
            own < DRIFT_SHARE_LEAST * all || own < 0.5 * (r->shown.total_before + r->shown.total_after))
            continue;
        double error = low ? measured->low_error : measured->error;
        double weight = sqrt(own) / (error * error + NOISE_PRIOR * NOISE_PRIOR);
        votes[count++] =
            (vote){low ? measured->low_change : measured->change, weight, error, measured->shared};
    }
    qsort(votes, count, sizeof *votes, by_change);
    return count;
}

/* The densest half of the rows; of two equally dense ones, the one nearer to no change. Changed rows are in
 * the other half. Half its width, scaled as for a normal sample, is the spread. */
static double closest(const vote *votes, size_t count, double *sigma)
{
    size_t half = (count + 1) / 2, best = 0;
    double least = INFINITY;
    for (size_t i = 0; i + half <= count; i++) {
        double width = votes[i + half - 1].change - votes[i].change;
        double penalty = 0.1 * fabs(votes[i + half - 1].change + votes[i].change) / 2;
        if (width + penalty < least) {
            least = width + penalty;
            best = i;
        }
    }
    double low = votes[best].change, high = votes[best + half - 1].change;
    *sigma = (high - low) / 2 / 0.6745 / (1 - 2.2 * pow((double)count, -2.0 / 3));
    return (low + high) / 2;
}

/* The weighted median of the rows that moved together, which must be a majority. */
static bool middle(const vote *votes, size_t count, double near, double sigma, double *out)
{
    double all = 0, sum = 0, rows = 0, reach = 2.5 * (sigma > NOISE_PRIOR / 2 ? sigma : NOISE_PRIOR / 2);
    for (size_t i = 0; i < count; i++)
        if (fabs(votes[i].change - near) <= reach) {
            all += votes[i].weight;
            rows++;
        }
    for (size_t i = 0; i < count; i++)
        if (fabs(votes[i].change - near) <= reach && (sum += votes[i].weight) >= 0.5 * all) {
            *out = votes[i].change;
            break;
        }
    return rows >= DRIFT_AGREE * (double)count || fabs(near) <= reach;
}

typedef struct shared { /* what the rows have in common */
    bool known;
    double drift, noise, error, rows;
} shared;

static shared find_shared(const mtp_diff *d, vote *votes, bool low)
{
    shared s = {0};
    size_t count = gather_votes(d, votes, low);
    double sigma = 0, scatter = 0, weight = 0, squares = 0, alike = 0;
    if (count >= DRIFT_ROWS) {
        s.rows = (double)count;
        double near = closest(votes, count, &sigma);
        s.known = middle(votes, count, near, sigma, &s.drift);
        s.drift = s.known ? s.drift : 0;
    }
    for (size_t i = 0; i < count; i++) {
        scatter += votes[i].error * votes[i].error / s.rows;
        alike += votes[i].shared / s.rows;
        weight += votes[i].weight;
        squares += votes[i].weight * votes[i].weight;
    }
    double beyond = s.rows > 0 && sigma * sigma > scatter ? sigma * sigma - scatter : 0;
    s.noise =
        sqrt((s.rows * beyond + NOISE_PRIOR_ROWS * NOISE_PRIOR * NOISE_PRIOR) / (s.rows + NOISE_PRIOR_ROWS));
    double noise = 1.25 * s.noise * sqrt(squares) / weight;
    s.error = s.known ? sqrt(noise * noise + alike * alike) : 0; /* hypot() would need glibc 2.35 */
    return s;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The scatter of a call in the median row, and by how many nanoseconds short calls moved, of which what most
 * did not exceed is attributed to the clock. */
static mtp_status find_usual(mtp_diff *d)
{
    double *numbers = mtp__calloc(d->count + 1, sizeof *numbers);
    if (numbers == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%zu rows", d->count);
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++)
        if (d->row[i].time.known && d->row[i].time.measured.calls >= CALLS_FEW)
            numbers[count++] = d->row[i].time.measured.scatter;
    qsort(numbers, count, sizeof *numbers, by_number);
    d->usual_scatter = count > 0 ? numbers[count / 2] : 0;
    count = 0;
    for (size_t i = 0; i < d->count; i++) {
        const mtp__compared *measured = &d->row[i].time.measured;
        if (d->row[i].time.known && measured->calls >= CALLS_FEW && measured->before_ns < NOISE_NS_OF)
            numbers[count++] = fabs(measured->low_change - d->low_drift) * measured->before_ns;
    }
    qsort(numbers, count, sizeof *numbers, by_number);
    double ns = count >= DRIFT_ROWS ? 2 * numbers[count * 9 / 10] : NOISE_NS;
    d->clock_ns = ns < NOISE_NS_LEAST ? NOISE_NS_LEAST : ns < NOISE_NS ? ns : NOISE_NS;
    mtp__free(numbers);
    return MTP_OK;
}

/* Drift up to a limit is attributed to the machine; a larger one to the program only if the fastest calls
 * share it. */
static mtp_status find_drift(mtp_diff *d)
{
    vote *votes = mtp__calloc(d->count + 1, sizeof *votes);
    if (votes == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%zu rows", d->count);
    shared bulk = find_shared(d, votes, false), low = find_shared(d, votes, true);
    double limit = log1p(d->options.max_drift);
    bool same_way = bulk.known && low.known && (bulk.drift > 0) == (low.drift > 0);
    bool ours = same_way && !d->options.normalize && fabs(bulk.drift) > limit + ERROR_REACH * bulk.error &&
                fabs(low.drift) > limit && fabs(low.drift) > DRIFT_LOW_PART * fabs(bulk.drift);
    d->noise = bulk.noise;
    d->low_noise = low.noise;
    d->noise_freedom = NOISE_FREEDOM * bulk.rows + NOISE_PRIOR_FREEDOM;
    d->summary.has_drift = bulk.known;
    d->summary.drift = expm1(bulk.drift);
    d->summary.spread = bulk.noise;
    if (ours)
        d->summary.drift_verdict = bulk.drift > 0 ? MTP_VERDICT_SLOWER : MTP_VERDICT_FASTER;
    d->drift = ours ? 0 : bulk.drift;
    d->low_drift = ours ? 0 : low.drift;
    mtp__free(votes);
    return MTP_OK;
}

/* -------------------------------------------------------------------------------------------- verdicts */

/* The scatter of few calls is poorly known: it is shrunk towards the usual scatter of all rows. */
static double steadied(const mtp_diff *d, const mtp__compared *measured, double *freedom)
{
    double own = measured->freedom > 1 ? measured->freedom : 1;
    *freedom = own + SCATTER_FREEDOM;
    return (own * measured->scatter + SCATTER_FREEDOM * d->usual_scatter) / *freedom * measured->factor;
}

static double chance_of(const mtp_diff *d, double excess, double within, double freedom, double between)
{
    double all = within + between;
    double mixed = all * all / (within * within / freedom + between * between / d->noise_freedom);
    return mtp__chance(excess / sqrt(all), mixed);
}

/* Which measure decides: the one with the smaller error. On a busy machine that is the fastest calls, else
 * the bulk. */
static void choose(mtp__judged *j)
{
    const mtp__compared *measured = &j->measured;
    j->by_low = measured->calls >= LOW_CALLS && j->low_spread < j->bulk_spread;
    j->change = j->by_low ? measured->low_change : measured->change;
    j->excess = j->by_low ? j->low : j->bulk;
    j->spread = j->by_low ? j->low_spread : j->bulk_spread;
}

static void weigh(const mtp_diff *d, mtp__judged *j)
{
    double grain = (double)(d->calls[0].grain > d->calls[1].grain ? d->calls[0].grain : d->calls[1].grain);
    double ns = j->measured.before_ns > 1 ? j->measured.before_ns : 1;
    double clock = (d->clock_ns + (grain > 1 ? grain / sqrt(12) : 0)) / ns;
    double freedom, within = steadied(d, &j->measured, &freedom),
                    low_within = j->measured.low_error * j->measured.low_error;
    double between = d->noise * d->noise + clock * clock,
           low_between = d->low_noise * d->low_noise + clock * clock;
    j->bulk = j->measured.change - d->drift;
    j->low = j->measured.low_change - d->low_drift;
    j->bulk_spread = sqrt(within + between);
    j->low_spread = sqrt(low_within + low_between);
    j->tested = j->known && j->measured.calls >= CALLS_FEW;
    choose(j);
    j->chance = 1;
    if (j->tested && j->by_low)
        j->chance = chance_of(d, j->low, low_within, LOW_FREEDOM * freedom, low_between);
    else if (j->tested)
        j->chance = chance_of(d, j->bulk, within, freedom, between);
}

static mtp__judged *judged(mtp__diff_pair *r, bool own)
{
    return own ? &r->own : &r->time;
}

static int by_chance(const void *a, const void *b)
{
    double x = **(double *const *)a, y = **(double *const *)b;
    return (x > y) - (x < y);
}

/* A change of the program shows in the raw numbers: a row that stays put while the others move did not
 * change. And it shows in all calls: if the bulk moved more than the fastest, that was the machine. If the
 * fastest decide, the bulk must not contradict; if the bulk decides, the fastest and the ranks must agree. */
static bool confirmed(const mtp__judged *j, double rank)
{
    double sign = j->excess > 0 ? 1 : -1, low = sign * j->low, bulk = sign * j->bulk;
    if (sign * j->change <= 0 || low < LOW_PART * bulk)
        return false;
    if (j->by_low)
        return bulk >= LOW_PART * low - ERROR_REACH * j->bulk_spread;
    bool low_tells =
        j->measured.low_error <= LOW_BLUNT * j->measured.error; /* else the calls are too diverse */
    return sign * rank >= RANKS_SURE && bulk >= LOW_PART * low &&
           (!low_tells || low >= LOW_SURE * j->low_spread);
}

/* Holm: the smallest p-value first, each against those remaining. Marks those that pass with a chance below
 * 0. */
static mtp_status correct(mtp_diff *d, bool own)
{
    size_t count = 0;
    double **chances = mtp__calloc(d->count + 1, sizeof *chances);
    if (chances == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%zu rows", d->count);
    for (size_t i = 0; i < d->count; i++)
        if (judged(&d->row[i], own)->tested)
            chances[count++] = &judged(&d->row[i], own)->chance;
    qsort(chances, count, sizeof *chances, by_chance);
    for (size_t i = 0; i < count && *chances[i] <= ALPHA / (double)(count - i); i++)
        *chances[i] = -1;
    mtp__free(chances);
    for (size_t i = 0; i < d->count; i++) {
        mtp__judged *j = judged(&d->row[i], own);
        if (j->chance >= 0)
            continue;
        j->sure = confirmed(j, ranks(d, &d->row[i], own, j));
    }
    return MTP_OK;
}

/* How far below the limit a change may be measured and still count as reaching it. */
static double margin(const mtp__judged *j, double limit)
{
    double m = ERROR_REACH * j->spread;
    m = m < 0.4 * limit ? m : 0.4 * limit;
    return m < 0.02 ? m : 0.02;
}

bool mtp__judged_exceeds(const mtp__judged *j, double fraction)
{
    double limit = log1p(fraction);
    return fabs(j->excess) >= limit - margin(j, limit);
}

static mtp_verdict verdict_of(const mtp_diff *d, const mtp__judged *j)
{
    if (!j->known || !mtp__judged_exceeds(j, d->options.threshold))
        return MTP_VERDICT_SAME;
    bool huge = j->measured.calls >= CALLS_LEAST && j->measured.apart && fabs(j->excess) >= HUGE_CHANGE &&
                fabs(j->excess) >= HUGE_SURE * j->spread;
    if (j->tested ? j->sure : huge)
        return j->excess > 0 ? MTP_VERDICT_SLOWER : MTP_VERDICT_FASTER;
    return fabs(j->excess) >= log1p(d->options.threshold) ? MTP_VERDICT_UNCERTAIN : MTP_VERDICT_SAME;
}

/* Self time is not judged if it is so short that it is due to recording, or a sliver of the total. */
static bool own_matters(const mtp__diff_pair *r)
{
    return r->own.known && r->own.measured.before_ns >= OWN_NS_LEAST &&
           r->own.measured.before_ns >= 0.01 * r->time.measured.before_ns;
}

/* --------------------------------------------------------------------------------------------------- steps */

static size_t step_times(const mtp_trace *t, mtp__time *out)
{
    size_t most = t->step_count < MTP__COMPARE_MAX ? t->step_count : MTP__COMPARE_MAX;
    for (size_t i = 0; i < most; i++) {
        const mtp__step *s = &t->steps[i * t->step_count / most];
        out[i] = (mtp__time){log(s->end - s->start > 1 ? (double)(s->end - s->start) : 1), 0};
    }
    return most;
}

/* Steps are few, and a disturbed one may take twice as long, which hides a change from means. Ranks see it:
 * six steps that all took longer than all six before happen by chance once in 462 times. The machine's share
 * is subtracted first: drift, and the noise between runs. */
static bool changed_by_ranks(const mtp_diff *d, mtp__judged *j)
{
    double excess = j->measured.change - d->drift, sign = excess > 0 ? 1 : -1;
    double shift = d->drift + sign * STEPS_NOISE_SURE * d->noise;
    if (sign * mtp__compare_ranks(d->comparer, shift) <= 0 ||
        mtp__compare_rank_chance(d->comparer, shift) > (j->tested ? STEPS_ALPHA : STEPS_RANK_ALPHA))
        return false;
    j->change = j->measured.change;
    j->excess = excess;
    j->spread = j->bulk_spread;
    return true;
}

static void step_range(const mtp_trace *t, double *low, double *high)
{
    for (uint32_t i = 0; i < t->step_count; i++) {
        double us = (double)(t->steps[i].end - t->steps[i].start) / 1000;
        *low = i == 0 || us < *low ? us : *low;
        *high = i == 0 || us > *high ? us : *high;
    }
}

static void judge_steps(mtp_diff *d)
{
    mtp_diff_summary *s = &d->summary;
    mtp__judged *j = &d->steps;
    s->steps_before = d->calls[0].t->step_count;
    s->steps_after = d->calls[1].t->step_count;
    step_range(d->calls[0].t, &s->step_before_min, &s->step_before_max);
    step_range(d->calls[1].t, &s->step_after_min, &s->step_after_max);
    size_t before = step_times(d->calls[0].t, mtp__comparer_times(d->comparer, false));
    size_t after = step_times(d->calls[1].t, mtp__comparer_times(d->comparer, true));
    if (before == 0 || after == 0 || !mtp__compare(d->comparer, before, after, &j->measured))
        return;
    j->known = true;
    weigh(d, j);
    j->sure = j->chance <= STEPS_ALPHA && confirmed(j, mtp__compare_ranks(d->comparer, d->drift));
    if (!j->sure && changed_by_ranks(d, j))
        j->sure = j->tested = true;
    double change = d->options.normalize ? j->excess : j->change;
    s->step_before = j->measured.before_ns / 1000;
    s->step_after = s->step_before * exp(change);
    s->step_change = expm1(change);
    s->step_verdict = verdict_of(d, j);
}

/* ----------------------------------------------------------------------------------------------------- all */

static void fill_row(const mtp_diff *d, mtp__diff_pair *r)
{
    mtp_diff_row *s = &r->shown;
    if (!r->time.known)
        return;
    bool normal = d->options.normalize;
    double change = normal ? r->time.excess : r->time.change;
    double own = !r->own.known ? 0 : normal ? r->own.excess : r->own.change;
    s->time_before = r->time.measured.before_ns / 1000;
    s->time_after = s->time_before * exp(change);
    s->own_before = r->own.measured.before_ns / 1000;
    s->own_after = s->own_before * exp(own);
    s->change = expm1(change);
    s->own_change = expm1(own);
    s->excess = expm1(r->time.excess);
    s->low = expm1(r->time.excess - ERROR_REACH * r->time.spread);
    s->high = expm1(r->time.excess + ERROR_REACH * r->time.spread);
    s->verdict = verdict_of(d, &r->time);
    s->own_verdict = own_matters(r) ? verdict_of(d, &r->own) : MTP_VERDICT_SAME;
}

mtp_status mtp__diff_judge(mtp_diff *d)
{
    for (size_t i = 0; i < d->count; i++) {
        mtp__diff_pair *r = &d->row[i];
        if (r->before == MTP__NONE || r->after == MTP__NONE)
            continue;
        measure(d, r, false, &r->time);
        if (!r->shown.is_device)
            measure(d, r, true, &r->own);
        else
            r->own = r->time;
    }
    mtp_status status = find_drift(d);
    if (status == MTP_OK)
        status = find_usual(d);
    if (status != MTP_OK)
        return status;
    for (size_t i = 0; i < d->count; i++) {
        weigh(d, &d->row[i].time);
        weigh(d, &d->row[i].own);
        d->row[i].own.tested &= own_matters(&d->row[i]);
    }
    status = correct(d, false);
    if (status == MTP_OK)
        status = correct(d, true);
    if (status != MTP_OK)
        return status;
    for (size_t i = 0; i < d->count; i++)
        fill_row(d, &d->row[i]);
    judge_steps(d);
    return MTP_OK;
}
