/* trace/trace.h - the one model of a trace: columns, built once, then never changed.
 *
 * A live profile, a spool and a Kineto/Chrome JSON file all become this. A reader adds tracks, spans,
 * instants and so on in any order through the mtp__trace_add_* calls below, then calls mtp__trace_finish(),
 * which sorts, nests and links. After that everything may be read from any thread.
 *
 * Spans are stored track by track, ordered within a track by (start, -end, order of adding): a parent comes
 * before its children, and the spans of a subtree are contiguous. Times are nanoseconds since base_ns (Unix
 * time), and may be negative. Text is stored by id, 0 being the empty text; bytes are kept as found, whether
 * or not they are valid UTF-8.
 */
#ifndef MTP_TRACE_TRACE_H
#define MTP_TRACE_TRACE_H
#include <mtprof.h>
#include "base/intern.h"

#define MTP__NONE UINT32_MAX

/* X(symbol, Kineto's spelling). In the model only, never in files: may be reordered. */
#define MTP__CATEGORY_LIST(X)                                                                                \
    X(CPU_OP, "cpu_op")                                                                                      \
    X(USER_ANNOTATION, "user_annotation")                                                                    \
    X(PYTHON_FUNCTION, "python_function")                                                                    \
    X(CUDA_RUNTIME, "cuda_runtime")                                                                          \
    X(CUDA_DRIVER, "cuda_driver")                                                                            \
    X(OVERHEAD, "overhead")                                                                                  \
    X(KERNEL, "kernel")                                                                                      \
    X(GPU_MEMCPY, "gpu_memcpy")                                                                              \
    X(GPU_MEMSET, "gpu_memset")                                                                              \
    X(CUDA_SYNC, "cuda_sync")                                                                                \
    X(GPU_USER_ANNOTATION, "gpu_user_annotation")                                                            \
    X(OTHER, "") /* its spelling is mtp__detail.category */
#define X(sym, text) MTP__CATEGORY_##sym,
typedef enum mtp__category {
    MTP__CATEGORY_LIST(X) MTP__CATEGORIES
} mtp__category;
#undef X
#define MTP__MEMORY_COUNTER                                                                                  \
    "mtprof_memory" /* category of the counters that the writer derives from [memory] events */
static inline bool mtp__category_on_device(mtp__category c)
{
    return c >= MTP__CATEGORY_KERNEL && c <= MTP__CATEGORY_GPU_USER_ANNOTATION;
}

/* Flags of a span. */
enum {
    MTP__SPAN_UNFINISHED = 1, /* no end was seen: it lasts until the stop, or to the end of its track */
    MTP__SPAN_OVERLAP = 2, /* finish(): overlaps an earlier span without nesting: shown on a lane beside it */
    MTP__SPAN_STEP = 4,    /* a ProfilerStep# scope */
    MTP__SPAN_BACKWARD = 8, /* runs in the backward pass */
    MTP__SPAN_MODULE = 16   /* the call of an nn.Module */
};

/* What some spans carry besides times and a name. The default is in brackets. */
typedef struct mtp__detail {
    int64_t sequence;        /* [-1] */
    uint64_t forward_thread; /* [0] */
    uint64_t correlation;    /* [0] shared by a launch and the device work it caused */
    uint64_t external_id; /* [0] Kineto's "External id": a CPU span's own, for device work that of its op */
    uint64_t flops;       /* [0] as given; analyze/flops.h derives the rest */
    int64_t allocated_before, allocated_after; /* [-1] bytes on the span's device */
    int64_t bytes;                             /* [0] copied or set */
    int64_t queued_ns;                         /* [INT64_MIN] */
    uint32_t shape, outputs;                   /* [0] mtp_trace.shapes */
    uint32_t stack;                            /* [0] mtp_trace.stacks */
    uint32_t args;              /* [0] text: further members of the args object, JSON without the braces */
    uint32_t category;          /* [0] text: the file's spelling, if it is not that of MTP__CATEGORY_LIST */
    uint32_t number;            /* [0] of a step */
    uint32_t grid[3], block[3]; /* [0] */
    uint16_t device;            /* [0xffff] mtp_device low 16 bits: where the op computes */
    uint16_t tensor_count;      /* [0] see tensors */
    uint32_t event_index;       /* [0] Kineto's "Ev Idx" + 1, if the file had it */
    uint32_t tensors;           /* [0] mtp_trace.tensors: identities of its inputs, in order */
    uint32_t held, held_count;  /* [0] mtp_trace.held: what the called object holds */
} mtp__detail;
#define MTP__DETAIL_INIT                                                                                     \
    {                                                                                                        \
        .sequence = -1, .allocated_before = -1, .allocated_after = -1, .queued_ns = INT64_MIN,               \
        .device = 0xffff                                                                                     \
    }

/* JSON texts in Kineto's spelling: [[4, 32], []]; 0 if absent. */
typedef struct mtp__shape {
    uint32_t dims, strides, types, concrete;
} mtp__shape;

/* The identity of a tensor (mtp_identity). */
typedef struct mtp__tensor {
    uint64_t number, storage; /* number 0: unknown */
    uint16_t device;
    uint8_t dtype; /* mtp_dtype */
    uint32_t part; /* whose address `storage` is: mtp__track.part */
} mtp__tensor;

/* One part of what an object holds (mtp_op_hold). */
typedef struct mtp__held {
    uint32_t shape;          /* mtp_trace.shapes: texts, numbers, tensors */
    uint32_t tensors, count; /* mtp_trace.tensors */
} mtp__held;

typedef struct mtp__stack_node {
    uint32_t parent; /* 0: a root */
    uint32_t frame;  /* text: "file:line:function" (ours), or as found in the file */
} mtp__stack_node;

/* A row in a viewer: a thread, or a stream of a device. */
typedef struct mtp__track {
    int64_t pid, tid;            /* for a device: its index and the stream */
    uint32_t pid_text, tid_text; /* 0, or the text if the file has strings there */
    uint32_t name;               /* text: the thread's name, or 0 */
    int64_t sort_index;          /* INT64_MIN: none */
    uint32_t part; /* of several recordings that are read as one (join.h), the one that it is from; else 0 */
    bool on_device;
    bool crossing;         /* while reading records: spans did not end in stack order */
    uint32_t first, count; /* finish(): its spans */
} mtp__track;

typedef struct mtp__process {
    int64_t pid;
    uint32_t pid_text, name, labels; /* text */
    int64_t sort_index;              /* INT64_MIN: none */
    bool on_device;                  /* in a recording: pid is the device's index */
} mtp__process;

/* How well a device's clock is tied to the host's. */
typedef struct mtp__clock_info {
    uint64_t error_ns; /* of the worst sample */
    uint32_t points;   /* samples */
    uint16_t device;
} mtp__clock_info;

typedef struct mtp__memory {
    int64_t ts;
    uint64_t address;
    int64_t bytes;                           /* negative: freed */
    int64_t total_allocated, total_reserved; /* after the event; -1: unknown */
    uint32_t track;
    uint16_t device_type; /* Kineto's c10::DeviceType: 0 CPU, 1 CUDA, 20 PrivateUse1 (ours: NPU), ... */
    int16_t device_index; /* -1: none */
    uint32_t args;        /* text: further members of args */
    uint32_t event_index; /* Kineto's "Ev Idx" + 1, 0: none */
} mtp__memory;

typedef struct mtp__tag {
    int64_t ts;
    uint64_t address;
    uint16_t device_type;
    int16_t device_index;
    uint32_t category; /* mtp_memory_category */
    uint32_t track;    /* of the process whose address it is; MTP__NONE: unknown */
    int64_t bytes;     /* > 0: a block allocated before the recording; 0: whichever block is live */
} mtp__tag;

/* Marks and other instants; counters have `is_counter` and a value. */
typedef struct mtp__instant {
    int64_t ts;
    double value;
    uint32_t name, category, args; /* text */
    uint32_t track;
    char scope; /* t, p, g */
    bool is_counter;
} mtp__instant;

typedef struct mtp__flow {
    int64_t ts;
    uint64_t id;
    uint32_t track;
    uint32_t name; /* text: fwdbwd, ac2g, ... */
    char phase;    /* s, t or f */
} mtp__flow;

typedef struct mtp__meta {
    uint32_t key, json; /* text; json: the value as JSON */
} mtp__meta;

typedef struct mtp__step {
    int64_t start, end;
    int64_t number;
} mtp__step;

/* One of several recordings that were read as one trace. */
typedef struct mtp__joined {
    uint32_t file, command, problem; /* text; problem: why it could not be read, 0: it was */
    uint64_t pid, parent;            /* 0: unknown */
    bool by_wall_clock;              /* of another boot or machine */
    mtp_trace_info info;             /* of itself; times are those of the trace */
} mtp__joined;

enum { /* of a span, while building: TRACK becomes the parent column */
    MTP__COLUMN_START,
    MTP__COLUMN_END,
    MTP__COLUMN_NAME,
    MTP__COLUMN_TRACK,
    MTP__COLUMN_DETAIL,
    MTP__COLUMN_CATEGORY,
    MTP__COLUMN_FLAGS,
    MTP__COLUMNS
};
typedef struct mtp__span_memory {
    void *column[MTP__COLUMNS]; /* owned mappings */
    size_t bytes[MTP__COLUMNS];
    uint32_t count, room;
} mtp__span_memory;

struct mtp_trace {
    /* spans, one column each */
    uint32_t span_count;
    int64_t *start, *end;
    uint32_t *name;
    uint32_t *parent; /* MTP__NONE: none. Same track */
    uint32_t *detail; /* index into details, 0: none; NULL if no span has details */
    uint8_t *category, *flags;

    mtp__detail *details; /* [0] is the empty one */
    size_t detail_bytes;  /* size of their mapping */
    mtp__shape *shapes;
    mtp__stack_node *stacks;
    mtp__track *tracks;
    mtp__process *processes;
    mtp__memory *memory; /* finish(): by ts */
    mtp__tag *tags;
    mtp__instant *instants;
    mtp__flow *flows;
    mtp__meta *metadata;
    mtp__step *steps; /* by start */
    mtp__clock_info *clocks;
    mtp__tensor *tensors;    /* [0] is unused */
    mtp__held *held;         /* [0] is unused */
    mtp__joined *recordings; /* [0] is the main process; none if it was read from one file */
    uint32_t detail_count, shape_count, stack_count, track_count, process_count, memory_count, tag_count,
        instant_count, flow_count, metadata_count, step_count, clock_count, tensor_count, held_count,
        recording_count;

    /* finish(): for a device span, the CPU span that launched it (the op, not a runtime call inside it);
     * MTP__NONE: unknown. NULL if there are none */
    uint32_t *launcher;

    mtp__intern text;          /* id 0 is the empty text, not in the table */
    int64_t base_ns;           /* Unix time of ts 0 */
    int64_t first_ns, last_ns; /* finish(): of all spans and instants */
    uint64_t pid;              /* of the recorded process; 0: unknown */
    uint64_t parent_pid;       /* 0: unknown */
    uint32_t command;          /* text: its command line; 0: unknown */
    int64_t zero_ns;           /* recording: CLOCK_MONOTONIC at ts 0 */
    uint64_t boot[2];          /* recording: the kernel's boot id; 0: unknown */
    mtp_format format;         /* of what it was read from; see mtp__is_recording */
    bool clock_uncertain;      /* the machine's clocks were unreliable: see mtp_trace_info */
    bool without_times;        /* an execution trace: times only give the order */
    bool made_window;          /* the file had Kineto's events about the recording, generated by our writer */
    bool has_ledger;
    mtp_ledger ledger;
    uint64_t unmatched_ends, unfinished, clock_faults,
        damaged_chunks;      /* faults that were found and repaired */
    uint64_t skipped_events; /* JSON file: without a time, or with an unknown phase */
    uint64_t bad_durations;  /* JSON file: not a number, or negative; read as 0 */
    uint64_t missing_chunks; /* spool: fewer than its header promises */
    uint64_t chunks;         /* spool: found, damaged ones included */
    bool damaged_header;     /* spool: one of its two copies is damaged */
    mtp_outcome outcome;     /* spool: how the recording ended */
    uint32_t flags_recorded; /* MTP_WITH_* and activities, if known */
    bool counted;            /* only the numbers are here (mtp_open_options.count_only): see counts */
    mtp_trace_info counts;   /* if counted */
    bool in_job;             /* it is a part of a job's file, which says that it is of rank job_rank */
    int64_t job_rank;
    char source[4096]; /* where it came from: a path */

    mtp__span_memory columns;           /* owned: memory behind the span columns above */
    struct mtp__trace_builder *builder; /* owned; until finish() */
};

/* One of our recordings. Everything else is a file that any program may have written: it has its own ids, rows
 * and device numbers, which are kept, and what is missing from it is not made up. */
static inline bool mtp__is_recording(const mtp_trace *t)
{
    return t->format == MTP_FORMAT_RECORDING;
}

/* ------------------------------------------------------------------------------------------- building */

mtp_status mtp__trace_create(mtp_trace **out);

uint32_t mtp__trace_text(mtp_trace *t, const char *bytes,
                         size_t length); /* id; 0 also if out of memory, which is latched */
/* Each returns the index, or MTP__NONE if out of memory, which is latched and reported by finish(). */
uint32_t mtp__trace_add_track(mtp_trace *t, const mtp__track *track);
uint32_t mtp__trace_add_process(mtp_trace *t, const mtp__process *process);
uint32_t mtp__trace_add_detail(mtp_trace *t, const mtp__detail *detail);
uint32_t mtp__trace_add_shape(mtp_trace *t, const mtp__shape *shape);         /* ids from 1 */
uint32_t mtp__trace_add_stack(mtp_trace *t, uint32_t parent, uint32_t frame); /* ids from 1 */
uint32_t mtp__trace_add_tensor(mtp_trace *t, const mtp__tensor *tensor); /* ids from 1; 0: out of memory */
uint32_t mtp__trace_add_held(mtp_trace *t, const mtp__held *held);       /* ids from 1; 0: out of memory */
void mtp__trace_add_memory(mtp_trace *t, const mtp__memory *memory);
void mtp__trace_add_tag(mtp_trace *t, const mtp__tag *tag);
void mtp__trace_add_instant(mtp_trace *t, const mtp__instant *instant);
void mtp__trace_add_flow(mtp_trace *t, const mtp__flow *flow);
void mtp__trace_add_meta(mtp_trace *t, const char *key, size_t key_length, const char *json,
                         size_t json_length);
void mtp__trace_add_step(mtp_trace *t, const mtp__step *step);

/* Adds one span and returns its number in order of adding; mtp__trace_end_span may set its end and flags
 * until finish(). Spans of a track that arrive in order of start cost nothing to sort. */
uint32_t mtp__trace_add_span(mtp_trace *t, uint32_t track, int64_t start, int64_t end, uint32_t name,
                             mtp__category category, uint8_t flags, uint32_t detail);
void mtp__trace_end_span(mtp_trace *t, uint32_t span, int64_t end, uint8_t more_flags);

/* Sorts, nests and links; the trace is then complete. Destroys it on failure. MTP_E_NOMEM, or the latched
 * error. */
mtp_status mtp__trace_finish(mtp_trace *t);

/* ------------------------------------------------------------------------------------------- reading */

mtp_text mtp__trace_get_text(const mtp_trace *t, uint32_t id);
mtp_text mtp__trace_metadata(const mtp_trace *t, const char *key);   /* its JSON; length 0: none */
uint32_t mtp__trace_find_text(const mtp_trace *t, const char *text); /* id; 0: not in this trace */
static inline const mtp__detail *mtp__trace_detail(const mtp_trace *t, uint32_t span)
{
    return t->details + (t->detail != NULL ? t->detail[span] : 0);
}
uint32_t mtp__trace_track_of(const mtp_trace *t, uint32_t span);
/* By track, which process it is of: 0 to *count - 1. Owned by the caller; NULL: out of memory. */
uint32_t *mtp__trace_homes(const mtp_trace *t, uint32_t *count);
/* The innermost span of the track that is running at `ts`, its end included; MTP__NONE: none. */
uint32_t mtp__trace_span_at(const mtp_trace *t, uint32_t track, int64_t ts);
/* Kineto's "External id". Ops and annotations have their own ids; runtime calls and device work have their
 * op's. In a recording the id is the span's position, so nothing is stored. 0: none. */
uint64_t mtp__trace_external_id(const mtp_trace *t, uint32_t span);
#endif
