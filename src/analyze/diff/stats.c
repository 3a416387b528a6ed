/* analyze/diff/stats.c - see diff_stats.h. The methods: Yuen's test of trimmed means with Kish's effective
 * sample size for weights; Hodges-Lehmann alignment for strata; Mann-Whitney ranks; batch means for
 * autocorrelation; Wallace's approximation of Student's t distribution. All of it is deterministic.
 */
#include "analyze/diff/stats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/os.h"

#define BULK_FROM 0.1 /* fractions of the calls, fastest first */
#define BULK_TO 0.6
#define FASTEST_FROM 0.02
#define FASTEST_TO 0.15
#define FASTEST_CALLS 3.0 /* but at least these */
#define BATCHES_FROM 16u  /* calls; fewer tell nothing about autocorrelation */
#define BATCHES_LEAST 6u
#define RANKS_EXACT 15u /* most calls of a side to count orders for; more are close to normal */
#define BATCHES_MAX 16u /* few and long: a busy period may last for a good part of the run */

typedef struct item {
    double value; /* log ns, then the residual */
    double weight;
    uint64_t stratum;
    uint32_t at;
    uint32_t after; /* 0 or 1 */
} item;

typedef struct weighed {
    double value, weight;
} weighed;

typedef struct cut_mean { /* the mean of a part of a side */
    double mean;
    double variance;  /* of one call's contribution */
    double low, high; /* the part is between these */
} cut_mean;

typedef struct side {
    weighed *sorted; /* in the comparer's memory */
    size_t count;
    double calls; /* effective number, as if all had the same weight */
    cut_mean bulk, fastest;
} side;

struct mtp__comparer {
    mtp__time time[2][MTP__COMPARE_MAX];
    item items[2 * MTP__COMPARE_MAX];
    weighed sorted[2 * MTP__COMPARE_MAX];
    double series[2][MTP__COMPARE_MAX]; /* in order of time; nan: no counterpart */
    side side[2];
    double tie; /* both variances are multiplied by this: strata and autocorrelation */
};

mtp__comparer *mtp__comparer_create(void)
{
    return mtp__calloc(1, sizeof(mtp__comparer));
}

void mtp__comparer_destroy(mtp__comparer *c)
{
    mtp__free(c);
}

mtp__time *mtp__comparer_times(mtp__comparer *c, bool after)
{
    return c->time[after];
}

/* ------------------------------------------------------------------------------------------- strata */

static int by_value(const item *x, const item *y)
{
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (int)x->after - (int)y->after;
}

static int by_stratum(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->stratum != y->stratum)
        return x->stratum < y->stratum ? -1 : 1;
    return by_value(x, y);
}

static int by_rest(const void *a, const void *b)
{
    return by_value(a, b);
}

/* For one side's items among `count` sorted ones, of which `mine` are its own. */
static double median(const item *items, size_t count, uint32_t after, size_t mine)
{
    double below = 0;
    size_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        if (items[i].after != after)
            continue;
        if (seen == mine / 2)
            return mine % 2 != 0 ? items[i].value : (below + items[i].value) / 2;
        below = items[i].value;
        seen++;
    }
    return below;
}

/* Subtracts each stratum's median from its calls: the residuals can be pooled. Returns the number of strata
 * with calls on both sides; the others get weight 0. */
static size_t align(item *items, size_t count, mtp__compared *out, size_t *matched)
{
    size_t strata = 0;
    double sum = 0;
    *matched = 0;
    for (size_t from = 0, to; from < count; from = to) {
        size_t has[2] = {0, 0};
        for (to = from; to < count && items[to].stratum == items[from].stratum; to++)
            has[items[to].after]++;
        if (has[0] == 0 || has[1] == 0)
            continue; /* weights are 0 */
        double before = median(items + from, to - from, 0, has[0]);
        double middle = (before + median(items + from, to - from, 1, has[1])) / 2;
        double weight = exp(middle);
        for (size_t i = from; i < to; i++) {
            items[i].value -= middle;
            items[i].weight = weight;
        }
        sum += (double)(to - from) * exp(before);
        *matched += to - from;
        strata++;
    }
    out->before_ns = *matched > 0 ? sum / (double)*matched : 0;
    return strata;
}

/* -------------------------------------------------------------------------------------- trimmed means */

/* Where the cumulative weight reaches `part`. */
static double quantile(const side *s, double part)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        sum += s->sorted[i].weight;
        if (sum >= part)
            return s->sorted[i].value;
    }
    return s->count > 0 ? s->sorted[s->count - 1].value : 0;
}

/* Over the calls between two fractions of the weight. A call's contribution to the error: its winsorized value
 * over the share that counts. */
static cut_mean mean_between(const side *s, double weight, double from_share, double to_share)
{
    double first = from_share * weight, last = to_share * weight, at = 0, sum = 0, used = 0, all = 0,
           squares = 0;
    cut_mean m = {.low = quantile(s, first), .high = quantile(s, last)};
    for (size_t i = 0; i < s->count; i++) {
        double w = s->sorted[i].weight, v = s->sorted[i].value;
        double from = at > first ? at : first, to = at + w < last ? at + w : last;
        if (to > from) {
            sum += (to - from) * v;
            used += to - from;
        }
        at += w;
        v = v < m.low ? m.low : v > m.high ? m.high : v;
        all += w * v;
        squares += w * v * v;
    }
    double variance = squares / weight - (all / weight) * (all / weight), inner = to_share - from_share;
    m.mean = used > 0 ? sum / used : all / weight;
    m.variance = variance > 0 ? variance / (inner * inner) : 0;
    if (s->calls > 1)
        m.variance *= s->calls / (s->calls - 1);
    return m;
}

static void trim(side *s)
{
    double all = 0, squares = 0;
    for (size_t i = 0; i < s->count; i++) {
        all += s->sorted[i].weight;
        squares += s->sorted[i].weight * s->sorted[i].weight;
    }
    s->calls = all * all / squares;
    double to = FASTEST_CALLS / s->calls;
    s->bulk = mean_between(s, all, BULK_FROM, BULK_TO);
    s->fastest = mean_between(s, all, FASTEST_FROM,
                              to < FASTEST_TO ? FASTEST_TO
                              : to < BULK_TO  ? to
                                              : BULK_TO);
}

/* Splits the items, sorted by residual, into the two sides. */
static void split(mtp__comparer *c, const item *items, size_t count)
{
    size_t used = 0;
    for (uint32_t k = 0; k < 2; k++) {
        side *s = &c->side[k];
        *s = (side){.sorted = c->sorted + used};
        for (size_t i = 0; i < count; i++)
            if (items[i].after == k && items[i].weight > 0)
                c->sorted[used++] = (weighed){items[i].value, items[i].weight};
        s->count = (size_t)(c->sorted + used - s->sorted);
        trim(s);
    }
}

/* ----------------------------------------------------------------------------------------- neighbours */

/* By how much autocorrelation increases the variance of the mean: the variance of batch means over its value
 * for independent calls. `freedom`: of that estimate. */
static double likeness(const double *series, size_t count, const side *s, double *freedom)
{
    size_t have = 0;
    for (size_t i = 0; i < count; i++)
        have += !isnan(series[i]);
    *freedom = 0;
    if (have < BATCHES_FROM)
        return 1;
    size_t batches = (size_t)cbrt((double)have), batch, n = 0;
    batches = batches > BATCHES_MAX ? BATCHES_MAX : batches < BATCHES_LEAST ? BATCHES_LEAST : batches;
    batch = have / batches;
    double sum = 0, squares = 0, means = 0, mean_squares = 0, part = 0;
    for (size_t i = 0; i < count && n < batch * batches; i++) {
        if (isnan(series[i]))
            continue;
        double v = series[i] < s->bulk.low    ? s->bulk.low
                   : series[i] > s->bulk.high ? s->bulk.high
                                              : series[i];
        sum += v;
        squares += v * v;
        part += v;
        if (++n % batch == 0) {
            means += part / (double)batch;
            mean_squares += (part / (double)batch) * (part / (double)batch);
            part = 0;
        }
    }
    double b = (double)batches, m = (double)n;
    double single = squares / m - (sum / m) * (sum / m);
    double between = (mean_squares / b - (means / b) * (means / b)) * b / (b - 1);
    *freedom = b - 1;
    return single > 0 ? between * (double)batch / single : 1;
}

static double neighbours(const mtp__comparer *c, const size_t count[2], double *of)
{
    double freedom[2], factor[2];
    for (int k = 0; k < 2; k++)
        factor[k] = likeness(c->series[k], count[k], &c->side[k], &freedom[k]);
    double all = freedom[0] + freedom[1];
    double both = all > 0 ? (factor[0] * freedom[0] + factor[1] * freedom[1]) / all : 1;
    *of = all;
    return both > 1 + sqrt(2 / (all + 1)) ? both : 1; /* smaller values are chance */
}

/* -------------------------------------------------------------------------------------------- compare */

bool mtp__compare(mtp__comparer *c, size_t before, size_t after, mtp__compared *out)
{
    size_t count[2] = {before, after}, all = before + after, n = 0, matched;
    *out = (mtp__compared){0};
    for (uint32_t k = 0; k < 2; k++)
        for (size_t i = 0; i < count[k]; i++)
            c->items[n++] = (item){c->time[k][i].log_ns, 0, c->time[k][i].stratum, (uint32_t)i, k};
    qsort(c->items, all, sizeof *c->items, by_stratum);
    size_t strata = align(c->items, all, out, &matched);
    if (strata == 0)
        return false;
    for (size_t i = 0; i < all; i++)
        c->series[c->items[i].after][c->items[i].at] =
            c->items[i].weight > 0 ? c->items[i].value : (double)NAN;
    qsort(c->items, all, sizeof *c->items, by_rest);
    split(c, c->items, all);
    const side *a = &c->side[0], *b = &c->side[1];
    double left = (double)matched - (double)strata; /* the medians were estimated from the calls themselves */
    double freedom, alike = neighbours(c, count, &freedom);
    c->tie = left > 0 ? (double)matched / left * alike : (double)matched;
    out->change = b->bulk.mean - a->bulk.mean;
    out->error = sqrt(c->tie * (a->bulk.variance / a->calls + b->bulk.variance / b->calls));
    out->factor = c->tie * (1 / a->calls + 1 / b->calls);
    out->scatter = out->error * out->error / out->factor;
    out->low_change = b->fastest.mean - a->fastest.mean;
    out->low_error = sqrt(c->tie * (a->fastest.variance / a->calls + b->fastest.variance / b->calls));
    out->freedom = (BULK_TO - BULK_FROM) * (a->calls + b->calls) * left / (double)matched - 1;
    if (alike > 1 && out->freedom > freedom)
        out->freedom = freedom;
    out->shared = out->error * sqrt(1 - 1 / alike);
    out->calls = a->calls < b->calls ? a->calls : b->calls;
    out->coverage = (double)matched / (double)all;
    out->apart = a->sorted[a->count - 1].value < b->sorted[0].value ||
                 b->sorted[b->count - 1].value < a->sorted[0].value;
    return true;
}

double mtp__compare_ranks(const mtp__comparer *c, double shift)
{
    const side *a = &c->side[0], *b = &c->side[1];
    double weight_a = 0, weight_b = 0, below = 0, equal = 0, won = 0, last = 0;
    size_t at = 0;
    for (size_t i = 0; i < a->count; i++)
        weight_a += a->sorted[i].weight;
    for (size_t i = 0; i < b->count; i++) {
        double v = b->sorted[i].value - shift;
        for (; at < a->count && a->sorted[at].value < v; at++)
            below += a->sorted[at].weight;
        if (i == 0 || v != last) { /* else unchanged */
            equal = 0;
            for (size_t k = at; k < a->count && a->sorted[k].value == v; k++)
                equal += a->sorted[k].weight;
        }
        last = v;
        won += b->sorted[i].weight * (below + equal / 2);
        weight_b += b->sorted[i].weight;
    }
    if (weight_a <= 0 || weight_b <= 0)
        return 0;
    return (won / (weight_a * weight_b) - 0.5) / sqrt(c->tie / 12 * (1 / a->calls + 1 / b->calls));
}

/* Of all orders in which a + b calls can rank, the fraction in which the later side wins `most` or fewer pairs:
 * Mann and Whitney's recursion, adding one call at a time. */
static double share_of_orders(size_t a, size_t b, size_t most)
{
    double ways[RANKS_EXACT + 1][RANKS_EXACT * RANKS_EXACT + 1] = {{1}};
    for (size_t i = 1; i <= b; i++)
        ways[i][0] = 1;
    for (size_t m = 1; m <= a; m++) /* ways[i][u]: for m and i calls */
        for (size_t i = 1; i <= b; i++)
            for (size_t u = m * i + 1; u-- > 0;) {
                double slowest_is_earlier = u >= i ? ways[i][u - i] : 0;
                ways[i][u] = slowest_is_earlier + ways[i - 1][u];
            }
    double all = 0, few = 0;
    for (size_t u = 0; u <= a * b; u++) {
        all += ways[b][u];
        few += u <= most ? ways[b][u] : 0;
    }
    return few / all;
}

double mtp__compare_rank_chance(const mtp__comparer *c, double shift)
{
    const side *a = &c->side[0], *b = &c->side[1];
    double z = mtp__compare_ranks(c, shift);
    if (a->count > RANKS_EXACT || b->count > RANKS_EXACT || a->count == 0 || b->count == 0)
        return erfc(fabs(z) / sqrt(2));
    double won = 0, pairs = (double)a->count * (double)b->count;
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++) {
            double v = b->sorted[k].value - shift, w = a->sorted[i].value;
            won += v > w ? 1 : v == w ? 0.5 : 0;
        }
    double fewer = ceil(won < pairs - won ? won : pairs - won); /* half a pair counts against a verdict */
    double chance = 2 * share_of_orders(a->count, b->count, (size_t)fewer);
    return chance < 1 ? chance : 1;
}

double mtp__chance(double t, double freedom)
{
    double n = freedom > 1 ? freedom : 1;
    double z = (8 * n + 1) / (8 * n + 3) * sqrt(n * log1p(t * t / n));
    return erfc(z / sqrt(2));
}
