/* record/epoch.h - epochs of definitions: how a ring describes itself however long it runs.
 *
 * The control stream is divided into epochs. Each begins with everything that a reader needs (control.c), and
 * the session's tables start empty with it, while ids keep counting. So every id used in an epoch is defined
 * in it, and the control chunks of an epoch can be evicted when no data chunk was written in it or in the
 * next one. A new epoch begins when the control stream exceeds its share of a ring, or when one of the tables
 * is nearly full.
 *
 * A thread begins it inside a record, before it has looked up any id, or when it has just taken a chunk.
 * Other threads may be reading the old tables meanwhile, without a lock: so there are two sets, and an epoch
 * begins only when every thread has been seen outside a record since the previous one began. Hence the ids
 * that a record holds are at most one epoch old; mtp__control_release relies on that. Threads that only
 * define things are nearly always inside a record: when tables or ring are nearly full, the thread that is
 * about to begin an epoch waits for the others, for a while, and marks itself `parked`, as they may be
 * waiting for it.
 *
 * Open chunks of idle threads would keep all epochs since: the definitions that they use are re-emitted
 * (reemit.c).
 */
#ifndef MTP_RECORD_EPOCH_H
#define MTP_RECORD_EPOCH_H
#include "record/recorder.h"

/* Inside a record, without locks, before it has looked up any id: begins an epoch if one is due. A thread
 * that defines things changes chunks with each epoch, so that it does not keep older epochs alive. */
void mtp__epoch_meet(mtp__recorder *r, mtp__thread *self);
static inline void mtp__epoch_check(mtp__recorder *r, mtp__thread *self)
{
    if (__builtin_expect(atomic_load_explicit(&r->pace, memory_order_relaxed) != self->pace, 0))
        mtp__epoch_meet(r, self);
}

/* The same, when the thread has just taken a chunk. */
void mtp__epoch_new_chunk(mtp__recorder *r, mtp__thread *self, const mtp__chunk *chunk);

static inline void mtp__epoch_want(mtp__recorder *r)
{
    if ((atomic_load_explicit(&r->pace, memory_order_relaxed) & 1) == 0)
        atomic_fetch_or_explicit(&r->pace, 1, memory_order_relaxed);
}

/* reemit.c. Under the locks of registry and control; for the chunks of threads that are at rest and have
 * `held_still` set. */
void mtp__reemit_for_idle(mtp__recorder *r, const mtp__thread *self);
#endif
