/* analyze/findings/find_steps.c - steps that took far longer than the others (analyze/steps_outliers.c). */
#include <stdlib.h>
#include "analyze/findings/findings.h"
#include "base/error.h"
#include "base/os.h"

#define NAMED 3u         /* steps told of one by one */
#define WAIT_NS 20000000 /* a shorter wait may be the system's: other programs run */

static void say_reasons(mtp__words *w, const mtp_step_row *r)
{
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

static void add_step(mtp__evidence *tally, const mtp_step_row *r)
{
    const mtp_text many = {"(many differences)", 18};
    mtp__evidence_add(tally, (mtp__alike){.what = r->reason_count > 0 ? r->reasons[0].what : many,
                                          .source = {"", 0},
                                          .apart = (uint64_t)r->start_ns,
                                          .calls = 1,
                                          .total = (double)r->more_ns,
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

typedef enum reason {
    UNCLEAR, /* it does more, but no op stands out */
    CAUSED,  /* more calls, or a long wait */
    NOISE    /* the same work took longer: the machine's */
} reason;

static reason reason_of(const mtp__case *c, const mtp_step_row *r, uint64_t usual)
{
    bool does_more = work_of(c, r) > usual;
    for (uint32_t i = 0; i < r->reason_count; i++)
        if (r->reasons[i].ns >= r->more_ns / 2 &&
            ((does_more && r->reasons[i].calls > 0) ||
             (MTP__EQUALS(r->reasons[i].what, "(idle)") && r->more_ns >= WAIT_NS && !mtp__case_may_serve(c))))
            return CAUSED;
    return does_more ? UNCLEAR : NOISE;
}

/* After the last step() there may be a rest, in which the program does nothing, and devices finish their work. */
static bool is_told(const mtp__case *c, const mtp_step_row *r)
{
    return mtp__case_is_late(r) && work_of(c, r) > 0;
}

static mtp_status tell_warm_up(mtp__case *c)
{
    mtp__evidence tally = {0};
    double sum = 0;
    if (c->first_step == 0)
        return MTP_OK;
    for (uint32_t i = 0; i < c->first_step; i++) {
        sum += (double)c->steps->rows[i].more_ns;
        add_step(&tally, &c->steps->rows[i]);
    }
    mtp__draft d = {
        .id = "warm-up", .kind = MTP_FINDING_NOTE, .confidence = MTP_CONFIDENCE_HIGH, .spent = sum};
    mtp__say(&d.title, "The first %s took ", c->first_step == 1 ? "step" : "steps");
    mtp__say_time(&d.title, sum);
    mtp__say(&d.title, " longer, and %s left out here", c->first_step == 1 ? "is" : "are");
    mtp__say(&d.text, "First steps allocate memory, load libraries and compile kernels. Step %lld took ",
             (long long)c->steps->rows[0].number);
    mtp__say_time(&d.text, (double)c->steps->rows[0].times.wall_ns);
    say_reasons(&d.text, &c->steps->rows[0]);
    mtp__say(&d.text, "All other findings are about the steps after it.");
    mtp__say(&d.advice, "Skip such steps when recording: schedule(wait=1, warmup=1, active=5).");
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}

typedef struct late_steps {
    double sum;
    uint32_t count;
    mtp__words text;
    mtp__evidence tally;
} late_steps;

static void gather(const mtp__case *c, reason which, uint64_t usual, late_steps *l)
{
    const mtp_steps *s = c->steps;
    for (uint32_t i = c->first_step; i < s->count && !s->whole_trace; i++) {
        const mtp_step_row *r = &s->rows[i];
        if (!is_told(c, r) || reason_of(c, r, usual) != which)
            continue;
        l->sum += (double)r->more_ns;
        add_step(&l->tally, r);
        if (l->count++ < NAMED) {
            mtp__say(&l->text, "Step %lld took ", (long long)r->number);
            mtp__say_time(&l->text, (double)r->times.wall_ns);
            mtp__say(&l->text, ", ");
            mtp__say_time(&l->text, (double)r->more_ns);
            mtp__say(&l->text, " more than usual");
            say_reasons(&l->text, r);
        }
    }
    if (l->count > NAMED)
        mtp__say(&l->text, "So did %u more. ", l->count - NAMED);
    mtp__say(&l->text, "The median step takes ");
    mtp__say_time(&l->text, (double)s->summary[MTP_STEP_P50].wall_ns);
    mtp__say(&l->text, ".");
}

static int64_t worst(const mtp__case *c, const late_steps *l)
{
    const mtp__alike *first = mtp__evidence_first(&l->tally);
    const mtp_step_row *row = first != NULL ? mtp__case_step(c, first->start) : NULL;
    return row != NULL ? row->number : 0;
}

mtp_status mtp__find_outliers(mtp__case *c)
{
    uint64_t usual = 0;
    if (!usual_work(c, &usual))
        return MTP_FAIL(MTP_E_NOMEM, "the work of %u steps", c->steps->count);
    mtp_status status = tell_warm_up(c);
    for (int caused = 1; caused >= 0 && status == MTP_OK; caused--) {
        late_steps l = {0};
        gather(c, caused ? CAUSED : NOISE, usual, &l);
        mtp__draft d = {.id = caused ? "outlier-steps" : "noisy-steps",
                        .kind = caused ? MTP_FINDING_TIME : MTP_FINDING_NOTE,
                        .confidence = MTP_CONFIDENCE_HIGH,
                        .spent = l.sum,
                        .gain = caused ? l.sum : 0,
                        .of = (double)c->to - (double)c->from,
                        .text = l.text};
        if (l.count > 0) {
            mtp__say(&d.title, "%u of %u steps %s ", l.count, c->steps->count - c->first_step,
                     l.count == 1 ? "takes" : "take");
            mtp__say_time(&d.title, l.sum / l.count);
            mtp__say(&d.title, " longer%s%s", l.count > 1 ? " on average" : "",
                     caused ? " than usual" : " for the same work");
            mtp__say(&d.advice,
                     caused ? "'mtprof steps' lists each such step; 'mtprof cut --step %lld' extracts one "
                              "for a viewer."
                            : "Usually another program, throttling or page faults: repeat the run on a quiet "
                              "machine. If "
                              "it stays, look at step %lld.",
                     (long long)worst(c, &l));
            status = mtp__find(c, &d, &l.tally);
        }
        mtp__draft_free(&d);
        mtp__evidence_fini(&l.tally);
    }
    return status;
}
