/* record/spool_out.c - see spool_out.h. */
#define _GNU_SOURCE
#include "record/spool_out.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/target.h"

#define STEP_BYTES ((uint64_t)1 << 20) /* the file grows by */

/* The lock goes with it: it is held while the file is not complete, and tells readers that its writer lives. */
static bool header_write(mtp__spool_out *f, bool complete)
{
    MTP__UNCANCELLED;
    bool locked = complete || mtp__lock_file(f->fd) == MTP__LOCK_NONE;
    mtp__spool_header header = {
        MTP__SPOOL_MAGIC, MTP__FORMAT_VERSION,      f->chunk_bytes,     (uint64_t)getpid(),
        complete,         complete ? f->pieces : 0, !complete && locked};
    f->finished = complete;
    bool written = pwrite(f->fd, &header, sizeof header, 0) == (ssize_t)sizeof header;
    if (complete)
        mtp__unlock_file(f->fd);
    return written;
}

/* Opened as it is, and emptied when it is ours: another process may be recording into it. */
static mtp_status create(mtp__spool_out *f, const char *path)
{
    mtp__target target;
    mtp_status status = mtp__target_find(path, &target);
    if (status != MTP_OK) {
        MTP_NOTE("spool");
        return status;
    }
    bool possible = target.place[0] == 0 && (!target.there || target.regular);
    if (possible)
        f->fd = mtp__open_at(target.dir, target.name, O_RDWR | O_CREAT, 0600);
    int error = errno;
    mtp__close(target.dir);
    if (!possible)
        return MTP_FAIL(MTP_E_IO, "spool: %s: it is no regular file", path);
    if (f->fd < 0)
        return MTP_FAIL(MTP_E_IO, "spool: %s: cannot be created: %s", path, mtp__reason(error));
    if (mtp__lock_file(f->fd) == MTP__LOCK_HELD) {
        mtp__spool_header other = {0};
        ssize_t got = mtp__pread(f->fd, &other, sizeof other, 0);
        return MTP_FAIL(MTP_E_IO, "spool: %s: process %llu is recording into it; name another file", path,
                        got == (ssize_t)sizeof other ? (unsigned long long)other.pid : 0);
    }
    if (mtp__truncate(f->fd, 0) != 0)
        return MTP_FAIL(MTP_E_IO, "spool: %s: cannot be emptied: %s", path, mtp__reason(errno));
    return MTP_OK;
}

mtp_status mtp__spool_out_open(mtp__spool_out *f, const char *path, uint32_t chunk_bytes, uint64_t limit)
{
    *f = (mtp__spool_out){.fd = -1, .chunk_bytes = chunk_bytes, .limit = limit};
    mtp_status status = create(f, path);
    if (status != MTP_OK)
        return status;
    if (mtp__grow_file(f->fd, 0, f->chunk_bytes) != 0 || !header_write(f, false))
        return MTP_FAIL(MTP_E_IO, "spool: %s: cannot be written: %s", path, mtp__reason(errno));
    return MTP_OK;
}

void mtp__spool_out_close(mtp__spool_out *f)
{
    mtp__close(f->fd);
    f->fd = -1;
    f->pieces = f->room = 0;
}

/* Real blocks first: a mapped hole on a full disk is SIGBUS. */
bool mtp__spool_out_next(mtp__spool_out *f, void *at)
{
    if (f->pieces >= f->room) {
        uint64_t step = STEP_BYTES / f->chunk_bytes, more = step < 1 ? 1 : step;
        if (more > f->limit - f->pieces)
            more = f->limit - f->pieces;
        if (mtp__grow_file(f->fd, (f->pieces + 1) * f->chunk_bytes, more * f->chunk_bytes) != 0)
            return false;
        f->room = f->pieces + more;
    }
    if (mtp__map_file(at, f->chunk_bytes, f->fd, (f->pieces + 1) * f->chunk_bytes) == NULL)
        return false;
    f->pieces++;
    return true;
}

void mtp__spool_out_finish(mtp__spool_out *f)
{
    if (f->fd < 0)
        return;
    if (mtp__truncate(f->fd, (f->pieces + 1) * f->chunk_bytes) == 0)
        f->room = f->pieces;
    if (!header_write(f, true) && f->error == 0)
        f->error = errno; /* readers do without: complete stays 0 */
}

void mtp__spool_out_go_on(mtp__spool_out *f)
{
    if (f->fd >= 0 && f->finished)
        header_write(f, false);
}

ssize_t mtp__spool_out_read(const mtp__spool_out *f, uint64_t piece, uint32_t from, void *copy, size_t bytes)
{
    return mtp__pread(f->fd, copy, bytes, (piece + 1) * f->chunk_bytes + from);
}
