/* trace/open.c - opens a trace file of any supported format. */
#include "trace/open.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "record/spool/spool.h"
#include "trace/kineto/kineto.h"
#include "trace/records/from_records.h"

const char *mtp__open_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : *path != 0 ? path : "'' (an empty path)";
}

/* A spool is read in several passes, so it needs a path; standard input has one if it is a file. */
mtp_status mtp__open_input(const char *path, mtp__input *out)
{
    size_t bytes;
    *out = (mtp__input){.format = MTP_FORMAT_KINETO};
    mtp_status status = mtp__source_open(path, &out->source);
    if (status != MTP_OK)
        return status;
    mtp__budget_fit(mtp__source_total(out->source));
    const void *head = mtp__source_head(out->source, &bytes);
    if (!mtp__spool_recognise(head, bytes))
        return MTP_OK;
    bool seekable = mtp__source_seekable(out->source);
    mtp__source_close(out->source);
    *out = (mtp__input){.format = MTP_FORMAT_RECORDING, .file = strcmp(path, "-") == 0 ? "/dev/stdin" : path};
    return seekable ? MTP_OK
                    : MTP_FAIL(MTP_E_UNSUPPORTED, "a spool can only be read from a file, not from a pipe");
}

static mtp_status open_spool(const char *file, mtp__tally *tally, mtp_trace **out)
{
    mtp_status status = mtp__trace_from_spool(file, tally, out);
    if (tally != NULL && tally->has_devices) {
        *tally = (mtp__tally){0};
        status = mtp__trace_from_spool(file, NULL, out);
    }
    return status;
}

/* tally: a spool's events are counted there if possible; NULL: they are added to the trace. */
static mtp_status open_any(const char *path, const mtp_open_options *options, mtp__tally *tally,
                           mtp_trace **out)
{
    mtp__input in;
    mtp_status status = mtp__open_input(path, &in);
    if (status != MTP_OK)
        return status;
    if (in.format == MTP_FORMAT_RECORDING)
        return open_spool(in.file, tally, out);
    status = mtp__kineto_read(in.source, options, 0, out);
    if (status == MTP_E_FORMAT && *mtp__source_form(in.source) != 0 &&
        mtp__source_status(in.source) == MTP_OK)
        mtp__advise("bytes are counted in the decompressed %s content", mtp__source_form(in.source));
    if (status == MTP_OK && options != NULL && options->progress != NULL)
        options->progress(options->user, mtp__source_done(in.source), mtp__source_done(in.source));
    mtp__source_close(in.source);
    return status;
}

mtp_status mtp__open_read_options(const mtp_open_options *from, mtp_open_options *to)
{
    const size_t oldest = offsetof(mtp_open_options, max_memory);
    *to = (mtp_open_options)MTP_OPEN_OPTIONS_INIT;
    if (from == NULL)
        return MTP_OK;
    if (from->size < oldest)
        return MTP_FAIL(MTP_E_ABI, "options size %zu, oldest known is %zu", from->size, oldest);
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    return MTP_OK;
}

mtp_status mtp__open_begin(const char *path, const mtp_open_options *from, mtp_open_options *to,
                           mtp__budget *outer)
{
    if (path == NULL)
        return MTP_FAIL(MTP_E_ARG, "path is NULL");
    mtp_status status = mtp__open_read_options(from, to);
    return status == MTP_OK ? mtp__budget_begin(to->max_memory, outer) : status;
}

static mtp_status open_tallied(const char *path, const mtp_open_options *options, mtp__tally *tally,
                               mtp_trace **out)
{
    *out = NULL;
    mtp_open_options known;
    mtp__budget outer;
    mtp_status status = mtp__open_begin(path, options, &known, &outer);
    if (status != MTP_OK)
        return status;
    status = open_any(path, &known, tally, out);
    if (status == MTP_E_NOMEM && !mtp__budget_exceeded())
        mtp__advise("read it where there is more memory, or record less");
    mtp__budget_end(&outer);
    if (status != MTP_OK) {
        MTP_NOTE("%s", mtp__open_name(path));
        return status;
    }
    snprintf((*out)->source, sizeof(*out)->source, "%s", mtp__open_name(path));
    return MTP_OK;
}

mtp_status mtp_trace_open(const char *path, const mtp_open_options *options, mtp_trace **out)
{
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    return open_tallied(path, options, NULL, out);
}

mtp_status mtp_trace_file_info(const char *path, const mtp_open_options *options, mtp_trace_info *out)
{
    mtp_trace *trace;
    mtp__tally tally = {0};
    mtp_trace_info all = MTP_TRACE_INFO_INIT;
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    mtp_status status = open_tallied(path, options, &tally, &trace);
    if (status != MTP_OK)
        return status;
    status = mtp_trace_get_info(trace, out); /* rejects an impossible size */
    if (status == MTP_OK) {
        size_t size = out->size;
        mtp_trace_get_info(trace, &all);
        mtp__tally_add(&tally, &all);
        memcpy(out, &all, size < sizeof all ? size : sizeof all);
        out->size = size;
    }
    mtp_trace_destroy(trace);
    return status;
}
