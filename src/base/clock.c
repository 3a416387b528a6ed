#define _GNU_SOURCE
#include "base/clock.h"
#include <errno.h>
#include <mtprof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/guard.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define LENGTH_NS 2000000u           /* over a shorter time an estimate of the rate is poor */
#define PATIENCE_NS (10 * LENGTH_NS) /* of CLOCK_MONOTONIC_RAW, if CLOCK_MONOTONIC does not advance */
#define READINGS_MAX 50000           /* about 100 ms, if no clock advances */
#define COUNTER_LEAST_HZ 12000000u

static _Atomic(mtp__clock_hook *) hook;
static _Atomic(mtp__clock_system_hook *) system_hook;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool counter;   /* ticks are the processor's */
static bool forbidden; /* it exists, but reading it would kill the process */
static const char *name = "CLOCK_MONOTONIC";
static mtp__anchor
    first; /* the oldest sample that newer ones agree with: the long baseline of the estimate */
static _Atomic double fallback_rate; /* 0: the clocks are sound */

/* The C library reads the counter itself, without entering the kernel: where that is forbidden, call the
 * kernel. */
static uint64_t read_clock(clockid_t id)
{
    mtp__clock_system_hook *h = atomic_load_explicit(&system_hook, memory_order_relaxed);
    if (__builtin_expect(h != NULL, 0))
        return h(id);
    struct timespec t = {0};
    if (__builtin_expect(forbidden, 0))
        syscall(SYS_clock_gettime, id, &t);
    else
        clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined(__x86_64__) || defined(__aarch64__)
/* If a sandbox forbids asking, assume it is forbidden: a slower clock is better than SIGSEGV. EINVAL: a
 * kernel that cannot forbid it: on arm64, one before 6.12. */
static bool is_forbidden(void)
{
    int mode = PR_TSC_ENABLE, before = errno;
    bool unknown = prctl(PR_GET_TSC, &mode, 0, 0, 0) != 0 && errno != EINVAL;
    errno = before;
    return unknown || mode != PR_TSC_ENABLE;
}

#define FORBIDDEN                                                                                            \
    "CLOCK_MONOTONIC, by system calls: the process may not read the processor's counter (PR_SET_TSC)"
#endif

#if defined(__x86_64__)
static void find_counter(void)
{
    unsigned a, b, c, d = 0;
    bool there = __get_cpuid(1, &a, &b, &c, &d) && (d >> 4 & 1u) != 0;
    bool invariant = __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d >> 8 & 1u) != 0;
    forbidden = is_forbidden();
    counter = there && invariant && !forbidden;
    name = counter     ? "TSC"
           : forbidden ? FORBIDDEN
                       : "CLOCK_MONOTONIC: the TSC of this machine is not invariant";
}
#elif defined(__aarch64__)
/* All processors have it: one counter for all cores, at a constant rate, also in virtual machines; where it has
 * errata, the kernel emulates it. Firmware states the rate. We measure it, and only need to know whether it is
 * one that readers accept (ticks.c: RATE_MAX). CLOCK_MONOTONIC is no finer than a counter of a few MHz, which it
 * is made of, but it is in nanoseconds. */
static void find_counter(void)
{
    uint64_t hz;
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    hz &= UINT32_MAX; /* the other half is reserved */
    forbidden = is_forbidden();
    counter = hz >= COUNTER_LEAST_HZ && !forbidden;
    name = counter     ? "CNTVCT_EL0"
           : forbidden ? FORBIDDEN
                       : "CLOCK_MONOTONIC: the counter of this machine is too slow (CNTFRQ_EL0)";
}
#else
static void find_counter(void)
{
    name = "CLOCK_MONOTONIC: mtprof knows no counter of this kind of processor";
}
#endif

void mtp__clock_probe(void)
{
    find_counter();
    atomic_store(&fallback_rate, 0);
    mtp__clock_anchor(&first);
}

/* Early, so that the estimate has some length by the first start. */
static __attribute__((constructor)) void probe_at_load(void)
{
    pthread_once(&once, mtp__clock_probe);
}

bool mtp__clock_is_counter(void)
{
    pthread_once(&once, mtp__clock_probe);
    return counter;
}

const char *mtp_clock_name(void)
{
    pthread_once(&once, mtp__clock_probe);
    return name;
}

void mtp__clock_hook_set(mtp__clock_hook *to)
{
    atomic_store(&hook, to);
}

bool mtp__clock_hooked(void)
{
    return atomic_load_explicit(&hook, memory_order_relaxed) != NULL;
}

void mtp__clock_system_hook_set(mtp__clock_system_hook *to)
{
    atomic_store(&system_hook, to);
}

static uint64_t ticks_now(void)
{
    mtp__clock_hook *h = atomic_load_explicit(&hook, memory_order_relaxed);
    if (h != NULL)
        return h();
#if defined(__x86_64__) || defined(__aarch64__)
    if (counter)
        return mtp__clock_ticks_fast();
#endif
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t mtp__clock_ticks_slow(void)
{
    pthread_once(&once, mtp__clock_probe);
    return ticks_now();
}

/* The narrowest of a few brackets: wider ones were interrupted. A clock that goes back within a bracket makes
 * it the widest. */
void mtp__clock_anchor(mtp__anchor *out)
{
    for (int i = 0; i < 8; i++) {
        uint64_t before = read_clock(CLOCK_MONOTONIC), t0 = ticks_now();
        uint64_t real = read_clock(CLOCK_REALTIME), raw = read_clock(CLOCK_MONOTONIC_RAW);
        uint64_t t1 = ticks_now(), after = read_clock(CLOCK_MONOTONIC);
        uint64_t wide = after >= before ? after - before : before - after;
        if (i == 0 || wide < out->error_ns)
            *out = (mtp__anchor){t0 + (t1 - t0) / 2, after >= before ? before + wide / 2 : after, real, raw,
                                 wide};
    }
}

uint64_t mtp__clock_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE) / 1000000000u;
}

/* ------------------------------------------------------------------------------------------- the rate */

static bool plausible(double ticks_per_ns)
{
    return ticks_per_ns > 0.01 && ticks_per_ns < 100.0;
}

/* Two system clocks over one interval: one may be slewed, by at most 10 %, and neither jumps. */
static bool agree(uint64_t ns, uint64_t raw)
{
    uint64_t apart = ns > raw ? ns - raw : raw - ns;
    return ns < (uint64_t)1 << 62 && raw < (uint64_t)1 << 62 && apart <= raw / 8 + 50000;
}

static double rate_between(const mtp__anchor *a, const mtp__anchor *b, uint64_t ns)
{
    return ns > 0 && b->ticks > a->ticks ? (double)(b->ticks - a->ticks) / (double)ns : 0;
}

/* No readable clock works, but the kernel's own may: it times sleeping. Sleeps are too long, never too short,
 * so the shortest counts: accurate to a few percent. */
static double rate_by_sleeping(void)
{
    MTP__UNCANCELLED;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        struct timespec left = {0, 2 * LENGTH_NS};
        uint64_t before = ticks_now();
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
            ;
        uint64_t took = ticks_now() - before;
        least = took < least ? took : least;
    }
    return (double)least / (2 * LENGTH_NS);
}

/* CLOCK_MONOTONIC is unusable. */
static double find_fallback(const mtp__anchor *from, const mtp__anchor *now)
{
    uint64_t raw = now->raw_ns - from->raw_ns;
    double rate = raw >= LENGTH_NS && raw < (uint64_t)1 << 62 ? rate_between(from, now, raw) : 0;
    if (!plausible(rate))
        rate = rate_by_sleeping();
    return plausible(rate) ? rate : 1.0;
}

/* Without a counter, records use CLOCK_MONOTONIC as it is: all we can do is report that it is unreliable. */
static void watch_monotonic(void)
{
    mtp__anchor now;
    mtp__clock_anchor(&now);
    uint64_t raw = now.raw_ns - first.raw_ns;
    if (raw >= LENGTH_NS && !agree(now.monotonic_ns - first.monotonic_ns, raw))
        atomic_store(&fallback_rate, 1.0);
}

double mtp__clock_ticks_per_ns(void)
{
    int before = errno;
    double rate = atomic_load(&fallback_rate);
    if (rate != 0)
        return rate;
    if (mtp__clock_hooked())
        return 1.0;
    if (!mtp__clock_is_counter()) {
        watch_monotonic();
        return 1.0;
    }
    mtp__anchor now, began;
    mtp__clock_anchor(&began);
    if (!agree(began.monotonic_ns - first.monotonic_ns, began.raw_ns - first.raw_ns))
        first = began;                       /* a clock jumped in between: start over */
    for (int i = 0; i < READINGS_MAX; i++) { /* once per process, wait until the estimate is good */
        mtp__clock_anchor(&now);
        uint64_t ns = now.monotonic_ns - first.monotonic_ns, raw = now.raw_ns - first.raw_ns;
        rate = rate_between(&first, &now, ns);
        if (ns >= LENGTH_NS && agree(ns, raw) && plausible(rate))
            return rate;
        if (now.raw_ns - began.raw_ns >= PATIENCE_NS)
            break;
    }
    rate = find_fallback(&began, &now);
    atomic_store(&fallback_rate, rate);
    errno = before;
    return rate;
}

const char *mtp__clock_trouble(void)
{
    if (atomic_load(&fallback_rate) == 0)
        return NULL;
    return mtp__clock_is_counter()
               ? "the system's clock (CLOCK_MONOTONIC) stands still or jumps: times come "
                 "from the processor's "
                 "counter only, and may be off by a percent"
               : "the system's clock (CLOCK_MONOTONIC) stands still or jumps, and there is "
                 "no other: "
                 "times may be wrong";
}

uint64_t mtp_ticks(void)
{
    return mtp__clock_ticks_slow();
}

uint64_t mtp_now_ns(void)
{
    pthread_once(&once, mtp__clock_probe);
    return read_clock(CLOCK_MONOTONIC);
}
