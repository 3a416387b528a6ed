/* trace/open.c - opens a trace file of any supported format. */
#include "trace/open.h"
#include <stdio.h>
#include <string.h>
#include "base/abi.h"
#include "base/error.h"
#include "record/spool/spool.h"
#include "trace/job/job.h"
#include "trace/join/join.h"
#include "trace/json/member.h"
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
    if (mtp__job_recognise(head, bytes)) {
        bool is_file = mtp__source_seekable(out->source) && strcmp(path, "-") != 0;
        mtp__source_close(out->source);
        *out = (mtp__input){.format = MTP_FORMAT_RECORDING, .file = path, .is_job = true};
        return is_file ? MTP_OK
                       : MTP_FAIL(MTP_E_UNSUPPORTED,
                                  "several ranks can only be read from a file, not from a pipe");
    }
    if (!mtp__spool_recognise(head, bytes))
        return MTP_OK;
    bool seekable = mtp__source_seekable(out->source);
    mtp__source_close(out->source);
    *out = (mtp__input){.format = MTP_FORMAT_RECORDING, .file = strcmp(path, "-") == 0 ? "/dev/stdin" : path};
    return seekable ? MTP_OK
                    : MTP_FAIL(MTP_E_UNSUPPORTED, "a spool can only be read from a file, not from a pipe");
}

mtp_status mtp__open_spool(const char *file, mtp__tally *tally, mtp_trace **out)
{
    mtp_status status = mtp__trace_from_spool(file, tally, out);
    if (tally != NULL && tally->has_devices) {
        *tally = (mtp__tally){0};
        status = mtp__trace_from_spool(file, NULL, out);
    }
    return status;
}

static mtp_status open_recording(const char *file, const mtp_open_options *options, mtp_trace **out)
{
    mtp__tally tally = {0};
    mtp_status status = mtp__open_spool(file, options->count_only ? &tally : NULL, out);
    if (status != MTP_OK)
        return status;
    mtp_trace *t = *out;
    if (options->process != 0 && options->process != MTP_PROCESS_MAIN && t->pid != options->process) {
        status = MTP_FAIL(MTP_E_ARG, "this is the recording of process %llu, not of %llu",
                          (unsigned long long)t->pid, (unsigned long long)options->process);
        mtp_trace_destroy(t);
        *out = NULL;
        return status;
    }
    t->counts = (mtp_trace_info)MTP_TRACE_INFO_INIT;
    mtp_trace_get_info(t, &t->counts);
    mtp__tally_add(&tally, &t->counts);
    t->counted = options->count_only;
    return MTP_OK;
}

/* Several recordings, if the path names a folder or a spool with others beside it. *done: it does. */
static mtp_status open_several(const char *path, const mtp_open_options *options, mtp_trace **out, bool *done)
{
    mtp__files files = {0};
    mtp__input in = {.format = MTP_FORMAT_RECORDING};
    mtp_status status = options->alone ? MTP_OK : mtp__files_of(path, &files);
    *done = status != MTP_OK;
    if (status == MTP_OK && files.count > 0) {
        bool spool =
            files.is_spool || mtp__open_input(path, &in) != MTP_OK || in.format == MTP_FORMAT_RECORDING;
        mtp__source_close(in.source);
        *done = spool;
        if (spool)
            status = mtp__join_open(&files, options, out);
    }
    mtp__files_fini(&files);
    return status;
}

static mtp_status open_job(const char *path, const mtp_open_options *options, mtp_trace **out)
{
    mtp__job job;
    uint32_t index;
    mtp_status status = mtp__job_open(path, &job);
    if (status != MTP_OK)
        return status;
    status = mtp__job_choose(&job, options, &index);
    if (status == MTP_OK)
        status = mtp__job_trace(&job, index, options, true, out);
    mtp__job_close(&job);
    return status;
}

/* Of a trace that is not of several ranks, --rank may only name its own. */
static mtp_status check_rank(const mtp_trace *t, int64_t wanted)
{
    uint32_t key = mtp__trace_find_text(t, "distributedInfo");
    int64_t rank = -1;
    for (uint32_t i = 0; i < t->metadata_count && key != 0; i++)
        if (t->metadata[i].key == key)
            mtp__member_whole(mtp__trace_get_text(t, t->metadata[i].json), "rank", &rank);
    if (rank == wanted)
        return MTP_OK;
    return rank >= 0
               ? MTP_FAIL(MTP_E_ARG, "this is the trace of rank %lld, not of %lld", (long long)rank,
                          (long long)wanted)
               : MTP_FAIL(MTP_E_ARG, "the trace does not say which rank it is of: open it without a rank");
}

/* Closes the input. */
static mtp_status open_one(mtp__input *in, const mtp_open_options *options, mtp_trace **out)
{
    if (in->format == MTP_FORMAT_RECORDING)
        return open_recording(in->file, options, out);
    mtp_status status = mtp__kineto_read(in->source, options, 0, out);
    if (status == MTP_E_FORMAT && *mtp__source_form(in->source) != 0 &&
        mtp__source_status(in->source) == MTP_OK)
        mtp__advise("bytes are counted in the decompressed %s content", mtp__source_form(in->source));
    if (status == MTP_OK && options != NULL && options->progress != NULL)
        options->progress(options->user, mtp__source_done(in->source), mtp__source_done(in->source));
    mtp__source_close(in->source);
    return status;
}

static mtp_status open_any(const char *path, const mtp_open_options *options, mtp_trace **out)
{
    mtp__input in;
    bool done;
    mtp_status status = open_several(path, options, out, &done);
    if (done)
        return status;
    status = mtp__open_input(path, &in);
    if (status != MTP_OK)
        return status;
    if (in.is_job)
        return open_job(in.file, options, out);
    status = open_one(&in, options, out);
    if (status == MTP_OK && options->by_rank && (status = check_rank(*out, options->rank)) != MTP_OK) {
        mtp_trace_destroy(*out);
        *out = NULL;
    }
    return status;
}

mtp_status mtp__open_read_options(const mtp_open_options *from, mtp_open_options *to)
{
    *to = (mtp_open_options)MTP_OPEN_OPTIONS_INIT;
    return mtp__abi_read(to, sizeof *to, from, offsetof(mtp_open_options, max_memory), "mtp_open_options");
}

mtp_status mtp__open_begin(const char *path, const mtp_open_options *from, mtp_open_options *to,
                           mtp__budget *outer)
{
    if (path == NULL)
        return MTP_FAIL(MTP_E_ARG, "path is NULL");
    mtp_status status = mtp__open_read_options(from, to);
    return status == MTP_OK ? mtp__budget_begin(to->max_memory, outer) : status;
}

mtp_status mtp_trace_open(const char *path, const mtp_open_options *options, mtp_trace **out)
{
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = NULL;
    mtp_open_options known;
    mtp__budget outer;
    mtp_status status = mtp__open_begin(path, options, &known, &outer);
    if (status != MTP_OK)
        return status;
    status = open_any(path, &known, out);
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

mtp_status mtp_trace_file_info(const char *path, const mtp_open_options *options, mtp_trace_info *out)
{
    mtp_trace *trace;
    mtp_open_options known;
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    mtp_status status = mtp__open_read_options(options, &known);
    known.size = sizeof known;
    known.count_only = true;
    if (status == MTP_OK)
        status = mtp_trace_open(path, &known, &trace);
    if (status != MTP_OK)
        return status;
    status = mtp_trace_get_info(trace, out); /* rejects an impossible size */
    mtp_trace_destroy(trace);
    return status;
}

/* -------------------------------------------------------------------------------------------- recordings */

size_t mtp_trace_recording_count(const mtp_trace *trace)
{
    if (trace == NULL || !mtp__is_recording(trace))
        return 0;
    return trace->recording_count > 0 ? trace->recording_count : 1;
}

mtp_status mtp_trace_recording(const mtp_trace *t, size_t index, mtp_recording_info *out)
{
    if (t == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or out is NULL");
    mtp_status status = mtp__abi_check(out, offsetof(mtp_recording_info, info), "mtp_recording_info");
    if (status != MTP_OK)
        return status;
    if (index >= mtp_trace_recording_count(t))
        return MTP_FAIL(MTP_E_ARG, "no recording %zu of %zu", index, mtp_trace_recording_count(t));
    mtp_recording_info all = MTP_RECORDING_INFO_INIT;
    if (t->recording_count == 0) {
        all.file = t->source;
        all.command = mtp__trace_get_text(t, t->command).bytes;
        all.pid = t->pid;
        all.parent = t->parent_pid;
        mtp_trace_get_info(t, &all.info);
    } else {
        const mtp__joined *r = &t->recordings[index];
        all.file = mtp__trace_get_text(t, r->file).bytes;
        all.command = mtp__trace_get_text(t, r->command).bytes;
        all.problem = mtp__trace_get_text(t, r->problem).bytes;
        all.pid = r->pid;
        all.parent = r->parent;
        all.by_wall_clock = r->by_wall_clock;
        all.info = r->info;
    }
    mtp__abi_write(out, &all, sizeof all);
    return MTP_OK;
}

mtp_status mtp_trace_files(const char *path, bool (*each)(void *user, const char *file), void *user)
{
    mtp__files files;
    if (path == NULL || each == NULL)
        return MTP_FAIL(MTP_E_ARG, "path or each is NULL");
    mtp_status status = mtp__files_of(path, &files);
    if (status != MTP_OK) {
        MTP_NOTE("%s", mtp__open_name(path));
        return status;
    }
    bool wanted = files.count > 0 || each(user, path);
    for (uint32_t i = 0; wanted && i < files.count; i++)
        wanted = each(user, files.path[i]);
    mtp__files_fini(&files);
    return MTP_OK;
}
