/* What programs do, for test_run.py: each mode records scopes by mtprof.h and lives or ends in its own way.
 *
 * usage: run_program MODE [ARGUMENT]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mtprof.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void work(int count)
{
    for (int i = 0; i < count; i++)
        MTP_SCOPE ("work") {
        }
}

static int communicate(const char *argument)
{
    for (int i = atoi(argument); i > 0; i--)
        MTP_SCOPE ("MPI_Allreduce") {
            work(1);
        }
    return 0;
}

static void wait_for(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void *thread_work(void *how)
{
    work(100);
    if (how != NULL)
        exit(4);
    return NULL;
}

static int fork_some(const char *argument)
{
    int children = atoi(argument);
    work(10);
    for (int i = 0; i < children; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int k = 0; k < 50; k++)
                MTP_SCOPE ("child") {
                }
            i % 2 == 0 ? exit(0) : _exit(0);
        }
        wait_for(pid);
    }
    return 0;
}

static int start_another(const char *self, const char *way)
{
    char *const argv[] = {(char *)self, "scopes", "20", NULL};
    pid_t pid = -1;
    work(10);
    if (strcmp(way, "exec") == 0)
        execv(self, argv);
    if (strcmp(way, "vfork") == 0 && (pid = vfork()) == 0) {
        execv(self, argv);
        _exit(1);
    }
    if (strcmp(way, "spawn") == 0 && posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0)
        return 1;
    wait_for(pid);
    return 0;
}

static int close_all(const char *path)
{
    work(10);
    if (close_range(3, ~0u, 0) != 0)
        return 1;
    int mine = open(path, O_RDWR | O_CREAT, 0600); /* takes the number of one that was ours */
    work(200000);
    if (write(mine, "mine", 4) != 4)
        return 1;
    work(200000);
    return 0;
}

/* A profile of the program's own, in the middle. */
static int profile_itself(const char *path)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    config.spool = path;
    work(10);
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK) {
        fprintf(stderr, "%s\n", mtp_last_error());
        return 1;
    }
    for (int i = 0; i < 7; i++)
        MTP_SCOPE ("own") {
        }
    if (mtp_profile_stop(prof) != MTP_OK)
        return 1;
    mtp_profile_destroy(prof);
    work(10);
    return 0;
}

/* A daemon, which has begun its work when its parent exits. */
static int outlive(const char *seconds)
{
    int begun[2];
    char byte;
    work(10);
    fflush(NULL);
    if (pipe(begun) != 0)
        return 1;
    if (fork() == 0) {
        setsid();
        close(0), close(1), close(2);
        work(10);
        close(begun[0]), close(begun[1]);
        sleep((unsigned)atoi(seconds));
        _exit(0);
    }
    close(begun[1]);
    return read(begun[0], &byte, 1) == 0 ? 0 : 1;
}

static int change_user(const char *self)
{
    work(10);
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    work(10);
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execl(self, self, "scopes", "5", (char *)NULL);
            _exit(1);
        }
        wait_for(pid);
    }
    return 0;
}

static volatile sig_atomic_t got;

static void on_signal(int number)
{
    got = number;
}

/* Waits for a signal, and ends by itself. */
static int handle(const char *number)
{
    signal(atoi(number), on_signal);
    work(10);
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; got == 0 && i < 2000; i++)
        usleep(5000);
    printf("got %d\n", (int)got);
    return got != 0 ? 5 : 1;
}

static int wait_long(const char *seconds)
{
    work(10);
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < atoi(seconds) * 1000; i++) {
        work(10);
        usleep(1000);
    }
    return 0;
}

static int leave_main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, thread_work, NULL);
    pthread_exit(NULL);
}

static int exit_in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, thread_work, "exit");
    pthread_join(thread, NULL);
    for (;;)
        pause();
}

static int crash(void)
{
    work(10);
    raise(SIGSEGV);
    return 0;
}

/* What it inherits: signal dispositions, the mask, descriptors, arguments. */
static int show(int argc, char **argv)
{
    sigset_t mask;
    struct sigaction action;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf("blocked");
    for (int i = 1; i < 32; i++)
        if (sigismember(&mask, i) == 1)
            printf(" %d", i);
    printf("\nignored");
    for (int i = 1; i < 32; i++)
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            printf(" %d", i);
    printf("\narguments");
    for (int i = 2; i < argc; i++)
        printf(" [%s]", argv[i]);
    printf("\ngroup %d\n", getpgrp() == getpid());
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "scopes", *argument = argc > 2 ? argv[2] : "100";
    if (strcmp(mode, "scopes") == 0) {
        work(atoi(argument));
        return argc > 3 ? atoi(argv[3]) : 0;
    }
    if (strcmp(mode, "quick") == 0) {
        work(10);
        _exit(6);
    }
    if (strcmp(mode, "chdir") == 0) {
        work(10);
        return chdir("/") != 0 || (work(300000), 0);
    }
    return strcmp(mode, "fork") == 0         ? fork_some(argument)
           : strcmp(mode, "calls") == 0      ? communicate(argument)
           : strcmp(mode, "start") == 0      ? start_another(argv[0], argument)
           : strcmp(mode, "close") == 0      ? close_all(argument)
           : strcmp(mode, "profile") == 0    ? profile_itself(argument)
           : strcmp(mode, "outlive") == 0    ? outlive(argument)
           : strcmp(mode, "user") == 0       ? change_user(argv[0])
           : strcmp(mode, "handle") == 0     ? handle(argument)
           : strcmp(mode, "wait") == 0       ? wait_long(argument)
           : strcmp(mode, "leave") == 0      ? leave_main()
           : strcmp(mode, "threadexit") == 0 ? exit_in_thread()
           : strcmp(mode, "crash") == 0      ? crash()
           : strcmp(mode, "show") == 0       ? show(argc, argv)
                                             : 99;
}
