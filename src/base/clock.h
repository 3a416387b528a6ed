/* base/clock.h - ticks, and what turns them into nanoseconds.
 *
 * Ticks are the invariant TSC where the machine has one, else nanoseconds of CLOCK_MONOTONIC. A tick is read raw on
 * the hot path; anchors (the same instant read from all clocks) are stored now and then, and conversion is done
 * later, between the anchors around an instant.
 */
#ifndef MTP_BASE_CLOCK_H
#define MTP_BASE_CLOCK_H
#include <stdbool.h>
#include <stdint.h>
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
double mtp__clock_ticks_per_ns(void); /* best present estimate; 1.0 without TSC */

/* Tests: replaces the tick source of slow reads; NULL: the real one. Sessions started while it is set use it. */
typedef uint64_t mtp__clock_hook(void);
void mtp__clock_hook_set(mtp__clock_hook *hook);
bool mtp__clock_hooked(void);

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
