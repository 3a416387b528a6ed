/* analyze/findings/findings.h - internals of mtp_findings (mtprof_analysis.h).
 *
 *   findings.c      the table of rules, the ranking, the public calls
 *   case.c          what the rules share: the time examined, names, device work, why the device was idle
 *   say.c           texts and evidence
 *   find_device.c   idle devices: launches, synchronisation, the host, tiny kernels
 *   find_overlap.c  copies and collectives that nothing overlaps
 *   find_host.c     data loading, gaps without ops, many small ops, garbage collection
 *   find_ops.c      casts, layout copies, matrix products, backward passes, what dominates
 *   find_steps.c    steps that take far longer
 *   find_memory.c   growth, fragmentation, the peak
 *   find_trust.c    what is missing from the trace, and what the profiler costs
 *
 * A rule looks at the case and adds at most a few findings. Rules are silent in doubt: their thresholds stand
 * at the top of each file, and in docs/findings.md.
 */
#ifndef MTP_ANALYZE_FINDINGS_FINDINGS_H
#define MTP_ANALYZE_FINDINGS_FINDINGS_H
#include "analyze/memory.h"
#include "analyze/steps.h"
#include "base/hash_map.h"
#include "trace/facts.h"

#define MTP__EVIDENCE_MAX 16u
#define MTP__SHORT_NS 1e6 /* of a shorter time, nothing can be said */

typedef struct mtp__found {
    mtp_finding_row row; /* its texts are owned */
    mtp_evidence evidence[MTP__EVIDENCE_MAX];
    bool urgent; /* comes before all others: the program will fail, or the trace misleads */
    uint32_t order;
} mtp__found;

struct mtp_findings {
    const mtp_trace *trace; /* borrowed */
    mtp__found *list;       /* owned */
    uint32_t count, room;
    mtp_findings_summary summary;
};

/* -------------------------------------------------------------------------------------------- the case */

enum {                           /* what a name says; bits */
    MTP__NAME_SYNC = 1,          /* a call that waits for a device */
    MTP__NAME_LOADER = 2,        /* the scope around a DataLoader's next batch */
    MTP__NAME_CAST = 4,          /* aten::_to_copy */
    MTP__NAME_LAYOUT = 8,        /* makes a tensor contiguous */
    MTP__NAME_CLONE = 16,        /* copies; changes the layout if called by one of those */
    MTP__NAME_COLLECTIVE = 32,   /* kernels of NCCL and its kin */
    MTP__NAME_COPY_IN = 64,      /* host to device */
    MTP__NAME_COPY_OUT = 128,    /* device to host */
    MTP__NAME_PAGEABLE = 256,    /* of a copy: from or to pageable memory */
    MTP__NAME_PLAIN_FLOAT = 512, /* a matrix product that does not use tensor cores */
    MTP__NAME_PRODUCT = 1024,    /* an op that multiplies matrices */
    MTP__NAME_GC = 2048,         /* Python's garbage collector */
    MTP__NAME_OPTIMIZER = 4096,  /* Optimizer.step#... */
    MTP__NAME_LAUNCH = 8192,     /* a call that starts device work */
    MTP__NAME_TO = 16384         /* aten::to, which asks for a cast */
};

typedef enum mtp__work_kind {
    MTP__WORK_KERNEL,
    MTP__WORK_COLLECTIVE,
    MTP__WORK_COPY_IN,
    MTP__WORK_COPY_OUT,
    MTP__WORK_OTHER /* copies within devices, sets */
} mtp__work_kind;

typedef struct mtp__work {
    int64_t start, end; /* within the time examined */
    uint32_t span;
    uint32_t call; /* that launched it; MTP__NONE: unknown */
    uint8_t kind;
} mtp__work;

typedef enum mtp__idle_cause {
    MTP__IDLE_UNKNOWN,
    MTP__IDLE_OUTLIER, /* in a step that is a finding of its own */
    MTP__IDLE_LOADER,  /* blame: the loader's scope */
    MTP__IDLE_SYNC,    /* blame: the call that had waited for the device to run dry */
    MTP__IDLE_HOST,    /* the host launched the next work too late */
    MTP__IDLE_QUEUED   /* the next work was launched before */
} mtp__idle_cause;

/* A period without work: of all devices; in a trace without device work, of all threads. */
typedef struct mtp__idle {
    int64_t start, end;
    uint32_t after, before; /* spans: what ended, what began; MTP__NONE: the edge */
    uint32_t blame;         /* span */
    uint32_t call;          /* that launched what began; MTP__NONE: unknown */
    uint8_t cause;
} mtp__idle;

typedef struct mtp__interval {
    int64_t start, end;
    uint32_t span;
} mtp__interval;

typedef struct mtp__case {
    const mtp_trace *t;     /* borrowed */
    mtp_findings *findings; /* borrowed */
    mtp_findings_options options;
    mtp_steps *steps;    /* owned */
    uint32_t first_step; /* earlier ones are warm-up */
    int64_t from, to;    /* the time examined */
    double whole;        /* its length without what is left out, ns */
    bool is_stepped;     /* it has two steps or more: one alone is all of the program, its start included */
    bool has_rest;       /* the last one is what follows the last step() */
    bool
        has_left_out; /* steps that are far longer, which are findings of their own; pauses of the recording */
    uint16_t *names;  /* owned: by text, MTP__NAME_ bits */
    uint8_t *wanted;  /* owned: by track: of the process examined */
    uint32_t main_track; /* the busiest thread; MTP__NONE: there is none */
    uint32_t *owner;     /* owned: by span: the nearest op or call around it, or MTP__NONE */
    int64_t *own;        /* owned: by span: an op's or call's time less that of those inside; wraps */
    mtp__work *work;     /* owned: by start */
    uint32_t works, work_room;
    mtp__idle *idle; /* owned: in order */
    uint32_t idles, idle_room;
    mtp__interval *loads; /* owned: loaders' scopes on wanted threads, by start */
    uint32_t load_count, load_room;
    double device_busy; /* ns */
    bool has_device, has_ops;
    bool trains; /* or loads data: with ops and without this, it may serve requests, and wait for them */
    mtp__sources sources;
} mtp__case;

mtp_status mtp__case_init(mtp__case *c, const mtp_trace *t, mtp_findings *findings);
void mtp__case_fini(mtp__case *c);
mtp_status mtp__case_devices(mtp__case *c); /* fills work and idle of devices */

static inline uint16_t mtp__case_name(const mtp__case *c, uint32_t span)
{
    return c->names[c->t->name[span]];
}
/* An op, not a step, or a call of a device's runtime. */
static inline bool mtp__case_is_work(const mtp__case *c, uint32_t span)
{
    uint8_t category = c->t->category[span];
    return (category == MTP__CATEGORY_CPU_OP && (c->t->flags[span] & MTP__SPAN_STEP) == 0) ||
           category == MTP__CATEGORY_CUDA_RUNTIME || category == MTP__CATEGORY_CUDA_DRIVER;
}
/* The step in which an instant lies, or NULL. */
const mtp_step_row *mtp__case_step(const mtp__case *c, int64_t ts);
bool mtp__case_is_late(const mtp_step_row *row); /* far longer than the others */
/* Does it lie in an outlying step, or between the cycles of a schedule? */
bool mtp__case_in_left_out(const mtp__case *c, int64_t ts);
static inline bool mtp__case_is_left_out(const mtp__case *c, int64_t ts)
{
    return c->has_left_out && mtp__case_in_left_out(c, ts);
}
/* Where an interval that begins in what is examined runs into what is left out; else its end. */
int64_t mtp__case_clip(const mtp__case *c, int64_t start, int64_t end);
/* The part of an interval that is within the time examined; 0: none. */
static inline double mtp__case_within(const mtp__case *c, int64_t start, int64_t end)
{
    int64_t a = start > c->from ? start : c->from, b = end < c->to ? end : c->to;
    if (b <= a || mtp__case_is_left_out(c, a))
        return 0;
    return (double)(c->has_left_out ? mtp__case_clip(c, a, b) : b) - (double)a;
}
static inline double mtp__case_time(const mtp__case *c, uint32_t span)
{
    return mtp__case_within(c, c->t->start[span], c->t->end[span]);
}
/* Was the thread that launched what ended a gap in ops and calls for most of it? */
bool mtp__case_is_launching(const mtp__case *c, const mtp__idle *gap);
/* An enclosing span whose name has one of these bits; MTP__NONE: none. */
uint32_t mtp__case_around(const mtp__case *c, uint32_t span, uint16_t bits);
/* The time of the first kind of work during which none of the second runs. Kinds: bits 1 << mtp__work_kind. */
double mtp__case_exposed(const mtp__case *c, unsigned kinds, unsigned hidden_by);
/* A program that waits may do so for requests: then there is nothing to be won. */
static inline bool mtp__case_may_serve(const mtp__case *c)
{
    return c->has_ops && !c->trains;
}
/* Is the device what takes the time? Then faster kernels help. */
static inline bool mtp__case_is_device_bound(const mtp__case *c)
{
    return c->device_busy >= 0.5 * c->whole;
}

/* -------------------------------------------------------------------------------------------- evidence */

/* Sums of calls that are alike: by name and source line. */
typedef struct mtp__alike {
    mtp_text what, source; /* interned or static: equal ones have the same address */
    uint64_t apart;        /* others are not alike, whatever their texts */
    uint64_t calls;
    double total;       /* ns */
    int64_t start, end; /* of the longest */
    uint32_t span;
    int64_t bytes;
} mtp__alike;

typedef struct mtp__evidence { /* {0} is empty */
    mtp__hash_map map;
    bool failed; /* out of memory, latched */
} mtp__evidence;
void mtp__evidence_fini(mtp__evidence *tally);
/* Adds a span that took ns, of the time examined. lines: by source line, too. */
void mtp__evidence_span(mtp__evidence *tally, const mtp__case *c, uint32_t span, double ns, bool lines);
/* Adds an interval in which nothing ran: by what it is in. */
bool mtp__gap_imports(const mtp__case *c, const mtp__idle *gap); /* is a module imported meanwhile? */
void mtp__evidence_gap(mtp__evidence *tally, const mtp__case *c, const mtp__idle *gap, double ns);
void mtp__evidence_add(mtp__evidence *tally, mtp__alike one);

/* -------------------------------------------------------------------------------------------- findings */

typedef struct mtp__words { /* {0} is empty */
    char *bytes;            /* owned */
    size_t length, room;
    bool failed; /* out of memory, latched */
} mtp__words;
void mtp__say(mtp__words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mtp__say_time(mtp__words *w, double ns);                         /* "1.25 ms" */
void mtp__say_share(mtp__words *w, double share);                     /* "12%" */
void mtp__say_bytes(mtp__words *w, double bytes);                     /* "1.5 GB" */
void mtp__say_of_whole(mtp__words *w, const mtp__case *c, double ns); /* "1 ms of 8 ms (12%)" */
void mtp__say_count(mtp__words *w, uint64_t count, const char *one, const char *many);
/* A name, shortened: a kernel without its template arguments and parameters. */
void mtp__say_name(mtp__words *w, mtp_text name);
void mtp__say_source(mtp__words *w, mtp_text source); /* " (at train.py(12): f)", or nothing */

/* A finding in the making. */
typedef struct mtp__draft {
    const char *id;
    mtp__words title, text, advice; /* the finding's, once it is added */
    mtp_finding_kind kind;
    mtp_confidence confidence;
    double spent, gain; /* ns */
    double of;          /* what the gain is a share of; 0: the whole */
    int64_t bytes;
    bool urgent;
} mtp__draft;
void mtp__draft_free(mtp__draft *draft); /* its texts; nothing if they were taken */
/* Takes the texts, whether it succeeds or not. A finding about time is dropped if its gain is too small,
 * or the time examined too short. */
mtp_status mtp__find(mtp__case *c, mtp__draft *draft, mtp__evidence *evidence);
/* Of a tally: the greatest, or NULL. */
const mtp__alike *mtp__evidence_first(const mtp__evidence *tally);

typedef mtp_status mtp__rule(mtp__case *c);
mtp__rule mtp__find_launches, mtp__find_syncs, mtp__find_host_gaps, mtp__find_tiny_kernels,
    mtp__find_idle_device, mtp__find_copies, mtp__find_collectives, mtp__find_loading, mtp__find_gaps,
    mtp__find_collector, mtp__find_casts, mtp__find_layouts, mtp__find_plain_products, mtp__find_odd_products,
    mtp__find_backward, mtp__find_dominant, mtp__find_optimizer, mtp__find_outliers, mtp__find_growth,
    mtp__find_fragments, mtp__find_peak, mtp__find_losses, mtp__find_unfinished, mtp__find_no_device,
    mtp__find_cost;
#endif
