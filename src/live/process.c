/* live/process.c - the spools that a process is writing: see mtp_process_files(). The recorder keeps its file open; a program
 * that closes all descriptors still has it mapped. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/pair_map.h"
#include "base/plain.h"
#include "record/spool/spool.h"

typedef struct search {
    bool (*each)(void *user, const char *file);
    void *user;
    mtp__pair_map seen; /* device, inode */
    uint64_t found;
    bool enough;
} search;

/* A file that is being recorded into. */
static bool is_live(const char *path, struct stat *st)
{
    mtp__spool_header header;
    bool damaged;
    if (stat(path, st) != 0 || !S_ISREG(st->st_mode))
        return false;
    int fd = mtp__open(path, O_RDONLY | O_NONBLOCK, 0);
    bool live = fd >= 0 && mtp__spool_header_read(fd, &header, &damaged) == MTP_OK &&
                mtp__spool_outcome(fd, &header) != MTP_OUTCOME_STOPPED;
    mtp__close(fd);
    return live;
}

/* name: what it is called, if that is still so; else it is reached by `link`. */
static void consider(search *s, const char *link, const char *name)
{
    struct stat st, named;
    bool is_new;
    if (s->enough || !is_live(link, &st) ||
        mtp__pair_put(&s->seen, (uint64_t)st.st_dev, (uint64_t)st.st_ino, 0, &is_new) == NULL || !is_new)
        return;
    s->found++;
    bool same = stat(name, &named) == 0 && named.st_dev == st.st_dev && named.st_ino == st.st_ino;
    s->enough = !s->each(s->user, same ? name : link);
}

static void look_at_files(search *s, uint64_t pid, DIR *dir)
{
    char link[64], name[PATH_MAX];
    for (const struct dirent *e; !s->enough && (e = readdir(dir)) != NULL;) {
        if (!mtp__is_digit(e->d_name[0]) || strlen(e->d_name) > 12)
            continue;
        snprintf(link, sizeof link, "/proc/%llu/fd/%.12s", (unsigned long long)pid, e->d_name);
        ssize_t n = readlink(link, name, sizeof name - 1);
        if (n <= 0 || name[0] != '/')
            continue; /* sockets, pipes */
        name[n] = 0;
        consider(s, link, name);
    }
}

/* "7f1c-7f2c rw-s 0001 fe:01 1234   /path/of/run.mtp" */
static void look_at_mappings(search *s, uint64_t pid)
{
    char path[64], line[PATH_MAX + 128];
    snprintf(path, sizeof path, "/proc/%llu/maps", (unsigned long long)pid);
    FILE *f = fopen(path, "re");
    while (f != NULL && !s->enough && fgets(line, sizeof line, f) != NULL) {
        char *name = strchr(line, '/'), *end = name != NULL ? strchr(name, '\n') : NULL;
        if (end == NULL || strstr(line, " rw-s ") == NULL)
            continue;
        *end = 0;
        consider(s, name, name);
    }
    if (f != NULL)
        fclose(f);
}

mtp_status mtp_process_files(uint64_t pid, bool (*each)(void *user, const char *file), void *user)
{
    MTP__UNCANCELLED;
    if (each == NULL || pid == 0 || pid > INT_MAX)
        return MTP_FAIL(MTP_E_ARG, "%llu is not a process's number", (unsigned long long)pid);
    char path[64];
    search s = {.each = each, .user = user};
    snprintf(path, sizeof path, "/proc/%llu/fd", (unsigned long long)pid);
    int fd = mtp__open(path, O_RDONLY | O_DIRECTORY, 0), error = errno;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        mtp__close(fd);
        if (error == ENOENT)
            return MTP_FAIL(MTP_E_ARG, "there is no process %llu", (unsigned long long)pid);
        return MTP_FAIL(MTP_E_IO,
                        "the files of process %llu cannot be listed: %s; only its user and root may",
                        (unsigned long long)pid, mtp__reason(error));
    }
    look_at_files(&s, pid, dir);
    closedir(dir);
    if (s.found == 0)
        look_at_mappings(&s, pid);
    mtp__pair_map_fini(&s.seen);
    return s.found > 0 ? MTP_OK
                       : MTP_FAIL(MTP_E_STATE, "process %llu is not being recorded into a file",
                                  (unsigned long long)pid);
}
