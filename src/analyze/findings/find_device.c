/* analyze/findings/find_device.c - why devices were idle. See case.c for the causes of gaps. */
#include <stdlib.h>
#include "analyze/findings/findings.h"
#include "base/bisect.h"
#include "base/error.h"
#include "base/os.h"

#define LAUNCH_SHARE 0.2 /* of the time, spent in short gaps by late launches */
#define LAUNCH_KERNELS 50u
#define LAUNCH_GAPS 20u
#define LONG_NS 200000.0    /* a long gap: longer than this, ... */
#define LONG_MEDIANS 10.0   /* ... and than so many medians, ... */
#define LONG_ALWAYS_NS 1e6  /* ... or than this: no launch takes that long */
#define HOST_SHARE 0.1      /* of the time, spent in long gaps */
#define ALONE_NS 50000000.0 /* a gap that counts even if there is only one */
#define SYNC_SHARE 0.04     /* of the time, idle after synchronisation */
#define SYNC_LEAST 2u
#define TINY_NS 10000 /* a tiny kernel */
#define TINY_GAP_NS 20000
#define TINY_SHARE 0.1 /* of the time, between tiny kernels that were queued */
#define TINY_KERNELS 100u
#define UNKNOWN_SHARE 0.2
#define SAMPLES 65536u

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of at most SAMPLES of the values that `of` returns (negative: none); -1: out of memory. */
static double median(const mtp__case *c, uint32_t count, double (*of)(const mtp__case *c, uint32_t i))
{
    uint32_t step = count / SAMPLES + 1, n = 0;
    double *values = mtp__calloc((size_t)count / step + 1, sizeof *values), middle = 0;
    if (values == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i += step) {
        values[n] = of(c, i);
        n += values[n] >= 0;
    }
    if (n > 0) {
        qsort(values, n, sizeof *values, by_value);
        middle = values[n / 2];
    }
    mtp__free(values);
    return middle;
}

static double host_gap(const mtp__case *c, uint32_t i)
{
    return c->idle[i].cause == MTP__IDLE_HOST ? (double)(c->idle[i].end - c->idle[i].start) : -1;
}

static double kernel_time(const mtp__case *c, uint32_t i)
{
    return c->work[i].kind == MTP__WORK_KERNEL ? (double)(c->work[i].end - c->work[i].start) : -1;
}

/* From one launch to the next, on the same thread. */
static double launch_interval(const mtp__case *c, uint32_t i)
{
    if (i == 0 || c->work[i].call == MTP__NONE || c->work[i - 1].call == MTP__NONE)
        return -1;
    return (double)c->t->start[c->work[i].call] - (double)c->t->start[c->work[i - 1].call];
}

typedef struct host_gaps {
    double limit; /* longer gaps are long */
    double short_sum, long_sum, longest;
    uint32_t shorts, longs;
} host_gaps;

static double overlap(const mtp_trace *t, uint32_t span, const mtp__idle *gap)
{
    int64_t a = t->start[span] > gap->start ? t->start[span] : gap->start,
            b = t->end[span] < gap->end ? t->end[span] : gap->end;
    return b > a ? (double)(b - a) : 0;
}

static bool is_outermost(const mtp__case *c, uint32_t span)
{
    return c->owner[span] == span &&
           (c->t->parent[span] == MTP__NONE || c->owner[c->t->parent[span]] == MTP__NONE);
}

/* Was the thread that launched next in ops and calls for most of a gap? Then it was launching, only slowly. */
bool mtp__case_is_launching(const mtp__case *c, const mtp__idle *gap)
{
    const mtp_trace *t = c->t;
    uint32_t track = mtp__trace_track_of(t, gap->call), low = t->tracks[track].first,
             end = low + t->tracks[track].count, high = end;
    double busy = 0;
    uint32_t around = mtp__trace_span_at(t, track, gap->start);
    while (around != MTP__NONE && !is_outermost(c, around))
        around = t->parent[around];
    MTP__BISECT(low, high, mid, t->start[mid] < gap->start)
    if (around != MTP__NONE && around < low)
        busy += overlap(t, around, gap);
    for (uint32_t i = low; i < end && t->start[i] < gap->end; i++)
        busy += is_outermost(c, i) ? overlap(t, i, gap) : 0;
    return busy >= 0.5 * (double)(gap->end - gap->start);
}

/* A gap in which the host did something else than launching. */
static bool is_long(const mtp__case *c, const host_gaps *g, uint32_t i)
{
    return host_gap(c, i) > g->limit && !mtp__case_is_launching(c, &c->idle[i]);
}

static bool measure(const mtp__case *c, host_gaps *g)
{
    double middle = median(c, c->idles, host_gap);
    *g = (host_gaps){.limit = middle * LONG_MEDIANS > LONG_NS ? middle * LONG_MEDIANS : LONG_NS};
    g->limit = g->limit < LONG_ALWAYS_NS ? g->limit : LONG_ALWAYS_NS;
    for (uint32_t i = 0; i < c->idles; i++) {
        double ns = host_gap(c, i);
        if (is_long(c, g, i))
            g->long_sum += ns, g->longs++, g->longest = ns > g->longest ? ns : g->longest;
        else if (ns >= 0)
            g->short_sum += ns, g->shorts++;
    }
    return middle >= 0;
}

static uint32_t kernels(const mtp__case *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->works; i++)
        n += c->work[i].kind == MTP__WORK_KERNEL;
    return n;
}

static mtp_status none_left(const char *what)
{
    return MTP_FAIL(MTP_E_NOMEM, "%s", what);
}

/* -------------------------------------------------------------------------------------------- launches */

mtp_status mtp__find_launches(mtp__case *c)
{
    host_gaps g;
    if (!c->has_device)
        return MTP_OK;
    if (!measure(c, &g))
        return none_left("gaps between kernels");
    uint32_t count = kernels(c);
    if (g.short_sum < LAUNCH_SHARE * c->whole || count < LAUNCH_KERNELS || g.shorts < LAUNCH_GAPS)
        return MTP_OK;
    double kernel = median(c, c->works, kernel_time), interval = median(c, c->works, launch_interval);
    if (kernel < 0 || interval < 0)
        return none_left("times of kernels");
    if (kernel >= interval)
        return MTP_OK; /* the device would keep up: something else is wrong */
    mtp__draft d = {.id = "device-idle-launch-bound",
                    .kind = MTP_FINDING_TIME,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .spent = g.short_sum,
                    .gain = g.short_sum / 2};
    mtp__say(&d.title, "The device waits for launches ");
    mtp__say_share(&d.title, g.short_sum / c->whole);
    mtp__say(&d.title, " of the time");
    mtp__say(&d.text, "Between kernels the device was idle for ");
    mtp__say_of_whole(&d.text, c, g.short_sum);
    mtp__say(&d.text, ", in %u gaps, because the next kernel had not been launched yet. ", g.shorts);
    mtp__say(&d.text, "The median kernel takes ");
    mtp__say_time(&d.text, kernel);
    mtp__say(&d.text, ", but the host launches one only every ");
    mtp__say_time(&d.text, interval);
    mtp__say(&d.text, mtp__case_is_device_bound(c)
                          ? ": wherever kernels are that short, the host is the bottleneck."
                          : ": the host is the bottleneck, and faster kernels would not help.");
    mtp__say(&d.advice,
             "Launch fewer, larger kernels: a larger batch, torch.compile, CUDA graphs, fused optimizers "
             "(fused=True). Measure again without stacks and shapes, which slow the host down.");
    mtp__evidence tally = {0};
    for (uint32_t i = 0; i < c->works; i++)
        if (c->work[i].kind == MTP__WORK_KERNEL)
            mtp__evidence_span(&tally, c, c->work[i].span, kernel_time(c, i), false);
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}

/* ----------------------------------------------------------------------------------------- synchronising */

/* The op that waits, such as aten::item, else the call. */
static uint32_t waiting_op(const mtp__case *c, uint32_t call)
{
    uint32_t op = call;
    for (uint32_t up = c->t->parent[call]; up != MTP__NONE; up = c->t->parent[up])
        op = c->t->category[up] == MTP__CATEGORY_CPU_OP && !mtp__is_of_backward(c->t, up) ? up : op;
    return op;
}

mtp_status mtp__find_syncs(mtp__case *c)
{
    mtp__evidence tally = {0};
    double sum = 0;
    uint32_t count = 0, last = MTP__NONE;
    for (uint32_t i = 0; i < c->idles; i++)
        if (c->idle[i].cause == MTP__IDLE_SYNC) {
            const mtp__idle *gap = &c->idle[i];
            sum += (double)(gap->end - gap->start);
            count += gap->blame != last;
            last = gap->blame;
            mtp__evidence_span(&tally, c, waiting_op(c, gap->blame), (double)(gap->end - gap->start), true);
        }
    const mtp__alike *first = mtp__evidence_first(&tally);
    mtp_status status = MTP_OK;
    if (tally.failed)
        status = none_left("synchronisations");
    if (!tally.failed && first != NULL && count >= SYNC_LEAST && sum >= SYNC_SHARE * c->whole) {
        mtp__draft d = {
            .id = "synchronisation",
            .kind = MTP_FINDING_TIME,
            .confidence = MTP_CONFIDENCE_HIGH,
            .spent = sum,
            /* what runs on the host at the same time as the device saves no more than the device takes */
            .gain = sum / 2 < c->device_busy ? sum / 2 : c->device_busy};
        mtp__say(&d.title, "Waiting for the device leaves it idle ");
        mtp__say_share(&d.title, sum / c->whole);
        mtp__say(&d.title, " of the time");
        mtp__say(&d.text,
                 "%u times the host waited until the device had finished everything, and launched more only "
                 "then: the device stood idle for ",
                 count);
        mtp__say_of_whole(&d.text, c, sum);
        mtp__say(&d.text, ". Most of it follows ");
        mtp__say_name(&d.text, first->what);
        mtp__say_source(&d.text, first->source);
        mtp__say(&d.text, ", ");
        mtp__say_count(&d.text, first->calls, "time", "times");
        mtp__say(&d.text, ".");
        mtp__say(&d.advice,
                 "Do not read results on the host in every step: .item(), .cpu(), print, nonzero and "
                 "boolean indexing wait for the device. Keep losses on the device and read them every "
                 "hundred steps.%s",
                 first->source.length == 0 ? " Record with stacks (with_stack=True) to see which line it is."
                                           : "");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}

/* ----------------------------------------------------------------------------------------------- the host */

mtp_status mtp__find_host_gaps(mtp__case *c)
{
    host_gaps g;
    if (!c->has_device)
        return MTP_OK;
    if (!measure(c, &g))
        return none_left("gaps between kernels");
    /* one gap alone may be the system's: other programs run */
    if (g.long_sum < HOST_SHARE * c->whole ||
        (g.longest < ALONE_NS && g.long_sum - g.longest < HOST_SHARE / 2 * c->whole))
        return MTP_OK;
    mtp__evidence tally = {0};
    for (uint32_t i = 0; i < c->idles; i++)
        if (is_long(c, &g, i))
            mtp__evidence_gap(&tally, c, &c->idle[i], host_gap(c, i));
    mtp__draft d = {.id = "device-idle-host",
                    .kind = mtp__case_may_serve(c) ? MTP_FINDING_NOTE : MTP_FINDING_TIME,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .spent = g.long_sum,
                    .gain = mtp__case_may_serve(c) ? 0 : g.long_sum / 2};
    mtp__say(&d.title, "The device waits for the host ");
    mtp__say_share(&d.title, g.long_sum / c->whole);
    mtp__say(&d.title, " of the time");
    mtp__say(&d.text, "The device was idle for ");
    mtp__say_of_whole(&d.text, c, g.long_sum);
    mtp__say(&d.text, " in ");
    mtp__say_count(&d.text, g.longs, "long gap", "long gaps");
    mtp__say(&d.text, ", while the host %s.",
             mtp__case_may_serve(c) ? "waited, for requests perhaps, or did something else than launching"
                                    : "did something else than launching");
    const mtp__alike *first = mtp__evidence_first(&tally);
    if (first != NULL && first->what.length > 0) {
        mtp__say(&d.text, " Most of it is in ");
        mtp__say_name(&d.text, first->what);
        mtp__say_source(&d.text, first->source);
        mtp__say(&d.text, ".");
    }
    mtp__say(&d.advice,
             "Look at what the host does there ('mtprof steps' lists the longest gaps): preprocessing, "
             "logging, checkpoints, metrics. Move it to another thread or process, or do it less often.");
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}

/* --------------------------------------------------------------------------------------------- the device */

mtp_status mtp__find_tiny_kernels(mtp__case *c)
{
    double gaps = 0;
    uint32_t count = 0, all = kernels(c);
    mtp__evidence tally = {0};
    for (uint32_t i = 0; i < c->idles; i++) {
        const mtp__idle *gap = &c->idle[i];
        double ns = (double)(gap->end - gap->start);
        if (gap->cause == MTP__IDLE_QUEUED && ns <= TINY_GAP_NS &&
            mtp__case_time(c, gap->before) <= TINY_NS && gap->after != MTP__NONE &&
            mtp__case_time(c, gap->after) <= TINY_NS)
            gaps += ns;
    }
    for (uint32_t i = 0; i < c->works && gaps > 0; i++)
        if (kernel_time(c, i) >= 0 && kernel_time(c, i) <= TINY_NS) {
            mtp__evidence_span(&tally, c, c->work[i].span, kernel_time(c, i), false);
            count++;
        }
    mtp_status status = tally.failed ? none_left("kernels") : MTP_OK;
    if (!tally.failed && gaps >= TINY_SHARE * c->whole && count >= TINY_KERNELS && count >= all / 2) {
        mtp__draft d = {.id = "tiny-kernels",
                        .kind = MTP_FINDING_TIME,
                        .confidence = MTP_CONFIDENCE_MEDIUM,
                        .spent = gaps,
                        .gain = gaps / 2};
        mtp__say(&d.title, "%u of %u kernels take less than 10 us", count, all);
        mtp__say(&d.text,
                 "The host keeps the device supplied, but between so many tiny kernels it still loses ");
        mtp__say_of_whole(&d.text, c, gaps);
        mtp__say(&d.text, ": each start costs it some microseconds.");
        mtp__say(&d.advice,
                 "Fuse elementwise operations (torch.compile), use fused or foreach optimizers, enlarge the "
                 "batch, or capture the step in a CUDA graph.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}

/* Idle, but the trace does not say why: device work without the calls that launched it. */
mtp_status mtp__find_idle_device(mtp__case *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->idles; i++)
        sum += c->idle[i].cause == MTP__IDLE_UNKNOWN ? (double)(c->idle[i].end - c->idle[i].start) : 0;
    if (sum < UNKNOWN_SHARE * c->whole)
        return MTP_OK;
    mtp__draft d = {.id = "device-idle-unexplained",
                    .kind = MTP_FINDING_NOTE,
                    .confidence = MTP_CONFIDENCE_HIGH,
                    .spent = sum};
    mtp__say(&d.title, "The device is idle ");
    mtp__say_share(&d.title, sum / c->whole);
    mtp__say(&d.title, " of the time, for a reason that was not recorded");
    mtp__say(&d.text, "The device was idle for ");
    mtp__say_of_whole(&d.text, c, sum);
    mtp__say(&d.text,
             ". The calls that launched what came next are not in the trace, so it does not show what the "
             "host was doing.");
    mtp__say(&d.advice, "Record the host as well: ProfilerActivity.CPU in addition to the device.");
    return mtp__find(c, &d, NULL);
}
