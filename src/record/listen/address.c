/* record/listen/address.c - where the sockets are, and lines through them: see listen.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "record/listen/listen.h"

bool mtp__listen_folder(uid_t uid, int which, struct sockaddr_un *folder)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
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
    if (make && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return false;
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid && (st.st_mode & 0077) == 0;
}

bool mtp__listen_socket(const struct sockaddr_un *folder, pid_t pid, struct sockaddr_un *to)
{
    *to = *folder;
    size_t n = strlen(to->sun_path);
    return snprintf(to->sun_path + n, sizeof to->sun_path - n, "/%ld.sock", (long)pid) <
           (int)(sizeof to->sun_path - n);
}

bool mtp__listen_say(int fd, const char *line)
{
    size_t length = strlen(line);
    for (size_t done = 0; done < length;) {
        ssize_t n = send(fd, line + done, length - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

bool mtp__listen_hear(int fd, char *line, size_t room)
{
    for (size_t at = 0; at < room; at++) {
        ssize_t n;
        do
            n = recv(fd, line + at, 1, 0);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
            return false;
        if (line[at] == '\n') {
            line[at] = 0;
            return true;
        }
    }
    return false; /* too long */
}
