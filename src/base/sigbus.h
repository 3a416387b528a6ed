/* base/sigbus.h - file mappings that survive truncation: when a mapped file is truncated, the next access
 * raises SIGBUS, which kills the program.
 *
 * While memory is guarded, we handle SIGBUS: an access to guarded memory gets an anonymous page in place of
 * the lost one, and continues; `lost` is set. Any other SIGBUS is passed to the previous handler, or kills
 * the program as before. A handler that the program installs later replaces ours; we do not reinstall it.
 * When nothing is guarded any more, the previous handler is restored, if ours is still installed.
 * Environment: MTPROF_SIGBUS=0 leaves the signal alone.
 *
 * The handler calls only mmap and sigaction, and takes no lock.
 */
#ifndef MTP_BASE_SIGBUS_H
#define MTP_BASE_SIGBUS_H
#include <stdatomic.h>
#include <stddef.h>

/* lost: set to 1 when a page is lost. If the table is full, the memory is not guarded. */
void mtp__sigbus_add(void *at, size_t bytes, atomic_int *lost);
void mtp__sigbus_remove(void *at); /* also if it is not guarded */
void mtp__sigbus_forked(void);     /* in a forked child, before any other call here */
#endif
