#define _GNU_SOURCE
#include "base/target.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"

#define LINKS_MAX 40 /* as in the kernel */

bool mtp__path_in_place(const char *path)
{
    return strcmp(path, "-") == 0 || strncmp(path, "/proc/", 6) == 0 ||
           (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0);
}

/* Replaces t->dir with the folder of `at`, relative to it; the rest is the name. */
static mtp_status enter(const char *path, char *at, mtp__target *t)
{
    char *slash = strrchr(at, '/');
    const char *name = slash != NULL ? slash + 1 : at;
    if (*name == 0)
        return MTP_FAIL(MTP_E_IO, "%s: %s", path, mtp__reason(EISDIR));
    if (strlen(name) >= sizeof t->name)
        return MTP_FAIL(MTP_E_IO, "%s: cannot be created: %s", path, mtp__reason(ENAMETOOLONG));
    snprintf(t->name, sizeof t->name, "%s", name);
    const char *folder = slash == NULL ? "." : slash == at ? "/" : at;
    if (slash != NULL && slash != at)
        *slash = 0;
    int dir = mtp__open_folder(t->dir, folder), error = errno;
    if (t->dir != AT_FDCWD)
        mtp__close(t->dir);
    t->dir = dir;
    return dir >= 0 ? MTP_OK
                    : MTP_FAIL(MTP_E_IO, "%s: its folder cannot be opened: %s", path, mtp__reason(error));
}

/* Whether a link at t->name may be followed. */
static mtp_status judge(const char *path, const mtp__target *t, const struct stat *link)
{
    struct stat folder;
    if (fstatat(t->dir, "", &folder, AT_EMPTY_PATH) != 0)
        return MTP_FAIL(MTP_E_IO, "%s: its folder cannot be examined: %s", path, mtp__reason(errno));
    const char *why = NULL;
    if (link->st_uid != geteuid() && link->st_uid != 0)
        why = "a link created by another user";
    else if ((folder.st_mode & S_IWOTH) != 0)
        why = "a link in a folder that others can write to";
    if (why == NULL)
        return MTP_OK;
    return MTP_FAIL(MTP_E_IO, "%s: it is %s, and is not followed; remove it, or choose another file", path,
                    why);
}

static mtp_status look(const char *path, char at[PATH_MAX], mtp__target *t, bool *again)
{
    struct stat st;
    *again = false;
    mtp_status status = enter(path, at, t);
    if (status != MTP_OK)
        return status;
    if (fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? MTP_OK
                               : MTP_FAIL(MTP_E_IO, "%s: cannot be examined: %s", path, mtp__reason(errno));
    if (S_ISDIR(st.st_mode))
        return MTP_FAIL(MTP_E_IO, "%s: %s", path, mtp__reason(EISDIR));
    *again = S_ISLNK(st.st_mode);
    t->there = !*again;
    t->regular = S_ISREG(st.st_mode);
    t->device = st.st_dev;
    t->number = st.st_ino;
    if (!*again)
        return MTP_OK;
    status = judge(path, t, &st);
    ssize_t n = status == MTP_OK ? readlinkat(t->dir, t->name, at, PATH_MAX - 1) : 0;
    if (n < 0)
        return MTP_FAIL(MTP_E_IO, "%s: the link cannot be followed: %s", path, mtp__reason(errno));
    at[n] = 0;
    return status;
}

mtp_status mtp__target_find(const char *path, mtp__target *t)
{
    char at[PATH_MAX];
    *t = (mtp__target){.dir = AT_FDCWD};
    if (strlen(path) >= sizeof at)
        return t->dir = -1,
               MTP_FAIL(MTP_E_IO, "%.64s...: cannot be created: %s", path, mtp__reason(ENAMETOOLONG));
    snprintf(at, sizeof at, "%s", path);
    mtp_status status = MTP_OK;
    bool again = true;
    for (int links = 0; status == MTP_OK && again && links <= LINKS_MAX; links++) {
        if (mtp__path_in_place(at) && strcmp(at, "-") != 0) {
            snprintf(t->place, sizeof t->place, "%s", at);
            again = false;
            break;
        }
        status = look(path, at, t, &again);
    }
    if (status == MTP_OK && again)
        status = MTP_FAIL(MTP_E_IO, "%s: the link cannot be followed: %s", path, mtp__reason(ELOOP));
    if (status != MTP_OK || t->place[0] != 0) {
        mtp__close(t->dir); /* also ignores AT_FDCWD */
        t->dir = -1;
    }
    return status;
}
