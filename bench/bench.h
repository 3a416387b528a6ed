/* bench/bench.h - what the benchmarks of recording share: the clock, the floor, and their lines. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H
#include <mtprof.h>
#include <stdio.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static FILE *json; /* name -> number */
static int json_count;

static inline double clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline double now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* bar: what it must not exceed; 0: none */
static inline void report(const char *name, double value, const char *unit, double bar, const char *meaning)
{
    char mark[48] = "";
    if (bar > 0)
        snprintf(mark, sizeof mark, "%s %.4g", value <= bar ? "<=" : "OVER", bar);
    printf("  %-34s %12.2f %-6s %-12s %s\n", name, value, unit, mark, meaning);
    fprintf(json, "%s\n  \"%s\": %.4f", json_count++ ? "," : "", name, value);
}

static inline uint64_t read_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks)::"memory"); /* as base/clock.h does */
    return ticks;
#else
    return mtp_ticks();
#endif
}

/* The floor: two timestamp reads and a store. */
static inline void floor_loop(uint64_t count)
{
    static uint64_t buffer[512];
    for (uint64_t i = 0; i < count; i++) {
        volatile uint64_t *to = buffer + (i & 127) * 4;
        to[0] = read_ticks();
        to[1] = read_ticks();
        to[2] = i;
        to[3] = i;
    }
}
#endif
