/* record/listen/client.c - finds processes that listen, and asks one to record: see listen.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/error.h"
#include "base/plain.h"
#include "record/listen/listen.h"

#define TRIES 5 /* a process that closed our descriptor opens another when it is asked */
#define TRY_NS 100000000
#define PATIENCE_S 5
#define BEGIN_S 20  /* a process may have much to prepare */
#define LOOK_MS 100 /* between questions whether it is enough */

/* -1: errno. The peer is the process that it claims to be. */
static int connect_to(const struct sockaddr_un *socket_name, pid_t pid, int seconds)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    const struct timeval patience = {seconds, 0};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)socket_name, sizeof *socket_name) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        if (pid == 0 || peer.pid == pid)
            return fd;
        errno = ESTALE;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* By Ctrl-Z, or a debugger: it cannot answer. */
static bool is_stopped(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* the name may contain anything */
    return at != NULL && (strncmp(at, ") T ", 4) == 0 || strncmp(at, ") t ", 4) == 0);
}

/* -------------------------------------------------------------------------------------------------- listing */

typedef struct listing {
    mtp_listener *out; /* borrowed */
    size_t room, count;
} listing;

static void add(listing *l, const struct sockaddr_un *folder, uid_t uid, pid_t pid)
{
    struct sockaddr_un name;
    char line[256];
    if (!mtp__listen_socket(folder, pid, &name))
        return;
    int fd = connect_to(&name, pid, PATIENCE_S);
    if (fd < 0) {
        if (errno == ECONNREFUSED && uid == geteuid())
            unlink(name.sun_path); /* its process was killed */
        return;
    }
    bool stopped = is_stopped(pid);
    line[0] = 0;
    if (stopped ||
        (mtp__listen_say(fd, MTP__LISTEN_HELLO "state\n") && mtp__listen_hear(fd, line, sizeof line))) {
        if (l->count < l->room)
            l->out[l->count] = (mtp_listener){sizeof(mtp_listener), (uint64_t)pid, (uint32_t)uid,
                                              strcmp(line, "ok recording") == 0, stopped};
        l->count++;
    }
    close(fd);
}

static void list_folder(listing *l, const struct sockaddr_un *folder, uid_t uid)
{
    DIR *d = mtp__listen_is_private(folder->sun_path, uid, false) ? opendir(folder->sun_path) : NULL;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        if (pid > 0 && strcmp(end, ".sock") == 0)
            add(l, folder, uid, (pid_t)pid);
    }
    if (d != NULL)
        closedir(d);
}

/* A user's folders; of two that are the same, one. */
static void list_user(listing *l, uid_t uid)
{
    struct sockaddr_un folder, before = {.sun_path = ""};
    for (int i = 0; i < MTP__LISTEN_FOLDERS; i++)
        if (mtp__listen_folder(uid, i, &folder) && strcmp(folder.sun_path, before.sun_path) != 0) {
            list_folder(l, &folder, uid);
            before = folder;
        }
}

/* The users who have a folder, from names like "1000" or "mtprof-1000". */
static void list_users(listing *l, const char *parent, const char *prefix)
{
    DIR *d = opendir(parent);
    size_t n = strlen(prefix);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char *end;
        if (strncmp(e->d_name, prefix, n) != 0 || !mtp__is_digit(e->d_name[n]))
            continue;
        unsigned long uid = strtoul(e->d_name + n, &end, 10);
        struct sockaddr_un folder;
        if (*end == 0 && (uid_t)uid != geteuid() &&
            mtp__listen_folder((uid_t)uid, prefix[0] == 0 ? 1 : 2, &folder))
            list_folder(l, &folder, (uid_t)uid);
    }
    if (d != NULL)
        closedir(d);
}

mtp_status mtp_listeners(mtp_listener *out, size_t room, size_t *count)
{
    if (count == NULL || (out == NULL && room > 0))
        return MTP_FAIL(MTP_E_ARG, "listeners: out or count is NULL");
    listing l = {out, room, 0};
    list_user(&l, geteuid());
    if (geteuid() == 0) {
        list_users(&l, "/run/user", "");
        list_users(&l, "/tmp", "mtprof-");
    }
    *count = l.count;
    return MTP_OK;
}

/* ------------------------------------------------------------------------------------------------- trigger */

static mtp_status find(pid_t pid, uid_t uid, int *fd)
{
    struct sockaddr_un folder, name;
    for (int i = 0; i < MTP__LISTEN_FOLDERS; i++) {
        if (!mtp__listen_folder(uid, i, &folder) || !mtp__listen_is_private(folder.sun_path, uid, false) ||
            !mtp__listen_socket(&folder, pid, &name))
            continue;
        *fd = connect_to(&name, pid, BEGIN_S);
        if (*fd >= 0)
            return MTP_OK;
    }
    return MTP_FAIL(
        MTP_E_STATE,
        "process %ld does not listen: start it by 'mtprof run --wait', or with MTPROF_LISTEN=1 if it uses "
        "libmtprof ('mtprof ps' lists those that do)",
        (long)pid);
}

/* The answer to one request. MTP_E_BUSY: try again. */
static mtp_status answer(int fd, char *line, size_t room, pid_t pid)
{
    errno = 0;
    if (!mtp__listen_hear(fd, line, room))
        return MTP_FAIL(errno == EAGAIN ? MTP_E_STATE : MTP_E_BUSY, "process %ld does not answer", (long)pid);
    if (strncmp(line, "error ", 6) == 0)
        return MTP_FAIL(MTP_E_STATE, "process %ld cannot be recorded: %s", (long)pid, line + 6);
    return MTP_OK;
}

static mtp_status wait_for_end(int fd, const mtp_trigger *t, pid_t pid)
{
    char line[MTP__LISTEN_LINE];
    struct pollfd done = {fd, POLLIN, 0};
    bool told = false;
    if (t->started != NULL)
        t->started(t->user);
    while (poll(&done, 1, t->is_enough != NULL && !told ? LOOK_MS : -1) <= 0)
        if (!told && t->is_enough != NULL && t->is_enough(t->user))
            told = shutdown(fd, SHUT_WR) == 0;
    mtp_status status = answer(fd, line, sizeof line, pid);
    return status == MTP_E_BUSY ? MTP_OK : status; /* it has ended */
}

mtp_status mtp_trigger_process(uint64_t pid, const mtp_trigger *t)
{
    char path[64], line[MTP__LISTEN_LINE], request[MTP__LISTEN_LINE];
    struct stat st;
    int fd = -1;
    if (t == NULL || t->size < sizeof *t || t->spool == NULL || t->ns == 0)
        return MTP_FAIL(MTP_E_ARG, "trigger: start from MTP_TRIGGER_INIT, and set spool");
    if (t->spool[0] != '/' || strchr(t->spool, '\n') != NULL || strlen(t->spool) > PATH_MAX)
        return MTP_FAIL(MTP_E_ARG, "trigger: '%s' must be an absolute path, of one line", t->spool);
    snprintf(path, sizeof path, "/proc/%llu", (unsigned long long)pid);
    if (stat(path, &st) != 0)
        return MTP_FAIL(MTP_E_ARG, "there is no process %llu", (unsigned long long)pid);
    if (geteuid() != 0 && st.st_uid != geteuid())
        return MTP_FAIL(MTP_E_STATE,
                        "process %llu belongs to another user: only that user and root may record it",
                        (unsigned long long)pid);
    snprintf(request, sizeof request, MTP__LISTEN_HELLO "record ns=%llu budget=%llu%s%s%s path=%s\n",
             (unsigned long long)t->ns, (unsigned long long)t->budget, t->shapes ? " shapes" : "",
             t->memory ? " memory" : "", t->stacks ? " stacks" : "", t->spool);
    mtp_status status = MTP_E_BUSY;
    for (int i = 0; i < TRIES && status == MTP_E_BUSY; i++) {
        status = find((pid_t)pid, st.st_uid, &fd);
        if (status != MTP_OK)
            return status;
        if (is_stopped((pid_t)pid)) {
            close(fd);
            return MTP_FAIL(MTP_E_STATE,
                            "process %llu is stopped (Ctrl-Z, a debugger): let it go on (fg, kill -CONT "
                            "%llu), and ask again",
                            (unsigned long long)pid, (unsigned long long)pid);
        }
        status = mtp__listen_say(fd, request)
                     ? answer(fd, line, sizeof line, (pid_t)pid)
                     : MTP_FAIL(MTP_E_BUSY, "process %llu did not answer", (unsigned long long)pid);
        if (status == MTP_OK)
            status = wait_for_end(fd, t, (pid_t)pid);
        close(fd);
        const struct timespec moment = {0, TRY_NS};
        if (status == MTP_E_BUSY && i + 1 < TRIES)
            nanosleep(&moment, NULL);
    }
    return status;
}
