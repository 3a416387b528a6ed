/* runtime/random.c - the default random generator, a Mersenne twister that draws in the order of PyTorch's
 * CPU generator, so that equal seeds give equal numbers.
 *
 * One generator for the process. Lock rank: leaf; mt__chance_begin() takes the lock, mt__chance_end()
 * releases it, and a whole tensor is drawn in between, so that draws of different threads do not mix. A fork
 * waits for the draw of another thread, so that the child has a whole state and a free lock.
 */
#include "runtime/chance.h"
#include <pthread.h>

#define STATE 624
#define SHIFT 397

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mt__chance generator;      /* guarded by lock */
static MT__FAST_TLS bool drawing; /* this thread holds the lock */

static void seed_generator(mt__chance *g, uint64_t seed)
{
    g->seed = seed;
    g->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < STATE; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ (g->state[i - 1] >> 30)) + i;
    g->used = STATE;
    g->has_normal = false;
    g->seeded = true;
}

mt__chance *mt__chance_begin(void)
{
    pthread_mutex_lock(&lock);
    drawing = true;
    if (!generator.seeded)
        seed_generator(&generator, 67280421310721u); /* PyTorch's default */
    return &generator;
}

void mt__chance_end(void)
{
    drawing = false;
    pthread_mutex_unlock(&lock);
}

/* A signal handler may fork in the middle of this thread's draw, which goes on in the child: it keeps the lock. */
static void before_fork(void)
{
    if (!drawing)
        pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    if (!drawing)
        pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

void mt_manual_seed(uint64_t seed)
{
    mt__chance_begin();
    seed_generator(&generator, seed);
    mt__chance_end();
}

void mt_random_swap(void *state)
{
    mt__chance *g = mt__chance_begin(), other;
    memcpy(&other, state, sizeof other);
    memcpy(state, g, sizeof *g);
    *g = other;
    mt__chance_end();
}

size_t mt_random_bytes(void)
{
    return sizeof(mt__chance);
}

uint64_t mt_initial_seed(void)
{
    uint64_t seed = mt__chance_begin()->seed;
    mt__chance_end();
    return seed;
}

static uint32_t twisted(uint32_t u, uint32_t v)
{
    return (((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1) ^ (v & 1u ? 0x9908b0dfu : 0);
}

void mt__chance_refill(mt__chance *g)
{
    uint32_t *s = g->state;
    for (int i = 0; i < STATE - SHIFT; i++)
        s[i] = s[i + SHIFT] ^ twisted(s[i], s[i + 1]);
    for (int i = STATE - SHIFT; i < STATE - 1; i++)
        s[i] = s[i + SHIFT - STATE] ^ twisted(s[i], s[i + 1]);
    s[STATE - 1] = s[SHIFT - 1] ^ twisted(s[STATE - 1], s[0]);
    g->used = 0;
}
