/* base/grow.h - growing lists: an array, its number of items, and its capacity. */
#ifndef MTP_BASE_GROW_H
#define MTP_BASE_GROW_H
#include <stdbool.h>
#include <stddef.h>

/* Ensures capacity for `need` items, by doubling, at least `first`; new items are zeroed. The first `count`
 * are kept. false: out of memory, or more than `room` can count; the list is unchanged.
 *
 *     if (!MTP__GROW(s->node, s->room, s->count, s->count + 1, 64))
 *         return false;
 *     s->node[s->count++] = node;
 */
#define MTP__GROW(items, room, count, need, first)                                                           \
    ((size_t)(need) <= (size_t)(room) ||                                                                     \
     mtp__grow((void **)(void *)&(items), sizeof *(items), (count), &(room), sizeof(room), (need), (first)))
bool mtp__grow(void **items, size_t size, size_t count, void *room, size_t room_size, size_t need,
               size_t first);
#endif
