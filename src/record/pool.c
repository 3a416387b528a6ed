/* record/pool.c - see pool.h. Under the lock only slots are moved about; zeroing, page faults and checksums, which
 * take microseconds, are done outside, on a chunk that nobody else can see. */
#define _GNU_SOURCE
#include "record/pool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/testpoint.h"
#include "record/writer.h"

#define HUGE_FROM ((uint64_t)4 << 20) /* smaller budgets would be rounded up too much */
#define NO_SLOT UINT32_MAX
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static mtp__chunk *chunk_at(const mtp__pool *pool, uint32_t slot)
{
    return (mtp__chunk *)(void *)(pool->base + (size_t)slot * pool->chunk_bytes);
}

static uint32_t slot_of(const mtp__pool *pool, const mtp__chunk *chunk)
{
    return (uint32_t)(((uintptr_t)chunk - (uintptr_t)pool->base) / pool->chunk_bytes);
}

uint32_t mtp__chunk_capacity(uint32_t chunk_bytes)
{
    return (uint32_t)(chunk_bytes / 8 - MTP__CHUNK_HEADER_WORDS);
}

uint64_t mtp__chunk_checksum(const mtp__chunk *chunk, const uint64_t *words)
{
    mtp__chunk header = *chunk;
    header.checksum = 0;
    uint64_t sum = mtp__hash_words((const uint64_t *)(const void *)&header, MTP__CHUNK_HEADER_WORDS);
    sum = mtp__hash_mix(sum, mtp__hash_words(words, chunk->words));
    return sum != 0 ? sum : 1;
}

static mtp_status file_open(mtp__pool *pool, const mtp__pool_config *config)
{
    uint64_t limit = pool->slots;
    if (config->when_full == MTP_STREAM)
        limit = config->file_limit != 0 ? config->file_limit / pool->chunk_bytes - 1 : UINT64_MAX;
    return mtp__spool_out_open(&pool->file, config->path, pool->chunk_bytes, limit);
}

mtp_status mtp__pool_init(mtp__pool *pool, const mtp__pool_config *config)
{
    memset(pool, 0, sizeof *pool);
    pool->file.fd = -1;
    pool->pinned = NO_SLOT;
    pool->chunk_bytes = config->chunk_bytes;
    pool->slots = (uint32_t)(config->bytes / config->chunk_bytes);
    pool->when_full = config->when_full;
    pthread_mutex_init(&pool->lock, NULL);
    mtp_status status = MTP_OK;
    size_t bytes = (size_t)pool->slots * pool->chunk_bytes;
    pool->sealed = mtp__calloc(pool->slots, sizeof *pool->sealed);
    pool->base =
        pool->sealed != NULL ? mtp__map_memory(bytes, config->path == NULL && bytes >= HUGE_FROM) : NULL;
    if (pool->base == NULL) {
        status = MTP_FAIL(MTP_E_NOMEM,
                          "%zu bytes of address space for records: ask for a smaller buffer_bytes", bytes);
    } else {
        mtp__map_not_inherited(pool->base, bytes);
        if (config->path != NULL)
            status = file_open(pool, config);
    }
    if (status != MTP_OK)
        mtp__pool_fini(pool);
    return status;
}

void mtp__pool_fini(mtp__pool *pool)
{
    mtp__spool_out_close(&pool->file);
    mtp__unmap(pool->base, (size_t)pool->slots * pool->chunk_bytes);
    mtp__free(pool->sealed);
    pthread_mutex_destroy(&pool->lock);
    memset(pool, 0, sizeof *pool);
    pool->file.fd = -1;
}

void mtp__pool_forked(mtp__pool *pool)
{
    mtp__unmapped(pool->base);
    mtp__spool_out_close(&pool->file);
    pool->base = NULL;
    mtp__pool_reset(pool);
    pool->touched = pool->slots = 0;
    atomic_store(&pool->refusing, 1 + MTP_DROP_NOMEM);
}

void mtp__pool_reset(mtp__pool *pool)
{
    if (pool->fresh > pool->touched)
        pool->touched = pool->fresh;
    pool->fresh = pool->sealed_at = pool->sealed_count = 0;
    pool->kept = pool->overwritten = 0;
    atomic_store(&pool->refusing, 0);
}

void mtp__pool_finish(mtp__pool *pool)
{
    mtp__spool_out_finish(&pool->file);
}

/* The oldest sealed slot that no reader is in, out of the ring. */
static uint32_t oldest_sealed(mtp__pool *pool)
{
    for (uint32_t i = 0; i < pool->sealed_count && i < 2; i++) {
        uint32_t at = (pool->sealed_at + i) % pool->slots, slot = pool->sealed[at];
        if (slot == pool->pinned)
            continue;
        pool->sealed[at] = pool->sealed[pool->sealed_at];
        pool->sealed_at = (pool->sealed_at + 1) % pool->slots;
        pool->sealed_count--;
        return slot;
    }
    return NO_SLOT;
}

static uint32_t refuse(mtp__pool *pool, mtp_drop cause, mtp_drop *why, bool for_good)
{
    if (for_good)
        atomic_store_explicit(&pool->refusing, 1 + (int)cause, memory_order_relaxed);
    *why = cause;
    return NO_SLOT;
}

static uint32_t refuse_file(mtp__pool *pool, mtp_drop *why)
{
    pool->file.error = errno;
    return refuse(pool, MTP_DROP_DISK, why, true);
}

/* Under the lock: a slot to write into. *dirty: it holds old bytes. */
static uint32_t find_slot(mtp__pool *pool, bool *dirty, mtp_drop *why)
{
    bool streaming = pool->when_full == MTP_STREAM;
    if (streaming && pool->file.pieces >= pool->file.limit)
        return refuse(pool, MTP_DROP_DISK, why, true);
    if (pool->fresh < pool->slots) {
        uint32_t slot = pool->fresh;
        if (pool->file.fd >= 0 && !mtp__spool_out_next(&pool->file, chunk_at(pool, slot)))
            return refuse_file(pool, why);
        pool->fresh++;
        *dirty = slot < pool->touched;
        if (*dirty) /* what it holds is of before the reset */
            __atomic_store_n(&chunk_at(pool, slot)->order, 0, __ATOMIC_RELEASE); /* pairs: visit, order */
        return slot;
    }
    if (pool->when_full == MTP_STOP_WHEN_FULL)
        return refuse(pool, MTP_DROP_BUDGET, why, true);
    uint32_t slot = oldest_sealed(pool);
    if (slot == NO_SLOT) /* every chunk is in some thread's hands */
        return refuse(pool, MTP_DROP_BUDGET, why, false);
    if (streaming) {
        if (!mtp__spool_out_next(&pool->file, chunk_at(pool, slot)))
            return refuse_file(pool, why);
        *dirty = false;
        return slot;
    }
    mtp__chunk *victim = chunk_at(pool, slot);
    pool->kept -= victim->records;
    pool->overwritten += victim->records;
    __atomic_store_n(&victim->order, 0, __ATOMIC_RELEASE); /* pairs: visit, order */
    *dirty = true;
    return slot;
}

mtp__chunk *mtp__pool_take(mtp__pool *pool, uint32_t stream, uint32_t cycle, uint64_t first, uint64_t ticks,
                           mtp_drop *why)
{
    int refusing = atomic_load_explicit(&pool->refusing, memory_order_relaxed);
    if (refusing != 0) {
        *why = (mtp_drop)(refusing - 1);
        return NULL;
    }
    bool dirty = false;
    pthread_mutex_lock(&pool->lock);
    uint32_t slot = find_slot(pool, &dirty, why);
    uint64_t order = slot != NO_SLOT ? ++pool->order : 0;
    if (slot != NO_SLOT)
        mtp__spool_out_go_on(&pool->file);
    pthread_mutex_unlock(&pool->lock);
    if (slot == NO_SLOT)
        return NULL;
    mtp__chunk *chunk = chunk_at(pool, slot);
    if (dirty) {
        MTP__TESTPOINT(CHUNK_EVICTED);
        chunk->records = 0; /* order and stream a reader may look at: not by memset */
        chunk->words = 0;
        chunk->checksum = 0;
        memset(mtp__chunk_words(chunk), 0, pool->chunk_bytes - sizeof *chunk);
    } else if (pool->file.fd >= 0) {
        madvise(chunk, pool->chunk_bytes, MADV_POPULATE_WRITE); /* one call instead of sixteen faults */
    }
    chunk->magic = MTP__CHUNK_MAGIC;
    __atomic_store_n(&chunk->stream, stream, __ATOMIC_RELAXED);
    chunk->cycle = cycle;
    chunk->base_ticks = ticks;
    chunk->first = first;
    chunk->dropped = 0;
    chunk->depth = 0;
    chunk->epoch = 0;
    chunk->span = pool->chunk_bytes;
    chunk->head = 0;
    __atomic_store_n(&chunk->order, order, __ATOMIC_RELEASE); /* pairs: visit, order */
    MTP__TESTPOINT(CHUNK_TAKEN);
    return chunk;
}

void mtp__pool_seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records)
{
    chunk->records = records;
    __atomic_store_n(&chunk->words, words, __ATOMIC_RELEASE); /* pairs: visit_slot, words */
    if (pool->file.fd >= 0)
        __atomic_store_n(&chunk->checksum, mtp__chunk_checksum(chunk, mtp__chunk_words(chunk)),
                         __ATOMIC_RELEASE);
    MTP__TESTPOINT(CHUNK_SEALED);
    bool control = chunk->stream == 0;
    if (control && pool->when_full != MTP_STREAM)
        return;
    pthread_mutex_lock(&pool->lock);
    if (__atomic_load_n(&chunk->order, __ATOMIC_RELAXED) != 0) { /* 0: it was abandoned */
        pool->kept += control ? 0 : records;
        pool->sealed[(pool->sealed_at + pool->sealed_count++) % pool->slots] = slot_of(pool, chunk);
    }
    pthread_mutex_unlock(&pool->lock);
}

bool mtp__pool_abandon(mtp__pool *pool, mtp__chunk *chunk, uint32_t stream)
{
    pthread_mutex_lock(&pool->lock);
    bool in_hand = __atomic_load_n(&chunk->order, __ATOMIC_RELAXED) != 0 && chunk->stream == stream;
    for (uint32_t i = 0; i < pool->sealed_count && in_hand; i++)
        in_hand = pool->sealed[(pool->sealed_at + i) % pool->slots] != slot_of(pool, chunk);
    if (in_hand)
        __atomic_store_n(&chunk->order, 0, __ATOMIC_RELEASE); /* pairs: visit, order */
    pthread_mutex_unlock(&pool->lock);
    return in_hand;
}

void mtp__pool_unseal(mtp__pool *pool, mtp__chunk *chunk)
{
    if (pool->file.fd < 0)
        return;
    pthread_mutex_lock(&pool->lock);
    mtp__spool_out_go_on(&pool->file);
    pthread_mutex_unlock(&pool->lock);
    __atomic_store_n(&chunk->checksum, 0, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------------------------------- reading */

static mtp_status piece_unread(uint64_t at, ssize_t got)
{
    return MTP_FAIL(MTP_E_IO, "spool: chunk %llu cannot be read: %s", (unsigned long long)at,
                    got < 0 ? mtp__reason(errno) : "the file is shorter than it was");
}

/* *order 0: free. */
static mtp_status order_at(mtp__pool *pool, uint64_t at, uint64_t *order, uint32_t *stream)
{
    mtp__chunk header = {0};
    ssize_t got = sizeof header;
    if (pool->file.fd < 0) {
        mtp__chunk *chunk = chunk_at(pool, (uint32_t)at);
        header.order = __atomic_load_n(&chunk->order, __ATOMIC_ACQUIRE); /* pairs: take, order */
        header.stream = header.order != 0 ? __atomic_load_n(&chunk->stream, __ATOMIC_RELAXED) : 0;
    } else {
        got = mtp__spool_out_read(&pool->file, at, 0, &header, sizeof header);
    }
    *stream = header.stream;
    *order = header.order;
    return got == (ssize_t)sizeof header ? MTP_OK : piece_unread(at, got);
}

int mtp__chunk_place_compare(const void *a, const void *b)
{
    const mtp__chunk_place *x = a, *y = b;
    uint32_t sx = x->stream - 1, sy = y->stream - 1; /* stream 0 becomes the last */
    return sx != sy ? (sx > sy) - (sx < sy) : (x->order > y->order) - (x->order < y->order);
}

/* How far the words go; acquire makes the payload of each visible with its word 0. */
uint32_t mtp__chunk_written(const uint64_t *words, uint32_t capacity)
{
    uint32_t at = 0;
    while (at < capacity) {
        uint64_t word = __atomic_load_n(&words[at], __ATOMIC_ACQUIRE); /* pairs: commit, word 0 */
        if (word == 0)
            break;
        uint32_t length = MTP__WORD0_LENGTH(word);
        if (length == 0)
            length = at + 1 < capacity ? (uint32_t)(words[at + 1] >> 32) : 0;
        if (length == 0 || length > capacity - at)
            break;
        at += length;
    }
    return at;
}

static mtp_status visit_slot(mtp__pool *pool, const mtp__chunk_place *p, mtp__chunk_visitor *visitor,
                             void *user)
{
    uint32_t slot = (uint32_t)p->at;
    mtp__chunk *chunk = chunk_at(pool, slot);
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    bool there = __atomic_load_n(&chunk->order, __ATOMIC_ACQUIRE) == p->order;
    pool->pinned = there ? slot : NO_SLOT;
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(before);
    if (!there)
        return MTP_OK;
    const uint64_t *words = mtp__chunk_words(chunk);
    uint32_t count = __atomic_load_n(&chunk->words, __ATOMIC_ACQUIRE); /* sealed: no need to look */
    if (count == 0)
        count = mtp__chunk_written(words, mtp__chunk_capacity(pool->chunk_bytes));
    mtp_status status = visitor(user, chunk, words, count);
    before = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    pool->pinned = NO_SLOT;
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(before);
    return status;
}

/* A copy: in a streamed file the piece may be mapped or not, and in a ring it may change while it is read. */
static mtp_status visit_piece(mtp__pool *pool, const mtp__chunk_place *p, void *copy,
                              mtp__chunk_visitor *visitor, void *user)
{
    ssize_t got = mtp__spool_out_read(&pool->file, p->at, 0, copy, pool->chunk_bytes);
    if (got != (ssize_t)pool->chunk_bytes)
        return piece_unread(p->at, got);
    mtp__chunk *chunk = copy;
    uint64_t order;
    uint32_t stream;
    mtp_status status = order_at(pool, p->at, &order, &stream);
    if (status != MTP_OK || chunk->order != p->order || order != p->order)
        return status;
    const uint64_t *words = mtp__chunk_words(chunk);
    return visitor(user, chunk, words, mtp__chunk_written(words, mtp__chunk_capacity(pool->chunk_bytes)));
}

static mtp_status visit(mtp__pool *pool, bool control_only, mtp__chunk_visitor *visitor, void *user)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    uint64_t count = pool->file.fd >= 0 ? pool->file.pieces : pool->fresh;
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(before);
    if (count == 0)
        return MTP_OK;
    mtp__chunk_place *places = mtp__calloc(count, sizeof *places);
    void *copy = pool->file.fd >= 0 ? mtp__calloc(1, pool->chunk_bytes) : NULL;
    mtp_status status = MTP_OK;
    if (places == NULL || (pool->file.fd >= 0 && copy == NULL))
        status = MTP_FAIL(MTP_E_NOMEM, "a list of %llu chunks", (unsigned long long)count);
    uint64_t used = 0;
    for (uint64_t i = 0; status == MTP_OK && i < count; i++) {
        uint32_t stream;
        uint64_t order;
        status = order_at(pool, i, &order, &stream);
        if (order != 0 && (stream == 0 || !control_only))
            places[used++] = (mtp__chunk_place){order, i, stream};
    }
    if (status == MTP_OK)
        qsort(places, used, sizeof *places, mtp__chunk_place_compare);
    for (uint64_t i = 0; status == MTP_OK && i < used; i++)
        status = copy != NULL ? visit_piece(pool, &places[i], copy, visitor, user)
                              : visit_slot(pool, &places[i], visitor, user);
    mtp__free(copy);
    mtp__free(places);
    return status;
}

mtp_status mtp__pool_visit(mtp__pool *pool, mtp__chunk_visitor *visitor, void *user)
{
    return visit(pool, false, visitor, user);
}

mtp_status mtp__pool_visit_control(mtp__pool *pool, mtp__chunk_visitor *visitor, void *user)
{
    return visit(pool, true, visitor, user);
}
