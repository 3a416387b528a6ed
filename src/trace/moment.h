/* trace/moment.h - a recording that goes on is shown as it was at one instant: what came later may use what was defined
 * after the definitions were read. For the room trace alone. */
#ifndef MTP_TRACE_MOMENT_H
#define MTP_TRACE_MOMENT_H
#include "record/format.h"
#include "record/pool.h"

#define MTP__TICK_BITS 56

/* All bits of a record's ticks. */
static inline uint64_t mtp__full_ticks(const mtp__chunk *chunk, uint64_t word)
{
    int64_t ahead = (int64_t)((MTP__WORD0_TICKS(word) - chunk->base_ticks) << (64 - MTP__TICK_BITS)) >>
                    (64 - MTP__TICK_BITS);
    return chunk->base_ticks + (uint64_t)ahead;
}

/* How many of the words were there by then. */
uint32_t mtp__words_until(const mtp__chunk *chunk, const uint64_t *words, uint32_t count, uint64_t until);
/* Of a file that is being written to: up to when it is shown. 0: it is not. */
mtp_status mtp__find_moment(const char *path, uint64_t *until);
#endif
