/* analyze/steps.h - mtp_steps (mtprof_trace.h) inside.
 *
 *   steps.c            what is a step, what counts as busy, times
 *   steps_gaps.c       the longest stretches without work
 *   steps_outliers.c   steps unlike the others, and what differs in them
 */
#ifndef MTP_ANALYZE_STEPS_H
#define MTP_ANALYZE_STEPS_H
#include "trace/facts.h"

#define MTP__GAPS 64u

typedef struct mtp__gap_list {
    mtp_step_gap gap[MTP__GAPS]; /* longest first */
    uint32_t count;
    uint32_t row; /* while they are gathered: rows before it are over */
} mtp__gap_list;

struct mtp_steps {
    mtp_step_row *rows;      /* owned: by start */
    uint32_t count, written; /* written: in JSON and CSV */
    bool whole_trace;
    int64_t first_ns; /* of the trace */
    mtp_step_times mean, p50, max;
    mtp__gap_list gaps[2]; /* of all, of the device */
};

/* What steps.c knows of a trace, as the others ask for it. */
typedef struct mtp__step_view {
    const mtp_trace *t;  /* borrowed */
    uint8_t *step_names; /* owned: by text id, 1: it is ProfilerStep# and a number */
    int level;           /* that the CPU's work is counted by */
    /* Does the span keep the CPU or the device busy? */
    bool (*is_work)(const struct mtp__step_view *v, uint32_t span, bool on_device);
} mtp__step_view;

/* The row of an instant, or NULL; fast if instants come in order, track by track. */
typedef struct mtp__step_counting { /* disjoint steps by start; where they overlap, the last that started */
    mtp_step_row *rows;
    uint32_t count, at;
    bool whole; /* one row: the last instant is in it */
} mtp__step_counting;
mtp_step_row *mtp__step_row_at(mtp__step_counting *c, int64_t ts);

/* last: what ended then; next: what begins; MTP__NONE: nothing. */
void mtp__gap_add(mtp_steps *s, const mtp_trace *t, bool of_device, int64_t from, int64_t to, uint32_t last,
                  uint32_t next);
mtp_status mtp__steps_outliers(mtp_steps *s, const mtp_trace *t, const mtp__step_view *v);
#endif
