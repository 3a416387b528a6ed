/* record/listen/client.c - finds processes that listen, and asks one to record: see listen.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/listen/listen.h"

#define TRIES 25 /* a process that closed our descriptor opens another when asked, or within two seconds */
#define TRY_NS 100000000
#define PATIENCE_MS 5000
#define BEGIN_MS 20000 /* a process may have much to prepare */
#define LOOK_MS 100    /* between questions whether it is enough */

/* None: errno; ESTALE: the peer is not the process that it claims to be. */
static mtp__own_fd connect_to(const struct sockaddr_un *name, pid_t pid)
{
    struct ucred peer;
    mtp__own_fd own = mtp__own(mtp__socket());
    if (own.fd < 0)
        return own;
    if (mtp__connect(own.fd, name, PATIENCE_MS) == 0 && mtp__peer(own.fd, &peer) == 0) {
        if (peer.pid == pid)
            return own;
        errno = ESTALE;
    }
    mtp__own_close(&own);
    return own;
}

/* As in proc(5); 0: there is no such process. */
static char state_of(pid_t pid)
{
    char path[64], text[MTP__STAT_ROOM];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    const char *at = mtp__process_stat(path, text);
    return at != NULL ? *at : 0;
}

/* By Ctrl-Z, or a debugger: it cannot answer. */
static bool is_stopped(pid_t pid)
{
    char state = state_of(pid);
    return state == 'T' || state == 't';
}

static bool has_ended(pid_t pid)
{
    char state = state_of(pid);
    return state == 0 || state == 'Z' || state == 'X';
}

/* -------------------------------------------------------------------------------------------------- listing */

typedef struct listing {
    char *out;                /* borrowed */
    size_t size, room, count; /* size: of each, as the caller knows it */
} listing;

static void add(listing *l, const struct sockaddr_un *folder, uid_t uid, pid_t pid)
{
    struct sockaddr_un name;
    char line[256];
    if (!mtp__listen_socket(folder, pid, &name))
        return;
    mtp__own_fd to = connect_to(&name, pid);
    if (to.fd < 0) {
        if (errno == ECONNREFUSED && uid == geteuid() && kill(pid, 0) != 0 && errno == ESRCH)
            unlink(name.sun_path); /* its process was killed; one that lives may be about to listen */
        return;
    }
    bool stopped = is_stopped(pid);
    line[0] = 0;
    if (stopped || (mtp__listen_say(&to, MTP__LISTEN_HELLO "state\n", PATIENCE_MS) &&
                    mtp__listen_hear(&to, line, sizeof line, PATIENCE_MS))) {
        const mtp_listener found = {sizeof found, (uint64_t)pid, (uint32_t)uid,
                                    strcmp(line, "ok recording") == 0, stopped};
        char *at = l->out + l->count * l->size;
        if (l->count < l->room)
            mtp__abi_write(memcpy(at, &l->size, sizeof l->size), &found, sizeof found);
        l->count++;
    }
    mtp__own_close(&to);
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

mtp_status mtp_listeners(mtp_listener *out, size_t size, size_t room, size_t *count)
{
    if (count == NULL || (out == NULL && room > 0))
        return MTP_FAIL(MTP_E_ARG, "listeners: out or count is NULL");
    mtp_status status = mtp__abi_check(&size, MTP__ABI_UNTIL(mtp_listener, stopped), "mtp_listener");
    if (status != MTP_OK)
        return status;
    listing l = {(char *)out, size, room, 0};
    list_user(&l, geteuid());
    if (geteuid() == 0) {
        list_users(&l, "/run/user", "");
        list_users(&l, "/tmp", "mtprof-");
    }
    *count = l.count;
    return MTP_OK;
}

/* ------------------------------------------------------------------------------------------------- trigger */

static mtp_status no_answer(pid_t pid)
{
    return MTP_FAIL(MTP_E_STATE, "process %ld did not answer within %d seconds: it may be stopped", (long)pid,
                    PATIENCE_MS / 1000);
}

/* In the folders of this user. MTP_E_STATE: it is not there; is_closed: but its socket is, try again. */
static mtp_status find_in(pid_t pid, uid_t uid, mtp__own_fd *to, bool *is_closed)
{
    struct sockaddr_un folder, name;
    for (int i = 0; i < MTP__LISTEN_FOLDERS; i++) {
        if (!mtp__listen_folder(uid, i, &folder) || !mtp__listen_is_private(folder.sun_path, uid, false) ||
            !mtp__listen_socket(&folder, pid, &name))
            continue;
        *to = connect_to(&name, pid);
        *is_closed = to->fd < 0 && (*is_closed || errno == ECONNREFUSED);
        if (to->fd >= 0)
            return MTP_OK;
        if (errno == EAGAIN) /* its queue is full */
            return no_answer(pid);
        if (errno != ENOENT && errno != ECONNREFUSED && errno != ESTALE)
            return MTP_FAIL(MTP_E_IO, "process %ld cannot be asked: %s", (long)pid, mtp__reason(errno));
    }
    return MTP_FAIL(
        MTP_E_STATE,
        "process %ld does not listen: start it by 'mtprof run --wait', or with MTPROF_LISTEN=1 if it uses "
        "libmtprof ('mtprof ps' lists those that do)",
        (long)pid);
}

/* A process that gave up root's rights after it began to listen is in root's folder. */
static mtp_status find(pid_t pid, uid_t uid, mtp__own_fd *to, bool *is_closed)
{
    mtp_status status = find_in(pid, uid, to, is_closed);
    if (status == MTP_E_STATE && geteuid() != uid)
        status = find_in(pid, geteuid(), to, is_closed);
    return status;
}

/* The answer to one request. MTP_E_BUSY: try again. */
static mtp_status answer(const mtp__own_fd *from, char *line, size_t room, pid_t pid, int ms)
{
    if (!mtp__listen_hear(from, line, room, ms))
        return errno == ETIMEDOUT
                   ? no_answer(pid)
                   : MTP_FAIL(MTP_E_BUSY, "process %ld did not answer: %s", (long)pid, mtp__reason(errno));
    if (strncmp(line, "error ", 6) == 0)
        return MTP_FAIL(MTP_E_STATE, "process %ld cannot be recorded: %s", (long)pid, line + 6);
    return MTP_OK;
}

static mtp_status wait_for_end(const mtp__own_fd *from, const mtp_trigger *t, pid_t pid)
{
    char line[MTP__LISTEN_LINE];
    struct pollfd done = {from->fd, POLLIN, 0};
    bool told = false;
    if (t->started != NULL)
        t->started(t->user);
    while (poll(&done, 1, t->is_enough != NULL && !told ? LOOK_MS : -1) <= 0)
        if (!told && t->is_enough != NULL && t->is_enough(t->user))
            told = shutdown(from->fd, SHUT_WR) == 0;
    mtp_status status = answer(from, line, sizeof line, pid, -1);
    if (status != MTP_E_BUSY)
        return status;
    const struct timespec moment = {0, TRY_NS}; /* its descriptors are closed before it has ended */
    nanosleep(&moment, NULL);
    return has_ended(pid)
               ? MTP_OK
               : MTP_FAIL(
                     MTP_E_STATE,
                     "process %ld closed our connection while it was recorded; %s has what it did until then",
                     (long)pid, t->spool);
}

/* MTP_E_BUSY, or is_closed: try again. */
static mtp_status ask(pid_t pid, uid_t uid, const char *request, const mtp_trigger *t, bool *is_closed)
{
    char line[MTP__LISTEN_LINE];
    mtp__own_fd to = MTP__NO_FD;
    mtp_status status = find(pid, uid, &to, is_closed);
    if (status != MTP_OK)
        return status;
    if (is_stopped(pid))
        status = MTP_FAIL(
            MTP_E_STATE,
            "process %ld is stopped (Ctrl-Z, a debugger): let it go on (fg, kill -CONT %ld), and ask again",
            (long)pid, (long)pid);
    else if (!mtp__listen_say(&to, request, PATIENCE_MS))
        status = MTP_FAIL(MTP_E_BUSY, "process %ld did not answer: %s", (long)pid, mtp__reason(errno));
    if (status == MTP_OK)
        status = answer(&to, line, sizeof line, pid, BEGIN_MS);
    if (status == MTP_OK)
        status = wait_for_end(&to, t, pid);
    mtp__own_close(&to);
    return status;
}

mtp_status mtp_trigger_process(uint64_t pid, const mtp_trigger *given)
{
    char path[64], request[MTP__LISTEN_LINE];
    struct stat st;
    mtp_trigger known = MTP_TRIGGER_INIT, *t = &known;
    mtp_status status = MTP__ABI_READ(&known, given, mtp_trigger, user);
    if (status != MTP_OK)
        return status;
    if (t->spool == NULL || t->ns == 0)
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
    status = MTP_E_BUSY;
    bool is_closed = false;
    for (int i = 0; i < TRIES && (status == MTP_E_BUSY || is_closed); i++) {
        const struct timespec moment = {0, i == 0 ? 0 : TRY_NS};
        nanosleep(&moment, NULL);
        is_closed = false;
        status = ask((pid_t)pid, st.st_uid, request, t, &is_closed);
    }
    return status;
}
