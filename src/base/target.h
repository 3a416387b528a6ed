/* base/target.h - the file that a path to write to means, when links may lie in the way.
 *
 * A link at the end of the path is followed if it is the user's own (or root's) and lies in a folder that only its owner
 * and group may write; then the next, if it leads to a link. One that anybody could have put there is refused: it may
 * lead to a file that its maker wants to see overwritten. What is found is a name in an open folder, so nothing that
 * happens to the path later leads elsewhere; who opens the name must not follow links.
 */
#ifndef MTP_BASE_TARGET_H
#define MTP_BASE_TARGET_H
#include <limits.h>
#include <mtprof.h>
#include <sys/types.h>

typedef struct mtp__target {
    int dir; /* owned, O_PATH; -1: in place */
    char name[NAME_MAX + 1];
    bool there, regular; /* there is such a file; and it is a regular one, not a pipe or a device */
    dev_t device;        /* if it is there: which one it is; who opens the name must find the same */
    ino_t number;
    char place[PATH_MAX]; /* in place, of /dev or /proc: "" if not */
} mtp__target;

/* MTP_E_IO: there is no such folder, a link that is not to be followed, a directory. */
mtp_status mtp__target_find(const char *path, mtp__target *out);
bool mtp__path_in_place(const char *path); /* "-", or in /dev or /proc */
#endif
