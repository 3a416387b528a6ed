/* mtprof_digest.h - summaries of steps that add up: at most 4 KB for each rank and step. Included by mtprof.h.
 *
 *     mtp_digest *digest;
 *     mtp_digest_create(trace, NULL, &digest);             one entry per step
 *     mtp_digest_write(digest, 0, mtp_sink_file, file);    files can be concatenated
 *     mtp_digest_destroy(digest);
 *
 *     mtp_digest_sum(digests, count, MTP_DIGEST_BY_RANK, &ranks);    of other ranks and jobs: one entry per rank
 *
 * Counts, sums, minima and maxima are exact, however digests are added. Quantiles come from histograms whose
 * buckets are some percent wide: mtp_digest_quantile() tells how much.
 */
#ifndef MTPROF_DIGEST_H
#define MTPROF_DIGEST_H
#include <mtprof_analysis.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct mtp_digest mtp_digest;

typedef struct mtp_digest_options {
    size_t size;      /* sizeof(mtp_digest_options) */
    const char *job;  /* default NULL: as the trace says (distributedInfo), else "" */
    const char *host; /* default NULL: as the trace says (metadata "hostname"), else "" */
    int64_t rank;     /* default -1: as the trace says, else 0 */
} mtp_digest_options;
#define MTP_DIGEST_OPTIONS_INIT                                                                              \
    {                                                                                                        \
        sizeof(mtp_digest_options), NULL, NULL, -1                                                           \
    }

/* One entry per step (as in mtp_steps), and one for what was outside of all steps. */
MTP_API mtp_status mtp_digest_create(const mtp_trace *trace, const mtp_digest_options *options,
                                     mtp_digest **out);
MTP_API void mtp_digest_destroy(mtp_digest *digest); /* NULL is fine */

/* A file of mtp_digest_write(), or several of them, one after the other. What is damaged or cut off is left out:
 * mtp_digest_damaged(). Nothing readable: MTP_E_FORMAT. */
MTP_API mtp_status mtp_digest_read(const char *path, mtp_digest **out);
MTP_API uint64_t mtp_digest_damaged(const mtp_digest *digest); /* blocks that could not be read */
/* max_bytes: of one entry; default 0: 4096. Of an entry that is larger, quantiles become coarser, then the ops with the
 * least time of their own become "(others)". */
MTP_API mtp_status mtp_digest_write(const mtp_digest *digest, uint64_t max_bytes, mtp_sink *sink, void *user);

/* All entries of the digests; those that are equal in what `by` names are summed. Without MTP_DIGEST_BY_STEP, what was
 * outside of steps is summed with the steps. */
enum {
    MTP_DIGEST_BY_JOB = 1,
    MTP_DIGEST_BY_RANK = 2,
    MTP_DIGEST_BY_STEP = 4,
    MTP_DIGEST_BY_HOST = 8,
    MTP_DIGEST_BY_ALL = 15
};
MTP_API mtp_status mtp_digest_sum(const mtp_digest *const *digests, size_t count, uint32_t by,
                                  mtp_digest **out);

#define MTP_DIGEST_ALL INT64_MIN       /* rank or step of an entry that sums several */
#define MTP_DIGEST_OUTSIDE INT64_C(-1) /* step: outside of all steps; of a trace without steps, all of it */

/* Sums over the entry's steps. By job, rank, step, host. Texts are borrowed from the digest. */
typedef struct mtp_digest_entry {
    const char *job, *host; /* "": unknown, or several */
    int64_t rank, step;
    uint64_t
        steps; /* that were summed; 0: only what was outside of steps. A trace without any counts as one */
    int64_t start_ns; /* the earliest start, Unix time */
    int64_t wall_ns;  /* as in mtp_step_times; 0 outside of steps */
    int64_t cpu_ns, device_ns, idle_ns, both_ns;
    uint64_t calls;                  /* of all ops */
    int64_t self_ns, self_device_ns; /* of CPU rows, of device rows */
    uint64_t op_count;
} mtp_digest_entry;
MTP_API size_t mtp_digest_count(const mtp_digest *digest);
MTP_API const mtp_digest_entry *mtp_digest_entry_at(const mtp_digest *digest,
                                                    size_t index); /* NULL: no such one */

/* A row of the averages (mtp_row), for one entry: the same names, counts and times. Most time of its own first. */
typedef struct mtp_digest_op {
    mtp_text name;
    bool is_device; /* device work, else CPU */
    uint64_t calls;
    int64_t total_ns;       /* of all calls, with what they called */
    int64_t self_ns;        /* without */
    int64_t device_ns;      /* of a CPU row: the device work that it launched itself */
    int64_t min_ns, max_ns; /* of one call */
    uint64_t names; /* 1; of "(others)", which comes last: at least how many rows were summed to fit */
} mtp_digest_op;
MTP_API const mtp_digest_op *mtp_digest_op_at(const mtp_digest *digest, size_t entry,
                                              size_t op); /* NULL: no such one */
/* The time of one call with a share of `quantile` (0 to 1) of the calls at or below it. *error, unless NULL: how far the
 * true one may be from it, as a share: 0.03 is three percent. -1: no such row, or it is "(others)", which has no
 * histogram. */
MTP_API int64_t mtp_digest_quantile(const mtp_digest *digest, size_t entry, size_t op, double quantile,
                                    double *error);

/* What stands out among many: the steps that took far longer than most of the same job, and in which ops. Then all
 * ops, summed. Of rows, the first `limit` (-1: all). */
MTP_API mtp_status mtp_digest_text(const mtp_digest *digest, int64_t limit, mtp_sink *sink, void *user);
MTP_API mtp_status mtp_digest_json(const mtp_digest *digest, int64_t limit, mtp_sink *sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
