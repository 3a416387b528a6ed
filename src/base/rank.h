/* base/rank.h - the order in which locks may be taken, checked at run time in the build that tests link.
 *
 * The creator of a lock sets its rank and its owner. A thread that holds a lock may only take locks of higher
 * ranks; otherwise the test build names the two and aborts. Locks of different owners are not compared, as
 * only fork() takes both, one recorder after the other under the registry's lock; a lock without an owner
 * belongs to the process, and is compared with all. Locks without a rank are ignored. Other builds contain
 * none of this.
 *
 * How: src/meson.build renames pthread_mutex_lock and friends for that build, so that every call in the
 * library is checked, including future ones.
 */
#ifndef MTP_BASE_RANK_H
#define MTP_BASE_RANK_H
#include <pthread.h>

/* X(symbol, rank), in the order of docs/ARCHITECTURE.md. A session's tables follow TABLES, one each. */
#define MTP__RANK_LIST(X) X(REGISTRY, 20) X(NAMES, 30) X(TABLES, 31) X(CONTROL, 50) X(POOL, 60)
#define X(sym, value) MTP__RANK_##sym = (value),
typedef enum mtp__rank {
    MTP__RANK_LIST(X)
} mtp__rank;
#undef X

#ifdef MTP__TESTING
void mtp__rank_set(pthread_mutex_t *lock, int rank, const void *owner); /* until the lock is destroyed */
unsigned long mtp__rank_taken(int rank); /* locks of this rank taken so far: to test the check itself */
#else
static inline void mtp__rank_set(pthread_mutex_t *lock, int rank, const void *owner)
{
    (void)lock, (void)rank, (void)owner;
}
#endif
#endif
