/* record/control.c - the control stream: cold data, one writer at a time. */
#define _GNU_SOURCE
#include "record/control.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "base/os.h"
#include "record/checks.h"
#include "record/details.h"
#include "record/epoch.h"

#define PART_BYTES 2048u /* longer blobs are split into parts, so that each fits the smallest chunk */
#define KEPT_MAX ((size_t)1 << 20)
_Static_assert(4 + MTP_DROP_CAUSES <= MTP__LEDGER_ROOM, "a ledger fits a header");
#define LAST_WORDS (2u + 4u + MTP_DROP_CAUSES + 3u) /* ledger and end of the cycle */
_Static_assert(MTP__CONTROL_TAIL >= sizeof(mtp__chunk) + (4 + PART_BYTES / 8 + LAST_WORDS) * 8,
               "a part of a blob fits");

/* --------------------------------------------------------------------------------- under the control lock */

static bool is_ring(const mtp__recorder *r)
{
    return r->pool.when_full == MTP_KEEP_NEWEST;
}

/* Remembers the chunk, so that its definitions can be re-emitted (reemit.c). If there is no memory for the
 * list, they cannot be, and the records that need the chunk keep it alive. */
static void hold(mtp__control *c, mtp__chunk *chunk)
{
    if (c->held_count == c->held_room) {
        uint32_t room = c->held_room != 0 ? c->held_room * 2 : 500;
        mtp__chunk **grown = mtp__page_calloc(room, sizeof(mtp__chunk *));
        if (grown == NULL)
            return;
        for (uint32_t i = 0; i < c->held_count; i++)
            grown[i] = c->held[i];
        mtp__page_free(c->held);
        c->held = grown;
        c->held_room = room;
    }
    c->held[c->held_count++] = chunk;
}

/* A record may use ids of the epoch before its chunk's, if an epoch began after it looked them up and before
 * it took the chunk. So that epoch is kept, too. */
void mtp__control_release(mtp__recorder *r)
{
    mtp__control *c = &r->control;
    uint32_t now = atomic_load_explicit(&r->pool.epoch, memory_order_relaxed);
    if (!is_ring(r) || c->held_count == 0 || c->held[0]->epoch >= now)
        return;
    uint32_t oldest = mtp__pool_oldest_epoch(&r->pool), gone = 0;
    uint32_t before = oldest > c->whole ? c->whole : oldest > 0 ? oldest - 1 : 0;
    while (gone < c->held_count && c->held[gone]->epoch < before)
        gone++;
    if (gone == 0)
        return;
    c->held_count -= gone;
    memmove(c->held, c->held + gone, c->held_count * sizeof *c->held);
    mtp__pool_release_control(&r->pool, before);
}

/* Pieces that the ring has: fewer than requested if the disk is full. */
static uint32_t ring_slots(mtp__recorder *r)
{
    return atomic_load_explicit(&r->pool.reach, memory_order_relaxed);
}

/* Records keep a quarter of a ring, however much there is to define; or one piece while the next epoch
 * begins, because only that releases older ones. Older records are evicted for definitions, so that the
 * records that are kept are described. */
static bool may_take(mtp__recorder *r, uint64_t chunks)
{
    uint32_t slots = ring_slots(r), part = (slots + 3) / 4, all_but_one = slots - 1;
    uint32_t most = r->control.opening ? all_but_one : slots - (part > 2 ? part : 2);
    uint64_t held = (uint64_t)r->control.held_count + r->control.permanent_chunks + chunks;
    uint32_t now = atomic_load_explicit(&r->pool.epoch, memory_order_relaxed);
    return held <= most || (held <= all_but_one && mtp__pool_oldest_epoch(&r->pool) + 1 < now);
}

/* An open piece may hold records of many epochs and so keep all their definitions: evicts the older half of a
 * ring's epochs, records and definitions. false: none could be evicted. */
static bool forget_some(mtp__recorder *r)
{
    uint32_t now = atomic_load_explicit(&r->pool.epoch, memory_order_relaxed);
    uint32_t oldest = mtp__pool_oldest_epoch(&r->pool);
    if (oldest >= now)
        return false;
    mtp__pool_forget_epochs(&r->pool, oldest + (now - oldest + 1) / 2);
    mtp__control_release(r);
    return mtp__pool_oldest_epoch(&r->pool) > oldest; /* else they are in an open chunk */
}

/* An epoch with a long beginning waits until it and the chunks still held fit half of the ring, unless tables
 * or ring are full. */
bool mtp__control_has_room_for_epoch(mtp__recorder *r)
{
    mtp__control *c = &r->control;
    if (!is_ring(r))
        return true;
    mtp__control_release(r);
    uint64_t chunk = mtp__span_words(r->pool.piece_bytes);
    uint64_t beginning = (c->beginning + chunk - 1) / chunk;
    bool at_once = beginning <= 1 || beginning * 16 <= ring_slots(r) || mtp__details_are_nearly_full(r) ||
                   !may_take(r, 1);
    if (!at_once)
        return c->held_count + beginning <= (ring_slots(r) - c->permanent_chunks) / 2;
    c->opening = true;
    bool fits;
    do
        fits = may_take(r, beginning);
    while (!fits && forget_some(r));
    c->opening = false;
    return fits;
}

/* When a chunk is nearly full: is the epoch long enough to be worth its beginning, and has it used its share
 * of the control stream? Four or five epochs exist at a time. */
static void want_next_epoch(mtp__recorder *r)
{
    uint64_t part = (uint64_t)ring_slots(r) * r->pool.piece_bytes / sizeof(uint64_t) / 32;
    if (r->control.epoch_words > 2 * r->control.beginning && r->control.epoch_words >= part &&
        mtp__pool_control_is_large(&r->pool))
        mtp__epoch_want(r);
}

static void begin_chunk(mtp__recorder *r, mtp__chunk *chunk)
{
    mtp__control *c = &r->control;
    c->chunk = chunk;
    c->used = c->records = 0;
    if (c->ledger_chunk == chunk)
        c->ledger_chunk = NULL; /* it was overwritten */
    if (is_ring(r))
        hold(c, chunk);
}

static mtp__chunk *try_take(mtp__recorder *r)
{
    mtp_drop why;
    mtp__control_release(r);
    if (is_ring(r) && !may_take(r, 1)) {
        mtp__epoch_want(r); /* else it stays full */
        return NULL;
    }
    return mtp__pool_take(&r->pool, 0, r->cycle, r->control.written, mtp__clock_ticks_slow(), &why);
}

static mtp__chunk *take_chunk(mtp__recorder *r)
{
    mtp__chunk *chunk;
    do
        chunk = try_take(r);
    while (chunk == NULL && is_ring(r) && forget_some(r));
    return chunk;
}

mtp__chunk *mtp__control_take_for_epoch(mtp__recorder *r)
{
    uint32_t epoch = atomic_fetch_add(&r->pool.epoch, 1);
    r->control.opening = true;
    mtp__chunk *chunk = take_chunk(r);
    r->control.opening = false;
    if (chunk == NULL)
        atomic_store(&r->pool.epoch, epoch);
    return chunk;
}

/* Room for a record of `words`, or NULL. The ledger, the last record of a cycle, finds room even when the
 * budget is exhausted: LAST_WORDS are kept free for it, and the chunk that has them is given up only for
 * another. */
static uint64_t *reserve(mtp__recorder *r, uint32_t words)
{
    mtp__control *c = &r->control;
    if (atomic_load_explicit(&mtp__gate.ours, memory_order_relaxed) == 0)
        return NULL;
    uint32_t need = words + (c->finishing ? 0 : LAST_WORDS);
    if (c->chunk == NULL && c->sealed != NULL && mtp__span_words(c->sealed->span) - c->used >= need) {
        mtp__pool_unseal(&r->pool, c->sealed);
        c->chunk = c->sealed;
        c->sealed = NULL;
    }
    if (c->chunk != NULL && mtp__span_words(c->chunk->span) - c->used >= need)
        return mtp__chunk_words(c->chunk) + c->used;
    if (c->chunk != NULL && r->pool.when_full == MTP_STREAM) { /* its slot may be the one that is needed */
        mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
        c->chunk = NULL;
    }
    mtp__chunk *chunk = take_chunk(r);
    if (chunk == NULL)
        return NULL;
    if (c->chunk != NULL)
        mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
    c->sealed = NULL;
    begin_chunk(r, chunk);
    if (is_ring(r))
        want_next_epoch(r); /* a long record may skip the end of a chunk */
    return mtp__chunk_words(c->chunk) + c->used;
}

static void commit(mtp__recorder *r, uint64_t *at, mtp__control_kind kind, uint32_t words)
{
    uint64_t word0 = MTP__WORD0(mtp__clock_ticks_slow(), 0, MTP__KIND_CONTROL);
    at[1] = MTP__CONTROL_WORD1(kind, 0, words);
    at[1] = MTP__CONTROL_WORD1(kind, mtp__control_check(word0, at, words), words);
    __atomic_store_n(at, word0, __ATOMIC_RELEASE);
    mtp__control *c = &r->control;
    uint32_t capacity = mtp__span_words(c->chunk->span), near = capacity - capacity / 8;
    c->used += words;
    c->records++;
    c->written++;
    if (c->permanent)
        return;
    c->epoch_words += words;
    if (is_ring(r) && c->used >= near && c->used - words < near)
        want_next_epoch(r);
}

bool mtp__control_copy(mtp__recorder *r, const uint64_t *record, uint32_t words)
{
    uint64_t *at = reserve(r, words);
    if (at == NULL)
        return false;
    memcpy(at + 2, record + 2, (words - 2) * sizeof *record);
    commit(r, at, (mtp__control_kind)MTP__CONTROL_KIND(record[1]), words);
    return true;
}

static bool put_words(mtp__recorder *r, mtp__control_kind kind, const uint64_t *words, uint32_t count)
{
    uint64_t *at = reserve(r, count + 2);
    if (at == NULL)
        return false;
    memcpy(at + 2, words, count * sizeof *words);
    commit(r, at, kind, count + 2);
    return true;
}

static bool put_blob(mtp__recorder *r, mtp__control_kind kind, uint32_t id, uint32_t tid, const void *bytes,
                     size_t length)
{
    size_t done = 0;
    if (length > UINT32_MAX)
        return false;
    do {
        size_t part = length - done < PART_BYTES ? length - done : PART_BYTES;
        uint32_t words = 4 + (uint32_t)((part + 7) / 8);
        uint64_t *at = reserve(r, words);
        if (at == NULL)
            return false;
        at[2] = id | (uint64_t)(kind == MTP__CONTROL_THREAD ? tid : done) << 32;
        at[3] = length | (uint64_t)part << 32;
        memcpy(at + 4, (const char *)bytes + done, part);
        commit(r, at, kind, words);
        done += part;
    } while (done < length);
    return true;
}

/* ------------------------------------------------------------------------------ names of call sites, in a ring */

static uint32_t blob_words(size_t length)
{
    uint32_t parts = (uint32_t)((length + PART_BYTES - 1) / PART_BYTES),
             rest = (uint32_t)(length % PART_BYTES);
    uint32_t whole = (uint32_t)(length / PART_BYTES) * (PART_BYTES / 8);
    return 4 * (parts > 0 ? parts : 1) + whole + (rest + 7) / 8;
}

/* The end of the names, from `first` on, that fill a chunk; `first`: too few to fill one. */
static uint32_t end_of_chunk(const mtp__recorder *r, const mtp__intern *names, uint32_t first)
{
    uint32_t room = mtp__span_words(r->pool.piece_bytes) - LAST_WORDS, words = 0;
    for (uint32_t i = first, count = mtp__intern_count(names); i < count; i++) {
        uint32_t more = blob_words(mtp__intern_get(names, names->first_id + i)->length);
        if (more > room - words)
            return i;
        words += more;
    }
    return first;
}

/* The chunk belongs to no epoch, so no epoch releases it. The current chunk is sealed; the stream continues
 * after this one. */
static bool put_permanent_names(mtp__recorder *r, const mtp__intern *names, uint32_t first, uint32_t end)
{
    mtp__control *c = &r->control;
    mtp__chunk *chunk = take_chunk(r);
    if (chunk == NULL)
        return false;
    if (c->chunk != NULL)
        mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
    if (c->ledger_chunk == chunk)
        c->ledger_chunk = NULL;
    __atomic_store_n(&chunk->epoch, MTP__EPOCH_ALL, __ATOMIC_RELAXED);
    c->chunk = chunk;
    c->sealed = NULL;
    c->used = c->records = 0;
    c->permanent = true;
    bool written = true;
    for (uint32_t i = first; i < end && written; i++) {
        const mtp__intern_entry *e = mtp__intern_get(names, names->first_id + i);
        written = put_blob(r, MTP__CONTROL_NAME, names->first_id + i, 0, e->bytes, e->length);
    }
    c->permanent = false;
    mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
    c->chunk = NULL;
    c->permanent_chunks++;
    atomic_fetch_add_explicit(&r->pool.permanent, 1, memory_order_relaxed);
    return written;
}

/* Names of call sites never change: as many as fill whole chunks are defined once, in permanent chunks. The
 * rest, less than a chunk, is repeated in each epoch. Permanent chunks take at most three eighths of a ring.
 * This runs before the first chunk of an epoch is taken, so that a reader knows where the sequence may have a
 * gap (spool/spool.c). */
void mtp__control_keep_names(mtp__recorder *r)
{
    mtp__control *c = &r->control;
    const mtp__intern *names = mtp__names();
    while (is_ring(r) && ((uint64_t)c->permanent_chunks + 1) * 8 <= (uint64_t)ring_slots(r) * 3) {
        uint32_t end = end_of_chunk(r, names, c->permanent_names);
        if (end == c->permanent_names || !put_permanent_names(r, names, c->permanent_names, end))
            break;
        c->permanent_names = end;
    }
    if (r->names_defined < c->permanent_names)
        r->names_defined = c->permanent_names;
}

/* ------------------------------------------------------------- defined once, and again as each epoch begins */

typedef struct kept_blob {
    uint32_t kind, id;
    uint64_t length; /* its bytes follow, padded to words */
} kept_blob;

static size_t kept_size(uint64_t length)
{
    return sizeof(kept_blob) + (((size_t)length + 7) & ~(size_t)7);
}

/* Does this redefine the old blob? Metadata is matched by its type letter and key. */
static bool replaces(const kept_blob *old, mtp__control_kind kind, uint32_t id, const void *bytes,
                     size_t length)
{
    if (old->kind != kind)
        return false;
    if (kind != MTP__CONTROL_METADATA)
        return kind == MTP__CONTROL_TRACE_ID || old->id == id;
    size_t key = strnlen(bytes, length);
    return key < length && key < old->length && memcmp(old + 1, bytes, key + 1) == 0;
}

/* false: it will be missing from later epochs. */
static bool keep(mtp__control *c, mtp__control_kind kind, uint32_t id, const void *bytes, size_t length)
{
    for (size_t at = 0; at < c->kept_bytes;) {
        const kept_blob *old = (const kept_blob *)(const void *)(c->kept + at);
        size_t size = kept_size(old->length);
        if (replaces(old, kind, id, bytes, length)) {
            memmove(c->kept + at, c->kept + at + size, c->kept_bytes - at - size);
            c->kept_bytes -= size;
        } else {
            at += size;
        }
    }
    size_t need = c->kept_bytes + kept_size(length);
    if (need > KEPT_MAX)
        return false;
    if (need > c->kept_room) {
        size_t room = need < 8000 ? 8000 : need * 2;
        unsigned char *grown = mtp__page_calloc(1, room);
        if (grown == NULL)
            return false;
        if (c->kept_bytes > 0)
            memcpy(grown, c->kept, c->kept_bytes);
        mtp__page_free(c->kept);
        c->kept = grown;
        c->kept_room = room;
    }
    kept_blob head = {(uint32_t)kind, id, length};
    memcpy(c->kept + c->kept_bytes, &head, sizeof head);
    memcpy(c->kept + c->kept_bytes + sizeof head, bytes, length);
    c->kept_bytes = need;
    return true;
}

/* The anchors that later epochs begin with: the first, the newest, and between them fewer the older they are.
 * Drops the one that leaves the smallest gap relative to its age. */
static void keep_anchor(mtp__control *c, const mtp__anchor *a)
{
    if (c->anchors == MTP__ANCHORS_KEPT) {
        uint32_t least = 1;
        double gap_least = 0;
        for (uint32_t i = 1; i + 1 < c->anchors; i++) {
            double gap = (double)(c->anchor[i + 1].ticks - c->anchor[i - 1].ticks) /
                         ((double)(a->ticks - c->anchor[i].ticks) + 1);
            if (i == 1 || gap < gap_least) {
                least = i;
                gap_least = gap;
            }
        }
        memmove(c->anchor + least, c->anchor + least + 1, (c->anchors - 1 - least) * sizeof *a);
        c->anchors--;
    }
    c->anchor[c->anchors++] = *a;
}

static bool put_anchor(mtp__recorder *r, const mtp__anchor *a, bool again)
{
    uint64_t words[] = {a->ticks, a->monotonic_ns, a->realtime_ns, a->raw_ns, a->error_ns, 1};
    return put_words(r, MTP__CONTROL_ANCHOR, words, again ? 6 : 5);
}

/* ------------------------------------------------------------------------------------------- with the lock */

static void lost_when(mtp__recorder *r, bool lost)
{
    if (lost)
        atomic_fetch_add(&r->lost_definitions, 1);
}

bool mtp__recorder_words(mtp__recorder *r, mtp__control_kind kind, const uint64_t *words, uint32_t count)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->control.lock);
    bool written = put_words(r, kind, words, count);
    pthread_mutex_unlock(&r->control.lock);
    mtp__writer_release(before);
    lost_when(r, !written);
    return written;
}

static bool blob(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes, size_t length)
{
    bool permanent = is_ring(r) && (kind == MTP__CONTROL_METADATA || kind == MTP__CONTROL_TRACE_ID ||
                                    kind == MTP__CONTROL_DEVICE);
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->control.lock);
    bool written = put_blob(r, kind, id, 0, bytes, length);
    if (written && permanent)
        lost_when(r, !keep(&r->control, kind, id, bytes, length));
    pthread_mutex_unlock(&r->control.lock);
    mtp__writer_release(before);
    return written;
}

bool mtp__control_define(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                         size_t length)
{
    return blob(r, kind, id, bytes, length);
}

bool mtp__recorder_blob(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                        size_t length)
{
    bool written = blob(r, kind, id, bytes, length);
    lost_when(r, !written);
    return written;
}

void mtp__recorder_anchor(mtp__recorder *r)
{
    mtp__anchor a;
    atomic_store_explicit(&r->last_anchor, mtp__clock_seconds(), memory_order_relaxed);
    mtp__clock_anchor(&a);
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->control.lock);
    bool written = put_anchor(r, &a, false);
    keep_anchor(&r->control, &a);
    pthread_mutex_unlock(&r->control.lock);
    mtp__writer_release(before);
    lost_when(r, !written);
}

/* Names of the process that the stream does not have yet. New ones are defined as they are added, under the
 * table's lock, so that none is missed or defined twice. */
static void define_names(mtp__recorder *r)
{
    mtp__intern *names = mtp__names();
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&names->lock);
    uint32_t count = mtp__intern_count(names);
    for (; r->names_defined < count; r->names_defined++) {
        const mtp__intern_entry *e = mtp__intern_get(names, names->first_id + r->names_defined);
        mtp__recorder_blob(r, MTP__CONTROL_NAME, names->first_id + r->names_defined, e->bytes, e->length);
    }
    pthread_mutex_unlock(&names->lock);
    mtp__writer_release(before);
}

static bool put_session(mtp__recorder *r)
{
    uint64_t clock = (mtp__clock_is_counter() ? MTP__CLOCK_IS_COUNTER : 0) |
                     (mtp__clock_trouble() != NULL ? MTP__CLOCK_IN_TROUBLE : 0);
    const mtp__origin *o = &r->control.origin;
    uint64_t words[] = {(uint64_t)getpid(), r->config.flags, r->cycle,  clock, 0,
                        o->parent,          o->boot[0],      o->boot[1]};
    memcpy(&words[4], &r->ticks_per_ns, sizeof r->ticks_per_ns);
    return put_words(r, MTP__CONTROL_SESSION, words, r->config.pool.path != NULL ? 8 : 5);
}

static bool put_process(mtp__recorder *r)
{
    const mtp__origin *o = &r->control.origin;
    return o->command_length == 0 || put_blob(r, MTP__CONTROL_PROCESS, 1, 0, o->command, o->command_length);
}

static bool put_cycle(mtp__recorder *r, bool started)
{
    uint64_t cycle = r->cycle | (uint64_t)started << 32;
    return put_words(r, MTP__CONTROL_CYCLE, &cycle, 1);
}

void mtp__control_session(mtp__recorder *r)
{
    mtp__control *c = &r->control;
    r->ticks_per_ns = mtp__clock_ticks_per_ns(); /* for a reader that finds only one anchor */
    if (r->config.pool.path != NULL && !c->begun)
        mtp__origin_read(&c->origin); /* a forked child's is its own */
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&mtp__names()->lock);
    pthread_mutex_lock(&c->lock);
    bool first = !c->begun;
    c->begun = true;
    mtp__control_keep_names(r);
    pthread_mutex_unlock(&mtp__names()->lock);
    lost_when(r, !put_session(r));
    if (first)
        lost_when(r, !put_process(r));
    lost_when(r, !put_cycle(r, true));
    pthread_mutex_unlock(&c->lock);
    mtp__writer_release(before);
    define_names(r);
    before = mtp__writer_hold();
    pthread_mutex_lock(&c->lock);
    if (first)
        c->beginning = c->epoch_words;
    pthread_mutex_unlock(&c->lock);
    mtp__writer_release(before);
}

typedef struct reemission {
    mtp__recorder *r;
    uint64_t lost; /* defined only in older epochs */
} reemission;

static void reemit_thread(void *user, mtp__thread *t)
{
    reemission *x = user;
    if (t->counted == x->r->id)
        x->lost +=
            !put_blob(x->r, MTP__CONTROL_THREAD, t->stream, (uint32_t)t->tid, t->name, strlen(t->name));
}

bool mtp__control_begin_epoch(mtp__recorder *r, mtp__chunk *chunk)
{
    mtp__control *c = &r->control;
    if (c->chunk != NULL)
        mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
    c->sealed = NULL;
    c->epoch_words = c->beginning = 0;
    begin_chunk(r, chunk);
    c->opening = true;
    reemission x = {r, 0};
    x.lost += !put_session(r);
    x.lost += !put_process(r);
    x.lost += !put_cycle(r, true);
    for (uint32_t i = 0; i < c->anchors; i++)
        x.lost += !put_anchor(r, &c->anchor[i], true);
    for (size_t at = 0; at < c->kept_bytes;) {
        const kept_blob *b = (const kept_blob *)(const void *)(c->kept + at);
        x.lost += !put_blob(r, (mtp__control_kind)b->kind, b->id, 0, b + 1, b->length);
        at += kept_size(b->length);
    }
    mtp__registry_each(reemit_thread, &x);
    const mtp__intern *names = mtp__names();
    r->names_defined = mtp__intern_count(names);
    for (uint32_t i = c->permanent_names; i < r->names_defined; i++) {
        const mtp__intern_entry *e = mtp__intern_get(names, names->first_id + i);
        x.lost += !put_blob(r, MTP__CONTROL_NAME, names->first_id + i, 0, e->bytes, e->length);
    }
    c->opening = false;
    c->beginning = c->epoch_words;
    if (x.lost == 0)
        c->whole = chunk->epoch; /* else older epochs are kept, which have what is missing */
    return x.lost == 0;
}

/* The name that one of our threads was given, or the kernel's; empty if unavailable. A thread's own name takes
 * one call; another's takes reading a file in /proc, which costs more than creating a thread. */
static void thread_name(const mtp__thread *t, char name[MTP__THREAD_NAME_ROOM])
{
    char path[64];
    if (mtp__thread_name_given(t->tid, name))
        return;
    if (t == mtp__self.thread && prctl(PR_GET_NAME, name) == 0)
        return;
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)t->tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, name, 15) : 0;
    mtp__close(fd);
    if (n > 0 && name[n - 1] == '\n')
        n--;
    name[n > 0 ? n : 0] = 0;
}

/* The name is stored under the control lock, because the thread that begins an epoch re-emits it. */
void mtp__control_thread(mtp__recorder *r, mtp__thread *t)
{
    char name[MTP__THREAD_NAME_ROOM] = "";
    thread_name(t, name);
    if (t->named == r->id && (name[0] == 0 || strcmp(name, t->name) == 0))
        return;
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->control.lock);
    memcpy(t->name, name, sizeof name);
    bool written = put_blob(r, MTP__CONTROL_THREAD, t->stream, (uint32_t)t->tid, name, strlen(name));
    pthread_mutex_unlock(&r->control.lock);
    mtp__writer_release(before);
    t->named = r->id;
    lost_when(r, !written);
}

/* Reserves room for the last records first: this may evict records, which the ledger has to count. */
static void make_room(mtp__recorder *r, uint32_t words)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->control.lock);
    r->control.finishing = true;
    reserve(r, words);
    pthread_mutex_unlock(&r->control.lock);
    mtp__writer_release(before);
}

static void ledger_words(mtp__recorder *r, uint64_t words[4 + MTP_DROP_CAUSES])
{
    mtp_ledger ledger = MTP_LEDGER_INIT;
    mtp__recorder_ledger(r, &ledger);
    memcpy(words, (uint64_t[]){ledger.emitted, ledger.kept, ledger.dropped, ledger.lost_definitions},
           4 * sizeof *words);
    memcpy(words + 4, ledger.dropped_by, MTP_DROP_CAUSES * sizeof *words);
}

/* Cycles that start when the budget is exhausted find no room for their ledger: it replaces the previous one,
 * whose counts it continues. */
static bool put_ledger(mtp__recorder *r, const uint64_t *words, uint32_t count)
{
    mtp__control *c = &r->control;
    uint64_t *at = reserve(r, count + 2);
    if (at != NULL) {
        memcpy(at + 2, words, count * sizeof *words);
        commit(r, at, MTP__CONTROL_LEDGER, count + 2);
        c->ledger = at;
        c->ledger_chunk = c->chunk;
        return true;
    }
    if (c->ledger_chunk == NULL || (c->ledger_chunk != c->chunk && c->ledger_chunk != c->sealed))
        return false;
    if (c->chunk == NULL) {
        mtp__pool_unseal(&r->pool, c->sealed);
        c->chunk = c->sealed;
        c->sealed = NULL;
    }
    memcpy(c->ledger + 2, words, count * sizeof *words);
    c->ledger[1] = MTP__CONTROL_WORD1(MTP__CONTROL_LEDGER, 0, count + 2);
    c->ledger[1] = MTP__CONTROL_WORD1(MTP__CONTROL_LEDGER,
                                      mtp__control_check(c->ledger[0], c->ledger, count + 2), count + 2);
    return true;
}

void mtp__control_finish(mtp__recorder *r)
{
    uint64_t words[4 + MTP_DROP_CAUSES];
    define_names(r);
    make_room(r, LAST_WORDS);
    ledger_words(r, words);
    mtp__control *c = &r->control;
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&c->lock);
    lost_when(r, !put_ledger(r, words, 4 + MTP_DROP_CAUSES));
    put_cycle(r, false); /* the ledger is written: a loss can no longer be counted */
    c->finishing = false;
    if (c->chunk != NULL)
        mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
    /* The next cycle continues in it: a chunk per cycle would use up the budget. */
    if (c->chunk != NULL)
        c->sealed = r->pool.when_full != MTP_STREAM ? c->chunk : NULL;
    c->chunk = NULL;
    pthread_mutex_unlock(&c->lock);
    mtp__writer_release(before);
    r->pool.file.totals = (mtp__totals){.known = 1, .control = c->written};
    ledger_words(r, r->pool.file.totals.ledger); /* again: these records themselves may have been dropped */
}

void mtp__control_reset(mtp__recorder *r)
{
    mtp__control *c = &r->control;
    c->chunk = c->sealed = c->ledger_chunk = NULL;
    c->used = c->records = 0;
    c->written = c->epoch_words = c->beginning = 0;
    c->begun = false;
    c->held_count = c->anchors = 0;
    c->permanent_chunks = c->permanent_names = 0;
    c->kept_bytes = 0;
    c->whole = atomic_load(&r->pool.epoch);
    r->names_defined = 0;
    atomic_store(&r->pace, c->whole << 1);
}

void mtp__control_fini(mtp__recorder *r)
{
    mtp__page_free(r->control.held);
    mtp__page_free(r->control.kept);
    pthread_mutex_destroy(&r->control.lock);
}
