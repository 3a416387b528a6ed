/* record/format.h - the layout of records and chunks, the same in memory and in a spool file. Ids are
 * append-only.
 *
 * A stream is what one thread wrote (stream 0: the control stream), in chunks. Memory and file are divided
 * into pieces of the session's chunk_bytes; a piece holds one or more consecutive chunks, each of `span`
 * bytes. A chunk is a header followed by records, which are runs of 8-byte words:
 *
 *     word 0   ticks << 8 | length << 4 | kind    length in words, 1 to 15; 0: it is in word 1, bits 32 to 63
 *     word 1+  by kind, below
 *
 * Word 0 is stored last, with release: if it is not zero the record is complete, whatever happened to its
 * writer since. Chunks are handed out zeroed, so the first zero word 0 ends the records. Ticks are truncated
 * to 56 bits (months); the chunk's base_ticks has all 64.
 */
#ifndef MTP_RECORD_FORMAT_H
#define MTP_RECORD_FORMAT_H
#include <stdint.h>

/* Versions 1 to 3 were never released and are not read. */
#define MTP__FORMAT_VERSION 4u

/* What word 1 and the words after it hold:
 *
 *     BEGIN         name | scope kind << 32 | mask << 40 | device << 48; then a word per mask bit
 *     END           nothing; or slot | is named << 32 | mask << 40, then a word per mask bit; slots: below
 *     MEMORY        device << 48; address; bytes; total allocated; total reserved
 *     TAG           category | device << 48; address
 *     DEVICE        name | kind << 32 | clock << 40 | device << 48; start; end; stream; correlation; bytes;
 *                   queued; [grid 0,1; grid 2, block 0; block 1,2]
 *     DEVICE_CLOCK  device << 48; device ns; host ticks; error ns
 *     MARK          name
 *     COUNTER       name; double
 *     STEP          number: this step of the profile begins
 *     EXISTING      category | device << 48; address; bytes: allocated before the recording began
 *     TENSORS       signature | count << 32 | more << 40; then for each tensor: number | device << 48;
 *                   address | dtype << 56. Of the op that has just begun (signature 0), or part of what its
 *                   object holds. more 1: continues the previous record
 *     CONTROL       mtp__control_kind | check << 8 | length << 32; then by mtp__control_kind
 *
 * X(symbol, value, words that it has at least, what word 1 begins with: the id of a NAME or SHAPE, or NONE) */
#define MTP__KIND_LIST(X)                                                                                    \
    X(BEGIN, 1, 2, NAME)                                                                                     \
    X(END, 2, 1, NONE)                                                                                       \
    X(MEMORY, 3, 6, NONE)                                                                                    \
    X(TAG, 4, 3, NONE)                                                                                       \
    X(DEVICE, 5, 8, NAME)                                                                                    \
    X(DEVICE_CLOCK, 6, 5, NONE)                                                                              \
    X(MARK, 7, 2, NAME)                                                                                      \
    X(COUNTER, 8, 3, NAME)                                                                                   \
    X(STEP, 9, 2, NONE)                                                                                      \
    X(EXISTING, 10, 4, NONE)                                                                                 \
    X(TENSORS, 11, 2, SHAPE)                                                                                 \
    X(CONTROL, 15, 2, NONE)
#define X(sym, value, least, id) MTP__KIND_##sym = (value),
typedef enum mtp__kind {
    MTP__KIND_LIST(X)
} mtp__kind;
#undef X

/* The minimum length of a record of this kind, in words; 0: unknown kind. */
static inline uint32_t mtp__kind_words(unsigned kind)
{
#define X(sym, value, least, id) [value] = (least),
    static const uint8_t words[16] = {MTP__KIND_LIST(X)};
#undef X
    return words[kind & 15];
}

/* A begin takes the slot at the stream's depth, and the depth grows by one. An END that is not named ends the
 * scope in the highest slot and frees it. A named END ends the scope of its slot, and the depth stays,
 * because slots above it are in use. So nested scopes need no names, and a reader that knows the depth where
 * it starts (the chunk has it) finds every begin that it has seen, in whatever order scopes end. Depths wrap
 * at 32 bits. */
#define MTP__END_WORD1(slot, mask) ((uint64_t)(slot) | (uint64_t)1 << 32 | (uint64_t)(mask) << 40)
#define MTP__END_IS_NAMED(word) (((word) >> 32 & 1) != 0)

/* Payload words of BEGIN and END, in this order. */
enum {
    MTP__HAS_SEQUENCE = 1 << 0,
    MTP__HAS_FORWARD = 1 << 1,   /* thread of the forward op */
    MTP__HAS_DETAIL = 1 << 2,    /* shape signature | stack << 32 (END: signature of the outputs) */
    MTP__HAS_ALLOCATED = 1 << 3, /* bytes on the op's device */
    MTP__HAS_CORRELATION = 1 << 4,
    MTP__HAS_FLOPS = 1 << 5,
    MTP__HAS_ARGS = 1 << 6,  /* text id */
    MTP__HAS_NUMBER = 1 << 7 /* of a step: appended to the name's text */
};

/* Walks them:
 *     mtp__payload p = mtp__payload_of(record, length);
 *     for (uint64_t value; (bit = mtp__payload_next(&p, &value)) != 0;)
 * A mask that is left over at the end had more bits than the record has words. */
typedef struct mtp__payload {
    const uint64_t *next, *end;
    uint32_t mask;
} mtp__payload;
static inline mtp__payload mtp__payload_of(const uint64_t *record, uint32_t length)
{
    if (length < 2)
        return (mtp__payload){record, record, 0};
    return (mtp__payload){record + 2, record + length, (uint32_t)(record[1] >> 40) & 0xff};
}
static inline uint32_t mtp__payload_next(mtp__payload *p, uint64_t *value)
{
    uint32_t bit = p->mask & -p->mask;
    if (bit == 0 || p->next == p->end)
        return 0;
    p->mask ^= bit;
    *value = *p->next++;
    return bit;
}

/* The control stream: what the other streams' ids mean. Blobs may be split into parts, which are in order.
 * Each record has a check over all its words (checks.h: mtp__control_check), because an unsealed chunk has no
 * checksum.
 * X(symbol, value, is a blob): what the blob is, or the words. */
#define MTP__CONTROL_LIST(X)                                                                                 \
    X(NAME, 1, 1)     /* text. Ids with bit 31 set are the session's own */                                  \
    X(SHAPE, 2, 1)    /* words, see record/details.c */                                                      \
    X(FRAME, 3, 1)    /* "file:line:function"; native: see record/stack.c */                                 \
    X(STACK, 4, 1)    /* two 32-bit ids, parent stack (0: none) and frame */                                 \
    X(TEXT, 5, 1)     /* args of an op */                                                                    \
    X(METADATA, 6, 1) /* 's' (text) or 'j' (JSON), key, NUL, value */                                        \
    X(THREAD, 7, 1)   /* the thread's name; id is its stream, word 2 bits 32 to 63 its OS tid */             \
    X(ANCHOR, 8, 0)   /* ticks; monotonic; realtime; raw; error, all ns; [1: re-emitted in a later epoch] */ \
    X(SESSION, 9,                                                                                            \
      0)            /* pid; recording flags; cycle; MTP__CLOCK_*; ticks per ns, a double;                  \
                       * then, if known, the parent's pid; the kernel's boot id, two words (0: unknown) */ \
    X(CYCLE, 10, 0) /* cycle | started (1) or stopped (0) << 32 */                                           \
    X(LEDGER, 11, 0)   /* emitted; kept; dropped; lost definitions; dropped by cause ... */                  \
    X(TRACE_ID, 12, 1) /* text */                                                                            \
    X(DEVICE, 13, 1)   /* the device's name, NUL, its description, a JSON object; id is the mtp_device */    \
    X(PROCESS, 14, 1)  /* the command line: arguments separated by spaces, the first without its folder */
#define X(sym, value, blob) MTP__CONTROL_##sym = (value),
typedef enum mtp__control_kind {
    MTP__CONTROL_LIST(X)
} mtp__control_kind;
#undef X

#define MTP__CONTROL_NONE 0

/* The definition that word 1 of a record of this kind refers to in its low half: MTP__CONTROL_NAME or _SHAPE,
 * or MTP__CONTROL_NONE. */
static inline uint32_t mtp__kind_refers_to(unsigned kind)
{
#define X(sym, value, least, id) [value] = MTP__CONTROL_##id,
    static const uint8_t refers_to[16] = {MTP__KIND_LIST(X)};
#undef X
    return refers_to[kind & 15];
}

enum {                         /* of SESSION */
    MTP__CLOCK_IS_COUNTER = 1, /* ticks are the processor's; else ns of CLOCK_MONOTONIC */
    MTP__CLOCK_IN_TROUBLE = 2  /* the system's clocks disagreed: the rate was measured in another way */
};

static inline int mtp__control_is_blob(uint32_t kind)
{
#define X(sym, value, blob) ((blob) != 0 && kind == (value)) ||
    return MTP__CONTROL_LIST(X) 0;
#undef X
}

/* An unknown kind was written by a newer version. */
static inline int mtp__control_is_known(uint32_t kind)
{
#define X(sym, value, blob) kind == (value) ||
    return MTP__CONTROL_LIST(X) 0;
#undef X
}

/* Blobs: word 2 = id | (offset of this part, or tid) << 32; word 3 = total bytes | bytes here << 32;
 * bytes. */

#define MTP__CONTROL_WORD1(kind, check, length)                                                              \
    ((uint64_t)(kind) | (uint64_t)(check) << 8 | (uint64_t)(length) << 32)
#define MTP__CONTROL_KIND(word1) ((uint32_t)(word1)&0xffu)
#define MTP__CONTROL_CHECK(word1) ((uint32_t)(word1) >> 8)

#define MTP__WORD0(ticks, length, kind) ((uint64_t)(ticks) << 8 | (uint64_t)(length) << 4 | (uint64_t)(kind))
#define MTP__WORD0_KIND(word) ((unsigned)(word)&15u)
#define MTP__WORD0_LENGTH(word) ((unsigned)(word) >> 4 & 15u)
#define MTP__WORD0_TICKS(word) ((word) >> 8)
/* All 64 bits: the value with these low 56 bits that is nearest to the chunk's base_ticks. */
static inline uint64_t mtp__word0_full_ticks(uint64_t word, uint64_t base_ticks)
{
    return base_ticks + (uint64_t)((int64_t)((MTP__WORD0_TICKS(word) - base_ticks) << 8) >> 8);
}

#define MTP__BEGIN_WORD1(name, scope_kind, mask, device)                                                     \
    ((uint64_t)(name) | (uint64_t)(scope_kind) << 32 | (uint64_t)(mask) << 40 | (uint64_t)(device) << 48)

/* The epoch of control chunks that belong to all epochs: names of call sites, in a ring. */
#define MTP__EPOCH_ALL UINT32_MAX

/* Precedes each chunk's words. Span and head are its state, changed in one store: both 0, no chunk; head 0, a
 * chunk of `span` bytes is being created; both set, there is a chunk. All other fields are written before
 * that, except records, words and checksum, which are written when it is sealed, and then possibly a shorter
 * span. */
typedef struct mtp__chunk {
    uint64_t order;      /* 1, 2, ... as chunks are handed out */
    uint64_t magic;      /* in a file: specific to it (record/checks.h); else MTP__CHUNK_MAGIC */
    uint32_t stream;     /* 0: control */
    uint32_t cycle;      /* the recording cycle that it belongs to */
    uint64_t base_ticks; /* all 64 bits of a tick not later than the first record's */
    uint64_t first;      /* earlier records of the stream, including dropped ones */
    uint64_t dropped; /* of `first`: the dropped ones. If it grows, some are missing just before this chunk */
    uint32_t records; /* when sealed: how many it has */
    uint32_t words;   /* when sealed: how many are used */
    uint64_t sealed;  /* private to the pool: when it was returned, increasing; 0: it is open */
    uint64_t checksum; /* when sealed, in a file: over the words and most fields (record/piece.c); else 0 */
    uint32_t depth;    /* of the stream before the first record */
    uint32_t epoch;    /* of definitions (record/epoch.h) when it was handed out, or MTP__EPOCH_ALL */
    union {
        struct {
            uint32_t span; /* bytes, including the header; the next chunk of the piece, if any, follows */
            uint32_t head; /* check of order to dropped, depth and span (record/piece.h) */
        };
        uint64_t state;
    };
} mtp__chunk;
#define MTP__CHUNK_MAGIC 0x4b4e5548435054d4u
#define MTP__CHUNK_HEADER_WORDS (sizeof(mtp__chunk) / 8)

/* The counts when the recording was stopped: they survive later damage to the file, and a control stream that
 * found no room on the disk. */
#define MTP__LEDGER_ROOM 20
typedef struct mtp__totals {
    uint64_t known;   /* 1: the following is valid */
    uint64_t control; /* records of the control stream to its end; in a recovered spool: those that it has */
    uint64_t ledger[MTP__LEDGER_ROOM]; /* as in MTP__CONTROL_LEDGER */
} mtp__totals;

/* At the start of a spool file, in its own piece, and again at MTP__SPOOL_COPY_AT: a reader uses the copy
 * whose check is right. Pieces with chunks follow. The data that times depend on is repeated here, so that no
 * single damaged place in the file makes times wrong. */
typedef struct mtp__spool_header {
    char magic[8]; /* MTP__SPOOL_MAGIC */
    uint32_t version, chunk_bytes;
    uint64_t pid;
    uint64_t complete; /* 1: the session was stopped and the file is complete */
    uint64_t chunks;   /* if complete: how many pieces follow; else meaningless */
    uint64_t locked;   /* 1: while it is not complete, its writer holds a lock on the file (base/os.h) */
    uint64_t mended;   /* 1: `mtprof recover` wrote it: it was damaged or not stopped */
    double ticks_per_ns;
    uint64_t ticks, monotonic_ns, realtime_ns; /* an anchor: when the file was created */
    mtp__totals totals;                        /* of a complete spool */
    uint64_t check;                            /* over all fields before it */
} mtp__spool_header;
#define MTP__SPOOL_MAGIC "mtprof1\n"
#define MTP__SPOOL_COPY_AT 2048u
#endif
