/* bench/bench_averages.c - from stop() to rows: building the trace from the records, then the averages, then
 * the event list. Prints a table and writes JSON, name -> number.
 *
 *   bench_averages [JSON [EVENTS]]     EVENTS: size of the large run, default 10 million
 *
 * An event is one scope. The program is a loop of nested scopes of 100 names, with varying durations, so that
 * quantiles have something to search. Each figure is the minimum of several runs; "linear" compares the CPU
 * time with that of a run a tenth the size.
 */
#define _GNU_SOURCE
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMES 100

static FILE *json;
static int json_count;

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static void report(const char *name, double value, const char *unit, double bar, const char *meaning)
{
    char mark[48] = "";
    if (bar > 0)
        snprintf(mark, sizeof mark, "%s %.4g", value <= bar ? "<=" : "OVER", bar);
    printf("  %-34s %12.2f %-6s %-12s %s\n", name, value, unit, mark, meaning);
    if (json != NULL)
        fprintf(json, "%s\n  \"%s\": %.4f", json_count++ ? "," : "", name, value);
}

static void must(mtp_status status)
{
    if (status != MTP_OK) {
        fprintf(stderr, "bench_averages: %s (%s)\n", mtp_last_error(), mtp_status_text(status));
        exit(1);
    }
}

static uint32_t name[NAMES];
static volatile unsigned sink;

/* One scope around three; the last of these contains another, as ops call ops. */
static void record(uint64_t events, bool memory)
{
    uint32_t random = 12345;
    for (uint64_t i = 0; i < events; i += 5) {
        random = random * 1664525u + 1013904223u;
        mtp_token outer = mtp_scope_begin(name[random >> 8 & 15]);
        for (unsigned k = 0; k < 2; k++) {
            mtp_token inner = mtp_scope_begin(name[16 + (random >> (12 + 4 * k) & 31)]);
            for (unsigned spin = random >> 20 & 31; spin > 0; spin--)
                sink = spin;
            mtp_scope_end(inner);
        }
        mtp_token around = mtp_scope_begin(name[48 + (random >> 16 & 31)]);
        mtp_token op = mtp_scope_begin(name[80 + random % 20]);
        if (memory)
            mtp_memory_event(MTP_DEVICE_CPU, name, random & 1 ? 64 : -64, 0, 0);
        mtp_scope_end(op);
        mtp_scope_end(around);
        mtp_scope_end(outer);
    }
}

typedef struct times {
    double trace, averages; /* ns per event */
    double cpu;             /* both together; CPU time, so other load does not count */
} times;

static times measure(uint64_t events, int repeats, const mtp_averages_options *options, bool memory)
{
    times least = {1e9, 1e9, 1e9};
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.activities = MTP_CPU;
    config.profile_memory = memory;
    config.buffer_bytes = events * 80 + ((uint64_t)64 << 20);
    mtp_profile *prof;
    must(mtp_profile_create(&config, &prof));
    for (int i = 0; i < repeats; i++) {
        must(mtp_profile_start(prof));
        record(events, memory);
        must(mtp_profile_stop(prof));
        mtp_trace *trace;
        mtp_averages *rows;
        double cpu = read_clock(CLOCK_THREAD_CPUTIME_ID), begin = now_ns();
        must(mtp_profile_trace(prof, &trace));
        double traced = now_ns();
        must(mtp_averages_create(trace, options, &rows));
        double done = now_ns();
        cpu = (read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)events;
        least.cpu = cpu < least.cpu ? cpu : least.cpu;
        mtp_row total = *mtp_averages_total(rows);
        if (total.count != (events + 4) / 5 * 5) {
            fprintf(stderr, "bench_averages: %llu events, not %llu\n", (unsigned long long)total.count,
                    (unsigned long long)events);
            exit(1);
        }
        if (done - begin < (least.trace + least.averages) * (double)events) {
            least.trace = (traced - begin) / (double)events;
            least.averages = (done - traced) / (double)events;
        }
        mtp_averages_destroy(rows);
        mtp_trace_destroy(trace);
    }
    mtp_profile_destroy(prof);
    return least;
}

typedef struct event_times {
    double create_ms, first, get, at_random, children; /* ns per event, except create */
} event_times;

/* Create, the first access (which builds the list), all events in order, some at random, and the tree. */
static event_times measure_events(uint64_t events, int repeats)
{
    event_times least = {1e9, 1e9, 1e9, 1e9, 1e9};
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.activities = MTP_CPU;
    config.buffer_bytes = events * 80 + ((uint64_t)64 << 20);
    mtp_profile *prof;
    mtp_trace *trace;
    must(mtp_profile_create(&config, &prof));
    must(mtp_profile_start(prof));
    record(events, false);
    must(mtp_profile_stop(prof));
    must(mtp_profile_trace(prof, &trace));
    mtp_profile_destroy(prof);
    for (int i = 0; i < repeats; i++) {
        mtp_events *list;
        mtp_event event;
        size_t count, child;
        double total = 0, began = now_ns(), at[6];
        event.size = sizeof event;
        must(mtp_events_create(trace, &list));
        at[0] = now_ns();
        must(mtp_events_get(list, 0, &event));
        at[1] = now_ns();
        must(mtp_events_count(list, &count));
        for (size_t n = 0; n < count; n++) {
            must(mtp_events_get(list, n, &event));
            total += event.self_cpu_time_total;
        }
        at[2] = now_ns();
        uint32_t random = 12345;
        size_t some = count < 1000000 ? count : 1000000;
        for (size_t n = 0; n < some; n++) {
            random = random * 1664525u + 1013904223u;
            must(mtp_events_get(list, (size_t)((uint64_t)random * count >> 32), &event));
            total += event.self_cpu_time_total;
        }
        at[3] = now_ns();
        must(mtp_events_child(list, 0, &child));
        at[4] = now_ns();
        sink = (unsigned)total;
        mtp_events_destroy(list);
        double now[] = {(at[0] - began) / 1e6, (at[1] - at[0]) / (double)count,
                        (at[2] - at[1]) / (double)count, (at[3] - at[2]) / (double)some,
                        (at[4] - at[3]) / (double)count};
        double *to[] = {&least.create_ms, &least.first, &least.get, &least.at_random, &least.children};
        for (int k = 0; k < 5; k++)
            *to[k] = now[k] < *to[k] ? now[k] : *to[k];
    }
    mtp_trace_destroy(trace);
    return least;
}

int main(int argc, char **argv)
{
    uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000000;
    json = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (json != NULL)
        fprintf(json, "{");
    for (int i = 0; i < NAMES; i++) {
        char text[32];
        snprintf(text, sizeof text, "aten::op_%d", i);
        name[i] = mtp_name(text);
    }
    printf("from stop() to rows, %.0f million events\n", (double)events / 1e6);
    times small = measure(events / 10, 5, NULL, false), large = measure(events, 5, NULL, false);
    report("averages_ns_per_event", large.trace + large.averages, "ns", 40, "trace and averages together");
    report("averages_trace_ns_per_event", large.trace, "ns", 0, "mtp_profile_trace alone");
    report("averages_rows_ns_per_event", large.averages, "ns", 0, "mtp_averages_create alone");
    report("averages_linear", large.cpu / small.cpu * 10, "x", 11, "CPU time of 10 x the events");
    mtp_averages_options by_stack = MTP_AVERAGES_OPTIONS_INIT;
    by_stack.by_stack = 5;
    report("averages_grouped_ns_per_event", measure(events / 10, 3, &by_stack, false).averages, "ns", 0,
           "mtp_averages_create, composite key");
    report("averages_memory_ns_per_event", measure(events / 10, 3, NULL, true).averages, "ns", 0,
           "with a memory event in every fifth scope");
    event_times list = measure_events(events, 3);
    report("events_create_ms", list.create_ms, "ms", 1, "mtp_events_create, all events");
    report("events_first_ns_per_event", list.first, "ns", 0,
           "the first mtp_events_get, which builds the list");
    report("events_get_ns", list.get, "ns", 0, "later mtp_events_get calls, in order");
    report("events_get_random_ns", list.at_random, "ns", 0, "later mtp_events_get calls, at random");
    report("events_child_ns_per_event", list.children, "ns", 0,
           "the first mtp_events_child, which builds the tree");
    if (json != NULL) {
        fprintf(json, "\n}\n");
        fclose(json);
    }
    return 0;
}
