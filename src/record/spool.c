/* record/spool.c - see spool.h. The file is read with pread, one chunk at a time: it may be cut short under us, and no
 * number in it is believed before it was checked. */
#define _GNU_SOURCE
#include "record/spool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"

#define CHUNK_MIN 4096u
#define CHUNK_MAX (1u << 20)
#define LIVE_TRIES 4

bool mtp__spool_recognise(const void *start, size_t bytes)
{
    return bytes >= 8 && memcmp(start, MTP__SPOOL_MAGIC, 8) == 0;
}

mtp_outcome mtp__spool_outcome(int fd, const mtp__spool_header *h)
{
    if (h->complete == 1)
        return MTP_OUTCOME_STOPPED;
    mtp__lock lock = mtp__lock_test(fd);
    if (lock == MTP__LOCK_HELD)
        return MTP_OUTCOME_LIVE;
    mtp__spool_header now; /* it may have been stopped since: the lock goes after that was written */
    if (mtp__pread(fd, &now, sizeof now, 0) == (ssize_t)sizeof now && now.complete == 1)
        return MTP_OUTCOME_STOPPED;
    return lock == MTP__LOCK_NONE && h->locked == 1 ? MTP_OUTCOME_RECOVERED : MTP_OUTCOME_NOT_STOPPED;
}

uint64_t mtp__spool_missing(const mtp__spool_header *h, uint64_t file_bytes)
{
    uint64_t pieces = file_bytes / h->chunk_bytes, whole = pieces > 0 ? pieces - 1 : 0;
    return h->complete == 1 && h->chunks > whole ? h->chunks - whole : 0;
}

static mtp_status header_read(int fd, mtp__spool_header *h, uint64_t *file_bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    if (!S_ISREG(st.st_mode))
        return MTP_FAIL(MTP_E_FORMAT, "a spool must be a regular file, and this is not a regular file");
    *file_bytes = (uint64_t)st.st_size;
    ssize_t got = mtp__pread(fd, h, sizeof *h, 0);
    if (got < 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    if (!mtp__spool_recognise(h->magic, (size_t)got))
        return MTP_FAIL(MTP_E_FORMAT, "this is not an mtprof spool");
    if (got != (ssize_t)sizeof *h)
        return MTP_FAIL(MTP_E_FORMAT, "the spool's header is cut off, at byte %zu", (size_t)got);
    if (h->version != MTP__FORMAT_VERSION)
        return MTP_FAIL(MTP_E_FORMAT,
                        "a spool of version %u; this library reads version %u: use the mtprof that wrote it",
                        h->version, MTP__FORMAT_VERSION);
    if (h->chunk_bytes < CHUNK_MIN || h->chunk_bytes > CHUNK_MAX ||
        (h->chunk_bytes & (h->chunk_bytes - 1)) != 0)
        return MTP_FAIL(MTP_E_FORMAT, "byte 12: a chunk size of %u cannot be; the header is damaged",
                        h->chunk_bytes);
    return MTP_OK;
}

bool mtp__chunk_place_add(mtp__chunk_place **list, uint64_t *count, const mtp__chunk_place *place)
{
    if (*count == 0 || (*count >= 64 && (*count & (*count - 1)) == 0)) {
        mtp__chunk_place *grown = mtp__calloc(*count != 0 ? *count * 2 : 64, sizeof *grown);
        if (grown == NULL)
            return false;
        if (*count > 0)
            memcpy(grown, *list, *count * sizeof *grown);
        mtp__free(*list);
        *list = grown;
    }
    (*list)[(*count)++] = *place;
    return true;
}

uint64_t mtp__spool_next_piece(int fd, uint32_t chunk_bytes, uint64_t i, uint64_t pieces, uint64_t *known)
{
    if (i < *known)
        return i;
    off_t data = lseek(fd, (off_t)((i + 1) * chunk_bytes), SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? pieces : i; /* nothing but holes; or the file system does not say */
    off_t hole = lseek(fd, data, SEEK_HOLE);
    uint64_t at = (uint64_t)data / chunk_bytes - 1;
    *known = hole > data ? (uint64_t)(hole - 1) / chunk_bytes : at + 1;
    return at < pieces ? at : pieces;
}

/* Which pieces hold chunks, in the order of writing. A last piece that the file's end cuts still counts. */
static mtp_status list_places(int fd, const mtp__spool_header *h, uint64_t file_bytes, mtp__chunk_place **out,
                              uint64_t *count, uint64_t *unread)
{
    uint64_t pieces = (file_bytes + h->chunk_bytes - 1) / h->chunk_bytes, known = 0;
    pieces = pieces > 0 ? pieces - 1 : 0;
    for (uint64_t i = 0; (i = mtp__spool_next_piece(fd, h->chunk_bytes, i, pieces, &known)) < pieces; i++) {
        mtp__chunk header = {0};
        ssize_t got = mtp__pread(fd, &header, sizeof header, (i + 1) * h->chunk_bytes);
        *unread += got < 0;
        mtp__chunk_place place = {header.order, i, header.stream};
        if (got > 0 && header.order != 0 && !mtp__chunk_place_add(out, count, &place))
            return MTP_FAIL(MTP_E_NOMEM, "a list of %llu chunks", (unsigned long long)*count);
    }
    if (*count > 0)
        qsort(*out, *count, sizeof **out, mtp__chunk_place_compare);
    return MTP_OK;
}

/* The piece's words in `copy`; false: damaged. *gone: it holds another chunk now, its writer goes on. */
static bool piece_read(int fd, const mtp__spool_header *h, const mtp__chunk_place *p, mtp__chunk *copy,
                       uint32_t *words, bool *sealed, bool *gone)
{
    memset(copy, 0, h->chunk_bytes);
    ssize_t got = mtp__pread(fd, copy, h->chunk_bytes, (p->at + 1) * h->chunk_bytes);
    *gone = got >= (ssize_t)sizeof *copy && copy->order != p->order;
    if (got < (ssize_t)sizeof *copy || copy->magic != MTP__CHUNK_MAGIC || copy->order != p->order)
        return false;
    uint32_t capacity = (uint32_t)(((size_t)got - sizeof *copy) / 8);
    *sealed = copy->checksum != 0;
    *words = mtp__chunk_written(mtp__chunk_words(copy), capacity);
    if (!*sealed)
        return true;
    if (copy->words <= capacity)
        return copy->checksum == mtp__chunk_checksum(copy, mtp__chunk_words(copy)) && *words == copy->words;
    return got < (ssize_t)h->chunk_bytes; /* cut short by the file's end: what is there may be read */
}

/* The same of a file that is being written to: what changed while it was read is read again. */
static bool piece_read_live(int fd, const mtp__spool_header *h, const mtp__chunk_place *p, mtp__chunk *copy,
                            uint32_t *words, bool *sealed, bool *gone)
{
    bool read = false;
    for (int i = 0; i < LIVE_TRIES && !read && !(i > 0 && *gone); i++)
        read = piece_read(fd, h, p, copy, words, sealed, gone);
    return read;
}

static mtp_status visit(const char *path, bool control_only, mtp__chunk_visitor *visitor, void *user,
                        mtp__spool_report *report)
{
    mtp__spool_header h;
    mtp__spool_report own;
    mtp__spool_report *rep = report != NULL ? report : &own;
    *rep = (mtp__spool_report){0};
    uint64_t file_bytes = 0, count = 0;
    mtp__chunk_place *places = NULL;
    mtp__chunk *copy = NULL;
    int fd = mtp__open(path, O_RDONLY | O_NONBLOCK, 0); /* a FIFO must not hold us */
    if (fd < 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    mtp_status status = header_read(fd, &h, &file_bytes);
    if (status == MTP_OK)
        status = list_places(fd, &h, file_bytes, &places, &count, &rep->damaged);
    if (status == MTP_OK && (copy = mtp__calloc(1, h.chunk_bytes)) == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "a chunk of %u bytes", h.chunk_bytes);
    if (status == MTP_OK) {
        rep->version = h.version;
        rep->pid = h.pid;
        rep->complete = h.complete == 1;
        rep->outcome = mtp__spool_outcome(fd, &h);
        rep->missing = mtp__spool_missing(&h, file_bytes);
    }
    for (uint64_t i = 0; status == MTP_OK && i < count; i++) {
        if (control_only && places[i].stream != 0)
            continue;
        uint32_t words = 0;
        bool sealed = false;
        bool live = rep->outcome == MTP_OUTCOME_LIVE, gone = false;
        if (!(live ? piece_read_live : piece_read)(fd, &h, &places[i], copy, &words, &sealed, &gone)) {
            rep->damaged += !(live && gone);
            continue;
        }
        rep->chunks++;
        rep->unsealed += !sealed;
        status = visitor(user, copy, mtp__chunk_words(copy), words);
    }
    mtp__free(copy);
    mtp__free(places);
    mtp__close(fd);
    return status;
}

mtp_status mtp__spool_visit(const char *path, mtp__chunk_visitor *visitor, void *user,
                            mtp__spool_report *report)
{
    return visit(path, false, visitor, user, report);
}

mtp_status mtp__spool_visit_control(const char *path, mtp__chunk_visitor *visitor, void *user)
{
    return visit(path, true, visitor, user, NULL);
}
