/* record/pool.c - see pool.h. Under the lock, only slots and spans are assigned; zeroing, page faults and
 * checksums, which take microseconds, are done outside it, on a chunk that no other thread can see: a piece's
 * tail is offered only when its first chunk is complete. The taker of a piece zeroes all of it. */
#define _GNU_SOURCE
#include "record/pool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"
#include "base/sigbus.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/testpoint.h"
#include "record/pool_chunks.h"
#include "record/writer.h"

#define HUGE_FROM ((uint64_t)4 << 20) /* smaller budgets would be rounded up too much */
#define TAIL_LEAST 256u               /* shorter tails are left unused */
#define TAILS_TRIED 8                 /* before a new piece is taken */
#define RECORD_WORDS 16u              /* more than the longest data record */
#define RING_LEAST 4u                 /* pieces that a ring in a file must have on the disk */
#define WAIT_FULL 64                  /* takes, before a full disk is tried again */
#define HELD_SHARE 4                  /* 1/4 of a ring may be held by idle threads */
#define PIECES_AT_ONCE 8              /* reclaimed when none can be evicted */
#define MAP_SHARE 8                   /* a stream takes at most 1/8 of a process's mappings */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint32_t slot_of(const mtp__pool *pool, const mtp__chunk *chunk, uint32_t *from)
{
    size_t at = (size_t)((const unsigned char *)chunk - pool->base);
    *from = (uint32_t)(at % pool->piece_bytes);
    return (uint32_t)(at / pool->piece_bytes);
}

static mtp_status file_open(mtp__pool *pool, const mtp__pool_config *config)
{
    uint64_t limit = pool->slots;
    if (config->when_full == MTP_STREAM)
        limit = config->file_limit != 0 ? config->file_limit / pool->piece_bytes - 1 : UINT64_MAX;
    return mtp__spool_out_open(&pool->file, config->path, pool->piece_bytes,
                               config->when_full == MTP_KEEP_NEWEST ? RING_LEAST : 0, limit);
}

/* In a stream each slot is a separate mapping, and a process has a limited number of them: most are left to
 * the program, for its threads' stacks. */
static uint32_t slots_max(const mtp__pool_config *config)
{
    if (config->when_full != MTP_STREAM)
        return UINT32_MAX;
    unsigned long most = mtp__mappings_max() / MAP_SHARE;
    return most < RING_LEAST ? RING_LEAST : most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

mtp_status mtp__pool_init(mtp__pool *pool, const mtp__pool_config *config)
{
    memset(pool, 0, sizeof *pool);
    pool->file.fd = -1;
    pool->pinned = MTP__NO_SLOT;
    pool->piece_bytes = config->piece_bytes;
    uint32_t most = slots_max(config);
    uint64_t slots = config->bytes / config->piece_bytes;
    pool->slots = slots < most ? (uint32_t)slots : most;
    pool->reach = pool->slots;
    pool->when_full = config->when_full;
    pool->shared_oldest = UINT64_MAX;
    atomic_store_explicit(&pool->epoch, 1, memory_order_relaxed);
    pthread_mutex_init(&pool->lock, NULL);
    mtp_status status = MTP_OK;
    size_t bytes = (size_t)pool->slots * pool->piece_bytes;
    pool->piece =
        mtp__map_memory(pool->slots * sizeof *pool->piece, false); /* little of it may ever be used */
    pool->base =
        pool->piece != NULL ? mtp__map_memory(bytes, config->path == NULL && bytes >= HUGE_FROM) : NULL;
    if (pool->base == NULL) {
        status = MTP_FAIL(MTP_E_NOMEM, "%zu bytes of address space for records: use a smaller buffer_bytes",
                          bytes);
    } else {
        mtp__map_not_inherited(pool->base, bytes);
        if (config->path != NULL)
            status = file_open(pool, config);
        if (config->path != NULL && status == MTP_OK)
            mtp__sigbus_add(pool->base, bytes, &pool->file.cut);
    }
    if (status != MTP_OK)
        mtp__pool_fini(pool);
    return status;
}

void mtp__pool_fini(mtp__pool *pool)
{
    mtp__sigbus_remove(pool->base);
    mtp__spool_out_close(&pool->file);
    mtp__unmap(pool->base, (size_t)pool->slots * pool->piece_bytes);
    mtp__unmap(pool->piece, pool->slots * sizeof *pool->piece);
    pthread_mutex_destroy(&pool->lock);
    memset(pool, 0, sizeof *pool);
    pool->file.fd = -1;
}

void mtp__pool_forked(mtp__pool *pool)
{
    mtp__sigbus_forked();
    mtp__sigbus_remove(pool->base);
    mtp__unmapped(pool->base);
    mtp__spool_out_forked(&pool->file);
    pool->base = NULL;
    mtp__pool_reset(pool);
    mtp__unmap(pool->piece, pool->slots * sizeof *pool->piece);
    pool->piece = NULL;
    pool->touched = pool->slots = 0;
    atomic_store(&pool->refusing, 1 + MTP_DROP_NOMEM);
}

void mtp__pool_reset(mtp__pool *pool)
{
    if (pool->fresh > pool->touched)
        pool->touched = pool->fresh;
    if (pool->fresh > 0)
        memset(pool->piece, 0, pool->fresh * sizeof *pool->piece);
    memset(pool->list, 0, sizeof pool->list);
    pool->fresh = pool->held = 0;
    pool->controls = 0;
    pool->permanent = 0;
    pool->kept = pool->overwritten = 0;
    pool->shared_oldest = UINT64_MAX;
    atomic_store(&pool->held_up, false);
    atomic_store(&pool->refusing, 0);
}

void mtp__pool_finish(mtp__pool *pool)
{
    mtp__spool_out_finish(&pool->file);
}

/* --------------------------------------------------------------------------------------------- lists */

static mtp__piece_link *link_of(const mtp__pool *pool, mtp__piece_list list, uint32_t slot)
{
    static const uint8_t link[] = {
        [MTP__PIECES_IDLE] = 0,         [MTP__PIECES_FREE] = 0,   [MTP__PIECES_DATA_TAIL] = 1,
        [MTP__PIECES_CONTROL_TAIL] = 1, [MTP__PIECES_SHARED] = 2, [MTP__PIECES_HELD] = 3};
    return &pool->piece[slot].link[link[list]];
}

static void list_add(mtp__pool *pool, mtp__piece_list list, uint32_t slot)
{
    mtp__piece_link *link = link_of(pool, list, slot);
    uint32_t last = pool->list[list].last;
    if (link->in)
        return;
    *link = (mtp__piece_link){.prev = last, .in = true};
    *(last != 0 ? &link_of(pool, list, last - 1)->next : &pool->list[list].first) = slot + 1;
    pool->list[list].last = slot + 1;
}

static void list_remove(mtp__pool *pool, mtp__piece_list list, uint32_t slot)
{
    mtp__piece_link *link = link_of(pool, list, slot);
    if (!link->in)
        return;
    *(link->prev != 0 ? &link_of(pool, list, link->prev - 1)->next : &pool->list[list].first) = link->next;
    *(link->next != 0 ? &link_of(pool, list, link->next - 1)->prev : &pool->list[list].last) = link->prev;
    *link = (mtp__piece_link){0};
}

/* Longest at rest first. Most pieces are appended; one whose chunks were sealed late is inserted where it
 * belongs. */
static void idle_add(mtp__pool *pool, uint32_t slot)
{
    mtp__piece_link *link = link_of(pool, MTP__PIECES_IDLE, slot);
    uint32_t prev = pool->list[MTP__PIECES_IDLE].last;
    while (prev != 0 && pool->piece[prev - 1].newest > pool->piece[slot].newest)
        prev = link_of(pool, MTP__PIECES_IDLE, prev - 1)->prev;
    uint32_t *from =
        prev != 0 ? &link_of(pool, MTP__PIECES_IDLE, prev - 1)->next : &pool->list[MTP__PIECES_IDLE].first;
    *link = (mtp__piece_link){.prev = prev, .next = *from, .in = true};
    *(*from != 0 ? &link_of(pool, MTP__PIECES_IDLE, *from - 1)->prev : &pool->list[MTP__PIECES_IDLE].last) =
        slot + 1;
    *from = slot + 1;
}

static mtp__piece_list tails_of(bool control)
{
    return control ? MTP__PIECES_CONTROL_TAIL : MTP__PIECES_DATA_TAIL;
}

/* Among the last few tails, the newest with at least `least` bytes, or MTP__NO_SLOT. */
static uint32_t find_tail(mtp__pool *pool, bool control, uint32_t least)
{
    mtp__piece_list tails = tails_of(control);
    uint32_t at = pool->list[tails].last;
    for (int i = 0; at != 0 && i < TAILS_TRIED; i++, at = link_of(pool, tails, at - 1)->prev)
        if (pool->piece_bytes - pool->piece[at - 1].used >= least)
            return at - 1;
    return MTP__NO_SLOT;
}

/* --------------------------------------------------------------------------------------- a new piece */

/* The piece is no longer in use, and its bookkeeping is cleared. */
static void piece_drop(mtp__pool *pool, uint32_t slot)
{
    mtp__piece *p = &pool->piece[slot];
    list_remove(pool, MTP__PIECES_IDLE, slot);
    list_remove(pool, tails_of(p->control), slot);
    list_remove(pool, MTP__PIECES_SHARED, slot);
    list_remove(pool, MTP__PIECES_HELD, slot);
    pool->controls -= p->control;
    *p = (mtp__piece){0};
}

static void piece_hide(mtp__pool *pool, uint32_t slot)
{
    __atomic_store_n(&mtp__chunk_at(pool, slot, 0)->state, 0, __ATOMIC_RELEASE); /* pairs: readers, state */
    __atomic_thread_fence(__ATOMIC_RELEASE); /* before anything in it changes; pairs: mtp__chunk_read */
}

/* The piece that has been at rest longest and is not being read. */
static uint32_t oldest_idle(mtp__pool *pool)
{
    uint32_t at = pool->list[MTP__PIECES_IDLE].first;
    if (at != 0 && at - 1 == pool->pinned)
        at = link_of(pool, MTP__PIECES_IDLE, at - 1)->next;
    return at != 0 ? at - 1 : MTP__NO_SLOT;
}

typedef struct refusal {
    mtp_drop cause;
    bool for_good;
} refusal;

static uint32_t refuse(refusal *no, mtp_drop cause, bool for_good)
{
    *no = (refusal){cause, for_good};
    return MTP__NO_SLOT;
}

/* A slot that was not used yet, or MTP__NO_SLOT: there are none, or the disk is full. */
static uint32_t fresh_slot(mtp__pool *pool, bool *dirty)
{
    uint32_t slot = pool->fresh;
    if (slot >= pool->reach)
        return MTP__NO_SLOT;
    if (pool->file.fd >= 0 && !mtp__spool_out_next(&pool->file, mtp__chunk_at(pool, slot, 0))) {
        pool->file.error = errno;
        pool->reach = slot;
        pool->waited = 0;
        return MTP__NO_SLOT;
    }
    pool->fresh++;
    *dirty = slot < pool->touched;
    if (*dirty) /* its contents are from before the reset */
        piece_hide(pool, slot);
    return slot;
}

/* Under the lock: from now on the chunk only occupies its place in the piece. */
static void chunk_hide(mtp__chunk *chunk, mtp__chunk now)
{
    now.head = 0;
    __atomic_store_n(&chunk->state, now.state, __ATOMIC_RELEASE); /* pairs: readers, state */
    __atomic_thread_fence(__ATOMIC_RELEASE);                      /* as in piece_hide */
    __atomic_store_n(&chunk->epoch, UINT32_MAX, __ATOMIC_RELAXED);
}

static void overwrite(mtp__pool *pool, uint64_t records)
{
    pool->kept -= records;
    pool->overwritten += records;
}

/* Evicts the chunks of a piece that were returned before `sealed` or are of epochs before `epoch`. */
static void drop_those(mtp__pool *pool, uint32_t slot, uint64_t sealed, uint32_t epoch)
{
    mtp__piece *p = &pool->piece[slot];
    mtp__chunk now;
    mtp__chunk *chunk;
    p->oldest = UINT64_MAX;
    p->epoch = UINT32_MAX;
    for (uint32_t from = 0; (chunk = mtp__chunk_in(pool, slot, from, &now)) != NULL; from += now.span) {
        if (now.head == 0 || chunk->sealed == 0)
            continue;
        if (chunk->sealed < sealed || chunk->epoch < epoch) {
            overwrite(pool, chunk->records);
            p->records -= chunk->records;
            chunk_hide(chunk, now);
        } else {
            p->oldest = chunk->sealed < p->oldest ? chunk->sealed : p->oldest;
            p->epoch = chunk->epoch < p->epoch ? chunk->epoch : p->epoch;
        }
    }
}

/* Evicting a piece also evicts all chunks returned before its last one, even in pieces that remain because of
 * other chunks: so each thread keeps its newest records, without gaps. */
static void forget_older(mtp__pool *pool, uint64_t sealed)
{
    if (pool->shared_oldest >= sealed)
        return;
    pool->shared_oldest = UINT64_MAX;
    for (uint32_t at = pool->list[MTP__PIECES_SHARED].first; at != 0;
         at = link_of(pool, MTP__PIECES_SHARED, at - 1)->next) {
        const mtp__piece *p = &pool->piece[at - 1];
        if (p->oldest < sealed && at - 1 != pool->pinned)
            drop_those(pool, at - 1, sealed, 0);
        pool->shared_oldest = p->oldest < pool->shared_oldest ? p->oldest : pool->shared_oldest;
    }
}

static uint32_t evict(mtp__pool *pool, uint32_t slot)
{
    list_remove(pool, MTP__PIECES_SHARED, slot);
    forget_older(pool, pool->piece[slot].newest); /* first: a kill in between must leave no gap */
    overwrite(pool, pool->piece[slot].records);
    piece_hide(pool, slot);
    piece_drop(pool, slot);
    return slot;
}

/* Under the lock: a slot to write into. *dirty: it holds old bytes. */
static uint32_t find_slot(mtp__pool *pool, bool *dirty, refusal *no)
{
    bool streaming = pool->when_full == MTP_STREAM;
    if (pool->file.fd >= 0 && mtp__spool_out_cut(&pool->file))
        return refuse(no, MTP_DROP_DISK, true);
    if (streaming && pool->file.pieces >= pool->file.limit)
        return refuse(no, MTP_DROP_DISK, true);
    uint32_t slot = pool->list[MTP__PIECES_FREE].first;
    if (slot != 0) {
        list_remove(pool, MTP__PIECES_FREE, --slot);
        *dirty = true;
        return slot;
    }
    slot = fresh_slot(pool, dirty);
    if (slot != MTP__NO_SLOT)
        return slot;
    bool disk_full = pool->reach < pool->slots;
    if (disk_full && pool->when_full != MTP_KEEP_NEWEST)
        return refuse(no, MTP_DROP_DISK, true);
    if (pool->when_full == MTP_STOP_WHEN_FULL)
        return refuse(no, MTP_DROP_BUDGET, true);
    if (disk_full && ++pool->waited >= WAIT_FULL && pool->waited >= pool->reach)
        pool->reach = pool->slots; /* the disk may have room again */
    slot = oldest_idle(pool);
    if (slot == MTP__NO_SLOT) /* every piece has an open chunk */
        return refuse(no, disk_full && pool->fresh < RING_LEAST ? MTP_DROP_DISK : MTP_DROP_BUDGET, false);
    *dirty = !streaming;
    if (!streaming)
        return evict(pool, slot);
    if (!mtp__spool_out_next(&pool->file, mtp__chunk_at(pool, slot, 0))) {
        pool->file.error = errno;
        return refuse(no, MTP_DROP_DISK, true);
    }
    piece_drop(pool, slot);
    return slot;
}

/* ------------------------------------------------------------------------------------------- taking */

typedef struct room {
    uint32_t slot, from, span;
    bool is_new, dirty; /* of the piece */
} room;

/* While many pieces are held open, new chunks are shorter: a few idle threads with a whole piece each must
 * not occupy a small ring. */
static uint32_t fair_bytes(const mtp__pool *pool, uint32_t bytes)
{
    uint64_t held = pool->held, slots = pool->reach;
    uint32_t most = pool->piece_bytes / (held * 4 > slots * 3 ? 32 : held * 2 > slots ? 8 : 1);
    bytes = bytes < most ? bytes : most;
    bytes = bytes > MTP__CHUNK_ASK_LEAST ? bytes : MTP__CHUNK_ASK_LEAST;
    return (bytes + MTP__CHUNK_ALIGN - 1) / MTP__CHUNK_ALIGN * MTP__CHUNK_ALIGN;
}

/* Takes `want` bytes of the piece, or all that is left if that is less or not much more. */
static void carve(mtp__pool *pool, room *r, bool control, uint32_t want)
{
    mtp__piece *p = &pool->piece[r->slot];
    if (p->open++ == 0) {
        list_remove(pool, MTP__PIECES_IDLE, r->slot);
        pool->held += !control;
    }
    if (!control) {
        list_remove(pool, MTP__PIECES_HELD, r->slot);
        list_add(pool, MTP__PIECES_HELD, r->slot);
    }
    p->given = pool->sealed;
    uint32_t left = pool->piece_bytes - p->used;
    r->from = p->used;
    r->span = left < want + TAIL_LEAST ? left : want;
    p->used += r->span;
    if (p->chunks++ > 0 && pool->when_full == MTP_KEEP_NEWEST) {
        list_add(pool, MTP__PIECES_SHARED, r->slot);
        pool->shared_oldest = p->oldest < pool->shared_oldest ? p->oldest : pool->shared_oldest;
    }
    if (p->used == pool->piece_bytes)
        list_remove(pool, tails_of(control), r->slot);
}

/* Under the lock. want 0: a whole new piece. */
static bool find_room(mtp__pool *pool, bool control, uint32_t want, room *r, mtp_drop *why)
{
    refusal no = {0};
    *r = (room){.slot = MTP__NO_SLOT};
    if (control)
        r->slot = find_tail(pool, true, MTP__CONTROL_TAIL);
    else if (want != 0)
        r->slot = find_tail(pool, false, want / 2 > TAIL_LEAST ? want / 2 : TAIL_LEAST);
    if (r->slot == MTP__NO_SLOT) {
        r->slot = find_slot(pool, &r->dirty, &no);
        r->is_new = r->slot != MTP__NO_SLOT;
        if (!r->is_new && !control && want != 0)
            r->slot = find_tail(pool, false, TAIL_LEAST); /* any tail will do */
    }
    if (r->slot == MTP__NO_SLOT) {
        if (no.for_good)
            atomic_store_explicit(&pool->refusing, 1 + (int)no.cause, memory_order_relaxed);
        *why = no.cause;
        return false;
    }
    if (r->is_new) {
        pool->piece[r->slot] =
            (mtp__piece){.epoch = UINT32_MAX,
                         .oldest = UINT64_MAX,
                         .made_in = atomic_load_explicit(&pool->epoch, memory_order_relaxed),
                         .control = control};
        pool->controls += control;
    }
    carve(pool, r, control, want != 0 ? want : pool->piece_bytes);
    return true;
}

/* Are pieces with open chunks needed? They are if none can be evicted; and in a ring, if they are many and
 * older than the next piece to be evicted. (A few may stay: they have the newest records of their
 * threads.) */
static void look_at_held(mtp__pool *pool)
{
    uint32_t held = pool->list[MTP__PIECES_HELD].first, idle = oldest_idle(pool);
    bool all_used = pool->list[MTP__PIECES_FREE].first == 0 && pool->fresh >= pool->reach;
    bool up = held != 0 && all_used && pool->when_full != MTP_STOP_WHEN_FULL;
    if (up && idle != MTP__NO_SLOT) {
        const mtp__piece *next = &pool->piece[idle];
        up = pool->when_full == MTP_KEEP_NEWEST && (uint64_t)pool->held * HELD_SHARE > pool->reach &&
             next->records > 0 && pool->piece[held - 1].given < next->oldest;
    }
    atomic_store_explicit(&pool->held_up, up, memory_order_relaxed);
}

/* Outside the lock, before any chunk in the piece is visible. */
static void piece_ready(mtp__pool *pool, mtp__chunk *chunk, bool dirty)
{
    if (dirty) {
        MTP__TESTPOINT(CHUNK_EVICTED);
        chunk->records = 0; /* a reader may be reading these: no memset */
        chunk->words = 0;
        chunk->sealed = chunk->checksum = 0;
        memset(mtp__chunk_words(chunk), 0, pool->piece_bytes - sizeof *chunk);
    } else if (pool->file.fd >= 0) {
        madvise(chunk, pool->piece_bytes, MADV_POPULATE_WRITE); /* one call instead of sixteen faults */
    }
}

static void offer_tail(mtp__pool *pool, uint32_t slot)
{
    pthread_mutex_lock(&pool->lock);
    list_add(pool, tails_of(pool->piece[slot].control), slot);
    pthread_mutex_unlock(&pool->lock);
}

static mtp__chunk *take(mtp__pool *pool, const mtp__chunk_ask *ask, mtp_drop *why)
{
    int refusing = atomic_load_explicit(&pool->refusing, memory_order_relaxed);
    if (refusing != 0) {
        *why = (mtp_drop)(refusing - 1);
        return NULL;
    }
    room r;
    uint64_t order = 0;
    mtp__chunk *chunk = NULL;
    pthread_mutex_lock(&pool->lock);
    uint32_t epoch = atomic_load_explicit(&pool->epoch, memory_order_relaxed);
    uint32_t want = ask->bytes != 0 ? fair_bytes(pool, ask->bytes) : 0;
    pool->ticks = ask->ticks > pool->ticks ? ask->ticks : pool->ticks;
    bool found = find_room(pool, ask->stream == 0, want, &r, why);
    if (!found || r.is_new)
        look_at_held(pool);
    if (found) {
        order = ++pool->order;
        mtp__spool_out_go_on(&pool->file);
        chunk = mtp__chunk_at(pool, r.slot, r.from);
        if (!r.is_new) { /* the next chunk follows it, and must be found even if this thread is killed */
            __atomic_store_n(&chunk->epoch, epoch, __ATOMIC_RELAXED);
            __atomic_store_n(&chunk->state, ((mtp__chunk){.span = r.span}).state, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    if (chunk == NULL)
        return NULL;
    if (r.is_new)
        piece_ready(pool, chunk, r.dirty);
    else
        MTP__TESTPOINT(CHUNK_RESERVED);
    chunk->magic = pool->file.fd >= 0 ? pool->file.magic : MTP__CHUNK_MAGIC;
    chunk->stream = ask->stream;
    chunk->cycle = ask->cycle;
    chunk->base_ticks = ask->ticks;
    chunk->first = ask->first;
    chunk->dropped = ask->dropped;
    chunk->depth = ask->depth;
    __atomic_store_n(&chunk->epoch, epoch, __ATOMIC_RELAXED);
    chunk->order = order;
    mtp__chunk_set_span(chunk, r.span);
    if (r.is_new && r.span < pool->piece_bytes)
        offer_tail(pool, r.slot);
    MTP__TESTPOINT(CHUNK_TAKEN);
    return chunk;
}

mtp__chunk *mtp__pool_take_part(mtp__pool *pool, const mtp__chunk_ask *ask, mtp_drop *why)
{
    return take(pool, ask, why);
}

mtp__chunk *mtp__pool_take(mtp__pool *pool, uint32_t stream, uint32_t cycle, uint64_t first, uint64_t ticks,
                           mtp_drop *why)
{
    mtp__chunk_ask ask = {.stream = stream, .cycle = cycle, .first = first, .ticks = ticks};
    return take(pool, &ask, why);
}

/* ------------------------------------------------------------------------------------------ sealing */

/* Under the lock: the last chunk of its piece is cut to what it uses. A zero word remains after its records,
 * so that a reader that has read the old span finds their end. */
static void shrink(mtp__pool *pool, mtp__piece *p, mtp__chunk *chunk, uint32_t words)
{
    uint32_t capacity = mtp__span_words(chunk->span), uses = (uint32_t)sizeof *chunk + (words + 1) * 8;
    uint32_t span = (uses + MTP__CHUNK_ALIGN - 1) / MTP__CHUNK_ALIGN * MTP__CHUNK_ALIGN;
    if (span >= chunk->span || pool->piece_bytes - p->used + (chunk->span - span) < TAIL_LEAST)
        return;
    uint32_t begun = capacity - words; /* an unfinished record may be here */
    if (chunk->stream != 0 && begun > RECORD_WORDS)
        begun = RECORD_WORDS;
    uint64_t *word = mtp__chunk_words(chunk) + words;
    for (uint32_t i = 0; i < begun; i++)
        __atomic_store_n(&word[i], 0, __ATOMIC_RELAXED); /* pairs: mtp__chunk_written, of a live reader */
    p->used -= chunk->span - span;
    mtp__chunk_set_span(chunk, span);
}

/* When the chunk was returned. One that is sealed late is as old as its last record, but newer than anything
 * its owner returned before it was handed out: so each thread keeps its newest chunks. */
static uint64_t time_back(mtp__pool *pool, const mtp__piece *p, uint64_t last)
{
    uint64_t ticks = last != 0 ? last : pool->ticks;
    uint64_t after = last != 0 ? p->given : pool->sealed;
    ticks = ticks > after ? ticks : after + 1;
    pool->sealed = ticks > pool->sealed ? ticks : pool->sealed;
    return ticks;
}

/* Under the lock; the chunk is not hidden. */
static void give_back(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records, uint64_t last)
{
    bool control = chunk->stream == 0, stays = control && pool->when_full != MTP_STREAM;
    uint32_t from, slot = slot_of(pool, chunk, &from);
    mtp__piece *p = &pool->piece[slot];
    if (!stays && from + chunk->span == p->used)
        shrink(pool, p, chunk, words);
    chunk->sealed = time_back(pool, p, last);
    p->newest = chunk->sealed > p->newest ? chunk->sealed : p->newest;
    p->oldest = chunk->sealed < p->oldest ? chunk->sealed : p->oldest;
    if (p->chunks > 1 && p->oldest < pool->shared_oldest)
        pool->shared_oldest = p->oldest;
    if (chunk->epoch < p->epoch)
        p->epoch = chunk->epoch;
    if (!control) {
        p->records += records;
        pool->kept += records;
    }
    if (!stays && pool->piece_bytes - p->used >= TAIL_LEAST)
        list_add(pool, tails_of(control), slot);
    if (--p->open == 0) {
        pool->held -= !control;
        list_remove(pool, MTP__PIECES_HELD, slot);
        if (!stays)
            idle_add(pool, slot);
    }
}

static void seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records, uint64_t last)
{
    chunk->records = records;
    __atomic_store_n(&chunk->words, words, __ATOMIC_RELEASE); /* pairs: visit_slot, words */
    if (pool->file.fd >= 0)
        __atomic_store_n(&chunk->checksum, mtp__chunk_checksum(chunk, mtp__chunk_words(chunk)),
                         __ATOMIC_RELEASE);
    MTP__TESTPOINT(CHUNK_SEALED);
    pthread_mutex_lock(&pool->lock);
    mtp__chunk now = {.state = __atomic_load_n(&chunk->state, __ATOMIC_RELAXED)};
    if (now.head != 0) /* else it was abandoned, or this is a forked child */
        give_back(pool, chunk, words, records, last);
    pthread_mutex_unlock(&pool->lock);
    MTP__TESTPOINT(CHUNK_GIVEN_BACK);
}

void mtp__pool_seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records)
{
    seal(pool, chunk, words, records, 0);
}

void mtp__pool_seal_late(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records, uint64_t last)
{
    seal(pool, chunk, words, records, last != 0 ? last : 1);
}

uint64_t mtp__pool_overdue(mtp__pool *pool, bool all)
{
    pthread_mutex_lock(&pool->lock);
    look_at_held(pool);
    uint64_t since = 0;
    if (atomic_load_explicit(&pool->held_up, memory_order_relaxed)) {
        uint32_t at = pool->list[MTP__PIECES_HELD].first;
        bool none = oldest_idle(pool) == MTP__NO_SLOT;
        for (int i = 1; none && i < PIECES_AT_ONCE && link_of(pool, MTP__PIECES_HELD, at - 1)->next != 0; i++)
            at = link_of(pool, MTP__PIECES_HELD, at - 1)->next;
        since = none && all ? UINT64_MAX : pool->piece[at - 1].given + 1;
    }
    pthread_mutex_unlock(&pool->lock);
    return since;
}

bool mtp__pool_is_overdue(mtp__pool *pool, const mtp__chunk *chunk, uint64_t since)
{
    uint32_t from, slot = slot_of(pool, chunk, &from);
    pthread_mutex_lock(&pool->lock);
    bool overdue = pool->piece[slot].given < since;
    pthread_mutex_unlock(&pool->lock);
    return overdue;
}

/* Its owner may have sealed it long ago, and its place may have been reused. */
bool mtp__pool_abandon(mtp__pool *pool, mtp__chunk *chunk, uint32_t stream)
{
    mtp__chunk now = {0};
    uint32_t from, slot = slot_of(pool, chunk, &from);
    pthread_mutex_lock(&pool->lock);
    bool in_hand = mtp__chunk_is_there(pool, slot, from, &now) && now.head != 0 && chunk->stream == stream &&
                   chunk->sealed == 0;
    if (in_hand) {
        chunk_hide(chunk, now);
        list_remove(pool, MTP__PIECES_HELD, slot); /* it will not be returned */
    }
    pthread_mutex_unlock(&pool->lock);
    return in_hand;
}

void mtp__pool_unseal(mtp__pool *pool, mtp__chunk *chunk)
{
    uint32_t from, slot = slot_of(pool, chunk, &from);
    pthread_mutex_lock(&pool->lock);
    pool->piece[slot].open++;
    chunk->sealed = 0;
    mtp__spool_out_go_on(&pool->file);
    pthread_mutex_unlock(&pool->lock);
    __atomic_store_n(&chunk->checksum, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&chunk->words, 0, __ATOMIC_RELEASE); /* readers must find the end themselves */
}

/* ------------------------------------------------------------------------------------------- epochs */

static uint32_t oldest_in(const mtp__pool *pool, uint32_t slot)
{
    const mtp__piece *p = &pool->piece[slot];
    mtp__chunk now;
    const mtp__chunk *chunk = mtp__chunk_in(pool, slot, 0, &now);
    if (p->used == 0 || p->control)
        return UINT32_MAX;
    if (p->open == 0)
        return p->epoch;
    if (chunk == NULL)
        return p->made_in;
    uint32_t oldest = UINT32_MAX;
    for (uint32_t from = 0; chunk != NULL; chunk = mtp__chunk_in(pool, slot, from, &now)) {
        uint32_t epoch = __atomic_load_n(&chunk->epoch, __ATOMIC_RELAXED);
        oldest = epoch < oldest ? epoch : oldest;
        from += now.span;
    }
    return oldest;
}

uint32_t mtp__pool_oldest_epoch(mtp__pool *pool)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    uint32_t oldest = atomic_load_explicit(&pool->epoch, memory_order_relaxed);
    for (uint32_t slot = 0; slot < pool->fresh; slot++) {
        uint32_t here = oldest_in(pool, slot);
        oldest = here < oldest ? here : oldest;
    }
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(before);
    return oldest;
}

void mtp__pool_release_control(mtp__pool *pool, uint32_t before)
{
    if (pool->when_full == MTP_STREAM)
        return;
    mtp__hold busy = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    for (uint32_t slot = 0; slot < pool->fresh; slot++) {
        const mtp__piece *p = &pool->piece[slot];
        if (!p->control || p->open != 0 || p->epoch >= before || slot == pool->pinned)
            continue;
        piece_hide(pool, slot);
        piece_drop(pool, slot);
        list_add(pool, MTP__PIECES_FREE, slot);
    }
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(busy);
}

static void forget_in(mtp__pool *pool, uint32_t slot, uint32_t before)
{
    mtp__piece *p = &pool->piece[slot];
    if (p->used == 0 || p->control || p->epoch >= before || slot == pool->pinned)
        return;
    drop_those(pool, slot, 0, before);
    if (p->open == 0 && p->oldest == UINT64_MAX) {
        piece_hide(pool, slot);
        piece_drop(pool, slot);
        list_add(pool, MTP__PIECES_FREE, slot);
    }
}

void mtp__pool_forget_epochs(mtp__pool *pool, uint32_t before)
{
    mtp__hold busy = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    for (uint32_t slot = 0; slot < pool->fresh; slot++)
        forget_in(pool, slot, before);
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(busy);
}

/* Pieces of the control stream that are not permanent. */
static uint32_t passing(const mtp__pool *pool)
{
    return atomic_load_explicit(&pool->controls, memory_order_relaxed) -
           atomic_load_explicit(&pool->permanent, memory_order_relaxed);
}

bool mtp__pool_control_is_large(const mtp__pool *pool)
{
    uint32_t share = atomic_load_explicit(&pool->reach, memory_order_relaxed) / 8;
    share = share > 2 ? share : share > 0 ? 2 : 0; /* in a very small ring each epoch gets one piece */
    return pool->when_full == MTP_KEEP_NEWEST && passing(pool) > share;
}

bool mtp__pool_control_is_half(const mtp__pool *pool)
{
    uint32_t permanent = atomic_load_explicit(&pool->permanent, memory_order_relaxed);
    return pool->when_full == MTP_KEEP_NEWEST && (uint64_t)passing(pool) * 2 > pool->slots - permanent;
}
