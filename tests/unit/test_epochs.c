/* Unit: record/epoch, record/control, record/renew: a ring stays self-describing indefinitely. Definitions,
 * anchors, threads and cycles are recycled with the records that need them, and the remaining records have
 * correct names, times and counts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "record/epoch.h"
#include "tests/test.h"
#include "trace/trace.h"

#define RING ((uint64_t)1 << 20)
#define NEWEST 200 /* of the scopes that are made at the end, all must be there */

static mtp_profile_config ring_config(bool file)
{
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = RING;
    c.chunk_bytes = 64 << 10;
    c.when_full = MTP_KEEP_NEWEST;
    c.acc_events = true;
    c.record_shapes = true;
    c.spool = file ? test_path("epochs.mtp") : NULL;
    return c;
}

static void scope_text(const char *format, unsigned long long number)
{
    char text[96];
    int n = snprintf(text, sizeof text, format, number);
    mtp_scope_end(mtp_scope_begin_text(text, (size_t)n));
}

static int64_t before[NEWEST], after[NEWEST];

static void newest_scopes(void)
{
    for (int i = 0; i < NEWEST; i++) {
        before[i] = (int64_t)mtp_now_ns();
        scope_text("the newest scope, number %llu", (unsigned long long)i);
        after[i] = (int64_t)mtp_now_ns();
    }
}

/* All spans have names, the newest are there, and their times are those of the clock. */
static void check_trace(const mtp_trace *t)
{
    int found = 0;
    int64_t off = 0;
    assert_int_equal(t->clock_faults, 0);
    assert_int_equal(t->damaged_chunks, 0);
    for (uint32_t i = 0; i < t->span_count; i++) {
        const char *name = mtp__trace_get_text(t, t->name[i]).bytes;
        int n;
        if (strcmp(name, "?") == 0 || name[0] == 0)
            fail_msg("span %u has no name", i);
        if (sscanf(name, "the newest scope, number %d", &n) != 1)
            continue;
        off = found++ == 0 ? before[n] - t->start[i] : off;
        int64_t start = t->start[i] + off, slack = 1000000;
        if (start < before[n] - slack || start > after[n] + slack)
            fail_msg("scope %d is at %lld, not from %lld to %lld", n, (long long)start, (long long)before[n],
                     (long long)after[n]);
    }
    assert_int_equal(found, NEWEST);
}

static void check_clean(const char *path)
{
    mtp_check *check;
    assert_ok(mtp_trace_check_file(path, NULL, &check));
    if (mtp_check_breaches(check) != 0)
        fail_msg("check: %s", mtp_check_finding(check, 0)->what);
    mtp_check_destroy(check);
}

/* Of a ring that was stopped. */
static void check_ring(mtp_profile *prof)
{
    mtp_trace *t;
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.lost_definitions, 0);
    assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]);
    assert_balanced(prof);
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

/* ---------------------------------------------------------------------------------------- what fills a ring */

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

/* Names that end in " 5 ms" last so long. */
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

/* A scope each second, a thread and a cycle each half minute, a name of its own each minute: a million of each in a year
 * (MTP_TEST_SCALE=365). What is left is the newest, named and timed. */
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
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.lost_definitions, 0);
        assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]);
        assert_balanced(prof);
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
    atomic_int go; /* 1: it has recorded; 2: once more; 3: it has; 4: it may end */
} idler;

/* Unique names, shapes, stacks and args: its chunk needs definitions of all kinds. */
static void record_details(int number, int round)
{
    char text[64];
    int64_t dims[2] = {number, round};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    mtp_op op = MTP_OP_INIT(MTP_NAME("an idle op"));
    snprintf(text, sizeof text, "args of %d in %d", number, round);
    op.inputs = op.outputs = &in;
    op.input_count = op.output_count = 1;
    op.args = text;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    char name[64];
    int n = snprintf(name, sizeof name, "idle thread %d in round %d", number, round);
    mtp_scope_end(mtp_scope_begin_text(name, (size_t)n));
}

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

/* What idle threads recorded first and last is there, with all its details. */
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
        for (uint32_t i = 0; i < t->track_count; i++) /* living and gone, each has its name */
            assert_true(t->tracks[i].on_device || t->tracks[i].tid > 100);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
    }
}

/* ---------------------------------------------------------------------------------------------- kills */

static struct {
    atomic_int ready;
    atomic_uint_fast64_t done;
} * shared;

static void *churn_names(void *arg)
{
    for (uint64_t i = 0;; i++) {
        scope_text(arg != NULL ? "churned by one, %llu" : "churned by another, %llu", (unsigned long long)i);
        if (i % 8 == 0) /* one that is stopped inside a record keeps an epoch from beginning */
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
        CHILD_CHECK(l.lost_definitions == 0);
        atomic_store(&shared->ready, (int)atomic_load(&prof->recorder->pool.epoch));
        pthread_create(&t, NULL, short_thread, NULL);
        pthread_join(t, NULL);
    }
}

/* Whatever is being recycled at that instant: what is there has its names. */
static void a_ring_that_turns_survives_kills(void **state)
{
    (void)state;
    shared = test_shared(sizeof *shared);
    test_path("epochs.mtp"); /* makes the folder here, not in the child */
    for (int i = 0; i < test_scaled(60); i++) {
        atomic_store(&shared->ready, 0);
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
        seen s = {.holes = true};
        assert_ok(seen_spool(&s, test_path("epochs.mtp")));
        assert_string_equal(s.problem, "");
        assert_int_equal(s.report.damaged, 0);
        assert_true(s.records > 100);
        seen_free(&s);
    }
}

/* ------------------------------------------------------------------------------------------ the turn itself */

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

/* Four threads define, look up and begin epochs at random: none is named by another's words. */
static void epochs_begin_beside_threads_that_look_things_up(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++) {
        mtp_profile_config c = ring_config(policy == MTP_STREAM);
        c.when_full = (mtp_when_full)policy;
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
        for (int i = 0; i < test_scaled(30); i++) {
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
            MTP_STREAM) /* in a ring, a thread that is stopped inside a record may hold things up for too long */
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

/* ------------------------------------------------------------------------------------- tables that are full */

/* More names than the session's table holds: in a stream all are kept, with a small budget what was lost is said. */
static void a_stream_names_any_number(void **state)
{
    (void)state;
    const int count = test_scaled(300000);
    mtp_profile_config c = ring_config(true);
    c.when_full = MTP_STREAM;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < count; i++)
        scope_text("streamed name %llu", (unsigned long long)i);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).lost_definitions, 0);
    assert_balanced(prof);
    mtp_trace *t;
    assert_ok(mtp_trace_open(c.spool, NULL, &t));
    assert_int_equal(t->span_count, count);
    for (int i = 0; i < count; i++) {
        int n = -1;
        sscanf(mtp__trace_get_text(t, t->name[i]).bytes, "streamed name %d", &n);
        assert_int_equal(n, i);
    }
    mtp_trace_destroy(t);
    check_clean(c.spool);
    mtp_profile_destroy(prof);
}

static void *name_things(void *arg)
{
    const int count = test_scaled(40000);
    for (int i = 0; i < count; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "named by %d, number %d", *(int *)arg, i);
        mtp_scope_end(mtp_scope_begin_text(text, (size_t)n));
    }
    return NULL;
}

/* Threads that do nothing but define things are inside a record nearly always, and so keep each other from beginning an epoch:
 * they wait for each other. (One that the system stops there may be waited for in vain: that costs a few.) */
static void threads_that_name_things_at_once_lose_hardly_any(void **state)
{
    (void)state;
    for (int policy = MTP_KEEP_NEWEST; policy <= MTP_STREAM; policy++) {
        mtp_profile_config c = ring_config(policy == MTP_STREAM);
        c.when_full = (mtp_when_full)policy;
        mtp_profile *prof = test_start(&c);
        pthread_t thread[2];
        int number[2] = {1, 2};
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, name_things, &number[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
        uint64_t lost = ledger_of(prof).lost_definitions;
        assert_true(lost * 100 < (uint64_t)test_scaled(40000) * 2);
        name_things(&(int){3});
        newest_scopes();
        assert_int_equal(ledger_of(prof).lost_definitions, lost); /* they are all out of the way */
        assert_ok(mtp_profile_stop(prof));
        assert_balanced(prof);
        mtp_profile_destroy(prof);
    }
}

/* Definitions that need a hundred times what their records do: the ring holds what both have room for, all of it named. */
static void long_names_do_not_fill_a_ring(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {300, 1000, 4000, 30000};
    for (size_t k = 0; k < COUNT(lengths) * 2; k++) {
        mtp_profile_config c = ring_config(false);
        c.chunk_bytes = k % 2 == 0 ? 64 << 10 : 16 << 10;
        mtp_profile *prof = test_start(&c);
        const int length = (int)lengths[k / 2], count = 5 * (int)RING / length;
        char *text = malloc((size_t)length + 1);
        for (int i = 0; i < count; i++) {
            snprintf(text, (size_t)length + 1, "%0*d", length, i);
            mtp_scope_end(mtp_scope_begin_text(text, (size_t)length));
        }
        free(text);
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.lost_definitions, 0);
        assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]);
        assert_balanced(prof);
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        assert_true((uint64_t)t->span_count * (uint64_t)length > RING / 8);
        for (uint32_t i = 0; i < t->span_count; i++)
            assert_int_equal(atoi(mtp__trace_get_text(t, t->name[i]).bytes),
                             count - (int)t->span_count + (int)i);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
    }
}

/* A server that names each request has used all ids after some weeks: then the first are free again. */
static void ids_do_not_run_out_in_a_ring(void **state)
{
    (void)state;
    mtp_profile_config c = ring_config(false);
    c.chunk_bytes = 16 << 10;
    c.with_stack = true;
    mtp_profile *prof = test_start(&c);
    mtp__tables *set = atomic_load(&prof->recorder->tables);
    mtp__intern *all[] = {&set->names, &set->shapes, &set->frames, &set->stacks, &set->texts};
    for (size_t k = 0; k < COUNT(all); k++)
        mtp__intern_restart(all[k], UINT32_MAX - 1000);
    for (int i = 0; i < 20000; i++)
        record_details(0, i);
    uint64_t lost = ledger_of(prof).lost_definitions;
    assert_true(lost < 10); /* of an op with several */
    newest_scopes();
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).lost_definitions, lost);
    assert_balanced(prof);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    check_trace(t);
    for (uint32_t i = 0; i < t->span_count; i++) {
        const mtp__detail *d = &t->details[t->detail[i]];
        if (strcmp(mtp__trace_get_text(t, t->name[i]).bytes, "an idle op") == 0)
            assert_true(d->args != 0 && d->shape != 0 && d->outputs != 0 && d->stack != 0);
    }
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

/* Ops named at run time leave nothing behind in the process. */
static void ops_named_by_text_are_the_sessions(void **state)
{
    (void)state;
    mtp_profile_config c = ring_config(false);
    mtp_profile *prof = test_start(&c);
    uint32_t names = mtp__intern_count(mtp__names());
    for (int i = 0; i < 1000; i++) {
        char text[32];
        mtp_op op = MTP_OP_INIT(0);
        int n = snprintf(text, sizeof text, "an op, %d", i);
        mtp_op_begin_text(&op, text, (size_t)n);
        mtp_op_end(&op);
    }
    assert_int_equal(mtp__intern_count(mtp__names()), names);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(t->span_count, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(atoi(mtp__trace_get_text(t, t->name[i]).bytes + strlen("an op, ")), i);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static bool put_text(void *user, const void *bytes, size_t count)
{
    size_t had = strlen(user);
    if (had + count < 65536)
        memcpy((char *)user + had, bytes, count);
    return true;
}

/* A budget that cannot hold what there is to define: that is counted, and everybody says so. */
static void lost_definitions_are_said(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    c.buffer_bytes = 16 * 4096;
    c.spool = test_path("lost.mtp");
    mtp_profile *prof = test_start(&c);
    MTP_SCOPE ("around") { /* its chunk has room when the budget is spent */
        for (int i = 0; i < 5000; i++)
            scope_text("a long name so that definitions need more than records do, %llu",
                       (unsigned long long)i);
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    assert_true(l.lost_definitions > 0);
    assert_int_equal(w.count[MTP_WARNING_DEFINITIONS_LOST], 1);
    mtp_profile_destroy(prof);
    mtp_trace *t;
    assert_ok(mtp_trace_open(c.spool, NULL, &t));
    assert_int_equal(t->ledger.lost_definitions, l.lost_definitions);
    mtp_averages *a;
    char *text = calloc(1, 65537);
    assert_ok(mtp_averages_create(t, NULL, &a));
    assert_ok(mtp_averages_table(a, NULL, put_text, text));
    assert_contains(text, "were lost while recording");
    mtp_averages_destroy(a);
    mtp_trace_destroy(t);
    free(text);
    mtp_check *check;
    bool said = false;
    assert_ok(mtp_trace_check_file(c.spool, NULL, &check));
    for (size_t i = 0; i < mtp_check_count(check); i++)
        said |= strstr(mtp_check_finding(check, i)->what, "were lost while recording") != NULL;
    assert_true(said);
    mtp_check_destroy(check);
}

typedef struct full_disk {
    uint64_t buffer_bytes;
    uint64_t *kept; /* shared: records, and names that are not */
} full_disk;

/* A file may have 49 pieces, whatever was asked for. */
static void record_on_a_full_disk(void *arg)
{
    const full_disk *d = arg;
    struct rlimit limit = {50 * 4096, 50 * 4096};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    mtp_profile_config c = ring_config(true);
    c.chunk_bytes = 4096;
    c.buffer_bytes = d->buffer_bytes;
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 20000; i++) {
        char name[400];
        memset(name, 'x', sizeof name);
        snprintf(name, sizeof name, "%d", i);
        mtp_scope_end(mtp_scope_begin_text(name, sizeof name));
        for (int k = 0; k < 3; k++)
            mtp_mark(MTP_NAME("mark"));
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger ledger = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &ledger) == MTP_OK);
    d->kept[0] = ledger.kept;
    d->kept[1] = ledger.lost_definitions;
    mtp_profile_destroy(prof);
}

/* Names of which eight fit a chunk, and leave it before it comes to its end. When the disk is found full, definitions may have
 * more than their part already; records have their share of what the disk gives, not of what was asked for. */
static void long_names_do_not_fill_a_ring_nor_one_on_a_full_disk(void **state)
{
    (void)state;
    full_disk fits = {49 * 4096, test_shared(4096)}, full = {RING, test_shared(4096)};
    assert_true(test_left_well(test_child(record_on_a_full_disk, &fits, 30)));
    assert_true(test_left_well(test_child(record_on_a_full_disk, &full, 30)));
    fprintf(stderr, "%llu records kept, on a full disk %llu\n", (unsigned long long)*fits.kept,
            (unsigned long long)*full.kept);
    assert_true(fits.kept[0] > 500 && fits.kept[1] == 0);
    assert_true(full.kept[0] * 2 >= fits.kept[0] && full.kept[1] < 200);
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
        TEST(threads_that_name_things_at_once_lose_hardly_any),
        TEST(long_names_do_not_fill_a_ring),
        TEST(ids_do_not_run_out_in_a_ring),
        TEST(a_stream_names_any_number),
        TEST(ops_named_by_text_are_the_sessions),
        TEST(lost_definitions_are_said),
        TEST(long_names_do_not_fill_a_ring_nor_one_on_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
