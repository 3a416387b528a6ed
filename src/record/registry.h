/* record/registry.h - the threads that have recorded, how they come, rest and go; and forks.
 *
 * A thread enters at its first record and leaves by a key destructor when it ends.
 */
#ifndef MTP_RECORD_REGISTRY_H
#define MTP_RECORD_REGISTRY_H
#include <mtprof.h>
#include "record/writer.h"

typedef struct mtp__thread {
    mtp__writer *writer; /* borrowed: the thread's own storage */
    struct mtp__thread *next, *prev;
    uint32_t stream; /* its number in the process, from 1 */
    int32_t tid;
    char name[16];          /* as last told to the control stream */
    uint64_t joined;        /* id of the recording that it is in, 0: none */
    uint64_t rested;        /* the registry\'s: when it was last seen at rest */
    uint64_t rest_cpu;      /* the registry's: its CPU time when it was asked to come to rest */
    uintptr_t signal_stack; /* its own: the last that was seen, and its size; 0: none (mtp__frame_is_gone) */
    size_t signal_stack_bytes;
    bool first;          /* it is the process's first thread */
    bool stuck;          /* did not come to rest when asked to; what it has in hand stays in its hand */
    uint64_t seen, told; /* id of the recording that counted it last; that has its name */
    uint64_t written_before, dropped_before[MTP_DROP_CAUSES]; /* the writer's counts when it joined */
    uint64_t quiet; /* lock: the last mtp__registry_retire() since which it was seen out of a record */
    atomic_bool held_still;          /* it must not change chunks before it has had the lock; pairs: refill */
    atomic_bool parked;              /* inside a record, but it looks at nothing; pairs: rested_since */
    uint32_t pace;                   /* its own: the recorder's when it last looked something up */
    bool renewed;                    /* lock: see renew.c */
    bool no_turn;                    /* its own: the record it writes uses an id in more than one chunk */
    struct mtp__thread_cache *cache; /* owned: signatures and stacks seen lately, or NULL */
} mtp__thread;

mtp_status mtp__registry_init(void);           /* once per process; cheap after that */
mtp_status mtp__registry_join(mtp__writer *w); /* writer is busy */

/* Runs fn for each thread, under the registry's lock. */
typedef void mtp__registry_visitor(void *user, mtp__thread *thread);
void mtp__registry_each(mtp__registry_visitor *fn, void *user);
void mtp__registry_lock(void); /* rank 2 */
void mtp__registry_unlock(void);

/* Waits until no thread is inside a record; the gate must be shut. Returns how many did not come to rest in time
 * (a handler jumped out of a record, a callback waits); those are marked stuck. On return the registry's
 * lock is held. The caller's own thread must not be inside a record. */
uint32_t mtp__registry_rest_and_lock(void);

/* For what threads look at without a lock while they are inside a record, and what has been taken out of their reach: when
 * may it be used for something else? All under the lock. `self` is inside a record, and does not look at it, nor does one that
 * is parked. */
uint64_t mtp__registry_retire(void);
bool mtp__registry_rested_since(uint64_t retired, const mtp__thread *self);
void mtp__registry_barrier(void); /* every thread passes a full barrier between call and return */

uint32_t mtp__registry_count(void);
/* In the child: only the calling thread is left. inside: it forked inside a record, which goes on. */
void mtp__registry_forked(bool inside);
#endif
