/* Unit: record/registry's barrier on machines without membarrier: old kernels, sandboxes. On x86-64 another system call takes
 * its place; elsewhere each record has a fence (MTP__GATE_FENCE). */
#define _GNU_SOURCE
#include "tests/test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include "base/os.h"
#include "record/profile.h"
#include "record/registry.h"

#define THREADS 3

static atomic_bool done;

static void *record_always(void *arg)
{
    (void)arg;
    char text[32];
    for (uint32_t i = 0; !atomic_load_explicit(&done, memory_order_relaxed); i++) {
        MTP_SCOPE ("outer") {
            snprintf(text, sizeof text, "name %u", i % 5000);
            mtp_scope_end(mtp_scope_begin_text(text, strlen(text)));
        }
    }
    return NULL;
}

/* Starts, stops, epochs and reclaimed chunks, all of which need the barrier. */
static void record_in_rings(void *arg)
{
    (void)arg;
    mtp__fault_plan(1u << MTP__FAULT_BARRIER, 1, true);
    mtp_profile_config c = test_config(NULL);
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 1u << 20;
    c.chunk_bytes = 16u << 10;
    mtp_profile *prof;
    pthread_t thread[THREADS];
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    CHILD_CHECK(mtp__fault_stop() == 1);
#if defined(__x86_64__)
    CHILD_CHECK(!mtp__registry_is_fenced());
#else
    CHILD_CHECK(mtp__registry_is_fenced());
#endif
#if !TEST_TSAN
    CHILD_CHECK(((mtp__gate_read() & MTP__GATE_FENCE) != 0) == mtp__registry_is_fenced());
#endif
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&thread[i], NULL, record_always, NULL) == 0);
    for (int i = 0; i < test_scaled(50); i++) {
        const struct timespec nap = {0, 2000000};
        nanosleep(&nap, NULL);
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
        mtp_ledger l = MTP_LEDGER_INIT;
        CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
        CHILD_CHECK(l.emitted == l.kept + l.dropped && l.dropped_by[MTP_DROP_STUCK] == 0);
        CHILD_CHECK(mtp_profile_start(prof) == MTP_OK);
    }
    atomic_store(&done, true);
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_join(thread[i], NULL) == 0);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
}

/* In a child: the barrier is chosen once per process. */
static void without_membarrier_nothing_is_lost(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(record_in_rings, NULL, 60)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(without_membarrier_nothing_is_lost)};
    return cmocka_run_group_tests_name("barrier", tests, NULL, NULL);
}
