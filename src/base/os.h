/* base/os.h - the only way to the heap, to mapped memory and to files, so that tests can make any one call fail.
 *
 * Each call first asks the fault plan. Without one that is a load and a branch; none of these is on the hot path.
 */
#ifndef MTP_BASE_OS_H
#define MTP_BASE_OS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

void *mtp__calloc(size_t count, size_t size); /* zeroed; NULL when out of memory */
void mtp__free(void *p);                      /* NULL is fine */
char *mtp__strdup(const char *text);

/* As the above, straight from the system, in whole pages: for what is allocated inside a record. A signal handler may
 * record, and malloc may be what it interrupted. */
void *mtp__page_calloc(size_t count, size_t size);
void mtp__page_free(void *p);

/* Zeroed memory of its own pages. huge: ask for huge pages; the address is then aligned to them. NULL when out
 * of memory. */
void *mtp__map_memory(size_t bytes, bool huge);
/* A forked child does not have this: it must not be read there, nor unmapped (mtp__unmapped). */
void mtp__map_not_inherited(void *p, size_t bytes);
void mtp__map_inherited(void *p, size_t bytes); /* it does have it again, as its own copy */
unsigned long mtp__mappings_most(void);         /* how many a process may have */
/* More of what mtp__map_memory gave, moved if need be; NULL: as it was. */
void *mtp__map_grow(void *p, size_t bytes, size_t to);
void *mtp__map_file(void *at, size_t bytes, int fd,
                    uint64_t offset); /* shared; at != NULL replaces; NULL: errno */
void mtp__unmap(void *p, size_t bytes);
void mtp__unmapped(void *p); /* it is gone already: in a forked child, which does not inherit it */

/* As the system calls, with EINTR retried; -1 and errno on failure. None is a cancellation point: a thread that is
 * cancelled finishes what it does here. */
int mtp__open(const char *path, int flags, mode_t mode);
int mtp__grow_file(int fd, uint64_t offset, uint64_t bytes); /* real blocks, so a full disk is told here */
int mtp__truncate(int fd, uint64_t bytes);
ssize_t mtp__pread(int fd, void *to, size_t bytes,
                   uint64_t offset); /* all of it, or up to the end of the file */
void mtp__close(int fd);

/* A lock on the whole file, of the open file and not of the process: it ends with its last descriptor, whatever becomes
 * of the process, and no other descriptor's end ends it. A forked child must close its copy. */
typedef enum mtp__lock {
    MTP__LOCK_NONE,   /* nobody holds it (of lock(): it is now ours) */
    MTP__LOCK_HELD,   /* somebody else does */
    MTP__LOCK_UNKNOWN /* the file system knows no locks */
} mtp__lock;
mtp__lock mtp__lock_file(int fd); /* never waits; fd is open for writing */
mtp__lock mtp__lock_test(int fd);
void mtp__unlock_file(int fd);

/* Output. write: all of it, or -1; SIGPIPE and SIGXFSZ are not raised, errno says it. Names are in the folder `dir`
 * (a file descriptor); the _at calls do not follow a link at the name. Faults: WRITE is a full disk; SHORT and INTERRUPT
 * are no failures, writing goes on. */
int mtp__write(int fd, const void *bytes, size_t length);
int mtp__pwrite(int fd, const void *bytes, size_t length, uint64_t offset); /* the same, at a place */
int mtp__sync(int fd);
int mtp__open_at(int dir, const char *name, int flags, mode_t mode);
int mtp__open_folder(int dir,
                     const char *path); /* O_PATH; links in it are followed; AT_FDCWD: as a path is */
int mtp__rename_at(int dir, const char *from, const char *to);
int mtp__rename_new_at(int dir, const char *from, const char *to); /* EEXIST: `to` is there, and stays */
/* A new file under a name that nobody has, which is left in `name`; mode 0600. */
int mtp__open_temp_at(int dir, char name[40], int flags);
void mtp__unlink_at(int dir, const char *name);

/* Tests: what to break. X(symbol) */
#define MTP__FAULT_LIST(X)                                                                                   \
    X(ALLOC) X(MAP) X(OPEN) X(GROW) X(TRUNCATE) X(READ) X(WRITE) X(SHORT) X(INTERRUPT) X(SYNC) X(RENAME)
#define X(sym) MTP__FAULT_##sym,
typedef enum mtp__fault {
    MTP__FAULT_LIST(X) MTP__FAULT_KINDS
} mtp__fault;
#undef X
#define MTP__FAULTS_ALL ((1u << MTP__FAULT_KINDS) - 1)

/* Fail the nth call (from 1) of the kinds in `mask` from now on, and every later one too if `forever`. stop()
 * tells how many calls failed. */
void mtp__fault_plan(unsigned mask, int nth, bool forever);
int mtp__fault_stop(void);
long mtp__alloc_live(void); /* allocations and mappings not yet given back */
#endif
