/* base/sigbus.c - see sigbus.h. */
#define _GNU_SOURCE
#include "base/sigbus.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/guard.h"

#define RANGES 16

/* `at` is stored last, with release, and pairs with the handler's acquire. */
static struct range {
    _Atomic uintptr_t at; /* 0: free */
    _Atomic size_t bytes;
    _Atomic(atomic_int *) lost;
} ranges[RANGES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rank 6: no lock is taken under it */
static struct sigaction before; /* under the lock; valid while our handler may be called */
static bool installed;          /* under the lock */
static _Atomic uintptr_t page_bytes;
static _Thread_local volatile sig_atomic_t
    passing; /* a handler that we call may call us: it was installed over ours */

/* Maps a page in place of the one that the file lost. */
static bool mend(uintptr_t address)
{
    for (int i = 0; i < RANGES; i++) {
        uintptr_t at = atomic_load_explicit(&ranges[i].at, memory_order_acquire);
        if (at == 0 || address < at || address - at >= atomic_load(&ranges[i].bytes))
            continue;
        uintptr_t page = address & ~(atomic_load(&page_bytes) - 1);
        /* the page's own address, given to us by the kernel: NOLINTNEXTLINE(performance-no-int-to-ptr) */
        void *p = mmap((void *)page, atomic_load(&page_bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (p == MAP_FAILED)
            return false;
        atomic_int *lost = atomic_load(&ranges[i].lost);
        if (lost != NULL)
            atomic_store(lost, 1);
        return true;
    }
    return false;
}

/* What would have happened without us. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    bool again = passing != 0;
    passing = 1;
    if (!again && (before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(signal, info, context);
    } else if (!again && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else if (again || info->si_code > 0 || before.sa_handler == SIG_DFL) {
        struct sigaction end = {.sa_handler =
                                    SIG_DFL}; /* the access is repeated, and kills the program there */
        sigaction(SIGBUS, &end, NULL);
        if (info->si_code <= 0)
            raise(SIGBUS); /* it was sent, not raised by an access */
    }
    passing = again;
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    int its_errno = errno;
    if (info->si_code <= 0 || !mend((uintptr_t)info->si_addr))
        pass_on(signal, info, context);
    errno = its_errno;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == on_bus_error;
}

/* Under the lock. If the program's own handler was installed over ours and calls ours, `before` is
 * unchanged. */
static void install(void)
{
    const char *wanted = getenv("MTPROF_SIGBUS");
    struct sigaction now, ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (installed || (wanted != NULL && strcmp(wanted, "0") == 0) || sigaction(SIGBUS, NULL, &now) != 0)
        return;
    atomic_store(&page_bytes, (uintptr_t)sysconf(_SC_PAGESIZE));
    sigemptyset(&ours.sa_mask);
    if (!is_ours(&now))
        before = now;
    installed = is_ours(&now) || sigaction(SIGBUS, &ours, NULL) == 0;
}

static void uninstall(void)
{
    struct sigaction now;
    for (int i = 0; i < RANGES; i++)
        if (atomic_load(&ranges[i].at) != 0)
            return;
    if (installed && sigaction(SIGBUS, NULL, &now) == 0 && is_ours(&now))
        sigaction(SIGBUS, &before, NULL);
    installed = false;
}

void mtp__sigbus_add(void *at, size_t bytes, atomic_int *lost)
{
    mtp__guard_enter();
    pthread_mutex_lock(&lock);
    install();
    for (int i = 0; i < RANGES; i++)
        if (atomic_load(&ranges[i].at) == 0) {
            atomic_store(&ranges[i].bytes, bytes);
            atomic_store(&ranges[i].lost, lost);
            atomic_store_explicit(&ranges[i].at, (uintptr_t)at, memory_order_release);
            break;
        }
    pthread_mutex_unlock(&lock);
    mtp__guard_leave();
}

void mtp__sigbus_forked(void)
{
    pthread_mutex_init(&lock, NULL); /* its holder does not exist here */
}

void mtp__sigbus_remove(void *at)
{
    if (at == NULL)
        return;
    mtp__guard_enter();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RANGES; i++)
        if (atomic_load(&ranges[i].at) == (uintptr_t)at)
            atomic_store(&ranges[i].at, 0);
    uninstall();
    pthread_mutex_unlock(&lock);
    mtp__guard_leave();
}
