/* present/diff_text.c - what changed between two runs, in words. The verdicts are those of mtp_diff. */
#include <math.h>
#include "analyze/diff/diff.h"
#include "base/error.h"
#include "present/budget.h"

#define ROWS 12u        /* told of */
#define SAME_WORK 0.005 /* so close to 1 it is not worth a word */
#define SAME_PACE 0.1   /* of calls that are neither faster nor slower for sure */

static void say_change(mtp__words *w, double change)
{
    double percent = fabs(100 * change);
    mtp__say(w, "%.*f%% %s", percent < 9.95 ? 1 : 0, percent, change > 0 ? "more" : "less");
}

/* Without steps, the calls tell how much the runs did: the second's work as a multiple of the first's, by which its
 * calls are scaled. */
static double work_of(const mtp_diff *diff)
{
    const mtp_diff_row *r;
    for (size_t i = 0; (r = mtp_diff_row_at(diff, i)) != NULL; i++)
        if (r->count_after > 0 && r->calls_after > 0)
            return (double)r->count_after / r->calls_after;
    return 1;
}

static void say_steps(mtp__pieces *p, const mtp_diff_summary *s, double work)
{
    mtp__words w = {0};
    if (s->steps_before == 0 || s->steps_after == 0) {
        mtp__say(&w, "At least one of the two has no steps, so operators are compared call by call.");
        if (fabs(work - 1) > SAME_WORK)
            mtp__say(&w,
                     " By its calls, the second did %.2f times the work of the first: the time that a change "
                     "takes or saves is given for as much work.",
                     work);
    } else {
        mtp__say(&w, "A step took ");
        mtp__say_time(&w, s->step_before * 1e3);
        mtp__say(&w, " before and takes ");
        mtp__say_time(&w, s->step_after * 1e3);
        mtp__say(&w, " after (medians of %llu and %llu): ", (unsigned long long)s->steps_before,
                 (unsigned long long)s->steps_after);
        if (s->step_verdict == MTP_VERDICT_SAME)
            mtp__say(&w, "no change beyond noise.");
        else if (s->step_verdict == MTP_VERDICT_UNCERTAIN)
            mtp__say(&w, "a difference that may be noise.");
        else {
            say_change(&w, s->step_change);
            mtp__say(&w, ".");
        }
    }
    if (s->has_drift && fabs(s->drift) >= 0.01) {
        mtp__say(&w, " All operators together take ");
        say_change(&w, s->drift);
        mtp__say(&w, s->drift_verdict == MTP_VERDICT_SAME ? " time, which is attributed to the machine."
                                                          : " time.");
    }
    mtp__pieces_add(p, 0, 0, 0, &w);
}

static bool is_told(const mtp_diff_row *r)
{
    return r->verdict != MTP_VERDICT_SAME && r->verdict != MTP_VERDICT_UNCERTAIN;
}

/* The cost of a change: per step, or of all calls. */
static double cost_of(const mtp_diff_row *r)
{
    return (r->step_time_after - r->step_time_before) * 1e3;
}

/* How often it is called, as it is: per step, or counted. */
static void say_calls(mtp__words *w, uint64_t count, double calls, bool has_steps)
{
    if (has_steps)
        mtp__say(w, "%.*f %s per step", calls < 10 ? 1 : 0, calls, calls == 1 ? "call" : "calls");
    else
        mtp__say(w, "%llu %s", (unsigned long long)count, count == 1 ? "call" : "calls");
}

static void say_presence(mtp__words *w, const mtp_diff_row *r, bool has_steps)
{
    bool is_new = r->verdict == MTP_VERDICT_NEW;
    double calls = is_new ? r->calls_after : r->calls_before;
    uint64_t count = is_new ? r->count_after : r->count_before;
    mtp__say(w, is_new ? "is new: " : "is gone: it had ");
    say_calls(w, count, calls, has_steps);
    mtp__say(w, ", ");
    mtp__say_time(w, (has_steps ? calls : (double)count) * (is_new ? r->own_after : r->own_before) * 1e3);
    mtp__say(w, has_steps ? " per step." : " in all.");
}

static void say_more_calls(mtp__words *w, const mtp_diff_row *r, bool has_steps)
{
    mtp__say(w, "has ");
    say_calls(w, r->count_after, r->calls_after, has_steps);
    if (has_steps)
        mtp__say(w, " instead of %.*f", r->calls_before < 10 ? 1 : 0, r->calls_before);
    else
        mtp__say(w, " instead of %llu", (unsigned long long)r->count_before);
    if (fabs(r->time_after - r->time_before) <= SAME_PACE * r->time_before) {
        mtp__say(w, ", as fast as before: ");
        return;
    }
    mtp__say(w, "; a call takes ");
    mtp__say_time(w, r->time_after * 1e3);
    mtp__say(w, " instead of ");
    mtp__say_time(w, r->time_before * 1e3);
    mtp__say(w, ", which may be noise: ");
}

static void say_row(mtp__words *w, const mtp_diff_row *r, bool has_steps, double work)
{
    double cost = cost_of(r);
    const char *per = has_steps ? "per step" : fabs(work - 1) > SAME_WORK ? "for as much work" : "in all";
    mtp__say_name(w, (mtp_text){r->key, r->key_length});
    mtp__say(w, r->is_device ? " (on the device) " : " ");
    switch (r->verdict) {
    case MTP_VERDICT_NEW:
    case MTP_VERDICT_GONE:
        say_presence(w, r, has_steps);
        return;
    case MTP_VERDICT_MORE_CALLS:
    case MTP_VERDICT_FEWER_CALLS:
        say_more_calls(w, r, has_steps);
        break;
    default:
        mtp__say(w, "takes ");
        mtp__say_time(w, r->time_after * 1e3);
        mtp__say(w, " per call instead of ");
        mtp__say_time(w, r->time_before * 1e3);
        mtp__say(w, " (%s)%s: ", mtp_verdict_text(r->verdict),
                 r->own_verdict != r->verdict ? ", because of what it calls" : "");
    }
    mtp__say_time(w, fabs(cost));
    mtp__say(w, " %s %s.", cost > 0 ? "more" : "less", per);
}

mtp_status mtp_diff_text(const mtp_diff *diff, const mtp_words_options *options, mtp_sink *sink, void *user)
{
    mtp_words_options o;
    mtp_diff_summary s = MTP_DIFF_SUMMARY_INIT;
    if (diff == NULL || sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "diff or sink is NULL");
    mtp_status status = mtp__words_options_read(&o, options);
    if (status == MTP_OK)
        status = mtp_diff_get_summary(diff, &s);
    if (status != MTP_OK)
        return status;
    mtp__pieces p = {.width = o.width};
    bool has_steps = s.steps_before > 0 && s.steps_after > 0;
    uint32_t told = 0, rest = 0;
    double work = has_steps ? 1 : work_of(diff);
    say_steps(&p, &s, work);
    const mtp_diff_row *r;
    for (size_t i = 0; (r = mtp_diff_row_at(diff, i)) != NULL; i++) {
        mtp__words w = {0};
        if (!is_told(r) || told >= ROWS) {
            rest += is_told(r);
            continue;
        }
        told++;
        mtp__say(&w, "- ");
        say_row(&w, r, has_steps, work);
        mtp__pieces_add(&p, told, 0, 2, &w);
    }
    mtp__words w = {0};
    if (told == 0)
        mtp__say(&w, "Of %llu operators and kernels, none changed beyond noise.", (unsigned long long)s.rows);
    else
        mtp__say(&w, "Of %llu operators and kernels, %u changed%s%s", (unsigned long long)s.rows, told + rest,
                 rest > 0 ? "; the others: 'mtprof diff'" : "", ".");
    if (s.uncertain > 0)
        mtp__say(&w, " For %llu it is uncertain.", (unsigned long long)s.uncertain);
    mtp__pieces_add(&p, told == 0 ? 0 : ROWS + 1, 0, 0, &w);
    return mtp__pieces_write(&p, o.budget, "More: 'mtprof diff'.", sink, user);
}
