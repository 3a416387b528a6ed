/* mtprof_ranks.h - many ranks: one clock, who waits for whom, one file. Included by mtprof_analysis.h.
 *
 *     mtp_ranks *ranks;
 *     const char *path = "traces/";
 *     mtp_ranks_create(&path, 1, NULL, &ranks);
 *     mtp_ranks_text(ranks, NULL, mtp_sink_file, stdout);
 *     mtp_ranks_destroy(ranks);
 *
 * docs/merge.md says how clocks are found, what their error means, and what each time is.
 */
#ifndef MTPROF_RANKS_H
#define MTPROF_RANKS_H
#include <mtprof.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct mtp_ranks mtp_ranks;

typedef struct mtp_ranks_options {
    size_t size;         /* sizeof(mtp_ranks_options) */
    uint32_t threads;    /* files read at the same time; 0: one per processor, at most 8 */
    uint64_t max_memory; /* as in mtp_open_options, for each file */
    void (*progress)(void *user, uint64_t files_done, uint64_t files_total); /* or NULL */
    void *user;
} mtp_ranks_options;
#define MTP_RANKS_OPTIONS_INIT                                                                               \
    {                                                                                                        \
        sizeof(mtp_ranks_options), 0, 0, NULL, NULL                                                          \
    }

/* Reads the traces of a job's ranks: files, folders of them, or what mtp_merge wrote. A file that does not belong to
 * the others, or cannot be read, is listed with its problem; the rest is compared. MTP_E_FORMAT: none can be read. */
MTP_API mtp_status mtp_ranks_create(const char *const *paths, size_t count, const mtp_ranks_options *options,
                                    mtp_ranks **out);
MTP_API void mtp_ranks_destroy(mtp_ranks *ranks); /* NULL is fine */

/* How a clock was tied to the others'. X(symbol, value, text) */
#define MTP_CLOCK_BY_LIST(X)                                                                                 \
    X(REFERENCE, 0, "reference")                                                                             \
    X(SAME, 1, "same machine")         /* the same boot: the same clock */                                   \
    X(TIES, 2, "measured")             /* while recording: mtprof.clock_ties */                              \
    X(CALLS, 3, "communication calls") /* what the ranks did together */                                     \
    X(DAY, 4, "time of day")           /* nothing ties it: the error is unknown */
#define X(sym, value, text) MTP_CLOCK_BY_##sym = (value),
typedef enum mtp_clock_by {
    MTP_CLOCK_BY_LIST(X)
} mtp_clock_by;
#undef X
MTP_API const char *mtp_clock_by_text(mtp_clock_by by);

/* Nanoseconds. comm = exposed + what computation hides; exposed is about waiting + transfer. */
typedef struct mtp_rank_times {
    int64_t wall_ns;
    int64_t compute_ns;  /* kernels; without device work, ops outside communication */
    int64_t comm_ns;     /* at least one communication call runs */
    int64_t exposed_ns;  /* and nothing is computed */
    int64_t waiting_ns;  /* of exposed: before the last rank has entered */
    int64_t transfer_ns; /* of exposed: after that */
    int64_t copies_ns;   /* only copies and sets of a device run */
    int64_t idle_ns;     /* nothing runs */
    int64_t late_ns;     /* how much later than the median rank it enters calls */
} mtp_rank_times;

/* Texts are borrowed from the mtp_ranks. Rows are by rank; files that were left out come last. */
typedef struct mtp_rank_row {
    const char *file, *host, *job, *backend; /* "": unknown */
    const char *problem;                     /* "": compared with the others; else why not */
    int64_t rank, world_size, local_rank;    /* -1: unknown */
    uint64_t pid, spans, bytes;              /* bytes: of the file */
    int64_t first_ns, last_ns;               /* Unix time, by its own clock */
    /* true time = t + offset + drift * (t - at), t: Unix time by its own clock */
    int64_t clock_at_ns, clock_offset_ns;
    double clock_drift;
    int64_t clock_error_ns; /* proved; -1: unknown */
    mtp_clock_by clock_by;
    uint64_t calls, matched; /* communication calls; of them, found on other ranks */
    uint64_t last;           /* calls that it was the last to enter */
    uint32_t steps;
    bool has_device;      /* compute is device work */
    bool compute_assumed; /* no ops were recorded: compute is what is not communication */
    mtp_rank_times mean;  /* per step */
    /* Of the whole trace's device work, as HTA defines them; 0 without device work. */
    int64_t kernel_ns, kernel_compute_ns, kernel_other_ns, kernel_idle_ns;
    double overlap; /* of communication, computed meanwhile: 0 to 1; -1: no communication */
    bool
        only_started; /* of communication, only what the host enqueued is in the trace, not when it ran (NCCL's kernels) */
} mtp_rank_row;
MTP_API size_t mtp_ranks_count(const mtp_ranks *ranks);
MTP_API const mtp_rank_row *mtp_ranks_row(const mtp_ranks *ranks, size_t index); /* NULL: no such row */

typedef struct mtp_rank_step {
    int64_t number;           /* -1: the trace has no steps */
    int64_t start_ns, end_ns; /* Unix time by the reference's clock */
    mtp_rank_times times;
} mtp_rank_step;
MTP_API const mtp_rank_step *mtp_ranks_step(const mtp_ranks *ranks, size_t index, size_t step); /* or NULL */

/* What was noticed about the files and clocks, in sentences. NULL: no more. */
MTP_API const char *mtp_ranks_note(const mtp_ranks *ranks, size_t index);

typedef struct mtp_rank_finding {
    const char *id;           /* "straggler", "imbalance", "exposed-communication", ... */
    const char *title, *text; /* sentences */
    int64_t rank;             /* -1: none in particular */
    int64_t since_step;       /* its number; -1: from the beginning, or no step */
    int64_t per_step_ns;      /* what it costs */
    double share;             /* of a step */
    const char *op;           /* what took longer on that rank; "": unknown */
    int64_t op_ns;            /* per step, more than the median of the other ranks */
} mtp_rank_finding;
MTP_API size_t mtp_ranks_finding_count(const mtp_ranks *ranks);
MTP_API const mtp_rank_finding *mtp_ranks_finding(const mtp_ranks *ranks, size_t index);

/* Findings, notes and a table with a line per rank; and all of it, with each step, as JSON. */
MTP_API mtp_status mtp_ranks_text(const mtp_ranks *ranks, const mtp_words_options *options, mtp_sink *sink,
                                  void *user);
MTP_API mtp_status mtp_ranks_json(const mtp_ranks *ranks, mtp_sink *sink, void *user);

/* Writes the traces as one file, one at a time. The suffix chooses what:
 *     .mtp               an archive: a table of clocks, then the files as they are; mtp_trace_open reads it
 *     .json, .json.gz    Kineto/Chrome JSON on the reference's clock, one rank after the other
 *     .tar               the same, each rank in a file of its own, with a manifest for Perfetto
 * `ranks` must have been created from the same files, which are read again. */
MTP_API mtp_status mtp_merge(const mtp_ranks *ranks, const char *path, const mtp_export_options *options);

/* Calls `each` for the ranks in what mtp_merge wrote as .mtp, from its table alone, until it returns false. Only texts,
 * numbers and the clock of a row are known, and whether it is cut (problem); they are valid during the call.
 * MTP_E_FORMAT: it is no such file. */
MTP_API mtp_status mtp_job_ranks(const char *path, bool (*each)(void *user, const mtp_rank_row *row),
                                 void *user);
/* The ranks, ascending, of a recording that has those of several beside it (mtprof run -- torchrun ...), which
 * mtp_open_options.rank chooses from, until `each` returns false; none: it is of one rank, or of no job. */
MTP_API mtp_status mtp_recording_ranks(const char *path, bool (*each)(void *user, int64_t rank), void *user);

#ifdef __cplusplus
}
#endif
#endif
