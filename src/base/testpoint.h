/* base/testpoint.h - named points where a test can stop, kill or disturb the library.
 *
 * Points on the hot path exist only in the build linked by tests (MTP__TESTING); others cost one load.
 */
#ifndef MTP_BASE_TESTPOINT_H
#define MTP_BASE_TESTPOINT_H

/* X(symbol): in the order in which a record reaches them. */
#define MTP__TESTPOINT_LIST(X)                                                                               \
    X(THREAD_JOIN)      /* a thread is about to enter the registry */                                        \
    X(CHUNK_RESERVED)   /* the tail of a piece has an owner, but is not a chunk yet */                       \
    X(CHUNK_TAKEN)      /* a chunk has an owner, but no record yet */                                        \
    X(RECORD_RESERVED)  /* hot: payload is being written, word 0 is still zero */                            \
    X(RECORD_COMMITTED) /* hot: word 0 is written, the thread is still busy */                               \
    X(CHUNK_EVICTED)    /* the oldest chunk is free and still holds its records */                           \
    X(CHUNK_SEALED)     /* count and checksum are in the header */                                           \
    X(CHUNK_GIVEN_BACK) /* the unused part is available to others */                                         \
    X(DEFINITION)       /* a definition is in the control stream, its id not yet handed out */               \
    X(STOP_GATE)        /* the gate is shut, writers may still be busy */                                    \
    X(STOP_REST)        /* no writer is active, chunks are not sealed yet */                                 \
    X(STOP_DONE)        /* everything is sealed */                                                           \
    X(FORK_CHILD)       /* in the child, before any repair */                                                \
    X(LIVE_LISTED)      /* a reader has looked for the chunks of a file that is being written */             \
    X(LIVE_READ)        /* ... and has read them: sums are next */
#define X(sym) MTP__POINT_##sym,
typedef enum mtp__testpoint {
    MTP__TESTPOINT_LIST(X) MTP__TESTPOINTS
} mtp__testpoint;
#undef X

typedef void mtp__testpoint_hook(mtp__testpoint point, void *user);
void mtp__testpoint_set(mtp__testpoint_hook *hook, void *user); /* NULL: none */
void mtp__testpoint_hit(mtp__testpoint point);
const char *mtp__testpoint_text(mtp__testpoint point);

#ifdef MTP__TESTING
#define MTP__TESTPOINT(sym) mtp__testpoint_hit(MTP__POINT_##sym)
#define MTP__TESTPOINT_HOT(sym) mtp__testpoint_hit(MTP__POINT_##sym)
#else
#define MTP__TESTPOINT(sym) mtp__testpoint_hit(MTP__POINT_##sym)
#define MTP__TESTPOINT_HOT(sym) ((void)0)
#endif
#endif
