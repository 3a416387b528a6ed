/* analyze/ranks/say.c - findings in words: who is the straggler, since when, by what; what waiting costs. */
#include <math.h>
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/plain.h"

#define LATE_SHARE 0.01         /* of a step: less is not worth a word */
#define LATE_TIMES 3            /* the median rank's lateness */
#define SAMPLES 3u              /* of lateness, at least: fewer could be chance */
#define SURE(n) (4 + 6.0 / (n)) /* how many standard errors above the median rank's lateness */
#define PAUSE 2                 /* times the longest but two: far longer */
#define STEADY 0.8              /* of the steps */
#define STANDS_OUT 1.5          /* times the latest other */
#define USUAL_90 1.3 /* of what varies by chance, a tenth is as many standard deviations above the mean */
#define OTHERS 6u    /* steps of other ranks, at least */
#define SUDDEN 0.35  /* before it began, at most this much of the lateness after */
#define ALSO 0.5     /* of the straggler's lateness: late together */
#define WAITING_SHARE 0.05 /* of a step, all ranks together */
#define EXPOSED_SHARE 0.10
#define LISTED 8u

static double late_at(const mtp_ranks *r, uint32_t rank, uint32_t step)
{
    return r->late[(size_t)rank * r->compared_count + step];
}

static double mean_late(const mtp_ranks *r, uint32_t rank, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += late_at(r, rank, i);
    return to > from ? sum / (to - from) : 0;
}

/* The step from which on the rank is late: where the means before and after differ most. 0: from the beginning. */
static uint32_t since(const mtp_ranks *r, uint32_t rank)
{
    uint32_t best = 0, n = r->compared_count;
    double total = 0, before = 0, most = 0;
    for (uint32_t i = 0; i < n; i++)
        total += late_at(r, rank, i);
    for (uint32_t s = 1; s < n; s++) {
        before += late_at(r, rank, s - 1);
        double a = before / s, b = (total - before) / (n - s), gain = (b - a) * (b - a) * s * (n - s);
        if (b > a && gain > most) {
            most = gain;
            best = s;
        }
    }
    return best > 0 && mean_late(r, rank, 0, best) < SUDDEN * mean_late(r, rank, best, n) ? best : 0;
}

static bool add(mtp_ranks *r, mtp_rank_finding f, mtp__words *title, mtp__words *text)
{
    bool good = !title->failed && !text->failed &&
                MTP__GROW(r->found, r->found_room, r->found_count, (size_t)r->found_count + 1, 8);
    if (good) {
        f.title = mtp__ranks_keep(r, title->bytes);
        f.text = mtp__ranks_keep(r, text->bytes != NULL ? text->bytes : "");
        f.op = f.op != NULL ? f.op : "";
        good = *f.title != 0;
        r->found[r->found_count++] = f;
    }
    mtp__free(title->bytes);
    mtp__free(text->bytes);
    return good;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* ---------------------------------------------------------------------------------------------- stragglers */

typedef struct late {
    uint32_t rank, from; /* from: compared step */
    double each;         /* mean of a step since then */
    double lost;         /* the job's time in each such step that others waited for it alone */
    double usual;        /* the median rank's lateness */
} late;

typedef struct samples {
    double count, sum, squares;
} samples;

static void add_sample(samples *s, double value)
{
    s->count++;
    s->sum += value;
    s->squares += value * value;
}

/* Whether lateness is known of it: by numbered steps, if others have them, and by more than what its host enqueued. */
static bool is_judged(const mtp_ranks *r, uint32_t rank)
{
    return !r->list[rank].stepless && !r->list[rank].row.only_started;
}

static uint32_t count_judged(const mtp_ranks *r)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < r->used; k++)
        count += is_judged(r, k);
    return count;
}

/* In each of at least two steps far later than any other rank in any of them. */
static bool stands_out(const mtp_ranks *r, const late *l)
{
    double least = INFINITY, most = 0;
    uint32_t steps = r->compared_count - l->from;
    for (uint32_t i = l->from; i < r->compared_count; i++)
        for (uint32_t k = 0; k < r->used; k++)
            if (k == l->rank)
                least = fmin(least, late_at(r, k, i));
            else
                most = fmax(most, late_at(r, k, i));
    return steps >= 2 && (uint64_t)steps * (count_judged(r) - 1) >= OTHERS && least > STANDS_OUT * most;
}

/* How much lateness varies by chance: by the other ranks, and by the same one before; a few long pauses do not count. */
static bool find_chance(const mtp_ranks *r, const double *by_step, const late *l, double *chance)
{
    uint32_t count = 0;
    double *all = mtp__calloc((size_t)r->used * r->compared_count + 1, sizeof *all);
    if (all == NULL)
        return false;
    for (uint32_t k = 0; k < r->used; k++)
        for (uint32_t i = 0; i < r->compared_count; i++)
            if (is_judged(r, k) && (k != l->rank || i < l->from))
                all[count++] = by_step[(size_t)k * r->compared_count + i];
    qsort(all, count, sizeof *all, by_value);
    *chance = count > 0 ? all[count * 9 / 10] / USUAL_90 : 0;
    mtp__free(all);
    return true;
}

/* One late step is not a straggler: is the lateness more than chance, by steps, or if those are few, by calls? */
static bool is_sure(const mtp_ranks *r, const late *l, double chance)
{
    const mtp__rank *k = &r->list[l->rank];
    uint32_t steps = r->compared_count - l->from,
             enough = (uint64_t)r->compared_count * count_judged(r) - steps >= OTHERS ? SAMPLES : 2 * SAMPLES;
    samples s = {0};
    for (uint32_t i = l->from; i < r->compared_count && steps >= enough; i++)
        add_sample(&s, late_at(r, l->rank, i));
    for (uint32_t i = 0; i < k->call_count && steps < enough; i++) {
        const mtp__call *c = &k->calls[i];
        if (c->late >= 0 && c->step != MTP__NO_STEP && k->compared[c->step] != MTP__NO_STEP &&
            k->compared[c->step] >= l->from)
            add_sample(&s, (double)c->late);
    }
    if (stands_out(r, l))
        return true;
    if (s.count < enough)
        return false;
    double mean = s.sum / s.count,
           spread = fmax(s.squares / s.count - mean * mean, 0) * s.count / (s.count - 1),
           usual = l->usual * steps / s.count;
    spread = fmax(sqrt(spread), chance * steps / s.count);
    return mean - usual > SURE(s.count) * spread / sqrt(s.count);
}

static bool find_late(const mtp_ranks *r, late *l)
{
    double *mean = mtp__calloc((size_t)r->used + 1, sizeof *mean);
    if (mean == NULL)
        return false;
    *l = (late){.rank = MTP__NONE};
    for (uint32_t k = 0; k < r->used; k++) {
        mean[k] = mean_late(r, k, 0, r->compared_count);
        bool known =
            is_judged(r, k) && r->list[k].row.clock_error_ns >= 0; /* else it may be the clock that is late */
        if (known && (l->rank == MTP__NONE || mean[k] > mean[l->rank]))
            l->rank = k;
    }
    if (l->rank == MTP__NONE) {
        mtp__free(mean);
        return true;
    }
    l->from = since(r, l->rank);
    l->each = mean_late(r, l->rank, l->from, r->compared_count);
    uint32_t count = 0;
    for (uint32_t k = 0; k < r->used; k++)
        if (is_judged(r, k))
            mean[count++] = mean_late(r, k, l->from, r->compared_count);
    qsort(mean, count, sizeof *mean, by_value);
    l->usual = mean[(count - 1) / 2];
    for (uint32_t s = l->from; s < r->compared_count; s++)
        l->lost += r->lost[(size_t)l->rank * r->compared_count + s];
    l->lost /= r->compared_count - l->from;
    mtp__free(mean);
    return true;
}

/* A copy of the lateness in which a rank's few far longest pauses count as much as its longest but two: the first step, in
 * which programs warm up, or a checkpoint would otherwise hide who is late in all others. NULL: there are none, or out of
 * memory. Owned by the caller. */
static double *without_pauses(const mtp_ranks *r, bool *good)
{
    uint32_t n = r->compared_count;
    size_t cells = (size_t)r->used * n;
    if (n < 2 * SAMPLES ||
        count_judged(r) < 3) /* of two, what is chance for one is known by the other's pauses */
        return NULL;
    double *out = mtp__calloc(cells + n, sizeof *out);
    bool any = false;
    *good = out != NULL;
    for (uint32_t k = 0; k < r->used && *good; k++) {
        double *own = out + (size_t)k * n, *sorted = out + cells;
        memcpy(own, r->late + (size_t)k * n, n * sizeof *own);
        memcpy(sorted, own, n * sizeof *own);
        qsort(sorted, n, sizeof *sorted, by_value);
        double limit = sorted[n - SAMPLES];
        for (uint32_t i = 0; i < n; i++) {
            any |= own[i] > PAUSE * limit;
            own[i] = own[i] > PAUSE * limit ? limit : own[i];
        }
    }
    if (any)
        return out;
    mtp__free(out);
    return NULL;
}

/* Is it later in nearly all steps than others are in one of ten? */
static bool is_steady(const mtp_ranks *r, const late *l, double chance)
{
    uint32_t steps = r->compared_count - l->from, later = 0;
    for (uint32_t i = l->from; i < r->compared_count; i++)
        later += late_at(r, l->rank, i) > chance * USUAL_90;
    return steps >= SAMPLES && later >= STEADY * steps;
}

/* by_step: the lateness with all pauses. false: out of memory. */
static bool is_straggler(const mtp_ranks *r, const double *by_step, late *l, bool *straggles)
{
    double chance;
    *straggles = false;
    if (!find_late(r, l))
        return false;
    if (!(l->each > LATE_SHARE * r->step_ns && l->each > LATE_TIMES * l->usual))
        return true;
    if (!find_chance(r, by_step, l, &chance))
        return false;
    *straggles = is_sure(r, l, chance) && (by_step == r->late || is_steady(r, l, chance));
    return true;
}

/* Sets who straggles, and whether anyone does; false: out of memory. */
static bool find_straggler(mtp_ranks *r, late *l, bool *straggles)
{
    bool good = is_straggler(r, r->late, l, straggles);
    double *rest = good && !*straggles ? without_pauses(r, &good) : NULL, *whole = r->late;
    if (rest == NULL)
        return good;
    r->late = rest;
    good = is_straggler(r, whole, l, straggles);
    r->late = whole;
    mtp__free(rest);
    return good;
}

/* A step from that one on, on average: since there is a straggler, steps are longer. */
static double step_since(const mtp_ranks *r, uint32_t from)
{
    double sum = 0;
    uint64_t count = 0;
    for (uint32_t k = 0; k < r->used; k++)
        for (uint32_t i = 0; i < r->list[k].step_count && !r->list[k].stepless; i++)
            if (r->list[k].compared[i] != MTP__NO_STEP && r->list[k].compared[i] >= from) {
                sum += (double)r->list[k].steps[i].times.wall_ns;
                count++;
            }
    return count > 0 && sum > 0 ? sum / (double)count : r->step_ns;
}

/* " for 3.00 ms of each step of 20.1 ms (15%)" */
static void say_cost(mtp__words *w, double ns, double whole, bool steps)
{
    mtp__say(w, " for ");
    mtp__say_time(w, ns);
    mtp__say(w, steps ? " of each step of " : " of ");
    mtp__say_time(w, whole);
    mtp__say(w, " (");
    mtp__say_share(w, ns / whole);
    mtp__say(w, ")");
}

static void say_calls(mtp__words *w, const mtp__why *y)
{
    if (fabs(y->calls - y->usual_calls) < 0.05 * fmax(y->calls, 1)) {
        mtp__say(w, ", with as many calls");
        return;
    }
    mtp__say(w, ", in %.*f calls instead of %.*f", y->calls < 10 ? 1 : 0, y->calls,
             y->usual_calls < 10 ? 1 : 0, y->usual_calls);
}

static void say_what(mtp__words *w, const char *op)
{
    if (mtp__has_letters(op, "dataloader"))
        mtp__say(w, " This is data loading: more workers, or a look at that machine's storage, may help.");
    else if (strcmp(op, "(between operators)") == 0)
        mtp__say(w, " That is time of the thread that runs the steps in which no operator ran: preparing "
                    "data, Python's own "
                    "code or its garbage collector, or a processor that others use.");
    else if (mtp__has_letters(op, "gc") && mtp__has_letters(op, "collect"))
        mtp__say(w, " This is Python's garbage collector.");
}

static void say_why(mtp__words *w, const mtp_ranks *r, const late *l, const mtp__why *y)
{
    double more = y->own - y->usual;
    if (y->name == 0 || more < 0.1 * l->each) {
        mtp__say(w, " No operator takes longer there than on other ranks: what it does outside them is not "
                    "recorded.");
        return;
    }
    mtp_text op = {mtp__ranks_text(r, y->name), strlen(mtp__ranks_text(r, y->name))};
    mtp__say(w, " It spends ");
    mtp__say_time(w, more);
    mtp__say(w, " more per step than the median of the other ranks in ");
    mtp__say_name(w, op);
    if (y->usual_calls < 0.05 && y->usual <= 0) {
        mtp__say(w, "%s, which these do not call (%.*f calls).", y->on_device ? " on the device" : "",
                 y->calls < 10 ? 1 : 0, y->calls);
        say_what(w, op.bytes);
        return;
    }
    mtp__say(w, y->on_device ? " on the device (" : " (own time ");
    mtp__say_time(w, y->own);
    mtp__say(w, " instead of ");
    mtp__say_time(w, y->usual);
    say_calls(w, y);
    mtp__say(w, ").");
    say_what(w, op.bytes);
}

/* Other ranks that are as late: their number; whether they are one machine's, and all of it. */
static uint32_t late_together(const mtp_ranks *r, const late *l, bool *one_host, mtp__words *list)
{
    uint32_t count = 0;
    const char *host = r->list[l->rank].row.host;
    *one_host = *host != 0;
    for (uint32_t k = 0; k < r->used; k++) {
        bool is_late = mean_late(r, k, l->from, r->compared_count) >= ALSO * l->each;
        bool same = strcmp(r->list[k].row.host, host) == 0;
        *one_host = *one_host && is_late == same;
        if (!is_late)
            continue;
        if (count++ < LISTED)
            mtp__say(list, "%s%lld", count > 1 ? ", " : "", (long long)r->list[k].row.rank);
        else if (count == LISTED + 1)
            mtp__say(list, ", ...");
    }
    return count;
}

static bool say_straggler(mtp_ranks *r, const late *l, const mtp__why *y)
{
    bool steps = r->numbers[0] >= 0, one_host;
    mtp_rank_row *row = &r->list[l->rank].row;
    mtp__words title = {0}, text = {0}, list = {0};
    uint32_t together = late_together(r, l, &one_host, &list);
    double cost = together > 1 ? l->each : fmax(l->lost, l->each);
    if (together > 1 && one_host)
        mtp__say(&title, "Ranks %s, all of host %s, are stragglers", list.failed ? "" : list.bytes,
                 row->host);
    else if (together > 1)
        mtp__say(&title, "Ranks %s are stragglers", list.failed ? "" : list.bytes);
    else
        mtp__say(&title, "Rank %lld%s%s%s is the straggler", (long long)row->rank,
                 *row->host != 0 ? " (" : "", row->host, *row->host != 0 ? ")" : "");
    if (l->from > 0)
        mtp__say(&title, " since step %lld", (long long)r->numbers[l->from]);
    mtp__say(&title, ": others wait");
    double whole = step_since(r, l->from);
    say_cost(&title, cost, whole, steps);
    mtp__say(&text, "%sank %lld enters communication ", together > 1 ? "The latest, r" : "R",
             (long long)row->rank);
    mtp__say_time(&text, l->each);
    mtp__say(&text, " %safter the median rank; it is the last in %llu of %llu calls.",
             steps ? "per step " : "", (unsigned long long)row->last, (unsigned long long)row->matched);
    say_why(&text, r, l, y);
    if (row->clock_error_ns > 0 && (double)row->clock_error_ns > l->each)
        mtp__say(&text, " The clocks' proved error is larger than that: likely, but not proved.");
    title.failed |= list.failed;
    mtp__free(list.bytes);
    return add(r,
               (mtp_rank_finding){.id = "straggler",
                                  .rank = row->rank,
                                  .since_step = l->from > 0 ? r->numbers[l->from] : -1,
                                  .per_step_ns = (int64_t)cost,
                                  .share = cost / whole,
                                  .op = y->name != 0 ? mtp__ranks_text(r, y->name) : "",
                                  .op_ns = (int64_t)(y->own - y->usual)},
               &title, &text);
}

/* Nobody is always late, but somebody is each time. */
static bool say_turns(mtp_ranks *r, double waiting, double whole)
{
    mtp__words title = {0}, text = {0};
    uint32_t ranks = 0;
    const mtp_rank_row *one = NULL;
    for (uint32_t k = 0; k < r->used; k++) {
        ranks += r->list[k].row.last > 0;
        one = r->list[k].row.last > 0 ? &r->list[k].row : one;
    }
    mtp__say(&title, "Ranks wait for each other");
    say_cost(&title, waiting, whole, r->numbers[0] >= 0);
    if (ranks == 1)
        mtp__say(
            &text,
            "Rank %lld is the last in %llu of %llu calls, but they are too few, or its lateness varies too "
            "much, to call it the straggler. Record more steps.",
            (long long)one->rank, (unsigned long long)one->last, (unsigned long long)one->matched);
    else if (ranks > 1)
        mtp__say(&text,
                 "No rank is always the last: %u of %u were, in turn. The work of a step varies (inputs of "
                 "different length, experts, the host's noise): balance it, or synchronise less often.",
                 ranks, r->used);
    else
        mtp__say(&text, "They wait for messages, and for the roots of broadcasts.");
    return add(r,
               (mtp_rank_finding){.id = "imbalance",
                                  .rank = -1,
                                  .since_step = -1,
                                  .per_step_ns = (int64_t)waiting,
                                  .share = waiting / whole},
               &title, &text);
}

static bool say_exposed(mtp_ranks *r, double exposed, double waiting, double whole, double overlap)
{
    mtp__words title = {0}, text = {0};
    mtp__say(&title, "Communication that no computation hides takes ");
    mtp__say_time(&title, exposed);
    mtp__say(&title, r->numbers[0] >= 0 ? " of each step (" : " (");
    mtp__say_share(&title, exposed / whole);
    mtp__say(&title, ")");
    mtp__say(&text, "Of that, ");
    mtp__say_time(&text, waiting);
    mtp__say(&text, " is waiting for ranks that come late, and ");
    mtp__say_time(&text, exposed - waiting);
    mtp__say(&text, " the communication itself.");
    if (overlap >= 0) {
        mtp__say(&text, " Computation overlaps ");
        mtp__say_share(&text, overlap);
        mtp__say(&text, " of all communication.");
    }
    return add(r,
               (mtp_rank_finding){.id = "exposed-communication",
                                  .rank = -1,
                                  .since_step = -1,
                                  .per_step_ns = (int64_t)exposed,
                                  .share = exposed / whole},
               &title, &text);
}

/* One rank is idle, or computes, far longer than the others without being late: it has less or more to do. */
static bool say_uneven(mtp_ranks *r)
{
    double *compute = mtp__calloc((size_t)r->used + 1, sizeof *compute);
    if (compute == NULL)
        return false;
    uint32_t most = MTP__NONE, least = MTP__NONE, count = 0, on_devices = 0;
    for (uint32_t k = 0; k < r->used; k++) {
        int64_t own = r->list[k].row.mean.compute_ns;
        on_devices += r->list[k].row.has_device;
        if (r->list[k].stepless)
            continue;
        compute[count++] = (double)own;
        most = most == MTP__NONE || own > r->list[most].row.mean.compute_ns ? k : most;
        least = least == MTP__NONE || own < r->list[least].row.mean.compute_ns ? k : least;
    }
    qsort(compute, count, sizeof *compute, by_value);
    double low = compute[count / 10], high = compute[count - 1 - count / 10], middle = compute[count / 2];
    mtp__free(compute);
    if (on_devices > 0 && on_devices < r->used) /* kernels, and operators of hosts */
        return true;
    if (count < 4 || high - low < 0.2 * middle || high - low < WAITING_SHARE * r->step_ns)
        return true;
    mtp__words title = {0}, text = {0};
    mtp__say(&title, "The work is uneven: ranks compute between ");
    mtp__say_time(&title, low);
    mtp__say(&title, " and ");
    mtp__say_time(&title, high);
    mtp__say(&title, r->numbers[0] >= 0 ? " in a step" : "");
    mtp__say(&text,
             "A tenth of the ranks computes less than that, a tenth more. The least is rank %lld, the most "
             "rank %lld.",
             (long long)r->list[least].row.rank, (long long)r->list[most].row.rank);
    return add(r,
               (mtp_rank_finding){.id = "uneven-work",
                                  .rank = r->list[most].row.rank,
                                  .since_step = -1,
                                  .per_step_ns = (int64_t)(high - low),
                                  .share = (high - low) / r->step_ns},
               &title, &text);
}

mtp_status mtp__ranks_say(mtp_ranks *r)
{
    if (r->stepped < 2 || r->compared_count == 0 || r->step_ns <= 0)
        return MTP_OK;
    double waiting = 0, exposed = 0, overlap = 0, whole = 0;
    uint32_t overlaps = 0, shown = count_judged(r);
    late l;
    mtp__why y = {0};
    for (uint32_t k = 0; k < r->used; k++) {
        const mtp_rank_row *row = &r->list[k].row;
        if (row->only_started && shown > 0)
            continue;
        waiting += (double)row->mean.waiting_ns / (shown > 0 ? shown : r->stepped);
        exposed += (double)row->mean.exposed_ns / (shown > 0 ? shown : r->stepped);
        whole += (double)row->mean.wall_ns / (shown > 0 ? shown : r->stepped);
        overlap += row->overlap >= 0 ? row->overlap : 0;
        overlaps += row->overlap >= 0;
    }
    bool straggles, good = find_straggler(r, &l, &straggles);
    if (straggles) {
        mtp_status status = mtp__ranks_why(r, l.rank, l.from, &y);
        if (status != MTP_OK)
            return status;
        good = say_straggler(r, &l, &y);
    } else if (good && waiting > WAITING_SHARE * r->step_ns) {
        good = say_turns(r, waiting, whole);
    }
    if (good && exposed > EXPOSED_SHARE * r->step_ns)
        good = say_exposed(r, exposed, waiting, whole, overlaps > 0 ? overlap / overlaps : -1);
    return good && say_uneven(r) ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "findings");
}
