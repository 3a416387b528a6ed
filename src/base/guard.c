/* base/guard.c - see guard.h. By the system call and its mask of one word: a sigset_t is 16 times that, and
 * thread-local room is scarce. */
#define _GNU_SOURCE
#include "base/guard.h"
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(signal) ((uint64_t)1 << ((signal)-1))
#define LIBC_SIGNALS (BIT(32) | BIT(33)) /* of pthread_cancel and setuid: it waits for threads to take them */
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

/* A handler that strikes in here either has left its own guards by the time we go on, or comes after ours. */
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
