/* collect/mpi/mpi.h - records calls of MPI. Private to this folder.
 *
 * No mpi.h is included: its handles are pointers in Open MPI and numbers in MPICH. Here every argument is a word, which is
 * passed on as it came (as in all calling conventions of Linux on 64 bits), and what an argument means is looked up in a
 * table (calls.h) and in the facts of the library in use (abi.c).
 *
 * Threads: any, as the program's MPI_Init_thread allows. Errors of ours never reach the program: a call that cannot be
 * described is recorded by its name alone.
 */
#ifndef MTP_COLLECT_MPI_MPI_H
#define MTP_COLLECT_MPI_MPI_H
#include <mtprof.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/plain.h"

typedef uintptr_t mtp__word;

/* -------------------------------------------------------------------------------------------- the library: abi.c */

typedef struct mtp__mpi_abi {
    const char *name;    /* "Open MPI", "MPICH" */
    size_t handle_bytes; /* of MPI_Comm, MPI_Datatype, MPI_Request, MPI_Group */
    mtp__word world, byte, request_null, comm_null, in_place, status_ignore;
    int any_source, any_tag, proc_null, root; /* root: MPI_ROOT */
    size_t status_bytes, source_at, tag_at;
} mtp__mpi_abi;
extern mtp__mpi_abi mtp__mpi; /* set by the first call; name NULL: a library that we do not know */

#define MTP__MPI_WORDS 12 /* arguments of a call, at most */

void mtp__mpi_find(void);                /* once, before the rest */
void *mtp__mpi_symbol(const char *name); /* of the library; NULL: it has none */
int mtp__mpi_apply(void *function, unsigned count, const mtp__word *a);

/* A handle behind a pointer of the program's, or in an array; and as an argument. */
static inline mtp__word mtp__mpi_handle_at(const void *at, size_t i)
{
    return mtp__mpi.handle_bytes == sizeof(uint32_t) ? ((const uint32_t *)at)[i] : ((const mtp__word *)at)[i];
}

static inline mtp__word mtp__mpi_handle(mtp__word argument)
{
    return mtp__mpi.handle_bytes == sizeof(uint32_t) ? (uint32_t)argument : argument;
}

/* What we call ourselves. X(name, arguments) */
#define MTP__MPI_OWN_LIST(X)                                                                                 \
    X(Comm_rank, (mtp__word, int *))                                                                         \
    X(Comm_size, (mtp__word, int *))                                                                         \
    X(Comm_remote_size, (mtp__word, int *))                                                                  \
    X(Comm_test_inter, (mtp__word, int *))                                                                   \
    X(Comm_group, (mtp__word, mtp__word *))                                                                  \
    X(Comm_remote_group, (mtp__word, mtp__word *))                                                           \
    X(Comm_get_name, (mtp__word, char *, int *))                                                             \
    X(Comm_dup, (mtp__word, mtp__word *))                                                                    \
    X(Comm_free, (mtp__word *))                                                                              \
    X(Group_translate_ranks, (mtp__word, int, const int *, mtp__word, int *))                                \
    X(Group_free, (mtp__word *))                                                                             \
    X(Type_size, (mtp__word, int *))                                                                         \
    X(Type_get_name, (mtp__word, char *, int *))                                                             \
    X(Get_count, (const void *, mtp__word, int *))                                                           \
    X(Send, (const void *, int, mtp__word, int, int, mtp__word))                                             \
    X(Recv, (void *, int, mtp__word, int, int, mtp__word, void *))                                           \
    X(Barrier, (mtp__word))                                                                                  \
    X(Iprobe, (int, int, mtp__word, int *, void *))                                                          \
    X(Initialized, (int *))                                                                                  \
    X(Finalized, (int *))
typedef struct mtp__mpi_own {
#define X(name, arguments) int(*name) arguments;
    MTP__MPI_OWN_LIST(X)
#undef X
} mtp__mpi_own;
extern mtp__mpi_own mtp__pmpi; /* all set, or mtp__mpi.name is NULL */

/* --------------------------------------------------------------------------------------- communicators: comms.c */

enum {
    MTP__COMM_NAME = 96,
    MTP__COMM_PREFIX = 480,
    MTP__COMM_RANKS = 30 /* that are listed, as PyTorch does */
};

typedef struct mtp__comm {
    struct mtp__comm *next;
    mtp__word handle;
    int *
        ranks; /* owned: global rank of each of its ranks (of a remote group, the remote ones); NULL: the same */
    int rank, size, remote;        /* remote: size of the other group; -1: it is no intercommunicator */
    uint64_t sequence;             /* collectives so far, counted whether they are recorded or not */
    uint64_t made;                 /* communicators made of it so far */
    char name[MTP__COMM_NAME];     /* the same on all of its ranks */
    char prefix[MTP__COMM_PREFIX]; /* members of args, ending with ", " */
    size_t prefix_length;
} mtp__comm;

mtp__comm *mtp__comm_find(mtp__word handle);        /* NULL: MPI_COMM_NULL, or out of memory */
uint64_t mtp__comm_next(mtp__comm *c);              /* the number of a collective on it */
int mtp__comm_global(const mtp__comm *c, int peer); /* -1: none */
/* A communicator was made of `parent` (NULL: unknown) in this way; its name is parent/N.how, and of disjoint
 * groups made at once @ and the lowest rank. */
void mtp__comm_made(mtp__comm *parent, uint64_t number, const char *how, bool disjoint, mtp__word handle);
uint64_t mtp__comm_making(mtp__comm *parent); /* called by all ranks of the parent: the N */
void mtp__comm_gone(mtp__word handle);
void mtp__comms_hold(void);
void mtp__comms_release(void);

/* ------------------------------------------------------------------------------------------- spans and their args */

typedef struct mtp__mpi_text {
    int64_t sequence; /* shown as "Seq" if the text begins with MTP_ARGS_NUMBERED; -1: none */
    char at[2048];
    size_t n;
} mtp__mpi_text;

enum mtp__mpi_form { /* what a call does with its counts */
    MTP__MPI_PLAIN,
    MTP__MPI_SEND,
    MTP__MPI_RECV,
    MTP__MPI_SENDRECV,
    MTP__MPI_SAME,      /* as much in as out */
    MTP__MPI_REDUCE,    /* out at the root */
    MTP__MPI_GATHER,    /* out at the root: from each */
    MTP__MPI_SCATTER,   /* in at the root: to each */
    MTP__MPI_ALLGATHER, /* out: from each */
    MTP__MPI_ALLTOALL,  /* in and out: each */
    MTP__MPI_FOLD,      /* reduce_scatter: in: to each */
    MTP__MPI_BARRIER
};

/* Places of arguments count from 1; 0: the call has none. */
typedef struct mtp__mpi_call {
    const char *name, *pmpi, *what; /* what: its "Collective name" */
    uint8_t words, form;
    uint8_t comm, count, type, in_count, in_type; /* in_*: what is sent, if that is told apart */
    uint8_t peer, tag, source, source_tag;        /* source: of a sendrecv */
    uint8_t root, sent, received, request, status;
    bool in_many, out_many; /* the count is an array: one for each rank */
    bool wide;              /* counts are MPI_Count */
    bool starts_later;      /* a persistent request */
} mtp__mpi_call;

typedef struct mtp__mpi_amount {
    int64_t elements; /* -1: unknown */
    mtp__word type;
} mtp__mpi_amount;

bool mtp__mpi_wanted(void);
uint32_t mtp__mpi_name(const char *name, uint32_t *known);
/* The args of a call: members of a JSON object. sequence 0: no collective. */
void mtp__mpi_describe(mtp__mpi_text *t, const mtp__mpi_call *call, const mtp__word *a, mtp__comm *c,
                       uint64_t sequence);
void mtp__mpi_put(mtp__mpi_text *t, const char *text);
void mtp__mpi_put_bytes(mtp__mpi_text *t, const char *bytes, size_t length);
void mtp__mpi_put_integer(mtp__mpi_text *t, const char *before, int64_t value);
void mtp__mpi_put_number(mtp__mpi_text *t, const char *key, int64_t value); /* with a comma before it */
void mtp__mpi_put_amount(mtp__mpi_text *t, const char *side, int64_t elements, int64_t bytes);
void mtp__mpi_put_type(mtp__mpi_text *t, mtp__word type);
int64_t mtp__mpi_type_bytes(mtp__word type);
void mtp__mpi_types_changed(void);
mtp_token mtp__mpi_begin(uint32_t name, const mtp__mpi_text *args);
/* A message whose source, tag or size is known only now: a span without length in the one that received it. */
void mtp__mpi_message(const mtp__comm *c, const void *status, mtp__word type);

/* ----------------------------------------------------------------------------------------------------- requests */

typedef struct mtp__mpi_pending {
    struct mtp__mpi_pending *next;
    mtp__word handle, type;
    mtp__comm *comm;
    uint64_t id;
    int64_t sequence;            /* of the call; -1: none */
    bool is_persistent, is_open; /* is_open: a receive from anybody, or with any tag */
    size_t n;
    char args[1024]; /* of the call that made it, without its "Collective name" */
} mtp__mpi_pending;

/* The record of a request that is about to be made. Its number is used again when it is over: what is said of it is then
 * often the same as before, and recorded once. NULL: out of memory. */
mtp__mpi_pending *mtp__mpi_request_new(void);
void mtp__mpi_request_add(mtp__mpi_pending *p, mtp__word handle,
                          const mtp__mpi_text *args);                /* takes ownership */
bool mtp__mpi_request_get(mtp__word handle, mtp__mpi_pending *copy); /* false: not known */
void mtp__mpi_request_done(mtp__word handle); /* it has completed; a persistent one stays */
void mtp__mpi_request_gone(mtp__word handle);
bool mtp__mpi_requests_any(void);

/* ---------------------------------------------------------------------------------------- the rest of the folder */

bool mtp__mpi_used(void); /* has a call been recorded? */
/* clocks.c: before MPI_Init, after it, and before MPI_Finalize */
void mtp__mpi_clocks_announce(void);
void mtp__mpi_clocks_begin(const mtp__comm *world);
void mtp__mpi_clocks_end(const mtp__comm *world);
#endif
