/* present/digest_text.c - digests for people: which steps stand out, how ranks differ, and all ops. */
#include <string.h>
#include "analyze/digest/digest.h"
#include "analyze/findings/findings.h"
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "present/plain_text.h"

#define NAME_COLUMNS 30
#define ODD_SHOWN 10u

typedef struct cell {
    char text[32];
} cell;

static cell time_of(double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    cell c;
    int unit = 0;
    for (; unit < 3 && (ns >= 999.5 || ns <= -999.5); unit++)
        ns /= 1000;
    double size = ns < 0 ? -ns : ns;
    mtp__format(c.text, sizeof c.text, "%.*f%s",
                unit == 0 || size >= 99.95 ? 0
                : size >= 9.995            ? 1
                                           : 2,
                ns, units[unit]);
    return c;
}

static cell number_of(int64_t number)
{
    cell c = {"all"};
    if (number == MTP_DIGEST_OUTSIDE)
        strcpy(c.text, "-");
    else if (number != MTP_DIGEST_ALL)
        mtp__format(c.text, sizeof c.text, "%lld", (long long)number);
    return c;
}

/* A name of any bytes, in so many columns. */
static void say_cell(mtp__words *w, mtp_text name, size_t columns)
{
    char stack[MTP__PLAIN_ROOM(4 * NAME_COLUMNS)];
    size_t length = name.length < 4 * NAME_COLUMNS ? name.length : 4 * NAME_COLUMNS;
    mtp__plain plain = mtp__plain_text(stack, name.bytes, length);
    bool cut = plain.characters > columns;
    if (cut)
        plain = mtp__plain_first(plain, columns - 3);
    mtp__say(w, "%.*s%s", (int)plain.length, plain.bytes, cut ? "..." : "");
    for (size_t i = plain.characters + (cut ? 3 : 0); i < columns; i++)
        mtp__say(w, " ");
}

/* --------------------------------------------------------------------------------------------- headline */

static cell time_or_blank(double ns)
{
    return ns > 0 || ns < 0 ? time_of(ns) : (cell){""};
}

typedef struct overview {
    size_t ranks, jobs, steps; /* entries that are steps */
    uint64_t whole;            /* traces without steps */
    uint64_t repeated;         /* entries that are several steps of one number */
    bool by_step, by_rank;
    uint32_t longest;
} overview;

static int64_t wall_of(const mtp_digest_entry *e)
{
    return mtp__digest_per_step(e, e->wall_ns);
}

static overview look_over(const mtp_digest *d)
{
    overview o = {.longest = UINT32_MAX};
    for (uint32_t i = 0; i < d->part_count; i++) {
        const mtp__digest_part *p = &d->part[i], *last = i > 0 ? p - 1 : NULL;
        bool new_job = last == NULL || last->job != p->job;
        o.jobs += new_job;
        o.ranks += new_job || last->shown.rank != p->shown.rank;
        o.by_rank |= p->shown.rank != MTP_DIGEST_ALL;
        o.by_step |= p->shown.step != MTP_DIGEST_ALL && p->shown.step != MTP_DIGEST_OUTSIDE;
        o.whole += p->shown.step == MTP_DIGEST_OUTSIDE ? p->shown.steps : 0;
        if (p->shown.step < 0)
            continue;
        o.steps++;
        o.repeated += p->shown.steps > 1 && p->shown.rank != MTP_DIGEST_ALL;
        if (o.longest == UINT32_MAX || wall_of(&p->shown) > wall_of(&d->part[o.longest].shown))
            o.longest = i;
    }
    return o;
}

static void say_headline(mtp__words *w, const mtp_digest *d, const overview *o)
{
    mtp_digest_entry all = {0};
    for (uint32_t i = 0; i < d->part_count; i++) {
        all.steps += d->part[i].shown.steps;
        all.wall_ns += d->part[i].shown.wall_ns;
    }
    if (o->jobs > 1)
        mtp__say(w, "%zu jobs, ", o->jobs);
    if (o->by_rank)
        mtp__say(w, "%zu %s, ", o->ranks, o->ranks == 1 ? "rank" : "ranks");
    if (o->whole == all.steps) /* traces without steps */
        mtp__say_count(w, all.steps, "trace without steps", "traces without steps");
    else
        mtp__say_count(w, all.steps, "step", "steps");
    if (all.steps > 0)
        mtp__say(w, ": %s takes %s on average", o->whole == all.steps ? "one" : "a step",
                 time_of((double)all.wall_ns / (double)all.steps).text);
    if (o->steps > 1) {
        const mtp_digest_entry *e = &d->part[o->longest].shown;
        mtp__say(w, "; the longest took %s (rank %s, step %s)", time_of((double)wall_of(e)).text,
                 number_of(e->rank).text, number_of(e->step).text);
    }
    mtp__say(w, ".\n");
    if (o->repeated > 0) {
        mtp__say_count(w, o->repeated, "step was", "steps were");
        mtp__say(w,
                 " recorded more than once (a rank was restarted, or a digest was given twice): the mean is "
                 "shown.\n");
    }
    if (d->damaged > 0) {
        mtp__say_count(w, d->damaged, "block was damaged, and is", "blocks were damaged, and are");
        mtp__say(w, " left out.\n");
    }
}

/* ------------------------------------------------------------------------------------------------- odd */

static void say_reason(mtp__words *w, const mtp__digest_reason *r)
{
    if (r->is_idle)
        mtp__say(w, "idle");
    else
        mtp__say_name(w, r->name);
    mtp__say(w, " +%s", time_of((double)r->more_ns).text);
    if (r->more_calls > 0) {
        mtp__say(w, " (");
        mtp__say_count(w, (uint64_t)r->more_calls, "more call)", "more calls)");
    }
}

static mtp_status say_odd(mtp__words *w, const mtp_digest *d)
{
    mtp__digest_odd *odd;
    size_t count;
    mtp_status status = mtp__digest_odd_steps(d, &odd, &count);
    if (status != MTP_OK || count == 0)
        return status;
    mtp__say(w, "\n%zu %s far longer than most of the job:\n", count,
             count == 1 ? "step took" : "steps took");
    mtp__say(w, "%6s %8s %10s %10s  %s\n", "rank", "step", "time", "more", "because of");
    for (size_t i = 0; i < count && i < ODD_SHOWN; i++) {
        const mtp_digest_entry *e = &d->part[odd[i].entry].shown;
        mtp__say(w, "%6s %8s %10s %10s  ", number_of(e->rank).text, number_of(e->step).text,
                 time_of((double)wall_of(e)).text, time_of((double)odd[i].more_ns).text);
        for (uint32_t k = 0; k < odd[i].reason_count; k++) {
            mtp__say(w, k > 0 ? ", " : "");
            say_reason(w, &odd[i].reasons[k]);
        }
        mtp__say(w, "%s\n", odd[i].reason_count == 0 ? "many small differences" : "");
    }
    if (count > ODD_SHOWN)
        mtp__say(w, "... and %zu more; --json has all\n", count - ODD_SHOWN);
    mtp__free(odd);
    return MTP_OK;
}

/* ----------------------------------------------------------------------------------------------- tables */

/* One line per entry: what a step of it takes on average. */
static void say_entries(mtp__words *w, const mtp_digest *d, int64_t limit)
{
    mtp__say(w, "\n%6s %8s %8s %10s %10s %10s %10s %12s  %s\n", "rank", "step", "steps", "time", "cpu",
             "device", "idle", "calls", "host");
    for (uint32_t i = 0; i < d->part_count && (limit < 0 || i < (uint64_t)limit); i++) {
        const mtp_digest_entry *e = &d->part[i].shown;
        double steps = e->steps > 0 ? (double)e->steps : 1;
        mtp__say(w, "%6s %8s %8llu %10s %10s %10s %10s %12.0f  ", number_of(e->rank).text,
                 number_of(e->step).text, (unsigned long long)e->steps,
                 time_of((double)e->wall_ns / steps).text, time_of((double)e->cpu_ns / steps).text,
                 time_of((double)e->device_ns / steps).text, time_of((double)e->idle_ns / steps).text,
                 (double)e->calls / steps);
        say_cell(w, (mtp_text){e->host, strlen(e->host)},
                 strlen(e->host) < NAME_COLUMNS ? strlen(e->host) : NAME_COLUMNS);
        mtp__say(w, "\n");
    }
    if (limit >= 0 && d->part_count > (uint64_t)limit)
        mtp__say(w, "... and %llu more\n", (unsigned long long)(d->part_count - (uint64_t)limit));
}

/* The number of calls in a step; of few ones its decimals matter. */
static cell calls_of(double calls)
{
    cell c;
    mtp__format(c.text, sizeof c.text, "%.*f", calls < 10 && calls != (double)(int)calls ? 1 : 0, calls);
    return c;
}

static cell quantile_of(const mtp_digest *all, size_t op, double quantile)
{
    int64_t ns = mtp_digest_quantile(all, 0, op, quantile, NULL);
    return ns == -1 ? (cell){"-"} : time_of((double)ns);
}

static void say_ops(mtp__words *w, const mtp_digest *all, int64_t limit)
{
    const mtp_digest_entry *e = mtp_digest_entry_at(all, 0);
    const mtp_digest_op *o;
    double steps = e->steps > 0 ? (double)e->steps : 1;
    mtp__say(w, "\n%-*s %11s %9s %9s %6s %9s %9s %9s\n", NAME_COLUMNS, "per step", "calls", "self cpu",
             "device", "share", "p50", "p99", "max");
    for (size_t i = 0; (o = mtp_digest_op_at(all, 0, i)) != NULL && (limit < 0 || i < (uint64_t)limit); i++) {
        int64_t whole = o->is_device ? e->self_device_ns : e->self_ns;
        double share = whole > 0 ? 100 * (double)o->self_ns / (double)whole : 0;
        say_cell(w, o->name, NAME_COLUMNS);
        mtp__say(w, " %11s %9s %9s %5.1f%% %9s %9s %9s\n", calls_of((double)o->calls / steps).text,
                 time_or_blank(o->is_device ? 0 : (double)o->self_ns / steps).text,
                 time_or_blank((double)(o->is_device ? o->self_ns : o->device_ns) / steps).text, share,
                 quantile_of(all, i, 0.5).text, quantile_of(all, i, 0.99).text,
                 time_of((double)o->max_ns).text);
    }
    if (limit >= 0 && e->op_count > (uint64_t)limit)
        mtp__say(w, "... and %llu more\n", (unsigned long long)(e->op_count - (uint64_t)limit));
}

mtp_status mtp_digest_text(const mtp_digest *d, int64_t limit, mtp_sink *sink, void *user)
{
    if (d == NULL || sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", d == NULL ? "digest" : "sink");
    mtp__words w = {0};
    mtp_digest *all = NULL;
    overview o = look_over(d);
    say_headline(&w, d, &o);
    mtp_status status = say_odd(&w, d);
    if (status == MTP_OK && !o.by_step && d->part_count > 1)
        say_entries(&w, d, limit);
    if (status == MTP_OK)
        status = mtp_digest_sum(&d, 1, 0, &all);
    if (status == MTP_OK && mtp_digest_count(all) > 0)
        say_ops(&w, all, limit);
    mtp_digest_destroy(all);
    if (status == MTP_OK && w.failed)
        status = MTP_FAIL(MTP_E_NOMEM, "the text of %u entries", d->part_count);
    if (status == MTP_OK && w.length > 0 && !sink(user, w.bytes, w.length))
        status = MTP_FAIL(MTP_E_IO, "the output could not be written");
    mtp__free(w.bytes);
    return status;
}
