/* record/spool/out.c - see spool_out.h. */
#define _GNU_SOURCE
#include "record/spool/out.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/checks.h"
#include "record/piece.h"

#define BUSY_TRIES 1000
#define STEP_BYTES ((uint64_t)1 << 20) /* by which the file grows */

static bool is_ours(const mtp__spool_out *f, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode;
}

int mtp__spool_out_descriptor(mtp__spool_out *f)
{
    if (f->fd < 0 || is_ours(f, f->fd))
        return f->fd;
    int fd = mtp__spool_name_reopen(f->name);
    if (fd < 0 || !is_ours(f, fd)) {
        mtp__close(fd);
        errno = EBADF;
        return -1;
    }
    f->fd = fd;
    f->reopened = true;
    if (!f->finished)
        mtp__lock_file(fd); /* our mappings, if any, still hold it */
    return fd;
}

/* Also sets the lock: it is held while the file is not complete, and tells readers that its writer lives.
 * Header and copy are one write within one page: a kill leaves both old or both new. */
static bool header_write(mtp__spool_out *f, bool complete)
{
    MTP__UNCANCELLED;
    int fd = mtp__spool_out_descriptor(f);
    mtp__lock lock = complete || fd < 0 ? MTP__LOCK_NONE : mtp__lock_file(fd);
    bool locked = lock == MTP__LOCK_NONE || (f->reopened && lock == MTP__LOCK_HELD);
    unsigned char page[MTP__SPOOL_COPY_AT + sizeof(mtp__spool_header)] = {0};
    mtp__spool_header header = {.version = MTP__FORMAT_VERSION,
                                .chunk_bytes = f->piece_bytes,
                                .pid = (uint64_t)getpid(),
                                .complete = complete,
                                .chunks = complete ? f->pieces : 0,
                                .locked = !complete && locked,
                                .ticks_per_ns = mtp__clock_ticks_per_ns(),
                                .ticks = f->made.ticks,
                                .monotonic_ns = f->made.monotonic_ns,
                                .realtime_ns = f->made.realtime_ns};
    memcpy(header.magic, MTP__SPOOL_MAGIC, sizeof header.magic);
    if (complete)
        header.totals = f->totals;
    header.check = mtp__spool_check(&header);
    memcpy(page, &header, sizeof header);
    memcpy(page + MTP__SPOOL_COPY_AT, &header, sizeof header);
    f->finished = complete;
    bool written = fd >= 0 && mtp__pwrite(fd, page, sizeof page, 0) == 0;
    if (complete && fd >= 0)
        mtp__unlock_file(fd);
    return written;
}

/* One attempt. MTP_E_BUSY: the number in its name was taken meanwhile. */
static mtp_status create(mtp__spool_out *f, const char *pattern, uint64_t least)
{
    mtp__spool_name *n = f->name;
    uint64_t bytes = (least + 1) * f->piece_bytes;
    mtp_status status = mtp__spool_name_make(n, pattern, &f->fd);
    struct stat made;
    if (status == MTP_OK && fstat(f->fd, &made) != 0)
        status = MTP_FAIL(MTP_E_IO, "spool: %s: cannot be created: %s", n->path, mtp__reason(errno));
    if (status == MTP_OK) {
        f->device = made.st_dev;
        f->inode = made.st_ino;
    }
    if (status == MTP_OK && mtp__grow_file(f->fd, 0, bytes) != 0)
        status = MTP_FAIL(MTP_E_IO, "spool: %s: no room for its first %llu bytes: %s", n->path,
                          (unsigned long long)bytes, mtp__reason(errno));
    if (status == MTP_OK && !header_write(f, false))
        status = MTP_FAIL(MTP_E_IO, "spool: %s: cannot be written: %s", n->path, mtp__reason(errno));
    if (status == MTP_OK)
        status = mtp__spool_name_take(n, pattern, f->fd);
    mtp__spool_name_drop(n);
    if (status != MTP_OK) {
        mtp__close(f->fd);
        f->fd = -1;
    }
    return status;
}

mtp_status mtp__spool_out_open(mtp__spool_out *f, const char *path, uint32_t piece_bytes, uint64_t least,
                               uint64_t limit)
{
    *f = (mtp__spool_out){.fd = -1, .piece_bytes = piece_bytes, .limit = limit};
    f->name = mtp__calloc(1, sizeof *f->name);
    if (f->name == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the spool's path");
    mtp__clock_ticks_per_ns(); /* may wait: so before there is a file that a kill would leave */
    mtp__clock_anchor(&f->made);
    f->magic = mtp__file_magic(f->made.ticks, f->made.monotonic_ns, f->made.realtime_ns);
    mtp_status status = create(f, path, least);
    for (int i = 0; status == MTP_E_BUSY && i < BUSY_TRIES; i++)
        status = create(f, path, least);
    f->room = status == MTP_OK ? least : 0;
    return status == MTP_E_BUSY ? MTP_E_IO : status;
}

void mtp__spool_out_forked(mtp__spool_out *f)
{
    if (f->fd >= 0 && is_ours(f, f->fd))
        mtp__close(f->fd);
    f->fd = -1;
    f->pieces = f->room = 0;
}

void mtp__spool_out_close(mtp__spool_out *f)
{
    mtp__spool_out_forked(f);
    mtp__free(f->name);
    f->name = NULL;
}

/* In increasing steps while the disk has room, and piece by piece up to the last that fits. */
static bool grow(mtp__spool_out *f, int fd)
{
    uint64_t most = STEP_BYTES / f->piece_bytes;
    f->step = f->step == 0 ? 1 : f->step * 2 < most ? f->step * 2 : most;
    f->step = f->step != 0 ? f->step : 1;
    for (;; f->step /= 2) {
        uint64_t more = f->step < f->limit - f->pieces ? f->step : f->limit - f->pieces;
        if (mtp__grow_file(fd, (f->pieces + 1) * f->piece_bytes, more * f->piece_bytes) == 0) {
            f->room = f->pieces + more;
            return true;
        }
        if (f->step == 1)
            return false;
    }
}

/* Allocates blocks first: a mapped hole on a full disk is SIGBUS. */
bool mtp__spool_out_next(mtp__spool_out *f, void *at)
{
    int fd = mtp__spool_out_descriptor(f);
    if (fd < 0 || (f->pieces >= f->room && !grow(f, fd)))
        return false;
    if (mtp__map_file(at, f->piece_bytes, fd, (f->pieces + 1) * f->piece_bytes) == NULL)
        return false;
    f->pieces++;
    return true;
}

bool mtp__spool_out_cut(mtp__spool_out *f)
{
    struct stat st;
    int fd = mtp__spool_out_descriptor(f);
    if (fd >= 0 && atomic_load(&f->cut) == 0 && fstat(fd, &st) == 0 &&
        (uint64_t)st.st_size < (f->room + 1) * f->piece_bytes)
        atomic_store(&f->cut, 1);
    return atomic_load(&f->cut) != 0;
}

void mtp__spool_out_finish(mtp__spool_out *f)
{
    if (f->fd < 0 || mtp__spool_out_cut(f))
        return; /* a header would make the rest look complete */
    int fd = mtp__spool_out_descriptor(f);
    if (fd >= 0 && mtp__truncate(fd, (f->pieces + 1) * f->piece_bytes) == 0)
        f->room = f->pieces;
    if (!header_write(f, true) && f->error == 0)
        f->error = errno; /* readers do without: complete stays 0 */
}

void mtp__spool_out_go_on(mtp__spool_out *f)
{
    if (f->fd >= 0 && f->finished && atomic_load(&f->cut) == 0)
        header_write(f, false);
}

ssize_t mtp__spool_out_read(const mtp__spool_out *f, uint64_t piece, uint32_t from, mtp__chunk *copy,
                            uint32_t bytes)
{
    return mtp__chunk_read(f->fd, (piece + 1) * f->piece_bytes + from, copy, bytes);
}
