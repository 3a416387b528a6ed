/* record/details.h - what an op has besides its name: interned shapes, stacks and texts; and names.
 *
 * Each thread has a small cache in front of the session's tables, so that the common case takes no lock and
 * no shared cache line.
 *
 * A shape signature is a run of words, one argument after the other (mtp_pack in mtprof_tools.h writes them, too):
 *     kind | dtype << 8 | flags << 16 | count << 32    flags: 1 strides follow dims, 2 cut here (too long)
 *     tensor: count dims [, count strides]; int list: count values; tensor list: count tensors, as above;
 *     int, bool, float: one word of value; text: its bytes, padded to words
 */
#ifndef MTP_RECORD_DETAILS_H
#define MTP_RECORD_DETAILS_H
#include "record/recorder.h"

#define MTP__SHAPE_STRIDES 1u
#define MTP__SHAPE_CUT 2u
#define MTP__SHAPE_WORDS_MAX 2048u
#define MTP__STACK_DEPTH_MAX 256u

void mtp__details_init(mtp__recorder *r);
void mtp__details_fini(mtp__recorder *r);
void mtp__details_reset(mtp__recorder *r);
void mtp__details_locks(mtp__recorder *r, int (*call)(pthread_mutex_t *));
void mtp__details_locks_of(mtp__tables *set, int (*call)(pthread_mutex_t *));
void mtp__details_empty_spare(mtp__recorder *r); /* the set that is not in use; no thread may be reading it */
void mtp__details_turn(mtp__recorder *r);        /* locks: the set in use; swaps it with the empty spare */
bool mtp__details_are_nearly_full(const mtp__recorder *r); /* one of the tables in use */
void mtp__details_cache_free(struct mtp__thread_cache *cache);

/* Inside a record, on its thread, after mtp__epoch_check (epoch.h). 0: none, or it could not be kept
 * (counted). */
uint32_t mtp__shape_id(mtp__recorder *r, mtp__thread *t, const mtp_input *inputs, uint32_t count);
uint32_t mtp__shape_id_packed(mtp__recorder *r, mtp__thread *t, mtp_pack *pack);
/* most: how many of the innermost frames; at most MTP__STACK_DEPTH_MAX */
uint32_t mtp__stack_id(mtp__recorder *r, mtp__thread *t, const void *caller, uint32_t most);
uint32_t mtp__text_id(mtp__recorder *r, const char *text);
uint32_t mtp__session_name_id(mtp__recorder *r, mtp__thread *t, const char *text, size_t length);
#endif
