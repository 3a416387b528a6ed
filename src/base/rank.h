/* base/rank.h - the order in which locks may be taken, checked at run time in the build that tests link.
 *
 * Who makes a lock says its rank, and whose it is. A thread that holds a lock may take those of higher ranks only; else the
 * test build says which two they were, and aborts. Locks of two owners are not compared with each other, as nobody takes both but
 * fork(), one recorder after the other under the registry's lock; a lock without an owner is the process's, and compared with all.
 * Locks without a rank are not looked at. In other builds none of it is there.
 *
 * How: src/meson.build renames pthread_mutex_lock and its like for that build, so that every call in the library is checked,
 * including those that are written tomorrow.
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
unsigned long
mtp__rank_taken(int rank); /* locks of this rank that were taken, so far: for tests of the check itself */
#else
static inline void mtp__rank_set(pthread_mutex_t *lock, int rank, const void *owner)
{
    (void)lock, (void)rank, (void)owner;
}
#endif
#endif
