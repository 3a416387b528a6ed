/* analyze/ranks/table.c - which ranks a file has: the table in a job's file, or the recordings of mtprof run. */
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/os.h"
#include "trace/join/join.h"
#include "trace/json/text.h"

/* Texts of a row, one after the other; "" where there is none. */
static size_t put(mtp__buffer *b, mtp_text object, const char *key)
{
    mtp_text text;
    size_t at = b->length;
    if (mtp__member_text(object, key, &text))
        mtp__json_unescape(b, text.bytes, text.length);
    mtp__buffer_add(b, "", 1);
    return at;
}

static bool visit(const mtp__job *job, const mtp__job_rank *r, mtp__buffer *b,
                  bool (*each)(void *, const mtp_rank_row *), void *user, bool *goes_on)
{
    mtp_rank_row row = {.problem = "",
                        .rank = r->rank,
                        .world_size = r->world_size,
                        .local_rank = -1,
                        .clock_at_ns = r->at,
                        .clock_offset_ns = r->offset,
                        .clock_drift = r->drift,
                        .clock_error_ns = r->error,
                        .clock_by = (mtp_clock_by)r->by,
                        .overlap = -1};
    int64_t pid = 0;
    b->length = 0;
    size_t host = put(b, r->text, "host"), of = put(b, r->text, "job"), backend = put(b, r->text, "backend"),
           file = b->length;
    const mtp__job_part *part = &job->parts[r->first];
    mtp__json_unescape(b, part->name.bytes, part->name.length);
    mtp__buffer_add(b, "", 1);
    if (b->failed)
        return false;
    row.host = b->bytes + host;
    row.job = b->bytes + of;
    row.backend = b->bytes + backend;
    row.file = b->bytes + file;
    row.problem = mtp__job_cut(job, r) != NULL ? "it is not complete: the file is truncated" : "";
    for (uint32_t i = 0; i < r->parts; i++)
        row.bytes += part[i].bytes;
    mtp__member_whole(r->text, "pid", &pid);
    row.pid = (uint64_t)pid;
    *goes_on = each(user, &row);
    return true;
}

mtp_status mtp_job_ranks(const char *path, bool (*each)(void *user, const mtp_rank_row *row), void *user)
{
    if (path == NULL || each == NULL)
        return MTP_FAIL(MTP_E_ARG, "path or each is NULL");
    mtp__job job;
    mtp__buffer b = {0};
    mtp_status status = mtp__job_open(path, &job);
    bool goes_on = true, good = true;
    for (uint32_t i = 0; status == MTP_OK && good && goes_on && i < job.rank_count; i++)
        good = visit(&job, &job.ranks[i], &b, each, user, &goes_on);
    mtp__buffer_fini(&b);
    if (status == MTP_OK)
        mtp__job_close(&job);
    else
        MTP_NOTE("%s", path);
    return good ? status : MTP_FAIL(MTP_E_NOMEM, "the table of ranks");
}

mtp_status mtp__recording_ranks(const char *path, int64_t **ranks, uint32_t *count)
{
    mtp__files files;
    *ranks = NULL;
    *count = 0;
    mtp_status status = mtp__files_of(path, &files);
    if (status == MTP_OK && files.is_spool && files.count > 1)
        status = mtp__join_ranks(&files, ranks, count);
    mtp__files_fini(&files);
    return status;
}

mtp_status mtp_recording_ranks(const char *path, bool (*each)(void *user, int64_t rank), void *user)
{
    int64_t *ranks;
    uint32_t count;
    if (path == NULL || each == NULL)
        return MTP_FAIL(MTP_E_ARG, "path or each is NULL");
    mtp_status status = mtp__recording_ranks(path, &ranks, &count);
    for (uint32_t i = 0; status == MTP_OK && i < count && each(user, ranks[i]);)
        i++;
    mtp__free(ranks);
    if (status != MTP_OK)
        MTP_NOTE("%s", path);
    return status;
}
