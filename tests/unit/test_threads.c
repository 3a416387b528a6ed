/* Unit: record/registry: threads that start, idle and exit. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "record/thread_names.h"

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0 && errno == EINTR)
        ;
}

/* --------------------------------------------------------------------------------- names and numbers */

typedef struct named {
    const char *name, *later;
    int32_t tid;
    sem_t go;
} named;

static void *named_thread(void *arg)
{
    named *n = arg;
    n->tid = (int32_t)syscall(SYS_gettid);
    if (n->name != NULL)
        pthread_setname_np(pthread_self(), n->name);
    wait_for(&n->go);
    for (int i = 0; i < 3; i++)
        MTP_SCOPE ("named") {
        }
    if (n->later != NULL)
        pthread_setname_np(pthread_self(), n->later);
    return NULL;
}

/* no_files: the program cannot open more files; its threads end while the profile runs. */
static void names_and_tids_are_kept(bool no_files)
{
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){no_files ? 0 : before.rlim_cur, before.rlim_max};
    named n[5] = {{.name = "loader 0"},
                  {.name = "fifteen chars!!"},
                  {.name = "a", .later = "renamed"},
                  {0},
                  {.name = ""}};
    pthread_t t[5];
    mtp_profile_config c = test_config(NULL);
    for (int i = 0; i < 3; i++) { /* some start before the profile, some while it runs */
        sem_init(&n[i].go, 0, 0);
        pthread_create(&t[i], NULL, named_thread, &n[i]);
    }
    mtp_profile *prof = test_start(&c);
    setrlimit(RLIMIT_NOFILE, &none);
    for (int i = 3; i < 5; i++) {
        sem_init(&n[i].go, 0, 0);
        pthread_create(&t[i], NULL, named_thread, &n[i]);
    }
    for (int i = 0; i < 5; i++) {
        sem_post(&n[i].go);
        pthread_join(t[i], NULL);
    }
    setrlimit(RLIMIT_NOFILE, &before);
    assert_ok(mtp_profile_stop(prof));
    seen s = {0};
    seen_profile(&s, prof);
    assert_string_equal(s.problem, "");
    assert_int_equal(seen_streams(&s), 6);
    assert_int_equal(ledger_of(prof).threads, 6);
    for (int i = 0; i < 5; i++) {
        const seen_blob *found = NULL;
        for (size_t k = 0; k < s.blobs; k++)
            if (s.blob[k].kind == MTP__CONTROL_THREAD && (int32_t)s.blob[k].tid == n[i].tid)
                found = &s.blob[k];
        assert_non_null(found);
        assert_int_equal(seen_count(&s, -1, found->id), 6);
        if (n[i].name != NULL && n[i].name[0] != 0)
            assert_string_equal((const char *)found->bytes, n[i].later != NULL ? n[i].later : n[i].name);
    }
    seen_free(&s);
    mtp_profile_destroy(prof);
}

static void names_and_tids_of_all_threads_are_kept(void **state)
{
    (void)state;
    names_and_tids_are_kept(false);
    names_and_tids_are_kept(true);
}

/* A thread that records nothing is not part of the recording. */
static void *silent_later(void *arg)
{
    sem_t *sem = arg;
    MTP_SCOPE ("first profile") {
    }
    sem_post(&sem[0]);
    wait_for(&sem[1]);
    return NULL;
}

static void threads_that_record_nothing_are_not_reported(void **state)
{
    (void)state;
    sem_t sem[2];
    pthread_t t;
    sem_init(&sem[0], 0, 0);
    sem_init(&sem[1], 0, 0);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    pthread_create(&t, NULL, silent_later, sem);
    wait_for(&sem[0]);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).threads, 2);
    assert_ok(mtp_profile_start(prof));
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).threads, 1);
    seen s = {0};
    seen_profile(&s, prof);
    size_t told = 0;
    for (size_t i = 0; i < s.blobs; i++)
        told += s.blob[i].kind == MTP__CONTROL_THREAD;
    assert_int_equal(told, 1);
    seen_free(&s);
    sem_post(&sem[1]);
    pthread_join(t, NULL);
    mtp_profile_destroy(prof);
}

static void *short_thread(void *arg)
{
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++)
        MTP_SCOPE ("short") {
        }
    return NULL;
}

/* reliability.md 8 */
static void thousands_of_short_threads_are_counted_exactly(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_LEAKS_THREADS);
    enum {
        AT_ONCE = 8,
        SCOPES = 5
    };
    int rounds = test_scaled(500);
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 32u << 20;
    mtp_profile *prof = test_start(&c);
    long live = mtp__alloc_live();
    uint32_t threads = mtp__registry_count();
    size_t rss = 0;
    for (int i = 0; i < rounds; i++) {
        pthread_t t[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++)
            pthread_create(&t[k], NULL, short_thread, (void *)(uintptr_t)SCOPES);
        for (int k = 0; k < AT_ONCE; k++)
            pthread_join(t[k], NULL);
        if (i == rounds / 2)
            rss = test_rss();
    }
    assert_int_equal(mtp__registry_count(), threads);
    assert_int_equal(mtp__alloc_live(), live);
    size_t grown = test_rss() - rss;
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    uint64_t made = (uint64_t)rounds * AT_ONCE;
    assert_int_equal(l.threads, made + 1);
    assert_int_equal(l.emitted, made * SCOPES * 2 + 1);
    assert_int_equal(l.dropped, 0);
    assert_balanced(prof);
    seen s = {0};
    seen_profile(&s, prof);
    assert_int_equal(seen_streams(&s), made + 1);
    seen_free(&s);
    mtp_profile_destroy(prof);
    if (!TEST_TSAN && !TEST_ASAN) /* the chunks they filled, plus at most 1 MiB */
        assert_true((int64_t)grown <= (int64_t)(made / 2 * 4096 * 9 / 8) + (1 << 20));
    test_row(8, made, "counted exactly");
}

static void *long_thread(void *arg)
{
    sem_t *sem = arg;
    for (int round = 0; round < 20; round++) {
        wait_for(&sem[0]);
        for (int i = 0; i <= round; i++)
            MTP_SCOPE ("long") {
            }
        sem_post(&sem[1]);
    }
    return NULL;
}

static void one_thread_records_into_one_profile_after_the_other(void **state)
{
    (void)state;
    sem_t sem[2];
    pthread_t t;
    sem_init(&sem[0], 0, 0);
    sem_init(&sem[1], 0, 0);
    pthread_create(&t, NULL, long_thread, sem);
    for (uint64_t round = 0; round < 20; round++) {
        mtp_profile_config c = test_config(NULL);
        mtp_profile *prof = test_start(&c);
        sem_post(&sem[0]);
        wait_for(&sem[1]);
        assert_int_equal(ledger_of(prof).emitted, 2 * (round + 1) + 1); /* at rest: exact while running */
        assert_ok(mtp_profile_stop(prof));
        assert_int_equal(ledger_of(prof).emitted, 2 * (round + 1) + 1);
        assert_balanced(prof);
        mtp_profile_destroy(prof);
    }
    pthread_join(t, NULL);
}

/* ------------------------------------------------------------------------------------- past their end */

static pthread_key_t late_key;
static uint64_t late_marks;
static _Thread_local unsigned late_round;
static unsigned
    late_wanted; /* the round of destructors in which it records; the library leaves in the last but one */

static void late(void *arg)
{
    if (++late_round < late_wanted) {
        pthread_setspecific(late_key, arg);
        return;
    }
    for (uintptr_t i = 0; i < (uintptr_t)arg; i++) {
        mtp_mark(MTP_NAME("late"));
        MTP_SCOPE ("late") {
        }
        mtp_scope_end(mtp_scope_begin_text("late text", 9));
        mtp_op op = MTP_OP_INIT(MTP_NAME("late op"));
        mtp_op_begin(&op);
        mtp_op_end(&op);
        __atomic_add_fetch(&late_marks, 4, __ATOMIC_RELAXED);
    }
}

static void *ends_late(void *arg)
{
    pthread_setspecific(late_key, arg);
    MTP_SCOPE ("in time") {
    }
    return NULL;
}

static void run_late_threads(int count, unsigned round)
{
    assert_int_equal(pthread_key_create(&late_key, late), 0);
    late_wanted = round;
    late_marks = 0;
    for (int i = 0; i < count; i++) {
        pthread_t t;
        pthread_create(&t, NULL, ends_late, (void *)(uintptr_t)7);
        pthread_join(t, NULL);
    }
    pthread_key_delete(late_key);
}

static void records_of_a_thread_past_its_end_are_counted(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* in the last round of destructors its runtime has ended */
#endif
    enum {
        THREADS = 20
    };
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c); /* creates the library's key first: ours is destroyed after it */
    run_late_threads(THREADS, PTHREAD_DESTRUCTOR_ITERATIONS);
    assert_int_equal(late_marks, THREADS * 7 * 4);
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.dropped_by[MTP_DROP_EXITING], late_marks);
    assert_int_equal(l.kept, THREADS * 2 + 1);
    assert_int_equal(l.emitted, l.kept + late_marks);
    assert_int_equal(l.threads, THREADS + 1);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

static void records_of_a_threads_destructors_are_kept(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    for (unsigned round = 1; round < PTHREAD_DESTRUCTOR_ITERATIONS - 1; round++)
        run_late_threads(1, round);
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.dropped, 0);
    assert_int_equal(l.kept, (PTHREAD_DESTRUCTOR_ITERATIONS - 2) * (2 + 7 * 7) + 1);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

/* ---------------------------------------------------------------------------------------------- names */

static void name_is(const char *given, const char *expected)
{
    char shown[MTP__THREAD_NAME_ROOM] = "";
    int32_t tid = (int32_t)syscall(SYS_gettid);
    mtp_thread_name(0, given);
    assert_int_equal(mtp__thread_name_given(tid, shown), expected[0] != 0);
    assert_string_equal(shown, expected);
}

static void *takes_a_name(void *arg)
{
    name_is("a worker", "a worker");
    MTP_SCOPE ("named") {
    }
    *(int32_t *)arg = (int32_t)syscall(SYS_gettid);
    return NULL;
}

static void threads_have_the_name_they_were_given_until_they_end(void **state)
{
    (void)state;
    char shown[MTP__THREAD_NAME_ROOM];
    name_is("main", "main");
    name_is("0123456789012345678901234567890123456789012345678901234567890\xc3\xa4\xc3\xa4",
            "0123456789012345678901234567890123456789012345678901234567890\xc3\xa4");
    name_is("0123456789012345678901234567890123456789012345678901234567890x\xc3\xa4",
            "0123456789012345678901234567890123456789012345678901234567890x");
    name_is("", "");
    mtp_thread_name(0, NULL);
    for (int32_t tid = 1000000; tid < 1000000 + 5000;
         tid++) /* more than there is room for: the newest stay */
        mtp_thread_name(tid, "other");
    assert_true(mtp__thread_name_given(1000000 + 4999, shown));
    assert_false(mtp__thread_name_given(1000000, shown));
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    int32_t tid = 0;
    pthread_t t;
    pthread_create(&t, NULL, takes_a_name, &tid);
    pthread_join(t, NULL);
    assert_false(mtp__thread_name_given(tid, shown));
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
}

/* ----------------------------------------------------------- a handler in the middle of a thread's life */

static mtp__testpoint raise_at;
static atomic_uint_fast64_t handler_calls;

static void record_in_handler(int sig)
{
    (void)sig;
    mtp_mark(MTP_NAME("handler"));
    atomic_fetch_add(&handler_calls, 1);
}

static void raise_there(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == raise_at)
        raise(SIGUSR1);
}

/* Wherever a handler interrupts a record, its own records are in the ledger. */
static void a_handler_at_any_point_of_a_record_is_counted(void **state)
{
    (void)state;
    static const mtp__testpoint point[] = {MTP__POINT_THREAD_JOIN,     MTP__POINT_CHUNK_TAKEN,
                                           MTP__POINT_RECORD_RESERVED, MTP__POINT_RECORD_COMMITTED,
                                           MTP__POINT_CHUNK_EVICTED,   MTP__POINT_CHUNK_SEALED,
                                           MTP__POINT_DEFINITION};
    struct sigaction action = {.sa_handler = record_in_handler}, old;
    sigaction(SIGUSR1, &action, &old);
    (void)MTP_NAME("handler");
    mtp_mark(MTP_NAME("handler"));
    for (size_t i = 0; i < COUNT(point); i++) {
        mtp_profile_config c = test_config(NULL);
        c.when_full = MTP_KEEP_NEWEST;
        c.buffer_bytes = 8 * 4096;
        mtp_profile *prof = test_start(&c);
        atomic_store(&handler_calls, 0);
        raise_at = point[i];
        mtp__testpoint_set(raise_there, NULL);
        uint64_t asked = 0;
        pthread_t t;
        pthread_create(&t, NULL, short_thread, (void *)(uintptr_t)400);
        pthread_join(t, NULL);
        asked += 800;
        for (int k = 0; k < 4000; k++) {
            char name[16];
            mtp_token token = mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "%d", k % 5));
            asked += 1 + (token != 0);
            mtp_scope_end(token);
        }
        mtp__testpoint_set(NULL, NULL);
        assert_true(atomic_load(&handler_calls) > 0);
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        /* a signal raised under a lock is delivered after it, possibly after the thread's end */
        assert_int_equal(l.dropped_by[MTP_DROP_REENTRANT] + l.dropped_by[MTP_DROP_EXITING],
                         atomic_load(&handler_calls));
        assert_int_equal(l.emitted, asked + atomic_load(&handler_calls) + 1);
        assert_balanced(prof);
        mtp_profile_destroy(prof);
    }
    sigaction(SIGUSR1, &old, NULL);
}

/* -------------------------------------------------------------------------------------------- at rest */

static atomic_bool churning;
static atomic_uint_fast64_t ends_made;

/* Keeps calling into the recorder without ever writing anything. */
static void *stale_ends(void *arg)
{
    mtp_token stale = *(mtp_token *)arg;
    MTP_SCOPE ("once") {
    } /* so that it is in the registry */
    while (atomic_load(&churning)) {
        mtp_scope_end(stale);
        atomic_fetch_add_explicit(&ends_made, 1, memory_order_relaxed);
    }
    return NULL;
}

static void a_thread_that_only_looks_in_is_not_taken_for_stuck(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    mtp_profile *prof = test_start(&c);
    mtp_token stale = mtp_scope_begin(MTP_NAME("stale"));
    pthread_t t[3];
    atomic_store(&churning, true);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, stale_ends, &stale);
    assert_ok(mtp_profile_stop(prof));
    for (int i = 0; i < test_scaled(6000); i++) {
        assert_ok(mtp_profile_start(prof));
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_true(l.emitted == l.kept + l.dropped && l.dropped == 0);
    }
    atomic_store(&churning, false);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(w.count[MTP_WARNING_THREAD_STUCK], 0);
    assert_false(prof->recorder->leaked);
    mtp_profile_destroy(prof);
}

static sem_t joining, join_go;

static void wait_in_join(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == MTP__POINT_THREAD_JOIN) {
        sem_post(&joining);
        wait_for(&join_go);
    }
}

static void *joins_late(void *arg)
{
    mtp_mark(MTP_NAME("late joiner"));
    mtp_scope_end(mtp_scope_begin_text("late joiner", 11));
    mtp_op op = MTP_OP_INIT(MTP_NAME("late joiner"));
    mtp_op_begin(&op);
    mtp_op_end(&op);
    (void)arg;
    return NULL;
}

/* A thread has seen the gate open and is not yet in the registry: stop() cannot wait for it. */
static void a_thread_that_joins_while_the_profile_stops_finds_it_stopped(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        mtp_profile_config c = test_config(NULL);
        pthread_t t;
        sem_init(&joining, 0, 0);
        sem_init(&join_go, 0, 0);
        mtp_profile *prof = test_start(&c);
        mtp__testpoint_set(wait_in_join, NULL);
        pthread_create(&t, NULL, joins_late, NULL);
        wait_for(&joining);
        assert_ok(mtp_profile_stop(prof));
        assert_int_equal(ledger_of(prof).emitted, 1);
        if (way == 1) /* it finds another recording instead, and is in that one from its first record on */
            assert_ok(mtp_profile_start(prof));
        if (way == 2)
            mtp_profile_destroy(prof);
        sem_post(&join_go);
        pthread_join(t, NULL);
        mtp__testpoint_set(NULL, NULL);
        if (way == 2)
            continue;
        if (way == 1)
            assert_ok(mtp_profile_stop(prof));
        assert_int_equal(ledger_of(prof).emitted, way == 1 ? 6 : 1);
        assert_balanced(prof);
        mtp_profile_destroy(prof);
    }
}

static _Thread_local bool i_get_stuck;
static sem_t stuck_now, stuck_go;
static mtp__testpoint stuck_at;

static void get_stuck(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == stuck_at && i_get_stuck) {
        i_get_stuck = false;
        sem_post(&stuck_now);
        wait_for(&stuck_go);
    }
}

static sem_t stuck_done;

static void *sticky(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        MTP_SCOPE ("before") {
        }
    i_get_stuck = true;
    for (int i = 0; i < 1000; i++)
        mtp_mark(MTP_NAME("stuck")); /* one of these for more than a second */
    sem_post(&stuck_done);
    wait_for(&stuck_go);
    for (int i = 0; i < 1000; i++)
        mtp_mark(MTP_NAME("free again"));
    return NULL;
}

/* A debugger or an overloaded machine holds a thread inside a record while the profile is stopped, used
 * again and even destroyed. When the thread resumes, it must do no harm. */
static void a_thread_stuck_in_a_record_is_left_behind_and_does_no_harm(void **state)
{
    (void)state;
    static const mtp__testpoint point[] = {MTP__POINT_RECORD_RESERVED, MTP__POINT_CHUNK_TAKEN};
    for (int way = 0; way < 6; way++) {
        warnings w;
        mtp_profile_config c = test_config(&w);
        pthread_t t;
        c.when_full = MTP_KEEP_NEWEST;
        c.buffer_bytes = 8 * 4096;
        c.acc_events = way % 3 == 1;
        sem_init(&stuck_now, 0, 0);
        sem_init(&stuck_go, 0, 0);
        sem_init(&stuck_done, 0, 0);
        stuck_at = point[way / 3];
        mtp__testpoint_set(get_stuck, NULL);
        mtp_profile *prof = test_start(&c);
        pthread_create(&t, NULL, sticky, NULL);
        wait_for(&stuck_now);
        assert_ok(mtp_profile_stop(prof));
        assert_int_equal(w.count[MTP_WARNING_THREAD_STUCK], 1);
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, l.kept + l.dropped);
        mtp_profile *next = prof;
        if (way % 3 == 2) { /* destroyed by the time the thread resumes */
            mtp_profile_destroy(prof);
            next = test_create(&c);
        }
        assert_ok(mtp_profile_start(next));
        for (int i = 0; i < 3000; i++)
            MTP_SCOPE ("meanwhile") {
            }
        sem_post(&stuck_go);
        wait_for(&stuck_done);
        for (int i = 0; i < 3000; i++)
            MTP_SCOPE ("meanwhile") {
            }
        assert_ok(mtp_profile_stop(next));
        l = ledger_of(next);
        assert_int_equal(l.emitted, l.kept + l.dropped);
        assert_int_equal(w.count[MTP_WARNING_LEDGER_MISMATCH], 0);
        assert_ok(mtp_profile_start(next)); /* by now it has left its record: everything works as usual */
        sem_post(&stuck_go);
        pthread_join(t, NULL);
        assert_ok(mtp_profile_stop(next));
        assert_int_equal(w.count[MTP_WARNING_THREAD_STUCK], 1);
        if (!c.acc_events) {
            assert_int_equal(ledger_of(next).emitted, 1001);
            assert_balanced(next);
        }
        mtp_profile_destroy(next);
        mtp__testpoint_set(NULL, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_and_tids_of_all_threads_are_kept),
        TEST(threads_that_record_nothing_are_not_reported),
        TEST(thousands_of_short_threads_are_counted_exactly),
        TEST(one_thread_records_into_one_profile_after_the_other),
        TEST(records_of_a_thread_past_its_end_are_counted),
        TEST(records_of_a_threads_destructors_are_kept),
        TEST(threads_have_the_name_they_were_given_until_they_end),
        TEST(a_handler_at_any_point_of_a_record_is_counted),
        TEST(a_thread_that_only_looks_in_is_not_taken_for_stuck),
        TEST(a_thread_that_joins_while_the_profile_stops_finds_it_stopped),
        TEST(a_thread_stuck_in_a_record_is_left_behind_and_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
