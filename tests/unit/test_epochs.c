/* Unit: record/epoch, record/control, record/renew: a ring stays self-describing indefinitely. Definitions,
 * anchors, threads and cycles are recycled with the records that need them, and the remaining records have
 * correct names, times and counts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "record/epoch.h"
#include "rings.h"

/* Checks a stopped ring. */
static void check_ring(mtp_profile *prof)
{
    mtp_trace *t;
    check_evicted_only(prof);
    assert_ok(mtp_profile_trace(prof, &t));
    check_trace(t);
    mtp_trace_destroy(t);
    const char *path = prof->config.spool;
    if (path == NULL)
        return;
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true((uint64_t)st.st_size <= RING + prof->config.chunk_bytes);
    seen s = {0};
    assert_ok(seen_spool(&s, path));
    assert_string_equal(s.problem, "");
    assert_int_equal(s.report.damaged, 0);
    seen_free(&s);
    check_clean(path);
    assert_ok(mtp_trace_open(path, NULL, &t));
    check_trace(t);
    mtp_trace_destroy(t);
}

static void each_ring(void (*fill)(mtp_profile *prof))
{
    for (int file = 0; file < 2; file++) {
        mtp_profile_config c = ring_config(file);
        mtp_profile *prof = test_start(&c);
        fill(prof);
        newest_scopes();
        assert_ok(mtp_profile_stop(prof));
        check_ring(prof);
        mtp_profile_destroy(prof);
    }
}

/* ---------------------------------------------------------------------------------------- what fills a
 * ring */

static void *short_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "short");
    (void)arg;
    MTP_SCOPE ("of a short thread") {
    }
    return NULL;
}

static void many_threads(mtp_profile *prof)
{
    (void)prof;
    for (int i = 0; i < test_scaled(40000); i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, short_thread, NULL), 0);
        pthread_join(t, NULL);
    }
}

static void short_threads_do_not_fill_a_ring(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_LEAKS_THREADS);
    each_ring(many_threads);
}

static void many_cycles(mtp_profile *prof)
{
    for (int i = 0; i < test_scaled(12000); i++) {
        assert_ok(mtp_profile_stop(prof));
        assert_ok(mtp_profile_start(prof));
        MTP_SCOPE ("of a cycle") {
        }
    }
    assert_ok(mtp_profile_add_metadata(prof, "told", "in the last cycle"));
}

static void cycles_do_not_fill_a_ring(void **state)
{
    (void)state;
    each_ring(many_cycles);
}

static void many_names(mtp_profile *prof)
{
    (void)prof;
    for (int i = 0; i < test_scaled(3000000); i++)
        scope_text("unique name %llu", (unsigned long long)i);
}

static void names_do_not_fill_a_ring(void **state)
{
    (void)state;
    each_ring(many_names);
}

/* A year has 31 million anchors; a ring of 1 MiB was dead after 18,000. */
static void many_anchors(mtp_profile *prof)
{
    for (int i = 0; i < test_scaled(300000); i++) {
        mtp__recorder_anchor(prof->recorder);
        for (int k = 0; k < 10; k++)
            MTP_SCOPE ("between anchors") {
            }
    }
}

static void anchors_do_not_fill_a_ring(void **state)
{
    (void)state;
    each_ring(many_anchors);
}

/* ------------------------------------------------------------------------------------------------- a year */

static atomic_uint_fast64_t virtual_ns;

static uint64_t virtual_ticks(void)
{
    return atomic_fetch_add(&virtual_ns, 100);
}

static uint64_t virtual_clock(clockid_t id)
{
    const uint64_t epoch = (uint64_t)1700000000 * 1000000000u;
    return atomic_fetch_add(&virtual_ns, 100) + (id == CLOCK_REALTIME ? epoch : 0);
}

/* Scopes whose names end in " 5 ms" have that duration. */
static void check_durations(const mtp_trace *t, int least)
{
    int found = 0;
    assert_int_equal(t->clock_faults + t->damaged_chunks, 0);
    for (uint32_t i = 0; i < t->span_count; i++) {
        const mtp_text name = mtp__trace_get_text(t, t->name[i]);
        int64_t ns = t->end[i] - t->start[i];
        assert_true(name.length > 0 && name.bytes[0] != '?');
        if (name.length < 5 || memcmp(name.bytes + name.length - 5, " 5 ms", 5) != 0)
            continue;
        found++;
        if (ns < 4999000 || ns > 5001000)
            fail_msg("%s: %lld ns", name.bytes, (long long)ns);
    }
    assert_true(found >= least);
}

/* A scope each second, a thread and a cycle each half minute, a unique name each minute: a million of each
 * in a year (MTP_TEST_SCALE=365). The newest remain, with names and times. */
static void a_ring_runs_for_a_year(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        atomic_store(&virtual_ns, (uint64_t)3600 * 1000000000u);
        mtp__clock_hook_set(virtual_ticks);
        mtp__clock_system_hook_set(virtual_clock);
        mtp_profile_config c = ring_config(file);
        mtp_profile *prof = test_start(&c);
        const uint64_t seconds = (uint64_t)test_scaled(86400);
        for (uint64_t s = 1; s <= seconds; s++) {
            atomic_fetch_add(&virtual_ns, 995000000u);
            MTP_SCOPE ("each second, 5 ms")
                atomic_fetch_add(&virtual_ns, 5000000u);
            if (s % 60 == 7)
                scope_text("minute %llu", (unsigned long long)s);
            if (s % 30 == 0) {
                pthread_t t;
                assert_int_equal(pthread_create(&t, NULL, short_thread, NULL), 0);
                pthread_join(t, NULL);
            }
            if (s % 30 == 15 && s + 60 < seconds) {
                assert_ok(mtp_profile_stop(prof));
                assert_ok(mtp_profile_start(prof));
            }
        }
        assert_ok(mtp_profile_stop(prof));
        check_evicted_only(prof);
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        check_durations(t, 500);
        mtp_trace_destroy(t);
        if (file) {
            check_clean(c.spool);
            assert_ok(mtp_trace_open(c.spool, NULL, &t));
            check_durations(t, 500);
            mtp_trace_destroy(t);
        }
        mtp_profile_destroy(prof);
        mtp__clock_hook_set(NULL);
        mtp__clock_system_hook_set(NULL);
        test_row(11, seconds, "a ring of 1 MiB after %llu days", (unsigned long long)(seconds / 86400));
    }
}

/* ----------------------------------------------------------------------------------------- idle threads */

typedef struct idler {
    pthread_t thread;
    int number;
    atomic_int go; /* 1: has recorded; 2: record again; 3: has done so; 4: end */
} idler;

static void *idle_thread(void *arg)
{
    idler *me = arg;
    record_details(me->number, 1);
    atomic_store(&me->go, 1);
    while (atomic_load(&me->go) != 2)
        usleep(1000);
    record_details(me->number, 2);
    atomic_store(&me->go, 3);
    while (atomic_load(&me->go) != 4)
        usleep(1000);
    return NULL;
}

#define IDLERS 4
static idler idlers[IDLERS];

static void idlers_start(void)
{
    for (int i = 0; i < IDLERS; i++) {
        idlers[i].number = i;
        atomic_store(&idlers[i].go, 0);
        assert_int_equal(pthread_create(&idlers[i].thread, NULL, idle_thread, &idlers[i]), 0);
        while (atomic_load(&idlers[i].go) != 1)
            usleep(100);
    }
}

static void idlers_say(int what, int until)
{
    for (int i = 0; i < IDLERS; i++) {
        atomic_store(&idlers[i].go, what);
        while (until != 0 && atomic_load(&idlers[i].go) != until)
            usleep(100);
        if (until == 0)
            pthread_join(idlers[i].thread, NULL);
    }
}

/* The first and last records of idle threads are present with all their details. */
static void check_idlers(mtp_trace *t, int rounds)
{
    int names = 0, args = 0, shapes = 0, stacks = 0;
    for (uint32_t i = 0; i < t->span_count; i++) {
        const char *name = mtp__trace_get_text(t, t->name[i]).bytes;
        names += strncmp(name, "idle thread ", 12) == 0;
        if (strcmp(name, "an idle op") != 0)
            continue;
        const mtp__detail *d = &t->details[t->detail[i]];
        args += strstr(mtp__trace_get_text(t, d->args).bytes, "args of ") != NULL;
        shapes += d->shape != 0 && d->outputs != 0;
        stacks += d->stack != 0;
    }
    assert_int_equal(names, IDLERS * rounds);
    assert_int_equal(args, IDLERS * rounds);
    assert_int_equal(shapes, IDLERS * rounds);
    assert_int_equal(stacks, IDLERS * rounds);
}

static void everything_and_idle_threads_do_not_fill_a_ring(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        mtp_profile_config c = ring_config(file);
        c.chunk_bytes = 16 << 10;
        c.with_stack = true;
        mtp_profile *prof = test_start(&c);
        assert_ok(mtp_profile_add_metadata(prof, "color", "red"));
        assert_ok(mtp_profile_add_metadata(prof, "color", "blue"));
        uint32_t epoch = 0;
        idlers_start();
        for (int round = 0; round < test_scaled(400); round++) {
            epoch = atomic_load(&prof->recorder->pool.epoch);
            for (unsigned k = 0; k < 300; k++)
                scope_text("mixed name %llu", (unsigned long long)round * 300 + k);
            for (int k = 0; k < 10; k++)
                mtp__recorder_anchor(prof->recorder);
            pthread_t t;
            assert_int_equal(pthread_create(&t, NULL, short_thread, NULL), 0);
            pthread_join(t, NULL);
        }
        assert_true(TEST_TSAN || TEST_ASAN || epoch > 10);
        idlers_say(2, 3);
        newest_scopes();
        assert_ok(mtp_profile_stop(prof));
        idlers_say(4, 0);
        check_ring(prof);
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        check_idlers(t, 2);
        int colors = 0;
        for (uint32_t i = 0; i < t->metadata_count; i++)
            if (strcmp(mtp__trace_get_text(t, t->metadata[i].key).bytes, "color") == 0) {
                assert_string_equal(mtp__trace_get_text(t, t->metadata[i].json).bytes, "\"blue\"");
                colors++;
            }
        assert_int_equal(colors, 1);
        for (uint32_t i = 0; i < t->track_count; i++) /* both running and finished threads have their names */
            assert_true(t->tracks[i].on_device || t->tracks[i].tid > 100);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
    }
}

/* ---------------------------------------------------------------------------------------------- kills */

static struct {
    atomic_int ready; /* its epoch */
    atomic_int
        lost; /* a thread was preempted inside a record for so long that the others lost a definition */
} * shared;

static void *churn_names(void *arg)
{
    for (uint64_t i = 0;; i++) {
        scope_text(arg != NULL ? "churned by one, %llu" : "churned by another, %llu", (unsigned long long)i);
        if (i % 8 == 0) /* a thread preempted inside a record keeps an epoch from beginning */
            usleep(1);
    }
    return NULL;
}

static void record_until_killed(void *arg)
{
    (void)arg;
    mtp_profile_config c = ring_config(true);
    c.buffer_bytes = RING / 4;
    c.chunk_bytes = 4096;
    mtp_profile *prof = NULL;
    pthread_t t;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    record_details(1, 1);
    for (int k = 0; k < 2; k++)
        CHILD_CHECK(pthread_create(&t, NULL, churn_names, k == 0 ? NULL : prof) == 0);
    for (uint64_t i = 0;; i++) {
        mtp_ledger l = MTP_LEDGER_INIT;
        mtp_profile_ledger(prof, &l);
        if (l.lost_definitions > 0)
            atomic_store(&shared->lost, 1);
        atomic_store(&shared->ready, (int)atomic_load(&prof->recorder->pool.epoch));
        pthread_create(&t, NULL, short_thread, NULL);
        pthread_join(t, NULL);
    }
}

/* Whatever is being recycled when it is killed: the remaining records have names. */
static void a_ring_that_turns_survives_kills(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_FORKS_ALONE);
    shared = test_shared(sizeof *shared);
    test_path("epochs.mtp"); /* creates the folder in the parent */
    for (int done = 0; done < test_scaled(60);) {
        atomic_store(&shared->ready, 0);
        atomic_store(&shared->lost, 0);
        pid_t pid = test_fork_child(record_until_killed, NULL, 30);
        int wait_for = 3 + (int)test_below(12);
        while (atomic_load(&shared->ready) < wait_for && waitpid(pid, NULL, WNOHANG) == 0)
            usleep((useconds_t)test_below(500));
        usleep((useconds_t)test_below(3000));
        kill(pid, SIGKILL);
        int status = test_wait(pid);
        if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
            fprintf(stderr, "the child ended with status %x\n", (unsigned)status);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (atomic_load(&shared->lost) != 0)
            continue;
        done++;
        seen s = {.holes = true};
        assert_ok(seen_spool(&s, test_path("epochs.mtp")));
        assert_string_equal(s.problem, "");
        assert_int_equal(s.report.damaged, 0);
        assert_true(s.records > 100);
        seen_free(&s);
    }
}

/* ------------------------------------------------------------------------------------------ the turn
 * itself */

typedef struct turning {
    mtp_profile *prof;
    int number;
    atomic_bool *stop;
} turning;

static void *turn_often(void *arg)
{
    const turning *me = arg;
    for (int i = 0; !atomic_load(me->stop); i++) {
        record_details(me->number, i);
        record_details(me->number, i % 7); /* in the caches */
        if (i % 16 == me->number)
            mtp__epoch_want(me->prof->recorder);
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

/* Four threads define, look up and begin epochs at random: no id resolves to another's text. */
static void epochs_begin_beside_threads_that_look_things_up(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++) {
        mtp_profile_config c = config_of(policy);
        c.buffer_bytes = policy == MTP_STOP_WHEN_FULL ? 64 << 20 : 4 << 20;
        c.chunk_bytes = 16 << 10;
        c.with_stack = true;
        mtp_profile *prof = test_start(&c);
        atomic_bool stop = false;
        turning t[4];
        pthread_t thread[4];
        for (int i = 0; i < 4; i++) {
            t[i] = (turning){prof, i, &stop};
            assert_int_equal(pthread_create(&thread[i], NULL, turn_often, &t[i]), 0);
        }
        for (int i = 0; i < test_scaled(30) || atomic_load(&prof->recorder->pool.epoch) <= 3; i++) {
            usleep(10000);
            mtp_ledger l = ledger_of(prof);
            if (l.dropped_by[MTP_DROP_BUDGET] > 0)
                break;
        }
        atomic_store(&stop, true);
        for (int i = 0; i < 4; i++)
            pthread_join(thread[i], NULL);
        assert_ok(mtp_profile_stop(prof));
        assert_true(atomic_load(&prof->recorder->pool.epoch) > 3);
        mtp_ledger l = ledger_of(prof);
        if (policy ==
            MTP_STREAM) /* in a ring, a thread preempted inside a record may delay an epoch for too long */
            assert_int_equal(l.lost_definitions, 0);
        assert_balanced(prof);
        mtp_trace *trace;
        assert_ok(mtp_profile_trace(prof, &trace));
        for (uint32_t i = 0; i < trace->span_count; i++) {
            const char *name = mtp__trace_get_text(trace, trace->name[i]).bytes;
            const mtp__detail *d = &trace->details[trace->detail[i]];
            int number, of;
            if (sscanf(name, "idle thread %d", &number) == 1)
                continue;
            const char *args = mtp__trace_get_text(trace, d->args).bytes;
            const char *dims = mtp__trace_get_text(trace, trace->shapes[d->shape].dims).bytes;
            bool told = d->args != 0 && d->shape != 0 && d->stack != 0;
            if ((!told && l.lost_definitions == 0) ||
                (told && (sscanf(args, "\"args\": \"args of %d in %d", &number, &of) != 2 ||
                          (int)strtol(dims + strspn(dims, "["), NULL, 10) != number)))
                fail_msg("args %s, dims %s, stack %u", args, dims, d->stack);
        }
        mtp_trace_destroy(trace);
        mtp_profile_destroy(prof);
    }
}

/* ----------------------------------------------------------------------------------------- idle threads */

#define SLEEPERS 6

typedef struct sleeper {
    pthread_t thread;
    int number, names; /* names: at the next awakening */
    sem_t wake, done;
    atomic_bool end;
} sleeper;

static void *sleep_and_name(void *arg)
{
    sleeper *me = arg;
    for (uint64_t i = 0; sem_wait(&me->wake) == 0 && !atomic_load(&me->end);) {
        for (int k = 0; k < me->names; k++, i++)
            scope_text(me->number % 2 == 0 ? "an even sleeper's, %llu" : "an odd sleeper's, %llu",
                       (unsigned long long)(i * SLEEPERS + (uint64_t)me->number));
        sem_post(&me->done);
    }
    return NULL;
}

/* To re-emit what idle threads use takes chunks, for which those that are read may be evicted: this copied
 * zeroes, and missed definitions. */
static void what_idle_threads_use_is_reemitted_whole(void **state)
{
    (void)state;
    static sleeper all[SLEEPERS];
    int read = 0;
    for (int round = 0; round < test_scaled(60); round++) {
        mtp_profile_config c = ring_config(true);
        c.chunk_bytes = 4096;
        c.buffer_bytes = (16 + test_below(40)) * 4096;
        mtp_profile *prof = test_start(&c);
        for (int i = 0; i < SLEEPERS; i++) {
            all[i].number = i;
            atomic_store(&all[i].end, false);
            assert_int_equal(sem_init(&all[i].wake, 0, 0) | sem_init(&all[i].done, 0, 0), 0);
            assert_int_equal(pthread_create(&all[i].thread, NULL, sleep_and_name, &all[i]), 0);
        }
        int steps = 200 + (int)test_below(400);
        for (int i = 0; i < steps; i++) {
            sleeper *one = &all[test_below(SLEEPERS)];
            if (test_below(5) == 0) {
                one->names = 20 + (int)test_below(120);
                sem_post(&one->wake);
                sem_wait(&one->done);
            }
            for (int k = 0; k < 20; k++)
                scope_text("busy, %llu", (unsigned long long)(i * 20 + k));
        }
        for (int i = 0; i < SLEEPERS; i++) {
            atomic_store(&all[i].end, true);
            sem_post(&all[i].wake);
            pthread_join(all[i].thread, NULL);
        }
        assert_true(atomic_load(&prof->recorder->pool.epoch) > 3);
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        mtp_profile_destroy(prof);
        if (l.lost_definitions > 0)
            continue; /* a thread was preempted inside a record for too long */
        seen s = {.holes = true};
        assert_ok(seen_spool(&s, test_path("epochs.mtp")));
        assert_string_equal(s.problem, "");
        assert_int_equal(s.report.damaged, 0);
        seen_free(&s);
        read++;
    }
    assert_true(read > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(short_threads_do_not_fill_a_ring),
        TEST(cycles_do_not_fill_a_ring),
        TEST(names_do_not_fill_a_ring),
        TEST(anchors_do_not_fill_a_ring),
        TEST(a_ring_runs_for_a_year),
        TEST(everything_and_idle_threads_do_not_fill_a_ring),
        TEST(a_ring_that_turns_survives_kills),
        TEST(epochs_begin_beside_threads_that_look_things_up),
        TEST(what_idle_threads_use_is_reemitted_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
