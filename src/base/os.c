#define _GNU_SOURCE
#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

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

void *mtp__calloc(size_t count, size_t size)
{
    void *p = fault(MTP__FAULT_ALLOC) ? NULL : calloc(count, size);
    if (p != NULL)
        atomic_fetch_add(&live, 1);
    return p;
}

void mtp__free(void *p)
{
    if (p != NULL) {
        atomic_fetch_sub(&live, 1);
        free(p);
    }
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
    size_t slack = huge ? HUGE_BYTES : 0;
    char *p =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (huge) { /* cut to the alignment; the rest is given back at once */
        size_t head = (HUGE_BYTES - (uintptr_t)p % HUGE_BYTES) % HUGE_BYTES;
        if (head != 0)
            munmap(p, head);
        if (slack != head)
            munmap(p + head + bytes, slack - head);
        p += head;
        madvise(p, bytes, MADV_HUGEPAGE); /* a wish: small pages do as well */
    }
    madvise(p, bytes, MADV_DONTFORK);
    atomic_fetch_add(&live, 1);
    return p;
}

void *mtp__map_grow(void *p, size_t bytes, size_t to)
{
    void *grown = fault(MTP__FAULT_MAP) ? MAP_FAILED : mremap(p, bytes, to, MREMAP_MAYMOVE);
    return grown != MAP_FAILED ? grown : NULL;
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
        atomic_fetch_sub(&live, 1);
    }
}

void mtp__unmapped(void *p)
{
    if (p != NULL)
        atomic_fetch_sub(&live, 1);
}

int mtp__open(const char *path, int flags, mode_t mode)
{
    if (fault(MTP__FAULT_OPEN)) {
        errno = EACCES;
        return -1;
    }
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

int mtp__grow_file(int fd, uint64_t offset, uint64_t bytes)
{
    if (fault(MTP__FAULT_GROW)) {
        errno = ENOSPC;
        return -1;
    }
    struct rlimit limit; /* the kernel would say it with SIGXFSZ, which ends the program */
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
    if (fault(MTP__FAULT_TRUNCATE)) {
        errno = EIO;
        return -1;
    }
    int rc;
    do {
        rc = ftruncate(fd, (off_t)bytes);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

ssize_t mtp__pread(int fd, void *to, size_t bytes, uint64_t offset)
{
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
    if (fd >= 0)
        close(fd);
}
