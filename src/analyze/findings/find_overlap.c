/* analyze/findings/find_overlap.c - copies and collectives during which the device computes nothing. */
#include "analyze/findings/findings.h"

#define COPY_SHARE 0.05 /* of the time */
#define COLLECTIVE_SHARE 0.05
#define BIT(kind) (1u << (kind))

static void add_work(mtp__evidence *tally, const mtp__case *c, unsigned kinds)
{
    for (uint32_t i = 0; i < c->works; i++) {
        const mtp__work *w = &c->work[i];
        if (!(kinds >> w->kind & 1))
            continue;
        mtp__alike one = {.what = mtp__trace_get_text(c->t, c->t->name[w->span]),
                          .source =
                              w->call != MTP__NONE ? mtp__source_of(&c->sources, w->call) : (mtp_text){"", 0},
                          .calls = 1,
                          .total = (double)(w->end - w->start),
                          .start = c->t->start[w->span],
                          .end = c->t->end[w->span],
                          .span = w->span};
        mtp__evidence_add(tally, one);
    }
}

static bool has_pageable(const mtp__case *c)
{
    for (uint32_t i = 0; i < c->works; i++)
        if ((c->work[i].kind == MTP__WORK_COPY_IN || c->work[i].kind == MTP__WORK_COPY_OUT) &&
            (mtp__case_name(c, c->work[i].span) & MTP__NAME_PAGEABLE))
            return true;
    return false;
}

mtp_status mtp__find_copies(mtp__case *c)
{
    unsigned copies = BIT(MTP__WORK_COPY_IN) | BIT(MTP__WORK_COPY_OUT);
    double exposed = mtp__case_exposed(c, copies, BIT(MTP__WORK_KERNEL) | BIT(MTP__WORK_COLLECTIVE));
    if (exposed < COPY_SHARE * c->whole || exposed <= 0)
        return MTP_OK;
    mtp__evidence tally = {0};
    add_work(&tally, c, copies);
    mtp__draft d = {.id = "exposed-copies",
                    .kind = MTP_FINDING_TIME,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .spent = exposed,
                    .gain = exposed / 2};
    mtp__say(&d.title, "Copies between host and device take ");
    mtp__say_share(&d.title, exposed / c->whole);
    mtp__say(&d.title, " of the time");
    mtp__say(&d.text, "For ");
    mtp__say_time(&d.text, exposed);
    mtp__say(&d.text, " (");
    mtp__say_share(&d.text, exposed / c->whole);
    mtp__say(&d.text, ") the device copied to or from the host and computed nothing.");
    const mtp__alike *first = mtp__evidence_first(&tally);
    if (first != NULL) {
        mtp__say(&d.text, " The largest part is ");
        mtp__say_name(&d.text, first->what);
        mtp__say_source(&d.text, first->source);
        mtp__say(&d.text, ", ");
        mtp__say_count(&d.text, first->calls, "time", "times");
        mtp__say(&d.text, ", ");
        mtp__say_time(&d.text, first->total);
        mtp__say(&d.text, " in all.");
    }
    mtp__say(
        &d.advice,
        "%sCopy the next batch on a stream of its own while this one is computed, and copy less: convert "
        "and augment on the device, keep results there.",
        has_pageable(c)
            ? "Pin the host's memory (pin_memory=True) and copy with non_blocking=True: pageable memory "
              "is copied twice, and the host waits. "
            : "");
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}

mtp_status mtp__find_collectives(mtp__case *c)
{
    double exposed = mtp__case_exposed(c, BIT(MTP__WORK_COLLECTIVE), BIT(MTP__WORK_KERNEL));
    double all = mtp__case_exposed(c, BIT(MTP__WORK_COLLECTIVE), 0);
    if (exposed < COLLECTIVE_SHARE * c->whole || exposed <= 0)
        return MTP_OK;
    mtp__evidence tally = {0};
    add_work(&tally, c, BIT(MTP__WORK_COLLECTIVE));
    mtp__draft d = {.id = "exposed-communication",
                    .kind = MTP_FINDING_TIME,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .spent = exposed,
                    .gain = exposed / 2};
    mtp__say(&d.title, "Communication that nothing overlaps takes ");
    mtp__say_share(&d.title, exposed / c->whole);
    mtp__say(&d.title, " of the time");
    mtp__say(&d.text, "Collectives ran for ");
    mtp__say_time(&d.text, all);
    mtp__say(&d.text, "; for ");
    mtp__say_time(&d.text, exposed);
    mtp__say(&d.text, " of that (");
    mtp__say_share(&d.text, exposed / all);
    mtp__say(&d.text,
             ") nothing was computed at the same time. That includes waiting for ranks that arrive late.");
    mtp__say(
        &d.advice,
        "Compare the ranks' traces first ('mtprof ranks'): a collective ends when the slowest rank has "
        "joined. "
        "Then overlap: smaller buckets (bucket_cap_mb), prefetching (FSDP), gradient accumulation without "
        "synchronisation (no_sync).");
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}
