/* record/reclaim.c - see reclaim.h. A thread outside a record still owns its writer: it may begin a record at
 * any time, without a lock. While the gate has MTP__GATE_TAKING set, it waits for the registry's lock first;
 * threads already inside a record are left alone. */
#include "record/reclaim.h"
#include <sched.h>
#include "record/epoch.h"

#define TRIES_AT_ONCE 4u
#define TRIES_SKIPPED 15u /* then one in 16: threads that hold pieces may be inside a record for long */
#define LOOKS 3           /* passes over the threads, while some are inside a record */

typedef struct reclaiming {
    mtp__recorder *r;
    const mtp__thread *self;
    uint64_t since;
    uint32_t got, busy;
} reclaiming;

static void look_at(void *user, mtp__thread *t)
{
    reclaiming *x = user;
    mtp__writer *w = t->writer;
    if (t == x->self || t->joined != x->r->id || t->stuck)
        return;
    if (atomic_load_explicit(&w->busy, memory_order_acquire) != 0) { /* pairs: leave */
        x->busy++;
        return;
    }
    if (w->chunk == NULL || !mtp__pool_is_overdue(&x->r->pool, w->chunk, x->since))
        return;
    mtp__recorder_reclaim_chunk(x->r, w);
    x->got++;
}

/* Under the registry's lock. */
static uint32_t take_overdue(mtp__recorder *r, const mtp__thread *self)
{
    reclaiming x = {.r = r, .self = self};
    atomic_fetch_or(&mtp__gate.flags, MTP__GATE_TAKING);
    mtp__registry_barrier();
    for (int look = 0; look < LOOKS && (x.since = mtp__pool_overdue(&r->pool, look > 0)) != 0; look++) {
        x.busy = 0;
        mtp__registry_each(look_at, &x);
        if (x.busy > 0)
            sched_yield();
    }
    atomic_fetch_and(&mtp__gate.flags, ~MTP__GATE_TAKING); /* pairs: gate_read */
    return x.got;
}

bool mtp__reclaim(mtp__recorder *r, const mtp__thread *self)
{
    uint32_t tries = atomic_fetch_add_explicit(&r->reclaim_tries, 1, memory_order_relaxed), got = 0;
    if (tries >= TRIES_AT_ONCE && (tries & TRIES_SKIPPED) != 0)
        return false;
    mtp__registry_lock();
    if (r->open && self->joined == r->id) /* else this thread was stuck and comes too late */
        got = take_overdue(r, self);
    mtp__registry_unlock();
    if (got > 0)
        atomic_store_explicit(&r->reclaim_tries, 0, memory_order_relaxed);
    return got > 0;
}
