/* record/epoch.c - see epoch.h. */
#define _GNU_SOURCE
#include "record/epoch.h"
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "record/control.h"
#include "record/details.h"

#define TRIES_AT_ONCE 8u
#define WAITS_MAX 100 /* of one record, for others to finish theirs */
#define YIELDS 50     /* of them; the rest are naps */
#define NAP_NS 100000
#define WAITS_IN_ALL 20000u /* until an epoch begins */
#define NO_ROOM_MAX 100u    /* of them for lack of room */
#define TRIES_SKIPPED 63u   /* then one in 64, so that recording threads do not queue for the registry */

static void hold_still(void *user, mtp__thread *t)
{
    atomic_store_explicit(&t->held_still, user != NULL,
                          memory_order_release); /* pairs: recorder.c, hold_still */
}

/* Under the registry's lock. The names' lock ensures that no name is defined twice or missed; the tables'
 * locks, that no thread is about to define something of the old epoch. */
static void turn(mtp__recorder *r, const mtp__thread *self)
{
    const bool ring = r->pool.when_full == MTP_KEEP_NEWEST;
    mtp__tables *old = atomic_load_explicit(&r->tables, memory_order_relaxed);
    mtp__intern *names = mtp__names();
    if (ring) { /* threads do not change chunks until the registry's lock is released */
        mtp__registry_each(hold_still, r);
        mtp__registry_barrier();
    }
    mtp__details_empty_spare(r);
    pthread_mutex_lock(&names->lock);
    mtp__details_locks_of(old, pthread_mutex_lock);
    pthread_mutex_lock(&r->control.lock);
    mtp__control_keep_names(r);
    mtp__chunk *chunk = mtp__control_has_room_for_epoch(r) ? mtp__control_take_for_epoch(r) : NULL;
    if (chunk != NULL)
        mtp__details_turn(r);
    mtp__details_locks_of(old, pthread_mutex_unlock);
    bool whole = chunk != NULL && mtp__control_begin_epoch(r, chunk);
    pthread_mutex_unlock(&names->lock);
    if (whole && ring) {
        mtp__reemit_for_idle(r, self);
        mtp__control_release(r);
    }
    pthread_mutex_unlock(&r->control.lock);
    if (ring)
        mtp__registry_each(hold_still, NULL);
    if (chunk == NULL) { /* no room, which may last */
        atomic_fetch_add_explicit(&r->turn_tries, WAITS_IN_ALL / NO_ROOM_MAX, memory_order_relaxed);
        return;
    }
    r->retired = mtp__registry_retire();
    atomic_store_explicit(&r->turn_tries, 0, memory_order_relaxed);
    atomic_store_explicit(&r->pace, chunk->epoch << 1 | !whole, memory_order_relaxed);
}

/* Begins an epoch if possible. true: it is still due, because a thread is inside a record or no chunk is
 * free. */
static bool try_turn(mtp__recorder *r, mtp__thread *self)
{
    if (r->pool.when_full == MTP_STOP_WHEN_FULL && atomic_load(&r->pool.refusing) != 0)
        return false;
    mtp__registry_lock();
    bool due = r->open && /* else this thread was stuck and comes too late */
               (atomic_load_explicit(&r->pace, memory_order_relaxed) & 1) != 0;
    if (due && mtp__registry_rested_since(r->retired, self))
        turn(r, self);
    due = due && (atomic_load_explicit(&r->pace, memory_order_relaxed) & 1) != 0;
    mtp__registry_unlock();
    return due;
}

static bool is_time_to_try(mtp__recorder *r, uint32_t at_once)
{
    uint32_t tries = atomic_fetch_add_explicit(&r->turn_tries, 1, memory_order_relaxed);
    return tries < at_once || (tries & TRIES_SKIPPED) == 0;
}

/* Between two checks of the other threads. By system call, which is not a cancellation point: a handler that jumps out of
 * here would leave cancellation disabled. */
static void doze(int waits)
{
    const struct timespec nap = {0, NAP_NS};
    if (waits < YIELDS)
        sched_yield();
    else
        syscall(SYS_nanosleep, &nap, NULL);
}

/* If tables or ring are nearly full and names would be lost, waits for the threads inside a record. They may
 * be waiting here, too: a waiting thread marks itself parked, that is, it reads no table. A thread that stays
 * inside a record for long is not waited for by every record. */
static void turn_or_wait(mtp__recorder *r, mtp__thread *self)
{
    bool urgent = mtp__details_are_nearly_full(r) || mtp__pool_control_is_half(&r->pool);
    atomic_store(&self->parked, true); /* pairs: rested_since */
    for (int waits = 0; waits < WAITS_MAX && is_time_to_try(r, urgent ? WAITS_IN_ALL : TRIES_AT_ONCE);
         waits++) {
        if (!try_turn(r, self) || !urgent)
            break;
        doze(waits);
    }
    atomic_store(&self->parked, false);
    atomic_thread_fence(memory_order_seq_cst); /* before it reads tables again: as after `busy` (writer.h) */
}

void mtp__epoch_meet(mtp__recorder *r, mtp__thread *self)
{
    int its_errno = errno;
    if ((atomic_load_explicit(&r->pace, memory_order_relaxed) & 1) != 0)
        turn_or_wait(r, self);
    uint32_t now = atomic_load_explicit(&r->pace, memory_order_relaxed) & ~1u;
    if (self->pace != now && r->pool.when_full == MTP_KEEP_NEWEST)
        mtp__recorder_retire_chunk(r, self->writer);
    self->pace = now;
    errno = its_errno;
}

void mtp__epoch_new_chunk(mtp__recorder *r, mtp__thread *self, const mtp__chunk *chunk)
{
    self->pace = __atomic_load_n(&chunk->epoch, __ATOMIC_RELAXED) << 1; /* it may already be abandoned */
    if ((atomic_load_explicit(&r->pace, memory_order_relaxed) & 1) != 0 && !self->no_turn &&
        is_time_to_try(r, TRIES_AT_ONCE))
        try_turn(r, self);
}
