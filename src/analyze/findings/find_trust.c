/* analyze/findings/find_trust.c - what is missing from the trace, and what the profiler itself costs. */
#include <string.h>
#include "analyze/findings/findings.h"
#include "base/error.h"

#define LOSS_URGENT 0.01      /* of the records: everything else is then in doubt */
#define UNFINISHED_SHARE 0.01 /* of the spans */
#define OVERHEAD_SHARE 0.02   /* of the time */
#define ESTIMATE_SHARE 0.05
/* Recording an op: docs/benchmarks.md, py_op_overhead_torch_ns and py_op_overhead_ns, rounded down. */
#define TORCH_OP_NS 300.0
#define OUR_OP_NS 25.0

/* --------------------------------------------------------------------------------------------- losses */

static mtp_status tell_no_times(mtp__case *c)
{
    mtp__draft d = {
        .id = "no-times", .kind = MTP_FINDING_TRUST, .confidence = MTP_CONFIDENCE_HIGH, .urgent = true};
    mtp__say(&d.title, "The trace has no times");
    mtp__say(
        &d.text,
        "It is an execution trace: it has the order and the number of ops, but nothing about how long they "
        "took.");
    mtp__say(&d.advice,
             "Record a profile (export_chrome_trace, or 'mtprof run') to learn where the time goes.");
    return mtp__find(c, &d, NULL);
}

static mtp_status tell_empty(mtp__case *c)
{
    mtp__draft d = {
        .id = "empty-trace", .kind = MTP_FINDING_TRUST, .confidence = MTP_CONFIDENCE_HIGH, .urgent = true};
    mtp__say(&d.title, "The trace is empty");
    mtp__say(&d.text, "It has no events with a duration.");
    mtp__say(
        &d.advice,
        "With a schedule, call step() often enough: wait + warmup + active times. Otherwise see whether the "
        "profiler was running while the program did its work.");
    return mtp__find(c, &d, NULL);
}

static mtp_status tell_damage(mtp__case *c)
{
    const mtp_trace *t = c->t;
    if (t->damaged_chunks + t->missing_chunks == 0)
        return MTP_OK;
    mtp__draft d = {.id = "damaged-recording",
                    .kind = MTP_FINDING_TRUST,
                    .confidence = MTP_CONFIDENCE_HIGH,
                    .urgent = true};
    mtp__say(&d.title, "Part of the recording is lost");
    mtp__say(&d.text, "%llu of its chunks are damaged, and %llu are missing: times and counts are too small.",
             (unsigned long long)t->damaged_chunks, (unsigned long long)t->missing_chunks);
    mtp__say(&d.advice, "'mtprof check' says where.");
    return mtp__find(c, &d, NULL);
}

mtp_status mtp__find_losses(mtp__case *c)
{
    const mtp_trace *t = c->t;
    uint64_t dropped = 0;
    mtp_drop most = MTP_DROP_BUDGET;
    if (t->without_times)
        return tell_no_times(c);
    mtp_status status = tell_damage(c);
    if (status == MTP_OK && c->whole <= 0)
        return tell_empty(c);
    for (int k = 0; t->has_ledger && k < MTP_DROP_CAUSES; k++) {
        if (k == MTP_DROP_OVERWRITTEN) /* on request */
            continue;
        dropped += t->ledger.dropped_by[k];
        most = t->ledger.dropped_by[k] > t->ledger.dropped_by[most] ? (mtp_drop)k : most;
    }
    if (status != MTP_OK || dropped == 0)
        return status;
    double share = t->ledger.emitted > 0 ? (double)dropped / (double)t->ledger.emitted : 1;
    mtp__draft d = {.id = "dropped-records",
                    .kind = MTP_FINDING_TRUST,
                    .confidence = MTP_CONFIDENCE_HIGH,
                    .urgent = share >= LOSS_URGENT};
    mtp__say(&d.title, "%llu records were dropped while recording (", (unsigned long long)dropped);
    mtp__say_share(&d.title, share);
    mtp__say(&d.title, ")");
    mtp__say(&d.text,
             "The main cause: %s. Counts and times are too small, and gaps may be ops that are missing.",
             mtp_drop_text(most));
    mtp__say(&d.advice, "%s",
             most == MTP_DROP_BUDGET
                 ? "Raise buffer_bytes, record to a file (spool), or keep the newest records."
                 : "See docs/reliability.md for the causes.");
    return mtp__find(c, &d, NULL);
}

mtp_status mtp__find_unfinished(mtp__case *c)
{
    const mtp_trace *t = c->t;
    mtp__evidence tally = {0};
    uint64_t count = 0;
    for (uint32_t i = 0; i < t->span_count; i++)
        if ((t->flags[i] & MTP__SPAN_UNFINISHED) != 0) {
            count++;
            mtp__evidence_span(&tally, c, i, mtp__case_time(c, i), false);
        }
    mtp_status status = tally.failed ? MTP_FAIL(MTP_E_NOMEM, "unfinished spans") : MTP_OK;
    /* a few are what was running when the recording stopped */
    if (status == MTP_OK && count > 100 && (double)count >= UNFINISHED_SHARE * t->span_count) {
        mtp__draft d = {
            .id = "unfinished-spans", .kind = MTP_FINDING_TRUST, .confidence = MTP_CONFIDENCE_HIGH};
        mtp__say(&d.title, "%llu of %u spans have no end", (unsigned long long)count, t->span_count);
        mtp__say(
            &d.text,
            "They are shown until the end of the recording, or of their thread, so that their times are too "
            "long.");
        mtp__say(&d.advice, "See whether records were dropped, and whether every scope is ended on the "
                            "thread that began it.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}

/* --------------------------------------------------------------------------------------------- devices */

mtp_status mtp__find_no_device(mtp__case *c)
{
    const mtp_trace *t = c->t;
    mtp__evidence tally = {0};
    uint64_t count = 0;
    for (uint32_t i = 0; i < t->span_count; i++) {
        if (mtp__category_on_device((mtp__category)t->category[i])) {
            mtp__evidence_fini(&tally);
            return MTP_OK;
        }
        if (mtp__is_runtime_call(t, i) && (mtp__case_name(c, i) & MTP__NAME_LAUNCH) != 0) {
            count++;
            mtp__evidence_span(&tally, c, i, mtp__case_time(c, i), false);
        }
    }
    mtp_status status = tally.failed ? MTP_FAIL(MTP_E_NOMEM, "launches") : MTP_OK;
    if (status == MTP_OK && count > 0) {
        mtp__draft d = {.id = "device-not-recorded",
                        .kind = MTP_FINDING_TRUST,
                        .confidence = MTP_CONFIDENCE_HIGH,
                        .urgent = true};
        mtp__say(&d.title, "Work was launched on a device, but the trace has none of it");
        mtp__say(&d.text, "%llu launches, and not one kernel: times below are those of the host alone.",
                 (unsigned long long)count);
        mtp__say(&d.advice,
                 "Record the device, too (ProfilerActivity.CUDA), and see whether another tool holds CUPTI.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}

/* ------------------------------------------------------------------------------------- the profiler's cost */

static mtp_status tell_estimate(mtp__case *c)
{
    const mtp_trace *t = c->t;
    double ops = 0, each = mtp__is_torchs(t) ? TORCH_OP_NS : OUR_OP_NS;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; k == c->main_track && i < track->first + track->count; i++)
            ops += mtp__has_external_id(t, i) && mtp__case_time(c, i) > 0;
    }
    if (ops * each < ESTIMATE_SHARE * c->whole || c->whole < MTP__SHORT_NS)
        return MTP_OK;
    mtp__draft d = {.id = "profiler-cost",
                    .kind = MTP_FINDING_TRUST,
                    .confidence = MTP_CONFIDENCE_LOW,
                    .spent = ops * each};
    mtp__say(&d.title, "Recording itself takes about ");
    mtp__say_share(&d.title, ops * each / c->whole);
    mtp__say(&d.title, " of the time, or more");
    mtp__say(
        &d.text,
        "%.0f events of the busiest thread at %s each, as measured elsewhere (docs/benchmarks.md), without "
        "shapes and stacks: small ops look slower here than they are.",
        ops, mtp__is_torchs(t) ? "0.3 us" : "25 ns");
    mtp__say(&d.advice,
             "Compare the time of a step with and without the profiler before acting on small differences.");
    return mtp__find(c, &d, NULL);
}

mtp_status mtp__find_cost(mtp__case *c)
{
    const mtp_trace *t = c->t;
    mtp__evidence tally = {0};
    double sum = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && i < track->first + track->count; i++)
            if (t->category[i] == MTP__CATEGORY_OVERHEAD && mtp__case_time(c, i) > 0 &&
                (t->parent[i] == MTP__NONE || t->category[t->parent[i]] != MTP__CATEGORY_OVERHEAD)) {
                sum += mtp__case_time(c, i);
                mtp__evidence_span(&tally, c, i, mtp__case_time(c, i), false);
            }
    }
    const mtp__alike *first = mtp__evidence_first(&tally);
    mtp_status status = tally.failed ? MTP_FAIL(MTP_E_NOMEM, "overhead") : MTP_OK;
    if (status == MTP_OK && first != NULL && sum >= OVERHEAD_SHARE * c->whole) {
        mtp__draft d = {.id = "profiler-overhead",
                        .kind = MTP_FINDING_TRUST,
                        .confidence = MTP_CONFIDENCE_HIGH,
                        .spent = sum};
        mtp__say(&d.title, "The profiler and the driver's own work take ");
        mtp__say_share(&d.title, sum / c->whole);
        mtp__say(&d.title, " of the time");
        mtp__say(&d.text, "Events of kind overhead took ");
        mtp__say_of_whole(&d.text, c, sum);
        mtp__say(&d.text, ", most of it ");
        mtp__say_name(&d.text, first->what);
        mtp__say(&d.text, ". A run without the profiler does not have them.");
        mtp__say(&d.advice, "Record after a few steps of warm-up (schedule(wait=1, warmup=2, active=5)), in "
                            "which kernels are "
                            "loaded and buffers are made.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status == MTP_OK ? tell_estimate(c) : status;
}
