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

bool mtp__spool_recognise(const void *start, size_t bytes)
{
    return bytes >= 8 && memcmp(start, MTP__SPOOL_MAGIC, 8) == 0;
}

static mtp_status header_read(int fd, const char *path, mtp__spool_header *h, uint64_t *file_bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "'%s': %s", path, mtp__reason(errno));
    if (!S_ISREG(st.st_mode))
        return MTP_FAIL(MTP_E_FORMAT, "'%s' is not a regular file", path);
    *file_bytes = (uint64_t)st.st_size;
    ssize_t got = mtp__pread(fd, h, sizeof *h, 0);
    if (got < 0)
        return MTP_FAIL(MTP_E_IO, "'%s': %s", path, mtp__reason(errno));
    if (got != (ssize_t)sizeof *h || !mtp__spool_recognise(h->magic, sizeof h->magic))
        return MTP_FAIL(MTP_E_FORMAT, "'%s' is not an mtprof spool", path);
    if (h->version != MTP__FORMAT_VERSION)
        return MTP_FAIL(MTP_E_FORMAT, "'%s' is a spool of version %u; this library reads version %u", path,
                        h->version, MTP__FORMAT_VERSION);
    if (h->chunk_bytes < CHUNK_MIN || h->chunk_bytes > CHUNK_MAX ||
        (h->chunk_bytes & (h->chunk_bytes - 1)) != 0)
        return MTP_FAIL(MTP_E_FORMAT, "'%s': byte 12: a chunk size of %u cannot be", path, h->chunk_bytes);
    return MTP_OK;
}

/* Which pieces hold chunks, in the order of writing. A last piece that the file's end cuts still counts. */
static mtp_status list_places(int fd, const mtp__spool_header *h, uint64_t file_bytes, mtp__chunk_place **out,
                              uint64_t *count, uint64_t *unread)
{
    uint64_t pieces = (file_bytes + h->chunk_bytes - 1) / h->chunk_bytes, used = 0;
    pieces = pieces > 0 ? pieces - 1 : 0;
    mtp__chunk_place *places = mtp__calloc(pieces + 1, sizeof *places);
    if (places == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a list of %llu chunks", (unsigned long long)pieces);
    for (uint64_t i = 0; i < pieces; i++) {
        mtp__chunk header = {0};
        ssize_t got = mtp__pread(fd, &header, sizeof header, (i + 1) * h->chunk_bytes);
        *unread += got < 0;
        if (got > 0 && header.order != 0)
            places[used++] = (mtp__chunk_place){header.order, i, header.stream};
    }
    qsort(places, used, sizeof *places, mtp__chunk_place_compare);
    *out = places;
    *count = used;
    return MTP_OK;
}

/* The piece's words in `copy`; false: damaged. */
static bool piece_read(int fd, const mtp__spool_header *h, const mtp__chunk_place *p, mtp__chunk *copy,
                       uint32_t *words, bool *sealed)
{
    memset(copy, 0, h->chunk_bytes);
    ssize_t got = mtp__pread(fd, copy, h->chunk_bytes, (p->at + 1) * h->chunk_bytes);
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
        return MTP_FAIL(MTP_E_IO, "'%s': %s", path, mtp__reason(errno));
    mtp_status status = header_read(fd, path, &h, &file_bytes);
    if (status == MTP_OK)
        status = list_places(fd, &h, file_bytes, &places, &count, &rep->damaged);
    if (status == MTP_OK && (copy = mtp__calloc(1, h.chunk_bytes)) == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "a chunk of %u bytes", h.chunk_bytes);
    if (status == MTP_OK) {
        rep->pid = h.pid;
        rep->complete = h.complete == 1;
    }
    for (uint64_t i = 0; status == MTP_OK && i < count; i++) {
        if (control_only && places[i].stream != 0)
            continue;
        uint32_t words = 0;
        bool sealed = false;
        if (!piece_read(fd, &h, &places[i], copy, &words, &sealed)) {
            rep->damaged++;
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
