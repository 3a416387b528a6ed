/* record/spool_name.h - the file that a recording goes to: its name, and how it comes there without hurting another.
 *
 * A spool is made beside its name, under a name of its own, with its lock held and its header written; only then does it take
 * its name. So a start that fails leaves the file that was there, and whoever opens the name finds a whole header. The file
 * that has the name:
 *
 *   is being recorded into                          the start is refused
 *   is a spool whose recording was never stopped    it is kept: NAME.mtp becomes NAME.1.mtp, or the next number that is free
 *   is anything else (a stopped spool, a text)      it is replaced
 *
 * Patterns in a name: %p the process, %h the host, %t the time (UTC, 20260131T235959), %n the first number from 1 on that no
 * file has, %% a percent sign.
 */
#ifndef MTP_RECORD_SPOOL_NAME_H
#define MTP_RECORD_SPOOL_NAME_H
#include <limits.h>
#include "base/target.h"

typedef struct mtp__spool_name {
    char path[PATH_MAX];  /* without patterns */
    char whole[PATH_MAX]; /* the path from the root: the program may go to another folder */
    char kept[PATH_MAX];  /* what the file that was there is called now; "": there was none that is kept */
    uint64_t kept_pid;    /* whose it was; 0: unknown */
    uint64_t number;      /* of %n; 0: there is no %n */
    mtp__target target;
    char temp[40]; /* in the target's folder; "": there is none */
} mtp__spool_name;

mtp_status mtp__spool_pattern_check(const char *pattern); /* MTP_E_ARG: there is no such pattern */

/* Makes the path and an empty file beside it: *fd, which is the caller's. After a failure, too, drop() is to be called. */
mtp_status mtp__spool_name_make(mtp__spool_name *n, const char *pattern, int *fd);
/* The file, which is locked and has its header, takes its name. MTP_E_IO: another process is recording there. */
mtp_status mtp__spool_name_take(mtp__spool_name *n, const char *pattern, int fd);
int mtp__spool_name_reopen(const mtp__spool_name *n); /* the file that has the name now; -1: errno */
void mtp__spool_name_drop(mtp__spool_name *n); /* the temporary file goes, if it has not taken its name */
#endif
