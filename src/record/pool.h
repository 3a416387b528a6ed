/* record/pool.h - chunks, out of one byte budget.
 *
 * Writers take a chunk, fill it without the pool, and give it back sealed. Whether chunks are anonymous memory or
 * pages of a spool file is decided here and nowhere else. The budget is cut into slots of chunk_bytes; a slot shows a
 * piece of memory or of the file, and a piece holds one chunk or several. What a sealed chunk leaves of its piece (the
 * tail) is for the next taker, so that a thread or a cycle costs what it records and not a whole piece. When the budget
 * is spent, the policy says what happens: nothing more is given (stop), the oldest piece without an open chunk is evicted
 * (keep newest), or it is left behind in the file and its slot shows the file's next piece (stream).
 *
 * Threads: take and seal from any; the rest while no writer is inside the recorder.
 */
#ifndef MTP_RECORD_POOL_H
#define MTP_RECORD_POOL_H
#include <mtprof.h>
#include <pthread.h>
#include <stdatomic.h>
#include "record/piece.h"
#include "record/spool_out.h"

typedef struct mtp__pool_config {
    uint64_t bytes;       /* budget, a multiple of chunk_bytes */
    uint32_t chunk_bytes; /* power of two, >= 4 KiB */
    mtp_when_full when_full;
    const char *path;    /* borrowed for init: the spool file, or NULL for memory */
    uint64_t file_limit; /* of a streamed file, 0: none */
} mtp__pool_config;

typedef enum mtp__piece_list {
    MTP__PIECES_IDLE, /* in use, and no chunk of it is open: may be evicted; the one that came to rest first is first */
    MTP__PIECES_FREE,      /* was in use */
    MTP__PIECES_DATA_TAIL, /* has room behind its last chunk */
    MTP__PIECES_CONTROL_TAIL,
    MTP__PIECES_SHARED, /* of a ring: has, or had, several chunks */
    MTP__PIECES_HELD,   /* has open chunks of the program; the one that gave none for longest is first */
    MTP__PIECE_LISTS
} mtp__piece_list;

typedef struct mtp__piece_link {
    uint32_t prev, next; /* slots, by 1 more; 0: none */
    bool in;
} mtp__piece_link;

/* What the pool knows of the piece that a slot shows. */
typedef struct mtp__piece {
    uint32_t used;    /* bytes that its chunks take, from the start; 0: it is not in use */
    uint32_t open;    /* chunks in their owners' hands */
    uint32_t chunks;  /* all of them */
    uint32_t made_in; /* the epoch when it was taken */
    uint32_t epoch;   /* the lowest of its sealed chunks, or UINT32_MAX */
    bool control;
    uint64_t records;        /* in its sealed chunks, of the program */
    uint64_t oldest, newest; /* of its sealed chunks: `sealed`; UINT64_MAX and 0: it has none */
    uint64_t given;          /* the pool's `sealed` when its last chunk was handed out */
    mtp__piece_link link[4]; /* in IDLE or FREE; in one of the tails' lists; in SHARED; in HELD */
} mtp__piece;

typedef struct mtp__pool {
    pthread_mutex_t lock; /* rank 5, the innermost */
    unsigned char *base;  /* owned mapping: slots * chunk_bytes */
    uint32_t slots, chunk_bytes;
    mtp_when_full when_full;
    mtp__piece *piece; /* owned mapping: of each slot */
    struct {
        uint32_t first, last; /* slots, by 1 more */
    } list[MTP__PIECE_LISTS];
    uint32_t fresh;             /* slots handed out at least once since reset */
    uint32_t touched;           /* slots below this one may hold old bytes */
    _Atomic uint32_t reach;     /* slots that can be had: fewer than `slots` after the disk was full */
    uint32_t waited;            /* takes since the disk was full */
    uint32_t held;              /* pieces with open chunks of the program */
    _Atomic uint32_t controls;  /* pieces of the control stream */
    _Atomic uint32_t lasting;   /* of them, those that are never let go */
    uint32_t pinned;            /* slot that a reader is in, or UINT32_MAX */
    uint64_t order;             /* of the chunk given last */
    uint64_t ticks;             /* when a chunk was asked for last, as far as those who asked say */
    uint64_t sealed;            /* when a chunk came back last: as `ticks`, but each time more */
    atomic_bool held_up;        /* pieces in HELD are in the way: see mtp__pool_overdue */
    uint64_t shared_oldest;     /* no sealed chunk in a shared piece came back before this one */
    uint64_t kept, overwritten; /* records: in sealed chunks; in pieces that were evicted */
    _Atomic uint32_t epoch;     /* of definitions, from 1; the control stream's */
    atomic_int refusing;        /* 1 + mtp_drop: nothing more is given, for this reason */
    mtp__spool_out file;        /* its fd is -1: memory only */
} mtp__pool;

mtp_status mtp__pool_init(mtp__pool *pool, const mtp__pool_config *config);
void mtp__pool_fini(mtp__pool *pool);   /* also after a failed init */
void mtp__pool_forked(mtp__pool *pool); /* in a forked child: the chunks are not there any more */
void mtp__pool_reset(mtp__pool *pool);  /* memory only: every chunk is free again */
void mtp__pool_finish(mtp__pool *pool); /* file: cut to size and marked complete; recording may resume */

typedef struct mtp__chunk_ask {
    uint32_t stream, cycle, depth;  /* for the header */
    uint32_t bytes;                 /* how long it should be; it may become shorter or longer */
    uint64_t first, dropped, ticks; /* for the header */
} mtp__chunk_ask;
#define MTP__CHUNK_ASK_LEAST 512u

/* A zeroed chunk with its header filled, or NULL and why. Its span says how long it is: any record of a program fits. */
mtp__chunk *mtp__pool_take_part(mtp__pool *pool, const mtp__chunk_ask *ask, mtp_drop *why);
/* One that fills a new piece. Of the control stream in a stream: or a tail of at least MTP__CONTROL_TAIL bytes. */
mtp__chunk *mtp__pool_take(mtp__pool *pool, uint32_t stream, uint32_t cycle, uint64_t first, uint64_t ticks,
                           mtp_drop *why);
#define MTP__CONTROL_TAIL 2304u /* holds a part of any blob */
/* The chunk's owner writes no more into it. Control chunks are not evicted, except from the memory of a stream, where
 * nothing is lost by it. */
void mtp__pool_seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records);
/* The same for one that its owner has not written to for a while, since `last`, in ticks: it is as old as that. */
void mtp__pool_seal_late(mtp__pool *pool, mtp__chunk *chunk, uint32_t words, uint32_t records, uint64_t last);
/* Threads that hold chunks open and do not record must not be all that is left of the pool. If there is nothing to evict,
 * or much that is held and nothing as old: a time, and chunks in pieces that gave none since are overdue, and better sealed.
 * 0: all is well. all: where there is nothing to evict, any open chunk is overdue. */
uint64_t mtp__pool_overdue(mtp__pool *pool, bool all);
bool mtp__pool_is_overdue(mtp__pool *pool, const mtp__chunk *chunk, uint64_t since);
/* The owner, a thread of this stream, is stuck: readers pass the chunk over, and nobody else ever has it. false: the owner
 * has sealed it already. */
bool mtp__pool_abandon(mtp__pool *pool, mtp__chunk *chunk, uint32_t stream);
/* Of the control stream: its owner writes on. Not in a stream, where its piece may be in memory no more. */
void mtp__pool_unseal(mtp__pool *pool, mtp__chunk *chunk);

/* The lowest epoch of definitions that a chunk of the program in use, sealed or open, was written in; the current one
 * if there is none. An open chunk's is what its header says. */
uint32_t mtp__pool_oldest_epoch(mtp__pool *pool);
/* Sealed control chunks of epochs before `before` are free again, where their definitions are not needed: not in a
 * stream, which keeps all. */
void mtp__pool_release_control(mtp__pool *pool, uint32_t before);
/* Sealed chunks of the program of epochs before `before` are overwritten. */
void mtp__pool_forget_epochs(mtp__pool *pool, uint32_t before);
/* Control chunks hold more than their share of a ring, an eighth and 2 pieces if there are 8: time for a new epoch. */
bool mtp__pool_control_is_large(const mtp__pool *pool);
bool mtp__pool_control_is_half(const mtp__pool *pool); /* more than half of it: high time */

/* Each chunk in use: stream by stream, each in the order of writing, the control stream last (so that it defines all
 * that the others used). words: those written so far. Stops at the first status other than MTP_OK. Writers may
 * be at work: a chunk that is evicted meanwhile is passed over. */
typedef mtp_status mtp__chunk_visitor(void *user, const mtp__chunk *chunk, const uint64_t *words,
                                      uint32_t count);
mtp_status mtp__pool_visit(mtp__pool *pool, mtp__chunk_visitor *visitor, void *user);
mtp_status mtp__pool_visit_control(mtp__pool *pool, mtp__chunk_visitor *visitor,
                                   void *user); /* that stream alone */
#endif
