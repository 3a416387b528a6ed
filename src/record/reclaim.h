/* record/reclaim.h - chunks that threads hold open and do not write to come back to the pool.
 *
 * A chunk in a thread's hands keeps its piece from being evicted, or from leaving a stream's memory. Threads that record
 * once and then wait, one in each piece, would be the end of a ring: so whoever needs a piece takes their chunks away. They
 * find that at their next record, and take another.
 */
#ifndef MTP_RECORD_RECLAIM_H
#define MTP_RECORD_RECLAIM_H
#include "record/recorder.h"

/* Inside a record, with no chunk in hand and without locks. true: something came back. */
bool mtp__reclaim(mtp__recorder *r, const mtp__thread *self);
#endif
