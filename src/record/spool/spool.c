/* record/spool/spool.c - see spool.h. */
#include "record/spool/spool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/checks.h"

#define CHUNK_MIN 4096u
#define CHUNK_MAX (1u << 20)
#define LIVE_TRIES 4

/* --------------------------------------------------------------------------------------------- the header */

static bool has_magic(const void *start, size_t bytes, size_t at)
{
    return bytes >= at + 8 && memcmp((const char *)start + at, MTP__SPOOL_MAGIC, 8) == 0;
}

bool mtp__spool_recognise(const void *start, size_t bytes)
{
    return has_magic(start, bytes, 0) || has_magic(start, bytes, MTP__SPOOL_COPY_AT);
}

static bool header_right(const mtp__spool_header *h, ssize_t got)
{
    return got == (ssize_t)sizeof *h && has_magic(h, sizeof *h, 0) && h->check == mtp__spool_check(h);
}

/* Neither the header nor its copy is valid: finds out why. */
static mtp_status header_wrong(const mtp__spool_header *h, ssize_t got, bool copy_there)
{
    if (got < 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    if (!has_magic(h, (size_t)got, 0) && !copy_there)
        return MTP_FAIL(MTP_E_FORMAT, "this is not an mtprof spool");
    if (got < (ssize_t)sizeof *h)
        return MTP_FAIL(MTP_E_FORMAT, "the spool's header is truncated, at byte %zu", (size_t)got);
    if (h->version != MTP__FORMAT_VERSION && !copy_there)
        return MTP_FAIL(
            MTP_E_FORMAT,
            "the spool has version %u; this library reads version %u: use the mtprof that wrote it",
            h->version, MTP__FORMAT_VERSION);
    return MTP_FAIL(MTP_E_FORMAT, "the spool's header is damaged, and so is its copy at byte %u",
                    MTP__SPOOL_COPY_AT);
}

mtp_status mtp__spool_header_read(int fd, mtp__spool_header *h, bool *damaged)
{
    mtp__spool_header copy = {0};
    *h = copy;
    ssize_t got = mtp__pread(fd, h, sizeof *h, 0);
    int error = errno;
    ssize_t again = mtp__pread(fd, &copy, sizeof copy, MTP__SPOOL_COPY_AT);
    bool right = header_right(h, got), copy_right = header_right(&copy, again);
    *damaged = !right || !copy_right;
    if (!right && !copy_right) {
        errno = error;
        return header_wrong(h, got, again >= 8 && has_magic(&copy, 8, 0));
    }
    if (!right)
        *h = copy;
    if (h->version != MTP__FORMAT_VERSION)
        return MTP_FAIL(
            MTP_E_FORMAT,
            "the spool has version %u; this library reads version %u: use the mtprof that wrote it",
            h->version, MTP__FORMAT_VERSION);
    if (h->chunk_bytes < CHUNK_MIN || h->chunk_bytes > CHUNK_MAX ||
        (h->chunk_bytes & (h->chunk_bytes - 1)) != 0)
        return MTP_FAIL(MTP_E_FORMAT, "byte 12: %u is not a valid chunk size; the header is damaged",
                        h->chunk_bytes);
    return MTP_OK;
}

mtp_outcome mtp__spool_outcome(int fd, const mtp__spool_header *h)
{
    if (h->complete == 1)
        return h->mended == 1 ? MTP_OUTCOME_RECOVERED : MTP_OUTCOME_STOPPED;
    mtp__lock lock = mtp__lock_test(fd);
    if (lock == MTP__LOCK_HELD)
        return MTP_OUTCOME_LIVE;
    mtp__spool_header now; /* it may have been stopped since: the lock is released after that was written */
    if (mtp__pread(fd, &now, sizeof now, 0) == (ssize_t)sizeof now && header_right(&now, sizeof now) &&
        now.complete == 1)
        return MTP_OUTCOME_STOPPED;
    return lock == MTP__LOCK_NONE && h->locked == 1 ? MTP_OUTCOME_RECOVERED : MTP_OUTCOME_NOT_STOPPED;
}

static uint64_t missing_pieces(const mtp__spool *s)
{
    const mtp__spool_header *h = &s->header;
    uint64_t pieces = s->file_bytes / h->chunk_bytes, whole = pieces > 0 ? pieces - 1 : 0;
    return h->complete == 1 && h->chunks > whole ? h->chunks - whole : 0;
}

/* --------------------------------------------------------------------------------------------- the chunks */

/* Lists the chunks, in the order of visits. A last piece that is truncated by the file's end still counts. */
static mtp_status list_places(mtp__spool *s)
{
    uint64_t size = s->header.chunk_bytes, pieces = (s->file_bytes + size - 1) / size;
    const mtp__spool_header *h = &s->header;
    s->magic = mtp__file_magic(h->ticks, h->monotonic_ns, h->realtime_ns);
    mtp_status status =
        mtp__places_list(&s->places, s->fd, s->magic, (uint32_t)size, pieces > 0 ? pieces - 1 : 0);
    mtp__places_sort(&s->places);
    if (s->outcome != MTP_OUTCOME_LIVE)
        mtp__places_mark_copies(&s->places);
    return status;
}

static mtp_status open_file(mtp__spool *s, const char *path)
{
    struct stat st;
    s->fd = mtp__open(path, O_RDONLY | O_NONBLOCK, 0); /* a FIFO must not block us */
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    if (!S_ISREG(st.st_mode))
        return MTP_FAIL(MTP_E_FORMAT, "this is not a regular file, and so not a spool");
    s->file_bytes = (uint64_t)st.st_size;
    return mtp__spool_header_read(s->fd, &s->header, &s->header_damaged);
}

mtp_status mtp__spool_open(mtp__spool *s, const char *path)
{
    *s = (mtp__spool){.fd = -1};
    mtp_status status = open_file(s, path);
    if (status == MTP_OK) {
        s->outcome = mtp__spool_outcome(s->fd, &s->header);
        s->missing = missing_pieces(s);
        status = list_places(s);
    }
    if (status == MTP_OK && (s->chunk = mtp__calloc(1, s->header.chunk_bytes)) == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "a chunk of %u bytes", s->header.chunk_bytes);
    return status;
}

void mtp__spool_close(mtp__spool *s)
{
    mtp__free(s->chunk);
    mtp__places_fini(&s->places);
    mtp__close(s->fd);
}

uint64_t mtp__spool_byte(const mtp__spool *s, uint64_t i)
{
    const mtp__chunk_place *p = &s->places.place[i];
    return (p->piece + 1) * s->header.chunk_bytes + p->from;
}

/* A control chunk: each record has its own check, sealed or not. */
static mtp__chunk_state judge_control(mtp__chunk *c, uint32_t capacity, uint32_t *words, const char **why)
{
    bool damaged, sealed = c->checksum != 0 && c->words <= capacity;
    if (sealed && c->checksum != mtp__chunk_checksum(c, mtp__chunk_words(c)))
        *why = "its checksum is wrong";
    *words = mtp__control_sift(mtp__chunk_words(c), capacity, &damaged);
    if (damaged)
        *why = "some of its records are damaged";
    return *why == NULL ? MTP__CHUNK_WHOLE : MTP__CHUNK_PARTLY;
}

/* What is wrong with a chunk's header, if it is wrong. */
static const char *wrong_header(const mtp__chunk *c, const mtp__chunk_place *p, uint64_t magic)
{
    if (p->order == 0 && p->span != 0)
        return "it is a duplicate of another chunk";
    if (c->magic == magic)
        return "its header is damaged";
    return c->head == mtp__chunk_head(c) ? "it is a chunk of another recording" : "its magic number is wrong";
}

/* Judges the chunk in s->chunk: `got` bytes of the `bytes` of its place were read. */
static mtp__chunk_state judge(mtp__spool *s, const mtp__chunk_place *p, uint32_t bytes, ssize_t got,
                              uint32_t *words, const char **why)
{
    mtp__chunk *c = s->chunk;
    *words = 0;
    *why = "its header is truncated";
    if (got < (ssize_t)sizeof *c)
        return MTP__CHUNK_DAMAGED;
    if (s->outcome == MTP_OUTCOME_LIVE && (c->order != p->order || c->head == 0))
        return MTP__CHUNK_GONE;
    *why = wrong_header(c, p, s->magic);
    if (c->magic != s->magic || c->order != p->order || c->span > bytes ||
        !mtp__span_is_possible(c->span, p->from, s->header.chunk_bytes) || c->head != mtp__chunk_head(c))
        return MTP__CHUNK_DAMAGED;
    uint32_t capacity = mtp__span_words((size_t)got < c->span ? (uint32_t)got : c->span);
    *why = NULL;
    if (c->stream == 0)
        return judge_control(c, capacity, words, why);
    *words = mtp__chunk_written(mtp__chunk_words(c), capacity);
    if (c->checksum == 0)
        return MTP__CHUNK_WHOLE;
    if (c->words > capacity) {
        if (got < (ssize_t)c->span && s->missing > 0)
            return MTP__CHUNK_WHOLE; /* truncated by the file's end: what remains may be read */
        *why = got < (ssize_t)c->span ? "it is truncated" : "its size is impossible";
    } else if (c->checksum != mtp__chunk_checksum(c, mtp__chunk_words(c))) {
        *why = "its checksum is wrong";
    } else if (*words != c->words) {
        *why = "its records do not fill it";
    }
    return *why == NULL ? MTP__CHUNK_WHOLE : MTP__CHUNK_DAMAGED;
}

uint32_t mtp__spool_span(const mtp__spool *s, uint64_t i)
{
    const mtp__chunk_place *p = &s->places.place[i];
    return p->span != 0 ? p->span : s->header.chunk_bytes - p->from;
}

/* In a live file, chunks that changed while they were read are read again. */
mtp__chunk_state mtp__spool_read(mtp__spool *s, uint64_t i, uint32_t *words, const char **why)
{
    mtp__chunk_state state = MTP__CHUNK_DAMAGED;
    bool live = s->outcome == MTP_OUTCOME_LIVE;
    uint32_t bytes = mtp__spool_span(s, i);
    for (int k = 0; state != MTP__CHUNK_WHOLE && k < (live ? LIVE_TRIES : 1); k++) {
        memset(s->chunk, 0, bytes);
        ssize_t got = live ? mtp__chunk_read(s->fd, mtp__spool_byte(s, i), s->chunk, bytes)
                           : mtp__pread(s->fd, s->chunk, bytes, mtp__spool_byte(s, i));
        state = judge(s, &s->places.place[i], bytes, got, words, why);
    }
    if (state == MTP__CHUNK_DAMAGED || state == MTP__CHUNK_GONE)
        *words = 0;
    return state;
}

/* Can losses be found by counting? Not in a live file, nor if the writer did not count. */
static bool is_counted(const mtp__spool *s)
{
    return s->header.complete == 1 ? s->header.totals.known == 1 : s->outcome == MTP_OUTCOME_RECOVERED;
}

/* In a ring, the oldest chunk begins an epoch or belongs to all epochs. After a permanent chunk, others may
 * have been evicted, up to the next one that begins an epoch. */
static bool begins(const mtp__chunk *c, const uint64_t *w, uint32_t words)
{
    return c->first == 0 || words < 2 || MTP__CONTROL_KIND(w[1]) == MTP__CONTROL_SESSION ||
           c->epoch == MTP__EPOCH_ALL;
}

static bool control_follows(const mtp__spool *s, const uint64_t *w, uint32_t words, uint64_t before)
{
    if (s->follow.control != 0 && before == s->follow.control_next)
        return true;
    return (s->follow.control == 0 || s->follow.permanent) && begins(s->chunk, w, words);
}

bool mtp__spool_follow(mtp__spool *s, uint32_t words)
{
    const mtp__chunk *c = s->chunk;
    const uint64_t *w = mtp__chunk_words(s->chunk);
    bool control = c->stream == 0, hole;
    bool counted = !control && c->checksum != 0; /* and covered by the checksum */
    uint64_t before = c->first - c->dropped, count = counted ? c->records : mtp__records_in(w, words);
    if (control)
        hole = !control_follows(s, w, words, before);
    else
        hole = c->stream == s->follow.stream && c->cycle == s->follow.cycle && before != s->follow.next;
    hole = hole && is_counted(s) && s->header.mended != 1; /* there they are already counted */
    s->follow.holes += hole;
    s->follow.control_holes += hole && control;
    if (control) {
        s->follow.control += count;
        s->follow.permanent = c->epoch == MTP__EPOCH_ALL;
        s->follow.control_next = before + count;
        return hole;
    }
    s->follow.records += count;
    s->follow.stream = c->stream;
    s->follow.cycle = c->cycle;
    s->follow.next = before + count;
    return hole;
}

uint64_t mtp__spool_holes(mtp__spool *s)
{
    const mtp__totals *was = &s->header.totals;
    bool stopped = s->header.complete == 1;
    if (!is_counted(s))
        return 0;
    uint64_t control = s->header.mended == 1 ? s->follow.control : s->follow.control_next;
    bool lost_control = stopped ? control != was->control : s->follow.control == 0 && s->follow.records > 0;
    bool lost_records = stopped && s->follow.records != was->ledger[1];
    lost_records = lost_records && s->follow.holes == s->follow.control_holes;
    lost_control = lost_control && s->follow.control_holes == 0;
    s->follow.control_holes += lost_control;
    s->follow.holes += (uint64_t)lost_control + lost_records;
    return s->follow.holes;
}

/* ------------------------------------------------------------------------------------------------- visits */

static mtp_status visit(const char *path, bool control_only, mtp__chunk_visitor *visitor, void *user,
                        mtp__spool_report *report)
{
    mtp__spool_report own;
    mtp__spool_report *rep = report != NULL ? report : &own;
    *rep = (mtp__spool_report){0};
    mtp__spool s;
    mtp_status status = mtp__spool_open(&s, path);
    if (status == MTP_OK)
        *rep = (mtp__spool_report){.total = s.places.count + s.places.unread,
                                   .damaged = s.places.unread,
                                   .missing = s.missing,
                                   .pid = s.header.pid,
                                   .header = s.header,
                                   .header_damaged = s.header_damaged,
                                   .complete = s.header.complete == 1,
                                   .outcome = s.outcome};
    for (uint64_t i = 0; status == MTP_OK && i < s.places.count; i++) {
        uint32_t words;
        const char *why;
        if (control_only && s.places.place[i].stream != 0)
            continue;
        mtp__chunk_state state = mtp__spool_read(&s, i, &words, &why);
        rep->damaged += state == MTP__CHUNK_DAMAGED || state == MTP__CHUNK_PARTLY;
        if (state == MTP__CHUNK_DAMAGED || state == MTP__CHUNK_GONE)
            continue;
        rep->chunks++;
        rep->unsealed += s.chunk->checksum == 0;
        mtp__spool_follow(&s, words);
        status = visitor(user, s.chunk, mtp__chunk_words(s.chunk), words);
    }
    if (status == MTP_OK && !control_only && rep->damaged == 0 && rep->missing == 0) {
        rep->damaged = mtp__spool_holes(&s);
        rep->total += rep->damaged;
    }
    mtp__spool_close(&s);
    return status;
}

mtp_status mtp__spool_visit(const char *path, mtp__chunk_visitor *visitor, void *user,
                            mtp__spool_report *report)
{
    return visit(path, false, visitor, user, report);
}

mtp_status mtp__spool_visit_control(const char *path, mtp__chunk_visitor *visitor, void *user,
                                    mtp__spool_report *report)
{
    return visit(path, true, visitor, user, report);
}
