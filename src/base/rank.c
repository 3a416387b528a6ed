/* base/rank.c - see rank.h. The table of ranks (its own: base/hash_map may not change under readers) is read
 * without a lock and synchronises nothing between threads, so that TSan still sees the library's own races. A
 * mutex has one creator, so two threads never set or remove the same one. */
#ifdef MTP__TESTING
#undef pthread_mutex_lock /* the real functions from here on */
#undef pthread_mutex_trylock
#undef pthread_mutex_unlock
#undef pthread_mutex_init
#undef pthread_mutex_destroy
#include "base/rank.h"
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 8192u /* locks alive at one time, of many profiles */
#define HELD_MAX 256
#define RANKS 64

int mtp__ranked_lock(pthread_mutex_t *lock);
int mtp__ranked_trylock(pthread_mutex_t *lock);
int mtp__ranked_unlock(pthread_mutex_t *lock);
int mtp__ranked_init(pthread_mutex_t *lock, const pthread_mutexattr_t *how);
int mtp__ranked_destroy(pthread_mutex_t *lock);

typedef struct ranked {
    _Atomic uintptr_t lock; /* 0: never used; 1: removed */
    _Atomic uintptr_t owner;
    atomic_int rank;
} ranked;

static ranked table[SLOTS];
static atomic_ulong taken[RANKS];

static _Thread_local struct {
    const ranked *of[HELD_MAX];
    unsigned count;
} held;

static size_t place_of(uintptr_t lock)
{
    return (lock >> 3) * 0x9e3779b97f4a7c15u >> 40 & (SLOTS - 1);
}

static ranked *find(const pthread_mutex_t *lock)
{
    uintptr_t key = (uintptr_t)lock, there;
    for (size_t at = place_of(key), n = 0; n < SLOTS; at = (at + 1) & (SLOTS - 1), n++)
        if ((there = atomic_load_explicit(&table[at].lock, memory_order_relaxed)) == key)
            return &table[at];
        else if (there == 0)
            return NULL;
    return NULL;
}

void mtp__rank_set(pthread_mutex_t *lock, int rank, const void *owner)
{
    ranked *r = find(lock);
    for (size_t at = place_of((uintptr_t)lock), n = 0; r == NULL && n < SLOTS;
         at = (at + 1) & (SLOTS - 1), n++) {
        uintptr_t free_slot = atomic_load_explicit(&table[at].lock, memory_order_relaxed);
        if (free_slot <= 1 &&
            atomic_compare_exchange_strong_explicit(&table[at].lock, &free_slot, (uintptr_t)lock,
                                                    memory_order_relaxed, memory_order_relaxed))
            r = &table[at];
    }
    if (r == NULL)
        return; /* more than we track: not checked */
    atomic_store_explicit(&r->owner, (uintptr_t)owner, memory_order_relaxed);
    atomic_store_explicit(&r->rank, rank, memory_order_relaxed);
}

unsigned long mtp__rank_taken(int rank)
{
    return atomic_load_explicit(&taken[rank], memory_order_relaxed);
}

static void check(const ranked *r)
{
    int rank = atomic_load_explicit(&r->rank, memory_order_relaxed);
    uintptr_t owner = atomic_load_explicit(&r->owner, memory_order_relaxed);
    for (unsigned i = 0; i < held.count; i++) {
        int other = atomic_load_explicit(&held.of[i]->rank, memory_order_relaxed);
        uintptr_t its_owner = atomic_load_explicit(&held.of[i]->owner, memory_order_relaxed);
        if (other < rank || (owner != 0 && its_owner != 0 && owner != its_owner))
            continue;
        fprintf(stderr, "locks: one of rank %d is taken by a thread that holds one of rank %d\n", rank,
                other);
        abort();
    }
}

static void note(const ranked *r)
{
    if (held.count < HELD_MAX)
        held.of[held.count++] = r;
    atomic_fetch_add_explicit(&taken[atomic_load_explicit(&r->rank, memory_order_relaxed) % RANKS], 1,
                              memory_order_relaxed);
}

int mtp__ranked_lock(pthread_mutex_t *lock)
{
    const ranked *r = find(lock);
    if (r != NULL)
        check(r);
    int status = pthread_mutex_lock(lock);
    if (r != NULL && status == 0)
        note(r);
    return status;
}

/* It does not block, so any order is fine. */
int mtp__ranked_trylock(pthread_mutex_t *lock)
{
    const ranked *r = find(lock);
    int status = pthread_mutex_trylock(lock);
    if (r != NULL && status == 0)
        note(r);
    return status;
}

int mtp__ranked_unlock(pthread_mutex_t *lock)
{
    const ranked *r = find(lock);
    for (unsigned i = held.count; r != NULL && i > 0; i--)
        if (held.of[i - 1] == r) {
            for (held.count--; i <= held.count; i++)
                held.of[i - 1] = held.of[i];
            break;
        }
    return pthread_mutex_unlock(lock);
}

static void forget(pthread_mutex_t *lock)
{
    ranked *r = find(lock);
    if (r != NULL)
        atomic_store_explicit(&r->lock, 1, memory_order_relaxed);
}

int mtp__ranked_init(pthread_mutex_t *lock, const pthread_mutexattr_t *how)
{
    forget(lock);
    return pthread_mutex_init(lock, how);
}

int mtp__ranked_destroy(pthread_mutex_t *lock)
{
    forget(lock);
    return pthread_mutex_destroy(lock);
}
#else
typedef int mtp__rank_nothing; /* a C file must not be empty */
#endif
