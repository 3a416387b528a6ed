/* analyze/memory.h - internals of mtp_memory_timeline (mtprof_analysis.h): blocks, and their changes in order.
 *
 *     memory_context.c   where in the program each memory event happened: one walk over the tracks
 *     memory_source.c    the op and the source line that a block was allocated for
 *     memory.c           matches allocations with frees and tags; categories, the peak
 *
 * Linear in spans and memory events. A timeline never changes after create().
 */
#ifndef MTP_ANALYZE_MEMORY_H
#define MTP_ANALYZE_MEMORY_H
#include "trace/trace.h"

#define MTP__DEVICES_MAX 64 /* more are read, but not named */
#define MTP__DEVICE_NAME 24

typedef enum mtp__memory_action { /* torch's numbers */
    MTP__PREEXISTING = 1,
    MTP__CREATE = 2,
    MTP__NEW_TAG = 3,
    MTP__DESTROY = 4
} mtp__memory_action;

typedef struct mtp__block {
    uint64_t address;
    int64_t bytes;          /* > 0 */
    int64_t created, freed; /* INT64_MIN: before the trace; INT64_MAX: not during it */
    uint32_t made, ended;   /* contexts; MTP__NONE: none */
    uint8_t first, last;    /* categories, initial and final */
    bool tagged;
    uint32_t home; /* the process whose address it is (mtp__trace_homes) */
} mtp__block;

/* Changes in order. Preexisting blocks (created is INT64_MIN) are not among them. */
typedef struct mtp__change {
    int64_t ts;
    uint32_t block;
    uint8_t action;   /* mtp__memory_action */
    uint8_t was, now; /* of NEW_TAG */
} mtp__change;

typedef struct mtp__memory_device {
    uint32_t type, index; /* index: 0 if the device has none */
    uint64_t traffic;
    char name[MTP__DEVICE_NAME];
} mtp__memory_device;

struct mtp_memory_timeline {
    const mtp_trace *trace; /* borrowed */
    mtp__memory_device device;
    mtp__memory_device devices[MTP__DEVICES_MAX];
    uint32_t device_count;
    mtp__block *blocks;   /* owned */
    mtp__change *changes; /* owned */
    uint32_t block_count, change_count;
    mtp_memory_block *peak; /* owned: largest first */
    mtp_memory_info info;
};

/* Iterates over the changes. sizes: by category. */
typedef struct mtp__replay {
    const mtp_memory_timeline *timeline;
    uint32_t next; /* change */
    int64_t total, sizes[MTP_MEMORY_CATEGORIES];
} mtp__replay;
void mtp__replay_init(mtp__replay *r,
                      const mtp_memory_timeline *timeline); /* includes the preexisting blocks */
bool mtp__replay_next(mtp__replay *r);                      /* one change; false: no more */

/* When the first change happened: preexisting blocks are shown at that time. */
int64_t mtp__timeline_start(const mtp_memory_timeline *timeline);

/* The category of the block before (DESTROY, NEW_TAG) and after (CREATE, NEW_TAG) the change. */
uint8_t mtp__change_was(const mtp_memory_timeline *timeline, const mtp__change *change);
uint8_t mtp__change_now(const mtp_memory_timeline *timeline, const mtp__change *change);

/* ------------------------------------------------------------------------------------------- contexts */

enum { /* of a context */
    MTP__IN_BACKWARD = 1,
    MTP__IN_OPTIMIZER = 2, /* scope is then the annotation */
    MTP__IN_LOADER = 4,    /* scope is then the annotation */
    MTP__IN_FORWARD = 8    /* the top-level op has a backward op */
};

typedef struct mtp__context {
    uint32_t op;    /* the innermost op, else the innermost span; MTP__NONE */
    uint32_t top;   /* the top-level op; MTP__NONE */
    uint32_t scope; /* MTP__NONE */
    uint32_t flags;
} mtp__context;

/* The op that a block was allocated for: the nearest ancestor that does more than allocate. */
uint32_t mtp__memory_maker(const mtp_trace *t, uint32_t span);

typedef struct mtp__sources { /* source lines */
    const mtp_trace *t;       /* borrowed */
    uint32_t *stacks;         /* owned: by span, as mtp__stacks_of; NULL: no stacks */
    size_t bytes;
} mtp__sources;
mtp_status mtp__sources_init(mtp__sources *s, const mtp_trace *t);
void mtp__sources_fini(mtp__sources *s);
bool mtp__of_framework(mtp_text frame); /* a frame, or a function's name: not of the program */
mtp_text mtp__source_of(const mtp__sources *s, uint32_t span); /* "": not recorded */

/* out[i] for each memory event trace->memory[events[i]], given in order of time. */
mtp_status mtp__memory_contexts(const mtp_trace *t, const uint32_t *events, uint32_t count,
                                mtp__context *out);
#endif
