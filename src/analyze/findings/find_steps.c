/* analyze/findings/find_steps.c - steps that took far longer than the others (analyze/steps_outliers.c). */
#include <stdlib.h>
#include <string.h>
#include "analyze/findings/findings.h"
#include "analyze/torch/rules.h"
#include "base/error.h"
#include "base/os.h"

#define NAMED 3u          /* steps told of one by one: the longest */
#define WAIT_NS 50000000  /* a shorter wait may be the system's: other programs run */
#define WAKE_NS 10000000  /* the same where another process works: that of a DataLoader's worker */
#define PERIOD_LEAST 3u   /* steps that make a period: */
#define PERIOD_SHARE 0.75 /* so many of those that it foretells */

/* What the rules of steps share. */
typedef struct examined {
    const mtp__case *c;
    uint64_t usual_work;
    double *loads; /* owned: by step: time in DataLoaders */
    double usual_load;
    bool has_workers;
} examined;

typedef enum cause {
    UNCLEAR, /* it does more, but no op stands out */
    NOISE,   /* the same work took longer: the machine's */
    CAUSED,  /* more calls, or a long wait */
    LOADING  /* it waits for a batch */
} cause;

static double more_loading(const examined *e, const mtp_step_row *r)
{
    return e->loads[r - e->c->steps->rows] - e->usual_load;
}

static bool is_loading(const examined *e, const mtp_step_row *r)
{
    return r->more_ns > 0 && more_loading(e, r) >= 0.5 * (double)r->more_ns;
}

static void say_reasons(mtp__words *w, const examined *e, const mtp_step_row *r)
{
    if (is_loading(e, r)) {
        mtp__say(w, ": ");
        mtp__say_time(w, more_loading(e, r));
        mtp__say(w, " more in the DataLoader. ");
        return;
    }
    for (uint32_t i = 0; i < r->reason_count; i++) {
        const mtp_step_reason *reason = &r->reasons[i];
        mtp__say(w, i == 0 ? ": " : ", ");
        mtp__say_time(w, (double)reason->ns);
        mtp__say(w, " more ");
        if (MTP__EQUALS(reason->what, "(idle)")) {
            mtp__say(w, "in which nothing ran");
        } else {
            mtp__say(w, "in ");
            mtp__say_name(w, reason->what);
        }
        if (reason->calls > 0)
            mtp__say(w, " (%lld more %s)", (long long)reason->calls, reason->calls == 1 ? "call" : "calls");
    }
    mtp__say(w, "%s. ", r->reason_count == 0 ? ", by many small differences" : "");
}

static void add_step(mtp__evidence *tally, const examined *e, const mtp_step_row *r)
{
    const mtp_text many = {"(many differences)", 18}, loader = {"(DataLoader)", 12};
    mtp__evidence_add(tally, (mtp__alike){.what = is_loading(e, r)      ? loader
                                                  : r->reason_count > 0 ? r->reasons[0].what
                                                                        : many,
                                          .source = {"", 0},
                                          .apart = (uint64_t)r->start_ns,
                                          .calls = 1,
                                          .total = is_loading(e, r)      ? more_loading(e, r)
                                                   : r->reason_count > 0 ? (double)r->reasons[0].ns
                                                                         : (double)r->more_ns,
                                          .start = r->start_ns,
                                          .end = r->end_ns,
                                          .span = MTP__NONE});
}

/* What it did: ops; in a trace without, kernels. */
static uint64_t work_of(const mtp__case *c, const mtp_step_row *r)
{
    return c->has_ops ? r->ops : r->kernels;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What three of four of the other steps do at most: the first may set things up, and some evaluate. */
static bool usual_work(const mtp__case *c, uint64_t *usual)
{
    uint64_t *work = mtp__calloc((size_t)c->steps->count + 1, sizeof *work);
    uint32_t count = 0;
    if (work == NULL)
        return false;
    for (uint32_t i = c->first_step; i < c->steps->count; i++)
        if (!mtp__case_is_late(&c->steps->rows[i]))
            work[count++] = work_of(c, &c->steps->rows[i]);
    if (count > 1)
        qsort(work, count, sizeof *work, by_size);
    *usual = count > 0 ? work[(count - 1) - (count - 1) / 4] : 0;
    mtp__free(work);
    return true;
}

static cause cause_of(const examined *e, const mtp_step_row *r)
{
    bool does_more = work_of(e->c, r) > e->usual_work;
    if (is_loading(e, r))
        return r->more_ns >= (e->has_workers ? WAKE_NS : WAIT_NS) ? LOADING : NOISE;
    double by_calls = 0;
    for (uint32_t i = 0; i < r->reason_count; i++) {
        by_calls += r->reasons[i].calls > 0 ? (double)r->reasons[i].ns : 0;
        if (r->reasons[i].ns >= r->more_ns / 2 && MTP__EQUALS(r->reasons[i].what, "(idle)") &&
            r->more_ns >= WAIT_NS && !mtp__case_may_serve(e->c))
            return CAUSED;
    }
    return !does_more ? NOISE : by_calls >= 0.5 * (double)r->more_ns ? CAUSED : UNCLEAR;
}

/* After the last step() there may be a rest, in which the program does nothing, and devices finish their work. */
static bool is_told(const mtp__case *c, const mtp_step_row *r)
{
    return mtp__case_is_late(r) && work_of(c, r) > 0;
}

static mtp_status tell_warm_up(mtp__case *c, const examined *e)
{
    mtp__evidence tally = {0};
    double sum = 0;
    if (c->first_step == 0)
        return MTP_OK;
    for (uint32_t i = 0; i < c->first_step; i++) {
        sum += (double)c->steps->rows[i].more_ns;
        add_step(&tally, e, &c->steps->rows[i]);
    }
    mtp__draft d = {
        .id = "warm-up", .kind = MTP_FINDING_NOTE, .confidence = MTP_CONFIDENCE_HIGH, .spent = sum};
    mtp__say(&d.title, "The first %s took ", c->first_step == 1 ? "step" : "steps");
    mtp__say_time(&d.title, sum);
    mtp__say(&d.title, " longer, and %s left out here", c->first_step == 1 ? "is" : "are");
    mtp__say(&d.text, "First steps allocate memory, load libraries and compile kernels. Step %lld took ",
             (long long)c->steps->rows[0].number);
    mtp__say_time(&d.text, (double)c->steps->rows[0].times.wall_ns);
    say_reasons(&d.text, e, &c->steps->rows[0]);
    mtp__say(&d.text, "All other findings are about the steps after it.");
    mtp__say(&d.advice, "Skip such steps when recording: schedule(wait=1, warmup=1, active=5).");
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}

typedef struct late_steps {
    double sum;
    uint32_t count, period; /* every so many steps; 0: not regular */
    uint32_t waits;         /* in which nothing ran */
    uint32_t longest[NAMED];
    int64_t worst; /* number of the longest */
    mtp__words text;
    mtp__evidence tally;
} late_steps;

static void add_late(const examined *e, late_steps *l, uint32_t step)
{
    const mtp_step_row *rows = e->c->steps->rows, *r = &rows[step];
    l->sum += (double)r->more_ns;
    l->waits += r->reason_count > 0 && MTP__EQUALS(r->reasons[0].what, "(idle)");
    add_step(&l->tally, e, r);
    uint32_t at = l->count < NAMED ? l->count : NAMED;
    for (; at > 0 && rows[l->longest[at - 1]].more_ns < r->more_ns; at--)
        if (at < NAMED)
            l->longest[at] = l->longest[at - 1];
    if (at < NAMED)
        l->longest[at] = step;
    l->count++;
}

static int by_step(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void say_late(const examined *e, late_steps *l)
{
    const mtp_steps *s = e->c->steps;
    uint32_t named = l->count < NAMED ? l->count : NAMED;
    l->worst = named > 0 ? s->rows[l->longest[0]].number : 0;
    qsort(l->longest, named, sizeof *l->longest, by_step);
    for (uint32_t i = 0; i < named; i++) {
        const mtp_step_row *r = &s->rows[l->longest[i]];
        mtp__say(&l->text, "Step %lld took ", (long long)r->number);
        mtp__say_time(&l->text, (double)r->times.wall_ns);
        mtp__say(&l->text, ", ");
        mtp__say_time(&l->text, (double)r->more_ns);
        mtp__say(&l->text, " more than usual");
        say_reasons(&l->text, e, r);
    }
    if (l->count > NAMED)
        mtp__say(&l->text, "So did %u more, by less. ", l->count - NAMED);
    mtp__say(&l->text, "The median step takes ");
    mtp__say_time(&l->text, (double)s->summary[MTP_STEP_P50].wall_ns);
    mtp__say(&l->text, ".");
}

static void gather(const examined *e, cause which, late_steps *l)
{
    const mtp_steps *s = e->c->steps;
    for (uint32_t i = e->c->first_step; i < s->count && !s->whole_trace; i++)
        if (is_told(e->c, &s->rows[i]) && cause_of(e, &s->rows[i]) == which)
            add_late(e, l, i);
    say_late(e, l);
}

/* Every how many steps the program does more, as for an evaluation or a checkpoint; 0: now and then. Of those that come
 * too often, reasons are known only for some. */
static uint32_t period_of(const examined *e)
{
    const mtp_steps *s = e->c->steps;
    uint32_t first = 0, last = 0, count = 0, apart = 0;
    for (uint32_t i = e->c->first_step; i < s->count && !s->whole_trace; i++) {
        const mtp_step_row *r = &s->rows[i];
        if (!is_told(e->c, r) ||
            (cause_of(e, r) != CAUSED && (cause_of(e, r) != UNCLEAR || r->reason_count > 0)))
            continue;
        first = count == 0 ? i : first;
        for (uint32_t a = i - (count > 0 ? last : i), rest; a > 0;
             a = rest) { /* the greatest common divisor */
            rest = apart > 0 ? apart % a : 0;
            apart = a;
        }
        last = i;
        count++;
    }
    if (count < PERIOD_LEAST || apart < 2 ||
        (double)count < PERIOD_SHARE * ((double)(last - first) / apart + 1))
        return 0;
    return apart;
}

static const char *ordinal(uint32_t n)
{
    uint32_t last = n % 100 / 10 == 1 ? 0 : n % 10;
    return last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
}

static void say_title(mtp__words *w, const mtp__case *c, cause which, const late_steps *l)
{
    if (l->period > 0) {
        mtp__say(w, "Every %u%s step takes ", l->period, ordinal(l->period));
        mtp__say_time(w, l->sum / l->count);
        mtp__say(w, " longer: ");
        mtp__say_share(w, l->sum / ((double)c->to - (double)c->from));
        mtp__say(w, " of the time");
        return;
    }
    mtp__say(w, "%u of %u steps ", l->count, c->steps->count - c->first_step);
    mtp__say(w, which == LOADING ? l->count == 1 ? "waits " : "wait " : l->count == 1 ? "takes " : "take ");
    mtp__say_time(w, l->sum / l->count);
    mtp__say(w, " longer%s%s", l->count > 1 ? " on average" : "",
             which == LOADING  ? " for the DataLoader"
             : which == CAUSED ? " than usual"
                               : " for the same operators");
}

static void say_advice(mtp__words *w, const examined *e, cause which, const late_steps *l)
{
    if (which == LOADING)
        mtp__say(w, "%s",
                 e->has_workers ? "A DataLoader starts its workers anew for each epoch: keep them alive "
                                  "(persistent_workers=True). In between, a higher prefetch_factor covers "
                                  "batches that take long to make."
                                : "See what these batches have that others have not: sizes, files that are "
                                  "not in memory yet. Workers (num_workers=4, say) make batches ahead.");
    else if (l->period > 0)
        mtp__say(w,
                 "If that is an evaluation, a checkpoint or logging: do it less often, or beside the "
                 "training. 'mtprof steps' lists each such step; 'mtprof cut --step %lld' extracts one for a "
                 "viewer.",
                 (long long)l->worst);
    else
        mtp__say(w,
                 which == CAUSED ? "'mtprof steps' lists each such step; 'mtprof cut --step %lld' extracts "
                                   "one for a viewer."
                                 : "Larger inputs ('mtprof table --by-shape', if shapes were recorded), or "
                                   "another program, throttling, page faults: repeat the run on a quiet "
                                   "machine. If it stays, look at step %lld.",
                 (long long)l->worst);
}

static mtp_status tell_late(mtp__case *c, const examined *e, cause which)
{
    late_steps l = {0};
    gather(e, which, &l);
    l.period = which == CAUSED && l.count > 0 ? period_of(e) : 0;
    bool saves = which != NOISE && l.period == 0;
    mtp__draft d = {.id = which == LOADING ? "slow-batches"
                          : which == NOISE ? "noisy-steps"
                          : l.period > 0   ? "periodic-steps"
                                           : "outlier-steps",
                    .kind = saves ? MTP_FINDING_TIME : MTP_FINDING_NOTE,
                    .confidence = 2 * l.waits > l.count ? MTP_CONFIDENCE_MEDIUM : MTP_CONFIDENCE_HIGH,
                    .spent = l.sum,
                    .gain = saves ? l.sum : 0,
                    .of = (double)c->to - (double)c->from,
                    .text = l.text};
    mtp_status status = MTP_OK;
    if (l.count > 0) {
        say_title(&d.title, c, which, &l);
        say_advice(&d.advice, e, which, &l);
        status = mtp__find(c, &d, &l.tally);
    }
    mtp__draft_free(&d);
    mtp__evidence_fini(&l.tally);
    return status;
}

/* Time in DataLoaders, by the step that it begins in. */
static bool add_loads(examined *e)
{
    const mtp__case *c = e->c;
    const mtp_trace *t = c->t;
    uint32_t usual = 0;
    e->loads = mtp__calloc((size_t)c->steps->count + 1, sizeof *e->loads);
    for (uint32_t i = 0; e->loads != NULL && i < t->span_count; i++) {
        if ((mtp__case_name(c, i) & MTP__NAME_LOADER) == 0 ||
            t->category[i] != MTP__CATEGORY_USER_ANNOTATION || !c->wanted[mtp__trace_track_of(t, i)] ||
            mtp__case_around(c, i, MTP__NAME_LOADER) != MTP__NONE)
            continue;
        const mtp_step_row *r = mtp__case_step(c, t->start[i]);
        if (r != NULL)
            e->loads[r - c->steps->rows] += (double)mtp__duration(t, i);
        e->has_workers |= strstr(mtp__trace_get_text(t, t->name[i]).bytes, "MultiProcess") != NULL;
    }
    for (uint32_t i = c->first_step; e->loads != NULL && i < c->steps->count; i++)
        if (!mtp__case_is_late(&c->steps->rows[i]))
            e->usual_load += e->loads[i], usual++;
    e->usual_load = usual > 0 ? e->usual_load / usual : 0;
    return e->loads != NULL;
}

mtp_status mtp__find_outliers(mtp__case *c)
{
    static const cause told[] = {LOADING, CAUSED, NOISE};
    examined e = {.c = c};
    mtp_status status = MTP_OK;
    if (!usual_work(c, &e.usual_work) || !add_loads(&e))
        status = MTP_FAIL(MTP_E_NOMEM, "the work of %u steps", c->steps->count);
    if (status == MTP_OK)
        status = tell_warm_up(c, &e);
    for (size_t i = 0; i < sizeof told / sizeof *told && status == MTP_OK; i++)
        status = tell_late(c, &e, told[i]);
    mtp__free(e.loads);
    return status;
}
