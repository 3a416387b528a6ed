#define _GNU_SOURCE
#include "trace/json/source.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>
#include "base/budget.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/plain.h"

#ifndef MTP__SOURCE_BYTES
#define MTP__SOURCE_BYTES ((size_t)256 << 10)
#endif
#define HEAD_BYTES ((size_t)512)
/* Traces compress by a factor of 10 to 50, with long stacks 100. Anything larger than this that compressed
 * better was made to exhaust memory. */
#define BOMB_BYTES ((uint64_t)128 << 20)
#define BOMB_TIMES 200u

typedef ssize_t reading(mtp__source *s, void *to, size_t room);

struct mtp__source {
    int fd; /* owned unless standard input; -1: memory */
    bool seekable;
    uint64_t offset, total; /* in the file; total 0: unknown */
    uint64_t from, until;   /* the part of the file that is read */
    const char *memory;     /* borrowed */
    size_t memory_length, piece;
    char *input; /* owned: MTP__SOURCE_BYTES of raw input */
    size_t at, held;
    bool ended;       /* nothing follows the bytes held */
    reading *reading; /* plain, gzip or zstd */
    const char *form;
    z_stream gzip;
    bool gzip_open, inside; /* inside a member or frame */
    ZSTD_DCtx *zstd;        /* owned */
    uint64_t decoded, members;
    mtp_status status;
};

/* ----------------------------------------------------------------------------------------- the file */

static ssize_t raw_read(mtp__source *s, void *to, size_t room)
{
    ssize_t n;
    if (s->fd < 0) {
        size_t left = s->memory_length - (size_t)s->offset;
        n = (ssize_t)(room < left ? room : left);
        n = s->piece != 0 && (size_t)n > s->piece ? (ssize_t)s->piece : n;
        memcpy(to, s->memory + s->offset, (size_t)n);
    } else if (s->seekable) {
        uint64_t left = s->until > s->offset ? s->until - s->offset : 0;
        room = room < left ? room : (size_t)left;
        n = mtp__pread(s->fd, to, room, s->offset);
    } else {
        MTP__UNCANCELLED;
        do {
            n = read(s->fd, to, room);
        } while (n < 0 && errno == EINTR);
    }
    if (n < 0)
        s->status = MTP_FAIL(MTP_E_IO, "at byte %llu of the file: %s", (unsigned long long)s->offset,
                             mtp__reason(errno));
    else
        s->offset += (uint64_t)n;
    return n;
}

/* Appends more of the file to the bytes held. false: failed. */
static bool refill(mtp__source *s)
{
    memmove(s->input, s->input + s->at, s->held - s->at);
    s->held -= s->at;
    s->at = 0;
    ssize_t n = raw_read(s, s->input + s->held, MTP__SOURCE_BYTES - s->held);
    s->ended = n == 0;
    s->held += n > 0 ? (size_t)n : 0;
    return n >= 0;
}

static ssize_t read_plain(mtp__source *s, void *to, size_t room)
{
    size_t n = s->held - s->at;
    if (n == 0)
        return raw_read(s, to, room);
    n = n < room ? n : room;
    memcpy(to, s->input + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

/* --------------------------------------------------------------------------------------- compressed */

static ssize_t broken(mtp__source *s, const char *what)
{
    s->status = MTP_FAIL(
        MTP_E_FORMAT, "the %s data %s, at byte %llu of the file, after %llu bytes of content", s->form, what,
        (unsigned long long)(s->offset - (s->held - s->at)), (unsigned long long)s->decoded);
    mtp__advise("the file may have been truncated or altered in transfer: get it again");
    return -1;
}

/* Our message, followed by zlib's or zstd's own for those who know it. */
static ssize_t damaged(mtp__source *s, const char *library)
{
    char what[128];
    bool checksum = strstr(library, "data check") != NULL || strstr(library, "length check") != NULL ||
                    strstr(library, "checksum") != NULL;
    snprintf(what, sizeof what, "is damaged (%s: %s)",
             checksum ? "its checksum does not match its content" : "it cannot be decompressed", library);
    return broken(s, what);
}

/* Counts decoded bytes; far too many, when the user has set no limit, is an error. */
static ssize_t decoded(mtp__source *s, size_t bytes)
{
    uint64_t taken = mtp__source_done(s);
    s->decoded += bytes;
    if (s->decoded <= BOMB_BYTES || s->decoded / BOMB_TIMES <= taken || !mtp__budget_is_default())
        return (ssize_t)bytes;
    s->status =
        MTP_FAIL(MTP_E_UNSUPPORTED,
                 "the %s content is more than %u times as large as the file, as if made to exhaust memory",
                 s->form, BOMB_TIMES);
    mtp__advise("to read it anyway, set a memory limit: --max-memory, MTPROF_MAX_MEMORY or "
                "max_memory");
    return -1;
}

/* Between members: true if another follows; anything else must be padding. */
static bool next_member(mtp__source *s, bool *failed)
{
    *failed = false;
    for (;;) {
        while (s->at < s->held && s->input[s->at] == 0)
            s->at++;
        if (s->held - s->at >= 2 || (s->ended && s->held > s->at)) {
            bool magic = s->held - s->at >= 2 && memcmp(s->input + s->at, "\x1f\x8b", 2) == 0;
            *failed = !magic;
            if (!magic)
                broken(s, "is followed by something that is not gzip");
            return magic;
        }
        if (s->ended)
            return false;
        if (!refill(s)) {
            *failed = true;
            return false;
        }
    }
}

static ssize_t read_gzip(mtp__source *s, void *to, size_t room)
{
    bool failed;
    s->gzip.next_out = to;
    s->gzip.avail_out = room < ((size_t)1 << 30) ? (uInt)room : (uInt)1 << 30;
    uInt want = s->gzip.avail_out;
    while (s->gzip.avail_out == want) {
        if (!s->inside) {
            if (!next_member(s, &failed))
                return failed ? -1 : 0;
            inflateReset(&s->gzip);
            s->members++;
            s->inside = true;
        }
        if (s->at == s->held && !s->ended && !refill(s))
            return -1;
        if (s->at == s->held && s->ended)
            return broken(s, "is truncated");
        s->gzip.next_in = (const Bytef *)s->input + s->at;
        s->gzip.avail_in = (uInt)(s->held - s->at);
        int rc = inflate(&s->gzip, Z_NO_FLUSH);
        s->at = s->held - s->gzip.avail_in;
        if (rc == Z_MEM_ERROR) {
            s->status = MTP_FAIL(MTP_E_NOMEM, "decompressing");
            return -1;
        }
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            return damaged(s, s->gzip.msg != NULL ? s->gzip.msg : "no reason given");
        s->inside = rc != Z_STREAM_END;
    }
    return decoded(s, want - s->gzip.avail_out);
}

static ssize_t read_zstd(mtp__source *s, void *to, size_t room)
{
    ZSTD_outBuffer out = {to, room, 0};
    while (out.pos == 0) {
        if (s->at == s->held && !s->ended && !refill(s))
            return -1;
        if (s->at == s->held && s->ended)
            return s->inside ? broken(s, "is truncated") : 0;
        ZSTD_inBuffer in = {s->input + s->at, s->held - s->at, 0};
        size_t rc = ZSTD_decompressStream(s->zstd, &out, &in);
        s->at += in.pos;
        if (ZSTD_isError(rc))
            return damaged(s, ZSTD_getErrorName(rc));
        s->inside = rc != 0;
    }
    return decoded(s, out.pos);
}

/* --------------------------------------------------------------------------------------- life */

/* Reads the head and selects the matching reader. */
static mtp_status recognise(mtp__source *s)
{
    s->input = mtp__calloc(1, MTP__SOURCE_BYTES);
    if (s->input == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a buffer of %zu bytes", MTP__SOURCE_BYTES);
    s->form = "";
    s->reading = read_plain;
    while (s->held < HEAD_BYTES && !s->ended)
        if (!refill(s))
            return s->status;
    if (s->held == 0)
        return MTP_FAIL(MTP_E_FORMAT, "the file is empty");
    if (s->held >= 2 && memcmp(s->input, "\x1f\x8b", 2) == 0) {
        s->form = "gzip";
        s->reading = read_gzip;
        s->gzip.zalloc = mtp__zlib_alloc;
        s->gzip.zfree = mtp__zlib_free;
        if (inflateInit2(&s->gzip, 15 + 16) != Z_OK)
            return MTP_FAIL(MTP_E_NOMEM, "decompressing");
        s->gzip_open = true;
    } else if (s->held >= 4 && memcmp(s->input, "\x28\xb5\x2f\xfd", 4) == 0) {
        s->form = "zstd";
        s->reading = read_zstd;
        s->zstd = ZSTD_createDCtx();
        if (s->zstd == NULL)
            return MTP_FAIL(MTP_E_NOMEM, "decompressing");
    }
    return MTP_OK;
}

static mtp_status open_file(mtp__source *s, const char *path, uint64_t from, uint64_t bytes)
{
    struct stat st;
    s->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : mtp__open(path, O_RDONLY, 0);
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    if (S_ISDIR(st.st_mode))
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(EISDIR));
    off_t at = S_ISREG(st.st_mode) ? lseek(s->fd, 0, SEEK_CUR) : -1;
    s->seekable = at >= 0;
    s->offset = s->from = at >= 0 ? (uint64_t)at + from : 0;
    s->until = bytes != 0 ? s->from + bytes : UINT64_MAX;
    s->total = !S_ISREG(st.st_mode) ? 0 : bytes != 0 ? bytes : (uint64_t)st.st_size;
    if (s->seekable)
        posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return recognise(s);
}

mtp_status mtp__source_open(const char *path, mtp__source **out)
{
    return mtp__source_open_part(path, 0, 0, out);
}

mtp_status mtp__source_open_part(const char *path, uint64_t from, uint64_t bytes, mtp__source **out)
{
    *out = NULL;
    mtp__source *s = mtp__calloc(1, sizeof *s);
    if (s == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a file to read");
    mtp_status status = open_file(s, path, from, bytes);
    if (status != MTP_OK) {
        mtp__source_close(s);
        return status;
    }
    *out = s;
    return MTP_OK;
}

mtp_status mtp__source_memory(const void *bytes, size_t length, size_t piece, mtp__source **out)
{
    *out = NULL;
    mtp__source *s = mtp__calloc(1, sizeof *s);
    if (s == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "bytes to read");
    s->fd = -1;
    s->memory = bytes;
    s->memory_length = s->total = length;
    s->piece = piece;
    mtp_status status = recognise(s);
    if (status != MTP_OK) {
        mtp__source_close(s);
        return status;
    }
    *out = s;
    return MTP_OK;
}

void mtp__source_close(mtp__source *s)
{
    if (s == NULL)
        return;
    if (s->gzip_open)
        inflateEnd(&s->gzip);
    ZSTD_freeDCtx(s->zstd);
    if (s->fd != STDIN_FILENO)
        mtp__close(s->fd);
    mtp__free(s->input);
    mtp__free(s);
}

const void *mtp__source_head(const mtp__source *s, size_t *bytes)
{
    *bytes = s->held - s->at;
    return s->input + s->at;
}

bool mtp__source_seekable(const mtp__source *s)
{
    return s->seekable;
}

ssize_t mtp__source_read(mtp__source *s, void *to, size_t room)
{
    return s->status == MTP_OK ? s->reading(s, to, room) : -1;
}

mtp_status mtp__source_status(const mtp__source *s)
{
    return s->status;
}

uint64_t mtp__source_done(const mtp__source *s)
{
    return s->offset - s->from - (s->held - s->at);
}

uint64_t mtp__source_total(const mtp__source *s)
{
    return s->total;
}

uint64_t mtp__source_members(const mtp__source *s)
{
    return s->members;
}

const char *mtp__source_form(const mtp__source *s)
{
    return s->form;
}
