/* trace/join/join.h - several recordings of one machine become one trace, with a process per row. Private to
 * trace/.
 *
 *     files.c    which files belong together
 *     clocks.c   one timeline for all
 *     join.c     reads each into the same trace
 *
 * Every process keeps its pid, threads and device streams; names, shapes and stacks are interned in common
 * tables; correlation ids and tensor numbers are shifted, so that they stay apart. Memory blocks are told apart
 * by the process of their track. Steps and metadata are those of the main process: the file that was named, or
 * in a folder, the first process that none of the others started. Recordings of several ranks (mtprof run -- torchrun ...) have
 * no rank as a whole.
 */
#ifndef MTP_TRACE_JOIN_JOIN_H
#define MTP_TRACE_JOIN_JOIN_H
#include "trace/join/files.h"
#include "trace/records/dictionary.h"

typedef struct mtp__part {
    const char *path;               /* borrowed */
    uint32_t problem;               /* text: why it cannot be read; 0: it can */
    uint64_t pid, parent;           /* 0: unknown */
    int64_t rank;                   /* -1: of no job, or unknown */
    uint32_t command;               /* text; 0: unknown */
    uint64_t boot[2], clock, bytes; /* see mtp__dictionary; size of the file */
    double ticks_per_ns;
    mtp__tick_line line; /* owned: its anchors */
    mtp__anchor start;   /* its first */
    bool in_line;        /* the common line holds for it */
    bool by_wall_clock;  /* of another boot */
    int64_t zero_ns;     /* its CLOCK_MONOTONIC at ts 0 */
} mtp__part;

/* Decides which of the parts, of which the first readable one is the main process, share its clock, and where
 * the others are placed; makes the line of those that do. false: out of memory. */
bool mtp__join_clocks(mtp__part *part, uint32_t count, uint32_t first, mtp__tick_line *line);

/* The ranks that the recordings are of, ascending: owned by the caller, and NULL if they are of fewer than two. */
mtp_status mtp__join_ranks(const mtp__files *files, int64_t **ranks, uint32_t *count);
/* Those of one rank, its main process first. */
mtp_status mtp__join_files_of_rank(const mtp__files *files, int64_t rank, mtp__files *out);

/* Opens the files as one trace. Recordings that cannot be read are listed in it. If none can, fails as the
 * first one does. MTP_E_ARG: none is of options->process. */
mtp_status mtp__join_open(const mtp__files *files, const mtp_open_options *options, mtp_trace **out);
#endif
