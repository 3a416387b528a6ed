/* analyze/findings/find_host.c - time in which the host waits for data, runs no op, or collects garbage. */
#include <string.h>
#include "analyze/by_time.h"
#include "analyze/findings/findings.h"
#include "base/error.h"

#define LOAD_SHARE 0.1 /* of the time, spent loading data; with a device: idle meanwhile */
#define LOADS_LEAST 3u
#define WORKERS 2.0           /* the gain is what so many processes that load would bring */
#define LONG_NS 100000        /* a long gap between ops */
#define GAPS_SHARE 0.1        /* of the time, spent in long gaps */
#define GAP_ALONE_NS 50000000 /* a gap that counts even if there is only one */
#define BETWEEN_SHARE 0.1     /* of the time, between ops */
#define SMALL_SHARE 0.5       /* of the time, between ops and in small ones */
#define SMALL_NS 5000         /* own time of a small op */
#define SMALL_OPS 500u
#define COLLECTOR_SHARE 0.02

/* --------------------------------------------------------------------------------------------- loading */

static double idle_by_loading(const mtp__case *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->idles; i++)
        sum += c->idle[i].cause == MTP__IDLE_LOADER ? (double)(c->idle[i].end - c->idle[i].start) : 0;
    return sum;
}

static void advise_loading(mtp__words *w, const mtp__case *c, bool has_workers)
{
    if (has_workers)
        mtp__say(w, "The workers do not keep up: raise num_workers and prefetch_factor, keep them alive "
                    "(persistent_workers=True), and make __getitem__ cheaper; 'mtprof run' also records the "
                    "workers.");
    else
        mtp__say(
            w,
            "Batches are made by the training process itself: load them in workers (num_workers=4, say, and "
            "persistent_workers=True)%s, then make __getitem__ and the collate function cheaper.",
            c->has_device ? " into pinned memory (pin_memory=True)" : "");
}

mtp_status mtp__find_loading(mtp__case *c)
{
    mtp__evidence tally = {0};
    double sum = 0, idle = idle_by_loading(c);
    uint32_t count = 0;
    bool has_workers = false;
    for (uint32_t i = 0; i < c->load_count; i++) {
        if (mtp__case_is_left_out(c, c->loads[i].start))
            continue;
        double ns = mtp__case_within(c, c->loads[i].start, c->loads[i].end);
        sum += ns;
        count++;
        has_workers |=
            strstr(mtp__trace_get_text(c->t, c->t->name[c->loads[i].span]).bytes, "MultiProcess") != NULL;
        mtp__evidence_span(&tally, c, c->loads[i].span, ns, true);
    }
    double cost = c->has_device ? idle : sum, rest = c->whole - sum;
    mtp_status status = tally.failed ? MTP_FAIL(MTP_E_NOMEM, "calls of data loaders") : MTP_OK;
    if (status == MTP_OK && count >= LOADS_LEAST && cost >= LOAD_SHARE * c->whole) {
        /* workers load beside everything else */
        mtp__draft d = {.id = "data-loading",
                        .kind = MTP_FINDING_TIME,
                        .confidence = MTP_CONFIDENCE_HIGH,
                        .spent = sum,
                        .gain =
                            c->has_device ? idle : c->whole - (rest > sum / WORKERS ? rest : sum / WORKERS)};
        mtp__say(&d.title, "Training waits for data ");
        mtp__say_share(&d.title, cost / c->whole);
        mtp__say(&d.title, " of the time");
        mtp__say(&d.text, "The DataLoader was asked for a batch %u times, which took ", count);
        mtp__say_of_whole(&d.text, c, sum);
        mtp__say(&d.text, ", ");
        mtp__say_time(&d.text, sum / count);
        mtp__say(&d.text, " each.");
        if (c->has_device) {
            mtp__say(&d.text, " Meanwhile the device was idle for ");
            mtp__say_time(&d.text, idle);
            mtp__say(&d.text, ".");
        } else {
            mtp__say(&d.text, " Everything else took ");
            mtp__say_time(&d.text, rest);
            mtp__say(&d.text, ", which could go on at the same time.");
        }
        advise_loading(&d.advice, c, has_workers);
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}

/* ------------------------------------------------------------------------------------------------ gaps */

typedef struct gaps {
    mtp__case *c;
    double between, longer; /* sums */
    double longest;         /* of the long ones */
    uint32_t shorts, longs;
    uint32_t load;
    double small; /* own time of small ops */
    uint32_t small_ops, ops;
    mtp__evidence in; /* long ones */
} gaps;

static bool is_loading(gaps *g, int64_t start, int64_t end)
{
    const mtp__case *c = g->c;
    while (g->load < c->load_count && c->loads[g->load].end <= start)
        g->load++;
    if (g->load == c->load_count || c->loads[g->load].start >= end)
        return false;
    int64_t a = c->loads[g->load].start > start ? c->loads[g->load].start : start,
            b = c->loads[g->load].end < end ? c->loads[g->load].end : end;
    return (double)(b - a) >= 0.5 * (double)(end - start);
}

static void on_gap(gaps *g, int64_t start, int64_t end)
{
    end = mtp__case_clip(g->c, start, end < g->c->to ? end : g->c->to);
    mtp__idle gap = {.start = start, .end = end};
    if (end <= start || is_loading(g, start, end) || mtp__case_is_left_out(g->c, start))
        return;
    if (end - start < LONG_NS) {
        g->between += (double)(end - start);
        g->shorts++;
    } else if (!mtp__gap_imports(g->c, &gap)) {
        g->longer += (double)(end - start);
        g->longest = (double)(end - start) > g->longest ? (double)(end - start) : g->longest;
        g->longs++;
        mtp__evidence_gap(&g->in, g->c, &gap, (double)(end - start));
    }
}

static mtp_status walk(gaps *g)
{
    mtp__case *c = g->c;
    const mtp_trace *t = c->t;
    mtp__by_time order;
    mtp_status status = mtp__by_time_init(&order, t, c->wanted);
    int64_t until = c->from;
    bool any = c->is_stepped; /* without steps, what precedes the first op is not a gap */
    for (uint32_t span, k; status == MTP_OK && (span = mtp__by_time_next(&order, &k)) != MTP__NONE;) {
        bool collects = (mtp__case_name(c, span) & MTP__NAME_GC) != 0; /* a finding of its own */
        if (t->tracks[k].on_device || (c->owner[span] != span && !collects) || t->start[span] >= c->to ||
            t->end[span] <= c->from)
            continue;
        if (any && t->start[span] > until)
            on_gap(g, until, t->start[span]);
        any = true;
        until = t->end[span] > until ? t->end[span] : until;
    }
    if (status == MTP_OK && any && c->is_stepped)
        on_gap(g, until, c->to);
    mtp__by_time_fini(&order);
    return status;
}

/* Own time of small ops: their duration less that of the ops and calls inside them. */
static void add_small(gaps *g)
{
    const mtp__case *c = g->c;
    const mtp_trace *t = c->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && !track->on_device && i < track->first + track->count;
             i++) {
            if (c->owner[i] != i || c->own[i] < 0 || mtp__case_time(c, i) <= 0)
                continue;
            g->ops++;
            if (c->own[i] <= SMALL_NS) {
                g->small += (double)c->own[i];
                g->small_ops++;
            }
        }
    }
}

static mtp_status tell_between(mtp__case *c, const gaps *g)
{
    if (g->between < BETWEEN_SHARE * c->whole || g->between + g->small < SMALL_SHARE * c->whole ||
        g->small_ops < SMALL_OPS)
        return MTP_OK;
    mtp__draft d = {.id = "op-overhead",
                    .kind = MTP_FINDING_TIME,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .spent = g->between + g->small,
                    .gain = g->between / 2};
    mtp__say(&d.title, "Small operators: Python between them takes ");
    mtp__say_share(&d.title, g->between / c->whole);
    mtp__say(&d.title, " of the time");
    mtp__say(&d.text, "For ");
    mtp__say_of_whole(&d.text, c, g->between);
    mtp__say(&d.text, " no operator was running, in %u gaps of ", g->shorts);
    mtp__say_time(&d.text, g->shorts > 0 ? g->between / g->shorts : 0);
    mtp__say(&d.text,
             " on average: that is Python and the framework on the way to the next one. %u of %u operators "
             "take less than 5 us themselves, ",
             g->small_ops, g->ops);
    mtp__say_share(&d.text, g->small / c->whole);
    mtp__say(&d.text, " of the time in all: there is little to compute in each.");
    mtp__say(
        &d.advice,
        "Give each operator more to do: a larger batch, fused modules and optimizers (foreach=True, "
        "fused=True), torch.compile. Recording costs the most in such programs, so compare the time of a "
        "step with and without the profiler.");
    return mtp__find(c, &d, NULL);
}

/* torch.profiler records the thread that starts it, and those that autograd starts. */
static bool sees_one_thread(const mtp__case *c)
{
    const mtp_trace *t = c->t;
    uint32_t threads = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        bool any = false;
        for (uint32_t i = track->first;
             !any && c->wanted[k] && !track->on_device && i < track->first + track->count; i++)
            any = c->owner[i] == i;
        threads += any;
    }
    return threads <= 1;
}

static void say_no_op(mtp__draft *d, const mtp__case *c, const gaps *g)
{
    bool alone = sees_one_thread(c), one = alone && !mtp__is_ours(c->t);
    mtp__say(&d->title, one ? "The recorded thread runs no operator " : "No operator runs ");
    mtp__say_share(&d->title, g->longer / c->whole);
    mtp__say(&d->title, " of the time");
    mtp__say(&d->text, "In ");
    mtp__say_count(&d->text, g->longs, "gap", "gaps");
    mtp__say(&d->text, " longer than 100 us, %s: ",
             one     ? "the thread that was recorded ran no operator"
             : alone ? "the only thread with operators ran none"
                     : "no thread ran any operator");
    mtp__say_of_whole(&d->text, c, g->longer);
    mtp__say(&d->text,
             ". The program then waits, %s something that is not recorded, or another program has the "
             "processor.",
             mtp__case_may_serve(c) ? "for requests or anything else, computes" : "computes");
    if (one)
        mtp__say(&d->text, " Other threads may have been at work: torch.profiler records the one that "
                           "starts it, 'mtprof run' all of them.");
}

static bool is_within_pytorch(mtp_text name)
{
    return MTP__BEGINS_WITH(name, "Optimizer.step#") || MTP__BEGINS_WITH(name, "Optimizer.zero_grad#") ||
           strstr(name.bytes, "run_backward") != NULL;
}

static mtp_status tell_longer(mtp__case *c, gaps *g)
{
    /* one gap alone may be the system's: other programs run */
    if (g->longer < GAPS_SHARE * c->whole ||
        (g->longest < GAP_ALONE_NS && g->longer - g->longest < GAPS_SHARE / 2 * c->whole))
        return MTP_OK;
    mtp__draft d = {.id = "host-idle",
                    .kind = mtp__case_may_serve(c) ? MTP_FINDING_NOTE : MTP_FINDING_TIME,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .spent = g->longer,
                    .gain = mtp__case_may_serve(c) ? 0 : g->longer / 2};
    say_no_op(&d, c, g);
    const mtp__alike *first = mtp__evidence_first(&g->in);
    if (first != NULL && first->what.length > 0) {
        mtp__say(&d.text, " Most of it is in ");
        mtp__say_name(&d.text, first->what);
        mtp__say_source(&d.text, first->source);
        mtp__say(&d.text, ", ");
        mtp__say_time(&d.text, first->total);
        mtp__say(&d.text, ".");
    }
    if (first == NULL || first->what.length == 0) {
        mtp__say(&d.advice,
                 "Record with stacks (with_stack=True, 'mtprof run --stacks') or annotate the loop "
                 "(record_function) to see what the program does there.");
    } else if (is_within_pytorch(first->what)) {
        d.confidence = MTP_CONFIDENCE_LOW;
        mtp__say(
            &d.advice,
            "That is PyTorch itself: large memory that is returned to the system and asked for again "
            "(smaller "
            "temporaries, or another allocator, help), or a busy machine: repeat the run on a quiet one.");
    } else {
        mtp__say(&d.advice,
                 "See what the program does there: preparing data, files, the network, logging, locks. Do "
                 "it beside the computation, or less often.");
    }
    return mtp__find(c, &d, &g->in);
}

mtp_status mtp__find_gaps(mtp__case *c)
{
    gaps g = {.c = c};
    if (c->has_device || !c->has_ops)
        return MTP_OK;
    mtp_status status = walk(&g);
    if (status == MTP_OK) {
        add_small(&g);
        status = tell_between(c, &g);
    }
    if (status == MTP_OK)
        status = tell_longer(c, &g);
    mtp__evidence_fini(&g.in);
    return status;
}

/* --------------------------------------------------------------------------------------------- collector */

mtp_status mtp__find_collector(mtp__case *c)
{
    const mtp_trace *t = c->t;
    mtp__evidence tally = {0};
    double sum = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && !track->on_device && i < track->first + track->count;
             i++)
            if ((mtp__case_name(c, i) & MTP__NAME_GC) && mtp__case_around(c, i, MTP__NAME_GC) == MTP__NONE &&
                mtp__case_time(c, i) > 0) {
                sum += mtp__case_time(c, i);
                mtp__evidence_span(&tally, c, i, mtp__case_time(c, i), false);
            }
    }
    const mtp__alike *first = mtp__evidence_first(&tally);
    mtp_status status = tally.failed ? MTP_FAIL(MTP_E_NOMEM, "runs of the garbage collector") : MTP_OK;
    if (status == MTP_OK && first != NULL && sum >= COLLECTOR_SHARE * c->whole) {
        mtp__draft d = {.id = "garbage-collection",
                        .kind = MTP_FINDING_TIME,
                        .confidence = MTP_CONFIDENCE_HIGH,
                        .spent = sum,
                        .gain = sum};
        mtp__say(&d.title, "Python's garbage collector takes ");
        mtp__say_share(&d.title, sum / c->whole);
        mtp__say(&d.title, " of the time");
        mtp__say(&d.text, "It ran ");
        mtp__say_count(&d.text, first->calls, "time", "times");
        mtp__say(&d.text, ", for ");
        mtp__say_of_whole(&d.text, c, sum);
        mtp__say(&d.text, "; the longest run took ");
        mtp__say_time(&d.text, (double)first->end - (double)first->start);
        mtp__say(&d.text, ". Nothing else runs in Python meanwhile.");
        mtp__say(&d.advice,
                 "Call gc.freeze() once everything is set up, raise gc.set_threshold(), or disable it and "
                 "collect every few hundred steps, on all ranks in the same step.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}
