/* record/spool.c - see spool.h. The file is read with pread, one chunk at a time: it may be cut short under us, and no
 * number in it is believed before it was checked. */
#include "record/spool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* Where the chunks are, in the order of visits. A last piece that the file's end cuts still counts. */
static mtp_status list_places(int fd, const mtp__spool_header *h, uint64_t file_bytes, mtp__places *places)
{
    uint64_t pieces = (file_bytes + h->chunk_bytes - 1) / h->chunk_bytes;
    mtp_status status = mtp__places_list(places, fd, h->chunk_bytes, pieces > 0 ? pieces - 1 : 0);
    mtp__places_sort(places);
    return status;
}

/* The chunk in `copy`, and how many words it has; false: damaged. *gone: there is another now, its writer goes on. */
static bool chunk_read(int fd, const mtp__spool_header *h, const mtp__chunk_place *p, mtp__chunk *copy,
                       uint32_t *words, bool *sealed, bool *gone)
{
    uint32_t bytes = p->span != 0 ? p->span : h->chunk_bytes - p->from;
    memset(copy, 0, bytes);
    ssize_t got = mtp__pread(fd, copy, bytes, (p->piece + 1) * h->chunk_bytes + p->from);
    *gone = got >= (ssize_t)sizeof *copy && (copy->order != p->order || copy->head == 0);
    if (got < (ssize_t)sizeof *copy || copy->magic != MTP__CHUNK_MAGIC || copy->order != p->order ||
        copy->span > bytes || copy->head != mtp__chunk_head(copy))
        return false;
    bytes = (size_t)got < copy->span ? (uint32_t)got : copy->span;
    uint32_t capacity = mtp__span_words(bytes);
    *sealed = copy->checksum != 0;
    *words = mtp__chunk_written(mtp__chunk_words(copy), capacity);
    if (!*sealed)
        return true;
    if (copy->words <= capacity)
        return copy->checksum == mtp__chunk_checksum(copy, mtp__chunk_words(copy)) && *words == copy->words;
    return bytes < copy->span; /* cut short by the file's end: what is there may be read */
}

/* The same of a file that is being written to: what changed while it was read is read again. */
static bool chunk_read_live(int fd, const mtp__spool_header *h, const mtp__chunk_place *p, mtp__chunk *copy,
                            uint32_t *words, bool *sealed, bool *gone)
{
    bool read = false;
    for (int i = 0; i < LIVE_TRIES && !read && !(i > 0 && *gone); i++)
        read = chunk_read(fd, h, p, copy, words, sealed, gone);
    return read;
}

static mtp_status visit(const char *path, bool control_only, mtp__chunk_visitor *visitor, void *user,
                        mtp__spool_report *report)
{
    mtp__spool_header h;
    mtp__spool_report own;
    mtp__spool_report *rep = report != NULL ? report : &own;
    *rep = (mtp__spool_report){0};
    uint64_t file_bytes = 0;
    mtp__places places = {0};
    mtp__chunk *copy = NULL;
    int fd = mtp__open(path, O_RDONLY | O_NONBLOCK, 0); /* a FIFO must not hold us */
    if (fd < 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    mtp_status status = header_read(fd, &h, &file_bytes);
    if (status == MTP_OK)
        status = list_places(fd, &h, file_bytes, &places);
    if (status == MTP_OK && (copy = mtp__calloc(1, h.chunk_bytes)) == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "a chunk of %u bytes", h.chunk_bytes);
    if (status == MTP_OK) {
        rep->version = h.version;
        rep->pid = h.pid;
        rep->complete = h.complete == 1;
        rep->outcome = mtp__spool_outcome(fd, &h);
        rep->missing = mtp__spool_missing(&h, file_bytes);
        rep->damaged = places.unread;
    }
    for (uint64_t i = 0; status == MTP_OK && i < places.count; i++) {
        const mtp__chunk_place *p = &places.place[i];
        if (control_only && p->stream != 0)
            continue;
        uint32_t words = 0;
        bool sealed = false;
        bool live = rep->outcome == MTP_OUTCOME_LIVE, gone = false;
        if (!(live ? chunk_read_live : chunk_read)(fd, &h, p, copy, &words, &sealed, &gone)) {
            rep->damaged += !(live && gone);
            continue;
        }
        rep->chunks++;
        rep->unsealed += !sealed;
        status = visitor(user, copy, mtp__chunk_words(copy), words);
    }
    mtp__free(copy);
    mtp__places_fini(&places);
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
