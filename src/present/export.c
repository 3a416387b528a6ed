/* present/export.c - a trace to a file, in the form that the file's name asks for. */
#include <stdio.h>
#include "base/error.h"
#include "base/file_out.h"
#include "trace/trace.h"

typedef mtp_status writing(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                           void *user);

static mtp_status write_stacks(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                               void *user)
{
    (void)options;
    return mtp_trace_stacks(trace, "self_cpu_time_total", sink, user);
}

/* Each may have .gz behind it. */
static const struct {
    const char *suffix, *packed;
    writing *write;
} forms[] = {{".json", ".json.gz", mtp_trace_chrome},
             {".stacks", ".stacks.gz", write_stacks},
             {".folded", ".folded.gz", write_stacks},
             {".txt", ".txt.gz", write_stacks}};

static writing *form_of(const char *path)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (mtp__path_ends(path, forms[i].suffix) || mtp__path_ends(path, forms[i].packed))
            return forms[i].write;
    return mtp__path_in_place(path) ? mtp_trace_chrome : NULL;
}

bool mtp_sink_file(void *file, const void *bytes, size_t length)
{
    return fwrite(bytes, 1, length, file) == length;
}

mtp_status mtp_trace_export(const mtp_trace *trace, const char *path, const mtp_export_options *options)
{
    if (trace == NULL || path == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or path is NULL");
    writing *write = form_of(path);
    if (write == NULL)
        return MTP_FAIL(
            MTP_E_ARG,
            "'%s': the name must end in .json or .json.gz (a trace), or in .stacks, .folded or .txt "
            "(folded stacks)",
            path);
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
