/* analyze/steps.h - internals of mtp_steps (mtprof_analysis.h).
 *
 *   steps.c            what a step is, what counts as busy, times
 *   steps_gaps.c       the longest gaps without work
 *   steps_outliers.c   outlying steps, and what is different in them
 */
#ifndef MTP_ANALYZE_STEPS_H
#define MTP_ANALYZE_STEPS_H
#include "trace/facts.h"

#define MTP__GAPS 64u

typedef struct mtp__gap_list {
    mtp_step_gap gap[MTP__GAPS]; /* longest first */
    uint32_t count;
    uint32_t row; /* while gathering: earlier rows are finished */
} mtp__gap_list;

struct mtp_steps {
    mtp_step_row *rows;      /* owned: sorted by start */
    uint32_t count, written; /* written: in JSON and CSV */
    bool whole_trace;
    int64_t first_ns;                         /* of the trace */
    int64_t pid;                              /* the process whose steps these are */
    bool is_one_of_several;                   /* other processes have steps, too */
    mtp_step_times summary[MTP_STEP_MAX + 1]; /* by mtp_step_figure */
    mtp__gap_list gaps[2];                    /* of CPU and device together, of the device */
};

/* What steps.c knows about a trace, for the other parts. */
typedef struct mtp__step_view {
    const mtp_trace *t;   /* borrowed */
    uint8_t *step_names;  /* owned: by text id, 1: ProfilerStep# and a number */
    int level;            /* at which CPU work is counted */
    const mtp__track *of; /* steps and work of this track's process only; NULL: of all */
    /* Does the span keep the CPU or the device busy? */
    bool (*is_work)(const struct mtp__step_view *v, uint32_t span, bool on_device);
} mtp__step_view;

/* The tracks of the process whose steps they are. In JSON, devices belong to whoever used them. */
static inline bool mtp__step_is_of(const mtp__step_view *v, const mtp__track *track)
{
    const mtp__track *of = v->of;
    if (of == NULL || v->t->recording_count > 1)
        return of == NULL || track->part == of->part;
    return track->on_device || (track->pid == of->pid && track->pid_text == of->pid_text);
}

/* Finds the row of an instant, or NULL; fast if instants arrive in order, track by track. */
typedef struct mtp__step_counting { /* disjoint steps by start; in overlaps, the one started last */
    mtp_step_row *rows;
    uint32_t count, at;
    bool whole; /* one row: it includes the last instant */
} mtp__step_counting;
mtp_step_row *mtp__step_row_at(mtp__step_counting *c, int64_t ts);

/* Nanoseconds computed as a double, which may be beyond int64_t: the nearest there is. */
static inline int64_t mtp__whole_ns(double ns)
{
    return ns >= 0x1p63 ? INT64_MAX : ns < -0x1p63 ? INT64_MIN : (int64_t)ns;
}

/* last: what ended before the gap; next: what begins after it; MTP__NONE: nothing. */
void mtp__gap_add(mtp_steps *s, const mtp_trace *t, bool of_device, int64_t from, int64_t to, uint32_t last,
                  uint32_t next);
mtp_status mtp__steps_outliers(mtp_steps *s, const mtp_trace *t, const mtp__step_view *v);
#endif
