/* record/listen/address.c - where the sockets are, and lines through them: see listen.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os.h"
#include "record/listen/listen.h"

bool mtp__listen_folder(uid_t uid, int which, struct sockaddr_un *folder)
{
    const char *run = secure_getenv("XDG_RUNTIME_DIR");
    char *path = folder->sun_path;
    const int room = (int)sizeof folder->sun_path - 24; /* for the name of a socket */
    int n = -1;
    folder->sun_family = AF_UNIX;
    if (which == 0 && uid == geteuid() && run != NULL && run[0] == '/')
        n = snprintf(path, sizeof folder->sun_path, "%s/mtprof", run);
    else if (which == 1)
        n = snprintf(path, sizeof folder->sun_path, "/run/user/%u/mtprof", (unsigned)uid);
    else if (which == 2)
        n = snprintf(path, sizeof folder->sun_path, "/tmp/mtprof-%u", (unsigned)uid);
    return n > 0 && n < room;
}

/* In /tmp anybody may have made a folder, or a link, of this name. */
bool mtp__listen_is_private(const char *folder, uid_t uid, bool make)
{
    struct stat st;
    if (make && mtp__make_folder(folder, 0700) != 0 && errno != EEXIST)
        return false;
    return mtp__look_at(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid &&
           (st.st_mode & 0077) == 0;
}

bool mtp__listen_socket(const struct sockaddr_un *folder, pid_t pid, struct sockaddr_un *to)
{
    *to = *folder;
    size_t n = strlen(to->sun_path);
    return snprintf(to->sun_path + n, sizeof to->sun_path - n, "/%ld.sock", (long)pid) <
           (int)(sizeof to->sun_path - n);
}

/* ------------------------------------------------------------------------------------------------ descriptors */

mtp__own_fd mtp__own(int fd)
{
    struct stat st;
    int error = errno;
    mtp__own_fd own = {fd, 0, 0};
    if (fd >= 0 && fstat(fd, &st) == 0) {
        own.device = st.st_dev;
        own.inode = st.st_ino;
    }
    errno = error;
    return own;
}

bool mtp__own_is(const mtp__own_fd *own)
{
    struct stat st;
    return own->fd >= 0 && fstat(own->fd, &st) == 0 && st.st_dev == own->device && st.st_ino == own->inode;
}

void mtp__own_close(mtp__own_fd *own)
{
    int error = errno;
    if (mtp__own_is(own))
        mtp__close(own->fd);
    *own = MTP__NO_FD;
    errno = error;
}

/* ------------------------------------------------------------------------------------------------------ lines */

static uint64_t deadline_in(int ms)
{
    return ms < 0 ? UINT64_MAX : mtp_now_ns() + (uint64_t)ms * 1000000;
}

/* Until it can be written to, or read. false: errno. */
static bool wait_for(const mtp__own_fd *own, short events, uint64_t deadline)
{
    for (;;) {
        uint64_t now = mtp_now_ns(), left = deadline > now ? (deadline - now) / 1000000 + 1 : 0;
        struct pollfd ready = {own->fd, events, 0};
        int n = left == 0                ? 0
                : deadline == UINT64_MAX ? poll(&ready, 1, -1)
                                         : poll(&ready, 1, left < INT_MAX ? (int)left : INT_MAX);
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0 && mtp__own_is(own))
            return true;
        if (n >= 0)
            errno = n == 0 ? ETIMEDOUT : ECONNRESET;
        return false;
    }
}

bool mtp__listen_say(const mtp__own_fd *to, const char *line, int ms)
{
    size_t length = strlen(line);
    uint64_t deadline = deadline_in(ms);
    for (size_t done = 0; done < length;) {
        if (!wait_for(to, POLLOUT, deadline))
            return false;
        ssize_t n = mtp__send(to->fd, line + done, length - done);
        if (n < 0 && errno != EAGAIN)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Nothing is taken that follows the newline. */
bool mtp__listen_hear(const mtp__own_fd *from, char *line, size_t room, int ms)
{
    uint64_t deadline = deadline_in(ms);
    for (size_t at = 0; at < room;) {
        if (!wait_for(from, POLLIN, deadline))
            return false;
        ssize_t n = mtp__recv(from->fd, line + at, room - at, true);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n > 0) {
            const char *newline = memchr(line + at, '\n', (size_t)n);
            n = mtp__recv(from->fd, line + at,
                          newline != NULL ? (size_t)(newline - line) - at + 1 : (size_t)n, false);
        }
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            return false;
        at += (size_t)n;
        if (line[at - 1] == '\n') {
            line[at - 1] = 0;
            return true;
        }
    }
    errno = EMSGSIZE;
    return false;
}
