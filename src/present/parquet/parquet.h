/* present/parquet/parquet.h - a small streaming writer of Parquet files. Why not a library: docs/fleet.md.
 *
 *   encode.c    values as bytes: plain, bit-packed, RLE_DICTIONARY, DELTA_BINARY_PACKED
 *   thrift.h    Thrift's compact protocol, of page headers and the footer
 *   texts.c     the dictionary of a column of text
 *   writer.c    pages, row groups, the file
 *   source.c    a trace and what its tables are computed from
 *   spans.c, tables.c   the columns of each table
 *   folder.c    the job and the rank of a trace, and the folders of a partition
 *   export.c    mtp_export_parquet()
 *
 * A table is described by its columns; each has a function that fills in a batch of rows. The writer takes a batch of
 * all columns, then the next; encoded pages wait in memory until their row group is complete, at most about GROUP_BYTES.
 */
#ifndef MTP_PRESENT_PARQUET_H
#define MTP_PRESENT_PARQUET_H
#include <mtprof.h>

/* X(symbol, physical type, converted type, bits of an integer, signed): the numbers of the format. -1: none */
#define MTP__PARQUET_KIND_LIST(X)                                                                            \
    X(BOOL, 0, -1, 0, false)                                                                                 \
    X(I32, 1, 17, 32, true)                                                                                  \
    X(I64, 2, 18, 64, true)                                                                                  \
    X(U64, 2, 14, 64, false)                                                                                 \
    X(F64, 5, -1, 0, false)                                                                                  \
    X(TEXT, 6, 0, 0, false)
#define X(sym, physical, converted, bits, is_signed) MTP__PARQUET_##sym,
typedef enum mtp__parquet_kind {
    MTP__PARQUET_KIND_LIST(X)
} mtp__parquet_kind;
#undef X

#define MTP__PARQUET_BATCH 16384u /* rows of a page */

/* A batch of one column. A TEXT has ids here, a F64 its bits. `present` is NULL unless the column is optional; it is all
 * 1 at first. A value that is not present need not be set. false: none is present (only if optional). */
typedef bool mtp__parquet_fill(const void *source, size_t first, size_t count, int64_t *value,
                               uint8_t *present);
typedef mtp_text mtp__parquet_text(const void *source, int64_t id);

typedef struct mtp__parquet_column {
    const char *name;
    mtp__parquet_kind kind;
    bool optional;
    mtp__parquet_fill *fill;
    mtp__parquet_text *text; /* of TEXT: bytes of any kind, borrowed from the source */
    bool braces;             /* of TEXT: written between { and } */
} mtp__parquet_column;

typedef struct mtp__parquet_table {
    const char *name;
    const mtp__parquet_column *columns;
    size_t column_count;
} mtp__parquet_table;

/* A whole file. MTP_E_IO: the sink failed; MTP_E_NOMEM; MTP_E_UNSUPPORTED: a text is too long for a page. */
mtp_status mtp__parquet_write(const mtp__parquet_table *table, const void *source, uint64_t rows,
                              mtp_sink *sink, void *user);

/* ----------------------------------------------------------------------------------------------- bytes */

typedef struct mtp__octets { /* grows; failures are latched */
    uint8_t *at;             /* owned */
    size_t count, room;
    bool failed;
} mtp__octets;

bool mtp__octets_room(mtp__octets *b, size_t more); /* false: out of memory, latched */
void mtp__octets_put(mtp__octets *b, const void *from, size_t count);
void mtp__octets_varint(mtp__octets *b, uint64_t value);
void mtp__octets_fini(mtp__octets *b);

static inline uint64_t mtp__zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

/* -------------------------------------------------------------------------------------------- encodings */

enum {
    MTP__PARQUET_PLAIN = 0,
    MTP__PARQUET_RLE = 3,
    MTP__PARQUET_DELTA = 5,
    MTP__PARQUET_DICTIONARY = 8
};

unsigned mtp__parquet_width(uint64_t most); /* bits of the largest value */
/* RLE and bit-packed runs of values below 2^width, width up to 32. */
void mtp__parquet_run(mtp__octets *b, uint32_t value, size_t count, unsigned width); /* one run */
void mtp__parquet_hybrid(mtp__octets *b, const uint32_t *v, size_t count, unsigned width);
/* DELTA_BINARY_PACKED. is32: values of an INT32, whose differences wrap at 32 bits. */
void mtp__parquet_delta(mtp__octets *b, const int64_t *v, size_t count, bool is32);
void mtp__parquet_same(mtp__octets *b, int64_t value, size_t count); /* the same, of equal values */
void mtp__parquet_bools(mtp__octets *b, const int64_t *v, size_t count);

/* ------------------------------------------------------------------------------------------- dictionaries */

/* The texts of a column chunk, numbered in order of appearance. Ids with the same text have one number: Arrow looks up texts
 * of a dictionary by their values. */
typedef struct mtp__parquet_texts {
    uint32_t *number_of; /* owned: by id: number + 1, 0: none yet */
    size_t room;
    int64_t *ids;   /* owned: all that number_of has */
    size_t *starts; /* owned: by number: where it is in plain */
    uint32_t *slot; /* owned: a hash table of number + 1; slots: a power of two, or 0 */
    uint32_t count, id_count, id_room, start_room, slots;
    mtp__octets plain;                             /* the dictionary page: lengths and bytes */
    size_t least, least_length, most, most_length; /* in plain: the smallest and the largest */
} mtp__parquet_texts;

/* The number of a text; UINT32_MAX: out of memory, latched in plain. */
uint32_t mtp__parquet_new_text(mtp__parquet_texts *d, const mtp__parquet_column *column, const void *source,
                               int64_t id);
static inline uint32_t mtp__parquet_text_number(mtp__parquet_texts *d, const mtp__parquet_column *column,
                                                const void *source, int64_t id)
{
    uint32_t known = __builtin_expect((size_t)id < d->room, 1) ? d->number_of[id] : 0;
    return __builtin_expect(known != 0, 1) ? known - 1 : mtp__parquet_new_text(d, column, source, id);
}
void mtp__parquet_texts_reset(mtp__parquet_texts *d); /* for the next row group */
void mtp__parquet_texts_fini(mtp__parquet_texts *d);
/* Its length and its bytes, as valid UTF-8: what is not becomes U+FFFD. */
void mtp__parquet_put_text(mtp__octets *b, mtp_text text, bool braces);
#endif
