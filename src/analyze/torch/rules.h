/* analyze/torch/rules.h - how torch summarises a trace: which events share a row, how they nest, who owns
 * device work.
 *
 * Averages, events, diffs and stacks all use these parts, so that they agree:
 *
 *   group.c    which row an event belongs to: names, classes, shapes, overloads, stacks
 *   device.c   the device work that each CPU span launched; spans that torch moves to another thread
 *   around.c   torch's other tree: what was open when a call outside any op was made
 *   stack.c    the stack an event is shown with
 *   memory.c   bytes allocated while a span ran, and outside any span
 *   nest.c     the walk: nesting, absorbed children, self times, sums
 *   fast.c     the walk of plain recordings, without a stack
 *   exact.c    torch's own floating-point sums, for traces that torch wrote; the order of its list
 *
 * ../averages.c calls them in order; ../events*.c exposes what the walk finds, event by event; export_stacks
 * (present/stacks.c) is a list of those, and folded stacks (present/folded.c) have the same times.
 */
#ifndef MTP_ANALYZE_TORCH_RULES_H
#define MTP_ANALYZE_TORCH_RULES_H
#include "analyze/averages.h"
#include "base/hash_map.h"
#include "trace/facts.h"

/* A row's events share their class: torch's (device_type, is_user_annotation). */
enum {
    MTP__CLASS_CPU = 0,
    MTP__CLASS_CPU_ANNOTATION = 1,
    MTP__CLASS_PYTHON = 2, /* Python functions without a row; otherwise they have class CPU */
    MTP__CLASS_DEVICE = 3,
    MTP__CLASS_DEVICE_ANNOTATION = 4,
    MTP__CLASSES = 5,
    MTP__CLASS_NONE = 5 /* not one of torch's events */
};

/* The sums of a row. The plain walk only touches the first cache line. */
typedef struct mtp__sum {
    int64_t count;
    int64_t total_ns, self_ns;
    int64_t min_ns, max_ns;
    int64_t first_start, first_end; /* of its first event, by (start, -end, span) */
    uint32_t first_span;
    uint32_t key; /* text */
    double total_us, self_us, device_us, self_device_us;
    int64_t memory[2], self_memory[2]; /* CPU, device */
    uint64_t flops;
    int64_t op_ns, known_ns; /* self time of ops, and of those whose FLOPs are known */
    int64_t p50_ns, p99_ns;
    int64_t open_ns, open_start; /* of its unfinished spans, on the last track visited */
    uint32_t open_track;
    uint32_t overload, shape, stack; /* text; stack: frame ids */
    uint8_t class;
    bool nested;
} mtp__sum;

/* ---------------------------------------------------------------------------------------- whole numbers */

/* A file may hold any times and sizes: overflow wraps, harmlessly. */
static inline int64_t mtp__plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t mtp__minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline void mtp__count(int64_t *sum, int64_t more)
{
    *sum = mtp__plus(*sum, more);
}

static inline int64_t mtp__duration(const mtp_trace *t, uint32_t span)
{
    return mtp__minus(t->end[span], t->start[span]);
}

/* ------------------------------------------------------------------------------------------ scratch */

/* Zeroed memory for one item per span: huge pages when large. */
typedef struct mtp__scratch {
    void *p; /* owned mapping */
    size_t bytes;
} mtp__scratch;
bool mtp__scratch_make(mtp__scratch *s, size_t count, size_t size);
void mtp__scratch_free(mtp__scratch *s);

/* ------------------------------------------------------------------------------------------ grouping */

#define MTP__KEY_NONE (UINT32_MAX - 1) /* torch omits events of this name */

typedef struct mtp__group {
    const mtp_trace *t;
    const mtp_averages_options *options;
    mtp__intern *text; /* borrowed: the averages' */
    bool plain;        /* rows by key and class only */
    bool split;        /* names include overloads: aten::add.Tensor */
    bool failed;       /* out of memory, latched */
    uint8_t class_of[MTP__CATEGORIES];
    uint32_t trace_category;  /* text "Trace": spans of that category are not events; 0: none */
    mtp__scratch key_of;      /* uint32_t by the trace's text: key + 1, 0: not looked up yet */
    mtp__scratch overload_of; /* the same for the overload's text; by_overload_name */
    mtp__scratch shape_of;    /* uint32_t by shape: text; by_input_shape */
    mtp__scratch stack_of;    /* uint32_t by stack: text; by_stack */
    const uint32_t *stack;    /* borrowed: by span, the stack to show; NULL: its own */
    uint32_t *row_of;         /* owned: by key * MTP__CLASSES + class: row + 1 */
    uint32_t row_of_room;
    mtp__intern rows; /* else: by mtp__group_key, id: row + 1 */
    mtp__sum *sum;    /* owned */
    uint32_t sums, room;
} mtp__group;

mtp_status mtp__group_init(mtp__group *g, const mtp_trace *t, const mtp_averages_options *options,
                           mtp__intern *text);
void mtp__group_fini(mtp__group *g);
void mtp__group_reset(mtp__group *g); /* drops the rows, keeps the names */
uint32_t mtp__group_new_key(mtp__group *g, uint32_t name);
uint32_t mtp__group_new_row(mtp__group *g, uint32_t key, unsigned class);
uint32_t mtp__group_find_row(mtp__group *g, uint32_t key, unsigned class, uint32_t span);

static inline unsigned mtp__group_class(const mtp__group *g, uint32_t span)
{
    return g->class_of[g->t->category[span]];
}

/* A name as torch compares and groups it; MTP__KEY_NONE: filtered. */
static inline uint32_t mtp__group_key(mtp__group *g, uint32_t name)
{
    uint32_t key = ((const uint32_t *)g->key_of.p)[name];
    return __builtin_expect(key != 0, 1) ? key - 1 : mtp__group_new_key(g, name);
}

static inline uint32_t mtp__group_row(mtp__group *g, uint32_t key, unsigned class, uint32_t span)
{
    if (!g->plain)
        return mtp__group_find_row(g, key, class, span);
    uint32_t at = key * MTP__CLASSES + class;
    uint32_t row = __builtin_expect(at < g->row_of_room, 1) ? g->row_of[at] : 0;
    return __builtin_expect(row != 0, 1) ? row - 1 : mtp__group_new_row(g, key, class);
}
uint32_t mtp__group_text(mtp__group *g, const void *bytes,
                         size_t length); /* id; 0 and latched: out of memory */
size_t mtp__overload_at(mtp_text name);  /* position of the dot in aten::add.Tensor; 0: none */

/* ------------------------------------------------------------------------------------- what spans carry */

/* The device time that each span launched itself, and the threads as torch sees them. */
typedef struct mtp__launched {
    mtp__scratch us;    /* double by span; p NULL: no device work is linked */
    mtp__scratch order; /* uint32_t: CPU spans, thread by thread; p NULL: in trace order */
    struct mtp__torch_thread {
        uint32_t first, count; /* in `order`, or spans */
    } * thread;                /* owned */
    uint32_t threads;
} mtp__launched;
mtp_status mtp__launched_init(mtp__launched *l, const mtp_trace *t, bool as_torch, int64_t zero_ns);
void mtp__launched_fini(mtp__launched *l);

/* The device work that each event shows as its kernels: that of mtp__launched. */
typedef struct mtp__kernels {
    mtp__scratch by_span; /* a part of the list; by link, where ids are positions */
    mtp__hash_map by_id;  /* else */
    uint32_t *list;       /* owned: spans, id by id, in order of start */
    mtp__scratch around;  /* if some lack ids */
    bool by_link;
} mtp__kernels;
mtp_status mtp__kernels_init(mtp__kernels *k, const mtp_trace *t, bool as_torch);
void mtp__kernels_fini(mtp__kernels *k);
/* For a CPU span; returns how many; *first is borrowed. */
uint32_t mtp__kernels_of(const mtp__kernels *k, const mtp_trace *t, uint32_t span, const uint32_t **first);

/* Collected by Kineto, not by torch: runtime and driver calls, overhead. */
bool mtp__is_collected(const mtp_trace *t, uint32_t span);
/* One of those outside any op, so that torch does not know its thread. */
bool mtp__is_stray(const mtp_trace *t, uint32_t span);
/* The thread that stopped the profiler. Files do not record it: the main thread, else the busiest. MTP__NONE:
 * none. */
uint32_t mtp__main_track(const mtp_trace *t);
/* uint32_t by span: 1 + the innermost span on that thread when it began; 0: none, or not in torch's tree. The
 * caller frees *out. */
mtp_status mtp__around(const mtp_trace *t, mtp__scratch *out);

/* uint32_t by span: 1 + the forward op whose stack is shown for it; MTP__NONE: in a backward function whose
 * forward op is unknown; 0: not in a backward function. The caller frees *out. */
mtp_status mtp__forward_of(const mtp_trace *t, mtp__scratch *out);
/* uint32_t by span: index into t->stacks; or MTP__STACK_CALL and a Python span: its name, then its stack.
 * python: spans without a stack get the enclosing Python functions, as such calls. The caller frees *out. */
#define MTP__STACK_CALL 0x80000000u
mtp_status mtp__stacks_of(const mtp_trace *t, bool python, mtp__scratch *out);
/* uint32_t by span: 1 + the innermost Python function around it; 0: none. The caller frees *out. */
mtp_status mtp__python_of(const mtp_trace *t, mtp__scratch *out);

/* The frames of such a stack, innermost first, less those that torch omits. python: as for mtp__stacks_of. */
typedef struct mtp__frames {
    const mtp_trace *t;
    uint32_t call, stack; /* what is next: MTP__NONE or a Python span; index into t->stacks */
    bool python;
} mtp__frames;
static inline mtp__frames mtp__frames_of(const mtp_trace *t, bool python, uint32_t stack)
{
    bool call = (stack & MTP__STACK_CALL) != 0;
    return (mtp__frames){t, call ? stack & ~MTP__STACK_CALL : MTP__NONE, call ? 0 : stack, python};
}
bool mtp__frames_next(mtp__frames *f, uint32_t *text); /* false: that was all */

/* Prefix sums over t->memory, and which events lie inside some CPU span. */
typedef struct mtp__bytes {
    uint32_t count;
    mtp__scratch ts;     /* int64_t[count] */
    mtp__scratch sum[2]; /* int64_t[count + 1]: CPU, device */
    mtp__scratch cover;  /* int32_t[count + 1]: spans that begin less those that end here */
    uint32_t at;         /* position of the last lookup */
} mtp__bytes;
mtp_status mtp__bytes_init(mtp__bytes *b, const mtp_trace *t);
void mtp__bytes_fini(mtp__bytes *b);
/* The sum of all allocations and frees in [start, end], on any thread. */
void mtp__bytes_within(mtp__bytes *b, int64_t start, int64_t end, bool cover, int64_t out[2]);
void mtp__bytes_uncovered(mtp__bytes *b, mtp__group *g); /* the "[memory]" row */

/* ------------------------------------------------------------------------------- arithmetic like Python's */

/* torch stores microseconds since the start of the trace, from integer nanoseconds, as doubles. */
static inline double mtp__microseconds(int64_t ns, int64_t zero_ns)
{
    return (double)mtp__minus(ns, zero_ns) / 1000;
}

/* sum() of Python 3.12 and later: compensated. Two doubles, initially 0. */
static inline void mtp__add(double *high, double *low, double x)
{
    double sum = *high + x;
    *low += (*high < 0 ? -*high : *high) >= (x < 0 ? -x : x) ? (*high - sum) + x : (x - sum) + *high;
    *high = sum;
}

static inline double mtp__added(double high, double low)
{
    return high + low;
}

/* --------------------------------------------------------------------------------------------- the walk */

typedef struct mtp__walk {
    mtp__group *g;
    const mtp__launched *launched;
    mtp__bytes *bytes;        /* NULL: no memory events */
    int64_t zero_ns;          /* torch's time 0, for exact */
    bool exact;               /* mtp__exact_sums will compute the sums in us: keep what it needs */
    bool flops;               /* requested when recording */
    bool each;                /* results for each event are kept, below */
    bool only_sums;           /* with each: neither parent nor work, nor FLOPs in the sums */
    mtp__scratch row;         /* out: uint32_t by span: row + 1; 0: not an event, or absorbed */
    mtp__scratch self_us;     /* out, if exact or each: double by span */
    mtp__scratch device_us;   /* out, like self_us, if device work is linked: double[2]: total, self */
    mtp__scratch parent;      /* out, if each: uint32_t by span: 1 + its parent, absorbed or not */
    mtp__scratch self_memory; /* out, if each and there are memory events: int64_t[2] by span */
    mtp__scratch work;        /* out, if each and device work is linked: uint32_t by span: whose it has */
    mtp__scratch cost;        /* private: FLOPs by shape */
} mtp__walk;
/* Where the times of its sums begin. */
static inline int64_t mtp__walk_zero(const mtp_trace *t)
{
    return mtp__is_torchs(t) ? mtp__zero_of(t) : 0;
}
/* With torch's arithmetic for torch's files. bytes: NULL without memory events. */
static inline mtp__walk mtp__walk_of(mtp__group *g, const mtp__launched *launched, mtp__bytes *bytes)
{
    return (mtp__walk){.g = g,
                       .launched = launched,
                       .bytes = bytes,
                       .zero_ns = mtp__walk_zero(g->t),
                       .exact = mtp__is_torchs(g->t)};
}
mtp_status mtp__walk_run(mtp__walk *w);
void mtp__walk_fini(mtp__walk *w);

mtp_status mtp__exact_sums(mtp__walk *w);

/* Events in the order of torch's list, (start, -end), over all tracks. The next is heap[0], unless count is
 * 0. */
typedef struct mtp__head {
    uint32_t at, end;    /* the track's next span, and where the track ends */
    int64_t start, stop; /* of the span at `at`, as measured */
    bool last;           /* annotations come after the work they begin and end with */
    uint8_t only; /* which of a track's spans: annotations are merged separately, as trimming reorders them */
} mtp__head;
typedef struct mtp__in_order {
    const mtp__walk *w;
    mtp__head *heap; /* owned: one or more for each unfinished track */
    size_t count;
} mtp__in_order;
mtp_status mtp__in_order_init(mtp__in_order *o, const mtp__walk *w);
void mtp__in_order_next(mtp__in_order *o);
void mtp__in_order_fini(mtp__in_order *o);

/* Does everything, quantiles included, if the trace is plain enough; else *done is false, and nothing is
 * changed. */
mtp_status mtp__fast_sums(mtp__walk *w, bool *done);

/* min, p50, p99, max of each row's events. */
mtp_status mtp__spread(const mtp__walk *w);

/* By how much a device span is trimmed at each end to get measured times: Kineto widens annotations by 1 ns,
 * so that viewers nest their work in them. */
static inline int64_t mtp__trim(const mtp_trace *t, uint32_t span)
{
    return mtp__is_torchs(t) && t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION &&
           mtp__duration(t, span) >= 2;
}
#endif
