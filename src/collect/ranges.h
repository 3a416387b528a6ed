/* collect/ranges.h - the open ranges of programs whose calls to end a range do not say which begin they mean.
 *
 * A thread's pushed ranges are on a stack of its own; an end takes the innermost of its owner (a domain). Ranges
 * with a key (NVTX's start and end, ITT's overlapped tasks) may end in any order and on any thread. A scope ends
 * on the thread that began it: one that another thread ends is closed at its own thread's next call, and a mark on
 * the other thread shows when that was.
 *
 * While nothing is recorded, a range is pushed only onto a stack that is not empty. Thus an end never takes the
 * range of another, and programs that are not recorded pay two loads and two branches.
 *
 * Threads: each touches its own stack; keyed ranges are under one lock, which is held across a fork.
 */
#ifndef MTP_COLLECT_RANGES_H
#define MTP_COLLECT_RANGES_H
#include <mtprof.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mtp__range {
    const void *owner; /* borrowed; compared only */
    mtp_token token;   /* 0: begun while nothing was recorded */
    uint32_t level;    /* ranges of the same owner below it */
} mtp__range;

typedef struct mtp__ranges {
    mtp__range *at; /* owned: room of them */
    uint32_t count, room;
    uint32_t lost;  /* pushed when there was no memory: the next ends are theirs */
    uint32_t ended; /* relaxed: keyed ranges of this thread that others have ended; pairs: mtp__range_end */
} mtp__ranges;

typedef struct mtp__range_key {
    uint64_t word[4];
} mtp__range_key;

/* Of the calling thread; NULL: it has none yet. */
extern _Thread_local mtp__ranges *mtp__ranges_mine
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

void mtp__ranges_init(void); /* once per process, before the rest */

/* Before a range begins: what others have ended of this thread's ends now, not inside the new one. */
void mtp__ranges_end_late(mtp__ranges *mine);
static inline void mtp__ranges_settle(void)
{
    mtp__ranges *mine = mtp__ranges_mine;
    if (__builtin_expect(mine != NULL && __atomic_load_n(&mine->ended, __ATOMIC_RELAXED) != 0, 0))
        mtp__ranges_end_late(mine);
}

/* Both return the range's level among its owner's. The token of a push was begun after mtp__ranges_settle. */
int mtp__ranges_push(const void *owner, mtp_token token);
int mtp__ranges_pop(const void *owner); /* -1: none is open */

/* Begun while nothing is recorded. -1: not tracked. */
static inline int mtp__ranges_skip(const void *owner)
{
    const mtp__ranges *mine = mtp__ranges_mine;
    return __builtin_expect(mine != NULL && mine->count + mine->lost > 0, 0) ? mtp__ranges_push(owner, 0)
                                                                             : -1;
}

static inline int mtp__ranges_end(const void *owner)
{
    return mtp__ranges_mine != NULL ? mtp__ranges_pop(owner) : -1;
}

/* A range that is already open under this key stays open below the new one. */
void mtp__range_start(const mtp__range_key *key, mtp_token token, uint32_t name);
void mtp__range_end(const mtp__range_key *key);

/* ---------------------------------------------------------------------------------------------- names */

/* "domain::text", or the text alone if the domain has no name. Kept for the life of the process. */
uint32_t mtp__range_name(const char *domain, const char *text);
/* UTF-8 of a wide string. `at` has room for `room` bytes; a longer text is cut at a character. */
void mtp__range_narrow(const wchar_t *wide, char *at, size_t room);
#endif
