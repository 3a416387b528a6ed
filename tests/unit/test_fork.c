/* Unit: record/fork: a recording in a child, however created, and in its parent. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "forked.h"

extern char **environ;

/* ------------------------------------------------------------------------------------------ child off */

static void *chunks; /* address of the parent's chunks */

static void child_records_nothing(void *arg)
{
    (void)arg;
    CHILD_CHECK(chunks == NULL || (msync(chunks, 4096, MS_ASYNC) != 0 && errno == ENOMEM)); /* not mapped */
    CHILD_CHECK(mtp_recording() == 0);
    CHILD_CHECK(mtp__registry_count() <= 1);
    CHILD_CHECK(!mtp_profile_is_recording(prof));
    CHILD_CHECK(mtp_profile_action(prof) == MTP_ACTION_NONE);
    for (int i = 0; i < 100; i++) {
        MTP_SCOPE ("in the child") {
        }
        mtp__mark(1);
        mtp_scope_end(mtp__scope_begin_text("in the child", 12));
        mtp_op op = MTP_OP_INIT(MTP_NAME("in the child, new"));
        mtp__op_begin(&op);
        mtp__op_end(&op);
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_E_STATE && mtp_profile_step(prof) == MTP_E_STATE);
}

static void child_is_off(void *arg)
{
    mtp_ledger l = MTP_LEDGER_INIT;
    child_records_nothing(arg);
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
    CHILD_CHECK(l.emitted == 0 && l.kept == 0 && l.dropped == 0 && l.chunks == 0);
}

static void child_on_its_own(void *arg)
{
    child_is_off(arg);
    own_profile();
    CHILD_CHECK(mtp_profile_start(prof) == MTP_E_STATE); /* its chunks were not inherited */
    CHILD_CHECK(strstr(mtp_last_error(), "stayed with the parent process") != NULL);
    CHILD_CHECK(mtp_recording() == 0);
    mtp_profile_destroy(prof);
    own_profile();
}

/* reliability.md 7 */
static void forks_while_four_threads_record_leave_both_sides_well(void **state)
{
    (void)state;
    for (int filed = 0; filed < 2; filed++) {
        warnings w;
        mtp_profile_config c = test_config(&w);
        c.when_full = MTP_KEEP_NEWEST;
        c.buffer_bytes = 64 * 4096;
        c.record_shapes = true;
        c.spool = filed ? test_path("fork.mtp") : NULL;
        prof = test_start(&c);
        chunks = prof->recorder->pool.base;
        busy_crowd crowd;
        crowd_start(&crowd);
        uint64_t forks = 0;
        double until =
            test_now() + 4 * (getenv("MTP_TEST_SCALE") != NULL ? atof(getenv("MTP_TEST_SCALE")) : 1);
        for (int i = 0; i < test_scaled(TEST_TSAN ? 30 : 300) && test_now() < until; i++, forks++)
            assert_true(test_left_well(test_child(i % 10 == 0 ? child_on_its_own : child_is_off, NULL, 20)));
        uint64_t attempts = crowd_stop(&crowd);
        chunks = NULL;
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, attempts + 1);
        assert_balanced(prof);
        assert_int_equal(w.count[MTP_WARNING_FORK_NOT_FOLLOWED], 1);
        char says[64];
        snprintf(says, sizeof says, "%llu processes were forked while recording", (unsigned long long)forks);
        assert_contains(w.text, says);
        mtp_profile_destroy(prof);
        test_row(7, forks, "%s: the ledger is exact", filed ? "spool" : "memory");
        if (filed) {
            seen s = {0};
            assert_ok(seen_spool(&s, test_path("fork.mtp")));
            assert_string_equal(s.problem, "");
            assert_true(s.report.complete);
            assert_int_equal(s.report.damaged, 0);
            assert_int_equal(s.report.pid, getpid());
            assert_int_equal(s.records, l.kept);
            seen_free(&s);
        }
    }
}

static void *fork_too(void *arg)
{
    int *bad = arg;
    for (int i = 0; i < test_scaled(60); i++) {
        MTP_SCOPE ("forker") {
            pid_t pid = fork();
            if (pid == 0)
                _exit(mtp_recording() == 0 && !mtp_profile_is_recording(prof) ? 0 : 1);
            *bad += pid < 0 || test_wait(pid) != 0;
        }
    }
    return NULL;
}

/* Any thread may fork, several at once, while the profile is started, stopped and queried. */
static void forks_from_several_threads_beside_starts_and_stops(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 64 * 4096;
    prof = test_create(&c);
    pthread_t t[3];
    int bad[3] = {0};
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, fork_too, &bad[i]);
    for (int i = 0; i < test_scaled(200); i++) {
        assert_ok(mtp_profile_start(prof));
        sched_yield();
        mtp_ledger l = ledger_of(prof);
        (void)l;
        assert_ok(mtp_profile_stop(prof));
        assert_balanced(prof);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(bad[i], 0);
    }
    mtp_profile_destroy(prof);
}

static void forks_are_reported_only_while_recording(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    prof = test_create(&c);
    assert_true(test_left_well(test_child(child_is_off, NULL, 20))); /* before */
    assert_ok(mtp_profile_start(prof));
    assert_ok(mtp_profile_stop(prof));
    assert_true(test_left_well(test_child(child_records_nothing, NULL, 20))); /* after */
    assert_int_equal(w.count[MTP_WARNING_FORK_NOT_FOLLOWED], 0);
    assert_ok(mtp_profile_start(prof));
    assert_true(test_left_well(test_child(child_is_off, NULL, 20)));
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.count[MTP_WARNING_FORK_NOT_FOLLOWED], 1);
    assert_contains(w.text, "1 processes were forked");
    assert_ok(mtp_profile_start(prof)); /* each cycle by itself */
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.count[MTP_WARNING_FORK_NOT_FOLLOWED], 1);
    mtp_profile_destroy(prof);
}

static mtp_action warm(void *user, uint64_t step)
{
    (void)user, (void)step;
    return MTP_ACTION_WARMUP;
}

static void child_of_a_waiting_profile(void *arg)
{
    child_is_off(arg);
    own_profile();
    mtp_profile_destroy(prof);
}

static void a_child_of_a_profile_that_waits_is_off_too(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.schedule_callback = warm;
    prof = test_start(&c);
    assert_true(test_left_well(test_child(child_of_a_waiting_profile, NULL, 20)));
    assert_int_equal(mtp_profile_action(prof), MTP_ACTION_WARMUP);
    mtp_profile_destroy(prof);
}

static void count_live(void *arg)
{
    long *live = arg;
    *live = mtp__alloc_live();
    mtp_profile_destroy(prof);
    live[1] = mtp__alloc_live();
}

/* The child can free what it owns, and counts nothing of the parent's as its own. */
static void a_child_gives_back_all_it_has(void **state)
{
    (void)state;
    long *live = test_shared(4096);
    mtp_profile_config c = test_config(NULL);
    mtp_profile_destroy(test_start(&c));
    long before = mtp__alloc_live();
    prof = test_start(&c);
    MTP_SCOPE ("something") {
    }
    assert_true(test_left_well(test_child(count_live, live, 20)));
    assert_int_equal(live[1], before);
    mtp_profile_destroy(prof);
    assert_int_equal(mtp__alloc_live(), before);
}

/* ------------------------------------------------------------------------------------------ child on */

static const char *child_file(const char *name, pid_t pid)
{
    char file[64];
    snprintf(file, sizeof file, "%s.%ld", name, (long)pid);
    return test_path(file);
}

static void child_goes_on(void *arg)
{
    int how = *(int *)arg;
    CHILD_CHECK(mtp_profile_is_recording(prof));
    CHILD_CHECK((mtp_recording() & MTP_CPU) != 0);
    for (int i = 0; i < 500; i++) {
        char name[24];
        MTP_SCOPE ("of the child") {
        }
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "child %d", i % 7)));
    }
    mtp_mark(mtp_name("a name that only the child knows"));
    if (how == 0) {
        CHILD_CHECK(mtp_profile_step(prof) == MTP_OK);
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
        mtp_ledger l = MTP_LEDGER_INIT;
        CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
        CHILD_CHECK(l.emitted == 2003 && l.kept == 2003);
        mtp_profile_destroy(prof);
    } else if (how == 1) {
        _exit(0);
    } else if (how == 2) {
        kill(getpid(), SIGKILL);
    } else {
        int inner = 0;
        pid_t pid = test_fork_child(child_goes_on, &inner, 20); /* and its child */
        CHILD_CHECK(test_left_well(test_wait(pid)));
        seen s = {0};
        CHILD_CHECK(seen_spool(&s, child_file("follow.mtp", pid)) == MTP_OK);
        CHILD_CHECK(s.problem[0] == 0 && s.report.complete && s.records == 2003);
        CHILD_CHECK(s.report.pid == (uint64_t)pid);
        seen_free(&s);
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    }
}

static void a_followed_child_records_into_a_file_of_its_own(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++)
        for (int how = 0; how < 4; how++) {
            warnings w;
            mtp_profile_config c = test_config(&w);
            busy_crowd crowd;
            c.spool = test_path("follow.mtp");
            c.when_full = (mtp_when_full)policy;
            c.buffer_bytes = 64 * 4096;
            c.follow_fork = true;
            prof = test_create(&c);
            assert_ok(mtp_profile_preset_metadata_json(prof, "rank", "5"));
            assert_ok(mtp_profile_start(prof));
            crowd_start(&crowd);
            MTP_SCOPE ("of the parent") {
            }
            pid_t pid = test_fork_child(child_goes_on, &how, 20);
            int status = test_wait(pid);
            uint64_t attempts = crowd_stop(&crowd);
            if (how == 2)
                assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            else
                assert_true(test_left_well(status));
            assert_ok(mtp_profile_stop(prof));
            assert_int_equal(w.count[MTP_WARNING_FORK_NOT_FOLLOWED], 0);
            mtp_ledger l = ledger_of(prof);
            assert_int_equal(l.emitted, attempts + 3);
            assert_balanced(prof);
            mtp_profile_destroy(prof);

            seen s = {0};
            assert_ok(seen_spool(&s, child_file("follow.mtp", pid)));
            assert_string_equal(s.problem, "");
            assert_int_equal(s.report.damaged, 0);
            assert_int_equal(s.report.complete, how == 0 || how == 3);
            assert_int_equal(s.report.pid, pid);
            assert_int_equal(s.records, how == 0 ? 2003 : 2002); /* its STEP and its own records */
            assert_int_equal(seen_streams(&s), 1);
            assert_string_equal(seen_metadata(&s, 'j', "rank", 0), "5");
            const seen_record *last = seen_nth(&s, MTP__KIND_MARK, 0);
            assert_string_equal(seen_name(&s, (uint32_t)last->word[0]), "a name that only the child knows");
            for (size_t i = 0; i < s.records; i++) /* none of the parent's records */
                assert_true(s.record[i].kind != MTP__KIND_BEGIN ||
                            strstr(seen_name(&s, (uint32_t)s.record[i].word[0]), "child") != NULL);
            seen_free(&s);
        }
}

static void child_that_cannot_follow(void *arg)
{
    (void)arg;
    mtp__fault_stop();
    CHILD_CHECK(mtp_recording() == 0 && !mtp_profile_is_recording(prof));
    own_profile();
    mtp_profile_destroy(prof);
}

/* If the child cannot get its file or its memory, it does not record. */
static void a_child_that_cannot_have_its_file_is_off(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.spool = test_path("nofollow.mtp");
    c.follow_fork = true;
    prof = test_start(&c);
    for (int nth = 1; nth <= 4; nth++) { /* its pool needs a list, addresses, a file, its first block */
        mtp__fault_plan(MTP__FAULTS_ALL, nth, nth % 2);
        int status = test_child(child_that_cannot_follow, NULL, 20);
        mtp__fault_stop();
        assert_true(test_left_well(status));
    }
    assert_true(mtp_profile_is_recording(prof));
    mtp_profile_destroy(prof);
}

/* -------------------------------------------------------------------------------- other ways to a child */

static void copy_behaves(int how)
{
    for (int i = 0; i < 100; i++) { /* our fork handlers did not run: only the gate's page is wiped */
        MTP_SCOPE ("copy") {
        }
        mtp_mark(MTP_NAME("copy"));
        mtp_scope_end(mtp_scope_begin_text("copy text", 9));
    }
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
    CHILD_CHECK(mtp_name("a name that is new in the copy") != 0);
    if (how == 1) {
        CHILD_CHECK(mtp_profile_add_metadata(prof, "a", "b") == MTP_E_NOMEM);
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_E_STATE);
    }
    if (how == 2)
        mtp_profile_destroy(prof);
    if (how == 3)
        exit(0); /* its exit handlers must not finish the parent's file */
    _exit(0);
}

/* A child of the bare system call: the library is not notified, and yet nothing of the parent's is
 * touched. */
static void a_child_of_a_bare_system_call_does_not_touch_the_parents_file(void **state)
{
    (void)state;
#ifdef SYS_fork
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++)
        for (int how = 0; how < 4; how++) {
            mtp_profile_config c = test_config(NULL);
            const char *path = c.spool = test_path("raw.mtp");
            c.when_full = (mtp_when_full)policy;
            prof = test_start(&c);
            for (int i = 0; i < 1000; i++)
                MTP_SCOPE ("parent") {
                }
            size_t before_bytes, after_bytes;
            char *before = test_slurp(path, &before_bytes);
            fflush(NULL);
            long pid = how % 2 ? syscall(SYS_fork) : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
            if (pid == 0) {
                alarm(20);
                copy_behaves(how);
            }
            assert_true(test_left_well(test_wait((pid_t)pid)));
            char *after = test_slurp(path, &after_bytes);
            assert_int_equal(before_bytes, after_bytes);
            assert_memory_equal(before, after, before_bytes);
            free(before);
            free(after);
            for (int i = 0; i < 1000; i++)
                MTP_SCOPE ("parent") {
                }
            assert_ok(mtp_profile_stop(prof));
            assert_int_equal(ledger_of(prof).emitted, 4001);
            assert_balanced(prof);
            mtp_profile_destroy(prof);
        }
#else
    skip();
#endif
}

static void programs_that_are_started_do_not_disturb(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    busy_crowd crowd;
    c.when_full = MTP_KEEP_NEWEST;
    prof = test_start(&c);
    crowd_start(&crowd);
    for (int i = 0; i < test_scaled(40); i++) {
        char *argv[] = {"true", NULL};
        pid_t pid;
        assert_int_equal(posix_spawnp(&pid, "true", NULL, NULL, argv, environ), 0);
        assert_int_equal(test_wait(pid), 0);
    }
    uint64_t attempts = crowd_stop(&crowd);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).emitted, attempts + 1);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

/* The trace of a stopped profile is ordinary memory: a child may read and free it. */
static void child_reads(void *arg)
{
    mtp_trace *trace = arg;
    mtp_averages *rows = NULL;
    CHILD_CHECK(mtp_averages_create(trace, NULL, &rows) == MTP_OK);
    CHILD_CHECK(mtp_averages_count(rows) == 1 && mtp_averages_row(rows, 0)->count == 100000);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
}

static void a_child_reads_and_gives_back_the_traces_of_its_parent(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 64u << 20;
    prof = test_start(&c);
    for (int i = 0; i < 100000; i++)
        MTP_SCOPE ("parent") {
        }
    mtp_trace *trace;
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_trace(prof, &trace));
    assert_true(test_left_well(test_child(child_reads, trace, 20)));
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
}

static uint64_t spans_now(void)
{
    mtp_trace *trace = NULL;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    if (mtp_profile_trace(prof, &trace) != MTP_OK || mtp_trace_get_info(trace, &info) != MTP_OK)
        return UINT64_MAX;
    mtp_trace_destroy(trace);
    return info.spans;
}

/* Its own records follow those inherited from its parent, or replace them. */
static void child_has_what_was_recorded(void *arg)
{
    const uint64_t scopes = *(const uint64_t *)arg, before = prof->config.acc_events ? scopes : 0;
    mtp_ledger ledger = MTP_LEDGER_INIT;
    CHILD_CHECK(spans_now() == scopes);
    CHILD_CHECK(mtp_profile_ledger(prof, &ledger) == MTP_OK && ledger.kept >= 2 * scopes);
    CHILD_CHECK(mtp_profile_start(prof) == MTP_OK);
    MTP_SCOPE ("child") {
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK && spans_now() == before + 1);
    mtp_profile_destroy(prof);
}

static void a_child_has_what_was_recorded_and_stopped(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        mtp_profile_config c = test_config(NULL);
        c.buffer_bytes = 64u << 20;
        c.acc_events = keeps;
        uint64_t scopes = 100000;
        prof = test_start(&c);
        for (uint64_t i = 0; i < scopes; i++)
            MTP_SCOPE ("parent") {
            }
        assert_ok(mtp_profile_stop(prof));
        assert_true(test_left_well(test_child(child_has_what_was_recorded, &scopes, 20)));
        assert_int_equal(spans_now(), scopes);
        assert_ok(mtp_profile_start(prof));
        chunks = prof->recorder->pool.base;
        assert_true(test_left_well(
            test_child(child_is_off, NULL, 20))); /* a recording in progress stays with the parent */
        chunks = NULL;
        assert_ok(mtp_profile_stop(prof));
        mtp_profile_destroy(prof);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forks_while_four_threads_record_leave_both_sides_well),
        TEST(forks_from_several_threads_beside_starts_and_stops),
        TEST(forks_are_reported_only_while_recording),
        TEST(a_child_of_a_profile_that_waits_is_off_too),
        TEST(a_child_gives_back_all_it_has),
        TEST(a_followed_child_records_into_a_file_of_its_own),
        TEST(a_child_that_cannot_have_its_file_is_off),
        TEST(a_child_of_a_bare_system_call_does_not_touch_the_parents_file),
        TEST(programs_that_are_started_do_not_disturb),
        TEST(a_child_reads_and_gives_back_the_traces_of_its_parent),
        TEST(a_child_has_what_was_recorded_and_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
