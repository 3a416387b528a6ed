/* base/os.h - the only way to the heap, to mapped memory, to files and to sockets, so that tests can make any call fail.
 *
 * Each call first checks the fault plan: a load and a branch if there is none. None of these is on the hot
 * path.
 */
#ifndef MTP_BASE_OS_H
#define MTP_BASE_OS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sockaddr_un;
struct stat;
struct ucred;

void *mtp__calloc(size_t count, size_t size);                     /* zeroed; NULL: out of memory */
void mtp__free(void *p);                                          /* NULL is fine */
void *mtp__zlib_alloc(void *user, unsigned count, unsigned size); /* the same, as zlib calls them */
void mtp__zlib_free(void *user, void *p);
char *mtp__strdup(const char *text);

/* As above, directly from the system, in whole pages: for allocations while recording. A signal handler may
 * record, and may have interrupted malloc. */
void *mtp__page_calloc(size_t count, size_t size);
void mtp__page_free(void *p);

/* Zeroed memory in its own pages. huge: ask for huge pages; the address is then aligned to them. NULL: out of
 * memory. */
void *mtp__map_memory(size_t bytes, bool huge);
/* Not inherited by a forked child, which must neither read nor unmap it (mtp__unmapped). */
void mtp__map_not_inherited(void *p, size_t bytes);
void mtp__map_inherited(void *p, size_t bytes); /* inherited again, as the child's own copy */
unsigned long mtp__mappings_max(void);          /* the limit per process */
/* Grows memory from mtp__map_memory, moving it if necessary; NULL: unchanged. */
void *mtp__map_grow(void *p, size_t bytes, size_t to);
void *mtp__map_file(void *at, size_t bytes, int fd,
                    uint64_t offset); /* shared; at != NULL replaces; NULL: errno */
void mtp__unmap(void *p, size_t bytes);
void mtp__unmapped(void *p); /* already unmapped: in a forked child, which does not inherit it */

/* Like the system calls, with EINTR retried; -1 and errno on failure. None is a cancellation point: a
 * cancelled thread completes the call. */
int mtp__open(const char *path, int flags, mode_t mode);
int mtp__grow_file(int fd, uint64_t offset,
                   uint64_t bytes); /* allocates blocks, so a full disk is reported here */
int mtp__truncate(int fd, uint64_t bytes);
ssize_t mtp__pread(int fd, void *to, size_t bytes,
                   uint64_t offset); /* all of it, or up to the end of the file */
void mtp__close(int fd);

/* A lock on the whole file, owned by the open file description, not by the process: it is released with the
 * last descriptor, however the process ends, and not by closing another descriptor. A forked child must close
 * its copy. */
typedef enum mtp__lock {
    MTP__LOCK_NONE,   /* not locked (lock(): now ours) */
    MTP__LOCK_HELD,   /* another holder has it */
    MTP__LOCK_UNKNOWN /* the file system does not support locks */
} mtp__lock;
mtp__lock mtp__lock_file(int fd); /* never blocks; fd must be open for writing */
mtp__lock mtp__lock_test(int fd);
void mtp__unlock_file(int fd);

/* Output. write: everything, or -1; SIGPIPE and SIGXFSZ are not raised, errno is set. Names are in the folder
 * `dir` (a file descriptor); the _at calls do not follow a link at the name. Faults: WRITE is a full disk;
 * SHORT and INTERRUPT are not failures, writing continues. */
int mtp__write(int fd, const void *bytes, size_t length);
int mtp__pwrite(int fd, const void *bytes, size_t length, uint64_t offset); /* the same, at an offset */
int mtp__sync(int fd);
int mtp__open_at(int dir, const char *name, int flags, mode_t mode);
int mtp__open_folder(
    int dir, const char *path); /* O_PATH; follows links in the path; AT_FDCWD: relative like any path */
int mtp__rename_at(int dir, const char *from, const char *to);
int mtp__rename_new_at(int dir, const char *from, const char *to); /* EEXIST: `to` exists, and stays */
/* A new file with a unique name, returned in `name`; mode 0600. */
int mtp__open_temp_at(int dir, char name[40], int flags);
void mtp__unlink_at(int dir, const char *name);

/* Local stream sockets, and the folders that they are in. None raises SIGPIPE. accept, send and recv do not wait.
 * Fault: SOCKET. */
int mtp__socket(void);
int mtp__bind(int fd, const struct sockaddr_un *name);
int mtp__listen(int fd, int backlog);
int mtp__accept(int fd);
int mtp__connect(int fd, const struct sockaddr_un *name, unsigned patience_ms); /* EAGAIN: it took longer */
int mtp__peer(int fd, struct ucred *peer);
ssize_t mtp__send(int fd, const void *bytes, size_t length);
ssize_t mtp__recv(int fd, void *to, size_t room, bool peek); /* peek: it can be received again */
int mtp__make_folder(const char *path, mode_t mode);
int mtp__look_at(const char *path, struct stat *st); /* lstat() */

/* Starts a detached thread of our own, with a small stack and all signals blocked but those that its own code may cause.
 * 0, or an error number. Fault: THREAD. */
int mtp__start_thread(void *(*run)(void *arg), void *arg);

/* Runs `run` on this thread and on up to count - 1 others, with all signals blocked there, and waits for them. Fewer run if
 * they cannot be started, so the work must be shared, not dealt out. Fault: THREAD. */
void mtp__run_threads(unsigned count, void (*run)(void *arg, bool is_caller), void *arg);

/* A barrier on every core that runs a thread of this process, by the kernel (membarrier). register: once, before the first
 * one; false: the kernel cannot, or may not. Fault: BARRIER, of register. */
bool mtp__barrier_register(void);
void mtp__barrier_all(void);

/* Tests: what to break. X(symbol) */
#define MTP__FAULT_LIST(X)                                                                                   \
    X(ALLOC)                                                                                                 \
    X(MAP)                                                                                                   \
    X(OPEN)                                                                                                  \
    X(GROW)                                                                                                  \
    X(TRUNCATE) X(READ) X(WRITE) X(SHORT) X(INTERRUPT) X(SYNC) X(RENAME) X(SOCKET) X(THREAD) X(BARRIER)
#define X(sym) MTP__FAULT_##sym,
typedef enum mtp__fault {
    MTP__FAULT_LIST(X) MTP__FAULT_KINDS
} mtp__fault;
#undef X
#define MTP__FAULTS_ALL ((1u << MTP__FAULT_KINDS) - 1)

/* Fails the nth call (from 1) of the kinds in `mask` from now on, and every later one too if `forever`.
 * stop() returns how many calls failed. */
void mtp__fault_plan(unsigned mask, int nth, bool forever);
int mtp__fault_stop(void);
long mtp__alloc_live(void); /* live allocations and mappings */
#endif
