/* bench_npu.c - device "npu": a GPT training step there and on the CPU, and the cost of a launch with and
 * without a profile.
 *
 *   bench_npu [JSON [WIDTH TIME BATCH STEPS]]
 *
 * Launches are measured in CPU time of the host thread: the minimum of many short rounds, alternating between
 * with and without a profile, so that other load does not count.
 */
#define _GNU_SOURCE
#include <math.h>
#include <mindtorch_nn.h>
#include <mtprof.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VOCABULARY 512

static FILE *json;
static int json_count;

static void die(const char *what)
{
    fprintf(stderr, "bench_npu: %s: %s\n", what, mt_last_error());
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct model {
    mt_module *tokens, *body, *head;
    mt_tensor *params[64];
    uint32_t count;
    mt_optimizer *optimizer;
} model;

static void make(model *m, int64_t width, mt_device device)
{
    memset(m, 0, sizeof *m);
    mt_manual_seed(1);
    m->tokens = mt_embedding_create(VOCABULARY, width);
    m->body = mt_sequential_create(3, mt_block_create(width, 4, true), mt_block_create(width, 4, true),
                                   mt_layer_norm_create(width, 1e-5));
    m->head = mt_linear_create(width, VOCABULARY, false);
    if (m->tokens == NULL || m->body == NULL || m->head == NULL)
        die("model");
    mt_module *const parts[] = {m->tokens, m->body, m->head};
    for (int i = 0; i < 3; i++)
        m->count += mt_module_parameters(parts[i], m->params + m->count, 64 - m->count);
    for (int i = 0; i < 3; i++)
        if (mt_module_to(parts[i], device) != MT_OK)
            die("to device");
    mt_adamw_options options = MT_ADAMW_OPTIONS;
    m->optimizer = mt_adamw_create(m->params, m->count, &options);
    if (m->optimizer == NULL)
        die("optimizer");
}

/* Returns the median step time in ms; *loss is that of the last step. */
static double train(int64_t width, int64_t time, int64_t batch, int steps, mt_device device, double *loss)
{
    model m;
    double *ms = calloc((size_t)steps, sizeof *ms);
    int64_t *data = malloc((size_t)(batch * (time + 1)) * sizeof *data);
    for (int64_t i = 0; i < batch * (time + 1); i++)
        data[i] = i * 7919 % VOCABULARY;
    make(&m, width, device);
    mt_tensor *here;
    if (mt_tensor_from(data, MT_INT64, 2, (int64_t[]){batch, time + 1}, &here) != MT_OK)
        die("data");
    for (int s = -3; s < steps; s++) {
        uint64_t start = mtp_now_ns();
        MT_SCOPE
        {
            mt_tensor *x = MT(to_device, here, (int64_t)device);
            mt_tensor *in = MT(narrow, x, 1, 0, time), *next = MT(narrow, x, 1, 1, time);
            mt_tensor *logits =
                mt_module_forward(m.head, mt_module_forward(m.body, mt_module_forward(m.tokens, in)));
            mt_tensor *l = MT(cross_entropy_loss, MT(reshape, logits, MT_SHAPE(-1, VOCABULARY)),
                              MT(reshape, next, MT_SHAPE(-1)));
            if (l == NULL || mt_backward(l) != MT_OK || mt_optimizer_step(m.optimizer) != MT_OK ||
                mt_item(l, loss) != MT_OK || mt_synchronize(device) != MT_OK)
                die("step");
            mt_optimizer_zero_grad(m.optimizer);
        }
        if (s >= 0)
            ms[s] = (double)(mtp_now_ns() - start) / 1e6;
    }
    qsort(ms, (size_t)steps, sizeof *ms, compare);
    double median = ms[steps / 2];
    mt_release(here);
    mt_optimizer_destroy(m.optimizer);
    mt_module_destroy(m.tokens);
    mt_module_destroy(m.body);
    mt_module_destroy(m.head);
    free(ms);
    free(data);
    return median;
}

static double thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns of host thread time per small launch. Runs until the last one is done, so it includes reading events. */
static double launches(int n)
{
    double each = 0;
    MT_SCOPE
    {
        mt_tensor *x = MT(zeros, MT_SHAPE(16), (int64_t)MT_FLOAT32, (int64_t)MT_NPU(0));
        mt_synchronize(MT_NPU(0));
        double start = thread_ns();
        for (int i = 0; i < n; i++)
            MT(add_, x, 1);
        if (mt_synchronize(MT_NPU(0)) != MT_OK)
            die("launches");
        each = (thread_ns() - start) / n;
    }
    return each;
}

static void least(double *best, double value)
{
    *best = value < *best ? value : *best;
}

static double profiled_launches(int n)
{
    mtp_profile *prof;
    if (mtp_profile_create(NULL, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK)
        die("profile");
    launches(16); /* the first work reports the clock */
    double each = launches(n);
    mtp_profile_stop(prof);
    mtp_profile_destroy(prof);
    return each;
}

/* Runs in a separate process on one processor: otherwise the driver's threads hide or multiply the cost,
 * differently in each run. ns[0] without a profile, ns[1] with one. To be called before this process opens
 * the device. */
static void measure_launches(double ns[2])
{
    int ends[2];
    if (pipe(ends) != 0)
        die("pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        double best[2] = {1e18, 1e18};
        if (mt_npu_count() > 0)
            launches(100);
        for (int round = 0; round < 20 && mt_npu_count() > 0; round++) {
            least(&best[0], launches(2000));
            least(&best[1], profiled_launches(2000));
        }
        _exit(write(ends[1], best, sizeof best) == sizeof best ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], ns, 2 * sizeof *ns) != (ssize_t)(2 * sizeof *ns))
        die("launches");
    close(ends[0]);
    waitpid(child, NULL, 0);
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

static void measure(int64_t width, int64_t time, int64_t batch, int steps, bool is_cpu, const double ns[2])
{
    double there = 0, here = 0, off = ns[0], on = ns[1];
    double npu_ms = train(width, time, batch, steps, MT_NPU(0), &there);
    double cpu_ms = train(width, time, batch, steps, MT_CPU, &here);
    printf("GPT of 2 layers, width %lld, time %lld, batch %lld; the CPU run uses %d threads and %s\n",
           (long long)width, (long long)time, (long long)batch, mt_num_threads(), mt_blas_name());
    report("npu_gpt_step_ms", npu_ms, "ms", 0, "one training step");
    report("npu_gpt_step_cpu_ms", cpu_ms, "ms", 0, "the same on the CPU");
    report("npu_gpt_loss_difference", fabs(there - here) / here, "", 1e-3,
           "relative, of the last step's loss");
    report("npu_launch_ns", off, "ns", 0, "host thread time of x.add_(1), 16 elements");
    report("npu_launch_profiled_ns", on, "ns", 0, "the same under a profile");
    report("npu_launch_overhead_ns", on - off, "ns", is_cpu ? 400 : 0, "what a profile adds to a launch");
}

int main(int argc, char **argv)
{
    int64_t width = argc > 2 ? atoll(argv[2]) : 128, time = argc > 3 ? atoll(argv[3]) : 64,
            batch = argc > 4 ? atoll(argv[4]) : 8;
    int steps = argc > 5 ? atoi(argv[5]) : 10;
    mt_npu_properties p = {.size = sizeof p};
    json = argc > 1 ? fopen(argv[1], "we") : NULL;
    if (argc > 1 && json == NULL) {
        fprintf(stderr, "bench_npu: cannot write %s\n", argv[1]);
        return 1;
    }
    if (json != NULL)
        fprintf(json, "{");
    double ns[2];
    measure_launches(ns);
    if (mt_npu_count() == 0) {
        printf("no npu: %s\n", mt_npu_absence());
    } else {
        if (mt_npu_describe(MT_NPU(0), &p) != MT_OK)
            die("device");
        printf("npu:0 is %s (%s %s), %u compute units, matrix products by %s\n", p.name, p.vendor, p.driver,
               p.compute_units, p.blas);
        measure(width, time, batch, steps, p.is_cpu, ns);
    }
    if (json != NULL) {
        fprintf(json, "\n}\n");
        fclose(json);
    }
    return 0;
}
