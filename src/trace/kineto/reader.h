/* trace/kineto/reader.h - the parts of the Kineto reader. Private to trace/kineto/.
 *
 *     kineto.c   the file: an object or an array, metadata, one event after the other
 *     event.c    one event from JSON to mtp__kineto_event; nothing is kept yet, so it can be begun again
 *     args.c     what its members mean
 *     add.c      the event into the model, by its phase
 *     rows.c     pid and tid to tracks, device tracks, names of threads and processes
 *     pairs.c    begin and end events to spans
 *     text.c     texts, shapes and stacks to ids
 */
#ifndef MTP_TRACE_KINETO_READER_H
#define MTP_TRACE_KINETO_READER_H
#include "base/pair_map.h"
#include "trace/json/text.h"
#include "trace/json/window.h"
#include "trace/trace.h"

/* Members of args with a place in the model. X(symbol, spelling); some have two. */
#define MTP__KINETO_ARG_LIST(X)                                                                              \
    X(NONE, "")                                                                                              \
    X(EXTERNAL_ID, "External id")                                                                            \
    X(SEQUENCE, "Sequence number")                                                                           \
    X(FORWARD_THREAD, "Fwd thread id")                                                                       \
    X(CORRELATION, "correlation")                                                                            \
    X(DIMS, "Input Dims")                                                                                    \
    X(STRIDES, "Input Strides")                                                                              \
    X(TYPES, "Input type")                                                                                   \
    X(CONCRETE, "Concrete Inputs")                                                                           \
    X(OUTPUT_DIMS, "Output Dims")                                                                            \
    X(OUTPUT_TYPES, "Output type")                                                                           \
    X(EVENT_INDEX, "Ev Idx")                                                                                 \
    X(STACK, "stack")                                                                                        \
    X(CALL_STACK, "Call stack")                                                                              \
    X(BYTES, "bytes")                                                                                        \
    X(QUEUED, "queued")                                                                                      \
    X(GRID, "grid")                                                                                          \
    X(BLOCK, "block")                                                                                        \
    X(DEVICE, "device")                                                                                      \
    X(STREAM, "stream")                                                                                      \
    X(FLOPS, "flops")                                                                                        \
    X(ADDRESS, "Addr")                                                                                       \
    X(MEMORY_BYTES, "Bytes")                                                                                 \
    X(TOTAL_ALLOCATED, "Total Allocated")                                                                    \
    X(TOTAL_RESERVED, "Total Reserved")                                                                      \
    X(MEMORY_DEVICE_TYPE, "Device Type")                                                                     \
    X(MEMORY_DEVICE_ID, "Device Id")                                                                         \
    X(NAME, "name")                                                                                          \
    X(LABELS, "labels")                                                                                      \
    X(SORT_INDEX, "sort_index")                                                                              \
    X(LANE_OF, "lane_of")                                                                                    \
    X(ORIGINAL_NAME, "original name")                                                                        \
    X(DEVICE_TYPE, "device_type")                                                                            \
    X(STEP, "step")                                                                                          \
    X(INPUT_SHAPES, "input_shapes")                                                                          \
    X(CORRELATION_ID, "correlation_id")                                                                      \
    X(CPU_BEFORE, "cpu_memory_allocated_before")                                                             \
    X(CPU_AFTER, "cpu_memory_allocated_after")                                                               \
    X(CPU_DELTA, "cpu_memory_allocated_delta")                                                               \
    X(NPU_BEFORE, "npu_memory_allocated_before")                                                             \
    X(NPU_AFTER, "npu_memory_allocated_after")                                                               \
    X(NPU_DELTA, "npu_memory_allocated_delta")                                                               \
    X(UNFINISHED, "unfinished")                                                                              \
    X(OLD_DIMS, "Input dims")                                                                                \
    X(OLD_EXTERNAL_ID, "external id")                                                                        \
    X(ON_DEVICE, "on_device")                                                                                \
    X(ON_STREAM, "on_stream")                                                                                \
    X(MADE_BY, "made by")
#define X(sym, text) MTP__ARG_##sym,
typedef enum mtp__kineto_arg {
    MTP__KINETO_ARG_LIST(X) MTP__ARGS
} mtp__kineto_arg;
#undef X
#define MTP__ARG_BIT(sym) ((uint64_t)1 << MTP__ARG_##sym)

typedef struct mtp__kineto_member {
    mtp__json_string key;
    mtp__json_value value;
    uint32_t text; /* an array of the shape args: the id of its text */
    uint8_t arg;   /* mtp__kineto_arg */
} mtp__kineto_member;

/* A process, thread or flow id: a number or text. */
typedef struct mtp__kineto_id {
    int64_t number;
    mtp__json_string text;
    bool is_text;
} mtp__kineto_id;

enum { /* which members an event has */
    MTP__SEEN_TS = 1,
    MTP__SEEN_DUR = 2,
    MTP__SEEN_ID = 4,
    MTP__SEEN_NAME = 8,
    MTP__SEEN_CATEGORY = 16,
    MTP__SEEN_BAD_DUR = 32 /* present, but not a valid time */
};

/* One event as in the file; pointers point into the window. */
typedef struct mtp__kineto_event {
    unsigned seen;
    char phase, scope;     /* 0: none */
    unsigned clock_faults; /* a ts outside int64_t */
    bool foreign_category; /* kineto_category(): the spelling must be kept */
    int64_t ts, dur;       /* ns */
    mtp__json_string name, category;
    mtp__kineto_id pid, tid, id;
    uint64_t args;               /* a bit for each known arg present */
    uint32_t arg[MTP__ARGS];     /* index of its member */
    mtp__kineto_member *members; /* owned: args, and unknown members of the event itself */
    size_t member_count, member_room;
    mtp__buffer overflow; /* text of members beyond the limit */
} mtp__kineto_event;

typedef enum mtp__kineto_space {
    MTP__SPACE_FILE,   /* a pid and tid of the file */
    MTP__SPACE_DEVICE, /* a device and stream */
    MTP__SPACE_ASYNC   /* an id of asynchronous events */
} mtp__kineto_space;

typedef struct mtp__kineto_row_key {
    int64_t pid, tid;
    uint32_t pid_text, tid_text;
    uint64_t space; /* mtp__kineto_space */
} mtp__kineto_row_key;

typedef struct mtp__kineto_row {
    mtp__kineto_row_key key;
    uint32_t track;       /* of the model; MTP__NONE: none yet */
    uint32_t process;     /* in processes */
    uint32_t device_row;  /* file row: where its device work was put last, or MTP__NONE */
    uint32_t name;        /* text */
    uint32_t lane_of;     /* the row beside which our writer put this one so that it nests; MTP__NONE: none */
    bool has_cpu;         /* its track has a span of a CPU category */
    bool made;            /* its contents were generated by our writer, which will generate them again */
    int64_t sort_index;   /* INT64_MIN: none */
    int64_t last_ns;      /* latest end on it */
    int64_t last_pair_ns; /* of begin and end events */
    uint64_t cpu_spans, other_spans; /* by category */
} mtp__kineto_row;

typedef struct mtp__kineto_process {
    mtp__process model;
    int64_t device; /* index from its device work, -1: none */
    bool described; /* has a name, labels or an index */
    bool is_device; /* according to its labels */
    uint64_t cpu_spans, other_spans;
} mtp__kineto_process;

/* A begin or end event. */
typedef struct mtp__kineto_pair {
    int64_t ts, end;
    uint32_t track, name, detail;
    uint32_t args;  /* of an end: text */
    uint32_t under; /* the enclosing begin, or MTP__NONE */
    uint32_t order;
    uint8_t category, flags;
    bool is_end, ended;
} mtp__kineto_pair;

/* A node of an execution trace. */
typedef struct mtp__kineto_node {
    uint64_t id, parent;
    int64_t step, end;
    uint32_t track, name, detail;
    uint8_t category, flags;
} mtp__kineto_node;

typedef struct mtp__kineto_unfinished {
    uint32_t span, row;
} mtp__kineto_unfinished;

#ifndef MTP__KINETO_CACHE
#define MTP__KINETO_CACHE 4096u /* entries of each cache */
#endif

typedef struct mtp__kineto_cached {
    const char *bytes; /* borrowed from the trace's texts */
    uint32_t length, text;
} mtp__kineto_cached;

typedef struct mtp__kineto {
    mtp__json json;
    mtp__window window;
    const char *at; /* in the window: the next byte to parse */
    mtp_trace *trace;
    mtp__kineto_event event;
    bool no_memory;       /* latched */
    uint64_t arg_context; /* event.c: context of the next prediction */
    uint64_t events, skipped;
    uint64_t reported;               /* bytes at the last call of progress */
    const mtp_open_options *options; /* borrowed, or NULL */

    mtp__buffer scratch, rest;           /* for strings; for args */
    mtp__hash_map shapes, stacks, metas; /* of the trace: what is there, its index */
    mtp__hash_map rows_by_key;           /* mtp__kineto_row_key -> its index */
    mtp__pair_map processes_by_pid;      /* (pid, its text) -> its index */
    mtp__kineto_row *rows;               /* owned */
    mtp__pair_map devices;          /* (1 + process, its device): index in the trace; (0, index): in use */
    bool has_step_scopes;           /* seen before "mtprofSteps" */
    int64_t next_device;            /* lower indices are in use */
    mtp__kineto_process *processes; /* owned */
    mtp__kineto_pair *pairs;        /* owned */
    mtp__kineto_unfinished *unfinished; /* owned: complete events without a duration */
    uint32_t *frames;                   /* owned: of the current stack */
    mtp__kineto_node *nodes;            /* owned */
    size_t node_count, node_room;
    uint64_t document_pid, document_start_ms; /* of an execution trace */
    size_t row_count, row_room, process_count, process_room, pair_count, pair_room, unfinished_count,
        unfinished_room, frame_count, frame_room;
    bool pairs_disordered;
    int64_t last_pid, last_tid; /* of the last file row, if both are numbers */
    uint32_t last_row;
    struct {
        char bytes[32];
        size_t length;
        mtp__category category;
    } last_category;
    uint32_t detail_cache[256]; /* of the trace's details; 0: none */
    uint8_t arg_slot[256];      /* by hash of the spelling: mtp__kineto_arg */
    mtp__kineto_cached text_cache[MTP__KINETO_CACHE], array_cache[MTP__KINETO_CACHE];
} mtp__kineto;

/* event.c */
void mtp__kineto_event_init(mtp__kineto *k);
const char *mtp__kineto_event_parse(mtp__kineto *k, const char *p); /* p: at the brace */

/* args.c: each returns false and takes nothing if the arg is absent or has another type. */
bool mtp__kineto_signed(const mtp__kineto *k, mtp__kineto_arg arg, int64_t *out);
bool mtp__kineto_unsigned(const mtp__kineto *k, mtp__kineto_arg arg, uint64_t *out);
bool mtp__kineto_arg_text(mtp__kineto *k, mtp__kineto_arg arg, uint32_t *out);
/* Appends "key": value. */
void mtp__kineto_member_text(mtp__buffer *b, const mtp__kineto_member *m);
/* The members not in `taken` as JSON text; returns its id. At most once per event. */
uint32_t mtp__kineto_rest(mtp__kineto *k, uint64_t taken);
/* The detail of a span; 0 if it needs none. */
uint32_t mtp__kineto_detail(mtp__kineto *k, mtp__category category, uint32_t number, uint64_t taken,
                            uint8_t *flags);
mtp__category mtp__kineto_category(mtp__kineto *k);

/* about.c: the value of "mtprof" */
/* A row of "mtprofMemory": a tag; anything else is skipped. */
void mtp__kineto_memory_row(mtp__kineto *k, const mtp__json_value *row);
/* A row of "mtprofSteps": a step, unless there are scopes for steps. */
void mtp__kineto_step_row(mtp__kineto *k, const mtp__json_value *row);
void mtp__kineto_about(mtp__kineto *k, const mtp__json_value *object);

/* add.c */
void mtp__kineto_add(mtp__kineto *k);
/* The flags implied by an event's name; *step: the number of a step. */
uint8_t mtp__kineto_flags(const mtp__kineto *k, mtp__category category, int64_t *step);

/* rows.c: rows by number; MTP__NONE: out of memory, latched. */
uint32_t mtp__kineto_row_of(mtp__kineto *k); /* of the file's pid and tid */
uint32_t mtp__kineto_row_for(mtp__kineto *k, mtp__category category,
                             uint64_t *taken);  /* for a span; has a track */
bool mtp__kineto_on_device_row(mtp__kineto *k); /* the event is on a device's row, or names a device */
uint32_t mtp__kineto_row_any(mtp__kineto *k);   /* for anything but spans; has a track */
uint32_t mtp__kineto_row_async(mtp__kineto *k); /* has a track */
bool mtp__kineto_describe(mtp__kineto *k);      /* a metadata event; false: of another type */
void mtp__kineto_rows_finish(mtp__kineto *k);

/* nodes.c: adds the node in k->event; finishes when all have been added. */
void mtp__kineto_node_add(mtp__kineto *k);
void mtp__kineto_nodes_finish(mtp__kineto *k);

/* pairs.c */
void mtp__kineto_pair_add(mtp__kineto *k, uint32_t row, bool is_end, uint64_t taken);
void mtp__kineto_pairs_finish(mtp__kineto *k);

/* text.c */
uint32_t mtp__kineto_text(mtp__kineto *k, const char *bytes, size_t length);
uint32_t mtp__kineto_string(mtp__kineto *k, const mtp__json_string *s);
uint32_t mtp__kineto_json(mtp__kineto *k, const mtp__json_value *v); /* in canonical form */
uint32_t mtp__kineto_shape(mtp__kineto *k, const mtp__shape *shape);
uint32_t mtp__kineto_stack_add(mtp__kineto *k, uint32_t parent, uint32_t frame);
void mtp__kineto_meta(mtp__kineto *k, const char *key, size_t key_length, const mtp__json_value *v);

/* Room for one more item in a growing list. false: out of memory, latched. */
bool mtp__kineto_room(mtp__kineto *k, void **list, size_t *room, size_t count, size_t size);
#define MTP__KINETO_ROOM(k, list, room, count)                                                               \
    ((count) < (room) || mtp__kineto_room((k), (void **)(void *)&(list), &(room), (count), sizeof *(list)))
#endif
