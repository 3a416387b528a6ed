/* base/hash_map.h - maps keys of whole words to values: open addressing, about half full at most, growing. One
 * thread at a time.
 *
 * The size of the key, in bytes, a multiple of 8 without padding, and of the value are the same in all calls
 * for one map. They are constants there, so the compiler makes a loop for each kind of map:
 *
 *     place *at = mtp__hash_map_put(&places, &address, sizeof address, sizeof *at, &is_new);
 *
 * Values are zeroed when added, and stay where they are until the next put or reserve.
 */
#ifndef MTP_BASE_HASH_MAP_H
#define MTP_BASE_HASH_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/hash.h"

typedef struct mtp__hash_map { /* {0} is empty */
    uint64_t *slot; /* owned: key and value; free if the key is 0. The key 0 has one after the last */
    size_t mask, count;
    bool has_zero; /* the key 0 */
    bool in_pages; /* set before the first call: for use inside a record (mtp__page_calloc) */
} mtp__hash_map;

void mtp__hash_map_fini(mtp__hash_map *m); /* empty again */

/* Room for `count` keys in all: so many can then be added without failing. false: out of memory, unchanged. */
bool mtp__hash_map_reserve(mtp__hash_map *m, size_t count, size_t key_bytes, size_t value_bytes);

/* All values, in an order that only the keys decide; NULL: no more. *at is 0 at first. */
void *mtp__hash_map_next(const mtp__hash_map *m, size_t *at, size_t key_bytes, size_t value_bytes);

static inline size_t mtp__hash_map_words(size_t key_bytes, size_t value_bytes) /* of a slot */
{
    return (key_bytes + value_bytes + 7) / 8;
}

static inline uint64_t mtp__hash_map_word(const void *key, size_t i)
{
    uint64_t word;
    memcpy(&word, (const char *)key + i * 8, sizeof word);
    return word;
}

static inline bool mtp__hash_map_is_zero(const void *key, size_t key_bytes)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < key_bytes / 8; i++)
        bits |= mtp__hash_map_word(key, i);
    return bits == 0;
}

/* The slot of a key, or the free one for it. */
static inline uint64_t *mtp__hash_map_slot(const mtp__hash_map *m, const void *key, size_t key_bytes,
                                           size_t words, bool *is_free)
{
    if (__builtin_expect(mtp__hash_map_is_zero(key, key_bytes), 0)) {
        *is_free = !m->has_zero;
        return m->slot + (m->mask + 1) * words;
    }
    uint64_t hash = MTP__HASH_K1;
    for (size_t i = 0; i < key_bytes / 8; i++)
        hash = mtp__hash_mix(hash, mtp__hash_map_word(key, i));
    for (size_t at = hash & m->mask;; at = (at + 1) & m->mask) {
        uint64_t *slot = m->slot + at * words, differing = 0;
        for (size_t i = 0; i < key_bytes / 8; i++)
            differing |= slot[i] ^ mtp__hash_map_word(key, i);
        *is_free = mtp__hash_map_is_zero(slot, key_bytes);
        if (*is_free || differing == 0)
            return slot;
    }
}

/* Its value; NULL: absent. */
static inline void *mtp__hash_map_find(const mtp__hash_map *m, const void *key, size_t key_bytes,
                                       size_t value_bytes)
{
    if (m->slot == NULL)
        return NULL;
    bool is_free;
    uint64_t *slot =
        mtp__hash_map_slot(m, key, key_bytes, mtp__hash_map_words(key_bytes, value_bytes), &is_free);
    return is_free ? NULL : slot + key_bytes / 8;
}

/* Its value, added if absent; NULL: out of memory. */
static inline void *mtp__hash_map_put(mtp__hash_map *m, const void *key, size_t key_bytes, size_t value_bytes,
                                      bool *is_new)
{
    if (__builtin_expect(m->slot == NULL || m->count > (m->mask + 1) / 2, 0) &&
        !mtp__hash_map_reserve(m, m->count + 1, key_bytes, value_bytes))
        return NULL;
    uint64_t *slot =
        mtp__hash_map_slot(m, key, key_bytes, mtp__hash_map_words(key_bytes, value_bytes), is_new);
    if (*is_new) {
        m->has_zero |= mtp__hash_map_is_zero(key, key_bytes);
        m->count++;
        memcpy(slot, key, key_bytes);
    }
    return slot + key_bytes / 8;
}
#endif
