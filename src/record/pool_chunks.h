/* record/pool_chunks.h - locates chunks in the pool's memory: for pool.c and its readers (pool_read.c). */
#ifndef MTP_RECORD_POOL_CHUNKS_H
#define MTP_RECORD_POOL_CHUNKS_H
#include "record/pool.h"

#define MTP__NO_SLOT UINT32_MAX

static inline mtp__chunk *mtp__chunk_at(const mtp__pool *pool, uint32_t slot, uint32_t from)
{
    return (mtp__chunk *)(void *)(pool->base + (size_t)slot * pool->piece_bytes + from);
}

/* Under the lock: the chunk at byte `from` of a piece in use, complete or being created; NULL: none yet. */
static inline mtp__chunk *mtp__chunk_in(const mtp__pool *pool, uint32_t slot, uint32_t from, mtp__chunk *now)
{
    if (from >= pool->piece[slot].used)
        return NULL;
    mtp__chunk *chunk = mtp__chunk_at(pool, slot, from);
    now->state = __atomic_load_n(&chunk->state, __ATOMIC_ACQUIRE); /* pairs: set_span, state */
    return now->state != 0 ? chunk : NULL;
}

/* Does a chunk begin at byte `from`? The piece may have been reused and divided differently: then there may
 * be records at `from`. */
static inline bool mtp__chunk_is_there(const mtp__pool *pool, uint32_t slot, uint32_t from, mtp__chunk *now)
{
    uint32_t at = 0;
    while (at < from && mtp__chunk_in(pool, slot, at, now) != NULL)
        at += now->span;
    return at == from && mtp__chunk_in(pool, slot, at, now) != NULL;
}
#endif
