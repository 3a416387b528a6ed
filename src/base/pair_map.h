/* base/pair_map.h - maps two words to one: open addressing, growing. */
#ifndef MTP_BASE_PAIR_MAP_H
#define MTP_BASE_PAIR_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/hash.h"
#include "base/os.h"

typedef struct mtp__pair_slot {
    uint64_t a, b, value;
    uint64_t used; /* 0: free */
} mtp__pair_slot;

typedef struct mtp__pair_map { /* {0} is empty */
    mtp__pair_slot *slot;      /* owned */
    size_t mask, count;
} mtp__pair_map;

static inline void mtp__pair_map_fini(mtp__pair_map *m)
{
    mtp__free(m->slot);
    m->slot = NULL;
}

static inline mtp__pair_slot *mtp__pair_at(const mtp__pair_map *m, uint64_t a, uint64_t b)
{
    size_t at = mtp__hash_mix(mtp__hash_mix(a, MTP__HASH_K1), b) & m->mask;
    while (m->slot[at].used != 0 && (m->slot[at].a != a || m->slot[at].b != b))
        at = (at + 1) & m->mask;
    return &m->slot[at];
}

/* Its value; NULL: absent. */
static inline uint64_t *mtp__pair_find(const mtp__pair_map *m, uint64_t a, uint64_t b)
{
    mtp__pair_slot *s = m->slot != NULL ? mtp__pair_at(m, a, b) : NULL;
    return s != NULL && s->used != 0 ? &s->value : NULL;
}

static inline bool mtp__pair_grow(mtp__pair_map *m)
{
    mtp__pair_map bigger = {NULL, m->slot != NULL ? m->mask * 2 + 1 : 63, m->count};
    bigger.slot = mtp__calloc(bigger.mask + 1, sizeof *bigger.slot);
    if (bigger.slot == NULL)
        return false;
    for (size_t i = 0; m->slot != NULL && i <= m->mask; i++)
        if (m->slot[i].used != 0)
            *mtp__pair_at(&bigger, m->slot[i].a, m->slot[i].b) = m->slot[i];
    mtp__free(m->slot);
    *m = bigger;
    return true;
}

/* The existing value, or the new one; NULL: out of memory. Valid until the next put. */
static inline uint64_t *mtp__pair_put(mtp__pair_map *m, uint64_t a, uint64_t b, uint64_t value, bool *is_new)
{
    if ((m->slot == NULL || m->count * 2 > m->mask) && !mtp__pair_grow(m))
        return NULL;
    mtp__pair_slot *s = mtp__pair_at(m, a, b);
    *is_new = s->used == 0;
    if (*is_new) {
        *s = (mtp__pair_slot){a, b, value, 1};
        m->count++;
    }
    return &s->value;
}
#endif
