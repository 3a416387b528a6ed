/* trace/records/moment.h - a running recording is shown as of one instant: later records may use ids defined
 * after the definitions were read. Private to trace/. */
#ifndef MTP_TRACE_RECORDS_MOMENT_H
#define MTP_TRACE_RECORDS_MOMENT_H
#include "record/format.h"
#include "record/pool.h"

/* How many of the words had been written by then. */
uint32_t mtp__words_until(const mtp__chunk *chunk, const uint64_t *words, uint32_t count, uint64_t until);
/* For a file still being written: the instant to show. 0: it is not. */
mtp_status mtp__find_moment(const char *path, uint64_t *until);
#endif
