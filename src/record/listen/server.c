/* record/listen/server.c - a process that listens: see listen.h.
 *
 * One thread, with all signals blocked, sleeps until somebody asks; the state is its own, but for forks. The program owns
 * its descriptors, and may close any: ours are checked before each use, and the socket is made anew if it is gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/listen/listen.h"
#include "record/profile.h"
#include "record/registry.h"

#define IDLE_MS 2000 /* between looks at whether the program has ended, and whether we can still be found */
#define PATIENCE_MS 500 /* for a client's line, which is sent at once */
#define NAP_MS 100      /* without descriptors */
#define QUEUE 8

static struct {
    atomic_bool on, leaving; /* leaving: the process exits */
    pid_t pid;
    struct sockaddr_un name;
    struct stat root, file; /* when it was bound: of "/", of the name */
    mtp__own_fd door;       /* the socket */
    mtp__own_fd guest;      /* who is being heard */
    /* the recording that a client asked for */
    mtp_profile *profile; /* owned, or NULL */
    mtp__own_fd client;
    uint64_t until_ns;
} server = {.door = {.fd = -1}, .guest = {.fd = -1}, .client = {.fd = -1}};

static void nap(void)
{
    const struct timespec t = {0, NAP_MS * 1000000L};
    nanosleep(&t, NULL);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Descriptors are opened and closed under the lock that a fork takes: the child knows, and closes, all of ours. */
static mtp__hold lock_forks(void)
{
    mtp__hold before = mtp__writer_hold();
    mtp__registry_lock();
    return before;
}

static void unlock_forks(mtp__hold before)
{
    mtp__registry_unlock();
    mtp__writer_release(before);
}

static void hang_up(mtp__own_fd *client)
{
    mtp__hold before = lock_forks();
    mtp__own_close(client);
    unlock_forks(before);
}

/* ------------------------------------------------------------------------------------------------ the socket */

static bool find_name(void)
{
    struct sockaddr_un folder;
    const uid_t me = geteuid();
    for (int i = 0; i < MTP__LISTEN_FOLDERS; i++) /* the user's own runtime folder, else /tmp */
        if (i != 1 && mtp__listen_folder(me, i, &folder) &&
            mtp__listen_is_private(folder.sun_path, me, true) &&
            mtp__listen_socket(&folder, getpid(), &server.name))
            return true;
    return false;
}

static bool open_door(void)
{
    mtp__hold before = lock_forks();
    server.door = mtp__own(mtp__socket());
    unlink(server.name.sun_path); /* left by an earlier process of this number */
    bool bound = server.door.fd >= 0 && mtp__bind(server.door.fd, &server.name) == 0;
    bool open = bound && mtp__listen(server.door.fd, QUEUE) == 0 && stat("/", &server.root) == 0 &&
                mtp__look_at(server.name.sun_path, &server.file) == 0;
    int error = errno;
    if (!open)
        mtp__own_close(&server.door);
    if (bound && !open)
        unlink(server.name.sun_path);
    errno = error;
    unlock_forks(before);
    return open;
}

static mtp_status open_socket(void)
{
    if (!find_name())
        return MTP_FAIL(
            MTP_E_IO, "listen: neither $XDG_RUNTIME_DIR nor /tmp has a folder that only this user can enter");
    if (!open_door())
        return MTP_FAIL(MTP_E_IO, "listen: %s: %s", server.name.sun_path, mtp__reason(errno));
    return MTP_OK;
}

/* Somebody deleted the file. A process that has changed its root cannot see it: others can. */
static bool is_deleted(void)
{
    struct stat root, file;
    return stat("/", &root) == 0 && is_same(&root, &server.root) &&
           mtp__look_at(server.name.sun_path, &file) != 0 && errno == ENOENT;
}

static void remove_file(void)
{
    struct stat file;
    if (mtp__look_at(server.name.sun_path, &file) == 0 && is_same(&file, &server.file))
        unlink(server.name.sun_path); /* and not that of a process with this number in another namespace */
}

static void at_exit(void)
{
    atomic_store(&server.leaving, true); /* other handlers may take their time: the thread makes no new one */
    if (atomic_load(&server.on) && server.pid == getpid())
        remove_file();
}

/* The same user, or root. */
static bool is_allowed(const mtp__own_fd *client)
{
    struct ucred peer;
    return mtp__peer(client->fd, &peer) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

/* ---------------------------------------------------------------------------------------------- a recording */

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0))
            return true;
    return false;
}

static uint64_t number_of(const char *words, const char *name)
{
    const char *p = strstr(words, name);
    return p != NULL ? strtoull(p + strlen(name), NULL, 10) : 0;
}

/* The path as a pattern: its percent signs are doubled. */
static bool spool_of(const char *path, char *pattern, size_t room)
{
    size_t n = 0;
    for (; *path != 0; path++) {
        if (n + 3 > room)
            return false;
        if (*path == '%')
            pattern[n++] = '%';
        pattern[n++] = *path;
    }
    pattern[n] = 0;
    return true;
}

static mtp_status begin(const char *words, const char *path)
{
    char pattern[2 * PATH_MAX];
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    if (path[0] != '/' || !spool_of(path, pattern, sizeof pattern))
        return MTP_FAIL(MTP_E_ARG, "'%s' is not an absolute path", path);
    config.record_shapes = config.with_flops = has_word(words, "shapes");
    config.profile_memory = has_word(words, "memory");
    config.with_stack = config.with_modules = has_word(words, "stacks");
    config.buffer_bytes = number_of(words, "budget=");
    config.spool = pattern;
    config.when_full = MTP_STREAM;
    config.gives_way = true;
    mtp_status status = mtp_profile_create(&config, &server.profile);
    if (status == MTP_OK)
        status = mtp_profile_prepare_trace(server.profile);
    if (status == MTP_OK)
        status = mtp_profile_start_trace(server.profile);
    if (status != MTP_OK) {
        mtp_profile_destroy(server.profile);
        server.profile = NULL;
    }
    return status;
}

static void end(void)
{
    char answer[MTP__LISTEN_LINE];
    mtp_status status = mtp_profile_stop_trace(server.profile);
    snprintf(answer, sizeof answer, "%s%s\n", status == MTP_OK ? "done" : "error ",
             status == MTP_OK ? "" : mtp_last_error());
    mtp__listen_say(&server.client, answer, PATIENCE_MS);
    hang_up(&server.client);
    mtp_profile_destroy(server.profile);
    server.profile = NULL;
}

static void say_error(const char *text)
{
    char answer[MTP__LISTEN_LINE];
    snprintf(answer, sizeof answer, "error %s\n", text);
    mtp__listen_say(&server.guest, answer, PATIENCE_MS);
}

/* Or has had enough. */
static bool is_gone(const mtp__own_fd *client)
{
    struct pollfd state = {client->fd, POLLRDHUP, 0};
    return !mtp__own_is(client) || poll(&state, 1, 0) != 0;
}

/* If it succeeds, the client stays. */
static void record(char *words)
{
    char *path = strstr(words, "path=");
    uint64_t ns = number_of(words, "ns="), now = mtp_now_ns();
    if (path == NULL || ns == 0) {
        say_error("the request is incomplete");
        return;
    }
    path[-1] = 0;
    if (server.profile != NULL) {
        say_error("it is being recorded on somebody's request already");
        return;
    }
    if (is_gone(&server.guest))
        return;
    if (begin(words, path + 5) != MTP_OK) {
        say_error(mtp_last_error());
        return;
    }
    server.client = server.guest;
    server.guest = MTP__NO_FD;
    server.until_ns = ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
    mtp__listen_say(&server.client, "ok\n", PATIENCE_MS);
}

static void serve(int patience_ms)
{
    char line[MTP__LISTEN_LINE], *words = line + sizeof MTP__LISTEN_HELLO - 1;
    mtp__hold before = lock_forks();
    server.guest = mtp__own(mtp__accept(server.door.fd));
    unlock_forks(before);
    if (server.guest.fd < 0) {
        nap(); /* the program has no descriptors left: its caller waits */
        return;
    }
    if (is_allowed(&server.guest) && mtp__listen_hear(&server.guest, line, sizeof line, patience_ms) &&
        strncmp(line, MTP__LISTEN_HELLO, sizeof MTP__LISTEN_HELLO - 1) == 0) {
        if (strncmp(words, "state", 5) == 0)
            mtp__listen_say(&server.guest, mtp_recording() != 0 ? "ok recording\n" : "ok idle\n",
                            PATIENCE_MS);
        else if (strncmp(words, "record ", 7) == 0)
            record(words + 7);
        else
            say_error("this version does not know the request");
    }
    hang_up(&server.guest);
}

/* ----------------------------------------------------------------------------------------------- the thread */

/* Until the recording is over, and at most so many ms. */
static int patience_ms(int most)
{
    if (server.profile == NULL)
        return most;
    uint64_t now = mtp_now_ns();
    uint64_t left = server.until_ns > now ? (server.until_ns - now + 999999) / 1000000 : 0;
    return left < (uint64_t)most ? (int)left : most;
}

static void listen_on(void)
{
    for (;;) {
        if (mtp__own_is(&server.door) && is_deleted() && !atomic_load(&server.leaving))
            hang_up(&server.door);
        if (!mtp__own_is(&server.door) && !atomic_load(&server.leaving))
            (void)open_socket(); /* if it fails: again after the next wait */
        struct pollfd ready[] = {
            {server.door.fd, POLLIN, 0},
            {server.client.fd, POLLRDHUP, 0}}; /* a client that hangs up, or has enough */
        int n = poll(ready, 2, patience_ms(IDLE_MS));
        if (n == 0 && mtp__is_last_thread())
            exit(0);
        if (server.profile != NULL && (mtp_now_ns() >= server.until_ns || is_gone(&server.client)))
            end();
        if (n > 0 && ready[0].revents != 0 && mtp__own_is(&server.door))
            serve(patience_ms(PATIENCE_MS));
    }
}

mtp_status mtp_listen(void)
{
    static atomic_bool registered;
    bool off = false;
    int before = errno;
    if (!atomic_compare_exchange_strong(&server.on, &off, true))
        return MTP_OK;
    server.pid = getpid();
    mtp_status status = mtp__registry_init(); /* for the fork handlers */
    if (status == MTP_OK)
        status = open_socket();
    if (status == MTP_OK && !atomic_exchange(&registered, true))
        atexit(at_exit);
    if (status == MTP_OK && (status = mtp__own_thread(listen_on)) != MTP_OK) {
        MTP_NOTE("listen");
        hang_up(&server.door);
        remove_file();
    }
    if (status != MTP_OK)
        atomic_store(&server.on, false);
    errno = before;
    return status;
}

void mtp__listen_forked(bool may_listen)
{
    if (!atomic_load(&server.on))
        return;
    mtp__own_close(&server.door);
    mtp__own_close(&server.guest);
    mtp__own_close(&server.client);
    server.profile = NULL; /* the parent's: it is not recording here */
    atomic_store(&server.on, false);
    if (may_listen)
        mtp_listen();
}

static __attribute__((constructor)) void listen_at_load(void)
{
    const char *wanted = secure_getenv("MTPROF_LISTEN");
    if (wanted != NULL && strcmp(wanted, "1") == 0)
        mtp_listen();
}
