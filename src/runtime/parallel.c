/* runtime/parallel.c - the thread pool for large work: the calling thread and the workers claim parts.
 *
 *     caller: job, word = odd (open) ──► claims parts ──► word = even (closed) ──► waits for inside == 0
 *     worker: waits for a new odd word ──► inside++ ──► open? claims parts ──► inside--
 *
 * Each thread has a range of adjacent parts, which it claims first: so the next op finds its operands in the cache
 * of the same core. Then it claims what other threads have left, so a delayed thread delays only the part it is in.
 * The parts depend on the work and the number of threads only, never on who runs them.
 *
 * Threads: any may call. One section runs at a time; a concurrent caller runs its work inline, and so do
 * calls from inside a section. Workers start with the first work that needs them, block all signals and spin
 * briefly before they sleep. After a fork the child has no workers and starts its own. Workers are never
 * joined: the library is linked nodelete.
 * Invariant: job changes only while word is even and inside is 0.
 */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 256
#define PARTS_EACH 4   /* per thread: others take over the parts of a delayed thread */
#define ELEMENTS 1024  /* with such a grain, work is counted in elements, */
#define LINE 64        /* and parts begin at multiples of this: a cache line's, if the data does */
#define SPIN_NS 200000 /* so that a series of ops does not pay for a wake-up each time */
#define SPINS 64       /* between two looks at the clock: a pause takes 10 to 150 cycles */

static struct {
    void (*fn)(int64_t begin, int64_t end, void *user);
    void *user;
    int64_t n, unit; /* parts begin at multiples of unit */
    int parts, threads;
} job;

/* The parts that a thread has not claimed yet: the caller's, then the workers'. */
static struct {
    _Alignas(64) _Atomic int next;
    int end;
} ranges[MOST_THREADS];

static _Alignas(
    64) _Atomic uint32_t word; /* odd: the job is open. seq_cst: with inside and sleepers, see wait_closed */
static _Alignas(64) _Atomic uint32_t inside; /* workers that access the job */
static _Alignas(64) _Atomic uint32_t sleepers;
static atomic_flag section = ATOMIC_FLAG_INIT; /* held by the owner of the job */
static int started;                            /* workers; guarded by section */
static _Atomic uint32_t wanted;                /* threads; 0: not determined yet */
static _Thread_local bool in_section;

/* ----------------------------------------------------------------------------------------------- sleeping */

static void sleep_while(_Atomic uint32_t *at, uint32_t value)
{
    syscall(SYS_futex, (uint32_t *)at, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *at, int most)
{
    syscall(SYS_futex, (uint32_t *)at, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}

static inline void pause_shortly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---------------------------------------------------------------------------------------------- the workers */

static int64_t begin_of(int part)
{
    int64_t each = job.n / job.parts, rest = job.n % job.parts;
    return part == job.parts ? job.n : (each * part + rest * part / job.parts) / job.unit * job.unit;
}

/* Runs parts of the thread's own range, then of the others'. */
static void claim_parts(int thread)
{
    for (int k = 0; k < job.threads; k++) {
        int of = thread + k < job.threads ? thread + k : thread + k - job.threads;
        while (atomic_load_explicit(&ranges[of].next, memory_order_relaxed) < ranges[of].end) {
            int part = atomic_fetch_add_explicit(&ranges[of].next, 1, memory_order_relaxed);
            if (part >= ranges[of].end)
                break;
            job.fn(begin_of(part), begin_of(part + 1), job.user);
        }
    }
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits until the word is odd and not `served`; first, until as many threads are wanted. */
static uint32_t wait_open(uint32_t served, int thread)
{
    for (;;) {
        for (uint32_t most; (most = atomic_load(&wanted)) <= (uint32_t)thread;)
            sleep_while(&wanted, most);
        int64_t end = now_ns() + SPIN_NS;
        do
            for (int i = 0; i < SPINS; i++) {
                uint32_t now = atomic_load(&word);
                if ((now & 1u) && now != served)
                    return now;
                pause_shortly();
            }
        while (now_ns() < end);
        atomic_fetch_add(&sleepers,
                         1); /* before comparing the word: pairs with the caller's load of sleepers */
        uint32_t now = atomic_load(&word);
        if (!(now & 1u) || now == served)
            sleep_while(&word, now);
        atomic_fetch_sub(&sleepers, 1);
    }
}

static void *work(void *number)
{
    const int thread = (int)(intptr_t)number;
    uint32_t served = 0;
    in_section = true; /* nested sections run inline */
    for (;;) {
        served = wait_open(served, thread);
        atomic_fetch_add(&inside, 1);
        if ((atomic_load(&word) & 1u) && thread < job.threads)
            claim_parts(thread);
        /* closed, and this was the last: the caller may be asleep */
        if (atomic_fetch_sub(&inside, 1) == 1 && !(atomic_load(&word) & 1u))
            wake(&inside, 1);
    }
    return NULL;
}

/* In the child of a fork: resets the state, as if no worker had been started. */
static void forget_workers(void)
{
    started = 0;
    atomic_store(&word, atomic_load(&word) & ~1u);
    atomic_store(&inside, 0);
    atomic_store(&sleepers, 0);
    atomic_flag_clear(&section);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_workers);
}

static void start_workers(int count)
{
    sigset_t all, before;
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t thread; started < count; started++) {
        if (pthread_create(&thread, &attr, work, (void *)(intptr_t)(started + 1)) != 0)
            break; /* make do with those that exist */
        pthread_setname_np(thread, "mt-worker");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

/* --------------------------------------------------------------------------------------------- the caller */

static int default_threads(void)
{
    static const char *const names[] = {"MT_NUM_THREADS", "OMP_NUM_THREADS"};
    cpu_set_t set;
    for (unsigned i = 0; i < MT__COUNT_OF(names); i++) {
        const char *text = getenv(names[i]);
        int n = text != NULL ? atoi(text) : 0;
        if (n > 0)
            return n < MOST_THREADS ? n : MOST_THREADS;
    }
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n < MOST_THREADS ? n : MOST_THREADS;
}

int mt_num_threads(void)
{
    uint32_t n = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (MT__UNLIKELY(n == 0)) {
        uint32_t none = 0;
        n = (uint32_t)default_threads();
        if (!atomic_compare_exchange_strong(&wanted, &none, n))
            n = none;
    }
    return (int)n;
}

void mt_set_num_threads(int threads)
{
    atomic_store(&wanted, threads < 1 ? 1u : threads < MOST_THREADS ? (uint32_t)threads : MOST_THREADS);
    wake(&wanted, INT_MAX);
}

/* Closes the job and waits for the workers inside. If a worker leaves before the word becomes even, our load
 * of inside sees it; if later, the worker sees the even word and wakes us. */
static void wait_closed(uint32_t open)
{
    atomic_store(&word, open + 1);
    int64_t end = 0;
    for (int i = 1;; i++) {
        uint32_t there = atomic_load(&inside);
        if (there == 0)
            return;
        if (i % SPINS != 0) {
            pause_shortly();
            continue;
        }
        int64_t now = now_ns();
        end = end == 0 ? now + SPIN_NS : end;
        if (now >= end)
            sleep_while(&inside, there);
    }
}

static void run_section(void)
{
    int threads = job.threads;
    if (started < threads - 1)
        start_workers(threads - 1);
    for (int i = 0, next = 0; i < threads; i++) {
        atomic_store_explicit(&ranges[i].next, next, memory_order_relaxed);
        next += job.parts / threads;
        ranges[i].end = next;
    }
    uint32_t open = atomic_load(&word) + 1;
    atomic_store(&word, open); /* publishes the job */
    if (atomic_load(&sleepers) > 0)
        wake(&word, INT_MAX); /* not some: it is not known which they would be */
    in_section = true;
    claim_parts(0);
    in_section = false;
    wait_closed(open);
}

void mt__parallel(int64_t n, int64_t grain, void (*fn)(int64_t begin, int64_t end, void *user), void *user)
{
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    int threads = n <= grain || in_section ? 1 : mt_num_threads();
    int64_t most = n / grain; /* parts */
    if (threads > most)
        threads = (int)most;
    if (threads <= 1 || atomic_flag_test_and_set_explicit(&section, memory_order_acquire)) {
        fn(0, n, user);
        return;
    }
    int64_t each = most / threads; /* as many for each thread */
    job.fn = fn;
    job.user = user;
    job.n = n;
    job.unit = grain >= ELEMENTS ? LINE : 1;
    job.threads = threads;
    job.parts = threads * (int)(each < PARTS_EACH ? each : PARTS_EACH);
    run_section();
    atomic_flag_clear_explicit(&section, memory_order_release);
}
