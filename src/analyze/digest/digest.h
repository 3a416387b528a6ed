/* analyze/digest/digest.h - internals of mtp_digest (mtprof_digest.h).
 *
 *   sum.c     the builder: sums values by entry and op; all digests are made by it
 *   make.c    a trace's steps and events -> a digest; sums; quantiles
 *   file.c    the file format: encoding within a limit of bytes, and reading
 *   odd.c     which steps took far longer than most
 *
 * A histogram has the buckets of analyze/buckets.h. An entry read from a file may have coarser ones, 1 << shift of them
 * as one; a sum is as coarse as its coarsest part.
 */
#ifndef MTP_ANALYZE_DIGEST_DIGEST_H
#define MTP_ANALYZE_DIGEST_DIGEST_H
#include <mtprof.h>
#include "analyze/buckets.h"
#include "base/hash_map.h"
#include "base/intern.h"

#define MTP__DIGEST_SHIFTS (MTP__BUCKETS_FINE + 1) /* 0 .. MTP__BUCKETS_FINE: one bucket per octave */

typedef struct mtp__digest_bucket {
    uint32_t row; /* while building */
    uint32_t bucket;
    uint64_t calls;
} mtp__digest_bucket;

typedef struct mtp__digest_row {
    mtp_digest_op shown;                 /* names == 0 while building: 1 */
    uint32_t name;                       /* text; 0: "(others)" */
    uint32_t entry;                      /* while building */
    uint32_t first_bucket, bucket_count; /* in order of time; none if min and max are all there is */
} mtp__digest_row;

typedef struct mtp__digest_part {
    mtp_digest_entry shown;
    uint32_t job, host; /* text */
    uint32_t first_row;
    uint32_t shift; /* the histograms of its rows are this coarse */
} mtp__digest_part;

struct mtp_digest {
    mtp__digest_part *part;     /* owned: by job, rank, step, host */
    mtp__digest_row *row;       /* owned: by entry; within it as shown */
    mtp__digest_bucket *bucket; /* owned: by row, then bucket */
    mtp__intern text;           /* names, jobs, hosts */
    uint32_t part_count, row_count, bucket_count;
    uint64_t damaged;
};

/* -------------------------------------------------------------------------------------------- builder */

typedef struct mtp__digest_sum {
    mtp_digest *d;         /* owned until finished */
    mtp__hash_map parts;   /* job and host, rank, step -> index + 1 */
    mtp__hash_map rows;    /* entry and device, name -> index + 1 */
    mtp__hash_map buckets; /* row, bucket -> mtp__digest_bucket */
    uint32_t part_room, row_room;
    bool failed; /* out of memory: latched */
} mtp__digest_sum;

bool mtp__digest_sum_init(mtp__digest_sum *s);
void mtp__digest_sum_fini(mtp__digest_sum *s);
uint32_t mtp__digest_text(mtp__digest_sum *s, const char *bytes, size_t length); /* 0: "" */
/* Adds an entry's own figures to that of the same job, host, rank and step; its index. MTP__DIGEST_NONE: out of memory.
 * `of`: texts are ignored in favour of job and host. */
#define MTP__DIGEST_NONE UINT32_MAX
uint32_t mtp__digest_sum_part(mtp__digest_sum *s, uint32_t job, uint32_t host, const mtp_digest_entry *of,
                              uint32_t shift);
/* Adds a row's figures; shown.name is ignored in favour of name (0: others). Its index. */
uint32_t mtp__digest_sum_row(mtp__digest_sum *s, uint32_t part, uint32_t name, const mtp_digest_op *of);
void mtp__digest_sum_calls(mtp__digest_sum *s, uint32_t row, uint32_t bucket, uint64_t calls);
/* Sorts, sums the entries' totals. The builder is then empty. */
mtp_status mtp__digest_sum_finish(mtp__digest_sum *s, mtp_digest **out);

/* Adds `from`'s entries under the keys that `by` keeps. */
void mtp__digest_sum_all(mtp__digest_sum *s, const mtp_digest *from, uint32_t by);

/* A sum of an entry for one of its steps: a rank that was restarted repeats steps, and entries may sum ranks. */
static inline int64_t mtp__digest_per_step(const mtp_digest_entry *e, int64_t sum)
{
    return e->steps > 1 && e->steps <= INT64_MAX ? sum / (int64_t)e->steps : sum;
}

/* ------------------------------------------------------------------------------------------------- odd */

#define MTP__DIGEST_REASONS 3
typedef struct mtp__digest_reason {
    mtp_text name; /* "" and is_idle: neither CPU nor device was busy */
    bool is_device, is_idle;
    int64_t more_ns, more_calls; /* than the median of the job's steps */
} mtp__digest_reason;
typedef struct mtp__digest_odd {
    uint32_t entry;
    int64_t more_ns; /* its time minus the job's median */
    uint32_t reason_count;
    mtp__digest_reason reasons[MTP__DIGEST_REASONS];
} mtp__digest_odd;

/* Steps that took longer than the job's median by four robust standard deviations and by a tenth; longest first. The
 * caller frees *out. None unless the job has eight steps or more (of all ranks). */
mtp_status mtp__digest_odd_steps(const mtp_digest *d, mtp__digest_odd **out, size_t *count);
#endif
