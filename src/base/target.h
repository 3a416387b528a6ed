/* base/target.h - resolves an output path that may contain links.
 *
 * A link at the end of the path is followed if it belongs to the user (or root) and is in a folder writable
 * only by its owner and group; so is the next, if it points to a link. One that anyone could have created is
 * refused: it may point to a file that its creator wants overwritten. The result is a name in an open folder,
 * so later changes to the path have no effect; the name must be opened without following links.
 */
#ifndef MTP_BASE_TARGET_H
#define MTP_BASE_TARGET_H
#include <limits.h>
#include <mtprof.h>
#include <sys/types.h>

typedef struct mtp__target {
    int dir; /* owned, O_PATH; -1: in place */
    char name[NAME_MAX + 1];
    bool there, regular; /* the file exists; and it is regular, not a pipe or a device */
    dev_t device;        /* if it exists: its identity; whoever opens the name must find the same */
    ino_t number;
    char place[PATH_MAX]; /* written in place, in /dev or /proc; "" if not */
} mtp__target;

/* MTP_E_IO: no such folder, a link that must not be followed, a directory. */
mtp_status mtp__target_find(const char *path, mtp__target *out);
bool mtp__path_in_place(const char *path); /* "-", or in /dev or /proc */
#endif
