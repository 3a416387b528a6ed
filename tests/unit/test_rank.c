/* Unit: base/rank, and that the library follows its documented lock order. */
#define _GNU_SOURCE
#define MTP__TESTING /* as the library that this is linked with */
#include "base/rank.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/test.h"

/* What src/meson.build replaces pthread_mutex_lock and the like with. */
int mtp__ranked_lock(pthread_mutex_t *lock);
int mtp__ranked_trylock(pthread_mutex_t *lock);
int mtp__ranked_unlock(pthread_mutex_t *lock);
int mtp__ranked_destroy(pthread_mutex_t *lock);

static pthread_mutex_t low = PTHREAD_MUTEX_INITIALIZER, high = PTHREAD_MUTEX_INITIALIZER,
                       other = PTHREAD_MUTEX_INITIALIZER;

static void rank_them(const void *owner_of_low, const void *owner_of_high)
{
    mtp__rank_set(&low, MTP__RANK_CONTROL, owner_of_low);
    mtp__rank_set(&high, MTP__RANK_POOL, owner_of_high);
}

static void take(pthread_mutex_t *first, pthread_mutex_t *second)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    mtp__ranked_lock(first);
    mtp__ranked_lock(second);
    mtp__ranked_unlock(second);
    mtp__ranked_unlock(first);
}

static void take_in_order(void *arg)
{
    (void)arg;
    take(&low, &high);
    take(&low, &other); /* it has no rank */
    take(&other, &low);
}

static void take_against_order(void *arg)
{
    (void)arg;
    take(&high, &low);
}

static void try_against_order(void *arg)
{
    (void)arg;
    mtp__ranked_lock(&high);
    CHILD_CHECK(mtp__ranked_trylock(&low) == 0);
    mtp__ranked_unlock(&low);
    mtp__ranked_unlock(&high);
}

static bool aborts(child_fn *fn)
{
    int status = test_child(fn, NULL, 10);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void a_lock_of_a_lower_rank_is_not_taken_later(void **state)
{
    (void)state;
    if (TEST_TSAN) /* it also reports the wrong order that is produced here on purpose */
        skip();
    int mine = 0, yours = 0;
    rank_them(&mine, &mine);
    assert_true(test_left_well(test_child(take_in_order, NULL, 10)));
    assert_true(aborts(take_against_order));
    assert_true(test_left_well(test_child(try_against_order, NULL, 10)));
    rank_them(NULL, &mine); /* the process's own is compared with all */
    assert_true(aborts(take_against_order));
    rank_them(&mine, &yours);
    assert_true(test_left_well(test_child(take_against_order, NULL, 10)));
    rank_them(&mine, &mine);
    mtp__ranked_destroy(&low); /* a new lock at that address has no rank */
    assert_true(test_left_well(test_child(take_against_order, NULL, 10)));
}

/* At least 200 ops, and on until the process has forked: a thread that has ended, but is not joined yet, is one that a
 * forked child can never join, which TSan reports there as a leak. */
static void *work(void *arg)
{
    const atomic_bool *forked = arg;
    char name[32];
    int64_t dims[] = {2, 3};
    mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    for (int i = 0; i < 200 || !atomic_load(forked); i++) {
        mtp_op op = MTP_OP_INIT(mtp_name(i % 2 == 0 ? "an even op" : "an odd op"));
        dims[0] = i % 200;
        op.inputs = &input;
        op.input_count = 1;
        mtp_op_begin(&op);
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "scope %d", i % 200)));
        mtp_op_end(&op);
    }
    return NULL;
}

static void leave(void *arg)
{
    (void)arg;
}

/* All tests run under the check; this one makes sure that there is something to check. */
static void a_busy_profile_takes_locks_of_every_rank(void **state)
{
    (void)state;
    unsigned long before[64];
    for (int k = 0; k < 64; k++)
        before[k] = mtp__rank_taken(k);
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = true;
    c.when_full = MTP_KEEP_NEWEST;
    c.spool = test_path("ranks.mtp");
    mtp_profile *prof = test_start(&c), *idle = test_create(&c);
    atomic_bool forked = false;
    pthread_t thread[3];
    for (int k = 0; k < 3; k++)
        assert_int_equal(pthread_create(&thread[k], NULL, work, &forked), 0);
    int left = test_child(leave, NULL, 30);
    atomic_store(&forked, true);
    for (int k = 0; k < 3; k++)
        pthread_join(thread[k], NULL);
    assert_true(test_left_well(left));
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.emitted, l.kept + l.dropped);
    mtp_profile_destroy(prof);
    mtp_profile_destroy(idle);
#define X(sym, value)                                                                                        \
    if (mtp__rank_taken(value) == before[value])                                                             \
        fail_msg("no lock of rank %s was taken", #sym);
    MTP__RANK_LIST(X)
#undef X
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_of_a_lower_rank_is_not_taken_later),
        TEST(a_busy_profile_takes_locks_of_every_rank),
    };
    return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
