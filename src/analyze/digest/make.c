/* analyze/digest/make.c - a trace's steps and events -> a digest; sums of digests; asking. */
#include <math.h>
#include <string.h>
#include "analyze/digest/digest.h"
#include "analyze/steps.h"
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"
#include "trace/facts.h"
#include "trace/who.h"

/* ---------------------------------------------------------------------------------------------- making */

typedef struct making {
    mtp__digest_sum sum;
    const mtp_trace *t;
    mtp_steps *steps;
    mtp_events *events;
    uint32_t *part_of_step; /* by row of steps */
    uint32_t job, host;
    int64_t rank;
    uint32_t outside; /* part of what is in no step; NONE: none yet */
} making;

static int64_t in_ns(double us)
{
    return mtp__whole_ns(us >= 0 ? us * 1000 + 0.5 : us * 1000 - 0.5);
}

static int64_t unix_ns(const mtp_trace *t, int64_t ns)
{
    return (int64_t)((uint64_t)t->base_ns + (uint64_t)ns);
}

static uint32_t part_of(making *m, uint32_t row)
{
    const mtp_step_row *r = &m->steps->rows[row];
    mtp_digest_entry e = {
        .rank = m->rank, .step = r->number, .steps = 1, .start_ns = unix_ns(m->t, r->start_ns)};
    if (m->steps->whole_trace)
        e.step = MTP_DIGEST_OUTSIDE;
    e.wall_ns = r->times.wall_ns;
    e.cpu_ns = r->times.cpu_ns;
    e.device_ns = r->times.device_ns;
    e.idle_ns = r->times.idle_ns;
    e.both_ns = r->times.both_ns;
    return mtp__digest_sum_part(&m->sum, m->job, m->host, &e, 0);
}

static uint32_t outside_part(making *m, int64_t start)
{
    if (m->outside == MTP__DIGEST_NONE) {
        mtp_digest_entry e = {.rank = m->rank, .step = MTP_DIGEST_OUTSIDE, .start_ns = unix_ns(m->t, start)};
        m->outside = mtp__digest_sum_part(&m->sum, m->job, m->host, &e, 0);
    }
    return m->outside;
}

static void add_event(making *m, const mtp_event *e, uint32_t part)
{
    int64_t ns = in_ns(e->is_device ? e->device_time_total : e->cpu_time_total);
    mtp_digest_op op = {
        .is_device = e->is_device, .calls = 1, .total_ns = ns, .min_ns = ns, .max_ns = ns, .names = 1};
    op.self_ns = in_ns(e->is_device ? e->self_device_time_total : e->self_cpu_time_total);
    op.device_ns = e->is_device ? 0 : in_ns(e->self_device_time_total);
    uint32_t name = mtp__digest_text(&m->sum, e->key.bytes, e->key.length);
    uint32_t row = mtp__digest_sum_row(&m->sum, part, name, &op);
    if (row != MTP__DIGEST_NONE)
        mtp__digest_sum_calls(&m->sum, row, mtp__bucket_of(ns > 0 ? (uint64_t)ns : 0), 1);
}

static mtp_status add_events(making *m)
{
    size_t count;
    mtp_status status = mtp_events_count(m->events, &count);
    int64_t zero = mtp_events_zero_ns(m->events);
    mtp__step_counting at = {m->steps->rows, m->steps->count, 0, m->steps->whole_trace};
    for (size_t i = 0; status == MTP_OK && i < count && !m->sum.failed; i++) {
        mtp_event e = {.size = sizeof e};
        status = mtp_events_get(m->events, i, &e);
        if (status != MTP_OK || e.kind == MTP_EVENT_PYTHON || e.kind == MTP_EVENT_MODULE ||
            e.kind == MTP_EVENT_MEMORY)
            continue;
        int64_t start = (int64_t)((uint64_t)e.start_ns + (uint64_t)zero);
        mtp_step_row *row = m->steps->count > 0 ? mtp__step_row_at(&at, start) : NULL;
        uint32_t part = row != NULL ? m->part_of_step[row - m->steps->rows] : outside_part(m, start);
        if (part != MTP__DIGEST_NONE)
            add_event(m, &e, part);
    }
    return status;
}

static mtp_status make(making *m, mtp_digest **out)
{
    mtp_status status = mtp_steps_create(m->t, &m->steps);
    if (status == MTP_OK)
        status = mtp_events_create(m->t, &m->events);
    if (status != MTP_OK)
        return status;
    m->part_of_step = mtp__calloc((size_t)m->steps->count + 1, sizeof *m->part_of_step);
    if (m->part_of_step == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u steps", m->steps->count);
    for (uint32_t i = 0; i < m->steps->count; i++)
        m->part_of_step[i] = part_of(m, i);
    status = add_events(m);
    return status == MTP_OK ? mtp__digest_sum_finish(&m->sum, out) : status;
}

static uint32_t text_of(mtp__digest_sum *s, const char *given, mtp_text found)
{
    return given != NULL ? mtp__digest_text(s, given, strlen(given))
                         : mtp__digest_text(s, found.bytes, found.length);
}

mtp_status mtp_digest_create(const mtp_trace *trace, const mtp_digest_options *options, mtp_digest **out)
{
    mtp_digest_options known = MTP_DIGEST_OPTIONS_INIT;
    if (out == NULL || trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", out == NULL ? "out" : "trace");
    *out = NULL;
    mtp_status status = MTP__ABI_READ(&known, options, mtp_digest_options, rank);
    if (status != MTP_OK)
        return status;
    mtp__who who;
    if (!mtp__who_read(&who, trace, NULL))
        return MTP_FAIL(MTP_E_NOMEM, "the digest");
    making m = {.t = trace,
                .outside = MTP__DIGEST_NONE,
                .rank = known.rank >= 0 ? known.rank
                        : who.rank >= 0 ? who.rank
                                        : 0};
    if (!mtp__digest_sum_init(&m.sum)) {
        mtp__who_fini(&who);
        return MTP_FAIL(MTP_E_NOMEM, "the digest");
    }
    m.job = text_of(&m.sum, known.job, who.job);
    m.host = text_of(&m.sum, known.host, who.host);
    mtp__who_fini(&who);
    status = make(&m, out);
    mtp_events_destroy(m.events);
    mtp_steps_destroy(m.steps);
    mtp__free(m.part_of_step);
    mtp__digest_sum_fini(&m.sum);
    return status;
}

/* --------------------------------------------------------------------------------------- sums of digests */

mtp_status mtp_digest_sum(const mtp_digest *const *digests, size_t count, uint32_t by, mtp_digest **out)
{
    mtp__digest_sum sum;
    if (out == NULL || (digests == NULL && count > 0))
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", out == NULL ? "out" : "digests");
    *out = NULL;
    if ((by & ~(uint32_t)MTP_DIGEST_BY_ALL) != 0)
        return MTP_FAIL(MTP_E_ARG, "by = %u has bits other than MTP_DIGEST_BY_*", by);
    if (!mtp__digest_sum_init(&sum))
        return MTP_FAIL(MTP_E_NOMEM, "the digest");
    for (size_t i = 0; i < count; i++)
        mtp__digest_sum_all(&sum, digests[i], by);
    mtp_status status = mtp__digest_sum_finish(&sum, out);
    for (size_t i = 0; i < count && status == MTP_OK; i++)
        (*out)->damaged += digests[i]->damaged;
    return status;
}

/* ------------------------------------------------------------------------------------------------ asking */

size_t mtp_digest_count(const mtp_digest *d)
{
    return d != NULL ? d->part_count : 0;
}

uint64_t mtp_digest_damaged(const mtp_digest *d)
{
    return d != NULL ? d->damaged : 0;
}

const mtp_digest_entry *mtp_digest_entry_at(const mtp_digest *d, size_t index)
{
    return d != NULL && index < d->part_count ? &d->part[index].shown : NULL;
}

static const mtp__digest_row *row_at(const mtp_digest *d, size_t entry, size_t op)
{
    if (d == NULL || entry >= d->part_count || op >= d->part[entry].shown.op_count)
        return NULL;
    return &d->row[d->part[entry].first_row + op];
}

const mtp_digest_op *mtp_digest_op_at(const mtp_digest *d, size_t entry, size_t op)
{
    const mtp__digest_row *r = row_at(d, entry, op);
    return r != NULL ? &r->shown : NULL;
}

/* The middle of the bucket, within min and max. */
int64_t mtp_digest_quantile(const mtp_digest *d, size_t entry, size_t op, double quantile, double *error)
{
    const mtp__digest_row *r = row_at(d, entry, op);
    if (error != NULL)
        *error = 0;
    if (r == NULL || !(quantile >= 0 && quantile <= 1))
        return -1;
    uint32_t shift = d->part[entry].shift;
    uint64_t all = 0, before = 0;
    for (uint32_t b = 0; b < r->bucket_count; b++)
        all += d->bucket[r->first_bucket + b].calls;
    if (all == 0) /* "(others)" */
        return -1;
    double rank = ceil(quantile * (double)all) - 1; /* the nearest rank */
    if (rank <= 0 || rank >= (double)all - 1)
        return rank <= 0 ? r->shown.min_ns : r->shown.max_ns;
    for (uint32_t b = 0; b < r->bucket_count; b++) {
        const mtp__digest_bucket *bucket = &d->bucket[r->first_bucket + b];
        before += bucket->calls;
        if ((double)before <= rank)
            continue;
        uint64_t low = mtp__bucket_low(bucket->bucket << shift),
                 high = mtp__bucket_low((bucket->bucket + 1) << shift);
        int64_t least = (int64_t)low, most = (int64_t)(high - 1);
        least = least < r->shown.min_ns ? r->shown.min_ns : least;
        most = most > r->shown.max_ns ? r->shown.max_ns : most;
        int64_t middle = least + (most - least) / 2;
        if (error != NULL && middle > 0)
            *error = (double)(most - middle) / (double)(least > 0 ? least : 1);
        return middle;
    }
    return r->shown.max_ns;
}
