/* record/registry.h - the threads that have recorded: how they join, rest and leave; and forks.
 *
 * A thread enters at its first record and leaves by a key destructor when it ends, in the last round but one.
 */
#ifndef MTP_RECORD_REGISTRY_H
#define MTP_RECORD_REGISTRY_H
#include <mtprof.h>
#include "record/thread_names.h"
#include "record/writer.h"

typedef struct mtp__thread {
    mtp__writer *writer; /* borrowed: the thread's own storage */
    struct mtp__thread *next, *prev;
    uint32_t stream; /* its number in the process, from 1 */
    int32_t tid;
    char name[MTP__THREAD_NAME_ROOM]; /* as last written to the control stream */
    uint64_t joined;                  /* id of the recording that it has joined; 0: none */
    uint64_t rested;                  /* the registry's: when it was last seen at rest */
    uint64_t rest_cpu;                /* the registry's: its CPU time when it was asked to come to rest */
    uintptr_t signal_stack; /* its own: the last one seen, and its size; 0: none (mtp__frame_is_gone) */
    size_t signal_stack_bytes;
    uint32_t rounds;         /* its own: of key destructors that it has been in */
    bool first;              /* the process's first thread */
    bool stuck;              /* did not come to rest when asked to; it keeps its chunk */
    uint64_t counted, named; /* id of the recording that counted it last; of the one that has its name */
    uint64_t written_before, dropped_before[MTP_DROP_CAUSES]; /* the writer's counts when it joined */
    uint64_t quiet; /* lock: the last mtp__registry_retire() since which it was seen outside a record */
    atomic_bool held_still; /* it must take the lock before it changes chunks; pairs: epoch.c, recorder.c */
    atomic_bool parked;     /* inside a record, but reads no tables; pairs: rested_since */
    uint32_t pace;          /* its own: the recorder's `pace` when it last looked something up */
    bool reemitted;         /* lock: see reemit.c */
    bool no_turn;           /* its own: the current record uses an id in more than one chunk */
    bool walking;           /* its own: cancellation is off while its stack is walked (stack.c) */
    int cancel;             /* its own: the state of cancellation before that */
    bool in_stack;          /* its own: the current record reads the program's stack */
    struct mtp__thread_cache *cache; /* owned: recent signatures and stacks, or NULL */
} mtp__thread;

mtp_status mtp__registry_init(void);           /* once per process; cheap after that */
mtp_status mtp__registry_join(mtp__writer *w); /* writer is busy */

/* Runs fn for each thread, under the registry's lock. */
typedef void mtp__registry_visitor(void *user, mtp__thread *thread);
void mtp__registry_each(mtp__registry_visitor *fn, void *user);
void mtp__registry_lock(void); /* rank 2 */
void mtp__registry_unlock(void);

/* Waits until no thread is inside a record; the gate must be closed. Returns how many did not come to rest in
 * time (a handler jumped out of a record, a callback waits); these are marked stuck. On return the registry's
 * lock is held. The calling thread must not be inside a record. */
uint32_t mtp__registry_rest_and_lock(void);

/* Deferred reuse of data that threads read without a lock inside a record: retire() after it was unpublished;
 * it may be reused once rested_since() is true. All under the lock. `self` is inside a record but does not
 * read the data, nor do parked threads. */
uint64_t mtp__registry_retire(void);
bool mtp__registry_rested_since(uint64_t retired, const mtp__thread *self);
/* Every thread executes a full barrier between call and return; or else all records have one after they set `busy`
 * (is_fenced: the gate has MTP__GATE_FENCE). */
void mtp__registry_barrier(void);
bool mtp__registry_is_fenced(void);

uint32_t mtp__registry_count(void);
/* In the child: only the calling thread is left. inside: it forked inside a record, which continues. */
void mtp__registry_forked(bool inside);
#endif
