/* Unit: recording on demand while calls fail: of who listens, of who asks, each in turn, once and for good. No crash, no
 * descriptor left, a message each time; and afterwards everything works. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include "tests/unit/listeners.h"

#define KINDS (1u << MTP__FAULT_SOCKET | 1u << MTP__FAULT_THREAD)

static int own_descriptors(void)
{
    return count_descriptors("/proc/self/fd", false);
}

/* ------------------------------------------------------------------------------------------------- to listen */

/* The exit status: 0: all of its calls succeeded. */
static void listen_with_a_fault(void *arg)
{
    int nth = *(int *)arg, before = descriptors_of(getpid());
    mtp__fault_plan(KINDS, nth, false);
    mtp_status status = mtp_listen();
    int fired = mtp__fault_stop();
    if (status != MTP_OK) {
        CHILD_CHECK(fired == 1 && strstr(mtp_last_error(), "listen") != NULL);
        CHILD_CHECK(descriptors_of(getpid()) == before);
        CHILD_CHECK(access(name_of(getpid()).sun_path, F_OK) != 0);
        CHILD_CHECK(mtp_listen() == MTP_OK); /* it may be tried again */
    }
    CHILD_CHECK(state_of(getpid()) == IDLE);
    CHILD_CHECK(descriptors_of(getpid()) == before + 1);
    exit(fired == 0 ? 77 : 0);
}

static void each_call_that_listening_needs_may_fail(void **state)
{
    (void)state;
    int nth = 1, status = 0;
    for (; WEXITSTATUS(status) != 77 && nth < 50; nth++) {
        status = test_child(listen_with_a_fault, &nth, 60);
        if (WEXITSTATUS(status) != 77)
            assert_true(test_left_well(status));
    }
    assert_true(nth > 5);
    assert_int_equal(WEXITSTATUS(status), 77);
    test_row(4, (uint64_t)nth, "no leak");
}

static void no_thread(void *arg)
{
    (void)arg;
    int before = own_descriptors();
    mtp__fault_plan(1u << MTP__FAULT_THREAD, 1, true);
    CHILD_CHECK(mtp_listen() == MTP_E_NOMEM && strstr(mtp_last_error(), "no thread") != NULL);
    CHILD_CHECK(mtp__fault_stop() == 1 && own_descriptors() == before);
    CHILD_CHECK(access(name_of(getpid()).sun_path, F_OK) != 0);
}

static void without_a_thread_nothing_is_left_that_would_not_answer(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(no_thread, NULL, 60)));
}

/* ------------------------------------------------------------------------------------------- while it listens */

/* nth in go: that call of the thread's fails, and is counted in done. */
static void fail_when_told(job *j)
{
    j->ready = 1;
    while (!j->stop) {
        if (j->go != 0) {
            mtp__fault_plan(KINDS, abs(j->go), j->go < 0);
            j->go = 0;
        }
        if (j->done == -1) {
            j->other = mtp__fault_stop();
            j->done = 1;
        }
        mtp_scope_end(mtp_scope_begin(MTP_NAME("work")));
        doze(1);
    }
}

static int stop_faults(job *j)
{
    j->done = -1;
    for (int i = 0; j->done != 1 && i < 10000; i++)
        doze(1);
    return j->other;
}

static void each_call_that_answering_needs_may_fail(void **state)
{
    (void)state;
    job *j = listener(fail_when_told);
    int before = descriptors_of(j->pid), failed = 0;
    for (int nth = 1; nth < 14; nth++) {
        j->go = nth;
        while (j->go != 0)
            doze(1);
        mtp_trigger t = trigger_of(test_path("failing.mtp"), 20);
        mtp_status status = mtp_trigger_process((uint64_t)j->pid, &t);
        if (status != MTP_OK)
            assert_true(strlen(mtp_last_error()) > 10);
        failed += stop_faults(j);
        t = trigger_of(test_path("after.mtp"), 5); /* as if nothing had happened, once it is idle */
        for (int i = 0; i < 100 && state_of(j->pid) != IDLE; i++)
            doze(50);
        assert_ok(mtp_trigger_process((uint64_t)j->pid, &t));
    }
    assert_in_range(failed, 7, 13);
    assert_int_equal(descriptors_of(j->pid), before);
    finish(j);
}

/* Every accept() fails, as in a program that has no descriptors left: it must not be called a thousand times a second. */
static void without_descriptors_the_thread_waits(void **state)
{
    (void)state;
    job *j = listener(fail_when_told);
    j->go = -1;
    while (j->go != 0)
        doze(1);
    int fd = dial(j->pid);
    assert_true(fd >= 0);
    doze(1000);
    int fired = stop_faults(j);
    assert_in_range(fired, 1, 200);
    close(fd);
    for (int i = 0; i < 100 && state_of(j->pid) != IDLE; i++)
        doze(50);
    assert_int_equal(state_of(j->pid), IDLE);
    finish(j);
}

static void close_ours_without_a_way_back(job *j)
{
    j->ready = 1;
    while (!j->go)
        doze(1);
    mtp__fault_plan(1u << MTP__FAULT_SOCKET, 1, true);
    close_all();
    while (mtp_recording() != 0) /* the recording ends, although nobody can be told */
        doze(10);
    mtp__fault_stop();
    j->done = 1;
    work_until_told(j);
}

static void a_recording_ends_and_it_listens_again_after_all_was_lost(void **state)
{
    (void)state;
    job *j = listener(close_ours_without_a_way_back);
    asked a = {0};
    pthread_t thread = ask_beside(&a, j->pid, test_path("lost.mtp"), 300);
    j->go = 1;
    pthread_join(thread, NULL);
    assert_int_equal(a.status, MTP_E_STATE);
    wait_until(&j->done);
    for (int i = 0; i < 200 && state_of(j->pid) != IDLE; i++)
        doze(50);
    assert_int_equal(state_of(j->pid), IDLE);
    finish(j);
}

/* ---------------------------------------------------------------------------------------------------- to ask */

static void each_call_that_asking_needs_may_fail(void **state)
{
    (void)state;
    job *j = listener(NULL);
    int before = own_descriptors(), refused = 0;
    for (int forever = 0; forever < 2; forever++)
        for (int nth = 1, fired = 1; fired > 0 && nth < 60; nth++) {
            mtp_trigger t = trigger_of(test_path("asking.mtp"), 5);
            size_t count = 0;
            mtp__fault_plan(KINDS, nth, forever);
            mtp_status status = mtp_trigger_process((uint64_t)j->pid, &t);
            fired = mtp__fault_stop();
            refused += status != MTP_OK;
            if (status != MTP_OK)
                assert_true(fired > 0 && strlen(mtp_last_error()) > 10);
            assert_int_equal(own_descriptors(), before);
            mtp__fault_plan(KINDS, nth, forever);
            assert_ok(mtp_listeners(NULL, sizeof(mtp_listener), 0, &count));
            mtp__fault_stop();
            assert_int_equal(own_descriptors(), before);
            for (int i = 0; i < 100 && state_of(j->pid) != IDLE; i++)
                doze(20);
        }
    assert_true(refused > 4);
    mtp_trigger t = trigger_of(test_path("asked.mtp"), 5);
    assert_ok(mtp_trigger_process((uint64_t)j->pid, &t));
    finish(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_call_that_listening_needs_may_fail),
        TEST(without_a_thread_nothing_is_left_that_would_not_answer),
        TEST(each_call_that_answering_needs_may_fail),
        TEST(without_descriptors_the_thread_waits),
        TEST(a_recording_ends_and_it_listens_again_after_all_was_lost),
        TEST(each_call_that_asking_needs_may_fail),
    };
    return cmocka_run_group_tests(tests, use_own_runtime_folder, NULL);
}
