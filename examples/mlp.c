/* examples/mlp.c - a small network trained in plain C, profiled with mtprof: what the author of a C engine
 * would write.
 *
 *     mlp [FOLDER]     trains, prints the averages, writes FOLDER/mlp.mtp and FOLDER/mlp.pt.trace.json.gz
 *
 * The engine below is ordinary: arrays, matrix products, a worker thread that prepares batches. The lines
 * with mtp_ or MTP_ are all that profiling needs. After `make install`:
 *
 *     cc -O2 mlp.c -o mlp $(pkg-config --cflags --libs mtprof) -lm
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np */
#endif
#include <math.h>
#include <mtprof.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    BATCH = 256,
    INPUTS = 2,
    HIDDEN = 128,
    CLASSES = 3,
    STEPS = 12
};

/* ------------------------------------------------------------------------------------------- tensors */

typedef struct tensor {
    int64_t dims[2];
    float *data;
} tensor;

static uint64_t allocated, reserved; /* one thread allocates */

static tensor tensor_new(int64_t rows, int64_t columns, mtp_memory_category category)
{
    size_t bytes = (size_t)(rows * columns) * sizeof(float);
    tensor t = {{rows, columns}, calloc(1, bytes)};
    if (t.data == NULL)
        abort();
    allocated += bytes;
    reserved = allocated > reserved ? allocated : reserved;
    mtp_memory_event(MTP_DEVICE_CPU, t.data, (int64_t)bytes, allocated, reserved);
    mtp_memory_tag(MTP_DEVICE_CPU, t.data, category);
    return t;
}

static void tensor_free(tensor *t)
{
    size_t bytes = (size_t)(t->dims[0] * t->dims[1]) * sizeof(float);
    allocated -= bytes;
    mtp_memory_event(MTP_DEVICE_CPU, t->data, -(int64_t)bytes, allocated, reserved);
    free(t->data);
    t->data = NULL;
}

/* ----------------------------------------------------------------------------------------------- ops */

static mtp_input input_of(const tensor *t)
{
    mtp_input in = {MTP_INPUT_TENSOR, MTP_FLOAT32, 0, 2, t->dims, NULL, {0}};
    return in;
}

/* Profiles everything between OP_BEGIN and OP_END as one op with up to two tensors. */
#define OP_BEGIN(op, text, a, b)                                                                             \
    mtp_input op##_inputs[2] = {input_of(a), input_of(b)};                                                   \
    mtp_op op = MTP_OP_INIT(MTP_NAME(text));                                                                 \
    op.inputs = op##_inputs;                                                                                 \
    op.input_count = (a) == (b) ? 1 : 2;                                                                     \
    op.allocated = (int64_t)allocated;                                                                       \
    mtp_op_begin(&op)
#define OP_END(op) (op.allocated = (int64_t)allocated, mtp_op_end(&op))

/* out = op(a) op(b), where op may transpose. */
static tensor mm(const tensor *a, bool ta, const tensor *b, bool tb, mtp_memory_category category)
{
    int64_t m = a->dims[ta], k = a->dims[!ta], n = b->dims[!tb];
    OP_BEGIN(op, "aten::mm", a, b);
    tensor out = tensor_new(m, n, category);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            float left = ta ? a->data[p * m + i] : a->data[i * k + p];
            const float *right = tb ? b->data + p : b->data + p * n;
            for (int64_t j = 0; j < n; j++)
                out.data[i * n + j] += left * (tb ? right[j * k] : right[j]);
        }
    OP_END(op);
    return out;
}

static void relu_(tensor *x)
{
    OP_BEGIN(op, "aten::relu_", x, x);
    for (int64_t i = 0; i < x->dims[0] * x->dims[1]; i++)
        x->data[i] = x->data[i] > 0 ? x->data[i] : 0;
    OP_END(op);
}

static void relu_backward_(tensor *grad, const tensor *y)
{
    OP_BEGIN(op, "aten::threshold_backward", grad, y);
    for (int64_t i = 0; i < y->dims[0] * y->dims[1]; i++)
        grad->data[i] = y->data[i] > 0 ? grad->data[i] : 0;
    OP_END(op);
}

/* Softmax and cross entropy: logits become their gradient, the mean loss is returned. */
static float cross_entropy_(tensor *logits, const int *labels)
{
    OP_BEGIN(op, "aten::cross_entropy_loss", logits, logits);
    float loss = 0;
    for (int64_t i = 0; i < logits->dims[0]; i++) {
        float *row = logits->data + i * CLASSES, most = row[0], sum = 0;
        for (int c = 1; c < CLASSES; c++)
            most = row[c] > most ? row[c] : most;
        for (int c = 0; c < CLASSES; c++)
            sum += row[c] = expf(row[c] - most);
        loss -= logf(row[labels[i]] / sum);
        for (int c = 0; c < CLASSES; c++)
            row[c] = (row[c] / sum - (c == labels[i])) / BATCH;
    }
    OP_END(op);
    return loss / BATCH;
}

static void sgd_(tensor *weight, const tensor *grad, float rate)
{
    OP_BEGIN(op, "aten::add_", weight, grad);
    for (int64_t i = 0; i < weight->dims[0] * weight->dims[1]; i++)
        weight->data[i] -= rate * grad->data[i];
    OP_END(op);
}

/* ---------------------------------------------------------------------------------------------- data */

typedef struct loader { /* a worker prepares the next batch while this one is in use */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    float x[BATCH * INPUTS];
    int labels[BATCH];
    bool full, quit;
    unsigned seed;
} loader;

static float uniform(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f;
}

/* Three arms of a spiral. */
static void make_batch(loader *l)
{
    for (int i = 0; i < BATCH; i++) {
        int label = i % CLASSES;
        float r = uniform(&l->seed), angle = r * 4 + (float)label * 2.0944f + uniform(&l->seed) * 0.3f;
        l->labels[i] = label;
        l->x[i * INPUTS] = r * cosf(angle);
        l->x[i * INPUTS + 1] = r * sinf(angle);
    }
}

static void *load(void *arg)
{
    loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        MTP_SCOPE ("make_batch")
            make_batch(l);
        l->full = true;
        pthread_cond_broadcast(&l->changed);
        while (l->full && !l->quit)
            pthread_cond_wait(&l->changed, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static tensor next_batch(loader *l, int *labels)
{
    tensor x = tensor_new(BATCH, INPUTS, MTP_MEMORY_INPUT);
    MTP_SCOPE ("enumerate(DataLoader)#_Worker.__next__") {
        pthread_mutex_lock(&l->lock);
        while (!l->full)
            pthread_cond_wait(&l->changed, &l->lock);
        memcpy(x.data, l->x, sizeof l->x);
        memcpy(labels, l->labels, sizeof l->labels);
        l->full = false;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
    }
    return x;
}

/* ------------------------------------------------------------------------------------------ training */

static float train_step(loader *l, tensor *w1, tensor *w2)
{
    int labels[BATCH];
    tensor x = next_batch(l, labels), h, y, g1, g2, gh;
    float loss = 0;
    MTP_SCOPE ("forward") {
        h = mm(&x, false, w1, false, MTP_MEMORY_ACTIVATION);
        relu_(&h);
        y = mm(&h, false, w2, false, MTP_MEMORY_ACTIVATION);
        loss = cross_entropy_(&y, labels);
    }
    MTP_SCOPE ("backward") {
        g2 = mm(&h, true, &y, false, MTP_MEMORY_GRADIENT);
        gh = mm(&y, false, w2, true, MTP_MEMORY_TEMPORARY);
        relu_backward_(&gh, &h);
        g1 = mm(&x, true, &gh, false, MTP_MEMORY_GRADIENT);
        tensor_free(&gh);
    }
    MTP_SCOPE ("Optimizer.step#SGD.step") {
        sgd_(w1, &g1, 2.0f);
        sgd_(w2, &g2, 2.0f);
    }
    mtp_counter(MTP_NAME("loss"), loss);
    tensor_free(&x), tensor_free(&h), tensor_free(&y), tensor_free(&g1), tensor_free(&g2);
    return loss;
}

/* ----------------------------------------------------------------------------------------- profiling */

static char trace_path[4096], spool_path[4096];

static void fail(const char *what)
{
    fprintf(stderr, "mlp: %s: %s\n", what, mtp_last_error());
    exit(1);
}

/* Called when the recorded steps are over. */
static void save(mtp_profile *prof, void *user)
{
    (void)user;
    mtp_trace *trace;
    mtp_averages *averages = NULL;
    mtp_table_options table = MTP_TABLE_OPTIONS_INIT;
    table.sort_by = "self_cpu_time_total";
    if (mtp_profile_trace(prof, &trace) != MTP_OK || mtp_averages_create(trace, NULL, &averages) != MTP_OK ||
        mtp_averages_table(averages, &table, mtp_sink_file, stdout) != MTP_OK ||
        mtp_trace_export(trace, trace_path, NULL) != MTP_OK)
        fail("cannot show or save the trace");
    mtp_averages_destroy(averages);
    mtp_trace_destroy(trace);
}

static void warn(void *user, mtp_warning code, const char *text)
{
    (void)user, (void)code;
    fprintf(stderr, "mlp: %s\n", text);
}

static mtp_profile *start_profile(void)
{
    mtp_profile *prof;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = config.profile_memory = config.with_flops = true;
    config.schedule = (mtp_schedule){1, 1, STEPS - 3, 1, 0, 0}; /* wait, warm up, record */
    config.on_trace_ready = save;
    config.on_warning = warn;
    config.spool = spool_path;
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK)
        fail("cannot start the profile");
    return prof;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    mkdir(folder, 0777);
    snprintf(trace_path, sizeof trace_path, "%s/mlp.pt.trace.json.gz", folder);
    snprintf(spool_path, sizeof spool_path, "%s/mlp.mtp", folder);

    static loader l = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .seed = 1};
    unsigned seed = 2;
    tensor w1 = tensor_new(INPUTS, HIDDEN, MTP_MEMORY_PARAMETER),
           w2 = tensor_new(HIDDEN, CLASSES, MTP_MEMORY_PARAMETER);
    for (int i = 0; i < INPUTS * HIDDEN; i++)
        w1.data[i] = (uniform(&seed) - 0.5f) * 4;
    for (int i = 0; i < HIDDEN * CLASSES; i++)
        w2.data[i] = (uniform(&seed) - 0.5f) * 0.2f;
    pthread_create(&l.thread, NULL, load, &l);
    pthread_setname_np(l.thread, "loader");

    mtp_profile *prof = start_profile();
    float first = 0, last = 0;
    for (int step = 0; step < STEPS; step++) {
        last = train_step(&l, &w1, &w2);
        first = step == 0 ? last : first;
        if (mtp_profile_step(prof) != MTP_OK)
            fail("step");
    }
    if (mtp_profile_stop(prof) != MTP_OK)
        fail("stop");
    mtp_profile_destroy(prof);

    pthread_mutex_lock(&l.lock);
    l.quit = true;
    pthread_cond_broadcast(&l.changed);
    pthread_mutex_unlock(&l.lock);
    pthread_join(l.thread, NULL);
    tensor_free(&w1), tensor_free(&w2);
    printf("loss %.3f -> %.3f in %d steps\n", first, last, STEPS);
    printf("trace: %s (open it in Perfetto)\nspool: %s (mtprof table %s)\n", trace_path, spool_path,
           spool_path);
    return 0;
}
