/* present/report/report.c - an HTML report: one file with the page and all data. */
#include <string.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/file_out.h"
#include "base/guard.h"
#include "present/report/report.h"

#define TRACES_MAX 2
#define SHAPE_ROWS 5000 /* of the averages by shape and by stack: the largest */
#define STACK_FRAMES 5

typedef struct report {
    mtp__out out;
    mtp__blob blob;
    mtp__plan plan;
    mtp_report_options options;
} report;

/* --------------------------------------------------------------------------------------------- operators */

typedef struct grouping {
    const char *key;
    bool by_shape;
    uint32_t by_stack;
} grouping;

static mtp_status put_rows(mtp__out *o, const mtp_trace *t, const grouping *g)
{
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    mtp_averages *rows;
    options.by_input_shape = g->by_shape;
    options.by_stack = g->by_stack;
    options.python_stacks = g->by_stack > 0;
    mtp_status status = mtp_averages_create(t, &options, &rows);
    if (status != MTP_OK)
        return status;
    if (g->by_shape || g->by_stack > 0) {
        status = mtp_averages_sort(rows, "self_cpu_time_total");
        mtp_averages_limit(rows, SHAPE_ROWS);
    }
    mtp__out_text(o, g->key);
    MTP__OUT(o, "_count\": ");
    mtp__out_u64(o, mtp_averages_count(rows));
    MTP__OUT(o, ",\n");
    mtp__out_text(o, g->key);
    MTP__OUT(o, "\": ");
    mtp__out_flush(o);
    if (status == MTP_OK)
        status = mtp_averages_json(rows, o->sink, o->user);
    mtp_averages_destroy(rows);
    return status;
}

/* What `mtprof stats --json` prints, by name and, where they were recorded, by shape and by stack. */
static mtp_status put_operators(const mtp__plan *p, mtp__blob *b)
{
    static const grouping by_name = {"\"name", false, 0}, by_shape = {"\"shape", true, 0},
                          by_stack = {"\"stack", false, STACK_FRAMES};
    mtp__out o;
    mtp_status status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "{");
    status = put_rows(&o, p->t, &by_name);
    if (status == MTP_OK && p->t->shape_count > 1) {
        MTP__OUT(&o, ", ");
        status = put_rows(&o, p->t, &by_shape);
    }
    if (status == MTP_OK && p->t->stack_count > 1) {
        MTP__OUT(&o, ", ");
        status = put_rows(&o, p->t, &by_stack);
    }
    MTP__OUT(&o, "}");
    mtp_status written = mtp__out_finish(&o);
    return status != MTP_OK ? status : written;
}

static mtp_status put_findings(const mtp__plan *p, mtp__blob *b)
{
    mtp_findings *findings;
    mtp_status status = mtp_findings_create(p->t, NULL, &findings);
    if (status != MTP_OK)
        return status;
    status = mtp_findings_json(findings, mtp__blob_sink, b);
    mtp_findings_destroy(findings);
    return status;
}

/* Folded stacks: the page makes a tree of them. */
static mtp_status put_stacks(const mtp__plan *p, mtp__blob *b)
{
    return mtp_trace_folded(p->t, "self_cpu_time_total", mtp__blob_sink, b);
}

static mtp_status put_device_stacks(const mtp__plan *p, mtp__blob *b)
{
    return mtp_trace_folded(p->t, "self_device_time_total", mtp__blob_sink, b);
}

/* ------------------------------------------------------------------------------------------------ compare */

static mtp_status put_diff(mtp__blob *b, const mtp_trace *const *traces)
{
    mtp_diff *diff;
    mtp_status status = mtp_diff_create(traces[0], traces[1], NULL, &diff);
    if (status != MTP_OK)
        return status;
    mtp_words_options words = MTP_WORDS_OPTIONS_INIT;
    words.width = 0;
    mtp_diff_limit(diff, SHAPE_ROWS);
    status = mtp_diff_json(diff, mtp__blob_sink, b);
    mtp__blob_sink(b, "", 1); /* the words follow a zero byte */
    if (status == MTP_OK)
        status = mtp_diff_text(diff, &words, mtp__blob_sink, b);
    mtp_diff_destroy(diff);
    return status;
}

/* -------------------------------------------------------------------------------------------------- file */

typedef mtp_status writing(const mtp__plan *p, mtp__blob *b);

static mtp_status put_part(report *r, const char *id, unsigned trace, writing *write)
{
    mtp_status status = mtp__blob_begin(&r->blob, &r->out, id, trace);
    return status != MTP_OK ? status : mtp__blob_end(&r->blob, write(&r->plan, &r->blob));
}

static mtp_status put_head(report *r, unsigned trace)
{
    mtp_status status = mtp__blob_begin(&r->blob, &r->out, "head", trace);
    const char *name = r->options.names != NULL ? r->options.names[trace] : r->plan.t->source;
    return status != MTP_OK
               ? status
               : mtp__blob_end(&r->blob, mtp__report_head(&r->plan, &r->blob, name, &r->options));
}

/* The page that comes first, if there are ranks. */
static mtp_status put_ranks(report *r)
{
    if (r->options.ranks == NULL || r->options.only != NULL)
        return MTP_OK;
    mtp_status status = mtp__blob_begin(&r->blob, &r->out, "ranks", 0);
    return status != MTP_OK ? status : mtp__blob_end(&r->blob, mtp__report_ranks(r->options.ranks, &r->blob));
}

/* What is shown first comes first. */
static mtp_status put_trace(report *r, const mtp_trace *trace, unsigned number)
{
    static const struct {
        const char *id;
        writing *write;
    } parts[] = {
        {"findings", put_findings},     {"operators", put_operators},
        {"labels", mtp__report_labels}, {"levels", mtp__report_levels},
        {"spans", mtp__report_spans},   {"details", mtp__report_details},
        {"links", mtp__report_links},   {"counters", mtp__report_counters},
        {"memory", mtp__report_memory}, {"flame", mtp__report_flame},
        {"stacks", put_stacks},         {"device_stacks", put_device_stacks},
    };
    mtp_status status = mtp__plan_init(&r->plan, trace, r->options.max_spans);
    if (status == MTP_OK)
        status = put_head(r, number);
    if (number == 0)
        mtp__out_text(&r->out, mtp__page_script);
    if (number == 0 && status == MTP_OK)
        status = put_ranks(r);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == MTP_OK; i++)
        if (r->options.only == NULL || strcmp(r->options.only, parts[i].id) == 0)
            status = put_part(r, parts[i].id, number, parts[i].write);
    mtp__plan_fini(&r->plan);
    return status;
}

static mtp_status put_report(report *r, const mtp_trace *const *traces, size_t count)
{
    mtp_status status = MTP_OK;
    mtp__out_text(&r->out, mtp__page_top);
    for (size_t i = 0; i < count && status == MTP_OK; i++)
        status = put_trace(r, traces[i], (unsigned)i);
    if (status == MTP_OK && count > 1) {
        status = mtp__blob_begin(&r->blob, &r->out, "diff", 0);
        if (status == MTP_OK)
            status = mtp__blob_end(&r->blob, put_diff(&r->blob, traces));
    }
    mtp__out_text(&r->out, mtp__page_end);
    return status;
}

mtp_status mtp_report_write(const mtp_trace *const *traces, size_t count, const mtp_report_options *options,
                            mtp_sink *sink, void *user)
{
    if (traces == NULL || count == 0 || count > TRACES_MAX)
        return MTP_FAIL(MTP_E_ARG, "a report shows one trace, or compares two; %zu were given",
                        traces != NULL ? count : 0);
    for (size_t i = 0; i < count; i++)
        if (traces[i] == NULL)
            return MTP_FAIL(MTP_E_ARG, "trace %zu is NULL", i);
    report *r = mtp__calloc(1, sizeof *r);
    if (r == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a report");
    r->options = (mtp_report_options)MTP_REPORT_OPTIONS_INIT;
    mtp_status status = MTP__ABI_READ(&r->options, options, mtp_report_options, device);
    if (status == MTP_OK && r->options.only != NULL && strcmp(r->options.only, "memory") != 0)
        status =
            MTP_FAIL(MTP_E_ARG, "only '%.40s': the page that can stand alone is 'memory'", r->options.only);
    if (status == MTP_OK)
        status = mtp__out_init(&r->out, sink, user);
    if (status == MTP_OK) {
        status = put_report(r, traces, count);
        mtp_status written = mtp__out_finish(&r->out);
        status = status != MTP_OK ? status : written;
    }
    mtp__free(r);
    return status;
}

mtp_status mtp_export_report(const mtp_trace *const *traces, size_t count, const char *path,
                             const mtp_report_options *options)
{
    MTP__UNCANCELLED;
    mtp_file *file;
    mtp_status status = mtp_file_create(path, 0, &file);
    if (status != MTP_OK)
        return status;
    status = mtp_report_write(traces, count, options, mtp_file_sink, file);
    if (status == MTP_OK || (status == MTP_E_IO && mtp__file_failed(file)))
        return mtp_file_commit(file); /* knows why a write failed */
    mtp_file_abandon(file);
    return status;
}
