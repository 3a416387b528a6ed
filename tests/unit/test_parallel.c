/* tests/unit/test_parallel.c - runtime/parallel.c: parts, delayed threads, nested and concurrent sections, forks. */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>
#include "../left_out.h"

#ifdef __SANITIZE_THREAD__
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0"; /* see a_child_starts_its_own_workers */
}
#endif

typedef struct counts {
    int64_t n, grain;
    _Atomic int *seen;
    _Atomic int64_t smallest, parts;
} counts;

static void count(int64_t begin, int64_t end, void *user)
{
    counts *c = user;
    int64_t least = atomic_load(&c->smallest);
    assert_true(begin >= 0 && begin < end && end <= c->n);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add_explicit(&c->seen[i], 1, memory_order_relaxed);
    while (end - begin < least && !atomic_compare_exchange_weak(&c->smallest, &least, end - begin))
        ;
    atomic_fetch_add(&c->parts, 1);
}

static void check_counts(int64_t n, int64_t grain)
{
    counts c = {.n = n, .grain = grain, .smallest = n};
    c.seen = calloc((size_t)n + 1, sizeof *c.seen);
    assert_non_null(c.seen);
    mt__parallel(n, grain, count, &c);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(atomic_load(&c.seen[i]), 1);
    /* parts of elements begin at cache lines, so they may be shorter by less than a line */
    if (n > 0)
        assert_true(atomic_load(&c.smallest) > (grain < n ? grain : n) - 64);
    free(c.seen);
}

static void every_index_is_visited_once(void **state)
{
    static const int64_t sizes[] = {0,  1,  2,   3,    5,    7,    8,     9,     31,    63,
                                    64, 65, 100, 1000, 4095, 4097, 32768, 65537, 100003};
    static const int64_t grains[] = {-1, 0, 1, 2, 3, 10, 64, 1023, 1024, 1025, 20000};
    (void)state;
    for (int threads = 1; threads <= 9; threads += threads < 4 ? 1 : 5)
        for (unsigned i = 0; i < MT__COUNT_OF(sizes); i++)
            for (unsigned j = 0; j < MT__COUNT_OF(grains); j++) {
                mt_set_num_threads(threads);
                check_counts(sizes[i], grains[j]);
            }
}

/* The parts of a section, in order; who ran them does not matter. */
typedef struct edges {
    _Atomic int count;
    int64_t begin[64];
} edges;

static void note_edge(int64_t begin, int64_t end, void *user)
{
    edges *e = user;
    (void)end;
    e->begin[atomic_fetch_add(&e->count, 1)] = begin;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void parts_do_not_depend_on_who_runs_them(void **state)
{
    edges first = {0};
    (void)state;
    mt_set_num_threads(3);
    for (int i = 0; i < 200; i++) {
        edges e = {0};
        mt__parallel(1000003, 2000, note_edge, &e);
        qsort(e.begin, (size_t)e.count, sizeof *e.begin, by_value);
        if (i == 0)
            first = e;
        assert_int_equal(e.count, first.count);
        assert_memory_equal(e.begin, first.begin, sizeof e.begin);
    }
    assert_int_equal(first.count, 12);
    for (int i = 0; i < first.count; i++)
        assert_int_equal(first.begin[i] % 64, 0);
}

static void items_are_divided_evenly(void **state)
{
    edges e = {0};
    (void)state;
    mt_set_num_threads(2);
    mt__parallel(5, 1, note_edge, &e); /* 4 parts: of 1, 1, 1 and 2 items; not 2, 2 and 1 */
    assert_int_equal(e.count, 4);
    e = (edges){0};
    mt__parallel(3 * 5000, 5000, note_edge, &e); /* not 3 parts, of which one thread runs two */
    assert_int_equal(e.count, 2);
}

/* The part with index 0 waits until all others are done. */
typedef struct held {
    _Atomic int64_t others, all;
} held;

static void hold_first(int64_t begin, int64_t end, void *user)
{
    held *h = user;
    if (begin == 0)
        while (atomic_load(&h->others) + end < atomic_load(&h->all))
            sched_yield();
    else
        atomic_fetch_add(&h->others, end - begin);
}

static void a_delayed_thread_delays_only_its_part(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 4; threads++) {
        mt_set_num_threads(threads);
        for (int i = 0; i < 50; i++) {
            held h = {.all = 640};
            mt__parallel(640, 1, hold_first, &h);
            assert_true(atomic_load(&h.others) < 640);
        }
    }
}

static void inner(int64_t begin, int64_t end, void *user)
{
    atomic_fetch_add((_Atomic int64_t *)user, end - begin);
}

static void outer(int64_t begin, int64_t end, void *user)
{
    for (int64_t i = begin; i < end; i++)
        mt__parallel(1000, 1, inner, user);
}

static void *run_sections(void *user)
{
    for (int i = 0; i < 300; i++)
        mt__parallel(20, 1, outer, user);
    return NULL;
}

static void sections_nest_and_threads_may_run_them_at_once(void **state)
{
    _Atomic int64_t total = 0;
    pthread_t threads[4];
    (void)state;
    mt_set_num_threads(3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_sections, &total), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&total), 4 * 300 * 20 * 1000);
}

static void note_mask(int64_t begin, int64_t end, void *user)
{
    sigset_t mask;
    (void)begin, (void)end;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (gettid() != getpid() && (!sigismember(&mask, SIGINT) || !sigismember(&mask, SIGPROF)))
        atomic_fetch_add((_Atomic int *)user, 1);
    sched_yield();
}

static void workers_take_no_signals(void **state)
{
    _Atomic int open = 0;
    sigset_t mask;
    (void)state;
    mt_set_num_threads(4);
    for (int i = 0; i < 100; i++)
        mt__parallel(64, 1, note_mask, &open);
    assert_int_equal(atomic_load(&open), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT));
}

static void *run_until(void *stop)
{
    _Atomic int64_t total = 0;
    while (!atomic_load((atomic_bool *)stop))
        mt__parallel(1000, 1, inner, &total);
    return NULL;
}

static void a_child_starts_its_own_workers(void **state)
{
    TEST_NOT_IN_QEMU(QEMU_FORKS_ALONE);
    atomic_bool stop = false;
    pthread_t busy;
    (void)state;
    mt_set_num_threads(3);
    assert_int_equal(pthread_create(&busy, NULL, run_until, &stop), 0); /* forks hit its sections */
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            held h = {.all = 640};
            alarm(60);
            mt__parallel(640, 1, hold_first, &h); /* ends only if there are workers */
            _exit(atomic_load(&h.others) < 640 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop, true);
    pthread_join(busy, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_is_visited_once),
        cmocka_unit_test(parts_do_not_depend_on_who_runs_them),
        cmocka_unit_test(items_are_divided_evenly),
        cmocka_unit_test(a_delayed_thread_delays_only_its_part),
        cmocka_unit_test(sections_nest_and_threads_may_run_them_at_once),
        cmocka_unit_test(workers_take_no_signals),
        cmocka_unit_test(a_child_starts_its_own_workers),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
