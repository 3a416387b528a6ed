/* record/reclaim.h - returns open chunks of idle threads to the pool.
 *
 * An open chunk keeps its piece from being evicted, or from leaving a stream's memory. Threads that record
 * once and then wait, one in each piece, would block a ring: so a thread that needs a piece takes their
 * chunks away. They notice at their next record, and take another.
 */
#ifndef MTP_RECORD_RECLAIM_H
#define MTP_RECORD_RECLAIM_H
#include "record/recorder.h"

/* Inside a record, without a chunk and without locks. true: a chunk was reclaimed. */
bool mtp__reclaim(mtp__recorder *r, const mtp__thread *self);
#endif
