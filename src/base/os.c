#define _GNU_SOURCE
#include "base/os.h"
#include <linux/membarrier.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/budget.h"
#include "base/clock.h"
#include "base/guard.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define TEMP_TRIES 16
#define THREAD_STACK ((size_t)256 << 10)
#define MAPPINGS_USUAL 65530ul /* the kernel's default */

static atomic_uint plan_mask;
static atomic_int plan_left, plan_fired;
static atomic_bool plan_forever;
static atomic_long live;

static bool fault(mtp__fault kind)
{
    if (__builtin_expect((atomic_load_explicit(&plan_mask, memory_order_relaxed) >> kind & 1u) == 0, 1))
        return false;
    int left = atomic_fetch_sub(&plan_left, 1);
    if (left != 1 && !(left < 1 && atomic_load(&plan_forever)))
        return false;
    atomic_fetch_add(&plan_fired, 1);
    return true;
}

void mtp__fault_plan(unsigned mask, int nth, bool forever)
{
    atomic_store(&plan_fired, 0);
    atomic_store(&plan_left, nth);
    atomic_store(&plan_forever, forever);
    atomic_store(&plan_mask, mask);
}

int mtp__fault_stop(void)
{
    atomic_store(&plan_mask, 0);
    return atomic_load(&plan_fired);
}

long mtp__alloc_live(void)
{
    return atomic_load(&live);
}

/* What the budget counts for a block: malloc's size, not the caller's, since free() has only that. */
static bool within_budget(void *p)
{
    if (mtp__budget_limit() == MTP__BUDGET_NONE || mtp__budget_take(malloc_usable_size(p)))
        return true;
    free(p);
    return false;
}

void *mtp__calloc(size_t count, size_t size)
{
    void *p = fault(MTP__FAULT_ALLOC) ? NULL : calloc(count, size);
    if (p != NULL && !within_budget(p))
        return NULL;
    if (p != NULL)
        atomic_fetch_add(&live, 1);
    return p;
}

void mtp__free(void *p)
{
    if (p != NULL) {
        atomic_fetch_sub(&live, 1);
        if (mtp__budget_limit() != MTP__BUDGET_NONE)
            mtp__budget_give(malloc_usable_size(p));
        free(p);
    }
}

/* Header before the block: its size, padded for alignment. */
#define PAGE_HEAD ((size_t)16)

void *mtp__page_calloc(size_t count, size_t size)
{
    size_t bytes = count * size + PAGE_HEAD;
    if (fault(MTP__FAULT_ALLOC) || (size != 0 && count > (SIZE_MAX - PAGE_HEAD) / size))
        return NULL;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    *(size_t *)(void *)p = bytes;
    atomic_fetch_add(&live, 1);
    return p + PAGE_HEAD;
}

void mtp__page_free(void *p)
{
    if (p == NULL)
        return;
    size_t *head = (size_t *)(void *)((char *)p - PAGE_HEAD);
    munmap(head, *head);
    atomic_fetch_sub(&live, 1);
}

char *mtp__strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mtp__calloc(1, bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

void *mtp__map_memory(size_t bytes, bool huge)
{
    if (fault(MTP__FAULT_MAP)) {
        errno = ENOMEM;
        return NULL;
    }
    if (!mtp__budget_take(bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    size_t slack = huge ? HUGE_BYTES : 0;
    char *p =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        mtp__budget_give(bytes);
        return NULL;
    }
    if (huge) { /* trimmed to the alignment; the rest is unmapped at once */
        size_t head = (HUGE_BYTES - (uintptr_t)p % HUGE_BYTES) % HUGE_BYTES;
        if (head != 0)
            munmap(p, head);
        if (slack != head)
            munmap(p + head + bytes, slack - head);
        p += head;
        madvise(p, bytes, MADV_HUGEPAGE); /* best effort: small pages work too */
    }
    atomic_fetch_add(&live, 1);
    return p;
}

void mtp__map_not_inherited(void *p, size_t bytes)
{
    madvise(p, bytes, MADV_DONTFORK);
}

void mtp__map_inherited(void *p, size_t bytes)
{
    madvise(p, bytes, MADV_DOFORK);
}

unsigned long mtp__mappings_max(void)
{
    char text[32] = "";
    int fd = mtp__open("/proc/sys/vm/max_map_count", O_RDONLY, 0);
    unsigned long most =
        fd >= 0 && mtp__pread(fd, text, sizeof text - 1, 0) > 0 ? strtoul(text, NULL, 10) : 0;
    mtp__close(fd);
    return most != 0 ? most : MAPPINGS_USUAL;
}

void *mtp__map_grow(void *p, size_t bytes, size_t to)
{
    if (fault(MTP__FAULT_MAP) || (to > bytes && !mtp__budget_take(to - bytes)))
        return NULL;
    void *grown = mremap(p, bytes, to, MREMAP_MAYMOVE);
    bool gone = grown == MAP_FAILED;
    if (gone ? to > bytes : to < bytes)
        mtp__budget_give(gone ? to - bytes : bytes - to);
    return gone ? NULL : grown;
}

void *mtp__map_file(void *at, size_t bytes, int fd, uint64_t offset)
{
    if (fault(MTP__FAULT_MAP)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p =
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at != NULL ? MAP_FIXED : 0), fd, (off_t)offset);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_DONTFORK);
    if (at == NULL)
        atomic_fetch_add(&live, 1);
    return p;
}

void mtp__unmap(void *p, size_t bytes)
{
    if (p != NULL) {
        munmap(p, bytes);
        mtp__budget_give(bytes);
        atomic_fetch_sub(&live, 1);
    }
}

void *mtp__zlib_alloc(void *user, unsigned count, unsigned size)
{
    (void)user;
    return mtp__calloc(count, size);
}

void mtp__zlib_free(void *user, void *p)
{
    (void)user;
    mtp__free(p);
}

void mtp__unmapped(void *p)
{
    if (p != NULL)
        atomic_fetch_sub(&live, 1);
}

/* A signal handler without SA_RESTART interrupts calls: they are made again. */
#define RETRY(rc, call)                                                                                      \
    do {                                                                                                     \
        (rc) = (call);                                                                                       \
    } while ((rc) < 0 && errno == EINTR)

static int open_file(int dir, const char *path, int flags, mode_t mode)
{
    MTP__UNCANCELLED;
    if (fault(MTP__FAULT_OPEN)) {
        errno = EACCES;
        return -1;
    }
    int fd;
    RETRY(fd, openat(dir, path, flags | O_CLOEXEC, mode));
    return fd;
}

int mtp__open(const char *path, int flags, mode_t mode)
{
    return open_file(AT_FDCWD, path, flags, mode);
}

int mtp__open_at(int dir, const char *name, int flags, mode_t mode)
{
    return open_file(dir, name, flags | O_NOFOLLOW, mode);
}

int mtp__open_folder(int dir, const char *path)
{
    return open_file(dir, path, O_PATH | O_DIRECTORY, 0);
}

int mtp__grow_file(int fd, uint64_t offset, uint64_t bytes)
{
    MTP__UNCANCELLED;
    if (fault(MTP__FAULT_GROW)) {
        errno = ENOSPC;
        return -1;
    }
    struct rlimit limit; /* the kernel would raise SIGXFSZ, which kills the program */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        offset + bytes > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    int rc;
    do {
        rc = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (rc == EINTR);
    errno = rc;
    return rc == 0 ? 0 : -1;
}

int mtp__truncate(int fd, uint64_t bytes)
{
    MTP__UNCANCELLED;
    if (fault(MTP__FAULT_TRUNCATE)) {
        errno = EIO;
        return -1;
    }
    int rc;
    RETRY(rc, ftruncate(fd, (off_t)bytes));
    return rc;
}

ssize_t mtp__pread(int fd, void *to, size_t bytes, uint64_t offset)
{
    MTP__UNCANCELLED;
    if (fault(MTP__FAULT_READ)) {
        errno = EIO;
        return -1;
    }
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

void mtp__close(int fd)
{
    MTP__UNCANCELLED;
    if (fd >= 0)
        close(fd);
}

static mtp__lock lock_call(int fd, int command, short type)
{
    MTP__UNCANCELLED;
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    int rc;
    RETRY(rc, fcntl(fd, command, &lock));
    if (rc < 0)
        return errno == EAGAIN || errno == EACCES ? MTP__LOCK_HELD : MTP__LOCK_UNKNOWN;
    return command == F_OFD_GETLK && lock.l_type != F_UNLCK ? MTP__LOCK_HELD : MTP__LOCK_NONE;
}

mtp__lock mtp__lock_file(int fd)
{
    return lock_call(fd, F_OFD_SETLK, F_WRLCK);
}

mtp__lock mtp__lock_test(int fd)
{
    return lock_call(fd, F_OFD_GETLK, F_RDLCK);
}

void mtp__unlock_file(int fd)
{
    lock_call(fd, F_OFD_SETLK, F_UNLCK);
}

/* ------------------------------------------------------------------------------------------- output */

#define WRITE_MAX ((size_t)1 << 30) /* Linux writes a little less than 2 GiB at a time */

#define APPEND UINT64_MAX /* no offset */

static ssize_t write_some(int fd, const char *from, size_t length, uint64_t offset)
{
    if (fault(MTP__FAULT_WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    if (fault(MTP__FAULT_SHORT))
        length = (length + 1) / 2;
    ssize_t n;
    bool interrupted = fault(MTP__FAULT_INTERRUPT);
    length = length < WRITE_MAX ? length : WRITE_MAX;
    do {
        n = interrupted        ? -1
            : offset == APPEND ? write(fd, from, length)
                               : pwrite(fd, from, length, (off_t)offset);
        if (interrupted)
            errno = EINTR;
        interrupted = false;
    } while (n < 0 && errno == EINTR);
    return n;
}

/* A closed pipe or a file size limit raises a signal that kills the program: it is blocked in this thread
 * while writing, and discarded if it was raised. */
static int write_all(int fd, const void *bytes, size_t length, uint64_t offset)
{
    MTP__UNCANCELLED;
    sigset_t ours, before, pending;
    sigemptyset(&ours);
    sigaddset(&ours, SIGPIPE);
    sigaddset(&ours, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    const char *from = bytes;
    int rc = 0;
    while (length > 0 && rc == 0) {
        ssize_t n = write_some(fd, from, length, offset);
        if (n == 0)
            errno = EIO; /* no file returns this for a nonzero length */
        if (n <= 0) {
            rc = -1;
        } else {
            from += n;
            length -= (size_t)n;
            offset += offset != APPEND ? (uint64_t)n : 0;
        }
    }
    int error = errno;
    if (rc != 0 && (error == EPIPE || error == EFBIG)) {
        const struct timespec now = {0, 0};
        int signal = error == EPIPE ? SIGPIPE : SIGXFSZ;
        sigemptyset(&ours);
        sigaddset(&ours, signal);
        if (!sigismember(&pending, signal))
            sigtimedwait(&ours, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return rc;
}

int mtp__write(int fd, const void *bytes, size_t length)
{
    return write_all(fd, bytes, length, APPEND);
}

int mtp__pwrite(int fd, const void *bytes, size_t length, uint64_t offset)
{
    return write_all(fd, bytes, length, offset);
}

int mtp__sync(int fd)
{
    MTP__UNCANCELLED;
    if (fault(MTP__FAULT_SYNC)) {
        errno = EIO;
        return -1;
    }
    int rc;
    RETRY(rc, fsync(fd));
    return rc;
}

int mtp__rename_at(int dir, const char *from, const char *to)
{
    if (fault(MTP__FAULT_RENAME)) {
        errno = EIO;
        return -1;
    }
    return renameat(dir, from, dir, to);
}

int mtp__rename_new_at(int dir, const char *from, const char *to)
{
    if (fault(MTP__FAULT_RENAME)) {
        errno = EIO;
        return -1;
    }
    if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (linkat(dir, from, dir, to, 0) != 0) /* the file system does not support the flag */
        return -1;
    return unlinkat(dir, from, 0);
}

int mtp__open_temp_at(int dir, char name[40], int flags)
{
    MTP__UNCANCELLED;
    int fd = -1;
    for (int i = 0; i < TEMP_TRIES; i++) {
        uint64_t chance = 0;
        if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != (ssize_t)sizeof chance)
            chance = mtp__clock_ticks_slow() * 0x9e3779b97f4a7c15u + (uint64_t)getpid() + (uint64_t)i;
        snprintf(name, 40, ".mtprof-%016llx.tmp", (unsigned long long)chance);
        fd = mtp__open_at(dir, name, flags | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    if (fd < 0)
        name[0] = 0;
    else
        fchmod(fd, 0600); /* regardless of the umask */
    return fd;
}

void mtp__unlink_at(int dir, const char *name)
{
    unlinkat(dir, name, 0);
}

/* ------------------------------------------------------------------------------------------ sockets */

static bool socket_fault(int error)
{
    if (!fault(MTP__FAULT_SOCKET))
        return false;
    errno = error;
    return true;
}

int mtp__socket(void)
{
    return socket_fault(EMFILE) ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int mtp__bind(int fd, const struct sockaddr_un *name)
{
    return socket_fault(EROFS) ? -1 : bind(fd, (const struct sockaddr *)name, sizeof *name);
}

int mtp__listen(int fd, int backlog)
{
    return socket_fault(ENOBUFS) ? -1 : listen(fd, backlog);
}

int mtp__accept(int fd)
{
    MTP__UNCANCELLED;
    int client;
    if (socket_fault(EMFILE))
        return -1;
    RETRY(client, accept4(fd, NULL, NULL, SOCK_CLOEXEC));
    return client;
}

int mtp__connect(int fd, const struct sockaddr_un *name, unsigned patience_ms)
{
    MTP__UNCANCELLED;
    const struct timeval patience = {patience_ms / 1000, patience_ms % 1000 * 1000};
    int rc;
    if (socket_fault(ECONNREFUSED) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
        return -1;
    RETRY(rc, connect(fd, (const struct sockaddr *)name, sizeof *name));
    return rc;
}

int mtp__peer(int fd, struct ucred *peer)
{
    socklen_t size = sizeof *peer;
    return socket_fault(EIO) ? -1 : getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &size);
}

ssize_t mtp__send(int fd, const void *bytes, size_t length)
{
    MTP__UNCANCELLED;
    ssize_t n;
    if (socket_fault(EPIPE))
        return -1;
    RETRY(n, send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT));
    return n;
}

ssize_t mtp__recv(int fd, void *to, size_t room, bool peek)
{
    MTP__UNCANCELLED;
    ssize_t n;
    if (socket_fault(ECONNRESET))
        return -1;
    RETRY(n, recv(fd, to, room, MSG_DONTWAIT | (peek ? MSG_PEEK : 0)));
    return n;
}

int mtp__make_folder(const char *path, mode_t mode)
{
    return socket_fault(EACCES) ? -1 : mkdir(path, mode);
}

int mtp__look_at(const char *path, struct stat *st)
{
    return socket_fault(EACCES) ? -1 : lstat(path, st);
}

/* The signals that a thread's own code may cause are not blocked. */
static void own_signals(sigset_t *blocked)
{
    static const int its_own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof its_own / sizeof *its_own; i++)
        sigdelset(blocked, its_own[i]);
}

int mtp__start_thread(void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    if (fault(MTP__FAULT_THREAD))
        return EAGAIN;
    sigfillset(&all);
    own_signals(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

#define SHARED_MAX 64u
#define SHARED_STACK ((size_t)1 << 20)

typedef struct shared_work {
    void (*run)(void *arg, bool is_caller);
    void *arg;
} shared_work;

static void *run_shared(void *arg)
{
    const shared_work *w = arg;
    w->run(w->arg, false);
    return NULL;
}

void mtp__run_threads(unsigned count, void (*run)(void *arg, bool is_caller), void *arg)
{
    shared_work work = {run, arg};
    pthread_t thread[SHARED_MAX];
    pthread_attr_t attr;
    sigset_t all, before;
    unsigned started = 0;
    sigfillset(&all);
    own_signals(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SHARED_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started + 1 < count && started < SHARED_MAX && !fault(MTP__FAULT_THREAD) &&
           pthread_create(&thread[started], &attr, run_shared, &work) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    run(arg, true);
    while (started > 0)
        pthread_join(thread[--started], NULL);
}

bool mtp__barrier_register(void)
{
    return !fault(MTP__FAULT_BARRIER) &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void mtp__barrier_all(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
