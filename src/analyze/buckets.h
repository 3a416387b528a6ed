/* analyze/buckets.h - histogram of times: 32 buckets per octave, so 3 % wide, and exact up to 63. */
#ifndef MTP_ANALYZE_BUCKETS_H
#define MTP_ANALYZE_BUCKETS_H
#include <stddef.h>
#include <stdint.h>

#define MTP__BUCKETS_FINE 5 /* 1 << 5 buckets per octave */
#define MTP__BUCKETS ((64 - MTP__BUCKETS_FINE + 1) << MTP__BUCKETS_FINE)

static inline unsigned mtp__bucket_of(uint64_t v)
{
    unsigned octave = 63u - (unsigned)__builtin_clzll(v | 1u << MTP__BUCKETS_FINE) - MTP__BUCKETS_FINE;
    return (octave << MTP__BUCKETS_FINE) + (unsigned)(v >> octave);
}

/* The values of a bucket are [low, low + 2^bits). */
static inline unsigned mtp__bucket_bits(unsigned bucket)
{
    return bucket < (2u << MTP__BUCKETS_FINE) ? 0 : (bucket >> MTP__BUCKETS_FINE) - 1;
}

static inline uint64_t mtp__bucket_low(unsigned bucket)
{
    unsigned bits = mtp__bucket_bits(bucket);
    return (uint64_t)(bucket - (bits << MTP__BUCKETS_FINE)) << bits;
}

/* The nearest rank of the quantile: how many values precede it. count > 0. */
static inline size_t mtp__rank(size_t count, unsigned percent)
{
    return (count * percent + 99) / 100 - 1;
}

/* The value with `rank` others before it, among values in [low, low + 2^bits). Reorders them. */
uint64_t mtp__select(uint64_t *v, size_t count, size_t rank, uint64_t low, unsigned bits);
#endif
