/* base/intern.h - bytes to small ids, for names, shapes, frames and stacks.
 *
 * Lookup is lock-free and safe against insertion by other threads; insertion takes the table's lock. Ids
 * count from first_id, in order of insertion; equal bytes have equal ids. Bytes and ids live until fini,
 * reset or restart, which must not run concurrently with anything else. A closed table still allows lookups,
 * but no insertions.
 */
#ifndef MTP_BASE_INTERN_H
#define MTP_BASE_INTERN_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTP__INTERN_SEGMENTS 24

typedef struct mtp__intern_entry {
    uint64_t hash;
    const unsigned char *bytes; /* borrowed from the arena; NUL-terminated */
    size_t length;
} mtp__intern_entry;

typedef struct mtp__intern mtp__intern;

/* Called under the table's lock, before the id is visible. false: the id is not assigned. */
typedef int mtp__intern_added(void *user, const mtp__intern *table, uint32_t id, const void *bytes,
                              size_t length);

typedef struct mtp__intern_table mtp__intern_table;
typedef struct mtp__intern_block mtp__intern_block;

struct mtp__intern {
    pthread_mutex_t lock;                                       /* rank 3: after registry, before control */
    _Atomic(mtp__intern_table *) table;                         /* owned; pairs: find, acquire */
    _Atomic(mtp__intern_entry *) segment[MTP__INTERN_SEGMENTS]; /* owned; segment k holds 64 << k entries */
    atomic_uint count;
    uint32_t first_id;
    bool closed;               /* lock */
    atomic_bool nearly_full;   /* only a few hundred more may fit; see mtp__intern_is_nearly_full */
    mtp__intern_block *blocks; /* owned: the arena, newest first */
    size_t bytes, limit;       /* of the arena, the tables and the entries */
    mtp__intern_added *added;  /* or NULL */
    void *user;                /* borrowed */
};

void mtp__intern_init(mtp__intern *t, uint32_t first_id, size_t limit, mtp__intern_added *added, void *user);
void mtp__intern_fini(mtp__intern *t);
void mtp__intern_reset(mtp__intern *t);                      /* removes everything; same settings */
void mtp__intern_restart(mtp__intern *t, uint32_t first_id); /* the same, reopened, with ids from first_id */

/* Under the lock: the table assigns no more ids. Returns the one that would have been next; 0: none. */
uint32_t mtp__intern_close(mtp__intern *t);

/* The limit is near: time for a new table, while this one can still take what one record needs. */
static inline bool mtp__intern_is_nearly_full(const mtp__intern *t)
{
    return atomic_load_explicit(&t->nearly_full, memory_order_relaxed);
}

/* The id, or 0: not found (find); out of memory, over the limit, or closed (add). */
uint32_t mtp__intern_find(const mtp__intern *t, uint64_t hash, const void *bytes, size_t length);
uint32_t mtp__intern_add(mtp__intern *t, uint64_t hash, const void *bytes, size_t length);

uint32_t mtp__intern_count(const mtp__intern *t);
const mtp__intern_entry *mtp__intern_get(const mtp__intern *t, uint32_t id); /* NULL: no such id */
#endif
