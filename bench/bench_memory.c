/* bench/bench_memory.c - the cost of the memory timeline, the steps and the execution trace, and that it
 * grows linearly. Prints a table and writes JSON, name -> number. Each figure is the best of several runs.
 *
 * The recorded program: steps of ops, nested two deep; each op allocates an output and a temporary, and frees
 * the temporary and the output of 64 ops ago.
 */
#define _GNU_SOURCE
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPEATS 5
#define OPS 100000u /* 4 memory events and 2 spans each */
#define ALIVE 64u

static FILE *json;
static int json_count;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* machines are shared */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* bar: maximum, or 0 for none. */
static void report(const char *name, double value, const char *unit, double bar, const char *meaning)
{
    char mark[48] = "";
    if (bar > 0)
        snprintf(mark, sizeof mark, "%s %.4g", value <= bar ? "<=" : "OVER", bar);
    printf("  %-34s %12.2f %-6s %-12s %s\n", name, value, unit, mark, meaning);
    fprintf(json, "%s\n  \"%s\": %.4f", json_count++ ? "," : "", name, value);
}

static void must(mtp_status status)
{
    if (status != MTP_OK) {
        fprintf(stderr, "bench_memory: %s (%s)\n", mtp_last_error(), mtp_status_text(status));
        exit(1);
    }
}

static const char *at(uint64_t i) /* allocators reuse addresses */
{
    return (const char *)(uintptr_t)(0x10000 + i % 4096 * 4160);
}

static void one_op(uint64_t i, uint64_t *total)
{
    mtp_op outer = MTP_OP_INIT(MTP_NAME("aten::linear")), inner = MTP_OP_INIT(MTP_NAME("aten::addmm"));
    outer.sequence = (int64_t)i;
    mtp_op_begin(&outer);
    mtp_op_begin(&inner);
    mtp_memory_event(MTP_DEVICE_CPU, at(i), 4096, *total += 4096, 0);
    mtp_memory_event(MTP_DEVICE_CPU, at(i) + 8, 512, *total += 512, 0);
    mtp_op_end(&inner);
    mtp_memory_event(MTP_DEVICE_CPU, at(i) + 8, -512, *total -= 512, 0);
    mtp_op_end(&outer);
    if (i >= ALIVE)
        mtp_memory_event(MTP_DEVICE_CPU, at(i - ALIVE), -4096, *total -= 4096, 0);
}

static mtp_trace *record(uint64_t ops)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.profile_memory = true;
    config.buffer_bytes = (uint64_t)4 << 30;
    mtp_profile *prof;
    mtp_trace *trace;
    uint64_t total = 0;
    must(mtp_profile_create(&config, &prof));
    must(mtp_profile_start(prof));
    for (uint64_t i = 0; i < ops; i++) {
        if (i % 1000 == 999)
            must(mtp_profile_step(prof));
        one_op(i, &total);
    }
    must(mtp_profile_stop(prof));
    must(mtp_profile_trace(prof, &trace));
    mtp_profile_destroy(prof);
    return trace;
}

static bool count_bytes(void *user, const void *bytes, size_t length)
{
    (void)bytes;
    *(uint64_t *)user += length;
    return true;
}

typedef struct costs {
    double timeline, json, steps, execution; /* seconds */
    uint64_t json_bytes, execution_bytes;
} costs;

static void best(double *least, double started)
{
    double took = now() - started;
    if (*least == 0 || took < *least)
        *least = took;
}

static costs measure(uint64_t ops)
{
    mtp_trace *trace = record(ops);
    costs c = {0};
    for (int k = 0; k < REPEATS; k++) {
        mtp_memory_timeline *timeline;
        mtp_steps *steps;
        double started = now();
        must(mtp_memory_timeline_create(trace, NULL, &timeline));
        best(&c.timeline, started);
        c.json_bytes = c.execution_bytes = 0;
        started = now();
        must(mtp_memory_timeline_json(timeline, count_bytes, &c.json_bytes));
        best(&c.json, started);
        mtp_memory_timeline_destroy(timeline);
        started = now();
        must(mtp_steps_create(trace, &steps));
        best(&c.steps, started);
        mtp_steps_destroy(steps);
        started = now();
        must(mtp_trace_execution_trace(trace, count_bytes, &c.execution_bytes));
        best(&c.execution, started);
    }
    mtp_trace_destroy(trace);
    return c;
}

int main(int argc, char **argv)
{
    json = fopen(argc > 1 ? argv[1] : "/dev/null", "w");
    if (json == NULL) {
        perror(argv[1]);
        return 1;
    }
    fprintf(json, "{");
    printf("mtprof %s: memory, steps, execution trace\n", mtp_version());
    costs small = measure(OPS), large = measure(OPS * 10u);
    double events = OPS * 10.0 * 4, spans = OPS * 10.0 * 2;
    report("memory_timeline_ns_per_event", large.timeline * 1e9 / events, "ns", 0, "4 million events");
    report("memory_timeline_growth", large.timeline / small.timeline, "x", 11,
           "time for 10 times the events");
    report("memory_json_ns_per_event", large.json * 1e9 / events, "ns", 0,
           "torch's form, a row per microsecond");
    report("steps_ns_per_span", large.steps * 1e9 / spans, "ns", 0, "2 million spans, 1000 steps");
    report("steps_growth", large.steps / small.steps, "x", 11, "time for 10 times the spans");
    report("execution_trace_ns_per_node", large.execution * 1e9 / spans, "ns", 0, "2 million nodes");
    report("execution_trace_mb_per_s", (double)large.execution_bytes / large.execution / 1e6, "MB/s", 0,
           "the same");
    fprintf(json, "\n}\n");
    return fclose(json) != 0;
}
