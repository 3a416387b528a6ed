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

/* The free slot for a key that is not in the map. */
static uint64_t *free_slot(const mtp__hash_map *m, const void *key, size_t key_bytes, size_t words)
{
    if (mtp__hash_map_is_zero(key, key_bytes))
        return m->slot + (m->mask + 1) * words;
    size_t at = mtp__hash_map_place(m, key, key_bytes);
    while (!mtp__hash_map_is_zero(m->slot + at * words, key_bytes))
        at = (at + 1) & m->mask;
    return m->slot + at * words;
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
    for (size_t i = 0; m->slot != NULL && i <= m->mask; i++) {
        const uint64_t *slot = m->slot + i * words;
        if (!mtp__hash_map_is_zero(slot, key_bytes))
            memcpy(free_slot(&bigger, slot, key_bytes, words), slot, words * 8);
    }
    if (m->has_zero)
        memcpy(bigger.slot + slots * words, m->slot + (m->mask + 1) * words, words * 8);
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

void *mtp__hash_map_add(mtp__hash_map *m, const void *key, size_t key_bytes, size_t value_bytes)
{
    if ((m->slot == NULL || m->count * 2 > m->mask) &&
        !mtp__hash_map_reserve(m, m->count + 1, key_bytes, value_bytes))
        return NULL;
    uint64_t *slot = free_slot(m, key, key_bytes, mtp__hash_map_words(key_bytes, value_bytes));
    memcpy(slot, key, key_bytes);
    m->has_zero |= mtp__hash_map_is_zero(key, key_bytes);
    m->count++;
    return slot + key_bytes / 8;
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
