#define _GNU_SOURCE
#include "base/file_out.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "base/error.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/target.h"
#include "base/plain.h"

#define BUFFER_BYTES ((size_t)128 << 10)
#define TEMP_TRIES 64
#define GZIP_WINDOW (15 + 16) /* zlib's code for a gzip header and trailer */

struct mtp_file {
    int fd, dir;             /* dir: -1 if written in place */
    bool owned;              /* fd is ours to close */
    bool packed;             /* gzip */
    mode_t mode;             /* of a new file; 0: by the umask */
    int error;               /* errno of the first failure; 0: none */
    const char *doing;       /* what failed */
    char *path;              /* owned */
    char name[NAME_MAX + 1]; /* in dir: the last component of the path, or of the target of its link */
    char temp[40];           /* in dir; "": none */
    z_stream z;
    size_t used;
    unsigned char buffer[BUFFER_BYTES];
};

bool mtp__path_ends(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n >= m && strcmp(path + n - m, suffix) == 0;
}

void mtp__file_set_mode(mtp_file *f, mode_t mode)
{
    f->mode = (mode & 0777) != 0 ? mode & 0777 : 0600;
}

bool mtp__file_failed(const mtp_file *f)
{
    return f->error != 0;
}

static bool failed(mtp_file *f, const char *doing)
{
    if (f->error == 0) {
        f->error = errno != 0 ? errno : EIO;
        f->doing = doing;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------ opening */

/* The mode that open() would have given: umask() can only be queried by changing it, for all threads. */
static mode_t mode_by_umask(void)
{
    char text[2048];
    int fd = mtp__open("/proc/self/status", O_RDONLY, 0);
    ssize_t n = fd >= 0 ? mtp__pread(fd, text, sizeof text - 1, 0) : -1;
    mtp__close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "\nUmask:");
    return at != NULL ? 0666 & ~(mode_t)strtoul(at + 7, NULL, 8) : 0600;
}

/* Next to the target, under a unique name. */
static mtp_status open_temp(mtp_file *f)
{
    f->fd = mtp__open_temp_at(f->dir, f->temp, O_WRONLY);
    f->owned = f->fd >= 0;
    if (f->owned)
        return MTP_OK;
    return MTP_FAIL(MTP_E_IO, "%s: no file can be created in its folder: %s", f->path, mtp__reason(errno));
}

static mtp_status open_in_place(mtp_file *f, const char *place)
{
    if (strcmp(place, "-") == 0 || strcmp(place, "/dev/stdout") == 0) {
        fflush(stdout); /* what the program printed earlier comes first */
        f->fd = STDOUT_FILENO;
        return MTP_OK;
    }
    f->fd = mtp__open(place, O_WRONLY | O_APPEND | O_NOCTTY, 0);
    f->owned = f->fd >= 0;
    return f->owned ? MTP_OK : MTP_FAIL(MTP_E_IO, "%s: cannot be opened: %s", f->path, mtp__reason(errno));
}

/* A pipe or a device outside /dev: opened by name in its folder, so that a link created meanwhile is not
 * followed; and it must be the one examined, not a file that replaced it. */
static mtp_status open_special(mtp_file *f, const mtp__target *target)
{
    struct stat st;
    f->fd = mtp__open_at(f->dir, f->name, O_WRONLY | O_APPEND | O_NOCTTY, 0);
    int error = errno;
    f->owned = f->fd >= 0;
    mtp__close(f->dir);
    f->dir = -1;
    if (!f->owned)
        return MTP_FAIL(MTP_E_IO, "%s: cannot be opened: %s", f->path, mtp__reason(error));
    if (fstat(f->fd, &st) != 0 || st.st_dev != target->device || st.st_ino != target->number)
        return MTP_FAIL(MTP_E_IO, "%s: another file replaced it while it was being opened", f->path);
    return MTP_OK;
}

static mtp_status open_target(mtp_file *f)
{
    if (mtp__path_in_place(f->path))
        return open_in_place(f, f->path);
    mtp__target target;
    mtp_status status = mtp__target_find(f->path, &target);
    if (status != MTP_OK)
        return status;
    if (target.place[0] != 0)
        return open_in_place(f, target.place);
    f->dir = target.dir;
    memcpy(f->name, target.name, sizeof f->name);
    return target.there && !target.regular ? open_special(f, &target) : open_temp(f);
}

/* ------------------------------------------------------------------------------------------ packing */

static mtp_status pack_init(mtp_file *f, int compression)
{
    f->packed = compression != MTP_FILE_PLAIN && mtp__path_ends(f->path, ".gz");
    if (!f->packed)
        return MTP_OK;
    f->z.zalloc = mtp__zlib_alloc;
    f->z.zfree = mtp__zlib_free;
    int level = compression != 0 ? compression : Z_DEFAULT_COMPRESSION;
    if (deflateInit2(&f->z, level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        f->packed = false;
        return MTP_FAIL(MTP_E_NOMEM, "a compressor");
    }
    return MTP_OK;
}

static bool flush(mtp_file *f)
{
    size_t length = f->used;
    f->used = 0;
    return f->error == 0 &&
           (length == 0 || mtp__write(f->fd, f->buffer, length) == 0 || failed(f, "cannot be written"));
}

static bool pack(mtp_file *f, const unsigned char *bytes, size_t length, int how)
{
    do {
        unsigned n = length < (1u << 30) ? (unsigned)length : 1u << 30;
        f->z.next_in = (unsigned char *)(uintptr_t)bytes; /* zlib does not write there */
        f->z.avail_in = n;
        bytes += n;
        length -= n;
        int rc;
        do {
            f->z.next_out = f->buffer + f->used;
            f->z.avail_out = (unsigned)(BUFFER_BYTES - f->used);
            rc = deflate(&f->z, length == 0 ? how : Z_NO_FLUSH);
            f->used = BUFFER_BYTES - f->z.avail_out;
            if (f->used == BUFFER_BYTES && !flush(f))
                return false;
        } while (f->z.avail_in > 0 || (how == Z_FINISH && rc != Z_STREAM_END));
    } while (length > 0);
    return true;
}

/* ------------------------------------------------------------------------------------------- public */

/* From any state; unless renamed, the temporary file is removed. */
static void drop(mtp_file *f)
{
    if (f->packed)
        deflateEnd(&f->z);
    if (f->temp[0] != 0)
        mtp__unlink_at(f->dir, f->temp);
    if (f->owned)
        mtp__close(f->fd);
    mtp__close(f->dir);
    mtp__free(f->path);
    mtp__free(f);
}

mtp_status mtp_file_create(const char *path, int compression, mtp_file **out)
{
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = NULL;
    if (path == NULL || path[0] == 0)
        return MTP_FAIL(MTP_E_ARG, "the path is empty");
    if (compression != MTP_FILE_PLAIN && (compression < 0 || compression > 9))
        return MTP_FAIL(MTP_E_ARG, "compression %d: use 1 to 9, or 0 for the default", compression);
    mtp_file *f = mtp__calloc(1, sizeof *f);
    if (f == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a file to be written");
    f->fd = f->dir = -1;
    f->path = mtp__strdup(path);
    if (f->path == NULL) {
        drop(f);
        return MTP_FAIL(MTP_E_NOMEM, "a path of %zu bytes", strlen(path));
    }
    mtp_status status = pack_init(f, compression);
    if (status == MTP_OK)
        status = open_target(f);
    if (status != MTP_OK) {
        drop(f);
        return status;
    }
    *out = f;
    return MTP_OK;
}

bool mtp_file_sink(void *file, const void *bytes, size_t length)
{
    mtp_file *f = file;
    if (f->error != 0)
        return false;
    if (f->packed)
        return length == 0 || pack(f, bytes, length, Z_NO_FLUSH);
    if (length > BUFFER_BYTES - f->used && !flush(f))
        return false;
    if (length >= BUFFER_BYTES)
        return mtp__write(f->fd, bytes, length) == 0 || failed(f, "cannot be written");
    if (length > 0)
        memcpy(f->buffer + f->used, bytes, length);
    f->used += length;
    return true;
}

/* Permissions: those of the file being replaced; a new one gets the requested mode, or that of the umask. */
static void set_mode(mtp_file *f)
{
    struct stat st;
    bool there = fstatat(f->dir, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    mode_t mode = there ? st.st_mode & 0777 : f->mode != 0 ? f->mode : mode_by_umask();
    if (fchmod(f->fd, mode) != 0)
        errno = 0; /* some file systems have no modes: it stays private */
}

static bool put_in_place(mtp_file *f)
{
    MTP__UNCANCELLED;
    set_mode(f);
    if (mtp__sync(f->fd) != 0)
        return failed(f, "cannot be flushed to disk");
    if (mtp__rename_at(f->dir, f->temp, f->name) != 0)
        return failed(f, "cannot be replaced");
    f->temp[0] = 0;
    int folder = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder); /* the file exists either way; this only makes the name survive a power cut */
        mtp__close(folder);
    }
    return true;
}

mtp_status mtp_file_commit(mtp_file *f)
{
    if (f == NULL)
        return MTP_FAIL(MTP_E_ARG, "file is NULL");
    bool well = f->error == 0 && (!f->packed || pack(f, (const unsigned char *)"", 0, Z_FINISH)) && flush(f);
    if (well && f->temp[0] != 0)
        well = put_in_place(f);
    mtp_status status = MTP_OK;
    if (!well)
        status = MTP_FAIL(MTP_E_IO, "%s: %s: %s%s", f->path, f->doing, mtp__reason(f->error),
                          f->dir >= 0 ? "; the existing file is unchanged" : "");
    drop(f);
    return status;
}

void mtp_file_abandon(mtp_file *f)
{
    if (f != NULL)
        drop(f);
}
