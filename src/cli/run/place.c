/* cli/run/place.c - the files of a run: OUT and the folder OUT.workers, which its processes record into.
 *
 * What has these names already:
 *
 *   is being recorded into, by a process or another `mtprof run`    the run is refused
 *   was never stopped, or left by a `mtprof run` that was killed    it is kept as run.1.mtp (and its folder)
 *   anything else                                                   it is set aside, and deleted when there is something
 *                                                                   to replace it
 *
 * Several runs may ask for the same names at once: who looks at them and takes or leaves them holds a lock on the folder
 * that they are in.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/run/run.h"

#define MARKER ".running"
#define ASIDE ".before"
#define FOLDER ".workers"

enum {
    NUMBERS_MAX = 100000
};

bool run_check_output(const char *path)
{
    if (cli_ends(path, ".mtp"))
        return true;
    size_t n = strlen(path) - (cli_ends(path, ".gz") ? 3 : 0);
#define X(writer, suffix, what)                                                                              \
    if (n > sizeof suffix - 1 && strncmp(path + n - (sizeof suffix - 1), suffix, sizeof suffix - 1) == 0)    \
        return true;
    MTP_EXPORT_LIST(X)
#undef X
#define X(writer, suffix, what) suffix " "
    cli_fail(CLI_USAGE, "-o '%s': expected a file that ends in .mtp or one of %sand .gz", path,
             MTP_EXPORT_LIST(X));
#undef X
    return false;
}

bool run_is_live(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool live = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    return live;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* The files of a folder, one after another; NULL: no more. */
static const char *next_file(DIR *folder, const char *path, char file[PATH_MAX])
{
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            snprintf(file, PATH_MAX, "%s/%s", path, entry->d_name) < PATH_MAX)
            return file;
    return NULL;
}

static bool holds_live(const char *path)
{
    char file[PATH_MAX];
    bool live = false;
    DIR *folder = opendir(path);
    while (!live && next_file(folder, path, file) != NULL)
        live = run_is_live(file);
    if (folder != NULL)
        closedir(folder);
    return live;
}

/* Left by the MPI collector: .rank0. */
static bool is_mark_of_rank(const char *file)
{
    return strncmp(strrchr(file, '/'), "/.rank", 6) == 0;
}

/* Only what we make: a folder that holds anything else stays. */
static void remove_folder(const char *path)
{
    char file[PATH_MAX];
    DIR *folder = opendir(path);
    while (next_file(folder, path, file) != NULL)
        if (cli_ends(file, ".mtp") || cli_ends(file, "/" MARKER) || is_mark_of_rank(file))
            unlink(file);
    if (folder != NULL)
        closedir(folder);
    rmdir(path);
}

static void remove_marks(const char *path)
{
    char file[PATH_MAX];
    DIR *folder = opendir(path);
    while (next_file(folder, path, file) != NULL)
        if (is_mark_of_rank(file))
            unlink(file);
    if (folder != NULL)
        closedir(folder);
}

/* ---------------------------------------------------------------------------------------- what was there before */

static void with(const char *path, const char *more, const char *folder, char to[PATH_MAX])
{
    if (snprintf(to, PATH_MAX, "%s%s%s", path, more, folder) >= PATH_MAX)
        to[0] = 0; /* make_absolute() leaves room */
}

/* OUT and its folder get other names, if they exist. */
static bool move(const char *from, const char *to)
{
    char from_folder[PATH_MAX], to_folder[PATH_MAX];
    with(from, "", FOLDER, from_folder);
    with(to, "", FOLDER, to_folder);
    return (rename(from, to) == 0 || errno == ENOENT) &&
           (rename(from_folder, to_folder) == 0 || errno == ENOENT);
}

/* run.mtp becomes run.1.mtp. */
static int keep(const run_place *p)
{
    char kept[PATH_MAX], folder[PATH_MAX];
    size_t stem = strlen(p->out) - (cli_ends(p->out, ".mtp") ? 4 : 0);
    unsigned n = 0;
    do {
        n++;
        if (snprintf(kept, sizeof kept, "%.*s.%u%s", (int)stem, p->out, n, p->out + stem) >= PATH_MAX)
            kept[0] = 0;
        with(kept, "", FOLDER, folder);
    } while ((exists(kept) || exists(folder)) && n < NUMBERS_MAX);
    if (!move(p->out, kept))
        return cli_fail(CLI_OUTPUT, "%s: cannot be renamed to %s: %s; name another file with -o", p->out,
                        kept, mtp__reason(errno));
    cli_note("%s holds a recording that was not finished: it was kept as %s", p->out, kept);
    return CLI_OK;
}

static int refuse(const run_place *p)
{
    return cli_fail(CLI_OUTPUT, "%s is still being recorded into: name another file with -o", p->out);
}

/* Is there a folder of a `mtprof run` that is running (1) or was killed (2)? */
static int left_by(const run_place *p)
{
    char marker[PATH_MAX];
    with(p->folder, "/", MARKER, marker);
    int fd = open(marker, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int state = flock(fd, LOCK_EX | LOCK_NB) != 0 ? 1 : 2;
    close(fd);
    return state;
}

static bool was_not_stopped(const char *path)
{
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    options.alone = true;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    return cli_ends(path, ".mtp") && mtp_trace_file_info(path, &options, &info) == MTP_OK &&
           info.format == MTP_FORMAT_RECORDING && info.outcome != MTP_OUTCOME_STOPPED;
}

static int clear_the_way(const run_place *p)
{
    struct stat st;
    char aside[PATH_MAX];
    if (stat(p->out, &st) == 0 && S_ISDIR(st.st_mode))
        return cli_fail(CLI_OUTPUT, "%s: %s; name a file with -o", p->out, mtp__reason(EISDIR));
    if (stat(p->out, &st) == 0 && !S_ISREG(st.st_mode))
        return cli_fail(CLI_OUTPUT, "%s: not a regular file; name another with -o", p->out);
    int left = left_by(p);
    if (left == 1 || holds_live(p->folder) || run_is_live(p->out))
        return refuse(p);
    if (left == 2 || was_not_stopped(p->out))
        return keep(p);
    with(p->out, ASIDE, "", aside);
    if (!move(p->out, aside))
        return cli_fail(CLI_OUTPUT, "%s: cannot be replaced: %s", p->out, mtp__reason(errno));
    return CLI_OK;
}

/* Until the descriptor is closed, no other run takes or leaves names in OUT's folder. -1: the file system has no such
 * locks, or the folder cannot be read. */
static int lock_names(const run_place *p)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(p->out, '/') - p->out) + 1, p->out);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0 && errno == EINTR)
        ;
    return fd;
}

static void unlock_names(int lock)
{
    if (lock >= 0)
        close(lock);
}

/* With the lock: our own files are removed, and the folder if it is empty. From now on the names are not ours. */
static void give_up(run_place *p, bool restore)
{
    char path[PATH_MAX];
    with(p->folder, "/", MARKER, path);
    if (p->marker >= 0)
        unlink(path);
    remove_marks(p->folder);
    rmdir(p->folder);
    with(p->out, ASIDE, "", path);
    if (restore && !exists(p->out))
        move(path, p->out);
    p->out[0] = 0;
}

void run_place_restore(run_place *p)
{
    if (p->out[0] == 0)
        return;
    int lock = lock_names(p);
    give_up(p, true);
    unlock_names(lock);
}

void run_place_forget(const run_place *p)
{
    char aside[PATH_MAX], folder[PATH_MAX];
    with(p->out, ASIDE, "", aside);
    with(p->out, ASIDE, FOLDER, folder);
    unlink(aside);
    remove_folder(folder);
}

/* ------------------------------------------------------------------------------------------------- take, leave */

/* Where processes send what the user should know. */
static bool open_notes(run_place *p)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    p->notes = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(p->notes_name, sizeof p->notes_name, "mtprof-%ld-%llx", (long)getpid(),
             (unsigned long long)mtp_ticks());
    size_t length = strlen(p->notes_name);
    memcpy(name.sun_path + 1, p->notes_name, length);
    return p->notes >= 0 && bind(p->notes, (const struct sockaddr *)&name,
                                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0;
}

/* 0, or an error number. */
static int make_absolute(const char *output, char path[PATH_MAX])
{
    char folder[PATH_MAX] = "";
    if (output[0] != '/' && getcwd(folder, sizeof folder) == NULL)
        return errno;
    int n = snprintf(path, PATH_MAX, "%s%s%s", folder, output[0] == '/' ? "" : "/", output);
    return n < PATH_MAX - (int)sizeof(ASIDE FOLDER) ? 0 : ENAMETOOLONG;
}

/* With the lock. Exit code. */
static int take(run_place *p)
{
    char marker[PATH_MAX];
    int code = clear_the_way(p);
    if (code != CLI_OK) {
        p->out[0] = 0;
        return code;
    }
    if (mkdir(p->folder, 0700) != 0) {
        code = cli_fail(CLI_OUTPUT, "%s cannot be created: %s", p->folder, mtp__reason(errno));
        give_up(p, true);
        return code;
    }
    with(p->folder, "/", MARKER, marker);
    p->marker = open(marker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (p->marker >= 0)
        flock(p->marker, LOCK_EX | LOCK_NB);
    return CLI_OK;
}

int run_place_take(run_place *p, const char *output)
{
    if (!open_notes(p))
        p->notes_name[0] = 0;
    if (output == NULL)
        return CLI_OK;
    int error = make_absolute(output, p->out);
    if (error != 0) {
        p->out[0] = 0;
        return cli_fail(CLI_OUTPUT, "%s: %s", output, mtp__reason(error));
    }
    p->shown = output;
    with(p->out, "", FOLDER, p->folder);
    int lock = lock_names(p), code = take(p);
    unlock_names(lock);
    return code;
}

void run_place_leave(run_place *p)
{
    if (p->out[0] != 0) {
        int lock = lock_names(p);
        give_up(p, false);
        unlock_names(lock);
    }
    if (p->marker >= 0)
        close(p->marker);
    if (p->notes >= 0)
        close(p->notes);
    p->marker = p->notes = -1;
}
