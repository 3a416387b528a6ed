/* base/clock.h - ticks, and what turns them into nanoseconds.
 *
 * Ticks are the invariant TSC where the machine has one and the process may read it, else nanoseconds of CLOCK_MONOTONIC.
 * A tick is read raw on the hot path; anchors (the same instant read from all clocks) are stored now and then, and
 * conversion is done later, between the anchors around an instant.
 *
 * prctl(PR_SET_TSC, PR_TSC_SIGSEGV) is asked for once, when the library is loaded. The kernel keeps it per thread and tells
 * nobody when it changes: a thread that forbids itself the TSC later must not record.
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
    uint64_t error_ns;     /* the reading was no wider than this */
} mtp__anchor;

bool mtp__clock_is_tsc(void);         /* decided once */
uint64_t mtp__clock_ticks_slow(void); /* honours the hook and machines without TSC */
void mtp__clock_anchor(mtp__anchor *out);
uint64_t mtp__clock_seconds(void); /* of CLOCK_MONOTONIC, coarse and cheap */

/* Best present estimate; 1.0 without TSC. Waits at most some 100 ms, once in a process, for clocks that do not go. */
double mtp__clock_ticks_per_ns(void);
/* The system's clocks stood still or contradicted each other when that was asked for: what to tell users, or NULL. */
const char *mtp__clock_trouble(void);

/* Tests: replaces the tick source of slow reads; NULL: the real one. Sessions started while it is set use it. */
typedef uint64_t mtp__clock_hook(void);
void mtp__clock_hook_set(mtp__clock_hook *hook);
bool mtp__clock_hooked(void);
/* Tests: replaces the system's clocks, in ns; NULL: the real ones. */
typedef uint64_t mtp__clock_system_hook(clockid_t id);
void mtp__clock_system_hook_set(mtp__clock_system_hook *hook);
void mtp__clock_probe(void); /* Tests: decides again what the ticks are, as when the library is loaded */

/* The fast read: only where mtp__clock_is_tsc() and no hook is set. */
static inline uint64_t mtp__clock_ticks_fast(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return mtp__clock_ticks_slow();
#endif
}
#endif
