/* record/checks.h - detects damage in a spool, besides the checksum of sealed chunks (pool.h): the checks of
 * the file header and of each control record. Data records in a chunk that was never sealed have no check. */
#ifndef MTP_RECORD_CHECKS_H
#define MTP_RECORD_CHECKS_H
#include <stdbool.h>
#include "record/format.h"

uint64_t mtp__spool_check(const mtp__spool_header *header); /* the value that `check` must have */

/* The magic number of the chunks of a file created at this moment. */
uint64_t mtp__file_magic(uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns);

/* 24 bits over a control record's words. word0 is passed separately because it is stored last; the check in
 * word 1 is not included. */
uint32_t mtp__control_check(uint64_t word0, const uint64_t *words, uint32_t count);

/* Compacts the control records whose check is right; returns their length in words and zeroes the rest.
 * *damaged: others were found. A record that its writer never finished is not counted. */
uint32_t mtp__control_sift(uint64_t *words, uint32_t capacity, bool *damaged);
#endif
