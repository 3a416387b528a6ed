/* record/epoch.h - epochs of definitions: how a ring describes itself for ever.
 *
 * The control stream is cut into epochs. Each begins with all that a reader needs (control.c), and the session's tables
 * begin empty with it, their ids counting on: so whatever is used in an epoch is defined in it, and control chunks of
 * an epoch may go when no chunk of the program was written to in it or in the one after. A new one begins when
 * the control stream holds more than its share of a ring, or when one of the tables is nearly full.
 *
 * Who begins it: a thread inside a record, before it has looked anything up, or when it has just taken a chunk. Others
 * may be looking things up meanwhile, without a lock, in the tables that were: so there are two sets, and an epoch begins
 * only when every thread was seen out of a record since the last one did. Hence the ids that a record holds are never
 * older than the epoch before the one that is on; mtp__control_release counts on that. Threads that do nothing but define
 * things are nearly always inside a record: where tables or ring are nearly full, whoever is to begin an epoch waits for the
 * others, for a while, and says so (`parked`), as they may be waiting for it.
 *
 * Chunks that lie open with threads that do not record would keep all epochs since: what they use is told again (renew.c).
 */
#ifndef MTP_RECORD_EPOCH_H
#define MTP_RECORD_EPOCH_H
#include "record/recorder.h"

/* Inside a record, without locks, before it has looked up any id: begins an epoch if that is due. A thread that defines
 * things goes to another chunk with each epoch, so that the ones before are not held up by it. */
void mtp__epoch_meet(mtp__recorder *r, mtp__thread *self);
static inline void mtp__epoch_check(mtp__recorder *r, mtp__thread *self)
{
    if (__builtin_expect(atomic_load_explicit(&r->pace, memory_order_relaxed) != self->pace, 0))
        mtp__epoch_meet(r, self);
}

/* The same when it has just taken a chunk. */
void mtp__epoch_new_chunk(mtp__recorder *r, mtp__thread *self, const mtp__chunk *chunk);

static inline void mtp__epoch_want(mtp__recorder *r)
{
    if ((atomic_load_explicit(&r->pace, memory_order_relaxed) & 1) == 0)
        atomic_fetch_or_explicit(&r->pace, 1, memory_order_relaxed);
}

/* renew.c. Under the locks of registry and control; chunks of threads with `held_still` set that are at rest. */
void mtp__renew_idle(mtp__recorder *r, const mtp__thread *self);
#endif
