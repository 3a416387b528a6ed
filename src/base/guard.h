/* base/guard.h - a section that is neither cancelled nor interrupted by signals.
 *
 * Locks are held only inside one: a handler that forks or jumps away, or pthread_cancel, would leave them
 * locked forever. Guards nest; only the outermost costs anything (two system calls), so they are for cold
 * code. Signals that the code itself may cause (SIGSEGV, SIGBUS, ...) are not blocked.
 */
#ifndef MTP_BASE_GUARD_H
#define MTP_BASE_GUARD_H
#include <pthread.h>
#include <stdbool.h>

void mtp__guard_enter(void);
void mtp__guard_leave(void);
bool mtp__guard_inside(void); /* this thread is in one, and may hold locks */

/* The rest of the block, also if an exception of a C++ program's callback ends it. */
#define MTP__GUARDED char mtp__guarded __attribute__((cleanup(mtp__guarded_end))) = (mtp__guard_enter(), 0)

static inline void mtp__guarded_end(const char *guarded)
{
    (void)guarded;
    mtp__guard_leave();
}

/* Disables cancellation for the rest of the block, but not signals: for calls that may take long. */
#define MTP__UNCANCELLED                                                                                     \
    int mtp__cancel_before __attribute__((cleanup(mtp__cancel_restore))) = mtp__cancel_off()

static inline int mtp__cancel_off(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void mtp__cancel_restore(const int *before)
{
    int now;
    pthread_setcancelstate(*before, &now);
}
#endif
