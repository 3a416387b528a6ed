/* base/intern.c - open addressing over (hash high, index + 1) words; not base/hash_map, as lookups take no
 * lock. A full table is replaced, and the old one kept until reset for readers still using it. With doubling,
 * all old tables together are smaller than the newest. */
#include "base/intern.h"
#include <stdbool.h>
#include <string.h>
#include "base/guard.h"
#include "base/os.h"

#define SEGMENT0 64u
#define SLOTS0 256u
#define BLOCK_BYTES ((size_t)64 << 10)
#define ENTRIES_AHEAD 512u                /* most that one record may add: a deep stack */
#define BYTES_AHEAD (ENTRIES_AHEAD * 32u) /* of the arena */

struct mtp__intern_table {
    mtp__intern_table *older; /* owned */
    size_t mask;
    _Atomic uint64_t slot[]; /* 0: empty; pairs: find, acquire */
};

struct mtp__intern_block {
    mtp__intern_block *next; /* owned */
    size_t used, room;
    unsigned char data[];
};

void mtp__intern_init(mtp__intern *t, uint32_t first_id, size_t limit, mtp__intern_added *added, void *user)
{
    memset(t, 0, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    t->first_id = first_id;
    t->limit = limit;
    t->added = added;
    t->user = user;
}

void mtp__intern_reset(mtp__intern *t)
{
    mtp__intern_table *table = atomic_exchange(&t->table, NULL);
    while (table != NULL) {
        mtp__intern_table *older = table->older;
        mtp__page_free(table);
        table = older;
    }
    for (int k = 0; k < MTP__INTERN_SEGMENTS; k++)
        mtp__page_free(atomic_exchange(&t->segment[k], NULL));
    while (t->blocks != NULL) {
        mtp__intern_block *next = t->blocks->next;
        mtp__page_free(t->blocks);
        t->blocks = next;
    }
    atomic_store(&t->count, 0);
    atomic_store(&t->nearly_full, false);
    t->bytes = 0;
}

void mtp__intern_restart(mtp__intern *t, uint32_t first_id)
{
    mtp__intern_reset(t);
    t->first_id = first_id;
    t->closed = false;
}

uint32_t mtp__intern_close(mtp__intern *t)
{
    uint64_t next = (uint64_t)t->first_id + atomic_load_explicit(&t->count, memory_order_relaxed);
    t->closed = true;
    return t->first_id == 0 || next > UINT32_MAX ? 0 : (uint32_t)next;
}

void mtp__intern_fini(mtp__intern *t)
{
    mtp__intern_reset(t);
    pthread_mutex_destroy(&t->lock);
}

/* Segment of an index, and the position in it: segment k starts at SEGMENT0 * (2^k - 1). */
static unsigned segment_of(uint32_t index, uint32_t *place)
{
    uint32_t scaled = index / SEGMENT0 + 1;
    unsigned k = 31u - (unsigned)__builtin_clz(scaled);
    *place = index - SEGMENT0 * ((1u << k) - 1);
    return k;
}

static mtp__intern_entry *entry_at(const mtp__intern *t, uint32_t index)
{
    uint32_t place;
    unsigned k = segment_of(index, &place);
    return atomic_load_explicit(&t->segment[k], memory_order_acquire) + place;
}

static uint32_t probe(const mtp__intern *t, const mtp__intern_table *table, uint64_t hash, const void *bytes,
                      size_t length)
{
    if (table == NULL)
        return 0;
    for (size_t at = hash & table->mask;; at = (at + 1) & table->mask) {
        uint64_t slot = atomic_load_explicit(&table->slot[at], memory_order_acquire);
        if (slot == 0)
            return 0;
        if (slot >> 32 != hash >> 32)
            continue;
        const mtp__intern_entry *e = entry_at(t, (uint32_t)slot - 1);
        if (e->hash == hash && e->length == length && memcmp(e->bytes, bytes, length) == 0)
            return t->first_id + (uint32_t)slot - 1;
    }
}

uint32_t mtp__intern_find(const mtp__intern *t, uint64_t hash, const void *bytes, size_t length)
{
    return probe(t, atomic_load_explicit(&t->table, memory_order_acquire), hash, bytes, length);
}

static void place(mtp__intern_table *table, uint64_t hash, uint32_t index)
{
    size_t at = hash & table->mask;
    while (atomic_load_explicit(&table->slot[at], memory_order_relaxed) != 0)
        at = (at + 1) & table->mask;
    atomic_store_explicit(&table->slot[at], (hash >> 32) << 32 | (index + 1), memory_order_release);
}

/* Ensures room for one more: at most half full. */
static bool table_reserve(mtp__intern *t, uint32_t count)
{
    mtp__intern_table *old = atomic_load_explicit(&t->table, memory_order_relaxed);
    size_t slots = old != NULL ? old->mask + 1 : 0;
    if ((size_t)count * 2 < slots)
        return true;
    slots = slots != 0 ? slots * 2 : SLOTS0;
    size_t bytes = sizeof *old + slots * sizeof old->slot[0];
    mtp__intern_table *table = t->bytes + bytes <= t->limit ? mtp__page_calloc(1, bytes) : NULL;
    if (table == NULL)
        return false;
    table->mask = slots - 1;
    table->older = old;
    for (uint32_t i = 0; i < count; i++)
        place(table, entry_at(t, i)->hash, i);
    t->bytes += bytes;
    atomic_store_explicit(&t->table, table, memory_order_release);
    return true;
}

static unsigned char *arena_copy(mtp__intern *t, const void *bytes, size_t length)
{
    size_t need = length + 1;
    mtp__intern_block *b = t->blocks;
    if (b == NULL || b->room - b->used < need) {
        size_t room = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        if (t->bytes + room > t->limit || (b = mtp__page_calloc(1, sizeof *b + room)) == NULL)
            return NULL;
        b->room = room;
        b->next = t->blocks;
        t->blocks = b;
        t->bytes += room;
    }
    unsigned char *copy = b->data + b->used;
    memcpy(copy, bytes, length);
    copy[length] = 0;
    b->used += (need + 7) & ~(size_t)7; /* keeps words aligned; the block's end only looks fuller */
    if (b->used > b->room)
        b->used = b->room;
    return copy;
}

/* Would the table, the arena or the entries have to grow for the next few, and be unable to? */
static void look_ahead(mtp__intern *t, uint32_t count)
{
    const mtp__intern_table *table = atomic_load_explicit(&t->table, memory_order_relaxed);
    size_t slots = table->mask + 1, left = t->limit > t->bytes ? t->limit - t->bytes : 0;
    size_t more = ((size_t)count + ENTRIES_AHEAD) * 2 >= slots ? slots * 2 * sizeof table->slot[0] : 0;
    if (t->blocks->room - t->blocks->used < BYTES_AHEAD)
        more += BLOCK_BYTES;
    uint32_t place;
    unsigned k = segment_of(count + ENTRIES_AHEAD, &place);
    if (k >= MTP__INTERN_SEGMENTS || atomic_load_explicit(&t->segment[k], memory_order_relaxed) == NULL)
        more += ((size_t)SEGMENT0 << k) * sizeof(mtp__intern_entry);
    if (more > left)
        atomic_store_explicit(&t->nearly_full, true, memory_order_relaxed);
}

static uint32_t insert(mtp__intern *t, uint64_t hash, const void *bytes, size_t length)
{
    uint32_t index = atomic_load_explicit(&t->count, memory_order_relaxed), at;
    unsigned k = segment_of(index, &at);
    if (t->closed || t->first_id == 0 || index > UINT32_MAX - t->first_id || k >= MTP__INTERN_SEGMENTS ||
        !table_reserve(t, index))
        return 0;
    if (atomic_load_explicit(&t->segment[k], memory_order_relaxed) == NULL) {
        size_t size = (size_t)SEGMENT0 << k;
        mtp__intern_entry *fresh = mtp__page_calloc(size, sizeof *fresh);
        if (fresh == NULL)
            return 0;
        t->bytes += size * sizeof *fresh;
        atomic_store_explicit(&t->segment[k], fresh, memory_order_release);
    }
    unsigned char *copy = arena_copy(t, bytes, length);
    if (copy == NULL)
        return 0;
    uint32_t id = t->first_id + index;
    if (t->added != NULL && !t->added(t->user, t, id, copy, length)) {
        t->blocks->used = (size_t)(copy - t->blocks->data); /* not visible yet: reuse the space */
        return 0;
    }
    *entry_at(t, index) = (mtp__intern_entry){hash, copy, length};
    atomic_store_explicit(&t->count, index + 1, memory_order_release);
    place(atomic_load_explicit(&t->table, memory_order_relaxed), hash, index);
    look_ahead(t, index + 1);
    return id;
}

uint32_t mtp__intern_add(mtp__intern *t, uint64_t hash, const void *bytes, size_t length)
{
    uint32_t id = mtp__intern_find(t, hash, bytes, length);
    if (id != 0)
        return id;
    mtp__guard_enter();
    pthread_mutex_lock(&t->lock);
    id = mtp__intern_find(t, hash, bytes, length); /* another thread may have been faster */
    if (id == 0)
        id = insert(t, hash, bytes, length);
    pthread_mutex_unlock(&t->lock);
    mtp__guard_leave();
    return id;
}

uint32_t mtp__intern_count(const mtp__intern *t)
{
    return atomic_load_explicit(&t->count, memory_order_acquire);
}

const mtp__intern_entry *mtp__intern_get(const mtp__intern *t, uint32_t id)
{
    uint32_t index = id - t->first_id;
    return id >= t->first_id && index < mtp__intern_count(t) ? entry_at(t, index) : NULL;
}
