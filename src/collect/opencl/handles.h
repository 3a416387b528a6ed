/* collect/opencl/handles.h - data about OpenCL handles: a map from pointers to two numbers. Not base/hash_map: the
 * layer sees only public headers, and handles are deleted. */
#ifndef COLLECT_OPENCL_HANDLES_H
#define COLLECT_OPENCL_HANDLES_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct handle {
    const void *key; /* NULL: free; GONE: deleted */
    uint64_t a, b;
} handle;

typedef struct handles {
    pthread_mutex_t lock; /* rank: leaf */
    handle *slots;        /* owned */
    uint32_t room, used;
} handles;
#define HANDLES_INIT                                                                                         \
    {                                                                                                        \
        PTHREAD_MUTEX_INITIALIZER, NULL, 0, 0                                                                \
    }
#define GONE ((const void *)1)

static inline handle *handles_slot(handle *slots, uint32_t room, const void *key, bool make)
{
    uint32_t i = (uint32_t)(((uintptr_t)key >> 4) * 0x9e3779b1u) & (room - 1);
    while (slots[i].key != NULL && slots[i].key != key && !(make && slots[i].key == GONE))
        i = (i + 1) & (room - 1);
    return &slots[i];
}

static inline bool handles_find(handles *h, const void *key, bool take, handle *out)
{
    bool found = false;
    pthread_mutex_lock(&h->lock);
    if (h->room > 0) {
        handle *s = handles_slot(h->slots, h->room, key, false);
        found = s->key == key;
        if (found)
            *out = *s;
        if (found && take)
            s->key = GONE;
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

static inline bool handles_get(handles *h, const void *key, handle *out)
{
    return handles_find(h, key, false, out);
}

static inline bool handles_take(handles *h, const void *key, handle *out)
{
    return handles_find(h, key, true, out);
}

/* If out of memory, the entry is not stored and will be looked up again. */
static inline void handles_put(handles *h, const void *key, uint64_t a, uint64_t b)
{
    pthread_mutex_lock(&h->lock);
    if ((h->used + 1) * 2 > h->room) {
        uint32_t room = h->room > 0 ? h->room * 2 : 256, used = 0;
        handle *slots = calloc(room, sizeof *slots);
        if (slots == NULL) {
            pthread_mutex_unlock(&h->lock);
            return;
        }
        for (uint32_t i = 0; i < h->room; i++)
            if (h->slots[i].key != NULL && h->slots[i].key != GONE) {
                *handles_slot(slots, room, h->slots[i].key, false) = h->slots[i];
                used++;
            }
        free(h->slots);
        h->slots = slots;
        h->room = room;
        h->used = used;
    }
    handle *s = handles_slot(h->slots, h->room, key, false);
    if (s->key != key) {
        s = handles_slot(h->slots, h->room, key, true);
        h->used += s->key == NULL;
    }
    *s = (handle){key, a, b};
    pthread_mutex_unlock(&h->lock);
}

#endif
