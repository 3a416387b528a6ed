/* bench_npu.c - device "npu": a GPT's training step there and on the CPU, and what a launch costs with a profile and without.
 *
 * usage: bench_npu [width] [time] [batch] [steps]
 */
#define _GNU_SOURCE
#include <mindtorch_nn.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VOCABULARY 512

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

/* The median step, in ms; *loss is the last one's. */
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

/* Of this thread alone: other load on the machine does not count. */
static double thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns of the host's thread per small launch, without the wait for the device. */
static double launches(int n)
{
    double best = 1e18;
    for (int round = 0; round < 5; round++) {
        MT_SCOPE
        {
            mt_tensor *x = MT(zeros, MT_SHAPE(16), (int64_t)MT_FLOAT32, (int64_t)MT_NPU(0));
            mt_synchronize(MT_NPU(0));
            double start = thread_ns();
            for (int i = 0; i < n; i++)
                MT(add_, x, 1);
            double each = (thread_ns() - start) / n;
            best = each < best ? each : best;
            mt_synchronize(MT_NPU(0));
        }
    }
    return best;
}

int main(int argc, char **argv)
{
    int64_t width = argc > 1 ? atoll(argv[1]) : 128, time = argc > 2 ? atoll(argv[2]) : 64,
            batch = argc > 3 ? atoll(argv[3]) : 8;
    int steps = argc > 4 ? atoi(argv[4]) : 10;
    mt_npu_properties p = {.size = sizeof p};
    if (mt_npu_count() == 0) {
        printf("no npu: %s\n", mt_npu_absence());
        return 0;
    }
    if (mt_npu_describe(MT_NPU(0), &p) != MT_OK)
        die("device");
    printf("npu:0 is %s (%s), %u compute units, products by %s\n", p.name, p.driver, p.compute_units, p.blas);
    double there = 0, here = 0, a, b;
    a = train(width, time, batch, steps, MT_NPU(0), &there);
    b = train(width, time, batch, steps, MT_CPU, &here);
    printf("GPT step, width %lld, time %lld, batch %lld: npu %.2f ms, cpu %.2f ms (%d threads, %s); losses "
           "%.5f, %.5f\n",
           (long long)width, (long long)time, (long long)batch, a, b, mt_num_threads(), mt_blas_name(), there,
           here);
    double off = launches(2000);
    mtp_profile *prof;
    if (mtp_profile_create(NULL, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK)
        die("profile");
    double on = launches(2000);
    mtp_profile_stop(prof);
    mtp_profile_destroy(prof);
    printf("a small launch (aten::add_): %.0f ns of the host, %.0f ns with a profile: +%.0f ns\n", off, on,
           on - off);
    return 0;
}
