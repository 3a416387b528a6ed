/* analyze/buckets.h - times in buckets: 32 to an octave, so 3 % wide, and single values up to 63. */
#ifndef MTP_ANALYZE_BUCKETS_H
#define MTP_ANALYZE_BUCKETS_H
#include <stddef.h>
#include <stdint.h>

#define MTP__BUCKETS_FINE 5 /* 1 << 5 buckets to an octave */
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

/* How many come before the quantile: nearest rank. count > 0. */
static inline size_t mtp__rank(size_t count, unsigned percent)
{
    return (count * percent + 99) / 100 - 1;
}

/* The value with `rank` others before it, of values that all lie in [low, low + 2^bits). They are moved about. */
uint64_t mtp__select(uint64_t *v, size_t count, size_t rank, uint64_t low, unsigned bits);
#endif
