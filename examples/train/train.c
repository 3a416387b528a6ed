/* examples/train/train.c - train a small network in C with mindtorch: the same nets, weights, data and losses
 * as train.py.
 *
 *     train mlp|cnn|gpt [STEPS] [TRACE.json.gz] [cpu|npu]
 *
 * Prints one loss per step. Given a trace file, profiles the run, prints the averages to stderr and writes
 * the trace.
 */
#include <mindtorch.h>
#include <mindtorch_nn.h>
#include <mindtorch_optim.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "train: %s: %s\n", what, why);
    exit(1);
}

/* Numbers in [-scale/2, scale/2) from a hash of their position: the same bits as numbers() in train.py. */
static void numbers(float *out, int64_t count, uint64_t seed, float scale)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t h = ((uint64_t)i * 2654435761u + seed * 40503u) & 0xffffffffu;
        for (int k = 0; k < 2; k++) {
            h ^= h >> 16;
            h = h * 0x45d9f3bu & 0xffffffffu;
        }
        h ^= h >> 16;
        out[i] = (float)((double)(h >> 8) / (1 << 24) - 0.5) * scale;
    }
}

static mt_tensor *made(mt_dtype dtype, int rank, const int64_t *dims)
{
    mt_tensor *t;
    if (mt_tensor_create(dtype, MT_CPU, rank, dims, &t) != MT_OK)
        die("a tensor", mt_last_error());
    return t;
}

/* ----------------------------------------------------------------------------------------------- weights */

typedef struct filler {
    uint64_t seed;
} filler;

static void fill_one(void *user, const char *name, mt_tensor *t, bool is_parameter)
{
    filler *f = user;
    if (!is_parameter)
        return;
    float *data = mt_data(t);
    int64_t n = mt_numel(t), fan_in = n / mt_dims(t)[0];
    f->seed++;
    if (mt_rank(t) > 1) {
        numbers(data, n, f->seed, (float)(2.0 / __builtin_sqrt((double)fan_in)));
        return;
    }
    numbers(data, n, f->seed, 0.1f);
    /* The weight of a norm is a vector of values near one. */
    if (strstr(name, "weight") != NULL)
        for (int64_t i = 0; i < n; i++)
            data[i] += 1;
}

/* -------------------------------------------------------------------------------------------------- nets */

typedef struct net {
    mt_module *parts[3]; /* gpt: token, place, body; others: body */
    unsigned part_count;
    mt_tensor *x, *y; /* the data; gpt: x is the text */
    mt_optimizer *optimizer;
    mt_tensor *(*loss)(struct net *n, int64_t step);
} net;

static mt_tensor *batch_loss(net *n, int64_t step, int64_t batch)
{
    int64_t at = step % 4 * batch;
    mt_tensor *x = MT(slice, n->x, 0, at, at + batch), *y = MT(slice, n->y, 0, at, at + batch);
    return MT(cross_entropy_loss, mt_module_forward(n->parts[0], x), y);
}

static mt_tensor *mlp_loss(net *n, int64_t step)
{
    return batch_loss(n, step, 64);
}

static mt_tensor *cnn_loss(net *n, int64_t step)
{
    return batch_loss(n, step, 32);
}

static void mlp_data(net *n)
{
    float map[20 * 10];
    n->x = made(MT_FLOAT32, 2, (const int64_t[]){256, 20});
    n->y = made(MT_INT64, 1, (const int64_t[]){256});
    float *x = mt_data(n->x);
    int64_t *y = mt_data(n->y);
    numbers(x, 256 * 20, 101, 4);
    numbers(map, 20 * 10, 102, 1);
    for (int i = 0; i < 256; i++) {
        double best = -1e30;
        for (int c = 0; c < 10; c++) {
            double sum = 0;
            for (int k = 0; k < 20; k++)
                sum += (double)x[i * 20 + k] * (double)map[k * 10 + c];
            if (sum > best) {
                best = sum;
                y[i] = c;
            }
        }
    }
}

static void cnn_data(net *n)
{
    n->x = made(MT_FLOAT32, 4, (const int64_t[]){128, 1, 12, 12});
    n->y = made(MT_INT64, 1, (const int64_t[]){128});
    float *x = mt_data(n->x);
    int64_t *y = mt_data(n->y);
    numbers(x, 128 * 144, 201, 1);
    for (int i = 0; i < 128; i++) {
        y[i] = i * 7 % 10;
        for (int k = 0; k < 12; k++) /* the position of a bright bar is the class */
            x[i * 144 + (y[i] + 1) * 12 + k] += 1.5f;
    }
}

enum {
    VOCABULARY = 64,
    CONTEXT = 32,
    WIDTH = 64,
    HEADS = 4,
    BATCH = 8,
    TEXT = 4096
};

static void gpt_data(net *n)
{
    n->x = made(MT_INT64, 1, (const int64_t[]){TEXT});
    int64_t *x = mt_data(n->x);
    for (int64_t i = 0; i < TEXT; i++)
        x[i] = (i * 7 + i / 5 * 3) % VOCABULARY;
}

static mt_tensor *gpt_loss(net *n, int64_t step)
{
    mt_tensor *rows[BATCH], *targets[BATCH];
    for (int64_t i = 0; i < BATCH; i++) {
        int64_t at = (step * BATCH + i) * 37 % 4000;
        rows[i] = MT(slice, n->x, 0, at, at + CONTEXT);
        targets[i] = MT(slice, n->x, 0, at + 1, at + 1 + CONTEXT);
    }
    mt_tensor *ids = MT(stack, mt_value_tensors(rows, BATCH)),
              *y = MT(stack, mt_value_tensors(targets, BATCH));
    mt_tensor *x =
        MT(add, mt_module_forward(n->parts[0], ids), mt_module_forward(n->parts[1], MT(arange, CONTEXT)));
    mt_tensor *logits = mt_module_forward(n->parts[2], x);
    return MT(cross_entropy_loss, MT(view, logits, MT_SHAPE(-1, VOCABULARY)), MT(view, y, MT_SHAPE(-1)));
}

static void make(net *n, const char *name)
{
    memset(n, 0, sizeof *n);
    n->part_count = 1;
    if (strcmp(name, "mlp") == 0) {
        n->parts[0] = mt_sequential_create(5, mt_linear_create(20, 64, true), mt_activation_create("relu"),
                                           mt_linear_create(64, 64, true), mt_activation_create("tanh"),
                                           mt_linear_create(64, 10, true));
        n->loss = mlp_loss;
        mlp_data(n);
    } else if (strcmp(name, "cnn") == 0) {
        n->parts[0] = mt_sequential_create(9, mt_conv2d_create(1, 8, 3, 1, 1, true),
                                           mt_batch_norm2d_create(8, 1e-5, 0.1), mt_activation_create("relu"),
                                           mt_max_pool2d_create(2), mt_conv2d_create(8, 16, 3, 1, 1, true),
                                           mt_activation_create("relu"), mt_max_pool2d_create(2),
                                           mt_flatten_create(), mt_linear_create(144, 10, true));
        n->loss = cnn_loss;
        cnn_data(n);
    } else if (strcmp(name, "gpt") == 0) {
        n->parts[0] = mt_embedding_create(VOCABULARY, WIDTH);
        n->parts[1] = mt_embedding_create(CONTEXT, WIDTH);
        n->parts[2] = mt_sequential_create(
            4, mt_block_create(WIDTH, HEADS, true), mt_block_create(WIDTH, HEADS, true),
            mt_layer_norm_create(WIDTH, 1e-5), mt_linear_create(WIDTH, VOCABULARY, false));
        n->part_count = 3;
        n->loss = gpt_loss;
        gpt_data(n);
    } else {
        die(name, "unknown model: choose mlp, cnn or gpt");
    }
}

static void fill(net *n, const char *name)
{
    filler f = {0};
    for (unsigned i = 0; i < n->part_count; i++) {
        if (n->parts[i] == NULL)
            die(name, mt_last_error());
        mt_module_visit(n->parts[i], fill_one, &f);
    }
}

static void make_optimizer(net *n, const char *name)
{
    mt_tensor *params[64];
    uint32_t count = 0;
    for (unsigned i = 0; i < n->part_count; i++)
        count += mt_module_parameters(n->parts[i], params + count, 64 - count);
    mt_sgd_options sgd = MT_SGD_OPTIONS;
    mt_adam_options adam = MT_ADAM_OPTIONS;
    mt_adamw_options adamw = MT_ADAMW_OPTIONS;
    sgd.lr = 0.05;
    sgd.momentum = 0.9;
    adamw.weight_decay = 0.1;
    n->optimizer = name[0] == 'm'   ? mt_sgd_create(params, count, &sgd)
                   : name[0] == 'c' ? mt_adam_create(params, count, &adam)
                                    : mt_adamw_create(params, count, &adamw);
    if (n->optimizer == NULL)
        die("the optimizer", mt_last_error());
}

static void move(net *n, mt_device device)
{
    for (unsigned i = 0; i < n->part_count; i++)
        if (mt_module_to(n->parts[i], device) != MT_OK)
            die("the device", mt_last_error());
    mt_tensor **const data[] = {&n->x, &n->y};
    for (int i = 0; i < 2; i++)
        MT_SCOPE
        {
            mt_tensor *there = *data[i] != NULL ? MT(to_device, *data[i], (int64_t)device) : NULL;
            if (there == NULL && *data[i] != NULL)
                die("the device", mt_last_error());
            mt_release(*data[i]);
            *data[i] = there != NULL ? mt_retain(there) : NULL;
        }
    if (mt_set_default_device(device) != MT_OK)
        die("the device", mt_last_error());
}

static double train_step(net *n, int64_t step)
{
    double value = 0;
    MT_SCOPE
    {
        mt_tensor *loss = n->loss(n, step);
        mt_optimizer_zero_grad(n->optimizer);
        if (mt_backward(loss) != MT_OK || mt_optimizer_step(n->optimizer) != MT_OK ||
            mt_item(loss, &value) != MT_OK)
            die("a step", mt_last_error());
    }
    return value;
}

/* ------------------------------------------------------------------------------------------- the profiler */

static mtp_profile *profile_begin(void)
{
    mtp_profile *prof;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = config.profile_memory = config.with_flops = config.with_modules = true;
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK)
        die("the profiler", mtp_last_error());
    return prof;
}

static void profile_end(mtp_profile *prof, const char *path)
{
    mtp_trace *trace;
    mtp_averages *rows;
    mtp_table_options options = MTP_TABLE_OPTIONS_INIT;
    options.sort_by = mt_npu_is_open() ? "self_device_time_total" : "self_cpu_time_total";
    options.row_limit = 20;
    if (mtp_profile_stop(prof) != MTP_OK || mtp_profile_trace(prof, &trace) != MTP_OK ||
        mtp_averages_create(trace, NULL, &rows) != MTP_OK ||
        mtp_averages_table(rows, &options, mtp_sink_file, stderr) != MTP_OK ||
        mtp_trace_export(trace, path, NULL) != MTP_OK)
        die(path, mtp_last_error());
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 5) {
        fprintf(stderr, "usage: train mlp|cnn|gpt [STEPS] [TRACE.json.gz] [cpu|npu]\n");
        return 2;
    }
    net n;
    bool npu = argc > 4 && strcmp(argv[4], "npu") == 0;
    int64_t steps = argc > 2 ? strtoll(argv[2], NULL, 10) : 50;
    make(&n, argv[1]);
    fill(&n, argv[1]);
    if (npu)
        move(&n, MT_NPU(0));
    make_optimizer(&n, argv[1]);
    mtp_profile *prof = argc > 3 && argv[3][0] != 0 ? profile_begin() : NULL;
    for (int64_t step = 0; step < steps; step++) {
        printf("%.9g\n", train_step(&n, step));
        if (prof != NULL)
            mtp_profile_step(prof);
    }
    if (prof != NULL)
        profile_end(prof, argv[3]);
    mt_optimizer_destroy(n.optimizer);
    for (unsigned i = 0; i < n.part_count; i++)
        mt_module_destroy(n.parts[i]);
    mt_release(n.x);
    mt_release(n.y);
    return 0;
}
