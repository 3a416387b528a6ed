/* analyze/steps.h - mtp_steps (mtprof_trace.h) inside. */
#ifndef MTP_ANALYZE_STEPS_H
#define MTP_ANALYZE_STEPS_H
#include "trace/trace.h"

struct mtp_steps {
    mtp_step_row *rows;      /* owned: by start */
    uint32_t count, written; /* written: in JSON and CSV */
    bool whole_trace;
    int64_t first_ns; /* of the trace */
    mtp_step_times mean, p50, max;
};
#endif
