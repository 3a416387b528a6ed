/* trace/join/files.c - see files.h. */
#define _GNU_SOURCE
#include "trace/join/files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/error.h"
#include "base/grow.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/plain.h"

#define WORKERS ".workers"
#define DEPTH_MAX 8 /* workers of workers ... */

void mtp__files_fini(mtp__files *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        mtp__free(f->path[i]);
    mtp__free(f->path);
    mtp__pair_map_fini(&f->seen);
    *f = (mtp__files){0};
}

/* A file that is found by two names is one recording. */
static mtp_status add(mtp__files *f, const char *path, const struct stat *st)
{
    bool is_new = true;
    if (st != NULL && mtp__pair_put(&f->seen, (uint64_t)st->st_dev, (uint64_t)st->st_ino, 0, &is_new) == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the names of %u files", f->count);
    if (!is_new)
        return MTP_OK;
    if (!MTP__GROW(f->path, f->room, f->count, (size_t)f->count + 1, 16) ||
        (f->path[f->count] = mtp__strdup(path)) == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the names of %u files", f->count);
    f->count++;
    return MTP_OK;
}

mtp_status mtp__files_add(mtp__files *f, const char *path)
{
    return add(f, path, NULL);
}

/* NAME.mtp; or of a forked child that a C program's profile followed: NAME.mtp.123 */
static bool is_spool_name(const char *name)
{
    const char *at = strstr(name, ".mtp");
    if (at == NULL || at == name || name[0] == '.')
        return false;
    for (const char *next; (next = strstr(at + 1, ".mtp")) != NULL;)
        at = next;
    for (at += 4; *at == '.' && mtp__is_digit(at[1]);)
        for (at++; mtp__is_digit(*at);)
            at++;
    return *at == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static mtp_status add_folder(mtp__files *f, const char *folder, int depth);

/* The recordings of the processes that a recorded process started are in a folder beside its own. */
static mtp_status add_workers(mtp__files *f, const char *spool, int depth)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s" WORKERS, spool);
    if (n < 0 || (size_t)n >= sizeof path || depth == DEPTH_MAX ||
        (depth == 0 ? stat(path, &st) : lstat(path, &st)) != 0 || !S_ISDIR(st.st_mode))
        return MTP_OK;
    return add_folder(f, path, depth + 1);
}

static mtp_status add_entries(mtp__files *f, DIR *dir, const char *folder)
{
    char path[PATH_MAX];
    struct stat st;
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    mtp_status status = MTP_OK;
    for (const struct dirent *e; status == MTP_OK && (e = readdir(dir)) != NULL;) {
        if (!is_spool_name(e->d_name))
            continue;
        int n = snprintf(path, sizeof path, "%s%s%s", folder, slash, e->d_name);
        if (n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            status = add(f, path, &st);
    }
    return status;
}

static mtp_status add_folder(mtp__files *f, const char *folder, int depth)
{
    MTP__UNCANCELLED;
    uint32_t first = f->count;
    int fd = mtp__open(folder, O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        mtp_status status = MTP_FAIL(MTP_E_IO, "%s: cannot list its files: %s", folder, mtp__reason(errno));
        mtp__close(fd);
        return status;
    }
    mtp_status status = add_entries(f, dir, folder);
    closedir(dir);
    uint32_t count = f->count;
    if (count - first > 1)
        qsort(f->path + first, count - first, sizeof *f->path, by_name);
    for (uint32_t i = first; status == MTP_OK && i < count; i++)
        status = add_workers(f, f->path[i], depth);
    return status;
}

static mtp_status files_of(const char *path, mtp__files *out)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || *path == 0)
        return MTP_OK;
    bool is = stat(path, &st) == 0;
    if (is && S_ISDIR(st.st_mode)) {
        out->in_folder = out->is_spool = true;
        mtp_status status = add_folder(out, path, 0);
        return status != MTP_OK || out->count > 0
                   ? status
                   : MTP_FAIL(MTP_E_FORMAT, "this folder has no recordings (.mtp)");
    }
    const char *slash = strrchr(path, '/');
    out->is_spool = is_spool_name(slash != NULL ? slash + 1 : path);
    mtp_status status = add(out, path, is ? &st : NULL);
    if (status == MTP_OK)
        status = add_workers(out, path, 0);
    if (status == MTP_OK && out->count == 1)
        mtp__files_fini(out);
    return status;
}

mtp_status mtp__files_of(const char *path, mtp__files *out)
{
    *out = (mtp__files){0};
    mtp_status status = files_of(path, out);
    if (status != MTP_OK)
        mtp__files_fini(out);
    return status;
}
