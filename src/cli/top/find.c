/* cli/top/find.c - what `mtprof top` is to watch: a file, a folder, or a process, which has its spool open. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/top/top.h"

typedef struct files {
    char first[PATH_MAX];
    size_t count;
    bool same; /* all are in one folder */
} files;

static bool same_folder(const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    return x != NULL && y != NULL && x - a == y - b && strncmp(a, b, (size_t)(x - a)) == 0;
}

static bool add(void *user, const char *file)
{
    files *f = user;
    if (f->count++ == 0) {
        snprintf(f->first, sizeof f->first, "%s", file);
        f->same = true;
    } else {
        f->same = f->same && same_folder(f->first, file);
    }
    return true;
}

static long parent_of(long pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    line[n] = 0;
    const char *after = strrchr(line, ')'); /* the name may hold anything */
    return after != NULL && strlen(after) > 4 ? strtol(after + 4, NULL, 10) : 0; /* ") S 123" */
}

static bool descends(long pid, long from)
{
    for (int i = 0; pid > 1 && i < 64; i++, pid = parent_of(pid))
        if (pid == from)
            return true;
    return false;
}

/* `mtprof run` itself records nothing; what it started does. */
static void find_below(long pid, files *f)
{
    DIR *dir = opendir("/proc");
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        long other = strtol(e->d_name, NULL, 10);
        if (mtp__is_digit(e->d_name[0]) && other != pid && descends(other, pid))
            mtp_process_files((uint64_t)other, add, f);
    }
    if (dir != NULL)
        closedir(dir);
}

static bool listens(uint64_t pid)
{
    mtp_listener found[256];
    size_t count = 0;
    if (mtp_listeners(found, sizeof *found, sizeof found / sizeof *found, &count) != MTP_OK)
        return false;
    for (size_t i = 0; i < count && i < sizeof found / sizeof *found; i++)
        if (found[i].pid == pid)
            return true;
    return false;
}

static int not_recorded(long long pid)
{
    if (listens((uint64_t)pid))
        return cli_fail(
            CLI_INPUT,
            "process %lld is not being recorded now: 'mtprof trigger %lld' records it for some seconds", pid,
            pid);
    return cli_fail(
        CLI_INPUT,
        "process %lld is not being recorded into a file: start it with 'mtprof run -- PROGRAM', or with "
        "'mtprof run --wait -- PROGRAM' and record it by 'mtprof trigger'",
        pid);
}

static int find_process(long long pid, top_target *target)
{
    files f = {.count = 0};
    mtp_status status = mtp_process_files((uint64_t)pid, add, &f);
    if (status == MTP_E_STATE)
        find_below((long)pid, &f);
    if (f.count == 0 && status == MTP_E_STATE)
        return not_recorded(pid);
    if (f.count == 0 && status == MTP_E_ARG)
        return cli_fail(CLI_INPUT, "there is no process %lld; 'mtprof ps' lists those that can be recorded",
                        pid);
    if (f.count == 0)
        return cli_fail_status(status);
    snprintf(target->path, sizeof target->path, "%s", f.first);
    target->alone = f.count == 1;
    char *slash = strrchr(target->path, '/');
    if (f.count > 1 && f.same && slash != NULL && slash != target->path && strncmp(f.first, "/proc/", 6) != 0)
        *slash = 0;
    else
        target->alone = true;
    return CLI_OK;
}

/* A file whose name is a number is that file. */
int top_find(const char *given, top_target *target)
{
    struct stat st;
    int64_t pid;
    *target = (top_target){.alone = false};
    if (stat(given, &st) != 0 && mtp__is_digit(given[0]) && cli_parse_count(given, &pid))
        return find_process(pid, target);
    if (snprintf(target->path, sizeof target->path, "%s", given) >= (int)sizeof target->path)
        return cli_fail(CLI_USAGE, "%s", mtp__reason(ENAMETOOLONG));
    return CLI_OK;
}
