/* analyze/findings/findings.c - see mtprof_analysis.h, "findings": the rules, their order, the ranking. */
#include "analyze/findings/findings.h"
#include <stdlib.h>
#include <string.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"

static mtp__rule *const rules[] = {
    mtp__find_losses,    mtp__find_unfinished,     mtp__find_no_device,    mtp__find_growth,
    mtp__find_outliers,  mtp__find_loading,        mtp__find_syncs,        mtp__find_launches,
    mtp__find_host_gaps, mtp__find_tiny_kernels,   mtp__find_copies,       mtp__find_collectives,
    mtp__find_gaps,      mtp__find_collector,      mtp__find_casts,        mtp__find_layouts,
    mtp__find_backward,  mtp__find_plain_products, mtp__find_odd_products, mtp__find_fragments,
    mtp__find_peak,      mtp__find_idle_device,    mtp__find_optimizer,    mtp__find_dominant,
    mtp__find_cost,
};

/* Of a trace without times, or of no length, only these make sense. */
static mtp__rule *const timeless[] = {mtp__find_losses};

/* Urgent ones; then by time to be saved; then what is not about time, in the order of the rules. */
static int by_rank(const void *a, const void *b)
{
    const mtp__found *x = a, *y = b;
    if (x->urgent != y->urgent)
        return x->urgent ? -1 : 1;
    if (x->row.gain_ns != y->row.gain_ns)
        return x->row.gain_ns > y->row.gain_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static mtp_status run(mtp__case *c, mtp__rule *const *list, size_t count)
{
    mtp_status status = MTP_OK;
    for (size_t i = 0; i < count && status == MTP_OK; i++)
        status = list[i](c);
    return status;
}

static void summarise(const mtp__case *c, mtp_findings *f)
{
    mtp_findings_summary *s = &f->summary;
    s->start_ns = c->from;
    s->end_ns = c->to;
    s->whole_ns = mtp__whole_ns(c->whole);
    s->warm_up = c->first_step;
    double cpu = 0, device = 0, idle = 0, beside = 0; /* before and after it worked */
    for (uint32_t i = c->first_step; i < c->steps->count; i++) {
        if (mtp__case_is_late(&c->steps->rows[i])) {
            s->outliers++;
            continue;
        }
        bool is_rest = i + 1 == c->steps->count && c->has_ops && c->has_rest;
        s->steps += c->is_stepped && !is_rest;
        cpu += (double)c->steps->rows[i].times.cpu_ns;
        device += (double)c->steps->rows[i].times.device_ns;
        idle += (double)c->steps->rows[i].times.idle_ns;
        const mtp_step_row *row = &c->steps->rows[i];
        beside =
            c->is_stepped ? 0 : (double)c->from - (double)row->start_ns + (double)row->end_ns - (double)c->to;
    }
    s->cpu_ns = mtp__whole_ns(cpu);
    s->device_ns = mtp__whole_ns(device);
    s->idle_ns = mtp__whole_ns(idle > beside ? idle - beside : 0);
}

static mtp_status examine(mtp_findings *f, const mtp_findings_options *options)
{
    mtp__case c;
    mtp_status status = mtp__case_init(&c, f->trace, f);
    c.options = *options;
    if (status == MTP_OK)
        summarise(&c, f);
    bool timed = c.whole > 0 && !f->trace->without_times;
    if (status == MTP_OK && timed)
        status = mtp__case_devices(&c);
    if (status == MTP_OK)
        status = timed ? run(&c, rules, sizeof rules / sizeof *rules)
                       : run(&c, timeless, sizeof timeless / sizeof *timeless);
    mtp__case_fini(&c);
    if (status == MTP_OK && f->count > 1)
        qsort(f->list, f->count, sizeof *f->list, by_rank);
    return status;
}

mtp_status mtp_findings_create(const mtp_trace *t, const mtp_findings_options *options, mtp_findings **out)
{
    mtp_findings_options o = MTP_FINDINGS_OPTIONS_INIT;
    if (t == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or out is NULL");
    *out = NULL;
    mtp_status status = MTP__ABI_READ(&o, options, mtp_findings_options, least);
    if (status != MTP_OK)
        return status;
    if (!(o.least >= 0 && o.least <= 1))
        return MTP_FAIL(MTP_E_ARG, "least: a share is between 0 and 1");
    mtp_findings *f = mtp__calloc(1, sizeof *f);
    if (f == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "findings");
    f->trace = t;
    f->summary = (mtp_findings_summary)MTP_FINDINGS_SUMMARY_INIT;
    status = examine(f, &o);
    if (status == MTP_OK)
        *out = f;
    else
        mtp_findings_destroy(f);
    return status;
}

void mtp_findings_destroy(mtp_findings *f)
{
    for (uint32_t i = 0; f != NULL && i < f->count; i++) {
        mtp__free((char *)(uintptr_t)f->list[i].row.title.bytes);
        mtp__free((char *)(uintptr_t)f->list[i].row.text.bytes);
        mtp__free((char *)(uintptr_t)f->list[i].row.advice.bytes);
    }
    if (f != NULL)
        mtp__free(f->list);
    mtp__free(f);
}

size_t mtp_findings_count(const mtp_findings *f)
{
    return f != NULL ? f->count : 0;
}

const mtp_finding_row *mtp_findings_row(const mtp_findings *f, size_t index)
{
    return f != NULL && index < f->count ? &f->list[index].row : NULL;
}

const mtp_evidence *mtp_findings_evidence(const mtp_findings *f, size_t index, size_t evidence)
{
    const mtp_finding_row *row = mtp_findings_row(f, index);
    return row != NULL && evidence < row->evidence_count ? &f->list[index].evidence[evidence] : NULL;
}

mtp_status mtp_findings_get_summary(const mtp_findings *f, mtp_findings_summary *out)
{
    if (f == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "findings or out is NULL");
    mtp_status status = MTP__ABI_CHECK(out, mtp_findings_summary, process);
    if (status == MTP_OK)
        mtp__abi_write(out, &f->summary, sizeof f->summary);
    return status;
}
