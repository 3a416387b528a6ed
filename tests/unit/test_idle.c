/* Unit: record/reclaim: chunks that idle threads hold open return to the pool. A ring keeps the newest
 * records, and a stream all of them, however many threads have recorded once and are waiting. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include "tests/test.h"
#include "trace/trace.h"

#define RING ((uint64_t)1 << 20)
#define LATE 1000 /* scopes at the end: all must be kept */

typedef struct waiter {
    pthread_t thread;
    uint32_t name;
    mtp_token open;
    atomic_int asked, done; /* requested action; last completed action */
} waiter;

enum {
    RECORD = 1,
    OPEN,
    CLOSE,
    END
};

static void *wait_and_do(void *arg)
{
    waiter *me = arg;
    for (int done = 0; done != END;) {
        int asked = atomic_load(&me->asked);
        if (asked == done) {
            usleep(500);
            continue;
        }
        if (asked == OPEN)
            me->open = mtp_scope_begin(me->name);
        if (asked == RECORD)
            mtp_scope_end(mtp_scope_begin(me->name));
        if (asked == CLOSE)
            mtp_scope_end(me->open);
        atomic_store(&me->done, done = asked);
    }
    return NULL;
}

static void ask(waiter *w, int what)
{
    atomic_store(&w->asked, what);
    while (atomic_load(&w->done) != what)
        usleep(50);
}

static void start(waiter *w, uint32_t name)
{
    *w = (waiter){.name = name};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_and_do, w), 0);
}

static void end(waiter *w)
{
    ask(w, END);
    pthread_join(w->thread, NULL);
}

static void scopes(uint32_t name, int count)
{
    for (int i = 0; i < count; i++)
        mtp_scope_end(mtp_scope_begin(name));
}

static uint32_t spans_of(const mtp_trace *t, const char *name)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < t->span_count; i++)
        found += strcmp(mtp__trace_get_text(t, t->name[i]).bytes, name) == 0;
    return found;
}

static mtp_profile_config config_of(mtp_when_full when_full, bool file)
{
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = RING;
    c.chunk_bytes = 64 << 10;
    c.when_full = when_full;
    c.spool = file ? test_path("idle.mtp") : NULL;
    return c;
}

/* Workers start one by one while others record, so that each piece holds one of them. */
#define WORKERS 64
static waiter workers[WORKERS];

static void workers_start(int between)
{
    for (int i = 0; i < WORKERS; i++) {
        start(&workers[i], MTP_NAME("worker"));
        ask(&workers[i], RECORD);
        scopes(MTP_NAME("early"), between);
    }
}

static void workers_end(void)
{
    for (int i = 0; i < WORKERS; i++)
        end(&workers[i]);
}

static void waiting_threads_do_not_stop_a_ring(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        mtp_profile_config c = config_of(MTP_KEEP_NEWEST, file);
        mtp_profile *prof = test_start(&c);
        workers_start(3000);
        scopes(MTP_NAME("late"), 200000);
        scopes(MTP_NAME("last"), LATE);
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]);
        assert_true(l.kept * 12 > RING / 2); /* a scope takes 24 bytes: it is at least half full */
        assert_balanced(prof);
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        assert_int_equal(spans_of(t, "last"), LATE);
        assert_int_equal(spans_of(t, "early"), 0);
        assert_int_equal(t->clock_faults + t->damaged_chunks + t->unmatched_ends, 0);
        mtp_trace_destroy(t);
        workers_end();
        mtp_profile_destroy(prof);
    }
}

static void waiting_threads_do_not_stop_a_stream(void **state)
{
    (void)state;
    mtp_profile_config c = config_of(MTP_STREAM, true);
    mtp_profile *prof = test_start(&c);
    workers_start(3000);
    scopes(MTP_NAME("last"), LATE);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).dropped, 0);
    assert_balanced(prof);
    mtp_trace *t;
    assert_ok(mtp_trace_open(c.spool, NULL, &t));
    assert_int_equal(spans_of(t, "worker"), WORKERS);
    assert_int_equal(spans_of(t, "early"), WORKERS * 3000);
    assert_int_equal(spans_of(t, "last"), LATE);
    mtp_trace_destroy(t);
    workers_end();
    mtp_profile_destroy(prof);
}

/* After its chunk was reclaimed, a thread continues in another one, and its scopes still match. */
static void a_waiting_thread_continues_where_it_was(void **state)
{
    (void)state;
    mtp_profile_config c = config_of(MTP_KEEP_NEWEST, false);
    mtp_profile *prof = test_start(&c);
    waiter slow;
    start(&slow, MTP_NAME("slow"));
    ask(&slow, OPEN);
    workers_start(3000);
    scopes(MTP_NAME("main"), 100000);
    ask(&slow, RECORD);
    scopes(MTP_NAME("main"), 10000);
    ask(&slow, CLOSE);
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]);
    assert_balanced(prof);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(spans_of(t, "slow"),
                     1); /* its last scope; the other's begin was evicted, its end was kept */
    assert_int_equal(t->unmatched_ends, 1);
    mtp_trace_destroy(t);
    end(&slow);
    workers_end();
    mtp_profile_destroy(prof);
}

/* The last records of threads that went idle are their newest: they stay. */
static void what_a_few_did_last_stays(void **state)
{
    (void)state;
    mtp_profile_config c = config_of(MTP_KEEP_NEWEST, false);
    mtp_profile *prof = test_start(&c);
    waiter stuck;
    start(&stuck, MTP_NAME("stuck for hours"));
    ask(&stuck, OPEN);
    scopes(MTP_NAME("main"), 500000);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(spans_of(t, "stuck for hours"), 1);
    mtp_trace_destroy(t);
    ask(&stuck, CLOSE);
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    end(&stuck);
    mtp_profile_destroy(prof);
}

/* A thread that records occasionally keeps its last records as long as they are newer than the rest. */
static void a_slow_thread_keeps_its_newest(void **state)
{
    (void)state;
    mtp_profile_config c = config_of(MTP_KEEP_NEWEST, false);
    mtp_profile *prof = test_start(&c);
    waiter slow;
    start(&slow, MTP_NAME("slow"));
    for (int i = 0; i < 50; i++) {
        scopes(MTP_NAME("main"), 10000);
        ask(&slow, RECORD);
        ask(&slow, OPEN);
        ask(&slow, CLOSE);
    }
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_true(spans_of(t, "slow") >= 4); /* two rounds of the three or so that the ring holds */
    mtp_trace_destroy(t);
    end(&slow);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------------- with all at
 * work */

static atomic_bool enough;

static void *busy(void *arg)
{
    uint32_t name = *(uint32_t *)arg;
    uint64_t pairs = 0;
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        mtp_token outer = mtp_scope_begin(name);
        scopes(name, (int)(pairs % 100));
        mtp_scope_end(outer);
        pairs++;
        if (pairs % 64 == 0)
            usleep(100);
    }
    return NULL;
}

/* The smallest ring: threads take pieces from each other all the time. */
static void chunks_change_hands_while_all_record(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        mtp_profile_config c = config_of(MTP_KEEP_NEWEST, file);
        c.chunk_bytes = 4096;
        c.buffer_bytes = 4 * 4096;
        mtp_profile *prof = test_start(&c);
        pthread_t thread[6];
        uint32_t name = MTP_NAME("busy");
        atomic_store(&enough, false);
        for (size_t i = 0; i < COUNT(thread); i++)
            assert_int_equal(pthread_create(&thread[i], NULL, busy, &name), 0);
        for (int i = 0; i < test_scaled(100); i++) {
            mtp_trace *t;
            assert_ok(mtp_profile_trace(prof, &t));
            assert_int_equal(t->clock_faults + t->damaged_chunks, 0);
            mtp_trace_destroy(t);
            usleep(1000);
        }
        atomic_store(&enough, true);
        for (size_t i = 0; i < COUNT(thread); i++)
            pthread_join(thread[i], NULL);
        scopes(MTP_NAME("last"), 40);
        assert_ok(mtp_profile_stop(prof));
        assert_balanced_as(prof, (seen){.holes = true});
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        assert_int_equal(spans_of(t, "last"), 40);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(waiting_threads_do_not_stop_a_ring),
        TEST(waiting_threads_do_not_stop_a_stream),
        TEST(a_waiting_thread_continues_where_it_was),
        TEST(a_slow_thread_keeps_its_newest),
        TEST(what_a_few_did_last_stays),
        TEST(chunks_change_hands_while_all_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
