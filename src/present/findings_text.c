/* present/findings_text.c - findings for people and, within a budget, for language models. */
#include <string.h>
#include "base/error.h"
#include "present/budget.h"

#define SHOWN 3u /* pieces of evidence of each finding; `only` shows all */
#define INDENT 3u
#define LEVELS 4u /* of detail: ranks are level * count + finding */

/* Without any, what else was recorded counts as the CPU's time. */
static bool has_ops(const mtp_trace *t)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (t->category[i] == MTP__CATEGORY_CPU_OP || t->category[i] == MTP__CATEGORY_CUDA_RUNTIME ||
            t->category[i] == MTP__CATEGORY_CUDA_DRIVER)
            return true;
    return false;
}

static void say_summary(mtp__pieces *p, const mtp_findings *f)
{
    const mtp_findings_summary *s = &f->summary;
    mtp__words w = {0};
    double whole = (double)s->whole_ns;
    if (s->whole_ns <= 0)
        return;
    mtp__say_time(&w, whole);
    if (s->steps == 1) {
        mtp__say(&w, " in one step");
    } else if (s->steps > 1) {
        mtp__say(&w, " in %llu steps (", (unsigned long long)s->steps);
        mtp__say_time(&w, whole / (double)s->steps);
        mtp__say(&w, " each)");
    } else {
        mtp__say(&w, " without steps");
    }
    if (s->warm_up > 0)
        mtp__say(&w, " after %llu of warm-up", (unsigned long long)s->warm_up);
    if (s->outliers > 0)
        mtp__say(&w, ", without %llu that took far longer", (unsigned long long)s->outliers);
    mtp__say(&w, has_ops(f->trace)
                     ? ": the CPU was in operators for "
                     : ": the CPU was in scopes or functions (no operators were recorded) for ");
    mtp__say_share(&w, (double)s->cpu_ns / whole);
    mtp__say(&w, " of the time");
    if (s->device_ns > 0) {
        mtp__say(&w, ", the device was busy for ");
        mtp__say_share(&w, (double)s->device_ns / whole);
        mtp__say(&w, ", and neither for ");
        mtp__say_share(&w, (double)s->idle_ns / whole);
    }
    mtp__say(&w, ".");
    if (s->process != 0)
        mtp__say(&w, " Of several processes this is %lld; --process selects another.", (long long)s->process);
    mtp__pieces_add(p, 0, 0, 0, &w);
}

static void say_worth(mtp__words *w, const mtp_finding_row *r)
{
    if (r->gain_ns > 0) {
        mtp__say(w, "could save ");
        mtp__say_time(w, (double)r->gain_ns);
        mtp__say(w, " (");
        mtp__say_share(w, r->share);
        mtp__say(w, "), %s confidence", mtp_confidence_text((mtp_confidence)r->confidence));
    } else {
        mtp__say(w, "%s", mtp_finding_kind_text((mtp_finding_kind)r->kind));
    }
}

static void say_evidence(mtp__words *w, const mtp_findings *f, const mtp_evidence *e, bool whole_names)
{
    if (e->bytes != 0)
        mtp__say_bytes(w, (double)e->bytes);
    else
        mtp__say_time(w, (double)e->total_ns);
    mtp__say(w, e->calls > 1 ? " in %llu x " : " ", (unsigned long long)e->calls);
    if (e->name.length == 0)
        mtp__say(w, e->bytes != 0 ? "(not in an op)" : e->source.length > 0 ? "" : "(nothing recorded)");
    else if (whole_names)
        mtp__say(w, "%.*s", e->name.length > 400 ? 400 : (int)e->name.length, e->name.bytes);
    else
        mtp__say_name(w, e->name);
    if (e->source.length > 0 && (e->source.length != e->name.length || e->source.bytes != e->name.bytes))
        mtp__say_source(w, e->source);
    mtp__say(w, e->calls > 1 && e->bytes == 0 ? "; longest " : e->bytes != 0 ? "; first " : "; ");
    if (e->end_ns > e->start_ns) {
        mtp__say_time(w, (double)e->end_ns - (double)e->start_ns);
        mtp__say(w, " ");
    }
    mtp__say(w, "at ");
    double at = (double)e->start_ns - (double)f->trace->first_ns;
    mtp__say_time(w, at > 0 ? at : 0);
    if (e->step >= 0)
        mtp__say(w, ", step %lld", (long long)e->step);
    if (e->span != MTP_NO_SPAN)
        mtp__say(w, ", span %u", e->span);
}

static void add_row(mtp__pieces *p, const mtp_findings *f, size_t i, size_t count, bool whole)
{
    const mtp_finding_row *r = mtp_findings_row(f, i);
    uint32_t level = whole ? 0 : (uint32_t)count;
    uint32_t rank = whole || i == 0 ? 0 : (uint32_t)i;
    mtp__words w = {0};
    mtp__pieces_line(p, rank, "");
    mtp__say(&w, "%zu. %.*s", i + 1, (int)r->title.length, r->title.bytes);
    mtp__pieces_add(p, rank, 0, INDENT, &w);
    mtp__say(&w, "[%s] ", r->id.bytes);
    say_worth(&w, r);
    mtp__pieces_add(p, rank, INDENT, INDENT, &w);
    mtp__say(&w, "%.*s", (int)r->text.length, r->text.bytes);
    mtp__pieces_add(p, rank + level, INDENT, INDENT, &w);
    mtp__say(&w, "Next: %.*s", (int)r->advice.length, r->advice.bytes);
    mtp__pieces_add(p, rank + 2 * level, INDENT, INDENT, &w);
    const mtp_evidence *e;
    for (size_t k = 0; (whole || k < SHOWN) && (e = mtp_findings_evidence(f, i, k)) != NULL; k++) {
        mtp__say(&w, "- ");
        say_evidence(&w, f, e, whole);
        mtp__pieces_add(p, rank + 3 * level, INDENT, INDENT + 2, &w);
    }
}

static mtp_status write_only(const mtp_findings *f, mtp__pieces *p, const mtp_words_options *o,
                             mtp_sink *sink, void *user)
{
    size_t count = mtp_findings_count(f), found = count;
    for (size_t i = 0; i < count; i++)
        if (strcmp(mtp_findings_row(f, i)->id.bytes, o->only) == 0)
            found = found == count ? i : found;
    if (found == count)
        return MTP_FAIL(MTP_E_ARG, "'%s' is not a finding of this trace", o->only);
    add_row(p, f, found, count, o->budget == 0);
    if (p->count > 0 && p->list[0].length == 1)
        p->list[0].length = 0; /* no empty line before the first */
    return mtp__pieces_write(p, o->budget, "(cut: give a larger budget)", sink, user);
}

mtp_status mtp_findings_text(const mtp_findings *f, const mtp_words_options *options, mtp_sink *sink,
                             void *user)
{
    mtp_words_options o;
    if (f == NULL || sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "findings or sink is NULL");
    mtp_status status = mtp__words_options_read(&o, options);
    if (status != MTP_OK)
        return status;
    mtp__pieces p = {.width = o.width};
    if (o.only != NULL)
        return write_only(f, &p, &o, sink, user);
    size_t count = mtp_findings_count(f);
    say_summary(&p, f);
    if (count == 0)
        mtp__pieces_line(
            &p, 0,
            "Nothing stands out: no rule found anything worth a change. 'mtprof table' and 'mtprof steps' "
            "show where the time goes.");
    for (size_t i = 0; i < count; i++)
        add_row(&p, f, i, count, false);
    return mtp__pieces_write(&p, o.budget,
                             "More: 'mtprof show TRACE ID', with the id in brackets; or a larger budget.",
                             sink, user);
}
