/* record/listen/listen.h - recording on demand: how processes that listen are found, and what is said.
 *
 * A process that listens has a stream socket, PID.sock, in a folder of its user's that nobody else can enter, and one
 * thread that sleeps on it. One line asks, lines answer:
 *
 *     mtprof 1 state\n                                    ok idle\n                 or: ok recording\n
 *     mtprof 1 record ns=N [shapes] ... path=PATH\n       ok\n, and at the end done\n; or: error TEXT\n
 *
 * A client that hangs up ends the recording that it asked for.
 */
#ifndef MTP_RECORD_LISTEN_H
#define MTP_RECORD_LISTEN_H
#include <mtprof.h>
#include <sys/types.h>
#include <sys/un.h>

#define MTP__LISTEN_LINE 8192
#define MTP__LISTEN_HELLO "mtprof 1 "
enum {
    MTP__LISTEN_FOLDERS = 3 /* that a user's sockets may be in */
};

/* The nth folder of a user's; false: there is no such. */
bool mtp__listen_folder(uid_t uid, int which, struct sockaddr_un *folder);
/* Is it a folder that only this user can enter? make: it is created if it is missing. */
bool mtp__listen_is_private(const char *folder, uid_t uid, bool make);
bool mtp__listen_socket(const struct sockaddr_un *folder, pid_t pid, struct sockaddr_un *socket);

/* Writes a whole line; reads up to the next newline, which is removed. false: the peer is gone. */
bool mtp__listen_say(int fd, const char *line);
bool mtp__listen_hear(int fd, char *line, size_t room);

void mtp__listen_forked(void); /* in a child: it listens if its parent did */
#endif
