/* record/spool/name.c - see spool_name.h. */
#define _GNU_SOURCE
#include "record/spool/name.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/error.h"
#include "base/file_out.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/spool/spool.h"

#define NUMBERS_MAX 100000u
#define TAKE_TRIES 200 /* while other processes take and free the name */
#define HELD_TRIES 20  /* a process that replaces the file holds its lock for a moment, a recorder for long */
#define HELD_NS 5000000

/* ------------------------------------------------------------------------------------------------- patterns */

mtp_status mtp__spool_pattern_check(const char *pattern)
{
    for (const char *p = strchr(pattern, '%'); p != NULL; p = strchr(p + 2, '%'))
        if (p[1] == 0 || strchr("phtn%", p[1]) == NULL)
            return MTP_FAIL(
                MTP_E_ARG,
                "spool='%s': '%%%.1s' is not a pattern: %%p is the process, %%h the host, %%t the time, "
                "%%n a number, and a percent sign is %%%%",
                pattern, p + 1);
    return MTP_OK;
}

/* The text for the letter after a percent sign. */
static void pattern_text(char letter, uint64_t number, char text[64])
{
    struct timespec now;
    struct tm utc;
    text[0] = 0;
    if (letter == 'p') {
        snprintf(text, 64, "%ld", (long)getpid());
    } else if (letter == 'n') {
        snprintf(text, 64, "%llu", (unsigned long long)number);
    } else if (letter == 'h') {
        if (gethostname(text, 64) != 0)
            snprintf(text, 64, "localhost");
        text[63] = 0;
    } else if (letter == 't') {
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &utc);
        snprintf(text, 64, "%04d%02d%02dT%02d%02d%02d", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                 utc.tm_hour, utc.tm_min, utc.tm_sec);
    } else {
        snprintf(text, 64, "%c", letter);
    }
}

static mtp_status expand(mtp__spool_name *n, const char *pattern)
{
    char text[64];
    size_t used = 0;
    for (const char *p = pattern; *p != 0; p++) {
        text[0] = *p;
        text[1] = 0;
        if (*p == '%' && p[1] != 0)
            pattern_text(*++p, n->number, text);
        size_t length = strlen(text);
        if (length >= sizeof n->path - used)
            return MTP_FAIL(MTP_E_IO, "spool: %.64s...: cannot be created: %s", pattern,
                            mtp__reason(ENAMETOOLONG));
        memcpy(n->path + used, text, length + 1);
        used += length;
    }
    return MTP_OK;
}

static bool has_number(const char *pattern)
{
    for (const char *p = strchr(pattern, '%'); p != NULL && p[1] != 0; p = strchr(p + 2, '%'))
        if (p[1] == 'n')
            return true;
    return false;
}

/* ----------------------------------------------------------------------------------------- the path's file */

static mtp_status find_target(mtp__spool_name *n)
{
    mtp__close(n->target.dir);
    mtp_status status = mtp__target_find(n->path, &n->target);
    if (status != MTP_OK) {
        MTP_NOTE("spool");
        return status;
    }
    if (n->target.place[0] != 0 || (n->target.there && !n->target.regular))
        return MTP_FAIL(MTP_E_IO, "spool: %s: not a regular file", n->path);
    return MTP_OK;
}

/* The next number whose path is free. */
static mtp_status next_number(mtp__spool_name *n, const char *pattern)
{
    mtp_status status;
    do {
        if (++n->number > NUMBERS_MAX)
            return MTP_FAIL(MTP_E_IO, "spool: %s: no number up to %u is free: remove old files", pattern,
                            NUMBERS_MAX);
        status = expand(n, pattern);
        if (status == MTP_OK)
            status = find_target(n);
    } while (status == MTP_OK && n->target.there);
    return status;
}

static void make_whole(mtp__spool_name *n)
{
    bool relative = n->path[0] != '/' && getcwd(n->whole, sizeof n->whole) != NULL;
    size_t used = relative ? strlen(n->whole) : 0;
    snprintf(n->whole + used, sizeof n->whole - used, "%s%s", relative ? "/" : "", n->path);
}

mtp_status mtp__spool_name_make(mtp__spool_name *n, const char *pattern, int *fd)
{
    *n = (mtp__spool_name){.target = {.dir = -1}};
    *fd = -1;
    mtp_status status;
    if (has_number(pattern)) {
        status = next_number(n, pattern);
    } else {
        status = expand(n, pattern);
        if (status == MTP_OK)
            status = find_target(n);
    }
    if (status != MTP_OK)
        return status;
    make_whole(n);
    *fd = mtp__open_temp_at(n->target.dir, n->temp, O_RDWR);
    if (*fd < 0)
        return MTP_FAIL(MTP_E_IO, "spool: %s: cannot be created: %s", n->path, mtp__reason(errno));
    return MTP_OK;
}

int mtp__spool_name_reopen(const mtp__spool_name *n)
{
    return mtp__open(n->whole, O_RDWR | O_NONBLOCK | O_NOCTTY, 0);
}

void mtp__spool_name_drop(mtp__spool_name *n)
{
    if (n->temp[0] != 0)
        mtp__unlink_at(n->target.dir, n->temp);
    n->temp[0] = 0;
    mtp__close(n->target.dir);
    n->target.dir = -1;
}

/* ------------------------------------------------------------------------------------------- taking the name */

/* run.mtp becomes run.1.mtp, any other NAME becomes NAME.1. */
static void numbered(char *to, size_t room, const char *path, unsigned number)
{
    size_t stem = strlen(path) - (mtp__path_ends(path, ".mtp") ? 4 : 0);
    snprintf(to, room, "%.*s.%u%s", (int)stem, path, number, path + stem);
}

static bool number_taken(const mtp__spool_name *n, unsigned number)
{
    char name[NAME_MAX + 1];
    struct stat st;
    numbered(name, sizeof name, n->target.name, number);
    return fstatat(n->target.dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A free number above a used one: the lowest, if there are no gaps. Bisects: a program that crashes all day
 * leaves many. */
static unsigned free_number(const mtp__spool_name *n)
{
    unsigned taken = 0, is_free = 1;
    while (is_free < NUMBERS_MAX && number_taken(n, is_free)) {
        taken = is_free;
        is_free *= 2;
    }
    while (is_free - taken > 1) {
        unsigned middle = taken + (is_free - taken) / 2;
        if (number_taken(n, middle))
            taken = middle;
        else
            is_free = middle;
    }
    return is_free;
}

static mtp_status keep_old(mtp__spool_name *n)
{
    char name[NAME_MAX + 1] = "";
    int error = EEXIST;
    for (unsigned k = free_number(n); error == EEXIST && k <= NUMBERS_MAX; k++) {
        numbered(name, sizeof name, n->target.name, k);
        numbered(n->kept, sizeof n->kept, n->path, k);
        error = mtp__rename_new_at(n->target.dir, n->target.name, name) == 0 ? 0 : errno;
    }
    if (error == 0 || error == ENOENT)
        return MTP_OK;
    n->kept[0] = 0;
    return MTP_FAIL(MTP_E_IO,
                    "spool: %s: it holds a recording that was not stopped and cannot be renamed: %s; name "
                    "another file",
                    n->path, mtp__reason(error));
}

static mtp_status refuse(const mtp__spool_name *n, int fd)
{
    mtp__spool_header other;
    bool damaged;
    unsigned long long pid =
        mtp__spool_header_read(fd, &other, &damaged) == MTP_OK ? (unsigned long long)other.pid : 0;
    return MTP_FAIL(MTP_E_IO, "spool: %s: process %llu is recording into it; name another file", n->path,
                    pid);
}

/* Holding the old file's lock, so that no other process does the same. */
static mtp_status replace(mtp__spool_name *n, int old, int fd)
{
    char start[sizeof(mtp__spool_header) + MTP__SPOOL_COPY_AT] = {0};
    mtp__spool_header h;
    bool damaged;
    struct stat st;
    ssize_t got = mtp__pread(old, start, sizeof start, 0);
    bool ours = got > 0 && mtp__spool_recognise(start, (size_t)got);
    bool known = ours && mtp__spool_header_read(old, &h, &damaged) == MTP_OK;
    if (ours && !(known && h.complete == 1)) {
        n->kept_pid = known ? h.pid : 0;
        return keep_old(n); /* which frees the name */
    }
    if (fstat(old, &st) == 0 && st.st_uid == geteuid())
        fchmod(fd, st.st_mode & 0777); /* as before; a new file is for its owner only */
    if (mtp__rename_at(n->target.dir, n->temp, n->target.name) != 0)
        return MTP_FAIL(MTP_E_IO, "spool: %s: cannot be replaced: %s", n->path, mtp__reason(errno));
    n->temp[0] = 0;
    return MTP_OK;
}

/* Replaces or renames the file that has the name, if it still exists. */
static mtp_status replace_old(mtp__spool_name *n, int fd, int *held)
{
    struct stat opened, named;
    int old = mtp__open_at(n->target.dir, n->target.name, O_RDWR | O_NONBLOCK | O_NOCTTY, 0);
    if (old < 0 && errno == ENOENT)
        return MTP_OK;
    if (old < 0)
        return MTP_FAIL(MTP_E_IO, "spool: %s: cannot be created: %s", n->path, mtp__reason(errno));
    mtp_status status = MTP_OK;
    if (fstat(old, &opened) != 0 || !S_ISREG(opened.st_mode)) {
        status = MTP_FAIL(MTP_E_IO, "spool: %s: not a regular file", n->path);
    } else if (mtp__lock_file(old) == MTP__LOCK_HELD) {
        MTP__UNCANCELLED;
        const struct timespec moment = {0, HELD_NS};
        if (++*held >= HELD_TRIES)
            status = refuse(n, old);
        else
            nanosleep(&moment, NULL);
    } else if (fstatat(n->target.dir, n->target.name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
               named.st_dev == opened.st_dev && named.st_ino == opened.st_ino) {
        status = replace(n, old, fd);
    }
    mtp__close(old); /* releases the lock */
    return status;
}

mtp_status mtp__spool_name_take(mtp__spool_name *n, const char *pattern, int fd)
{
    mtp_status status = MTP_OK;
    int held = 0;
    for (int i = 0; status == MTP_OK && n->temp[0] != 0 && i < TAKE_TRIES; i++) {
        if (mtp__rename_new_at(n->target.dir, n->temp, n->target.name) == 0)
            n->temp[0] = 0;
        else if (errno != EEXIST)
            status = MTP_FAIL(MTP_E_IO, "spool: %s: cannot be created: %s", n->path, mtp__reason(errno));
        else if (n->number == 0)
            status = replace_old(n, fd, &held);
        else
            return MTP_FAIL(MTP_E_BUSY, "spool: %s: its number was taken meanwhile", pattern);
    }
    if (status == MTP_OK && n->temp[0] != 0)
        status = MTP_FAIL(MTP_E_IO, "spool: %s: other processes keep taking that name; name another file",
                          n->path);
    return status;
}
