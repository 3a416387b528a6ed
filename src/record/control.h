/* record/control.h - the contents of the control stream, and when they are written. */
#ifndef MTP_RECORD_CONTROL_H
#define MTP_RECORD_CONTROL_H
#include "record/recorder.h"

/* Like mtp__recorder_blob, for ids that are assigned only if the blob fits: the loss is then counted where
 * the id is missing. */
bool mtp__control_define(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                         size_t length);
bool mtp__control_copy(mtp__recorder *r, const uint64_t *record,
                       uint32_t words);                 /* under the lock: re-emits it */
void mtp__control_keep_names(mtp__recorder *r);         /* a ring's permanent names; locks: names, control */
bool mtp__control_has_room_for_epoch(mtp__recorder *r); /* under the lock */
/* Under the lock: the first chunk of the next epoch, which becomes the current one; NULL: none available,
 * nothing has changed. */
mtp__chunk *mtp__control_take_for_epoch(mtp__recorder *r);
/* Under the locks of registry, names and control, in a chunk of the new epoch: writes what an epoch begins
 * with. false: some of it is missing, and older epochs must be kept. */
bool mtp__control_begin_epoch(mtp__recorder *r, mtp__chunk *chunk);
void mtp__control_release(mtp__recorder *r); /* under the lock: chunks of epochs that no record needs */
void mtp__control_session(mtp__recorder *r); /* at start: process, flags, and all names known so far */
void mtp__control_thread(mtp__recorder *r, mtp__thread *t); /* its name, if new */
void mtp__control_finish(mtp__recorder *r);                 /* at stop: the ledger; seals the chunk */
void mtp__control_reset(mtp__recorder *r);                  /* the chunks have been freed */
void mtp__control_fini(mtp__recorder *r);
#endif
