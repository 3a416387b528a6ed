#define _GNU_SOURCE
#include "base/clock.h"
#include <mtprof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static _Atomic(mtp__clock_hook *) hook;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool tsc;
static mtp__anchor first; /* the oldest reading of this process: the long end of the estimate */

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void probe(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d = 0;
    tsc = __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d >> 8 & 1u) != 0;
#endif
    mtp__clock_anchor(&first);
}

/* Early, so that by the first start the estimate has some length. */
static __attribute__((constructor)) void probe_at_load(void)
{
    pthread_once(&once, probe);
}

bool mtp__clock_is_tsc(void)
{
    pthread_once(&once, probe);
    return tsc;
}

void mtp__clock_hook_set(mtp__clock_hook *to)
{
    atomic_store(&hook, to);
}

bool mtp__clock_hooked(void)
{
    return atomic_load_explicit(&hook, memory_order_relaxed) != NULL;
}

static uint64_t ticks_now(void)
{
    mtp__clock_hook *h = atomic_load_explicit(&hook, memory_order_relaxed);
    if (h != NULL)
        return h();
#if defined(__x86_64__)
    if (tsc)
        return __rdtsc();
#endif
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t mtp__clock_ticks_slow(void)
{
    pthread_once(&once, probe);
    return ticks_now();
}

/* The narrowest of a few brackets: the wider ones were interrupted. */
void mtp__clock_anchor(mtp__anchor *out)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = read_clock(CLOCK_MONOTONIC), t0 = ticks_now();
        uint64_t real = read_clock(CLOCK_REALTIME), raw = read_clock(CLOCK_MONOTONIC_RAW);
        uint64_t t1 = ticks_now(), after = read_clock(CLOCK_MONOTONIC);
        if (after - before >= best)
            continue;
        best = after - before;
        *out = (mtp__anchor){t0 + (t1 - t0) / 2, before + best / 2, real, raw, best};
    }
}

double mtp__clock_ticks_per_ns(void)
{
    if (!mtp__clock_is_tsc())
        return 1.0;
    mtp__anchor now;
    do { /* short of 2 ms the estimate is poor: wait for it, once in a process */
        mtp__clock_anchor(&now);
    } while (now.monotonic_ns - first.monotonic_ns < 2000000u);
    return (double)(now.ticks - first.ticks) / (double)(now.monotonic_ns - first.monotonic_ns);
}

uint64_t mtp_ticks(void)
{
    return mtp__clock_ticks_slow();
}

uint64_t mtp_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}
