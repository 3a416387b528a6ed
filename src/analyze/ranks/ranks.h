/* analyze/ranks/ranks.h - internals of mtp_ranks (mtprof_ranks.h).
 *
 *     files.c       which files there are
 *     ranks.c       reads them, a few at a time; the public calls
 *     rank.c        one trace becomes an mtp__rank: what it is, and the parts below
 *     rank_calls.c  its communication calls
 *     rank_time.c   its steps; intervals of computation and communication
 *     rank_ops.c    own times of its ops, by step
 *     select.c      which of the files are ranks of one job
 *     match.c       the same call on several ranks; clocks (clock.h)
 *     judge.c       who waits, who is late, since when
 *     why.c         what a late rank does differently
 *     table.c       the table in a job's file
 *     say.c         findings and notes in words
 *
 * A trace is kept only while it is read; an mtp__rank has what ranks are compared by. Its times are Unix time by
 * the rank's own clock.
 */
#ifndef MTP_ANALYZE_RANKS_RANKS_H
#define MTP_ANALYZE_RANKS_RANKS_H
#include "analyze/findings/findings.h"
#include "analyze/ranks/clock.h"
#include "base/hash_map.h"
#include "base/intern.h"
#include "trace/job/job.h"
#include "trace/json/member.h"
#include "trace/trace.h"

#define MTP__NO_STEP UINT32_MAX

/* X(symbol, spelling, mtp__meeting_kind). The first whose letters occur in a call's name counts. */
#define MTP__COMM_LIST(X)                                                                                    \
    X(NEIGHBOR, "neighbor", LOOSE) /* MPI: waits for neighbours only */                                      \
    X(ALLREDUCE, "allreduce", ALL)                                                                           \
    X(REDUCE_SCATTER, "reducescatter", ALL)                                                                  \
    X(ALLGATHER, "allgather", ALL)                                                                           \
    X(ALLTOALL, "alltoall", ALL)                                                                             \
    X(BARRIER, "barrier", ALL)                                                                               \
    X(BROADCAST, "broadcast", FROM_ROOT)                                                                     \
    X(BCAST, "bcast", FROM_ROOT)                                                                             \
    X(SCATTER, "scatter", FROM_ROOT)                                                                         \
    X(GATHER, "gather", TO_ROOT)                                                                             \
    X(REDUCE, "reduce", TO_ROOT)                                                                             \
    X(SENDRECV, "sendrecv", LOOSE)                                                                           \
    X(SEND, "send", LOOSE)                                                                                   \
    X(RECV, "recv", LOOSE)                                                                                   \
    X(OTHER, "", LOOSE)
#define X(sym, text, kind) MTP__COMM_##sym,
typedef enum mtp__comm {
    MTP__COMM_LIST(X) MTP__COMMS
} mtp__comm;
#undef X

typedef struct mtp__call { /* a communication call */
    int64_t enter, leave;
    int64_t hidden;     /* of it, during which something is computed */
    int64_t sequence;   /* -1: unknown */
    int64_t elements;   /* -1: unknown */
    uint64_t group;     /* hash of its name and ranks; 0: unknown */
    uint32_t name;      /* mtp_ranks.names */
    uint32_t step;      /* index; MTP__NO_STEP */
    uint32_t begun;     /* the step in which the host began it; MTP__NO_STEP: unknown, or none */
    uint32_t after;     /* the last step that had begun by then; MTP__NO_STEP: none */
    int32_t root, peer; /* of the job; -1: none */
    int32_t tag;        /* of a message; -1: none, or unknown */
    bool started;       /* it ends before the communication does */
    uint8_t comm;       /* mtp__comm */
    uint8_t kind;       /* mtp__meeting_kind: what it proves about clocks */
    uint8_t nominal;    /* what it usually waits for */
    uint32_t meeting;   /* MTP__NONE: only this rank has it */
    int64_t waited;     /* until the last had entered */
    int64_t held_up;    /* what the rank waited in other calls since the last one of this group */
    int64_t late;       /* by its own work; -1: nobody is late in such a call */
} mtp__call;

typedef struct mtp__op_sum {
    uint32_t step, name;
    bool on_device;
    uint64_t calls;
    int64_t own;
} mtp__op_sum;

typedef struct mtp__clock_sample { /* of mtprof.clock_ties */
    int64_t peer, at, offset, error;
    int clock; /* which one was read: 0 Unix time, 1 the trace's, 2 CLOCK_MONOTONIC; `at` is Unix time */
} mtp__clock_sample;

typedef struct mtp__rank {
    mtp_rank_row row;   /* its texts are owned by mtp_ranks.names, or static */
    uint64_t boot[2];   /* 0: unknown */
    int64_t base, zero; /* Unix time and CLOCK_MONOTONIC at ts 0 */
    bool is_recording, by_order, unreadable;
    bool coarse;             /* its times are whole microseconds */
    bool is_worker;          /* of a process that a rank started */
    bool stepless;           /* it has no numbered steps, as others have */
    uint32_t runs;           /* one after the other; 0 as 1 */
    uint64_t parent;         /* pid; 0: unknown */
    mtp__call *calls;        /* owned: by enter */
    mtp_rank_step *steps;    /* owned: by start */
    mtp__op_sum *ops;        /* owned */
    mtp__clock_sample *ties; /* owned */
    uint32_t call_count, call_room, step_count, op_count, op_room, tie_count, tie_room;
    uint32_t section;   /* of a job's file; MTP__NONE: a file of its own */
    int64_t part;       /* of a recording that has several ranks beside it: this rank; -1: the whole file */
    uint32_t *compared; /* owned: by step, its number among those that are compared; MTP__NO_STEP */
    uint64_t last;
} mtp__rank;

struct mtp_ranks {
    mtp__rank *list;            /* owned: by rank, then those left out */
    uint32_t count, room, used; /* used: compared */
    mtp__intern names;
    mtp__meeting *meetings; /* owned */
    mtp__seen *seen;        /* owned; rank is an index of list */
    uint32_t meeting_count, meeting_room, seen_count, seen_room;
    mtp__clocks clocks;
    char **notes; /* owned, each */
    uint32_t note_count, note_room;
    mtp_rank_finding *found; /* owned; texts as in rows */
    uint32_t found_count, found_room;
    int64_t *numbers;        /* owned: of the steps that are compared */
    uint32_t compared_count; /* of them */
    uint32_t stepped;        /* ranks that are compared by step: not the stepless ones */
    double step_ns;          /* the median step */
    double *late, *lost; /* owned: by rank and compared step: later than the median, than the second-last */
    bool by_order;       /* calls were matched by their order */
};

/* A text as an id of names; 0: out of memory, or empty. */
uint32_t mtp__ranks_name(mtp_ranks *r, const char *bytes, size_t length);
const char *mtp__ranks_text(const mtp_ranks *r, uint32_t name);
const char *mtp__ranks_keep(mtp_ranks *r, const char *text); /* as long as r lives; "" if out of memory */
/* Adds a note; takes the words. false: out of memory. */
bool mtp__ranks_note(mtp_ranks *r, mtp__words *w);

/* files.c: adds what the path names to r->list, with the file's name only. */
/* Of a recording with others beside it, or a folder of them; NULL: they are of fewer than two. Owned by the caller. */
mtp_status mtp__recording_ranks(const char *path, int64_t **ranks, uint32_t *count);
mtp_status mtp__ranks_files(mtp_ranks *r, const char *path);

/* rank.c: reads one. A file that cannot be read gets a problem. MTP_E_NOMEM. Several threads, one each. */
mtp_status mtp__rank_read(mtp_ranks *r, mtp__rank *k, uint64_t max_memory);
/* Opens it; placed: on the reference's clock. */
mtp_status mtp__rank_open(const mtp__rank *k, const mtp_open_options *options, bool placed, mtp_trace **out);
void mtp__rank_fini(mtp__rank *k);

/* What is known of each span while a trace is read. */
enum {
    MTP__IS_OTHER,
    MTP__IS_WORK,
    MTP__IS_COMM
};
typedef struct mtp__rank_view {
    mtp_ranks *r;
    mtp__rank *k;
    const mtp_trace *t;  /* borrowed */
    uint8_t *name_is;    /* owned: by text, mtp__name_is */
    uint32_t main_track; /* the one with steps; MTP__NONE */
} mtp__rank_view;

typedef enum mtp__name_is {
    MTP__NAME_UNKNOWN,
    MTP__NAME_PLAIN,
    MTP__NAME_COMM,   /* communication, but nothing that is matched: c10d::..., waits */
    MTP__NAME_CALL,   /* a call that ends when the communication has ended */
    MTP__NAME_RECORD, /* record_param_comms: describes the call below or after it */
    MTP__NAME_STEP
} mtp__name_is;
mtp__name_is mtp__rank_name(const mtp__rank_view *v, uint32_t span); /* of a span on the host */
bool mtp__rank_kernel_is_comm(mtp_text name);
bool mtp__rank_kernel_is_copy(mtp_text name);
bool mtp__rank_kernel_is_compute(mtp_text name);
mtp__comm mtp__rank_comm(mtp_text name);
bool mtp__rank_is_started_only(mtp_text name); /* "MPI_Isend" */

/* runs.c: of a rank that was started again, leaves one run in the trace; and says so. false: out of memory. */
bool mtp__rank_choose_run(const mtp__rank_view *v, mtp_trace *t);
bool mtp__ranks_note_runs(mtp_ranks *r);
bool mtp__rank_steps(mtp__rank_view *v);
/* What makes a time of one of the rank's clocks (mtp__clock_sample.clock) Unix time. */
static inline int64_t mtp__rank_shift(const mtp__rank *k, int clock)
{
    return clock == 0 ? 0 : clock == 1 ? k->base : (int64_t)((uint64_t)k->base - (uint64_t)k->zero);
}
uint32_t mtp__rank_step_at(const mtp__rank *k, int64_t t);     /* Unix time */
uint32_t mtp__rank_step_before(const mtp__rank *k, int64_t t); /* which may have ended */
bool mtp__rank_calls(mtp__rank_view *v);
bool mtp__rank_times(mtp__rank_view *v);
bool mtp__rank_ops(mtp__rank_view *v);

mtp_status mtp__ranks_select(mtp_ranks *r); /* sorts the list, decides what is compared */
mtp_status mtp__ranks_match(mtp_ranks *r);
mtp_status mtp__ranks_judge(mtp_ranks *r);
/* What a rank does from a compared step on that the other ranks do not: the op that takes most above their median. */
typedef struct mtp__why {
    uint32_t name; /* 0: nothing stands out */
    bool on_device;
    double own, usual, calls, usual_calls; /* per step, ns */
} mtp__why;
mtp_status mtp__ranks_why(const mtp_ranks *r, uint32_t rank, uint32_t from, mtp__why *out);
mtp_status mtp__ranks_say(mtp_ranks *r);

static inline int64_t mtp__rank_true(const mtp_ranks *r, uint32_t rank, int64_t t)
{
    return mtp__clock_at(&r->clocks.line[rank], t);
}
#endif
