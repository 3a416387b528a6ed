/* present/diff_text.c - what changed between two runs, in words. The verdicts are those of mtp_diff. */
#include <math.h>
#include "analyze/diff/diff.h"
#include "base/error.h"
#include "present/budget.h"

#define ROWS 12u /* told of */

static void say_change(mtp__words *w, double change)
{
    double percent = fabs(100 * change);
    mtp__say(w, "%.*f%% %s", percent < 9.95 ? 1 : 0, percent, change > 0 ? "more" : "less");
}

static void say_steps(mtp__pieces *p, const mtp_diff_summary *s)
{
    mtp__words w = {0};
    if (s->steps_before == 0 || s->steps_after == 0) {
        mtp__say(&w, "At least one of the two has no steps, so operators are compared call by call.");
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

static void say_row(mtp__words *w, const mtp_diff_row *r, bool has_steps)
{
    double cost = cost_of(r);
    const char *per = has_steps ? " per step" : " in all";
    mtp__say_name(w, (mtp_text){r->key, r->key_length});
    mtp__say(w, r->is_device ? " (on the device) " : " ");
    switch (r->verdict) {
    case MTP_VERDICT_NEW:
        mtp__say(w, "is new: %.*f %s%s, ", has_steps && r->calls_after < 10 ? 1 : 0, r->calls_after,
                 r->calls_after == 1 ? "call" : "calls", per);
        mtp__say_time(w, fabs(cost));
        mtp__say(w, "%s.", per);
        return;
    case MTP_VERDICT_GONE:
        mtp__say(w, "is gone: it had %.*f calls%s, ", has_steps && r->calls_before < 10 ? 1 : 0,
                 r->calls_before, per);
        mtp__say_time(w, fabs(cost));
        mtp__say(w, "%s.", per);
        return;
    case MTP_VERDICT_MORE_CALLS:
    case MTP_VERDICT_FEWER_CALLS:
        mtp__say(w, "is called %.1f times%s instead of %.1f, and as fast as before: ", r->calls_after, per,
                 r->calls_before);
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
    mtp__say(w, " %s%s.", cost > 0 ? "more" : "less", per);
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
    say_steps(&p, &s);
    const mtp_diff_row *r;
    for (size_t i = 0; (r = mtp_diff_row_at(diff, i)) != NULL; i++) {
        mtp__words w = {0};
        if (!is_told(r) || told >= ROWS) {
            rest += is_told(r);
            continue;
        }
        told++;
        mtp__say(&w, "- ");
        say_row(&w, r, has_steps);
        mtp__pieces_add(&p, told, 0, 2, &w);
    }
    mtp__words w = {0};
    if (told == 0)
        mtp__say(&w, "Of %llu operators and kernels none changed beyond noise.", (unsigned long long)s.rows);
    else
        mtp__say(&w, "Of %llu operators and kernels %u changed%s%s", (unsigned long long)s.rows, told + rest,
                 rest > 0 ? "; the others: 'mtprof diff'" : "", ".");
    if (s.uncertain > 0)
        mtp__say(&w, " Of %llu it is uncertain.", (unsigned long long)s.uncertain);
    mtp__pieces_add(&p, told == 0 ? 0 : ROWS + 1, 0, 0, &w);
    return mtp__pieces_write(&p, o.budget, "More: 'mtprof diff'.", sink, user);
}
