/* mtprof_trace.h - after recording: reading, checking, cutting and exporting traces. Included by mtprof.h.
 *
 *     mtp_trace *trace;
 *     mtp_profile_trace(prof, &trace);                 or mtp_trace_open("run.json.gz", NULL, &trace)
 *     mtp_trace_export(trace, "out.json.gz", NULL);
 *     mtp_trace_destroy(trace);
 *
 * mtprof_analysis.h computes averages and the like from a trace.
 *
 * A trace is immutable: all of these may be called from any number of threads at once. Text from a trace is
 * bytes with a length; it is NUL-terminated for convenience and may contain other NULs.
 */
#ifndef MTPROF_TRACE_H
#define MTPROF_TRACE_H
#include <mtprof.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct mtp_trace mtp_trace;

/* Receives output. Returns false to stop: the call then fails with MTP_E_IO. */
typedef bool mtp_sink(void *user, const void *bytes, size_t length);
MTP_API bool mtp_sink_file(void *file, const void *bytes, size_t length); /* user: a FILE * */

/* ------------------------------------------------------------------------------------------- traces */

/* What a profile holds now: all cycles with acc_events, else the last. May be called while it records. */
MTP_API mtp_status mtp_profile_trace(mtp_profile *prof, mtp_trace **out);

typedef struct mtp_open_options {
    size_t size; /* sizeof(mtp_open_options) */
    /* Progress callback; NULL: none. */
    void (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total);
    void *user;
    /* The most memory that the call may take, in bytes; beyond it the call fails with MTP_E_NOMEM.
     * UINT64_MAX: no limit. 0: this thread's mtp_memory_limit(), if set; else MTPROF_MAX_MEMORY ("2G",
     * "500M", "none"); else three quarters of the memory available to the machine or container, but at most
     * 64 times the file's size (256 MiB if that is more); in that last case a compressed file that expands
     * more than 200 times is refused with MTP_E_UNSUPPORTED. */
    uint64_t max_memory;
    bool alone;       /* a spool without the recordings beside it */
    bool count_only;  /* count the events, do not keep them: for mtp_trace_get_info and mtp_trace_recording.
                        10^8 records take a few MB, except device work; model_bytes is then an estimate */
    uint64_t process; /* only the recording of this pid, or MTP_PROCESS_MAIN; 0: all. Not of JSON, which
                         mtp_trace_cut can reduce to a process */
    bool
        by_rank; /* only this rank: of what mtp_merge wrote, on the job's clock, needed if it has several; of a recording
                     with those of several ranks beside it. MTP_E_ARG: the trace is of another */
    int64_t rank;
} mtp_open_options;
#define MTP_PROCESS_MAIN UINT64_MAX
#define MTP_OPEN_OPTIONS_INIT                                                                                \
    {                                                                                                        \
        sizeof(mtp_open_options), NULL, NULL, 0, false, false, 0, false, 0                                   \
    }

/* Sets the most memory that all calls of this thread together may hold from now on: "2G", "500M", "none";
 * NULL: the default of max_memory. For programs that only read and analyse traces. Not a size: MTP_E_ARG. */
MTP_API mtp_status mtp_memory_limit(const char *size);

/* Opens a spool, Kineto/Chrome JSON, or an execution trace (.et.json); plain, gzip or zstd, recognised by
 * content. "-" is standard input. A bad file: MTP_E_FORMAT, and mtp_last_error() says at which byte.
 *
 * A spool with others in a folder PATH.workers/ beside it (recorded by the processes that its process started),
 * and a folder of spools, become one trace with a process per row, all on one clock. mtp_trace_recording tells
 * them apart, and names those that could not be read. Steps and metadata are those of the main process: the
 * spool that was named; in a folder the first process that none of the others started. */
MTP_API mtp_status mtp_trace_open(const char *path, const mtp_open_options *options, mtp_trace **out);
MTP_API void mtp_trace_destroy(mtp_trace *trace); /* NULL is fine */

/* What became of the recording that a spool holds. X(symbol, value, text). Values are ABI: append. */
#define MTP_OUTCOME_LIST(X)                                                                                  \
    X(STOPPED, 0, "stopped")         /* also for traces not read from a spool */                             \
    X(RECOVERED, 1, "recovered")     /* its process ended without stopping it */                             \
    X(LIVE, 2, "live")               /* its process is still recording */                                    \
    X(NOT_STOPPED, 3, "not stopped") /* one of these two: the file system has no locks to tell which */
#define X(sym, value, text) MTP_OUTCOME_##sym = (value),
typedef enum mtp_outcome {
    MTP_OUTCOME_LIST(X)
} mtp_outcome;
#undef X
MTP_API const char *mtp_outcome_text(mtp_outcome outcome);

/* What a trace was read from. X(symbol, value, text) */
#define MTP_FORMAT_LIST(X)                                                                                   \
    X(RECORDING, 0, "mtprof spool") /* one of our recordings: a spool, or this process */                    \
    X(KINETO, 1, "Kineto/Chrome JSON")                                                                       \
    X(EXECUTION, 2, "execution trace") /* JSON without times */
#define X(sym, value, text) MTP_FORMAT_##sym = (value),
typedef enum mtp_format {
    MTP_FORMAT_LIST(X)
} mtp_format;
#undef X
MTP_API const char *mtp_format_text(mtp_format format);
/* The files that can be read, for messages. */
#define MTP_READABLE "mtprof spools (.mtp); Kineto, Chrome and execution traces (.json, .json.gz, .json.zst)"

typedef struct mtp_trace_info {
    size_t size; /* sizeof(mtp_trace_info) */
    uint64_t spans, cpu_spans, device_spans, memory_events, instants, flows, tracks, steps;
    int64_t base_ns;           /* Unix time of ts 0 */
    int64_t first_ns, last_ns; /* of all events, relative to base_ns */
    uint64_t pid;              /* 0: unknown */
    uint64_t model_bytes;      /* memory that the trace takes */
    /* faults found and repaired: 0 for a sound trace */
    uint64_t unmatched_ends, unfinished, clock_faults, damaged_chunks;
    mtp_format format;
    bool has_ledger;
    mtp_ledger ledger;       /* of the recording; a JSON file written by mtprof has it too */
    uint64_t skipped_events; /* of a JSON file: no time, or an unknown kind; left out */
    uint64_t bad_durations;  /* of a JSON file: not a number, or negative; taken as 0 */
    uint64_t missing_chunks; /* of a spool: truncated; chunks missing at its end */
    mtp_outcome outcome;
    bool without_times; /* an execution trace: times only express order and nesting */
    /* The system's clocks stopped or contradicted each other while recording: times may be off by 1%. */
    bool clock_uncertain;
    bool damaged_header; /* of a spool: one of the two copies of its header; the other one was used */
    uint64_t chunks; /* of a spool: in the file; damaged_chunks of them are unreadable, at least in part */
} mtp_trace_info;
#define MTP_TRACE_INFO_INIT                                                                                  \
    {                                                                                                        \
        sizeof(mtp_trace_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, MTP_FORMAT_RECORDING,     \
            false, MTP_LEDGER_INIT, 0, 0, 0, MTP_OUTCOME_STOPPED, false, false, false, 0                     \
    }
MTP_API mtp_status mtp_trace_get_info(const mtp_trace *trace, mtp_trace_info *out);
/* The same for a file: opens it with count_only. */
MTP_API mtp_status mtp_trace_file_info(const char *path, const mtp_open_options *options,
                                       mtp_trace_info *out);

/* One of the recordings in a trace: each is a file of one process. */
typedef struct mtp_recording_info {
    size_t size;          /* sizeof(mtp_recording_info) */
    const char *file;     /* texts are borrowed from the trace */
    const char *command;  /* its process's command line, shortened; "": unknown */
    const char *problem;  /* "": it was read; else why not: only `file` is then valid */
    uint64_t pid, parent; /* 0: unknown */
    bool by_wall_clock;   /* of another boot or machine than the first: only as exact as their time of day */
    mtp_trace_info info;  /* of this recording; model_bytes only with count_only */
} mtp_recording_info;
#define MTP_RECORDING_INFO_INIT                                                                              \
    {                                                                                                        \
        sizeof(mtp_recording_info), "", "", "", 0, 0, false, MTP_TRACE_INFO_INIT                             \
    }
MTP_API size_t mtp_trace_recording_count(const mtp_trace *trace); /* 0: not a recording, but JSON */
MTP_API mtp_status mtp_trace_recording(const mtp_trace *trace, size_t index, mtp_recording_info *out);
/* Calls `each` for every file that opening the path reads, until it returns false. */
MTP_API mtp_status mtp_trace_files(const char *path, bool (*each)(void *user, const char *file), void *user);

/* What mtp_recover() found. */
typedef struct mtp_recovered {
    size_t size;             /* sizeof(mtp_recovered) */
    uint64_t records;        /* written */
    uint64_t lost_records;   /* as far as the recording's own counts show */
    uint64_t chunks;         /* in the source */
    uint64_t damaged_chunks; /* of those: unreadable, at least in part */
    uint64_t missing_chunks; /* truncated at its end */
    bool was_stopped;        /* false: the process ended without stopping the recording */
} mtp_recovered;
#define MTP_RECOVERED_INIT                                                                                   \
    {                                                                                                        \
        sizeof(mtp_recovered), 0, 0, 0, 0, 0, false                                                          \
    }

/* Writes a complete spool to `to` with everything readable in the spool `path`: of a killed process,
 * truncated or damaged. Recovering a recovered spool gives the same bytes. `path` is only read; `to` must be
 * a different file, and appears complete or not at all. A spool still being recorded: MTP_E_STATE. `out` may
 * be NULL. */
MTP_API mtp_status mtp_recover(const char *path, const char *to, mtp_recovered *out);

/* ------------------------------------------------------------------------------------------- columns */

/* The trace's own arrays, for NumPy and the like: not copied, read-only, valid as long as the trace. A column
 * is `count` numbers, `stride` bytes apart; some are fields in arrays of structs.
 *     spans    start end (int64, ns since base_ns) name (a text id) parent (a span, UINT32_MAX: none)
 *              category flags detail (a row of details; absent if no span has any)
 *     details  sequence forward_thread correlation external_id flops allocated_before allocated_after bytes
 *              queued shape outputs stack args number device; row 0: spans without details
 *     tracks   pid tid name on_device first count: spans are stored by track, `count` of them from `first`
 *     memory   time address bytes total_allocated total_reserved track device_type device_index
 *     steps    start end number
 *     instants time value name track is_counter
 *     shapes   dims strides types concrete (text ids: JSON); row 0: spans without a shape
 *     stacks   parent (a row, 0: none) frame (a text id)
 * With device work, spans also have launcher, the CPU span that launched it. category:
 * mtp_category_text(). */
typedef struct mtp_column {
    const char *table, *name; /* static */
    char type;                /* i, u or f: with bytes NumPy's "i8", "u4", ... */
    uint8_t bytes;
    const void *data; /* borrowed from the trace; NULL if count is 0 */
    size_t count, stride;
} mtp_column;
#define MTP_COLUMNS_MAX 96
typedef struct mtp_columns {
    size_t size; /* sizeof(mtp_columns): set by the caller */
    size_t count;
    mtp_column column[MTP_COLUMNS_MAX];
} mtp_columns;
MTP_API mtp_status mtp_trace_columns(const mtp_trace *trace, mtp_columns *out);
/* A text id's bytes, borrowed from the trace; "" for 0 and for unknown ids. length may be NULL. */
MTP_API const char *mtp_trace_name(const mtp_trace *trace, uint32_t id, size_t *length);
MTP_API size_t mtp_trace_name_count(const mtp_trace *trace); /* ids are 0 to count - 1 */
MTP_API const char *mtp_category_text(uint32_t category);    /* Kineto's; "" for others */

/* ------------------------------------------------------------------------------------------- exports */

typedef struct mtp_export_options {
    size_t size;             /* sizeof(mtp_export_options) */
    bool whole_microseconds; /* for readers that round badly (HTA); preserves nesting */
    bool without_args;       /* smaller, for speedscope */
    int compression;         /* of .gz: 1 to 9, 0: the default */
    const char *trace_name;  /* "traceName"; NULL: the path */
    void (*progress)(void *user, uint64_t events_done, uint64_t events_total); /* or NULL */
    void *user;
    bool without_concrete_inputs;  /* omit the values of arguments that are not tensors */
    bool without_forward_backward; /* omit a recording's arrows from ops to their backward ops */
} mtp_export_options;
#define MTP_EXPORT_OPTIONS_INIT                                                                              \
    {                                                                                                        \
        sizeof(mtp_export_options), false, false, 0, NULL, NULL, NULL, false, false                          \
    }

/* Kineto/Chrome JSON, as specified in docs/trace-format.md. */
MTP_API mtp_status mtp_trace_chrome(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                                    void *user);
/* The formats of mtp_trace_export. X(writer, suffix, what it is), in the order of 'mtprof export --help'. */
#define MTP_EXPORT_LIST(X)                                                                                   \
    X(chrome, ".json", "for Perfetto, chrome://tracing, HTA, TensorBoard; also '-', standard output")        \
    X(execution, ".et.json", "PyTorch's execution trace, for Chakra tools")                                  \
    X(folded, ".folded", "folded stacks by self CPU time, for flame graphs (see 'mtprof stacks')")           \
    X(folded, ".stacks", "the same")                                                                         \
    X(folded, ".txt", "the same")                                                                            \
    X(memory, ".memory.json", "torch's memory timeline (see 'mtprof memory')")                               \
    X(memory_raw, ".memory.raw.json", "the events of that timeline")                                         \
    X(csv, ".csv", "averages, one per line (see 'mtprof stats')")                                            \
    X(averages, ".averages.json", "averages as Chrome events")                                               \
    X(report, ".html", "a page for any browser (see 'mtprof report')")                                       \
    X(memory_report, ".memory.html", "its page of memory alone")
/* Writes a file in the format given by its suffix, one of the list; a further .gz compresses. "-" (standard
 * output) and devices get .json. The formats are those of mtp_trace_chrome, mtp_trace_execution_trace,
 * mtp_trace_folded, mtp_memory_timeline_json and _raw, mtp_averages_csv and _chrome, mtp_report_write.
 * The file appears complete or not at all; on failure an existing file is left as it was. */
MTP_API mtp_status mtp_trace_export(const mtp_trace *trace, const char *path,
                                    const mtp_export_options *options);

/* Columns for data lakes: each table of a trace as a Parquet file, FOLDER/TABLE/job=JOB/rank=RANK/TABLE.parquet, which
 * DuckDB, Spark, Dask, pandas and Polars read over thousands of ranks; docs/fleet.md has the tables. All files appear, or
 * none. A job's rank that is in the folder already is left as it is: MTP_E_STATE. */
typedef struct mtp_parquet_options {
    size_t size; /* sizeof(mtp_parquet_options) */
    const char
        *job; /* NULL: the metadata's "job", else the launcher's (distributedInfo); of one of several ranks
                        the name of the file's folder; else the file's name without its suffixes; of a profile
                        of this process "trace" */
    int64_t rank; /* default -1: of the metadata's distributedInfo, else in the file's name, else 0 */
} mtp_parquet_options;
#define MTP_PARQUET_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(mtp_parquet_options), NULL, -1                                                                \
    }
MTP_API mtp_status mtp_export_parquet(const mtp_trace *trace, const char *folder,
                                      const mtp_parquet_options *options);

/* Folded stacks as torch's export_stacks writes them, not merged: a line for each of mtp_events with a stack
 * and self time, in their order, root first. Events without a stack get the Python functions around them.
 * metric is self_cpu_time_total or self_device_time_total (also spelled self_cuda_, self_npu_, self_xpu_,
 * self_privateuse1_). Others: MTP_E_ARG "metric should be one of: [...]". */
MTP_API mtp_status mtp_trace_stacks(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user);
/* Folded stacks as `mtprof stacks` and mtp_trace_export write them, merged: one line per stack, the longest
 * time first, with the ops and annotations (not steps) open in it; for device time the kernel comes last. Flame
 * graph tools read both forms, but only this one shows the ops. Empty if the trace has no stacks. */
MTP_API mtp_status mtp_trace_folded(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user);

/* An output file that appears complete or not at all, for the calls that write to a sink. Compressed if the
 * path ends in .gz. The user's own symbolic link is followed; one made by another user, or in a
 * world-writable directory, is refused: MTP_E_IO. */
typedef struct mtp_file mtp_file;
#define MTP_FILE_PLAIN (-1) /* compression: none, whatever the suffix */
MTP_API mtp_status mtp_file_create(const char *path, int compression, mtp_file **out);
MTP_API bool mtp_file_sink(void *file, const void *bytes, size_t length);
MTP_API mtp_status mtp_file_commit(mtp_file *file); /* renames it into place; frees it, also on failure */
MTP_API void mtp_file_abandon(mtp_file *file);      /* removes and frees it; NULL is fine */

/* ----------------------------------------------------------------------------------------------- cut */

/* Which part to keep: events that meet all conditions. */
typedef struct mtp_cut_options {
    size_t size;                   /* sizeof(mtp_cut_options) */
    bool by_step, by_time;         /* which of the two ranges apply */
    int64_t first_step, last_step; /* inclusive */
    int64_t from_ns, to_ns;        /* since the trace's first event; to_ns is exclusive */
    /* Spans of this name, and all nested in them; NULL: all. With * or ? the whole name, else a part of
     * it. */
    const char *name;
    const char *thread; /* a thread's number, or its name, matched as above; NULL: all */
    uint64_t process;   /* a pid; 0: all */
} mtp_cut_options;
#define MTP_CUT_OPTIONS_INIT                                                                                 \
    {                                                                                                        \
        sizeof(mtp_cut_options), false, false, 0, 0, 0, 0, NULL, NULL, 0                                     \
    }

/* A part of a trace as a new trace; times are unchanged. Spans that extend beyond the requested steps or time
 * are cut off there, with their full duration in args ("whole dur"). Device work stays with the span that
 * launched it. MTP_E_ARG: no such step, name, thread or process, or nothing is left. */
MTP_API mtp_status mtp_trace_cut(const mtp_trace *trace, const mtp_cut_options *options, mtp_trace **out);

/* --------------------------------------------------------------------------------------------- check */

typedef enum mtp_severity {
    MTP_SEVERITY_NOTE = 0,  /* a reader may be less exact */
    MTP_SEVERITY_ERROR = 1, /* a reader fails, or drops or misreads events */
    MTP_SEVERITY_REMARK = 2 /* good to know; breaks no rule */
} mtp_severity;

typedef struct mtp_finding {
    uint32_t rule; /* number in docs/trace-format.md; 0: a spool's rule, which has no number */
    mtp_severity severity;
    uint64_t count;       /* how often */
    uint64_t first_byte;  /* offset in the decompressed content */
    uint64_t first_event; /* index in traceEvents; UINT64_MAX: not in an event */
    const char *what;     /* borrowed from the check; includes an example */
    const char *effect;   /* borrowed: what it does to which reader */
} mtp_finding;

/* Does a file follow the rules that its readers depend on? Checks the raw file, not a parsed trace: Kineto or
 * Chrome JSON, plain or compressed, or a spool. Broken rules are findings, not failures. Fails with MTP_E_IO,
 * MTP_E_NOMEM, MTP_E_FORMAT (empty, or cannot be decompressed). */
typedef struct mtp_check mtp_check;
MTP_API mtp_status mtp_trace_check_file(const char *path, const mtp_open_options *options, mtp_check **out);
MTP_API void mtp_check_destroy(mtp_check *check); /* NULL is fine */
MTP_API size_t mtp_check_count(const mtp_check *check);
MTP_API size_t mtp_check_breaches(const mtp_check *check); /* without remarks; 0: the file is clean */
/* By rule; NULL: no more. */
MTP_API const mtp_finding *mtp_check_finding(const mtp_check *check, size_t index);
/* A spool whose process ended without stopping the recording. That alone is not a breach. */
MTP_API bool mtp_check_recovered(const mtp_check *check);
MTP_API uint64_t mtp_check_events(const mtp_check *check); /* events, or records of a spool, checked */
MTP_API mtp_status mtp_check_json(const mtp_check *check, mtp_sink *sink, void *user);

/* ----------------------------------------------------------------------------------- execution trace */

/* PyTorch's execution trace (Chakra schema 1.1.1-chakra.0.0.4): a node for each op and annotation. rf_id is
 * the trace's "Record function id". A trace does not identify tensors: each argument gets a new id. */
MTP_API mtp_status mtp_trace_execution_trace(const mtp_trace *trace, mtp_sink *sink, void *user);

#ifdef __cplusplus
}
#endif

#include <mtprof_analysis.h>
#endif
