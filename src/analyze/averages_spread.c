/* analyze/averages_spread.c - exact quantiles of every row, in linear time.
 *
 * Times are laid out row by row (a counting sort: the counts are known), then each row is searched by
 * buckets: 32 to an octave, then the one bucket that holds the rank, in ever finer steps. Nothing is sorted.
 * Quantiles are by nearest rank, so each is a time that really occurred.
 */
#include <string.h>
#include "analyze/torch/rules.h"
#include "analyze/buckets.h"
#include "base/error.h"
#include "base/os.h"

/* The value with `rank` smaller ones before it, for few values. */
static uint64_t select_few(uint64_t *v, size_t count, size_t rank)
{
    for (size_t i = 1; i < count; i++) {
        uint64_t x = v[i];
        size_t k = i;
        for (; k > 0 && v[k - 1] > x; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
    return v[rank];
}

/* For values in [low, low + 2^bits): splits into 256 equal parts, keeps the one with the rank, and
 * repeats. */
uint64_t mtp__select(uint64_t *v, size_t count, size_t rank, uint64_t low, unsigned bits)
{
    while (count > 32 && bits > 0) {
        uint32_t histogram[256] = {0};
        unsigned shift = bits > 8 ? bits - 8 : 0, part = 0;
        for (size_t i = 0; i < count; i++)
            histogram[(v[i] - low) >> shift]++;
        while (rank >= histogram[part])
            rank -= histogram[part++];
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t x = v[i];
            v[kept] = x;
            kept += (x - low) >> shift == part;
        }
        count = kept;
        low += (uint64_t)part << shift;
        bits = shift;
    }
    return bits == 0 ? low : select_few(v, count, rank);
}

/* The value of a rank with a known bucket: copies the bucket's values and searches them. */
static uint64_t select_in(const uint64_t *v, size_t count, size_t rank, unsigned bucket, uint64_t *scratch)
{
    unsigned bits = mtp__bucket_bits(bucket);
    if (bits == 0)
        return bucket; /* one value wide */
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        scratch[kept] = v[i];
        kept += mtp__bucket_of(v[i]) == bucket;
    }
    return mtp__select(scratch, kept, rank, mtp__bucket_low(bucket), bits);
}

static void spread_row(mtp__sum *s, uint64_t *v, size_t count, uint64_t *scratch)
{
    size_t rank[2] = {mtp__rank(count, 50), mtp__rank(count, 99)};
    int64_t *out[2] = {&s->p50_ns, &s->p99_ns};
    if (count <= 32) {
        *out[0] = (int64_t)select_few(v, count, rank[0]);
        *out[1] = (int64_t)v[rank[1]];
        return;
    }
    uint32_t histogram[MTP__BUCKETS] = {0};
    for (size_t i = 0; i < count; i++)
        histogram[mtp__bucket_of(v[i])]++;
    unsigned bucket = 0;
    size_t before = 0;
    for (int q = 0; q < 2; q++) {
        while (before + histogram[bucket] <= rank[q])
            before += histogram[bucket++];
        *out[q] = (int64_t)select_in(v, count, rank[q] - before, bucket, scratch);
    }
}

mtp_status mtp__spread(const mtp__walk *w)
{
    const mtp_trace *t = w->g->t;
    mtp__group *g = w->g;
    const uint32_t *row = w->row.p;
    mtp__scratch times = {0}, scratch = {0};
    size_t total = 0, most = 0;
    uint64_t **next = mtp__calloc((size_t)g->sums + 1, sizeof *next);
    for (uint32_t r = 0; r < g->sums; r++) {
        total += (size_t)g->sum[r].count;
        most = (size_t)g->sum[r].count > most ? (size_t)g->sum[r].count : most;
    }
    if (next == NULL || !mtp__scratch_make(&times, total, sizeof(uint64_t)) ||
        !mtp__scratch_make(&scratch, most + 1, sizeof(uint64_t))) {
        mtp__free(next);
        mtp__scratch_free(&times);
        return MTP_FAIL(MTP_E_NOMEM, "the times of %zu events", total);
    }
    uint64_t *at = times.p;
    for (uint32_t r = 0; r < g->sums; r++) {
        next[r] = at;
        at += g->sum[r].count;
    }
    for (uint32_t i = 0; i < t->span_count; i++)
        if (row[i] != 0)
            *next[row[i] - 1]++ = (uint64_t)mtp__minus(mtp__duration(t, i), 2 * mtp__trim(t, i));
    at = times.p;
    for (uint32_t r = 0; r < g->sums; r++) {
        size_t count = (size_t)g->sum[r].count;
        if (next[r] == at + count && count > 0) /* "[memory]" has no spans: zeros */
            spread_row(&g->sum[r], at, count, scratch.p);
        at += count;
    }
    mtp__free(next);
    mtp__scratch_free(&times);
    mtp__scratch_free(&scratch);
    return MTP_OK;
}
