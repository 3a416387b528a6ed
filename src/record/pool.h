/* record/pool.h - chunks, out of one byte budget.
 *
 * Writers take a chunk, fill it without the pool, and give it back sealed. Whether chunks are anonymous memory or
 * pages of a spool file is decided here and nowhere else. When the budget is spent, the policy says what happens:
 * nothing more is given (stop), the oldest sealed chunk is emptied (keep newest), or it is left behind in the file
 * and its place in memory shows the file's next piece (stream).
 *
 * Threads: take and seal from any; the rest while no writer is inside the recorder.
 */
#ifndef MTP_RECORD_POOL_H
#define MTP_RECORD_POOL_H
#include <mtprof.h>
#include <pthread.h>
#include <stdatomic.h>
#include "record/format.h"
#include "record/spool_out.h"

typedef struct mtp__pool_config {
    uint64_t bytes;       /* budget, a multiple of chunk_bytes */
    uint32_t chunk_bytes; /* power of two, >= 4 KiB */
    mtp_when_full when_full;
    const char *path;    /* borrowed for init: the spool file, or NULL for memory */
    uint64_t file_limit; /* of a streamed file, 0: none */
} mtp__pool_config;

typedef struct mtp__pool {
    pthread_mutex_t lock; /* rank 5, the innermost */
    unsigned char *base;  /* owned mapping: slots * chunk_bytes */
    uint32_t slots, chunk_bytes;
    mtp_when_full when_full;
    uint32_t fresh;   /* slots handed out at least once since reset */
    uint32_t touched; /* slots below this one may hold old bytes */
    uint32_t *sealed; /* owned ring of slots, oldest first */
    uint32_t sealed_at, sealed_count;
    uint32_t pinned;            /* slot that a reader is in, or UINT32_MAX */
    uint64_t order;             /* of the chunk given last */
    uint64_t kept, overwritten; /* records: in sealed chunks; in chunks that made room */
    atomic_int refusing;        /* 1 + mtp_drop: nothing more is given, for this reason */
    mtp__spool_out file;        /* its fd is -1: memory only */
} mtp__pool;

mtp_status mtp__pool_init(mtp__pool *pool, const mtp__pool_config *config);
void mtp__pool_fini(mtp__pool *pool);   /* also after a failed init */
void mtp__pool_forked(mtp__pool *pool); /* in a forked child: the chunks are not there any more */
void mtp__pool_reset(mtp__pool *pool);  /* memory only: every chunk is free again */
void mtp__pool_finish(mtp__pool *pool); /* file: cut to size and marked complete; may be gone on with */

/* A zeroed chunk with its header filled, or NULL and why. */
mtp__chunk *mtp__pool_take(mtp__pool *pool, uint32_t stream, uint32_t cycle, uint64_t first, uint64_t ticks,
                           mtp_drop *why);
/* The chunk's owner writes no more into it. Control chunks stay: they are never made room of, except in a stream,
 * where nothing is lost by it. */
void mtp__pool_seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records);
/* The owner, a thread of this stream, is stuck: readers pass the chunk over, and nobody else ever has it. false: the owner
 * has sealed it already. */
bool mtp__pool_abandon(mtp__pool *pool, mtp__chunk *chunk, uint32_t stream);
void mtp__pool_unseal(mtp__pool *pool, mtp__chunk *chunk); /* of the control stream: its owner goes on */

/* Each chunk in use: stream by stream, each in the order of writing, the control stream last (so that it defines all
 * that the others used). words: those written so far. Stops at the first status other than MTP_OK. Writers may
 * be at work: a chunk that is emptied meanwhile is passed over. */
typedef mtp_status mtp__chunk_visitor(void *user, const mtp__chunk *chunk, const uint64_t *words,
                                      uint32_t count);
mtp_status mtp__pool_visit(mtp__pool *pool, mtp__chunk_visitor *visitor, void *user);
mtp_status mtp__pool_visit_control(mtp__pool *pool, mtp__chunk_visitor *visitor,
                                   void *user); /* that stream alone */

typedef struct mtp__chunk_place {
    uint64_t order, at; /* at: slot, or piece of a file */
    uint32_t stream;
} mtp__chunk_place;
int mtp__chunk_place_compare(const void *a, const void *b); /* the order of visits */

/* How far records go from the start of `words`: up to the first that is not there, or cannot be one. */
uint32_t mtp__chunk_written(const uint64_t *words, uint32_t capacity);
uint64_t mtp__chunk_checksum(const mtp__chunk *chunk, const uint64_t *words);
uint32_t mtp__chunk_capacity(uint32_t chunk_bytes); /* in words */

static inline uint64_t *mtp__chunk_words(mtp__chunk *chunk)
{
    return (uint64_t *)(void *)(chunk + 1);
}
#endif
