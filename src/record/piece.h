/* record/piece.h - chunks in the pieces of memory or of a file: consecutive, each as long as its span.
 *
 * Threads: stateless.
 */
#ifndef MTP_RECORD_PIECE_H
#define MTP_RECORD_PIECE_H
#include <mtprof.h>
#include <sys/types.h>
#include "record/format.h"

#define MTP__CHUNK_ALIGN 64u /* spans, and so the offsets of chunks, are multiples of it */
#define MTP__CHUNK_LEAST 128u

static inline uint64_t *mtp__chunk_words(mtp__chunk *chunk)
{
    return (uint64_t *)(void *)(chunk + 1);
}

/* Words that a chunk of `span` bytes holds. */
static inline uint32_t mtp__span_words(uint32_t span)
{
    return (uint32_t)(span / 8 - MTP__CHUNK_HEADER_WORDS);
}

/* Can a chunk at byte `from` of a piece be that long? */
static inline bool mtp__span_is_possible(uint32_t span, uint32_t from, uint32_t piece_bytes)
{
    return span >= MTP__CHUNK_LEAST && span % MTP__CHUNK_ALIGN == 0 && span <= piece_bytes - from;
}

/* The check of the fields that do not change while the chunk is in use; never 0, nor one flipped bit away
 * from it. */
uint32_t mtp__chunk_head(const mtp__chunk *chunk);
/* Sets the state to `span` and the check of the current header, in one store with release: this publishes the
 * chunk. */
void mtp__chunk_set_span(mtp__chunk *chunk, uint32_t span);
static inline void mtp__chunk_seal_head(mtp__chunk *chunk)
{
    mtp__chunk_set_span(chunk, chunk->span);
}
uint64_t mtp__chunk_checksum(const mtp__chunk *chunk, const uint64_t *words);
/* Words of complete records from the start of `words`: up to the first that is unwritten or impossible. */
uint32_t mtp__chunk_written(const uint64_t *words, uint32_t capacity);

/* Reads a chunk of a file, into `copy`, while its writer may be adding to it, sealing or evicting it. An open chunk has its
 * complete records, except perhaps the newest, and zeros after them; if the chunk was evicted, head is 0. Returns the
 * bytes read, or -1 (errno). */
ssize_t mtp__chunk_read(int fd, uint64_t at, mtp__chunk *copy, uint32_t bytes);

uint64_t mtp__records_in(const uint64_t *words, uint32_t count); /* how many records are in `count` words */

typedef struct mtp__chunk_place {
    uint64_t order, piece; /* piece: slot, or piece of a file; order 0: a copy of an earlier chunk */
    uint32_t stream, from; /* from: byte of the piece */
    uint32_t span;         /* 0: the header is damaged, and the other fields may be wrong */
} mtp__chunk_place;

typedef struct mtp__places {
    mtp__chunk_place *place; /* owned */
    uint64_t count, room;
    uint64_t unread;    /* pieces that could not be read */
    uint64_t unread_at; /* the first of them ... */
    int unread_error;   /* ... and why, an errno */
} mtp__places;

void mtp__places_fini(mtp__places *places);
mtp_status mtp__places_reserve(mtp__places *places, uint64_t more); /* room for `more` entries */
void mtp__places_sort(mtp__places *places);        /* by stream, each in the order of writing, control last */
void mtp__places_mark_copies(mtp__places *places); /* sorted, not live: duplicates get order 0 */

/* Is this the header of a chunk, at byte `from` of a piece of a file with this magic number? */
bool mtp__chunk_is_right(const mtp__chunk *chunk, uint64_t magic, uint32_t from, uint32_t piece_bytes);
/* The first piece from i on that is not a hole in the file, or `pieces`; those below *known are known not to be. */
uint64_t mtp__next_piece(int fd, uint32_t piece_bytes, uint64_t i, uint64_t pieces, uint64_t *known);

/* Adds every chunk with this magic number in the file's first `pieces` pieces. Skips chunks that are being
 * created; lists a damaged header once, as such, and finds the next valid one after it. The file may be
 * shorter, and may be written to meanwhile. */
mtp_status mtp__places_list(mtp__places *places, int fd, uint64_t magic, uint32_t piece_bytes,
                            uint64_t pieces);
#endif
