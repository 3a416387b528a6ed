/* record/checks.h - what tells a damaged spool from a sound one, apart from the checksum of a sealed chunk (pool.h): the checks
 * of the file's header and of each control record. Data records in a chunk that was never sealed have none. */
#ifndef MTP_RECORD_CHECKS_H
#define MTP_RECORD_CHECKS_H
#include <stdbool.h>
#include "record/format.h"

uint64_t mtp__spool_check(const mtp__spool_header *header); /* what its field `check` must be */

/* The magic number of the chunks of a file that was made at this moment. */
uint64_t mtp__file_magic(uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns);

/* 24 bits, of a control record's words. word0 is given apart, as it is stored last; the check in word 1 does not count. */
uint32_t mtp__control_check(uint64_t word0, const uint64_t *words, uint32_t count);

/* Leaves the control records whose check is right, one behind the other; returns how many words these are, and zeroes the
 * rest. *damaged: there were others. A record that its writer never finished is none. */
uint32_t mtp__control_sift(uint64_t *words, uint32_t capacity, bool *damaged);
#endif
