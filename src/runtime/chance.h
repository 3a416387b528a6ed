/* runtime/chance.h - the random number generator; see random.c. */
#ifndef RUNTIME_CHANCE_H
#define RUNTIME_CHANCE_H
#include "runtime/runtime.h"

typedef struct mt__chance {
    uint64_t seed;
    uint32_t state[624];
    uint32_t used; /* of state */
    bool seeded, has_normal;
    double normal; /* the second of a pair of normal numbers */
} mt__chance;

mt__chance *mt__chance_begin(void); /* locks */
void mt__chance_end(void);
void mt__chance_refill(mt__chance *g);
/* Can elements of dtype hold `from` ... `last`? Fails with random_'s message. */
mt_status mt__random_range(mt_dtype dtype, int64_t from, int64_t last);
/* The last number that random_ may draw; checked. */
mt_status mt__random_last(const mt__call *call, int64_t *last);

static inline uint32_t mt__random(mt__chance *g)
{
    if (MT__UNLIKELY(g->used == 624))
        mt__chance_refill(g);
    uint32_t y = g->state[g->used++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}
static inline uint64_t mt__random64(mt__chance *g)
{
    uint64_t high = mt__random(g);
    return high << 32 | mt__random(g);
}
/* In [0, 1): 24 and 53 random bits. */
static inline double mt__random_float(mt__chance *g)
{
    return (double)(mt__random(g) & 0xffffffu) * 0x1p-24;
}
static inline double mt__random_double(mt__chance *g)
{
    return (double)(mt__random64(g) & 0x1fffffffffffffu) * 0x1p-53;
}

#endif
