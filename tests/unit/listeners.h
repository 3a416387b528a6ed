/* tests/unit/listeners.h - children that listen, and raw connections to them: for test_listen.c, test_listen_faults.c. */
#ifndef TESTS_UNIT_LISTENERS_H
#define TESTS_UNIT_LISTENERS_H
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mtprof_tools.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "record/listen/listen.h"
#include "tests/test.h"

static void doze(uint64_t ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static void wait_until(atomic_int *flag)
{
    for (int i = 0; !*flag && i < 60000; i++)
        doze(1);
    if (!*flag)
        fail_msg("it never happened");
}

/* A child that listens, in memory shared with it. */
typedef struct job {
    pid_t pid;
    atomic_int ready, go, done, stop, other;
    int other_status;
    void (*also)(struct job *); /* what it does; NULL: records scopes until it is told to stop */
} job;

static void work_until_told(job *j)
{
    while (!j->stop) {
        mtp_scope_end(mtp_scope_begin(MTP_NAME("work")));
        doze(1);
    }
}

static void listen_and_work(void *arg)
{
    job *j = arg;
    j->pid = getpid();
    CHILD_CHECK(mtp_listen() == MTP_OK);
    if (j->also != NULL) {
        j->also(j);
    } else {
        j->ready = 1;
        work_until_told(j);
    }
    exit(0);
}

static job *listener(void (*also)(job *))
{
    job *j = test_shared(sizeof *j);
    j->also = also;
    pid_t pid = test_fork_child(listen_and_work, j, 100);
    wait_until(&j->ready);
    assert_int_equal(j->pid, pid);
    return j;
}

static void finish(job *j)
{
    j->stop = 1;
    assert_true(test_left_well(test_wait(j->pid)));
}

/* ---------------------------------------------------------------------------------------------------- asking */

enum {
    NOT_LISTED,
    IDLE,
    RECORDING
};

static int state_of(pid_t pid)
{
    mtp_listener found[64];
    size_t count = 0;
    assert_ok(mtp_listeners(found, sizeof *found, COUNT(found), &count));
    for (size_t i = 0; i < count && i < COUNT(found); i++)
        if (found[i].pid == (uint64_t)pid)
            return found[i].recording ? RECORDING : IDLE;
    return NOT_LISTED;
}

static mtp_trigger trigger_of(const char *path, uint64_t ms)
{
    static char kept[32][512]; /* valid until the 32nd next call */
    static unsigned turn;
    mtp_trigger t = MTP_TRIGGER_INIT;
    t.spool = kept[turn++ % 32];
    snprintf(kept[(turn - 1) % 32], sizeof kept[0], "%s", path);
    t.ns = ms * 1000000;
    return t;
}

/* A request that another thread makes. */
typedef struct asked {
    pid_t pid;
    mtp_trigger trigger;
    atomic_int started;
    mtp_status status;
    char error[512];
} asked;

static void note_start(void *user)
{
    ((asked *)user)->started = 1;
}

static inline void *ask_for_long(void *arg)
{
    asked *a = arg;
    a->status = mtp_trigger_process((uint64_t)a->pid, &a->trigger);
    snprintf(a->error, sizeof a->error, "%s", mtp_last_error());
    return NULL;
}

/* Returns when the process records; join the thread for the answer. */
static inline pthread_t ask_beside(asked *a, pid_t pid, const char *path, uint64_t ms)
{
    pthread_t thread;
    a->pid = pid;
    a->trigger = trigger_of(path, ms);
    a->trigger.started = note_start;
    a->trigger.user = a;
    pthread_create(&thread, NULL, ask_for_long, a);
    wait_until(&a->started);
    return thread;
}

static struct sockaddr_un name_of(pid_t pid)
{
    struct sockaddr_un folder = {.sun_family = AF_UNIX}, name = {.sun_family = AF_UNIX};
    if (!mtp__listen_folder(geteuid(), 0, &folder) || !mtp__listen_socket(&folder, pid, &name))
        abort();
    return name;
}

static int dial_by(pid_t pid, int flags)
{
    struct sockaddr_un name = name_of(pid);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int dial(pid_t pid)
{
    return dial_by(pid, 0);
}

static inline int dial_at_once(pid_t pid)
{
    return dial_by(pid, SOCK_NONBLOCK);
}

/* The whole answer, up to the end; "": it hung up, or could not be reached. */
static inline void ask(pid_t pid, const char *request, size_t length, char *answer, size_t room)
{
    int fd = dial(pid);
    size_t n = 0;
    if (fd >= 0 && send(fd, request, length, MSG_NOSIGNAL) >= 0)
        for (ssize_t got; n + 1 < room && (got = recv(fd, answer + n, room - n - 1, 0)) > 0;)
            n += (size_t)got;
    answer[n] = 0;
    if (fd >= 0)
        close(fd);
}

/* ---------------------------------------------------------------------------------------------- descriptors */

static int count_descriptors(const char *folder, bool sockets)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char path[300], to[64] = "";
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ssize_t n = readlink(path, to, sizeof to - 1);
        count += n > 0 && (!sockets || strncmp(to, "socket:", 7) == 0);
    }
    if (d != NULL)
        closedir(d);
    return count;
}

/* Of a process that was asked something: those of the conversation may take a moment to go. */
static inline int descriptors_of(pid_t pid)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)pid);
    int count = count_descriptors(folder, false), last = -1;
    for (int i = 0; i < 50 && count != last; i++) {
        last = count;
        doze(100);
        count = count_descriptors(folder, false);
    }
    return count;
}

/* As daemons do. By system calls: a sanitizer would call it a race with their user, which it is. */
static inline void close_all(void)
{
    for (int fd = 3; fd < 200; fd++)
        syscall(SYS_close, fd);
}

static inline int sockets_open(void)
{
    return count_descriptors("/proc/self/fd", true);
}

/* ------------------------------------------------------------------------------------------------- surroundings */

/* Of the folders that lead to it, within the test's own. */
static inline void set_mode_on_the_way_to(const char *path, mode_t mode)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash; strstr(folder, "/mtprof-test-") != NULL; *slash = 0) {
        slash = strrchr(folder, '/');
        if (strcmp(folder, path) != 0)
            chmod(folder, mode);
    }
}

static int use_own_runtime_folder(void **state)
{
    (void)state;
    char folder[128];
    snprintf(folder, sizeof folder, "%s", test_path("r"));
    mkdir(folder, 0700);
    return setenv("XDG_RUNTIME_DIR", folder, 1);
}

/* On a busy machine it takes a while until all threads have seen the signal. */
static inline void stop_and_wait(pid_t pid)
{
    siginfo_t info = {0};
    kill(pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
    assert_int_equal(info.si_code, CLD_STOPPED);
}
#endif
