/* check/spool.c - our own spools: checksums, records, the ids they use, the ledger. The file is read with
 * pread, a chunk at a time, and no number in it is trusted; the control stream comes first, for its
 * definitions.
 */
#include <stddef.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "check/check.h"
#include "base/pair_map.h"
#include "record/spool/spool.h"

typedef struct spool {
    mtp_check *check;
    mtp__spool file;
    uint64_t byte;         /* position of the current chunk */
    mtp__pair_map defined; /* control kind, id */
    bool has_ledger, no_memory;
    uint64_t ledger[4 + MTP_DROP_CAUSES];
    uint64_t records, damaged;
    bool undefined; /* definitions may be lost with damaged or missing chunks */
} spool;

/* --------------------------------------------------------------------------------------------- chunks */

/* The chunk's words; UINT32_MAX: damaged, which has been reported, or the file has shrunk meanwhile. */
static uint32_t read_chunk(spool *s, uint64_t i)
{
    uint32_t words;
    const char *why;
    s->byte = mtp__spool_byte(&s->file, i);
    mtp__chunk_state state = mtp__spool_read(&s->file, i, &words, &why);
    if (state == MTP__CHUNK_WHOLE)
        return words;
    if (state == MTP__CHUNK_GONE)
        return UINT32_MAX;
    if (s->file.missing == 0 || s->byte + mtp__spool_span(&s->file, i) <= s->file.file_bytes)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_CHUNK, s->byte, MTP__NO_EVENT, "%s", why);
    s->damaged++; /* a truncated chunk is reported for the whole file */
    const mtp__chunk_place *p = &s->file.places.place[i];
    s->undefined |= p->stream == 0 || p->span == 0 || p->order == 0; /* its stream is unknown */
    return state == MTP__CHUNK_PARTLY ? words : UINT32_MAX;
}

/* -------------------------------------------------------------------------------------------- control */

static void bad_record(spool *s, uint32_t at, const char *what, unsigned number)
{
    mtp__check_say(s->check, MTP__FOUND_SPOOL_RECORD, s->byte + sizeof(mtp__chunk) + (uint64_t)at * 8,
                   s->records, "%s %u", what, number);
}

static void control_record(spool *s, const uint64_t *w, uint32_t length, uint32_t at)
{
    uint32_t kind = MTP__CONTROL_KIND(w[1]);
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
        mtp__check_say(s->check, MTP__FOUND_SPOOL_NAME, s->byte + sizeof(mtp__chunk) + (uint64_t)at * 8,
                       s->records, "%s %u", what[kind], id);
}

static void payload(spool *s, const uint64_t *w, uint32_t length, uint32_t at, bool begin)
{
    mtp__payload p = mtp__payload_of(w, length);
    const uint32_t mask = p.mask;
    uint64_t value;
    for (uint32_t bit; (bit = mtp__payload_next(&p, &value)) != 0;) {
        if (bit == MTP__HAS_DETAIL) {
            use(s, MTP__CONTROL_SHAPE, (uint32_t)value, at);
            use(s, MTP__CONTROL_STACK, begin ? (uint32_t)(value >> 32) : 0, at);
        } else if (bit == MTP__HAS_ARGS) {
            use(s, MTP__CONTROL_TEXT, (uint32_t)value, at);
        }
    }
    if (p.mask != 0)
        bad_record(s, at, "too short for its mask,", mask);
}

static void one_record(spool *s, const uint64_t *w, uint32_t length, uint32_t at)
{
    unsigned kind = MTP__WORD0_KIND(w[0]);
    uint32_t refers_to = mtp__kind_refers_to(kind);
    if (mtp__kind_words(kind) == 0 || length < mtp__kind_words(kind))
        bad_record(s, at, "kind", kind);
    else if (refers_to != MTP__CONTROL_NONE)
        use(s, (mtp__control_kind)refers_to, (uint32_t)w[1], at);
    if (kind == MTP__KIND_BEGIN || kind == MTP__KIND_END)
        payload(s, w, length, at, kind == MTP__KIND_BEGIN);
}

/* ---------------------------------------------------------------------------------------------- streams */

static void read_records(spool *s, uint32_t words)
{
    const mtp__chunk *c = s->file.chunk;
    const uint64_t *w = mtp__chunk_words(s->file.chunk);
    uint64_t next = c->stream == 0 ? s->file.follow.control_next : s->file.follow.next;
    if (mtp__spool_follow(&s->file, words) && s->damaged == 0 && s->file.missing == 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_GAP, s->byte, MTP__NO_EVENT,
                       "stream %u: %llu instead of %llu", c->stream,
                       (unsigned long long)(c->first - c->dropped), (unsigned long long)next);
    for (uint32_t at = 0; at < words;) {
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
}

static mtp_status read_streams(spool *s, bool control)
{
    for (uint64_t i = 0; i < s->file.places.count; i++) {
        if ((s->file.places.place[i].stream == 0) != control)
            continue;
        uint32_t words = read_chunk(s, i);
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
    if (!s->has_ledger || s->damaged > 0 || s->file.missing > 0)
        return;
    if (l[0] != l[1] + l[2] || by_cause != l[2])
        mtp__check_say(s->check, MTP__FOUND_SPOOL_LEDGER, 0, MTP__NO_EVENT,
                       "%llu emitted, %llu kept, %llu dropped, %llu by cause", (unsigned long long)l[0],
                       (unsigned long long)l[1], (unsigned long long)l[2], (unsigned long long)by_cause);
    else if (s->file.header.complete == 1 && l[1] != s->records)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_LEDGER, 0, MTP__NO_EVENT, "%llu records kept, %llu found",
                       (unsigned long long)l[1], (unsigned long long)s->records);
    uint64_t overwritten = l[4 + MTP_DROP_OVERWRITTEN] < l[2] ? l[4 + MTP_DROP_OVERWRITTEN] : l[2];
    if (overwritten > 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_OVERWRITTEN, 0, MTP__NO_EVENT, "%llu of %llu",
                       (unsigned long long)overwritten, (unsigned long long)l[0]);
    uint64_t mended =
        l[4 + MTP_DROP_DAMAGED] < l[2] - overwritten ? l[4 + MTP_DROP_DAMAGED] : l[2] - overwritten;
    if (l[3] > 0 && s->file.header.mended == 1)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_MENDED, 0, MTP__NO_EVENT,
                       "%llu names, shapes or stacks are lost", (unsigned long long)l[3]);
    else if (l[3] > 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_LOST, 0, MTP__NO_EVENT, "%llu", (unsigned long long)l[3]);
    if (mended > 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_MENDED, 0, MTP__NO_EVENT, "%llu of %llu records are lost",
                       (unsigned long long)mended, (unsigned long long)l[0]);
    if (l[2] > overwritten + mended)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_DROPPED, 0, MTP__NO_EVENT, "%llu of %llu",
                       (unsigned long long)(l[2] - overwritten - mended), (unsigned long long)l[0]);
}

/* What the header says about the recording takes precedence over the rest of the control stream. */
static void use_totals(spool *s)
{
    const mtp__totals *was = &s->file.header.totals;
    if (s->file.header.complete != 1 || was->known != 1)
        return;
    s->has_ledger = true;
    memcpy(s->ledger, was->ledger, sizeof s->ledger);
}

/* Definitions lost with the last chunks; lost records are in the ledger. */
static void check_end(spool *s)
{
    uint64_t before = s->file.follow.control_holes;
    mtp__spool_holes(&s->file);
    if (s->file.follow.control_holes > before && s->damaged == 0 && s->file.missing == 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_GAP, s->file.file_bytes, MTP__NO_EVENT,
                       "stream 0: its last");
}

static void check_outcome(spool *s)
{
    static const mtp__found found[] = {[MTP_OUTCOME_RECOVERED] = MTP__FOUND_SPOOL_RECOVERED,
                                       [MTP_OUTCOME_LIVE] = MTP__FOUND_SPOOL_LIVE,
                                       [MTP_OUTCOME_NOT_STOPPED] = MTP__FOUND_SPOOL_OPEN};
    mtp_outcome is = s->file.outcome;
    s->check->recovered = is == MTP_OUTCOME_RECOVERED;
    if (is != MTP_OUTCOME_STOPPED)
        mtp__check_say(s->check, found[is], offsetof(mtp__spool_header, complete), MTP__NO_EVENT, "%llu",
                       (unsigned long long)s->file.header.pid);
}

static mtp_status check_all(spool *s, const char *path)
{
    mtp_status status = mtp__spool_open(&s->file, path);
    if (status == MTP_E_FORMAT) {
        mtp__check_say(s->check, MTP__FOUND_SPOOL_HEADER, 0, MTP__NO_EVENT, "%s", mtp_last_error());
        return MTP_OK;
    }
    if (status != MTP_OK)
        return status;
    if (s->file.places.unread > 0)
        return MTP_FAIL(MTP_E_IO, "%llu of its chunks: the disk cannot read them",
                        (unsigned long long)s->file.places.unread);
    if (s->file.header_damaged)
        mtp__check_found(s->check, MTP__FOUND_SPOOL_COPY, 0, MTP__NO_EVENT, NULL, 0);
    s->undefined = s->file.missing > 0 || s->file.outcome == MTP_OUTCOME_LIVE;
    if (s->file.missing > 0)
        mtp__check_say(s->check, MTP__FOUND_SPOOL_CUT, s->file.file_bytes, MTP__NO_EVENT,
                       "%llu of its %llu chunks are missing or incomplete",
                       (unsigned long long)s->file.missing, (unsigned long long)s->file.header.chunks);
    status = read_streams(s, true);
    use_totals(s);
    s->undefined |= s->ledger[3] > 0; /* lost, and counted */
    if (status == MTP_OK)
        status = read_streams(s, false);
    if (status != MTP_OK)
        return status;
    s->check->events = s->records;
    check_ledger(s);
    check_end(s);
    check_outcome(s);
    return MTP_OK;
}

mtp_status mtp__check_spool(mtp_check *check, const char *path)
{
    spool s = {.check = check, .file = {.fd = -1}};
    mtp_status status = check_all(&s, path);
    mtp__spool_close(&s.file);
    mtp__pair_map_fini(&s.defined);
    return status;
}
