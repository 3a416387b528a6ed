/* record/piece.c - see piece.h. */
#define _GNU_SOURCE /* SEEK_HOLE */
#include "record/piece.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"

uint32_t mtp__chunk_head(const mtp__chunk *chunk)
{
    const uint64_t words[] = {
        chunk->order, chunk->magic,   chunk->stream | (uint64_t)chunk->cycle << 32, chunk->base_ticks,
        chunk->first, chunk->dropped, chunk->depth | (uint64_t)chunk->span << 32};
    uint64_t sum = mtp__hash_words(words, sizeof words / sizeof *words);
    return (uint32_t)(sum ^ sum >> 32) | 0x80000001u;
}

void mtp__chunk_set_span(mtp__chunk *chunk, uint32_t span)
{
    mtp__chunk next = *chunk;
    next.span = span;
    next.head = mtp__chunk_head(&next);
    __atomic_store_n(&chunk->state, next.state, __ATOMIC_RELEASE); /* pairs: readers, state */
}

/* Excludes span and head, which check each other: a chunk may be shortened, or abandoned, after its checksum
 * was computed. */
uint64_t mtp__chunk_checksum(const mtp__chunk *chunk, const uint64_t *words)
{
    mtp__chunk header = {0};
    memcpy(&header, chunk, offsetof(mtp__chunk, epoch));
    header.epoch = __atomic_load_n(&chunk->epoch, __ATOMIC_RELAXED);
    header.sealed = header.checksum = 0;
    uint64_t fields[MTP__CHUNK_HEADER_WORDS]; /* a copy: not all fields are words (aliasing) */
    memcpy(fields, &header, sizeof fields);
    uint64_t sum = mtp__hash_words(fields, MTP__CHUNK_HEADER_WORDS);
    sum = mtp__hash_mix(sum, mtp__hash_words(words, chunk->words));
    return sum != 0 ? sum : 1;
}

/* Acquire makes the payload of each record visible with its word 0. */
uint32_t mtp__chunk_written(const uint64_t *words, uint32_t capacity)
{
    uint32_t at = 0;
    while (at < capacity) {
        uint64_t word = __atomic_load_n(&words[at], __ATOMIC_ACQUIRE); /* pairs: commit, word 0 */
        if (word == 0)
            break;
        uint32_t length = MTP__WORD0_LENGTH(word);
        if (length == 0)
            length = at + 1 < capacity ? (uint32_t)(words[at + 1] >> 32) : 0;
        if (length == 0 || length > capacity - at)
            break;
        at += length;
    }
    return at;
}

/* The kernel copies the words in any order. So what a word says of others holds for a copy that is made after it was seen:
 * word 0, that its record is complete (pairs: commit); checksum, that the chunk is (pairs: seal); and a header read last that
 * is still the same, that nothing was cleared before (pairs: piece_hide). */
ssize_t mtp__chunk_read(int fd, uint64_t at, mtp__chunk *copy, uint32_t bytes)
{
    mtp__chunk before = {0}, after = {0};
    ssize_t got = mtp__pread(fd, &before, sizeof before, at), all;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (got >= 0)
        got = mtp__pread(fd, copy, bytes, at);
    if (got < (ssize_t)sizeof *copy)
        return got;
    uint64_t *words = mtp__chunk_words(copy);
    uint32_t room = mtp__span_words((uint32_t)got);
    if (before.checksum == 0) {
        uint32_t complete = mtp__chunk_written(words, room);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        all = mtp__pread(fd, copy, (size_t)got, at);
        if (all != got)
            return all;
        memset(words + complete, 0, (room - complete) * sizeof *words);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    all = mtp__pread(fd, &after, sizeof after, at);
    if (all < 0)
        return all;
    if (after.order != copy->order || after.head != mtp__chunk_head(&after))
        copy->head = 0;
    return got;
}

uint64_t mtp__records_in(const uint64_t *words, uint32_t count)
{
    uint64_t records = 0;
    for (uint32_t at = 0, length; at < count; at += length, records++) {
        length = MTP__WORD0_LENGTH(words[at]);
        if (length == 0)
            length = at + 1 < count ? (uint32_t)(words[at + 1] >> 32) : 0;
        if (length == 0)
            break;
    }
    return records;
}

/* --------------------------------------------------------------------------------------------- places */

void mtp__places_fini(mtp__places *places)
{
    mtp__free(places->place);
    *places = (mtp__places){0};
}

mtp_status mtp__places_reserve(mtp__places *places, uint64_t more)
{
    return MTP__GROW(places->place, places->room, places->count, places->count + more, more)
               ? MTP_OK
               : MTP_FAIL(MTP_E_NOMEM, "a list of %llu chunks", (unsigned long long)(places->count + more));
}

static int compare(const void *a, const void *b)
{
    const mtp__chunk_place *x = a, *y = b;
    uint32_t sx = x->stream - 1, sy = y->stream - 1; /* stream 0 becomes the last */
    if (sx != sy)
        return (sx > sy) - (sx < sy);
    if (x->order != y->order)
        return (x->order > y->order) - (x->order < y->order);
    return x->piece != y->piece ? (x->piece > y->piece) - (x->piece < y->piece)
                                : (x->from > y->from) - (x->from < y->from);
}

void mtp__places_sort(mtp__places *places)
{
    if (places->count > 0)
        qsort(places->place, places->count, sizeof *places->place, compare);
}

void mtp__places_mark_copies(mtp__places *places)
{
    const mtp__chunk_place *last = NULL;
    for (uint64_t i = 0; i < places->count; i++) {
        mtp__chunk_place *p = &places->place[i];
        if (p->span == 0)
            continue; /* damaged: its order may be anything */
        if (last != NULL && last->stream == p->stream && last->order == p->order)
            p->order = 0;
        else
            last = p;
    }
}

/* No number in a file is trusted before the header's check has been verified. */
bool mtp__chunk_is_right(const mtp__chunk *c, uint64_t magic, uint32_t from, uint32_t piece_bytes)
{
    return c->order != 0 && c->magic == magic && mtp__span_is_possible(c->span, from, piece_bytes) &&
           c->head == mtp__chunk_head(c);
}

static mtp_status add(mtp__places *places, const mtp__chunk *c, uint64_t piece, uint32_t from, uint32_t span)
{
    mtp_status status = mtp__places_reserve(places, 1);
    if (status == MTP_OK)
        places->place[places->count++] = (mtp__chunk_place){c->order, piece, c->stream, from, span};
    return status;
}

/* All chunks of a piece, of which `have` bytes were read and the rest is zero. */
static mtp_status list_piece(mtp__places *places, uint64_t magic, uint64_t piece, const unsigned char *bytes,
                             uint32_t have, uint32_t piece_bytes)
{
    bool lost = false; /* after a damaged header: search for the next one */
    for (uint32_t from = 0; from + sizeof(mtp__chunk) <= piece_bytes;) {
        mtp__chunk c;
        memcpy(&c, bytes + from, sizeof c);
        bool right = mtp__chunk_is_right(&c, magic, from, piece_bytes);
        if (!right && lost) {
            from += MTP__CHUNK_ALIGN;
            continue;
        }
        if (!right && c.head == 0 && mtp__span_is_possible(c.span, from, piece_bytes)) {
            from += c.span; /* being created */
            continue;
        }
        bool cut = have < from + sizeof c && c.order != 0;
        if (!right && !cut && (c.state == 0 || (c.order == 0 && c.magic == 0)))
            break; /* unused, or evicted */
        lost = !right;
        mtp_status status = add(places, &c, piece, from, right ? c.span : 0);
        if (status != MTP_OK)
            return status;
        from += right ? c.span : MTP__CHUNK_ALIGN;
    }
    return MTP_OK;
}

/* Most chunks fill their piece: the first header tells whether the rest must be read. */
static mtp_status read_piece(mtp__places *places, int fd, uint64_t magic, uint64_t piece, unsigned char *copy,
                             uint32_t bytes)
{
    mtp__chunk first = {0};
    ssize_t got = mtp__pread(fd, &first, sizeof first, (piece + 1) * bytes);
    if (got == (ssize_t)sizeof first && first.state == 0)
        return MTP_OK;
    if (got == (ssize_t)sizeof first && first.span == bytes && mtp__chunk_is_right(&first, magic, 0, bytes))
        return add(places, &first, piece, 0, bytes);
    if (got > 0) {
        memset(copy, 0, bytes);
        got = mtp__pread(fd, copy, bytes, (piece + 1) * bytes);
    }
    if (got < 0 && places->unread++ == 0) {
        places->unread_at = piece;
        places->unread_error = errno;
    }
    return got > 0 ? list_piece(places, magic, piece, copy, (uint32_t)got, bytes) : MTP_OK;
}

uint64_t mtp__next_piece(int fd, uint32_t bytes, uint64_t i, uint64_t pieces, uint64_t *known)
{
    if (i < *known)
        return i;
    off_t data = lseek(fd, (off_t)((i + 1) * bytes), SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? pieces : i; /* only holes; or the file system cannot tell */
    off_t hole = lseek(fd, data, SEEK_HOLE);
    uint64_t at = (uint64_t)data / bytes - 1;
    *known = hole > data ? (uint64_t)(hole - 1) / bytes : at + 1;
    return at < pieces ? at : pieces;
}

mtp_status mtp__places_list(mtp__places *places, int fd, uint64_t magic, uint32_t piece_bytes,
                            uint64_t pieces)
{
    unsigned char *copy = mtp__calloc(1, piece_bytes);
    mtp_status status = copy != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "a piece of %u bytes", piece_bytes);
    uint64_t known = 0;
    for (uint64_t i = 0;
         status == MTP_OK && (i = mtp__next_piece(fd, piece_bytes, i, pieces, &known)) < pieces; i++)
        status = read_piece(places, fd, magic, i, copy, piece_bytes);
    mtp__free(copy);
    return status;
}
