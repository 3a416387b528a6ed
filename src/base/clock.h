/* base/clock.h - ticks, and their conversion to nanoseconds.
 *
 * Ticks are the processor's counter where it has a usable one and the process may read it, else nanoseconds
 * of CLOCK_MONOTONIC: on x86-64 the TSC, if it is invariant; on arm64 the virtual counter, CNTVCT_EL0. A tick
 * is read raw on the hot path; anchors (the same instant read from all clocks) are stored periodically, and
 * conversion is done later, between the anchors around an instant.
 *
 * A TSC counts cycles, a few per nanosecond. The counters of arm64 processors count at 1 GHz, or, in older
 * ones, at 19 to 100 MHz: there a tick is longer than a scope, so scopes of length 0 and records with equal
 * ticks are common. The order within a stream is that of its records, never that of their ticks.
 *
 * prctl(PR_GET_TSC) is checked once, when the library is loaded. The kernel keeps the setting per thread and
 * does not notify of changes: a thread that forbids itself the counter later must not record.
 */
#ifndef MTP_BASE_CLOCK_H
#define MTP_BASE_CLOCK_H
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct mtp__anchor {
    uint64_t ticks;
    uint64_t monotonic_ns; /* CLOCK_MONOTONIC */
    uint64_t realtime_ns;  /* CLOCK_REALTIME */
    uint64_t raw_ns;       /* CLOCK_MONOTONIC_RAW */
    uint64_t error_ns;     /* width of the bracket */
} mtp__anchor;

bool mtp__clock_is_counter(void);     /* decided once */
uint64_t mtp__clock_ticks_slow(void); /* honours the hook and machines without a counter */
void mtp__clock_anchor(mtp__anchor *out);
uint64_t mtp__clock_seconds(void); /* of CLOCK_MONOTONIC, coarse and cheap */

/* Best current estimate; 1.0 without a counter. Waits at most about 100 ms, once per process, for clocks that do
 * not advance. */
double mtp__clock_ticks_per_ns(void);
/* If the system's clocks stood still or contradicted each other when last checked: a message for users; else
 * NULL. */
const char *mtp__clock_trouble(void);

/* Tests: replaces the tick source of slow reads; NULL: the real one. Used by sessions started while set. */
typedef uint64_t mtp__clock_hook(void);
void mtp__clock_hook_set(mtp__clock_hook *hook);
bool mtp__clock_hooked(void);
/* Tests: replaces the system's clocks, in ns; NULL: the real ones. */
typedef uint64_t mtp__clock_system_hook(clockid_t id);
void mtp__clock_system_hook_set(mtp__clock_system_hook *hook);
void mtp__clock_probe(void); /* Tests: decides again what ticks are, as on loading */

/* The fast read: only if mtp__clock_is_counter() and no hook is set.
 *
 * arm64: the processor may read the counter ahead of earlier instructions, even of an earlier read, so that an
 * end could precede its begin, and an effect its cause on another thread. Linux's vDSO has an isb before the
 * read for this reason, and so have we; rdtsc is not reordered with another rdtsc, and has none. */
static inline uint64_t mtp__clock_ticks_fast(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
#else
    return mtp__clock_ticks_slow();
#endif
}
#endif
