#define _GNU_SOURCE
#include "present/parquet/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "trace/who.h"

/* --------------------------------------------------------------------------------------------------- job */

/* What Hive, Spark and the readers that follow them escape in the name of a folder. */
static bool is_escaped(unsigned char c)
{
    return c < 0x20 || c == 0x7f || strchr("\"#%'*/:=?\\{[]^", c) != NULL;
}

/* false: empty, or too long for the name of a folder. */
static bool put_job(mtp__parquet_place *out, const char *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + length;
    char *to = out->job;
    while (at < end && to < out->job + NAME_MAX) {
        unsigned skip, n = mtp__utf8_character(at, end, &skip);
        if (n == 0)
            to = stpcpy(to, MTP__UTF8_REPLACEMENT);
        else if (n == 1 && is_escaped(*at))
            to += snprintf(to, 4, "%%%02X", *at);
        else
            to = (char *)memcpy(to, at, n) + n;
        at += n != 0 ? n : skip;
    }
    *to = 0;
    return at == end && length > 0 && strlen(out->job) + strlen("job=") <= NAME_MAX;
}

/* "out/run.pt.trace.json.gz" is run. */
static mtp_text stem(const char *path)
{
    static const char *const suffixes[] = {".gz", ".zst", ".json", ".trace", ".pt", ".mtp"};
    size_t end = strlen(path), start;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/';)
        start--;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t n = strlen(suffixes[i]);
        if (end - start > n && memcmp(path + end - n, suffixes[i], n) == 0)
            end -= n;
    }
    return (mtp_text){path + start, end - start};
}

/* Ranks of one job are usually files of one folder. */
static mtp_text folder_of(const char *path, char full[PATH_MAX])
{
    char *slash = realpath(path, full) != NULL ? strrchr(full, '/') : NULL;
    if (slash == NULL || slash == full)
        return (mtp_text){"", 0};
    *slash = 0;
    const char *name = strrchr(full, '/') + 1;
    return (mtp_text){name, strlen(name)};
}

/* For a trace that does not name it. */
static mtp_text job_of(const mtp_trace *t, int64_t world_size, char full[PATH_MAX])
{
    mtp_text job = world_size > 1 ? folder_of(t->source, full) : (mtp_text){"", 0};
    if (job.length == 0 && strcmp(t->source, "this process") != 0)
        job = stem(t->source);
    return job.length != 0 ? job : (mtp_text){"trace", 5};
}

mtp_status mtp__parquet_find_place(const mtp_trace *t, const mtp_parquet_options *options,
                                   mtp__parquet_place *out)
{
    char full[PATH_MAX];
    mtp__who who;
    if (!mtp__who_read(&who, t, NULL))
        return MTP_FAIL(MTP_E_NOMEM, "the name of the job");
    out->rank = options->rank >= 0 ? options->rank : who.rank >= 0 ? who.rank : 0;
    mtp_text job = options->job != NULL ? (mtp_text){options->job, strlen(options->job)} : who.job;
    if (options->job == NULL && job.length == 0)
        job = job_of(t, who.world_size, full);
    bool good = put_job(out, job.bytes, job.length);
    mtp__who_fini(&who);
    if (!good)
        return MTP_FAIL(MTP_E_ARG,
                        job.length == 0
                            ? "the name of the job is empty"
                            : "the name of the job is too long for a folder: choose a shorter one (--job)");
    return MTP_OK;
}

/* -------------------------------------------------------------------------------------------------- path */

static mtp_status make_folder(const char *path)
{
    struct stat st;
    if (mtp__make_folder(path, 0777) == 0)
        return MTP_OK;
    int error = errno;
    if (error == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return MTP_OK;
    return MTP_FAIL(MTP_E_IO, "%s: the folder cannot be made: %s", path,
                    mtp__reason(error == EEXIST ? ENOTDIR : error));
}

mtp_status mtp__parquet_path(const char *folder, const char *table, const mtp__parquet_place *place,
                             bool make, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s/%s/job=%s/rank=%" PRId64 "/%s.parquet", folder, table,
                          place->job, place->rank, table);
    if (length < 0 || length >= PATH_MAX)
        return MTP_FAIL(MTP_E_ARG, "the path of the output folder is too long");
    if (!make)
        return MTP_OK;
    mtp_status status = make_folder(folder);
    for (char *slash = path + strlen(folder) + 1; status == MTP_OK && (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = 0;
        status = make_folder(path);
        *slash = '/';
    }
    return status;
}

/* --------------------------------------------------------------------------------------------- one writer */

static mtp_status claim_path(const char *folder, const mtp__parquet_place *place, bool make,
                             char path[PATH_MAX])
{
    static const char name[] = ".mtprof.lock";
    mtp_status status = mtp__parquet_path(folder, "metadata", place, make, path);
    char *slash = strrchr(path, '/');
    if (status == MTP_OK)
        memcpy(slash + 1, name, sizeof name); /* shorter than the table's */
    return status;
}

/* The lock ends with the process. A file that its owner removed meanwhile protects nothing: another one is made. */
mtp_status mtp__parquet_claim(const char *folder, const mtp__parquet_place *place, int *out)
{
    char path[PATH_MAX];
    struct stat st;
    mtp_status status = claim_path(folder, place, true, path);
    while (status == MTP_OK) {
        int fd = mtp__open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0)
            return MTP_FAIL(MTP_E_IO, "%s: cannot be created: %s", path, mtp__reason(errno));
        mtp__lock lock = mtp__lock_file(fd);
        if (lock != MTP__LOCK_HELD && (fstat(fd, &st) != 0 || st.st_nlink > 0)) {
            *out = fd;
            return MTP_OK;
        }
        mtp__close(fd);
        if (lock == MTP__LOCK_HELD)
            status = MTP_FAIL(
                MTP_E_STATE,
                "%s: rank %lld of job=%s is just being written by another export: choose another job "
                "or rank (--job, --as-rank)",
                folder, (long long)place->rank, place->job);
    }
    return status;
}

void mtp__parquet_release(const char *folder, const mtp__parquet_place *place, int fd)
{
    char path[PATH_MAX];
    if (claim_path(folder, place, false, path) == MTP_OK)
        mtp__unlink_at(AT_FDCWD, path);
    mtp__close(fd);
}
