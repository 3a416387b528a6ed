/* analyze/ranks/files.c - the traces that a path names: itself, or those in a folder. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/plain.h"

static bool ends(const char *name, const char *with)
{
    size_t a = strlen(name), b = strlen(with);
    return a > b && strcmp(name + a - b, with) == 0;
}

/* Traces by their names; not what we or PyTorch write beside them. */
static bool is_trace(const char *name)
{
    static const char *const other[] = {".et.json", ".memory.json", ".memory.raw.json"};
    char plain[NAME_MAX + 1];
    snprintf(plain, sizeof plain, "%s", name);
    if (ends(plain, ".gz"))
        plain[strlen(plain) - 3] = 0;
    else if (ends(plain, ".zst"))
        plain[strlen(plain) - 4] = 0;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (ends(plain, other[i]))
            return false;
    return name[0] != '.' && (ends(plain, ".json") || ends(name, ".mtp"));
}

static mtp_status add(mtp_ranks *r, const char *path, uint32_t section)
{
    if (!MTP__GROW(r->list, r->room, r->count, (size_t)r->count + 1, 16))
        return MTP_FAIL(MTP_E_NOMEM, "%u files", r->count);
    mtp__rank *k = &r->list[r->count];
    *k = (mtp__rank){.section = section, .part = -1};
    k->row.file = mtp__ranks_keep(r, path);
    k->row.host = k->row.job = k->row.backend = k->row.problem = "";
    k->row.rank = k->row.world_size = k->row.local_rank = -1;
    k->row.overlap = -1;
    struct stat st;
    if (stat(path, &st) == 0)
        k->row.bytes = (uint64_t)st.st_size;
    r->count++;
    return *k->row.file != 0 ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%u files", r->count);
}

/* A recording whose program started several ranks (mtprof run -- torchrun ...) is as many traces. */
static mtp_status add_recording(mtp_ranks *r, const char *path)
{
    int64_t *ranks;
    uint32_t count;
    mtp_status status = mtp__recording_ranks(path, &ranks, &count);
    if (status == MTP_E_NOMEM)
        return status;
    if (count == 0) /* what is wrong with it is said when it is read */
        return add(r, path, MTP__NONE);
    status = MTP_OK;
    for (uint32_t i = 0; i < count && status == MTP_OK; i++) {
        status = add(r, path, MTP__NONE);
        if (status == MTP_OK)
            r->list[r->count - 1].part = ranks[i];
    }
    mtp__free(ranks);
    return status;
}

/* What mtp_merge wrote. In a folder with other traces, it holds files that are beside it, or were. */
static bool is_job(const char *path)
{
    char start[16];
    int fd = ends(path, ".mtp") ? mtp__open(path, O_RDONLY | O_NONBLOCK, 0) : -1;
    ssize_t n = fd >= 0 ? mtp__pread(fd, start, sizeof start, 0) : -1;
    mtp__close(fd);
    return n > 0 && mtp__job_recognise(start, (size_t)n);
}

static mtp_status add_job(mtp_ranks *r, const char *path)
{
    mtp__job job;
    mtp_status status = mtp__job_open(path, &job);
    for (uint32_t i = 0; status == MTP_OK && i < job.rank_count; i++) {
        status = add(r, path, i);
        if (status == MTP_OK)
            r->list[r->count - 1].row.bytes = job.parts[job.ranks[i].first].bytes;
    }
    if (status == MTP_OK)
        mtp__job_close(&job);
    else
        MTP_NOTE("%s", path);
    return status;
}

/* By name, with numbers in their order: rank2 before rank10. */
static int by_name(const void *a, const void *b)
{
    return strverscmp(((const mtp__rank *)a)->row.file, ((const mtp__rank *)b)->row.file);
}

/* OUT.workers of a recording that never became OUT: 'mtprof run' was killed with its program. */
static bool is_orphaned(const char *path, const struct stat *st)
{
    static const char workers[] = ".workers";
    struct stat out;
    char of[PATH_MAX];
    snprintf(of, sizeof of, "%s", path);
    if (!S_ISDIR(st->st_mode) || !ends(of, ".mtp.workers"))
        return false;
    of[strlen(of) - (sizeof workers - 1)] = 0;
    return stat(of, &out) != 0;
}

/* In job, the first of what mtp_merge wrote; in jobs, how many there are. */
static mtp_status add_all(mtp_ranks *r, const char *folder, DIR *dir, char job[PATH_MAX], uint32_t *jobs)
{
    mtp_status status = MTP_OK;
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    for (const struct dirent *e; status == MTP_OK && (e = readdir(dir)) != NULL;) {
        char path[PATH_MAX];
        struct stat st;
        int n = snprintf(path, sizeof path, "%s%s%s", folder, slash, e->d_name);
        if (n <= 0 || (size_t)n >= sizeof path || e->d_name[0] == '.' || stat(path, &st) != 0)
            continue;
        bool regular = S_ISREG(st.st_mode) && is_trace(e->d_name);
        if (regular && is_job(path)) {
            if ((*jobs)++ == 0)
                memcpy(job, path, (size_t)n + 1);
        } else if (regular)
            status = add_recording(r, path);
        else if (is_orphaned(path, &st))
            status = add_recording(r, path);
    }
    return status;
}

static mtp_status add_folder(mtp_ranks *r, const char *folder)
{
    MTP__UNCANCELLED;
    uint32_t first = r->count;
    int fd = mtp__open(folder, O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        mtp_status status = MTP_FAIL(MTP_E_IO, "%s: cannot list its files: %s", folder, mtp__reason(errno));
        mtp__close(fd);
        return status;
    }
    char job[PATH_MAX];
    uint32_t jobs = 0;
    mtp_status status = add_all(r, folder, dir, job, &jobs);
    closedir(dir);
    if (status == MTP_OK && r->count == first && jobs > 1)
        status = MTP_FAIL(MTP_E_FORMAT, "%s: it has %u files that 'mtprof merge' wrote: name one of them",
                          folder, jobs);
    else if (status == MTP_OK && r->count == first && jobs == 1)
        return add_job(r, job);
    else if (status == MTP_OK && r->count == first)
        status = MTP_FAIL(MTP_E_FORMAT, "%s: this folder has no traces (.mtp, .json, .json.gz, .json.zst)",
                          folder);
    if (r->count - first > 1)
        qsort(r->list + first, r->count - first, sizeof *r->list, by_name);
    return status;
}

/* job.mtp.workers/, which mtprof run makes beside job.mtp: together they are the processes of one program. */
static bool is_of_workers(const char *path, char recording[PATH_MAX])
{
    static const char end[] = ".workers";
    struct stat st;
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    int n = snprintf(recording, PATH_MAX, "%.*s", (int)length, path);
    if (n < (int)sizeof end || n >= PATH_MAX || !ends(recording, ".mtp.workers"))
        return false;
    recording[(size_t)n - (sizeof end - 1)] = 0;
    if (stat(recording, &st) != 0)
        recording[(size_t)n - (sizeof end - 1)] = end[0];
    return true;
}

mtp_status mtp__ranks_files(mtp_ranks *r, const char *path)
{
    char recording[PATH_MAX];
    struct stat st;
    if (path == NULL)
        return MTP_FAIL(MTP_E_ARG, "a path is NULL");
    if (stat(path, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "%s: %s", path, mtp__reason(errno));
    if (S_ISDIR(st.st_mode))
        return is_of_workers(path, recording) ? add_recording(r, recording) : add_folder(r, path);
    return is_job(path) ? add_job(r, path) : add_recording(r, path);
}
