/* What `mtprof top` watches, for test_top.py: records itself into a spool until it is told to stop, by SIGUSR1, or killed.
 *
 * usage: top_program SPOOL busy|hang|names|ring|fast|threads [NUMBER]
 */
#define _GNU_SOURCE
#include <mtprof.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int stop; /* lock-free: a handler sets it, threads read it */
static mtp_profile *prof;

static void on_stop(int number)
{
    (void)number;
    stop = 1;
}

static void busy(void)
{
    static char block;
    for (int i = 0; !stop; i++) {
        MTP_SCOPE ("forward") {
            MTP_SCOPE ("aten::mm") {
                usleep(300);
            }
            MTP_SCOPE ("aten::add") {
                usleep(100);
            }
        }
        mtp_memory_event(MTP_DEVICE_CPU, &block, i % 2 == 0 ? 3000000 : -3000000,
                         i % 2 == 0 ? 5000000 : 2000000, 8000000);
        if (i % 20 == 0)
            mtp_profile_step(prof);
    }
}

static void hang(void)
{
    MTP_SCOPE ("train") {
        MTP_SCOPE ("load the next batch") {
            MTP_SCOPE ("lock of the queue") {
                sigset_t others; /* it sleeps, all the time: USR1 comes now or is pending */
                sigprocmask(SIG_SETMASK, NULL, &others);
                sigdelset(&others, SIGUSR1);
                while (!stop)
                    sigsuspend(&others);
            }
        }
    }
}

/* Escape sequences, bad UTF-8, wide and combining characters, long ones. */
static void names(void)
{
    static const char *const odd[] = {"\033[2J\033]0;title\a",
                                      "\xff\xfe\x80 bad",
                                      "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97",
                                      "e\xcc\x81 combined",
                                      "a\nb\rc\td",
                                      "\xe2\x80\xae reversed",
                                      "\xc2\x9b"
                                      "31m C1"};
    static char large[10001];
    memset(large, 'L', 10000);
    while (!stop) {
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
            MTP_SCOPE_TEXT(odd[i])
            {
                usleep(100);
            }
        MTP_SCOPE_TEXT(large)
        {
            usleep(100);
        }
    }
}

static atomic_ulong scopes;

static void *at_full_speed(void *arg)
{
    unsigned long n = 0;
    (void)arg;
    for (; !stop; n++)
        MTP_SCOPE ("outer") {
            MTP_SCOPE ("inner") {
            }
        }
    atomic_fetch_add(&scopes, n);
    return NULL;
}

static void fast(long threads)
{
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    for (long i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, at_full_speed, NULL);
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    printf("%lu\n", (unsigned long)scopes);
}

static void *now_and_then(void *arg)
{
    (void)arg;
    while (!stop)
        MTP_SCOPE ("tick") {
            usleep(50000);
        }
    return NULL;
}

static void many(long threads)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < threads; i++) {
        pthread_t t;
        pthread_create(&t, &small, now_and_then, NULL);
    }
    while (!stop)
        usleep(10000);
}

/* So many names. */
static void different(long number)
{
    char text[64];
    for (long i = 0; !stop; i++) {
        snprintf(text, sizeof text, "request %ld", i % number);
        MTP_SCOPE_TEXT(text)
        {
        }
        if (i % 100 == 0)
            usleep(1000);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[2] : "busy";
    long number = argc > 3 ? atol(argv[3]) : 2;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.spool = argv[1];
    config.when_full = MTP_STREAM;
    config.profile_memory = true;
    if (strcmp(mode, "ring") == 0) {
        config.when_full = MTP_KEEP_NEWEST;
        config.buffer_bytes = 1 << 20;
    }
    signal(SIGUSR1, on_stop);
    if (strcmp(mode, "hang") == 0) {
        sigset_t usr1;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        sigprocmask(SIG_BLOCK, &usr1, NULL);
    }
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK) {
        fprintf(stderr, "%s\n", mtp_last_error());
        return 1;
    }
    if (strcmp(mode, "hang") == 0)
        hang();
    else if (strcmp(mode, "names") == 0)
        names();
    else if (strcmp(mode, "fast") == 0 || strcmp(mode, "ring") == 0)
        fast(number);
    else if (strcmp(mode, "threads") == 0)
        many(number);
    else if (strcmp(mode, "different") == 0)
        different(number);
    else
        busy();
    mtp_profile_stop(prof);
    mtp_profile_destroy(prof);
    return 0;
}
