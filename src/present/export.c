/* present/export.c - writes a trace to a file, in the format given by the file name. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file_out.h"
#include "base/guard.h"
#include "base/target.h"
#include "trace/trace.h"

typedef mtp_status writing(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                           void *user);

static mtp_status write_folded(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                               void *user)
{
    (void)options;
    return mtp_trace_folded(trace, "self_cpu_time_total", sink, user);
}

static mtp_status write_execution(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                                  void *user)
{
    (void)options;
    return mtp_trace_execution_trace(trace, sink, user);
}

static mtp_status write_timeline(const mtp_trace *trace, bool raw, mtp_sink *sink, void *user)
{
    mtp_memory_timeline *timeline;
    mtp_status status = mtp_memory_timeline_create(trace, NULL, &timeline);
    if (status != MTP_OK)
        return status;
    status =
        raw ? mtp_memory_timeline_raw(timeline, sink, user) : mtp_memory_timeline_json(timeline, sink, user);
    mtp_memory_timeline_destroy(timeline);
    return status;
}

static mtp_status write_memory(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                               void *user)
{
    (void)options;
    return write_timeline(trace, false, sink, user);
}

static mtp_status write_memory_raw(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                                   void *user)
{
    (void)options;
    return write_timeline(trace, true, sink, user);
}

static mtp_status write_rows(const mtp_trace *trace, bool csv, mtp_sink *sink, void *user)
{
    mtp_averages *averages;
    mtp_status status = mtp_averages_create(trace, NULL, &averages);
    if (status != MTP_OK)
        return status;
    status = csv ? mtp_averages_csv(averages, sink, user) : mtp_averages_chrome(averages, sink, user);
    mtp_averages_destroy(averages);
    return status;
}

static mtp_status write_averages(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                                 void *user)
{
    (void)options;
    return write_rows(trace, false, sink, user);
}

static mtp_status write_csv(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                            void *user)
{
    (void)options;
    return write_rows(trace, true, sink, user);
}

static mtp_status write_page(const mtp_trace *trace, const char *only, mtp_sink *sink, void *user)
{
    mtp_report_options report = MTP_REPORT_OPTIONS_INIT;
    report.only = only;
    return mtp_report_write(&trace, 1, &report, sink, user);
}

static mtp_status write_report(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                               void *user)
{
    (void)options;
    return write_page(trace, NULL, sink, user);
}

static mtp_status write_memory_report(const mtp_trace *trace, const mtp_export_options *options,
                                      mtp_sink *sink, void *user)
{
    (void)options;
    return write_page(trace, "memory", sink, user);
}

#define write_chrome mtp_trace_chrome

static const struct {
    const char *suffix, *packed;
    writing *write;
} forms[] = {
#define X(writer, suffix, what) {suffix, suffix ".gz", write_##writer},
    MTP_EXPORT_LIST(X)
#undef X
};

static const char suffixes[] =
#define X(writer, suffix, what) " " suffix
    MTP_EXPORT_LIST(X);
#undef X

/* The longest suffix wins: .et.json also ends in .json. */
static writing *form_of(const char *path)
{
    writing *found = mtp__path_in_place(path) ? mtp_trace_chrome : NULL;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t length = strlen(forms[i].suffix);
        if (length > longest &&
            (mtp__path_ends(path, forms[i].suffix) || mtp__path_ends(path, forms[i].packed))) {
            found = forms[i].write;
            longest = length;
        }
    }
    return found;
}

bool mtp_sink_file(void *file, const void *bytes, size_t length)
{
    MTP__UNCANCELLED;
    return fwrite(bytes, 1, length, file) == length;
}

mtp_status mtp_trace_export(const mtp_trace *trace, const char *path, const mtp_export_options *options)
{
    if (trace == NULL || path == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or path is NULL");
    writing *write = form_of(path);
    if (write == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s: the name must end in one of%s; .gz may follow, as in .json.gz", path,
                        suffixes);
    mtp_export_options own = MTP_EXPORT_OPTIONS_INIT;
    if (options != NULL && options->size == sizeof own)
        own = *options;
    if (own.trace_name == NULL)
        own.trace_name = path;
    mtp_file *file;
    mtp_status status = mtp_file_create(path, own.compression, &file);
    if (status != MTP_OK)
        return status;
    status =
        write(trace, options == NULL || options->size == sizeof own ? &own : options, mtp_file_sink, file);
    if (status == MTP_OK || mtp__file_failed(file))
        return mtp_file_commit(file);
    mtp_file_abandon(file);
    return status;
}
