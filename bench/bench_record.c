/* bench/bench_record.c - what recording costs. Prints a table and writes JSON, name -> number.
 *
 * Every figure is the minimum of many short repeats: machines are shared, and only the minimum is free of
 * noise. The floor is measured in between, in the same run, so ratios are meaningful on any machine.
 */
#define _GNU_SOURCE
#include <mtprof.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"

#define SHORT 1000
#define REPEATS 2000

/* CPU time of this thread: a long run on a shared machine gets interrupted, which must not count. */
static double cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void must(mtp_status status)
{
    if (status != MTP_OK) {
        fprintf(stderr, "bench_record: %s (%s)\n", mtp_last_error(), mtp_status_text(status));
        exit(1);
    }
}

static mtp_profile *start(const mtp_profile_config *config)
{
    mtp_profile *prof;
    must(mtp_profile_create(config, &prof));
    must(mtp_profile_start(prof));
    return prof;
}

/* ------------------------------------------------------------------------------ the things measured */

typedef void work(uint64_t count, void *user);

static void floor_work(uint64_t count, void *user)
{
    (void)user;
    floor_loop(count);
}

static void scope_work(uint64_t count, void *user)
{
    (void)user;
    for (uint64_t i = 0; i < count; i++)
        MTP_SCOPE ("scope")
            __asm__ volatile("" ::: "memory");
}

static void begin_end_work(uint64_t count, void *user)
{
    (void)user;
    uint32_t name = MTP_NAME("begin_end");
    for (uint64_t i = 0; i < count; i++)
        mtp_scope_end(mtp_scope_begin(name));
}

static void text_work(uint64_t count, void *user)
{
    (void)user;
    for (uint64_t i = 0; i < count; i++)
        mtp_scope_end(mtp_scope_begin_text("a name made at run time", 23));
}

static void op_work(uint64_t count, void *user)
{
    const mtp_input *inputs = user;
    for (uint64_t i = 0; i < count; i++) {
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
        op.inputs = inputs;
        op.input_count = 2;
        op.sequence = (int64_t)i;
        mtp_op_begin(&op);
        mtp_op_end(&op);
    }
}

static void memory_work(uint64_t count, void *user)
{
    (void)user;
    for (uint64_t i = 0; i < count; i++)
        mtp_memory_event(MTP_DEVICE_CPU, &json_count, (int64_t)i, i, i);
}

/* ------------------------------------------------------------------------------------- measuring */

static double least(work *fn, void *user, int repeats, uint64_t count)
{
    double best = 1e18;
    for (int r = 0; r < repeats; r++) {
        double from = now_ns();
        fn(count, user);
        double took = (now_ns() - from) / (double)count;
        best = took < best ? took : best;
    }
    return best;
}

/* Alternates two measurements, so that a slow spell of the machine affects both. */
static double least_beside(work *fn, void *user, double *floor_ns)
{
    double best = 1e18;
    for (int r = 0; r < REPEATS; r += 50) {
        double f = least(floor_work, NULL, 50, SHORT), b = least(fn, user, 50, SHORT);
        *floor_ns = f < *floor_ns ? f : *floor_ns;
        best = b < best ? b : best;
    }
    return best;
}

static double rss_mib(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &ignored, &pages) != 2)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576.0;
}

typedef struct racer {
    pthread_barrier_t *barrier;
    int cpu;
    double best;
} racer;

static void *race(void *arg)
{
    racer *me = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(me->cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    pthread_barrier_wait(me->barrier);
    me->best = least(scope_work, NULL, REPEATS * 4, SHORT);
    return NULL;
}

static double two_threads(void)
{
    pthread_barrier_t barrier;
    pthread_t thread[2];
    racer racers[2] = {{&barrier, 0, 0}, {&barrier, 1, 0}};
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, race, &racers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&barrier);
    return racers[0].best > racers[1].best ? racers[0].best : racers[1].best;
}

static void bench_hot(void)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.buffer_bytes = 1u << 20; /* warm: the ring stays in the cache */
    config.when_full = MTP_KEEP_NEWEST;
    double f = 1e18, off = least(scope_work, NULL, REPEATS, SHORT),
           off_pair = least(begin_end_work, NULL, REPEATS, SHORT);
    mtp_profile *prof = start(&config);
    double scope = least_beside(scope_work, NULL, &f), pair = least_beside(begin_end_work, NULL, &f);
    double text = least_beside(text_work, NULL, &f);
    double two = two_threads();
    must(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);

    int64_t dims[2] = {64, 128}, strides[2] = {128, 1};
    mtp_input inputs[2] = {{MTP_INPUT_TENSOR, MTP_FLOAT32, 0, 2, dims, strides, {0}},
                           {MTP_INPUT_TENSOR, MTP_FLOAT32, 0, 2, dims, strides, {0}}};
    prof = start(&config);
    double op = least_beside(op_work, inputs, &f);
    must(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    config.record_shapes = config.profile_memory = true;
    prof = start(&config);
    double shapes = least_beside(op_work, inputs, &f), memory = least_beside(memory_work, NULL, &f);
    must(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    config.record_shapes = config.profile_memory = false;
    config.with_stack = true;
    prof = start(&config);
    double stack = least(scope_work, NULL, 200, SHORT);
    must(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);

    report("floor_pair_ns", f, "ns", 0, "two timestamp reads and a 32-byte store");
    report("scope_pair_ns", scope, "ns", f * 1.15, "MTP_SCOPE, recording, warm");
    report("scope_pair_over_floor", scope / f, "x", 1.15, "");
    report("begin_end_pair_ns", pair, "ns", f * 1.15, "mtp_scope_begin + mtp_scope_end");
    report("scope_two_threads_ns", two, "ns", scope * 1.15, "the slower of two threads at once");
    report("scope_two_threads_over_one", two / scope, "x", 1.15, "");
    report("scope_text_ns", text, "ns", 0, "a scope named at run time");
    report("op_pair_ns", op, "ns", 0, "mtp_op, no payload flags");
    report("op_shapes_pair_ns", shapes, "ns", f * 3, "mtp_op, record_shapes, 2 inputs with strides");
    report("op_shapes_over_floor", shapes / f, "x", 3, "");
    report("memory_event_ns", memory, "ns", 0, "one allocation or free");
    report("scope_stack_ns", stack, "ns", 0, "with_stack, native stacks");
    report("scope_off_ns", off, "ns", 1, "no profile running");
    report("begin_end_off_ns", off_pair, "ns", 1, "no profile running");
}

/* Ten million scopes into untouched memory, and how long stop takes afterwards. */
static void bench_sustained(double floor_ns)
{
    const uint64_t many = 10000000;
    double best = 1e18, stop = 1e18, bytes = 0;
    for (int r = 0; r < 5; r++) {
        mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
        config.buffer_bytes = (uint64_t)400 << 20;
        mtp_profile *prof = start(&config);
        double from = cpu_ns();
        scope_work(many, NULL);
        double took = (cpu_ns() - from) / (double)many;
        from = now_ns();
        must(mtp_profile_stop(prof));
        double stopped = (now_ns() - from) / 1e6;
        mtp_ledger l = MTP_LEDGER_INIT;
        must(mtp_profile_ledger(prof, &l));
        if (l.kept < 2 * many)
            fprintf(stderr, "bench_record: only %llu records kept\n", (unsigned long long)l.kept);
        bytes = (double)l.bytes / (double)many;
        best = took < best ? took : best;
        stop = stopped < stop ? stopped : stop;
        mtp_profile_destroy(prof);
    }
    report("scope_sustained_ns", best, "ns", floor_ns * 1.4, "10 million scopes into fresh memory");
    report("scope_sustained_over_floor", best / floor_ns, "x", 1.4, "");
    report("bytes_per_scope", bytes, "B", 32, "in memory, without payloads");
    report("stop_ms", stop, "ms", 10, "mtp_profile_stop after 10 million scopes");
}

/* A hundred million scopes through 64 MiB. */
static void bench_budget(void)
{
    const uint64_t many = 100000000;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.buffer_bytes = (uint64_t)64 << 20;
    config.when_full = MTP_KEEP_NEWEST;
    double before = rss_mib();
    mtp_profile *prof = start(&config);
    double from = cpu_ns();
    scope_work(many, NULL);
    double took = (cpu_ns() - from) / (double)many, rss = rss_mib() - before;
    must(mtp_profile_stop(prof));
    mtp_ledger l = MTP_LEDGER_INIT;
    must(mtp_profile_ledger(prof, &l));
    mtp_profile_destroy(prof);
    report("keep_newest_ns", took, "ns", 0, "100 million scopes through 64 MiB, per scope");
    report("keep_newest_rss_over_budget_mib", rss - 64, "MiB", 16, "resident memory beyond the budget");
    report("keep_newest_ledger_error",
           (double)(l.emitted - l.kept - l.dropped) + (double)(l.emitted - 2 * many - 1), "rec", 0.5,
           "emitted - kept - dropped, and emitted - made");
}

static void bench_spool(void)
{
    const uint64_t many = 10000000;
    char path[] = "/tmp/mtprof-bench-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        return;
    close(fd);
    double best = 1e18;
    for (int r = 0; r < 3; r++) {
        mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
        config.buffer_bytes = (uint64_t)16 << 20;
        config.when_full = MTP_STREAM;
        config.spool = path;
        mtp_profile *prof = start(&config);
        double from = cpu_ns();
        scope_work(many, NULL);
        double took = (cpu_ns() - from) / (double)many;
        must(mtp_profile_stop(prof));
        mtp_profile_destroy(prof);
        best = took < best ? took : best;
    }
    unlink(path);
    report("spool_stream_ns", best, "ns", 0, "10 million scopes streamed to a file, per scope");
}

int main(int argc, char **argv)
{
    json = fopen(argc > 1 ? argv[1] : "/dev/null", "w");
    if (json == NULL) {
        perror(argv[1]);
        return 1;
    }
    fprintf(json, "{");
    printf("mtprof %s: recording\n", mtp_version());
    bench_hot();
    double f = 1e18;
    least_beside(floor_work, NULL, &f);
    bench_sustained(f);
    bench_budget();
    bench_spool();
    fprintf(json, "\n}\n");
    return fclose(json) != 0;
}
