/* base/heap.h - a binary heap in an array: the first item comes before all others.
 *
 * To replace the first item, change it and call mtp__heap_down() at 0; to remove it, move the last one there
 * first. The size and the comparison are constants in each call, so that the compiler sees through both.
 */
#ifndef MTP_BASE_HEAP_H
#define MTP_BASE_HEAP_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MTP__HEAP_ITEM_MAX 64 /* bytes */

typedef bool mtp__heap_before(const void *a, const void *b, const void *user);

static inline void mtp__heap_swap(char *a, char *b, size_t size)
{
    char was[MTP__HEAP_ITEM_MAX];
    memcpy(was, a, size);
    memcpy(a, b, size);
    memcpy(b, was, size);
}

/* The item at `at` goes down to where it belongs. */
static inline __attribute__((always_inline)) void
mtp__heap_down(void *items, size_t size, size_t count, size_t at, mtp__heap_before *before, const void *user)
{
    char *item = items;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(item + (child + 1) * size, item + child * size, user))
            child++;
        if (!before(item + child * size, item + at * size, user))
            return;
        mtp__heap_swap(item + child * size, item + at * size, size);
    }
}

/* The item at `at` goes up to where it belongs: after adding it at the end. */
static inline __attribute__((always_inline)) void mtp__heap_up(void *items, size_t size, size_t at,
                                                               mtp__heap_before *before, const void *user)
{
    char *item = items;
    for (; at > 0 && before(item + at * size, item + (at - 1) / 2 * size, user); at = (at - 1) / 2)
        mtp__heap_swap(item + at * size, item + (at - 1) / 2 * size, size);
}

/* Any array becomes a heap. */
static inline __attribute__((always_inline)) void mtp__heap_order(void *items, size_t size, size_t count,
                                                                  mtp__heap_before *before, const void *user)
{
    for (size_t at = count / 2; at-- > 0;)
        mtp__heap_down(items, size, count, at, before, user);
}
#endif
