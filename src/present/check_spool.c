/* present/check_spool.c - our own spools: checksums, records, the ids that they use, the ledger. The file is read with pread,
 * a chunk at a time, and no number in it is believed; the control stream comes first, for what it defines.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/error.h"
#include "base/os.h"
#include "present/check.h"
#include "base/pair_map.h"
#include "base/plain.h"
#include "record/spool.h"

#define CHUNK_MIN 4096u
#define CHUNK_MAX (1u << 20)
#define LIVE_TRIES 4

typedef struct spool {
    mtp_check *check;
    int fd;
    mtp__spool_header header;
    uint64_t file_bytes;
    mtp__chunk *chunk; /* owned: the one that is looked at */
    uint64_t byte;     /* where it is */
    mtp__places places;
    mtp__pair_map defined; /* control kind, id */
    bool has_ledger, no_memory;
    uint64_t ledger[4 + MTP_DROP_CAUSES];
    uint64_t records, damaged, unsealed, missing;
    mtp_outcome outcome;
    bool undefined; /* definitions are lost with damaged or missing chunks */
    /* of the stream that is read */
    uint32_t stream, cycle;
    uint64_t next;
} spool;

/* --------------------------------------------------------------------------------------------- chunks */

static mtp_status open_spool(spool *s, const char *path)
{
    struct stat st;
    s->fd = mtp__open(path, O_RDONLY, 0);
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    s->file_bytes = (uint64_t)st.st_size;
    ssize_t got = mtp__pread(s->fd, &s->header, sizeof s->header, 0);
    if (got < 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    s->outcome = mtp__spool_outcome(s->fd, &s->header);
    return MTP_OK;
}

static bool check_header(spool *s)
{
    const mtp__spool_header *h = &s->header;
    if (s->file_bytes < sizeof *h)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_HEADER, 0, MTP__NO_EVENT, "the header is cut off");
    else if (h->version != MTP__FORMAT_VERSION)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_HEADER, 8, MTP__NO_EVENT,
                       "version %u, this program reads %u", h->version, MTP__FORMAT_VERSION);
    else if (h->chunk_bytes < CHUNK_MIN || h->chunk_bytes > CHUNK_MAX ||
             (h->chunk_bytes & (h->chunk_bytes - 1)) != 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_HEADER, 12, MTP__NO_EVENT, "a chunk size of %u cannot be",
                       h->chunk_bytes);
    else
        return true;
    return false;
}

/* What is wrong with the chunk that is read into s->chunk, or NULL; *words of it can be read. */
static const char *judge_chunk(const spool *s, uint32_t bytes, ssize_t got, uint32_t *words)
{
    mtp__chunk *c = s->chunk;
    *words = 0;
    if (got < (ssize_t)sizeof *c)
        return "its header is cut off";
    if (c->magic != MTP__CHUNK_MAGIC)
        return "its magic number is wrong";
    if (c->span > bytes || c->head != mtp__chunk_head(c))
        return "its header is damaged";
    uint32_t capacity = mtp__span_words((size_t)got < c->span ? (uint32_t)got : c->span);
    *words = mtp__chunk_written(mtp__chunk_words(c), capacity);
    if (c->checksum == 0)
        return NULL;
    if (c->words > capacity)
        return got < (ssize_t)c->span ? "it is cut off" : "its size cannot be";
    if (c->checksum != mtp__chunk_checksum(c, mtp__chunk_words(c)))
        return "its checksum is wrong";
    return *words != c->words ? "its records do not fill it" : NULL;
}

/* The chunk's words; UINT32_MAX: it is damaged, and that has been said, or it has gone meanwhile. Of a spool that is
 * being written to, what changed while it was read is read again. */
static uint32_t read_chunk(spool *s, const mtp__chunk_place *p)
{
    mtp__chunk *c = s->chunk;
    const char *why = "";
    uint32_t words = 0;
    bool live = s->outcome == MTP_OUTCOME_LIVE, beyond = false;
    uint32_t bytes = p->span != 0 ? p->span : s->header.chunk_bytes - p->from;
    s->byte = (p->piece + 1) * s->header.chunk_bytes + p->from;
    for (int i = 0; why != NULL && i < (live ? LIVE_TRIES : 1); i++) {
        memset(c, 0, bytes);
        ssize_t got = mtp__pread(s->fd, c, bytes, s->byte);
        beyond = got < (ssize_t)bytes;
        why = judge_chunk(s, bytes, got, &words);
    }
    if (live && (c->order != p->order || c->head == 0))
        return UINT32_MAX;
    if (why != NULL || (beyond && s->missing > 0)) {
        if (!(beyond && s->missing > 0)) /* that is said of the file */
            mtp__check_say(s->check, MTP__FOUND_SPOOL_CHUNK, s->byte, MTP__NO_EVENT, "%s", why);
        s->damaged++;
        s->undefined |= p->stream == 0;
        return UINT32_MAX;
    }
    s->unsealed += c->checksum == 0;
    return words;
}

static mtp_status list_chunks(spool *s)
{
    uint64_t size = s->header.chunk_bytes, pieces = (s->file_bytes + size - 1) / size;
    pieces = pieces > 0 ? pieces - 1 : 0;
    s->chunk = mtp__calloc(1, size);
    if (s->chunk == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a piece of %llu bytes", (unsigned long long)size);
    mtp_status status = mtp__places_list(&s->places, s->fd, s->header.chunk_bytes, pieces);
    if (status == MTP_OK && s->places.unread > 0)
        return MTP_FAIL(MTP_E_IO, "at byte %llu: %s", (unsigned long long)((s->places.unread_at + 1) * size),
                        mtp__reason(s->places.unread_error));
    mtp__places_sort(&s->places);
    return status;
}

/* -------------------------------------------------------------------------------------------- control */

static void bad_record(spool *s, uint32_t at, const char *what, unsigned number)
{
    mtp__check_say(s->check, MTP__FOUND_SPOOL_RECORD, s->byte + sizeof *s->chunk + (uint64_t)at * 8,
                   s->records, "%s %u", what, number);
}

static void control_record(spool *s, const uint64_t *w, uint32_t length, uint32_t at)
{
    uint32_t kind = (uint32_t)w[1];
    bool is_new;
    if (mtp__control_is_blob(kind)) {
        uint32_t part = length >= 4 ? (uint32_t)(w[3] >> 32) : 0, whole = length >= 4 ? (uint32_t)w[3] : 0;
        uint64_t from = kind == MTP__CONTROL_THREAD ? 0 : length >= 4 ? w[2] >> 32 : 0;
        if (length < 4 || length != 4 + (part + 7) / 8 || from + part > whole)
            bad_record(s, at, "a definition of kind", kind);
        else if (from + part == whole && mtp__pair_put(&s->defined, kind, (uint32_t)w[2], 0, &is_new) == NULL)
            s->no_memory = true;
    } else if (kind == MTP__CONTROL_LEDGER && length >= 6) {
        uint32_t have = length - 2 < 4 + MTP_DROP_CAUSES ? length - 2 : 4 + MTP_DROP_CAUSES;
        memset(s->ledger, 0, sizeof s->ledger);
        memcpy(s->ledger, w + 2, have * sizeof *w);
        s->has_ledger = true;
    } else if (!mtp__control_is_known(kind)) {
        bad_record(s, at, "control kind", kind);
    }
}

/* -------------------------------------------------------------------------------------------- records */

static void use(spool *s, mtp__control_kind kind, uint32_t id, uint32_t at)
{
    static const char *const what[] = {[MTP__CONTROL_NAME] = "name",
                                       [MTP__CONTROL_SHAPE] = "shape",
                                       [MTP__CONTROL_STACK] = "stack",
                                       [MTP__CONTROL_TEXT] = "text"};
    if (id != 0 && !s->undefined && mtp__pair_find(&s->defined, kind, id) == NULL)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_NAME, s->byte + sizeof *s->chunk + (uint64_t)at * 8,
                       s->records, "%s %u", what[kind], id);
}

/* A word for each bit of the mask, from word 2 on. */
static void payload(spool *s, const uint64_t *w, uint32_t length, uint32_t at, bool begin)
{
    uint32_t mask = (uint32_t)(w[1] >> 40) & 0xff, next = 2;
    for (uint32_t bit = 1; bit <= MTP__HAS_NUMBER; bit <<= 1) {
        if ((mask & bit) == 0)
            continue;
        if (next >= length) {
            bad_record(s, at, "too short for its mask,", mask);
            return;
        }
        uint64_t value = w[next++];
        if (bit == MTP__HAS_DETAIL) {
            use(s, MTP__CONTROL_SHAPE, (uint32_t)value, at);
            use(s, MTP__CONTROL_STACK, begin ? (uint32_t)(value >> 32) : 0, at);
        } else if (bit == MTP__HAS_ARGS) {
            use(s, MTP__CONTROL_TEXT, (uint32_t)value, at);
        }
    }
}

static void one_record(spool *s, const uint64_t *w, uint32_t length, uint32_t at)
{
    static const uint8_t least[16] = {
        [MTP__KIND_BEGIN] = 2,    [MTP__KIND_END] = 1,     [MTP__KIND_MEMORY] = 6,
        [MTP__KIND_TAG] = 3,      [MTP__KIND_DEVICE] = 8,  [MTP__KIND_DEVICE_CLOCK] = 5,
        [MTP__KIND_MARK] = 2,     [MTP__KIND_COUNTER] = 3, [MTP__KIND_STEP] = 2,
        [MTP__KIND_EXISTING] = 4, [MTP__KIND_TENSORS] = 2, [MTP__KIND_CONTROL] = 2};
    unsigned kind = MTP__WORD0_KIND(w[0]);
    if (least[kind] == 0 || length < least[kind])
        bad_record(s, at, "kind", kind);
    else if (kind == MTP__KIND_BEGIN || kind == MTP__KIND_DEVICE || kind == MTP__KIND_MARK ||
             kind == MTP__KIND_COUNTER)
        use(s, MTP__CONTROL_NAME, (uint32_t)w[1], at);
    if (kind == MTP__KIND_BEGIN && length >= 2)
        payload(s, w, length, at, true);
    else if (kind == MTP__KIND_END && length >= 2)
        payload(s, w, length, at, false);
}

/* ---------------------------------------------------------------------------------------------- streams */

static void read_records(spool *s, uint32_t words)
{
    const mtp__chunk *c = s->chunk;
    const uint64_t *w = mtp__chunk_words(s->chunk);
    bool goes_on = c->stream == s->stream && c->cycle == s->cycle;
    if (goes_on && c->first != s->next && s->damaged == 0 && s->outcome != MTP_OUTCOME_LIVE)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_GAP, s->byte, MTP__NO_EVENT,
                       "stream %u: %llu instead of %llu", c->stream, (unsigned long long)c->first,
                       (unsigned long long)s->next);
    uint64_t count = 0;
    for (uint32_t at = 0; at < words; count++) {
        uint32_t length = MTP__WORD0_LENGTH(w[at]);
        length = length != 0 ? length : at + 1 < words ? (uint32_t)(w[at + 1] >> 32) : 1;
        if (length == 0 || length > words - at)
            break;
        if (c->stream == 0)
            control_record(s, w + at, length, at);
        else
            one_record(s, w + at, length, at);
        s->records += c->stream != 0;
        at += length;
    }
    s->stream = c->stream;
    s->cycle = c->cycle;
    s->next = c->first + count;
}

static mtp_status read_streams(spool *s, bool control)
{
    s->stream = UINT32_MAX;
    for (uint64_t i = 0; i < s->places.count; i++) {
        const mtp__chunk_place *p = &s->places.place[i];
        if ((p->stream == 0) != control)
            continue;
        uint32_t words = read_chunk(s, p);
        if (words != UINT32_MAX)
            read_records(s, words);
        if (s->no_memory)
            return MTP_FAIL(MTP_E_NOMEM, "the definitions of a spool");
    }
    return MTP_OK;
}

static void check_ledger(spool *s)
{
    const uint64_t *l = s->ledger;
    uint64_t by_cause = 0;
    for (int i = 0; i < MTP_DROP_CAUSES; i++)
        by_cause += l[4 + i];
    if (!s->has_ledger || s->damaged > 0 || s->missing > 0)
        return;
    if (l[0] != l[1] + l[2] || by_cause != l[2])
        mtp__check_say(s->check, MTP__FOUND_SPOOL_LEDGER, 0, MTP__NO_EVENT,
                       "%llu emitted, %llu kept, %llu dropped, %llu by cause", (unsigned long long)l[0],
                       (unsigned long long)l[1], (unsigned long long)l[2], (unsigned long long)by_cause);
    else if (s->header.complete == 1 && l[1] != s->records)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_LEDGER, 0, MTP__NO_EVENT,
                       "%llu records kept, %llu are there", (unsigned long long)l[1],
                       (unsigned long long)s->records);
    uint64_t overwritten = l[4 + MTP_DROP_OVERWRITTEN] < l[2] ? l[4 + MTP_DROP_OVERWRITTEN] : l[2];
    if (overwritten > 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_OVERWRITTEN, 0, MTP__NO_EVENT, "%llu of %llu",
                       (unsigned long long)overwritten, (unsigned long long)l[0]);
    if (l[2] > overwritten)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_DROPPED, 0, MTP__NO_EVENT, "%llu of %llu",
                       (unsigned long long)(l[2] - overwritten), (unsigned long long)l[0]);
}

static void check_outcome(spool *s)
{
    static const mtp__found found[] = {[MTP_OUTCOME_RECOVERED] = MTP__FOUND_SPOOL_RECOVERED,
                                       [MTP_OUTCOME_LIVE] = MTP__FOUND_SPOOL_LIVE,
                                       [MTP_OUTCOME_NOT_STOPPED] = MTP__FOUND_SPOOL_OPEN};
    s->check->recovered = s->outcome == MTP_OUTCOME_RECOVERED;
    if (s->outcome != MTP_OUTCOME_STOPPED)
        mtp__check_say(s->check, found[s->outcome], offsetof(mtp__spool_header, complete), MTP__NO_EVENT,
                       "%llu", (unsigned long long)s->header.pid);
}

static mtp_status check_all(spool *s, const char *path)
{
    mtp_status status = open_spool(s, path);
    if (status != MTP_OK || !check_header(s))
        return status;
    s->missing = mtp__spool_missing(&s->header, s->file_bytes);
    s->undefined = s->missing > 0;
    if (s->missing > 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_CUT, s->file_bytes, MTP__NO_EVENT,
                       "%llu of its %llu chunks are missing or not whole", (unsigned long long)s->missing,
                       (unsigned long long)s->header.chunks);
    status = list_chunks(s);
    if (status == MTP_OK)
        status = read_streams(s, true);
    if (status == MTP_OK)
        status = read_streams(s, false);
    if (status != MTP_OK)
        return status;
    s->check->events = s->records;
    check_ledger(s);
    check_outcome(s);
    return MTP_OK;
}

mtp_status mtp__check_spool(mtp_check *check, const char *path)
{
    spool s = {.check = check, .fd = -1};
    mtp_status status = check_all(&s, path);
    mtp__close(s.fd);
    mtp__free(s.chunk);
    mtp__places_fini(&s.places);
    mtp__pair_map_fini(&s.defined);
    return status;
}
