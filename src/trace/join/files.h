/* trace/join/files.h - which recordings belong to a path: those of a folder, or those of the processes beside a
 * spool, in SPOOL.workers/. Private to trace/ and check/. */
#ifndef MTP_TRACE_JOIN_FILES_H
#define MTP_TRACE_JOIN_FILES_H
#include <mtprof.h>
#include "base/pair_map.h"

typedef struct mtp__files { /* {0} is empty */
    char **path;            /* owned, each */
    uint32_t count, room;
    mtp__pair_map seen; /* (device, inode) */
    bool in_folder;     /* the path is a folder: none of them is the main one by name */
    bool is_spool;      /* by its name, or because it is a folder */
} mtp__files;

/* None: the path is a single file, or something that cannot be opened, which opening it will say. With
 * SPOOL.workers/ the spool comes first, whether it exists or not. MTP_E_FORMAT: a folder without recordings. */
mtp_status mtp__files_of(const char *path, mtp__files *out);
mtp_status mtp__files_add(mtp__files *f, const char *path);
void mtp__files_fini(mtp__files *f);
#endif
