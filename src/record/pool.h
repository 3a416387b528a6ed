/* record/pool.h - chunks, allocated from one byte budget.
 *
 * Writers take a chunk, fill it without the pool, and return it sealed. Whether chunks are anonymous memory
 * or pages of a spool file is decided here and nowhere else. The budget is divided into slots of piece_bytes
 * (not related to the slots of scopes); a slot shows a piece of memory or of the file, and a piece holds one
 * or more chunks. The part of a piece after its last sealed chunk (the tail) is available to the next taker,
 * so that a thread or a cycle costs what it records and not a whole piece. When the budget is exhausted, the policy decides: no more chunks are
 * handed out (stop), the oldest piece without an open chunk is evicted (keep newest), or it stays in the file
 * and its slot shows the file's next piece (stream).
 *
 * Threads: take and seal from any; the rest while no writer is inside the recorder.
 */
#ifndef MTP_RECORD_POOL_H
#define MTP_RECORD_POOL_H
#include <mtprof.h>
#include <pthread.h>
#include <stdatomic.h>
#include "record/piece.h"
#include "record/spool/out.h"

typedef struct mtp__pool_config {
    uint64_t bytes;       /* budget, a multiple of piece_bytes */
    uint32_t piece_bytes; /* power of two, >= 4 KiB */
    mtp_when_full when_full;
    const char *path;    /* borrowed for init: the spool file, or NULL for memory */
    uint64_t file_limit; /* of a streamed file; 0: none */
} mtp__pool_config;

typedef enum mtp__piece_list {
    MTP__PIECES_IDLE,      /* in use, no open chunk: may be evicted; longest at rest first */
    MTP__PIECES_FREE,      /* was in use */
    MTP__PIECES_DATA_TAIL, /* has room after its last chunk */
    MTP__PIECES_CONTROL_TAIL,
    MTP__PIECES_SHARED, /* in a ring: has, or had, several chunks */
    MTP__PIECES_HELD,   /* has open data chunks; in the order in which they last handed out one */
    MTP__PIECE_LISTS
} mtp__piece_list;

typedef struct mtp__piece_link {
    uint32_t prev, next; /* slot + 1; 0: none */
    bool in;
} mtp__piece_link;

/* The pool's bookkeeping of the piece that a slot shows. */
typedef struct mtp__piece {
    uint32_t used;    /* bytes of its chunks, from the start; 0: not in use */
    uint32_t open;    /* open chunks */
    uint32_t chunks;  /* all chunks */
    uint32_t made_in; /* the epoch in which it was taken */
    uint32_t epoch;   /* the lowest of its sealed chunks, or UINT32_MAX */
    bool control;
    uint64_t records;        /* data records in its sealed chunks */
    uint64_t oldest, newest; /* `sealed` of its sealed chunks; UINT64_MAX and 0: it has none */
    uint64_t given;          /* the pool's `sealed` when its last chunk was handed out */
    mtp__piece_link link[4]; /* in IDLE or FREE; in a tail list; in SHARED; in HELD */
} mtp__piece;

typedef struct mtp__pool {
    pthread_mutex_t lock; /* rank 5, the innermost */
    unsigned char *base;  /* owned mapping: slots * piece_bytes */
    uint32_t slots, piece_bytes;
    mtp_when_full when_full;
    mtp__piece *piece; /* owned mapping: one per slot */
    struct {
        uint32_t first, last; /* slot + 1; 0: none */
    } list[MTP__PIECE_LISTS];
    uint32_t fresh;             /* slots handed out at least once since reset */
    uint32_t touched;           /* slots below this one may hold old bytes */
    _Atomic uint32_t reach;     /* usable slots: fewer than `slots` after the disk was full */
    uint32_t waited;            /* takes since the disk was full */
    uint32_t held;              /* pieces with open data chunks */
    _Atomic uint32_t controls;  /* pieces of the control stream */
    _Atomic uint32_t permanent; /* of them, the permanent ones */
    uint32_t pinned;            /* slot that is being read, or UINT32_MAX */
    uint64_t order;             /* of the chunk handed out last */
    uint64_t ticks;             /* the latest time in any request for a chunk */
    uint64_t sealed;            /* when a chunk was last returned: like `ticks`, but strictly increasing */
    atomic_bool held_up;        /* pieces in HELD are needed: see mtp__pool_overdue */
    uint64_t shared_oldest;     /* no sealed chunk in a shared piece was returned before this time */
    uint64_t kept, overwritten; /* records: in sealed chunks; in pieces that were evicted */
    _Atomic uint32_t epoch;     /* of definitions, from 1; the control stream's */
    atomic_int refusing;        /* 1 + mtp_drop: no more chunks are handed out, for this reason */
    mtp__spool_out file;        /* fd -1: memory only */
} mtp__pool;

mtp_status mtp__pool_init(mtp__pool *pool, const mtp__pool_config *config);
void mtp__pool_fini(mtp__pool *pool);   /* also after a failed init */
void mtp__pool_forked(mtp__pool *pool); /* in a forked child: the chunks are no longer mapped */
void mtp__pool_reset(mtp__pool *pool);  /* memory only: frees every chunk */
void mtp__pool_finish(mtp__pool *pool); /* file: truncates it, marks it complete; recording may resume */

typedef struct mtp__chunk_ask {
    uint32_t stream, cycle, depth;  /* for the header */
    uint32_t bytes;                 /* preferred length; it may become shorter or longer */
    uint64_t first, dropped, ticks; /* for the header */
} mtp__chunk_ask;
#define MTP__CHUNK_ASK_LEAST 512u

/* A zeroed chunk with its header filled; NULL: *why is the cause. Any data record fits into its span. */
mtp__chunk *mtp__pool_take_part(mtp__pool *pool, const mtp__chunk_ask *ask, mtp_drop *why);
/* One that fills a new piece; for the control stream in stream mode: or a tail of at least MTP__CONTROL_TAIL
 * bytes. */
mtp__chunk *mtp__pool_take(mtp__pool *pool, uint32_t stream, uint32_t cycle, uint64_t first, uint64_t ticks,
                           mtp_drop *why);
#define MTP__CONTROL_TAIL 2368u /* holds a part of any blob */
/* The chunk's owner writes no more into it. Control chunks are not evicted, except from the memory of a
 * stream, where nothing is lost by it. */
void mtp__pool_seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records);
/* The same for a chunk that was last written to at `last` (ticks): it is as old as that. */
void mtp__pool_seal_late(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records, uint64_t last);
/* Idle threads with open chunks must not occupy the whole pool. If nothing can be evicted, or much is held
 * and older than everything evictable: a time; chunks in pieces that handed out none since are overdue and
 * should be sealed. 0: none is overdue. all: if nothing can be evicted, every open chunk is overdue. */
uint64_t mtp__pool_overdue(mtp__pool *pool, bool all);
bool mtp__pool_is_overdue(mtp__pool *pool, const mtp__chunk *chunk, uint64_t since);
/* The owner, a thread of this stream, is stuck: readers skip the chunk, and it is never reused. false: the
 * owner has already sealed it. */
bool mtp__pool_abandon(mtp__pool *pool, mtp__chunk *chunk, uint32_t stream);
/* A control chunk whose owner continues to write. Not in stream mode, where its piece may no longer be in
 * memory. */
void mtp__pool_unseal(mtp__pool *pool, mtp__chunk *chunk);

/* The lowest epoch of definitions of any data chunk in use, sealed or open; the current one if there are
 * none. For an open chunk, it is the one in its header. */
uint32_t mtp__pool_oldest_epoch(mtp__pool *pool);
/* Frees sealed control chunks of epochs before `before`, whose definitions are not needed. Does nothing in
 * stream mode, which keeps all. */
void mtp__pool_release_control(mtp__pool *pool, uint32_t before);
/* Evicts sealed data chunks of epochs before `before`. */
void mtp__pool_forget_epochs(mtp__pool *pool, uint32_t before);
/* Control chunks exceed their share of a ring, an eighth (at least 2 pieces if the ring has 8): time for a
 * new epoch. */
bool mtp__pool_control_is_large(const mtp__pool *pool);
bool mtp__pool_control_is_half(const mtp__pool *pool); /* more than half: urgent */

/* Visits each chunk in use: stream by stream, each in the order of writing, the control stream last (so that
 * it defines everything that the others used). words: those written so far. Stops at the first status other
 * than MTP_OK. Writers may be active: a chunk that is evicted meanwhile is skipped. */
typedef mtp_status mtp__chunk_visitor(void *user, const mtp__chunk *chunk, const uint64_t *words,
                                      uint32_t count);
mtp_status mtp__pool_visit(mtp__pool *pool, mtp__chunk_visitor *visitor, void *user);
mtp_status mtp__pool_visit_control(mtp__pool *pool, mtp__chunk_visitor *visitor,
                                   void *user); /* only that stream */
#endif
