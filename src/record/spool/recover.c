/* record/spool/recover.c - writes an intact spool from the readable parts of a damaged one (mtp_recover). Two
 * passes: the first counts, the second writes each readable chunk, sealed, in the order of its place in the
 * file, and a matching ledger. The output does not depend on time or place: recovering twice gives the same
 * bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/file_out.h"
#include "base/os.h"
#include "record/checks.h"
#include "record/spool/spool.h"

#define LEDGER_WORDS (4 + MTP_DROP_CAUSES)

typedef struct recovery {
    mtp__spool spool;
    mtp_file *file;       /* owned */
    unsigned char *piece; /* owned: the one that is being filled ... */
    uint32_t used;        /* ... and how far */
    uint64_t pieces, records, control, damaged, lost_control;
    bool has_ledger, new_ledger;
    uint64_t ledger[LEDGER_WORDS], ledger_order;
    mtp__chunk last;        /* of the control stream: the header of the chunk with the highest order */
    uint64_t last_ticks;    /* its last record's, 56 bits */
    uint64_t last_records;  /* how many it has */
    uint64_t highest_order; /* of all chunks */
    uint64_t holes;         /* chunks that left no other sign of their loss; counted as damaged */
} recovery;

/* By place, which keeps the order in the file. */
static int by_place(const void *a, const void *b)
{
    const mtp__chunk_place *x = a, *y = b;
    return x->piece != y->piece ? (x->piece > y->piece) - (x->piece < y->piece)
                                : (x->from > y->from) - (x->from < y->from);
}

static uint32_t record_length(const uint64_t *w)
{
    uint32_t length = MTP__WORD0_LENGTH(w[0]);
    return length != 0 ? length : (uint32_t)(w[1] >> 32);
}

/* The latest ledger in the control stream wins. */
static void note_control(recovery *r, uint32_t words, uint32_t records)
{
    const uint64_t *w = mtp__chunk_words(r->spool.chunk);
    bool newest = r->spool.chunk->order >= r->last.order;
    if (newest) {
        r->last = *r->spool.chunk;
        r->last_records = records;
    }
    for (uint32_t at = 0; at < words; at += record_length(w + at)) {
        uint32_t have = record_length(w + at) - 2;
        if (newest)
            r->last_ticks = MTP__WORD0_TICKS(w[at]);
        if (r->spool.chunk->order < r->ledger_order || MTP__CONTROL_KIND(w[at + 1]) != MTP__CONTROL_LEDGER ||
            have < 4)
            continue;
        memset(r->ledger, 0, sizeof r->ledger);
        memcpy(r->ledger, w + at + 2, (have < LEDGER_WORDS ? have : LEDGER_WORDS) * sizeof *w);
        r->has_ledger = true;
        r->ledger_order = r->spool.chunk->order;
    }
}

/* Chunks are written consecutively, each as long as its words need. true: the next one begins a new piece. */
static bool add_to_piece(const recovery *r, uint32_t words, uint32_t *used, uint32_t *span)
{
    uint32_t bytes = (uint32_t)sizeof(mtp__chunk) + words * 8;
    *span = (bytes + MTP__CHUNK_ALIGN - 1) / MTP__CHUNK_ALIGN * MTP__CHUNK_ALIGN;
    bool begins = *used == 0 || *used + *span > r->spool.header.chunk_bytes;
    *used = begins ? *span : *used + *span;
    return begins;
}

static bool totals_are_known(const recovery *r)
{
    return r->spool.header.complete == 1 && r->spool.header.totals.known == 1;
}

/* In stream order, which reveals losses between chunks. */
static void look_for_holes(recovery *r)
{
    for (uint64_t i = 0; i < r->spool.places.count; i++) {
        uint32_t words;
        const char *why;
        mtp__chunk_state state = mtp__spool_read(&r->spool, i, &words, &why);
        if (state == MTP__CHUNK_WHOLE || state == MTP__CHUNK_PARTLY)
            mtp__spool_follow(&r->spool, words);
    }
    mtp__spool_holes(&r->spool);
}

static void look_at_all(recovery *r)
{
    uint32_t span;
    const bool known = totals_are_known(r); /* and so whether the control stream is complete */
    r->damaged = r->spool.places.unread;
    for (uint64_t i = 0; i < r->spool.places.count; i++) {
        uint32_t words;
        const char *why;
        mtp__chunk_state state = mtp__spool_read(&r->spool, i, &words, &why);
        const mtp__chunk_place *p = &r->spool.places.place[i];
        bool control = p->stream == 0;
        bool unknown =
            !known && (p->span == 0 || p->order == 0); /* stream unknown, or that of the lost one */
        r->damaged += state != MTP__CHUNK_WHOLE;
        r->lost_control += state != MTP__CHUNK_WHOLE && (control || unknown);
        if (state == MTP__CHUNK_DAMAGED || words == 0)
            continue;
        uint32_t count = (uint32_t)mtp__records_in(mtp__chunk_words(r->spool.chunk), words);
        if (control)
            note_control(r, words, count);
        *(control ? &r->control : &r->records) += count;
        r->pieces += add_to_piece(r, words, &r->used, &span);
        if (r->spool.chunk->order > r->highest_order)
            r->highest_order = r->spool.chunk->order;
    }
    if (r->damaged == 0 && r->spool.missing == 0) { /* else the holes were left by these */
        r->damaged = r->spool.follow.holes;
        r->holes = r->damaged;
    }
    if (r->lost_control < r->spool.follow.control_holes)
        r->lost_control = r->spool.follow.control_holes;
}

/* The recording's own ledger, if it has one that matches the records found; else one that does: records
 * counted by the last ledger and not found were damaged, or overwritten by newer ones. Returns how many are
 * lost. */
static uint64_t make_ledger(recovery *r)
{
    uint64_t *l = r->ledger, lost = 0;
    bool known = totals_are_known(r); /* else it is of an earlier cycle */
    if (known)
        memcpy(l, r->spool.header.totals.ledger, sizeof r->ledger);
    const uint64_t kept = l[1];
    bool broken = r->damaged > 0 || r->spool.missing > 0;
    if (kept > r->records && (known || !broken))
        lost = kept - r->records;
    r->new_ledger = !r->has_ledger || kept != r->records || r->lost_control > 0;
    l[1] = r->records;
    l[2] += lost;
    l[4 + (broken ? MTP_DROP_DAMAGED : MTP_DROP_OVERWRITTEN)] += lost;
    l[0] = l[1] + l[2];
    l[3] += r->lost_control + r->spool.missing;
    if (broken && lost == 0 && !known && l[4 + MTP_DROP_DAMAGED] == 0) { /* some, unknown how many */
        l[4 + MTP_DROP_DAMAGED] = 1;
        l[2]++;
        l[0]++;
        r->new_ledger = true;
    }
    uint32_t span;
    r->new_ledger = r->new_ledger && r->pieces > 0;
    r->pieces += r->new_ledger && add_to_piece(r, 2 + LEDGER_WORDS, &r->used, &span);
    r->control += r->new_ledger;
    return broken ? lost : 0;
}

/* ----------------------------------------------------------------------------------------------- writing */

static mtp_status put(recovery *r, const void *bytes, size_t length)
{
    return mtp_file_sink(r->file, bytes, length) ? MTP_OK : MTP_E_IO; /* commit() says why */
}

static mtp_status write_header(recovery *r)
{
    mtp__spool_header h = r->spool.header;
    unsigned char *piece = (unsigned char *)r->spool.chunk;
    h.mended = !totals_are_known(r) || h.mended == 1 || r->damaged > 0 || r->spool.missing > 0;
    h.complete = 1;
    h.totals = (mtp__totals){.known = 1, .control = r->control};
    if (h.mended == 0) /* so the total is that of the whole stream */
        h.totals.control = r->spool.header.totals.control + r->new_ledger;
    memcpy(h.totals.ledger, r->ledger, sizeof r->ledger);
    h.chunks = r->pieces;
    h.locked = 0;
    h.check = mtp__spool_check(&h);
    memset(piece, 0, h.chunk_bytes);
    memcpy(piece, &h, sizeof h);
    memcpy(piece + MTP__SPOOL_COPY_AT, &h, sizeof h);
    return put(r, piece, h.chunk_bytes);
}

static mtp_status write_piece(recovery *r)
{
    if (r->used == 0)
        return MTP_OK;
    memset(r->piece + r->used, 0, r->spool.header.chunk_bytes - r->used);
    return put(r, r->piece, r->spool.header.chunk_bytes);
}

/* The chunk that was read last, sealed; anything after its records is dropped. */
static mtp_status write_chunk(recovery *r, uint32_t words, uint32_t records)
{
    mtp__chunk *c = r->spool.chunk;
    uint64_t *w = mtp__chunk_words(c);
    mtp_status status = MTP_OK;
    uint32_t before = r->used, span;
    if (add_to_piece(r, words, &r->used, &span)) {
        uint32_t now = r->used;
        r->used = before;
        status = write_piece(r);
        r->used = now;
    }
    c->words = words;
    c->records = records;
    c->sealed = 0;
    c->checksum = mtp__chunk_checksum(c, w);
    mtp__chunk_set_span(c, span);
    unsigned char *at = r->piece + r->used - span;
    memset(at, 0, span);
    memcpy(at, c, sizeof *c + words * sizeof *w);
    return status;
}

static mtp_status write_ledger(recovery *r)
{
    mtp__chunk *c = r->spool.chunk;
    uint64_t *w = mtp__chunk_words(c), ticks = r->last_ticks;
    *c = r->last;
    if (r->last.order == 0) { /* the control stream is lost */
        c->magic = r->spool.magic;
        c->base_ticks = ticks = r->spool.header.ticks;
    }
    c->order = r->highest_order + 1;
    c->first += r->last_records;
    c->depth = 0;
    w[0] = MTP__WORD0(ticks, 0, MTP__KIND_CONTROL);
    w[1] = MTP__CONTROL_WORD1(MTP__CONTROL_LEDGER, 0, 2 + LEDGER_WORDS);
    memcpy(w + 2, r->ledger, sizeof r->ledger);
    w[1] = MTP__CONTROL_WORD1(MTP__CONTROL_LEDGER, mtp__control_check(w[0], w, 2 + LEDGER_WORDS),
                              2 + LEDGER_WORDS);
    return write_chunk(r, 2 + LEDGER_WORDS, 1);
}

static mtp_status write_all(recovery *r)
{
    mtp_status status = write_header(r);
    r->used = 0;
    for (uint64_t i = 0; status == MTP_OK && i < r->spool.places.count; i++) {
        uint32_t words;
        const char *why;
        if (mtp__spool_read(&r->spool, i, &words, &why) != MTP__CHUNK_DAMAGED && words > 0)
            status =
                write_chunk(r, words, (uint32_t)mtp__records_in(mtp__chunk_words(r->spool.chunk), words));
    }
    if (status == MTP_OK && r->new_ledger)
        status = write_ledger(r);
    return status == MTP_OK ? write_piece(r) : status;
}

/* -------------------------------------------------------------------------------------------------- public */

static mtp_status check_target(const recovery *r, const char *to)
{
    struct stat from, at;
    if (mtp__path_ends(to, ".gz"))
        return MTP_FAIL(MTP_E_ARG, "%s: a spool is not compressed: name the file without .gz", to);
    if (fstat(r->spool.fd, &from) == 0 && stat(to, &at) == 0 && from.st_dev == at.st_dev &&
        from.st_ino == at.st_ino)
        return MTP_FAIL(MTP_E_ARG, "%s: this is the file to recover, which is only read: name another", to);
    return MTP_OK;
}

static mtp_status recover(recovery *r, const char *path, const char *to, mtp_recovered *out)
{
    mtp_status status = mtp__spool_open(&r->spool, path);
    if (status == MTP_OK && r->spool.outcome == MTP_OUTCOME_LIVE)
        status = MTP_FAIL(MTP_E_STATE, "process %llu is still recording into it: stop that first",
                          (unsigned long long)r->spool.header.pid);
    if (status != MTP_OK) {
        MTP_NOTE("%s", path);
        return status;
    }
    status = check_target(r, to);
    if (status != MTP_OK)
        return status;
    look_for_holes(r);
    if (r->spool.places.count > 0)
        qsort(r->spool.places.place, r->spool.places.count, sizeof *r->spool.places.place, by_place);
    r->piece = mtp__calloc(1, r->spool.header.chunk_bytes);
    if (r->piece == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a piece of %u bytes", r->spool.header.chunk_bytes);
    look_at_all(r);
    out->lost_records = make_ledger(r);
    out->records = r->records;
    out->chunks = r->spool.places.count + r->spool.places.unread + r->holes;
    out->damaged_chunks = r->damaged;
    out->missing_chunks = r->spool.missing;
    out->was_stopped = r->spool.header.complete == 1 && r->spool.header.mended == 0;
    status = mtp_file_create(to, 0, &r->file);
    if (status != MTP_OK)
        return status;
    struct stat st;
    if (fstat(r->spool.fd, &st) == 0)
        mtp__file_set_mode(r->file, st.st_mode); /* same readers as the original */
    write_all(r);
    return mtp_file_commit(r->file);
}

mtp_status mtp_recover(const char *path, const char *to, mtp_recovered *out)
{
    mtp_recovered found = MTP_RECOVERED_INIT;
    if (path == NULL || to == NULL)
        return MTP_FAIL(MTP_E_ARG, "path or to is NULL");
    mtp_status status = out != NULL ? MTP__ABI_CHECK(out, mtp_recovered, was_stopped) : MTP_OK;
    if (status != MTP_OK)
        return status;
    recovery r = {.spool = {.fd = -1}};
    status = recover(&r, path, to, &found);
    mtp__spool_close(&r.spool);
    mtp__free(r.piece);
    if (out != NULL)
        mtp__abi_write(out, &found, sizeof found);
    return status;
}
