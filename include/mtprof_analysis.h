/* mtprof_analysis.h - what a trace says: averages, events, diff, memory, tree, steps, findings. Included by mtprof.h.
 *
 *     mtp_averages *rows;
 *     mtp_averages_create(trace, NULL, &rows);
 *     mtp_averages_table(rows, NULL, mtp_sink_file, stdout);
 *     mtp_averages_destroy(rows);
 *
 * Each result is computed from a trace (mtprof_trace.h), which must outlive it.
 */
#ifndef MTPROF_ANALYSIS_H
#define MTPROF_ANALYSIS_H
#include <mtprof_trace.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------ averages */

typedef struct mtp_averages mtp_averages;

typedef struct mtp_averages_options {
    size_t size; /* sizeof(mtp_averages_options) */
    bool by_input_shape;
    bool by_overload_name;
    uint32_t by_stack;   /* this many frames, innermost first; 0: not by stack */
    bool top_level_only; /* spans without a parent */
    /* Also rows for Python functions (with_stack). PyTorch omits them since 2.15, and so does mtprof by
     * default; either way calls nest in them. */
    bool include_python_functions;
    /* For traces written by PyTorch: device time by PyTorch's own join, which counts work twice where its
     * profiler's overhead falls inside an op, and loses work launched outside ops (such as CUDA graphs).
     * Otherwise work belongs to the op around its launch or, outside any op, to the launching call. */
    bool as_torch;
    /* by_stack: events without a stack get the Python functions around them. PyTorch writes stacks only for
     * verbose profiles, otherwise just the functions; its own averages then have no stacks. */
    bool python_stacks;
} mtp_averages_options;
#define MTP_AVERAGES_OPTIONS_INIT                                                                            \
    {                                                                                                        \
        sizeof(mtp_averages_options), false, false, 0, false, false, false, false                            \
    }

MTP_API mtp_status mtp_averages_create(const mtp_trace *trace, const mtp_averages_options *options,
                                       mtp_averages **out);
MTP_API void mtp_averages_destroy(mtp_averages *averages); /* NULL is fine */

/* One row. Times in microseconds, as in torch; text is borrowed from the averages. */
typedef struct mtp_row {
    const char *key, *overload_name, *input_shapes; /* input_shapes: "" unless by_input_shape */
    size_t key_length;
    const char *const *stack; /* by_stack: innermost first */
    uint32_t stack_depth;
    bool is_device; /* device work, else CPU */
    bool is_user_annotation;
    bool is_async;
    uint64_t count;
    double cpu_time_total, self_cpu_time_total, device_time_total, self_device_time_total;
    double min, p50, p99, max; /* time of one event: CPU time for CPU rows, device time for device rows */
    int64_t cpu_memory_usage, self_cpu_memory_usage, device_memory_usage, self_device_memory_usage;
    uint64_t flops;
} mtp_row;

MTP_API size_t mtp_averages_count(const mtp_averages *averages);
MTP_API const mtp_row *mtp_averages_row(const mtp_averages *averages, size_t index); /* NULL: no such row */
MTP_API const mtp_row *mtp_averages_total(const mtp_averages *averages);             /* key "Total" */
/* Python functions without a row because options.include_python_functions was not set. */
MTP_API size_t mtp_averages_left_out(const mtp_averages *averages);
/* Sorts rows, largest first, by a torch attribute: cpu_time_total, self_cpu_time_total, cpu_time, count,
 * device_time_total, cuda_time_total, self_npu_memory_usage, flops ... Unknown: MTP_E_ARG. */
MTP_API mtp_status mtp_averages_sort(mtp_averages *averages, const char *attribute);
/* The fraction (0 to 1) of the ops' self CPU time for which FLOPs are known. */
MTP_API double mtp_averages_flops_coverage(const mtp_averages *averages);

/* Matches torch's EventList.table() character for character. */
typedef struct mtp_table_options {
    size_t size;         /* sizeof(mtp_table_options) */
    const char *sort_by; /* NULL: do not sort */
    int64_t row_limit;   /* -1: all */
    int64_t max_src_column_width, max_name_column_width, max_shapes_column_width; /* -1: no limit */
    const char *header;                                                           /* NULL: none */
    bool top_level_events_only;
    const char *time_unit;                       /* "us", "ms", "s"; NULL: by size */
    bool profile_memory, with_flops, with_stack; /* columns to show, unless automatic */
    bool automatic;                              /* the default: show the columns that the trace has */
    const char *device_name;                     /* "CUDA", "NPU"; NULL: from the trace */
    int64_t max_line_width;                      /* columns that do not fit are left out; -1: no limit */
} mtp_table_options;
#define MTP_TABLE_OPTIONS_INIT                                                                               \
    {                                                                                                        \
        sizeof(mtp_table_options), NULL, 100, 75, 55, 80, NULL, false, NULL, false, false, false, true,      \
            NULL, -1                                                                                         \
    }
MTP_API mtp_status mtp_averages_table(const mtp_averages *averages, const mtp_table_options *options,
                                      mtp_sink *sink, void *user);
/* How many rows the three functions below write, from the first; default -1: all. (Tables have row_limit.) */
MTP_API void mtp_averages_limit(mtp_averages *averages, int64_t rows);
/* Rows with torch's attribute names: a JSON list, or CSV with a header line. */
MTP_API mtp_status mtp_averages_json(const mtp_averages *averages, mtp_sink *sink, void *user);
MTP_API mtp_status mtp_averages_csv(const mtp_averages *averages, mtp_sink *sink, void *user);
/* One Chrome event per row. */
MTP_API mtp_status mtp_averages_chrome(const mtp_averages *averages, mtp_sink *sink, void *user);

/* -------------------------------------------------------------------------------------------- events */

/* The events of a trace one by one, as in torch's prof.events(): the same events, in the same order (by
 * start, outer before inner), by the same rules (a parent absorbs an only child of the same name; self
 * excludes the children).
 *
 *     mtp_events *events;  size_t count;  mtp_event e;  e.size = sizeof e;
 *     mtp_events_create(trace, &events);               costs nothing, whatever the trace's size
 *     mtp_events_count(events, &count);                the first call visits all spans, once
 *     for (size_t i = 0; i < count; i++)
 *         mtp_events_get(events, i, &e);               then tens of nanoseconds each, in any order
 *     mtp_events_destroy(events);                      before the trace
 *
 * Averages are sums of exactly these times and sizes. Texts are borrowed from the events. May be used from
 * any number of threads at once. A call that runs out of memory (MTP_E_NOMEM) may be repeated. */
typedef struct mtp_events mtp_events;
#define MTP_NO_EVENT SIZE_MAX

typedef struct mtp_text {
    const char *bytes; /* never NULL; a NUL follows them */
    size_t length;
} mtp_text;

/* X(symbol, value, text). Values are ABI: append. */
#define MTP_EVENT_KIND_LIST(X)                                                                               \
    X(OP, 0, "op")                                                                                           \
    X(SCOPE, 1, "scope")                                                                                     \
    X(BACKWARD, 2, "backward")                                                                               \
    X(STEP, 3, "step")                                                                                       \
    X(RUNTIME, 4, "runtime")                                                                                 \
    X(PYTHON, 5, "python")                                                                                   \
    X(MODULE, 6, "module")                                                                                   \
    X(OVERHEAD, 7, "overhead")                                                                               \
    X(KERNEL, 8, "kernel")                                                                                   \
    X(MEMCPY, 9, "memcpy")                                                                                   \
    X(MEMSET, 10, "memset")                                                                                  \
    X(SYNC, 11, "sync")                                                                                      \
    X(DEVICE_SCOPE, 12, "device_scope") /* an annotation, on the device's timeline */                        \
    X(MEMORY, 13, "memory")             /* "[memory]": allocations outside all other events */               \
    X(OUT_OF_MEMORY, 14, "out_of_memory")                                                                    \
    X(OTHER, 15, "other")
#define X(sym, value, text) MTP_EVENT_##sym = (value),
typedef enum mtp_event_kind {
    MTP_EVENT_KIND_LIST(X)
} mtp_event_kind;
#undef X
MTP_API const char *mtp_event_kind_text(mtp_event_kind kind);

typedef struct mtp_event {
    size_t size;   /* sizeof(mtp_event): set by the caller */
    mtp_text name; /* "ProfilerStep#3": torch's trace_name */
    mtp_text key;  /* "ProfilerStep*": torch's name and key. Otherwise equal to name */
    mtp_text overload_name;
    uint32_t kind;  /* mtp_event_kind */
    uint32_t scope; /* torch's RecordScope: 0 FUNCTION, 1 BACKWARD_FUNCTION, 7 USER_SCOPE */
    bool is_device; /* device work, else CPU */
    bool is_async;  /* false */
    bool is_user_annotation;
    bool is_unfinished;                      /* its end was not seen */
    int32_t device_type, device_index;       /* c10's: 0 CPU, 1 CUDA, 12 XPU, 20 PrivateUse1 (NPU) */
    int32_t op_device_type, op_device_index; /* where an op computes, same numbering; -1: not recorded */

    int64_t start_ns, end_ns; /* since mtp_events_zero_ns() */
    int64_t step;     /* calls of step() before it; -1: outside all steps; 0: the trace has no steps */
    int64_t pid, tid; /* the system's; for device work the device and the stream */
    int64_t resource; /* torch's device_resource_id: a device's stream, else the system's thread id */
    uint64_t thread;  /* numbered as in torch, from 1, the main thread first; for device work its op's */
    uint64_t forward_thread; /* of a backward op, same numbering; 0: none */

    int64_t sequence;     /* autograd's, -1: none */
    uint64_t correlation; /* of a launch and its device work, 0: none */
    uint64_t external_id; /* as in the exported trace, 0: none; of runtime calls and device work: their op */
    uint64_t record_function_id; /* of ops and scopes */

    size_t parent; /* torch's cpu_parent: an index, or MTP_NO_EVENT */
    double cpu_time_total, self_cpu_time_total, device_time_total, self_device_time_total; /* microseconds */
    int64_t cpu_memory_usage, self_cpu_memory_usage, device_memory_usage, self_device_memory_usage;
    uint64_t flops;
    int64_t allocated_before, allocated_after; /* bytes on the op's device, -1: not recorded */
    int64_t bytes;                             /* moved by a copy or a set; of a MEMORY event: its size */
    uint32_t kernel_count;                     /* torch's kernels: see mtp_events_kernel() */

    uint32_t shape;  /* the same for equal inputs: a key for caching parsed ones. 0: none recorded */
    uint32_t span;   /* its row in the "spans" columns, UINT32_MAX: none */
    uint32_t memory; /* of a MEMORY event: its row in the "memory" columns, UINT32_MAX: none */
    mtp_text input_dims, input_strides, input_types, concrete_inputs, output_dims; /* JSON lists, or "" */
    mtp_text args; /* further members of the args object: JSON without its braces, or "" */
} mtp_event;

MTP_API mtp_status mtp_events_create(const mtp_trace *trace, mtp_events **out);
MTP_API void mtp_events_destroy(mtp_events *events); /* NULL is fine */
MTP_API mtp_status mtp_events_count(mtp_events *events, size_t *out);
/* The caller sets out->size. No such event: MTP_E_ARG. */
MTP_API mtp_status mtp_events_get(mtp_events *events, size_t index, mtp_event *out);
/* Time 0 of events (the start of the recording), relative to the trace's base_ns. */
MTP_API int64_t mtp_events_zero_ns(const mtp_events *events);

/* torch's cpu_children, in order: an event's first child, and its next sibling; MTP_NO_EVENT: no more. */
MTP_API mtp_status mtp_events_child(mtp_events *events, size_t index, size_t *out);
MTP_API mtp_status mtp_events_sibling(mtp_events *events, size_t index, size_t *out);

/* Device work launched by the event itself: 0 to kernel_count - 1, by start. */
typedef struct mtp_event_kernel {
    size_t size; /* sizeof(mtp_event_kernel): set by the caller */
    mtp_text name;
    int64_t device, stream;
    double duration; /* microseconds */
    size_t event;    /* its index among the events, or MTP_NO_EVENT */
} mtp_event_kernel;
MTP_API mtp_status mtp_events_kernel(mtp_events *events, size_t index, size_t kernel, mtp_event_kernel *out);

/* torch's stack, innermost frame first, "file:line:function" (or as in the file). Writes the first `room`
 * frames; *depth is how many there are. A backward op has its forward op's stack. */
MTP_API mtp_status mtp_events_stack(mtp_events *events, size_t index, mtp_text *frames, size_t room,
                                    size_t *depth);

/* An event's inputs, already parsed: [[4, 6], [], [[2], [3]]] gives the items TENSOR 2, TENSOR 0, LIST 2,
 * TENSOR 1, TENSOR 1 (a list, then its tensors) and the numbers 4, 6, 2, 3. Non-tensors have rank 0. */
typedef struct mtp_event_input {
    bool is_list;
    uint32_t count; /* rank of a tensor, tensors of a list */
} mtp_event_input;
typedef enum mtp_input_lists {
    MTP_INPUT_DIMS = 0,
    MTP_INPUT_STRIDES = 1,
    MTP_OUTPUT_DIMS = 2
} mtp_input_lists;
/* Writes the first `input_room` items and the first `number_room` numbers; *inputs and *numbers are how many
 * there are. A dim that is not an integer is -1. */
MTP_API mtp_status mtp_events_inputs(mtp_events *events, size_t index, mtp_input_lists which,
                                     mtp_event_input *items, size_t input_room, size_t *inputs, int64_t *dims,
                                     size_t number_room, size_t *numbers);

/* ---------------------------------------------------------------------------------------------- diff */

/* X(symbol, value, text) */
#define MTP_VERDICT_LIST(X)                                                                                  \
    X(SAME, 0, "same")                                                                                       \
    X(FASTER, 1, "faster")                                                                                   \
    X(SLOWER, 2, "slower")                                                                                   \
    X(NEW, 3, "new")                                                                                         \
    X(GONE, 4, "gone")                                                                                       \
    X(UNCERTAIN, 5, "uncertain")   /* looks different, but could be noise or too few calls */                \
    X(MORE_CALLS, 6, "more calls") /* a call takes as long, but each step has more calls */                  \
    X(FEWER_CALLS, 7, "fewer calls")
#define X(sym, value, text) MTP_VERDICT_##sym = (value),
typedef enum mtp_verdict {
    MTP_VERDICT_LIST(X)
} mtp_verdict;
#undef X
MTP_API const char *mtp_verdict_text(mtp_verdict verdict);

typedef struct mtp_diff_options {
    size_t size; /* sizeof(mtp_diff_options) */
    bool by_input_shape;
    bool normalize;   /* report changes with drift removed, whatever its size */
    double threshold; /* the smallest change of a row that matters; 0.05: five percent */
    double max_drift; /* a change shared by all rows is attributed to the machine up to this size */
} mtp_diff_options;
#define MTP_DIFF_OPTIONS_INIT                                                                                \
    {                                                                                                        \
        sizeof(mtp_diff_options), false, false, 0.05, 0.10                                                   \
    }

/* One row of either trace's averages. Times in microseconds; the time of one call is typical (without
 * outliers), for the same mix of calls on both sides. */
typedef struct mtp_diff_row {
    const char *key, *input_shapes; /* borrowed from the diff */
    size_t key_length, input_shapes_length;
    bool is_device, is_user_annotation;
    uint64_t count_before, count_after;
    double total_before, total_after, self_before, self_after; /* of all calls */
    double time_before, time_after, own_before, own_after;     /* of one call; own: without its callees */
    double change, own_change; /* time_after / time_before - 1; 0 for new and gone */
    double excess;             /* the change relative to the drift: the verdict's subject */
    double low, high;          /* confidence bounds of excess */
    mtp_verdict verdict;     /* on the time of a call; if neither faster nor slower, on the number of calls */
    mtp_verdict own_verdict; /* on the row's own time: locates the cause */
    /* Per step, on average; without steps in the whole run, scaled as if both runs were equally long. */
    double calls_before, calls_after;
    double step_time_before, step_time_after; /* microseconds: calls times typical own time */
    double calls_change; /* calls_after / calls_before - 1, if every step shows it; else 0 */
} mtp_diff_row;

typedef struct mtp_diff_summary {
    size_t size;               /* sizeof(mtp_diff_summary) */
    bool has_drift;            /* there were enough rows to estimate it */
    double drift;              /* the change that all rows share */
    double spread;             /* how far rows vary around it by noise: one standard deviation */
    mtp_verdict drift_verdict; /* SLOWER, FASTER: beyond max_drift, so not attributed to the machine */
    uint64_t steps_before, steps_after;
    double step_before, step_after, step_change; /* microseconds, medians */
    mtp_verdict step_verdict;                    /* SAME without steps */
    uint64_t rows, same, faster, slower, appeared, gone, uncertain;
    double step_before_min, step_before_max, step_after_min, step_after_max; /* microseconds */
    uint64_t more_calls, fewer_calls;                                        /* rows */
} mtp_diff_summary;
#define MTP_DIFF_SUMMARY_INIT                                                                                \
    {                                                                                                        \
        sizeof(mtp_diff_summary), false, 0, 0, MTP_VERDICT_SAME, 0, 0, 0, 0, 0, MTP_VERDICT_SAME, 0, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                                     \
    }

/* Compares two runs, row by row. Deterministic. */
typedef struct mtp_diff mtp_diff;
MTP_API mtp_status mtp_diff_create(const mtp_trace *before, const mtp_trace *after,
                                   const mtp_diff_options *options, mtp_diff **out);
MTP_API void mtp_diff_destroy(mtp_diff *diff); /* NULL is fine */
MTP_API size_t mtp_diff_count(const mtp_diff *diff);
/* Changed rows come first, by the cost of the change; NULL: no such row. */
MTP_API const mtp_diff_row *mtp_diff_row_at(const mtp_diff *diff, size_t index);
MTP_API mtp_status mtp_diff_get_summary(const mtp_diff *diff, mtp_diff_summary *out);
/* Is anything slower by more than `fraction` (0.05: 5%)? Looks at one call of a row, all its calls in a step,
 * the steps, and drift beyond max_drift. */
MTP_API bool mtp_diff_slower(const mtp_diff *diff, double fraction);
/* How many rows mtp_diff_json writes; default -1: all. */
MTP_API void mtp_diff_limit(mtp_diff *diff, int64_t rows);
MTP_API mtp_status mtp_diff_json(const mtp_diff *diff, mtp_sink *sink, void *user);

/* -------------------------------------------------------------------------------------------- memory */

/* Memory allocated on one device over time, by category. Categories come from mtp_memory_tag() and
 * mtp_memory_existing(): a block's first tag applies from its creation, later ones from when they were set.
 * An untagged block is
 *     TEMPORARY        allocated and freed within one top-level op
 *     AUTOGRAD_DETAIL  allocated and freed in the backward pass
 *     GRADIENT         allocated in the backward pass and not freed in it
 *     OPTIMIZER_STATE  allocated in an Optimizer.step# scope and alive after it
 *     INPUT            allocated in an enumerate(DataLoader)# scope and alive after it
 *     ACTIVATION       allocated by an op with a backward op (same sequence number), or freed in the backward
 *                      pass
 *     Unknown          otherwise, such as untagged parameters: a trace has no tensors
 * The trace must outlive its timelines. */
typedef struct mtp_memory_timeline mtp_memory_timeline;
#define MTP_MEMORY_CATEGORIES 8
/* torch's name; "Unknown" for others. */
MTP_API const char *mtp_memory_category_text(mtp_memory_category category);

/* device: "cpu", "npu:0", "cuda:0" ...; NULL: the one with the most traffic. A device without events has an
 * empty timeline; not a device name: MTP_E_ARG. npu, cuda, gpu and hip are interchangeable where the trace
 * has only one of them. */
MTP_API mtp_status mtp_memory_timeline_create(const mtp_trace *trace, const char *device,
                                              mtp_memory_timeline **out);
MTP_API void mtp_memory_timeline_destroy(mtp_memory_timeline *timeline); /* NULL is fine */
/* The devices with memory events in the trace; NULL: no more. */
MTP_API const char *mtp_memory_timeline_device(const mtp_memory_timeline *timeline, size_t index);

typedef struct mtp_memory_info {
    size_t size;        /* sizeof(mtp_memory_info) */
    const char *device; /* borrowed from the timeline */
    uint64_t allocations, frees;
    uint64_t lost_events;      /* frees and allocations that must have happened but are missing */
    uint64_t tagged;           /* blocks with a category from the program */
    int64_t allocated_bytes;   /* sum of all allocations */
    int64_t preexisting_bytes; /* in use before the first event, as reported or implied by frees and totals */
    int64_t end_bytes;         /* in use after the last event */
    int64_t unaccounted_bytes; /* the last total minus end_bytes; 0: nothing is missing, or no totals */
    int64_t peak_ns;           /* relative to the trace's base_ns, like all times here */
    int64_t peak_bytes;
    int64_t peak_by_category[MTP_MEMORY_CATEGORIES]; /* by mtp_memory_category */
    uint64_t peak_blocks;
} mtp_memory_info;
#define MTP_MEMORY_INFO_INIT                                                                                 \
    {                                                                                                        \
        sizeof(mtp_memory_info), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0             \
    }
MTP_API mtp_status mtp_memory_timeline_info(const mtp_memory_timeline *timeline, mtp_memory_info *out);

/* Visits each instant at which memory changed, in order, with the bytes in use after it. With preexisting
 * bytes the first point shows those alone, at the time of the first change. visit returns false to stop. */
typedef struct mtp_memory_point {
    int64_t ns;
    int64_t bytes[MTP_MEMORY_CATEGORIES];
} mtp_memory_point;
typedef bool mtp_memory_visit(void *user, const mtp_memory_point *point);
MTP_API void mtp_memory_timeline_points(const mtp_memory_timeline *timeline, mtp_memory_visit *visit,
                                        void *user);

/* Blocks alive at the peak, largest first; NULL: no more. */
typedef struct mtp_memory_block {
    uint64_t address; /* 0: all memory from before the trace that was never freed, as one block */
    int64_t bytes;
    mtp_memory_category category; /* at the peak */
    int64_t created_ns;           /* INT64_MIN: before the trace */
    int64_t freed_ns;             /* INT64_MAX: not in the trace */
    const char *op; /* borrowed from the trace: the innermost op, else span, around the allocation; "" */
    size_t op_length;
    int64_t thread; /* that allocated it; -1: unknown */
    mtp_text maker; /* the op it was allocated for: the nearest that does more than allocate */
    /* The innermost line of the program, not the framework, that led to it; of a backward op its forward
     * op's. "": no stacks were recorded. */
    mtp_text source;
} mtp_memory_block;
MTP_API const mtp_memory_block *mtp_memory_timeline_block(const mtp_memory_timeline *timeline, size_t index);

/* torch's export_memory_timeline. json: [times_us, sizes], each row of sizes being 0 and the bytes of the 8
 * categories. raw: rows [t_ns or -1, action, +-bytes, category]; action is 1 preexisting, 2 create, 3 new
 * version (here: a new tag), 4 destroy. Times are Unix times. summary: a JSON object for scripts, with
 * `limit` blocks (-1: all). */
MTP_API mtp_status mtp_memory_timeline_json(const mtp_memory_timeline *timeline, mtp_sink *sink, void *user);
MTP_API mtp_status mtp_memory_timeline_raw(const mtp_memory_timeline *timeline, mtp_sink *sink, void *user);
MTP_API mtp_status mtp_memory_timeline_summary(const mtp_memory_timeline *timeline, int64_t limit,
                                               mtp_sink *sink, void *user);
/* The suffix selects the format, as in torch: raw.json.gz, else .json or .json.gz. Others: MTP_E_ARG. */
MTP_API mtp_status mtp_memory_timeline_export(const mtp_memory_timeline *timeline, const char *path);

/* ---------------------------------------------------------------------------------------------- tree */

/* The whole trace as one tree, like torch's experimental_event_tree(): ops and scopes, Python calls,
 * allocations and frees where they happened, device work below its launch. Nodes are numbered by time. The
 * trace must outlive the tree; the tree may be used from any number of threads at once.
 *
 * Tensors have ids by torch's rules. An allocation_id identifies one piece of memory from its allocation to
 * its free, even if its address is reused; an id identifies one tensor across all the memory that it ever
 * had, including the tensors that shared that memory. Both need a recording with shapes, and with memory to
 * distinguish reused addresses. */
typedef struct mtp_tree mtp_tree;

/* X(symbol, value, torch's name). Values are torch's. */
#define MTP_TREE_KIND_LIST(X)                                                                                \
    X(TORCH_OP, 0, "TorchOp")                                                                                \
    X(BACKEND, 1, "Backend")                                                                                 \
    X(VULKAN, 2, "Vulkan")                                                                                   \
    X(ALLOCATION, 3, "Allocation")                                                                           \
    X(OUT_OF_MEMORY, 4, "OutOfMemory")                                                                       \
    X(PY_CALL, 5, "PyCall")                                                                                  \
    X(PY_C_CALL, 6, "PyCCall")                                                                               \
    X(KINETO, 7, "Kineto")                                                                                   \
    X(PYTHON_GC, 8, "PythonGC")
#define X(sym, value, text) MTP_TREE_##sym = (value),
typedef enum mtp_tree_kind {
    MTP_TREE_KIND_LIST(X)
} mtp_tree_kind;
#undef X

/* A tensor that is an op's argument, or that an object holds. */
typedef struct mtp_tree_tensor {
    size_t size;                       /* sizeof(mtp_tree_tensor): set by the caller */
    uint64_t number;                   /* as recorded (mtp_identity.tensor), 0: unknown */
    uint64_t storage;                  /* address of its memory */
    int64_t id;                        /* -1: none */
    int64_t allocation_id;             /* -1: none */
    int32_t device_type, device_index; /* c10's, as in mtp_event; index -1: none */
    uint32_t dtype;                    /* mtp_dtype */
} mtp_tree_tensor;

/* Arguments: JSON lists, or "". Equal shape means equal texts. */
typedef struct mtp_tree_inputs {
    uint32_t shape; /* 0: none recorded */
    mtp_text dims, strides, types, concrete;
    uint32_t first, count; /* the tensors among them, for mtp_tree_tensor_get(); lists are flattened */
} mtp_tree_inputs;

typedef struct mtp_tree_node {
    size_t size;    /* sizeof(mtp_tree_node): set by the caller */
    uint32_t kind;  /* mtp_tree_kind */
    uint32_t scope; /* of an op: torch's RecordScope, as in mtp_event */
    mtp_text name;
    int64_t start_ns, end_ns; /* Unix time */
    size_t parent;            /* a node, or MTP_NO_EVENT */
    size_t children;          /* how many */
    uint64_t thread;          /* numbered as in torch, from 1 */
    uint64_t correlation; /* torch's: of an op its record function id, of device work its launch's; else 0 */
    int64_t sequence;     /* autograd's, -1: none */
    mtp_tree_inputs inputs; /* of an op */
    uint32_t held;          /* of a call: number of parts for mtp_tree_held() */
    bool is_unfinished;     /* its end was not seen */
    mtp_text frame, caller; /* of a call: "file:line:function", innermost first, or "" */
    /* of an allocation */
    uint64_t address;
    int64_t bytes, total_allocated, total_reserved; /* totals: -1: unknown */
    int64_t id, allocation_id;                      /* -1: none */
    int32_t device_type, device_index;
} mtp_tree_node;

MTP_API mtp_status mtp_tree_create(const mtp_trace *trace, mtp_tree **out);
MTP_API void mtp_tree_destroy(mtp_tree *tree); /* NULL is fine */
MTP_API size_t mtp_tree_count(const mtp_tree *tree);
/* The caller sets out->size; texts are borrowed from the trace. No such node: MTP_E_ARG. */
MTP_API mtp_status mtp_tree_get(const mtp_tree *tree, size_t node, mtp_tree_node *out);
/* A node's children by time, or with MTP_NO_EVENT the roots; borrowed. */
MTP_API const uint32_t *mtp_tree_children(const mtp_tree *tree, size_t node, size_t *count);
MTP_API mtp_status mtp_tree_tensor_get(const mtp_tree *tree, size_t tensor, mtp_tree_tensor *out);
/* One part of what the object of a call holds, in the order of mtp_op_hold(). No such part: MTP_E_ARG. */
MTP_API mtp_status mtp_tree_held(const mtp_tree *tree, size_t node, size_t part, mtp_tree_inputs *out);

/* --------------------------------------------------------------------------------------------- steps */

/* How each step's time was spent. Steps are ProfilerStep# scopes; without any, the steps marked in the
 * recording; without those, the whole trace counts as one step (is_whole_trace). Of several processes that have
 * such scopes, the one with the lowest number is taken; the work of others does not count.
 *     cpu     at least one thread is in an op or a runtime call. A trace without either uses its scopes
 *             (except the steps' own), and one without scopes its Python functions
 *     device  at least one stream of any device runs a kernel, a copy or a set
 *     idle    neither */
typedef struct mtp_steps mtp_steps;
typedef struct mtp_step_times {
    int64_t wall_ns, cpu_ns, device_ns, idle_ns;
    int64_t both_ns; /* CPU and device at the same time */
} mtp_step_times;
/* What took more or less of a step's time than usual. Texts here are borrowed from the trace. */
#define MTP_STEP_REASONS 3
typedef struct mtp_step_reason {
    mtp_text what;     /* an op, a kernel, or "(idle)" */
    int64_t ns, calls; /* own time and calls, relative to usual */
    bool is_device;
} mtp_step_reason;
typedef struct mtp_step_row {
    int64_t number; /* -1: the whole trace */
    int64_t start_ns, end_ns;
    mtp_step_times times;
    uint64_t ops, kernels; /* that start in it: ops at any depth; kernels without copies */
    bool is_outlier;       /* far longer or shorter than most; only with four steps or more */
    int64_t more_ns;       /* of an outlier: its time minus the median; else 0 */
    uint32_t reason_count; /* the largest differences, largest first */
    mtp_step_reason reasons[MTP_STEP_REASONS];
} mtp_step_row;
/* A period in a step in which neither CPU nor device was busy; of_device: in which no device was. */
typedef struct mtp_step_gap {
    int64_t step;                        /* its number; -1: the whole trace */
    int64_t start_ns, end_ns, offset_ns; /* offset: since the step's start */
    bool of_device;
    mtp_text after, before; /* what ended last, what began next; "": the step itself */
    mtp_text inside;        /* the innermost function or annotation open throughout, or "" */
} mtp_step_gap;
MTP_API mtp_status mtp_steps_create(const mtp_trace *trace, mtp_steps **out);
MTP_API void mtp_steps_destroy(mtp_steps *steps); /* NULL is fine */
MTP_API size_t mtp_steps_count(const mtp_steps *steps);
MTP_API bool mtp_steps_is_whole_trace(const mtp_steps *steps);
/* The process whose steps they are, and whose work counts, if several have steps (mtp_open_options.process selects
 * another); else 0. */
MTP_API int64_t mtp_steps_process(const mtp_steps *steps);
MTP_API const mtp_step_row *mtp_steps_row(const mtp_steps *steps, size_t index); /* NULL: no such row */
/* The longest gaps of all steps (at most 64), longest first. NULL: no more. */
MTP_API size_t mtp_steps_gap_count(const mtp_steps *steps, bool of_device);
MTP_API const mtp_step_gap *mtp_steps_gap(const mtp_steps *steps, bool of_device, size_t index);
typedef enum mtp_step_figure {
    MTP_STEP_MEAN = 0,
    MTP_STEP_P50 = 1, /* the nearest rank */
    MTP_STEP_MAX = 2
} mtp_step_figure;
/* Each time over all steps. NULL: no such figure. */
MTP_API const mtp_step_times *mtp_steps_summary(const mtp_steps *steps, mtp_step_figure figure);
/* How many steps the two functions below write; default -1: all. The summary always covers all steps. */
MTP_API void mtp_steps_limit(mtp_steps *steps, int64_t rows);
MTP_API mtp_status mtp_steps_json(const mtp_steps *steps, mtp_sink *sink, void *user);
MTP_API mtp_status mtp_steps_csv(const mtp_steps *steps, mtp_sink *sink, void *user);

/* ------------------------------------------------------------------------------------------ findings */

/* What an experienced reader would say about a trace: ranked, in words with numbers, each with evidence and
 * the next step. docs/findings.md describes each one: when it is reported, and how the gain is estimated.
 *
 *     mtp_findings *findings;
 *     mtp_findings_create(trace, NULL, &findings);
 *     for (size_t i = 0; i < mtp_findings_count(findings); i++)
 *         puts(mtp_findings_row(findings, i)->title.bytes);
 *     mtp_findings_destroy(findings);                  before the trace
 *
 * Deterministic; 3 million spans take less than a second. Of several processes, those of mtp_steps are
 * examined: one process. Steps that are far longer than the others are left out, and reported by themselves. */
typedef struct mtp_findings mtp_findings;

/* X(symbol, value, text). Values are ABI: append. */
#define MTP_FINDING_KIND_LIST(X)                                                                             \
    X(TIME, 0, "time")     /* time that could be saved */                                                    \
    X(MEMORY, 1, "memory") /* a leak, the peak, fragmentation */                                             \
    X(TRUST, 2, "trust")   /* the trace is incomplete, or the profiler itself took the time */               \
    X(NOTE, 3, "note")     /* where the time goes: not necessarily a fault */
#define X(sym, value, text) MTP_FINDING_##sym = (value),
typedef enum mtp_finding_kind {
    MTP_FINDING_KIND_LIST(X)
} mtp_finding_kind;
#undef X
MTP_API const char *mtp_finding_kind_text(mtp_finding_kind kind);

#define MTP_CONFIDENCE_LIST(X)                                                                               \
    X(LOW, 0, "low")       /* a hint */                                                                      \
    X(MEDIUM, 1, "medium") /* measured; how much can be gained depends on the program */                     \
    X(HIGH, 2, "high")     /* measured */
#define X(sym, value, text) MTP_CONFIDENCE_##sym = (value),
typedef enum mtp_confidence {
    MTP_CONFIDENCE_LIST(X)
} mtp_confidence;
#undef X
MTP_API const char *mtp_confidence_text(mtp_confidence confidence);

typedef struct mtp_findings_options {
    size_t size;  /* sizeof(mtp_findings_options) */
    double least; /* of kind TIME: the smallest share of the time examined to report; 0.02: two percent */
} mtp_findings_options;
#define MTP_FINDINGS_OPTIONS_INIT                                                                            \
    {                                                                                                        \
        sizeof(mtp_findings_options), 0.02                                                                   \
    }

/* Texts are borrowed from the findings. They contain names from the trace, control characters included. */
typedef struct mtp_finding_row {
    mtp_text id;         /* "device-idle-launch-bound": for scripts and mtprof show */
    mtp_text title;      /* one line, without a full stop */
    mtp_text text;       /* a paragraph, with numbers */
    mtp_text advice;     /* the next step */
    uint32_t kind;       /* mtp_finding_kind */
    uint32_t confidence; /* mtp_confidence */
    int64_t spent_ns;    /* the time it is about; 0: not about time */
    int64_t gain_ns;     /* a conservative estimate of the time that could be saved; 0: none is claimed */
    double share;        /* gain_ns as a fraction of the time examined */
    int64_t bytes;       /* of kind MEMORY; else 0 */
    size_t evidence_count;
} mtp_finding_row;

/* Calls that are alike, and the longest of them; or one interval. Largest first. */
#define MTP_NO_SPAN UINT32_MAX
typedef struct mtp_evidence {
    mtp_text name;   /* an op, a kernel, a call ...; "" for a gap */
    mtp_text source; /* the line of the program that led to it, or what it ran in; "": unknown */
    uint64_t calls;
    int64_t total_ns; /* of all these calls */
    double share;     /* total_ns as a fraction of the time examined */
    int64_t start_ns,
        end_ns;     /* of the longest; relative to the trace's base_ns. Of memory: when it was allocated */
    int64_t bytes;  /* of memory; else 0 */
    int64_t step;   /* its step's number; -1: none */
    uint32_t span;  /* its row in the "spans" columns, or MTP_NO_SPAN */
    uint32_t track; /* its row in the "tracks" columns, or MTP_NO_SPAN */
} mtp_evidence;

typedef struct mtp_findings_summary {
    size_t size;                        /* sizeof(mtp_findings_summary) */
    int64_t start_ns, end_ns;           /* what was examined */
    int64_t whole_ns;                   /* its length, without outlying steps: 1.0 of all shares */
    uint64_t steps;                     /* in it; 0: the trace has none */
    uint64_t warm_up;                   /* leading steps that were left out */
    uint64_t outliers;                  /* others that were left out, because they are far longer */
    int64_t cpu_ns, device_ns, idle_ns; /* as in mtp_step_times */
    int64_t process;                    /* if there are several: the one examined; else 0 */
} mtp_findings_summary;
#define MTP_FINDINGS_SUMMARY_INIT                                                                            \
    {                                                                                                        \
        sizeof(mtp_findings_summary), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                           \
    }

MTP_API mtp_status mtp_findings_create(const mtp_trace *trace, const mtp_findings_options *options,
                                       mtp_findings **out);
MTP_API void mtp_findings_destroy(mtp_findings *findings); /* NULL is fine */
MTP_API size_t mtp_findings_count(const mtp_findings *findings);
/* The most important first. NULL: no such row, no such evidence. */
MTP_API const mtp_finding_row *mtp_findings_row(const mtp_findings *findings, size_t index);
MTP_API const mtp_evidence *mtp_findings_evidence(const mtp_findings *findings, size_t index,
                                                  size_t evidence);
MTP_API mtp_status mtp_findings_get_summary(const mtp_findings *findings, mtp_findings_summary *out);

/* How the texts below are written: UTF-8 without control characters, whatever names the trace has. */
typedef struct mtp_words_options {
    size_t size;    /* sizeof(mtp_words_options) */
    uint32_t width; /* lines are wrapped to so many columns; 0: not wrapped */
    uint64_t
        budget; /* the most to write, in tokens of four bytes: what matters most, in whole sentences. Too small for
                         anything useful: MTP_E_ARG, and the error says what is needed. 0: no limit */
    const char *only; /* of findings: the id of one, with all its evidence; unknown: MTP_E_ARG. NULL: all */
} mtp_words_options;
#define MTP_WORDS_OPTIONS_INIT                                                                               \
    {                                                                                                        \
        sizeof(mtp_words_options), 100, 0, NULL                                                              \
    }
MTP_API mtp_status mtp_findings_text(const mtp_findings *findings, const mtp_words_options *options,
                                     mtp_sink *sink, void *user);
MTP_API mtp_status mtp_findings_json(const mtp_findings *findings, mtp_sink *sink, void *user);
/* What changed between two runs, in words: the steps, then the rows that changed most. */
MTP_API mtp_status mtp_diff_text(const mtp_diff *diff, const mtp_words_options *options, mtp_sink *sink,
                                 void *user);
/* Everything about one span (what: "span 12", as findings name them) or about all of one name ("aten::mm").
 * Nothing of that name: MTP_E_ARG. */
MTP_API mtp_status mtp_trace_show(const mtp_trace *trace, const char *what, const mtp_words_options *options,
                                  mtp_sink *sink, void *user);

/* -------------------------------------------------------------------------------------------- report */

/* One HTML file for people: where the time goes, a timeline, operators, flame graph, modules, memory; of two traces
 * also what changed from the first to the second. It holds all data and loads nothing: it opens from a mail, offline.
 * Of a trace with more than max_spans spans the shortest are left out; the page says so. */
struct mtp_ranks; /* mtprof_ranks.h */
typedef struct mtp_report_options {
    size_t size;              /* sizeof(mtp_report_options) */
    const char *const *names; /* one for each trace, such as its file; NULL: from the traces */
    uint64_t max_spans;       /* of one trace; default 0: 6 million */
    const char *only;         /* "memory": that page alone; default NULL: all */
    const char *device;       /* whose memory is shown first; default NULL: the one with the most traffic */
    /* The ranks of the job that the traces are of: a page that compares all ranks comes first; default NULL: none.
     * A typical rank and one that stands out are a good choice of traces. */
    const struct mtp_ranks *ranks;
} mtp_report_options;
#define MTP_REPORT_OPTIONS_INIT                                                                              \
    {                                                                                                        \
        sizeof(mtp_report_options), NULL, 0, NULL, NULL, NULL                                                \
    }
/* One trace, or two to compare; else MTP_E_ARG. */
MTP_API mtp_status mtp_report_write(const mtp_trace *const *traces, size_t count,
                                    const mtp_report_options *options, mtp_sink *sink, void *user);
/* The same to a file, which appears complete or not at all; .gz compresses. */
MTP_API mtp_status mtp_export_report(const mtp_trace *const *traces, size_t count, const char *path,
                                     const mtp_report_options *options);

/* The page of memory alone, of a timeline that was computed elsewhere: its points, in order of time. */
MTP_API mtp_status mtp_report_points(const char *name, const char *device, const mtp_memory_point *points,
                                     size_t count, mtp_sink *sink, void *user);

#ifdef __cplusplus
}
#endif

#include <mtprof_digest.h>
#include <mtprof_live.h>

#include <mtprof_ranks.h>
#endif
