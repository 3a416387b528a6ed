/* Programs that end, start others or treat their surroundings in unusual ways, for test_programs.py. Each records scopes
 * by mtprof.h, so that what is missing from its trace shows.
 *
 * usage: run_odd MODE [ARGUMENT]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mtprof.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK ((size_t)256 << 10)
#define MANY 300000 /* scopes: more than one chunk holds */

extern char **environ;
static char *self; /* argv[0] */

static void work(int count)
{
    for (int i = 0; i < count; i++)
        MTP_SCOPE ("work") {
        }
}

/* The exit status, as a shell's. */
static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ------------------------------------------------------------------------------------------------------- ends */

static int end_by_abort(const char *unused)
{
    (void)unused;
    work(10);
    abort();
}

static int sink;

/* Not a tail call: each level needs its own array. */
static __attribute__((noinline)) int deeper(volatile char *above)
{
    volatile char room[4096];
    room[0] = above != NULL ? above[0] : 1;
    sink += deeper(room);
    return room[0] + sink;
}

static int overflow_stack(const char *unused)
{
    (void)unused;
    work(10);
    return deeper(NULL);
}

static int end_quickly(const char *unused)
{
    (void)unused;
    work(10);
    quick_exit(7);
}

static int write_to_closed_pipe(const char *unused)
{
    (void)unused;
    work(10);
    for (;;)
        if (puts("more than the pipe holds") < 0 || fflush(stdout) != 0)
            return 3; /* SIGPIPE was ignored */
}

/* --------------------------------------------------------------------------------------------- other programs */

/* A copy of the process that no fork handler knows of. */
static int clone_raw(const char *unused)
{
    (void)unused;
    work(10);
    pid_t pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (pid == 0) {
        work(MANY);
        _exit(4);
    }
    int code = wait_for(pid);
    work(10);
    return code;
}

static int start_work(void *unused)
{
    (void)unused;
    execl(self, self, "scopes", "20", (char *)NULL);
    _exit(1);
}

/* What posix_spawn does, by hand. */
static int clone_shared(const char *unused)
{
    (void)unused;
    char *stack = malloc(STACK);
    work(10);
    int pid = clone(start_work, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    int code = wait_for(pid);
    free(stack);
    return code;
}

static int exec_with(char **environment)
{
    char *const argv[] = {self, "scopes", "20", NULL};
    work(10);
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    fexecve(fd, argv, environment);
    return 1;
}

static int exec_descriptor(const char *unused)
{
    (void)unused;
    return exec_with(environ);
}

static int exec_without_environment(const char *unused)
{
    char *environment[] = {"PATH=/bin:/usr/bin", NULL};
    (void)unused;
    return exec_with(environment);
}

static int tree(const char *depth)
{
    int left = atoi(depth);
    work(1);
    if (left <= 1)
        return 0;
    pid_t pid = fork();
    if (pid == 0) {
        char next[16];
        snprintf(next, sizeof next, "%d", left - 1);
        if (left % 2 == 0)
            execl(self, self, "tree", next, (char *)NULL);
        exit(tree(next));
    }
    return wait_for(pid);
}

/* ----------------------------------------------------------------------------------------------- surroundings */

/* The child's file is made while nobody may read new files. */
static int hide_files(const char *unused)
{
    (void)unused;
    umask(0777);
    work(10);
    pid_t pid = fork();
    if (pid == 0) {
        work(10);
        exit(0);
    }
    return wait_for(pid);
}

static int change_root(const char *folder)
{
    work(10);
    if (chroot(folder) != 0 || chdir("/") != 0)
        return 99;
    work(MANY);
    pid_t pid = fork();
    if (pid == 0) {
        work(10);
        exit(0);
    }
    return wait_for(pid);
}

/* Reads lines, and says them backwards, until "end". */
static int talk(const char *unused)
{
    char line[256];
    (void)unused;
    printf("ready\n");
    while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL && strcmp(line, "end\n") != 0) {
        work(1);
        for (size_t n = strcspn(line, "\n"); n > 0; n--)
            putchar(line[n - 1]);
        putchar('\n');
    }
    return 8;
}

static void stop_slowly(int signo)
{
    static const char text[] = "tidying up\n";
    sleep(1);
    if (write(STDOUT_FILENO, text, sizeof text - 1) > 0)
        signal(signo, SIG_DFL);
    raise(signo);
}

/* Has something to do before Ctrl-Z stops it, as editors do. */
static int talk_and_tidy(const char *unused)
{
    signal(SIGTSTP, stop_slowly);
    return talk(unused);
}

static int scopes(const char *count)
{
    work(atoi(count));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *mode;
        int (*run)(const char *argument);
    } modes[] = {
        {"scopes", scopes},       {"abort", end_by_abort},         {"overflow", overflow_stack},
        {"quick", end_quickly},   {"pipe", write_to_closed_pipe},  {"clone", clone_raw},
        {"shared", clone_shared}, {"descriptor", exec_descriptor}, {"bare", exec_without_environment},
        {"tree", tree},           {"umask", hide_files},           {"chroot", change_root},
        {"talk", talk},           {"tidy", talk_and_tidy}};
    self = argv[0];
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].mode) == 0)
            return modes[i].run(argc > 2 ? argv[2] : "100");
    return 99;
}
