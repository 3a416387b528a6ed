/* Unit: a program is killed while it records into a spool, at random and at every named point. The file
 * opens, nothing in it is damaged, every id is defined, and each thread lacks at most the record that it was
 * writing.
 *
 * Loops are bounded in time; MTP_TEST_SCALE makes them longer. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 3,
    POLICIES = 3
};

/* The child's progress, in memory that outlives it. */
typedef struct diary {
    _Atomic uint64_t committed[THREADS]; /* counters of thread k whose call has returned */
    _Atomic uint32_t ready;
    _Atomic uint32_t hits;
    _Atomic uint32_t stops; /* profiles that were stopped */
    _Atomic uint64_t lost;  /* definitions, in a ring: a thread was preempted inside a record for too long */
} diary;

static diary *shared;

typedef struct kill_plan {
    mtp_when_full policy;
    uint64_t bytes;
    mtp__testpoint point;
    uint32_t nth;
    bool threads; /* many short ones */
} kill_plan;

static const char *const counter_name[THREADS] = {"counter 0", "counter 1", "counter 2"};

static void note_losses(void)
{
    mtp__recorder *r = mtp__recorder_current();
    if (r != NULL)
        atomic_store(&shared->lost, atomic_load(&r->lost_definitions));
}

/* Counters without gaps, interleaved with everything else that creates definitions and chunks. */
static void write_range(int k, uint64_t from, uint64_t limit)
{
    uint32_t name = mtp_name(counter_name[k]);
    int64_t dims[2] = {1, 2};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    for (uint64_t i = from; i < limit; i++) {
        char text[48];
        mtp_counter(name, (double)i);
        atomic_store_explicit(&shared->committed[k], i + 1, memory_order_release);
        MTP_SCOPE ("plain") {
        }
        if (i % 4 == 0) {
            int n = snprintf(text, sizeof text, "run-time %d %llu", k, (unsigned long long)(i % 64));
            mtp_scope_end(mtp_scope_begin_text(text, (size_t)n));
            note_losses();
        }
        if (i % 8 == 0) {
            mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
            dims[0] = (int64_t)(i % 50);
            op.inputs = op.outputs = &in;
            op.input_count = op.output_count = 1;
            op.args = "some args";
            mtp_op_begin(&op);
            mtp_op_end(&op);
        }
        if (i % 16 == 0 && i < 2048) {
            snprintf(text, sizeof text, "process %d %llu", k, (unsigned long long)i);
            uint32_t mark = mtp_name(text);
            note_losses();
            mtp_mark(mark);
        }
        for (volatile int spin = 0; spin < 200; spin++)
            ;
    }
}

/* Per thread: fits the buffer, however late the parent's kill is. A full buffer would drop records. */
enum {
    FITS = 100000
};
static uint64_t write_limit;

typedef struct short_life {
    int k;
    uint64_t from, to;
} short_life;

static void *live_shortly(void *arg)
{
    const short_life *l = arg;
    write_range(l->k, l->from, l->to);
    return NULL;
}

/* The same, by threads that end after a few records each: they share pieces, and pass on what is left of
 * them. */
static void *write_by_turns(void *arg)
{
    short_life l = {.k = (int)(intptr_t)arg};
    for (; l.from < write_limit; l.from = l.to) {
        pthread_t t;
        l.to = l.from + 1 + l.from % 23;
        if (pthread_create(&t, NULL, live_shortly, &l) != 0)
            _exit(43);
        pthread_join(t, NULL);
    }
    return NULL;
}

static void *writer(void *arg)
{
    write_range((int)(intptr_t)arg, 0, write_limit);
    return NULL;
}

static mtp_profile_config crash_config(mtp_when_full policy, uint64_t bytes)
{
    mtp_profile_config c = test_config(NULL);
    c.spool = test_path("crash.mtp");
    c.when_full = policy;
    c.buffer_bytes = bytes;
    c.record_shapes = true;
    return c;
}

static void record_until_killed(void *arg)
{
    const kill_plan *p = arg;
    mtp_profile_config c = crash_config(p->policy, p->bytes);
    mtp_profile *prof = NULL;
    write_limit = p->policy == MTP_KEEP_NEWEST ? UINT64_MAX : FITS;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int k = 1; k < THREADS; k++) {
        pthread_t t;
        CHILD_CHECK(pthread_create(&t, NULL, p->threads ? write_by_turns : writer, (void *)(intptr_t)k) == 0);
    }
    atomic_store(&shared->ready, 1);
    if (p->threads)
        write_by_turns(NULL);
    else
        writer(NULL);
    for (;;)
        pause();
}

/* Invariants of a file, whatever happened to its writer. `exact`: only a kill can have cost a record. */
static void check_file(const kill_plan *p, bool exact, const char *what)
{
    seen s = {0};
    mtp_status status = seen_spool(&s, test_path("crash.mtp"));
    if (status != MTP_OK)
        fail_msg("%s: %s", what, mtp_last_error());
    if (s.problem[0] != 0 || s.report.damaged != 0)
        fail_msg("%s: %llu damaged; %s", what, (unsigned long long)s.report.damaged, s.problem);
    for (size_t i = 0; i < s.records; i++) /* all words of every record are present: here each has a name */
        if (mtp__kind_refers_to(s.record[i].kind) == MTP__CONTROL_NAME && (uint32_t)s.record[i].word[0] == 0)
            fail_msg("%s: a record without its words", what);
    for (int k = 0; k < THREADS; k++) {
        uint64_t committed = atomic_load(&shared->committed[k]), next = UINT64_MAX, count = 0;
        for (size_t i = 0; i < s.records; i++) {
            double value;
            if (s.record[i].kind != MTP__KIND_COUNTER ||
                strcmp(seen_name(&s, (uint32_t)s.record[i].word[0]), counter_name[k]) != 0)
                continue;
            memcpy(&value, &s.record[i].word[1], 8);
            if (next != UINT64_MAX && (uint64_t)value != next)
                fail_msg("%s: thread %d: %.0f follows %llu", what, k, value, (unsigned long long)next - 1);
            if (count == 0 && p->policy != MTP_KEEP_NEWEST && value != 0)
                fail_msg("%s: thread %d begins at %.0f", what, k, value);
            next = (uint64_t)value + 1;
            count++;
        }
        uint64_t last = next == UINT64_MAX ? 0 : next;
        if (count == 0 && p->policy == MTP_KEEP_NEWEST)
            continue; /* newer records of other threads may have evicted all of these */
        if (last > committed + 1)
            fail_msg("%s: thread %d: %llu there, %llu written", what, k, (unsigned long long)last,
                     (unsigned long long)committed);
        if (exact && last < committed)
            fail_msg("%s: thread %d: %llu of %llu are there", what, k, (unsigned long long)last,
                     (unsigned long long)committed);
    }
    seen_free(&s);
}

static void snooze(uint64_t nanoseconds)
{
    struct timespec t = {0, (long)nanoseconds};
    nanosleep(&t, NULL);
}

/* reliability.md 1 */
static void killed_at_random_with(mtp_when_full policy, bool threads, double seconds, int rounds)
{
    const char *text = getenv("MTP_TEST_SCALE");
    double until = test_now() + seconds * (text != NULL && atof(text) > 0 ? atof(text) : 1);
    int done = 0;
    for (; done < test_scaled(rounds) && test_now() < until;) {
        kill_plan p = {.policy = policy,
                       .threads = threads,
                       .bytes = policy == MTP_STOP_WHEN_FULL ? 64u << 20 : (16 + test_below(40)) * 4096};
        memset(shared, 0, sizeof *shared);
        pid_t pid = test_fork_child(record_until_killed, &p, 30);
        while (!atomic_load(&shared->ready))
            if (test_below(4) == 0)
                sched_yield();
        snooze(test_below(test_below(4) == 0 ? 20000000 : 3000000));
        kill(pid, SIGKILL);
        int status = test_wait(pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (policy == MTP_KEEP_NEWEST && atomic_load(&shared->lost) != 0)
            continue; /* counted, but the count died with the process */
        check_file(&p, true, "killed at random");
        done++;
    }
    assert_true(done > 0);
    test_row(1, (uint64_t)done,
             "policy %d: no spool that cannot be read, no record lost but the one being written",
             (int)policy);
}

static void a_stop_when_full_spool_survives_kills_at_random(void **state)
{
    (void)state;
    killed_at_random_with(MTP_STOP_WHEN_FULL, false, 6, 150);
}

static void a_keep_newest_spool_survives_kills_at_random(void **state)
{
    (void)state;
    killed_at_random_with(MTP_KEEP_NEWEST, false, 6, 150);
}

static void a_streamed_spool_survives_kills_at_random(void **state)
{
    (void)state;
    killed_at_random_with(MTP_STREAM, false, 6, 150);
}

static void a_spool_of_short_threads_survives_kills_at_random(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy < POLICIES; policy++)
        killed_at_random_with((mtp_when_full)policy, true, 3, 60);
}

/* ------------------------------------------------------------------------------------- at named points */

static kill_plan the_plan;

static void kill_there(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == the_plan.point && atomic_fetch_add(&shared->hits, 1) + 1 == the_plan.nth)
        kill(getpid(), SIGKILL);
}

static void *short_writer(void *arg)
{
    write_range((int)(intptr_t)arg, 0, 700);
    return NULL;
}

/* Two recordings by two threads, one after the other, with the hook set from the start. */
static void record_with_hook(void *arg)
{
    const kill_plan *p = arg;
    mtp_profile_config c = crash_config(p->policy, p->bytes);
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    mtp__testpoint_set(kill_there, NULL);
    for (int round = 0; round < 2; round++) {
        pthread_t t;
        CHILD_CHECK(mtp_profile_start(prof) == MTP_OK);
        if (round == 0) {
            CHILD_CHECK(pthread_create(&t, NULL, short_writer, (void *)(intptr_t)1) == 0);
            write_range(0, 0, 700);
            pthread_join(t, NULL);
        } else {
            write_range(2, 0, 700);
        }
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
        atomic_fetch_add(&shared->stops, 1);
    }
}

/* reliability.md 2 */
static void a_spool_survives_a_kill_at_every_testpoint(void **state)
{
    (void)state;
    static const uint32_t nth[] = {1, 2, 3, 5, 9, 30, 77, 200, 601, 1500};
    int killed[MTP__TESTPOINTS] = {0}, kills = 0;
    for (int policy = MTP_STOP_WHEN_FULL; policy < POLICIES; policy++)
        for (int point = 0; point < MTP__POINT_FORK_CHILD; point++)
            for (size_t i = 0; i < COUNT(nth); i++) {
                char what[128];
                the_plan = (kill_plan){.policy = (mtp_when_full)policy,
                                       .bytes = policy == MTP_STOP_WHEN_FULL ? 8u << 20 : 16 * 4096,
                                       .point = (mtp__testpoint)point,
                                       .nth = nth[i]};
                memset(shared, 0, sizeof *shared);
                unlink(test_path("crash.mtp"));
                int status = test_child(record_with_hook, &the_plan, 30);
                bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
                assert_true(died || test_left_well(status));
                killed[point] += died;
                kills += died;
                snprintf(what, sizeof what, "policy %d, %s for the %uth time", policy,
                         mtp__testpoint_text((mtp__testpoint)point), nth[i]);
                if (died && access(test_path("crash.mtp"), F_OK) != 0)
                    continue; /* before there was a file */
                check_file(&the_plan, true, what);
                seen s = {0};
                assert_ok(seen_spool(&s, test_path("crash.mtp")));
                if (s.report.complete && !(atomic_load(&shared->stops) > 0 || point == MTP__POINT_STOP_DONE))
                    fail_msg("%s: it is not complete", what);
                if (atomic_load(&shared->stops) == 1 && s.report.complete && point < MTP__POINT_STOP_DONE &&
                    point != MTP__POINT_THREAD_JOIN && atomic_load(&shared->committed[2]) > 0)
                    fail_msg("%s: it went on after it was complete", what);
                seen_free(&s);
                if (!died)
                    break; /* there are not so many */
            }
    for (int point = 0; point < MTP__POINT_FORK_CHILD; point++)
        if (killed[point] == 0)
            fail_msg("%s was never reached", mtp__testpoint_text((mtp__testpoint)point));
    test_row(2, (uint64_t)kills, "at %d points", (int)MTP__POINT_FORK_CHILD);
}

static void fork_and_die(void *arg)
{
    (void)arg;
    mtp_profile_config c = crash_config(MTP_STREAM, 16 * 4096);
    mtp_profile *prof = NULL;
    c.follow_fork = true;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    write_range(0, 0, 100);
    the_plan = (kill_plan){.point = MTP__POINT_FORK_CHILD, .nth = 1};
    mtp__testpoint_set(kill_there, NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0); /* not reached: it was killed before */
    int status = test_wait(pid);
    CHILD_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    write_range(1, 0, 100);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
}

static void a_child_that_dies_in_fork_leaves_the_parent_well(void **state)
{
    (void)state;
    memset(shared, 0, sizeof *shared);
    assert_true(test_left_well(test_child(fork_and_die, NULL, 30)));
    kill_plan p = {.policy = MTP_STREAM};
    check_file(&p, true, "after the child's death");
}

/* -------------------------------------------------------------------- a dead program's file, maltreated */

static char *dead;
static size_t dead_bytes;

static mtp_status original(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    if (chunk->checksum == 0 || chunk->stream == 0) /* control records are checked one by one: test_flips.c */
        return MTP_OK;                              /* was still open: nothing vouches for it */
    *(int *)user += !test_chunk_is_in(dead, dead_bytes, chunk, words, count);
    return MTP_OK;
}

static void a_dead_programs_file_may_be_cut_and_flipped(void **state)
{
    (void)state;
    const char *path = test_path("dead.mtp");
    the_plan = (kill_plan){
        .policy = MTP_KEEP_NEWEST, .bytes = 20 * 4096, .point = MTP__POINT_RECORD_RESERVED, .nth = 5000};
    memset(shared, 0, sizeof *shared);
    int status = test_child(record_with_hook, &the_plan, 30);
    assert_true(WIFSIGNALED(status));
    dead = test_slurp(test_path("crash.mtp"), &dead_bytes);
    seen all = {0}, s = {0};
    assert_ok(seen_spool(&all, test_path("crash.mtp")));
    assert_true(all.report.unsealed > 0 && all.report.chunks > all.report.unsealed);
    size_t step = test_scaled(100) >= 1000 ? 1 : 53;
    for (size_t bytes = 0; bytes <= dead_bytes; bytes += step) {
        test_spew(path, dead, bytes);
        mtp_status read = seen_spool(&s, path);
        assert_true(read == MTP_OK || (read == MTP_E_FORMAT && bytes < sizeof(mtp__spool_header)));
        assert_true(s.records <= all.records);
        seen_free(&s);
    }
    for (int round = 0; round < test_scaled(3000); round++) {
        size_t bit = test_below(dead_bytes * 8);
        int wrong = 0;
        dead[bit / 8] ^= (char)(1 << bit % 8);
        test_spew(path, dead, dead_bytes);
        dead[bit / 8] ^= (char)(1 << bit % 8);
        mtp_status read = mtp__spool_visit(path, original, &wrong, NULL);
        assert_true(read == MTP_OK || (read == MTP_E_FORMAT && bit / 8 < sizeof(mtp__spool_header)));
        if (wrong != 0)
            fail_msg("bit %zu flipped: a wrong chunk was given out", bit);
    }
    seen_free(&all);
    free(dead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stop_when_full_spool_survives_kills_at_random),
        TEST(a_keep_newest_spool_survives_kills_at_random),
        TEST(a_streamed_spool_survives_kills_at_random),
        TEST(a_spool_of_short_threads_survives_kills_at_random),
        TEST(a_spool_survives_a_kill_at_every_testpoint),
        TEST(a_child_that_dies_in_fork_leaves_the_parent_well),
        TEST(a_dead_programs_file_may_be_cut_and_flipped),
    };
    shared = test_shared(sizeof *shared);
    test_random();       /* one seed for all children */
    test_path("folder"); /* and one folder */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
