/* base/pair_map.h - maps two words to one. */
#ifndef MTP_BASE_PAIR_MAP_H
#define MTP_BASE_PAIR_MAP_H
#include "base/hash_map.h"
#include "base/os.h"

typedef mtp__hash_map mtp__pair_map; /* {0} is empty */

static inline void mtp__pair_map_fini(mtp__pair_map *m)
{
    mtp__hash_map_fini(m);
}

/* Its value; NULL: absent. */
static inline uint64_t *mtp__pair_find(const mtp__pair_map *m, uint64_t a, uint64_t b)
{
    const uint64_t key[2] = {a, b};
    return mtp__hash_map_find(m, key, sizeof key, sizeof(uint64_t));
}

/* The existing value, or the new one; NULL: out of memory. Valid until the next put. */
static inline uint64_t *mtp__pair_put(mtp__pair_map *m, uint64_t a, uint64_t b, uint64_t value, bool *is_new)
{
    const uint64_t key[2] = {a, b};
    uint64_t *at = mtp__hash_map_put(m, key, sizeof key, sizeof value, is_new);
    if (at != NULL && *is_new)
        *at = value;
    return at;
}

/* All values, in any order; NULL: no more. *at is 0 at first. */
static inline uint64_t *mtp__pair_next(const mtp__pair_map *m, size_t *at)
{
    return mtp__hash_map_next(m, at, 2 * sizeof(uint64_t), sizeof(uint64_t));
}
#endif
