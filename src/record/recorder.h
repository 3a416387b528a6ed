/* record/recorder.h - the recording of one profile: its chunks, its dictionary, its ledger.
 *
 * At most one recorder is open at a time: `mtp__recorder_current`. While the gate is open, threads inside a
 * record may use it; it is taken away only after all of them have come to rest. A thread that does not is
 * *stuck*, and is abandoned with its recorder, which is never freed (`leaked`), as the thread may resume at
 * any time. So a record uses the recorder that its writer has joined, never the current one; a stuck thread's
 * chunk is neither reused nor read.
 */
#ifndef MTP_RECORD_RECORDER_H
#define MTP_RECORD_RECORDER_H
#include <mtprof.h>
#include "base/intern.h"
#include "record/origin.h"
#include "record/pool.h"
#include "record/registry.h"

typedef struct mtp__recorder_config {
    mtp__pool_config pool;
    uint32_t flags; /* activities and MTP_WITH_* bits */
} mtp__recorder_config;

#define MTP__ANCHORS_KEPT 24u

/* Writes definitions; several threads, one at a time. */
typedef struct mtp__control {
    pthread_mutex_t lock;     /* rank 4 */
    mtp__chunk *chunk;        /* borrowed from the pool, or NULL */
    mtp__chunk *sealed;       /* borrowed: the last one of an earlier cycle, if it has room, or NULL */
    mtp__chunk *ledger_chunk; /* borrowed: has the last ledger, or NULL */
    uint64_t *ledger;         /* borrowed: the last ledger, in it */
    uint32_t used, records;
    uint64_t written;
    bool finishing; /* the last records of a cycle are being written */
    bool opening;   /* an epoch is beginning */
    bool begun;     /* the first session of the stream is written; names may come before it */
    bool permanent; /* the chunk belongs to all epochs */
    /* epochs, see epoch.h */
    uint64_t epoch_words, beginning; /* words written in the epoch; of them, those that it began with */
    uint32_t whole;                  /* the last epoch with a complete beginning: older ones may be evicted */
    mtp__chunk **held; /* owned; borrowed chunks that reemit.c may read, oldest first (a ring) */
    uint32_t held_count, held_room;
    uint32_t permanent_chunks, permanent_names; /* a ring: permanent chunks, and the names that they define */
    unsigned char *kept;                        /* owned: blobs that each epoch begins with (control.c) */
    size_t kept_bytes, kept_room;
    mtp__anchor anchor[MTP__ANCHORS_KEPT]; /* of the whole recording, sparser the older they are */
    uint32_t anchors;
    mtp__origin origin; /* of a recording with a file */
} mtp__control;

/* The session's interned definitions in one epoch. */
typedef struct mtp__tables {
    mtp__intern names, shapes, frames, stacks, texts;
    uint64_t key; /* unique in the process: identifies valid thread caches */
} mtp__tables;

typedef struct mtp__recorder {
    mtp__recorder_config config; /* pool.path: owned */
    mtp__pool pool;
    mtp__control control;
    mtp__tables set[2];            /* the session's: one in use, the other emptied for the next epoch */
    _Atomic(mtp__tables *) tables; /* borrowed: the set in use; pairs: details.c, acquire */
    atomic_uint pace;              /* epoch << 1 | a new one is due: what threads compare (epoch.h) */
    atomic_uint turn_tries;        /* since an epoch is due */
    atomic_uint reclaim_tries;     /* since the last success */
    uint64_t retired;              /* registry lock: when the spare set was retired (mtp__registry_retire) */
    uint64_t id;            /* unique in the process, new after each clear: identifies threads that joined */
    uint32_t cycle;         /* from 1 */
    uint32_t session;       /* MTP_SESSION of the recording; the last one if it is not open */
    double ticks_per_ns;    /* as in the SESSION record */
    uint32_t serial;        /* of the cycle in the process: tokens are derived from it */
    uint32_t names_defined; /* names lock: how many of the process's names the control stream has */
    atomic_bool open;       /* the gate is open for this one; changes under the registry's lock */
    bool leaked;            /* a thread is stuck in a record: never freed */
    bool inherited;         /* pool lock: at rest, and forked children inherit its chunks */
    uint64_t written, dropped[MTP_DROP_CAUSES]; /* registry lock: by threads that have settled */
    uint64_t refused_before[MTP_DROP_CAUSES];   /* registry lock: the process's counts when the cycle began */
    uint64_t threads;                           /* registry lock */
    atomic_uint_fast64_t lost_definitions;
    atomic_uint_fast64_t last_anchor;  /* when, in seconds of CLOCK_MONOTONIC_COARSE */
    struct mtp__recorder *next, *prev; /* registry lock: list of all recorders */
} mtp__recorder;

mtp_status mtp__recorder_create(const mtp__recorder_config *config, mtp__recorder **out);
void mtp__recorder_destroy(mtp__recorder *r); /* must not be open */

void mtp__recorder_clear(mtp__recorder *r);       /* discards all events; not open, and not in a file */
mtp_status mtp__recorder_start(mtp__recorder *r); /* begins a new cycle */
/* Ends the cycle. Returns when every thread has left its record. stuck: how many did not. */
mtp_status mtp__recorder_stop(mtp__recorder *r, uint32_t *stuck);
void mtp__recorder_toggle(mtp__recorder *r, bool enable, uint32_t activities);
void mtp__recorder_ledger(mtp__recorder *r, mtp_ledger *out);
mtp_status mtp__recorder_visit(mtp__recorder *r, mtp__chunk_visitor *visitor, void *user);
mtp_status mtp__recorder_visit_control(mtp__recorder *r, mtp__chunk_visitor *visitor, void *user);

/* Writes to the control stream. false: it did not fit, which is counted. */
bool mtp__recorder_blob(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                        size_t length);
bool mtp__recorder_words(mtp__recorder *r, mtp__control_kind kind, const uint64_t *words, uint32_t count);
void mtp__recorder_anchor(mtp__recorder *r);

uint64_t mtp__recorder_new_id(void); /* unique in the process */

/* The recorder of new records, or NULL. Inside a record, use the writer's own: this one may have changed
 * since the gate was read. */
/* What is emitted to another tool (emit/emit.h) has changed: mtp_recording() says so. */
void mtp__recorder_emit(uint32_t emitted);
mtp__recorder *mtp__recorder_current(void);

/* Inside a record: seals the chunk, so that the next record takes another. */
void mtp__recorder_retire_chunk(mtp__recorder *r, mtp__writer *w);
/* Under the registry's lock: seals the chunk of a writer that is at rest and has one. */
void mtp__recorder_reclaim_chunk(mtp__recorder *r, mtp__writer *w);

/* From the registry. */
void mtp__recorder_thread_ends(mtp__thread *t); /* under its lock */
void mtp__recorder_fork_init(void);             /* fork.c: installs the fork handlers, once */
void mtp__profile_exit_init(void);              /* active.c: a spool is finished at exit */

/* Around fork, under the registry's lock: takes or releases all other locks; in the child, drops the
 * chunks. */
void mtp__recorder_fork_locks(bool take);
mtp__recorder *mtp__recorder_forked(bool inside); /* the one that was open, or NULL */

/* A forked child continues with records of its own, in the file at `path`. */
mtp_status mtp__recorder_revive(mtp__recorder *r, const char *path);

/* Names of the process, for all sessions. */
mtp__intern *mtp__names(void);
#endif
