/* record/control.h - what goes into the control stream when. */
#ifndef MTP_RECORD_CONTROL_H
#define MTP_RECORD_CONTROL_H
#include "record/recorder.h"

/* As mtp__recorder_blob, for ids that are given only if it fits: then the loss is counted where the id is missed. */
bool mtp__control_define(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                         size_t length);
bool mtp__control_copy(mtp__recorder *r, const uint64_t *record,
                       uint32_t words); /* under the lock: told again */
void mtp__control_keep_names(
    mtp__recorder *r); /* a ring, under the locks of names and control: those that stay */
bool mtp__control_has_room_for_epoch(mtp__recorder *r); /* under the lock */
/* Under the lock: the first chunk of the next epoch, which is on from here; NULL: there is none, and all is as it was. */
mtp__chunk *mtp__control_take_for_epoch(mtp__recorder *r);
/* Under the locks of registry, names and control, in a chunk of the new epoch: what an epoch begins with. false: some of it
 * is missing, and older epochs have to stay. */
bool mtp__control_begin_epoch(mtp__recorder *r, mtp__chunk *chunk);
void mtp__control_release(mtp__recorder *r); /* under the lock: chunks of epochs that no record needs */
void mtp__control_session(mtp__recorder *r); /* at start: who, what, and all names known so far */
void mtp__control_thread(mtp__recorder *r, mtp__thread *t); /* its name, if that is new */
void mtp__control_finish(mtp__recorder *r);                 /* at stop: the ledger; seals the chunk */
void mtp__control_reset(mtp__recorder *r);                  /* the chunks are gone */
void mtp__control_fini(mtp__recorder *r);
#endif
