/* trace/records/moment.h - a recording that goes on is shown as it was at one instant: what came later may use what was defined
 * after the definitions were read. For the room trace alone. */
#ifndef MTP_TRACE_RECORDS_MOMENT_H
#define MTP_TRACE_RECORDS_MOMENT_H
#include "record/format.h"
#include "record/pool.h"

/* How many of the words were there by then. */
uint32_t mtp__words_until(const mtp__chunk *chunk, const uint64_t *words, uint32_t count, uint64_t until);
/* Of a file that is being written to: up to when it is shown. 0: it is not. */
mtp_status mtp__find_moment(const char *path, uint64_t *until);
#endif
