/* tests/unit/forked.h - for the tests of record/fork: threads that keep recording, and a child's own
 * profile. */
#ifndef TESTS_UNIT_FORKED_H
#define TESTS_UNIT_FORKED_H
#include "tests/test.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum {
    THREADS = 4
};

typedef struct busy_thread {
    atomic_bool *stop;
    uint64_t attempts;
    int kind;
} busy_thread;

static inline void *busy(void *arg)
{
    busy_thread *me = arg;
    for (uint64_t i = 0; !atomic_load_explicit(me->stop, memory_order_relaxed); i++) {
        char name[24];
        mtp_token token =
            me->kind % 2
                ? mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "n%d", (int)(i % 500)))
                : mtp_scope_begin(MTP_NAME("busy"));
        me->attempts += 1 + (token != 0);
        mtp_scope_end(token);
        if (i % 256 == 0)
            sched_yield();
    }
    return NULL;
}

typedef struct busy_crowd {
    pthread_t t[THREADS];
    busy_thread me[THREADS];
    atomic_bool stop;
} busy_crowd;

static inline void crowd_start(busy_crowd *c)
{
    atomic_store(&c->stop, false);
    for (int i = 0; i < THREADS; i++) {
        c->me[i] = (busy_thread){&c->stop, 0, i};
        pthread_create(&c->t[i], NULL, busy, &c->me[i]);
    }
}

static inline uint64_t crowd_stop(busy_crowd *c)
{
    uint64_t attempts = 0;
    atomic_store(&c->stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(c->t[i], NULL);
        attempts += c->me[i].attempts;
    }
    return attempts;
}

static mtp_profile *prof;

static inline void own_profile(void)
{
    mtp_profile_config c = test_config(NULL);
    mtp_profile *mine = NULL;
    c.record_shapes = true;
    CHILD_CHECK(mtp_profile_create(&c, &mine) == MTP_OK);
    CHILD_CHECK(mtp_profile_start(mine) == MTP_OK);
    for (int i = 0; i < 1000; i++) {
        char name[24];
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "own %d", i % 20)));
    }
    CHILD_CHECK(mtp_profile_stop(mine) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(mine, &l) == MTP_OK && l.emitted == 2001 && l.kept == 2001);
    seen s = {0};
    seen_profile(&s, mine);
    CHILD_CHECK(s.problem[0] == 0 && s.records == 2001);
    CHILD_CHECK(seen_control(&s, MTP__CONTROL_SESSION, 0)->word[0] == (uint64_t)getpid());
    const seen_blob *thread = seen_defined(&s, MTP__CONTROL_THREAD, s.record[0].stream);
    CHILD_CHECK(thread != NULL && thread->tid == (uint32_t)getpid());
    seen_free(&s);
    mtp_profile_destroy(mine);
}
#endif
