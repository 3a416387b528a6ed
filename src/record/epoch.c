/* record/epoch.c - see epoch.h. */
#include "record/epoch.h"
#include "record/control.h"
#include "record/details.h"

#define TRIES_AT_ONCE 8u
#define TRIES_SKIPPED 63u /* then one of 64, so that those who record do not queue for the registry */

static void hold_still(void *user, mtp__thread *t)
{
    atomic_store_explicit(&t->held_still, user != NULL, memory_order_relaxed);
}

/* Under the registry's lock. The names' lock: none is told twice, and none is missed. The tables': nobody is about to
 * define something of the old epoch. */
static bool turn(mtp__recorder *r, mtp__thread *self)
{
    const bool ring = r->pool.when_full == MTP_KEEP_NEWEST;
    mtp__tables *old = atomic_load_explicit(&r->tables, memory_order_relaxed);
    mtp__intern *names = mtp__names();
    if (ring) { /* their chunks stay what they are until the registry's lock is free */
        mtp__registry_each(hold_still, r);
        mtp__registry_barrier();
    }
    mtp__details_empty_spare(r);
    pthread_mutex_lock(&names->lock);
    mtp__details_locks_of(old, pthread_mutex_lock);
    pthread_mutex_lock(&r->control.lock);
    mtp__chunk *chunk = mtp__control_take_for_epoch(r);
    if (chunk != NULL)
        mtp__details_turn(r);
    mtp__details_locks_of(old, pthread_mutex_unlock);
    bool whole = chunk != NULL && mtp__control_begin_epoch(r, chunk);
    pthread_mutex_unlock(&names->lock);
    if (whole && ring) {
        mtp__renew_idle(r, self);
        mtp__control_release(r);
    }
    pthread_mutex_unlock(&r->control.lock);
    if (ring)
        mtp__registry_each(hold_still, NULL);
    if (chunk != NULL)
        r->retired = mtp__registry_retire();
    if (whole)
        atomic_store_explicit(&r->turn_wanted, false, memory_order_relaxed);
    atomic_store_explicit(&r->turn_tries, 0, memory_order_relaxed);
    return chunk != NULL;
}

bool mtp__epoch_turn(mtp__recorder *r, mtp__thread *self)
{
    uint32_t tries = atomic_fetch_add_explicit(&r->turn_tries, 1, memory_order_relaxed);
    if (tries >= TRIES_AT_ONCE && (tries & TRIES_SKIPPED) != 0)
        return false;
    if (r->pool.when_full == MTP_STOP_WHEN_FULL && atomic_load(&r->pool.refusing) != 0)
        return false;
    mtp__registry_lock();
    bool turned = atomic_load_explicit(&r->turn_wanted, memory_order_relaxed) &&
                  mtp__registry_rested_since(r->retired, self) && turn(r, self);
    mtp__registry_unlock();
    return turned;
}
