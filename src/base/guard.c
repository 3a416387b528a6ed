/* base/guard.c - see guard.h. Uses the system call with its one-word mask: a sigset_t is 16 times larger, and
 * thread-local storage is scarce. */
#define _GNU_SOURCE
#include "base/guard.h"
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(signal) ((uint64_t)1 << ((signal)-1))
#define LIBC_SIGNALS (BIT(32) | BIT(33)) /* of pthread_cancel and setuid: libc waits for them */
#define LET_THROUGH                                                                                          \
    (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGSYS) | LIBC_SIGNALS)

static _Thread_local struct {
    uint64_t signals; /* blocked before */
    uint32_t depth;
    int cancel; /* state before */
} self __attribute__((tls_model("initial-exec")));

static void set_mask(int how, uint64_t signals, uint64_t *before)
{
    syscall(SYS_rt_sigprocmask, how, &signals, before, sizeof signals);
}

/* A handler that runs here has either left its own guards by the time we resume, or runs after ours. */
void mtp__guard_enter(void)
{
    if (self.depth == 0) {
        uint64_t before = 0;
        set_mask(SIG_BLOCK, ~LET_THROUGH, &before);
        self.signals = before;
        self.cancel = mtp__cancel_off();
    }
    self.depth++;
}

void mtp__guard_leave(void)
{
    if (--self.depth == 0) {
        uint64_t before = self.signals;
        mtp__cancel_restore(&self.cancel);
        set_mask(SIG_SETMASK, before, NULL);
    }
}

bool mtp__guard_inside(void)
{
    return self.depth > 0;
}
