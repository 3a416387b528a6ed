/* runtime/nn/modules.c - layers: a table of kinds, each a forward function over the module's
 * tensors and children.
 *
 * Ownership: a module owns tensors[] and children[]. Threads: as for tensors; many may read
 * `training`, one may set it.
 */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include <math.h>
#include <mindtorch_nn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_TENSORS 5

typedef struct kind {
    const char *name;
    mt_tensor *(*forward)(mt_module *m, mt_tensor *x);
    const char *tensors[MOST_TENSORS]; /* names; those after `parameters` are buffers */
    unsigned parameters;
    const char *children[5]; /* names; a sequence numbers them */
} kind;

struct mt_module {
    const kind *kind;
    bool training;
    uint32_t number; /* within its kind, in order of creation: for the profiler */
    uint32_t child_count;
    mt_tensor *tensors[MOST_TENSORS]; /* owned; may be NULL */
    mt_module **children;             /* owned */
    int64_t ints[4];                  /* kernel, stride, padding; heads, causal */
    double numbers[2];                /* eps, momentum; p */
    mt_op_id op;                      /* of an activation */
};

/* ----------------------------------------------------------------------------------------------- forward */

static mt_tensor *linear(mt_module *m, mt_tensor *x)
{
    return MT(linear, x, m->tensors[0], m->tensors[1]);
}

static mt_tensor *embedding(mt_module *m, mt_tensor *x)
{
    return MT(embedding, m->tensors[0], x);
}

static mt_tensor *layer_norm(mt_module *m, mt_tensor *x)
{
    return MT(layer_norm, x, MT_SHAPE(m->ints[0]), m->tensors[0], m->tensors[1], m->numbers[0]);
}

static mt_tensor *batch_norm2d(mt_module *m, mt_tensor *x)
{
    return MT(batch_norm, x, m->tensors[0], m->tensors[1], m->tensors[2], m->tensors[3], m->training,
              m->numbers[1], m->numbers[0], false);
}

static mt_tensor *conv2d(mt_module *m, mt_tensor *x)
{
    return MT(conv2d, x, m->tensors[0], m->tensors[1], MT_SHAPE(m->ints[1], m->ints[1]),
              MT_SHAPE(m->ints[2], m->ints[2]));
}

static mt_tensor *max_pool2d(mt_module *m, mt_tensor *x)
{
    return MT(max_pool2d, x, MT_SHAPE(m->ints[0], m->ints[0]));
}

static mt_tensor *flatten(mt_module *m, mt_tensor *x)
{
    (void)m;
    return MT(flatten, x, 1);
}

static mt_tensor *dropout(mt_module *m, mt_tensor *x)
{
    return MT(dropout, x, m->numbers[0], m->training);
}

static mt_tensor *activation(mt_module *m, mt_tensor *x)
{
    mt_value v = mt_value_tensor(x);
    return mt_call_scoped(m->op, &v, 1);
}

static mt_tensor *sequential(mt_module *m, mt_tensor *x)
{
    for (uint32_t i = 0; i < m->child_count && x != NULL; i++)
        x = mt_module_forward(m->children[i], x);
    return x;
}

static mt_tensor *attention(mt_module *m, mt_tensor *x)
{
    if (x->rank != 3 || x->dims[2] % m->ints[0] != 0)
        return mt__fail_scope(
            mt__fail(MT_E_RUNTIME,
                     "attention expects (batch, time, width) with a width divisible by %lld heads, got %s",
                     (long long)m->ints[0], mt__shape_text(x->dims, x->rank)));
    int64_t b = x->dims[0], t = x->dims[1], width = x->dims[2], heads = m->ints[0];
    mt_tensor *all = mt_module_forward(m->children[0], x), *parts[3];
    for (int64_t i = 0; i < 3; i++) {
        mt_tensor *part = MT(slice, all, 2, i * width, (i + 1) * width);
        parts[i] = MT(transpose, MT(view, part, MT_SHAPE(b, t, heads, width / heads)), 1, 2);
    }
    mt_tensor *y = MT(scaled_dot_product_attention, parts[0], parts[1], parts[2], NULL, 0.0, m->ints[1] != 0);
    return mt_module_forward(m->children[1], MT(reshape, MT(transpose, y, 1, 2), MT_SHAPE(b, t, width)));
}

static mt_tensor *block(mt_module *m, mt_tensor *x)
{
    mt_module **c = m->children; /* norm1, norm2, attention, up, down */
    x = MT(add, x, mt_module_forward(c[2], mt_module_forward(c[0], x)));
    mt_tensor *h = MT(gelu, mt_module_forward(c[3], mt_module_forward(c[1], x)));
    return MT(add, x, mt_module_forward(c[4], h));
}

static const kind linear_kind = {"Linear", linear, {"weight", "bias"}, 2, {NULL}};
static const kind embedding_kind = {"Embedding", embedding, {"weight"}, 1, {NULL}};
static const kind layer_norm_kind = {"LayerNorm", layer_norm, {"weight", "bias"}, 2, {NULL}};
static const kind batch_norm2d_kind = {
    "BatchNorm2d", batch_norm2d, {"weight", "bias", "running_mean", "running_var"}, 2, {NULL}};
static const kind conv2d_kind = {"Conv2d", conv2d, {"weight", "bias"}, 2, {NULL}};
static const kind max_pool2d_kind = {"MaxPool2d", max_pool2d, {NULL}, 0, {NULL}};
static const kind flatten_kind = {"Flatten", flatten, {NULL}, 0, {NULL}};
static const kind dropout_kind = {"Dropout", dropout, {NULL}, 0, {NULL}};
static const kind activation_kind = {"Activation", activation, {NULL}, 0, {NULL}};
static const kind sequential_kind = {"Sequential", sequential, {NULL}, 0, {NULL}};
static const kind attention_kind = {"Attention", attention, {NULL}, 0, {"qkv", "out"}};
static const kind block_kind = {"Block", block, {NULL}, 0, {"norm1", "norm2", "attention", "up", "down"}};

mt_tensor *mt_module_forward(mt_module *m, mt_tensor *x)
{
    if (mt_scope_status() != MT_OK)
        return NULL;
    if (m == NULL || x == NULL)
        return mt__fail_scope(
            mt__fail(MT_E_VALUE, "mt_module_forward: %s is NULL", m == NULL ? "the module" : "its input"));
    if (MT__LIKELY(!(mtp_recording() & MTP_WITH_MODULES)))
        return m->kind->forward(m, x);
    char name[64];
    snprintf(name, sizeof name, "nn.Module: %s_%u", m->kind->name, m->number);
    mtp_op record = MTP_OP_INIT(0);
    record.kind = MTP_SCOPE_MODULE;
    mtp_op_begin_text(&record, name, strlen(name));
    mt_tensor *y = m->kind->forward(m, x);
    mtp_op_end(&record);
    return y;
}

/* ------------------------------------------------------------------------------------------------- making */

/* Modules are numbered within their kind, as PyTorch's profiler does. */
static uint32_t next_number(const kind *k)
{
    static struct {
        const kind *kind;
        uint32_t count;
    } seen[16]; /* more than there are kinds; numbers are for display only: a race may repeat one */
    for (unsigned i = 0; i < MT__COUNT_OF(seen); i++) {
        if (seen[i].kind == NULL)
            seen[i].kind = k;
        if (seen[i].kind == k)
            return seen[i].count++;
    }
    return 0;
}

static mt_module *make(const kind *k, uint32_t children)
{
    mt_module *m = calloc(1, sizeof *m);
    if (m != NULL && children > 0 && (m->children = calloc(children, sizeof(mt_module *))) == NULL) {
        free(m);
        m = NULL;
    }
    if (m == NULL) {
        mt__fail(MT_E_NOMEM, "out of memory: a %s module", k->name);
        return NULL;
    }
    m->kind = k;
    m->training = true;
    m->child_count = children;
    m->number = next_number(k);
    return m;
}

/* Adds a new tensor of that shape, filled by an in-place op with two numbers. */
static mt_status add_tensor(mt_module *m, unsigned slot, int rank, const int64_t *dims, mt_op_id fill,
                            double a, double b)
{
    mt_tensor *t, *same = NULL;
    mt_status status = mt_tensor_create(MT_FLOAT32, MT_CPU, rank, dims, &t);
    if (status != MT_OK)
        return status;
    mt_value args[] = {mt_value_tensor(t), mt_value_float(a), mt_value_float(b)};
    status = mt_call(fill, args, fill == MT_OP_fill_ ? 2 : 3, &same);
    mt_release(same);
    if (status == MT_OK && slot < m->kind->parameters) {
        t->flags |= MT__IS_PARAMETER;
        mt_tensor_tag(t, MTP_MEMORY_PARAMETER);
        status = mt_set_requires_grad(t, true);
    }
    if (status != MT_OK) {
        mt_release(t);
        return status;
    }
    m->tensors[slot] = t;
    return MT_OK;
}

static mt_module *done(mt_module *m, mt_status status)
{
    if (status == MT_OK)
        return m;
    mt_module_destroy(m);
    return NULL;
}

static mt_status check_sizes(const char *what, int64_t a, int64_t b)
{
    return a > 0 && b > 0 ? MT_OK
                          : mt__fail(MT_E_VALUE, "%s: sizes must be positive, got %lld and %lld", what,
                                     (long long)a, (long long)b);
}

mt_module *mt_linear_create(int64_t in, int64_t out, bool bias)
{
    mt_module *m = check_sizes("Linear", in, out) == MT_OK ? make(&linear_kind, 0) : NULL;
    if (m == NULL)
        return NULL;
    double bound = 1 / sqrt((double)in);
    mt_status status = add_tensor(m, 0, 2, (const int64_t[]){out, in}, MT_OP_uniform_, -bound, bound);
    if (status == MT_OK && bias)
        status = add_tensor(m, 1, 1, &out, MT_OP_uniform_, -bound, bound);
    return done(m, status);
}

mt_module *mt_embedding_create(int64_t count, int64_t width)
{
    mt_module *m = check_sizes("Embedding", count, width) == MT_OK ? make(&embedding_kind, 0) : NULL;
    return m == NULL ? NULL
                     : done(m, add_tensor(m, 0, 2, (const int64_t[]){count, width}, MT_OP_normal_, 0, 1));
}

mt_module *mt_layer_norm_create(int64_t width, double eps)
{
    mt_module *m = check_sizes("LayerNorm", width, 1) == MT_OK ? make(&layer_norm_kind, 0) : NULL;
    if (m == NULL)
        return NULL;
    m->ints[0] = width;
    m->numbers[0] = eps;
    mt_status status = add_tensor(m, 0, 1, &width, MT_OP_fill_, 1, 0);
    return done(m, status == MT_OK ? add_tensor(m, 1, 1, &width, MT_OP_fill_, 0, 0) : status);
}

mt_module *mt_batch_norm2d_create(int64_t channels, double eps, double momentum)
{
    static const double values[] = {1, 0, 0, 1}; /* weight, bias, running_mean, running_var */
    mt_module *m = check_sizes("BatchNorm2d", channels, 1) == MT_OK ? make(&batch_norm2d_kind, 0) : NULL;
    if (m == NULL)
        return NULL;
    m->numbers[0] = eps;
    m->numbers[1] = momentum;
    mt_status status = MT_OK;
    for (unsigned i = 0; i < 4 && status == MT_OK; i++)
        status = add_tensor(m, i, 1, &channels, MT_OP_fill_, values[i], 0);
    return done(m, status);
}

mt_module *mt_conv2d_create(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
                            bool bias)
{
    mt_status status = check_sizes("Conv2d", in, out);
    if (status == MT_OK)
        status = check_sizes("Conv2d", kernel, stride);
    mt_module *m = status == MT_OK ? make(&conv2d_kind, 0) : NULL;
    if (m == NULL)
        return NULL;
    memcpy(m->ints, (const int64_t[]){kernel, stride, padding}, 3 * sizeof(int64_t));
    double bound = 1 / sqrt((double)(in * kernel * kernel));
    status = add_tensor(m, 0, 4, (const int64_t[]){out, in, kernel, kernel}, MT_OP_uniform_, -bound, bound);
    if (status == MT_OK && bias)
        status = add_tensor(m, 1, 1, &out, MT_OP_uniform_, -bound, bound);
    return done(m, status);
}

mt_module *mt_max_pool2d_create(int64_t kernel)
{
    mt_module *m = check_sizes("MaxPool2d", kernel, 1) == MT_OK ? make(&max_pool2d_kind, 0) : NULL;
    if (m != NULL)
        m->ints[0] = kernel;
    return m;
}

mt_module *mt_flatten_create(void)
{
    return make(&flatten_kind, 0);
}

mt_module *mt_dropout_create(double p)
{
    if (!(p >= 0 && p <= 1)) {
        mt__fail(MT_E_VALUE, "dropout probability has to be between 0 and 1, but got %g", p);
        return NULL;
    }
    mt_module *m = make(&dropout_kind, 0);
    if (m != NULL)
        m->numbers[0] = p;
    return m;
}

mt_module *mt_activation_create(const char *op)
{
    static const char *const known[] = {"relu", "gelu", "silu", "tanh", "sigmoid"};
    unsigned i = 0;
    while (i < MT__COUNT_OF(known) && strcmp(known[i], op) != 0)
        i++;
    if (i == MT__COUNT_OF(known)) {
        mt__fail(MT_E_VALUE, "\"%s\" is not an activation: relu, gelu, silu, tanh or sigmoid", op);
        return NULL;
    }
    mt_module *m = make(&activation_kind, 0);
    if (m != NULL)
        mt_op_find(op, &m->op);
    return m;
}

/* Takes the children; if one is NULL, destroys the others and returns NULL. */
static mt_module *adopt(const kind *k, mt_module **children, uint32_t count)
{
    mt_module *m = make(k, count);
    bool whole = m != NULL;
    for (uint32_t i = 0; i < count; i++) {
        whole &= children[i] != NULL;
        if (m != NULL)
            m->children[i] = children[i];
        else
            mt_module_destroy(children[i]);
    }
    if (whole)
        return m;
    mt_module_destroy(m);
    return NULL;
}

mt_module *mt_attention_create(int64_t width, int64_t heads, bool causal)
{
    if (heads <= 0 || width <= 0 || width % heads != 0) {
        mt__fail(MT_E_VALUE, "attention: %lld heads do not divide a width of %lld", (long long)heads,
                 (long long)width);
        return NULL;
    }
    mt_module *children[] = {mt_linear_create(width, 3 * width, true), mt_linear_create(width, width, true)};
    mt_module *m = adopt(&attention_kind, children, 2);
    if (m != NULL) {
        m->ints[0] = heads;
        m->ints[1] = causal;
    }
    return m;
}

mt_module *mt_block_create(int64_t width, int64_t heads, bool causal)
{
    mt_module *children[] = {mt_layer_norm_create(width, 1e-5), mt_layer_norm_create(width, 1e-5),
                             mt_attention_create(width, heads, causal),
                             mt_linear_create(width, 4 * width, true),
                             mt_linear_create(4 * width, width, true)};
    return adopt(&block_kind, children, 5);
}

mt_module *mt_sequential_create(unsigned count, ...)
{
    mt_module *children[64];
    va_list list;
    va_start(list, count);
    for (unsigned i = 0; i < count; i++) {
        mt_module *child = va_arg(list, mt_module *);
        if (i < 64)
            children[i] = child;
        else
            mt_module_destroy(child);
    }
    va_end(list);
    if (count > 64) {
        for (unsigned i = 0; i < 64; i++)
            mt_module_destroy(children[i]);
        mt__fail(MT_E_VALUE, "mt_sequential_create: at most 64 modules, got %u: nest them", count);
        return NULL;
    }
    return adopt(&sequential_kind, children, count);
}

void mt_module_destroy(mt_module *m)
{
    if (m == NULL)
        return;
    for (unsigned i = 0; i < MOST_TENSORS; i++)
        mt_release(m->tensors[i]);
    for (uint32_t i = 0; i < m->child_count; i++)
        mt_module_destroy(m->children[i]);
    free(m->children);
    free(m);
}

void mt_module_train(mt_module *m, bool training)
{
    m->training = training;
    for (uint32_t i = 0; i < m->child_count; i++)
        mt_module_train(m->children[i], training);
}

/* ------------------------------------------------------------------------------------------------ visiting */

static void visit_below(mt_module *m, const char *prefix, mt_module_visit_fn *visit, void *user)
{
    char name[256];
    for (unsigned i = 0; i < MOST_TENSORS; i++)
        if (m->tensors[i] != NULL) {
            snprintf(name, sizeof name, "%s%s", prefix, m->kind->tensors[i]);
            visit(user, name, m->tensors[i], i < m->kind->parameters);
        }
    for (uint32_t i = 0; i < m->child_count; i++) {
        if (m->kind->children[0] != NULL)
            snprintf(name, sizeof name, "%s%s.", prefix, m->kind->children[i]);
        else
            snprintf(name, sizeof name, "%s%u.", prefix, i);
        visit_below(m->children[i], name, visit, user);
    }
}

void mt_module_visit(mt_module *module, mt_module_visit_fn *visit, void *user)
{
    visit_below(module, "", visit, user);
}

typedef struct gathered {
    mt_tensor **out;
    uint32_t count, room;
} gathered;

static void gather(void *user, const char *name, mt_tensor *t, bool is_parameter)
{
    gathered *g = user;
    (void)name;
    if (!is_parameter)
        return;
    if (g->count < g->room)
        g->out[g->count] = t;
    g->count++;
}

uint32_t mt_module_parameters(mt_module *module, mt_tensor **out, uint32_t room)
{
    gathered g = {out, 0, room};
    mt_module_visit(module, gather, &g);
    return g.count;
}

typedef struct move {
    mt_device device;
    mt_status status;
} move;

static void move_one(void *user, const char *name, mt_tensor *t, bool is_parameter)
{
    move *m = user;
    (void)name, (void)is_parameter;
    if (m->status != MT_OK || mt_device_of(t) == m->device)
        return;
    mt_value args[] = {mt_value_tensor(t), mt_value_none(NULL), mt_value_int(m->device)};
    mt_tensor *there = NULL;
    bool was = mt_grad_enable(false);
    m->status = mt_call(MT_OP__to_copy, args, 3, &there);
    mt_grad_enable(was);
    if (m->status == MT_OK)
        m->status = mt_set_data(t, there);
    mt_release(there);
}

mt_status mt_module_to(mt_module *module, mt_device device)
{
    move m = {device, MT_OK};
    mt_module_visit(module, move_one, &m);
    return m.status;
}
