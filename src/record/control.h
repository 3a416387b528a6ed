/* record/control.h - what goes into the control stream when. */
#ifndef MTP_RECORD_CONTROL_H
#define MTP_RECORD_CONTROL_H
#include "record/recorder.h"

/* As mtp__recorder_blob, for ids that are given only if it fits: then the loss is counted where the id is missed. */
bool mtp__control_define(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                         size_t length);
void mtp__control_session(mtp__recorder *r); /* at start: who, what, and all names known so far */
void mtp__control_thread(mtp__recorder *r, mtp__thread *t); /* its name, if that is new */
void mtp__control_finish(mtp__recorder *r);                 /* at stop: the ledger; seals the chunk */
void mtp__control_reset(mtp__recorder *r);                  /* the chunks are gone */
#endif
