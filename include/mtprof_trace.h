/* mtprof_trace.h - after recording: traces, averages, tables, exports. Included by mtprof.h.
 *
 *     mtp_trace *trace;  mtp_averages *rows;
 *     mtp_profile_trace(prof, &trace);                 or mtp_trace_open("run.json.gz", NULL, &trace)
 *     mtp_averages_create(trace, NULL, &rows);
 *     mtp_averages_table(rows, NULL, mtp_sink_file, stdout);
 *     mtp_trace_export(trace, "out.json.gz", NULL);
 *     mtp_averages_destroy(rows);  mtp_trace_destroy(trace);
 *
 * A trace never changes: all of these may be called from any number of threads at once. Text that comes out of a
 * trace is bytes with a length; it ends in a NUL for convenience and may hold others.
 */
#ifndef MTPROF_TRACE_H
#define MTPROF_TRACE_H
#include <mtprof.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct mtp_trace mtp_trace;

/* Where output goes. Returns false to stop: the call then fails with MTP_E_IO. */
typedef bool mtp_sink(void *user, const void *bytes, size_t length);
MTP_API bool mtp_sink_file(void *file, const void *bytes, size_t length); /* user: a FILE * */

/* ------------------------------------------------------------------------------------------- traces */

/* What a profile holds now: all cycles with acc_events, else the last. May be called while it records. */
MTP_API mtp_status mtp_profile_trace(mtp_profile *prof, mtp_trace **out);

typedef struct mtp_open_options {
    size_t size; /* sizeof(mtp_open_options) */
    /* Told now and then how far reading is; NULL: nobody. */
    void (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total);
    void *user;
} mtp_open_options;
#define MTP_OPEN_OPTIONS_INIT {sizeof(mtp_open_options), NULL, NULL}

/* A spool, or Kineto/Chrome JSON, plain or gzip, told apart by their first bytes; "-" is standard input. A bad file:
 * MTP_E_FORMAT, and mtp_last_error() says at which byte. */
MTP_API mtp_status mtp_trace_open(const char *path, const mtp_open_options *options, mtp_trace **out);
MTP_API void mtp_trace_destroy(mtp_trace *trace); /* NULL is fine */

typedef struct mtp_trace_info {
    size_t size; /* sizeof(mtp_trace_info) */
    uint64_t spans, cpu_spans, device_spans, memory_events, instants, flows, tracks, steps;
    int64_t base_ns;           /* Unix time of ts 0 */
    int64_t first_ns, last_ns; /* of all events, relative to base_ns */
    uint64_t pid;              /* 0: unknown */
    uint64_t model_bytes;      /* memory that the trace takes */
    /* what was found wrong and mended: 0 for a sound trace */
    uint64_t unmatched_ends, unfinished, clock_faults, damaged_chunks;
    bool from_kineto, has_ledger;
    mtp_ledger ledger;
} mtp_trace_info;
#define MTP_TRACE_INFO_INIT                                                                                  \
    {                                                                                                        \
        sizeof(mtp_trace_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false,             \
            MTP_LEDGER_INIT                                                                                  \
    }
MTP_API mtp_status mtp_trace_get_info(const mtp_trace *trace, mtp_trace_info *out);

/* ------------------------------------------------------------------------------------------ averages */

typedef struct mtp_averages mtp_averages;

typedef struct mtp_averages_options {
    size_t size; /* sizeof(mtp_averages_options) */
    bool by_input_shape;
    bool by_overload_name;
    uint32_t by_stack; /* this many frames, innermost first; 0: not by stack */
    bool top_level_only; /* spans that have no parent */
} mtp_averages_options;
#define MTP_AVERAGES_OPTIONS_INIT {sizeof(mtp_averages_options), false, false, 0, false}

MTP_API mtp_status mtp_averages_create(const mtp_trace *trace, const mtp_averages_options *options,
                                       mtp_averages **out);
MTP_API void mtp_averages_destroy(mtp_averages *averages); /* NULL is fine */

/* One row. Times in microseconds as torch has them; text is borrowed from the averages. */
typedef struct mtp_row {
    const char *key, *overload_name, *input_shapes; /* input_shapes: "" unless by_input_shape */
    size_t key_length;
    const char *const *stack; /* by_stack: innermost first */
    uint32_t stack_depth;
    bool is_device;          /* device work, else CPU */
    bool is_user_annotation;
    bool is_async;
    uint64_t count;
    double cpu_time_total, self_cpu_time_total, device_time_total, self_device_time_total;
    double min, p50, p99, max; /* of one event's time: CPU time of CPU rows, device time of device rows */
    int64_t cpu_memory_usage, self_cpu_memory_usage, device_memory_usage, self_device_memory_usage;
    uint64_t flops;
} mtp_row;

MTP_API size_t mtp_averages_count(const mtp_averages *averages);
MTP_API const mtp_row *mtp_averages_row(const mtp_averages *averages, size_t index); /* NULL: no such row */
MTP_API void mtp_averages_total(const mtp_averages *averages, mtp_row *out);         /* key "Total" */
/* Sorts rows, largest first, by an attribute of torch's: cpu_time_total, self_cpu_time_total, cpu_time, count,
 * device_time_total, cuda_time_total, self_npu_memory_usage, flops ... Unknown: MTP_E_ARG, naming those known. */
MTP_API mtp_status mtp_averages_sort(mtp_averages *averages, const char *attribute);
/* Of the self CPU time of ops, the share (0 to 1) for which FLOPs are known. */
MTP_API double mtp_averages_flops_coverage(const mtp_averages *averages);

/* As torch's EventList.table(): to the character. */
typedef struct mtp_table_options {
    size_t size;              /* sizeof(mtp_table_options) */
    const char *sort_by;      /* NULL: as they are */
    int64_t row_limit;        /* -1: all */
    int64_t max_src_column_width, max_name_column_width, max_shapes_column_width; /* -1: no limit */
    const char *header;       /* NULL: none */
    bool top_level_events_only;
    const char *time_unit;    /* "us", "ms", "s"; NULL: by size */
    bool profile_memory, with_flops, with_stack; /* columns shown; _INIT: as the trace has them (see auto) */
    bool automatic;           /* true: the three above are taken from the trace */
    const char *device_name;  /* "CUDA", "NPU"; NULL: from the trace */
} mtp_table_options;
#define MTP_TABLE_OPTIONS_INIT                                                                               \
    {sizeof(mtp_table_options), NULL, 100, 75, 55, 80, NULL, false, NULL, false, false, false, true, NULL}
MTP_API mtp_status mtp_averages_table(const mtp_averages *averages, const mtp_table_options *options,
                                      mtp_sink *sink, void *user);
/* Rows with torch's attribute names: a JSON list, or CSV with a head line. */
MTP_API mtp_status mtp_averages_json(const mtp_averages *averages, mtp_sink *sink, void *user);
MTP_API mtp_status mtp_averages_csv(const mtp_averages *averages, mtp_sink *sink, void *user);
/* One Chrome event per row. */
MTP_API mtp_status mtp_averages_chrome(const mtp_averages *averages, mtp_sink *sink, void *user);

/* ------------------------------------------------------------------------------------------- exports */

typedef struct mtp_export_options {
    size_t size;            /* sizeof(mtp_export_options) */
    bool whole_microseconds; /* for readers that round badly (HTA); nesting is kept */
    bool without_args;      /* smaller, for speedscope */
    int compression;        /* of .gz: 1 to 9, 0: the default */
    const char *trace_name; /* "traceName"; NULL: the path */
    void (*progress)(void *user, uint64_t events_done, uint64_t events_total);
    void *user;
} mtp_export_options;
#define MTP_EXPORT_OPTIONS_INIT {sizeof(mtp_export_options), false, false, 0, NULL, NULL, NULL}

/* Kineto/Chrome JSON, at the contract of docs/trace-format.md. */
MTP_API mtp_status mtp_trace_chrome(const mtp_trace *trace, const mtp_export_options *options, mtp_sink *sink,
                                    void *user);
/* To a file, by its suffix: .json, .json.gz (Chrome), .stacks or .folded or .txt (stacks), "-": JSON on standard
 * output. The file appears whole or not at all; one that was there is kept on failure. */
MTP_API mtp_status mtp_trace_export(const mtp_trace *trace, const char *path, const mtp_export_options *options);

/* Folded stacks, root first: metric is one of self_cpu_time_total, self_device_time_total (also spelled self_cuda_,
 * self_npu_, self_xpu_, self_privateuse1_). Others: MTP_E_ARG "metric should be one of: [...]". */
MTP_API mtp_status mtp_trace_stacks(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user);

/* A file that appears whole or not at all, for the calls that write to a sink. gz: by the path's suffix. */
typedef struct mtp_file mtp_file;
MTP_API mtp_status mtp_file_create(const char *path, int compression, mtp_file **out);
MTP_API bool mtp_file_sink(void *file, const void *bytes, size_t length);
MTP_API mtp_status mtp_file_commit(mtp_file *file);  /* renames it into place, or says why not; frees it */
MTP_API void mtp_file_abandon(mtp_file *file);       /* nothing is left of it; NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
