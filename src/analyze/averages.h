/* analyze/averages.h - internals of mtp_averages (mtprof_analysis.h), for present/. */
#ifndef MTP_ANALYZE_AVERAGES_H
#define MTP_ANALYZE_AVERAGES_H
#include <mtprof.h>
#include "base/intern.h"

typedef struct mtp__averages_row {
    mtp_row shown; /* the public part; its texts are in mtp_averages.text */
    bool nested;   /* its first event has a parent: omitted from top_level_events_only */
} mtp__averages_row;

struct mtp_averages {
    mtp__averages_row *row; /* owned: in order of their first events */
    size_t count;
    size_t written;  /* rows written to JSON and CSV */
    size_t left_out; /* Python functions without a row */
    mtp_row total;
    mtp__intern text;    /* owned: keys, overloads, shapes, frames */
    const char **frames; /* owned: the rows' stacks */
    double flops_coverage;
    bool has_memory, has_flops, has_stack; /* recorded, so a table shows the columns */
    bool has_device;                       /* device work was recorded */
    char device_name[16];                  /* "CUDA", "NPU", ... */
    uint64_t pid;                          /* of the recorded process; 0: unknown */
    uint64_t lost_definitions;             /* names and other definitions that the recording lost */
};

/* The number to sort rows by, under torch's name for it; cuda, xpu, npu and privateuse1 are read as device.
 * MTP_E_ARG: no such attribute; the error lists the valid ones. */
typedef double mtp__row_number(const mtp_row *row);
mtp_status mtp__row_attribute(const char *name, mtp__row_number **out);

/* Row numbers 0 to count - 1, largest value first, ties in row order. `order` has room for count. */
mtp_status mtp__averages_order(const mtp_averages *averages, const char *attribute, size_t *order);
#endif
