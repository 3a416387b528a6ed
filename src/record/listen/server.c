/* record/listen/server.c - a process that listens: see listen.h.
 *
 * One thread, with all signals blocked, sleeps until somebody asks. The program owns its descriptors, and may close any:
 * ours is checked before each use, and made anew if it is gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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
#include "record/profile.h"
#include "record/registry.h"

#define STACK_BYTES ((size_t)256 << 10)
#define IDLE_MS 2000 /* between looks at whether the program has ended: mtp__is_last_thread */
#define PATIENCE_S 2 /* for a client that does not finish its line */

static struct {
    atomic_bool on;
    pid_t pid;
    struct sockaddr_un name;
    int fd;
    struct stat identity; /* of fd */
    /* the recording that a client asked for */
    mtp_profile *profile; /* owned, or NULL */
    int client;           /* -1: none */
    uint64_t until_ns;
} server = {.fd = -1, .client = -1};

/* ------------------------------------------------------------------------------------------------ the socket */

static bool is_ours(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == server.identity.st_dev &&
           st.st_ino == server.identity.st_ino;
}

static mtp_status open_socket(void)
{
    struct sockaddr_un folder;
    bool found = false;
    const uid_t me = geteuid();
    /* the user's own runtime folder, else /tmp */
    for (int i = 0; i < MTP__LISTEN_FOLDERS && !found; i++)
        found = i != 1 && mtp__listen_folder(me, i, &folder) &&
                mtp__listen_is_private(folder.sun_path, me, true) &&
                mtp__listen_socket(&folder, getpid(), &server.name);
    if (!found)
        return MTP_FAIL(
            MTP_E_IO, "listen: neither $XDG_RUNTIME_DIR nor /tmp has a folder that only this user can enter");
    server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(server.name.sun_path); /* left by an earlier process of this number */
    if (server.fd < 0 || bind(server.fd, (const struct sockaddr *)&server.name, sizeof server.name) != 0 ||
        listen(server.fd, 8) != 0 || fstat(server.fd, &server.identity) != 0) {
        mtp_status status = MTP_FAIL(MTP_E_IO, "listen: %s: %s", server.name.sun_path, mtp__reason(errno));
        if (server.fd >= 0)
            close(server.fd);
        server.fd = -1;
        return status;
    }
    return MTP_OK;
}

static void remove_socket(void)
{
    if (atomic_load(&server.on) && server.pid == getpid())
        unlink(server.name.sun_path);
}

/* The same user, or root. */
static bool is_allowed(int client)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
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
    mtp__listen_say(server.client, answer);
    close(server.client);
    mtp_profile_destroy(server.profile);
    server.profile = NULL;
    server.client = -1;
}

static void say_error(int client, const char *text)
{
    char answer[MTP__LISTEN_LINE];
    snprintf(answer, sizeof answer, "error %s\n", text);
    mtp__listen_say(client, answer);
}

/* true: the client stays, for its recording. */
static bool record(int client, char *words)
{
    char *path = strstr(words, "path=");
    uint64_t ns = number_of(words, "ns=");
    if (path == NULL || ns == 0) {
        say_error(client, "the request is incomplete");
        return false;
    }
    path[-1] = 0;
    struct pollfd gone = {client, 0, 0};
    if (poll(&gone, 1, 0) > 0)
        return false; /* it lost patience while this process was stopped */
    if (server.profile != NULL) {
        say_error(client, "it is being recorded on somebody's request already");
        return false;
    }
    if (begin(words, path + 5) != MTP_OK) {
        say_error(client, mtp_last_error());
        return false;
    }
    server.client = client;
    server.until_ns = mtp_now_ns() + ns;
    mtp__listen_say(client, "ok\n");
    return true;
}

static void serve(void)
{
    char line[MTP__LISTEN_LINE];
    const struct timeval patience = {PATIENCE_S, 0};
    const size_t hello = sizeof MTP__LISTEN_HELLO - 1;
    int client = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    bool stays = false;
    if (is_allowed(client) && mtp__listen_hear(client, line, sizeof line) &&
        strncmp(line, MTP__LISTEN_HELLO, hello) == 0) {
        char *words = line + hello;
        if (strncmp(words, "state", 5) == 0)
            mtp__listen_say(client, mtp_recording() != 0 ? "ok recording\n" : "ok idle\n");
        else if (strncmp(words, "record ", 7) == 0)
            stays = record(client, words + 7);
        else
            say_error(client, "this version does not know the request");
    }
    if (!stays)
        close(client);
}

/* ----------------------------------------------------------------------------------------------- the thread */

/* The main thread has left by pthread_exit(), and this is the only one besides: the program has ended. */
bool mtp__is_last_thread(void)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", (long)getpid());
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* the name may contain anything */
    bool is_over = at != NULL && strncmp(at, ") Z ", 4) == 0;
    for (int field = 2; is_over && field < 20 && at != NULL;
         field++) /* proc(5): 20 is the number of threads */
        at = strchr(at + 1, ' ');
    return is_over && at != NULL && strncmp(at, " 2 ", 3) == 0;
}

static int patience_ms(void)
{
    if (server.profile == NULL)
        return IDLE_MS;
    uint64_t now = mtp_now_ns();
    uint64_t left = server.until_ns > now ? (server.until_ns - now + 999999) / 1000000 : 0;
    return left < IDLE_MS ? (int)left : IDLE_MS;
}

static void *listen_on(void *unused)
{
    while (is_ours(server.fd) || open_socket() == MTP_OK) {
        struct pollfd ready[] = {{server.fd, POLLIN, 0},
                                 {server.client, POLLRDHUP, 0}}; /* a client that hangs up, or has enough */
        int n = poll(ready, 2, patience_ms());
        if (n == 0 && mtp__is_last_thread())
            exit(0);
        if (server.profile != NULL && (mtp_now_ns() >= server.until_ns || ready[1].revents != 0))
            end();
        if (ready[0].revents != 0 && is_ours(server.fd))
            serve();
    }
    atomic_store(&server.on, false);
    return unused;
}

static mtp_status start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attr, listen_on, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error == 0 ? MTP_OK
                      : MTP_FAIL(MTP_E_NOMEM, "listen: no thread could be created: %s", mtp__reason(error));
}

mtp_status mtp_listen(void)
{
    static atomic_bool registered;
    bool off = false;
    if (!atomic_compare_exchange_strong(&server.on, &off, true))
        return MTP_OK;
    server.pid = getpid();
    mtp_status status = mtp__registry_init(); /* for the fork handlers */
    if (status == MTP_OK)
        status = open_socket();
    if (status == MTP_OK && !atomic_exchange(&registered, true))
        atexit(remove_socket);
    if (status == MTP_OK)
        status = start_thread();
    if (status != MTP_OK)
        atomic_store(&server.on, false);
    return status;
}

void mtp__listen_forked(void)
{
    if (!atomic_load(&server.on))
        return;
    if (is_ours(server.fd))
        close(server.fd);
    if (server.client >= 0)
        close(server.client);
    server.fd = server.client = -1;
    server.profile = NULL; /* the parent's: it is not recording here */
    atomic_store(&server.on, false);
    mtp_listen();
}

static __attribute__((constructor)) void listen_at_load(void)
{
    const char *wanted = getenv("MTPROF_LISTEN");
    if (wanted != NULL && strcmp(wanted, "1") == 0)
        mtp_listen();
}
