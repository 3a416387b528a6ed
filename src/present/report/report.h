/* present/report/report.h - shared by the parts of the HTML report: one file that opens anywhere, offline.
 *
 *     report.c     the file: the page around the data, and which data a trace has
 *     blob.c       data in a page: compressed, as base64; columns of numbers
 *     plan.c       which spans are shown on which row, and their labels
 *     spans.c      the spans as columns, their shapes and stacks, links between them
 *     levels.c     what each row looks like from afar
 *     flame.c      calls merged by their callers: the flame graph
 *     head.c       what the page shows first: rows, steps, metadata
 *     memory.c     memory over time
 *     ranks_page.c the ranks of a job, compared
 *     points.c     the same for a timeline that somebody else computed
 *     page/        the page itself: HTML, CSS and JavaScript, embedded at build time by tools/embed_page
 *
 * All data is inside compressed blobs, so no text of a trace is ever part of the page's HTML: there is nothing
 * to escape. page/data.js reads what blob.c writes. One thread writes one report.
 */
#ifndef MTP_PRESENT_REPORT_REPORT_H
#define MTP_PRESENT_REPORT_REPORT_H
#include <zlib.h>
#include "base/json_out.h"
#include "base/pair_map.h"
#include "trace/trace.h"

/* ----------------------------------------------------------------------------------------------- blobs */

#define MTP__BLOB_BYTES 49152u /* a multiple of 3, so that base64 has no padding inside */

/* `<script type="application/octet-stream" id="ID-TRACE">` and base64 of deflated bytes. */
typedef struct mtp__blob {
    mtp__out *o; /* borrowed */
    z_stream z;
    bool failed;
    uint32_t used;
    unsigned char buffer[MTP__BLOB_BYTES];
} mtp__blob;

mtp_status mtp__blob_begin(mtp__blob *b, mtp__out *o, const char *id, unsigned trace);
bool mtp__blob_sink(void *blob, const void *bytes, size_t length); /* a mtp_sink */
mtp_status mtp__blob_end(mtp__blob *b,
                         mtp_status status); /* always frees; returns status, or why it failed */

/* Numbers: a name of at most 8 letters, their count, then their bytes plane by plane, the lowest bytes first: planes
 * compress better than numbers one by one. Planes that are all zero at the top are left out. */
void mtp__blob_column(mtp__blob *b, const char *name, const uint64_t *values, uint32_t count);
void mtp__blob_bytes_column(mtp__blob *b, const char *name, const uint8_t *values,
                            uint32_t count); /* one plane */

/* Negative numbers, small ones first: 0, -1, 1, -2, ... */
static inline uint64_t mtp__zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

/* ------------------------------------------------------------------------------------------------ plan */

/* A row of the timeline: spans that nest. A track, or an extra one for those that do not nest there. */
typedef struct mtp__report_row {
    uint32_t track, lane;  /* lane 0: the track's own */
    uint32_t first, count; /* in mtp__plan.span */
    uint32_t depth;        /* levels */
} mtp__report_row;

typedef struct mtp__label {
    uint32_t name, category_text; /* text */
    uint8_t category;
    bool is_module;
} mtp__label;

typedef struct mtp__plan {
    const mtp_trace *t; /* borrowed */
    mtp__report_row *rows;
    uint32_t row_count;
    uint32_t *span;  /* by place: rows one after the other */
    uint32_t *place; /* by span; MTP__NONE: left out */
    uint32_t *label; /* by place */
    uint16_t *depth; /* by place, from 0 */
    uint32_t count;  /* places */
    mtp__label *labels;
    uint32_t label_count, label_room;
    mtp__pair_map label_of; /* (name, category and its spelling) -> label */
    int64_t least_ns;       /* shorter spans are left out; 0: none are */
    uint32_t left_out;
    uint64_t *scratch; /* `count` numbers */
} mtp__plan;

mtp_status mtp__plan_init(mtp__plan *p, const mtp_trace *t, uint64_t max_spans);
void mtp__plan_fini(mtp__plan *p); /* {0} is fine */

/* ----------------------------------------------------------------------------------------------- parts */

mtp_status mtp__report_head(const mtp__plan *p, mtp__blob *b, const char *name,
                            const mtp_report_options *options);
mtp_status mtp__report_labels(const mtp__plan *p, mtp__blob *b);
mtp_status mtp__report_levels(const mtp__plan *p, mtp__blob *b);
mtp_status mtp__report_spans(const mtp__plan *p, mtp__blob *b);
mtp_status mtp__report_details(const mtp__plan *p, mtp__blob *b);
mtp_status mtp__report_links(const mtp__plan *p, mtp__blob *b);
mtp_status mtp__report_flame(const mtp__plan *p, mtp__blob *b);
mtp_status mtp__report_memory(const mtp__plan *p, mtp__blob *b);
void mtp__report_categories(
    mtp__out *o); /* the beginning of what mtp__report_memory writes, up to the devices */
mtp_status mtp__report_counters(const mtp__plan *p, mtp__blob *b);
mtp_status mtp__report_ranks(const mtp_ranks *ranks, mtp__blob *b);

/* The page, by tools/embed_page: up to the first blob, the scripts behind it, the end. */
extern const char mtp__page_top[], mtp__page_script[], mtp__page_end[];
#endif
