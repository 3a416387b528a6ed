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

/* A descriptor of ours in a program that may close any: its number may be another file's by now. */
typedef struct mtp__own_fd {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
} mtp__own_fd;
#define MTP__NO_FD ((mtp__own_fd){-1, 0, 0})
mtp__own_fd mtp__own(int fd); /* takes it; errno is kept */
bool mtp__own_is(const mtp__own_fd *own);
void mtp__own_close(mtp__own_fd *own);

/* Writes a whole line; reads up to the next newline, which is removed. Within so many ms for all of it; -1: for ever.
 * false: errno: ETIMEDOUT, ECONNRESET (the peer is gone, or the descriptor is not ours any more), EMSGSIZE, ... */
bool mtp__listen_say(const mtp__own_fd *to, const char *line, int ms);
bool mtp__listen_hear(const mtp__own_fd *from, char *line, size_t room, int ms);

/* Of a file named stat (proc(5)): field 3, the state, and what follows it; NULL: there is none. */
#define MTP__STAT_ROOM 512
const char *mtp__process_stat(const char *path, char text[MTP__STAT_ROOM]);

void mtp__own_threads_forked(void);       /* in a child, which has none */
void mtp__listen_forked(bool may_listen); /* in a child: it listens if its parent did */
#endif
