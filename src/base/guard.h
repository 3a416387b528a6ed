/* base/guard.h - a stretch of a thread's run that is neither cancelled nor interrupted.
 *
 * A lock is held only inside one: a handler that forks or jumps away, or pthread_cancel, would leave it locked for good.
 * Guards nest; only the outermost costs anything (two system calls), so they are for cold code. Signals that the code
 * itself may cause (SIGSEGV, SIGBUS, ...) are let through.
 */
#ifndef MTP_BASE_GUARD_H
#define MTP_BASE_GUARD_H
#include <pthread.h>
#include <stdbool.h>

void mtp__guard_enter(void);
void mtp__guard_leave(void);
bool mtp__guard_inside(void); /* this thread is in one: it may hold locks */

/* The rest of the block is no cancellation point. Signals are taken as ever: for calls that may take long. */
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
