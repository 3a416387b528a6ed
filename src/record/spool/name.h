/* record/spool/name.h - the name of a recording's file, and how the file gets it without harming another.
 *
 * A spool is created beside its final name, under a temporary one, locked, given its header and only then
 * renamed. So a start that fails leaves an existing file in place, and a reader always finds a complete
 * header. A file that already has the name:
 *
 *   is being recorded into                          the start is refused
 *   is a spool whose recording was never stopped    it is kept as NAME.1.mtp, or the next free number
 *   is anything else (a stopped spool, a text)      it is replaced
 *
 * Patterns in a name: %p the process, %h the host, %t the time (UTC, 20260131T235959), %n the first number
 * from 1 on that is free, %% a percent sign.
 */
#ifndef MTP_RECORD_SPOOL_NAME_H
#define MTP_RECORD_SPOOL_NAME_H
#include <limits.h>
#include "base/target.h"

typedef struct mtp__spool_name {
    char path[PATH_MAX];  /* patterns expanded */
    char whole[PATH_MAX]; /* absolute: the program may change its directory */
    char kept[PATH_MAX];  /* new name of an old file that was kept; "": none */
    uint64_t kept_pid;    /* of the old file's process; 0: unknown */
    uint64_t number;      /* of %n; 0: no %n */
    mtp__target target;
    char temp[40]; /* in the target's folder; "": none */
} mtp__spool_name;

mtp_status mtp__spool_pattern_check(const char *pattern); /* MTP_E_ARG: unknown pattern */

/* Makes the path and an empty file beside it: *fd, owned by the caller. drop() must be called after a
 * failure, too. */
mtp_status mtp__spool_name_make(mtp__spool_name *n, const char *pattern, int *fd);
/* Renames the file, which is locked and has its header, to its final name. MTP_E_IO: another process is
 * recording there. */
mtp_status mtp__spool_name_take(mtp__spool_name *n, const char *pattern, int fd);
int mtp__spool_name_reopen(const mtp__spool_name *n); /* the file that has the name now; -1: errno */
void mtp__spool_name_drop(mtp__spool_name *n);        /* removes the temporary file, if it was not renamed */
#endif
