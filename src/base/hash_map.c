#include "base/hash_map.h"
#include "base/os.h"

#define SLOTS_LEAST ((size_t)16)
#define SLOTS_LEAST_IN_PAGES ((size_t)256)

void mtp__hash_map_fini(mtp__hash_map *m)
{
    if (m->in_pages)
        mtp__page_free(m->slot);
    else
        mtp__free(m->slot);
    *m = (mtp__hash_map){.in_pages = m->in_pages};
}

static inline void move_all(mtp__hash_map *to, const mtp__hash_map *from, size_t key_bytes, size_t words)
{
    bool is_free;
    for (size_t i = 0; from->slot != NULL && i <= from->mask; i++) {
        const uint64_t *slot = from->slot + i * words;
        if (!mtp__hash_map_is_zero(slot, key_bytes))
            memcpy(mtp__hash_map_slot(to, slot, key_bytes, words, &is_free), slot, words * 8);
    }
    if (from->has_zero)
        memcpy(to->slot + (to->mask + 1) * words, from->slot + (from->mask + 1) * words, words * 8);
}

static bool resize(mtp__hash_map *m, size_t slots, size_t key_bytes, size_t words)
{
    mtp__hash_map bigger = *m;
    bigger.mask = slots - 1;
    if (slots >= PTRDIFF_MAX / (words * 8))
        return false;
    bigger.slot = m->in_pages ? mtp__page_calloc(slots + 1, words * 8) : mtp__calloc(slots + 1, words * 8);
    if (bigger.slot == NULL)
        return false;
    if (key_bytes == 8 && words == 2) /* the common kinds, with constants */
        move_all(&bigger, m, 8, 2);
    else if (key_bytes == 16 && words == 3)
        move_all(&bigger, m, 16, 3);
    else
        move_all(&bigger, m, key_bytes, words);
    mtp__hash_map_fini(m);
    *m = bigger;
    return true;
}

bool mtp__hash_map_reserve(mtp__hash_map *m, size_t count, size_t key_bytes, size_t value_bytes)
{
    size_t slots = m->slot != NULL ? m->mask + 1 : m->in_pages ? SLOTS_LEAST_IN_PAGES : SLOTS_LEAST;
    while (slots / 2 < count) {
        if (slots > SIZE_MAX / 2)
            return false;
        slots *= 2;
    }
    return (m->slot != NULL && slots == m->mask + 1) ||
           resize(m, slots, key_bytes, mtp__hash_map_words(key_bytes, value_bytes));
}

void *mtp__hash_map_next(const mtp__hash_map *m, size_t *at, size_t key_bytes, size_t value_bytes)
{
    const size_t words = mtp__hash_map_words(key_bytes, value_bytes);
    while (m->slot != NULL && *at <= m->mask + 1) {
        uint64_t *slot = m->slot + (*at)++ * words;
        if (*at <= m->mask + 1 ? !mtp__hash_map_is_zero(slot, key_bytes) : m->has_zero)
            return slot + key_bytes / 8;
    }
    return NULL;
}
