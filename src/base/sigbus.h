/* base/sigbus.h - memory that shows a file, and outlives it: when somebody cuts the file, the next access raises SIGBUS, which
 * ends the program.
 *
 * While memory is guarded, SIGBUS has a handler of ours: an access to guarded memory gets a page of plain memory in place of
 * the lost one, and goes on; `lost` is told. Any other SIGBUS goes to the handler that was there before, or ends the program
 * as it would have. A handler that the program sets later takes our place; we neither take it back nor put another over it.
 * When nothing is guarded any more, the handler from before is put back, if ours is still the one that is set. Environment:
 * MTPROF_SIGBUS=0 leaves the signal alone.
 *
 * The handler calls nothing but mmap and sigaction, and takes no lock.
 */
#ifndef MTP_BASE_SIGBUS_H
#define MTP_BASE_SIGBUS_H
#include <stdatomic.h>
#include <stddef.h>

/* lost: set to 1 when a page was lost. It may be that there is no room for another: then it is not guarded. */
void mtp__sigbus_add(void *at, size_t bytes, atomic_int *lost);
void mtp__sigbus_remove(void *at); /* one that is not guarded, too */
void mtp__sigbus_forked(void);     /* in a forked child, before anything else here */
#endif
