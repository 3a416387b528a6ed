/* trace/job/job.h - the file that mtp_merge writes: a table of ranks and their clocks, then the ranks' files as they
 * were.
 *
 *     "mtprof job 1\n" and three zero bytes; the length of the head and its hash, 8 bytes each, little-endian
 *     the head: JSON, see docs/merge.md
 *     zeros up to a multiple of 4096; from here on parts are counted
 *     the parts, each from a multiple of 4096 on: a Kineto trace as it was, or a spool and those of its workers
 *
 * The head says what was decided when the file was made; reading the parts again (mtprof ranks) may decide anew.
 */
#ifndef MTP_TRACE_JOB_JOB_H
#define MTP_TRACE_JOB_JOB_H
#include <mtprof.h>
#include "trace/trace.h"

#define MTP__JOB_MAGIC "mtprof job 1\n\0\0" /* with its end 16 bytes */
#define MTP__JOB_ALIGN 4096u
#define MTP__JOB_HEAD_MAX ((uint64_t)256 << 20)

typedef struct mtp__job_part {
    mtp_text name;          /* escaped as in JSON */
    uint64_t offset, bytes; /* in the file */
    bool cut;               /* the file ends before it does */
} mtp__job_part;

typedef struct mtp__job_rank {
    mtp_text text; /* of the head: its object */
    int64_t rank, world_size;
    /* true time = t + offset + drift * (t - at) */
    int64_t at, offset, error; /* error: -1: unknown */
    double drift;
    uint32_t by; /* mtp_clock_by */
    uint32_t first, parts;
} mtp__job_rank;

typedef struct mtp__job {
    char *path, *head;    /* owned */
    mtp__job_rank *ranks; /* owned */
    mtp__job_part *parts; /* owned */
    uint32_t rank_count, part_count, rank_room, part_room;
} mtp__job;

bool mtp__job_recognise(const void *start, size_t bytes);
/* MTP_E_FORMAT: its head is damaged. Of a truncated file, ranks whose parts are whole can be read. */
mtp_status mtp__job_open(const char *path, mtp__job *out);
void mtp__job_close(mtp__job *job);
/* The first part of the rank that is not whole; NULL: all are. */
const mtp__job_part *mtp__job_cut(const mtp__job *job, const mtp__job_rank *rank);
/* The trace of a rank, by its place in the list; placed: its times are those of the reference's clock. */
mtp_status mtp__job_trace(const mtp__job *job, uint32_t index, const mtp_open_options *options, bool placed,
                          mtp_trace **out);
/* The one that the options choose. MTP_E_ARG: none, or it has several and none was chosen. */
mtp_status mtp__job_choose(const mtp__job *job, const mtp_open_options *options, uint32_t *index);

/* Moves all times of a trace that nobody else has seen. */
void mtp__trace_place(mtp_trace *t, int64_t at, int64_t offset, double drift);
#endif
