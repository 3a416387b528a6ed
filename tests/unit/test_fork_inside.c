/* Unit: record/fork: forks inside a record, in a signal handler, under one of our locks, beside the
 * dynamic linker. */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>
#include "forked.h"

static mtp__testpoint fork_at;
static pid_t tester;
static _Thread_local bool i_fork; /* a child of another thread would run that thread's endless loop */
static volatile sig_atomic_t handler_forks, handler_bad;

/* The child also returns from the handler, into whatever was interrupted. */
static void fork_in_handler(int sig)
{
    (void)sig;
    pid_t pid = fork();
    if (pid == 0)
        return;
    handler_forks = handler_forks + 1;
    handler_bad = handler_bad + (pid < 0 || test_wait(pid) != 0);
}

static void fork_there(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == fork_at && i_fork && getpid() == tester && handler_forks < 5)
        raise(SIGUSR1);
}

static void fork_inside_records(void *arg)
{
    const bool follow = arg != NULL;
    struct sigaction action = {.sa_handler = fork_in_handler};
    mtp_profile_config c = test_config(NULL);
    tester = getpid();
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 16 * 4096;
    c.record_shapes = true;
    c.spool = follow ? test_path("handler.mtp") : NULL;
    c.follow_fork = follow;
    sigaction(SIGUSR1, &action, NULL);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    busy_crowd crowd;
    crowd_start(&crowd);
    i_fork = true;
    mtp__testpoint_set(fork_there, NULL);
    for (int i = 0; i < 2000; i++) {
        char name[24];
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "h%d", i % 900)));
        if (getpid() != tester) { /* not recording, or into its own file; it can start its own profile */
            if (follow) {
                CHILD_CHECK(mtp_profile_is_recording(prof));
                for (int k = 0; k < 3000; k++)
                    MTP_SCOPE ("followed") {
                    }
                CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
                mtp_ledger l = MTP_LEDGER_INIT;
                CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == l.kept + l.dropped);
                CHILD_CHECK(l.emitted >= 6000);
            } else {
                CHILD_CHECK(mtp_recording() == 0);
            }
            own_profile();
            _exit(0);
        }
    }
    mtp__testpoint_set(NULL, NULL);
    CHILD_CHECK(handler_forks > 0 && handler_bad == 0);
    crowd_stop(&crowd);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == l.kept + l.dropped);
    mtp_profile_destroy(prof);
}

static void forks_in_a_handler_inside_a_record_leave_both_sides_well(void **state)
{
    (void)state;
    static const mtp__testpoint point[] = {MTP__POINT_RECORD_RESERVED, MTP__POINT_RECORD_COMMITTED,
                                           MTP__POINT_CHUNK_TAKEN, MTP__POINT_CHUNK_SEALED,
                                           MTP__POINT_DEFINITION};
    for (size_t i = 0; i < COUNT(point); i++)
        for (int follow = 0; follow < (TEST_TSAN ? 1 : 2);
             follow++) { /* TSan does not allow such a child to allocate */
            fork_at = point[i];
            if (!test_left_well(test_child(fork_inside_records, follow ? (void *)"follow" : NULL, 30)))
                fail_msg("at %s, follow %d", mtp__testpoint_text(point[i]), follow);
        }
}

/* A stack provider runs another program to describe a frame: it forks under one of our locks. */
static uint32_t one_frame(void *user, uint64_t *frames, uint32_t room)
{
    static uint64_t last;
    (void)user;
    frames[0] = ++last;
    return room > 0;
}

static void describe_by_fork(void *user, uint64_t frame, char *text, size_t room)
{
    (void)user;
    snprintf(text, room, "file:%llu:f", (unsigned long long)frame);
    pid_t pid = fork();
    if (pid == 0) {
        MTP_SCOPE ("in the child") {
        }
        mtp_profile *mine = NULL;
        mtp_profile_create(NULL, &mine); /* it may fail, but must not hang */
        _exit(mtp_recording() == 0 ? 0 : 1);
    }
    handler_forks = handler_forks + 1;
    handler_bad = handler_bad + (pid < 0 || test_wait(pid) != 0);
}

static void fork_in_a_provider(void *arg)
{
    (void)arg;
    const mtp_stack_provider provider = {sizeof provider, one_frame, describe_by_fork, NULL};
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    CHILD_CHECK(mtp_stack_provider_set(&provider) == MTP_OK);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 20; i++)
        MTP_SCOPE ("described") {
        }
    CHILD_CHECK(handler_forks == 20 && handler_bad == 0);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == 41 && l.kept == 41);
    mtp_profile_destroy(prof);
}

static void a_stack_provider_may_fork(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(fork_in_a_provider, NULL, 30)));
}

/* A thread inside the dynamic linker holds its lock, which is never released in the child. */
static sem_t inside_linker, leave_linker;

static int stay_inside(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)info, (void)size, (void)user;
    sem_post(&inside_linker);
    while (sem_wait(&leave_linker) != 0)
        ;
    return 1;
}

static void *asks_linker(void *arg)
{
    dl_iterate_phdr(stay_inside, NULL);
    return arg;
}

static void *records_with_stacks(void *arg)
{
    for (int i = 0; i < 5; i++)
        MTP_SCOPE ("of the child") {
        }
    return arg;
}

static void child_beside_the_linker(void *arg)
{
    if (arg == NULL) { /* a child that does not follow may start its own profile */
        mtp_profile_config c = test_config(NULL);
        c.with_stack = true;
        CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    }
    records_with_stacks(NULL);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_stack_provider_name() != NULL && mtp_profile_stop(prof) == MTP_OK);
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == 11 && l.kept == 11);
}

static void fork_beside_the_linker(void *arg)
{
    pthread_t t;
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    c.follow_fork = arg != NULL;
    c.spool = arg;
    sem_init(&inside_linker, 0, 0);
    sem_init(&leave_linker, 0, 0);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    CHILD_CHECK(pthread_create(&t, NULL, asks_linker, NULL) == 0);
    while (sem_wait(&inside_linker) != 0)
        ;
    int status = test_child(child_beside_the_linker, arg, 20);
    sem_post(&leave_linker);
    CHILD_CHECK(pthread_join(t, NULL) == 0 && test_left_well(status));
}

static void a_child_of_many_threads_needs_no_lock_for_its_stacks(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("linker.mtp"));
    assert_true(test_left_well(test_child(fork_beside_the_linker, path, 40)));
    assert_true(test_left_well(test_child(fork_beside_the_linker, NULL, 40)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forks_in_a_handler_inside_a_record_leave_both_sides_well),
        TEST(a_stack_provider_may_fork),
        TEST(a_child_of_many_threads_needs_no_lock_for_its_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
