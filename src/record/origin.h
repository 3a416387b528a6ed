/* record/origin.h - where a recording comes from, so that several of one machine can be told apart and read as
 * one trace (trace/join.h). */
#ifndef MTP_RECORD_ORIGIN_H
#define MTP_RECORD_ORIGIN_H
#include <stdint.h>

#define MTP__COMMAND_MAX 120 /* bytes of a command line that are kept: each epoch of a ring repeats them */

typedef struct mtp__origin {
    uint64_t parent; /* pid */
    uint64_t boot
        [2]; /* the kernel's boot id: times of two recordings have the same zero if it is equal; 0: unknown */
    char command[MTP__COMMAND_MAX]; /* arguments separated by spaces, the first without its folder */
    uint32_t command_length;        /* 0: unknown */
} mtp__origin;

/* Of this process. What cannot be read stays 0. */
void mtp__origin_read(mtp__origin *o);
#endif
